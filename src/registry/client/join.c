/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining: who makes himself known also wants to know of the others. Neither
 * depends on the other's reply, so both are asked for at once.
 */
#include "client.h"

#include <errno.h>

#include "base/error.h"
#include "call.h"
#include "watch.h"

static void fill_watch(Dfi__Registry__Request *request,
    Dfi__Registry__Watch *op, const struct registry_interest *interest)
{
	dfi__registry__request__init(request);
	dfi__registry__watch__init(op);
	op->prefix = (char *)interest->prefix;
	op->exact = interest->exact;
	request->op_case = DFI__REGISTRY__REQUEST__OP_WATCH;
	request->watch = op;
}

static void fill_create(Dfi__Registry__Request *request, Dfi__Registry__Put *op,
    const struct registry_entry *entry)
{
	dfi__registry__request__init(request);
	dfi__registry__put__init(op);
	op->key = (char *)entry->key;
	op->value.data = (uint8_t *)entry->value;
	op->value.len = entry->size;
	op->create = true;
	op->leased = true;
	request->op_case = DFI__REGISTRY__REQUEST__OP_PUT;
	request->put = op;
}

/*
 * The last call creates, the others watch. What has succeeded if another has
 * not is taken back.
 */
static int settle(struct client_call *calls, size_t n)
{
	struct client_call *create = &calls[n - 1];
	int ret = 0;
	size_t i;

	for (i = n; i > 0; i--) {
		if (!ret)
			ret = dfi__client_call_result(&calls[i - 1]);
		dfi__wire_free(calls[i - 1].reply);
	}
	if (!ret)
		return 0;
	if (!create->ret)
		dfi__client_forget(create->client, create->request->put->key);
	for (i = 0; i < n - 1; i++)
		if (calls[i].ret)
			dfi__watch_free(calls[i].watch);
		else
			dfi__client_unwatch(calls[i].watch);
	return ret;
}

static int out_of_memory(struct client_call *calls, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		dfi__watch_free(calls[i].watch);
	return dfi__fail(-ENOMEM, "no memory for a registry watch");
}

int dfi__client_join(struct registry_client *client,
    struct registry_interest *interests, size_t n, struct registry_entry *entry,
    int64_t deadline)
{
	Dfi__Registry__Request requests[CLIENT_INTERESTS + 1];
	Dfi__Registry__Watch watch_ops[CLIENT_INTERESTS];
	struct client_call calls[CLIENT_INTERESTS + 1] = { 0 };
	Dfi__Registry__Put put_op;
	size_t i;
	int ret;

	for (i = 0; i < n; i++) {
		fill_watch(&requests[i], &watch_ops[i], &interests[i]);
		calls[i].client = client;
		calls[i].request = &requests[i];
		calls[i].watch = dfi__watch_new(client, interests[i].prefix,
		    interests[i].fn, interests[i].arg);
		if (!calls[i].watch)
			return out_of_memory(calls, i);
		calls[i].watch->exact = interests[i].exact;
	}
	fill_create(&requests[n], &put_op, entry);
	calls[n].client = client;
	calls[n].request = &requests[n];
	calls[n].keep_flags = CLIENT_LEASED;
	ret = dfi__client_call_all(calls, n + 1, deadline);
	if (ret) {
		for (i = 0; i < n; i++)
			dfi__watch_free(calls[i].watch);
		return ret;
	}
	if (!calls[n].ret)
		entry->revision = calls[n].reply->reply->revision;
	ret = settle(calls, n + 1);
	for (i = 0; !ret && i < n; i++)
		interests[i].watch = calls[i].watch;
	return ret;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining: who makes himself known also wants to know of the others. Neither
 * depends on the other's reply, so both are asked for at once.
 */
#include "client_impl.h"

#include <errno.h>

#include "base/error.h"

static void fill_watch(Dfi__Registry__Request *request,
    Dfi__Registry__Watch *op, const char *prefix)
{
	dfi__registry__request__init(request);
	dfi__registry__watch__init(op);
	op->prefix = (char *)prefix;
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

/* What has succeeded if the other has not is taken back. */
static int settle(struct client_call *watch, struct client_call *create)
{
	int ret = dfi__client_call_result(create);

	if (!ret)
		ret = dfi__client_call_result(watch);
	dfi__wire_free(create->reply);
	dfi__wire_free(watch->reply);
	if (!ret)
		return 0;
	if (!create->ret)
		dfi__client_forget(create->client, create->request->put->key);
	if (watch->ret)
		dfi__watch_free(watch->watch);
	else
		dfi__client_unwatch(watch->watch);
	return ret;
}

int dfi__client_watch_and_create(struct registry_client *client,
    const char *prefix,
    void (*fn)(void *arg, const struct registry_event *event), void *arg,
    const struct registry_entry *entry, int64_t deadline,
    struct registry_watch **watch)
{
	struct registry_watch *new = dfi__watch_new(client, prefix, fn, arg);
	Dfi__Registry__Request watch_request, put_request;
	Dfi__Registry__Watch watch_op;
	Dfi__Registry__Put put_op;
	struct client_call calls[] = {
		{ .client = client, .request = &watch_request, .watch = new },
		{ .client = client,
		    .request = &put_request,
		    .keep_flags = CLIENT_LEASED },
	};
	int ret;

	if (!new)
		return dfi__fail(-ENOMEM, "no memory for a registry watch");
	fill_watch(&watch_request, &watch_op, prefix);
	fill_create(&put_request, &put_op, entry);
	ret = dfi__client_call_all(calls, 2, deadline);
	if (ret) {
		dfi__watch_free(new);
		return ret;
	}
	ret = settle(&calls[0], &calls[1]);
	if (!ret)
		*watch = new;
	return ret;
}

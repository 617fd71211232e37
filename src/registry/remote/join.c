/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining: a process that publishes a key also watches the keys of others.
 * Neither request depends on the other's reply, so both are sent at once.
 */
#include "state.h"

#include <errno.h>

#include "base/error.h"
#include "call.h"
#include "keys.h"
#include "watch.h"

static void fill_create(Dfi__Registry__Request *request, Dfi__Registry__Put *op,
    const struct registry_entry *entry)
{
	*request = (Dfi__Registry__Request)WIRE_REQUEST(PUT, put, op);
	dfi__registry__put__init(op);
	op->key = (char *)entry->key;
	op->value.data = (uint8_t *)entry->value;
	op->value.len = entry->size;
	op->create = true;
	op->leased = true;
}

/* Undo a call after another failed. One without a watch creates. */
static void take_back(struct client_call *call)
{
	if (call->watch && call->ret)
		dfi__watch_free(call->watch);
	else if (call->watch)
		dfi__remote_unwatch(&call->watch->base);
	else if (!call->ret)
		dfi__remote_retire(
		    &call->client->base, call->request->put->key, NULL, 0);
}

/* Returns the error of the last call that failed. */
static int settle(struct client_call *calls, size_t n)
{
	int ret = 0;
	size_t i;

	for (i = n; i > 0; i--) {
		if (!ret)
			ret = dfi__client_call_result(&calls[i - 1]);
		dfi__wire_free(calls[i - 1].reply);
	}
	for (i = n; ret && i > 0; i--)
		take_back(&calls[i - 1]);
	return ret;
}

static int fail_watches(struct client_call *calls, size_t n)
{
	while (n > 0)
		dfi__watch_free(calls[--n].watch);
	return dfi__fail(-ENOMEM, "no memory for a registry watch");
}

int dfi__remote_join(struct registry_client *base,
    struct registry_interest *interests, size_t n, struct registry_entry *entry,
    int64_t deadline)
{
	Dfi__Registry__Request requests[CLIENT_INTERESTS + 1];
	Dfi__Registry__Watch watch_ops[CLIENT_INTERESTS];
	struct client_call calls[CLIENT_INTERESTS + 1] = { 0 };
	struct remote_client *client = remote_of(base);
	size_t i, n_calls = entry ? n + 1 : n;
	Dfi__Registry__Put put_op;
	int ret;

	for (i = 0; i < n_calls; i++) {
		calls[i].client = client;
		calls[i].request = &requests[i];
	}
	for (i = 0; i < n; i++) {
		calls[i].watch = dfi__watch_new(client, &interests[i]);
		if (!calls[i].watch)
			return fail_watches(calls, i);
		dfi__watch_fill(calls[i].watch, &requests[i], &watch_ops[i]);
	}
	if (entry) {
		fill_create(&requests[n], &put_op, entry);
		calls[n].keep_flags = CLIENT_LEASED;
	}
	dfi__client_call_all(calls, n_calls, deadline);
	if (entry && !calls[n].ret)
		entry->revision = calls[n].reply->reply->revision;
	ret = settle(calls, n_calls);
	for (i = 0; !ret && i < n; i++)
		interests[i].watch = &calls[i].watch->base;
	return ret;
}

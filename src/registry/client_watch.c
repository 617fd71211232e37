/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's watches: a list that only the loop's thread touches. Events are
 * delivered right as they arrive, so removing a watch on the loop's thread is
 * enough to know that its function doesn't run any more.
 */
#include "client_impl.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/loop.h"

void dfi__watch_deliver(
    struct registry_client *client, const Dfi__Registry__Event *message)
{
	const Dfi__Registry__Value *value = message->value;
	struct registry_event event = { .type = REGISTRY_DELETE };
	struct registry_watch *watch;

	if (!value) {
		dfi__client_lose(client, -EPROTO,
		    "what answers there is no registry: an empty event");
		return;
	}
	if (message->type == DFI__REGISTRY__EVENT_TYPE__PUT)
		event.type = REGISTRY_PUT;
	event.key = value->key;
	event.data = value->data.data;
	event.size = value->data.len;
	event.revision = value->revision;
	/* Not found: it was ended while the event was under way. */
	TAILQ_FOREACH(watch, &client->watches, link)
	{
		if (watch->id != message->watch)
			continue;
		watch->fn(watch->arg, &event);
		return;
	}
}

static struct registry_watch *next_untold(struct registry_client *client)
{
	struct registry_watch *watch;

	TAILQ_FOREACH(watch, &client->watches, link)
	{
		if (watch->made && !watch->told)
			return watch;
	}
	return NULL;
}

void dfi__watch_deliver_lost(struct registry_client *client)
{
	struct registry_event event = { .type = REGISTRY_LOST };
	struct registry_watch *watch;

	/* From the start each time: the function may end any watch. */
	while ((watch = next_untold(client))) {
		watch->told = true;
		watch->fn(watch->arg, &event);
	}
}

void dfi__watch_free_all(struct registry_client *client)
{
	struct registry_watch *watch, *next;

	for (watch = TAILQ_FIRST(&client->watches); watch; watch = next) {
		next = TAILQ_NEXT(watch, link);
		if (!watch->made)
			continue;
		TAILQ_REMOVE(&client->watches, watch, link);
		free(watch);
	}
}

int dfi__client_watch(struct registry_client *client, const char *prefix,
    void (*fn)(void *arg, const struct registry_event *event), void *arg,
    int64_t deadline, struct registry_watch **watch)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Watch op = DFI__REGISTRY__WATCH__INIT;
	struct registry_watch *new = calloc(1, sizeof(*new));
	int ret;

	if (!new)
		return dfi__fail(-ENOMEM, "no memory for a registry watch");
	new->client = client;
	new->fn = fn;
	new->arg = arg;
	op.prefix = (char *)prefix;
	request.op_case = DFI__REGISTRY__REQUEST__OP_WATCH;
	request.watch = &op;
	ret = dfi__client_call(client, &request, new, deadline, NULL);
	if (ret) {
		free(new);
		return ret;
	}
	*watch = new;
	return 0;
}

static int end(void *arg)
{
	struct registry_watch *watch = arg;
	struct registry_client *client = watch->client;
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Unwatch op = DFI__REGISTRY__UNWATCH__INIT;

	TAILQ_REMOVE(&client->watches, watch, link);
	op.watch = watch->id;
	request.op_case = DFI__REGISTRY__REQUEST__OP_UNWATCH;
	request.unwatch = &op;
	/* If it can't be sent, its events go on and are dropped here. */
	if (client->stream)
		dfi__client_send(client, &request);
	free(watch);
	return 0;
}

void dfi__client_unwatch(struct registry_watch *watch)
{
	if (watch)
		dfi__loop_call(watch->client->loop, end, watch);
}

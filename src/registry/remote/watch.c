/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's watches: a list for walks, and a tree for finding the one that
 * an event is for. Events are delivered as they arrive, so the thread that has
 * entered the client and removes a watch knows that its function doesn't run
 * any more.
 *
 * Each watch keeps the keys that it has reported, so that it can tell what has
 * changed when a restarted registry has none of them at first.
 */
#include "watch.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.h"
#include "call.h"
#include "enter.h"
#include "keys.h"
#include "restore.h"
#include "state.h"

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = ((const struct remote_watch *)a)->id;
	uint64_t y = ((const struct remote_watch *)b)->id;

	return x < y ? -1 : x > y;
}

struct remote_watch *dfi__watch_find(
    const struct remote_client *client, uint64_t id)
{
	struct remote_watch probe = { .id = id };
	void *node = tfind(&probe, &client->watch_tree, compare_ids);

	return node ? *(struct remote_watch **)node : NULL;
}

static int fail_memory(void)
{
	return dfi__fail(-ENOMEM, "no memory for a registry watch");
}

int dfi__watch_add(
    struct remote_client *client, struct remote_watch *watch, uint64_t id)
{
	watch->id = id;
	if (!tsearch(watch, &client->watch_tree, compare_ids)) {
		dfi__client_send_unwatch(client, id);
		return fail_memory();
	}
	TAILQ_INSERT_TAIL(&client->watches, watch, link);
	return 0;
}

void dfi__watch_remove(struct remote_client *client, struct remote_watch *watch)
{
	if (client->next_watch == watch)
		client->next_watch = TAILQ_NEXT(watch, link);
	TAILQ_REMOVE(&client->watches, watch, link);
	tdelete(watch, &client->watch_tree, compare_ids);
}

/* Hash 0 means: not reported before. */
static uint64_t hash_value(
    const struct remote_client *client, const struct registry_event *event)
{
	uint64_t hash = XXH3_64bits_withSeed(
	    event->size ? event->data : "", event->size, client->hash_seed);

	return hash ? hash : 1;
}

static void deliver(struct remote_client *client, uint64_t id,
    const struct registry_event *event)
{
	struct registry_event gone = {
		.type = REGISTRY_DELETE,
		.replaced = true,
	};
	struct remote_watch *watch = dfi__watch_find(client, id);
	bool add = event->type == REGISTRY_PUT, missing;
	struct reported_key *reported;
	uint64_t hash;

	/* The watch was ended while the event travelled. */
	if (!watch)
		return;
	reported = dfi__reported(&watch->keys, event->key, add);
	/* It was deleted before the snapshot, in pages, reached it. */
	if (!add && !reported && !watch->exact)
		return;
	if (!add)
		dfi__reported_forget(&watch->keys, reported);
	if (add && !reported) {
		dfi__client_lose(client, -ENOMEM, "no memory for its keys");
		return;
	}
	if (add) {
		hash = hash_value(client, event);
		missing = reported->missing;
		reported->missing = false;
		if (missing && reported->hash == hash)
			return;
		reported->hash = hash;
		gone.key = event->key;
		if (missing)
			watch->fn(watch->arg, &gone);
		/* fn may have ended the watch. */
		if (missing && !dfi__watch_find(client, id))
			return;
	}
	watch->fn(watch->arg, event);
}

void dfi__watch_deliver(
    struct remote_client *client, const Dfi__Registry__Event *message)
{
	const Dfi__Registry__Value *value = message->value;
	struct registry_event event = { .type = REGISTRY_DELETE };

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
	if (!client->restoring && event.revision > client->revision)
		client->revision = event.revision;
	deliver(client, message->watch, &event);
}

void dfi__watch_notify(
    struct remote_client *client, enum registry_event_type type)
{
	struct registry_event event = { .type = type };
	struct remote_watch *watch;

	/* The function may end any watch, see dfi__watch_remove(). */
	client->next_watch = TAILQ_FIRST(&client->watches);
	while ((watch = client->next_watch)) {
		client->next_watch = TAILQ_NEXT(watch, link);
		if (!watch->made || watch->reported == type)
			continue;
		watch->reported = type;
		watch->fn(watch->arg, &event);
	}
}

void dfi__watch_fill(const struct remote_watch *watch,
    Dfi__Registry__Request *request, Dfi__Registry__Watch *op)
{
	*request = (Dfi__Registry__Request)WIRE_REQUEST(WATCH, watch, op);
	dfi__registry__watch__init(op);
	op->prefix = watch->prefix;
	op->exact = watch->exact;
	op->follow = watch->own;
}

void dfi__watch_refused(struct remote_watch *watch)
{
	tdestroy(watch->keys.tree, free);
	watch->keys.tree = NULL;
}

int dfi__watch_renew(struct remote_client *client, struct remote_watch *watch)
{
	Dfi__Registry__Request request;
	Dfi__Registry__Watch op;
	int ret;

	dfi__reported_miss(&watch->keys);
	dfi__watch_fill(watch, &request, &op);
	ret = dfi__client_send(client, &request);
	if (ret)
		return ret;
	/* Without memory it stays in the list, for the next attempt. */
	tdelete(watch, &client->watch_tree, compare_ids);
	watch->id = request.id;
	return tsearch(watch, &client->watch_tree, compare_ids) ? 0
								: fail_memory();
}

void dfi__watch_expire_missing(struct remote_client *client)
{
	struct registry_event event = { .type = REGISTRY_DELETE };
	struct remote_watch *watch;
	struct reported_key *reported;

	TAILQ_FOREACH(watch, &client->watches, link)
	{
		dfi__reported_expire(&watch->keys);
	}
	/* The function may end any watch, see dfi__watch_remove(). */
	client->next_watch = TAILQ_FIRST(&client->watches);
	while ((watch = client->next_watch)) {
		reported = dfi__reported_take(&watch->keys);
		if (!reported) {
			client->next_watch = TAILQ_NEXT(watch, link);
			continue;
		}
		event.key = reported->key;
		watch->fn(watch->arg, &event);
		free(reported);
	}
}

void dfi__watch_free(struct remote_watch *watch)
{
	dfi__reported_free(&watch->keys);
	free(watch->prefix);
	free(watch);
}

struct remote_watch *dfi__watch_new(
    struct remote_client *client, const struct registry_interest *interest)
{
	struct remote_watch *watch = calloc(1, sizeof(*watch));

	if (watch)
		watch->prefix = strdup(interest->prefix);
	if (!watch || !watch->prefix) {
		free(watch);
		return NULL;
	}
	watch->base.client = &client->base;
	watch->reported = REGISTRY_BACK;
	watch->exact = interest->exact;
	watch->fn = interest->fn;
	watch->arg = interest->arg;
	return watch;
}

struct remote_watch *dfi__watch_follow(struct remote_client *client,
    uint64_t id, const struct registry_interest *interest)
{
	struct remote_watch *watch = dfi__watch_new(client, interest);

	if (!watch) {
		dfi__client_send_unwatch(client, id);
		return NULL;
	}
	if (dfi__watch_add(client, watch, id)) {
		dfi__watch_free(watch);
		return NULL;
	}
	watch->made = watch->own = true;
	return watch;
}

void dfi__watch_free_all(struct remote_client *client)
{
	struct remote_watch *watch, *next;

	for (watch = TAILQ_FIRST(&client->watches); watch; watch = next) {
		next = TAILQ_NEXT(watch, link);
		if (!watch->made)
			continue;
		dfi__watch_remove(client, watch);
		dfi__watch_free(watch);
	}
}

void dfi__client_send_unwatch(struct remote_client *client, uint64_t id)
{
	Dfi__Registry__Unwatch op = DFI__REGISTRY__UNWATCH__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(UNWATCH, unwatch, &op);

	op.watch = id;
	/* If it can't be sent, events still come and are dropped here. */
	if (client->stream)
		dfi__client_send(client, &request);
}

static int end(void *arg)
{
	struct remote_watch *watch = arg;
	struct remote_client *client = remote_of(watch->base.client);

	dfi__watch_remove(client, watch);
	if (watch->asked)
		dfi__restore_forget(client);
	dfi__client_send_unwatch(client, watch->id);
	dfi__watch_free(watch);
	return 0;
}

void dfi__remote_unwatch(struct registry_watch *base)
{
	dfi__client_do_infallible(remote_of(base->client), end, base);
}

struct leaving {
	struct registry_watch *watch;
	const char *key;
};

static int leave(void *arg)
{
	const struct leaving *leaving = arg;

	dfi__client_withdraw(remote_of(leaving->watch->client), leaving->key);
	return end(leaving->watch);
}

void dfi__remote_leave(struct registry_watch *base, const char *key)
{
	struct leaving leaving = { .watch = base, .key = key };

	dfi__client_do_infallible(remote_of(base->client), leave, &leaving);
}

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

/* A key that a watch has reported. */
struct known_key {
	struct known_key *next; /* in a watch's expired */
	uint64_t hash;          /* of its value */
	/* The registry has not named it since the connection is back. */
	bool missing;
	char key[];
};

static int compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct known_key *)a)->key,
	    ((const struct known_key *)b)->key);
}

/* Find a key, or add it if requested. NULL: not found, or no memory. */
static struct known_key *know(
    struct remote_watch *watch, const char *key, bool add)
{
	size_t size = strlen(key) + 1;
	struct known_key *probe = calloc(1, sizeof(*probe) + size);
	void *node;

	if (!probe)
		return NULL;
	memcpy(probe->key, key, size);
	node = add ? tsearch(probe, &watch->known, compare_keys)
		   : tfind(probe, &watch->known, compare_keys);
	if (!node || *(struct known_key **)node != probe)
		free(probe);
	return node ? *(struct known_key **)node : NULL;
}

static void forget(struct remote_watch *watch, struct known_key *known)
{
	tdelete(known, &watch->known, compare_keys);
	free(known);
}

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
	struct known_key *known;
	uint64_t hash;

	/* The watch was ended while the event travelled. */
	if (!watch)
		return;
	known = know(watch, event->key, add);
	/* It was deleted before the snapshot, in pages, reached it. */
	if (!add && !known && !watch->exact)
		return;
	if (!add)
		forget(watch, known);
	if (add && !known) {
		dfi__client_lose(client, -ENOMEM, "no memory for its keys");
		return;
	}
	if (add) {
		hash = hash_value(client, event);
		missing = known->missing;
		known->missing = false;
		if (missing && known->hash == hash)
			return;
		known->hash = hash;
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

static void mark_missing(const void *node, VISIT visit, void *arg)
{
	(void)arg;
	if (visit == postorder || visit == leaf)
		(*(struct known_key *const *)node)->missing = true;
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
	tdestroy(watch->known, free);
	watch->known = NULL;
}

int dfi__watch_renew(struct remote_client *client, struct remote_watch *watch)
{
	Dfi__Registry__Request request;
	Dfi__Registry__Watch op;
	int ret;

	twalk_r(watch->known, mark_missing, NULL);
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

static void collect_missing(const void *node, VISIT visit, void *arg)
{
	struct known_key *known = *(struct known_key *const *)node;
	struct remote_watch *watch = arg;

	if ((visit == postorder || visit == leaf) && known->missing) {
		known->next = watch->expired;
		watch->expired = known;
	}
}

/* Collect all missing keys in one walk. */
static void take_missing(struct remote_watch *watch)
{
	struct known_key *known;

	twalk_r(watch->known, collect_missing, watch);
	for (known = watch->expired; known; known = known->next)
		tdelete(known, &watch->known, compare_keys);
}

void dfi__watch_expire_missing(struct remote_client *client)
{
	struct registry_event event = { .type = REGISTRY_DELETE };
	struct remote_watch *watch;
	struct known_key *known;

	TAILQ_FOREACH(watch, &client->watches, link)
	{
		take_missing(watch);
	}
	/* The function may end any watch, see dfi__watch_remove(). */
	client->next_watch = TAILQ_FIRST(&client->watches);
	while ((watch = client->next_watch)) {
		known = watch->expired;
		if (!known) {
			client->next_watch = TAILQ_NEXT(watch, link);
			continue;
		}
		watch->expired = known->next;
		event.key = known->key;
		watch->fn(watch->arg, &event);
		free(known);
	}
}

void dfi__watch_free(struct remote_watch *watch)
{
	struct known_key *known;

	while ((known = watch->expired)) {
		watch->expired = known->next;
		free(known);
	}
	tdestroy(watch->known, free);
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's watches: a list for walks, and a tree by what they watch. A change
 * of the stream looks for its key in the tree, and for those of its beginnings
 * that have the length of a watched prefix.
 *
 * Each watch keeps the keys that it has reported, so that it can tell what has
 * changed when the stream has a gap.
 */
#include "watch.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "json.h"
#include "restore.h"
#include "state.h"

/* What some watches have in common. */
struct watched {
	bool exact;
	TAILQ_HEAD(, etcd_watch) watches;
	char text[];
};

/* A change that was kept back. */
struct late_change {
	STAILQ_ENTRY(late_change) link;
	struct etcd_value value;
	bool deleted;
};

static int compare_watched(const void *a, const void *b)
{
	const struct watched *x = a, *y = b;

	return x->exact != y->exact ? x->exact - y->exact
				    : strcmp(x->text, y->text);
}

static struct watched *probe(const char *text, size_t size, bool exact)
{
	struct watched *watched = calloc(1, sizeof(*watched) + size + 1);

	if (!watched)
		return NULL;
	memcpy(watched->text, text, size);
	watched->exact = exact;
	TAILQ_INIT(&watched->watches);
	return watched;
}

static struct watched *find_watched(
    const struct etcd_client *client, const char *text, size_t size, bool exact)
{
	struct watched *key = probe(text, size, exact);
	void *node = key ? tfind(key, &client->watched_tree, compare_watched)
			 : NULL;

	free(key);
	return node ? *(struct watched **)node : NULL;
}

/* Find what the interest names, or add it. NULL: no memory. */
static struct watched *get_watched(
    struct etcd_client *client, const struct registry_interest *interest)
{
	size_t size = strlen(interest->prefix);
	struct watched *watched = probe(
	    interest->prefix, size, interest->exact);
	void *node;

	if (!watched)
		return NULL;
	node = tsearch(watched, &client->watched_tree, compare_watched);
	if (!node || *(struct watched **)node != watched)
		free(watched);
	else if (!watched->exact)
		client->n_prefixes[size]++;
	return node ? *(struct watched **)node : NULL;
}

struct etcd_watch *dfi__etcd_watch_new(
    struct etcd_client *client, const struct registry_interest *interest)
{
	struct etcd_watch *watch = calloc(1, sizeof(*watch));

	if (watch)
		watch->watched = get_watched(client, interest);
	if (!watch || !watch->watched) {
		free(watch);
		return NULL;
	}
	watch->base.client = &client->base;
	watch->fn = interest->fn;
	watch->arg = interest->arg;
	watch->reported = REGISTRY_BACK;
	watch->reading = true;
	STAILQ_INIT(&watch->late);
	TAILQ_INSERT_TAIL(&client->watches, watch, link);
	TAILQ_INSERT_TAIL(&watch->watched->watches, watch, of_same);
	return watch;
}

static void free_late(struct late_change *late)
{
	dfi__value_free(&late->value);
	free(late);
}

static void drop_late(struct etcd_watch *watch)
{
	struct late_change *late;

	while ((late = STAILQ_FIRST(&watch->late))) {
		STAILQ_REMOVE_HEAD(&watch->late, link);
		free_late(late);
	}
}

void dfi__etcd_watch_free(struct etcd_watch *watch)
{
	struct etcd_client *client = etcd_of(watch->base.client);
	struct watched *watched = watch->watched;

	if (client->next_watch == watch)
		client->next_watch = TAILQ_NEXT(watch, link);
	if (client->next_heard == watch)
		client->next_heard = TAILQ_NEXT(watch, of_same);
	if (client->filling == watch)
		client->filling = NULL;
	if (watch->slot)
		client->restore.watches[watch->slot - 1] = NULL;
	TAILQ_REMOVE(&client->watches, watch, link);
	TAILQ_REMOVE(&watched->watches, watch, of_same);
	if (TAILQ_EMPTY(&watched->watches)) {
		tdelete(watched, &client->watched_tree, compare_watched);
		if (!watched->exact)
			client->n_prefixes[strlen(watched->text)]--;
		free(watched);
	}
	dfi__reported_free(&watch->keys);
	drop_late(watch);
	free(watch);
}

json_t *dfi__watch_range(const struct etcd_watch *watch)
{
	return dfi__request_range(etcd_of(watch->base.client),
	    watch->watched->text, watch->watched->exact);
}

bool dfi__etcd_watch_concerns(const struct etcd_watch *watch, const char *key)
{
	const char *text = watch->watched->text;

	return watch->watched->exact ? !strcmp(text, key)
				     : !strncmp(text, key, strlen(text));
}

/* Call fn. Returns whether the watch is still there. */
static bool report(struct etcd_watch *watch, const struct registry_event *event)
{
	struct etcd_client *client = etcd_of(watch->base.client);
	struct etcd_watch *outer = client->filling;
	bool stays;

	client->filling = watch;
	watch->fn(watch->arg, event);
	stays = client->filling == watch;
	client->filling = outer;
	return stays;
}

static bool report_put(struct etcd_watch *watch, const struct etcd_value *value)
{
	struct registry_event event = {
		.type = REGISTRY_PUT,
		.key = value->key,
		.data = value->data,
		.size = value->size,
		.revision = value->revision,
	};

	return report(watch, &event);
}

static bool report_delete(
    struct etcd_watch *watch, const char *key, uint64_t revision, bool replaced)
{
	struct registry_event event = {
		.type = REGISTRY_DELETE,
		.key = key,
		.revision = revision,
		.replaced = replaced,
	};

	return report(watch, &event);
}

static uint64_t hash_of(
    const struct etcd_client *client, const struct etcd_value *value)
{
	return XXH3_64bits_withSeed(
	    value->size ? value->data : "", value->size, client->hash_seed);
}

/* A key that the stream, or the answer of a range, has named. */
static bool put(struct etcd_watch *watch, const struct etcd_value *value)
{
	const struct etcd_client *client = etcd_of(watch->base.client);
	struct reported_key *reported = dfi__reported(
	    &watch->keys, value->key, true);
	struct reported_key before;
	uint64_t hash = hash_of(client, value);
	bool away;

	if (!reported) {
		dfi__etcd_restore_gap(etcd_of(watch->base.client));
		return true;
	}
	before = *reported;
	reported->seen = true;
	if (value->revision <= before.revision && !before.missing)
		return true;
	reported->revision = value->revision;
	reported->created = value->created;
	reported->hash = hash;
	reported->missing = false;
	/* It has gone and come back, unnoticed. */
	away = before.revision &&
	    (before.missing || before.created != value->created);
	if (away && before.hash == hash)
		return true;
	if (away && !report_delete(watch, value->key, value->revision, true))
		return false;
	return report_put(watch, value);
}

static bool take_out(struct etcd_watch *watch, const char *key)
{
	struct reported_key *reported = dfi__reported(&watch->keys, key, false);

	if (!reported)
		return false;
	dfi__reported_forget(&watch->keys, reported);
	return true;
}

static bool change(
    struct etcd_watch *watch, const struct etcd_value *value, bool deleted)
{
	if (value->revision <= watch->since)
		return true;
	if (!deleted)
		return put(watch, value);
	if (!take_out(watch, value->key))
		return true;
	return report_delete(watch, value->key, value->revision, false);
}

static void keep_back(
    struct etcd_watch *watch, const struct etcd_value *value, bool deleted)
{
	struct late_change *late = calloc(1, sizeof(*late));
	char *key = strdup(value->key);
	char *bytes = malloc(value->size + 1);

	if (!late || !key || !bytes) {
		free(late);
		free(key);
		free(bytes);
		dfi__etcd_restore_gap(etcd_of(watch->base.client));
		return;
	}
	late->value = *value;
	late->value.key = key;
	late->value.bytes = bytes;
	late->value.data = bytes;
	if (value->size)
		memcpy(bytes, value->data, value->size);
	late->deleted = deleted;
	STAILQ_INSERT_TAIL(&watch->late, late, link);
}

static void change_all(struct etcd_client *client, struct watched *watched,
    const struct etcd_value *value, bool deleted)
{
	struct etcd_watch *watch;

	client->next_heard = watched ? TAILQ_FIRST(&watched->watches) : NULL;
	while ((watch = client->next_heard)) {
		client->next_heard = TAILQ_NEXT(watch, of_same);
		if (watch->reading)
			keep_back(watch, value, deleted);
		else
			change(watch, value, deleted);
	}
}

void dfi__etcd_watch_change(
    struct etcd_client *client, const struct etcd_value *value, bool deleted)
{
	size_t size = strlen(value->key), i;

	change_all(client, find_watched(client, value->key, size, true), value,
	    deleted);
	for (i = 0; i <= size; i++)
		if (client->n_prefixes[i])
			change_all(client,
			    find_watched(client, value->key, i, false), value,
			    deleted);
}

static void forget_seen(const void *node, VISIT visit, void *arg)
{
	(void)arg;
	if (visit == postorder || visit == leaf)
		(*(struct reported_key *const *)node)->seen = false;
}

static void note_missing(const void *node, VISIT visit, void *arg)
{
	struct reported_key *reported = *(struct reported_key *const *)node;

	(void)arg;
	if ((visit == postorder || visit == leaf) && !reported->seen)
		reported->missing = true;
}

/* Report all missing keys of a watch as deleted. */
static bool expire(struct etcd_watch *watch)
{
	struct reported_key *reported;
	bool stays = true;

	dfi__reported_expire(&watch->keys);
	while (stays && (reported = dfi__reported_take(&watch->keys))) {
		stays = report_delete(watch, reported->key, 0, false);
		free(reported);
	}
	return stays;
}

static bool fill_late(struct etcd_watch *watch)
{
	struct late_change *late;
	bool stays = true;

	while (stays && (late = STAILQ_FIRST(&watch->late))) {
		STAILQ_REMOVE_HEAD(&watch->late, link);
		stays = change(watch, &late->value, late->deleted);
		free_late(late);
	}
	return stays;
}

bool dfi__etcd_watch_fill(struct etcd_watch *watch, const json_t *range,
    uint64_t revision, bool forgets)
{
	struct etcd_client *client = etcd_of(watch->base.client);
	const json_t *pair;
	struct etcd_value value;
	bool stays = true;
	size_t i;

	watch->reading = false;
	watch->slot = 0;
	watch->since = revision;
	/* The stream has begun anew since: what lies between is not reported.
	 */
	if (revision + 1 < client->stream.first)
		dfi__etcd_restore_gap(client);
	twalk_r(watch->keys.tree, forget_seen, NULL);
	for (i = 0; stays && (pair = dfi__json_item(range, "kvs", i)); i++) {
		if (!dfi__value_read(client, pair, &value))
			continue;
		stays = put(watch, &value);
		dfi__value_free(&value);
	}
	if (stays)
		twalk_r(watch->keys.tree, note_missing, NULL);
	if (stays && forgets)
		stays = expire(watch);
	return stays && fill_late(watch);
}

void dfi__etcd_watch_read_again(struct etcd_watch *watch, bool anew)
{
	watch->reading = true;
	watch->sent = false;
	watch->slot = 0;
	drop_late(watch);
	if (anew)
		dfi__reported_miss(&watch->keys);
}

void dfi__etcd_watch_report(
    struct etcd_client *client, enum registry_event_type type)
{
	struct registry_event event = { .type = type };
	struct etcd_watch *watch;

	client->next_watch = TAILQ_FIRST(&client->watches);
	while ((watch = client->next_watch)) {
		client->next_watch = TAILQ_NEXT(watch, link);
		if (!watch->made || watch->reported == type)
			continue;
		watch->reported = type;
		watch->fn(watch->arg, &event);
	}
}

/* A key that is missing was reported, and the last reading did not find it. */
static void report_gone(struct etcd_watch *watch, const char *key)
{
	struct reported_key *reported = dfi__reported(&watch->keys, key, false);

	if (!reported || !reported->missing)
		return;
	dfi__reported_forget(&watch->keys, reported);
	report_delete(watch, key, 0, false);
}

void dfi__etcd_watch_gone(struct etcd_client *client, const char *key)
{
	struct etcd_watch *watch;

	client->next_watch = TAILQ_FIRST(&client->watches);
	while ((watch = client->next_watch)) {
		client->next_watch = TAILQ_NEXT(watch, link);
		if (dfi__etcd_watch_concerns(watch, key))
			report_gone(watch, key);
	}
}

void dfi__etcd_watch_expire(struct etcd_client *client)
{
	struct etcd_watch *watch;

	client->next_watch = TAILQ_FIRST(&client->watches);
	while ((watch = client->next_watch)) {
		client->next_watch = TAILQ_NEXT(watch, link);
		expire(watch);
	}
}

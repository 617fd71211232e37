/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches of the registry's table. Watched texts are in a tree, so that a
 * change finds those that it concerns without a look at the others; each has
 * the list of its watches. A second tree has the watches by their numbers.
 * table_notify.c notifies them.
 */
#include "table_impl.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

_Static_assert(sizeof(struct watch_id) == sizeof(void *) + sizeof(uint64_t),
    "a watch's number is compared as bytes");

static struct watch *find_watch(
    const struct table *table, void *watcher, uint64_t tag)
{
	struct watch_id id = { .watcher = watcher, .tag = tag };
	struct tree_leaf *leaf = dfi__tree_find(
	    &table->watches, &id, sizeof(id));

	return leaf ? CONTAINER(leaf, struct watch, by_id) : NULL;
}

static int check_room(const struct table *table, enum table_watch kind)
{
	size_t max = table->limits.max_watches;

	if (kind == TABLE_FOLLOW && table->n_follows >= max)
		return dfi__fail(-ENOSPC,
		    "the registry is at its limit of %zu keys that are "
		    "followed, one for each flow: remove some, or raise "
		    "max_watches (dfi_registry_attr)",
		    max);
	if (kind != TABLE_FOLLOW &&
	    table->watches.n_leaves - table->n_follows >= max)
		return dfi__fail(-ENOSPC,
		    "the registry is at its limit of %zu watches, up to two "
		    "for each endpoint and barrier: close some, or raise "
		    "max_watches (dfi_registry_attr)",
		    max);
	return 0;
}

/* Get the watched text; make it if nobody watches it yet. */
static struct watched *get_watched(
    struct table *table, const char *text, size_t size)
{
	struct tree_leaf *leaf = dfi__tree_find(&table->watched, text, size);
	struct watched *watched;

	if (leaf)
		return CONTAINER(leaf, struct watched, leaf);
	watched = calloc(1, sizeof(*watched) + size + 1);
	if (!watched) {
		dfi__fail(-ENOMEM, "no memory for a registry watch");
		return NULL;
	}
	memcpy(watched->text, text, size);
	TAILQ_INIT(&watched->of_prefix);
	TAILQ_INIT(&watched->of_key);
	watched->leaf.text = watched->text;
	watched->leaf.size = (uint32_t)size;
	if (!dfi__tree_insert(&table->watched, &watched->leaf))
		return watched;
	free(watched);
	return NULL;
}

static void put_watched(struct table *table, struct watched *watched)
{
	if (!TAILQ_EMPTY(&watched->of_prefix) || !TAILQ_EMPTY(&watched->of_key))
		return;
	dfi__table_skip_watched(table, watched);
	dfi__tree_remove(&table->watched, &watched->leaf);
	free(watched);
}

static struct watch_list *list_of(const struct watch *watch)
{
	return watch->exact ? &watch->watched->of_key
			    : &watch->watched->of_prefix;
}

int dfi__table_watch(struct table *table, void *watcher, uint64_t tag,
    const char *text, enum table_watch kind)
{
	size_t size = strnlen(text, TABLE_KEY_MAX + 1);
	struct watched *watched;
	struct watch *watch;
	int ret;

	if (size > TABLE_KEY_MAX)
		return dfi__fail(-EMSGSIZE,
		    "a prefix of more than %d bytes can't match",
		    TABLE_KEY_MAX);
	if (find_watch(table, watcher, tag))
		return dfi__fail(
		    -EEXIST, "watch %llu is taken", (unsigned long long)tag);
	ret = check_room(table, kind);
	if (ret)
		return ret;
	watched = get_watched(table, text, size);
	if (!watched)
		return -ENOMEM;
	watch = calloc(1, sizeof(*watch));
	if (!watch) {
		put_watched(table, watched);
		return dfi__fail(-ENOMEM, "no memory for a registry watch");
	}
	watch->id = (struct watch_id){ .watcher = watcher, .tag = tag };
	watch->by_id.text = &watch->id;
	watch->by_id.size = sizeof(watch->id);
	watch->watched = watched;
	watch->since = table->revision;
	watch->exact = kind != TABLE_PREFIX;
	watch->follows = kind == TABLE_FOLLOW;
	ret = dfi__tree_insert(&table->watches, &watch->by_id);
	if (ret) {
		put_watched(table, watched);
		free(watch);
		return ret;
	}
	table->n_follows += watch->follows;
	TAILQ_INSERT_TAIL(list_of(watch), watch, link);
	return 0;
}

void dfi__table_end_watch(struct table *table, struct watch *watch)
{
	dfi__table_skip_watch(table, watch);
	TAILQ_REMOVE(list_of(watch), watch, link);
	put_watched(table, watch->watched);
	dfi__tree_remove(&table->watches, &watch->by_id);
	table->n_follows -= watch->follows;
	free(watch);
}

int dfi__table_unwatch(struct table *table, void *watcher, uint64_t tag)
{
	struct watch *watch = find_watch(table, watcher, tag);
	bool follows;

	if (!watch)
		return dfi__fail(
		    -ENOENT, "there is no watch %llu", (unsigned long long)tag);
	follows = watch->follows;
	dfi__table_end_watch(table, watch);
	return follows;
}

void dfi__table_unwatch_all(struct table *table, void *watcher)
{
	struct tree_leaf *leaf = dfi__tree_from(
	    &table->watches, &watcher, sizeof(watcher));
	struct watch *watch;

	while (leaf) {
		watch = CONTAINER(leaf, struct watch, by_id);
		if (watch->id.watcher != watcher)
			return;
		leaf = dfi__tree_next(leaf);
		dfi__table_end_watch(table, watch);
	}
}

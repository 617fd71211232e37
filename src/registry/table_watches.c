/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches of the registry's table, in the order of their making, which is the
 * order in which they hear of a change. May not keep anything back: a change
 * is announced in the call that makes it.
 */
#include "table_impl.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void dfi__table_announce(const struct table *table, enum table_event_type type,
    const struct table_item *item)
{
	size_t i;

	if (!table->hooks.changed)
		return;
	for (i = 0; i < table->n_watches; i++) {
		const struct watch *watch = table->watches[i];

		if (!strncmp(item->key, watch->prefix, watch->prefix_size))
			table->hooks.changed(table->hooks.arg, watch->watcher,
			    watch->tag, type, item);
	}
}

static bool find_watch(
    const struct table *table, const void *watcher, uint64_t tag, size_t *index)
{
	for (*index = 0; *index < table->n_watches; (*index)++) {
		const struct watch *watch = table->watches[*index];

		if (watch->watcher == watcher && watch->tag == tag)
			return true;
	}
	return false;
}

enum kind {
	PREFIX,
	KEY,
	FOLLOW,
};

static int check_room(const struct table *table, enum kind kind)
{
	size_t max = table->limits.max_watches;

	if (kind == FOLLOW && table->n_follows >= max)
		return dfi__fail(-ENOSPC,
		    "the registry is at its limit of %zu keys that are "
		    "followed, one for each flow: remove some, or raise "
		    "max_watches (dfi_registry_attr)",
		    max);
	if (kind != FOLLOW && table->n_watches - table->n_follows >= max)
		return dfi__fail(-ENOSPC,
		    "the registry is at its limit of %zu watches, up to two "
		    "for each endpoint and barrier: close some, or raise "
		    "max_watches (dfi_registry_attr)",
		    max);
	return 0;
}

static int add_watch(struct table *table, void *watcher, uint64_t tag,
    const char *prefix, enum kind kind)
{
	size_t size = strnlen(prefix, TABLE_KEY_MAX + 1), index;
	struct watch *watch;
	int ret;

	if (size > TABLE_KEY_MAX)
		return dfi__fail(-EMSGSIZE,
		    "a prefix of more than %d bytes can't match",
		    TABLE_KEY_MAX);
	if (find_watch(table, watcher, tag, &index))
		return dfi__fail(
		    -EEXIST, "watch %llu is taken", (unsigned long long)tag);
	ret = check_room(table, kind);
	if (!ret)
		ret = dfi__table_reserve(&table->watches, table->n_watches,
		    &table->watches_capacity);
	if (ret)
		return ret;
	watch = malloc(sizeof(*watch) + size + 1);
	if (!watch)
		return dfi__fail(-ENOMEM, "no memory for a registry watch");
	watch->watcher = watcher;
	watch->tag = tag;
	/* Of the key that is the prefix, its end is compared, too. */
	watch->prefix_size = kind == PREFIX ? size : size + 1;
	memcpy(watch->prefix, prefix, size + 1);
	watch->follows = kind == FOLLOW;
	table->n_follows += watch->follows;
	table->watches[table->n_watches++] = watch;
	return 0;
}

int dfi__table_watch(
    struct table *table, void *watcher, uint64_t tag, const char *prefix)
{
	return add_watch(table, watcher, tag, prefix, PREFIX);
}

int dfi__table_watch_key(
    struct table *table, void *watcher, uint64_t tag, const char *key)
{
	return add_watch(table, watcher, tag, key, KEY);
}

int dfi__table_follow(
    struct table *table, void *watcher, uint64_t tag, const char *key)
{
	return add_watch(table, watcher, tag, key, FOLLOW);
}

/* It is not in the array any more. */
static void free_watch(struct table *table, struct watch *watch)
{
	table->n_follows -= watch->follows;
	free(watch);
}

int dfi__table_unwatch(struct table *table, void *watcher, uint64_t tag)
{
	size_t index;
	bool follows;

	if (!find_watch(table, watcher, tag, &index))
		return dfi__fail(
		    -ENOENT, "there is no watch %llu", (unsigned long long)tag);
	follows = table->watches[index]->follows;
	free_watch(table, table->watches[index]);
	table->n_watches--;
	memmove(table->watches + index, table->watches + index + 1,
	    (table->n_watches - index) * sizeof(*table->watches));
	return follows;
}

void dfi__table_unwatch_all(struct table *table, void *watcher)
{
	size_t kept = 0, i;

	for (i = 0; i < table->n_watches; i++) {
		if (table->watches[i]->watcher == watcher)
			free_watch(table, table->watches[i]);
		else
			table->watches[kept++] = table->watches[i];
	}
	table->n_watches = kept;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys are a sorted array of pointers: listing a prefix is a walk, deleting
 * one is a single compaction, and an insertion moves at most 8 bytes per key.
 * Leases and watches are in files of their own.
 *
 * This file may not do I/O, read a clock, or take a lock.
 */
#include "table_impl.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int dfi__table_create(const struct table_limits *limits,
    const struct table_hooks *hooks, struct table **table)
{
	struct table *new = calloc(1, sizeof(*new));

	if (!new)
		return dfi__fail(-ENOMEM, "no memory for the registry's table");
	new->limits = *limits;
	new->hooks = *hooks;
	*table = new;
	return 0;
}

void dfi__table_destroy(struct table *table)
{
	size_t i;

	for (i = 0; i < table->n_entries; i++) {
		free(table->entries[i]->value);
		free(table->entries[i]);
	}
	for (i = 0; i < table->n_leases; i++)
		free(table->leases[i]);
	for (i = 0; i < table->n_watches; i++)
		free(table->watches[i]);
	free(table->entries);
	free(table->leases);
	free(table->watches);
	free(table);
}

uint64_t dfi__table_revision(const struct table *table)
{
	return table->revision;
}

size_t dfi__table_n_keys(const struct table *table)
{
	return table->n_entries;
}

int dfi__table_reserve(void *array, size_t n, size_t *capacity)
{
	void **old, **grown;
	size_t want;

	if (n < *capacity)
		return 0;
	want = *capacity ? *capacity * 2 : 16;
	memcpy(&old, array, sizeof(old));
	grown = reallocarray(old, want, sizeof(*grown));
	if (!grown)
		return dfi__fail(
		    -ENOMEM, "no memory for %zu registry objects", want);
	memcpy(array, &grown, sizeof(grown));
	*capacity = want;
	return 0;
}

/* Where key is, or where it would be inserted. */
static size_t position(const struct table *table, const char *key, bool *found)
{
	size_t low = 0, high = table->n_entries;

	*found = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(table->entries[middle]->key, key);

		if (order == 0) {
			*found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct table_item item_of(const struct entry *entry)
{
	struct table_item item = {
		.key = entry->key,
		.value = entry->value,
		.size = entry->size,
		.revision = entry->revision,
	};
	return item;
}

static int check_put(const struct table_put *put, size_t key_size)
{
	if (!key_size)
		return dfi__fail(-EINVAL, "a registry key must not be empty");
	if (key_size > TABLE_KEY_MAX)
		return dfi__fail(-EMSGSIZE,
		    "a registry key of %zu bytes is longer than %d: "
		    "'%.60s...'",
		    key_size, TABLE_KEY_MAX, put->key);
	if (put->size > TABLE_VALUE_MAX)
		return dfi__fail(-EMSGSIZE,
		    "the value of registry key '%s' has %zu bytes, at most %d "
		    "are allowed",
		    put->key, put->size, TABLE_VALUE_MAX);
	return 0;
}

/* Whether a put may change an entry that is there. */
static int check_owner(const struct table_put *put, const struct entry *entry)
{
	bool reclaims = put->flags & TABLE_RECLAIM && put->owner &&
	    put->owner == entry->owner;

	if (!(put->flags & TABLE_CREATE) || reclaims)
		return 0;
	return dfi__fail(-EEXIST,
	    "registry key '%s' exists since revision %llu", put->key,
	    (unsigned long long)entry->revision);
}

static int check_room(const struct table *table, const struct entry *old,
    const struct lease *lease, size_t added)
{
	size_t freed = old ? old->size : 0;
	bool binds = lease && (!old || old->lease != lease);

	if (binds && lease->n_keys >= table->limits.max_lease_keys)
		return dfi__fail(-ENOSPC,
		    "the client is at its limit of %zu keys, one for each "
		    "flow, endpoint and barrier: close some, use another "
		    "context for more, or raise max_client_keys "
		    "(dfi_registry_attr)",
		    table->limits.max_lease_keys);

	if (!old && table->n_entries >= table->limits.max_keys)
		return dfi__fail(-ENOSPC,
		    "the registry is at its limit of %zu keys, one for each "
		    "context, flow, endpoint and barrier: close some, or raise "
		    "max_keys (dfi_registry_attr)",
		    table->limits.max_keys);
	if (table->bytes - freed + added > table->limits.max_bytes)
		return dfi__fail(-ENOSPC,
		    "the registry is at its limit of %zu bytes for contexts, "
		    "flows, endpoints and barriers: close some, or raise "
		    "max_bytes (dfi_registry_attr)",
		    table->limits.max_bytes);
	return 0;
}

/* An entry of its own memory, not yet in the array. */
static int new_entry(
    struct table *table, const char *key, size_t key_size, struct entry **entry)
{
	int ret;

	ret = dfi__table_reserve(
	    &table->entries, table->n_entries, &table->entries_capacity);
	if (ret)
		return ret;
	*entry = calloc(1, sizeof(**entry) + key_size + 1);
	if (!*entry)
		return dfi__fail(-ENOMEM, "no memory for a registry key");
	memcpy((*entry)->key, key, key_size + 1);
	return 0;
}

/* Takes value, a copy. */
static void set_value(struct table *table, struct entry *entry,
    const struct table_put *put, void *value, struct lease *lease)
{
	struct table_item item;

	table->bytes = table->bytes - entry->size + put->size;
	free(entry->value);
	entry->value = value;
	entry->size = put->size;
	if (entry->lease)
		entry->lease->n_keys--;
	if (lease)
		lease->n_keys++;
	entry->lease = lease;
	entry->owner = put->owner;
	entry->revision = ++table->revision;
	item = item_of(entry);
	dfi__table_announce(table, TABLE_PUT, &item);
}

static int copy_value(const void *value, size_t size, void **copy)
{
	*copy = NULL;
	if (!size)
		return 0;
	*copy = malloc(size);
	if (!*copy)
		return dfi__fail(-ENOMEM, "no memory for a registry value");
	memcpy(*copy, value, size);
	return 0;
}

int dfi__table_put(
    struct table *table, const struct table_put *put, uint64_t *revision)
{
	size_t key_size = strnlen(put->key, TABLE_KEY_MAX + 1), at, index;
	struct lease *lease = NULL;
	struct entry *entry = NULL;
	void *copy;
	bool found;
	int ret;

	ret = check_put(put, key_size);
	if (ret)
		return ret;
	at = position(table, put->key, &found);
	if (found) {
		entry = table->entries[at];
		ret = check_owner(put, entry);
		if (ret)
			return ret;
	}
	if (put->lease) {
		lease = dfi__table_lease(table, put->lease, &index);
		if (!lease)
			return -ENOENT;
	}
	ret = check_room(
	    table, entry, lease, put->size + (found ? 0 : key_size));
	if (ret)
		return ret;
	ret = copy_value(put->value, put->size, &copy);
	if (ret)
		return ret;
	if (!found) {
		ret = new_entry(table, put->key, key_size, &entry);
		if (ret) {
			free(copy);
			return ret;
		}
		memmove(table->entries + at + 1, table->entries + at,
		    (table->n_entries - at) * sizeof(*table->entries));
		table->entries[at] = entry;
		table->n_entries++;
		table->bytes += key_size;
	}
	set_value(table, entry, put, copy, lease);
	if (revision)
		*revision = table->revision;
	return 0;
}

int dfi__table_get(
    const struct table *table, const char *key, struct table_item *item)
{
	bool found;
	size_t at = position(table, key, &found);

	if (!found)
		return dfi__fail(
		    -ENOENT, "there is no registry key '%.400s'", key);
	*item = item_of(table->entries[at]);
	return 0;
}

int dfi__table_next(const struct table *table, const char *prefix,
    const char *after, struct table_item *item)
{
	const char *from = strcmp(after, prefix) > 0 ? after : prefix;
	bool found;
	size_t at = position(table, from, &found);

	if (found && !strcmp(table->entries[at]->key, after))
		at++;
	if (at == table->n_entries)
		return 0;
	if (strncmp(table->entries[at]->key, prefix, strlen(prefix)) != 0)
		return 0;
	*item = item_of(table->entries[at]);
	return 1;
}

/* Announce and free entries that are no longer in the array. */
static size_t bury(struct table *table, struct entry *dead)
{
	size_t n = 0;

	while (dead) {
		struct entry *next = dead->next_dead;
		struct table_item item = {
			.key = dead->key,
			.revision = ++table->revision,
		};

		dfi__table_announce(table, TABLE_DELETE, &item);
		free(dead->value);
		free(dead);
		dead = next;
		n++;
	}
	return n;
}

/* Two steps, so that whoever hears of a deletion sees a sound table. */
size_t dfi__table_delete_range(
    struct table *table, size_t first, size_t last, const struct lease *lease)
{
	struct entry *dead = NULL, **tail = &dead;
	size_t kept = first, i;

	if (first == last)
		return 0;
	for (i = first; i < last; i++) {
		struct entry *entry = table->entries[i];

		if (lease && entry->lease != lease) {
			table->entries[kept++] = entry;
			continue;
		}
		if (entry->lease)
			entry->lease->n_keys--;
		table->bytes -= strlen(entry->key) + entry->size;
		*tail = entry;
		tail = &entry->next_dead;
	}
	memmove(table->entries + kept, table->entries + last,
	    (table->n_entries - last) * sizeof(*table->entries));
	table->n_entries -= last - kept;
	return bury(table, dead);
}

int dfi__table_delete(struct table *table, const char *key, uint64_t revision)
{
	struct table_item item;
	size_t at;
	bool found;
	int ret;

	ret = dfi__table_get(table, key, &item);
	if (ret)
		return ret;
	if (revision && revision != item.revision)
		return dfi__fail(-ENOENT,
		    "registry key '%s' is at revision %llu, not %llu", key,
		    (unsigned long long)item.revision,
		    (unsigned long long)revision);
	at = position(table, key, &found);
	dfi__table_delete_range(table, at, at + 1, NULL);
	return 0;
}

size_t dfi__table_delete_prefix(struct table *table, const char *prefix)
{
	size_t size = strlen(prefix), first, last;
	bool found;

	first = position(table, prefix, &found);
	last = first;
	while (last < table->n_entries &&
	    !strncmp(table->entries[last]->key, prefix, size))
		last++;
	return dfi__table_delete_range(table, first, last, NULL);
}

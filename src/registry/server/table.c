/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys are in a tree, in order, and the keys of a lease also in a tree of its
 * own. So each operation takes as many steps as the key has bits, and one step
 * for each key that it concerns. Leases, watches and the queue of changes are
 * in files of their own.
 *
 * This file does no I/O, reads no clock, and takes no lock.
 */
#include "table_impl.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

_Static_assert(TABLE_KEY_MAX <= TREE_TEXT_MAX, "keys fit into the tree");

int dfi__table_create(const struct table_limits *limits,
    const struct table_hooks *hooks, struct table **table)
{
	struct table *new = calloc(1, sizeof(*new));

	if (!new)
		return dfi__fail(-ENOMEM, "no memory for the registry's table");
	new->limits = *limits;
	new->hooks = *hooks;
	STAILQ_INIT(&new->changes);
	*table = new;
	return 0;
}

static struct entry *entry_of(const struct tree_leaf *leaf)
{
	return leaf ? CONTAINER(leaf, struct entry, by_key) : NULL;
}

void dfi__table_destroy(struct table *table)
{
	struct tree_leaf *leaf;

	while ((leaf = dfi__tree_from(&table->entries, NULL, 0)))
		dfi__table_drop(table, entry_of(leaf));
	dfi__table_forget_changes(table);
	while ((leaf = dfi__tree_from(&table->watches, NULL, 0)))
		dfi__table_end_watch(
		    table, CONTAINER(leaf, struct watch, by_id));
	while ((leaf = dfi__tree_from(&table->leases, NULL, 0))) {
		dfi__tree_remove(&table->leases, leaf);
		free(CONTAINER(leaf, struct lease, by_id));
	}
	free(table);
}

uint64_t dfi__table_revision(const struct table *table)
{
	return table->revision;
}

size_t dfi__table_bytes(const struct table *table)
{
	return table->bytes;
}

static struct entry *find(
    const struct table *table, const char *key, size_t size)
{
	return entry_of(dfi__tree_find(&table->entries, key, size));
}

static const char *value_of(const struct entry *entry)
{
	return entry->key + entry->by_key.size + 1;
}

struct table_item dfi__table_item(const struct entry *entry)
{
	struct table_item item = {
		.key = entry->key,
		.value = value_of(entry),
		.size = entry->size,
		.revision = entry->put.revision,
		.owner = entry->owner,
		.lease = entry->lease ? entry->lease->id : 0,
		.at = entry,
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

/* Check whether a put may change an existing entry. */
static int check_owner(const struct table_put *put, const struct entry *entry)
{
	bool reclaims = put->flags & TABLE_RECLAIM && put->owner &&
	    put->owner == entry->owner;

	if (!(put->flags & TABLE_CREATE) || reclaims)
		return 0;
	return dfi__fail(-EEXIST,
	    "registry key '%s' exists since revision %llu", put->key,
	    (unsigned long long)entry->put.revision);
}

static int check_room(const struct table *table, const struct entry *old,
    const struct lease *lease, size_t added, const struct table_plan *plan)
{
	size_t freed = old ? old->size : 0;
	bool binds = lease && (!old || old->lease != lease);

	if (binds &&
	    lease->keys.n_leaves + plan->n_leased >=
		table->limits.max_lease_keys)
		return dfi__fail(-ENOSPC,
		    "the client is at its limit of %zu keys, one for each "
		    "flow, endpoint and barrier: close some, use another "
		    "context for more, or raise max_client_keys "
		    "(dfi_registry_attr)",
		    table->limits.max_lease_keys);

	if (!old &&
	    table->entries.n_leaves + plan->n_keys >= table->limits.max_keys)
		return dfi__fail(-ENOSPC,
		    "the registry is at its limit of %zu keys, one for each "
		    "context, flow, endpoint and barrier: close some, or raise "
		    "max_keys (dfi_registry_attr)",
		    table->limits.max_keys);
	if (table->bytes - freed + added + plan->bytes >
	    table->limits.max_bytes)
		return dfi__fail(-ENOSPC,
		    "the registry is at its limit of %zu bytes for contexts, "
		    "flows, endpoints and barriers: close some, or raise "
		    "max_bytes (dfi_registry_attr)",
		    table->limits.max_bytes);
	return 0;
}

static struct entry *new_entry(
    const struct table_put *put, size_t key_size, struct lease *lease)
{
	struct entry *entry = calloc(
	    1, sizeof(*entry) + key_size + 1 + put->size);

	if (!entry) {
		dfi__fail(-ENOMEM, "no memory for a registry key");
		return NULL;
	}
	entry->lease = lease;
	entry->owner = put->owner;
	entry->size = put->size;
	entry->n_refs = 1;
	memcpy(entry->key, put->key, key_size);
	if (put->size)
		memcpy(entry->key + key_size + 1, put->value, put->size);
	entry->by_key.text = entry->by_lease.text = entry->key;
	entry->by_key.size = entry->by_lease.size = (uint32_t)key_size;
	return entry;
}

/* Put entry in the place of old, if there is one. -ENOMEM. */
static int replace(struct table *table, struct entry *entry, struct entry *old)
{
	bool stays = old && old->lease && old->lease == entry->lease;
	int ret = 0;

	if (entry->lease && !stays)
		ret = dfi__tree_insert(&entry->lease->keys, &entry->by_lease);
	if (ret)
		return ret;
	if (!old)
		ret = dfi__tree_insert(&table->entries, &entry->by_key);
	if (ret && entry->lease)
		dfi__tree_remove(&entry->lease->keys, &entry->by_lease);
	if (ret || !old)
		return ret;
	dfi__tree_replace(&table->entries, &old->by_key, &entry->by_key);
	if (stays)
		dfi__tree_replace(
		    &entry->lease->keys, &old->by_lease, &entry->by_lease);
	else if (old->lease)
		dfi__tree_remove(&old->lease->keys, &old->by_lease);
	return 0;
}

/* There is room: the caller has checked. */
static int set(struct table *table, const struct table_put *put,
    size_t key_size, struct lease *lease, struct entry *old)
{
	struct entry *entry = new_entry(put, key_size, lease);
	int ret;

	if (!entry)
		return -ENOMEM;
	ret = replace(table, entry, old);
	if (ret) {
		free(entry);
		return ret;
	}
	table->bytes += put->size;
	table->bytes += old ? 0 : key_size;
	table->bytes -= old ? old->size : 0;
	dfi__table_queue(table, entry, TABLE_PUT);
	if (old) {
		/* The lease may end before this version is freed. */
		old->lease = NULL;
		dfi__table_unref(old);
	}
	return 0;
}

int dfi__table_set(struct table *table, const struct table_put *put)
{
	size_t key_size = strlen(put->key);
	struct lease *lease = NULL;

	if (put->lease) {
		lease = dfi__table_lease(table, put->lease);
		if (!lease)
			return -ENOENT;
	}
	return set(
	    table, put, key_size, lease, find(table, put->key, key_size));
}

int dfi__table_check_put(const struct table *table, const struct table_put *put,
    const struct table_plan *plan)
{
	size_t key_size = strnlen(put->key, TABLE_KEY_MAX + 1);
	const struct lease *lease = NULL;
	const struct entry *old;
	int ret;

	ret = check_put(put, key_size);
	if (ret)
		return ret;
	old = find(table, put->key, key_size);
	if (old) {
		ret = check_owner(put, old);
		if (ret)
			return ret;
	}
	if (put->lease) {
		lease = dfi__table_lease(table, put->lease);
		if (!lease)
			return -ENOENT;
	}
	return check_room(
	    table, old, lease, put->size + (old ? 0 : key_size), plan);
}

int dfi__table_put(
    struct table *table, const struct table_put *put, uint64_t *revision)
{
	static const struct table_plan none;
	int ret = dfi__table_check_put(table, put, &none);

	if (!ret)
		ret = dfi__table_set(table, put);
	if (!ret && revision)
		*revision = table->revision;
	return ret;
}

int dfi__table_get(
    const struct table *table, const char *key, struct table_item *item)
{
	const struct entry *entry = find(table, key, strlen(key));

	if (!entry)
		return dfi__fail(
		    -ENOENT, "there is no registry key '%.400s'", key);
	*item = dfi__table_item(entry);
	return 0;
}

static int item_of_prefix(
    const struct tree_leaf *leaf, const char *prefix, struct table_item *item)
{
	const struct entry *entry = entry_of(leaf);

	if (!entry || strncmp(entry->key, prefix, strlen(prefix)) != 0)
		return 0;
	*item = dfi__table_item(entry);
	return 1;
}

int dfi__table_next(const struct table *table, const char *prefix,
    const char *after, struct table_item *item)
{
	const char *from = strcmp(after, prefix) > 0 ? after : prefix;
	const struct tree_leaf *leaf = dfi__tree_from(
	    &table->entries, from, strlen(from));

	if (leaf && !strcmp(leaf->text, after))
		leaf = dfi__tree_next(leaf);
	return item_of_prefix(leaf, prefix, item);
}

int dfi__table_step(const char *prefix, struct table_item *item)
{
	const struct entry *entry = item->at;

	return item_of_prefix(dfi__tree_next(&entry->by_key), prefix, item);
}

void dfi__table_drop(struct table *table, struct entry *entry)
{
	dfi__tree_remove(&table->entries, &entry->by_key);
	if (entry->lease)
		dfi__tree_remove(&entry->lease->keys, &entry->by_lease);
	/* The lease may end before watches are notified. */
	entry->lease = NULL;
	table->bytes -= entry->by_key.size + entry->size;
	dfi__table_queue(table, entry, TABLE_DELETE);
	dfi__table_unref(entry);
}

int dfi__table_check_delete(const struct table *table, const char *key,
    uint64_t revision, struct table_item *item)
{
	int ret = dfi__table_get(table, key, item);

	if (ret || !revision || revision == item->revision)
		return ret;
	return dfi__fail(-ENOENT,
	    "registry key '%s' is at revision %llu, not %llu", key,
	    (unsigned long long)item->revision, (unsigned long long)revision);
}

bool dfi__table_is_leased(const struct table *table, const char *key)
{
	const struct entry *entry = find(table, key, strlen(key));

	return entry && entry->lease;
}

int dfi__table_delete(struct table *table, const char *key, uint64_t revision)
{
	struct table_item item;
	int ret = dfi__table_check_delete(table, key, revision, &item);

	if (!ret)
		dfi__table_drop(table, find(table, key, strlen(key)));
	return ret;
}

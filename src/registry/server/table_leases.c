/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases of the registry's table, in a tree. Each has its keys in another tree.
 * This file reads no clock: callers pass the time.
 */
#include "table_impl.h"

#include <endian.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static struct lease *lease_of(const struct tree_leaf *leaf)
{
	return leaf ? CONTAINER(leaf, struct lease, by_id) : NULL;
}

static struct lease *first_lease(const struct table *table)
{
	return lease_of(dfi__tree_from(&table->leases, NULL, 0));
}

static struct lease *next_lease(const struct lease *lease)
{
	return lease_of(dfi__tree_next(&lease->by_id));
}

struct lease *dfi__table_lease(const struct table *table, uint64_t id)
{
	uint64_t bytes = htobe64(id);
	struct lease *lease = lease_of(
	    dfi__tree_find(&table->leases, &bytes, sizeof(bytes)));

	if (!lease)
		dfi__fail(-ENOENT, "there is no lease %llu, or it has expired",
		    (unsigned long long)id);
	return lease;
}

/* The moment ttl_ns after now, without overflow. */
static int64_t expiry_after(int64_t now, int64_t ttl_ns)
{
	return ttl_ns > INT64_MAX - now ? INT64_MAX : now + ttl_ns;
}

int dfi__table_add_lease(
    struct table *table, uint64_t id, void *holder, int64_t ttl_ns, int64_t now)
{
	struct lease *lease = calloc(1, sizeof(*lease));

	if (!lease)
		return dfi__fail(-ENOMEM, "no memory for a registry lease");
	lease->id = id;
	lease->bytes = htobe64(lease->id);
	lease->by_id.text = &lease->bytes;
	lease->by_id.size = sizeof(lease->bytes);
	lease->holder = holder;
	lease->ttl_ns = ttl_ns;
	lease->expiry = expiry_after(now, ttl_ns);
	if (!dfi__tree_insert(&table->leases, &lease->by_id))
		return 0;
	free(lease);
	return dfi__fail(-ENOMEM, "no memory for a registry lease");
}

int dfi__table_grant(struct table *table, void *holder, int64_t ttl_ns,
    int64_t now, uint64_t *lease_id)
{
	int ret;

	if (table->leases.n_leaves >= table->limits.max_leases)
		return dfi__fail(-ENOSPC,
		    "the registry is at its limit of %zu leases, one for each "
		    "context: close some, or raise max_connections "
		    "(dfi_registry_attr)",
		    table->limits.max_leases);
	ret = dfi__table_add_lease(
	    table, table->last_lease + 1, holder, ttl_ns, now);
	if (!ret)
		*lease_id = ++table->last_lease;
	return ret;
}

int dfi__table_keepalive(struct table *table, uint64_t lease_id, int64_t now)
{
	struct lease *lease = dfi__table_lease(table, lease_id);

	if (!lease)
		return -ENOENT;
	lease->expiry = expiry_after(now, lease->ttl_ns);
	return 0;
}

/* Take the lease and its keys out. The caller frees the lease. */
static void end_lease(struct table *table, struct lease *lease)
{
	struct tree_leaf *leaf = dfi__tree_from(&lease->keys, NULL, 0), *next;

	dfi__tree_remove(&table->leases, &lease->by_id);
	for (; leaf; leaf = next) {
		next = dfi__tree_next(leaf);
		dfi__table_drop(table, CONTAINER(leaf, struct entry, by_lease));
	}
}

int dfi__table_revoke(struct table *table, uint64_t lease_id)
{
	struct lease *lease = dfi__table_lease(table, lease_id);

	if (!lease)
		return -ENOENT;
	end_lease(table, lease);
	free(lease);
	return 0;
}

static bool is_due(const struct lease *lease, int64_t now)
{
	return lease->expiry != INT64_MAX && lease->expiry <= now;
}

uint64_t dfi__table_due(
    const struct table *table, uint64_t lease_id, int64_t now)
{
	uint64_t bytes = htobe64(lease_id + 1);
	const struct lease *lease = lease_of(
	    dfi__tree_from(&table->leases, &bytes, sizeof(bytes)));

	while (lease && !is_due(lease, now))
		lease = next_lease(lease);
	return lease ? lease->id : 0;
}

static void expire(struct table *table, struct lease *lease)
{
	end_lease(table, lease);
	if (table->hooks.expired)
		table->hooks.expired(
		    table->hooks.arg, lease->holder, lease->id);
	free(lease);
}

int dfi__table_expire_lease(struct table *table, uint64_t lease_id)
{
	struct lease *lease = dfi__table_lease(table, lease_id);

	if (!lease)
		return -ENOENT;
	expire(table, lease);
	return 0;
}

size_t dfi__table_expire(struct table *table, int64_t now)
{
	struct lease *lease = first_lease(table), *next;
	size_t n = 0;

	for (; lease; lease = next) {
		next = next_lease(lease);
		if (!is_due(lease, now))
			continue;
		expire(table, lease);
		n++;
	}
	return n;
}

int dfi__table_lease_keys(
    const struct table *table, uint64_t lease_id, size_t *n_keys)
{
	const struct lease *lease = dfi__table_lease(table, lease_id);

	if (!lease)
		return -ENOENT;
	*n_keys = lease->keys.n_leaves;
	return 0;
}

int dfi__table_lease_next(const struct table *table, uint64_t lease_id,
    const char *after, struct table_item *item)
{
	const struct lease *lease = dfi__table_lease(table, lease_id);
	const struct tree_leaf *leaf;

	if (!lease)
		return 0;
	leaf = dfi__tree_from(&lease->keys, after, strlen(after));
	if (leaf && !strcmp(leaf->text, after))
		leaf = dfi__tree_next(leaf);
	if (!leaf)
		return 0;
	*item = dfi__table_item(CONTAINER(leaf, struct entry, by_lease));
	return 1;
}

void *dfi__table_holder(const struct table *table, uint64_t lease_id)
{
	const struct lease *lease = dfi__table_lease(table, lease_id);

	return lease ? lease->holder : NULL;
}

int dfi__table_hand_over(struct table *table, uint64_t lease_id, void *holder,
    int64_t ttl_ns, int64_t now)
{
	struct lease *lease = dfi__table_lease(table, lease_id);

	if (!lease)
		return -ENOENT;
	lease->holder = holder;
	lease->ttl_ns = ttl_ns;
	lease->expiry = expiry_after(now, ttl_ns);
	return 0;
}

uint64_t dfi__table_last_lease(const struct table *table)
{
	return table->last_lease;
}

int64_t dfi__table_next_expiry(const struct table *table)
{
	const struct lease *lease = first_lease(table);
	int64_t next = INT64_MAX;

	for (; lease; lease = next_lease(lease))
		if (lease->expiry < next)
			next = lease->expiry;
	return next;
}

void dfi__table_renew_all(struct table *table, int64_t now)
{
	struct lease *lease = first_lease(table);

	for (; lease; lease = next_lease(lease))
		lease->expiry = expiry_after(now, lease->ttl_ns);
}

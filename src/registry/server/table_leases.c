/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases of the registry's table, in a tree. Each has its keys in another tree.
 * This file reads no clock: callers pass the time.
 */
#include "table_impl.h"

#include <endian.h>
#include <stdlib.h>

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

int dfi__table_grant(struct table *table, void *holder, int64_t ttl_ns,
    int64_t now, uint64_t *lease_id)
{
	struct lease *lease;

	if (table->leases.n_leaves >= table->limits.max_leases)
		return dfi__fail(-ENOSPC,
		    "the registry is at its limit of %zu leases, one for each "
		    "context: close some, or raise max_connections "
		    "(dfi_registry_attr)",
		    table->limits.max_leases);
	lease = calloc(1, sizeof(*lease));
	if (!lease)
		return dfi__fail(-ENOMEM, "no memory for a registry lease");
	lease->id = table->last_lease + 1;
	lease->bytes = htobe64(lease->id);
	lease->by_id.text = &lease->bytes;
	lease->by_id.size = sizeof(lease->bytes);
	lease->holder = holder;
	lease->ttl_ns = ttl_ns;
	lease->expiry = expiry_after(now, ttl_ns);
	if (dfi__tree_insert(&table->leases, &lease->by_id)) {
		free(lease);
		return dfi__fail(-ENOMEM, "no memory for a registry lease");
	}
	*lease_id = ++table->last_lease;
	return 0;
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

size_t dfi__table_expire(struct table *table, int64_t now)
{
	struct lease *lease = first_lease(table), *next;
	size_t n = 0;

	for (; lease; lease = next) {
		next = next_lease(lease);
		if (lease->expiry == INT64_MAX || lease->expiry > now)
			continue;
		end_lease(table, lease);
		if (table->hooks.expired)
			table->hooks.expired(
			    table->hooks.arg, lease->holder, lease->id);
		free(lease);
		n++;
	}
	return n;
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

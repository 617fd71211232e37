/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases of the registry's table, in an array sorted by number, which is the
 * order of their making. Each has its keys in a tree. May not read a clock:
 * time is passed in.
 */
#include "table_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct lease *dfi__table_lease(
    const struct table *table, uint64_t id, size_t *index)
{
	size_t low = 0, high = table->n_leases;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->leases[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	*index = low;
	if (low < table->n_leases && table->leases[low]->id == id)
		return table->leases[low];
	dfi__fail(-ENOENT, "there is no lease %llu, or it has expired",
	    (unsigned long long)id);
	return NULL;
}

/* The moment ttl_ns after now, without overflow. */
static int64_t expiry_after(int64_t now, int64_t ttl_ns)
{
	return ttl_ns > INT64_MAX - now ? INT64_MAX : now + ttl_ns;
}

/* Make room for one more. */
static int reserve(struct table *table)
{
	size_t want = table->leases_capacity ? table->leases_capacity * 2 : 16;
	struct lease **grown;

	if (table->n_leases < table->leases_capacity)
		return 0;
	grown = reallocarray(table->leases, want, sizeof(*grown));
	if (!grown)
		return dfi__fail(
		    -ENOMEM, "no memory for %zu registry leases", want);
	table->leases = grown;
	table->leases_capacity = want;
	return 0;
}

int dfi__table_grant(struct table *table, void *holder, int64_t ttl_ns,
    int64_t now, uint64_t *lease_id)
{
	struct lease *lease;
	int ret;

	if (table->n_leases >= table->limits.max_leases)
		return dfi__fail(-ENOSPC,
		    "the registry is at its limit of %zu leases, one for each "
		    "context: close some, or raise max_connections "
		    "(dfi_registry_attr)",
		    table->limits.max_leases);
	ret = reserve(table);
	if (ret)
		return ret;
	lease = calloc(1, sizeof(*lease));
	if (!lease)
		return dfi__fail(-ENOMEM, "no memory for a registry lease");
	lease->id = ++table->last_lease;
	lease->holder = holder;
	lease->ttl_ns = ttl_ns;
	lease->expiry = expiry_after(now, ttl_ns);
	table->leases[table->n_leases++] = lease;
	*lease_id = lease->id;
	return 0;
}

int dfi__table_keepalive(struct table *table, uint64_t lease_id, int64_t now)
{
	size_t index;
	struct lease *lease = dfi__table_lease(table, lease_id, &index);

	if (!lease)
		return -ENOENT;
	lease->expiry = expiry_after(now, lease->ttl_ns);
	return 0;
}

/* Take the lease and its keys out. The caller frees the lease. */
static void end_lease(struct table *table, struct lease *lease, size_t index)
{
	struct tree_leaf *leaf = dfi__tree_from(&lease->keys, NULL, 0), *next;

	table->n_leases--;
	memmove(table->leases + index, table->leases + index + 1,
	    (table->n_leases - index) * sizeof(*table->leases));
	for (; leaf; leaf = next) {
		next = dfi__tree_next(leaf);
		dfi__table_drop(table, CONTAINER(leaf, struct entry, by_lease));
	}
}

int dfi__table_revoke(struct table *table, uint64_t lease_id)
{
	size_t index;
	struct lease *lease = dfi__table_lease(table, lease_id, &index);

	if (!lease)
		return -ENOENT;
	end_lease(table, lease, index);
	free(lease);
	return 0;
}

size_t dfi__table_expire(struct table *table, int64_t now)
{
	size_t i = 0, n = 0;

	while (i < table->n_leases) {
		struct lease *lease = table->leases[i];

		if (lease->expiry == INT64_MAX || lease->expiry > now) {
			i++;
			continue;
		}
		end_lease(table, lease, i);
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
	int64_t next = INT64_MAX;
	size_t i;

	for (i = 0; i < table->n_leases; i++)
		if (table->leases[i]->expiry < next)
			next = table->leases[i]->expiry;
	return next;
}

void dfi__table_renew_all(struct table *table, int64_t now)
{
	size_t i;

	for (i = 0; i < table->n_leases; i++)
		table->leases[i]->expiry = expiry_after(
		    now, table->leases[i]->ttl_ns);
}

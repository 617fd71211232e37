/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry's table as it was: its present keys for one who writes them down
 * while changes go on, and the changes of a table that is read back. An entry
 * is one version of a key and does not change, so that what is frozen only
 * keeps entries from being freed.
 */
#include "table_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct frozen_entry {
	struct entry *entry;
	uint64_t lease; /* at that time */
};

struct table_frozen {
	size_t n, at;
	struct entry *lent; /* the last item's; or NULL */
	struct frozen_entry entries[];
};

int dfi__table_freeze(struct table *table, struct table_frozen **frozen)
{
	size_t n = table->entries.n_leaves;
	struct table_frozen *new = malloc(
	    sizeof(*new) + n * sizeof(new->entries[0]));
	struct tree_leaf *leaf = dfi__tree_from(&table->entries, NULL, 0);
	struct entry *entry;

	if (!new)
		return dfi__fail(
		    -ENOMEM, "no memory for the registry's journal");
	new->n = new->at = 0;
	new->lent = NULL;
	for (; leaf; leaf = dfi__tree_next(leaf)) {
		entry = CONTAINER(leaf, struct entry, by_key);
		entry->n_refs++;
		new->entries[new->n++] = (struct frozen_entry){
			.entry = entry,
			.lease = entry->lease ? entry->lease->id : 0,
		};
	}
	*frozen = new;
	return 0;
}

bool dfi__table_frozen_next(
    struct table_frozen *frozen, struct table_item *item)
{
	const struct frozen_entry *next = &frozen->entries[frozen->at];

	if (frozen->lent)
		dfi__table_unref(frozen->lent);
	frozen->lent = NULL;
	if (frozen->at == frozen->n)
		return false;
	frozen->at++;
	frozen->lent = next->entry;
	*item = dfi__table_item(next->entry);
	item->lease = next->lease;
	return true;
}

void dfi__table_thaw(struct table_frozen *frozen)
{
	struct table_item item;

	while (frozen && dfi__table_frozen_next(frozen, &item))
		;
	free(frozen);
}

static int fail_impossible(const char *what)
{
	return dfi__fail(-EBADMSG,
	    "the registry's journal is damaged, or was not written by it: %s",
	    what);
}

/* Nobody watches yet: this only empties the queue. */
static void forget_changes(struct table *table, uint64_t revision)
{
	dfi__table_forget_changes(table);
	if (table->revision < revision)
		table->revision = revision;
}

int dfi__table_restore_grant(struct table *table, uint64_t lease, void *holder,
    int64_t ttl_ns, int64_t now)
{
	if (!lease || dfi__table_lease(table, lease))
		return fail_impossible("a lease is granted twice");
	if (lease > table->last_lease)
		table->last_lease = lease;
	return dfi__table_add_lease(table, lease, holder, ttl_ns, now);
}

int dfi__table_restore_put(
    struct table *table, const struct table_put *put, uint64_t revision)
{
	size_t key_size = strlen(put->key);
	uint64_t before = table->revision;
	int ret;

	if (!revision || !key_size || key_size > TABLE_KEY_MAX ||
	    put->size > TABLE_VALUE_MAX)
		return fail_impossible("a key or value has a wrong size");
	if (put->lease && !dfi__table_lease(table, put->lease))
		return fail_impossible("a key is bound to no lease");
	table->revision = revision - 1;
	ret = dfi__table_set(table, put);
	forget_changes(table, before);
	return ret;
}

int dfi__table_restore_delete(
    struct table *table, const char *key, uint64_t revision)
{
	int ret = dfi__table_delete(table, key, 0);

	forget_changes(table, revision);
	return ret ? fail_impossible("a key ends that is not there") : 0;
}

int dfi__table_restore_end(
    struct table *table, uint64_t lease, uint64_t revision)
{
	int ret = dfi__table_revoke(table, lease);

	forget_changes(table, revision);
	return ret ? fail_impossible("a lease ends that is not there") : 0;
}

void dfi__table_restore_count(
    struct table *table, uint64_t revision, uint64_t last_lease)
{
	if (table->revision < revision)
		table->revision = revision;
	if (table->last_lease < last_lease)
		table->last_lease = last_lease;
}

int dfi__table_restore_check(const struct table *table)
{
	if (table->revision > INT64_MAX || table->last_lease > INT64_MAX)
		return fail_impossible("a revision or a lease is too large");
	return 0;
}

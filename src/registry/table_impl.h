/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the three files of the table share: table.c (keys), table_leases.c and
 * table_watches.c. Nobody else may look.
 */
#ifndef DFI_REGISTRY_TABLE_IMPL_H
#define DFI_REGISTRY_TABLE_IMPL_H

#include <stdbool.h>

#include "table.h"

struct lease {
	uint64_t id;
	void *holder;
	int64_t ttl_ns;
	int64_t expiry;
	size_t n_keys;
};

struct watch {
	void *watcher;
	uint64_t tag;
	bool follows; /* see dfi__table_follow() */
	size_t prefix_size;
	char prefix[];
};

struct entry {
	void *value;
	size_t size;
	uint64_t revision;
	struct lease *lease;
	uint64_t owner;
	struct entry *next_dead;
	char key[];
};

struct table {
	struct table_limits limits;
	struct table_hooks hooks;
	uint64_t revision;
	uint64_t last_lease;
	size_t bytes;
	struct entry **entries;
	size_t n_entries, entries_capacity;
	struct lease **leases;
	size_t n_leases, leases_capacity;
	struct watch **watches;
	size_t n_watches, watches_capacity;
	size_t n_follows; /* of the watches */
};

/*
 * Make room for one more pointer: *array is an array of pointers to objects of
 * any one type.
 */
int dfi__table_reserve(void *array, size_t n, size_t *capacity);

/* NULL, with an error text, if there is none. */
struct lease *dfi__table_lease(
    const struct table *table, uint64_t id, size_t *index);

/* Tell the watches. */
void dfi__table_announce(const struct table *table, enum table_event_type type,
    const struct table_item *item);

/*
 * Delete the entries from index first up to last, of one lease or, lease NULL,
 * all. Returns how many.
 */
size_t dfi__table_delete_range(
    struct table *table, size_t first, size_t last, const struct lease *lease);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the table share: table.c (keys), table_leases.c,
 * table_watches.c, table_notify.c (the queue of changes), and table_restore.c.
 * Only these files include it.
 */
#ifndef DFI_REGISTRY_SERVER_TABLE_IMPL_H
#define DFI_REGISTRY_SERVER_TABLE_IMPL_H

#include <stdbool.h>
#include <sys/queue.h>

#include "table.h"
#include "key_tree.h"

#define CONTAINER(leaf, type, member) \
	((type *)((char *)(leaf)-offsetof(type, member)))

struct lease {
	struct tree_leaf by_id;
	uint64_t id, bytes; /* the same, big-endian: the leaf's text */
	void *holder;
	int64_t ttl_ns;
	int64_t expiry;
	struct tree keys; /* of entries, by their by_lease */
};

TAILQ_HEAD(watch_list, watch);

/* A text that is watched: as a prefix, and as a key. */
struct watched {
	struct tree_leaf leaf;
	struct watch_list of_prefix, of_key; /* oldest first */
	char text[];
};

/* What identifies a watch. */
struct watch_id {
	void *watcher;
	uint64_t tag;
};

struct watch {
	struct watch_id id;
	struct tree_leaf by_id;
	TAILQ_ENTRY(watch) link; /* in one of watched's lists */
	struct watched *watched;
	uint64_t since; /* revision: later changes concern it */
	bool exact;     /* it is in of_key */
	bool follows;   /* it is a TABLE_FOLLOW */
};

/* A change, in the queue until all watches were notified. */
struct change {
	STAILQ_ENTRY(change) link;
	struct entry *entry;
	uint64_t revision;
	enum table_event_type type;
};

/*
 * One version of a key: a put makes a new one. It has room for both of its
 * changes, so that a deletion needs no memory.
 */
struct entry {
	struct tree_leaf by_key;
	struct tree_leaf by_lease; /* if it has a lease */
	struct lease *lease;
	uint64_t owner;
	size_t size;     /* of the value */
	unsigned n_refs; /* references of the table and of queued changes */
	struct change put, deletion;
	char key[]; /* and its final 0, and the value */
};

/* How far watches were notified of the first change in the queue. */
struct notifying {
	bool begun;
	struct watch *next; /* in the list before lists[at] */
	size_t n_lists, at;
	struct watch_list *lists[TABLE_KEY_MAX + 2]; /* NULL: it was ended */
};

struct table {
	struct table_limits limits;
	struct table_hooks hooks;
	uint64_t revision;
	uint64_t last_lease;
	size_t bytes;
	struct tree entries;
	struct tree leases; /* in the order of their making */
	struct tree watched;
	struct tree watches; /* by number */
	size_t n_follows;    /* of the watches */
	STAILQ_HEAD(change_queue, change) changes;
	size_t untold_bytes;
	struct notifying notifying;
};

/* NULL, with an error text, if there is none. */
struct lease *dfi__table_lease(const struct table *table, uint64_t id);

/* Take the entry out, and queue its deletion. */
void dfi__table_drop(struct table *table, struct entry *entry);

/* Queue a change of the entry, which gets the next revision. */
void dfi__table_queue(
    struct table *table, struct entry *entry, enum table_event_type type);

/* Free all queued changes; no watch is notified. */
void dfi__table_forget_changes(struct table *table);

/* Free the entry if nothing refers to it any more. */
void dfi__table_unref(struct entry *entry);

/* Take the watch out and free it. */
void dfi__table_end_watch(struct table *table, struct watch *watch);

/* These watches end during a notification. */
void dfi__table_skip_watch(struct table *table, const struct watch *watch);
void dfi__table_skip_watched(
    struct table *table, const struct watched *watched);

struct table_item dfi__table_item(const struct entry *entry);

/* As dfi__table_put(), without a look at owners and limits. */
int dfi__table_set(struct table *table, const struct table_put *put);

/* Make a lease of this number. -ENOMEM. */
int dfi__table_add_lease(struct table *table, uint64_t id, void *holder,
    int64_t ttl_ns, int64_t now);

#endif

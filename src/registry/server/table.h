/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry's state: keys, leases and watches, as a pure state machine. No
 * I/O, no clock, no lock: time is passed in, and one thread at a time calls.
 *
 * Every change of a key gets the next revision, from 1. A key bound to a lease
 * is deleted when the lease is revoked or expires.
 *
 * A change is complete when the call returns. Its watches are told later, by
 * dfi__table_tell(): all hear of all changes in the order of the revisions.
 *
 * Errors: -EINVAL (bad key), -EMSGSIZE (key or value too long), -ENOSPC (a
 * limit is reached), -ENOMEM, and what the functions name. A failed call has
 * changed nothing.
 */
#ifndef DFI_REGISTRY_SERVER_TABLE_H
#define DFI_REGISTRY_SERVER_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define TABLE_KEY_MAX 512          /* bytes, without the final 0 */
#define TABLE_VALUE_MAX (64 << 10) /* bytes */

struct table;

struct table_limits {
	size_t max_keys;
	size_t max_bytes; /* of all keys and values */
	size_t max_leases;
	size_t max_lease_keys; /* bound to one lease */
	size_t max_watches;    /* and as many that follow */
};

/* Lent until the table changes. */
struct table_item {
	const char *key;
	const void *value;
	size_t size;
	uint64_t revision; /* of the key's last change */
	const void *at;    /* the table's own, for dfi__table_step() */
};

enum table_event_type {
	TABLE_PUT = 1,
	TABLE_DELETE, /* the item has no value */
};

/*
 * A hook may read the table, but not change it. Only expired may end watches. A
 * hook may be NULL.
 */
struct table_hooks {
	void *arg;
	/*
	 * By dfi__table_tell(), for each watch that a change concerns and that
	 * was made before it: those of a short prefix before those of a longer
	 * one, and of one prefix in the order of their making.
	 */
	void (*changed)(void *arg, void *watcher, uint64_t tag,
	    enum table_event_type type, const struct table_item *item);
	/* By dfi__table_expire(): a lease has expired, its keys are gone. */
	void (*expired)(void *arg, void *holder, uint64_t lease);
};

enum {
	TABLE_CREATE = 1,  /* -EEXIST if the key exists, */
	TABLE_RECLAIM = 2, /* and owner is not who has put it last */
};

struct table_put {
	const char *key;
	const void *value; /* copied */
	size_t size;
	uint64_t lease; /* to bind the key to; 0: none */
	uint64_t owner; /* who puts it; 0: nobody can say so later */
	unsigned flags;
};

int dfi__table_create(const struct table_limits *limits,
    const struct table_hooks *hooks, struct table **table);
void dfi__table_destroy(struct table *table);

uint64_t dfi__table_revision(const struct table *table);

/*
 * Set a key and bind it to the lease, or to none, whatever it was bound to
 * before. -ENOENT: no such lease. revision may be NULL.
 */
int dfi__table_put(
    struct table *table, const struct table_put *put, uint64_t *revision);

/* -ENOENT: no such key. */
int dfi__table_get(
    const struct table *table, const char *key, struct table_item *item);

/*
 * The first key, in bytewise order, that begins with prefix and is greater
 * than after ("": than none): 1, or 0 if there is none.
 */
int dfi__table_next(const struct table *table, const char *prefix,
    const char *after, struct table_item *item);

/* The key after *item, which is of this prefix, as dfi__table_next() would. */
int dfi__table_step(const char *prefix, struct table_item *item);

/* revision 0: any. -ENOENT: no such key, or it has another revision. */
int dfi__table_delete(struct table *table, const char *key, uint64_t revision);

enum table_watch {
	TABLE_PREFIX, /* of all keys that begin so */
	TABLE_KEY,    /* of this key alone */
	/* The same, counted apart: it takes no place of the others. */
	TABLE_FOLLOW,
};

/*
 * A watch is known by its watcher and its tag. -EEXIST, -ENOENT. Present keys
 * are not announced: read them by dfi__table_next() in the same breath.
 */
int dfi__table_watch(struct table *table, void *watcher, uint64_t tag,
    const char *text, enum table_watch kind);

/* 0, or 1 if it is a TABLE_FOLLOW. */
int dfi__table_unwatch(struct table *table, void *watcher, uint64_t tag);
void dfi__table_unwatch_all(struct table *table, void *watcher);

/* Expires ttl_ns after now and after each keepalive; INT64_MAX: never. */
int dfi__table_grant(struct table *table, void *holder, int64_t ttl_ns,
    int64_t now, uint64_t *lease);
int dfi__table_keepalive(struct table *table, uint64_t lease, int64_t now);
int dfi__table_revoke(struct table *table, uint64_t lease);

/* Expire what is due; returns how many leases. */
size_t dfi__table_expire(struct table *table, int64_t now);

/* When dfi__table_expire() is next due; INT64_MAX: never. */
int64_t dfi__table_next_expiry(const struct table *table);

/*
 * Every lease gets its whole ttl again from now on: nothing could be heard of
 * its holder lately.
 */
void dfi__table_renew_all(struct table *table, int64_t now);

/*
 * Tell watches of changes, and free what was kept for that, in about max steps:
 * one for each change, and one for each watch that it concerns and each 4 KiB
 * of its value. Returns the number of steps; less than max: nothing is left.
 */
size_t dfi__table_tell(struct table *table, size_t max);

/* The changes up to this revision have been told. */
uint64_t dfi__table_told(const struct table *table);

/* Bytes of changes that watches have not been notified of. */
size_t dfi__table_untold_bytes(const struct table *table);

/* Bytes of all keys and values. */
size_t dfi__table_bytes(const struct table *table);

#endif

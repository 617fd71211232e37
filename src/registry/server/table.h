/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry's state: keys, leases and watches, as a pure state machine. No
 * I/O, no clock, no lock: callers pass the time, and one thread at a time
 * calls.
 *
 * Every change of a key gets the next revision, from 1. A key bound to a lease
 * is deleted when the lease is revoked or expires.
 *
 * A change is complete when the call returns. dfi__table_notice() says later
 * which watches to notify: all get all changes in the order of the revisions.
 *
 * Errors: -EINVAL (bad key), -EMSGSIZE (key or value too long), -ENOSPC (a
 * limit is reached), -ENOMEM, and those that a function names. A failed call
 * changes nothing.
 */
#ifndef DFI_REGISTRY_SERVER_TABLE_H
#define DFI_REGISTRY_SERVER_TABLE_H

#include <stdbool.h>
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
	size_t max_watches;    /* and as many TABLE_FOLLOW ones */
};

/* Lent until the table changes. */
struct table_item {
	const char *key;
	const void *value;
	size_t size;
	uint64_t revision; /* of the key's last change */
	uint64_t owner;    /* which client made it; 0: unknown */
	uint64_t lease;    /* that it is bound to; 0: none */
	const void *at;    /* the table's own, for dfi__table_step() */
};

enum table_event_type {
	TABLE_PUT = 1,
	TABLE_DELETE, /* the item has no value */
};

/* A hook may read the table and end watches, but not change keys; or NULL. */
struct table_hooks {
	void *arg;
	/* dfi__table_expire() calls it: the lease and its keys are gone. */
	void (*expired)(void *arg, void *holder, uint64_t lease);
};

enum {
	TABLE_CREATE = 1,  /* -EEXIST if the key exists, */
	TABLE_RECLAIM = 2, /* and its last put was by another owner */
};

struct table_put {
	const char *key;
	const void *value; /* copied */
	size_t size;
	uint64_t lease; /* to bind the key to; 0: none */
	uint64_t owner; /* which client puts it; 0: unknown */
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

/* Changes that are about to be made. */
struct table_plan {
	size_t n_keys;
	size_t bytes;
	size_t n_leased; /* keys bound to any lease */
};

/* Check whether the put would succeed after others; never -ENOMEM. */
int dfi__table_check_put(const struct table *table, const struct table_put *put,
    const struct table_plan *plan);

/* -ENOENT: no such key. */
int dfi__table_get(
    const struct table *table, const char *key, struct table_item *item);

/*
 * Get the first key, in bytewise order, that begins with prefix and is greater
 * than after ("": any): 1, or 0 if there is none.
 */
int dfi__table_next(const struct table *table, const char *prefix,
    const char *after, struct table_item *item);

/* Get the key after *item with this prefix, as dfi__table_next() would. */
int dfi__table_step(const char *prefix, struct table_item *item);

/* Check whether a deletion would succeed, and get the key. */
int dfi__table_check_delete(const struct table *table, const char *key,
    uint64_t revision, struct table_item *item);

/* Tells whether there is such a key, and it is bound to a lease. */
bool dfi__table_is_leased(const struct table *table, const char *key);

/* revision 0: any. -ENOENT: no such key, or it has another revision. */
int dfi__table_delete(struct table *table, const char *key, uint64_t revision);

enum table_watch {
	TABLE_PREFIX, /* of all keys with this prefix */
	TABLE_KEY,    /* of this key alone */
	/* The same, counted apart from the other kinds. */
	TABLE_FOLLOW,
};

/*
 * Make a watch, identified by its watcher and its tag. -EEXIST, -ENOENT.
 * Existing keys are not reported: read them by dfi__table_next() before the
 * table changes.
 */
int dfi__table_watch(struct table *table, void *watcher, uint64_t tag,
    const char *text, enum table_watch kind);

/* Returns 0, or 1 if it was a TABLE_FOLLOW. */
int dfi__table_unwatch(struct table *table, void *watcher, uint64_t tag);
void dfi__table_unwatch_all(struct table *table, void *watcher);

/* Expires ttl_ns after now and after each keepalive; INT64_MAX: never. */
int dfi__table_grant(struct table *table, void *holder, int64_t ttl_ns,
    int64_t now, uint64_t *lease);
int dfi__table_keepalive(struct table *table, uint64_t lease, int64_t now);
int dfi__table_revoke(struct table *table, uint64_t lease);

/* Expire what is due; returns how many leases. */
size_t dfi__table_expire(struct table *table, int64_t now);

/* The first lease after this one that is due; 0: none. */
uint64_t dfi__table_due(const struct table *table, uint64_t lease, int64_t now);

/* Expire one. -ENOENT. */
int dfi__table_expire_lease(struct table *table, uint64_t lease);

/* The number of keys that are bound to a lease. -ENOENT. */
int dfi__table_lease_keys(
    const struct table *table, uint64_t lease, size_t *n_keys);

/* The first key of a lease, in bytewise order, that is greater than after. */
int dfi__table_lease_next(const struct table *table, uint64_t lease,
    const char *after, struct table_item *item);

/* NULL: there is no such lease, or nobody holds it. */
void *dfi__table_holder(const struct table *table, uint64_t lease);

/* Give the lease to another holder, and its whole ttl again. -ENOENT. */
int dfi__table_hand_over(struct table *table, uint64_t lease, void *holder,
    int64_t ttl_ns, int64_t now);

/* When dfi__table_expire() is next due; INT64_MAX: never. */
int64_t dfi__table_next_expiry(const struct table *table);

/*
 * Give each lease its whole ttl again: for a while no signs of life could be
 * read.
 */
void dfi__table_renew_all(struct table *table, int64_t now);

/* What to notify a watch of. */
struct table_notice {
	void *watcher;
	uint64_t tag;
	enum table_event_type type;
	struct table_item item;
};

/*
 * Get the next notice, and free changes that all watches got. There is one for
 * each watch that a change concerns and that was made before it: first those
 * with shorter prefixes, and of one prefix in the order of their making.
 *
 * Adds the steps to *n: one for each change, and one for each notice and each 4
 * KiB of its value. false: *n has reached about max; or, if it is less, nothing
 * is left.
 */
bool dfi__table_notice(
    struct table *table, size_t max, size_t *n, struct table_notice *notice);

/* Watches were notified of the changes up to this revision. */
uint64_t dfi__table_notified(const struct table *table);

/* Bytes of changes that watches have not been notified of. */
size_t dfi__table_untold_bytes(const struct table *table);

/* Bytes of all keys and values. */
size_t dfi__table_bytes(const struct table *table);

/* The last lease that was granted. */
uint64_t dfi__table_last_lease(const struct table *table);

/*
 * All keys as they are now: later changes don't show. Take each item once; an
 * item is lent until the next one is taken, or the end.
 */
struct table_frozen;
int dfi__table_freeze(struct table *table, struct table_frozen **frozen);
bool dfi__table_frozen_next(
    struct table_frozen *frozen, struct table_item *item);
/* NULL is allowed. */
void dfi__table_thaw(struct table_frozen *frozen);

/*
 * Changes that a table had before. Watches are not notified of them, and limits
 * don't matter. -EBADMSG: the table can't have had it.
 */
int dfi__table_restore_grant(struct table *table, uint64_t lease, void *holder,
    int64_t ttl_ns, int64_t now);
int dfi__table_restore_put(
    struct table *table, const struct table_put *put, uint64_t revision);
int dfi__table_restore_delete(
    struct table *table, const char *key, uint64_t revision);
int dfi__table_restore_end(
    struct table *table, uint64_t lease, uint64_t revision);
void dfi__table_restore_count(
    struct table *table, uint64_t revision, uint64_t last_lease);
/* After each of these: -EBADMSG if the numbers of the table may wrap. */
int dfi__table_restore_check(const struct table *table);

#endif

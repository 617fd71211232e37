/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of the store, written by a forked child. The kernel keeps the old
 * pages of the store for the child, and the replica continues at once. With a
 * folder, the last snapshot is its file "snapshot", which is replaced whole;
 * without one, it is in memory.
 *
 * One thread at a time.
 */
#ifndef KV_SNAPSHOT_H
#define KV_SNAPSHOT_H

#include "store.h"

struct snapshots;

/* dir NULL: in memory. -ENOMEM, and errors of the folder, with a text. */
int snapshots_open(const char *dir, struct snapshots **snapshots);
void snapshots_close(struct snapshots *snapshots); /* a child is ended */

/*
 * The store of the folder's snapshot: NULL if there is none. -EBADMSG: it is
 * damaged, with a text. -ENOMEM.
 */
int snapshots_load(struct snapshots *snapshots, struct kv_store **store);

/* Begin one. -EBUSY: one is being written. -EAGAIN, -ENOMEM: no child. */
int snapshots_begin(struct snapshots *snapshots, const struct kv_store *store);

/* Whether a child is at work; then call snapshots_check() now and then. */
bool snapshots_busy(const struct snapshots *snapshots);

/*
 * Whether the current one has ended; then *slot is its slot, and *err is 0 or
 * the error. Never waits.
 */
bool snapshots_check(struct snapshots *snapshots, uint64_t *slot, int *err);

/*
 * Read from the last complete one. Returns the number of bytes, and its slot
 * and size; 0 and *total 0: there is none.
 */
size_t snapshots_read(struct snapshots *snapshots, uint64_t offset, char *to,
    size_t size, uint64_t *slot, uint64_t *total);

#endif

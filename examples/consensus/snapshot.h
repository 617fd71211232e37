/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of the store, written by a forked child: the kernel keeps the
 * store's pages for it as they were, and the replica goes on at once. With a
 * folder, the last one is its file "snapshot", which is replaced whole;
 * without, it is in memory.
 *
 * One thread.
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
 * Whether the one that was begun has ended; then *slot is its slot, and *err 0
 * or why it failed. Never waits.
 */
bool snapshots_check(struct snapshots *snapshots, uint64_t *slot, int *err);

/*
 * Read of the last complete one. Returns how many bytes there were, and its
 * slot and size; 0 and *total 0: there is none.
 */
size_t snapshots_read(struct snapshots *snapshots, uint64_t offset, char *to,
    size_t size, uint64_t *slot, uint64_t *total);

#endif

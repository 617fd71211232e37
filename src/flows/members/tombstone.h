/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets that have cancelled and are closed while sources are still to come:
 * each source has to find the target's entry, so that it doesn't wait for the
 * target. Such an entry goes when all sources have attached, or none can any
 * more, because the flow was removed; and with the context.
 */
#ifndef DFI_FLOWS_MEMBERS_TOMBSTONE_H
#define DFI_FLOWS_MEMBERS_TOMBSTONE_H

#include <stdbool.h>
#include <sys/queue.h>

struct dfi;
struct peers;
struct tombstones;

/* In an endpoint that has closed, of which the peers and the entry stay. */
struct tombstone {
	TAILQ_ENTRY(tombstone) link;
	struct peers *peers;
	/*
	 * Closes the peers and frees the endpoint, the tombstone with it.
	 * withdraw: the entry goes now, and not with the context.
	 */
	void (*end)(struct tombstone *tombstone, bool withdraw);
};

/* A context's: see struct context_part. */
int dfi__tombstones_open(struct dfi *dfi);
void dfi__tombstones_close(struct dfi *dfi);

/* Takes the endpoint, and ends it when no peer is expected any more. */
void dfi__tombstone_begin(struct tombstone *tombstone);

#endif

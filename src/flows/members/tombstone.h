/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets that have cancelled and closed before all sources have attached. Each
 * later source must find the target's entry, so that it doesn't wait for the
 * target. The entry goes when all sources have attached, or none can because
 * the flow was removed, or the context closes.
 */
#ifndef DFI_FLOWS_MEMBERS_TOMBSTONE_H
#define DFI_FLOWS_MEMBERS_TOMBSTONE_H

#include <stdbool.h>
#include <sys/queue.h>

struct dfi;
struct peers;
struct tombstones;

/* In a closed endpoint whose peers and entry stay. */
struct tombstone {
	TAILQ_ENTRY(tombstone) link;
	struct peers *peers;
	/*
	 * Close the peers and free the endpoint with its tombstone. withdraw:
	 * delete the entry now, not with the context.
	 */
	void (*end)(struct tombstone *tombstone, bool withdraw);
};

/* The list of a context; flows/open_context.c opens it. */
int dfi__tombstones_open(struct dfi *dfi);
void dfi__tombstones_close(struct dfi *dfi);

/* Take over the endpoint, and end it when no peer is expected any more. */
void dfi__tombstone_begin(struct tombstone *tombstone);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared ring of a source of an open replicate flow: slots in memory of the
 * source, which all its targets read. It has the same readers as long as it is
 * written. When these are no longer the targets of the source, it goes back to
 * the rings of its pairs at the next segment boundary (G3 to G5 in
 * docs/open-flows.md). Nobody waits for a shared ring, and without one the
 * source copies.
 *
 *	state		who uses it	next
 *	-------------------------------------------------------------
 *	SHARED_NONE	the helper	READY, by the helper
 *	SHARED_READY	the owner	USED or OVER, by the owner
 *	SHARED_USED	the owner	LEFT, by the owner
 *	SHARED_LEFT	the owner	OVER, when all have read all of it
 *	SHARED_OVER	the helper	NONE, by the helper
 */
#ifndef DFI_FLOWS_KINDS_OPEN_OPEN_SHARED_H
#define DFI_FLOWS_KINDS_OPEN_OPEN_SHARED_H

#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/compiler.h"
#include "buffers/shared_ring.h"

struct dfi_source;
struct open_source;

enum shared_state {
	SHARED_NONE = 0,
	SHARED_READY,
	SHARED_USED,
	SHARED_LEFT,
	SHARED_OVER,
};

/* The source of a pair, in the shared ring or not quite out of it. */
struct shared_stay {
	struct dfi_source *end; /* NULL: it has no segments there */
	uint64_t first;         /* the pair's number of the first of them */
	uint64_t n;             /* how many, the move back included */
	uint64_t before;        /* the pair's tuples before them */
};

struct open_shared {
	_Atomic uint32_t state; /* enum shared_state */
	bool outdated;          /* the owner leaves it */
	bool has_all;           /* it is used, and all targets read all of it */
	struct shared_ring ring;
	struct writer writer;
	uint64_t bytes;              /* of its memory, as counted; or 0 */
	struct shared_stay *stays;   /* of each seat; the owner's */
	struct dfi_source **readers; /* the stays' ends, if it has all */
	uint32_t n_readers;
	uint64_t *granted;         /* to which pair of each seat; 0: none */
	struct dfi_source **found; /* the helper's: of these pairs */
	int64_t since;  /* the helper's: since when they are these pairs */
	int64_t try_at; /* after a failure */
	bool complained;
};

/* Whether segments go to the shared ring. For the owner. */
static inline bool shared_is_used(const struct open_shared *shared)
{
	return shared && atomic_peek(&shared->state) == SHARED_USED;
}

/* Make what a source of a flow that moves needs. -ENOMEM */
int dfi__open_shared_new(struct open_source *open);

/* Free it. The helper has ended, and the pairs are closed. */
void dfi__open_shared_free(struct open_source *open);

/*
 * What the helper does: make a shared ring for the targets that are attached,
 * or free one. Returns when it wants to look again. Takes the lock.
 */
int64_t dfi__open_shared_tend(struct open_source *open);

/*
 * The lane is closed: leave a ring that is outdated. It has room for that
 * always.
 */
void dfi__open_shared_turn(struct open_source *open);

/*
 * The lane is closed, and each target has room: move to the shared ring that
 * the helper has made, if its readers are all local targets.
 */
void dfi__open_shared_enter(struct open_source *open);

/* Go back to the rings of pairs, before the source ends. */
void dfi__open_shared_leave(struct open_source *open);

/* The owner has taken the pair of a seat, or gives it up. */
void dfi__open_shared_joined(struct open_source *open, uint32_t seat);
void dfi__open_shared_lost(struct open_source *open, uint32_t seat);

/* Whether a seat's target reads the ring that is used. */
static inline bool shared_has(const struct open_shared *shared, uint32_t seat)
{
	return shared_is_used(shared) && shared->stays[seat].end;
}

/* writer_credit() for a target that reads the ring that is used. */
int dfi__open_shared_room(const struct open_source *open, uint32_t seat);

/*
 * Send a segment, whose bytes were built in the ring, or a mark to its readers:
 * to how many. Each has room.
 */
uint32_t dfi__open_shared_send(struct open_source *open, uint64_t bytes);
/*
 * The ring has all targets: send a full segment: 1, if each has room for the
 * next one, or 0. -1: a target is lost, and nothing was sent.
 */
int dfi__open_shared_send_full(struct open_source *open);
void dfi__open_shared_mark(struct open_source *open, uint64_t mark);

/* dfi__writer_unreturned() of a pair's source in memory, wherever it has sent.
 */
uint64_t dfi__open_shared_unreturned(
    const struct open_source *open, const struct dfi_source *end);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source from inside. source.c opens and closes it, send.c moves segments,
 * and shuffle.c routes tuples into them.
 */
#ifndef DFI_FLOWS_SOURCE_H
#define DFI_FLOWS_SOURCE_H

#include <dfi/source.h>
#include "../base/wait.h"
#include "../buffers/writer.h"
#include "context.h"
#include "descriptor.h"
#include "peers.h"
#include "route.h"

/*
 * Invariants of lane t of writers[t]:
 *	a segment is open	segment is not NULL, next < end, end is the end
 *				of the segment; segment to next are filled
 *	none is open		segment is NULL, next == spare, end is one
 *				tuple behind it
 * While a cursor is open, its target's lane is as if none were open, and the
 * cursor has the position.
 */
struct dfi_source {
	struct dfi_source_head head; /* first: see dfi/source.h */
	uint32_t magic;
	int status; /* the first hard error; then all lanes are empty */
	bool
	    cursor_open; /* then its lane is closed, though a segment is open */
	uint32_t cursor_target;
	char status_text[256];
	size_t size; /* of this handle's memory */
	struct dfi *dfi;
	struct flow flow;
	uint32_t index;
	uint32_t flags;
	struct wait_policy wait;
	struct wait_time wait_time;
	struct router router;
	struct peers targets;
	struct writer *writers;
	char *spare; /* room for one tuple, for lanes without a segment */
	uint32_t n_remotes;  /* opened so far */
	const void *claimed; /* start of the span that is lent, or NULL */
	uint64_t stalls;
	struct dfi_source_lane lanes[];
};

int dfi__source_check_slow(const struct dfi_source *source);

/* The sticky error, with its text, or what is wrong with the handle. */
static inline int source_check(const struct dfi_source *source)
{
	if (likely(source && source->magic == SOURCE_MAGIC && !source->status))
		return 0;
	return dfi__source_check_slow(source);
}

/* Make err, whose text was just set, sticky, and close all segments. */
int dfi__source_fail(struct dfi_source *source, int err);

/* -ERANGE, which is not sticky. */
int dfi__source_no_target(const struct dfi_source *source, uint32_t target);

/* As source_check(), and no cursor is open (-EBUSY). */
int dfi__source_check_free(const struct dfi_source *source);

/* Whether a target has died or left. */
bool dfi__source_target_gone(struct dfi_source *source, uint32_t target);

/*
 * Open a segment for a target that has none open: 1, 0 without credit, or a
 * hard error.
 */
int dfi__source_open_segment(struct dfi_source *source, uint32_t target);

/*
 * Open a segment for a target that has none open: waits for credit as the
 * handle says. -EAGAIN, -ETIMEDOUT, -ECONNRESET.
 */
int dfi__source_make_room(struct dfi_source *source, uint32_t target);

/* The same for a push, whose tuple must not be forgotten: see close. */
int dfi__source_make_room_to_push(struct dfi_source *source, uint32_t target);

/*
 * Send the open segment of a target, of which the bytes up to lane->next are
 * filled, and open the next one if there is credit.
 */
int dfi__source_send(struct dfi_source *source, uint32_t target);

/* Point the lane to the spare room. */
static inline void source_close_lane(struct dfi_source *source, uint32_t target)
{
	source->head.lanes[target] = (struct dfi_source_lane){
		.next = source->spare,
		.end = source->spare + source->head.tuple_size,
	};
}

#endif

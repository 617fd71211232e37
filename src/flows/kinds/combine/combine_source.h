/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources that combine: tuples are built in a small buffer (the stage) instead
 * of a ring's segment, and folded into a table of partial aggregates when it is
 * published. When the table is full, or is flushed, its records are sent; a
 * full table leaves the rest of the stage, which is folded when there is room.
 *
 * If that is no less than the tuples were, and the flow lets the source choose
 * (DFI_COMBINING_ADAPTIVE), a lane's tuples go into the ring as they are, and
 * after so many of them it is tried again.
 *
 * Invariants of a lane, beside those in source.h:
 *	staged			the open segment is the stage
 *	not staged, open	it lies in the ring; nothing is held
 *	none is open		what is held may wait for room in the ring
 */
#ifndef DFI_FLOWS_KINDS_COMBINE_COMBINE_SOURCE_H
#define DFI_FLOWS_KINDS_COMBINE_COMBINE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include "flows/aggregate/partials.h"

struct dfi_source;
struct flow;

struct combine_lane {
	struct partials table;
	char *stage;
	/* Of the stage, what is to be folded before it is open again. */
	const char *rest, *rest_end;
	bool staged;
	bool combines; /* the next open segment is the stage */
	bool sends;    /* the table's records, from this one on: */
	uint32_t next;
	bool raw_next;         /* though it combines: to carry a mark */
	bool flushes;          /* all that is held is to be sent */
	uint64_t folded, sent; /* tuples and records, since it was judged */
	uint64_t left;         /* tuples, until it is tried again */
	uint64_t pause;        /* tuples before the next try */
	/* For any thread to read: */
	_Atomic uint64_t combined, raw; /* tuples */
	_Atomic uint64_t records;       /* sent */
};

struct combine_source {
	struct plan *plan;
	void *memory; /* of the lanes' stages and tables */
	uint64_t bytes;
	bool adapts;
	_Atomic uint64_t stops; /* of its lanes; for any thread to read */
	uint32_t record_size;
	uint32_t segment_records;
	uint32_t stage_size;
	struct combine_lane lanes[];
};

/* After its rings are open. -ENOMEM. */
int dfi__combine_source_open(struct dfi_source *source);
void dfi__combine_source_close(struct dfi_source *source);

/* As those of writers: see lane_open() and so on in source.h. */
int dfi__combine_lane_open(struct dfi_source *source, uint32_t target);
int dfi__combine_lane_publish(
    struct dfi_source *source, uint32_t target, uint64_t used);
/* 0: not all of it was sent, but it is taken out of the open segment. */
int dfi__combine_lane_publish_part(
    struct dfi_source *source, uint32_t target, uint64_t used);

/* Whether there are tuples that are neither sent nor in the open segment. */
bool dfi__combine_holds(const struct dfi_source *source, uint32_t target);

/* Nobody is to get what is held. */
void dfi__combine_forget(struct dfi_source *source, uint32_t target);

/*
 * Send what is in the open segment and what is held; waits for room as
 * dfi__source_make_room() does. 0 if the target has cancelled.
 */
int dfi__combine_flush(struct dfi_source *source, uint32_t target);

/*
 * Of a flow with windows: the segment that opens next, or is open, lies in the
 * ring, to carry a mark; and what the lane has is sent before.
 */
void dfi__combine_carry(struct dfi_source *source, uint32_t target);

/* Flush all targets, and wait whatever the handle says. */
int dfi__combine_finish(struct dfi_source *source, int64_t deadline);

#endif

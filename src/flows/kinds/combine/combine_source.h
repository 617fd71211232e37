/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources that combine: pushes build tuples in a small buffer (the stage)
 * instead of a ring's segment. Publishing folds them into a table of partial
 * aggregates. A table that is full, or is flushed, is sent. If the table fills
 * up, the rest of the stage is folded once there is room.
 *
 * If the table saves no bytes and the flow lets the source choose
 * (DFI_COMBINING_ADAPTIVE), the lane puts tuples into the ring unchanged. After
 * a number of tuples it tries to combine again.
 *
 * Invariants of a lane, in addition to those in source.h:
 * - staged: the open segment is the stage
 * - not staged, open: the segment lies in the ring; the lane holds nothing
 * - none open: what the lane holds may wait for room in the ring
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
	/* The part of the stage to fold before the stage opens again. */
	const char *rest, *rest_end;
	bool staged;
	bool combines; /* the next open segment is the stage */
	bool sends;    /* sends the table, from this partial aggregate on: */
	uint32_t next;
	bool raw_next; /* the next segment lies in the ring, to carry a mark */
	bool flushes;  /* all that the lane holds is to be sent */
	uint64_t folded, sent; /* tuples, records; since judged */
	uint64_t left;         /* tuples until the next try */
	uint64_t pause;        /* tuples before the next try */
	/* Any thread reads these: */
	_Atomic uint64_t combined, raw; /* tuples */
	_Atomic uint64_t records;       /* partial aggregates sent */
};

struct combine_source {
	struct plan *plan;
	void *memory; /* of the lanes' stages and tables */
	uint64_t bytes;
	bool adapts;
	_Atomic uint64_t stops; /* of its lanes; any thread reads it */
	uint32_t record_size;
	uint32_t segment_records;
	uint32_t stage_size;
	struct combine_lane lanes[];
};

/* Call it after the rings were opened. -ENOMEM. */
int dfi__combine_source_open(struct dfi_source *source);
void dfi__combine_source_close(struct dfi_source *source);

/*
 * The counterparts of the writer's functions; see lane_open() and the next
 * functions in source.h.
 */
int dfi__combine_lane_open(struct dfi_source *source, uint32_t target);
int dfi__combine_lane_publish(
    struct dfi_source *source, uint32_t target, uint64_t used);
/* 0: the open segment is empty now, but the lane still holds some tuples. */
int dfi__combine_lane_publish_part(
    struct dfi_source *source, uint32_t target, uint64_t used);

/* Whether the lane has tuples that are neither sent nor in the open segment. */
bool dfi__combine_holds(const struct dfi_source *source, uint32_t target);

/* Drop the tuples that the lane holds. */
void dfi__combine_forget(struct dfi_source *source, uint32_t target);

/*
 * Send the open segment and what the lane holds. Waits for room as
 * dfi__source_make_room() does. 0 if the target has cancelled.
 */
int dfi__combine_flush(struct dfi_source *source, uint32_t target);

/*
 * For a flow with windows: the open segment, or the next one, must lie in the
 * ring, to carry a mark. What the lane holds is sent before.
 */
void dfi__combine_carry(struct dfi_source *source, uint32_t target);

/* Flush all targets; waits even if the handle is nonblocking. */
int dfi__combine_finish(struct dfi_source *source, int64_t deadline);

#endif

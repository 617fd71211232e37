/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The windows of a combiner flow, from the view of a source. At the end of a
 * window each target gets a segment with a mark, after all tuples of the window
 * and before those of the next. The mark goes to all targets or to none, so
 * each ring must have room first. The call that ends a window waits for that
 * room. Until there is room, dfi_source_mark() marks nothing, and a push
 * doesn't take the last tuple of a window of n.
 *
 * Windows of n tuples may end in any lane. So each lane may take a share of
 * tuples, and then makes a call. All shares together are at most the tuples
 * left in the window. Shares shrink with these; in the end each lane makes a
 * call for each tuple. Before the last tuple either all lanes have an open
 * segment, which will carry the mark, or all are closed, so that the next push
 * must make room.
 *
 * If the source lingers, the caller of these functions holds its lock.
 */
#ifndef DFI_FLOWS_KINDS_COMBINE_WINDOW_H
#define DFI_FLOWS_KINDS_COMBINE_WINDOW_H

#include <stdint.h>

struct dfi_source;

struct window_lane {
	char *counted;  /* tuples before it are counted */
	char *room;     /* the segment's end; writer.end may be lower */
	uint64_t share; /* of the window, in tuples from counted on */
};

struct source_window {
	uint64_t tuples; /* of a window; 0: the application marks */
	uint64_t left;   /* tuples that are not counted yet; unused with 0 */
	struct window_lane lanes[];
};

/*
 * For a source whose flow has windows, once it knows whether it combines:
 * -ENOMEM.
 */
int dfi__window_open(struct dfi_source *source);

/* See struct source_ops. */
int dfi__window_mark(struct dfi_source *source, uint64_t value);

/*
 * Open all lanes, so that the next mark needs no room; waits for it, or returns
 * -EAGAIN, as dfi__source_make_room() does.
 */
int dfi__window_carry(struct dfi_source *source);

/* A segment was opened for a lane: set how far the lane may fill it. */
void dfi__window_opened(struct dfi_source *source, uint32_t lane);

/*
 * The lane has used its share: give it more, send its segment, or end the
 * window. The errors are those of dfi__source_send().
 */
int dfi__window_reached(struct dfi_source *source, uint32_t lane);

/* Count the tuples of a lane whose open segment is about to be sent. */
void dfi__window_count(struct dfi_source *source, uint32_t lane);

/* dfi__source_send() for a source with windows. */
int dfi__window_send(struct dfi_source *source, uint32_t lane);

/*
 * Lanes were opened or closed. If the next tuple is the window's last, and not
 * all lanes are open, close all. 0, or an error.
 */
int dfi__window_settle(struct dfi_source *source);

/*
 * dfi__source_make_room() for a source with windows. Before the last tuple, it
 * makes room in all lanes.
 */
int dfi__window_make_room(struct dfi_source *source, uint32_t lane);

#endif

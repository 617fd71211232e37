/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The windows of a combiner flow, as one of its sources sees them: where one
 * ends, each target gets a segment that says so, after all tuples of the window
 * and before those of the next. That segment is sent to all targets or to none,
 * so there must be room in each ring first. Whoever ends a window waits for it,
 * before anything else is done: with dfi_source_mark() nothing is marked, with
 * the last tuple of a window of n that is not taken.
 *
 * To stop at the n-th tuple, whichever lane it goes to, each lane may take some
 * tuples (its share), and then calls in. Shares of all together are no more
 * than are left of the window. They become smaller with it, and in the end each
 * lane calls in after each tuple. Before the last one all lanes have a segment
 * open, which will carry the mark, or all are closed, so that whatever comes
 * next must make room.
 *
 * The lock of a source that lingers is held in all of these.
 */
#ifndef DFI_FLOWS_KINDS_COMBINE_WINDOW_H
#define DFI_FLOWS_KINDS_COMBINE_WINDOW_H

#include <stdint.h>

struct dfi_source;

struct window_lane {
	char *counted;  /* tuples of the open segment before it are counted */
	char *room;     /* where the segment ends; writer.end may be lower */
	uint64_t share; /* of the window, in tuples from counted on */
};

struct source_window {
	uint64_t tuples;  /* of a window; 0: the application marks */
	uint64_t left;    /* that are not counted yet; with 0 of no meaning */
	uint64_t n_ended; /* windows */
	int refused;      /* why the last mark found no room, or 0 */
	struct window_lane lanes[];
};

/* Of a source whose flow has windows, once it is known to combine: -ENOMEM. */
int dfi__window_open(struct dfi_source *source);

/* A segment was opened for a lane: how far the lane may fill it. */
void dfi__window_opened(struct dfi_source *source, uint32_t lane);

/*
 * The lane has taken what it may: it may take more, its segment is sent, or the
 * window ends. As dfi__source_send().
 */
int dfi__window_reached(struct dfi_source *source, uint32_t lane);

/* Count what an open lane has taken, whose segment is about to go. */
void dfi__window_count(struct dfi_source *source, uint32_t lane);

/* As dfi__source_send(), of a source with windows. */
int dfi__window_send(struct dfi_source *source, uint32_t lane);

/*
 * Lanes were opened or closed: unless all are open now, or it is not the last
 * tuple of the window that is next, none stays open. 0, or an error.
 */
int dfi__window_settle(struct dfi_source *source);

/*
 * As dfi__source_make_room(), of a source with windows: for the last tuple in
 * all lanes.
 */
int dfi__window_make_room(struct dfi_source *source, uint32_t lane);

#endif

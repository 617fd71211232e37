/* SPDX-License-Identifier: Apache-2.0 */
/* See window.h. */
#include "window.h"

#include <stdlib.h>
#include "base/bits.h"
#include "base/compiler.h"
#include "base/error.h"
#include "combine_source.h"
#include "flows/endpoint/source.h"
#include "state.h"

/*
 * The share of each lane. If the source combines, it excludes the window's last
 * tuple, which goes straight into the ring: the ring must have room for the
 * mark.
 */
static uint64_t next_share(const struct dfi_source *source)
{
	uint64_t left = window_of(source)->left - (combine_of(source) != NULL);

	return max_u64(left / source->n_lanes, 1);
}

int dfi__window_open(struct dfi_source *source)
{
	uint32_t i, n_lanes = source->n_lanes;
	struct source_window *window = calloc(
	    1, sizeof(*window) + n_lanes * sizeof(window->lanes[0]));

	if (!window)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", source->flow.name);
	((struct combine_state *)source->state)->window = window;
	if (source->flow.window_tuples == DFI_WINDOW_MARKED)
		return 0;
	window->tuples = window->left = source->flow.window_tuples;
	for (i = 0; i < n_lanes; i++)
		window->lanes[i].share = next_share(source);
	return 0;
}

/* ---- Shares ----------------------------------------------------------------
 */

/* Where a lane with an open segment stops, to make a call. */
static void set_end(struct dfi_source *source, uint32_t lane)
{
	const struct window_lane *mine = &window_of(source)->lanes[lane];
	struct writer *writer = &source->writers[lane];
	uint32_t size = source->head.tuple_size;
	uint64_t room = (uint64_t)(mine->room - mine->counted) / size;

	writer->end = mine->counted + min_u64(room, mine->share) * size;
}

void dfi__window_opened(struct dfi_source *source, uint32_t lane)
{
	struct window_lane *mine = &window_of(source)->lanes[lane];

	if (!window_of(source)->tuples)
		return;
	mine->counted = source->writers[lane].segment;
	mine->room = source->writers[lane].end;
	set_end(source, lane);
}

/* Set the end of an open lane, lower if it must linger. */
static void set_lane_end(struct dfi_source *source, uint32_t lane)
{
	struct dfi_source_lane *open = &source->head.lanes[lane];
	struct writer *writer = &source->writers[lane];

	set_end(source, lane);
	if (!source->linger.ns)
		lane_set_end(open, writer->end);
	else if (source_filled(source, lane))
		dfi__linger_start(source, lane);
	else
		lane_set_end(open, writer->segment + source->head.tuple_size);
}

void dfi__window_count(struct dfi_source *source, uint32_t lane)
{
	struct source_window *window = window_of(source);
	struct window_lane *mine = &window->lanes[lane];
	uint64_t n;

	if (!window->tuples || !source->writers[lane].segment ||
	    source_lane_is_closed(source, lane))
		return;
	n = (uint64_t)(source->head.lanes[lane].next - mine->counted) /
	    source->head.tuple_size;
	mine->counted = source->head.lanes[lane].next;
	mine->share -= n;
	window->left -= n;
}

/* Distribute the rest of the window to all lanes, as one has used its share. */
static void share_out(struct dfi_source *source)
{
	struct source_window *window = window_of(source);
	uint32_t i, n_lanes = source->n_lanes;
	uint64_t share;

	for (i = 0; i < n_lanes; i++)
		dfi__window_count(source, i);
	share = next_share(source);
	for (i = 0; i < n_lanes; i++) {
		window->lanes[i].share = share;
		if (source->writers[i].segment &&
		    !source_lane_is_closed(source, i))
			set_lane_end(source, i);
	}
}

/* A lane has used its share, and the window has tuples left. */
static void give_share(struct dfi_source *source, uint32_t lane)
{
	struct source_window *window = window_of(source);

	/* All other lanes then have a share of one each. */
	if (window->left < source->n_lanes) {
		window->lanes[lane].share = 1;
		set_lane_end(source, lane);
	} else {
		share_out(source);
	}
}

/* ---- The end of a window ---------------------------------------------------
 */

/* Open all lanes except those whose targets have cancelled. */
int dfi__window_carry(struct dfi_source *source)
{
	uint32_t i;
	int ret;

	for (i = 0; i < source->n_lanes; i++) {
		if (combine_of(source))
			dfi__combine_carry(source, i);
		if (source->writers[i].segment || source->writers[i].cancelled)
			continue;
		ret = dfi__source_make_room(source, i);
		if (ret < 0 && ret != -EPIPE)
			return ret;
	}
	return 0;
}

/*
 * Send the tuples of a lane together with the mark. 0 also if its target has
 * cancelled.
 */
static int send_mark(struct dfi_source *source, uint32_t lane, uint64_t mark)
{
	struct writer *writer = &source->writers[lane];
	int ret;

	if (writer->cancelled)
		return 0;
	writer->mark = mark;
	ret = lane_publish(source, lane, source_filled(source, lane));
	writer->mark = 0;
	if (ret < 0 || source_target_life(source, lane))
		return dfi__source_target_left(source, lane);
	ret = dfi__source_open_segment(source, lane);
	return ret < 0 ? ret : 0;
}

/*
 * All lanes are open except those whose targets have cancelled. mark: the
 * window's value, or its number, from 1.
 */
static int end_window(struct dfi_source *source, uint64_t mark)
{
	struct source_window *window = window_of(source);
	uint32_t i, n_lanes = source->n_lanes;
	int ret = 0;

	if (source_aborted(source))
		return dfi__source_give_up(source);
	window->left = window->tuples;
	for (i = 0; i < n_lanes; i++)
		window->lanes[i].share = next_share(source);
	for (i = 0; i < n_lanes && !ret; i++)
		ret = send_mark(source, i, mark);
	return ret < 0 ? ret : dfi__window_settle(source);
}

/*
 * Some target's ring has no room for the mark: close all lanes, so that none
 * takes the last tuple before there is room.
 */
static int hold_back(struct dfi_source *source)
{
	uint64_t bytes;
	uint32_t i;
	int ret;

	for (i = 0; i < source->n_lanes; i++) {
		bytes = source_filled(source, i);
		ret = bytes ? lane_publish(source, i, bytes) : 0;
		source->writers[i].segment = NULL;
		source_close_lane(source, i);
		if (ret < 0) {
			ret = dfi__source_target_left(source, i);
			if (ret < 0)
				return ret;
		}
	}
	return 0;
}

int dfi__window_settle(struct dfi_source *source)
{
	bool all = true;
	uint32_t i;
	int ret;

	if (!window_of(source)->tuples || window_of(source)->left > 1)
		return 0;
	for (i = 0; i < source->n_lanes; i++) {
		if (combine_of(source))
			dfi__combine_carry(source, i);
		if (source->writers[i].segment || source->writers[i].cancelled)
			continue;
		ret = dfi__source_open_segment(source, i);
		if (ret < 0)
			return ret;
		all &= ret > 0 || source->writers[i].cancelled;
	}
	return all ? 0 : hold_back(source);
}

int dfi__window_make_room(struct dfi_source *source, uint32_t lane)
{
	int err, ret;

	if (!window_of(source)->tuples || window_of(source)->left > 1)
		return dfi__source_make_room(source, lane);
	ret = dfi__window_carry(source);
	if (!ret && source->writers[lane].cancelled)
		return dfi__source_make_room(source, lane);
	if (ret < 0) {
		err = hold_back(source);
		ret = err < 0 ? err : ret;
	}
	return ret;
}

int dfi__window_send(struct dfi_source *source, uint32_t lane)
{
	int ret;

	dfi__window_count(source, lane);
	ret = dfi__source_send(source, lane);
	return ret < 0 ? ret : dfi__window_settle(source);
}

int dfi__window_reached(struct dfi_source *source, uint32_t lane)
{
	struct source_window *window = window_of(source);

	if (!window->tuples)
		return dfi__source_send(source, lane);
	dfi__window_count(source, lane);
	if (!window->left)
		return end_window(source, ++source->marked);
	if (!window->lanes[lane].share)
		give_share(source, lane);
	if (source->head.lanes[lane].next == window->lanes[lane].room)
		return dfi__window_send(source, lane);
	return dfi__window_settle(source);
}

/* ---- Marks of the application ----------------------------------------------
 */

int dfi__window_mark(struct dfi_source *source, uint64_t value)
{
	bool has_windows = source->flow.window_tuples;
	int ret;

	if (has_windows && !window_of(source)->tuples) {
		ret = dfi__window_carry(source);
		source->mark_refused = ret;
		return ret < 0 ? ret : end_window(source, value);
	}
	return dfi__fail(-EPROTOTYPE,
	    "flow '%s': %s %u: mark: %s: declare it with window_tuples = "
	    "DFI_WINDOW_MARKED",
	    source->flow.name, SOURCE_ID(source),
	    has_windows ? "a window ends after window_tuples tuples"
			: "the flow has no windows");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What combiner flows add to sources and targets. A lane of a source combines,
 * has windows, or both. combine_source.c implements the first, and window.c,
 * above it, the second.
 */
#include <stdlib.h>
#include "base/bits.h"
#include "base/error.h"
#include "combine.h"
#include "combine_source.h"
#include "flows/declare/combine_flow.h"
#include "flows/endpoint/source.h"
#include "flows/endpoint/target.h"
#include "flows/kinds/kinds.h"
#include "state.h"
#include "window.h"

/* ---- A lane ------------------------------------------------------------ */

static int open_lane(struct dfi_source *source, uint32_t lane)
{
	int ret = combine_of(source) ? dfi__combine_lane_open(source, lane)
				     : writer_open(&source->writers[lane]);

	if (ret > 0 && window_of(source))
		dfi__window_opened(source, lane);
	return ret;
}

static int publish(struct dfi_source *source, uint32_t lane, uint64_t used)
{
	return combine_of(source)
	    ? dfi__combine_lane_publish(source, lane, used)
	    : dfi__writer_publish(&source->writers[lane], used);
}

static int publish_part(struct dfi_source *source, uint32_t lane, uint64_t used)
{
	return combine_of(source)
	    ? dfi__combine_lane_publish_part(source, lane, used)
	    : dfi__writer_publish_part(&source->writers[lane], used);
}

static bool holds(const struct dfi_source *source, uint32_t lane)
{
	return combine_of(source) && dfi__combine_holds(source, lane);
}

static void forget(struct dfi_source *source, uint32_t lane)
{
	if (combine_of(source))
		dfi__combine_forget(source, lane);
}

static int reached(struct dfi_source *source, uint32_t lane)
{
	return window_of(source) ? dfi__window_reached(source, lane)
				 : dfi__source_send(source, lane);
}

static int send_lane(struct dfi_source *source, uint32_t lane)
{
	return window_of(source) ? dfi__window_send(source, lane)
				 : dfi__source_send(source, lane);
}

static int make_room(struct dfi_source *source, uint32_t lane)
{
	return window_of(source) ? dfi__window_make_room(source, lane)
				 : dfi__source_make_room(source, lane);
}

static int flush(struct dfi_source *source, uint32_t lane)
{
	if (combine_of(source))
		return dfi__combine_flush(source, lane);
	return source_filled(source, lane) ? send_lane(source, lane) : 0;
}

static int finish(struct dfi_source *source, int64_t deadline)
{
	return combine_of(source) ? dfi__combine_finish(source, deadline)
				  : dfi__source_finish(source, deadline);
}

static int opened(struct dfi_source *source)
{
	return window_of(source) ? dfi__window_settle(source) : 0;
}

static uint32_t most_room(const struct dfi_source *source, uint32_t n,
    const char **why, const char **instead)
{
	uint32_t most = n;

	/* The window, and its segment, may end after any tuple. */
	if (window_of(source) && window_of(source)->tuples) {
		*why = "do not fit, as a window may end after any tuple";
		*instead = "create the flow with window_tuples "
			   "DFI_WINDOW_MARKED";
		return 1;
	}
	if (combine_of(source))
		most = (uint32_t)min_u64(n,
		    combine_of(source)->stage_size / source->head.tuple_size);
	if (most < n) {
		*why = "do not fit what a source that combines builds tuples "
		       "in";
		*instead = "create the flow with larger combining_bytes";
	}
	return most;
}

static void count(const struct dfi_source *source, struct lane_counts *counts)
{
	const struct combine_lane *lane;
	uint32_t t;

	if (!combine_of(source))
		return;
	counts->record_size = combine_of(source)->record_size;
	counts->stops = atomic_peek(&combine_of(source)->stops);
	for (t = 0; t < source->n_lanes; t++) {
		lane = &combine_of(source)->lanes[t];
		counts->combined += atomic_peek(&lane->combined);
		counts->raw += atomic_peek(&lane->raw);
		counts->records += atomic_peek(&lane->records);
	}
}

static uint64_t waiting_bytes(const struct dfi_source *source)
{
	const struct combine_lane *lane;
	uint64_t bytes = 0;
	uint32_t t;

	for (t = 0; combine_of(source) && t < source->n_lanes; t++) {
		lane = &combine_of(source)->lanes[t];
		bytes += (uint64_t)(lane->rest_end - lane->rest);
	}
	return bytes;
}

static const struct lane_ops lane_ops = {
	.open = open_lane,
	.publish = publish,
	.publish_part = publish_part,
	.holds = holds,
	.forget = forget,
	.reached = reached,
	.send = send_lane,
	.make_room = make_room,
	.flush = flush,
	.finish = finish,
	.opened = opened,
	.most_room = most_room,
	.count = count,
	.waiting_bytes = waiting_bytes,
};

/* ---- Sources and targets ----------------------------------------------- */

static int open_source(struct dfi_source *source, int64_t deadline)
{
	bool combines = dfi__flow_combines(&source->flow);
	int ret;

	(void)deadline; /* nothing here waits */
	source->state = calloc(1, sizeof(struct combine_state));
	if (!source->state)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", source->flow.name);
	ret = combines ? dfi__combine_source_open(source) : 0;
	if (!ret && source->flow.window_tuples)
		ret = dfi__window_open(source);
	if (!ret && (combines || window_of(source)))
		source->lane_ops = &lane_ops;
	return ret;
}

static void close_source(struct dfi_source *source)
{
	if (!source->state)
		return;
	free(window_of(source));
	dfi__combine_source_close(source);
	free(source->state);
	source->state = NULL;
}

static int open_target(struct dfi_target *target)
{
	return dfi__combine_open(target, NULL);
}

static bool ready(const struct dfi_target *target)
{
	return combiner_ready(combiner_of(target));
}

static uint64_t watermark(const struct dfi_target *target)
{
	return combiner_of(target)->mark;
}

static void close_target(struct dfi_target *target)
{
	dfi__combine_close(combiner_of(target));
	target->combiner = NULL;
	target->gives_results = false;
}

const struct kind dfi__combine_kind = {
	.source = {
		.open = open_source,
		.close = close_source,
		.mark = dfi__window_mark,
	},
	.intake = {
		.open = open_target,
		.rest = close_target,
		.close = close_target,
		.next = dfi__combine_next,
		.ready = ready,
		.passed = dfi__combine_hold,
		.watermark = watermark,
	},
};

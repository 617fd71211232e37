/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks of a source of an open flow. A mark goes to all targets that are
 * attached; a target that attaches later gets the last one first. So the rule
 * of closed flows holds for any set of targets: all or none.
 */
#include "keyed.h"

#include <dfi/mark.h>
#include "base/clock.h"
#include "base/compiler.h"
#include "base/error.h"
#include "transport/transport.h"
#include "open_multicast.h"

/*
 * The ring has room. Nothing that was pushed waits in it. The end's lane is
 * opened again when the next tuple needs it. In an ordered flow the ring knows
 * the position.
 */
static int publish(struct dfi_source *end, uint64_t mark)
{
	open_note_mark(end);
	source_close_lane(end, 0);
	end->marked = mark;
	return dfi__writer_publish_mark(&end->rings[0], mark);
}

void dfi__open_mark_first(struct dfi_source *end, uint64_t mark)
{
	/* If this fails, the next look at the target tells that it is lost. */
	if (mark)
		(void)publish(end, mark);
}

int dfi__open_mark_end(struct dfi_source *source, uint32_t seat)
{
	struct dfi_source *end = open_source(source)->ends[seat];
	int ret;

	/* It has had it, or begins behind it and is told. */
	if (likely(end->marked == source->marked) ||
	    open_source(source)->order || open_source(source)->multicast)
		return 1;
	/* The helper has taken this one, and tuples have gone there since. */
	if (open_source(source)->keyed)
		dfi__keyed_send_end(source, end);
	/* What a replicate flow's open lane has needs a segment as well. */
	ret = open_source(source)->replicates && source_filled(source, 0)
	    ? dfi__writer_room(&end->rings[0], 2)
	    : writer_credit(&end->rings[0]);
	if (!ret)
		return 0;
	if (ret > 0) {
		if (open_source(source)->keyed)
			replay_set_input(source, end);
		ret = publish(end, source->marked);
	}
	return ret < 0 ? dfi__open_lose(source, seat) : 1;
}

bool dfi__open_only_marks(const struct dfi_source *end)
{
	const struct writer *ring = &end->rings[0];
	/* Pairs with the publish in the transport's give_credit(). */
	uint64_t left = ring->seq -
	    atomic_observe(&writer_header(ring)->credit.consumed);

	return end->marks_to == ring->seq &&
	    left <= ring->seq - end->marks_from;
}

uint64_t dfi__open_unreturned(
    const struct open_source *open, struct dfi_source *end)
{
	if (end->kind == &dfi__open_multicast_kind)
		return dfi__open_multicast_unreturned(end);
	/* The target's last words may wait in a queue, also of another thread.
	 */
	(void)dfi__source_settled_life(end, 0);
	return dfi__open_only_marks(end)
	    ? 0
	    : dfi__open_shared_unreturned(open, end);
}

/*
 * Send what was pushed, and close all lanes: 1. 0: some of it waits for a first
 * target; or a sticky error.
 */
static int send_pushed(struct dfi_source *source)
{
	uint32_t i;
	int ret = 0;

	if (open_source(source)->keyed)
		return dfi__keyed_send_pushed(source);
	for (i = 0; !ret && i < source->n_lanes; i++) {
		ret = lane_flush(source, i);
		if (!ret && source_filled(source, i))
			return 0;
		source->writers[i].segment = NULL;
		source_close_lane(source, i);
	}
	return ret < 0 ? ret : !open_source(source)->held;
}

static int make_room(struct dfi_source *source)
{
	int64_t until = 0;
	uint32_t seat;
	int ret;

	for (;;) {
		seat = open_seats(source);
		ret = source_check(source);
		if (!ret)
			ret = dfi__open_drop_lost(source);
		if (!ret)
			ret = dfi__open_adopt(source);
		if (!ret)
			ret = send_pushed(source);
		if (ret > 0) {
			ret = dfi__open_look_for_room(source, &seat);
			/* Nobody is there, and nothing waits. */
			if (!ret && seat == open_seats(source))
				return 0;
		}
		if (ret != 0)
			return ret < 0 ? ret : 0;
		if (seat == open_seats(source))
			ret = dfi__open_expect_some(source, seat);
		if (!ret && source_interrupted(source))
			ret = dfi__source_interrupted(source);
		if (!ret)
			ret = dfi__open_await_room(source, seat, &until);
		if (ret < 0)
			return ret;
	}
}

/*
 * K6: there is room for a mark, and it has a position: 1. 0: it is the last
 * one, and nobody is there for it.
 */
static int await_position(
    struct dfi_source *source, uint64_t mark, uint64_t *position)
{
	struct open_source *open = open_source(source);
	uint32_t nobody = open_seats(source);
	int64_t until = 0;
	int ret;

	for (;;) {
		ret = make_room(source);
		if (!ret)
			ret = dfi__open_order_take(source, position);
		if (ret != 0)
			return ret;
		if (mark == DFI_NO_MARK && !open->n_ends &&
		    !open->order->lacks_pairs)
			return 0;
		ret = dfi__open_expect_some(source, nobody);
		if (!ret && source_interrupted(source))
			ret = dfi__source_interrupted(source);
		if (!ret)
			ret = dfi__open_await_room(source, nobody, &until);
		if (ret < 0)
			return ret;
	}
}

/* A mark has one position, so all targets get it at the same place. */
static int mark_in_order(struct dfi_source *source, uint64_t mark)
{
	struct open_source *open = open_source(source);
	uint64_t position;
	int ret = await_position(source, mark, &position);
	uint32_t i;

	if (ret <= 0)
		return ret;
	/* Who is greeted from now on begins behind it. */
	atomic_set(&open->mark, mark);
	for (i = 0; ret >= 0 && i < open_seats(source); i++) {
		if (!open->ends[i])
			continue;
		open->ends[i]->rings[0].global = position;
		ret = open_is_lost(open->ends[i]) ||
			publish(open->ends[i], mark) < 0
		    ? dfi__open_lose(source, i)
		    : 0;
	}
	dfi__open_order_sent(source, position);
	return ret < 0 ? ret : 0;
}

/* So long a close waits for a view. */
#define LAST_NS NS_PER_S

int dfi__open_mark_last(struct dfi_source *source)
{
	int64_t deadline = source->wait_time.deadline, soon;
	uint32_t seat;
	int ret = 0;

	if (source->marked || atomic_peek(&source->writers[0].total))
		ret = dfi__open_look_for_room(source, &seat);
	if (ret <= 0)
		return ret;
	soon = clock_now_ns() + LAST_NS;
	if (soon < deadline)
		source->wait_time.deadline = soon;
	ret = mark_in_order(source, DFI_NO_MARK);
	source->wait_time.deadline = deadline;
	return ret == -ETIMEDOUT ? 0 : ret;
}

static int mark_all(struct dfi_source *source, uint64_t mark)
{
	struct open_source *open = open_source(source);
	uint32_t i;
	int ret = make_room(source);

	source->mark_refused = ret;
	if (ret < 0)
		return ret;
	source->marked = mark;
	if (open->multicast)
		return dfi__open_multicast_mark(source, mark);
	atomic_set(&open->mark, mark);
	dfi__open_shared_mark(open, mark);
	for (i = 0; ret >= 0 && i < open_seats(source); i++)
		if (open->ends[i])
			ret = dfi__open_mark_end(source, i);
	return ret < 0 ? ret : 0;
}

int dfi__open_mark(struct dfi_source *source, uint64_t mark)
{
	int ret;

	if (open_source(source)->order) {
		ret = mark_in_order(source, mark);
		source->mark_refused = ret;
		return ret;
	}
	keyed_enter(open_source(source));
	open_source(source)->marks = true;
	ret = mark_all(source, mark);
	open_source(source)->marks = false;
	keyed_leave(open_source(source));
	return ret;
}

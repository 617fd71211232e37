/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source's segments. A lane opens one as soon as there is room. Pushes and a
 * cursor fill it. The source sends it when it is full or flushed. kinds/push.c
 * chooses the lane of a tuple.
 *
 * The calls from a push that fills a segment down to the writer are inline:
 * each call adds to the time of a tuple in a latency flow.
 */
#include "source.h"

#include <string.h>
#include "base/compiler.h"
#include "base/error.h"

/* The words of a target in its ring are invalid. */
static int damaged(struct dfi_source *source, uint32_t target, int err)
{
	char name[256];

	dfi__peers_name(&source->targets, target, name, sizeof(name));
	dfi__fail_within(err, "flow '%s': from %s %u (pid %u) to %s",
	    source->flow.name, SOURCE_ID(source), source->dfi->node.pid, name);
	return dfi__source_fail(source, err);
}

static int cancelled(struct dfi_source *source, uint32_t target)
{
	char name[256];

	dfi__peers_name(&source->targets, target, name, sizeof(name));
	return dfi__fail(-EPIPE,
	    "flow '%s': %s %u: %s has cancelled: it takes no more tuples",
	    source->flow.name, SOURCE_ID(source), name);
}

/* has_ops: false if the caller has found that the source has no lane_ops. */
static always_inline int open_segment(
    struct dfi_source *source, uint32_t target, bool has_ops)
{
	struct writer *writer = &source->writers[target];
	struct dfi_source_lane *lane = &source->head.lanes[target];
	int ret = has_ops ? lane_open(source, target)
			  : lane_open_ring(source, target);

	if (likely(ret > 0)) {
		lane->next = writer->segment;
		/*
		 * A lingering lane calls at its first tuple, which starts its
		 * time.
		 */
		lane_set_end(lane,
		    source->linger.ns
			? writer->segment + writer->geometry.tuple_size
			: writer->end);
		lane_reset_due(source, target);
		writer->refused = 0;
		writer->wanted = false;
		return ret;
	}
	source_close_lane(source, target);
	if (unlikely(ret < 0 && source->replica_writer &&
		source->replica_writer->undrawn))
		return dfi__replica_left(source, ret);
	if (ret == -ECONNRESET)
		return dfi__source_target_left(
		    source, lane_waits_for(source, target));
	return ret < 0 ? damaged(source, lane_waits_for(source, target), ret)
		       : 0;
}

int dfi__source_open_segment(struct dfi_source *source, uint32_t target)
{
	return open_segment(source, target, true);
}

/*
 * An error if a lane's target, or one of its targets, has left for good; else
 * 0.
 */
static int check_life(struct dfi_source *source, uint32_t lane)
{
	int ret = 0;

	if (unlikely(source->replica_writer != NULL)) {
		ret = dfi__replica_left(source, 0);
		return ret < 0 ? ret : dfi__replica_is_wanted(source);
	}
	if (unlikely(source_target_life(source, lane))) {
		ret = dfi__source_target_left(source, lane);
		return ret < 0 ? ret : cancelled(source, lane);
	}
	return 0;
}

/* This target had no room. Of a replica writer's targets, wait for this one. */
static void want_room(struct dfi_source *source, uint32_t target)
{
	uint32_t t;

	if (source->replica_writer)
		for (t = 0; t < source->n_remotes; t++)
			source->rings[t].wanted = false;
	source->rings[target].wanted = true;
}

static void goes_on(struct dfi_source *source, uint32_t lane)
{
	uint32_t t;

	if (likely(!source->replica_writer)) {
		dfi__source_goes_on(source, lane);
		return;
	}
	for (t = 0; t < source->n_remotes; t++)
		dfi__source_goes_on(source, t);
}

int dfi__source_make_room(struct dfi_source *source, uint32_t lane)
{
	uint32_t target;
	int ret = source_check(source);

	if (ret < 0)
		return ret;
	/*
	 * Post before any wait and before -EAGAIN: the caller may do other work
	 * then.
	 */
	source_post(source);
	for (;;) {
		if (source_aborted(source))
			return dfi__source_give_up(source);
		/*
		 * The segment that waits may be for other targets than the next
		 * tuples.
		 */
		ret = source_settle(source);
		if (!ret)
			ret = check_life(source, lane);
		if (ret < 0)
			return ret;
		ret = open_segment(source, lane, true);
		target = lane_waits_for(source, lane);
		if (ret > 0)
			goes_on(source, lane);
		/* There may be no segment because no target wants one. */
		if (!ret && unlikely(source->replica_writer != NULL))
			ret = dfi__replica_is_wanted(source);
		if (ret != 0)
			return ret < 0 ? ret : 0;
		want_room(source, target);
		if (source_interrupted(source))
			return dfi__source_interrupted(source);
		if (source->notify && dfi__source_arm(source, target))
			continue;
		if (source->notify)
			dfi__source_found_no_room(source, target);
		if (source->flags & DFI_NONBLOCK)
			return dfi__fail_text(
			    -EAGAIN, "the ring of the tuple's target is full");
		ret = dfi__source_await_room(source, target);
		if (ret < 0)
			return ret;
	}
}

int dfi__source_make_room_to_push(struct dfi_source *source, uint32_t target)
{
	int ret = lane_make_room(source, target);

	source->writers[target].refused = ret == -EPIPE ? 0 : ret;
	return ret;
}

static always_inline int send_segment(
    struct dfi_source *source, uint32_t target, bool has_ops)
{
	uint64_t bytes = source_filled(source, target);
	int ret = 0;

	if (source_aborted(source))
		return dfi__source_give_up(source);
	if (likely(bytes))
		ret = has_ops ? lane_publish(source, target, bytes)
			      : lane_publish_ring(source, target, bytes);
	else
		source->writers[target].segment = NULL;
	if (unlikely(source->replica_writer != NULL)) {
		ret = dfi__replica_left(source, ret);
		if (!ret && !(source->flags & DFI_NONBLOCK))
			ret = source_settle(source);
		/* The tuples are taken, so the next call returns -EINTR. */
		if (ret == -EINTR)
			atomic_set(&source->interrupted, true);
		else if (ret < 0 && ret != -ETIMEDOUT)
			return ret;
	} else if (unlikely(ret < 0 || source_target_life(source, target))) {
		return dfi__source_target_left(source, target);
	}
	ret = open_segment(source, target, has_ops);
	return ret < 0 ? ret : 0;
}

int dfi__source_send(struct dfi_source *source, uint32_t target)
{
	return send_segment(source, target, true);
}

/* The lane's segment, or a cursor's, has all that it can take: send it. */
static always_inline int send_full(struct dfi_source *source, uint32_t lane)
{
	return unlikely(source->lane_ops != NULL)
	    ? lane_reached(source, lane)
	    : send_segment(source, lane, false);
}

/*
 * lane->next has reached lane->end: the segment is full, or the lane was parked
 * and its tuples now start its time. May happen any number of times for a
 * segment.
 */
static always_inline int reached_end(struct dfi_source *source, uint32_t target)
{
	if (likely(
		source->head.lanes[target].next == source->writers[target].end))
		return send_full(source, target);
	dfi__linger_start(source, target);
	return 0;
}

/* Move a pushed tuple from the spare room into a segment. */
static int push_spare(struct dfi_source *source, uint32_t target)
{
	struct dfi_source_lane *lane = &source->head.lanes[target];
	int ret;

	source_close_lane(source, target);
	ret = dfi__source_make_room_to_push(source, target);
	if (ret < 0)
		return ret;
	memcpy(lane->next, source->spare, source->head.tuple_size);
	if (dfi_source_lane_advance(lane, lane->next + source->head.tuple_size))
		return reached_end(source, target);
	return 0;
}

/* Drop the tuple in the spare room. */
static maybe_unused int lane_shared(
    struct dfi_source *source, uint32_t target, int err)
{
	source_lock(source);
	if (!source->writers[target].segment)
		source_close_lane(source, target);
	source_unlock(source);
	return err;
}

static always_inline int lane_full(struct dfi_source *source, uint32_t target)
{
	if (unlikely(source->cursor_open && source->cursor_lane == target)) {
		source_close_lane(source, target);
		return dfi__source_check_free(source);
	}
	if (likely(source->writers[target].segment != NULL))
		return reached_end(source, target);
	return push_spare(source, target);
}

int dfi_source_lane_full(struct dfi_source *source, uint32_t target)
{
	SOURCE_CALL(source, lane_shared(source, target, SOURCE_SHARED(source)));
	int ret;

	/* Behind a full segment is its footer, mostly. */
	dfi_prefetch_write(source->head.lanes[target].next);
	source_lock(source);
	ret = lane_full(source, target);
	source_unlock(source);
	return ret;
}

int dfi_source_flush(struct dfi_source *source)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));
	int ret = dfi__source_check_free(source);
	uint32_t t;

	if (ret < 0)
		return ret;
	source_lock(source);
	ret = source_settle(source);
	for (t = 0; !ret && t < source->n_lanes; t++)
		ret = lane_flush(source, t);
	if (!ret)
		ret = source_unsettled(source);
	source_post(source);
	source_unlock(source);
	return ret;
}

/* An open segment has its slot, so the flush waits only for its position. */
int dfi__source_finish(struct dfi_source *source, int64_t deadline)
{
	source->flags &= ~(uint32_t)DFI_NONBLOCK;
	source->wait_time.deadline = deadline;
	return dfi_source_flush(source);
}

/* ---- Cursors ----------------------------------------------------------- */

static maybe_unused struct dfi_source_cursor failed_cursor(
    struct dfi_source_cursor cursor, int err)
{
	cursor.status = err;
	return cursor;
}

/* Move the position in the open segment from the lane to the cursor. */
static void load_cursor(struct dfi_source_cursor *cursor)
{
	struct dfi_source *source = cursor->source;
	const struct dfi_source_lane *lane = &source->head.lanes[cursor->lane];

	cursor->next = lane->next;
	cursor->end = source->writers[cursor->lane].end;
	source_close_lane(source, cursor->lane);
}

struct dfi_source_cursor dfi_source_cursor_open(
    struct dfi_source *source, uint32_t target, size_t size)
{
	struct dfi_source_cursor cursor = { .source = source };

	SOURCE_CALL(source, failed_cursor(cursor, SOURCE_SHARED(source)));
	cursor.status = dfi__source_check_free(source);
	if (cursor.status)
		return cursor;
	if (size != source->head.tuple_size)
		cursor.status = dfi__fail(-EINVAL,
		    "flow '%s': a cursor for tuples of %zu bytes, but the "
		    "flow's have %u",
		    source->flow.name, size, source->head.tuple_size);
	else if (!source_find_lane(source, target, &cursor.lane))
		cursor.status = dfi__source_no_target(source, target);
	if (cursor.status)
		return cursor;
	source_lock(source);
	/*
	 * The segment would wait for the cursor, and other sources for its
	 * position.
	 */
	if (lane_awaits_position(source) && source_filled(source, cursor.lane))
		cursor.status = send_segment(source, cursor.lane, true);
	if (cursor.status) {
		source_unlock(source);
		return cursor;
	}
	source->cursor_open = true;
	source->cursor_lane = cursor.lane;
	if (source->writers[cursor.lane].segment)
		load_cursor(&cursor);
	source_unlock(source);
	return cursor;
}

/* Move the cursor's position back to the lane, and send a full segment. */
static int store_cursor(const struct dfi_source_cursor *cursor)
{
	struct dfi_source *source = cursor->source;
	struct dfi_source_lane *lane;
	int ret = source_check(source);

	if (ret < 0 || !cursor->next)
		return ret;
	lane = &source->head.lanes[cursor->lane];
	lane->next = cursor->next;
	lane_set_end(lane, cursor->end);
	if (lane->next == cursor->end)
		return send_full(source, cursor->lane);
	if (!source->linger.ns)
		return 0;
	if (source_filled(source, cursor->lane))
		dfi__linger_start(source, cursor->lane);
	else
		lane_set_end(lane, lane->next + source->head.tuple_size);
	return 0;
}

/* Whether the open of the cursor was refused, or the cursor is closed. */
static bool cursor_is_dead(const struct dfi_source_cursor *cursor)
{
	return cursor->status == -ERANGE || cursor->status == -EINVAL ||
	    cursor->status == -EBUSY;
}

struct dfi_source_cursor dfi_source_cursor_slow(struct dfi_source_cursor cursor)
{
	struct dfi_source *source = cursor.source;

	SOURCE_CALL(source, failed_cursor(cursor, SOURCE_SHARED(source)));
	if (cursor_is_dead(&cursor)) {
		if (cursor.status != -EBUSY && !source_check(source))
			(void)dfi__source_refuse(source, cursor.status);
		return cursor;
	}
	source_lock(source);
	cursor.status = store_cursor(&cursor);
	if (!cursor.status && !source->writers[cursor.lane].segment)
		cursor.status = dfi__source_make_room_to_push(
		    source, cursor.lane);
	cursor.next = cursor.end = NULL;
	if (!cursor.status)
		load_cursor(&cursor);
	source_unlock(source);
	return cursor;
}

int dfi_source_cursor_close(struct dfi_source_cursor cursor)
{
	int ret;

	if (cursor_is_dead(&cursor))
		return cursor.status;
	SOURCE_CALL(cursor.source, SOURCE_SHARED(cursor.source));
	source_lock(cursor.source);
	ret = store_cursor(&cursor);
	if (ret != -EOWNERDEAD)
		cursor.source->cursor_open = false;
	source_unlock(cursor.source);
	return cursor.status ? cursor.status : ret;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source's segments: waiting for credit, sending, claim/commit and cursors.
 * Which target a tuple goes to is decided in shuffle.c.
 */
#include "source.h"

#include <stdio.h>
#include <string.h>
#include "../base/error.h"

int dfi__source_fail(struct dfi_source *source, int err)
{
	uint32_t t;

	source->status = err;
	snprintf(source->status_text, sizeof(source->status_text), "%s",
	    dfi_errmsg());
	for (t = 0; t < source->head.n_lanes; t++) {
		source->writers[t].segment = NULL;
		source_close_lane(source, t);
	}
	return err;
}

int dfi__source_check_slow(const struct dfi_source *source)
{
	int ret = handle_check(
	    source, source ? &source->magic : NULL, SOURCE_MAGIC);

	if (!ret && source->status)
		ret = dfi__fail(source->status, "%s", source->status_text);
	return ret;
}

int dfi__source_no_target(const struct dfi_source *source, uint32_t target)
{
	return dfi__fail(-ERANGE,
	    "flow '%s': source %u: target %u: the flow has %u, numbered from 0",
	    source->flow.name, source->index, target, source->head.n_lanes);
}

/* A ring whose target's words make no sense. */
static int damaged(struct dfi_source *source, uint32_t target, int err)
{
	char name[256];

	dfi__peers_name(&source->targets, target, name, sizeof(name));
	dfi__fail_within(err, "flow '%s': from source %u (pid %u) to %s",
	    source->flow.name, source->index, source->dfi->node.pid, name);
	return dfi__source_fail(source, err);
}

static uint64_t filled(const struct dfi_source *source, uint32_t target)
{
	const struct writer *writer = &source->writers[target];

	if (!writer->segment)
		return 0;
	return (uint64_t)(source->head.lanes[target].next - writer->segment);
}

int dfi__source_open_segment(struct dfi_source *source, uint32_t target)
{
	struct writer *writer = &source->writers[target];
	struct dfi_source_lane *lane = &source->head.lanes[target];
	int ret = dfi__writer_open(writer);

	if (likely(ret > 0)) {
		lane->next = writer->segment;
		lane->end = writer->segment + writer->geometry.segment_bytes;
		writer->refused = 0;
		return ret;
	}
	source_close_lane(source, target);
	return ret < 0 ? damaged(source, target, ret) : 0;
}

bool dfi__source_target_gone(struct dfi_source *source, uint32_t target)
{
	return peers_state(&source->targets, target) == PEER_GONE ||
	    dfi__writer_closed(&source->writers[target]);
}

struct credit_wait {
	struct dfi_source *source;
	uint32_t target;
};

static inline bool credit_or_gone(void *arg)
{
	struct credit_wait *wait = arg;

	return dfi__writer_credit(&wait->source->writers[wait->target]) != 0 ||
	    dfi__source_target_gone(wait->source, wait->target);
}

/* Wait until the target gives a segment back or is gone. */
static int wait_for_credit(struct dfi_source *source, uint32_t target)
{
	struct credit_wait wait = { .source = source, .target = target };
	_Atomic uint32_t *word = dfi__writer_wait_word(
	    &source->writers[target]);
	bool there;

	/* Pairs with wake_owner(): the mapping that word lies in. */
	atomic_publish(&source->targets.sleeping, word);
	there = wait_until(
	    &source->wait, word, &source->wait_time, credit_or_gone, &wait, 1);
	atomic_set(&source->targets.sleeping, NULL);
	source->stalls++;
	if (!there)
		return dfi__fail(-ETIMEDOUT,
		    "flow '%s': source %u: the ring of target %u stayed full "
		    "for %ld ms",
		    source->flow.name, source->index, target,
		    (long)(source->wait_time.timeout_ns / NS_PER_MS));
	return 0;
}

int dfi__source_make_room(struct dfi_source *source, uint32_t target)
{
	int ret = source_check(source);

	if (ret < 0)
		return ret;
	for (;;) {
		if (dfi__source_target_gone(source, target))
			return dfi__source_fail(
			    source, dfi__peers_lost(&source->targets, target));
		ret = dfi__source_open_segment(source, target);
		if (ret != 0)
			return ret < 0 ? ret : 0;
		if (source->flags & DFI_NONBLOCK)
			return dfi__fail_text(
			    -EAGAIN, "the ring of the tuple's target is full");
		ret = wait_for_credit(source, target);
		if (ret < 0)
			return ret;
	}
}

int dfi__source_make_room_to_push(struct dfi_source *source, uint32_t target)
{
	int ret = dfi__source_make_room(source, target);

	source->writers[target].refused = ret;
	return ret;
}

int dfi__source_send(struct dfi_source *source, uint32_t target)
{
	int ret = dfi__writer_publish(
	    &source->writers[target], filled(source, target));

	if (unlikely(ret < 0))
		return dfi__source_fail(source, ret);
	if (unlikely(dfi__source_target_gone(source, target)))
		return dfi__source_fail(
		    source, dfi__peers_lost(&source->targets, target));
	ret = dfi__source_open_segment(source, target);
	return ret < 0 ? ret : 0;
}

/* The tuple that a push put into the spare room goes into a segment. */
static int push_spare(struct dfi_source *source, uint32_t target)
{
	struct dfi_source_lane *lane = &source->head.lanes[target];
	int ret;

	source_close_lane(source, target);
	ret = dfi__source_make_room_to_push(source, target);
	if (ret < 0)
		return ret;
	memcpy(lane->next, source->spare, source->head.tuple_size);
	lane->next += source->head.tuple_size;
	return lane->next == lane->end ? dfi__source_send(source, target) : 0;
}

int dfi_source_lane_full(struct dfi_source *source, uint32_t target)
{
	if (unlikely(source->cursor_open && source->cursor_target == target)) {
		source_close_lane(source, target);
		return dfi__source_check_free(source);
	}
	if (likely(source->writers[target].segment != NULL))
		return dfi__source_send(source, target);
	return push_spare(source, target);
}

int dfi_source_flush(struct dfi_source *source)
{
	int ret = dfi__source_check_free(source);
	uint32_t t;

	for (t = 0; !ret && t < source->head.n_lanes; t++)
		if (filled(source, t))
			ret = dfi__source_send(source, t);
	return ret;
}

int dfi_source_claim(
    struct dfi_source *source, uint32_t target, struct dfi_span *span)
{
	struct dfi_source_lane *lane;
	int ret = dfi__source_check_free(source);

	if (ret < 0)
		return ret;
	if (target >= source->head.n_lanes)
		return dfi__source_no_target(source, target);
	lane = &source->head.lanes[target];
	if (!source->writers[target].segment) {
		ret = dfi__source_make_room(source, target);
		if (ret < 0)
			return ret;
	}
	span->tuples = lane->next;
	span->count = (uint32_t)(lane->end - lane->next) /
	    source->head.tuple_size;
	span->target = target;
	source->claimed = lane->next;
	return 0;
}

int dfi_source_commit(
    struct dfi_source *source, const struct dfi_span *span, uint32_t count)
{
	struct dfi_source_lane *lane;
	int ret = source_check(source);

	if (ret < 0)
		return ret;
	if (!source->claimed || span->tuples != source->claimed ||
	    span->target >= source->head.n_lanes ||
	    !source->writers[span->target].segment ||
	    span->tuples != source->head.lanes[span->target].next)
		return dfi__fail(-EINVAL,
		    "flow '%s': source %u: commit: the span is not the one "
		    "that was claimed last",
		    source->flow.name, source->index);
	lane = &source->head.lanes[span->target];
	if (count > span->count ||
	    (uint64_t)count * source->head.tuple_size >
		(uint64_t)(lane->end - lane->next))
		return dfi__fail(-EINVAL,
		    "flow '%s': source %u: commit: %u tuples are more than "
		    "were claimed",
		    source->flow.name, source->index, count);
	source->claimed = NULL;
	lane->next += (size_t)count * source->head.tuple_size;
	return lane->next == lane->end ? dfi__source_send(source, span->target)
				       : 0;
}

/* Move the position of the open segment from the lane to the cursor. */
static void load_cursor(struct dfi_source_cursor *cursor)
{
	struct dfi_source *source = cursor->source;
	const struct dfi_source_lane *lane =
	    &source->head.lanes[cursor->target];

	cursor->next = lane->next;
	cursor->end = lane->end;
	source_close_lane(source, cursor->target);
}

struct dfi_source_cursor dfi_source_cursor_open(
    struct dfi_source *source, uint32_t target, size_t size)
{
	struct dfi_source_cursor cursor = {
		.source = source,
		.target = target,
		.status = dfi__source_check_free(source),
	};

	if (cursor.status)
		return cursor;
	if (size != source->head.tuple_size)
		cursor.status = dfi__fail(-EINVAL,
		    "flow '%s': a cursor for tuples of %zu bytes, but the "
		    "flow's have %u",
		    source->flow.name, size, source->head.tuple_size);
	else if (target >= source->head.n_lanes)
		cursor.status = dfi__source_no_target(source, target);
	if (cursor.status)
		return cursor;
	source->cursor_open = true;
	source->cursor_target = target;
	if (source->writers[target].segment)
		load_cursor(&cursor);
	return cursor;
}

/* Put the cursor's position back into the lane, and send a full segment. */
static int store_cursor(const struct dfi_source_cursor *cursor)
{
	struct dfi_source *source = cursor->source;
	struct dfi_source_lane *lane;
	int ret = source_check(source);

	if (ret < 0 || !cursor->next)
		return ret;
	lane = &source->head.lanes[cursor->target];
	lane->next = cursor->next;
	lane->end = cursor->end;
	return lane->next == lane->end
	    ? dfi__source_send(source, cursor->target)
	    : 0;
}

/* Whether it was refused when it was opened, or is closed. */
static bool cursor_is_dead(const struct dfi_source_cursor *cursor)
{
	return cursor->status == -ERANGE || cursor->status == -EINVAL ||
	    cursor->status == -EBUSY;
}

struct dfi_source_cursor dfi_source_cursor_slow(struct dfi_source_cursor cursor)
{
	struct dfi_source *source = cursor.source;

	if (cursor_is_dead(&cursor))
		return cursor;
	cursor.status = store_cursor(&cursor);
	if (!cursor.status && !source->writers[cursor.target].segment)
		cursor.status = dfi__source_make_room_to_push(
		    source, cursor.target);
	cursor.next = cursor.end = NULL;
	if (!cursor.status)
		load_cursor(&cursor);
	return cursor;
}

int dfi_source_cursor_close(struct dfi_source_cursor cursor)
{
	int ret;

	if (cursor_is_dead(&cursor))
		return cursor.status;
	ret = store_cursor(&cursor);
	if (ret != -EOWNERDEAD)
		cursor.source->cursor_open = false;
	return cursor.status ? cursor.status : ret;
}

int dfi__source_check_free(const struct dfi_source *source)
{
	int ret = source_check(source);

	if (!ret && source->cursor_open)
		return dfi__fail(-EBUSY,
		    "flow '%s': source %u: a cursor is open: close it first",
		    source->flow.name, source->index);
	return ret;
}

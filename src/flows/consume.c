/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consuming: the rings of all sources of one target, polled in turn. Tuples are
 * lent where they lie; a segment goes back when its last tuple was consumed and
 * the next call comes.
 */
#include "target.h"

#include <stdio.h>
#include "../base/error.h"
#include "../transport/transport.h"

/*
 * A ring with data is drained on, because it is warm, but not for ever: after
 * so many segments in a row the others are looked at.
 */
#define FAIR_SEGMENTS 16

/* Make err, whose text was just set, sticky. */
static int fail_target(struct dfi_target *target, int err)
{
	target->status = err;
	snprintf(target->status_text, sizeof(target->status_text), "%s",
	    dfi_errmsg());
	return err;
}

int dfi__target_check_slow(const struct dfi_target *target)
{
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	if (!ret && target->status)
		ret = dfi__fail(target->status, "%s", target->status_text);
	return ret;
}

static struct region_header *header(const struct dfi_target *target)
{
	return target->region->base;
}

/* A ring that the reader found damaged. */
static int damaged(struct dfi_target *target, uint32_t source, int err)
{
	char name[256];

	dfi__peers_name(&target->sources, source, name, sizeof(name));
	dfi__fail_within(err, "flow '%s': from %s to target %u (pid %u)",
	    target->flow.name, name, target->index, target->dfi->node.pid);
	return fail_target(target, err);
}

/* Lend the next segment of a ring that is ready. 1, or an error. */
static int take(struct dfi_target *target, uint32_t source)
{
	struct reader *reader = &target->readers[source];
	const char *payload;
	uint64_t bytes;
	int ret = dfi__reader_take(reader, &payload, &bytes);

	if (unlikely(ret < 0))
		return damaged(target, source, ret);
	target->head.next = payload;
	target->head.end = payload + bytes;
	target->head.source = source;
	target->lends_segment = true;
	target->segments++;
	return 1;
}

/*
 * A ring without a segment: has its source ended, aborted, or gone? 0, or an
 * error that ends the flow.
 */
static int check_source(struct dfi_target *target, uint32_t source)
{
	struct reader *reader = &target->readers[source];
	/* Before the ring: what a dead source wrote is there by then. */
	bool gone = peers_state(&target->sources, source) == PEER_GONE;
	char name[256];
	int ret;

	if (reader->end)
		return 0;
	if (reader_ready(reader)) {
		target->dead_undrained |= gone;
		return 0;
	}
	ret = dfi__reader_check_end(reader);
	if (ret < 0)
		return damaged(target, source, ret);
	if (reader->end == READER_ENDED) {
		target->n_open--;
		return 0;
	}
	if (reader->end == READER_ABORTED) {
		dfi__peers_name(&target->sources, source, name, sizeof(name));
		return fail_target(target,
		    dfi__fail(-ECANCELED,
			"flow '%s': %s aborted the flow after %lu tuples",
			target->flow.name, name, (unsigned long)reader->total));
	}
	if (gone && !reader_ready(reader))
		return fail_target(
		    target, dfi__peers_lost(&target->sources, source));
	return 0;
}

/* All rings once. 0, or an error that ends the flow. */
static int check_sources(struct dfi_target *target)
{
	uint32_t i;
	int ret = 0;

	target->seen_changes = peers_changes(&target->sources);
	target->dead_undrained = false;
	for (i = 0; !ret && i < target->n_readers; i++)
		ret = check_source(target, i);
	return ret;
}

static inline uint32_t next_ring(const struct dfi_target *target, uint32_t ring)
{
	return ring + 1 == target->n_readers ? 0 : ring + 1;
}

/* The next ring with a segment, the current one first; n_readers if none. */
static uint32_t find_ready(struct dfi_target *target)
{
	uint32_t i, ring = target->current;

	if (target->in_a_row < FAIR_SEGMENTS &&
	    reader_ready(&target->readers[ring])) {
		target->in_a_row++;
		return ring;
	}
	for (i = 0; i < target->n_readers; i++) {
		ring = next_ring(target, ring);
		if (reader_ready(&target->readers[ring])) {
			target->current = ring;
			target->in_a_row = 1;
			return ring;
		}
	}
	return target->n_readers;
}

/* Something for next_segment() to look at. */
static inline bool segment_or_change(void *arg)
{
	struct dfi_target *target = arg;
	const struct reader *reader = target->readers;
	uint32_t i;

	for (i = 0; i < target->n_readers; i++, reader++) {
		if (target->prefetches)
			__builtin_prefetch((const char *)reader->head -
			    reader->geometry.footer_offset);
		if (reader_ready(reader) ||
		    (!reader->end && reader_end_marked(reader)))
			return true;
	}
	return peers_changes(&target->sources) != target->seen_changes;
}

static bool all_attached(struct dfi_target *target)
{
	uint32_t i;

	for (i = 0; i < target->n_readers; i++)
		if (peers_state(&target->sources, i) == PEER_ABSENT)
			return false;
	return true;
}

/*
 * Some source has not attached in time: say so now, and again after the same
 * time. 0: all are there by now.
 */
static int check_attached(struct dfi_target *target)
{
	struct wait_time *time = &target->wait_time;

	if (all_attached(target)) {
		time->deadline = DEADLINE_NEVER;
		return 0;
	}
	if (clock_now_ns() < time->deadline)
		return 0;
	time->deadline = context_deadline(target->dfi, target->open_timeout_ms);
	return dfi__peers_missing(&target->sources);
}

/* A nonblocking handle found nothing. Reading the clock each time would cost.
 */
#define ATTACH_CHECK_POLLS 256

static int nothing_there(struct dfi_target *target)
{
	int ret = 0;

	if (target->wait_time.deadline != DEADLINE_NEVER &&
	    target->empty_polls++ % ATTACH_CHECK_POLLS == 0)
		ret = check_attached(target);
	return ret < 0 ? ret : dfi__fail_text(-EAGAIN, "no tuple is there");
}

/* Wait for a segment, an end, or a change among the sources. */
static int wait_for_segment(struct dfi_target *target)
{
	struct wait_time *time = &target->wait_time;
	_Atomic uint32_t *word = &header(target)->reader_waits;
	int64_t attach_deadline;
	bool there;
	int ret;

	if (time->deadline != DEADLINE_NEVER && all_attached(target))
		time->deadline = DEADLINE_NEVER;
	attach_deadline = time->deadline;
	/* Pairs with wake_owner(): the mapping that word lies in. */
	atomic_publish(&target->sources.sleeping, word);
	there = wait_until(&target->wait, word, time, segment_or_change, target,
	    target->n_readers);
	atomic_set(&target->sources.sleeping, NULL);
	target->stalls++;
	if (there)
		return 0;
	if (attach_deadline != DEADLINE_NEVER) {
		ret = check_attached(target);
		if (ret < 0 || time->timeout_ns == DEADLINE_NEVER)
			return ret;
	}
	return dfi__fail(-ETIMEDOUT,
	    "flow '%s': target %u: no tuple came for %ld ms", target->flow.name,
	    target->index, (long)(time->timeout_ns / NS_PER_MS));
}

/* Give the segment in work back, if all of it was consumed. */
static int give_back(struct dfi_target *target)
{
	int ret;

	if (!target->lends_segment)
		return 0;
	target->lends_segment = false;
	target->head.next = target->head.end = NULL;
	ret = dfi__reader_release(&target->readers[target->head.source]);
	return ret < 0 ? fail_target(target, ret) : 0;
}

/*
 * Give the consumed segment back and lend the next one, of any ring: 1, 0 at
 * the end of the flow, or an error.
 */
static int next_segment(struct dfi_target *target)
{
	uint32_t ring;
	int ret = target_check(target);

	if (ret < 0)
		return ret;
	ret = give_back(target);
	if (ret < 0)
		return ret;
	for (;;) {
		if (unlikely(peers_changes(&target->sources) !=
			    target->seen_changes ||
			target->dead_undrained)) {
			ret = check_sources(target);
			if (ret < 0)
				return ret;
		}
		ring = find_ready(target);
		if (likely(ring < target->n_readers))
			return take(target, ring);
		ret = check_sources(target);
		if (ret < 0)
			return ret;
		if (!target->n_open)
			return 0;
		if (find_ready(target) < target->n_readers)
			continue;
		if (target->flags & DFI_NONBLOCK)
			return nothing_there(target);
		ret = wait_for_segment(target);
		if (ret < 0)
			return ret;
	}
}

/* The handle is whole, and neither a batch nor a cursor is out. */
static int check_free(struct dfi_target *target)
{
	int ret = target_check(target);

	if (unlikely(!ret && target->lends_batch))
		return dfi__fail(-EBUSY,
		    "flow '%s': target %u: a batch is out: release it first",
		    target->flow.name, target->index);
	if (unlikely(!ret && target->cursor_open))
		return dfi__fail(-EBUSY,
		    "flow '%s': target %u: a cursor is open: close it first",
		    target->flow.name, target->index);
	return ret;
}

int dfi_target_consume_slow(struct dfi_target *target, const void **tuple)
{
	int ret = check_free(target);

	if (!ret)
		ret = next_segment(target);
	if (ret <= 0)
		return ret;
	*tuple = target->head.next;
	target->head.next += target->head.tuple_size;
	return 1;
}

int dfi_target_consume_batch(struct dfi_target *target, struct dfi_batch *batch)
{
	struct dfi_target_head *head = &target->head;
	int ret = check_free(target);

	if (ret < 0)
		return ret;
	if (head->next == head->end) {
		ret = next_segment(target);
		if (ret <= 0)
			return ret;
	}
	*batch = (struct dfi_batch){
		.tuples = head->next,
		.count = (uint32_t)(head->end - head->next) / head->tuple_size,
		.stride = head->tuple_size,
		.source = head->source,
	};
	head->next = head->end;
	target->lends_batch = true;
	return (int)batch->count;
}

void dfi_target_release(struct dfi_target *target, struct dfi_batch *batch)
{
	if (target_check(target) < 0 || !target->lends_batch || !batch->count)
		return;
	target->lends_batch = false;
	*batch = (struct dfi_batch){ .tuples = NULL };
	give_back(target);
}

/* The cursor has the position; to the handle, nothing is left to read. */
static void load_cursor(struct dfi_target_cursor *cursor)
{
	struct dfi_target_head *head = &cursor->target->head;

	cursor->next = head->next;
	cursor->end = head->end;
	head->next = head->end;
}

struct dfi_target_cursor dfi_target_cursor_open(
    struct dfi_target *target, size_t size)
{
	struct dfi_target_cursor cursor = {
		.target = target,
		.status = check_free(target),
	};

	if (cursor.status)
		return cursor;
	if (size != target->head.tuple_size) {
		cursor.status = dfi__fail(-EINVAL,
		    "flow '%s': a cursor for tuples of %zu bytes, but the "
		    "flow's have %u",
		    target->flow.name, size, target->head.tuple_size);
		return cursor;
	}
	target->cursor_open = true;
	load_cursor(&cursor);
	return cursor;
}

/* Whether it was refused when it was opened. */
static bool cursor_is_dead(const struct dfi_target_cursor *cursor)
{
	return cursor->status == -EINVAL || cursor->status == -EBUSY;
}

struct dfi_target_cursor dfi_target_cursor_slow(struct dfi_target_cursor cursor)
{
	struct dfi_target *target = cursor.target;
	int ret;

	if (cursor_is_dead(&cursor))
		return cursor;
	ret = target_check(target);
	if (!ret)
		ret = next_segment(target);
	cursor.status = ret > 0 ? 0 : ret;
	cursor.next = cursor.end = NULL;
	if (ret > 0)
		load_cursor(&cursor);
	return cursor;
}

int dfi_target_cursor_close(struct dfi_target_cursor cursor)
{
	struct dfi_target *target = cursor.target;
	int ret;

	if (cursor_is_dead(&cursor))
		return cursor.status;
	ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);
	if (ret < 0)
		return ret;
	target->cursor_open = false;
	if (target->lends_segment && cursor.next)
		target->head.next = cursor.next;
	return cursor.status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consuming: the rings of all sources of one target, polled in turn. Tuples are
 * lent where they lie; a segment goes back when its last tuple was consumed and
 * the next call comes.
 */
#include "target.h"

#include "../base/error.h"
#include "../transport/transport.h"

/*
 * A ring with data is drained on, because it is warm, but not for ever: after
 * so many segments in a row the others are looked at.
 */
#define FAIR_SEGMENTS 16

static int fail_target(struct dfi_target *target, int err)
{
	target->status = err;
	return err;
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

	if (reader->end || reader_ready(reader))
		return 0;
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

/* Wait for a segment, an end, or a change among the sources. */
static int wait_for_segment(struct dfi_target *target)
{
	int64_t start = clock_now_ns(), deadline = DEADLINE_NEVER;
	_Atomic uint32_t *word = &header(target)->reader_waits;
	bool attached = target->attach_deadline == DEADLINE_NEVER, there;

	if (!attached && all_attached(target)) {
		target->attach_deadline = DEADLINE_NEVER;
		attached = true;
	}
	if (target->stall_timeout_ms)
		deadline = start +
		    (int64_t)target->stall_timeout_ms * NS_PER_MS;
	if (target->attach_deadline < deadline)
		deadline = target->attach_deadline;
	atomic_set(&target->sources.sleeping, word);
	there = wait_until(&target->wait, word, deadline, segment_or_change,
	    target, target->n_readers);
	atomic_set(&target->sources.sleeping, NULL);
	target->stalls++;
	target->stall_ns += (uint64_t)(clock_now_ns() - start);
	if (there)
		return 0;
	if (!attached && clock_now_ns() >= target->attach_deadline &&
	    !all_attached(target))
		return dfi__peers_missing(&target->sources);
	return dfi__fail(-ETIMEDOUT,
	    "flow '%s': target %u: no tuple came for %u ms", target->flow.name,
	    target->index, target->stall_timeout_ms);
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
	if (unlikely(target->status))
		return target->status;
	ret = give_back(target);
	if (ret < 0)
		return ret;
	for (;;) {
		if (unlikely(peers_changes(&target->sources) !=
			target->seen_changes)) {
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
		if (!target->n_open) {
			target->finished = true;
			return 0;
		}
		if (find_ready(target) < target->n_readers)
			continue;
		if (target->flags & DFI_NONBLOCK)
			return dfi__fail_text(-EAGAIN, "no tuple is there");
		ret = wait_for_segment(target);
		if (ret < 0)
			return ret;
	}
}

/* Whether calls other than release are possible now. */
static int check_batch(struct dfi_target *target)
{
	if (likely(!target->lends_batch))
		return 0;
	return dfi__fail(-EBUSY,
	    "flow '%s': target %u: a batch is out: release it first",
	    target->flow.name, target->index);
}

int dfi_target_consume_slow(struct dfi_target *target, const void **tuple)
{
	int ret = target_check(target);

	if (!ret)
		ret = check_batch(target);
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
	int ret = target_check(target);

	if (!ret)
		ret = check_batch(target);
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

struct dfi_target_cursor dfi_target_cursor_open(struct dfi_target *target)
{
	struct dfi_target_cursor cursor = { .target = target };
	int ret = target_check(target);

	if (!ret)
		ret = check_batch(target);
	cursor.status = ret;
	if (!ret) {
		cursor.next = target->head.next;
		cursor.end = target->head.end;
	}
	return cursor;
}

struct dfi_target_cursor dfi_target_cursor_slow(struct dfi_target_cursor cursor)
{
	struct dfi_target *target = cursor.target;
	int ret = target_check(target);

	if (!ret)
		ret = check_batch(target);
	if (!ret)
		ret = next_segment(target);
	cursor.status = ret > 0 ? 0 : ret;
	cursor.next = cursor.end = NULL;
	if (ret > 0) {
		cursor.next = target->head.next;
		cursor.end = target->head.end;
	}
	return cursor;
}

int dfi_target_cursor_close(struct dfi_target_cursor cursor)
{
	if (cursor.status < 0)
		return cursor.status;
	if (cursor.target->lends_segment && cursor.next)
		cursor.target->head.next = cursor.next;
	return 0;
}

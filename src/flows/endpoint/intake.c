/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target's segments: it polls the rings of all its sources in turn. The next
 * call after the last tuple of a segment gives the segment back.
 */
#include "target.h"

#include "base/counter.h"
#include "base/error.h"
#include "await.h"

/*
 * A target drains one ring further, because its memory is in the cache. After
 * this many segments in a row it looks at the other rings.
 */
#define FAIR_SEGMENTS 16

/* Find the slots of a ring that is ready: 0, or an error. */
static int find_slots(struct dfi_target *target, uint32_t source)
{
	int ret = dfi__reader_find_slots(&target->readers[source]);

	return ret < 0 ? dfi__target_damaged(target, source, ret) : 0;
}

/*
 * Pass over a segment without tuples for this target: one for other targets,
 * the end of a window, or a gap. Returns the result of take().
 */
static int pass_over(struct dfi_target *target, uint32_t source, int ret)
{
	if (ret < 0)
		return ret == -ENODATA
		    ? dfi__target_report_gap(target, source)
		    : dfi__target_damaged(target, source, ret);
	target_taken(target, 1);
	target_passed(target, source);
	ret = reader_release(&target->readers[source]);
	return ret < 0 ? dfi__target_fail(target, ret) : 0;
}

/*
 * Lend the next segment of a ring that is ready: 1. 0: there was none to lend,
 * as the ring only got its slots, or the segment was for other targets. Or an
 * error.
 */
static always_inline int take(struct dfi_target *target, uint32_t source)
{
	struct reader *reader = &target->readers[source];
	const char *payload;
	uint64_t bytes;
	int ret;

	if (unlikely(!reader->slots))
		return find_slots(target, source);
	ret = reader_take(reader, &payload, &bytes);
	if (unlikely(ret < 0 || !bytes))
		return pass_over(target, source, ret);
	target->head.next = payload;
	target->head.end = payload + bytes;
	target->head.source = source;
	target->lends_segment = true;
	target_taken(target, 1);
	owned_add(&target->segments, 1);
	return 1;
}

static inline uint32_t next_ring(const struct dfi_target *target, uint32_t ring)
{
	return ring + 1 == target->n_readers ? 0 : ring + 1;
}

/* Search the rings behind the current one; the current one comes last. */
static uint32_t find_other(struct dfi_target *target)
{
	uint32_t i, ring = target->current;

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

/*
 * The next ring with a segment, beginning at the current one; n_readers: none.
 */
static always_inline uint32_t find_ready(struct dfi_target *target)
{
	uint32_t ring = target->current;

	if (target->in_a_row < FAIR_SEGMENTS &&
	    reader_ready(&target->readers[ring])) {
		target->in_a_row++;
		return ring;
	}
	return find_other(target);
}

/* Find the ring to take from, n_readers if there is none: 0, or an error. */
static inline int find_next(struct dfi_target *target, uint32_t *ring)
{
	int ret;

	if (likely(!target->in_order)) {
		*ring = find_ready(target);
		return 0;
	}
	ret = target_find_in_order(target, ring);
	return ret < 0 ? dfi__target_damaged(target, *ring, ret) : 0;
}

/*
 * Whether a poll that finds no segment is one of many, of memory only. What
 * comes while it looks at the rest, the next one finds.
 */
static inline bool only_polls(const struct dfi_target *target)
{
	return target->flags & DFI_NONBLOCK && !target->group &&
	    !target->notify && !target->in_order && !target->region->exports &&
	    !target->kind->intake.follows;
}

/*
 * The rest of such a poll: 1 for another look, 0 for the end of the flow, or an
 * error, mostly -EAGAIN.
 */
static int finish_poll(struct dfi_target *target)
{
	int ret = dfi__target_check_ends(target);

	if (ret < 0)
		return ret;
	if (unlikely(target_lost(target)))
		return 1;
	if (unlikely(target->n_open == target->n_held))
		return 0;
	if (target_interrupted(target))
		return dfi__target_interrupted(target);
	return dfi__target_found_none(target);
}

bool dfi__target_has_segment(struct dfi_target *target)
{
	uint32_t ring;

	return find_next(target, &ring) == 0 && ring < target->n_readers;
}

static int fail_lost(struct dfi_target *target)
{
	return dfi__target_fail(
	    target, dfi__fail(target_lost(target), "%s", target->status_text));
}

/* last_segment() of an ordered flow, which skips no position. */
static int last_in_order(struct dfi_target *target)
{
	uint32_t ring;
	int ret = find_next(target, &ring);

	if (ret < 0)
		return ret;
	if (ring < target->n_readers &&
	    target->readers[ring].seq != target->readers[ring].stop)
		return take(target, ring);
	return fail_lost(target);
}

/*
 * The flow is lost: lend the segments that had arrived by then, and after these
 * return the error. Otherwise it returns the results of take().
 */
static int last_segment(struct dfi_target *target)
{
	uint32_t i, ring = target->current;
	struct reader *reader;

	if (target->in_order)
		return last_in_order(target);
	for (i = 0; i < target->n_readers; i++) {
		reader = &target->readers[ring];
		if (reader->seq != reader->stop && reader_ready(reader)) {
			target->current = ring;
			return take(target, ring);
		}
		ring = next_ring(target, ring);
	}
	return fail_lost(target);
}

int dfi__target_input_ready(struct dfi_target *target)
{
	int ret = 0;

	/* Who reads here sets lost itself, or holds the lock of who does. */
	if (likely(target_changes(target) == target->seen_changes &&
		!target->look_again && !atomic_peek(&target->lost)))
		ret = take(target, 0);
	return likely(ret) ? ret : dfi__target_input(target);
}

int dfi__target_input(struct dfi_target *target)
{
	uint32_t ring;
	int ret = target_give_back(target);

	if (ret < 0)
		return ret;
	for (;;) {
		if (target_aborted(target))
			return dfi__target_give_up(target);
		if (target_is_called(target))
			return dfi__fail_text(
			    -EAGAIN, "the targets above have changed");
		if (unlikely(target_changes(target) != target->seen_changes ||
			target->look_again)) {
			ret = dfi__target_look(target);
			if (ret < 0)
				return ret;
		}
		if (unlikely(target_lost(target))) {
			/* What has arrived yields no more results. */
			ret = target->gives_results ? fail_lost(target)
						    : last_segment(target);
			if (likely(ret))
				return ret;
			continue;
		}
		ret = find_next(target, &ring);
		if (unlikely(ret < 0))
			return ret;
		if (likely(ring < target->n_readers)) {
			ret = take(target, ring);
			if (likely(ret))
				return ret;
			continue;
		}
		if (only_polls(target)) {
			ret = finish_poll(target);
			if (ret <= 0)
				return ret;
			continue;
		}
		if (target->flags & DFI_NONBLOCK || target->group)
			target_progress(target, 1);
		else if (dfi__target_glance(target))
			continue;
		ret = dfi__target_check_sources(target);
		if (ret < 0)
			return ret;
		if (target_lost(target))
			continue;
		if (target->n_open == target->n_held)
			return 0;
		ret = find_next(target, &ring);
		if (!ret && ring < target->n_readers)
			continue;
		if (ret < 0)
			return ret;
		ret = target_check_order(target);
		if (ret < 0)
			return dfi__target_fail(target, ret);
		if (target_interrupted(target))
			return dfi__target_interrupted(target);
		if (target->notify && dfi__target_arm(target))
			continue;
		if (target->flags & DFI_NONBLOCK || target->group)
			return dfi__target_found_none(target);
		ret = dfi__target_wait(target);
		if (ret < 0)
			return ret;
	}
}

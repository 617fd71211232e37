/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast way to the next segment of an open flow's target: nothing has
 * changed, and it is of the ring that the last one was of.
 */
#include "base/counter.h"
#include "flows/endpoint/await.h"
#include "open.h"
#include "open_target.h"

/*
 * Lend the next segment as a closed flow does, if it is full, of the same ring
 * as the last one, and nothing has changed.
 */
static always_inline bool take_plain(
    struct dfi_target *target, struct open_target *open, struct dfi_target *end)
{
	struct reader *reader = &end->readers[0];
	const struct ring_geometry *g = &reader->geometry;

	if (unlikely(pairs_changes(&open->pairs) != open->seen ||
		target_changes(end) != end->seen_changes ||
		open->in_a_row >= open->most_in_a_row ||
		target_aborted(target)))
		return false;
	/* Pairs as in reader_ready(). */
	if (unlikely(
		!reader_is_plain(reader, atomic_observe(&reader->head->state))))
		return false;
	/* What goes wrong shows when the ring is looked at. */
	if (unlikely(reader_release(reader) < 0))
		return false;
	open->in_a_row++;
	target->head.next = reader_take_plain(reader);
	target->head.end = target->head.next + g->segment_bytes;
	owned_add(&end->segments, 1);
	owned_add(&target->segments, 1);
	owned_add(&target->readers[0].total, g->segment_tuples);
	return true;
}

/* Look so often at the only ring before slower work. */
#define PLAIN_POLLS 64

/*
 * The same once it comes, if that is within a few looks and the target may
 * wait. In a flow for latency the owner often asks just before an answer comes,
 * and each instruction from the arrival to the return adds to its time.
 */
static always_inline bool await_plain(
    struct dfi_target *target, struct open_target *open, struct dfi_target *end)
{
	struct reader *reader = &end->readers[0];
	uint32_t polls = target->wait.budget;
	uint64_t nothing = 0;

	/* What a network has brought shows only after progress(). */
	if (target->flags & DFI_NONBLOCK || target->group ||
	    open_n_taken(open) != 1 || end->region->exports)
		return false;
	/* The last segment was consumed, and its source may wait for it. */
	if (unlikely(reader_release(reader) < 0))
		return false;
	if (polls > PLAIN_POLLS)
		polls = PLAIN_POLLS;
	for (; polls; polls--) {
		if (target_ring_ready(end, reader + nothing))
			return take_plain(target, open, end);
		nothing = look_later(nothing);
	}
	return false;
}

int dfi__open_target_next(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	struct dfi_target *end = open->plain;

	if (likely(end &&
		(take_plain(target, open, end) ||
		    await_plain(target, open, end))))
		return 1;
	return dfi__open_target_next_slow(target);
}

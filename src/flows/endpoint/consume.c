/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consuming: the rings of all sources of one target, polled in turn. Tuples are
 * lent where they lie; a segment goes back when its last tuple was consumed and
 * the next call comes.
 */
#include "target.h"

#include <stdio.h>
#include "base/counter.h"
#include "base/error.h"
#include "base/error_list.h"
#include "transport/transport.h"
#include "await.h"
#include "flows/declare/tree.h"

/*
 * A ring with data is drained on, because it is warm, but not for ever: after
 * so many segments in a row the others are looked at.
 */
#define FAIR_SEGMENTS 16

int dfi__target_fail(struct dfi_target *target, int err)
{
	target->status = dfi__error_keep(err);
	snprintf(target->status_text, sizeof(target->status_text), "%s",
	    dfi_errmsg());
	return err;
}

static int was_aborted(const struct dfi_target *target)
{
	return dfi__fail(-ECANCELED,
	    "flow '%s': %s %u was aborted here (dfi_%s_abort())",
	    target->flow.name, TARGET_ID(target),
	    flow_target_word(&target->flow));
}

/*
 * Make err, whose text was just set, the end of the flow, but first have the
 * application consume what has arrived by now, from whatever source.
 */
static void lose(struct dfi_target *target, int err)
{
	uint32_t i;

	target->lost = err;
	snprintf(target->status_text, sizeof(target->status_text), "%s",
	    dfi_errmsg());
	for (i = 0; i < target->n_readers; i++) {
		/* One that can't be read also ends here. */
		if (!target->readers[i].slots &&
		    reader_ready(&target->readers[i]))
			(void)dfi__reader_find_slots(&target->readers[i]);
		target->readers[i].stop = dfi__reader_arrived(
		    &target->readers[i]);
	}
}

int dfi__target_give_up(struct dfi_target *target)
{
	return dfi__target_fail(target, was_aborted(target));
}

int dfi__target_check_slow(const struct dfi_target *target)
{
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	if (!ret && target->status)
		ret = dfi__fail(target->status, "%s", target->status_text);
	else if (!ret && target->cancelled)
		ret = dfi__fail(-ECANCELED,
		    "flow '%s': %s %u was cancelled here "
		    "(dfi_target_cancel())",
		    target->flow.name, TARGET_ID(target));
	else if (!ret && target_aborted(target))
		ret = was_aborted(target);
	return ret;
}

/* A ring that the reader found damaged. */
static int damaged(struct dfi_target *target, uint32_t source, int err)
{
	char name[256];

	dfi__peers_name(&target->sources, source, name, sizeof(name));
	dfi__fail_within(err, "flow '%s': from %s to %s %u (pid %u)",
	    target->flow.name, name, TARGET_ID(target), target->dfi->node.pid);
	return dfi__target_fail(target, err);
}

/* The reader has passed a gap: say so, once, and give back what it took up. */
static int tell_gap(struct dfi_target *target, uint32_t source)
{
	struct reader *reader = &target->readers[source];
	char name[256];
	uint64_t place = 0;
	int ret;

	if (target->merge)
		place = target->kind->intake.taken(target, reader->gap_count);
	ret = reader_release(reader);
	if (ret < 0)
		return dfi__target_fail(target, ret);
	owned_add(&target->gaps, 1);
	owned_add(&target->lost_segments, reader->gap_count);
	target->has_gap = true;
	target->gap = (struct dfi_gap){
		.first = reader->gap_first - RING_FIRST_SEGMENT,
		.count = reader->gap_count,
		.source = source,
		.position = place,
	};
	dfi__peers_name(&target->sources, source, name, sizeof(name));
	return dfi__fail(-ENODATA,
	    "flow '%s': %s %u: %u segments of %s, from number %lu on, were "
	    "lost on the network: the flow goes on behind them, as its "
	    "loss_policy says",
	    target->flow.name, TARGET_ID(target), target->gap.count, name,
	    (unsigned long)target->gap.first);
}

int dfi_target_gap(const struct dfi_target *target, struct dfi_gap *gap)
{
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	if (ret < 0)
		return ret;
	if (!gap)
		return dfi__fail(-EINVAL, "dfi_target_gap: gap is NULL");
	if (!target->has_gap)
		return dfi__fail(-ENOENT,
		    "flow '%s': %s %u: no gap was told (-ENODATA)",
		    target->flow.name, TARGET_ID(target));
	*gap = target->gap;
	return 0;
}

/* The slots of a ring that is ready to have them: 0, or an error. */
static int find_slots(struct dfi_target *target, uint32_t source)
{
	int ret = dfi__reader_find_slots(&target->readers[source]);

	return ret < 0 ? damaged(target, source, ret) : 0;
}

/* A segment that is for others, or ends a window; or none, or a gap. As take().
 */
static int pass_over(struct dfi_target *target, uint32_t source, int ret)
{
	if (ret < 0)
		return ret == -ENODATA ? tell_gap(target, source)
				       : damaged(target, source, ret);
	if (target->merge)
		target->kind->intake.taken(target, 1);
	if (target->combiner)
		target->kind->intake.passed(target, source);
	ret = reader_release(&target->readers[source]);
	return ret < 0 ? dfi__target_fail(target, ret) : 0;
}

/*
 * Lend the next segment of a ring that is ready. 1, or 0: it was only ready to
 * have segments, or has passed over one for others; or an error.
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
	if (unlikely(target->merge != NULL))
		target->kind->intake.taken(target, 1);
	owned_add(&target->segments, 1);
	return 1;
}

/* Whether the connection says so. state: what the registry had said before. */
static bool is_lost(
    const struct dfi_target *target, uint32_t source, uint32_t state)
{
	const struct export *export = target->region->export;
	enum ring_loss loss = export
	    ? export->transport->ops->ring.lost(
		  export, source, peers_node(&target->sources, source))
	    : RING_KEPT;

	/* A peer may be gone before it attached, and another may come. */
	return loss == RING_LOST ||
	    (loss == RING_LOST_UNWRITTEN && state != PEER_ABSENT);
}

static bool is_gone(struct dfi_target *target, uint32_t source)
{
	uint32_t state = peers_state(&target->sources, source);
	bool gone = state == PEER_GONE;

	/* Some of what it has sent may still come. */
	if (gone && target->cast) {
		dfi__receiver_ring_source_gone(target->cast, source);
		gone = false;
	}
	return gone || is_lost(target, source, state);
}

/* Have in its ring what a source wrote before it went. */
static inline void settle(const struct dfi_target *target)
{
	const struct export *export = target->region->export;

	if (export)
		export->transport->ops->settle(export->transport);
}

/* A source has aborted; a combiner, maybe for another one's sake. */
static int aborted(struct dfi_target *target, uint32_t source)
{
	const struct reader *reader = &target->readers[source];
	char name[256], culprit[32];
	enum tree_fate fate = target->flow.part.from_combiners
	    ? dfi__tree_fate(reader->cause)
	    : TREE_UNKNOWN;

	dfi__peers_name(&target->sources, source, name, sizeof(name));
	if (fate == TREE_UNKNOWN) {
		target->cause = dfi__tree_cause(
		    &target->flow, source, TREE_ABORTED);
		return dfi__fail(-ECANCELED,
		    "flow '%s': %s aborted the flow after %lu tuples",
		    target->flow.name, name,
		    (unsigned long)atomic_peek(&reader->total));
	}
	target->cause = reader->cause;
	dfi__tree_culprit(reader->cause, culprit, sizeof(culprit));
	if (fate == TREE_DIED)
		return dfi__fail(-ECONNRESET,
		    "flow '%s': %s died or closed before the end of the flow, "
		    "says %s",
		    target->flow.name, culprit, name);
	if (fate == TREE_NEVER_CAME)
		return dfi__fail(-ECONNRESET,
		    "flow '%s': %s never attached, and nobody can any more, "
		    "says %s",
		    target->flow.name, culprit, name);
	return dfi__fail(-ECANCELED, "flow '%s': %s aborted the flow, says %s",
	    target->flow.name, culprit, name);
}

/*
 * A ring without a segment: has its source ended, or aborted, or is it gone,
 * which ends the flow (target->lost)? 0, or an error that ends it at once.
 */
static int check_source(struct dfi_target *target, uint32_t source)
{
	struct reader *reader = &target->readers[source];
	bool gone;
	int ret;

	/* What became of a source that is held back, is for later. */
	if (reader->end || reader->held)
		return 0;
	/* Before the ring: what a dead source wrote is there by then. */
	gone = is_gone(target, source);
	if (gone)
		settle(target);
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
		lose(target, aborted(target, source));
	} else if (gone && !reader_ready(reader)) {
		target->cause = dfi__tree_cause(
		    &target->flow, source, TREE_DIED);
		lose(target, dfi__peers_lost(&target->sources, source));
	}
	return 0;
}

/* Some source hasn't attached, and can't any more. */
static void lose_absent(struct dfi_target *target)
{
	uint32_t i = 0;

	while (i < target->n_readers &&
	    peers_state(&target->sources, i) != PEER_ABSENT)
		i++;
	if (i < target->n_readers)
		target->cause = dfi__tree_cause(
		    &target->flow, i, TREE_NEVER_CAME);
	lose(target, dfi__peers_flow_gone(&target->sources));
}

/* All rings once. As check_source(). */
static int check_sources(struct dfi_target *target)
{
	uint32_t i;
	int ret = 0;

	target->seen_changes = target_changes(target);
	target->dead_undrained = false;
	for (i = 0; !ret && !target->lost && i < target->n_readers; i++)
		ret = check_source(target, i);
	if (!ret && !target->lost && dfi__peers_hopeless(&target->sources))
		lose_absent(target);
	return ret;
}

static inline uint32_t next_ring(const struct dfi_target *target, uint32_t ring)
{
	return ring + 1 == target->n_readers ? 0 : ring + 1;
}

/* Of the rings behind the current one, which is the last that is tried. */
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

/* The next ring with a segment, the current one first; n_readers if none. */
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

/* The ring to take from, n_readers if there is none: 0, or an error. */
static inline int find_next(struct dfi_target *target, uint32_t *ring)
{
	int ret;

	if (likely(!target->merge)) {
		*ring = find_ready(target);
		return 0;
	}
	ret = target->kind->intake.find(target, ring);
	return ret < 0 ? damaged(target, *ring, ret) : 0;
}

bool dfi__target_has_segment(struct dfi_target *target)
{
	uint32_t ring;

	return find_next(target, &ring) == 0 && ring < target->n_readers;
}

static int check_order(struct dfi_target *target)
{
	int ret = target->kind->intake.check(target);

	return ret < 0 ? dfi__target_fail(target, ret) : 0;
}

/* Give the segment in work back, if all of it was consumed. */
static always_inline int give_back(struct dfi_target *target)
{
	int ret;

	if (!target->lends_segment)
		return 0;
	target->lends_segment = false;
	target->head.next = target->head.end = NULL;
	ret = reader_release(&target->readers[target->head.source]);
	return ret < 0 ? dfi__target_fail(target, ret) : 0;
}

static int interrupted(struct dfi_target *target)
{
	atomic_set(&target->interrupted, false);
	return dfi__fail_text(
	    -EINTR, "the target was interrupted (dfi_target_interrupt())");
}

static int fail_lost(struct dfi_target *target)
{
	return dfi__target_fail(
	    target, dfi__fail(target->lost, "%s", target->status_text));
}

/* As last_segment(), of an ordered flow: no place is skipped. */
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
 * The flow is lost: lend what had arrived by then, and then say so. As take().
 */
static int last_segment(struct dfi_target *target)
{
	uint32_t i, ring = target->current;
	struct reader *reader;

	if (target->merge)
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

/*
 * Give the consumed segment back and lend the next one, of any ring: 1, or 0 at
 * the end of the flow, or of a window, or an error. The target has been
 * checked.
 */
static int next_input(struct dfi_target *target)
{
	uint32_t ring;
	int ret = give_back(target);

	if (ret < 0)
		return ret;
	for (;;) {
		if (target_aborted(target))
			return dfi__target_give_up(target);
		if (target_is_called(target))
			return dfi__fail_text(
			    -EAGAIN, "who is sent to has changed");
		if (unlikely(target_changes(target) != target->seen_changes ||
			target->dead_undrained)) {
			ret = check_sources(target);
			if (ret < 0)
				return ret;
		}
		if (unlikely(target->lost)) {
			/* No more results can come of what has arrived. */
			ret = target->combiner ? fail_lost(target)
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
		if (target->flags & DFI_NONBLOCK || target->group)
			target_progress(target, 1);
		else if (dfi__target_glance(target))
			continue;
		ret = check_sources(target);
		if (ret < 0)
			return ret;
		if (target->lost)
			continue;
		if (target->n_open == target->n_held)
			return 0;
		ret = find_next(target, &ring);
		if (!ret && ring < target->n_readers)
			continue;
		if (!ret && unlikely(target->merge != NULL))
			ret = check_order(target);
		if (ret < 0)
			return ret;
		if (target_interrupted(target))
			return interrupted(target);
		if (target->notify && dfi__target_arm(target))
			continue;
		if (target->flags & DFI_NONBLOCK || target->group)
			return dfi__target_found_none(target);
		ret = dfi__target_wait(target);
		if (ret < 0)
			return ret;
	}
}

int dfi__target_input(struct dfi_target *target)
{
	int ret = target_check(target);

	return ret < 0 ? ret : next_input(target);
}

/* Lend what the application gets next; as next_input(). */
static inline int next_segment(struct dfi_target *target)
{
	return unlikely(target->combiner != NULL)
	    ? target->kind->intake.next(target)
	    : next_input(target);
}

/* Why a target that lends something else lends nothing more now. */
static int lends_already(const struct dfi_target *target)
{
	if (target->lends_batch)
		return dfi__fail(-EBUSY,
		    "flow '%s': %s %u: a batch is out: release it first",
		    target->flow.name, TARGET_ID(target));
	return dfi__fail(-EBUSY,
	    "flow '%s': %s %u: a cursor is open: close it first",
	    target->flow.name, TARGET_ID(target));
}

static inline int check_lent(const struct dfi_target *target)
{
	return unlikely(target->lends_batch || target->cursor_open)
	    ? lends_already(target)
	    : 0;
}

int dfi__target_check_lent(const struct dfi_target *target)
{
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	return ret ? ret : check_lent(target);
}

/* The handle is whole, and neither a batch nor a cursor is out. */
static inline int check_free(struct dfi_target *target)
{
	int ret = target_check(target);

	return ret ? ret : check_lent(target);
}

/* There is nowhere to put what would be lent: nothing happens. */
static int no_place(const struct dfi_target *target, const char *what)
{
	return dfi__fail(-EINVAL, "flow '%s': %s %u: %s is NULL",
	    target->flow.name, TARGET_ID(target), what);
}

int dfi_target_consume_slow(struct dfi_target *target, const void **tuple)
{
	TARGET_CALL(target, TARGET_SHARED(target));
	int ret = check_free(target);

	if (!ret && !tuple)
		ret = no_place(target, "consume: tuple");
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
	TARGET_CALL(target, TARGET_SHARED(target));
	struct dfi_target_head *head;
	int ret = check_free(target);

	if (ret < 0)
		return ret;
	if (!batch)
		return no_place(target, "consume_batch: batch");
	head = &target->head;
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
	HANDLE_VOID_CALL(TARGET_USER(target), TARGET_SHARED(target));
	/* Also of one that has failed, or was aborted meanwhile. */
	if (handle_check(target, target ? &target->magic : NULL, TARGET_MAGIC) <
		0 ||
	    !target->lends_batch)
		return;
	if (!batch) {
		no_place(target, "release: batch");
		return;
	}
	if (!batch->count)
		return;
	target->lends_batch = false;
	*batch = (struct dfi_batch){ .tuples = NULL };
	give_back(target);
}

void dfi__target_take_back(struct dfi_target *target)
{
	target->lends_batch = false;
	give_back(target);
}

static maybe_unused struct dfi_target_cursor failed_cursor(
    struct dfi_target_cursor cursor, int err)
{
	cursor.status = err;
	return cursor;
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
	struct dfi_target_cursor cursor = { .target = target };

	TARGET_CALL(target, failed_cursor(cursor, TARGET_SHARED(target)));
	cursor.status = check_free(target);
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

	TARGET_CALL(target, failed_cursor(cursor, TARGET_SHARED(target)));
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
	TARGET_CALL(target, TARGET_SHARED(target));
	ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);
	if (ret < 0)
		return ret;
	target->cursor_open = false;
	if ((target->lends_segment || (target->combiner && target->head.end)) &&
	    cursor.next)
		target->head.next = cursor.next;
	return cursor.status;
}

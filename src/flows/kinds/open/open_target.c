/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target of an open flow: it takes from the rings of its pairs in turn, and
 * sleeps on one descriptor that all of them wake, as a target group does. The
 * targets of the pairs never wait.
 */
#include <dfi/event.h>
#include <dfi/mark.h>
#include <dfi/open_flow.h>
#include "base/counter.h"
#include "base/error.h"
#include "flows/endpoint/await.h"
#include "flows/endpoint/target.h"
#include "flows/kinds/combine/combine.h"
#include "flows/kinds/kinds.h"
#include "open.h"
#include "acks.h"
#include "open_target.h"
#include "open_target_order.h"

/* Segments of one ring in a row, before the target looks at the others. */
#define FAIR_SEGMENTS 16

/* ---- Who is there ------------------------------------------------------ */

void dfi__open_target_retire(
    struct open_target *open, uint32_t i, uint32_t type)
{
	struct taken taken = open->taken[i];
	uint32_t n;

	dfi__open_add_event(open, type, &taken, 0);
	if (!open->target->marks)
		dfi__open_fold_release(open, &taken);
	else if (open->order)
		dfi__target_order_retired(open, &taken, type);
	else if ((type == DFI_ENDED
			 ? dfi__open_watermark_ended(
			       &open->target->marks->watermark, taken.seat)
			 : dfi__open_watermark_lost(
			       &open->target->marks->watermark, taken.seat)))
		dfi__open_risen(open);
	if (type != DFI_ENDED)
		dfi__acks_lost(open, &taken);
	target_give_back(taken.end);
	dfi__target_withdraw(taken.end);
	/* Only the owner lowers it, so it reads none of those behind it. */
	n = open_n_taken(open) - 1;
	open->taken[i] = open->taken[n];
	atomic_set(&open->n_taken, n);
	open_move_current(open, i, n);
	dfi__pairs_retire(&open->pairs, taken.pair);
}

/* Under the lock: whether a source is there, or may still come. */
static bool expects_sources(const struct open_target *open)
{
	const struct seat_watch *seats = &open->pairs.seats;
	uint32_t i;

	for (i = 0; i < seats->n_others; i++)
		if (dfi__pairs_expected(&open->pairs, i))
			return true;
	return !seats->finished;
}

/* The flow wants an error for a source that is gone without its end. */
static void note_lost(struct dfi_target *target, int err, const char *text)
{
	if (target->flow.on_loss == DFI_ON_LOSS_FAIL)
		dfi__open_target_fail_later(target, err, text);
	else if (target->combiner)
		dfi__open_fold_lose(target);
}

/* Under the lock: a source that was lost is given up (R7). */
static void give_up(struct open_target *open, uint32_t seat)
{
	uint64_t incarnation = dfi__acks_gave_up(open, seat);

	if (!incarnation)
		return;
	dfi__open_add_given_up(open, seat, incarnation);
	if (dfi__open_watermark_given_up(&open->target->marks->watermark, seat))
		dfi__open_risen(open);
}

/* What becomes of a source that is gone without its end. */
static uint32_t gone_as(const struct taken *taken)
{
	return atomic_peek(&taken->pair->evicted) ? DFI_EVICTED : DFI_LOST;
}

/*
 * Its source is evicted: what has arrived of it is taken, and no more (M5).
 * Others know first if it had ended.
 */
static void end_evicted(struct dfi_target *target, struct taken *taken)
{
	int err;

	if (target_lost(taken->end) || !atomic_peek(&taken->pair->evicted))
		return;
	err = dfi__fail(-ESTALE, "flow '%s': %s %u: source %u was evicted",
	    target->flow.name, TARGET_ID(target), taken->seat);
	dfi__target_put_out(taken->end, err);
}

static void adopt(struct open_target *open)
{
	struct seat_watch *seats = &open->pairs.seats;
	uint32_t changes = pairs_changes(&open->pairs), i;
	char broke[ERROR_TEXT_SIZE];
	bool lost = false, evicted;

	if (changes == open->seen)
		return;
	open->seen = changes;
	open->plain = NULL;
	target_order_lock(open->order);
	pthread_mutex_lock(&seats->lock);
	for (i = 0; i < seats->n_others; i++)
		lost |= dfi__pairs_was_lost(&open->pairs, i);
	dfi__open_target_take_pairs(open);
	for (i = 0; open->acks && i < seats->n_others; i++)
		give_up(open, i);
	for (i = 0; i < open_n_taken(open); i++)
		open->taken[i].followed = dfi__pairs_followed(
		    &open->pairs, open->taken[i].seat, open->taken[i].pair);
	if (lost)
		memcpy(broke, open->pairs.broke, sizeof(broke));
	if (open->partitions) {
		dfi__partitions_learn(open->partitions);
		open->left = dfi__partitions_left(open->partitions);
		dfi__open_watermark_suspend(&open->target->marks->watermark,
		    dfi__partitions_unsettled(open->partitions));
	}
	open->ended = !expects_sources(open) &&
	    !(open->partitions && dfi__partitions_move(open->partitions));
	evicted = seats->seats.evicted;
	if (open->order)
		dfi__target_order_see(open);
	pthread_mutex_unlock(&seats->lock);
	if (unlikely(evicted))
		dfi__open_target_put_out(open->target);
	if (unlikely(lost))
		note_lost(open->target, -ECONNRESET, broke);
	/* The helper may fail the target and take pairs as well. */
	target_order_unlock(open->order);
	/* Only the owner retires, so these states stay. */
	for (i = open_n_taken(open); !open->order && i-- > 0;)
		if (atomic_peek(&open->taken[i].pair->stale))
			dfi__open_target_retire(
			    open, i, gone_as(&open->taken[i]));
	for (i = 0; !open->order && i < open_n_taken(open); i++)
		end_evicted(open->target, &open->taken[i]);
	dfi__open_resume(open);
}

/* ---- Segments ---------------------------------------------------------- */

/* Whether dfi_target_event() has one. */
static bool has_event(const struct open_target *open)
{
	return open->n_events ||
	    (open->partitions && dfi__partitions_due(open->partitions));
}

/* -ENOMSG: an event is next, and comes before all segments; or 0. */
static int check_events(const struct open_target *open)
{
	return has_event(open) ? dfi__marks_event_is_next() : 0;
}

static bool is_unused(const struct dfi_target *end)
{
	return end->readers[0].seq == RING_FIRST_SEGMENT &&
	    !reader_ready(&end->readers[0]);
}

/*
 * The source of a pair is gone without its end, and all that came of it was
 * consumed. The text says why. As check_events().
 */
static int lose(struct dfi_target *target, uint32_t i, int err)
{
	struct open_target *open = open_target(target);
	const struct taken *taken = &open->taken[i];
	const struct reader *reader = &taken->end->readers[0];

	/* The source knew first that this target has lost its seat. */
	if (reader->end == READER_ABORTED && reader->cause == OPEN_CAUSE_GONE)
		dfi__open_target_put_out(target);
	/* The source may live: its side of the pair has failed. */
	else if (err != -ECONNRESET || target_lost(target) ||
	    !is_unused(taken->end) ||
	    !dfi__pairs_doubt(&open->pairs, taken->seat, taken->pair))
		note_lost(target, err, dfi_errmsg());
	dfi__open_target_retire(open, i, gone_as(taken));
	return check_events(open);
}

/* All tuples before a mark were given back. */
static void see_mark(struct open_target *open, uint32_t i)
{
	struct taken *taken = &open->taken[i];
	uint64_t table = taken->end->readers[0].table;

	if (likely(table == taken->table))
		return;
	taken->table = table;
	dfi__partitions_marked(
	    open->partitions, taken->seat, taken->pair->incarnation, table);
}

/* J1: the first segment of a pair's ring says where this target begins. */
static int take_mark(struct dfi_target *target, uint32_t i)
{
	struct open_target *open = open_target(target);
	uint64_t before;
	int ret = dfi__open_target_take_mark(&open->taken[i], &before);

	if (ret < 0)
		return lose(target, i, ret);
	dfi__open_target_joined(open, &open->taken[i], before);
	if (open->taken[i].mark &&
	    dfi__marks_marked(
		target->marks, open->taken[i].seat, open->taken[i].mark))
		dfi__open_risen(open);
	(void)dfi__open_may_read_on(open, &open->taken[i]);
	return check_events(open);
}

/*
 * A ring whose mark was not taken yet: 1 if its source is gone without one.
 * Otherwise 0 or an error, as take_from().
 */
static int await_mark(struct dfi_target *target, uint32_t i)
{
	struct dfi_target *end = open_target(target)->taken[i].end;
	int ret;

	if (!dfi__target_ready(end))
		return 0;
	if (reader_ready(&end->readers[0]))
		return take_mark(target, i);
	ret = dfi__target_check_sources(end);
	if (ret < 0)
		return lose(target, i, ret);
	return !reader_ready(&end->readers[0]) &&
	    (target_lost(end) || !end->n_open);
}

/*
 * A mark of a pair's source was taken: 0, or -ENOMSG if an event is next, which
 * comes before all that is behind the mark. -EAGAIN: the source waits there.
 */
static int take_rise(struct dfi_target *target, uint32_t i)
{
	struct open_target *open = open_target(target);
	struct dfi_event event;
	bool may_read_on;
	int ret;

	if (dfi__marks_event(open->taken[i].end, &event) < 0)
		return check_events(open);
	if (target->combiner) {
		dfi__open_fold_mark(target, &open->taken[i]);
		return open->taken[i].held ? -EAGAIN : 0;
	}
	if (dfi__marks_marked(target->marks, open->taken[i].seat, event.value))
		dfi__open_risen(open);
	may_read_on = dfi__open_may_read_on(open, &open->taken[i]);
	ret = check_events(open);
	return ret < 0 || may_read_on ? ret : -EAGAIN;
}

/*
 * A ring that is held back: others may never come as far, so a flow that fails
 * with its source fails now.
 */
static int look_at_held(struct dfi_target *target, uint32_t i)
{
	struct dfi_target *end = open_target(target)->taken[i].end;
	int ret;

	if (open_is_shut(target, &open_target(target)->taken[i]))
		return 0;
	ret = dfi__target_check_sources(end);
	if (!ret && target_lost(end))
		ret = dfi__fail(target_lost(end), "%s", end->status_text);
	return ret < 0 ? lose(target, i, ret) : 0;
}

/*
 * The next segment with tuples of a pair: 1, or 0 if it has ended. -EAGAIN:
 * there is none now, or the ring is held back. -ENOMSG: an event is next. Or
 * another error.
 */
static always_inline int take_next(
    struct dfi_target *target, uint32_t i, bool ready)
{
	struct dfi_target *end = open_target(target)->taken[i].end;
	int ret = ready ? dfi__target_input_ready(end) : dfi__target_input(end);

	while (unlikely(ret == -ENOMSG)) {
		ret = take_rise(target, i);
		if (ret)
			break;
		ret = dfi__target_input(end);
	}
	return ret;
}

/*
 * Take a segment of a pair: 1, or 0 if it has none now, or none that is to be
 * lent; or an error. ready: its ring has one.
 */
static always_inline int take(struct dfi_target *target, uint32_t i, bool ready)
{
	struct open_target *open = open_target(target);
	struct dfi_target *end = open->taken[i].end;
	int ret;

	if (open->taken[i].held || !open_may_read(target, &end->readers[0]))
		return 0;
	if (unlikely(end->readers[0].held))
		return look_at_held(target, i);
	if (unlikely(end->readers[0].awaits_mark)) {
		ret = await_mark(target, i);
		if (ret <= 0)
			return ret;
	}
	ret = take_next(target, i, ready);
	if (likely(ret > 0)) {
		if (unlikely(target->flags & DFI_ALIGN))
			open_watermark_took(&target->marks->watermark,
			    open->taken[i].seat, end->readers[0].marked, 0);
		open_target_lend(target, end, open->taken[i].seat);
		return likely(open->acks == NULL) ? 1 : dfi__acks_lend(open, i);
	}
	see_mark(open, i);
	if (unlikely(open->acks != NULL) &&
	    dfi__acks_passed(open, &open->taken[i]) < 0)
		return dfi__target_fail(target, -ECONNRESET);
	if (ret == -EAGAIN)
		return 0;
	if (ret == -ENOMSG)
		return ret;
	if (unlikely(ret == -ENODATA))
		return dfi__open_take_gap(target, &open->taken[i]);
	if (ret < 0)
		return lose(target, i, ret);
	dfi__open_target_retire(open, i, DFI_ENDED);
	return check_events(open);
}

static int take_from(struct dfi_target *target, uint32_t i)
{
	return take(target, i, false);
}

static uint32_t after(uint32_t n, uint32_t i)
{
	return i + 1 < n ? i + 1 : 0;
}

/* The fast look: a ring that has a segment; n_taken: there is none. */
static uint32_t find_ready(struct open_target *open)
{
	uint32_t i, n = open_n_taken(open), at = open->current;

	if (open->in_a_row >= FAIR_SEGMENTS) {
		at = after(n, at);
		open->in_a_row = 0;
	}
	for (i = 0; i < n; i++) {
		if (reader_ready(&open->taken[at].end->readers[0])) {
			open->in_a_row = at == open->current
			    ? open->in_a_row + 1
			    : 1;
			open->current = at;
			return at;
		}
		at = after(n, at);
	}
	return n;
}

/*
 * Look at all rings, also for ends and deaths: 1, 0 if there is nothing, or an
 * error.
 */
static int look_at_all(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	uint32_t i;
	int ret = 0;

	/* From the last on, as one that is retired gives its room to that. */
	for (i = open_n_taken(open); !ret && i-- > 0;) {
		ret = take_from(target, i);
		if (ret > 0)
			open->current = i;
	}
	return ret;
}

/* ---- Consuming ---------------------------------------------------------- */

/* What ends the consuming, when no segment is there: 1: nothing does. */
static int check_end(struct dfi_target *target)
{
	struct open_target *open = open_target(target);

	if (target_lost(target))
		return dfi__target_fail(target,
		    dfi__fail(target_lost(target), "%s", target->status_text));
	/* Sources have nothing more for a target that has left. */
	if (open->left || (open->ended && !open_n_taken(open)))
		return 0;
	if (target->combiner && dfi__open_fold_is_whole(target))
		return 0;
	if (target_interrupted(target))
		return dfi__target_interrupted(target);
	return 1;
}

void dfi__open_target_give_back(struct dfi_target *target)
{
	struct open_target *open = open_target(target);

	target->head.next = target->head.end = NULL;
	if (open->current < open_n_taken(open)) {
		if (unlikely(open->acks != NULL))
			dfi__acks_gave_back(open, &open->taken[open->current]);
		target_give_back(open->taken[open->current].end);
		if (open->partitions)
			see_mark(open, open->current);
	}
}

/* Look at so many rings before slower work, as a closed flow does. */
#define GLANCE_RINGS 64

/* find_ready(), once a few more looks find any. */
static uint32_t glance(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	uint32_t budget = target->wait.budget, spent;

	if (target->flags & DFI_NONBLOCK || target->group ||
	    !open_n_taken(open))
		return open_n_taken(open);
	if (budget > GLANCE_RINGS)
		budget = GLANCE_RINGS;
	for (spent = 0; spent < budget; spent += open_n_taken(open))
		if (dfi__open_target_any_ready(target))
			return find_ready(open);
	return open_n_taken(open);
}

/* The next segment of any ring: as look_at_all(). */
static inline int next_of_any(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	uint32_t i = find_ready(open);
	int ret;

	if (unlikely(i == open_n_taken(open)))
		i = glance(target);
	ret = likely(i < open_n_taken(open)) ? take(target, i, true) : 0;
	return ret ? ret : look_at_all(target);
}

/*
 * A segment was lent: whether the next one of its ring can be lent in
 * open_target_plain.c. Whatever keeps it from that later is a change, or comes
 * in dfi__open_target_next_slow().
 */
static inline void note_plain(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	struct dfi_target *end;

	if (target->look_again || target->flags & DFI_ALIGN ||
	    target->combiner || open->order || open->acks || open->partitions ||
	    target_lost(target) || open->n_events)
		return;
	end = open->taken[open->current].end;
	if (!end->lends_segment || end->look_again || target_lost(end))
		return;
	open->plain = end;
	open->most_in_a_row = open_n_taken(open) == 1 ? UINT32_MAX
						      : FAIR_SEGMENTS;
}

int dfi__open_target_next_slow(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	struct call_wait call = { .until = 0 };
	int ret;

	open->plain = NULL;
	if (unlikely(open->acks != NULL) && dfi__acks_lend_rest(open))
		return 1;
	dfi__open_target_give_back(target);
	for (;;) {
		if (target_aborted(target))
			return dfi__target_give_up(target);
		if (!open->n_events)
			adopt(open);
		if (unlikely(target->look_again & LOOK_FOR_IDLE))
			dfi__open_look_for_idle(open);
		ret = check_events(open);
		if (ret < 0)
			return ret;
		ret = unlikely(open->order != NULL)
		    ? dfi__target_order_next(target)
		    : next_of_any(target);
		if (ret > 0)
			note_plain(target);
		if (ret != 0)
			return ret;
		if (has_event(open) ||
		    pairs_changes(&open->pairs) != open->seen ||
		    (open->acks && dfi__acks_have_passed(open->acks)))
			continue;
		ret = check_end(target);
		if (ret <= 0)
			return ret;
		ret = unlikely(open->acks != NULL) ? dfi__acks_check(target)
						   : 0;
		if (!ret && open->partitions)
			dfi__partitions_found_nothing(open->partitions);
		if (!ret && target->combiner)
			dfi__open_fold_found_nothing(target);
		if (!ret)
			ret = dfi__open_target_wait(target, &call);
		if (ret < 0)
			return ret;
	}
}

int dfi__open_target_take_event(
    struct dfi_target *target, struct dfi_event *event)
{
	struct open_target *open = open_target(target);

	if (!open->n_events)
		adopt(open);
	if (!open->n_events)
		return open->partitions &&
			dfi__partitions_event(open->partitions, event)
		    ? 0
		    : -EAGAIN;
	*event = dfi__open_pop_event(open);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the owner of a target delivers in one order. While a view lasts, that is
 * position by position. When it has ended, the target reports what it has, and
 * delivers nothing until it is decided what all deliver of that view: then
 * those segments in their order, and nothing for the positions between them.
 */
#include "open_target_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"

/* ---- What a change means ------------------------------------------------ */

/* The source has left its seat without an end: its ring ends here (M5). */
static void note_gone(struct dfi_target *target, struct taken *taken)
{
	struct dfi_target *end = taken->end;
	struct reader *reader = &end->readers[0];

	if (target_lost(end) || reader->end == READER_ENDED)
		return;
	dfi__target_settle(end);
	if (atomic_observe(&reader->mark->state) & FOOTER_FLAG_END)
		return;
	snprintf(end->status_text, sizeof(end->status_text),
	    "flow '%s': source %u has lost its seat before its end",
	    target->flow.name, taken->seat);
	if (!reader->slots && reader_ready(reader))
		(void)dfi__reader_find_slots(reader);
	reader->stop = dfi__reader_arrived(reader);
	atomic_publish(&end->lost, -ECONNRESET);
}

int dfi__target_order_no_memory(const struct dfi_target *target)
{
	return dfi__fail(
	    -ENOMEM, "flow '%s': out of memory", target->flow.name);
}

/* It has less than the members of the view. */
void dfi__target_order_put_out(struct open_target *open)
{
	struct dfi_target *target = open->target;
	int err = dfi__fail(-ESTALE,
	    "flow '%s': %s %u: this target lacks segments of a source that "
	    "others have delivered: open it again, and get from elsewhere what "
	    "it has missed",
	    target->flow.name, TARGET_ID(target));

	dfi__open_target_fail_later(target, err, dfi_errmsg());
	open->order->is_out = true;
}

/* The next view may be decided. */
static void see_view(struct open_target *open)
{
	struct seat_watch *seats = &open->pairs.seats;
	struct target_order *order = open->order;

	switch (dfi__ordered_see(
	    &order->core, &seats->views.newest, seats->incarnation)) {
	case OPEN_TURN_NONE:
	case OPEN_TURN_DECIDED:
		break;
	case OPEN_TURN_ENTERED:
		order->awaits = false;
		break;
	case OPEN_TURN_OUT:
		dfi__target_order_put_out(open);
		seat_watch_call(seats);
		break;
	case OPEN_TURN_NO_MEMORY:
		dfi__open_target_fail_later(open->target,
		    dfi__target_order_no_memory(open->target), dfi_errmsg());
		break;
	}
}

/* Under the lock: sources that have left without an end end the view. */
static void see_losses(struct open_target *open)
{
	struct seat_watch *seats = &open->pairs.seats;
	const struct taken *taken = open->taken;
	uint32_t i;

	for (i = 0; i < open_n_taken(open); i++, taken++) {
		if (seat_watch_holder(seats, taken->seat) ==
		    taken->pair->incarnation)
			continue;
		note_gone(open->target, &open->taken[i]);
		if (target_lost(taken->end) && !taken->settled)
			open->order->wants_cut = open->order->core.view;
	}
}

void dfi__target_order_see(struct open_target *open)
{
	struct seat_watch *seats = &open->pairs.seats;

	see_losses(open);
	if (!target_lost(open->target) && !seats->seats.evicted)
		see_view(open);
}

/* Under its lock: whether the segment that is due has come. */
static bool has_come(const struct open_target *open)
{
	const struct taken *taken = open->taken;
	uint64_t position;
	uint32_t i;

	for (i = 0; i < open_n_taken(open); i++, taken++)
		if (!taken->end->readers[0].awaits_mark &&
		    !target_order_is_empty(taken) &&
		    !dfi__reader_global(&taken->end->readers[0], &position) &&
		    position == open->order->core.due)
			return true;
	return false;
}

/*
 * The owner may be away, also because it waits for this very change of view as
 * a source. What needs it, such as errors, waits for it.
 */
void dfi__target_order_help(struct open_target *open)
{
	struct seat_watch *seats = &open->pairs.seats;
	struct target_order *order = open->order;

	target_order_lock(order);
	pthread_mutex_lock(&seats->lock);
	if (!seats->seats.evicted && !order->is_out) {
		dfi__open_target_take_pairs(open);
		see_losses(open);
		if (!order->core.begun)
			see_view(open);
	}
	pthread_mutex_unlock(&seats->lock);
	if (atomic_peek(&order->hole_since) && has_come(open))
		atomic_set(&order->hole_since, 0);
	(void)dfi__target_order_report(open);
	target_order_unlock(order);
}

void dfi__target_order_signal(struct open_target *open)
{
	pthread_mutex_lock(&open->pairs.seats.lock);
	seat_watch_call(&open->pairs.seats);
	pthread_mutex_unlock(&open->pairs.seats.lock);
}

void dfi__target_order_want_cut(struct open_target *open)
{
	struct target_order *order = open->order;

	if (order->wants_cut == order->core.view)
		return;
	pthread_mutex_lock(&open->pairs.seats.lock);
	order->wants_cut = order->core.view;
	seat_watch_call(&open->pairs.seats);
	pthread_mutex_unlock(&open->pairs.seats.lock);
}

/* ---- Rings --------------------------------------------------------------- */

/*
 * Pass over the next segment of a ring. counts: it has a place in the order, in
 * front of what this target delivers, or is a mark that is due.
 */
static int pass_over(struct open_target *open, struct taken *taken,
    uint64_t position, bool counts)
{
	struct reader *reader = &taken->end->readers[0];
	const char *payload;
	uint64_t bytes;
	int ret = reader_take(reader, &payload, &bytes);

	/* What is next may come while the owner sleeps. */
	taken->has_head = false;
	if (!ret)
		ret = reader_release(reader);
	if (ret < 0)
		return dfi__target_damaged(taken->end, 0, ret);
	if (counts)
		return dfi__target_order_passed(open, taken, position);
	reader->has_mark = false;
	return 0;
}

/*
 * A source was lost in this view, and its ring is empty. One that has not met
 * this target before it begins has no part in where that is.
 */
static int remember(struct open_target *open, const struct taken *taken)
{
	struct target_order *order = open->order;
	const struct open_share share = {
		.source = taken->pair->incarnation,
		.delivered = taken->delivered,
		.arrived = target_order_end(order, taken),
	};

	return taken->settled || (!order->core.begun && !taken->marked) ||
		dfi__ordered_lose(&order->core, &share)
	    ? 0
	    : dfi__target_order_no_memory(open->target);
}

/*
 * A source is gone without its end, and all that came of it was delivered, or
 * is left out. What others would deliver behind that is no part of a flow that
 * fails with it.
 */
static int lose(struct open_target *open, const struct taken *taken)
{
	const struct dfi_target *end = taken->end;

	if (open->target->flow.on_loss == DFI_ON_LOSS_FAIL && taken->joined)
		dfi__open_target_fail_later(
		    open->target, target_lost(end), end->status_text);
	return remember(open, taken);
}

/*
 * A ring without a segment: its source may have ended, or be lost. A pair that
 * broke unused is made again.
 */
static int look_at_end(struct dfi_target *target, uint32_t i)
{
	struct open_target *open = open_target(target);
	struct taken *taken = &open->taken[i];
	struct dfi_target *end = taken->end;
	int ret = 0;

	if (!target_lost(end) && end->n_open)
		ret = dfi__target_check_sources(end);
	if (ret < 0)
		return ret;
	if (target_lost(end) && !taken->settled)
		dfi__target_order_want_cut(open);
	if (!target_order_is_empty(taken))
		return 0;
	if (!target_lost(end) && !end->n_open) {
		dfi__open_target_retire(open, i, DFI_ENDED);
	} else if (target_lost(end)) {
		if (end->readers[0].seq != RING_FIRST_SEGMENT ||
		    !dfi__pairs_doubt(&open->pairs, taken->seat, taken->pair))
			ret = lose(open, taken);
		dfi__open_target_retire(open, i, DFI_LOST);
	}
	return ret;
}

/* Look at each ring: marks, ends and losses. */
static int look_at_all(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	struct taken *taken;
	uint32_t i;
	int ret = 0;

	for (i = open_n_taken(open); !ret && i-- > 0;) {
		taken = &open->taken[i];
		if (taken->end->readers[0].awaits_mark &&
		    !target_order_is_empty(taken))
			ret = dfi__target_order_take_mark(target, taken);
		taken->has_head = !target_order_is_empty(taken);
		if (!ret && (!taken->has_head || target_lost(taken->end)))
			ret = look_at_end(target, i);
	}
	return ret;
}

/* Whether the ring of the seat's holder before has not come to its end yet. */
static bool is_behind(const struct open_target *open, const struct taken *taken)
{
	const struct taken *other = open->taken;
	uint32_t i;

	for (i = 0; i < open_n_taken(open); i++, other++)
		if (other->seat == taken->seat &&
		    other->pair->number < taken->pair->number)
			return true;
	return false;
}

/* Whom the target has met joins for it once it knows where it begins. */
static void add_joined(struct open_target *open)
{
	struct taken *taken = open->taken;
	uint32_t i;

	for (i = 0; i < open_n_taken(open); i++, taken++) {
		if (taken->joined || !taken->marked || is_behind(open, taken))
			continue;
		taken->joined = true;
		dfi__open_add_event(
		    open, DFI_JOINED, taken, open->order->core.begin);
	}
}

/* ---- Delivering ---------------------------------------------------------- */

static int fail_position(const struct target_order *order, uint64_t position)
{
	return dfi__fail(-EBADMSG,
	    "a segment has position %lu of view %lu, but all below %lu are "
	    "delivered",
	    (unsigned long)(position % OPEN_VIEW_POSITIONS),
	    (unsigned long)(position / OPEN_VIEW_POSITIONS),
	    (unsigned long)(order->core.due % OPEN_VIEW_POSITIONS));
}

/* The position of the next segment of a ring: 1, 0 if there is none. */
static int head_of(struct dfi_target *target, uint32_t i, uint64_t *position)
{
	struct open_target *open = open_target(target);
	struct taken *taken = &open->taken[i];
	int ret = 0;

	while (!ret && !taken->end->readers[0].awaits_mark &&
	    !target_order_is_empty(taken)) {
		ret = dfi__reader_global(&taken->end->readers[0], position);
		if (ret < 0 ||
		    !ordered_leaves_out(&open->order->core,
			taken->pair->incarnation, *position))
			return ret < 0 ? ret : 1;
		ret = pass_over(
		    open, taken, *position, *position < open->order->first);
	}
	return ret;
}

/*
 * The ring whose segment is next: 1. 0: it has not come; *later: others have.
 */
static int find(struct dfi_target *target, uint32_t *ring, bool *later)
{
	struct open_target *open = open_target(target);
	struct target_order *order = open->order;
	uint64_t position = 0, least = UINT64_MAX;
	uint32_t i;
	int ret;

	*later = false;
	for (i = 0; i < open_n_taken(open); i++) {
		ret = head_of(target, i, &position);
		if (!ret)
			continue;
		if (!(ret < 0) && position < order->core.due)
			ret = fail_position(order, position);
		if (ret < 0)
			return ret;
		*later = true;
		if (ordered_has(&order->core, position) && position < least) {
			least = position;
			*ring = i;
		}
	}
	/* A mark that was passed over in front of the first segment. */
	if (open->n_events)
		return 0;
	switch (dfi__ordered_due(&order->core, least)) {
	case OPEN_DUE_NOTHING:
		return 0;
	case OPEN_DUE_SEGMENT:
		return 1;
	case OPEN_DUE_GAP:
		break;
	}
	return dfi__open_add_gap(open, least) ? 0 : 1;
}

static void note_delivered(struct target_order *order, struct taken *taken)
{
	taken->delivered = ++order->core.due;
	if (unlikely(atomic_peek(&order->hole_since)))
		atomic_set(&order->hole_since, 0);
}

/* Whether a segment that is due is a mark, or for a set of other targets. */
static bool is_passed(const struct reader *reader)
{
	return reader_is_at_mark(reader) || dfi__reader_passes(reader);
}

static int deliver(struct dfi_target *target, uint32_t i)
{
	struct open_target *open = open_target(target);
	struct taken *taken = &open->taken[i];
	int ret = dfi__target_input(taken->end);

	if (ret <= 0)
		return ret == -EAGAIN ? 0 : ret;
	ret = unlikely(!taken->counts)
	    ? dfi__target_order_passed(open, taken, open->order->core.due)
	    : 0;
	if (ret < 0)
		return ret;
	open_target_lend(target, taken->end, taken->seat);
	open->current = i;
	note_delivered(open->order, taken);
	return 1;
}

/* All of the last view is delivered. */
static void enter_next(struct open_target *open)
{
	bool ends = dfi__ordered_enter_next(&open->order->core);

	open->order->awaits = false;
	dfi__target_order_left(open);
	/* This one may have ended as well. */
	dfi__target_order_signal(open);
	if (ends)
		dfi__target_order_want_cut(open);
}

/* Whether a ring's mark is there, behind which there may be segments. */
static bool awaits_marks(const struct open_target *open)
{
	uint32_t i;

	for (i = 0; i < open_n_taken(open); i++)
		if (open->taken[i].end->readers[0].awaits_mark &&
		    !target_order_is_empty(&open->taken[i]))
			return true;
	return false;
}

/* find(), in the next view as well. An event may come before. */
static int find_due(struct dfi_target *target, uint32_t *ring, bool *later)
{
	struct open_target *open = open_target(target);
	int ret;

	/* A decided view is delivered from all rings at once. */
	if (open->order->core.next && awaits_marks(open))
		return 0;
	ret = find(target, ring, later);
	if (ret || !open->order->core.next || open->n_events)
		return ret;
	enter_next(open);
	return open->n_events ? 0 : find(target, ring, later);
}

/* What is due now: as take_from(). */
static int take_due(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	struct target_order *order = open->order;
	bool later = false;
	uint32_t i;
	int ret;

	if (!order->known || ordered_waits(&order->core))
		return 0;
	while ((ret = find_due(target, &i, &later)) > 0) {
		/*
		 * The helper may have taken its mark: the look tells of it
		 * first.
		 */
		if (!open->taken[i].joined)
			return 0;
		if (!is_passed(&open->taken[i].end->readers[0]))
			return deliver(target, i);
		ret = pass_over(open, &open->taken[i], order->core.due, true);
		note_delivered(order, &open->taken[i]);
		if (ret < 0 || open->n_events)
			return ret;
	}
	if (!ret && later && !open->n_events &&
	    !atomic_peek(&order->hole_since))
		atomic_set(&order->hole_since, clock_now_ns());
	return ret;
}

static int look(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	struct target_order *order = open->order;
	int ret = 0;

	if (!order->met) {
		order->met = calloc(
		    open->pairs.seats.n_before + 1, sizeof(order->met[0]));
		if (!order->met)
			return dfi__target_order_no_memory(target);
	}
	ret = look_at_all(target);
	if (ret < 0)
		return ret;
	ret = dfi__target_order_begin(open);
	if (ret < 0)
		return ret;
	if (order->core.begun)
		add_joined(open);
	if (order->core.begun)
		ret = dfi__target_order_learn(open);
	return ret < 0 ? ret : dfi__target_order_report(open);
}

int dfi__target_order_next(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	int ret;

	/* What an evicted target would deliver may be no part of the order. */
	if (target_lost(target))
		return 0;
	target_order_lock(open->order);
	ret = take_due(target);
	if (!ret)
		ret = look(target);
	if (!ret && !open->n_events)
		ret = take_due(target);
	target_order_unlock(open->order);
	return ret < 0 ? dfi__target_fail(target, ret) : ret;
}

bool dfi__target_order_ready(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	uint32_t i;

	for (i = 0; i < open_n_taken(open); i++)
		if (!open->taken[i].has_head &&
		    dfi__target_ready(open->taken[i].end))
			return true;
	return false;
}

int dfi__target_order_position(
    const struct dfi_target *target, uint64_t *position)
{
	const struct target_order *order = open_target(target)->order;

	*position = order->core.due;
	return order->core.begun ? 0 : -EAGAIN;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks at a target of an ordered open flow (K6 in docs/open-flows.md): what
 * raises the watermark has a place in the order, which is the same at all
 * targets. Only the owner calls these, with the lock of the order.
 */
#include "open_target_order.h"

#include <stdlib.h>
#include <dfi/mark.h>

static bool is_in_view(struct seat_watch *seats, uint64_t source)
{
	bool found = false;
	uint32_t i;

	pthread_mutex_lock(&seats->lock);
	for (i = 0; !found && i < seats->n_in_view; i++)
		found = seats->in_view[i] == source;
	pthread_mutex_unlock(&seats->lock);
	return found;
}

static int add(struct open_target *open, const struct order_marker *marker)
{
	struct target_order *order = open->order;
	struct order_marker *markers = order->markers;

	if (order->n_markers == order->markers_room) {
		markers = reallocarray(
		    markers, 2 * order->markers_room + 4, sizeof(*markers));
		if (!markers)
			return dfi__target_order_no_memory(open->target);
		order->markers = markers;
		order->markers_room = 2 * order->markers_room + 4;
	}
	order->markers[order->n_markers++] = *marker;
	dfi__marks_joined(open->target->marks, marker->seat);
	return 0;
}

/* The source counts from here on, if it did not. view: in which that is. */
static int count(struct open_target *open, struct taken *taken, uint64_t view)
{
	if (likely(taken->counts))
		return 0;
	taken->counts = true;
	return add(open,
	    &(struct order_marker){
		.source = taken->pair->incarnation,
		.view = view,
		.seat = taken->seat,
	    });
}

static void leave(struct open_target *open, uint32_t i)
{
	struct target_order *order = open->order;
	uint32_t seat = order->markers[i].seat;

	order->n_expected -= order->markers[i].is_expected;
	order->markers[i] = order->markers[--order->n_markers];
	if (dfi__open_watermark_ended(&open->target->marks->watermark, seat))
		dfi__open_risen(open);
}

/* The source's, or n_markers. */
static uint32_t find(const struct target_order *order, uint64_t source)
{
	uint32_t i = 0;

	while (i < order->n_markers && order->markers[i].source != source)
		i++;
	return i;
}

static void end(struct open_target *open, const struct taken *taken)
{
	uint32_t i = find(open->order, taken->pair->incarnation);

	if (i < open->order->n_markers)
		leave(open, i);
}

static void mark(
    struct open_target *open, const struct taken *taken, uint64_t value)
{
	if (value == DFI_NO_MARK)
		end(open, taken);
	else if (dfi__marks_marked(open->target->marks, taken->seat, value))
		dfi__open_risen(open);
}

int dfi__target_order_passed(
    struct open_target *open, struct taken *taken, uint64_t position)
{
	struct reader *reader = &taken->end->readers[0];
	uint64_t view = position / OPEN_VIEW_POSITIONS;
	bool has_mark = reader->has_mark;
	int ret;

	reader->has_mark = false;
	/* This target began in a later view, which the source has not seen. */
	if (unlikely(view < open->order->core.view) &&
	    !is_in_view(&open->pairs.seats, taken->pair->incarnation))
		return 0;
	ret = count(open, taken, view);
	if (!ret && has_mark)
		mark(open, taken, reader->marked);
	return ret;
}

void dfi__target_order_left(struct open_target *open)
{
	struct target_order *order = open->order;
	uint32_t i;

	for (i = order->n_markers; i-- > 0;)
		if (order->markers[i].view < order->core.view &&
		    !is_in_view(&open->pairs.seats, order->markers[i].source))
			leave(open, i);
}

/*
 * Under the lock of the pairs: those that were there before this target, and
 * have not said what they had sent, count with 0.
 */
static int expect(struct open_target *open)
{
	struct seat_watch *seats = &open->pairs.seats;
	struct order_marker marker = {
		.view = open->order->core.view,
		.is_expected = true,
	};
	uint32_t i;
	int ret = 0;

	for (i = 0; !ret && i < seats->n_before; i++) {
		marker.source = seats->before[i];
		if ((open->order->met && open->order->met[i]) ||
		    !dfi__seat_watch_finds(
			seats, OPEN_SOURCE, marker.source, &marker.seat))
			continue;
		ret = add(open, &marker);
		open->order->n_expected += !ret;
	}
	return ret;
}

/* The source of a ring has said it. */
static int meet(struct open_target *open, struct taken *taken)
{
	struct target_order *order = open->order;
	uint32_t i = find(order, taken->pair->incarnation);

	if (i == order->n_markers || !order->markers[i].is_expected)
		return taken->sent_before ? count(open, taken, taken->greeted)
					  : 0;
	taken->counts = taken->sent_before;
	if (!taken->counts) {
		leave(open, i);
		return 0;
	}
	order->markers[i].is_expected = false;
	order->n_expected--;
	return 0;
}

void dfi__target_order_retired(
    struct open_target *open, struct taken *taken, uint32_t type)
{
	/* It had no view for its last mark. */
	if (type == DFI_ENDED)
		end(open, taken);
	/* Without memory, this target's watermark may rise earlier. */
	else if (taken->marked && !taken->known)
		(void)meet(open, taken);
}

/* Those that have left unused do not say it. */
static void expect_fewer(struct open_target *open)
{
	struct seat_watch *seats = &open->pairs.seats;
	struct target_order *order = open->order;
	uint32_t i, seat;
	bool gone;

	for (i = order->n_markers; order->n_expected && i-- > 0;) {
		if (!order->markers[i].is_expected)
			continue;
		pthread_mutex_lock(&seats->lock);
		gone = !dfi__seat_watch_finds(seats, OPEN_SOURCE,
			   order->markers[i].source, &seat) &&
		    !dfi__target_order_has_ring(open, order->markers[i].source);
		pthread_mutex_unlock(&seats->lock);
		if (gone)
			leave(open, i);
	}
}

static int begin(struct open_target *open)
{
	int ret;

	pthread_mutex_lock(&open->pairs.seats.lock);
	ret = expect(open);
	pthread_mutex_unlock(&open->pairs.seats.lock);
	open->order->known = true;
	open->order->first = open->order->core.begin;
	return ret;
}

int dfi__target_order_learn(struct open_target *open)
{
	uint32_t i, n = open_n_taken(open);
	bool known = open->order->known;
	int ret = known ? 0 : begin(open);

	/* All before the first mark, which would raise the watermark else. */
	for (i = 0; !ret && i < n; i++)
		if (open->taken[i].marked && !open->taken[i].known)
			ret = meet(open, &open->taken[i]);
	for (i = 0; !ret && i < n; i++) {
		if (!open->taken[i].marked || open->taken[i].known)
			continue;
		open->taken[i].known = true;
		if (open->taken[i].mark)
			mark(open, &open->taken[i], open->taken[i].mark);
	}
	expect_fewer(open);
	if (!ret && !known)
		dfi__target_order_left(open);
	return ret;
}

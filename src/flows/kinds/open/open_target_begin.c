/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a target of an ordered open flow begins (J1 in docs/open-flows.md), and
 * what it has for the order.
 */
#include "open_target_order.h"

#include <stdlib.h>
#include "base/error.h"

struct target_order *dfi__target_order_new(void)
{
	struct target_order *order = calloc(1, sizeof(*order));

	if (order)
		pthread_mutex_init(&order->lock, NULL);
	return order;
}

void dfi__target_order_free(struct target_order *order)
{
	uint32_t i;

	if (!order)
		return;
	for (i = 0; i < 2; i++)
		dfi__shared_counter_destroy(&order->counters[i].counter);
	free(order->kept);
	free(order->gone);
	free(order->met);
	free(order->markers);
	free(order->report);
	pthread_mutex_destroy(&order->lock);
	free(order);
}

/* Where a counter was: the least of the newest view counts. */
static void note_count(struct target_order *order, uint64_t count)
{
	uint64_t view = count / OPEN_VIEW_POSITIONS;
	uint64_t newest = order->least / OPEN_VIEW_POSITIONS;

	if (view > newest || (view == newest && count < order->least))
		order->least = count;
}

int dfi__target_order_take_mark(struct dfi_target *target, struct taken *taken)
{
	struct open_target *open = open_target(target);
	const struct seat_watch *seats = &open->pairs.seats;
	struct target_order *order = open->order;
	bool was_there = false, missed;
	uint64_t before, mark = 0;
	uint32_t i;
	int ret = dfi__reader_global(&taken->end->readers[0], &mark);

	if (!order->met)
		order->met = calloc(seats->n_before + 1, sizeof(bool));
	if (!order->met)
		return dfi__target_order_no_memory(target);
	if (!ret)
		ret = dfi__open_target_take_mark(taken, &before);

	if (ret < 0)
		return ret;
	taken->marked = true;
	taken->sent_before = before || taken->mark;
	taken->greeted = mark / OPEN_VIEW_POSITIONS;
	missed = taken->sent_before;
	/* These are fixed once the target has its seat. */
	for (i = 0; i < seats->n_before; i++) {
		if (seats->before[i] != taken->pair->incarnation)
			continue;
		missed = order->met[i] && taken->sent_before;
		order->met[i] = was_there = true;
		if (mark > order->most)
			order->most = mark;
	}
	if (!was_there)
		note_count(order, mark);
	/* Its first ring has broken, with what it had sent to this target. */
	order->missed |= missed && !order->begun;
	if (missed && order->begun) {
		dfi__target_order_put_out(open);
		dfi__target_order_signal(open);
	}
	return 0;
}

bool dfi__target_order_has_ring(const struct open_target *open, uint64_t source)
{
	const struct pair *pair;
	uint32_t i;

	for (i = 0; i < open->pairs.seats.n_others * SEAT_PAIRS; i++) {
		pair = &open->pairs.of[i / SEAT_PAIRS].pair[i % SEAT_PAIRS];
		if (pair->incarnation == source && pair->state != PAIR_NONE &&
		    pair->state != PAIR_RETIRED)
			return true;
	}
	return false;
}

/*
 * J1: whether each source that was there before has said where it was. One that
 * has left without saying it may have been anywhere, so the view must end.
 */
static bool has_met_all(struct open_target *open, bool *never)
{
	struct seat_watch *seats = &open->pairs.seats;
	bool all = !open_views_is_cut(&seats->views) ||
	    seats->seats.begun < seats->views.cut_revision;
	uint32_t i, seat;

	for (i = 0; i < seats->n_before; i++) {
		if (open->order->met && open->order->met[i])
			continue;
		all = false;
		*never |= !dfi__seat_watch_finds(
			      seats, OPEN_SOURCE, seats->before[i], &seat) &&
		    !dfi__target_order_has_ring(open, seats->before[i]);
	}
	return all;
}

/*
 * Where to begin: at a number that the counter had after this target was there.
 * Those below are of sources that do not know it. Who takes this one or a later
 * one sends it to this target as well: a source that came later, from its first
 * one on; one that was there before, from its mark on.
 */
static void try_begin(struct open_target *open)
{
	struct seat_watch *seats = &open->pairs.seats;
	struct target_order *order = open->order;
	uint64_t begin = order->count;
	bool all, never = false;

	pthread_mutex_lock(&seats->lock);
	all = has_met_all(open, &never);
	pthread_mutex_unlock(&seats->lock);
	if (never || order->missed)
		dfi__target_order_want_cut(open);
	if (!all || order->missed)
		return;
	if (order->least / OPEN_VIEW_POSITIONS == order->view &&
	    order->least < begin)
		begin = order->least;
	if (order->most / OPEN_VIEW_POSITIONS == order->view)
		begin = order->most;
	order->due = order->begin = begin;
	order->begun = true;
}

int dfi__target_order_begin(struct open_target *open)
{
	struct target_order *order = open->order;
	struct taken *taken;
	uint32_t i;
	int ret = 0;

	if (order->begun || !order->view || order->counted != order->view)
		return 0;
	if (!order->met)
		order->met = calloc(
		    open->pairs.seats.n_before + 1, sizeof(order->met[0]));
	if (!order->met)
		return dfi__target_order_no_memory(open->target);
	/* Those that took numbers below the count are ready. */
	pthread_mutex_lock(&open->pairs.seats.lock);
	dfi__open_target_take_pairs(open);
	pthread_mutex_unlock(&open->pairs.seats.lock);
	for (i = 0; !ret && i < open_n_taken(open); i++) {
		taken = &open->taken[i];
		if (taken->end->readers[0].awaits_mark &&
		    !target_order_is_empty(taken))
			ret = dfi__target_order_take_mark(open->target, taken);
	}
	if (!ret)
		try_begin(open);
	return ret;
}

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
	dfi__ordered_free(&order->core);
	free(order->met);
	free(order->markers);
	free(order->report);
	pthread_mutex_destroy(&order->lock);
	free(order);
}

static struct ordered_before before_of(const struct open_target *open)
{
	const struct seat_watch *seats = &open->pairs.seats;

	return (struct ordered_before){
		.sources = seats->before,
		.met = open->order->met,
		.n = open->order->met ? seats->n_before : 0,
	};
}

int dfi__target_order_take_mark(struct dfi_target *target, struct taken *taken)
{
	struct open_target *open = open_target(target);
	const struct seat_watch *seats = &open->pairs.seats;
	struct target_order *order = open->order;
	struct ordered_before known;
	uint64_t before, mark = 0;
	int ret = dfi__reader_global(&taken->end->readers[0], &mark);

	/* Those that were there are fixed once the target has its seat. */
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
	known = before_of(open);
	if (dfi__ordered_met(&order->core, &known, taken->pair->incarnation,
		mark, taken->sent_before)) {
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

static bool has_ring(void *open, uint64_t source)
{
	return dfi__target_order_has_ring(open, source);
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
	struct ordered_before before = before_of(open);
	bool all, never;

	pthread_mutex_lock(&seats->lock);
	all = dfi__ordered_has_met_all(
	    &before, &seats->views, &seats->seats, has_ring, open, &never);
	pthread_mutex_unlock(&seats->lock);
	if (never || order->core.missed)
		dfi__target_order_want_cut(open);
	dfi__ordered_begin(&order->core, all);
}

int dfi__target_order_begin(struct open_target *open)
{
	struct target_order *order = open->order;
	struct taken *taken;
	uint32_t i;
	int ret = 0;

	if (order->core.begun || !order->core.view ||
	    order->core.counted != order->core.view)
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

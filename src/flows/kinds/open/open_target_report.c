/* SPDX-License-Identifier: Apache-2.0 */
/* What a target of an ordered open flow has of a view that has ended (O3). */
#include "open_target_order.h"

#include <stdlib.h>
#include "base/error.h"

/* The end of what has come from a source by now, or before it was lost. */
static int arrived_end(
    const struct target_order *order, const struct taken *taken, uint64_t *end)
{
	struct reader *reader = &taken->end->readers[0];
	uint64_t stop = reader->stop, last;
	int ret = 0;

	*end = target_order_end(order, taken);
	if (!target_lost(taken->end)) {
		if (!reader->slots && reader_ready(reader))
			ret = dfi__reader_find_slots(reader);
		stop = dfi__reader_arrived(reader);
	}
	if (ret < 0 || reader->seq == stop ||
	    (reader->awaits_mark && stop - reader->seq == 1))
		return ret;
	ret = dfi__reader_global_of(reader, stop - 1, &last);
	if (!ret && last >= *end)
		*end = last + 1;
	return ret;
}

/*
 * Under the lock: whether all that a source has sent before its flush has come,
 * or nothing more comes. A network may bring the news of the flush first. One
 * that has not begun lacks nothing.
 */
static int has_come(const struct open_target *open, const struct taken *taken)
{
	const struct open_note *flush = dfi__open_views_note(
	    &open->pairs.seats.views, OPEN_KEY_FLUSH, taken->pair->incarnation);
	uint64_t end, flushed;
	int ret;

	flushed = dfi__ordered_awaits(&open->order->core, flush);
	if (!flushed || target_lost(taken->end))
		return 1;
	dfi__target_settle(taken->end);
	ret = arrived_end(open->order, taken, &end);
	return ret < 0 ? ret : end >= flushed;
}

/* Under the lock: whether that is so of all. Errors of a damaged ring. */
static int have_come(struct open_target *open)
{
	uint32_t i;
	int ret = 1;

	for (i = 0; ret > 0 && i < open_n_taken(open); i++)
		ret = has_come(open, &open->taken[i]);
	open->order->awaits = !ret;
	return ret;
}

/* Add what has come of a source; one that has ended is not in doubt. */
static int add_share(const struct open_target *open, struct taken *taken,
    struct open_report *report)
{
	const struct open_note *flush = dfi__open_views_note(
	    &open->pairs.seats.views, OPEN_KEY_FLUSH, taken->pair->incarnation);
	struct open_share has = {
		.source = taken->pair->incarnation,
		.delivered = taken->delivered,
	};
	bool lost = target_lost(taken->end);
	int ret = 0;

	if (!flush && !lost)
		return 0;
	if (lost)
		ret = arrived_end(open->order, taken, &has.arrived);
	if (ret < 0)
		return ret;
	/* One that has flushed may have numbers of the next view. */
	taken->settled = !flush;
	report->shares[report->n_shares++] = dfi__ordered_share(
	    &open->order->core, flush, lost, &has);
	return 0;
}

/* Under the lock. */
static int make_report(struct open_target *open)
{
	struct target_order *order = open->order;
	struct open_report report;
	uint32_t i;
	int ret = 0;

	report.shares = calloc(
	    (size_t)open_n_taken(open) + order->core.n_gone + 1,
	    sizeof(report.shares[0]));
	if (!report.shares)
		return dfi__target_order_no_memory(open->target);
	dfi__ordered_report(&order->core, &report);
	for (i = 0; order->core.begun && !ret && i < open_n_taken(open); i++)
		ret = add_share(open, &open->taken[i], &report);
	free(order->report);
	order->report = ret < 0
	    ? NULL
	    : dfi__open_report_encode(&report, &order->report_size);
	free(report.shares);
	if (!order->report)
		return ret < 0 ? ret
			       : dfi__target_order_no_memory(open->target);
	order->report_view = order->core.view;
	dfi__ordered_reported(&order->core);
	/* The decision fills the hole. */
	atomic_set(&order->hole_since, 0);
	seat_watch_call(&open->pairs.seats);
	return 0;
}

/*
 * Under the lock: whether the helper is about to make a ring, which its source
 * may have used already, and left.
 */
static bool is_making(const struct pairs *pairs)
{
	uint32_t i;

	for (i = 0; i < pairs->seats.n_others * SEAT_PAIRS; i++)
		if (pairs->of[i / SEAT_PAIRS].pair[i % SEAT_PAIRS].state ==
		    PAIR_MAKING)
			return true;
	return false;
}

/*
 * Under the lock: whether the view has ended, and it is known what has come. A
 * target that is about to begin in it does so first, so that it misses nothing.
 */
static bool is_due(const struct open_target *open)
{
	const struct seat_watch *seats = &open->pairs.seats;

	return !is_making(&open->pairs) &&
	    dfi__ordered_reports(
		&open->order->core, &seats->views, &seats->seats);
}

int dfi__target_order_report(struct open_target *open)
{
	struct seat_watch *seats = &open->pairs.seats;
	struct target_order *order = open->order;
	bool due;
	int ret = 0;

	if (order->core.reported || !order->core.view)
		return 0;
	pthread_mutex_lock(&seats->lock);
	due = is_due(open);
	pthread_mutex_unlock(&seats->lock);
	if (due)
		ret = dfi__target_order_begin(open);
	if (!due || ret < 0)
		return ret;
	pthread_mutex_lock(&seats->lock);
	dfi__open_target_take_pairs(open);
	if (is_due(open))
		ret = have_come(open);
	if (ret > 0)
		ret = make_report(open);
	pthread_mutex_unlock(&seats->lock);
	return ret;
}

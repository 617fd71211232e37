/* SPDX-License-Identifier: Apache-2.0 */
/* What a target of an ordered open flow has of a view that has ended (O3). */
#include "open_target_order.h"

#include <stdlib.h>
#include "base/error.h"

/* Under the lock: whether each source that owes it has flushed. */
static bool have_flushed(const struct seat_watch *seats)
{
	const struct open_seat *at = seats->seats.seats[OPEN_SOURCE];
	uint32_t i;

	for (i = 0; i < seats->seats.n[OPEN_SOURCE]; i++, at++)
		if (at->holder.incarnation &&
		    at->revision < seats->views.cut_revision &&
		    !dfi__open_views_note(
			&seats->views, OPEN_KEY_FLUSH, at->holder.incarnation))
			return false;
	return true;
}

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

	flushed = flush ? open_view_end(open->order->view, flush->end) : 0;
	if (!flushed || target_lost(taken->end) || !open->order->begun)
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
	struct open_share *share = &report->shares[report->n_shares];
	uint64_t view = open->order->view, end;
	bool lost = target_lost(taken->end);
	int ret = 0;

	if (!flush && !lost)
		return 0;
	if (lost)
		ret = arrived_end(open->order, taken, &end);
	else
		end = flush->end;
	if (ret < 0)
		return ret;
	/* One that has flushed may have numbers of the next view. */
	taken->settled = !flush;
	report->n_shares++;
	*share = (struct open_share){
		.source = taken->pair->incarnation,
		.delivered = open_view_end(view, taken->delivered),
		.arrived = open_view_end(view, end),
	};
	return 0;
}

/* Under the lock. */
static int make_report(struct open_target *open)
{
	struct target_order *order = open->order;
	struct open_report report = { .begun = order->begun };
	uint32_t i;
	int ret = 0;

	report.shares = calloc((size_t)open_n_taken(open) + order->n_gone + 1,
	    sizeof(report.shares[0]));
	if (!report.shares)
		return dfi__target_order_no_memory(open->target);
	for (i = 0; order->begun && i < order->n_gone; i++) {
		report.shares[report.n_shares] = order->gone[i];
		report.shares[report.n_shares].delivered = open_view_end(
		    order->view, order->gone[i].delivered);
		report.shares[report.n_shares++].arrived = open_view_end(
		    order->view, order->gone[i].arrived);
	}
	for (i = 0; order->begun && !ret && i < open_n_taken(open); i++)
		ret = add_share(open, &open->taken[i], &report);
	free(order->report);
	order->report = ret < 0
	    ? NULL
	    : dfi__open_report_encode(&report, &order->report_size);
	free(report.shares);
	if (!order->report)
		return ret < 0 ? ret
			       : dfi__target_order_no_memory(open->target);
	order->report_view = order->view;
	order->n_reported = order->n_gone;
	order->reported = true;
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
	const struct open_views *views = &seats->views;
	uint32_t seat;

	return open_views_is_cut(views) &&
	    views->newest.number == open->order->view &&
	    seats->seats.begun < views->cut_revision && have_flushed(seats) &&
	    !is_making(&open->pairs) &&
	    (open->order->begun || open->order->counted == open->order->view ||
		!dfi__seat_watch_finds(
		    seats, OPEN_TARGET, views->newest.holder, &seat));
}

int dfi__target_order_report(struct open_target *open)
{
	struct seat_watch *seats = &open->pairs.seats;
	struct target_order *order = open->order;
	bool due;
	int ret = 0;

	if (order->reported || !order->view)
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

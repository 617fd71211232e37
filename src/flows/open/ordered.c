/* SPDX-License-Identifier: Apache-2.0 */
/* What a target of an ordered flow delivers, reports, and begins with. */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "flows/open/ordered.h"

void dfi__ordered_free(struct ordered_target *order)
{
	free(order->kept);
	free(order->gone);
}

/* ---- Views -------------------------------------------------------------- */

static void enter(struct ordered_target *order, uint64_t view)
{
	order->view = view;
	order->next = 0;
	order->reported = order->missed = false;
	order->n_gone = 0;
	if (order->begun)
		order->due = order->begin = open_view_first(view);
}

enum open_turn dfi__ordered_see(
    struct ordered_target *order, const struct open_view *view, uint64_t self)
{
	bool member = dfi__open_view_has(view, self);
	struct open_kept *kept;

	if (view->number <= order->view || view->number == order->next)
		return OPEN_TURN_NONE;
	if (!order->begun) {
		/* All sources of this view have a ring of each member. */
		order->begun = member;
		enter(order, view->number);
		return OPEN_TURN_ENTERED;
	}
	if (!member || !order->reported)
		return OPEN_TURN_OUT;
	kept = reallocarray(
	    order->kept, view->n_kept + 1, sizeof(order->kept[0]));
	if (!kept)
		return OPEN_TURN_NO_MEMORY;
	if (view->n_kept)
		memcpy(kept, view->kept, view->n_kept * sizeof(kept[0]));
	order->kept = kept;
	order->n_kept = view->n_kept;
	order->next = view->number;
	return OPEN_TURN_DECIDED;
}

bool dfi__ordered_enter_next(struct ordered_target *order)
{
	uint32_t n = order->n_gone - order->n_reported;

	if (n)
		memmove(order->gone, order->gone + order->n_reported,
		    n * sizeof(order->gone[0]));
	enter(order, order->next);
	/* Who was lost after the report was lost in the next view. */
	order->n_gone = n;
	return n > 0;
}

bool dfi__ordered_lose(
    struct ordered_target *order, const struct open_share *share)
{
	struct open_share *gone = order->gone;

	if (order->n_gone == order->gone_room) {
		gone = reallocarray(
		    gone, 2 * order->gone_room + 4, sizeof(*gone));
		if (!gone)
			return false;
		order->gone = gone;
		order->gone_room = 2 * order->gone_room + 4;
	}
	order->gone[order->n_gone++] = *share;
	return true;
}

/* ---- Delivering --------------------------------------------------------- */

enum open_due dfi__ordered_due(struct ordered_target *order, uint64_t least)
{
	if (least == order->due)
		return OPEN_DUE_SEGMENT;
	if (!order->next || least == UINT64_MAX || OPEN_BUG(NO_GAPS))
		return OPEN_DUE_NOTHING;
	order->due = least;
	return OPEN_DUE_GAP;
}

/* ---- Reports ------------------------------------------------------------ */

bool dfi__ordered_reports(const struct ordered_target *order,
    const struct open_views *views, const struct open_seats *seats)
{
	return open_views_is_cut(views) &&
	    views->newest.number == order->view &&
	    seats->begun < views->cut_revision &&
	    (dfi__open_views_debtor(views, seats, OPEN_SOURCE, 0) ==
		    seats->n[OPEN_SOURCE] ||
		OPEN_BUG(NO_FLUSH)) &&
	    (order->begun || order->counted == order->view ||
		!dfi__open_views_has_holder(views, seats));
}

uint64_t dfi__ordered_awaits(
    const struct ordered_target *order, const struct open_note *flush)
{
	return flush && order->begun && !OPEN_BUG(ON_ITS_WAY)
	    ? open_view_end(order->view, flush->end)
	    : 0;
}

struct open_share dfi__ordered_share(const struct ordered_target *order,
    const struct open_note *flush, bool lost, const struct open_share *has)
{
	uint64_t arrived = lost || OPEN_BUG(ON_ITS_WAY) ? has->arrived
							: flush->end;

	if (OPEN_BUG(REST_LOST))
		arrived = has->delivered;
	return (struct open_share){
		.source = has->source,
		.delivered = open_view_end(order->view, has->delivered),
		.arrived = open_view_end(order->view, arrived),
		.lost = lost,
	};
}

void dfi__ordered_report(
    const struct ordered_target *order, struct open_report *report)
{
	uint32_t i;

	report->begun = order->begun;
	report->joined = order->begun && order->came == order->view
	    ? order->begin
	    : 0;
	report->n_shares = order->begun ? order->n_gone : 0;
	for (i = 0; i < report->n_shares; i++) {
		struct open_share has = order->gone[i];

		/* It may have been lost before the target began. */
		has.arrived = max_u64(has.arrived, order->begin);
		report->shares[i] = dfi__ordered_share(order, NULL, true, &has);
	}
}

void dfi__ordered_reported(struct ordered_target *order)
{
	order->n_reported = order->n_gone;
	order->reported = true;
}

/* ---- Beginning ---------------------------------------------------------- */

/* Where a counter was: the least of the newest view counts. */
static void note_count(struct ordered_target *order, uint64_t count)
{
	uint64_t view = count / OPEN_VIEW_POSITIONS;
	uint64_t newest = order->least / OPEN_VIEW_POSITIONS;

	if (view > newest || (view == newest && count < order->least))
		order->least = count;
}

bool dfi__ordered_met(struct ordered_target *order,
    const struct ordered_before *before, uint64_t source, uint64_t mark,
    bool sent_before)
{
	bool was_there = false, missed = sent_before;
	uint32_t i;

	for (i = 0; i < before->n; i++) {
		if (before->sources[i] != source)
			continue;
		/* Its first ring may have broken, with what it had sent. */
		missed = before->met[i] && sent_before;
		before->met[i] = was_there = true;
	}
	if (was_there)
		order->most = max_u64(order->most, mark);
	else
		note_count(order, mark);
	order->missed |= missed && !order->begun;
	return missed && order->begun;
}

static bool is_attached(const struct open_seats *seats, uint64_t source)
{
	uint32_t i;

	for (i = 0; i < seats->n[OPEN_SOURCE]; i++)
		if (open_seat_is(seats, OPEN_SOURCE, i, source))
			return true;
	return false;
}

bool dfi__ordered_has_met_all(const struct ordered_before *before,
    const struct open_views *views, const struct open_seats *seats,
    bool (*has_ring)(void *arg, uint64_t source), void *arg, bool *never)
{
	bool all = !open_views_is_cut(views) ||
	    open_views_has_part(views, seats);
	uint32_t i;

	*never = false;
	for (i = 0; i < before->n; i++) {
		if (before->met[i])
			continue;
		all = false;
		*never |= !is_attached(seats, before->sources[i]) &&
		    !has_ring(arg, before->sources[i]);
	}
	return all;
}

void dfi__ordered_begin(struct ordered_target *order, bool has_met_all)
{
	uint64_t begin = order->count;

	/* The report of this view said that it has not begun. */
	if (!has_met_all || order->missed || order->reported)
		return;
	if (order->least / OPEN_VIEW_POSITIONS == order->view)
		begin = min_u64(begin, order->least);
	if (order->most / OPEN_VIEW_POSITIONS == order->view &&
	    !OPEN_BUG(BEGIN_AT_COUNT))
		begin = order->most;
	order->due = order->begin = begin;
	order->begun = true;
	order->came = order->view;
}

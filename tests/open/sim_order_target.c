/* SPDX-License-Identifier: Apache-2.0 */
/* A target of an ordered flow: as open_target_order.c and its like. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* ---- Rings --------------------------------------------------------------- */

static void join(struct sim_end *end, uint32_t seat, uint64_t source)
{
	struct sim_ordered_pair *pair = end->ot.pairs;
	unsigned i;

	for (i = 0; i < SIM_ORDERED_PAIRS && pair->ring; i++)
		pair++;
	if (i == SIM_ORDERED_PAIRS) {
		sim_fail(end->sim, "%s has too many pairs", sim_end_name(end));
		return;
	}
	*pair = (struct sim_ordered_pair){
		.ring = sim_ring_new(end->sim),
		.source = source,
		.stop = UINT64_MAX,
		.seat = seat,
		.due = true,
		.awaits_mark = true,
	};
	pair->ring->target = end;
}

static void want_cut(struct sim_end *end)
{
	end->ot.wants_cut = end->ot.core.view;
}

/* M5: what has come by now counts, and nothing more. */
static void part(struct sim_end *end, uint64_t source)
{
	struct sim_ordered_pair *pair = end->ot.pairs;
	struct sim_ring *ring;
	unsigned i;

	for (i = 0; i < SIM_ORDERED_PAIRS; i++, pair++) {
		ring = pair->ring;
		if (!ring || pair->source != source)
			continue;
		if (ring->arrived > ring->taken &&
		    sim_ring_at(ring, ring->arrived - 1)->kind == SIM_END)
			continue;
		pair->lost = true;
		pair->stop = ring->arrived;
		if (!pair->settled)
			want_cut(end);
	}
}

void sim_order_target_event(
    struct sim_end *end, uint32_t source, uint64_t incarnation, bool joined)
{
	if (joined)
		join(end, source, incarnation);
	else
		part(end, incarnation);
}

static uint64_t end_of(const struct sim_ordered_pair *pair)
{
	return pair->stop < pair->ring->arrived ? pair->stop
						: pair->ring->arrived;
}

static bool is_empty(const struct sim_ordered_pair *pair)
{
	return pair->ring->taken == end_of(pair);
}

static const struct sim_item *head_of(const struct sim_ordered_pair *pair)
{
	return sim_ring_at(pair->ring, pair->ring->taken);
}

static void pass_over(struct sim_ordered_pair *pair)
{
	pair->ring->credit = ++pair->ring->taken;
}

static bool has_ring(void *arg, uint64_t source)
{
	const struct sim_end *end = arg;
	unsigned i;

	for (i = 0; i < SIM_ORDERED_PAIRS; i++)
		if (end->ot.pairs[i].ring && end->ot.pairs[i].source == source)
			return true;
	return false;
}

/* Over a network segments come later, in each ring in their order. */
static bool arrive(struct sim_end *end)
{
	uint64_t i, first = sim_below(end->sim, SIM_ORDERED_PAIRS);
	struct sim_ring *ring;

	for (i = 0; i < SIM_ORDERED_PAIRS; i++) {
		ring = end->ot.pairs[(first + i) % SIM_ORDERED_PAIRS].ring;
		if (!ring || ring->arrived == ring->sent)
			continue;
		ring->arrived++;
		return true;
	}
	return false;
}

/* ---- Members and views --------------------------------------------------- */

static void put_out(struct sim_end *end)
{
	sim_trace(end->sim, "%s is out", sim_end_name(end));
	end->ot.is_out = true;
	end->sim->counts.outs++;
}

static void see(struct sim_end *end)
{
	struct sim_ordered_target *ot = &end->ot;
	unsigned i;

	if (!ot->knows_before) {
		ot->knows_before = true;
		for (i = 0; i < SIM_SOURCES; i++)
			if (end->seats.seats[OPEN_SOURCE][i].revision &&
			    end->seats.seats[OPEN_SOURCE][i].revision <
				end->seats.begun)
				ot->before[ot->n_before++] =
				    end->seats.seats[OPEN_SOURCE][i]
					.holder.incarnation;
	}
	switch (
	    dfi__ordered_see(&ot->core, &end->views.newest, end->incarnation)) {
	case OPEN_TURN_ENTERED:
		memset(ot->got, 0, sizeof(ot->got));
		break;
	case OPEN_TURN_OUT:
		sim_order_compare_part(end);
		put_out(end);
		break;
	case OPEN_TURN_NONE:
	case OPEN_TURN_DECIDED:
		break;
	case OPEN_TURN_NO_MEMORY:
		abort();
	}
}

static struct ordered_before before_of(struct sim_end *end)
{
	return (struct ordered_before){
		.sources = end->ot.before,
		.met = end->ot.met,
		.n = end->ot.n_before,
	};
}

/* ---- Looking at rings ---------------------------------------------------- */

static void take_marks(struct sim_end *end)
{
	struct sim_ordered_pair *pair = end->ot.pairs;
	struct ordered_before before = before_of(end);
	const struct sim_item *mark;
	unsigned i;

	for (i = 0; i < SIM_ORDERED_PAIRS; i++, pair++) {
		if (!pair->ring || !pair->awaits_mark || is_empty(pair))
			continue;
		mark = head_of(pair);
		pair->awaits_mark = false;
		/* It has ended before it met this target. */
		if (mark->kind == SIM_END)
			continue;
		if (dfi__ordered_met(&end->ot.core, &before, pair->source,
			mark->position, mark->table > 0))
			put_out(end);
		pass_over(pair);
	}
}

static void lose(struct sim_end *end, const struct sim_ordered_pair *pair)
{
	const struct ordered_target *core = &end->ot.core;
	struct open_share share = {
		.source = pair->source,
		.delivered = pair->delivered,
		.arrived = pair->delivered > core->begin ? pair->delivered
							 : core->begin,
	};

	if (pair->settled || (!core->begun && pair->awaits_mark))
		return;
	if (!dfi__ordered_lose(&end->ot.core, &share))
		abort();
}

static void look_at_ends(struct sim_end *end)
{
	struct sim_ordered_pair *pair = end->ot.pairs;
	unsigned i;

	for (i = 0; i < SIM_ORDERED_PAIRS; i++, pair++) {
		if (!pair->ring)
			continue;
		if (!is_empty(pair) && !pair->awaits_mark &&
		    head_of(pair)->kind == SIM_END) {
			pair->ring = NULL;
			continue;
		}
		if (!pair->lost)
			continue;
		if (!pair->settled)
			want_cut(end);
		if (is_empty(pair)) {
			lose(end, pair);
			pair->ring = NULL;
		}
	}
}

static void begin(struct sim_end *end)
{
	struct sim_ordered_target *ot = &end->ot;
	struct ordered_before before = before_of(end);
	bool never, all;

	if (ot->core.begun || !ot->core.view ||
	    ot->core.counted != ot->core.view)
		return;
	take_marks(end);
	all = dfi__ordered_has_met_all(
	    &before, &end->views, &end->seats, has_ring, end, &never);
	if (never || ot->core.missed)
		want_cut(end);
	dfi__ordered_begin(&ot->core, all);
	if (ot->core.begun)
		sim_trace(end->sim, "%s begins at %llu of view %llu",
		    sim_end_name(end),
		    (unsigned long long)(ot->core.begin % OPEN_VIEW_POSITIONS),
		    (unsigned long long)ot->core.view);
}

/* ---- Reports ------------------------------------------------------------- */

static uint64_t arrived_end(
    const struct sim_end *end, const struct sim_ordered_pair *pair)
{
	uint64_t begin = end->ot.core.begin, i = end_of(pair);
	uint64_t least = pair->delivered > begin ? pair->delivered : begin;
	const struct sim_item *item;

	while (i-- > pair->ring->taken) {
		item = sim_ring_at(pair->ring, i);
		if (item->kind == SIM_TUPLE)
			return item->position >= least ? item->position + 1
						       : least;
	}
	return least;
}

static const struct open_note *flush_of(
    const struct sim_end *end, const struct sim_ordered_pair *pair)
{
	return dfi__open_views_note(&end->views, OPEN_KEY_FLUSH, pair->source);
}

static bool have_come(const struct sim_end *end)
{
	const struct sim_ordered_pair *pair = end->ot.pairs;
	unsigned i;

	for (i = 0; i < SIM_ORDERED_PAIRS; i++, pair++)
		if (pair->ring && !pair->lost &&
		    arrived_end(end, pair) <
			dfi__ordered_awaits(&end->ot.core, flush_of(end, pair)))
			return false;
	return true;
}

static void make_report(struct sim_end *end)
{
	struct sim_ordered_target *ot = &end->ot;
	struct sim_ordered_pair *pair = ot->pairs;
	struct open_report report;
	unsigned i;

	report.shares = calloc(
	    SIM_ORDERED_PAIRS + ot->core.n_gone, sizeof(report.shares[0]));
	if (!report.shares)
		abort();
	dfi__ordered_report(&ot->core, &report);
	for (i = 0; ot->core.begun && i < SIM_ORDERED_PAIRS; i++, pair++) {
		const struct open_note *flush = flush_of(end, pair);
		struct open_share has = {
			.source = pair->source,
			.delivered = pair->delivered,
		};

		if (!pair->ring || (!flush && !pair->lost))
			continue;
		has.arrived = arrived_end(end, pair);
		pair->settled = !flush;
		report.shares[report.n_shares++] = dfi__ordered_share(
		    &ot->core, flush, pair->lost, &has);
	}
	free(ot->report);
	ot->report = dfi__open_report_encode(&report, &ot->report_size);
	free(report.shares);
	if (!ot->report)
		abort();
	ot->made_report = ot->core.view;
	dfi__ordered_reported(&ot->core);
}

/* O3 */
static void report(struct sim_end *end)
{
	struct sim_ordered_target *ot = &end->ot;

	if (ot->core.reported || !ot->core.view ||
	    !dfi__ordered_reports(&ot->core, &end->views, &end->seats))
		return;
	begin(end);
	if (dfi__ordered_reports(&ot->core, &end->views, &end->seats) &&
	    have_come(end))
		make_report(end);
}

static bool look(struct sim_end *end)
{
	take_marks(end);
	look_at_ends(end);
	begin(end);
	report(end);
	return false;
}

/* ---- Delivering ---------------------------------------------------------- */

/* The position of the next segment that counts: false: none. */
static bool next_of(struct sim_end *end, struct sim_ordered_pair *pair,
    const struct sim_item **item)
{
	while (pair->ring && !pair->awaits_mark && !is_empty(pair)) {
		*item = head_of(pair);
		if ((*item)->kind == SIM_END)
			return false;
		if (!ordered_leaves_out(
			&end->ot.core, pair->source, (*item)->position))
			return true;
		end->sim->counts.left_out += end->ot.core.next != 0;
		pass_over(pair);
	}
	return false;
}

static struct sim_ordered_pair *find(struct sim_end *end, uint64_t *least)
{
	struct ordered_target *core = &end->ot.core;
	struct sim_ordered_pair *found = NULL, *pair = end->ot.pairs;
	const struct sim_item *item;
	unsigned i;

	*least = UINT64_MAX;
	for (i = 0; i < SIM_ORDERED_PAIRS; i++, pair++) {
		if (!next_of(end, pair, &item))
			continue;
		if (item->position < core->due)
			sim_fail(end->sim,
			    "position %llu of view %llu comes to %s, which "
			    "is behind it",
			    (unsigned long long)(item->position %
				OPEN_VIEW_POSITIONS),
			    (unsigned long long)(item->position /
				OPEN_VIEW_POSITIONS),
			    sim_end_name(end));
		if (ordered_has(core, item->position) &&
		    item->position < *least) {
			*least = item->position;
			found = pair;
		}
	}
	return found;
}

static bool awaits_marks(const struct sim_end *end)
{
	const struct sim_ordered_pair *pair = end->ot.pairs;
	unsigned i;

	for (i = 0; i < SIM_ORDERED_PAIRS; i++, pair++)
		if (pair->ring && pair->awaits_mark && !is_empty(pair))
			return true;
	return false;
}

/* The segments of a source come in their order. */
static void take(struct sim_end *end, struct sim_ordered_pair *pair)
{
	const struct sim_item *item = head_of(pair);
	struct ordered_target *core = &end->ot.core;

	if (pair->last && item->table != pair->last + 1)
		sim_fail(end->sim,
		    "%s delivers segment %llu of source %u behind %llu",
		    sim_end_name(end), (unsigned long long)item->table,
		    pair->seat, (unsigned long long)pair->last);
	pair->last = item->table;
	sim_trace(end->sim, "%s delivers %llu of view %llu", sim_end_name(end),
	    (unsigned long long)(core->due % OPEN_VIEW_POSITIONS),
	    (unsigned long long)core->view);
	end->ot.got[core->due % OPEN_VIEW_POSITIONS % SIM_POSITIONS] = true;
	pair->delivered = ++core->due;
	pass_over(pair);
	end->sim->counts.delivered++;
}

static void enter_next(struct sim_end *end)
{
	sim_order_compare(end);
	memset(end->ot.got, 0, sizeof(end->ot.got));
	if (dfi__ordered_enter_next(&end->ot.core))
		want_cut(end);
}

static bool deliver(struct sim_end *end)
{
	struct ordered_target *core = &end->ot.core;
	struct sim_ordered_pair *pair;
	uint64_t least;

	if (!core->begun || end->ot.is_out || ordered_waits(core) ||
	    (core->next && awaits_marks(end)))
		return false;
	pair = find(end, &least);
	switch (dfi__ordered_due(core, least)) {
	case OPEN_DUE_SEGMENT:
	case OPEN_DUE_GAP:
		take(end, pair);
		return true;
	case OPEN_DUE_NOTHING:
		break;
	}
	if (!core->next || pair)
		return false;
	enter_next(end);
	return true;
}

/* ---- Errands ------------------------------------------------------------- */

static uint64_t newest(const struct sim_end *end)
{
	return end->views.newest.number;
}

static bool put_pairs(struct sim_end *end)
{
	struct sim_change change = { .there = true, .owner = end->number };
	struct sim_ordered_pair *pair = end->ot.pairs;
	unsigned i;

	for (i = 0; i < SIM_ORDERED_PAIRS; i++, pair++) {
		if (!pair->ring || !pair->due)
			continue;
		pair->due = false;
		if (pair->lost)
			continue;
		change.key.kind = OPEN_KEY_PAIR;
		change.key.target = end->seat;
		change.key.incarnation = end->incarnation;
		change.key.source = pair->seat;
		change.ring = pair->ring;
		change.source_incarnation = pair->source;
		sim_put(end->sim, &change);
		return true;
	}
	return false;
}

static bool cut(struct sim_end *end)
{
	struct sim_change change = { .there = true, .owner = SIM_ENDS };
	bool gone = !dfi__open_views_has_holder(&end->views, &end->seats);

	if (!newest(end) || open_views_is_cut(&end->views) ||
	    end->ot.cut >= newest(end) ||
	    (!gone &&
		(end->ot.wants_cut != newest(end) || SIM_BUG(ONLY_HOLDER))))
		return false;
	end->ot.cut = newest(end);
	change.key.kind = OPEN_KEY_CUT;
	change.key.number = newest(end);
	if (sim_key_is_there(end->sim, &change.key))
		return true;
	sim_trace(end->sim, "%s ends view %llu", sim_end_name(end),
	    (unsigned long long)newest(end));
	sim_put(end->sim, &change);
	return true;
}

static bool count(struct sim_end *end)
{
	struct ordered_target *core = &end->ot.core;

	if (!newest(end) || core->begun || core->counted == newest(end) ||
	    !dfi__open_views_has_holder(&end->views, &end->seats) ||
	    (open_views_is_cut(&end->views) &&
		!open_views_has_part(&end->views, &end->seats)))
		return false;
	core->count = sim_order_view(end->sim, newest(end))->counter;
	core->counted = newest(end);
	return true;
}

static bool publish(struct sim_end *end)
{
	struct sim_change change = { .there = true, .owner = end->number };
	struct sim_ordered_target *ot = &end->ot;

	if (!newest(end) || ot->made_report != newest(end) ||
	    ot->reported >= newest(end))
		return false;
	if (ot->reported) {
		change.key = (struct open_key){
			.kind = OPEN_KEY_REPORT,
			.number = ot->reported,
			.incarnation = end->incarnation,
		};
		sim_delete(end->sim, &change.key);
	}
	ot->reported = newest(end);
	change.key = (struct open_key){
		.kind = OPEN_KEY_REPORT,
		.number = newest(end),
		.incarnation = end->incarnation,
	};
	change.size = ot->report_size;
	change.bytes = sim_bytes(end->sim, ot->report, ot->report_size);
	sim_put(end->sim, &change);
	end->sim->counts.reports++;
	return true;
}

/* Whether all that have to report have done so. */
static bool may_decide(const struct sim_end *end)
{
	if (!newest(end))
		return true;
	if (!open_views_is_cut(&end->views) || end->ot.decided >= newest(end))
		return false;
	if (OPEN_BUG(FIRST_REPORT))
		return end->ot.reported == newest(end);
	return dfi__open_views_debtor(
		   &end->views, &end->seats, OPEN_TARGET, 0) == SIM_TARGETS;
}

/* O4: create the next view, unless another target has. */
static bool decide(struct sim_end *end)
{
	struct sim_change change = { .there = true, .owner = SIM_ENDS };
	struct open_view view = {
		.number = newest(end) + 1,
		.holder = end->incarnation,
	};
	struct open_key last = { .number = newest(end) };
	uint8_t *value;

	if (!may_decide(end))
		return false;
	end->ot.decided = newest(end);
	change.key.kind = OPEN_KEY_VIEW;
	change.key.number = view.number;
	if (sim_key(end->sim, &change.key))
		return false;
	if (!dfi__open_views_decide(&end->views, &end->seats, &view))
		abort();
	value = dfi__open_view_encode(&view, &change.size);
	if (!value)
		abort();
	change.bytes = sim_bytes(end->sim, value, change.size);
	sim_trace(end->sim, "%s begins view %llu with %u members",
	    sim_end_name(end), (unsigned long long)view.number, view.n_members);
	free(value);
	dfi__open_view_free(&view);
	sim_order_begin_view(end->sim, view.number);
	sim_put(end->sim, &change);
	last.kind = OPEN_KEY_CUT;
	sim_delete(end->sim, &last);
	last.kind = OPEN_KEY_VIEW;
	sim_delete(end->sim, &last);
	return true;
}

/* It gives its seat up, as it is no member; or it closes. */
static bool leave(struct sim_end *end)
{
	struct open_key key = sim_seat_key(OPEN_TARGET, end->seat);

	if ((!end->ot.is_out && !end->leaving) ||
	    !sim_is_attached(end->sim, end))
		return false;
	if (!end->ot.is_out)
		sim_end_put_seat(end, true, true);
	sim_delete(end->sim, &key);
	sim_end_over(end, end->ot.is_out ? "it is out" : "it has closed");
	return true;
}

void sim_order_target_act(struct sim_end *end)
{
	static bool (*const acts[])(struct sim_end * end) = { arrive, look,
		deliver, deliver, put_pairs, cut, count, publish, decide,
		leave };
	enum {
		N = sizeof(acts) / sizeof(acts[0])
	};
	uint64_t i, first = sim_below(end->sim, N);

	if (!end->ot.is_out)
		see(end);
	for (i = 0; i < N && end->life != SIM_OVER; i++)
		if (acts[(first + i) % N](end))
			return;
}

bool sim_order_target_is_drained(const struct sim_end *end)
{
	unsigned i;

	for (i = 0; i < SIM_ORDERED_PAIRS; i++)
		if (end->ot.pairs[i].ring)
			return false;
	return !end->ot.is_out && !end->ot.core.next &&
	    !open_views_is_cut(&end->views);
}

void sim_order_target_free(struct sim_end *end)
{
	dfi__ordered_free(&end->ot.core);
	free(end->ot.report);
}

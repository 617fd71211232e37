/* SPDX-License-Identifier: Apache-2.0 */
/* A source of an ordered flow: as open_order.c in src/flows/kinds/open. */
#include "sim.h"

void sim_order_source_event(struct sim_end *end, uint32_t target, bool joined)
{
	if (!joined)
		end->os.rings[target] = NULL;
}

/* An evicted target may say so late. */
void sim_order_source_pair(struct sim_end *end, const struct sim_change *change)
{
	if (change->source_incarnation == end->incarnation &&
	    open_seat_is(&end->seats, OPEN_TARGET, change->key.target,
		change->key.incarnation))
		end->os.rings[change->key.target] = change->ring;
}

static bool is_over(const struct sim_end *end)
{
	return dfi__open_views_is_over(&end->views, &end->seats);
}

static bool is_greeted(const struct sim_ring *ring)
{
	return ring->sent > 0;
}

/* J1: tell a target that is new where the counter is. */
static bool greet(struct sim_end *end)
{
	struct sim_ordered_source *os = &end->os;
	struct sim_item mark = { .kind = SIM_MARK, .table = os->n_sent };
	uint64_t i, first = sim_below(end->sim, SIM_TARGETS);
	struct sim_ring *ring;

	if (!os->view || os->sends || is_over(end))
		return false;
	for (i = 0; i < SIM_TARGETS; i++) {
		ring = os->rings[(first + i) % SIM_TARGETS];
		if (!ring || is_greeted(ring))
			continue;
		mark.position = sim_order_view(end->sim, os->view)->counter;
		sim_trace(end->sim, "%s greets %s at %llu", sim_end_name(end),
		    sim_end_name(ring->target),
		    (unsigned long long)mark.position % OPEN_VIEW_POSITIONS);
		sim_ring_send(ring, &mark);
		return true;
	}
	return false;
}

/* Whether it may take and send numbers: each that has to get all is there. */
static bool is_complete(const struct sim_end *end)
{
	const struct sim_ordered_source *os = &end->os;
	bool any = false;
	uint32_t t;

	if (!os->view || os->view != end->views.newest.number || is_over(end))
		return false;
	for (t = 0; t < SIM_TARGETS; t++) {
		const struct sim_ring *ring = os->rings[t];

		if (dfi__open_views_needs(&end->views, &end->seats, t) &&
		    (!ring ||
			!open_seat_is(&end->seats, OPEN_TARGET, t,
			    ring->target->incarnation)))
			return false;
		if (ring && !is_greeted(ring))
			return false;
		any |= ring != NULL;
	}
	return any;
}

static bool have_room(const struct sim_end *end)
{
	uint32_t t;

	for (t = 0; t < SIM_TARGETS; t++)
		if (end->os.rings[t] &&
		    !sim_ring_has_room(end->sim, end->os.rings[t]))
			return false;
	return true;
}

static bool draw(struct sim_end *end)
{
	struct sim_ordered_source *os = &end->os;
	struct sim_view *view = sim_order_view(end->sim, os->view);

	if (os->has_number || os->sends || !is_complete(end) ||
	    !have_room(end) ||
	    end->sim->pushed[end->seat] >= end->sim->plan.n_input)
		return false;
	os->number = view->counter++;
	os->has_number = true;
	if (os->number % OPEN_VIEW_POSITIONS >= SIM_POSITIONS)
		sim_fail(end->sim, "numbers rise without end");
	sim_trace(end->sim, "%s takes number %llu of view %llu",
	    sim_end_name(end),
	    (unsigned long long)(os->number % OPEN_VIEW_POSITIONS),
	    (unsigned long long)os->view);
	return true;
}

/* A number has one segment. */
static void note_sender(struct sim_end *end)
{
	uint64_t number = end->os.number;
	struct sim_view *view = sim_order_view(
	    end->sim, number / OPEN_VIEW_POSITIONS);
	uint64_t *sender = &view->sender[number % OPEN_VIEW_POSITIONS];

	if (*sender && *sender != end->incarnation)
		sim_fail(end->sim, "position %llu of view %llu is given twice",
		    (unsigned long long)(number % OPEN_VIEW_POSITIONS),
		    (unsigned long long)(number / OPEN_VIEW_POSITIONS));
	*sender = end->incarnation;
	view->segment[number % OPEN_VIEW_POSITIONS] = end->os.n_sent + 1;
}

static bool begin_to_send(struct sim_end *end)
{
	struct sim_ordered_source *os = &end->os;
	uint32_t t;

	if (!os->has_number || os->sends || !is_complete(end))
		return false;
	note_sender(end);
	os->sends = true;
	os->next_target = 0;
	for (t = 0; t < SIM_TARGETS; t++)
		os->to[t] = os->rings[t];
	return true;
}

/* One ring, or the end. */
static bool send_on(struct sim_end *end)
{
	struct sim_ordered_source *os = &end->os;
	struct sim_item item = {
		.kind = SIM_TUPLE,
		.position = os->number,
		.table = os->n_sent + 1,
	};

	if (!os->sends)
		return false;
	while (os->next_target < SIM_TARGETS) {
		uint32_t t = os->next_target++;

		if (!os->to[t] || os->to[t] != os->rings[t])
			continue;
		sim_ring_send(os->to[t], &item);
		return true;
	}
	os->sends = os->has_number = false;
	os->end = os->number + 1;
	os->n_sent++;
	end->sim->pushed[end->seat]++;
	end->sim->counts.segments++;
	return true;
}

static void put(struct sim_end *end, enum open_key_kind kind, uint64_t view,
    unsigned owner, uint64_t value)
{
	struct sim_change change = { .there = true, .owner = owner };

	change.key.kind = kind;
	change.key.number = view;
	if (kind == OPEN_KEY_FLUSH)
		change.key.incarnation = end->incarnation;
	open_put_number(change.value, value, sizeof(value));
	if (!sim_key_is_there(end->sim, &change.key))
		sim_put(end->sim, &change);
}

/* O2 */
static bool flush(struct sim_end *end)
{
	struct sim_ordered_source *os = &end->os;
	uint64_t view = end->views.newest.number;

	if (!view || os->flushed >= view ||
	    !open_views_has_part(&end->views, &end->seats) ||
	    (os->sends && !SIM_BUG(FLUSH_FIRST)))
		return false;
	if (!os->sends)
		os->view = 0;
	os->flushed = view;
	sim_trace(end->sim, "%s flushes view %llu", sim_end_name(end),
	    (unsigned long long)view);
	put(end, OPEN_KEY_FLUSH, view, end->number,
	    open_view_end(view, os->end));
	end->sim->counts.flushes++;
	return true;
}

static bool enter(struct sim_end *end)
{
	struct sim_ordered_source *os = &end->os;
	struct open_key key = { .kind = OPEN_KEY_FLUSH,
		.number = os->flushed,
		.incarnation = end->incarnation };
	uint64_t view = end->views.newest.number;

	if (!view || open_views_is_cut(&end->views) || os->view == view ||
	    os->sends)
		return false;
	os->view = view;
	if (!SIM_BUG(KEEPS_NUMBER))
		os->has_number = false;
	if (os->flushed)
		sim_delete(end->sim, &key);
	os->flushed = 0;
	return true;
}

/* O1: its way to the counter breaks, or its owner leaves a number unused. */
static bool cut(struct sim_end *end)
{
	struct sim *sim = end->sim;

	if (!sim->plan.breaks || sim->calm || !end->os.view ||
	    end->os.view != end->views.newest.number ||
	    open_views_is_cut(&end->views) || !sim_chance(sim, 2))
		return false;
	sim_trace(sim, "%s ends view %llu", sim_end_name(end),
	    (unsigned long long)end->os.view);
	put(end, OPEN_KEY_CUT, end->os.view, SIM_ENDS, 0);
	return true;
}

static bool is_there(const struct sim_end *end)
{
	uint32_t t;

	for (t = 0; t < SIM_TARGETS; t++)
		if (end->os.rings[t] &&
		    end->os.rings[t]->arrived < end->os.rings[t]->sent)
			return false;
	return true;
}

/* Its end is in each ring; then it gives its seat back. */
static bool finish(struct sim_end *end)
{
	static const struct sim_item item = { .kind = SIM_END };
	struct sim_ordered_source *os = &end->os;
	struct open_key key = sim_seat_key(OPEN_SOURCE, end->seat);
	struct sim *sim = end->sim;
	uint32_t t;

	if (sim->pushed[end->seat] < sim->plan.n_input || os->sends ||
	    !sim_is_attached(sim, end) || !have_room(end) || !is_there(end))
		return false;
	/* Others wait for a number that nobody sends. */
	if (os->has_number && os->view)
		put(end, OPEN_KEY_CUT, os->view, SIM_ENDS, 0);
	for (t = 0; t < SIM_TARGETS; t++)
		if (os->rings[t])
			sim_ring_send(os->rings[t], &item);
	for (t = 0; t < SIM_TARGETS; t++)
		if (os->rings[t])
			os->rings[t]->arrived = os->rings[t]->sent;
	sim->ended[end->seat] = end->done = true;
	sim_end_put_seat(end, false, true);
	sim_delete(sim, &key);
	sim_end_over(end, "it has ended");
	return true;
}

void sim_order_source_act(struct sim_end *end)
{
	static bool (*const acts[])(struct sim_end * end) = { greet, draw,
		begin_to_send, send_on, send_on, flush, enter, cut, finish };
	enum {
		N = sizeof(acts) / sizeof(acts[0])
	};
	uint64_t i, first = sim_below(end->sim, N);

	for (i = 0; i < N; i++)
		if (acts[(first + i) % N](end))
			return;
}

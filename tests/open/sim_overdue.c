/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target evicts who holds up a hand-over for longer than its bound. Checked
 * here: nobody is evicted who has done its part, or before the bound, and
 * nobody holds up others for longer.
 */
#include "sim.h"

/* What a change takes to be seen and acted on by one that runs. */
static uint64_t slack(const struct sim *sim)
{
	return 20 * (sim->plan.lag + sim->plan.step);
}

static void see_table(struct sim_end *end)
{
	uint64_t table = end->tables.newest.number;

	if (end->t.seen_table == table)
		return;
	end->t.seen_table = table;
	end->t.seen_at = end->sim->now;
	end->t.seen_ran = sim_end_ran(end);
	end->t.seen_stops = end->n_stops;
}

/* ---- The judge ----------------------------------------------------------- */

/* Who evicts has waited itself: a stop counts as a look at most. */
static void check_waited(struct sim_end *end, unsigned halves)
{
	uint64_t limit = end->sim->plan.handover;
	uint64_t stops = end->n_stops - end->t.seen_stops;
	uint64_t ran = sim_end_ran(end) - end->t.seen_ran;

	if (ran + (stops + 1) * limit / OPEN_OVERDUE_LOOKS < halves * limit / 2)
		sim_fail(end->sim,
		    "%s evicts somebody when it has waited for %llu",
		    sim_end_name(end), (unsigned long long)ran);
}

static bool has_bit(uint64_t bits, uint32_t p)
{
	return bits >> p & 1;
}

/* What the registry knows now, and not what the evictor does. */
static bool has_done_its_part(struct sim_end *end, struct sim_end *victim)
{
	const struct open_table *table = &end->tables.newest;
	struct open_key next = { .kind = OPEN_KEY_TABLE };
	struct open_key key = { .kind = OPEN_KEY_HAND };
	uint64_t released = 0, taken = 0;
	struct open_hand hand = { 0 };
	struct sim_change *last;
	uint32_t p;

	next.number = table->number + 1;
	if (sim_key(end->sim, &next))
		return true;
	key.target = victim->seat;
	key.incarnation = victim->incarnation;
	last = sim_key(end->sim, &key);
	if (last && last->there)
		dfi__open_hand_decode(last->value,
		    dfi__open_hand_bytes(SIM_PARTITIONS), SIM_PARTITIONS,
		    &released, &taken, &hand);
	if (hand.table != table->number)
		return false;
	for (p = 0; p < SIM_PARTITIONS; p++)
		if (open_table_moves(table, p) &&
		    ((table->from[p] == victim->seat &&
			 !has_bit(released, p)) ||
			(table->owners[p] == victim->seat &&
			    !has_bit(taken, p))))
			return false;
	return true;
}

/* Somebody else who holds the newest table up. */
static bool is_held_up(struct sim_end *end)
{
	uint32_t seat;

	for (seat = 0; seat < SIM_TARGETS; seat++)
		if (seat != end->seat &&
		    dfi__open_holds_up(&end->tables, &end->seats, seat))
			return true;
	return false;
}

static void check_bound(struct sim_end *end)
{
	struct sim *sim = end->sim;
	uint64_t waited = sim->now - end->t.seen_at;

	if (!end->t.seen_table || !end->seats.begun ||
	    end->n_stops != end->t.seen_stops ||
	    waited <= 2 * sim->plan.handover + slack(sim) || !is_held_up(end) ||
	    !sim_is_attached(sim, end))
		return;
	/* Its own part may have come late. */
	if (dfi__open_holds_up(&end->tables, &end->seats, end->seat))
		return;
	sim_fail(sim, "%s has waited for %llu for others to hand over",
	    sim_end_name(end), (unsigned long long)waited);
}

/* ---- Evicting ------------------------------------------------------------ */

/* Who has that seat, as this target knows; NULL: nobody any more. */
static struct sim_end *find(
    struct sim_end *end, enum open_role role, uint32_t seat)
{
	struct sim *sim = end->sim;
	uint64_t incarnation = end->seats.seats[role][seat].holder.incarnation;
	unsigned i;

	for (i = 0; i < sim->n_ends; i++)
		if (sim->ends[i]->incarnation == incarnation &&
		    sim_is_attached(sim, sim->ends[i]))
			return sim->ends[i];
	return NULL;
}

static void evict(struct sim_end *victim)
{
	sim_trace(victim->sim, "%s is overdue", sim_end_name(victim));
	victim->sim->counts.overdue++;
	sim_end_evict(victim);
}

/* The note comes before the eviction, and brings all that came before. */
static bool look_again(struct sim_end *end)
{
	if (!SIM_BUG(NO_LOOK))
		sim_end_catch_up(end);
	return end->life == SIM_UP;
}

static void evict_source(struct sim_end *end, uint32_t seat)
{
	const struct sim_pair *pair = &end->t.pairs[end->t.queue[seat][0]];
	struct sim_end *victim = find(end, OPEN_SOURCE, seat);
	bool empty = pair->ring->taken == pair->ring->sent;
	uint64_t table = end->tables.newest.number;

	if (!victim ||
	    (!SIM_BUG(BUSY_RING) &&
		(!empty || !sim_ring_has_room(end->sim, pair->ring))))
		return;
	if (!look_again(end) || end->tables.newest.number != table ||
	    !dfi__open_target_misses(&end->t.core, seat))
		return;
	check_waited(end, 1);
	if (!empty)
		sim_fail(end->sim, "%s is evicted, and its ring is not empty",
		    sim_end_name(victim));
	evict(victim);
}

static void evict_target(struct sim_end *end, uint32_t seat)
{
	struct sim_end *victim = find(end, OPEN_TARGET, seat);
	uint64_t table = end->tables.newest.number;

	if (!victim || !look_again(end) || end->tables.newest.number != table ||
	    !dfi__open_holds_up(&end->tables, &end->seats, seat))
		return;
	check_waited(end, 2);
	if (has_done_its_part(end, victim))
		sim_fail(end->sim, "%s is evicted, and has done its part",
		    sim_end_name(victim));
	evict(victim);
}

void sim_target_evict_overdue(struct sim_end *end)
{
	int64_t now = (int64_t)end->sim->now;
	int64_t limit = (int64_t)end->sim->plan.handover;
	bool releases = false;
	uint32_t seat = 0;

	if (!limit || end->sim->plan.routing)
		return;
	see_table(end);
	check_bound(end);
	while (end->life == SIM_UP &&
	    dfi__open_overdue_source(
		&end->t.overdue, &end->t.core, now, limit, &seat))
		evict_source(end, seat++);
	if (end->life == SIM_UP &&
	    dfi__open_overdue_target(
		&end->t.overdue, &end->t.core, now, limit, &seat, &releases))
		evict_target(end, seat);
}

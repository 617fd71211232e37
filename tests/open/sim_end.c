/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint: it gets a snapshot, then changes in order, and acts in between.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

const char *sim_end_name(const struct sim_end *end)
{
	static char name[4][32];
	static unsigned i;

	i = (i + 1) % 4;
	snprintf(name[i], sizeof(name[i]), "%s %u (%llu)",
	    end->role == OPEN_SOURCE ? "source" : "target", end->seat,
	    (unsigned long long)end->incarnation);
	return name[i];
}

void sim_end_lose(struct sim_end *end)
{
	if (end->sim->plan.ordered)
		return;
	if (end->role == OPEN_SOURCE)
		sim_source_lose(end);
	else
		sim_target_lose(end);
}

void sim_end_evict(struct sim_end *end)
{
	struct open_key key = sim_seat_key(end->role, end->seat);

	if (!sim_is_attached(end->sim, end))
		return;
	sim_trace(end->sim, "%s is evicted", sim_end_name(end));
	end->sim->counts.evicted++;
	sim_end_lose(end);
	sim_delete(end->sim, &key);
	/* It looks at the registry late. */
	end->look_at += sim_below(end->sim, 40 * end->lag);
}

void sim_end_evict_late(struct sim_end *end)
{
	struct sim *sim = end->sim;
	unsigned i;

	for (i = 0; SIM_BUG(ANY_HOLDER) && i < sim->n_ends; i++) {
		if (sim->ends[i] == end || sim->ends[i]->role != end->role ||
		    sim->ends[i]->seat != end->seat ||
		    !sim_is_attached(sim, sim->ends[i]))
			continue;
		sim_fail(sim, "the eviction of %s hits %s", sim_end_name(end),
		    sim_end_name(sim->ends[i]));
		return;
	}
	sim_end_evict(end);
}

void sim_end_over(struct sim_end *end, const char *why)
{
	sim_trace(end->sim, "%s is over: %s", sim_end_name(end), why);
	sim_end_lose(end);
	end->life = SIM_OVER;
}

static void learn(struct sim_end *end)
{
	if (end->sim->plan.ordered)
		return;
	if (end->role == OPEN_SOURCE)
		sim_source_learn(end);
	else
		sim_target_learn(end);
}

static void see_ordered(struct sim_end *end, const struct open_event *event)
{
	bool joined = event->type == OPEN_JOINED;

	if (!joined && event->type != OPEN_LOST && event->type != OPEN_ENDED)
		return;
	if (end->role == OPEN_SOURCE && event->role == OPEN_TARGET)
		sim_order_source_event(end, event->seat, joined);
	else if (end->role == OPEN_TARGET && event->role == OPEN_SOURCE)
		sim_order_target_event(
		    end, event->seat, event->incarnation, joined);
}

/* A key of views. */
static void see_view(struct sim_end *end, const struct sim_change *change)
{
	bool has_bytes = change->bytes != NULL;

	if (change->there)
		dfi__open_views_see(&end->views, &change->key,
		    has_bytes ? change->bytes : change->value,
		    has_bytes ? change->size : sizeof(uint64_t),
		    change->revision);
}

static void see_seat(struct sim_end *end, const struct sim_change *change)
{
	enum open_role role = change->key.kind == OPEN_KEY_SOURCE ? OPEN_SOURCE
								  : OPEN_TARGET;
	uint32_t i,
	    seat = role == OPEN_SOURCE ? change->key.source
				       : change->key.target;
	struct open_events events;

	if (change->there)
		dfi__open_seats_put(&end->seats, role, seat, &change->holder,
		    change->revision, &events);
	else
		dfi__open_seats_delete(&end->seats, role, seat, &events);
	for (i = 0; i < events.n; i++) {
		if (end->seats.evicted)
			return;
		if (end->sim->plan.ordered)
			see_ordered(end, &events.event[i]);
		else if (end->role == OPEN_SOURCE)
			sim_source_event(end, &events.event[i]);
		else
			sim_target_event(end, &events.event[i]);
	}
}

static void see(struct sim_end *end, const struct sim_change *change)
{
	struct open_hand hand;
	uint64_t released, taken;
	uint16_t assigned[SIM_PARTITIONS];

	switch (change->key.kind) {
	case OPEN_KEY_SOURCE:
	case OPEN_KEY_TARGET:
		see_seat(end, change);
		break;
	case OPEN_KEY_LEAVE: /* here the key of the seat says it */
		break;
	case OPEN_KEY_CUT:
	case OPEN_KEY_FLUSH:
	case OPEN_KEY_REPORT:
	case OPEN_KEY_VIEW:
		see_view(end, change);
		break;
	case OPEN_KEY_GIVEN_UP:
		if (change->there)
			dfi__open_seats_give_up(
			    &end->seats, change->key.source, change->revision);
		break;
	case OPEN_KEY_HAND:
		if (change->there &&
		    dfi__open_hand_decode(change->value,
			dfi__open_hand_bytes(SIM_PARTITIONS), SIM_PARTITIONS,
			&released, &taken, &hand))
			dfi__open_tables_hand(&end->tables, &hand);
		break;
	case OPEN_KEY_TABLE:
		if (change->there) {
			change->table->table.revision = change->revision;
			dfi__open_tables_put(
			    &end->tables, &change->table->table);
		} else {
			dfi__open_tables_delete(
			    &end->tables, change->key.number);
		}
		break;
	case OPEN_KEY_PAIR:
		if (end->role == OPEN_SOURCE && change->there &&
		    end->sim->plan.ordered)
			sim_order_source_pair(end, change);
		else if (end->role == OPEN_SOURCE && change->there)
			sim_source_pair(end, change);
		break;
	case OPEN_KEY_ASSIGN:
		dfi__open_assign_decode(change->value,
		    dfi__open_assign_bytes(SIM_PARTITIONS), SIM_PARTITIONS,
		    assigned);
		dfi__open_tables_assign(
		    &end->tables, change->there ? assigned : NULL);
		break;
	}
	if (end->seats.evicted)
		sim_end_over(end, "it is evicted");
	else
		learn(end);
}

/* What is there, in the order of the keys; the kinds are in that order. */
static void see_snapshot(struct sim_end *end)
{
	struct sim *sim = end->sim;
	int kind;
	unsigned i;

	for (kind = OPEN_KEY_ASSIGN; kind <= OPEN_KEY_VIEW; kind++)
		for (i = 0; i < sim->n_keys; i++)
			if (sim->keys[i]->key.kind == (unsigned)kind &&
			    sim->keys[i]->there)
				see(end, sim->keys[i]);
	end->change = sim->n_changes;
}

/* H3: what the store knows, and some know of others. */
static uint64_t highest_epoch(struct sim *sim)
{
	uint64_t epoch = sim_chance(sim, 20) ? sim_below(sim, 100) : 0;
	uint32_t p;

	for (p = 0; p < SIM_PARTITIONS; p++)
		if (sim->epochs[p] > epoch)
			epoch = sim->epochs[p];
	return epoch;
}

struct sim_end *sim_end_start(
    struct sim *sim, enum open_role role, uint32_t seat)
{
	struct sim_end *end;

	if (sim->n_ends == SIM_ENDS)
		return NULL;
	end = calloc(1, sizeof(*end));
	if (!end)
		abort();
	end->sim = sim;
	end->number = sim->n_ends;
	end->role = role;
	end->seat = seat;
	end->incarnation = 100 + sim->n_ends;
	end->life = SIM_UP;
	if (role == OPEN_TARGET)
		end->store_epoch = highest_epoch(sim);
	sim->ends[sim->n_ends++] = end;
	end->lag = 1 + sim_below(sim, sim->plan.lag);
	end->step = 1 + sim_below(sim, sim->plan.step);
	end->look_at = end->act_at = end->runs_since = sim->now;
	dfi__open_seats_init(
	    &end->seats, SIM_SOURCES, SIM_TARGETS, end->seat_memory);
	dfi__open_seats_set_own(&end->seats, role, seat, end->incarnation);
	if (dfi__open_tables_size(SIM_PARTITIONS, SIM_TARGETS) >
	    sizeof(end->tables_memory))
		abort();
	dfi__open_tables_init(
	    &end->tables, SIM_PARTITIONS, SIM_TARGETS, end->tables_memory);
	if (role == OPEN_SOURCE && !sim->plan.ordered)
		sim_source_start(end);
	else if (!sim->plan.ordered)
		sim_target_start(end);
	sim_trace(sim, "%s starts", sim_end_name(end));
	see_snapshot(end);
	return end;
}

void sim_end_put_seat(struct sim_end *end, bool leaving, bool done)
{
	struct sim_change change = { .there = true, .owner = end->number };

	change.key = sim_seat_key(end->role, end->seat);
	change.holder.incarnation = end->incarnation;
	change.holder.store_epoch = end->store_epoch;
	change.holder.leaving = leaving;
	change.holder.done = done;
	sim_put(end->sim, &change);
}

void sim_end_look(struct sim_end *end)
{
	struct sim *sim = end->sim;
	uint64_t n;

	end->look_at = sim->now + 1 + sim_below(sim, end->lag);
	n = 1 + sim_below(sim, 8);
	while (n-- > 0 && end->change < sim->n_changes && end->life == SIM_UP)
		see(end, &sim->changes[end->change++]);
}

void sim_end_catch_up(struct sim_end *end)
{
	while (end->change < end->sim->n_changes && end->life == SIM_UP)
		see(end, &end->sim->changes[end->change++]);
}

uint64_t sim_end_ran(const struct sim_end *end)
{
	return end->ran +
	    (end->life == SIM_UP ? end->sim->now - end->runs_since : 0);
}

void sim_end_act(struct sim_end *end)
{
	struct sim *sim = end->sim;
	struct open_key key = sim_seat_key(end->role, end->seat);

	end->act_at = sim->now + 1 + sim_below(sim, end->step);
	if (!end->created) {
		if (sim_key_is_there(sim, &key) && !SIM_BUG(TWO_HOLDERS)) {
			sim_end_over(end, "another has its seat");
			return;
		}
		if (sim_key_is_there(sim, &key))
			sim_fail(sim, "%s takes a seat that is held",
			    sim_end_name(end));
		end->created = true;
		sim_end_put_seat(end, false, false);
	} else if (end->seats.begun) {
		if (sim->plan.ordered && end->role == OPEN_SOURCE)
			sim_order_source_act(end);
		else if (sim->plan.ordered)
			sim_order_target_act(end);
		else if (end->role == OPEN_SOURCE)
			sim_source_act(end);
		else
			sim_target_act(end);
	}
}

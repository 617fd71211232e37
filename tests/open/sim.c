/* SPDX-License-Identifier: Apache-2.0 */
/* One run: the plan, what happens when, faults, and the verdict. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

unsigned dfi__open_bug;

void sim_fail(struct sim *sim, const char *format, ...)
{
	va_list list;

	if (sim->failed)
		return;
	sim->failed = true;
	va_start(list, format);
	vsnprintf(sim->failure, sizeof(sim->failure), format, list);
	va_end(list);
}

void sim_trace(struct sim *sim, const char *format, ...)
{
	va_list list;

	if (!sim->trace)
		return;
	printf("%8llu ", (unsigned long long)sim->now);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
}

/* splitmix64 (Steele, Lea and Flood). */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

uint64_t sim_below(struct sim *sim, uint64_t n)
{
	sim->random += UINT64_C(0x9e3779b97f4a7c15);
	return n ? (mix(sim->random) >> 11) % n : 0;
}

bool sim_chance(struct sim *sim, unsigned percent)
{
	return sim_below(sim, 100) < percent;
}

/* A function of the input alone, as that of a tuple's key. */
uint32_t sim_partition(
    const struct sim *sim, uint32_t source, uint64_t position)
{
	uint64_t key = mix(sim->seed * 1000003 + source * 1009 + position);

	return (uint32_t)(sim->plan.routing == SIM_ANY ? 0
		: sim->plan.routing == SIM_DIRECT ? key % sim->plan.n_targets
						  : key % sim->plan.n_keys);
}

static uint64_t from_to(struct sim *sim, uint64_t least, uint64_t most)
{
	return least + sim_below(sim, most - least + 1);
}

static void make_plan(struct sim *sim)
{
	struct sim_plan *plan = &sim->plan;

	memset(plan, 0, sizeof(*plan));
	plan->n_sources = (unsigned)from_to(sim, 1, SIM_SOURCES);
	plan->n_targets = (unsigned)from_to(sim, 2, SIM_TARGETS);
	plan->n_input = (unsigned)from_to(sim, 10, SIM_INPUT);
	plan->mark_every = (unsigned)from_to(sim, 2, 9);
	plan->room = (unsigned)from_to(sim, 3, SIM_SLOTS);
	plan->hold = (unsigned)from_to(sim, 1, 8);
	plan->n_keys = (unsigned)from_to(sim, 1, SIM_PARTITIONS);
	plan->store = sim_chance(sim, 50) ? 100 : (unsigned)from_to(sim, 1, 30);
	plan->replay = sim_chance(sim, 75);
	plan->align = sim_chance(sim, 30);
	plan->lag = from_to(sim, 5, 100);
	plan->step = from_to(sim, 5, 50);
	plan->idle = sim_chance(sim, 40) ? from_to(sim, 100, 1000) : 0;
	plan->fault_pause = from_to(sim, 50, 1000);
	plan->calm_at = from_to(sim, 1000, 20000);
	plan->handover = sim_chance(sim, 60) ? from_to(sim, 500, 4000) : 0;
	plan->give_up = sim_chance(sim, 20) ? 50 : 0;
	plan->return_after = sim_chance(sim, 50) ? from_to(sim, 100, 4000) : 0;
	plan->evict = sim_chance(sim, 70);
	if (plan->replay && sim_chance(sim, 30))
		plan->routing = sim_chance(sim, 50) ? SIM_ANY : SIM_DIRECT;
	plan->deadline = plan->calm_at + 400000;
}

/* H3: in some runs the store is older than the flow, which was made anew. */
static void make_store(struct sim *sim)
{
	bool older = sim_chance(sim, 30);
	uint32_t p;

	for (p = 0; older && p < SIM_PARTITIONS; p++)
		sim->epochs[p] = sim_below(sim, 50);
}

/* ---- Faults -------------------------------------------------------------- */

static struct sim_end *any_end(struct sim *sim, enum open_role role)
{
	unsigned i, n = 0;
	uint64_t chosen;

	for (i = 0; i < sim->n_ends; i++)
		n += sim->ends[i]->role == role &&
		    sim->ends[i]->life != SIM_OVER && sim->ends[i]->created;
	chosen = sim_below(sim, n);
	for (i = 0; n && i < sim->n_ends; i++)
		if (sim->ends[i]->role == role &&
		    sim->ends[i]->life != SIM_OVER && sim->ends[i]->created &&
		    chosen-- == 0)
			return sim->ends[i];
	return NULL;
}

/* Nobody is in the seat, nor on the way there. */
static bool is_free(struct sim *sim, enum open_role role, uint32_t seat)
{
	struct open_key key = sim_seat_key(role, seat);
	unsigned i;

	for (i = 0; i < sim->n_ends; i++)
		if (sim->ends[i]->role == role && sim->ends[i]->seat == seat &&
		    sim->ends[i]->life != SIM_OVER && !sim->ends[i]->created)
			return false;
	return !sim_key_is_there(sim, &key);
}

static unsigned staying_targets(struct sim *sim)
{
	unsigned i, n = 0;

	for (i = 0; i < sim->n_ends; i++)
		n += sim->ends[i]->role == OPEN_TARGET &&
		    sim->ends[i]->life != SIM_OVER && !sim->ends[i]->leaving &&
		    (!sim->ends[i]->created ||
			sim_is_attached(sim, sim->ends[i]));
	return n;
}

static void start_source(struct sim *sim)
{
	uint32_t seat = (uint32_t)sim_below(sim, sim->plan.n_sources);

	if (!sim->ended[seat] && !sim->given_up[seat] &&
	    is_free(sim, OPEN_SOURCE, seat))
		sim_end_start(sim, OPEN_SOURCE, seat);
}

static void start_target(struct sim *sim)
{
	uint32_t seat = (uint32_t)sim_below(sim, sim->plan.n_targets);

	if (is_free(sim, OPEN_TARGET, seat))
		sim_end_start(sim, OPEN_TARGET, seat);
}

/* M1: it is left to whoever holds it. */
static void try_seat(struct sim *sim, enum open_role role)
{
	uint32_t seat = (uint32_t)sim_below(sim,
	    role == OPEN_SOURCE ? sim->plan.n_sources : sim->plan.n_targets);
	struct open_key key = sim_seat_key(role, seat);

	if (sim_key_is_there(sim, &key))
		sim_end_start(sim, role, seat);
}

static void kill_end(struct sim *sim, struct sim_end *end)
{
	if (!end)
		return;
	if (end->role == OPEN_SOURCE) {
		sim->counts.killed_sources++;
		if (sim_is_attached(sim, end) &&
		    sim_chance(sim, sim->plan.give_up)) {
			sim->given_up[end->seat] = true;
			sim->counts.given_up++;
		}
	} else {
		sim->counts.killed_targets++;
	}
	sim_end_over(end, "it is killed");
}

static void stop_end(struct sim *sim, struct sim_end *end)
{
	if (!end || end->life != SIM_UP)
		return;
	sim->counts.stopped++;
	end->ran = sim_end_ran(end);
	end->n_stops++;
	end->life = SIM_STOPPED;
	/* Some wake up in time, others when all is over, or not before the end.
	 */
	end->wakes_at = sim->now +
	    from_to(sim, 10, sim_chance(sim, 70) ? 3000 : sim->plan.deadline);
	sim_trace(sim, "%s is stopped", sim_end_name(end));
}

/* The application assigns some partitions, or leaves all to the library. */
static void assign(struct sim *sim)
{
	struct sim_change change = { .there = true, .owner = SIM_ENDS };
	uint16_t owners[SIM_PARTITIONS];
	unsigned p;

	change.key.kind = OPEN_KEY_ASSIGN;
	if (sim_chance(sim, 30)) {
		sim_delete(sim, &change.key);
		return;
	}
	for (p = 0; p < SIM_PARTITIONS; p++)
		owners[p] = sim_chance(sim, 50)
		    ? OPEN_NOBODY
		    : (uint16_t)sim_below(sim, SIM_TARGETS);
	dfi__open_assign_encode(owners, SIM_PARTITIONS, change.value);
	sim_put(sim, &change);
	sim->counts.assigned++;
}

void sim_give_up(struct sim *sim, uint32_t source)
{
	struct sim_change change = { .there = true, .owner = SIM_ENDS };

	change.key.kind = OPEN_KEY_GIVEN_UP;
	change.key.source = source;
	sim_put(sim, &change);
}

/* The application gives up those that do not return, if nobody else does. */
static void give_up(struct sim *sim)
{
	uint32_t s = (uint32_t)sim_below(sim, sim->plan.n_sources);
	struct open_key key = sim_seat_key(OPEN_SOURCE, s);

	if (sim->plan.replay && !sim->plan.return_after && sim->given_up[s] &&
	    !sim_key_is_there(sim, &key) && sim->n_changes < SIM_CHANGES / 2)
		sim_give_up(sim, s);
}

static void fault(struct sim *sim)
{
	enum open_role role = sim_chance(sim, 50) ? OPEN_SOURCE : OPEN_TARGET;
	struct sim_end *end;

	sim->fault_at = sim->now + from_to(sim, 1, sim->plan.fault_pause);
	start_source(sim);
	give_up(sim);
	/* With direct routing each seat is wanted. */
	if (staying_targets(sim) == 0 || sim->plan.routing == SIM_DIRECT ||
	    (!sim->calm && sim_chance(sim, 30)))
		start_target(sim);
	if (sim->calm || sim->n_ends > SIM_ENDS - 16)
		return;
	end = any_end(sim, role);
	switch (sim_below(sim, 6)) {
	case 0:
		kill_end(sim, end);
		break;
	case 1:
		stop_end(sim, end);
		break;
	case 2:
		stop_end(sim, end);
		if (end && sim->plan.evict)
			sim_end_evict(end);
		break;
	case 3:
		if (sim->evicted_next)
			sim_end_evict_late(sim->evicted_next);
		sim->evicted_next = sim->plan.evict ? end : NULL;
		break;
	case 4:
		if (end && role == OPEN_TARGET)
			end->leaving = true;
		break;
	default:
		if (!sim->plan.routing && sim_chance(sim, 20))
			assign(sim);
		else if (sim_chance(sim, 20))
			try_seat(sim, role);
		break;
	}
}

static void calm_down(struct sim *sim)
{
	unsigned i;

	sim_trace(sim, "all is calm from now on");
	sim->calm = true;
	for (i = 0; i < sim->n_ends; i++)
		if (sim->ends[i]->life == SIM_STOPPED)
			sim->ends[i]->wakes_at = sim->now;
}

/* The registry notices that a process has ended: its keys go one by one. */
static void end_lease(struct sim *sim, struct sim_end *end)
{
	unsigned i, n = 0;
	uint64_t chosen;

	for (i = 0; i < sim->n_keys; i++)
		n += sim->keys[i]->there && sim->keys[i]->owner == end->number;
	chosen = sim_below(sim, n);
	end->lease_at = n > 1 ? sim->now + sim_below(sim, 5) : UINT64_MAX;
	for (i = 0; n && i < sim->n_keys; i++)
		if (sim->keys[i]->there && sim->keys[i]->owner == end->number &&
		    chosen-- == 0) {
			sim_delete(sim, &sim->keys[i]->key);
			return;
		}
}

/* ---- The run ------------------------------------------------------------- */

static uint64_t next_of(const struct sim_end *end)
{
	if (end->life == SIM_OVER)
		return end->lease_at;
	if (end->life == SIM_STOPPED)
		return end->wakes_at;
	return end->look_at < end->act_at ? end->look_at : end->act_at;
}

static void step_end(struct sim *sim, struct sim_end *end)
{
	if (end->life == SIM_OVER) {
		if (!end->lease_at)
			end->lease_at = sim->now + 1 +
			    sim_below(sim, 5 * end->lag);
		else
			end_lease(sim, end);
	} else if (end->life == SIM_STOPPED) {
		end->life = SIM_UP;
		end->act_at = end->runs_since = sim->now;
		end->look_at = sim->now + sim_below(sim, 20 * end->lag);
		sim_trace(sim, "%s wakes up", sim_end_name(end));
	} else if (end->look_at < end->act_at) {
		sim_end_look(end);
	} else {
		sim_end_act(end);
	}
}

static void step(struct sim *sim)
{
	struct sim_end *next = NULL;
	uint64_t at = sim->fault_at;
	unsigned i;

	sim->counts.steps++;
	for (i = 0; i < sim->n_ends; i++)
		if (next_of(sim->ends[i]) < at) {
			next = sim->ends[i];
			at = next_of(next);
		}
	if (at > sim->now)
		sim->now = at;
	if (!sim->calm && sim->now >= sim->plan.calm_at)
		calm_down(sim);
	if (next)
		step_end(sim, next);
	else
		fault(sim);
}

/* Whether what has been sent is consumed wherever somebody is attached. */
static bool is_drained(struct sim *sim)
{
	unsigned i, j;

	for (i = 0; i < sim->n_ends; i++) {
		struct sim_end *end = sim->ends[i];

		if (end->role != OPEN_TARGET || end->life == SIM_OVER)
			continue;
		if (end->change < sim->n_changes)
			return false;
		for (j = 0; j < SIM_PAIRS; j++)
			if (end->t.pairs[j].used)
				return false;
	}
	return true;
}

static bool is_done(struct sim *sim)
{
	unsigned s;

	if (!sim->calm)
		return false;
	for (s = 0; s < sim->plan.n_sources; s++)
		if (!sim->ended[s] && !sim->given_up[s])
			return false;
	return sim->plan.ordered ? sim_order_is_drained(sim) : is_drained(sim);
}

/* Nothing is lost. */
static void judge(struct sim *sim)
{
	uint64_t position;
	uint32_t s;

	for (s = 0; s < sim->plan.n_sources; s++)
		for (position = 1; position <= sim->plan.n_input; position++)
			if (!sim->effects[s][position] && !sim->given_up[s] &&
			    (sim->plan.replay || !sim->excused[s][position]))
				sim_fail(sim, "tuple %llu of source %u is lost",
				    (unsigned long long)position, s);
}

static void reset(struct sim *sim)
{
	size_t from = offsetof(struct sim, plan);
	struct sim_change *changes = sim->changes;
	struct sim_view *views = sim->views;
	struct sim_counts counts = sim->counts;

	memset((char *)sim + from, 0, sizeof(*sim) - from);
	sim->counts = counts;
	sim->changes = changes;
	sim->views = views;
	if (!changes)
		sim->changes = malloc(SIM_CHANGES * sizeof(*changes));
	if (!views)
		sim->views = calloc(SIM_VIEWS, sizeof(*views));
	if (!sim->changes || !sim->views)
		abort();
}

static void free_end(struct sim *sim, struct sim_end *end)
{
	dfi__open_views_free(&end->views);
	if (sim->plan.ordered && end->role == OPEN_TARGET)
		sim_order_target_free(end);
	free(end);
}

static int run(struct sim *sim, bool ordered)
{
	unsigned i;

	reset(sim);
	sim->random = mix(sim->seed + ordered * (UINT64_C(1) << 40));
	if (ordered) {
		sim_order_plan(sim);
	} else {
		make_plan(sim);
		make_store(sim);
	}
	sim_trace(sim,
	    "%u sources, %u targets, %u tuples each, room %u, hold %u%s%s%s%s",
	    sim->plan.n_sources, sim->plan.n_targets, sim->plan.n_input,
	    sim->plan.room, sim->plan.hold, sim->plan.replay ? ", replay" : "",
	    sim->plan.routing == SIM_ANY          ? ", any"
		: sim->plan.routing == SIM_DIRECT ? ", direct"
						  : "",
	    sim->plan.align ? ", align" : "", ordered ? ", ordered" : "");
	for (i = 0; i < sim->plan.n_sources; i++)
		sim_end_start(sim, OPEN_SOURCE, i);
	start_target(sim);
	while (!sim->failed && !is_done(sim)) {
		step(sim);
		if (sim->now > sim->plan.deadline)
			sim_fail(sim, "there is no end");
	}
	if (!sim->failed && ordered)
		sim_order_judge(sim);
	else if (!sim->failed)
		judge(sim);
	sim->counts.runs++;
	for (i = 0; i < sim->n_ends; i++)
		free_end(sim, sim->ends[i]);
	sim_registry_free(sim);
	sim_rings_free(sim);
	return sim->failed ? -1 : 0;
}

int sim_run(struct sim *sim)
{
	return run(sim, false) || run(sim, true) ? -1 : 0;
}

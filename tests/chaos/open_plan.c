/* SPDX-License-Identifier: Apache-2.0 */
/* Plans and tuples of an open flow from a seed; see open_plan.h. */
#include "open_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

/* What a datagram has room for, with an MTU of 1024 and a header. */
#define DATAGRAM_BYTES 896

/* Live processes give their signs of life in time on busy machines. */
#define LEASE_MS 3000
#define SHORT_MS 200

/*
 * Machines are gone when their lease has ended. A queue pair tries again for 3
 * s before its connection breaks.
 */
#define MACHINE_LEASE_MS 12000
#define MOST_BLINK_MS 1500
#define LEAST_CUT_MS 4000
#define SLOWER 4 /* than on a host */
/* In which members hear of others, on a busy machine. */
#define NEWS_MS 1000
/* A registry that starts again waits for them to return. */
#define REGISTRY_MS 3000
/* The helper thread tries for so long to reach a peer that is stopped. */
#define HELPER_MS 2000
/* Over a network also one that is gone: one after the other. */
#define NETWORK_MS 6000

static void plan_cell(struct open_plan *plan)
{
	const struct open_cell *cell = &plan->cell;

	plan->routing = cell->routing;
	plan->on_loss = cell->on_loss;
	plan->replicates = cell->kind == DFI_REPLICATE;
	plan->combines = cell->kind == DFI_COMBINE;
	plan->ordered = cell->ordered;
	plan->datagrams = cell->method == DFI_REPLICATION_MULTICAST;
	plan->keyed = cell->kind == DFI_SHUFFLE &&
	    (cell->routing == DFI_ROUTE_HASH ||
		cell->routing == DFI_ROUTE_RADIX ||
		cell->routing == DFI_ROUTE_RANGE);
	plan->names_seats = cell->routing == DFI_ROUTE_DIRECT ||
	    cell->routing == DFI_ROUTE_FUNCTION;
	plan->replays = cell->on_loss == DFI_ON_LOSS_REPLAY;
}

/* Segments fit datagrams, and a ring has two: one tells where it begins. */
static void plan_datagrams(struct open_plan *plan)
{
	uint32_t most = DATAGRAM_BYTES / plan->tuple_size;

	if (!most) {
		plan->tuple_size = DATAGRAM_BYTES;
		most = 1;
	}
	if (plan->goal == DFI_BANDWIDTH &&
	    plan->segment_size > most * plan->tuple_size)
		plan->segment_size = most * plan->tuple_size;
}

/*
 * All that members do by plan is much shorter than the bound: only who is
 * stopped is evicted. Some bounds are so short that anybody may be. With replay
 * who is evicted comes back: not all the time.
 */
static void plan_bound(struct open_plan *plan, struct rng *rng)
{
	plan->harsh = !plan->replays && one_in(rng, 6);
	plan->evict_after_ms = plan->harsh ? between(rng, 10, 100)
					   : between(rng, 300, 500);
}

/* goal: -1: any. */
static void plan_flow(struct open_plan *plan, struct rng *rng, int goal)
{
	static const uint32_t sizes[] = { 24, 32, 40, 64, 200, 1000, 4096 };

	plan->n_sources = between(rng, 1, OPEN_SEATS);
	plan->n_targets = between(rng, 1, OPEN_SEATS);
	plan->tuple_size = sizes[below(rng, sizeof(sizes) / sizeof(sizes[0]))];
	plan->goal = one_in(rng, 3) ? DFI_LATENCY : DFI_BANDWIDTH;
	if (goal >= 0)
		plan->goal = (uint32_t)goal;
	if (plan->goal == DFI_BANDWIDTH)
		plan->segment_size = plan->tuple_size *
		    between(rng, 1, one_in(rng, 2) ? 4 : 32);
	plan->segment_count = 1u << between(rng, 1, 5);
	if (plan->replicates && plan->segment_count < 4)
		plan->segment_count = 4;
	plan->min_sources = one_in(rng, 4) ? 1 : 0;
	if (plan->datagrams)
		plan_datagrams(plan);
	if (plan->keyed && one_in(rng, 2))
		plan->hold_bytes = (uint64_t)plan->tuple_size *
		    between(rng, 1, 200);
	if (plan->on_loss != DFI_ON_LOSS_FAIL &&
	    plan->routing != DFI_ROUTE_ANY && one_in(rng, 2))
		plan_bound(plan, rng);
}

static void plan_actors(struct open_plan *plan, struct rng *rng)
{
	uint32_t least = plan->forced ? 2 : 1;
	uint32_t a, residents = 0, most;

	plan->n_source_actors = between(rng, least, OPEN_ACTORS / 2);
	plan->n_actors = plan->n_source_actors +
	    between(rng, least, OPEN_ACTORS / 2);
	most = plan->n_actors < OPEN_PROCESSES ? plan->n_actors
					       : OPEN_PROCESSES;
	plan->n_processes = between(rng, 1, most);
	for (a = 0; a < plan->n_actors; a++) {
		plan->process_of[a] = below(rng, plan->n_processes);
		plan->n_stays[a] = between(rng, 1, 4);
		/* Sources wait while there is no target. */
		plan->resident[a] = !open_is_source(plan, a) &&
		    (a == plan->n_source_actors || one_in(rng, 2));
		residents += plan->resident[a];
	}
	plan->min_targets = residents > 1 && plan->n_targets > 1 &&
		one_in(rng, 4)
	    ? 2
	    : below(rng, 2);
}

static void plan_faults(struct open_plan *plan, struct rng *rng)
{
	struct open_fault *fault;

	if (one_in(rng, 12))
		plan->lease_ms = LEASE_MS;
	plan->n_faults = below(rng, OPEN_FAULTS);
	for (fault = plan->faults; fault < plan->faults + plan->n_faults;
	     fault++) {
		fault->kind = one_in(rng, 2) ? OPEN_STOP : OPEN_KILL;
		fault->process = below(rng, plan->n_processes);
		fault->at_ms = between(rng, 5, 600);
		fault->for_ms = between(rng, 1, SHORT_MS) +
		    plan->evict_after_ms * below(rng, 4);
		if (plan->lease_ms && fault == plan->faults) {
			fault->kind = OPEN_STOP;
			fault->for_ms = LEASE_MS + 1500;
		} else if (one_in(rng, 16)) {
			fault->kind = OPEN_RESTART;
		} else if (one_in(rng, 16)) {
			fault->kind = OPEN_FINISH;
		}
	}
	/* While most work: who is stopped for so long is evicted. */
	if (plan->evict_after_ms)
		plan->faults[plan->n_faults++] = (struct open_fault){
			.kind = OPEN_STOP,
			.process = below(rng, plan->n_processes),
			.at_ms = between(rng, 20, 120),
			.for_ms = SHORT_MS + 3 * plan->evict_after_ms,
		};
}

/* The registry stays, and sources come until all is read. */
static void plan_replay(struct open_plan *plan)
{
	struct rng rng = { .state = mix(plan->seed ^ 0x72706c79) };
	struct open_fault *fault;
	uint32_t a;

	plan->n_input = between(&rng, 1, 3000);
	/* Most are still at work when something happens. */
	plan->pace_us = below(&rng, 5000);
	plan->spills = one_in(&rng, 3);
	if (one_in(&rng, 3))
		plan->return_timeout_ms = between(&rng, 1, 300);
	for (fault = plan->faults; fault < plan->faults + plan->n_faults;
	     fault++)
		if (fault->kind == OPEN_RESTART || fault->kind == OPEN_FINISH)
			fault->kind = OPEN_KILL;
	/* What was sent to a seat waits for its next holder. */
	if (!plan->names_seats)
		return;
	plan->n_targets = plan->n_actors - plan->n_source_actors;
	for (a = plan->n_source_actors; a < plan->n_actors; a++)
		plan->resident[a] = true;
}

/* All targets stay, in process 0. */
static void plan_combine(struct open_plan *plan)
{
	struct rng rng = { .state = mix(plan->seed ^ 0x636f6d62) };
	struct open_fault *fault;
	uint32_t a;

	plan->n_targets = plan->n_actors - plan->n_source_actors;
	plan->min_targets = 0;
	plan->n_processes = between(&rng, 2, OPEN_PROCESSES);
	plan->per_window = between(&rng, 16, 300);
	plan->combining = plan->goal == DFI_LATENCY
	    ? DFI_COMBINING_OFF
	    : between(&rng, DFI_COMBINING_OFF, DFI_COMBINING_ALWAYS);
	for (a = 0; a < plan->n_actors; a++) {
		plan->process_of[a] = open_is_source(plan, a)
		    ? between(&rng, 1, plan->n_processes - 1)
		    : 0;
		plan->resident[a] = false;
		if (!open_is_source(plan, a))
			plan->n_stays[a] = 1;
	}
	for (fault = plan->faults; fault < plan->faults + plan->n_faults;
	     fault++)
		if (fault->kind == OPEN_KILL || fault->for_ms > SHORT_MS)
			fault->process = between(
			    &rng, 1, plan->n_processes - 1);
}

static void plan_marks(struct open_plan *plan)
{
	struct rng rng = { .state = mix(plan->seed ^ 0x6d61726b) };

	if (one_in(&rng, 2))
		plan->mark_every = between(&rng, 1, one_in(&rng, 2) ? 10 : 200);
}

/* One strike after the other; what runs on a machine takes its time. */
static void plan_machines(struct open_plan *plan, uint32_t n_machines)
{
	struct rng rng = { .state = mix(plan->seed ^ 0x6d616368) };
	uint32_t i, n = between(&rng, 1, 2), at_ms = between(&rng, 0, 1500);
	struct open_fault *fault;

	plan->n_machines = n_machines;
	plan->lease_ms = MACHINE_LEASE_MS;
	/* Who is stopped is evicted, and who is slow is not. */
	plan->evict_after_ms *= SLOWER;
	for (i = 0; i < plan->n_faults; i++) {
		plan->faults[i].at_ms *= SLOWER;
		if (plan->faults[i].kind == OPEN_STOP)
			plan->faults[i].for_ms *= SLOWER;
	}
	for (i = 0; i < n; i++) {
		fault = &plan->faults[plan->n_faults++];
		fault->kind = OPEN_BLINK + below(&rng, 3);
		fault->process = plan->process_of[below(&rng, plan->n_actors)];
		/* All targets of a combiner flow stay, in the first process. */
		if (plan->combines &&
		    open_machine_of(n_machines, fault->process) ==
			open_machine_of(n_machines, 0))
			fault->kind = OPEN_BLINK;
		fault->at_ms = at_ms;
		fault->for_ms = fault->kind == OPEN_BLINK
		    ? between(&rng, 100, MOST_BLINK_MS)
		    : between(&rng, LEAST_CUT_MS, MACHINE_LEASE_MS + 4000);
		if (fault->kind == OPEN_OFF)
			fault->for_ms = between(&rng, 1, LEAST_CUT_MS);
		at_ms += fault->for_ms + between(&rng, 500, 3000);
		/* Else it goes on with what it has lost. */
		if (fault->kind == OPEN_CUT && one_in(&rng, 2))
			plan->faults[plan->n_faults++] = (struct open_fault){
				.kind = OPEN_KILL,
				.process = fault->process,
				.at_ms = at_ms,
				.for_ms = 1,
			};
	}
}

int open_forced_goal(uint64_t seed, const char *only)
{
	uint64_t turn = seed / open_n_cells(only);

	return turn % 3 == 0 ? DFI_BANDWIDTH : turn % 3 == 1 ? DFI_LATENCY : -1;
}

/* Targets of a combiner flow stay. */
static void plan_forced(struct open_plan *plan)
{
	static const struct open_fault faults[OPEN_FORCED] = {
		{ .kind = OPEN_STOP, .whom = OPEN_SOURCE },
		{ .kind = OPEN_STOP, .whom = OPEN_TARGET },
		{ .kind = OPEN_KILL, .whom = OPEN_SOURCE },
		{ .kind = OPEN_KILL, .whom = OPEN_TARGET },
	};
	struct rng rng = { .state = mix(plan->seed ^ 0x666f7263) };
	struct open_fault fault;
	uint32_t a, i;

	/* The first of each role are killed by nobody, so they can leave. */
	if (!plan->combines)
		plan->n_processes = 4;
	for (a = 0; a < plan->n_actors && !plan->combines; a++)
		plan->process_of[a] = open_is_source(plan, a)
		    ? a != 0
		    : 2 + (a != plan->n_source_actors);
	for (i = 0; i < plan->n_faults; i++)
		if (plan->faults[i].kind == OPEN_KILL)
			plan->faults[i].kind = OPEN_STOP;
	/* So that somebody joins behind each death. */
	for (a = 0; a < plan->n_actors; a++)
		if (plan->n_stays[a] < 3 &&
		    (!plan->combines || open_is_source(plan, a)))
			plan->n_stays[a] = 3;
	for (i = 0; i < OPEN_FORCED; i++) {
		fault = faults[i];
		fault.at_ms = between(&rng, 1, 100);
		fault.for_ms = between(&rng, 10, SHORT_MS);
		if (plan->combines && fault.kind == OPEN_KILL &&
		    fault.whom == OPEN_TARGET)
			continue;
		plan->faults[plan->n_faults++] = fault;
	}
}

static void plan_calls(struct open_plan *plan)
{
	struct rng rng = { .state = mix(plan->seed ^ 0x63616c6c) };
	uint32_t n = below(&rng, OPEN_CALLS + 1), i;

	for (i = 0; i < n && (plan->keyed || plan->replays); i++)
		plan->faults[plan->n_faults++] = (struct open_fault){
			.kind = plan->keyed && (!plan->replays || i % 2)
			    ? OPEN_ASSIGN
			    : OPEN_GIVE_UP,
			.at_ms = between(&rng, 1, 400),
		};
}

void open_make_plan(struct open_plan *plan, uint64_t seed, const char *only,
    uint32_t n_machines)
{
	struct rng rng = { .state = mix(seed ^ 0x6f70656e) };
	int goal;

	memset(plan, 0, sizeof(*plan));
	plan->seed = seed;
	plan->cell = open_choose_cell(seed, only);
	plan_cell(plan);
	goal = n_machines ? -1 : open_forced_goal(seed, only);
	plan->forced = goal >= 0;
	plan_flow(plan, &rng, goal);
	plan_actors(plan, &rng);
	plan_faults(plan, &rng);
	if (plan->replays)
		plan_replay(plan);
	if (plan->combines)
		plan_combine(plan);
	if (!plan->replays && !plan->combines)
		plan_marks(plan);
	if (plan->forced)
		plan_forced(plan);
	plan_calls(plan);
	if (n_machines)
		plan_machines(plan, n_machines);
}

uint32_t open_news_ms(const struct open_plan *plan)
{
	uint32_t ms = NEWS_MS, i;

	for (i = 0; i < plan->n_faults; i++)
		if (plan->faults[i].kind == OPEN_RESTART)
			ms += REGISTRY_MS;
	if (plan->n_machines)
		ms += 2 * MACHINE_LEASE_MS;
	return getenv("DFI_TRANSPORT") ? ms + NETWORK_MS : ms;
}

uint32_t open_own_news_ms(const struct open_plan *plan)
{
	return open_news_ms(plan) + HELPER_MS;
}

uint32_t open_partition_of(const struct open_plan *plan, uint32_t group)
{
	return plan->routing == DFI_ROUTE_HASH
	    ? dfi_hash64_partition(group, OPEN_PARTITIONS)
	    : group / (OPEN_GROUPS / OPEN_PARTITIONS);
}

static void plan_source(const struct open_plan *plan, struct stay_plan *stay,
    struct rng *rng, uint32_t volume)
{
	uint32_t n = between(rng, 1, one_in(rng, 3) ? OPEN_TUPLES : 1000);

	n = (uint32_t)((uint64_t)n * volume / 100);
	stay->n_tuples = n < 1 ? 1 : n > OPEN_TUPLES ? OPEN_TUPLES : n;
	if (one_in(rng, 2))
		stay->flush_every = between(rng, 1, 200);
	stay->settles = plan->on_loss == DFI_ON_LOSS_DROP && one_in(rng, 2) &&
	    !plan->replicates && !plan->combines;
	if (one_in(rng, 3)) {
		stay->act = one_in(rng, 3) ? OPEN_ABORT
		    : one_in(rng, 3)       ? OPEN_EXIT
					   : OPEN_DIE;
		stay->act_at = below(rng, stay->n_tuples + 1);
	}
}

static void plan_target(struct stay_plan *stay, struct rng *rng)
{
	static const enum open_act acts[] = { OPEN_LEAVE, OPEN_LEAVE,
		OPEN_ABORT, OPEN_EXIT, OPEN_DIE, OPEN_DIE };

	if (one_in(rng, 4))
		return;
	stay->act = acts[below(rng, sizeof(acts) / sizeof(acts[0]))];
	stay->act_at = below(rng, one_in(rng, 2) ? 100 : 2000);
}

/* A source whose helper has a part in its lanes may linger. */
static void plan_linger(
    const struct open_plan *plan, struct stay_plan *stay, uint64_t state)
{
	struct rng rng = { .state = mix(state ^ 0x6c696e67) };

	stay->linger_us = (plan->keyed || plan->replays) && one_in(&rng, 3)
	    ? between(&rng, 20, 3000)
	    : DFI_NO_LINGER;
}

/* A target that leaves may cancel, except in a combiner flow. */
static void plan_cancel(struct stay_plan *stay, uint64_t state)
{
	struct rng rng = { .state = mix(state ^ 0x63616e63) };

	if (stay->act == OPEN_LEAVE && one_in(&rng, 2))
		stay->act = OPEN_CANCEL;
}

/* Tuples go in by pushes; a target may give its partitions away. */
static void plan_keyed_stay(
    struct stay_plan *stay, bool is_source, uint64_t state)
{
	struct rng rng = { .state = mix(state ^ 0x6b657973) };

	if (is_source)
		stay->style = stay->style == OPEN_CLAIM ||
			stay->style == OPEN_BATCH
		    ? OPEN_BATCH
		    : OPEN_SINGLE;
	else if (stay->act == OPEN_LEAVE && one_in(&rng, 2))
		stay->act = OPEN_GIVE;
}

/* Idle sources are told of by what was consumed last, which a cursor isn't. */
static void plan_marked_stay(
    const struct open_plan *plan, struct stay_plan *stay, uint64_t state)
{
	struct rng rng = { .state = mix(state ^ 0x6d61726b) };

	stay->aligns = stay->events && !plan->ordered && one_in(&rng, 2);
	if (one_in(&rng, 3) && stay->style != OPEN_CURSOR)
		stay->idle_after_ms = between(&rng, 20, 300);
}

/*
 * All that lies in a target's rings, and a source's window of a combiner flow,
 * takes less than a quarter of the bound.
 */
static void bound_pauses(
    const struct open_plan *plan, struct stay_plan *stay, bool is_source)
{
	uint32_t of_segment = plan->segment_size
	    ? plan->segment_size / plan->tuple_size
	    : 1;
	uint32_t n = is_source
	    ? plan->per_window
	    : plan->n_sources * plan->segment_count * of_segment;
	/* A sleep may take a millisecond more. */
	uint32_t most = plan->evict_after_ms * 250 / (stay->pause_us + 1000);

	if (stay->pause_every && stay->pause_every < n / most + 1)
		stay->pause_every = n / most + 1;
}

/* The first target leaves soon; sources take their time, and leave. */
static void force_stay(const struct open_plan *plan, struct stay_plan *stay,
    uint32_t actor, uint32_t number)
{
	if (!open_is_source(plan, actor)) {
		if (actor > plan->n_source_actors || number % 2 ||
		    number >= plan->n_stays[actor])
			return;
		stay->act = OPEN_LEAVE;
		stay->act_at = 1;
		return;
	}
	if (stay->n_tuples < 600)
		stay->n_tuples = 600;
	if (!stay->pause_every || stay->pause_every > 20)
		stay->pause_every = 20;
	stay->pause_us = 5000;
	if (number % 2 == 0)
		stay->act = OPEN_STAY;
}

struct stay_plan open_stay_plan(const struct open_plan *plan, uint32_t volume,
    uint32_t actor, uint32_t number)
{
	struct rng rng = { .state = mix(
			       plan->seed ^ mix(open_stay_id(actor, number))) };
	bool is_source = open_is_source(plan, actor);
	uint32_t seats = is_source ? plan->n_sources : plan->n_targets;
	struct stay_plan stay = {
		.seat = one_in(&rng, 2) ? DFI_ANY_SEAT : below(&rng, seats),
		.delay_ms = one_in(&rng, 2) ? below(&rng, 40) : 0,
		.nonblock = one_in(&rng, 2),
		.events = one_in(&rng, 2),
		.wait = one_in(&rng, 3) ? DFI_WAIT_BLOCK : 0,
		.style = below(&rng, OPEN_STYLES),
	};

	if (plan->evict_after_ms || one_in(&rng, 3)) {
		stay.pause_every = between(&rng, 1, is_source ? 50 : 200);
		stay.pause_us = between(&rng, 1, 3000);
	}
	/* Two who must be there must not wait for one seat. */
	if (plan->min_targets > 1 && plan->resident[actor])
		stay.seat = DFI_ANY_SEAT;
	if (is_source)
		plan_source(plan, &stay, &rng, volume);
	else if (number < plan->n_stays[actor])
		plan_target(&stay, &rng);
	if (plan->forced)
		force_stay(plan, &stay, actor, number);
	if (plan->evict_after_ms && !plan->harsh)
		bound_pauses(plan, &stay, is_source);
	if (plan->keyed || plan->combines)
		plan_keyed_stay(&stay, is_source, rng.state);
	plan_cancel(&stay, rng.state);
	if (plan->mark_every && !is_source)
		plan_marked_stay(plan, &stay, rng.state);
	if (is_source)
		plan_linger(plan, &stay, rng.state);
	if (plan->combines && !is_source) {
		stay.act = OPEN_STAY;
		stay.seat = actor - plan->n_source_actors;
	}
	if (plan->replays) {
		stay.events = true;
		if (plan->names_seats && !is_source)
			stay.seat = actor - plan->n_source_actors;
		/* Later ones read all. */
		if (is_source && number >= plan->n_stays[actor])
			stay.n_tuples = UINT32_MAX;
		if (is_source && number >= plan->n_stays[actor])
			stay.act = OPEN_STAY;
		return stay;
	}
	if (stay.n_tuples > 500 && stay.pause_every &&
	    stay.pause_every < stay.n_tuples / 100)
		stay.pause_every = stay.n_tuples / 100;
	return stay;
}

void open_print_plan(const struct open_plan *plan)
{
	static const char *const kinds[] = { "kill", "stop",
		"restart the registry instead of", "finish, not",
		"assign partitions, not", "give a seat up, not",
		"blink the machine of", "cut off the machine of",
		"power off the machine of" };
	static const char *const whom[] = { "", " or one with a source",
		" or one with a target" };
	const struct open_fault *fault;
	uint32_t a, i;

	if (plan->replays)
		printf("%u tuples of each source%s, return timeout %u ms; ",
		    plan->n_input, plan->spills ? ", spills" : "",
		    plan->return_timeout_ms);
	if (plan->combines)
		printf("windows of %u, combining %u; ", plan->per_window,
		    plan->combining);
	if (plan->mark_every)
		printf("marks every %u; ", plan->mark_every);
	printf(
	    "seed %lu: %s: %u source and %u target seats, %s; tuples of "
	    "%u in segments of %u, %u; min %u and %u, evict after %u ms%s%s\n",
	    (unsigned long)plan->seed, plan->cell.name, plan->n_sources,
	    plan->n_targets,
	    plan->goal == DFI_LATENCY ? "latency" : "bandwidth",
	    plan->tuple_size, plan->segment_size, plan->segment_count,
	    plan->min_sources, plan->min_targets, plan->evict_after_ms,
	    plan->harsh ? " (harsh)" : "",
	    plan->lease_ms ? ", with leases" : "");
	for (a = 0; a < plan->n_actors; a++)
		printf("  %s %u in process %u: %u stays%s\n",
		    open_is_source(plan, a) ? "source" : "target", a,
		    plan->process_of[a], plan->n_stays[a],
		    plan->resident[a] ? " and more" : "");
	for (i = 0; i < plan->n_faults; i++) {
		fault = &plan->faults[i];
		printf("  %s process %u%s at %u ms for %u ms\n",
		    kinds[fault->kind], fault->process, whom[fault->whom],
		    fault->at_ms, fault->for_ms);
	}
}

static uint64_t tuple_key(
    const struct open_plan *plan, const struct open_tuple *head)
{
	return mix(plan->seed ^
	    mix(((uint64_t)head->stay << 32 | head->n) ^
		mix((uint64_t)head->seat << 32 | head->target)));
}

void open_make_tuple(
    const struct open_plan *plan, const struct open_tuple *head, void *tuple)
{
	struct open_tuple whole = *head;
	unsigned char *bytes = tuple;
	uint32_t i;

	whole.key = tuple_key(plan, head);
	memcpy(bytes, &whole, sizeof(whole));
	for (i = sizeof(whole); i < plan->tuple_size; i++)
		bytes[i] = tuple_byte(whole.key, i);
}

bool open_check_tuple(const struct open_plan *plan, const void *tuple)
{
	const unsigned char *bytes = tuple;
	struct open_tuple head;
	uint32_t i;

	memcpy(&head, tuple, sizeof(head));
	if (head.stay >= open_stay_id(plan->n_source_actors, 0) ||
	    head.n >= OPEN_TUPLES || head.key != tuple_key(plan, &head))
		return false;
	for (i = sizeof(head); i < plan->tuple_size; i++)
		if (bytes[i] != tuple_byte(head.key, i))
			return false;
	return true;
}

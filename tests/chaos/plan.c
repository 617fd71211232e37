/* SPDX-License-Identifier: Apache-2.0 */
/* Plans and tuples from a seed; see plan.h. */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

static void plan_flow(struct plan *plan, struct rng *rng)
{
	static const uint32_t sizes[] = { 24, 32, 40, 64, 200, 1000, 4096 };
	uint32_t room;

	plan->n_sources = between(rng, 1, MAX_SOURCES);
	plan->n_targets = between(rng, 1, MAX_TARGETS);
	plan->n_ends = plan->n_sources + plan->n_targets;
	plan->n_processes = between(rng, 1,
	    plan->n_ends < MAX_PROCESSES ? plan->n_ends : MAX_PROCESSES);
	plan->tuple_size = sizes[below(rng, sizeof(sizes) / sizeof(sizes[0]))];
	plan->goal = one_in(rng, 3) ? DFI_LATENCY : DFI_BANDWIDTH;
	room = one_in(rng, 2) ? 4 : 32;
	if (plan->goal == DFI_BANDWIDTH)
		plan->segment_size = plan->tuple_size * between(rng, 1, room);
	plan->segment_count = 1u << between(rng, 1, 5);
	plan->routing = one_in(rng, 2) ? DFI_ROUTE_DIRECT : DFI_ROUTE_HASH;
	plan->flags = one_in(rng, 2) ? DFI_FLOW_PERSISTENT : 0;
}

/*
 * With separate random numbers, so that the rest of a seed's plan stays the
 * same.
 */
static void plan_kind(struct plan *plan)
{
	struct rng rng = { .state = mix(plan->seed ^ 0x7265706c) };
	const char *only = getenv("DFI_TEST_CHAOS_KIND");
	bool naive = only && !strcmp(only, "unicast");

	plan->kind = one_in(&rng, 3) ? DFI_REPLICATE : DFI_SHUFFLE;
	if (only && !naive)
		plan->kind = !strcmp(only, "replicate") ? DFI_REPLICATE
		    : !strcmp(only, "combine")          ? DFI_COMBINE
							: DFI_SHUFFLE;
	if (plan->kind == DFI_REPLICATE) {
		plan->replication = one_in(&rng, 2) || naive
		    ? DFI_REPLICATION_NAIVE
		    : DFI_REPLICATION_DEFAULT;
		plan->ordered = one_in(&rng, 2);
	} else if (!only || naive) {
		if (below(&rng, 10) < 3)
			plan->kind = DFI_COMBINE;
	}
	if (plan->kind != DFI_SHUFFLE)
		plan->routing = 0;
	/* Room for a partial aggregate and for tuples that wait for others. */
	if (plan->kind == DFI_COMBINE && plan->goal == DFI_BANDWIDTH &&
	    plan->segment_size >= 64)
		plan->source_combining = below(&rng, DFI_COMBINING_ALWAYS + 1);
}

static uint32_t plan_wait(struct rng *rng)
{
	static const uint32_t waits[] = { DFI_WAIT_DEFAULT, DFI_WAIT_ADAPTIVE,
		DFI_WAIT_BLOCK };

	return waits[below(rng, 3)];
}

static void plan_end(
    struct plan *plan, struct rng *rng, uint32_t e, uint32_t volume)
{
	struct end_plan *end = &plan->ends[e];
	uint32_t ms = between(rng, 1, 300);

	end->is_source = e < plan->n_sources;
	end->index = end->is_source ? e : e - plan->n_sources;
	/* Nobody is idle. */
	end->process = e < plan->n_processes ? e
					     : below(rng, plan->n_processes);
	end->second_context = one_in(rng, 4);
	end->nonblock = one_in(rng, 3);
	end->wait = plan_wait(rng);
	end->style = below(rng, N_STYLES);
	if (one_in(rng, 4))
		end->delay_ms = below(rng, 100);
	if (end->is_source)
		end->n_tuples = below(rng, (1u << 20) / plan->tuple_size);
	else
		end->n_tuples = (1u << 19) / plan->tuple_size;
	end->n_tuples = (uint32_t)((uint64_t)end->n_tuples * volume / 100);
	if (one_in(rng, 3))
		end->flush_every = between(rng, 1, 200);
	/* Some live for some hundred milliseconds, others just run. */
	if (one_in(rng, 2)) {
		end->pause_every = end->n_tuples / ms + 1;
		end->pause_us = 1000;
	}
}

static void plan_act(struct plan *plan, struct rng *rng)
{
	static const enum act acts[] = { ACT_ABORT, ACT_ABORT_OTHER, ACT_LEAVE,
		ACT_CANCEL, ACT_CANCEL, ACT_EXIT, ACT_DIE, ACT_DIE };
	struct end_plan *end = &plan->ends[below(rng, plan->n_ends)];

	end->act = acts[below(rng, sizeof(acts) / sizeof(acts[0]))];
	end->act_at = below(rng, end->n_tuples + 1);
	if (end->act == ACT_ABORT_OTHER)
		end->act_at = below(rng, 200);
	if (end->is_source && (end->act == ACT_CANCEL || end->act == ACT_LEAVE))
		end->act = ACT_NONE;
	/* It gets at most one result for each source. */
	if (plan->kind == DFI_COMBINE && !end->is_source &&
	    end->act != ACT_ABORT_OTHER)
		end->act_at %= 3;
}

static void plan_fault(struct plan *plan, struct rng *rng)
{
	struct fault *fault = &plan->faults[plan->n_faults++];

	fault->at_ms = below(rng, one_in(rng, 3) ? 20 : 250);
	fault->kind = one_in(rng, 3) ? FAULT_STOP : FAULT_KILL;
	fault->process = below(rng, plan->n_processes);
	if (one_in(rng, 8))
		fault->process = CREATOR;
	if (fault->kind != FAULT_STOP)
		return;
	fault->for_ms = between(rng, 1, one_in(rng, 20) ? 5000 : 300);
	if (one_in(rng, 8))
		fault->process = REGISTRY;
}

static void plan_registry(struct plan *plan, struct rng *rng)
{
	struct fault *fault = &plan->faults[plan->n_faults++];

	plan->loses_registry = true;
	fault->process = REGISTRY;
	fault->at_ms = below(rng, 150);
	fault->kind = FAULT_LOSE;
	if (!one_in(rng, 3)) {
		fault->kind = FAULT_RESTART;
		fault->for_ms = below(rng, 200);
	}
	if (one_in(rng, 2))
		return;
	/* A death that no registry may ever notice. */
	plan->faults[plan->n_faults++] = (struct fault){
		.kind = FAULT_KILL,
		.process = below(rng, plan->n_processes),
		.at_ms = below(rng, 300),
	};
}

/*
 * Leases are long, for machines on which a process may get no processor for a
 * second; so are the stops that outlast them.
 */
#define LEASE_MS 3000
#define LONG_STOP_MS 5000

/* Longer than even long open timeouts. */
#define LONGER_STOP_MS 12000

/*
 * Stop a process that most likely has targets, with sources elsewhere that
 * attach meanwhile. They must learn of the lease's end before the end of the
 * stop or of their own wait limit.
 */
static void plan_lease_amid_opening(struct plan *plan, struct rng *rng)
{
	struct fault *fault = &plan->faults[plan->n_faults - 1];
	struct end_plan *end;
	uint32_t e;

	plan->is_patient = true;
	fault->process = plan->ends[plan->n_ends - 1].process;
	fault->at_ms = between(rng, 50, 250);
	fault->for_ms = LONGER_STOP_MS;
	for (e = 0; e < plan->n_sources; e++) {
		end = &plan->ends[e];
		if (end->process != fault->process)
			end->delay_ms = fault->at_ms + between(rng, 50, 250);
	}
}

static void plan_lease(struct plan *plan, struct rng *rng)
{
	struct fault *fault = &plan->faults[plan->n_faults++];

	plan->lease_ms = LEASE_MS;
	*fault = (struct fault){
		.kind = FAULT_STOP,
		.process = one_in(rng, 6) ? CREATOR
					  : below(rng, plan->n_processes),
		.at_ms = below(rng, 250),
		.for_ms = LONG_STOP_MS,
	};
	if (one_in(rng, 2))
		plan_lease_amid_opening(plan, rng);
}

/*
 * If open timeouts are as short as the time limit for the news of a death,
 * nothing separates the news from a timeout. With separate random numbers.
 * Without a registry it would only cost time.
 */
static void plan_wait_limits(struct plan *plan)
{
	struct rng rng = { .state = mix(plan->seed ^ 0x70617469) };

	if (one_in(&rng, 8) && !plan->loses_registry)
		plan->is_patient = true;
}

bool outlives_lease(const struct plan *plan, uint32_t process)
{
	uint32_t i;

	for (i = 0; plan->lease_ms && i < plan->n_faults; i++)
		if (plan->faults[i].process == process &&
		    plan->faults[i].kind == FAULT_STOP &&
		    plan->faults[i].for_ms > plan->lease_ms)
			return true;
	return false;
}

void make_plan(struct plan *plan, uint64_t seed, uint32_t volume)
{
	struct rng rng = { .state = mix(seed) };
	uint32_t e, what;

	memset(plan, 0, sizeof(*plan));
	plan->seed = seed;
	plan_flow(plan, &rng);
	plan_kind(plan);
	for (e = 0; e < plan->n_ends; e++)
		plan_end(plan, &rng, e, volume);
	/*
	 * A spinning endpoint takes a processor from the others, but no more.
	 */
	if (one_in(&rng, 4))
		plan->ends[below(&rng, plan->n_ends)].wait = DFI_WAIT_SPIN;
	what = below(&rng, 20);
	if (what < 3)
		plan_registry(plan, &rng);
	else if (what < 12)
		plan_fault(plan, &rng);
	if (what >= 6 && what < 9)
		plan_fault(plan, &rng);
	if (what == 0 || what >= 9)
		plan_act(plan, &rng);
	if (what == 18)
		plan_act(plan, &rng);
	for (e = plan->n_sources; e < plan->n_ends; e++)
		if (one_in(&rng, 6))
			plan->ends[e].style = STYLE_GROUP;
	plan->meets = one_in(&rng, 4);
	if (what == 19 && one_in(&rng, 2))
		plan_lease(plan, &rng);
	plan_wait_limits(plan);
}

static const char *const act_names[] = { "", "aborts", "is aborted", "leaves",
	"cancels", "exits", "kills itself" };

static void print_end(const struct end_plan *end)
{
	static const char *const styles[] = { "single", "batch", "cursor",
		"group" };
	static const char *const waits[] = { "default", "adaptive", "spin",
		"block" };

	printf("  %s %u in process %u%s, %s, %s%s",
	    end->is_source ? "source" : "target", end->index, end->process,
	    end->second_context ? "b" : "", styles[end->style],
	    waits[end->wait], end->nonblock ? ", polls" : "");
	if (end->is_source)
		printf(
		    ", %u tuples, flush %u", end->n_tuples, end->flush_every);
	if (end->pause_every)
		printf(", pauses every %u", end->pause_every);
	if (end->delay_ms)
		printf(", after %u ms", end->delay_ms);
	if (end->act)
		printf(", %s at %u", act_names[end->act], end->act_at);
	printf("\n");
}

void print_plan(const struct plan *plan)
{
	static const char *const kinds[] = { "kill", "stop", "restart",
		"lose" };
	const struct fault *fault;
	uint32_t i;

	printf("seed %lu: %s flow, %s%s, %s, tuples of %u, segments of %u, "
	       "%u of them\n",
	    (unsigned long)plan->seed,
	    plan->goal == DFI_LATENCY ? "latency" : "bandwidth",
	    plan->ordered ? "ordered " : "",
	    plan->kind == DFI_COMBINE ? "combiner"
		: !goes_to_all(plan)
		? plan->routing == DFI_ROUTE_DIRECT ? "direct" : "hash"
		: plan->replication ? "naive"
				    : "replicate",
	    plan->flags ? "persistent" : "not persistent", plan->tuple_size,
	    plan->segment_size, plan->segment_count);
	if (plan->meets)
		printf("  all processes meet first\n");
	if (plan->is_patient)
		printf("  long open timeouts\n");
	if (plan->lease_ms)
		printf("  leases of %u ms\n", plan->lease_ms);
	for (i = 0; i < plan->n_ends; i++)
		print_end(&plan->ends[i]);
	for (i = 0; i < plan->n_faults; i++) {
		fault = &plan->faults[i];
		printf("  %s ", kinds[fault->kind]);
		if (fault->process == REGISTRY)
			printf("registry");
		else if (fault->process == CREATOR)
			printf("creator");
		else
			printf("process %u", fault->process);
		printf(" at %u ms for %u ms\n", fault->at_ms, fault->for_ms);
	}
}

static uint64_t tuple_key(const struct plan *plan, uint32_t source, uint32_t n)
{
	return mix(plan->seed ^ mix((uint64_t)source << 32 | n));
}

uint32_t tuple_target(const struct plan *plan, uint32_t source, uint32_t n)
{
	uint64_t key = plan->kind == DFI_COMBINE ? source
						 : tuple_key(plan, source, n);

	return dfi_hash64_partition(key, plan->n_targets);
}

void make_tuple(const struct plan *plan, uint32_t source, uint32_t n,
    uint32_t number, void *tuple)
{
	struct chaos_tuple head = {
		.key = tuple_key(plan, source, n),
		.source = source,
		.n = n,
		.number = number,
		.target = tuple_target(plan, source, n),
	};
	unsigned char *bytes = tuple;
	uint32_t i;

	memcpy(bytes, &head, sizeof(head));
	for (i = sizeof(head); i < plan->tuple_size; i++)
		bytes[i] = tuple_byte(head.key, i);
}

bool check_tuple(const struct plan *plan, const void *tuple)
{
	const unsigned char *bytes = tuple;
	struct chaos_tuple head;
	uint32_t i;

	memcpy(&head, tuple, sizeof(head));
	if (head.source >= plan->n_sources ||
	    head.key != tuple_key(plan, head.source, head.n))
		return false;
	for (i = sizeof(head); i < plan->tuple_size; i++)
		if (bytes[i] != tuple_byte(head.key, i))
			return false;
	return true;
}

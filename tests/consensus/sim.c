/* SPDX-License-Identifier: Apache-2.0 */
/* A run: its plan, its events, and the checks. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/consensus/store_pairs.h"
#include "sim.h"

/* The longest time of requests and lagging replicas after the last fault. */
#define PROGRESS (1000 * MS)
#define MAX_EVENTS 3000000

void sim_fail(struct sim *sim, const char *format, ...)
{
	size_t n;
	va_list args;

	if (sim->failed)
		return;
	sim->failed = true;
	n = (size_t)snprintf(sim->failure, sizeof(sim->failure),
	    "at %.3f ms: ", (double)sim->now / 1e6);
	va_start(args, format);
	vsnprintf(sim->failure + n, sizeof(sim->failure) - n, format, args);
	va_end(args);
	trace(sim, "FAILED %s", sim->failure);
}

void sim_trace(struct sim *sim, const char *format, ...)
{
	va_list args;

	printf("%10.3f  ", (double)sim->now / 1e6);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

static void start_random(struct sim *sim)
{
	uint64_t x = sim->seed;
	int i;

	for (i = 0; i < 2; i++) {
		x += UINT64_C(0x9e3779b97f4a7c15);
		sim->random[i] = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		sim->random[i] ^= sim->random[i] >> 27;
	}
	sim->random[1] |= 1;
	for (i = 0; i < 20; i++)
		sim_random(sim);
}

/* As for the first run, but for memory that is used again. */
static void reset(struct sim *sim)
{
	struct sim_event event;
	unsigned i;

	while (sim_next(sim, &event))
		if (event.packet)
			sim_drop(sim, event.packet);
	for (i = 0; i < SIM_REPLICAS; i++)
		sim_replica_free(&sim->replicas[i]);
	sim_clients_drop(sim);
	memset(sim->replicas, 0, sizeof(sim->replicas));
	memset(sim->clients, 0, sizeof(sim->clients));
	memset(sim->cut, 0, sizeof(sim->cut));
	if (sim->slots)
		memset(sim->slots, 0, sim->n_slots * sizeof(*sim->slots));
	sim->now = sim->order = 0;
	sim->calm = sim->ending = sim->majority_lost = false;
	sim->failed = sim->unfit = false;
	sim->calm_at = sim->next_value = sim->history_time = 0;
	sim->applied = sim->proposed_config = sim->config_slot = 0;
	sim->history.n = 0;
}

static void start_all(struct sim *sim)
{
	struct sim_event fault = { .kind = SIM_FAULT };
	struct sim_event calm = { .kind = SIM_PHASE };
	struct sim_replica *replica;
	unsigned i;

	memset(&sim->config, 0, sizeof(sim->config));
	for (i = 0; i < sim->plan.n_members; i++)
		sim->config.members[i].incarnation = sim_random(sim) | 2;
	for (i = 0; i < sim->plan.n; i++) {
		replica = &sim->replicas[i];
		replica->sim = sim;
		replica->number = i;
		replica->skew = sim_chance(sim, 3000)
		    ? (int64_t)sim_below(sim, 200) - 100
		    : 0;
		replica->clock_offset = sim_below(sim, 1000 * MS);
		if (sim_replica_start(replica, true) && !sim->failed)
			sim_fail(sim, "replica %u can't start", i);
	}
	for (i = 0; i < sim->plan.n_clients; i++)
		sim_client_start(sim, i);
	sim_flow_start(sim);
	sim_add(sim, sim_below(sim, 2 * sim->plan.fault_pause), &fault);
	sim_add(sim, sim->plan.fault_time, &calm);
}

static void restart(struct sim *sim, const struct sim_event *event)
{
	struct sim_replica *replica = &sim->replicas[event->node];

	if (replica->life != SIM_DOWN ||
	    event->generation != replica->generation)
		return;
	if (sim_replica_start(replica, false) && !sim->failed)
		sim_fail(sim, "replica %u can't start again", event->node);
}

static void handle(struct sim *sim, const struct sim_event *event)
{
	struct sim_replica *replica;

	switch (event->kind) {
	case SIM_FAULT:
		sim_fault(sim);
		break;
	case SIM_PHASE:
		sim_heal(sim);
		break;
	case SIM_RENEW:
		sim_flow_renew(sim);
		break;
	case SIM_RESTART:
		restart(sim, event);
		break;
	case SIM_RESUME:
		replica = &sim->replicas[event->node];
		if (replica->life == SIM_PAUSED &&
		    event->generation == replica->generation)
			replica->life = SIM_UP;
		break;
	default:
		if (event->node >= SIM_REPLICAS)
			sim_client_event(sim, event);
		else
			sim_replica_event(sim, event);
		break;
	}
	if (event->packet)
		sim_drop(sim, event->packet);
}

/* A member that has not applied what others have, or -1. */
static int behind(const struct sim *sim)
{
	unsigned i;

	for (i = 0; i < sim->plan.n; i++) {
		const struct sim_replica *replica = &sim->replicas[i];

		if (sim->config.members[i].incarnation <= KV_VACANT)
			continue;
		if (replica->life != SIM_UP || !sim_remembers(sim, i) ||
		    kv_store_slot(paxos_store(replica->paxos)) < sim->applied)
			return (int)i;
	}
	return -1;
}

/* Whether all is done; fails if that takes too long. */
static bool is_over(struct sim *sim)
{
	uint64_t since = sim->now - sim->calm_at;
	unsigned pending;

	if (!sim->calm)
		return false;
	if (sim->majority_lost)
		return since > PROGRESS / 2;
	pending = sim_pending(sim);
	if (pending == 0 && behind(sim) < 0)
		return true;
	if (since > PROGRESS && pending)
		sim_fail(sim,
		    "%u requests are not answered, %llu ms after the "
		    "end of all faults",
		    pending, (unsigned long long)(since / MS));
	if (since > 2 * PROGRESS)
		sim_fail(sim,
		    "replica %d has not caught up, %llu ms after the "
		    "end of all faults",
		    behind(sim), (unsigned long long)(since / MS));
	return false;
}

static void check_history(struct sim *sim)
{
	struct lin_verdict verdict;
	char *text = NULL;
	size_t i, size;
	FILE *file;

	lin_check(sim->checker, sim->history.ops, sim->history.n, &verdict);
	if (verdict.answer == LIN_RIGHT)
		return;
	if (verdict.answer != LIN_WRONG) {
		sim_unfit(sim, "the history is too hard to check");
		return;
	}
	file = open_memstream(&text, &size);
	if (!file)
		abort();
	lin_print(&sim->history, &verdict.stuck, file);
	fclose(file);
	sim_fail(sim,
	    "not linearizable: key %" PRIu64 " is %" PRIu64
	    " after %zu of %zu operations; stuck: %s",
	    verdict.key, verdict.value, verdict.n_explained, verdict.n_ops,
	    text);
	free(text);
	for (i = 0; sim->trace && i < sim->history.n; i++)
		if (sim->history.ops[i].key == verdict.key) {
			lin_print(&sim->history, &sim->history.ops[i], stdout);
			putchar('\n');
		}
}

int sim_run(struct sim *sim)
{
	struct sim_event event;
	uint64_t n = 0;

	if (!sim->checker)
		sim->checker = lin_checker_new();
	if (!sim->checker)
		abort();
	if (sim->bugs & SIM_BUG_EXIT)
		_exit(1);
	kv_store_no_filter = (sim->bugs & PAXOS_BUG_DUPLICATES) != 0;
	kv_store_slot_filter = (sim->bugs & PAXOS_BUG_SLOT_FILTER) != 0;
	reset(sim);
	start_random(sim);
	sim_plan(sim);
	start_all(sim);
	while (!sim->failed && sim_next(sim, &event)) {
		handle(sim, &event);
		if (++n > MAX_EVENTS)
			sim_unfit(sim, "the run does not end");
		if (is_over(sim))
			break;
	}
	if (!sim->failed && sim->majority_lost &&
	    sim->counts.answers_no_quorum == sim->quiet_answers)
		sim_fail(
		    sim, "a majority has forgotten, and no client is told");
	sim_client_end(sim);
	if (!sim->failed)
		check_history(sim);
	sim->counts.events += n;
	sim->counts.runs++;
	return sim->failed ? -1 : 0;
}

void sim_free(struct sim *sim)
{
	struct sim_packet *packet;
	int i;

	reset(sim);
	for (i = 0; i < 2; i++)
		while ((packet = sim->free[i])) {
			sim->free[i] = packet->next;
			free(packet);
		}
	free(sim->heap);
	free(sim->slots);
	lin_free(&sim->history);
	lin_checker_free(sim->checker);
}

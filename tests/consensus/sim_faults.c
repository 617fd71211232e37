/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The faults of a run. They stay within the limits of a store: a majority of
 * the members remembers its promises, unless the plan is to lose that, and
 * nobody removes members so that those that remember are no majority.
 */
#include <string.h>

#include "sim.h"

static uint64_t one_of(struct sim *sim, const uint64_t *values, size_t n)
{
	return values[sim_below(sim, n)];
}
#define ONE_OF(sim, ...)                               \
	one_of(sim, (const uint64_t[]){ __VA_ARGS__ }, \
	    sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

void sim_plan(struct sim *sim)
{
	struct sim_plan *plan = &sim->plan;
	unsigned disks;

	memset(plan, 0, sizeof(*plan));
	plan->n = (unsigned)ONE_OF(
	    sim, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5);
	plan->n_members = plan->n;
	if (plan->n > 1 && sim_chance(sim, 2000))
		plan->n_members -= (unsigned)sim_below(sim, plan->n);
	plan->n_clients = 1 + (unsigned)sim_below(sim, SIM_CLIENTS);
	plan->n_lanes = 1 + (unsigned)sim_below(sim, SIM_LANES);
	plan->n_keys = 1 + (unsigned)sim_below(sim, SIM_KEYS);
	plan->lose = (unsigned)ONE_OF(sim, 0, 0, 100, 500, 1500);
	plan->repeat = (unsigned)ONE_OF(sim, 0, 0, 200, 1000);
	plan->be_late = (unsigned)ONE_OF(sim, 0, 20, 100, 300);
	plan->refuse = (unsigned)ONE_OF(sim, 0, 0, 300, 1500);
	plan->lose_segments = (unsigned)ONE_OF(sim, 0, 50, 200, 1000);
	plan->delay = ONE_OF(sim, 30, 100, 300, 1000) * US;
	plan->sync = ONE_OF(sim, 30, 100, 1000) * US;
	plan->value_bytes = (unsigned)ONE_OF(sim, 0, 100, 1000, 4000);
	plan->message_bytes = (size_t)ONE_OF(sim, 0, 400, 1000, 5000);
	plan->window = (uint32_t)ONE_OF(sim, 2, 8, 64);
	plan->read_share = (unsigned)ONE_OF(sim, 0, 50, 100);
	plan->fault_time = (80 + sim_below(sim, 200)) * MS;
	plan->fault_pause = (2 + sim_below(sim, 20)) * MS;
	plan->session_ns = ONE_OF(sim, 0, 0, 40) * MS;
	plan->lose_majority = sim_chance(sim, 100);
	disks = (unsigned)sim_below(sim, 3);
	for (unsigned i = 0; i < plan->n; i++)
		sim->replicas[i].disk.exists = disks == 0 ||
		    (disks == 1 && sim_chance(sim, 5000));
	if (!sim->core->deliver)
		return;
	plan->batch_bytes = (size_t)ONE_OF(sim, 0, 500, 4000, KV_MAX_COMMAND);
	plan->batch_wait = ONE_OF(sim, 0, 100, 1000) * US;
}

/* Whether a configuration may be chosen that nobody has applied. */
static bool is_changing(const struct sim *sim)
{
	unsigned i;

	if (sim->proposed_config > sim->applied)
		return true;
	for (i = 0; i < sim->plan.n; i++)
		if (sim->replicas[i].life != SIM_DOWN &&
		    sim->core->changing(&sim->replicas[i]))
			return true;
	return false;
}

static unsigned remembering(const struct sim *sim)
{
	unsigned i, n = 0;

	for (i = 0; i < sim->plan.n; i++)
		n += sim_remembers(sim, i);
	return n;
}

/*
 * Whether another replica, which is not changed, knows that the newest
 * configuration is chosen. Otherwise the members of the one before would have
 * to choose it again.
 */
static bool is_known(const struct sim *sim, unsigned without)
{
	unsigned i;

	for (i = 0; i < sim->plan.n; i++)
		if (i != without && sim_remembers(sim, i) &&
		    sim_known_slot(&sim->replicas[i]) >= sim->config_slot)
			return true;
	return false;
}

/*
 * A member may forget if a majority of all numbers still remembers: that is
 * enough for any configuration that joins and leaves can lead to.
 */
static bool may_forget(const struct sim *sim, unsigned number)
{
	unsigned left = remembering(sim) - sim_remembers(sim, number);

	return !is_changing(sim) && left > sim->plan.n / 2 &&
	    is_known(sim, number);
}

static void restart_later(struct sim *sim, unsigned number, uint64_t wait)
{
	struct sim_event event = { .kind = SIM_RESTART,
		.node = (uint16_t)number,
		.generation = sim->replicas[number].generation };

	sim_add(sim, sim->now + wait, &event);
}

static void crash(struct sim *sim, unsigned number, bool forget)
{
	struct sim_replica *replica = &sim->replicas[number];

	forget |= !replica->disk.exists;
	if (replica->life == SIM_DOWN || (forget && !may_forget(sim, number)))
		return;
	sim_replica_crash(replica, forget);
	restart_later(sim, number,
	    sim_chance(sim, 3000) ? sim_below(sim, MS)
				  : sim_below(sim, 60 * MS));
}

static void pause_replica(struct sim *sim, unsigned number)
{
	struct sim_replica *replica = &sim->replicas[number];
	struct sim_event event = { .kind = SIM_RESUME,
		.node = (uint16_t)number,
		.generation = replica->generation };

	if (replica->life != SIM_UP)
		return;
	trace(sim, "%u stops", number);
	sim->counts.pauses++;
	replica->life = SIM_PAUSED;
	replica->resume_at = sim->now + sim_below(sim, 60 * MS);
	sim_add(sim, replica->resume_at, &event);
}

static void cut_ways(struct sim *sim, unsigned number)
{
	unsigned how = (unsigned)sim_below(sim, 5), i, j;

	sim->counts.cuts++;
	trace(sim, "ways are cut: %u of %u", how, number);
	for (i = 0; i < sim->plan.n; i++)
		for (j = 0; j < sim->plan.n; j++) {
			if (how == 0)
				sim->cut[i][j] |= i == number || j == number;
			else if (how == 1)
				sim->cut[i][j] |= i == number;
			else if (how == 2)
				sim->cut[i][j] |= j == number;
			else if (how == 3)
				sim->cut[i][j] = sim_chance(sim, 3000);
			else
				sim->cut[i][j] = (i <= number) != (j <= number);
		}
}

static void change_members(struct sim *sim)
{
	struct kv_config config = sim->config;
	unsigned i, number = (unsigned)sim_below(sim, sim->plan.n);
	uint64_t *place = &config.members[number].incarnation;
	unsigned left = remembering(sim), members;
	struct sim_replica *leader;

	if (is_changing(sim))
		return;
	if (*place) {
		left -= sim_remembers(sim, number);
		*place = 0;
	} else {
		*place = KV_VACANT;
	}
	members = kv_config_members(&config);
	if (left <= sim->plan.n / 2 || left <= members / 2)
		return;
	for (i = 0; i < sim->plan.n; i++) {
		leader = &sim->replicas[i];
		if (leader->life == SIM_UP &&
		    paxos_role(leader->paxos) == PAXOS_LEADER) {
			if (sim->core->make_way)
				sim->core->make_way(leader, sim_local(leader));
			trace(sim, "%u is asked to %s %u", i,
			    *place ? "make a place for" : "take out", number);
			paxos_reconfigure(
			    leader->paxos, sim_local(leader), &config);
		}
	}
}

/* More members forget than the store can bear: it must not serve again. */
static void lose_majority(struct sim *sim)
{
	unsigned i, keep = (kv_config_members(&sim->config) - 1) / 2;

	if (is_changing(sim) || sim->majority_lost)
		return;
	trace(sim, "a majority forgets");
	for (i = 0; i < sim->plan.n; i++) {
		if (!sim_remembers(sim, i))
			continue;
		if (keep > 0 && sim->replicas[i].disk.exists) {
			keep--;
			continue;
		}
		if (sim->replicas[i].life != SIM_DOWN)
			sim_replica_crash(&sim->replicas[i], true);
		else
			sim_disk_crash(&sim->replicas[i], true);
		sim->replicas[i].forgets = true;
		restart_later(sim, i, sim_below(sim, 20 * MS));
	}
	sim->majority_lost = true;
	sim->majority_lost_at = sim->now;
	sim->counts.majorities_lost++;
}

/* The victim: often the leader. */
static unsigned victim(struct sim *sim)
{
	unsigned i, number = (unsigned)sim_below(sim, sim->plan.n);

	if (sim_chance(sim, 5000))
		for (i = 0; i < sim->plan.n; i++)
			if (sim->replicas[i].life == SIM_UP &&
			    paxos_role(sim->replicas[i].paxos) == PAXOS_LEADER)
				number = i;
	return number;
}

/* It hears the others, and clients hear it, but no replica does. */
void sim_mute(struct sim *sim, unsigned number)
{
	unsigned i;

	trace(sim, "%u is heard no more", number);
	sim->counts.cuts++;
	for (i = 0; i < sim->plan.n; i++)
		sim->cut[number][i] = true;
}

void sim_fault(struct sim *sim)
{
	struct sim_event event = { .kind = SIM_FAULT };
	unsigned number = victim(sim);
	unsigned c = (unsigned)sim_below(sim, sim->plan.n_clients);

	if (sim->calm)
		return;
	if (sim_chance(sim, 500))
		sim_flow_end(sim);
	switch (sim_below(sim, 12)) {
	case 0:
	case 1:
		crash(sim, number, false);
		break;
	case 2:
	case 3:
		crash(sim, number, true);
		break;
	case 4:
		pause_replica(sim, number);
		break;
	case 5:
		sim->clients[c].resume_at = sim->now + sim_below(sim, 60 * MS);
		break;
	case 6:
	case 7:
		cut_ways(sim, number);
		break;
	case 8:
	case 9:
		memset(sim->cut, 0, sizeof(sim->cut));
		break;
	default:
		change_members(sim);
		break;
	}
	if (sim->plan.lose_majority && sim->now > sim->plan.fault_time / 2)
		lose_majority(sim);
	sim_add(
	    sim, sim->now + sim_below(sim, 2 * sim->plan.fault_pause), &event);
}

/* The end of all faults. */
void sim_heal(struct sim *sim)
{
	unsigned i;

	trace(sim, "faults end");
	sim->calm = true;
	sim->calm_at = sim->now;
	sim->quiet_answers = sim->counts.answers_no_quorum;
	memset(sim->cut, 0, sizeof(sim->cut));
	for (i = 0; i < sim->plan.n; i++) {
		struct sim_replica *replica = &sim->replicas[i];

		if (replica->life == SIM_DOWN) {
			restart_later(sim, i, 0);
		} else if (replica->life == SIM_PAUSED) {
			replica->life = SIM_UP;
			replica->resume_at = sim->now;
		}
	}
	for (i = 0; i < sim->plan.n_clients; i++)
		sim_client_calm(sim, i);
	sim->ending = true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ordered flow between the replicas. A segment draws a number from a counter
 * in one replica, and reaches all replicas in the order of numbers; a replica
 * that misses it is told. A gateway that stops after its draw holds up all
 * later segments. When a replica crashes, the flow may end, and it ends with
 * the counter's holder; the replicas learn of it one by one. A new flow needs
 * the registry, which may be dead for a while, and goes to the running
 * replicas.
 */
#include <string.h>

#include "sim.h"

static void announce(struct sim *sim, unsigned r, bool open)
{
	struct sim_flow *flow = &sim->flow;
	uint64_t at = sim->now + sim_below(sim, 4 * MS);
	struct sim_event event = { .kind = SIM_FLOW,
		.node = (uint16_t)r,
		.lane = open,
		.generation = flow->generations[r],
		.packet = sim_packet(sim, sizeof(struct kv_message)) };

	/* Segments under way arrive first, or never. */
	sim_message(event.packet)->session = flow->id;
	sim_add(sim, at, &event);
	if (open)
		flow->arrived[r] = at;
}

void sim_flow_renew(struct sim *sim)
{
	struct sim_flow *flow = &sim->flow;
	unsigned i;

	if (flow->alive)
		return;
	flow->alive = true;
	flow->id++;
	flow->counter = flow->members = 0;
	flow->still_until = 0;
	flow->holder = (unsigned)sim_below(sim, sim->plan.n);
	for (i = 0; i < sim->plan.n; i++) {
		if (sim->replicas[i].life == SIM_DOWN)
			continue;
		if (!(flow->members >> flow->holder & 1))
			flow->holder = i;
		flow->members |= UINT32_C(1) << i;
		flow->generations[i] = sim->replicas[i].generation;
		announce(sim, i, true);
	}
	sim->counts.flows++;
	trace(sim, "flow %llu opens, its counter with %u",
	    (unsigned long long)flow->id, flow->holder);
}

static void renew_later(struct sim *sim)
{
	struct sim_event event = { .kind = SIM_RENEW };
	uint64_t wait = sim_below(sim, 20 * MS);

	if (!sim->calm && sim_chance(sim, 2000)) {
		trace(sim, "the registry is dead");
		sim->counts.registries_dead++;
		wait += 50 * MS + sim_below(sim, 100 * MS);
	}
	sim_add(sim, sim->now + wait, &event);
}

void sim_flow_start(struct sim *sim)
{
	memset(&sim->flow, 0, sizeof(sim->flow));
	if (sim->core->deliver)
		renew_later(sim);
}

void sim_flow_end(struct sim *sim)
{
	struct sim_flow *flow = &sim->flow;
	unsigned i;

	if (!flow->alive)
		return;
	flow->alive = false;
	trace(sim, "flow %llu ends", (unsigned long long)flow->id);
	for (i = 0; i < sim->plan.n; i++)
		if ((flow->members >> i & 1) && !sim_chance(sim, 2000))
			announce(sim, i, false);
	renew_later(sim);
}

void sim_flow_crash(struct sim *sim, unsigned number)
{
	struct sim_flow *flow = &sim->flow;

	if (!flow->alive || !(flow->members >> number & 1))
		return;
	if (number == flow->holder)
		sim->counts.holders_lost++;
	if (number == flow->holder || sim_chance(sim, 6000))
		sim_flow_end(sim);
}

static void send_segment(struct sim *sim, unsigned r, uint64_t n,
    const struct kv_command *command, uint64_t at)
{
	size_t size = command ? kv_command_size(command) : 0;
	struct sim_packet *packet = sim_packet(
	    sim, sizeof(struct kv_message) + size);
	struct kv_message *m = sim_message(packet);
	struct sim_event event = { .kind = SIM_SEGMENT,
		.node = (uint16_t)r,
		.generation = sim->flow.generations[r],
		.packet = packet };

	memset(m, 0, sizeof(*m));
	m->session = sim->flow.id;
	m->number = n;
	m->size = (uint32_t)(sizeof(*m) + size);
	if (size)
		memcpy(m->body, command, size);
	sim_add(sim, at, &event);
}

/* From a replica's gateway. A flow that has ended loses it. */
void sim_publish(struct sim_replica *replica, const struct kv_command *command)
{
	struct sim *sim = replica->sim;
	struct sim_flow *flow = &sim->flow;
	uint64_t n, at;
	unsigned i;

	if (!flow->alive || replica->flow != flow->id)
		return;
	n = flow->counter++;
	sim->counts.segments++;
	if (!sim->calm && sim_chance(sim, 20)) {
		sim->counts.gateways_stopped++;
		flow->still_until = sim->now + sim_below(sim, 40 * MS);
	}
	for (i = 0; i < sim->plan.n; i++) {
		if (!(flow->members >> i & 1))
			continue;
		at = sim->now + 10 * US + sim_below(sim, sim->plan.delay);
		if (at < flow->arrived[i])
			at = flow->arrived[i];
		if (at < flow->still_until)
			at = flow->still_until;
		flow->arrived[i] = at;
		if (sim->calm || !sim_chance(sim, sim->plan.lose_segments)) {
			send_segment(sim, i, n, command, at);
			continue;
		}
		sim->counts.segments_lost++;
		/* The worst time: nobody receives its decision. */
		if (sim->replicas[i].life == SIM_UP &&
		    paxos_role(sim->replicas[i].paxos) == PAXOS_LEADER &&
		    sim_chance(sim, 2000))
			sim_mute(sim, i);
		send_segment(sim, i, n, NULL, at);
		if (sim_chance(sim, 3000))
			send_segment(
			    sim, i, n, command, at + sim_below(sim, 3 * MS));
	}
}

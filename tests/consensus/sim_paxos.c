/* SPDX-License-Identifier: Apache-2.0 */
/* The Multi-Paxos core in a simulated replica. */
#include <errno.h>

#include "sim.h"
#include "examples/consensus/paxos_impl.h"

static int start(struct sim_replica *replica, struct kv_store *store)
{
	struct sim *sim = replica->sim;
	struct paxos_setup setup = {
		.cluster = 7,
		.incarnation = replica->incarnation,
		.self = replica->number,
		.n_replicas = sim->plan.n,
		.seed = sim_random(sim),
		.heartbeat_ns = MS,
		.election_ns = 8 * MS,
		.session_ns = sim->plan.session_ns,
		.log_bytes = KV_LOG_MIN,
		.window = sim->plan.window,
		.message_bytes = sim->plan.message_bytes,
		.bugs = sim->bugs % SIM_NOPAXOS_BUGS,
	};

	replica->paxos = paxos_new(&setup,
	    replica->disk.exists ? &sim_disk_ops : &sim_ops, replica, store);
	return replica->paxos ? 0 : -ENOMEM;
}

static void stop(struct sim_replica *replica)
{
	paxos_free(replica->paxos);
	replica->paxos = NULL;
}

static void receive(
    struct sim_replica *replica, uint64_t now, const struct kv_message *message)
{
	paxos_receive(replica->paxos, now, message);
}

static void tick(struct sim_replica *replica, uint64_t now)
{
	paxos_tick(replica->paxos, now);
}

static uint64_t due(const struct sim_replica *replica)
{
	return paxos_due(replica->paxos);
}

static void flush(struct sim_replica *replica, uint64_t now)
{
	paxos_flush(replica->paxos, now);
}

static uint8_t propose(
    struct sim_replica *replica, uint64_t now, const struct kv_command *command)
{
	uint8_t refused;

	paxos_propose(replica->paxos, now, (const char *)command,
	    kv_command_size(command), &refused);
	return refused;
}

static uint64_t changing(const struct sim_replica *replica)
{
	const struct paxos *paxos = replica->paxos;
	uint64_t slot;

	for (slot = paxos->log.last; slot > paxos->commit; slot--)
		if (kv_log_has(&paxos->log, slot) &&
		    kv_log_at(&paxos->log, slot)->command.op == KV_CONFIG)
			return slot;
	return 0;
}

static void synced(struct sim_replica *replica, uint64_t now, uint64_t position)
{
	paxos_synced(replica->paxos, now, position);
}

const struct sim_core sim_paxos = {
	.name = "paxos",
	.start = start,
	.stop = stop,
	.receive = receive,
	.tick = tick,
	.due = due,
	.flush = flush,
	.propose = propose,
	.changing = changing,
	.synced = synced,
};

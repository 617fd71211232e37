/* SPDX-License-Identifier: Apache-2.0 */
/* The NOPaxos core in a simulated replica. */
#include <errno.h>
#include <inttypes.h>

#include "examples/consensus/nopaxos_impl.h"
#include "sim.h"

static void answer(void *arg, uint64_t slot, kv_ballot ballot, unsigned members,
    const struct kv_command *command, const struct kv_result *result)
{
	const struct kv_message head = { .ballot = ballot,
		.slot = slot,
		.count = (uint16_t)members,
		.session = command->session,
		.number = command->number,
		.lane = command->lane,
		.type = KV_REPLY,
		.status = result->status };

	sim_answer(arg, command->client, &head, result);
}

/* Some clients hear only of a later slot. */
static void vote(void *arg, uint64_t slot, kv_ballot ballot, uint64_t leader,
    const struct kv_command *slot_command)
{
	const struct kv_command *command = kv_slot_first(slot_command);
	const struct kv_message head = { .ballot = ballot,
		.slot = slot,
		.session = leader,
		.type = KV_VOTE };
	struct sim_replica *replica = arg;

	for (; command; command = kv_slot_next(slot_command, command))
		if (replica->sim->calm || !sim_chance(replica->sim, 2000))
			sim_answer(replica, command->client, &head, NULL);
}

static void publish(void *arg, const struct kv_command *command)
{
	sim_publish(arg, command);
}

static const struct nopaxos_ops ops = { answer, vote, publish };

static int start(struct sim_replica *replica, struct kv_store *store)
{
	struct sim *sim = replica->sim;
	struct nopaxos_setup setup = {
		.probe_ns = 2 * MS,
		.quiet_ns = 8 * MS,
		.reopen_ns = sim->plan.delay * 10,
		.window = 64,
		.stash_bytes = 0,
		.bugs = sim->bugs / SIM_NOPAXOS_BUGS & 0x1f,
	};

	if (sim_paxos.start(replica, store))
		return -ENOMEM;
	replica->extra = nopaxos_new(&setup, &ops, replica, replica->paxos);
	return replica->extra ? 0 : -ENOMEM;
}

static void stop(struct sim_replica *replica)
{
	struct sim_counts *counts = &replica->sim->counts;
	struct nopaxos_stats stats;

	nopaxos_query(replica->extra, &stats);
	counts->fast_opened += stats.opened;
	counts->fast_ended += stats.ended;
	counts->accepted += stats.accepted;
	counts->gaps_decided += stats.gaps_decided;
	counts->gaps_taken += stats.gaps_taken;
	counts->gaps_over += stats.gaps_over;
	counts->gaps_asked += stats.gaps_asked;
	counts->gaps_filled += stats.gaps_filled;
	counts->stashed += stats.stashed;
	counts->stash_full += stats.dropped;
	counts->executed += stats.executed;
	counts->barriers += stats.barriers;
	nopaxos_free(replica->extra);
	replica->extra = NULL;
	sim_paxos.stop(replica);
}

static void receive(
    struct sim_replica *replica, uint64_t now, const struct kv_message *message)
{
	nopaxos_receive(replica->extra, now, message);
}

static void tick(struct sim_replica *replica, uint64_t now)
{
	nopaxos_tick(replica->extra, now);
}

static uint64_t due(const struct sim_replica *replica)
{
	return nopaxos_due(replica->extra);
}

static void flush(struct sim_replica *replica, uint64_t now)
{
	nopaxos_flush(replica->extra, now);
}

static void synced(struct sim_replica *replica, uint64_t now, uint64_t position)
{
	nopaxos_synced(replica->extra, now, position);
}

static void publish_batch(struct sim_replica *replica)
{
	struct kv_batch *batch = &replica->batch;
	struct sim_counts *counts = &replica->sim->counts;

	if (!batch->n)
		return;
	counts->batches += batch->n > 1;
	counts->batched += batch->n > 1 ? batch->n : 0;
	sim_publish(replica, batch->slot);
	batch->n = 0;
}

/* Requests that come close together share a segment if they fit. */
static uint8_t propose(
    struct sim_replica *replica, uint64_t now, const struct kv_command *command)
{
	struct kv_batch *batch = &replica->batch;
	struct sim *sim = replica->sim;
	struct sim_event event = { .kind = SIM_BATCH,
		.node = (uint16_t)replica->number,
		.generation = replica->generation };

	if (!nopaxos_is_open(replica->extra))
		return sim_paxos.propose(replica, now, command);
	if (batch->n && batch->n < SIM_COMMANDS && kv_batch_add(batch, command))
		return KV_OK;
	publish_batch(replica);
	if (kv_command_size(command) > sim->plan.batch_bytes) {
		sim_publish(replica, command);
		return KV_OK;
	}
	kv_batch_begin(batch, replica->batch_words, sim->plan.batch_bytes);
	kv_batch_add(batch, command);
	sim_add(
	    sim, sim->now + sim_below(sim, sim->plan.batch_wait + 1), &event);
	return KV_OK;
}

static uint64_t changing(const struct sim_replica *replica)
{
	return sim_paxos.changing(replica);
}

static bool orders(const struct sim_replica *replica)
{
	return nopaxos_is_open(replica->extra);
}

static bool applied(
    struct sim_replica *replica, uint64_t slot, const struct kv_result *result)
{
	struct nopaxos_stats stats;
	bool answered;

	if (!replica->extra)
		return false;
	answered = nopaxos_applied(replica->extra, slot, result);
	nopaxos_query(replica->extra, &stats);
	if (stats.wrong)
		sim_fail(replica->sim,
		    "replica %u has answered for slot %" PRIu64
		    " what the store does not say",
		    replica->number, slot);
	return answered;
}

/*
 * A flow opens, or has ended; or a segment, without body if it was missed; or
 * requests have waited for others.
 */
static void deliver(
    struct sim_replica *replica, uint64_t now, const struct sim_event *event)
{
	const struct kv_message *m;

	if (event->kind == SIM_BATCH) {
		publish_batch(replica);
		return;
	}
	m = sim_message(event->packet);
	if (event->kind == SIM_FLOW) {
		if (!event->lane && replica->flow != m->session)
			return;
		replica->flow = event->lane ? m->session : 0;
		nopaxos_flow(replica->extra, replica->flow, 0);
		return;
	}
	if (m->size == sizeof(*m))
		nopaxos_gap(replica->extra, now, m->session, m->number, 1);
	else
		nopaxos_deliver(replica->extra, now, m->session, m->number,
		    (const void *)m->body, m->size - sizeof(*m));
}

/* Changes of the members can wait no longer. */
static void make_way(struct sim_replica *replica, uint64_t now)
{
	nopaxos_end(replica->extra, now);
}

const struct sim_core sim_nopaxos = {
	.name = "nopaxos",
	.start = start,
	.stop = stop,
	.receive = receive,
	.tick = tick,
	.due = due,
	.flush = flush,
	.propose = propose,
	.changing = changing,
	.synced = synced,
	.orders = orders,
	.applied = applied,
	.deliver = deliver,
	.make_way = make_way,
};

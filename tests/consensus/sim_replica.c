/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replica: the core, and a program that takes requests of clients, answers
 * them, and restarts after a crash. Each command that it applies, and its
 * state, is compared with those of other replicas at that slot.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

uint64_t sim_local(const struct sim_replica *replica)
{
	uint64_t now = replica->sim->now;

	return replica->clock_offset + now +
	    (uint64_t)((int64_t)(now / 1000) * replica->skew);
}

/*
 * Whether a member, running or not, has all its promises and accepted entries.
 */
bool sim_remembers(const struct sim *sim, unsigned number)
{
	const struct sim_replica *replica = &sim->replicas[number];
	uint64_t member = sim->config.members[number].incarnation;

	return member > KV_VACANT && member == replica->incarnation &&
	    !replica->forgets;
}

/* ---- What the core asks for ------------------------------------------------
 */

static struct kv_message *begin(
    void *arg, bool client, unsigned to, size_t size)
{
	struct sim_replica *replica = arg;
	struct sim *sim = replica->sim;

	if (client || size > KV_MAX_MESSAGE || to >= sim->plan.n) {
		sim_fail(sim, "replica %u begins a message of %zu bytes to %u",
		    replica->number, size, to);
		return NULL;
	}
	if (!sim->calm && sim_chance(sim, sim->plan.refuse)) {
		sim->counts.refused++;
		return NULL;
	}
	if (replica->begun)
		sim_drop(sim, replica->begun);
	replica->begun = sim_packet(sim, size);
	replica->begun_to = to;
	return sim_message(replica->begun);
}

/* All configurations ever proposed; any of them may make members. */
static void note_configs(struct sim *sim, const struct kv_message *message)
{
	const char *at = message->body;
	const struct kv_entry *entry;
	unsigned i;

	if (message->type != KV_ACCEPT && message->type != KV_PROMISE)
		return;
	for (i = 0; i < message->count; i++) {
		entry = (const void *)at;
		if (entry->command.op == KV_CONFIG &&
		    entry->slot > sim->proposed_config)
			sim->proposed_config = entry->slot;
		at += kv_entry_size(entry);
	}
}

static void send(void *arg, struct kv_message *message)
{
	struct sim_replica *replica = arg;
	struct sim_packet *packet = replica->begun;

	if (!packet || message != sim_message(packet) ||
	    !kv_message_valid(message, message->size)) {
		sim_fail(replica->sim, "replica %u sends a bad message: %s",
		    replica->number, sim_message_text(message));
		return;
	}
	replica->begun = NULL;
	note_configs(replica->sim, message);
	sim_send(replica->sim, replica->number, replica->begun_to, packet);
}

static uint64_t command_hash(const struct kv_command *command)
{
	size_t i, n = kv_command_size(command) / 8;
	uint64_t hash = n, word;

	for (i = 0; i < n; i++) {
		memcpy(&word, (const char *)command + 8 * i, 8);
		if (i == offsetof(struct kv_command, client) / 8) {
			struct kv_command bare = *command;

			bare.client = 0;
			memcpy(&word, (const char *)&bare + 8 * i, 8);
		}
		hash = (hash ^ word) * UINT64_C(0x9fb21c651e98df25);
		hash ^= hash >> 32;
	}
	return hash | 1;
}

static struct sim_slot *slot_at(struct sim *sim, uint64_t slot)
{
	uint64_t n = sim->n_slots ? sim->n_slots : 1024;

	if (slot >= sim->n_slots) {
		while (n <= slot)
			n *= 2;
		sim->slots = realloc(sim->slots, n * sizeof(*sim->slots));
		if (!sim->slots)
			abort();
		memset(sim->slots + sim->n_slots, 0,
		    (n - sim->n_slots) * sizeof(*sim->slots));
		sim->n_slots = n;
	}
	return &sim->slots[slot];
}

/* The state of a slot is the same on all replicas. */
static void compare_store(struct sim_replica *replica)
{
	const struct kv_store *store = paxos_store(replica->paxos);
	uint64_t slot = kv_store_slot(store), digest;
	struct sim *sim = replica->sim;
	struct sim_slot *at;

	if (slot == replica->compared)
		return;
	if (slot < replica->compared)
		sim_fail(sim,
		    "replica %u goes back from slot %" PRIu64 " to %" PRIu64,
		    replica->number, replica->compared, slot);
	replica->compared = slot;
	if (slot == 0)
		return;
	at = slot_at(sim, slot);
	digest = kv_store_digest(store) | 1;
	if (at->digest && at->digest != digest)
		sim_fail(sim,
		    "replica %u has another state at slot %" PRIu64
		    " than one before",
		    replica->number, slot);
	sim->counts.compared += at->digest != 0;
	at->digest = digest;
}

static void new_config(struct sim *sim, uint64_t slot)
{
	unsigned i;

	for (i = 0; i < sim->plan.n; i++) {
		const struct kv_store *store;

		if (sim->replicas[i].life == SIM_DOWN)
			continue;
		store = paxos_store(sim->replicas[i].paxos);
		if (kv_store_slot(store) != slot)
			continue;
		sim->config = *kv_store_config(store);
		sim->config_slot = slot;
	}
}

void sim_answer(struct sim_replica *replica, unsigned client,
    const struct kv_message *head, const struct kv_result *result)
{
	size_t size = result && result->value ? result->value_size : 0;
	struct sim *sim = replica->sim;
	struct sim_packet *packet;
	struct kv_message *m;

	if (client >= sim->plan.n_clients)
		return;
	packet = sim_packet(sim, sizeof(*m) + size);
	m = sim_message(packet);
	*m = *head;
	m->from = (uint8_t)replica->number;
	m->incarnation = replica->incarnation;
	m->commit = result && result->value;
	m->argument = (uint64_t)(int64_t)paxos_leader(replica->paxos);
	m->size = (uint32_t)(sizeof(*m) + size);
	if (size)
		memcpy(m->body, result->value, size);
	sim_send(sim, replica->number, SIM_REPLICAS + client, packet);
}

static void reply(struct sim_replica *replica, const struct sim_ask *ask,
    uint8_t status, const struct kv_result *result)
{
	const struct kv_message head = { .session = ask->session,
		.number = ask->number,
		.lane = ask->lane,
		.ballot = paxos_ballot(replica->paxos),
		.type = KV_REPLY,
		.status = status };

	sim_answer(replica, ask->client, &head, result);
}

static struct sim_ask ask_of(const struct kv_command *command)
{
	return (struct sim_ask){ command->session, command->number,
		command->lane, command->client };
}

/* A slot's commands are the same on all replicas. */
static void compare_command(struct sim_replica *replica, uint64_t slot,
    const struct kv_command *command)
{
	struct sim_slot *at = slot_at(replica->sim, slot);
	uint64_t hash = command_hash(command);
	unsigned n;

	n = replica->applied == slot ? replica->applied_n : 0;
	replica->applied = slot;
	replica->applied_n = n + 1;
	if (n >= SIM_COMMANDS || (at->commands[n] && at->commands[n] != hash)) {
		sim_fail(replica->sim,
		    "replica %u applies another command at slot "
		    "%" PRIu64 " than one before",
		    replica->number, slot);
		return;
	}
	at->commands[n] = hash;
}

static void applied(void *arg, uint64_t slot, const struct kv_command *command,
    const struct kv_result *result)
{
	struct sim_replica *replica = arg;
	struct sim *sim = replica->sim;
	struct sim_ask ask = ask_of(command);

	compare_command(replica, slot, command);
	trace(sim,
	    "%u applies slot %" PRIu64 ": op %u session %" PRIu64
	    " lane %u number %" PRIu64 " status %u",
	    replica->number, slot, command->op, command->session, command->lane,
	    command->number, result->status);
	if (slot > sim->applied)
		sim->applied = slot;
	if (command->op == KV_CONFIG && slot > sim->config_slot)
		new_config(sim, slot);
	if (sim->core->applied && sim->core->applied(replica, slot, result))
		return;
	if (command->op < KV_GET || command->op > KV_REGISTER)
		return;
	if (command->op == KV_REGISTER)
		ask.session = result->session;
	/* Any replica may answer a chosen command. */
	if (paxos_leader(replica->paxos) == (int)replica->number ||
	    sim_chance(sim, 1000))
		reply(replica, &ask, result->status, result);
}

static void changed(void *arg)
{
	struct sim_replica *replica = arg;

	if (!replica->paxos)
		return;
	trace(replica->sim,
	    "%u is now role %d of ballot %" PRIu64
	    ".%u, leader %d, commit %" PRIu64,
	    replica->number, paxos_role(replica->paxos),
	    kv_ballot_round(paxos_ballot(replica->paxos)),
	    kv_ballot_leader(paxos_ballot(replica->paxos)),
	    paxos_leader(replica->paxos), paxos_commit(replica->paxos));
}

const struct paxos_ops sim_ops = { begin, send, NULL, applied, changed,
	sim_save, sim_snapshot_read };
const struct paxos_ops sim_disk_ops = { begin, send, sim_append, applied,
	changed, sim_save, sim_snapshot_read };

/* ---- Requests of clients ---------------------------------------------------
 */

static void read_done(void *arg, uint64_t tag, uint8_t status)
{
	struct sim_replica *replica = arg;
	struct sim_read *read = &replica->reads[tag];
	struct kv_result result = { .status = status };

	read->used = false;
	if (status == KV_OK)
		kv_store_read(paxos_store(replica->paxos), read->key,
		    read->key_size, &result);
	reply(replica, &read->ask, result.status, &result);
}

static uint8_t start_read(
    struct sim_replica *replica, const struct kv_command *command)
{
	struct sim_read *read = replica->reads;
	uint8_t status;
	unsigned i;

	for (i = 0; i < SIM_READS && read[i].used; i++)
		;
	if (i == SIM_READS)
		return KV_BUSY;
	read += i;
	read->used = true;
	read->ask = ask_of(command);
	read->key_size = command->key_size;
	memcpy(read->key, kv_command_key(command), command->key_size);
	status = paxos_read(replica->paxos, sim_local(replica), read_done, i);
	if (status != KV_OK)
		read->used = false;
	return status;
}

static void take_request(
    struct sim_replica *replica, const struct kv_message *message)
{
	const struct kv_command *command = (const void *)message->body;
	struct sim_ask ask = ask_of(command);
	struct sim *sim = replica->sim;
	uint8_t status;

	if (message->argument &&
	    !(sim->core->orders && sim->core->orders(replica)))
		status = start_read(replica, command);
	else
		status = sim->core->propose(
		    replica, sim_local(replica), command);
	if (status != KV_OK)
		reply(replica, &ask, status, NULL);
}

/* ---- Life ------------------------------------------------------------------
 */

static void arm(struct sim_replica *replica)
{
	struct sim *sim = replica->sim;
	uint64_t due = sim->core->due(replica), local = sim_local(replica);
	uint64_t wait = due > local ? due - local : 0;
	struct sim_event event = { .kind = SIM_TIMER,
		.node = (uint16_t)replica->number,
		.generation = replica->generation };

	if (wait > MS)
		wait = MS;
	wait += US;
	if (replica->armed <= sim->now + wait)
		return;
	replica->armed = sim->now + wait;
	sim_add(sim, replica->armed, &event);
}

static uint64_t new_incarnation(struct sim *sim)
{
	return sim_random(sim) | 2;
}

static struct kv_store *first_store(struct sim_replica *replica, bool boot)
{
	static const struct kv_config none;
	struct sim *sim = replica->sim;
	bool keeps = sim->bugs & PAXOS_BUG_FORGOTTEN_VOTES;

	if (boot)
		return kv_store_new(&sim->config);
	if (replica->saved.bytes) {
		struct kv_store *store = NULL;

		if (kv_store_load(
			replica->saved.bytes, replica->saved.size, &store))
			sim_fail(sim, "replica %u can't load its snapshot",
			    replica->number);
		return store;
	}
	if (!keeps)
		replica->incarnation = new_incarnation(sim);
	return kv_store_new(&none);
}

/* The first content of a disk: the store that the log begins with. */
static void save_first(
    struct sim_replica *replica, const struct kv_store *store)
{
	struct sim_snapshot *saved = &replica->saved;

	if (kv_store_save(store, &saved->bytes, &saved->size))
		abort();
	saved->slot = kv_store_slot(store);
	saved->mark = replica->disk.end;
}

int sim_replica_start(struct sim_replica *replica, bool boot)
{
	struct sim *sim = replica->sim;
	struct kv_store *store;

	replica->life = SIM_UP;
	replica->forgets = false;
	replica->armed = UINT64_MAX;
	replica->flush_due = false;
	replica->flow = 0;
	replica->batch.n = 0;
	replica->applied = 0;
	memset(replica->reads, 0, sizeof(replica->reads));
	if (boot)
		replica->incarnation =
		    sim->config.members[replica->number].incarnation;
	store = first_store(replica, boot && replica->incarnation);
	if (!store)
		return -1;
	if (replica->disk.exists && !replica->saved.bytes)
		save_first(replica, store);
	replica->compared = kv_store_slot(store);
	if (sim->core->start(replica, store)) {
		kv_store_free(store);
		return -1;
	}
	trace(sim, "%u starts as %04x at slot %" PRIu64, replica->number,
	    (unsigned)(replica->incarnation & 0xffff), replica->compared);
	if (sim_disk_restore(replica)) {
		sim_fail(
		    sim, "replica %u can't restore its log", replica->number);
		return -1;
	}
	replica->role = paxos_role(replica->paxos);
	compare_store(replica);
	arm(replica);
	return 0;
}

static void add_stats(struct sim_replica *replica)
{
	struct sim_counts *counts = &replica->sim->counts;
	struct paxos_stats stats;

	paxos_query(replica->paxos, &stats);
	counts->prevotes += stats.prevotes;
	counts->elections += stats.elections;
	counts->elections_won += stats.elections_won;
	counts->snapshots_sent += stats.snapshots_sent;
	counts->snapshots_loaded += stats.snapshots_loaded;
	counts->config_changes += stats.config_changes;
	counts->reads += stats.reads;
	counts->read_rounds += stats.read_rounds;
}

static void stop(struct sim_replica *replica)
{
	add_stats(replica);
	replica->sim->core->stop(replica);
	replica->generation++;
	replica->life = SIM_DOWN;
	if (replica->begun)
		sim_drop(replica->sim, replica->begun);
	replica->begun = NULL;
}

void sim_replica_crash(struct sim_replica *replica, bool forget)
{
	uint64_t changing = replica->sim->core->changing(replica);

	trace(replica->sim, "%u crashes%s", replica->number,
	    forget ? " and forgets" : "");
	stop(replica);
	replica->forgets = forget || !replica->disk.exists;
	if (!replica->forgets && changing > replica->sim->proposed_config)
		replica->sim->proposed_config = changing;
	replica->sim->counts.crashes++;
	replica->sim->counts.forgotten += replica->forgets;
	sim_flow_crash(replica->sim, replica->number);
	sim_disk_crash(replica, forget);
}

void sim_replica_free(struct sim_replica *replica)
{
	if (!replica->sim)
		return;
	if (replica->paxos)
		stop(replica);
	sim_disk_free(replica);
}

static void flush(struct sim_replica *replica)
{
	struct sim *sim = replica->sim;
	struct sim_event event = { .kind = SIM_FLUSH,
		.node = (uint16_t)replica->number,
		.generation = replica->generation };

	if (replica->flush_due)
		return;
	if (sim_chance(sim, 2500)) {
		replica->flush_due = true;
		sim_add(sim, sim->now + sim_below(sim, 100 * US), &event);
		return;
	}
	sim->core->flush(replica, sim_local(replica));
}

static void receive(struct sim_replica *replica, struct sim_packet *packet)
{
	if (sim_message(packet)->type == KV_REQUEST)
		take_request(replica, sim_message(packet));
	else
		replica->sim->core->receive(
		    replica, sim_local(replica), sim_message(packet));
}

/* After each event: do its follow-ups and all checks. */
static void settle(struct sim_replica *replica)
{
	enum paxos_role role;

	flush(replica);
	sim_sync(replica);
	compare_store(replica);
	role = paxos_role(replica->paxos);
	if (replica->role == PAXOS_JOINING && role != PAXOS_JOINING)
		replica->sim->counts.recovered++;
	replica->role = role;
	arm(replica);
}

void sim_replica_event(struct sim *sim, const struct sim_event *event)
{
	struct sim_replica *replica = &sim->replicas[event->node];
	struct sim_event later = *event;

	if (replica->life == SIM_DOWN ||
	    (event->kind != SIM_DELIVER &&
		event->generation != replica->generation) ||
	    (event->kind == SIM_TIMER && event->at != replica->armed))
		return;
	if (replica->life == SIM_PAUSED) {
		uint64_t at = replica->resume_at;

		/* The flow stays in order. */
		if (event->kind != SIM_SEGMENT)
			at += sim_below(sim, 50 * US);
		if (event->packet)
			event->packet->refs++;
		if (event->kind == SIM_TIMER)
			replica->armed = at;
		sim_add(sim, at, &later);
		return;
	}
	switch (event->kind) {
	case SIM_DELIVER:
		receive(replica, event->packet);
		break;
	case SIM_TIMER:
		replica->armed = UINT64_MAX;
		sim->core->tick(replica, sim_local(replica));
		break;
	case SIM_FLUSH:
		replica->flush_due = false;
		sim->core->flush(replica, sim_local(replica));
		break;
	case SIM_SYNC:
		sim_synced(replica);
		break;
	case SIM_SEGMENT:
	case SIM_FLOW:
	case SIM_BATCH:
		sim->core->deliver(replica, sim_local(replica), event);
		break;
	default:
		sim_saved(replica);
		break;
	}
	settle(replica);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leader. It proposes commands in the order of slots and sends them in as
 * few messages as possible; peers say up to which slot they have voted. A peer
 * that cannot take a message is left out; what it has missed is sent when it
 * says how far it is.
 */
#include <string.h>

#include "paxos_impl.h"

static void propose_again(struct paxos *p)
{
	uint64_t slot;

	for (slot = p->commit + 1; slot <= p->log.last; slot++) {
		struct kv_entry *entry = kv_log_at(&p->log, slot);

		/* The command stays where it is: there is room. */
		kv_accept(p, slot, &entry->command, entry->size, 0);
		p->upto = slot;
		if (entry->command.op == KV_CONFIG) {
			p->barrier = slot;
			break;
		}
	}
	p->recovered = p->upto;
}

/* To all numbers: those that are no members learn so. */
void kv_heartbeats(struct paxos *p)
{
	const struct kv_message m = { .type = KV_HEARTBEAT,
		.slot = p->log.first,
		.argument = p->round,
		.number = is_fast(p) ? p->upto : 0,
		.session = is_fast(p) ? p->fast.decided : 0 };

	kv_send_to_all(p, &m);
}

/* Nothing is known of a peer's incarnation as a follower in this ballot. */
static void forget(struct peer *peer, uint64_t incarnation)
{
	*peer = (struct peer){ .heard = peer->heard,
		.joiner = peer->joiner,
		.asked = peer->asked,
		.incarnation = incarnation };
}

/* A majority has promised: propose what was found. */
void kv_lead(struct paxos *p, uint64_t now)
{
	unsigned i;

	p->role = PAXOS_LEADER;
	p->leader = (int)p->setup.self;
	p->fetching = false;
	p->accepted = p->promised;
	p->proposer = p->setup.incarnation;
	p->upto = p->voted = p->commit;
	p->fast = (struct fast_path){ .ballot = 0 };
	p->mark_slot = p->commit;
	p->mark_time = now;
	p->retry = now + p->setup.heartbeat_ns;
	for (i = 0; i < KV_MAX_REPLICAS; i++) {
		struct peer *peer = &p->peers[i];
		uint64_t voted = peer->voted;

		forget(peer, p->config.members[i].incarnation);
		if (!(p->yes >> i & 1))
			continue;
		/* It has promised: its commit slot is a vote up to there. */
		peer->voted = peer->got = peer->sent = voted;
		peer->answered = now;
		peer->known = true;
	}
	p->stats.elections_won++;
	propose_again(p);
	kv_heartbeats(p);
	p->ops->changed(p->arg);
	kv_lead_flush(p, now);
}

/* Send a peer what it has not got, as far as its window goes. */
static void stream(struct paxos *p, unsigned to)
{
	struct peer *peer = &p->peers[to];
	unsigned burst = BURST;
	struct kv_message *m;
	uint64_t end;

	if (!peer->known || peer->stalled || peer->sent + 1 < p->log.first)
		return;
	end = peer->got + p->setup.window;
	if (end > p->upto)
		end = p->upto;
	/* A fast path's slots come by the flow, unless they are asked for. */
	if (is_fast(p) && end >= p->fast.base && end > peer->wanted)
		end = peer->wanted < p->fast.base ? p->fast.base - 1
						  : peer->wanted;
	for (; peer->sent < end && burst; burst--) {
		m = kv_begin_entries(p, to, KV_ACCEPT, peer->sent + 1, end);
		if (!m)
			return;
		m->argument = p->round;
		peer->sent += m->count;
		kv_send(p, m);
	}
}

void kv_lead_flush(struct paxos *p, uint64_t now)
{
	unsigned i;

	if (p->round_due) {
		p->round_due = false;
		p->round++;
		p->stats.read_rounds++;
		kv_heartbeats(p);
	}
	for (i = 0; i < p->setup.n_replicas; i++)
		if (i != p->setup.self)
			stream(p, i);
	kv_update_voted(p);
	kv_count_votes(p, now);
}

/*
 * Up to which slot a peer has voted for what the leader has there: on a fast
 * path, its votes may be for requests that have become no-ops.
 */
static uint64_t voted_as_here(const struct paxos *p, const struct peer *peer)
{
	if (!is_fast(p) || peer->settled >= p->fast.decided ||
	    peer->voted < peer->settled || bug(p, BLIND_ACK))
		return peer->voted;
	return peer->settled;
}

/* The highest number that a majority of the members has reached. */
static uint64_t agreed(const struct paxos *p, bool rounds)
{
	uint64_t values[KV_MAX_REPLICAS] = { 0 }, most = 0;
	unsigned i, j, n;

	for (i = 0; i < KV_MAX_REPLICAS; i++) {
		const struct peer *peer = &p->peers[i];
		uint64_t member = p->config.members[i].incarnation;

		if (i == p->setup.self && self_is_member(p))
			values[i] = rounds ? p->round : p->voted;
		else if (member > KV_VACANT && peer->incarnation == member)
			values[i] = rounds ? peer->round
					   : voted_as_here(p, peer);
	}
	for (i = 0; i < KV_MAX_REPLICAS; i++) {
		for (n = j = 0; j < KV_MAX_REPLICAS; j++)
			n += values[j] >= values[i];
		if (n >= majority(p) && values[i] > most)
			most = values[i];
	}
	return most;
}

/* Reads up to a round are done, or have failed. */
void kv_finish_reads(struct paxos *p, uint64_t round, uint8_t status)
{
	while (p->n_reads && p->reads[p->first_read].round <= round) {
		struct read read = p->reads[p->first_read];

		p->first_read = (p->first_read + 1) % MAX_READS;
		p->n_reads--;
		p->stats.reads += status == KV_OK;
		read.done(p->arg, read.tag, status);
	}
}

/* What a majority has voted for in this ballot is chosen. */
void kv_count_votes(struct paxos *p, uint64_t now)
{
	uint64_t slot = agreed(p, false);

	if (slot > p->upto || bug(p, EARLY_REPLY))
		slot = p->upto;
	if (slot > p->commit) {
		p->stats.chosen += slot - p->commit;
		kv_commit_to(p, now, slot);
	}
	if (p->role == PAXOS_LEADER && p->n_reads && p->commit >= p->recovered)
		kv_finish_reads(p,
		    bug(p, STALE_READ) ? UINT64_MAX : agreed(p, true), KV_OK);
}

void kv_on_accepted(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	struct peer *peer = &p->peers[m->from];

	if (p->role != PAXOS_LEADER || m->session != p->setup.incarnation ||
	    m->ballot != p->promised ||
	    (!is_member(&p->config, m->from, m->incarnation) &&
		m->incarnation != peer->joiner))
		return;
	if (peer->incarnation != m->incarnation)
		forget(peer, m->incarnation);
	if (!peer->known)
		peer->sent = m->number;
	peer->known = true;
	peer->answered = now;
	if ((m->status && peer->rewound != m->number + 1) ||
	    (peer->stalled && m->number <= peer->got)) {
		peer->rewound = m->number + 1;
		peer->sent = m->number;
	}
	peer->stalled = false;
	/* Perhaps less than before: it has restarted from its disk. */
	peer->got = m->number;
	if (peer->sent < peer->got)
		peer->sent = peer->got;
	if (peer->round < m->argument)
		peer->round = m->argument;
	if (peer->voted < m->slot)
		peer->voted = m->slot;
	if (peer->voted > p->commit || p->n_reads)
		kv_count_votes(p, now);
}

static uint8_t may_propose(const struct paxos *p, uint64_t now)
{
	if (p->role != PAXOS_LEADER)
		return paxos_no_quorum(p, now) ? KV_NO_QUORUM : KV_NOT_LEADER;
	if (p->barrier || p->fast.closed || p->upto != p->log.last ||
	    p->upto - p->commit >= p->setup.window ||
	    !kv_log_takes(&p->log, p->commit))
		return KV_BUSY;
	return KV_OK;
}

static uint8_t propose(struct paxos *p, uint64_t now,
    const struct kv_command *command, size_t size)
{
	uint8_t status = may_propose(p, now);

	if (status != KV_OK)
		return status;
	if (!kv_accept(p, p->upto + 1, command, size, 0))
		return KV_BUSY;
	p->upto++;
	p->stats.proposed++;
	return KV_OK;
}

size_t paxos_propose(struct paxos *p, uint64_t now, const char *commands,
    size_t size, uint8_t *refused)
{
	const struct kv_command *command;
	size_t used = 0, bytes;

	for (*refused = KV_OK; used < size; used += bytes) {
		command = (const void *)(commands + used);
		bytes = kv_command_size(command);
		*refused = command->op == KV_CONFIG
		    ? KV_INVALID
		    : propose(p, now, command, bytes);
		if (*refused != KV_OK)
			break;
	}
	return used;
}

uint8_t paxos_read(struct paxos *p, uint64_t now,
    void (*done)(void *arg, uint64_t tag, uint8_t status), uint64_t tag)
{
	struct read *read;

	if (p->role != PAXOS_LEADER)
		return paxos_no_quorum(p, now) ? KV_NO_QUORUM : KV_NOT_LEADER;
	/* On a fast path, clients know more slots to be chosen than this. */
	if (p->n_reads == MAX_READS || is_fast(p))
		return KV_BUSY;
	read = &p->reads[(p->first_read + p->n_reads++) % MAX_READS];
	*read =
	    (struct read){ .round = p->round + 1, .tag = tag, .done = done };
	p->round_due = true;
	return KV_OK;
}

/* Whether a majority of a configuration has answered lately. */
static bool is_heard(
    const struct paxos *p, const struct kv_config *config, uint64_t now)
{
	unsigned i, n = 0;

	for (i = 0; i < KV_MAX_REPLICAS; i++) {
		uint64_t member = config->members[i].incarnation;

		if (member > KV_VACANT)
			n += i == p->setup.self ||
			    (p->peers[i].incarnation == member &&
				now - p->peers[i].answered <
				    2 * p->setup.election_ns);
	}
	return n > kv_config_members(config) / 2;
}

/* Propose a configuration. Nothing goes behind it until it is chosen. */
static uint8_t propose_config(
    struct paxos *p, uint64_t now, const struct kv_config *config)
{
	struct {
		struct kv_command command;
		struct kv_config config;
	} body = { .command = { .op = KV_CONFIG,
		       .value_size = sizeof(*config) },
		.config = *config };
	uint8_t status;

	if (p->role == PAXOS_LEADER &&
	    (p->commit < p->recovered || !is_heard(p, config, now)))
		return KV_BUSY;
	if (bug(p, CONFIG_EARLY))
		body.config.members[(p->setup.self + 1) % p->setup.n_replicas] =
		    (struct kv_member){ 0 };
	status = propose(p, now, &body.command, sizeof(body));
	if (status == KV_OK && bug(p, CONFIG_EARLY))
		p->config = body.config;
	else if (status == KV_OK)
		p->barrier = p->upto;
	return status;
}

uint8_t paxos_reconfigure(
    struct paxos *p, uint64_t now, const struct kv_config *config)
{
	unsigned i, changes = 0;

	for (i = 0; i < KV_MAX_REPLICAS; i++) {
		uint64_t was = p->config.members[i].incarnation;
		uint64_t will = config->members[i].incarnation;

		changes += was != will;
		if (was != will &&
		    (will > KV_VACANT || i >= p->setup.n_replicas))
			return KV_INVALID;
	}
	if (changes != 1 || !kv_config_members(config))
		return KV_INVALID;
	return propose_config(p, now, config);
}

/* A newcomer: take out the one whose place it has, or take it in. */
static bool settle(struct paxos *p, unsigned number, uint64_t now)
{
	struct peer *peer = &p->peers[number];
	struct kv_config config = p->config;
	uint64_t *place = &config.members[number].incarnation;

	if (*place == peer->joiner ||
	    now - peer->asked > 4 * p->setup.election_ns)
		peer->joiner = 0;
	/*
	 * An answer in this ballot comes from a successor of the member: each
	 * member was made one in an earlier ballot. What asks to join may be
	 * late, and from an incarnation before.
	 */
	if (!peer->joiner || *place == 0 || peer->incarnation != peer->joiner ||
	    !peer->known)
		return false;
	if (*place > KV_VACANT ? now - peer->heard < p->setup.election_ns ||
		    kv_config_members(&config) == 1
			       : peer->got + p->setup.window / 2 < p->upto)
		return false;
	*place = *place > KV_VACANT ? KV_VACANT : peer->joiner;
	return propose_config(p, now, &config) == KV_OK;
}

/* End sessions that were not used for session_ns, and up to twice that. */
static void expire(struct paxos *p, uint64_t now)
{
	struct kv_command command = { .op = KV_EXPIRE,
		.argument = p->mark_slot };

	if (!p->setup.session_ns || now - p->mark_time < p->setup.session_ns)
		return;
	if (kv_store_sessions(p->store) && p->mark_slot &&
	    propose(p, now, &command, sizeof(command)) != KV_OK)
		return;
	p->mark_slot = p->commit;
	p->mark_time = now;
}

void kv_lead_tick(struct paxos *p, uint64_t now)
{
	unsigned i;

	if (!is_heard(p, &p->config, now)) {
		kv_step_down(p, now);
		return;
	}
	for (i = 0; i < p->setup.n_replicas; i++) {
		struct peer *peer = &p->peers[i];

		if (peer->sent > peer->got && peer->got == peer->got_before)
			peer->stalled = true;
		peer->got_before = peer->got;
	}
	kv_heartbeats(p);
	kv_count_votes(p, now);
	if (p->role != PAXOS_LEADER || p->commit < p->recovered)
		return;
	expire(p, now);
	for (i = 0; i < p->setup.n_replicas; i++)
		if (i != p->setup.self && settle(p, i, now))
			return;
}

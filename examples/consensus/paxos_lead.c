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

void kv_heartbeat(struct paxos *p, unsigned to)
{
	struct kv_message *m = kv_begin(p, to, KV_HEARTBEAT, 0);

	if (!m)
		return;
	m->slot = p->log.first;
	m->argument = p->round;
	if (is_fast(p)) {
		m->number = p->upto;
		m->session = p->fast.decided;
	}
	kv_send(p, m);
}

bool kv_is_peer(const struct paxos *p, unsigned number)
{
	return number != p->setup.self &&
	    (p->config.members[number].incarnation > KV_VACANT ||
		p->peers[number].joiner != 0);
}

/* To all, and to members of another configuration. */
void kv_heartbeats(struct paxos *p, const struct kv_config *also)
{
	unsigned i;

	for (i = 0; i < p->setup.n_replicas; i++)
		if (kv_is_peer(p, i) ||
		    (i != p->setup.self &&
			also->members[i].incarnation > KV_VACANT))
			kv_heartbeat(p, i);
}

/* A majority has promised: propose what was found. */
void kv_lead(struct paxos *p, uint64_t now)
{
	unsigned i;

	p->role = PAXOS_LEADER;
	p->leader = (int)p->setup.self;
	p->preparing = false;
	p->fetching = false;
	p->accepted = p->promised;
	p->proposer = p->setup.incarnation;
	p->upto = p->voted = p->commit;
	p->fast = (struct fast_path){ .ballot = 0 };
	p->barrier = 0;
	p->led_since = now;
	p->mark_slot = p->commit;
	p->mark_time = now;
	p->retry = now + p->setup.heartbeat_ns;
	for (i = 0; i < KV_MAX_REPLICAS; i++) {
		struct peer *peer = &p->peers[i];

		peer->incarnation = p->config.members[i].incarnation;
		peer->known = peer->promised;
		if (!peer->known)
			peer->voted = 0;
		peer->got = peer->got_before = peer->sent = peer->voted;
		peer->rewound = peer->round = 0;
		peer->settled = peer->knows = peer->wanted = 0;
		peer->stalled = peer->served = false;
		peer->answered = peer->promised ? now : 0;
	}
	p->stats.elections_won++;
	p->stats.ballots++;
	propose_again(p);
	kv_heartbeats(p, &p->config);
	p->ops->changed(p->arg);
	kv_lead_flush(p, now);
}

/* Send a peer what it has not got, as far as its window goes. */
static void stream(struct paxos *p, unsigned to)
{
	struct peer *peer = &p->peers[to];
	unsigned burst = BURST;
	struct kv_message *m;
	struct kv_run run;
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
		kv_log_measure(&p->log, peer->sent + 1, end, kv_room(p), &run);
		m = kv_begin(p, to, KV_ACCEPT, run.bytes);
		if (!m)
			return;
		m->slot = run.first;
		m->argument = p->round;
		m->count = (uint16_t)run.count;
		kv_log_copy(&p->log, &run, m->body);
		kv_send(p, m);
		peer->sent += run.count;
		peer->served = true;
	}
}

void kv_lead_flush(struct paxos *p, uint64_t now)
{
	unsigned i;

	if (p->round_due) {
		p->round_due = false;
		p->round++;
		p->stats.read_rounds++;
		kv_heartbeats(p, &p->config);
	}
	for (i = 0; i < p->setup.n_replicas; i++)
		if (kv_is_peer(p, i))
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
	uint64_t values[KV_MAX_REPLICAS], value;
	unsigned i, j, n = 0, needed = majority(p);

	for (i = 0; i < KV_MAX_REPLICAS; i++) {
		const struct peer *peer = &p->peers[i];
		uint64_t member = p->config.members[i].incarnation;

		if (member <= KV_VACANT)
			continue;
		if (i == p->setup.self)
			value = rounds ? p->round : p->voted;
		else if (peer->incarnation != member)
			value = 0;
		else
			value = rounds ? peer->round : voted_as_here(p, peer);
		for (j = n++; j > 0 && values[j - 1] < value; j--)
			values[j] = values[j - 1];
		values[j] = value;
	}
	return n ? values[needed ? needed - 1 : 0] : 0;
}

static void finish_reads(struct paxos *p)
{
	uint64_t round = bug(p, STALE_READ) ? UINT64_MAX : agreed(p, true);

	while (p->n_reads && p->reads[p->first_read].round <= round) {
		struct read read = p->reads[p->first_read];

		p->first_read = (p->first_read + 1) % MAX_READS;
		p->n_reads--;
		p->stats.reads++;
		read.done(p->arg, read.tag, KV_OK);
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
		finish_reads(p);
}

void kv_fail_reads(struct paxos *p, uint8_t status)
{
	while (p->n_reads) {
		struct read read = p->reads[p->first_read];

		p->first_read = (p->first_read + 1) % MAX_READS;
		p->n_reads--;
		read.done(p->arg, read.tag, status);
	}
	p->round_due = false;
}

/* A peer has answered: it is another one than before, or new. */
static bool meet(struct paxos *p, const struct kv_message *m)
{
	struct peer *peer = &p->peers[m->from];

	if (peer->incarnation != m->incarnation) {
		if (!is_member(&p->config, m->from, m->incarnation) &&
		    m->incarnation != peer->joiner)
			return false;
		peer->incarnation = m->incarnation;
		peer->known = false;
		peer->settled = peer->knows = peer->wanted = 0;
	}
	if (!peer->known) {
		peer->known = true;
		peer->stalled = false;
		peer->voted = peer->round = peer->rewound = 0;
		peer->got = peer->sent = m->number;
	}
	return true;
}

void kv_on_accepted(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	struct peer *peer = &p->peers[m->from];

	if (p->role != PAXOS_LEADER || m->session != p->setup.incarnation ||
	    m->ballot != p->promised || !meet(p, m))
		return;
	peer->answered = now;
	if ((m->status && peer->rewound != m->number + 1) ||
	    (peer->stalled && m->number <= peer->got)) {
		peer->rewound = m->number + 1;
		peer->got = peer->sent = m->number;
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
		return kv_no_quorum(p, now) ? KV_NO_QUORUM : KV_NOT_LEADER;
	if (p->barrier || p->fast.closed || p->upto != p->log.last ||
	    p->upto - p->commit >= p->setup.window ||
	    !kv_log_takes(&p->log, p->commit))
		return KV_BUSY;
	return KV_OK;
}

static bool propose(
    struct paxos *p, const struct kv_command *command, size_t size)
{
	if (!kv_accept(p, p->upto + 1, command, size, 0))
		return false;
	p->upto++;
	p->stats.proposed++;
	return true;
}

size_t paxos_propose(struct paxos *p, uint64_t now, const char *commands,
    size_t size, uint8_t *refused)
{
	size_t used = 0;

	*refused = KV_OK;
	while (used < size) {
		const struct kv_command *command = (const void *)(commands +
		    used);
		size_t bytes = kv_command_size(command);

		*refused = may_propose(p, now);
		if (*refused == KV_OK && command->op == KV_CONFIG)
			*refused = KV_INVALID;
		if (*refused == KV_OK && !propose(p, command, bytes))
			*refused = KV_BUSY;
		if (*refused != KV_OK)
			break;
		used += bytes;
	}
	return used;
}

uint8_t paxos_read(struct paxos *p, uint64_t now,
    void (*done)(void *arg, uint64_t tag, uint8_t status), uint64_t tag)
{
	struct read *read;

	if (p->role != PAXOS_LEADER)
		return kv_no_quorum(p, now) ? KV_NO_QUORUM : KV_NOT_LEADER;
	/* On a fast path, clients know of slots not yet known here as chosen.
	 */
	if (p->n_reads == MAX_READS || is_fast(p))
		return KV_BUSY;
	read = &p->reads[(p->first_read + p->n_reads++) % MAX_READS];
	*read =
	    (struct read){ .round = p->round + 1, .tag = tag, .done = done };
	p->round_due = true;
	return KV_OK;
}

/* Propose a configuration. Nothing goes behind it until it is chosen. */
static uint8_t propose_config(struct paxos *p, const struct kv_config *config)
{
	struct {
		struct kv_command command;
		struct kv_config config;
	} body = { .command = { .op = KV_CONFIG,
		       .value_size = sizeof(*config) },
		.config = *config };

	if (!propose(p, &body.command, sizeof(body)))
		return KV_BUSY;
	if (bug(p, CONFIG_EARLY))
		p->config = *config;
	else
		p->barrier = p->upto;
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

uint8_t paxos_reconfigure(
    struct paxos *p, uint64_t now, const struct kv_config *config)
{
	struct kv_config next = *config;
	uint8_t status = may_propose(p, now);
	unsigned i, changes = 0;

	if (status == KV_OK && p->commit < p->recovered)
		status = KV_BUSY;
	if (status != KV_OK)
		return status;
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
	for (i = 0; bug(p, CONFIG_EARLY) && i < p->setup.n_replicas; i++)
		if (i != p->setup.self &&
		    next.members[i].incarnation > KV_VACANT) {
			next.members[i].incarnation = 0;
			break;
		}
	if (!is_heard(p, config, now))
		return KV_BUSY;
	return propose_config(p, &next);
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
	if (*place > KV_VACANT) {
		if (now - peer->heard < p->setup.election_ns ||
		    kv_config_members(&config) == 1)
			return false;
		*place = KV_VACANT;
	} else {
		if (peer->got + p->setup.window / 2 < p->upto)
			return false;
		*place = peer->joiner;
	}
	return is_heard(p, &config, now) && propose_config(p, &config) == KV_OK;
}

/* End the sessions that nobody has used for session_ns, and up to twice that.
 */
static void expire(struct paxos *p, uint64_t now)
{
	struct kv_command command = { .op = KV_EXPIRE,
		.argument = p->mark_slot };

	if (!p->setup.session_ns || now - p->mark_time < p->setup.session_ns)
		return;
	if (kv_store_sessions(p->store) && p->mark_slot &&
	    !propose(p, &command, sizeof(command)))
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

		if (!kv_is_peer(p, i))
			continue;
		if (peer->sent > peer->got && peer->got == peer->got_before)
			peer->stalled = true;
		peer->got_before = peer->got;
		if (!peer->served || peer->stalled || is_fast(p))
			kv_heartbeat(p, i);
		peer->served = false;
	}
	kv_count_votes(p, now);
	if (p->role != PAXOS_LEADER || may_propose(p, now) != KV_OK ||
	    p->commit < p->recovered)
		return;
	expire(p, now);
	for (i = 0; i < p->setup.n_replicas; i++)
		if (i != p->setup.self && settle(p, i, now))
			return;
}

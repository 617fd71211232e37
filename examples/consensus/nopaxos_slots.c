/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of a fast path. A follower accepts the next slot from the flow, from
 * the leader's entries, or as a decided no-op; what comes before its turn waits
 * in the stash. Once it has accepted something it changes only for a decided
 * no-op. The leader accepts the next segment, or decides upon a no-op at once.
 */
#include <string.h>

#include "nopaxos_impl.h"

/*
 * A follower acknowledges at the latest after this many slots, or this many
 * bytes in them.
 */
#define SYNC_SLOTS 128
#define SYNC_BYTES 262144

static uint64_t slot_of(const struct nopaxos *np, uint64_t n)
{
	return np->p->fast.base + (n - np->first);
}

/* Put a command in the next slot, with a vote for it. */
static bool accept_next(struct nopaxos *np, const struct kv_command *command,
    size_t size, uint32_t decided)
{
	struct paxos *p = np->p;
	uint64_t slot = p->upto + 1;

	if (p->hold || slot - p->commit > np->setup.window ||
	    (slot > p->log.last && !kv_log_takes(&p->log, p->commit)) ||
	    !kv_accept(p, slot, command, size, decided))
		return false;
	p->upto = slot;
	p->gap = false;
	if (slot > np->exists)
		np->exists = slot;
	return true;
}

/*
 * A follower's vote for a request. One that was cast before a restart for a
 * decided no-op stays.
 */
static bool accept_request(
    struct nopaxos *np, const struct kv_command *command, size_t size)
{
	struct paxos *p = np->p;
	const struct kv_entry *old = kv_log_has(&p->log, p->upto + 1)
	    ? kv_log_at(&p->log, p->upto + 1)
	    : NULL;

	if (old && old->ballot == p->accepted && old->decided)
		return accept_next(np, &old->command, old->size, 1);
	if (!accept_next(np, command, size, 0))
		return false;
	np->stats.accepted++;
	np->unacked += size;
	return true;
}

static void decide_next(struct nopaxos *np)
{
	const struct kv_command noop = { .op = KV_NOOP };

	if (!accept_next(np, &noop, sizeof(noop), 1))
		return;
	np->p->fast.decided = np->p->upto;
	np->stats.gaps_decided++;
	np->decide_due = true;
}

/* Accept what waits, as far as nothing is missing. */
void np_take_stash(struct nopaxos *np)
{
	struct stashed *at;

	if (!np_follows(np) || np->path_flow != np->flow)
		return;
	while ((at = np_stash_oldest(np)) != NULL) {
		const struct kv_command *command = (const void *)(at + 1);
		uint64_t slot = slot_of(np, at->n);

		if (at->n >= np->first && slot > np->exists)
			np->exists = slot;
		if (at->n >= np->first && slot > np->p->upto + 1)
			break;
		if (at->n >= np->first && slot == np->p->upto + 1 &&
		    !accept_request(np, command, at->size))
			break;
		np_stash_drop(np);
	}
}

/* A new fast path: nothing of it has been done. */
void np_begin_path(struct nopaxos *np)
{
	struct paxos *p = np->p;

	np->path = p->fast.ballot;
	np->path_leader = p->proposer;
	np->exists = np->announced = np->replied = np->executed = p->fast.base -
	    1;
	np->settled_safe = p->fast.settled;
	np->settle_position = 0;
	np->acked = p->upto;
	np->unacked = 0;
	np->ask_at = 0;
	np->answer_due = np->decide_due = false;
}

/* As a planted fault has it: the no-op in a slot gives way to its request. */
static void overwrite(struct nopaxos *np, uint64_t slot,
    const struct kv_command *command, size_t size)
{
	struct paxos *p = np->p;

	if (slot <= p->commit || slot > p->upto ||
	    !kv_log_at(&p->log, slot)->decided)
		return;
	kv_accept(p, slot, command, size, 0);
	if (np->executed >= slot)
		np->executed = slot - 1;
	if (np->replied >= slot)
		np->replied = slot - 1;
}

static void lead_segment(struct nopaxos *np, uint64_t now, uint64_t slot,
    const struct kv_command *command, size_t size)
{
	np->delivered_at = now;
	if (slot <= np->p->upto) {
		if (np_bug(np, FILLED_TWICE))
			overwrite(np, slot, command, size);
		return;
	}
	while (slot > np->p->upto + 1) {
		uint64_t before = np->p->upto;

		decide_next(np);
		if (np->p->upto == before)
			return;
	}
	if (accept_next(np, command, size, 0))
		np->stats.accepted++;
}

static void follow_segment(struct nopaxos *np, uint64_t now, uint64_t n,
    const struct kv_command *command, size_t size)
{
	uint64_t slot = slot_of(np, n);

	if (slot <= np->p->upto) {
		if (np_bug(np, UNDECIDES))
			overwrite(np, slot, command, size);
		return;
	}
	if (slot > np->exists)
		np->exists = slot;
	if (np_bug(np, HOLES) && slot == np->p->upto + 2) {
		const struct kv_command noop = { .op = KV_NOOP };

		accept_request(np, &noop, sizeof(noop));
	}
	if (slot != np->p->upto + 1 || !accept_request(np, command, size)) {
		np_stash(np, n, command, size);
		np_ask(np, now);
		return;
	}
	np_take_stash(np);
}

void nopaxos_deliver(struct nopaxos *np, uint64_t now, uint64_t flow,
    uint64_t n, const struct kv_command *command, size_t size)
{
	static const struct kv_command noop = { .op = KV_NOOP };

	if (flow != np->flow || flow == 0)
		return;
	if (n >= np->next)
		np->next = n + 1;
	/* What no gateway lets through does nothing, at all alike. */
	if (!kv_command_valid(command, size) || command->op == KV_CONFIG) {
		command = &noop;
		size = sizeof(noop);
	}
	if (!is_fast(np->p) || np->path != np->p->fast.ballot ||
	    np->path_flow != flow) {
		np_stash(np, n, command, size);
		return;
	}
	if (n < np->first)
		return;
	if (np_leads(np))
		lead_segment(np, now, slot_of(np, n), command, size);
	else if (np_follows(np))
		follow_segment(np, now, n, command, size);
	else
		np_stash(np, n, command, size);
	np_reply(np);
}

void nopaxos_gap(
    struct nopaxos *np, uint64_t now, uint64_t flow, uint64_t n, uint64_t count)
{
	uint64_t last;

	if (flow != np->flow || flow == 0 || count == 0)
		return;
	if (n + count > np->next)
		np->next = n + count;
	if (np->path_flow != flow || n + count <= np->first)
		return;
	if (!np_leads(np) && !np_follows(np))
		return;
	last = slot_of(np, n + count - 1);
	if (last > np->exists)
		np->exists = last;
	if (np_follows(np)) {
		np_ask(np, now);
		return;
	}
	np->delivered_at = now;
	while (np->p->upto < last) {
		uint64_t before = np->p->upto;

		decide_next(np);
		if (np->p->upto == before)
			break;
	}
	np_reply(np);
}

/* Ask the leader for what is missing here. */
void np_ask(struct nopaxos *np, uint64_t now)
{
	struct paxos *p = np->p;
	struct kv_message *m;

	if (now < np->ask_at || np->exists <= p->upto)
		return;
	np->ask_at = now + p->setup.heartbeat_ns / 2;
	m = kv_begin(p, (unsigned)p->leader, KV_GAP_ASK, 0);
	if (!m)
		return;
	m->slot = p->upto + 1;
	m->argument = np->exists;
	m->session = p->proposer;
	np->stats.gaps_asked++;
	kv_send(p, m);
}

/* Send a follower the entries that it misses, from what it asks for on. */
void np_on_ask(struct nopaxos *np, const struct kv_message *m)
{
	struct paxos *p = np->p;
	struct peer *peer = &p->peers[m->from];

	if (!np_leads(np) || m->ballot != p->promised ||
	    m->session != p->setup.incarnation ||
	    peer->incarnation != m->incarnation || !peer->known)
		return;
	if (peer->wanted < m->argument)
		peer->wanted = m->argument;
	if (peer->sent >= m->slot)
		peer->sent = m->slot - 1;
	if (peer->got < m->slot - 1)
		peer->got = m->slot - 1;
	if (peer->sent < peer->got)
		peer->sent = peer->got;
}

/* Tell a follower which slots hold decided no-ops, from what it knows on. */
void np_send_decide(struct nopaxos *np, unsigned to)
{
	struct paxos *p = np->p;
	uint64_t from = p->peers[to].knows, slot, known = p->fast.base - 1;
	size_t room = kv_room(p) / sizeof(slot), n = 0;
	struct kv_message *m;

	if (from < known)
		from = known;
	if (from >= p->fast.decided)
		return;
	/* Older ones are chosen: it has them, or gets a snapshot. */
	if (from + 1 < p->log.first)
		from = p->log.first - 1;
	m = kv_begin(p, to, KV_GAP_DECIDE, room * sizeof(slot));
	if (!m)
		return;
	for (slot = from + 1; slot <= p->fast.decided && n < room; slot++)
		if (kv_log_at(&p->log, slot)->decided)
			memcpy(
			    m->body + n++ * sizeof(slot), &slot, sizeof(slot));
	m->slot = from;
	m->argument = slot - 1;
	m->number = n;
	m->size = (uint32_t)(sizeof(*m) + n * sizeof(slot));
	kv_send(p, m);
}

/* A follower's slot holds a no-op. False: it is not its turn. */
static bool take_decided(struct nopaxos *np, uint64_t slot)
{
	const struct kv_command noop = { .op = KV_NOOP };
	struct paxos *p = np->p;

	if (slot <= p->commit)
		return true;
	if (slot > p->upto + 1 || p->hold)
		return false;
	if (slot == p->upto + 1) {
		if (!accept_next(np, &noop, sizeof(noop), 1))
			return false;
	} else if (kv_log_at(&p->log, slot)->decided) {
		return true;
	} else if (!kv_accept(p, slot, &noop, sizeof(noop), 1)) {
		return false;
	} else {
		np->stats.gaps_over++;
	}
	np->settle_position = p->appended;
	np->stats.gaps_taken++;
	return true;
}

void np_on_decide(struct nopaxos *np, const struct kv_message *m)
{
	struct paxos *p = np->p;
	uint64_t settled = m->argument, slot, i;

	if (!np_follows(np) || m->ballot != p->promised ||
	    m->incarnation != p->proposer ||
	    m->number > (m->size - sizeof(*m)) / sizeof(slot))
		return;
	np->answer_due = true;
	if (m->slot > p->fast.settled && m->slot > p->commit)
		return;
	for (i = 0; i < m->number; i++) {
		memcpy(&slot, m->body + i * sizeof(slot), sizeof(slot));
		if (take_decided(np, slot)) {
			np_take_stash(np);
			continue;
		}
		settled = slot - 1;
		break;
	}
	if (settled > p->fast.settled)
		p->fast.settled = settled;
}

/* Tell the leader which decided no-ops are here, and safe. */
void np_send_decided(struct nopaxos *np)
{
	struct paxos *p = np->p;
	struct kv_message *m;

	np->answer_due = false;
	if (p->role == PAXOS_LEADER || p->leader < 0)
		return;
	if (p->fast.settled < p->commit)
		p->fast.settled = p->commit;
	if (!p->ops->append || p->synced >= np->settle_position)
		np->settled_safe = p->fast.settled;
	m = kv_begin(p, (unsigned)p->leader, KV_GAP_DECIDED, 0);
	if (!m)
		return;
	m->slot = np_follows(np) ? np->settled_safe : p->commit;
	m->session = p->proposer;
	m->status = !np_follows(np) || np->flow != np->path_flow;
	kv_send(p, m);
}

void np_on_decided(struct nopaxos *np, uint64_t now, const struct kv_message *m)
{
	struct paxos *p = np->p;
	struct peer *peer = &p->peers[m->from];

	if (!np_leads(np) || m->ballot != p->promised ||
	    m->session != p->setup.incarnation ||
	    peer->incarnation != m->incarnation)
		return;
	if (m->status)
		np->joined &= ~(UINT32_C(1) << m->from);
	else
		np->joined |= UINT32_C(1) << m->from;
	/* Perhaps less than before: it has restarted from its disk. */
	peer->knows = m->slot;
	if (m->slot <= peer->settled)
		return;
	peer->settled = m->slot;
	kv_count_votes(p, now);
}

/* Whether a majority has a decided no-op, safely. */
static bool gap_is_closed(const struct nopaxos *np, uint64_t slot)
{
	const struct paxos *p = np->p;
	unsigned i, n = 0;

	for (i = 0; i < KV_MAX_REPLICAS; i++) {
		uint64_t member = p->config.members[i].incarnation;

		if (member <= KV_VACANT)
			continue;
		n += i == p->setup.self ? p->voted >= slot
					: p->peers[i].incarnation == member &&
			p->peers[i].settled >= slot;
	}
	return n >= majority(p) || np_bug(np, PAST_GAP);
}

/* The leader works out a slot's result. False: it has to wait. */
static bool execute(struct nopaxos *np, uint64_t slot)
{
	struct paxos *p = np->p;
	const struct kv_entry *entry;
	const struct kv_command *command;
	struct kv_result result;

	if (slot <= p->commit)
		return true;
	entry = kv_log_at(&p->log, slot);
	if (entry->decided)
		return gap_is_closed(np, slot);
	if (entry->command.op == KV_NOOP)
		return true;
	command = kv_slot_first(&entry->command);
	if (!kv_command_keyed(command) ||
	    !kv_guess_takes(np->guess, p->store, &entry->command))
		return false;
	for (; command; command = kv_slot_next(&entry->command, command)) {
		kv_guess_command(
		    np->guess, p->store, &p->log, slot, command, &result);
		np->stats.executed++;
		np->ops->reply(np->arg, slot, p->promised,
		    kv_config_members(&p->config), command, &result);
	}
	return true;
}

static void lead_reply(struct nopaxos *np)
{
	struct paxos *p = np->p;
	uint64_t slot;
	uint8_t op;

	while (np->executed < p->voted && execute(np, np->executed + 1))
		np->executed++;
	slot = np->executed + 1;
	if (slot > p->voted || slot == np->barrier)
		return;
	/* What opens or ends sessions has to wait until the store has it. */
	op = kv_log_at(&p->log, slot)->command.op;
	if (op == KV_REGISTER || op == KV_EXPIRE) {
		np->barrier = slot;
		np->stats.barriers++;
	}
}

/* Tell clients of what is accepted, in order, and safe. */
void np_reply(struct nopaxos *np)
{
	struct paxos *p = np->p;

	if (!is_fast(p))
		return;
	kv_update_voted(p);
	if (np_leads(np)) {
		lead_reply(np);
		return;
	}
	if (!np_follows(np))
		return;
	while (np->replied < p->voted) {
		const struct kv_entry *entry;

		if (++np->replied < p->log.first)
			continue;
		entry = kv_log_at(&p->log, np->replied);
		if (!entry->decided && entry->ballot == p->accepted &&
		    kv_command_keyed(kv_slot_first(&entry->command)))
			np->ops->vote(np->arg, np->replied, p->accepted,
			    p->proposer, &entry->command);
	}
	if (p->upto >= np->acked + SYNC_SLOTS || np->unacked >= SYNC_BYTES) {
		np->acked = p->upto;
		np->unacked = 0;
		p->ack = true;
	}
}

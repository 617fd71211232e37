/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elections. A replica that has heard no leader for a while asks its peers
 * whether they would promise a ballot; this changes nothing at them, and one
 * that hears a leader says no. Only with a majority's yes does it take a
 * ballot, and prepare all slots behind its commit slot: a majority promises,
 * and sends what it has accepted there, part by part. What is found in the
 * highest ballot goes into the own log in place of what is there: each acceptor
 * may hold any entry that was proposed in a ballot above its own vote's and
 * below its promise.
 */
#include "paxos_impl.h"

static void set_timer(struct paxos *p, uint64_t now)
{
	p->timeout = p->setup.election_ns +
	    kv_random(p) % (p->setup.election_ns + 1);
	p->election_at = now + p->timeout;
}

static kv_ballot next_ballot(const struct paxos *p)
{
	kv_ballot most = p->seen > p->promised ? p->seen : p->promised;

	return kv_ballot_of(kv_ballot_round(most) + 1, p->setup.self);
}

/* No longer a leader or candidate. */
void kv_step_down(struct paxos *p, uint64_t now)
{
	enum paxos_role was = p->role;

	p->role = self_is_member(p) ? PAXOS_FOLLOWER : PAXOS_JOINING;
	p->prevoting = p->preparing = false;
	p->barrier = 0;
	p->leader = -1;
	set_timer(p, now);
	if (was == PAXOS_LEADER)
		kv_fail_reads(p, KV_NOT_LEADER);
	if (was != p->role)
		p->ops->changed(p->arg);
}

static unsigned count(const struct paxos *p, bool prevotes)
{
	unsigned i, n = 0;

	for (i = 0; i < p->setup.n_replicas; i++) {
		const struct peer *peer = &p->peers[i];

		if (p->config.members[i].incarnation <= KV_VACANT)
			continue;
		if (i == p->setup.self)
			n += self_is_member(p);
		else
			n += prevotes ? peer->granted : peer->promised;
	}
	return n;
}

/* All are asked: a leader that is no member for this replica replies, too. */
static void ask_prevotes(struct paxos *p)
{
	struct kv_message *m;
	unsigned i;

	for (i = 0; i < p->setup.n_replicas; i++) {
		if (i == p->setup.self || p->peers[i].granted)
			continue;
		m = kv_begin(p, i, KV_PREVOTE, 0);
		if (!m)
			continue;
		m->ballot = p->asked;
		m->slot = p->commit + 1;
		kv_send(p, m);
	}
}

void kv_start_prevote(struct paxos *p, uint64_t now)
{
	unsigned i;

	kv_step_down(p, now);
	if (p->role != PAXOS_FOLLOWER || p->hold)
		return;
	p->prevoting = true;
	p->asked = next_ballot(p);
	for (i = 0; i < KV_MAX_REPLICAS; i++)
		p->peers[i].granted = false;
	p->ops->changed(p->arg);
	if (count(p, true) >= majority(p))
		kv_start_prepare(p, now);
	else
		ask_prevotes(p);
}

void kv_on_prevote(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	struct kv_message *reply = kv_begin(p, m->from, KV_PREVOTE_REPLY, 0);
	bool led = p->role == PAXOS_LEADER ||
	    (p->leader >= 0 && now - p->leader_heard < p->setup.election_ns);

	/* One that is far behind would be long about it. */
	bool behind = !bug(p, TRIMMED_PROMISE) &&
	    (m->slot < p->log.first || m->slot + p->setup.window < p->commit);

	/* One that was removed does not know it yet: the leader tells it. */
	kv_on_join(p, now, m);
	if (!reply)
		return;
	reply->ballot = m->ballot;
	reply->slot = p->log.first;
	reply->argument = p->promised;
	reply->status = led || behind || m->ballot <= p->promised;
	kv_send(p, reply);
}

void kv_on_prevote_reply(
    struct paxos *p, uint64_t now, const struct kv_message *m)
{
	if (m->argument > p->seen)
		p->seen = m->argument;
	if (!p->prevoting || m->ballot != p->asked ||
	    !is_member(&p->config, m->from, m->incarnation))
		return;
	if (m->status != 0) {
		if (m->slot > p->commit + 1)
			kv_start_fetch(p, now, m->slot - 1, m->from);
		return;
	}
	p->peers[m->from].granted = true;
	if (count(p, true) >= majority(p))
		kv_start_prepare(p, now);
}

static void ask_promise(struct paxos *p, unsigned to)
{
	struct kv_message *m;

	if (to == p->setup.self || p->peers[to].promised ||
	    p->config.members[to].incarnation <= KV_VACANT)
		return;
	m = kv_begin(p, to, KV_PREPARE, 0);
	if (!m)
		return;
	m->slot = p->peers[to].part;
	kv_send(p, m);
}

/* Take a ballot; nothing of it goes out before its promise is safe here. */
void kv_start_prepare(struct paxos *p, uint64_t now)
{
	unsigned i;

	kv_step_down(p, now);
	if (p->role != PAXOS_FOLLOWER || p->hold)
		return;
	kv_promise(p, next_ballot(p));
	p->role = PAXOS_CANDIDATE;
	p->from = p->commit + 1;
	p->stats.elections++;
	p->retry = now + p->setup.heartbeat_ns;
	for (i = 0; i < KV_MAX_REPLICAS; i++) {
		p->peers[i].promised = false;
		p->peers[i].part = p->from;
	}
	p->ops->changed(p->arg);
	kv_elect_synced(p, now);
}

/* The disk has got further. */
void kv_elect_synced(struct paxos *p, uint64_t now)
{
	unsigned i;

	if (p->role != PAXOS_CANDIDATE || p->preparing ||
	    (p->synced < p->promise_position && !bug(p, VOTE_NOT_SYNCED)))
		return;
	p->preparing = true;
	if (count(p, false) >= majority(p)) {
		kv_lead(p, now);
		return;
	}
	for (i = 0; i < p->setup.n_replicas; i++)
		ask_promise(p, i);
}

static bool found_is_newer(const struct paxos *p, const struct kv_entry *found)
{
	const struct kv_entry *own;

	if (!kv_log_has(&p->log, found->slot))
		return true;
	own = kv_log_at(&p->log, found->slot);
	if (bug(p, LOWEST_BALLOT))
		return found->ballot < own->ballot;
	if (found->ballot != own->ballot)
		return found->ballot > own->ballot;
	if (bug(p, NOOP_LOSES))
		return found->decided < own->decided;
	return found->decided > own->decided;
}

/* Take in what an acceptor has accepted. False: there is no room. */
static bool take_part(struct paxos *p, const struct kv_message *m)
{
	struct peer *peer = &p->peers[m->from];
	const char *at = m->body;
	unsigned i;

	for (i = 0; i < m->count; i++) {
		const struct kv_entry *entry = (const void *)at;
		struct kv_entry *own;

		at += kv_entry_size(entry);
		if (entry->slot != peer->part)
			break;
		peer->part++;
		if (bug(p, OWN_VALUE) || !found_is_newer(p, entry))
			continue;
		own = kv_log_put(&p->log, p->commit, entry->slot,
		    &entry->command, entry->size);
		if (!own)
			return false;
		own->ballot = entry->ballot;
		own->decided = entry->decided;
	}
	return true;
}

void kv_on_promise(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	struct peer *peer = &p->peers[m->from];

	if (p->role != PAXOS_CANDIDATE || !p->preparing ||
	    m->ballot != p->promised || m->session != p->setup.incarnation ||
	    !is_member(&p->config, m->from, m->incarnation) || peer->promised)
		return;
	if (m->number > peer->part && !bug(p, TRIMMED_PROMISE)) {
		kv_step_down(p, now);
		kv_start_fetch(p, now, m->number - 1, m->from);
		return;
	}
	if (bug(p, TRIMMED_PROMISE) && m->slot > peer->part)
		peer->part = m->slot;
	if (m->slot != peer->part)
		return;
	if (!take_part(p, m)) {
		kv_step_down(p, now);
		return;
	}
	/* Parts that come are a reason for patience. */
	p->election_at = now + p->timeout;
	if (peer->part <= m->argument && !bug(p, SHORT_PROMISE)) {
		if (m->status == 0)
			ask_promise(p, m->from);
		return;
	}
	peer->promised = true;
	peer->voted = m->commit;
	if (count(p, false) >= majority(p))
		kv_lead(p, now);
}

/*
 * Some replica has promised a higher ballot. If it hears a leader, that one
 * leads; if not, a candidate has failed there, and a new ballot helps.
 */
void kv_on_refuse(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	if (m->argument != p->promised || m->ballot <= p->promised)
		return;
	if (p->role == PAXOS_LEADER && m->status == 0)
		kv_start_prepare(p, now);
	else if (p->role == PAXOS_LEADER || p->role == PAXOS_CANDIDATE)
		kv_step_down(p, now);
}

void paxos_lost(struct paxos *p, uint64_t now, unsigned peer)
{
	uint64_t soon = now + kv_random(p) % (p->setup.election_ns / 8 + 1);

	if (p->role != PAXOS_FOLLOWER || p->leader != (int)peer)
		return;
	p->leader = -1;
	if (p->election_at > soon)
		p->election_at = soon;
	p->ops->changed(p->arg);
}

void kv_elect_tick(struct paxos *p, uint64_t now)
{
	unsigned i;

	if (p->role == PAXOS_JOINING)
		return;
	if (now >= p->election_at) {
		kv_start_prevote(p, now);
		return;
	}
	if (p->prevoting)
		ask_prevotes(p);
	for (i = 0; p->preparing && i < p->setup.n_replicas; i++)
		ask_promise(p, i);
}

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

/* No longer a leader or candidate. */
void kv_step_down(struct paxos *p, uint64_t now)
{
	enum paxos_role was = p->role;

	p->role = self_is_member(p) ? PAXOS_FOLLOWER : PAXOS_JOINING;
	p->prevoting = false;
	p->barrier = 0;
	p->leader = -1;
	p->timeout = p->setup.election_ns +
	    kv_random(p) % (p->setup.election_ns + 1);
	p->election_at = now + p->timeout;
	if (was == PAXOS_LEADER)
		kv_finish_reads(p, UINT64_MAX, KV_NOT_LEADER);
	if (was != p->role)
		p->ops->changed(p->arg);
}

/* Whether a number has granted the pre-vote, or has promised. */
static bool says_yes(const struct paxos *p, unsigned number)
{
	return (p->yes >> number & 1) != 0;
}

static void ask(struct paxos *p, unsigned to)
{
	const struct kv_message m = {
		.type = p->prevoting ? KV_PREVOTE : KV_PREPARE,
		.ballot = p->asked,
		.slot = p->peers[to].part,
	};

	kv_send_to(p, to, &m);
}

/*
 * Ask all that have not said yes, those that are no members here, too: they
 * may know why. But nothing of a ballot goes out before its promise is safe
 * here, which is this replica's own yes.
 */
void kv_ask_all(struct paxos *p)
{
	unsigned i;

	if (!p->prevoting && p->role != PAXOS_CANDIDATE)
		return;
	for (i = 0; says_yes(p, p->setup.self) && i < p->setup.n_replicas; i++)
		if (!says_yes(p, i))
			ask(p, i);
}

/* A member says yes. With a majority, the next step follows. */
static void take_yes(struct paxos *p, uint64_t now, unsigned from)
{
	p->yes |= UINT32_C(1) << from;
	if ((unsigned)__builtin_popcount(p->yes) < majority(p))
		return;
	if (p->prevoting)
		kv_stand(p, now, false);
	else
		kv_lead(p, now);
}

/* Stand for election: with a pre-vote, or take a ballot at once. */
void kv_stand(struct paxos *p, uint64_t now, bool prevote)
{
	kv_ballot most = p->seen > p->promised ? p->seen : p->promised;
	unsigned i;

	kv_step_down(p, now);
	if (p->role != PAXOS_FOLLOWER || p->hold)
		return;
	p->prevoting = prevote;
	p->stats.prevotes += prevote;
	p->asked = kv_ballot_of(kv_ballot_round(most) + 1, p->setup.self);
	p->yes = 0;
	for (i = 0; i < KV_MAX_REPLICAS; i++)
		p->peers[i].part = p->commit + 1;
	if (!prevote) {
		kv_promise(p, p->asked);
		p->role = PAXOS_CANDIDATE;
		p->retry = now + p->setup.heartbeat_ns;
		p->stats.elections++;
	}
	p->ops->changed(p->arg);
	kv_elect_synced(p, now);
}

/* The disk has got further. */
void kv_elect_synced(struct paxos *p, uint64_t now)
{
	if ((!p->prevoting && p->role != PAXOS_CANDIDATE) ||
	    says_yes(p, p->setup.self) || !kv_promise_safe(p))
		return;
	take_yes(p, now, p->setup.self);
	kv_ask_all(p);
}

void kv_on_prevote(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	/* One that is far behind would be long about it. */
	bool behind = !bug(p, TRIMMED_PROMISE) &&
	    (m->slot < p->log.first || m->slot + p->setup.window < p->commit);

	/* One that was removed does not know it yet: the leader tells it. */
	kv_on_join(p, now, m);
	kv_send_to(p, m->from,
	    &(struct kv_message){ .type = KV_PREVOTE_REPLY,
		.slot = p->log.first,
		.argument = m->ballot,
		.status = hears_leader(p, now) || behind ||
		    m->ballot <= p->promised });
}

void kv_on_prevote_reply(
    struct paxos *p, uint64_t now, const struct kv_message *m)
{
	if (!p->prevoting || m->argument != p->asked ||
	    !is_member(&p->config, m->from, m->incarnation))
		return;
	if (m->status == 0)
		take_yes(p, now, m->from);
	else if (m->slot > p->commit + 1)
		kv_start_fetch(p, m->slot - 1, m->from);
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

		at += kv_entry_size(entry);
		if (entry->slot != peer->part)
			break;
		peer->part++;
		if (bug(p, OWN_VALUE) || !found_is_newer(p, entry))
			continue;
		if (!kv_log_put_entry(&p->log, p->commit, entry))
			return false;
	}
	return true;
}

void kv_on_promise(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	struct peer *peer = &p->peers[m->from];

	if (p->role != PAXOS_CANDIDATE || m->ballot != p->promised ||
	    m->session != p->setup.incarnation ||
	    (!is_member(&p->config, m->from, m->incarnation) &&
		!bug(p, ANY_PROMISE)) ||
	    says_yes(p, m->from))
		return;
	if (m->number > peer->part && !bug(p, TRIMMED_PROMISE)) {
		kv_step_down(p, now);
		kv_start_fetch(p, m->number - 1, m->from);
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
			ask(p, m->from);
		return;
	}
	peer->voted = m->commit;
	take_yes(p, now, m->from);
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
		kv_stand(p, now, false);
	else if (p->role == PAXOS_LEADER || p->role == PAXOS_CANDIDATE)
		kv_step_down(p, now);
}

void paxos_lost(struct paxos *p, uint64_t now, unsigned peer)
{
	uint64_t soon = now + kv_random(p) % (p->setup.election_ns / 8 + 1);

	if (p->leader != (int)peer)
		return;
	p->leader = -1;
	if (p->election_at > soon)
		p->election_at = soon;
	p->ops->changed(p->arg);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fast paths: opened by a leader that has nothing else to do, ended by a new
 * ballot of whoever finds that it does not go on. See nopaxos_impl.h.
 */
#include <stdlib.h>
#include <string.h>

#include "nopaxos_impl.h"

/* The window has room for slots of this mean; a few slots may have more. */
#define COMMANDS_PER_SLOT 4

static size_t stash_size(const struct nopaxos_setup *setup)
{
	size_t least = 4 * KV_MAX_MESSAGE;

	return (setup->stash_bytes < least ? least : setup->stash_bytes) &
	    ~(size_t)15;
}

uint64_t nopaxos_needs(const struct nopaxos_setup *setup)
{
	return stash_size(setup) +
	    kv_guess_needs(COMMANDS_PER_SLOT * setup->window);
}

struct nopaxos *nopaxos_new(const struct nopaxos_setup *setup,
    const struct nopaxos_ops *ops, void *arg, struct paxos *paxos)
{
	struct nopaxos *np = calloc(1, sizeof(*np));

	if (!np)
		return NULL;
	np->setup = *setup;
	np->ops = ops;
	np->arg = arg;
	np->p = paxos;
	np->stash_size = stash_size(setup);
	np->stash = malloc(np->stash_size);
	np->guess = kv_guess_new(
	    COMMANDS_PER_SLOT * setup->window, paxos->setup.seed);
	if (!np->stash || !np->guess) {
		nopaxos_free(np);
		return NULL;
	}
	return np;
}

void nopaxos_free(struct nopaxos *np)
{
	if (!np)
		return;
	kv_guess_free(np->guess);
	free(np->stash);
	free(np);
}

void nopaxos_flow(struct nopaxos *np, uint64_t flow, uint64_t next)
{
	if (np->flow != flow)
		np_drop_stash(np);
	np->flow = flow;
	np->next = next;
	np->answer_due = np_follows(np);
}

bool nopaxos_is_open(const struct nopaxos *np)
{
	return (np_leads(np) || np_follows(np)) && np->flow != 0 &&
	    np->path_flow == np->flow;
}

static void send_open(struct nopaxos *np, unsigned to)
{
	struct paxos *p = np->p;
	struct kv_message *m = kv_begin(p, to, KV_SESSION, 0);

	if (!m)
		return;
	m->slot = p->fast.base;
	m->argument = np->first;
	m->session = np->path_flow;
	kv_send(p, m);
}

static void follow_path(struct nopaxos *np, const struct kv_message *m)
{
	struct paxos *p = np->p;
	bool keeps = np_bug(np, OLD_SESSION) && np->path_flow == m->session;

	if (m->ballot != p->promised || m->ballot != p->accepted ||
	    m->incarnation != p->proposer || p->leader != m->from ||
	    p->role != PAXOS_FOLLOWER)
		return;
	np->answer_due = true;
	if (is_fast(p) && np->path == m->ballot &&
	    np->path_leader == m->incarnation)
		return;
	p->fast = (struct fast_path){
		.ballot = m->ballot, .base = m->slot, .settled = m->slot - 1
	};
	np->path_flow = m->session;
	if (!keeps)
		np->first = m->argument;
	np_begin_path(np);
	np_take_stash(np);
}

static bool is_joined_by_most(const struct nopaxos *np)
{
	const struct paxos *p = np->p;
	unsigned i, n = 0;

	for (i = 0; i < KV_MAX_REPLICAS; i++)
		if (p->config.members[i].incarnation > KV_VACANT)
			n += i == p->setup.self || (np->joined >> i & 1);
	return n > kv_config_members(&p->config) / 2;
}

/* Someone waits for what can only be done without a fast path. */
static bool has_other_work(struct nopaxos *np, uint64_t now)
{
	struct paxos *p = np->p;
	unsigned i;

	for (i = 0; i < p->setup.n_replicas; i++)
		if (p->peers[i].joiner &&
		    now - p->peers[i].asked < 4 * p->setup.election_ns)
			return true;
	if (!p->setup.session_ns ||
	    now - p->mark_time < 2 * p->setup.session_ns)
		return false;
	if (kv_store_sessions(p->store) &&
	    kv_store_oldest_use(p->store) < p->mark_slot)
		return true;
	p->mark_slot = p->commit;
	p->mark_time = now;
	return false;
}

static void end(struct nopaxos *np, uint64_t now)
{
	np->stats.ended++;
	np->open_at = now + np->setup.reopen_ns;
	kv_stand(np->p, now, false);
}

void nopaxos_end(struct nopaxos *np, uint64_t now)
{
	np->open_at = now + np->setup.reopen_ns;
	if (np_leads(np))
		end(np, now);
	else
		np->p->fast.closed = false;
}

/* As a leader without a fast path: open one, once all slots are chosen. */
static void try_open(struct nopaxos *np, uint64_t now)
{
	struct paxos *p = np->p;
	unsigned i;

	if (!np->flow || np->flow == np->dead || now < np->open_at ||
	    p->commit < p->recovered || p->barrier || p->fast.ballot ||
	    has_other_work(np, now)) {
		p->fast.closed = false;
		return;
	}
	if (!p->fast.closed) {
		p->fast.closed = true;
		np->opened_at = now;
	}
	if (p->commit < p->upto || p->upto < p->log.last) {
		if (now - np->opened_at > p->setup.election_ns)
			nopaxos_end(np, now);
		return;
	}
	p->fast.ballot = p->promised;
	p->fast.base = p->upto + 1;
	p->fast.decided = 0;
	np->path_flow = np->flow;
	np->first = np->next;
	np->opened_at = np->delivered_at = np->probe_at = now;
	np->joined = 0;
	np_begin_path(np);
	np_drop_stash(np);
	kv_guess_clear(np->guess);
	np->stats.opened++;
	for (i = 0; i < p->setup.n_replicas; i++)
		if (kv_is_peer(p, i))
			send_open(np, i);
}

/* As a leader with a fast path: see to it that it goes on. */
static void keep_open(struct nopaxos *np, uint64_t now)
{
	const struct kv_command noop = { .op = KV_NOOP };
	struct paxos *p = np->p;
	uint64_t quiet = np->setup.quiet_ns;
	unsigned i;

	if (np->flow != np->path_flow || now - np->delivered_at > quiet ||
	    (now - np->opened_at > quiet && !is_joined_by_most(np))) {
		np->dead = np->path_flow;
		end(np, now);
		return;
	}
	if (has_other_work(np, now)) {
		end(np, now);
		return;
	}
	if (now >= np->probe_at) {
		np->probe_at = now + np->setup.probe_ns;
		np->ops->publish(np->arg, &noop);
	}
	if (now < np->tick_at)
		return;
	np->tick_at = now + p->setup.heartbeat_ns;
	for (i = 0; i < p->setup.n_replicas; i++) {
		if (!kv_is_peer(p, i))
			continue;
		if (!(np->joined >> i & 1))
			send_open(np, i);
		np_send_decide(np, i);
	}
}

/* What is due after any input. */
static void go_on(struct nopaxos *np, uint64_t now)
{
	struct paxos *p = np->p;
	unsigned i;

	np_take_stash(np);
	np_reply(np);
	if (np->answer_due)
		np_send_decided(np);
	if (np->decide_due && np_leads(np))
		for (i = 0; i < p->setup.n_replicas; i++)
			if (kv_is_peer(p, i))
				np_send_decide(np, i);
	np->decide_due = false;
	if (np_follows(np))
		np_ask(np, now);
}

/* The end of the flow may be lost: what the leader had one heartbeat ago. */
static void hear(struct nopaxos *np, const struct kv_message *m)
{
	struct paxos *p = np->p;

	if (p->role == PAXOS_LEADER || m->ballot != p->accepted ||
	    p->leader != m->from)
		return;
	if (!np_follows(np)) {
		/* The leader has a fast path, of which it must tell again. */
		np->answer_due = m->number != 0;
		return;
	}
	if (np->announced > np->exists)
		np->exists = np->announced;
	np->announced = m->number;
	/* The leader goes by what this one has said it knows. */
	if (m->session > p->fast.settled)
		np->answer_due = true;
}

void nopaxos_receive(
    struct nopaxos *np, uint64_t now, const struct kv_message *m)
{
	struct paxos *p = np->p;
	uint64_t before = p->upto;

	paxos_receive(p, now, m);
	if (m->cluster != p->setup.cluster || m->from >= p->setup.n_replicas ||
	    m->from == p->setup.self)
		return;
	switch (m->type) {
	case KV_HEARTBEAT:
		hear(np, m);
		break;
	case KV_ACCEPT:
		if (np_follows(np) && p->upto > before)
			np->stats.gaps_filled += p->upto - before;
		break;
	case KV_SESSION:
		follow_path(np, m);
		break;
	case KV_GAP_ASK:
		np_on_ask(np, m);
		break;
	case KV_GAP_DECIDE:
		np_on_decide(np, m);
		break;
	case KV_GAP_DECIDED:
		np_on_decided(np, now, m);
		break;
	default:
		break;
	}
	go_on(np, now);
}

void nopaxos_tick(struct nopaxos *np, uint64_t now)
{
	paxos_tick(np->p, now);
	if (np_leads(np))
		keep_open(np, now);
	else if (np->p->role == PAXOS_LEADER)
		try_open(np, now);
	go_on(np, now);
}

uint64_t nopaxos_due(const struct nopaxos *np)
{
	uint64_t due = paxos_due(np->p);

	if (np_leads(np) && np->probe_at < due)
		due = np->probe_at;
	if (np_follows(np) && np->exists > np->p->upto && np->ask_at < due)
		due = np->ask_at;
	return due;
}

void nopaxos_flush(struct nopaxos *np, uint64_t now)
{
	go_on(np, now);
	paxos_flush(np->p, now);
}

void nopaxos_synced(struct nopaxos *np, uint64_t now, uint64_t position)
{
	paxos_synced(np->p, now, position);
	if (np_follows(np) && np->settled_safe < np->p->fast.settled &&
	    np->p->synced >= np->settle_position)
		np->answer_due = true;
	go_on(np, now);
}

bool nopaxos_applied(
    struct nopaxos *np, uint64_t slot, const struct kv_result *result)
{
	uint8_t status;

	if (!np_leads(np) || slot < np->p->fast.base || slot > np->executed ||
	    !kv_guess_status(np->guess, slot, &status))
		return false;
	np->stats.wrong += status != result->status;
	return true;
}

void nopaxos_query(const struct nopaxos *np, struct nopaxos_stats *stats)
{
	*stats = np->stats;
}

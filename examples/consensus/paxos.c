/* SPDX-License-Identifier: Apache-2.0 */
/* What programs call, and where messages come in. See paxos_impl.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "paxos_impl.h"

struct paxos *paxos_new(const struct paxos_setup *setup,
    const struct paxos_ops *ops, void *arg, struct kv_store *store)
{
	struct paxos *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->setup = *setup;
	p->ops = ops;
	p->arg = arg;
	p->commit = p->upto = p->voted = p->hinted = kv_store_slot(store);
	if (kv_log_open(&p->log, setup->log_bytes, ops->append != NULL,
		p->commit) != 0) {
		free(p);
		return NULL;
	}
	if (!setup->message_bytes || setup->message_bytes > KV_MAX_MESSAGE)
		p->setup.message_bytes = KV_MAX_MESSAGE;
	p->store = store;
	p->config = *kv_store_config(store);
	p->role = self_is_member(p) ? PAXOS_FOLLOWER : PAXOS_JOINING;
	p->leader = p->promise_to = -1;
	p->random = setup->seed;
	p->fetch_peer = setup->self;
	return p;
}

void paxos_free(struct paxos *p)
{
	if (!p)
		return;
	kv_log_close(&p->log);
	kv_store_free(p->store);
	free(p->fetch_bytes);
	free(p);
}

static int restore_entry(struct paxos *p, const struct kv_entry *entry)
{
	struct kv_entry *own;

	if (entry->ballot > p->seen)
		p->seen = entry->ballot;
	if (entry->slot <= p->commit)
		return 0;
	if (entry->slot > p->log.last + 1)
		return -EINVAL;
	own = kv_log_put(
	    &p->log, p->commit, entry->slot, &entry->command, entry->size);
	if (!own)
		return -ENOBUFS;
	own->ballot = entry->ballot;
	own->decided = entry->decided;
	return 0;
}

int paxos_restore(struct paxos *p, const struct kv_record *record)
{
	switch (record->type) {
	case KV_RECORD_PROMISE:
		if (record->ballot > p->promised)
			p->promised = record->ballot;
		if (record->ballot > p->seen)
			p->seen = record->ballot;
		return 0;
	case KV_RECORD_ENTRY:
		return restore_entry(p, record->entry);
	case KV_RECORD_COMMIT:
		if (record->slot > p->log.last)
			return -EINVAL;
		kv_commit_to(p, 0, record->slot);
		p->hinted = p->commit;
		return p->commit < record->slot ? -ENOMEM : 0;
	default:
		return -EINVAL;
	}
}

/* xorshift64*, of which seed 0 must not begin at 0. */
uint64_t kv_random(struct paxos *p)
{
	uint64_t x = p->random + 0x9e3779b97f4a7c15;

	p->random = x;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* A message to a replica, with its common fields, or NULL: leave it out. */
struct kv_message *kv_begin(
    struct paxos *p, unsigned to, enum kv_message_type type, size_t body)
{
	struct kv_message *m = p->ops->begin(
	    p->arg, false, to, sizeof(*m) + body);

	if (!m) {
		p->stats.messages_skipped++;
		return NULL;
	}
	memset(m, 0, sizeof(*m));
	m->cluster = p->setup.cluster;
	m->incarnation = p->setup.incarnation;
	m->ballot = p->promised;
	m->commit = p->commit;
	m->size = (uint32_t)(sizeof(*m) + body);
	m->type = (uint8_t)type;
	m->from = (uint8_t)p->setup.self;
	return m;
}

void kv_send(struct paxos *p, struct kv_message *message)
{
	p->stats.messages_sent++;
	p->ops->send(p->arg, message);
}

size_t kv_room(const struct paxos *p)
{
	return p->setup.message_bytes - sizeof(struct kv_message);
}

/* The store has another configuration. */
void kv_learn_config(struct paxos *p, uint64_t now)
{
	struct kv_config was = p->config;
	bool leads = p->role == PAXOS_LEADER;
	unsigned i;

	p->config = *kv_store_config(p->store);
	p->stats.config_changes += memcmp(&was, &p->config, sizeof(was)) != 0;
	for (i = 0; i < KV_MAX_REPLICAS; i++)
		if (was.members[i].incarnation !=
		    p->config.members[i].incarnation)
			p->peers[i].heard = now;
	if (leads) {
		/* So that one that was removed learns it. */
		kv_heartbeats(p, &was);
		kv_start_prepare(p, now);
	} else if (!self_is_member(p) || p->role == PAXOS_JOINING) {
		kv_step_down(p, now);
	}
	p->ops->changed(p->arg);
}

static void start(struct paxos *p, uint64_t now)
{
	unsigned i;

	if (p->started)
		return;
	p->started = true;
	p->config = *kv_store_config(p->store);
	for (i = 0; i < KV_MAX_REPLICAS; i++)
		p->peers[i].heard = now;
	p->retry = now;
	kv_step_down(p, now);
}

static void dispatch(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	switch (m->type) {
	case KV_PREVOTE:
		kv_on_prevote(p, now, m);
		break;
	case KV_PREVOTE_REPLY:
		kv_on_prevote_reply(p, now, m);
		break;
	case KV_PREPARE:
		kv_on_prepare(p, now, m);
		break;
	case KV_PROMISE:
		kv_on_promise(p, now, m);
		break;
	case KV_ACCEPT:
		kv_on_accept(p, now, m);
		break;
	case KV_ACCEPTED:
		kv_on_accepted(p, now, m);
		break;
	case KV_HEARTBEAT:
		kv_on_heartbeat(p, now, m);
		break;
	case KV_REFUSE:
		kv_on_refuse(p, now, m);
		break;
	case KV_FETCH:
		kv_on_fetch(p, m);
		break;
	case KV_SNAPSHOT:
		kv_on_snapshot(p, now, m);
		break;
	case KV_JOIN:
		kv_on_join(p, now, m);
		break;
	default:
		break;
	}
}

void paxos_receive(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	if (m->cluster != p->setup.cluster || m->from >= p->setup.n_replicas ||
	    m->from == p->setup.self)
		return;
	start(p, now);
	p->stats.messages_received++;
	if (m->type != KV_PREVOTE && m->type != KV_PREVOTE_REPLY &&
	    m->ballot > p->seen)
		p->seen = m->ballot;
	if (is_member(&p->config, m->from, m->incarnation))
		p->peers[m->from].heard = now;
	dispatch(p, now, m);
}

void paxos_tick(struct paxos *p, uint64_t now)
{
	start(p, now);
	if (now < paxos_due(p))
		return;
	if (p->role == PAXOS_LEADER)
		kv_lead_tick(p, now);
	else
		kv_elect_tick(p, now);
	if (now < p->retry)
		return;
	p->retry = now + p->setup.heartbeat_ns;
	if (p->commit - p->hinted > 0)
		kv_hint_commit(p);
	kv_catchup_tick(p, now);
}

uint64_t paxos_due(const struct paxos *p)
{
	if (p->role == PAXOS_LEADER || p->role == PAXOS_JOINING ||
	    p->retry < p->election_at)
		return p->retry;
	return p->election_at;
}

void paxos_flush(struct paxos *p, uint64_t now)
{
	if (p->role == PAXOS_LEADER)
		kv_lead_flush(p, now);
	else if (p->ack)
		kv_send_accepted(p);
}

void paxos_synced(struct paxos *p, uint64_t now, uint64_t position)
{
	uint64_t voted = p->voted;

	if (position > p->synced)
		p->synced = position;
	kv_send_promise(p);
	kv_elect_synced(p, now);
	kv_update_voted(p);
	if (p->voted != voted)
		p->ack = true;
}

enum paxos_role paxos_role(const struct paxos *p)
{
	return p->role;
}

kv_ballot paxos_ballot(const struct paxos *p)
{
	return p->promised;
}

int paxos_leader(const struct paxos *p)
{
	return p->leader;
}

uint64_t paxos_commit(const struct paxos *p)
{
	return p->commit;
}

struct kv_store *paxos_store(struct paxos *p)
{
	return p->store;
}

void paxos_query(const struct paxos *p, struct paxos_stats *stats)
{
	*stats = p->stats;
}

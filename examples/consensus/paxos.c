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
	if (entry->ballot > p->seen)
		p->seen = entry->ballot;
	if (entry->slot <= p->commit)
		return 0;
	if (entry->slot > p->log.last + 1)
		return -EINVAL;
	return kv_log_put_entry(&p->log, p->commit, entry) ? 0 : -ENOBUFS;
}

int paxos_restore(struct paxos *p, const struct kv_record *record)
{
	switch (record->type) {
	case KV_RECORD_PROMISE:
		if (record->ballot > p->promised)
			p->promised = record->ballot;
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

/* Good enough for time-outs. */
uint64_t kv_random(struct paxos *p)
{
	p->random = p->random * 6364136223846793005 + 1442695040888963407;
	return p->random >> 16;
}

/* A message to a replica, with what fields has, or NULL: leave it out. */
static struct kv_message *begin(
    struct paxos *p, unsigned to, const struct kv_message *fields, size_t body)
{
	struct kv_message *m = p->ops->begin(
	    p->arg, false, to, sizeof(*m) + body);

	if (!m) {
		p->stats.messages_skipped++;
		return NULL;
	}
	*m = *fields;
	m->cluster = p->setup.cluster;
	m->incarnation = p->setup.incarnation;
	m->ballot = fields->ballot ? fields->ballot : p->promised;
	m->commit = p->commit;
	m->size = (uint32_t)(sizeof(*m) + body);
	m->from = (uint8_t)p->setup.self;
	return m;
}

struct kv_message *kv_begin(
    struct paxos *p, unsigned to, enum kv_message_type type, size_t body)
{
	return begin(
	    p, to, &(struct kv_message){ .type = (uint8_t)type }, body);
}

void kv_send(struct paxos *p, struct kv_message *message)
{
	p->stats.messages_sent++;
	p->ops->send(p->arg, message);
}

/* A message without a body: what fields has, beside what all messages have. */
bool kv_send_to(struct paxos *p, unsigned to, const struct kv_message *fields)
{
	struct kv_message *m = begin(p, to, fields, 0);

	if (m)
		kv_send(p, m);
	return m != NULL;
}

void kv_send_to_all(struct paxos *p, const struct kv_message *fields)
{
	unsigned i;

	for (i = 0; i < p->setup.n_replicas; i++)
		if (i != p->setup.self)
			kv_send_to(p, i, fields);
}

/* A message with the entries from a slot on, up to last, that fit into it. */
struct kv_message *kv_begin_entries(struct paxos *p, unsigned to,
    enum kv_message_type type, uint64_t slot, uint64_t last)
{
	struct kv_run run = { .count = 0 };
	struct kv_message *m;

	if (slot <= last && kv_log_has(&p->log, slot))
		kv_log_measure(&p->log, slot, last, kv_room(p), &run);
	m = kv_begin(p, to, type, run.bytes);
	if (!m)
		return NULL;
	m->slot = slot;
	m->count = (uint16_t)run.count;
	if (run.count)
		kv_log_copy(&p->log, &run, m->body);
	return m;
}

/* Append a record to the disk, if there is one. */
void kv_append(struct paxos *p, enum kv_record_type type, kv_ballot ballot,
    uint64_t slot, const struct kv_entry *entry)
{
	const struct kv_record record = { (uint8_t)type, ballot, slot, entry };

	if (p->ops->append)
		p->appended = p->ops->append(p->arg, &record);
}

/* The store has another configuration. */
void kv_learn_config(struct paxos *p, uint64_t now)
{
	struct kv_config was = p->config;
	bool leads = p->role == PAXOS_LEADER;
	unsigned i;

	p->config = *kv_store_config(p->store);
	for (i = 0; i < KV_MAX_REPLICAS; i++)
		if (was.members[i].incarnation !=
		    p->config.members[i].incarnation) {
			p->stats.config_changes++;
			p->peers[i].heard = now;
		}
	if (leads) {
		/* So that one that was removed learns it. */
		kv_heartbeats(p);
		kv_stand(p, now, false);
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

typedef void handler(struct paxos *p, uint64_t now, const struct kv_message *m);

static handler *const handlers[] = {
	[KV_PREVOTE] = kv_on_prevote,
	[KV_PREVOTE_REPLY] = kv_on_prevote_reply,
	[KV_PREPARE] = kv_on_prepare,
	[KV_PROMISE] = kv_on_promise,
	[KV_ACCEPT] = kv_on_accept,
	[KV_ACCEPTED] = kv_on_accepted,
	[KV_HEARTBEAT] = kv_on_heartbeat,
	[KV_REFUSE] = kv_on_refuse,
	[KV_FETCH] = kv_on_fetch,
	[KV_SNAPSHOT] = kv_on_snapshot,
	[KV_JOIN] = kv_on_join,
};

void paxos_receive(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	if (m->cluster != p->setup.cluster || m->from >= p->setup.n_replicas ||
	    m->from == p->setup.self)
		return;
	start(p, now);
	p->stats.messages_received++;
	if (m->ballot > p->seen)
		p->seen = m->ballot;
	if (is_member(&p->config, m->from, m->incarnation))
		p->peers[m->from].heard = now;
	if (m->type <= KV_JOIN && handlers[m->type])
		handlers[m->type](p, now, m);
}

void paxos_tick(struct paxos *p, uint64_t now)
{
	start(p, now);
	if (now < paxos_due(p))
		return;
	if (p->role == PAXOS_LEADER)
		kv_lead_tick(p, now);
	else if (now >= p->election_at)
		kv_stand(p, now, true);
	else
		kv_ask_all(p);
	if (now < p->retry)
		return;
	p->retry = now + p->setup.heartbeat_ns;
	kv_hint_commit(p);
	kv_catchup_tick(p);
}

uint64_t paxos_due(const struct paxos *p)
{
	return p->role == PAXOS_LEADER || p->retry < p->election_at
	    ? p->retry
	    : p->election_at;
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
	if (position <= p->synced)
		return;
	p->synced = position;
	p->ack = true;
	kv_send_promise(p);
	kv_elect_synced(p, now);
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

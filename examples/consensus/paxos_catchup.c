/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replica that needs slots that are no longer in the leader's log asks
 * another replica for a snapshot of its store, rather not the leader, and gets
 * it part by part; what is behind it comes from the leader. A replica that is
 * no member tells all that it wants to be one.
 */
#include <stdlib.h>
#include <string.h>

#include "paxos_impl.h"

/*
 * Begin a snapshot of the own store, unless one is being made. The disk gets
 * again what the snapshot does not have, so that older records can be deleted
 * when it is complete.
 */
void kv_save(struct paxos *p)
{
	uint64_t slot;

	if (!p->ops->snapshot || p->saving)
		return;
	p->saving = true;
	p->save_bytes = 0;
	p->ops->snapshot(p->arg, p->store);
	kv_append(p, KV_RECORD_PROMISE, p->promised, 0, NULL);
	for (slot = p->commit + 1; slot <= p->log.last; slot++) {
		const struct kv_entry *entry = kv_log_at(&p->log, slot);

		kv_append(p, KV_RECORD_ENTRY, entry->ballot, slot, entry);
	}
}

void paxos_snapshot(struct paxos *p, uint64_t now, uint64_t slot, int err)
{
	(void)now;
	p->saving = false;
	if (err == 0 && slot + 1 >= p->hold)
		p->hold = 0;
}

/* Forget the parts of a snapshot. */
static void drop_parts(struct paxos *p)
{
	free(p->fetch_bytes);
	p->fetch_bytes = NULL;
	p->fetch_slot = p->fetch_total = p->fetch_got = 0;
}

/* Ask the next replica, from the beginning. */
static void next_peer(struct paxos *p)
{
	drop_parts(p);
	p->fetch_tries = 0;
	p->fetch_peer = (p->fetch_peer + 1) % p->setup.n_replicas;
	if (p->fetch_peer == p->setup.self)
		p->fetch_peer = (p->fetch_peer + 1) % p->setup.n_replicas;
}

/* Ask for the next part. One that takes no message is passed over. */
static void fetch(struct paxos *p)
{
	if (!kv_send_to(p, p->fetch_peer,
		&(struct kv_message){ .type = KV_FETCH,
		    .slot = p->fetch_least,
		    .argument = p->fetch_got,
		    .number = p->fetch_slot }))
		p->fetch_tries = FETCH_TRIES;
}

/* A snapshot of at least a slot is needed. peer: who has one, or -1. */
void kv_start_fetch(struct paxos *p, uint64_t least, int peer)
{
	if (least > p->fetch_least)
		p->fetch_least = least;
	if (p->fetching)
		return;
	p->fetching = true;
	/* The leader is busy: its turn comes last. */
	if (p->leader >= 0)
		p->fetch_peer = (unsigned)p->leader;
	next_peer(p);
	if (peer >= 0)
		p->fetch_peer = (unsigned)peer;
	fetch(p);
}

void kv_on_fetch(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	uint64_t slot = 0, total = 0, offset, least = m->slot;
	unsigned left = BURST;
	size_t room = kv_room(p), part = 1;

	(void)now;
	if (!p->ops->snapshot_read || !kv_config_members(&p->config))
		return;
	p->ops->snapshot_read(p->arg, 0, NULL, 0, &slot, &total);
	if (least + 1 < p->log.first && m->number != slot)
		least = p->log.first - 1;
	if (total == 0 || slot < least) {
		if (p->commit >= least && !p->fetching)
			kv_save(p);
		kv_send_to(p, m->from,
		    &(struct kv_message){ .type = KV_SNAPSHOT,
			.status = p->saving ? SNAPSHOT_WAIT : SNAPSHOT_NONE });
		return;
	}
	offset = m->number == slot ? m->argument : 0;
	for (; left && part && offset < total; left--) {
		struct kv_message *reply = kv_begin(
		    p, m->from, KV_SNAPSHOT, room);

		if (!reply)
			return;
		part = p->ops->snapshot_read(
		    p->arg, offset, reply->body, room, &slot, &total);
		reply->slot = slot;
		reply->argument = offset;
		reply->number = total;
		reply->count = (uint16_t)(left - 1);
		reply->size = (uint32_t)(sizeof(*reply) + part);
		kv_send(p, reply);
		offset += part;
	}
	p->stats.snapshots_sent += offset == total;
}

/* A snapshot is here whole: go on from it. */
static void load(struct paxos *p, uint64_t now)
{
	struct kv_store *store;
	int err = kv_store_load(p->fetch_bytes, p->fetch_got, &store);
	uint64_t slot;

	p->fetching = false;
	drop_parts(p);
	if (err != 0)
		return;
	slot = kv_store_slot(store);
	if ((slot <= p->commit && kv_config_members(&p->config)) ||
	    !kv_config_members(kv_store_config(store))) {
		kv_store_free(store);
		return;
	}
	kv_step_down(p, now);
	kv_store_free(p->store);
	p->store = store;
	p->commit = p->hinted = slot;
	if (p->upto < slot)
		p->upto = slot;
	kv_log_drop(&p->log, slot);
	p->stats.snapshots_loaded++;
	if (p->ops->append) {
		p->hold = slot + 1;
		kv_save(p);
	}
	kv_learn_config(p, now);
}

void kv_on_snapshot(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	size_t size = m->size - sizeof(*m);
	bool same = m->slot == p->fetch_slot && m->number == p->fetch_total;

	if (!p->fetching || m->from != p->fetch_peer)
		return;
	if (m->status == SNAPSHOT_NONE) {
		next_peer(p);
		return;
	}
	p->fetch_tries = 0;
	if (m->status == SNAPSHOT_PART && m->argument == 0 && !same) {
		drop_parts(p);
		p->fetch_slot = m->slot;
		p->fetch_total = m->number;
		p->fetch_bytes = malloc((size_t)m->number);
		same = true;
	}
	if (!same || !p->fetch_bytes || m->argument != p->fetch_got)
		return;
	memcpy(p->fetch_bytes + p->fetch_got, m->body, size);
	p->fetch_got += size;
	if (p->fetch_got == p->fetch_total)
		load(p, now);
	else if (m->count == 0)
		fetch(p);
}

/* An incarnation that is no member wants to be one, or does not know it. */
void kv_on_join(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	struct peer *peer = &p->peers[m->from];

	if (is_member(&p->config, m->from, m->incarnation))
		return;
	/* A replica that knows no members can tell no candidate apart. */
	if (m->type != KV_JOIN && !kv_config_members(&p->config))
		return;
	peer->joiner = m->incarnation;
	peer->asked = now;
}

void kv_catchup_tick(struct paxos *p)
{
	if (p->hold)
		kv_save(p);
	if (p->fetching && kv_config_members(&p->config) &&
	    p->commit >= p->fetch_least)
		p->fetching = false;
	if (p->role == PAXOS_JOINING) {
		kv_send_to_all(p, &(struct kv_message){ .type = KV_JOIN });
		if (!kv_config_members(&p->config))
			kv_start_fetch(p, 0, -1);
	}
	if (!p->fetching) {
		drop_parts(p);
		return;
	}
	if (++p->fetch_tries > FETCH_TRIES)
		next_peer(p);
	fetch(p);
}

/*
 * A number has forgotten if another incarnation of it asks to join, while the
 * member has not been heard.
 */
bool paxos_no_quorum(const struct paxos *p, uint64_t now)
{
	bool known = kv_config_members(&p->config) != 0;
	unsigned i, n = 0, lost = 0;

	if (hears_leader(p, now))
		return false;
	for (i = 0; i < p->setup.n_replicas; i++) {
		const struct peer *peer = &p->peers[i];
		bool joins = i == p->setup.self ? p->role == PAXOS_JOINING
						: peer->joiner &&
			now - peer->asked < 4 * p->setup.election_ns;

		/* Without a configuration, each number may be a member. */
		if (known && p->config.members[i].incarnation <= KV_VACANT)
			continue;
		n++;
		lost += joins && now - peer->heard > p->setup.election_ns;
	}
	return lost > 0 && n - lost <= n / 2;
}

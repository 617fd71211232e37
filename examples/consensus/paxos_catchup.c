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
	struct kv_record record = { .type = KV_RECORD_PROMISE,
		.ballot = p->promised };
	uint64_t slot;

	if (!p->ops->snapshot || p->saving)
		return;
	p->saving = true;
	p->save_bytes = 0;
	p->ops->snapshot(p->arg, p->store);
	if (!p->ops->append)
		return;
	p->appended = p->ops->append(p->arg, &record);
	record.type = KV_RECORD_ENTRY;
	for (slot = p->commit + 1; slot <= p->log.last; slot++) {
		record.entry = kv_log_at(&p->log, slot);
		record.ballot = record.entry->ballot;
		record.slot = slot;
		p->appended = p->ops->append(p->arg, &record);
	}
}

void paxos_snapshot(struct paxos *p, uint64_t now, uint64_t slot, int err)
{
	(void)now;
	p->saving = false;
	if (err == 0 && slot + 1 >= p->hold)
		p->hold = 0;
}

/* Another one to ask: the next that was heard lately, the leader as the last.
 */
static void pick_peer(struct paxos *p, uint64_t now)
{
	unsigned i, n = p->setup.n_replicas, at = p->fetch_peer;
	int leader = -1;

	p->fetch_tries = 0;
	p->fetch_slot = p->fetch_total = p->fetch_got = 0;
	for (i = 1; i <= n; i++) {
		unsigned peer = (at + i) % n;

		if (peer == p->setup.self)
			continue;
		if ((int)peer == p->leader) {
			leader = p->leader;
			continue;
		}
		if (kv_config_members(&p->config) &&
		    now - p->peers[peer].heard > p->setup.election_ns)
			continue;
		p->fetch_peer = peer;
		/* The leader has its turn, too. */
		if (leader < 0 || i < n)
			return;
	}
	if (leader >= 0)
		p->fetch_peer = (unsigned)leader;
	else
		p->fetch_peer = (at + 1) % n == p->setup.self ? (at + 2) % n
							      : (at + 1) % n;
}

static void fetch(struct paxos *p)
{
	struct kv_message *m = kv_begin(p, p->fetch_peer, KV_FETCH, 0);

	if (!m)
		return;
	m->slot = p->fetch_least;
	m->argument = p->fetch_got;
	m->number = p->fetch_slot;
	kv_send(p, m);
}

/* A snapshot of at least a slot is needed. peer: who has one, or -1. */
void kv_start_fetch(struct paxos *p, uint64_t now, uint64_t least, int peer)
{
	if (least > p->fetch_least)
		p->fetch_least = least;
	if (p->fetching)
		return;
	p->fetching = true;
	pick_peer(p, now);
	if (peer >= 0)
		p->fetch_peer = (unsigned)peer;
	fetch(p);
}

static void stop_fetch(struct paxos *p)
{
	free(p->fetch_bytes);
	p->fetch_bytes = NULL;
	p->fetching = false;
	p->fetch_slot = p->fetch_total = p->fetch_got = 0;
}

static void answer(struct paxos *p, unsigned to, uint8_t status)
{
	struct kv_message *m = kv_begin(p, to, KV_SNAPSHOT, 0);

	if (!m)
		return;
	m->status = status;
	kv_send(p, m);
}

void kv_on_fetch(struct paxos *p, const struct kv_message *m)
{
	uint64_t slot = 0, total = 0, offset, least = m->slot;
	unsigned left = BURST;
	size_t room = kv_room(p);

	if (!p->ops->snapshot_read || !kv_config_members(&p->config))
		return;
	p->ops->snapshot_read(p->arg, 0, NULL, 0, &slot, &total);
	if (least + 1 < p->log.first && m->number != slot)
		least = p->log.first - 1;
	if (total == 0 || slot < least) {
		if (p->commit >= least && !p->fetching)
			kv_save(p);
		answer(p, m->from, p->saving ? SNAPSHOT_WAIT : SNAPSHOT_NONE);
		return;
	}
	offset = m->number == slot ? m->argument : 0;
	for (; left && offset < total; left--) {
		size_t part = total - offset < room ? (size_t)(total - offset)
						    : room;
		struct kv_message *reply = kv_begin(
		    p, m->from, KV_SNAPSHOT, part);

		if (!reply)
			return;
		part = p->ops->snapshot_read(
		    p->arg, offset, reply->body, part, &slot, &total);
		reply->slot = slot;
		reply->argument = offset;
		reply->number = total;
		reply->count = (uint16_t)(left - 1);
		reply->size = (uint32_t)(sizeof(*reply) + part);
		kv_send(p, reply);
		offset += part;
		if (part == 0)
			return;
	}
	p->stats.snapshots_sent += offset == total;
}

/* A snapshot is here whole: go on from it. */
static void load(struct paxos *p, uint64_t now)
{
	struct kv_store *store;
	int err = kv_store_load(p->fetch_bytes, p->fetch_got, &store);
	uint64_t slot;

	stop_fetch(p);
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
	if (p->voted < slot)
		p->voted = slot;
	kv_log_drop(&p->log, slot);
	p->stats.snapshots_loaded++;
	if (p->ops->append) {
		p->hold = slot + 1;
		kv_save(p);
	}
	kv_learn_config(p, now);
}

static bool begin_parts(struct paxos *p, const struct kv_message *m)
{
	if (m->slot == p->fetch_slot && m->number == p->fetch_total)
		return true;
	if (m->argument != 0)
		return false;
	free(p->fetch_bytes);
	p->fetch_bytes = malloc((size_t)m->number + 1);
	p->fetch_slot = m->slot;
	p->fetch_total = p->fetch_bytes ? m->number : 0;
	p->fetch_got = 0;
	return p->fetch_bytes != NULL;
}

void kv_on_snapshot(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	size_t size = m->size - sizeof(*m);

	if (!p->fetching || m->from != p->fetch_peer)
		return;
	if (m->status == SNAPSHOT_NONE) {
		pick_peer(p, now);
		return;
	}
	p->fetch_tries = 0;
	if (m->status != SNAPSHOT_PART || !begin_parts(p, m) ||
	    m->argument != p->fetch_got || size > p->fetch_total - p->fetch_got)
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
	/* Who knows no members cannot say that a candidate is none. */
	if (m->type != KV_JOIN && !kv_config_members(&p->config))
		return;
	peer->joiner = m->incarnation;
	peer->asked = now;
}

static void join(struct paxos *p)
{
	struct kv_message *m;
	unsigned i;

	for (i = 0; i < p->setup.n_replicas; i++) {
		if (i == p->setup.self)
			continue;
		m = kv_begin(p, i, KV_JOIN, 0);
		if (m)
			kv_send(p, m);
	}
}

void kv_catchup_tick(struct paxos *p, uint64_t now)
{
	if (p->hold)
		kv_save(p);
	if (p->fetching && kv_config_members(&p->config) &&
	    p->commit >= p->fetch_least)
		stop_fetch(p);
	if (p->role == PAXOS_JOINING) {
		join(p);
		if (!kv_config_members(&p->config))
			kv_start_fetch(p, now, 0, -1);
	}
	if (!p->fetching)
		return;
	if (++p->fetch_tries > 8)
		pick_peer(p, now);
	fetch(p);
}

/*
 * Whether so many members are known to have forgotten that no majority is left.
 * A number has forgotten if another incarnation of it asks to join, while the
 * member has not been heard.
 */
bool kv_no_quorum(const struct paxos *p, uint64_t now)
{
	uint64_t lately = 4 * p->setup.election_ns;
	unsigned i, members = kv_config_members(&p->config), lost = 0, all = 0;

	if (p->leader >= 0 && now - p->leader_heard < p->setup.election_ns)
		return false;
	for (i = 0; i < p->setup.n_replicas; i++) {
		uint64_t member = p->config.members[i].incarnation;
		const struct peer *peer = &p->peers[i];
		bool joins = peer->joiner && now - peer->asked < lately;

		if (i == p->setup.self)
			joins = p->role == PAXOS_JOINING;
		all += joins;
		if (member > KV_VACANT && joins &&
		    (i == p->setup.self ||
			now - peer->heard > p->setup.election_ns))
			lost++;
	}
	if (members == 0)
		return all > p->setup.n_replicas / 2;
	return lost > 0 && members - lost < members / 2 + 1;
}

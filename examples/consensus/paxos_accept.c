/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The acceptor: what this replica promises and accepts, and what it learns to
 * be chosen. What it tells others about itself is safe on its disk before.
 *
 * It accepts a leader's entries in the order of slots. upto says how far it has
 * come in the ballot accepted; what it knows to be chosen counts as accepted in
 * each later ballot, since no other command can be proposed there. Therefore it
 * begins at the commit slot in each ballot, and needs no more than that slot
 * and a leader's entries behind it.
 */
#include "paxos_impl.h"

/* Whether the disk has the promise. */
bool kv_promise_safe(const struct paxos *p)
{
	return p->synced >= p->promise_position || bug(p, VOTE_NOT_SYNCED);
}

/* Promise a ballot that is above all promised before. */
void kv_promise(struct paxos *p, kv_ballot ballot)
{
	p->promised = ballot;
	p->promise_to = -1;
	p->leader = -1;
	kv_append(p, KV_RECORD_PROMISE, ballot, 0, NULL);
	p->promise_position = p->appended;
}

/*
 * Promise the ballot of a message, which its leader has sent; or refuse, if a
 * promise is against it.
 */
static bool give_promise(
    struct paxos *p, uint64_t now, const struct kv_message *m)
{
	if (kv_ballot_leader(m->ballot) != m->from)
		return false;
	if (m->ballot < p->promised && !bug(p, OLD_BALLOT)) {
		kv_send_to(p, m->from,
		    &(struct kv_message){ .type = KV_REFUSE,
			.argument = m->ballot,
			.status = hears_leader(p, now) });
		return false;
	}
	if (m->ballot > p->promised) {
		kv_step_down(p, now);
		kv_promise(p, m->ballot);
		p->ops->changed(p->arg);
	}
	return true;
}

void kv_on_prepare(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	if (!give_promise(p, now, m))
		return;
	/* It gets on: many entries take many messages. */
	p->election_at = now + p->timeout;
	p->promise_to = m->from;
	p->promise_for = m->incarnation;
	p->promise_part = m->slot;
	kv_send_promise(p);
}

/* Answer the last PREPARE, once the promise is safe: the candidate repeats. */
void kv_send_promise(struct paxos *p)
{
	uint64_t slot = p->promise_part;
	unsigned left = BURST, sent = 0;
	struct kv_message *m;

	if (p->promise_to < 0 || !kv_promise_safe(p))
		return;
	if (slot < p->log.first && bug(p, TRIMMED_PROMISE))
		slot = p->log.first;
	do {
		m = kv_begin_entries(
		    p, (unsigned)p->promise_to, KV_PROMISE, slot, p->log.last);
		if (!m)
			break;
		m->argument = p->log.last;
		m->number = p->log.first;
		m->session = p->promise_for;
		m->status = (uint8_t)--left;
		sent = m->count;
		slot += sent;
		kv_send(p, m);
	} while (left && sent && slot <= p->log.last);
	p->promise_to = -1;
}

/* Accept a command in the ballot accepted: the next slot's, or one's before. */
bool kv_accept(struct paxos *p, uint64_t slot, const struct kv_command *command,
    size_t size, uint32_t decided)
{
	struct kv_entry *entry = kv_log_put(
	    &p->log, p->commit, slot, command, size);

	if (!entry)
		return false;
	entry->ballot = p->accepted;
	entry->decided = decided;
	kv_append(p, KV_RECORD_ENTRY, entry->ballot, slot, entry);
	if (p->log.positions)
		p->log.positions[slot & p->log.mask] = p->appended;
	return true;
}

/* How far the votes in the ballot accepted are safe. */
void kv_update_voted(struct paxos *p)
{
	if (p->voted < p->commit)
		p->voted = p->commit;
	if (!p->ops->append || bug(p, VOTE_NOT_SYNCED)) {
		p->voted = p->upto;
		return;
	}
	if (!kv_promise_safe(p))
		return;
	while (p->voted < p->upto &&
	    p->log.positions[(p->voted + 1) & p->log.mask] <= p->synced)
		p->voted++;
}

/*
 * A message of the leader of a ballot: follow it, if no promise is against it.
 * A number's incarnations may have used one ballot, for different slots: each
 * begins anew.
 */
static bool follow(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	if (!give_promise(p, now, m))
		return false;
	if (!kv_config_members(&p->config)) {
		kv_start_fetch(p, 0, -1);
		return false;
	}
	if (m->ballot != p->accepted || m->incarnation != p->proposer) {
		p->accepted = m->ballot;
		p->proposer = m->incarnation;
		if (!bug(p, OLD_VOTE))
			p->upto = p->voted = p->commit;
		p->ack_round = 0;
		p->gap = false;
		p->fast = (struct fast_path){ .ballot = 0 };
	}
	if (p->leader != m->from) {
		p->leader = m->from;
		p->ops->changed(p->arg);
	}
	if (m->argument > p->ack_round)
		p->ack_round = m->argument;
	p->prevoting = false;
	p->leader_heard = now;
	p->election_at = now + p->timeout;
	p->ack = true;
	return true;
}

/*
 * All up to a slot are chosen, says the leader of the ballot accepted. On a
 * fast path, what was accepted here is what was chosen only where no decided
 * no-op can be unknown.
 */
static void learn(struct paxos *p, uint64_t now, uint64_t commit)
{
	uint64_t most = bug(p, COMMIT_BLIND) ? p->log.last : p->upto;

	if (is_fast(p) && p->fast.settled < most && !bug(p, BLIND_APPLY))
		most = p->fast.settled;
	kv_commit_to(p, now, commit < most ? commit : most);
}

void kv_on_accept(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	const char *at = m->body;
	unsigned i;

	if (!follow(p, now, m) || p->hold)
		return;
	for (i = 0; i < m->count; i++) {
		const struct kv_entry *entry = (const void *)at;

		at += kv_entry_size(entry);
		if (entry->slot <= p->upto)
			continue;
		if (entry->slot != p->upto + 1) {
			p->gap = true;
			break;
		}
		if (entry->slot > p->log.last &&
		    !kv_log_takes(&p->log, p->commit))
			break;
		if (!kv_accept(p, entry->slot, &entry->command, entry->size,
			entry->ballot == m->ballot ? entry->decided : 0))
			break;
		p->upto++;
		p->gap = false;
	}
	kv_update_voted(p);
	learn(p, now, m->commit);
}

void kv_on_heartbeat(struct paxos *p, uint64_t now, const struct kv_message *m)
{
	if (!follow(p, now, m))
		return;
	/* Its last decided no-op is known here, so all up to its last slot. */
	if (is_fast(p) && p->fast.settled >= m->session &&
	    p->fast.settled < m->number)
		p->fast.settled = m->number;
	learn(p, now, m->commit);
	if (m->slot > p->commit + 1)
		kv_start_fetch(p, m->slot - 1, -1);
}

/* Tell the leader how far this replica is. */
void kv_send_accepted(struct paxos *p)
{
	if (p->leader < 0 || !kv_promise_safe(p))
		return;
	kv_update_voted(p);
	if (kv_send_to(p, (unsigned)p->leader,
		&(struct kv_message){ .type = KV_ACCEPTED,
		    .ballot = p->accepted,
		    .slot = p->voted,
		    .number = p->upto,
		    .argument = p->ack_round,
		    .session = p->proposer,
		    .status = p->gap }))
		p->ack = p->gap = false;
}

/* Tell the disk what is chosen, so that a restart can apply it. */
void kv_hint_commit(struct paxos *p)
{
	p->hint_bytes = 0;
	if (p->hinted == p->commit)
		return;
	p->hinted = p->commit;
	kv_append(p, KV_RECORD_COMMIT, 0, p->commit, NULL);
}

/* Apply a slot: its commands, in their order. */
static int apply(struct paxos *p, const struct kv_entry *entry)
{
	const struct kv_command *command;
	struct kv_result result;
	int ret;

	do {
		command = kv_store_next(p->store, &entry->command);
		ret = kv_store_apply(
		    p->store, entry->slot, &entry->command, &result);
		if (ret < 0)
			return ret;
		if (ret == 0)
			p->commit++;
		p->stats.applied++;
		if (p->started)
			p->ops->applied(p->arg, entry->slot, command, &result);
	} while (ret > 0);
	p->hint_bytes += kv_entry_size(entry);
	p->save_bytes += kv_entry_size(entry);
	return 0;
}

/* All up to a slot are chosen, and the entries here are those: apply them. */
void kv_commit_to(struct paxos *p, uint64_t now, uint64_t slot)
{
	bool config = false;

	while (p->commit < slot) {
		const struct kv_entry *entry = kv_log_at(
		    &p->log, p->commit + 1);

		/* Without memory, the next heartbeat tries again. */
		if (apply(p, entry) < 0)
			break;
		config |= entry->command.op == KV_CONFIG;
	}
	if (p->upto < p->commit)
		p->upto = p->commit;
	if (!p->started)
		return;
	if (p->hint_bytes > p->log.size / 8)
		kv_hint_commit(p);
	if (p->ops->append && p->save_bytes > p->log.size)
		kv_save(p);
	if (config)
		kv_learn_config(p, now);
}

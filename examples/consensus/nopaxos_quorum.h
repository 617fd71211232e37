/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a client may believe a reply: at once, if its slot is chosen; on a fast
 * path when the leader's result and a majority's votes, the leader's included,
 * name the same ballot and slot. For each command that is outstanding a client
 * keeps a struct kv_quorum, zeroed when the command is first sent, and room for
 * one result.
 *
 * A request that was sent twice may be in two slots, and its replies are of
 * both. Only those of one slot count together; of the highest, since the others
 * may never become complete.
 */
#ifndef KV_NOPAXOS_QUORUM_H
#define KV_NOPAXOS_QUORUM_H

#include "message.h"

struct kv_quorum {
	kv_ballot ballot;
	uint64_t slot;
	uint32_t votes;  /* replica numbers, a bit each */
	uint8_t members; /* as the leader says; 0: its result is missing */
	bool any_slot;   /* for tests: votes of all slots count together */
};

enum kv_quorum_news {
	KV_QUORUM_WAIT,   /* nothing to do with the message */
	KV_QUORUM_RESULT, /* keep its status and value; the quorum is missing */
	KV_QUORUM_DONE,   /* what was kept is the result */
	KV_QUORUM_BOTH,   /* it is the result */
};

/* Take a KV_REPLY to the command that has been sent; not a refusal. */
static inline enum kv_quorum_news kv_quorum_add(
    struct kv_quorum *quorum, const struct kv_message *reply)
{
	bool vote = reply->status == KV_VOTED, had = quorum->members != 0;
	uint32_t rest;
	unsigned n = 0;

	if (!vote && reply->count == 0)
		return KV_QUORUM_BOTH;
	if (reply->from >= KV_MAX_REPLICAS || reply->ballot < quorum->ballot ||
	    (reply->ballot == quorum->ballot && reply->slot < quorum->slot))
		return KV_QUORUM_WAIT;
	if (reply->ballot != quorum->ballot || reply->slot != quorum->slot) {
		quorum->ballot = reply->ballot;
		quorum->slot = reply->slot;
		if (!quorum->any_slot) {
			quorum->votes = 0;
			quorum->members = 0;
			had = false;
		}
	}
	quorum->votes |= UINT32_C(1) << reply->from;
	if (!vote)
		quorum->members = (uint8_t)reply->count;
	for (rest = quorum->votes; rest; rest &= rest - 1)
		n++;
	if (quorum->members == 0 || n <= quorum->members / 2)
		return vote ? KV_QUORUM_WAIT : KV_QUORUM_RESULT;
	return vote && had ? KV_QUORUM_DONE : KV_QUORUM_BOTH;
}

#endif

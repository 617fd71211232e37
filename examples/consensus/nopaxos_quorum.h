/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a client may believe a result: at once, if its slot is chosen; on a fast
 * path when a majority has accepted the slot, with the leader that says the
 * result. Followers accept in the order of slots, so one vote goes for all
 * slots of its ballot up to its own, and for all requests in them. A client
 * keeps the last vote of each replica, and a result until it is confirmed.
 *
 * A request that was sent twice may be in two slots, and has a result of each.
 * Of one leader the first is confirmed first; of two leaders, the newer one's
 * may be the only one that ever is.
 */
#ifndef KV_NOPAXOS_QUORUM_H
#define KV_NOPAXOS_QUORUM_H

#include "message.h"

/* All zero at the beginning. */
struct kv_votes {
	struct {
		kv_ballot ballot;
		uint64_t leader; /* its incarnation */
		uint64_t slot;
	} of[KV_MAX_REPLICAS];
	bool any_slot; /* for tests: a vote goes for all slots */
};

/* Take a KV_VOTE. */
static inline void kv_votes_take(
    struct kv_votes *votes, const struct kv_message *vote)
{
	unsigned from = vote->from;
	bool same;

	if (from >= KV_MAX_REPLICAS || vote->ballot < votes->of[from].ballot)
		return;
	same = vote->ballot == votes->of[from].ballot &&
	    vote->session == votes->of[from].leader;
	if (same && vote->slot <= votes->of[from].slot)
		return;
	votes->of[from].ballot = vote->ballot;
	votes->of[from].leader = vote->session;
	votes->of[from].slot = vote->slot;
}

/* Whether a KV_REPLY that is no refusal is final. */
static inline bool kv_votes_confirm(
    const struct kv_votes *votes, const struct kv_message *result)
{
	unsigned i, n = 1;

	if (result->count == 0)
		return true;
	for (i = 0; i < KV_MAX_REPLICAS; i++)
		n += i != result->from &&
		    votes->of[i].ballot == result->ballot &&
		    votes->of[i].leader == result->incarnation &&
		    (votes->of[i].slot >= result->slot || votes->any_slot);
	return n > result->count / 2U;
}

/* Whether a result is to be kept in place of one that is not yet confirmed. */
static inline bool kv_votes_prefer(
    const struct kv_message *result, const struct kv_message *kept)
{
	return result->ballot > kept->ballot ||
	    (result->ballot == kept->ballot &&
		result->incarnation != kept->incarnation);
}

#endif

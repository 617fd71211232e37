/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the NOPaxos core:
 *
 *	nopaxos.c        messages, time, and opening and ending fast paths
 *	nopaxos_slots.c  what comes by the flow, gaps, and replies
 *	nopaxos_stash.c  what comes before its turn
 *	guess.c          results ahead of the store
 *
 * Fields of its messages, beside those of all:
 *
 *	            ballot  slot            argument       session     number
 *	SESSION     led     base            first segment  flow
 *	GAP_ASK     led     first missing   last           leader's
 *	GAP_DECIDE  led     from            to                         slots
 *	GAP_DECIDED led     knows up to                    leader's
 *
 * SESSION opens a fast path. GAP_DECIDE has in its body the slots that hold
 * decided no-ops: all of them behind "from", up to "to". GAP_DECIDED answers
 * both; its status is 1 where the flow isn't open. leader's: the incarnation of
 * the leader that it is for. A heartbeat of a leader with a fast path has in
 * number its last slot and in session the last decided no-op. Missing entries
 * come as ACCEPT.
 */
#ifndef KV_NOPAXOS_IMPL_H
#define KV_NOPAXOS_IMPL_H

#include "guess.h"
#include "nopaxos.h"
#include "paxos_impl.h"

/* A segment that cannot be accepted yet, and behind it its command. */
struct stashed {
	uint64_t n;
	size_t size; /* of the command; 0: what follows is at the beginning */
};

struct nopaxos {
	struct nopaxos_setup setup;
	const struct nopaxos_ops *ops;
	void *arg;
	struct paxos *p;
	struct kv_guess *guess;
	struct nopaxos_stats stats;

	/* The flow that is open here. */
	uint64_t flow; /* 0: none */
	uint64_t next; /* number of its next segment */
	uint64_t dead; /* a flow that stood still */

	/* The fast path: valid if path is the core's ballot with one. */
	kv_ballot path;
	uint64_t path_leader; /* its incarnation */
	uint64_t path_flow;
	uint64_t first; /* number of the segment for the base slot */

	uint64_t exists;    /* slots up to this were heard of */
	uint64_t announced; /* by the last heartbeat */
	uint64_t replied;   /* follower: voted, and said so to clients */
	uint64_t executed;  /* leader */
	uint64_t barrier; /* the last slot that it waited for the store with */
	uint64_t settle_position; /* disk: of the last decided no-op taken */
	uint64_t settled_safe;    /* what of fast.settled is safe there */
	uint64_t acked;           /* follower: accepted, and said so */
	size_t unacked;           /* bytes that came by the flow since */
	uint64_t ask_at;          /* for what is missing */
	bool answer_due;          /* a GAP_DECIDED */
	bool decide_due;          /* a GAP_DECIDE to all */

	/* Leader. */
	uint64_t open_at;      /* no fast path before */
	uint64_t opened_at;    /* or closed, to open one */
	uint64_t delivered_at; /* by the flow */
	uint64_t probe_at;
	uint64_t tick_at;
	uint32_t joined; /* members where the flow is open, a bit each */

	/* Segments in the order of their numbers: bytes head - tail are used.
	 */
	char *stash;
	size_t stash_size, stash_head, stash_tail;
	uint64_t stash_last; /* number of the newest */
};

#ifdef KV_TEST_BUGS
#define np_bug(np, name) (((np)->setup.bugs & NOPAXOS_BUG_##name) != 0)
#else
#define np_bug(np, name) false
#endif

/* Whether this replica leads a fast path, or votes on one. */
static inline bool np_leads(const struct nopaxos *np)
{
	return is_fast(np->p) && np->p->role == PAXOS_LEADER;
}

static inline bool np_follows(const struct nopaxos *np)
{
	return is_fast(np->p) && np->p->role == PAXOS_FOLLOWER &&
	    np->p->leader >= 0 && np->path == np->p->fast.ballot &&
	    np->path_leader == np->p->proposer;
}

/* nopaxos_slots.c */
void np_begin_path(struct nopaxos *np);
void np_take_stash(struct nopaxos *np);
void np_ask(struct nopaxos *np, uint64_t now);
void np_reply(struct nopaxos *np);
void np_on_decide(struct nopaxos *np, const struct kv_message *m);
void np_on_decided(
    struct nopaxos *np, uint64_t now, const struct kv_message *m);
void np_on_ask(struct nopaxos *np, const struct kv_message *m);
void np_send_decide(struct nopaxos *np, unsigned to);
void np_send_decided(struct nopaxos *np);

/* nopaxos_stash.c */
void np_stash(struct nopaxos *np, uint64_t n, const struct kv_command *command,
    size_t size);
struct stashed *np_stash_oldest(struct nopaxos *np); /* or NULL */
void np_stash_drop(struct nopaxos *np);              /* the oldest one */
void np_drop_stash(struct nopaxos *np);              /* all */

#endif

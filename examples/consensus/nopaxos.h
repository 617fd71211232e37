/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NOPaxos as a fast path of Multi-Paxos: a state machine like it, on top of it.
 *
 * Requests go through an ordered flow to all replicas, in the same order, and a
 * replica that misses one is told so. A leader whose slots are all chosen opens
 * a fast path in its ballot: from a base slot on, the flow's segments are what
 * is proposed, one slot each; a segment has one command or a batch. Each
 * replica accepts them in order. The leader executes them at once and replies
 * with results; followers reply that they have accepted. A client takes a
 * result when a majority, with the leader, has accepted its slot:
 * nopaxos_quorum.h. So a request takes one round trip, and no replica waits for
 * another.
 *
 * A segment that the leader misses becomes a no-op, by its decision; followers
 * ask it for those that they miss. What goes on otherwise, and what follows
 * when the flow stands still or the leader is lost, is Multi-Paxos: cumulative
 * acknowledgements at a low rate, and a new ballot, whose phase 1 takes in what
 * the fast path has accepted. PROTOCOL.md says why that is safe.
 *
 * Results are guessed: the store applies only what is chosen, and the leader
 * works out what it will give. So there is nothing to undo when it steps down.
 *
 * One thread at a time, the core's.
 */
#ifndef KV_NOPAXOS_H
#define KV_NOPAXOS_H

#include "paxos.h"

struct nopaxos;

struct nopaxos_ops {
	/*
	 * As the leader: a command was accepted in a slot, perhaps with others,
	 * and has this result. Tell its client, if it is connected here. The
	 * reply's count is members, so that the client knows what a majority
	 * is.
	 */
	void (*reply)(void *arg, uint64_t slot, kv_ballot ballot,
	    unsigned members, const struct kv_command *command,
	    const struct kv_result *result);
	/*
	 * As a follower: the commands of a slot were accepted, as were all
	 * slots before. Tell their clients by a KV_VOTE; of several to one, the
	 * last is enough. leader is the incarnation of the ballot's.
	 */
	void (*vote)(void *arg, uint64_t slot, kv_ballot ballot,
	    uint64_t leader, const struct kv_command *command);
	/*
	 * Push a command into the ordered flow through the own gateway, if it
	 * takes it now.
	 */
	void (*publish)(void *arg, const struct kv_command *command);
};

struct nopaxos_setup {
	uint64_t probe_ns;  /* the leader pushes a no-op so often */
	uint64_t quiet_ns;  /* of a flow until the leader gives it up */
	uint64_t reopen_ns; /* a ballot without a fast path lasts so long */
	uint32_t window;    /* slots that are executed and not yet chosen */
	size_t stash_bytes; /* for segments that cannot be accepted yet */
	unsigned bugs;      /* for tests: enum nopaxos_bug; 0 */
};

struct nopaxos_stats {
	uint64_t opened;       /* fast paths, as leader */
	uint64_t ended;        /* by a new ballot of the same leader */
	uint64_t accepted;     /* segments */
	uint64_t gaps_decided; /* slots that the leader missed */
	uint64_t gaps_taken;   /* decided no-ops that followers took */
	uint64_t gaps_over;    /* of these, in place of a request */
	uint64_t gaps_asked;
	uint64_t gaps_filled;      /* slots that the leader sent a follower */
	uint64_t stashed, dropped; /* segments */
	uint64_t executed;         /* ahead of the store */
	uint64_t barriers;         /* waits of these for the store */
	uint64_t wrong;            /* results that the store didn't give: 0 */
};

/* The memory that it takes beside the core. */
uint64_t nopaxos_needs(const struct nopaxos_setup *setup);

/* On top of a core, which stays the caller's. NULL: ENOMEM. */
struct nopaxos *nopaxos_new(const struct nopaxos_setup *setup,
    const struct nopaxos_ops *ops, void *arg, struct paxos *paxos);
void nopaxos_free(struct nopaxos *np);

/* These go in place of the core's, which they call. */
void nopaxos_receive(
    struct nopaxos *np, uint64_t now, const struct kv_message *message);
void nopaxos_tick(struct nopaxos *np, uint64_t now);
uint64_t nopaxos_due(const struct nopaxos *np);
void nopaxos_flush(struct nopaxos *np, uint64_t now);
void nopaxos_synced(struct nopaxos *np, uint64_t now, uint64_t position);

/*
 * An ordered flow is open at this replica, whose next segment has a number; or
 * none is (0). Each flow has an id that no other one has had.
 */
void nopaxos_flow(struct nopaxos *np, uint64_t flow, uint64_t next);

/*
 * A flow's n-th segment is here: size bytes with a command. Segments come in
 * order; one that was missing may still come late, or never.
 */
void nopaxos_deliver(struct nopaxos *np, uint64_t now, uint64_t flow,
    uint64_t n, const struct kv_command *command, size_t size);

/* Segments n and following of a flow, count of them, will not come. */
void nopaxos_gap(struct nopaxos *np, uint64_t now, uint64_t flow, uint64_t n,
    uint64_t count);

/* Whether requests are to go into the ordered flow, as far as is known here. */
bool nopaxos_is_open(const struct nopaxos *np);

/* As leader: end the fast path, and open none for reopen_ns. */
void nopaxos_end(struct nopaxos *np, uint64_t now);

/*
 * The core's operation applied calls this. True: the client needs no answer any
 * more; false: if this replica leads, it gets this one, which is final.
 */
bool nopaxos_applied(
    struct nopaxos *np, uint64_t slot, const struct kv_result *result);

void nopaxos_query(const struct nopaxos *np, struct nopaxos_stats *stats);

/* Faults that tests plant; beside those of enum paxos_bug. */
enum nopaxos_bug {
	NOPAXOS_BUG_FILLED_TWICE = 1 << 0, /* a late segment over a no-op */
	NOPAXOS_BUG_PAST_GAP = 1 << 1,     /* executed past one undecided */
	NOPAXOS_BUG_OLD_SESSION = 1 << 2,  /* segments go where they went in
					      the ballot before */
	NOPAXOS_BUG_UNDECIDES = 1 << 3,    /* a request over a decided no-op */
	NOPAXOS_BUG_HOLES = 1 << 4,        /* votes past what is missing */
};

#endif

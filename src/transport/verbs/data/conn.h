/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection as its user sees it: work requests (post.c), and the break of
 * the connection (broken.c). connection/ makes and ends it.
 */
#ifndef DFI_TRANSPORT_VERBS_DATA_CONN_H
#define DFI_TRANSPORT_VERBS_DATA_CONN_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "transport/network_ring.h"
#include "transport/verbs/verbs.h"

struct verbs_message;

/* At least one request in this many is signalled; more on a small queue. */
#define VERBS_SIGNAL_INTERVAL 32

/* This many writes of a batch are posted together. */
#define VERBS_CHAIN 4

/* A write that waits for others of its batch. */
struct verbs_held {
	struct ibv_send_wr request;
	struct ibv_sge parts[VERBS_PARTS];
};

struct verbs_conn {
	struct verbs *verbs;
	struct verbs_conn *next;
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	struct ibv_cq *sends;
	/*
	 * One thread at a time uses the connection, so the domain needs no
	 * lock; NULL: the device has none.
	 */
	struct ibv_td *thread;
	struct ibv_pd *domain;
	char peer[TRANSPORT_ADDRESS_SIZE];
	bool accepted;
	uint64_t node;         /* the accepted peer's id, proved */
	uint64_t nonce;        /* of our handshake */
	bool established;      /* as this end sees it */
	_Atomic bool breaking; /* a thread is writing why */
	_Atomic bool broken;   /* it must not be used any more */
	char
	    why[NETWORK_WHY_SIZE]; /* why it is broken; "": the peer has left */
	/* The queue pair's end; see connection/drain.c. */
	bool stopped; /* it is in an error state */
	int64_t stopped_at;
	uint64_t mark; /* number of its last work request; 0: not posted */
	bool flushed;  /* all posted requests have completed */
	_Atomic bool gave_back; /* and all arrivals were taken */
	bool drained;           /* it may be destroyed */
	bool failed;            /* a send has failed, so all later ones will */
	bool refused; /* a post was refused: later ones must not fill the gap */
	const void *writer; /* its user; NULL: it is free */
	uint32_t n_remotes; /* of that writer */
	uint32_t max_inline;
	uint32_t max_sends; /* sends that are under way */
	uint32_t interval;  /* one request in this many is signalled */
	/* Work requests since the connection was made. */
	uint64_t posted, completed;
	uint32_t unsignalled; /* the last ones */
	uint32_t n_held;      /* the last requests, not posted yet */
	struct verbs_held held[VERBS_CHAIN];
	uint32_t n_owing; /* links with something to post when there is room */
	int64_t next_probe; /* time of the next probe at the earliest */
	bool read;          /* accepted connection: a ring was written */
	uint64_t swept;     /* value of posted at the last sweep */
	struct verbs_counts counts;
};

/*
 * Returns how many remotes may share a connection. It then has room for all
 * that their writer may have under way: two segments each, and their end marks.
 */
static inline uint32_t verbs_most_remotes(const struct verbs_conn *conn)
{
	return conn->max_sends / 4;
}

/*
 * Tells whether the connection has room for all segments that its writer may
 * have open, so that sending one never waits.
 */
static inline bool verbs_has_room(const struct verbs_conn *conn)
{
	uint64_t under_way = conn->posted - conn->completed;
	uint64_t open = 2 * (uint64_t)conn->n_remotes;

	return under_way + min_u64(open, conn->max_sends / 2) < conn->max_sends;
}

/*
 * Tells whether the queue is so full that credits, which any slow peer may
 * delay, have to wait: the other half of the queue is for answers. If so, the
 * next completion wakes the control thread.
 */
bool dfi__verbs_is_busy(struct verbs_conn *conn);

/*
 * For a connection that is broken or seems full, and for one whose device
 * refused a post with an errno value. 0, or -ECONNRESET.
 */
int dfi__verbs_make_room(struct verbs_conn *conn);
int dfi__verbs_not_posted(struct verbs_conn *conn, int err);

/* Nothing is under way; the last request was signalled, or it broke. */
static inline bool verbs_is_quiet(const struct verbs_conn *conn)
{
	return conn->completed == conn->posted || atomic_peek(&conn->broken);
}

/* The number of the next work request, and whether it is signalled. */
static inline int verbs_number(
    struct verbs_conn *conn, struct ibv_send_wr *wr, bool signal)
{
	if (unlikely(atomic_peek(&conn->broken) || conn->refused ||
		conn->posted - conn->completed >= conn->max_sends) &&
	    dfi__verbs_make_room(conn))
		return -ECONNRESET;
	wr->wr_id = ++conn->posted;
	if (++conn->unsignalled >= conn->interval || signal) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		verbs_count(&conn->counts.signalled, 1);
		conn->unsignalled = 0;
	}
	return 0;
}

/* Post the held requests, and behind them one that has its number. */
int dfi__verbs_post_behind(struct verbs_conn *conn, struct ibv_send_wr *wr);

/*
 * Post a work request, which gets the next number. Never waits: the caller has
 * ensured that there is room; without room the connection breaks. -ECONNRESET:
 * it is broken.
 */
static inline int verbs_post(
    struct verbs_conn *conn, struct ibv_send_wr *wr, bool signal)
{
	struct ibv_send_wr *bad;
	int err;

	if (unlikely(verbs_number(conn, wr, signal)))
		return -ECONNRESET;
	if (unlikely(conn->n_held))
		return dfi__verbs_post_behind(conn, wr);
	verbs_count(&conn->counts.doorbells, 1);
	err = ibv_post_send(conn->qp, wr, &bad);
	return likely(!err) ? 0 : dfi__verbs_not_posted(conn, err);
}

/* Hold a write until there are enough, or something else is posted. */
int dfi__verbs_post_later(struct verbs_conn *conn, struct ibv_send_wr *wr);

/* Post what is held. */
int dfi__verbs_post_held(struct verbs_conn *conn);

/*
 * Take the completions of sends, also after the peer has left: it may have
 * acknowledged them before. -ECONNRESET: a send has failed.
 */
int dfi__verbs_poll_sends(struct verbs_conn *conn);

/*
 * A thread that waits for the peer calls it repeatedly: it sends an empty write
 * now and then, so that the queue pair finds out if the peer has vanished.
 */
void dfi__verbs_probe(struct verbs_conn *conn);

/* Send a message, whose completion may be asked for; as verbs_post(). */
int dfi__verbs_send(
    struct verbs_conn *conn, const struct verbs_message *message, bool signal);

/* Add up counters: those of connections that are freed, and all for users. */
void dfi__verbs_add_counts(
    struct verbs_counts *to, const struct verbs_counts *from);

/* data/broken.c */

/* Something that connections wait for has happened. Any thread. */
void dfi__verbs_breaks_wake(struct verbs *verbs);

/*
 * Mark a connection as unusable. The control thread will inform all that depend
 * on it. Any locks may be held.
 */
void dfi__verbs_break(struct verbs_conn *conn, const char *why);

/* The same without an error: the peer closed the connection. */
void dfi__verbs_left(struct verbs_conn *conn);

/* Break all connections and let none be made any more. why lives for ever. */
void dfi__verbs_break_all(struct verbs *verbs, const char *why);

/* Returns why it is broken; NULL: it isn't, or the peer has left. */
const char *dfi__verbs_why(const struct verbs_conn *conn);

#endif

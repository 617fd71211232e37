/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection, by which its user sends: work requests (post.c), and that it is
 * broken (broken.c). connection/ makes and ends it.
 */
#ifndef DFI_TRANSPORT_VERBS_DATA_CONN_H
#define DFI_TRANSPORT_VERBS_DATA_CONN_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/compiler.h"
#include "transport/verbs/verbs.h"

struct dfi_context_stats;
struct verbs_message;

/* At least one in this many is signalled; more on a small queue. */
#define VERBS_SIGNAL_INTERVAL 32

/* A text that says why a connection broke. */
#define VERBS_WHY_SIZE 160

/* So many writes of a batch are posted together. */
#define VERBS_CHAIN 4

/* One that waits for the others. */
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
	/* Those who use it do so one at a time, so no lock is needed in it;
	 * NULL: the device has none. */
	struct ibv_td *thread;
	struct ibv_pd *domain;
	char peer[TRANSPORT_ADDRESS_SIZE];
	bool accepted;
	uint64_t node;            /* of who was accepted: its id, proved */
	uint64_t nonce;           /* of our handshake */
	bool established;         /* as far as this end knows */
	_Atomic bool breaking;    /* somebody writes why */
	_Atomic bool broken;      /* it is to be used no more */
	char why[VERBS_WHY_SIZE]; /* if it is broken; "": the peer has gone */
	/* The queue pair's end; see connection/drain.c. */
	bool stopped; /* it is in an error state */
	int64_t stopped_at;
	uint64_t mark;          /* its last work request; 0: not posted */
	bool flushed;           /* all that was posted has completed */
	_Atomic bool gave_back; /* and all that arrived */
	bool drained;           /* it may be destroyed */
	bool failed;            /* a send has failed, and so will all others */
	bool refused;           /* a post has: nothing may go behind the hole */
	const void *writer;     /* who uses it; NULL: it may be taken */
	uint32_t n_remotes;     /* of that writer */
	uint32_t max_inline;
	uint32_t max_sends; /* under way */
	uint32_t interval;  /* one in this many is signalled */
	/* Work requests since the connection was made. */
	uint64_t posted, completed;
	uint32_t unsignalled; /* the last ones */
	uint32_t n_held;      /* the last ones, not posted yet */
	struct verbs_held held[VERBS_CHAIN];
	uint32_t n_owing;   /* links with something that waits for room */
	int64_t next_probe; /* not before */
	bool read;          /* of what was accepted: a ring is written */
	uint64_t swept;     /* posted, when that was last looked at */
	struct verbs_counts counts;
};

/*
 * A connection has room for all that its writer may have under way if no more
 * than so many remotes share it: two segments each, and their end marks.
 */
static inline uint32_t verbs_most_remotes(const struct verbs_conn *conn)
{
	return conn->max_sends / 4;
}

/*
 * Whether so much is under way that credits, which anybody's slowness may
 * delay, have to wait: the other half of the queue is for answers. The control
 * thread is then woken when it may be different.
 */
bool dfi__verbs_is_busy(struct verbs_conn *conn);

/* Of a connection that is broken, or full by what is known; and of a post that
 * the device refused, with an errno value. 0, or -ECONNRESET. */
int dfi__verbs_make_room(struct verbs_conn *conn);
int dfi__verbs_not_posted(struct verbs_conn *conn, int err);

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

/* What is held, and behind it one that has its number. */
int dfi__verbs_post_behind(struct verbs_conn *conn, struct ibv_send_wr *wr);

/*
 * Post a work request, which gets the next number. Never waits: who posts has
 * seen to it that there is room, else the connection breaks. -ECONNRESET: it is
 * broken.
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
 * Take the completions of sends that are there, also after the peer has left,
 * who may have acknowledged them before. -ECONNRESET: a send has failed.
 */
int dfi__verbs_poll_sends(struct verbs_conn *conn);

/*
 * Called again and again by who waits for the peer: write nothing to it now and
 * then, so that the queue pair finds out if it has vanished.
 */
void dfi__verbs_probe(struct verbs_conn *conn);

/* Send a message; as verbs_post(). */
int dfi__verbs_send(
    struct verbs_conn *conn, const struct verbs_message *message);

/* Of counts that go, keep what was counted; and tell users of it. */
void dfi__verbs_keep_counts(
    struct verbs_counts *to, const struct verbs_counts *from);
void dfi__verbs_query_counts(
    const struct verbs_counts *counts, struct dfi_context_stats *stats);

/* data/broken.c */

/* Something that connections wait for has come. Any thread. */
void dfi__verbs_breaks_wake(struct verbs *verbs);

/*
 * The connection can't be used any more. The control thread will tell all that
 * depend on it. Any locks may be held.
 */
void dfi__verbs_break(struct verbs_conn *conn, const char *why);

/* The same, but no error of the connection: its peer closed it. */
void dfi__verbs_left(struct verbs_conn *conn);

/* A break of all connections, and none can be made any more. why lives for
 * ever. */
void dfi__verbs_break_all(struct verbs *verbs, const char *why);

/* Why it is broken; NULL: it isn't, or the peer has gone. */
const char *dfi__verbs_why(const struct verbs_conn *conn);

#endif

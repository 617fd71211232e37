/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work requests on one connection: posting them, selective signalling, and
 * taking their completions.
 */

#include "conn.h"

#include <string.h>
#include <dfi/context.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "message.h"

/* How often a waiting thread checks that a quiet peer is still there. */
#define PROBE_NS (INT64_C(500) * NS_PER_MS)

int dfi__verbs_poll_sends(struct verbs_conn *conn)
{
	struct ibv_wc wcs[8];
	int i, n;

	/* connection/drain.c handles queues that end. */
	if (conn->failed || conn->stopped)
		return -ECONNRESET;
	n = ibv_poll_cq(conn->sends, 8, wcs);
	for (i = 0; i < n && wcs[i].status == IBV_WC_SUCCESS; i++)
		conn->completed = wcs[i].wr_id;
	if (n >= 0 && i == n)
		return 0;
	conn->failed = true;
	dfi__verbs_break(conn,
	    n < 0 ? "its completion queue failed"
		  : ibv_wc_status_str(wcs[i].status));
	return -ECONNRESET;
}

/* Tells whether one more request fits into a part of the queue. */
static bool fits(const struct verbs_conn *conn, uint32_t part)
{
	return conn->posted - conn->completed < part;
}

/* A broken connection is not busy: posting reports it. */
static bool still_busy(struct verbs_conn *conn)
{
	return !dfi__verbs_poll_sends(conn) && !fits(conn, conn->max_sends / 2);
}

bool dfi__verbs_is_busy(struct verbs_conn *conn)
{
	if (fits(conn, conn->max_sends / 2) || !still_busy(conn))
		return false;
	ibv_req_notify_cq(conn->sends, 0);
	/* Earlier completions cause no event. */
	return still_busy(conn);
}

int dfi__verbs_make_room(struct verbs_conn *conn)
{
	if (atomic_peek(&conn->broken) || conn->refused ||
	    dfi__verbs_poll_sends(conn))
		return -ECONNRESET;
	if (fits(conn, conn->max_sends))
		return 0;
	dfi__verbs_break(conn, "its send queue is full");
	return -ECONNRESET;
}

int dfi__verbs_not_posted(struct verbs_conn *conn, int err)
{
	conn->refused = true;
	dfi__verbs_break(conn, strerror(err));
	return -ECONNRESET;
}

static int post_chain(struct verbs_conn *conn)
{
	struct ibv_send_wr *bad;
	int err;

	conn->n_held = 0;
	verbs_count(&conn->counts.doorbells, 1);
	err = ibv_post_send(conn->qp, &conn->held[0].request, &bad);
	return likely(!err) ? 0 : dfi__verbs_not_posted(conn, err);
}

int dfi__verbs_post_behind(struct verbs_conn *conn, struct ibv_send_wr *wr)
{
	conn->held[conn->n_held - 1].request.next = wr;
	return post_chain(conn);
}

int dfi__verbs_post_later(struct verbs_conn *conn, struct ibv_send_wr *wr)
{
	struct verbs_held *held = &conn->held[conn->n_held];

	if (unlikely(verbs_number(conn, wr, false)))
		return -ECONNRESET;
	held->request = *wr;
	memcpy(held->parts, wr->sg_list,
	    (size_t)wr->num_sge * sizeof(held->parts[0]));
	held->request.sg_list = held->parts;
	if (conn->n_held)
		held[-1].request.next = &held->request;
	return ++conn->n_held < VERBS_CHAIN ? 0 : post_chain(conn);
}

int dfi__verbs_post_held(struct verbs_conn *conn)
{
	if (!conn->n_held)
		return 0;
	if (!atomic_peek(&conn->broken) && !conn->refused)
		return post_chain(conn);
	conn->n_held = 0;
	return -ECONNRESET;
}

int dfi__verbs_send(
    struct verbs_conn *conn, const struct verbs_message *message, bool signal)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)message,
		.length = sizeof(*message),
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SOLICITED,
	};

	verbs_count(&conn->counts.messages, 1);
	return verbs_post(conn, &wr, signal);
}

void dfi__verbs_probe(struct verbs_conn *conn)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	int64_t now = clock_now_ns();

	/* If it is busy, its requests will show whether the peer is there. */
	if (now < conn->next_probe || dfi__verbs_is_busy(conn))
		return;
	conn->next_probe = now + PROBE_NS;
	verbs_count(&conn->counts.messages, 1);
	(void)verbs_post(conn, &wr, true); /* or it is broken */
}

void dfi__verbs_add_counts(
    struct verbs_counts *to, const struct verbs_counts *from)
{
	verbs_count(&to->writes, atomic_peek(&from->writes));
	verbs_count(&to->inline_writes, atomic_peek(&from->inline_writes));
	verbs_count(&to->bytes, atomic_peek(&from->bytes));
	verbs_count(&to->credits, atomic_peek(&from->credits));
	verbs_count(&to->messages, atomic_peek(&from->messages));
	verbs_count(&to->signalled, atomic_peek(&from->signalled));
	verbs_count(&to->doorbells, atomic_peek(&from->doorbells));
}

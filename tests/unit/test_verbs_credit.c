/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection whose peer takes nothing, because it is stopped: its writes
 * wait, and nothing else does. The device is made by hand: it takes work
 * requests, and completes them on request.
 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "transport/verbs/data/message.h"
#include "transport/verbs/data/ring.h"

enum {
	MAX_SENDS = 64,
	RINGS = 100,
};

static struct ibv_wc done[MAX_SENDS];
static int n_done; /* that wait to be polled */
static uint64_t posted[2 * RINGS];
static uint64_t credit[2 * RINGS]; /* the value, or UINT64_MAX: a message */
static uint32_t n_posted, n_signalled_done;
static bool signalled[2 * RINGS];
static bool armed;

static int post_send(
    struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	cr_assert_lt(n_posted, 2 * RINGS);
	posted[n_posted] = wr->wr_id;
	signalled[n_posted] = wr->send_flags & IBV_SEND_SIGNALED;
	credit[n_posted] = UINT64_MAX;
	if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		memcpy(&credit[n_posted],
		    (const void *)(uintptr_t)wr->sg_list->addr, 8);
	n_posted++;
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs)
{
	(void)cq;
	if (n > n_done)
		n = n_done;
	memcpy(wcs, done, (size_t)n * sizeof(*wcs));
	n_done -= n;
	memmove(done, done + n, (size_t)n_done * sizeof(*wcs));
	return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	armed = true;
	return 0;
}

/* The peer takes all posted requests. */
static void complete(void)
{
	for (; n_signalled_done < n_posted; n_signalled_done++)
		if (signalled[n_signalled_done])
			done[n_done++] = (struct ibv_wc){
				.wr_id = posted[n_signalled_done],
				.status = IBV_WC_SUCCESS,
			};
}

static struct ibv_device device = { .name = "fake0" };
static struct ibv_context context = {
	.device = &device,
	.ops = {
		.post_send = post_send,
		.poll_cq = poll_cq,
		.req_notify_cq = req_notify_cq,
	},
};
static struct ibv_cq sends = { .context = &context };
static struct ibv_qp qp = { .context = &context };
static struct verbs verbs;
static struct verbs_conn conn;
static struct verbs_export export;
static struct network_ring rings[RINGS];
static struct verbs_link links[RINGS];
static struct region region = { .exports = &export.base };

static void start(void)
{
	uint32_t i;

	verbs = (struct verbs){
		.device = { .name = "fake0", .port = 1, .context = &context },
		.breaks = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
		.links = links,
		.n_links = RINGS,
	};
	cr_assert_geq(verbs.breaks, 0);
	pthread_mutex_init(&verbs.table, NULL);
	conn = (struct verbs_conn){
		.verbs = &verbs,
		.qp = &qp,
		.sends = &sends,
		.accepted = true,
		.max_sends = MAX_SENDS,
		.interval = MAX_SENDS / 4,
	};
	export.base.transport = &verbs.base;
	export.rings = rings;
	for (i = 0; i < RINGS; i++) {
		rings[i].used = true;
		rings[i].link = i;
		links[i] = (struct verbs_link){
			.conn = &conn,
			.to_link = i,
			.export = &export,
			.ring = i,
		};
	}
}

static void stop(void)
{
	close(verbs.breaks);
}

TestSuite(verbs_credit, .init = start, .fini = stop, .timeout = 300);

static void give(uint32_t ring, uint64_t consumed)
{
	cr_assert_eq(dfi__verbs_give_credit(&region, &export.base,
			 &export.layout, ring, consumed, false),
	    1);
}

Test(verbs_credit, giver_does_not_wait_for_a_peer_that_takes_nothing)
{
	uint32_t i;

	for (i = 0; i < RINGS; i++)
		give(i, 1);
	cr_assert_eq(n_posted, MAX_SENDS / 2);
	cr_assert_eq(conn.n_owing, RINGS - MAX_SENDS / 2);
	cr_assert_not(conn.broken);
	/* A caller that would post it later learns when. */
	cr_assert(armed);
}

Test(verbs_credit, last_credit_of_each_ring_comes_once_there_is_room)
{
	uint64_t last[RINGS] = { 0 };
	uint32_t i;

	for (i = 0; i < 2 * RINGS; i++)
		give(i % RINGS, 1 + i);
	for (i = 0; i < RINGS && conn.n_owing; i++) {
		complete();
		dfi__verbs_pay(&conn);
	}
	cr_assert_eq(conn.n_owing, 0);
	for (i = 0; i < n_posted; i++)
		last[(credit[i] - 1) % RINGS] = credit[i];
	for (i = 0; i < RINGS; i++)
		cr_assert_eq(last[i], 1 + i + RINGS, "ring %u: %lu", i,
		    (unsigned long)last[i]);
}

Test(verbs_credit, link_that_is_closed_stays_until_the_peer_can_be_notified)
{
	uint32_t i;

	for (i = 0; i < MAX_SENDS / 2 + 1; i++)
		give(i, 1);
	links[0].export = NULL;
	dfi__verbs_say_closed(&links[0]);
	cr_assert_eq(links[0].conn, &conn);
	complete();
	dfi__verbs_pay(&conn);
	cr_assert_null(links[0].conn);
	cr_assert_eq(conn.n_owing, 0);
	cr_assert_eq(conn.counts.messages, 1);
}

Test(verbs_credit, answer_beyond_all_room_breaks_the_connection)
{
	struct verbs_message message = { .type = VERBS_OPENED };
	uint32_t i;

	for (i = 0; i < MAX_SENDS; i++)
		cr_assert_eq(dfi__verbs_send(&conn, &message, false), 0);
	cr_assert_eq(dfi__verbs_send(&conn, &message, false), -ECONNRESET);
	cr_assert_str_eq(
	    dfi__verbs_why(&conn), "fake0 port 1: its send queue is full");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer may open by its messages, and how often. The device is made by
 * hand: it takes posted requests, and keeps the last message.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/verbs/data/message.h"
#include "transport/verbs/data/ring.h"

static struct verbs_message answer;

static int post_send(
    struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	if (wr->opcode == IBV_WR_SEND)
		memcpy(&answer, (const void *)(uintptr_t)wr->sg_list->addr,
		    sizeof(answer));
	return 0;
}

/* All posted requests have been taken. */
static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs)
{
	const struct verbs_conn *conn = cq->cq_context;

	(void)n;
	if (conn->completed == conn->posted)
		return 0;
	wcs[0] = (struct ibv_wc){ .wr_id = conn->posted };
	return 1;
}

static struct ibv_device device = { .name = "fake0" };
static struct ibv_context context = {
	.device = &device,
	.ops = { .post_send = post_send, .poll_cq = poll_cq },
};
static struct ibv_cq sends[2] = { { .context = &context },
	{ .context = &context } };
static struct ibv_qp qps[2] = { { .context = &context, .qp_num = 17 },
	{ .context = &context, .qp_num = 18 } };
static struct verbs verbs;
static struct verbs_conn conns[2];
static char memory[4096];
static struct region region = { .base = memory };
static struct ibv_mr mr = { .rkey = 4711 };
static struct network_ring rings[1];
static struct verbs_export words;

static void start(void)
{
	size_t i;

	verbs = (struct verbs){
		.device = { .name = "fake0", .port = 1, .context = &context },
		.breaks = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
		.exports = &words,
	};
	cr_assert_geq(verbs.breaks, 0);
	pthread_mutex_init(&verbs.table, NULL);
	for (i = 0; i < 2; i++) {
		conns[i] = (struct verbs_conn){
			.verbs = &verbs,
			.qp = &qps[i],
			.sends = &sends[i],
			.accepted = true,
			.max_sends = 64,
			.interval = 16,
		};
		sends[i].cq_context = &conns[i];
	}
	words = (struct verbs_export){
		.base = { .transport = &verbs.base, .name.key = 99 },
		.region = &region,
		.layout = { .n_rings = 1, .first_ring = 64, .ring_size = 64 },
		.mr = &mr,
		.rings = rings,
	};
}

static void stop(void)
{
	free(verbs.links);
	close(verbs.breaks);
}

TestSuite(verbs_message, .init = start, .fini = stop, .timeout = 300);

/* The answer to the peer at the other end of a connection. */
static int32_t open_words(struct verbs_conn *conn, uint32_t link)
{
	const struct verbs_message message = {
		.type = VERBS_OPEN,
		.link = link,
		.key = 99,
		.size = 64,
	};

	memset(&answer, 0, sizeof(answer));
	dfi__verbs_message_arrived(conn, &message);
	cr_assert_eq(answer.type, VERBS_OPENED);
	cr_assert_eq(answer.to_link, link);
	return answer.error;
}

static void close_words(struct verbs_conn *conn, uint32_t link)
{
	const struct verbs_message message = {
		.type = VERBS_CLOSE,
		.to_link = link,
	};

	dfi__verbs_message_arrived(conn, &message);
	cr_assert_eq(answer.type, VERBS_CLOSED);
}

Test(verbs_message, counter_is_opened_by_many_but_once_by_each_connection)
{
	uint32_t i, n_links, link;

	cr_assert_eq(open_words(&conns[0], 0), 0);
	cr_assert_eq(open_words(&conns[1], 0), 0);
	cr_assert_eq(words.n_links, 2);
	link = answer.link;
	n_links = verbs.n_links;
	for (i = 1; i <= 1000; i++)
		cr_assert_eq(open_words(&conns[i % 2], i), -EBUSY);
	cr_assert_eq(words.n_links, 2);
	cr_assert_eq(verbs.n_links, n_links);
	cr_assert_not(conns[0].broken);
	/* A peer that has left it may have it again. */
	close_words(&conns[1], link);
	cr_assert_eq(words.n_links, 1);
	cr_assert_eq(open_words(&conns[1], 7), 0);
	cr_assert_eq(words.n_links, 2);
}

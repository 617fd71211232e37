/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers under way from a peer's word, and the calls that wait for them. The
 * device is made by hand: it takes work requests, and completes them on
 * request.
 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/verbs/data/ring.h"

enum {
	WORD_AT = 16,
	MAX_POSTED = 16,
};

static struct ibv_send_wr posted[MAX_POSTED];
static uint32_t n_posted, n_completed;
static enum ibv_wc_status status;
static _Atomic uint64_t ring[4];

static int post_send(
    struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	cr_assert_lt(n_posted, MAX_POSTED);
	cr_assert(wr->send_flags & IBV_SEND_SIGNALED);
	posted[n_posted++] = *wr;
	return 0;
}

/* In the order in which they were posted, up to one of them. */
static uint32_t may_complete;
static struct ibv_cq sends, arrivals;

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs)
{
	if (cq != &sends || n < 1 || n_completed == may_complete)
		return 0;
	wcs[0] = (struct ibv_wc){
		.wr_id = posted[n_completed++].wr_id,
		.status = status,
	};
	return 1;
}

static int n_armed;

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	n_armed++;
	return 0;
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
static struct ibv_cq arrivals = { .context = &context };
static struct ibv_qp qp = { .context = &context };
static struct ibv_mr mr = { .lkey = 4711 };
static struct verbs verbs;
static struct verbs_conn conn;
static struct verbs_remote words;

static void start(void)
{
	verbs = (struct verbs){
		.base.ops = &dfi__verbs_ops,
		.arrivals = &arrivals,
		.device = { .name = "fake0", .port = 1, .context = &context },
		.breaks = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	};
	cr_assert_geq(verbs.breaks, 0);
	pthread_mutex_init(&verbs.table, NULL);
	conn = (struct verbs_conn){
		.verbs = &verbs,
		.qp = &qp,
		.sends = &sends,
		.max_sends = 64,
		.interval = 16,
	};
	words = (struct verbs_remote){
		.base = { .transport = &verbs.base, .ring = (char *)ring },
		.conn = &conn,
		.shadow = { .mr = &mr },
		.address = 4096,
	};
}

static void stop(void)
{
	close(verbs.breaks);
}

TestSuite(verbs_add, .init = start, .fini = stop, .timeout = 300);

/* The peer's device answers all posted requests. */
static void answer(uint64_t number)
{
	atomic_store(&ring[WORD_AT / sizeof(ring[0])], number);
	may_complete = n_posted;
}

static void ask(void)
{
	cr_assert_eq(dfi__verbs_add(&words.base, WORD_AT, 1), 0);
	cr_assert_eq(posted[n_posted - 1].opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
}

static int take(uint64_t *number)
{
	return dfi__verbs_added(&words.base, WORD_AT, number);
}

Test(verbs_add, number_is_there_when_the_device_says_so)
{
	uint64_t number = 0;

	ask();
	cr_assert_eq(take(&number), 0);
	cr_assert_eq(number, 0);
	answer(UINT64_MAX - 1);
	cr_assert_eq(take(&number), 1);
	cr_assert_eq(number, UINT64_MAX - 1);
}

Test(verbs_add, number_that_the_device_gives_up_is_a_broken_connection)
{
	uint64_t number = 0;

	ask();
	status = IBV_WC_RETRY_EXC_ERR;
	answer(7);
	cr_assert_eq(take(&number), -ECONNRESET);
	cr_assert_eq(number, 0);
	cr_assert(conn.broken);
}

/* As soft-RoCE does if it takes another acknowledgement for the answer. */
Test(verbs_add, completion_without_a_number_breaks_the_connection)
{
	uint64_t number = 0;

	ask();
	answer(7);
	cr_assert_eq(take(&number), 1);
	ask();
	may_complete = n_posted;
	cr_assert_eq(take(&number), -ECONNRESET);
	cr_assert_eq(number, 7, "the last number was given again");
	cr_assert(conn.broken);
}

/* It would delay the queue pair's next request if the answer is lost. */
Test(verbs_add, no_probe_goes_behind_a_number_that_is_waited_for)
{
	uint64_t number;

	ask();
	words.base.transport->ops->ring.arm(&words.base);
	cr_assert_eq(n_armed, 2, "the sends and the arrivals");
	cr_assert_eq(n_posted, 1, "a probe went out behind it");
	answer(1);
	cr_assert_eq(take(&number), 1);
}

/* A spinning thread looks for itself. */
Test(verbs_add, no_probe_goes_before_a_number_that_is_asked_for)
{
	unsigned looks;

	pthread_mutex_init(&verbs.table, NULL);
	for (looks = 0; looks < 10000; looks++)
		cr_assert_eq(
		    words.base.transport->ops->ring.progress(&words.base), 0);
	cr_assert_eq(n_posted, 0, "a probe went out");
}

Test(verbs_add, who_waits_for_a_ring_probes_its_owner)
{
	words.layout.n_slots = 4;
	words.base.transport->ops->ring.arm(&words.base);
	cr_assert_eq(n_posted, 1);
	cr_assert_eq(posted[0].opcode, IBV_WR_RDMA_WRITE);
}

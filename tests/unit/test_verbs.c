/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of devices, and their effects on connections. No device is needed:
 * the reports and their objects are made by hand.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <dfi/error.h>

#include "base/memory.h"
#include "transport/verbs/connection/connection.h"
#include "transport/verbs/connection/handshake.h"
#include "transport/verbs/data/arrive.h"
#include "transport/verbs/data/memory.h"
#include "transport/verbs/data/message.h"
#include "transport/verbs/data/ring.h"
#include "transport/verbs/device/fail.h"
#include "transport/verbs/events.h"
#include "transport/verbs/verbs.h"

/* The reports of queues, once; n < 0: they have failed. */
static struct ibv_wc done[2];
static int n_done;

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs)
{
	(void)cq;
	if (n_done < n)
		n = n_done;
	if (n > 0)
		memcpy(wcs, done, (size_t)n * sizeof(*wcs));
	n_done = 0;
	return n;
}

/* The last request posted, and how often there is no room for it. */
static uint64_t posted_last;
static int full;

static int post_send(
    struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)to;
	*bad = wr;
	if (full > 0) {
		full--;
		return ENOMEM;
	}
	posted_last = wr->wr_id;
	return 0;
}

static struct ibv_device device = { .name = "fake0" };
static struct ibv_context context = {
	.device = &device,
	.ops = { .poll_cq = poll_cq, .post_send = post_send },
};
static struct ibv_srq receives;
static struct ibv_comp_channel channel;
static struct ibv_cq arrivals = { .context = &context };
static struct ibv_cq sends = { .context = &context, .channel = &channel };
static struct ibv_qp qp = { .context = &context, .srq = &receives };
static struct verbs verbs;
static struct verbs_conn conn;

static void start(void)
{
	verbs = (struct verbs){
		.device = { .name = "fake0", .port = 1, .context = &context },
		.receives = &receives,
		.arrivals = &arrivals,
		.channel = &channel,
		.breaks = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	};
	conn = (struct verbs_conn){
		.verbs = &verbs,
		.peer = "10.0.0.1:7",
		.sends = &sends,
		.qp = &qp,
	};
	posted_last = 0;
	full = 0;
	qp.qp_context = sends.cq_context = &conn;
	arrivals.channel = &channel;
	cr_assert_geq(verbs.breaks, 0);
	dfi__verbs_events_list(&verbs);
}

static void stop(void)
{
	dfi__verbs_events_unlist(&verbs);
	close(verbs.breaks);
}

TestSuite(verbs, .init = start, .fini = stop);

static void report(struct ibv_async_event event)
{
	dfi__verbs_event(&context, &event);
}

static bool control_thread_was_woken(void)
{
	uint64_t n;

	return read(verbs.breaks, &n, sizeof(n)) == sizeof(n);
}

Test(verbs, fatal_error_of_a_queue_pair_breaks_its_connection)
{
	report((struct ibv_async_event){
	    .element.qp = &qp, .event_type = IBV_EVENT_QP_FATAL });
	cr_assert(conn.broken);
	cr_assert_eq(verbs.fatal_events, 1);
	cr_assert_eq(verbs.n_broken, 1);
	cr_assert(control_thread_was_woken());
	cr_assert_str_eq(dfi__verbs_why(&conn),
	    "fake0 port 1: local work queue catastrophic error");
}

Test(verbs, queue_pair_of_somebody_else_is_left_alone)
{
	struct ibv_qp other = { .qp_context = (void *)1 };

	report((struct ibv_async_event){
	    .element.qp = &other, .event_type = IBV_EVENT_QP_FATAL });
	cr_assert_eq(verbs.fatal_events, 0);
	cr_assert_not(control_thread_was_woken());
}

Test(verbs, failed_queue_of_sends_breaks_its_connection)
{
	report((struct ibv_async_event){
	    .element.cq = &sends, .event_type = IBV_EVENT_CQ_ERR });
	cr_assert(conn.broken);
	cr_assert_null(verbs.failed);
}

Test(verbs, failed_queue_of_arrivals_breaks_all)
{
	report((struct ibv_async_event){
	    .element.cq = &arrivals, .event_type = IBV_EVENT_CQ_ERR });
	cr_assert_str_eq(verbs.failed, "CQ error");
	cr_assert(control_thread_was_woken());
}

Test(verbs, queue_of_arrivals_that_cannot_be_read_breaks_all)
{
	n_done = -1;
	dfi__verbs_take(&verbs);
	cr_assert_not_null(verbs.failed);
	cr_assert_not_null(strstr(verbs.failed, "arrives"));
	cr_assert(control_thread_was_woken());
}

/* Of a ring that has sent 7 work requests, and then its peer's went. */
static int drained(uint64_t completed)
{
	struct verbs_remote remote = { .conn = &conn, .last = 7 };

	done[0] = (struct ibv_wc){ .wr_id = completed };
	done[1] = (struct ibv_wc){
		.wr_id = 9,
		.status = IBV_WC_RETRY_EXC_ERR,
	};
	n_done = 2;
	return dfi__verbs_ops.ring.drained(&remote.base);
}

Test(verbs, what_has_arrived_did_so_also_if_the_connection_breaks_then)
{
	cr_assert_eq(drained(7), 1);
	cr_assert(conn.broken);
	cr_assert_eq(drained(7), 1);
}

Test(verbs, what_has_not_arrived_when_the_connection_breaks_is_lost)
{
	cr_assert_eq(drained(6), -ECONNRESET);
	cr_assert_not_null(strstr(dfi_errmsg(), "transport retry counter"));
}

/* Another process may have its number now, also one that uses memory. */
Test(verbs, loss_of_a_writer_is_not_that_of_the_next_one)
{
	struct network_ring rings[3] = {
		{
		    .lost = RING_LOST_UNWRITTEN,
		    .writer = 17,
		    .why = "a break",
		},
		{ .lost = RING_LOST, .writer = 17 },
	};
	const struct verbs_export export = { .rings = rings };

	cr_assert_eq(
	    dfi__verbs_ops.ring.lost(&export.base, 0, 17), RING_LOST_UNWRITTEN);
	cr_assert_eq(dfi__verbs_ops.ring.lost(&export.base, 0, 18), RING_KEPT);
	/* Its owner is unknown. */
	cr_assert_eq(
	    dfi__verbs_ops.ring.lost(&export.base, 0, 0), RING_LOST_UNWRITTEN);
	cr_assert_str_eq(
	    dfi__verbs_ops.ring.writer_why(&export.base, 0, 17), "a break");
	cr_assert_null(dfi__verbs_ops.ring.writer_why(&export.base, 0, 18));
	/* The written memory has no other user. */
	cr_assert_eq(dfi__verbs_ops.ring.lost(&export.base, 1, 18), RING_LOST);
	cr_assert_eq(dfi__verbs_ops.ring.lost(&export.base, 2, 17), RING_KEPT);
	rings[2].used = true;
	cr_assert_eq(dfi__verbs_ops.ring.lost(&export.base, 2, 17), RING_TAKEN);
}

/* The time after its end was requested, with seven work requests under way. */
static bool is_drained_after(int64_t ms)
{
	conn.posted = conn.posted ? conn.posted : 7;
	conn.stopped = true;
	conn.stopped_at = clock_now_ns() - ms * NS_PER_MS;
	return dfi__verbs_is_drained(&conn);
}

static void complete(uint64_t number, enum ibv_wc_status status)
{
	done[0] = (struct ibv_wc){ .wr_id = number, .status = status };
	n_done = 1;
}

static void give_back(void)
{
	report((struct ibv_async_event){
	    .element.qp = &qp, .event_type = IBV_EVENT_QP_LAST_WQE_REACHED });
}

Test(verbs, queue_pair_is_drained_when_all_that_was_posted_has_completed)
{
	give_back();
	cr_assert(control_thread_was_woken());
	cr_assert_not(is_drained_after(0));
	cr_assert_eq(posted_last, 8, "one that is flushed after them");
	complete(7, IBV_WC_WR_FLUSH_ERR);
	cr_assert_not(is_drained_after(0));
	complete(8, IBV_WC_WR_FLUSH_ERR);
	cr_assert(is_drained_after(0));
}

Test(verbs, queue_pair_is_drained_when_it_has_given_back_its_receives)
{
	cr_assert_not(is_drained_after(0));
	complete(8, IBV_WC_WR_FLUSH_ERR);
	cr_assert_not(is_drained_after(0));
	cr_assert_not(conn.broken);
	give_back();
	cr_assert(is_drained_after(0));
}

Test(verbs, full_queue_pair_is_drained_too)
{
	give_back();
	full = 1;
	cr_assert_not(is_drained_after(0));
	cr_assert_eq(posted_last, 0);
	complete(7, IBV_WC_WR_FLUSH_ERR);
	cr_assert_not(is_drained_after(0));
	cr_assert_eq(posted_last, 8);
	complete(8, IBV_WC_WR_FLUSH_ERR);
	cr_assert(is_drained_after(0));
}

Test(verbs, queue_pair_is_not_waited_for_without_end)
{
	cr_assert_not(is_drained_after(100));
	cr_assert(is_drained_after(10000), "it doesn't flush");
	conn.flushed = false;
	conn.mark = 0;
	complete(9, IBV_WC_WR_FLUSH_ERR);
	cr_assert(is_drained_after(100), "its device reports nothing");
}

Test(verbs, queue_pair_that_was_never_used_has_nothing_to_drain)
{
	give_back();
	conn.stopped = true;
	conn.stopped_at = clock_now_ns();
	cr_assert(dfi__verbs_is_drained(&conn));
	cr_assert_eq(posted_last, 0);
}

Test(verbs, queue_pair_of_a_failed_device_is_not_waited_for)
{
	verbs.failed = "gone";
	cr_assert(is_drained_after(0));
}

Test(verbs, what_ends_is_not_taken_by_others)
{
	cr_assert_not(is_drained_after(0));
	complete(8, IBV_WC_WR_FLUSH_ERR);
	cr_assert_eq(dfi__verbs_poll_sends(&conn), -ECONNRESET);
	give_back();
	cr_assert(is_drained_after(0));
}

Test(verbs, failed_device_breaks_all_of_its_users_only)
{
	struct ibv_context elsewhere = { .device = &device };
	struct ibv_async_event event = { .event_type = IBV_EVENT_DEVICE_FATAL };

	dfi__verbs_event(&elsewhere, &event);
	cr_assert_null(verbs.failed);
	dfi__verbs_event(&context, &event);
	cr_assert_not_null(verbs.failed);
	cr_assert(control_thread_was_woken());
}

Test(verbs, port_that_goes_down_is_counted_and_breaks_nothing)
{
	report((struct ibv_async_event){
	    .element.port_num = 1, .event_type = IBV_EVENT_PORT_ERR });
	report((struct ibv_async_event){
	    .element.port_num = 1, .event_type = IBV_EVENT_PORT_ACTIVE });
	report((struct ibv_async_event){
	    .element.port_num = 2, .event_type = IBV_EVENT_PORT_ERR });
	cr_assert_eq(verbs.port_downs, 1);
	cr_assert_not(conn.broken);
	cr_assert_not(control_thread_was_woken());
}

Test(verbs, peer_that_leaves_is_no_broken_connection)
{
	dfi__verbs_left(&conn);
	cr_assert(conn.broken);
	cr_assert_eq(verbs.n_broken, 0);
	cr_assert_null(dfi__verbs_why(&conn));
}

Test(verbs, first_reason_stands)
{
	dfi__verbs_break(&conn, "one");
	dfi__verbs_break(&conn, "two");
	cr_assert_str_eq(dfi__verbs_why(&conn), "fake0 port 1: one");
	cr_assert_eq(verbs.n_broken, 1);
}

static const uint8_t tokens[2][MEMBER_TOKEN_SIZE] = { "one of 16 bytes",
	"two of 16 bytes" };

/* Nodes 1 and 2 are members. */
static bool find(void *arg, uint64_t node, uint8_t token[MEMBER_TOKEN_SIZE])
{
	(void)arg;
	if (node != 1 && node != 2)
		return false;
	memcpy(token, tokens[node - 1], MEMBER_TOKEN_SIZE);
	return true;
}

static struct verbs be_node(uint64_t node)
{
	struct verbs self = verbs;

	self.self.node = node;
	self.self.find = find;
	memcpy(self.self.token, tokens[node == 2], MEMBER_TOKEN_SIZE);
	return self;
}

/* An end of a connection from 10.0.0.FROM to port 7 of 10.0.0.TO. */
static struct rdma_cm_id end_of(unsigned from, unsigned to, bool accepts)
{
	struct rdma_cm_id id = { .verbs = &context };
	struct sockaddr_in *local =
	    (struct sockaddr_in *)(void *)rdma_get_local_addr(&id);
	struct sockaddr_in *peer =
	    (struct sockaddr_in *)(void *)rdma_get_peer_addr(&id);

	local->sin_family = peer->sin_family = AF_INET;
	local->sin_addr.s_addr = htonl(0x0a000000 + (accepts ? to : from));
	peer->sin_addr.s_addr = htonl(0x0a000000 + (accepts ? from : to));
	(accepts ? local : peer)->sin_port = htons(7);
	(accepts ? peer : local)->sin_port = htons(50000);
	return id;
}

static struct rdma_conn_param data_of(const struct handshake *handshake)
{
	return (struct rdma_conn_param){
		.private_data = handshake,
		.private_data_len = sizeof(*handshake),
	};
}

/* Node 2's message to an impostor of node 1, over a path. */
static uint16_t check_handshake(
    const struct handshake *handshake, unsigned from, unsigned to)
{
	struct verbs self = be_node(2);
	struct rdma_cm_id id = end_of(from, to, true);
	struct rdma_conn_param param = data_of(handshake);
	struct handshake proved = { .node = 0 };
	uint16_t refusal = dfi__verbs_check_handshake(
	    &self, &id, &param, &proved);

	/* Nothing is taken from a refused peer. */
	cr_assert_eq(proved.nonce, refusal ? 0 : handshake->nonce);
	cr_assert_eq(proved.node, refusal ? 0 : 1);
	return refusal;
}

/* Node 1's, to connect from 10.0.0.1 to 10.0.0.2. */
static struct handshake handshake_of_first(void)
{
	struct verbs self = be_node(1);
	struct rdma_cm_id id = end_of(1, 2, false);
	struct handshake handshake;

	cr_assert_eq(dfi__verbs_send_handshake(&self, &id, &handshake), 0);
	return handshake;
}

Test(verbs, who_connects_proves_to_be_a_member_and_reveals_no_secret)
{
	struct handshake handshake = handshake_of_first(),
			 other = handshake_of_first();

	cr_assert_eq(check_handshake(&handshake, 1, 2), 0);
	cr_assert_eq(check_handshake(&other, 1, 2), 0);
	cr_assert_neq(handshake.nonce, other.nonce);
	cr_assert_neq(
	    memcmp(handshake.proof, other.proof, sizeof(handshake.proof)), 0);
	cr_assert_null(memmem(
	    &handshake, sizeof(handshake), tokens[0], MEMBER_TOKEN_SIZE));
}

Test(verbs, proof_of_who_connects_is_for_nobody_else_and_nowhere_else)
{
	struct handshake handshake = handshake_of_first(), changed = handshake;

	cr_assert_eq(
	    check_handshake(&handshake, 3, 2), EACCES, "from elsewhere");
	cr_assert_eq(check_handshake(&handshake, 1, 3), EACCES, "to elsewhere");
	changed.node = 2;
	cr_assert_eq(check_handshake(&changed, 1, 2), EACCES);
	changed.node = 3;
	cr_assert_eq(check_handshake(&changed, 1, 2), EACCES, "no member");
	changed = handshake;
	changed.nonce++;
	cr_assert_eq(check_handshake(&changed, 1, 2), EACCES);
	changed = handshake;
	changed.proof[MAC_SIZE - 1] ^= 1;
	cr_assert_eq(check_handshake(&changed, 1, 2), EACCES);
	changed = handshake;
	changed.version++;
	cr_assert_eq(check_handshake(&changed, 1, 2), EPROTO);
}

/* Node 1's reading of an answer. */
static int take_answer(struct handshake *answer, uint64_t nonce)
{
	struct verbs self = be_node(1);
	struct rdma_cm_id id = end_of(1, 2, false);
	struct rdma_cm_event event = {
		.id = &id,
		.param.conn = data_of(answer),
	};

	return dfi__verbs_accepted(&self, &event, nonce, conn.peer);
}

static struct handshake answer_of_second(uint64_t nonce)
{
	struct verbs self = be_node(2);
	struct rdma_cm_id id = end_of(1, 2, true);
	struct handshake answer;

	cr_assert_eq(dfi__verbs_answer(&self, &id, nonce, &answer), 0);
	return answer;
}

Test(verbs, acceptor_that_is_no_member_is_refused)
{
	struct handshake answer = answer_of_second(77);

	cr_assert_eq(take_answer(&answer, 77), 0, "%s", dfi_errmsg());
	answer.node = 3;
	cr_assert_eq(take_answer(&answer, 77), -EACCES);
	cr_assert_not_null(strstr(dfi_errmsg(), "has not proved that it is a"));
	answer.node = 1;
	cr_assert_eq(take_answer(&answer, 77), -EACCES);
}

Test(verbs, answer_to_another_attempt_is_refused)
{
	struct handshake answer = answer_of_second(77);

	answer.nonce = 78;
	cr_assert_eq(take_answer(&answer, 78), -EACCES);
}

/* Our own proof, sent back. */
Test(verbs, reflected_handshake_is_refused)
{
	struct handshake handshake = handshake_of_first();

	cr_assert_eq(take_answer(&handshake, handshake.nonce), -EACCES);
}

static void expect_versions(const char *peer, unsigned theirs)
{
	char texts[80];

	cr_assert_not_null(strstr(dfi_errmsg(), peer), "%s", dfi_errmsg());
	snprintf(texts, sizeof(texts),
	    "speaks version %u over RDMA, this one %u: upgrade DFI %s", theirs,
	    VERBS_HANDSHAKE_VERSION,
	    theirs < VERBS_HANDSHAKE_VERSION ? "there" : "here");
	cr_assert_not_null(strstr(dfi_errmsg(), texts), "%s", dfi_errmsg());
}

/* Both sides say so: the connecting one to its caller, the other to the log. */
static void refuse_version(uint16_t version)
{
	struct handshake handshake = handshake_of_first();
	struct rdma_cm_event event = { .param.conn = data_of(&handshake) };

	handshake.version = version;
	cr_assert_eq(check_handshake(&handshake, 1, 2), EPROTO);
	expect_versions("10.0.0.1:50000", version);
	handshake = answer_of_second(77);
	handshake.version = version;
	cr_assert_eq(take_answer(&handshake, 77), -EPROTO);
	expect_versions(conn.peer, version);
	handshake.refusal = EPROTO;
	cr_assert_eq(dfi__verbs_refused(&verbs, &event, conn.peer), -EPROTO);
	expect_versions(conn.peer, version);
}

Test(verbs, peer_of_another_version_is_refused_with_both_named)
{
	refuse_version(VERBS_HANDSHAKE_VERSION + 1);
	refuse_version(VERBS_HANDSHAKE_VERSION - 1);
}

/* Node 1's reading of a rejection. */
static int be_refused(uint16_t refusal)
{
	struct verbs self = be_node(2);
	struct handshake handshake = dfi__verbs_refusal(&self, refusal);
	struct rdma_cm_event event = { .param.conn = data_of(&handshake) };

	return dfi__verbs_refused(&verbs, &event, conn.peer);
}

Test(verbs, refusal_has_a_reason_of_this_library_or_none)
{
	cr_assert_eq(be_refused(EACCES), -EACCES);
	cr_assert_eq(be_refused(ENOMEM), -ENOMEM);
	cr_assert_not_null(strstr(dfi_errmsg(), "Cannot allocate memory"));
	cr_assert_eq(be_refused(0), -ECONNREFUSED);
	cr_assert_not_null(strstr(dfi_errmsg(), "no reason that is known (0)"));
	cr_assert_eq(be_refused(ETIMEDOUT), -ECONNREFUSED);
	cr_assert_not_null(strstr(dfi_errmsg(), "no reason"));
	cr_assert_eq(be_refused(UINT16_MAX), -ECONNREFUSED);
	cr_assert_not_null(strstr(dfi_errmsg(), "(65535)"));
}

/* A user who may not lock memory. */
static void become_nobody(void)
{
	cr_assert(geteuid() != 0 || setresuid(65534, 65534, 65534) == 0);
}

static void expect_all(const char *const *parts)
{
	for (; *parts; parts++)
		cr_assert_not_null(
		    strstr(dfi_errmsg(), *parts), "%s", dfi_errmsg());
}

Test(verbs, memory_that_may_not_be_locked_is_refused_with_need_limit_and_remedy)
{
	const struct rlimit limit = { .rlim_cur = 65536, .rlim_max = 65536 };

	become_nobody();
	cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	cr_assert_eq(
	    dfi__verbs_fail_register(&verbs.device, 123456, ENOMEM), -ENOMEM);
	expect_all((const char *[]){ "fake0 port 1:", " 123456 bytes",
	    " 65536 bytes in all", " are left", "ulimit -l", NULL });
	cr_assert_eq(
	    dfi__verbs_ops.region.export_room(&verbs.base, 123456), -ENOMEM);
	expect_all((const char *[]){ "fake0 port 1:", " 123456 bytes",
	    " 65536 that may", " are left", "ulimit -l", NULL });
}

/* Nothing is mapped: there is no device that could refuse it later. */
Test(verbs, memory_that_is_not_there_is_refused_with_need_limit_and_remedy)
{
	static const uint32_t pages[] = { HUGE_PAGES_NEVER, HUGE_PAGES_TRY };
	struct settings settings = { .huge_pages = HUGE_PAGES_NEVER };
	uint64_t limit, size = UINT64_C(1) << 46;
	struct verbs_memory memory;
	size_t i;

	if (dfi__memory_lock_room(&limit) < size)
		cr_skip_test("memory that may be locked is limited");
	verbs.settings = &settings;
	for (i = 0; i < 2; i++) {
		settings.huge_pages = pages[i];
		cr_assert_eq(dfi__verbs_memory_create(&verbs, size, 0, &memory),
		    -ENOMEM);
		expect_all((const char *[]){
		    "fake0 port 1:", " 70368744177664 bytes", " are left (",
		    "free memory", "DFI_RING_MEMORY", NULL });
	}
}

/* It works with pages of each size. */
Test(verbs, address_space_that_is_not_there_is_refused_with_limit_and_remedy)
{
	static const uint32_t pages[] = { HUGE_PAGES_NEVER, HUGE_PAGES_TRY,
		HUGE_PAGES_REQUIRE };
	struct settings settings = { .huge_pages = HUGE_PAGES_NEVER };
	struct rlimit old, low;
	struct verbs_memory memory;
	uint64_t limit;
	size_t i;

	if (dfi__memory_lock_room(&limit) < 256 << 20)
		cr_skip_test("memory that may be locked is limited");
	verbs.settings = &settings;
	cr_assert_eq(getrlimit(RLIMIT_AS, &old), 0);
	low = old;
	low.rlim_cur = 256 << 20;
	for (i = 0; i < 3; i++) {
		settings.huge_pages = pages[i];
		cr_assert_eq(setrlimit(RLIMIT_AS, &low), 0);
		cr_expect_eq(
		    dfi__verbs_memory_create(&verbs, 256 << 20, 0, &memory),
		    -ENOMEM);
		cr_assert_eq(setrlimit(RLIMIT_AS, &old), 0);
		expect_all(
		    (const char *[]){ "fake0 port 1:", " 268435456 bytes",
			" are left of 268435456:", "ulimit -v", NULL });
	}
}

/* Also where a library says only that there is no device. */
Test(verbs, files_that_may_not_be_opened_are_refused_with_limit_and_remedy)
{
	static const int errs[] = { EMFILE, ENODEV };
	struct rlimit old, low;
	char limit[64];
	size_t i;
	int fd = dup(STDIN_FILENO);

	cr_assert_geq(fd, 0);
	close(fd);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	/* Some are left, but not as many as a library may open. */
	low.rlim_cur = (rlim_t)fd + 3;
	snprintf(limit, sizeof(limit), "may have %d ", fd + 3);
	for (i = 0; i < 2; i++) {
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
		cr_expect_eq(
		    dfi__verbs_fail_port(&verbs.device, "a queue", errs[i]),
		    -EMFILE);
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
		expect_all((const char *[]){ "verbs: a queue",
		    "needs 8 file descriptors", limit, "ulimit -n", NULL });
	}
	cr_assert_eq(
	    dfi__verbs_fail_port(&verbs.device, "a queue", ENODEV), -EIO);
}

Test(verbs, memory_that_a_device_refuses_for_another_reason_is_reported_so)
{
	cr_assert_eq(
	    dfi__verbs_fail_register(&verbs.device, 123456, EFAULT), -EIO);
	expect_all((const char *[]){
	    "fake0 port 1:", " 123456 bytes", "Bad address", NULL });
	cr_assert_null(strstr(dfi_errmsg(), "ulimit"));
}

Test(verbs, error_of_the_network_names_device_port_and_gid)
{
	struct rdma_cm_event event = { .status = -ECONNREFUSED };

	strcpy(verbs.device.gid, "::ffff:10.0.0.2");
	verbs.device.gid_index = 3;
	cr_assert_eq(
	    dfi__verbs_refused(&verbs, &event, conn.peer), -ECONNREFUSED);
	expect_all((const char *[]){ "fake0 port 1, GID 3 ::ffff:10.0.0.2: ",
	    "nobody listens at 10.0.0.1:7", NULL });
	cr_assert_eq(
	    dfi__verbs_fail_cm(&verbs.device, "rdma_bind_addr", EADDRINUSE),
	    -EIO);
	expect_all((const char *[]){ "fake0 port 1, GID 3 ::ffff:10.0.0.2: ",
	    "rdma_bind_addr: Address already in use", NULL });
	dfi__verbs_break(&conn, "it broke");
	cr_assert_str_eq(dfi__verbs_why(&conn),
	    "fake0 port 1, GID 3 ::ffff:10.0.0.2: it broke");
}

static const struct ibv_device_attr large = {
	.max_qp_wr = 1 << 20,
	.max_sge = 2,
	.max_cqe = 1 << 20,
	.max_srq = 1 << 10,
	.max_srq_wr = 1 << 20,
	.max_srq_sge = 32,
	.max_qp_rd_atom = 16,
	.max_qp_init_rd_atom = 16,
	.atomic_cap = IBV_ATOMIC_HCA,
};

Test(verbs, large_device_is_asked_for_what_we_need_only)
{
	struct verbs_limits limits;

	cr_assert_null(dfi__verbs_limits(&large, &limits));
	cr_assert_eq(limits.sends, VERBS_SENDS);
	cr_assert_eq(limits.receives, VERBS_MAX_RECEIVES);
	cr_assert_eq(limits.reads, 1);
	cr_assert(limits.atomics);
}

Test(verbs, device_without_atomic_operations_can_do_the_rest)
{
	static const struct ring_layout words = { .n_rings = 1,
		.ring_size = 64 };
	struct ibv_device_attr attr = large;
	struct verbs_limits limits;
	struct region region = { .base = NULL };
	struct remote *remote;

	attr.atomic_cap = IBV_ATOMIC_NONE;
	cr_assert_null(dfi__verbs_limits(&attr, &limits));
	cr_assert_eq(limits.reads, 1);
	cr_assert(!limits.atomics);
	attr = large;
	attr.max_qp_rd_atom = 0;
	cr_assert_null(dfi__verbs_limits(&attr, &limits));
	cr_assert_eq(limits.reads, 0);
	cr_assert(!limits.atomics);
	/* It holds no counter, and reaches none. */
	verbs.device.limits = limits;
	snprintf(verbs.device.name, sizeof(verbs.device.name), "fake0");
	cr_assert_eq(dfi__verbs_ops.region.export(&verbs.base, &region, &words),
	    -EOPNOTSUPP);
	cr_assert_not_null(strstr(dfi_errmsg(), "fake0"));
	cr_assert_not_null(strstr(dfi_errmsg(), "atomic_cap"));
	cr_assert_eq(dfi__verbs_ops.ring.open(&verbs.base, &verbs, &region.name,
			 &words, 0, NULL, WAIT_LIMIT(0), &remote),
	    -EOPNOTSUPP);
}

Test(verbs, small_device_is_asked_for_what_it_has)
{
	struct ibv_device_attr attr = large;
	struct verbs_limits limits;

	attr.max_qp_wr = 100;
	attr.max_srq_wr = 1000;
	cr_assert_null(dfi__verbs_limits(&attr, &limits));
	cr_assert_eq(limits.sends, 100);
	cr_assert_eq(limits.receives, 1000);
	/* All completions of the receives have room, and one more. */
	attr.max_cqe = 80;
	cr_assert_null(dfi__verbs_limits(&attr, &limits));
	cr_assert_eq(limits.sends, 80);
	cr_assert_eq(limits.receives, 79);
}

Test(verbs, device_that_is_too_small_is_refused_by_the_name_of_its_limit)
{
	struct ibv_device_attr attr = large;
	struct verbs_limits limits;

	attr.max_srq = 0;
	cr_assert_not_null(
	    strstr(dfi__verbs_limits(&attr, &limits), "max_srq"));
	attr = large;
	attr.max_qp_wr = VERBS_LEAST - 1;
	cr_assert_not_null(
	    strstr(dfi__verbs_limits(&attr, &limits), "max_qp_wr"));
	attr = large;
	attr.max_sge = 1;
	cr_assert_not_null(
	    strstr(dfi__verbs_limits(&attr, &limits), "max_sge"));
	attr = large;
	attr.max_cqe = VERBS_LEAST;
	cr_assert_not_null(
	    strstr(dfi__verbs_limits(&attr, &limits), "max_cqe"));
}

/* The answer of a ring's owner to a peer that asks to write it. */
static int answered_with(int error)
{
	struct verbs_message message = { .type = VERBS_OPENED, .error = error };
	struct verbs_remote remote = { .conn = &conn };
	struct verbs_link link = { .conn = &conn, .remote = &remote };

	verbs.links = &link;
	verbs.n_links = 1;
	dfi__verbs_message_arrived(&conn, &message);
	verbs.links = NULL;
	verbs.n_links = 0;
	return remote.opened;
}

Test(verbs, answer_has_an_error_of_who_opens_rings_or_is_bad)
{
	pthread_mutex_init(&verbs.table, NULL);
	pthread_cond_init(&verbs.answered, NULL);
	cr_assert_eq(answered_with(0), 1);
	cr_assert_eq(answered_with(-EEXIST), -EEXIST);
	cr_assert_eq(answered_with(-ECONNRESET), -ECONNRESET);
	cr_assert_eq(answered_with(-EBUSY), -EBUSY);
	cr_assert_eq(answered_with(-ENOMEM), -ENOMEM);
	cr_assert_eq(answered_with(-ETIMEDOUT), -EBADMSG, "nobody answered");
	cr_assert_eq(answered_with(-EOWNERDEAD), -EBADMSG, "we were forked");
	cr_assert_eq(answered_with(-EAGAIN), -EBADMSG);
	cr_assert_eq(answered_with(EEXIST), -EBADMSG);
	cr_assert_eq(answered_with(1), -EBADMSG);
	cr_assert_eq(answered_with(-4095), -EBADMSG);
	cr_assert_eq(answered_with(INT32_MIN), -EBADMSG);
	pthread_cond_destroy(&verbs.answered);
	pthread_mutex_destroy(&verbs.table);
}

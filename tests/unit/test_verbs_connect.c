/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first step of connecting over RDMA, which asks the kernel for an address.
 * No device is needed: this file has the functions of librdmacm that it calls.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <dfi/error.h>

#include "base/atomic.h"
#include "base/loop.h"
#include "transport/verbs/connection/connection.h"
#include "transport/verbs/data/conn.h"
#include "transport/verbs/verbs.h"
#include "tests/unit/stop_loop.h"

static struct rdma_event_channel channel;
static struct rdma_cm_id id;
static struct rdma_cm_event event;
static bool pending;

/*
 * How often the kernel is asked, until when it doesn't know, and how long it
 * takes for that.
 */
static int n_asked, n_unknown, n_acked;
static int64_t take_ns;

/* Strangers ask for connections all the time; and how many were refused. */
static _Atomic bool flood;
static _Atomic unsigned n_refused;

/* How many descriptors librdmacm has opened, and the lowest of them. */
static int n_opened, lowest;

static int open_file(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	cr_assert_geq(fd, 0);
	if (!n_opened++ || fd < lowest)
		lowest = fd;
	return fd;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	channel.fd = open_file();
	return &channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *of)
{
	close(of->fd);
}

int rdma_create_id(struct rdma_event_channel *on, struct rdma_cm_id **out,
    void *context, enum rdma_port_space space)
{
	(void)space;
	if (!on)
		open_file();
	id = (struct rdma_cm_id){ .channel = on, .context = context };
	*out = &id;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *of)
{
	(void)of;
	return 0;
}

static void happen(enum rdma_cm_event_type type, int status)
{
	event = (struct rdma_cm_event){ .event = type, .status = status };
	pending = true;
}

int rdma_resolve_addr(struct rdma_cm_id *of, struct sockaddr *from,
    struct sockaddr *to, int timeout_ms)
{
	struct timespec takes = { .tv_nsec = take_ns };

	(void)of;
	(void)from;
	(void)to;
	cr_assert_leq(timeout_ms, 1000);
	nanosleep(&takes, NULL);
	if (n_asked++ < n_unknown)
		happen(RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	else
		happen(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return 0;
}

/* Far enough. */
int rdma_resolve_route(struct rdma_cm_id *of, int timeout_ms)
{
	(void)of;
	(void)timeout_ms;
	errno = ENODEV;
	return -1;
}

int rdma_bind_addr(struct rdma_cm_id *of, struct sockaddr *at)
{
	(void)of;
	(void)at;
	open_file(); /* the device's */
	return 0;
}

int rdma_listen(struct rdma_cm_id *of, int backlog)
{
	(void)of;
	(void)backlog;
	return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *of)
{
	(void)of;
	return 0;
}

int rdma_reject(struct rdma_cm_id *of, const void *data, uint8_t size)
{
	(void)of;
	(void)data;
	(void)size;
	atomic_fetch_add(&n_refused, 1);
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *of, struct rdma_cm_event **out)
{
	static struct rdma_cm_id stranger;

	(void)of;
	if (atomic_observe(&flood)) {
		happen(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		event.id = &stranger;
	}
	if (!pending) {
		errno = EAGAIN;
		return -1;
	}
	pending = false;
	if (event.event == RDMA_CM_EVENT_ADDR_RESOLVED)
		open_file(); /* the device's */
	*out = &event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *of)
{
	(void)of;
	n_acked++;
	return 0;
}

static struct verbs verbs;
static struct settings settings;

static void start(void)
{
	verbs = (struct verbs){
		.settings = &settings,
		.device = { .name = "fake0", .port = 1 },
		.table = PTHREAD_MUTEX_INITIALIZER,
	};
	n_asked = n_unknown = n_acked = n_opened = 0;
	take_ns = 0;
	pending = false;
}

TestSuite(verbs_connect, .init = start, .timeout = 300);

static int try_to_connect(const struct wait_limit *wait_limit)
{
	struct verbs_conn *conn;

	return dfi__verbs_connect(
	    &verbs, &verbs, "10.0.0.1:7", wait_limit, &conn);
}

/* It may have missed the neighbour's answer. */
Test(
    verbs_connect, address_that_the_kernel_does_not_know_yet_is_asked_for_again)
{
	struct wait_limit wait_limit = { .deadline = deadline_in_ms(60000) };

	n_unknown = 5;
	cr_assert_eq(try_to_connect(&wait_limit), -EIO);
	cr_assert(
	    strstr(dfi_errmsg(), "rdma_resolve_route"), "%s", dfi_errmsg());
	cr_assert_eq(n_asked, 6);
	cr_assert_eq(n_acked, 6);
}

Test(verbs_connect, address_that_stays_unknown_is_nobodys)
{
	struct wait_limit wait_limit = { .deadline = deadline_in_ms(60000) };

	n_unknown = INT32_MAX;
	cr_assert_eq(try_to_connect(&wait_limit), -EHOSTUNREACH);
	cr_assert(strstr(dfi_errmsg(), "10.0.0.1:7: nobody answers"), "%s",
	    dfi_errmsg());
	cr_assert_gt(n_asked, 10);
	cr_assert_eq(n_acked, n_asked);
}

Test(verbs_connect, unknown_address_is_asked_for_until_the_deadline)
{
	struct wait_limit wait_limit = { .deadline = deadline_in_ms(300) };

	n_unknown = INT32_MAX;
	take_ns = 10 * NS_PER_MS;
	cr_assert_eq(try_to_connect(&wait_limit), -ETIMEDOUT);
	cr_assert(strstr(dfi_errmsg(), "no answer from 10.0.0.1:7"), "%s",
	    dfi_errmsg());
	cr_assert_geq(clock_now_ns(), wait_limit.deadline);
	cr_assert_geq(n_asked, 1);
	cr_assert_eq(n_acked, n_asked);
}

static bool is_gone(void *arg)
{
	(void)arg;
	return n_asked == 3;
}

/* Though there is always an event, so nothing sleeps. */
Test(verbs_connect, peer_that_dies_meanwhile_is_asked_for_no_more)
{
	struct wait_limit wait_limit = {
		.deadline = deadline_in_ms(60000),
		.given_up = is_gone,
	};

	n_unknown = INT32_MAX;
	cr_assert_eq(try_to_connect(&wait_limit), -ECONNRESET);
	cr_assert_eq(n_asked, 3);
	cr_assert_eq(n_acked, 3);
}

static struct verbs_conn *connect_as(const void *writer)
{
	struct wait_limit wait_limit = { .deadline = deadline_in_ms(60000) };
	struct verbs_conn *conn = NULL;

	cr_assert_eq(dfi__verbs_connect(
			 &verbs, writer, "10.0.0.1:7", &wait_limit, &conn),
	    0);
	return conn;
}

/* However they are listed, so that sources that share keep to one. */
Test(verbs_connect, writer_takes_its_own_connection_before_one_that_is_free)
{
	static struct verbs_conn own = { .max_sends = 512, .n_remotes = 1 };
	static struct verbs_conn idle = { .max_sends = 512 };
	uint32_t i;

	own.writer = &own;
	idle.next = &own;
	strcpy(own.peer, "10.0.0.1:7");
	strcpy(idle.peer, "10.0.0.1:7");
	verbs.conns = &idle;
	for (i = 1; i < 128; i++)
		cr_assert_eq(connect_as(&own), &own);
	cr_assert_eq(own.n_remotes, 128);
	cr_assert_null(idle.writer);
	/* It is full. */
	cr_assert_eq(connect_as(&own), &idle);
	cr_assert_eq(idle.writer, (const void *)&own);
	cr_assert_eq(idle.n_remotes, 1);
	cr_assert_eq(n_asked, 0);
}

static int accept_peers(void *arg)
{
	return dfi__verbs_listen_watch(arg);
}

static int refuse_peers(void *arg)
{
	dfi__verbs_unlisten_quiet(arg);
	return 0;
}

/* Their requests are empty, and are refused. */
Test(verbs_connect, flood_of_requests_lets_the_control_thread_do_its_work)
{
	int ret;

	cr_assert_eq(dfi__loop_start("dfi", &verbs.loop), 0);
	cr_assert_eq(dfi__verbs_listen(&verbs), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi__loop_call(verbs.loop, accept_peers, &verbs,
			 deadline_in_ms(10000)),
	    0, "%s", dfi_errmsg());
	atomic_set(&flood, true);
	cr_assert_eq(eventfd_write(channel.fd, 1), 0);
	while (!atomic_observe(&n_refused))
		sched_yield();
	ret = dfi__loop_check(verbs.loop, deadline_in_ms(10000));
	atomic_set(&flood, false);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi__loop_call(verbs.loop, refuse_peers, &verbs,
			 deadline_in_ms(10000)),
	    0, "%s", dfi_errmsg());
	dfi__verbs_unlisten(&verbs);
	stop_loop(verbs.loop);
}

/* ---- Descriptors ----------------------------------------------------------
 */

Test(verbs_connect, to_an_address_opens_no_standard_descriptor)
{
	struct wait_limit wait_limit = { .deadline = deadline_in_ms(60000) };

	close(STDIN_FILENO);
	cr_assert_eq(try_to_connect(&wait_limit), -EIO);
	cr_assert_eq(n_opened, 2, "%d", n_opened);
	cr_assert_gt(lowest, STDERR_FILENO, "%d", lowest);
}

Test(verbs_connect, question_whether_a_peer_is_reached_opens_none)
{
	cr_assert(dfi__ip_parse("10.0.0.1:7", &verbs.device.address));
	close(STDIN_FILENO);
	cr_assert(dfi__verbs_ops.reaches(&verbs.base, "127.0.0.1:7"));
	cr_assert_eq(n_opened, 2, "%d", n_opened);
	cr_assert_gt(lowest, STDERR_FILENO, "%d", lowest);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagram endpoints over verbs: they need a device, so these tests run where
 * DFI_TEST_DEVICE names one, as in the testbed. The last ones need none: they
 * make the device's reports by hand.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <dfi/context.h>
#include <dfi/error.h>

#include "base/clock.h"
#include "base/loop.h"
#include "transport/verbs/events.h"
#include "transport/verbs/multicast/multicast.h"
#include "tests/unit/stop_loop.h"

#include "../proc/descriptors.h"

/* Loss by a full queue of a device isn't tested here. */
#define WAIT_LIMIT_NS (INT64_C(60) * NS_PER_S)
#define GROUP "239.201.3.7"
#define KEY 0x12345678

static struct loop *loop;
static struct settings settings;
static struct transport *transport;

static void start(void)
{
	const struct member self = { .node = 1 };

	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_VERBS_DEVICE", getenv("DFI_TEST_DEVICE"), 1);
	cr_assert_eq(dfi__settings_load(&settings), 0);
	cr_assert_eq(dfi__loop_start("test", &loop), 0);
	cr_assert_eq(dfi__verbs_ops.start(loop, &settings, &self, &transport),
	    0, "%s", dfi_errmsg());
}

static void stop(void)
{
	if (!transport)
		return;
	dfi__verbs_ops.stop(transport);
	stop_loop(loop);
}

TestSuite(multicast, .init = start, .fini = stop);

/* A datagram endpoint, and its arrivals. */
struct end {
	struct multicast_endpoint *endpoint;
	uint32_t n;
	uint32_t last_size;
	char last[MULTICAST_LARGEST];
	_Atomic uint32_t n_ready;
};

static void received(void *arg, const void *bytes, uint32_t size)
{
	struct end *end = arg;

	end->n++;
	end->last_size = size;
	memcpy(end->last, bytes, size);
}

static void ready(void *arg)
{
	struct end *end = arg;

	atomic_fetch_add(&end->n_ready, 1);
}

static struct multicast_attr attr_of(struct end *end, bool member)
{
	return (struct multicast_attr){
		.group = GROUP,
		.key = KEY,
		.max_size = transport->ops->mcast->size(transport),
		.member = member,
		.receives = 64,
		.receive_size = transport->ops->mcast->size(transport),
		.received = received,
		.ready = ready,
		.arg = end,
	};
}

static int try_open(struct end *end, const struct multicast_attr *attr)
{
	return transport->ops->mcast->open(
	    transport, attr, clock_now_ns() + WAIT_LIMIT_NS, &end->endpoint);
}

static void open_end(struct end *end, const struct multicast_attr *attr)
{
	cr_assert_eq(try_open(end, attr), 0, "%s", dfi_errmsg());
}

static void open_plain(struct end *end, bool member)
{
	struct multicast_attr attr = attr_of(end, member);

	open_end(end, &attr);
}

static void close_end(struct end *end)
{
	end->endpoint->ops->close(end->endpoint);
}

/* Wait until n have come. */
static void await(struct end *end, uint32_t n)
{
	int64_t deadline = clock_now_ns() + WAIT_LIMIT_NS;

	while (end->n < n && clock_now_ns() < deadline)
		cr_assert_geq(end->endpoint->ops->take(end->endpoint), 0, "%s",
		    dfi_errmsg());
	cr_assert_eq(end->n, n, "%u datagrams", end->n);
}

static int send_to(struct end *end, struct multicast_peer *peer,
    const char *header, const void *payload, size_t payload_size)
{
	return end->endpoint->ops->send(
	    end->endpoint, peer, header, strlen(header), payload, payload_size);
}

Test(multicast, group_gets_what_is_sent_to_it_and_its_sender_does_not)
{
	static struct end source, one, two;

	open_plain(&one, true);
	open_plain(&two, true);
	open_plain(&source, false);
	cr_assert_eq(send_to(&source, NULL, "first", NULL, 0), 0);
	await(&one, 1);
	await(&two, 1);
	cr_assert_eq(one.last_size, 5);
	cr_assert_arr_eq(one.last, "first", 5);
	cr_assert_arr_eq(two.last, "first", 5);
	cr_assert_eq(source.endpoint->ops->take(source.endpoint), 0);
	cr_assert_eq(source.n, 0);
	close_end(&source);
	close_end(&one);
	close_end(&two);
}

/* A datagram that is not sent inline comes from two places, up to the MTU. */
Test(multicast, payload_follows_its_header_up_to_the_largest_datagram)
{
	static struct end source, one;
	static char memory[2 * MULTICAST_LARGEST];
	struct multicast_attr attr = attr_of(&source, false);
	uint32_t i, size, n = 0;
	char header[] = "0123456789abcdef";

	for (i = 0; i < sizeof(memory); i++)
		memory[i] = (char)(i % 251);
	attr.memory = memory;
	attr.memory_size = sizeof(memory);
	open_plain(&one, true);
	open_end(&source, &attr);
	for (size = 1; size <= attr.max_size - strlen(header);
	     size = size * 3 + 1) {
		header[0]++;
		cr_assert_eq(
		    send_to(&source, NULL, header, memory + n, size), 0);
		await(&one, ++n);
		cr_assert_eq(one.last_size, strlen(header) + size);
		cr_assert_arr_eq(one.last, header, strlen(header));
		cr_assert_arr_eq(
		    one.last + strlen(header), memory + n - 1, size);
	}
	size = attr.max_size - (uint32_t)strlen(header);
	cr_assert_eq(send_to(&source, NULL, header, memory, size), 0);
	await(&one, ++n);
	cr_assert_eq(one.last_size, attr.max_size);
	cr_assert_arr_eq(one.last + strlen(header), memory, size);
	cr_assert_eq(
	    send_to(&source, NULL, header, memory, size + 1), -EMSGSIZE);
	close_end(&source);
	close_end(&one);
}

Test(multicast, single_endpoint_is_reached_by_its_address)
{
	static struct end source, one, two;
	struct multicast_peer *to_two, *to_source;

	open_plain(&one, true);
	open_plain(&two, true);
	open_plain(&source, false);
	cr_assert_eq(source.endpoint->ops->peer_open(
			 source.endpoint, &two.endpoint->address, &to_two),
	    0);
	cr_assert_eq(send_to(&source, to_two, "two", NULL, 0), 0);
	await(&two, 1);
	/* The other direction, to an endpoint in no group. */
	cr_assert_eq(two.endpoint->ops->peer_open(
			 two.endpoint, &source.endpoint->address, &to_source),
	    0);
	cr_assert_eq(send_to(&two, to_source, "back", NULL, 0), 0);
	await(&source, 1);
	cr_assert_arr_eq(source.last, "back", 4);
	/* Not before this one, had it come. */
	cr_assert_eq(send_to(&source, NULL, "all", NULL, 0), 0);
	await(&one, 1);
	cr_assert_arr_eq(one.last, "all", 3);
	source.endpoint->ops->peer_close(to_two);
	two.endpoint->ops->peer_close(to_source);
	close_end(&source);
	close_end(&one);
	close_end(&two);
}

Test(multicast, device_drops_what_comes_with_another_key)
{
	static struct end other, source, one;
	struct multicast_attr attr = attr_of(&other, false);

	attr.key = KEY + 1;
	open_plain(&one, true);
	open_end(&other, &attr);
	open_plain(&source, false);
	cr_assert_eq(send_to(&other, NULL, "other", NULL, 0), 0);
	cr_assert_eq(send_to(&source, NULL, "ours", NULL, 0), 0);
	await(&one, 1);
	cr_assert_arr_eq(one.last, "ours", 4);
	close_end(&source);
	close_end(&other);
	close_end(&one);
}

Test(multicast, address_that_makes_no_sense_is_refused)
{
	static struct end one;
	struct multicast_address address = { .bytes = { 1 } };
	struct multicast_peer *peer;

	open_plain(&one, true);
	cr_assert_eq(
	    one.endpoint->ops->peer_open(one.endpoint, &address, &peer),
	    -EBADMSG);
	close_end(&one);
}

Test(multicast, datagrams_larger_than_the_mtu_are_refused_with_the_limit)
{
	static struct end end;
	struct multicast_attr attr = attr_of(&end, true);
	char limit[16];

	snprintf(limit, sizeof(limit), "%u", attr.max_size);
	attr.max_size++;
	cr_assert_eq(try_open(&end, &attr), -EMSGSIZE);
	cr_assert_not_null(strstr(dfi_errmsg(), limit), "%s", dfi_errmsg());
}

Test(multicast, group_must_be_a_multicast_address)
{
	static struct end end;
	struct multicast_attr attr = attr_of(&end, true);

	attr.group = "10.1.2.3";
	cr_assert_eq(try_open(&end, &attr), -EINVAL);
	cr_assert_not_null(strstr(dfi_errmsg(), "10.1.2.3"));
	attr.group = "node0";
	cr_assert_eq(try_open(&end, &attr), -EINVAL);
}

static void await_ready(struct end *end)
{
	int64_t deadline = clock_now_ns() + WAIT_LIMIT_NS;

	while (!atomic_peek(&end->n_ready) && clock_now_ns() < deadline)
		;
	cr_assert_gt(atomic_peek(&end->n_ready), 0);
	atomic_set(&end->n_ready, 0);
}

Test(multicast, armed_endpoint_says_when_something_came_or_its_time_has_come)
{
	static struct end source, one;

	open_plain(&one, true);
	open_plain(&source, false);
	one.endpoint->ops->arm(one.endpoint);
	cr_assert_eq(one.endpoint->ops->take(one.endpoint), 0);
	cr_assert_eq(atomic_peek(&one.n_ready), 0);
	cr_assert_eq(send_to(&source, NULL, "wake", NULL, 0), 0);
	await_ready(&one);
	await(&one, 1);
	one.endpoint->ops->alarm(one.endpoint, clock_now_ns() + NS_PER_MS);
	await_ready(&one);
	/* A time in the past is a time as well. */
	one.endpoint->ops->alarm(one.endpoint, 0);
	await_ready(&one);
	close_end(&source);
	close_end(&one);
}

/* More than fit the queue: each is sent once there is room, and there is. */
Test(multicast, sending_waits_for_room_in_the_queue_and_gets_it)
{
	static struct end source, one;
	static char memory[2048];
	struct multicast_attr attr = attr_of(&source, false);
	int64_t deadline = clock_now_ns() + WAIT_LIMIT_NS;
	uint32_t sent = 0;
	int ret;

	attr.max_size = 1024;
	attr.memory = memory;
	attr.memory_size = sizeof(memory);
	open_end(&source, &attr);
	attr = attr_of(&one, true);
	attr.receives = 8192;
	open_end(&one, &attr);
	while (sent < 4096 && clock_now_ns() < deadline) {
		ret = send_to(&source, NULL, "full", memory, 700);
		if (ret == -EAGAIN)
			continue;
		cr_assert_eq(ret, 0, "%s", dfi_errmsg());
		sent++;
	}
	cr_assert_eq(sent, 4096);
	await(&one, sent);
	close_end(&source);
	close_end(&one);
}

Test(multicast, what_finds_no_receive_is_lost_and_nothing_else)
{
	static struct end source, one;
	int64_t deadline = clock_now_ns() + WAIT_LIMIT_NS;
	uint32_t i, sent = 0;
	char text[16];

	open_plain(&one, true);
	open_plain(&source, false);
	for (i = 0; sent < 200 && clock_now_ns() < deadline; i++)
		sent += send_to(&source, NULL, "many", NULL, 0) == 0;
	cr_assert_eq(sent, 200);
	/* One more arrival takes all earlier ones along. */
	for (i = 0; memcmp(one.last, "end", 3) != 0; i++) {
		cr_assert_lt(clock_now_ns(), deadline);
		snprintf(text, sizeof(text), "end%u", i);
		cr_assert_leq(send_to(&source, NULL, text, NULL, 0), 0);
		cr_assert_geq(one.endpoint->ops->take(one.endpoint), 0);
	}
	cr_assert_lt(one.n, 200 + i);
	cr_assert_geq(one.n, 64);
	close_end(&source);
	close_end(&one);
}

Test(multicast, closing_leaves_nothing_behind)
{
	struct dfi_transport_stats before = { .receives = 0 },
				   now = { .receives = 0 };
	static struct end one;
	unsigned files = count_descriptors("");
	int i;

	transport->ops->query(transport, &before);
	for (i = 0; i < 20; i++) {
		open_plain(&one, i % 2);
		cr_assert_eq(send_to(&one, NULL, "bye", NULL, 0), 0);
		now = (struct dfi_transport_stats){ .receives = 0 };
		transport->ops->query(transport, &now);
		cr_assert_eq(now.connections, before.connections + 1);
		cr_assert_eq(now.receives, before.receives + 64);
		close_end(&one);
	}
	now = (struct dfi_transport_stats){ .receives = 0 };
	transport->ops->query(transport, &now);
	cr_assert_eq(now.connections, before.connections);
	cr_assert_eq(now.memory_regions, before.memory_regions);
	cr_assert_eq(now.messages, before.messages + 20);
	cr_assert_eq(count_descriptors(""), files);
}

/* ---- Without a device -------------------------------------------------- */

static struct ibv_device device = { .name = "fake0" };
static struct ibv_context context = { .device = &device };
static struct verbs verbs = {
	.device = { .name = "fake0", .port = 1, .context = &context },
};
static struct ibv_qp qp = { .context = &context };
static struct ibv_comp_channel channel;
static struct rdma_cm_id id = { .qp = &qp };
static struct verbs_endpoint endpoint = {
	.verbs = &verbs,
	.attr.group = GROUP,
	.id = &id,
	.channel = &channel,
	.timer = -1,
};

static void list(void)
{
	dfi__verbs_events_list(&verbs);
	dfi__verbs_list_endpoint(&endpoint);
}

static void unlist(void)
{
	dfi__verbs_unlist_endpoint(&endpoint);
	dfi__verbs_events_unlist(&verbs);
}

TestSuite(multicast_events, .init = list, .fini = unlist);

Test(multicast_events, fatal_error_of_a_queue_pair_breaks_its_endpoint)
{
	const struct ibv_async_event event = {
		.element.qp = &qp,
		.event_type = IBV_EVENT_QP_FATAL,
	};

	dfi__verbs_event(&context, &event);
	cr_assert_eq(dfi__verbs_endpoint_take(&endpoint.base), -ECONNRESET);
	cr_assert_not_null(
	    strstr(dfi_errmsg(), "fake0 port 1"), "%s", dfi_errmsg());
	cr_assert_not_null(strstr(dfi_errmsg(), GROUP), "%s", dfi_errmsg());
	cr_assert_eq(dfi__verbs_endpoint_room(&endpoint.base), -ECONNRESET);
}

Test(multicast_events, failed_queue_breaks_its_endpoint)
{
	struct ibv_cq cq = { .context = &context, .channel = &channel };
	const struct ibv_async_event event = {
		.element.cq = &cq,
		.event_type = IBV_EVENT_CQ_ERR,
	};

	dfi__verbs_event(&context, &event);
	cr_assert_str_eq(endpoint.failed, "CQ error");
}

/* An application's own, which it polls: all reports of a device come here. */
Test(multicast_events, queue_without_a_channel_is_left_alone)
{
	struct ibv_cq other = { .context = &context };
	const struct ibv_async_event event = {
		.element.cq = &other,
		.event_type = IBV_EVENT_CQ_ERR,
	};

	dfi__verbs_event(&context, &event);
	cr_assert_null(endpoint.failed);
}

Test(multicast_events, queue_pair_of_somebody_else_is_left_alone)
{
	struct ibv_qp other = { .context = &context };
	const struct ibv_async_event event = {
		.element.qp = &other,
		.event_type = IBV_EVENT_QP_FATAL,
	};

	dfi__verbs_event(&context, &event);
	cr_assert_null(endpoint.failed);
}

/* ---- A control thread that does not run ---------------------------------- */

struct holding {
	sem_t entered, may_leave;
	_Atomic bool held;
};

static int hold_loop(void *arg)
{
	struct holding *holding = arg;
	struct timespec until = deadline_timespec(
	    clock_now_ns() + WAIT_LIMIT_NS);

	atomic_store(&holding->held, true);
	sem_post(&holding->entered);
	sem_clockwait(&holding->may_leave, CLOCK_MONOTONIC, &until);
	atomic_store(&holding->held, false);
	return 0;
}

static void *hold_in_thread(void *arg)
{
	dfi__loop_call(loop, hold_loop, arg, DEADLINE_NEVER);
	return NULL;
}

/* A datagram endpoint has only a timer and rdma_cm's descriptor. */
static struct verbs_endpoint *make_endpoint(struct verbs *of)
{
	struct verbs_endpoint *made = calloc(1, sizeof(*made));

	cr_assert_not_null(made);
	made->verbs = of;
	made->attr.group = strdup(GROUP);
	made->cm = calloc(1, sizeof(*made->cm));
	cr_assert(made->attr.group && made->cm);
	made->cm->fd = eventfd(0, EFD_CLOEXEC);
	made->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	pthread_mutex_init(&made->lock, NULL);
	dfi__verbs_list_endpoint(made);
	return made;
}

static void begin_holding(struct holding *holding, pthread_t *thread)
{
	atomic_store(&holding->held, false);
	sem_init(&holding->entered, 0, 0);
	sem_init(&holding->may_leave, 0, 0);
	pthread_create(thread, NULL, hold_in_thread, holding);
	sem_wait(&holding->entered);
}

/* Calls that have waited until the thread ran again are too late. */
static void end_holding(struct holding *holding, pthread_t thread)
{
	bool in_time = atomic_load(&holding->held);

	sem_post(&holding->may_leave);
	pthread_join(thread, NULL);
	cr_assert(in_time, "it has waited for the thread");
}

/* When the thread runs again, it stops the transport before the loop ends. */
Test(multicast, transport_starts_and_stops_while_the_control_thread_does_not)
{
	const struct member self = { .node = 1 };
	struct transport *second = NULL;
	struct holding holding;
	pthread_t thread;
	int ret;

	settings.open_timeout_ms = 100;
	begin_holding(&holding, &thread);
	ret = dfi__verbs_ops.start(loop, &settings, &self, &second);
	cr_assert_eq(ret, -ETIMEDOUT);
	cr_assert_not_null(strstr(dfi_errmsg(), "DFI_CONTROL_CPUS"));
	cr_assert_null(second);
	end_holding(&holding, thread);
	begin_holding(&holding, &thread);
	dfi__verbs_ops.leave(transport, deadline_in_ms(100));
	dfi__verbs_ops.stop(transport);
	transport = NULL;
	end_holding(&holding, thread);
	stop_loop(loop);
}

static int do_nothing(void *arg)
{
	(void)arg;
	return 0;
}

Test(
    multicast_stopped, an_endpoint_closes_while_the_control_thread_does_not_run)
{
	struct holding holding;
	struct verbs stopped = { 0 };
	struct verbs_endpoint *made;
	pthread_t thread;
	int timer;

	cr_assert_eq(dfi__loop_start("test", &loop), 0, "%s", dfi_errmsg());
	stopped.loop = loop;
	made = make_endpoint(&stopped);
	timer = made->timer;
	begin_holding(&holding, &thread);
	dfi__verbs_endpoint_close(&made->base);
	cr_assert_geq(fcntl(timer, F_GETFD), 0, "the thread still watches it");
	end_holding(&holding, thread);
	cr_assert_eq(dfi__loop_call(loop, do_nothing, NULL, DEADLINE_NEVER), 0);
	cr_assert_lt(fcntl(timer, F_GETFD), 0, "it is closed");
	stop_loop(loop);
}

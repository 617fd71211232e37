/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open replicate flows whose followers are killed or stopped: the others go on.
 * The other processes run worker.c.
 *
 * DFI_TEST_STOP_MS=10000 DFI_TEST_BOUND_MS=100 test_open_replicate --verbose
 * evicts a stopped follower after the latter, leaves it stopped for the former,
 * and prints the pauses of the others.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "in_time.h"
#include "spawn.h"
#include "worker.h"

#define FLOW "flow"
#define LONG_MS 60000u
#define SEGMENT 20 /* tuples */
#define RING 8     /* segments */
#define HELD 107   /* tuples of a child that waits for orders */
#define MANY 2000  /* far more than a ring has room for */

static struct child server;
static char address[sizeof(server.line)];
static struct dfi *dfi;

/* Beside the bound, on a busy machine. */
#define SLACK_MS 250
static uint32_t bound_ms, stop_ms; /* the latter if it measures */

static uint32_t setting(const char *name, uint32_t otherwise)
{
	const char *text = getenv(name);

	return text ? (uint32_t)strtoul(text, NULL, 10) : otherwise;
}

static void setup(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	in_time_start();
	bound_ms = setting("DFI_TEST_BOUND_MS", 200);
	stop_ms = setting("DFI_TEST_STOP_MS", 0);
	if (access(DFI_BIN_DIR "/dfi-registry", X_OK) < 0)
		cr_skip_test("dfi-registry is not built");
	child_spawn_registry(&server, NULL);
	snprintf(address, sizeof(address), "%s", server.line);
	attr.registry = address;
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
}

static void teardown(void)
{
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	child_signal(&server, SIGKILL);
	child_wait(&server);
}

TestSuite(open_replicate, .init = setup, .fini = teardown, .timeout = 300);

/* This process has source 0 and target 0; others are in children. */
static struct dfi_source *source;
static struct dfi_target *target;
static uint32_t next; /* tuple */
static uint32_t ordered;

static void push_and_take(uint32_t n)
{
	struct worker_tuple tuple;
	const void *at;

	for (; n > 0; n--) {
		worker_make_tuple(0, next, &tuple);
		cr_assert_eq(
		    dfi_source_push(source, &tuple), 0, "%s", dfi_errmsg());
		cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
		cr_assert_eq(dfi_target_consume(target, &at), 1, "%u: %s", next,
		    dfi_errmsg());
		cr_assert_eq(memcmp(at, &tuple, sizeof(tuple)), 0);
		next++;
	}
}

/* Wait until the source hears this of target 1. */
static void await_event(uint32_t type)
{
	time_t until = time(NULL) + LONG_MS / 1000;
	struct dfi_event event = { .type = 0 };

	while (event.type != type || event.seat != 1) {
		cr_assert_lt(time(NULL), until);
		if (dfi_source_event(source, &event) == -EAGAIN)
			usleep(1000);
	}
}

/* By datagrams with DFI_TEST_REPLICATION=2, where a network carries them. */
static uint32_t method(void)
{
	const char *text = getenv("DFI_TEST_REPLICATION");

	return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

static void create(uint32_t min_targets, uint32_t evict_after_ms)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_REPLICATE,
		.schema = &worker_schema,
		.n_sources = 2,
		.n_targets = 3,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct worker_tuple),
		.segment_count = RING,
		.transport = ordered ? DFI_TRANSPORT_SHM
				     : DFI_TRANSPORT_DEFAULT,
		.replicate = { .method = ordered ? 0 : method(),
			.ordered = ordered },
		.open = {
			.membership = DFI_MEMBERS_OPEN,
			.min_targets = min_targets,
			.on_loss = DFI_ON_LOSS_DROP,
			.evict_after_ms = evict_after_ms,
		},
	};

	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
}

/* Start this process's ends, and a child with target 1 that is held. */
static void start(struct child *child, uint32_t evict_after_ms)
{
	struct dfi_source_attr sends = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr takes = DFI_TARGET_ATTR_INIT;

	sends.open_timeout_ms = sends.stall_timeout_ms = LONG_MS;
	sends.flags = DFI_EVENTS;
	takes.stall_timeout_ms = LONG_MS;
	next = 0;
	create(2, evict_after_ms);
	cr_assert_eq(dfi_target_open(dfi, FLOW, 0, &takes, &target), 0, "%s",
	    dfi_errmsg());
	child_spawn(child, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "107",
	    "target:1", NULL);
	cr_assert_eq(dfi_source_open(dfi, FLOW, 0, &sends, &source), 0, "%s",
	    dfi_errmsg());
	await_event(DFI_JOINED);
	push_and_take(HELD);
	child_expect(child, "target 1 held 107");
}

static void finish(void)
{
	const void *at;

	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_flow_finish(dfi, FLOW), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_consume(target, &at), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Tuples that were pushed and taken, and the pauses in between. */
struct course {
	uint32_t n, n_pauses; /* those of half the bound, and more */
	int64_t longest, ns;
};

static struct course go_on_for(uint32_t ms)
{
	int64_t from = now_ns(), last = from, now = from, ns;
	struct course course = { .n = 0 };

	for (; now - from < ms * INT64_C(1000000); last = now) {
		push_and_take(1);
		now = now_ns();
		ns = now - last;
		course.n++;
		course.n_pauses += ns >= bound_ms * INT64_C(500000);
		course.longest = ns > course.longest ? ns : course.longest;
	}
	course.ns = now - from;
	return course;
}

static double tuples_per_ms(const struct course *course)
{
	return (double)course->n * 1e6 / (double)course->ns;
}

/* The follower is stopped, and the others push and take. */
static void go_on(struct child *stopped)
{
	struct course before, during, after;

	if (!stop_ms) {
		child_signal(stopped, SIGSTOP);
		push_and_take(MANY);
		return;
	}
	child_order(stopped, 'c');
	before = go_on_for(1000);
	child_signal(stopped, SIGSTOP);
	during = go_on_for(stop_ms);
	after = go_on_for(1000);
	printf("a stopped follower%s: longest pause of the others %.1f ms, %u "
	       "of %u ms and more (in the second before: %.1f ms, %u); tuples "
	       "per ms: %.0f before, %.0f while it is stopped, %.0f in the "
	       "last second\n",
	    ordered ? " of an order" : "", (double)during.longest / 1e6,
	    during.n_pauses, bound_ms / 2, (double)before.longest / 1e6,
	    before.n_pauses, tuples_per_ms(&before), tuples_per_ms(&during),
	    tuples_per_ms(&after));
	cr_assert_leq(during.longest / 1000000, bound_ms + SLACK_MS);
	/* Of the stop, once; others are the machine's, as before. */
	cr_assert_leq(
	    during.n_pauses, 1 + (before.n_pauses + 1) * stop_ms / 1000);
}

static void evict_stopped(void)
{
	struct dfi_event event;
	struct child stopped;

	start(&stopped, bound_ms);
	go_on(&stopped);
	await_event(DFI_EVICTED);
	/* It holds up nobody again. */
	push_and_take(MANY);
	cr_assert_eq(dfi_source_event(source, &event), -EAGAIN);
	child_signal(&stopped, SIGCONT);
	child_order(&stopped, 'c');
	child_expect(&stopped, "target 1 ended -116");
	cr_assert_not_null(strstr(stopped.line, "evicted"), "%s", stopped.line);
	child_wait(&stopped);
	finish();
}

Test(open_replicate, a_stopped_follower_is_evicted_and_the_others_go_on)
{
	evict_stopped();
}

Test(open_replicate, a_stopped_follower_of_an_order_is_evicted)
{
	ordered = 1;
	evict_stopped();
}

static void lose_killed(void)
{
	struct child killed;
	uint64_t dropped;

	start(&killed, 0);
	child_signal(&killed, SIGKILL);
	/* The ring fills, and the death ends that. */
	push_and_take(MANY);
	await_event(DFI_LOST);
	cr_assert_eq(dfi_source_dropped(source, &dropped), 0);
	cr_assert_gt(dropped, 0);
	cr_assert_eq(child_wait(&killed), 128 + SIGKILL);
	finish();
}

Test(open_replicate, a_killed_follower_harms_nobody)
{
	lose_killed();
}

Test(open_replicate, a_killed_follower_of_an_order_harms_nobody)
{
	ordered = 1;
	lose_killed();
}

Test(open_replicate, a_follower_that_was_killed_comes_back)
{
	struct child child;

	start(&child, 0);
	child_signal(&child, SIGKILL);
	cr_assert_eq(child_wait(&child), 128 + SIGKILL);
	push_and_take(MANY);
	await_event(DFI_LOST);
	child_spawn(&child, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "0",
	    "target:1", NULL);
	child_expect(&child, "target 1 held 0");
	await_event(DFI_JOINED);
	child_order(&child, 'x');
	cr_assert_eq(child_wait(&child), 0);
	push_and_take(MANY);
	finish();
}

/* Consume tuples of source 1 in order, from *n on, to an event. */
static void take_to_event(uint32_t *n, struct dfi_event *event, uint32_t most)
{
	struct worker_tuple tuple;
	const void *at;
	int ret = 1;

	for (; ret == 1 && *n < most; *n += ret == 1) {
		ret = dfi_target_consume(target, &at);
		if (ret != 1)
			continue;
		worker_make_tuple(1, *n, &tuple);
		cr_assert_eq(memcmp(at, &tuple, sizeof(tuple)), 0, "%u", *n);
	}
	if (ret == 1)
		return;
	cr_assert_eq(ret, -ENOMSG, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_event(target, event), 0);
}

/* What came of it before is consumed, and others come and go. */
Test(open_replicate, a_killed_source_is_lost_and_the_target_goes_on)
{
	struct dfi_target_attr takes = DFI_TARGET_ATTR_INIT;
	struct dfi_event event = { .type = 0 };
	struct child killed;
	uint32_t n = 0, i;
	const void *at;

	create(1, 0);
	takes.flags = DFI_EVENTS;
	takes.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(dfi, FLOW, 0, &takes, &target), 0, "%s",
	    dfi_errmsg());
	child_spawn(&killed, DFI_WORKER, "-r", address, "-f", FLOW, "-n",
	    "1000000000", "source:1", NULL);
	take_to_event(&n, &event, MANY);
	cr_assert_eq(event.type, DFI_JOINED);
	take_to_event(&n, &event, MANY);
	cr_assert_eq(n, MANY);
	child_signal(&killed, SIGKILL);
	take_to_event(&n, &event, UINT32_MAX);
	cr_assert_eq(event.type, DFI_LOST);
	cr_assert_eq(event.seat, 1);
	cr_assert_eq(child_wait(&killed), 128 + SIGKILL);
	child_spawn(&killed, DFI_WORKER, "-r", address, "-f", FLOW, "-n", "100",
	    "source:1", NULL);
	n = 0;
	take_to_event(&n, &event, 1);
	cr_assert_eq(event.type, DFI_JOINED);
	for (i = 0; i < 100; i++)
		cr_assert_eq(
		    dfi_target_consume(target, &at), 1, "%s", dfi_errmsg());
	take_to_event(&n, &event, 1);
	cr_assert_eq(event.type, DFI_ENDED);
	cr_assert_eq(child_wait(&killed), 0);
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
}

/* By datagrams a source waits until each target has all, or is out. */
Test(open_replicate, a_follower_that_is_stopped_at_the_end_is_evicted)
{
	struct child stopped;

	if (method() != DFI_REPLICATION_MULTICAST)
		cr_skip_test("rings have all that was sent");
	start(&stopped, 200);
	child_signal(&stopped, SIGSTOP);
	push_and_take(1);
	finish();
	child_signal(&stopped, SIGCONT);
	child_order(&stopped, 'c');
	child_expect(&stopped, "target 1 ended -116");
	cr_assert_not_null(strstr(stopped.line, "evicted"), "%s", stopped.line);
	child_wait(&stopped);
}

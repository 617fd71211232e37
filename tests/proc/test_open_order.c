/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordered open flows in several processes, which are stopped at points of a
 * change of view (O1 to O6 in docs/open-flows.md). The others run worker.c.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
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
#define LONG_MS 60000
#define SEATS 4
#define RING 1024 /* segments: more than tests push while nobody takes them */
/* Beside the bound: answers of the registry, on a busy machine. */
#define SLACK_MS 250
/* Times that a source is stopped until it has a number then. */
#define TRIES 2000

static struct child server;
static char address[sizeof(server.line)];
static struct dfi *dfi;
static struct dfi_source *source; /* nonblocking, of seat 0 */
static struct dfi_target *first;  /* has the first counter, in seat 0 */
static uint32_t next;             /* tuple of source */
static uint32_t evict_ms = 1000;
static bool measures; /* DFI_TEST_BOUND_MS: that bound, which is checked */

static void setup(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	const char *bound = getenv("DFI_TEST_BOUND_MS");

	in_time_start();
	measures = bound;
	if (bound)
		evict_ms = (uint32_t)strtoul(bound, NULL, 10);
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

TestSuite(open_order_proc, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_source *open_source(uint32_t seat)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *s = NULL;

	attr.open_timeout_ms = LONG_MS;
	attr.flags = DFI_EVENTS | DFI_NONBLOCK;
	cr_assert_eq(
	    dfi_source_open(dfi, FLOW, seat, &attr, &s), 0, "%s", dfi_errmsg());
	return s;
}

static struct dfi_target *open_target(uint32_t seat)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *t = NULL;

	attr.flags = DFI_NONBLOCK;
	cr_assert_eq(
	    dfi_target_open(dfi, FLOW, seat, &attr, &t), 0, "%s", dfi_errmsg());
	return t;
}

static void create(uint32_t evict_after_ms, uint32_t transport)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_REPLICATE,
		.schema = &worker_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.segment_size = sizeof(struct worker_tuple),
		.segment_count = RING,
		.transport = transport,
		.replicate = { .ordered = 1 },
		.open = {
			.membership = DFI_MEMBERS_OPEN,
			.on_loss = DFI_ON_LOSS_DROP,
			.evict_after_ms = evict_after_ms,
		},
	};

	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
}

/*
 * Start the flow with the first target. In shared memory what is sent is there
 * at once, by which tests know how far a view is.
 */
static void start(uint32_t evict_after_ms)
{
	create(evict_after_ms, DFI_TRANSPORT_SHM);
	first = open_target(0);
}

/* A process with an endpoint that is held after so many tuples. */
static void spawn(struct child *child, const char *end, const char *held)
{
	child_spawn(child, DFI_WORKER, "-r", address, "-f", FLOW, "-p", held,
	    "-n", "1000000000", end, NULL);
}

static void dismiss(struct child *child)
{
	child_order(child, 'x');
	cr_assert_eq(child_wait(child), 0);
}

/* Wait until a source hears this of a target. */
static void await_event(struct dfi_source *s, uint32_t type, uint32_t seat)
{
	time_t until = time(NULL) + LONG_MS / 1000;
	struct dfi_event event = { .type = 0 };

	while (event.type != type || event.seat != seat) {
		cr_assert_lt(time(NULL), until);
		if (dfi_source_event(s, &event) == -EAGAIN)
			usleep(1000);
	}
}

/* The same of so many targets that join, in any order. */
static void await_joined(struct dfi_source *s, uint32_t n)
{
	time_t until = time(NULL) + LONG_MS / 1000;
	struct dfi_event event;

	while (n) {
		cr_assert_lt(time(NULL), until);
		if (dfi_source_event(s, &event) == -EAGAIN)
			usleep(1000);
		else
			n -= event.type == DFI_JOINED;
	}
}

static void await_fd(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	cr_assert_eq(poll(&pollfd, 1, LONG_MS), 1);
}

/* Who has joined may not be known to be there yet, nor the view. */
static void push(void)
{
	struct worker_tuple tuple;
	int ret;

	worker_make_tuple(0, next++, &tuple);
	while ((ret = dfi_source_push(source, &tuple)) == -EAGAIN)
		await_fd(dfi_source_fd(source));
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
}

static void flush(void)
{
	int ret;

	while ((ret = dfi_source_flush(source)) == -EAGAIN)
		await_fd(dfi_source_fd(source));
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
}

/* Push until a tuple waits for the next view. */
static void push_until_held(void)
{
	int ret;

	do {
		push();
		ret = dfi_source_flush(source);
		usleep(5000);
	} while (!ret && next < RING / 2);
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
}

/* The next tuple of a target, which must be this one. */
static void expect(struct dfi_target *t, uint32_t number)
{
	struct worker_tuple tuple;
	const void *at;
	int ret;

	while ((ret = dfi_target_consume(t, &at)) == -EAGAIN)
		await_fd(dfi_target_fd(t));
	cr_assert_eq(ret, 1, "%s", dfi_errmsg());
	worker_make_tuple(0, number, &tuple);
	cr_assert_eq(memcmp(at, &tuple, sizeof(tuple)), 0);
}

static int count_targets(void *n, const struct dfi_member_info *info)
{
	*(uint32_t *)n += info->role == DFI_ROLE_TARGET;
	return 0;
}

static void await_targets(uint32_t n)
{
	time_t until = time(NULL) + LONG_MS / 1000;
	uint32_t count;

	do {
		cr_assert_lt(time(NULL), until);
		count = 0;
		cr_assert_eq(
		    dfi_member_list(dfi, FLOW, count_targets, &count), 0);
	} while (count != n);
}

/*
 * J1, O4: a target that has not begun gets nothing of a view whose counter is
 * gone, so nothing may be sent to it there.
 */
Test(open_order_proc, nothing_is_sent_in_a_view_whose_counter_is_gone)
{
	struct child idle, late;

	start(0);
	spawn(&idle, "source:1", "0");
	child_expect(&idle, "source 1 held 0");
	source = open_source(0);
	await_event(source, DFI_JOINED, 0);
	/* It does not say where it is, so the late one does not begin. */
	child_signal(&idle, SIGSTOP);
	spawn(&late, "target:1", "1");
	await_event(source, DFI_JOINED, 1);
	child_signal(&late, SIGSTOP);
	cr_assert_eq(dfi_target_close(first), 0, "%s", dfi_errmsg());
	await_event(source, DFI_ENDED, 0);
	await_targets(1);
	push();
	cr_assert_eq(dfi_source_flush(source), -EAGAIN);
	child_signal(&late, SIGCONT);
	child_signal(&idle, SIGCONT);
	flush();
	child_expect(&late, "target 1 held 1");
	dismiss(&late);
	dismiss(&idle);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
}

/*
 * Have a view that ends, and waits for the report of target 1. The source has a
 * tuple that waits for the next view.
 */
static void end_view(struct child *stopped)
{
	struct dfi_source *lost;

	spawn(stopped, "target:1", "0");
	child_expect(stopped, "target 1 held 0");
	source = open_source(0);
	lost = open_source(2);
	await_joined(source, 2);
	await_joined(lost, 2);
	child_signal(stopped, SIGSTOP);
	dfi_source_abort(lost);
	cr_assert_eq(dfi_source_close(lost), -ECANCELED);
	push_until_held();
}

/* J1: a mark says where the source is in a view of which the target has a part.
 */
Test(open_order_proc, a_target_that_comes_while_a_view_ends_gets_all)
{
	struct child stopped, late;

	start(0);
	end_view(&stopped);
	spawn(&late, "target:2", "1");
	await_event(source, DFI_JOINED, 2);
	child_signal(&late, SIGSTOP);
	child_signal(&stopped, SIGCONT);
	flush();
	/* The counter has passed that tuple's position. */
	child_signal(&late, SIGCONT);
	child_expect(&late, "target 2 held 1");
	dismiss(&late);
	dismiss(&stopped);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(first), 0, "%s", dfi_errmsg());
}

static void *continue_later(void *arg)
{
	usleep(100000);
	child_signal(arg, SIGCONT);
	return NULL;
}

/* Its close waits for the next view. */
Test(open_order_proc, a_nonblocking_source_closes_while_a_view_ends)
{
	struct child stopped;
	pthread_t thread;
	uint32_t i;

	start(0);
	end_view(&stopped);
	cr_assert_eq(
	    pthread_create(&thread, NULL, continue_later, &stopped), 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	pthread_join(thread, NULL);
	for (i = 0; i < next; i++)
		expect(first, i);
	dismiss(&stopped);
	cr_assert_eq(dfi_target_close(first), 0, "%s", dfi_errmsg());
}

/* J1: what is below its first position has come, and wakes nobody. */
Test(open_order_proc, a_target_sleeps_behind_what_it_has_passed_over)
{
	struct dfi_target *late;
	struct child idle;
	uint64_t position;
	const void *tuple;

	start(0);
	spawn(&idle, "source:1", "0");
	child_expect(&idle, "source 1 held 0");
	source = open_source(0);
	await_event(source, DFI_JOINED, 0);
	child_signal(&idle, SIGSTOP);
	late = open_target(1);
	await_event(source, DFI_JOINED, 1);
	push();
	push();
	flush();
	expect(first, 0);
	expect(first, 1);
	cr_assert_eq(dfi_target_consume(late, &tuple), -EAGAIN);
	cr_assert_eq(dfi_target_position(late, &position), -EAGAIN);
	/* It says that it is behind both. */
	child_signal(&idle, SIGCONT);
	do
		cr_assert_eq(dfi_target_consume(late, &tuple), -EAGAIN);
	while (dfi_target_position(late, &position) == -EAGAIN);
	push();
	flush();
	await_fd(dfi_target_fd(late));
	expect(late, 2);
	expect(first, 2);
	dismiss(&idle);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(late), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(first), 0, "%s", dfi_errmsg());
}

/* ---- Who holds up the others -------------------------------------------- */

/* Consume all that is there, of whichever source: whether there was any. */
static bool drain(struct dfi_target *t)
{
	const void *at;
	bool any = false;
	int ret;

	while ((ret = dfi_target_consume(t, &at)) == 1)
		any = true;
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
	return any;
}

/*
 * Stop the source that pushes in a child while it has a number: what comes
 * behind that is not delivered. Such a tuple is sent.
 */
static void stop_with_number(struct child *child)
{
	const struct worker_tuple *tuple;
	const void *at = NULL;
	uint32_t i, n;
	int ret;

	for (i = 0; i < TRIES; i++) {
		/* Until it is at work, as its ring is empty. */
		n = 0;
		do {
			ret = dfi_target_consume(first, &at);
			n += ret == 1;
		} while (ret == 1 || n < RING);
		child_signal(child, SIGSTOP);
		(void)drain(first);
		push();
		flush();
		if (dfi_target_consume(first, &at) == -EAGAIN)
			return;
		tuple = at;
		cr_assert_eq(tuple->source, 0);
		cr_assert_eq(tuple->number, next);
		child_signal(child, SIGCONT);
	}
	/* On one processor it waits whenever the others run. */
	cr_skip_test("it never had a number");
}

/* Consume to this process's last tuple. */
static void await_last(void)
{
	const struct worker_tuple *tuple;
	const void *at;
	int ret;

	do {
		while ((ret = dfi_target_consume(first, &at)) == -EAGAIN)
			await_fd(dfi_target_fd(first));
		cr_assert_eq(ret, 1, "%s", dfi_errmsg());
		tuple = at;
	} while (tuple->source != 0 || tuple->number != next);
}

/* Behind one that was stopped then, for evict_ms at most. */
static void await_last_since(int64_t stopped, const char *who)
{
	int64_t ms;

	await_last();
	ms = now_ms() - stopped;
	if (!measures)
		return;
	printf(
	    "%s: a tuple of another source came after %ld ms\n", who, (long)ms);
	cr_assert_leq(ms, evict_ms + evict_ms / 4 + SLACK_MS);
}

/* In which view the next tuple comes. The ring may be full of others. */
static uint64_t next_view(void)
{
	uint64_t position;

	(void)drain(first);
	push();
	flush();
	await_last();
	cr_assert_eq(dfi_target_position(first, &position), 0);
	return position >> 48;
}

static void start_pushing(struct child *child)
{
	start(evict_ms);
	child_spawn(child, DFI_WORKER, "-r", address, "-f", FLOW, "-n",
	    "1000000000", "source:1", NULL);
	child_expect(child, "source 1 open");
	source = open_source(0);
	await_event(source, DFI_JOINED, 0);
}

static void finish(void)
{
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(first), 0, "%s", dfi_errmsg());
}

/* O1: a segment is missing while later ones are there. */
Test(open_order_proc, a_source_that_is_stopped_with_a_number_is_evicted)
{
	struct child child;
	uint64_t position;
	int64_t stopped;

	start_pushing(&child);
	stop_with_number(&child);
	stopped = now_ms();
	cr_assert_eq(dfi_target_position(first, &position), 0);
	await_last_since(stopped, "a source stopped with a number");
	cr_assert_gt(next_view(), position >> 48);
	child_signal(&child, SIGCONT);
	child_expect(&child, "source 1 ended -116");
	child_wait(&child);
	finish();
}

/* O2 has a bound. */
Test(open_order_proc, a_stopped_source_that_owes_its_flush_is_evicted)
{
	struct dfi_source *lost;
	struct child idle;
	int64_t stopped;

	start(evict_ms);
	spawn(&idle, "source:1", "0");
	child_expect(&idle, "source 1 held 0");
	source = open_source(0);
	lost = open_source(2);
	await_joined(source, 1);
	await_joined(lost, 1);
	child_signal(&idle, SIGSTOP);
	stopped = now_ms();
	dfi_source_abort(lost);
	cr_assert_eq(dfi_source_close(lost), -ECANCELED);
	push_until_held();
	flush();
	await_last_since(stopped, "a source stopped without a number");
	child_signal(&idle, SIGCONT);
	child_order(&idle, 'c');
	child_expect(&idle, "source 1 ended -116");
	child_wait(&idle);
	finish();
}

/* O3 has one, too. */
Test(open_order_proc, a_stopped_target_that_owes_its_report_is_evicted)
{
	struct child stopped;

	start(evict_ms);
	end_view(&stopped);
	flush();
	await_last();
	child_signal(&stopped, SIGCONT);
	child_order(&stopped, 'c');
	child_expect(&stopped, "target 1 ended -116");
	child_wait(&stopped);
	finish();
}

/*
 * Its ring gets full, or, where its processor gives the numbers, none comes.
 */
Test(open_order_proc, a_stopped_holder_of_the_counter_is_evicted)
{
	time_t until = time(NULL) + LONG_MS / 1000;
	struct dfi_event event = { .type = 0 };
	struct worker_tuple tuple;
	struct child holder;
	int ret;

	create(evict_ms, DFI_TRANSPORT_DEFAULT);
	spawn(&holder, "target:1", "1");
	source = open_source(0);
	await_event(source, DFI_JOINED, 1);
	push();
	flush();
	child_expect(&holder, "target 1 held 1");
	first = open_target(0);
	await_event(source, DFI_JOINED, 0);
	child_signal(&holder, SIGSTOP);
	while (event.type != DFI_EVICTED) {
		cr_assert_lt(time(NULL), until);
		worker_make_tuple(0, next, &tuple);
		ret = dfi_source_push(source, &tuple);
		cr_assert(ret == 0 || ret == -EAGAIN, "%s", dfi_errmsg());
		next += !ret;
		(void)drain(first);
		(void)dfi_source_event(source, &event);
		usleep(100);
	}
	cr_assert_eq(event.seat, 1);
	flush();
	(void)next_view();
	child_signal(&holder, SIGCONT);
	child_order(&holder, 'c');
	child_expect(&holder, "target 1 ended -116");
	child_wait(&holder);
	finish();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open combiner flows whose sources are killed or stopped. The other processes
 * run worker.c: their tuples are all in the first window.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "in_time.h"
#include "spawn.h"
#include "worker.h"

#define FLOW "flow"
#define LONG_MS 60000u
#define SEATS 4
#define TARGETS 2
#define SEGMENT 20 /* tuples */
#define HELD 107   /* tuples of a child that waits for orders */
#define ALL 200    /* tuples of a child that goes on */
#define OWN 50     /* tuples of this process in a window */

static struct child server;
static char address[sizeof(server.line)];
static struct dfi *dfi;

static void setup(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	in_time_start();
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

TestSuite(open_combine, .init = setup, .fini = teardown, .timeout = 300);

struct result {
	uint64_t key, sum, count;
};

/* This process has source 0 and all targets. */
static struct dfi_target *targets[TARGETS];
static struct dfi_source *source;

/* The sum of numbers is what would show a tuple that is damaged or twice. */
static void start(uint32_t on_loss, uint32_t goal)
{
	static const struct dfi_aggregate aggregates[] = {
		{ .function = DFI_SUM, .field = "number", .name = "sum" },
		{ .function = DFI_COUNT, .name = "count" },
	};
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_COMBINE,
		.schema = &worker_schema,
		.n_sources = SEATS,
		.n_targets = TARGETS,
		.goal = goal,
		.combine = {
			.aggregates = aggregates,
			.n_aggregates = 2,
			.group_by = "key",
			.window_tuples = DFI_WINDOW_MARKED,
		},
		.open = { .membership = DFI_MEMBERS_OPEN, .on_loss = on_loss },
	};
	struct dfi_source_attr sends = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr takes = DFI_TARGET_ATTR_INIT;
	uint32_t t;

	if (goal == DFI_BANDWIDTH) {
		attr.segment_size = SEGMENT *
		    (uint32_t)sizeof(struct worker_tuple);
		attr.segment_count = 16;
	}
	sends.open_timeout_ms = sends.stall_timeout_ms = LONG_MS;
	takes.flags = DFI_NONBLOCK;
	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
	for (t = 0; t < TARGETS; t++)
		cr_assert_eq(dfi_target_open(dfi, FLOW, t, &takes, &targets[t]),
		    0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_open(dfi, FLOW, 0, &sends, &source), 0, "%s",
	    dfi_errmsg());
}

static void spawn_held(struct child *child, const char *lease)
{
	if (lease)
		child_spawn(child, DFI_WORKER, "-r", address, "-f", FLOW, "-n",
		    "200", "-p", "107", "-l", lease, "source:1", NULL);
	else
		child_spawn(child, DFI_WORKER, "-r", address, "-f", FLOW, "-n",
		    "200", "-p", "107", "source:1", NULL);
	child_expect(child, "source 1 held 107");
}

static void push_own(void)
{
	struct worker_tuple tuple;
	uint32_t i;

	for (i = 0; i < OWN; i++) {
		worker_make_tuple(0, i, &tuple);
		cr_assert_eq(
		    dfi_source_push(source, &tuple), 0, "%s", dfi_errmsg());
	}
}

static void push_window(uint64_t end)
{
	push_own();
	cr_assert_eq(dfi_source_mark(source, end), 0, "%s", dfi_errmsg());
}

static uint64_t sum_to(uint64_t n)
{
	return n * (n + 1) / 2;
}

/* What has come of a window, of all targets. */
struct window {
	uint64_t sum, count;
	uint32_t flags;
};

/* Add what a target gives now; returns what its call did at last. */
static int take(
    struct dfi_target *target, uint64_t window, struct window *taken)
{
	const struct result *result;
	uint64_t number;
	uint32_t flags;
	const void *at;
	int ret;

	while ((ret = dfi_target_consume(target, &at)) > 0) {
		result = at;
		cr_assert_eq(dfi_target_window(target, &number), 0);
		cr_assert_eq(dfi_target_window_flags(target, &flags), 0);
		cr_assert_eq(number, window);
		taken->sum += result->sum;
		taken->count += result->count;
		taken->flags |= flags;
	}
	return ret;
}

/* Wait for a window that has this process's tuples and n of the child's. */
static void expect_window(uint64_t window, uint64_t n, uint32_t flags)
{
	struct window taken = { .flags = 0 };
	uint32_t t;

	while (taken.count < OWN + n)
		for (t = 0; t < TARGETS; t++)
			cr_assert_eq(take(targets[t], window, &taken), -EAGAIN,
			    "%s", dfi_errmsg());
	cr_assert_eq(taken.count, OWN + n);
	cr_assert_eq(taken.sum, sum_to(OWN) + sum_to(n));
	cr_assert_eq(taken.flags, flags);
}

static void finish(void)
{
	struct window taken = { .flags = 0 };
	uint32_t t;
	int ret;

	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_flow_finish(dfi, FLOW), 0, "%s", dfi_errmsg());
	for (t = 0; t < TARGETS; t++) {
		while ((ret = take(targets[t], 0, &taken)) == -EAGAIN)
			usleep(1000);
		cr_assert_eq(ret, 0, "%s", dfi_errmsg());
		cr_assert_eq(dfi_target_close(targets[t]), 0);
	}
	cr_assert_eq(taken.count, 0);
}

static void kill_one(uint32_t goal)
{
	struct child child;

	start(DFI_ON_LOSS_DROP, goal);
	spawn_held(&child, NULL);
	push_window(1);
	child_signal(&child, SIGKILL);
	expect_window(0, HELD, DFI_WINDOW_LOST);
	push_window(2);
	expect_window(1, 0, 0);
	cr_assert_eq(child_wait(&child), 128 + SIGKILL);
	/* Another comes into its seat, too late for the window that it has. */
	spawn_held(&child, NULL);
	push_window(3);
	child_order(&child, 'c');
	expect_window(2, ALL, DFI_WINDOW_LATE);
	cr_assert_eq(child_wait(&child), 0);
	push_window(4);
	expect_window(3, 0, 0);
	finish();
}

Test(open_combine, a_killed_source_flags_its_window)
{
	kill_one(DFI_BANDWIDTH);
}

Test(open_combine, a_killed_source_flags_its_window_for_latency)
{
	kill_one(DFI_LATENCY);
}

Test(open_combine, a_killed_source_fails_targets_if_the_flow_says_so)
{
	struct window taken = { .flags = 0 };
	struct child child;
	uint32_t t;
	int ret;

	start(DFI_ON_LOSS_FAIL, DFI_BANDWIDTH);
	spawn_held(&child, NULL);
	push_window(1);
	child_signal(&child, SIGKILL);
	for (t = 0; t < TARGETS; t++) {
		while ((ret = take(targets[t], 0, &taken)) == -EAGAIN)
			usleep(1000);
		cr_assert_eq(ret, -ECONNRESET, "%s", dfi_errmsg());
		cr_assert_not_null(
		    strstr(dfi_errmsg(), "source 1"), "%s", dfi_errmsg());
		cr_assert_eq(dfi_target_close(targets[t]), -ECONNRESET);
	}
	cr_assert_eq(taken.count, 0);
	cr_assert_eq(child_wait(&child), 128 + SIGKILL);
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
}

/* It holds up its window, as in a closed flow, and nothing is lost. */
Test(open_combine, a_stopped_source_holds_up_its_window)
{
	struct window taken = { .flags = 0 };
	struct child child;
	uint32_t i;

	start(DFI_ON_LOSS_DROP, DFI_BANDWIDTH);
	spawn_held(&child, NULL);
	child_signal(&child, SIGSTOP);
	push_window(1);
	for (i = 0; i < 1000; i++)
		cr_assert_eq(take(targets[i % TARGETS], 0, &taken), -EAGAIN);
	cr_assert_eq(taken.count, 0);
	child_signal(&child, SIGCONT);
	child_order(&child, 'c');
	expect_window(0, ALL, 0);
	cr_assert_eq(child_wait(&child), 0);
	finish();
}

/* With a lease it holds it up for that long, and is lost then. */
Test(open_combine, a_source_that_is_stopped_beyond_its_lease_is_lost)
{
	struct child child;

	start(DFI_ON_LOSS_DROP, DFI_BANDWIDTH);
	spawn_held(&child, "500");
	child_signal(&child, SIGSTOP);
	push_window(1);
	expect_window(0, HELD, DFI_WINDOW_LOST);
	push_window(2);
	expect_window(1, 0, 0);
	child_signal(&child, SIGCONT);
	child_order(&child, 'c');
	child_expect(&child, "source 1 ended -");
	cr_assert_eq(child_wait(&child), 0);
	push_window(3);
	expect_window(2, 0, 0);
	finish();
}

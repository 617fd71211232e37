/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of a combiner flow with windows that are killed in the middle of one,
 * while all wait for them, or while they are ahead of the others. worker.c runs
 * the killed ones.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "spawn.h"
#include "worker.h"

#define FLOW "flow"
#define LONG_MS 60000u

enum {
	WINDOW = 20,  /* tuples */
	COMPLETE = 5, /* windows that the killed source ends */
	BEHIND = 7,   /* tuples that it pushes then */
};

struct result {
	uint64_t count;
};

static const struct dfi_aggregate count = { .function = DFI_COUNT };

static struct dfi_registry *registry;
static struct dfi *dfi;

static void setup(void)
{
	struct dfi_flow_attr flow = {
		.size = sizeof(flow),
		.kind = DFI_COMBINE,
		.schema = &worker_schema,
		.n_sources = 2,
		.n_targets = 1,
		.segment_size = WINDOW * (uint32_t)sizeof(struct worker_tuple),
		.segment_count = 8,
		.combine.aggregates = &count,
		.combine.n_aggregates = 1,
		.combine.window_tuples = WINDOW,
	};
	struct dfi_attr attr = DFI_ATTR_INIT;

	cr_assert_eq(
	    dfi_registry_start(NULL, &registry), 0, "%s", dfi_errmsg());
	attr.registry = dfi_registry_address(registry);
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_flow_create(dfi, FLOW, &flow), 0, "%s", dfi_errmsg());
}

static void teardown(void)
{
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(windows, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_target *open_target(void)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.open_timeout_ms = attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(dfi, FLOW, 0, &attr, &target), 0, "%s",
	    dfi_errmsg());
	return target;
}

static struct dfi_source *open_source(void)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;

	attr.open_timeout_ms = attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_source_open(dfi, FLOW, 1, &attr, &source), 0, "%s",
	    dfi_errmsg());
	return source;
}

static void spawn_source(struct child *child)
{
	char held[64], hold[32];

	snprintf(hold, sizeof(hold), "%d", COMPLETE * WINDOW + BEHIND);
	snprintf(held, sizeof(held), "source 0 held %s", hold);
	child_spawn(child, DFI_WORKER, "-r", dfi_registry_address(registry),
	    "-f", FLOW, "-p", hold, "source:0", NULL);
	child_expect(child, held);
}

static void kill_source(struct child *child)
{
	child_signal(child, SIGKILL);
	cr_assert_eq(child_wait(child), 128 + SIGKILL);
}

static void push_window(struct dfi_source *source)
{
	struct worker_tuple tuple;
	uint32_t i;

	for (i = 0; i < WINDOW; i++) {
		worker_make_tuple(1, i, &tuple);
		cr_assert_eq(
		    dfi_source_push(source, &tuple), 0, "%s", dfi_errmsg());
	}
}

static void expect_window(struct dfi_target *target, uint64_t expected)
{
	const struct result *result;
	const void *tuple;
	uint64_t window;

	cr_assert_eq(dfi_target_consume(target, &tuple), 1, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_window(target, &window), 0);
	result = tuple;
	cr_assert_eq(window, expected);
	cr_assert_eq(result->count, 2 * WINDOW);
}

/* No result of the current window. */
static void expect_death(struct dfi_target *target)
{
	const void *tuple;

	cr_assert_eq(dfi_target_consume(target, &tuple), -ECONNRESET);
	cr_assert_not_null(
	    strstr(dfi_errmsg(), "source 0"), "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_consume(target, &tuple), -ECONNRESET);
	cr_assert_eq(dfi_target_close(target), -ECONNRESET);
}

Test(windows, of_a_source_that_dies_end_with_those_that_it_has_ended)
{
	struct dfi_target *target = open_target();
	struct dfi_source *source;
	struct child child;
	uint64_t w;

	spawn_source(&child);
	source = open_source();
	for (w = 0; w < COMPLETE; w++) {
		push_window(source);
		expect_window(target, w);
	}
	push_window(source);
	kill_source(&child);
	expect_death(target);
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
}

/* It is held back when it dies: that is for later. */
Test(windows, of_a_source_that_dies_ahead_of_others_still_come)
{
	struct dfi_target *target = open_target();
	struct dfi_source *source;
	struct child child;
	uint64_t w;

	spawn_source(&child);
	source = open_source();
	push_window(source);
	expect_window(target, 0);
	kill_source(&child);
	for (w = 1; w < COMPLETE; w++) {
		push_window(source);
		expect_window(target, w);
	}
	push_window(source);
	expect_death(target);
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
}

Test(windows, of_a_source_that_dies_before_it_has_ended_any_don_t_come)
{
	struct dfi_target *target = open_target();
	struct dfi_source *source;
	struct child child;

	child_spawn(&child, DFI_WORKER, "-r", dfi_registry_address(registry),
	    "-f", FLOW, "-p", "3", "source:0", NULL);
	child_expect(&child, "source 0 held 3");
	source = open_source();
	push_window(source);
	push_window(source);
	kill_source(&child);
	expect_death(target);
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
}

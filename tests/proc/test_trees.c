/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of combiners across processes: a killed combiner, a killed source, and
 * a whole flow with a process for each combiner. The others are worker.c.
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
	N_SOURCES = 4,
	FAN_IN = 2,
	N_COMBINERS = 2,
	WINDOW = 50, /* tuples */
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
		.n_sources = N_SOURCES,
		.n_targets = 1,
		.segment_size = WINDOW * (uint32_t)sizeof(struct worker_tuple),
		.segment_count = 8,
		.combine.aggregates = &count,
		.combine.n_aggregates = 1,
		.combine.window_tuples = WINDOW,
		.combine.fan_in = FAN_IN,
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

TestSuite(trees, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_target *open_target(void)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.open_timeout_ms = attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(dfi, FLOW, 0, &attr, &target), 0, "%s",
	    dfi_errmsg());
	return target;
}

static struct dfi_source *open_source(uint32_t index)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;

	attr.open_timeout_ms = attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_source_open(dfi, FLOW, index, &attr, &source), 0, "%s",
	    dfi_errmsg());
	return source;
}

static void spawn_combiners(struct child combiners[N_COMBINERS])
{
	char name[16], open[32];
	uint32_t c;

	for (c = 0; c < N_COMBINERS; c++) {
		snprintf(name, sizeof(name), "combiner:%u", c);
		snprintf(open, sizeof(open), "combiner %u open", c);
		child_spawn(&combiners[c], DFI_WORKER, "-r",
		    dfi_registry_address(registry), "-f", FLOW, name, NULL);
		child_expect(&combiners[c], open);
	}
}

static void push_windows(struct dfi_source *source, uint32_t index, uint32_t n)
{
	struct worker_tuple tuple;
	uint32_t i;

	for (i = 0; i < n * WINDOW; i++) {
		worker_make_tuple(index, i, &tuple);
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
	cr_assert_eq(result->count, N_SOURCES * WINDOW);
}

static void expect_error(
    struct dfi_target *target, int err, const char *culprit)
{
	const void *tuple;

	cr_assert_eq(dfi_target_consume(target, &tuple), err);
	cr_assert_not_null(strstr(dfi_errmsg(), culprit), "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), err);
}

Test(trees, of_several_processes_give_the_results_of_all_sources)
{
	struct child combiners[N_COMBINERS], sources;
	struct dfi_target *target = open_target();
	const void *tuple;
	uint64_t w;

	spawn_combiners(combiners);
	child_spawn(&sources, DFI_WORKER, "-r", dfi_registry_address(registry),
	    "-f", FLOW, "-n", "500", "source:0", "source:1", "source:2",
	    "source:3", NULL);
	for (w = 0; w < 500 / WINDOW; w++)
		expect_window(target, w);
	cr_assert_eq(dfi_target_consume(target, &tuple), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(child_wait(&sources), 0);
	for (w = 0; w < N_COMBINERS; w++) {
		/* A record for each window. */
		child_expect(&combiners[w],
		    w ? "combiner 1 ended 0 10 " : "combiner 0 ended 0 10 ");
		cr_assert_eq(child_wait(&combiners[w]), 0);
	}
}

Test(trees, name_a_combiner_that_is_killed)
{
	struct child combiners[N_COMBINERS];
	struct dfi_target *target = open_target();
	struct dfi_source *sources[N_SOURCES];
	uint32_t s;

	spawn_combiners(combiners);
	for (s = 0; s < N_SOURCES; s++)
		sources[s] = open_source(s);
	for (s = 0; s < N_SOURCES; s++)
		push_windows(sources[s], s, 1);
	expect_window(target, 0);
	child_signal(&combiners[1], SIGKILL);
	cr_assert_eq(child_wait(&combiners[1]), 128 + SIGKILL);
	expect_error(target, -ECONNRESET, "combiner 1 (node");
	for (s = 2; s < N_SOURCES; s++) {
		cr_assert_eq(dfi_source_close(sources[s]), -ECONNRESET);
		cr_assert_not_null(strstr(dfi_errmsg(), "combiner 1 (node"),
		    "%s", dfi_errmsg());
	}
	/* The other one has lost its target. */
	child_expect(&combiners[0], "combiner 0 ended -104 1 ");
	cr_assert_not_null(
	    strstr(combiners[0].line, "target 0"), "%s", combiners[0].line);
	cr_assert_eq(child_wait(&combiners[0]), 0);
	for (s = 0; s < 2; s++)
		cr_assert_eq(dfi_source_close(sources[s]), -ECONNRESET);
}

Test(trees, name_a_source_that_is_killed)
{
	struct child combiners[N_COMBINERS], child;
	struct dfi_target *target = open_target();
	struct dfi_source *sources[N_SOURCES];
	uint32_t s;

	spawn_combiners(combiners);
	child_spawn(&child, DFI_WORKER, "-r", dfi_registry_address(registry),
	    "-f", FLOW, "-p", "120", "source:3", NULL);
	child_expect(&child, "source 3 held 120");
	for (s = 0; s < 3; s++) {
		sources[s] = open_source(s);
		push_windows(sources[s], s, 3);
	}
	/* Two windows are complete. */
	expect_window(target, 0);
	expect_window(target, 1);
	child_signal(&child, SIGKILL);
	cr_assert_eq(child_wait(&child), 128 + SIGKILL);
	expect_error(target, -ECONNRESET,
	    "source 3 died or closed before the end of the flow, says "
	    "combiner 1 (node");
	child_expect(&combiners[1], "combiner 1 ended -104 2 ");
	cr_assert_eq(child_wait(&combiners[1]), 0);
	cr_assert_eq(child_wait(&combiners[0]), 0);
	for (s = 0; s < 3; s++)
		cr_assert_eq(dfi_source_close(sources[s]), -ECONNRESET);
}

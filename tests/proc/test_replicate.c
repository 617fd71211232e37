/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicate flows between real processes: each target gets all tuples, and what
 * the living see when one is killed. The other processes run worker.c; their
 * endpoints check content and order.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "spawn.h"
#include "worker.h"

#define FLOW "flow"
#define LONG_MS 60000u

static struct dfi_registry *registry;
static struct dfi *dfi;
static const char *address;

static void setup(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	cr_assert_eq(
	    dfi_registry_start(NULL, &registry), 0, "%s", dfi_errmsg());
	address = dfi_registry_address(registry);
	attr.registry = address;
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
}

static void teardown(void)
{
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(replicate, .init = setup, .fini = teardown, .timeout = 300);

static void create_flow(
    uint32_t n_sources, uint32_t n_targets, uint32_t segment_count)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_REPLICATE,
		.schema = &worker_schema,
		.n_sources = n_sources,
		.n_targets = n_targets,
		.segment_size = 20 * (uint32_t)sizeof(struct worker_tuple),
		.segment_count = segment_count,
	};

	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
}

/* "source 0 ended 0 100 ..." */
static uint32_t expect_end(
    struct child *child, const char *role, uint32_t index, int expected)
{
	char start[64];
	uint32_t count;
	int ret;

	snprintf(start, sizeof(start), "%s %u ended ", role, index);
	child_expect(child, start);
	cr_assert_eq(
	    sscanf(child->line + strlen(start), "%d %" SCNu32, &ret, &count),
	    2);
	cr_assert_eq(ret, expected, "%s", child->line);
	return count;
}

static void spawn(struct child *child, const char *role, uint32_t index,
    const char *option, const char *value)
{
	char name[32];

	snprintf(name, sizeof(name), "%s:%u", role, index);
	child_spawn(child, DFI_WORKER, "-r", address, "-f", FLOW, option, value,
	    name, NULL);
}

static void exchange(uint32_t n_sources, uint32_t n_targets, uint32_t segments)
{
	struct child sources[4], targets[4];
	uint32_t i;

	create_flow(n_sources, n_targets, segments);
	for (i = 0; i < n_sources; i++)
		spawn(&sources[i], "source", i, "-n", "20000");
	for (i = 0; i < n_targets; i++)
		spawn(&targets[i], "target", i, "-n", "0");
	for (i = 0; i < n_sources; i++)
		cr_assert_eq(expect_end(&sources[i], "source", i, 0), 20000);
	for (i = 0; i < n_targets; i++)
		cr_assert_eq(
		    expect_end(&targets[i], "target", i, 0), 20000 * n_sources);
	for (i = 0; i < n_sources; i++)
		cr_assert_eq(child_wait(&sources[i]), 0);
	for (i = 0; i < n_targets; i++)
		cr_assert_eq(child_wait(&targets[i]), 0);
	cr_assert_eq(dfi_flow_remove(dfi, FLOW), 0);
}

Test(replicate, each_process_gets_all_tuples_of_each)
{
	exchange(1, 2, 4);
	exchange(2, 3, 2);
	exchange(3, 1, 1);
}

/* Consume until a result other than a tuple, and return it. */
static int consume_all(struct dfi_target *target, uint32_t *count)
{
	struct worker_tuple expected;
	const void *at;
	int ret;

	while ((ret = dfi_target_consume(target, &at)) > 0) {
		worker_make_tuple(0, *count, &expected);
		cr_assert_eq(memcmp(at, &expected, sizeof(expected)), 0,
		    "tuple %u is damaged", *count);
		++*count;
	}
	return ret;
}

static void expect_words(const char *role, const struct child *child)
{
	char pid[32];

	snprintf(pid, sizeof(pid), "pid %d", (int)child->pid);
	cr_assert_not_null(strstr(dfi_errmsg(), role), "%s", dfi_errmsg());
	cr_assert_not_null(strstr(dfi_errmsg(), pid), "%s", dfi_errmsg());
}

Test(replicate, targets_get_what_a_killed_source_had_sent_and_then_its_name)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *targets[3];
	struct child source;
	uint32_t i, count;

	create_flow(1, 3, 32);
	attr.open_timeout_ms = attr.stall_timeout_ms = LONG_MS;
	for (i = 0; i < 3; i++)
		cr_assert_eq(
		    dfi_target_open(dfi, FLOW, i, &attr, &targets[i]), 0);
	/* 107 are flushed before it holds; no other leaves its process. */
	spawn(&source, "source", 0, "-p", "107");
	child_expect(&source, "source 0 held 107");
	child_signal(&source, SIGKILL);
	for (i = 0; i < 3; i++) {
		count = 0;
		cr_assert_eq(consume_all(targets[i], &count), -ECONNRESET);
		cr_assert_eq(count, 107, "target %u", i);
		expect_words("source 0", &source);
		cr_assert_eq(dfi_target_close(targets[i]), -ECONNRESET);
	}
	cr_assert_eq(child_wait(&source), 128 + SIGKILL);
}

/* The source sleeps on the ring of a target that lives, but reads nothing. */
Test(replicate, waiting_source_learns_which_target_was_killed)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_source *source = NULL;
	struct worker_tuple tuple;
	struct dfi_target *idle;
	struct child target;
	uint32_t i;
	int ret = 0;

	create_flow(1, 2, 2);
	cr_assert_eq(dfi_target_open(dfi, FLOW, 0, &attr, &idle), 0);
	spawn(&target, "target", 1, "-n", "0");
	cr_assert_eq(dfi_source_open(dfi, FLOW, 0, NULL, &source), 0, "%s",
	    dfi_errmsg());
	for (i = 0; i < 2 * 20; i++) {
		worker_make_tuple(0, i, &tuple);
		cr_assert_eq(dfi_source_push(source, &tuple), 0);
	}
	child_signal(&target, SIGKILL);
	for (; !ret; i++) {
		worker_make_tuple(0, i, &tuple);
		ret = dfi_source_push(source, &tuple);
	}
	cr_assert_eq(ret, -ECONNRESET, "%s", dfi_errmsg());
	expect_words("target 1", &target);
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
	cr_assert_eq(dfi_target_close(idle), 0);
	cr_assert_eq(child_wait(&target), 128 + SIGKILL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deaths that no registry reports: it was killed for good, or hangs. The other
 * processes run worker.c.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "descriptors.h"
#include "in_time.h"
#include "spawn.h"
#include "worker.h"

#define FLOW "flow"
#define LONG_MS 60000u
/* Two seconds, and two for a machine that has much to do. */
#define DEATH_MS 4000

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

TestSuite(deaths, .init = setup, .timeout = 300);

static void create_flow(uint32_t n_sources, uint32_t n_targets)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &worker_schema,
		.n_sources = n_sources,
		.n_targets = n_targets,
		.segment_size = 20 * (uint32_t)sizeof(struct worker_tuple),
		.segment_count = 8,
	};

	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
}

static struct dfi_target *open_target(uint32_t index)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.open_timeout_ms = attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(dfi, FLOW, index, &attr, &target), 0, "%s",
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

static void kill_server(void)
{
	child_signal(&server, SIGKILL);
	cr_assert_eq(child_wait(&server), 128 + SIGKILL);
}

static int consume_all(struct dfi_target *target, uint32_t *count)
{
	const void *tuple;
	int ret;

	while ((ret = dfi_target_consume(target, &tuple)) > 0)
		++*count;
	return ret;
}

/* The error's text says who died, and of which flow. */
static void expect_names(const char *endpoint, const struct child *child)
{
	const char *words[] = { "flow '" FLOW "'", endpoint, "node ", "host ",
		NULL };
	char pid[32];
	size_t i;

	snprintf(pid, sizeof(pid), "pid %d", (int)child->pid);
	words[4] = pid;
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		cr_assert_not_null(strstr(dfi_errmsg(), words[i]),
		    "'%s' is not in '%s'", words[i], dfi_errmsg());
}

static void await_pidfds(uint32_t n)
{
	int64_t wait_limit = now_ms() + LONG_MS;

	while (count_descriptors("pidfd") != n) {
		cr_assert_lt(now_ms(), wait_limit, "%u, not %u, pidfds",
		    count_descriptors("pidfd"), n);
		usleep(1000);
	}
}

/* The target waits meanwhile, and must be woken. */
static void expect_death(struct dfi_target *target, struct child *source,
    const char *name, int64_t killed)
{
	uint32_t count = 0;

	cr_assert_eq(consume_all(target, &count), -ECONNRESET);
	cr_assert_lt(ms_since(killed), DEATH_MS);
	cr_assert_eq(count, 107);
	expect_names(name, source);
	cr_assert_eq(dfi_target_close(target), -ECONNRESET);
	cr_assert_eq(child_wait(source), 128 + SIGKILL);
}

Test(deaths, of_a_source_is_noticed_while_there_is_no_registry)
{
	struct dfi_target *target;
	struct child source;
	int64_t killed;

	create_flow(1, 1);
	target = open_target(0);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "107",
	    "source:0", NULL);
	child_expect(&source, "source 0 held 107");
	kill_server();
	killed = now_ms();
	child_signal(&source, SIGKILL);
	expect_death(target, &source, "source 0", killed);
	cr_assert_eq(dfi_close(dfi), 0);
}

/* Neither its combined tuples nor those that it had sent are in a result. */
Test(deaths, of_a_source_that_combines_leave_no_results)
{
	static const struct dfi_aggregate count = { .function = DFI_COUNT };
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_target_attr open = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target;
	struct child source;
	uint32_t n = 0;

	attr.kind = DFI_COMBINE;
	attr.schema = &worker_schema;
	attr.n_sources = attr.n_targets = 1;
	attr.combine.aggregates = &count;
	attr.combine.n_aggregates = 1;
	attr.combine.group_by = "source";
	attr.combine.source_combining = DFI_COMBINING_ALWAYS;
	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
	open.open_timeout_ms = open.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(dfi, FLOW, 0, &open, &target), 0, "%s",
	    dfi_errmsg());
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "107",
	    "source:0", NULL);
	child_expect(&source, "source 0 held 107");
	child_signal(&source, SIGKILL);
	cr_assert_eq(consume_all(target, &n), -ECONNRESET);
	cr_assert_eq(n, 0);
	expect_names("source 0", &source);
	cr_assert_eq(dfi_target_close(target), -ECONNRESET);
	cr_assert_eq(child_wait(&source), 128 + SIGKILL);
	cr_assert_eq(dfi_close(dfi), 0);
	kill_server();
}

/* Before the target knows that the registry is gone. */
Test(deaths, of_a_source_and_the_registry_at_once_are_noticed)
{
	struct dfi_target *target;
	struct child source;
	int64_t killed;

	create_flow(1, 1);
	target = open_target(0);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "107",
	    "source:0", NULL);
	child_expect(&source, "source 0 held 107");
	child_signal(&server, SIGSTOP);
	killed = now_ms();
	child_signal(&source, SIGKILL);
	child_signal(&server, SIGKILL);
	expect_death(target, &source, "source 0", killed);
	cr_assert_eq(child_wait(&server), 128 + SIGKILL);
	cr_assert_eq(dfi_close(dfi), 0);
}

Test(deaths, of_a_source_is_noticed_while_the_registry_hangs)
{
	struct dfi_target *target;
	struct child source;
	int64_t killed;

	create_flow(1, 1);
	target = open_target(0);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "107",
	    "source:0", NULL);
	child_expect(&source, "source 0 held 107");
	child_signal(&server, SIGSTOP);
	killed = now_ms();
	child_signal(&source, SIGKILL);
	expect_death(target, &source, "source 0", killed);
	child_signal(&server, SIGCONT);
	cr_assert_eq(dfi_close(dfi), 0);
	kill_server();
}

/* A blocked source, as here, must wake up. */
Test(deaths, of_a_target_is_noticed_while_there_is_no_registry)
{
	struct worker_tuple tuple;
	struct dfi_source *source;
	struct child target;
	uint32_t count = 0;
	int64_t killed;
	int ret = 0;

	create_flow(1, 1);
	child_spawn(&target, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "1",
	    "target:0", NULL);
	source = open_source(0);
	worker_make_tuple(0, count++, &tuple);
	cr_assert_eq(dfi_source_push(source, &tuple), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	child_expect(&target, "target 0 held 1");
	kill_server();
	killed = now_ms();
	child_signal(&target, SIGKILL);
	while (!ret) {
		worker_make_tuple(0, count++, &tuple);
		ret = dfi_source_push(source, &tuple);
		cr_assert_lt(count, 1000, "pushed on to a dead target");
	}
	cr_assert_eq(ret, -ECONNRESET);
	cr_assert_lt(ms_since(killed), DEATH_MS);
	expect_names("target 0", &target);
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
	cr_assert_eq(child_wait(&target), 128 + SIGKILL);
	cr_assert_eq(dfi_close(dfi), 0);
}

Test(deaths, a_process_that_closed_before_it_ended_has_not_died)
{
	struct dfi_target *target;
	struct child source;
	uint32_t count = 0;

	create_flow(1, 1);
	target = open_target(0);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "10",
	    "-n", "100", "source:0", NULL);
	child_expect(&source, "source 0 held 10");
	await_pidfds(1);
	kill_server();
	child_order(&source, 'c');
	cr_assert_eq(child_wait(&source), 0);
	/* Its end is known here. */
	await_pidfds(0);
	cr_assert_eq(consume_all(target, &count), 0, "%s", dfi_errmsg());
	cr_assert_eq(count, 100);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(dfi_close(dfi), 0);
}

Test(deaths, are_watched_for_by_one_descriptor_for_each_process)
{
	struct dfi_flow_needs estimate;
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &worker_schema,
		.n_sources = 3,
		.n_targets = 2,
	};
	struct dfi_target *targets[2];
	struct child sources[2];
	uint32_t i, count = 0;

	cr_assert_eq(dfi_flow_estimate(dfi, &attr, &estimate), 0);
	cr_assert_eq(estimate.process_descriptors, 3);
	create_flow(3, 2);
	for (i = 0; i < 2; i++)
		targets[i] = open_target(i);
	child_spawn(&sources[0], DFI_WORKER, "-r", address, "-f", FLOW, "-p",
	    "10", "source:0", "source:1", NULL);
	child_spawn(&sources[1], DFI_WORKER, "-r", address, "-f", FLOW, "-p",
	    "10", "source:2", NULL);
	await_pidfds(2);
	for (i = 0; i < 2; i++)
		child_expect(&sources[0], "source");
	child_expect(&sources[1], "source");
	child_signal(&sources[0], SIGKILL);
	cr_assert_eq(child_wait(&sources[0]), 128 + SIGKILL);
	await_pidfds(1);
	for (i = 0; i < 2; i++) {
		cr_assert_eq(consume_all(targets[i], &count), -ECONNRESET);
		cr_assert_eq(dfi_target_close(targets[i]), -ECONNRESET);
	}
	/* For another flow with it. */
	cr_assert_eq(count_descriptors("pidfd"), 1);
	cr_assert_eq(dfi_close(dfi), 0);
	cr_assert_eq(count_descriptors("pidfd"), 0);
	child_signal(&sources[1], SIGKILL);
	child_wait(&sources[1]);
	kill_server();
}

/* And lost, as its target has gone on without it. */
Test(deaths, are_what_a_lease_says_that_is_over)
{
	struct dfi_target *target;
	struct child source;
	uint32_t count = 0;
	int64_t stopped;

	create_flow(1, 1);
	target = open_target(0);
	/* Three times what a busy machine may keep it from renewing it. */
	setenv("DFI_LEASE", "6000", 1);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "107",
	    "source:0", NULL);
	unsetenv("DFI_LEASE");
	child_expect(&source, "source 0 held 107");
	stopped = now_ms();
	child_signal(&source, SIGSTOP);
	cr_assert_eq(consume_all(target, &count), -ECONNRESET);
	cr_assert_geq(now_ms() - stopped, 3900, "before two thirds of it");
	cr_assert_lt(ms_since(stopped), 6000 + DEATH_MS);
	cr_assert_eq(count, 107);
	expect_names("source 0", &source);
	cr_assert_eq(dfi_target_close(target), -ECONNRESET);
	child_signal(&source, SIGCONT);
	child_order(&source, 'c');
	child_expect(&source, "source 0 ended -104");
	cr_assert_eq(child_wait(&source), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	kill_server();
}

/* A flow of another process, which has created it and now waits for a source.
 */
static void spawn_creator(struct child *creator, const char *ends)
{
	child_spawn(creator, DFI_WORKER, "-r", address, "-f", FLOW, "-c", ends,
	    "target:0", NULL);
	child_expect(creator, "target 0 open");
}

static void expect_creator(const struct child *creator, const char *missing)
{
	expect_names("its creator", creator);
	cr_assert_not_null(strstr(dfi_errmsg(), missing), "'%s' is not in '%s'",
	    missing, dfi_errmsg());
}

Test(deaths, of_the_creator_end_the_wait_of_a_target_for_sources)
{
	struct dfi_target *target;
	struct child creator;
	const void *tuple;
	int64_t killed;

	spawn_creator(&creator, "2:2");
	target = open_target(1);
	killed = now_ms();
	child_signal(&creator, SIGKILL);
	cr_assert_eq(dfi_target_consume(target, &tuple), -ECONNRESET);
	cr_assert_lt(ms_since(killed), DEATH_MS);
	expect_creator(&creator, "source 0 and 1 more of 2");
	cr_assert_eq(dfi_target_consume(target, &tuple), -ECONNRESET);
	cr_assert_eq(dfi_target_close(target), -ECONNRESET);
	cr_assert_eq(child_wait(&creator), 128 + SIGKILL);
	cr_assert_eq(dfi_close(dfi), 0);
	kill_server();
}

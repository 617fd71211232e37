/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows between real processes: all tuples arrive; what peers see when one is
 * killed, or leaves silently; nothing is left behind; and the effects of a lost
 * registry. The other processes run worker.c; their endpoints check content and
 * order.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "descriptors.h"
#include "in_time.h"
#include "spawn.h"
#include "worker.h"

#define FLOW "flow"
#define LONG_MS 60000u
/*
 * A peer's death must be known within 2 s, and somewhat later on loaded
 * machines.
 */
#define DEATH_MS 4000

static struct dfi_registry *registry;
static struct dfi *dfi;
static const char *address;

static void join(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	attr.registry = address;
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
}

static void setup(void)
{
	in_time_start();
	cr_assert_eq(
	    dfi_registry_start(NULL, &registry), 0, "%s", dfi_errmsg());
	address = dfi_registry_address(registry);
	join();
}

static void teardown(void)
{
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(processes, .init = setup, .fini = teardown, .timeout = 300);

static void create_flow(
    uint32_t n_sources, uint32_t n_targets, uint32_t segment_count)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &worker_schema,
		.n_sources = n_sources,
		.n_targets = n_targets,
		.segment_size = 20 * (uint32_t)sizeof(struct worker_tuple),
		.segment_count = segment_count,
	};

	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
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

static struct dfi_target *open_target(uint32_t index, uint32_t stall_timeout_ms)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.open_timeout_ms = LONG_MS;
	attr.stall_timeout_ms = stall_timeout_ms;
	cr_assert_eq(dfi_target_open(dfi, FLOW, index, &attr, &target), 0, "%s",
	    dfi_errmsg());
	return target;
}

/* "source 0 ended 0 100 ..." */
static uint32_t expect_end(struct child *child, const char *who, int expected)
{
	char start[64];
	uint32_t count;
	int ret;

	snprintf(start, sizeof(start), "%s ended ", who);
	child_expect(child, start);
	cr_assert_eq(
	    sscanf(child->line + strlen(start), "%d %" SCNu32, &ret, &count),
	    2);
	cr_assert_eq(ret, expected, "%s", child->line);
	return count;
}

/* Consume until a result other than a tuple, and return it. */
static int consume_all(struct dfi_target *target, uint32_t *count)
{
	const struct worker_tuple *tuple;
	struct worker_tuple expected;
	const void *at;
	int ret;

	while ((ret = dfi_target_consume(target, &at)) > 0) {
		tuple = at;
		worker_make_tuple(tuple->source, *count, &expected);
		cr_assert_eq(memcmp(tuple, &expected, sizeof(expected)), 0,
		    "tuple %u is damaged", *count);
		++*count;
	}
	return ret;
}

static void expect_text(const char *word)
{
	cr_assert(strstr(dfi_errmsg(), word) != NULL, "'%s' is not in '%s'",
	    word, dfi_errmsg());
}

static void expect_pid(const struct child *child)
{
	char text[32];

	snprintf(text, sizeof(text), "pid %d", (int)child->pid);
	expect_text(text);
}

Test(processes, exchange_all_tuples_between_two_sources_and_two_targets)
{
	struct child sources[2], targets[2];
	uint32_t count = 0;
	int i;

	create_flow(2, 2, 4);
	for (i = 0; i < 2; i++) {
		child_spawn(&sources[i], DFI_WORKER, "-r", address, "-f", FLOW,
		    "-n", "20000", i ? "source:1" : "source:0", NULL);
		child_spawn(&targets[i], DFI_WORKER, "-r", address, "-f", FLOW,
		    i ? "target:1" : "target:0", NULL);
	}
	for (i = 0; i < 2; i++) {
		cr_assert_eq(
		    expect_end(&sources[i], i ? "source 1" : "source 0", 0),
		    20000);
		count += expect_end(
		    &targets[i], i ? "target 1" : "target 0", 0);
	}
	cr_assert_eq(count, 40000);
	for (i = 0; i < 2; i++) {
		cr_assert_eq(child_wait(&sources[i]), 0);
		cr_assert_eq(child_wait(&targets[i]), 0);
	}
}

/* All of them wait in poll(), for tuples and for room. */
Test(processes, wake_each_other_by_descriptors)
{
	struct child sources[2], targets[2];
	uint32_t count = 0;
	int i;

	create_flow(2, 2, 2);
	for (i = 0; i < 2; i++) {
		child_spawn(&sources[i], DFI_WORKER, "-e", "-r", address, "-f",
		    FLOW, "-n", "20000", i ? "source:1" : "source:0", NULL);
		child_spawn(&targets[i], DFI_WORKER, "-e", "-r", address, "-f",
		    FLOW, i ? "target:1" : "target:0", NULL);
	}
	for (i = 0; i < 2; i++) {
		expect_end(&sources[i], i ? "source 1" : "source 0", 0);
		count += expect_end(
		    &targets[i], i ? "target 1" : "target 0", 0);
	}
	cr_assert_eq(count, 40000);
	for (i = 0; i < 2; i++) {
		cr_assert_eq(child_wait(&sources[i]), 0);
		cr_assert_eq(child_wait(&targets[i]), 0);
	}
}

/* How many of the tuples of source 0 are for a target of four. */
static uint32_t count_for(uint32_t n_tuples, uint32_t target)
{
	struct worker_tuple tuple;
	uint32_t i, n = 0;

	for (i = 0; i < n_tuples; i++) {
		worker_make_tuple(0, i, &tuple);
		n += dfi_hash64_partition(tuple.key, 4) == target;
	}
	return n;
}

/* Its process may be gone long before the others come to the end. */
Test(processes, go_on_when_one_of_four_targets_leaves_after_a_percent)
{
	static const char *const names[] = { "target:0", "target:1", "target:2",
		"target:3" };
	struct child source, targets[4];
	char name[16];
	uint32_t i;

	create_flow(1, 4, 4);
	for (i = 0; i < 4; i++)
		child_spawn(&targets[i], DFI_WORKER, "-x",
		    i == 2 ? "100" : "1000000", "-r", address, "-f", FLOW,
		    names[i], NULL);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-n",
	    "40000", "source:0", NULL);
	cr_assert_eq(expect_end(&targets[2], "target 2", 0), 100);
	cr_assert_eq(child_wait(&targets[2]), 0);
	cr_assert_lt(expect_end(&source, "source 0", 0), 40000);
	for (i = 0; i < 4; i++) {
		if (i == 2)
			continue;
		snprintf(name, sizeof(name), "target %u", i);
		cr_assert_eq(
		    expect_end(&targets[i], name, 0), count_for(40000, i));
		cr_assert_eq(child_wait(&targets[i]), 0);
	}
	cr_assert_eq(child_wait(&source), 0);
}

Test(processes, mix_threads_and_processes_in_one_flow)
{
	struct child a, b;
	uint32_t count;

	create_flow(3, 3, 2);
	child_spawn(&a, DFI_WORKER, "-r", address, "-f", FLOW, "-n", "20000",
	    "target:0", "source:0", "source:1", NULL);
	child_spawn(&b, DFI_WORKER, "-r", address, "-f", FLOW, "-n", "20000",
	    "source:2", "target:1", "target:2", NULL);
	count = expect_end(&a, "target 0", 0);
	/* Either of these may end first. */
	while (child_read(&b)) {
		int ret;
		uint32_t part;

		if (sscanf(b.line, "target %*u ended %d %" SCNu32, &ret,
			&part) == 2) {
			cr_assert_eq(ret, 0, "%s", b.line);
			count += part;
		}
	}
	cr_assert_eq(count, 60000);
	cr_assert_eq(child_wait(&a), 0);
	cr_assert_eq(child_wait(&b), 0);
}

Test(processes, target_gets_what_a_killed_source_had_sent_and_then_its_name)
{
	struct dfi_target *target;
	struct child source;
	uint32_t count = 0;
	int64_t killed;

	create_flow(1, 1, 32);
	target = open_target(0, LONG_MS);
	/* 107 are flushed before it holds; no other leaves its process. */
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "107",
	    "source:0", NULL);
	child_expect(&source, "source 0 held 107");
	killed = now_ms();
	child_signal(&source, SIGKILL);
	cr_assert_eq(consume_all(target, &count), -ECONNRESET);
	cr_assert_lt(ms_since(killed), DEATH_MS);
	cr_assert_eq(count, 107);
	expect_text("flow 'flow'");
	expect_text("source 0");
	expect_pid(&source);
	/* The error is sticky, and close returns it as well. */
	cr_assert_eq(consume_all(target, &count), -ECONNRESET);
	cr_assert_eq(dfi_target_close(target), -ECONNRESET);
	cr_assert_eq(child_wait(&source), 128 + SIGKILL);
}

/* Kill a source that has forked. */
static void kill_parent(const char *fork_option)
{
	struct dfi_target *target;
	struct child source;
	uint32_t count = 0;
	int64_t killed;

	create_flow(1, 1, 32);
	target = open_target(0, LONG_MS);
	child_spawn(&source, DFI_WORKER, fork_option, "-r", address, "-f", FLOW,
	    "-p", "20", "source:0", NULL);
	child_expect(&source, "source 0 held 20");
	killed = now_ms();
	child_signal(&source, SIGKILL);
	cr_assert_eq(consume_all(target, &count), -ECONNRESET);
	cr_assert_lt(ms_since(killed), DEATH_MS);
	cr_assert_eq(count, 20);
	cr_assert_eq(dfi_target_close(target), -ECONNRESET);
	cr_assert_eq(child_wait(&source), 128 + SIGKILL);
}

/* The child keeps the parent's connection, but the registry sees processes. */
Test(processes, child_that_knows_nothing_does_not_hide_the_death_of_its_parent)
{
	kill_parent("-K");
}

/* Here it doesn't: it must be the child that closes it. */
Test(processes, forked_child_does_not_hide_it_from_a_registry_over_tcp)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;

	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
	attr.listen = "tcp:127.0.0.1:0";
	attr.flags = DFI_REGISTRY_INSECURE;
	setenv("DFI_REGISTRY_INSECURE", "1", 1);
	cr_assert_eq(
	    dfi_registry_start(&attr, &registry), 0, "%s", dfi_errmsg());
	address = dfi_registry_address(registry);
	join();
	kill_parent("-k");
}

/* A blocked endpoint, as here, must wake up. */
Test(processes, source_that_waits_learns_of_its_killed_target)
{
	struct worker_tuple tuple;
	struct dfi_source *source;
	struct child target;
	uint32_t count = 0;
	int64_t killed = 0;
	int ret = 0;

	create_flow(1, 1, 2);
	child_spawn(&target, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "1",
	    "target:0", NULL);
	source = open_source(0);
	worker_make_tuple(0, 0, &tuple);
	cr_assert_eq(dfi_source_push(source, &tuple), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	child_expect(&target, "target 0 held 1");
	while (!ret) {
		worker_make_tuple(0, ++count, &tuple);
		/* The first segment is still lent: 20 more fit, one left. */
		if (count == 20) {
			killed = now_ms();
			child_signal(&target, SIGKILL);
		}
		ret = dfi_source_push(source, &tuple);
		cr_assert_lt(count, 100, "pushed on to a dead target");
	}
	cr_assert_eq(ret, -ECONNRESET);
	expect_text("target 0");
	expect_pid(&target);
	cr_assert_lt(ms_since(killed), DEATH_MS);
	cr_assert_eq(dfi_source_push(source, &tuple), -ECONNRESET);
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
	cr_assert_eq(child_wait(&target), 128 + SIGKILL);
}

Test(processes, exit_without_close_is_no_end_of_the_flow)
{
	struct dfi_target *target;
	struct child source;
	uint32_t count = 0;

	create_flow(1, 1, 8);
	target = open_target(0, LONG_MS);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "40",
	    "source:0", NULL);
	child_expect(&source, "source 0 held 40");
	child_order(&source, 'x');
	cr_assert_eq(consume_all(target, &count), -ECONNRESET);
	expect_text("source 0");
	cr_assert_eq(count, 40);
	cr_assert_eq(dfi_target_close(target), -ECONNRESET);
	cr_assert_eq(child_wait(&source), 0);
}

/*
 * A run of one flow of two sources and three targets; targets 0 and 1 belong to
 * another process. The tuples of each run have their own numbers.
 */
struct run {
	struct child child;
	uint32_t first;
	struct dfi_target *target; /* 2 */
	struct dfi_source *source; /* 0 */
};

#define RUN_TUPLES 200 /* of each source: so that they fit the rings */

/* With what the first two sources need to attach. */
static void begin_run(struct run *run, uint32_t number)
{
	run->first = number * RUN_TUPLES;
	run->target = open_target(2, LONG_MS);
	run->source = open_source(0);
}

static void push_run(
    const struct run *run, struct dfi_source *source, uint32_t index)
{
	struct worker_tuple tuple;
	uint32_t i;

	for (i = 0; i < RUN_TUPLES; i++) {
		worker_make_tuple(index, run->first + i, &tuple);
		cr_assert_eq(
		    dfi_source_push(source, &tuple), 0, "%s", dfi_errmsg());
	}
	cr_assert_eq(dfi_source_flush(source), 0);
}

/* The tuples of the run's target, which must all be of this run. */
static int consume_run(const struct run *run, uint32_t *count)
{
	const void *tuple;
	uint32_t number;
	int ret;

	for (*count = 0;; ++*count) {
		ret = dfi_target_consume(run->target, &tuple);
		if (ret <= 0)
			return ret;
		number = ((const struct worker_tuple *)tuple)->number;
		cr_assert(
		    number > run->first && number <= run->first + RUN_TUPLES,
		    "%u is not of the run from %u", number, run->first);
	}
}

/* As soon as the name is free. */
static void create_again(void)
{
	struct dfi_flow_info info;
	int64_t wait_limit = now_ms() + LONG_MS;
	int ret;

	while ((ret = dfi_flow_lookup(dfi, FLOW, &info)) == 0)
		cr_assert_lt(now_ms(), wait_limit);
	cr_assert_eq(ret, -ENOENT, "%s", dfi_errmsg());
	create_flow(2, 3, 32);
}

/* A whole run, unaffected by the other one. */
static void run_anew(void)
{
	struct run run;
	struct dfi_source *second;
	uint32_t count;

	child_spawn(&run.child, DFI_WORKER, "-r", address, "-f", FLOW,
	    "target:0", "target:1", NULL);
	begin_run(&run, 1);
	second = open_source(1);
	push_run(&run, run.source, 0);
	push_run(&run, second, 1);
	cr_assert_eq(dfi_source_close(run.source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(second), 0, "%s", dfi_errmsg());
	cr_assert_eq(consume_run(&run, &count), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(run.target), 0);
	while (child_read(&run.child)) {
		uint32_t part;

		if (sscanf(run.child.line, "target %*u ended 0 %" SCNu32,
			&part) == 1)
			count += part;
	}
	cr_assert_eq(count, 2 * RUN_TUPLES);
	cr_assert_eq(child_wait(&run.child), 0);
}

/* Its other targets have had one tuple each, and hold. */
static void begin_old_run(struct run *run)
{
	unsigned n_held = 0;

	child_spawn(&run->child, DFI_WORKER, "-r", address, "-f", FLOW, "-c",
	    "2:3", "-g", "640", "-p", "1", "target:0", "target:1", NULL);
	begin_run(run, 0);
	push_run(run, run->source, 0);
	while (n_held < 2) {
		cr_assert(child_read(&run->child));
		n_held += strstr(run->child.line, " held 1") != NULL;
	}
}

/* It still waits for source 1, which only the other run has. */
static void end_old_run(struct run *run, int source_ret)
{
	uint32_t count;

	cr_assert_eq(consume_run(run, &count), -ECONNRESET);
	cr_assert_gt(count, 0);
	expect_text("flow 'flow': its creator (node ");
	expect_text("source 1 of 2");
	expect_pid(&run->child);
	cr_assert_eq(dfi_source_close(run->source), source_ret);
	cr_assert_eq(dfi_target_close(run->target), -ECONNRESET);
}

Test(processes, leftovers_of_a_killed_run_are_not_joined_by_the_next_one)
{
	struct run old;
	struct worker_tuple tuple = { .number = 1 };
	int ret;

	begin_old_run(&old);
	child_signal(&old.child, SIGKILL);
	create_again();
	run_anew();
	do
		ret = dfi_source_push_to(old.source, 0, &tuple);
	while (!ret);
	cr_assert_eq(ret, -ECONNRESET);
	expect_text("flow 'flow'");
	expect_text("target ");
	expect_pid(&old.child);
	end_old_run(&old, -ECONNRESET);
	cr_assert_eq(child_wait(&old.child), 128 + SIGKILL);
}

/* Also while their process lives, as another process has removed the flow. */
Test(processes, leftovers_of_a_removed_flow_are_not_joined_by_the_next_one)
{
	struct run old;

	begin_old_run(&old);
	cr_assert_eq(dfi_flow_remove(dfi, FLOW), 0, "%s", dfi_errmsg());
	create_again();
	run_anew();
	end_old_run(&old, 0);
	child_signal(&old.child, SIGKILL);
	cr_assert_eq(child_wait(&old.child), 128 + SIGKILL);
}

/* How many names in a directory have "dfi" and the process's number in them. */
static unsigned count_entries(const char *path, const struct child *child)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char pid[16];
	unsigned n = 0;

	snprintf(pid, sizeof(pid), "%d", (int)child->pid);
	cr_assert_not_null(dir, "%s", path);
	while ((entry = readdir(dir)))
		n += strstr(entry->d_name, "dfi") && strstr(entry->d_name, pid);
	closedir(dir);
	return n;
}

/* How many lines of a file have this text. */
static unsigned count_lines(const char *path, const char *text)
{
	FILE *file = fopen(path, "re");
	char line[4096];
	unsigned n = 0;

	cr_assert_not_null(file, "%s", path);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, text) != NULL;
	fclose(file);
	return n;
}

Test(processes, nothing_is_left_of_killed_processes)
{
	struct child source, target;
	struct dfi_target *own;
	const void *tuple;
	char name[64];
	int ret;

	create_flow(1, 2, 8);
	own = open_target(0, LONG_MS);
	child_spawn(&target, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "1",
	    "target:1", NULL);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "100",
	    "source:0", NULL);
	child_expect(&source, "source 0 held");
	child_expect(&target, "target 1 held");
	snprintf(name, sizeof(name), "@dfi-%d-", (int)target.pid);
	cr_assert_geq(count_lines("/proc/net/unix", name), 1);
	cr_assert_geq(count_descriptors("memfd:dfi"), 1);
	child_signal(&source, SIGKILL);
	child_signal(&target, SIGKILL);
	cr_assert_eq(child_wait(&source), 128 + SIGKILL);
	cr_assert_eq(child_wait(&target), 128 + SIGKILL);
	while ((ret = dfi_target_consume(own, &tuple)) > 0)
		;
	cr_assert_eq(ret, -ECONNRESET);
	cr_assert_eq(dfi_target_close(own), -ECONNRESET);

	cr_assert_eq(count_lines("/proc/net/unix", name), 0);
	snprintf(name, sizeof(name), "@dfi-%d-", (int)source.pid);
	cr_assert_eq(count_lines("/proc/net/unix", name), 0);
	cr_assert_eq(count_entries("/dev/shm", &source), 0);
	cr_assert_eq(count_entries("/dev/shm", &target), 0);
	cr_assert_eq(count_entries("/tmp", &source), 0);
	cr_assert_eq(count_entries("/tmp", &target), 0);
	/*
	 * Our own region may be kept for a while: its source may still unmap
	 * it.
	 */
	cr_assert_leq(count_descriptors("memfd:dfi"), 1);
	cr_assert_eq(dfi_close(dfi), 0);
	cr_assert_eq(count_descriptors("memfd:dfi"), 0);
	cr_assert_eq(count_lines("/proc/self/maps", "memfd:dfi"), 0);
	join(); /* for the teardown */
}

Test(processes, endpoint_with_another_schema_is_refused)
{
	struct child source;

	create_flow(1, 1, 4);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-s",
	    "source:0", NULL);
	expect_end(&source, "source 0", -EPROTOTYPE);
	cr_assert(
	    strstr(source.line, "source:uint32@8") != NULL, "%s", source.line);
	cr_assert(
	    strstr(source.line, "origin:uint32@8") != NULL, "%s", source.line);
	cr_assert_eq(child_wait(&source), 0);
}

/* The rest uses a registry in a process of its own. */

static struct child server;
static char server_address[sizeof(server.line)];

static void setup_server(void)
{
	if (access(DFI_BIN_DIR "/dfi-registry", X_OK) < 0)
		cr_skip_test("dfi-registry is not built");
	child_spawn_registry(&server, NULL);
	snprintf(server_address, sizeof(server_address), "%s", server.line);
	address = server_address;
	join();
}

TestSuite(registry_process, .init = setup_server, .timeout = 300);

Test(registry_process, running_flow_completes_without_its_registry)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *late;
	struct dfi_target *target;
	struct child source;
	uint32_t count = 0;

	create_flow(1, 1, 4);
	target = open_target(0, LONG_MS);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-n",
	    "20000", "-p", "60", "source:0", NULL);
	child_expect(&source, "source 0 held 60");
	child_signal(&server, SIGKILL);
	cr_assert_eq(child_wait(&server), 128 + SIGKILL);
	child_order(&source, 'c');
	cr_assert_eq(consume_all(target, &count), 0, "%s", dfi_errmsg());
	cr_assert_eq(count, 20000);
	cr_assert_eq(expect_end(&source, "source 0", 0), 20000);
	cr_assert_eq(child_wait(&source), 0);
	cr_assert_eq(dfi_target_close(target), 0);

	attr.open_timeout_ms = 5000;
	cr_assert_eq(dfi_source_open(dfi, FLOW, 0, &attr, &late), -ENOTCONN);
	expect_text(server_address);
	cr_assert_eq(dfi_close(dfi), 0);
}

static char socket_address[64];

static void start_server_at_socket(void)
{
	child_spawn_registry(&server, socket_address);
}

static void setup_restarts(void)
{
	in_time_start();
	if (access(DFI_BIN_DIR "/dfi-registry", X_OK) < 0)
		cr_skip_test("dfi-registry is not built");
	snprintf(socket_address, sizeof(socket_address),
	    "unix:/tmp/dfi-restart-%d", (int)getpid());
	start_server_at_socket();
	address = socket_address;
	join();
}

static void teardown_restarts(void)
{
	cr_assert_eq(dfi_close(dfi), 0);
	child_signal(&server, SIGTERM);
	cr_assert_eq(child_wait(&server), 0);
}

static void kill_server(void)
{
	child_signal(&server, SIGKILL);
	cr_assert_eq(child_wait(&server), 128 + SIGKILL);
}

/* Wait until the flow is published again with this many endpoints. */
static void await_flow(uint32_t sources, uint32_t targets)
{
	int64_t wait_limit = now_ms() + LONG_MS;
	struct dfi_flow_info info;
	int ret;

	do
		ret = dfi_flow_lookup(dfi, FLOW, &info);
	while (now_ms() < wait_limit &&
	    (ret < 0 || info.attached_sources != sources ||
		info.attached_targets != targets));
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(info.attached_sources, sources);
	cr_assert_eq(info.attached_targets, targets);
}

TestSuite(registry_restart, .init = setup_restarts, .fini = teardown_restarts,
    .timeout = 300);

Test(registry_restart, running_flow_goes_on_and_deaths_are_seen_again)
{
	struct dfi_target *target;
	struct child source;
	uint32_t count = 0;
	int64_t killed;

	create_flow(1, 1, 32);
	target = open_target(0, LONG_MS);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "107",
	    "source:0", NULL);
	child_expect(&source, "source 0 held 107");
	kill_server();
	start_server_at_socket();
	await_flow(1, 1);
	killed = now_ms();
	child_signal(&source, SIGKILL);
	cr_assert_eq(consume_all(target, &count), -ECONNRESET);
	cr_assert_lt(ms_since(killed), DEATH_MS);
	cr_assert_eq(count, 107);
	expect_pid(&source);
	cr_assert_eq(dfi_target_close(target), -ECONNRESET);
	cr_assert_eq(child_wait(&source), 128 + SIGKILL);
}

Test(registry_restart, dead_source_stays_dead_when_the_registry_is_back)
{
	struct dfi_target *target;
	struct child source;
	uint32_t count = 0;
	int64_t back;

	create_flow(1, 1, 32);
	target = open_target(0, LONG_MS);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "107",
	    "source:0", NULL);
	child_expect(&source, "source 0 held 107");
	kill_server();
	child_signal(&source, SIGKILL);
	cr_assert_eq(child_wait(&source), 128 + SIGKILL);
	start_server_at_socket();
	back = now_ms();
	cr_assert_eq(consume_all(target, &count), -ECONNRESET);
	cr_assert_lt(ms_since(back), DEATH_MS);
	cr_assert_eq(count, 107);
	cr_assert_eq(dfi_target_close(target), -ECONNRESET);
}

Test(registry_restart, flow_that_was_published_again_can_be_joined)
{
	struct dfi_target *target;
	struct child source;
	uint32_t count = 0;

	create_flow(1, 1, 4);
	target = open_target(0, LONG_MS);
	kill_server();
	start_server_at_socket();
	await_flow(0, 1);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-n",
	    "20000", "source:0", NULL);
	cr_assert_eq(consume_all(target, &count), 0, "%s", dfi_errmsg());
	cr_assert_eq(count, 20000);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(child_wait(&source), 0);
}

/*
 * A process that comes back late finds its flow's name taken, and leaves it
 * alone.
 */
Test(registry_restart, name_belongs_to_who_publishes_it_first)
{
	struct dfi_flow_info info;
	struct child creator;
	char text[32];
	int64_t wait_limit;

	child_spawn(&creator, DFI_WORKER, "-r", address, "-f", FLOW, "-c",
	    "1:1", "-p", "10", "target:0", "source:0", NULL);
	child_expect(&creator, "source 0 held 10");
	child_signal(&creator, SIGSTOP);
	kill_server();
	start_server_at_socket();
	/* Until this process is connected again. */
	wait_limit = now_ms() + LONG_MS;
	while (dfi_flow_lookup(dfi, FLOW, &info) == -ENOTCONN &&
	    now_ms() < wait_limit)
		usleep(20000);
	create_flow(2, 2, 4);
	child_signal(&creator, SIGCONT);
	child_order(&creator, 'c');
	child_order(&creator, 'c');
	cr_assert_eq(child_wait(&creator), 0);
	cr_assert_eq(dfi_flow_lookup(dfi, FLOW, &info), 0, "%s", dfi_errmsg());
	snprintf(text, sizeof(text), "pid %d", (int)getpid());
	cr_assert_not_null(strstr(info.creator, text), "%s", info.creator);
	cr_assert_eq(info.n_sources, 2);
	cr_assert_eq(info.attached_sources, 0);
	cr_assert_eq(info.attached_targets, 0);
}

static int count_node(void *arg, const struct dfi_node_info *info)
{
	(void)info;
	++*(unsigned *)arg;
	return 0;
}

static void await_nodes(unsigned n)
{
	int64_t wait_limit = now_ms() + LONG_MS;
	unsigned found;

	do {
		cr_assert_lt(now_ms(), wait_limit);
		found = 0;
		cr_assert_eq(dfi_node_list(dfi, count_node, &found), 0);
	} while (found != n);
}

/* A former endpoint that comes back late cancels and closes without a trace. */
Test(registry_restart, place_belongs_to_who_takes_it_first)
{
	struct worker_tuple tuple;
	struct dfi_source *source;
	struct dfi_target *target;
	struct child late;
	uint32_t count = 0, i;

	create_flow(1, 1, 32);
	child_spawn(&late, DFI_WORKER, "-r", address, "-f", FLOW, "-p", "0",
	    "-x", "0", "target:0", NULL);
	child_expect(&late, "target 0 held 0");
	child_signal(&late, SIGSTOP);
	kill_server();
	start_server_at_socket();
	await_flow(0, 0);
	target = open_target(0, LONG_MS);
	child_signal(&late, SIGCONT);
	await_nodes(2);
	child_order(&late, 'c');
	child_expect(&late, "target 0 ended 0 0");
	cr_assert_eq(child_wait(&late), 0);

	await_flow(0, 1);
	source = open_source(0);
	for (i = 0; i < 10; i++) {
		worker_make_tuple(0, i, &tuple);
		cr_assert_eq(
		    dfi_source_push(source, &tuple), 0, "%s", dfi_errmsg());
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(consume_all(target, &count), 0, "%s", dfi_errmsg());
	cr_assert_eq(count, 10);
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(registry_process, serves_flows_between_processes)
{
	struct child source, target;

	create_flow(1, 1, 4);
	child_spawn(
	    &target, DFI_WORKER, "-r", address, "-f", FLOW, "target:0", NULL);
	child_spawn(
	    &source, DFI_WORKER, "-r", address, "-f", FLOW, "source:0", NULL);
	cr_assert_eq(expect_end(&target, "target 0", 0), 1000);
	cr_assert_eq(child_wait(&source), 0);
	cr_assert_eq(child_wait(&target), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	child_signal(&server, SIGTERM);
	cr_assert_eq(child_wait(&server), 0);
}

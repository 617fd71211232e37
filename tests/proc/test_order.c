/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordered replicate flows between real processes: all targets get one order,
 * and when a source is killed at any moment, prefixes of one order. The other
 * processes run worker.c, whose targets record the source of each tuple; as
 * tuples of a source come in order, that describes the whole order.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "spawn.h"
#include "worker.h"

#define FLOW "flow"

enum {
	N_SOURCES = 3,
	N_TARGETS = 3,
	N_TUPLES = 20000,
};

static struct dfi_registry *registry;
static struct dfi *dfi;
static const char *address;
static char folder[] = "/tmp/dfi-order-XXXXXX";

static void setup(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	cr_assert_not_null(mkdtemp(folder));
	cr_assert_eq(
	    dfi_registry_start(NULL, &registry), 0, "%s", dfi_errmsg());
	address = dfi_registry_address(registry);
	attr.registry = address;
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
}

static void order_path(char path[64], int target)
{
	snprintf(path, 64, "%s/order", folder);
	if (target >= 0)
		snprintf(path, 64, "%s/order.%d", folder, target);
}

static void teardown(void)
{
	char path[64];
	int t;

	for (t = 0; t < N_TARGETS; t++) {
		order_path(path, t);
		unlink(path);
	}
	rmdir(folder);
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(order, .init = setup, .fini = teardown, .timeout = 300);

static void create_flow(uint32_t replication)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_REPLICATE,
		.replicate.method = replication,
		.replicate.ordered = 1,
		.schema = &worker_schema,
		.n_sources = N_SOURCES,
		.n_targets = N_TARGETS,
		.segment_size = 10 * (uint32_t)sizeof(struct worker_tuple),
		.segment_count = 8,
	};

	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
}

/* A worker with the endpoints of these names; NULL: none. */
static void spawn(
    struct child *child, const char *a, const char *b, const char *n)
{
	char path[64];

	order_path(path, -1);
	child_spawn(child, DFI_WORKER, "-r", address, "-f", FLOW, "-n", n, "-o",
	    path, a, b, NULL);
}

/* "target 0 ended 0 100 ..." */
static int expect_end(
    struct child *child, const char *role, uint32_t index, uint32_t *count)
{
	char start[64];
	int ret;

	snprintf(start, sizeof(start), "%s %u ended ", role, index);
	child_expect(child, start);
	cr_assert_eq(
	    sscanf(child->line + strlen(start), "%d %" SCNu32, &ret, count), 2);
	return ret;
}

static char *read_order(int target, size_t *size)
{
	size_t room = N_SOURCES * N_TUPLES + 1;
	char *order = malloc(room), path[64];
	FILE *file;

	order_path(path, target);
	file = fopen(path, "re");
	cr_assert(file && order);
	*size = fread(order, 1, room, file);
	fclose(file);
	return order;
}

/* Of any two orders, one is the beginning of the other. */
static void compare_orders(bool same)
{
	size_t size[N_TARGETS], shorter;
	char *order[N_TARGETS];
	int t;

	for (t = 0; t < N_TARGETS; t++) {
		order[t] = read_order(t, &size[t]);
		if (same)
			cr_assert_eq(size[t], N_SOURCES * N_TUPLES);
		shorter = size[t] < size[0] ? size[t] : size[0];
		cr_assert_eq(memcmp(order[t], order[0], shorter), 0,
		    "targets 0 and %d have different orders", t);
	}
	/* Compare all with the longest. */
	for (t = 1; t + 1 < N_TARGETS; t++) {
		shorter = size[t] < size[t + 1] ? size[t] : size[t + 1];
		cr_assert_eq(memcmp(order[t], order[t + 1], shorter), 0);
	}
	for (t = 0; t < N_TARGETS; t++)
		free(order[t]);
}

static const uint32_t replications[] = { DFI_REPLICATION_NAIVE,
	DFI_REPLICATION_DEFAULT };

/* Processes with a source, with a target, and with both. */
Test(order, all_processes_get_one_order)
{
	struct child children[4];
	uint32_t count, i;
	size_t r;

	for (r = 0; r < 2; r++) {
		create_flow(replications[r]);
		spawn(&children[0], "source:0", "target:1", "20000");
		spawn(&children[1], "source:1", "source:2", "20000");
		spawn(&children[2], "target:0", NULL, "20000");
		spawn(&children[3], "target:2", NULL, "20000");
		for (i = 2; i < 4; i++) {
			cr_assert_eq(expect_end(&children[i], "target",
					 i == 2 ? 0 : 2, &count),
			    0, "%s", children[i].line);
			cr_assert_eq(count, N_SOURCES * N_TUPLES);
		}
		for (i = 0; i < 4; i++)
			cr_assert_eq(child_wait(&children[i]), 0);
		compare_orders(true);
		cr_assert_eq(dfi_flow_remove(dfi, FLOW), 0);
	}
}

static void wait_ns(long ns)
{
	struct timespec time = { .tv_nsec = ns };

	nanosleep(&time, NULL);
}

/* One source is killed at a random time after it has opened. */
static void kill_one(uint32_t replication, uint32_t victim)
{
	struct child sources[N_SOURCES], targets[N_TARGETS];
	uint32_t count, i;
	char name[32];
	int ret;

	create_flow(replication);
	for (i = 0; i < N_TARGETS; i++) {
		snprintf(name, sizeof(name), "target:%u", i);
		spawn(&targets[i], name, NULL, "0");
	}
	for (i = 0; i < N_SOURCES; i++) {
		snprintf(name, sizeof(name), "source:%u", i);
		spawn(&sources[i], name, NULL, "20000");
	}
	for (i = 0; i < N_SOURCES; i++) {
		snprintf(name, sizeof(name), "source %u open", i);
		child_expect(&sources[i], name);
	}
	wait_ns((long)(rand() % 20000000));
	child_signal(&sources[victim], SIGKILL);
	for (i = 0; i < N_TARGETS; i++) {
		ret = expect_end(&targets[i], "target", i, &count);
		/* 0: all its segments had come before. */
		cr_assert(ret == -ECONNRESET || ret == -ECANCELED || ret == 0,
		    "%s", targets[i].line);
		if (ret == 0)
			cr_assert_eq(count, N_SOURCES * N_TUPLES);
		else
			cr_assert_not_null(strstr(targets[i].line, "source "));
		cr_assert_eq(child_wait(&targets[i]), 0);
	}
	for (i = 0; i < N_SOURCES; i++) {
		ret = child_wait(&sources[i]);
		if (i != victim)
			cr_assert_eq(ret, 0);
	}
	compare_orders(false);
	cr_assert_eq(dfi_flow_remove(dfi, FLOW), 0);
}

Test(order, killed_source_leaves_beginnings_of_one_order)
{
	const char *setting = getenv("DFI_TEST_KILLS");
	uint32_t i, n = setting ? (uint32_t)strtoul(setting, NULL, 10) : 8;
	unsigned seed = (unsigned)time(NULL);

	srand(seed);
	fprintf(stderr, "seed %u\n", seed);
	for (i = 0; i < n; i++)
		kill_one(replications[i % 2], (uint32_t)rand() % N_SOURCES);
}

/*
 * Target 0 has the sequencer: a source that draws learns whose end that was,
 * except those that first hear of other ends.
 */
Test(order, killed_holder_of_the_sequencer_is_named)
{
	struct child sources[N_SOURCES], targets[N_TARGETS];
	char name[32], pid[32];
	uint32_t count, i, n_named;
	size_t r;
	int ret;

	for (r = 0; r < 2; r++) {
		n_named = 0;
		create_flow(replications[r]);
		for (i = 0; i < N_TARGETS; i++) {
			snprintf(name, sizeof(name), "target:%u", i);
			spawn(&targets[i], name, NULL, "0");
		}
		for (i = 0; i < N_SOURCES; i++) {
			snprintf(name, sizeof(name), "source:%u", i);
			spawn(&sources[i], name, NULL, "1000000000");
		}
		for (i = 0; i < N_SOURCES; i++) {
			snprintf(name, sizeof(name), "source %u open", i);
			child_expect(&sources[i], name);
		}
		child_signal(&targets[0], SIGKILL);
		snprintf(pid, sizeof(pid), "pid %d", (int)targets[0].pid);
		for (i = 0; i < N_SOURCES; i++) {
			ret = expect_end(&sources[i], "source", i, &count);
			cr_assert_eq(ret, -ECONNRESET, "%s", sources[i].line);
			n_named += strstr(sources[i].line, "target 0") &&
			    strstr(sources[i].line, pid);
			cr_assert_eq(child_wait(&sources[i]), 0);
		}
		cr_assert_gt(n_named, 0, "nobody names target 0");
		for (i = 1; i < N_TARGETS; i++) {
			ret = expect_end(&targets[i], "target", i, &count);
			cr_assert_eq(ret, -ECANCELED, "%s", targets[i].line);
			cr_assert_eq(child_wait(&targets[i]), 0);
		}
		cr_assert_eq(child_wait(&targets[0]), 128 + SIGKILL);
		cr_assert_eq(dfi_flow_remove(dfi, FLOW), 0);
	}
}

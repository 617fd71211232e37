/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows over verbs whose rings exceed the limit of locked memory: the open
 * fails with -ENOMEM, names the limit to raise and keeps nothing, and a flow
 * that fits works afterwards.
 *
 * memlock BYTES
 *
 * BYTES is the limit, of which a process needs some for itself. Takes the
 * registry and the transport from the environment.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "worker.h"

#define SEGMENT_SIZE 8192u
/* Enough to reach the limit if a small part of a failed open were left. */
#define REPEATS 50
#define TUPLES 1000
#define WIDTH 4

static struct dfi *dfi;

static void fail(const char *what)
{
	fprintf(stderr, "memlock: %s: %s\n", what, dfi_errmsg());
	exit(EXIT_FAILURE);
}

static void expect(const char *what, int ret, int expected)
{
	if (ret == expected)
		return;
	fprintf(stderr, "memlock: %d, not %d\n", ret, expected);
	fail(what);
}

static void expect_limit(const char *what, int ret)
{
	expect(what, ret, -ENOMEM);
	if (!strstr(dfi_errmsg(), "ulimit -l") ||
	    !strstr(dfi_errmsg(), "are left of"))
		fail(what);
}

static unsigned count_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	if (!dir)
		fail("/proc/self/fd");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* A flow of one source whose rings have this many bytes. */
static void create(const char *name, enum dfi_flow_kind kind, uint64_t bytes,
    uint32_t n_targets)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = kind;
	if (kind == DFI_REPLICATE)
		attr.replicate.method = DFI_REPLICATION_NAIVE;
	attr.schema = &worker_schema;
	attr.n_sources = 1;
	attr.n_targets = n_targets;
	attr.segment_size = SEGMENT_SIZE;
	attr.segment_count = (uint32_t)(bytes / SEGMENT_SIZE);
	expect(name, dfi_flow_create(dfi, name, &attr), 0);
}

static void move(struct dfi_source *source, struct dfi_target *target)
{
	struct worker_tuple tuple;
	const void *at;
	uint32_t i;
	int ret;

	for (i = 0; i < TUPLES; i++) {
		worker_make_tuple(0, i, &tuple);
		expect("push", dfi_source_push(source, &tuple), 0);
	}
	expect("close", dfi_source_close(source), 0);
	for (i = 0; (ret = dfi_target_consume(target, &at)) > 0; i++) {
		worker_make_tuple(0, i, &tuple);
		if (memcmp(at, &tuple, sizeof(tuple)) != 0)
			fail("a tuple is damaged");
	}
	expect("consume", ret, 0);
	expect("number of tuples", (int)i, TUPLES);
}

/* The most memory that this process ever had, in bytes. */
static uint64_t most_memory(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) < 0)
		fail("getrusage");
	return (uint64_t)usage.ru_maxrss * 1024;
}

/* The target's rings are too large, so it has never had them. */
static void refuse_target(uint64_t size)
{
	struct dfi_target *target = NULL;
	uint64_t before = most_memory();

	expect_limit(
	    "a large target", dfi_target_open(dfi, "large", 0, NULL, &target));
	if (target)
		fail("a handle for nothing");
	if (most_memory() - before >= size)
		fail("the rings were reserved first");
}

/*
 * The target fits, but not the source's memory as well: a shadow ring, or the
 * send buffer of all.
 */
static void refuse_source(const char *flow)
{
	struct dfi_source *source = NULL;

	expect_limit(flow, dfi_source_open(dfi, flow, 0, NULL, &source));
	if (source)
		fail("a handle for nothing");
}

static void refuse_sources(const char *flow)
{
	struct dfi_target *target;
	unsigned i, n_files;

	expect(flow, dfi_target_open(dfi, flow, 0, NULL, &target), 0);
	refuse_source(flow);
	n_files = count_files();
	for (i = 0; i < REPEATS; i++)
		refuse_source(flow);
	expect("files", (int)count_files(), (int)n_files);
	expect("close", dfi_target_close(target), 0);
}

static int add_messages(void *arg, const struct dfi_transport_stats *stats)
{
	*(uint64_t *)arg += stats->messages;
	return 0;
}

static uint64_t messages(void)
{
	uint64_t n = 0;

	expect("query", dfi_context_query(dfi, add_messages, &n), 0);
	return n;
}

/*
 * All targets fit, and each shadow ring except the last: the source finds this
 * out before it has opened any.
 */
static void refuse_wide(const char *flow)
{
	struct dfi_target *targets[WIDTH];
	uint64_t before;
	uint32_t i;

	for (i = 0; i < WIDTH; i++)
		expect(
		    flow, dfi_target_open(dfi, flow, i, NULL, &targets[i]), 0);
	before = messages();
	refuse_source(flow);
	if (messages() != before)
		fail("rings were opened first");
	for (i = 0; i < WIDTH; i++)
		expect("close", dfi_target_close(targets[i]), 0);
}

static void work(const char *flow)
{
	struct dfi_source *source;
	struct dfi_target *target;

	expect(flow, dfi_target_open(dfi, flow, 0, NULL, &target), 0);
	expect(flow, dfi_source_open(dfi, flow, 0, NULL, &source), 0);
	move(source, target);
	expect("close", dfi_target_close(target), 0);
}

int main(int argc, char **argv)
{
	uint64_t limit = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	unsigned i, n_files = 0;

	expect("open", dfi_open(NULL, &dfi), 0);
	create("large", DFI_SHUFFLE, 4 * limit, 1);
	create("middle", DFI_SHUFFLE, limit / 8 * 5, 1);
	create("small", DFI_SHUFFLE, limit / 8, 1);
	create("wide", DFI_SHUFFLE, limit / 8, WIDTH);
	create("middle-to-all", DFI_REPLICATE, limit / 8 * 5, 1);
	create("small-to-all", DFI_REPLICATE, limit / 8, 1);
	for (i = 0; i < REPEATS; i++) {
		refuse_target(4 * limit);
		/* The first one opened the device. */
		if (i == 0)
			n_files = count_files();
	}
	expect("files", (int)count_files(), (int)n_files);
	refuse_sources("middle");
	work("small");
	refuse_wide("wide");
	refuse_sources("middle-to-all");
	work("small-to-all");
	expect("close", dfi_close(dfi), 0);
	puts("ok");
	return EXIT_SUCCESS;
}

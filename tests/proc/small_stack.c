/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of a thread's stack calls take: each part of the interface runs on a
 * thread whose stack has known bytes. The C library's part at the top counts,
 * so a stack of the measured size is enough.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker.h"

#define STACK_SIZE ((size_t)1 << 20)
#define UNTOUCHED 0xa5
#define N_AGGREGATES (DFI_MAX_FIELDS - 2) /* and two keys */
#define WAIT_MS 60000u

static struct dfi *dfi;
static const char *address;

static void fail(const char *what)
{
	fprintf(stderr, "small_stack: %s: %s\n", what, dfi_errmsg());
	exit(EXIT_FAILURE);
}

static void expect(const char *what, int ret, int expected)
{
	if (ret == expected)
		return;
	fprintf(stderr, "small_stack: %d, not %d\n", ret, expected);
	fail(what);
}

/* ---- The parts -------------------------------------------------------------
 */

static void open_and_close(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *other;

	attr.registry = address;
	expect("dfi_open", dfi_open(&attr, &other), 0);
	expect("dfi_close", dfi_close(other), 0);
}

static void keep_registry(void)
{
	struct dfi_registry *registry;

	expect("dfi_registry_start", dfi_registry_start(NULL, &registry), 0);
	expect("dfi_registry_stop", dfi_registry_stop(registry), 0);
}

/* From one source to one target of a flow that is removed then. All fit. */
static void move(const char *name, uint32_t n)
{
	struct worker_tuple tuple;
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_batch batch;
	uint32_t i;
	int ret;

	expect(name, dfi_target_open(dfi, name, 0, NULL, &target), 0);
	expect(name, dfi_source_open(dfi, name, 0, NULL, &source), 0);
	for (i = 0; i < n; i++) {
		worker_make_tuple(0, i, &tuple);
		expect(name, dfi_source_push(source, &tuple), 0);
	}
	expect(name, dfi_source_close(source), 0);
	while ((ret = dfi_target_consume_batch(target, &batch)) > 0)
		dfi_target_release(target, &batch);
	expect(name, ret, 0);
	expect(name, dfi_target_close(target), 0);
	expect(name, dfi_flow_remove(dfi, name), 0);
}

static struct dfi_flow_attr attr_of(enum dfi_flow_kind kind)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = kind;
	attr.schema = &worker_schema;
	attr.n_sources = 1;
	attr.n_targets = 1;
	attr.segment_size = 16 * sizeof(struct worker_tuple);
	attr.segment_count = 1024;
	return attr;
}

static void shuffle(void)
{
	struct dfi_flow_attr attr = attr_of(DFI_SHUFFLE);

	expect("shuffle", dfi_flow_create(dfi, "shuffle", &attr), 0);
	move("shuffle", 5000);
}

static void replicate_in_order(void)
{
	struct dfi_flow_attr attr = attr_of(DFI_REPLICATE);

	attr.replicate.ordered = 1;
	expect("replicate", dfi_flow_create(dfi, "replicate", &attr), 0);
	move("replicate", 5000);
}

static void combine(void)
{
	static char names[N_AGGREGATES][16];
	static struct dfi_aggregate aggregates[N_AGGREGATES];
	struct dfi_flow_attr attr = attr_of(DFI_COMBINE);
	uint32_t i;

	for (i = 0; i < N_AGGREGATES; i++) {
		snprintf(names[i], sizeof(names[i]), "average-%u", i);
		aggregates[i] = (struct dfi_aggregate){
			.function = DFI_AVG, .field = "number", .name = names[i]
		};
	}
	attr.segment_size = 65536;
	attr.segment_count = 32;
	attr.combine.n_aggregates = N_AGGREGATES;
	attr.combine.aggregates = aggregates;
	attr.combine.group_by = "number,source";
	attr.combine.source_combining = DFI_COMBINING_ALWAYS;
	expect("combine", dfi_flow_create(dfi, "combine", &attr), 0);
	move("combine", 200);
}

/* With as many columns, and as long names, as there may be. */
static void use_wide_schema(void)
{
	static char names[DFI_MAX_FIELDS][DFI_MAX_FIELD_NAME + 1];
	static struct dfi_field fields[DFI_MAX_FIELDS];
	struct dfi_schema schema = { .fields = fields,
		.n_fields = DFI_MAX_FIELDS,
		.tuple_size = DFI_MAX_FIELDS * sizeof(uint64_t) };
	struct dfi_flow_attr attr = attr_of(DFI_SHUFFLE);
	struct dfi_flow_info info;
	uint32_t i;

	for (i = 0; i < DFI_MAX_FIELDS; i++) {
		snprintf(
		    names[i], sizeof(names[i]), "%0*u", DFI_MAX_FIELD_NAME, i);
		fields[i] = (struct dfi_field){ .name = names[i],
			.type = DFI_UINT64,
			.offset = i * (uint32_t)sizeof(uint64_t),
			.size = sizeof(uint64_t) };
	}
	attr.schema = &schema;
	attr.segment_size = schema.tuple_size;
	expect("wide", dfi_flow_create(dfi, "wide", &attr), 0);
	expect("wide", dfi_flow_lookup(dfi, "wide", &info), 0);
	expect("wide", dfi_flow_remove(dfi, "wide"), 0);
}

static void meet(void)
{
	struct dfi_barrier *barrier;
	struct dfi_sequencer *sequencer;
	uint64_t first;

	expect("barrier", dfi_barrier_open(dfi, "barrier", 1, 0, &barrier), 0);
	expect("barrier", dfi_barrier_wait(barrier, WAIT_MS), 0);
	expect("barrier", dfi_barrier_close(barrier), 0);
	expect("sequencer",
	    dfi_sequencer_create(dfi, "sequencer", 1, &sequencer), 0);
	expect("sequencer", dfi_sequencer_next(sequencer, 1, &first), 0);
	expect("sequencer", dfi_sequencer_close(sequencer), 0);
}

static int ignore_flow(void *arg, const struct dfi_flow_info *info)
{
	(void)arg;
	(void)info;
	return 0;
}

static int ignore_node(void *arg, const struct dfi_node_info *info)
{
	(void)arg;
	(void)info;
	return 0;
}

static int ignore_stats(void *arg, const struct dfi_node_stats *stats)
{
	(void)arg;
	(void)stats;
	return 0;
}

static int ignore_setting(void *arg, const struct dfi_setting_info *info)
{
	(void)arg;
	(void)info;
	return 0;
}

static int ignore_error(void *arg, const struct dfi_error_info *info)
{
	(void)arg;
	(void)info;
	return 0;
}

static void ask(void)
{
	struct dfi_flow_attr attr = attr_of(DFI_SHUFFLE);
	struct dfi_flow_needs estimate;
	struct dfi_flow_info info;

	expect("ask", dfi_flow_create(dfi, "ask", &attr), 0);
	expect("ask", dfi_flow_lookup(dfi, "ask", &info), 0);
	expect("ask", dfi_flow_estimate(dfi, &attr, &estimate), 0);
	expect("ask", dfi_flow_list(dfi, ignore_flow, NULL), 0);
	expect("ask", dfi_node_list(dfi, ignore_node, NULL), 0);
	expect("ask", dfi_stats_list(dfi, ignore_stats, NULL), 0);
	expect("ask", dfi_setting_list(NULL, ignore_setting, NULL), 0);
	expect("ask", dfi_flow_remove(dfi, "ask"), 0);
}

static void err(void)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target;
	struct dfi_flow_attr flow = attr_of(DFI_SHUFFLE);

	attr.open_timeout_ms = 1;
	expect("err", dfi_target_open(dfi, "nowhere", 0, &attr, &target),
	    -ETIMEDOUT);
	flow.segment_size = DFI_MAX_SEGMENT_SIZE;
	flow.segment_count = DFI_MAX_SEGMENT_COUNT;
	expect("err", dfi_flow_create(dfi, "huge", &flow), 0);
	expect("err", dfi_target_open(dfi, "huge", 0, NULL, &target), -ENOMEM);
	expect("err", dfi_flow_remove(dfi, "huge"), 0);
	expect("err", dfi_error_list(ignore_error, NULL), 0);
}

/* ---- Measuring -------------------------------------------------------------
 */

static void *run(void *part)
{
	(*(void (*const *)(void))part)();
	return NULL;
}

/* Stacks grow downwards. */
static size_t measure(void (*part)(void))
{
	unsigned char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t thread;
	size_t i = 0;

	if (stack == MAP_FAILED)
		fail("mmap");
	memset(stack, UNTOUCHED, STACK_SIZE);
	pthread_attr_init(&attr);
	if (pthread_attr_setstack(&attr, stack, STACK_SIZE) ||
	    pthread_create(&thread, &attr, run, &part))
		fail("pthread_create");
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	while (i < STACK_SIZE && stack[i] == UNTOUCHED)
		i++;
	munmap(stack, STACK_SIZE);
	return STACK_SIZE - i;
}

static void nothing(void)
{
}

static const struct {
	const char *name;
	void (*fn)(void);
} parts[] = {
	{ "nothing", nothing },
	{ "open and close", open_and_close },
	{ "registry", keep_registry },
	{ "shuffle", shuffle },
	{ "replicate", replicate_in_order },
	{ "combine", combine },
	{ "wide schema", use_wide_schema },
	{ "barrier and sequencer", meet },
	{ "queries", ask },
	{ "errors", err },
};

int main(int argc, char **argv)
{
	size_t limit = argc > 1 ? strtoul(argv[1], NULL, 0) : SIZE_MAX;
	struct dfi_registry *registry;
	struct dfi_attr attr = DFI_ATTR_INIT;
	size_t i, size;
	int ret = 0;

#ifdef __SANITIZE_ADDRESS__
	puts("skipped: frames are larger under AddressSanitizer");
	return 77;
#endif
	expect("registry", dfi_registry_start(NULL, &registry), 0);
	address = dfi_registry_address(registry);
	attr.registry = address;
	expect("dfi_open", dfi_open(&attr, &dfi), 0);
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		size = measure(parts[i].fn);
		printf("%-24s %zu bytes\n", parts[i].name, size);
		if (size > limit)
			ret = 1;
	}
	if (ret)
		fprintf(stderr, "small_stack: more than %zu bytes\n", limit);
	expect("dfi_close", dfi_close(dfi), 0);
	dfi_registry_stop(registry);
	return ret;
}

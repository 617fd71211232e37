/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shuffle flows, one behaviour at a time: topologies, tuple sizes, routing,
 * when tuples become visible, and the beginning and the end of a flow. How
 * tuples are moved is in test_moving.c, random combinations in test_property.c.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

#define MAX_ENDS 8

static struct rig rig;

static void setup(void)
{
	setenv("DFI_RING_MEMORY", "1M", 1);
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(shuffle, .init = setup, .fini = teardown, .timeout = 300);

/* Threads of a topology. */
struct part {
	pthread_t thread;
	const char *flow;
	uint32_t index, n_targets;
	uint64_t n, count, sum;
	int ret;
};

static void *run_source(void *arg)
{
	struct dfi_source_attr attr = { .size = sizeof(attr),
		.stall_timeout_ms = LONG_MS };
	struct part *part = arg;
	struct dfi_source *source;
	struct kv kv;
	uint64_t i;

	part->ret = dfi_source_open(
	    rig.other, part->flow, part->index, &attr, &source);
	if (part->ret)
		return NULL;
	for (i = 0; !part->ret && i < part->n; i++) {
		kv = numbered_kv(part->index * part->n + i);
		part->ret = dfi_source_push(source, &kv);
	}
	part->ret = dfi_source_close(source);
	return NULL;
}

static void *run_target(void *arg)
{
	struct dfi_target_attr attr = { .size = sizeof(attr),
		.stall_timeout_ms = LONG_MS };
	struct part *part = arg;
	struct dfi_target *target;
	const struct kv *kv;
	const void *tuple;
	int ret;

	part->ret = dfi_target_open(
	    rig.dfi, part->flow, part->index, &attr, &target);
	if (part->ret)
		return NULL;
	while ((ret = dfi_target_consume(target, &tuple)) > 0) {
		kv = tuple;
		if (kv->key != numbered_kv(kv->val).key ||
		    dfi_hash_partition(dfi_hash64(kv->key), part->n_targets) !=
			part->index)
			ret = -EBADMSG;
		part->count++;
		part->sum += kv->val;
	}
	part->ret = ret;
	dfi_target_close(target);
	return NULL;
}

static void run_topology(uint32_t n_sources, uint32_t n_targets, uint32_t goal)
{
	struct dfi_flow_attr attr = { .size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = n_sources,
		.n_targets = n_targets,
		.goal = goal,
		.segment_size = goal == DFI_BANDWIDTH ? 100 : 0,
		.segment_count = 3 };
	struct part parts[2 * MAX_ENDS];
	uint32_t i, n = n_sources + n_targets;
	uint32_t n_tuples = fewer(3000);
	uint64_t count = 0, sum = 0, total = (uint64_t)n_tuples * n_sources;
	char name[64];

	snprintf(name, sizeof(name), "t%u-%u-%u", n_sources, n_targets, goal);
	cr_assert_eq(dfi_flow_create(rig.dfi, name, &attr), 0);
	for (i = 0; i < n; i++) {
		parts[i] = (struct part){
			.flow = name,
			.index = i < n_sources ? i : i - n_sources,
			.n_targets = n_targets,
			.n = n_tuples,
		};
		cr_assert_eq(
		    pthread_create(&parts[i].thread, NULL,
			i < n_sources ? run_source : run_target, &parts[i]),
		    0);
	}
	for (i = 0; i < n; i++) {
		cr_assert_eq(pthread_join(parts[i].thread, NULL), 0);
		cr_assert_eq(
		    parts[i].ret, 0, "%s: part %u: %d", name, i, parts[i].ret);
		count += parts[i].count;
		sum += parts[i].sum;
	}
	cr_assert_eq(count, total, "%s", name);
	cr_assert_eq(sum, total * (total - 1) / 2, "%s", name);
}

Test(shuffle, topologies_deliver_every_tuple_once)
{
	static const uint32_t sizes[][2] = { { 1, 1 }, { 5, 1 }, { 1, 5 },
		{ 3, 4 }, { 8, 8 } };
	size_t i;

	for (i = 0; i < N_ELEMENTS(sizes); i++) {
		run_topology(sizes[i][0], sizes[i][1], DFI_BANDWIDTH);
		run_topology(sizes[i][0], sizes[i][1], DFI_LATENCY);
	}
}

/* Every tuple size up to a segment, in one thread: one segment, one ring. */
static void run_size(uint32_t size, uint32_t segment_size)
{
	struct dfi_field field = { "b", NULL, DFI_BYTES, 0, size, 0 };
	struct dfi_schema schema = { &field, 1, size };
	struct dfi_flow_attr attr = { .size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &schema,
		.n_sources = 1,
		.n_targets = 1,
		.segment_size = segment_size,
		.segment_count = 2 };
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	uint8_t bytes[600];
	uint32_t i;

	cr_assert_eq(dfi_flow_create(rig.dfi, "sizes", &attr), 0);
	target = open_target(rig.dfi, "sizes", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "sizes", 0, DFI_NONBLOCK);
	for (i = 0; i < 5 * (segment_size / size) + 1; i++) {
		memset(bytes, (int)i, size);
		cr_assert_eq(push_soon(source, bytes), 0);
		cr_assert_eq(dfi_source_flush(source), 0);
		memset(bytes, 0, size);
		cr_assert_eq(consume_soon(target, &tuple), 1);
		memset(bytes, (int)i, size);
		cr_assert_eq(memcmp(tuple, bytes, size), 0);
	}
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(consume_soon(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "sizes"), 0);
}

Test(shuffle, tuples_have_any_size_up_to_a_segment)
{
	uint32_t size;

	for (size = 1; size <= 129; size += size < 20 ? 1 : 3)
		run_size(size, 129);
	run_size(600, 600);
}

/* Each target gets these, in order. */
struct arrivals {
	uint64_t numbers[5][300];
	uint32_t n[5];
};

static void collect(struct dfi_target **targets, struct arrivals *arrivals)
{
	const struct kv *kv;
	const void *tuple;
	uint32_t t = 0, n;

	memset(arrivals, 0, sizeof(*arrivals));
	for (n = 0; n < 300; t = (t + 1) % 5)
		while (dfi_target_consume(targets[t], &tuple) == 1) {
			kv = tuple;
			cr_assert_lt(arrivals->n[t], 300);
			arrivals->numbers[t][arrivals->n[t]++] = kv->val;
			n++;
		}
	for (t = 0; t < 5; t++)
		cr_assert_eq(dfi_target_consume(targets[t], &tuple), -EAGAIN);
}

static void push_all_ways(uint32_t routing, uint32_t type)
{
	struct dfi_field fields[] = { { "key", NULL, type, 0, 8, 0 },
		{ "val", NULL, DFI_UINT64, 8, 8, 0 } };
	struct dfi_schema schema = { fields, 2, sizeof(struct kv) };
	int64_t splits[4] = { 1000, INT64_C(1) << 40, INT64_C(1) << 60,
		INT64_C(3) << 61 };
	struct dfi_flow_attr attr = { .size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &schema,
		.n_sources = 1,
		.n_targets = 5,
		.routing = routing,
		.radix_shift = 11,
		.radix_bits = 9,
		.splits = splits };
	struct arrivals single, batch;
	struct dfi_target *targets[5];
	struct dfi_source *source;
	struct kv kvs[300];
	uint32_t i;

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "ways", &attr), 0, "%s", dfi_errmsg());
	for (i = 0; i < 5; i++)
		targets[i] = open_target(rig.dfi, "ways", i, DFI_NONBLOCK);
	source = open_source(rig.dfi, "ways", 0, DFI_NONBLOCK);
	for (i = 0; i < 300; i++) {
		kvs[i] = numbered_kv(i);
		cr_assert_eq(dfi_source_push(source, &kvs[i]), 0);
	}
	cr_assert_eq(dfi_source_flush(source), 0);
	collect(targets, &single);
	cr_assert_eq(dfi_source_push_batch(source, kvs, 300), 300);
	cr_assert_eq(dfi_source_flush(source), 0);
	collect(targets, &batch);
	cr_assert_eq(memcmp(&single, &batch, sizeof(batch)), 0);
	for (i = 0; i < 5; i++)
		cr_assert_neq(single.n[i], 0);
	cr_assert_eq(dfi_source_close(source), 0);
	for (i = 0; i < 5; i++)
		end_target(targets[i]);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "ways"), 0);
}

Test(shuffle, single_and_batched_pushes_route_alike)
{
	/* Inlined, vectorised and general code in turn. */
	push_all_ways(DFI_ROUTE_HASH, DFI_UINT64);
	push_all_ways(DFI_ROUTE_HASH, DFI_INT64);
	push_all_ways(DFI_ROUTE_HASH, DFI_BYTES);
	push_all_ways(DFI_ROUTE_RADIX, DFI_UINT64);
	push_all_ways(DFI_ROUTE_RADIX, DFI_INT64);
	push_all_ways(DFI_ROUTE_ROUND_ROBIN, DFI_UINT64);
}

Test(shuffle, segment_is_visible_when_full_flushed_or_closed)
{
	struct dfi_source_stats stats;
	struct dfi_source *source;
	struct dfi_target *target;

	create_kv_flow(rig.dfi, "f", 1, 1, 3, 4);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	push_number(source, 0);
	push_number(source, 1);
	expect_nothing(target);
	push_number(source, 2);
	expect_number(target, 0);
	expect_number(target, 1);
	expect_number(target, 2);
	push_number(source, 3);
	expect_nothing(target);
	cr_assert_eq(dfi_source_flush(source), 0);
	/* Nothing to flush is no segment. */
	cr_assert_eq(dfi_source_flush(source), 0);
	expect_number(target, 3);
	push_number(source, 4);
	cr_assert_eq(dfi_source_flush(source), 0);
	dfi_source_query(source, &stats);
	cr_assert_eq(stats.tuples, 5);
	cr_assert_eq(stats.bytes, 5 * sizeof(struct kv));
	cr_assert_eq(stats.segments, 3);
	cr_assert_eq(stats.partial_segments, 2);
	push_number(source, 5);
	cr_assert_eq(dfi_source_close(source), 0);
	expect_number(target, 4);
	expect_number(target, 5);
	end_target(target);
}

Test(shuffle, latency_flow_sends_each_tuple_at_once)
{
	struct dfi_flow_attr attr = { .size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = 1,
		.n_targets = 1,
		.goal = DFI_LATENCY };
	struct dfi_source *source;
	struct dfi_target *target;
	uint64_t i;

	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < 5000; i++) {
		expect_nothing(target);
		push_number(source, i);
		expect_number(target, i);
	}
	cr_assert_eq(dfi_source_close(source), 0);
	end_target(target);
}

Test(shuffle, flow_without_tuples_ends)
{
	struct dfi_source *sources[3];
	struct dfi_target *target;
	uint32_t i;

	create_kv_flow(rig.dfi, "f", 3, 1, 8, 1);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	for (i = 0; i < 3; i++)
		sources[i] = open_source(rig.dfi, "f", i, 0);
	for (i = 0; i < 3; i++) {
		expect_nothing(target);
		cr_assert_eq(dfi_source_close(sources[i]), 0);
	}
	end_target(target);
}

Test(shuffle, close_of_a_source_with_a_full_ring_does_not_wait)
{
	struct dfi_source *source;
	struct dfi_target *target;
	uint64_t i;

	create_kv_flow(rig.dfi, "f", 1, 1, 2, 1);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	push_number(source, 0);
	push_number(source, 1);
	cr_assert_eq(dfi_source_close(source), 0);
	for (i = 0; i < 2; i++)
		expect_number(target, i);
	end_target(target);
}

/* Opening may come before creating. */
static void *create_late(void *arg)
{
	struct dfi_flow_attr attr = { .size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = 1,
		.n_targets = 1 };

	yield_times(2000);
	*(int *)arg = dfi_flow_create(rig.other, "late", &attr);
	return NULL;
}

Test(shuffle, endpoints_wait_for_their_flow)
{
	struct dfi_source *source;
	struct dfi_target *target;
	pthread_t thread;
	int created = -1;

	cr_assert_eq(pthread_create(&thread, NULL, create_late, &created), 0);
	target = open_target(rig.dfi, "late", 0, 0);
	source = open_source(rig.dfi, "late", 0, 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(created, 0);
	push_number(source, 1);
	cr_assert_eq(dfi_source_close(source), 0);
	expect_number(target, 1);
	end_target(target);
}

Test(shuffle, removed_flow_goes_on_between_those_attached)
{
	struct dfi_source *source;
	struct dfi_target *target;

	create_kv_flow(rig.dfi, "f", 1, 1, 2, 2);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.other, "f", 0, 0);
	push_number(source, 0);
	cr_assert_eq(dfi_flow_remove(rig.other, "f"), 0);
	/* The name is free, and the new flow is another one. */
	create_kv_flow(rig.dfi, "f", 1, 1, 2, 2);
	push_number(source, 1);
	push_number(source, 2);
	cr_assert_eq(dfi_source_close(source), 0);
	expect_number(target, 0);
	expect_number(target, 1);
	expect_number(target, 2);
	end_target(target);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.other, "f", 0, 0);
	push_number(source, 7);
	cr_assert_eq(dfi_source_close(source), 0);
	expect_number(target, 7);
	end_target(target);
}

/* KiB of shared memory that this process has mapped and touched. */
static long touched_kib(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[128];
	long kib = -1;

	cr_assert_not_null(status);
	while (kib < 0 && fgets(line, sizeof(line), status))
		sscanf(line, "RssShmem: %ld", &kib);
	fclose(status);
	return kib;
}

/* Its target's region has the rings of all sources. */
Test(shuffle, source_touches_only_its_own_ring)
{
	struct dfi_flow_info info;
	struct dfi_target *target;
	struct dfi_source *source;
	long before;

	if (over_network())
		cr_skip_test("the region is not mapped");
	create_kv_flow(rig.dfi, "f", 64, 1, 1024, 16);
	cr_assert_eq(dfi_flow_lookup(rig.dfi, "f", &info), 0);
	target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	before = touched_kib();
	cr_assert_geq(before * 1024, (long)(64 * info.ring_bytes));
	source = open_source(rig.dfi, "f", 7, DFI_NONBLOCK);
	cr_assert_lt((touched_kib() - before) * 1024,
	    (long)(32 * info.ring_bytes), "%ld KiB", touched_kib() - before);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi_source_push_batch() against the definition of its routing: every tuple
 * size that has a loop of its own and some that have none, few targets and
 * many, keys that all go to one target, and rings that are full.
 *
 * DFI_TEST_PARTITION_SIZES: the number of tuple sizes (default: 9).
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

#define N_TUPLES 5000
#define KEY_OFFSET 8
#define RADIX_SHIFT 3
#define RADIX_BITS 6

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

/* Over verbs in a virtual machine a flow takes some 50 ms to set up. */
TestSuite(partition, .init = setup, .fini = teardown, .timeout = 300);

enum keys {
	KEYS_RANDOM,
	KEYS_EQUAL,    /* all to one target */
	KEYS_BY_CHANCE /* mostly to one */
};

struct table {
	uint32_t tuple_size;
	uint32_t key_offset;
	uint32_t n_targets;
	uint32_t routing;
	char *tuples;
};

static const char *tuple_at(const struct table *table, uint32_t i)
{
	return table->tuples + (size_t)i * table->tuple_size;
}

static void make_table(struct table *table, enum keys keys)
{
	struct rng rng = { .state = table->tuple_size };
	uint64_t key = rng_next(&rng);
	size_t i, size = (size_t)N_TUPLES * table->tuple_size;

	table->tuples = malloc(size);
	cr_assert_not_null(table->tuples);
	for (i = 0; i < size; i++)
		table->tuples[i] = (char)rng_next(&rng);
	for (i = 0; i < N_TUPLES; i++) {
		if (keys == KEYS_RANDOM ||
		    (keys == KEYS_BY_CHANCE && rng_below(&rng, 16) == 0))
			key = rng_next(&rng);
		memcpy(
		    table->tuples + i * table->tuple_size + table->key_offset,
		    &key, sizeof(key));
	}
}

static uint32_t target_of(const struct table *table, uint32_t i)
{
	uint64_t key;

	memcpy(&key, tuple_at(table, i) + table->key_offset, sizeof(key));
	if (table->routing == DFI_ROUTE_RADIX)
		return dfi_radix_partition(
		    key, RADIX_SHIFT, RADIX_BITS, table->n_targets);
	return dfi_hash_partition(dfi_hash64(key), table->n_targets);
}

/*
 * Consume at most limit tuples, which must be the target's share in the order
 * of the table; *at counts them. Returns the result of the last consume.
 */
static int expect_some(const struct table *table, struct dfi_target *target,
    uint32_t number, uint32_t *at, uint32_t limit)
{
	const void *tuple;
	int ret = 1;

	for (; limit > 0; limit--) {
		ret = dfi_target_consume(target, &tuple);
		if (ret <= 0)
			break;
		while (*at < N_TUPLES && target_of(table, *at) != number)
			++*at;
		cr_assert_lt(*at, N_TUPLES, "more tuples than were pushed");
		cr_assert_eq(
		    memcmp(tuple, tuple_at(table, *at), table->tuple_size), 0,
		    "tuple %u of %u bytes, %u targets", *at, table->tuple_size,
		    table->n_targets);
		++*at;
	}
	return ret;
}

/* The rest of the target's share, and nothing else. */
static void expect_share(const struct table *table, struct dfi_target *target,
    uint32_t number, uint32_t at)
{
	int64_t deadline = now_ms() + LONG_MS;
	int ret;

	/* Some may still be on its way. */
	while ((ret = expect_some(table, target, number, &at, UINT32_MAX)) ==
		-EAGAIN &&
	    now_ms() < deadline)
		yield_times(1);
	cr_assert_eq(ret, 0);
	for (; at < N_TUPLES; at++)
		cr_assert_neq(target_of(table, at), number);
}

static void create_flow(
    const struct table *table, uint32_t segment_tuples, uint32_t segment_count)
{
	struct dfi_field key = { "key", NULL, DFI_UINT64, table->key_offset, 8,
		0 };
	struct dfi_schema schema = { &key, 1, table->tuple_size };
	struct dfi_flow_attr attr = { .size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &schema,
		.n_sources = 1,
		.n_targets = table->n_targets,
		.routing = table->routing,
		.radix_shift = RADIX_SHIFT,
		.radix_bits = RADIX_BITS,
		.segment_size = segment_tuples * table->tuple_size,
		.segment_count = segment_count };

	cr_assert_eq(dfi_flow_create(rig.dfi, "partition", &attr), 0, "%s",
	    dfi_errmsg());
}

/* Random lengths, of which many are longer than a packed block. */
static uint32_t batch_size(struct rng *rng, uint32_t at)
{
	uint32_t n = 1 + rng_below(rng, 1500);

	return n < N_TUPLES - at ? n : N_TUPLES - at;
}

/* Into rings that have room for all. */
static void push_table(const struct table *table, struct dfi_source *source)
{
	struct rng rng = { .state = table->n_targets };
	uint32_t at, n;

	for (at = 0; at < N_TUPLES; at += n) {
		n = batch_size(&rng, at);
		cr_assert_eq(
		    dfi_source_push_batch(source, tuple_at(table, at), n),
		    (int)n, "%s", dfi_errmsg());
	}
}

/*
 * Into rings without enough room: pushes take what fits, and the targets
 * consume some of it now and then.
 */
static void push_and_consume(const struct table *table,
    struct dfi_source *source, struct dfi_target **targets, uint32_t *consumed)
{
	struct rng rng = { .state = table->tuple_size + table->n_targets };
	uint32_t at = 0, n, t, short_of_room = 0;
	int ret;

	while (at < N_TUPLES) {
		n = batch_size(&rng, at);
		ret = dfi_source_push_batch(source, tuple_at(table, at), n);
		if (ret <= 0) {
			cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
			ret = 0;
		}
		short_of_room += (uint32_t)ret < n;
		at += (uint32_t)ret;
		for (t = 0; t < table->n_targets; t++) {
			ret = expect_some(table, targets[t], t, &consumed[t],
			    rng_below(&rng, 600 / table->n_targets));
			cr_assert(ret == 1 || ret == -EAGAIN);
			/* All consumed tuples were pushed. */
			cr_assert_leq(consumed[t], at);
		}
	}
	cr_assert_gt(short_of_room, 0);
}

/* segment_count 0: as many as all tuples need. */
static void run(struct table table, enum keys keys, uint32_t segment_tuples,
    uint32_t segment_count)
{
	struct dfi_target *targets[16];
	uint32_t consumed[16] = { 0 }, t;
	struct dfi_source *source;

	make_table(&table, keys);
	create_flow(&table, segment_tuples,
	    segment_count ? segment_count : N_TUPLES / segment_tuples + 2);
	for (t = 0; t < table.n_targets; t++)
		targets[t] = open_target(rig.dfi, "partition", t, DFI_NONBLOCK);
	source = open_source(rig.dfi, "partition", 0, DFI_NONBLOCK);
	if (segment_count)
		push_and_consume(&table, source, targets, consumed);
	else
		push_table(&table, source);
	cr_assert_eq(dfi_source_close(source), 0);
	for (t = 0; t < table.n_targets; t++) {
		expect_share(&table, targets[t], t, consumed[t]);
		cr_assert_eq(dfi_target_close(targets[t]), 0);
	}
	cr_assert_eq(dfi_flow_remove(rig.dfi, "partition"), 0);
	free(table.tuples);
}

static void run_sizes(uint32_t routing, uint32_t n_targets, enum keys keys)
{
	static const uint32_t sizes[] = { 8, 12, 16, 20, 24, 28, 32, 40, 64 };
	struct table table = { .n_targets = n_targets, .routing = routing };
	size_t i, n_sizes = N_ELEMENTS(sizes);
	size_t wanted = test_setting("PARTITION_SIZES", n_sizes);
	size_t step = wanted && wanted < n_sizes ? n_sizes / wanted : 1;

	for (i = 0; i < n_sizes; i += step) {
		table.tuple_size = sizes[i];
		table.key_offset = sizes[i] >= KEY_OFFSET + sizeof(uint64_t)
		    ? KEY_OFFSET
		    : 0;
		run(table, keys, 1000, 0);
		run(table, keys, 7, 0);
		run(table, keys, 50, 2);
		run(table, keys, 20, 3);
	}
}

Test(partition, every_target_gets_its_share_in_order)
{
	static const uint32_t n_targets[] = { 2, 3, 8, 9, 16 };
	size_t i;

	for (i = 0; i < N_ELEMENTS(n_targets); i++) {
		run_sizes(DFI_ROUTE_HASH, n_targets[i], KEYS_RANDOM);
		run_sizes(DFI_ROUTE_RADIX, n_targets[i], KEYS_RANDOM);
	}
}

Test(partition, one_target_may_get_all)
{
	run_sizes(DFI_ROUTE_HASH, 4, KEYS_EQUAL);
	run_sizes(DFI_ROUTE_HASH, 4, KEYS_BY_CHANCE);
	run_sizes(DFI_ROUTE_RADIX, 8, KEYS_EQUAL);
}

Test(partition, hash_without_its_last_step_names_the_same_partition)
{
	struct rng rng = { .state = 1 };
	uint32_t n, i;
	uint64_t key;

	for (i = 0; i < 100000; i++) {
		key = rng_next(&rng) >> rng_below(&rng, 64);
		n = 1 + rng_below(&rng, UINT32_MAX);
		cr_assert_eq(dfi_hash64_partition(key, n),
		    dfi_hash_partition(dfi_hash64(key), n));
	}
}

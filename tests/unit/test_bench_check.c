/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The basis of dfi-bench --verify: flow_check() accepts exactly the sequence
 * that a source sends to a target, and no damaged, lost, repeated, reordered or
 * misrouted tuple.
 */
#include <criterion/criterion.h>
#include <dfi/dfi.h>
#include <string.h>

#include "bench/flow_job.h"

#define WORDS 2
#define SOURCES 2

static struct plan plan;
static uint64_t next[SOURCES];
static struct receiver receiver;
static uint64_t tuple[WORDS];

static void set_up(void)
{
	plan = (struct plan){
		.api = API_PUSH,
		.routing = DFI_ROUTE_HASH,
		.n_sources = SOURCES,
		.n_targets = 1,
		.n_target_threads = 1,
		.tuple_size = sizeof(tuple),
	};
	memset(next, 0, sizeof(next));
	receiver = (struct receiver){
		.n_targets = 1,
		.plan = &plan,
		.next = next,
	};
}

TestSuite(flow_check, .init = set_up);

/* Number i of a source's tuples. */
static uint64_t key_of(uint32_t source, uint64_t i)
{
	return source_first_word(source) + i * WORDS;
}

static bool accepts(uint32_t source, uint64_t i)
{
	tuple_make(tuple, sizeof(tuple), key_of(source, i));
	return flow_check(&receiver, 0, (const char *)tuple, ANY_SOURCE);
}

Test(flow_check, accepts_each_sources_sequence)
{
	uint64_t i;

	for (i = 0; i < 100; i++) {
		cr_assert(accepts(0, i));
		cr_assert(accepts(1, i));
	}
}

Test(flow_check, refuses_a_lost_tuple)
{
	cr_assert(accepts(0, 0));
	cr_assert_not(accepts(0, 2));
}

Test(flow_check, refuses_a_repeated_tuple)
{
	cr_assert(accepts(0, 0));
	cr_assert_not(accepts(0, 0));
}

Test(flow_check, accepts_only_the_source_of_its_pair)
{
	plan.n_targets = plan.n_target_threads = SOURCES;
	plan.routing = DFI_ROUTE_DIRECT;
	plan.paired = 1;
	receiver.thread = 1;
	cr_assert(accepts(1, 0));
	cr_assert(accepts(1, 1));
	cr_assert_not(accepts(0, 0));
	cr_assert_not(accepts(1, 3));
}

Test(flow_check, refuses_a_source_that_does_not_exist)
{
	cr_assert_not(accepts(SOURCES, 0));
}

Test(flow_check, refuses_a_damaged_tuple)
{
	tuple_make(tuple, sizeof(tuple), key_of(0, 0));
	tuple[1]++;
	cr_assert_not(
	    flow_check(&receiver, 0, (const char *)tuple, ANY_SOURCE));
}

Test(flow_check, accepts_tuples_of_any_size_and_checks_their_last_bytes)
{
	uint64_t large[3];
	uint32_t size;

	for (size = 8; size <= sizeof(large); size++) {
		plan.tuple_size = size;
		memset(next, 0, sizeof(next));
		tuple_make(large, size, source_first_word(1));
		cr_assert(
		    flow_check(&receiver, 0, (const char *)large, ANY_SOURCE));
		tuple_make(large, size, source_first_word(1) + size / 8);
		((char *)large)[size - 1] ^= 1;
		cr_assert_not(
		    flow_check(&receiver, 0, (const char *)large, ANY_SOURCE));
	}
}

/* Number i of any source's tuples, of plan.tuple_size, from a source. */
static bool accepts_small(uint32_t source, uint64_t i)
{
	tuple_make(tuple, plan.tuple_size, source_first_word(1) + i);
	return flow_check(&receiver, 0, (const char *)tuple, source);
}

Test(flow_check, accepts_each_sources_small_tuples_beyond_their_largest_count)
{
	uint64_t i;

	for (plan.tuple_size = 1; plan.tuple_size < 8; plan.tuple_size++) {
		memset(next, 0, sizeof(next));
		for (i = 0; i < 300; i++) {
			cr_assert(accepts_small(0, i));
			cr_assert(accepts_small(1, i));
		}
		cr_assert_not(accepts_small(0, 301));
		cr_assert_not(accepts_small(1, 299));
		cr_assert_not(accepts_small(SOURCES, 0));
	}
}

Test(flow_check, knows_the_only_source_of_small_tuples)
{
	plan.n_sources = 1;
	plan.tuple_size = 3;
	cr_assert(accepts_small(ANY_SOURCE, 0));
	cr_assert_not(accepts_small(ANY_SOURCE, 2));
}

Test(flow_check, only_wants_small_tuples_of_any_source_to_be_whole)
{
	plan.tuple_size = 3;
	cr_assert(accepts_small(ANY_SOURCE, 7));
	tuple_make(tuple, 3, 7);
	((char *)tuple)[2] ^= 1;
	cr_assert_not(
	    flow_check(&receiver, 0, (const char *)tuple, ANY_SOURCE));
}

Test(flow_check, routes_small_tuples_by_their_few_bytes)
{
	uint64_t i, mine = 0;

	plan.n_targets = plan.n_target_threads = 3;
	plan.tuple_size = 1;
	receiver.thread = 1;
	for (i = 0; i < 1000; i++)
		if (dfi_hash_partition(dfi_hash64(i % 256), 3) == 1) {
			cr_assert(accepts_small(0, i));
			mine++;
		}
	cr_assert_gt(mine, 200u);
	for (i = 0; dfi_hash_partition(dfi_hash64(i % 256), 3) == 1;)
		i++;
	cr_assert_not(accepts_small(0, i));
}

Test(flow_check, refuses_all_at_a_target_that_no_small_tuple_goes_to)
{
	uint32_t reached[1000] = { 0 }, i;

	plan.n_targets = plan.n_target_threads = 1000;
	plan.tuple_size = 1;
	for (i = 0; i < 256; i++)
		reached[dfi_hash_partition(dfi_hash64(i), 1000)]++;
	for (receiver.thread = 0; reached[receiver.thread];)
		receiver.thread++;
	for (i = 0; i < 256; i++)
		cr_assert_not(accepts_small(0, i));
}

Test(plan, expects_the_sum_of_small_tuples_of_a_table_that_repeats)
{
	struct pattern pattern = pattern_from(0);
	struct word_sum sum;
	char at[16];
	uint64_t i, table;

	plan.api = API_BATCH;
	for (plan.tuple_size = 1; plan.tuple_size < 8; plan.tuple_size++) {
		table = plan_table_tuples(&plan);
		plan.tuples = 2 * table + 100;
		sum = (struct word_sum){ 0 };
		for (i = 0; i < plan.tuples; i++) {
			if (i % table == 0)
				pattern = pattern_from(source_first_word(1));
			tuple_fill(at, plan.tuple_size, &pattern);
			tuple_sum(at, plan.tuple_size, &sum);
		}
		cr_assert_eq(word_sum_total(&sum), plan_source_sum(&plan, 1),
		    "%u bytes", plan.tuple_size);
	}
}

Test(sums, of_four_bytes_begin_again_at_their_largest_count)
{
	uint64_t largest = UINT32_MAX;

	cr_assert_eq(tuple_sum_expected(4, largest - 1, 5),
	    largest - 1 + largest + 0 + 1 + 2);
	cr_assert_eq(tuple_sum_expected(4, 0, largest + 3),
	    tuple_sum_expected(4, 0, largest + 1) + 1);
}

/* The sums of targets equal the plan's, for tuples of any size. */
Test(plan, expects_the_sum_of_tuples_of_any_size)
{
	struct pattern pattern;
	struct word_sum sum;
	char at[100];
	uint64_t i;

	for (plan.tuple_size = 1; plan.tuple_size <= sizeof(at);
	     plan.tuple_size++) {
		plan.tuples = 1000;
		sum = (struct word_sum){ 0 };
		pattern = pattern_from(source_first_word(1));
		for (i = 0; i < plan.tuples; i++) {
			tuple_fill(at, plan.tuple_size, &pattern);
			tuple_sum(at, plan.tuple_size, &sum);
		}
		cr_assert_eq(word_sum_total(&sum), plan_source_sum(&plan, 1),
		    "%u bytes", plan.tuple_size);
	}
}

static uint32_t target_of(uint64_t i)
{
	return dfi_hash_partition(dfi_hash64(key_of(0, i)), plan.n_targets);
}

Test(flow_check, skips_what_is_routed_elsewhere_and_nothing_else)
{
	uint64_t i, mine = 0;

	plan.n_targets = 3;
	plan.n_target_threads = 3;
	receiver.thread = 1;
	for (i = 0; i < 1000; i++)
		if (target_of(i) == 1) {
			cr_assert(accepts(0, i));
			mine++;
		}
	cr_assert_gt(mine, 200u);
}

Test(flow_check, refuses_a_misrouted_tuple)
{
	uint64_t i = 0;

	plan.n_targets = 3;
	plan.n_target_threads = 3;
	receiver.thread = 1;
	while (target_of(i) == 1)
		i++;
	cr_assert_not(accepts(0, i));
}

Test(flow_check, wants_every_tuple_where_all_go_to_all_targets)
{
	uint64_t i;

	plan.n_targets = 3;
	plan.n_target_threads = 3;
	plan.replicates = 1;
	receiver.thread = 1;
	for (i = 0; i < 100; i++)
		cr_assert(accepts(0, i));
	cr_assert_not(accepts(0, 101));
}

Test(flow_check, starts_again_with_the_table)
{
	uint64_t i, n;

	plan.api = API_BATCH;
	n = plan_table_tuples(&plan);
	for (i = 0; i < n; i++)
		cr_assert(accepts(0, i));
	cr_assert(accepts(0, 0));
	cr_assert_not(accepts(0, n));
}

Test(flow_check, wants_ascending_tuples_where_the_application_routes)
{
	plan.api = API_CLAIM;
	plan.routing = DFI_ROUTE_DIRECT;
	plan.n_targets = 2;
	cr_assert(accepts(0, 3));
	cr_assert(accepts(0, 7));
	cr_assert_not(accepts(0, 7));
	cr_assert_not(accepts(0, 6));
}

Test(sums, closed_form_agrees_with_adding)
{
	struct word_sum sum = { 0 };
	struct pattern pattern;
	char memory[1000];
	size_t size, i;

	for (size = 8; size <= 200; size += 8) {
		pattern = pattern_from(source_first_word(3));
		sum = (struct word_sum){ 0 };
		for (i = 0; i < 5; i++)
			tuple_fill(memory + i * size, size, &pattern);
		for (i = 0; i < 5; i++)
			tuple_sum(memory + i * size, size, &sum);
		cr_assert_eq(word_sum_total(&sum),
		    word_sum_expected(source_first_word(3), 5 * size / 8));
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derived from a plan alone: the tables that sources push from, and the sums
 * that the targets must get.
 */
#include "plan.h"

#include <stdlib.h>

/* It fits the cache, and its partitions are large enough to be even. */
#define TABLE_BYTES (UINT64_C(256) << 10)
#define TABLE_MIN_TUPLES 64

/* For the words of jobs that need only a few. */
#define LINES_SIZE 8192

/* More than the caches hold. */
#define FOLD_BYTES (UINT64_C(128) << 20)

uint64_t plan_table_tuples(const struct plan *plan)
{
	uint64_t tuples = TABLE_BYTES / plan->tuple_size;

	return tuples < TABLE_MIN_TUPLES ? TABLE_MIN_TUPLES : tuples;
}

char *plan_make_table(const struct plan *plan, uint32_t source)
{
	struct pattern pattern = pattern_from(source_first_word(source));
	size_t size = plan->tuple_size;
	uint64_t i, n = plan_table_tuples(plan);
	char *table = aligned_alloc(64, (n * size + 63) / 64 * 64);

	for (i = 0; table && i < n; i++)
		tuple_fill(table + i * size, size, &pattern);
	return table;
}

uint64_t plan_tables_size(const struct plan *plan)
{
	return plan->api == API_BATCH
	    ? plan->n_sources * plan_table_tuples(plan) * plan->tuple_size
	    : 0;
}

uint64_t plan_data_size(const struct plan *plan)
{
	switch (plan->job) {
	case JOB_RAW:
		return plan_rings_size(plan);
	case JOB_COPY:
		return 2 * raw_ring_size(&plan->geometry, 1);
	case JOB_ECHO_RAW:
		return plan->echo == ECHO_RING
		    ? 2 * plan_echo_slot(plan) * plan->geometry.segment_count
		    : LINES_SIZE;
	case JOB_FETCH_ADD:
	case JOB_RIVAL:
		return LINES_SIZE;
	default:
		return 0;
	}
}

uint64_t plan_value_sum(uint32_t tuple_size, uint64_t first_word, uint64_t n)
{
	/*
	 * Each tuple adds one word to the sum: first + 1, + words, + words...
	 */
	return n * (first_word + 1) + tuple_size / 8 * word_sum_expected(0, n);
}

uint64_t plan_fold_tuples(const struct plan *plan)
{
	uint64_t n = FOLD_BYTES / plan->tuple_size;

	return n < plan->tuples ? n : plan->tuples;
}

static uint64_t fold_sum(const struct plan *plan, uint64_t first)
{
	uint64_t n = plan_fold_tuples(plan);

	return plan->tuples / n * plan_value_sum(plan->tuple_size, first, n) +
	    plan_value_sum(plan->tuple_size, first, plan->tuples % n);
}

uint64_t plan_source_sum(const struct plan *plan, uint32_t source)
{
	uint64_t first = source_first_word(source);
	size_t size = plan->tuple_size;
	uint64_t tails = plan->tuples * tuple_tail(size);
	uint64_t table, laps;

	if (plan->job == JOB_COMBINE)
		return plan_value_sum(plan->tuple_size, first, plan->tuples);
	if (plan->job == JOB_FOLD)
		return fold_sum(plan, first);
	if (plan->api != API_BATCH)
		return tuple_sum_expected(size, first, plan->tuples) + tails;
	table = plan_table_tuples(plan);
	laps = plan->tuples / table;
	return laps * tuple_sum_expected(size, first, table) +
	    tuple_sum_expected(size, first, plan->tuples % table) + tails;
}

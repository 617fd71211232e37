/* SPDX-License-Identifier: Apache-2.0 */
/* Distributions of keys: the shares of records, and YCSB's constants. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "examples/consensus/load_keys.h"

#define DRAWS 1000000

/* How often each of n records is drawn. */
static uint32_t *count_draws(struct load_keys *keys, uint64_t n)
{
	uint32_t *counts = calloc(n, sizeof(*counts));
	uint64_t record;
	int i;

	cr_assert_not_null(counts);
	for (i = 0; i < DRAWS; i++) {
		record = load_keys_next(keys);
		cr_assert_lt(record, n);
		counts[record]++;
	}
	return counts;
}

static void assert_share(uint32_t count, double share)
{
	double expected = DRAWS * share;

	/* Six standard deviations. */
	cr_assert_float_eq(count, expected, 6 * sqrt(expected) + 1,
	    "%u draws, expected %.0f", count, expected);
}

Test(load_keys, uniform_records_are_equally_frequent)
{
	struct load_keys keys;
	uint32_t *counts;
	uint32_t i;

	load_keys_init(&keys, LOAD_UNIFORM, 100, 0, 1);
	counts = count_draws(&keys, 100);
	for (i = 0; i < 100; i++)
		assert_share(counts[i], 0.01);
	free(counts);
}

Test(load_keys, zeta_is_the_constant_of_ycsb)
{
	/* ScrambledZipfianGenerator.ZETAN, for 10^10 items. */
	cr_assert_float_eq(
	    load_zeta(UINT64_C(10000000000), 0.99), 26.46902820178302, 1e-9);
}

Test(load_keys, zeta_is_the_sum_of_its_terms)
{
	uint64_t sizes[] = { 1, 2, 999, 1000, 1001, 5000 }, n;
	double thetas[] = { 0, 0.5, 0.99 }, sum;
	size_t i, k;

	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (k = 0; k < sizeof(thetas) / sizeof(*thetas); k++) {
			for (sum = 0, n = 1; n <= sizes[i]; n++)
				sum += pow((double)n, -thetas[k]);
			cr_assert_float_eq(
			    load_zeta(sizes[i], thetas[k]), sum, 1e-9 * sum);
		}
	}
}

Test(load_keys, zipf_ranks_have_the_shares_of_their_formula)
{
	struct load_random random = { .state = 7 };
	struct load_zipf zipf;
	uint32_t counts[2] = { 0 }, upper = 0;
	uint64_t rank;
	double zeta;
	int i;

	load_zipf_init(&zipf, 1000, 0.99);
	for (i = 0; i < DRAWS; i++) {
		rank = load_zipf_next(&zipf, &random);
		cr_assert_lt(rank, 1000);
		if (rank < 2)
			counts[rank]++;
		if (rank >= 500)
			upper++;
	}
	zeta = load_zeta(1000, 0.99);
	assert_share(counts[0], 1 / zeta);
	assert_share(counts[1], pow(2, -0.99) / zeta);
	/* Behind the first two the method is an approximation. */
	cr_assert_float_eq(
	    upper / (DRAWS * (1 - load_zeta(500, 0.99) / zeta)), 1, 0.05);
}

static int descending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x < y) - (x > y);
}

/* The popular ones are not neighbours, and their share is rank 0's of 10^10. */
Test(load_keys, scrambled_zipf_spreads_popular_records)
{
	struct load_keys keys;
	uint32_t *counts, hottest = 0, i;

	load_keys_init(&keys, LOAD_ZIPF, 10000, 0.99, 1);
	counts = count_draws(&keys, 10000);
	for (i = 0; i < 10000; i++)
		if (counts[i] > counts[hottest])
			hottest = i;
	/* YCSB's FNV hash of rank 0, as its Java computes it. */
	cr_assert_eq(hottest, UINT64_C(6284781860667377211) % 10000);
	/* Some other ranks fall on it as well. */
	cr_assert_float_eq(
	    counts[hottest] / (double)DRAWS, 1 / 26.46902820178302, 0.003);
	cr_assert_lt(counts[hottest + 1], counts[hottest] / 4);
	qsort(counts, 10000, sizeof(*counts), descending);
	cr_assert_gt(counts[9999], 0, "each record is asked for");
	free(counts);
}

Test(load_keys, a_seed_gives_the_same_records_again)
{
	struct load_keys a, b, other;
	int i, equal = 0;

	load_keys_init(&a, LOAD_ZIPF, 1000000, 0.99, 42);
	load_keys_init(&b, LOAD_ZIPF, 1000000, 0.99, 42);
	load_keys_init(&other, LOAD_UNIFORM, 1000000, 0.99, 43);
	for (i = 0; i < 1000; i++) {
		uint64_t record = load_keys_next(&a);

		cr_assert_eq(record, load_keys_next(&b));
		equal += record == load_keys_next(&other);
	}
	cr_assert_lt(equal, 10);
}

Test(load_keys, keys_are_texts_of_one_size)
{
	char text[LOAD_KEY_SIZE + 1] = { 0 };

	load_key_text(text, 0);
	cr_assert_str_eq(text, "user000000000000");
	load_key_text(text, LOAD_MAX_RECORDS - 1);
	cr_assert_str_eq(text, "user999999999999");
	load_key_text(text, 1234567);
	cr_assert_str_eq(text, "user000001234567");
}

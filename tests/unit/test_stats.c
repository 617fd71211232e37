/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic behind dfi-bench's reports: medians, ratios and percentiles
 * against values that are known or computed the slow way.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/stats.h"

static struct histogram histogram, other;

static void assert_near(double value, double expected, double tolerance)
{
	cr_assert_leq(fabs(value - expected), tolerance, "%f is not near %f",
	    value, expected);
}

Test(stats, median_of_an_odd_number_is_the_middle_one)
{
	const double values[] = { 9, 1, 5 };
	struct summary summary = stats_summary(values, 3);

	cr_assert_eq(summary.median, 5);
	cr_assert_eq(summary.min, 1);
	cr_assert_eq(summary.max, 9);
}

Test(stats, median_of_an_even_number_is_between_the_middle_ones)
{
	const double values[] = { 4, 1, 3, 100 };

	cr_assert_eq(stats_summary(values, 4).median, 3.5);
}

Test(stats, a_summary_leaves_the_values_as_they_are)
{
	const double values[] = { 3, 2, 1 };

	stats_summary(values, 3);
	cr_assert_eq(values[0], 3);
	cr_assert_eq(values[2], 1);
}

Test(stats, one_value_is_its_own_median_and_none_is_zero)
{
	const double value = 7;

	cr_assert_eq(stats_summary(&value, 1).median, 7);
	cr_assert_eq(stats_summary(&value, 0).median, 0);
	cr_assert_eq(stats_summary(NULL, 0).max, 0);
}

Test(stats, ratio_is_the_median_of_pairs_not_the_ratio_of_medians)
{
	/* All of a pair's rounds are slow at once: the ratio stays 1/2. */
	const double values[] = { 1, 10, 100 };
	const double others[] = { 2, 20, 400 };

	cr_assert_eq(stats_ratio(values, others, 3), 0.5);
}

Test(stats, ratio_leaves_out_pairs_without_a_baseline)
{
	const double values[] = { 1, 2, 3 };
	const double others[] = { 0, 4, 6 };

	cr_assert_eq(stats_ratio(values, others, 3), 0.5);
	cr_assert_eq(stats_ratio(values, others, 1), 0);
}

Test(histogram, buckets_ascend_without_gaps)
{
	uint64_t value;
	unsigned shift;

	for (value = 0; value < 100000; value++)
		cr_assert_leq(
		    histogram_bucket(value + 1) - histogram_bucket(value), 1u);
	for (shift = 1; shift < 64; shift++)
		cr_assert_leq(histogram_bucket(UINT64_C(1) << shift) -
			histogram_bucket((UINT64_C(1) << shift) - 1),
		    1u);
	cr_assert_eq(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

Test(histogram, small_values_are_exact)
{
	uint64_t value;

	for (value = 1; value <= 200; value++)
		histogram_add(&histogram, value);
	cr_assert_eq(histogram.count, 200u);
	cr_assert_eq(histogram_percentile(&histogram, 0.5), 100);
	cr_assert_eq(histogram_percentile(&histogram, 0.99), 198);
	cr_assert_eq(histogram_percentile(&histogram, 0), 1);
	cr_assert_eq(histogram_percentile(&histogram, 1), 200);
}

Test(histogram, one_value_is_every_percentile)
{
	histogram_add(&histogram, 123457);
	cr_assert_eq(histogram_percentile(&histogram, 0.001), 123457);
	cr_assert_eq(histogram_percentile(&histogram, 0.999), 123457);
}

Test(histogram, extremes_fit)
{
	histogram_add(&histogram, 0);
	histogram_add(&histogram, UINT64_MAX);
	cr_assert_eq(histogram_percentile(&histogram, 0.5), 0);
	assert_near(
	    histogram_percentile(&histogram, 1) / (double)UINT64_MAX, 1, 0.004);
}

Test(histogram, an_empty_one_has_percentile_zero)
{
	cr_assert_eq(histogram_percentile(&histogram, 0.5), 0);
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Values over many powers of two, from a fixed seed. */
static void make_values(uint64_t *values, size_t n)
{
	uint64_t state = 88172645463325252u;
	size_t i;

	for (i = 0; i < n; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		values[i] = state >> (20 + state % 40);
	}
}

Test(histogram, percentiles_agree_with_sorting)
{
	static const double fractions[] = { 0.01, 0.25, 0.5, 0.9, 0.99, 0.999 };
	static uint64_t values[20000];
	const size_t n = sizeof(values) / sizeof(values[0]);
	double exact, found;
	size_t i;

	make_values(values, n);
	for (i = 0; i < n; i++)
		histogram_add(&histogram, values[i]);
	qsort(values, n, sizeof(values[0]), compare);
	for (i = 0; i < sizeof(fractions) / sizeof(fractions[0]); i++) {
		exact =
		    (double)values[(size_t)ceil(fractions[i] * (double)n) - 1];
		found = histogram_percentile(&histogram, fractions[i]);
		assert_near(found, exact, exact * 0.004);
	}
}

Test(histogram, merging_is_adding_all)
{
	static struct histogram all;
	uint64_t i;

	for (i = 0; i < 1000; i++) {
		histogram_add(i % 3 ? &histogram : &other, i * i);
		histogram_add(&all, i * i);
	}
	histogram_merge(&histogram, &other);
	cr_assert_arr_eq(&histogram, &all, sizeof(all));
}

Test(histogram, merging_an_empty_one_changes_nothing)
{
	histogram_add(&histogram, 5);
	histogram_merge(&histogram, &other);
	cr_assert_eq(histogram.min, 5u);
	cr_assert_eq(histogram.count, 1u);
	histogram_merge(&other, &histogram);
	cr_assert_eq(other.min, 5u);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The confidence intervals of dfi-bench compare, with invented rounds. */
#include <criterion/criterion.h>

#include "bench/interval.h"

#define N 21

/* Rounds around a value, none further away than a share of it. */
static void fill(double values[N], double around, double share)
{
	for (int i = 0; i < N; i++)
		values[i] = around * (1 + share * (i * 8 % N - 10) / 10);
}

static struct interval compare(double value, double other, double share)
{
	double values[N], others[N];

	fill(values, value, share);
	fill(others, other, share);
	return interval_of_medians(values, N, others, N);
}

Test(bench_interval, interval_of_one_value_each_is_their_ratio)
{
	const double three = 3, two = 2;
	struct interval interval = interval_of_medians(&three, 1, &two, 1);

	cr_assert_eq(interval.ratio, 1.5);
	cr_assert_eq(interval.low, 1.5);
	cr_assert_eq(interval.high, 1.5);
}

Test(bench_interval, interval_is_the_same_each_time)
{
	struct interval first = compare(10, 9, 0.2);
	struct interval second = compare(10, 9, 0.2);

	cr_assert_eq(first.low, second.low);
	cr_assert_eq(first.high, second.high);
}

Test(bench_interval, interval_has_the_ratio_and_grows_with_the_spread)
{
	struct interval narrow = compare(10, 8, 0.01);
	struct interval wide = compare(10, 8, 0.1);

	cr_assert_float_eq(narrow.ratio, 1.25, 1e-9);
	cr_assert_lt(narrow.low, 1.25);
	cr_assert_gt(narrow.high, 1.25);
	cr_assert_lt(wide.low, narrow.low);
	cr_assert_gt(wide.high, narrow.high);
}

/*
 * 21 uniform rounds within 10 % have a median that is off by less than about 5
 * %: 0.04 x sqrt(2) for the ratio is a third of the range below.
 */
Test(bench_interval, interval_is_neither_empty_nor_the_whole_range)
{
	struct interval interval = compare(1, 1, 0.1);

	cr_assert_gt(interval.high - interval.low, 0.02);
	cr_assert_lt(interval.high - interval.low, 0.2);
}

Test(bench_interval, verdict_needs_the_whole_interval)
{
	static const struct {
		struct interval interval;
		enum verdict_of_pair verdict;
	} cases[] = {
		{ { 0.95, 0.93, 0.97 }, PAIR_SLOWER },
		{ { 0.97, 0.95, 0.99 }, PAIR_UNCLEAR },
		{ { 1.00, 0.98, 1.02 }, PAIR_SAME },
		{ { 1.00, 0.97, 1.03 }, PAIR_UNCLEAR },
		{ { 1.03, 1.01, 1.05 }, PAIR_UNCLEAR },
		{ { 1.05, 1.03, 1.07 }, PAIR_FASTER },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_assert_eq(interval_judge(&cases[i].interval, 0.02),
		    cases[i].verdict, "case %zu", i);
}

Test(bench_interval, small_change_shows_above_small_noise_only)
{
	struct interval quiet = compare(0.95, 1, 0.01);
	struct interval noisy = compare(0.95, 1, 0.3);

	cr_assert_eq(interval_judge(&quiet, 0.02), PAIR_SLOWER);
	cr_assert_eq(interval_judge(&noisy, 0.02), PAIR_UNCLEAR);
}

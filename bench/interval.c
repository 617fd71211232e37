/* SPDX-License-Identifier: Apache-2.0 */
/* Confidence intervals by bootstrap. Pure functions. */
#include "interval.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../common/stats.h"

enum {
	DRAWS = 2000,
	OUTSIDE = DRAWS / 40, /* at each end: 2.5 % */
};

static int compare_doubles(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

static size_t below(uint64_t *state, size_t n)
{
	*state = *state * UINT64_C(6364136223846793005) +
	    UINT64_C(1442695040888963407);
	return (size_t)((*state >> 33) % n);
}

/* The median of as many values, each drawn from all. */
static double drawn_median(uint64_t *state, const double *values, size_t n)
{
	double drawn[STATS_MAX_VALUES];
	size_t i;

	for (i = 0; i < n; i++)
		drawn[i] = values[below(state, n)];
	return stats_summary(drawn, n).median;
}

struct interval interval_of_medians(
    const double *values, size_t n, const double *others, size_t n_others)
{
	double ratios[DRAWS], other;
	uint64_t state = 1;
	size_t i;

	for (i = 0; i < DRAWS; i++) {
		other = drawn_median(&state, others, n_others);
		ratios[i] = drawn_median(&state, values, n) / other;
	}
	qsort(ratios, DRAWS, sizeof(*ratios), compare_doubles);
	return (struct interval){
		.ratio = stats_summary(values, n).median /
		    stats_summary(others, n_others).median,
		.low = ratios[OUTSIDE],
		.high = ratios[DRAWS - 1 - OUTSIDE],
	};
}

enum verdict_of_pair interval_judge(
    const struct interval *interval, double tolerance)
{
	if (interval->high < 1 - tolerance)
		return PAIR_SLOWER;
	if (interval->low > 1 + tolerance)
		return PAIR_FASTER;
	return interval->low >= 1 - tolerance && interval->high <= 1 + tolerance
	    ? PAIR_SAME
	    : PAIR_UNCLEAR;
}

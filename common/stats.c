/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Medians and percentiles. Nothing here measures, allocates or prints, so that
 * tests/unit/test_stats.c can check every number that a report shows.
 */
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

struct summary stats_summary(const double *values, size_t n)
{
	double sorted[STATS_MAX_VALUES];
	size_t middle;

	if (n > STATS_MAX_VALUES)
		n = STATS_MAX_VALUES;
	if (!n)
		return (struct summary){ 0 };
	memcpy(sorted, values, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_doubles);
	middle = n / 2;
	return (struct summary){
		.median = n % 2 ? sorted[middle]
				: (sorted[middle - 1] + sorted[middle]) / 2,
		.min = sorted[0],
		.max = sorted[n - 1],
	};
}

double stats_ratio(const double *values, const double *others, size_t n)
{
	double ratios[STATS_MAX_VALUES];
	size_t i, used = 0;

	for (i = 0; i < n && used < STATS_MAX_VALUES; i++)
		if (others[i] > 0)
			ratios[used++] = values[i] / others[i];
	return stats_summary(ratios, used).median;
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
	size_t i;

	if (!from->count)
		return;
	if (!to->count || from->min < to->min)
		to->min = from->min;
	if (from->max > to->max)
		to->max = from->max;
	to->count += from->count;
	for (i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
}

double histogram_middle(unsigned bucket)
{
	unsigned shift;
	uint64_t lowest;

	if (bucket < (1u << (HISTOGRAM_SUB_BITS + 1)))
		return bucket;
	shift = (bucket >> HISTOGRAM_SUB_BITS) - 1;
	lowest = (uint64_t)(bucket - (shift << HISTOGRAM_SUB_BITS)) << shift;
	return (double)lowest + ((double)(UINT64_C(1) << shift) - 1) / 2;
}

double histogram_percentile(const struct histogram *histogram, double fraction)
{
	uint64_t rank, seen = 0;
	double value;
	unsigned i;

	if (!histogram->count)
		return 0;
	rank = (uint64_t)ceil(fraction * (double)histogram->count);
	if (rank < 1)
		rank = 1;
	if (rank > histogram->count)
		rank = histogram->count;
	for (i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
		seen += histogram->buckets[i];
		if (seen >= rank)
			break;
	}
	value = histogram_middle(i);
	if (value < (double)histogram->min)
		value = (double)histogram->min;
	if (value > (double)histogram->max)
		value = (double)histogram->max;
	return value;
}

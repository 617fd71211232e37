/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of the reports: order statistics of a few rounds, and a
 * histogram of many round trips. Pure functions.
 */
#ifndef COMMON_STATS_H
#define COMMON_STATS_H

#include <stddef.h>
#include <stdint.h>

/* The summary of a series of rounds; all 0 for an empty one. */
struct summary {
	double median, min, max;
};

/* Summarise n values, at most STATS_MAX_VALUES, without changing them. */
#define STATS_MAX_VALUES 1000
struct summary stats_summary(const double *values, size_t n);

/* The median of values[i] / others[i]: drift affects both of a pair alike. */
double stats_ratio(const double *values, const double *others, size_t n);

/*
 * A log-linear histogram: exact below 2^8, then 128 buckets for each power of
 * two, so a percentile is off by less than 0.4 %. All zero is empty.
 */
#define HISTOGRAM_SUB_BITS 7
#define HISTOGRAM_BUCKETS                                    \
	(((64 - HISTOGRAM_SUB_BITS) << HISTOGRAM_SUB_BITS) + \
	    (1 << HISTOGRAM_SUB_BITS))

struct histogram {
	uint64_t count;
	uint64_t min, max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

static inline unsigned histogram_bucket(uint64_t value)
{
	unsigned shift;

	if (value < (1u << (HISTOGRAM_SUB_BITS + 1)))
		return (unsigned)value;
	shift = 63u - HISTOGRAM_SUB_BITS - (unsigned)__builtin_clzll(value);
	return (shift << HISTOGRAM_SUB_BITS) + (unsigned)(value >> shift);
}

static inline void histogram_add(struct histogram *histogram, uint64_t value)
{
	if (!histogram->count || value < histogram->min)
		histogram->min = value;
	if (value > histogram->max)
		histogram->max = value;
	histogram->count++;
	histogram->buckets[histogram_bucket(value)]++;
}

/* The middle of the values of a bucket. */
double histogram_middle(unsigned bucket);

/* Add all values of from to to. */
void histogram_merge(struct histogram *to, const struct histogram *from);

/*
 * Returns the value that a fraction (0 to 1) of all values does not exceed: the
 * middle of its bucket, limited to the range of the values. 0 for an empty one.
 */
double histogram_percentile(const struct histogram *histogram, double fraction);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* How sure a comparison of two series of rounds is. */
#ifndef DFI_BENCH_INTERVAL_H
#define DFI_BENCH_INTERVAL_H

#include <stddef.h>

/* A ratio, and the interval that has the true one with 95 % confidence. */
struct interval {
	double ratio, low, high;
};

/*
 * The median of values over that of others, and its interval by bootstrap: both
 * series are drawn anew from their own values, many times. The same series give
 * the same interval. Both have 1 to STATS_MAX_VALUES positive values.
 */
struct interval interval_of_medians(
    const double *values, size_t n, const double *others, size_t n_others);

enum verdict_of_pair {
	PAIR_SAME,    /* the interval lies within the tolerance */
	PAIR_FASTER,  /* above it */
	PAIR_SLOWER,  /* below it */
	PAIR_UNCLEAR, /* across its bounds: it takes more rounds */
};

/* The ratio is of speeds. A tolerance of 0.02 is 2 %. */
enum verdict_of_pair interval_judge(
    const struct interval *interval, double tolerance);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Where DFI is ahead of what it is compared with, and where it is behind. */
#ifndef DFI_BENCH_STANDINGS_H
#define DFI_BENCH_STANDINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "experiments.h"

/* The rows of an experiment that are compared with the same baseline. */
struct standing {
	const struct experiment *experiment;
	const char *baseline;
	uint32_t n;
	/* How many times better DFI is; below 1 it is behind. */
	double worst, median, best;
};

/*
 * Whether more is better: a unit of a rate. Times, memory and shares of a
 * processor are better if they are less.
 */
bool unit_of_rate(const char *unit);

/*
 * Fill at most max standings from the rows of an experiment. Texts stay those
 * of the rows. Returns how many there are.
 */
uint32_t standings_of(const struct experiment *experiment, const json_t *rows,
    struct standing *standings, uint32_t max);

/* Sort by the median, the best first. */
void standings_sort(struct standing *standings, uint32_t n);

#endif

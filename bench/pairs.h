/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of two results that measured the same. */
#ifndef DFI_BENCH_PAIRS_H
#define DFI_BENCH_PAIRS_H

#include <jansson.h>
#include <stdbool.h>

#include "../common/stats.h"

/*
 * Read the rows of a file that a command printed with --json or that run wrote,
 * or of all files in a folder of run. Returns an object: the rows by what they
 * measured, in their order. NULL after a complaint.
 */
json_t *pairs_load(const char *path);

/* The rounds of a row, as speeds: more is better. */
struct rounds_of_row {
	double values[STATS_MAX_VALUES];
	size_t n; /* 0: the row does not have them */
};

/*
 * Those of a row. beside: divide each by its baseline's round, which came
 * directly before or after it.
 */
void pairs_rounds(const json_t *row, bool beside, struct rounds_of_row *rounds);

/* Whether both rows have rounds of one baseline. */
bool pairs_share_baseline(const json_t *old_row, const json_t *new_row);

#endif

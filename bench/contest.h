/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows in turns with rivals that bring the same tuples: a row for each
 * measure, tuple size and rival. A command is a table of measures.
 */
#ifndef DFI_BENCH_CONTEST_H
#define DFI_BENCH_CONTEST_H

#include "options.h"

#define MAX_RIVALS N_RIVALS

struct contest_measure {
	const char *unit; /* GB/s, or a time; NULL: the command lacks it */
	enum job_kind job;
	enum api api;
	uint32_t tuple_size; /* unless the options have some */
	enum rival_kind rivals[MAX_RIVALS];
	uint32_t n_rivals;
};

struct contest {
	const char *name; /* of the command */
	struct contest_measure measures[N_MEASURES];
	const struct column *columns;
};

/* Returns the exit status. */
int contest_run(
    const struct contest *contest, const struct rivals_options *options);

#endif

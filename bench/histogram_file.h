/* SPDX-License-Identifier: Apache-2.0 */
/* A file with all round trips of a benchmark, as comma-separated values. */
#ifndef DFI_BENCH_HISTOGRAM_FILE_H
#define DFI_BENCH_HISTOGRAM_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include "compare.h"

struct histogram_file {
	FILE *file; /* NULL: none was asked for */
	const char *name;
};

/* Create the file; name NULL: none. false after a complaint. */
bool histogram_file_open(struct histogram_file *file, const char *name);

/*
 * Add a line for each duration of a side, with its number of round trips. name
 * is the side's.
 */
void histogram_file_add(
    struct histogram_file *file, const char *name, const struct side *side);

/* Returns false after a complaint: it lacks lines. */
bool histogram_file_close(struct histogram_file *file);

#endif

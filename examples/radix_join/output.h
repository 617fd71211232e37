/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The joined rows as a CSV file.
 */
#ifndef RADIX_JOIN_OUTPUT_H
#define RADIX_JOIN_OUTPUT_H

#include <stdio.h>
#include "tables.h"

/* A column of the output. */
struct output_column {
	enum relation relation;
	uint32_t column;
};

struct output {
	const struct tables *tables;
	const char *file;
	FILE *stream;
	struct output_column *columns;
	uint32_t n_columns;
};

/*
 * Create the file and write its header, "inner.name" or "outer.name" for each
 * column. 0, or -1 after a complaint.
 */
int output_open(struct output *output, const struct tables *tables);

/* Write the row of a match. 0, or -1 after a complaint. */
int output_row(
    struct output *output, uint64_t inner_entry, uint64_t outer_entry);

/*
 * Close the file. If it is not complete, it is removed: half a result should
 * not look like a whole one. 0, or -1 after a complaint.
 */
int output_close(struct output *output, bool complete);

#endif

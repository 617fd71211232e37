/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The joined rows as a CSV file.
 */
#ifndef RADIX_JOIN_ROWS_H
#define RADIX_JOIN_ROWS_H

#include "../common/result_file.h"
#include "tables.h"

/* A column of the output. */
struct rows_column {
	enum relation relation;
	uint32_t column;
};

/* The entries of a joined row, one of each table. */
struct match {
	uint64_t entries[N_RELATIONS];
};

/*
 * With one column, nulls are empty lines. A CSV reader may not take an empty
 * last line for a row, so a row with a text is kept for the end.
 */
struct rows {
	const struct tables *tables;
	struct result_file file;
	struct rows_column *columns;
	uint32_t n_columns;
	bool has_last;
	struct match last; /* of one column, not null: written at the end */
};

/* Begin the file, before the tables are loaded. 0, or -1 after a complaint. */
int rows_open(struct rows *rows, const struct options *options);

/*
 * Write the header, "inner.name" or "outer.name" for each column. 0, or -1
 * after a complaint.
 */
int rows_begin(struct rows *rows, const struct tables *tables);

/* Write the row of a match. 0, or -1 after a complaint. */
int rows_write(struct rows *rows, uint64_t inner_entry, uint64_t outer_entry);

/*
 * Put a complete file in its place: half a result must not look like a whole
 * one. Returns 0, or -1 after a complaint.
 */
int rows_close(struct rows *rows, bool complete);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file's columns that a query needs, their types, and rows as tuples.
 * Columns that are aggregated are numbers; those that are grouped by are
 * integers or texts of as many bytes as the longest one.
 */
#ifndef AGGREGATE_COLUMNS_H
#define AGGREGATE_COLUMNS_H

#include <dfi/dfi.h>

#include "../common/csv_input.h"
#include "query.h"

enum column_type {
	COLUMN_ANY = 0, /* to be inferred */
	COLUMN_INTEGER, /* int64 */
	COLUMN_REAL,    /* double */
	COLUMN_TEXT,    /* bytes, filled up with zeros */
};

#define MAX_COLUMNS (2 * MAX_ITEMS)

struct column {
	const char *name;
	uint64_t number; /* in the file */
	enum column_type type;
	int is_key, is_number;
	char field[16]; /* its name in the schema: the file's may be odd */
};

struct relation {
	struct csv_table table;
	struct column columns[MAX_COLUMNS];
	uint32_t n_columns;
	struct dfi_field fields[MAX_COLUMNS];
	struct dfi_schema schema; /* columns, in their order */
};

/*
 * Load what the query needs. types is "name=integer,name=real,name=text", or
 * NULL; a column that isn't there has the first of these types that fits all of
 * its values. Integers in a column that is grouped by must be written as one
 * would print them; else they are texts. 0, or -1 after a complaint, which
 * names the line of a value that doesn't fit.
 */
int relation_load(
    const struct query *query, const char *types, struct relation *relation);
void relation_unload(struct relation *relation);

/* The field of a column: NULL if it isn't one of the query's. */
const char *relation_field(const struct relation *relation, const char *column);

/* Row number i as a tuple. */
void relation_tuple(const struct relation *relation, uint64_t i, char *tuple);

#endif

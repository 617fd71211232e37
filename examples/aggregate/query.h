/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one form of query that the example knows:
 *
 *	SELECT item, ... FROM file [GROUP BY column, ...]
 *
 * An item is a column that is grouped by, COUNT(*), or COUNT, SUM, MIN, MAX or
 * AVG of a column; AS gives it a name. Keywords and functions may be in small
 * letters. Names and files need "quotes" if they have characters other than
 * letters, digits and _ (in a file name also . / - and +).
 */
#ifndef AGGREGATE_QUERY_H
#define AGGREGATE_QUERY_H

#include <dfi/dfi.h>
#include <stdint.h>

#define MAX_ITEMS 64
#define MAX_KEYS 8
#define MAX_COLUMNS (MAX_KEYS + MAX_ITEMS)
#define MAX_NAME 128

/* The needs of the aggregates of a column. */
enum column_use {
	USE_NULLS = 1, /* how many values are not null: all of them need it */
	USE_SUM = 2,
	USE_MIN = 4,
	USE_MAX = 8,
};

/* A column that is both grouped by and aggregated is in the list twice. */
struct query_column {
	char name[MAX_NAME];
	uint32_t uses; /* enum column_use; 0: it is grouped by */
};

#define NO_COLUMN UINT32_MAX

struct query_item {
	uint32_t function;   /* enum dfi_aggregate_function; 0: a column */
	uint32_t column;     /* of the query's; NO_COLUMN: COUNT(*) */
	char name[MAX_NAME]; /* in the output */
};

struct query {
	struct query_item items[MAX_ITEMS];
	uint32_t n_items;
	struct query_column columns[MAX_COLUMNS]; /* grouped by: first */
	uint32_t n_columns;
	uint32_t n_keys; /* columns that are grouped by */
	char file[4096];
};

/* Returns 0, or -1 after a complaint with the place in the text. */
int query_parse(const char *text, struct query *query);

#endif

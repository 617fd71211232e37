/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one form of query that the example knows:
 *
 *	SELECT item, ... FROM file [GROUP BY column, ...]
 *
 * An item is a column that is grouped by, COUNT(*), or SUM, MIN, MAX or AVG of
 * a column; AS gives it a name. Keywords and functions may be in small letters.
 * Names and files stand for themselves, or in "quotes" if they have other
 * characters than letters, digits and _ (a file also . / - and +).
 */
#ifndef AGGREGATE_QUERY_H
#define AGGREGATE_QUERY_H

#include <dfi/dfi.h>
#include <stdint.h>

#define MAX_ITEMS 64
#define MAX_NAME 128

struct query_item {
	uint32_t function; /* enum dfi_aggregate_function; 0: a column */
	char column[MAX_NAME];
	char name[MAX_NAME]; /* in the output */
};

struct query {
	struct query_item items[MAX_ITEMS];
	uint32_t n_items;
	char keys[MAX_ITEMS][MAX_NAME];
	uint32_t n_keys;
	char file[4096];
};

/* 0, or -1 after a complaint that says where the text is wrong. */
int query_parse(const char *text, struct query *query);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the file's texts for flows: a group-by column becomes numbers of a
 * dictionary, an aggregated column becomes typed numbers.
 */
#ifndef AGGREGATE_COLUMNS_H
#define AGGREGATE_COLUMNS_H

#include "dictionary.h"
#include "query.h"
#include "rows.h"

/*
 * Read the query's file. Make sealed rows, and a dictionary for each group-by
 * column. types is "NAME=integer,NAME=real,..." or NULL. Without a type, a
 * group-by column is text, and an aggregated column has the first type that
 * fits all its values: int64, uint64, double. Returns 0, or -1 after a
 * complaint with the line of a value that doesn't fit.
 */
int columns_load(const struct query *query, const char *types,
    struct rows *rows, struct dictionary dictionaries[MAX_KEYS]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the file's texts to the words that flows take: what is grouped by
 * becomes numbers in dictionaries, what is aggregated becomes numbers with
 * types.
 */
#ifndef AGGREGATE_COLUMNS_H
#define AGGREGATE_COLUMNS_H

#include "dictionary.h"
#include "query.h"
#include "rows.h"

/*
 * Read the query's file and make its rows, which are sealed, and a dictionary
 * for each column that is grouped by. types is "NAME=integer,NAME=real,..." or
 * NULL. A column without a type that is grouped by is texts; one that is
 * aggregated has the first type that fits all values: int64, uint64, double. 0,
 * or -1 after a complaint, which names the line of a value that doesn't fit.
 */
int columns_load(const struct query *query, const char *types,
    struct rows *rows, struct dictionary dictionaries[MAX_KEYS]);

#endif

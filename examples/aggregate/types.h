/* SPDX-License-Identifier: Apache-2.0 */
/* The types that the user gives to columns of the query. */
#ifndef AGGREGATE_TYPES_H
#define AGGREGATE_TYPES_H

#include "query.h"

enum given_type {
	GIVEN_NONE = 0,
	GIVEN_INTEGER,
	GIVEN_REAL,
	GIVEN_TEXT,
};

/*
 * Parse "NAME=integer,NAME=real,NAME=text", or NULL. An aggregated column can't
 * be text; if it is also grouped by, only its group-by use is text. Returns 0,
 * or -1 after a complaint.
 */
int types_parse(const struct query *query, const char *types,
    enum given_type given[MAX_COLUMNS]);

#endif

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
 * From "NAME=integer,NAME=real,NAME=text", or NULL. What is aggregated can't be
 * text: a column that is grouped by as well is text there only. 0, or -1 after
 * a complaint.
 */
int types_parse(const struct query *query, const char *types,
    enum given_type given[MAX_COLUMNS]);

#endif

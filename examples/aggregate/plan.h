/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flow's aggregates for a query. A flow has no nulls and rounds sums of
 * reals, so each aggregate of the query is made of several of the flow:
 *
 * 	COUNT(*)         COUNT
 * 	COUNT(x)         SUM of a byte, 1 where x is not null
 * 	SUM(x), AVG(x)   SUM of each limb of x (exact_sum.h), 0 where it is null
 * 	MIN(x), MAX(x)   the same; a null is a value that never wins
 *
 * Where COUNT(x) is 0, the others are null.
 */
#ifndef AGGREGATE_PLAN_H
#define AGGREGATE_PLAN_H

#include <dfi/dfi.h>

#include "query.h"
#include "rows.h"

/* Aggregate 0 is COUNT(*), which needs no field; so 0 means none. */
struct plan_column {
	uint32_t count; /* 0: there are no nulls, so COUNT(*) */
	uint32_t limbs; /* the first of n_limbs */
	uint32_t min, max;
};

/* Aggregate i is of field n_keys + i - 1. */
struct plan {
	const struct query *query;
	const struct rows *rows;
	struct plan_column columns[MAX_COLUMNS];
	struct dfi_field fields[DFI_MAX_FIELDS];
	char names[DFI_MAX_FIELDS][16];
	uint32_t n_fields;
	struct dfi_schema schema;
	struct dfi_aggregate aggregates[DFI_MAX_AGGREGATES];
	uint32_t n_aggregates;
	char group_by[MAX_KEYS * 16];
};

/*
 * The query and its rows must outlive the plan. Returns 0, or -1 after a
 * complaint: there are too many aggregates.
 */
int plan_make(
    struct plan *plan, const struct query *query, const struct rows *rows);

/* Row number i as a tuple. */
void plan_tuple(const struct plan *plan, uint64_t i, char *tuple);

#endif

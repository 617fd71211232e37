/* SPDX-License-Identifier: Apache-2.0 */
/* Results as CSV on standard output. */
#ifndef AGGREGATE_OUTPUT_H
#define AGGREGATE_OUTPUT_H

#include <dfi/dfi.h>
#include "query.h"

void output_header(const struct query *query);

/* A result tuple: the keys, then the aggregates, in the query's order. */
void output_row(const struct query *query, const struct dfi_schema *schema,
    const char *tuple);

#endif

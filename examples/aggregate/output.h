/* SPDX-License-Identifier: Apache-2.0 */
/* Results as CSV on standard output. */
#ifndef AGGREGATE_OUTPUT_H
#define AGGREGATE_OUTPUT_H

#include "dictionary.h"
#include "plan.h"
#include "worker.h"

/*
 * Print all results, after a header. 0, or -1 after a complaint, and then
 * nothing is printed: a sum is too large.
 */
int output(const struct plan *plan, const struct results *results,
    const struct dictionary dictionaries[MAX_KEYS]);

#endif

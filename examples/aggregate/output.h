/* SPDX-License-Identifier: Apache-2.0 */
/* Results as CSV on standard output. */
#ifndef AGGREGATE_OUTPUT_H
#define AGGREGATE_OUTPUT_H

#include "dictionary.h"
#include "plan.h"
#include "worker.h"

/*
 * Print a header and all results. Returns 0, or -1 after a complaint if a sum
 * is too large; then it prints nothing.
 */
int output(const struct plan *plan, const struct results *results,
    const struct dictionary dictionaries[MAX_KEYS]);

#endif

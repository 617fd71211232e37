/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same join in the threads of one process, without flows: the comparison
 * for the flows.
 */
#ifndef RADIX_JOIN_BASELINE_H
#define RADIX_JOIN_BASELINE_H

#include "input.h"
#include "report.h"

/*
 * Join the input. Fills the outcome's result, times and, for synthetic input,
 * the expected result. Returns 0, or -1 after a complaint.
 */
int baseline_run(const struct options *options, const struct input *input,
    struct outcome *outcome);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same join in the threads of one process, without flows: what the flows
 * have to be compared with.
 */
#ifndef RADIX_JOIN_BASELINE_H
#define RADIX_JOIN_BASELINE_H

#include "input.h"
#include "report.h"

/*
 * Join the input; fills the outcome's result, times and, for synthetic input,
 * what is expected. 0, or -1 after a complaint.
 */
int baseline_run(const struct options *options, const struct input *input,
    struct outcome *outcome);

#endif

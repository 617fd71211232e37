/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first process of a join over flows: it starts the nodes, gives the start
 * signal, and collects the results.
 */
#ifndef RADIX_JOIN_COORDINATOR_H
#define RADIX_JOIN_COORDINATOR_H

#include "input.h"
#include "options.h"
#include "report.h"
#include "rows.h"

/*
 * Join the input in child processes, which run argv with a few hidden options;
 * image_fd is that of their tables, or -1. rows is NULL if none are written.
 * Fills the outcome's result, times and, for synthetic input, the expected
 * result. Returns 0, or -1 after a complaint; no process is left in either
 * case.
 */
int coordinator_run(const struct options *options, char **argv,
    const struct input *input, int image_fd, struct rows *rows,
    struct outcome *outcome);

#endif

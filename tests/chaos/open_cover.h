/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has happened in which cell: each way, with both goals, is to have seen
 * sources and targets join a flow in use, leave it, be killed and be stopped.
 * In two of three turns of a cell the plan makes all of that happen
 * (open_plan.c).
 */
#ifndef DFI_TESTS_CHAOS_OPEN_COVER_H
#define DFI_TESTS_CHAOS_OPEN_COVER_H

#include "open_plan.h"

/* Behind each run. */
void open_cover_count(
    const struct open_plan *plan, const struct open_board *board);

/*
 * How much has not happened, of cells whose name contains only. prints: name
 * it.
 */
unsigned open_cover_look(const char *only, bool prints);

/*
 * The first seed from that one on whose plan is to make something happen that
 * has not. Only if open_cover_look() isn't 0.
 */
uint64_t open_cover_seed(uint64_t from, const char *only);

/* So many runs are to have seen all. */
uint32_t open_cover_runs(void);

#endif

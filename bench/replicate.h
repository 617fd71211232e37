/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two experiments with replicate flows. */
#ifndef DFI_BENCH_REPLICATE_H
#define DFI_BENCH_REPLICATE_H

#include "options.h"
#include "session.h"

/* Make the plan's flow a replicate flow. */
void replicate_plan(struct plan *plan, enum replicate_mode mode);

uint32_t replicate_most_targets(const struct replicate_options *options);

/*
 * Measure requests to all targets and their replies. Closes the session.
 * Returns the exit status.
 */
int bench_replies(
    const struct replicate_options *options, struct session *session);

#endif

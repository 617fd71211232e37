/* SPDX-License-Identifier: Apache-2.0 */
/* What the two experiments with replicate flows share. */
#ifndef DFI_BENCH_REPLICATE_H
#define DFI_BENCH_REPLICATE_H

#include "options.h"
#include "session.h"

/* Have the plan's flow replicate. */
void replicate_plan(struct plan *plan, enum replicate_mode mode);

uint32_t replicate_most_targets(const struct replicate_options *options);

/* Requests to all, and their replies. Closes the session. The exit status. */
int bench_replies(
    const struct replicate_options *options, struct session *session);

#endif

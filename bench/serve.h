/* SPDX-License-Identifier: Apache-2.0 */
/* The invocation with the targets, which runs the plans of the other one. */
#ifndef DFI_BENCH_SERVE_H
#define DFI_BENCH_SERVE_H

#include "options.h"
#include "session.h"

/* Run rounds until the other invocation ends. Returns the exit status. */
int serve(const struct common_options *options, struct session *session);

#endif

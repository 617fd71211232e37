/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a store and the load on it fit into memory. */
#ifndef KV_RUN_MEMORY_H
#define KV_RUN_MEMORY_H

#include "run_options.h"

/*
 * Compare the needs of all processes with the free memory. 0, or -1 after a
 * complaint.
 */
int run_memory_check(const struct run_arguments *arguments);

#endif

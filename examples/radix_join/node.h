/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node: a process of worker threads.
 */
#ifndef RADIX_JOIN_NODE_H
#define RADIX_JOIN_NODE_H

#include "options.h"

/* Run the node that the options name. The exit status. */
int node_run(const struct options *command_line);

#endif

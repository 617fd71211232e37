/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine's share of a join whose first process runs on another one.
 */
#ifndef RADIX_JOIN_SHARE_H
#define RADIX_JOIN_SHARE_H

#include "options.h"

/*
 * Run the nodes first_node to first_node + local_nodes - 1 in processes of
 * their own. 0, or -1 after a complaint; no process is left in either case.
 */
int share_run(const struct options *options, char **argv);

#endif

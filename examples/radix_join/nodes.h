/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts this machine's node processes. Each is this program with the same
 * command line and options for its node number.
 */
#ifndef RADIX_JOIN_NODES_H
#define RADIX_JOIN_NODES_H

#include "../../common/children.h"
#include "options.h"

/*
 * Start a process for each node of this machine; registry NULL: the one of the
 * environment, image_fd -1: no tables. Returns 0, or -1 after a complaint;
 * children_end() ends the started ones.
 */
int nodes_start(struct children *children, const struct options *options,
    char **argv, const char *registry, const char *run, int image_fd);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the processes of this machine's nodes. Each is this program with the
 * same command line and options that say which node it is.
 */
#ifndef RADIX_JOIN_NODES_H
#define RADIX_JOIN_NODES_H

#include "../../common/children.h"
#include "options.h"

/*
 * Start a process for each node of this machine; registry NULL is the one that
 * the environment names, image_fd -1: there are no tables. 0, or -1 after a
 * complaint; children_end() ends those that were started.
 */
int nodes_start(struct children *children, const struct options *options,
    char **argv, const char *registry, const char *run, int image_fd);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of this machine's nodes, as the one that starts them sees them.
 */
#ifndef RADIX_JOIN_CHILDREN_H
#define RADIX_JOIN_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "options.h"

struct children {
	pid_t *pids;       /* 0: has ended */
	uint32_t first, n; /* nodes */
	uint32_t n_running;
	bool failed; /* one has ended badly */
	bool killed; /* all that were left have been killed */
};

/*
 * Start a process for each node of this machine; registry NULL is the one that
 * the environment names. 0, or -1 after a complaint; children_end() ends those
 * that were started.
 */
int children_start(struct children *children, const struct options *options,
    char **argv, const char *registry, const char *run, int image_fd);

/* Take notice of processes that have ended. 0, or -1 if one ended badly. */
int children_check(struct children *children);

/*
 * Wait for all processes to end; those that last longer than grace_ms are
 * killed, without a complaint. 0, or -1 if one ended badly or was killed.
 */
int children_end(struct children *children, uint32_t grace_ms);

#endif

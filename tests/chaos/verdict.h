/* SPDX-License-Identifier: Apache-2.0 */
/* Whether what happened in a run of chaos is what may happen. */
#ifndef DFI_TESTS_CHAOS_VERDICT_H
#define DFI_TESTS_CHAOS_VERDICT_H

#include "board.h"

/* What the one who runs it knows. Times are of CLOCK_MONOTONIC, 0: never. */
struct outcome {
	int64_t killed_ns[MAX_PROCESSES + 1];    /* from outside */
	int64_t expired_ns[MAX_PROCESSES + 1];   /* stopped beyond its lease */
	int64_t continued_ns[MAX_PROCESSES + 2]; /* after the last stop */
	int64_t registry_back_ns;
	bool registry_faulted; /* killed or stopped */
	bool hung[MAX_PROCESSES + 2];
	int status[MAX_PROCESSES + 2]; /* of waitpid() */
	int64_t limit_ns;              /* in which a death must be told */
	int64_t grace_ns;              /* of DFI_REGISTRY_GRACE */
	uint32_t open_timeout_ms;
};

/* Print each violation; how many there are. */
unsigned judge(const struct plan *plan, const struct board *board,
    const struct outcome *outcome);

/* For a report: what became of each endpoint. */
void print_board(const struct plan *plan, const struct board *board,
    const struct outcome *outcome);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Judges whether the events of a chaos run are allowed. */
#ifndef DFI_TESTS_CHAOS_VERDICT_H
#define DFI_TESTS_CHAOS_VERDICT_H

#include "board.h"

/* A time in which a live process did not run. */
struct stop {
	uint32_t process;
	int64_t from_ns, to_ns; /* to_ns is 0 until it ends */
};

/* What the runner knows. Times are of CLOCK_MONOTONIC; 0: never. */
struct outcome {
	int64_t killed_ns[MAX_PROCESSES + 1];    /* from outside */
	int64_t expired_ns[MAX_PROCESSES + 1];   /* stopped beyond its lease */
	int64_t continued_ns[MAX_PROCESSES + 2]; /* after the last stop */
	struct stop stops[MAX_FAULTS];
	uint32_t n_stops;
	int64_t registry_down_ns, registry_back_ns;
	bool hung[MAX_PROCESSES + 2];
	int status[MAX_PROCESSES + 2]; /* of waitpid() */
	int64_t limit_ns; /* the limit for reporting a death, on a machine that
			     is never late */
	int64_t grace_ns; /* of DFI_REGISTRY_GRACE */
	uint32_t open_timeout_ms;
};

/* The error that came latest after its cause. */
struct latest {
	int64_t took_ns;
	int64_t late_ns; /* how late the machine was meanwhile */
};

/*
 * Print each violation; returns their number. Replaces latest if an error came
 * later.
 */
unsigned judge(const struct plan *plan, const struct board *board,
    const struct outcome *outcome, struct latest *latest);

/* Print the fate of each endpoint for a report. */
void print_board(const struct plan *plan, const struct board *board,
    const struct outcome *outcome);

#endif

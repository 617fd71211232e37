/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All clients of a load, one process each. This process leads them, and adds up
 * their results and the costs of the store's processes.
 */
#ifndef KV_LOAD_GROUP_H
#define KV_LOAD_GROUP_H

#include "../../common/children.h"
#include "load.h"
#include "load_counts.h"

struct load_result {
	double seconds;     /* measured */
	uint64_t completed; /* in this time */
	double throughput;  /* of these, a second */
	/* Over all requests that began, or were due, in this time; ns. */
	struct histogram latency[LOAD_KINDS], all;
	uint64_t missing, unknown, refused, wrong, unfinished;
	uint64_t client_cpu_ns; /* of all clients together */
	uint32_t *slots;        /* as load_slot() tells them */
	uint32_t n_slots;
};

/* The progress that a caller sees while a load runs. */
struct load_progress {
	uint64_t elapsed_ns; /* since the measured time began; 0 before */
	uint64_t completed;  /* in it, so far, as load_slot() tells them */
	struct load_board *board;
	const struct children *clients; /* their processes */
};

/* About how much memory the results and requests of a load take. */
uint64_t load_needs(const struct load_plan *plan);

/*
 * Run the load. watch, unless NULL, is called every few milliseconds; if it
 * returns -1, the load ends. counts: the processes whose costs are measured, or
 * NULL. Returns 0, or -1 after a complaint. The caller frees *result in both
 * cases. All clients have ended.
 */
int load_run(const struct load_plan *plan,
    int (*watch)(void *arg, const struct load_progress *progress), void *arg,
    struct load_counts *counts, struct load_result *result);
void load_result_free(struct load_result *result);

/*
 * Complain of results that a load without faults must not have. 0, or -1. With
 * faults set, requests may be refused, unknown or unfinished.
 */
int load_result_check(const struct load_result *result, bool faults);

/*
 * Completions in a LOAD_SLOT_NS, which may still grow: of all clients, or with
 * plan->apart of all but the first.
 */
uint32_t load_slot(
    const struct load_plan *plan, struct load_board *board, uint32_t slot);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flows of a query and what its processes do. Each process pushes its share
 * of the rows, with several threads, into a combiner flow, whose targets, one
 * in each process, have the groups that hash to them. Their results go to the
 * first process through a shuffle flow. If the flow has a tree, the processes
 * take turns to have its combiners.
 */
#ifndef AGGREGATE_WORKER_H
#define AGGREGATE_WORKER_H

#include <dfi/dfi.h>

#include "../../common/children.h"
#include "plan.h"

/*
 * How long processes wait for each other: the first process watches them all.
 */
#define JOB_TIMEOUT_MS 86400000

struct job {
	struct dfi *dfi;
	const struct plan *plan;
	const char *flow; /* its name, and before ".results" the other's */
	uint32_t n_processes, n_threads;
	uint32_t fan_in;            /* of the tree; 0: none */
	uint64_t n_rows, first_row; /* of all; the plan's rows begin there */
};

/* The first row that a source pushes; it ends where the next one's begin. */
uint64_t job_share(const struct job *job, uint32_t source);

/* Result tuples: the keys, then the aggregates, in the plan's order. */
struct results {
	struct dfi_schema *schema;
	char *tuples;
	uint64_t n;
	size_t capacity;
	uint64_t checked; /* bytes: memory.h */
};

/* Create both flows. Returns 0, or -1 after a complaint. */
int job_create(const struct job *job);

/* Run process number i. On a failure it complains and exits. */
void job_work(const struct job *job, uint32_t process);

/*
 * Open the flow of results before the processes start, then take all results.
 * job_take() ends early if a process fails. Returns 0, or -1 with the reason in
 * dfi_errmsg(), or from children_end().
 */
int job_open(const struct job *job, struct dfi_target **target);
int job_take(const struct job *job, struct dfi_target *target,
    struct children *children, struct results *results);
void results_free(struct results *results);

#endif

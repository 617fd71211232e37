/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flows of a query and what its processes do. Each process reads the file
 * and pushes its share of the rows, with several threads, into a combiner flow,
 * whose targets, one in each process, have the groups that hash to them. Their
 * results go to the first process through a shuffle flow. If the flow has a
 * tree, the processes take turns to have its combiners.
 */
#ifndef AGGREGATE_WORKER_H
#define AGGREGATE_WORKER_H

#include <dfi/dfi.h>

#include "columns.h"
#include "query.h"

struct job {
	struct dfi *dfi;
	const struct query *query;
	const struct relation *relation;
	const char *flow; /* its name, and before ".results" the other's */
	uint32_t n_processes, n_threads;
	uint32_t fan_in; /* of the tree; 0: none */
};

/* Create both flows; 0, or -1 after a complaint. */
int job_create(const struct job *job);

/* Process number i: 0, or -1 after a complaint. */
int job_work(const struct job *job, uint32_t process);

/* Print all results; 0, or -1 after a complaint. */
int job_print(const struct job *job);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes on other machines than the first process's, which has read the
 * file. It sends each of them the query and that process's share of the rows,
 * through a flow of its own: JOB.rows.NUMBER.
 */
#ifndef AGGREGATE_MACHINES_H
#define AGGREGATE_MACHINES_H

#include "worker.h"

/* The longest query for other machines, without its end. */
#define MAX_TEXT 3583

/*
 * The processes from n_local to job->n_processes - 1 are on other machines.
 * Wait for them, and send all of them what they need. text is the query's.
 * Returns 0, or -1 after a complaint.
 */
int machines_send(const struct job *job, uint32_t n_local, const char *text);

/*
 * In a process of another machine, process number in *job: take its share.
 * Sets the job's members except dfi, flow and plan, and makes sealed rows.
 * Returns 0, or -1 after a complaint.
 */
int machines_take(struct job *job, uint32_t process, char text[MAX_TEXT + 1],
    struct rows *rows);

#endif

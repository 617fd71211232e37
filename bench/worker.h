/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker processes and threads. dfi-bench starts itself once or twice with a
 * hidden subcommand. Each such process runs the threads of its seats, which do
 * the jobs below in each round.
 */
#ifndef DFI_BENCH_WORKER_H
#define DFI_BENCH_WORKER_H

#include <dfi/dfi.h>
#include "board.h"

/* The hidden subcommand. */
#define WORKER_COMMAND "worker"

struct worker {
	struct board *board;
	struct seat *seat;
	const struct plan *plan;
	struct dfi *dfi; /* the process's context; NULL if none is needed */
	void *state;     /* the job's, from prepare to finish */
};

/*
 * A job's three steps. prepare comes before the start, with all work that is
 * not measured. run is timed. finish comes after the end, even if prepare
 * failed. They return 0 or worker_fail().
 */
struct job {
	int (*prepare)(struct worker *worker);
	int (*run)(struct worker *worker);
	void (*finish)(struct worker *worker);
	/*
	 * The bytes that all threads of a round allocate themselves, in
	 * addition to the board's data area and the memory of flows. NULL:
	 * almost none.
	 */
	uint64_t (*needs)(const struct plan *plan);
};

/* The job of a kind. */
const struct job *job_of(enum job_kind kind);

extern const struct job flow_job, raw_job, copy_job, echo_flow_job;
extern const struct job echo_raw_job, idle_job;
extern const struct job sequencer_job, fetch_add_job, fold_job, rival_job;

/* Record an error at the seat, with dfi_errmsg(). Returns ret. */
int worker_fail(struct worker *worker, int ret, const char *what);

/* The same for a system call; ret is from errno. */
int worker_fail_errno(struct worker *worker, const char *what);

/* The main function of a worker process; the argument is its number. */
int worker_main(int argc, char **argv);

#endif

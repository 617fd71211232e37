/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker process: one thread for each of its seats on the board, which
 * waits for rounds. It reports only through the board, and dies with its
 * parent.
 */
#include "worker.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../common/children.h"
#include "../common/complain.h"
#include "../common/threads.h"
#include "peer.h"
#include "slow.h"

static const struct job *const jobs[N_JOBS] = {
	[JOB_FLOW] = &flow_job,
	[JOB_RAW] = &raw_job,
	[JOB_COPY] = &copy_job,
	[JOB_ECHO_FLOW] = &echo_flow_job,
	[JOB_ECHO_RAW] = &echo_raw_job,
	[JOB_IDLE] = &idle_job,
	[JOB_SEQUENCER] = &sequencer_job,
	[JOB_FETCH_ADD] = &fetch_add_job,
	[JOB_COMBINE] = &flow_job,
	[JOB_FOLD] = &fold_job,
	[JOB_RIVAL] = &rival_job,
};

const struct job *job_of(enum job_kind kind)
{
	return jobs[kind];
}

struct process {
	struct board *board;
	struct dfi *dfi;
	int open_status; /* of dfi_open() */
	char open_error[SEAT_ERROR_SIZE];
	cpu_set_t cpus; /* those that it may run on */
};

struct thread {
	pthread_t id;
	struct process *process;
	struct seat *seat;
};

int worker_fail(struct worker *worker, int ret, const char *what)
{
	struct seat *seat = worker->seat;

	snprintf(seat->error, sizeof(seat->error), "%s: %s", what,
	    *dfi_errmsg() ? dfi_errmsg() : dfi_strerror(ret));
	return ret;
}

int worker_fail_errno(struct worker *worker, const char *what)
{
	struct seat *seat = worker->seat;
	int ret = -errno;

	snprintf(
	    seat->error, sizeof(seat->error), "%s: %s", what, strerror(-ret));
	return ret;
}

static int move_to_cpu(struct worker *worker, const struct process *process)
{
	cpu_set_t cpus = process->cpus;
	char what[64];
	int ret;

	if (worker->seat->cpu >= 0) {
		CPU_ZERO(&cpus);
		CPU_SET((unsigned)worker->seat->cpu, &cpus);
	}
	ret = pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	if (!ret)
		return 0;
	errno = ret;
	snprintf(what, sizeof(what),
	    "pinning a thread to processor %d (see --pin)", worker->seat->cpu);
	return worker_fail_errno(worker, what);
}

static int prepare(
    struct worker *worker, const struct job *job, const struct process *process)
{
	struct seat *seat = worker->seat;
	int ret;

	if (process->open_status) {
		memcpy(seat->error, process->open_error, sizeof(seat->error));
		return process->open_status;
	}
	ret = move_to_cpu(worker, process);
	return ret ? ret : job->prepare(worker);
}

/* How often this thread has lost its processor so far. */
static uint64_t preemptions(void)
{
	struct rusage usage = { 0 };

	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)usage.ru_nivcsw;
}

/* Whether targets notice the segments of some ring in this way. */
static bool has_rings(
    const struct dfi_transport_stats *stats, const char *counter)
{
	uint64_t n;

	return dfi_transport_counter(stats, counter, &n) == 0 && n;
}

static int add_use(void *arg, const struct dfi_transport_stats *stats)
{
	struct device_use *use = arg;

	use->requests += stats->writes + stats->credits + stats->messages;
	use->completions += stats->completions;
	use->queue_pairs += stats->connections;
	use->notify |= (has_rings(stats, "footer_rings") ? NOTIFY_FOOTER : 0) |
	    (has_rings(stats, "checksum_rings") ? NOTIFY_CHECKSUM : 0) |
	    (has_rings(stats, "imm_rings") ? NOTIFY_IMM : 0) |
	    (!strcmp(stats->transport, "ofi") && stats->connections
		    ? NOTIFY_DATA
		    : 0);
	if (!use->device[0])
		memcpy(use->device, stats->device, sizeof(use->device));
	return 0;
}

static struct device_use device_use(struct dfi *dfi)
{
	struct device_use use = { .device = "" };

	if (dfi)
		dfi_context_query(dfi, add_use, &use);
	return use;
}

/* Other threads may wait for this one, but the parent doesn't wait for them. */
static void report_failure(struct board *board, const struct seat *seat)
{
	if (seat->status)
		atomic_store(&board->failed, 1);
}

static void run_round(struct thread *thread, uint32_t round)
{
	struct board *board = thread->process->board;
	struct seat *seat = thread->seat;
	const struct job *job = job_of(board->plan.job);
	struct worker worker = {
		.board = board,
		.seat = seat,
		.plan = &board->plan,
		.dfi = thread->process->dfi,
	};

	/*
	 * The last round is over, or the parent would not have started this
	 * one. A race detector doesn't see the parent, but it sees this load
	 * and the additions at the end.
	 */
	(void)atomic_load(&board->done);
	seat->status = 0;
	if (seat->active)
		seat->status = prepare(&worker, job, thread->process);
	if (seat->active)
		seat->before = device_use(worker.dfi);
	report_failure(board, seat);
	board_add(&board->ready);
	board_wait(&board->go, round, NO_DEADLINE);
	if (seat->active) {
		seat->preempted = preemptions();
		seat->cpu_ns = thread_cpu_ns();
		seat->begin_ns = now_ns();
		if (!seat->status && !atomic_load(&board->cancel))
			seat->status = job->run(&worker);
		seat->end_ns = now_ns();
		seat->cpu_ns = thread_cpu_ns() - seat->cpu_ns;
		seat->preempted = preemptions() - seat->preempted;
		seat->after = device_use(worker.dfi);
		report_failure(board, seat);
		job->finish(&worker);
	}
	board_add(&board->done);
}

static void *thread_main(void *arg)
{
	struct thread *thread = arg;
	struct board *board = thread->process->board;
	uint32_t round;

	for (round = 1;; round++) {
		board_wait(&board->command, round, NO_DEADLINE);
		if (atomic_load(&board->stop))
			return NULL;
		run_round(thread, round);
	}
}

static int run_threads(struct process *process, uint32_t number)
{
	struct board *board = process->board;
	struct thread *threads = calloc(board->n_seats, sizeof(*threads));
	uint32_t i, n = 0;

	if (!threads)
		return complain("no memory");
	for (i = 0; i < board->n_seats; i++) {
		if (board->seats[i].process != number)
			continue;
		threads[n].process = process;
		threads[n].seat = &board->seats[i];
		/* The other threads would wait for ever. */
		if (thread_start(&threads[n].id, thread_main, &threads[n]))
			_exit(1);
		n++;
	}
	while (n > 0)
		pthread_join(threads[--n].id, NULL);
	free(threads);
	return 0;
}

/* Set DFI_CONTROL_CPUS to the processors of this thread. */
static void keep_library_too(void)
{
	char list[8 * CPU_SETSIZE];
	cpu_set_t cpus;
	size_t used = 0;
	unsigned cpu;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
		return;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &cpus))
			used += (size_t)snprintf(list + used,
			    sizeof(list) - used, "%s%u", used ? "," : "", cpu);
	setenv("DFI_CONTROL_CPUS", list, true);
}

/*
 * With a list of processors, the library's threads run on those of their
 * process's seats, as with taskset(1). Otherwise the targets' control thread
 * could take a source's processor. The thread to be pinned reports a processor
 * that can't be used.
 */
static void keep_to_seats(struct process *process, uint32_t number)
{
	const struct board *board = process->board;
	const struct seat *seat;
	cpu_set_t cpus;
	uint32_t i;

	CPU_ZERO(&cpus);
	for (i = 0; i < board->n_seats; i++) {
		seat = &board->seats[i];
		if (seat->process != number)
			continue;
		if (seat->listed < 0)
			return;
		CPU_SET((unsigned)seat->listed, &cpus);
	}
	if (sched_setaffinity(0, sizeof(cpus), &cpus) == 0)
		keep_library_too();
}

static void join_registry(struct process *process)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	if (!*process->board->registry)
		return;
	attr.registry = process->board->registry;
	attr.node_name = "dfi-bench";
	process->open_status = dfi_open(&attr, &process->dfi);
	if (process->open_status)
		snprintf(process->open_error, sizeof(process->open_error),
		    "dfi_open: %s", dfi_errmsg());
}

int worker_main(int argc, char **argv)
{
	struct process process = { 0 };
	int ret;

	child_enter();
	prctl(PR_SET_NAME,
	    "dfi-bench"); /* otherwise it would be the link's name, exe */
	if (argc != 2)
		return 1;
	process.board = board_attach(CHILD_FD);
	if (!process.board || getppid() != process.board->parent)
		return 1;
	sched_getaffinity(0, sizeof(process.cpus), &process.cpus);
	keep_to_seats(&process, (uint32_t)atoi(argv[1]));
	join_registry(&process);
	ret = run_threads(&process, (uint32_t)atoi(argv[1]));
	if (process.dfi)
		dfi_close(process.dfi);
	board_detach(process.board);
	return ret ? 1 : 0;
}

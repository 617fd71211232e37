/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker processes and rounds, in the parent. A worker process that dies or
 * hangs ends the benchmark with an error: each wait has a deadline, and checks
 * the processes.
 */
#include "runner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/complain.h"
#include "worker.h"

/* The most threads whose errors are printed. */
#define MAX_COMPLAINTS 4

#define POLL_NS (UINT64_C(100) * 1000 * 1000)

uint32_t usable_cpus(int32_t *cpus, uint32_t max)
{
	cpu_set_t set;
	uint32_t n = 0;
	int32_t cpu;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 0;
	for (cpu = 0; cpu < CPU_SETSIZE && n < max; cpu++)
		if (CPU_ISSET((unsigned)cpu, &set))
			cpus[n++] = cpu;
	return n;
}

static bool spawn(struct runner *runner, uint32_t number)
{
	static const char *const names[] = { "the sources' process",
		"the targets' process" };
	char index[16];
	char *argv[] = { (char[]){ "dfi-bench" }, (char[]){ WORKER_COMMAND },
		index, NULL };

	snprintf(index, sizeof(index), "%u", number);
	return !children_spawn(&runner->processes,
	    runner->attr.nodes            ? "the process of a node"
		: runner->attr.procs == 1 ? "the worker process"
					  : names[number],
	    argv, NULL, runner->fd);
}

/* The processor of a seat by --pin or --one-core; -1: there is no list. */
static int32_t listed_cpu(const struct placement *placement, uint32_t seat)
{
	return placement->cpus ? placement->cpus[seat % placement->n_cpus] : -1;
}

static void fill_seats(const struct runner_attr *attr, struct board *board)
{
	struct seat *seat;
	uint32_t i;

	for (i = 0; i < board->n_seats; i++) {
		seat = &board->seats[i];
		seat->role = i < attr->n_sources ? ROLE_SOURCE : ROLE_TARGET;
		seat->number = seat->role == ROLE_SOURCE ? i
							 : i - attr->n_sources;
		seat->process = attr->nodes
		    ? (seat->number +
			  (attr->crosses && seat->role == ROLE_TARGET)) %
			attr->procs
		    : attr->procs == 2 && seat->role == ROLE_TARGET;
		seat->listed = listed_cpu(attr->placement, i);
	}
}

bool runner_start(const struct runner_attr *attr, struct runner *runner)
{
	uint32_t i;

	*runner = (struct runner){
		.attr = *attr,
		.fd = -1,
	};
	runner->board = board_create(attr->n_sources, attr->n_target_threads,
	    attr->data_size, &runner->fd);
	if (!runner->board)
		return false;
	if (attr->registry)
		snprintf(runner->board->registry,
		    sizeof(runner->board->registry), "%s", attr->registry);
	fill_seats(attr, runner->board);
	for (i = 0; i < attr->procs; i++)
		if (!spawn(runner, i)) {
			runner_stop(runner);
			return false;
		}
	return true;
}

static bool is_active(const struct seat *seat, const struct plan *plan)
{
	return seat->number <
	    (seat->role == ROLE_SOURCE
		    ? plan->n_sources
		    : plan->n_target_threads + plan->n_combiners);
}

static uint32_t active_seats(const struct board *board, const struct plan *plan)
{
	uint32_t i, n = 0;

	for (i = 0; i < board->n_seats; i++)
		n += is_active(&board->seats[i], plan);
	return n;
}

static void complain_of_time(
    const struct runner *runner, uint32_t missing, const char *what)
{
	const struct board *board = runner->board;
	uint32_t threads = active_seats(board, &board->plan);
	int32_t cpus[MAX_CPUS];
	uint32_t n_cpus = usable_cpus(cpus, MAX_CPUS);
	char why[96] = "";

	if (runner->attr.placement->cpus)
		n_cpus = runner->attr.placement->n_cpus;
	if (threads > n_cpus)
		snprintf(why, sizeof(why), ": %u threads share %u processor%s",
		    threads, n_cpus, n_cpus == 1 ? "" : "s");
	complain("%u of %u threads have not %s within %u s%s; --timeout sets "
		 "this limit",
	    missing, board->n_seats, what, runner->attr.timeout_s, why);
}

/* Print a few of the errors: one may have caused another. */
static bool seats_succeeded(const struct board *board)
{
	const struct seat *seat;
	uint32_t i, n_failed = 0;

	for (i = board->n_seats; i-- > 0;) {
		seat = &board->seats[i];
		if (!seat->active || !seat->status)
			continue;
		if (n_failed++ < MAX_COMPLAINTS)
			complain("%s %u: %s",
			    seat->role == ROLE_SOURCE ? "source" : "target",
			    seat->number, seat->error);
	}
	return !n_failed;
}

static bool wait_for_seats(
    struct runner *runner, _Atomic uint32_t *word, const char *what)
{
	uint64_t start = now_ns(), now = start;
	uint64_t limit = runner->attr.timeout_s * UINT64_C(1000000000);

	for (; now - start < limit; now = now_ns()) {
		if (board_wait(word, runner->board->n_seats, now + POLL_NS))
			return true;
		if (children_check(&runner->processes))
			return false;
		if (atomic_load(&runner->board->failed))
			return seats_succeeded(runner->board);
	}
	complain_of_time(
	    runner, runner->board->n_seats - atomic_load(word), what);
	return false;
}

/* The processor of a seat: number n of n_active, number i of all. */
static int32_t seat_cpu(const struct placement *placement, uint32_t n_active,
    uint32_t n, uint32_t i)
{
	int32_t cpus[MAX_CPUS];

	if (placement->cpus)
		return listed_cpu(placement, i);
	if (placement->off || n_active > usable_cpus(cpus, MAX_CPUS))
		return -1;
	return cpus[n];
}

/* Choose which seats take part, and where they run. */
static void place(struct runner *runner, const struct plan *plan)
{
	struct board *board = runner->board;
	uint32_t i, n = 0, n_active = active_seats(board, plan);
	struct seat *seat;

	for (i = 0; i < board->n_seats; i++) {
		seat = &board->seats[i];
		seat->active = is_active(seat, plan);
		if (seat->active)
			seat->cpu = seat_cpu(
			    runner->attr.placement, n_active, n++, i);
	}
}

/*
 * Add the RDMA counters of a process: its seat that ends last has all of them.
 */
static void add_process(
    const struct board *board, uint32_t process, struct tally *tally)
{
	uint64_t first = UINT64_MAX, last = 0, asked = UINT64_MAX, got = 0;
	const struct seat *seat;
	uint32_t i;

	for (i = 0; i < board->n_seats; i++) {
		seat = &board->seats[i];
		if (!seat->active || seat->process != process)
			continue;
		if (seat->before.requests < first)
			first = seat->before.requests;
		if (seat->after.requests > last)
			last = seat->after.requests;
		if (seat->before.completions < asked)
			asked = seat->before.completions;
		if (seat->after.completions > got)
			got = seat->after.completions;
		if (seat->before.queue_pairs > tally->queue_pairs)
			tally->queue_pairs = seat->before.queue_pairs;
		tally->notify |= seat->before.notify;
		if (seat->before.device[0])
			memcpy(tally->device, seat->before.device,
			    sizeof(tally->device));
	}
	if (first > last)
		return; /* it has no seats */
	tally->requests += last - first;
	tally->completions += got - asked;
}

/*
 * Whether a seat's begin may be that of the round: targets of flows only wait
 * at first, and the sources of a fold do nothing.
 */
static bool begins_round(const struct seat *seat, const struct plan *plan)
{
	return (seat->role == ROLE_SOURCE) != (plan->job == JOB_FOLD);
}

static void collect(const struct board *board, struct tally *tally)
{
	const struct seat *seat;
	const struct plan *plan = &board->plan;
	/* The client of an echo counts responses, one from each server. */
	uint32_t i,
	    copies = plan->job == JOB_FLOW || plan->job == JOB_RAW ||
		plan->job == JOB_RIVAL
	    ? plan_copies(plan)
	    : 1;

	*tally = (struct tally){ .begin_ns = UINT64_MAX };
	for (i = 0; i < board->n_seats; i++) {
		seat = &board->seats[i];
		if (!seat->active)
			continue;
		tally->preempted += seat->preempted;
		tally->segments += seat->segments;
		if (begins_round(seat, plan) &&
		    seat->begin_ns < tally->begin_ns)
			tally->begin_ns = seat->begin_ns;
		if (seat->role == ROLE_SOURCE) {
			tally->sent += seat->tuples * copies;
			tally->sum += seat->sum * copies;
			tally->copied += seat->copied;
			tally->bulk += seat->bulk;
			tally->cpu_ns += seat->cpu_ns;
			if (plan->n_targets)
				continue;
		} else {
			tally->received += seat->tuples;
			tally->target_cpu_ns += seat->cpu_ns;
			tally->sum -= seat->sum;
			tally->bad += seat->bad;
		}
		if (seat->end_ns > tally->end_ns)
			tally->end_ns = seat->end_ns;
	}
	for (i = 0; i < MAX_PROCS; i++)
		add_process(board, i, tally);
}

/* Add the work of the other invocation, whose clock may differ. */
static void add_tally(struct tally *tally, const struct tally *other)
{
	tally->end_ns = now_ns();
	tally->received += other->received;
	tally->sum += other->sum;
	tally->bad += other->bad;
	tally->preempted += other->preempted;
	tally->target_cpu_ns += other->target_cpu_ns;
	tally->segments += other->segments;
	tally->requests += other->requests;
	tally->completions += other->completions;
	tally->notify |= other->notify;
	if (other->queue_pairs > tally->queue_pairs)
		tally->queue_pairs = other->queue_pairs;
}

static void fill_outcome(
    const struct plan *plan, const struct tally *tally, struct outcome *outcome)
{
	/* A combiner's input may be partial aggregates of several tuples. */
	bool counted = plan->n_targets && plan->job != JOB_COMBINE;

	*outcome = (struct outcome){
		.seconds = (double)(tally->end_ns - tally->begin_ns) * 1e-9,
		.tuples = counted ? tally->received : tally->sent,
		.preempted = tally->preempted,
		.tally = *tally,
		.verified = !plan->n_targets ||
		    (!tally->bad && !tally->sum &&
			(!counted || tally->received == tally->sent)),
	};
}

bool runner_prepare(struct runner *runner, const struct plan *plan)
{
	struct board *board = runner->board;

	board->plan = *plan;
	board->seconds = 0;
	memset(board->links, 0, sizeof(board->links));
	if (board_clear_data(board) < 0) {
		complain("clearing shared memory: %s", strerror(errno));
		return false;
	}
	place(runner, plan);
	atomic_store(&board->ready, 0);
	atomic_store(&board->done, 0);
	atomic_store(&board->cancel, 0);
	atomic_store(&board->failed, 0);
	runner->round++;
	board_set(&board->command, runner->round);
	return wait_for_seats(runner, &board->ready, "got ready") &&
	    seats_succeeded(board);
}

void runner_go(struct runner *runner, bool cancel)
{
	atomic_store(&runner->board->cancel, cancel);
	board_set(&runner->board->go, runner->round);
}

bool runner_finish(struct runner *runner, struct tally *tally)
{
	struct board *board = runner->board;

	if (!wait_for_seats(runner, &board->done, "finished") ||
	    !seats_succeeded(board))
		return false;
	collect(board, tally);
	return true;
}

/*
 * Let the other invocation prepare, prepare this one, and wait for the other.
 */
static bool prepare_both(struct runner *runner, const struct plan *plan)
{
	struct peer_message message = { .plan = *plan };
	struct peer *peer = runner->attr.peer;

	if (peer && !peer_send(peer, &message))
		return false;
	if (!runner_prepare(runner, plan))
		return false;
	return !peer || peer_receive(peer, &message) == 1;
}

bool runner_round(
    struct runner *runner, const struct plan *plan, struct outcome *outcome)
{
	bool prepared = prepare_both(runner, plan);
	struct peer *peer = runner->attr.peer;
	struct peer_message message;
	struct tally tally;

	runner_go(runner, !prepared);
	if (!prepared || !runner_finish(runner, &tally))
		return false;
	if (peer) {
		if (peer_receive(peer, &message) != 1)
			return false;
		add_tally(&tally, &message.tally);
	}
	fill_outcome(plan, &tally, outcome);
	if (runner->board->seconds > 0)
		outcome->seconds = runner->board->seconds;
	return true;
}

void runner_stop(struct runner *runner)
{
	if (!runner->board)
		return;
	atomic_store(&runner->board->stop, 1);
	board_set(&runner->board->command, runner->round + 1);
	/* The workers get a second to exit by themselves. */
	(void)children_end(&runner->processes, 1000);
	board_detach(runner->board);
	close(runner->fd);
	runner->board = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Faults under load and their effects: see run_failover.h. */
#include "run_failover.h"

#include <signal.h>
#include <stdio.h>
#include "../../common/output.h"

#define BEFORE_ROWS 5 /* that are shown */
#define AFTER_ROWS 15
#define BAR_MARKS 50

const char *const run_victims[] = { "nothing", "leader", "follower", "registry",
	"client" };

/* The replica that the fault hits; -1: another process, or none there. */
static int choose(const struct run_failover *failover,
    const struct run_observation *observation)
{
	int i;

	if (failover->victim == RUN_LEADER)
		return observation->leader;
	if (failover->victim != RUN_FOLLOWER)
		return -1;
	for (i = 0; i < (int)failover->cluster->options.replicas; i++)
		if (i != observation->leader &&
		    observation->replicas[i].answers)
			return i;
	return -1;
}

/* 1: chosen; 0: there is none now, as between two leaders; -1. */
static int choose_now(struct run_failover *failover)
{
	struct run_observation observation;

	if (run_cluster_observe(failover->cluster, &observation))
		return -1;
	failover->leader_before = observation.leader;
	failover->replica = choose(failover, &observation);
	if (failover->replica >= 0)
		failover->snapshots =
		    observation.replicas[failover->replica].snapshots_loaded;
	return failover->replica >= 0 || failover->victim == RUN_REGISTRY ||
	    failover->victim == RUN_CLIENT;
}

static double seconds_of(const struct load_progress *progress, uint64_t begin)
{
	return (double)(load_now() - begin + progress->elapsed_ns) / 1e9;
}

/* A process of the store, as an index of its children. */
static uint32_t child_of(const struct run_failover *failover)
{
	return failover->replica >= 0
	    ? failover->cluster->replicas[failover->replica]
	    : failover->cluster->registry;
}

static void signal_client(const struct load_progress *progress, int number)
{
	pid_t pid = progress->clients->list[0].pid;

	if (pid)
		kill(pid, number);
}

static int strike(
    struct run_failover *failover, const struct load_progress *progress)
{
	uint64_t begin = load_now();
	int ret = choose_now(failover);

	if (ret <= 0)
		return ret;
	/* Asking has taken a while. */
	failover->struck_s = seconds_of(progress, begin);
	if (failover->victim == RUN_CLIENT)
		signal_client(progress, SIGSTOP);
	else if (failover->stops)
		run_cluster_stop(failover->cluster, child_of(failover));
	else
		run_cluster_kill(failover->cluster, child_of(failover));
	failover->struck = true;
	return 0;
}

static int bring_back(
    struct run_failover *failover, const struct load_progress *progress)
{
	failover->back = true;
	failover->back_s = (double)progress->elapsed_ns / 1e9;
	if (failover->victim == RUN_CLIENT)
		signal_client(progress, SIGCONT);
	else if (failover->stops)
		run_cluster_continue(failover->cluster, child_of(failover));
	else if (failover->replica >= 0)
		return run_cluster_restart(
		    failover->cluster, (uint32_t)failover->replica);
	return 0;
}

/*
 * A replica has caught up when it has applied the slots that the leader knew to
 * be chosen at the last question. Both are asked one after another, under load.
 */
static int look_at_catch_up(
    struct run_failover *failover, const struct load_progress *progress)
{
	uint64_t begin = load_now();
	struct run_observation observation;
	const struct run_replica *replica;

	if (run_cluster_observe(failover->cluster, &observation))
		return -1;
	replica = &observation.replicas[failover->replica];
	if (failover->goal && replica->answers &&
	    replica->applied >= failover->goal) {
		failover->caught_up = true;
		failover->caught_up_s = seconds_of(progress, begin);
		failover->by_snapshot = replica->snapshots_loaded >
		    failover->snapshots;
	}
	if (observation.leader >= 0)
		failover->goal =
		    observation.replicas[observation.leader].chosen;
	return 0;
}

static uint32_t row_requests(const struct run_failover *failover,
    const struct load_progress *progress, uint32_t row)
{
	uint32_t slot, sum = 0;

	for (slot = row * RUN_ROW_SLOTS; slot < (row + 1) * RUN_ROW_SLOTS;
	     slot++)
		sum += load_slot(failover->plan, progress->board, slot);
	return sum;
}

static void show_row(struct run_failover *failover, uint32_t row, uint32_t n)
{
	unsigned marks;

	marks = (unsigned)(n / failover->bar + 0.5);
	if (marks > BAR_MARKS)
		marks = BAR_MARKS;
	printf("%6.2f s  %8u requests  %.*s\n", row * 0.1, n, (int)marks,
	    "##################################################");
}

/* Whether a row has passed an event that is not printed yet. */
static bool is_news(bool happened, double when, double end, bool *printed)
{
	if (!happened || *printed || when >= end)
		return false;
	*printed = true;
	printf("%6.2f s  ", when);
	return true;
}

/* Print events before the end of a row, each once. */
static void show_events(struct run_failover *failover, uint32_t row)
{
	const char *what = failover->stops ? "stopped" : "killed";
	double end = (row + 1) * 0.1;

	if (is_news(failover->struck, failover->struck_s, end,
		&failover->printed_struck)) {
		if (failover->replica < 0)
			printf("%s %s is %s\n",
			    failover->victim == RUN_CLIENT ? "a" : "the",
			    run_victims[failover->victim], what);
		else
			printf("replica %d, %s, is %s\n", failover->replica,
			    failover->victim == RUN_LEADER ? "the leader"
							   : "a follower",
			    what);
	}
	if (failover->victim != RUN_REGISTRY &&
	    is_news(failover->back, failover->back_s, end,
		&failover->printed_back)) {
		if (failover->victim == RUN_CLIENT)
			printf("the client goes on\n");
		else
			printf("replica %d %s\n", failover->replica,
			    failover->stops ? "goes on" : "is started again");
	}
	if (is_news(failover->caught_up, failover->caught_up_s, end,
		&failover->printed_caught_up))
		printf("replica %d has caught up\n", failover->replica);
}

/* Print the rows that are complete, except those far from the fault. */
static void show(
    struct run_failover *failover, const struct load_progress *progress)
{
	uint32_t fault = (uint32_t)(failover->after_ns / RUN_ROW_NS);
	uint32_t last = fault + AFTER_ROWS +
	    (uint32_t)(run_failover_away(failover) / RUN_ROW_NS);

	/* A client counts a request only a moment after it has ended. */
	while ((failover->shown + 1) * RUN_ROW_NS + 5 * LOAD_SLOT_NS <=
	    progress->elapsed_ns) {
		uint32_t row = failover->shown++;

		if (!failover->live || row + BEFORE_ROWS < fault ||
		    row > last ||
		    (row + 1) * RUN_ROW_SLOTS >= progress->board->n_slots)
			continue;
		/* The mean before the fault is four fifths of the width. */
		if (failover->bar <= 0)
			failover->bar = 1 +
			    1.25 * (double)progress->completed * RUN_ROW_NS /
				(double)progress->elapsed_ns / BAR_MARKS;
		show_events(failover, row);
		show_row(failover, row, row_requests(failover, progress, row));
	}
	if (failover->live)
		output_flush();
}

int run_failover_step(
    struct run_failover *failover, const struct load_progress *progress)
{
	uint64_t away = run_failover_away(failover);

	if (failover->victim == RUN_NONE || progress->elapsed_ns == 0)
		return 0;
	show(failover, progress);
	if (!failover->struck)
		return progress->elapsed_ns >= failover->after_ns
		    ? strike(failover, progress)
		    : 0;
	if (away && !failover->back &&
	    progress->elapsed_ns >= (uint64_t)(failover->struck_s * 1e9) + away)
		return bring_back(failover, progress);
	if (failover->back && failover->stops && !failover->caught_up &&
	    failover->replica >= 0)
		return look_at_catch_up(failover, progress);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of faults. A line for each run; then how long service took to come
 * back after kill -9 of the leader, by protocol and wiring, and separately for
 * runs whose registry died as well; then the longest pause between answers
 * while a replica came back without its log and became a member again. Service
 * is back with the first answer to a command that was asked for after the
 * fault. Bad runs are in no row.
 *
 * The rows are compared with what the store is to reach on an idle machine. The
 * comparison decides no run, because a busy machine makes the times longer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "faults.h"

#define MEDIAN_MS 50
#define WORST_MS 500

const char *const fault_names[N_FAULTS] = { "kill-leader", "kill-follower",
	"stop-leader", "stop-follower", "kill-all", "kill-registry",
	"kill-client", "stop-client", "kill-two-leaders" };

enum protocol {
	PAIR_FLOWS = 0,
	FOUR_FLOWS,
	NOPAXOS,
	N_PROTOCOLS
};

static const char *const protocols[N_PROTOCOLS] = { "Multi-Paxos, pair flows",
	"Multi-Paxos, leader's flows", "NOPaxos" };

static enum protocol protocol_of(const struct plan *plan)
{
	return plan->nopaxos ? NOPAXOS : plan->flows ? FOUR_FLOWS : PAIR_FLOWS;
}

void report_run(const struct outcome *outcome)
{
	const struct plan *plan = &outcome->plan;
	const struct result *result = &outcome->result;

	printf("seed %" PRIu64
	       ": %u replicas%s%s%s%s%s%s, %s: %u before, %u after, "
	       "%zu unknown, service after %.1f ms, pause %.1f ms: %s\n",
	    plan->seed, plan->n_replicas, plan->log ? ", log" : "",
	    plan->forget ? ", forgets" : "",
	    plan->index_reads ? ", index reads" : "",
	    plan->nopaxos ? ", nopaxos" : "", plan->drop ? " with losses" : "",
	    plan->flows ? ", leader's flows" : "", fault_names[plan->fault],
	    result->n_before, result->n_after, result->n_unknown,
	    result->service_ms, result->pause_ms,
	    outcome->good ? "good" : "BAD");
	fflush(stdout);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* A row, if there is a time for it. */
static void print_row(const char *what, double *times, size_t n, bool bounded)
{
	static const char *const verdicts[] = { "  within bounds",
		"  median above", "  worst above", "  both above" };
	double median, worst;

	if (!n)
		return;
	qsort(times, n, sizeof(times[0]), by_value);
	median = times[n / 2];
	worst = times[n - 1];
	printf("%-50s %5zu %9.1f %9.1f%s\n", what, n, median, worst,
	    bounded ? verdicts[(median > MEDIAN_MS) + 2 * (worst > WORST_MS)]
		    : "");
}

static void print_service(const struct outcome *outcomes, unsigned n,
    enum protocol protocol, bool registry_dead, double *times)
{
	size_t n_times = 0;
	char what[64];
	unsigned i;

	for (i = 0; i < n; i++) {
		const struct outcome *outcome = &outcomes[i];

		if (outcome->good && outcome->result.killed_leader &&
		    protocol_of(&outcome->plan) == protocol &&
		    (outcome->plan.fault == KILL_REGISTRY) == registry_dead)
			times[n_times++] = outcome->result.service_ms;
	}
	snprintf(what, sizeof(what), "%s killed: %s",
	    registry_dead ? "leader and registry" : "leader",
	    protocols[protocol]);
	print_row(what, times, n_times, true);
}

bool report_all(const struct outcome *outcomes, unsigned n)
{
	double *times = calloc(n, sizeof(times[0]));
	unsigned i, n_bad = 0;
	size_t n_times = 0;
	int protocol;

	if (!times) {
		fprintf(stderr, "faults: no memory for %u times\n", n);
		return false;
	}
	printf("%-50s %5s %9s %9s  (bounds %d and %d)\n",
	    "ms until service is back", "runs", "median", "worst", MEDIAN_MS,
	    WORST_MS);
	for (protocol = 0; protocol < N_PROTOCOLS; protocol++)
		print_service(outcomes, n, protocol, false, times);
	for (protocol = 0; protocol < N_PROTOCOLS; protocol++)
		print_service(outcomes, n, protocol, true, times);
	for (i = 0; i < n; i++) {
		n_bad += !outcomes[i].good;
		if (outcomes[i].good && outcomes[i].result.pause_ms > 0)
			times[n_times++] = outcomes[i].result.pause_ms;
	}
	print_row("longest pause while a replica without log returns", times,
	    n_times, false);
	printf("%u runs, %u bad\n", n, n_bad);
	free(times);
	return n_bad == 0;
}

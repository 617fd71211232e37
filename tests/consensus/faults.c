/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults [--runs N] [--seed N] [--only FAULT] [--wiring flows] [--bin DIR]
 * [--verbose]: runs the replicated store as processes under load, each run with
 * a fault. A run is good if service comes back, each command's answer fits a
 * linearizable history, and all replicas are equal in the end. faults_report.c
 * prints how long clients waited.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"

#define MS UINT64_C(1000000)
#define SERVICE_MS 15000 /* wait limit until there is service */
#define END_MS 30000     /* until all have ended, or agree */

struct run {
	const struct setting *setting;
	struct plan plan;
	struct cluster cluster;
	struct board *board;
	pid_t clients[FAULTS_CLIENTS];
	uint64_t fault_at, back_at;
	int victim, second;
	struct result result;
};

static void pause_ms(unsigned ms)
{
	struct timespec pause = {
		.tv_sec = ms / 1000,
		.tv_nsec = (long)(ms % 1000) * 1000000,
	};

	while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
		;
}

static bool bad(const struct run *run, const char *what)
{
	fprintf(stderr, "seed %" PRIu64 ", %s: %s\n", run->plan.seed,
	    fault_names[run->plan.fault], what);
	return false;
}

static void make_plan(
    struct plan *plan, const struct setting *setting, uint64_t seed, int only)
{
	uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

	x ^= x >> 29;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 32;
	plan->seed = seed;
	plan->fault = (enum fault)(only >= 0 ? only : (int)(seed % N_FAULTS));
	plan->n_replicas = x & 1 ? 5 : 3;
	plan->log = x & 2 || plan->fault == KILL_ALL;
	plan->forget = x & 4 && plan->fault != KILL_ALL;
	plan->index_reads = x & 8;
	plan->flows = setting->flows;
	plan->nopaxos = x & 16 && !plan->flows;
	plan->drop = plan->nopaxos && x & 32;
	plan->delay_ms = (unsigned)(x >> 8 & 127);
	plan->stop_ms = 100 + (unsigned)(x >> 16 & 511);
	/*
	 * Two replicas that forget are a majority of three, and the data is
	 * lost.
	 */
	if (plan->fault == KILL_TWO_LEADERS && plan->n_replicas == 3)
		plan->n_replicas = 5;
}

static unsigned n_ok(const struct run *run)
{
	unsigned i, n = 0;

	for (i = 0; i < FAULTS_CLIENTS; i++)
		n += atomic_load(&run->board->clients[i].n_ok);
	return n;
}

static bool wait_for_ok(const struct run *run, unsigned n)
{
	uint64_t until = faults_now() + SERVICE_MS * MS;

	while (n_ok(run) < n) {
		if (faults_now() > until)
			return false;
		pause_ms(1);
	}
	return true;
}

/* Wait until a command that began after the fault has succeeded. */
static bool wait_for_service(struct run *run)
{
	const struct timespec pause = { .tv_nsec = 200000 };
	uint64_t until = faults_now() + SERVICE_MS * MS;
	unsigned i;

	while (faults_now() < until) {
		for (i = 0; i < FAULTS_CLIENTS; i++)
			if (atomic_load(&run->board->clients[i].last_invoked) >
			    run->fault_at)
				return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* From the fault until the first such answer, as the clients have noted it. */
static double service_ms(const struct run *run)
{
	uint64_t first = UINT64_MAX;
	unsigned i, at;

	for (i = 0; i < FAULTS_CLIENTS; i++) {
		const struct client_notes *notes = &run->board->clients[i];

		for (at = 0; at < atomic_load(&notes->n); at++) {
			const struct note *note = &notes->notes[at];

			if (atomic_load(&note->done) &&
			    note->op.invoked > run->fault_at &&
			    note->op.returned < first)
				first = note->op.returned;
		}
	}
	return (double)(first - run->fault_at) / 1e6;
}

static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The longest time without an answer since a replica came back. */
static double longest_pause_ms(const struct run *run)
{
	uint64_t *times = calloc(n_ok(run) + 1, sizeof(*times)), most = 0;
	unsigned i, at;
	size_t n = 0;

	if (!times)
		return 0;
	times[n++] = run->back_at;
	for (i = 0; i < FAULTS_CLIENTS; i++) {
		const struct client_notes *notes = &run->board->clients[i];

		for (at = 0; at < atomic_load(&notes->n); at++)
			if (atomic_load(&notes->notes[at].done) &&
			    notes->notes[at].op.returned > run->back_at)
				times[n++] = notes->notes[at].op.returned;
	}
	qsort(times, n, sizeof(*times), by_time);
	while (--n > 0)
		if (times[n] - times[n - 1] > most)
			most = times[n] - times[n - 1];
	free(times);
	return (double)most / 1e6;
}

static bool find_leader(struct run *run)
{
	uint64_t until = faults_now() + SERVICE_MS * MS;
	int leader;

	do {
		leader = atomic_load(&run->board->leader);
		if (leader >= 0 && run->cluster.replicas[leader] > 0) {
			run->victim = leader;
			return true;
		}
		pause_ms(1);
	} while (faults_now() < until);
	return false;
}

static void kill_replica(struct run *run, int number)
{
	run->fault_at = faults_now();
	process_end(&run->cluster.replicas[number]);
	run->result.killed_replica = true;
	if (run->plan.forget)
		replica_forget(&run->cluster, (unsigned)number);
}

static void do_fault(struct run *run)
{
	unsigned i, n = run->plan.n_replicas;
	int leader = run->victim;

	run->fault_at = faults_now();
	switch (run->plan.fault) {
	case KILL_REGISTRY:
		process_end(&run->cluster.registry);
		/* fall through */
	case KILL_LEADER:
	case KILL_TWO_LEADERS:
		kill_replica(run, leader);
		run->result.killed_leader = true;
		break;
	case KILL_FOLLOWER:
		run->victim = (int)(((unsigned)leader + 1) % n);
		kill_replica(run, run->victim);
		break;
	case STOP_FOLLOWER:
		run->victim = (int)(((unsigned)leader + 1) % n);
		kill(run->cluster.replicas[run->victim], SIGSTOP);
		break;
	case STOP_LEADER:
		kill(run->cluster.replicas[leader], SIGSTOP);
		break;
	case KILL_ALL:
		for (i = 0; i < n; i++)
			process_end(&run->cluster.replicas[i]);
		for (i = 0; i < n; i++)
			replica_start(&run->cluster, i, false);
		break;
	case KILL_CLIENT:
		process_end(&run->clients[1]);
		break;
	case STOP_CLIENT:
		kill(run->clients[1], SIGSTOP);
		break;
	case N_FAULTS:
	default:
		break;
	}
}

static bool repair(struct run *run)
{
	run->back_at = faults_now();
	switch (run->plan.fault) {
	case KILL_REGISTRY:
		if (!registry_start(run->setting, &run->cluster.registry))
			return bad(run, "the registry does not start again");
		/* fall through */
	case KILL_LEADER:
	case KILL_FOLLOWER:
		return replica_start(
		    &run->cluster, (unsigned)run->victim, false);
	case KILL_TWO_LEADERS:
		run->second = run->victim;
		if (!find_leader(run))
			return bad(run, "no second leader");
		kill_replica(run, run->victim);
		if (!wait_for_service(run))
			return bad(run, "no service after the second death");
		return replica_start(
			   &run->cluster, (unsigned)run->second, false) &&
		    replica_start(&run->cluster, (unsigned)run->victim, false);
	case STOP_LEADER:
	case STOP_FOLLOWER:
		pause_ms(run->plan.stop_ms);
		kill(run->cluster.replicas[run->victim], SIGCONT);
		return true;
	case STOP_CLIENT:
		pause_ms(run->plan.stop_ms);
		kill(run->clients[1], SIGCONT);
		return true;
	case KILL_ALL:
	case KILL_CLIENT:
	case N_FAULTS:
	default:
		return true;
	}
}

static bool end_client(struct run *run, unsigned number)
{
	uint64_t until = faults_now() + END_MS * MS;
	pid_t *pid = &run->clients[number];
	int status = 0;

	while (*pid > 0) {
		if (waitpid(*pid, &status, WNOHANG) == *pid)
			*pid = 0;
		else if (faults_now() > until)
			return bad(run, "a client does not end");
		else
			pause_ms(1);
	}
	return status == 0 || bad(run, "a client has failed");
}

/* The leader's flow to all brings ACCEPT to all others. */
static bool all_use_flows(struct run *run)
{
	return !run->plan.flows ||
	    cluster_uses_flows(&run->cluster, run->plan.n_replicas - 1, END_MS);
}

static bool begin(struct run *run)
{
	unsigned i;

	for (i = 0; i < run->plan.n_replicas; i++)
		if (!replica_start(&run->cluster, i, true))
			return bad(run, "a replica does not start");
	for (i = 0; i < FAULTS_CLIENTS; i++)
		run->clients[i] = client_start(&run->cluster, run->board, i);
	if (!wait_for_ok(run, 300))
		return bad(run, "no service at the beginning");
	if (!all_use_flows(run))
		return bad(run, "the leader's flows carry nothing");
	pause_ms(run->plan.delay_ms);
	return find_leader(run) || bad(run, "no leader");
}

static bool run_steps(struct run *run)
{
	unsigned i;

	if (!begin(run))
		return false;
	run->result.n_before = n_ok(run);
	do_fault(run);
	if (!wait_for_service(run))
		return bad(run, "service does not come back");
	run->result.service_ms = service_ms(run);
	if (!repair(run))
		return false;
	if (!wait_for_ok(run, n_ok(run) + 300))
		return bad(run, "service ends after the fault");
	if (!all_use_flows(run))
		return bad(run, "not all are in the leader's flows again");
	/* Under load, so that the cost is visible. */
	if (run->plan.forget && run->result.killed_replica &&
	    !cluster_is_whole(&run->cluster, END_MS))
		return bad(run, "a replica does not become a member again");
	atomic_store(&run->board->stop, true);
	for (i = 0; i < FAULTS_CLIENTS; i++)
		if (!end_client(run, i))
			return false;
	run->result.n_after = n_ok(run) - run->result.n_before;
	if (run->plan.forget && run->result.killed_replica)
		run->result.pause_ms = longest_pause_ms(run);
	return cluster_agrees(&run->cluster, END_MS) ||
	    bad(run, "the replicas don't come to hold the same");
}

static bool run_one(struct run *run)
{
	unsigned i;
	bool good;

	run->board = mmap(NULL, sizeof(*run->board), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run->board == MAP_FAILED)
		return bad(run, "no memory");
	atomic_store(&run->board->leader, -1);
	good = run_steps(run);
	for (i = 0; i < FAULTS_CLIENTS; i++)
		process_end(&run->clients[i]);
	cluster_end(&run->cluster);
	if (!history_check(run->board, &run->plan, &run->result.n_unknown))
		good = false;
	munmap(run->board, sizeof(*run->board));
	return good;
}

/* Arguments. */

struct arguments {
	struct setting setting;
	uint64_t seed;
	unsigned runs;
	int only;
};

static const struct argp_option table[] = {
	{ "runs", 'r', "N", 0, "(default 9: each fault once)", 0 },
	{ "seed", 's', "N", 0, "of the first run (default 0)", 0 },
	{ "only", 'o', "FAULT", 0,
	    "kill-leader, kill-follower, stop-leader, stop-follower, kill-all, "
	    "kill-registry, kill-client, stop-client or kill-two-leaders",
	    0 },
	{ "wiring", 'w', "NAME", 0,
	    "pairs, or flows: Multi-Paxos by the leader's flows in all runs",
	    0 },
	{ "bin", 'b', "DIR", 0, "of dfi-kv and dfi-registry", 0 },
	{ "dir", 'd', "DIR", 0, "for logs (default /dev/shm)", 0 },
	{ "election", 'e', "MS", 0, "of the replicas", 0 },
	{ "verbose", 'v', NULL, 0, "show what the processes say", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *arguments = state->input;
	int i;

	switch (key) {
	case 'r':
		arguments->runs = (unsigned)strtoul(arg, NULL, 10);
		return 0;
	case 's':
		arguments->seed = strtoull(arg, NULL, 10);
		return 0;
	case 'o':
		for (i = 0; i < N_FAULTS; i++)
			if (!strcmp(fault_names[i], arg))
				arguments->only = i;
		if (arguments->only < 0)
			argp_error(state, "there is no fault '%s'", arg);
		return 0;
	case 'w':
		arguments->setting.flows = !strcmp(arg, "flows");
		return 0;
	case 'b':
		arguments->setting.bin = arg;
		return 0;
	case 'd':
		arguments->setting.where = arg;
		return 0;
	case 'e':
		arguments->setting.election_ms = (unsigned)strtoul(
		    arg, NULL, 10);
		return 0;
	case 'v':
		arguments->setting.verbose = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void run_number(const struct arguments *arguments, unsigned i,
    pid_t *registry, struct outcome *outcome)
{
	struct run run = { .setting = &arguments->setting };

	make_plan(&run.plan, run.setting, arguments->seed + i, arguments->only);
	run.cluster.setting = run.setting;
	run.cluster.plan = &run.plan;
	run.cluster.registry = *registry;
	snprintf(run.cluster.name, sizeof(run.cluster.name), "f%d-%u",
	    (int)getpid(), i);
	outcome->good = run_one(&run);
	outcome->plan = run.plan;
	outcome->result = run.result;
	*registry = run.cluster.registry;
	if (*registry <= 0)
		registry_start(&arguments->setting, registry);
}

static bool run_all(const struct arguments *arguments, pid_t *registry)
{
	struct outcome *outcomes = calloc(arguments->runs, sizeof(*outcomes));
	unsigned i;
	bool good;

	if (!outcomes) {
		fprintf(
		    stderr, "faults: no memory for %u runs\n", arguments->runs);
		return false;
	}
	for (i = 0; i < arguments->runs; i++) {
		run_number(arguments, i, registry, &outcomes[i]);
		report_run(&outcomes[i]);
	}
	good = report_all(outcomes, arguments->runs);
	free(outcomes);
	return good;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = table,
		.parser = parse_option,
		.doc = "Run the replicated store as processes, with faults.",
	};
	struct arguments arguments = {
		.runs = N_FAULTS,
		.only = -1,
		.setting = {
			.bin = "build/bin",
			.where = "/dev/shm",
			.open_ms = 24000,
			.think_ms = 1,
		},
	};
	pid_t registry;
	bool good;

	argp_parse(&argp, argc, argv, 0, NULL, &arguments);
	snprintf(arguments.setting.registry, sizeof(arguments.setting.registry),
	    "unix:@dfi-kv-faults-%d", (int)getpid());
	if (!registry_start(&arguments.setting, &registry)) {
		fprintf(stderr, "faults: %s\n", strerror(errno));
		return 2;
	}
	good = run_all(&arguments, &registry);
	process_end(&registry);
	return !good;
}

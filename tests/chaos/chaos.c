/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chaos: runs of flows whose processes are killed, stopped, aborted or
 * cancelled, leave early, or lose their registry, at random. The seed decides
 * each run as far as scheduling allows. All survivors must end in time, with
 * the right tuples and errors (verdict.c).
 *
 * chaos [--seconds N] [--runs N] [--seed S] [--limit MS] [--wait-limit MS]
 *	[--open-timeout MS] [--volume PERCENT] [--verbose]
 *
 * Without --seconds and --runs: 100 runs. --limit is the time in which a death
 * must be told, not counting what the machine is late meanwhile (lateness.h),
 * --wait-limit the time without a tuple, or any other progress, after which a
 * run hangs, --open-timeout that of all endpoints; else it is 2 s, and in some
 * runs 8 s, --volume how many tuples are sent, compared to the usual. Each
 * violation is printed with its seed, which --seed S --runs 1 repeats. The last
 * line is "runs: N violations: M", the exit status 0 without a violation.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lateness.h"
#include "runner.h"
#include "verdict.h"

#define GRACE_MS 2000
#define OPEN_TIMEOUT_MS 2000
#define LONG_OPEN_TIMEOUT_MS 8000
#define MAX_ACTIONS (2 * MAX_FAULTS)

static struct {
	uint64_t seed;
	uint32_t seconds, runs;
	uint32_t limit_ms, wait_limit_ms, open_timeout_ms;
	uint32_t volume;
	bool verbose;
} options = {
	.volume = 100,
	.limit_ms = 2000,
	.wait_limit_ms = 20000,
};

/* Something that happens at a time. */
struct action {
	int64_t at_ns;
	uint32_t process;
	int signal; /* 0: start a registry */
};

struct run {
	struct plan plan;
	struct board *board;
	struct outcome outcome;
	int board_fd;
	pid_t pids[MAX_PROCESSES + 2]; /* 0: gone */
	int creator_in;                /* its stdin: its end is its end */
	char address[64];
	struct action actions[MAX_ACTIONS];
	uint32_t n_actions;
	uint64_t progress; /* as last seen */
	int64_t deadline_ns;
};

static void start_registry(struct run *run)
{
	run->pids[REGISTRY] = runner_start_registry(
	    run->address, NULL, run->board_fd);
}

static void start_process(struct run *run, uint32_t process, int in)
{
	char seed[24], volume[12], number[12], timeout[12];
	const char *const argv[] = { DFI_CHAOS_WORKER, RUNNER_BOARD_FD, seed,
		volume, number, run->address, timeout, NULL };

	snprintf(seed, sizeof(seed), "%" PRIu64, run->plan.seed);
	snprintf(volume, sizeof(volume), "%u", options.volume);
	snprintf(number, sizeof(number), "%u", process);
	snprintf(timeout, sizeof(timeout), "%u", run->outcome.open_timeout_ms);
	run->pids[process] = runner_spawn(argv, run->board_fd, in, -1);
}

static void start_creator(struct run *run)
{
	int in[2];

	if (pipe2(in, O_CLOEXEC) < 0)
		runner_die("pipe");
	start_process(run, CREATOR, in[0]);
	close(in[0]);
	run->creator_in = in[1];
}

/*
 * Note the processes that have ended. Returns whether one with endpoints is
 * left.
 */
static bool reap(struct run *run)
{
	bool left = false;
	uint32_t i;
	int status;

	for (i = 0; i < MAX_PROCESSES + 2; i++) {
		if (!run->pids[i])
			continue;
		if (waitpid(run->pids[i], &status, WNOHANG) == run->pids[i]) {
			run->outcome.status[i] = status;
			run->pids[i] = 0;
		} else {
			left = left || i < MAX_PROCESSES;
		}
	}
	return left;
}

static void end_now(struct run *run, uint32_t process)
{
	if (!run->pids[process])
		return;
	kill(run->pids[process], SIGKILL);
	waitpid(run->pids[process], &run->outcome.status[process], 0);
	run->pids[process] = 0;
}

/* All stops of a process end at once. */
static void note_continued(struct outcome *outcome, uint32_t process)
{
	uint32_t i;

	for (i = 0; i < outcome->n_stops; i++)
		if (outcome->stops[i].process == process &&
		    !outcome->stops[i].to_ns)
			outcome->stops[i].to_ns = runner_now_ns();
}

static void act(struct run *run, const struct action *action)
{
	struct outcome *outcome = &run->outcome;
	uint32_t process = action->process;

	if (!action->signal) {
		start_registry(run);
		outcome->registry_back_ns = runner_now_ns();
		return;
	}
	if (!run->pids[process])
		return;
	if (action->signal == SIGCONT) {
		kill(run->pids[process], SIGCONT);
		outcome->continued_ns[process] = runner_now_ns();
		note_continued(outcome, process);
	} else if (action->signal == SIGSTOP) {
		outcome->stops[outcome->n_stops++] = (struct stop){
			.process = process,
			.from_ns = runner_now_ns(),
		};
		kill(run->pids[process], SIGSTOP);
		if (process != REGISTRY && outlives_lease(&run->plan, process))
			outcome->expired_ns[process] = runner_now_ns() +
			    (int64_t)run->plan.lease_ms * 1000000;
	} else if (process == REGISTRY) {
		outcome->registry_down_ns = runner_now_ns();
		end_now(run, process);
	} else {
		/* If it was not over before. */
		outcome->killed_ns[process] = runner_now_ns();
		end_now(run, process);
		if (WIFEXITED(outcome->status[process]))
			outcome->killed_ns[process] = 0;
	}
}

static void add_action(
    struct run *run, int64_t at_ns, uint32_t process, int signal)
{
	run->actions[run->n_actions++] = (struct action){
		.at_ns = at_ns,
		.process = process,
		.signal = signal,
	};
	if (at_ns + (int64_t)options.wait_limit_ms * 1000000 > run->deadline_ns)
		run->deadline_ns = at_ns +
		    (int64_t)options.wait_limit_ms * 1000000;
}

static void plan_actions(struct run *run)
{
	int64_t start = runner_now_ns(), at;
	const struct fault *fault;
	uint32_t i;

	run->deadline_ns = start + (int64_t)options.wait_limit_ms * 1000000;
	for (i = 0; i < run->plan.n_faults; i++) {
		fault = &run->plan.faults[i];
		at = start + (int64_t)fault->at_ms * 1000000;
		add_action(run, at, fault->process,
		    fault->kind == FAULT_STOP ? SIGSTOP : SIGKILL);
		at += (int64_t)fault->for_ms * 1000000;
		if (fault->kind == FAULT_STOP)
			add_action(run, at, fault->process, SIGCONT);
		else if (fault->kind == FAULT_RESTART)
			add_action(run, at, REGISTRY, 0);
	}
}

static bool has_due(struct run *run)
{
	int64_t now = runner_now_ns();
	bool left = false;
	uint32_t i;

	for (i = 0; i < run->n_actions; i++) {
		if (!run->actions[i].at_ns)
			continue;
		if (run->actions[i].at_ns > now) {
			left = true;
			continue;
		}
		act(run, &run->actions[i]);
		run->actions[i].at_ns = 0;
	}
	return left;
}

/* While anything makes progress, nothing hangs. */
static void watch_progress(struct run *run)
{
	int64_t deadline = runner_now_ns() +
	    (int64_t)options.wait_limit_ms * 1000000;
	const struct end_board *at;
	uint64_t progress = 0;
	uint32_t e, i;

	for (e = 0; e < run->plan.n_ends; e++) {
		at = &run->board->ends[e];
		progress += atomic_load(&at->state);
		for (i = 0; i < MAX_ENDS; i++)
			progress += atomic_load(&at->tuples[i]);
	}
	if (progress != run->progress && deadline > run->deadline_ns)
		run->deadline_ns = deadline;
	run->progress = progress;
}

/* Wait for an end, and report a hang. */
static void await_end(struct run *run, uint32_t process)
{
	int64_t wait_limit = runner_now_ns() +
	    (int64_t)options.wait_limit_ms * 1000000;

	while (run->pids[process] && runner_now_ns() < wait_limit) {
		runner_pace();
		reap(run);
	}
	if (!run->pids[process])
		return;
	run->outcome.hung[process] = true;
	runner_show_threads(run->pids[process]);
	end_now(run, process);
}

static void run_processes(struct run *run)
{
	uint32_t i;

	while (reap(run) && runner_now_ns() < run->deadline_ns) {
		has_due(run);
		watch_progress(run);
		runner_pace();
	}
	for (i = 0; i < MAX_PROCESSES; i++)
		if (run->pids[i]) {
			run->outcome.hung[i] = true;
			runner_show_threads(run->pids[i]);
		}
	for (i = 0; i < MAX_PROCESSES; i++)
		end_now(run, i);
	/* Nobody is left stopped. */
	while (has_due(run))
		runner_pace();
	close(run->creator_in);
	await_end(run, CREATOR);
	if (run->pids[REGISTRY])
		kill(run->pids[REGISTRY], SIGTERM);
	await_end(run, REGISTRY);
}

static uint32_t open_timeout_ms(const struct plan *plan)
{
	if (options.open_timeout_ms)
		return options.open_timeout_ms;
	return plan->is_patient ? LONG_OPEN_TIMEOUT_MS : OPEN_TIMEOUT_MS;
}

static unsigned run_once(uint64_t seed, struct latest *latest)
{
	struct run run = { .creator_in = -1 };
	unsigned violations;
	uint32_t i;

	make_plan(&run.plan, seed, options.volume);
	if (options.verbose)
		print_plan(&run.plan);
	run.board = runner_open_board(sizeof(*run.board), &run.board_fd);
	snprintf(run.address, sizeof(run.address),
	    "unix:@dfi-chaos-%d-%" PRIu64, (int)getpid(), seed);
	run.outcome.limit_ns = (int64_t)options.limit_ms * 1000000;
	run.outcome.grace_ns = (int64_t)GRACE_MS * 1000000;
	run.outcome.open_timeout_ms = open_timeout_ms(&run.plan);
	start_registry(&run);
	start_creator(&run);
	for (i = 0; i < run.plan.n_processes; i++)
		start_process(&run, i, -1);
	plan_actions(&run);
	run_processes(&run);
	violations = judge(&run.plan, run.board, &run.outcome, latest);
	if (violations && !options.verbose)
		print_plan(&run.plan);
	if (violations || options.verbose)
		print_board(&run.plan, run.board, &run.outcome);
	fflush(stdout);
	munmap(run.board, sizeof(*run.board));
	close(run.board_fd);
	return violations;
}

static uint32_t number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || n > UINT32_MAX) {
		fprintf(stderr, "chaos: '%s' is not a number\n", text);
		exit(EXIT_FAILURE);
	}
	return (uint32_t)n;
}

static void parse(int argc, char **argv)
{
	static const struct option table[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "runs", required_argument, NULL, 'r' },
		{ "seed", required_argument, NULL, 'S' },
		{ "limit", required_argument, NULL, 'l' },
		{ "wait-limit", required_argument, NULL, 'p' },
		{ "open-timeout", required_argument, NULL, 'o' },
		{ "volume", required_argument, NULL, 'V' },
		{ "verbose", no_argument, NULL, 'v' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	options.seed = (uint64_t)time(NULL);
	while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
		if (option == 's')
			options.seconds = number(optarg);
		else if (option == 'r')
			options.runs = number(optarg);
		else if (option == 'S')
			options.seed = strtoull(optarg, NULL, 10);
		else if (option == 'l')
			options.limit_ms = number(optarg);
		else if (option == 'p')
			options.wait_limit_ms = number(optarg);
		else if (option == 'o')
			options.open_timeout_ms = number(optarg);
		else if (option == 'V')
			options.volume = number(optarg);
		else if (option == 'v')
			options.verbose = true;
		else
			exit(EXIT_FAILURE);
	}
	if (optind < argc) {
		fprintf(stderr, "chaos: unknown argument '%s'\n", argv[optind]);
		exit(EXIT_FAILURE);
	}
	if (!options.seconds && !options.runs)
		options.runs = 100;
}

int main(int argc, char **argv)
{
	struct latest latest = { .took_ns = 0 };
	unsigned violations = 0;
	char grace[12];
	uint32_t runs;
	int64_t end;

	parse(argc, argv);
	if (access(DFI_BIN_DIR "/dfi-registry", X_OK) < 0) {
		fprintf(stderr, "chaos: dfi-registry is not built\n");
		return 77;
	}
	snprintf(grace, sizeof(grace), "%d", GRACE_MS);
	setenv("DFI_REGISTRY_GRACE", grace, 1);
	/* The loss of a registry is expected, and logged often. */
	setenv("DFI_LOG", "error", 0);
	errno = lateness_start();
	if (errno)
		runner_die("a thread on each processor");
	end = options.seconds
	    ? runner_now_ns() + INT64_C(1000000000) * options.seconds
	    : INT64_MAX;
	for (runs = 0;
	     runner_now_ns() < end && (!options.runs || runs < options.runs);
	     runs++) {
		if (runs && runs % 100 == 0)
			printf("%u runs, %u violations\n", runs, violations);
		violations += run_once(options.seed + runs, &latest);
	}
	printf("latest error: after %" PRId64 " ms, of which this machine was "
	       "late for %" PRId64 "\n",
	    latest.took_ns / 1000000, latest.late_ns / 1000000);
	printf("seeds: %" PRIu64 " to %" PRIu64 "\n", options.seed,
	    options.seed + runs - 1);
	printf("runs: %u violations: %u\n", runs, violations);
	return violations ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simulate: runs the replicated store in virtual time, once for each seed.
 * Prints the events seen in all runs, or the seed that failed, and why.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "examples/consensus/nopaxos.h"
#include "sim.h"

#define MAX_JOBS 64
/* Of a processor's time, for one run: it takes some milliseconds. */
#define RUN_SECONDS 120

static const struct {
	const char *name;
	unsigned bug;
	bool fast; /* only with an ordered flow */
} bugs[] = {
	{ "no-quorum", PAXOS_BUG_NO_QUORUM, false },
	{ "early-reply", PAXOS_BUG_EARLY_REPLY, false },
	{ "lost-sessions", PAXOS_BUG_LOST_SESSIONS, false },
	{ "stale-read", PAXOS_BUG_STALE_READ, false },
	{ "vote-not-synced", PAXOS_BUG_VOTE_NOT_SYNCED, false },
	{ "forgotten-votes", PAXOS_BUG_FORGOTTEN_VOTES, false },
	{ "old-ballot", PAXOS_BUG_OLD_BALLOT, false },
	{ "old-vote", PAXOS_BUG_OLD_VOTE, false },
	{ "own-value", PAXOS_BUG_OWN_VALUE, false },
	{ "lowest-ballot", PAXOS_BUG_LOWEST_BALLOT, false },
	{ "config-early", PAXOS_BUG_CONFIG_EARLY, false },
	{ "duplicates", PAXOS_BUG_DUPLICATES, false },
	{ "short-promise", PAXOS_BUG_SHORT_PROMISE, false },
	{ "commit-blind", PAXOS_BUG_COMMIT_BLIND, false },
	{ "trimmed-promise", PAXOS_BUG_TRIMMED_PROMISE, false },
	{ "any-promise", PAXOS_BUG_ANY_PROMISE, false },
	/* Of the fast path. */
	{ "noop-loses", PAXOS_BUG_NOOP_LOSES, true },
	{ "blind-ack", PAXOS_BUG_BLIND_ACK, true },
	{ "blind-apply", PAXOS_BUG_BLIND_APPLY, true },
	{ "slot-filter", PAXOS_BUG_SLOT_FILTER, true },
	{ "filled-twice", NOPAXOS_BUG_FILLED_TWICE *SIM_NOPAXOS_BUGS, true },
	{ "past-gap", NOPAXOS_BUG_PAST_GAP *SIM_NOPAXOS_BUGS, true },
	{ "old-session", NOPAXOS_BUG_OLD_SESSION *SIM_NOPAXOS_BUGS, true },
	{ "undecides", NOPAXOS_BUG_UNDECIDES *SIM_NOPAXOS_BUGS, true },
	{ "holes", NOPAXOS_BUG_HOLES *SIM_NOPAXOS_BUGS, true },
	{ "any-slot", SIM_BUG_ANY_SLOT, true },
	{ "exit", SIM_BUG_EXIT, false },
};
#define N_BUGS (sizeof(bugs) / sizeof(bugs[0]))

#define COUNT(name)                                             \
	{                                                       \
#name, offsetof(struct sim_counts, name), false \
	}
#define FAST(name)                                             \
	{                                                      \
#name, offsetof(struct sim_counts, name), true \
	}
static const struct {
	const char *name;
	size_t offset;
	bool fast;
} counts[] = {
	COUNT(runs),
	COUNT(events),
	COUNT(messages),
	COUNT(lost),
	COUNT(repeated),
	COUNT(late),
	COUNT(refused),
	COUNT(requests),
	COUNT(unknown),
	COUNT(expired),
	COUNT(retries),
	COUNT(answers_no_quorum),
	COUNT(crashes),
	COUNT(forgotten),
	COUNT(pauses),
	COUNT(cuts),
	COUNT(torn),
	COUNT(compared),
	COUNT(recovered),
	COUNT(majorities_lost),
	COUNT(prevotes),
	COUNT(elections),
	COUNT(elections_won),
	COUNT(snapshots_sent),
	COUNT(snapshots_loaded),
	COUNT(config_changes),
	COUNT(reads),
	COUNT(read_rounds),
	FAST(flows),
	FAST(segments),
	FAST(segments_lost),
	FAST(gateways_stopped),
	FAST(holders_lost),
	FAST(registries_dead),
	FAST(fast_opened),
	FAST(fast_ended),
	FAST(accepted),
	FAST(gaps_decided),
	FAST(gaps_taken),
	FAST(batches),
	FAST(batched),
	FAST(gaps_over),
	FAST(gaps_asked),
	FAST(gaps_filled),
	FAST(stashed),
	FAST(stash_full),
	FAST(executed),
	FAST(barriers),
	FAST(quorums),
};
#define N_COUNTS (sizeof(counts) / sizeof(counts[0]))

/* What the processes share. */
struct job {
	_Atomic uint64_t seed; /* that it is at */
	struct sim_counts counts;
	uint64_t failed; /* seed, or UINT64_MAX */
	bool unfit;      /* it says nothing of the store */
	char failure[512];
};

struct shared {
	_Atomic uint64_t next, done;
	_Atomic uint64_t failed; /* the lowest seed, or UINT64_MAX */
	struct job jobs[MAX_JOBS];
};

struct options {
	uint64_t first, last;
	unsigned jobs;
	unsigned bugs;
	bool trace, find_all;
	const struct sim_core *core;
};

static void run_seeds(
    const struct options *options, struct shared *shared, struct job *job)
{
	struct sim *sim = calloc(1, sizeof(*sim));
	uint64_t seed, lowest;

	if (!sim)
		abort();
	sim->core = options->core;
	sim->bugs = options->bugs;
	for (;;) {
		seed = atomic_fetch_add(&shared->next, 1);
		if (seed > options->last || seed > atomic_load(&shared->failed))
			break;
		atomic_store(&job->seed, seed);
		alarm(RUN_SECONDS);
		sim->seed = seed;
		if (sim_run(sim) && seed < job->failed) {
			job->failed = seed;
			job->unfit = sim->unfit;
			memcpy(
			    job->failure, sim->failure, sizeof(job->failure));
			lowest = atomic_load(&shared->failed);
			while (seed < lowest &&
			    !atomic_compare_exchange_weak(
				&shared->failed, &lowest, seed))
				;
		}
		atomic_fetch_add(&shared->done, 1);
	}
	job->counts = sim->counts;
	sim_free(sim);
	free(sim);
}

static void show_progress(const struct options *options, struct shared *shared,
    double seconds, bool last)
{
	uint64_t done = atomic_load(&shared->done);

	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " seeds, %.0f s%s", done,
	    options->last - options->first + 1, seconds, last ? "\n" : "");
}

static double seconds_since(const struct timespec *begin)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - begin->tv_sec) +
	    (double)(now.tv_nsec - begin->tv_nsec) / 1e9;
}

/* A process has ended in an unexpected way: its seed has failed. */
static void note_end(struct shared *shared, struct job *job, int status)
{
	uint64_t seed = atomic_load(&job->seed);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	job->failed = seed;
	job->unfit = true;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		snprintf(job->failure, sizeof(job->failure),
		    "the run has not ended in %d s", RUN_SECONDS);
	else if (WIFSIGNALED(status))
		snprintf(job->failure, sizeof(job->failure),
		    "the program was ended by signal %d (%s)", WTERMSIG(status),
		    strsignal(WTERMSIG(status)));
	else
		snprintf(job->failure, sizeof(job->failure),
		    "the program has exited with status %d",
		    WEXITSTATUS(status));
	if (seed < atomic_load(&shared->failed))
		atomic_store(&shared->failed, seed);
}

static void run_jobs(const struct options *options, struct shared *shared,
    const struct timespec *begin)
{
	pid_t pids[MAX_JOBS];
	unsigned i, left = options->jobs;
	int status;

	for (i = 0; i < options->jobs; i++) {
		shared->jobs[i].failed = UINT64_MAX;
		pids[i] = fork();
		if (pids[i] < 0) {
			perror("simulate: fork");
			exit(2);
		}
		if (pids[i] == 0) {
			run_seeds(options, shared, &shared->jobs[i]);
			exit(0);
		}
	}
	while (left) {
		for (i = 0; i < options->jobs; i++)
			if (pids[i] &&
			    waitpid(pids[i], &status, WNOHANG) == pids[i]) {
				note_end(shared, &shared->jobs[i], status);
				pids[i] = 0;
				left--;
			}
		show_progress(options, shared, seconds_since(begin), left == 0);
		if (left)
			poll(NULL, 0, 50);
	}
}

static uint64_t sum(const struct shared *shared, unsigned jobs, size_t count)
{
	uint64_t value, all = 0;
	unsigned i;

	for (i = 0; i < jobs; i++) {
		memcpy(&value,
		    (const char *)&shared->jobs[i].counts +
			counts[count].offset,
		    sizeof(value));
		all += value;
	}
	return all;
}

/* Returns how many kinds of things were never seen. */
static unsigned print_counts(
    const struct options *options, const struct shared *shared)
{
	unsigned missing = 0;
	uint64_t value;
	size_t i;

	for (i = 0; i < N_COUNTS; i++) {
		if (counts[i].fast && !options->core->deliver)
			continue;
		value = sum(shared, options->jobs, i);
		printf("%-18s %12" PRIu64 "%s", counts[i].name, value,
		    i % 3 == 2 || i + 1 == N_COUNTS ? "\n" : "   ");
		missing += value == 0;
	}
	for (i = 0; missing && i < N_COUNTS; i++)
		if ((!counts[i].fast || options->core->deliver) &&
		    sum(shared, options->jobs, i) == 0)
			printf("never seen: %s\n", counts[i].name);
	return missing;
}

/*
 * Returns the exit status: 0, or 1 if a seed has failed. *violation: the store
 * has broken a rule in it.
 */
static int run_all(const struct options *options, bool *violation)
{
	struct shared *shared = mmap(NULL, sizeof(*shared),
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct timespec begin;
	unsigned i, missing = 0;
	uint64_t failed;

	if (shared == MAP_FAILED) {
		perror("simulate: mmap");
		exit(2);
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	atomic_store(&shared->next, options->first);
	atomic_store(&shared->failed, UINT64_MAX);
	run_jobs(options, shared, &begin);
	failed = atomic_load(&shared->failed);
	*violation = false;
	for (i = 0; i < options->jobs; i++)
		if (failed != UINT64_MAX && shared->jobs[i].failed == failed) {
			printf("seed %" PRIu64 " fails: %s\n", failed,
			    shared->jobs[i].failure);
			*violation = !shared->jobs[i].unfit;
		}
	if (failed == UINT64_MAX && !options->bugs) {
		missing = print_counts(options, shared);
		printf("%" PRIu64 " seeds without violation, %.1f s\n",
		    options->last - options->first + 1, seconds_since(&begin));
	}
	munmap(shared, sizeof(*shared));
	/* A few seeds need not show every event. */
	if (missing && options->last - options->first >= 999)
		return 1;
	return failed != UINT64_MAX;
}

static int run_one(const struct options *options)
{
	struct sim *sim = calloc(1, sizeof(*sim));
	int err;

	if (!sim)
		abort();
	sim->core = options->core;
	sim->bugs = options->bugs;
	sim->trace = options->trace;
	sim->seed = options->first;
	err = sim_run(sim);
	if (err)
		printf("seed %" PRIu64 " fails: %s\n", sim->seed, sim->failure);
	else
		printf("seed %" PRIu64 ": no violation\n", sim->seed);
	sim_free(sim);
	free(sim);
	return err != 0;
}

/*
 * Run seeds with each planted fault of the protocol until one finds it: the
 * store breaks a rule there. A planted fault of the simulator itself must not
 * count.
 */
static int find_bugs(struct options *options)
{
	unsigned i, missed = 0;
	bool violation;

	for (i = 0; i < N_BUGS; i++) {
		if (bugs[i].fast != (options->core->deliver != NULL))
			continue;
		options->bugs = bugs[i].bug;
		printf("%-16s ", bugs[i].name);
		fflush(stdout);
		if (run_all(options, &violation) &&
		    violation != (bugs[i].bug == SIM_BUG_EXIT))
			continue;
		printf("%s in seeds %" PRIu64 " to %" PRIu64 "\n",
		    violation ? "found, but it is none of the store's,"
			      : "not found",
		    options->first, options->last);
		missed++;
	}
	return missed != 0;
}

static void usage(FILE *file)
{
	size_t i;

	fprintf(file,
	    "usage: simulate [--seeds A-B | --seed N] [--trace] [-j N]\n"
	    "                [--bug NAME | --find-bugs] [--protocol NAME]\n"
	    "Runs a replicated store in virtual time, one run per seed.\n\n"
	    "  --seeds A-B    these seeds (1-1000)\n"
	    "  --seed N       this one\n"
	    "  --trace        print all that happens; with --seed\n"
	    "  -j N           in N processes (1)\n"
	    "  --bug NAME     plant a fault\n"
	    "  --find-bugs    plant each, until a seed finds it\n"
	    "  --protocol NAME  paxos (the default) or nopaxos\n\n"
	    "Faults:");
	for (i = 0; i < N_BUGS; i++)
		fprintf(file, "%s %s", i % 5 == 0 && i ? "\n       " : "",
		    bugs[i].name);
	fputc('\n', file);
}

static void wrong(const char *what, const char *value)
{
	fprintf(stderr, "simulate: %s '%s'; see --help\n", what, value);
	exit(2);
}

static uint64_t read_number(const char *text, char end, const char **rest)
{
	char *behind;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &behind, 10);
	if (errno || behind == text || *text == '-' || *behind != end)
		wrong("no seed or number", text);
	*rest = behind + 1;
	return value;
}

static unsigned find_bug(const char *name)
{
	size_t i;

	for (i = 0; i < N_BUGS; i++)
		if (strcmp(bugs[i].name, name) == 0)
			return bugs[i].bug;
	wrong("no such fault:", name);
	return 0;
}

static const struct sim_core *find_core(const char *name)
{
	if (strcmp(name, sim_nopaxos.name) == 0)
		return &sim_nopaxos;
	if (strcmp(name, sim_paxos.name) != 0)
		wrong("no such protocol:", name);
	return &sim_paxos;
}

static void read_options(int argc, char **argv, struct options *options)
{
	static const struct option longs[] = {
		{ "seeds", required_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 'o' },
		{ "trace", no_argument, NULL, 't' },
		{ "bug", required_argument, NULL, 'b' },
		{ "find-bugs", no_argument, NULL, 'f' },
		{ "protocol", required_argument, NULL, 'p' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *rest;
	int option;

	while ((option = getopt_long(argc, argv, "j:h", longs, NULL)) >= 0) {
		if (option == 's') {
			options->first = read_number(optarg, '-', &rest);
			options->last = read_number(rest, 0, &rest);
		} else if (option == 'o') {
			options->first = options->last = read_number(
			    optarg, 0, &rest);
		} else if (option == 't') {
			options->trace = true;
		} else if (option == 'b') {
			options->bugs |= find_bug(optarg);
		} else if (option == 'f') {
			options->find_all = true;
		} else if (option == 'j') {
			options->jobs = (unsigned)read_number(optarg, 0, &rest);
		} else if (option == 'p') {
			options->core = find_core(optarg);
		} else {
			usage(option == 'h' ? stdout : stderr);
			exit(option == 'h' ? 0 : 2);
		}
	}
	if (optind < argc)
		wrong("unexpected", argv[optind]);
	if (options->jobs < 1 || options->jobs > MAX_JOBS)
		wrong("-j takes 1 to 64, not", "that");
	if (options->last < options->first)
		wrong("no seeds in", "that range");
}

int main(int argc, char **argv)
{
	struct options options = {
		.first = 1, .last = 1000, .jobs = 1, .core = &sim_paxos
	};
	bool violation;

	read_options(argc, argv, &options);
	if (options.find_all)
		return find_bugs(&options);
	if (options.first == options.last)
		return run_one(&options);
	return run_all(&options, &violation);
}

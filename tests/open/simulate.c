/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simulate: runs an open flow in virtual time, once for each seed. Prints what
 * was seen in all runs, or the lowest seed that failed, and why.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

#define MAX_JOBS 64
#define RUN_SECONDS 60 /* for a run, which takes about a millisecond */

static const struct {
	const char *name;
	unsigned bug;
} bugs[] = {
	{ "unsettled", OPEN_BUG_UNSETTLED },
	{ "same-epoch", OPEN_BUG_SAME_EPOCH },
	{ "deaf-epoch", OPEN_BUG_DEAF_EPOCH },
	{ "early-release", OPEN_BUG_EARLY_RELEASE },
	{ "lost-rest", OPEN_BUG_LOST_REST },
	{ "early-send", OPEN_BUG_EARLY_SEND },
	{ "overtake", OPEN_BUG_OVERTAKE },
	{ "no-mark", OPEN_BUG_NO_MARK },
	{ "no-filter", OPEN_BUG_NO_FILTER },
	{ "any-newest", OPEN_BUG_ANY_NEWEST },
	{ "forgetful", OPEN_BUG_FORGETFUL },
	{ "any-mark", OPEN_BUG_ANY_MARK },
	{ "resume-at-seen", SIM_BUG_RESUME_AT_SEEN },
	{ "low-at-sent", SIM_BUG_LOW_AT_SENT },
	{ "join-at-0", OPEN_BUG_JOIN_AT_0 },
	{ "lost-at-once", OPEN_BUG_LOST_AT_ONCE },
	{ "idle-mark", OPEN_BUG_IDLE_MARK },
	{ "held", OPEN_BUG_HELD },
	{ "no-align", OPEN_BUG_NO_ALIGN },
	{ "no-suspend", OPEN_BUG_NO_SUSPEND },
	{ "patient", OPEN_BUG_PATIENT },
	{ "count-sleep", OPEN_BUG_COUNT_SLEEP },
	{ "busy-ring", SIM_BUG_BUSY_RING },
	{ "no-look", SIM_BUG_NO_LOOK },
	{ "early-ack", SIM_BUG_EARLY_ACK },
	{ "no-fence", SIM_BUG_NO_FENCE },
	{ "no-take-back", SIM_BUG_NO_TAKE_BACK },
	{ "apart", SIM_BUG_APART },
	{ "long-rest", SIM_BUG_LONG_REST },
	{ "mark-first", SIM_BUG_MARK_FIRST },
	{ "two-holders", SIM_BUG_TWO_HOLDERS },
	{ "any-holder", SIM_BUG_ANY_HOLDER },
	{ "same-ring", SIM_BUG_SAME_RING },
	{ "no-window", SIM_BUG_NO_WINDOW },
	{ "greatest", OPEN_BUG_GREATEST },
	{ "anew", OPEN_BUG_ANEW },
	{ "keeps", OPEN_BUG_KEEPS },
	{ "orphans", OPEN_BUG_ORPHANS },
	{ "no-flush", OPEN_BUG_NO_FLUSH },
	{ "on-its-way", OPEN_BUG_ON_ITS_WAY },
	{ "rest-lost", OPEN_BUG_REST_LOST },
	{ "delivers-on", OPEN_BUG_DELIVERS_ON },
	{ "first-report", OPEN_BUG_FIRST_REPORT },
	{ "least", OPEN_BUG_LEAST },
	{ "no-eviction", OPEN_BUG_NO_EVICTION },
	{ "late-segment", OPEN_BUG_LATE_SEGMENT },
	{ "no-gaps", OPEN_BUG_NO_GAPS },
	{ "begin-at-count", OPEN_BUG_BEGIN_AT_COUNT },
	{ "same-numbers", SIM_BUG_SAME_NUMBERS },
	{ "flush-first", SIM_BUG_FLUSH_FIRST },
	{ "keeps-number", SIM_BUG_KEEPS_NUMBER },
	{ "only-holder", SIM_BUG_ONLY_HOLDER },
};
#define N_BUGS (sizeof(bugs) / sizeof(bugs[0]))

#define COUNT(name)                                      \
	{                                                \
#name, offsetof(struct sim_counts, name) \
	}
static const struct {
	const char *name;
	size_t offset;
} counts[] = {
	COUNT(runs),
	COUNT(steps),
	COUNT(changes),
	COUNT(tuples),
	COUNT(tables),
	COUNT(moves),
	COUNT(waited),
	COUNT(evicted),
	COUNT(overdue),
	COUNT(killed_sources),
	COUNT(killed_targets),
	COUNT(stopped),
	COUNT(left),
	COUNT(taken_back),
	COUNT(filtered),
	COUNT(refused),
	COUNT(resumed),
	COUNT(low_resumed),
	COUNT(dropped),
	COUNT(rests),
	COUNT(late),
	COUNT(idle),
	COUNT(marks),
	COUNT(held_back),
	COUNT(unaligned),
	COUNT(assigned),
	COUNT(given_up),
	COUNT(released),
	COUNT(views),
	COUNT(segments),
	COUNT(delivered),
	COUNT(flushes),
	COUNT(reports),
	COUNT(gaps),
	COUNT(outs),
	COUNT(left_out),
};
#define N_COUNTS (sizeof(counts) / sizeof(counts[0]))

/* What the processes share. */
struct job {
	struct sim_counts counts;
	uint64_t failed; /* seed, or UINT64_MAX */
	char failure[256];
};

struct shared {
	_Atomic uint64_t next;
	_Atomic uint64_t failed; /* the lowest seed, or UINT64_MAX */
	bool crashed;            /* a process: that finds no planted fault */
	struct job jobs[MAX_JOBS];
};

struct options {
	uint64_t first, last;
	unsigned jobs;
	bool trace, find_all;
};

static void note_failure(
    struct shared *shared, struct job *job, uint64_t seed, const char *why)
{
	uint64_t lowest = atomic_load(&shared->failed);

	if (seed >= job->failed)
		return;
	job->failed = seed;
	snprintf(job->failure, sizeof(job->failure), "%s", why);
	while (seed < lowest &&
	    !atomic_compare_exchange_weak(&shared->failed, &lowest, seed))
		;
}

static void run_seeds(
    const struct options *options, struct shared *shared, struct job *job)
{
	static struct sim sim;
	uint64_t seed;

	for (;;) {
		seed = atomic_fetch_add(&shared->next, 1);
		if (seed > options->last || seed > atomic_load(&shared->failed))
			break;
		alarm(RUN_SECONDS);
		sim.seed = seed;
		if (sim_run(&sim))
			note_failure(shared, job, seed, sim.failure);
	}
	job->counts = sim.counts;
	free(sim.changes);
	free(sim.views);
}

static void run_jobs(const struct options *options, struct shared *shared)
{
	pid_t pids[MAX_JOBS];
	unsigned i;
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
	for (i = 0; i < options->jobs; i++)
		if (waitpid(pids[i], &status, 0) != pids[i] || status != 0)
			shared->crashed = true;
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
	size_t i;

	for (i = 0; i < N_COUNTS; i++) {
		uint64_t value = sum(shared, options->jobs, i);

		printf("%-14s %12" PRIu64 "%s", counts[i].name, value,
		    i % 3 == 2 || i + 1 == N_COUNTS ? "\n" : "   ");
		missing += value == 0;
	}
	return missing;
}

/* Returns the exit status: 0, or 1 if a seed has failed. */
static int run_all(const struct options *options)
{
	struct shared *shared = mmap(NULL, sizeof(*shared),
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct timespec begin, end;
	unsigned i, missing = 0;
	uint64_t failed;

	if (shared == MAP_FAILED) {
		perror("simulate: mmap");
		exit(2);
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	atomic_store(&shared->next, options->first);
	atomic_store(&shared->failed, UINT64_MAX);
	run_jobs(options, shared);
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (shared->crashed) {
		printf("a process has crashed, or hung in one seed\n");
		exit(2);
	}
	failed = atomic_load(&shared->failed);
	for (i = 0; failed != UINT64_MAX && i < options->jobs; i++)
		if (shared->jobs[i].failed == failed)
			printf("seed %" PRIu64 " fails: %s\n", failed,
			    shared->jobs[i].failure);
	if (failed == UINT64_MAX && !dfi__open_bug) {
		missing = print_counts(options, shared);
		printf("%" PRIu64 " seeds without violation, %.1f s\n",
		    options->last - options->first + 1,
		    (double)(end.tv_sec - begin.tv_sec) +
			(double)(end.tv_nsec - begin.tv_nsec) / 1e9);
	}
	munmap(shared, sizeof(*shared));
	/* A few seeds need not show everything. */
	if (missing && options->last - options->first >= 999) {
		printf("something was never seen\n");
		return 1;
	}
	return failed != UINT64_MAX;
}

static int run_one(const struct options *options)
{
	static struct sim sim;
	int err;

	sim.seed = options->first;
	sim.trace = options->trace;
	err = sim_run(&sim);
	if (err)
		printf("seed %" PRIu64 " fails: %s\n", sim.seed, sim.failure);
	else
		printf("seed %" PRIu64 ": no violation\n", sim.seed);
	free(sim.changes);
	free(sim.views);
	return err != 0;
}

/* Run seeds with each planted fault until one finds it. */
static int find_bugs(const struct options *options)
{
	unsigned i, missed = 0;

	for (i = 0; i < N_BUGS; i++) {
		dfi__open_bug = bugs[i].bug;
		printf("%-16s ", bugs[i].name);
		fflush(stdout);
		if (run_all(options))
			continue;
		printf("not found in seeds %" PRIu64 " to %" PRIu64 "\n",
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
	    "                [--bug NAME | --find-bugs]\n"
	    "Runs an open flow in virtual time, one run per seed.\n\n"
	    "  --seeds A-B    these seeds (1-1000)\n"
	    "  --seed N       this one\n"
	    "  --trace        print all that happens; with --seed\n"
	    "  -j N           in N processes (1)\n"
	    "  --bug NAME     plant a fault\n"
	    "  --find-bugs    plant each, until a seed finds it\n\n"
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

static void read_options(int argc, char **argv, struct options *options)
{
	static const struct option longs[] = {
		{ "seeds", required_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 'o' },
		{ "trace", no_argument, NULL, 't' },
		{ "bug", required_argument, NULL, 'b' },
		{ "find-bugs", no_argument, NULL, 'f' },
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
			dfi__open_bug = find_bug(optarg);
		} else if (option == 'f') {
			options->find_all = true;
		} else if (option == 'j') {
			options->jobs = (unsigned)read_number(optarg, 0, &rest);
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
	struct options options = { .first = 1, .last = 1000, .jobs = 1 };

	read_options(argc, argv, &options);
	if (options.find_all)
		return find_bugs(&options);
	if (options.first == options.last)
		return run_one(&options);
	return run_all(&options);
}

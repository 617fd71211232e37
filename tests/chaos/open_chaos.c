/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chaos in open flows: sources and targets join, leave, abort, are killed and
 * stopped, and return, at random. The seed decides each run as far as
 * scheduling allows. All tuples come at most once and in order, those that are
 * missing were of a target that was lost, nobody fails but by the flow's rule,
 * and nobody hangs (open_verdict.c).
 *
 * open_chaos [--seconds N] [--runs N] [--seed S] [--wait-limit MS]
 *	[--volume PERCENT] [--replay] [--verbose]
 *
 * Without --seconds and --runs: 100 runs. After --wait-limit without any
 * progress a run hangs. --volume: how many tuples are sent, compared to the
 * usual. --replay: all flows are with replay, whose tuples take effect once, or
 * without keys at least once (open_replay.c). Each violation is printed with
 * its seed, which --seed S --runs 1 repeats. The last line is "runs: N
 * violations: M", the exit status 0 without a violation.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "open_plan.h"
#include "runner.h"

#define GRACE "2000"
#define NS_PER_MS INT64_C(1000000)
#define MAX_ACTIONS (2 * OPEN_FAULTS)
#define RESPAWN_MS 20

static struct {
	uint64_t seed;
	uint32_t seconds, runs, wait_limit_ms, volume;
	bool verbose, replay;
} options = {
	.wait_limit_ms = 20000,
	.volume = 100,
};

/* What was seen in all runs. */
static struct {
	uint64_t stays, lost, pushed, received, dropped;
} totals;

struct action {
	int64_t at_ns; /* 0: done */
	enum open_fault_kind kind;
	uint32_t process;
	bool undo;     /* continue, or start the registry again */
	bool outlasts; /* a stop beyond the lease */
};

struct run {
	struct open_plan plan;
	struct open_board *board;
	int board_fd;
	char address[64];
	char state[64];                       /* the registry's directory */
	struct dfi *dfi;                      /* the creator's */
	pid_t registry, pids[OPEN_PROCESSES]; /* 0: gone */
	int64_t starts_ns[OPEN_PROCESSES];    /* when it starts again; 0: not */
	struct action actions[MAX_ACTIONS];
	uint32_t n_actions;
	bool finishes;     /* dfi_flow_finish() is due */
	uint64_t progress; /* as last seen */
	int64_t deadline_ns;
	unsigned violations;
};

static void violation(struct run *run, const char *what, int number)
{
	printf("seed %" PRIu64 ": %s %d\n", run->plan.seed, what, number);
	run->violations++;
}

static void start_process(struct run *run, uint32_t process)
{
	char seed[24], volume[12], number[12];
	const char *const argv[] = { "/proc/self/exe", "worker",
		RUNNER_BOARD_FD, seed, volume, number, run->address, NULL };

	snprintf(seed, sizeof(seed), "%" PRIu64, run->plan.seed);
	snprintf(volume, sizeof(volume), "%u", options.volume);
	snprintf(number, sizeof(number), "%u", process);
	run->starts_ns[process] = 0;
	run->pids[process] = runner_spawn(argv, run->board_fd, -1, -1);
}

/* Tuples are struct replay_tuple, and the rest is behind it. */
static void describe_replay(struct dfi_schema *schema, struct dfi_field *fields,
    struct dfi_flow_attr *flow)
{
	fields[1] = (struct dfi_field)DFI_FIELD(struct replay_tuple, position);
	fields[2] = (struct dfi_field)DFI_FIELD(struct replay_tuple, seat);
	fields[3] = (struct dfi_field)DFI_FIELD(struct replay_tuple, group);
	fields[4] = fields[5];
	schema->n_fields--;
	flow->key = flow->key ? "group" : NULL;
	flow->open.input_position = "position";
}

static void create_flow(struct run *run)
{
	struct dfi_field fields[] = {
		DFI_FIELD(struct open_tuple, key),
		DFI_FIELD(struct open_tuple, stay),
		DFI_FIELD(struct open_tuple, n),
		DFI_FIELD(struct open_tuple, seat),
		DFI_FIELD(struct open_tuple, target),
		{ .name = "rest", .type = DFI_BYTES },
	};
	struct dfi_schema schema = DFI_SCHEMA(struct open_tuple, fields);
	struct dfi_flow_attr flow = {
		.size = sizeof(flow),
		.kind = run->plan.replicates ? DFI_REPLICATE : DFI_SHUFFLE,
		.replicate.method = run->plan.datagrams
		    ? DFI_REPLICATION_MULTICAST
		    : 0,
		.schema = &schema,
		.n_sources = run->plan.n_sources,
		.n_targets = run->plan.n_targets,
		.goal = run->plan.goal,
		.routing = run->plan.routing,
		.replicate.ordered = run->plan.ordered,
		.key = run->plan.keyed ? "target" : NULL,
		.segment_size = run->plan.segment_size,
		.segment_count = run->plan.segment_count,
		.open.membership = DFI_MEMBERS_OPEN,
		.open.on_loss = run->plan.on_loss,
		.open.partitions = run->plan.keyed ? OPEN_PARTITIONS : 0,
		.open.hold_bytes = run->plan.hold_bytes,
		.open.evict_after_ms = run->plan.evict_after_ms,
		.open.min_sources = run->plan.min_sources,
		.open.min_targets = run->plan.min_targets,
	};
	struct dfi_attr attr = DFI_ATTR_INIT;

	fields[5].offset = (uint32_t)sizeof(struct open_tuple);
	fields[5].size = run->plan.tuple_size - fields[5].offset;
	schema.tuple_size = run->plan.tuple_size;
	if (run->plan.replays)
		describe_replay(&schema, fields, &flow);
	if (run->plan.spills)
		flow.open.spill_dir = run->state;
	if (!fields[5].size)
		schema.n_fields--;
	attr.registry = run->address;
	if (dfi_open(&attr, &run->dfi) == 0 &&
	    dfi_flow_create(run->dfi, OPEN_FLOW, &flow) == 0)
		return;
	fprintf(stderr, "open_chaos: %s\n", dfi_errmsg());
	exit(EXIT_FAILURE);
}

/* ---- What happens to processes ------------------------------------------ */

/* The stays of a process that may be lost for others from now on. */
static void note_gone(struct run *run, uint32_t process, bool excused)
{
	int64_t died = atomic_load(&run->board->died_ns[process]), none;
	int64_t now = died ? died : runner_now_ns();
	struct stay_board *at;
	uint32_t a, i;

	for (a = 0; a < run->plan.n_actors; a++)
		for (i = 0;
		     run->plan.process_of[a] == process && i < OPEN_STAYS;
		     i++) {
			at = &run->board->stays[open_stay_id(a, i)];
			none = 0;
			if (atomic_load(&at->state) == STAY_NONE ||
			    atomic_load(&at->state) >= STAY_CLOSED)
				continue;
			atomic_compare_exchange_strong(
			    &at->gone_ns, &none, now);
			if (excused)
				atomic_store(&at->excused, true);
		}
}

static bool has_more(const struct run *run, uint32_t process)
{
	uint32_t a;

	for (a = 0; a < run->plan.n_actors; a++)
		if (run->plan.process_of[a] == process &&
		    !atomic_load(&run->board->done[a]))
			return true;
	return false;
}

/* A process has ended: it starts again if that was planned. */
static void ended(struct run *run, uint32_t process, int status, bool killed)
{
	bool died = atomic_load(&run->board->died_ns[process]) != 0;

	run->pids[process] = 0;
	if (!killed && !died && (!WIFEXITED(status) || WEXITSTATUS(status)))
		violation(run, "a process crashed with status", status);
	if (!killed && !died)
		return;
	note_gone(run, process, false);
	atomic_store(&run->board->died_ns[process], 0);
	atomic_store(&run->board->excused[process], false);
	if (has_more(run, process))
		run->starts_ns[process] = runner_now_ns() +
		    (int64_t)(run->plan.seed % 4) * RESPAWN_MS * NS_PER_MS + 1;
}

static void kill_process(struct run *run, uint32_t process)
{
	int status;

	if (!run->pids[process])
		return;
	/* Before the others can notice it. */
	note_gone(run, process, false);
	kill(run->pids[process], SIGKILL);
	waitpid(run->pids[process], &status, 0);
	ended(run, process, status, true);
}

static void stop(struct run *run, const struct action *action)
{
	pid_t pid = run->pids[action->process];

	if (!pid)
		return;
	if (action->undo) {
		kill(pid, SIGCONT);
		return;
	}
	if (action->outlasts) {
		atomic_store(&run->board->excused[action->process], true);
		note_gone(run, action->process, true);
	}
	kill(pid, SIGSTOP);
}

/* As soon as there is a registry. */
static void finish(struct run *run)
{
	int ret;

	/* A source that is refused may read it. */
	atomic_store(&run->board->finished, true);
	ret = dfi_flow_finish(run->dfi, OPEN_FLOW);
	run->finishes = ret == -ENOTCONN || ret == -ECONNREFUSED;
	if (ret < 0 && !run->finishes)
		violation(run, dfi_errmsg(), ret);
}

static void act(struct run *run, const struct action *action)
{
	switch (action->kind) {
	case OPEN_STOP:
		stop(run, action);
		return;
	case OPEN_KILL:
		kill_process(run, action->process);
		return;
	case OPEN_FINISH:
		finish(run);
		return;
	case OPEN_RESTART:
		if (action->undo) {
			run->registry = runner_start_registry(
			    run->address, run->state, run->board_fd);
		} else {
			kill(run->registry, SIGKILL);
			waitpid(run->registry, NULL, 0);
			run->registry = 0;
		}
		return;
	}
}

static void add_action(
    struct run *run, const struct open_fault *fault, int64_t at_ns, bool undo)
{
	run->actions[run->n_actions++] = (struct action){
		.at_ns = at_ns,
		.kind = fault->kind,
		.process = fault->process,
		.undo = undo,
		.outlasts = run->plan.lease_ms &&
		    fault->for_ms > run->plan.lease_ms,
	};
}

/* One restart of the registry at a time. */
static void plan_actions(struct run *run)
{
	int64_t at, up = 0;
	const struct open_fault *fault;
	uint32_t i;

	for (i = 0; i < run->plan.n_faults; i++) {
		fault = &run->plan.faults[i];
		at = runner_now_ns() + fault->at_ms * NS_PER_MS;
		if (fault->kind == OPEN_RESTART && at < up)
			at = up;
		add_action(run, fault, at, false);
		at += fault->for_ms * NS_PER_MS;
		if (fault->kind == OPEN_RESTART)
			up = at + 200 * NS_PER_MS;
		if (fault->kind == OPEN_STOP || fault->kind == OPEN_RESTART)
			add_action(run, fault, at, true);
	}
}

/* Do the earliest that is due; false: nothing is left. */
static bool act_when_due(struct run *run)
{
	struct action *next = NULL;
	uint32_t i;

	for (i = 0; i < run->n_actions; i++)
		if (run->actions[i].at_ns &&
		    (!next || run->actions[i].at_ns < next->at_ns))
			next = &run->actions[i];
	if (next && next->at_ns <= runner_now_ns()) {
		act(run, next);
		next->at_ns = 0;
	}
	return next != NULL;
}

/* ---- The course of a run ------------------------------------------------ */

/* Whether a process is left, or starts again. */
static bool look_after_processes(struct run *run)
{
	bool left = false;
	uint32_t i;
	int status;

	for (i = 0; i < run->plan.n_processes; i++) {
		if (run->starts_ns[i] && run->starts_ns[i] <= runner_now_ns())
			start_process(run, i);
		if (run->pids[i] &&
		    waitpid(run->pids[i], &status, WNOHANG) == run->pids[i])
			ended(run, i, status, false);
		left |= run->pids[i] || run->starts_ns[i];
	}
	return left;
}

/* Without more sources, targets that are there come to the end. */
static void end_when_over(struct run *run)
{
	uint32_t a;

	if (atomic_load(&run->board->no_more_sources))
		return;
	for (a = 0; a < run->plan.n_source_actors; a++)
		if (!atomic_load(&run->board->done[a]))
			return;
	atomic_store(&run->board->no_more_sources, true);
	finish(run);
}

/* While anything makes progress, nothing hangs. */
static bool hangs(struct run *run)
{
	const struct stay_board *at;
	uint64_t progress = 0;
	uint32_t id;

	for (id = 0; id < OPEN_ALL_STAYS; id++) {
		at = &run->board->stays[id];
		progress += atomic_load(&at->state) + atomic_load(&at->pushed) +
		    atomic_load(&at->taken);
	}
	if (progress != run->progress) {
		run->progress = progress;
		run->deadline_ns = runner_now_ns() +
		    options.wait_limit_ms * NS_PER_MS;
	}
	return runner_now_ns() > run->deadline_ns;
}

static void run_processes(struct run *run)
{
	uint32_t i;

	run->deadline_ns = runner_now_ns() + options.wait_limit_ms * NS_PER_MS;
	while (look_after_processes(run) && !hangs(run)) {
		act_when_due(run);
		end_when_over(run);
		if (run->finishes)
			finish(run);
		runner_pace();
	}
	for (i = 0; i < run->plan.n_processes; i++)
		if (run->pids[i]) {
			violation(run, "nothing moves: process", (int)i);
			runner_show_threads(run->pids[i]);
			kill(run->pids[i], SIGKILL);
			waitpid(run->pids[i], NULL, 0);
		}
	if (!run->registry)
		run->registry = runner_start_registry(
		    run->address, run->state, run->board_fd);
}

static void remove_state(const struct run *run)
{
	DIR *dir = opendir(run->state);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		(void)unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	if (rmdir(run->state) < 0)
		runner_die(run->state);
}

static void end_run(struct run *run)
{
	int status;

	if (dfi_close(run->dfi) < 0)
		violation(run, dfi_errmsg(), 0);
	kill(run->registry, SIGTERM);
	waitpid(run->registry, &status, 0);
	remove_state(run);
	munmap(run->board, sizeof(*run->board));
	close(run->board_fd);
}

static void count(const struct run *run)
{
	const struct stay_board *at;
	uint32_t id;

	for (id = 0; id < OPEN_ALL_STAYS; id++) {
		at = &run->board->stays[id];
		totals.stays += atomic_load(&at->state) != STAY_NONE;
		totals.lost += atomic_load(&at->state) != STAY_NONE &&
		    atomic_load(&at->state) < STAY_CLOSED;
		totals.pushed += atomic_load(&at->pushed);
		totals.received += atomic_load(&at->received);
		totals.dropped += at->dropped;
	}
}

static unsigned run_once(uint64_t seed)
{
	struct run run = { .violations = 0 };
	uint32_t i;

	open_make_plan(&run.plan, seed);
	if (options.verbose)
		open_print_plan(&run.plan);
	fflush(stdout);
	run.board = runner_open_board(sizeof(*run.board), &run.board_fd);
	open_replay_init(run.board);
	snprintf(run.address, sizeof(run.address),
	    "unix:@dfi-open-chaos-%d-%" PRIu64, (int)getpid(), seed);
	snprintf(run.state, sizeof(run.state), "/tmp/dfi-open-chaos-XXXXXX");
	if (!mkdtemp(run.state))
		runner_die(run.state);
	run.registry = runner_start_registry(
	    run.address, run.state, run.board_fd);
	create_flow(&run);
	for (i = 0; i < run.plan.n_processes; i++)
		start_process(&run, i);
	plan_actions(&run);
	run_processes(&run);
	run.violations += open_judge(&run.plan, run.board, options.volume);
	count(&run);
	if (run.violations && !options.verbose)
		open_print_plan(&run.plan);
	if (run.violations || options.verbose)
		open_print_board(&run.plan, run.board, options.volume);
	fflush(stdout);
	end_run(&run);
	return run.violations;
}

static uint32_t number(const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || n > UINT32_MAX) {
		fprintf(stderr, "open_chaos: '%s' is not a number\n", text);
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
		{ "wait-limit", required_argument, NULL, 'p' },
		{ "volume", required_argument, NULL, 'V' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "replay", no_argument, NULL, 'R' },
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
		else if (option == 'p')
			options.wait_limit_ms = number(optarg);
		else if (option == 'V')
			options.volume = number(optarg);
		else if (option == 'v')
			options.verbose = true;
		else if (option == 'R')
			options.replay = true;
		else
			exit(EXIT_FAILURE);
	}
	if (optind < argc) {
		fprintf(stderr, "open_chaos: unknown argument '%s'\n",
		    argv[optind]);
		exit(EXIT_FAILURE);
	}
	if (options.replay)
		options.seed |= OPEN_WITH_REPLAY;
	if (!options.seconds && !options.runs)
		options.runs = 100;
}

int main(int argc, char **argv)
{
	unsigned violations = 0;
	uint32_t runs;
	int64_t end;

	if (argc > 1 && !strcmp(argv[1], "worker"))
		return open_worker(argc, argv);
	parse(argc, argv);
	if (access(DFI_BIN_DIR "/dfi-registry", X_OK) < 0) {
		fprintf(stderr, "open_chaos: dfi-registry is not built\n");
		return 77;
	}
	setenv("DFI_REGISTRY_GRACE", GRACE, 1);
	/* What goes wrong is expected, and logged often. */
	setenv("DFI_LOG", "error", 0);
	end = options.seconds
	    ? runner_now_ns() + INT64_C(1000000000) * options.seconds
	    : INT64_MAX;
	for (runs = 0;
	     runner_now_ns() < end && (!options.runs || runs < options.runs);
	     runs++) {
		if (runs && runs % 100 == 0)
			printf("%u runs, %u violations\n", runs, violations);
		violations += run_once(options.seed + runs);
	}
	printf("stays: %lu, of which %lu were killed; tuples: %lu pushed, %lu "
	       "received, %lu known to be dropped\n",
	    (unsigned long)totals.stays, (unsigned long)totals.lost,
	    (unsigned long)totals.pushed, (unsigned long)totals.received,
	    (unsigned long)totals.dropped);
	printf("seeds: %" PRIu64 " to %" PRIu64 "\n", options.seed,
	    options.seed + runs - 1);
	printf("runs: %u violations: %u\n", runs, violations);
	return violations ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chaos in open flows: sources and targets join, leave, abort, are killed and
 * stopped, and return, at random. The seed decides each run as far as
 * scheduling allows. All tuples come at most once and in order, those that are
 * missing were of a target that was lost, nobody fails but by the flow's rule,
 * and nobody hangs (open_verdict.c).
 *
 * open_chaos [--seconds N] [--runs N] [--seed S] [--wait-limit MS]
 *	[--volume PERCENT] [--cell TEXT] [--machines N] [--verbose]
 *
 * Without --seconds and --runs: 100 runs; SIGTERM ends it behind the run in
 * work. After --wait-limit without any progress a run hangs. --volume: how many
 * tuples are sent, compared to the usual. Runs take turns in all cells that
 * DFI_TRANSPORT has (open_cells.h); --cell: in those whose name contains TEXT.
 * --machines: processes are on N - 1 other machines, which are cut off or
 * powered off meanwhile (open_machines.h).
 *
 * As many runs as are to see all (open_cover.h), in all cells, fail if they and
 * a quarter more have never seen something.
 *
 * Each violation is printed with its seed, which --seed S --runs 1, with the
 * same cells, repeats. Totals of each cell come last, and then "runs: N
 * violations: M"; the exit status is 0 without a violation.
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

#include "open_cover.h"
#include "open_machines.h"
#include "open_plan.h"
#include "random.h"
#include "runner.h"

#define GRACE "2000"
#define NS_PER_MS INT64_C(1000000)
#define MAX_ACTIONS \
	(2 * (OPEN_FAULTS + OPEN_STRIKES + OPEN_FORCED + OPEN_CALLS))
#define RESPAWN_MS 20
#define MOST_PACE_NS (5 * NS_PER_MS)
#define FIRST_PORT 7000 /* of registries */
#define MACHINES 5      /* at most */
/*
 * Between machines: how long others may take one for there that has been
 * killed, beside the lease if its machine is off; and what a blink may take.
 */
#define NEWS_NS (4000 * NS_PER_MS)
#define LONGEST_BLINK_MS 2500

static struct {
	uint64_t seed;
	uint32_t seconds, runs, wait_limit_ms, volume, machines;
	bool verbose;
	const char *cell;
} options = {
	.wait_limit_ms = 20000,
	.volume = 100,
	.cell = "",
};

static volatile sig_atomic_t ends; /* behind the run in work */

struct action {
	int64_t at_ns; /* 0: done */
	enum open_fault_kind kind;
	enum open_whom whom;
	uint32_t process, for_ms;
	bool undo;     /* continue, or start the registry again */
	bool outlasts; /* a stop beyond the lease */
};

struct run {
	struct open_plan plan;
	struct open_board *board;
	int board_fd;
	char address[64];
	char state[64];  /* the registry's directory */
	struct dfi *dfi; /* the creator's */
	pid_t registry;
	pid_t pids[OPEN_PROCESSES];        /* 0: gone; of other machines: 1 */
	int64_t starts_ns[OPEN_PROCESSES]; /* when it starts again; 0: not */
	struct action actions[MAX_ACTIONS];
	uint32_t n_actions;
	/* Machines: a strike is in work, of this kind; what holds of each. */
	bool strikes, undoes;
	enum open_fault_kind strike;
	uint32_t struck;
	bool cut[MACHINES], off[MACHINES];
	unsigned n_struck[OPEN_FAULT_KINDS];
	int64_t next_ns;   /* when another one that is chosen may happen */
	bool finishes;     /* dfi_flow_finish() is due */
	uint64_t progress; /* as last seen */
	int64_t begun_ns;
	int64_t seen_ns, idle_ns; /* time without progress */
	struct open_verdict verdict;
};

static void violation(struct run *run, const char *what, int number)
{
	printf("seed %" PRIu64 ": %s %d\n", run->plan.seed, what, number);
	run->verdict.n[OPEN_HARMED]++;
}

static uint32_t machine_of(uint32_t process)
{
	return open_machine_of(options.machines, process);
}

static void start_on_machine(struct run *run, uint32_t process)
{
	struct machine_worker worker = {
		.seed = run->plan.seed,
		.volume = options.volume,
		.machines = options.machines,
	};

	if (!machines_are_up(options.machines, process)) {
		run->starts_ns[process] = runner_now_ns();
		return;
	}
	snprintf(worker.registry, sizeof(worker.registry), "%s", run->address);
	snprintf(worker.cell, sizeof(worker.cell), "%s", options.cell);
	run->starts_ns[process] = 0;
	run->pids[process] = 1;
	if (run->cut[machine_of(process)])
		atomic_store(&run->board->excused[process], true);
	machines_start(process, &worker);
}

static void start_process(struct run *run, uint32_t process)
{
	char seed[24], volume[12], number[12];
	const char *const argv[] = { "/proc/self/exe", "worker",
		RUNNER_BOARD_FD, seed, volume, number, run->address,
		options.cell, "0", NULL };

	if (options.machines) {
		start_on_machine(run, process);
		return;
	}
	snprintf(seed, sizeof(seed), "%" PRIu64, run->plan.seed);
	snprintf(volume, sizeof(volume), "%u", options.volume);
	snprintf(number, sizeof(number), "%u", process);
	run->starts_ns[process] = 0;
	run->pids[process] = runner_spawn(argv, run->board_fd, -1, -1);
}

static void signal_process(struct run *run, uint32_t process, int signal)
{
	if (options.machines)
		machines_signal(options.machines, process, signal);
	else
		kill(run->pids[process], signal);
}

static bool has_ended(const struct run *run, uint32_t process, int *status)
{
	pid_t pid = run->pids[process];

	return options.machines ? machines_ended(process, status)
				: waitpid(pid, status, WNOHANG) == pid;
}

static void await_end(const struct run *run, uint32_t process, int *status)
{
	while (!has_ended(run, process, status))
		runner_pace();
}

/* Partition i has the groups below its split: OPEN_GROUPS of them in all. */
static int64_t splits[OPEN_PARTITIONS - 1];

static void describe_keys(
    const struct open_plan *plan, struct dfi_flow_attr *flow)
{
	uint32_t i;

	flow->key = plan->replays ? "group" : "target";
	flow->open.partitions = OPEN_PARTITIONS;
	flow->open.hold_bytes = plan->hold_bytes;
	if (plan->routing == DFI_ROUTE_RADIX)
		flow->radix_bits = OPEN_RADIX_BITS;
	if (plan->routing != DFI_ROUTE_RANGE)
		return;
	for (i = 0; i + 1 < OPEN_PARTITIONS; i++)
		splits[i] = (i + 1) * (OPEN_GROUPS / OPEN_PARTITIONS);
	flow->splits = splits;
}

/* Results are of one group each: its number, then these. */
static void describe_combine(
    const struct open_plan *plan, struct dfi_flow_attr *flow)
{
	static const struct dfi_aggregate aggregates[] = {
		{ .function = DFI_COUNT, .name = "count" },
		{ .function = DFI_SUM, .field = "value", .name = "sum" },
	};

	flow->combine = (struct dfi_combine_attr){
		.aggregates = aggregates,
		.n_aggregates = 2,
		.group_by = "group",
		.window_tuples = DFI_WINDOW_MARKED,
		.source_combining = plan->combining,
	};
}

/* The fields that tuples begin with; returns how many. */
static uint32_t describe_tuples(
    const struct open_plan *plan, struct dfi_field *fields)
{
	static const struct dfi_field usual[] = {
		DFI_FIELD(struct open_tuple, key),
		DFI_FIELD(struct open_tuple, stay),
		DFI_FIELD(struct open_tuple, n),
		DFI_FIELD(struct open_tuple, seat),
		DFI_FIELD(struct open_tuple, target),
	};
	static const struct dfi_field replay[] = {
		DFI_FIELD(struct replay_tuple, key),
		DFI_FIELD(struct replay_tuple, position),
		DFI_FIELD(struct replay_tuple, seat),
		DFI_FIELD(struct replay_tuple, group),
	};
	static const struct dfi_field combine[] = {
		DFI_FIELD(struct combine_tuple, group),
		DFI_FIELD(struct combine_tuple, value),
		DFI_FIELD(struct combine_tuple, n),
	};
	const struct dfi_field *from = plan->replays ? replay
	    : plan->combines                         ? combine
						     : usual;
	uint32_t n = plan->replays ? 4 : plan->combines ? 3 : 5;

	memcpy(fields, from, n * sizeof(*fields));
	return n;
}

static void create_flow(struct run *run)
{
	const struct open_plan *plan = &run->plan;
	struct dfi_field fields[6];
	uint32_t n = describe_tuples(plan, fields);
	uint32_t bytes = sizeof(struct open_tuple);
	struct dfi_schema schema = {
		.fields = fields,
		.n_fields = n + (plan->tuple_size > bytes),
		.tuple_size = plan->tuple_size,
	};
	struct dfi_flow_attr flow = {
		.size = sizeof(flow),
		.kind = plan->cell.kind,
		.replicate.method = plan->cell.method,
		.schema = &schema,
		.n_sources = plan->n_sources,
		.n_targets = plan->n_targets,
		.goal = plan->goal,
		.routing = plan->routing,
		.replicate.ordered = plan->ordered,
		.segment_size = plan->segment_size,
		.segment_count = plan->segment_count,
		.open.membership = DFI_MEMBERS_OPEN,
		.open.on_loss = plan->on_loss,
		.open.evict_after_ms = plan->evict_after_ms,
		.open.min_sources = plan->min_sources,
		.open.min_targets = plan->min_targets,
		.open.input_position = plan->replays ? "position" : NULL,
		.open.return_timeout_ms = plan->return_timeout_ms,
		.open.spill_dir = !plan->spills ? NULL
		    : plan->n_machines          ? "/tmp"
						: run->state,
	};
	struct dfi_attr attr = DFI_ATTR_INIT;

	_Static_assert(sizeof(struct open_tuple) == 24 &&
		sizeof(struct replay_tuple) == 24 &&
		sizeof(struct combine_tuple) == 24,
	    "the rest of all tuples is behind the same bytes");
	fields[n] = (struct dfi_field){ .name = "rest",
		.type = DFI_BYTES,
		.offset = bytes,
		.size = plan->tuple_size - bytes };
	if (plan->keyed)
		describe_keys(plan, &flow);
	if (plan->combines)
		describe_combine(plan, &flow);
	attr.registry = run->address;
	if (dfi_open(&attr, &run->dfi) == 0 &&
	    dfi_flow_create(run->dfi, OPEN_FLOW, &flow) == 0)
		return;
	fprintf(stderr, "open_chaos: seed %" PRIu64 ": %s\n", plan->seed,
	    dfi_errmsg());
	exit(EXIT_FAILURE);
}

/* ---- What happens to processes ------------------------------------------ */

static bool is_there(const struct stay_board *at)
{
	return atomic_load(&at->state) != STAY_NONE &&
	    atomic_load(&at->state) < STAY_CLOSED;
}

static void count_stop(struct run *run, uint32_t process)
{
	struct stay_board *at;
	uint32_t id;

	for (id = 0; id < open_stay_id(run->plan.n_actors, 0); id++) {
		at = &run->board->stays[id];
		if (run->plan.process_of[id / OPEN_STAYS] == process &&
		    is_there(at))
			atomic_fetch_add(&at->n_stops, 1);
	}
}

/* The stays of a process that may be lost for others from now on. */
static void note_gone(struct run *run, uint32_t process, bool excused)
{
	int64_t died = atomic_load(&run->board->died_ns[process]), none;
	int64_t now = died ? died : open_stamp(run->board);
	int64_t out = now + NEWS_NS;
	struct stay_board *at;
	uint32_t a, i;

	if (options.machines && run->off[machine_of(process)])
		out += run->plan.lease_ms * NS_PER_MS;
	for (a = 0; a < run->plan.n_actors; a++)
		for (i = 0;
		     run->plan.process_of[a] == process && i < OPEN_STAYS;
		     i++) {
			at = &run->board->stays[open_stay_id(a, i)];
			none = 0;
			if (!is_there(at))
				continue;
			atomic_compare_exchange_strong(
			    &at->gone_ns, &none, now);
			if (options.machines)
				atomic_store(&at->out_ns, out);
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
	open_replay_release(run->board, process);
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

	if (!run->pids[process] ||
	    (options.machines && !machines_are_up(options.machines, process)))
		return;
	/* Before the others can notice it. */
	note_gone(run, process, false);
	signal_process(run, process, SIGKILL);
	await_end(run, process, &status);
	ended(run, process, status, true);
}

static void stop(struct run *run, const struct action *action)
{
	if (!run->pids[action->process])
		return;
	if (action->undo) {
		signal_process(run, action->process, SIGCONT);
		return;
	}
	if (action->outlasts) {
		atomic_store(&run->board->excused[action->process], true);
		note_gone(run, action->process, true);
	}
	signal_process(run, action->process, SIGSTOP);
	count_stop(run, action->process);
}

static bool is_away(int ret)
{
	return ret == -ENOTCONN || ret == -ECONNREFUSED;
}

/* As soon as there is a registry. */
static void finish(struct run *run)
{
	int ret;

	/* A source that is refused may read it. */
	atomic_store(&run->board->finished, true);
	ret = dfi_flow_finish(run->dfi, OPEN_FLOW);
	run->finishes = is_away(ret);
	if (ret < 0 && !run->finishes)
		violation(run, dfi_errmsg(), ret);
}

static bool is_strike(enum open_fault_kind kind)
{
	return kind == OPEN_BLINK || kind == OPEN_CUT || kind == OPEN_OFF;
}

/* What the rules allow one who loses its lease, or its connections. */
static void excuse(struct run *run, uint32_t process)
{
	atomic_store(&run->board->excused[process], true);
	note_gone(run, process, true);
}

/* It begins; no other is in work. */
static void strike(struct run *run, enum open_fault_kind kind, bool undo,
    uint32_t machine, uint32_t for_ms)
{
	uint32_t i;

	run->strikes = true;
	run->undoes = undo;
	run->strike = kind;
	run->struck = machine;
	run->n_struck[kind] += !undo;
	if (!undo && kind == OPEN_CUT)
		run->cut[machine] = true;
	if (!undo && kind == OPEN_OFF) {
		run->off[machine] = true;
		machines_note_off(machine);
	}
	for (i = 0; !undo && i < run->plan.n_processes; i++) {
		if (machine_of(i) != machine)
			continue;
		if (kind == OPEN_CUT)
			excuse(run, i);
		else if (kind == OPEN_OFF)
			note_gone(run, i, false);
	}
	machines_strike(kind, undo, machine, for_ms);
}

/* It is done. */
static void end_strike(struct run *run, uint32_t took_ms)
{
	uint32_t machine = run->struck, i;

	run->strikes = false;
	if (options.verbose)
		printf("  at %ld ms: fault %u%s of machine %u took %u ms\n",
		    (long)((runner_now_ns() - run->begun_ns) / NS_PER_MS),
		    run->strike, run->undoes ? " undone" : "", machine,
		    took_ms);
	if (run->undoes && run->strike == OPEN_CUT)
		run->cut[machine] = false;
	if (run->undoes && run->strike == OPEN_OFF)
		run->off[machine] = false;
	for (i = 0; i < run->plan.n_processes; i++) {
		if (machine_of(i) != machine)
			continue;
		if (run->strike == OPEN_BLINK && took_ms > LONGEST_BLINK_MS)
			excuse(run, i);
		if (run->strike == OPEN_OFF && !run->undoes && run->pids[i])
			ended(run, i, 0, true);
	}
}

static void look_after_strike(struct run *run)
{
	uint32_t took_ms;

	if (run->strikes && machines_struck(&took_ms))
		end_strike(run, took_ms);
}

/* All machines are there for the next run. */
static void undo_strikes(struct run *run)
{
	uint32_t i;

	for (i = 1; i < options.machines; i++)
		do {
			while (run->strikes) {
				look_after_strike(run);
				runner_pace();
			}
			if (run->cut[i] || run->off[i])
				strike(run, run->cut[i] ? OPEN_CUT : OPEN_OFF,
				    true, i, 0);
		} while (run->strikes);
}

/* Each partition to some seat, or to whom the library chooses. */
static void assign(struct run *run, const struct action *action)
{
	struct rng rng = {
		.state = mix(run->plan.seed ^ (uint64_t)action->at_ns),
	};
	uint32_t owners[OPEN_PARTITIONS], i, seat;
	int ret;

	for (i = 0; i < OPEN_PARTITIONS; i++) {
		seat = below(&rng, run->plan.n_targets + 1);
		owners[i] = seat < run->plan.n_targets ? seat : DFI_ANY_SEAT;
	}
	ret = dfi_flow_assign(run->dfi, OPEN_FLOW,
	    one_in(&rng, 4) ? NULL : owners, OPEN_PARTITIONS);
	if (ret < 0 && !is_away(ret))
		violation(run, dfi_errmsg(), ret);
}

/* Somebody may be in it. */
static void give_up(struct run *run, const struct action *action)
{
	uint32_t seat = (uint32_t)(action->at_ns / NS_PER_MS) %
	    run->plan.n_sources;
	int ret;

	atomic_store(&run->board->replay.given_up[seat], true);
	ret = dfi_flow_give_up(run->dfi, OPEN_FLOW, seat);
	if (ret < 0 && ret != -EBUSY && !is_away(ret))
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
	case OPEN_ASSIGN:
		assign(run, action);
		return;
	case OPEN_GIVE_UP:
		give_up(run, action);
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
	default:
		strike(run, action->kind, action->undo,
		    machine_of(action->process), action->for_ms);
		return;
	}
}

static void add_action(
    struct run *run, const struct open_fault *fault, int64_t at_ns, bool undo)
{
	run->actions[run->n_actions++] = (struct action){
		.at_ns = at_ns,
		.kind = fault->kind,
		.whom = fault->whom,
		.process = fault->process,
		.for_ms = fault->for_ms,
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
		if (fault->kind == OPEN_STOP || fault->kind == OPEN_RESTART ||
		    fault->kind == OPEN_CUT || fault->kind == OPEN_OFF)
			add_action(run, fault, at, true);
	}
}

/* Whether a source and a target have been there. */
static bool has_begun(const struct run *run)
{
	bool opened[2] = { false };
	uint32_t id;

	for (id = 0; id < open_stay_id(run->plan.n_actors, 0); id++)
		if (atomic_load(&run->board->stays[id].opened_ns))
			opened[open_is_source(&run->plan, id / OPEN_STAYS)] =
			    true;
	return opened[0] && opened[1];
}

/* A stay that has moved something. */
static bool is_busy(const struct stay_board *at)
{
	return atomic_load(&at->state) == STAY_OPEN &&
	    (atomic_load(&at->pushed) || atomic_load(&at->taken));
}

static bool has_busy(const struct run *run, uint32_t process, bool source)
{
	uint32_t a, i;

	for (a = 0; a < run->plan.n_actors; a++)
		for (i = 0;
		     run->pids[process] && run->plan.process_of[a] == process &&
		     open_is_source(&run->plan, a) == source && i < OPEN_STAYS;
		     i++)
			if (is_busy(&run->board->stays[open_stay_id(a, i)]))
				return true;
	return false;
}

/*
 * Choose whom an action hits; false: not yet. What undoes it comes behind it,
 * and in time.
 */
static bool choose_process(struct run *run, struct action *action)
{
	bool source = action->whom == OPEN_SOURCE;
	uint32_t n = run->plan.n_processes, i, process;

	if (action->undo || action->whom == OPEN_PROCESS)
		return true;
	for (i = 0; i < n; i++) {
		process = (uint32_t)(run->plan.seed + i) % n;
		if (has_busy(run, process, source) &&
		    (action->kind != OPEN_KILL || run->plan.combines ||
			process % 2))
			break;
	}
	if (i == n || runner_now_ns() < run->next_ns) {
		action->at_ns = runner_now_ns() + NS_PER_MS;
		return false;
	}
	/* One after the other. */
	run->next_ns = runner_now_ns() + 20 * NS_PER_MS;
	action->process = process;
	if (action->kind == OPEN_STOP) {
		action[1].process = process;
		action[1].at_ns = runner_now_ns() + action->for_ms * NS_PER_MS;
	}
	return true;
}

/* Do the earliest that is due. On machines processes take seconds to begin. */
static void act_when_due(struct run *run)
{
	struct action *next = NULL;
	uint32_t i;

	if (!run->n_actions && (!options.machines || has_begun(run)))
		plan_actions(run);
	for (i = 0; i < run->n_actions; i++)
		if (run->actions[i].at_ns &&
		    !(run->strikes && is_strike(run->actions[i].kind)) &&
		    (!next || run->actions[i].at_ns < next->at_ns))
			next = &run->actions[i];
	if (next && next->at_ns <= runner_now_ns() &&
	    choose_process(run, next)) {
		act(run, next);
		next->at_ns = 0;
	}
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
		if (run->pids[i] && has_ended(run, i, &status))
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

/*
 * While anything makes progress, nothing hangs. Of the time between two looks a
 * little counts: a machine that lets this process wait has others wait as well.
 */
static bool hangs(struct run *run)
{
	const struct stay_board *at;
	uint64_t progress = 0;
	int64_t now = runner_now_ns(), passed = now - run->seen_ns;
	uint32_t id;

	for (id = 0; id < OPEN_ALL_STAYS; id++) {
		at = &run->board->stays[id];
		progress += atomic_load(&at->state) + atomic_load(&at->pushed) +
		    atomic_load(&at->taken);
	}
	run->seen_ns = now;
	run->idle_ns += passed < MOST_PACE_NS ? passed : MOST_PACE_NS;
	if (progress != run->progress)
		run->idle_ns = 0;
	run->progress = progress;
	return run->idle_ns > options.wait_limit_ms * NS_PER_MS;
}

static int print_member(void *arg, const struct dfi_member_info *info)
{
	(void)arg;
	printf("  %s %u, pid %u: rings with %s; table %" PRIu64
	       ": %u partitions (%s), %u move%s\n",
	    info->role == DFI_ROLE_SOURCE ? "source" : "target", info->seat,
	    info->pid, info->peers, info->epoch, info->n_partitions,
	    info->partitions, info->n_moving, info->leaving ? ", leaves" : "");
	return 0;
}

static void raise_clock(struct open_board *board)
{
	int64_t now = runner_now_ns(), seen = atomic_load(&board->clock_ns);

	while (seen < now &&
	    !atomic_compare_exchange_weak(&board->clock_ns, &seen, now))
		;
}

/* It does not end: say where it is, and end it. */
static void end_hanging(struct run *run, uint32_t process)
{
	int status;

	printf("seed %" PRIu64 ": nothing moves: process %u%s\n",
	    run->plan.seed, process,
	    run->pids[process] ? "" : ", whose machine is not there");
	run->verdict.n[OPEN_HANG]++;
	run->starts_ns[process] = 0;
	if (!run->pids[process])
		return;
	if (options.machines)
		signal_process(run, process, 0);
	else
		runner_show_threads(run->pids[process]);
	signal_process(run, process, SIGKILL);
	await_end(run, process, &status);
}

static void run_processes(struct run *run)
{
	uint32_t i;

	run->seen_ns = runner_now_ns();
	while (look_after_processes(run) && !hangs(run)) {
		raise_clock(run->board);
		look_after_strike(run);
		act_when_due(run);
		end_when_over(run);
		if (run->finishes)
			finish(run);
		runner_pace();
	}
	if (look_after_processes(run))
		(void)dfi_member_list(run->dfi, OPEN_FLOW, print_member, NULL);
	for (i = 0; i < run->plan.n_processes; i++)
		if (run->pids[i] || run->starts_ns[i])
			end_hanging(run, i);
	undo_strikes(run);
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

	kill(run->registry, SIGTERM);
	waitpid(run->registry, &status, 0);
	remove_state(run);
	if (options.machines)
		return;
	munmap(run->board, sizeof(*run->board));
	close(run->board_fd);
}

static void count_stay(struct open_total *total, const struct open_plan *plan,
    const struct stay_board *at, uint32_t id)
{
	int role = !open_is_source(plan, id / OPEN_STAYS);

	total->joined[role]++;
	total->stopped[role] += atomic_load(&at->n_stops);
	total->pushed += atomic_load(&at->pushed);
	if (is_there(at))
		total->killed[role]++;
	else if (at->ret == -ESTALE || at->close_ret == -ESTALE)
		total->evicted[role]++;
	else if (at->close_ret == -ECANCELED &&
	    ((plan->replays && !role) ||
		open_stay_plan(
		    plan, options.volume, id / OPEN_STAYS, id % OPEN_STAYS)
			.act == OPEN_ABORT))
		total->aborted[role]++;
	else if (at->ret < 0 || at->close_ret < 0)
		total->failed[role]++;
	else
		total->left[role]++;
}

static void count(const struct run *run)
{
	struct open_total *total = open_total_of(run->plan.cell.name);
	uint32_t id;
	int i;

	total->runs++;
	total->latency += run->plan.goal == DFI_LATENCY;
	for (id = 0; id < OPEN_ALL_STAYS; id++)
		if (atomic_load(&run->board->stays[id].opened_ns))
			count_stay(
			    total, &run->plan, &run->board->stays[id], id);
	for (i = 0; i < OPEN_HARMS; i++)
		total->verdict.n[i] += run->verdict.n[i];
	total->blinks += run->n_struck[OPEN_BLINK];
	total->cuts += run->n_struck[OPEN_CUT];
	total->offs += run->n_struck[OPEN_OFF];
}

static void open_board(struct run *run)
{
	if (options.machines) {
		run->board = machines_open_board();
		run->board_fd = -1;
		snprintf(run->address, sizeof(run->address), "tcp:%s:%u",
		    getenv("NODE_ADDRESS"), FIRST_PORT + getpid() % 1000);
	} else {
		run->board = runner_open_board(
		    sizeof(*run->board), &run->board_fd);
		snprintf(run->address, sizeof(run->address),
		    "unix:@dfi-open-chaos-%d-%" PRIu64, (int)getpid(),
		    run->plan.seed);
	}
	raise_clock(run->board);
}

static unsigned run_once(uint64_t seed)
{
	struct run run = { .begun_ns = runner_now_ns() };
	unsigned violations;
	uint32_t i;

	open_make_plan(&run.plan, seed, options.cell, options.machines);
	if (options.verbose)
		open_print_plan(&run.plan);
	fflush(stdout);
	open_board(&run);
	run.board->start_ns = runner_now_ns();
	atomic_store(&run.board->clock_ns, run.board->start_ns);
	snprintf(run.state, sizeof(run.state), "/tmp/dfi-open-chaos-XXXXXX");
	if (!mkdtemp(run.state))
		runner_die(run.state);
	run.registry = runner_start_registry(
	    run.address, run.state, run.board_fd);
	create_flow(&run);
	for (i = 0; i < run.plan.n_processes; i++)
		start_process(&run, i);
	run_processes(&run);
	open_judge(&run.plan, run.board, options.volume, &run.verdict);
	if (dfi_close(run.dfi) < 0)
		violation(&run, dfi_errmsg(), 0);
	violations = open_violations(&run.verdict);
	if (violations && !options.verbose)
		open_print_plan(&run.plan);
	if (violations || options.verbose)
		open_print_board(&run.plan, run.board, options.volume);
	fflush(stdout);
	count(&run);
	open_cover_count(&run.plan, run.board);
	end_run(&run);
	if (options.machines)
		printf("seed %" PRIu64 ": %s: %u violations, %ld s\n", seed,
		    run.plan.cell.name, violations,
		    (long)((runner_now_ns() - run.begun_ns) /
			(1000 * NS_PER_MS)));
	return violations;
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
		{ "cell", required_argument, NULL, 'c' },
		{ "machines", required_argument, NULL, 'm' },
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
		else if (option == 'c')
			options.cell = optarg;
		else if (option == 'm')
			options.machines = number(optarg);
		else
			exit(EXIT_FAILURE);
	}
	if (optind < argc) {
		fprintf(stderr, "open_chaos: unknown argument '%s'\n",
		    argv[optind]);
		exit(EXIT_FAILURE);
	}
	if (!options.seconds && !options.runs)
		options.runs = 100;
	if (options.machines == 1 || options.machines > MACHINES) {
		fprintf(stderr, "open_chaos: 2 to %u machines\n", MACHINES);
		exit(EXIT_FAILURE);
	}
}

/* Of all cells, and so many runs that all has to be seen. */
static bool is_full(uint32_t runs)
{
	return !options.cell[0] && runs >= open_cover_runs();
}

static void end_soon(int signal)
{
	(void)signal;
	ends = true;
}

int main(int argc, char **argv)
{
	const struct sigaction on_end = { .sa_handler = end_soon,
		.sa_flags = SA_RESTART };
	unsigned violations = 0;
	uint64_t next;
	uint32_t runs;
	int64_t end;

	if (argc > 1 && !strcmp(argv[1], "worker"))
		return open_worker(argc, argv);
	if (argc == 2 && !strcmp(argv[1], "agent"))
		return machines_agent();
	if (argc == 3 && !strcmp(argv[1], "host"))
		return machines_host(argv[2]);
	parse(argc, argv);
	if (access(DFI_BIN_DIR "/dfi-registry", X_OK) < 0) {
		fprintf(stderr, "open_chaos: dfi-registry is not built\n");
		return 77;
	}
	sigaction(SIGTERM, &on_end, NULL);
	setenv("DFI_REGISTRY_GRACE", GRACE, 1);
	setlinebuf(stdout);
	/* What goes wrong is expected, and logged often. */
	setenv("DFI_LOG", "error", 0);
	end = options.seconds
	    ? runner_now_ns() + INT64_C(1000000000) * options.seconds
	    : INT64_MAX;
	for (runs = 0; !ends && runner_now_ns() < end &&
	     (!options.runs || runs < options.runs);
	     runs++) {
		if (runs && runs % 100 == 0)
			printf("%u runs, %u violations\n", runs, violations);
		violations += run_once(options.seed + runs);
	}
	for (next = options.seed + runs;
	     is_full(runs) && !ends && runs < options.runs + options.runs / 4 &&
	     open_cover_look("", false);
	     runs++) {
		next = open_cover_seed(next, "");
		violations += run_once(next++);
	}
	open_print_totals();
	if (open_cover_look(options.cell, true) && is_full(runs) && !ends)
		violations++;
	printf("seeds: %" PRIu64 " to %" PRIu64 "\n", options.seed, next - 1);
	printf("runs: %u violations: %u\n", runs, violations);
	return violations ? EXIT_FAILURE : EXIT_SUCCESS;
}

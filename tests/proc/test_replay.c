/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exactly once, while targets and sources of an open flow with replay are
 * killed, stopped and started again: an application as dfi/replay.h describes
 * it. Its store is memory that all processes share, in which a transaction is
 * whole or has not happened, whoever is killed in it. This process has no
 * context; all others are its forks.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dfi/dfi.h>

#include "spawn.h"

#define FLOW "flow"
#define LONG_MS 60000u
#define LEASE_MS 2000u
#define SOURCES 2u
#define TARGETS 3u
#define PARTITIONS 32u
#define POSITIONS 3000u /* of each source */
#define COMMIT 4u       /* batches */
#define AGAIN 3         /* exit status: lost its seat; start it again */

struct event {
	uint64_t key, position;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct event, key),
	DFI_FIELD(struct event, position),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct event, fields);

/* What is stored of a partition: positions together with the effects. */
struct state {
	uint64_t epoch;
	uint64_t positions[SOURCES];
	uint64_t counts[SOURCES], sums[SOURCES];
};

static struct store {
	pthread_mutex_t lock; /* robust: its holder may be killed */
	struct {
		struct state states[2];
		_Atomic uint32_t current;
	} of[PARTITIONS];
	_Atomic uint64_t n_effects, n_by[TARGETS];
	_Atomic uint64_t n_refused; /* partitions whose effects were */
	_Atomic uint32_t stops;     /* 1 + the target that stops in commit() */
	_Atomic uint64_t n_unheard; /* pushes to a seat that nobody holds */
	uint32_t lease_ms, evict_after_ms;
	bool direct; /* and without targets */
} * store;

static struct child server;
static char address[sizeof(server.line)];

static void setup(void)
{
	pthread_mutexattr_t attr;

	if (access(DFI_BIN_DIR "/dfi-registry", X_OK) < 0)
		cr_skip_test("dfi-registry is not built");
	store = mmap(NULL, sizeof(*store), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(store, MAP_FAILED);
	store->lease_ms = LEASE_MS;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&store->lock, &attr);
	child_spawn_registry(&server, NULL);
	snprintf(address, sizeof(address), "%s", server.line);
}

static void teardown(void)
{
	child_signal(&server, SIGKILL);
	child_wait(&server);
}

TestSuite(replay, .init = setup, .fini = teardown, .timeout = 300);

/* ---- In forks --------------------------------------------------------------
 */

static void fail(const char *what)
{
	fprintf(stderr, "%d: %s: %s\n", getpid(), what, dfi_errmsg());
	_exit(1);
}

/* Who was stopped for too long has lost its lease, also on a busy machine. */
static void end_or_fail(const char *what, int ret)
{
	if (ret == -ESTALE || ret == -ENOTCONN || ret == -ECONNRESET)
		_exit(AGAIN);
	fail(what);
}

static struct dfi *join(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *dfi = NULL;

	attr.registry = address;
	attr.lease_ttl_ms = store->lease_ms;
	attr.open_timeout_ms = LONG_MS;
	if (dfi_open(&attr, &dfi) < 0)
		fail("open");
	return dfi;
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

static uint64_t key_of(uint64_t position)
{
	return position * UINT64_C(0x9e3779b97f4a7c15) >> 48;
}

static uint64_t effect_of(uint32_t source, uint64_t position)
{
	return (position + source) * UINT64_C(0xd6e8feb86659fd93);
}

static void lock_store(void)
{
	/* What its last holder has not made current has not happened. */
	if (pthread_mutex_lock(&store->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&store->lock);
}

static const struct state *stored(uint32_t p)
{
	return &store->of[p].states[store->of[p].current];
}

static void make_current(uint32_t p, const struct state *state)
{
	uint32_t other = !store->of[p].current;

	store->of[p].states[other] = *state;
	store->of[p].current = other;
}

struct work {
	struct dfi_target *target;
	uint32_t seat;
	struct state states[PARTITIONS]; /* with effects that aren't stored */
	bool held[PARTITIONS];
	uint64_t n_pending;
};

/* False: a later owner has the partition, so nothing is changed. */
static bool store_one(const struct state *state, uint32_t p)
{
	bool current;

	lock_store();
	current = stored(p)->epoch == state->epoch;
	if (current)
		make_current(p, state);
	pthread_mutex_unlock(&store->lock);
	return current;
}

/* With effects in hand that are not stored. */
static void stop_if_asked(const struct work *work)
{
	uint32_t self = 1 + work->seat;

	if (work->n_pending &&
	    atomic_compare_exchange_strong(&store->stops, &self, 0))
		raise(SIGSTOP);
}

static void commit(struct work *work)
{
	uint32_t p, refused = 0;
	int ret;

	stop_if_asked(work);
	for (p = 0; p < PARTITIONS; p++)
		if (work->held[p])
			refused += !store_one(&work->states[p], p);
	atomic_fetch_add(&store->n_refused, refused);
	if (refused)
		_exit(AGAIN);
	atomic_fetch_add(&store->n_effects, work->n_pending);
	atomic_fetch_add(&store->n_by[work->seat], work->n_pending);
	work->n_pending = 0;
	ret = dfi_target_ack(work->target);
	if (ret < 0)
		end_or_fail("ack", ret);
}

static void gain(struct work *work, const struct dfi_event *event)
{
	uint32_t p = event->partition;
	struct state state;
	bool newer;
	int ret;

	lock_store();
	state = *stored(p);
	newer = state.epoch < event->epoch;
	state.epoch = event->epoch;
	if (newer)
		make_current(p, &state);
	pthread_mutex_unlock(&store->lock);
	if (!newer)
		_exit(AGAIN);
	work->states[p] = state;
	work->held[p] = true;
	ret = dfi_partition_take(work->target, p, state.positions, SOURCES);
	if (ret < 0)
		end_or_fail("take", ret);
}

static void take_event(struct work *work)
{
	struct dfi_event event;
	int ret = dfi_target_event(work->target, &event);

	if (ret < 0)
		end_or_fail("event", ret);
	if (event.type == DFI_GAINED)
		gain(work, &event);
	if (event.type == DFI_LEAVING || event.type == DFI_ACK_DUE)
		commit(work);
	if (event.type != DFI_LEAVING)
		return;
	work->held[event.partition] = false;
	ret = dfi_partition_release(work->target, event.partition);
	if (ret < 0)
		end_or_fail("release", ret);
}

static void take_tuples(struct work *work, const struct dfi_batch *batch)
{
	const struct event *event = batch->tuples;
	uint32_t i, p, s = batch->source;
	struct state *state;

	for (i = 0; i < batch->count; i++, event++) {
		if (dfi_target_partition(work->target, event, &p) < 0)
			fail("partition");
		state = &work->states[p];
		if (!work->held[p])
			fail("a tuple of another's partition");
		if (event->position <= state->positions[s])
			fail("a tuple that is stored, or was lent before");
		state->positions[s] = event->position;
		state->counts[s]++;
		state->sums[s] += effect_of(s, event->position);
		work->n_pending++;
	}
}

/* So that this target's epochs are above all of the store (H3). */
static uint64_t highest_epoch(void)
{
	uint64_t epoch = 0;
	uint32_t p;

	lock_store();
	for (p = 0; p < PARTITIONS; p++)
		if (stored(p)->epoch > epoch)
			epoch = stored(p)->epoch;
	pthread_mutex_unlock(&store->lock);
	return epoch;
}

static void run_target(uint32_t seat)
{
	static struct work work;
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi *dfi = join();
	struct dfi_batch batch;
	uint32_t n = 0;
	int ret;

	work.seat = seat;
	attr.flags = DFI_EVENTS;
	attr.schema = &schema;
	attr.store_epoch = highest_epoch();
	while ((ret = dfi_target_open(dfi, FLOW, seat, &attr, &work.target)) ==
	    -EEXIST)
		pause_ms(10);
	if (ret < 0)
		end_or_fail("target", ret);
	for (;;) {
		ret = dfi_target_consume_batch(work.target, &batch);
		if (ret == 0)
			break;
		if (ret == -ENOMSG)
			take_event(&work);
		else if (ret == -ENOBUFS)
			commit(&work);
		else if (ret < 0)
			end_or_fail("consume", ret);
		if (ret < 0)
			continue;
		take_tuples(&work, &batch);
		dfi_target_release(work.target, &batch);
		if (++n % COMMIT == 0)
			commit(&work);
	}
	commit(&work);
	_exit(dfi_target_close(work.target) ? AGAIN : 0);
}

static void run_source(uint32_t seat)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;
	struct dfi *dfi = join();
	struct event event;
	uint64_t position = 0;
	int ret;

	attr.schema = &schema;
	while (
	    (ret = dfi_source_open(dfi, FLOW, seat, &attr, &source)) == -EEXIST)
		pause_ms(10);
	if (ret < 0)
		end_or_fail("source", ret);
	ret = dfi_source_resume(source, &position, NULL, 0);
	if (ret < 0)
		end_or_fail("resume", ret);
	while (position++ < POSITIONS) {
		event = (struct event){ key_of(position), position };
		ret = dfi_source_push(source, &event);
		if (ret < 0)
			end_or_fail("push", ret);
		/* So that it lasts until the last death. */
		if (position % 32 == 0)
			pause_ms(5);
	}
	ret = dfi_source_close(source);
	if (ret < 0)
		end_or_fail("close of a source", ret);
	_exit(0);
}

/* Push to a seat that nobody holds until the source has lost its own. */
static void run_unheard(uint32_t seat)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct event event = { .position = 1 };
	struct dfi_source *source = NULL;
	int ret;

	attr.schema = &schema;
	ret = dfi_source_open(join(), FLOW, seat, &attr, &source);
	if (ret < 0)
		fail("source");
	while ((ret = dfi_source_push_to(source, 0, &event)) == -ENXIO) {
		store->n_unheard++;
		pause_ms(2);
	}
	end_or_fail("push", ret);
}

/* Return when the seat's last holder is gone, and leave it. */
static void take_seat(uint32_t seat)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;
	struct dfi *dfi = join();
	int ret;

	attr.schema = &schema;
	while (
	    (ret = dfi_source_open(dfi, FLOW, seat, &attr, &source)) == -EEXIST)
		pause_ms(10);
	if (ret < 0)
		fail("source");
	_exit(0);
}

static void create_flow(uint32_t unused)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	(void)unused;
	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema;
	attr.n_sources = SOURCES;
	attr.n_targets = TARGETS;
	attr.flags = DFI_FLOW_PERSISTENT;
	attr.segment_size = 16 * sizeof(struct event);
	attr.segment_count = 16;
	attr.open.membership = DFI_MEMBERS_OPEN;
	attr.open.on_loss = DFI_ON_LOSS_REPLAY;
	attr.open.evict_after_ms = store->evict_after_ms;
	attr.open.partitions = store->direct ? 0 : PARTITIONS;
	if (store->direct) {
		attr.routing = DFI_ROUTE_DIRECT;
		attr.open.min_targets = DFI_NO_TARGETS;
	}
	attr.open.input_position = "position";
	if (dfi_flow_create(join(), FLOW, &attr) < 0)
		fail("create");
	_exit(0);
}

static void finish_flow(uint32_t unused)
{
	(void)unused;
	if (dfi_flow_finish(join(), FLOW) < 0)
		fail("finish");
	_exit(0);
}

/* ---- In the test's process -------------------------------------------------
 */

struct process {
	void (*run)(uint32_t seat);
	uint32_t seat;
	pid_t pid;
};

static void start(struct process *process)
{
	pid_t parent = getpid();

	process->pid = fork();
	cr_assert_geq(process->pid, 0);
	if (process->pid)
		return;
	if (getppid() == parent)
		process->run(process->seat);
	_exit(1);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* Whether it has ended well; it is started again if it lost its seat. */
static bool has_ended(struct process *process)
{
	int status;

	if (!process->pid)
		return true;
	if (waitpid(process->pid, &status, WNOHANG) != process->pid)
		return false;
	process->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == AGAIN)
		start(process);
	else
		cr_assert_eq(status, 0, "seat %u", process->seat);
	return !process->pid;
}

static void await_ends(struct process *processes, uint32_t n,
    struct process *others, uint32_t n_others)
{
	int64_t until = now_ms() + 2 * LONG_MS;
	uint32_t i, left = n;

	while (left) {
		for (i = left = 0; i < n; i++)
			left += !has_ended(&processes[i]);
		for (i = 0; i < n_others; i++)
			cr_assert(!has_ended(&others[i]));
		cr_assert_lt(now_ms(), until, "%lu effects are stored",
		    (unsigned long)store->n_effects);
		pause_ms(5);
	}
}

static void kill_one(struct process *process)
{
	cr_assert_eq(kill(process->pid, SIGKILL), 0);
	cr_assert_eq(waitpid(process->pid, NULL, 0), process->pid);
}

static void await_effects(
    uint64_t n, struct process *processes, uint32_t n_processes)
{
	int64_t until = now_ms() + 2 * LONG_MS;
	uint32_t i;

	for (;;) {
		for (i = 0; i < n_processes; i++)
			(void)has_ended(&processes[i]);
		if (store->n_effects >= n)
			return;
		cr_assert_lt(now_ms(), until, "%lu of %lu effects",
		    (unsigned long)store->n_effects, (unsigned long)n);
		pause_ms(2);
	}
}

static void run_once(void (*run)(uint32_t seat))
{
	struct process process = { .run = run };

	start(&process);
	await_ends(&process, 1, NULL, 0);
}

/* Each position of each source has taken effect once. */
static void check_effects(void)
{
	uint64_t counts[SOURCES] = { 0 }, sums[SOURCES] = { 0 }, expected;
	uint32_t s, p, i;

	for (p = 0; p < PARTITIONS; p++)
		for (s = 0; s < SOURCES; s++) {
			counts[s] += stored(p)->counts[s];
			sums[s] += stored(p)->sums[s];
		}
	for (s = 0; s < SOURCES; s++) {
		for (i = 1, expected = 0; i <= POSITIONS; i++)
			expected += effect_of(s, i);
		cr_assert_eq(counts[s], POSITIONS, "source %u: %lu", s,
		    (unsigned long)counts[s]);
		cr_assert_eq(sums[s], expected);
	}
}

enum {
	N_PROCESSES = SOURCES + TARGETS
};

static void start_all(struct process *all)
{
	uint32_t i;

	run_once(create_flow);
	for (i = 0; i < N_PROCESSES; i++) {
		all[i] = (struct process){
			.run = i < TARGETS ? run_target : run_source,
			.seat = i < TARGETS ? i : i - TARGETS,
		};
		start(&all[i]);
	}
}

static void end_all(struct process *all)
{
	await_ends(all + TARGETS, SOURCES, all, TARGETS);
	run_once(finish_flow);
	await_ends(all, TARGETS, NULL, 0);
	check_effects();
}

/* Kill the process of that number, then start it again. */
static void kill_and_restart(struct process *all, uint32_t i)
{
	kill_one(&all[i]);
	start(&all[i]);
}

Test(replay, effects_happen_once_though_targets_are_killed)
{
	struct process all[N_PROCESSES];
	uint32_t i;

	start_all(all);
	for (i = 0; i < 4; i++) {
		await_effects(300 + i * 600, all, N_PROCESSES);
		kill_and_restart(all, i % TARGETS);
	}
	end_all(all);
}

Test(replay, effects_happen_once_though_sources_are_killed)
{
	struct process all[N_PROCESSES];
	uint32_t i;

	start_all(all);
	for (i = 0; i < 4; i++) {
		await_effects(300 + i * 600, all, N_PROCESSES);
		kill_and_restart(all, TARGETS + i % SOURCES);
	}
	end_all(all);
}

Test(replay, effects_happen_once_though_both_are_killed)
{
	struct process all[N_PROCESSES];
	uint32_t i;

	start_all(all);
	for (i = 0; i < 2; i++) {
		await_effects(300 + i * 900, all, N_PROCESSES);
		kill_one(&all[i]);
		kill_one(&all[TARGETS + i]);
		start(&all[TARGETS + i]);
		start(&all[i]);
	}
	end_all(all);
}

/* The effects that it has in hand are stored by the next owners, and once. */
Test(replay, a_stopped_target_changes_nothing_when_it_wakes_up)
{
	struct process all[N_PROCESSES];
	int64_t until = now_ms() + LONG_MS;

	start_all(all);
	await_effects(300, all, N_PROCESSES);
	store->stops = 1 + 1;
	while (store->stops) {
		cr_assert_lt(now_ms(), until);
		await_effects(0, all, N_PROCESSES);
		pause_ms(2);
	}
	/* Its lease ends, and the others go on with its partitions. */
	await_ends(all + TARGETS, SOURCES, all, TARGETS);
	cr_assert_eq(store->n_refused, 0);
	cr_assert_eq(kill(all[1].pid, SIGCONT), 0);
	while (!store->n_refused) {
		cr_assert_lt(now_ms(), until + LONG_MS);
		await_effects(0, all, N_PROCESSES);
		pause_ms(2);
	}
	end_all(all);
}

/*
 * The registry and all processes are killed, except one that is stopped: only
 * the store knows which epochs there were, and what has happened.
 */
Test(replay, effects_happen_once_though_only_the_store_is_left)
{
	struct process all[N_PROCESSES], zombie;
	int64_t until = now_ms() + LONG_MS;
	uint32_t i;

	start_all(all);
	await_effects(300, all, N_PROCESSES);
	store->stops = 1 + 1;
	while (store->stops) {
		cr_assert_lt(now_ms(), until);
		await_effects(0, all, N_PROCESSES);
		pause_ms(2);
	}
	zombie = all[1];
	for (i = 0; i < N_PROCESSES; i++)
		if (all[i].pid != zombie.pid)
			kill_one(&all[i]);
	child_signal(&server, SIGKILL);
	child_wait(&server);
	child_spawn_registry(&server, NULL);
	snprintf(address, sizeof(address), "%s", server.line);
	start_all(all);
	await_ends(all + TARGETS, SOURCES, all, TARGETS);
	cr_assert_eq(store->n_refused, 0);
	cr_assert_eq(kill(zombie.pid, SIGCONT), 0);
	while (!store->n_refused) {
		cr_assert_lt(now_ms(), until + LONG_MS);
		pause_ms(2);
	}
	cr_assert_eq(waitpid(zombie.pid, NULL, 0), zombie.pid);
	end_all(all);
}

/*
 * A source that was stopped beyond its lease, and pushes to seats that nobody
 * holds, learns that it has lost its own.
 */
Test(replay, a_source_of_empty_seats_hears_that_its_own_is_gone)
{
	struct process source = { .run = run_unheard };
	int64_t until = now_ms() + LONG_MS;
	int status = 0;

	store->direct = true;
	run_once(create_flow);
	start(&source);
	while (!store->n_unheard) {
		cr_assert_lt(now_ms(), until);
		pause_ms(2);
	}
	cr_assert_eq(kill(source.pid, SIGSTOP), 0);
	run_once(take_seat);
	cr_assert_eq(kill(source.pid, SIGCONT), 0);
	until = now_ms() + LONG_MS;
	while (waitpid(source.pid, &status, WNOHANG) != source.pid) {
		cr_assert_lt(now_ms(), until, "it pushes on");
		pause_ms(5);
	}
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), AGAIN);
}

/* ---- Evictions -------------------------------------------------------------
 */

/* Nobody is gone by its lease, but after a second by eviction. */
static void evict_only(void)
{
	store->lease_ms = 5 * LONG_MS;
	store->evict_after_ms = 1000;
}

Test(replay, effects_happen_once_though_a_stopped_target_is_evicted)
{
	struct process all[N_PROCESSES];

	evict_only();
	start_all(all);
	await_effects(300, all, N_PROCESSES);
	cr_assert_eq(kill(all[1].pid, SIGSTOP), 0);
	/* What it has not acknowledged is sent again. */
	await_effects(SOURCES * POSITIONS, all, N_PROCESSES);
	cr_assert_eq(kill(all[1].pid, SIGCONT), 0);
	end_all(all);
}

/* It owes its mark for partitions that move, and returns in its seat. */
Test(replay, effects_happen_once_though_a_stopped_source_is_evicted)
{
	struct process all[N_PROCESSES];
	int64_t until = now_ms() + LONG_MS;
	uint64_t before;

	evict_only();
	start_all(all);
	await_effects(300, all, N_PROCESSES);
	cr_assert_eq(kill(all[TARGETS].pid, SIGSTOP), 0);
	kill_one(&all[2]);
	before = store->n_by[2];
	start(&all[2]);
	/* It has partitions only when all marks are there. */
	while (store->n_by[2] == before) {
		cr_assert_lt(now_ms(), until);
		await_effects(0, all, N_PROCESSES);
		pause_ms(5);
	}
	cr_assert_eq(kill(all[TARGETS].pid, SIGCONT), 0);
	end_all(all);
}

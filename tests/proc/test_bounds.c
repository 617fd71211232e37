/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One that is stopped while partitions move holds up the others for a bound
 * only (open.evict_after_ms): a source that owes its mark, an old owner that
 * does not release, a new one that does not take. Then it is out, learns so
 * when it goes on, and may come back. Leases are longer than any wait here.
 * This process has no context; all others are its forks.
 *
 * DFI_TEST_STOP_MS=10000 DFI_TEST_BOUND_MS=100 test_bounds --verbose
 * measures the longest pauses of the others meanwhile, and checks them.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dfi/dfi.h>

#include "spawn.h"

#define FLOW "flow"
#define LONG_MS 60000u
#define LEASE_MS 300000u
#define SEATS 2u
#define PARTITIONS 32u
#define SEGMENT 16u /* tuples */
/* Beside the bound and a look: answers of the registry, on a busy machine. */
#define SLACK_MS 250

struct event {
	uint64_t key, number;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct event, key),
	DFI_FIELD(struct event, number),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct event, fields);

/* When a target stops itself. */
enum stop {
	NEVER = 0,
	WHEN_OPEN,   /* before it takes a partition */
	WHEN_LEAVING /* before it releases one */
};

/* A seat, as its process says. */
struct member {
	_Atomic uint64_t n; /* tuples that it has pushed or taken */
	_Atomic uint32_t n_owned, n_returned, n_evicted; /* events */
	_Atomic int error;
	char text[512]; /* of the error, before it is set */
	_Atomic enum stop stops;
};

static struct shared {
	struct member sources[SEATS], targets[SEATS];
	/* When a tuple of each partition was taken last, and the longest times
	 * between two, and of a push; ns. */
	_Atomic int64_t taken[PARTITIONS], longest_gap, longest_push;
	_Atomic bool idle; /* sources push nothing */
	_Atomic bool over;
} * shared;

static struct child server;
static char address[sizeof(server.line)];
static uint32_t bound_ms, stop_ms; /* the latter if it measures */

static uint32_t setting(const char *name, uint32_t otherwise)
{
	const char *text = getenv(name);

	return text ? (uint32_t)strtoul(text, NULL, 10) : otherwise;
}

static void setup(void)
{
	bound_ms = setting("DFI_TEST_BOUND_MS", 1000);
	stop_ms = setting("DFI_TEST_STOP_MS", 0);
	if (access(DFI_BIN_DIR "/dfi-registry", X_OK) < 0)
		cr_skip_test("dfi-registry is not built");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(shared, MAP_FAILED);
	child_spawn_registry(&server, NULL);
	snprintf(address, sizeof(address), "%s", server.line);
}

static void teardown(void)
{
	child_signal(&server, SIGKILL);
	child_wait(&server);
}

TestSuite(bounds, .init = setup, .fini = teardown, .timeout = 300);

/* ---- In forks --------------------------------------------------------------
 */

static void fail(const char *what)
{
	fprintf(stderr, "%d: %s: %s\n", getpid(), what, dfi_errmsg());
	_exit(1);
}

static struct dfi *join(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *dfi = NULL;

	attr.registry = address;
	attr.lease_ttl_ms = LEASE_MS;
	attr.open_timeout_ms = LONG_MS;
	if (dfi_open(&attr, &dfi) < 0)
		fail("open");
	return dfi;
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void note_longest(_Atomic int64_t *longest, int64_t ns)
{
	int64_t last = *longest;

	while (ns > last && !atomic_compare_exchange_weak(longest, &last, ns))
		;
}

/* It was evicted: say so, and come back. */
static void note_error(struct member *member, const char *what, int ret)
{
	if (ret != -ESTALE)
		fail(what);
	if (member->error)
		return;
	snprintf(member->text, sizeof(member->text), "%s", dfi_errmsg());
	member->error = ret;
}

static struct dfi_source *open_source(struct dfi *dfi, uint32_t seat)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;

	attr.stall_timeout_ms = LONG_MS;
	if (dfi_source_open(dfi, FLOW, seat, &attr, &source) < 0)
		fail("source");
	return source;
}

static void run_source(uint32_t seat)
{
	struct member *member = &shared->sources[seat];
	struct dfi *dfi = join();
	struct dfi_source *source = open_source(dfi, seat);
	struct event event;
	int64_t from;
	int ret;

	while (!shared->over) {
		if (shared->idle) {
			pause_ms(1);
			continue;
		}
		event.number = member->n + 1;
		event.key = event.number * UINT64_C(0x9e3779b97f4a7c15);
		from = now_ns();
		ret = dfi_source_push(source, &event);
		/* The other one may be stopped. */
		if (seat == 0)
			note_longest(&shared->longest_push, now_ns() - from);
		if (ret < 0) {
			note_error(member, "push", ret);
			if (dfi_source_close(source) != -ESTALE)
				fail("close of an evicted source");
			source = open_source(dfi, seat);
			member->n_returned++;
			continue;
		}
		member->n++;
		if (event.number % SEGMENT == 0)
			pause_ms(1);
	}
	ret = dfi_source_close(source);
	if (ret < 0)
		note_error(member, "close of a source", ret);
	_exit(0);
}

struct work {
	struct member *member;
	struct dfi *dfi;
	struct dfi_target *target;
	uint64_t last[SEATS];
};

static void open_target(struct work *work, uint32_t seat)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;

	attr.flags = DFI_EVENTS;
	memset(work->last, 0, sizeof(work->last));
	work->member->n_owned = 0;
	if (dfi_target_open(work->dfi, FLOW, seat, &attr, &work->target) < 0)
		fail("target");
}

static void stop_if(struct member *member, enum stop when)
{
	if (member->stops != when)
		return;
	member->stops = NEVER;
	raise(SIGSTOP);
}

static int take_event(struct work *work)
{
	struct dfi_event event;
	int ret = dfi_target_event(work->target, &event);

	/* It was one of a partition, and this target is evicted. */
	if (ret == -EAGAIN)
		return 0;
	if (ret < 0)
		return ret;
	work->member->n_owned += event.type == DFI_GAINED;
	work->member->n_evicted += event.type == DFI_EVICTED;
	if (event.type == DFI_JOINED)
		work->last[event.seat] = 0;
	if (event.type != DFI_LEAVING)
		return 0;
	stop_if(work->member, WHEN_LEAVING);
	work->member->n_owned--;
	return dfi_partition_release(work->target, event.partition);
}

/* Those of a source come in order, though partitions of it move. */
static void take_tuples(struct work *work, const struct dfi_batch *batch)
{
	const struct event *event = batch->tuples;
	int64_t now = now_ns(), last;
	uint32_t i;

	for (i = 0; i < batch->count; i++, event++) {
		last = atomic_exchange(
		    &shared
			 ->taken[dfi_hash64_partition(event->key, PARTITIONS)],
		    now);
		if (last)
			note_longest(&shared->longest_gap, now - last);
		if (event->number == work->last[batch->source])
			fail("a tuple twice");
		work->last[batch->source] = event->number;
	}
	work->member->n += batch->count;
}

static void run_target(uint32_t seat)
{
	struct work work = { .member = &shared->targets[seat] };
	struct dfi_batch batch;
	int ret;

	work.dfi = join();
	open_target(&work, seat);
	stop_if(work.member, WHEN_OPEN);
	for (;;) {
		ret = dfi_target_consume_batch(work.target, &batch);
		if (ret == 0)
			break;
		if (ret > 0) {
			take_tuples(&work, &batch);
			dfi_target_release(work.target, &batch);
			continue;
		}
		if (ret == -ENOMSG)
			ret = take_event(&work);
		if (ret == 0)
			continue;
		note_error(work.member, "consume", ret);
		(void)dfi_target_close(work.target);
		open_target(&work, seat);
		work.member->n_returned++;
	}
	_exit(dfi_target_close(work.target) ? 1 : 0);
}

static void create_flow(uint32_t goal)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema;
	attr.goal = goal;
	attr.n_sources = SEATS;
	attr.n_targets = SEATS;
	attr.flags = DFI_FLOW_PERSISTENT;
	attr.segment_size = goal == DFI_LATENCY
	    ? 0
	    : SEGMENT * sizeof(struct event);
	attr.segment_count = 64;
	attr.open.membership = DFI_MEMBERS_OPEN;
	attr.open.on_loss = DFI_ON_LOSS_DROP;
	attr.open.partitions = PARTITIONS;
	attr.open.evict_after_ms = bound_ms;
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

static pid_t start(void (*run)(uint32_t seat), uint32_t seat)
{
	pid_t parent = getpid(), pid = fork();

	cr_assert_geq(pid, 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent)
		run(seat);
	_exit(1);
}

static void await_end(pid_t pid)
{
	int status = -1;

	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0, "%x", status);
}

/* Also one that stops itself. */
static void await_stop(pid_t pid)
{
	int status = 0;

	cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
	cr_assert(WIFSTOPPED(status), "%x", status);
}

/* A long way below a lease: what is awaited comes of an eviction, or not. */
#define AWAIT(condition, what)                                        \
	do {                                                          \
		time_t until_ = time(NULL) + LONG_MS / 1000;          \
		while (!(condition)) {                                \
			cr_assert_lt(time(NULL), until_, "%s", what); \
			pause_ms(2);                                  \
		}                                                     \
	} while (0)

struct rig {
	pid_t sources[SEATS], targets[SEATS];
};

static void start_flow(struct rig *rig, uint32_t goal, enum stop first)
{
	uint32_t i;

	await_end(start(create_flow, goal));
	shared->targets[0].stops = first;
	rig->targets[0] = start(run_target, 0);
	AWAIT(shared->targets[0].n_owned == PARTITIONS, "all partitions");
	for (i = 0; i < SEATS; i++)
		rig->sources[i] = start(run_source, i);
	AWAIT(shared->sources[0].n > 100 && shared->sources[1].n > 100,
	    "tuples of both sources");
}

/* All those who were not stopped go on. */
static void expect_flow(uint64_t from_source, uint64_t from_target)
{
	AWAIT(shared->sources[0].n > from_source + 500, "pushes");
	AWAIT(shared->targets[0].n + shared->targets[1].n > from_target + 500,
	    "tuples");
}

static void go_on(void)
{
	expect_flow(
	    shared->sources[0].n, shared->targets[0].n + shared->targets[1].n);
}

static void begin_to_measure(void)
{
	uint32_t p;

	for (p = 0; p < PARTITIONS; p++)
		shared->taken[p] = 0;
	shared->longest_gap = shared->longest_push = 0;
}

/* It stays stopped for so long. */
static void report(const char *why)
{
	if (!stop_ms)
		return;
	pause_ms(stop_ms % 1000);
	sleep(stop_ms / 1000);
	printf("%s: longest pause of a partition %.1f ms, longest push %.1f "
	       "ms\n",
	    why, (double)shared->longest_gap / 1e6,
	    (double)shared->longest_push / 1e6);
	cr_assert_leq(shared->longest_gap / 1000000,
	    bound_ms + bound_ms / 4 + SLACK_MS, "%s", why);
}

static void expect_return(
    struct member *member, pid_t pid, const char *by, const char *why)
{
	report(why);
	cr_assert_eq(kill(pid, SIGCONT), 0);
	AWAIT(member->n_returned > 0, "the return");
	cr_assert_eq(member->error, -ESTALE);
	cr_assert_not_null(
	    strstr(member->text, "open.evict_after_ms"), "%s", member->text);
	/* A target may hear it of its ring first, which does not say who. */
	if (stop_ms ||
	    (strstr(member->text, "DFI_LEASE") &&
		member != &shared->sources[1]))
		return;
	cr_assert_not_null(strstr(member->text, by), "%s", member->text);
	cr_assert_not_null(strstr(member->text, why), "%s", member->text);
}

static void end_flow(struct rig *rig)
{
	uint32_t i;

	AWAIT(shared->targets[0].n_owned == PARTITIONS / 2 &&
		shared->targets[1].n_owned == PARTITIONS / 2,
	    "even shares");
	go_on();
	shared->over = true;
	for (i = 0; i < SEATS; i++)
		await_end(rig->sources[i]);
	await_end(start(finish_flow, 0));
	for (i = 0; i < SEATS; i++)
		await_end(rig->targets[i]);
}

static void stop_a_source(uint32_t goal)
{
	struct rig rig;

	start_flow(&rig, goal, NEVER);
	cr_assert_eq(kill(rig.sources[1], SIGSTOP), 0);
	await_stop(rig.sources[1]);
	begin_to_measure();
	rig.targets[1] = start(run_target, 1);
	AWAIT(shared->targets[1].n_owned == PARTITIONS / 2, "the hand-over");
	/* More, if this machine lets others wait as long. */
	cr_assert_geq(shared->targets[0].n_evicted, 1);
	go_on();
	expect_return(&shared->sources[1], rig.sources[1], "by target 0",
	    "partitions from moving");
	end_flow(&rig);
}

static void stop_an_old_owner(uint32_t goal)
{
	struct rig rig;

	start_flow(&rig, goal, WHEN_LEAVING);
	/* Otherwise they may evict it first, as its ring is full. */
	shared->idle = !stop_ms;
	begin_to_measure();
	rig.targets[1] = start(run_target, 1);
	await_stop(rig.targets[0]);
	AWAIT(shared->targets[1].n_owned == PARTITIONS, "the hand-over");
	shared->idle = false;
	go_on();
	expect_return(&shared->targets[0], rig.targets[0], "by target 1",
	    "dfi_partition_release()");
	end_flow(&rig);
}

static void stop_a_new_owner(uint32_t goal)
{
	struct rig rig;

	start_flow(&rig, goal, NEVER);
	shared->targets[1].stops = WHEN_OPEN;
	begin_to_measure();
	rig.targets[1] = start(run_target, 1);
	await_stop(rig.targets[1]);
	AWAIT(shared->targets[0].n_owned < PARTITIONS, "a new table");
	AWAIT(shared->targets[0].n_owned == PARTITIONS, "the way back");
	go_on();
	expect_return(&shared->targets[1], rig.targets[1], "by target 0",
	    "did not take partitions");
	end_flow(&rig);
}

Test(bounds, a_source_that_owes_its_mark_is_evicted)
{
	stop_a_source(DFI_BANDWIDTH);
}

Test(bounds, an_old_owner_that_does_not_release_is_evicted)
{
	stop_an_old_owner(DFI_BANDWIDTH);
}

Test(bounds, a_new_owner_that_does_not_take_is_evicted)
{
	stop_a_new_owner(DFI_BANDWIDTH);
}

Test(bounds, a_source_that_owes_its_mark_is_evicted_for_latency)
{
	stop_a_source(DFI_LATENCY);
}

Test(bounds, an_old_owner_that_does_not_release_is_evicted_for_latency)
{
	stop_an_old_owner(DFI_LATENCY);
}

Test(bounds, a_new_owner_that_does_not_take_is_evicted_for_latency)
{
	stop_a_new_owner(DFI_LATENCY);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers between real processes, one of which is killed. The others run
 * meeting.c.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <dfi/dfi.h>
#include "in_time.h"
#include "spawn.h"

#define N 3u

/* Two seconds, and one for a machine that has much to do. */
#define REPORTED_MS 3000

/* Only a hanging test reaches it. */
#define LONG_MS 60000

static struct dfi_registry *registry;
static struct child children[N];

static void setup(void)
{
	in_time_start();
	cr_assert_eq(
	    dfi_registry_start(NULL, &registry), 0, "%s", dfi_errmsg());
}

static void teardown(void)
{
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(barriers, .init = setup, .fini = teardown, .timeout = 300);

static void spawn_participants(const char *rounds)
{
	char index[16];
	uint32_t i;

	for (i = 0; i < N; i++) {
		snprintf(index, sizeof(index), "%u", i);
		child_spawn(&children[i], DFI_MEETING,
		    dfi_registry_address(registry), "b", "3", index, rounds,
		    NULL);
	}
	for (i = 0; i < N; i++)
		child_expect(&children[i], "open");
}

Test(barriers, hold_processes_together)
{
	uint32_t i;

	spawn_participants("100");
	for (i = 0; i < N; i++)
		child_order(&children[i], 'c');
	for (i = 0; i < N; i++) {
		child_expect(&children[i], "ended 0 100");
		cr_assert_eq(child_wait(&children[i]), 0);
	}
}

static void expect_loss(struct child *child, pid_t pid, const char *round)
{
	char text[64];

	snprintf(text, sizeof(text), "ended %d %s", -ECONNRESET, round);
	child_expect(child, text);
	snprintf(text, sizeof(text), "pid %d)", (int)pid);
	cr_assert(
	    strstr(child->line, "participant 2 (node"), "%s", child->line);
	cr_assert(strstr(child->line, "host "), "%s", child->line);
	cr_assert(strstr(child->line, text), "%s", child->line);
}

Test(barriers, notify_all_which_participant_was_killed)
{
	pid_t pid;
	int64_t start;
	uint32_t i;

	spawn_participants("100");
	child_order(&children[0], 'c');
	child_order(&children[1], 'c');
	pid = children[2].pid;
	start = now_ms();
	child_signal(&children[2], SIGKILL);
	for (i = 0; i < 2; i++) {
		expect_loss(&children[i], pid, "0 ");
		cr_assert_eq(child_wait(&children[i]), 0);
	}
	cr_assert_lt(ms_since(start), 4000);
	cr_assert_eq(child_wait(&children[2]), 128 + SIGKILL);
}

/* All survivors have passed the same rounds. */
Test(barriers, agree_on_the_last_round_when_one_is_killed_in_mid_flight)
{
	unsigned rounds[2];
	uint32_t i;
	int ret;

	spawn_participants("1000000");
	for (i = 0; i < N; i++)
		child_order(&children[i], 'c');
	for (i = 0; i < 2; i++)
		child_expect(&children[i], "passed");
	child_signal(&children[2], SIGKILL);
	for (i = 0; i < 2; i++) {
		child_expect(&children[i], "ended");
		cr_assert_eq(
		    sscanf(children[i].line, "ended %d %u", &ret, &rounds[i]),
		    2);
		cr_assert_eq(ret, -ECONNRESET, "%s", children[i].line);
		cr_assert_eq(child_wait(&children[i]), 0);
	}
	cr_assert_eq(rounds[0], rounds[1]);
	cr_assert_gt(rounds[0], 0);
	cr_assert_eq(child_wait(&children[2]), 128 + SIGKILL);
}

static struct dfi *open_context(const char *address)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *dfi = NULL;

	attr.registry = address;
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	return dfi;
}

/* With a registry process, at which the test is participant 3. */
struct hanging {
	struct child server;
	struct dfi *dfi;
	struct dfi_barrier *barrier;
};

static void start_hanging(struct hanging *hanging)
{
	char index[16];
	uint32_t i;

	child_spawn_registry(&hanging->server, NULL);
	for (i = 0; i < N; i++) {
		snprintf(index, sizeof(index), "%u", i);
		child_spawn(&children[i], DFI_MEETING, hanging->server.line,
		    "b", "4", index, "100", NULL);
		child_expect(&children[i], "open");
	}
	hanging->dfi = open_context(hanging->server.line);
	cr_assert_eq(
	    dfi_barrier_open(hanging->dfi, "b", 4, 3, &hanging->barrier), 0,
	    "%s", dfi_errmsg());
}

static void end_hanging(struct hanging *hanging, int number)
{
	cr_assert_eq(dfi_barrier_close(hanging->barrier), 0);
	cr_assert_eq(dfi_close(hanging->dfi), 0);
	if (number)
		child_signal(&hanging->server, number);
	cr_assert_eq(child_wait(&hanging->server), 128 + SIGKILL);
}

static void await_arrival(struct dfi_barrier *barrier, const char *participant)
{
	int64_t wait_limit = now_ms() + LONG_MS;

	do {
		cr_assert_lt(now_ms(), wait_limit, "%s", dfi_errmsg());
		cr_assert_eq(dfi_barrier_wait(barrier, 20), -ETIMEDOUT, "%s",
		    dfi_errmsg());
	} while (strstr(dfi_errmsg(), participant));
}

/* Children 0 and 1, and this process, learn of it in time. */
static void expect_losses(struct hanging *hanging, pid_t pid, int64_t killed)
{
	char text[32];
	uint32_t i;
	int ret;

	while ((ret = dfi_barrier_wait(hanging->barrier, LONG_MS)) == -ENOTCONN)
		cr_assert_lt(now_ms(), killed + LONG_MS, "%s", dfi_errmsg());
	cr_assert_eq(ret, -ECONNRESET, "%s", dfi_errmsg());
	cr_assert_lt(ms_since(killed), REPORTED_MS);
	snprintf(text, sizeof(text), "pid %d)", (int)pid);
	cr_assert(strstr(dfi_errmsg(), "barrier 'b': participant 2 (node "),
	    "%s", dfi_errmsg());
	cr_assert(strstr(dfi_errmsg(), text), "%s", dfi_errmsg());
	for (i = 0; i < 2; i++)
		expect_loss(&children[i], pid, "0 ");
	cr_assert_lt(ms_since(killed), REPORTED_MS);
	for (i = 0; i < 2; i++)
		cr_assert_eq(child_wait(&children[i]), 0);
}

/*
 * Participant 0 waits for the others then, and participant 1 for the registry.
 */
Test(barriers, report_a_death_while_the_registry_hangs)
{
	struct hanging hanging;
	pid_t pid;
	int64_t killed;

	start_hanging(&hanging);
	child_order(&children[0], 'c');
	await_arrival(hanging.barrier, "participant 0 (");
	child_signal(&hanging.server, SIGSTOP);
	child_order(&children[1], 'c');
	pid = children[2].pid;
	killed = now_ms();
	child_signal(&children[2], SIGKILL);
	expect_losses(&hanging, pid, killed);
	cr_assert_eq(child_wait(&children[2]), 128 + SIGKILL);
	end_hanging(&hanging, SIGKILL);
}

Test(barriers, report_a_death_after_that_of_the_registry)
{
	struct hanging hanging;
	pid_t pid;
	int64_t killed;

	start_hanging(&hanging);
	child_order(&children[0], 'c');
	await_arrival(hanging.barrier, "participant 0 (");
	child_signal(&hanging.server, SIGKILL);
	while (dfi_barrier_wait(hanging.barrier, 20) != -ENOTCONN)
		;
	child_order(&children[1], 'c');
	pid = children[2].pid;
	killed = now_ms();
	child_signal(&children[2], SIGKILL);
	expect_losses(&hanging, pid, killed);
	cr_assert_eq(child_wait(&children[2]), 128 + SIGKILL);
	end_hanging(&hanging, 0);
}

/* Also before the others know that it is gone. */
Test(barriers, report_a_death_at_the_same_time_as_that_of_the_registry)
{
	struct hanging hanging;
	pid_t pid;
	int64_t killed;

	start_hanging(&hanging);
	child_order(&children[0], 'c');
	child_order(&children[1], 'c');
	await_arrival(hanging.barrier, "participant 0 (");
	child_signal(&hanging.server, SIGSTOP);
	pid = children[2].pid;
	killed = now_ms();
	child_signal(&children[2], SIGKILL);
	child_signal(&hanging.server, SIGKILL);
	expect_losses(&hanging, pid, killed);
	cr_assert_eq(child_wait(&children[2]), 128 + SIGKILL);
	end_hanging(&hanging, 0);
}

static _Atomic bool warned;

static void look_for_warning(
    void *why, enum dfi_log_level level, const char *line)
{
	if (level == DFI_LOG_WARN && strstr(line, "nobody will notice") &&
	    strstr(line, why))
		warned = true;
}

static void await_warning(void)
{
	int64_t start = now_ms();

	while (!warned && ms_since(start) < LONG_MS)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
	cr_assert(warned);
}

/* A child has come already, and waits to arrive. */
static struct dfi *await_child(struct child *server)
{
	struct dfi *dfi;

	child_spawn_registry(server, NULL);
	dfi = open_context(server->line);
	child_spawn(
	    &children[0], DFI_MEETING, server->line, "b", "2", "0", "1", NULL);
	child_expect(&children[0], "open");
	return dfi;
}

static void meet_child(
    struct child *server, struct dfi *dfi, struct dfi_barrier *barrier)
{
	child_order(&children[0], 'c');
	cr_assert_eq(dfi_barrier_wait(barrier, LONG_MS), 0, "%s", dfi_errmsg());
	child_expect(&children[0], "ended 0 1");
	cr_assert_eq(child_wait(&children[0]), 0);
	cr_assert_eq(dfi_barrier_close(barrier), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	child_signal(server, SIGKILL);
	child_wait(server);
}

/* With that, the process can be held, but not be told from another. */
Test(barriers, say_whom_they_cannot_watch_with_one_descriptor_left)
{
	struct dfi_barrier *barrier;
	struct rlimit limit, low;
	struct child server;
	struct dfi *dfi = await_child(&server);
	int next;

	dfi_log_set(DFI_LOG_WARN, look_for_warning, (char[]){ "ulimit -n" });
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	next = dup(STDIN_FILENO);
	close(next);
	low = limit;
	low.rlim_cur = (rlim_t)next + 1;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	cr_assert_eq(
	    dfi_barrier_open(dfi, "b", 2, 1, &barrier), 0, "%s", dfi_errmsg());
	await_warning();
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	meet_child(&server, dfi, barrier);
}

/* Those that a mount of /proc hides, as hidepid=1 and 2 do. */
static _Atomic int hides_with;

int open(const char *path, int flags, ...)
{
	const char *end = strrchr(path, '/');
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	if (hides_with && !strncmp(path, "/proc/", 6) &&
	    !strcmp(end, "/stat")) {
		errno = hides_with;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void meet_hidden(int err, const char *why)
{
	struct dfi_barrier *barrier;
	struct child server;
	struct dfi *dfi = await_child(&server);
	char text[64];

	snprintf(text, sizeof(text), "%s", why);
	dfi_log_set(DFI_LOG_WARN, look_for_warning, text);
	hides_with = err;
	cr_assert_eq(
	    dfi_barrier_open(dfi, "b", 2, 1, &barrier), 0, "%s", dfi_errmsg());
	await_warning();
	hides_with = 0;
	meet_child(&server, dfi, barrier);
}

Test(barriers, say_whom_they_cannot_watch_as_proc_may_not_be_read)
{
	meet_hidden(EPERM, "Operation not permitted");
}

Test(barriers, say_whom_they_cannot_watch_as_proc_does_not_show_it)
{
	meet_hidden(ENOENT, "No such file");
}

/*
 * A participant with a short timeout never gets the answer that it has arrived.
 */
Test(barriers, count_an_arrival_whose_answer_always_comes_too_late)
{
	int64_t wait_limit = now_ms() + LONG_MS;
	struct dfi_barrier *at[2];
	struct child server;
	struct dfi *dfi;
	uint32_t i;

	child_spawn_registry(&server, NULL);
	dfi = open_context(server.line);
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_barrier_open(dfi, "b", 2, i, &at[i]), 0, "%s",
		    dfi_errmsg());
	do {
		cr_assert_lt(now_ms(), wait_limit, "%s", dfi_errmsg());
		child_signal(&server, SIGSTOP);
		cr_assert_eq(dfi_barrier_wait(at[0], 10), -ETIMEDOUT, "%s",
		    dfi_errmsg());
		child_signal(&server, SIGCONT);
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	} while (!strstr(dfi_errmsg(), "has not arrived"));
	cr_assert_eq(dfi_barrier_wait(at[1], LONG_MS), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_barrier_wait(at[0], LONG_MS), 0, "%s", dfi_errmsg());
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_barrier_close(at[i]), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	child_signal(&server, SIGKILL);
	cr_assert_eq(child_wait(&server), 128 + SIGKILL);
}

/*
 * Wait until the participant has arrived, and waits for the other. The registry
 * must know of the arrival; it may be down, or slower than a short timeout.
 */
static void arrive_in_vain(struct dfi_barrier *barrier)
{
	int64_t wait_limit = now_ms() + LONG_MS;
	int ret;

	do {
		cr_assert_lt(now_ms(), wait_limit, "%s", dfi_errmsg());
		ret = dfi_barrier_wait(barrier, 20);
		cr_assert(ret == -ENOTCONN || ret == -ETIMEDOUT, "%d %s", ret,
		    dfi_errmsg());
	} while (!strstr(dfi_errmsg(), "has not arrived"));
}

/*
 * The child is stopped meanwhile, and then finds that the other one has
 * arrived.
 */
Test(barriers, go_on_where_one_comes_back_late_to_a_restarted_registry)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *restarted;
	struct dfi_barrier *barrier;
	struct dfi *dfi;
	char address[64];

	snprintf(
	    address, sizeof(address), "unix:@dfi-test-barriers-%d", getpid());
	attr.listen = address;
	cr_assert_eq(dfi_registry_start(&attr, &restarted), 0);
	dfi = open_context(address);
	cr_assert_eq(dfi_barrier_open(dfi, "b", 2, 0, &barrier), 0);
	child_spawn(
	    &children[1], DFI_MEETING, address, "b", "2", "1", "2", NULL);
	child_expect(&children[1], "open");
	child_signal(&children[1], SIGSTOP);
	cr_assert_eq(dfi_registry_stop(restarted), 0);
	cr_assert_eq(dfi_registry_start(&attr, &restarted), 0);
	arrive_in_vain(barrier);
	child_signal(&children[1], SIGCONT);
	child_order(&children[1], 'c');
	cr_assert_eq(dfi_barrier_wait(barrier, LONG_MS), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_barrier_wait(barrier, LONG_MS), 0, "%s", dfi_errmsg());
	child_expect(&children[1], "ended 0 2");
	cr_assert_eq(child_wait(&children[1]), 0);
	cr_assert_eq(dfi_barrier_close(barrier), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	cr_assert_eq(dfi_registry_stop(restarted), 0);
}

Test(barriers, can_be_opened_again_after_a_loss)
{
	uint32_t i;

	spawn_participants("5");
	child_signal(&children[2], SIGKILL);
	for (i = 0; i < 2; i++) {
		child_order(&children[i], 'c');
		child_expect(&children[i], "ended -104 0");
		cr_assert_eq(child_wait(&children[i]), 0);
	}
	cr_assert_eq(child_wait(&children[2]), 128 + SIGKILL);
	spawn_participants("5");
	for (i = 0; i < N; i++)
		child_order(&children[i], 'c');
	for (i = 0; i < N; i++) {
		child_expect(&children[i], "ended 0 5");
		cr_assert_eq(child_wait(&children[i]), 0);
	}
}

/* ---- Members that were stopped for too long ------------------------------ */

/*
 * The child was participant 0 of two until its lease ended; participant 1 has
 * left. The lease is as long as a busy machine may keep the child from renewing
 * it.
 */
static void start_stopped(struct child *child, struct dfi *dfi)
{
	struct dfi_barrier *barrier;
	int ret;

	setenv("DFI_LEASE", "6000", 1);
	child_spawn(child, DFI_MEETING, dfi_registry_address(registry), "b",
	    "2", "0", "2", NULL);
	unsetenv("DFI_LEASE");
	child_expect(child, "open");
	cr_assert_eq(dfi_barrier_open(dfi, "b", 2, 1, &barrier), 0);
	child_signal(child, SIGSTOP);
	while ((ret = dfi_barrier_wait(barrier, 20)) == -ETIMEDOUT)
		;
	cr_assert_eq(ret, -ECONNRESET, "%s", dfi_errmsg());
	cr_assert_eq(dfi_barrier_close(barrier), 0);
}

static void *pass(void *arg)
{
	return (void *)(intptr_t)dfi_barrier_wait(arg, LONG_MS);
}

/* The participants of the next use. */
static void expect_to_pass(struct dfi_barrier *participants[2])
{
	pthread_t thread;
	void *ret;

	cr_assert_eq(pthread_create(&thread, NULL, pass, participants[0]), 0);
	cr_assert_eq(
	    dfi_barrier_wait(participants[1], LONG_MS), 0, "%s", dfi_errmsg());
	cr_assert_eq(pthread_join(thread, &ret), 0);
	cr_assert_eq((int)(intptr_t)ret, 0);
}

static int count_node(void *arg, const struct dfi_node_info *info)
{
	(void)info;
	++*(uint32_t *)arg;
	return 0;
}

static void await_nodes(struct dfi *dfi, uint32_t n)
{
	int64_t wait_limit = now_ms() + LONG_MS;
	uint32_t found;

	do {
		found = 0;
		cr_assert_eq(dfi_node_list(dfi, count_node, &found), 0);
		cr_assert_lt(now_ms(), wait_limit, "%u nodes", found);
	} while (found != n);
}

static void open_participants(
    struct dfi *dfi, struct dfi_barrier *participants[2])
{
	uint32_t i;

	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_barrier_open(dfi, "b", 2, i, &participants[i]),
		    0, "%s", dfi_errmsg());
	expect_to_pass(participants);
}

/*
 * The child asks, gets its answer, and leaves; that does not affect the others.
 */
static void expect_to_go_on(
    struct dfi_barrier *participants[2], struct child *child)
{
	uint32_t i;

	child_order(child, 'c');
	child_expect(child, "ended -104 0");
	cr_assert_eq(child_wait(child), 0);
	expect_to_pass(participants);
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_barrier_close(participants[i]), 0);
}

Test(barriers, leave_alone_who_has_the_place_of_one_that_was_stopped)
{
	struct dfi *dfi = open_context(dfi_registry_address(registry));
	struct dfi_barrier *participants[2];
	struct child *child = &children[0];

	start_stopped(child, dfi);
	await_nodes(dfi, 1);
	open_participants(dfi, participants);
	child_signal(child, SIGCONT);
	await_nodes(dfi, 2);
	expect_to_go_on(participants, child);
	cr_assert_eq(dfi_close(dfi), 0);
}

/* Its process is back, and its owner has not asked yet. */
Test(barriers, have_no_place_for_one_that_was_stopped_for_too_long)
{
	struct dfi *dfi = open_context(dfi_registry_address(registry));
	struct dfi_barrier *participants[2];
	struct child *child = &children[0];

	start_stopped(child, dfi);
	await_nodes(dfi, 1);
	child_signal(child, SIGCONT);
	await_nodes(dfi, 2);
	open_participants(dfi, participants);
	expect_to_go_on(participants, child);
	cr_assert_eq(dfi_close(dfi), 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls while the context's control thread does not run, as where real-time
 * threads take its processors: handles can be closed, and other calls time out.
 * The thread is held in libevent's wait, or as it adds or removes an event.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "flow_help.h"

/* For calls that can't succeed. */
#define TIMEOUT_MS 100

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool held, ended, too_late, stopped;
static unsigned turns; /* that the thread has left before it is held */
static bool in_work;   /* an event that it adds or removes counts as a turn */
static pthread_t watchdog;

static char directory[] = "/tmp/dfi-test-XXXXXX";
static char key[64];

static void wait_if_held(void)
{
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	if (strcmp(name, "dfi-control") != 0)
		return;
	pthread_mutex_lock(&lock);
	if (turns)
		turns--;
	stopped = stopped || (held && !turns);
	while (held && !turns)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void *next_symbol(const char *name, _Atomic(void *) *found)
{
	void *symbol = atomic_load(found);

	if (!symbol) {
		symbol = dlsym(RTLD_NEXT, name);
		atomic_store(found, symbol);
	}
	return symbol;
}

/* In place of the C library's, which libevent calls. */
int epoll_ctl(int fd, int op, int of, struct epoll_event *event)
{
	static _Atomic(void *) found;
	int (*control)(int, int, int, struct epoll_event *);
	void *symbol = next_symbol("epoll_ctl", &found);
	int ret;

	memcpy(&control, &symbol, sizeof(control));
	ret = control(fd, op, of, event);
	if (in_work)
		wait_if_held();
	return ret;
}

int epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
	static _Atomic(void *) found;
	int (*wait)(int, struct epoll_event *, int, int);
	void *symbol = next_symbol("epoll_wait", &found);
	int ret;

	memcpy(&wait, &symbol, sizeof(wait));
	ret = wait(fd, events, n, timeout);
	wait_if_held();
	return ret;
}

static void resume_locked(void)
{
	held = false;
	pthread_cond_broadcast(&changed);
}

/* A call that waits for the thread gets it in the end, so nothing hangs. */
static void *watch(void *arg)
{
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LONG_MS / 1000;
	pthread_mutex_lock(&lock);
	while (!ended && !err)
		err = pthread_cond_timedwait(&changed, &lock, &until);
	too_late = !ended;
	resume_locked();
	pthread_mutex_unlock(&lock);
	return arg;
}

/* Control threads stop working after this many turns of their loops. */
static void hold_after(unsigned n)
{
	pthread_mutex_lock(&lock);
	held = true;
	turns = n;
	ended = too_late = stopped = false;
	pthread_mutex_unlock(&lock);
	cr_assert_eq(pthread_create(&watchdog, NULL, watch, NULL), 0);
}

static void hold(void)
{
	hold_after(0);
}

static void resume(void)
{
	pthread_mutex_lock(&lock);
	ended = true;
	resume_locked();
	pthread_mutex_unlock(&lock);
	pthread_join(watchdog, NULL);
	cr_assert_not(too_late, "a call has waited for the control thread");
}

static void setup(void)
{
	cr_assert_not_null(mkdtemp(directory));
	snprintf(key, sizeof(key), "%s/key", directory);
	cr_assert_eq(dfi_registry_key_create(key), 0, "%s", dfi_errmsg());
	unsetenv("DFI_REGISTRY_KEY");
}

static void teardown(void)
{
	unlink(key);
	rmdir(directory);
}

TestSuite(stopped, .init = setup, .fini = teardown, .timeout = 300);

/* Over TLS, or else at a Unix socket. */
static void start(bool tls, struct dfi_registry **registry)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;

	if (tls) {
		need_tls();
		attr.listen = "tcp:127.0.0.1:0";
		attr.key = key;
	}
	cr_assert_eq(
	    dfi_registry_start(&attr, registry), 0, "%s", dfi_errmsg());
}

static int join(const struct dfi_registry *registry, bool tls,
    uint32_t timeout_ms, struct dfi **dfi)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	attr.registry = dfi_registry_address(registry);
	attr.registry_key = tls ? key : NULL;
	attr.open_timeout_ms = timeout_ms;
	return dfi_open(&attr, dfi);
}

/* One of each kind of handle. */
struct handles {
	struct dfi_source *source;
	struct dfi_target *target, *member;
	struct dfi_target_group *group;
	struct dfi_barrier *barrier;
	struct dfi_sequencer *sequencer;
};

/* The source lingers; of the second flow no source ever comes. */
static void open_all(struct dfi *dfi, struct handles *handles)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct kv kv = { 1, 2 };

	create_kv_flow(dfi, "f", 1, 1, 4, 4);
	create_kv_flow(dfi, "g", 1, 1, 4, 4);
	handles->target = open_target(dfi, "f", 0, DFI_NONBLOCK);
	handles->member = open_target(dfi, "g", 0, DFI_NONBLOCK);
	attr.linger_us = 100;
	cr_assert_eq(dfi_source_open(dfi, "f", 0, &attr, &handles->source), 0,
	    "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_push(handles->source, &kv), 0);
	cr_assert_eq(dfi_target_group_open(dfi, NULL, &handles->group), 0);
	cr_assert_eq(
	    dfi_target_group_add(handles->group, handles->member, NULL), 0);
	cr_assert_eq(dfi_barrier_open(dfi, "b", 2, 0, &handles->barrier), 0,
	    "%s", dfi_errmsg());
	cr_assert_eq(dfi_sequencer_create(dfi, "s", 1, &handles->sequencer), 0,
	    "%s", dfi_errmsg());
}

static void close_all(const struct handles *handles)
{
	const void *tuple;

	cr_assert_eq(dfi_source_close(handles->source), 0, "%s", dfi_errmsg());
	cr_assert_eq(consume_soon(handles->target, &tuple), 1);
	cr_assert_eq(consume_soon(handles->target, &tuple), 0);
	cr_assert_eq(dfi_target_close(handles->target), 0, "%s", dfi_errmsg());
	dfi_target_abort(handles->member);
	assert_error(dfi_target_close(handles->member), -ECANCELED, "flow 'g'");
	cr_assert_eq(dfi_target_group_close(handles->group), 0);
	cr_assert_eq(dfi_barrier_close(handles->barrier), 0);
	cr_assert_eq(dfi_sequencer_close(handles->sequencer), 0);
}

/* Whether others learn of it when the thread runs again. */
static bool all_is_free(void *arg)
{
	struct dfi_sequencer *sequencer;
	struct dfi_barrier *barrier;

	if (dfi_sequencer_create(arg, "s", 1, &sequencer) < 0)
		return false;
	cr_assert_eq(dfi_sequencer_close(sequencer), 0);
	if (dfi_barrier_open(arg, "b", 2, 0, &barrier) < 0)
		return false;
	cr_assert_eq(dfi_barrier_close(barrier), 0);
	return dfi_flow_remove(arg, "f") == 0;
}

static void close_while_held(bool tls)
{
	struct dfi_registry *registry;
	struct dfi *dfi, *other;
	struct handles handles;

	start(tls, &registry);
	cr_assert_eq(join(registry, tls, LONG_MS, &dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(
	    join(registry, tls, LONG_MS, &other), 0, "%s", dfi_errmsg());
	open_all(dfi, &handles);
	hold();
	close_all(&handles);
	resume();
	cr_assert(eventually(all_is_free, other), "%s", dfi_errmsg());
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_close(other), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

Test(stopped, handles_close_while_the_control_thread_does_not_run)
{
	close_while_held(false);
}

Test(stopped, handles_close_likewise_where_the_registry_has_tls)
{
	close_while_held(true);
}

static bool is_cut_off(void *arg)
{
	struct dfi_flow_info info;

	return dfi_flow_lookup(arg, "f", &info) == -ENOTCONN;
}

Test(stopped, handles_close_likewise_while_the_registry_is_lost)
{
	struct dfi_registry *registry;
	struct handles handles;
	struct dfi *dfi;

	start(false, &registry);
	cr_assert_eq(
	    join(registry, false, LONG_MS, &dfi), 0, "%s", dfi_errmsg());
	open_all(dfi, &handles);
	cr_assert_eq(dfi_registry_stop(registry), 0);
	cr_assert(eventually(is_cut_off, dfi), "%s", dfi_errmsg());
	hold();
	close_all(&handles);
	resume();
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
}

/* Calls that ask the registry. */
static void ask_in_vain(struct dfi *dfi)
{
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_sequencer *sequencer;
	struct dfi_barrier *barrier;
	struct dfi_source *source;
	struct dfi_target *target;

	flow.kind = DFI_SHUFFLE;
	flow.schema = &kv_schema;
	flow.n_sources = flow.n_targets = 1;
	assert_error(dfi_flow_create(dfi, "h", &flow), -ETIMEDOUT, "registry");
	assert_error(dfi_flow_remove(dfi, "f"), -ETIMEDOUT, "registry");
	assert_error(dfi_target_open(dfi, "f", 0, NULL, &target), -ETIMEDOUT,
	    "registry");
	assert_error(dfi_source_open(dfi, "f", 0, NULL, &source), -ETIMEDOUT,
	    "registry");
	assert_error(
	    dfi_barrier_open(dfi, "b", 2, 0, &barrier), -ETIMEDOUT, "registry");
	assert_error(dfi_sequencer_create(dfi, "s", 1, &sequencer), -ETIMEDOUT,
	    "registry");
	assert_error(dfi_sequencer_open(dfi, "s", 0, &sequencer), -ETIMEDOUT,
	    "registry");
}

static bool closes(void *arg)
{
	return dfi_close(arg) == 0;
}

/* More than the time after which the thread is known to be stuck. */
#define STUCK_MS 3000

Test(stopped, a_time_out_says_that_the_control_thread_does_not_run)
{
	struct dfi_registry *registry;
	struct dfi_flow_info info;
	struct dfi *dfi;

	start(false, &registry);
	cr_assert_eq(
	    join(registry, false, STUCK_MS, &dfi), 0, "%s", dfi_errmsg());
	hold();
	assert_error(dfi_flow_lookup(dfi, "f", &info), -ETIMEDOUT,
	    "thread 'dfi-control'", "DFI_CONTROL_CPUS");
	resume();
	cr_assert(eventually(closes, dfi), "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

static bool opens(void *arg)
{
	return join(((void **)arg)[0], ((void **)arg)[2], TIMEOUT_MS,
		   (struct dfi **)arg + 1) == 0;
}

/* The context stays when it can't be closed. */
static void ask_while_held(bool tls)
{
	struct dfi_registry *registry;
	struct dfi *patient, *dfi;
	void *opening[3];

	start(tls, &registry);
	cr_assert_eq(
	    join(registry, tls, LONG_MS, &patient), 0, "%s", dfi_errmsg());
	create_kv_flow(patient, "f", 1, 1, 4, 4);
	opening[0] = registry;
	opening[2] = tls ? registry : NULL;
	cr_assert(eventually(opens, opening), "%s", dfi_errmsg());
	dfi = opening[1];
	hold();
	ask_in_vain(dfi);
	assert_error(dfi_close(dfi), -ETIMEDOUT, "thread 'dfi-control'",
	    "DFI_CONTROL_CPUS");
	resume();
	cr_assert(eventually(closes, dfi), "%s", dfi_errmsg());
	cr_assert_eq(dfi_close(patient), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

Test(stopped, calls_that_ask_the_registry_end_in_time)
{
	ask_while_held(false);
}

Test(stopped, calls_that_ask_a_registry_with_tls_end_in_time)
{
	ask_while_held(true);
}

Test(stopped, a_context_opens_in_time_or_not_at_all)
{
	struct dfi_registry *registry;
	struct dfi *dfi;

	start(false, &registry);
	hold();
	assert_error(join(registry, false, TIMEOUT_MS, &dfi), -ETIMEDOUT,
	    "thread 'dfi-control'", "DFI_CONTROL_CPUS");
	resume();
	cr_assert_eq(
	    join(registry, false, LONG_MS, &dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

/* More turns than a context takes to open. */
#define MAX_TURNS 24

/* The thread frees opened resources when it runs again. */
static void open_in_time(bool tls)
{
	struct dfi_registry *registry;
	struct dfi *dfi = NULL;
	unsigned n;
	int ret;

	start(tls, &registry);
	for (n = 1; n < MAX_TURNS && !dfi; n++) {
		hold_after(n);
		ret = join(registry, tls, TIMEOUT_MS, &dfi);
		resume();
		cr_assert(!ret || (ret == -ETIMEDOUT && !dfi), "%u turns: %s",
		    n, dfi_errmsg());
	}
	cr_assert_gt(n, 2);
	cr_assert_not_null(dfi);
	cr_assert(eventually(closes, dfi), "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

Test(stopped, a_context_opens_in_time_wherever_its_thread_stops)
{
	open_in_time(false);
}

Test(stopped, a_context_opens_in_time_likewise_where_the_registry_has_tls)
{
	open_in_time(true);
}

/* ---- Closing a context ----------------------------------------------------
 */

static bool no_control_thread_is_left(void *arg)
{
	DIR *tasks = opendir("/proc/self/task");
	char path[300], name[32];
	struct dirent *task;
	bool left = false;
	FILE *file;

	(void)arg;
	cr_assert_not_null(tasks);
	while ((task = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
		    task->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fgets(name, sizeof(name), file))
			left |= strcmp(name, "dfi-control\n") == 0;
		fclose(file);
	}
	closedir(tasks);
	return !left;
}

/*
 * Close a context whose thread stops after n turns. 0: it was closed, and
 * *handed_over tells whether the thread stopped meanwhile.
 */
static int close_after(
    unsigned n, struct dfi_registry *registry, bool tls, bool *handed_over)
{
	void *opening[3] = { registry, NULL, tls ? registry : NULL };
	struct dfi *dfi;
	int ret;

	cr_assert(eventually(opens, opening), "%s", dfi_errmsg());
	dfi = opening[1];
	hold_after(n);
	ret = dfi_close(dfi);
	pthread_mutex_lock(&lock);
	*handed_over = stopped;
	pthread_mutex_unlock(&lock);
	resume();
	if (ret)
		cr_assert(eventually(closes, dfi), "%s", dfi_errmsg());
	cr_assert(eventually(no_control_thread_is_left, NULL));
	return ret;
}

/*
 * Whatever the thread was doing, it frees the context when it runs again. Every
 * step-th turn is tried.
 */
static void close_in_time(bool tls, unsigned step)
{
	unsigned n, n_closed = 0, n_handed_over = 0;
	struct dfi_registry *registry;
	bool handed_over = true;
	int ret;

	start(tls, &registry);
	in_work = true;
	for (n = 1; handed_over; n += step) {
		ret = close_after(n, registry, tls, &handed_over);
		cr_assert(
		    !ret || ret == -ETIMEDOUT, "%u turns: %s", n, dfi_errmsg());
		n_closed += !ret;
		n_handed_over += !ret && handed_over;
	}
	in_work = false;
	cr_assert_gt(n_handed_over, 1);
	cr_assert_eq(n_closed, n_handed_over + 1);
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

Test(stopped, a_context_closes_in_time_wherever_its_thread_stops)
{
	close_in_time(false, 1);
}

Test(stopped, a_context_closes_in_time_likewise_where_the_registry_has_tls)
{
	close_in_time(true, 3);
}

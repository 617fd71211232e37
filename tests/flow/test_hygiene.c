/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library leaves these things of its process alone: signals, threads,
 * forked children, and other contexts. In debug builds it also reports two
 * threads that use a handle at once.
 */
#include <criterion/criterion.h>
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "flow_help.h"

#define MAX_THREADS 64
#define N_SIGNALS 64

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(hygiene, .timeout = 300);
TestSuite(sharing, .init = setup, .fini = teardown, .timeout = 300);

/* Send n tuples through a flow of its own. */
static void use_flow(struct dfi *dfi, const char *name, uint64_t n)
{
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	struct kv kv;

	create_kv_flow(dfi, name, 1, 1, 8, 4);
	target = open_target(dfi, name, 0, DFI_NONBLOCK);
	source = open_source(dfi, name, 0, 0);
	for (kv.key = kv.val = 0; kv.key < n; kv.val = ++kv.key) {
		cr_assert_eq(dfi_source_push(source, &kv), 0);
		cr_assert_eq(dfi_source_flush(source), 0);
		cr_assert_eq(consume_soon(target, &tuple), 1);
		cr_assert_eq(((const struct kv *)tuple)->val, kv.val);
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(consume_soon(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(dfi_flow_remove(dfi, name), 0);
}

/* ---- Threads ------------------------------------------------------------- */

/* The numbers of this process's threads. */
static unsigned list_threads(int *tids)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	unsigned n = 0;

	cr_assert_not_null(dir);
	while ((entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]) && n < MAX_THREADS)
			tids[n++] = atoi(entry->d_name);
	closedir(dir);
	return n;
}

/* The rest of the line of /proc/self/task/TID/FILE that begins with key. */
static void read_line(
    int tid, const char *file, const char *key, char *line, int size)
{
	char path[64];
	FILE *stream;
	size_t length = strlen(key);

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid, file);
	stream = fopen(path, "re");
	cr_assert_not_null(stream, "%s", path);
	do
		cr_assert_not_null(
		    fgets(line, size, stream), "%s: no %s", path, key);
	while (strncmp(line, key, length) != 0);
	fclose(stream);
	memmove(line, line + length, strlen(line + length) + 1);
	line[strcspn(line, "\n")] = '\0';
}

static bool is_among(int tid, const int *tids, unsigned n)
{
	unsigned i;

	for (i = 0; i < n; i++)
		if (tids[i] == tid)
			return true;
	return false;
}

/* All but SIGKILL and SIGSTOP, and two of the C library's own. */
static uint64_t all_signals(void)
{
	return ~(UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1) |
	    UINT64_C(1) << (32 - 1) | UINT64_C(1) << (33 - 1));
}

/* A thread that was joined may still be listed for a moment. */
static bool threads_are(void *arg)
{
	int tids[MAX_THREADS];

	return list_threads(tids) == *(unsigned *)arg;
}

Test(hygiene, threads_are_named_and_take_no_signals)
{
	int before[MAX_THREADS], after[MAX_THREADS];
	unsigned n_before, n_after, i, n_controls = 0, n_registries = 0;
	char line[256];

	n_before = list_threads(before);
	rig_start(&rig);
	use_flow(rig.dfi, "f", 100);
	n_after = list_threads(after);
	for (i = 0; i < n_after; i++) {
		if (is_among(after[i], before, n_before))
			continue;
		read_line(after[i], "comm", "", line, sizeof(line));
		n_controls += !strcmp(line, "dfi-control");
		n_registries += !strcmp(line, "dfi-registry");
		cr_assert_eq(strncmp(line, "dfi-", 4), 0, "thread '%s'", line);
		read_line(after[i], "status", "SigBlk:", line, sizeof(line));
		cr_assert_eq(strtoull(line, NULL, 16) & all_signals(),
		    all_signals(), "signals %s are blocked", line);
	}
	cr_assert_eq(n_controls, 2);
	cr_assert_eq(n_registries, 1);
	rig_stop(&rig);
	cr_assert(eventually(threads_are, &n_before));
}

/* How often threads of this name have slept. */
static unsigned long sleeps_of(const char *name)
{
	int tids[MAX_THREADS];
	unsigned long n = 0;
	char line[256];
	unsigned i, n_tids = list_threads(tids);

	for (i = 0; i < n_tids; i++) {
		read_line(tids[i], "comm", "", line, sizeof(line));
		if (strcmp(line, name) != 0)
			continue;
		read_line(tids[i], "status", "voluntary_ctxt_switches:", line,
		    sizeof(line));
		n += strtoul(line, NULL, 10);
	}
	return n;
}

/*
 * Polling endpoints take arrivals themselves: mostly credits, for which the
 * source of a stream hardly ever waits.
 */
Test(hygiene, control_threads_sleep_while_nobody_else_does)
{
	enum {
		SEGMENTS = 2000,
		SEGMENT_TUPLES = 8,
		BEHIND = 4,
		PERIODIC = 8 /* a second, of both contexts */
	};
	struct dfi_transport_stats stats;
	struct dfi_source *source;
	struct dfi_target *target;
	struct kv kv = { 1, 2 };
	const void *tuple;
	unsigned long woken;
	int64_t ms;
	int i;

	if (!getenv("DFI_TEST_DEVICE"))
		cr_skip_test("no DFI_TEST_DEVICE");
	setenv("DFI_TRANSPORT", "verbs", true);
	rig_start(&rig);
	create_kv_flow(rig.dfi, "f", 1, 1, SEGMENT_TUPLES, 2 * BEHIND);
	target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	woken = sleeps_of("dfi-control");
	ms = now_ms();
	for (i = 0; i < SEGMENTS * SEGMENT_TUPLES; i++) {
		cr_assert_eq(dfi_source_push(source, &kv), 0);
		if (i >= BEHIND * SEGMENT_TUPLES)
			cr_assert_eq(consume_soon(target, &tuple), 1);
	}
	woken = sleeps_of("dfi-control") - woken;
	ms = now_ms() - ms;
	stats = device_stats(rig.other);
	cr_assert_geq(stats.credits, SEGMENTS / 2 - BEHIND);
	/* They check connections and leases now and then. */
	cr_assert_leq(woken,
	    stats.credits / 32 + PERIODIC * (1 + (unsigned long)ms / 1000),
	    "%lu times for %lu credits in %ld ms", woken,
	    (unsigned long)stats.credits, (long)ms);
	cr_assert_eq(dfi_source_close(source), 0);
	for (i = 0; i < BEHIND * SEGMENT_TUPLES; i++)
		cr_assert_eq(consume_soon(target, &tuple), 1);
	cr_assert_eq(dfi_target_close(target), 0);
	rig_stop(&rig);
}

/* TLS as well, as its libraries may use signals. */
Test(hygiene, no_signal_handler_or_mask_is_changed)
{
	/* The C library hides its own signals. */
	struct sigaction before[N_SIGNALS + 1] = { { .sa_flags = 0 } };
	struct sigaction after[N_SIGNALS + 1] = { { .sa_flags = 0 } };
	struct dfi_registry_attr registry_attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_attr attr = DFI_ATTR_INIT;
	char key[] = "/tmp/dfi-hygiene-XXXXXX";
	struct dfi_registry *registry;
	sigset_t mask, now;
	struct dfi *dfi;
	int i;

	need_tls();
	cr_assert_geq(mkstemp(key), 0);
	unlink(key);
	cr_assert_eq(dfi_registry_key_create(key), 0, "%s", dfi_errmsg());
	for (i = 1; i <= N_SIGNALS; i++)
		sigaction(i, NULL, &before[i]);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	registry_attr.listen = "tcp:127.0.0.1:0";
	registry_attr.key = attr.registry_key = key;
	cr_assert_eq(dfi_registry_start(&registry_attr, &registry), 0, "%s",
	    dfi_errmsg());
	attr.registry = dfi_registry_address(registry);
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	use_flow(dfi, "f", 100);
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	for (i = 1; i <= N_SIGNALS; i++) {
		cr_assert_eq(sigismember(&now, i), sigismember(&mask, i));
		sigaction(i, NULL, &after[i]);
		cr_assert_eq(after[i].sa_handler, before[i].sa_handler,
		    "the handler of signal %d", i);
	}
	cr_assert_eq(dfi_close(dfi), 0);
	cr_assert_eq(dfi_registry_stop(registry), 0);
	unlink(key);
}

/* ---- Two contexts ----------------------------------------------------------
 */

Test(hygiene, contexts_of_two_registries_do_not_meet)
{
	struct rig rigs[2];
	struct dfi_flow_info info;

	rig_start(&rigs[0]);
	rig_start(&rigs[1]);
	create_kv_flow(rigs[0].dfi, "only", 1, 1, 4, 4);
	cr_assert_eq(dfi_flow_lookup(rigs[1].dfi, "only", &info), -ENOENT);
	use_flow(rigs[0].dfi, "f", 100);
	use_flow(rigs[1].dfi, "f", 100);
	rig_stop(&rigs[0]);
	use_flow(rigs[1].dfi, "f", 100);
	rig_stop(&rigs[1]);
}

/* One closes while the other moves tuples. */
Test(sharing, of_a_process_leaves_other_contexts_alone)
{
	struct dfi *short_lived;
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	struct kv kv = { 1, 1 };
	int i;

	create_kv_flow(rig.dfi, "long", 1, 1, 4, 4);
	target = open_target(rig.dfi, "long", 0, DFI_NONBLOCK);
	source = open_source(rig.other, "long", 0, 0);
	for (i = 0; i < 10; i++) {
		short_lived = rig_join(&rig);
		use_flow(short_lived, "short", 10);
		cr_assert_eq(dfi_close(short_lived), 0);
		cr_assert_eq(dfi_source_push(source, &kv), 0);
		cr_assert_eq(dfi_source_flush(source), 0);
		cr_assert_eq(consume_soon(target, &tuple), 1);
	}
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(consume_soon(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

/* ---- Forks under traffic ---------------------------------------------------
 */

#define N_FORKS 20

struct traffic {
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_target_group *group; /* of it, or NULL */
	struct dfi_barrier *barriers[2];
	struct dfi_sequencer *sequencer;
	_Atomic bool stop;
	uint64_t sent, received;
	int source_ret, target_ret, barrier_ret;
};

static void *send_on(void *arg)
{
	struct traffic *traffic = arg;
	struct kv kv = { 0, 0 };
	int ret = 0;

	/* The numbers are nobody else's. */
	while (!ret && !traffic->stop) {
		ret = dfi_sequencer_next(traffic->sequencer, 1, &kv.val);
		if (!ret)
			ret = dfi_source_push(traffic->source, &kv);
		traffic->sent += !ret;
	}
	traffic->source_ret = dfi_source_close(traffic->source);
	return NULL;
}

static void receive(struct traffic *traffic, const void *tuples, int n)
{
	const struct kv *kv = tuples;

	for (; n > 0; n--, kv++)
		if (kv->val == traffic->received)
			traffic->received++;
}

static void *receive_on(void *arg)
{
	struct traffic *traffic = arg;
	struct dfi_target_group_batch batch = { .target = NULL };
	const void *tuple = NULL;
	int ret;

	do {
		if (!traffic->group) {
			ret = dfi_target_consume(traffic->target, &tuple);
			receive(traffic, tuple, ret);
			continue;
		}
		ret = dfi_target_group_consume_batch(traffic->group, &batch);
		receive(traffic, batch.batch.tuples, ret);
		if (ret > 0)
			dfi_target_group_release(traffic->group, &batch);
	} while (ret > 0);
	traffic->target_ret = ret;
	return NULL;
}

static void *meet(void *arg)
{
	struct traffic *traffic = arg;

	traffic->barrier_ret = dfi_barrier_wait(traffic->barriers[0], LONG_MS);
	return NULL;
}

/* A child's errors for handles that other threads of its parent use. */
static int try_in_child(struct traffic *traffic)
{
	struct dfi_target_group_batch batch;
	struct dfi_barrier *barrier;
	struct dfi_flow_info info;
	struct kv kv = { 0, 0 };
	uint64_t number;
	const void *tuple;
	const int results[] = {
		dfi_source_push(traffic->source, &kv),
		dfi_source_flush(traffic->source),
		dfi_target_consume(traffic->target, &tuple),
		dfi_target_cancel(traffic->target),
		dfi_barrier_wait(traffic->barriers[0], 1),
		dfi_barrier_wait(traffic->barriers[1], 1),
		dfi_sequencer_next(traffic->sequencer, 1, &number),
		dfi_flow_lookup(rig.dfi, "f", &info),
		dfi_barrier_open(rig.dfi, "b", 2, 1, &barrier),
		dfi_barrier_close(traffic->barriers[0]),
		dfi_barrier_close(traffic->barriers[1]),
		dfi_sequencer_close(traffic->sequencer),
		dfi_source_close(traffic->source),
		dfi_target_close(traffic->target),
		dfi_close(rig.dfi),
	};
	/* A target in no group has no group to ask. */
	const int group_results[] = {
		dfi_target_group_consume_batch(traffic->group, &batch),
		dfi_target_group_fd(traffic->group),
		dfi_target_group_add(traffic->group, traffic->target, NULL),
		dfi_target_group_remove(traffic->group, traffic->target),
		dfi_target_group_close(traffic->group),
	};
	size_t i;

	/* For these, the parent would see an effect. */
	dfi_source_abort(traffic->source);
	dfi_target_abort(traffic->target);
	for (i = 0; i < N_ELEMENTS(results); i++)
		if (results[i] != -EOWNERDEAD)
			return (int)i + 1;
	for (i = 0; traffic->group && i < N_ELEMENTS(group_results); i++)
		if (group_results[i] != -EOWNERDEAD)
			return (int)i + 101;
	return 0;
}

static void open_traffic(struct traffic *traffic, bool grouped)
{
	uint32_t i;

	create_kv_flow(rig.dfi, "f", 1, 1, 8, 4);
	traffic->target = open_target(rig.dfi, "f", 0, 0);
	traffic->source = open_source(rig.other, "f", 0, 0);
	for (i = 0; i < 2; i++)
		cr_assert_eq(
		    dfi_barrier_open(rig.dfi, "b", 2, i, &traffic->barriers[i]),
		    0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_sequencer_create(rig.dfi, "s", 0, &traffic->sequencer),
	    0, "%s", dfi_errmsg());
	if (!grouped)
		return;
	cr_assert_eq(dfi_target_group_open(rig.dfi, NULL, &traffic->group), 0);
	cr_assert_eq(
	    dfi_target_group_add(traffic->group, traffic->target, NULL), 0);
}

static void close_traffic(struct traffic *traffic)
{
	if (traffic->group)
		cr_assert_eq(dfi_target_group_close(traffic->group), 0);
	cr_assert_eq(dfi_barrier_close(traffic->barriers[0]), 0);
	cr_assert_eq(dfi_barrier_close(traffic->barriers[1]), 0);
	cr_assert_eq(dfi_sequencer_close(traffic->sequencer), 0);
	cr_assert_eq(dfi_target_close(traffic->target), 0);
}

static void fork_under_traffic(bool grouped)
{
	struct traffic traffic = { .stop = false };
	pthread_t sender, receiver, member;
	int i, status;
	pid_t pid;

	open_traffic(&traffic, grouped);
	pthread_create(&sender, NULL, send_on, &traffic);
	pthread_create(&receiver, NULL, receive_on, &traffic);
	pthread_create(&member, NULL, meet, &traffic);
	for (i = 0; i < N_FORKS; i++) {
		pid = fork();
		if (!pid)
			_exit(try_in_child(&traffic));
		cr_assert_gt(pid, 0);
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		    "child %d: status %#x", i, status);
	}
	cr_assert_eq(dfi_barrier_wait(traffic.barriers[1], LONG_MS), 0, "%s",
	    dfi_errmsg());
	traffic.stop = true;
	pthread_join(sender, NULL);
	pthread_join(receiver, NULL);
	pthread_join(member, NULL);
	cr_assert_eq(traffic.source_ret, 0);
	cr_assert_eq(traffic.target_ret, 0);
	cr_assert_eq(traffic.barrier_ret, 0);
	cr_assert_eq(traffic.received, traffic.sent);
	close_traffic(&traffic);
}

Test(sharing, of_handles_with_forked_children_under_traffic_harms_nobody)
{
	fork_under_traffic(false);
}

Test(sharing, of_a_group_with_forked_children_under_traffic_harms_nobody)
{
	fork_under_traffic(true);
}

/* How many descriptors of this process are of rings. */
static int count_regions(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	char target[64];
	ssize_t length;
	int n = 0;

	while (dir && (entry = readdir(dir))) {
		length = readlinkat(
		    dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		n += strstr(target, "memfd:dfi-region") != NULL;
	}
	closedir(dir);
	return n;
}

/* The parent's targets unmap their memory, however long the child lives. */
Test(sharing, of_rings_with_a_forked_child_does_not_keep_their_memory)
{
	struct dfi_target *target;
	int status, before = count_regions();
	pid_t pid;

	create_kv_flow(rig.dfi, "f", 1, 1, 8, 4);
	target = open_target(rig.dfi, "f", 0, 0);
	cr_assert_eq(count_regions(), before + 1);
	pid = fork();
	if (!pid)
		_exit(count_regions());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0);
	cr_assert_eq(count_regions(), before + 1);
	cr_assert_eq(dfi_target_close(target), 0);
}

/* ---- Forks of a process that has a registry ---------------------------- */

/* A process with a registry, which forks a child on request. */
static void serve_and_fork(int from, int to)
{
	char address[108] = "";
	struct dfi_registry *registry;
	pid_t child;
	char word;

	if (dfi_registry_start(NULL, &registry))
		_exit(1);
	snprintf(
	    address, sizeof(address), "%s", dfi_registry_address(registry));
	if (write(to, address, sizeof(address)) < 0 || read(from, &word, 1) < 1)
		_exit(2);
	child = fork();
	alarm(LONG_MS / 1000);
	if (child && write(to, &child, sizeof(child)) < 0)
		_exit(3);
	for (;;)
		pause();
}

Test(hygiene, of_a_registry_whose_death_is_not_hidden_by_a_forked_child)
{
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_attr attr = DFI_ATTR_INIT;
	int order[2], answer[2], status, create_ret, open_ret;
	struct dfi *dfi, *late;
	pid_t server, child;
	char address[108];

	cr_assert_eq(pipe(order) || pipe(answer), 0);
	server = fork();
	if (!server)
		serve_and_fork(order[0], answer[1]);
	cr_assert_eq(
	    read(answer[0], address, sizeof(address)), sizeof(address));
	attr.registry = address;
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(write(order[1], "", 1), 1);
	cr_assert_eq(read(answer[0], &child, sizeof(child)), sizeof(child));

	kill(server, SIGKILL);
	cr_assert_eq(waitpid(server, &status, 0), server);
	flow.kind = DFI_SHUFFLE;
	flow.schema = &kv_schema;
	flow.n_sources = flow.n_targets = 1;
	/* It has no answer for old clients, nor for new ones. */
	create_ret = dfi_flow_create(dfi, "f", &flow);
	open_ret = dfi_open(&attr, &late);
	kill(child, SIGKILL);
	cr_assert_eq(create_ret, -ENOTCONN);
	cr_assert_eq(open_ret, -ECONNREFUSED);
	cr_assert_eq(dfi_close(dfi), 0);
}

/* ---- Forks within lines of the log ------------------------------------- */

static sem_t line_begun, line_may_end;

static void hold_line(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
	sem_post(&line_begun);
	sem_wait(&line_may_end);
}

static void *log_line(void *arg)
{
	struct dfi_registry *registry;

	if (dfi_registry_start(NULL, &registry))
		return arg;
	dfi_registry_stop(registry);
	return NULL;
}

/* In a child, which is killed if it hangs: a context of its own, and a flow. */
static int live_in_child(const char *registry)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_source *source;
	struct dfi_target *target;
	struct kv kv = { 1, 1 };
	const void *tuple;
	struct dfi *dfi;

	alarm(LONG_MS / 1000);
	dfi_log_set(DFI_LOG_DEBUG, NULL, NULL);
	attr.registry = registry;
	flow.kind = DFI_SHUFFLE;
	flow.schema = &kv_schema;
	flow.n_sources = flow.n_targets = 1;
	if (dfi_open(&attr, &dfi) || dfi_flow_create(dfi, "child", &flow) ||
	    dfi_target_open(dfi, "child", 0, NULL, &target) ||
	    dfi_source_open(dfi, "child", 0, NULL, &source))
		return 1;
	if (dfi_source_push(source, &kv) || dfi_source_close(source) ||
	    dfi_target_consume(target, &tuple) != 1 ||
	    dfi_target_consume(target, &tuple) != 0)
		return 2;
	if (dfi_target_close(target) || dfi_close(dfi))
		return 3;
	return 0;
}

Test(sharing, of_the_log_with_a_child_forked_within_a_line_harms_nobody)
{
	pthread_t thread;
	void *failed;
	int status;
	pid_t pid;

	sem_init(&line_begun, 0, 0);
	sem_init(&line_may_end, 0, 0);
	dfi_log_set(DFI_LOG_INFO, hold_line, NULL);
	pthread_create(&thread, NULL, log_line, &rig);
	sem_wait(&line_begun);
	pid = fork();
	if (!pid)
		_exit(live_in_child(dfi_registry_address(rig.registry)));
	cr_assert_gt(pid, 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	sem_post(&line_may_end);
	pthread_join(thread, &failed);
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
	cr_assert_null(failed);
	cr_assert_eq(status, 0, "the child's status: %#x", status);
}

static void fork_in_line(void *arg, enum dfi_log_level level, const char *line)
{
	int *status = arg;
	pid_t pid = fork();

	(void)level;
	(void)line;
	if (!pid)
		_exit(EXIT_SUCCESS);
	if (pid < 0 || waitpid(pid, status, 0) != pid)
		*status = -1;
}

Test(sharing, of_the_log_with_a_child_of_its_callback_harms_nobody)
{
	int status = -1;

	dfi_log_set(DFI_LOG_INFO, fork_in_line, &status);
	cr_assert_null(log_line(&rig));
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
	cr_assert_eq(status, 0, "the child's status: %#x", status);
}

/* ---- Threads that are cancelled --------------------------------------------
 */

struct cancelled {
	struct dfi *dfi;
	struct dfi_barrier *barrier;
	struct dfi_combiner *combiner;
	sem_t begins;
	_Atomic int ret;
};

static void *query_for_ever(void *arg)
{
	struct cancelled *cancelled = arg;
	struct dfi_flow_info info;

	sem_post(&cancelled->begins);
	for (;;)
		dfi_flow_lookup(cancelled->dfi, "nobody's", &info);
	return NULL;
}

static void *wait_and_say(void *arg)
{
	struct cancelled *cancelled = arg;

	sem_post(&cancelled->begins);
	cancelled->ret = dfi_barrier_wait(cancelled->barrier, 1000);
	pthread_testcancel();
	return NULL;
}

static void *run_and_say(void *arg)
{
	struct cancelled *cancelled = arg;

	sem_post(&cancelled->begins);
	cancelled->ret = dfi_combiner_run(cancelled->combiner);
	pthread_testcancel();
	return NULL;
}

static pthread_t begin(struct cancelled *cancelled, void *(*run)(void *arg))
{
	pthread_t thread;

	sem_init(&cancelled->begins, 0, 0);
	cr_assert_eq(pthread_create(&thread, NULL, run, cancelled), 0);
	sem_wait(&cancelled->begins);
	return thread;
}

static void cancel(pthread_t thread)
{
	void *ended;

	pthread_cancel(thread);
	pthread_join(thread, &ended);
	cr_assert_eq(ended, PTHREAD_CANCELED);
}

Test(sharing, of_a_context_with_threads_that_are_cancelled_harms_nobody)
{
	struct cancelled cancelled = { .dfi = rig.dfi };
	int i;

	for (i = 0; i < 20; i++)
		cancel(begin(&cancelled, query_for_ever));
	use_flow(rig.dfi, "after", 100);
}

static bool is_inside(void *arg)
{
	char line[64];
	int tids[MAX_THREADS];
	unsigned i, n = list_threads(tids);

	(void)arg;
	for (i = 0; i < n; i++) {
		read_line(tids[i], "comm", "", line, sizeof(line));
		if (strcmp(line, "waiter") != 0)
			continue;
		read_line(tids[i], "status", "State:", line, sizeof(line));
		return strchr(line, 'S') != NULL;
	}
	return false;
}

/* Once it sleeps, it is within the call: before that, it is cancelled early. */
Test(sharing, of_a_barrier_with_a_thread_that_is_cancelled_keeps_the_deadline)
{
	struct cancelled cancelled = { .dfi = rig.dfi, .ret = 1 };
	pthread_t thread;

	cr_assert_eq(dfi_barrier_open(rig.dfi, "b", 2, 0, &cancelled.barrier),
	    0, "%s", dfi_errmsg());
	thread = begin(&cancelled, wait_and_say);
	pthread_setname_np(thread, "waiter");
	cr_assert(eventually(is_inside, NULL));
	cancel(thread);
	cr_assert_eq(cancelled.ret, -ETIMEDOUT);
	cr_assert_eq(dfi_barrier_close(cancelled.barrier), 0);
	use_flow(rig.dfi, "after", 100);
}

static void create_tree(const char *name)
{
	static const struct dfi_aggregate sum = {
		.function = DFI_SUM, .field = "val", .name = "sum"
	};
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_COMBINE;
	attr.schema = &kv_schema;
	attr.n_sources = attr.n_targets = 1;
	attr.combine.aggregates = &sum;
	attr.combine.n_aggregates = 1;
	attr.combine.group_by = "key";
	attr.combine.fan_in = 2;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, name, &attr), 0, "%s", dfi_errmsg());
}

/* Within the call it has to tell its inputs that the target wants no more. */
Test(sharing, of_a_combiner_whose_thread_is_cancelled_runs_to_its_end)
{
	struct cancelled cancelled = { .dfi = rig.dfi, .ret = 1 };
	struct dfi_source *source;
	struct dfi_target *target;
	pthread_t thread;
	void *ended;

	create_tree("f");
	target = open_target(rig.dfi, "f", 0, 0);
	cr_assert_eq(
	    dfi_combiner_open(rig.dfi, "f", 0, NULL, &cancelled.combiner), 0,
	    "%s", dfi_errmsg());
	source = open_source(rig.dfi, "f", 0, 0);
	thread = begin(&cancelled, run_and_say);
	pthread_setname_np(thread, "waiter");
	cr_assert(eventually(is_inside, NULL));
	pthread_cancel(thread);
	cr_assert_eq(dfi_target_cancel(target), 0, "%s", dfi_errmsg());
	pthread_join(thread, &ended);
	cr_assert_eq(ended, PTHREAD_CANCELED);
	cr_assert_eq(cancelled.ret, 0);
	cr_assert_eq(dfi_combiner_close(cancelled.combiner), 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

/* ---- Descriptors that are closed --------------------------------------------
 */

/* In a child, which is killed if it hangs. */
static int close_descriptors_in_child(const char *registry)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_flow_info info;
	struct kv kv = { 1, 1 };
	const void *tuple;
	struct dfi *dfi;
	int ret;

	alarm(LONG_MS / 1000);
	attr.registry = registry;
	/* A network has more to open. */
	attr.open_timeout_ms = over_network() ? 5000 : 500;
	flow.kind = DFI_SHUFFLE;
	flow.schema = &kv_schema;
	flow.n_sources = flow.n_targets = 1;
	if (dfi_open(&attr, &dfi) || dfi_flow_create(dfi, "cut", &flow) ||
	    dfi_target_open(dfi, "cut", 0, NULL, &target) ||
	    dfi_source_open(dfi, "cut", 0, NULL, &source))
		return 1;
	close_range(STDERR_FILENO + 1, ~0u, 0);
	/* The closed descriptors include those of a network. */
	if ((dfi_source_push(source, &kv) || dfi_source_flush(source) ||
		dfi_target_consume(target, &tuple) != 1) &&
	    !over_network())
		return 2;
	ret = dfi_flow_lookup(dfi, "cut", &info);
	if (ret != -ENOTCONN && ret != -ETIMEDOUT)
		return 3;
	/* Their results do not matter. */
	dfi_source_close(source);
	dfi_target_close(target);
	return dfi_close(dfi) ? 4 : 0;
}

Test(sharing, of_descriptors_that_the_application_closes_hangs_no_call)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(close_descriptors_in_child(
		    dfi_registry_address(rig.registry)));
	cr_assert_gt(pid, 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0, "the child's status: %#x", status);
}

static bool standard_files_are_free(void)
{
	int fd;

	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return false;
	return true;
}

static void close_standard_files(void)
{
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
}

/* Two contexts, the second of which has its files closed in any case. */
static int use_without_standard_files(
    const char *key, bool early, struct dfi *contexts[2])
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_attr open_attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;

	if (early)
		close_standard_files();
	attr.listen = "tcp:127.0.0.1:0";
	attr.key = open_attr.registry_key = key;
	if (dfi_registry_key_create(key) ||
	    dfi_registry_start(&attr, &registry))
		return 1;
	open_attr.registry = dfi_registry_address(registry);
	if (dfi_open(&open_attr, &contexts[0]))
		return 2;
	if (!early)
		close_standard_files();
	if (dfi_open(&open_attr, &contexts[1]))
		return 3;
	return standard_files_are_free() ? 0 : 4;
}

static int move_without_standard_files(struct dfi *contexts[2])
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_source *source;
	struct dfi_target *target;
	struct kv kv = { 1, 2 };
	const void *tuple;

	attr.flags = DFI_NONBLOCK;
	flow.kind = DFI_SHUFFLE;
	flow.schema = &kv_schema;
	flow.n_sources = flow.n_targets = 1;
	if (dfi_flow_create(contexts[0], "f", &flow) ||
	    dfi_target_open(contexts[1], "f", 0, &attr, &target) ||
	    dfi_source_open(contexts[0], "f", 0, NULL, &source) ||
	    dfi_target_fd(target) <= STDERR_FILENO)
		return 5;
	if (!standard_files_are_free())
		return 6;
	if (dfi_source_push(source, &kv) || dfi_source_close(source) ||
	    consume_soon(target, &tuple) != 1 ||
	    memcmp(tuple, &kv, sizeof(kv)) != 0 ||
	    consume_soon(target, &tuple) != 0)
		return 7;
	return standard_files_are_free() ? 0 : 8;
}

/* In a child; early: it is started without them, as by some daemons. */
static void expect_standard_files_free(bool early)
{
	char key[] = "/tmp/dfi-hygiene-XXXXXX";
	struct dfi *contexts[2];
	int status, ret;
	pid_t pid;

	need_tls();
	cr_assert_geq(mkstemp(key), 0);
	unlink(key);
	pid = fork();
	if (!pid) {
		alarm(LONG_MS / 1000);
		ret = use_without_standard_files(key, early, contexts);
		if (!ret)
			ret = move_without_standard_files(contexts);
		_exit(ret);
	}
	cr_assert_gt(pid, 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	unlink(key);
	cr_assert_eq(status, 0, "the child's status: %#x", status);
}

Test(hygiene, no_descriptor_is_a_standard_one_when_these_are_closed)
{
	expect_standard_files_free(true);
}

Test(hygiene, no_descriptor_is_a_standard_one_when_these_are_closed_later)
{
	expect_standard_files_free(false);
}

/* ---- Two threads on one handle
 * ----------------------------------------------- */

#ifdef DFI_CHECKS_OWNERS

static _Atomic unsigned n_logged;

static void count_line(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	n_logged += level == DFI_LOG_ERROR &&
	    strstr(line, "one thread at a time") != NULL;
}

/*
 * Whether the owner waits: another thread's call finds it inside. This thread
 * does not wait itself, or it would keep the owner out on a single processor.
 */
static bool target_is_shared(void *arg)
{
	int ret = dfi_target_fd(arg);

	cr_assert(ret == -EBUSY || ret == -EINVAL, "%d %s", ret, dfi_errmsg());
	return ret == -EBUSY;
}

static void *consume_once(void *arg)
{
	struct dfi_target *target = arg;
	const void *tuple;
	int ret;

	do
		ret = dfi_target_consume(target, &tuple);
	while (ret == -EBUSY || ret == -ETIMEDOUT);
	return ret == 1 ? NULL : arg;
}

Test(sharing, of_a_target_by_two_threads_is_noticed)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_source *source;
	struct dfi_target *target;
	struct kv kv = { 1, 1 };
	pthread_t thread;
	void *failed;

	dfi_log_set(DFI_LOG_ERROR, count_line, NULL);
	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	attr.stall_timeout_ms = 200;
	cr_assert_eq(dfi_target_open(rig.dfi, "f", 0, &attr, &target), 0);
	source = open_source(rig.dfi, "f", 0, 0);
	pthread_create(&thread, NULL, consume_once, target);
	cr_assert(eventually(target_is_shared, target));
	assert_error(-EBUSY, -EBUSY, "flow 'f': target 0: thread",
	    "is inside a call on it", "one thread at a time");
	cr_assert_geq(n_logged, 1);
	cr_assert_eq(dfi_source_push(source, &kv), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	pthread_join(thread, &failed);
	cr_assert_null(failed);
	cr_assert_eq(dfi_target_close(target), 0);
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
}

static bool says_shared(int ret)
{
	return ret == -EBUSY && strstr(dfi_errmsg(), "is inside a call on it");
}

static bool target_is_inside(void *arg)
{
	struct dfi_batch batch;

	return says_shared(dfi_target_consume_batch(arg, &batch));
}

/* A cursor as it was opened, and what a thread that waits has got of it. */
struct reading {
	struct dfi_target_cursor opened, got;
};

static void *read_by_cursor(void *arg)
{
	struct reading *reading = arg;

	do
		reading->got = dfi_target_cursor_slow(reading->opened);
	while (reading->got.status == -EBUSY);
	return NULL;
}

Test(sharing, of_a_target_that_is_given_back_to_is_noticed)
{
	struct dfi_batch batch = { .count = 1 };
	struct dfi_source *source;
	struct dfi_target *target;
	struct reading reading;
	struct kv kv = { 1, 1 };
	pthread_t thread;

	dfi_log_set(DFI_LOG_ERROR, count_line, NULL);
	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	reading.opened = dfi_target_cursor_open(target, sizeof(kv));
	pthread_create(&thread, NULL, read_by_cursor, &reading);
	cr_assert(eventually(target_is_inside, target));
	assert_error(dfi_target_cursor_close(reading.opened), -EBUSY,
	    "flow 'f': target 0: thread", "one thread at a time");
	n_logged = 0;
	dfi_target_release(target, &batch);
	cr_assert_eq(n_logged, 1);
	cr_assert_eq(batch.count, 1);
	cr_assert_eq(dfi_source_push(source, &kv), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	pthread_join(thread, NULL);
	cr_assert_eq(reading.got.status, 0);
	cr_assert_not_null(dfi_target_cursor_get(&reading.got, sizeof(kv)));
	cr_assert_eq(dfi_target_cursor_close(reading.got), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
}

struct writing {
	struct dfi_source_cursor opened, got;
};

static void *write_by_cursor(void *arg)
{
	struct writing *writing = arg;

	do
		writing->got = dfi_source_cursor_slow(writing->opened);
	while (writing->got.status == -EBUSY);
	return NULL;
}

static bool source_is_inside(void *arg)
{
	return says_shared(dfi_source_flush(arg));
}

Test(sharing, of_a_source_whose_cursor_is_closed_is_noticed)
{
	struct dfi_source *source;
	struct dfi_target *target;
	struct writing writing;
	struct kv kv = { 1, 1 };
	const void *tuple;
	pthread_t thread;
	int i;

	dfi_log_set(DFI_LOG_ERROR, count_line, NULL);
	create_kv_flow(rig.dfi, "f", 1, 1, 1, 2);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	writing.opened = dfi_source_cursor_open(source, 0, sizeof(kv));
	for (i = 0; i < 2; i++)
		cr_assert_eq(
		    dfi_source_cursor_push(&writing.opened, &kv, sizeof(kv)),
		    0);
	pthread_create(&thread, NULL, write_by_cursor, &writing);
	cr_assert(eventually(source_is_inside, source));
	assert_error(dfi_source_cursor_close(writing.opened), -EBUSY,
	    "flow 'f': source 0: thread", "one thread at a time");
	cr_assert_eq(consume_soon(target, &tuple), 1);
	cr_assert_eq(consume_soon(target, &tuple), 1);
	pthread_join(thread, NULL);
	cr_assert_eq(writing.got.status, 0);
	cr_assert_eq(dfi_source_cursor_push(&writing.got, &kv, sizeof(kv)), 0);
	cr_assert_eq(dfi_source_cursor_close(writing.got), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(consume_soon(target, &tuple), 1);
	cr_assert_eq(consume_soon(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
}

static void *push_once(void *arg)
{
	struct dfi_source *source = arg;
	struct kv kv = { 2, 2 };
	int ret;

	do
		ret = dfi_source_push(source, &kv);
	while (ret == -EBUSY || ret == -ETIMEDOUT);
	return ret ? arg : NULL;
}

static bool source_is_shared(void *arg)
{
	int ret = dfi_source_flush(arg);

	cr_assert(ret == -EBUSY || ret == 0, "%d %s", ret, dfi_errmsg());
	return ret == -EBUSY;
}

Test(sharing, of_a_source_by_two_threads_is_noticed)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;
	struct dfi_target *target;
	struct kv kv = { 1, 1 };
	const void *tuple;
	pthread_t thread;
	void *failed;
	int i;

	dfi_log_set(DFI_LOG_ERROR, count_line, NULL);
	create_kv_flow(rig.dfi, "f", 1, 1, 1, 2);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	attr.stall_timeout_ms = 200;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, &attr, &source), 0);
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_source_push(source, &kv), 0);
	pthread_create(&thread, NULL, push_once, source);
	cr_assert(eventually(source_is_shared, source));
	assert_error(-EBUSY, -EBUSY, "flow 'f': source 0: thread",
	    "is inside a call on it", "one thread at a time");
	cr_assert_geq(n_logged, 1);
	for (i = 0; i < 3; i++)
		cr_assert_eq(consume_soon(target, &tuple), 1);
	pthread_join(thread, &failed);
	cr_assert_null(failed);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(consume_soon(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
}

static void *wait_once(void *arg)
{
	int ret;

	do
		ret = dfi_barrier_wait(arg, 200);
	while (ret == -EBUSY || ret == -ETIMEDOUT);
	return ret ? arg : NULL;
}

static bool barrier_is_shared(void *arg)
{
	int ret;

	/* A pause between polls, so that the owner enters on one processor. */
	usleep(1000);
	ret = dfi_barrier_wait(arg, 1);
	cr_assert(
	    ret == -EBUSY || ret == -ETIMEDOUT, "%d %s", ret, dfi_errmsg());
	return ret == -EBUSY;
}

Test(sharing, of_a_barrier_by_two_threads_is_noticed)
{
	struct dfi_barrier *barrier, *late;
	pthread_t thread;
	void *failed;

	dfi_log_set(DFI_LOG_ERROR, count_line, NULL);
	cr_assert_eq(dfi_barrier_open(rig.dfi, "b", 2, 0, &barrier), 0);
	pthread_create(&thread, NULL, wait_once, barrier);
	cr_assert(eventually(barrier_is_shared, barrier));
	assert_error(-EBUSY, -EBUSY, "barrier 'b': thread",
	    "is inside a call on it", "one thread at a time");
	cr_assert_geq(n_logged, 1);
	cr_assert_eq(dfi_barrier_open(rig.dfi, "b", 2, 1, &late), 0);
	cr_assert_eq(dfi_barrier_wait(late, LONG_MS), 0, "%s", dfi_errmsg());
	pthread_join(thread, &failed);
	cr_assert_null(failed);
	cr_assert_eq(dfi_barrier_close(barrier), 0);
	cr_assert_eq(dfi_barrier_close(late), 0);
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
}

static void *consume_from_group(void *arg)
{
	struct dfi_target_group_batch batch;
	int ret;

	do
		ret = dfi_target_group_consume_batch(arg, &batch);
	while (ret == -EBUSY || ret == -ETIMEDOUT);
	dfi_target_group_release(arg, &batch);
	return ret == 1 ? NULL : arg;
}

static bool group_release_is_noticed(void *arg)
{
	struct dfi_target_group_batch batch = { .target = NULL };
	unsigned before = n_logged;

	dfi_target_group_release(arg, &batch);
	return n_logged > before;
}

static bool group_is_shared(void *arg)
{
	int ret = dfi_target_group_fd(arg);

	cr_assert(ret == -EBUSY || ret == -EINVAL, "%d %s", ret, dfi_errmsg());
	return ret == -EBUSY;
}

Test(sharing, of_a_group_by_two_threads_is_noticed)
{
	struct dfi_target_group_attr attr = DFI_TARGET_GROUP_ATTR_INIT;
	struct dfi_target_group *group;
	struct dfi_source *source;
	struct dfi_target *target;
	struct kv kv = { 1, 1 };
	pthread_t thread;
	void *failed;

	dfi_log_set(DFI_LOG_ERROR, count_line, NULL);
	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	attr.stall_timeout_ms = 200;
	cr_assert_eq(dfi_target_group_open(rig.dfi, &attr, &group), 0);
	cr_assert_eq(dfi_target_group_add(group, target, NULL), 0);
	pthread_create(&thread, NULL, consume_from_group, group);
	cr_assert(eventually(group_is_shared, group));
	assert_error(-EBUSY, -EBUSY, "a group of 1 targets: thread",
	    "is inside a call on it", "one thread at a time");
	cr_assert_geq(n_logged, 1);
	cr_assert(eventually(group_release_is_noticed, group));
	cr_assert_eq(dfi_source_push(source, &kv), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	pthread_join(thread, &failed);
	cr_assert_null(failed);
	cr_assert_eq(dfi_target_group_close(group), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
}

#endif

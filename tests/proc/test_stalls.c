/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other processes seen from here: their counters, and stopped peers in the log
 * and the counters of endpoints that wait for them. Nothing is lost when a peer
 * continues. The other processes run worker.c.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "spawn.h"
#include "worker.h"

#define FLOW "flow"
#define LONG_MS 30000u
#define STOPPED_MS 5000u
#define N_TUPLES 20000
#define STRING(macro) STRING_OF(macro)
#define STRING_OF(text) #text

static struct dfi_registry *registry;
static struct dfi *dfi;
static const char *address;

static void setup(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	cr_assert_eq(
	    dfi_registry_start(NULL, &registry), 0, "%s", dfi_errmsg());
	attr.registry = address = dfi_registry_address(registry);
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
}

static void teardown(void)
{
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(stalls, .init = setup, .fini = teardown, .timeout = 300);

static void create_flow_of(
    uint32_t n_ends, uint32_t segment_tuples, uint32_t segment_count)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &worker_schema,
		.n_sources = n_ends,
		.n_targets = n_ends,
		.segment_size = segment_tuples *
		    (uint32_t)sizeof(struct worker_tuple),
		.segment_count = segment_count,
	};

	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
}

static void create_flow(uint32_t n_ends)
{
	create_flow_of(n_ends, 20, 4);
}

#define MAX_WARNINGS 8

/*
 * A warning that a child is stopped continues it, unless it must stay stopped.
 */
struct watchman {
	struct child *child;
	bool stays;
	unsigned n_warnings, n_goes_on;
	char lines[MAX_WARNINGS][512];
};

static void watch(void *arg, enum dfi_log_level level, const char *line)
{
	struct watchman *watchman = arg;

	if (level == DFI_LOG_INFO && strstr(line, " goes on after "))
		watchman->n_goes_on++;
	if (level != DFI_LOG_WARN || !strstr(line, "is stalled"))
		return;
	if (watchman->n_warnings < MAX_WARNINGS)
		snprintf(watchman->lines[watchman->n_warnings],
		    sizeof(watchman->lines[0]), "%s", line);
	watchman->n_warnings++;
	if (!watchman->stays)
		kill(watchman->child->pid, SIGCONT);
}

static bool has_words(const char *line, char words[4][32])
{
	int i;

	for (i = 0; i < 4 && strstr(line, words[i]); i++)
		;
	return i == 4;
}

/* One of the warnings says who waits for whom. */
static void expect_report(
    const struct watchman *watchman, const char *self, const char *peer)
{
	char words[4][32];
	unsigned i;

	snprintf(words[0], sizeof(words[0]), "flow '" FLOW "'");
	snprintf(words[1], sizeof(words[1]), "%s has waited", self);
	snprintf(words[2], sizeof(words[2]), "%s (node ", peer);
	snprintf(
	    words[3], sizeof(words[3]), "pid %d)", (int)watchman->child->pid);
	for (i = 0; i < watchman->n_warnings && i < MAX_WARNINGS; i++)
		if (has_words(watchman->lines[i], words))
			return;
	cr_assert_fail("%u warnings, none of %s and %s; the first: '%s'",
	    watchman->n_warnings, self, peer, watchman->lines[0]);
}

static int await(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, (int)LONG_MS) == 1 ? 0 : -ETIMEDOUT;
}

static void push_to_stopped_target(uint32_t flags)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source_stats stats;
	struct worker_tuple tuple;
	struct dfi_source *source;
	struct child target;
	struct watchman watchman = { .child = &target };
	uint32_t n = 0;
	int ret;

	create_flow(1);
	child_spawn(
	    &target, DFI_WORKER, "-r", address, "-f", FLOW, "target:0", NULL);
	child_expect(&target, "target 0 open");
	attr.flags = flags;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_source_open(dfi, FLOW, 0, &attr, &source), 0, "%s",
	    dfi_errmsg());
	child_signal(&target, SIGSTOP);
	dfi_log_set(DFI_LOG_INFO, watch, &watchman);
	while (n < 10000) {
		worker_make_tuple(0, n, &tuple);
		ret = dfi_source_push(source, &tuple);
		if (ret == -EAGAIN)
			ret = await(dfi_source_fd(source));
		else
			n++;
		cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	}
	cr_assert_eq(watchman.n_warnings, 1);
	expect_report(&watchman, "source 0", "target 0");
	cr_assert_geq(watchman.n_goes_on, 1);
	dfi_source_query(source, &stats);
	cr_assert_geq(stats.long_stalls, 1);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	child_expect(&target, "target 0 ended 0 10000");
	cr_assert_eq(child_wait(&target), 0);
}

Test(stalls, stopped_target_is_reported_by_a_blocking_source)
{
	push_to_stopped_target(0);
}

Test(stalls, stopped_target_is_reported_by_a_polling_source)
{
	push_to_stopped_target(DFI_NONBLOCK);
}

/* Consume from a source that is stopped after 25 tuples. */
static void consume_from_stopped_source(uint32_t flags,
    int (*consume)(struct dfi_target *target, void *arg),
    void *(*prepare)(struct dfi_target *target))
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target_stats stats;
	struct dfi_target *target;
	struct child source;
	struct watchman watchman = { .child = &source };
	void *arg;
	uint32_t n = 0;
	int ret;

	create_flow(1);
	attr.flags = flags;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(dfi, FLOW, 0, &attr, &target), 0, "%s",
	    dfi_errmsg());
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-n",
	    "30000", "-p", "25", "source:0", NULL);
	child_expect(&source, "source 0 held 25");
	child_signal(&source, SIGSTOP);
	child_order(&source, 'c');
	dfi_log_set(DFI_LOG_INFO, watch, &watchman);
	arg = prepare ? prepare(target) : NULL;
	while ((ret = consume(target, arg)) > 0)
		n += (uint32_t)ret;
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(n, 30000);
	cr_assert_eq(watchman.n_warnings, 1);
	expect_report(&watchman, "target 0", "source 0");
	dfi_target_query(target, &stats);
	cr_assert_geq(stats.long_stalls, 1);
	cr_assert_eq(stats.tuples, 30000);
	if (arg)
		cr_assert_eq(dfi_target_group_close(arg), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(child_wait(&source), 0);
}

static int consume_one(struct dfi_target *target, void *arg)
{
	const void *tuple;

	(void)arg;
	return dfi_target_consume(target, &tuple);
}

Test(stalls, stopped_source_is_reported_by_a_blocking_target)
{
	consume_from_stopped_source(0, consume_one, NULL);
}

static int poll_and_consume(struct dfi_target *target, void *arg)
{
	const void *tuple;
	int ret;

	(void)arg;
	while ((ret = dfi_target_consume(target, &tuple)) == -EAGAIN) {
		ret = await(dfi_target_fd(target));
		if (ret < 0)
			break;
	}
	return ret;
}

Test(stalls, stopped_source_is_reported_by_a_polling_target)
{
	consume_from_stopped_source(DFI_NONBLOCK, poll_and_consume, NULL);
}

static void *make_group(struct dfi_target *target)
{
	struct dfi_target_group_attr attr = DFI_TARGET_GROUP_ATTR_INIT;
	struct dfi_target_group *group;

	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_group_open(dfi, &attr, &group), 0);
	cr_assert_eq(dfi_target_group_add(group, target, NULL), 0);
	return group;
}

static int consume_of_group(struct dfi_target *target, void *arg)
{
	struct dfi_target_group_batch batch;
	int ret = dfi_target_group_consume_batch(arg, &batch);

	(void)target;
	if (ret > 0)
		dfi_target_group_release(arg, &batch);
	return ret;
}

Test(stalls, stopped_source_is_reported_by_a_group)
{
	consume_from_stopped_source(0, consume_of_group, make_group);
}

/* A thread that consumes to the end, whatever time that takes. */
struct consumer {
	pthread_t thread;
	struct dfi_target *target;
	sem_t timed_out;
	unsigned n_timeouts;
	bool damaged; /* a tuple was not what it should be */
	uint32_t n;
	int ret;
};

static void check_tuple(struct consumer *consumer,
    const struct worker_tuple *tuple, uint32_t last[2])
{
	struct worker_tuple expected = { .number = 0 };

	if (tuple->source < 2 && tuple->number > last[tuple->source]) {
		last[tuple->source] = tuple->number;
		worker_make_tuple(tuple->source, tuple->number - 1, &expected);
	}
	if (memcmp(tuple, &expected, sizeof(expected)) != 0)
		consumer->damaged = true;
}

static void *consume_to_the_end(void *arg)
{
	struct consumer *consumer = arg;
	uint32_t last[2] = { 0 };
	const void *tuple;

	for (;;) {
		consumer->ret = dfi_target_consume(consumer->target, &tuple);
		if (consumer->ret == -ETIMEDOUT &&
		    ++consumer->n_timeouts * STOPPED_MS < 2 * LONG_MS) {
			sem_post(&consumer->timed_out);
			continue;
		}
		if (consumer->ret <= 0)
			return NULL;
		check_tuple(consumer, tuple, last);
		consumer->n++;
	}
}

static void await_timeout(struct consumer *consumer)
{
	struct timespec deadline;

	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += LONG_MS / 1000;
	cr_assert_eq(sem_timedwait(&consumer->timed_out, &deadline), 0);
}

/* Both ends of the peer are stopped until both here have waited long enough. */
static void push_to_the_end(
    struct dfi_source *source, struct consumer *consumer, struct child *peer)
{
	uint32_t n = 0, n_timeouts = 0;
	struct worker_tuple tuple;
	int ret;

	while (n < N_TUPLES) {
		worker_make_tuple(0, n, &tuple);
		ret = dfi_source_push(source, &tuple);
		if (ret == -ETIMEDOUT && !n_timeouts++) {
			await_timeout(consumer);
			child_signal(peer, SIGCONT);
		}
		cr_assert(ret == 0 || ret == -ETIMEDOUT, "%s", dfi_errmsg());
		n += ret == 0;
	}
	cr_assert_geq(n_timeouts, 1);
}

static void stop_in_mid_stream(struct child *peer)
{
	child_expect(peer, "source 1 held 25");
	child_signal(peer, SIGSTOP);
	child_order(peer, 'c'); /* the source */
	child_order(peer, 'c'); /* the target, when it has had 25 */
}

static uint32_t expect_end(struct child *peer)
{
	static const char end[] = "target 1 ended 0 ";

	child_expect(peer, end);
	return (uint32_t)strtoul(peer->line + strlen(end), NULL, 10);
}

/* Stalled is not dead. */
Test(stalls, process_stopped_for_5_s_is_reported_by_both_ends_and_loses_nothing)
{
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct consumer consumer = { .n = 0 };
	struct dfi_source_stats source_stats;
	struct dfi_target_stats target_stats;
	struct dfi_source *source;
	struct child peer;
	struct watchman watchman = { .child = &peer, .stays = true };

	create_flow(2);
	sem_init(&consumer.timed_out, 0, 0);
	target_attr.stall_timeout_ms = STOPPED_MS;
	source_attr.stall_timeout_ms = STOPPED_MS;
	cr_assert_eq(
	    dfi_target_open(dfi, FLOW, 0, &target_attr, &consumer.target), 0,
	    "%s", dfi_errmsg());
	child_spawn(&peer, DFI_WORKER, "-r", address, "-f", FLOW, "-n",
	    STRING(N_TUPLES), "-p", "25", "source:1", "target:1", NULL);
	cr_assert_eq(dfi_source_open(dfi, FLOW, 0, &source_attr, &source), 0,
	    "%s", dfi_errmsg());
	stop_in_mid_stream(&peer);
	dfi_log_set(DFI_LOG_INFO, watch, &watchman);
	pthread_create(&consumer.thread, NULL, consume_to_the_end, &consumer);
	push_to_the_end(source, &consumer, &peer);
	dfi_source_query(source, &source_stats);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(pthread_join(consumer.thread, NULL), 0);
	cr_assert_eq(consumer.ret, 0, "%d", consumer.ret);
	cr_assert(!consumer.damaged);
	dfi_target_query(consumer.target, &target_stats);
	cr_assert_eq(dfi_target_close(consumer.target), 0);
	cr_assert_eq(consumer.n + expect_end(&peer), 2 * N_TUPLES);
	cr_assert_eq(child_wait(&peer), 0);
	expect_report(&watchman, "source 0", "target 1");
	expect_report(&watchman, "target 0", "source 1");
	cr_assert_geq(watchman.n_goes_on, 2);
	cr_assert_geq(source_stats.long_stalls, 1);
	cr_assert_geq(target_stats.long_stalls, 1);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* A child's context's answer, or why there is none. */
struct view {
	int pid;
	bool found;
	char error[256];
	uint32_t n_endpoints, receives;
	struct dfi_endpoint_stats endpoint; /* the first */
};

static int look(void *arg, const struct dfi_node_stats *stats)
{
	struct view *view = arg;

	if (stats->node.pid != (uint32_t)view->pid)
		return 0;
	view->found = true;
	snprintf(view->error, sizeof(view->error), "%s",
	    stats->error ? stats->error : "");
	view->n_endpoints = stats->n_endpoints;
	view->receives = stats->n_transports ? stats->transports[0].receives
					     : 0;
	if (stats->n_endpoints)
		view->endpoint = stats->endpoints[0];
	return 0;
}

static struct view look_at(const struct child *child)
{
	struct view view = { .pid = child->pid };

	cr_assert_eq(dfi_stats_list(dfi, look, &view), 0, "%s", dfi_errmsg());
	cr_assert(view.found, "process %d is not listed", (int)child->pid);
	return view;
}

/* One whose machine is busy may take longer than it is waited for. */
static struct view look_until_it_answers(const struct child *child)
{
	int64_t wait_limit = now_ms() + LONG_MS;
	struct view view;

	do
		view = look_at(child);
	while (*view.error && now_ms() < wait_limit);
	cr_assert_str_empty(view.error, "%s", view.error);
	return view;
}

Test(stalls, counters_of_another_process_are_seen)
{
	struct dfi_target *target;
	struct child source;
	struct view view;
	const void *tuple;

	create_flow(1);
	cr_assert_eq(dfi_target_open(dfi, FLOW, 0, NULL, &target), 0);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-n", "30",
	    "-p", "25", "source:0", NULL);
	child_expect(&source, "source 0 held 25");
	view = look_until_it_answers(&source);
	cr_assert_eq(view.n_endpoints, 1);
	cr_assert_str_eq(view.endpoint.flow, FLOW);
	cr_assert_eq(view.endpoint.role, DFI_ROLE_SOURCE);
	cr_assert_eq(view.endpoint.tuples, 25);
	cr_assert_eq(view.endpoint.bytes, 25 * sizeof(struct worker_tuple));
	cr_assert_eq(view.endpoint.segments, 2);
	cr_assert_eq(view.endpoint.partial_segments, 1);
	/* A silent one holds nobody up for long. */
	child_signal(&source, SIGSTOP);
	view = look_at(&source);
	cr_assert(strstr(view.error, "doesn't answer"), "'%s'", view.error);
	cr_assert_eq(view.n_endpoints, 0);
	child_signal(&source, SIGCONT);
	child_order(&source, 'c');
	while (dfi_target_consume(target, &tuple) > 0)
		;
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(child_wait(&source), 0);
}

/* ---- Closing towards a stopped process ----------------------------------- */

#define CLOSE_MS 1000u
#define MANY_SEGMENTS 20000u /* more than there are receives for */

/* The last segment and the end mark find no receive. */
static void use_up_receives(struct dfi_source *source, uint32_t receives)
{
	struct worker_tuple tuple;
	uint32_t i;

	cr_assert_lt(receives, MANY_SEGMENTS);
	for (i = 0; i <= receives; i++) {
		worker_make_tuple(0, i, &tuple);
		cr_assert_eq(
		    dfi_source_push(source, &tuple), 0, "%s", dfi_errmsg());
	}
}

/* The test can't know how much has arrived, or what the target knew then. */
static void expect_end_or_loss(struct child *target, uint32_t sent)
{
	static const char end[] = "target 0 ended ";
	unsigned count;
	int ret;

	child_expect(target, end);
	cr_assert_eq(
	    sscanf(target->line + strlen(end), "%d %u", &ret, &count), 2);
	cr_assert(
	    ret == 0 ? count == sent : ret == -ECONNRESET, "%s", target->line);
	cr_assert_eq(child_wait(target), 0);
}

Test(stalls, closing_towards_a_stopped_target_has_a_deadline_over_rdma)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	const char *transport = getenv("DFI_TRANSPORT");
	struct dfi_source *source;
	struct child target;
	uint32_t receives;
	int64_t start;

	if (!transport ||
	    (strcmp(transport, "verbs") && strcmp(transport, "ofi")))
		cr_skip_test("memory needs nobody to receive: see "
			     "tests/testbed/flows.sh");
	create_flow_of(1, 1, MANY_SEGMENTS);
	child_spawn(
	    &target, DFI_WORKER, "-r", address, "-f", FLOW, "target:0", NULL);
	attr.stall_timeout_ms = LONG_MS;
	attr.close_timeout_ms = CLOSE_MS;
	cr_assert_eq(dfi_source_open(dfi, FLOW, 0, &attr, &source), 0, "%s",
	    dfi_errmsg());
	receives = look_until_it_answers(&target).receives;
	child_signal(&target, SIGSTOP);
	use_up_receives(source, receives);
	start = now_ms();
	cr_assert_eq(dfi_source_close(source), -ETIMEDOUT);
	cr_assert_geq(now_ms() - start, CLOSE_MS);
	cr_assert_lt(now_ms() - start, CLOSE_MS + LONG_MS);
	cr_assert_not_null(strstr(dfi_errmsg(),
			       "flow '" FLOW "': source 0: closed, but after"),
	    "%s", dfi_errmsg());
	cr_assert_not_null(strstr(dfi_errmsg(), "target 0"));
	/* It is closed, and neither call has an effect any more. */
	dfi_source_abort(source);
	cr_assert_eq(dfi_source_close(source), -EBADF);
	child_signal(&target, SIGCONT);
	expect_end_or_loss(&target, receives + 1);
}

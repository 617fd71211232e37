/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be seen of other processes: their counters, and that a peer is
 * stopped, in the log and the counters of who waits for it; nothing is lost
 * when it goes on. The other processes run worker.c.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spawn.h"
#include "worker.h"

#define FLOW "flow"
#define LONG_MS 30000u

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

TestSuite(stalls, .init = setup, .fini = teardown, .timeout = 120);

static void create_flow(void)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &worker_schema,
		.n_sources = 1,
		.n_targets = 1,
		.segment_size = 20 * (uint32_t)sizeof(struct worker_tuple),
		.segment_count = 4,
	};

	cr_assert_eq(dfi_flow_create(dfi, FLOW, &attr), 0, "%s", dfi_errmsg());
}

/* A warning that a child's process is stopped lets it go on. */
struct watchman {
	struct child *child;
	unsigned n_warnings, n_goes_on;
	char line[512];
};

static void watch(void *arg, enum dfi_log_level level, const char *line)
{
	struct watchman *watchman = arg;

	if (level == DFI_LOG_INFO && strstr(line, " goes on after "))
		watchman->n_goes_on++;
	if (level != DFI_LOG_WARN || !strstr(line, "is stalled"))
		return;
	watchman->n_warnings++;
	snprintf(watchman->line, sizeof(watchman->line), "%s", line);
	kill(watchman->child->pid, SIGCONT);
}

static void expect_report(
    const struct watchman *watchman, const char *self, const char *peer)
{
	char words[4][32];
	int i;

	snprintf(words[0], sizeof(words[0]), "flow '" FLOW "'");
	snprintf(words[1], sizeof(words[1]), "%s", self);
	snprintf(words[2], sizeof(words[2]), "%s (node ", peer);
	snprintf(
	    words[3], sizeof(words[3]), "pid %d)", (int)watchman->child->pid);
	cr_assert_eq(watchman->n_warnings, 1);
	for (i = 0; i < 4; i++)
		cr_assert(strstr(watchman->line, words[i]), "no '%s' in '%s'",
		    words[i], watchman->line);
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

	create_flow();
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
	expect_report(&watchman, "source 0 has waited", "target 0");
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

	create_flow();
	attr.flags = flags;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(dfi, FLOW, 0, &attr, &target), 0, "%s",
	    dfi_errmsg());
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-n",
	    "30000", "-p", "25", "source:0", NULL);
	child_expect(&source, "source 0 held 25");
	child_signal(&source, SIGSTOP);
	child_tell(&source, 'c');
	dfi_log_set(DFI_LOG_INFO, watch, &watchman);
	arg = prepare ? prepare(target) : NULL;
	while ((ret = consume(target, arg)) > 0)
		n += (uint32_t)ret;
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(n, 30000);
	expect_report(&watchman, "target 0 has waited", "source 0");
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

/* What a child's context told, or why it did not. */
struct view {
	int pid;
	bool found;
	char error[256];
	uint32_t n_endpoints;
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

Test(stalls, counters_of_another_process_are_seen)
{
	struct dfi_target *target;
	struct child source;
	struct view view;
	const void *tuple;

	create_flow();
	cr_assert_eq(dfi_target_open(dfi, FLOW, 0, NULL, &target), 0);
	child_spawn(&source, DFI_WORKER, "-r", address, "-f", FLOW, "-n", "30",
	    "-p", "25", "source:0", NULL);
	child_expect(&source, "source 0 held 25");
	view = look_at(&source);
	cr_assert_str_eq(view.error, "");
	cr_assert_eq(view.n_endpoints, 1);
	cr_assert_str_eq(view.endpoint.flow, FLOW);
	cr_assert_eq(view.endpoint.role, DFI_ROLE_SOURCE);
	cr_assert_eq(view.endpoint.tuples, 25);
	cr_assert_eq(view.endpoint.bytes, 25 * sizeof(struct worker_tuple));
	cr_assert_eq(view.endpoint.segments, 2);
	cr_assert_eq(view.endpoint.partial_segments, 1);
	/* One that doesn't answer holds nobody up for long. */
	child_signal(&source, SIGSTOP);
	view = look_at(&source);
	cr_assert(strstr(view.error, "doesn't answer"), "'%s'", view.error);
	cr_assert_eq(view.n_endpoints, 0);
	child_signal(&source, SIGCONT);
	child_tell(&source, 'c');
	while (dfi_target_consume(target, &tuple) > 0)
		;
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(child_wait(&source), 0);
}

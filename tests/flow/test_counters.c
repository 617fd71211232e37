/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows seen from outside: counters of waits, the endpoints of all contexts,
 * errors that occurred, lines of the log.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(counters, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_target *open_waiting_target(
    struct dfi *dfi, uint32_t wait, uint32_t stall_timeout_ms)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.wait = wait;
	attr.stall_timeout_ms = stall_timeout_ms;
	cr_assert_eq(dfi_target_open(dfi, "f", 0, &attr, &target), 0, "%s",
	    dfi_errmsg());
	return target;
}

/*
 * The counters of a target with the waiting of attr that waits in vain. A sleep
 * comes after yields, and each yield takes as long as others run. If this
 * thread did not run before the deadline, it waits again.
 */
static struct dfi_target_stats wait_in_vain(
    struct dfi *dfi, uint32_t attr, enum dfi_wait wait)
{
	int64_t wait_limit = now_ms() + LONG_MS;
	struct dfi_target_stats stats;
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;

	create_kv_flow(rig.dfi, "f", 1, 1, 3, 4);
	target = open_waiting_target(
	    dfi, attr, wait == DFI_WAIT_ADAPTIVE ? 1000 : 20);
	source = open_source(rig.other, "f", 0, 0);
	do {
		cr_assert_eq(dfi_target_consume(target, &tuple), -ETIMEDOUT);
		dfi_target_query(target, &stats);
	} while (
	    wait != DFI_WAIT_SPIN && !stats.sleeps && now_ms() < wait_limit);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	/* More if the source's attachment becomes known meanwhile. */
	cr_assert_geq(stats.stalls, 1);
	cr_assert_geq(stats.stall_ns, 19000000);
	cr_assert_eq(stats.tuples, 0);
	return stats;
}

static void expect_wait(const struct dfi_target_stats *stats, uint32_t wait)
{
	if (wait == DFI_WAIT_BLOCK)
		cr_assert_eq(stats->polls, 0);
	else
		cr_assert_geq(stats->polls, 1);
	if (wait == DFI_WAIT_ADAPTIVE)
		cr_assert_geq(stats->yields, 1);
	else
		cr_assert_eq(stats->yields, 0);
	if (wait == DFI_WAIT_SPIN)
		cr_assert_eq(stats->sleeps, 0);
	else
		cr_assert_geq(stats->sleeps, 1);
}

static const struct way {
	const char *setting;
	enum dfi_wait wait;
} ways[] = {
	{ "block", DFI_WAIT_BLOCK },
	{ "adaptive", DFI_WAIT_ADAPTIVE },
	{ "spin", DFI_WAIT_SPIN },
};

Test(counters, waits_are_counted_by_what_they_did)
{
	struct dfi_target_stats stats;
	size_t i;

	for (i = 0; i < N_ELEMENTS(ways); i++) {
		stats = wait_in_vain(rig.dfi, ways[i].wait, ways[i].wait);
		expect_wait(&stats, ways[i].wait);
	}
}

/* The context's way to wait: DFI_WAIT, or, without it, adaptive. */
static void expect_default_wait(const char *setting, enum dfi_wait wait)
{
	struct dfi_target_stats stats;
	struct dfi *dfi;

	if (setting)
		setenv("DFI_WAIT", setting, 1);
	else
		unsetenv("DFI_WAIT");
	dfi = rig_join(&rig);
	stats = wait_in_vain(dfi, DFI_WAIT_DEFAULT, wait);
	expect_wait(&stats, wait);
	/* An attribute is stronger. */
	wait = wait == DFI_WAIT_BLOCK ? DFI_WAIT_SPIN : DFI_WAIT_BLOCK;
	stats = wait_in_vain(dfi, wait, wait);
	expect_wait(&stats, wait);
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
}

Test(counters, default_wait_of_a_handle_is_the_setting)
{
	size_t i;

	for (i = 0; i < N_ELEMENTS(ways); i++)
		expect_default_wait(ways[i].setting, ways[i].wait);
	expect_default_wait(NULL, DFI_WAIT_ADAPTIVE);
}

/* One of the rig's contexts, as dfi_stats_list() shows it. */
struct view {
	uint64_t skip; /* contexts before it */
	bool found;
	char error[256]; /* why one has not answered in time */
	uint32_t n_endpoints, n_errors;
	struct dfi_endpoint_stats endpoints[400];
	struct dfi_error_info errors[DFI_MAX_ERRORS];
};

static int look(void *arg, const struct dfi_node_stats *stats)
{
	struct view *view = arg;

	if (stats->error) {
		snprintf(view->error, sizeof(view->error), "%s", stats->error);
		return 0;
	}
	cr_assert_leq(stats->n_endpoints, 400);
	/* The registry may not yet know that one has left. */
	cr_assert_geq(
	    stats->node.n_sources + stats->node.n_targets, stats->n_endpoints);
	if (!stats->n_endpoints)
		return 0;
	view->found = true;
	view->n_endpoints = stats->n_endpoints;
	memcpy(view->endpoints, stats->endpoints,
	    stats->n_endpoints * sizeof(stats->endpoints[0]));
	view->n_errors = stats->n_errors;
	if (stats->n_errors)
		memcpy(view->errors, stats->errors,
		    stats->n_errors * sizeof(stats->errors[0]));
	return 0;
}

/*
 * The only context with endpoints, seen from another. All are asked again if
 * one has not answered in time.
 */
static struct view *look_from(struct dfi *dfi)
{
	int64_t wait_limit = now_ms() + LONG_MS;
	static struct view view;

	do {
		memset(&view, 0, sizeof(view));
		cr_assert_eq(
		    dfi_stats_list(dfi, look, &view), 0, "%s", dfi_errmsg());
	} while (*view.error && now_ms() < wait_limit);
	cr_assert_str_empty(view.error, "%s", view.error);
	cr_assert(view.found);
	return &view;
}

static void expect_endpoint(const struct dfi_endpoint_stats *stats,
    uint32_t role, uint32_t index, uint64_t tuples, uint64_t segments)
{
	cr_assert_str_eq(stats->flow, "f");
	cr_assert_eq(stats->role, role);
	cr_assert_eq(stats->index, index);
	cr_assert_eq(stats->tuples, tuples);
	cr_assert_eq(stats->bytes, tuples * sizeof(struct kv));
	cr_assert_eq(stats->segments, segments);
}

Test(counters, contexts_see_each_other_and_themselves)
{
	struct dfi_flow_info info;
	struct dfi_source *source;
	struct dfi_target *target;
	struct kv kv = { .key = 1 };
	const void *tuple;
	struct view *view;
	int i;

	create_kv_flow(rig.dfi, "f", 1, 1, 3, 4);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < 4; i++)
		cr_assert_eq(dfi_source_push(source, &kv), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	cr_assert_eq(consume_soon(target, &tuple), 1);
	cr_assert_eq(dfi_flow_lookup(rig.dfi, "f", &info), 0);
	for (i = 0; i < 2; i++) {
		view = look_from(i ? rig.dfi : rig.other);
		cr_assert_eq(view->n_endpoints, 2);
		expect_endpoint(&view->endpoints[0], DFI_ROLE_TARGET, 0, 3, 1);
		expect_endpoint(&view->endpoints[1], DFI_ROLE_SOURCE, 0, 4, 2);
		cr_assert_eq(view->endpoints[1].partial_segments, 1);
		cr_assert_eq(view->endpoints[1].instance, info.instance);
		cr_assert_eq(view->endpoints[1].waiting_ns, 0);
	}
	cr_assert_eq(dfi_source_close(source), 0);
	view = look_from(rig.other);
	cr_assert_eq(view->n_endpoints, 1);
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(counters, many_endpoints_come_in_order)
{
	enum {
		N = 300
	};
	static struct dfi_target *targets[N];
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = 1,
		.n_targets = N,
		.segment_size = sizeof(struct kv),
		.segment_count = 2,
		.transport = DFI_TRANSPORT_SHM,
	};
	struct view *view;
	uint32_t t;

	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	for (t = 0; t < N; t++)
		targets[t] = open_target(rig.dfi, "f", t, 0);
	view = look_from(rig.other);
	cr_assert_eq(view->n_endpoints, N);
	for (t = 0; t < N; t++)
		expect_endpoint(&view->endpoints[t], DFI_ROLE_TARGET, t, 0, 0);
	for (t = 0; t < N; t++)
		cr_assert_eq(dfi_target_close(targets[t]), 0);
}

static void *consume_to_the_end(void *arg)
{
	const void *tuple;

	while (dfi_target_consume(arg, &tuple) > 0)
		;
	return NULL;
}

static bool waits(void *arg)
{
	uint32_t i = *(uint32_t *)arg;

	return look_from(rig.other)->endpoints[i].waiting_ns > 0;
}

Test(counters, wait_is_seen_while_it_lasts)
{
	struct dfi_source *source;
	struct dfi_target *target;
	uint32_t index = 0;
	pthread_t thread;

	create_kv_flow(rig.dfi, "f", 1, 1, 3, 4);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(
	    pthread_create(&thread, NULL, consume_to_the_end, target), 0);
	cr_assert(eventually(waits, &index), "no wait is seen");
	cr_assert_geq(look_from(rig.other)->endpoints[0].stalls, 1);
	cr_assert_eq(dfi_source_close(source), 0);
	pthread_join(thread, NULL);
	cr_assert_eq(look_from(rig.other)->endpoints[0].waiting_ns, 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

static void *consume_from_group(void *arg)
{
	struct dfi_target_group_batch batch;

	while (dfi_target_group_consume_batch(arg, &batch) > 0)
		dfi_target_group_release(arg, &batch);
	return NULL;
}

/* A wait spins before it sleeps, on a slow machine for long. */
static bool sleeps(void *arg)
{
	uint32_t i = *(uint32_t *)arg;

	return look_from(rig.other)->endpoints[i].sleeps > 0;
}

/* As a wait of the target itself, though the group sleeps. */
Test(counters, wait_of_a_group_is_one_of_each_of_its_targets)
{
	struct dfi_target_group_attr attr = DFI_TARGET_GROUP_ATTR_INIT;
	struct dfi_target_group *group;
	struct dfi_target_stats stats;
	struct dfi_source *source;
	struct dfi_target *targets[2];
	uint32_t index[2] = { 0, 1 }, t;
	pthread_t thread;

	create_kv_flow(rig.dfi, "f", 1, 2, 3, 4);
	attr.wait = DFI_WAIT_BLOCK;
	cr_assert_eq(dfi_target_group_open(rig.dfi, &attr, &group), 0);
	for (t = 0; t < 2; t++) {
		targets[t] = open_target(rig.dfi, "f", t, 0);
		cr_assert_eq(dfi_target_group_add(group, targets[t], NULL), 0);
	}
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(
	    pthread_create(&thread, NULL, consume_from_group, group), 0);
	for (t = 0; t < 2; t++) {
		cr_assert(eventually(waits, &index[t]), "no wait is seen");
		cr_assert_geq(look_from(rig.other)->endpoints[t].stalls, 1);
		cr_assert(eventually(sleeps, &index[t]), "no sleep is seen");
	}
	cr_assert_eq(dfi_source_close(source), 0);
	pthread_join(thread, NULL);
	for (t = 0; t < 2; t++) {
		cr_assert_eq(look_from(rig.other)->endpoints[t].waiting_ns, 0);
		dfi_target_query(targets[t], &stats);
		cr_assert_geq(stats.sleeps, 1);
		cr_assert_geq(stats.stall_ns, 1);
	}
	cr_assert_eq(dfi_target_group_close(group), 0);
	for (t = 0; t < 2; t++)
		cr_assert_eq(dfi_target_close(targets[t]), 0);
}

struct pushing {
	struct dfi_source *source;
	int ret;
};

static void *fill_target_one(void *arg)
{
	struct pushing *pushing = arg;
	struct kv kv = { .key = 1 };
	int i;

	for (i = 0; i < 1000 && !pushing->ret; i++)
		pushing->ret = dfi_source_push_to(pushing->source, 1, &kv);
	return NULL;
}

Test(counters, source_reports_which_target_it_waits_for)
{
	struct pushing pushing = { .ret = 0 };
	struct dfi_target *targets[2];
	uint32_t index = 2;
	pthread_t thread;
	struct view *view;

	create_kv_flow(rig.dfi, "f", 1, 2, 3, 4);
	targets[0] = open_target(rig.dfi, "f", 0, 0);
	targets[1] = open_target(rig.dfi, "f", 1, 0);
	pushing.source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(
	    pthread_create(&thread, NULL, fill_target_one, &pushing), 0);
	cr_assert(eventually(waits, &index), "no wait is seen");
	view = look_from(rig.other);
	cr_assert_eq(view->endpoints[2].waits_for, 1);
	dfi_source_abort(pushing.source);
	pthread_join(thread, NULL);
	cr_assert_eq(pushing.ret, -ECANCELED);
	cr_assert_eq(dfi_source_close(pushing.source), -ECANCELED);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
}

/* How often others see an error whose text has this word. */
static uint64_t count_kept(const struct view *view, int code, const char *word)
{
	uint32_t i;

	for (i = 0; i < view->n_errors; i++)
		if (view->errors[i].code == code &&
		    strstr(view->errors[i].text, word))
			return view->errors[i].count;
	return 0;
}

Test(counters, errors_are_kept_and_seen_by_others)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_flow_attr small = DFI_FLOW_ATTR_INIT;
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	struct view *view;
	int i;

	small.kind = DFI_SHUFFLE;
	small.schema = &kv_schema;
	small.n_sources = small.n_targets = 1;
	small.segment_size = 15;
	cr_assert_eq(dfi_flow_create(rig.dfi, "g", &small), -EMSGSIZE);
	create_kv_flow(rig.dfi, "f", 2, 1, 3, 4);
	target = open_waiting_target(rig.dfi, DFI_WAIT_BLOCK, 20);
	source = open_source(rig.dfi, "f", 0, 0);
	attr.open_timeout_ms = SHORT_MS;
	for (i = 0; i < 3; i++)
		cr_assert_eq(dfi_target_consume(target, &tuple), -ETIMEDOUT);
	cr_assert_eq(
	    dfi_source_open(rig.dfi, "g", 0, &attr, &source), -ETIMEDOUT);
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 2, NULL, &source), -ERANGE);
	dfi_source_abort(source);
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
	for (i = 0; i < 3; i++)
		cr_assert_eq(dfi_target_consume(target, &tuple), -ECANCELED);
	view = look_from(rig.other);
	cr_assert_eq(count_kept(view, -EMSGSIZE, "flow 'g': a tuple of 16"), 1);
	/* The program has asked for this one. */
	cr_assert_eq(count_kept(view, -ETIMEDOUT, "no tuple came for 20"), 0);
	cr_assert_eq(count_kept(view, -ETIMEDOUT, "nobody has created it"), 1);
	cr_assert_eq(count_kept(view, -ECANCELED, "source 0"), 1);
	cr_assert_eq(count_kept(view, -ERANGE, ""), 0);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

struct lines {
	char text[16][512];
	unsigned n;
};

static void take_line(void *arg, enum dfi_log_level level, const char *line)
{
	struct lines *lines = arg;

	if (level == DFI_LOG_INFO && strstr(line, " is attached: ") &&
	    lines->n < 16)
		snprintf(lines->text[lines->n++], 512, "%s", line);
}

static void expect_words(const char *line, const char *const *words)
{
	for (; *words; words++)
		cr_assert(
		    strstr(line, *words), "no '%s' in '%s'", *words, line);
}

Test(counters, each_endpoint_logs_a_line_when_it_is_attached)
{
	static const char *const of_target[] = { "flow 'f': target 0 of 1",
		"sources by shared memory", "4 segments of 48 bytes",
		"tuples of 16", "for bandwidth", "doesn't block", NULL };
	static const char *const of_source[] = { "flow 'f': source 1 of 2",
		"targets: 1 by ", "4 segments of 48 bytes", "tuples of 16",
		"for bandwidth", "; sp", NULL };
	static struct lines lines;
	struct dfi_source *source;
	struct dfi_target *target;

	dfi_log_set(DFI_LOG_INFO, take_line, &lines);
	create_kv_flow(rig.dfi, "f", 2, 1, 3, 4);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 1, 0);
	cr_assert_eq(lines.n, 2);
	expect_words(lines.text[0], of_target);
	expect_words(lines.text[1], of_source);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(lines.n, 2);
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
}

static int stop_at_once(void *arg, const struct dfi_node_stats *stats)
{
	(void)stats;
	++*(int *)arg;
	return 5;
}

Test(counters, list_checks_its_arguments_and_can_be_ended)
{
	int calls = 0;

	assert_error(dfi_stats_list(rig.dfi, NULL, NULL), -EINVAL, "fn");
	assert_error(
	    dfi_stats_list(NULL, stop_at_once, &calls), -EINVAL, "context");
	cr_assert_eq(dfi_stats_list(rig.dfi, stop_at_once, &calls), 5);
	cr_assert_eq(calls, 1);
}

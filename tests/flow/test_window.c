/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of combiner flows, by count and by marks: random ones against a plain
 * loop, by each way to push and to consume; news of a window's end; waits
 * between sources; streams that end early or are truncated; early results for
 * lack of room; and the loop of a parameter server.
 */
#include <criterion/criterion.h>
#include <poll.h>
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

TestSuite(window, .init = setup, .fini = teardown, .timeout = 300);

enum {
	MAX_ENDS = 4,
	MAX_WINDOWS = 64,
	MAX_KEYS = 64,
	MAX_TUPLES = 4000, /* of a source */
};

static const struct dfi_aggregate aggregates[] = {
	{ .function = DFI_COUNT, .name = "count" },
	{ .function = DFI_SUM, .field = "val", .name = "sum" },
	{ .function = DFI_MAX, .field = "val", .name = "most" },
};

struct result {
	uint64_t key, count, sum, most;
};

static struct dfi_flow_attr flow_attr(
    uint32_t n_sources, uint32_t n_targets, uint64_t window_tuples)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_COMBINE;
	attr.schema = &kv_schema;
	attr.n_sources = n_sources;
	attr.n_targets = n_targets;
	attr.combine.aggregates = aggregates;
	attr.combine.n_aggregates = N_ELEMENTS(aggregates);
	attr.combine.group_by = "key";
	attr.combine.window_tuples = window_tuples;
	return attr;
}

static void create(const struct dfi_flow_attr *attr)
{
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

static void create_with_segments(uint32_t n_sources, uint32_t n_targets,
    uint64_t window_tuples, uint32_t segment_tuples, uint32_t segment_count)
{
	struct dfi_flow_attr attr = flow_attr(
	    n_sources, n_targets, window_tuples);

	attr.segment_size = segment_tuples * (uint32_t)sizeof(struct kv);
	attr.segment_count = segment_count;
	create(&attr);
}

/* Merge what is known of a group; result->count 0: nothing was. */
static void merge(struct result *result, const struct result *other)
{
	result->key = other->key;
	result->count += other->count;
	result->sum += other->sum;
	if (other->most > result->most)
		result->most = other->most;
}

/* ---- Random windows against a plain loop
 * ---------------------------------------- */

struct scenario {
	uint64_t seed;
	uint32_t n_sources, n_targets;
	uint64_t window; /* window_tuples */
	uint32_t segment_tuples, segment_count;
	uint32_t n_keys, max_groups;
	bool latency, linger, nonblock, group;
};

struct end {
	const struct scenario *scenario;
	pthread_t thread;
	uint32_t index;
	char error[300]; /* "": none */
	/* A source's: */
	uint32_t n, n_windows;
	uint32_t ends[MAX_WINDOWS]; /* of windows: behind their last tuple */
	struct kv tuples[MAX_TUPLES];
	/* A target's: */
	uint32_t n_results;
	uint64_t window;
};

static struct end sources[MAX_ENDS], targets[MAX_ENDS];
static struct result expected[MAX_WINDOWS][MAX_KEYS];
static struct result got[MAX_WINDOWS][MAX_KEYS]; /* a key is one target's */

static void fail(struct end *end, const char *what)
{
	if (!end->error[0])
		snprintf(end->error, sizeof(end->error), "%s: %s", what,
		    dfi_errmsg());
}

/* The tuples of a source, and their windows. */
static void plan_source(struct end *source)
{
	const struct scenario *s = source->scenario;
	struct rng rng = { mix(s->seed, source->index) };
	uint32_t i, w, n = rng_below(&rng, MAX_TUPLES + 1);

	if (rng_below(&rng, 6) == 0)
		n = 0;
	if (s->window != DFI_WINDOW_MARKED && n > s->window * MAX_WINDOWS)
		n = (uint32_t)s->window * MAX_WINDOWS;
	source->n = n;
	for (i = 0; i < n; i++)
		source->tuples[i] = (struct kv){
			.key = rng_below(&rng, s->n_keys),
			.val = rng_next(&rng) >> 20,
		};
	source->n_windows = s->window == DFI_WINDOW_MARKED
	    ? rng_below(&rng, MAX_WINDOWS)
	    : (uint32_t)((n + s->window - 1) / s->window);
	for (w = i = 0; w < source->n_windows; w++) {
		if (s->window != DFI_WINDOW_MARKED)
			i += (uint32_t)s->window;
		else if (rng_below(&rng, 3))
			i += rng_below(&rng, 2 * MAX_TUPLES / MAX_WINDOWS);
		if (i > n)
			i = n;
		source->ends[w] = i;
	}
	/* The tuples behind the last mark. */
	if (!w || source->ends[w - 1] < n)
		source->ends[source->n_windows++] = n;
}

static void await(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	poll(&pollfd, 1, -1);
}

/* Whether to repeat a call on a source, after waiting. */
static bool again(struct dfi_source *source, int ret)
{
	if (ret != -EAGAIN)
		return false;
	await(dfi_source_fd(source));
	return true;
}

static int push_cursor(
    struct dfi_source *source, uint32_t to, const struct kv *tuples, uint32_t n)
{
	struct dfi_source_cursor cursor;
	uint32_t i = 0;
	int ret;

	do {
		cursor = dfi_source_cursor_open(source, to, sizeof(*tuples));
		while (i < n &&
		    !dfi_source_cursor_push(
			&cursor, &tuples[i], sizeof(*tuples)))
			i++;
		ret = dfi_source_cursor_close(cursor);
	} while (again(source, ret));
	return ret;
}

static int push_claimed(
    struct dfi_source *source, uint32_t to, const struct kv *tuples, uint32_t n)
{
	struct dfi_span span;
	uint32_t i, count;
	int ret;

	for (i = 0; i < n; i += count) {
		count = 0;
		ret = dfi_source_claim(source, to, &span);
		if (again(source, ret))
			continue;
		if (ret < 0)
			return ret;
		count = n - i < span.count ? n - i : span.count;
		memcpy(span.tuples, &tuples[i], count * sizeof(*tuples));
		ret = dfi_source_commit(source, &span, count);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int push_batch(
    struct dfi_source *source, const struct kv *tuples, uint32_t n)
{
	uint32_t i = 0;
	int ret;

	while (i < n) {
		ret = dfi_source_push_batch(source, &tuples[i], n - i);
		if (ret < 0 && !again(source, ret))
			return ret;
		i += ret > 0 ? (uint32_t)ret : 0;
	}
	return 0;
}

/* Push some tuples of the source in one of the ways. */
static int push_some(struct dfi_source *source, struct rng *rng,
    uint32_t n_targets, const struct kv *tuples, uint32_t n)
{
	uint32_t to = dfi_hash64_partition(tuples->key, n_targets), run = 1;
	uint32_t i, way = rng_below(rng, 5);
	int ret = 0;

	while (
	    run < n && dfi_hash64_partition(tuples[run].key, n_targets) == to)
		run++;
	if (way == 0)
		return push_batch(source, tuples, n);
	for (i = 0; !ret && i < n && way == 1; i++)
		do
			ret = dfi_source_push(source, &tuples[i]);
		while (again(source, ret));
	if (way == 1)
		return ret;
	/* To one target alone. */
	ret = way == 2 ? push_cursor(source, to, tuples, run)
		       : push_claimed(source, to, tuples, run);
	if (!ret && way == 4)
		do
			ret = dfi_source_flush(source);
		while (again(source, ret));
	return !ret && run < n ? push_batch(source, tuples + run, n - run)
			       : ret;
}

static int push_windows(struct dfi_source *source, struct end *end)
{
	const struct scenario *s = end->scenario;
	struct rng rng = { mix(s->seed, 100 + end->index) };
	bool marks = s->window == DFI_WINDOW_MARKED;
	uint32_t n, w, i = 0;
	int ret = 0;

	for (w = 0; w < end->n_windows; w++) {
		while (i < end->ends[w]) {
			n = 1 + rng_below(&rng, 200);
			/* Without marks, also across the windows' ends. */
			if (marks && n > end->ends[w] - i)
				n = end->ends[w] - i;
			if (n > end->n - i)
				n = end->n - i;
			ret = push_some(
			    source, &rng, s->n_targets, &end->tuples[i], n);
			if (ret < 0)
				return ret;
			i += n;
		}
		/* The last one ends with the source, or before. */
		if (!marks || (w + 1 == end->n_windows && s->seed % 2))
			continue;
		do
			ret = dfi_source_mark(source, w + 1);
		while (again(source, ret));
		if (ret < 0)
			return ret;
	}
	return 0;
}

static void *run_source(void *arg)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct end *end = arg;
	struct dfi_source *source;

	attr.flags = end->scenario->nonblock ? DFI_NONBLOCK : 0;
	attr.linger_us = end->scenario->linger ? 50 : DFI_NO_LINGER;
	if (dfi_source_open(rig.other, "f", end->index, &attr, &source) < 0) {
		fail(end, "open");
		return NULL;
	}
	if (push_windows(source, end) < 0)
		fail(end, "push");
	if (dfi_source_close(source) < 0)
		fail(end, "close");
	return NULL;
}

static int keep(
    struct dfi_target *target, struct end *end, const struct result *result)
{
	const struct scenario *s = end->scenario;
	uint64_t window;

	if (dfi_target_window(target, &window) < 0)
		return -1;
	if (window < end->window || window >= MAX_WINDOWS ||
	    result->key >= s->n_keys || !result->count ||
	    dfi_hash64_partition(result->key, s->n_targets) != end->index ||
	    (!s->max_groups && got[window][result->key].count)) {
		snprintf(end->error, sizeof(end->error),
		    "key %lu of window %lu, after one of %lu",
		    (unsigned long)result->key, (unsigned long)window,
		    (unsigned long)end->window);
		return -1;
	}
	end->window = window;
	end->n_results++;
	merge(&got[window][result->key], result);
	return 0;
}

static int keep_batch(
    struct dfi_target *target, struct end *end, const struct dfi_batch *batch)
{
	uint32_t i;

	for (i = 0; i < batch->count; i++)
		if (keep(target, end, (const struct result *)batch->tuples + i))
			return -1;
	return 1;
}

static int take_batch(struct dfi_target *target, struct end *end)
{
	struct dfi_batch batch;
	int ret = dfi_target_consume_batch(target, &batch);

	if (ret > 0) {
		ret = keep_batch(target, end, &batch);
		dfi_target_release(target, &batch);
	}
	return ret;
}

static int take_one(struct dfi_target *target, struct end *end)
{
	const void *tuple;
	int ret = dfi_target_consume(target, &tuple);

	return ret > 0 && keep(target, end, tuple) ? -1 : ret;
}

static int take_cursor(struct dfi_target *target, struct end *end)
{
	struct dfi_target_cursor cursor = dfi_target_cursor_open(
	    target, sizeof(struct result));
	const struct result *result;
	int ret = 0;

	while (
	    !ret && (result = dfi_target_cursor_get(&cursor, sizeof(*result))))
		ret = keep(target, end, result);
	return ret ? ret : dfi_target_cursor_close(cursor);
}

static int take_all(struct dfi_target *target, struct end *end)
{
	struct rng rng = { mix(end->scenario->seed, 200 + end->index) };
	uint32_t way;
	int ret;

	do {
		way = rng_below(&rng, 40);
		ret = way == 0 ? take_cursor(target, end)
		    : way % 2  ? take_batch(target, end)
			       : take_one(target, end);
		if (ret == -EAGAIN) {
			await(dfi_target_fd(target));
			ret = 1;
		}
	} while (ret > 0);
	return ret;
}

static void *run_target(void *arg)
{
	struct end *end = arg;
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target;

	attr.flags = end->scenario->nonblock ? DFI_NONBLOCK : 0;
	if (dfi_target_open(rig.dfi, "f", end->index, &attr, &target) < 0) {
		fail(end, "open");
		return NULL;
	}
	if (take_all(target, end) < 0)
		fail(end, "consume");
	if (dfi_target_close(target) < 0)
		fail(end, "close");
	return NULL;
}

/* All targets, in one thread. */
static void *run_group(void *arg)
{
	struct end *ends = arg;
	const struct scenario *s = ends->scenario;
	struct dfi_target_group_attr attr = DFI_TARGET_GROUP_ATTR_INIT;
	struct dfi_target_group_batch batch;
	struct dfi_target_group *group;
	struct dfi_target *all[MAX_ENDS];
	uint32_t i;
	int ret;

	attr.flags = s->nonblock ? DFI_NONBLOCK : 0;
	if (dfi_target_group_open(rig.dfi, &attr, &group) < 0) {
		fail(ends, "group");
		return NULL;
	}
	for (i = 0; i < s->n_targets; i++)
		if (dfi_target_open(rig.dfi, "f", i, NULL, &all[i]) < 0 ||
		    dfi_target_group_add(group, all[i], &ends[i]) < 0)
			fail(&ends[i], "open");
	while (!ends->error[0]) {
		ret = dfi_target_group_consume_batch(group, &batch);
		if (ret == 0)
			break;
		if (ret == -EAGAIN)
			await(dfi_target_group_fd(group));
		else if (ret < 0)
			fail(ends, "consume");
		else if (keep_batch(batch.target, batch.arg, &batch.batch) < 0)
			fail(ends, "keep");
		dfi_target_group_release(group, &batch);
	}
	dfi_target_group_close(group);
	for (i = 0; i < s->n_targets; i++)
		if (dfi_target_close(all[i]) < 0)
			fail(&ends[i], "close");
	return NULL;
}

static void expect_source(const struct end *source)
{
	struct result *result, one;
	uint32_t w, i = 0;

	for (w = 0; w < source->n_windows; w++)
		for (; i < source->ends[w]; i++) {
			result = &expected[w][source->tuples[i].key];
			one = (struct result){ source->tuples[i].key, 1,
				source->tuples[i].val, source->tuples[i].val };
			merge(result, &one);
		}
	cr_assert_eq(i, source->n);
}

static void start(struct end *end, void *(*run)(void *))
{
	cr_assert_eq(pthread_create(&end->thread, NULL, run, end), 0);
}

static void join(struct end *ends, uint32_t n, const char *role)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (ends[i].thread)
			pthread_join(ends[i].thread, NULL);
	for (i = 0; i < n; i++)
		cr_assert_str_empty(ends[i].error, "seed %lu: %s %u: %s",
		    (unsigned long)ends[i].scenario->seed, role, i,
		    ends[i].error);
}

static void run(const struct scenario *s)
{
	struct dfi_flow_attr attr = flow_attr(
	    s->n_sources, s->n_targets, s->window);
	uint32_t i, w, k;

	attr.goal = s->latency ? DFI_LATENCY : DFI_BANDWIDTH;
	if (!s->latency)
		attr.segment_size = s->segment_tuples *
		    (uint32_t)sizeof(struct kv);
	/* A partial aggregate takes as much as two tuples. */
	if (!s->latency && s->segment_tuples >= 2)
		attr.combine.source_combining = s->seed / 2 % 4;
	attr.segment_count = s->segment_count;
	attr.combine.max_groups = s->max_groups;
	attr.combine.when_full = s->max_groups ? DFI_FULL_EMIT : DFI_FULL_FAIL;
	attr.verify = s->seed % 3 == 0 ? DFI_VERIFY_CHECKSUM : DFI_VERIFY_NONE;
	create(&attr);
	memset(sources, 0, sizeof(sources));
	memset(targets, 0, sizeof(targets));
	memset(expected, 0, sizeof(expected));
	memset(got, 0, sizeof(got));
	for (i = 0; i < MAX_ENDS; i++) {
		sources[i].scenario = targets[i].scenario = s;
		sources[i].index = targets[i].index = i;
	}
	for (i = 0; i < s->n_sources; i++) {
		plan_source(&sources[i]);
		expect_source(&sources[i]);
	}
	if (s->group)
		start(&targets[0], run_group);
	for (i = 0; i < s->n_targets && !s->group; i++)
		start(&targets[i], run_target);
	for (i = 0; i < s->n_sources; i++)
		start(&sources[i], run_source);
	join(sources, s->n_sources, "source");
	join(targets, s->n_targets, "target");
	for (w = 0; w < MAX_WINDOWS; w++)
		for (k = 0; k < s->n_keys; k++)
			cr_assert_eq(memcmp(&got[w][k], &expected[w][k],
					 sizeof(got[w][k])),
			    0,
			    "seed %lu: window %u, key %u: count %lu, not %lu",
			    (unsigned long)s->seed, w, k,
			    (unsigned long)got[w][k].count,
			    (unsigned long)expected[w][k].count);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

static void run_seed(uint64_t seed)
{
	static const uint64_t windows[] = { 1, 2, 3, 7, 64, 100, 1000,
		UINT64_MAX - 1 };
	struct rng rng = { mix(seed, 7) };
	struct scenario s = {
		.seed = seed,
		.n_sources = 1 + rng_below(&rng, MAX_ENDS),
		.n_targets = 1 + rng_below(&rng, MAX_ENDS),
		.window = rng_below(&rng, 2)
		    ? DFI_WINDOW_MARKED
		    : windows[rng_below(&rng, N_ELEMENTS(windows))],
		.segment_tuples = 1 + rng_below(&rng, 40),
		.n_keys = 1 + rng_below(&rng, MAX_KEYS),
		.latency = rng_below(&rng, 5) == 0,
		.linger = rng_below(&rng, 3) == 0,
		.nonblock = rng_below(&rng, 2),
		.group = rng_below(&rng, 3) == 0,
	};

	/* One that lingers needs two. */
	s.segment_count = 1 + s.linger + rng_below(&rng, 8);
	if (rng_below(&rng, 3) == 0)
		s.max_groups = 1 + rng_below(&rng, 20);
	run(&s);
}

Test(window, random_windows_equal_a_plain_loop)
{
	uint64_t first = test_setting("SEED", 1), i;

	for (i = 0; i < test_setting("WINDOW_SEEDS", 60); i++)
		run_seed(first + i);
}

/* ---- Who is told what, and when
 * -------------------------------------------------- */

static void push_kv(struct dfi_source *source, uint64_t key, uint64_t val)
{
	cr_assert_eq(
	    push_soon(source, &(struct kv){ key, val }), 0, "%s", dfi_errmsg());
}

static uint64_t mark_value;
static int mark_ret;

static bool mark_has_room(void *source)
{
	mark_ret = dfi_source_mark(source, mark_value);
	return mark_ret != -EAGAIN;
}

static void mark(struct dfi_source *source, uint64_t value)
{
	mark_value = value;
	cr_assert(eventually(mark_has_room, source));
	cr_assert_eq(mark_ret, 0, "%s", dfi_errmsg());
}

/* The next result is this one. */
static void expect(
    struct dfi_target *target, uint64_t window, uint64_t key, uint64_t sum)
{
	const struct result *result;
	const void *tuple;
	uint64_t of;

	cr_assert_eq(consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_window(target, &of), 0);
	result = tuple;
	cr_assert_eq(of, window, "window %lu", (unsigned long)of);
	cr_assert_eq(result->key, key);
	cr_assert_eq(result->sum, sum);
}

/* A key that this of n targets has. */
static uint64_t key_of(uint32_t target, uint32_t n_targets)
{
	uint64_t key = 1;

	while (dfi_hash64_partition(key, n_targets) != target)
		key++;
	return key;
}

Test(window, a_mark_reaches_targets_that_got_nothing)
{
	uint64_t keys[] = { key_of(0, 2), key_of(1, 2) };
	struct dfi_source *source;
	struct dfi_target *all[2];

	create_with_segments(1, 2, DFI_WINDOW_MARKED, 8, 4);
	all[0] = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	all[1] = open_target(rig.dfi, "f", 1, DFI_NONBLOCK);
	source = open_source(rig.other, "f", 0, 0);
	push_kv(source, keys[0], 5);
	cr_assert_eq(dfi_source_flush(source), 0);
	expect_nothing(all[0]);
	mark(source, 1);
	expect(all[0], 0, keys[0], 5);
	expect_nothing(all[0]);
	/* An empty one, for all. */
	mark(source, 2);
	push_kv(source, keys[1], 6);
	expect_nothing(all[1]);
	mark(source, 3);
	expect(all[1], 2, keys[1], 6);
	push_kv(source, keys[0], 7);
	cr_assert_eq(dfi_source_close(source), 0);
	expect(all[0], 3, keys[0], 7);
	end_target(all[0]);
	end_target(all[1]);
}

Test(window, a_window_of_n_tuples_ends_with_the_last_at_all_targets)
{
	uint64_t keys[] = { key_of(0, 2), key_of(1, 2) };
	struct dfi_source *source;
	struct dfi_target *all[2];

	create_with_segments(1, 2, 3, 8, 4);
	all[0] = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	all[1] = open_target(rig.dfi, "f", 1, DFI_NONBLOCK);
	source = open_source(rig.other, "f", 0, 0);
	push_kv(source, keys[0], 1);
	push_kv(source, keys[1], 2);
	cr_assert_eq(dfi_source_flush(source), 0);
	expect_nothing(all[0]);
	expect_nothing(all[1]);
	push_kv(source, keys[0], 3);
	expect(all[0], 0, keys[0], 4);
	expect(all[1], 0, keys[1], 2);
	push_kv(source, keys[1], 4);
	push_kv(source, keys[1], 5);
	push_kv(source, keys[1], 6);
	expect(all[1], 1, keys[1], 15);
	expect_nothing(all[0]);
	cr_assert_eq(dfi_source_close(source), 0);
	end_target(all[0]);
	end_target(all[1]);
}

Test(window, results_wait_for_the_slowest_source)
{
	struct dfi_source *all[2];
	struct dfi_target *target;

	create_with_segments(2, 1, DFI_WINDOW_MARKED, 8, 4);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	all[0] = open_source(rig.other, "f", 0, 0);
	all[1] = open_source(rig.other, "f", 1, 0);
	push_kv(all[0], 1, 10);
	mark(all[0], 1);
	push_kv(all[0], 1, 20);
	mark(all[0], 2);
	expect_nothing(target);
	push_kv(all[1], 1, 1);
	mark(all[1], 1);
	expect(target, 0, 1, 11);
	expect_nothing(target);
	/* A source that ends, ends all its windows. */
	push_kv(all[1], 1, 2);
	cr_assert_eq(dfi_source_close(all[1]), 0);
	expect(target, 1, 1, 22);
	push_kv(all[0], 1, 30);
	mark(all[0], 3);
	expect(target, 2, 1, 30);
	cr_assert_eq(dfi_source_close(all[0]), 0);
	end_target(target);
}

Test(window, sources_that_have_ended_are_not_waited_for)
{
	struct dfi_source *all[2];
	struct dfi_target *target;

	create_with_segments(2, 1, DFI_WINDOW_MARKED, 8, 8);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	all[0] = open_source(rig.other, "f", 0, 0);
	all[1] = open_source(rig.other, "f", 1, 0);
	/* It is blocked when it ends. */
	push_kv(all[0], 1, 10);
	mark(all[0], 1);
	push_kv(all[0], 1, 20);
	cr_assert_eq(dfi_source_close(all[0]), 0);
	expect_nothing(target);
	mark(all[1], 1);
	expect(target, 0, 1, 10);
	expect_nothing(target);
	mark(all[1], 2);
	expect(target, 1, 1, 20);
	mark(all[1], 3);
	expect_nothing(target);
	push_kv(all[1], 2, 3);
	cr_assert_eq(dfi_source_close(all[1]), 0);
	expect(target, 3, 2, 3);
	end_target(target);
}

static int poll_now(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, (int)LONG_MS);
}

/* One is ahead as far as its ring allows; then the other one follows. */
static void run_ahead(uint64_t window_tuples)
{
	struct dfi_source *all[2];
	struct dfi_target *target;
	bool marks = window_tuples == DFI_WINDOW_MARKED;
	bool pushed = false;
	uint64_t n, w;
	const void *tuple;
	int ret = 0, fd;

	create_with_segments(2, 1, window_tuples, 4, 4);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	all[0] = open_source(rig.other, "f", 0, DFI_NONBLOCK);
	all[1] = open_source(rig.other, "f", 1, DFI_NONBLOCK);
	fd = dfi_source_fd(all[0]);
	for (n = 0; n < 100; n++) {
		ret = dfi_source_push(all[0], &(struct kv){ 1, 1 });
		pushed = ret == 0;
		if (ret == 0 && marks)
			ret = dfi_source_mark(all[0], n + 1);
		if (ret)
			break;
		/* All consumed tuples are of the first window. */
		cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN);
	}
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
	cr_assert_lt(n, 8);
	for (w = 0; w < n; w++) {
		push_kv(all[1], 1, 1);
		if (marks)
			mark(all[1], w + 1);
		expect(target, w, 1, 2);
	}
	expect_nothing(target);
	cr_assert_eq(poll_now(fd), 1);
	/* Repeat the refused push. */
	if (!pushed)
		push_kv(all[0], 1, 1);
	if (marks)
		mark(all[0], n + 1);
	cr_assert_eq(dfi_source_close(all[0]), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(all[1]), 0, "%s", dfi_errmsg());
	expect(target, n, 1, 1);
	end_target(target);
}

Test(window, a_source_that_marks_is_ahead_by_a_ring)
{
	run_ahead(DFI_WINDOW_MARKED);
}

Test(window, a_source_that_counts_is_ahead_by_a_ring)
{
	run_ahead(1);
}

/*
 * The refused push succeeds when both targets have emptied their rings, whose
 * tuples may still be on their way at their first look.
 */
static void expect_room(bool (*has_room)(void *source),
    struct dfi_source *source, struct dfi_target *all[2])
{
	int64_t deadline = now_ms() + LONG_MS;

	while (!has_room(source)) {
		cr_assert_lt(now_ms(), deadline);
		expect_nothing(all[0]);
		expect_nothing(all[1]);
	}
}

static struct kv last;
static int push_ret;

static bool push_has_room(void *source)
{
	push_ret = dfi_source_push(source, &last);
	return push_ret != -EAGAIN;
}

/*
 * One of two targets consumes, the other's ring is full: neither hears of the
 * window's end before both can.
 */
Test(window, a_mark_is_for_all_targets_or_for_none)
{
	uint64_t keys[] = { key_of(0, 2), key_of(1, 2) }, n = 0;
	struct dfi_source *source;
	struct dfi_target *all[2];
	int ret;

	create_with_segments(1, 2, DFI_WINDOW_MARKED, 1, 2);
	all[0] = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	all[1] = open_target(rig.dfi, "f", 1, DFI_NONBLOCK);
	source = open_source(rig.other, "f", 0, DFI_NONBLOCK);
	push_kv(source, keys[0], 1);
	while (!(ret = dfi_source_push(source, &(struct kv){ keys[1], 1 })))
		n++;
	cr_assert_eq(ret, -EAGAIN);
	assert_error(dfi_source_mark(source, 1), -EAGAIN, "full");
	expect_nothing(all[0]);
	/* The window goes on. */
	push_kv(source, keys[0], 2);
	expect_nothing(all[1]);
	mark_value = 1;
	expect_room(mark_has_room, source, all);
	cr_assert_eq(mark_ret, 0, "%s", dfi_errmsg());
	expect(all[0], 0, keys[0], 3);
	expect(all[1], 0, keys[1], n);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	end_target(all[0]);
	end_target(all[1]);
}

/* The same, of the last tuple of a window. */
Test(window, the_last_tuple_waits_for_all_targets)
{
	uint64_t keys[] = { key_of(0, 2), key_of(1, 2) };
	struct dfi_source *source;
	struct dfi_target *all[2];

	create_with_segments(1, 2, 4, 1, 2);
	all[0] = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	all[1] = open_target(rig.dfi, "f", 1, DFI_NONBLOCK);
	source = open_source(rig.other, "f", 0, DFI_NONBLOCK);
	push_kv(source, keys[0], 1);
	push_kv(source, keys[1], 2);
	push_kv(source, keys[1], 3);
	assert_error(dfi_source_push(source, &(struct kv){ keys[0], 4 }),
	    -EAGAIN, "full");
	expect_nothing(all[0]);
	expect_nothing(all[1]);
	last = (struct kv){ keys[0], 4 };
	expect_room(push_has_room, source, all);
	cr_assert_eq(push_ret, 0, "%s", dfi_errmsg());
	expect(all[0], 0, keys[0], 5);
	expect(all[1], 0, keys[1], 5);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	end_target(all[0]);
	end_target(all[1]);
}

Test(window, a_mark_that_was_refused_and_not_repeated_fails_the_source)
{
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	uint64_t value = 1;
	int ret;

	create_with_segments(1, 1, DFI_WINDOW_MARKED, 1, 2);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.other, "f", 0, DFI_NONBLOCK);
	while (!(ret = dfi_source_mark(source, value)))
		value++;
	cr_assert_eq(ret, -EAGAIN);
	assert_error(dfi_source_close(source), -EAGAIN, "mark", "not repeated");
	assert_error(dfi_target_consume(target, &tuple), -ECANCELED, "aborted");
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

/* ---- Streams that are cut short
 * -------------------------------------------------- */

Test(window, an_aborted_source_leaves_the_windows_that_all_have_ended)
{
	struct dfi_source *all[2];
	struct dfi_target *target;
	const void *tuple;

	create_with_segments(2, 1, DFI_WINDOW_MARKED, 8, 8);
	target = open_target(rig.dfi, "f", 0, 0);
	all[0] = open_source(rig.other, "f", 0, 0);
	all[1] = open_source(rig.other, "f", 1, 0);
	push_kv(all[0], 1, 1);
	mark(all[0], 1);
	push_kv(all[0], 1, 2);
	mark(all[0], 2);
	push_kv(all[0], 1, 3);
	dfi_source_abort(all[0]);
	cr_assert_eq(dfi_source_close(all[0]), -ECANCELED);
	push_kv(all[1], 1, 10);
	mark(all[1], 1);
	expect(target, 0, 1, 11);
	push_kv(all[1], 1, 20);
	mark(all[1], 2);
	expect(target, 1, 1, 22);
	mark(all[1], 3);
	assert_error(dfi_target_consume(target, &tuple), -ECANCELED, "aborted");
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
	cr_assert_eq(dfi_source_close(all[1]), -ECONNRESET);
}

static void cancel_one(uint64_t window_tuples)
{
	uint64_t keys[] = { key_of(0, 2), key_of(1, 2) };
	bool marks = window_tuples == DFI_WINDOW_MARKED;
	struct dfi_source *source;
	struct dfi_target *all[2];
	uint64_t w;

	create_with_segments(1, 2, window_tuples, 1, 2);
	all[0] = open_target(rig.dfi, "f", 0, 0);
	all[1] = open_target(rig.dfi, "f", 1, 0);
	source = open_source(rig.other, "f", 0, 0);
	push_kv(source, keys[1], 1);
	push_kv(source, keys[0], 1);
	if (marks)
		mark(source, 1);
	cr_assert_eq(dfi_target_cancel(all[1]), 0);
	cr_assert_eq(dfi_target_close(all[1]), 0);
	expect(all[0], 0, keys[0], 1);
	/* More than its ring could hold. */
	for (w = 1; w < 20; w++) {
		push_kv(source, keys[0], w);
		if (w % 2)
			cr_assert_eq(
			    dfi_source_push(source, &(struct kv){ keys[1], 1 }),
			    -EPIPE);
		if (marks)
			mark(source, w + 1);
		else
			push_kv(source, keys[0], 0);
		expect(all[0], w, keys[0], w);
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	end_target(all[0]);
}

Test(window, marks_are_not_for_targets_that_have_cancelled)
{
	cancel_one(DFI_WINDOW_MARKED);
}

/* Dropped tuples don't count either. */
Test(window, counts_are_not_for_targets_that_have_cancelled)
{
	cancel_one(2);
}

/* ---- Refusals
 * ---------------------------------------------------------------------- */

Test(window, marks_belong_to_flows_that_are_marked)
{
	struct dfi_flow_attr attr = flow_attr(1, 1, 0);
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_span span;
	const void *tuple;
	uint64_t window;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.other, "f", 0, 0);
	assert_error(dfi_source_mark(source, 1), -EPROTOTYPE, "flow 'f'",
	    "source 0", "no windows", "DFI_WINDOW_MARKED");
	assert_error(dfi_target_window(target, &window), -EPROTOTYPE,
	    "flow 'f'", "target 0", "no windows");
	cr_assert_eq(dfi_source_close(source), 0);
	end_target(target);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	attr = flow_attr(1, 1, 5);
	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.other, "f", 0, 0);
	assert_error(
	    dfi_source_mark(source, 1), -EPROTOTYPE, "after window_tuples");
	assert_error(dfi_source_claim_n(source, 0, 2, &span), -EMSGSIZE,
	    "at most 1", "DFI_WINDOW_MARKED");
	assert_error(dfi_target_window(target, &window), -ENOENT, "no results");
	assert_error(dfi_target_window(target, NULL), -EINVAL, "NULL");
	assert_error(dfi_target_window(NULL, &window), -EINVAL, "NULL");
	assert_error(dfi_source_mark(NULL, 1), -EINVAL, "NULL");
	/* The claim was the last that was to move tuples. */
	cr_assert_eq(dfi_source_close(source), -EMSGSIZE);
	cr_assert_eq(consume_soon(target, &tuple), -ECANCELED);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

Test(window, a_cursor_must_be_closed_before_a_mark)
{
	struct dfi_source_cursor cursor;
	struct dfi_source *source;
	struct dfi_target *target;

	create_with_segments(1, 1, DFI_WINDOW_MARKED, 8, 4);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.other, "f", 0, 0);
	cursor = dfi_source_cursor_open(source, 0, sizeof(struct kv));
	assert_error(dfi_source_mark(source, 1), -EBUSY, "cursor");
	cr_assert_eq(dfi_source_cursor_close(cursor), 0);
	mark(source, 1);
	cr_assert_eq(dfi_source_close(source), 0);
	end_target(target);
}

Test(window, a_span_that_is_lent_ends_with_the_window)
{
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_span span;
	const void *tuple;

	create_with_segments(1, 1, DFI_WINDOW_MARKED, 8, 1);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.other, "f", 0, 0);
	cr_assert_eq(dfi_source_claim(source, 0, &span), 0);
	mark(source, 1);
	assert_error(dfi_source_commit(source, &span, 1), -EINVAL, "span");
	cr_assert_eq(dfi_source_close(source), -EINVAL);
	cr_assert_eq(consume_soon(target, &tuple), -ECANCELED);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

Test(window, what_makes_no_sense_is_refused)
{
	struct dfi_flow_attr attr = flow_attr(1, 1, 0);
	struct dfi_flow_attr shuffle = DFI_FLOW_ATTR_INIT;

	attr.combine.when_full = DFI_FULL_EMIT + 1;
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -EINVAL, "flow 'f'",
	    "when_full 2");
	shuffle.kind = DFI_SHUFFLE;
	shuffle.schema = &kv_schema;
	shuffle.n_sources = shuffle.n_targets = 1;
	shuffle.combine.window_tuples = 1;
	assert_error(dfi_flow_create(rig.dfi, "f", &shuffle), -EINVAL,
	    "window_tuples is for flows of kind DFI_COMBINE");
	shuffle.combine.window_tuples = 0;
	shuffle.combine.when_full = DFI_FULL_EMIT;
	assert_error(dfi_flow_create(rig.dfi, "f", &shuffle), -EINVAL,
	    "when_full is for flows of kind DFI_COMBINE");
}

/* ---- No room for all groups
 * ------------------------------------------------------- */

Test(window, results_come_early_when_there_is_no_room_for_more_groups)
{
	struct dfi_flow_attr attr = flow_attr(1, 1, 0);
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_batch batch;
	const struct result *results;
	uint64_t i, n[8] = { 0 }, sum[8] = { 0 };
	int ret;

	attr.combine.max_groups = 3;
	attr.combine.when_full = DFI_FULL_EMIT;
	attr.combine.source_combining = DFI_COMBINING_OFF;
	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.other, "f", 0, 0);
	for (i = 0; i < 80; i++)
		push_kv(source, i % 8, i);
	cr_assert_eq(dfi_source_flush(source), 0);
	/* They come before the flow ends, and stay while they are lent. */
	cr_assert_eq(dfi_target_consume_batch(target, &batch), 3);
	assert_error(dfi_target_consume_batch(target, &batch), -EBUSY, "batch");
	results = batch.tuples;
	cr_assert_eq(results[2].key, 2);
	cr_assert_eq(results[2].count, 1);
	cr_assert_eq(dfi_source_close(source), 0);
	do {
		results = batch.tuples;
		for (i = 0; i < batch.count; i++) {
			n[results[i].key] += results[i].count;
			sum[results[i].key] += results[i].sum;
		}
		dfi_target_release(target, &batch);
		ret = dfi_target_consume_batch(target, &batch);
	} while (ret > 0);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	for (i = 0; i < 8; i++) {
		cr_assert_eq(n[i], 10);
		cr_assert_eq(sum[i], 10 * i + 8 * 45);
	}
	cr_assert_eq(dfi_target_close(target), 0);
}

/* ---- A parameter server
 * ----------------------------------------------------------- */

enum {
	WORKERS = 3,
	SERVERS = 2,
	WEIGHTS = 500,
	ITERATIONS = 40,
};

struct trainer {
	pthread_t thread;
	uint32_t index;
	bool marks;
	char error[300];
	double weights[WEIGHTS];
};

struct weight {
	uint64_t key;
	double value;
};

static const struct dfi_field weight_fields[] = {
	DFI_FIELD(struct weight, key),
	DFI_FIELD(struct weight, value),
};
static const struct dfi_schema weight_schema = DFI_SCHEMA(
    struct weight, weight_fields);

static struct trainer workers[WORKERS], servers[SERVERS];

/* All values are exact, in whatever order they are added. */
static double gradient(double weight, uint32_t worker, uint32_t i)
{
	return -0.25 * weight + worker + (double)(i % 7);
}

static double rounded(double weight)
{
	return (double)(int64_t)weight;
}

static void *fail_trainer(struct trainer *trainer, const char *what)
{
	snprintf(trainer->error, sizeof(trainer->error), "%s: %s", what,
	    dfi_errmsg());
	return NULL;
}

static int train(struct trainer *worker, struct dfi_source *gradients,
    struct dfi_target *weights, uint64_t step)
{
	const struct weight *weight;
	const void *tuple;
	struct weight one;
	uint32_t i;
	int ret;

	for (i = 0; i < WEIGHTS; i++) {
		one = (struct weight){ i,
			gradient(worker->weights[i], worker->index, i) };
		ret = dfi_source_push(gradients, &one);
		if (ret < 0)
			return ret;
	}
	ret = worker->marks ? dfi_source_mark(gradients, step) : 0;
	for (i = 0; !ret && i < WEIGHTS; i++) {
		ret = dfi_target_consume(weights, &tuple) > 0 ? 0 : -1;
		if (ret)
			break;
		weight = tuple;
		worker->weights[weight->key] = weight->value;
	}
	return ret;
}

static void *run_worker(void *arg)
{
	struct trainer *worker = arg;
	struct dfi_source *gradients;
	struct dfi_target *weights;
	const void *tuple;
	uint32_t i;
	int ret = 0;

	if (dfi_target_open(
		rig.other, "weights", worker->index, NULL, &weights) < 0)
		return fail_trainer(worker, "open weights");
	if (dfi_source_open(
		rig.other, "gradients", worker->index, NULL, &gradients) < 0)
		return fail_trainer(worker, "open gradients");
	for (i = 0; !ret && i < ITERATIONS; i++)
		ret = train(worker, gradients, weights, i + 1);
	if (ret)
		fail_trainer(worker, "train");
	if (dfi_source_close(gradients) < 0)
		fail_trainer(worker, "close gradients");
	if (!ret && dfi_target_consume(weights, &tuple))
		fail_trainer(worker, "end of weights");
	if (dfi_target_close(weights) < 0)
		fail_trainer(worker, "close weights");
	return NULL;
}

static int serve(struct trainer *server, struct dfi_target *gradients,
    struct dfi_source *weights, uint64_t window)
{
	const struct weight *sum;
	const void *tuple;
	struct weight one;
	uint64_t of;
	uint32_t i, n = 0;
	int ret;

	for (i = 0; i < WEIGHTS; i++)
		n += dfi_hash64_partition(i, SERVERS) == server->index;
	while (n--) {
		ret = dfi_target_consume(gradients, &tuple);
		if (ret <= 0 || dfi_target_window(gradients, &of) < 0 ||
		    of != window)
			return -1;
		sum = tuple;
		one.key = sum->key;
		one.value = rounded(server->weights[sum->key] + sum->value);
		server->weights[sum->key] = one.value;
		ret = dfi_source_push(weights, &one);
		if (ret < 0)
			return ret;
	}
	return dfi_source_flush(weights);
}

static void *run_server(void *arg)
{
	struct trainer *server = arg;
	struct dfi_target *gradients;
	struct dfi_source *weights;
	const void *tuple;
	uint32_t i;
	int ret = 0;

	if (dfi_target_open(
		rig.dfi, "gradients", server->index, NULL, &gradients) < 0)
		return fail_trainer(server, "open gradients");
	if (dfi_source_open(rig.dfi, "weights", server->index, NULL, &weights) <
	    0)
		return fail_trainer(server, "open weights");
	for (i = 0; !ret && i < ITERATIONS; i++)
		ret = serve(server, gradients, weights, i);
	if (ret || dfi_target_consume(gradients, &tuple))
		fail_trainer(server, "serve");
	if (dfi_source_close(weights) < 0)
		fail_trainer(server, "close weights");
	if (dfi_target_close(gradients) < 0)
		fail_trainer(server, "close gradients");
	return NULL;
}

static void create_trainers(bool marks)
{
	static const struct dfi_aggregate sum = { .function = DFI_SUM,
		.field = "value" };
	struct dfi_flow_attr attr = flow_attr(
	    WORKERS, SERVERS, marks ? DFI_WINDOW_MARKED : WEIGHTS);
	struct dfi_flow_attr back = DFI_FLOW_ATTR_INIT;

	attr.schema = &weight_schema;
	attr.combine.aggregates = &sum;
	attr.combine.n_aggregates = 1;
	cr_assert_eq(dfi_flow_create(rig.dfi, "gradients", &attr), 0, "%s",
	    dfi_errmsg());
	back.kind = DFI_REPLICATE;
	back.schema = &weight_schema;
	back.n_sources = SERVERS;
	back.n_targets = WORKERS;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "weights", &back), 0, "%s", dfi_errmsg());
}

static void train_all(bool marks)
{
	double weights[WEIGHTS] = { 0 }, sum;
	uint32_t i, w, n;

	create_trainers(marks);
	memset(workers, 0, sizeof(workers));
	memset(servers, 0, sizeof(servers));
	for (i = 0; i < WORKERS; i++) {
		workers[i].index = i;
		workers[i].marks = marks;
		cr_assert_eq(pthread_create(&workers[i].thread, NULL,
				 run_worker, &workers[i]),
		    0);
	}
	for (i = 0; i < SERVERS; i++) {
		servers[i].index = i;
		cr_assert_eq(pthread_create(&servers[i].thread, NULL,
				 run_server, &servers[i]),
		    0);
	}
	for (n = 0; n < ITERATIONS; n++)
		for (i = 0; i < WEIGHTS; i++) {
			for (sum = 0, w = 0; w < WORKERS; w++)
				sum += gradient(weights[i], w, i);
			weights[i] = rounded(weights[i] + sum);
		}
	for (i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	for (i = 0; i < SERVERS; i++)
		pthread_join(servers[i].thread, NULL);
	for (i = 0; i < SERVERS; i++)
		cr_assert_str_empty(
		    servers[i].error, "server %u: %s", i, servers[i].error);
	for (i = 0; i < WORKERS; i++) {
		cr_assert_str_empty(
		    workers[i].error, "worker %u: %s", i, workers[i].error);
		cr_assert_eq(
		    memcmp(workers[i].weights, weights, sizeof(weights)), 0);
	}
}

Test(window, parameter_servers_sum_what_workers_mark)
{
	train_all(true);
}

Test(window, parameter_servers_sum_what_workers_count)
{
	train_all(false);
}

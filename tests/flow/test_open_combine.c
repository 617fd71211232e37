/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open combiner flows: sources come and go where windows end, and targets stay.
 * One case for each rule of docs/combine.md ("Open combiner flows"). Sums are
 * compared with those of what was pushed.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

#define SEATS 4
#define TARGETS 2
#define KEYS 16
#define WINDOWS 64
#define SEGMENT 8 /* tuples */
#define RING 8    /* segments */

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(open_combine, .init = setup, .fini = teardown, .timeout = 300);

static const struct dfi_aggregate aggregates[] = {
	{ .function = DFI_COUNT, .name = "count" },
	{ .function = DFI_SUM, .field = "val", .name = "sum" },
};

struct result {
	uint64_t key, count, sum;
};

static struct dfi_flow_attr flow_attr(uint32_t on_loss)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_COMBINE,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = TARGETS,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.combine = {
			.aggregates = aggregates,
			.n_aggregates = N_ELEMENTS(aggregates),
			.group_by = "key",
			.window_tuples = DFI_WINDOW_MARKED,
			.source_combining = DFI_COMBINING_OFF,
		},
		.open = { .membership = DFI_MEMBERS_OPEN, .on_loss = on_loss },
	};
}

static void create_with(const struct dfi_flow_attr *attr)
{
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

static void create(uint32_t on_loss)
{
	struct dfi_flow_attr attr = flow_attr(on_loss);

	create_with(&attr);
}

static struct dfi_target *targets[TARGETS];

static void open_targets(uint32_t flags)
{
	uint32_t t;

	for (t = 0; t < TARGETS; t++)
		targets[t] = open_target(rig.other, "f", t, flags);
}

static struct dfi_source *source(uint32_t seat)
{
	return open_source(rig.dfi, "f", seat, 0);
}

static void close_source(struct dfi_source *source)
{
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
}

static void finish(void)
{
	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0, "%s", dfi_errmsg());
}

static void mark(struct dfi_source *source, uint64_t value)
{
	cr_assert_eq(dfi_source_mark(source, value), 0, "%s", dfi_errmsg());
}

/* ---- What is expected, and what has come --------------------------------- */

struct window {
	uint64_t count[KEYS], sum[KEYS];
	uint32_t flags; /* of all targets */
};

static struct window expected[WINDOWS], got[WINDOWS];

static void forget_all(void)
{
	memset(expected, 0, sizeof(expected));
	memset(got, 0, sizeof(got));
}

/* Push n tuples, which belong into a window. */
static void push(struct dfi_source *source, uint64_t window, uint32_t n)
{
	struct kv kv;
	uint32_t i;

	for (i = 0; i < n; i++) {
		kv.key = i % KEYS;
		kv.val = mix(window, i) >> 20;
		cr_assert_eq(
		    dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
		expected[window].count[kv.key]++;
		expected[window].sum[kv.key] += kv.val;
	}
}

/* Note the results that a target gives; returns what its call did at last. */
static int take_all(struct dfi_target *target)
{
	const struct result *result;
	uint64_t window;
	const void *at;
	uint32_t flags;
	int ret;

	while ((ret = dfi_target_consume(target, &at)) > 0) {
		result = at;
		cr_assert_eq(dfi_target_window(target, &window), 0);
		cr_assert_eq(dfi_target_window_flags(target, &flags), 0);
		cr_assert_lt(window, WINDOWS);
		cr_assert_lt(result->key, KEYS);
		got[window].count[result->key] += result->count;
		got[window].sum[result->key] += result->sum;
		got[window].flags |= flags;
	}
	return ret;
}

static void take_to_the_end(void)
{
	uint32_t t;

	for (t = 0; t < TARGETS; t++) {
		cr_assert_eq(take_all(targets[t]), 0, "%s", dfi_errmsg());
		cr_assert_eq(
		    dfi_target_close(targets[t]), 0, "%s", dfi_errmsg());
	}
}

/* Take what has come by now, or what comes until the window has results. */
static void take_until(uint64_t window)
{
	int64_t until = now_ms() + LONG_MS;
	uint64_t n;
	uint32_t t, k;

	do {
		cr_assert_lt(now_ms(), until);
		for (t = 0, n = 0; t < TARGETS; t++)
			cr_assert_eq(
			    take_all(targets[t]), -EAGAIN, "%s", dfi_errmsg());
		for (k = 0; k < KEYS; k++)
			n += got[window].count[k] < expected[window].count[k];
	} while (n);
}

static void expect_window(uint64_t window, uint32_t flags)
{
	cr_assert_eq(memcmp(got[window].count, expected[window].count,
			 sizeof(got[window].count)),
	    0, "window %lu", (unsigned long)window);
	cr_assert_eq(memcmp(got[window].sum, expected[window].sum,
			 sizeof(got[window].sum)),
	    0, "window %lu", (unsigned long)window);
	cr_assert_eq(got[window].flags, flags, "window %lu: %u",
	    (unsigned long)window, got[window].flags);
}

static void expect_windows(uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		expect_window(i, 0);
}

struct taker {
	pthread_t thread;
	struct dfi_target *target;
	char error[200];
	/* Any thread reads it: groups in results so far. */
	_Atomic uint64_t n;
	struct window got[WINDOWS];
};

static void *take(void *arg)
{
	struct taker *taker = arg;
	const struct result *result;
	uint64_t window;
	const void *at;
	uint32_t flags;
	int ret;

	while ((ret = dfi_target_consume(taker->target, &at)) > 0) {
		result = at;
		if (dfi_target_window(taker->target, &window) < 0 ||
		    dfi_target_window_flags(taker->target, &flags) < 0 ||
		    window >= WINDOWS || result->key >= KEYS)
			break;
		taker->got[window].count[result->key] += result->count;
		taker->got[window].sum[result->key] += result->sum;
		taker->got[window].flags |= flags;
		atomic_fetch_add(&taker->n, 1);
	}
	if (ret)
		snprintf(
		    taker->error, sizeof(taker->error), "%s", dfi_errmsg());
	return NULL;
}

static struct taker takers[TARGETS];

static void start_takers(void)
{
	uint32_t t;

	memset(takers, 0, sizeof(takers));
	for (t = 0; t < TARGETS; t++) {
		takers[t].target = targets[t];
		cr_assert_eq(
		    pthread_create(&takers[t].thread, NULL, take, &takers[t]),
		    0);
	}
}

static void end_takers(void)
{
	uint32_t t, w, k;

	for (t = 0; t < TARGETS; t++) {
		pthread_join(takers[t].thread, NULL);
		cr_assert_str_eq(takers[t].error, "");
		cr_assert_eq(dfi_target_close(targets[t]), 0);
		for (w = 0; w < WINDOWS; w++) {
			got[w].flags |= takers[t].got[w].flags;
			for (k = 0; k < KEYS; k++) {
				got[w].count[k] += takers[t].got[w].count[k];
				got[w].sum[k] += takers[t].got[w].sum[k];
			}
		}
	}
}

/* ---- Coming and going ---------------------------------------------------- */

static void come_and_go(const struct dfi_flow_attr *attr)
{
	struct dfi_source *a, *b;

	forget_all();
	create_with(attr);
	open_targets(0);
	start_takers();
	a = source(0);
	push(a, 0, 20);
	mark(a, 1);
	/* The first mark says in which window a source begins. */
	b = source(DFI_ANY_SEAT);
	mark(b, 1);
	push(a, 1, 30);
	mark(a, 2);
	push(b, 1, 10);
	mark(b, 2);
	/* What is behind the last mark is in the last window. */
	push(b, 2, 5);
	close_source(b);
	push(a, 2, 10);
	mark(a, 3);
	/* A seat that was left is free for a source that begins later. */
	b = source(1);
	mark(b, 5);
	push(b, 5, 7);
	push(a, 3, 3);
	mark(a, 5);
	close_source(a);
	close_source(b);
	finish();
	end_takers();
	expect_windows(6);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

Test(open_combine, sources_join_and_leave_where_windows_end)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);

	come_and_go(&attr);
}

Test(open_combine, sources_join_and_leave_for_latency)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);

	attr.goal = DFI_LATENCY;
	attr.segment_size = 0;
	attr.segment_count = SEGMENT * RING;
	come_and_go(&attr);
}

Test(open_combine, sources_that_combine_join_and_leave)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);

	attr.combine.source_combining = DFI_COMBINING_ALWAYS;
	come_and_go(&attr);
	attr.combine.source_combining = DFI_COMBINING_ADAPTIVE;
	attr.combine.combining_bytes = 4096;
	come_and_go(&attr);
}

/* A window waits for each source whose open has returned before its end. */
Test(open_combine, a_source_that_is_open_is_in_the_next_window)
{
	struct dfi_source *a, *b;
	uint32_t t;

	forget_all();
	create(DFI_ON_LOSS_DROP);
	open_targets(DFI_NONBLOCK);
	a = source(0);
	push(a, 0, 20);
	mark(a, 1);
	take_until(0);
	push(a, 1, 20);
	b = source(1);
	mark(a, 2);
	for (t = 0; t < TARGETS; t++)
		cr_assert_eq(take_all(targets[t]), -EAGAIN);
	mark(b, 1);
	push(b, 1, 20);
	for (t = 0; t < TARGETS; t++)
		cr_assert_eq(take_all(targets[t]), -EAGAIN);
	cr_assert_eq(got[1].count[0], 0);
	mark(b, 2);
	take_until(1);
	close_source(a);
	close_source(b);
	expect_windows(2);
	for (t = 0; t < TARGETS; t++)
		cr_assert_eq(dfi_target_close(targets[t]), 0);
}

/* Its tuples are counted, in the window at which the target is by then. */
Test(open_combine, what_comes_for_a_window_that_has_ended_is_flagged)
{
	struct dfi_source *a, *b;
	uint32_t t;

	forget_all();
	create(DFI_ON_LOSS_FAIL);
	open_targets(DFI_NONBLOCK);
	a = source(0);
	push(a, 0, 20);
	mark(a, 5);
	take_until(0);
	b = source(1);
	/* Its window is 0. */
	push(b, 5, 16);
	mark(b, 4);
	push(a, 5, 20);
	mark(a, 6);
	mark(b, 6);
	take_until(5);
	push(a, 6, 20);
	push(b, 6, 20);
	mark(b, 7);
	mark(a, 7);
	take_until(6);
	close_source(a);
	close_source(b);
	expect_window(0, 0);
	expect_window(5, DFI_WINDOW_LATE);
	expect_window(6, 0);
	for (t = 0; t < TARGETS; t++)
		cr_assert_eq(dfi_target_close(targets[t]), 0);
}

/* Windows go on when all sources have left and others come. */
Test(open_combine, windows_go_on_behind_a_time_without_sources)
{
	struct dfi_source *s;
	uint32_t i;

	forget_all();
	create(DFI_ON_LOSS_FAIL);
	open_targets(0);
	for (i = 0; i < 5; i++) {
		s = source(i % SEATS);
		if (i)
			mark(s, i);
		push(s, i, 20 + i);
		close_source(s);
	}
	finish();
	take_to_the_end();
	expect_windows(5);
}

/* ---- Losses -------------------------------------------------------------- */

static void abort_source(struct dfi_source *source)
{
	dfi_source_abort(source);
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
}

Test(open_combine, a_window_that_lost_a_source_is_flagged)
{
	struct dfi_source *a, *b;

	forget_all();
	create(DFI_ON_LOSS_DROP);
	open_targets(0);
	a = source(0);
	b = source(1);
	push(a, 0, 20);
	mark(a, 1);
	push(b, 0, 20);
	mark(b, 1);
	/* What has come of it counts. */
	push(b, 1, 16);
	cr_assert_eq(dfi_source_flush(b), 0);
	abort_source(b);
	push(a, 1, 20);
	mark(a, 2);
	push(a, 2, 20);
	close_source(a);
	finish();
	take_to_the_end();
	expect_window(0, 0);
	expect_window(1, DFI_WINDOW_LOST);
	expect_window(2, 0);
}

/* Others have ended the window, and nothing comes of this one. */
Test(open_combine, a_source_that_holds_up_a_window_is_evicted)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	int64_t until = now_ms() + LONG_MS;
	struct dfi_source *a, *b;
	int ret;

	forget_all();
	attr.open.evict_after_ms = 1500;
	create_with(&attr);
	open_targets(0);
	start_takers();
	a = source(0);
	b = source(1);
	push(a, 0, 20);
	mark(a, 1);
	push(b, 0, 20);
	mark(b, 1);
	push(b, 1, 16);
	cr_assert_eq(dfi_source_flush(b), 0);
	push(a, 1, 20);
	mark(a, 2);
	while ((ret = dfi_source_flush(b)) == 0)
		cr_assert_lt(now_ms(), until);
	assert_error(ret, -ESTALE, "flow 'f'", "source 1", "evicted by target",
	    "a window", "1500 ms", "open it again");
	cr_assert_eq(dfi_source_close(b), -ESTALE);
	/* It comes back. */
	b = source(1);
	mark(b, 2);
	push(a, 2, 20);
	push(b, 2, 20);
	close_source(a);
	close_source(b);
	finish();
	end_takers();
	expect_window(0, 0);
	expect_window(1, DFI_WINDOW_LOST);
	expect_window(2, 0);
}

/* Nobody waits for them: no window was ended. */
Test(open_combine, sources_that_all_are_quiet_stay)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct dfi_source *a, *b;
	int64_t until;
	uint32_t t;

	forget_all();
	attr.open.evict_after_ms = 20;
	create_with(&attr);
	open_targets(DFI_NONBLOCK);
	a = source(0);
	b = source(1);
	push(a, 0, 20);
	push(b, 0, 20);
	/* Long enough, however late threads run. */
	for (until = now_ms() + 200; now_ms() < until;) {
		const void *tuple;

		cr_assert_eq(dfi_target_consume(targets[0], &tuple), -EAGAIN);
		cr_assert_eq(dfi_target_consume(targets[1], &tuple), -EAGAIN);
	}
	close_source(a);
	close_source(b);
	finish();
	until = now_ms() + LONG_MS;
	for (t = 0; t < TARGETS; t += take_all(targets[t]) == 0)
		cr_assert_lt(now_ms(), until);
	for (t = 0; t < TARGETS; t++)
		cr_assert_eq(dfi_target_close(targets[t]), 0);
	expect_window(0, 0);
}

/* It may have pushed more behind the mark than has come. */
Test(open_combine, a_source_that_is_lost_behind_a_mark_flags_the_next_window)
{
	struct dfi_source *a, *b;

	forget_all();
	create(DFI_ON_LOSS_DROP);
	open_targets(0);
	a = source(0);
	b = source(1);
	push(b, 0, 20);
	mark(b, 3);
	abort_source(b);
	push(a, 0, 20);
	mark(a, 1);
	push(a, 1, 20);
	mark(a, 3);
	push(a, 3, 20);
	mark(a, 4);
	push(a, 4, 20);
	close_source(a);
	finish();
	take_to_the_end();
	expect_window(0, 0);
	expect_window(1, 0);
	expect_window(3, DFI_WINDOW_LOST);
	expect_window(4, 0);
}

Test(open_combine, a_lost_source_fails_the_targets_behind_whole_windows)
{
	struct dfi_source *a, *b;
	uint32_t t;

	forget_all();
	create(DFI_ON_LOSS_FAIL);
	open_targets(0);
	a = source(0);
	b = source(1);
	push(a, 0, 20);
	push(b, 0, 20);
	mark(a, 1);
	mark(b, 1);
	push(a, 1, 20);
	push(b, 1, 20);
	mark(a, 2);
	abort_source(b);
	for (t = 0; t < TARGETS; t++) {
		cr_assert_eq(
		    take_all(targets[t]), -ECANCELED, "%s", dfi_errmsg());
		cr_assert_eq(dfi_target_close(targets[t]), -ECANCELED);
	}
	expect_window(0, 0);
	cr_assert_eq(got[1].count[0], 0);
	cr_assert_eq(dfi_source_close(a), -ECONNRESET);
}

/* Also with DFI_ON_LOSS_DROP, as nobody else has its part of the groups. */
Test(open_combine, a_target_that_leaves_fails_the_sources)
{
	struct kv kv = { .val = 1 };
	struct dfi_source *a, *b;
	int ret;

	create(DFI_ON_LOSS_DROP);
	open_targets(0);
	a = source(0);
	b = source(1);
	push(a, 0, 20);
	mark(a, 1);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	do {
		kv.key++;
		ret = dfi_source_push(a, &kv);
	} while (!ret);
	assert_error(ret, -ECONNRESET, "target 0");
	/* One that has sent nothing as well. */
	while (!(ret = dfi_source_flush(b)))
		yield_times(1);
	assert_error(ret, -ECONNRESET, "target 0");
	cr_assert_eq(dfi_source_close(a), -ECONNRESET);
	cr_assert_eq(dfi_source_close(b), -ECONNRESET);
	(void)dfi_target_close(targets[1]);
}

/* The flow's ends, and no memory for the ring of any pair. */
static void start_without_memory(void)
{
	teardown();
	setenv("DFI_RING_MEMORY_LIMIT", "64", 1);
	setup();
	unsetenv("DFI_RING_MEMORY_LIMIT");
	create(DFI_ON_LOSS_DROP);
}

/* It waits for targets, and has had no ring of this one. */
Test(open_combine, a_target_that_leaves_unseen_fails_a_nonblocking_source)
{
	struct dfi_source *a, *b;
	struct pollfd pollfd = { .events = POLLIN };
	struct dfi_target *t;
	struct kv kv = { .val = 1 };
	int ret;

	start_without_memory();
	t = open_target(rig.other, "f", 1, DFI_NONBLOCK);
	a = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	b = open_source(rig.dfi, "f", 1, DFI_NONBLOCK);
	cr_assert_eq(dfi_source_push(a, &kv), -EAGAIN);
	pollfd.fd = dfi_source_fd(a);
	cr_assert_eq(dfi_target_close(t), 0);
	while ((ret = dfi_source_push(a, &kv)) == -EAGAIN)
		cr_assert_eq(poll(&pollfd, 1, LONG_MS), 1);
	assert_error(ret, -ECONNRESET, "target 1", "has left");
	pollfd.fd = dfi_source_fd(b);
	while ((ret = dfi_source_mark(b, 1)) == -EAGAIN)
		cr_assert_eq(poll(&pollfd, 1, LONG_MS), 1);
	assert_error(ret, -ECONNRESET, "target 1", "has left");
	cr_assert_eq(dfi_source_close(a), -ECONNRESET);
	cr_assert_eq(dfi_source_close(b), -ECONNRESET);
}

/* The source has sent nothing, so its close harms nobody. */
Test(open_combine, a_finished_flow_lacks_sources_for_ever)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);
	struct dfi_source *a;
	struct kv kv = { .val = 1 };
	int ret;

	attr.open.min_sources = 2;
	create_with(&attr);
	open_targets(0);
	a = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	cr_assert_eq(dfi_source_push(a, &kv), -EAGAIN);
	finish();
	while ((ret = dfi_source_push(a, &kv)) == -EAGAIN)
		yield_times(1);
	assert_error(ret, -ESHUTDOWN, "open.min_sources 2", "finished");
	assert_error(dfi_source_mark(a, 1), -ESHUTDOWN, "finished");
	close_source(a);
	take_to_the_end();
}

static void *open_late(void *ret)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;

	attr.open_timeout_ms = 10 * LONG_MS;
	*(int *)ret = dfi_source_open(rig.dfi, "f", 0, &attr, &source);
	return strstr(dfi_errmsg(), "target 1 has left") ? NULL : "no reason";
}

static int note_source(void *arg, const struct dfi_member_info *info)
{
	*(bool *)arg |= info->role == DFI_ROLE_SOURCE;
	return 0;
}

static bool has_source(void *arg)
{
	bool there = false;

	(void)arg;
	cr_assert_eq(dfi_member_list(rig.other, "f", note_source, &there), 0);
	return there;
}

Test(open_combine, a_target_that_leaves_unseen_fails_an_open)
{
	struct dfi_target *t;
	pthread_t thread;
	void *failed;
	int ret;

	start_without_memory();
	t = open_target(rig.other, "f", 1, DFI_NONBLOCK);
	cr_assert_eq(pthread_create(&thread, NULL, open_late, &ret), 0);
	cr_assert(eventually(has_source, NULL));
	cr_assert_eq(dfi_target_close(t), 0);
	cr_assert_eq(pthread_join(thread, &failed), 0);
	cr_assert_eq(ret, -ECONNRESET);
	cr_assert_null(failed, "%s", (const char *)failed);
}

/* ---- Events -------------------------------------------------------------- */

static void expect_event(
    struct dfi_target *target, uint32_t type, uint32_t seat)
{
	struct dfi_event event;

	cr_assert_eq(take_all(target), -ENOMSG, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_event(target, &event), 0);
	cr_assert_eq(event.type, type, "%u", event.type);
	cr_assert_eq(event.seat, seat);
}

Test(open_combine, targets_hear_of_sources)
{
	struct dfi_source *a, *b;
	uint64_t value;
	uint32_t t;

	forget_all();
	create(DFI_ON_LOSS_DROP);
	open_targets(DFI_EVENTS);
	a = source(2);
	for (t = 0; t < TARGETS; t++)
		expect_event(targets[t], DFI_JOINED, 2);
	b = source(3);
	for (t = 0; t < TARGETS; t++)
		expect_event(targets[t], DFI_JOINED, 3);
	push(a, 0, 20);
	mark(a, 1);
	push(b, 0, 20);
	mark(b, 1);
	/* The window's results come before the source's end behind it. */
	abort_source(b);
	for (t = 0; t < TARGETS; t++) {
		expect_event(targets[t], DFI_LOST, 3);
		cr_assert_eq(dfi_target_watermark(targets[t], &value), 0);
		cr_assert_eq(value, 1);
	}
	expect_window(0, 0);
	close_source(a);
	finish();
	for (t = 0; t < TARGETS; t++)
		expect_event(targets[t], DFI_ENDED, 2);
	take_to_the_end();
}

/* ---- Waiting ------------------------------------------------------------- */

/* A mark goes to all targets or to none, and may be repeated. */
Test(open_combine, a_mark_without_room_has_not_happened)
{
	struct dfi_source *a;
	uint64_t value = 0;
	uint32_t i;
	int ret;

	forget_all();
	create(DFI_ON_LOSS_FAIL);
	open_targets(DFI_NONBLOCK);
	a = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	/* Until both targets are there. */
	while ((ret = dfi_source_mark(a, 1)) == -EAGAIN)
		yield_times(1);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	for (value = 2; value < WINDOWS; value++)
		if ((ret = dfi_source_mark(a, value)) < 0)
			break;
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
	for (i = 0; ret == -EAGAIN; i++) {
		cr_assert_eq(take_all(targets[i % TARGETS]), -EAGAIN);
		ret = dfi_source_mark(a, value);
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_mark(a, value), -ERANGE);
	for (i = 0; i < TARGETS; i++)
		while (!dfi_target_watermark(targets[i], &value) && !value)
			cr_assert_eq(take_all(targets[i]), -EAGAIN);
	close_source(a);
	for (i = 0; i < TARGETS; i++)
		cr_assert_eq(dfi_target_close(targets[i]), 0);
}

/* Targets that wait are woken by tuples, marks, and who comes and goes. */
Test(open_combine, waiting_targets_hear_of_all)
{
	struct dfi_source *a, *b;
	uint64_t n;

	forget_all();
	create(DFI_ON_LOSS_DROP);
	open_targets(0);
	start_takers();
	a = source(0);
	push(a, 0, 20);
	mark(a, 1);
	while (atomic_load(&takers[0].n) + atomic_load(&takers[1].n) < KEYS)
		yield_times(1);
	b = source(1);
	mark(b, 1);
	push(a, 1, 20);
	mark(a, 2);
	push(b, 1, 20);
	n = KEYS;
	/* The end of b is what ends the window. */
	close_source(b);
	while (atomic_load(&takers[0].n) + atomic_load(&takers[1].n) < 2 * n)
		yield_times(1);
	push(a, 2, 20);
	close_source(a);
	finish();
	end_takers();
	expect_windows(3);
}

/* ---- Many at once -------------------------------------------------------- */

/*
 * Source 0 stays and marks each step; visitors come at any time, and once they
 * are open they choose the window in which they begin: not before the last one
 * of the stay before, which is read first. So nothing is late.
 */
static _Atomic uint64_t step;

struct visitor {
	pthread_t thread;
	uint32_t seat;
	uint64_t seed;
	_Atomic bool *stop;
	uint64_t last; /* window of the stay before */
	char error[200];
	struct window pushed[WINDOWS];
};

static int push_some(
    struct visitor *visitor, struct dfi_source *s, uint64_t window, uint32_t n)
{
	struct kv kv;
	int ret = 0;

	for (; !ret && n > 0; n--) {
		kv.val = mix(visitor->seed, window * 1000 + n) >> 20;
		kv.key = kv.val % KEYS;
		ret = dfi_source_push(s, &kv);
		visitor->pushed[window].count[kv.key]++;
		visitor->pushed[window].sum[kv.key] += kv.val;
	}
	return ret;
}

static int visit(struct visitor *visitor, struct rng *rng)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *s;
	uint64_t window;
	uint32_t stay = rng_below(rng, 4);
	int ret, err;

	attr.stall_timeout_ms = LONG_MS;
	ret = dfi_source_open(rig.dfi, "f", visitor->seat, &attr, &s);
	if (ret < 0)
		return ret;
	window = atomic_load(&step);
	if (window < visitor->last)
		window = visitor->last;
	if (window)
		ret = dfi_source_mark(s, window);
	for (; !ret && window < WINDOWS; window++) {
		ret = push_some(visitor, s, window, rng_below(rng, 100));
		if (ret || !stay-- || window + 1 == WINDOWS)
			break;
		ret = dfi_source_mark(s, window + 1);
	}
	visitor->last = window;
	err = dfi_source_close(s);
	return ret ? ret : err;
}

static void *visit_often(void *arg)
{
	struct visitor *visitor = arg;
	struct rng rng = { visitor->seed };

	while (!atomic_load(visitor->stop))
		if (visit(visitor, &rng) < 0) {
			snprintf(visitor->error, sizeof(visitor->error), "%s",
			    dfi_errmsg());
			break;
		}
	return NULL;
}

static void add_pushed(const struct visitor *visitor)
{
	uint32_t w, k;

	for (w = 0; w < WINDOWS; w++)
		for (k = 0; k < KEYS; k++) {
			expected[w].count[k] += visitor->pushed[w].count[k];
			expected[w].sum[k] += visitor->pushed[w].sum[k];
		}
}

static struct visitor visitors[SEATS];

static void many_visit(const struct dfi_flow_attr *attr)
{
	_Atomic bool stop = false;
	struct dfi_source *stays;
	uint32_t i;

	forget_all();
	memset(visitors, 0, sizeof(visitors));
	atomic_store(&step, 0);
	create_with(attr);
	open_targets(0);
	start_takers();
	stays = source(0);
	for (i = 0; i < SEATS; i++) {
		visitors[i].seat = i;
		visitors[i].seed = 100 + i;
		visitors[i].stop = &stop;
		if (i)
			cr_assert_eq(pthread_create(&visitors[i].thread, NULL,
					 visit_often, &visitors[i]),
			    0);
	}
	for (i = 1; i < WINDOWS; i++) {
		cr_assert_eq(push_some(&visitors[0], stays, i - 1, 50), 0);
		/* Who has read the step before is open by now. */
		atomic_store(&step, i);
		mark(stays, i);
		yield_times(10);
	}
	atomic_store(&stop, true);
	close_source(stays);
	for (i = 0; i < SEATS; i++) {
		if (i)
			pthread_join(visitors[i].thread, NULL);
		cr_assert_str_eq(visitors[i].error, "");
		add_pushed(&visitors[i]);
	}
	finish();
	end_takers();
	expect_windows(WINDOWS);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

Test(open_combine, each_window_has_all_of_its_visitors)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);

	many_visit(&attr);
}

Test(open_combine, each_window_has_all_of_visitors_that_combine)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);

	attr.combine.source_combining = DFI_COMBINING_ADAPTIVE;
	attr.combine.combining_bytes = 4096;
	many_visit(&attr);
}

Test(open_combine, each_window_has_all_of_its_visitors_for_latency)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);

	attr.goal = DFI_LATENCY;
	attr.segment_size = 0;
	attr.segment_count = SEGMENT * RING;
	many_visit(&attr);
}

/* ---- Declaring ----------------------------------------------------------- */

static void expect_refused(
    int line, int err, const struct dfi_flow_attr *attr, const char *word)
{
	int ret = dfi_flow_create(rig.dfi, "f", attr);

	expect_error(line, ret, err, "flow 'f'", word, NULL);
}

Test(open_combine, what_is_not_there_is_refused)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_REPLAY);

	expect_refused(__LINE__, -EINVAL, &attr, "DFI_ON_LOSS_REPLAY");
	attr = flow_attr(DFI_ON_LOSS_DROP);
	attr.open.min_targets = 1;
	expect_refused(__LINE__, -EINVAL, &attr, "min_targets");
	attr = flow_attr(DFI_ON_LOSS_FAIL);
	attr.open.evict_after_ms = 100;
	expect_refused(__LINE__, -EINVAL, &attr, "evict_after_ms");
	attr = flow_attr(DFI_ON_LOSS_DROP);
	attr.combine.fan_in = 2;
	expect_refused(__LINE__, -EOPNOTSUPP, &attr, "fan_in");
	attr = flow_attr(DFI_ON_LOSS_DROP);
	attr.combine.window_tuples = 100;
	expect_refused(__LINE__, -EINVAL, &attr, "DFI_WINDOW_MARKED");
	attr.combine.window_tuples = 0;
	expect_refused(__LINE__, -EINVAL, &attr, "DFI_WINDOW_MARKED");
}

Test(open_combine, flags_need_a_window)
{
	struct dfi_source *a;
	uint32_t flags;

	forget_all();
	create(DFI_ON_LOSS_DROP);
	open_targets(0);
	assert_error(dfi_target_window_flags(targets[0], NULL), -EINVAL,
	    "flags is NULL");
	assert_error(
	    dfi_target_window_flags(targets[0], &flags), -ENOENT, "no results");
	a = source(0);
	close_source(a);
	finish();
	take_to_the_end();
}

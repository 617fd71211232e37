/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls around open flows: opening without waiting for anybody, and targets
 * that cancel.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "flow_help.h"

#define SEATS 4
#define SEGMENT 8 /* tuples */
#define RING 8    /* segments */

/* An open that waited for anybody would hang. */
#define NEVER_MS 3600000u

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(open_nonblocking, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(open_cancel, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(open_any, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(open_rules, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(open_stats, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_attr flow_attr(
    uint32_t kind, uint32_t routing, uint32_t on_loss)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = kind,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.routing = routing,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.open = { .membership = DFI_MEMBERS_OPEN, .on_loss = on_loss },
	};
}

static void create_with(const struct dfi_flow_attr *attr)
{
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

static void create(uint32_t kind, uint32_t routing, uint32_t on_loss)
{
	struct dfi_flow_attr attr = flow_attr(kind, routing, on_loss);

	create_with(&attr);
}

static struct dfi_source *source_with(uint32_t seat, uint32_t flags)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;

	attr.flags = flags;
	attr.open_timeout_ms = NEVER_MS;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", seat, &attr, &source), 0,
	    "%s", dfi_errmsg());
	return source;
}

static struct dfi_target *target_with(uint32_t seat, uint32_t flags)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target;

	attr.flags = flags;
	attr.open_timeout_ms = NEVER_MS;
	cr_assert_eq(dfi_target_open(rig.other, "f", seat, &attr, &target), 0,
	    "%s", dfi_errmsg());
	return target;
}

static void close_source(struct dfi_source *source)
{
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
}

static void close_target(struct dfi_target *target)
{
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
}

static void finish(void)
{
	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0, "%s", dfi_errmsg());
}

static void remove_flow(void)
{
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0, "%s", dfi_errmsg());
}

static void await_fd(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	cr_assert_eq(poll(&pollfd, 1, LONG_MS), 1);
}

/* ---- Opening without waiting ----------------------------------------------
 */

/* Push as an event loop does: only when the descriptor was readable. */
static void push_by_fd(struct dfi_source *source, const struct kv *kv)
{
	int fd = dfi_source_fd(source), ret;

	cr_assert_geq(fd, 0, "%s", dfi_errmsg());
	while ((ret = dfi_source_push(source, kv)) == -EAGAIN)
		await_fd(fd);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
}

static void consume_by_fd(struct dfi_target *target, uint64_t number)
{
	struct kv kv = numbered_kv(number);
	int fd = dfi_target_fd(target), ret;
	const void *tuple;

	cr_assert_geq(fd, 0, "%s", dfi_errmsg());
	while ((ret = dfi_target_consume(target, &tuple)) == -EAGAIN)
		await_fd(fd);
	cr_assert_eq(ret, 1, "%s", dfi_errmsg());
	cr_assert_eq(memcmp(tuple, &kv, sizeof(kv)), 0);
}

/* A source of a flow whose first tuple waits for the target that comes then. */
static void open_before_targets(uint32_t kind, uint32_t routing)
{
	struct kv kv = numbered_kv(7);
	struct dfi_source *s;
	struct dfi_target *t;

	create(kind, routing, DFI_ON_LOSS_FAIL);
	s = source_with(DFI_ANY_SEAT, DFI_NONBLOCK);
	cr_assert_eq(dfi_source_push(s, &kv), -EAGAIN);
	t = target_with(DFI_ANY_SEAT, DFI_NONBLOCK);
	push_by_fd(s, &kv);
	close_source(s);
	consume_by_fd(t, 7);
	finish();
	close_target(t);
	remove_flow();
}

Test(open_nonblocking, source_opens_before_its_targets)
{
	open_before_targets(DFI_SHUFFLE, DFI_ROUTE_ANY);
	open_before_targets(DFI_SHUFFLE, DFI_ROUTE_ROUND_ROBIN);
	open_before_targets(DFI_SHUFFLE, DFI_ROUTE_HASH);
	open_before_targets(DFI_REPLICATE, 0);
}

/* With a named seat as well: it may not push at all yet. */
Test(open_nonblocking, source_that_names_seats_opens_before_its_targets)
{
	struct kv kv = numbered_kv(7);
	struct dfi_source *s;
	struct dfi_target *t;
	int ret;

	create(DFI_SHUFFLE, DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	s = source_with(0, DFI_NONBLOCK);
	cr_assert_eq(dfi_source_push_to(s, 2, &kv), -EAGAIN);
	t = target_with(2, DFI_NONBLOCK);
	while ((ret = dfi_source_push_to(s, 2, &kv)) == -EAGAIN)
		await_fd(dfi_source_fd(s));
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	close_source(s);
	consume_by_fd(t, 7);
	close_target(t);
}

Test(open_nonblocking, source_opens_before_the_sources_that_must_be_there)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_SHUFFLE, DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	struct kv kv = numbered_kv(7);
	struct dfi_source *first, *second;
	struct dfi_target *t;

	attr.open.min_sources = 2;
	create_with(&attr);
	t = target_with(0, 0);
	first = source_with(0, DFI_NONBLOCK);
	cr_assert_eq(dfi_source_push(first, &kv), -EAGAIN);
	second = source_with(1, DFI_NONBLOCK);
	push_by_fd(first, &kv);
	close_source(first);
	close_source(second);
	expect_number(t, 7);
	finish();
	end_target(t);
}

/* Neither for sources, nor for those that min_targets names. */
Test(open_nonblocking, target_opens_before_all_others)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_SHUFFLE, DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	struct dfi_target *targets[2];
	struct dfi_source *s;
	const void *tuple;
	uint32_t i;

	attr.open.min_targets = 2;
	create_with(&attr);
	for (i = 0; i < 2; i++) {
		targets[i] = target_with(i, DFI_NONBLOCK);
		cr_assert_eq(dfi_target_consume(targets[i], &tuple), -EAGAIN);
	}
	s = source_with(0, 0);
	push_number(s, 7);
	cr_assert_eq(dfi_source_flush(s), 0, "%s", dfi_errmsg());
	consume_by_fd(targets[0], 7);
	close_source(s);
	finish();
	for (i = 0; i < 2; i++)
		close_target(targets[i]);
}

/* Who opens an endpoint waits for the flow, as it may be a closed one. */
Test(open_nonblocking, flow_must_be_there)
{
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct dfi_source *s;
	struct dfi_target *t;

	source_attr.flags = target_attr.flags = DFI_NONBLOCK;
	source_attr.open_timeout_ms = target_attr.open_timeout_ms = 1;
	cr_assert_eq(dfi_source_open(rig.dfi, "none", 0, &source_attr, &s),
	    -ETIMEDOUT, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_open(rig.dfi, "none", 0, &target_attr, &t),
	    -ETIMEDOUT, "%s", dfi_errmsg());
}

/* One that was opened and never might push has ended, and harms nobody. */
Test(open_nonblocking, source_that_gives_up_harms_nobody)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_SHUFFLE, DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	struct dfi_source *s;
	struct dfi_target *t;

	attr.open.min_targets = 2;
	create_with(&attr);
	s = source_with(0, DFI_NONBLOCK);
	t = target_with(0, 0);
	close_source(s);
	finish();
	end_target(t);
}

/* Push by the descriptor until it fails: the error. */
static int fail_by_fd(struct dfi_source *source)
{
	struct kv kv = numbered_kv(7);
	int fd = dfi_source_fd(source), ret;

	while ((ret = dfi_source_push(source, &kv)) == -EAGAIN)
		await_fd(fd);
	return ret;
}

/* A flow of two sources and two targets, of which one each have come. */
static void open_halves(uint32_t kind, uint32_t routing, uint32_t min_sources,
    struct dfi_source **s, struct dfi_target **t)
{
	struct dfi_flow_attr attr = flow_attr(kind, routing, DFI_ON_LOSS_FAIL);
	struct kv kv = numbered_kv(7);

	attr.open.min_sources = min_sources;
	attr.open.min_targets = 3 - min_sources;
	create_with(&attr);
	*t = target_with(0, 0);
	*s = source_with(0, DFI_NONBLOCK);
	cr_assert_eq(dfi_source_push(*s, &kv), -EAGAIN);
}

static void finish_too_early(uint32_t kind, uint32_t routing)
{
	struct dfi_source *s;
	struct dfi_target *t;

	open_halves(kind, routing, 2, &s, &t);
	finish();
	assert_error(fail_by_fd(s), -ESHUTDOWN, "source 0", "1 sources",
	    "open.min_sources 2", "finished");
	/* It has sent nothing, so nobody is harmed. */
	close_source(s);
	end_target(t);
	remove_flow();
}

Test(open_nonblocking, a_finished_flow_lacks_sources_for_ever)
{
	finish_too_early(DFI_SHUFFLE, DFI_ROUTE_ANY);
	finish_too_early(DFI_SHUFFLE, DFI_ROUTE_HASH);
	finish_too_early(DFI_REPLICATE, 0);
}

static void remove_too_early(uint32_t kind, uint32_t routing)
{
	struct dfi_source *s;
	struct dfi_target *t;

	open_halves(kind, routing, 1, &s, &t);
	remove_flow();
	assert_error(
	    fail_by_fd(s), -ECONNRESET, "source 0", "1 targets", "was removed");
	cr_assert_eq(dfi_source_close(s), -ECONNRESET);
	close_target(t);
}

Test(open_nonblocking, a_removed_flow_lacks_targets_for_ever)
{
	remove_too_early(DFI_SHUFFLE, DFI_ROUTE_ANY);
	remove_too_early(DFI_SHUFFLE, DFI_ROUTE_HASH);
	remove_too_early(DFI_REPLICATE, 0);
}

static void *open_hasty(void *arg)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;

	attr.open_timeout_ms = NEVER_MS;
	attr.stall_timeout_ms = 1;
	return dfi_source_open(rig.dfi, "f", 0, &attr, arg) < 0 ? "no source"
								: NULL;
}

/* stall_timeout_ms is for what comes behind the open. */
Test(open_nonblocking, source_that_waits_has_the_time_of_an_open)
{
	struct dfi_source *s = NULL;
	struct dfi_target *t;
	pthread_t thread;
	void *failed;

	create(DFI_SHUFFLE, DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	cr_assert_eq(pthread_create(&thread, NULL, open_hasty, &s), 0);
	/* It has most probably begun to wait by then; it is right either way.
	 */
	poll(NULL, 0, 100);
	t = target_with(0, 0);
	cr_assert_eq(pthread_join(thread, &failed), 0);
	cr_assert_null(failed, "%s", (const char *)failed);
	close_source(s);
	finish();
	end_target(t);
}

/* ---- Any target, and marks for each ---------------------------------------
 */

#define EVICT_MS 50

/* A flow whose target 1 consumes nothing, and its ring is full. */
static struct dfi_source *fill_any(uint32_t evict_after_ms, uint32_t flags,
    struct dfi_target **takes, struct dfi_target **idle)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_SHUFFLE, DFI_ROUTE_ANY, DFI_ON_LOSS_DROP);
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct kv kv = numbered_kv(0);
	struct dfi_event event;
	struct dfi_source *s;
	const void *tuple;
	int ret;

	attr.open.min_targets = 2;
	attr.open.evict_after_ms = evict_after_ms;
	create_with(&attr);
	*takes = target_with(0, DFI_NONBLOCK);
	*idle = target_with(1, DFI_NONBLOCK);
	source_attr.flags = DFI_EVENTS | flags;
	source_attr.stall_timeout_ms = 100;
	source_attr.open_timeout_ms = NEVER_MS;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, &source_attr, &s), 0,
	    "%s", dfi_errmsg());
	cr_assert_eq(push_soon(s, &kv), 0, "%s", dfi_errmsg());
	/* It has heard that both have joined. */
	cr_assert_eq(dfi_source_event(s, &event), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_event(s, &event), 0, "%s", dfi_errmsg());
	while (!(ret = dfi_source_push(s, &kv)))
		;
	cr_assert(ret == -EAGAIN || ret == -ETIMEDOUT, "%s", dfi_errmsg());
	/* Over a network tuples and room are on their way. */
	while ((ret = dfi_source_push(s, &kv))) {
		cr_assert(
		    ret == -EAGAIN || ret == -ETIMEDOUT, "%s", dfi_errmsg());
		while (dfi_target_consume(*takes, &tuple) == 1)
			;
	}
	return s;
}

static void drain(struct dfi_target *target, int err)
{
	const void *tuple;
	int ret;

	while (
	    (ret = dfi_target_consume(target, &tuple)) == 1 || ret == -EAGAIN)
		yield_times(1);
	cr_assert_eq(ret, err, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), err);
}

Test(open_any, a_mark_waits_for_each_target)
{
	struct dfi_target *takes, *idle;
	struct dfi_source *s = fill_any(0, 0, &takes, &idle);
	const void *tuple;

	assert_error(dfi_source_mark(s, 1), -ETIMEDOUT, "the ring of target 1");
	/* Over a network tuples and room are on their way. */
	while (dfi_source_mark(s, 1))
		(void)dfi_target_consume(idle, &tuple);
	close_source(s);
	finish();
	drain(takes, 0);
	drain(idle, 0);
}

Test(open_any, a_nonblocking_mark_says_that_a_ring_is_full)
{
	struct dfi_target *takes, *idle;
	struct dfi_source *s = fill_any(0, DFI_NONBLOCK, &takes, &idle);
	const void *tuple;
	int fd = dfi_source_fd(s);

	cr_assert_geq(fd, 0);
	cr_assert_eq(dfi_source_mark(s, 1), -EAGAIN);
	do {
		while (dfi_target_consume(idle, &tuple) == 1)
			;
		await_fd(fd);
	} while (dfi_source_mark(s, 1));
	close_source(s);
	finish();
	drain(takes, 0);
	drain(idle, 0);
}

static void evict_by_mark(uint32_t flags)
{
	struct dfi_target *takes, *idle;
	struct dfi_source *s = fill_any(EVICT_MS, flags, &takes, &idle);
	struct dfi_event event = { .type = 0 };
	int64_t until = now_ms() + LONG_MS;
	int ret;

	while ((ret = dfi_source_mark(s, 1)) == -EAGAIN || ret == -ETIMEDOUT)
		cr_assert_lt(now_ms(), until);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	while (event.type != DFI_EVICTED) {
		(void)dfi_source_event(s, &event);
		cr_assert_lt(now_ms(), until);
	}
	cr_assert_eq(event.seat, 1);
	close_source(s);
	finish();
	drain(takes, 0);
	drain(idle, -ESTALE);
	remove_flow();
}

Test(open_any, a_mark_evicts_a_target_that_takes_nothing)
{
	evict_by_mark(0);
	evict_by_mark(DFI_NONBLOCK);
}

/* All rings are full, and any room would do. */
Test(open_any, a_push_evicts_nobody)
{
	struct dfi_target *takes, *idle;
	struct dfi_source *s = fill_any(EVICT_MS, DFI_NONBLOCK, &takes, &idle);
	int64_t until = now_ms() + 4 * EVICT_MS;
	struct kv kv = numbered_kv(0);
	struct dfi_event event;

	while (dfi_source_push(s, &kv) == 0 || now_ms() < until)
		;
	cr_assert_eq(dfi_source_event(s, &event), -EAGAIN);
	dfi_source_abort(s);
	cr_assert_eq(dfi_source_close(s), -ECANCELED);
	finish();
	drain(takes, 0);
	drain(idle, 0);
}

/* ---- Cancelling -----------------------------------------------------------
 */

static void cancel(struct dfi_target *target)
{
	const void *tuple;

	cr_assert_eq(dfi_target_cancel(target), 0, "%s", dfi_errmsg());
	assert_error(dfi_target_consume(target, &tuple), -ECANCELED,
	    "was cancelled here");
}

/* Wait for an event of a source. */
static struct dfi_event event_of(struct dfi_source *source)
{
	int64_t until = now_ms() + LONG_MS;
	struct dfi_event event;
	int ret;

	do
		ret = dfi_source_event(source, &event);
	while (ret == -EAGAIN && now_ms() < until);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	return event;
}

static uint64_t dropped_by(struct dfi_source *source)
{
	uint64_t n;

	cr_assert_eq(dfi_source_dropped(source, &n), 0);
	return n;
}

/* What it leaves is dropped and counted, also where a loss fails the flow. */
static void cancel_with_tuples(uint32_t kind, uint32_t on_loss)
{
	struct dfi_event event;
	struct dfi_source *s;
	struct dfi_target *t;
	uint64_t i;

	create(kind, kind == DFI_SHUFFLE ? DFI_ROUTE_ANY : 0, on_loss);
	t = target_with(0, 0);
	s = source_with(0, DFI_EVENTS);
	cr_assert_eq(event_of(s).type, DFI_JOINED);
	for (i = 0; i < 3 * SEGMENT; i++)
		push_number(s, i);
	for (i = 0; i < SEGMENT; i++)
		expect_number(t, i);
	cancel(t);
	event = event_of(s);
	cr_assert_eq(event.type, DFI_ENDED, "%u", event.type);
	cr_assert_eq(event.seat, 0);
	/* Over a network this is an upper bound. */
	cr_assert_geq(dropped_by(s), 2 * SEGMENT);
	cr_assert_leq(dropped_by(s), 3 * SEGMENT);
	cr_assert(over_network() || dropped_by(s) == 2 * SEGMENT);
	close_source(s);
	close_target(t);
	remove_flow();
}

Test(open_cancel, is_no_loss_for_sources)
{
	cancel_with_tuples(DFI_SHUFFLE, DFI_ON_LOSS_FAIL);
	cancel_with_tuples(DFI_SHUFFLE, DFI_ON_LOSS_DROP);
	cancel_with_tuples(DFI_REPLICATE, DFI_ON_LOSS_FAIL);
}

Test(open_cancel, frees_the_seat_before_the_close)
{
	struct kv kv = numbered_kv(7);
	struct dfi_target *first, *second;
	int64_t until = now_ms() + LONG_MS;
	struct dfi_source *s;
	int ret;

	create(DFI_SHUFFLE, DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	first = target_with(1, 0);
	s = source_with(0, 0);
	cr_assert_eq(dfi_source_push_to(s, 1, &kv), 0, "%s", dfi_errmsg());
	cancel(first);
	/* Until it has heard of that. */
	while (!(ret = dfi_source_push_to(s, 1, &kv)))
		cr_assert_eq(dfi_source_flush(s), 0, "%s", dfi_errmsg());
	assert_error(ret, -ENXIO, "target 1", "nobody holds this seat");
	second = target_with(1, 0);
	do
		ret = dfi_source_push_to(s, 1, &kv);
	while (ret == -ENXIO && now_ms() < until);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	close_source(s);
	/* Its close leaves the next holder's seat alone. */
	close_target(first);
	expect_number(second, 7);
	finish();
	end_target(second);
}

static void *push_many(void *arg)
{
	uint64_t i;

	for (i = 0; i < 8 * SEGMENT * RING; i++) {
		struct kv kv = numbered_kv(i);

		if (dfi_source_push(arg, &kv) < 0)
			return "a push failed";
	}
	return dfi_source_close(arg) < 0 ? "the close failed" : NULL;
}

/* The ring of the one that cancels is full, and its source waits for it. */
static void cancel_while_a_source_waits(uint32_t kind)
{
	struct dfi_target *lazy, *busy;
	struct dfi_target_stats stats;
	struct dfi_flow_attr attr = flow_attr(kind,
	    kind == DFI_SHUFFLE ? DFI_ROUTE_ROUND_ROBIN : 0, DFI_ON_LOSS_FAIL);
	struct dfi_source *s;
	pthread_t thread;
	const void *tuple;
	void *failed;
	uint64_t n = 0;

	attr.open.min_targets = 2;
	create_with(&attr);
	lazy = target_with(0, 0);
	busy = target_with(1, 0);
	s = source_with(0, 0);
	cr_assert_eq(pthread_create(&thread, NULL, push_many, s), 0);
	/*
	 * The full ring of the other one lets it have more, but not much: in a
	 * replicate flow that has a mark (J1), and may have moves (G3).
	 */
	while (n < SEGMENT * (RING - 4)) {
		cr_assert_eq(
		    dfi_target_consume(busy, &tuple), 1, "%s", dfi_errmsg());
		n++;
	}
	cancel(lazy);
	finish();
	while (dfi_target_consume(busy, &tuple) == 1)
		n++;
	cr_assert_eq(pthread_join(thread, &failed), 0);
	cr_assert_null(failed, "%s", (const char *)failed);
	if (kind == DFI_REPLICATE)
		cr_assert_eq(n, 8 * SEGMENT * RING);
	dfi_target_query(lazy, &stats);
	cr_assert_eq(stats.tuples, 0);
	close_target(lazy);
	close_target(busy);
	remove_flow();
}

Test(open_cancel, ends_the_wait_for_the_target)
{
	cancel_while_a_source_waits(DFI_SHUFFLE);
	cancel_while_a_source_waits(DFI_REPLICATE);
}

/* Consume one tuple, if there is one: how many that are. */
static uint32_t take_one(struct dfi_target *target)
{
	const void *tuple;
	int ret = dfi_target_consume(target, &tuple);

	cr_assert(ret == 1 || ret == -EAGAIN, "%s", dfi_errmsg());
	return ret == 1;
}

/* Its partitions go to the others, as if it had died. */
Test(open_cancel, gives_partitions_to_others)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_SHUFFLE, DFI_ROUTE_HASH, DFI_ON_LOSS_FAIL);
	int64_t until = now_ms() + LONG_MS;
	struct dfi_event event = { .type = 0 };
	struct dfi_target *first, *second;
	uint32_t n = 0, i = 0;
	struct dfi_source *s;
	int ret;

	create_with(&attr);
	first = target_with(0, 0);
	second = target_with(1, DFI_NONBLOCK);
	s = source_with(0, DFI_NONBLOCK | DFI_EVENTS);
	/* Both are there. */
	cr_assert_eq(event_of(s).type, DFI_JOINED);
	cr_assert_eq(event_of(s).type, DFI_JOINED);
	cancel(first);
	while (event.type != DFI_ENDED || event.seat != 0) {
		cr_assert_lt(now_ms(), until);
		(void)dfi_source_event(s, &event);
	}
	while (n < 200) {
		struct kv kv = numbered_kv(i);

		cr_assert_lt(now_ms(), until, "%u of %u", n, i);
		ret = i < 200 ? dfi_source_push(s, &kv) : -EAGAIN;
		cr_assert(ret == 0 || ret == -EAGAIN, "%s", dfi_errmsg());
		i += ret == 0;
		if (i == 200)
			cr_assert_eq(dfi_source_flush(s), 0);
		n += take_one(second);
	}
	cr_assert_eq(dropped_by(s), 0);
	close_source(s);
	close_target(first);
	close_target(second);
}

Test(open_cancel, may_be_repeated_and_waits_for_what_is_lent)
{
	struct dfi_batch batch;
	struct dfi_source *s;
	struct dfi_target *t;

	create(DFI_SHUFFLE, DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	t = target_with(0, 0);
	s = source_with(0, 0);
	push_number(s, 7);
	cr_assert_eq(dfi_source_flush(s), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_consume_batch(t, &batch), 1);
	assert_error(dfi_target_cancel(t), -EBUSY, "batch");
	dfi_target_release(t, &batch);
	cancel(t);
	cancel(t);
	close_source(s);
	close_target(t);
}

Test(open_cancel, of_a_member_of_a_group_leaves_the_others)
{
	struct dfi_target_group_batch batch;
	struct dfi_target_group *group;
	struct dfi_target *targets[2];
	struct dfi_source *s;
	uint64_t n = 0;
	uint32_t i;
	int ret;

	create(DFI_REPLICATE, 0, DFI_ON_LOSS_FAIL);
	cr_assert_eq(dfi_target_group_open(rig.other, NULL, &group), 0);
	for (i = 0; i < 2; i++) {
		targets[i] = target_with(i, 0);
		cr_assert_eq(dfi_target_group_add(group, targets[i], NULL), 0);
	}
	s = source_with(0, 0);
	cr_assert_eq(dfi_target_cancel(targets[0]), 0, "%s", dfi_errmsg());
	close_target(targets[0]);
	for (i = 0; i < SEGMENT; i++)
		push_number(s, i);
	close_source(s);
	finish();
	while ((ret = dfi_target_group_consume_batch(group, &batch)) > 0) {
		n += (uint64_t)ret;
		dfi_target_group_release(group, &batch);
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_leq(n, SEGMENT);
	close_target(targets[1]);
	cr_assert_eq(dfi_target_group_close(group), 0);
}

/* Nobody would get its groups. */
Test(open_cancel, targets_of_combiner_flows_stay)
{
	static const struct dfi_aggregate sum = {
		.function = DFI_SUM,
		.field = "val",
	};
	struct dfi_flow_attr attr = flow_attr(DFI_COMBINE, 0, DFI_ON_LOSS_FAIL);
	struct dfi_target *t;

	attr.combine.aggregates = &sum;
	attr.combine.n_aggregates = 1;
	attr.combine.group_by = "key";
	attr.combine.window_tuples = DFI_WINDOW_MARKED;
	create_with(&attr);
	t = target_with(0, 0);
	assert_error(
	    dfi_target_cancel(t), -EOPNOTSUPP, "combiner flow", "stay");
	close_target(t);
}

/* ---- Rules of the headers -------------------------------------------------
 */

Test(open_rules, pushes_wait_when_all_targets_have_left)
{
	struct kv kv = numbered_kv(0);
	struct dfi_source *s;
	struct dfi_target *t;
	uint64_t n = 0;
	int ret;

	create(DFI_SHUFFLE, DFI_ROUTE_ANY, DFI_ON_LOSS_DROP);
	t = target_with(0, 0);
	s = source_with(0, DFI_NONBLOCK);
	cr_assert_eq(push_soon(s, &kv), 0, "%s", dfi_errmsg());
	close_target(t);
	/* Until it has heard of that, tuples are dropped. */
	while (!(ret = dfi_source_push(s, &kv))) {
		cr_assert_eq(dfi_source_flush(s), 0, "%s", dfi_errmsg());
		kv = numbered_kv(++n);
	}
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
	t = target_with(1, 0);
	push_by_fd(s, &kv);
	close_source(s);
	expect_number(t, n);
	finish();
	end_target(t);
}

Test(open_rules, pushes_do_not_wait_for_events)
{
	struct dfi_target *first, *second;
	struct dfi_event event;
	struct dfi_source *s;

	create(DFI_REPLICATE, 0, DFI_ON_LOSS_DROP);
	first = target_with(0, 0);
	s = source_with(0, DFI_EVENTS);
	push_number(s, 1);
	second = target_with(1, 0);
	push_number(s, 2);
	cr_assert_eq(dfi_source_flush(s), 0, "%s", dfi_errmsg());
	expect_number(first, 1);
	expect_number(first, 2);
	/* They are there when it suits. */
	cr_assert_eq(event_of(s).type, DFI_JOINED);
	cr_assert_eq(event_of(s).type, DFI_JOINED);
	cr_assert_eq(dfi_source_event(s, &event), -EAGAIN);
	close_source(s);
	close_target(first);
	close_target(second);
}

/*
 * The descriptor is readable until the call finds nothing, and again when there
 * is an event. It may be readable for nothing, but not for ever.
 */
static void await_event(struct dfi_source *s, uint32_t type, uint32_t seat)
{
	struct pollfd pollfd = { .fd = dfi_source_fd(s), .events = POLLIN };
	int64_t until = now_ms() + LONG_MS;
	struct dfi_event event;
	int ret;

	cr_assert_geq(pollfd.fd, 0, "%s", dfi_errmsg());
	while ((ret = dfi_source_event(s, &event)) == -EAGAIN)
		await_fd(pollfd.fd);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(event.type, type, "%u", event.type);
	cr_assert_eq(event.seat, seat);
	do {
		cr_assert_eq(dfi_source_event(s, &event), -EAGAIN);
		cr_assert_lt(now_ms(), until, "it is always readable");
	} while (poll(&pollfd, 1, 0));
}

Test(open_rules, events_make_the_descriptor_of_a_source_readable)
{
	struct kv kv = numbered_kv(1);
	struct dfi_target *first, *second;
	struct dfi_batch batch;
	struct dfi_source *s;
	int i, ret;

	create(DFI_SHUFFLE, DFI_ROUTE_DIRECT, DFI_ON_LOSS_DROP);
	s = source_with(0, DFI_EVENTS | DFI_NONBLOCK);
	first = target_with(0, 0);
	await_event(s, DFI_JOINED, 0);
	second = target_with(1, 0);
	await_event(s, DFI_JOINED, 1);
	close_target(second);
	await_event(s, DFI_ENDED, 1);
	/* A push that was refused keeps its notice. */
	while ((ret = dfi_source_push_to(s, 0, &kv)) == 0)
		;
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
	for (i = 0; i < RING; i++) {
		cr_assert_eq(consume_batch_soon(first, &batch), SEGMENT);
		dfi_target_release(first, &batch);
	}
	second = target_with(1, 0);
	await_event(s, DFI_JOINED, 1);
	cr_assert_eq(dfi_source_push_to(s, 0, &kv), 0, "%s", dfi_errmsg());
	close_target(first);
	close_target(second);
	close_source(s);
}

Test(open_rules, who_has_come_and_gone_has_no_event)
{
	struct dfi_target *first, *second;
	struct dfi_event event;
	struct dfi_source *s;

	create(DFI_SHUFFLE, DFI_ROUTE_DIRECT, DFI_ON_LOSS_DROP);
	first = target_with(0, 0);
	s = source_with(0, DFI_EVENTS);
	cr_assert_eq(event_of(s).seat, 0);
	close_target(target_with(1, 0));
	second = target_with(2, 0);
	/* Over a network, the source may hear of the end later. */
	do
		event = event_of(s);
	while (over_network() && event.seat == 1);
	cr_assert_eq(event.seat, 2);
	cr_assert_eq(event.type, DFI_JOINED);
	cr_assert_eq(dfi_source_event(s, &event), -EAGAIN);
	close_source(s);
	close_target(first);
	close_target(second);
}

/* A view begins without one that comes later, until that consumes. */
Test(open_rules, a_target_that_has_not_begun_has_no_position)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_REPLICATE, 0, DFI_ON_LOSS_DROP);
	struct dfi_target *first, *second;
	uint64_t position;
	struct dfi_source *s;
	const void *tuple;

	attr.replicate.ordered = 1;
	create_with(&attr);
	first = target_with(0, 0);
	s = source_with(0, DFI_EVENTS);
	cr_assert_eq(event_of(s).type, DFI_JOINED);
	push_number(s, 0);
	cr_assert_eq(dfi_source_flush(s), 0, "%s", dfi_errmsg());
	expect_number(first, 0);
	second = target_with(1, 0);
	assert_error(dfi_target_position(second, &position), -EAGAIN, "");
	cr_assert_eq(event_of(s).type, DFI_JOINED);
	push_number(s, 1);
	cr_assert_eq(dfi_source_flush(s), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_consume(second, &tuple), 1, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_position(second, &position), 0);
	close_source(s);
	close_target(first);
	close_target(second);
}

/* ---- Counters -------------------------------------------------------------
 */

#define PARTITIONS 32

/* What dfi_stats_list() says of one endpoint. */
struct view {
	uint32_t role, index;
	bool found, unanswered;
	struct dfi_endpoint_stats stats;
};

static int look(void *arg, const struct dfi_node_stats *stats)
{
	struct view *view = arg;
	uint32_t i;

	view->unanswered |= stats->error != NULL;
	for (i = 0; i < stats->n_endpoints; i++) {
		const struct dfi_endpoint_stats *at = &stats->endpoints[i];

		if (at->role != view->role || at->index != view->index)
			continue;
		/* A ring is no member. */
		if (at->peer) {
			cr_assert_eq(at->incarnation, 0);
			cr_assert_eq(at->epoch, 0);
			continue;
		}
		view->found = true;
		view->stats = *at;
	}
	return 0;
}

static struct dfi_endpoint_stats look_at(uint32_t role, uint32_t index)
{
	int64_t until = now_ms() + LONG_MS;
	struct view view;

	do {
		view = (struct view){ .role = role, .index = index };
		cr_assert_eq(dfi_stats_list(rig.dfi, look, &view), 0, "%s",
		    dfi_errmsg());
	} while ((!view.found || view.unanswered) && now_ms() < until);
	cr_assert(view.found);
	return view.stats;
}

static int keep_incarnation(void *arg, const struct dfi_member_info *info)
{
	uint64_t *incarnations = arg;

	incarnations[info->role == DFI_ROLE_TARGET] = info->incarnation;
	return 0;
}

Test(open_stats, name_incarnations_and_what_was_dropped)
{
	struct dfi_endpoint_stats of_source, of_target;
	uint64_t incarnations[2] = { 0 };
	struct dfi_source *s;
	struct dfi_target *t;

	create(DFI_SHUFFLE, DFI_ROUTE_ANY, DFI_ON_LOSS_DROP);
	t = target_with(2, 0);
	s = source_with(1, DFI_EVENTS);
	cr_assert_eq(event_of(s).type, DFI_JOINED);
	push_number(s, 1);
	cr_assert_eq(dfi_source_flush(s), 0, "%s", dfi_errmsg());
	of_source = look_at(DFI_ROLE_SOURCE, 1);
	of_target = look_at(DFI_ROLE_TARGET, 2);
	cr_assert_eq(
	    dfi_member_list(rig.dfi, "f", keep_incarnation, incarnations), 0);
	cr_assert_eq(of_source.incarnation, incarnations[0]);
	cr_assert_eq(of_target.incarnation, incarnations[1]);
	cr_assert_eq(of_source.dropped, 0);
	cr_assert_eq(of_source.evictions, 0);
	cr_assert_eq(of_target.epoch, 0);
	close_target(t);
	cr_assert_eq(event_of(s).type, DFI_LOST);
	cr_assert_eq(look_at(DFI_ROLE_SOURCE, 1).dropped, 1);
	close_source(s);
}

Test(open_stats, count_evictions)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_REPLICATE, 0, DFI_ON_LOSS_DROP);
	int64_t until = now_ms() + LONG_MS;
	struct dfi_endpoint_stats stats;
	struct kv kv = numbered_kv(1);
	struct dfi_event event;
	struct dfi_source *s;
	struct dfi_target *t;
	const void *tuple;
	int ret;

	attr.open.evict_after_ms = 50;
	create_with(&attr);
	t = target_with(0, 0);
	s = source_with(0, DFI_EVENTS | DFI_NONBLOCK);
	cr_assert_eq(event_of(s).type, DFI_JOINED);
	while (dfi_source_event(s, &event) == -EAGAIN) {
		cr_assert_lt(now_ms(), until, "nobody is evicted");
		ret = dfi_source_push(s, &kv);
		cr_assert(ret == 0 || ret == -EAGAIN, "%s", dfi_errmsg());
	}
	cr_assert_eq(event.type, DFI_EVICTED);
	stats = look_at(DFI_ROLE_SOURCE, 0);
	cr_assert_eq(stats.evictions, 1);
	cr_assert_gt(stats.dropped, 0);
	while (dfi_target_consume(t, &tuple) == 1)
		;
	cr_assert_eq(dfi_target_close(t), -ESTALE);
	/* A push was refused while nobody was there. */
	(void)dfi_source_close(s);
}

/* Wait until a target owns so many partitions, and none are on their way. */
static struct dfi_endpoint_stats await_partitions(
    struct dfi_target *target, uint32_t n)
{
	uint32_t seat = (uint32_t)dfi_target_seat(target);
	int64_t until = now_ms() + LONG_MS;
	struct dfi_endpoint_stats stats;
	const void *tuple;

	do {
		/* An owner takes and releases when it consumes. */
		(void)dfi_target_consume(target, &tuple);
		stats = look_at(DFI_ROLE_TARGET, seat);
	} while (
	    (stats.n_partitions != n || stats.n_moving) && now_ms() < until);
	cr_assert_eq(stats.n_partitions, n);
	cr_assert_eq(stats.n_moving, 0);
	return stats;
}

Test(open_stats, name_owners_and_epochs)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_SHUFFLE, DFI_ROUTE_HASH, DFI_ON_LOSS_DROP);
	struct dfi_target *first, *second;
	struct dfi_endpoint_stats before;
	struct dfi_source *s;
	const void *tuple;

	attr.open.partitions = PARTITIONS;
	create_with(&attr);
	first = target_with(0, DFI_NONBLOCK);
	before = await_partitions(first, PARTITIONS);
	cr_assert_gt(before.epoch, 0);
	second = target_with(1, DFI_NONBLOCK);
	/* The first one releases when it consumes. */
	cr_assert_gt(
	    await_partitions(first, PARTITIONS / 2).epoch, before.epoch);
	await_partitions(second, PARTITIONS / 2);
	s = source_with(0, 0);
	cr_assert_gt(look_at(DFI_ROLE_SOURCE, 0).epoch, before.epoch);
	cr_assert_eq(look_at(DFI_ROLE_SOURCE, 0).n_partitions, 0);
	close_source(s);
	while (dfi_target_consume(first, &tuple) == 1)
		;
	close_target(first);
	close_target(second);
}

static int count_device(void *arg, const struct dfi_transport_stats *stats)
{
	(void)stats;
	++*(uint32_t *)arg;
	return 0;
}

/* Its partitions would wait, as that may take most of a second. */
Test(open_stats, a_network_is_there_before_its_target)
{
	struct dfi_target *target;
	uint32_t n = 0;

	if (!over_network())
		cr_skip_test("DFI_TRANSPORT is no network");
	create(DFI_SHUFFLE, DFI_ROUTE_HASH, DFI_ON_LOSS_DROP);
	cr_assert_eq(dfi_context_query(rig.other, count_device, &n), 0);
	cr_assert_eq(n, 0);
	target = open_target(rig.other, "f", 0, 0);
	/* Without a source, so there is no ring yet. */
	cr_assert_eq(dfi_context_query(rig.other, count_device, &n), 0);
	cr_assert_geq(n, 1);
	cr_assert_eq(dfi_target_close(target), 0);
}

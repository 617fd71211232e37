/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks in open flows with replay, and sources that do not return: K2, K5 and
 * R7 of docs/open-flows.md.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "mark_help.h"

#define SEATS 3
#define SEGMENT 4u /* tuples */
#define RING 16u   /* segments */

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(replay_marks, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_attr flow_attr(uint32_t return_timeout_ms)
{
	/* The goal DFI_LATENCY: each tuple is a segment. */
	bool latency = test_setting("LATENCY", 0);

	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.routing = DFI_ROUTE_ANY,
		.goal = latency ? DFI_LATENCY : DFI_BANDWIDTH,
		.segment_size = latency
		    ? 0
		    : SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = latency ? SEGMENT * RING : RING,
		.open = {
			.membership = DFI_MEMBERS_OPEN,
			.on_loss = DFI_ON_LOSS_REPLAY,
			.input_position = "val",
			.return_timeout_ms = return_timeout_ms,
		},
	};
}

static void create(uint32_t return_timeout_ms)
{
	struct dfi_flow_attr attr = flow_attr(return_timeout_ms);

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

/* ---- A target of the application -------------------------------------------
 */

struct worker {
	struct dfi_target *target;
	uint32_t n_consumed;
	struct dfi_event gave_up, lost; /* the last such events */
	uint32_t n_gave_up;
};

static void open_worker(struct worker *worker, uint32_t seat, uint32_t flags)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;

	memset(worker, 0, sizeof(*worker));
	attr.flags = DFI_EVENTS | DFI_NONBLOCK | flags;
	cr_assert_eq(
	    dfi_target_open(rig.other, "f", seat, &attr, &worker->target), 0,
	    "%s", dfi_errmsg());
}

/* Consume and acknowledge what is there. Returns the last error. */
static int work(struct worker *worker)
{
	struct dfi_event event;
	const void *tuple;
	int ret;

	for (;;) {
		ret = dfi_target_consume(worker->target, &tuple);
		if (ret == -ENOMSG) {
			cr_assert_eq(
			    dfi_target_event(worker->target, &event), 0);
			if (event.type == DFI_LOST)
				worker->lost = event;
			if (event.type != DFI_GIVEN_UP)
				continue;
			worker->gave_up = event;
			worker->n_gave_up++;
			continue;
		}
		if (ret <= 0) {
			cr_assert_eq(dfi_target_ack(worker->target), 0, "%s",
			    dfi_errmsg());
			return ret;
		}
		worker->n_consumed++;
	}
}

static void work_until_watermark(struct worker *worker, uint64_t value)
{
	int64_t until = now_ms() + LONG_MS;

	while (watermark_of(worker->target) < value) {
		(void)work(worker);
		cr_assert_lt(now_ms(), until, "%lu",
		    (unsigned long)watermark_of(worker->target));
		yield_times(1);
	}
	cr_assert_eq(watermark_of(worker->target), value);
}

static void work_until_consumed(struct worker *worker, uint32_t n)
{
	int64_t until = now_ms() + LONG_MS;

	while (worker->n_consumed < n) {
		(void)work(worker);
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
}

static void work_until_lost(struct worker *worker)
{
	int64_t until = now_ms() + LONG_MS;

	while (!worker->lost.type) {
		(void)work(worker);
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
}

static void work_until_given_up(struct worker *worker)
{
	int64_t until = now_ms() + LONG_MS;

	while (!worker->n_gave_up) {
		(void)work(worker);
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
	cr_assert_eq(worker->gave_up.seat, worker->lost.seat);
	cr_assert_eq(worker->gave_up.incarnation, worker->lost.incarnation);
}

static void finish(struct worker *worker)
{
	int64_t until = now_ms() + LONG_MS;

	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0, "%s", dfi_errmsg());
	while (work(worker) != 0) {
		cr_assert_lt(now_ms(), until, "%s", dfi_errmsg());
		yield_times(1);
	}
	cr_assert_eq(dfi_target_close(worker->target), 0);
}

/* ---- Sources ---------------------------------------------------------------
 */

static struct dfi_source *open_at(uint32_t seat)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;

	attr.open_timeout_ms = attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", seat, &attr, &source), 0,
	    "%s", dfi_errmsg());
	return source;
}

/* Tuples up to a position, and that as mark. */
static void push_and_mark(
    struct dfi_source *source, uint64_t first, uint64_t last)
{
	for (; first <= last; first++) {
		struct kv kv = { first, first };

		cr_assert_eq(
		    dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
	}
	cr_assert_eq(dfi_source_mark(source, last), 0, "%s", dfi_errmsg());
}

static void kill_source(struct dfi_source *source)
{
	dfi_source_abort(source);
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
}

static void *close_it(void *source)
{
	return dfi_source_close(source) ? source : NULL;
}

/* Close a source, whose targets acknowledge meanwhile. */
static void close_source(struct dfi_source *source, struct worker *worker)
{
	int64_t until = now_ms() + LONG_MS;
	void *failed = source;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, close_it, source), 0);
	while (pthread_tryjoin_np(thread, &failed)) {
		(void)work(worker);
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
	cr_assert_null(failed);
}

/* Two sources at 10 and 20; the second is lost, and the first at 30. */
static struct dfi_source *lose_one(
    struct worker *worker, uint32_t return_timeout_ms, uint32_t flags)
{
	struct dfi_source *first, *second;

	create(return_timeout_ms);
	open_worker(worker, 0, flags);
	first = open_at(0);
	second = open_at(1);
	/* Both are connected. */
	push_and_mark(second, 1, 10);
	push_and_mark(first, 1, 10);
	work_until_watermark(worker, 10);
	push_and_mark(second, 11, 20);
	work_until_consumed(worker, 30);
	assert_error(dfi_flow_give_up(rig.dfi, "f", 1), -EBUSY, "attached");
	kill_source(second);
	push_and_mark(first, 11, 30);
	work_until_watermark(worker, 20);
	work_until_lost(worker);
	return first;
}

/* ---- K2 --------------------------------------------------------------------
 */

Test(replay_marks, of_a_lost_source_hold_until_it_returns)
{
	struct worker worker;
	struct dfi_source *first = lose_one(&worker, LONG_MS, 0), *second;
	uint64_t lowest = 0;

	push_and_mark(first, 31, 40);
	work_until_consumed(&worker, 60);
	cr_assert_eq(watermark_of(worker.target), 20);
	second = open_at(1);
	cr_assert_eq(
	    dfi_source_resume(second, &lowest, NULL, 0), 0, "%s", dfi_errmsg());
	cr_assert_leq(lowest, 20);
	/* It repeats its mark, which says nothing new (K5). */
	push_and_mark(second, lowest + 1, 20);
	push_and_mark(second, 21, 25);
	work_until_watermark(&worker, 25);
	push_and_mark(second, 26, 60);
	work_until_watermark(&worker, 40);
	cr_assert_eq(worker.n_gave_up, 0);
	close_source(second, &worker);
	close_source(first, &worker);
	finish(&worker);
	cr_assert_eq(worker.n_gave_up, 0);
}

/* One that has ended waits for nobody. */
Test(replay_marks, of_a_source_that_has_ended_hold_nobody_up)
{
	struct worker worker;
	struct dfi_source *first, *second;

	create(0);
	open_worker(&worker, 0, 0);
	first = open_at(0);
	second = open_at(1);
	/* It has joined. */
	push_and_mark(second, 1, 10);
	work_until_consumed(&worker, 10);
	push_and_mark(first, 1, 20);
	work_until_consumed(&worker, 30);
	/* The first one's mark may come behind its tuples. */
	work_until_watermark(&worker, 10);
	close_source(second, &worker);
	work_until_watermark(&worker, 20);
	cr_assert_eq(dfi_flow_give_up(rig.dfi, "f", 1), 0);
	close_source(first, &worker);
	finish(&worker);
	cr_assert_eq(worker.n_gave_up, 0);
}

/* ---- R7 --------------------------------------------------------------------
 */

Test(replay_marks, of_a_source_that_is_given_up_hold_no_more)
{
	struct worker worker;
	struct dfi_source *first = lose_one(&worker, 0, 0), *second;

	cr_assert_eq(dfi_flow_give_up(rig.dfi, "f", 1), 0, "%s", dfi_errmsg());
	work_until_given_up(&worker);
	work_until_watermark(&worker, 30);
	/* Who comes later is another one (K2). */
	second = open_at(1);
	push_and_mark(second, 21, 25);
	work_until_consumed(&worker, 55);
	push_and_mark(first, 31, 50);
	push_and_mark(second, 26, 45);
	work_until_watermark(&worker, 45);
	cr_assert_eq(worker.n_gave_up, 1);
	close_source(second, &worker);
	close_source(first, &worker);
	finish(&worker);
}

Test(replay_marks, a_source_that_does_not_return_is_given_up)
{
	struct worker worker;
	struct dfi_source *first = lose_one(&worker, 30, 0);

	work_until_given_up(&worker);
	work_until_watermark(&worker, 30);
	close_source(first, &worker);
	finish(&worker);
	cr_assert_eq(worker.n_gave_up, 1);
}

Test(replay_marks, when_no_more_sources_come_nobody_is_waited_for)
{
	struct worker worker;
	struct dfi_source *first = lose_one(&worker, 0, 0);

	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0, "%s", dfi_errmsg());
	work_until_given_up(&worker);
	work_until_watermark(&worker, 30);
	close_source(first, &worker);
	finish(&worker);
}

Test(replay_marks, a_barrier_waits_for_a_lost_source_until_it_is_given_up)
{
	struct worker worker;
	struct dfi_source *first = lose_one(&worker, 0, DFI_ALIGN);
	int i;

	/* Behind its mark 30 nothing is taken. */
	push_and_mark(first, 31, 40);
	for (i = 0; i < 100; i++) {
		(void)work(&worker);
		yield_times(1);
	}
	cr_assert_eq(worker.n_consumed, 50);
	cr_assert_eq(dfi_flow_give_up(rig.dfi, "f", 1), 0);
	work_until_watermark(&worker, 40);
	cr_assert_eq(worker.n_consumed, 60);
	close_source(first, &worker);
	finish(&worker);
}

/* ---- What is refused -------------------------------------------------------
 */

Test(replay_marks, only_lost_sources_of_such_flows_are_given_up)
{
	struct dfi_flow_attr attr = flow_attr(0);

	assert_error(dfi_flow_give_up(rig.dfi, "f", 0), -ENOENT, "f");
	create(0);
	assert_error(dfi_flow_give_up(rig.dfi, "f", SEATS), -ERANGE, "0 to 2");
	assert_error(dfi_flow_give_up(rig.other, "f", 0), -EPERM, "gives up");
	attr.open.on_loss = DFI_ON_LOSS_DROP;
	attr.open.input_position = NULL;
	cr_assert_eq(dfi_flow_create(rig.dfi, "drop", &attr), 0);
	assert_error(
	    dfi_flow_give_up(rig.dfi, "drop", 0), -EPROTOTYPE, "REPLAY");
	attr.open.return_timeout_ms = 1;
	assert_error(dfi_flow_create(rig.dfi, "g", &attr), -EINVAL,
	    "return_timeout_ms", "DFI_ON_LOSS_REPLAY");
	attr = flow_attr(1);
	attr.open.membership = 0;
	attr.open.on_loss = 0;
	attr.open.input_position = NULL;
	assert_error(dfi_flow_create(rig.dfi, "g", &attr), -EINVAL,
	    "return_timeout_ms", "DFI_MEMBERS_OPEN");
}

/* ---- Marks among tuples that are sent again --------------------------------
 */

Test(replay_marks, in_a_lost_target_s_ring_are_no_tuples)
{
	struct worker first, second;
	struct dfi_source *source;
	const void *tuple;

	create(0);
	open_worker(&first, 0, 0);
	source = open_at(0);
	push_and_mark(source, 1, 3);
	push_and_mark(source, 4, 5);
	cr_assert_eq(dfi_source_mark(source, 6), 0);
	while (dfi_target_consume(first.target, &tuple) <= 0) {
		struct dfi_event event;

		(void)dfi_target_event(first.target, &event);
	}
	cr_assert_eq(dfi_target_close(first.target), 0);
	open_worker(&second, 1, 0);
	work_until_watermark(&second, 6);
	work_until_consumed(&second, 5);
	push_and_mark(source, 7, 9);
	work_until_watermark(&second, 9);
	close_source(source, &second);
	finish(&second);
	cr_assert_eq(second.n_consumed, 8);
}

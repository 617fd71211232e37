/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks of sources and the watermark of targets, by the rules K1 to K5 of
 * docs/open-flows.md, in closed flows of all kinds that have them.
 */
#include <criterion/criterion.h>
#include <dfi/target_group.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "mark_help.h"

#define MAX_ENDS 4

static struct rig rig;

static void setup(void)
{
	setenv("DFI_RING_MEMORY", "1M", 1);
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(marks, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_attr flow_attr(uint32_t n_sources, uint32_t n_targets)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = n_sources,
		.n_targets = n_targets,
		.routing = DFI_ROUTE_DIRECT,
		.segment_size = 4 * sizeof(struct kv),
		.segment_count = 4,
	};
}

static void create(const struct dfi_flow_attr *attr)
{
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

static void push(struct dfi_source *source, uint32_t to, uint64_t number)
{
	struct kv kv = numbered_kv(number);

	cr_assert_eq(
	    dfi_source_push_to(source, to, &kv), 0, "%s", dfi_errmsg());
}

static uint64_t expected_value;

static bool has_watermark(void *target)
{
	const void *tuple;

	cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN);
	return watermark_of(target) == expected_value;
}

/* Nothing comes but a mark, and the target gets no events. */
static void expect_quiet_mark(struct dfi_target *target, uint64_t value)
{
	expected_value = value;
	cr_assert(eventually(has_watermark, target));
}

static struct dfi_target *open_with_events(uint32_t index)
{
	return open_target(rig.dfi, "f", index, DFI_NONBLOCK | DFI_EVENTS);
}

static void close_source(struct dfi_source *source)
{
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
}

/* ---- The watermark ------------------------------------------------------ */

Test(marks, mark_comes_behind_what_was_pushed_before)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_source *source;
	struct dfi_target *target;

	create(&attr);
	target = open_with_events(0);
	source = open_source(rig.other, "f", 0, 0);
	cr_assert_eq(watermark_of(target), 0);
	push(source, 0, 1);
	push(source, 0, 2);
	mark_soon(source, 10);
	push(source, 0, 3);
	cr_assert_eq(dfi_source_flush(source), 0);
	expect_number(target, 1);
	cr_assert_eq(watermark_of(target), 0);
	expect_number(target, 2);
	expect_mark(target, 10);
	expect_number(target, 3);
	/* Without a tuple between them. */
	mark_soon(source, 11);
	expect_mark(target, 11);
	mark_soon(source, UINT64_MAX - 1);
	expect_mark(target, UINT64_MAX - 1);
	close_source(source);
	end_target(target);
}

Test(marks, watermark_is_the_least_of_all_sources)
{
	struct dfi_flow_attr attr = flow_attr(2, 2);
	struct dfi_source *sources[2];
	struct dfi_target *targets[2];
	uint32_t i;

	create(&attr);
	for (i = 0; i < 2; i++)
		targets[i] = open_with_events(i);
	for (i = 0; i < 2; i++)
		sources[i] = open_source(rig.other, "f", i, 0);
	mark_soon(sources[0], 5);
	push(sources[0], 1, 1);
	cr_assert_eq(dfi_source_flush(sources[0]), 0);
	expect_number(targets[1], 1);
	expect_nothing(targets[0]);
	cr_assert_eq(watermark_of(targets[0]), 0);
	mark_soon(sources[1], 3);
	for (i = 0; i < 2; i++)
		expect_mark(targets[i], 3);
	mark_soon(sources[1], 9);
	for (i = 0; i < 2; i++)
		expect_mark(targets[i], 5);
	mark_soon(sources[0], 20);
	for (i = 0; i < 2; i++)
		expect_mark(targets[i], 9);
	close_source(sources[1]);
	for (i = 0; i < 2; i++)
		expect_mark(targets[i], 20);
	close_source(sources[0]);
	for (i = 0; i < 2; i++)
		end_target(targets[i]);
}

Test(marks, source_that_has_ended_counts_no_more)
{
	struct dfi_flow_attr attr = flow_attr(2, 1);
	struct dfi_source *sources[2];
	struct dfi_target *target;
	uint32_t i;

	create(&attr);
	target = open_with_events(0);
	for (i = 0; i < 2; i++)
		sources[i] = open_source(rig.other, "f", i, 0);
	mark_soon(sources[0], 7);
	push(sources[1], 0, 1);
	close_source(sources[1]);
	/* Its tuples come first. */
	expect_number(target, 1);
	expect_mark(target, 7);
	mark_soon(sources[0], 8);
	expect_mark(target, 8);
	close_source(sources[0]);
	end_target(target);
}

Test(marks, watermark_stays_when_the_flow_has_ended)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;

	create(&attr);
	target = open_with_events(0);
	source = open_source(rig.other, "f", 0, 0);
	mark_soon(source, 4);
	close_source(source);
	expect_mark(target, 4);
	cr_assert_eq(consume_soon(target, &tuple), 0);
	cr_assert_eq(watermark_of(target), 4);
	end_target(target);
}

Test(marks, target_without_events_only_has_the_watermark)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_event event;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.other, "f", 0, 0);
	push(source, 0, 1);
	mark_soon(source, 4);
	expect_number(target, 1);
	expect_quiet_mark(target, 4);
	assert_error(dfi_target_event(target, &event), -EINVAL, "DFI_EVENTS");
	close_source(source);
	end_target(target);
}

Test(marks, marks_must_rise)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_source *source;
	struct dfi_target *target;
	uint64_t value;

	create(&attr);
	target = open_with_events(0);
	source = open_source(rig.other, "f", 0, 0);
	assert_error(dfi_source_mark(source, 0), -ERANGE, "flow 'f'",
	    "source 0", "rise");
	mark_soon(source, 4);
	assert_error(dfi_source_mark(source, 4), -ERANGE, "mark 4", "was 4");
	assert_error(dfi_source_mark(source, 3), -ERANGE, "mark 3", "was 4");
	assert_error(dfi_source_mark(source, DFI_NO_MARK), -ERANGE, "rise");
	assert_error(dfi_source_mark(NULL, 1), -EINVAL, "NULL");
	assert_error(dfi_target_watermark(NULL, &value), -EINVAL, "NULL");
	assert_error(dfi_target_watermark(target, NULL), -EINVAL, "NULL");
	/* None of these is sticky. */
	mark_soon(source, 5);
	close_source(source);
	expect_mark(target, 4);
	expect_mark(target, 5);
	end_target(target);
}

/* ---- Room for it -------------------------------------------------------- */

Test(marks, mark_is_for_all_targets_or_for_none)
{
	struct dfi_flow_attr attr = flow_attr(1, 2);
	struct kv kv = numbered_kv(0);
	struct dfi_source *source;
	struct dfi_target *targets[2];
	int64_t deadline;
	uint64_t n = 0;
	uint32_t i;
	int ret;

	create(&attr);
	for (i = 0; i < 2; i++)
		targets[i] = open_with_events(i);
	source = open_source(rig.other, "f", 0, DFI_NONBLOCK);
	while (!(ret = dfi_source_push_to(source, 1, &kv)))
		kv = numbered_kv(++n);
	cr_assert_eq(ret, -EAGAIN);
	assert_error(dfi_source_mark(source, 1), -EAGAIN, "full");
	expect_nothing(targets[0]);
	cr_assert_eq(watermark_of(targets[0]), 0);
	for (i = 0; i < n; i++)
		expect_number(targets[1], i);
	/* The last credit may be on its way, and needs a look. */
	deadline = now_ms() + LONG_MS;
	while ((ret = dfi_source_mark(source, 1)) == -EAGAIN) {
		cr_assert_lt(now_ms(), deadline);
		expect_nothing(targets[1]);
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	for (i = 0; i < 2; i++)
		expect_mark(targets[i], 1);
	while ((ret = dfi_source_push_to(source, 1, &kv)) == -EAGAIN)
		cr_assert_lt(now_ms(), deadline);
	cr_assert_eq(ret, 0);
	close_source(source);
	expect_number(targets[1], n);
	for (i = 0; i < 2; i++)
		end_target(targets[i]);
}

Test(marks, mark_that_was_refused_and_not_repeated_fails_the_source)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	uint64_t value = 1;
	int ret;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.other, "f", 0, DFI_NONBLOCK);
	while (!(ret = dfi_source_mark(source, value)))
		value++;
	cr_assert_eq(ret, -EAGAIN);
	assert_error(dfi_source_close(source), -EAGAIN, "mark", "not repeated");
	assert_error(dfi_target_consume(target, &tuple), -ECANCELED, "aborted");
	cr_assert_eq(watermark_of(target), value - 1);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

Test(marks, mark_that_timed_out_is_at_no_target_and_can_be_repeated)
{
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_flow_attr attr = flow_attr(1, 2);
	struct dfi_source *source;
	struct dfi_target *targets[2];
	uint64_t value = 1, i;
	uint32_t t;
	int ret;

	create(&attr);
	for (t = 0; t < 2; t++)
		targets[t] = open_with_events(t);
	source_attr.stall_timeout_ms = 20;
	cr_assert_eq(dfi_source_open(rig.other, "f", 0, &source_attr, &source),
	    0, "%s", dfi_errmsg());
	/* The first target reads on. */
	while (!(ret = dfi_source_mark(source, value)))
		expect_mark(targets[0], value++);
	assert_error(ret, -ETIMEDOUT, "target 1");
	expect_nothing(targets[0]);
	for (i = 1; i < value; i++)
		expect_mark(targets[1], i);
	while ((ret = dfi_source_mark(source, value)) == -ETIMEDOUT)
		expect_nothing(targets[1]);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	for (t = 0; t < 2; t++)
		expect_mark(targets[t], value);
	close_source(source);
	for (t = 0; t < 2; t++)
		end_target(targets[t]);
}

static void *mark_often(void *arg)
{
	uint64_t value;

	for (value = 1; value <= 100; value++)
		if (dfi_source_mark(arg, value))
			return "a mark failed";
	return NULL;
}

Test(marks, mark_waits_for_room)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	pthread_t thread;
	void *error;
	uint64_t last = 0;
	struct dfi_event event;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, DFI_EVENTS);
	source = open_source(rig.other, "f", 0, 0);
	cr_assert_eq(pthread_create(&thread, NULL, mark_often, source), 0);
	while (last < 100) {
		cr_assert_eq(dfi_target_consume(target, &tuple), -ENOMSG);
		cr_assert_eq(dfi_target_event(target, &event), 0);
		cr_assert_eq(event.value, last + 1);
		last = event.value;
	}
	pthread_join(thread, &error);
	cr_assert_null(error, "%s", (char *)error);
	close_source(source);
	end_target(target);
}

Test(marks, marks_are_not_for_targets_that_have_cancelled)
{
	struct dfi_flow_attr attr = flow_attr(1, 2);
	struct dfi_source *source;
	struct dfi_target *targets[2];
	uint64_t value;
	uint32_t i;

	create(&attr);
	for (i = 0; i < 2; i++)
		targets[i] = open_with_events(i);
	source = open_source(rig.other, "f", 0, 0);
	mark_soon(source, 1);
	cr_assert_eq(dfi_target_cancel(targets[1]), 0);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
	expect_mark(targets[0], 1);
	/* More than its ring could hold. */
	for (value = 2; value < 20; value++) {
		mark_soon(source, value);
		expect_mark(targets[0], value);
	}
	close_source(source);
	end_target(targets[0]);
}

/* ---- Ends --------------------------------------------------------------- */

Test(marks, marks_of_a_source_that_aborts_come_before_its_end)
{
	struct dfi_flow_attr attr = flow_attr(2, 1);
	struct dfi_source *sources[2];
	struct dfi_target *target;
	const void *tuple;
	uint32_t i;

	create(&attr);
	target = open_with_events(0);
	for (i = 0; i < 2; i++)
		sources[i] = open_source(rig.other, "f", i, 0);
	mark_soon(sources[0], 3);
	push(sources[1], 0, 1);
	mark_soon(sources[1], 2);
	dfi_source_abort(sources[1]);
	cr_assert_eq(dfi_source_close(sources[1]), -ECANCELED);
	expect_number(target, 1);
	expect_mark(target, 2);
	assert_error(consume_soon(target, &tuple), -ECANCELED, "aborted");
	/* Its watermark is not that of the other. */
	cr_assert_eq(watermark_of(target), 2);
	close_source(sources[0]);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

Test(marks, aborted_source_marks_no_more)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_source *source;
	struct dfi_target *target;

	create(&attr);
	target = open_with_events(0);
	source = open_source(rig.other, "f", 0, 0);
	dfi_source_abort(source);
	assert_error(dfi_source_mark(source, 1), -ECANCELED, "abort");
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
	cr_assert_eq(dfi_target_close(target), 0);
}

/* ---- Handles ------------------------------------------------------------ */

Test(marks, cursors_and_spans_end_with_a_mark)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_source_cursor cursor;
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_span span;
	const void *tuple;

	create(&attr);
	target = open_with_events(0);
	source = open_source(rig.other, "f", 0, 0);
	cursor = dfi_source_cursor_open(source, 0, sizeof(struct kv));
	assert_error(dfi_source_mark(source, 1), -EBUSY, "cursor");
	cr_assert_eq(dfi_source_cursor_close(cursor), 0);
	cr_assert_eq(dfi_source_claim(source, 0, &span), 0);
	mark_soon(source, 1);
	assert_error(dfi_source_commit(source, &span, 1), -EINVAL, "span");
	expect_mark(target, 1);
	cr_assert_eq(dfi_source_close(source), -EINVAL);
	cr_assert_eq(consume_soon(target, &tuple), -ECANCELED);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

Test(marks, cursor_of_a_target_stops_at_an_event)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_target_cursor cursor;
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_event event;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, DFI_EVENTS);
	source = open_source(rig.other, "f", 0, 0);
	push(source, 0, 1);
	mark_soon(source, 1);
	push(source, 0, 2);
	close_source(source);
	cursor = dfi_target_cursor_open(target, sizeof(struct kv));
	cr_assert_not_null(dfi_target_cursor_get(&cursor, sizeof(struct kv)));
	cr_assert_null(dfi_target_cursor_get(&cursor, sizeof(struct kv)));
	cr_assert_eq(dfi_target_cursor_close(cursor), -ENOMSG);
	cr_assert_eq(dfi_target_event(target, &event), 0);
	cursor = dfi_target_cursor_open(target, sizeof(struct kv));
	cr_assert_not_null(dfi_target_cursor_get(&cursor, sizeof(struct kv)));
	cr_assert_null(dfi_target_cursor_get(&cursor, sizeof(struct kv)));
	cr_assert_eq(dfi_target_cursor_close(cursor), 0);
	end_target(target);
}

Test(marks, descriptor_reports_marks)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct pollfd pollfd = { .events = POLLIN };
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	int ret;

	create(&attr);
	target = open_with_events(0);
	source = open_source(rig.other, "f", 0, 0);
	pollfd.fd = dfi_target_fd(target);
	expect_nothing(target);
	mark_soon(source, 1);
	while ((ret = dfi_target_consume(target, &tuple)) == -EAGAIN)
		cr_assert_eq(poll(&pollfd, 1, (int)LONG_MS), 1);
	cr_assert_eq(ret, -ENOMSG);
	expect_mark(target, 1);
	close_source(source);
	end_target(target);
}

Test(marks, member_of_a_group_goes_on_after_its_event)
{
	struct dfi_target_group_attr group_attr = DFI_TARGET_GROUP_ATTR_INIT;
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_target_group_batch batch;
	struct dfi_target_group *group;
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_event event;

	create(&attr);
	cr_assert_eq(dfi_target_group_open(rig.dfi, &group_attr, &group), 0);
	target = open_target(rig.dfi, "f", 0, DFI_EVENTS);
	cr_assert_eq(dfi_target_group_add(group, target, NULL), 0);
	source = open_source(rig.other, "f", 0, 0);
	mark_soon(source, 1);
	push(source, 0, 2);
	close_source(source);
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), -ENOMSG);
	cr_assert_eq(batch.target, target);
	cr_assert_eq(dfi_target_event(target, &event), 0);
	cr_assert_eq(event.value, 1);
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), 1);
	dfi_target_group_release(group, &batch);
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), 0);
	cr_assert_eq(dfi_target_group_close(group), 0);
	end_target(target);
}

/* ---- Rings of all shapes ------------------------------------------------ */

/* A few tuples and marks, in turn. */
static void run_shape(
    struct dfi_flow_attr *attr, uint32_t tuple_size, uint32_t linger_us)
{
	static const struct dfi_field field = {
		.name = "byte",
		.type = DFI_BYTES,
		.size = 1,
	};
	struct dfi_schema schema = { &field, 1, tuple_size };
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;
	struct dfi_target *targets[2];
	unsigned char tuple[64];
	const void *got;
	uint32_t i, n, t,
	    to = attr->kind == DFI_REPLICATE ? DFI_ALL_TARGETS : 0;

	attr->schema = &schema;
	create(attr);
	for (t = 0; t < 2; t++)
		targets[t] = open_with_events(t);
	source_attr.linger_us = linger_us;
	cr_assert_eq(dfi_source_open(rig.other, "f", 0, &source_attr, &source),
	    0, "%s", dfi_errmsg());
	for (i = 1; i < 20; i++) {
		for (n = 0; n < i % 3; n++) {
			memset(tuple, (int)i, sizeof(tuple));
			cr_assert_eq(dfi_source_push_to(source, to, tuple), 0,
			    "%s", dfi_errmsg());
		}
		mark_soon(source, UINT64_C(0x0102030405060700) + i);
		for (t = 0; t < 2; t++) {
			for (n = 0; (!t || to) && n < i % 3; n++) {
				cr_assert_eq(consume_soon(targets[t], &got), 1,
				    "%s", dfi_errmsg());
				memset(tuple, (int)i, sizeof(tuple));
				cr_assert_eq(memcmp(got, tuple, tuple_size), 0);
			}
			expect_mark(
			    targets[t], UINT64_C(0x0102030405060700) + i);
		}
	}
	close_source(source);
	for (t = 0; t < 2; t++)
		end_target(targets[t]);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

static void run_shapes(
    enum dfi_flow_kind kind, enum dfi_replication method, uint32_t ordered)
{
	static const uint32_t sizes[] = { 1, 7, 8, 16, 17, 64 };
	struct dfi_flow_attr attr;
	uint32_t i, kinds;

	for (i = 0; i < N_ELEMENTS(sizes); i++)
		for (kinds = 0; kinds < 8; kinds++) {
			attr = flow_attr(1, 2);
			attr.kind = kind;
			attr.routing = kind == DFI_SHUFFLE ? DFI_ROUTE_DIRECT
							   : 0;
			attr.replicate.method = method;
			attr.replicate.ordered = ordered;
			attr.goal = kinds & 1 ? DFI_LATENCY : DFI_BANDWIDTH;
			attr.segment_size = kinds & 1 ? 0 : 3 * sizes[i];
			attr.segment_count = kinds & 2 ? 4 : 5;
			attr.verify = kinds & 4 ? DFI_VERIFY_CHECKSUM
						: DFI_VERIFY_NONE;
			run_shape(
			    &attr, sizes[i], kinds & 3 ? DFI_NO_LINGER : 50);
		}
}

Test(marks, marks_fit_rings_of_all_shapes)
{
	run_shapes(DFI_SHUFFLE, 0, 0);
}

Test(marks, marks_go_to_all_targets_of_a_replicate_flow)
{
	run_shapes(DFI_REPLICATE, DFI_REPLICATION_NAIVE, 0);
}

Test(marks, marks_go_through_a_shared_ring)
{
	if (over_network())
		cr_skip_test("there is no shared ring over a network");
	run_shapes(DFI_REPLICATE, DFI_REPLICATION_MULTICAST, 0);
}

Test(marks, marks_have_a_place_in_an_ordered_flow)
{
	run_shapes(DFI_REPLICATE, DFI_REPLICATION_NAIVE, 1);
	if (!over_network())
		run_shapes(DFI_REPLICATE, DFI_REPLICATION_MULTICAST, 1);
}

Test(marks, marks_go_to_targets_outside_of_the_set)
{
	struct dfi_flow_attr attr = flow_attr(1, 2);
	struct dfi_source *source;
	struct dfi_target *targets[2];
	struct kv kv = numbered_kv(5);

	attr.kind = DFI_REPLICATE;
	attr.replicate.method = DFI_REPLICATION_NAIVE;
	create(&attr);
	targets[0] = open_with_events(0);
	targets[1] = open_with_events(1);
	source = open_source(rig.other, "f", 0, 0);
	cr_assert_eq(dfi_source_choose(source, 1), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_push_to(source, DFI_ALL_TARGETS, &kv), 0, "%s",
	    dfi_errmsg());
	mark_soon(source, 1);
	/* The set is the same as before. */
	kv = numbered_kv(6);
	cr_assert_eq(dfi_source_push_to(source, DFI_ALL_TARGETS, &kv), 0);
	close_source(source);
	expect_number(targets[0], 5);
	expect_mark(targets[0], 1);
	expect_number(targets[0], 6);
	expect_mark(targets[1], 1);
	end_target(targets[0]);
	end_target(targets[1]);
}

/* ---- Random flows ------------------------------------------------------- */

struct end {
	pthread_t thread;
	uint32_t index, n_sources, n_targets, kind, linger_us;
	uint64_t seed, count;
	bool events, align;
	const char *error;
};

#define TIMES 300

/*
 * Each time has a few tuples of that time, and often a mark behind them, or
 * always.
 */
static const char *push_times(struct end *end, struct dfi_source *source)
{
	struct rng rng = { mix(end->seed, end->index) };
	uint32_t to;
	struct kv kv;
	uint64_t t, n;

	for (t = 1; t <= TIMES; t++) {
		for (n = rng_below(&rng, 6); n; n--) {
			kv = (struct kv){ end->index, t };
			to = end->kind == DFI_REPLICATE
			    ? DFI_ALL_TARGETS
			    : rng_below(&rng, end->n_targets);
			if (dfi_source_push_to(source, to, &kv))
				return "push";
			end->count++;
		}
		if (rng_below(&rng, 4) == 0 && dfi_source_flush(source))
			return "flush";
		if ((end->align || rng_below(&rng, 2)) &&
		    dfi_source_mark(source, t))
			return "mark";
	}
	return dfi_source_mark(source, TIMES + 1) ? "last mark" : NULL;
}

static void *run_source(void *arg)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct end *end = arg;
	struct dfi_source *source;

	attr.stall_timeout_ms = LONG_MS;
	attr.linger_us = end->linger_us;
	if (dfi_source_open(rig.other, "f", end->index, &attr, &source)) {
		end->error = "open";
		return NULL;
	}
	end->error = push_times(end, source);
	if (dfi_source_close(source) && !end->error)
		end->error = "close";
	return NULL;
}

/* All that comes is later than the watermark. */
static const char *take_times(struct end *end, struct dfi_target *target)
{
	uint64_t last[MAX_ENDS] = { 0 }, before = 0, now;
	struct dfi_event event;
	const struct kv *kv;
	const void *tuple;
	int ret;

	for (;;) {
		ret = dfi_target_consume(target, &tuple);
		if (dfi_target_watermark(target, &now) || now < before)
			return "the watermark has fallen";
		if (ret == -ENOMSG) {
			if (!end->events || dfi_target_event(target, &event) ||
			    event.type != DFI_MARK || event.value != now ||
			    now == before)
				return "a wrong event";
		} else if (ret != 1) {
			break;
		} else {
			kv = tuple;
			if (kv->val <= now || kv->val < last[kv->key])
				return "a tuple is behind its mark";
			if (end->align && kv->val > now + 1)
				return "a tuple is in front of its barrier";
			last[kv->key] = kv->val;
			end->count++;
			if (end->events && now != before)
				return "a mark without an event";
		}
		before = now;
	}
	if (ret < 0)
		return "consume";
	return now == TIMES + 1 ? NULL : "the last mark is missing";
}

static void *run_target(void *arg)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct end *end = arg;
	struct dfi_target *target;

	attr.stall_timeout_ms = LONG_MS;
	attr.flags = (end->events ? DFI_EVENTS : 0) |
	    (end->align ? DFI_ALIGN : 0);
	if (dfi_target_open(rig.dfi, "f", end->index, &attr, &target)) {
		end->error = "open";
		return NULL;
	}
	end->error = take_times(end, target);
	if (dfi_target_close(target) && !end->error)
		end->error = "close";
	return NULL;
}

static void run_random(uint64_t seed)
{
	struct rng rng = { mix(seed, 3) };
	struct end ends[2 * MAX_ENDS];
	struct dfi_flow_attr attr = flow_attr(
	    1 + rng_below(&rng, MAX_ENDS), 1 + rng_below(&rng, MAX_ENDS));
	uint32_t i, n = attr.n_sources + attr.n_targets;
	uint64_t sent = 0, got = 0;
	bool linger, align;

	attr.kind = rng_below(&rng, 2) ? DFI_REPLICATE : DFI_SHUFFLE;
	if (attr.kind == DFI_REPLICATE) {
		attr.routing = 0;
		attr.replicate.method = over_network() || rng_below(&rng, 2)
		    ? DFI_REPLICATION_NAIVE
		    : DFI_REPLICATION_MULTICAST;
		attr.replicate.ordered = rng_below(&rng, 3) == 0;
	}
	attr.goal = rng_below(&rng, 2) ? DFI_LATENCY : DFI_BANDWIDTH;
	attr.segment_size = attr.goal == DFI_LATENCY
	    ? 0
	    : (1 + rng_below(&rng, 6)) * (uint32_t)sizeof(struct kv);
	linger = attr.goal == DFI_BANDWIDTH && rng_below(&rng, 3) == 0;
	/* One that lingers needs two. */
	attr.segment_count = 1 + linger + rng_below(&rng, 6);
	align = !attr.replicate.ordered && rng_below(&rng, 2);
	create(&attr);
	for (i = 0; i < n; i++) {
		ends[i] = (struct end){
			.index = i < attr.n_sources ? i : i - attr.n_sources,
			.n_sources = attr.n_sources,
			.n_targets = attr.n_targets,
			.kind = attr.kind,
			.linger_us = linger ? 50 : DFI_NO_LINGER,
			.seed = seed,
			.align = align,
			.events = align || rng_below(&rng, 2),
		};
		cr_assert_eq(
		    pthread_create(&ends[i].thread, NULL,
			i < attr.n_sources ? run_source : run_target, &ends[i]),
		    0);
	}
	for (i = 0; i < n; i++)
		cr_assert_eq(pthread_join(ends[i].thread, NULL), 0);
	for (i = 0; i < n; i++) {
		cr_assert_null(ends[i].error, "seed %lu: %s %u: %s",
		    (unsigned long)seed,
		    i < attr.n_sources ? "source" : "target", ends[i].index,
		    ends[i].error);
		if (i < attr.n_sources)
			sent += ends[i].count;
		else
			got += ends[i].count;
	}
	if (attr.kind == DFI_REPLICATE)
		sent *= attr.n_targets;
	cr_assert_eq(got, sent, "seed %lu", (unsigned long)seed);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

Test(marks, no_tuple_comes_behind_a_watermark_that_covers_it)
{
	uint64_t first = test_setting("SEED", 1), i;

	for (i = 0; i < test_setting("MARK_SEEDS", 12); i++)
		run_random(first + i);
}

/* ---- Open flows --------------------------------------------------------- */

static void create_open(enum dfi_routing routing, uint32_t segment_count)
{
	struct dfi_flow_attr attr = flow_attr(3, 2);

	attr.routing = routing;
	attr.segment_count = segment_count;
	attr.open.membership = DFI_MEMBERS_OPEN;
	attr.open.on_loss = DFI_ON_LOSS_DROP;
	create(&attr);
}

static void create_open_replicate(uint32_t segment_count)
{
	struct dfi_flow_attr attr = flow_attr(3, 2);

	attr.kind = DFI_REPLICATE;
	attr.routing = 0;
	attr.replicate.method = DFI_REPLICATION_NAIVE;
	attr.segment_count = segment_count;
	attr.open.membership = DFI_MEMBERS_OPEN;
	attr.open.on_loss = DFI_ON_LOSS_DROP;
	create(&attr);
}

/* Wait until the target knows the source, which takes some milliseconds. */
static struct dfi_source *join_source(uint32_t seat, struct dfi_target *target)
{
	struct dfi_source *source = open_source(rig.other, "f", seat, 0);

	if (target)
		cr_assert_eq(next_event(target, DFI_JOINED).seat, seat);
	return source;
}

static bool has_joined(void *source)
{
	struct dfi_event event;

	return dfi_source_event(source, &event) == 0 &&
	    event.type == DFI_JOINED;
}

/* A source that has two targets, each of which knows it. */
static struct dfi_source *join_two(struct dfi_target *targets[2])
{
	struct dfi_source *source = open_source(rig.other, "f", 0, DFI_EVENTS);
	uint32_t t;

	/* Targets may know it a moment before it takes them over. */
	for (t = 0; t < 2; t++)
		cr_assert(eventually(has_joined, source));
	for (t = 0; t < 2; t++)
		cr_assert_eq(next_event(targets[t], DFI_JOINED).seat, 0);
	return source;
}

static void end_open(struct dfi_target *target)
{
	const void *tuple;
	int ret;

	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0);
	while ((ret = consume_soon(target, &tuple)) == -ENOMSG)
		next_event(target, DFI_ENDED);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(marks, open_flow_has_the_least_mark_of_who_is_there)
{
	struct dfi_source *sources[2];
	struct dfi_target *target;

	create_open(DFI_ROUTE_DIRECT, 4);
	target = open_with_events(0);
	sources[0] = join_source(0, target);
	push(sources[0], 0, 1);
	mark_soon(sources[0], 5);
	push(sources[0], 0, 2);
	cr_assert_eq(dfi_source_flush(sources[0]), 0);
	expect_number(target, 1);
	expect_open_mark(target, 5, 0);
	expect_number(target, 2);
	/* Who joins counts with the watermark of that time. */
	sources[1] = join_source(1, target);
	mark_soon(sources[0], 9);
	push(sources[0], 0, 3);
	cr_assert_eq(dfi_source_flush(sources[0]), 0);
	expect_number(target, 3);
	cr_assert_eq(watermark_of(target), 5);
	/* A mark below it moves nothing. */
	mark_soon(sources[1], 3);
	push(sources[1], 0, 4);
	cr_assert_eq(dfi_source_flush(sources[1]), 0);
	expect_number(target, 4);
	cr_assert_eq(watermark_of(target), 5);
	mark_soon(sources[1], 7);
	expect_open_mark(target, 7, 0);
	/* Who ends counts no more. */
	close_source(sources[1]);
	expect_open_mark(target, 9, 0);
	close_source(sources[0]);
	end_open(target);
}

Test(marks, source_that_is_lost_counts_no_more)
{
	struct dfi_source *sources[2];
	struct dfi_target *target;

	create_open(DFI_ROUTE_DIRECT, 4);
	target = open_with_events(0);
	sources[0] = join_source(0, target);
	sources[1] = join_source(1, target);
	mark_soon(sources[0], 9);
	mark_soon(sources[1], 4);
	expect_open_mark(target, 4, 0);
	dfi_source_abort(sources[1]);
	cr_assert_eq(dfi_source_close(sources[1]), -ECANCELED);
	cr_assert_eq(next_event(target, DFI_LOST).seat, 1);
	expect_open_mark(target, 9, 0);
	close_source(sources[0]);
	end_open(target);
}

Test(marks, next_holder_of_a_seat_begins_anew)
{
	struct dfi_source *source;
	struct dfi_target *target;

	create_open(DFI_ROUTE_DIRECT, 4);
	target = open_with_events(0);
	source = join_source(0, target);
	mark_soon(source, 8);
	expect_open_mark(target, 8, 0);
	close_source(source);
	cr_assert_eq(next_event(target, DFI_ENDED).seat, 0);
	source = join_source(0, target);
	mark_soon(source, 2);
	push(source, 0, 1);
	cr_assert_eq(dfi_source_flush(source), 0);
	expect_number(target, 1);
	cr_assert_eq(watermark_of(target), 8);
	mark_soon(source, 10);
	expect_open_mark(target, 10, 0);
	close_source(source);
	end_open(target);
}

/* Also of a source that does nothing meanwhile. */
Test(marks, target_that_joins_gets_the_last_mark)
{
	struct dfi_source *source;
	struct dfi_target *targets[2];

	create_open(DFI_ROUTE_DIRECT, 4);
	targets[0] = open_with_events(0);
	source = join_source(0, targets[0]);
	mark_soon(source, 3);
	expect_open_mark(targets[0], 3, 0);
	targets[1] = open_with_events(1);
	expect_open_mark(targets[1], 3, 0);
	mark_soon(source, 4);
	expect_open_mark(targets[0], 4, 0);
	expect_open_mark(targets[1], 4, 0);
	close_source(source);
	end_open(targets[0]);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
}

Test(marks, mark_of_a_source_without_targets_is_kept)
{
	struct dfi_source *source;
	struct dfi_target *target;

	create_open(DFI_ROUTE_ANY, 4);
	source = open_source(rig.other, "f", 0, DFI_NONBLOCK);
	mark_soon(source, 3);
	target = open_with_events(0);
	expect_open_mark(target, 3, 0);
	close_source(source);
	end_open(target);
}

/* Round robin has begun segments of several targets. */
Test(marks, marks_come_behind_tuples_by_every_routing)
{
	static const enum dfi_routing routings[] = { DFI_ROUTE_ANY,
		DFI_ROUTE_ROUND_ROBIN };
	struct dfi_source *source;
	struct dfi_target *targets[2];
	const void *tuple;
	uint64_t value, got;
	uint32_t r, t;
	struct kv kv;
	int ret;

	for (r = 0; r < 2; r++) {
		create_open(routings[r], 4);
		for (t = 0; t < 2; t++)
			targets[t] = open_with_events(t);
		source = join_two(targets);
		for (value = 1; value < 20; value++) {
			for (t = 0; t < 5; t++) {
				kv = numbered_kv(value);
				cr_assert_eq(push_soon(source, &kv), 0);
			}
			mark_soon(source, value);
			for (t = 0, got = 0; t < 2; t++) {
				while ((ret = consume_soon(
					    targets[t], &tuple)) == 1) {
					cr_assert_eq(
					    ((const struct kv *)tuple)->val,
					    value);
					got++;
				}
				cr_assert_eq(ret, -ENOMSG);
				expect_open_mark(targets[t], value, 0);
			}
			cr_assert_eq(got, 5);
		}
		close_source(source);
		end_open(targets[0]);
		cr_assert_eq(dfi_target_close(targets[1]), 0);
		cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	}
}

/* Who consumes is this thread as well, so the source must not wait. */
static void run_open_replicas(uint32_t segment_count)
{
	struct dfi_source *source;
	struct dfi_target *targets[2];
	struct kv kv = numbered_kv(1);
	struct dfi_event event;
	const void *tuple;
	uint64_t value = 3;
	int ret;

	create_open_replicate(segment_count);
	targets[0] = open_with_events(0);
	source = open_source(rig.other, "f", 0, DFI_NONBLOCK);
	cr_assert_eq(push_soon(source, &kv), 0);
	/* Its ring may have room for no more than what says where it begins. */
	cr_assert_eq(dfi_source_flush(source), 0);
	cr_assert_eq(next_event(targets[0], DFI_JOINED).value, 0);
	expect_number(targets[0], 1);
	expect_nothing(targets[0]);
	mark_soon(source, value);
	expect_open_mark(targets[0], value, 0);
	expect_nothing(targets[0]);
	targets[1] = open_with_events(1);
	/* Its ring begins when the source looks, with the last mark. */
	while ((ret = dfi_source_mark(source, value + 1)) == -EAGAIN ||
	    !watermark_of(targets[1])) {
		if (!ret)
			expect_open_mark(targets[0], ++value, 0);
		while (dfi_target_consume(targets[1], &tuple) == -ENOMSG)
			cr_assert_eq(dfi_target_event(targets[1], &event), 0);
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	expect_open_mark(targets[0], value + 1, 0);
	/* Earlier ones may come one by one. */
	while (next_event(targets[1], DFI_MARK).value < value + 1)
		;
	cr_assert_eq(watermark_of(targets[1]), value + 1);
	close_source(source);
	end_open(targets[0]);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

Test(marks, marks_go_to_all_targets_of_an_open_replicate_flow)
{
	run_open_replicas(4);
	run_open_replicas(3);
}

Test(marks, closing_with_a_mark_in_the_ring_loses_nothing)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_source *source;
	struct dfi_target *target;
	uint64_t dropped;

	attr.open.membership = DFI_MEMBERS_OPEN;
	create(&attr);
	target = open_with_events(0);
	source = join_source(0, target);
	push(source, 0, 1);
	cr_assert_eq(dfi_source_flush(source), 0);
	expect_number(target, 1);
	expect_nothing(target);
	mark_soon(source, 1);
	cr_assert_eq(dfi_target_close(target), 0);
	/* Who had taken all tuples harms nobody (DFI_ON_LOSS_FAIL). */
	cr_assert_eq(dfi_source_dropped(source, &dropped), 0);
	cr_assert_eq(dropped, 0);
	close_source(source);
}

/* ---- Refusals ----------------------------------------------------------- */

Test(marks, flows_without_marks_say_so)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	static const struct dfi_aggregate count = { .function = DFI_COUNT };
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct dfi_source *source;
	struct dfi_target *target;
	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source_attr.flags = DFI_EVENTS;
	assert_error(dfi_source_open(rig.other, "f", 0, &source_attr, &source),
	    -EINVAL, "DFI_EVENTS", "open flows");
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	attr.kind = DFI_COMBINE;
	attr.routing = 0;
	attr.combine.aggregates = &count;
	attr.combine.n_aggregates = 1;
	create(&attr);
	target_attr.flags = DFI_EVENTS;
	assert_error(dfi_target_open(rig.dfi, "f", 0, &target_attr, &target),
	    -EINVAL, "DFI_EVENTS", "windows");
}

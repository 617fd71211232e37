/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets that align the marks of their sources (K4 of docs/open-flows.md).
 * Random flows of this kind are in test_marks.
 */
#include <criterion/criterion.h>
#include <dfi/mark.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mark_help.h"

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

TestSuite(align, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_attr flow_attr(enum dfi_flow_kind kind)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = kind,
		.schema = &kv_schema,
		.n_sources = 2,
		.n_targets = 1,
		.routing = kind == DFI_SHUFFLE ? DFI_ROUTE_DIRECT : 0,
		.segment_size = sizeof(struct kv),
		.segment_count = 8,
		.replicate = { .method = kind == DFI_REPLICATE
			? DFI_REPLICATION_NAIVE
			: 0 },
	};
}

static void create(const struct dfi_flow_attr *attr)
{
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

static void create_open(enum dfi_on_loss on_loss)
{
	struct dfi_flow_attr attr = flow_attr(DFI_SHUFFLE);

	attr.open.membership = DFI_MEMBERS_OPEN;
	attr.open.on_loss = on_loss;
	create(&attr);
}

static struct dfi_target *aligned(uint32_t flags)
{
	return open_target(rig.dfi, "f", 0, DFI_EVENTS | DFI_ALIGN | flags);
}

/* In an open flow the target has it once it has heard that it is there. */
static struct dfi_source *source_at(uint32_t index, struct dfi_target *target)
{
	struct dfi_source *source = open_source(rig.other, "f", index, 0);

	if (target)
		cr_assert_eq(next_event(target, DFI_JOINED).seat, index);
	return source;
}

static uint32_t to; /* who gets the tuples */

static void push(struct dfi_source *source, uint64_t number)
{
	struct kv kv = numbered_kv(number);

	cr_assert_eq(
	    dfi_source_push_to(source, to, &kv), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
}

/* Of two sources, in any order. */
static void expect_both(struct dfi_target *target, uint64_t a, uint64_t b)
{
	const void *tuple;
	uint64_t first;

	cr_assert_eq(consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
	first = ((const struct kv *)tuple)->val;
	cr_assert(first == a || first == b);
	expect_number(target, first == a ? b : a);
}

static void close_source(struct dfi_source *source)
{
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
}

static void abort_source(struct dfi_source *source)
{
	dfi_source_abort(source);
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
}

/* Skips events. */
static void end_open(struct dfi_target *target)
{
	const void *tuple;
	struct dfi_event event;
	int ret;

	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0);
	while ((ret = consume_soon(target, &tuple)) == -ENOMSG)
		cr_assert_eq(dfi_target_event(target, &event), 0);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

/* ---- Closed flows -------------------------------------------------------- */

static void run_barrier(const struct dfi_flow_attr *attr)
{
	struct dfi_source *sources[2];
	struct dfi_target *target;

	to = attr->kind == DFI_REPLICATE ? DFI_ALL_TARGETS : 0;
	create(attr);
	target = aligned(DFI_NONBLOCK);
	sources[0] = source_at(0, NULL);
	sources[1] = source_at(1, NULL);
	push(sources[0], 1);
	mark_soon(sources[0], 1);
	push(sources[0], 2);
	expect_number(target, 1);
	expect_nothing(target);
	/* Who is behind goes on. */
	push(sources[1], 3);
	expect_number(target, 3);
	push(sources[1], 4);
	mark_soon(sources[1], 1);
	push(sources[1], 5);
	mark_soon(sources[1], 2);
	expect_number(target, 4);
	expect_mark(target, 1);
	/* Now the others are waited for. */
	expect_both(target, 5, 2);
	expect_nothing(target);
	mark_soon(sources[0], 2);
	expect_mark(target, 2);
	close_source(sources[0]);
	close_source(sources[1]);
	end_target(target);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

Test(align, nothing_behind_a_mark_comes_before_all_have_marked)
{
	struct dfi_flow_attr attr = flow_attr(DFI_SHUFFLE);

	run_barrier(&attr);
	attr.goal = DFI_LATENCY;
	attr.segment_size = 0;
	run_barrier(&attr);
	attr = flow_attr(DFI_REPLICATE);
	run_barrier(&attr);
	if (over_network())
		return;
	attr.replicate.method = DFI_REPLICATION_MULTICAST;
	run_barrier(&attr);
}

/* One that leaves values out has told with a later mark that they are over. */
Test(align, mark_stands_for_those_that_were_left_out)
{
	struct dfi_flow_attr attr = flow_attr(DFI_SHUFFLE);
	struct dfi_source *sources[2];
	struct dfi_target *target;

	create(&attr);
	target = aligned(DFI_NONBLOCK);
	sources[0] = source_at(0, NULL);
	sources[1] = source_at(1, NULL);
	mark_soon(sources[0], 5);
	push(sources[0], 1);
	mark_soon(sources[1], 3);
	expect_mark(target, 3);
	expect_nothing(target);
	push(sources[1], 2);
	expect_number(target, 2);
	mark_soon(sources[1], 6);
	push(sources[1], 4);
	expect_mark(target, 5);
	expect_number(target, 1);
	expect_nothing(target);
	close_source(sources[0]);
	expect_mark(target, 6);
	expect_number(target, 4);
	close_source(sources[1]);
	end_target(target);
}

Test(align, source_that_is_ahead_waits_when_its_ring_is_full)
{
	struct dfi_flow_attr attr = flow_attr(DFI_SHUFFLE);
	struct dfi_source *ahead, *behind;
	struct dfi_target *target;
	struct kv kv = numbered_kv(0);
	uint64_t n = 0, i;
	int ret;

	create(&attr);
	target = aligned(DFI_NONBLOCK);
	ahead = open_source(rig.other, "f", 0, DFI_NONBLOCK);
	behind = source_at(1, NULL);
	mark_soon(ahead, 1);
	expect_nothing(target);
	while (!(ret = dfi_source_push_to(ahead, 0, &kv)))
		kv = numbered_kv(++n);
	cr_assert_eq(ret, -EAGAIN);
	/* More than a ring has. */
	for (i = 100; i < 120; i++) {
		push(behind, i);
		expect_number(target, i);
	}
	mark_soon(behind, 1);
	expect_mark(target, 1);
	for (i = 0; i < n; i++)
		expect_number(target, i);
	while ((ret = dfi_source_push_to(ahead, 0, &kv)) == -EAGAIN)
		expect_nothing(target);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	expect_number(target, n);
	close_source(ahead);
	close_source(behind);
	end_target(target);
}

Test(align, source_that_has_ended_holds_up_nobody)
{
	struct dfi_flow_attr attr = flow_attr(DFI_SHUFFLE);
	struct dfi_source *sources[2];
	struct dfi_target *target;

	create(&attr);
	target = aligned(DFI_NONBLOCK);
	sources[0] = source_at(0, NULL);
	sources[1] = source_at(1, NULL);
	mark_soon(sources[0], 1);
	push(sources[0], 2);
	/* It has closed, but what it sent is behind its mark. */
	close_source(sources[0]);
	expect_nothing(target);
	push(sources[1], 3);
	close_source(sources[1]);
	expect_number(target, 3);
	expect_mark(target, 1);
	expect_number(target, 2);
	end_target(target);
}

/* Others may never come as far. */
Test(align, source_that_is_lost_is_reported_at_once)
{
	struct dfi_flow_attr attr = flow_attr(DFI_SHUFFLE);
	struct dfi_source *sources[2];
	struct dfi_target *target;
	const void *tuple;

	create(&attr);
	target = aligned(0);
	sources[0] = source_at(0, NULL);
	sources[1] = source_at(1, NULL);
	push(sources[0], 1);
	mark_soon(sources[0], 1);
	push(sources[0], 2);
	cr_assert_eq(dfi_target_consume(target, &tuple), 1);
	abort_source(sources[0]);
	assert_error(dfi_target_consume(target, &tuple), -ECANCELED, "source 0",
	    "aborted");
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
	/* Over a network, the news of the target may not have come. */
	(void)dfi_source_close(sources[1]);
}

/* What came in front of the marks comes before the error. */
Test(align, tuples_in_front_of_a_barrier_come_before_an_error)
{
	struct dfi_flow_attr attr = flow_attr(DFI_SHUFFLE);
	struct dfi_source *sources[2];
	struct dfi_target *target;
	const void *tuple;

	create(&attr);
	target = aligned(DFI_NONBLOCK);
	sources[0] = source_at(0, NULL);
	sources[1] = source_at(1, NULL);
	mark_soon(sources[0], 1);
	push(sources[0], 2);
	expect_nothing(target);
	push(sources[1], 3);
	mark_soon(sources[1], 1);
	push(sources[1], 4);
	abort_source(sources[1]);
	expect_number(target, 3);
	expect_mark(target, 1);
	expect_both(target, 4, 2);
	cr_assert_eq(consume_soon(target, &tuple), -ECANCELED);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
	/* Over a network, the news of the target may not have come. */
	(void)dfi_source_close(sources[0]);
}

/* ---- Open flows --------------------------------------------------------- */

Test(align, sources_that_come_and_go_are_aligned)
{
	struct dfi_source *sources[2];
	struct dfi_target *target;

	create_open(DFI_ON_LOSS_DROP);
	target = aligned(DFI_NONBLOCK);
	sources[0] = source_at(0, target);
	sources[1] = source_at(1, target);
	push(sources[0], 1);
	mark_soon(sources[0], 1);
	push(sources[0], 2);
	expect_number(target, 1);
	expect_nothing(target);
	push(sources[1], 3);
	expect_number(target, 3);
	mark_soon(sources[1], 1);
	expect_open_mark(target, 1, 0);
	expect_number(target, 2);
	/* Who is behind leaves. */
	mark_soon(sources[0], 2);
	push(sources[0], 4);
	expect_nothing(target);
	close_source(sources[1]);
	cr_assert_eq(next_event(target, DFI_ENDED).seat, 1);
	expect_open_mark(target, 2, 0);
	expect_number(target, 4);
	/* Who joins is waited for. */
	sources[1] = source_at(1, target);
	mark_soon(sources[0], 3);
	push(sources[0], 5);
	expect_nothing(target);
	mark_soon(sources[1], 3);
	expect_open_mark(target, 3, 0);
	expect_number(target, 5);
	close_source(sources[0]);
	close_source(sources[1]);
	end_open(target);
}

/* It waits for the others as it would if it lived. */
Test(align, rest_of_a_lost_source_stays_behind_its_mark)
{
	struct dfi_source *sources[2];
	struct dfi_target *target;

	create_open(DFI_ON_LOSS_DROP);
	target = aligned(DFI_NONBLOCK);
	sources[0] = source_at(0, target);
	sources[1] = source_at(1, target);
	mark_soon(sources[0], 5);
	push(sources[0], 1);
	expect_nothing(target);
	abort_source(sources[0]);
	mark_soon(sources[1], 3);
	expect_open_mark(target, 3, 0);
	expect_nothing(target);
	mark_soon(sources[1], 5);
	expect_open_mark(target, 5, 0);
	expect_number(target, 1);
	cr_assert_eq(next_event(target, DFI_LOST).seat, 0);
	/* And who was behind when it was lost holds up nobody. */
	sources[0] = source_at(0, target);
	mark_soon(sources[1], 6);
	push(sources[1], 2);
	expect_nothing(target);
	abort_source(sources[0]);
	cr_assert_eq(next_event(target, DFI_LOST).seat, 0);
	expect_open_mark(target, 6, 0);
	expect_number(target, 2);
	close_source(sources[1]);
	end_open(target);
}

/* What the next holder sends lies behind the rest of the last one. */
Test(align, rest_of_a_source_whose_seat_is_taken_is_not_aligned)
{
	struct dfi_source *sources[2];
	struct dfi_target *target;

	create_open(DFI_ON_LOSS_DROP);
	target = aligned(DFI_NONBLOCK);
	sources[0] = source_at(0, target);
	sources[1] = source_at(1, target);
	mark_soon(sources[0], 5);
	push(sources[0], 1);
	expect_nothing(target);
	abort_source(sources[0]);
	sources[0] = source_at(0, NULL);
	expect_number(target, 1);
	cr_assert_eq(next_event(target, DFI_LOST).seat, 0);
	cr_assert_eq(next_event(target, DFI_JOINED).seat, 0);
	mark_soon(sources[0], 5);
	mark_soon(sources[1], 5);
	expect_open_mark(target, 5, DFI_NO_BARRIER);
	mark_soon(sources[0], 6);
	mark_soon(sources[1], 6);
	expect_open_mark(target, 6, 0);
	close_source(sources[0]);
	close_source(sources[1]);
	end_open(target);
}

Test(align, flow_that_fails_with_its_sources_fails_at_once)
{
	struct dfi_source *sources[2];
	struct dfi_target *target;
	const void *tuple;

	create_open(DFI_ON_LOSS_FAIL);
	target = aligned(DFI_NONBLOCK);
	sources[0] = source_at(0, target);
	sources[1] = source_at(1, target);
	mark_soon(sources[0], 5);
	push(sources[0], 1);
	expect_nothing(target);
	abort_source(sources[0]);
	cr_assert_eq(next_event(target, DFI_LOST).seat, 0);
	assert_error(
	    consume_soon(target, &tuple), -ECANCELED, "source 0", "aborted");
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
	(void)dfi_source_close(sources[1]);
}

/* ---- Refusals ----------------------------------------------------------- */

static void expect_refused(uint32_t flags, int err, const char *word)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target;

	attr.flags = flags;
	assert_error(dfi_target_open(rig.dfi, "f", 0, &attr, &target), err,
	    "DFI_ALIGN", word);
}

Test(align, what_cannot_be_aligned_is_refused)
{
	struct dfi_flow_attr attr = flow_attr(DFI_REPLICATE);
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;

	attr.replicate.ordered = 1;
	create(&attr);
	expect_refused(DFI_ALIGN, -EINVAL, "DFI_EVENTS");
	expect_refused(DFI_ALIGN | DFI_EVENTS, -EINVAL, "ordered");
	source_attr.flags = DFI_ALIGN;
	assert_error(dfi_source_open(rig.other, "f", 0, &source_attr, &source),
	    -EINVAL, "not all known");
}

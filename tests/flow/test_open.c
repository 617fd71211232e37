/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open flows: endpoints join late, leave and return, and the flow goes on. One
 * case for each rule of dfi/open_flow.h.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>

#include "flow_help.h"

#define SEATS 4
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

TestSuite(open, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_attr flow_attr(uint32_t routing, uint32_t on_loss)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.routing = routing,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.open = { .membership = DFI_MEMBERS_OPEN, .on_loss = on_loss },
	};
}

static void create(uint32_t routing, uint32_t on_loss)
{
	struct dfi_flow_attr attr = flow_attr(routing, on_loss);

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

static struct dfi_source *source(uint32_t seat)
{
	return open_source(rig.dfi, "f", seat, 0);
}

static struct dfi_target *target(uint32_t seat)
{
	return open_target(rig.other, "f", seat, 0);
}

static void push_to(struct dfi_source *source, uint32_t seat, uint64_t number)
{
	struct kv kv = numbered_kv(number);

	cr_assert_eq(
	    dfi_source_push_to(source, seat, &kv), 0, "%s", dfi_errmsg());
}

/* The source may not have heard yet that somebody holds the seat. */
static void push_when_there(
    struct dfi_source *source, uint32_t seat, uint64_t number)
{
	struct kv kv = numbered_kv(number);
	int64_t until = now_ms() + LONG_MS;
	int ret;

	do
		ret = dfi_source_push_to(source, seat, &kv);
	while (ret == -ENXIO && now_ms() < until);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
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

/* The last credit may be on its way. */
static int push_to_soon(
    struct dfi_source *source, uint32_t seat, const struct kv *kv)
{
	int64_t until = now_ms() + LONG_MS;
	int ret;

	do
		ret = dfi_source_push_to(source, seat, kv);
	while (ret == -EAGAIN && now_ms() < until);
	return ret;
}

Test(open, tuples_go_to_the_seat_that_is_named)
{
	struct dfi_target *targets[2];
	struct dfi_source *s;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	targets[0] = target(3);
	targets[1] = target(1);
	s = source(2);
	cr_assert_eq(dfi_source_seat(s), 2);
	cr_assert_eq(dfi_target_seat(targets[0]), 3);
	push_to(s, 3, 30);
	push_to(s, 1, 10);
	finish();
	close_source(s);
	expect_number(targets[0], 30);
	expect_number(targets[1], 10);
	end_target(targets[0]);
	end_target(targets[1]);
}

Test(open, a_source_joins_while_others_are_at_work)
{
	struct dfi_source *first, *late;
	struct dfi_target *t;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	t = target(0);
	first = source(0);
	push_to(first, 0, 1);
	cr_assert_eq(dfi_source_flush(first), 0);
	expect_number(t, 1);
	late = source(DFI_ANY_SEAT);
	push_to(late, 0, 2);
	close_source(late);
	expect_number(t, 2);
	push_to(first, 0, 3);
	close_source(first);
	expect_number(t, 3);
	finish();
	end_target(t);
}

Test(open, a_target_joins_while_others_are_at_work)
{
	struct dfi_target *first, *late;
	struct dfi_source *s;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	first = target(0);
	s = source(0);
	push_to(s, 0, 1);
	late = target(2);
	push_when_there(s, 2, 2);
	finish();
	close_source(s);
	expect_number(first, 1);
	expect_number(late, 2);
	end_target(first);
	end_target(late);
}

Test(open, a_seat_that_was_left_is_free)
{
	struct dfi_target *t;
	struct dfi_source *s;
	uint64_t i;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	t = target(0);
	for (i = 0; i < 20; i++) {
		s = source(1);
		push_to(s, 0, i);
		close_source(s);
		expect_number(t, i);
	}
	finish();
	end_target(t);
}

/* The source of an earlier stay in a seat must be consumed first. */
Test(open, tuples_of_two_stays_in_a_seat_do_not_mix)
{
	struct dfi_source *first, *second;
	struct dfi_target *t;
	struct kv kv;
	uint64_t i;
	int ret;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	t = target(0);
	first = source(1);
	for (i = 0; i < (uint64_t)SEGMENT * RING; i++)
		push_to(first, 0, i);
	close_source(first);
	second = open_source(rig.dfi, "f", 1, DFI_NONBLOCK);
	for (i = 0; i < (uint64_t)SEGMENT * RING; i++)
		expect_number(t, i);
	kv = numbered_kv(7);
	while ((ret = dfi_source_push_to(second, 0, &kv)) == -EAGAIN)
		yield_times(1);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	close_source(second);
	expect_number(t, 7);
	finish();
	end_target(t);
}

Test(open, finishing_ends_the_targets)
{
	struct dfi_target *t;

	create(DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	t = target(0);
	finish();
	finish();
	end_target(t);
	t = target(0);
	end_target(t);
	assert_error(dfi_source_open(
			 rig.dfi, "f", 0, NULL, &(struct dfi_source *){ NULL }),
	    -ESHUTDOWN, "flow 'f'", "finished");
}

/* Its watch may show the finish before the sources that came earlier. */
Test(open, removing_a_flow_ends_the_targets_as_well)
{
	struct dfi_source *s;
	struct dfi_target *t;

	create(DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	t = target(0);
	s = source(0);
	push_number(s, 1);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0, "%s", dfi_errmsg());
	push_number(s, 2);
	close_source(s);
	expect_number(t, 1);
	expect_number(t, 2);
	end_target(t);
}

Test(open, a_source_of_a_removed_flow_without_targets_fails)
{
	struct kv kv = numbered_kv(1);
	struct dfi_source *s;
	struct dfi_target *t;
	int ret;

	create(DFI_ROUTE_ANY, DFI_ON_LOSS_DROP);
	t = target(0);
	s = source(0);
	close_target(t);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0, "%s", dfi_errmsg());
	/* Until it has heard of both. */
	while (!(ret = dfi_source_push(s, &kv)))
		cr_assert_eq(dfi_source_flush(s), 0, "%s", dfi_errmsg());
	assert_error(ret, -ECONNRESET, "no target is attached", "removed");
	cr_assert_eq(dfi_source_close(s), -ECONNRESET);
}

Test(open, a_target_after_the_finish_serves_sources_that_are_there)
{
	struct kv kv = numbered_kv(7);
	struct dfi_target *t;
	struct dfi_source *s;

	create(DFI_ROUTE_ANY, DFI_ON_LOSS_DROP);
	s = open_source(rig.dfi, "f", 1, DFI_NONBLOCK);
	finish();
	t = target(0);
	cr_assert_eq(push_soon(s, &kv), 0, "%s", dfi_errmsg());
	close_source(s);
	expect_number(t, 7);
	end_target(t);
}

Test(open, an_empty_seat_is_named)
{
	struct dfi_target *t;
	struct dfi_source *s;
	struct kv kv = numbered_kv(1);

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	t = target(0);
	s = source(0);
	assert_error(
	    dfi_source_push_to(s, 3, &kv), -ENXIO, "target 3", "nobody");
	assert_error(dfi_source_push_to(s, SEATS, &kv), -ERANGE, "target 4");
	push_to(s, 0, 7);
	close_source(s);
	expect_number(t, 7);
	finish();
	end_target(t);
}

/* Where the application's function sends each tuple. */
static uint32_t by_value(void *arg, const void *tuple, uint32_t n_targets)
{
	const struct kv *kv = tuple;

	cr_assert_eq(n_targets, SEATS);
	return kv->val < 100 ? *(const uint32_t *)arg : 2;
}

static struct dfi_source *source_by_function(uint32_t *seat)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *s;

	attr.route = by_value;
	attr.route_arg = seat;
	cr_assert_eq(
	    dfi_source_open(rig.dfi, "f", 0, &attr, &s), 0, "%s", dfi_errmsg());
	return s;
}

Test(open, a_function_names_the_seat)
{
	struct kv kvs[] = { numbered_kv(8), numbered_kv(108), numbered_kv(9) };
	uint32_t seat = 0;
	struct dfi_target *t, *late;
	struct dfi_source *s;

	create(DFI_ROUTE_FUNCTION, DFI_ON_LOSS_FAIL);
	t = target(0);
	s = source_by_function(&seat);
	cr_assert_eq(dfi_source_push(s, &kvs[0]), 0, "%s", dfi_errmsg());
	assert_error(dfi_source_push(s, &kvs[1]), -ENXIO, "target 2", "nobody");
	cr_assert_eq(dfi_source_push_batch(s, kvs, 3), 1);
	seat = SEATS;
	assert_error(dfi_source_push(s, &kvs[0]), -ERANGE, "target 4");
	seat = 0;
	late = target(2);
	while (dfi_source_push(s, &kvs[1]) == -ENXIO)
		;
	cr_assert_eq(dfi_source_push_batch(s, kvs, 3), 3, "%s", dfi_errmsg());
	close_source(s);
	finish();
	expect_number(t, 8);
	expect_number(t, 8);
	expect_number(t, 8);
	expect_number(t, 9);
	end_target(t);
	expect_number(late, 108);
	expect_number(late, 108);
	end_target(late);
}

Test(open, a_function_is_needed)
{
	struct dfi_source *s;
	struct dfi_target *t;

	create(DFI_ROUTE_FUNCTION, DFI_ON_LOSS_FAIL);
	t = target(0);
	assert_error(dfi_source_open(rig.dfi, "f", 0, NULL, &s), -EINVAL,
	    "dfi_source_attr.route is NULL");
	close_target(t);
}

Test(open, round_robin_goes_over_those_that_are_attached)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_ROUTE_ROUND_ROBIN, DFI_ON_LOSS_FAIL);
	struct dfi_target *a, *b;
	struct dfi_source *s;
	uint64_t i;

	attr.open.min_targets = 2;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	a = target(1);
	b = target(3);
	s = source(0);
	for (i = 0; i < 40; i++)
		push_number(s, i);
	finish();
	close_source(s);
	for (i = 0; i < 2; i++) {
		struct dfi_target *t = i ? b : a;
		uint32_t n = 0;
		const void *tuple;

		while (dfi_target_consume(t, &tuple) == 1)
			n++;
		cr_assert_eq(n, 20, "target %lu has %u", (unsigned long)i, n);
	}
	close_target(a);
	close_target(b);
}

Test(open, any_goes_to_who_has_room)
{
	struct dfi_target *slow, *fast;
	struct dfi_source *s;
	uint64_t i, n = 0;
	const void *tuple;
	struct kv kv;
	int ret;

	create(DFI_ROUTE_ANY, DFI_ON_LOSS_DROP);
	slow = target(0);
	fast = open_target(rig.other, "f", 1, DFI_NONBLOCK);
	s = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	/* Far more than the ring of the one that takes nothing has room for. */
	for (i = 0; i < 4 * SEGMENT * RING;) {
		kv = numbered_kv(i);
		ret = dfi_source_push(s, &kv);
		cr_assert(ret == 0 || ret == -EAGAIN, "%s", dfi_errmsg());
		i += ret == 0;
		while (dfi_target_consume(fast, &tuple) == 1)
			n++;
	}
	cr_assert_geq(n, 2 * SEGMENT * RING);
	close_source(s);
	finish();
	while (dfi_target_consume(slow, &tuple) == 1)
		n++;
	while (consume_soon(fast, &tuple) == 1)
		n++;
	cr_assert_eq(n, 4 * SEGMENT * RING);
	close_target(slow);
	close_target(fast);
}

/* Push until it fails: the error. */
static int push_to_the_end(struct dfi_source *source, uint32_t seat)
{
	struct kv kv = numbered_kv(1);
	int64_t until = now_ms() + LONG_MS;
	int ret;

	do
		ret = dfi_source_push_to(source, seat, &kv);
	while (ret == 0 && now_ms() < until);
	return ret;
}

/* It has taken the first tuple of two, or all in a batch that is out. */
static void leave_begun(bool batch)
{
	struct dfi_batch lent;
	struct dfi_target *t;
	struct dfi_source *s;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	t = target(0);
	s = source(0);
	push_to(s, 0, 0);
	push_to(s, 0, 1);
	cr_assert_eq(dfi_source_flush(s), 0);
	if (batch)
		cr_assert_eq(dfi_target_consume_batch(t, &lent), 2);
	else
		expect_number(t, 0);
	close_target(t);
	cr_assert_eq(push_to_the_end(s, 0), -ECONNRESET, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(s), -ECONNRESET);
}

Test(open, a_segment_that_was_begun_is_left_behind)
{
	leave_begun(false);
}

Test(open, a_batch_that_is_out_is_left_behind)
{
	leave_begun(true);
}

Test(open, what_a_target_leaves_is_dropped_and_counted)
{
	struct dfi_target *t;
	struct dfi_source *s;
	struct kv kv = numbered_kv(1);
	uint64_t i, dropped;
	int ret;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_DROP);
	t = target(0);
	s = source(0);
	for (i = 0; i < 3 * SEGMENT + 3; i++)
		push_to(s, 0, i);
	for (i = 0; i < SEGMENT; i++)
		expect_number(t, i);
	close_target(t);
	do
		ret = dfi_source_push_to(s, 0, &kv);
	while (ret == 0);
	cr_assert_eq(ret, -ENXIO, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_dropped(s, &dropped), 0);
	cr_assert_geq(dropped, 2 * SEGMENT + 3);
	t = target(0);
	do
		ret = dfi_source_push_to(s, 0, &kv);
	while (ret == -ENXIO);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	close_source(s);
	finish();
	expect_number(t, 1);
	end_target(t);
}

Test(open, a_target_that_leaves_tuples_fails_its_sources)
{
	struct dfi_target *t;
	struct dfi_source *s;
	struct kv kv = numbered_kv(1);
	int ret;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	t = target(0);
	s = source(0);
	push_to(s, 0, 1);
	cr_assert_eq(dfi_source_flush(s), 0);
	close_target(t);
	do
		ret = dfi_source_push_to(s, 0, &kv);
	while (ret == 0);
	assert_error(ret, -ECONNRESET, "flow 'f'", "target 0");
	assert_error(dfi_source_close(s), -ECONNRESET, "target 0");
}

Test(open, a_target_that_has_all_leaves_without_harm)
{
	struct dfi_target *t;
	struct dfi_source *s;
	struct kv kv = numbered_kv(1);
	uint64_t dropped;
	int ret;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	t = target(0);
	s = source(0);
	push_to(s, 0, 1);
	cr_assert_eq(dfi_source_flush(s), 0);
	expect_number(t, 1);
	close_target(t);
	do
		ret = dfi_source_flush(s);
	while (ret == 0 && dfi_source_push_to(s, 3, &kv) == -ENXIO &&
	    dfi_source_seat(s) == 0 && dfi_source_dropped(s, &dropped) == 0 &&
	    (t = target(0)) == NULL);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	close_target(t);
	close_source(s);
}

Test(open, an_aborted_source_is_lost)
{
	struct dfi_source *s;
	struct dfi_target *t;
	const void *tuple;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	t = target(0);
	s = source(0);
	push_to(s, 0, 5);
	cr_assert_eq(dfi_source_flush(s), 0);
	dfi_source_abort(s);
	cr_assert_eq(dfi_source_close(s), -ECANCELED);
	expect_number(t, 5);
	assert_error(dfi_target_consume(t, &tuple), -ECANCELED, "source 0");
	cr_assert_eq(dfi_target_close(t), -ECANCELED);
}

Test(open, a_lost_source_is_dropped)
{
	struct dfi_source *s;
	struct dfi_target *t;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_DROP);
	t = target(0);
	s = source(0);
	push_to(s, 0, 5);
	cr_assert_eq(dfi_source_flush(s), 0);
	dfi_source_abort(s);
	cr_assert_eq(dfi_source_close(s), -ECANCELED);
	expect_number(t, 5);
	s = source(0);
	push_when_there(s, 0, 6);
	close_source(s);
	expect_number(t, 6);
	finish();
	end_target(t);
}

Test(open, a_source_waits_for_those_who_must_be_there)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	struct dfi_source_attr quick = DFI_SOURCE_ATTR_INIT;
	struct kv kv = numbered_kv(1);
	struct dfi_target *a, *b;
	struct dfi_source *s;

	attr.open.min_targets = 2;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	a = target(0);
	quick.open_timeout_ms = 1000;
	assert_error(dfi_source_open(rig.dfi, "f", 0, &quick, &s), -ETIMEDOUT,
	    "targets are attached", "open.min_targets 2");
	s = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	cr_assert_eq(dfi_source_push(s, &kv), -EAGAIN);
	b = target(1);
	cr_assert_eq(push_soon(s, &kv), 0, "%s", dfi_errmsg());
	close_source(s);
	finish();
	close_target(a);
	close_target(b);
}

/* It has sent nothing, so its targets do not fail. */
static void create_without_minimum(uint32_t kind, uint32_t routing)
{
	struct dfi_flow_attr attr = flow_attr(routing, DFI_ON_LOSS_DROP);

	attr.kind = kind;
	attr.open.min_targets = DFI_NO_TARGETS;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

Test(open, a_source_that_needs_no_target_names_empty_seats)
{
	struct kv kv = numbered_kv(1);
	struct dfi_source *s;
	struct dfi_target *t;

	create_without_minimum(DFI_SHUFFLE, DFI_ROUTE_DIRECT);
	s = source(0);
	assert_error(dfi_source_push_to(s, 2, &kv), -ENXIO, "target 2",
	    "nobody holds this seat");
	t = target(2);
	push_when_there(s, 2, 5);
	close_source(s);
	finish();
	expect_number(t, 5);
	end_target(t);
}

/* What it pushes goes to the first who comes, and nothing is dropped. */
static void wait_for_the_first(uint32_t kind, uint32_t routing)
{
	struct kv kv = numbered_kv(0);
	uint64_t n = 0, i, dropped;
	struct dfi_source *s;
	struct dfi_target *t;
	int ret;

	create_without_minimum(kind, routing);
	s = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	while (!(ret = dfi_source_push(s, &kv)))
		kv = numbered_kv(++n);
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
	t = target(1);
	cr_assert_eq(push_soon(s, &kv), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_flush(s), 0);
	cr_assert_eq(dfi_source_dropped(s, &dropped), 0);
	cr_assert_eq(dropped, 0);
	close_source(s);
	finish();
	for (i = 0; i <= n; i++)
		expect_number(t, i);
	end_target(t);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

Test(open, a_source_that_needs_no_target_waits_for_the_first)
{
	wait_for_the_first(DFI_SHUFFLE, DFI_ROUTE_ANY);
	wait_for_the_first(DFI_SHUFFLE, DFI_ROUTE_ROUND_ROBIN);
	wait_for_the_first(DFI_SHUFFLE, DFI_ROUTE_HASH);
	wait_for_the_first(DFI_REPLICATE, 0);
}

Test(open, a_source_that_gives_up_waiting_harms_nobody)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	struct dfi_source_attr quick = DFI_SOURCE_ATTR_INIT;
	struct dfi_target *a, *b;
	struct dfi_source *s;

	attr.open.min_targets = 2;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	a = target(0);
	quick.open_timeout_ms = 1000;
	assert_error(dfi_source_open(rig.dfi, "f", 0, &quick, &s), -ETIMEDOUT,
	    "open.min_targets 2");
	b = target(1);
	s = source(0);
	close_source(s);
	finish();
	end_target(a);
	end_target(b);
}

Test(open, all_seats_are_used)
{
	struct dfi_target *targets[SEATS], *none;
	uint32_t seen = 0, i;

	create(DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	for (i = 0; i < SEATS; i++) {
		targets[i] = target(DFI_ANY_SEAT);
		seen |= 1u << dfi_target_seat(targets[i]);
	}
	cr_assert_eq(seen, (1u << SEATS) - 1);
	assert_error(dfi_target_open(rig.dfi, "f", DFI_ANY_SEAT, NULL, &none),
	    -EBUSY, "all 4 seats", "n_targets");
	assert_error(dfi_target_open(rig.dfi, "f", 2, NULL, &none), -EEXIST,
	    "target 2", "attached already");
	for (i = 0; i < SEATS; i++)
		close_target(targets[i]);
}

Test(open, the_estimate_is_of_a_pair_and_of_all_seats)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	struct dfi_flow_needs needs;

	cr_assert_eq(
	    dfi_flow_estimate(rig.dfi, &attr, &needs), 0, "%s", dfi_errmsg());
	cr_assert_gt(needs.pair_bytes, needs.ring_bytes);
	cr_assert_eq(needs.target_bytes, SEATS * needs.pair_bytes);
	attr.open = (struct dfi_open_attr){ 0 };
	cr_assert_eq(dfi_flow_estimate(rig.dfi, &attr, &needs), 0);
	cr_assert_eq(needs.pair_bytes, 0);
}

/* With memory for one pair, the next source waits until that one is over. */
Test(open, a_pair_is_made_when_there_is_memory)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	struct dfi_source_attr quick = DFI_SOURCE_ATTR_INIT;
	struct dfi_flow_needs needs;
	struct dfi_source *first, *second;
	struct dfi_target *t;
	struct kv kv = numbered_kv(2);
	const void *tuple;
	char limit[32];
	int ret;

	cr_assert_eq(dfi_flow_estimate(rig.dfi, &attr, &needs), 0);
	teardown();
	snprintf(limit, sizeof(limit), "%lu", (unsigned long)needs.pair_bytes);
	setenv("DFI_RING_MEMORY_LIMIT", limit, 1);
	setup();
	create(DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	t = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	first = source(0);
	quick.open_timeout_ms = 1000;
	assert_error(dfi_source_open(rig.dfi, "f", 1, &quick, &second),
	    -ETIMEDOUT, "0 targets are attached");
	second = open_source(rig.dfi, "f", 1, DFI_NONBLOCK);
	push_number(first, 1);
	close_source(first);
	expect_number(t, 1);
	finish();
	/* The owner must see the first one's end. */
	while ((ret = dfi_source_push(second, &kv)) == -EAGAIN)
		cr_assert_eq(dfi_target_consume(t, &tuple), -EAGAIN);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	close_source(second);
	expect_number(t, 2);
	while ((ret = dfi_target_consume(t, &tuple)) == -EAGAIN)
		yield_times(1);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	close_target(t);
}

static uint32_t count_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint32_t n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static uint64_t mapped_pages(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	cr_assert_eq(fscanf(file, "%lu", &pages), 1);
	fclose(file);
	return pages;
}

static void one_visit(struct dfi_target *t, uint64_t number)
{
	struct dfi_source *s = source(DFI_ANY_SEAT);

	push_number(s, number);
	close_source(s);
	expect_number(t, number);
}

/* The process keeps pages of its last 64 handles; a visit has four. */
#define WARM 100

Test(open, visits_leave_nothing_behind)
{
	uint32_t n = WARM + (uint32_t)test_setting("OPEN_VISITS", fewer(1000));
	uint32_t i, files;
	struct dfi_target *t;
	uint64_t pages;

	create(DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	t = target(0);
	for (i = 0; i < WARM; i++)
		one_visit(t, i);
	files = count_files();
	pages = mapped_pages();
	for (; i < n; i++)
		one_visit(t, i);
	cr_assert_leq(count_files(), files + 8);
	cr_assert_leq(mapped_pages(), pages + 4096);
	finish();
	end_target(t);
}

/*
 * A source that has heard of a seat's new holder does not push to the last one.
 * how: the goal, which sends each tuple at once, or flush.
 */
static void push_to_new_holder(uint32_t goal)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_ROUTE_DIRECT, DFI_ON_LOSS_DROP);
	struct dfi_flow_info info;
	struct dfi_target *t;
	struct dfi_source *s;
	uint64_t dropped, i;

	attr.goal = goal;
	if (goal == DFI_LATENCY)
		attr.segment_size = 0;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	t = target(1);
	s = source(0);
	for (i = 0; i < fewer(50); i++) {
		push_when_there(s, 1, i);
		cr_assert_eq(dfi_source_flush(s), 0, "%s", dfi_errmsg());
		expect_number(t, i);
		close_target(t);
		t = target(1);
		/* The answer comes behind the news of the seat. */
		cr_assert_eq(dfi_flow_lookup(rig.dfi, "f", &info), 0, "%s",
		    dfi_errmsg());
	}
	push_to(s, 1, i);
	cr_assert_eq(dfi_source_dropped(s, &dropped), 0);
	cr_assert_eq(dropped, 0);
	close_source(s);
	expect_number(t, i);
	finish();
	end_target(t);
}

Test(open, a_tuple_goes_to_who_holds_the_seat_now)
{
	push_to_new_holder(DFI_LATENCY);
}

Test(open, what_is_pushed_after_a_flush_goes_to_who_holds_the_seat_now)
{
	push_to_new_holder(DFI_BANDWIDTH);
}

enum {
	VISITORS = 8,
	TUPLES = 3 * SEGMENT + 1 /* of a visit, for each target */
};

static void fail_thread(void)
{
	fprintf(stderr, "%s\n", dfi_errmsg());
	abort();
}

/* Take any seat, send numbered tuples to targets 0 and 1, leave; again. */
static void *visit_often(void *arg)
{
	uint32_t visits = fewer(64), i;
	struct dfi_source *s;
	uint64_t n;
	int ret;

	for (i = 0; i < visits; i++) {
		while ((ret = dfi_source_open(
			    rig.dfi, "f", DFI_ANY_SEAT, NULL, &s)) == -EBUSY)
			yield_times(1);
		if (ret < 0)
			fail_thread();
		for (n = 0; n < 2 * TUPLES; n++) {
			struct kv kv = numbered_kv(n / 2);

			if (dfi_source_push_to(s, n % 2, &kv) < 0)
				fail_thread();
		}
		if (dfi_source_close(s) < 0)
			fail_thread();
	}
	return arg;
}

struct visits {
	pthread_t thread;
	struct dfi_target *target;
	uint64_t next[SEATS]; /* number of each seat */
	uint32_t joined, ended;
	bool wrong;
};

/* Each stay has all its tuples, in order, between its events. */
static void take_event(struct visits *visits)
{
	struct dfi_event event;

	if (dfi_target_event(visits->target, &event) < 0)
		fail_thread();
	visits->joined += event.type == DFI_JOINED;
	visits->ended += event.type == DFI_ENDED;
	visits->wrong |= visits->next[event.seat] !=
	    (event.type == DFI_JOINED ? 0 : TUPLES);
	visits->next[event.seat] = 0;
}

static void *receive(void *arg)
{
	struct visits *visits = arg;
	struct dfi_batch batch;
	const struct kv *kv;
	uint32_t i;
	int ret;

	while ((ret = dfi_target_consume_batch(visits->target, &batch))) {
		if (ret == -ENOMSG) {
			take_event(visits);
			continue;
		}
		if (ret < 0)
			fail_thread();
		for (i = 0, kv = batch.tuples; i < batch.count; i++, kv++)
			visits->wrong |= kv->val !=
			    visits->next[batch.source]++;
		dfi_target_release(visits->target, &batch);
	}
	return NULL;
}

Test(open, visitors_at_once_lose_nothing)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);
	struct visits visits[2] = { 0 };
	pthread_t threads[VISITORS];
	struct dfi_target_attr open = DFI_TARGET_ATTR_INIT;
	uint32_t i;

	attr.open.min_targets = 2;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	open.flags = DFI_EVENTS;
	for (i = 0; i < 2; i++) {
		cr_assert_eq(dfi_target_open(
				 rig.other, "f", i, &open, &visits[i].target),
		    0);
		cr_assert_eq(pthread_create(
				 &visits[i].thread, NULL, receive, &visits[i]),
		    0);
	}
	for (i = 0; i < VISITORS; i++)
		cr_assert_eq(
		    pthread_create(&threads[i], NULL, visit_often, NULL), 0);
	for (i = 0; i < VISITORS; i++)
		pthread_join(threads[i], NULL);
	finish();
	for (i = 0; i < 2; i++) {
		pthread_join(visits[i].thread, NULL);
		cr_assert(!visits[i].wrong);
		cr_assert_eq(visits[i].joined, VISITORS * fewer(64));
		cr_assert_eq(visits[i].ended, visits[i].joined);
		close_target(visits[i].target);
	}
}

static struct dfi_target *target_with_events(uint32_t seat)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.flags = DFI_EVENTS;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(rig.other, "f", seat, &attr, &target), 0,
	    "%s", dfi_errmsg());
	return target;
}

/* The target's next consuming call finds this event; its incarnation. */
static uint64_t expect_event(
    struct dfi_target *target, uint32_t type, uint32_t seat)
{
	struct dfi_event event;
	const void *tuple;

	cr_assert_eq(
	    dfi_target_consume(target, &tuple), -ENOMSG, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_event(target, &event), 0);
	cr_assert_eq(event.type, type);
	cr_assert_eq(event.seat, seat);
	cr_assert_neq(event.incarnation, 0);
	return event.incarnation;
}

Test(open, events_are_in_order_with_tuples)
{
	struct dfi_event event;
	uint64_t first, second;
	struct dfi_source *s;
	struct dfi_target *t;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_DROP);
	t = target_with_events(0);
	cr_assert_eq(dfi_target_event(t, &event), -EAGAIN);
	s = source(1);
	push_to(s, 0, 1);
	close_source(s);
	s = source(1);
	push_to(s, 0, 2);
	cr_assert_eq(dfi_source_flush(s), 0);
	dfi_source_abort(s);
	cr_assert_eq(dfi_source_close(s), -ECANCELED);
	first = expect_event(t, DFI_JOINED, 1);
	expect_number(t, 1);
	cr_assert_eq(expect_event(t, DFI_ENDED, 1), first);
	second = expect_event(t, DFI_JOINED, 1);
	cr_assert_neq(second, first);
	expect_number(t, 2);
	cr_assert_eq(expect_event(t, DFI_LOST, 1), second);
	finish();
	end_target(t);
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

Test(open, a_source_hears_of_its_targets)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_event joined, left;
	struct dfi_source *s;
	struct dfi_target *t;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_DROP);
	t = target(2);
	attr.flags = DFI_EVENTS;
	cr_assert_eq(
	    dfi_source_open(rig.dfi, "f", 0, &attr, &s), 0, "%s", dfi_errmsg());
	joined = event_of(s);
	cr_assert_eq(joined.type, DFI_JOINED);
	cr_assert_eq(joined.seat, 2);
	push_to(s, 2, 1);
	cr_assert_eq(dfi_source_flush(s), 0);
	expect_number(t, 1);
	close_target(t);
	left = event_of(s);
	cr_assert_eq(left.type, DFI_ENDED);
	cr_assert_eq(left.incarnation, joined.incarnation);
	t = target(2);
	joined = event_of(s);
	cr_assert_eq(joined.type, DFI_JOINED);
	cr_assert_neq(left.incarnation, joined.incarnation);
	push_to(s, 2, 1);
	cr_assert_eq(dfi_source_flush(s), 0);
	close_target(t);
	cr_assert_eq(event_of(s).type, DFI_LOST);
	close_source(s);
}

struct member_list {
	struct dfi_member_info at[2 * SEATS];
	uint32_t n;
};

static int keep_member(void *arg, const struct dfi_member_info *info)
{
	struct member_list *list = arg;

	list->at[list->n++] = *info;
	return list->n == 2 * SEATS;
}

static struct member_list members(void)
{
	struct member_list list = { .n = 0 };

	cr_assert_eq(dfi_member_list(rig.dfi, "f", keep_member, &list), 0, "%s",
	    dfi_errmsg());
	return list;
}

static void expect_member(const struct dfi_member_info *info, uint32_t role,
    uint32_t seat, uint64_t incarnation, const char *peers)
{
	cr_assert_eq(info->role, role);
	cr_assert_eq(info->seat, seat);
	cr_assert_eq(info->incarnation, incarnation);
	cr_assert_eq(info->pid, (uint32_t)getpid());
	cr_assert_str_eq(info->peers, peers);
}

Test(open, who_holds_seats_is_listed)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	uint64_t incarnations[3] = { 0 };
	struct dfi_target *targets[3];
	struct member_list list;
	struct dfi_flow_info info;
	struct dfi_source *s;
	struct dfi_event event;
	uint32_t i;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_DROP);
	cr_assert_eq(members().n, 0);
	attr.flags = DFI_EVENTS | DFI_NONBLOCK;
	cr_assert_eq(
	    dfi_source_open(rig.dfi, "f", 1, &attr, &s), 0, "%s", dfi_errmsg());
	for (i = 0; i < 3; i++)
		targets[i] = target(i + (i == 2));
	for (i = 0; i < 3; i++) {
		event = event_of(s);
		incarnations[event.seat - (event.seat == 3)] =
		    event.incarnation;
	}
	list = members();
	cr_assert_eq(list.n, 4);
	expect_member(
	    &list.at[0], DFI_ROLE_SOURCE, 1, list.at[0].incarnation, "0-1, 3");
	cr_assert_neq(list.at[0].incarnation, 0);
	cr_assert_eq(list.at[0].n_peers, 3);
	for (i = 0; i < 3; i++)
		expect_member(&list.at[1 + i], DFI_ROLE_TARGET, i + (i == 2),
		    incarnations[i], "1");
	finish();
	cr_assert_eq(dfi_flow_lookup(rig.dfi, "f", &info), 0);
	cr_assert_eq(info.membership, DFI_MEMBERS_OPEN);
	cr_assert_eq(info.on_loss, DFI_ON_LOSS_DROP);
	cr_assert_eq(info.finished, 1);
	close_source(s);
	list = members();
	cr_assert_eq(list.n, 3);
	expect_member(&list.at[0], DFI_ROLE_TARGET, 0, incarnations[0], "");
	for (i = 0; i < 3; i++)
		close_target(targets[i]);
	create_kv_flow(rig.dfi, "closed", 1, 1, SEGMENT, RING);
	assert_error(dfi_member_list(rig.dfi, "closed", keep_member, &list),
	    -EPROTOTYPE, "not open");
	assert_error(dfi_member_list(rig.dfi, "none", keep_member, &list),
	    -ENOENT, "none");
}

/* Of each endpoint, and of each side of a ring. */
struct found {
	uint64_t tuples[2][2]; /* by role, and whether of a ring */
	uint32_t n;
};

static int find_endpoints(void *arg, const struct dfi_node_stats *stats)
{
	const struct dfi_endpoint_stats *at = stats->endpoints;
	struct found *found = arg;
	uint32_t i, other;

	for (i = 0; i < stats->n_endpoints; i++, at++) {
		other = at->role == DFI_ROLE_SOURCE ? 2 : 1;
		cr_assert_eq(at->index, 3 - other);
		cr_assert(
		    !at->peer || at->peer == other + 1, "peer %u", at->peer);
		found->tuples[at->role == DFI_ROLE_TARGET][at->peer != 0] +=
		    at->tuples;
		found->n++;
	}
	return 0;
}

Test(open, counters_are_of_endpoints_and_of_rings)
{
	struct found found = { .n = 0 };
	struct dfi_source *s;
	struct dfi_target *t;
	uint32_t i;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_DROP);
	t = target(2);
	s = source(1);
	for (i = 0; i < 3; i++)
		push_to(s, 2, i);
	cr_assert_eq(dfi_source_flush(s), 0);
	expect_number(t, 0);
	cr_assert_eq(dfi_stats_list(rig.dfi, find_endpoints, &found), 0, "%s",
	    dfi_errmsg());
	cr_assert_eq(found.n, 4);
	for (i = 0; i < 4; i++)
		cr_assert_eq(found.tuples[i / 2][i % 2], 3);
	close_source(s);
	close_target(t);
}

/* While it is, calls lend nothing. */
Test(open, an_event_is_next_until_it_is_taken)
{
	struct dfi_event event;
	struct dfi_batch batch;
	struct dfi_source *s;
	struct dfi_target *t;
	const void *tuple;

	create(DFI_ROUTE_ANY, DFI_ON_LOSS_DROP);
	t = target_with_events(0);
	s = source(0);
	push_number(s, 7);
	cr_assert_eq(dfi_source_flush(s), 0);
	cr_assert_eq(dfi_target_consume(t, &tuple), -ENOMSG);
	assert_error(
	    dfi_target_consume_batch(t, &batch), -ENOMSG, "dfi_target_event()");
	cr_assert_eq(dfi_target_event(t, &event), 0);
	cr_assert_eq(event.type, DFI_JOINED);
	cr_assert_eq(dfi_target_event(t, &event), -EAGAIN);
	expect_number(t, 7);
	close_source(s);
	cr_assert_eq(dfi_target_consume(t, &tuple), -ENOMSG);
	cr_assert_eq(dfi_target_consume(t, &tuple), -ENOMSG);
	cr_assert_eq(dfi_target_event(t, &event), 0);
	cr_assert_eq(event.type, DFI_ENDED);
	close_target(t);
}

Test(open, sources_of_closed_flows_have_no_events)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *s;

	create_kv_flow(rig.dfi, "closed", 1, 1, SEGMENT, RING);
	attr.flags = DFI_EVENTS;
	assert_error(dfi_source_open(rig.dfi, "closed", 0, &attr, &s), -EINVAL,
	    "DFI_EVENTS", "DFI_MEMBERS_OPEN");
}

Test(open, who_has_not_asked_has_no_events)
{
	struct dfi_event event;
	struct dfi_source *s;
	struct dfi_target *t;

	create(DFI_ROUTE_DIRECT, DFI_ON_LOSS_DROP);
	t = target(0);
	s = source(0);
	assert_error(dfi_target_event(t, &event), -EINVAL, "DFI_EVENTS");
	assert_error(dfi_source_event(s, &event), -EINVAL, "DFI_EVENTS");
	close_source(s);
	close_target(t);
	t = target_with_events(0);
	assert_error(dfi_target_event(t, NULL), -EINVAL, "event is NULL");
	close_target(t);
}

#define refuse(err, change, ...)                                        \
	do {                                                            \
		struct dfi_flow_attr attr = flow_attr(                  \
		    DFI_ROUTE_DIRECT, DFI_ON_LOSS_FAIL);                \
                                                                        \
		change;                                                 \
		assert_error(dfi_flow_create(rig.dfi, "g", &attr), err, \
		    "flow 'g'", __VA_ARGS__);                           \
	} while (0)

Test(open, what_is_not_there_is_refused)
{
	refuse(-EINVAL, attr.key = "key", "key");
	refuse(-EOPNOTSUPP,
	    (attr.kind = DFI_REPLICATE, attr.routing = 0,
		attr.open.on_loss = DFI_ON_LOSS_REPLAY),
	    "DFI_ON_LOSS_DROP");
	refuse(-EINVAL, attr.open.on_loss = 3, "open.on_loss 3");
	refuse(-EINVAL, attr.open.membership = 2, "open.membership 2");
	refuse(
	    -EINVAL, attr.open.min_targets = SEATS + 1, "open.min_targets 5");
	refuse(
	    -EINVAL, attr.open.min_sources = SEATS + 1, "open.min_sources 5");
	refuse(-E2BIG, attr.open.reserved[2] = 1, "reserved");
	refuse(-EINVAL, (attr.open.membership = 0, attr.open.min_targets = 1),
	    "open.min_targets", "DFI_MEMBERS_OPEN");
	refuse(-EINVAL,
	    (attr.open.membership = 0, attr.routing = DFI_ROUTE_ANY),
	    "DFI_ROUTE_ANY", "DFI_MEMBERS_OPEN");
}

Test(open, closed_flows_have_no_seats)
{
	struct dfi_target *t;

	create_kv_flow(rig.dfi, "closed", 1, 1, SEGMENT, RING);
	assert_error(dfi_target_open(rig.dfi, "closed", DFI_ANY_SEAT, NULL, &t),
	    -ERANGE, "DFI_ANY_SEAT");
	assert_error(
	    dfi_flow_finish(rig.dfi, "closed"), -EPROTOTYPE, "not open");
	assert_error(dfi_flow_finish(rig.dfi, "none"), -ENOENT, "none");
	t = open_target(rig.dfi, "closed", 0, 0);
	cr_assert_eq(dfi_target_seat(t), 0);
	close_target(t);
}

Test(open, only_its_creator_finishes_a_flow)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);

	create(DFI_ROUTE_ANY, DFI_ON_LOSS_FAIL);
	assert_error(
	    dfi_flow_finish(rig.other, "f"), -EPERM, "DFI_FLOW_PERSISTENT");
	attr.flags = DFI_FLOW_PERSISTENT;
	cr_assert_eq(dfi_flow_create(rig.dfi, "p", &attr), 0);
	cr_assert_eq(dfi_flow_finish(rig.other, "p"), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_flow_remove(rig.dfi, "p"), 0);
}

/* M8. The ring of a target that takes nothing is full for long. */
Test(open, without_a_registry_members_stay_as_they_are)
{
	struct dfi_flow_attr attr = flow_attr(
	    DFI_ROUTE_DIRECT, DFI_ON_LOSS_DROP);
	struct dfi_target *takes, *idle, *late;
	struct kv kv = numbered_kv(0), next;
	struct dfi_source *s;
	uint64_t n = 0, i;
	int64_t until;
	int ret;

	if (!rig.registry)
		cr_skip_test("the registry is part of the contexts");
	attr.open.evict_after_ms = 20;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	takes = target(0);
	idle = target(1);
	s = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	for (i = 0; i < 2; i++)
		while ((ret = dfi_source_push_to(s, (uint32_t)i, &kv)) != 0)
			cr_assert(ret == -EAGAIN || ret == -ENXIO);
	cr_assert_eq(dfi_source_flush(s), 0, "%s", dfi_errmsg());
	expect_number(takes, 0);
	cr_assert_eq(dfi_registry_stop(rig.registry), 0);
	rig.registry = NULL;
	do
		kv = numbered_kv(++n);
	while (!(ret = dfi_source_push_to(s, 1, &kv)));
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
	until = now_ms() + 20 * attr.open.evict_after_ms;
	for (i = 1; now_ms() < until; i++) {
		next = numbered_kv(i);
		cr_assert_eq(push_to_soon(s, 0, &next), 0);
		cr_assert_eq(dfi_source_flush(s), 0, "%s", dfi_errmsg());
		expect_number(takes, i);
		cr_assert_eq(dfi_source_push_to(s, 1, &kv), -EAGAIN);
	}
	cr_assert_lt(dfi_target_open(rig.other, "f", 2, NULL, &late), 0);
	for (i = 0; i < n; i++)
		expect_number(idle, i);
	cr_assert_eq(push_to_soon(s, 1, &kv), 0, "%s", dfi_errmsg());
	close_source(s);
	expect_number(idle, n);
	close_target(takes);
	close_target(idle);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Target sets in open replicate flows: a tuple goes to those of its set that
 * are attached. One case for each rule.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "open_help.h"

#define SEATS 4
#define SEGMENT 8 /* tuples */
#define RING 8    /* segments */
#define ALL (BIT(SEATS) - 1)
#define BIT(seat) (UINT64_C(1) << (seat))

TestSuite(open_sets, .init = setup, .fini = teardown, .timeout = 300);

/* By datagrams with DFI_TEST_REPLICATION=2, which needs a network for them. */
static struct dfi_flow_attr flow_attr(uint32_t routing)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_REPLICATE,
		.routing = routing,
		.replicate.method = (uint32_t)test_setting("REPLICATION", 0),
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.open = { .membership = DFI_MEMBERS_OPEN,
		    .on_loss = DFI_ON_LOSS_DROP },
	};
}

/* Networks that stand in for RDMA have no counters. */
static void set_order(struct dfi_flow_attr *attr)
{
	bool fake = test_setting("LOOPBACK", 0) != 0;

#ifdef DFI_DATAGRAMS_ONLY
	fake = true;
#endif
	if (fake)
		attr->transport = DFI_TRANSPORT_SHM;
	attr->replicate.method = DFI_REPLICATION_NAIVE;
	attr->replicate.ordered = 1;
}

static void create(const struct dfi_flow_attr *attr)
{
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

#define ROUND 4 /* tuples, which fit each ring if each takes a segment */

/*
 * Which set a number has: all sets come, in runs and one by one. The last tuple
 * of a round is for all, so all targets pass over what is for others.
 */
static uint64_t set_of(uint64_t number)
{
	uint64_t set = number % 64 < 32 ? number / 8 : number * 7;

	return number % ROUND == ROUND - 1 ? ALL : 1 + set % ALL;
}

static void push_set(struct dfi_source *source, uint64_t set, uint64_t number)
{
	struct kv kv = numbered_kv(number);

	cr_assert_eq(
	    dfi_source_push_set(source, set, &kv), 0, "%s", dfi_errmsg());
}

/* The next tuple of its set that a target gets, from this number on. */
static uint64_t expect_own(
    struct dfi_target *target, uint32_t seat, uint64_t number)
{
	const void *tuple;
	const struct kv *kv;

	while (!(set_of(number) & BIT(seat)))
		number++;
	cr_assert_eq(consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
	kv = tuple;
	cr_assert_eq(kv->val, number, "seat %u: %lu, not %lu", seat,
	    (unsigned long)kv->val, (unsigned long)number);
	return number + 1;
}

static uint64_t choose(void *arg, const void *tuple, uint32_t n_targets)
{
	(void)arg;
	(void)n_targets;
	return ((const struct kv *)tuple)->key;
}

static struct dfi_source *routed_source(void)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;

	attr.route_set = choose;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 1, &attr, &source), 0, "%s",
	    dfi_errmsg());
	return source;
}

static void each_gets_its_own(const struct dfi_flow_attr *attr)
{
	bool by_function = attr->routing == DFI_ROUTE_FUNCTION;
	uint64_t n = 0, end, next[SEATS] = { 0 };
	struct dfi_target *targets[SEATS];
	struct dfi_source *s;
	struct kv kv;
	uint32_t i;

	create(attr);
	for (i = 0; i < SEATS; i++)
		targets[i] = target(i);
	s = by_function ? routed_source() : source(1);
	for (end = ROUND; n < 200 * ROUND; end += ROUND) {
		for (; n < end; n++) {
			kv = (struct kv){ .key = set_of(n), .val = n };
			if (by_function)
				cr_assert_eq(dfi_source_push(s, &kv), 0, "%s",
				    dfi_errmsg());
			else
				push_set(s, set_of(n), n);
		}
		flush(s);
		for (i = 0; i < SEATS; i++) {
			if (end == ROUND)
				expect_event(targets[i], DFI_JOINED, 1);
			while (next[i] < end) {
				while (next[i] < end &&
				    !(set_of(next[i]) & BIT(i)))
					next[i]++;
				if (next[i] < end)
					next[i] = expect_own(
					    targets[i], i, next[i]);
			}
		}
	}
	finish();
	close_source(s);
	for (i = 0; i < SEATS; i++)
		expect_end(targets[i], 1);
}

Test(open_sets, each_target_gets_the_tuples_of_its_sets)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_DIRECT);

	attr.open.min_targets = SEATS;
	each_gets_its_own(&attr);
}

Test(open_sets, each_target_gets_the_tuples_of_its_sets_for_latency)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_DIRECT);

	attr.open.min_targets = SEATS;
	attr.goal = DFI_LATENCY;
	attr.segment_size = 0;
	attr.segment_count = RING;
	each_gets_its_own(&attr);
}

Test(open_sets, a_function_names_the_set_of_a_tuple)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_FUNCTION);

	attr.open.min_targets = SEATS;
	each_gets_its_own(&attr);
}

Test(open_sets, checksums_cover_the_set)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_DIRECT);

	attr.open.min_targets = SEATS;
	attr.verify = DFI_VERIFY_CHECKSUM;
	each_gets_its_own(&attr);
}

Test(open_sets, an_ordered_flow_has_sets_as_well)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_DIRECT);

	attr.open.min_targets = SEATS;
	set_order(&attr);
	each_gets_its_own(&attr);
}

/* As a push to a seat that nobody holds; the others go on. */
Test(open_sets, a_set_that_nobody_holds_is_refused)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_DIRECT);
	struct dfi_target *first, *third;
	struct kv kv = { .val = 7 };
	struct dfi_source *s;
	uint32_t i;

	create(&attr);
	first = target(0);
	s = source_with_events(0, 0);
	await_targets(s, 1);
	push_set(s, BIT(0) | BIT(3), 0);
	for (i = 0; i < 3; i++)
		cr_assert_eq(dfi_source_push_set(s, BIT(2) | BIT(3), &kv),
		    -ENXIO, "%s", dfi_errmsg());
	push_set(s, BIT(0), 1);
	third = target(2);
	await_targets(s, 1);
	push_set(s, BIT(2) | BIT(3), 2);
	finish();
	close_source(s);
	expect_event(first, DFI_JOINED, 0);
	expect_numbers(first, 0, 2);
	expect_end(first, 0);
	expect_event(third, DFI_JOINED, 0);
	expect_numbers(third, 2, 3);
	expect_end(third, 0);
}

/* A segment is open for a target that leaves: its tuples are dropped. */
static struct dfi_source *leave_with_a_segment(
    uint32_t on_loss, struct dfi_target **first)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_DIRECT);
	struct dfi_target *last;
	struct dfi_source *s;

	attr.open.on_loss = on_loss;
	create(&attr);
	*first = target(0);
	last = target(1);
	s = source_with_events(0, 0);
	await_targets(s, 2);
	push_set(s, BIT(1), 0);
	push_set(s, BIT(1), 1);
	expect_event(last, DFI_JOINED, 0);
	close_target(last);
	await_events(s, DFI_ENDED, 1);
	return s;
}

Test(open_sets, what_is_for_nobody_is_dropped_and_counted)
{
	struct dfi_target *first;
	struct dfi_source *s = leave_with_a_segment(DFI_ON_LOSS_DROP, &first);
	uint64_t n = 0;

	flush(s);
	cr_assert_eq(dfi_source_dropped(s, &n), 0);
	cr_assert_eq(n, 2);
	push_set(s, BIT(0), 2);
	finish();
	close_source(s);
	expect_event(first, DFI_JOINED, 0);
	expect_numbers(first, 2, 3);
	expect_end(first, 0);
}

Test(open_sets, what_is_for_nobody_fails_a_source_that_promises_delivery)
{
	struct dfi_target *first;
	struct dfi_source *s = leave_with_a_segment(DFI_ON_LOSS_FAIL, &first);

	cr_assert_eq(dfi_source_flush(s), -ECONNRESET);
	cr_assert_neq(
	    strstr(dfi_errmsg(), "target set 0x2"), NULL, "%s", dfi_errmsg());
	dfi_source_abort(s);
	dfi_source_close(s);
	dfi_target_close(first);
}

/* What lies unread is for others: nothing is lost with the one who leaves. */
static void leave_without_tuples(uint32_t ordered)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_DIRECT);
	struct dfi_target *first, *last;
	struct dfi_source *s;
	uint64_t n = 0;

	attr.open.on_loss = DFI_ON_LOSS_FAIL;
	if (ordered)
		set_order(&attr);
	create(&attr);
	first = target(0);
	last = target(1);
	s = source_with_events(0, 0);
	await_targets(s, 2);
	push_set(s, ALL, 0);
	flush(s);
	expect_event(last, DFI_JOINED, 0);
	expect_numbers(last, 0, 1);
	push_set(s, BIT(0), 1);
	flush(s);
	push_set(s, BIT(0), 2);
	flush(s);
	close_target(last);
	await_events(s, DFI_ENDED, 1);
	cr_assert_eq(dfi_source_dropped(s, &n), 0);
	cr_assert_eq(n, 0);
	push_set(s, BIT(0), 3);
	finish();
	close_source(s);
	expect_event(first, DFI_JOINED, 0);
	expect_numbers(first, 0, 4);
	expect_end(first, 0);
}

Test(open_sets, a_target_leaves_what_is_for_others)
{
	leave_without_tuples(0);
}

Test(open_sets, a_target_of_an_ordered_flow_leaves_what_is_for_others)
{
	leave_without_tuples(1);
}

/* A number may be on its way for what was pushed to another set. */
Test(open_sets, a_set_that_is_refused_holds_up_no_other_one)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_DIRECT);
	struct kv kv = numbered_kv(9);
	struct dfi_target *first;
	struct dfi_source *s;
	uint64_t n;

	set_order(&attr);
	create(&attr);
	first = target(0);
	s = source_with_events(0, 0);
	await_targets(s, 1);
	for (n = 0; n < 5; n++) {
		push_set(s, BIT(0), n);
		cr_assert_eq(dfi_source_push_set(s, BIT(2), &kv), -ENXIO, "%s",
		    dfi_errmsg());
		if (!n)
			expect_event(first, DFI_JOINED, 0);
		expect_numbers(first, n, n + 1);
	}
	finish();
	close_source(s);
	expect_end(first, 0);
}

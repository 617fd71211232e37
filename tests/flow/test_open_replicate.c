/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open replicate flows: each attached target gets each tuple, from the one on
 * at which it joined. One case for each rule.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "open_help.h"

#define SEATS 4
#define SEGMENT 8 /* tuples */
#define RING 8    /* segments */

TestSuite(open_replicate, .init = setup, .fini = teardown, .timeout = 300);

/* By datagrams with DFI_TEST_REPLICATION=2, which needs a network for them. */
static struct dfi_flow_attr flow_attr(uint32_t on_loss)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_REPLICATE,
		.replicate.method = (uint32_t)test_setting("REPLICATION", 0),
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.open = { .membership = DFI_MEMBERS_OPEN, .on_loss = on_loss },
	};
}

static void create(uint32_t on_loss)
{
	struct dfi_flow_attr attr = flow_attr(on_loss);

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

static void all_targets_get_all(uint32_t goal)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);
	struct dfi_target *targets[3];
	struct dfi_source *s;
	uint32_t i;

	attr.goal = goal;
	if (goal == DFI_LATENCY) {
		attr.segment_size = 0;
		attr.segment_count = SEGMENT * RING;
	}
	attr.open.min_targets = 3;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	for (i = 0; i < 3; i++)
		targets[i] = target(i + 1);
	s = source(2);
	push_numbers(s, 0, SEGMENT + 3);
	if (goal == DFI_BANDWIDTH)
		flush(s);
	for (i = 0; i < 3; i++) {
		cr_assert_eq(expect_event(targets[i], DFI_JOINED, 2), 0);
		expect_numbers(targets[i], 0, SEGMENT + 3);
	}
	push_numbers(s, SEGMENT + 3, 4 * SEGMENT);
	finish();
	close_source(s);
	for (i = 0; i < 3; i++) {
		expect_numbers(targets[i], SEGMENT + 3, 4 * SEGMENT);
		expect_end(targets[i], 2);
	}
}

Test(open_replicate, each_target_gets_each_tuple)
{
	all_targets_get_all(DFI_BANDWIDTH);
}

Test(open_replicate, each_target_gets_each_tuple_for_latency)
{
	all_targets_get_all(DFI_LATENCY);
}

/* J1: the tuples from the event's value on come, and no other. */
Test(open_replicate, a_target_that_joins_knows_where_it_begins)
{
	struct dfi_target *first, *late;
	struct dfi_source *s;
	uint64_t at;

	create(DFI_ON_LOSS_FAIL);
	first = target(0);
	s = source_with_events(0, 0);
	await_targets(s, 1);
	push_numbers(s, 0, 2 * SEGMENT + 3);
	late = target(1);
	await_targets(s, 1);
	/* The open segment was not sent yet, so the new target gets it. */
	push_numbers(s, 2 * SEGMENT + 3, 3 * SEGMENT + 1);
	finish();
	close_source(s);
	cr_assert_eq(expect_event(first, DFI_JOINED, 0), 0);
	expect_numbers(first, 0, 3 * SEGMENT + 1);
	expect_end(first, 0);
	at = expect_event(late, DFI_JOINED, 0);
	cr_assert_eq(at, 2 * SEGMENT);
	expect_numbers(late, at, 3 * SEGMENT + 1);
	expect_end(late, 0);
}

/* What is behind a mark comes behind it, also to one who joins between. */
Test(open_replicate, a_target_that_joins_gets_the_mark_first)
{
	struct dfi_target *first, *late;
	struct dfi_event event;
	struct dfi_source *s;
	const void *tuple;

	create(DFI_ON_LOSS_DROP);
	first = target(0);
	s = source_with_events(0, 0);
	await_targets(s, 1);
	cr_assert_eq(dfi_source_mark(s, 5), 0, "%s", dfi_errmsg());
	push_numbers(s, 0, 3);
	late = target(1);
	await_targets(s, 1);
	flush(s);
	expect_event(late, DFI_JOINED, 0);
	cr_assert_eq(
	    dfi_target_consume(late, &tuple), -ENOMSG, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_event(late, &event), 0);
	cr_assert_eq(event.type, DFI_MARK);
	cr_assert_eq(event.value, 5);
	expect_numbers(late, 0, 3);
	dfi_source_abort(s);
	dfi_source_close(s);
	close_target(late);
	close_target(first);
}

/* An idle source that flushes tells a new target where it begins. */
Test(open_replicate, a_target_that_joins_an_idle_source_knows_as_well)
{
	struct dfi_target *first, *late;
	struct dfi_source *s;

	create(DFI_ON_LOSS_FAIL);
	first = target(0);
	s = source_with_events(3, 0);
	await_targets(s, 1);
	push_numbers(s, 0, 5);
	flush(s);
	late = target(1);
	await_targets(s, 1);
	cr_assert_eq(expect_event(late, DFI_JOINED, 3), 5);
	close_source(s);
	finish();
	expect_end(late, 3);
	expect_event(first, DFI_JOINED, 3);
	expect_numbers(first, 0, 5);
	expect_end(first, 3);
}

/* Each source counts its own tuples, from 0 in each stay in a seat. */
Test(open_replicate, sources_join_and_leave)
{
	struct dfi_source *a, *b;
	struct dfi_target *t;
	uint64_t i;

	create(DFI_ON_LOSS_FAIL);
	t = target(0);
	a = source(0);
	push_numbers(a, 0, 3);
	flush(a);
	cr_assert_eq(expect_event(t, DFI_JOINED, 0), 0);
	expect_numbers(t, 0, 3);
	for (i = 0; i < 5; i++) {
		b = source(1);
		push_numbers(b, 100, 100 + SEGMENT * 2);
		close_source(b);
		cr_assert_eq(expect_event(t, DFI_JOINED, 1), 0);
		expect_numbers(t, 100, 100 + SEGMENT * 2);
		expect_event(t, DFI_ENDED, 1);
	}
	push_numbers(a, 3, 6);
	close_source(a);
	finish();
	expect_numbers(t, 3, 6);
	expect_end(t, 0);
}

Test(open_replicate, a_target_that_has_all_leaves_without_harm)
{
	struct dfi_target *stays, *leaves;
	struct dfi_source *s;
	uint64_t dropped;

	create(DFI_ON_LOSS_FAIL);
	stays = target(0);
	leaves = target(1);
	s = source_with_events(0, 0);
	await_targets(s, 2);
	push_numbers(s, 0, 5);
	flush(s);
	expect_event(leaves, DFI_JOINED, 0);
	expect_numbers(leaves, 0, 5);
	close_target(leaves);
	await_events(s, DFI_ENDED, 1);
	push_numbers(s, 5, 5 * SEGMENT);
	/* It returns to its seat, and knows where it goes on. */
	leaves = target(1);
	await_targets(s, 1);
	push_numbers(s, 5 * SEGMENT, 6 * SEGMENT);
	cr_assert_eq(dfi_source_dropped(s, &dropped), 0);
	cr_assert_eq(dropped, 0);
	close_source(s);
	finish();
	expect_event(stays, DFI_JOINED, 0);
	expect_numbers(stays, 0, 6 * SEGMENT);
	expect_end(stays, 0);
	cr_assert_eq(expect_event(leaves, DFI_JOINED, 0), 5 + 4 * SEGMENT);
	expect_numbers(leaves, 5 + 4 * SEGMENT, 6 * SEGMENT);
	expect_end(leaves, 0);
}

/* Push until it fails, which it must. */
static int push_until_error(struct dfi_source *source)
{
	struct kv kv = numbered_kv(1);
	int ret;

	do
		ret = dfi_source_push(source, &kv);
	while (!ret);
	return ret;
}

Test(open_replicate, a_target_that_leaves_tuples_fails_its_sources)
{
	struct dfi_target *t;
	struct dfi_source *s;

	create(DFI_ON_LOSS_FAIL);
	t = target(0);
	s = source(0);
	push_numbers(s, 0, 1);
	flush(s);
	close_target(t);
	assert_error(push_until_error(s), -ECONNRESET, "flow 'f'", "target 0");
	assert_error(dfi_source_close(s), -ECONNRESET, "target 0");
}

Test(open_replicate, what_a_target_leaves_is_dropped_and_counted)
{
	struct dfi_target *stays, *leaves;
	struct dfi_source *s;
	uint64_t dropped, i = 4 * SEGMENT;
	int64_t until = now_ms() + LONG_MS;

	create(DFI_ON_LOSS_DROP);
	stays = target(0);
	leaves = target(1);
	s = source_with_events(0, 0);
	await_targets(s, 2);
	push_numbers(s, 0, i);
	expect_event(leaves, DFI_JOINED, 0);
	expect_numbers(leaves, 0, 1);
	close_target(leaves);
	expect_event(stays, DFI_JOINED, 0);
	expect_numbers(stays, 0, i);
	do {
		push_numbers(s, i, i + SEGMENT);
		expect_numbers(stays, i, i + SEGMENT);
		i += SEGMENT;
		cr_assert_eq(dfi_source_dropped(s, &dropped), 0);
	} while (!dropped && now_ms() < until);
	cr_assert_geq(dropped, 3 * SEGMENT);
	close_source(s);
	finish();
	expect_end(stays, 0);
}

/* The lane's tuples go to the first who comes, and to nobody else. */
Test(open_replicate, tuples_wait_while_nobody_is_there)
{
	struct dfi_target *t;
	struct dfi_source *s;
	struct kv kv = numbered_kv(0);
	uint64_t i = 0;
	int ret;

	create(DFI_ON_LOSS_FAIL);
	t = target(0);
	s = source_with_events(0, DFI_NONBLOCK);
	await_targets(s, 1);
	flush(s);
	expect_event(t, DFI_JOINED, 0);
	close_target(t);
	await_events(s, DFI_ENDED, 1);
	/* A segment waits, and the next tuple finds no room. */
	do {
		kv = numbered_kv(i);
		ret = dfi_source_push(s, &kv);
		i += !ret;
	} while (!ret);
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
	cr_assert_eq(i, SEGMENT);
	flush(s);
	t = target(1);
	await_targets(s, 1);
	kv = numbered_kv(i);
	cr_assert_eq(push_soon(s, &kv), 0);
	close_source(s);
	finish();
	cr_assert_eq(expect_event(t, DFI_JOINED, 0), 0);
	expect_numbers(t, 0, i + 1);
	expect_end(t, 0);
}

Test(open_replicate, the_last_tuples_must_go_to_somebody)
{
	struct dfi_target *t;
	struct dfi_source *s;
	uint64_t dropped = 0;

	create(DFI_ON_LOSS_FAIL);
	t = target(0);
	s = source_with_events(0, 0);
	await_targets(s, 1);
	/* So that its lane is open. */
	flush(s);
	close_target(t);
	await_events(s, DFI_ENDED, 1);
	push_numbers(s, 0, 3);
	cr_assert_eq(dfi_source_dropped(s, &dropped), 0);
	cr_assert_eq(dropped, 0);
	assert_error(dfi_source_close(s), -ECONNRESET, "no target",
	    "3 tuples went to nobody");
}

Test(open_replicate, an_aborted_source_is_lost)
{
	struct dfi_source *s;
	struct dfi_target *t;

	create(DFI_ON_LOSS_DROP);
	t = target(0);
	s = source(1);
	push_numbers(s, 0, 2);
	flush(s);
	/* A datagram that is lost is not sent again behind the abort. */
	expect_event(t, DFI_JOINED, 1);
	expect_numbers(t, 0, 1);
	dfi_source_abort(s);
	cr_assert_eq(dfi_source_close(s), -ECANCELED);
	expect_numbers(t, 1, 2);
	expect_event(t, DFI_LOST, 1);
	finish();
	end_target(t);
}

/* Spans, cursors and batches name all targets, as in a closed flow. */
Test(open_replicate, calls_name_all_targets)
{
	struct kv kvs[SEGMENT];
	struct dfi_source *s;
	struct dfi_target *t;
	struct dfi_span span;
	uint32_t i;

	create(DFI_ON_LOSS_FAIL);
	t = target(0);
	s = source(0);
	cr_assert_eq(dfi_source_claim_n(s, DFI_ALL_TARGETS, 2, &span), 0, "%s",
	    dfi_errmsg());
	for (i = 0; i < 2; i++)
		((struct kv *)span.tuples)[i] = numbered_kv(i);
	cr_assert_eq(dfi_source_commit(s, &span, 2), 0);
	for (i = 0; i < SEGMENT; i++)
		kvs[i] = numbered_kv(2 + i);
	cr_assert_eq(dfi_source_push_batch_to(s, DFI_ALL_TARGETS, kvs, SEGMENT),
	    SEGMENT);
	assert_error(dfi_source_push_to(s, 0, &kvs[0]), -ERANGE, "target 0",
	    "DFI_ALL_TARGETS");
	push_numbers(s, 2 + SEGMENT, 3 * SEGMENT);
	close_source(s);
	finish();
	expect_event(t, DFI_JOINED, 0);
	expect_numbers(t, 0, 3 * SEGMENT);
	expect_end(t, 0);
}

enum {
	TUPLES = 3000
};

struct follower {
	pthread_t thread;
	_Atomic uint64_t n;
	bool wrong;
};

static void fail_thread(void)
{
	fprintf(stderr, "%s\n", dfi_errmsg());
	abort();
}

/* Join, consume some tuples, leave; again, until the source has ended. */
static void *follow_often(void *arg)
{
	struct follower *follower = arg;
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *t;
	struct dfi_event event;
	const struct kv *kv;
	const void *tuple;
	uint64_t next = 0;
	bool ended = false;
	uint32_t i;
	int ret;

	attr.flags = DFI_EVENTS;
	while (!ended) {
		if (dfi_target_open(rig.other, "f", DFI_ANY_SEAT, &attr, &t))
			fail_thread();
		for (i = 0; i < 300 && !ended; i++) {
			ret = dfi_target_consume(t, &tuple);
			if (ret == -ENOMSG) {
				if (dfi_target_event(t, &event) < 0)
					fail_thread();
				next = event.value;
				continue;
			}
			if (ret < 0)
				fail_thread();
			ended = !ret;
			kv = tuple;
			follower->wrong |= ret && kv->val != next++;
			follower->n += (uint64_t)ret;
		}
		if (dfi_target_close(t) < 0)
			fail_thread();
	}
	return NULL;
}

Test(open_replicate, followers_come_and_go_and_miss_nothing_between)
{
	struct follower followers[2] = { 0 };
	struct dfi_source *s;
	struct dfi_target *stays;
	uint64_t i;

	create(DFI_ON_LOSS_DROP);
	stays = target(0);
	s = source_with_events(0, 0);
	await_targets(s, 1);
	expect_event(stays, DFI_JOINED, 0);
	for (i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&followers[i].thread, NULL,
				 follow_often, &followers[i]),
		    0);
	for (i = 0; i < fewer(TUPLES) || followers[0].n < 10; i++) {
		push_number(s, i);
		if (i % SEGMENT == SEGMENT - 1)
			expect_numbers(stays, i - i % SEGMENT, i + 1);
	}
	flush(s);
	expect_numbers(stays, i - i % SEGMENT, i);
	finish();
	close_source(s);
	for (i = 0; i < 2; i++) {
		pthread_join(followers[i].thread, NULL);
		cr_assert(!followers[i].wrong);
	}
	expect_end(stays, 0);
}

Test(open_replicate, checksums_cover_where_it_begins)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);
	struct dfi_source *s;
	struct dfi_target *t;

	attr.verify = DFI_VERIFY_CHECKSUM;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	t = target(0);
	s = source(0);
	push_numbers(s, 0, SEGMENT + 1);
	close_source(s);
	finish();
	cr_assert_eq(expect_event(t, DFI_JOINED, 0), 0);
	expect_numbers(t, 0, SEGMENT + 1);
	expect_end(t, 0);
}

/* ---- Eviction ------------------------------------------------------------ */

#define EVICT_MS 50

static void create_evicting(uint32_t after_ms)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);

	attr.open.evict_after_ms = after_ms;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

/*
 * Push so much that a target which takes nothing holds up the source; another
 * one takes all. Returns the next number.
 */
static uint64_t push_beside(
    struct dfi_source *source, struct dfi_target *takes, uint64_t first)
{
	uint64_t i;

	for (i = first; i < first + 2 * (uint64_t)SEGMENT * RING;
	     i += SEGMENT) {
		push_numbers(source, i, i + SEGMENT);
		flush(source);
		expect_numbers(takes, i, i + SEGMENT);
	}
	return i;
}

/* Consume what has come of a source, up to an error or the end. */
static int consume_rest(struct dfi_target *target, uint64_t *next)
{
	struct dfi_event event;
	const void *tuple;
	int ret;

	while (
	    (ret = dfi_target_consume(target, &tuple)) == 1 || ret == -ENOMSG) {
		if (ret == 1)
			cr_assert_eq(
			    ((const struct kv *)tuple)->val, (*next)++);
		else
			cr_assert_eq(dfi_target_event(target, &event), 0);
	}
	return ret;
}

static int skip_member(void *arg, const struct dfi_member_info *info)
{
	(void)arg;
	(void)info;
	return 0;
}

/*
 * A ring may tell its target that it is evicted before the registry tells by
 * whom. An answer of the registry comes behind the news that it had.
 */
static void await_news(struct dfi *dfi)
{
	cr_assert_eq(dfi_member_list(dfi, "f", skip_member, NULL), 0, "%s",
	    dfi_errmsg());
}

Test(open_replicate, a_target_that_takes_nothing_is_evicted)
{
	struct dfi_target *takes, *idle;
	uint64_t n, dropped, next = 0;
	struct dfi_source *s;

	create_evicting(EVICT_MS);
	takes = target(0);
	idle = target(1);
	s = source_with_events(2, 0);
	await_targets(s, 2);
	flush(s);
	expect_event(takes, DFI_JOINED, 2);
	n = push_beside(s, takes, 0);
	await_events(s, DFI_EVICTED, 1);
	cr_assert_eq(dfi_source_dropped(s, &dropped), 0);
	cr_assert_gt(dropped, 0);
	await_news(rig.other);
	assert_error(consume_rest(idle, &next), -ESTALE, "target 1",
	    "evicted by source 2", "50 ms", "open it again");
	cr_assert_lt(next, n);
	/* The error is sticky, and the seat is free. */
	assert_error(consume_rest(idle, &next), -ESTALE, "evicted by source 2");
	cr_assert_eq(dfi_target_close(idle), -ESTALE);
	idle = target(1);
	await_targets(s, 1);
	push_numbers(s, n, n + 3);
	close_source(s);
	finish();
	expect_numbers(takes, n, n + 3);
	expect_end(takes, 2);
	cr_assert_eq(expect_event(idle, DFI_JOINED, 2), n);
	expect_numbers(idle, n, n + 3);
	expect_end(idle, 2);
}

/* An eviction that no call has told does not change what the close returns. */
Test(open_replicate, an_evicted_target_that_aborts_ends_as_aborted)
{
	struct dfi_event event;
	struct dfi_target *takes, *idle;
	const void *tuple;
	struct dfi_source *s;
	uint64_t next;

	create_evicting(EVICT_MS);
	takes = target(0);
	idle = target(1);
	s = source_with_events(2, 0);
	await_targets(s, 2);
	flush(s);
	expect_event(takes, DFI_JOINED, 2);
	push_beside(s, takes, 0);
	await_events(s, DFI_EVICTED, 1);
	while (dfi_target_consume(idle, &tuple) == -ENOMSG)
		cr_assert_eq(dfi_target_event(idle, &event), 0);
	dfi_target_abort(idle);
	/* It has the first tuple. */
	next = 1;
	assert_error(consume_rest(idle, &next), -ECANCELED, "target 1",
	    "dfi_target_abort");
	cr_assert_eq(dfi_target_close(idle), -ECANCELED);
	close_source(s);
	finish();
	expect_end(takes, 2);
}

/* It opens its seat again in the same context, and closes the old handle. */
Test(open_replicate, an_evicted_handle_leaves_the_next_holder_alone)
{
	struct dfi_target *takes, *idle, *again;
	struct dfi_source *s;
	uint64_t n;

	create_evicting(EVICT_MS);
	takes = target(0);
	idle = target(1);
	s = source_with_events(0, 0);
	await_targets(s, 2);
	flush(s);
	expect_event(takes, DFI_JOINED, 0);
	n = push_beside(s, takes, 0);
	await_events(s, DFI_EVICTED, 1);
	again = target(1);
	await_targets(s, 1);
	cr_assert_eq(consume_rest(idle, &(uint64_t){ 0 }), -ESTALE);
	cr_assert_eq(dfi_target_close(idle), -ESTALE);
	push_numbers(s, n, n + 5);
	flush(s);
	cr_assert_eq(expect_event(again, DFI_JOINED, 0), n);
	expect_numbers(again, n, n + 5);
	expect_numbers(takes, n, n + 5);
	close_source(s);
	finish();
	expect_end(takes, 0);
	expect_end(again, 0);
}

/* What was lent stays as it is, whatever the source and the next holder do. */
Test(open_replicate, what_an_evicted_target_was_lent_stays)
{
	struct dfi_target *takes, *idle, *again;
	struct dfi_batch batch = { .count = 0 };
	struct dfi_source *s;
	uint64_t n, next = SEGMENT;
	uint32_t i;

	create_evicting(EVICT_MS);
	takes = target(0);
	idle = target(1);
	s = source_with_events(0, 0);
	await_targets(s, 2);
	push_numbers(s, 0, SEGMENT);
	flush(s);
	expect_event(takes, DFI_JOINED, 0);
	expect_event(idle, DFI_JOINED, 0);
	expect_numbers(takes, 0, SEGMENT);
	cr_assert_gt(dfi_target_consume_batch(idle, &batch), 0);
	cr_assert_eq(batch.count, SEGMENT);
	n = push_beside(s, takes, SEGMENT);
	await_events(s, DFI_EVICTED, 1);
	again = target(1);
	await_targets(s, 1);
	for (; n < 8 * SEGMENT * RING; n += SEGMENT) {
		push_numbers(s, n, n + SEGMENT);
		flush(s);
		expect_numbers(takes, n, n + SEGMENT);
	}
	for (i = 0; i < SEGMENT; i++)
		cr_assert_eq(((const struct kv *)batch.tuples)[i].val, i);
	dfi_target_release(idle, &batch);
	cr_assert_eq(consume_rest(idle, &next), -ESTALE);
	cr_assert_eq(dfi_target_close(idle), -ESTALE);
	close_source(s);
	finish();
	expect_end(takes, 0);
	cr_assert_eq(dfi_target_close(again), 0, "%s", dfi_errmsg());
}

/* Each source hears of it, and none takes it for an end. */
Test(open_replicate, all_sources_hear_of_an_eviction)
{
	struct dfi_target *takes, *idle;
	struct dfi_source *a, *b;
	uint64_t next = 0;

	create_evicting(EVICT_MS);
	takes = open_target(rig.other, "f", 0, 0);
	idle = target(1);
	a = source_with_events(0, 0);
	b = source_with_events(1, 0);
	await_targets(a, 2);
	await_targets(b, 2);
	push_beside(a, takes, 0);
	await_events(a, DFI_EVICTED, 1);
	await_events(b, DFI_EVICTED, 1);
	close_source(a);
	close_source(b);
	/* All has ended, but not for one who was evicted before. */
	finish();
	cr_assert_eq(consume_rest(idle, &next), -ESTALE, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(idle), -ESTALE);
	end_target(takes);
}

/* Its descriptor tells a source that does not block when to try again. */
Test(open_replicate, a_source_that_polls_evicts_as_well)
{
	struct dfi_target *takes, *idle;
	struct dfi_source *s;
	struct kv kv;
	uint64_t i, next = 0;

	create_evicting(EVICT_MS);
	takes = target(0);
	idle = target(1);
	s = source_with_events(0, DFI_NONBLOCK);
	await_targets(s, 2);
	flush(s);
	expect_event(takes, DFI_JOINED, 0);
	for (i = 0; i < 2 * SEGMENT * RING; i++) {
		kv = numbered_kv(i);
		cr_assert_eq(push_soon(s, &kv), 0, "%s", dfi_errmsg());
		if (i % SEGMENT == SEGMENT - 1)
			expect_numbers(takes, i + 1 - SEGMENT, i + 1);
	}
	await_events(s, DFI_EVICTED, 1);
	cr_assert_eq(consume_rest(idle, &next), -ESTALE);
	cr_assert_eq(dfi_target_close(idle), -ESTALE);
	close_source(s);
	finish();
	expect_end(takes, 0);
}

static void *consume_slowly(void *arg)
{
	struct dfi_target *target = arg;
	uint64_t next = 0;

	while (next < 2 * SEGMENT * RING) {
		expect_number(target, next++);
		yield_times(100);
	}
	return NULL;
}

Test(open_replicate, a_slow_target_that_takes_in_time_stays)
{
	struct dfi_event event;
	struct dfi_target *slow;
	struct dfi_source *s;
	pthread_t thread;

	create_evicting(LONG_MS);
	slow = target(0);
	s = source_with_events(0, 0);
	await_targets(s, 1);
	flush(s);
	expect_event(slow, DFI_JOINED, 0);
	cr_assert_eq(pthread_create(&thread, NULL, consume_slowly, slow), 0);
	push_numbers(s, 0, 2 * SEGMENT * RING);
	pthread_join(thread, NULL);
	cr_assert_eq(dfi_source_event(s, &event), -EAGAIN);
	close_source(s);
	finish();
	expect_end(slow, 0);
}

#ifndef DFI_DATAGRAMS_ONLY /* unit.test_open_multicast */
/* In a shuffle flow the source goes on with the tuples of others. */
Test(open_replicate, targets_of_shuffle_flows_are_evicted)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct kv kv = numbered_kv(7);
	struct dfi_target *takes, *idle;
	struct dfi_source *s;
	uint64_t next = 7;
	int ret;

	attr.kind = DFI_SHUFFLE;
	attr.replicate.method = 0;
	attr.routing = DFI_ROUTE_DIRECT;
	attr.open.evict_after_ms = EVICT_MS;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	takes = target(0);
	idle = target(1);
	s = source_with_events(0, 0);
	await_targets(s, 2);
	do
		ret = dfi_source_push_to(s, 1, &kv);
	while (!ret);
	cr_assert_eq(ret, -ENXIO, "%s", dfi_errmsg());
	await_events(s, DFI_EVICTED, 1);
	cr_assert_eq(dfi_source_push_to(s, 0, &kv), 0, "%s", dfi_errmsg());
	close_source(s);
	finish();
	expect_event(takes, DFI_JOINED, 0);
	expect_number(takes, 7);
	expect_end(takes, 0);
	cr_assert_eq(expect_event(idle, DFI_JOINED, 0), 0);
	expect_number(idle, next);
	do
		ret = dfi_target_consume(idle, &(const void *){ NULL });
	while (ret == 1 ||
	    (ret == -ENOMSG &&
		!dfi_target_event(idle, &(struct dfi_event){ 0 })));
	assert_error(ret, -ESTALE, "target 1", "evicted");
	cr_assert_eq(dfi_target_close(idle), -ESTALE);
}

#endif

#define refuse(err, change, ...)                                         \
	do {                                                             \
		struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL); \
                                                                         \
		attr.replicate.method = 0;                               \
		change;                                                  \
		assert_error(dfi_flow_create(rig.dfi, "g", &attr), err,  \
		    "flow 'g'", __VA_ARGS__);                            \
	} while (0)

Test(open_replicate, what_is_not_there_is_refused)
{
	refuse(-EINVAL,
	    (attr.transport = DFI_TRANSPORT_SHM, attr.replicate.ordered = 1,
		attr.open.on_loss = DFI_ON_LOSS_REPLAY),
	    "replicate.ordered", "DFI_ON_LOSS_DROP or DFI_ON_LOSS_FAIL");
	/* The same where the counter of a view is reached over a network. */
	refuse(-EINVAL,
	    (attr.transport = DFI_TRANSPORT_OFI, attr.replicate.ordered = 1,
		attr.open.on_loss = DFI_ON_LOSS_REPLAY),
	    "replicate.ordered", "DFI_ON_LOSS_DROP or DFI_ON_LOSS_FAIL");
	refuse(-EINVAL,
	    (attr.transport = DFI_TRANSPORT_SHM, attr.replicate.ordered = 1,
		attr.open.on_loss = DFI_ON_LOSS_DROP, attr.n_targets = 1001),
	    "replicate.ordered", "at most 1000 seats");
	refuse(-EOPNOTSUPP,
	    (attr.transport = DFI_TRANSPORT_SHM, attr.replicate.ordered = 1,
		attr.open.on_loss = DFI_ON_LOSS_DROP,
		attr.replicate.method = DFI_REPLICATION_MULTICAST),
	    "DFI_REPLICATION_NAIVE");
	refuse(-EINVAL, (attr.routing = DFI_ROUTE_DIRECT, attr.n_targets = 65),
	    "targets");
	refuse(-EINVAL, attr.segment_count = 2, "segment_count 2");
	refuse(-EOPNOTSUPP, attr.open.on_loss = DFI_ON_LOSS_REPLAY,
	    "DFI_ON_LOSS_DROP");
	refuse(-EINVAL, attr.open.evict_after_ms = 100,
	    "open.evict_after_ms 100", "DFI_ON_LOSS_DROP");
	refuse(-EINVAL,
	    (attr.open.membership = 0, attr.open.evict_after_ms = 100),
	    "open.evict_after_ms", "DFI_MEMBERS_OPEN");
	refuse(-E2BIG, attr.open.reserved[0] = 1, "reserved");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of open flows that linger: partial segments are sent while the owner
 * stays away, also when partitions move and targets go. The owner is this
 * thread, which waits in the targets' calls meanwhile.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "flow_help.h"

#define LINGER_US 500
#define SEGMENT 16u /* tuples */
#define RING 8u     /* segments */
#define SEATS 3

static struct rig rig;
static struct dfi_source *source;
static struct dfi_target *targets[SEATS];
static uint64_t n_pushed, n_consumed;

static void setup(void)
{
	rig_start(&rig);
	n_pushed = n_consumed = 0;
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(open_linger, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_attr flow_attr(uint32_t routing, uint32_t on_loss)
{
	bool replays = on_loss == DFI_ON_LOSS_REPLAY;

	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = 1,
		.n_targets = SEATS,
		.routing = routing,
		.radix_bits = routing == DFI_ROUTE_RADIX ? 4 : 0,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.open = { .membership = DFI_MEMBERS_OPEN,
		    .on_loss = on_loss,
		    .partitions = routing == DFI_ROUTE_RADIX ? 16 : 0,
		    .input_position = replays ? "val" : NULL },
	};
}

static void create_with(const struct dfi_flow_attr *attr)
{
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

static void create(uint32_t routing, uint32_t on_loss)
{
	struct dfi_flow_attr attr = flow_attr(routing, on_loss);

	create_with(&attr);
}

static struct dfi_target *target_at(uint32_t seat)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.flags = DFI_EVENTS | DFI_NONBLOCK;
	cr_assert_eq(dfi_target_open(rig.other, "f", seat, &attr, &target), 0,
	    "%s", dfi_errmsg());
	return target;
}

static int try_source(struct dfi *dfi, uint32_t linger_us)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;

	attr.linger_us = linger_us;
	attr.stall_timeout_ms = attr.open_timeout_ms = LONG_MS;
	return dfi_source_open(dfi, "f", 0, &attr, &source);
}

static void open_source_with(uint32_t linger_us)
{
	cr_assert_eq(try_source(rig.dfi, linger_us), 0, "%s", dfi_errmsg());
}

static struct kv next_kv(void)
{
	n_pushed++;
	return (struct kv){ .key = n_pushed, .val = n_pushed };
}

static void push(uint32_t n)
{
	struct kv kv;

	for (; n > 0; n--) {
		kv = next_kv();
		cr_assert_eq(
		    dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
	}
}

static void push_batch(uint32_t n)
{
	struct kv kvs[2 * SEGMENT];
	uint32_t i;

	for (i = 0; i < n; i++)
		kvs[i] = next_kv();
	cr_assert_eq(
	    dfi_source_push_batch(source, kvs, n), (int)n, "%s", dfi_errmsg());
}

static void push_to(uint32_t n)
{
	struct kv kv;

	for (; n > 0; n--) {
		kv = next_kv();
		cr_assert_eq(dfi_source_push_to(
				 source, (uint32_t)(n_pushed % SEATS), &kv),
		    0, "%s", dfi_errmsg());
	}
}

/* What the application does of an event. */
static void take_event(struct dfi_target *target, bool replays)
{
	struct dfi_event event;

	cr_assert_eq(dfi_target_event(target, &event), 0, "%s", dfi_errmsg());
	if (event.type == DFI_GAINED && replays)
		cr_assert_eq(
		    dfi_partition_take(target, event.partition, NULL, 0), 0);
	if (event.type == DFI_LEAVING && replays)
		cr_assert_eq(dfi_target_ack(target), 0);
	if (event.type == DFI_LEAVING)
		cr_assert_eq(dfi_partition_release(target, event.partition), 0,
		    "%s", dfi_errmsg());
}

/* Consume what is there. -EAGAIN, or 0: the flow has ended for this target. */
static int consume(struct dfi_target *target, bool replays)
{
	struct dfi_batch batch;
	int ret;

	for (;;) {
		ret = dfi_target_consume_batch(target, &batch);
		if (ret == -ENOMSG) {
			take_event(target, replays);
		} else if (ret > 0) {
			n_consumed += (uint64_t)ret;
			dfi_target_release(target, &batch);
		} else {
			cr_assert(
			    ret == 0 || ret == -EAGAIN, "%s", dfi_errmsg());
			/* Partial segments fill a ring soon. */
			if (replays)
				cr_assert_eq(dfi_target_ack(target), 0);
			return ret;
		}
	}
}

static void consume_all(bool replays)
{
	int64_t until = now_ms() + LONG_MS;
	uint32_t i;

	while (n_consumed < n_pushed) {
		for (i = 0; i < SEATS; i++)
			if (targets[i])
				(void)consume(targets[i], replays);
		cr_assert_lt(now_ms(), until, "%lu of %lu came",
		    (unsigned long)n_consumed, (unsigned long)n_pushed);
		yield_times(1);
	}
	cr_assert_eq(n_consumed, n_pushed);
}

static void *close_it(void *arg)
{
	return dfi_source_close(arg) ? arg : NULL;
}

/* The source, and then the targets. */
static void close_all(bool replays)
{
	int64_t until = now_ms() + LONG_MS;
	pthread_t thread;
	void *failed;
	uint32_t i;

	cr_assert_eq(pthread_create(&thread, NULL, close_it, source), 0);
	while (pthread_tryjoin_np(thread, &failed)) {
		for (i = 0; i < SEATS; i++) {
			if (!targets[i])
				continue;
			(void)consume(targets[i], replays);
		}
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
	cr_assert_null(failed);
	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0, "%s", dfi_errmsg());
	for (i = 0; i < SEATS; i++) {
		while (targets[i] && consume(targets[i], replays) != 0) {
			cr_assert_lt(now_ms(), until);
			yield_times(1);
		}
		cr_assert_eq(dfi_target_close(targets[i]), 0);
	}
}

/* Rounds until memory was used again several times, and at any point of it. */
static void linger_by(
    uint32_t routing, uint32_t on_loss, void (*send)(uint32_t n))
{
	struct dfi_flow_attr attr = flow_attr(routing, on_loss);
	bool replays = on_loss == DFI_ON_LOSS_REPLAY;
	struct dfi_source_stats stats;
	uint32_t i, round;

	attr.open.min_targets = SEATS;
	create_with(&attr);
	for (i = 0; i < SEATS; i++)
		targets[i] = target_at(i);
	open_source_with(LINGER_US);
	for (round = 0; round < 2 * SEGMENT; round++) {
		send(1 + round * 7 % 20);
		consume_all(replays);
	}
	send(SEGMENT - 1);
	consume_all(replays);
	dfi_source_query(source, &stats);
	cr_assert_eq(stats.tuples, n_pushed);
	cr_assert_gt(stats.partial_segments, 0);
	close_all(replays);
	cr_assert_eq(n_consumed, n_pushed);
}

Test(open_linger, sends_what_was_pushed_by_a_key)
{
	linger_by(DFI_ROUTE_HASH, DFI_ON_LOSS_DROP, push);
}

Test(open_linger, sends_batches)
{
	linger_by(DFI_ROUTE_RADIX, DFI_ON_LOSS_FAIL, push_batch);
}

Test(open_linger, sends_with_replay)
{
	linger_by(DFI_ROUTE_HASH, DFI_ON_LOSS_REPLAY, push);
}

Test(open_linger, sends_with_replay_and_without_keys)
{
	linger_by(DFI_ROUTE_ANY, DFI_ON_LOSS_REPLAY, push_batch);
}

Test(open_linger, sends_with_replay_to_seats)
{
	linger_by(DFI_ROUTE_DIRECT, DFI_ON_LOSS_REPLAY, push_to);
}

/* Partitions move at any time; all tuples come, without a flush. */
Test(open_linger, sends_while_partitions_move)
{
	int64_t until;
	uint32_t i;

	create(DFI_ROUTE_HASH, DFI_ON_LOSS_DROP);
	targets[0] = target_at(0);
	open_source_with(LINGER_US);
	for (i = 0; i < 3; i++) {
		push(5);
		targets[1 + i % 2] = target_at(1 + i % 2);
		push(5);
		consume_all(false);
		cr_assert_eq(dfi_target_leave(targets[1 + i % 2]), 0, "%s",
		    dfi_errmsg());
		push(5);
		until = now_ms() + LONG_MS;
		while (consume(targets[1 + i % 2], false) != 0) {
			(void)consume(targets[0], false);
			cr_assert_lt(now_ms(), until);
			yield_times(1);
		}
		cr_assert_eq(dfi_target_close(targets[1 + i % 2]), 0);
		targets[1 + i % 2] = NULL;
		consume_all(false);
	}
	close_all(false);
}

/* A target goes while its segment waits: what it leaves is dropped. */
Test(open_linger, sends_to_the_next_owner_when_a_target_is_gone)
{
	int64_t until = now_ms() + LONG_MS;
	uint64_t dropped = 0;

	create(DFI_ROUTE_HASH, DFI_ON_LOSS_DROP);
	targets[0] = target_at(0);
	open_source_with(50 * 1000);
	push(1);
	consume_all(false);
	push(3);
	cr_assert_eq(dfi_target_cancel(targets[0]), 0, "%s", dfi_errmsg());
	targets[1] = target_at(1);
	/* The second may wait for the next owner, and it may not. */
	push(3);
	while (n_consumed + dropped < n_pushed) {
		(void)consume(targets[1], false);
		cr_assert_eq(dfi_source_dropped(source, &dropped), 0);
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
	/* Over a network this is an upper bound. */
	cr_assert(over_network() || n_consumed + dropped == n_pushed);
	cr_assert_eq(dfi_target_close(targets[0]), 0, "%s", dfi_errmsg());
	targets[0] = NULL;
	close_all(false);
}

/* Nothing is sent before its time. */
Test(open_linger, waits_until_it_is_due)
{
	struct dfi_source_stats stats;

	create(DFI_ROUTE_HASH, DFI_ON_LOSS_DROP);
	targets[0] = target_at(0);
	open_source_with(UINT32_MAX - 1);
	while (n_consumed < 1) {
		if (!n_pushed)
			push(1);
		cr_assert_eq(dfi_source_flush(source), 0);
		(void)consume(targets[0], false);
	}
	push(SEGMENT - 1);
	yield_times(1000);
	dfi_source_query(source, &stats);
	cr_assert_eq(stats.tuples, 1);
	close_all(false);
	cr_assert_eq(n_consumed, n_pushed);
}

Test(open_linger, a_flow_for_latency_sends_each_tuple_at_once)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ROUTE_HASH, DFI_ON_LOSS_DROP);

	attr.goal = DFI_LATENCY;
	attr.segment_size = 0;
	create_with(&attr);
	targets[0] = target_at(0);
	open_source_with(LINGER_US);
	push(5);
	consume_all(false);
	close_all(false);
}

/* For a whole process, where it can be; elsewhere it must be refused. */
Test(open_linger, can_be_set_for_all)
{
	struct dfi *dfi;

	setenv("DFI_LINGER_US", "500", 1);
	dfi = rig_join(&rig);
	unsetenv("DFI_LINGER_US");
	create(DFI_ROUTE_HASH, DFI_ON_LOSS_DROP);
	targets[0] = target_at(0);
	cr_assert_eq(try_source(dfi, 0), 0, "%s", dfi_errmsg());
	push(1);
	consume_all(false);
	close_all(false);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0, "%s", dfi_errmsg());
	create(DFI_ROUTE_ANY, DFI_ON_LOSS_DROP);
	assert_error(try_source(dfi, 0), -EOPNOTSUPP, "DFI_NO_LINGER",
	    "DFI_LINGER_US", "flush");
	assert_error(
	    try_source(rig.dfi, LINGER_US), -EOPNOTSUPP, "linger_us", "keys");
	targets[0] = target_at(0);
	cr_assert_eq(try_source(dfi, DFI_NO_LINGER), 0, "%s", dfi_errmsg());
	close_all(false);
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open flows that route by keys: partitions move as targets come and go, in
 * order, and each has one owner at a time. Rules H1 to H8 of
 * docs/open-flows.md.
 */
#include <criterion/criterion.h>
#include <dfi/mark.h>
#include <dfi/stats.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "flow_help.h"

#define SEATS 4
#define SEGMENT 8 /* tuples */
#define RING 8    /* segments */
#define PARTITIONS 32u
#define KEYS 128u

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(keyed, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_attr flow_attr(uint32_t on_loss)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.open = {
			.membership = DFI_MEMBERS_OPEN,
			.on_loss = on_loss,
			.partitions = PARTITIONS,
		},
	};
}

static void create(uint32_t on_loss)
{
	struct dfi_flow_attr attr = flow_attr(on_loss);

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

static void finish(void)
{
	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0, "%s", dfi_errmsg());
}

static void close_source(struct dfi_source *source)
{
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
}

static void push(struct dfi_source *source, uint64_t key, uint64_t val)
{
	struct kv kv = { key, val };

	cr_assert_eq(dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
}

static struct dfi_target *target_with_events(uint32_t seat, uint32_t flags)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.flags = DFI_EVENTS | flags;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(rig.other, "f", seat, &attr, &target), 0,
	    "%s", dfi_errmsg());
	return target;
}

/* Take events of partitions until n of a type have come. */
static void expect_partitions(
    struct dfi_target *target, uint32_t type, uint32_t n, bool *which)
{
	int64_t until = now_ms() + LONG_MS;
	struct dfi_event event;
	int ret;

	while (n) {
		ret = dfi_target_event(target, &event);
		cr_assert(ret == 0 || ret == -EAGAIN, "%s", dfi_errmsg());
		cr_assert(now_ms() < until, "%u are missing", n);
		if (ret)
			yield_times(1);
		if (ret || event.type == DFI_JOINED || event.type == DFI_ENDED)
			continue;
		cr_assert_eq(event.type, type);
		cr_assert_lt(event.partition, PARTITIONS);
		if (which)
			which[event.partition] = true;
		n--;
	}
}

Test(keyed, tuples_of_a_key_stay_together)
{
	uint32_t i, n = 0, split = 0, at[KEYS] = { 0 };
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);
	struct dfi_target *targets[2];
	struct dfi_source *s;
	const void *tuple;

	attr.open.min_targets = 2;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	targets[0] = open_target(rig.other, "f", 0, 0);
	targets[1] = open_target(rig.other, "f", 3, 0);
	s = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < KEYS / 2; i++)
		push(s, i % (KEYS / 4), i);
	finish();
	close_source(s);
	for (i = 0; i < 2; i++)
		while (dfi_target_consume(targets[i], &tuple) == 1) {
			const struct kv *kv = tuple;

			n++;
			split += at[kv->key] && at[kv->key] != i + 1;
			at[kv->key] = i + 1;
		}
	cr_assert_eq(n, KEYS / 2);
	cr_assert_eq(split, 0);
	end_target(targets[0]);
	end_target(targets[1]);
}

/* Consume n tuples; a source may join meanwhile. */
static void consume_with_events(struct dfi_target *target, uint32_t n)
{
	int64_t until = now_ms() + LONG_MS;
	struct dfi_event event;
	const void *tuple;
	int ret;

	while (n) {
		cr_assert(now_ms() < until, "%u are missing", n);
		ret = dfi_target_consume(target, &tuple);
		n -= ret == 1;
		if (ret != -ENOMSG)
			continue;
		cr_assert_eq(dfi_target_event(target, &event), 0);
		cr_assert_eq(event.type, DFI_JOINED);
	}
}

Test(keyed, a_target_that_joins_gets_its_share)
{
	int64_t until = now_ms() + LONG_MS;
	bool gained[PARTITIONS] = { false }, left[PARTITIONS] = { false };
	struct dfi_target *first, *second;
	struct dfi_source *s;
	const struct kv *kv;
	const void *tuple;
	uint32_t p, n = 0;
	uint64_t key;
	int ret;

	create(DFI_ON_LOSS_FAIL);
	first = target_with_events(0, DFI_NONBLOCK);
	expect_partitions(first, DFI_GAINED, PARTITIONS, NULL);
	s = open_source(rig.dfi, "f", 0, 0);
	/* It may not know yet that the target has taken its partitions. */
	for (key = 0; key < KEYS / 4; key++)
		push(s, key, 0);
	cr_assert_eq(dfi_source_flush(s), 0);
	consume_with_events(first, KEYS / 4);
	for (key = 0; key < KEYS / 4; key++)
		push(s, key, 1);
	second = target_with_events(1, DFI_NONBLOCK);
	/* The source is idle: its helper sends what it has, and the mark. */
	consume_with_events(first, KEYS / 4);
	while (dfi_target_consume(first, &tuple) == -EAGAIN) {
		cr_assert(now_ms() < until);
		yield_times(1);
	}
	expect_partitions(first, DFI_LEAVING, PARTITIONS / 2, left);
	/* Tuples of all that moves wait, and hold up no others. */
	for (key = 0; key < KEYS / 4; key++)
		push(s, key, 2);
	cr_assert_eq(dfi_source_flush(s), 0);
	for (key = 0; key < KEYS / 4; key++) {
		if (left[dfi_hash64_partition(key, PARTITIONS)])
			continue;
		cr_assert_eq(consume_soon(first, &tuple), 1);
		kv = tuple;
		cr_assert_eq(kv->val, 2);
		cr_assert(!left[dfi_hash64_partition(kv->key, PARTITIONS)]);
	}
	for (p = 0; p < PARTITIONS; p++)
		if (left[p])
			cr_assert_eq(dfi_partition_release(first, p), 0, "%s",
			    dfi_errmsg());
	expect_partitions(second, DFI_GAINED, PARTITIONS / 2, gained);
	cr_assert_arr_eq(gained, left, sizeof(left));
	finish();
	close_source(s);
	for (n = 0;;) {
		ret = dfi_target_consume(second, &tuple);
		if (ret == -ENOMSG)
			ret = -EAGAIN -
			    dfi_target_event(second, &(struct dfi_event){ 0 });
		if (ret == -EAGAIN)
			continue;
		if (ret == 0)
			break;
		cr_assert_eq(ret, 1, "%s", dfi_errmsg());
		kv = tuple;
		cr_assert_eq(kv->val, 2);
		cr_assert(left[dfi_hash64_partition(kv->key, PARTITIONS)]);
		n++;
	}
	for (key = 0; key < KEYS / 4; key++)
		n -= left[dfi_hash64_partition(key, PARTITIONS)];
	cr_assert_eq(n, 0);
	cr_assert_eq(dfi_target_close(second), 0);
	cr_assert_eq(dfi_target_close(first), 0);
}

/* Move half of the partitions to a second target; which ones: left. */
static void begin_move(struct dfi_target *targets[2],
    struct dfi_source **source, uint32_t flags, bool left[PARTITIONS])
{
	int64_t until = now_ms() + LONG_MS;
	struct dfi_event event;
	const void *tuple;
	uint32_t n = 0;

	create(DFI_ON_LOSS_FAIL);
	targets[0] = target_with_events(0, DFI_NONBLOCK);
	expect_partitions(targets[0], DFI_GAINED, PARTITIONS, NULL);
	*source = open_source(rig.dfi, "f", 0, flags);
	targets[1] = target_with_events(1, DFI_NONBLOCK);
	while (n < PARTITIONS / 2) {
		cr_assert(now_ms() < until);
		if (dfi_target_consume(targets[0], &tuple) != -ENOMSG)
			continue;
		cr_assert_eq(dfi_target_event(targets[0], &event), 0);
		if (event.type != DFI_LEAVING)
			continue;
		left[event.partition] = true;
		n++;
	}
}

/* Consume all that comes, up to the end: how many tuples. */
static uint32_t drain(struct dfi_target *target)
{
	int64_t until = now_ms() + LONG_MS;
	struct dfi_event event;
	const void *tuple;
	uint32_t n = 0;
	int ret;

	while ((ret = dfi_target_consume(target, &tuple)) != 0) {
		cr_assert(now_ms() < until);
		if (ret == -ENOMSG)
			cr_assert_eq(dfi_target_event(target, &event), 0);
		else
			cr_assert(
			    ret == 1 || ret == -EAGAIN, "%s", dfi_errmsg());
		n += ret == 1;
	}
	return n;
}

Test(keyed, tuples_that_waited_take_no_more_room_than_others)
{
	bool left[PARTITIONS] = { false };
	struct dfi_target *targets[2];
	struct dfi_source *s;
	uint32_t p, n = 0;
	uint64_t key;

	begin_move(targets, &s, 0, left);
	for (key = 0; key < KEYS / 4; key++)
		push(s, key, 1);
	/* One after another; meanwhile the new owner consumes nothing. */
	for (p = 0; p < PARTITIONS; p++) {
		if (!left[p])
			continue;
		cr_assert_eq(dfi_partition_release(targets[0], p), 0);
		expect_partitions(targets[1], DFI_GAINED, 1, NULL);
		/* The longer, the more often the source sends something. */
		nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, NULL);
	}
	finish();
	/* If its ring had no room, this would wait for ever. */
	close_source(s);
	for (key = 0; key < KEYS / 4; key++)
		n += left[dfi_hash64_partition(key, PARTITIONS)];
	cr_assert_eq(drain(targets[1]), n);
	cr_assert_eq(drain(targets[0]), KEYS / 4 - n);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
}

Test(keyed, a_mark_does_not_overtake_tuples_that_wait)
{
	bool left[PARTITIONS] = { false };
	struct dfi_target *targets[2];
	struct dfi_source *s;
	int64_t until = now_ms() + LONG_MS;
	uint64_t key, value;
	uint32_t p;
	int ret;

	begin_move(targets, &s, DFI_NONBLOCK, left);
	for (key = 0; key < KEYS / 4; key++) {
		struct kv kv = { key, 1 };

		cr_assert_eq(push_soon(s, &kv), 0, "%s", dfi_errmsg());
	}
	cr_assert_eq(dfi_source_mark(s, 7), -EAGAIN);
	for (p = 0; p < PARTITIONS; p++)
		if (left[p])
			cr_assert_eq(dfi_partition_release(targets[0], p), 0);
	expect_partitions(targets[1], DFI_GAINED, PARTITIONS / 2, NULL);
	while ((ret = dfi_source_mark(s, 7)) == -EAGAIN)
		cr_assert(now_ms() < until);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	finish();
	close_source(s);
	cr_assert_eq(drain(targets[0]) + drain(targets[1]), KEYS / 4);
	for (p = 0; p < 2; p++) {
		cr_assert_eq(dfi_target_watermark(targets[p], &value), 0);
		cr_assert_eq(value, 7);
		cr_assert_eq(dfi_target_close(targets[p]), 0);
	}
}

/* ---- Under load ---------------------------------------------------------- */

enum {
	NOBODY = -1,
	LOADERS = 2
};

/* What the owner of a partition hands over with it. */
static struct {
	_Atomic int owner;
	uint64_t next[LOADERS][KEYS];
} state[PARTITIONS];

static _Atomic bool stop;
static _Atomic uint64_t n_pushed, n_taken;

static void fail_thread(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, dfi_errmsg());
	abort();
}

static void *load(void *arg)
{
	uint32_t index = (uint32_t)(uintptr_t)arg;
	struct dfi_source *s = open_source(rig.dfi, "f", index, 0);
	struct kv kvs[16];
	uint64_t i = 0, k;
	int ret;

	/* Key by key, numbered; single pushes and batches. */
	while (!stop) {
		for (k = 0; k < 16; k++, i++)
			kvs[k] = (struct kv){ i % KEYS, i / KEYS };
		if (i / 16 % 2)
			ret = dfi_source_push_batch(s, kvs, 16);
		else
			for (k = 0, ret = 0; k < 16 && !ret; k++)
				ret = dfi_source_push(s, &kvs[k]);
		if (ret < 0)
			fail_thread("push");
		atomic_fetch_add(&n_pushed, 16);
	}
	if (dfi_source_close(s) < 0)
		fail_thread("close");
	return NULL;
}

struct worker {
	pthread_t thread;
	struct dfi_target *target;
	int seat;
	_Atomic uint32_t n_owned, n_gained, n_left;
	_Atomic bool leaves;
	bool has_said; /* that it leaves */
};

static void take_event(struct worker *worker)
{
	struct dfi_event event;

	if (dfi_target_event(worker->target, &event) < 0)
		fail_thread("event");
	if (event.type == DFI_GAINED) {
		if (atomic_exchange(
			&state[event.partition].owner, worker->seat) != NOBODY)
			fail_thread("two owners");
		worker->n_owned++;
		worker->n_gained++;
	} else if (event.type == DFI_LEAVING) {
		if (atomic_exchange(&state[event.partition].owner, NOBODY) !=
		    worker->seat)
			fail_thread("not its owner");
		worker->n_owned--;
		worker->n_left++;
		if (dfi_partition_release(worker->target, event.partition) < 0)
			fail_thread("release");
	}
}

static void take_tuple(
    struct worker *worker, uint32_t source, const struct kv *kv)
{
	uint32_t p = dfi_hash64_partition(kv->key, PARTITIONS);

	if (state[p].owner != worker->seat)
		fail_thread("a tuple of another's partition");
	if (kv->val != state[p].next[source][kv->key]++)
		fail_thread("out of order, lost or doubled");
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct dfi_batch batch;
	const struct kv *kv;
	uint32_t i;
	int ret;

	for (;;) {
		if (worker->leaves && !worker->has_said) {
			worker->has_said = true;
			if (dfi_target_leave(worker->target) < 0)
				fail_thread("leave");
		}
		ret = dfi_target_consume_batch(worker->target, &batch);
		if (ret == 0)
			return NULL;
		if (ret == -ENOMSG) {
			take_event(worker);
			continue;
		}
		if (ret < 0)
			fail_thread("consume");
		for (i = 0, kv = batch.tuples; i < batch.count; i++, kv++)
			take_tuple(worker, batch.source, kv);
		atomic_fetch_add(&n_taken, batch.count);
		dfi_target_release(worker->target, &batch);
	}
}

static void start_worker(struct worker *worker, int seat)
{
	worker->seat = seat;
	worker->target = target_with_events((uint32_t)seat, 0);
	cr_assert_eq(pthread_create(&worker->thread, NULL, work, worker), 0);
}

static void reset(void)
{
	uint32_t p;

	for (p = 0; p < PARTITIONS; p++)
		state[p].owner = NOBODY;
	stop = false;
}

static bool owns_at_least(const struct worker *worker, uint32_t n)
{
	int64_t until = now_ms() + LONG_MS;

	while (worker->n_owned != n && now_ms() < until)
		yield_times(10);
	return worker->n_owned == n;
}

static void await_tuples(uint64_t n)
{
	int64_t until = now_ms() + LONG_MS;
	uint64_t before = n_taken;

	while (n_taken < before + n && now_ms() < until)
		yield_times(10);
	cr_assert_geq(n_taken, before + n);
}

Test(keyed, targets_join_under_load)
{
	struct worker workers[3] = { 0 };
	pthread_t loaders[LOADERS];
	uint32_t i;

	reset();
	create(DFI_ON_LOSS_FAIL);
	start_worker(&workers[0], 0);
	for (i = 0; i < LOADERS; i++)
		cr_assert_eq(pthread_create(
				 &loaders[i], NULL, load, (void *)(uintptr_t)i),
		    0);
	await_tuples(1000);
	start_worker(&workers[1], 1);
	cr_assert(owns_at_least(&workers[1], PARTITIONS / 2));
	await_tuples(1000);
	start_worker(&workers[2], 3);
	cr_assert(owns_at_least(&workers[2], PARTITIONS / 3));
	await_tuples(1000);
	stop = true;
	for (i = 0; i < LOADERS; i++)
		pthread_join(loaders[i], NULL);
	finish();
	for (i = 0; i < 3; i++) {
		pthread_join(workers[i].thread, NULL);
		cr_assert_eq(dfi_target_close(workers[i].target), 0);
	}
	cr_assert_eq(n_taken, n_pushed);
	/* No more has moved than has to. */
	cr_assert_eq(workers[0].n_left, PARTITIONS - workers[0].n_owned);
	cr_assert_eq(workers[1].n_gained, PARTITIONS / 2);
	cr_assert_eq(workers[2].n_gained, PARTITIONS / 3);
}

/* ---- Leaving ------------------------------------------------------------- */

Test(keyed, a_target_that_leaves_under_load_loses_nothing)
{
	struct worker workers[2] = { 0 };
	pthread_t loaders[LOADERS];
	uint32_t i;

	reset();
	create(DFI_ON_LOSS_FAIL);
	start_worker(&workers[0], 0);
	start_worker(&workers[1], 2);
	for (i = 0; i < LOADERS; i++)
		cr_assert_eq(pthread_create(
				 &loaders[i], NULL, load, (void *)(uintptr_t)i),
		    0);
	cr_assert(owns_at_least(&workers[1], PARTITIONS / 2));
	await_tuples(1000);
	workers[0].leaves = true;
	cr_assert(owns_at_least(&workers[1], PARTITIONS));
	/* Its consuming has come to the end. */
	pthread_join(workers[0].thread, NULL);
	cr_assert_eq(workers[0].n_owned, 0);
	cr_assert_eq(dfi_target_close(workers[0].target), 0);
	await_tuples(1000);
	/* The seat is free. */
	workers[0] = (struct worker){ 0 };
	start_worker(&workers[0], 0);
	cr_assert(owns_at_least(&workers[0], PARTITIONS / 2));
	await_tuples(1000);
	stop = true;
	for (i = 0; i < LOADERS; i++)
		pthread_join(loaders[i], NULL);
	finish();
	for (i = 0; i < 2; i++) {
		pthread_join(workers[i].thread, NULL);
		cr_assert_eq(dfi_target_close(workers[i].target), 0);
	}
	cr_assert_eq(n_taken, n_pushed);
}

Test(keyed, the_last_target_leaves_once_another_is_there)
{
	struct dfi_target *first, *second;
	struct dfi_source *s;
	const void *tuple;
	uint64_t key;

	create(DFI_ON_LOSS_FAIL);
	first = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	s = open_source(rig.dfi, "f", 0, 0);
	for (key = 0; key < 20; key++)
		push(s, key, 1);
	cr_assert_eq(dfi_source_flush(s), 0);
	/* Before it has partitions, it would leave at once. */
	for (key = 0; key < 20; key++)
		cr_assert_eq(consume_soon(first, &tuple), 1);
	cr_assert_eq(dfi_target_leave(first), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_leave(first), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_consume(first, &tuple), -EAGAIN);
	second = open_target(rig.other, "f", 1, 0);
	cr_assert_eq(consume_soon(first, &tuple), 0);
	cr_assert_eq(dfi_target_close(first), 0);
	for (key = 0; key < 20; key++)
		push(s, key, 2);
	finish();
	close_source(s);
	cr_assert_eq(drain(second), 20);
	cr_assert_eq(dfi_target_close(second), 0);
}

Test(keyed, only_owners_of_partitions_leave)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);
	struct dfi_target *t;

	attr.routing = DFI_ROUTE_DIRECT;
	attr.open.partitions = 0;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	t = open_target(rig.other, "f", 0, 0);
	assert_error(dfi_target_leave(t), -EPROTOTYPE, "flow 'f'", "target 0",
	    "partitions");
	cr_assert_eq(dfi_target_close(t), 0);
}

/* ---- The application's choice -------------------------------------------- */

static void assign(const uint32_t *owners)
{
	cr_assert_eq(dfi_flow_assign(rig.dfi, "f", owners, PARTITIONS), 0, "%s",
	    dfi_errmsg());
}

/* Consume, and take an event if one is next. */
static void take_and_release(struct dfi_target *target, uint32_t *owned)
{
	struct dfi_event event;
	const void *tuple;

	if (dfi_target_consume(target, &tuple) != -ENOMSG)
		return;
	cr_assert_eq(dfi_target_event(target, &event), 0);
	*owned += event.type == DFI_GAINED;
	if (event.type != DFI_LEAVING)
		return;
	--*owned;
	cr_assert_eq(dfi_partition_release(target, event.partition), 0);
}

/* Until two targets own so many partitions of all. */
static void await_shares(
    struct dfi_target *targets[2], uint32_t owned[2], uint32_t first)
{
	int64_t until = now_ms() + LONG_MS;

	while (owned[0] != first || owned[0] + owned[1] != PARTITIONS) {
		cr_assert(now_ms() < until, "%u %u", owned[0], owned[1]);
		take_and_release(targets[0], &owned[0]);
		take_and_release(targets[1], &owned[1]);
	}
}

Test(keyed, the_application_assigns_partitions)
{
	uint32_t owners[PARTITIONS], owned[2] = { 0 }, p;
	struct dfi_target *targets[2];
	struct dfi_source *s;
	uint64_t key;

	create(DFI_ON_LOSS_FAIL);
	targets[0] = target_with_events(0, DFI_NONBLOCK);
	targets[1] = target_with_events(1, DFI_NONBLOCK);
	await_shares(targets, owned, PARTITIONS / 2);
	/* Seat 3 is empty: the library shares these out. */
	for (p = 0; p < PARTITIONS; p++)
		owners[p] = p < 24 ? 0 : p < 28 ? DFI_ANY_SEAT : 3;
	assign(owners);
	await_shares(targets, owned, 28);
	for (p = 0; p < PARTITIONS; p++)
		owners[p] = 1;
	assign(owners);
	await_shares(targets, owned, 0);
	s = open_source(rig.dfi, "f", 0, 0);
	for (key = 0; key < 20; key++)
		push(s, key, 1);
	cr_assert_eq(dfi_source_flush(s), 0);
	assign(NULL);
	await_shares(targets, owned, PARTITIONS / 2);
	finish();
	close_source(s);
	for (p = 0; p < 2; p++) {
		drain(targets[p]);
		cr_assert_eq(dfi_target_close(targets[p]), 0);
	}
}

static int keep_target(void *arg, const struct dfi_member_info *info)
{
	struct dfi_member_info *of = arg;

	if (info->role == DFI_ROLE_TARGET)
		of[info->seat] = *info;
	return 0;
}

static void list_targets(struct dfi_member_info of[SEATS])
{
	cr_assert_eq(dfi_member_list(rig.dfi, "f", keep_target, of), 0, "%s",
	    dfi_errmsg());
}

Test(keyed, who_owns_partitions_is_listed)
{
	struct dfi_member_info of[SEATS] = { 0 };
	uint32_t owners[PARTITIONS], owned[2] = { 0 }, p;
	int64_t until = now_ms() + LONG_MS;
	struct dfi_target *targets[2];
	uint64_t epoch;

	create(DFI_ON_LOSS_FAIL);
	targets[0] = target_with_events(0, DFI_NONBLOCK);
	targets[1] = target_with_events(1, DFI_NONBLOCK);
	await_shares(targets, owned, PARTITIONS / 2);
	for (p = 0; p < PARTITIONS; p++)
		owners[p] = p != 2 && (p < 8 || p == 30);
	assign(owners);
	await_shares(targets, owned, PARTITIONS - 8);
	do {
		cr_assert(now_ms() < until);
		list_targets(of);
	} while (of[0].n_moving || of[1].n_moving);
	cr_assert_eq(of[0].n_partitions, PARTITIONS - 8);
	cr_assert_eq(of[1].n_partitions, 8);
	cr_assert_str_eq(of[0].partitions, "2, 8-29, 31");
	cr_assert_str_eq(of[1].partitions, "0-1, 3-7, 30");
	cr_assert_eq(of[0].epoch, of[1].epoch);
	cr_assert_eq(of[0].leaving, 0);
	epoch = of[0].epoch;
	/* It has to release all that it has, and does not. */
	cr_assert_eq(dfi_target_leave(targets[0]), 0);
	do {
		cr_assert(now_ms() < until);
		list_targets(of);
	} while (of[1].epoch == epoch);
	cr_assert_eq(of[0].leaving, 1);
	cr_assert_eq(of[0].n_partitions, 0);
	cr_assert_eq(of[0].n_moving, PARTITIONS - 8);
	cr_assert_eq(of[1].n_partitions, PARTITIONS);
	cr_assert_eq(of[1].n_moving, PARTITIONS - 8);
	await_shares(targets, owned, 0);
	finish();
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
}

/* The source has a table where another kind's has its target set. */
Test(keyed, target_sets_are_refused)
{
	struct kv kv = numbered_kv(0);
	struct dfi_target *t;
	struct dfi_source *s;

	create(DFI_ON_LOSS_DROP);
	t = open_target(rig.other, "f", 0, 0);
	s = open_source(rig.dfi, "f", 0, 0);
	assert_error(dfi_source_choose(s, 1), -EPROTOTYPE, "no groups");
	assert_error(dfi_source_push_set(s, 1, &kv), -EPROTOTYPE, "no groups");
	push_number(s, 0);
	dfi_source_abort(s);
	(void)dfi_source_close(s);
	cr_assert_eq(dfi_target_close(t), 0, "%s", dfi_errmsg());
}

Test(keyed, wrong_owners_are_refused)
{
	uint32_t owners[PARTITIONS] = { 0 };
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);

	create(DFI_ON_LOSS_FAIL);
	assert_error(dfi_flow_assign(rig.dfi, "g", owners, PARTITIONS), -ENOENT,
	    "flow 'g'");
	assert_error(dfi_flow_assign(rig.dfi, "f", owners, 5), -EINVAL,
	    "flow 'f'", "5 owners", "32 partitions");
	owners[7] = SEATS;
	assert_error(dfi_flow_assign(rig.dfi, "f", owners, PARTITIONS), -ERANGE,
	    "flow 'f'", "partition 7", "0 to 3");
	owners[7] = 0;
	assert_error(dfi_flow_assign(rig.other, "f", owners, PARTITIONS),
	    -EPERM, "flow 'f'", "DFI_FLOW_PERSISTENT");
	attr.routing = DFI_ROUTE_ANY;
	attr.open.partitions = 0;
	cr_assert_eq(dfi_flow_create(rig.dfi, "d", &attr), 0);
	assert_error(dfi_flow_assign(rig.dfi, "d", owners, PARTITIONS),
	    -EPROTOTYPE, "flow 'd'", "partitions");
}

/* ---- Losses -------------------------------------------------------------- */

/* Until the source knows that the target has taken all partitions. */
static void send_until_known(
    struct dfi_source *source, struct dfi_target *target)
{
	struct kv kv = { 0, 0 };
	struct dfi_event event;
	const void *tuple;
	uint32_t p;
	int ret;

	for (p = 0; p < PARTITIONS; p++) {
		while (dfi_hash64_partition(kv.key, PARTITIONS) != p)
			kv.key++;
		cr_assert_eq(push_soon(source, &kv), 0, "%s", dfi_errmsg());
		kv.key = 0;
	}
	cr_assert_eq(dfi_source_flush(source), 0);
	for (p = 0; p < PARTITIONS; p++) {
		while ((ret = dfi_target_consume(target, &tuple)) == -ENOMSG)
			cr_assert_eq(dfi_target_event(target, &event), 0);
		cr_assert_eq(ret, 1, "%s", dfi_errmsg());
	}
}

/* Until the source knows that a target has left tuples. */
static uint64_t await_dropped(struct dfi_source *source)
{
	uint64_t n = 0;

	do {
		yield_times(1);
		cr_assert_eq(dfi_source_dropped(source, &n), 0);
	} while (!n);
	return n;
}

Test(keyed, the_rest_of_a_closed_target_is_dropped_and_counted)
{
	struct dfi_target *first, *second;
	struct dfi_source *s;
	uint64_t i, dropped;
	const void *tuple;
	uint32_t n = 0;

	create(DFI_ON_LOSS_DROP);
	first = target_with_events(0, 0);
	expect_partitions(first, DFI_GAINED, PARTITIONS, NULL);
	s = open_source(rig.dfi, "f", 0, 0);
	send_until_known(s, first);
	for (i = 0; i < 20; i++)
		push(s, i, 1);
	cr_assert_eq(dfi_source_flush(s), 0);
	cr_assert_eq(dfi_target_close(first), 0);
	dropped = await_dropped(s);
	cr_assert_geq(dropped, 20);
	second = target_with_events(1, 0);
	expect_partitions(second, DFI_GAINED, PARTITIONS, NULL);
	for (i = 0; i < 20; i++)
		push(s, i, 2);
	finish();
	close_source(s);
	while (dfi_target_consume(second, &tuple)) {
		const struct kv *kv = tuple;
		struct dfi_event event;

		if (!dfi_target_event(second, &event))
			continue;
		cr_assert_eq(kv->val, 2);
		n++;
	}
	cr_assert_eq(n, 20);
	cr_assert_eq(dfi_target_close(second), 0);
}

Test(keyed, a_target_that_leaves_tuples_fails_its_sources)
{
	struct kv kv = { 1, 1 };
	struct dfi_source *s;
	struct dfi_target *t;
	int ret;

	create(DFI_ON_LOSS_FAIL);
	t = open_target(rig.other, "f", 2, 0);
	s = open_source(rig.dfi, "f", 0, 0);
	send_until_known(s, t);
	push(s, 1, 1);
	cr_assert_eq(dfi_source_flush(s), 0);
	cr_assert_eq(dfi_target_close(t), 0);
	do
		ret = dfi_source_push(s, &kv);
	while (ret == 0);
	assert_error(ret, -ECONNRESET, "flow 'f'", "target 2");
	assert_error(dfi_source_close(s), -ECONNRESET, "target 2");
}

/* ---- Waiting ------------------------------------------------------------- */

/* Until a target owns so many partitions. */
static void await_owned(struct dfi_target *target, uint32_t *owned, uint32_t n)
{
	int64_t until = now_ms() + LONG_MS;

	while (*owned != n) {
		cr_assert(now_ms() < until, "%u", *owned);
		take_and_release(target, owned);
	}
}

static void *close_it(void *source)
{
	if (dfi_source_close(source) < 0)
		fail_thread("close");
	return NULL;
}

Test(keyed, the_close_of_a_nonblocking_source_waits_for_the_next_owner)
{
	bool left[PARTITIONS] = { false };
	struct dfi_target *targets[2];
	struct dfi_source *s;
	pthread_t closes;
	struct kv kv;
	uint32_t p;

	begin_move(targets, &s, DFI_NONBLOCK, left);
	for (kv.key = kv.val = 0; kv.key < KEYS / 4; kv.key++)
		cr_assert_eq(push_soon(s, &kv), 0, "%s", dfi_errmsg());
	finish();
	cr_assert_eq(pthread_create(&closes, NULL, close_it, s), 0);
	/* So that it sleeps. */
	nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	for (p = 0; p < PARTITIONS; p++)
		if (left[p])
			cr_assert_eq(dfi_partition_release(targets[0], p), 0);
	expect_partitions(targets[1], DFI_GAINED, PARTITIONS / 2, NULL);
	pthread_join(closes, NULL);
	cr_assert_eq(drain(targets[0]) + drain(targets[1]), KEYS / 4);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
}

Test(keyed, a_target_that_does_not_take_what_waited_is_evicted)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct dfi_target *first, *second;
	uint64_t key, n, dropped;
	uint32_t owned = 0, got = 0;
	struct dfi_event event;
	struct dfi_source *s;
	const void *tuple;
	pthread_t closes;
	int ret;

	attr.open.evict_after_ms = 1000;
	attr.open.hold_bytes = 4096 * sizeof(struct kv);
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	first = target_with_events(0, DFI_NONBLOCK);
	await_owned(first, &owned, PARTITIONS);
	s = open_source(rig.dfi, "f", 0, 0);
	second = target_with_events(1, DFI_NONBLOCK);
	await_owned(first, &owned, PARTITIONS / 2);
	/* More than its ring has room for waits for the second one. */
	for (key = 0, n = 0; n < 3 * SEGMENT * RING / 2; key++) {
		if (dfi_hash64_partition(key, PARTITIONS) >= PARTITIONS / 2)
			continue;
		push(s, key, 1);
		n++;
	}
	expect_partitions(second, DFI_GAINED, PARTITIONS / 2, NULL);
	/* It consumes nothing, and the source makes no calls. */
	await_owned(first, &owned, PARTITIONS);
	finish();
	dropped = await_dropped(s);
	/* Its close waits until the first target has room for all. */
	cr_assert_eq(pthread_create(&closes, NULL, close_it, s), 0);
	got = drain(first);
	pthread_join(closes, NULL);
	/* What lay in the ring is lost, and no more. */
	cr_assert_lt(got, n);
	cr_assert_geq(got + SEGMENT * RING, n);
	cr_assert_geq(got + dropped, n);
	do {
		ret = dfi_target_consume(second, &tuple);
		if (ret == -ENOMSG)
			(void)dfi_target_event(second, &event);
	} while (ret == 1 || ret == -EAGAIN || ret == -ENOMSG);
	assert_error(ret, -ESTALE, "target 1", "evict_after_ms");
	cr_assert_eq(dfi_target_close(first), 0);
	cr_assert_eq(dfi_target_close(second), -ESTALE);
}

/* It was told that an event is next, and is evicted before it takes it. */
Test(keyed, an_eviction_takes_no_event_away)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct dfi_target *first, *second;
	struct dfi_event event;
	uint32_t owned = 0, i;
	const void *tuple;
	int ret;

	attr.open.evict_after_ms = 1000;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	first = target_with_events(0, DFI_NONBLOCK);
	await_owned(first, &owned, PARTITIONS);
	second = target_with_events(1, DFI_NONBLOCK);
	await_owned(first, &owned, PARTITIONS / 2);
	while ((ret = dfi_target_consume(second, &tuple)) == -EAGAIN)
		yield_times(1);
	cr_assert_eq(ret, -ENOMSG, "%s", dfi_errmsg());
	/* It does not take, so it loses its seat. */
	await_owned(first, &owned, PARTITIONS);
	for (i = 0; i < PARTITIONS / 2; i++) {
		cr_assert_eq(
		    dfi_target_event(second, &event), 0, "%s", dfi_errmsg());
		cr_assert_eq(event.type, DFI_GAINED);
	}
	cr_assert_eq(dfi_target_event(second, &event), -EAGAIN);
	assert_error(dfi_target_consume(second, &tuple), -ESTALE, "target 1",
	    "evict_after_ms");
	cr_assert_eq(dfi_target_close(first), 0);
	cr_assert_eq(dfi_target_close(second), -ESTALE);
}

/* Push tuples of a key until the ring has no room. */
static void fill(struct dfi_source *source, uint64_t key)
{
	struct kv kv = { key, 1 };
	int ret;

	while ((ret = dfi_source_push(source, &kv)) == 0)
		;
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
}

/* Consume what is there, and what comes until then. */
static void consume_until(struct dfi_target *target, int64_t until)
{
	struct dfi_event event;
	const void *tuple;
	int ret;

	do {
		ret = dfi_target_consume(target, &tuple);
		if (ret == -ENOMSG)
			ret = dfi_target_event(target, &event);
		if (ret == -EAGAIN)
			yield_times(1);
		cr_assert(ret >= 0 || ret == -EAGAIN, "%s", dfi_errmsg());
	} while (ret != -EAGAIN || now_ms() < until);
}

/* Its ring was full twice, and long ago, but had room in between. */
Test(keyed, a_target_that_gave_back_since_is_not_evicted)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct dfi_target *first, *second;
	uint64_t of_first = 0, of_second = 0;
	uint32_t owned = 0;
	struct dfi_source *s;
	int64_t full;

	attr.open.evict_after_ms = 2000;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	first = target_with_events(0, DFI_NONBLOCK);
	await_owned(first, &owned, PARTITIONS);
	s = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	second = target_with_events(1, DFI_NONBLOCK);
	await_owned(first, &owned, PARTITIONS / 2);
	expect_partitions(second, DFI_GAINED, PARTITIONS / 2, NULL);
	while (dfi_hash64_partition(of_first, PARTITIONS) < PARTITIONS / 2)
		of_first++;
	while (dfi_hash64_partition(of_second, PARTITIONS) >= PARTITIONS / 2)
		of_second++;
	fill(s, of_second);
	full = now_ms();
	consume_until(second, 0);
	push(s, of_first, 1);
	consume_until(second, full + attr.open.evict_after_ms + 1);
	fill(s, of_second);
	consume_until(second, now_ms() + 300);
	push(s, of_second, 1);
	finish();
	close_source(s);
	(void)drain(first);
	(void)drain(second);
	cr_assert_eq(dfi_target_close(first), 0);
	cr_assert_eq(dfi_target_close(second), 0);
}

/* The next tuples of a target are of key 0, and have this number. */
static void expect_val(struct dfi_target *target, uint64_t val)
{
	const void *tuple;

	cr_assert_eq(dfi_target_consume(target, &tuple), 1, "%s", dfi_errmsg());
	cr_assert_eq(((const struct kv *)tuple)->val, val);
}

Test(keyed, tuples_wait_for_an_owner)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct kv kv = { 0, 0 };
	struct dfi_target *t;
	struct dfi_source *s;
	uint64_t i;
	int ret;

	attr.open.hold_bytes = 10 * sizeof(struct kv);
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	t = open_target(rig.other, "f", 0, 0);
	s = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	send_until_known(s, t);
	push(s, 0, 0);
	cr_assert_eq(dfi_source_flush(s), 0);
	cr_assert_eq(dfi_target_close(t), 0);
	await_dropped(s);
	for (kv.val = 0; kv.val < 10; kv.val++)
		cr_assert_eq(dfi_source_push(s, &kv), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_push(s, &kv), -EAGAIN, "%s", dfi_errmsg());
	t = open_target(rig.other, "f", 1, 0);
	ret = push_soon(s, &kv);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	finish();
	close_source(s);
	for (i = 0; i <= 10; i++)
		expect_val(t, i);
	end_target(t);
}

static uint64_t count(struct dfi_target *target, bool (*is_right)(uint64_t key))
{
	const void *tuple;
	uint64_t n = 0;

	while (dfi_target_consume(target, &tuple) == 1) {
		cr_assert(is_right(*(const uint64_t *)tuple));
		n++;
	}
	return n;
}

static bool is_low(uint64_t key)
{
	return key < 20;
}

static bool is_high(uint64_t key)
{
	return key >= 20;
}

/* Four partitions, of which the first two move when the second target comes. */
static void push_all_by(struct dfi_flow_attr *attr)
{
	struct dfi_target *a, *b;
	struct dfi_source *s;
	uint64_t i;

	attr->open.min_targets = 2;
	attr->open.partitions = 4;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
	a = open_target(rig.other, "f", 0, 0);
	b = open_target(rig.other, "f", 1, 0);
	s = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < 40; i++)
		push(s, i, 0);
	finish();
	close_source(s);
	cr_assert_eq(count(a, is_low), 20);
	cr_assert_eq(count(b, is_high), 20);
	end_target(a);
	end_target(b);
}

Test(keyed, range_routing_has_partitions)
{
	static const int64_t splits[] = { 10, 20, 30 };
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);

	attr.routing = DFI_ROUTE_RANGE;
	attr.splits = splits;
	push_all_by(&attr);
}

#define refuse(err, change, ...)                                         \
	do {                                                             \
		struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL); \
                                                                         \
		change;                                                  \
		assert_error(dfi_flow_create(rig.dfi, "g", &attr), err,  \
		    "flow 'g'", __VA_ARGS__);                            \
	} while (0)

Test(keyed, wrong_partitions_are_refused)
{
	refuse(-EINVAL, attr.open.partitions = DFI_MAX_PARTITIONS + 1,
	    "open.partitions", "16384");
	refuse(-EINVAL,
	    (attr.open.partitions = DFI_MAX_PARTITIONS,
		attr.n_targets = DFI_MAX_ENDPOINTS),
	    "open.partitions", "n_targets 4096");
	refuse(-EINVAL, attr.open.hold_bytes = 8, "open.hold_bytes 8");
	refuse(-EINVAL, (attr.routing = DFI_ROUTE_RADIX, attr.radix_bits = 4),
	    "16 partitions", "open.partitions");
	refuse(-EINVAL, attr.routing = DFI_ROUTE_RANGE, "open.partitions - 1");
	refuse(-EINVAL, attr.routing = DFI_ROUTE_ANY, "open.partitions");
	refuse(-EINVAL, attr.open.membership = 0, "open.partitions",
	    "DFI_MEMBERS_OPEN");
}

Test(keyed, only_what_leaves_is_released)
{
	struct dfi_target *t;
	struct dfi_source *s;

	create(DFI_ON_LOSS_FAIL);
	t = target_with_events(0, 0);
	expect_partitions(t, DFI_GAINED, PARTITIONS, NULL);
	assert_error(dfi_partition_release(t, PARTITIONS), -ERANGE,
	    "partition 32", "has 32");
	assert_error(
	    dfi_partition_release(t, 3), -EINVAL, "partition 3", "DFI_LEAVING");
	s = open_source(rig.dfi, "f", 0, 0);
	assert_error(dfi_source_push_to(s, 0, &(struct kv){ 0 }), -ERANGE,
	    "dfi_source_push()");
	push(s, 0, 0);
	close_source(s);
	cr_assert_eq(dfi_target_close(t), 0);
}

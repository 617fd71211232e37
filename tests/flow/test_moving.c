/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How tuples are moved: loans and their lifetime, batches and cursors mixed
 * with single tuples, and calls that never wait.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(moving, .init = setup, .fini = teardown, .timeout = 300);

/*
 * Fill the ring of target 0. Returns how many tuples it took. Asks for room
 * first: a refused push must be repeated before the end.
 */
static uint64_t fill(struct dfi_source *source, uint64_t number)
{
	uint64_t first = number;
	struct dfi_span span;
	int ret;

	while (!(ret = dfi_source_claim(source, 0, &span)))
		push_number(source, number++);
	cr_assert_eq(ret, -EAGAIN);
	return number - first;
}

/* Likewise, once the target's credit has come. */
static uint64_t fill_soon(struct dfi_source *source, uint64_t number)
{
	int64_t deadline = now_ms() + LONG_MS;
	uint64_t n;

	while (!(n = fill(source, number)) && now_ms() < deadline)
		sched_yield();
	return n;
}

Test(moving, tuple_is_lent_until_the_next_call)
{
	struct dfi_source *source;
	struct dfi_target *target;
	uint64_t next, i, expected;
	const struct kv *kv;
	const void *tuple;

	create_kv_flow(rig.dfi, "f", 1, 1, 2, 3);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	next = fill(source, 0);
	cr_assert_eq(next, 6);
	for (i = 0; i < 100; i++) {
		/* Credit may come after all tuples were consumed. */
		if (next == i)
			next += fill_soon(source, next);
		cr_assert_eq(consume_soon(target, &tuple), 1);
		kv = tuple;
		/* Later pushes leave it unchanged. */
		next += fill(source, next);
		expected = numbered_kv(i).key;
		cr_assert_eq(kv->val, i);
		cr_assert_eq(kv->key, expected);
		cr_assert_leq(next - i, 6);
	}
	cr_assert_eq(dfi_source_close(source), 0);
	for (; i < next; i++)
		expect_number(target, i);
	end_target(target);
}

Test(moving, batch_is_lent_until_it_is_released)
{
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_batch batch;
	const struct kv *kvs;
	uint64_t next, i;

	create_kv_flow(rig.dfi, "f", 1, 1, 3, 1);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	next = fill(source, 0);
	cr_assert_eq(next, 3);
	cr_assert_eq(consume_batch_soon(target, &batch), 3);
	cr_assert_eq(batch.count, 3);
	cr_assert_eq(batch.stride, sizeof(struct kv));
	cr_assert_eq(batch.source, 0);
	cr_assert_eq(fill(source, next), 0);
	kvs = batch.tuples;
	for (i = 0; i < 3; i++)
		cr_assert_eq(kvs[i].val, i);
	dfi_target_release(target, &batch);
	cr_assert_eq(batch.count, 0);
	cr_assert_null(batch.tuples);
	/* The second release does nothing. */
	dfi_target_release(target, &batch);
	cr_assert_eq(fill_soon(source, next), 3);
	cr_assert_eq(consume_batch_soon(target, &batch), 3);
	dfi_target_release(target, &batch);
	cr_assert_eq(dfi_source_close(source), 0);
	end_target(target);
}

Test(moving, batch_is_the_rest_of_a_segment_in_work)
{
	struct dfi_target_stats stats;
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_batch batch;
	uint64_t i;

	create_kv_flow(rig.dfi, "f", 1, 1, 5, 4);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < 12; i++)
		push_number(source, i);
	expect_number(target, 0);
	expect_number(target, 1);
	cr_assert_eq(consume_batch_soon(target, &batch), 3);
	cr_assert_eq(((const struct kv *)batch.tuples)->val, 2);
	dfi_target_release(target, &batch);
	expect_number(target, 5);
	dfi_target_query(target, &stats);
	cr_assert_eq(stats.tuples, 6);
	cr_assert_eq(stats.bytes, 6 * sizeof(struct kv));
	cr_assert_eq(stats.segments, 2);
	cr_assert_eq(dfi_source_close(source), 0);
	for (i = 6; i < 12; i++)
		expect_number(target, i);
	end_target(target);
}

Test(moving, target_cursor_leaves_unread_tuples)
{
	struct dfi_target_cursor cursor;
	struct dfi_source *source;
	struct dfi_target *target;
	const struct kv *kv;
	uint64_t i, n;

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 8);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < 20; i++)
		push_number(source, i);
	expect_number(target, 0);
	for (i = 1; i < 19; i += n) {
		cursor = dfi_target_cursor_open(target, sizeof(*kv));
		for (n = 0; n < 6; n++) {
			kv = cursor_get_soon(&cursor, sizeof(*kv));
			cr_assert_not_null(kv);
			cr_assert_eq(kv->val, i + n);
		}
		cr_assert_eq(dfi_target_cursor_close(cursor), 0);
	}
	expect_number(target, 19);
	cursor = dfi_target_cursor_open(target, sizeof(*kv));
	cr_assert_null(dfi_target_cursor_get(&cursor, sizeof(*kv)));
	cr_assert_eq(cursor.status, -EAGAIN);
	/* It may be tried again. */
	push_number(source, 20);
	cr_assert_eq(dfi_source_flush(source), 0);
	kv = cursor_get_soon(&cursor, sizeof(*kv));
	cr_assert_not_null(kv);
	cr_assert_eq(kv->val, 20);
	cr_assert_eq(cursor.status, 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_null(cursor_get_soon(&cursor, sizeof(*kv)));
	cr_assert_eq(dfi_target_cursor_close(cursor), 0);
	end_target(target);
}

Test(moving, source_cursor_and_pushes_share_a_segment)
{
	struct dfi_source_cursor cursor;
	struct dfi_source *source;
	struct dfi_target *target;
	uint64_t number = 0, i;
	struct kv kv;

	create_kv_flow(rig.dfi, "f", 1, 1, 5, 8);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	push_number(source, number++);
	cursor = dfi_source_cursor_open(source, 0, sizeof(kv));
	for (i = 0; i < 3; i++) {
		kv = numbered_kv(number++);
		cr_assert_eq(
		    dfi_source_cursor_push(&cursor, &kv, sizeof(kv)), 0);
	}
	cr_assert_eq(dfi_source_cursor_close(cursor), 0);
	/* Four of five: partial, and not sent. */
	expect_nothing(target);
	push_number(source, number++);
	for (i = 0; i < number; i++)
		expect_number(target, i);
	/* A cursor that is full on close is sent. */
	cursor = dfi_source_cursor_open(source, 0, sizeof(kv));
	for (i = 0; i < 5; i++) {
		kv = numbered_kv(number++);
		cr_assert_eq(
		    dfi_source_cursor_push(&cursor, &kv, sizeof(kv)), 0);
	}
	cr_assert_eq(dfi_source_cursor_close(cursor), 0);
	for (i = 5; i < number; i++)
		expect_number(target, i);
	cr_assert_eq(dfi_source_close(source), 0);
	end_target(target);
}

Test(moving, source_cursor_may_try_again_when_there_is_room)
{
	struct dfi_source_cursor cursor;
	struct dfi_source *source;
	struct dfi_target *target;
	int64_t deadline;
	struct kv kv;
	int ret;

	create_kv_flow(rig.dfi, "f", 1, 1, 2, 1);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	cr_assert_eq(fill(source, 0), 2);
	cursor = dfi_source_cursor_open(source, 0, sizeof(kv));
	kv = numbered_kv(2);
	cr_assert_eq(dfi_source_cursor_push(&cursor, &kv, sizeof(kv)), -EAGAIN);
	cr_assert_eq(cursor.status, -EAGAIN);
	expect_number(target, 0);
	expect_number(target, 1);
	expect_nothing(target);
	deadline = now_ms() + LONG_MS;
	while ((ret = dfi_source_cursor_push(&cursor, &kv, sizeof(kv))) &&
	    now_ms() < deadline)
		cr_assert_eq(ret, -EAGAIN);
	cr_assert_eq(ret, 0);
	cr_assert_eq(cursor.status, 0);
	cr_assert_eq(dfi_source_cursor_close(cursor), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	expect_number(target, 2);
	end_target(target);
}

/* Push a batch until this many are taken, as credits come. Returns how many. */
static int push_batch_soon(
    struct dfi_source *source, const struct kv *kvs, int n, int wanted)
{
	int64_t deadline = now_ms() + LONG_MS;
	int ret, taken = 0;

	do {
		ret = dfi_source_push_batch(
		    source, kvs + taken, (uint32_t)(n - taken));
		if (ret != -EAGAIN)
			cr_assert_geq(ret, 0);
		taken += ret > 0 ? ret : 0;
	} while (taken < wanted && now_ms() < deadline);
	return taken;
}

Test(moving, nonblocking_batch_takes_the_prefix_that_fits)
{
	struct dfi_source *source;
	struct dfi_target *target;
	struct kv kvs[20];
	uint64_t i;

	create_kv_flow(rig.dfi, "f", 1, 1, 3, 2);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	for (i = 0; i < 20; i++)
		kvs[i] = numbered_kv(i);
	cr_assert_eq(dfi_source_push_batch(source, kvs, 0), 0);
	cr_assert_eq(dfi_source_push_batch(source, kvs, 20), 6);
	cr_assert_eq(dfi_source_push_batch(source, kvs + 6, 14), -EAGAIN);
	for (i = 0; i < 3; i++)
		expect_number(target, i);
	expect_number(target, 3);
	cr_assert_eq(push_batch_soon(source, kvs + 6, 14, 3), 3);
	for (i = 4; i < 9; i++)
		expect_number(target, i);
	expect_nothing(target); /* and so gives the last segment back */
	cr_assert_eq(push_batch_soon(source, kvs + 9, 4, 4), 4);
	cr_assert_eq(dfi_source_close(source), 0);
	for (i = 9; i < 13; i++)
		expect_number(target, i);
	end_target(target);
}

/*
 * A worker that sends to all and receives from all must alternate: with
 * blocking calls, all would wait for room in rings that nobody empties.
 */
struct worker {
	pthread_t thread;
	uint32_t index;
	uint64_t count;
	int ret;
};

#define N_WORKERS 3
#define N_EACH 4000u

static int consume_ready(
    struct worker *worker, struct dfi_target *target, bool *ended)
{
	const void *tuple;
	int ret;

	while ((ret = dfi_target_consume(target, &tuple)) > 0)
		worker->count++;
	*ended = ret == 0;
	return ret == -EAGAIN ? 0 : ret;
}

static void work(
    struct worker *worker, struct dfi_source *source, struct dfi_target *target)
{
	uint64_t next = 0;
	bool ended = false;
	struct kv kv;
	int ret = 0;

	while (ret >= 0 && !ended) {
		kv = numbered_kv(worker->index * N_EACH + next);
		ret = source ? dfi_source_push(source, &kv) : -EAGAIN;
		if (!ret && ++next == N_EACH) {
			ret = dfi_source_close(source);
			source = NULL;
		}
		if (ret == -EAGAIN) {
			ret = consume_ready(worker, target, &ended);
			yield_times(1);
		}
	}
	worker->ret = ret;
}

static void *run_worker(void *arg)
{
	struct dfi_target_attr target_attr = { .size = sizeof(target_attr),
		.flags = DFI_NONBLOCK };
	struct dfi_source_attr source_attr = { .size = sizeof(source_attr),
		.flags = DFI_NONBLOCK };
	struct worker *worker = arg;
	struct dfi_source *source;
	struct dfi_target *target;

	worker->ret = dfi_target_open(
	    rig.dfi, "f", worker->index, &target_attr, &target);
	if (worker->ret)
		return NULL;
	worker->ret = dfi_source_open(
	    rig.dfi, "f", worker->index, &source_attr, &source);
	if (!worker->ret)
		work(worker, source, target);
	dfi_target_close(target);
	return NULL;
}

Test(moving, nonblocking_threads_are_source_and_target_of_full_rings)
{
	struct worker workers[N_WORKERS];
	uint64_t count = 0;
	uint32_t i;

	create_kv_flow(rig.dfi, "f", N_WORKERS, N_WORKERS, 2, 1);
	for (i = 0; i < N_WORKERS; i++) {
		workers[i] = (struct worker){ .index = i };
		cr_assert_eq(pthread_create(&workers[i].thread, NULL,
				 run_worker, &workers[i]),
		    0);
	}
	for (i = 0; i < N_WORKERS; i++) {
		cr_assert_eq(pthread_join(workers[i].thread, NULL), 0);
		cr_assert_eq(workers[i].ret, 0);
		count += workers[i].count;
	}
	cr_assert_eq(count, N_WORKERS * N_EACH);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets of open flows with replay lend each tuple once: R3 of
 * docs/open-flows.md. What comes again is dropped, by source and partition,
 * also in the middle of a segment, and keeps its room until an acknowledgement.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include <dfi/stats.h>

#include "flow_help.h"

#define SEATS 2
#define SEGMENT 16u /* tuples */
#define RING 64u    /* segments; half of it is enough for all but one test */
#define PARTITIONS 8u
#define MOST 400u

static struct rig rig;
/* What the store has, for dfi_partition_take(). */
static uint64_t stored[PARTITIONS][SEATS];

static void setup(void)
{
	memset(stored, 0, sizeof(stored));
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(filter, .init = setup, .fini = teardown, .timeout = 300);

static void create(uint32_t routing)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.routing = routing,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.open = {
			.membership = DFI_MEMBERS_OPEN,
			.on_loss = DFI_ON_LOSS_REPLAY,
			.input_position = "val",
		},
	};

	if (routing == DFI_ROUTE_HASH)
		attr.open.partitions = PARTITIONS;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

/* ---- A target --------------------------------------------------------------
 */

struct worker {
	struct dfi_target *target;
	uint32_t n_held, n_lent, n_batches, n_asked;
	bool knows;     /* what is stored, and says so */
	uint64_t epoch; /* of the partition that was gained last */
	bool leaves;
	uint32_t of[SEATS][MOST + 1]; /* how often each position came */
	uint32_t partition[MOST + 1]; /* of those that came */
};

/* In a worker that knows what is stored, and the highest epoch there. */
static void open_with(
    struct worker *worker, uint32_t seat, bool knows, uint64_t store_epoch)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;

	memset(worker, 0, sizeof(*worker));
	worker->knows = knows;
	attr.flags = DFI_EVENTS | DFI_NONBLOCK;
	attr.store_epoch = store_epoch;
	cr_assert_eq(
	    dfi_target_open(rig.other, "f", seat, &attr, &worker->target), 0,
	    "%s", dfi_errmsg());
}

static void open_worker(struct worker *worker, uint32_t seat, bool knows)
{
	open_with(worker, seat, knows, 0);
}

static void ack(struct worker *worker)
{
	cr_assert_eq(dfi_target_ack(worker->target), 0, "%s", dfi_errmsg());
}

static void take_event(struct worker *worker)
{
	struct dfi_event event;
	uint64_t epoch;

	cr_assert_eq(dfi_target_event(worker->target, &event), 0);
	worker->n_asked += event.type == DFI_ACK_DUE;
	worker->leaves |= event.type == DFI_LEAVING;
	if (event.type != DFI_GAINED)
		return;
	worker->n_held++;
	worker->epoch = event.epoch;
	cr_assert_eq(
	    dfi_partition_epoch(worker->target, event.partition, &epoch), 0,
	    "%s", dfi_errmsg());
	cr_assert_eq(epoch, event.epoch);
	cr_assert_eq(dfi_partition_take(worker->target, event.partition,
			 worker->knows ? stored[event.partition] : NULL,
			 worker->knows ? SEATS : 0),
	    0, "%s", dfi_errmsg());
}

static void see(struct worker *worker, uint32_t source, const struct kv *kv)
{
	uint32_t p = 0;

	cr_assert_leq(kv->val, MOST);
	cr_assert_eq(kv->val, kv->key);
	worker->of[source][kv->val]++;
	worker->n_lent++;
	if (dfi_target_partition(worker->target, kv, &p) == 0)
		worker->partition[kv->val] = p;
}

/* Consume what is there, and acknowledge nothing. Returns the last error. */
static int work(struct worker *worker)
{
	struct dfi_batch batch;
	const struct kv *kv;
	uint32_t i;
	int ret;

	for (;;) {
		ret = dfi_target_consume_batch(worker->target, &batch);
		if (ret == -ENOMSG) {
			take_event(worker);
			continue;
		}
		if (ret <= 0)
			return ret;
		kv = batch.tuples;
		for (i = 0; i < batch.count; i++, kv++)
			see(worker, batch.source, kv);
		worker->n_batches++;
		dfi_target_release(worker->target, &batch);
	}
}

static uint64_t filtered(const struct worker *worker)
{
	uint64_t n = 0;

	cr_assert_eq(dfi_target_filtered(worker->target, &n), 0);
	return n;
}

/* Until so many were lent, and so many dropped. */
static void work_until(struct worker *worker, uint32_t lent, uint32_t dropped)
{
	int64_t until = now_ms() + LONG_MS;

	while (worker->n_lent < lent || filtered(worker) < dropped) {
		(void)work(worker);
		cr_assert_lt(now_ms(), until, "%u were lent, %lu dropped",
		    worker->n_lent, (unsigned long)filtered(worker));
		yield_times(1);
	}
	cr_assert_eq(worker->n_lent, lent);
	cr_assert_eq(filtered(worker), dropped);
}

static void work_until_held(struct worker *worker)
{
	int64_t until = now_ms() + LONG_MS;

	while (worker->n_held != PARTITIONS) {
		(void)work(worker);
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
}

/* ---- A source --------------------------------------------------------------
 */

static struct dfi_source *source_at(uint32_t seat, uint32_t flags)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;

	attr.flags = DFI_EVENTS | flags;
	attr.open_timeout_ms = attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", seat, &attr, &source), 0,
	    "%s", dfi_errmsg());
	return source;
}

static void push_from(struct dfi_source *source, uint64_t first, uint64_t last)
{
	for (; first <= last; first++) {
		struct kv kv = { first, first };

		cr_assert_eq(
		    dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
	}
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
}

/* As if its process had died. */
static void kill_source(struct dfi_source *source)
{
	dfi_source_abort(source);
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
}

static void *close_it(void *source)
{
	int ret = dfi_source_close(source);

	if (ret)
		cr_log_error("%d: %s", ret, dfi_errmsg());
	return ret ? source : NULL;
}

static void close_source(struct dfi_source *source, struct worker *worker)
{
	int64_t until = now_ms() + LONG_MS;
	void *failed = source;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, close_it, source), 0);
	while (pthread_tryjoin_np(thread, &failed)) {
		if (work(worker) == -ENOBUFS || worker->n_asked)
			ack(worker);
		worker->n_asked = 0;
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
	cr_assert_null(failed);
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

/*
 * A source that reads its input from the beginning, whatever was acknowledged.
 * It knows that all partitions are taken, and is connected: so no tuple waits,
 * and segments have the tuples in their order.
 */
static struct dfi_source *restart(uint32_t seat, uint32_t flags)
{
	struct dfi_source *source = source_at(seat, flags);
	int64_t until = now_ms() + LONG_MS;
	struct dfi_event event;
	uint64_t lowest;
	int ret;

	while ((ret = dfi_source_resume(source, &lowest, NULL, 0)) == -EAGAIN ||
	    (!ret && dfi_source_event(source, &event) == -EAGAIN)) {
		cr_assert_lt(now_ms(), until, "%s", dfi_errmsg());
		yield_times(1);
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(event.type, DFI_JOINED);
	return source;
}

static struct dfi_source *start(struct worker *worker, uint64_t last)
{
	struct dfi_source *source;

	create(DFI_ROUTE_HASH);
	open_worker(worker, 0, true);
	work_until_held(worker);
	source = restart(0, 0);
	push_from(source, 1, last);
	return source;
}

/* ---- What is dropped -------------------------------------------------------
 */

static int keep_stats(void *arg, const struct dfi_node_stats *stats)
{
	struct dfi_endpoint_stats *out = arg;
	uint32_t i;

	for (i = 0; i < stats->n_endpoints; i++)
		if (stats->endpoints[i].role == DFI_ROLE_TARGET &&
		    !stats->endpoints[i].peer)
			*out = stats->endpoints[i];
	return 0;
}

Test(filter, what_was_lent_is_dropped_when_its_source_returns)
{
	struct dfi_endpoint_stats all = { .filtered = 0 };
	struct dfi_target_stats stats;
	struct dfi_source *source;
	struct worker worker;
	uint64_t i;

	source = start(&worker, 20);
	work_until(&worker, 20, 0);
	/* Some are acknowledged, and some only lent. */
	ack(&worker);
	push_from(source, 21, 30);
	work_until(&worker, 30, 0);
	kill_source(source);
	source = restart(0, 0);
	push_from(source, 1, 40);
	work_until(&worker, 40, 30);
	dfi_target_query(worker.target, &stats);
	cr_assert_eq(stats.tuples, 40);
	cr_assert_eq(dfi_stats_list(rig.dfi, keep_stats, &all), 0);
	cr_assert_eq(all.filtered, 30);
	cr_assert_eq(all.tuples, 40);
	close_source(source, &worker);
	for (i = 1; i <= 40; i++)
		cr_assert_eq(worker.of[0][i], 1, "%lu", (unsigned long)i);
	finish(&worker);
}

Test(filter, what_the_store_has_is_dropped_after_a_take_over)
{
	struct worker first, second;
	struct dfi_source *source;
	uint64_t i;
	uint32_t p;

	source = start(&first, 30);
	work_until(&first, 30, 0);
	/* 25 are stored, and the target dies before it acknowledges them. */
	for (i = 1; i <= 25; i++)
		stored[first.partition[i]][0] = i;
	cr_assert_eq(dfi_target_close(first.target), 0);
	open_worker(&second, 1, true);
	work_until(&second, 5, 25);
	for (i = 26; i <= 30; i++)
		cr_assert_eq(second.of[0][i], 1, "%lu", (unsigned long)i);
	/* They are of one source's seat. */
	kill_source(source);
	source = restart(1, 0);
	push_from(source, 1, 30);
	work_until(&second, 35, 25);
	for (p = 0; p < PARTITIONS; p++)
		cr_assert_eq(stored[p][1], 0);
	close_source(source, &second);
	finish(&second);
}

Test(filter, a_take_without_positions_drops_nothing)
{
	struct worker first, second;
	struct dfi_source *source;
	uint64_t i;

	source = start(&first, 30);
	work_until(&first, 30, 0);
	for (i = 1; i <= 30; i++)
		stored[first.partition[i]][0] = i;
	cr_assert_eq(dfi_target_close(first.target), 0);
	open_worker(&second, 1, false);
	work_until(&second, 30, 0);
	/* What this target has lent is dropped all the same. */
	kill_source(source);
	source = restart(0, 0);
	push_from(source, 1, 31);
	work_until(&second, 31, 30);
	close_source(source, &second);
	finish(&second);
}

Test(filter, without_keys_nothing_is_dropped)
{
	struct dfi_source *source;
	struct worker worker;
	uint64_t i;

	create(DFI_ROUTE_ANY);
	open_worker(&worker, 0, true);
	source = restart(0, 0);
	push_from(source, 1, 20);
	work_until(&worker, 20, 0);
	kill_source(source);
	source = restart(0, 0);
	push_from(source, 1, 20);
	work_until(&worker, 40, 0);
	for (i = 1; i <= 20; i++)
		cr_assert_eq(worker.of[0][i], 2, "%lu", (unsigned long)i);
	close_source(source, &worker);
	finish(&worker);
}

/* ---- Segments with such tuples in their middle -----------------------------
 */

#define BEFORE (3 * SEGMENT) /* tuples before that segment */

/*
 * One segment, of which the store of the target that comes has the tuples of
 * every other partition. Sets kept to those that it has not. Those before come
 * first, so that no partition's tuples wait at the source any more.
 */
static struct dfi_source *fill(
    struct worker *first, struct worker *second, bool *kept, uint32_t *n_kept)
{
	struct dfi_source *source = start(first, BEFORE + SEGMENT);
	bool is_known[PARTITIONS] = { false }, keeps[PARTITIONS];
	uint32_t i, p, n_known = 0;

	work_until(first, BEFORE + SEGMENT, 0);
	for (i = 1; i <= BEFORE; i++)
		stored[first->partition[i]][0] = BEFORE;
	for (p = 0; p < PARTITIONS; p++)
		cr_assert_eq(stored[p][0], BEFORE);
	for (i = *n_kept = 0; i < SEGMENT; i++) {
		p = first->partition[BEFORE + i + 1];
		if (!is_known[p])
			keeps[p] = ++n_known % 2;
		is_known[p] = true;
		kept[i] = keeps[p];
		*n_kept += kept[i];
		if (!kept[i])
			stored[p][0] = BEFORE + SEGMENT;
	}
	cr_assert(*n_kept > 3 && *n_kept < SEGMENT - 3);
	kill_source(source);
	cr_assert_eq(dfi_target_close(first->target), 0);
	open_worker(second, 1, true);
	work_until_held(second);
	source = restart(0, 0);
	push_from(source, 1, BEFORE);
	work_until(second, 0, BEFORE);
	ack(second);
	push_from(source, BEFORE + 1, BEFORE + SEGMENT);
	return source;
}

/* Nothing is there yet, or an event is next. */
static void pass_over(struct worker *worker, int ret)
{
	cr_assert(ret == -ENOMSG || ret == -EAGAIN, "%s", dfi_errmsg());
	if (ret == -ENOMSG)
		take_event(worker);
	yield_times(1);
}

Test(filter, a_segment_is_lent_in_the_runs_between)
{
	struct worker first, second;
	struct dfi_source *source;
	uint32_t i, n_kept, n_runs = 0;
	bool kept[SEGMENT];

	source = fill(&first, &second, kept, &n_kept);
	work_until(&second, n_kept, BEFORE + SEGMENT - n_kept);
	for (i = 0; i < SEGMENT; i++) {
		cr_assert_eq(second.of[0][BEFORE + i + 1], kept[i], "%u", i);
		n_runs += kept[i] && (!i || !kept[i - 1]);
	}
	cr_assert_gt(n_runs, 1);
	cr_assert_eq(second.n_batches, n_runs);
	close_source(source, &second);
	finish(&second);
}

Test(filter, runs_are_lent_one_by_one_and_to_cursors)
{
	struct dfi_target_cursor cursor;
	struct worker first, second;
	struct dfi_source *source;
	const struct kv *kv;
	bool kept[SEGMENT];
	uint32_t n_kept, i;
	const void *tuple;
	int ret;

	source = fill(&first, &second, kept, &n_kept);
	/* One, the next ones by a cursor, and the rest one by one again. */
	while ((ret = dfi_target_consume(second.target, &tuple)) != 1)
		pass_over(&second, ret);
	see(&second, 0, tuple);
	cursor = dfi_target_cursor_open(second.target, sizeof(*kv));
	for (i = 0; i < n_kept - 2; i++) {
		kv = dfi_target_cursor_get(&cursor, sizeof(*kv));
		cr_assert_not_null(kv);
		second.of[0][kv->val]++;
	}
	cr_assert_eq(dfi_target_cursor_close(cursor), 0);
	cr_assert_eq(dfi_target_consume(second.target, &tuple), 1);
	see(&second, 0, tuple);
	cr_assert_eq(dfi_target_consume(second.target, &tuple), -EAGAIN);
	for (i = 0; i < SEGMENT; i++)
		cr_assert_eq(second.of[0][BEFORE + i + 1], kept[i], "%u", i);
	cr_assert_eq(filtered(&second), BEFORE + SEGMENT - n_kept);
	close_source(source, &second);
	finish(&second);
}

Test(filter, nothing_is_acknowledged_of_a_segment_with_a_run_to_come)
{
	struct worker first, second, third;
	struct dfi_source *source;
	struct dfi_batch batch;
	bool kept[SEGMENT];
	uint32_t n_kept;
	int ret;

	source = fill(&first, &second, kept, &n_kept);
	while ((ret = dfi_target_consume_batch(second.target, &batch)) <= 0)
		pass_over(&second, ret);
	cr_assert_lt(batch.count, n_kept);
	dfi_target_release(second.target, &batch);
	ack(&second);
	cr_assert_eq(dfi_target_close(second.target), 0);
	open_worker(&third, 0, true);
	work_until(&third, n_kept, SEGMENT - n_kept);
	close_source(source, &third);
	finish(&third);
}

/* ---- Room ------------------------------------------------------------------
 */

static bool try_push(struct dfi_source *source, uint64_t *n)
{
	struct kv kv = { *n + 1, *n + 1 };
	int ret = dfi_source_push(source, &kv);

	cr_assert(ret == 0 || ret == -EAGAIN, "%s", dfi_errmsg());
	*n += !ret;
	return !ret;
}

Test(filter, a_dropped_tuple_has_its_room_until_an_acknowledgement)
{
	int64_t until = now_ms() + LONG_MS;
	struct worker first, second;
	struct dfi_source *source;
	bool refused = false;
	uint64_t n = 0;

	source = start(&first, RING + 2 * SEGMENT);
	work_until(&first, RING + 2 * SEGMENT, 0);
	/* All is lent, and nothing stored, when its source returns. */
	kill_source(source);
	source = restart(0, DFI_NONBLOCK);
	while (work(&first) != -ENOBUFS) {
		refused = n < RING + 2 * SEGMENT && !try_push(source, &n);
		(void)dfi_source_flush(source);
		cr_assert_lt(now_ms(), until);
	}
	cr_assert_eq(first.n_lent, RING + 2 * SEGMENT);
	cr_assert_gt(filtered(&first), RING / 2);
	/* If the target dies now, the ring has the tuples. */
	cr_assert_eq(dfi_target_close(first.target), 0);
	open_worker(&second, 1, true);
	while (refused) {
		if (work(&second) == -ENOBUFS)
			ack(&second);
		refused = !try_push(source, &n);
		cr_assert_lt(now_ms(), until);
	}
	close_source(source, &second);
	cr_assert_eq(second.n_lent, n);
	cr_assert_eq(filtered(&second), 0);
	finish(&second);
}

Test(filter, a_partition_is_released_when_dropped_tuples_are_acknowledged)
{
	int64_t until = now_ms() + LONG_MS;
	struct dfi_event event = { 0 };
	struct worker first, second;
	struct dfi_source *source;
	struct dfi_batch batch;
	int ret;

	source = start(&first, 20);
	work_until(&first, 20, 0);
	ack(&first);
	kill_source(source);
	source = restart(0, 0);
	push_from(source, 1, 20);
	work_until(&first, 20, 20);
	open_worker(&second, 1, true);
	while (event.type != DFI_LEAVING) {
		ret = dfi_target_consume_batch(first.target, &batch);
		cr_assert(ret == -ENOMSG || ret == -EAGAIN, "%s", dfi_errmsg());
		if (ret == -ENOMSG)
			cr_assert_eq(dfi_target_event(first.target, &event), 0);
		cr_assert_lt(now_ms(), until);
	}
	assert_error(dfi_partition_release(first.target, event.partition),
	    -EBUSY, "acknowledge");
	ack(&first);
	cr_assert_eq(dfi_partition_release(first.target, event.partition), 0,
	    "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(first.target), 0);
	work_until_held(&second);
	close_source(source, &second);
	finish(&second);
}

/* ---- Epochs ----------------------------------------------------------------
 */

/* H3 of docs/open-flows.md. */
Test(filter, epochs_are_above_what_stores_know)
{
	struct worker workers[3];

	create(DFI_ROUTE_HASH);
	/* The flow was made anew, and the store was not. */
	open_with(&workers[0], 0, true, 41);
	work_until_held(&workers[0]);
	cr_assert_eq(workers[0].epoch, 42);
	cr_assert_eq(dfi_target_close(workers[0].target), 0);
	open_with(&workers[1], 0, true, 7);
	work_until_held(&workers[1]);
	cr_assert_eq(workers[1].epoch, 43);
	cr_assert_eq(dfi_target_close(workers[1].target), 0);
	open_with(&workers[2], 1, true, 1000);
	work_until_held(&workers[2]);
	cr_assert_eq(workers[2].epoch, 1001);
	finish(&workers[2]);
}

Test(filter, only_targets_of_partitions_have_stores_with_epochs)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.flags = DFI_EVENTS;
	attr.store_epoch = 1;
	create(DFI_ROUTE_ANY);
	assert_error(dfi_target_open(rig.other, "f", 0, &attr, &target),
	    -EINVAL, "store_epoch 1", "keys");
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	create(DFI_ROUTE_HASH);
	attr.store_epoch = UINT64_MAX;
	assert_error(dfi_target_open(rig.other, "f", 0, &attr, &target),
	    -EINVAL, "store_epoch", "at most 9223372036854775807");
}

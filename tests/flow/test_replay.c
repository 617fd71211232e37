/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open flows with replay: no tuple is missing when a target leaves or a source
 * returns, and targets that store input positions get each once. Rules
 * of dfi/replay.h, and R1 to R6 of docs/open-flows.md. proc/test_replay kills
 * processes.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "flow_help.h"

#define SEATS 4
#define SEGMENT 8u /* tuples */
#define RING 16u   /* segments */
#define WINDOW (SEGMENT * RING)
#define PARTITIONS 32u
#define MOST 400u /* positions of a source */

static struct rig rig;

/* What the targets have stored: effects, and the positions that they are of. */
static struct {
	uint64_t epochs[PARTITIONS];
	uint64_t positions[PARTITIONS][SEATS];
	uint32_t effects[SEATS][MOST + 1];
} store;

static void setup(void)
{
	memset(&store, 0, sizeof(store));
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(replay, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_attr flow_attr(void)
{
	/* The goal DFI_LATENCY: each tuple is a segment. */
	bool latency = test_setting("LATENCY", 0);

	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.goal = latency ? DFI_LATENCY : DFI_BANDWIDTH,
		.segment_size = latency
		    ? 0
		    : SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = latency ? SEGMENT * RING : RING,
		.open = {
			.membership = DFI_MEMBERS_OPEN,
			.on_loss = DFI_ON_LOSS_REPLAY,
			.partitions = PARTITIONS,
			.input_position = "val",
		},
	};
}

static void create(uint32_t min_targets)
{
	struct dfi_flow_attr attr = flow_attr();

	attr.open.min_targets = min_targets;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

/* ---- A target of the application -------------------------------------------
 */

struct worker {
	struct dfi_target *target;
	uint32_t n_held;
	uint32_t n_left, n_asked; /* events */
	/* Effects that are not stored yet, with all before them. */
	uint64_t seen[PARTITIONS][SEATS];
	bool held[PARTITIONS];
	uint32_t pending[SEATS][MOST + 1];
	uint32_t n_consumed;
};

static void open_worker(struct worker *worker, uint32_t seat)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;

	memset(worker, 0, sizeof(*worker));
	attr.flags = DFI_EVENTS | DFI_NONBLOCK;
	cr_assert_eq(
	    dfi_target_open(rig.other, "f", seat, &attr, &worker->target), 0,
	    "%s", dfi_errmsg());
}

/* Store what was consumed, and acknowledge it. */
static void commit(struct worker *worker)
{
	uint32_t p, s, i;

	for (p = 0; p < PARTITIONS; p++)
		if (worker->held[p])
			memcpy(store.positions[p], worker->seen[p],
			    sizeof(store.positions[p]));
	for (s = 0; s < SEATS; s++)
		for (i = 0; i <= MOST; i++)
			store.effects[s][i] += worker->pending[s][i];
	memset(worker->pending, 0, sizeof(worker->pending));
	cr_assert_eq(dfi_target_ack(worker->target), 0, "%s", dfi_errmsg());
}

static void gain(struct worker *worker, const struct dfi_event *event)
{
	uint32_t p = event->partition;
	uint64_t epoch = 0;

	cr_assert_eq(dfi_partition_epoch(worker->target, p, &epoch), 0, "%s",
	    dfi_errmsg());
	cr_assert_eq(epoch, event->epoch);
	cr_assert_gt(epoch, store.epochs[p]);
	store.epochs[p] = epoch;
	memcpy(worker->seen[p], store.positions[p], sizeof(worker->seen[p]));
	worker->held[p] = true;
	worker->n_held++;
	cr_assert_eq(
	    dfi_partition_take(worker->target, p, store.positions[p], SEATS), 0,
	    "%s", dfi_errmsg());
}

static void take_event(struct worker *worker)
{
	struct dfi_event event;

	cr_assert_eq(
	    dfi_target_event(worker->target, &event), 0, "%s", dfi_errmsg());
	if (event.type == DFI_GAINED)
		gain(worker, &event);
	if (event.type == DFI_LEAVING) {
		commit(worker);
		worker->held[event.partition] = false;
		worker->n_held--;
		worker->n_left++;
		cr_assert_eq(
		    dfi_partition_release(worker->target, event.partition), 0,
		    "%s", dfi_errmsg());
	}
	worker->n_asked += event.type == DFI_ACK_DUE;
}

static void take_tuples(struct worker *worker, const struct dfi_batch *batch)
{
	const struct kv *kv = batch->tuples;
	uint32_t i, p = 0, s = batch->source;

	for (i = 0; i < batch->count; i++, kv++) {
		cr_assert_eq(dfi_target_partition(worker->target, kv, &p), 0);
		cr_assert(worker->held[p]);
		cr_assert_leq(kv->val, MOST);
		worker->n_consumed++;
		cr_assert_gt(kv->val, worker->seen[p][s], "it was lent before");
		worker->seen[p][s] = kv->val;
		worker->pending[s][kv->val]++;
	}
}

/* Tuples that came again, and were not lent. */
static uint64_t filtered(const struct worker *worker)
{
	uint64_t n = 0;

	cr_assert_eq(dfi_target_filtered(worker->target, &n), 0);
	return n;
}

/* Consume what is there, without an acknowledgement. Returns the last error. */
static int work(struct worker *worker)
{
	struct dfi_batch batch;
	int ret;

	for (;;) {
		ret = dfi_target_consume_batch(worker->target, &batch);
		if (ret == -ENOMSG) {
			take_event(worker);
			continue;
		}
		if (ret <= 0)
			return ret;
		take_tuples(worker, &batch);
		dfi_target_release(worker->target, &batch);
	}
}

static void work_until_held(struct worker *worker, uint32_t n)
{
	int64_t until = now_ms() + LONG_MS;

	while (worker->n_held != n) {
		(void)work(worker);
		cr_assert_lt(now_ms(), until, "%u held", worker->n_held);
		yield_times(1);
	}
}

static void work_until_consumed(struct worker *worker, uint32_t n)
{
	int64_t until = now_ms() + LONG_MS;

	while (worker->n_consumed < n) {
		(void)work(worker);
		cr_assert_lt(
		    now_ms(), until, "%u were consumed", worker->n_consumed);
		yield_times(1);
	}
	cr_assert_eq(worker->n_consumed, n);
}

/* ---- A source of the application -------------------------------------------
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

static struct dfi_source *open_nonblocking_at(uint32_t seat)
{
	return open_source(rig.dfi, "f", seat, DFI_NONBLOCK);
}

static int push(struct dfi_source *source, uint64_t position)
{
	struct kv kv = { position, position };

	return dfi_source_push(source, &kv);
}

static void push_from(struct dfi_source *source, uint64_t first, uint64_t last)
{
	for (; first <= last; first++)
		cr_assert_eq(push(source, first), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
}

/* As if its process had died. */
static void kill_source(struct dfi_source *source)
{
	dfi_source_abort(source);
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
}

struct closer {
	struct dfi_source *source;
	pthread_t thread;
	_Atomic bool done;
	int ret;
};

static void *close_it(void *arg)
{
	struct closer *closer = arg;

	closer->ret = dfi_source_close(closer->source);
	closer->done = true;
	return NULL;
}

static void start_close(struct closer *closer, struct dfi_source *source)
{
	*closer = (struct closer){ .source = source };
	cr_assert_eq(
	    pthread_create(&closer->thread, NULL, close_it, closer), 0);
}

/* Close a source whose target acknowledges when it is asked. */
static void close_source(
    struct dfi_source *source, struct worker *workers, uint32_t n)
{
	int64_t until = now_ms() + LONG_MS;
	struct closer closer;
	uint32_t i;

	start_close(&closer, source);
	while (!closer.done) {
		for (i = 0; i < n; i++) {
			if (work(&workers[i]) == -ENOBUFS || workers[i].n_asked)
				commit(&workers[i]);
			workers[i].n_asked = 0;
		}
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
	pthread_join(closer.thread, NULL);
	cr_assert_eq(closer.ret, 0);
}

static void finish(struct worker *workers, uint32_t n)
{
	int64_t until = now_ms() + LONG_MS;
	uint32_t i;

	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0, "%s", dfi_errmsg());
	for (i = 0; i < n; i++) {
		while (work(&workers[i]) != 0) {
			cr_assert_lt(now_ms(), until, "%s", dfi_errmsg());
			yield_times(1);
		}
		cr_assert_eq(dfi_target_close(workers[i].target), 0);
	}
}

/* Each position of a source has taken effect once. */
static void expect_effects(uint32_t source, uint32_t n)
{
	uint32_t i;

	for (i = 1; i <= n; i++)
		cr_assert_eq(store.effects[source][i], 1, "position %u: %u", i,
		    store.effects[source][i]);
}

/* ---- What is refused -------------------------------------------------------
 */

Test(replay, is_refused_where_this_version_has_none)
{
	struct dfi_flow_attr attr = flow_attr();
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;
	struct dfi_source *source;
	struct worker worker;

	attr.kind = DFI_REPLICATE;
	attr.open.partitions = 0;
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -EOPNOTSUPP,
	    "DFI_ON_LOSS_REPLAY", "shuffle");
	attr = flow_attr();
	attr.open.input_position = NULL;
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -EINVAL,
	    "input_position", "NULL");
	attr.open.input_position = "position";
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -EINVAL,
	    "input_position", "no such field");
	attr = flow_attr();
	attr.open.on_loss = DFI_ON_LOSS_DROP;
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -EINVAL,
	    "input_position", "DFI_ON_LOSS_REPLAY");
	create(1);
	assert_error(dfi_target_open(rig.other, "f", 0, &target_attr, &target),
	    -EINVAL, "DFI_EVENTS");
	open_worker(&worker, 0);
	work_until_held(&worker, PARTITIONS);
	source = open_at(0);
	close_source(source, &worker, 1);
	finish(&worker, 1);
}

Test(replay, calls_are_for_flows_with_it)
{
	struct dfi_flow_attr attr = flow_attr();
	struct dfi_source *source;
	struct dfi_target *target;
	uint64_t number;
	uint32_t p;

	attr.open.on_loss = DFI_ON_LOSS_DROP;
	attr.open.input_position = NULL;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	assert_error(dfi_target_ack(target), -EPROTOTYPE, "REPLAY");
	assert_error(
	    dfi_target_partition(target, &number, &p), -EPROTOTYPE, "REPLAY");
	assert_error(
	    dfi_partition_take(target, 0, NULL, 0), -EPROTOTYPE, "REPLAY");
	assert_error(
	    dfi_partition_epoch(target, 0, &number), -EPROTOTYPE, "REPLAY");
	assert_error(
	    dfi_source_resume(source, &number, NULL, 0), -EPROTOTYPE, "REPLAY");
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(replay, input_positions_rise)
{
	struct worker worker;
	struct dfi_source *source;

	create(1);
	open_worker(&worker, 0);
	work_until_held(&worker, PARTITIONS);
	source = open_at(0);
	assert_error(push(source, 0), -EINVAL, "input position 0");
	push_from(source, 5, 5);
	assert_error(push(source, 5), -EINVAL, "input position 5");
	assert_error(push(source, 4), -EINVAL, "input position 4", "was 5");
	push_from(source, 7, 7);
	close_source(source, &worker, 1);
	cr_assert_eq(worker.n_consumed, 2);
	cr_assert_eq(store.effects[0][5] + store.effects[0][7], 2);
	finish(&worker, 1);
}

/* ---- Acknowledgements ------------------------------------------------------
 */

Test(replay, a_ring_gets_room_by_an_acknowledgement)
{
	struct worker worker;
	struct dfi_source *source;
	uint32_t n_again = 0;
	uint64_t i;
	int ret;

	create(1);
	open_worker(&worker, 0);
	work_until_held(&worker, PARTITIONS);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	/* Until the source knows that the target has its partitions. */
	while (push(source, 1) == -EAGAIN)
		yield_times(1);
	cr_assert_eq(dfi_source_flush(source), 0);
	work_until_consumed(&worker, 1);
	commit(&worker);
	for (i = 2; i < WINDOW + 2; i++) {
		struct kv kv = { i, i };

		cr_assert_eq(push_soon(source, &kv), 0, "%s", dfi_errmsg());
	}
	work_until_consumed(&worker, WINDOW + 1);
	/* One segment over. */
	assert_error(push(source, i), -EAGAIN, "");
	assert_error(
	    work(&worker), -ENOBUFS, "ring of source 0", "dfi_target_ack");
	/* Neither is sticky. */
	commit(&worker);
	/* It was told twice, so the source may have been, once. */
	while ((ret = push(source, i)) == -EAGAIN ||
	    (ret == -ENOBUFS && !n_again++))
		yield_times(1);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(work(&worker), -EAGAIN);
	close_source(source, &worker, 1);
	expect_effects(0, WINDOW + 2);
	cr_assert_eq(filtered(&worker), 0);
	finish(&worker, 1);
}

struct pusher {
	struct dfi_source *source;
	uint64_t first, last;
	pthread_t thread;
	_Atomic bool done;
	int ret;
	char text[512];
};

static void *push_all(void *arg)
{
	struct pusher *pusher = arg;

	do
		pusher->ret = push(pusher->source, pusher->first);
	while (!pusher->ret && pusher->first++ < pusher->last);
	snprintf(pusher->text, sizeof(pusher->text), "%s", dfi_errmsg());
	pusher->done = true;
	return NULL;
}

static void start_push(struct pusher *pusher, struct dfi_source *source,
    uint64_t first, uint64_t last)
{
	*pusher =
	    (struct pusher){ .source = source, .first = first, .last = last };
	cr_assert_eq(
	    pthread_create(&pusher->thread, NULL, push_all, pusher), 0);
}

/* A checkpoint interval of a ring is right, and one segment more is not. */
Test(replay, a_window_that_is_too_small_is_an_error_of_its_source)
{
	const uint64_t fits = WINDOW + 1, over = fits + SEGMENT;
	int64_t until = now_ms() + LONG_MS;
	struct dfi_source *source;
	struct pusher pusher;
	struct worker worker;

	create(1);
	open_worker(&worker, 0);
	work_until_held(&worker, PARTITIONS);
	source = open_at(0);
	/* It knows the owner: from now on all segments are whole. */
	push_from(source, 1, 1);
	work_until_consumed(&worker, 1);
	commit(&worker);
	push_from(source, 2, fits);
	work_until_consumed(&worker, WINDOW + 1);
	/* It was told once, and may store for as long as it likes. */
	start_push(&pusher, source, fits + 1, over);
	yield_times(1000);
	cr_assert(!pusher.done, "%s", pusher.text);
	while (!pusher.done) {
		cr_assert_eq(work(&worker), -ENOBUFS);
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
	pthread_join(pusher.thread, NULL);
	cr_assert_eq(pusher.ret, -ENOBUFS, "%s", pusher.text);
	cr_assert(strstr(pusher.text, "target 0") &&
		strstr(pusher.text, "window") &&
		strstr(pusher.text, "dfi_target_ack") &&
		strstr(pusher.text, "spill_dir"),
	    "%s", pusher.text);
	/* Nothing was taken, and it is not sticky. */
	cr_assert_eq(pusher.first, fits + 1);
	commit(&worker);
	push_from(source, pusher.first, over);
	work_until_consumed(&worker, (uint32_t)over);
	commit(&worker);
	close_source(source, &worker, 1);
	expect_effects(0, (uint32_t)over);
	finish(&worker, 1);
}

Test(replay, of_a_segment_with_unread_tuples_nothing_is_acknowledged)
{
	struct worker worker, next;
	struct dfi_source *source;
	uint32_t whole = test_setting("LATENCY", 0) != 0;
	struct dfi_target_cursor cursor;
	struct dfi_batch batch;
	const void *tuple;

	create(1);
	open_worker(&worker, 0);
	work_until_held(&worker, PARTITIONS);
	source = open_at(0);
	push_from(source, 1, 1);
	work_until_consumed(&worker, 1);
	commit(&worker);
	push_from(source, 2, SEGMENT + 1);
	cr_assert_eq(consume_soon(worker.target, &tuple), 1);
	cr_assert_eq(dfi_target_ack(worker.target), 0);
	/* For latency that was a whole segment. */
	store.effects[0][2] += whole;
	/* A batch or a cursor is out. */
	cr_assert_gt(dfi_target_consume_batch(worker.target, &batch), 0);
	assert_error(dfi_target_ack(worker.target), -EBUSY, "");
	dfi_target_release(worker.target, &batch);
	cursor = dfi_target_cursor_open(worker.target, sizeof(struct kv));
	assert_error(dfi_target_ack(worker.target), -EBUSY, "");
	cr_assert_eq(dfi_target_cursor_close(cursor), 0);
	cr_assert_eq(dfi_target_close(worker.target), 0);
	open_worker(&next, 1);
	work_until_consumed(&next, SEGMENT - whole);
	close_source(source, &next, 1);
	expect_effects(0, SEGMENT + 1);
	finish(&next, 1);
}

Test(replay, a_source_closes_when_all_is_acknowledged)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;
	struct worker worker;
	struct closer closer;

	create(1);
	open_worker(&worker, 0);
	work_until_held(&worker, PARTITIONS);
	source = open_at(0);
	push_from(source, 1, 3);
	work_until_consumed(&worker, 3);
	start_close(&closer, source);
	while (!worker.n_asked)
		cr_assert_eq(work(&worker), -EAGAIN, "%s", dfi_errmsg());
	cr_assert(!closer.done);
	commit(&worker);
	pthread_join(closer.thread, NULL);
	cr_assert_eq(closer.ret, 0);
	expect_effects(0, 3);
	/* Nobody acknowledges. */
	attr.close_timeout_ms = 50;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 1, &attr, &source), 0);
	push_from(source, 1, 1);
	assert_error(dfi_source_close(source), -ETIMEDOUT, "acknowledged");
	work_until_consumed(&worker, 4);
	finish(&worker, 1);
}

/* ---- Losses ----------------------------------------------------------------
 */

/* It says no more of what it has: others get it. */
static void cancel(struct worker *worker)
{
	struct dfi_event event;
	const void *tuple;
	uint64_t epoch;

	cr_assert_eq(dfi_target_cancel(worker->target), 0, "%s", dfi_errmsg());
	assert_error(dfi_target_consume(worker->target, &tuple), -ECANCELED,
	    "was cancelled here");
	assert_error(
	    dfi_target_ack(worker->target), -ECANCELED, "was cancelled here");
	assert_error(dfi_target_event(worker->target, &event), -ECANCELED,
	    "was cancelled here");
	assert_error(dfi_partition_epoch(worker->target, 0, &epoch), -ECANCELED,
	    "was cancelled here");
}

static void lose_target(bool cancels)
{
	struct worker first, second;
	struct dfi_source *source;

	create(1);
	open_worker(&first, 0);
	work_until_held(&first, PARTITIONS);
	source = open_at(2);
	push_from(source, 1, 20);
	work_until_consumed(&first, 20);
	commit(&first);
	/* Consumed and given back, but not stored; not consumed; not sent. */
	push_from(source, 21, 35);
	work_until_consumed(&first, 35);
	push_from(source, 36, 45);
	cr_assert_eq(push(source, 46), 0);
	if (cancels)
		cancel(&first);
	else
		cr_assert_eq(dfi_target_close(first.target), 0);
	/* Before and behind the source's own look at it. */
	push_from(source, 47, 60);
	/* The seat is free. */
	open_worker(&second, cancels ? 0 : 1);
	push_from(source, 61, 70);
	close_source(source, &second, 1);
	cr_assert_eq(second.n_consumed, 50);
	cr_assert_eq(filtered(&second), 0);
	expect_effects(2, 70);
	/* It leaves the next holder's keys alone. */
	if (cancels)
		cr_assert_eq(dfi_target_close(first.target), 0);
	finish(&second, 1);
}

Test(replay, what_a_lost_target_has_not_acknowledged_goes_to_the_next_owner)
{
	lose_target(false);
}

Test(replay, what_one_that_cancels_has_not_acknowledged_goes_to_the_next_owner)
{
	lose_target(true);
}

/* Its ring is full, and a push waits for it. */
Test(replay, a_target_that_cancels_ends_the_wait_for_it)
{
	struct worker first, second;
	struct dfi_source *source;
	int64_t until = now_ms() + LONG_MS;
	struct dfi_batch batch;
	uint64_t position = 1;
	int ret;

	create(1);
	open_worker(&first, 0);
	work_until_held(&first, PARTITIONS);
	source = open_nonblocking_at(0);
	/* Until the ring is there, and then until it is full. */
	while ((ret = push(source, position)) == 0 || position == 1) {
		position += ret == 0;
		cr_assert_lt(now_ms(), until);
	}
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
	/* Over a network they are on their way. */
	while ((ret = dfi_target_consume_batch(first.target, &batch)) <= 0) {
		cr_assert_lt(now_ms(), until);
		if (ret == -EAGAIN)
			continue;
		cr_assert_eq(ret, -ENOMSG, "%s", dfi_errmsg());
		take_event(&first);
	}
	assert_error(dfi_target_cancel(first.target), -EBUSY, "batch");
	dfi_target_release(first.target, &batch);
	cancel(&first);
	open_worker(&second, 1);
	/* Segments that are sent again may not be full, and fill the ring. */
	while ((ret = push(source, position)) == -EAGAIN) {
		if (work(&second) == -ENOBUFS)
			commit(&second);
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	close_source(source, &second, 1);
	cr_assert_eq(filtered(&second), 0);
	expect_effects(0, (uint32_t)position);
	cr_assert_eq(dfi_target_close(first.target), 0);
	finish(&second, 1);
}

Test(replay, a_lost_target_s_partitions_go_to_all_others)
{
	struct worker workers[3];
	struct dfi_source *source;
	uint32_t i, lost, n = 0;

	create(3);
	for (i = 0; i < 3; i++)
		open_worker(&workers[i], i);
	for (i = 0; i < 3; i++)
		work_until_held(&workers[i], (PARTITIONS + 2 - i) / 3);
	source = open_at(0);
	push_from(source, 1, 50);
	while (n < 50)
		for (i = n = 0; i < 3; i++) {
			(void)work(&workers[i]);
			n += workers[i].n_consumed;
		}
	commit(&workers[0]);
	lost = workers[2].n_consumed;
	n = workers[0].n_consumed + workers[1].n_consumed;
	cr_assert_gt(lost, 0);
	cr_assert_eq(dfi_target_close(workers[2].target), 0);
	push_from(source, 51, 80);
	close_source(source, workers, 2);
	cr_assert_eq(
	    workers[0].n_consumed + workers[1].n_consumed, n + lost + 30);
	cr_assert_eq(filtered(&workers[0]) + filtered(&workers[1]), 0);
	expect_effects(0, 80);
	finish(workers, 2);
}

Test(replay, a_partition_is_released_when_all_is_acknowledged)
{
	struct worker first, second;
	struct dfi_source *source;
	struct dfi_event event = { 0 };
	int64_t until = now_ms() + LONG_MS;
	struct dfi_batch batch;
	uint64_t epoch;
	int ret;

	create(1);
	open_worker(&first, 0);
	assert_error(
	    dfi_partition_take(first.target, 0, NULL, 1), -EINVAL, "sources");
	assert_error(dfi_partition_take(first.target, PARTITIONS, NULL, 0),
	    -ERANGE, "32");
	assert_error(dfi_partition_epoch(first.target, PARTITIONS, &epoch),
	    -ERANGE, "32");
	work_until_held(&first, PARTITIONS);
	assert_error(dfi_partition_take(first.target, 0, NULL, 0), -EINVAL,
	    "not gained");
	source = open_at(0);
	push_from(source, 1, 30);
	work_until_consumed(&first, 30);
	open_worker(&second, 1);
	assert_error(
	    dfi_partition_epoch(second.target, 0, &epoch), -EINVAL, "not here");
	/* A hand-over ends with what is acknowledged. */
	while (event.type != DFI_LEAVING) {
		ret = dfi_target_consume_batch(first.target, &batch);
		cr_assert(ret == -ENOMSG || ret == -EAGAIN, "%s", dfi_errmsg());
		if (ret == -ENOMSG)
			cr_assert_eq(dfi_target_event(first.target, &event), 0);
		cr_assert_lt(now_ms(), until);
	}
	assert_error(dfi_partition_release(first.target, event.partition),
	    -EBUSY, "acknowledge");
	commit(&first);
	first.held[event.partition] = false;
	first.n_held--;
	cr_assert_eq(dfi_partition_release(first.target, event.partition), 0,
	    "%s", dfi_errmsg());
	work_until_held(&first, PARTITIONS / 2);
	/* Its epochs are higher: see gain(). */
	work_until_held(&second, PARTITIONS / 2);
	push_from(source, 31, 60);
	/* What has moved is not sent again, whoever dies. */
	cr_assert_eq(dfi_target_close(first.target), 0);
	close_source(source, &second, 1);
	cr_assert_eq(second.n_consumed, 30);
	expect_effects(0, 60);
	finish(&second, 1);
}

Test(replay, tuples_that_wait_come_behind_those_of_a_lost_target)
{
	int64_t until = now_ms() + LONG_MS;
	struct worker first, second;
	struct dfi_source *source;
	struct dfi_event event = { 0 };
	struct dfi_batch batch;
	int ret;

	create(1);
	open_worker(&first, 0);
	work_until_held(&first, PARTITIONS);
	source = open_at(0);
	push_from(source, 1, 30);
	work_until_consumed(&first, 30);
	open_worker(&second, 1);
	/* A hand-over that does not end: half of the tuples wait. */
	while (event.type != DFI_LEAVING) {
		ret = dfi_target_consume_batch(first.target, &batch);
		cr_assert(ret == -ENOMSG || ret == -EAGAIN, "%s", dfi_errmsg());
		if (ret == -ENOMSG)
			cr_assert_eq(dfi_target_event(first.target, &event), 0);
		cr_assert_lt(now_ms(), until);
	}
	push_from(source, 31, 60);
	cr_assert_eq(dfi_target_close(first.target), 0);
	close_source(source, &second, 1);
	cr_assert_eq(second.n_consumed, 60);
	/* In order: otherwise the later ones would have hidden others. */
	cr_assert_eq(filtered(&second), 0);
	expect_effects(0, 60);
	finish(&second, 1);
}

/* ---- Sources that return ---------------------------------------------------
 */

static uint64_t resume(
    struct dfi_source *source, struct worker *workers, uint32_t n)
{
	uint64_t lowest = UINT64_MAX, positions[PARTITIONS];
	uint32_t i;
	int ret;

	do {
		for (i = 0; i < n; i++)
			(void)work(&workers[i]);
		ret = dfi_source_resume(source, &lowest, positions, PARTITIONS);
		cr_assert(ret == 0 || ret == -EAGAIN, "%s", dfi_errmsg());
	} while (ret);
	for (i = 0; i < PARTITIONS; i++)
		cr_assert_geq(positions[i], lowest);
	return lowest;
}

/* For latency, the last segment of a target may be one before the last. */
static uint64_t resume_at(
    struct dfi_source *source, struct worker *workers, uint64_t most)
{
	uint64_t lowest = resume(source, workers, 2);

	cr_assert(test_setting("LATENCY", 0) ? lowest <= most : lowest == most,
	    "%lu", (unsigned long)lowest);
	return lowest;
}

Test(replay, a_source_that_returns_learns_what_was_acknowledged)
{
	struct worker workers[2];
	struct dfi_source *source;
	uint64_t lowest = 0, i;
	uint32_t again = 0;

	create(2);
	open_worker(&workers[0], 0);
	open_worker(&workers[1], 3);
	for (i = 0; i < 2; i++)
		work_until_held(&workers[i], PARTITIONS / 2);
	source = open_source(rig.dfi, "f", 2, DFI_NONBLOCK);
	assert_error(
	    dfi_source_resume(source, NULL, NULL, 0), -EINVAL, "lowest");
	assert_error(dfi_source_resume(source, &lowest, &lowest, 1), -EINVAL,
	    "32 partitions");
	cr_assert_eq(resume(source, workers, 2), 0);
	for (i = 1; i <= 30; i++)
		while (push(source, i) == -EAGAIN)
			yield_times(1);
	cr_assert_eq(dfi_source_flush(source), 0);
	while (workers[0].n_consumed + workers[1].n_consumed < 30)
		for (i = 0; i < 2; i++)
			(void)work(&workers[i]);
	commit(&workers[0]);
	commit(&workers[1]);
	kill_source(source);
	source = open_source(rig.dfi, "f", 2, DFI_NONBLOCK);
	/* Also of partitions without tuples. */
	lowest = resume_at(source, workers, 30);
	again += (uint32_t)(30 - lowest);
	/* Sent, but not acknowledged by all. */
	for (i = lowest + 1; i <= 50; i++)
		while (push(source, i) == -EAGAIN)
			yield_times(1);
	cr_assert_eq(dfi_source_flush(source), 0);
	while (workers[0].n_consumed + workers[1].n_consumed < 50)
		for (i = 0; i < 2; i++)
			(void)work(&workers[i]);
	commit(&workers[0]);
	kill_source(source);
	source = open_source(rig.dfi, "f", 2, DFI_NONBLOCK);
	lowest = resume_at(source, workers, 30);
	again += (uint32_t)(50 - lowest);
	for (i = lowest + 1; i <= 60; i++)
		while (push(source, i) == -EAGAIN)
			yield_times(1);
	close_source(source, workers, 2);
	cr_assert_eq(filtered(&workers[0]) + filtered(&workers[1]), again);
	expect_effects(2, 60);
	finish(workers, 2);
}

/* R4: a segment says nothing of tuples that wait behind it. */
Test(replay, a_resume_is_not_behind_tuples_that_wait)
{
	struct dfi_flow_attr attr = flow_attr();
	struct worker first, second;
	int64_t until = now_ms() + LONG_MS;
	struct dfi_source *source;
	uint64_t lowest, i;

	attr.open.hold_bytes = MOST * sizeof(struct kv);
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
	open_worker(&first, 0);
	work_until_held(&first, PARTITIONS);
	source = open_at(0);
	push_from(source, 1, WINDOW / 2);
	work_until_consumed(&first, WINDOW / 2);
	cr_assert_eq(dfi_target_close(first.target), 0);
	/* More than a ring waits for the next owner. */
	push_from(source, WINDOW / 2 + 1, 2 * WINDOW);
	open_worker(&second, 1);
	work_until_held(&second, PARTITIONS);
	while (work(&second) != -ENOBUFS) {
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
	commit(&second);
	kill_source(source);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	lowest = resume(source, &second, 1);
	cr_assert_leq(lowest, WINDOW, "%lu", (unsigned long)lowest);
	for (i = lowest + 1; i <= 2 * WINDOW + 10; i++)
		while (push(source, i) == -EAGAIN) {
			(void)work(&second);
			commit(&second);
		}
	close_source(source, &second, 1);
	expect_effects(0, 2 * WINDOW + 10);
	finish(&second, 1);
}

Test(replay, a_resume_that_may_not_wait_can_be_repeated)
{
	struct dfi_source *source;
	struct worker worker;
	uint64_t lowest = 1;

	create(1);
	open_worker(&worker, 0);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	/* Nobody has taken a partition. */
	assert_error(dfi_source_resume(source, &lowest, NULL, 0), -EAGAIN, "");
	cr_assert_eq(lowest, 1);
	cr_assert_eq(resume(source, &worker, 1), 0);
	close_source(source, &worker, 1);
	finish(&worker, 1);
}

Test(replay, a_resume_that_timed_out_can_be_repeated)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;
	struct worker worker;
	uint64_t lowest = 1;
	int ret;

	create(1);
	open_worker(&worker, 0);
	attr.stall_timeout_ms = 20;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, &attr, &source), 0, "%s",
	    dfi_errmsg());
	/* Nobody has taken a partition. */
	assert_error(
	    dfi_source_resume(source, &lowest, NULL, 0), -ETIMEDOUT, "");
	work_until_held(&worker, PARTITIONS);
	do
		ret = dfi_source_resume(source, &lowest, NULL, 0);
	while (ret == -ETIMEDOUT);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(lowest, 0);
	close_source(source, &worker, 1);
	finish(&worker, 1);
}

Test(replay, source_and_target_die_and_the_input_is_read_again)
{
	struct worker first, second;
	struct dfi_source *source;
	uint64_t lowest;

	create(1);
	open_worker(&first, 0);
	work_until_held(&first, PARTITIONS);
	source = open_at(1);
	push_from(source, 1, 20);
	work_until_consumed(&first, 20);
	commit(&first);
	push_from(source, 21, 40);
	work_until_consumed(&first, 40);
	kill_source(source);
	cr_assert_eq(dfi_target_close(first.target), 0);
	open_worker(&second, 0);
	work_until_held(&second, PARTITIONS);
	source = open_source(rig.dfi, "f", 1, DFI_NONBLOCK);
	/* The store knows of partitions that had tuples. */
	lowest = resume(source, &second, 1);
	cr_assert_leq(lowest, 20);
	for (lowest++; lowest <= 50; lowest++)
		while (push(source, lowest) == -EAGAIN)
			(void)work(&second);
	close_source(source, &second, 1);
	expect_effects(1, 50);
	finish(&second, 1);
}

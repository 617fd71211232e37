/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open flows with replay that do not route by keys: R8 of docs/open-flows.md.
 * Tuples come at least once, whichever target is lost.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "flow_help.h"

#define SEATS 3
#define SEGMENT 4u /* tuples */
#define RING 32u   /* segments */
#define WINDOW (SEGMENT * RING)
#define MOST 400u /* positions of a source */

static struct rig rig;

/* How often each position of a source took effect, at any target. */
static uint32_t effects[SEATS][MOST + 1];

static void setup(void)
{
	memset(effects, 0, sizeof(effects));
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(replay_ways, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_attr flow_attr(uint32_t routing)
{
	/* The goal DFI_LATENCY: each tuple is a segment. */
	bool latency = test_setting("LATENCY", 0);

	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.routing = routing,
		.goal = latency ? DFI_LATENCY : DFI_BANDWIDTH,
		.segment_size = latency
		    ? 0
		    : SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = latency ? SEGMENT * RING : RING,
		.open = {
			.membership = DFI_MEMBERS_OPEN,
			.on_loss = DFI_ON_LOSS_REPLAY,
			.input_position = "val",
		},
	};
}

static void create(uint32_t routing, uint32_t min_targets)
{
	struct dfi_flow_attr attr = flow_attr(routing);

	attr.open.min_targets = min_targets;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

/* ---- A target of the application -------------------------------------------
 */

struct worker {
	struct dfi_target *target;
	uint32_t n_consumed, n_joined, n_asked;
	uint32_t pending[SEATS][MOST + 1]; /* effects that are not stored */
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
	uint32_t s, i;

	for (s = 0; s < SEATS; s++)
		for (i = 0; i <= MOST; i++)
			effects[s][i] += worker->pending[s][i];
	memset(worker->pending, 0, sizeof(worker->pending));
	cr_assert_eq(dfi_target_ack(worker->target), 0, "%s", dfi_errmsg());
}

static void take_event(struct worker *worker)
{
	struct dfi_event event;

	cr_assert_eq(
	    dfi_target_event(worker->target, &event), 0, "%s", dfi_errmsg());
	worker->n_joined += event.type == DFI_JOINED;
	worker->n_asked += event.type == DFI_ACK_DUE;
}

/* Consume what is there, without an acknowledgement. Returns the last error. */
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
		for (i = 0; i < batch.count; i++, kv++) {
			cr_assert_leq(kv->val, MOST);
			worker->pending[batch.source][kv->val]++;
		}
		worker->n_consumed += batch.count;
		dfi_target_release(worker->target, &batch);
	}
}

static uint32_t work_all(struct worker *workers, uint32_t n)
{
	uint32_t i, consumed = 0;

	for (i = 0; i < n; i++) {
		(void)work(&workers[i]);
		consumed += workers[i].n_consumed;
	}
	return consumed;
}

static void work_until(struct worker *workers, uint32_t n, uint32_t consumed)
{
	int64_t until = now_ms() + LONG_MS;

	while (work_all(workers, n) < consumed) {
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
}

/* ---- A source of the application -------------------------------------------
 */

static struct dfi_source *open_at(uint32_t seat, uint32_t flags)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;

	attr.flags = flags;
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

static int push_to(struct dfi_source *source, uint32_t seat, uint64_t position)
{
	struct kv kv = { seat, position };

	return dfi_source_push_to(source, seat, &kv);
}

/* Until the source has the ring of the target in that seat. */
static void push_to_soon(
    struct dfi_source *source, uint32_t seat, uint64_t position)
{
	int64_t until = now_ms() + LONG_MS;
	int ret;

	while ((ret = push_to(source, seat, position)) == -ENXIO) {
		cr_assert_lt(now_ms(), until);
		yield_times(1);
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
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

/* Close a source whose target acknowledges when it is asked. */
static void close_source(
    struct dfi_source *source, struct worker *workers, uint32_t n)
{
	int64_t until = now_ms() + LONG_MS;
	struct closer closer = { .source = source };
	uint32_t i;

	cr_assert_eq(
	    pthread_create(&closer.thread, NULL, close_it, &closer), 0);
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

/* Each position of a source has taken effect, those below last once. */
static void expect_effects(uint32_t source, uint32_t once, uint32_t n)
{
	uint32_t i;

	for (i = 1; i <= n; i++)
		cr_assert(i <= once ? effects[source][i] == 1
				    : effects[source][i] > 0,
		    "position %u: %u", i, effects[source][i]);
}

/* ---- Losses ----------------------------------------------------------------
 */

/* cancels: else it closes. Both are at once. */
static void leave(struct worker *worker, bool cancels)
{
	const void *tuple;

	if (cancels) {
		cr_assert_eq(
		    dfi_target_cancel(worker->target), 0, "%s", dfi_errmsg());
		assert_error(dfi_target_consume(worker->target, &tuple),
		    -ECANCELED, "was cancelled here");
	} else {
		cr_assert_eq(dfi_target_close(worker->target), 0);
	}
}

static void lose_one(uint32_t routing, bool cancels)
{
	struct worker workers[SEATS];
	struct dfi_source *source;
	uint32_t i, lost;

	create(routing, SEATS);
	for (i = 0; i < SEATS; i++)
		open_worker(&workers[i], i);
	source = open_at(1, 0);
	push_from(source, 1, 30);
	work_until(workers, SEATS, 30);
	for (i = 0; i < SEATS; i++) {
		cr_assert_gt(workers[i].n_consumed, 0, "%u", i);
		commit(&workers[i]);
	}
	/* Consumed and not acknowledged; not consumed; and not sent. */
	lost = workers[0].n_consumed;
	push_from(source, 31, 45);
	work_until(workers, SEATS, 45);
	lost = workers[0].n_consumed - lost;
	cr_assert_gt(lost, 0);
	push_from(source, 46, 60);
	cr_assert_eq(dfi_source_push(source, &(struct kv){ 61, 61 }), 0);
	leave(&workers[0], cancels);
	push_from(source, 62, 80);
	close_source(source, workers + 1, SEATS - 1);
	/* Nothing else came twice. */
	cr_assert_eq(workers[0].n_consumed + workers[1].n_consumed +
		workers[2].n_consumed,
	    80 + lost);
	expect_effects(1, 80, 80);
	if (cancels)
		cr_assert_eq(dfi_target_close(workers[0].target), 0);
	finish(workers + 1, SEATS - 1);
}

Test(replay_ways, what_a_lost_target_has_not_acknowledged_goes_to_others_by_any)
{
	lose_one(DFI_ROUTE_ANY, false);
}

Test(replay_ways, what_a_lost_target_has_not_acknowledged_goes_round_robin)
{
	lose_one(DFI_ROUTE_ROUND_ROBIN, false);
}

Test(replay_ways, what_one_that_cancels_has_not_acknowledged_goes_to_others)
{
	lose_one(DFI_ROUTE_ANY, true);
}

/* Also while the source makes no calls. */
Test(replay_ways, tuples_wait_for_the_next_target_when_the_last_is_lost)
{
	struct worker first, second;
	struct dfi_source *source;

	create(DFI_ROUTE_ANY, 1);
	open_worker(&first, 0);
	source = open_at(0, 0);
	push_from(source, 1, 10);
	work_until(&first, 1, 10);
	cr_assert_eq(dfi_target_close(first.target), 0);
	open_worker(&second, 2);
	work_until(&second, 1, 10);
	push_from(source, 11, 20);
	close_source(source, &second, 1);
	cr_assert_eq(second.n_consumed, 20);
	expect_effects(0, 20, 20);
	finish(&second, 1);
}

static void pass_a_seat_on(bool cancels)
{
	struct worker workers[2], next, left;
	struct dfi_source *source;
	uint64_t i;

	create(DFI_ROUTE_DIRECT, 2);
	open_worker(&workers[0], 0);
	open_worker(&workers[1], 2);
	source = open_at(0, 0);
	for (i = 1; i <= 20; i++)
		cr_assert_eq(push_to(source, i % 2 ? 0 : 2, i), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	work_until(workers, 2, 20);
	commit(&workers[1]);
	leave(&workers[0], cancels);
	left = workers[0];
	/* Nobody is there, and the other seat's tuples flow. */
	while (push_to(source, 0, i) == 0) {
		i++;
		cr_assert_lt(i, MOST);
		yield_times(100);
	}
	assert_error(push_to(source, 0, i), -ENXIO, "target 0", "seat");
	assert_error(push_to(source, 1, i), -ENXIO, "target 1", "seat");
	cr_assert_eq(push_to(source, 2, i), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	work_until(&workers[1], 1, 11);
	/* What was sent to the seat, and nothing else, in order. */
	open_worker(&next, 0);
	push_to_soon(source, 0, i + 1);
	workers[0] = next;
	close_source(source, workers, 2);
	cr_assert_eq(workers[0].n_consumed, 10 + (i - 21) + 1);
	cr_assert_eq(workers[1].n_consumed, 11);
	expect_effects(0, (uint32_t)i + 1, (uint32_t)i + 1);
	if (cancels)
		cr_assert_eq(dfi_target_close(left.target), 0);
	finish(workers, 2);
}

Test(replay_ways, a_seat_s_tuples_wait_for_its_next_holder)
{
	pass_a_seat_on(false);
}

Test(replay_ways, the_next_holder_gets_what_one_that_cancels_leaves)
{
	pass_a_seat_on(true);
}

static uint32_t by_key(void *arg, const void *tuple, uint32_t n)
{
	(void)arg;
	(void)n;
	return (uint32_t)((const struct kv *)tuple)->key;
}

Test(replay_ways, of_a_function_s_seat_as_well)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;
	struct worker worker;
	struct kv kv[4] = { { 1, 1 }, { 1, 2 }, { 7, 3 }, { 1, 3 } };

	create(DFI_ROUTE_FUNCTION, 1);
	open_worker(&worker, 1);
	attr.route = by_key;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, &attr, &source), 0, "%s",
	    dfi_errmsg());
	cr_assert_eq(dfi_source_push(source, &kv[0]), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_push_batch(source, &kv[1], 2), 1);
	assert_error(dfi_source_push(source, &kv[2]), -ERANGE, "target 7");
	kv[2].key = 0;
	assert_error(dfi_source_push(source, &kv[2]), -ENXIO, "target 0");
	cr_assert_eq(dfi_source_flush(source), 0);
	work_until(&worker, 1, 2);
	cr_assert_eq(dfi_target_close(worker.target), 0);
	open_worker(&worker, 1);
	work_until(&worker, 1, 2);
	cr_assert_eq(dfi_source_push(source, &kv[3]), 0, "%s", dfi_errmsg());
	close_source(source, &worker, 1);
	expect_effects(0, 3, 3);
	finish(&worker, 1);
}

/* ---- What is refused -------------------------------------------------------
 */

Test(replay_ways, tuples_go_in_one_by_one_or_in_batches)
{
	struct dfi_source *source;
	struct dfi_span span;
	struct worker worker;
	struct kv kv = { 1, 1 }, batch[3] = { { 2, 2 }, { 3, 3 }, { 5, 5 } };
	uint64_t number;
	uint32_t p;

	create(DFI_ROUTE_DIRECT, 1);
	open_worker(&worker, 1);
	source = open_at(0, 0);
	assert_error(dfi_source_push(source, &kv), -EPROTOTYPE, "direct");
	assert_error(dfi_source_claim(source, 1, &span), -ERANGE,
	    "dfi_source_push_to()");
	assert_error(
	    dfi_source_push_to(source, SEATS, &kv), -ERANGE, "seats 0 to 2");
	cr_assert_eq(dfi_source_push_to(source, 1, &kv), 0);
	cr_assert_eq(dfi_source_push_batch_to(source, 1, batch, 3), 3);
	assert_error(push_to(source, 1, 5), -EINVAL, "input position 5");
	assert_error(
	    dfi_source_resume(source, &number, &number, 1), -EINVAL, "keys");
	assert_error(
	    dfi_target_partition(worker.target, &kv, &p), -EPROTOTYPE, "keys");
	assert_error(
	    dfi_partition_take(worker.target, 0, NULL, 0), -EPROTOTYPE, "keys");
	assert_error(dfi_partition_epoch(worker.target, 0, &number),
	    -EPROTOTYPE, "keys");
	cr_assert_eq(push_to(source, 1, 6), 0);
	close_source(source, &worker, 1);
	cr_assert_eq(worker.n_consumed, 5);
	finish(&worker, 1);
}

Test(replay_ways, the_source_chooses_the_target)
{
	struct dfi_source *source;
	struct dfi_span span;
	struct worker worker;
	struct kv kv = { 1, 1 }, batch[2] = { { 1, 1 }, { 2, 2 } };

	create(DFI_ROUTE_ANY, 1);
	open_worker(&worker, 1);
	source = open_at(0, 0);
	assert_error(dfi_source_claim(source, 0, &span), -ERANGE, "chooses");
	assert_error(
	    dfi_source_push_to(source, 0, &kv), -ERANGE, "dfi_source_push()");
	cr_assert_eq(dfi_source_push_batch(source, batch, 2), 2);
	close_source(source, &worker, 1);
	cr_assert_eq(worker.n_consumed, 2);
	finish(&worker, 1);
}

/* ---- Acknowledgements ------------------------------------------------------
 */

Test(replay_ways, a_ring_gets_room_by_an_acknowledgement)
{
	struct worker worker;
	struct dfi_source *source;
	struct kv kv;
	uint64_t i;
	int ret;

	create(DFI_ROUTE_ROUND_ROBIN, 1);
	open_worker(&worker, 0);
	source = open_at(0, 0);
	push_from(source, 1, WINDOW);
	dfi_source_interrupt(source);
	work_until(&worker, 1, WINDOW);
	assert_error(work(&worker), -ENOBUFS, "ring of source 0");
	/* One segment over. */
	i = WINDOW + 1;
	kv = (struct kv){ i, i };
	assert_error(dfi_source_push(source, &kv), -EINTR, "");
	commit(&worker);
	/* The news of the window may come before the acknowledgement. */
	ret = dfi_source_push(source, &kv);
	cr_assert(ret == 0 || ret == -ENOBUFS, "%s", dfi_errmsg());
	if (ret)
		push_from(source, i, i);
	close_source(source, &worker, 1);
	expect_effects(0, WINDOW + 1, WINDOW + 1);
	finish(&worker, 1);
}

/* The first full ring of a target hides no other one. */
Test(replay_ways, each_source_hears_that_its_window_is_used_up)
{
	struct kv kv = { WINDOW + 1, WINDOW + 1 };
	struct dfi_source *sources[2];
	struct worker worker;
	uint32_t i;

	create(DFI_ROUTE_ROUND_ROBIN, 1);
	open_worker(&worker, 0);
	for (i = 0; i < 2; i++) {
		sources[i] = open_at(i, 0);
		push_from(sources[i], 1, WINDOW);
		dfi_source_interrupt(sources[i]);
		assert_error(dfi_source_push(sources[i], &kv), -EINTR, "");
	}
	work_until(&worker, 1, 2 * WINDOW);
	for (i = 0; i < 2; i++)
		assert_error(work(&worker), -ENOBUFS, "");
	for (i = 2; i-- > 0;)
		assert_error(
		    dfi_source_push(sources[i], &kv), -ENOBUFS, "target 0");
	commit(&worker);
	for (i = 0; i < 2; i++)
		push_from(sources[i], WINDOW + 1, WINDOW + 1);
	for (i = 0; i < 2; i++)
		close_source(sources[i], &worker, 1);
	finish(&worker, 1);
}

/* ---- Sources that return ---------------------------------------------------
 */

static uint64_t resume(
    struct dfi_source *source, struct worker *workers, uint32_t n)
{
	int64_t until = now_ms() + LONG_MS;
	uint64_t lowest = UINT64_MAX;
	int ret;

	do {
		(void)work_all(workers, n);
		ret = dfi_source_resume(source, &lowest, NULL, 0);
		cr_assert(ret == 0 || ret == -EAGAIN, "%s", dfi_errmsg());
		cr_assert_lt(now_ms(), until);
	} while (ret);
	return lowest;
}

/* Over a network, acknowledgements may come to the source later. */
static void expect_lowest(uint64_t lowest, uint64_t most)
{
	cr_assert(over_network() ? lowest <= most : lowest == most, "%lu",
	    (unsigned long)lowest);
}

static void push_all_soon(
    struct dfi_source *source, uint64_t first, uint64_t last)
{
	for (; first <= last; first++) {
		struct kv kv = { first, first };

		cr_assert_eq(push_soon(source, &kv), 0, "%s", dfi_errmsg());
	}
	cr_assert_eq(dfi_source_flush(source), 0);
}

Test(replay_ways, a_source_that_returns_learns_what_all_have_acknowledged)
{
	struct worker workers[2];
	struct dfi_source *source;
	uint64_t lowest;

	create(DFI_ROUTE_ROUND_ROBIN, 2);
	open_worker(&workers[0], 0);
	open_worker(&workers[1], 2);
	source = open_at(2, DFI_NONBLOCK);
	cr_assert_eq(resume(source, workers, 2), 0);
	push_all_soon(source, 1, 20);
	work_until(workers, 2, 20);
	commit(&workers[0]);
	commit(&workers[1]);
	/* The source says it in its next segments. */
	push_all_soon(source, 21, 40);
	work_until(workers, 2, 40);
	commit(&workers[0]);
	push_all_soon(source, 41, 44);
	work_until(workers, 2, 44);
	kill_source(source);
	source = open_at(2, DFI_NONBLOCK);
	/* One of them has not acknowledged what is behind these. */
	lowest = resume(source, workers, 2);
	expect_lowest(lowest, 20);
	push_all_soon(source, lowest + 1, 60);
	close_source(source, workers, 2);
	expect_effects(2, (uint32_t)lowest, 60);
	finish(workers, 2);
}

/* A position that a living target has passed says nothing of a lost one's. */
Test(replay_ways, source_and_target_die_and_the_input_is_read_again)
{
	struct worker workers[2];
	struct dfi_source *source;
	uint64_t lowest;

	create(DFI_ROUTE_ROUND_ROBIN, 2);
	open_worker(&workers[0], 0);
	open_worker(&workers[1], 1);
	source = open_at(0, DFI_NONBLOCK);
	cr_assert_eq(resume(source, workers, 2), 0);
	push_all_soon(source, 1, 10);
	work_until(workers, 2, 10);
	commit(&workers[0]);
	commit(&workers[1]);
	push_all_soon(source, 11, 30);
	work_until(workers, 2, 30);
	commit(&workers[0]);
	push_all_soon(source, 31, 32);
	work_until(workers, 2, 32);
	kill_source(source);
	cr_assert_eq(dfi_target_close(workers[1].target), 0);
	source = open_at(0, DFI_NONBLOCK);
	open_worker(&workers[1], 1);
	/* Tuple 11 went to the other, and 12 to the one that was lost. */
	lowest = resume(source, workers, 2);
	expect_lowest(lowest, 11);
	push_all_soon(source, lowest + 1, 50);
	close_source(source, workers, 2);
	expect_effects(0, (uint32_t)lowest, 50);
	finish(workers, 2);
}

/* The same when its tuples had gone to the other, who is behind them by then.
 */
Test(replay_ways, tuples_that_were_sent_again_hold_back_a_resume)
{
	struct worker workers[2];
	struct dfi_source *source;
	uint64_t lowest;

	create(DFI_ROUTE_ROUND_ROBIN, 2);
	open_worker(&workers[0], 0);
	open_worker(&workers[1], 1);
	source = open_at(0, DFI_NONBLOCK);
	cr_assert_eq(resume(source, workers, 2), 0);
	push_all_soon(source, 1, 20);
	work_until(workers, 2, 20);
	commit(&workers[0]);
	cr_assert_eq(dfi_target_close(workers[1].target), 0);
	/* The 10 tuples of the lost one come again. */
	work_until(workers, 1, 20);
	push_all_soon(source, 21, 24);
	work_until(workers, 1, 24);
	kill_source(source);
	source = open_at(0, DFI_NONBLOCK);
	open_worker(&workers[1], 1);
	lowest = resume(source, workers, 2);
	expect_lowest(lowest, 1);
	push_all_soon(source, lowest + 1, 30);
	close_source(source, workers, 2);
	expect_effects(0, (uint32_t)lowest, 30);
	finish(workers, 2);
}

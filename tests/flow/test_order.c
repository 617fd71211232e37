/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordered replicate flows: all targets get the segments of all sources in one
 * order, for all rings and all ways to push and consume; and nobody waits for a
 * source without room.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "each_method.h"
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

TestSuite(order, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(order_datagrams, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(naive_order, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(chosen_order, .init = setup, .fini = teardown, .timeout = 300);

#define TEST_EACH(name) \
	TEST_EACH_METHOD(naive_order, chosen_order, order_datagrams, name)

enum {
	N_SOURCES = 4,
	N_TARGETS = 3,
	SEGMENT = 4, /* tuples */
	SEGMENTS = 4,
	RING = SEGMENT * SEGMENTS,
};

static struct dfi_flow_attr flow_attr(uint32_t n_sources, uint32_t n_targets)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_REPLICATE;
	attr.replicate.method = replication;
	attr.replicate.ordered = 1;
	attr.schema = &kv_schema;
	attr.n_sources = n_sources;
	attr.n_targets = n_targets;
	attr.segment_size = SEGMENT * sizeof(struct kv);
	attr.segment_count = SEGMENTS;
	return attr;
}

static void create(const struct dfi_flow_attr *attr)
{
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

static struct kv kv_of(uint64_t source, uint64_t seq)
{
	return (struct kv){ source << 32 | seq, mix(source, seq) };
}

/* How a target takes its tuples. */
enum way {
	BY_TUPLE,
	BY_BATCH,
	BY_CURSOR,
	BY_POLL,
	N_WAYS,
};

/*
 * An endpoint and its thread. A target checks that the tuples of each source
 * are complete and in order, so the sequence of its tuples' sources describes
 * its order fully.
 */
struct end {
	pthread_t thread;
	bool is_source;
	uint32_t index, linger_us;
	enum way way;
	uint64_t n; /* tuples of each source */
	struct dfi_target *target;
	uint8_t *order;
	uint64_t next[N_SOURCES], n_taken;
	char text[300];
};

static int push_some(
    struct dfi_source *source, uint32_t index, uint64_t seq, uint32_t n)
{
	struct kv kv[3 * SEGMENT];
	struct dfi_span span;
	uint32_t i;
	int ret;

	for (i = 0; i < n; i++)
		kv[i] = kv_of(index, seq + i);
	if (n % 3 == 0)
		return dfi_source_push_batch(source, kv, n);
	if (n % 3 == 1) {
		ret = dfi_source_push(source, kv);
		return ret < 0 ? ret : 1;
	}
	ret = dfi_source_claim(source, DFI_ALL_TARGETS, &span);
	if (ret < 0)
		return ret;
	n = n < span.count ? n : span.count;
	memcpy(span.tuples, kv, n * sizeof(kv[0]));
	ret = dfi_source_commit(source, &span, n);
	return ret < 0 ? ret : (int)n;
}

static void *run_source(void *arg)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct end *end = arg;
	struct rng rng = { 7 + end->index };
	struct dfi_source *source = NULL;
	uint64_t seq = 0;
	uint32_t n;
	int ret;

	attr.linger_us = end->linger_us;
	ret = dfi_source_open(end->index % 2 ? rig.dfi : rig.other, "f",
	    end->index, &attr, &source);
	while (ret >= 0 && seq < end->n) {
		n = 1 + rng_below(&rng, 3 * SEGMENT);
		n = n < end->n - seq ? n : (uint32_t)(end->n - seq);
		ret = push_some(source, end->index, seq, n);
		if (ret > 0)
			seq += (uint64_t)ret;
		if (ret > 0 && !rng_below(&rng, 16))
			ret = dfi_source_flush(source);
		if (!rng_below(&rng, 64))
			yield_times(rng_below(&rng, 20));
	}
	if (ret >= 0)
		ret = dfi_source_close(source);
	if (ret < 0)
		snprintf(end->text, sizeof(end->text), "source %u: %s",
		    end->index, dfi_errmsg());
	return NULL;
}

static int take_tuples(struct end *end, const void *tuples, uint32_t n)
{
	const struct kv *kv = tuples;
	struct kv expected;
	uint64_t source;
	uint32_t i;

	for (i = 0; i < n; i++) {
		source = kv[i].key >> 32;
		if (source >= N_SOURCES || end->n_taken >= N_SOURCES * end->n)
			return -EIO;
		expected = kv_of(source, end->next[source]);
		if (memcmp(&kv[i], &expected, sizeof(expected)) != 0)
			return -EIO;
		end->next[source]++;
		end->order[end->n_taken++] = (uint8_t)source;
	}
	return 1;
}

static int take_by_tuple(struct end *end)
{
	const void *tuple;
	int ret = dfi_target_consume(end->target, &tuple);

	return ret > 0 ? take_tuples(end, tuple, 1) : ret;
}

static int take_by_batch(struct end *end)
{
	struct dfi_batch batch;
	int ret = dfi_target_consume_batch(end->target, &batch);

	if (ret > 0) {
		ret = take_tuples(end, batch.tuples, batch.count);
		dfi_target_release(end->target, &batch);
	}
	return ret;
}

static int take_by_cursor(struct end *end)
{
	struct dfi_target_cursor cursor = dfi_target_cursor_open(
	    end->target, sizeof(struct kv));
	const void *tuple;
	int i, ret = 1;

	for (i = 0; ret > 0 && i < 3 * SEGMENT &&
	     (tuple = dfi_target_cursor_get(&cursor, sizeof(struct kv)));
	     i++)
		ret = take_tuples(end, tuple, 1);
	if (ret > 0 && i < 3 * SEGMENT)
		return dfi_target_cursor_close(cursor);
	(void)dfi_target_cursor_close(cursor);
	return ret;
}

static int take_by_poll(struct end *end)
{
	struct pollfd pollfd = { .events = POLLIN };
	int ret = take_by_batch(end);

	if (ret != -EAGAIN)
		return ret;
	pollfd.fd = dfi_target_fd(end->target);
	return poll(&pollfd, 1, LONG_MS) == 1 ? 1 : -ETIMEDOUT;
}

static void *run_target(void *arg)
{
	static int (*const ways[])(struct end * end) = {
		[BY_TUPLE] = take_by_tuple,
		[BY_BATCH] = take_by_batch,
		[BY_CURSOR] = take_by_cursor,
		[BY_POLL] = take_by_poll,
	};
	struct end *end = arg;
	struct rng rng = { 70 + end->index };
	int ret;

	while ((ret = ways[end->way](end)) > 0)
		if (!rng_below(&rng, 32))
			yield_times(rng_below(&rng, 20));
	if (ret < 0)
		snprintf(end->text, sizeof(end->text), "target %u: %s (%s)",
		    end->index, dfi_errmsg(), dfi_strerror(ret));
	return NULL;
}

static void check_orders(const struct end *targets, uint32_t n)
{
	uint64_t i;
	uint32_t t;

	for (t = 1; t < n; t++) {
		cr_assert_eq(targets[t].n_taken, targets[0].n_taken);
		for (i = 0; i < targets[0].n_taken; i++)
			cr_assert_eq(targets[t].order[i], targets[0].order[i],
			    "target %u: tuple %lu is of source %u, but target "
			    "0's of source %u",
			    t, (unsigned long)i, targets[t].order[i],
			    targets[0].order[i]);
	}
}

/* Each target gets n tuples of each source, and all in one order. */
static void run(const struct dfi_flow_attr *attr, uint64_t n, uint32_t way,
    uint32_t linger_us)
{
	struct end ends[N_SOURCES + N_TARGETS] = { { .n = 0 } };
	struct end *targets = ends + attr->n_sources;
	uint32_t i, n_ends = attr->n_sources + attr->n_targets;

	create(attr);
	for (i = 0; i < n_ends; i++) {
		ends[i].is_source = i < attr->n_sources;
		ends[i].index = ends[i].is_source ? i : i - attr->n_sources;
		ends[i].n = n;
		ends[i].linger_us = linger_us;
		if (ends[i].is_source)
			continue;
		ends[i].way = (ends[i].index + way) % N_WAYS;
		ends[i].order = malloc(N_SOURCES * n + 1);
		cr_assert_not_null(ends[i].order);
		ends[i].target = open_target(
		    ends[i].index % 2 ? rig.dfi : rig.other, "f", ends[i].index,
		    ends[i].way == BY_POLL ? DFI_NONBLOCK : 0);
	}
	for (i = 0; i < n_ends; i++)
		cr_assert_eq(
		    pthread_create(&ends[i].thread, NULL,
			ends[i].is_source ? run_source : run_target, &ends[i]),
		    0);
	for (i = 0; i < n_ends; i++)
		cr_assert_eq(pthread_join(ends[i].thread, NULL), 0);
	for (i = 0; i < n_ends; i++)
		cr_assert_eq(ends[i].text[0], '\0', "%s", ends[i].text);
	for (i = 0; i < attr->n_targets; i++)
		cr_assert_eq(targets[i].n_taken, attr->n_sources * n,
		    "target %u has %lu tuples", i,
		    (unsigned long)targets[i].n_taken);
	check_orders(targets, attr->n_targets);
	for (i = 0; i < attr->n_targets; i++) {
		cr_assert_eq(dfi_target_close(targets[i].target), 0);
		free(targets[i].order);
	}
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

/* n tuples, or on slow machines fewer. */
static uint64_t at_most(uint64_t n)
{
	uint64_t most = test_setting("ORDER_TUPLES", n);

	return n < most ? n : most;
}

TEST_EACH(all_targets_get_all_sources_in_one_order)
{
	struct dfi_flow_attr attr = flow_attr(N_SOURCES, N_TARGETS);
	uint64_t n = test_setting("ORDER_TUPLES", 5000);
	uint32_t way;

	for (way = 0; way < N_WAYS; way++)
		run(&attr, n, way, 0);
}

TEST_EACH(rings_of_one_to_three_segments)
{
	struct dfi_flow_attr attr = flow_attr(N_SOURCES, 2);

	for (attr.segment_count = 1; attr.segment_count <= 3;
	     attr.segment_count++)
		run(&attr, at_most(1000), attr.segment_count, 0);
}

TEST_EACH(for_latency)
{
	struct dfi_flow_attr attr = flow_attr(3, N_TARGETS);

	attr.goal = DFI_LATENCY;
	attr.segment_size = 0;
	run(&attr, at_most(1000), BY_TUPLE, 0);
	run(&attr, at_most(1000), BY_BATCH, 0);
}

TEST_EACH(with_checksums)
{
	struct dfi_flow_attr attr = flow_attr(2, N_TARGETS);

	attr.verify = DFI_VERIFY_CHECKSUM;
	run(&attr, at_most(2000), BY_TUPLE, 0);
}

TEST_EACH(with_rings_as_chosen)
{
	struct dfi_flow_attr attr = flow_attr(2, 2);

	attr.segment_size = attr.segment_count = 0;
	run(&attr, 20 * at_most(5000), BY_TUPLE, 0);
}

TEST_EACH(one_source_and_one_target)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);

	run(&attr, at_most(2000), BY_TUPLE, 0);
}

TEST_EACH(lingering_sources)
{
	struct dfi_flow_attr attr = flow_attr(N_SOURCES, N_TARGETS);

	run(&attr, at_most(2000), BY_BATCH, 50);
	run(&attr, at_most(2000), BY_TUPLE, 50);
}

TEST_EACH(ends_without_tuples)
{
	struct dfi_flow_attr attr = flow_attr(2, 3);

	run(&attr, 0, BY_TUPLE, 0);
}

static int push(struct dfi_source *source, uint64_t index, uint64_t seq)
{
	struct kv kv = kv_of(index, seq);

	return dfi_source_push(source, &kv);
}

static void expect_tuple(
    struct dfi_target *target, uint64_t source, uint64_t seq)
{
	struct kv expected = kv_of(source, seq);
	const void *tuple;

	cr_assert_eq(consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
	cr_assert_eq(memcmp(tuple, &expected, sizeof(expected)), 0,
	    "not tuple %lu of source %lu", (unsigned long)seq,
	    (unsigned long)source);
}

static void expect_last(struct dfi_target *target, int err)
{
	const void *tuple;

	cr_assert_eq(consume_soon(target, &tuple), err, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), err);
}

static void open_targets(struct dfi_target **targets, uint32_t n)
{
	uint32_t t;

	for (t = 0; t < n; t++)
		targets[t] = open_target(
		    t % 2 ? rig.dfi : rig.other, "f", t, DFI_NONBLOCK);
}

/* A source that doesn't block waits until its last segment has its position. */
static void settle(struct dfi_source *source)
{
	int ret;

	while ((ret = dfi_source_flush(source)) == -EAGAIN)
		yield_times(1);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
}

/* -EAGAIN: a ring is full, and not that a position is on its way. */
static int push_or_full(struct dfi_source *source, uint64_t index, uint64_t seq)
{
	int ret = push(source, index, seq);

	if (ret != -EAGAIN)
		return ret;
	settle(source);
	return push(source, index, seq);
}

/* A refused tuple has no position in the order. */
TEST_EACH(source_without_room_holds_up_nobody)
{
	struct dfi_flow_attr attr = flow_attr(2, 2);
	struct dfi_source *sources[2];
	struct dfi_target *targets[2];
	uint64_t i, n = 0;
	uint32_t t;
	int ret;

	create(&attr);
	open_targets(targets, 2);
	for (t = 0; t < 2; t++)
		sources[t] = open_source(rig.dfi, "f", t, DFI_NONBLOCK);
	while (!(ret = push_or_full(sources[0], 0, n)))
		n++;
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
	cr_assert_eq(n, RING);
	for (i = 0; i < RING; i++)
		cr_assert_eq(
		    push_or_full(sources[1], 1, i), 0, "%s", dfi_errmsg());
	settle(sources[1]);
	/* In the order in which they were sent. */
	for (t = 0; t < 2; t++) {
		for (i = 0; i < n; i++)
			expect_tuple(targets[t], 0, i);
		for (i = 0; i < RING; i++)
			expect_tuple(targets[t], 1, i);
	}
	while ((ret = push(sources[0], 0, n)) == -EAGAIN)
		yield_times(1);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(sources[0]), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(sources[1]), 0, "%s", dfi_errmsg());
	for (t = 0; t < 2; t++) {
		expect_tuple(targets[t], 0, n);
		expect_last(targets[t], 0);
	}
}

/* Segments are ordered when they are sent, not when they are begun. */
TEST_EACH(order_is_that_of_sending)
{
	struct dfi_flow_attr attr = flow_attr(3, 2);
	struct dfi_source *sources[3];
	struct dfi_target *targets[2];
	uint64_t round;
	uint32_t i, t;

	create(&attr);
	open_targets(targets, 2);
	for (i = 0; i < 3; i++)
		sources[i] = open_source(
		    i % 2 ? rig.dfi : rig.other, "f", i, 0);
	for (round = 0; round < 40; round++) {
		for (i = 0; i < 3; i++)
			cr_assert_eq(push(sources[i], i, round), 0);
		for (i = 3; i-- > 0;)
			cr_assert_eq(dfi_source_flush(sources[i]), 0);
		for (t = 0; t < 2; t++)
			for (i = 3; i-- > 0;)
				expect_tuple(targets[t], i, round);
	}
	for (i = 0; i < 3; i++)
		cr_assert_eq(dfi_source_close(sources[i]), 0);
	for (t = 0; t < 2; t++)
		expect_last(targets[t], 0);
}

TEST_EACH(target_that_cancels_is_left_out)
{
	struct dfi_flow_attr attr = flow_attr(2, 3);
	struct dfi_source *sources[2];
	struct dfi_target *targets[3];
	uint32_t gone, t;
	uint64_t i;

	for (gone = 0; gone < 3; gone++) {
		create(&attr);
		open_targets(targets, 3);
		sources[0] = open_source(rig.dfi, "f", 0, 0);
		cr_assert_eq(push(sources[0], 0, 0), 0);
		cr_assert_eq(dfi_source_flush(sources[0]), 0);
		cr_assert_eq(
		    dfi_target_cancel(targets[gone]), 0, "%s", dfi_errmsg());
		cr_assert_eq(dfi_target_close(targets[gone]), 0);
		/* Also if it is target 0, which has the sequencer. */
		sources[1] = open_source(rig.dfi, "f", 1, 0);
		for (t = 0; t < 3; t++)
			if (t != gone)
				expect_tuple(targets[t], 0, 0);
		for (i = 0; i < 3 * RING; i++) {
			cr_assert_eq(push(sources[1], 1, i), 0);
			cr_assert_eq(dfi_source_flush(sources[1]), 0, "%s",
			    dfi_errmsg());
			cr_assert_eq(push(sources[0], 0, i + 1), 0);
			cr_assert_eq(dfi_source_flush(sources[0]), 0);
			for (t = 0; t < 3; t++) {
				if (t == gone)
					continue;
				expect_tuple(targets[t], 1, i);
				expect_tuple(targets[t], 0, i + 1);
			}
		}
		cr_assert_eq(dfi_source_close(sources[0]), 0);
		cr_assert_eq(dfi_source_close(sources[1]), 0);
		for (t = 0; t < 3; t++)
			if (t != gone)
				expect_last(targets[t], 0);
		cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	}
}

/*
 * The sequencer goes with the context of target 0, which may show before the
 * cancellation does. Nobody needs a position then.
 */
TEST_EACH(last_target_that_cancels_takes_the_sequencer)
{
	struct dfi_flow_attr attr = flow_attr(2, 1);
	struct dfi_source *sources[2];
	struct dfi_target *target;
	struct dfi *holder;
	int round;

	for (round = 0; round < 5; round++) {
		holder = rig_join(&rig);
		create(&attr);
		target = open_target(holder, "f", 0, 0);
		sources[0] = open_source(rig.dfi, "f", 0, 0);
		sources[1] = open_source(rig.other, "f", 1, DFI_NONBLOCK);
		cr_assert_eq(push(sources[0], 0, 0), 0);
		cr_assert_eq(push(sources[1], 1, 0), 0);
		cr_assert_eq(dfi_target_cancel(target), 0);
		cr_assert_eq(dfi_target_close(target), 0);
		cr_assert_eq(dfi_close(holder), 0, "%s", dfi_errmsg());
		cr_assert_eq(
		    dfi_source_close(sources[0]), 0, "%s", dfi_errmsg());
		cr_assert_eq(
		    dfi_source_close(sources[1]), 0, "%s", dfi_errmsg());
		cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	}
}

/* The others still need positions, which only memory can give. */
TEST_EACH(others_fail_when_the_context_of_target_0_is_closed)
{
	struct dfi_flow_attr attr = flow_attr(1, 2);
	struct dfi *holder = rig_join(&rig);
	struct dfi_target *targets[2];
	struct dfi_source *source;
	int ret;

	create(&attr);
	targets[0] = open_target(holder, "f", 0, 0);
	targets[1] = open_target(rig.dfi, "f", 1, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(push(source, 0, 0), 0);
	cr_assert_eq(dfi_target_cancel(targets[0]), 0);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	cr_assert_eq(dfi_close(holder), 0, "%s", dfi_errmsg());
	ret = dfi_source_flush(source);
	if (over_network() || replication == DFI_REPLICATION_MULTICAST) {
		assert_error(ret, -ECONNRESET, "flow 'f'", "target 0",
		    "has cancelled and closed its context");
		cr_assert_eq(dfi_source_close(source), -ECONNRESET);
		expect_last(targets[1], -ECANCELED);
	} else {
		cr_assert_eq(ret, 0, "%s", dfi_errmsg());
		cr_assert_eq(dfi_source_close(source), 0);
		expect_tuple(targets[1], 0, 0);
		expect_last(targets[1], 0);
	}
}

/* Lost datagrams are not sent again then: nothing must be missing. */
TEST_EACH(source_that_aborts_ends_the_flow_in_order)
{
	bool early = replication == DFI_REPLICATION_MULTICAST;
	struct dfi_flow_attr attr = flow_attr(2, 2);
	struct dfi_source *sources[2];
	struct dfi_target *targets[2];
	uint32_t t;

	create(&attr);
	open_targets(targets, 2);
	for (t = 0; t < 2; t++)
		sources[t] = open_source(rig.dfi, "f", t, 0);
	cr_assert_eq(push(sources[1], 1, 0), 0);
	cr_assert_eq(dfi_source_flush(sources[1]), 0);
	cr_assert_eq(push(sources[0], 0, 0), 0);
	cr_assert_eq(dfi_source_flush(sources[0]), 0);
	for (t = 0; early && t < 2; t++) {
		expect_tuple(targets[t], 1, 0);
		expect_tuple(targets[t], 0, 0);
	}
	dfi_source_abort(sources[1]);
	cr_assert_eq(dfi_source_close(sources[1]), -ECANCELED);
	for (t = 0; t < 2; t++) {
		if (!early) {
			expect_tuple(targets[t], 1, 0);
			expect_tuple(targets[t], 0, 0);
		}
		expect_last(targets[t], -ECANCELED);
	}
	cr_assert_eq(dfi_source_close(sources[0]), -ECONNRESET);
}

TEST_EACH(target_that_leaves_fails_all)
{
	struct dfi_flow_attr attr = flow_attr(1, 2);
	struct dfi_target *targets[2];
	struct dfi_source *source;
	uint64_t i;
	int ret = 0;

	create(&attr);
	open_targets(targets, 2);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(push(source, 0, 0), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	/* It also has the sequencer. */
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	for (i = 1; !ret; i++)
		ret = push(source, 0, i);
	assert_error(ret, -ECONNRESET, "flow 'f'", "target 0");
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
	expect_tuple(targets[1], 0, 0);
	for (i = 1;
	     (ret = consume_soon(targets[1], &(const void *){ NULL })) > 0; i++)
		;
	cr_assert_eq(ret, -ECANCELED, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(targets[1]), -ECANCELED);
}

TEST_EACH(group_consumes_each_target_in_order)
{
	struct dfi_flow_attr attr = flow_attr(2, 2);
	struct dfi_target_group_batch batch;
	struct dfi_target_group *group;
	struct dfi_target *targets[2];
	struct dfi_source *sources[2];
	uint64_t n[2] = { 0 }, i;
	const struct kv *kv;
	int ret;

	create(&attr);
	for (i = 0; i < 2; i++)
		targets[i] = open_target(rig.dfi, "f", (uint32_t)i, 0);
	cr_assert_eq(dfi_target_group_open(rig.dfi, NULL, &group), 0);
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_target_group_add(group, targets[i], NULL), 0);
	for (i = 0; i < 2; i++)
		sources[i] = open_source(rig.dfi, "f", (uint32_t)i, 0);
	for (i = 0; i < 2 * SEGMENTS; i++) {
		cr_assert_eq(push(sources[i % 2], i % 2, i), 0);
		cr_assert_eq(dfi_source_flush(sources[i % 2]), 0);
	}
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_source_close(sources[i]), 0);
	while ((ret = dfi_target_group_consume_batch(group, &batch)) > 0) {
		kv = batch.batch.tuples;
		cr_assert_eq(batch.batch.count, 1);
		i = n[batch.index]++;
		cr_assert_eq(kv->key, kv_of(i % 2, i).key);
		dfi_target_group_release(group, &batch);
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	for (i = 0; i < 2; i++) {
		cr_assert_eq(n[i], 2 * SEGMENTS);
		cr_assert_eq(dfi_target_close(targets[i]), 0);
	}
	cr_assert_eq(dfi_target_group_close(group), 0);
}

Test(order, is_an_attribute_of_replicate_flows)
{
	struct dfi_flow_attr attr = flow_attr(1, 2);
	struct dfi_flow_info info;

	create(&attr);
	cr_assert_eq(dfi_flow_lookup(rig.other, "f", &info), 0);
	cr_assert_eq(info.ordered, 1);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	attr.replicate.ordered = 0;
	create(&attr);
	cr_assert_eq(dfi_flow_lookup(rig.other, "f", &info), 0);
	cr_assert_eq(info.ordered, 0);
	attr.replicate.ordered = 2;
	assert_error(dfi_flow_create(rig.dfi, "g", &attr), -EINVAL,
	    "flow 'g': replicate.ordered 2");
	attr.replicate.ordered = 0;
	attr.kind = DFI_SHUFFLE;
	attr.replicate.method = 0;
	attr.replicate.ordered = 1;
	assert_error(dfi_flow_create(rig.dfi, "g", &attr), -EINVAL,
	    "flow 'g': replicate.ordered", "DFI_REPLICATE");
}

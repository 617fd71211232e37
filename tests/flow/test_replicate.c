/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicate flows: each tuple reaches all targets, exactly once and in the
 * order of its source, by all ways in; also if targets are slow, cancel or
 * leave.
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

TestSuite(replicate, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(naive, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(chosen, .init = setup, .fini = teardown, .timeout = 300);

static bool started;

/* Over shared memory it is what the library chooses. */
static void setup_multicast(void)
{
	if (!over_verbs())
		cr_skip_test("DFI_TRANSPORT is not verbs");
	started = true;
	setup();
}

static void teardown_multicast(void)
{
	if (started)
		teardown();
}

TestSuite(multicast, .init = setup_multicast, .fini = teardown_multicast,
    .timeout = 300);

#define TEST_OVER_DATAGRAMS(name) \
	TEST_METHOD(multicast, name, DFI_REPLICATION_MULTICAST)
#define TEST_OVER_RINGS(name)                           \
	TEST_METHOD(naive, name, DFI_REPLICATION_NAIVE) \
	TEST_METHOD(chosen, name, DFI_REPLICATION_DEFAULT)

/*
 * A test of naive flows, of those whose replication is left to the library
 * (multicast, except where a flow may need RDMA), and of multicasts by
 * datagrams: TEST_EACH only in unit.test_multicast_flows, whose network is good
 * for these alone, TEST_EACH_DEVICE also over RDMA.
 */
#ifdef DFI_DATAGRAMS_ONLY
#define TEST_EACH_DEVICE(name)    \
	static void name(void);   \
	TEST_OVER_DATAGRAMS(name) \
	static void name(void)
#define TEST_EACH TEST_EACH_DEVICE
#else
#define TEST_EACH(name)         \
	static void name(void); \
	TEST_OVER_RINGS(name)   \
	static void name(void)
#define TEST_EACH_DEVICE(name)    \
	static void name(void);   \
	TEST_OVER_RINGS(name)     \
	TEST_OVER_DATAGRAMS(name) \
	static void name(void)
#endif

enum {
	MAX_ENDS = 8,
	SEGMENT = 4, /* tuples */
	SEGMENTS = 4,
	RING = SEGMENT * SEGMENTS,
};

static struct dfi_target *targets[MAX_ENDS];

static struct dfi_flow_attr flow_attr(uint32_t n_sources, uint32_t n_targets)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_REPLICATE;
	attr.replicate.method = replication;
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

static void open_targets(uint32_t n, uint32_t flags)
{
	uint32_t t;

	for (t = 0; t < n; t++)
		targets[t] = open_target(
		    t % 2 ? rig.dfi : rig.other, "f", t, flags);
}

static void close_targets(uint32_t n)
{
	uint32_t t;

	for (t = 0; t < n; t++)
		cr_assert_eq(
		    dfi_target_close(targets[t]), 0, "%s", dfi_errmsg());
}

/* A source with n nonblocking targets. */
static struct dfi_source *start(uint32_t n, uint32_t source_flags)
{
	struct dfi_flow_attr attr = flow_attr(1, n);

	create(&attr);
	open_targets(n, DFI_NONBLOCK);
	return open_source(rig.dfi, "f", 0, source_flags);
}

static struct kv kv_of(uint64_t source, uint64_t seq)
{
	return (struct kv){ source << 32 | seq, mix(source, seq) };
}

/* The next tuple of a target is number seq of the source. */
static void expect_tuple(struct dfi_target *target, uint64_t seq)
{
	struct kv expected = kv_of(0, seq);
	const void *tuple;

	cr_assert_eq(consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
	cr_assert_eq(memcmp(tuple, &expected, sizeof(expected)), 0,
	    "tuple %lu is another one", (unsigned long)seq);
}

static void expect_end(struct dfi_target *target)
{
	const void *tuple;

	cr_assert_eq(consume_soon(target, &tuple), 0, "%s", dfi_errmsg());
}

static int push(struct dfi_source *source, uint64_t seq)
{
	struct kv kv = kv_of(0, seq);

	return dfi_source_push(source, &kv);
}

/* Push until the rings are full. Returns how many were taken. */
static uint64_t fill(struct dfi_source *source, uint64_t seq)
{
	int ret;

	while (!(ret = push(source, seq)))
		seq++;
	assert_error(ret, -EAGAIN, "full");
	return seq;
}

/* All sources and targets at once, each a thread. */
struct end {
	pthread_t thread;
	uint32_t index;
	bool is_source;
	uint64_t n, next[MAX_ENDS];
	char text[300];
};

static const struct dfi_flow_attr *running;

static int push_by(struct dfi_source *source, uint32_t index, uint64_t seq,
    uint64_t n, uint32_t way)
{
	struct dfi_source_cursor cursor;
	struct kv kv[SEGMENT * 3];
	struct dfi_span span;
	uint64_t i;
	int ret;

	for (i = 0; i < n; i++)
		kv[i] = kv_of(index, seq + i);
	switch (way) {
	case 0:
		ret = dfi_source_push(source, kv);
		return ret < 0 ? ret : 1;
	case 1:
		ret = dfi_source_push_to(source, DFI_ALL_TARGETS, kv);
		return ret < 0 ? ret : 1;
	case 2:
		return dfi_source_push_batch(source, kv, (uint32_t)n);
	case 3:
		ret = dfi_source_claim(source, DFI_ALL_TARGETS, &span);
		if (ret < 0)
			return ret;
		n = n < span.count ? n : span.count;
		memcpy(span.tuples, kv, n * sizeof(kv[0]));
		ret = dfi_source_commit(source, &span, (uint32_t)n);
		return ret < 0 ? ret : (int)n;
	default:
		cursor = dfi_source_cursor_open(
		    source, DFI_ALL_TARGETS, sizeof(kv[0]));
		for (i = 0; i < n; i++)
			if (dfi_source_cursor_push(
				&cursor, &kv[i], sizeof(kv[i])))
				break;
		ret = dfi_source_cursor_close(cursor);
		return ret < 0 ? ret : (int)i;
	}
}

static void *run_source(void *arg)
{
	struct rng rng = { 7 };
	struct dfi_source *source;
	struct end *end = arg;
	uint64_t seq = 0, n;
	int ret;

	rng.state += end->index;
	ret = dfi_source_open(rig.dfi, "f", end->index, NULL, &source);
	while (ret >= 0 && seq < end->n) {
		n = 1 + rng_below(&rng, SEGMENT * 3);
		n = n < end->n - seq ? n : end->n - seq;
		ret = push_by(source, end->index, seq, n, rng_below(&rng, 5));
		if (ret > 0)
			seq += (uint64_t)ret;
		if (ret > 0 && !rng_below(&rng, 16))
			ret = dfi_source_flush(source);
	}
	if (ret >= 0)
		ret = dfi_source_close(source);
	if (ret < 0)
		snprintf(end->text, sizeof(end->text), "source %u: %s",
		    end->index, dfi_errmsg());
	return NULL;
}

static int check_batch(struct end *end, const struct dfi_batch *batch)
{
	const struct kv *kv = batch->tuples;
	struct kv expected;
	uint32_t i;

	for (i = 0; i < batch->count; i++) {
		expected = kv_of(batch->source, end->next[batch->source]);
		if (memcmp(&kv[i], &expected, sizeof(expected)) != 0)
			return -EIO;
		end->next[batch->source]++;
	}
	return 0;
}

static void *run_target(void *arg)
{
	struct end *end = arg;
	struct rng rng = { 70 };
	struct dfi_target *target = targets[end->index];
	struct dfi_batch batch;
	int ret;

	rng.state += end->index;
	while ((ret = dfi_target_consume_batch(target, &batch)) > 0) {
		if (check_batch(end, &batch) < 0) {
			snprintf(end->text, sizeof(end->text),
			    "target %u: tuple %lu of source %u is another one",
			    end->index, (unsigned long)end->next[batch.source],
			    batch.source);
			return NULL;
		}
		dfi_target_release(target, &batch);
		if (!rng_below(&rng, 32))
			yield_times(rng_below(&rng, 20));
	}
	if (ret < 0)
		snprintf(end->text, sizeof(end->text), "target %u: %s",
		    end->index, dfi_errmsg());
	return NULL;
}

static void check_end(const struct end *end)
{
	uint32_t s;

	cr_assert_eq(end->text[0], '\0', "%s", end->text);
	for (s = 0; !end->is_source && s < running->n_sources; s++)
		cr_assert_eq(end->next[s], end->n,
		    "target %u has %lu of %lu tuples of source %u", end->index,
		    (unsigned long)end->next[s], (unsigned long)end->n, s);
}

/* n tuples of each source arrive at each target. */
static void run(const struct dfi_flow_attr *attr, uint64_t n)
{
	uint32_t i, n_ends = attr->n_sources + attr->n_targets;
	struct end ends[2 * MAX_ENDS];

	running = attr;
	create(attr);
	open_targets(attr->n_targets, 0);
	for (i = 0; i < n_ends; i++) {
		ends[i] = (struct end){
			.is_source = i < attr->n_sources,
			.index = i < attr->n_sources ? i : i - attr->n_sources,
			.n = n,
		};
		cr_assert_eq(
		    pthread_create(&ends[i].thread, NULL,
			ends[i].is_source ? run_source : run_target, &ends[i]),
		    0);
	}
	for (i = 0; i < n_ends; i++)
		cr_assert_eq(pthread_join(ends[i].thread, NULL), 0);
	for (i = 0; i < n_ends; i++)
		check_end(&ends[i]);
	close_targets(attr->n_targets);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

TEST_EACH(one_to_one_to_eight)
{
	struct dfi_flow_attr attr;
	uint32_t n;

	/* Losses take time. */
	for (n = 1; n <= MAX_ENDS;
	     n += replication == DFI_REPLICATION_MULTICAST ? 3 : 1) {
		attr = flow_attr(1, n);
		run(&attr, fewer(3000));
	}
}

TEST_EACH_DEVICE(several_sources_to_several_targets)
{
	struct dfi_flow_attr attr = flow_attr(3, 4);

	run(&attr, fewer(3000));
}

TEST_EACH(rings_of_one_to_three_segments)
{
	struct dfi_flow_attr attr = flow_attr(2, 3);

	for (attr.segment_count = 1; attr.segment_count <= 3;
	     attr.segment_count++)
		run(&attr, 1000);
}

TEST_EACH_DEVICE(for_latency)
{
	struct dfi_flow_attr attr = flow_attr(2, 3);

	attr.goal = DFI_LATENCY;
	attr.segment_size = 0;
	run(&attr, 1000);
}

TEST_EACH_DEVICE(with_checksums)
{
	struct dfi_flow_attr attr = flow_attr(2, 3);

	attr.verify = DFI_VERIFY_CHECKSUM;
	run(&attr, 1000);
}

TEST_EACH_DEVICE(with_rings_as_chosen)
{
	struct dfi_flow_attr attr = flow_attr(1, 2);

	attr.segment_size = attr.segment_count = 0;
	/* Each source flushes now and then: these go around all rings. */
	run(&attr, fewer(300000));
}

TEST_EACH(ends_without_tuples)
{
	struct dfi_flow_attr attr = flow_attr(2, 3);

	run(&attr, 0);
}

/* A tuple is refused for all, or taken by all. */
TEST_EACH(full_ring_of_one_target_refuses_a_push_for_all)
{
	struct dfi_source *source = start(3, DFI_NONBLOCK);
	uint64_t n, i, taken;

	n = fill(source, 0);
	cr_assert_eq(n, RING);
	/* The others are ahead by a ring, and get no more. */
	for (i = 0; i < n; i++) {
		expect_tuple(targets[0], i);
		expect_tuple(targets[2], i);
	}
	assert_error(push(source, n), -EAGAIN, "full");
	cr_assert_eq(
	    dfi_target_consume(targets[0], &(const void *){ NULL }), -EAGAIN);
	/* The slow one gives a segment back, and one push succeeds. */
	for (i = 0; i <= SEGMENT; i++)
		expect_tuple(targets[1], i);
	while (push(source, n) == -EAGAIN)
		yield_times(1);
	taken = fill(source, n + 1);
	cr_assert_eq(taken, n + SEGMENT);
	for (i = n; i < taken; i++) {
		expect_tuple(targets[0], i);
		expect_tuple(targets[2], i);
	}
	for (i = SEGMENT + 1; i < taken; i++)
		expect_tuple(targets[1], i);
	/* The refused one was never repeated. */
	assert_error(dfi_source_close(source), -EAGAIN, "not repeated");
	for (i = 0; i < 3; i++)
		cr_assert_eq(consume_soon(targets[i], &(const void *){ NULL }),
		    -ECANCELED);
	for (i = 0; i < 3; i++)
		cr_assert_eq(dfi_target_close(targets[i]), -ECANCELED);
}

TEST_EACH(refused_tuple_is_taken_when_it_is_repeated)
{
	struct dfi_source *source = start(2, DFI_NONBLOCK);
	uint64_t n, i;

	n = fill(source, 0);
	for (i = 0; i <= SEGMENT; i++) {
		expect_tuple(targets[0], i);
		expect_tuple(targets[1], i);
	}
	while (push(source, n) == -EAGAIN)
		yield_times(1);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	for (; i <= n; i++) {
		expect_tuple(targets[0], i);
		expect_tuple(targets[1], i);
	}
	expect_end(targets[0]);
	expect_end(targets[1]);
	close_targets(2);
}

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, timeout_ms) == 1;
}

/* Each target in turn is the one that holds the source up. */
TEST_EACH(descriptor_is_readable_with_room_in_the_last_ring)
{
	struct dfi_source *source = start(3, DFI_NONBLOCK);
	int fd = dfi_source_fd(source);
	uint64_t n, i, t, next[3] = { 0 };

	cr_assert_geq(fd, 0, "%s", dfi_errmsg());
	n = fill(source, 0);
	for (t = 0; t < 3; t++) {
		cr_assert_eq(push(source, n), -EAGAIN);
		for (i = 0; i <= SEGMENT; i++)
			expect_tuple(targets[t], next[t]++);
		cr_assert(is_readable(fd, LONG_MS));
	}
	while (push(source, n) == -EAGAIN)
		cr_assert(is_readable(fd, LONG_MS));
	n++;
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	for (t = 0; t < 3; t++) {
		while (next[t] < n)
			expect_tuple(targets[t], next[t]++);
		expect_end(targets[t]);
	}
	close_targets(3);
}

TEST_EACH_DEVICE(target_that_cancels_is_left_out)
{
	struct dfi_source *source = start(3, 0);
	uint64_t i, n = 10 * RING;

	cr_assert_eq(push(source, 0), 0);
	cr_assert_eq(dfi_target_cancel(targets[1]), 0, "%s", dfi_errmsg());
	for (i = 1; i < n; i++) {
		/* It holds nobody up. */
		cr_assert_eq(push(source, i), 0, "%s", dfi_errmsg());
		if (i >= SEGMENT) {
			expect_tuple(targets[0], i - SEGMENT);
			expect_tuple(targets[2], i - SEGMENT);
		}
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	for (i = n - SEGMENT; i < n; i++) {
		expect_tuple(targets[0], i);
		expect_tuple(targets[2], i);
	}
	expect_end(targets[0]);
	expect_end(targets[2]);
	close_targets(3);
}

static bool push_is_refused(void *arg)
{
	int ret = push(arg, 0);

	cr_assert(ret == 0 || ret == -EPIPE, "%s", dfi_errmsg());
	return ret == -EPIPE;
}

TEST_EACH(source_whose_targets_have_all_cancelled_gets_an_error)
{
	struct dfi_source *source = start(2, 0);

	cr_assert_eq(dfi_target_cancel(targets[1]), 0);
	cr_assert_eq(dfi_target_cancel(targets[0]), 0);
	cr_assert(eventually(push_is_refused, source));
	assert_error(
	    push(source, 0), -EPIPE, "flow 'f'", "source 0", "all 2 targets");
	cr_assert_eq(dfi_source_flush(source), 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	close_targets(2);
}

/* Before the source attaches. */
TEST_EACH(target_that_has_cancelled_gets_nothing)
{
	struct dfi_flow_attr attr = flow_attr(1, 2);
	struct dfi_source *source;
	uint64_t i;

	create(&attr);
	open_targets(2, DFI_NONBLOCK);
	cr_assert_eq(dfi_target_cancel(targets[0]), 0);
	source = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < 3 * RING; i++) {
		cr_assert_eq(push(source, i), 0, "%s", dfi_errmsg());
		if (i >= SEGMENT)
			expect_tuple(targets[1], i - SEGMENT);
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	close_targets(1);
	for (i -= SEGMENT; i < 3 * RING; i++)
		expect_tuple(targets[1], i);
	expect_end(targets[1]);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
}

struct pusher {
	pthread_t thread;
	struct dfi_source *source;
	int ret;
	char text[300];
};

static void *push_until_error(void *arg)
{
	struct pusher *pusher = arg;
	uint64_t i;

	for (i = 0; !(pusher->ret = push(pusher->source, i)); i++)
		;
	snprintf(pusher->text, sizeof(pusher->text), "%s", dfi_errmsg());
	return NULL;
}

static bool sleeps(void *arg)
{
	struct dfi_source_stats stats;

	/* Counters may be read by any thread; the handle lives. */
	dfi_source_query(((struct pusher *)arg)->source, &stats);
	return stats.stalls > 0;
}

/*
 * The source sleeps on the full ring of target 0 when another target goes:
 * first one that cancels, which changes nothing, then one that leaves.
 */
TEST_EACH_DEVICE(wait_for_one_target_ends_when_another_leaves)
{
	struct pusher pusher = { .ret = 0 };

	pusher.source = start(3, 0);
	cr_assert_eq(
	    pthread_create(&pusher.thread, NULL, push_until_error, &pusher), 0);
	cr_assert(eventually(sleeps, &pusher));
	cr_assert_eq(dfi_target_cancel(targets[1]), 0);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
	cr_assert_eq(dfi_target_close(targets[2]), 0);
	cr_assert_eq(pthread_join(pusher.thread, NULL), 0);
	cr_assert_eq(pusher.ret, -ECONNRESET, "%s", pusher.text);
	cr_assert_not_null(strstr(pusher.text, "target 2"), "%s", pusher.text);
	assert_error(dfi_source_close(pusher.source), -ECONNRESET, "target 2");
	cr_assert_eq(dfi_target_close(targets[0]), 0);
}

TEST_EACH(wait_for_a_target_ends_when_it_cancels)
{
	struct pusher pusher = { .ret = 0 };

	pusher.source = start(2, 0);
	cr_assert_eq(dfi_target_cancel(targets[1]), 0);
	cr_assert_eq(
	    pthread_create(&pusher.thread, NULL, push_until_error, &pusher), 0);
	cr_assert(eventually(sleeps, &pusher));
	cr_assert_eq(dfi_target_cancel(targets[0]), 0);
	cr_assert_eq(pthread_join(pusher.thread, NULL), 0);
	cr_assert_eq(pusher.ret, -EPIPE, "%s", pusher.text);
	cr_assert_eq(dfi_source_close(pusher.source), 0, "%s", dfi_errmsg());
	close_targets(2);
}

/* Lost datagrams are not sent again then: nothing must be missing. */
TEST_EACH(aborted_source_cancels_all_targets)
{
	struct dfi_source *source = start(2, 0);
	bool early = replication == DFI_REPLICATION_MULTICAST;
	const void *tuple;
	uint32_t t;

	cr_assert_eq(push(source, 0), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	for (t = 0; early && t < 2; t++)
		expect_tuple(targets[t], 0);
	dfi_source_abort(source);
	cr_assert_eq(dfi_source_flush(source), -ECANCELED);
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
	for (t = 0; t < 2; t++) {
		if (!early)
			expect_tuple(targets[t], 0);
		assert_error(consume_soon(targets[t], &tuple), -ECANCELED,
		    "source 0", "aborted");
		cr_assert_eq(dfi_target_close(targets[t]), -ECANCELED);
	}
}

static struct dfi_source *open_lingering(uint32_t linger_us)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;

	attr.linger_us = linger_us;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, &attr, &source), 0, "%s",
	    dfi_errmsg());
	return source;
}

/* Also when one has cancelled, and gives no more credit. */
TEST_EACH(lingering_segments_come_to_all)
{
	struct dfi_flow_attr attr = flow_attr(1, 3);
	struct dfi_source *source;
	uint64_t i;

	create(&attr);
	open_targets(3, DFI_NONBLOCK);
	source = open_lingering(1000);
	for (i = 0; i < 4 * SEGMENTS; i++) {
		if (i == SEGMENTS)
			cr_assert_eq(dfi_target_cancel(targets[0]), 0);
		cr_assert_eq(push(source, i), 0, "%s", dfi_errmsg());
		/* Nobody flushes. */
		if (i < SEGMENTS)
			expect_tuple(targets[0], i);
		expect_tuple(targets[1], i);
		expect_tuple(targets[2], i);
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_end(targets[1]);
	expect_end(targets[2]);
	close_targets(3);
}

/* The owner stays away from the moment when the ring is full. */
TEST_EACH(lingering_goes_on_without_a_target_that_cancels)
{
	struct dfi_flow_attr attr = flow_attr(1, 2);
	struct dfi_source *source;
	uint64_t i, n = SEGMENTS + SEGMENT - 1;

	attr.segment_size = 2 * RING * sizeof(struct kv);
	create(&attr);
	open_targets(2, DFI_NONBLOCK);
	source = open_lingering(1000);
	/* Enough partial segments that target 0 has no room for the last. */
	for (i = 0; i < SEGMENTS - 1; i++) {
		cr_assert_eq(push(source, i), 0, "%s", dfi_errmsg());
		expect_tuple(targets[1], i);
	}
	for (; i < n; i++)
		cr_assert_eq(push(source, i), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_cancel(targets[0]), 0);
	for (i = SEGMENTS - 1; i < n; i++)
		expect_tuple(targets[1], i);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_end(targets[1]);
	close_targets(2);
}

TEST_EACH(copies_are_counted)
{
	struct dfi_source *source = start(3, 0);
	struct dfi_source_stats stats;
	struct dfi_target_stats taken;
	struct dfi_flow_info info;
	uint64_t i, n = RING - 1;
	uint32_t t;

	for (i = 0; i < n; i++)
		cr_assert_eq(push(source, i), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	dfi_source_query(source, &stats);
	cr_assert_eq(stats.tuples, n);
	cr_assert_eq(stats.bytes, n * sizeof(struct kv));
	cr_assert_eq(stats.segments, SEGMENTS);
	cr_assert_eq(stats.partial_segments, 1);
	/*
	 * Into the segment, and from there into three rings, if it must; over
	 * RDMA, the device takes it from there.
	 */
	cr_assert_eq(dfi_flow_lookup(rig.dfi, "f", &info), 0);
	cr_assert_eq(stats.copied_bytes,
	    info.replication == DFI_REPLICATION_NAIVE && !over_network()
		? 4 * stats.bytes
		: stats.bytes);
	cr_assert_eq(dfi_source_close(source), 0);
	for (t = 0; t < 3; t++) {
		for (i = 0; i < n; i++)
			expect_tuple(targets[t], i);
		expect_end(targets[t]);
		dfi_target_query(targets[t], &taken);
		cr_assert_eq(taken.tuples, n);
	}
	close_targets(3);
}

#ifndef DFI_DATAGRAMS_ONLY
Test(replicate, shuffled_tuples_are_copied_once)
{
	struct dfi_source_stats stats;
	struct dfi_source *source;

	create_kv_flow(rig.dfi, "f", 1, 1, SEGMENT, SEGMENTS);
	open_targets(1, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(push(source, 0), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	dfi_source_query(source, &stats);
	cr_assert_eq(stats.copied_bytes, sizeof(struct kv));
	cr_assert_eq(dfi_source_close(source), 0);
	close_targets(1);
}
#endif

TEST_EACH(group_consumes_from_all_targets)
{
	struct dfi_flow_attr attr = flow_attr(1, 3);
	struct dfi_target_group_batch batch;
	struct dfi_target_group *group;
	struct dfi_source *source;
	uint64_t n[3] = { 0 }, i;
	int ret;

	create(&attr);
	open_targets(3, 0);
	cr_assert_eq(dfi_target_group_open(rig.dfi, NULL, &group), 0);
	for (i = 0; i < 3; i++)
		cr_assert_eq(dfi_target_group_add(group, targets[i], NULL), 0);
	source = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < RING; i++)
		cr_assert_eq(push(source, i), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	while ((ret = dfi_target_group_consume_batch(group, &batch)) > 0) {
		n[batch.index] += (uint64_t)ret;
		dfi_target_group_release(group, &batch);
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	for (i = 0; i < 3; i++)
		cr_assert_eq(n[i], RING);
	close_targets(3);
	cr_assert_eq(dfi_target_group_close(group), 0);
}

/* Rings have 4 segments of 4 tuples. */
TEST_EACH(claim_of_n_and_batch_to_all_are_for_all_targets)
{
	struct dfi_source *source = start(2, 0);
	struct kv kvs[3] = { kv_of(0, 3), kv_of(0, 4), kv_of(0, 5) };
	struct dfi_span span;
	uint64_t seq;
	uint32_t i;

	cr_assert_eq(push(source, 0), 0);
	cr_assert_eq(push(source, 1), 0);
	cr_assert_eq(push(source, 2), 0);
	cr_assert_eq(
	    dfi_source_push_batch_to(source, DFI_ALL_TARGETS, kvs, 3), 3);
	assert_error(dfi_source_claim_n(source, DFI_ALL_TARGETS, 5, &span),
	    -EMSGSIZE, "at most 4");
	/* Of its segment two are left. */
	cr_assert_eq(dfi_source_claim_n(source, DFI_ALL_TARGETS, 3, &span), 0,
	    "%s", dfi_errmsg());
	cr_assert_eq(span.count, 4);
	for (i = 0; i < 3; i++)
		((struct kv *)span.tuples)[i] = kv_of(0, 6 + i);
	cr_assert_eq(dfi_source_commit(source, &span, 3), 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	for (i = 0; i < 2; i++) {
		for (seq = 0; seq < 9; seq++)
			expect_tuple(targets[i], seq);
		expect_end(targets[i]);
	}
	close_targets(2);
}

TEST_EACH(targets_have_no_numbers)
{
	struct dfi_source *source = start(3, 0);
	struct dfi_source_cursor cursor;
	struct dfi_span span;
	struct kv kv = { 0, 0 };

	assert_error(dfi_source_claim(source, 1, &span), -ERANGE,
	    "source 0: target 1", "goes to all", "DFI_ALL_TARGETS");
	cursor = dfi_source_cursor_open(source, 2, sizeof(kv));
	cr_assert_eq(cursor.status, -ERANGE);
	cr_assert_eq(dfi_source_cursor_close(cursor), -ERANGE);
	assert_error(dfi_source_push_to(source, 1, &kv), -ERANGE,
	    "source 0: target 1", "goes to all", "DFI_ALL_TARGETS");
	/* Of a shuffle flow 0 is a target. */
	assert_error(dfi_source_push_to(source, 0, &kv), -ERANGE,
	    "source 0: target 0", "DFI_ALL_TARGETS");
	assert_error(dfi_source_push_batch_to(source, 0, &kv, 1), -ERANGE,
	    "source 0: target 0", "DFI_ALL_TARGETS");
	assert_error(dfi_source_claim(source, 0, &span), -ERANGE,
	    "source 0: target 0", "DFI_ALL_TARGETS");
	assert_error(dfi_source_claim_n(source, 0, 1, &span), -ERANGE,
	    "source 0: target 0", "DFI_ALL_TARGETS");
	cr_assert_eq(
	    dfi_source_cursor_open(source, 0, sizeof(kv)).status, -ERANGE);
	cr_assert_eq(dfi_source_close(source), -ERANGE);
	close_targets(0);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
	cr_assert_eq(dfi_target_close(targets[2]), 0);
}

static int create_with(const struct dfi_flow_attr *attr)
{
	return dfi_flow_create(rig.dfi, "f", attr);
}

Test(replicate, attributes_that_make_no_sense_are_named)
{
	struct dfi_flow_attr good = flow_attr(1, 2), attr;
	const int64_t splits[] = { 1 };

	attr = good;
	attr.routing = DFI_ROUTE_ROUND_ROBIN;
	assert_error(
	    create_with(&attr), -EINVAL, "flow 'f': routing", "DFI_REPLICATE");
	attr = good;
	attr.key = "key";
	assert_error(create_with(&attr), -EINVAL, "flow 'f': key ");
	attr = good;
	attr.radix_bits = 1;
	assert_error(create_with(&attr), -EINVAL, "flow 'f': radix_bits");
	attr = good;
	attr.radix_shift = 1;
	assert_error(create_with(&attr), -EINVAL, "flow 'f': radix_shift");
	attr = good;
	attr.splits = splits;
	assert_error(create_with(&attr), -EINVAL, "flow 'f': splits");
	attr = good;
	attr.replicate.method = 3;
	assert_error(
	    create_with(&attr), -EINVAL, "flow 'f': replicate.method 3");
	attr = good;
	attr.kind = DFI_SHUFFLE;
	attr.replicate.method = DFI_REPLICATION_NAIVE;
	assert_error(create_with(&attr), -EINVAL, "flow 'f': replicate.method",
	    "DFI_REPLICATE");
	attr = good;
	attr.kind = 4;
	assert_error(create_with(&attr), -EINVAL, "flow 'f': kind 4");
}

Test(replicate, loss_policy_is_for_what_can_lose_something)
{
	struct dfi_flow_attr good = flow_attr(1, 2), attr = good;

	attr.replicate.loss_policy = DFI_LOSS_NOTIFY + 1;
	assert_error(
	    create_with(&attr), -EINVAL, "flow 'f': replicate.loss_policy 2");
	attr = good;
	attr.replicate.gap_timeout_us = DFI_MAX_GAP_TIMEOUT_US + 1;
	assert_error(create_with(&attr), -EINVAL, "gap_timeout_us 10000001");
	attr = good;
	attr.replicate.loss_policy = DFI_LOSS_NOTIFY;
	attr.replicate.method = DFI_REPLICATION_NAIVE;
	assert_error(create_with(&attr), -EINVAL, "loss_policy",
	    "DFI_REPLICATION_NAIVE loses nothing");
	attr = good;
	attr.replicate.loss_policy = DFI_LOSS_NOTIFY;
	attr.transport = DFI_TRANSPORT_SHM;
	assert_error(create_with(&attr), -EINVAL, "loss_policy",
	    "DFI_TRANSPORT_SHM loses nothing");
	attr = good;
	attr.kind = DFI_SHUFFLE;
	attr.replicate.gap_timeout_us = 5;
	assert_error(
	    create_with(&attr), -EINVAL, "gap_timeout_us", "DFI_REPLICATE");
	attr.replicate.loss_policy = DFI_LOSS_NOTIFY;
	assert_error(
	    create_with(&attr), -EINVAL, "loss_policy", "DFI_REPLICATE");
}

/* Chosen by the library, it just loses nothing. */
Test(replicate, loss_policy_is_published)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_flow_info info;

	create(&attr);
	cr_assert_eq(dfi_flow_lookup(rig.other, "f", &info), 0);
	cr_assert_eq(info.loss_policy, DFI_LOSS_RECOVER);
	cr_assert_eq(info.gap_timeout_us, DFI_DEFAULT_GAP_TIMEOUT_US);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	attr.replicate.loss_policy = DFI_LOSS_NOTIFY;
	attr.replicate.gap_timeout_us = DFI_MAX_GAP_TIMEOUT_US;
	create(&attr);
	cr_assert_eq(dfi_flow_lookup(rig.other, "f", &info), 0);
	cr_assert_eq(info.loss_policy, DFI_LOSS_NOTIFY);
	cr_assert_eq(info.gap_timeout_us, DFI_MAX_GAP_TIMEOUT_US);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	cr_assert_eq(dfi_flow_lookup(rig.other, "f", &info), 0);
	cr_assert_eq(info.loss_policy, 0);
	cr_assert_eq(info.gap_timeout_us, 0);
}

/* Their errors are found without a device. */
Test(replicate, attributes_of_datagrams_that_make_no_sense_are_named)
{
	struct dfi_flow_attr good = flow_attr(1, 2), attr;

	good.replicate.method = DFI_REPLICATION_MULTICAST;
	good.transport = DFI_TRANSPORT_VERBS;
	attr = good;
	attr.replicate.multicast_address = "10.1.2.3";
	assert_error(create_with(&attr), -EINVAL, "flow 'f'",
	    "multicast_address '10.1.2.3'");
	attr.replicate.multicast_address = "fd00::1";
	assert_error(create_with(&attr), -EINVAL, "fd00::1");
	attr.replicate.multicast_address = "group";
	assert_error(create_with(&attr), -EINVAL, "multicast_address 'group'");
	attr = good;
	attr.replicate.multicast_address = "239.1.2.3";
	attr.replicate.method = DFI_REPLICATION_NAIVE;
	assert_error(create_with(&attr), -EINVAL, "multicast_address",
	    "DFI_REPLICATION_MULTICAST");
}

/* No device has datagrams larger than 4096 bytes. */
Test(replicate, segments_larger_than_a_datagram_are_refused_with_the_limit)
{
	struct dfi_flow_attr attr = flow_attr(1, 2);

	attr.replicate.method = DFI_REPLICATION_MULTICAST;
	attr.transport = DFI_TRANSPORT_VERBS;
	attr.segment_size = 4096;
	assert_error(create_with(&attr), -EMSGSIZE, "flow 'f'",
	    "segments of 4096 bytes", "sends at most 4096", "segment_size");
	attr.verify = DFI_VERIFY_CHECKSUM;
	attr.segment_size = 4096 - 32;
	assert_error(create_with(&attr), -EMSGSIZE, "segment_size");
}

static uint32_t published(uint32_t wanted, uint32_t transport)
{
	struct dfi_flow_attr attr = flow_attr(1, 2);
	struct dfi_flow_info info;

	attr.replicate.method = wanted;
	attr.transport = transport;
	create(&attr);
	cr_assert_eq(dfi_flow_lookup(rig.other, "f", &info), 0);
	cr_assert_eq(info.kind, DFI_REPLICATE);
	cr_assert_str_empty(info.key);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	return info.replication;
}

Test(replicate, is_published)
{
	cr_assert_eq(published(DFI_REPLICATION_DEFAULT, DFI_TRANSPORT_SHM),
	    DFI_REPLICATION_MULTICAST);
	cr_assert_eq(published(DFI_REPLICATION_MULTICAST, DFI_TRANSPORT_SHM),
	    DFI_REPLICATION_MULTICAST);
	cr_assert_eq(published(DFI_REPLICATION_NAIVE, DFI_TRANSPORT_SHM),
	    DFI_REPLICATION_NAIVE);
	cr_assert_eq(published(DFI_REPLICATION_DEFAULT, DFI_TRANSPORT_VERBS),
	    DFI_REPLICATION_NAIVE);
	/* Creating a flow needs no device. */
	cr_assert_eq(published(DFI_REPLICATION_MULTICAST, DFI_TRANSPORT_VERBS),
	    DFI_REPLICATION_MULTICAST);
}

/* ---- By datagrams ------------------------------------------------------- */

Test(multicast, flows_of_one_group_are_kept_apart)
{
	struct dfi_flow_attr attr = flow_attr(1, 2);
	struct dfi_target *others[2];
	struct dfi_source *source, *other;
	uint64_t i;

	attr.replicate.method = DFI_REPLICATION_MULTICAST;
	attr.replicate.multicast_address = "239.194.7.9";
	create(&attr);
	cr_assert_eq(dfi_flow_create(rig.dfi, "g", &attr), 0);
	open_targets(2, DFI_NONBLOCK);
	for (i = 0; i < 2; i++)
		others[i] = open_target(
		    rig.dfi, "g", (uint32_t)i, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	other = open_source(rig.other, "g", 0, 0);
	for (i = 0; i < RING; i++) {
		cr_assert_eq(push(source, i), 0);
		cr_assert_eq(push(other, RING + i), 0);
	}
	for (i = 0; i < 2 * RING; i++) {
		expect_tuple(
		    i % 2 ? others[0] : targets[0], i / 2 + (i % 2 ? RING : 0));
		expect_tuple(
		    i % 2 ? others[1] : targets[1], i / 2 + (i % 2 ? RING : 0));
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(other), 0, "%s", dfi_errmsg());
	for (i = 0; i < 2; i++) {
		expect_end(others[i]);
		cr_assert_eq(dfi_target_close(others[i]), 0);
		expect_end(targets[i]);
	}
	close_targets(2);
}

/* Targets would take its segments for earlier ones. */
Test(multicast, source_that_was_attached_before_is_refused)
{
	struct dfi_flow_attr attr = flow_attr(2, 1);
	struct dfi_source *source;

	attr.replicate.method = DFI_REPLICATION_MULTICAST;
	create(&attr);
	open_targets(1, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(push(source, 0), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	expect_tuple(targets[0], 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	assert_error(dfi_source_open(rig.other, "f", 0, NULL, &source), -EEXIST,
	    "source 0", "before");
	source = open_source(rig.other, "f", 1, 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_end(targets[0]);
	close_targets(1);
}

Test(multicast, default_segments_fill_datagrams_of_the_device)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_flow_info info;

	attr.replicate.method = DFI_REPLICATION_MULTICAST;
	attr.segment_size = attr.segment_count = 0;
	create(&attr);
	cr_assert_eq(dfi_flow_lookup(rig.dfi, "f", &info), 0);
	cr_assert_gt(info.segment_size, 128);
	cr_assert_leq(info.segment_size, 4096 - 32);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	/* A tuple more doesn't fit. */
	attr.segment_size = info.segment_size + sizeof(struct kv);
	assert_error(create_with(&attr), -EMSGSIZE, "at most");
}

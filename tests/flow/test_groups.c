/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicate flows with target sets: each tuple reaches exactly the targets that
 * its push or a function names. Each target computes its tuples of random sets
 * as a reference.
 */
#include <criterion/criterion.h>
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

TestSuite(groups, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(groups_datagrams, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(groups_naive, .init = setup, .fini = teardown, .timeout = 300);

#define TEST_EACH(name) \
	TEST_EACH_METHOD(groups_naive, groups, groups_datagrams, name)

enum {
	MAX_ENDS = 8,
	SEGMENT = 4, /* tuples */
	SEGMENTS = 4,
	RING = SEGMENT * SEGMENTS,
	MAX_BATCH = 16,
};

#define BIT(target) (UINT64_C(1) << (target))

static struct dfi_target *targets[DFI_MAX_SET_TARGETS];

static struct dfi_flow_attr flow_attr(
    uint32_t n_sources, uint32_t n_targets, uint32_t routing)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_REPLICATE;
	attr.replicate.method = replication;
	attr.routing = routing;
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

/* A source with n nonblocking targets. */
static struct dfi_source *start_with(
    const struct dfi_flow_attr *attr, uint32_t source_flags)
{
	uint32_t t;

	create(attr);
	for (t = 0; t < attr->n_targets; t++)
		targets[t] = open_target(
		    t % 2 ? rig.dfi : rig.other, "f", t, DFI_NONBLOCK);
	return open_source(rig.dfi, "f", 0, source_flags);
}

static struct dfi_source *start(uint32_t n, uint32_t source_flags)
{
	struct dfi_flow_attr attr = flow_attr(1, n, DFI_ROUTE_DIRECT);

	return start_with(&attr, source_flags);
}

static void close_targets(uint32_t n)
{
	uint32_t t;

	for (t = 0; t < n; t++)
		cr_assert_eq(
		    dfi_target_close(targets[t]), 0, "%s", dfi_errmsg());
}

static struct kv kv_of(uint64_t source, uint64_t seq)
{
	return (struct kv){ source << 32 | seq, mix(source, seq) };
}

static int push(struct dfi_source *source, uint64_t set, uint64_t seq)
{
	struct kv kv = kv_of(0, seq);

	return dfi_source_push_set(source, set, &kv);
}

static void expect_tuple(struct dfi_target *target, uint64_t seq)
{
	struct kv expected = kv_of(0, seq);
	const void *tuple;

	cr_assert_eq(consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
	cr_assert_eq(memcmp(tuple, &expected, sizeof(expected)), 0,
	    "tuple %lu is another one", (unsigned long)seq);
}

static int consume(struct dfi_target *target)
{
	const void *tuple;

	return dfi_target_consume(target, &tuple);
}

static int await(struct dfi_target *target)
{
	const void *tuple;

	return consume_soon(target, &tuple);
}

static void expect_end(struct dfi_target *target)
{
	const void *tuple;

	cr_assert_eq(consume_soon(target, &tuple), 0, "%s", dfi_errmsg());
}

/* A random flow; all of it, and each tuple's set, follow from the seed. */
struct plan {
	uint64_t seed, all;
	struct dfi_flow_attr attr;
	uint32_t run; /* this many tuples of a source have the same set */
	uint32_t linger_us;
	uint64_t n; /* tuples of each source */
};

/*
 * The size of segments in tuples. Some are so large that the write with a
 * footer can't cover them, so targets without tuples find the header elsewhere.
 */
static uint32_t random_size(struct rng *rng)
{
	return rng_below(rng, 3) ? 1 + rng_below(rng, 7)
				 : 16 + rng_below(rng, 8);
}

static struct plan make_plan(uint64_t seed)
{
	struct rng rng = { seed };
	struct plan plan = {
		.seed = seed,
		.attr = flow_attr(1 + rng_below(&rng, 3),
		    1 + rng_below(&rng, MAX_ENDS),
		    rng_below(&rng, 2) ? DFI_ROUTE_DIRECT : DFI_ROUTE_FUNCTION),
		.run = 1 + rng_below(&rng, 3) * rng_below(&rng, 12),
		.n = rng_below(&rng, 1500),
	};

	plan.all = UINT64_MAX >> (64 - plan.attr.n_targets);
	plan.attr.goal = rng_below(&rng, 4) ? DFI_BANDWIDTH : DFI_LATENCY;
	plan.attr.verify = rng_below(&rng, 3) ? DFI_VERIFY_NONE
					      : DFI_VERIFY_CHECKSUM;
	plan.attr.segment_size = plan.attr.goal == DFI_LATENCY
	    ? 0
	    : random_size(&rng) * (uint32_t)sizeof(struct kv);
	plan.attr.segment_count = 2 + rng_below(&rng, 5);
	plan.linger_us = rng_below(&rng, 4) ? DFI_NO_LINGER : 200;
	plan.attr.replicate.ordered = rng_below(&rng, 3) == 0;
	return plan;
}

static uint64_t set_of(const struct plan *plan, uint64_t source, uint64_t seq)
{
	uint64_t dense = mix(plan->seed + source, seq / plan->run);
	uint64_t sparse = dense & mix(dense, 1);
	uint64_t set = (dense >> 62 ? sparse : dense) & plan->all;

	return set ? set : BIT(seq % plan->attr.n_targets);
}

/* The set of a tuple, which contains its sender. */
static uint64_t route_set(void *arg, const void *tuple, uint32_t n_targets)
{
	const struct plan *plan = arg;
	struct kv kv;

	memcpy(&kv, tuple, sizeof(kv));
	return n_targets == plan->attr.n_targets
	    ? set_of(plan, kv.key >> 32, kv.key & UINT32_MAX)
	    : 0;
}

struct end {
	pthread_t thread;
	const struct plan *plan;
	bool is_source;
	uint32_t index;
	uint64_t next[MAX_ENDS]; /* of each source: the next to come */
	uint64_t received;
	char text[300];
};

/* Of one set, built in place or by a cursor. */
static int push_chosen(struct dfi_source *source, uint64_t set,
    const struct kv *kv, uint32_t n, uint32_t way)
{
	struct dfi_source_cursor cursor;
	struct dfi_span span;
	uint32_t i;
	int ret = dfi_source_choose(source, set);

	if (ret < 0)
		return ret;
	switch (way) {
	case 0:
		ret = dfi_source_claim(source, DFI_ALL_TARGETS, &span);
		if (ret < 0)
			return ret;
		n = n < span.count ? n : span.count;
		memcpy(span.tuples, kv, n * sizeof(*kv));
		ret = dfi_source_commit(source, &span, n);
		return ret < 0 ? ret : (int)n;
	case 1:
		cursor = dfi_source_cursor_open(
		    source, DFI_ALL_TARGETS, sizeof(*kv));
		for (i = 0; i < n; i++)
			if (dfi_source_cursor_push(
				&cursor, &kv[i], sizeof(*kv)))
				break;
		ret = dfi_source_cursor_close(cursor);
		return ret < 0 ? ret : (int)i;
	case 2:
		ret = dfi_source_push_to(source, DFI_ALL_TARGETS, kv);
		return ret < 0 ? ret : 1;
	default:
		return dfi_source_push_set(source, set, kv) < 0 ? -EIO : 1;
	}
}

/* Some tuples from seq on: how many, or an error. */
static int push_some(
    struct end *end, struct dfi_source *source, struct rng *rng, uint64_t seq)
{
	const struct plan *plan = end->plan;
	uint64_t left = plan->n - seq, set = set_of(plan, end->index, seq);
	struct kv kv[MAX_BATCH];
	uint32_t i, n = 1 + rng_below(rng, MAX_BATCH);
	int ret;

	n = n < left ? n : (uint32_t)left;
	for (i = 0; i < n; i++)
		kv[i] = kv_of(end->index, seq + i);
	if (plan->attr.routing == DFI_ROUTE_FUNCTION && rng_below(rng, 4)) {
		if (rng_below(rng, 2))
			return dfi_source_push_batch(source, kv, n);
		ret = dfi_source_push(source, kv);
		return ret < 0 ? ret : 1;
	}
	for (i = 1; i < n && set_of(plan, end->index, seq + i) == set; i++)
		;
	if (plan->attr.routing == DFI_ROUTE_DIRECT && !rng_below(rng, 4)) {
		ret = dfi_source_choose(source, set);
		return ret < 0 ? ret : dfi_source_push_batch(source, kv, i);
	}
	return push_chosen(source, set, kv, i, rng_below(rng, 4));
}

/* The tuples that were sent, and the bytes that were written for them. */
static int check_source(struct end *end, struct dfi_source *source)
{
	const struct plan *plan = end->plan;
	struct dfi_source_stats stats;
	struct dfi_flow_info info;
	uint64_t copies = 0, i;
	bool copied;

	if (dfi_source_flush(source) < 0 ||
	    dfi_flow_lookup(rig.dfi, "f", &info) < 0)
		return -EIO;
	/* Over RDMA the device reads them in place. */
	copied = info.replication == DFI_REPLICATION_NAIVE && !over_network();
	for (i = 0; i < plan->n; i++)
		copies += copied ? 1 +
			(uint64_t)__builtin_popcountll(
			    set_of(plan, end->index, i))
				 : 1;
	dfi_source_query(source, &stats);
	if (stats.tuples == plan->n &&
	    stats.bytes == plan->n * sizeof(struct kv) &&
	    /* Lingering also copies tuples that are sent in parts. */
	    (plan->linger_us != DFI_NO_LINGER ||
		stats.copied_bytes == copies * sizeof(struct kv)))
		return 0;
	snprintf(end->text, sizeof(end->text),
	    "source %u counts %lu tuples, %lu bytes, copied %lu, not %lu",
	    end->index, (unsigned long)stats.tuples, (unsigned long)stats.bytes,
	    (unsigned long)stats.copied_bytes,
	    (unsigned long)(copies * sizeof(struct kv)));
	return -EIO;
}

static void *run_source(void *arg)
{
	struct end *end = arg;
	struct rng rng = { mix(end->plan->seed, end->index) };
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source = NULL;
	uint64_t seq = 0;
	int ret, closed;

	attr.route_set = route_set;
	attr.route_arg = (void *)end->plan;
	attr.linger_us = end->plan->linger_us;
	ret = dfi_source_open(rig.dfi, "f", end->index, &attr, &source);
	while (ret >= 0 && seq < end->plan->n) {
		ret = push_some(end, source, &rng, seq);
		if (ret > 0)
			seq += (uint64_t)ret;
		if (ret > 0 && !rng_below(&rng, 16))
			ret = dfi_source_flush(source);
	}
	if (ret >= 0)
		ret = check_source(end, source);
	closed = dfi_source_close(source);
	if ((ret < 0 || closed < 0) && !*end->text)
		snprintf(end->text, sizeof(end->text), "source %u: %s",
		    end->index, dfi_errmsg());
	return NULL;
}

/* The next tuple that a source owes this target. */
static uint64_t seek(struct end *end, uint32_t source)
{
	uint64_t *next = &end->next[source];

	while (*next < end->plan->n &&
	    !(set_of(end->plan, source, *next) & BIT(end->index)))
		++*next;
	return *next;
}

static int check_batch(struct end *end, const struct dfi_batch *batch)
{
	const struct kv *kv = batch->tuples;
	struct kv expected;
	uint32_t i;

	for (i = 0; i < batch->count; i++) {
		expected = kv_of(batch->source, seek(end, batch->source));
		if (memcmp(&kv[i], &expected, sizeof(expected)) != 0)
			return -EIO;
		end->next[batch->source]++;
	}
	end->received += batch->count;
	return 0;
}

static void check_end(struct end *end, struct dfi_target *target)
{
	struct dfi_target_stats stats;
	uint32_t s;

	for (s = 0; s < end->plan->attr.n_sources; s++)
		if (seek(end, s) != end->plan->n)
			snprintf(end->text, sizeof(end->text),
			    "target %u misses tuple %lu of source %u",
			    end->index, (unsigned long)end->next[s], s);
	dfi_target_query(target, &stats);
	if (stats.tuples != end->received)
		snprintf(end->text, sizeof(end->text),
		    "target %u counts %lu tuples of %lu", end->index,
		    (unsigned long)stats.tuples, (unsigned long)end->received);
}

static void *run_target(void *arg)
{
	struct end *end = arg;
	struct rng rng = { mix(end->plan->seed, 100 + end->index) };
	struct dfi_target *target = targets[end->index];
	struct dfi_batch batch;
	int ret;

	while ((ret = dfi_target_consume_batch(target, &batch)) > 0) {
		if (check_batch(end, &batch) < 0) {
			snprintf(end->text, sizeof(end->text),
			    "target %u: not tuple %lu of source %u", end->index,
			    (unsigned long)end->next[batch.source],
			    batch.source);
			dfi_target_release(target, &batch);
			dfi_target_cancel(target);
			return NULL;
		}
		dfi_target_release(target, &batch);
		if (!rng_below(&rng, 32))
			yield_times(rng_below(&rng, 20));
	}
	if (ret < 0)
		snprintf(end->text, sizeof(end->text), "target %u: %s",
		    end->index, dfi_errmsg());
	else
		check_end(end, target);
	return NULL;
}

static void run_plan(const struct plan *plan)
{
	uint32_t i, n_sources = plan->attr.n_sources;
	uint32_t n_ends = n_sources + plan->attr.n_targets;
	struct end ends[2 * MAX_ENDS];

	create(&plan->attr);
	for (i = 0; i < plan->attr.n_targets; i++)
		targets[i] = open_target(
		    i % 2 ? rig.dfi : rig.other, "f", i, 0);
	for (i = 0; i < n_ends; i++) {
		ends[i] = (struct end){
			.plan = plan,
			.is_source = i < n_sources,
			.index = i < n_sources ? i : i - n_sources,
		};
		cr_assert_eq(
		    pthread_create(&ends[i].thread, NULL,
			ends[i].is_source ? run_source : run_target, &ends[i]),
		    0);
	}
	for (i = 0; i < n_ends; i++)
		cr_assert_eq(pthread_join(ends[i].thread, NULL), 0);
	for (i = 0; i < n_ends; i++)
		cr_assert_eq(ends[i].text[0], '\0', "DFI_TEST_SEED=%lu: %s",
		    (unsigned long)plan->seed, ends[i].text);
	close_targets(plan->attr.n_targets);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

TEST_EACH(random_sets_come_to_their_targets_and_to_no_other)
{
	uint64_t seed = test_setting("GROUP_SEED", test_setting("SEED", 1));
	uint64_t end = seed + test_setting("GROUP_SEEDS", 100);
	struct plan plan;

	for (; seed < end; seed++) {
		plan = make_plan(seed);
		run_plan(&plan);
	}
}

TEST_EACH(largest_number_of_targets)
{
	uint32_t t, n = DFI_MAX_SET_TARGETS;
	struct dfi_flow_attr attr = flow_attr(1, n, DFI_ROUTE_DIRECT);
	struct dfi_source *source;

	attr.segment_count = n + 2;
	source = start_with(&attr, 0);
	for (t = 0; t < n; t++)
		cr_assert_eq(push(source, BIT(t), t), 0, "%s", dfi_errmsg());
	cr_assert_eq(push(source, UINT64_MAX, n), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_flush(source), 0);
	for (t = 0; t < n; t++) {
		expect_tuple(targets[t], t);
		expect_tuple(targets[t], n);
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	for (t = 0; t < n; t++)
		expect_end(targets[t]);
	close_targets(n);
}

TEST_EACH(everything_goes_to_all_until_a_set_is_chosen)
{
	struct dfi_source *source = start(3, 0);
	struct kv kv = kv_of(0, 0);

	cr_assert_eq(dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_choose(source, BIT(1)), 0, "%s", dfi_errmsg());
	kv = kv_of(0, 1);
	cr_assert_eq(dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_tuple(targets[0], 0);
	expect_end(targets[0]);
	expect_tuple(targets[1], 0);
	expect_tuple(targets[1], 1);
	expect_end(targets[1]);
	expect_tuple(targets[2], 0);
	expect_end(targets[2]);
	close_targets(3);
}

TEST_EACH(set_that_changes_ends_the_segment_and_one_that_stays_does_not)
{
	struct dfi_source *source = start(2, 0);
	struct dfi_source_stats stats;

	cr_assert_eq(push(source, BIT(0), 0), 0);
	cr_assert_eq(push(source, BIT(0), 1), 0);
	cr_assert_eq(dfi_source_choose(source, BIT(0)), 0);
	dfi_source_query(source, &stats);
	cr_assert_eq(stats.segments, 0);
	cr_assert_eq(push(source, BIT(1), 2), 0);
	dfi_source_query(source, &stats);
	cr_assert_eq(stats.segments, 1);
	expect_tuple(targets[0], 0);
	expect_tuple(targets[0], 1);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_tuple(targets[1], 2);
	expect_end(targets[0]);
	expect_end(targets[1]);
	close_targets(2);
}

/* It is not for target 1, but that has to consume all the same. */
TEST_EACH(target_that_does_not_consume_holds_up_what_is_for_others)
{
	struct dfi_source *source = start(2, DFI_NONBLOCK);
	const void *tuple;
	uint64_t seq = 0, i;
	int ret;

	while (!(ret = push(source, BIT(0), seq)))
		seq++;
	assert_error(ret, -EAGAIN, "full");
	cr_assert_eq(seq, RING);
	for (i = 0; i < seq; i++)
		expect_tuple(targets[0], i);
	assert_error(
	    dfi_target_consume(targets[0], &tuple), -EAGAIN, "no tuple");
	cr_assert_eq(push(source, BIT(0), seq), -EAGAIN);
	/* One call skips all, and gives them back. */
	while (push(source, BIT(0), seq) < 0)
		assert_error(dfi_target_consume(targets[1], &tuple), -EAGAIN,
		    "no tuple");
	cr_assert_eq(dfi_source_flush(source), 0);
	expect_tuple(targets[0], seq);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_end(targets[0]);
	expect_end(targets[1]);
	close_targets(2);
}

TEST_EACH(sets_that_make_no_sense_are_refused)
{
	struct dfi_source *source = start(3, 0);
	struct kv kv = kv_of(0, 0);

	cr_assert_eq(push(source, BIT(2), 0), 0);
	assert_error(
	    dfi_source_choose(source, 0), -EINVAL, "'f'", "source 0", "empty");
	assert_error(dfi_source_choose(source, BIT(0) | BIT(3)), -ERANGE, "0x9",
	    "the flow has 3");
	/* A failing choice changes nothing. */
	cr_assert_eq(dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_flush(source), 0);
	cr_assert_eq(await(targets[2]), 1);
	cr_assert_eq(await(targets[2]), 1);
	/* A failing push takes nothing. */
	assert_error(push(source, BIT(3), 0), -ERANGE, "0x8");
	cr_assert_eq(dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_flush(source), 0);
	cr_assert_eq(await(targets[2]), 1);
	/* The last refused tuple is not forgotten. */
	assert_error(push(source, 0, 0), -EINVAL, "empty");
	assert_error(dfi_source_close(source), -EINVAL, "empty");
	cr_assert_eq(await(targets[2]), -ECANCELED);
	/* Skipped tuples before the end don't make it a clean one. */
	cr_assert_eq(await(targets[1]), -ECANCELED);
	cr_assert_eq(await(targets[0]), -ECANCELED);
	cr_assert_eq(dfi_target_close(targets[0]), -ECANCELED);
	cr_assert_eq(dfi_target_close(targets[1]), -ECANCELED);
	cr_assert_eq(dfi_target_close(targets[2]), -ECANCELED);
}

static uint64_t answer;

static uint64_t fixed_set(void *arg, const void *tuple, uint32_t n_targets)
{
	(void)arg;
	(void)tuple;
	cr_assert_eq(n_targets, 2);
	return answer;
}

static void check_function(uint64_t set, int err, const char *text)
{
	struct dfi_flow_attr attr = flow_attr(1, 2, DFI_ROUTE_FUNCTION);
	struct dfi_source_attr with = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;
	struct kv kv = kv_of(0, 0);

	create(&attr);
	targets[0] = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	targets[1] = open_target(rig.dfi, "f", 1, DFI_NONBLOCK);
	assert_error(dfi_source_open(rig.dfi, "f", 0, NULL, &source), -EINVAL,
	    "route_set");
	with.route_set = fixed_set;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, &with, &source), 0, "%s",
	    dfi_errmsg());
	answer = BIT(1);
	cr_assert_eq(dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_flush(source), 0);
	answer = set;
	assert_error(dfi_source_push(source, &kv), err, text);
	cr_assert_eq(dfi_source_push_batch(source, &kv, 1), err);
	cr_assert_eq(dfi_source_close(source), err);
	expect_tuple(targets[1], 0);
	cr_assert_eq(await(targets[1]), -ECANCELED);
	cr_assert_eq(await(targets[0]), -ECANCELED);
	cr_assert_eq(dfi_target_close(targets[0]), -ECANCELED);
	cr_assert_eq(dfi_target_close(targets[1]), -ECANCELED);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

TEST_EACH(function_may_name_no_set)
{
	check_function(0, -EINVAL, "empty");
	check_function(BIT(2) | BIT(0), -ERANGE, "0x5");
}

#ifndef DFI_DATAGRAMS_ONLY
Test(groups, flows_without_groups_take_no_sets)
{
	struct dfi_flow_attr attr = flow_attr(1, 2, 0);
	struct dfi_source *source;
	uint32_t kind;

	for (kind = DFI_SHUFFLE; kind <= DFI_REPLICATE; kind++) {
		attr.kind = kind;
		create(&attr);
		targets[0] = open_target(rig.dfi, "f", 0, 0);
		targets[1] = open_target(rig.dfi, "f", 1, 0);
		source = open_source(rig.dfi, "f", 0, 0);
		assert_error(dfi_source_choose(source, BIT(0)), -EPROTOTYPE,
		    "no groups", "DFI_ROUTE_DIRECT");
		assert_error(push(source, 0, 0), -EPROTOTYPE, "no groups");
		cr_assert_eq(dfi_source_close(source), -EPROTOTYPE);
		cr_assert_eq(dfi_target_close(targets[0]), 0);
		cr_assert_eq(dfi_target_close(targets[1]), 0);
		cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	}
}
#endif

Test(groups, declarations_that_make_no_sense_are_named)
{
	struct dfi_flow_attr attr = flow_attr(1, 2, DFI_ROUTE_RADIX);

	assert_error(
	    dfi_flow_create(rig.dfi, "f", &attr), -EINVAL, "routing", "set");
	attr = flow_attr(1, 2, DFI_ROUTE_DIRECT);
	attr.key = "key";
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -EINVAL, "key");
	attr = flow_attr(1, DFI_MAX_SET_TARGETS + 1, DFI_ROUTE_FUNCTION);
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -EINVAL,
	    "n_targets 65", "at most 64");
}

/* Sets are in memory before the tuples, and that memory counts. */
Test(groups, estimate_counts_the_sets)
{
	struct dfi_flow_attr attr = flow_attr(2, 3, 0);
	struct dfi_flow_needs without, with;

	cr_assert_eq(dfi_flow_estimate(rig.dfi, &attr, &without), 0);
	attr.routing = DFI_ROUTE_DIRECT;
	cr_assert_eq(dfi_flow_estimate(rig.dfi, &attr, &with), 0);
	cr_assert_gt(with.ring_bytes, without.ring_bytes);
	cr_assert_eq(with.ring_payload_bytes, without.ring_payload_bytes);
}

static bool is_reported(void *arg)
{
	int ret = push(arg, BIT(0) | BIT(2), 0);

	cr_assert(ret == 0 || ret == -EPIPE, "%s", dfi_errmsg());
	return ret == -EPIPE;
}

TEST_EACH(set_whose_targets_have_all_cancelled_is_dropped)
{
	struct dfi_source *source = start(4, DFI_NONBLOCK);
	uint64_t i;
	int ret;

	cr_assert_eq(dfi_target_cancel(targets[0]), 0);
	cr_assert_eq(dfi_target_cancel(targets[2]), 0);
	/* Target 1 skips tuples that were sent before that was known. */
	while (!is_reported(source)) {
		(void)consume(targets[1]);
		(void)consume(targets[3]);
	}
	assert_error(push(source, BIT(0), 0), -EPIPE, "set 0x1", "cancelled");
	/* The others' go on, also in a set with one that has cancelled. */
	for (i = 0; i < 5 * RING; i++) {
		/* Credit takes its time. */
		while ((ret = push(source, BIT(0) | BIT(1) | BIT(3), i)) ==
		    -EAGAIN)
			yield_times(1);
		cr_assert_eq(ret, 0, "%s", dfi_errmsg());
		cr_assert_eq(push(source, BIT(2), i), -EPIPE);
		expect_tuple(targets[1], i);
		expect_tuple(targets[3], i);
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_end(targets[1]);
	expect_end(targets[3]);
	close_targets(4);
}

/* A target outside of the set dies: the flow fails as any replicate flow. */
TEST_EACH(target_that_closes_early_fails_the_source_whoever_tuples_are_for)
{
	struct dfi_source *source = start(2, DFI_NONBLOCK);
	uint64_t seq;
	int ret = 0;

	cr_assert_eq(dfi_target_close(targets[1]), 0);
	for (seq = 0; !ret || ret == -EAGAIN; seq++) {
		(void)consume(targets[0]);
		ret = push(source, BIT(0), seq);
	}
	assert_error(ret, -ECONNRESET, "target 1");
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
	dfi_target_close(targets[0]);
}

TEST_EACH(chosen_set_ends_the_span_that_is_lent)
{
	struct dfi_source *source = start(2, 0);
	struct dfi_span span;

	cr_assert_eq(dfi_source_claim(source, DFI_ALL_TARGETS, &span), 0);
	cr_assert_eq(dfi_source_choose(source, BIT(0)), 0);
	assert_error(dfi_source_commit(source, &span, 1), -EINVAL, "span");
	cr_assert_eq(push(source, BIT(0), 0), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_tuple(targets[0], 0);
	expect_end(targets[0]);
	expect_end(targets[1]);
	close_targets(2);
}

TEST_EACH(open_cursor_keeps_its_set)
{
	struct dfi_source *source = start(2, 0);
	struct kv kv = kv_of(0, 0);
	struct dfi_source_cursor cursor;

	cr_assert_eq(dfi_source_choose(source, BIT(1)), 0);
	cursor = dfi_source_cursor_open(source, DFI_ALL_TARGETS, sizeof(kv));
	assert_error(dfi_source_choose(source, BIT(0)), -EBUSY, "cursor");
	cr_assert_eq(dfi_source_cursor_push(&cursor, &kv, sizeof(kv)), 0);
	cr_assert_eq(dfi_source_cursor_close(cursor), 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_tuple(targets[1], 0);
	expect_end(targets[0]);
	expect_end(targets[1]);
	close_targets(2);
}

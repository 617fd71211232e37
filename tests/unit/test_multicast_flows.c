/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicasts over a network that loses, repeats, reorders and delays datagrams:
 * the tests of replicate flows (flow/test_replicate.c, test_groups.c and
 * test_order.c), which are linked here, and effects of such a network.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../flow/flow_help.h"
#include "fake_network.h"
#include "flows/context/shared_counter.h"
#include "flows/endpoint/source.h"
#include "flows/endpoint/target.h"

enum {
	SEGMENT = 4, /* tuples */
	SEGMENTS = 16,
	MAX_ENDS = 2,
};

static struct rig rig;
static struct dfi_target *targets[MAX_ENDS];

/* First of all; values set by hand stay. */
__attribute__((constructor)) static void set_faults(void)
{
	setenv("DFI_TRANSPORT", "verbs", 1);
	setenv("DFI_TEST_FAULTS",
	    "drop=0.02,duplicate=0.02,reorder=0.05,delay=0.02,delay_us=500", 0);
	setenv("DFI_TEST_GROUP_SEEDS", "3", 0);
	setenv("DFI_TEST_ORDER_TUPLES", "300", 0);
}

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(multicast_flows, .init = setup, .fini = teardown, .timeout = 300);

static uint32_t routing, ordered; /* of the flow */

static void start(uint32_t n_sources, uint32_t n_targets, uint32_t loss_policy,
    uint32_t target_flags)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	uint32_t t;

	attr.kind = DFI_REPLICATE;
	attr.replicate.method = DFI_REPLICATION_MULTICAST;
	attr.replicate.loss_policy = loss_policy;
	attr.routing = routing;
	attr.replicate.ordered = ordered;
	attr.replicate.gap_timeout_us = 2000;
	attr.schema = &kv_schema;
	attr.n_sources = n_sources;
	attr.n_targets = n_targets;
	attr.segment_size = SEGMENT * sizeof(struct kv);
	attr.segment_count = SEGMENTS;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
	for (t = 0; t < n_targets; t++)
		targets[t] = open_target(
		    t % 2 ? rig.dfi : rig.other, "f", t, target_flags);
}

static int push(struct dfi_source *source, uint64_t seq)
{
	struct kv kv = { seq, mix(0, seq) };

	return dfi_source_push(source, &kv);
}

/* ---- Losses that are told ---------------------------------------------- */

struct end {
	pthread_t thread;
	uint32_t index;
	uint64_t n; /* of each source */
	uint64_t n_lost, n_gaps;
	/* For an ordered flow: the source and the segment of each position. */
	uint32_t *order;
	uint64_t n_positions;
	char text[300];
};

/* This many segments of a source, from number first on. */
static void note_positions(
    struct end *end, uint32_t source, uint64_t first, uint32_t n)
{
	uint32_t i;

	for (i = 0; end->order && i < n; i++)
		end->order[end->n_positions++] = source << 24 |
		    (uint32_t)(first + i);
}

/*
 * For a flow with target sets, the receivers of a segment: one target, or both.
 */
static uint64_t set_of(uint64_t segment)
{
	return 1 + segment % 3;
}

static void *run_source(void *arg)
{
	struct end *end = arg;
	struct dfi_source *source;
	uint64_t i;
	int ret = dfi_source_open(rig.dfi, "f", end->index, NULL, &source);

	for (i = 0; ret >= 0 && i < end->n; i++) {
		if (routing && i % SEGMENT == 0)
			ret = dfi_source_choose(source, set_of(i / SEGMENT));
		if (ret >= 0)
			ret = push(source, i);
	}
	if (ret >= 0)
		ret = dfi_source_close(source);
	if (ret < 0)
		snprintf(end->text, sizeof(end->text), "source %u: %s",
		    end->index, dfi_errmsg());
	return NULL;
}

/* Skip segments up to number upto: they are for others. */
static bool pass_over(const struct end *end, uint64_t *next, uint64_t upto)
{
	while (routing && *next / SEGMENT < upto && *next % SEGMENT == 0 &&
	    *next < end->n && !(set_of(*next / SEGMENT) >> end->index & 1))
		*next += SEGMENT;
	if (*next > end->n)
		*next = end->n;
	return *next == upto * SEGMENT;
}

/* All segments are full, but the last of a source. */
static bool take_gap(struct end *end, uint64_t next[MAX_ENDS])
{
	struct dfi_gap gap;
	uint64_t upto;

	if (dfi_target_gap(targets[end->index], &gap) < 0 ||
	    gap.source >= MAX_ENDS || !gap.count ||
	    gap.position != (ordered ? end->n_positions : 0) ||
	    !pass_over(end, &next[gap.source], gap.first))
		return false;
	note_positions(end, gap.source, gap.first, gap.count);
	upto = (gap.first + gap.count) * SEGMENT;
	upto = upto < end->n ? upto : end->n;
	end->n_lost += upto - next[gap.source];
	end->n_gaps++;
	next[gap.source] = upto;
	return true;
}

static bool take_batch(
    struct end *end, const struct dfi_batch *batch, uint64_t next[MAX_ENDS])
{
	const struct kv *kv = batch->tuples;
	uint64_t seq;
	uint32_t i;

	(void)pass_over(end, &next[batch->source], UINT64_MAX);
	note_positions(end, batch->source, next[batch->source] / SEGMENT, 1);
	for (i = 0; i < batch->count; i++) {
		seq = next[batch->source]++;
		if (kv[i].key != seq || kv[i].val != mix(0, seq))
			return false;
	}
	return true;
}

/* Each tuple comes, or is in a gap reported at its position. */
static void *run_target(void *arg)
{
	struct end *end = arg;
	struct dfi_target *target = targets[end->index];
	uint64_t next[MAX_ENDS] = { 0 };
	struct dfi_batch batch;
	bool good = true;
	uint32_t i;
	int ret = 1;

	while (good && (ret > 0 || ret == -ENODATA)) {
		ret = dfi_target_consume_batch(target, &batch);
		if (ret == -ENODATA)
			good = take_gap(end, next);
		if (ret <= 0)
			continue;
		good = take_batch(end, &batch, next);
		dfi_target_release(target, &batch);
	}
	for (i = 0; i < MAX_ENDS; i++)
		(void)pass_over(end, &next[i], UINT64_MAX);
	if (!good || ret)
		snprintf(end->text, sizeof(end->text),
		    "target %u at %lu, %lu: %s", end->index,
		    (unsigned long)next[0], (unsigned long)next[1],
		    good ? dfi_errmsg() : "these are others");
	else if (next[0] != end->n || next[1] != end->n)
		snprintf(end->text, sizeof(end->text),
		    "target %u ended after %lu, %lu", end->index,
		    (unsigned long)next[0], (unsigned long)next[1]);
	return NULL;
}

static void lose_some(void)
{
	enum {
		N_ENDS = 2 * MAX_ENDS
	};
	struct end ends[N_ENDS];
	uint64_t n = MAX_ENDS * 2001;
	uint32_t i;

	start(MAX_ENDS, MAX_ENDS, DFI_LOSS_NOTIFY, 0);
	for (i = 0; i < N_ENDS; i++) {
		/* The last segment has one tuple. */
		ends[i] = (struct end){ .index = i / 2,
			.n = 2000 * SEGMENT + 1 };
		if (!(i % 2) && ordered)
			cr_assert_not_null(ends[i].order = calloc(
					       n, sizeof(ends[i].order[0])));
		cr_assert_eq(pthread_create(&ends[i].thread, NULL,
				 i % 2 ? run_source : run_target, &ends[i]),
		    0);
	}
	for (i = 0; i < N_ENDS; i++)
		cr_assert_eq(pthread_join(ends[i].thread, NULL), 0);
	for (i = 0; i < N_ENDS; i++)
		cr_assert_str_empty(ends[i].text, "%s", ends[i].text);
	for (i = 0; i < MAX_ENDS; i++) {
		cr_assert_eq(dfi_target_close(targets[i]), 0);
		/* Of 4000 segments some 80 are lost. */
		cr_assert_geq(ends[2 * i].n_gaps, 10);
		cr_assert_leq(ends[2 * i].n_lost, 2000 * SEGMENT);
		cr_assert_eq(ends[2 * i].n_positions, ordered ? n : 0);
	}
	if (ordered)
		cr_assert_arr_eq(
		    ends[0].order, ends[2].order, n * sizeof(ends[0].order[0]));
	for (i = 0; i < N_ENDS; i++)
		free(ends[i].order);
}

Test(multicast_flows, losses_are_reported_where_they_are)
{
	lose_some();
}

/* Also those of segments for others: their receivers are unknown. */
Test(multicast_flows, losses_are_reported_to_all_whoever_they_were_for)
{
	routing = DFI_ROUTE_DIRECT;
	lose_some();
}

/* Each position has the same segment at all, or the same loss. */
Test(multicast_flows, losses_are_reported_at_their_positions_in_the_order)
{
	ordered = 1;
	lose_some();
}

/* ---- Holes in the order ------------------------------------------------ */

static void expect_key(struct dfi_target *target, uint32_t source, uint64_t key)
{
	const void *tuple;

	cr_assert_eq(consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
	cr_assert_eq(((const struct kv *)tuple)->key, key);
	cr_assert_eq(target->head.source, source);
}

/* A position is taken, and then no segment is sent: its source aborts. */
Test(multicast_flows, position_that_nobody_fills_ends_the_order_before_it)
{
	struct dfi_source *sources[2];
	const void *tuple;
	uint64_t position;
	uint32_t i;

	setenv("DFI_TEST_FAULTS", "duplicate=0.1", 1);
	ordered = 1;
	start(2, 2, DFI_LOSS_NOTIFY, DFI_NONBLOCK);
	for (i = 0; i < 2; i++)
		sources[i] = open_source(rig.dfi, "f", i, 0);
	cr_assert_eq(push(sources[0], 7), 0);
	cr_assert_eq(dfi_source_flush(sources[0]), 0);
	cr_assert_eq(shared_counter_take(sources[0]->state, 1, &position), 1);
	cr_assert_eq(push(sources[1], 8), 0);
	cr_assert_eq(dfi_source_flush(sources[1]), 0);
	for (i = 0; i < 2; i++) {
		expect_key(targets[i], 0, 7);
		cr_assert_eq(dfi_target_consume(targets[i], &tuple), -EAGAIN);
	}
	dfi_source_abort(sources[0]);
	cr_assert_eq(dfi_source_close(sources[0]), -ECANCELED);
	for (i = 0; i < 2; i++) {
		assert_error(consume_soon(targets[i], &tuple), -ECANCELED,
		    "flow 'f'", "source 0", "aborted");
		cr_assert_eq(dfi_target_close(targets[i]), -ECANCELED);
	}
	cr_assert_eq(dfi_source_close(sources[1]), -ECONNRESET);
}

/* ---- Who hears of what ------------------------------------------------- */

static bool all_is_given_back(void *arg)
{
	const struct dfi_source *source = arg;
	struct sender_ring *multicast =
	    source->replica_writer->shared_ring.multicast;
	const void *tuple;
	bool given = true;
	uint32_t t;

	for (t = 0; t < MAX_ENDS; t++)
		cr_assert_eq(dfi_target_consume(targets[t], &tuple), -EAGAIN);
	dfi__multicast_end_lock(&multicast->end);
	for (t = 0; t < MAX_ENDS; t++)
		given &= multicast->sender.peers[t].consumed ==
		    multicast->sender.next;
	dfi__multicast_end_unlock(&multicast->end);
	return given;
}

/*
 * Otherwise it would ask for ever: an unasked report has more than a segment.
 */
Test(multicast_flows, source_hears_of_the_last_segment_that_is_given_back)
{
	struct dfi_source *source;
	const void *tuple;
	uint32_t t;

	start(1, MAX_ENDS, DFI_LOSS_RECOVER, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(push(source, 0), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	for (t = 0; t < MAX_ENDS; t++)
		cr_assert_eq(consume_soon(targets[t], &tuple), 1);
	cr_assert(eventually(all_is_given_back, source));
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	for (t = 0; t < MAX_ENDS; t++) {
		cr_assert_eq(consume_soon(targets[t], &tuple), 0);
		cr_assert_eq(dfi_target_close(targets[t]), 0);
	}
}

Test(multicast_flows, group_that_nothing_reaches_is_named)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;

	setenv("DFI_TEST_FAULTS", "drop=1", 1);
	start(1, 1, DFI_LOSS_RECOVER, DFI_NONBLOCK);
	attr.open_timeout_ms = SHORT_MS;
	assert_error(dfi_source_open(rig.dfi, "f", 0, &attr, &source),
	    -ETIMEDOUT, "flow 'f': source 0", "target 0", "group 239.",
	    "doesn't answer");
	cr_assert_eq(dfi_target_close(targets[0]), 0);
}

Test(multicast_flows,
    closing_waits_for_targets_that_miss_something_within_its_limit)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;
	const void *tuple;
	uint64_t i;

	start(1, 1, DFI_LOSS_RECOVER, DFI_NONBLOCK);
	attr.close_timeout_ms = 100;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, &attr, &source), 0, "%s",
	    dfi_errmsg());
	for (i = 0; i < 3; i++)
		cr_assert_eq(push(source, i), 0);
	/* The last is not sent yet, and won't arrive. */
	fake_network_cut();
	assert_error(dfi_source_close(source), -ETIMEDOUT, "flow 'f'",
	    "source 0", "target 0");
	/* A target that lacks segments of a dead source gets an error. */
	assert_error(consume_soon(targets[0], &tuple), -ECONNRESET,
	    "flow 'f': source 0 ", "died or closed before the end");
	cr_assert_eq(dfi_target_close(targets[0]), -ECONNRESET);
}

static void *close_source(void *arg)
{
	return (void *)(intptr_t)dfi_source_close(arg);
}

static bool sleeps(void *arg)
{
	struct dfi_source_stats stats;

	dfi_source_query(arg, &stats);
	return stats.sleeps > 0;
}

/* It does not learn that this target won't answer any more. */
Test(multicast_flows, abort_ends_closing)
{
	struct dfi_source *source;
	const void *tuple;
	pthread_t thread;
	void *ret;

	start(1, 1, DFI_LOSS_RECOVER, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(push(source, 0), 0);
	fake_network_cut();
	cr_assert_eq(pthread_create(&thread, NULL, close_source, source), 0);
	cr_assert(eventually(sleeps, source));
	dfi_source_abort(source);
	cr_assert_eq(pthread_join(thread, &ret), 0);
	cr_assert_eq((int)(intptr_t)ret, -ECANCELED);
	cr_assert_eq(consume_soon(targets[0], &tuple), -ECONNRESET);
	cr_assert_eq(dfi_target_close(targets[0]), -ECONNRESET);
}

/* ---- Devices that go --------------------------------------------------- */

struct waiter {
	pthread_t thread;
	struct dfi_source *source;
	struct dfi_target *target; /* if that is NULL */
	uint64_t n;
	int ret;
	char text[300];
};

static void *go_on_until_error(void *arg)
{
	struct waiter *waiter = arg;
	const void *tuple;

	do
		waiter->ret = waiter->source
		    ? push(waiter->source, waiter->n)
		    : dfi_target_consume(waiter->target, &tuple);
	while (waiter->ret >= 0 && ++waiter->n);
	snprintf(waiter->text, sizeof(waiter->text), "%s", dfi_errmsg());
	return NULL;
}

static bool waits(void *arg)
{
	struct dfi_source_stats stats;

	/* Any thread may read counters. */
	dfi_source_query(arg, &stats);
	return stats.stalls > 0;
}

static void expect_broken(const struct waiter *waiter, const char *who)
{
	cr_assert_eq(waiter->ret, -ECONNRESET, "%s", waiter->text);
	cr_assert(strstr(waiter->text, who) &&
		strstr(waiter->text, "the fake network is broken"),
	    "%s", waiter->text);
}

/*
 * The source waits for credit of target 0, which consumes nothing; target 1 has
 * all that there is, and waits for more.
 */
Test(multicast_flows, device_that_is_removed_fails_both_ends)
{
	struct waiter source = { .n = 0 }, target = { .n = 0 };
	struct waiter idle = { .n = 0 };

	start(1, 2, DFI_LOSS_RECOVER, 0);
	source.source = open_source(rig.dfi, "f", 0, 0);
	target.target = targets[1];
	idle.target = targets[0];
	cr_assert_eq(
	    pthread_create(&source.thread, NULL, go_on_until_error, &source),
	    0);
	cr_assert_eq(
	    pthread_create(&target.thread, NULL, go_on_until_error, &target),
	    0);
	cr_assert(eventually(waits, source.source));
	fake_network_break();
	cr_assert_eq(pthread_join(source.thread, NULL), 0);
	cr_assert_eq(pthread_join(target.thread, NULL), 0);
	expect_broken(&source, "with target ");
	expect_broken(&target, "source 0");
	/* All segments that had come in order are there. */
	go_on_until_error(&idle);
	expect_broken(&idle, "source 0");
	cr_assert_leq(idle.n, SEGMENT * SEGMENTS);
	cr_assert_eq(dfi_source_close(source.source), -ECONNRESET);
	cr_assert_eq(dfi_target_close(targets[0]), -ECONNRESET);
	cr_assert_eq(dfi_target_close(targets[1]), -ECONNRESET);
}

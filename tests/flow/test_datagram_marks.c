/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks in replicate flows, closed and open. By datagrams with
 * DFI_TEST_REPLICATION=2, which needs a network for them: there a mark is a
 * datagram, which may be lost, and comes again.
 */
#include <dfi/mark.h>
#include <pthread.h>
#include <stdlib.h>

#include "open_help.h"

#define SOURCES 2
#define TARGETS 2
#define SEGMENT 4 /* tuples */
#define TUPLES 10 /* before each mark */
#define MARKS 40
#define IDLE_MS 50

TestSuite(datagram_marks, .init = setup, .fini = teardown, .timeout = 300);

static bool by_datagrams(void)
{
	return test_setting("REPLICATION", 0) == DFI_REPLICATION_MULTICAST;
}

static struct dfi_flow_attr flow_attr(bool open)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_REPLICATE,
		.schema = &kv_schema,
		.n_sources = SOURCES,
		.n_targets = TARGETS,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = 8,
		.replicate.method = (uint32_t)test_setting("REPLICATION", 0),
		.replicate.gap_timeout_us = 2000,
		.open.membership = open ? DFI_MEMBERS_OPEN : DFI_MEMBERS_CLOSED,
		.open.on_loss = open ? DFI_ON_LOSS_DROP : 0,
		.open.min_targets = open ? TARGETS : 0,
	};
}

static void create(const struct dfi_flow_attr *attr)
{
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

/* ---- Sources and targets that run ---------------------------------------- */

struct end {
	pthread_t thread;
	uint32_t index, flags;
	/* Of a target: how many tuples of each time have come of a source. */
	uint32_t n[SOURCES][MARKS + 1];
	bool joined[SOURCES];
	uint64_t watermark_at_join[SOURCES];
	uint64_t watermark;
	uint64_t n_marks, n_lost;
};

static pthread_barrier_t all_there;

static void *run_source(void *arg)
{
	struct end *end = arg;
	struct dfi_source *source = open_source(rig.dfi, "f", end->index, 0);
	uint64_t time;
	uint32_t i;

	pthread_barrier_wait(&all_there);
	for (time = 1; time <= MARKS; time++) {
		for (i = 0; i < TUPLES; i++) {
			struct kv kv = { .key = end->index, .val = time };

			cr_assert_eq(dfi_source_push(source, &kv), 0, "%s",
			    dfi_errmsg());
		}
		cr_assert_eq(
		    dfi_source_mark(source, time), 0, "%s", dfi_errmsg());
	}
	close_source(source);
	return NULL;
}

/* All up to the watermark has come, of those that counted by then. */
static void check_mark(const struct end *end, bool is_barrier)
{
	uint32_t s;
	uint64_t t;

	for (s = 0; s < SOURCES; s++) {
		for (t = end->watermark_at_join[s] + 1;
		     end->joined[s] && t <= end->watermark && !end->n_lost; t++)
			cr_assert_eq(end->n[s][t], TUPLES,
			    "%u tuples of source %u, time %lu, at mark %lu",
			    end->n[s][t], s, (unsigned long)t,
			    (unsigned long)end->watermark);
		for (t = end->watermark + 1; is_barrier && t <= MARKS; t++)
			cr_assert_eq(end->n[s][t], 0);
	}
}

static void take_event(struct dfi_target *target, struct end *end, bool checks)
{
	struct dfi_event event;
	struct dfi_gap gap;

	cr_assert_eq(dfi_target_event(target, &event), 0, "%s", dfi_errmsg());
	cr_assert_neq(event.type, DFI_LOST, "%s", dfi_errmsg());
	if (event.type == DFI_JOINED) {
		end->joined[event.seat] = true;
		end->watermark_at_join[event.seat] = end->watermark;
	} else if (event.type == DFI_GAP) {
		cr_assert_eq(dfi_target_gap(target, &gap), 0);
		cr_assert_eq(event.seat, gap.source);
		cr_assert_eq(event.value, gap.count);
		end->n_lost += gap.count;
	} else if (event.type == DFI_MARK) {
		cr_assert_gt(event.value, end->watermark);
		end->watermark = event.value;
		end->n_marks++;
		if (checks)
			check_mark(end, end->flags & DFI_ALIGN);
	}
}

static void *run_target(void *arg)
{
	struct end *end = arg;
	struct dfi_target *target = open_target(
	    rig.other, "f", end->index, DFI_EVENTS | end->flags);
	const struct kv *kv;
	const void *tuple;
	int ret;

	while ((ret = dfi_target_consume(target, &tuple)) != 0) {
		kv = tuple;
		if (ret == -ENOMSG) {
			take_event(target, end, true);
		} else {
			cr_assert_eq(ret, 1, "%s", dfi_errmsg());
			end->n[kv->key][kv->val]++;
		}
	}
	close_target(target);
	return NULL;
}

static struct end sources[SOURCES], targets[TARGETS];

static void start(struct end *ends, uint32_t n, void *(*run)(void *arg))
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		ends[i].index = i;
		cr_assert_eq(
		    pthread_create(&ends[i].thread, NULL, run, &ends[i]), 0);
	}
}

static void await(struct end *ends, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		pthread_join(ends[i].thread, NULL);
}

static void run(const struct dfi_flow_attr *attr, uint32_t flags)
{
	bool open = attr->open.membership == DFI_MEMBERS_OPEN;
	uint32_t t, s;

	create(attr);
	for (t = 0; t < TARGETS; t++) {
		targets[t] = (struct end){ .flags = flags };
		for (s = 0; s < SOURCES; s++)
			targets[t].joined[s] = !open;
	}
	pthread_barrier_init(&all_there, NULL, SOURCES);
	start(targets, TARGETS, run_target);
	start(sources, SOURCES, run_source);
	await(sources, SOURCES);
	pthread_barrier_destroy(&all_there);
	if (open)
		finish();
	await(targets, TARGETS);
	for (t = 0; t < TARGETS; t++) {
		if (attr->replicate.loss_policy == DFI_LOSS_NOTIFY)
			continue;
		cr_assert_eq(targets[t].n_lost, 0);
		cr_assert_eq(targets[t].watermark, MARKS);
		check_mark(&targets[t], false);
	}
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0, "%s", dfi_errmsg());
}

Test(datagram_marks, closed_flows_have_them)
{
	struct dfi_flow_attr attr = flow_attr(false);

	run(&attr, 0);
	run(&attr, DFI_ALIGN);
	attr.verify = DFI_VERIFY_CHECKSUM;
	run(&attr, DFI_ALIGN);
}

Test(datagram_marks, ordered_flows_have_them)
{
	struct dfi_flow_attr attr = flow_attr(false);

	attr.replicate.ordered = 1;
	run(&attr, 0);
}

Test(datagram_marks, open_flows_have_them)
{
	struct dfi_flow_attr attr = flow_attr(true);

	run(&attr, 0);
	run(&attr, DFI_ALIGN);
	attr.verify = DFI_VERIFY_CHECKSUM;
	run(&attr, DFI_ALIGN);
}

/* ---- One at a time --------------------------------------------------------
 */

static void mark(struct dfi_source *source, uint64_t value)
{
	cr_assert_eq(dfi_source_mark(source, value), 0, "%s", dfi_errmsg());
}

/* The next event that is not about members is this mark. */
static void expect_mark(struct dfi_target *target, uint64_t value)
{
	struct dfi_event event = { .type = DFI_JOINED };
	const void *tuple;

	while (event.type == DFI_JOINED) {
		cr_assert_eq(dfi_target_consume(target, &tuple), -ENOMSG, "%s",
		    dfi_errmsg());
		cr_assert_eq(dfi_target_event(target, &event), 0);
	}
	cr_assert_eq(event.type, DFI_MARK, "%u", event.type);
	cr_assert_eq(event.value, value, "%lu", (unsigned long)event.value);
}

/* J3: JOIN tells the last mark of before. */
Test(datagram_marks, a_target_that_joins_knows_the_last_mark)
{
	struct dfi_flow_attr attr = flow_attr(true);
	struct dfi_source *s;
	struct dfi_target *t[2];

	attr.open.min_targets = 1;
	create(&attr);
	t[0] = target(0);
	s = source_with_events(0, 0);
	await_targets(s, 1);
	mark(s, 7);
	expect_mark(t[0], 7);
	t[1] = target(1);
	await_targets(s, 1);
	expect_mark(t[1], 7);
	mark(s, 8);
	expect_mark(t[0], 8);
	expect_mark(t[1], 8);
	/* What nobody has got, the next one is told. */
	close_target(t[0]);
	close_target(t[1]);
	await_events(s, DFI_ENDED, 2);
	mark(s, 9);
	t[0] = target(0);
	await_targets(s, 1);
	expect_mark(t[0], 9);
	close_source(s);
	close_target(t[0]);
}

/* K3 */
Test(datagram_marks, an_idle_source_does_not_count)
{
	struct dfi_flow_attr attr = flow_attr(false);
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct dfi_source *s[2];
	struct dfi_target *t;

	attr.n_targets = 1;
	create(&attr);
	target_attr.flags = DFI_EVENTS;
	target_attr.idle_after_ms = IDLE_MS;
	cr_assert_eq(dfi_target_open(rig.other, "f", 0, &target_attr, &t), 0,
	    "%s", dfi_errmsg());
	s[0] = source(0);
	s[1] = source(1);
	mark(s[1], 8);
	expect_mark(t, 8);
	close_source(s[0]);
	close_source(s[1]);
	close_target(t);
}

/*
 * Lost marks are no tuples: the counts are right, and the watermark is at most
 * what has come. Events tell of the gaps.
 */
Test(datagram_marks, marks_may_be_lost_where_losses_are_reported)
{
	struct dfi_flow_attr closed = flow_attr(false), open = flow_attr(true);

	if (!by_datagrams())
		return;
	closed.replicate.loss_policy = open.replicate.loss_policy =
	    DFI_LOSS_NOTIFY;
	run(&closed, 0);
	run(&open, 0);
	closed.replicate.ordered = 1;
	run(&closed, 0);
}

Test(datagram_marks, alignment_needs_all_marks)
{
	struct dfi_flow_attr attr = flow_attr(false);
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *t;

	if (!by_datagrams())
		return;
	attr.replicate.loss_policy = DFI_LOSS_NOTIFY;
	create(&attr);
	target_attr.flags = DFI_EVENTS | DFI_ALIGN;
	assert_error(dfi_target_open(rig.other, "f", 0, &target_attr, &t),
	    -EINVAL, "DFI_ALIGN", "DFI_LOSS_NOTIFY");
}

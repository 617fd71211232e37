/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open replicate flows over a network that loses, repeats, reorders and delays
 * datagrams: the tests of flow/test_open_replicate.c, which are linked here,
 * and what only datagrams need.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dfi/event.h>
#include <dfi/mark.h>
#include <dfi/open_flow.h>

#include "../flow/flow_help.h"
#include "fake_network.h"

/* First of all; values set by hand stay. */
__attribute__((constructor)) static void set_faults(void)
{
	setenv("DFI_TRANSPORT", "verbs", 1);
	setenv("DFI_TEST_REPLICATION", "2", 1);
	setenv("DFI_TEST_FAULTS",
	    "drop=0.02,duplicate=0.02,reorder=0.05,delay=0.02,delay_us=500", 0);
}

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(open_multicast, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_attr flow_attr(void)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_REPLICATE,
		.replicate.method = DFI_REPLICATION_MULTICAST,
		.schema = &kv_schema,
		.n_sources = 2,
		.n_targets = 3,
		.segment_size = 4 * (uint32_t)sizeof(struct kv),
		.segment_count = 8,
		.open = { .membership = DFI_MEMBERS_OPEN,
		    .on_loss = DFI_ON_LOSS_DROP },
	};
}

static void create(uint32_t evict_after_ms)
{
	struct dfi_flow_attr attr = flow_attr();

	attr.open.evict_after_ms = evict_after_ms;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

/* The target's next consuming call finds this event. */
static void expect_event(struct dfi_target *target, uint32_t type)
{
	struct dfi_event event;
	const void *tuple;

	cr_assert_eq(
	    dfi_target_consume(target, &tuple), -ENOMSG, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_event(target, &event), 0);
	cr_assert_eq(event.type, type, "%u", event.type);
}

/* A target that has the source's first tuple, and the source. */
static struct dfi_target *start(struct dfi_source **source)
{
	struct dfi_target *target = open_target(rig.other, "f", 0, DFI_EVENTS);

	*source = open_source(rig.dfi, "f", 0, 0);
	push_number(*source, 0);
	cr_assert_eq(dfi_source_flush(*source), 0, "%s", dfi_errmsg());
	expect_event(target, DFI_JOINED);
	expect_number(target, 0);
	return target;
}

static void finish(void)
{
	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0, "%s", dfi_errmsg());
}

static void push_numbers_of(struct dfi_source *source, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		push_number(source, i);
}

/* Each segment is there, or its loss is told, where it was. */
static void count_losses(uint32_t flags)
{
	struct dfi_flow_attr attr = flow_attr();
	struct dfi_gap gap = { .count = 0 };
	struct dfi_target_stats stats;
	struct dfi_target *target;
	struct dfi_source *source;
	struct dfi_event event;
	const void *tuple;
	uint64_t next = 0, n_lost = 0, n_gaps = 0;
	int ret = 1;

	attr.replicate.loss_policy = DFI_LOSS_NOTIFY;
	attr.replicate.gap_timeout_us = 2000;
	attr.segment_count = 1024;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
	target = open_target(rig.other, "f", 0, flags);
	source = open_source(rig.dfi, "f", 0, 0);
	push_numbers_of(source, 4 * 1000);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	finish();
	while ((ret = dfi_target_consume(target, &tuple)) != 0) {
		event.type = ret == -ENODATA ? DFI_GAP : 0;
		if (ret == -ENOMSG)
			cr_assert_eq(dfi_target_event(target, &event), 0);
		if (ret == 1)
			cr_assert_eq(((const struct kv *)tuple)->val, next++);
		if (event.type != DFI_GAP)
			continue;
		cr_assert_eq(ret, flags ? -ENOMSG : -ENODATA);
		cr_assert_eq(dfi_target_gap(target, &gap), 0);
		cr_assert_eq(gap.source, 0);
		cr_assert_eq(gap.first, next / 4);
		next += 4 * (uint64_t)gap.count;
		n_lost += gap.count;
		n_gaps++;
	}
	cr_assert_leq(next, 4 * 1000);
	dfi_target_query(target, &stats);
	cr_assert_eq(stats.lost_segments, n_lost);
	cr_assert_eq(stats.gaps, n_gaps);
	cr_assert_gt(n_gaps, 0);
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
}

Test(open_multicast, losses_are_reported_at_their_place)
{
	count_losses(0);
}

Test(open_multicast, events_report_losses)
{
	count_losses(DFI_EVENTS);
}

/* The device of a source is gone: nobody gets its tuples any more. */
Test(open_multicast, a_broken_network_fails_the_source)
{
	struct dfi_target *target;
	struct dfi_source *source;
	int64_t until = now_ms() + LONG_MS;
	struct kv kv = numbered_kv(1);
	int ret;

	create(0);
	target = start(&source);
	fake_network_break();
	do {
		ret = dfi_source_push(source, &kv);
		if (!ret)
			ret = dfi_source_flush(source);
	} while (!ret && now_ms() < until);
	assert_error(
	    ret, -ECONNRESET, "source 0", "the fake network is broken");
	assert_error(dfi_source_close(source), -ECONNRESET, "is broken");
	finish();
	expect_event(target, DFI_LOST);
	end_target(target);
}

/* A source ends when each target has all, or is out. */
Test(open_multicast, a_target_that_does_not_answer_is_evicted_at_the_end)
{
	struct dfi_target *target;
	struct dfi_source *source;
	const void *tuple;
	int ret;

	create(50);
	target = start(&source);
	fake_network_cut();
	push_number(source, 1);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	do
		ret = dfi_target_consume(target, &tuple);
	while (ret == -ENOMSG &&
	    !dfi_target_event(target, &(struct dfi_event){ 0 }));
	assert_error(ret, -ESTALE, "target 0", "evicted by source 0", "50 ms");
	cr_assert_eq(dfi_target_close(target), -ESTALE);
}

Test(open_multicast, a_pair_needs_what_the_estimate_says)
{
	struct dfi_flow_needs needs = { .rings = 0 };
	struct dfi_flow_attr attr = flow_attr();

	cr_assert_eq(
	    dfi_flow_estimate(rig.dfi, &attr, &needs), 0, "%s", dfi_errmsg());
	cr_assert_eq(needs.replication, DFI_REPLICATION_MULTICAST);
	cr_assert_eq(needs.target_bytes, attr.n_sources * needs.pair_bytes);
	cr_assert_gt(needs.target_datagram_bytes, 0);
	cr_assert_gt(
	    needs.pair_bytes * attr.n_sources, needs.target_datagram_bytes);
	cr_assert_gt(needs.source_datagram_bytes, 0);
	cr_assert_gt(needs.source_bytes, needs.source_datagram_bytes);
	cr_assert_eq(needs.source_queue_pairs, 1);
	cr_assert_eq(needs.shadow_bytes, 0);
}

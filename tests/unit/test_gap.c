/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lost segments as a target's application sees them, and counts of both ends
 * that differ. Nothing loses segments here: the test writes into the rings what
 * a receiver would (buffers/multicast/receiver.h), or what neither end has
 * written.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../flow/flow_help.h"
#include "flows/endpoint/target.h"

enum {
	SEGMENT = 4,
	SEGMENTS = 8
};

static struct rig rig;
static struct dfi_source *sources[2];
static struct dfi_target *target;
static uint64_t total; /* tuples that source 1 has sent */

/* Of two sources, the second one's ring is the test's. */
static void setup(void)
{
	uint32_t i;

	rig_start(&rig);
	create_kv_flow(rig.dfi, "f", 2, 1, SEGMENT, SEGMENTS);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	for (i = 0; i < 2; i++)
		sources[i] = open_source(rig.other, "f", i, DFI_NONBLOCK);
	target->readers[1].lossy = true;
	total = 0;
}

static void teardown(void)
{
	uint32_t i;

	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_source_close(sources[i]), 0);
	dfi_target_close(target);
	rig_stop(&rig);
}

TestSuite(gap, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(counts, .init = setup, .fini = teardown, .timeout = 300);

static char *ring(void)
{
	return (char *)target->region->base +
	    ring_offset(&target->readers[1].geometry, 1);
}

static struct segment_footer *footer(uint64_t number)
{
	const struct ring_geometry *g = &target->readers[1].geometry;

	return (struct segment_footer *)(void *)(ring() +
	    slot_offset(g, (uint32_t)number % SEGMENTS) + g->footer_offset);
}

static void lose(uint64_t number, uint32_t count)
{
	atomic_publish(&footer(number)->state,
	    footer_state(number, count, FOOTER_FLAG_LOST));
	total += (uint64_t)count * SEGMENT;
}

/* One tuple, whose key is the segment's number. */
static void arrive(uint64_t number)
{
	const struct ring_geometry *g = &target->readers[1].geometry;
	struct kv kv = { .key = number };

	memcpy((char *)footer(number) - g->footer_offset, &kv, sizeof(kv));
	atomic_set(&footer(number)->total, ++total);
	atomic_publish(
	    &footer(number)->state, footer_state(number, sizeof(kv), 0));
}

static void expect_gap(uint64_t first, uint32_t count)
{
	struct dfi_gap gap = { .count = 77 };

	cr_assert_not_null(strstr(dfi_errmsg(), "flow 'f': target 0"));
	cr_assert_not_null(strstr(dfi_errmsg(), "of source 1"));
	cr_assert_not_null(strstr(dfi_errmsg(), "lost"));
	cr_assert_eq(dfi_target_gap(target, &gap), 0);
	cr_assert_eq(gap.first, first);
	cr_assert_eq(gap.count, count);
	cr_assert_eq(gap.source, 1);
}

static void expect_key(uint64_t key)
{
	const void *tuple;

	cr_assert_eq(dfi_target_consume(target, &tuple), 1);
	cr_assert_eq(((const struct kv *)tuple)->key, key);
}

/* Of target 0, as other threads and processes see it. */
static int find_target(void *arg, const struct dfi_node_stats *stats)
{
	struct dfi_endpoint_stats *found = arg;
	uint32_t i;

	for (i = 0; i < stats->n_endpoints; i++)
		if (stats->endpoints[i].role == DFI_ROLE_TARGET)
			*found = stats->endpoints[i];
	return 0;
}

static void expect_counted(uint64_t gaps, uint64_t lost_segments)
{
	struct dfi_endpoint_stats seen = { .role = 0 };
	struct dfi_target_stats own;

	dfi_target_query(target, &own);
	cr_assert_eq(own.gaps, gaps);
	cr_assert_eq(own.lost_segments, lost_segments);
	cr_assert_eq(dfi_stats_list(rig.dfi, find_target, &seen), 0);
	cr_assert_eq(seen.role, DFI_ROLE_TARGET);
	cr_assert_eq(seen.gaps, gaps);
	cr_assert_eq(seen.lost_segments, lost_segments);
}

Test(gap, is_counted_when_it_is_reported)
{
	const void *tuple;

	expect_counted(0, 0);
	lose(0, 3);
	arrive(3);
	lose(4, 1);
	expect_counted(0, 0);
	cr_assert_eq(dfi_target_consume(target, &tuple), -ENODATA);
	expect_counted(1, 3);
	expect_key(3);
	expect_counted(1, 3);
	cr_assert_eq(dfi_target_consume(target, &tuple), -ENODATA);
	expect_counted(2, 4);
}

Test(gap, is_reported_once_and_the_flow_goes_on)
{
	const void *tuple;
	struct dfi_gap gap;

	assert_error(dfi_target_gap(target, &gap), -ENOENT, "no gap");
	arrive(0);
	lose(1, 3);
	expect_key(0);
	cr_assert_eq(dfi_target_consume(target, &tuple), -ENODATA);
	expect_gap(1, 3);
	cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN);
	arrive(4);
	expect_key(4);
	/* The last reported one stays. */
	cr_assert_eq(dfi_target_gap(target, &gap), 0);
	cr_assert_eq(gap.first, 1);
	/* All are given back: another ring of segments fits. */
	cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN);
	lose(5, SEGMENTS);
	cr_assert_eq(dfi_target_consume(target, &tuple), -ENODATA);
	expect_gap(5, SEGMENTS);
	cr_assert_eq(target->readers[1].returned, 5 + SEGMENTS);
	cr_assert_eq(target->readers[1].lost_total, 3 * SEGMENT);
}

Test(gap, is_of_one_source_only)
{
	struct kv kv = { .key = 99 };
	const void *tuple;
	int ret;

	lose(0, 1);
	cr_assert_eq(dfi_source_push(sources[0], &kv), 0);
	cr_assert_eq(dfi_source_flush(sources[0]), 0);
	/* Either may be first. */
	ret = consume_soon(target, &tuple);
	if (ret == -ENODATA) {
		expect_gap(0, 1);
		ret = consume_soon(target, &tuple);
	}
	cr_assert_eq(ret, 1);
	cr_assert_eq(((const struct kv *)tuple)->key, 99);
}

Test(gap, is_reported_by_batches)
{
	struct dfi_batch batch;

	arrive(0);
	lose(1, 2);
	arrive(3);
	cr_assert_eq(dfi_target_consume_batch(target, &batch), 1);
	dfi_target_release(target, &batch);
	cr_assert_eq(dfi_target_consume_batch(target, &batch), -ENODATA);
	expect_gap(1, 2);
	cr_assert_eq(dfi_target_consume_batch(target, &batch), 1);
	cr_assert_eq(((const struct kv *)batch.tuples)->key, 3);
	dfi_target_release(target, &batch);
}

Test(gap, is_reported_by_cursors)
{
	struct dfi_target_cursor cursor;
	const struct kv *kv;

	arrive(0);
	lose(1, 1);
	arrive(2);
	cursor = dfi_target_cursor_open(target, sizeof(*kv));
	kv = dfi_target_cursor_get(&cursor, sizeof(*kv));
	cr_assert(kv && kv->key == 0);
	cr_assert_null(dfi_target_cursor_get(&cursor, sizeof(*kv)));
	cr_assert_eq(cursor.status, -ENODATA);
	expect_gap(1, 1);
	kv = dfi_target_cursor_get(&cursor, sizeof(*kv));
	cr_assert(kv && kv->key == 2);
	cr_assert_eq(cursor.status, 0);
	cr_assert_eq(dfi_target_cursor_close(cursor), 0);
}

Test(gap, is_reported_by_groups_which_go_on)
{
	struct dfi_target_group_attr attr = DFI_TARGET_GROUP_ATTR_INIT;
	struct dfi_target_group_batch batch;
	struct dfi_target_group *group;

	attr.flags = DFI_NONBLOCK;
	cr_assert_eq(dfi_target_group_open(rig.dfi, &attr, &group), 0);
	cr_assert_eq(dfi_target_group_add(group, target, &total), 0);
	lose(0, 2);
	arrive(2);
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), -ENODATA);
	cr_assert_eq(batch.target, target);
	cr_assert_eq(batch.arg, &total);
	expect_gap(0, 2);
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), 1);
	cr_assert_eq(((const struct kv *)batch.batch.tuples)->key, 2);
	dfi_target_group_release(group, &batch);
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), -EAGAIN);
	cr_assert_eq(dfi_target_group_close(group), 0);
}

Test(gap, of_a_flow_that_loses_nothing_is_an_error)
{
	const void *tuple;

	target->readers[1].lossy = false;
	lose(0, 2);
	cr_assert_eq(dfi_target_consume(target, &tuple), -EBADMSG);
	cr_assert_eq(dfi_target_consume(target, &tuple), -EBADMSG);
	cr_assert_eq(dfi_target_close(target), -EBADMSG);
	target = NULL;
	cr_assert_lt(dfi_source_close(sources[0]), 0);
	cr_assert_lt(dfi_source_close(sources[1]), 0);
	sources[0] = sources[1] = NULL;
}

Test(gap, arguments_are_checked)
{
	struct dfi_gap gap;

	assert_error(dfi_target_gap(target, NULL), -EINVAL, "gap is NULL");
	cr_assert_lt(dfi_target_gap(NULL, &gap), 0);
}

/* ---- Counts of both ends ------------------------------------------------- */

static bool knows_source(void *arg)
{
	(void)arg;
	return peers_state(&target->sources, 1) == PEER_PRESENT;
}

/* 5 tuples in 2 segments, of a source that the target can name. */
static void send_five(void)
{
	struct kv kv = { 1, 1 };
	uint32_t i;

	cr_assert(eventually(knows_source, NULL));
	target->readers[1].lossy = false;
	for (i = 0; i < 5; i++)
		cr_assert_eq(dfi_source_push(sources[1], &kv), 0);
	cr_assert_eq(dfi_source_flush(sources[1]), 0);
}

/* The whole text; its author knows only its own process. */
static void expect_damage(int ret, bool by_source, const char *what)
{
	char host[64] = "", whole[200], own[32], text[600];

	gethostname(host, sizeof(host) - 1);
	snprintf(own, sizeof(own), "pid %d", (int)getpid());
	snprintf(whole, sizeof(whole), "node %s, host %s, %s", host, host, own);
	snprintf(text, sizeof(text),
	    "flow 'f': from source 1 (%s) to target 0 (%s): %s",
	    by_source ? own : whole, by_source ? whole : own, what);
	cr_assert_eq(ret, -EBADMSG, "%d", ret);
	cr_assert_str_eq(dfi_errmsg(), text);
}

static int consume_on(void)
{
	const void *tuple;
	int ret;

	do
		ret = dfi_target_consume(target, &tuple);
	while (ret > 0);
	return ret;
}

/* No reader takes its segments. */
static void end_in_vain(uint32_t index)
{
	cr_assert_eq(dfi_source_close(sources[index]), -ECONNRESET);
	sources[index] = NULL;
}

/* The source ends, then its end mark is changed. */
static void end_otherwise(uint64_t tuples, uint64_t segments, const char *what)
{
	struct segment_footer *end =
	    &((struct ring_header *)(void *)ring())->end;

	send_five();
	cr_assert_eq(dfi_source_close(sources[1]), 0);
	sources[1] = NULL;
	cr_assert_eq(atomic_peek(&end->total), 5);
	cr_assert_eq(
	    atomic_peek(&end->state), footer_state(2, 0, FOOTER_FLAG_END));
	atomic_set(&end->total, tuples);
	atomic_set(&end->state, footer_state(segments, 0, FOOTER_FLAG_END));
	expect_damage(consume_on(), false, what);
	/* It stays. */
	expect_damage(consume_on(), false, what);
	expect_damage(dfi_target_close(target), false, what);
	target = NULL;
	end_in_vain(0);
}

Test(counts, at_the_end_that_lack_a_tuple_name_both_ends)
{
	end_otherwise(6, 2,
	    "the source ended after 6 tuples and segment 2, the target "
	    "received 5 tuples and segment 2");
}

Test(counts, at_the_end_that_lack_a_segment_name_both_ends)
{
	end_otherwise(9, 3,
	    "the source ended after 9 tuples and segment 3, the target "
	    "received 5 tuples and segment 2");
}

Test(counts, of_a_segment_that_lack_tuples_name_both_ends)
{
	send_five();
	atomic_set(&footer(1)->total, 7);
	expect_damage(consume_on(), false,
	    "segment 1: the source counts 7 tuples up to here, the target 5");
	dfi_target_close(target);
	target = NULL;
	end_in_vain(0);
	end_in_vain(1);
}

/* Of segments that it has never received. */
Test(counts, of_a_target_that_gives_too_much_back_name_both_ends)
{
	struct ring_header *header = (void *)ring();
	struct kv kv = { 1, 1 };
	int ret;

	send_five();
	atomic_set(&header->credit.consumed, 100);
	do
		ret = dfi_source_push(sources[1], &kv);
	while (!ret);
	expect_damage(
	    ret, true, "the target counts 100 segments, the source has sent 8");
	expect_damage(dfi_source_close(sources[1]), true,
	    "the target counts 100 segments, the source has sent 8");
	sources[1] = NULL;
}

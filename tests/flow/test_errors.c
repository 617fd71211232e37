/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of calls on sources and targets: the exact code, the words that help,
 * and whether the error stays. Deaths of processes are in tests/proc.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

TestSuite(open, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(source, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(target, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_source *source;
static struct dfi_target *target;

static int try_source(
    const char *flow, uint32_t index, const struct dfi_source_attr *attr)
{
	struct dfi_source *unused;

	return dfi_source_open(rig.dfi, flow, index, attr, &unused);
}

static int try_target(
    const char *flow, uint32_t index, const struct dfi_target_attr *attr)
{
	struct dfi_target *unused;

	return dfi_target_open(rig.dfi, flow, index, attr, &unused);
}

/* A 1:1 flow with both ends open. */
static void open_both(uint32_t segment_tuples, uint32_t segment_count)
{
	create_kv_flow(rig.dfi, "f", 1, 1, segment_tuples, segment_count);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
}

static int push(uint64_t number)
{
	struct kv kv = { number, number };

	return dfi_source_push(source, &kv);
}

static int consume(void)
{
	const void *tuple;

	return consume_soon(target, &tuple);
}

/* Without waiting for tuples that may be on their way. */
static int try_consume(void)
{
	const void *tuple;

	return dfi_target_consume(target, &tuple);
}

static void close_both(void)
{
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	while (consume() > 0)
		;
	cr_assert_eq(consume(), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(open, index_lies_inside_the_flow)
{
	create_kv_flow(rig.dfi, "f", 2, 3, 4, 4);
	assert_error(try_source("f", 2, NULL), -ERANGE, "flow 'f'", "source 2",
	    "the flow has 2");
	assert_error(try_target("f", 3, NULL), -ERANGE, "flow 'f'", "target 3",
	    "the flow has 3");
	cr_assert_eq(try_target("f", UINT32_MAX, NULL), -ERANGE);
}

Test(open, index_is_taken_once)
{
	open_both(4, 4);
	assert_error(try_source("f", 0, NULL), -EEXIST, "flow 'f'", "source 0",
	    "attached already");
	assert_error(try_target("f", 0, NULL), -EEXIST, "flow 'f'", "target 0",
	    "attached already");
	cr_assert_eq(push(1), 0);
	close_both();
}

/* A source has waited for all targets, so this one was one of them. */
Test(open, target_does_not_join_late)
{
	struct dfi_target *other;

	create_kv_flow(rig.dfi, "f", 1, 2, 4, 4);
	target = open_target(rig.dfi, "f", 0, 0);
	other = open_target(rig.other, "f", 1, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(dfi_target_cancel(other), 0);
	cr_assert_eq(dfi_target_close(other), 0);
	assert_error(try_target("f", 1, NULL), -EEXIST, "flow 'f'", "target 1",
	    "before", "source 0 is attached already");
	assert_error(try_target("f", 1, NULL), -EEXIST, "before");
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(consume(), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

/* Otherwise a second stream would overwrite the first one, or be lost. */
Test(open, source_attaches_once_in_the_life_of_its_rings)
{
	open_both(4, 4);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	assert_error(try_source("f", 0, NULL), -EEXIST, "flow 'f'", "source 0",
	    "before");
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 0);
	assert_error(try_source("f", 0, NULL), -EEXIST, "before");
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(open, names_and_attributes_are_checked)
{
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct dfi_schema bad = { kv_schema.fields, 2, 15 };
	char name[DFI_MAX_FLOW_NAME + 2];

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	memset(name, 'n', sizeof(name));
	name[DFI_MAX_FLOW_NAME + 1] = '\0';
	assert_error(try_source(name, 0, NULL), -EINVAL, "name");
	assert_error(try_source("", 0, NULL), -EINVAL, "name");
	assert_error(try_target(NULL, 0, NULL), -EINVAL, "name");
	source_attr.flags = 2;
	assert_error(try_source("f", 0, &source_attr), -EINVAL,
	    "dfi_source_attr.flags 0x2");
	source_attr.flags = 0;
	source_attr.wait = DFI_WAIT_BLOCK + 1;
	assert_error(try_source("f", 0, &source_attr), -EINVAL,
	    "dfi_source_attr.wait 4");
	source_attr.wait = 0;
	source_attr.schema = &bad;
	assert_error(
	    try_source("f", 0, &source_attr), -EINVAL, "schema", "'val'");
	source_attr.size = 0;
	assert_error(
	    try_source("f", 0, &source_attr), -EINVAL, "dfi_source_attr.size");
	target_attr.flags = 4;
	assert_error(try_target("f", 0, &target_attr), -EINVAL,
	    "dfi_target_attr.flags 0x4");
	target_attr.flags = 0;
	target_attr.wait = 99;
	assert_error(try_target("f", 0, &target_attr), -EINVAL,
	    "dfi_target_attr.wait 99");
	target_attr.size = 0;
	assert_error(
	    try_target("f", 0, &target_attr), -EINVAL, "dfi_target_attr.size");
}

Test(open, other_schema_is_refused_by_the_fields_name)
{
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct dfi_field fields[] = { kv_schema.fields[0],
		{ "val", NULL, DFI_INT64, 8, 8, 0 } };
	struct dfi_schema schema = { fields, 2, 16 };

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	source_attr.schema = target_attr.schema = &schema;
	assert_error(try_source("f", 0, &source_attr), -EPROTOTYPE, "flow 'f'",
	    "val:uint64@8", "val:int64@8");
	assert_error(
	    try_target("f", 0, &target_attr), -EPROTOTYPE, "val:int64@8");
}

Test(open, timeout_says_who_is_missing)
{
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	int64_t start = now_ms();

	source_attr.open_timeout_ms = target_attr.open_timeout_ms = SHORT_MS;
	assert_error(try_source("none", 0, &source_attr), -ETIMEDOUT,
	    "flow 'none'", "nobody has created it");
	assert_error(try_target("none", 0, &target_attr), -ETIMEDOUT,
	    "flow 'none'", "nobody has created it");
	create_kv_flow(rig.dfi, "f", 1, 3, 4, 4);
	assert_error(try_source("f", 0, &source_attr), -ETIMEDOUT, "flow 'f'",
	    "target 0", "2 more of 3");
	target = open_target(rig.dfi, "f", 0, 0);
	assert_error(try_source("f", 0, &source_attr), -ETIMEDOUT, "target 1");
	cr_assert_geq(now_ms() - start, 4 * SHORT_MS);
	cr_assert_eq(dfi_target_close(target), 0);
}

/* Giving up on a late target is no death: it may still come. */
Test(open, source_that_gave_up_may_try_again)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_target *second;
	const void *tuple;

	create_kv_flow(rig.dfi, "f", 1, 2, 4, 4);
	target = open_target(rig.dfi, "f", 0, 0);
	attr.open_timeout_ms = SHORT_MS;
	assert_error(try_source("f", 0, &attr), -ETIMEDOUT, "target 1 of 2");
	second = open_target(rig.dfi, "f", 1, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(consume(), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_consume(second, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert_eq(dfi_target_close(second), 0);
}

/* Also after the first time: the context's own limit is long. */
Test(open, own_timeout_of_a_target_is_repeated)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	int64_t start = now_ms();
	const void *tuple;
	int i;

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	attr.open_timeout_ms = SHORT_MS; /* opening takes time as well */
	cr_assert_eq(dfi_target_open(rig.dfi, "f", 0, &attr, &target), 0);
	for (i = 0; i < 2; i++)
		assert_error(dfi_target_consume(target, &tuple), -ETIMEDOUT,
		    "source 0", "nobody has opened it");
	cr_assert_lt(now_ms() - start, LONG_MS);
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(target, says_which_source_has_not_come)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;

	create_kv_flow(rig.dfi, "f", 2, 1, 4, 4);
	attr.open_timeout_ms = SHORT_MS;
	cr_assert_eq(dfi_target_open(rig.dfi, "f", 0, &attr, &target), 0);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	cr_assert_eq(consume(), 1);
	assert_error(consume(), -ETIMEDOUT, "flow 'f'", "source 1", "of 2");
	/* It isn't sticky: the rest may come. */
	cr_assert_eq(dfi_source_close(source), 0);
	source = open_source(rig.dfi, "f", 1, 0);
	cr_assert_eq(push(2), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(target, stall_timeout_is_not_sticky)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target_stats stats;
	int64_t start;
	int ret;

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	attr.stall_timeout_ms = 20;
	cr_assert_eq(dfi_target_open(rig.dfi, "f", 0, &attr, &target), 0);
	source = open_source(rig.dfi, "f", 0, 0);
	start = now_ms();
	assert_error(consume(), -ETIMEDOUT, "flow 'f'", "target 0",
	    "no tuple came for 20 ms");
	cr_assert_geq(now_ms() - start, 19);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	/* The tuple may take longer than that as well. */
	start = now_ms();
	while ((ret = consume()) == -ETIMEDOUT && now_ms() - start < LONG_MS)
		;
	cr_assert_eq(ret, 1);
	assert_error(consume(), -ETIMEDOUT, "20 ms");
	dfi_target_query(target, &stats);
	cr_assert_geq(stats.stalls, 2);
	cr_assert_geq(stats.stall_ns, 30 * UINT64_C(1000000));
	close_both();
}

Test(source, stall_timeout_is_not_sticky)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source_stats stats;
	int64_t start;
	int ret;

	create_kv_flow(rig.dfi, "f", 1, 1, 1, 2);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	attr.stall_timeout_ms = 20;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, &attr, &source), 0);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(push(2), 0);
	start = now_ms();
	assert_error(push(3), -ETIMEDOUT, "flow 'f'", "source 0", "target 0",
	    "full for 20 ms");
	cr_assert_geq(now_ms() - start, 19);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 1);
	/* The credit may take longer than that as well. */
	start = now_ms();
	while ((ret = push(3)) == -ETIMEDOUT && now_ms() - start < LONG_MS)
		;
	cr_assert_eq(ret, 0);
	dfi_source_query(source, &stats);
	cr_assert_eq(stats.tuples, 3);
	cr_assert_geq(stats.stalls, 1);
	cr_assert_geq(stats.stall_ns, 15 * UINT64_C(1000000));
	close_both();
}

Test(source, full_ring_is_eagain_and_takes_nothing)
{
	struct kv kv = { 4, 4 };

	open_both(2, 1);
	cr_assert_eq(push(0), 0);
	cr_assert_eq(push(1), 0);
	assert_error(push(2), -EAGAIN, "full");
	assert_error(push(3), -EAGAIN, "full");
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 1);
	assert_error(try_consume(), -EAGAIN, "no tuple");
	cr_assert_eq(push_soon(source, &kv), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

/* A call that names no target takes nothing. */
Test(source, wrong_arguments_leave_it_as_it_was)
{
	struct dfi_source_cursor cursor;
	struct kv kv = { 1, 1 };
	struct dfi_span span;

	open_both(2, 2);
	assert_error(dfi_source_push_to(source, 1, &kv), -ERANGE, "flow 'f'",
	    "target 1", "the flow has 1");
	assert_error(
	    dfi_source_push_batch_to(source, 2, &kv, 1), -ERANGE, "target 2");
	assert_error(dfi_source_push_batch_to(source, 0, NULL, 1), -EINVAL,
	    "tuples is NULL");
	assert_error(
	    dfi_source_push_set(source, 3, &kv), -EPROTOTYPE, "no groups");
	assert_error(dfi_source_choose(source, 1), -EPROTOTYPE, "no groups");
	assert_error(dfi_source_claim(source, 1, &span), -ERANGE, "target 1");
	assert_error(
	    dfi_source_claim_n(source, 1, 1, &span), -ERANGE, "target 1");
	assert_error(
	    dfi_source_claim_n(source, 0, 0, &span), -EINVAL, "0 tuples");
	cursor = dfi_source_cursor_open(source, 7, sizeof(kv));
	assert_error(cursor.status, -ERANGE, "target 7");
	cr_assert_eq(dfi_source_cursor_push(&cursor, &kv, sizeof(kv)), -ERANGE);
	cr_assert_eq(dfi_source_cursor_close(cursor), -ERANGE);
	cursor = dfi_source_cursor_open(source, 0, 15);
	assert_error(cursor.status, -EINVAL, "15 bytes", "16");
	cr_assert_eq(dfi_source_cursor_push(&cursor, &kv, 15), -EINVAL);
	cr_assert_eq(dfi_source_cursor_close(cursor), -EINVAL);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(try_consume(), -EAGAIN);
	close_both();
}

/* A loop that ends at the first error still ends with it. */
static void refuse_last(int ret, int err, const char *word)
{
	cr_assert_eq(ret, err);
	cr_assert_eq(dfi_source_flush(source), 0);
	assert_error(dfi_source_close(source), err, "flow 'f'", word);
	cr_assert_eq(consume(), 1);
	assert_error(consume(), -ECANCELED, "source 0");
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

Test(source, stream_whose_last_tuple_was_refused_is_not_whole)
{
	struct dfi_source_cursor cursor;
	struct kv kv = { 1, 1 };
	struct dfi_span span;

	open_both(2, 2);
	cr_assert_eq(push(1), 0);
	refuse_last(dfi_source_push_to(source, 1, &kv), -ERANGE, "target 1");
	open_both(2, 2);
	cr_assert_eq(push(1), 0);
	refuse_last(dfi_source_claim(source, 1, &span), -ERANGE, "target 1");
	open_both(2, 2);
	cr_assert_eq(push(1), 0);
	refuse_last(
	    dfi_source_claim_n(source, 0, 3, &span), -EMSGSIZE, "at most 2");
	open_both(2, 2);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(dfi_source_claim(source, 0, &span), 0);
	refuse_last(dfi_source_commit(source, &span, 3), -EINVAL, "3 tuples");
	open_both(2, 2);
	cr_assert_eq(push(1), 0);
	refuse_last(
	    dfi_source_push_batch_to(source, 3, &kv, 1), -ERANGE, "target 3");
	open_both(2, 2);
	cr_assert_eq(push(1), 0);
	refuse_last(
	    dfi_source_push_set(source, 3, &kv), -EPROTOTYPE, "no groups");
	open_both(2, 2);
	cr_assert_eq(push(1), 0);
	cursor = dfi_source_cursor_open(source, 7, sizeof(kv));
	refuse_last(dfi_source_cursor_push(&cursor, &kv, sizeof(kv)), -ERANGE,
	    "target 7");
}

/* Take a batch of n tuples that begins with a number. */
static void expect_batch(uint64_t first, uint32_t n)
{
	struct dfi_batch batch;
	const struct kv *kv;

	cr_assert_eq(
	    consume_batch_soon(target, &batch), (int)n, "%s", dfi_errmsg());
	kv = batch.tuples;
	cr_assert_eq(kv[0].key, first);
	cr_assert_eq(kv[n - 1].key, first + n - 1);
	dfi_target_release(target, &batch);
}

/* Claim room for n, and build in it tuples from a number on. */
static int claim_and_commit(uint64_t first, uint32_t n)
{
	struct dfi_span span;
	int ret = dfi_source_claim_n(source, 0, n, &span);
	struct kv *kv;
	uint32_t i;

	if (ret < 0)
		return ret;
	cr_assert_geq(span.count, n);
	kv = span.tuples;
	for (i = 0; i < n; i++)
		kv[i] = (struct kv){ first + i, first + i };
	return dfi_source_commit(source, &span, n);
}

/* Credit may be on its way. */
static int claim_soon(uint64_t first, uint32_t n)
{
	int64_t start = now_ms();
	int ret;

	do {
		ret = claim_and_commit(first, n);
	} while (ret == -EAGAIN && now_ms() - start < LONG_MS);
	return ret;
}

Test(source, claim_of_n_tuples_gives_room_for_all_or_nothing)
{
	open_both(4, 2);
	assert_error(claim_and_commit(0, 5), -EMSGSIZE, "flow 'f'", "source 0",
	    "5 tuples", "at most 4", "segment_size");
	cr_assert_eq(claim_and_commit(0, 3), 0);
	/* The rest has room for one: the segment goes, and the next is open. */
	cr_assert_eq(claim_and_commit(3, 2), 0);
	expect_batch(0, 3);
	cr_assert_eq(claim_and_commit(5, 2), 0);
	/* One in the ring is full, and the other is read: nothing, or all. */
	cr_assert_eq(claim_soon(7, 4), 0);
	assert_error(claim_and_commit(11, 2), -EAGAIN, "full");
	expect_batch(3, 4);
	cr_assert_eq(claim_soon(11, 2), 0);
	expect_batch(7, 4);
	close_both();
}

Test(source, claim_of_n_in_a_flow_for_latency_is_of_one)
{
	struct dfi_flow_attr flow = { .size = sizeof(flow),
		.kind = DFI_SHUFFLE,
		.goal = DFI_LATENCY,
		.schema = &kv_schema,
		.n_sources = 1,
		.n_targets = 1 };

	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &flow), 0);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	assert_error(
	    claim_and_commit(0, 2), -EMSGSIZE, "at most 1", "DFI_BANDWIDTH");
	cr_assert_eq(claim_and_commit(0, 1), 0);
	expect_batch(0, 1);
	close_both();
}

Test(source, batch_to_one_target_is_taken_as_far_as_there_is_room)
{
	struct kv kvs[20];
	struct dfi_target *second;
	uint32_t i;
	int taken;

	for (i = 0; i < 20; i++)
		kvs[i] = (struct kv){ i, i };
	create_kv_flow(rig.dfi, "f", 1, 2, 4, 4);
	second = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	target = open_target(rig.dfi, "f", 1, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	taken = dfi_source_push_batch_to(source, 1, kvs, 20);
	cr_assert_eq(taken, 16, "%s", dfi_errmsg());
	assert_error(
	    dfi_source_push_batch_to(source, 1, kvs + 16, 4), -EAGAIN, "full");
	for (i = 0; i < 16; i += 4)
		expect_batch(i, 4);
	while ((taken = dfi_source_push_batch_to(source, 1, kvs + 16, 4)) ==
	    -EAGAIN)
		cr_assert_eq(try_consume(), -EAGAIN);
	cr_assert_eq(taken, 4);
	expect_batch(16, 4);
	cr_assert_eq(dfi_source_push_batch_to(source, 1, kvs, 0), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(consume(), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	target = second;
	cr_assert_eq(consume(), 0);
	cr_assert_eq(dfi_target_close(second), 0);
}

Test(source, open_cursor_keeps_other_calls_out)
{
	struct dfi_source_cursor cursor, second;
	struct kv kv = { 1, 1 };
	struct dfi_span span;

	open_both(2, 4);
	cursor = dfi_source_cursor_open(source, 0, sizeof(kv));
	cr_assert_eq(dfi_source_cursor_push(&cursor, &kv, sizeof(kv)), 0);
	assert_error(dfi_source_flush(source), -EBUSY, "flow 'f'", "cursor");
	cr_assert_eq(push(1), -EBUSY);
	cr_assert_eq(dfi_source_push_to(source, 0, &kv), -EBUSY);
	cr_assert_eq(dfi_source_push_batch(source, &kv, 1), -EBUSY);
	cr_assert_eq(dfi_source_claim(source, 0, &span), -EBUSY);
	second = dfi_source_cursor_open(source, 0, sizeof(kv));
	cr_assert_eq(second.status, -EBUSY);
	cr_assert_eq(dfi_source_cursor_close(second), -EBUSY);
	cr_assert_eq(dfi_source_cursor_push(&cursor, &kv, sizeof(kv)), 0);
	cr_assert_eq(dfi_source_cursor_close(cursor), 0);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(try_consume(), -EAGAIN);
	close_both();
}

Test(source, close_with_an_open_cursor_spoils_the_stream)
{
	struct dfi_source_cursor cursor;
	struct kv kv = { 1, 1 };

	open_both(2, 4);
	cursor = dfi_source_cursor_open(source, 0, sizeof(kv));
	cr_assert_eq(dfi_source_cursor_push(&cursor, &kv, sizeof(kv)), 0);
	assert_error(dfi_source_close(source), -EBUSY, "cursor");
	cr_assert_eq(consume(), -ECANCELED);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

Test(source, push_that_was_refused_and_not_repeated_spoils_the_stream)
{
	open_both(2, 1);
	cr_assert_eq(push(0), 0);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(push(2), -EAGAIN);
	assert_error(dfi_source_close(source), -EAGAIN, "flow 'f'", "source 0",
	    "target 0", "not repeated");
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), -ECANCELED);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

Test(source, commit_takes_only_what_was_claimed)
{
	struct dfi_span span, old, wrong;

	open_both(4, 4);
	cr_assert_eq(push(0), 0);
	cr_assert_eq(dfi_source_claim(source, 0, &span), 0);
	cr_assert_eq(span.count, 3);
	cr_assert_eq(span.target, 0);
	memset(span.tuples, 1, 3 * sizeof(struct kv));
	wrong = span;
	wrong.tuples = (char *)wrong.tuples + 16;
	assert_error(
	    dfi_source_commit(source, &wrong, 1), -EINVAL, "flow 'f'", "span");
	wrong = span;
	wrong.target = 1;
	assert_error(dfi_source_commit(source, &wrong, 1), -EINVAL, "span");
	assert_error(dfi_source_commit(source, &span, 4), -EINVAL, "4 tuples");
	cr_assert_eq(dfi_source_commit(source, &span, UINT32_MAX), -EINVAL);
	old = span;
	cr_assert_eq(dfi_source_commit(source, &span, 1), 0);
	assert_error(dfi_source_commit(source, &old, 1), -EINVAL, "span");
	/* A push in between takes the room. */
	cr_assert_eq(dfi_source_claim(source, 0, &span), 0);
	cr_assert_eq(push(1), 0);
	assert_error(dfi_source_commit(source, &span, 1), -EINVAL, "span");
	cr_assert_eq(dfi_source_claim(source, 0, &span), 0);
	cr_assert_eq(span.count, 1);
	cr_assert_eq(dfi_source_commit(source, &span, 0), 0);
	cr_assert_eq(push(1), 0);
	close_both();
}

static uint32_t route_by_value(void *arg, const void *tuple, uint32_t n_targets)
{
	const struct kv *kv = tuple;

	cr_assert_eq(n_targets, 2);
	++*(unsigned *)arg;
	return (uint32_t)kv->val;
}

Test(source, routing_function_may_name_no_target)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_flow_attr flow = { .size = sizeof(flow),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = 1,
		.n_targets = 2,
		.routing = DFI_ROUTE_FUNCTION };
	struct kv kvs[] = { { 0, 1 }, { 0, 0 }, { 0, 2 }, { 0, 1 } };
	struct dfi_target *second;
	unsigned calls = 0;

	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &flow), 0);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	second = open_target(rig.dfi, "f", 1, DFI_NONBLOCK);
	assert_error(try_source("f", 0, NULL), -EINVAL, "dfi_source_attr.route",
	    "function");
	attr.route = route_by_value;
	attr.route_arg = &calls;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, &attr, &source), 0);
	cr_assert_eq(push(0), 0);
	/* A batch stops there, and its next call says why. */
	cr_assert_eq(dfi_source_push_batch(source, kvs, 4), 2);
	assert_error(dfi_source_push_batch(source, kvs + 2, 2), -ERANGE,
	    "target 2", "the flow has 2");
	cr_assert_geq(calls, 4);
	/* The caller may skip the tuple and continue. */
	cr_assert_eq(dfi_source_push_batch(source, kvs + 3, 1), 1);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	target = second;
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 0);
	cr_assert_eq(dfi_target_close(second), 0);
}

Test(source, direct_routing_needs_a_target)
{
	struct dfi_flow_attr flow = { .size = sizeof(flow),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = 1,
		.n_targets = 1,
		.routing = DFI_ROUTE_DIRECT };
	struct kv kv = { 1, 1 };

	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &flow), 0);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	assert_error(push(1), -EPROTOTYPE, "flow 'f'", "direct routing",
	    "dfi_source_push_to()");
	cr_assert_eq(dfi_source_push_to(source, 0, &kv), 0);
	refuse_last(
	    dfi_source_push_batch(source, &kv, 1), -EPROTOTYPE, "direct");
}

Test(source, batch_has_a_limit)
{
	struct kv kv = { 1, 1 };

	open_both(4, 4);
	assert_error(
	    dfi_source_push_batch(source, &kv, (uint32_t)INT32_MAX + 1),
	    -EINVAL, "push_batch", "2147483648");
	assert_error(dfi_source_push_batch(source, NULL, 1), -EINVAL,
	    "push_batch", "tuples is NULL");
	cr_assert_eq(dfi_source_push_batch(source, NULL, 0), 0);
	cr_assert_eq(dfi_source_push_batch(source, &kv, 1), 1);
	close_both();
}

Test(source, abort_reaches_the_target_after_what_was_sent)
{
	open_both(4, 4);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	cr_assert_eq(push(2), 0);
	dfi_source_abort(source);
	dfi_source_abort(source);
	assert_error(dfi_source_flush(source), -ECANCELED, "flow 'f'",
	    "source 0", "dfi_source_abort");
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
	cr_assert_eq(consume(), 1);
	assert_error(consume(), -ECANCELED, "flow 'f'", "source 0", "aborted",
	    "after 1 tuples");
	cr_assert_eq(consume(), -ECANCELED);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

/* Push until a result other than success or a full ring. */
static bool push_fails(void *arg)
{
	int *ret = arg;

	*ret = push(1);
	return *ret && *ret != -EAGAIN;
}

Test(source, target_that_closes_early_is_named_and_the_error_stays)
{
	struct kv kv = { 1, 1 };
	struct dfi_span span;
	int ret;

	open_both(4, 4);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	cr_assert(eventually(push_fails, &ret));
	assert_error(ret, -ECONNRESET, "flow 'f'", "target 0", "pid");
	cr_assert_eq(push(1), -ECONNRESET);
	cr_assert_eq(dfi_source_push_to(source, 0, &kv), -ECONNRESET);
	cr_assert_eq(dfi_source_push_batch(source, &kv, 1), -ECONNRESET);
	cr_assert_eq(dfi_source_claim(source, 0, &span), -ECONNRESET);
	cr_assert_eq(
	    dfi_source_cursor_open(source, 0, sizeof(kv)).status, -ECONNRESET);
	cr_assert_eq(dfi_source_flush(source), -ECONNRESET);
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
}

Test(source, failure_of_one_target_aborts_the_others)
{
	struct dfi_target *second;
	const void *tuple;
	int ret;

	create_kv_flow(rig.dfi, "f", 1, 2, 1, 4);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	second = open_target(rig.dfi, "f", 1, 0);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	cr_assert_eq(dfi_target_close(target), 0);
	do {
		struct kv kv = { 1, 1 };

		ret = dfi_source_push_to(source, 0, &kv);
		yield_times(1);
	} while (ret == 0 || ret == -EAGAIN);
	cr_assert_eq(ret, -ECONNRESET);
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
	cr_assert_eq(dfi_target_consume(second, &tuple), -ECANCELED);
	cr_assert_eq(dfi_target_close(second), -ECANCELED);
}

Test(target, batch_that_is_out_is_ebusy)
{
	struct dfi_target_cursor cursor;
	struct dfi_batch batch, other;

	open_both(2, 4);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(push(2), 0);
	cr_assert_eq(consume_batch_soon(target, &batch), 2);
	assert_error(consume(), -EBUSY, "flow 'f'", "target 0", "release");
	assert_error(dfi_target_consume_batch(target, &other), -EBUSY, "batch");
	cursor = dfi_target_cursor_open(target, sizeof(struct kv));
	cr_assert_eq(cursor.status, -EBUSY);
	cr_assert_null(dfi_target_cursor_get(&cursor, sizeof(struct kv)));
	cr_assert_eq(dfi_target_cursor_close(cursor), -EBUSY);
	dfi_target_release(target, &batch);
	cr_assert_eq(push(3), 0);
	close_both();
}

Test(target, closes_with_a_batch_out)
{
	struct dfi_batch batch;

	open_both(2, 4);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(consume_batch_soon(target, &batch), 1);
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(target, open_cursor_keeps_other_calls_out)
{
	struct dfi_target_cursor cursor;
	struct dfi_batch batch;

	open_both(2, 4);
	cursor = dfi_target_cursor_open(target, 15);
	assert_error(cursor.status, -EINVAL, "15 bytes", "16");
	cr_assert_null(dfi_target_cursor_get(&cursor, 15));
	cr_assert_eq(dfi_target_cursor_close(cursor), -EINVAL);
	cursor = dfi_target_cursor_open(target, sizeof(struct kv));
	assert_error(consume(), -EBUSY, "flow 'f'", "cursor");
	cr_assert_eq(dfi_target_consume_batch(target, &batch), -EBUSY);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(push(2), 0);
	cr_assert_not_null(cursor_get_soon(&cursor, sizeof(struct kv)));
	/* With a tuple left in the segment. */
	cr_assert_eq(consume(), -EBUSY);
	cr_assert_eq(dfi_target_cursor_close(cursor), 0);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(try_consume(), -EAGAIN);
	close_both();
}

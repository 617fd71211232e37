/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pushes by key in open flows that make no call while they fit: errors, counts
 * and the end are those of other pushes.
 */
#include <criterion/criterion.h>
#include <dfi/stats.h>
#include <errno.h>

#include "flow_help.h"

#define SEGMENT 8 /* tuples */
#define RING 4    /* segments */
#define FEW 3     /* tuples: less than a segment */

static struct rig rig;
static struct dfi_source *source;
static struct dfi_target *target;

static void setup(void)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = 1,
		.n_targets = 2,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.open.membership = DFI_MEMBERS_OPEN,
	};

	rig_start(&rig);
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
	target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
}

static void teardown(void)
{
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
	rig_stop(&rig);
}

TestSuite(keyed_push, .init = setup, .fini = teardown, .timeout = 300);

static int push(uint64_t key)
{
	struct kv kv = { key, key };

	return dfi_source_push(source, &kv);
}

/* Consume what is there; returns how many. */
static uint64_t consume(void)
{
	struct dfi_batch batch;
	uint64_t n = 0;
	int ret;

	while ((ret = dfi_target_consume_batch(target, &batch)) > 0) {
		n += (uint64_t)ret;
		dfi_target_release(target, &batch);
	}
	cr_assert(!ret || ret == -EAGAIN, "%s", dfi_errmsg());
	return n;
}

static uint64_t consume_until(uint64_t n)
{
	int64_t until = now_ms() + LONG_MS;
	uint64_t got = 0;

	while (got < n) {
		cr_assert(now_ms() < until, "%lu of %lu", got, n);
		got += consume();
		yield_times(1);
	}
	return got;
}

/* Push until the target has all: then it has its partitions, and a ring. */
static uint64_t settle(void)
{
	int64_t until = now_ms() + LONG_MS;
	uint64_t pushed = 0, got = 0;
	int ret;

	while (pushed < (uint64_t)RING * SEGMENT || got < pushed) {
		ret = pushed < (uint64_t)RING * SEGMENT ? push(pushed) : 0;
		cr_assert(!ret || ret == -EAGAIN, "%s", dfi_errmsg());
		pushed += !ret && pushed < (uint64_t)RING * SEGMENT;
		cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
		got += consume();
		cr_assert(now_ms() < until, "%lu of %lu", got, pushed);
		yield_times(1);
	}
	return pushed;
}

/* Push until there is no room; returns how many were taken. */
static uint64_t fill(void)
{
	uint64_t n = 0;
	int ret;

	while (!(ret = push(n)))
		n++;
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
	return n;
}

static void finish(void)
{
	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0, "%s", dfi_errmsg());
}

Test(keyed_push, one_that_was_refused_fails_the_close)
{
	(void)settle();
	(void)consume_until(fill());
	cr_assert_eq(dfi_source_close(source), -EAGAIN);
	finish();
}

Test(keyed_push, one_that_was_refused_is_forgotten_when_one_is_taken)
{
	uint64_t n;

	(void)settle();
	n = fill();
	(void)consume_until(n);
	cr_assert_eq(push(1), 0, "%s", dfi_errmsg());
	cr_assert_eq(push(2), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	finish();
	(void)consume_until(2);
}

Test(keyed_push, tuples_that_were_sent_are_counted)
{
	struct dfi_source_stats stats;
	uint64_t n = settle() + FEW, i;

	for (i = 0; i < FEW; i++)
		cr_assert_eq(push(i), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
	dfi_source_query(source, &stats);
	cr_assert_eq(stats.tuples, n);
	(void)consume_until(FEW);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	finish();
}

Test(keyed_push, an_aborted_source_fails_within_a_segment)
{
	int ret = 0;
	uint64_t i;

	(void)settle();
	dfi_source_abort(source);
	for (i = 0; !ret && i < SEGMENT; i++)
		ret = push(i);
	cr_assert_eq(ret, -ECANCELED, "%s", dfi_errmsg());
	cr_assert_eq(push(0), -ECANCELED);
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
	finish();
}

Test(keyed_push, a_source_that_has_failed_takes_nothing)
{
	int64_t until = now_ms() + LONG_MS;
	int ret = 0;

	(void)settle();
	(void)fill();
	/* With DFI_ON_LOSS_FAIL, what it leaves in its ring is lost. */
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
	while ((!ret || ret == -EAGAIN) && now_ms() < until) {
		ret = push(1);
		yield_times(1);
	}
	cr_assert_eq(ret, -ECONNRESET, "%s", dfi_errmsg());
	cr_assert_eq(push(2), -ECONNRESET);
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
	target = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lingering: partial segments are sent while the source's owner stays away. The
 * owner is this thread, which waits in the target's calls meanwhile.
 */
#include <criterion/criterion.h>
#include <sys/resource.h>
#include <unistd.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

#define LINGER_US 2000
#define SEGMENT 64

static struct rig rig;
static struct dfi_source *source;
static struct dfi_target *target;
static uint64_t n_pushed, n_consumed;

static void setup(void)
{
	rig_start(&rig);
	n_pushed = n_consumed = 0;
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(linger, .init = setup, .fini = teardown, .timeout = 300);

static int open_lingering(struct dfi *dfi, uint32_t linger_us, uint32_t flags)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;

	attr.linger_us = linger_us;
	attr.flags = flags;
	return dfi_source_open(dfi, "f", 0, &attr, &source);
}

static void open_both(uint32_t segment_count, uint32_t linger_us)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;

	attr.stall_timeout_ms = LONG_MS;
	create_kv_flow(rig.dfi, "f", 1, 1, SEGMENT, segment_count);
	cr_assert_eq(dfi_target_open(rig.other, "f", 0, &attr, &target), 0,
	    "%s", dfi_errmsg());
	cr_assert_eq(
	    open_lingering(rig.dfi, linger_us, 0), 0, "%s", dfi_errmsg());
}

static struct kv next_kv(void)
{
	struct kv kv = { n_pushed, ~n_pushed };

	n_pushed++;
	return kv;
}

static void push(uint32_t n)
{
	struct kv kv;

	for (; n > 0; n--) {
		kv = next_kv();
		cr_assert_eq(
		    dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
	}
}

static void push_batch(uint32_t n)
{
	struct kv kvs[SEGMENT];
	uint32_t i;

	for (i = 0; i < n; i++)
		kvs[i] = next_kv();
	cr_assert_eq(dfi_source_push_batch(source, kvs, n), (int)n);
}

static void claim(uint32_t n)
{
	struct dfi_span span;
	struct kv *kv;
	uint32_t i, taken;

	for (; n > 0; n -= taken) {
		cr_assert_eq(dfi_source_claim(source, 0, &span), 0);
		taken = span.count < n ? span.count : n;
		for (kv = span.tuples, i = 0; i < taken; i++)
			kv[i] = next_kv();
		cr_assert_eq(dfi_source_commit(source, &span, taken), 0);
	}
}

static void push_by_cursor(uint32_t n)
{
	struct dfi_source_cursor cursor = dfi_source_cursor_open(
	    source, 0, sizeof(struct kv));
	struct kv kv;

	for (; n > 0; n--) {
		kv = next_kv();
		cr_assert_eq(
		    dfi_source_cursor_push(&cursor, &kv, sizeof(kv)), 0);
	}
	cr_assert_eq(dfi_source_cursor_close(cursor), 0);
}

static void consume_all(void)
{
	const struct kv *kv;
	const void *tuple;

	while (n_consumed < n_pushed) {
		cr_assert_eq(dfi_target_consume(target, &tuple), 1,
		    "after %lu tuples: %s", (unsigned long)n_consumed,
		    dfi_errmsg());
		kv = tuple;
		cr_assert_eq(kv->key, n_consumed);
		cr_assert_eq(kv->val, ~n_consumed);
		n_consumed++;
	}
}

static void close_both(void)
{
	const void *tuple;

	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	consume_all();
	cr_assert_eq(dfi_target_consume(target, &tuple), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

/* Rounds until memory was used again several times, and at any point of it. */
static void linger_by(void (*send)(uint32_t n))
{
	uint32_t round;

	for (round = 0; round < 5 * SEGMENT; round++) {
		send(1 + round * 7 % 5);
		consume_all();
	}
	send(SEGMENT - 1);
	consume_all();
}

Test(linger, sends_what_was_pushed)
{
	struct dfi_source_stats stats;

	open_both(4, LINGER_US);
	linger_by(push);
	dfi_source_query(source, &stats);
	cr_assert_eq(stats.tuples, n_pushed);
	cr_assert_gt(stats.partial_segments, 5 * SEGMENT);
	close_both();
}

Test(linger, sends_batches)
{
	open_both(4, LINGER_US);
	linger_by(push_batch);
	close_both();
}

Test(linger, sends_what_was_committed)
{
	open_both(3, LINGER_US);
	linger_by(claim);
	close_both();
}

Test(linger, sends_what_a_cursor_gave_back)
{
	open_both(4, LINGER_US);
	linger_by(push_by_cursor);
	close_both();
}

Test(linger, goes_on_behind_what_was_sent_when_flushed)
{
	uint32_t round;

	open_both(2, LINGER_US);
	for (round = 0; round < 2 * SEGMENT; round++) {
		push(1);
		consume_all();
		push(2);
		cr_assert_eq(dfi_source_flush(source), 0);
		consume_all();
	}
	close_both();
}

Test(linger, leaves_an_open_cursor_and_a_claimed_span_alone)
{
	struct dfi_source_cursor cursor;
	struct dfi_span span;
	struct kv kv;

	open_both(4, LINGER_US);
	push(3);
	cr_assert_eq(dfi_source_claim(source, 0, &span), 0);
	consume_all();
	((struct kv *)span.tuples)[0] = next_kv();
	cr_assert_eq(dfi_source_commit(source, &span, 1), 0);
	consume_all();
	cursor = dfi_source_cursor_open(source, 0, sizeof(kv));
	kv = next_kv();
	cr_assert_eq(dfi_source_cursor_push(&cursor, &kv, sizeof(kv)), 0);
	cr_assert_eq(dfi_source_cursor_close(cursor), 0);
	consume_all();
	/* One that had nothing. */
	cursor = dfi_source_cursor_open(source, 0, sizeof(kv));
	cr_assert_eq(dfi_source_cursor_close(cursor), 0);
	push(1);
	consume_all();
	close_both();
}

static void close_with_some_unread(uint32_t n)
{
	const void *tuple;

	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	for (; n > 0; n--)
		cr_assert_eq(consume_soon(target, &tuple), 1);
	cr_assert_eq(consume_soon(target, &tuple), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

/* Whether one more call finds a tuple after many times LINGER_US. */
static bool comes(struct dfi_target *from)
{
	int64_t until = now_ms() + 100;
	const void *tuple;
	int ret;

	do
		ret = dfi_target_consume(from, &tuple);
	while (ret == -EAGAIN && now_ms() < until);
	cr_assert(ret == 1 || ret == -EAGAIN, "%d: %s", ret, dfi_errmsg());
	return ret == 1;
}

Test(linger, is_off_by_default)
{
	create_kv_flow(rig.dfi, "f", 1, 1, SEGMENT, 4);
	target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	cr_assert_eq(open_lingering(rig.dfi, 0, 0), 0);
	push(1);
	cr_assert_not(comes(target));
	close_with_some_unread(1);
}

Test(linger, can_be_set_for_all_and_refused_for_one)
{
	struct dfi *dfi;

	setenv("DFI_LINGER_US", "2000", 1);
	dfi = rig_join(&rig);
	unsetenv("DFI_LINGER_US");
	create_kv_flow(rig.dfi, "f", 1, 1, SEGMENT, 4);
	target = open_target(rig.other, "f", 0, 0);
	cr_assert_eq(open_lingering(dfi, 0, 0), 0);
	push(1);
	consume_all();
	close_both();
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);

	create_kv_flow(rig.dfi, "f", 1, 1, SEGMENT, 4);
	target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	cr_assert_eq(open_lingering(dfi, DFI_NO_LINGER, 0), 0);
	push(1);
	cr_assert_not(comes(target));
	close_with_some_unread(1);
	cr_assert_eq(dfi_close(dfi), 0);
}

/* A full ring takes no partial segment; it is sent when there is room again. */
Test(linger, waits_for_room)
{
	struct kv kv;
	int ret;

	create_kv_flow(rig.dfi, "f", 1, 1, SEGMENT, 2);
	target = open_target(rig.other, "f", 0, 0);
	cr_assert_eq(open_lingering(rig.dfi, LINGER_US, DFI_NONBLOCK), 0, "%s",
	    dfi_errmsg());
	for (;;) {
		kv = (struct kv){ n_pushed, ~n_pushed };
		ret = dfi_source_push(source, &kv);
		if (ret < 0)
			break;
		n_pushed++;
	}
	cr_assert_eq(ret, -EAGAIN);
	consume_all();
	do {
		ret = dfi_source_push(source, &kv);
	} while (ret == -EAGAIN);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	n_pushed++;
	consume_all();
	close_both();
}

Test(linger, looks_after_all_targets_of_all_sources)
{
	enum {
		TARGETS = 4,
		SOURCES = 2
	};
	struct dfi_target *targets[TARGETS];
	struct dfi_source *sources[SOURCES];
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	const void *tuple;
	uint32_t s, t, round;
	struct kv kv;

	create_kv_flow(rig.dfi, "f", SOURCES, TARGETS, SEGMENT, 4);
	for (t = 0; t < TARGETS; t++)
		targets[t] = open_target(rig.other, "f", t, 0);
	for (s = 0; s < SOURCES; s++) {
		attr.linger_us = LINGER_US * (1 + 20 * s);
		cr_assert_eq(
		    dfi_source_open(rig.dfi, "f", s, &attr, &sources[s]), 0);
	}
	for (round = 0; round < 20; round++) {
		for (s = SOURCES; s-- > 0;)
			for (t = 0; t < TARGETS; t++) {
				kv = (struct kv){ s, round };
				cr_assert_eq(
				    dfi_source_push_to(sources[s], t, &kv), 0);
			}
		for (s = 0; s < SOURCES; s++)
			for (t = 0; t < TARGETS; t++) {
				cr_assert_eq(
				    dfi_target_consume(targets[t], &tuple), 1);
				memcpy(&kv, tuple, sizeof(kv));
				cr_assert_eq(kv.val, round);
			}
	}
	for (s = 0; s < SOURCES; s++)
		cr_assert_eq(dfi_source_close(sources[s]), 0);
	for (t = 0; t < TARGETS; t++) {
		cr_assert_eq(dfi_target_consume(targets[t], &tuple), 0);
		cr_assert_eq(dfi_target_close(targets[t]), 0);
	}
}

Test(linger, ends_with_an_abort)
{
	const void *tuple;

	open_both(4, LINGER_US);
	push(1);
	dfi_source_abort(source);
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
	while (dfi_target_consume(target, &tuple) == 1)
		;
	assert_error(dfi_target_consume(target, &tuple), -ECANCELED, "source");
	dfi_target_close(target);
}

Test(linger, needs_two_segments)
{
	create_kv_flow(rig.dfi, "f", 1, 1, SEGMENT, 1);
	target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
	assert_error(open_lingering(rig.dfi, LINGER_US, 0), -EINVAL,
	    "linger_us", "segment_count", "flow 'f'", "source 0");
	cr_assert_eq(open_lingering(rig.dfi, DFI_NO_LINGER, 0), 0);
	push(1);
	close_with_some_unread(1);
}

/* The source was absent all the time: even a moment would end the flow. */
Test(linger, without_a_descriptor_for_the_clock_leaves_the_flow_alone)
{
	struct rlimit old, low;

	create_kv_flow(rig.dfi, "f", 1, 1, SEGMENT, 4);
	target = open_target(rig.other, "f", 0, 0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)dup(STDIN_FILENO);
	close((int)low.rlim_cur);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	cr_assert_lt(open_lingering(rig.other, LINGER_US, 0), 0);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	cr_assert_eq(
	    open_lingering(rig.other, LINGER_US, 0), 0, "%s", dfi_errmsg());
	push(1);
	close_both();
}

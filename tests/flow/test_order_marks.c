/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks in ordered open flows: what raises the watermark has a place in the
 * order, which is the same at all targets (K6 in docs/open-flows.md).
 */
#include <dfi/mark.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "open_help.h"

#define SEATS 4
#define SEGMENT 4 /* tuples */
#define RING 8    /* segments */
#define IDLE_MS 50

TestSuite(order_marks, .init = setup, .fini = teardown, .timeout = 300);

static void create_with(uint32_t verify)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_REPLICATE,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.verify = verify,
		.replicate = { .ordered = 1 },
		.open = { .membership = DFI_MEMBERS_OPEN,
		    .on_loss = DFI_ON_LOSS_DROP },
	};

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

static struct dfi_target *open_with(
    uint32_t seat, uint32_t flags, uint32_t idle_ms)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.flags = DFI_EVENTS | flags;
	attr.idle_after_ms = idle_ms;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(rig.other, "f", seat, &attr, &target), 0,
	    "%s", dfi_errmsg());
	return target;
}

static struct dfi_source *ready_source(uint32_t seat, uint32_t n_targets)
{
	struct dfi_source *s = source_with_events(seat, 0);

	await_targets(s, n_targets);
	return s;
}

static void send_one(struct dfi_source *source, uint64_t of, uint64_t number)
{
	struct kv kv = { .key = of, .val = number };

	cr_assert_eq(dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
	flush(source);
}

static void mark(struct dfi_source *source, uint64_t value)
{
	cr_assert_eq(dfi_source_mark(source, value), 0, "%s", dfi_errmsg());
}

/* ---- What a target has delivered ----------------------------------------- */

#define RECORDS 4096

struct record {
	bool is_mark;
	uint64_t of, value, position;
};

struct records {
	uint32_t n;
	struct record of[RECORDS];
};

/* Take the next tuple or mark: 1; 0 at the end; -EAGAIN. */
static int take(struct dfi_target *target, struct record *record)
{
	struct dfi_event event;
	const void *tuple;
	int ret;

	*record = (struct record){ .is_mark = false };
	while ((ret = dfi_target_consume(target, &tuple)) == -ENOMSG) {
		cr_assert_eq(dfi_target_event(target, &event), 0);
		if (event.type != DFI_MARK)
			continue;
		record->is_mark = true;
		record->value = event.value;
		ret = 1;
		break;
	}
	if (ret <= 0)
		return ret;
	if (!record->is_mark) {
		record->of = ((const struct kv *)tuple)->key;
		record->value = ((const struct kv *)tuple)->val;
	}
	cr_assert_eq(dfi_target_position(target, &record->position), 0, "%s",
	    dfi_errmsg());
	return 1;
}

static void expect_mark(struct dfi_target *target, uint64_t value)
{
	struct record record;

	cr_assert_eq(take(target, &record), 1, "%s", dfi_errmsg());
	cr_assert(record.is_mark, "%lu", (unsigned long)record.value);
	cr_assert_eq(record.value, value, "%lu", (unsigned long)record.value);
}

static void expect_tuple(struct dfi_target *target, uint64_t of, uint64_t value)
{
	struct record record;

	cr_assert_eq(take(target, &record), 1, "%s", dfi_errmsg());
	cr_assert_not(record.is_mark, "%lu", (unsigned long)record.value);
	cr_assert_eq(record.of, of);
	cr_assert_eq(record.value, value, "%lu", (unsigned long)record.value);
}

/* The next event is that a source has joined; its value. */
static uint64_t next_joined(struct dfi_target *target)
{
	struct dfi_event event;
	const void *tuple;

	cr_assert_eq(dfi_target_consume(target, &tuple), -ENOMSG);
	cr_assert_eq(dfi_target_event(target, &event), 0);
	cr_assert_eq(event.type, DFI_JOINED);
	return event.value;
}

static void expect_end_of(struct dfi_target *target)
{
	struct record record;

	cr_assert_eq(take(target, &record), 0, "%s", dfi_errmsg());
	close_target(target);
}

/* Take what is there. */
static int drain(struct dfi_target *target, struct records *records)
{
	int ret;

	while ((ret = take(target, &records->of[records->n])) > 0)
		cr_assert_lt(++records->n, RECORDS);
	cr_assert(ret == 0 || ret == -EAGAIN, "%s", dfi_errmsg());
	return ret;
}

static void drain_to_end(struct dfi_target *target, struct records *records)
{
	int64_t until = now_ms() + LONG_MS;

	while (drain(target, records) < 0)
		cr_assert_lt(now_ms(), until);
	close_target(target);
}

/* What b has is what a has behind position from. */
static void expect_same(
    const struct records *a, const struct records *b, uint64_t from)
{
	uint32_t i, skip = 0;

	while (skip < a->n && a->of[skip].position <= from)
		skip++;
	cr_assert_eq(
	    b->n, a->n - skip, "%u, and %u of %u", b->n, a->n - skip, a->n);
	for (i = 0; i < b->n; i++) {
		cr_assert_eq(b->of[i].is_mark, a->of[skip + i].is_mark);
		cr_assert_eq(b->of[i].of, a->of[skip + i].of);
		cr_assert_eq(b->of[i].value, a->of[skip + i].value);
		cr_assert_eq(b->of[i].position, a->of[skip + i].position);
	}
}

/* ---- One case for each part of the rule ---------------------------------- */

Test(order_marks, k6_a_mark_has_one_place_at_all_targets)
{
	struct dfi_source *s[2];
	struct dfi_target *t[2];
	uint32_t i;

	create_with(DFI_VERIFY_CHECKSUM);
	t[0] = target(0);
	t[1] = target(1);
	s[0] = ready_source(0, 2);
	s[1] = ready_source(1, 2);
	send_one(s[0], 0, 1);
	send_one(s[1], 1, 2);
	mark(s[0], 10);
	send_one(s[0], 0, 3);
	mark(s[1], 7);
	send_one(s[1], 1, 4);
	mark(s[1], 20);
	for (i = 0; i < 2; i++) {
		expect_tuple(t[i], 0, 1);
		expect_tuple(t[i], 1, 2);
		expect_tuple(t[i], 0, 3);
		expect_mark(t[i], 7);
		expect_tuple(t[i], 1, 4);
		expect_mark(t[i], 10);
	}
	close_source(s[0]);
	close_source(s[1]);
	finish();
	for (i = 0; i < 2; i++) {
		expect_mark(t[i], 20);
		expect_end_of(t[i]);
	}
}

Test(order_marks, k6_a_source_counts_from_its_first_place_on)
{
	struct dfi_source *s[2];
	struct dfi_target *t;
	uint64_t value;

	create_with(0);
	t = target(0);
	s[0] = ready_source(0, 1);
	s[1] = ready_source(1, 1);
	next_joined(t);
	next_joined(t);
	mark(s[0], 5);
	expect_mark(t, 5);
	/* It has joined with 0, and counts from now on, with 5. */
	send_one(s[1], 1, 1);
	mark(s[0], 9);
	send_one(s[0], 0, 2);
	expect_tuple(t, 1, 1);
	expect_tuple(t, 0, 2);
	cr_assert_eq(dfi_target_watermark(t, &value), 0);
	cr_assert_eq(value, 5);
	mark(s[1], 6);
	expect_mark(t, 6);
	close_source(s[0]);
	close_source(s[1]);
	close_target(t);
}

Test(order_marks, k6_a_source_that_closes_counts_up_to_its_last_place)
{
	struct dfi_source *s[2];
	struct dfi_target *t[2];
	uint32_t i;

	create_with(0);
	t[0] = target(0);
	t[1] = target(1);
	s[0] = ready_source(0, 2);
	s[1] = ready_source(1, 2);
	mark(s[0], 3);
	mark(s[1], 8);
	send_one(s[1], 1, 1);
	close_source(s[0]);
	send_one(s[1], 1, 2);
	for (i = 0; i < 2; i++) {
		expect_mark(t[i], 3);
		expect_tuple(t[i], 1, 1);
		expect_mark(t[i], 8);
		expect_tuple(t[i], 1, 2);
	}
	close_source(s[1]);
	finish();
	expect_end_of(t[0]);
	expect_end_of(t[1]);
}

Test(order_marks, k6_a_lost_source_counts_up_to_the_next_view)
{
	struct dfi_source *s[2];
	struct dfi_target *t[2];
	uint32_t i;

	create_with(0);
	t[0] = target(0);
	t[1] = target(1);
	s[0] = ready_source(0, 2);
	s[1] = ready_source(1, 2);
	mark(s[0], 3);
	mark(s[1], 8);
	send_one(s[1], 1, 1);
	dfi_source_abort(s[0]);
	cr_assert_eq(dfi_source_close(s[0]), -ECANCELED);
	for (i = 0; i < 2; i++) {
		expect_mark(t[i], 3);
		expect_tuple(t[i], 1, 1);
		/* All of the last view was delivered. */
		expect_mark(t[i], 8);
	}
	send_one(s[1], 1, 2);
	close_source(s[1]);
	finish();
	for (i = 0; i < 2; i++) {
		expect_tuple(t[i], 1, 2);
		expect_end_of(t[i]);
	}
}

Test(order_marks, k6_a_target_that_joins_begins_with_the_watermark)
{
	struct dfi_source *s[3];
	struct dfi_target *t[2];
	uint64_t begin;
	uint32_t i;

	create_with(DFI_VERIFY_CHECKSUM);
	t[0] = target(0);
	for (i = 0; i < 3; i++)
		s[i] = ready_source(i, 1);
	send_one(s[1], 1, 1);
	mark(s[0], 30);
	mark(s[1], 20);
	expect_tuple(t[0], 1, 1);
	expect_mark(t[0], 20);
	t[1] = target(1);
	for (i = 0; i < 3; i++)
		await_targets(s[i], 1);
	begin = next_joined(t[1]);
	cr_assert_eq(next_joined(t[1]), begin);
	cr_assert_eq(next_joined(t[1]), begin);
	expect_mark(t[1], 20);
	mark(s[1], 40);
	expect_mark(t[0], 30);
	expect_mark(t[1], 30);
	/* This one counts for both from here on, with 30. */
	send_one(s[2], 2, 1);
	mark(s[0], 50);
	mark(s[2], 35);
	for (i = 0; i < 2; i++) {
		expect_tuple(t[i], 2, 1);
		expect_mark(t[i], 35);
	}
	for (i = 0; i < 3; i++)
		close_source(s[i]);
	close_target(t[0]);
	close_target(t[1]);
}

static void mark_soon(struct dfi_source *source, uint64_t value)
{
	int64_t until = now_ms() + LONG_MS;
	int ret;

	while ((ret = dfi_source_mark(source, value)) == -EAGAIN)
		cr_assert_lt(now_ms(), until);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
}

Test(order_marks, k6_a_mark_waits_for_a_target)
{
	struct dfi_source *s;
	struct dfi_target *t;

	create_with(0);
	t = target(0);
	s = source_with_events(0, DFI_NONBLOCK);
	await_targets(s, 1);
	mark_soon(s, 1);
	expect_mark(t, 1);
	close_target(t);
	await_events(s, DFI_ENDED, 1);
	assert_error(dfi_source_mark(s, 2), -EAGAIN, "");
	/* What it was told before is known to the next one. */
	t = target(0);
	expect_mark(t, 1);
	mark_soon(s, 2);
	expect_mark(t, 2);
	close_source(s);
	close_target(t);
}

/* A ring is full: nobody has the mark, until it is repeated. */
Test(order_marks, k6_a_mark_without_room_has_no_place)
{
	struct dfi_source *s;
	struct dfi_target *t[2];
	uint32_t i;
	int ret;

	create_with(0);
	t[0] = target(0);
	t[1] = target(1);
	s = source_with_events(0, DFI_NONBLOCK);
	await_targets(s, 2);
	for (i = 0; (ret = dfi_source_mark(s, i + 1)) == 0; i++) {
		cr_assert_lt(i, 4 * RING);
		expect_mark(t[0], i + 1);
	}
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
	expect_mark(t[1], 1);
	for (ret = 2; ret <= (int)i; ret++)
		expect_mark(t[1], (uint64_t)ret);
	mark_soon(s, i + 1);
	expect_mark(t[0], i + 1);
	expect_mark(t[1], i + 1);
	close_source(s);
	close_target(t[0]);
	close_target(t[1]);
}

/* Nobody consumes meanwhile: no slot is left for a last place. */
Test(order_marks, k6_a_close_does_not_wait_for_room)
{
	struct dfi_source *s;
	struct dfi_target *t;
	uint64_t i;

	create_with(0);
	t = target(0);
	s = ready_source(0, 1);
	for (i = 0; i < RING - 1; i++)
		send_one(s, 0, i);
	close_source(s);
	finish();
	for (i = 0; i < RING - 1; i++)
		expect_tuple(t, 0, i);
	expect_end_of(t);
}

Test(order_marks, k3_an_idle_source_does_not_count)
{
	struct dfi_source *s[2];
	struct dfi_target *t;

	create_with(0);
	t = open_with(0, 0, IDLE_MS);
	s[0] = ready_source(0, 1);
	s[1] = ready_source(1, 1);
	mark(s[0], 3);
	mark(s[1], 3);
	expect_mark(t, 3);
	mark(s[1], 8);
	/* The target looks at its sources when it consumes. */
	expect_mark(t, 8);
	send_one(s[0], 0, 5);
	expect_tuple(t, 0, 5);
	cr_assert_eq(dfi_target_late(t), 1);
	mark(s[0], 9);
	mark(s[1], 10);
	expect_mark(t, 9);
	close_source(s[0]);
	close_source(s[1]);
	close_target(t);
}

Test(order_marks, k4_there_is_no_alignment)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *t;

	create_with(0);
	attr.flags = DFI_EVENTS | DFI_ALIGN;
	assert_error(dfi_target_open(rig.other, "f", 0, &attr, &t), -EINVAL,
	    "DFI_ALIGN", "ordered");
}

/* ---- Random flows -------------------------------------------------------- */

struct life {
	struct dfi_source *source;
	uint64_t of, marked;
};

static struct records records[3];

/* One thread has all: while a source waits, its targets take what is there. */
static bool refused(int ret, struct dfi_target *t[2])
{
	cr_assert(ret == 0 || ret == -EAGAIN, "%s", dfi_errmsg());
	drain(t[0], &records[0]);
	if (ret)
		drain(t[1], &records[1]);
	return ret;
}

static void try_mark(struct life *life, struct dfi_target *t[2])
{
	life->marked++;
	while (refused(dfi_source_mark(life->source, life->marked), t))
		yield_times(10);
}

static void try_send(struct life *life, uint64_t n, struct dfi_target *t[2])
{
	struct kv kv = { .key = life->of, .val = n };

	while (refused(dfi_source_push(life->source, &kv), t))
		yield_times(10);
	while (refused(dfi_source_flush(life->source), t))
		yield_times(10);
}

static _Atomic bool closing;

static void *close_it(void *source)
{
	intptr_t ret = dfi_source_close(source);

	atomic_store(&closing, false);
	return (void *)ret;
}

/* It may wait for a view, for which its targets must take what is there. */
static void close_life(struct life *life, struct dfi_target *t[2])
{
	pthread_t thread;
	void *ret;

	atomic_store(&closing, true);
	cr_assert_eq(pthread_create(&thread, NULL, close_it, life->source), 0);
	while (atomic_load(&closing)) {
		(void)refused(-EAGAIN, t);
		yield_times(10);
	}
	pthread_join(thread, &ret);
	cr_assert_eq(ret, NULL, "%ld", (long)(intptr_t)ret);
	life->source = NULL;
}

static void step(struct life *life, uint32_t seat, unsigned *seed, uint64_t *n,
    struct dfi_target *t[2])
{
	unsigned what = (unsigned)rand_r(seed) % 16;

	if (!life->source) {
		*life = (struct life){
			.source = open_source(rig.dfi, "f", seat, DFI_NONBLOCK),
			.of = ++*n,
			.marked = life->marked,
		};
	} else if (what == 0) {
		close_life(life, t);
	} else if (what == 1) {
		dfi_source_abort(life->source);
		cr_assert_eq(dfi_source_close(life->source), -ECANCELED);
		life->source = NULL;
	} else if (what < 8) {
		life->marked += (unsigned)rand_r(seed) % 4;
		try_mark(life, t);
	} else {
		try_send(life, ++*n, t);
	}
}

static void run_random(unsigned seed)
{
	struct life lives[SEATS] = { { .source = NULL } };
	struct dfi_target *t[3];
	uint64_t n = 0;
	uint32_t i, seat;

	create_with(seed % 2 ? DFI_VERIFY_CHECKSUM : 0);
	t[0] = open_with(0, DFI_NONBLOCK, 0);
	t[1] = open_with(1, DFI_NONBLOCK, 0);
	records[0].n = records[1].n = records[2].n = 0;
	for (i = 0; i < 120; i++) {
		seat = (unsigned)rand_r(&seed) % SEATS;
		step(&lives[seat], seat, &seed, &n, t);
		drain(t[0], &records[0]);
		/* This one is behind. */
		if (i % 4 == 3 || !lives[seat].source)
			drain(t[1], &records[1]);
	}
	for (seat = 0; seat < SEATS; seat++)
		if (lives[seat].source)
			close_life(&lives[seat], t);
	finish();
	drain_to_end(t[0], &records[0]);
	drain_to_end(t[1], &records[1]);
	expect_same(&records[0], &records[1], 0);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0, "%s", dfi_errmsg());
}

Test(order_marks, k6_all_targets_have_the_same_watermarks)
{
	unsigned seed;

	for (seed = 1; seed <= 8; seed++)
		run_random(seed);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordered open flows: all targets that are attached deliver the same, whoever
 * comes, goes or is lost. One case for each rule.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "open_help.h"

#define SEATS 4
#define SEGMENT 4 /* tuples */
#define RING 8    /* segments */

TestSuite(open_order, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_attr flow_attr(void)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_REPLICATE,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.replicate = { .ordered = 1 },
		.open = { .membership = DFI_MEMBERS_OPEN,
		    .on_loss = DFI_ON_LOSS_DROP },
	};
}

static void create_with(const struct dfi_flow_attr *attr)
{
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

static void create(uint32_t evict_after_ms)
{
	struct dfi_flow_attr attr = flow_attr();

	attr.open.evict_after_ms = evict_after_ms;
	create_with(&attr);
}

/* A tuple says whose it is. */
static void push_own(struct dfi_source *source, uint64_t of, uint64_t number)
{
	struct kv kv = { .key = of, .val = number };

	cr_assert_eq(dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
}

static void send_own(struct dfi_source *source, uint64_t of, uint64_t number)
{
	push_own(source, of, number);
	flush(source);
}

/* The sources that were lost for each target, a bit each. */
static uint32_t heard_lost[SEATS];

/* What a target has delivered. */
struct delivery {
	uint64_t position, key, val;
	uint32_t stay;
};

/* Take the next tuple, past all events; false: the flow has ended. */
static bool next_of(struct dfi_target *target, struct delivery *delivery)
{
	struct dfi_event event;
	const void *tuple;
	int ret;

	while ((ret = dfi_target_consume(target, &tuple)) == -ENOMSG) {
		cr_assert_eq(dfi_target_event(target, &event), 0);
		if (event.type == DFI_LOST)
			heard_lost[dfi_target_seat(target)] |= 1u << event.seat;
	}
	cr_assert_geq(ret, 0, "%s", dfi_errmsg());
	if (!ret)
		return false;
	delivery->key = ((const struct kv *)tuple)->key;
	delivery->val = ((const struct kv *)tuple)->val;
	cr_assert_eq(dfi_target_position(target, &delivery->position), 0, "%s",
	    dfi_errmsg());
	return true;
}

static void expect_own(struct dfi_target *target, uint64_t of, uint64_t number)
{
	struct delivery delivery;

	cr_assert(next_of(target, &delivery));
	cr_assert_eq(delivery.key, of, "of %lu", (unsigned long)delivery.key);
	cr_assert_eq(delivery.val, number, "%lu", (unsigned long)delivery.val);
}

static void expect_end_of(struct dfi_target *target)
{
	struct delivery delivery;

	cr_assert(!next_of(target, &delivery));
	close_target(target);
}

/* Both deliver the same, so many tuples. */
static void expect_same(struct dfi_target *a, struct dfi_target *b, uint32_t n)
{
	struct delivery of_a, of_b;

	while (n--) {
		cr_assert(next_of(a, &of_a));
		cr_assert(next_of(b, &of_b));
		cr_assert_eq(of_a.key, of_b.key);
		cr_assert_eq(of_a.val, of_b.val);
		cr_assert_eq(of_a.position, of_b.position);
	}
}

static struct dfi_source *ready_source(uint32_t seat, uint32_t n_targets)
{
	struct dfi_source *s = source_with_events(seat, 0);

	await_targets(s, n_targets);
	return s;
}

Test(open_order, all_targets_deliver_one_order)
{
	struct dfi_source *s[2];
	struct dfi_target *t[2];
	uint64_t i;

	create(0);
	t[0] = target(0);
	t[1] = target(3);
	s[0] = ready_source(0, 2);
	s[1] = ready_source(1, 2);
	for (i = 0; i < 20; i++) {
		send_own(s[i % 2], i % 2, i);
		expect_own(t[0], i % 2, i);
		expect_own(t[1], i % 2, i);
	}
	close_source(s[0]);
	send_own(s[1], 1, i);
	close_source(s[1]);
	finish();
	expect_own(t[0], 1, i);
	expect_own(t[1], 1, i);
	expect_end_of(t[0]);
	expect_end_of(t[1]);
}

Test(open_order, it_takes_latency_flows)
{
	struct dfi_flow_attr attr = flow_attr();
	struct dfi_source *s;
	struct dfi_target *t;
	uint64_t i;

	attr.goal = DFI_LATENCY;
	attr.segment_size = 0;
	attr.verify = DFI_VERIFY_CHECKSUM;
	create_with(&attr);
	t = target(0);
	s = ready_source(0, 1);
	for (i = 0; i < 3 * RING; i++) {
		push_own(s, 7, i);
		expect_own(t, 7, i);
	}
	close_source(s);
	finish();
	expect_end_of(t);
}

/* J1: all positions from the event's value on come, whoever sends them. */
Test(open_order, a_target_that_joins_knows_its_position)
{
	struct dfi_source *s[2];
	struct dfi_target *first, *late;
	struct delivery of_first, of_late;
	uint64_t i, begin;

	create(0);
	first = target(0);
	s[0] = ready_source(0, 1);
	s[1] = ready_source(1, 1);
	for (i = 0; i < 6; i++) {
		send_own(s[i % 2], i % 2, i);
		expect_own(first, i % 2, i);
	}
	late = target(1);
	await_targets(s[0], 1);
	begin = expect_event(late, DFI_JOINED, 0);
	/* The second source is idle, and has said it as well. */
	cr_assert_eq(expect_event(late, DFI_JOINED, 1), begin);
	for (; i < 12; i++)
		send_own(s[i % 2], i % 2, i);
	for (i = 6; i < 12; i++) {
		cr_assert(next_of(first, &of_first));
		cr_assert_eq(of_first.val, i);
		if (of_first.position < begin)
			continue;
		cr_assert(next_of(late, &of_late));
		cr_assert_eq(of_late.position, of_first.position);
		cr_assert_eq(of_late.val, i);
	}
	cr_assert_leq(begin, of_first.position);
	close_source(s[0]);
	close_source(s[1]);
	finish();
	expect_end_of(first);
	expect_end_of(late);
}

Test(open_order, a_position_is_known_before_the_first_tuple)
{
	struct dfi_target *t[2];
	struct dfi_source *s;
	uint64_t before, after, other;
	const void *tuple;

	create(0);
	t[0] = target(0);
	s = ready_source(0, 1);
	other = expect_event(t[0], DFI_JOINED, 0);
	cr_assert_eq(dfi_target_position(t[0], &before), 0);
	cr_assert_eq(before, other);
	/* A segment of two tuples has one position until both are consumed. */
	push_own(s, 0, 0);
	send_own(s, 0, 1);
	cr_assert_eq(dfi_target_consume(t[0], &tuple), 1);
	cr_assert_eq(dfi_target_position(t[0], &after), 0);
	cr_assert_eq(after, before);
	cr_assert_eq(dfi_target_consume(t[0], &tuple), 1);
	cr_assert_eq(dfi_target_position(t[0], &after), 0);
	cr_assert_eq(after, before + 1);
	t[1] = target(1);
	await_targets(s, 1);
	cr_assert_eq(expect_event(t[1], DFI_JOINED, 0), after);
	cr_assert_eq(dfi_target_position(t[1], &other), 0);
	cr_assert_eq(other, after);
	close_source(s);
	finish();
	expect_end_of(t[0]);
	expect_end_of(t[1]);
}

Test(open_order, only_ordered_flows_have_positions)
{
	struct dfi_flow_attr attr = flow_attr();
	struct dfi_target *t;
	uint64_t position;

	attr.replicate.ordered = 0;
	create_with(&attr);
	t = target(0);
	assert_error(dfi_target_position(t, &position), -EPROTOTYPE, "target 0",
	    "replicate.ordered");
	assert_error(dfi_target_position(t, NULL), -EINVAL, "position is NULL");
	close_target(t);
}

/* O1 to O4: the view ends, also with a source that is idle. */
Test(open_order, a_lost_source_ends_the_view_and_the_others_go_on)
{
	struct dfi_source *s[3];
	struct dfi_target *t[2];
	uint64_t before, after;
	uint32_t i;

	create(0);
	t[0] = target(0);
	t[1] = target(1);
	for (i = 0; i < 3; i++)
		s[i] = ready_source(i, 2);
	for (i = 0; i < 3; i++)
		send_own(s[i], i, i);
	expect_same(t[0], t[1], 3);
	cr_assert_eq(dfi_target_position(t[0], &before), 0);
	send_own(s[1], 1, 3);
	dfi_source_abort(s[1]);
	cr_assert_eq(dfi_source_close(s[1]), -ECANCELED);
	/*
	 * The targets see it when they consume: behind all of that source, and
	 * before or behind what comes later from others.
	 */
	send_own(s[0], 0, 4);
	expect_same(t[0], t[1], 2);
	for (i = 0; i < 2; i++)
		if (!(heard_lost[i] & 1u << 1))
			expect_event(t[i], DFI_LOST, 1);
	send_own(s[0], 0, 5);
	expect_same(t[0], t[1], 1);
	cr_assert_eq(dfi_target_position(t[0], &after), 0);
	cr_assert_gt(after, before);
	close_source(s[0]);
	close_source(s[2]);
	finish();
	expect_end_of(t[0]);
	expect_end_of(t[1]);
}

/* With DFI_ON_LOSS_FAIL, whoever had to do with it fails as well. */
Test(open_order, a_lost_source_fails_its_targets_if_the_flow_says_so)
{
	struct dfi_flow_attr attr = flow_attr();
	struct dfi_source *s, *lost;
	struct dfi_target *t;
	struct dfi_event event;
	const void *tuple;
	int ret;

	attr.open.on_loss = DFI_ON_LOSS_FAIL;
	create_with(&attr);
	t = target(0);
	s = ready_source(0, 1);
	lost = ready_source(1, 1);
	send_own(s, 0, 1);
	send_own(lost, 1, 2);
	dfi_source_abort(lost);
	cr_assert_eq(dfi_source_close(lost), -ECANCELED);
	expect_own(t, 0, 1);
	expect_own(t, 1, 2);
	while ((ret = dfi_target_consume(t, &tuple)) == -ENOMSG)
		cr_assert_eq(dfi_target_event(t, &event), 0);
	cr_assert(ret == -ECANCELED || ret == -ECONNRESET, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(t), ret);
	close_source(s);
}

Test(open_order, a_lost_target_fails_its_sources_if_the_flow_says_so)
{
	struct dfi_flow_attr attr = flow_attr();
	struct dfi_target *t, *leaves;
	struct dfi_source *s;
	int ret;

	attr.open.on_loss = DFI_ON_LOSS_FAIL;
	create_with(&attr);
	leaves = target(0);
	t = target(1);
	s = ready_source(0, 2);
	send_own(s, 0, 1);
	expect_own(leaves, 0, 1);
	expect_own(t, 0, 1);
	/* One that has all may go, also with the counter. */
	close_target(leaves);
	send_own(s, 0, 2);
	expect_own(t, 0, 2);
	send_own(s, 0, 3);
	close_target(t);
	do
		ret = dfi_source_flush(s);
	while (!ret);
	cr_assert_eq(ret, -ECONNRESET, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(s), -ECONNRESET);
}

/* O1: over a network its second mark does not wait for its position. */
Test(open_order, a_source_that_leaves_a_number_unused_holds_up_nobody)
{
	struct dfi_source *idle, *s;
	struct dfi_target *t;
	int ret;

	create(0);
	t = target(0);
	idle = source_with_events(0, DFI_NONBLOCK);
	await_targets(idle, 1);
	s = ready_source(1, 1);
	while ((ret = dfi_source_mark(idle, 1)) == -EAGAIN)
		usleep(100);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	ret = dfi_source_mark(idle, 2);
	cr_assert(ret == 0 || ret == -EAGAIN, "%s", dfi_errmsg());
	send_own(s, 1, 7);
	expect_own(t, 1, 7);
	while (ret == -EAGAIN) {
		usleep(100);
		ret = dfi_source_mark(idle, 2);
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	close_source(idle);
	close_source(s);
	finish();
	expect_end_of(t);
}

/* The helper of an idle target has its part in the change of view. */
Test(open_order, a_source_joins_before_its_tuples_come)
{
	struct dfi_source *s, *lost;
	struct dfi_target *t[2];
	struct dfi_event event;
	const void *tuple;
	bool joined = false;
	int ret;

	create(0);
	t[0] = target(0);
	t[1] = target(1);
	s = ready_source(0, 2);
	lost = ready_source(1, 2);
	dfi_source_abort(lost);
	cr_assert_eq(dfi_source_close(lost), -ECANCELED);
	expect_event(t[0], DFI_JOINED, 0);
	send_own(s, 0, 1);
	while ((ret = dfi_target_consume(t[1], &tuple)) == -ENOMSG) {
		cr_assert_eq(dfi_target_event(t[1], &event), 0);
		joined |= event.type == DFI_JOINED && event.seat == 0;
	}
	cr_assert_eq(ret, 1, "%s", dfi_errmsg());
	cr_assert(joined);
	close_source(s);
	close_target(t[0]);
	close_target(t[1]);
}

/* O1: the counter's holder leaves, which needs a new view as well. */
Test(open_order, targets_leave_and_take_the_counter_with_them)
{
	struct dfi_source *s;
	struct dfi_target *stays, *leaves;
	struct delivery last = { 0 }, now;
	uint64_t i;

	create(0);
	leaves = target(0);
	s = ready_source(0, 1);
	for (i = 0; i < 5; i++) {
		/* The one that stays has the next view, or a part in it. */
		stays = target((uint32_t)(i + 1) % SEATS);
		await_targets(s, 1);
		send_own(s, 0, 2 * i);
		expect_own(leaves, 0, 2 * i);
		cr_assert(next_of(stays, &now));
		cr_assert_eq(now.val, 2 * i);
		close_target(leaves);
		send_own(s, 0, 2 * i + 1);
		cr_assert(next_of(stays, &now));
		cr_assert_eq(now.val, 2 * i + 1);
		cr_assert_gt(now.position, last.position);
		last = now;
		leaves = stays;
	}
	close_source(s);
	finish();
	expect_end_of(stays);
}

/*
 * One that cancels leaves its view at once, also with the counter and with
 * tuples that it has not consumed. The others have all, and no source fails.
 */
static void cancel_one(uint32_t on_loss)
{
	struct dfi_flow_attr attr = flow_attr();
	struct dfi_target *leaves, *stays, *gone = NULL;
	struct delivery last = { 0 }, now;
	const void *tuple;
	struct dfi_source *s;
	uint64_t i, first, n = 0;

	attr.open.on_loss = on_loss;
	create_with(&attr);
	leaves = target(0);
	s = ready_source(0, 1);
	for (i = 0; i < 4; i++) {
		/* From the second on, in the seat of one that has cancelled. */
		stays = target((uint32_t)(i + 1) % 2);
		await_targets(s, 1);
		close_target(gone);
		first = n;
		send_own(s, 0, n++);
		expect_own(leaves, 0, first);
		/* It has begun in this view. */
		expect_own(stays, 0, first++);
		/* What the other one does not consume. */
		send_own(s, 0, n++);
		push_own(s, 0, n++);
		cr_assert_eq(dfi_target_cancel(leaves), 0, "%s", dfi_errmsg());
		assert_error(dfi_target_consume(leaves, &tuple), -ECANCELED,
		    "was cancelled here");
		await_events(s, DFI_ENDED, 1);
		send_own(s, 0, n++);
		for (; first < n; first++, last = now) {
			cr_assert(next_of(stays, &now));
			cr_assert_eq(now.val, first, "%lu, not %lu",
			    (unsigned long)now.val, (unsigned long)first);
			/* Those of a segment have one. */
			cr_assert_geq(now.position, last.position);
		}
		gone = leaves;
		leaves = stays;
	}
	close_source(s);
	close_target(gone);
	finish();
	expect_end_of(stays);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0, "%s", dfi_errmsg());
}

Test(open_order, a_target_that_cancels_leaves_the_view_and_harms_nobody)
{
	cancel_one(DFI_ON_LOSS_DROP);
	cancel_one(DFI_ON_LOSS_FAIL);
}

/* All leave; who comes then begins behind all numbers that were given. */
Test(open_order, a_flow_without_targets_goes_on_with_the_next)
{
	struct dfi_source *s;
	struct dfi_target *t;
	struct delivery before, after;

	create(0);
	t = target(0);
	s = ready_source(0, 1);
	send_own(s, 0, 0);
	cr_assert(next_of(t, &before));
	close_target(t);
	await_events(s, DFI_ENDED, 1);
	push_own(s, 0, 1);
	t = target(1);
	await_targets(s, 1);
	flush(s);
	cr_assert(next_of(t, &after));
	cr_assert_eq(after.val, 1);
	cr_assert_gt(after.position, before.position);
	close_source(s);
	finish();
	expect_end_of(t);
}

#define EVICT_MS 50

Test(open_order, a_target_that_takes_nothing_is_evicted)
{
	struct dfi_target *takes, *idle;
	struct dfi_source *s;
	struct delivery delivery;
	struct dfi_event event;
	const void *tuple;
	uint64_t i;
	int ret;

	create(EVICT_MS);
	takes = target(0);
	idle = target(1);
	s = ready_source(2, 2);
	for (i = 0; i < 2 * RING; i++) {
		send_own(s, 2, i);
		expect_own(takes, 2, i);
	}
	await_events(s, DFI_EVICTED, 1);
	do {
		ret = dfi_target_consume(idle, &tuple);
		if (ret == -ENOMSG)
			cr_assert_eq(dfi_target_event(idle, &event), 0);
	} while (ret == 1 || ret == -ENOMSG);
	assert_error(ret, -ESTALE, "target 1", "evicted", "open it again");
	cr_assert_eq(dfi_target_close(idle), -ESTALE);
	idle = target(1);
	await_targets(s, 1);
	send_own(s, 2, i);
	expect_own(takes, 2, i);
	cr_assert(next_of(idle, &delivery));
	cr_assert_eq(delivery.val, i);
	close_source(s);
	finish();
	expect_end_of(takes);
	expect_end_of(idle);
}

/* ---- All at once ----------------------------------------------------------
 */

enum {
	STAYS = 24,  /* of each source thread */
	TUPLES = 40, /* of each stay of a source, at most */
	RECORDS = 2 * STAYS * TUPLES,
};

/* What a follower has delivered in one stay, of one thread. */
struct log {
	struct delivery of[RECORDS];
	uint32_t n;
};

static void fail_thread(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, dfi_errmsg());
	abort();
}

struct follower {
	pthread_t thread;
	struct log all;           /* of the stay that lasts, or of all stays */
	struct dfi_target *first; /* of the first stay, or NULL */
	uint32_t most;            /* tuples of a stay; 0: all */
	uint32_t stay;
	_Atomic uint64_t begin; /* of the last stay, by its events; or 0 */
};

/* One stay: true at the end of the flow. */
static bool follow(struct follower *follower)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_event event;
	struct dfi_target *t = follower->first;
	struct delivery *next;
	const struct kv *kv;
	const void *tuple;
	uint32_t n = 0;
	int ret = 1;

	attr.flags = DFI_EVENTS;
	if (!t && dfi_target_open(rig.other, "f", DFI_ANY_SEAT, &attr, &t))
		fail_thread("open");
	while (ret && (!follower->most || n < follower->most)) {
		ret = dfi_target_consume(t, &tuple);
		if (ret == -ENOMSG && !dfi_target_event(t, &event)) {
			if (event.type == DFI_JOINED)
				atomic_store(&follower->begin, event.value);
			continue;
		}
		if (ret < 0)
			fail_thread("consume");
		if (!ret)
			break;
		kv = tuple;
		next = &follower->all.of[follower->all.n++ % RECORDS];
		next->key = kv->key;
		next->val = kv->val;
		next->stay = follower->stay;
		if (dfi_target_position(t, &next->position))
			fail_thread("position");
		n++;
	}
	if (dfi_target_close(t) < 0)
		fail_thread("close");
	return !ret;
}

static void *follow_often(void *arg)
{
	struct follower *follower = arg;

	while (!follow(follower))
		follower->stay++;
	return NULL;
}

static void follow_in_thread(struct follower *follower)
{
	cr_assert_eq(
	    pthread_create(&follower->thread, NULL, follow_often, follower), 0);
}

struct pusher {
	pthread_t thread;
	uint64_t key; /* of the first stay */
	uint32_t pushed[STAYS];
	bool aborted[STAYS];
};

static void *push_often(void *arg)
{
	struct pusher *pusher = arg;
	struct rng rng = { pusher->key };
	struct dfi_source *s;
	struct kv kv;
	uint32_t i, n, n_stays = over_verbs() ? fewer(STAYS) : STAYS;

	for (i = 0; i < n_stays; i++) {
		if (dfi_source_open(rig.dfi, "f", DFI_ANY_SEAT, NULL, &s))
			fail_thread("open");
		n = rng_below(&rng, TUPLES);
		for (kv = (struct kv){ pusher->key + i, 0 }; kv.val < n;
		     kv.val++) {
			if (dfi_source_push(s, &kv) ||
			    (!rng_below(&rng, 3) && dfi_source_flush(s)))
				fail_thread("push");
		}
		pusher->pushed[i] = n;
		pusher->aborted[i] = !rng_below(&rng, 4);
		if (pusher->aborted[i])
			dfi_source_abort(s);
		if (dfi_source_close(s) !=
		    (pusher->aborted[i] ? -ECANCELED : 0))
			fail_thread("close");
	}
	return NULL;
}

/* The tuples of each stay of a source came in order, and all unless aborted. */
static void check_pusher(const struct pusher *pusher, const struct log *log)
{
	uint32_t i, j, n;

	for (i = 0; i < STAYS; i++) {
		for (j = n = 0; j < log->n; j++)
			if (log->of[j].key == pusher->key + i)
				cr_assert_eq(log->of[j].val, n++);
		cr_assert_leq(n, pusher->pushed[i]);
		cr_assert(pusher->aborted[i] || n == pusher->pushed[i],
		    "%u of %u", n, pusher->pushed[i]);
	}
}

static bool is_same(const struct delivery *a, const struct delivery *b)
{
	return a->key == b->key && a->val == b->val;
}

static bool was_aborted(const struct pusher *pusher, uint64_t key)
{
	return key >= pusher->key && key < pusher->key + STAYS &&
	    pusher->aborted[key - pusher->key];
}

static bool has(const struct log *log, const struct delivery *delivery)
{
	uint32_t i;

	for (i = 0; i < log->n; i++)
		if (is_same(&log->of[i], delivery))
			return true;
	return false;
}

/*
 * What a stay has delivered is a section of what the one that lasts has. Over a
 * network it may have got something that an aborted source has sent to both,
 * and have left before the view was changed: that is a gap for the other.
 */
static void check_follower(const struct log *lasts, const struct log *log,
    const struct pusher pushers[2])
{
	uint32_t i, j = 0, stay = UINT32_MAX;

	for (i = 0; i < log->n; i++) {
		if (over_network() &&
		    (was_aborted(&pushers[0], log->of[i].key) ||
			was_aborted(&pushers[1], log->of[i].key)) &&
		    !has(lasts, &log->of[i]))
			continue;
		if (log->of[i].stay != stay)
			for (j = 0; j < lasts->n &&
			     !is_same(&lasts->of[j], &log->of[i]);)
				j++;
		cr_assert_lt(j, lasts->n);
		cr_assert(is_same(&lasts->of[j], &log->of[i]), "%u", i);
		cr_assert_eq(lasts->of[j++].position, log->of[i].position);
		stay = log->of[i].stay;
	}
}

Test(open_order, all_agree_whoever_comes_goes_and_aborts)
{
	static struct follower followers[3];
	static struct pusher pushers[2];
	uint32_t i;

	create(0);
	followers[0].first = target(0);
	for (i = 0; i < 3; i++) {
		followers[i].most = i ? 30 * i : 0;
		follow_in_thread(&followers[i]);
	}
	for (i = 0; i < 2; i++) {
		pushers[i].key = 1000 * (i + 1);
		cr_assert_eq(pthread_create(&pushers[i].thread, NULL,
				 push_often, &pushers[i]),
		    0);
	}
	for (i = 0; i < 2; i++)
		pthread_join(pushers[i].thread, NULL);
	finish();
	for (i = 0; i < 3; i++)
		pthread_join(followers[i].thread, NULL);
	for (i = 1; i < 3; i++)
		check_follower(&followers[0].all, &followers[i].all, pushers);
	for (i = 0; i < 2; i++)
		check_pusher(&pushers[i], &followers[0].all);
}

/* ---- A snapshot and what comes behind it ----------------------------------
 */

static struct follower old, late;

enum {
	BEHIND = 50
}; /* tuples of each, from the late one's on */

static void push_one(struct dfi_source *s, uint64_t key, uint64_t val)
{
	struct kv kv = { key, val };

	if (dfi_source_push(s, &kv) || dfi_source_flush(s))
		fail_thread("push");
}

/* Push, each tuple in a segment, until the late follower is there, and on. */
static void *push_meanwhile(void *arg)
{
	uint64_t key = *(const uint64_t *)arg, n = 0, more = 0;
	struct dfi_source *s;

	if (dfi_source_open(rig.dfi, "f", DFI_ANY_SEAT, NULL, &s))
		fail_thread("open");
	for (; more < BEHIND; n++) {
		/* There is no room for the log of more. */
		while (n > RECORDS / 4 && !atomic_load(&late.begin))
			usleep(1000);
		push_one(s, key, n);
		more += atomic_load(&late.begin) != 0;
		usleep(100);
	}
	if (dfi_source_close(s))
		fail_thread("close");
	return NULL;
}

/*
 * J1: whatever state of the old follower, of a position that is not lower than
 * the late one's first, the late one takes over: the rest is what it gets.
 */
Test(open_order, a_snapshot_and_the_tail_have_no_gap)
{
	static const uint64_t keys[] = { 1, 2 };
	pthread_t threads[2];
	struct dfi_source *lost;
	uint32_t i, first = 0;

	create(0);
	old.first = target(0);
	follow_in_thread(&old);
	for (i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, push_meanwhile,
				 (void *)(uintptr_t)&keys[i]),
		    0);
	/* Meanwhile the view changes. */
	lost = source(DFI_ANY_SEAT);
	push_one(lost, 3, 0);
	dfi_source_abort(lost);
	cr_assert_eq(dfi_source_close(lost), -ECANCELED);
	follow_in_thread(&late);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	finish();
	pthread_join(old.thread, NULL);
	pthread_join(late.thread, NULL);
	cr_assert_gt(late.all.n, 0);
	/* Each position is behind a tuple. */
	while (first < old.all.n && old.all.of[first].position <= late.begin)
		first++;
	cr_assert_eq(late.all.n, old.all.n - first);
	for (i = 0; i < late.all.n; i++) {
		cr_assert(is_same(&late.all.of[i], &old.all.of[first + i]));
		cr_assert_eq(
		    late.all.of[i].position, old.all.of[first + i].position);
	}
}

/* ---- Without the registry --------------------------------------------------
 */

static _Atomic uint32_t n_waits; /* lines of the log that say so */

static void count_waits(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	n_waits += level == DFI_LOG_WARN && strstr(line, "flow 'f'") &&
	    strstr(line, "no view") && strstr(line, "registry");
}

#define BRIEF_MS 1000

static struct dfi_source *source_with(
    uint32_t seat, uint32_t flags, uint32_t stall_timeout_ms)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *s = NULL;

	attr.flags = flags;
	attr.stall_timeout_ms = stall_timeout_ms;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", seat, &attr, &s), 0, "%s",
	    dfi_errmsg());
	return s;
}

static struct dfi_target *target_with(
    uint32_t seat, uint32_t flags, uint32_t stall_timeout_ms)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *t = NULL;

	attr.flags = DFI_EVENTS | flags;
	attr.stall_timeout_ms = stall_timeout_ms;
	cr_assert_eq(dfi_target_open(rig.other, "f", seat, &attr, &t), 0, "%s",
	    dfi_errmsg());
	return t;
}

static void abort_source(struct dfi_source *s)
{
	dfi_source_abort(s);
	cr_assert_eq(dfi_source_close(s), -ECANCELED);
}

/* A tuple in a segment of its own: 0, or -EAGAIN without a view. */
static int try_to_send(struct dfi_source *s)
{
	struct kv kv = { 1, 1 };
	int ret = dfi_source_push(s, &kv);

	if (!ret)
		ret = dfi_source_flush(s);
	cr_assert(!ret || ret == -EAGAIN, "%s", dfi_errmsg());
	return ret;
}

/* Consume what is there. Returns the last error, and notes a loss. */
static int consume_all(struct dfi_target *t, bool *lost)
{
	struct dfi_event event;
	const void *tuple;
	int ret;

	while ((ret = dfi_target_consume(t, &tuple)) > 0 || ret == -ENOMSG) {
		if (ret > 0)
			continue;
		cr_assert_eq(dfi_target_event(t, &event), 0);
		*lost |= event.type == DFI_LOST;
	}
	return ret;
}

/* A source is lost, and this target, who consumes, ends the view. */
static void end_view(
    struct dfi_source *s, struct dfi_target *t, struct dfi_source *lost)
{
	int64_t until = now_ms() + LONG_MS;
	bool seen = false;

	abort_source(lost);
	while (!seen) {
		(void)try_to_send(s);
		(void)consume_all(t, &seen);
		cr_assert_lt(now_ms(), until);
		yield_times(10);
	}
}

static void await_view(
    struct dfi_source *s, struct dfi_target *t, uint64_t view)
{
	int64_t until = now_ms() + LONG_MS;
	uint64_t position = 0;
	bool lost = false;

	while (position >> 48 < view) {
		(void)try_to_send(s);
		(void)consume_all(t, &lost);
		(void)dfi_target_position(t, &position);
		cr_assert_lt(now_ms(), until);
		yield_times(10);
	}
}

/*
 * The second change of the view needs the second target, who does not consume;
 * then the registry is gone.
 */
Test(open_order, a_view_waits_for_the_registry_and_says_so)
{
	struct dfi_flow_attr attr = flow_attr();
	struct dfi_source *s, *brief, *lost[2];
	struct dfi_target *t[2];
	int64_t until = now_ms() + LONG_MS;
	bool seen = false;

	if (!rig.registry)
		cr_skip_test("the registry is part of the contexts");
	if (over_network())
		cr_skip_test("a call may wait for its number as well there");
	attr.segment_count = 1u << 14;
	create_with(&attr);
	t[0] = target_with(0, DFI_NONBLOCK, 0);
	t[1] = target_with(1, 0, BRIEF_MS);
	s = source_with(0, DFI_NONBLOCK, 0);
	brief = source_with(1, 0, BRIEF_MS);
	lost[0] = source_with(2, 0, LONG_MS);
	lost[1] = source_with(3, 0, LONG_MS);
	await_view(s, t[0], 1);
	end_view(s, t[0], lost[0]);
	await_view(s, t[0], 2);
	end_view(s, t[0], lost[1]);
	while (try_to_send(s) != -EAGAIN) {
		cr_assert_lt(now_ms(), until);
		yield_times(10);
	}
	dfi_log_set(DFI_LOG_WARN, count_waits, NULL);
	cr_assert_eq(dfi_registry_stop(rig.registry), 0);
	rig.registry = NULL;
	push_own(brief, 1, 1);
	assert_error(
	    dfi_source_flush(brief), -ETIMEDOUT, "no view", "registry");
	assert_error(consume_all(t[1], &seen), -ETIMEDOUT, "no tuple came",
	    "next view", "registry");
	while (!n_waits) {
		cr_assert_lt(now_ms(), until);
		yield_times(10);
	}
	abort_source(s);
	abort_source(brief);
	dfi_target_close(t[0]);
	dfi_target_close(t[1]);
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
}

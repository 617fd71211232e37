/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open replicate flows whose sources move between shared rings and those of
 * their pairs (G1 to G6 in docs/open-flows.md). The bytes that a source has
 * written tell where it sends: each tuple once into a shared ring.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

#define SEATS 4
#define SEGMENT 8 /* tuples */
#define RING 8    /* segments */
#define EVICT_MS 50

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
	if (over_network())
		cr_skip_test("open flows over networks have no shared ring");
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(open_shared, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_flow_attr flow_attr(uint32_t on_loss)
{
	return (struct dfi_flow_attr){
		.size = sizeof(struct dfi_flow_attr),
		.kind = DFI_REPLICATE,
		.schema = &kv_schema,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.open = { .membership = DFI_MEMBERS_OPEN,
		    .min_targets = DFI_NO_TARGETS,
		    .on_loss = on_loss },
	};
}

/* Targets that a source sends to, and what it has sent. */
struct sender {
	struct dfi_source *source;
	uint64_t next; /* number */
	struct dfi_target *targets[SEATS];
	uint64_t seen[SEATS]; /* the number that each gets next */
};

static void create(const struct dfi_flow_attr *attr)
{
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

static void open_sender(struct sender *sender, uint32_t seat)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;

	*sender = (struct sender){ .next = 0 };
	attr.flags = DFI_EVENTS;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(
	    dfi_source_open(rig.dfi, "f", seat, &attr, &sender->source), 0,
	    "%s", dfi_errmsg());
}

static struct dfi_target *target(uint32_t seat, uint32_t flags)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target = NULL;

	attr.flags = DFI_EVENTS | flags;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(rig.other, "f", seat, &attr, &target), 0,
	    "%s", dfi_errmsg());
	return target;
}

static void await_event(struct sender *sender, uint32_t type, uint32_t seat)
{
	int64_t until = now_ms() + LONG_MS;
	struct dfi_event event;
	int ret;

	do {
		ret = dfi_source_event(sender->source, &event);
		cr_assert(ret == 0 || ret == -EAGAIN, "%s", dfi_errmsg());
		cr_assert_lt(now_ms(), until);
	} while (ret || event.type != type || event.seat != seat);
}

/* The target's next event, which comes before all tuples. */
static struct dfi_event expect_event(struct dfi_target *target, uint32_t type)
{
	struct dfi_event event;
	const void *tuple;

	cr_assert_eq(
	    dfi_target_consume(target, &tuple), -ENOMSG, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_event(target, &event), 0);
	cr_assert_eq(event.type, type, "%u", event.type);
	return event;
}

static void flush(struct sender *sender)
{
	cr_assert_eq(dfi_source_flush(sender->source), 0, "%s", dfi_errmsg());
}

static void push(struct sender *sender, uint64_t n)
{
	while (n--)
		push_number(sender->source, sender->next++);
}

/* A target joins the source, and knows where it begins. */
static void join_with(struct sender *sender, uint32_t seat, uint32_t flags)
{
	sender->targets[seat] = target(seat, flags);
	await_event(sender, DFI_JOINED, seat);
	flush(sender);
	sender->seen[seat] =
	    expect_event(sender->targets[seat], DFI_JOINED).value;
	cr_assert_eq(sender->seen[seat], sender->next);
}

static void join(struct sender *sender, uint32_t seat)
{
	join_with(sender, seat, 0);
}

static void take(struct sender *sender, uint32_t seat)
{
	while (sender->seen[seat] < sender->next)
		expect_number(sender->targets[seat], sender->seen[seat]++);
}

static void take_all(struct sender *sender)
{
	uint32_t i;

	for (i = 0; i < SEATS; i++)
		if (sender->targets[i])
			take(sender, i);
}

static uint64_t copied(const struct sender *sender)
{
	struct dfi_source_stats stats;

	dfi_source_query(sender->source, &stats);
	return stats.copied_bytes;
}

/* Send two segments, one of them not full, to n targets: how often. */
static uint64_t copies(struct sender *sender)
{
	uint64_t before = copied(sender);

	push(sender, SEGMENT + 3);
	flush(sender);
	take_all(sender);
	return (copied(sender) - before) / ((SEGMENT + 3) * sizeof(struct kv));
}

static void await_shared(struct sender *sender)
{
	int64_t until = now_ms() + LONG_MS;

	while (copies(sender) != 1)
		cr_assert_lt(now_ms(), until);
}

static void finish(struct sender *sender)
{
	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(sender->source), 0, "%s", dfi_errmsg());
}

static void expect_ends(struct sender *sender)
{
	uint32_t i;

	for (i = 0; i < SEATS; i++) {
		if (!sender->targets[i])
			continue;
		take(sender, i);
		expect_event(sender->targets[i], DFI_ENDED);
		end_target(sender->targets[i]);
	}
}

static uint64_t dropped(const struct sender *sender)
{
	uint64_t n;

	cr_assert_eq(dfi_source_dropped(sender->source, &n), 0);
	return n;
}

/* G1: all targets read one copy. */
Test(open_shared, targets_read_one_copy)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);
	struct sender sender;
	uint32_t i;

	create(&attr);
	open_sender(&sender, 0);
	for (i = 0; i < SEATS; i++)
		join(&sender, i);
	await_shared(&sender);
	for (i = 0; i < 5 * RING; i++)
		cr_assert_eq(copies(&sender), 1);
	/* The last ones come from there as well. */
	push(&sender, 5 * SEGMENT + 1);
	finish(&sender);
	expect_ends(&sender);
}

/* The ring of the source may be full when it closes. */
Test(open_shared, a_full_ring_ends_as_well)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);
	struct sender sender;

	create(&attr);
	open_sender(&sender, 0);
	join(&sender, 0);
	join(&sender, 1);
	await_shared(&sender);
	/* Give back all. */
	while (copies(&sender) != 1)
		;
	push(&sender, SEGMENT * (RING - 3));
	finish(&sender);
	expect_ends(&sender);
}

Test(open_shared, a_latency_flow_shares_as_well)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct sender sender;

	attr.goal = DFI_LATENCY;
	attr.segment_size = 0;
	attr.segment_count = SEGMENT * RING;
	create(&attr);
	open_sender(&sender, 0);
	join(&sender, 0);
	join(&sender, 1);
	await_shared(&sender);
	finish(&sender);
	expect_ends(&sender);
}

Test(open_shared, checksums_are_of_what_is_shared)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct sender sender;

	attr.verify = DFI_VERIFY_CHECKSUM;
	create(&attr);
	open_sender(&sender, 0);
	join(&sender, 0);
	join(&sender, 1);
	await_shared(&sender);
	join(&sender, 2);
	await_shared(&sender);
	finish(&sender);
	expect_ends(&sender);
}

/* Those who are not in the set pass over the segment, which is one for all. */
Test(open_shared, target_sets_take_one_copy)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);
	const uint64_t all = (1 << SEATS) - 1;
	struct sender sender;
	uint64_t set, before;
	uint32_t i, t;

	attr.routing = DFI_ROUTE_DIRECT;
	create(&attr);
	open_sender(&sender, 0);
	for (i = 0; i < SEATS; i++)
		join(&sender, i);
	await_shared(&sender);
	for (i = 0; i < 5 * RING; i++) {
		set = i % 2 ? all : 1 + i % all;
		before = copied(&sender);
		cr_assert_eq(dfi_source_choose(sender.source, set), 0);
		push(&sender, SEGMENT + 1);
		flush(&sender);
		cr_assert_eq(copied(&sender) - before,
		    (SEGMENT + 1) * sizeof(struct kv));
		for (t = 0; t < SEATS; t++) {
			if (set >> t & 1)
				take(&sender, t);
			sender.seen[t] = sender.next;
		}
	}
	finish(&sender);
	expect_ends(&sender);
}

/* Nothing is lost with one who leaves what is for others, in either ring. */
Test(open_shared, a_target_leaves_what_is_for_others)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);
	struct sender sender;
	uint32_t i;

	attr.routing = DFI_ROUTE_DIRECT;
	create(&attr);
	open_sender(&sender, 0);
	for (i = 0; i < 3; i++)
		join(&sender, i);
	await_shared(&sender);
	for (i = 2; i > 0; i--) {
		cr_assert_eq(dfi_source_choose(sender.source, 1), 0);
		push(&sender, SEGMENT + 1);
		flush(&sender);
		cr_assert_eq(dfi_target_close(sender.targets[i]), 0);
		sender.targets[i] = NULL;
		await_event(&sender, DFI_ENDED, i);
	}
	cr_assert_eq(dropped(&sender), 0);
	finish(&sender);
	expect_ends(&sender);
}

/* G4: one who joins misses nothing, and then reads the same copy. */
Test(open_shared, targets_that_join_get_a_new_ring)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct sender sender;
	uint32_t i;

	create(&attr);
	open_sender(&sender, 1);
	for (i = 0; i < SEATS; i++) {
		join(&sender, i);
		await_shared(&sender);
	}
	finish(&sender);
	expect_ends(&sender);
}

/* G4: others go on without one who leaves, and share again. */
Test(open_shared, targets_leave_and_return)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);
	struct sender sender;
	uint32_t i;

	create(&attr);
	open_sender(&sender, 1);
	for (i = 0; i < SEATS; i++)
		join(&sender, i);
	for (i = 0; i < 2 * SEATS; i++) {
		await_shared(&sender);
		cr_assert_eq(dfi_target_close(sender.targets[i % SEATS]), 0);
		sender.targets[i % SEATS] = NULL;
		await_event(&sender, DFI_ENDED, i % SEATS);
		if (i & 1)
			await_shared(&sender);
		join(&sender, i % SEATS);
	}
	cr_assert_eq(dropped(&sender), 0);
	finish(&sender);
	expect_ends(&sender);
}

/* What lies in either ring is counted once when its target leaves. */
static void leave_tuples(bool moved_back)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct sender sender;
	uint64_t n = 2 * SEGMENT + 1;

	create(&attr);
	open_sender(&sender, 0);
	join(&sender, 0);
	join(&sender, 1);
	await_shared(&sender);
	push(&sender, n);
	flush(&sender);
	if (moved_back) {
		/* The next segment goes to the rings of pairs. */
		take(&sender, 0);
		sender.targets[2] = target(2, 0);
		await_event(&sender, DFI_JOINED, 2);
		flush(&sender);
		sender.seen[2] =
		    expect_event(sender.targets[2], DFI_JOINED).value;
		push(&sender, 3);
		flush(&sender);
		n += 3;
	}
	cr_assert_eq(dfi_target_close(sender.targets[1]), 0);
	sender.targets[1] = NULL;
	await_event(&sender, DFI_LOST, 1);
	cr_assert_eq(dropped(&sender), n);
	take_all(&sender);
	await_shared(&sender);
	cr_assert_eq(dropped(&sender), n);
	finish(&sender);
	expect_ends(&sender);
}

Test(open_shared, what_a_target_leaves_in_a_shared_ring_is_counted)
{
	leave_tuples(false);
}

Test(open_shared, what_a_target_leaves_in_both_rings_is_counted)
{
	leave_tuples(true);
}

/* The same, when the tuples were sent before the move. */
Test(open_shared, what_a_target_leaves_in_front_of_a_shared_ring_is_counted)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	int64_t until = now_ms() + LONG_MS;
	struct sender sender;
	uint64_t first, before, n;

	create(&attr);
	open_sender(&sender, 0);
	join(&sender, 0);
	join(&sender, 1);
	/* Target 1 has taken nothing since, and ever fewer segments fit. */
	do {
		cr_assert_lt(now_ms(), until);
		take_all(&sender);
		first = sender.next;
		before = copied(&sender);
		push(&sender, 1);
		flush(&sender);
		push(&sender, 1);
		flush(&sender);
		n = (copied(&sender) - before) / sizeof(struct kv);
		/* It has moved behind both: once more. */
		if (n == 1 + 1) {
			take_all(&sender);
			cr_assert_eq(dfi_target_close(sender.targets[1]), 0);
			await_event(&sender, DFI_ENDED, 1);
			join(&sender, 1);
		}
	} while (n != 3 + 1);
	cr_assert_eq(dfi_target_close(sender.targets[1]), 0);
	sender.targets[1] = NULL;
	await_event(&sender, DFI_LOST, 1);
	cr_assert_eq(dropped(&sender), sender.next - first);
	finish(&sender);
	expect_ends(&sender);
}

/* Consume what has come, in order from *next on, up to an error or the end. */
static int consume_rest(struct dfi_target *target, uint64_t *next)
{
	struct dfi_event event;
	const void *tuple;
	int ret;

	while (
	    (ret = dfi_target_consume(target, &tuple)) == 1 || ret == -ENOMSG) {
		if (ret == 1)
			cr_assert_eq(
			    ((const struct kv *)tuple)->val, (*next)++);
		else
			cr_assert_eq(dfi_target_event(target, &event), 0);
	}
	return ret;
}

/* G4: the source leaves the ring of one who is evicted, however full it is. */
Test(open_shared, what_an_evicted_target_was_lent_stays)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct dfi_batch batch = { .count = 0 };
	struct dfi_target *idle;
	struct sender sender;
	uint64_t first, next;
	uint32_t i;
	int ret;

	attr.open.evict_after_ms = EVICT_MS;
	create(&attr);
	open_sender(&sender, 0);
	join(&sender, 0);
	join(&sender, 1);
	join(&sender, 2);
	await_shared(&sender);
	first = sender.next;
	push(&sender, SEGMENT);
	idle = sender.targets[1];
	cr_assert_gt(dfi_target_consume_batch(idle, &batch), 0);
	cr_assert_eq(batch.count, SEGMENT);
	sender.targets[1] = NULL;
	take_all(&sender);
	for (i = 0; i < 3 * RING; i++) {
		push(&sender, SEGMENT);
		take_all(&sender);
	}
	await_event(&sender, DFI_EVICTED, 1);
	/* The others have a ring of their own, and go on. */
	await_shared(&sender);
	for (i = 0; i < 3 * RING; i++) {
		push(&sender, SEGMENT);
		take_all(&sender);
	}
	for (i = 0; i < SEGMENT; i++)
		cr_assert_eq(
		    ((const struct kv *)batch.tuples)[i].val, first + i);
	dfi_target_release(idle, &batch);
	/* What came before the news is whole. */
	next = first + SEGMENT;
	ret = consume_rest(idle, &next);
	cr_assert_eq(ret, -ESTALE, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(idle), -ESTALE);
	/* It joins again, and shares. */
	join(&sender, 1);
	await_shared(&sender);
	finish(&sender);
	expect_ends(&sender);
}

/* It gets what it was sent before, in a shared ring and behind it. */
Test(open_shared, an_evicted_target_gets_what_it_was_sent)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct dfi_target *idle;
	struct sender sender;
	uint64_t next, first;
	uint32_t i;

	attr.open.evict_after_ms = EVICT_MS;
	create(&attr);
	open_sender(&sender, 0);
	join(&sender, 0);
	join(&sender, 1);
	await_shared(&sender);
	idle = sender.targets[1];
	sender.targets[1] = NULL;
	next = first = sender.next;
	push(&sender, 2 * SEGMENT);
	take_all(&sender);
	join(&sender, 2);
	for (i = 0; i < 2 * RING; i++) {
		push(&sender, SEGMENT);
		take_all(&sender);
	}
	await_event(&sender, DFI_EVICTED, 1);
	cr_assert_eq(consume_rest(idle, &next), -ESTALE, "%s", dfi_errmsg());
	/* It may have kept credit of two segments that it took before. */
	cr_assert_geq(dropped(&sender), next - first);
	cr_assert_leq(dropped(&sender), next - first + 2 * SEGMENT);
	cr_assert_eq(dfi_target_close(idle), -ESTALE);
	await_shared(&sender);
	finish(&sender);
	expect_ends(&sender);
}

/* K1: marks come in order with what is shared, also behind a move. */
Test(open_shared, marks_come_in_order)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct sender sender;
	struct dfi_event event;
	uint64_t mark = 0;
	uint32_t round, i;

	create(&attr);
	open_sender(&sender, 0);
	join(&sender, 0);
	for (round = 1; round < SEATS; round++) {
		await_shared(&sender);
		for (i = 0; i < 3 * RING; i++) {
			push(&sender, 3);
			cr_assert_eq(dfi_source_mark(sender.source, ++mark), 0,
			    "%s", dfi_errmsg());
			take_all(&sender);
			event = expect_event(sender.targets[0], DFI_MARK);
			cr_assert_eq(event.value, mark);
			if (round > 1) {
				event = expect_event(
				    sender.targets[1], DFI_MARK);
				cr_assert_eq(event.value, mark);
			}
			if (round > 2) {
				event = expect_event(
				    sender.targets[2], DFI_MARK);
				cr_assert_eq(event.value, mark);
			}
		}
		join(&sender, round);
		event = expect_event(sender.targets[round], DFI_MARK);
		cr_assert_eq(event.value, mark);
	}
	finish(&sender);
	expect_ends(&sender);
}

/* A span keeps its place while a target leaves. */
Test(open_shared, a_span_stays_where_it_is)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct sender sender;
	struct dfi_span span;
	struct kv *kv;
	uint32_t i;

	create(&attr);
	open_sender(&sender, 0);
	join(&sender, 0);
	join(&sender, 1);
	await_shared(&sender);
	cr_assert_eq(
	    dfi_source_claim(sender.source, DFI_ALL_TARGETS, &span), 0);
	cr_assert_eq(dfi_target_close(sender.targets[1]), 0);
	sender.targets[1] = NULL;
	kv = span.tuples;
	for (i = 0; i < span.count; i++)
		kv[i] = numbered_kv(sender.next++);
	cr_assert_eq(dfi_source_commit(sender.source, &span, span.count), 0);
	await_event(&sender, DFI_ENDED, 1);
	await_shared(&sender);
	finish(&sender);
	expect_ends(&sender);
}

/* Tuples that nobody has got wait, wherever they were built. */
Test(open_shared, the_last_target_leaves_and_another_comes)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct sender sender;
	uint32_t i;

	create(&attr);
	open_sender(&sender, 0);
	join(&sender, 0);
	await_shared(&sender);
	push(&sender, 3);
	cr_assert_eq(dfi_target_close(sender.targets[0]), 0);
	sender.targets[0] = NULL;
	await_event(&sender, DFI_ENDED, 0);
	/* It is filled, and waits. */
	push(&sender, SEGMENT - 3);
	sender.targets[1] = target(1, 0);
	await_event(&sender, DFI_JOINED, 1);
	sender.seen[1] = sender.next - SEGMENT;
	push(&sender, 1);
	flush(&sender);
	cr_assert_eq(
	    expect_event(sender.targets[1], DFI_JOINED).value, sender.seen[1]);
	for (i = 0; i < 3; i++)
		await_shared(&sender);
	cr_assert_eq(dropped(&sender), 0);
	finish(&sender);
	expect_ends(&sender);
}

/* A source that aborts, in a shared ring: what has come is consumed. */
Test(open_shared, an_aborted_source_is_lost)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_DROP);
	struct sender sender, other;
	uint32_t i;

	create(&attr);
	open_sender(&sender, 0);
	join(&sender, 0);
	join(&sender, 1);
	await_shared(&sender);
	push(&sender, 3 * SEGMENT);
	dfi_source_abort(sender.source);
	cr_assert_eq(dfi_source_close(sender.source), -ECANCELED);
	for (i = 0; i < 2; i++) {
		take(&sender, i);
		expect_event(sender.targets[i], DFI_LOST);
	}
	/* The next one in its seat shares as well. */
	open_sender(&other, 0);
	for (i = 0; i < 2; i++) {
		await_event(&other, DFI_JOINED, i);
		other.targets[i] = sender.targets[i];
	}
	flush(&other);
	for (i = 0; i < 2; i++)
		cr_assert_eq(
		    expect_event(other.targets[i], DFI_JOINED).value, 0);
	await_shared(&other);
	finish(&other);
	expect_ends(&other);
}

/* G2: without memory for a shared ring the source copies. */
Test(open_shared, no_memory_costs_copies_only)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);
	struct dfi_flow_needs needs;
	struct dfi_attr context = DFI_ATTR_INIT;
	struct dfi *dfi = rig.dfi;
	struct sender sender;
	char limit[32];
	uint32_t i;

	cr_assert_eq(dfi_flow_estimate(rig.dfi, &attr, &needs), 0);
	cr_assert_gt(needs.source_bytes, needs.pair_bytes);
	snprintf(limit, sizeof(limit), "%lu",
	    (unsigned long)(needs.source_bytes - 4096));
	setenv("DFI_RING_MEMORY_LIMIT", limit, 1);
	context.registry = rig_address(&rig);
	context.open_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_open(&context, &rig.dfi), 0, "%s", dfi_errmsg());
	unsetenv("DFI_RING_MEMORY_LIMIT");
	create(&attr);
	open_sender(&sender, 0);
	join(&sender, 0);
	join(&sender, 1);
	for (i = 0; i < 20; i++) {
		cr_assert_eq(copies(&sender), 3);
		yield_times(1000);
	}
	finish(&sender);
	expect_ends(&sender);
	cr_assert_eq(dfi_close(rig.dfi), 0);
	rig.dfi = dfi;
}

Test(open_shared, naive_flows_copy)
{
	struct dfi_flow_attr attr = flow_attr(DFI_ON_LOSS_FAIL);
	struct sender sender;
	uint32_t i;

	attr.replicate.method = DFI_REPLICATION_NAIVE;
	create(&attr);
	open_sender(&sender, 0);
	join(&sender, 0);
	join(&sender, 1);
	for (i = 0; i < 20; i++) {
		cr_assert_eq(copies(&sender), 3);
		yield_times(1000);
	}
	finish(&sender);
	expect_ends(&sender);
}

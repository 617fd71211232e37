/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of an open flow is evicted: what has come of it is taken, and no
 * more, its calls fail, and it may open its seat again.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include <dfi/event.h>
#include <dfi/open_flow.h>

#include "../flow/flow_help.h"
#include "base/clock.h"
#include "flows/endpoint/source.h"
#include "flows/endpoint/target.h"
#include "flows/kinds/open/pairs.h"
#include "flows/members/eviction.h"

#define SEATS 3
#define SEGMENT 4 /* tuples */
#define RING 8    /* segments */

static struct rig rig;
static struct dfi_target *target; /* in seat 2 */
static struct dfi_source *source; /* in seat 1 */

static void create(uint32_t kind, uint32_t goal)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = kind,
		.schema = &kv_schema,
		.goal = goal,
		.n_sources = SEATS,
		.n_targets = SEATS,
		.routing = kind == DFI_SHUFFLE ? DFI_ROUTE_ROUND_ROBIN : 0,
		.segment_size = goal == DFI_LATENCY
		    ? 0
		    : SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = goal == DFI_LATENCY ? SEGMENT * RING : RING,
		.open = {
			.membership = DFI_MEMBERS_OPEN,
			.on_loss = DFI_ON_LOSS_DROP,
			.evict_after_ms = LONG_MS,
		},
	};

	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
}

static void open_target_with_events(void)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;

	attr.flags = DFI_EVENTS;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_target_open(rig.other, "f", 2, &attr, &target), 0,
	    "%s", dfi_errmsg());
}

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(open_evict, .init = setup, .fini = teardown, .timeout = 300);

static void begin(uint32_t kind, uint32_t goal)
{
	create(kind, goal);
	open_target_with_events();
	source = open_source(rig.dfi, "f", 1, 0);
}

static void push_numbers(uint64_t first, uint64_t end)
{
	for (; first < end; first++)
		push_number(source, first);
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
}

static uint64_t expect_event(uint32_t type)
{
	struct dfi_event event = { 0 };
	const void *tuple;

	cr_assert_eq(
	    dfi_target_consume(target, &tuple), -ENOMSG, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_event(target, &event), 0);
	cr_assert_eq(event.type, type, "%u", event.type);
	cr_assert_eq(event.seat, 1);
	return event.incarnation;
}

static void expect_numbers(uint64_t first, uint64_t end)
{
	for (; first < end; first++)
		expect_number(target, first);
}

/* The state of an endpoint of an open flow begins with its pairs. */
static struct seat_watch *seats_of(void *state)
{
	return &((struct pairs *)state)->seats;
}

static struct eviction eviction_of(uint64_t incarnation)
{
	return (struct eviction){
		.role = OPEN_SOURCE,
		.seat = 1,
		.incarnation = incarnation,
		.why = EVICTION_MARK,
	};
}

static void evict(uint64_t incarnation)
{
	struct eviction eviction = eviction_of(incarnation);

	cr_assert_eq(dfi__evict(seats_of(target->state), &eviction,
			 deadline_in_ms(LONG_MS)),
	    0, "%s", dfi_errmsg());
}

static void await_error(int err)
{
	int64_t until = now_ms() + LONG_MS;
	struct kv kv = numbered_kv(99);
	int ret;

	do {
		ret = dfi_source_push(source, &kv);
		if (!ret)
			ret = dfi_source_flush(source);
		cr_assert_lt(now_ms(), until);
	} while (!ret);
	assert_error(ret, err, "flow 'f'", "source 1", "evicted by target 2",
	    "open.evict_after_ms", "open it again");
}

static void end_source(uint64_t first, uint64_t end)
{
	push_numbers(first, end);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_flow_finish(rig.dfi, "f"), 0);
	expect_numbers(first, end);
	expect_event(DFI_ENDED);
	end_target(target);
}

static void is_put_out_and_comes_back(uint32_t kind, uint32_t goal)
{
	uint64_t incarnation;

	begin(kind, goal);
	push_numbers(0, 5);
	incarnation = expect_event(DFI_JOINED);
	expect_numbers(0, 2);
	evict(incarnation);
	expect_numbers(2, 5);
	cr_assert_eq(expect_event(DFI_EVICTED), incarnation);
	await_error(-ESTALE);
	assert_error(dfi_source_close(source), -ESTALE, "evicted by target 2");
	source = open_source(rig.dfi, "f", 1, 0);
	cr_assert_neq(expect_event(DFI_JOINED), incarnation);
	end_source(7, 20);
}

Test(open_evict, a_source_is_put_out_and_comes_back)
{
	is_put_out_and_comes_back(DFI_SHUFFLE, DFI_BANDWIDTH);
}

Test(open_evict, a_source_is_put_out_and_comes_back_for_latency)
{
	is_put_out_and_comes_back(DFI_SHUFFLE, DFI_LATENCY);
}

Test(open_evict, a_source_of_a_replicate_flow_is_put_out_and_comes_back)
{
	is_put_out_and_comes_back(DFI_REPLICATE, DFI_BANDWIDTH);
}

/* Until the target knows, and has noted where the ring ends. */
static void await_put_out(void)
{
	const struct pair *pair = ((struct pairs *)target->state)->of[1].pair;
	int64_t until = now_ms() + LONG_MS;
	const struct dfi_target *end;
	struct dfi_event event;

	end = pair[pair[0].state != PAIR_TAKEN].end;
	while (!end->lost) {
		cr_assert_eq(dfi_target_event(target, &event), -EAGAIN);
		cr_assert_lt(now_ms(), until);
	}
}

/* M5: it does not know yet, as one that wakes up, and sends on. */
Test(open_evict, nothing_that_comes_later_is_taken)
{
	struct seat_watch *own;
	uint64_t incarnation;

	begin(DFI_SHUFFLE, DFI_BANDWIDTH);
	push_numbers(0, 5);
	incarnation = expect_event(DFI_JOINED);
	expect_numbers(0, 2);
	/* Its watch waits for this lock, and so does the source's news. */
	own = seats_of(source->state);
	pthread_mutex_lock(&own->lock);
	evict(incarnation);
	await_put_out();
	push_numbers(5, 7);
	pthread_mutex_unlock(&own->lock);
	expect_numbers(2, 5);
	cr_assert_eq(expect_event(DFI_EVICTED), incarnation);
	await_error(-ESTALE);
	assert_error(dfi_source_close(source), -ESTALE, "evicted");
	source = open_source(rig.dfi, "f", 1, 0);
	expect_event(DFI_JOINED);
	end_source(30, 31);
}

Test(open_evict, who_is_not_due_any_more_stays)
{
	int64_t deadline = deadline_in_ms(LONG_MS);
	struct eviction eviction;
	struct seat_watch *seats;

	begin(DFI_SHUFFLE, DFI_BANDWIDTH);
	push_numbers(0, 1);
	eviction = eviction_of(expect_event(DFI_JOINED));
	expect_numbers(0, 1);
	seats = seats_of(target->state);
	cr_assert_eq(dfi__eviction_begin(seats, &eviction, deadline), 0, "%s",
	    dfi_errmsg());
	/* It knows all that came before its note. */
	pthread_mutex_lock(&seats->lock);
	cr_assert_eq(seats->put_out[OPEN_SOURCE][1], eviction.incarnation);
	pthread_mutex_unlock(&seats->lock);
	cr_assert_eq(dfi__eviction_end(seats, &eviction, false, deadline), 0);
	/* Its end is no eviction. */
	end_source(1, 9);
}

/* Another one has the seat by then. */
Test(open_evict, an_eviction_does_not_hit_the_next_holder)
{
	uint64_t incarnation;

	begin(DFI_SHUFFLE, DFI_BANDWIDTH);
	push_numbers(0, 1);
	incarnation = expect_event(DFI_JOINED);
	expect_numbers(0, 1);
	cr_assert_eq(dfi_source_close(source), 0);
	expect_event(DFI_ENDED);
	source = open_source(rig.dfi, "f", 1, 0);
	evict(incarnation);
	expect_event(DFI_JOINED);
	end_source(1, 9);
}

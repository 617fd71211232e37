/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A partition moves from target 0 to target 1 of an open flow, as source 0 and
 * both targets see it: H4 to H8, M5, and R1 to R4 of docs/open-flows.md.
 * tests/open/simulate has the same states in random order.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "flows/open/overdue.h"
#include "flows/open/replay.h"
#include "flows/open/source.h"
#include "flows/open/value.h"
#include <dfi/open_flow.h>

enum {
	SOURCES = 2,
	TARGETS = 2,
	PARTITIONS = 4,
};

/* What each of source 0, target 0 and target 1 knows, and is. */
struct endpoint {
	struct open_seat seat_memory[SOURCES + TARGETS];
	struct open_seats seats;
	struct open_tables tables;
	struct keyed_source source;
	struct keyed_target target;
	struct open_pair pairs[SOURCES];
	void *memory[2];
};

static struct endpoint all[3];
static struct endpoint *const source = &all[0], *const old = &all[1],
			      *const new = &all[2];
static uint64_t revision;

static void init(struct endpoint *e, enum open_role role, uint32_t seat)
{
	dfi__open_seats_init(&e->seats, SOURCES, TARGETS, e->seat_memory);
	dfi__open_seats_set_own(&e->seats, role, seat, 10 * role + seat + 1);
	e->memory[0] = malloc(dfi__open_tables_size(PARTITIONS, TARGETS));
	dfi__open_tables_init(&e->tables, PARTITIONS, TARGETS, e->memory[0]);
	if (role == OPEN_SOURCE) {
		e->memory[1] = malloc(
		    dfi__open_source_size(PARTITIONS, TARGETS));
		dfi__open_source_init(
		    &e->source, &e->seats, &e->tables, e->memory[1]);
	} else {
		e->memory[1] = malloc(
		    dfi__open_target_size(SOURCES, PARTITIONS));
		dfi__open_target_init(
		    &e->target, &e->seats, &e->tables, e->memory[1]);
	}
}

static void teardown(void)
{
	unsigned i;

	for (i = 0; i < 3; i++) {
		free(all[i].memory[0]);
		free(all[i].memory[1]);
	}
}

/* ---- Changes, which all see at once -------------------------------------- */

static unsigned learn(void)
{
	dfi__open_target_learn(&old->target);
	dfi__open_target_learn(&new->target);
	return dfi__open_source_learn(&source->source);
}

static unsigned attach(enum open_role role, uint32_t seat)
{
	struct open_holder holder = { .incarnation = 10 * role + seat + 1 };
	struct open_events events;
	unsigned i;

	revision++;
	for (i = 0; i < 3; i++)
		dfi__open_seats_put(
		    &all[i].seats, role, seat, &holder, revision, &events);
	for (i = 1; role == OPEN_SOURCE && i < 3; i++)
		dfi__open_target_join(
		    &all[i].target, &all[i].pairs[seat], seat);
	return learn();
}

static unsigned leave(enum open_role role, uint32_t seat, uint64_t rest)
{
	struct open_events events;
	unsigned i;

	for (i = 0; i < 3; i++)
		dfi__open_seats_delete(&all[i].seats, role, seat, &events);
	for (i = 1; role == OPEN_SOURCE && i < 3; i++)
		dfi__open_target_gone(&all[i].target, &all[i].pairs[seat],
		    OPEN_LOST, i == 1 ? rest : 0);
	return learn();
}

static unsigned propose(struct endpoint *by)
{
	struct open_table *table = &by->tables.next;
	unsigned i;

	cr_assert(dfi__open_tables_propose(&by->tables, &by->seats));
	table->revision = ++revision;
	for (i = 0; i < 3; i++)
		cr_assert(dfi__open_tables_put(&all[i].tables, table));
	return learn();
}

static unsigned hand(struct endpoint *from)
{
	const struct open_hand *said;
	unsigned i;

	cr_assert(dfi__open_target_hand(&from->target, &said));
	for (i = 0; i < 3; i++)
		dfi__open_tables_hand(&all[i].tables, said);
	cr_assert_not(dfi__open_target_hand(&from->target, &said), "once");
	return learn();
}

static void expect_event(struct endpoint *e, uint32_t partition, bool leaves)
{
	uint32_t p = UINT32_MAX;
	bool way = !leaves;

	cr_assert(dfi__open_target_event(&e->target, &p, &way));
	cr_assert_eq(p, partition);
	cr_assert_eq(way, leaves);
}

static void expect_none(struct endpoint *e)
{
	uint32_t p;
	bool leaves;

	cr_assert_not(dfi__open_target_event(&e->target, &p, &leaves));
}

/* Target 0 has all partitions, target 1 joins: 0 and 1 are to move. */
static void setup(void)
{
	uint32_t p;

	revision = 0;
	init(source, OPEN_SOURCE, 0);
	init(old, OPEN_TARGET, 0);
	init(new, OPEN_TARGET, 1);
	attach(OPEN_TARGET, 0);
	attach(OPEN_SOURCE, 0);
	cr_assert_eq(propose(old), OPEN_ADOPTED);
	cr_assert_eq(open_source_route(&source->source, 3), OPEN_NOBODY);
	for (p = 0; p < PARTITIONS; p++) {
		expect_event(old, p, false);
		cr_assert_not(open_target_holds(&old->target, p));
		cr_assert(dfi__open_target_take(&old->target, p));
		cr_assert_not(dfi__open_target_take(&old->target, p));
		cr_assert(open_target_holds(&old->target, p));
	}
	expect_none(old);
	hand(old);
	cr_assert_eq(open_source_route(&source->source, 3), 0);
	attach(OPEN_TARGET, 1);
}

TestSuite(open_handover, .init = setup, .fini = teardown);

static void mark(struct endpoint *target)
{
	uint32_t seat = target->seats.own_seat;
	uint64_t table = open_source_owes(&source->source, seat);

	cr_assert_neq(table, 0);
	dfi__open_source_marked(&source->source, seat);
	dfi__open_target_marked(&target->pairs[0], table);
	learn();
}

Test(open_handover, a_partition_is_marked_released_taken_and_sent)
{
	struct keyed_source *s = &source->source;

	cr_assert_eq(propose(new), OPEN_ADOPTED);
	cr_assert_eq(open_source_route(s, 0), OPEN_NOBODY);
	cr_assert_eq(open_source_route(s, 2), 0, "the others go on");
	cr_assert_eq(open_source_owes(s, 0), 2);
	cr_assert_eq(open_source_owes(s, 1), 0);
	dfi__open_source_wait(s, 0);
	dfi__open_source_wait(s, 0);
	cr_assert_not(open_source_may_mark(s));
	expect_none(old);
	mark(old);
	cr_assert_eq(open_source_owes(s, 0), 0);
	expect_event(old, 0, true);
	expect_event(old, 1, true);
	expect_none(old);
	cr_assert_not(dfi__open_target_release(&old->target, 2));
	cr_assert(dfi__open_target_release(&old->target, 0));
	cr_assert_eq(hand(old), 0);
	/* 0 is released, 1 is not. */
	expect_event(new, 0, false);
	expect_none(new);
	cr_assert_eq(new->target.epochs[0], 2);
	cr_assert_eq(open_source_owner(s, 0), OPEN_NOBODY);
	cr_assert_eq(dfi__open_source_settled(s), 1);
	cr_assert(dfi__open_target_take(&new->target, 0));
	cr_assert_eq(hand(new), OPEN_MAY_SEND);
	/* What waits goes first. */
	cr_assert_eq(open_source_owner(s, 0), 1);
	cr_assert_eq(open_source_route(s, 0), OPEN_NOBODY);
	dfi__open_source_sent(s, 0);
	cr_assert_eq(open_source_route(s, 0), OPEN_NOBODY);
	dfi__open_source_sent(s, 0);
	cr_assert_eq(open_source_route(s, 0), 1);
	cr_assert(open_source_may_mark(s));
	cr_assert_eq(open_source_route(s, 1), OPEN_NOBODY);
	cr_assert(dfi__open_target_release(&old->target, 1));
	hand(old);
	expect_event(new, 1, false);
	cr_assert(dfi__open_target_take(&new->target, 1));
	hand(new);
	cr_assert_eq(open_source_route(s, 1), 1);
	cr_assert_eq(dfi__open_source_settled(s), 2);
}

Test(open_handover, a_source_behind_the_table_owes_no_mark)
{
	propose(new);
	attach(OPEN_SOURCE, 1);
	mark(old);
	expect_event(old, 0, true);
}

Test(open_handover, a_source_before_the_table_owes_one)
{
	attach(OPEN_SOURCE, 1);
	propose(new);
	mark(old);
	expect_none(old);
	dfi__open_target_marked(&old->pairs[1], 2);
	learn();
	expect_event(old, 0, true);
}

Test(open_handover, the_rest_of_a_lost_source_counts)
{
	attach(OPEN_SOURCE, 1);
	leave(OPEN_SOURCE, 1, 2);
	cr_assert_eq(old->pairs[1].state, OPEN_PAIR_REST);
	cr_assert_eq(new->pairs[1].state, OPEN_PAIR_LOST);
	propose(new);
	mark(old);
	dfi__open_target_took(&old->target, &old->pairs[1]);
	learn();
	expect_none(old);
	dfi__open_target_took(&old->target, &old->pairs[1]);
	learn();
	cr_assert_eq(old->pairs[1].state, OPEN_PAIR_LOST);
	expect_event(old, 0, true);
}

Test(open_handover, a_source_that_has_ended_owes_no_mark)
{
	attach(OPEN_SOURCE, 1);
	propose(new);
	mark(old);
	dfi__open_target_ended(&old->target, &old->pairs[1]);
	learn();
	expect_event(old, 0, true);
	leave(OPEN_SOURCE, 1, 0);
	cr_assert_eq(old->pairs[1].state, OPEN_PAIR_ENDED);
	cr_assert_eq(old->target.n_rests, 0);
}

Test(open_handover, the_death_of_the_old_owner_ends_the_wait)
{
	struct keyed_source *s = &source->source;

	propose(new);
	cr_assert_eq(leave(OPEN_TARGET, 0, 0), 0);
	cr_assert_eq(open_source_owes(s, 0), 0);
	expect_event(new, 0, false);
	expect_event(new, 1, false);
	/* H8: the others wait for a table. */
	cr_assert_eq(open_source_route(s, 3), OPEN_NOBODY);
	dfi__open_target_take(&new->target, 0);
	dfi__open_target_take(&new->target, 1);
	hand(new);
	cr_assert_eq(open_source_route(s, 0), 1);
	propose(new);
	cr_assert_eq(open_source_route(s, 0), 1);
	expect_event(new, 2, false);
	dfi__open_target_take(&new->target, 2);
	hand(new);
	cr_assert_eq(open_source_route(s, 2), 1);
}

Test(open_handover, the_death_of_the_new_owner_brings_the_partition_back)
{
	struct keyed_source *s = &source->source;

	propose(new);
	leave(OPEN_TARGET, 1, 0);
	mark(old);
	expect_event(old, 0, true);
	expect_event(old, 1, true);
	dfi__open_target_release(&old->target, 0);
	dfi__open_target_release(&old->target, 1);
	hand(old);
	cr_assert_eq(open_source_route(s, 0), OPEN_NOBODY);
	propose(old);
	expect_event(old, 0, false);
	dfi__open_target_take(&old->target, 0);
	cr_assert_eq(old->target.epochs[0], 3);
	hand(old);
	cr_assert_eq(open_source_route(s, 0), 0);
}

/* A tuple that is taken back waits, though its partition has an owner (R2). */
Test(open_handover, what_is_taken_back_goes_first)
{
	struct keyed_source *s = &source->source;

	dfi__open_source_wait(s, 3);
	cr_assert_eq(open_source_route(s, 3), OPEN_NOBODY);
	cr_assert_eq(open_source_owner(s, 3), 0);
	cr_assert_eq(open_source_route(s, 2), 0);
	dfi__open_source_sent(s, 3);
	cr_assert_eq(open_source_route(s, 3), 0);
}

Test(open_handover, a_target_that_leaves_has_left_when_all_is_released)
{
	struct open_holder holder = { .incarnation = 11, .leaving = true };
	struct open_events events;
	unsigned i;
	uint32_t p;

	for (i = 0; i < 3; i++)
		dfi__open_seats_put(&all[i].seats, OPEN_TARGET, 0, &holder,
		    ++revision, &events);
	cr_assert_not(dfi__open_target_has_left(&old->target));
	propose(new);
	mark(old);
	for (p = 0; p < PARTITIONS; p++) {
		expect_event(old, p, true);
		cr_assert_not(dfi__open_target_has_left(&old->target));
		dfi__open_target_release(&old->target, p);
	}
	cr_assert(dfi__open_target_has_left(&old->target));
	cr_assert_not(dfi__open_target_has_left(&new->target));
}

Test(open_handover, an_evicted_endpoint_does_nothing)
{
	propose(new);
	cr_assert_eq(leave(OPEN_TARGET, 0, 0), 0);
	leave(OPEN_SOURCE, 0, 0);
	expect_none(old);
	cr_assert_not(dfi__open_tables_propose(&old->tables, &old->seats));
}

/* Its owner may have been told that an event is next. */
Test(open_handover, an_eviction_takes_no_event_away)
{
	propose(new);
	leave(OPEN_SOURCE, 0, 0);
	cr_assert_eq(leave(OPEN_TARGET, 0, 0), 0);
	expect_event(old, 0, true);
	expect_event(old, 1, true);
	expect_none(old);
	cr_assert_not(dfi__open_tables_propose(&old->tables, &old->seats));
}

/* ---- Who holds up the others --------------------------------------------- */

#define LIMIT 10

static struct open_overdue overdue;
static int64_t looked;

/* Look often enough up to then: whether a source is named at the end. */
static bool source_is_overdue(
    struct endpoint *target, int64_t until, uint32_t *seat)
{
	bool named = false;
	uint32_t first = *seat;

	for (; looked <= until; looked++) {
		*seat = first;
		named = dfi__open_overdue_source(
		    &overdue, &target->target, looked, LIMIT, seat);
	}
	return named;
}

/* The same of a target. */
static bool target_is_overdue(
    struct endpoint *target, int64_t until, uint32_t *seat, bool *releases)
{
	bool named = false;

	for (; looked <= until; looked++)
		named = dfi__open_overdue_target(
		    &overdue, &target->target, looked, LIMIT, seat, releases);
	return named;
}

static void begin_to_look(void)
{
	memset(&overdue, 0, sizeof(overdue));
	looked = 100;
}

Test(open_handover, a_source_that_owes_its_mark_for_too_long_is_named)
{
	uint32_t seat = 0;

	attach(OPEN_SOURCE, 1);
	propose(new);
	begin_to_look();
	cr_assert_not(source_is_overdue(old, 105, &seat));
	seat = 0;
	cr_assert(source_is_overdue(old, 106, &seat));
	cr_assert_eq(seat, 0);
	mark(old);
	cr_assert(source_is_overdue(old, 107, &seat));
	cr_assert_eq(seat, 1);
	seat = 2;
	cr_assert_not(source_is_overdue(old, 108, &seat));
	leave(OPEN_SOURCE, 1, 0);
	seat = 0;
	cr_assert_not(source_is_overdue(old, 109, &seat));
	/* The new owner needs no marks. */
	begin_to_look();
	cr_assert_not(source_is_overdue(new, 200, &seat));
}

/* It was stopped itself. */
Test(open_handover, who_looks_late_does_not_count_the_time)
{
	uint32_t seat = 0;

	propose(new);
	begin_to_look();
	cr_assert_not(source_is_overdue(old, 102, &seat));
	looked = 100000;
	cr_assert_not(source_is_overdue(old, 100001, &seat));
	seat = 0;
	cr_assert(source_is_overdue(old, 100002, &seat));
}

/* The registry was away. */
Test(open_handover, all_get_the_whole_time_after_a_restart)
{
	uint32_t seat = 0;

	propose(new);
	begin_to_look();
	cr_assert_not(source_is_overdue(old, 104, &seat));
	dfi__open_overdue_restart(&overdue, 104);
	cr_assert_not(source_is_overdue(old, 109, &seat));
	seat = 0;
	cr_assert(source_is_overdue(old, 110, &seat));
}

Test(open_handover, a_target_that_does_not_release_or_take_is_named)
{
	bool releases = false;
	uint32_t seat = 9;

	propose(new);
	begin_to_look();
	cr_assert_not(target_is_overdue(new, 110, &seat, &releases));
	cr_assert(target_is_overdue(new, 111, &seat, &releases));
	cr_assert_eq(seat, 0);
	cr_assert(releases);
	cr_assert(dfi__open_holds_up(&new->tables, &new->seats, 0));
	/* Nobody names itself. */
	begin_to_look();
	cr_assert_not(target_is_overdue(old, 200, &seat, &releases));
	mark(old);
	expect_event(old, 0, true);
	expect_event(old, 1, true);
	dfi__open_target_release(&old->target, 0);
	dfi__open_target_release(&old->target, 1);
	hand(old);
	cr_assert_not(dfi__open_holds_up(&old->tables, &old->seats, 0));
	cr_assert(dfi__open_holds_up(&old->tables, &old->seats, 1));
	cr_assert_not(target_is_overdue(old, 211, &seat, &releases));
	cr_assert(target_is_overdue(old, 212, &seat, &releases));
	cr_assert_eq(seat, 1);
	cr_assert_not(releases);
	begin_to_look();
	cr_assert_not(target_is_overdue(new, 300, &seat, &releases));
	expect_event(new, 0, false);
	expect_event(new, 1, false);
	dfi__open_target_take(&new->target, 0);
	dfi__open_target_take(&new->target, 1);
	hand(new);
	looked = 301;
	cr_assert_not(target_is_overdue(old, 400, &seat, &releases));
	cr_assert_not(dfi__open_holds_up(&old->tables, &old->seats, 1));
}

/* ---- Replay -------------------------------------------------------------- */

Test(open_handover, what_was_seen_is_dropped_and_what_is_acknowledged_resumes)
{
	uint64_t memory[2 * PARTITIONS], resume_memory[2 * PARTITIONS];
	uint64_t held = 0xf, lowest = 0;
	struct open_resume resume;
	struct open_inputs inputs;

	dfi__open_inputs_init(&inputs, PARTITIONS, memory);
	dfi__open_inputs_take(&inputs, 0, 5);
	dfi__open_inputs_take(&inputs, 1, 4);
	cr_assert_not(open_inputs_lend(&inputs, 0, 5));
	cr_assert_not(open_inputs_is_newest(&inputs, 5));
	cr_assert(open_inputs_has_seen(&inputs, 0, 5));
	cr_assert_not(open_inputs_has_seen(&inputs, 1, 5));
	cr_assert(open_inputs_is_newest(&inputs, 6));
	cr_assert(open_inputs_lend(&inputs, 0, 7));
	cr_assert_not(open_inputs_is_newest(&inputs, 7));
	cr_assert_not(open_inputs_lend(&inputs, 0, 7));
	cr_assert_eq(inputs.acked[0], 5);
	dfi__open_inputs_ack(&inputs, &old->target);
	cr_assert_eq(inputs.acked[0], 7);
	cr_assert_eq(inputs.acked[1], 4);
	cr_assert_eq(inputs.acked[2], 0);
	/* A mark of a source that has not seen the partitions taken. */
	dfi__open_inputs_mark(&inputs, 9, 0);
	dfi__open_inputs_ack(&inputs, &old->target);
	cr_assert_eq(inputs.acked[2], 0);
	dfi__open_inputs_mark(&inputs, 10, 1);
	cr_assert_eq(inputs.acked[2], 0);
	dfi__open_inputs_ack(&inputs, &old->target);
	cr_assert_eq(inputs.acked[2], 10);
	cr_assert_eq(inputs.acked[0], 10);

	dfi__open_resume_init(&resume, PARTITIONS, resume_memory);
	inputs.acked[1] = 6;
	cr_assert_not(dfi__open_resume_lowest(
	    &resume, &source->tables, &source->seats, &lowest));
	dfi__open_resume_pair(&resume, PARTITIONS, 11, &held, inputs.acked);
	cr_assert(dfi__open_resume_lowest(
	    &resume, &source->tables, &source->seats, &lowest));
	cr_assert_eq(lowest, 6);
	propose(new);
	cr_assert_not(dfi__open_resume_lowest(
	    &resume, &source->tables, &source->seats, &lowest));
	leave(OPEN_TARGET, 0, 0);
	dfi__open_target_learn(&new->target);
	cr_assert_not(dfi__open_resume_lowest(
	    &resume, &source->tables, &source->seats, &lowest));
}

/* ---- Values of keys ------------------------------------------------------ */

Test(open_handover, a_hand_is_decoded_as_it_was)
{
	uint8_t bytes[8 + 2 * 16];
	uint64_t in[4] = { 1, 1, UINT64_MAX, 0 }, out[4];
	struct open_hand hand = { 77, in, in + 2 }, read;

	cr_assert_eq(dfi__open_hand_bytes(65), sizeof(bytes));
	dfi__open_hand_encode(&hand, 65, bytes);
	cr_assert(dfi__open_hand_decode(
	    bytes, sizeof(bytes), 65, out, out + 2, &read));
	cr_assert_eq(read.table, 77);
	cr_assert_eq(memcmp(in, out, sizeof(in)), 0);
	cr_assert(open_bit(read.released, 64));
	cr_assert_not(open_bit(read.taken, 64));
	cr_assert_not(dfi__open_hand_decode(
	    bytes, sizeof(bytes) - 1, 65, out, out + 2, &read));
	cr_assert_not(dfi__open_hand_decode(
	    bytes, sizeof(bytes), 64, out, out + 2, &read));
}

Test(open_handover, an_assignment_is_decoded_as_it_was)
{
	uint16_t in[3] = { 4095, OPEN_NOBODY, 256 }, out[3];
	uint8_t bytes[6];

	cr_assert_eq(dfi__open_assign_bytes(3), sizeof(bytes));
	dfi__open_assign_encode(in, 3, bytes);
	cr_assert(dfi__open_assign_decode(bytes, 6, 3, out));
	cr_assert_eq(memcmp(in, out, sizeof(in)), 0);
	cr_assert_not(dfi__open_assign_decode(bytes, 6, 2, out));
	cr_assert_not(dfi__open_assign_decode(bytes, 5, 3, out));
}

Test(open_handover, positions_are_those_of_partitions_that_are_held)
{
	uint64_t memory[2 * PARTITIONS], held, positions[PARTITIONS];
	uint8_t bytes[8 + 8 * PARTITIONS];
	struct open_inputs inputs;

	dfi__open_inputs_init(&inputs, PARTITIONS, memory);
	dfi__open_inputs_take(&inputs, 3, UINT64_MAX - 1);
	propose(new);
	mark(old);
	expect_event(old, 0, true);
	dfi__open_target_release(&old->target, 0);
	cr_assert_eq(dfi__open_positions_bytes(PARTITIONS), sizeof(bytes));
	dfi__open_positions_encode(&inputs, &old->target, bytes);
	cr_assert(dfi__open_positions_decode(
	    bytes, sizeof(bytes), PARTITIONS, &held, positions));
	cr_assert_eq(held, 0xe);
	cr_assert_eq(positions[3], UINT64_MAX - 1);
	cr_assert_eq(positions[2], 0);
	cr_assert_not(dfi__open_positions_decode(
	    bytes, sizeof(bytes) - 8, PARTITIONS, &held, positions));
	/* With room for the rest of a pair's value. */
	cr_assert_leq(
	    dfi__open_positions_bytes(DFI_MAX_REPLAY_PARTITIONS), 48 << 10);
}

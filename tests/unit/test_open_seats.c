/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seats of an open flow by the registry's changes, and the names of its keys:
 * docs/open-flows.md, M1 to M3.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "flows/open/keys.h"
#include "flows/open/seats.h"

#define SOURCES 2
#define TARGETS 3

static struct open_seat memory[SOURCES + TARGETS];
static struct open_seats seats;
static struct open_events events;

/* This endpoint is target 1, of incarnation 100. */
static void setup(void)
{
	memset(memory, 0xff, sizeof(memory));
	dfi__open_seats_init(&seats, SOURCES, TARGETS, memory);
	dfi__open_seats_set_own(&seats, OPEN_TARGET, 1, 100);
}

static void put(
    enum open_role role, uint32_t seat, uint64_t incarnation, uint64_t revision)
{
	struct open_holder holder = { .incarnation = incarnation };

	dfi__open_seats_put(&seats, role, seat, &holder, revision, &events);
}

static void expect(uint32_t i, enum open_event_type type, enum open_role role,
    uint32_t seat, uint64_t incarnation)
{
	cr_assert_gt(events.n, i);
	cr_assert_eq(events.event[i].type, type);
	cr_assert_eq(events.event[i].role, role);
	cr_assert_eq(events.event[i].seat, seat);
	cr_assert_eq(events.event[i].incarnation, incarnation);
}

TestSuite(open_seats, .init = setup);

Test(open_seats, a_holder_joins_and_is_lost)
{
	put(OPEN_SOURCE, 1, 7, 20);
	cr_assert_eq(events.n, 1);
	expect(0, OPEN_JOINED, OPEN_SOURCE, 1, 7);
	cr_assert_eq(seats.n_attached[OPEN_SOURCE], 1);
	cr_assert_eq(seats.seats[OPEN_SOURCE][1].revision, 20);
	cr_assert(open_seat_is(&seats, OPEN_SOURCE, 1, 7));
	dfi__open_seats_delete(&seats, OPEN_SOURCE, 1, &events);
	cr_assert_eq(events.n, 1);
	expect(0, OPEN_LOST, OPEN_SOURCE, 1, 7);
	cr_assert_eq(seats.n_attached[OPEN_SOURCE], 0);
	cr_assert_not(open_seat_is(&seats, OPEN_SOURCE, 1, 7));
	cr_assert_not(open_seat_is(&seats, OPEN_SOURCE, 1, 0));
}

Test(open_seats, an_empty_seat_that_is_deleted_is_no_event)
{
	dfi__open_seats_delete(&seats, OPEN_TARGET, 2, &events);
	cr_assert_eq(events.n, 0);
}

Test(open_seats, the_own_key_begins_and_its_end_evicts)
{
	put(OPEN_TARGET, 0, 3, 5);
	cr_assert_eq(seats.begun, 0);
	put(OPEN_TARGET, 1, 100, 9);
	expect(0, OPEN_BEGUN, OPEN_TARGET, 1, 100);
	cr_assert_eq(seats.begun, 9);
	cr_assert_eq(seats.n_attached[OPEN_TARGET], 2);
	dfi__open_seats_delete(&seats, OPEN_TARGET, 1, &events);
	expect(0, OPEN_EVICTED, OPEN_TARGET, 1, 100);
	cr_assert(seats.evicted);
}

/* The holder of before in the same seat is no eviction, nor a beginning. */
Test(open_seats, another_incarnation_in_the_own_seat_is_another)
{
	put(OPEN_TARGET, 1, 99, 4);
	expect(0, OPEN_JOINED, OPEN_TARGET, 1, 99);
	dfi__open_seats_delete(&seats, OPEN_TARGET, 1, &events);
	expect(0, OPEN_LOST, OPEN_TARGET, 1, 99);
	cr_assert_not(seats.evicted);
	put(OPEN_TARGET, 1, 100, 6);
	expect(0, OPEN_BEGUN, OPEN_TARGET, 1, 100);
}

/* As the watch reports after the registry was away. */
Test(open_seats, a_replaced_holder_is_lost_before_the_next_joins)
{
	put(OPEN_TARGET, 2, 11, 4);
	put(OPEN_TARGET, 2, 12, 8);
	cr_assert_eq(events.n, 2);
	expect(0, OPEN_LOST, OPEN_TARGET, 2, 11);
	expect(1, OPEN_JOINED, OPEN_TARGET, 2, 12);
	cr_assert_eq(seats.n_attached[OPEN_TARGET], 1);
	cr_assert_eq(seats.seats[OPEN_TARGET][2].revision, 8);
}

Test(open_seats, a_target_that_leaves_stays_attached_and_has_ended_when_done)
{
	struct open_holder holder = { .incarnation = 11, .store_epoch = 3 };

	dfi__open_seats_put(&seats, OPEN_TARGET, 2, &holder, 4, &events);
	cr_assert(open_seat_stays(&seats, 2));
	holder.leaving = true;
	dfi__open_seats_put(&seats, OPEN_TARGET, 2, &holder, 6, &events);
	cr_assert_eq(events.n, 1);
	expect(0, OPEN_CHANGED, OPEN_TARGET, 2, 11);
	cr_assert_not(open_seat_stays(&seats, 2));
	cr_assert_eq(seats.n_attached[OPEN_TARGET], 1);
	/* It is as old as it was. */
	cr_assert_eq(seats.seats[OPEN_TARGET][2].revision, 4);
	holder.done = true;
	dfi__open_seats_put(&seats, OPEN_TARGET, 2, &holder, 8, &events);
	dfi__open_seats_delete(&seats, OPEN_TARGET, 2, &events);
	expect(0, OPEN_ENDED, OPEN_TARGET, 2, 11);
}

Test(open_seats, a_target_that_dies_while_it_leaves_is_lost)
{
	struct open_holder holder = { .incarnation = 11, .leaving = true };

	dfi__open_seats_put(&seats, OPEN_TARGET, 2, &holder, 4, &events);
	dfi__open_seats_delete(&seats, OPEN_TARGET, 2, &events);
	expect(0, OPEN_LOST, OPEN_TARGET, 2, 11);
}

static void expect_key(const struct open_key *key, const char *text)
{
	char written[OPEN_KEY_SIZE];
	struct open_key read;

	dfi__open_key_write(written, key);
	cr_assert_str_eq(written, text);
	cr_assert(
	    dfi__open_key_read(text, SOURCES, TARGETS, &read), "%s", text);
	cr_assert_eq(read.kind, key->kind);
	cr_assert_eq(read.source, key->source);
	cr_assert_eq(read.target, key->target);
	cr_assert_eq(read.number, key->number);
	cr_assert_eq(read.incarnation, key->incarnation);
}

Test(open_keys, what_is_written_is_read)
{
	expect_key(&(struct open_key){ .kind = OPEN_KEY_ASSIGN }, "assign");
	expect_key(&(struct open_key){ .kind = OPEN_KEY_GIVEN_UP, .source = 1 },
	    "given-up/1");
	expect_key(
	    &(struct open_key){
		.kind = OPEN_KEY_HAND, .target = 2, .incarnation = 77 },
	    "hand/2/77");
	expect_key(&(struct open_key){ .kind = OPEN_KEY_PAIR,
		       .target = 2,
		       .incarnation = 78,
		       .source = 1 },
	    "pairs/2/78/1");
	expect_key(&(struct open_key){ .kind = OPEN_KEY_SOURCE, .source = 0 },
	    "sources/0");
	expect_key(&(struct open_key){ .kind = OPEN_KEY_TABLE,
		       .number = 1234567890123 },
	    "tables/1234567890123");
	expect_key(&(struct open_key){ .kind = OPEN_KEY_TARGET, .target = 1 },
	    "targets/1");
	expect_key(
	    &(struct open_key){
		.kind = OPEN_KEY_LEAVE, .target = 1, .incarnation = 79 },
	    "will-leave/1/79");
	expect_key(
	    &(struct open_key){ .kind = OPEN_KEY_CUT, .number = 3 }, "cuts/3");
	expect_key(
	    &(struct open_key){
		.kind = OPEN_KEY_FLUSH, .number = 3, .incarnation = 79 },
	    "flushes/3/79");
	expect_key(
	    &(struct open_key){
		.kind = OPEN_KEY_REPORT, .number = 4, .incarnation = 80 },
	    "reports/4/80");
	expect_key(&(struct open_key){ .kind = OPEN_KEY_VIEW, .number = 5 },
	    "views/5");
}

Test(open_keys, the_longest_fits)
{
	char text[OPEN_KEY_SIZE];
	struct open_key key = { .kind = OPEN_KEY_PAIR,
		.source = UINT32_MAX,
		.target = UINT32_MAX,
		.incarnation = UINT64_MAX };

	dfi__open_key_write(text, &key);
	cr_assert_str_eq(
	    text, "pairs/4294967295/18446744073709551615/4294967295");
	key.kind = OPEN_KEY_TABLE;
	key.number = UINT64_MAX;
	dfi__open_key_write(text, &key);
	cr_assert_str_eq(text, "tables/18446744073709551615");
}

Test(open_keys, others_are_refused)
{
	static const char *const texts[] = { "", "assign/", "assigned", "hand",
		"hand/", "hand/3/7", "hand/-1/7", "hand/+1/7", "hand/01/7",
		"hand/1/7 ", "hand/1", "hand/1/", "pairs/1/7", "pairs/1/7/",
		"pairs/3/7/0", "pairs/0/7/2", "pairs/1/7/1/1", "sources/2",
		"sources/4294967296", "tables/0", "tables/x", "tables/",
		"tables/18446744073709551616", "tables/99999999999999999999",
		"targets/3", "views/0", "cuts/", "cuts/1/1", "flushes/1",
		"flushes/0/1", "reports/1/", "view/1" };
	struct open_key key;
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_assert_not(
		    dfi__open_key_read(texts[i], SOURCES, TARGETS, &key), "%s",
		    texts[i]);
}

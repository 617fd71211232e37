/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of an open flow: the fewest moves that balance, against all possible
 * tables for small sizes; epochs; what settles a table; its value. H1 to H3, H7
 * and H8 of docs/open-flows.md.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "flows/open/table.h"

#define TARGETS 4
#define PARTITIONS 7
#define MANY 16384

static struct open_seat seat_memory[1 + TARGETS];
static struct open_seats seats;
static struct open_table last, next;
static struct open_tables tables;
static void *memory[3];
static int32_t scratch[TARGETS];

static void setup(void)
{
	dfi__open_seats_init(&seats, 1, TARGETS, seat_memory);
	dfi__open_seats_set_own(&seats, OPEN_TARGET, 0, 100);
	memory[0] = malloc(dfi__open_table_size(PARTITIONS, TARGETS));
	memory[1] = malloc(dfi__open_table_size(PARTITIONS, TARGETS));
	memory[2] = malloc(dfi__open_tables_size(PARTITIONS, TARGETS));
	dfi__open_table_init(&last, PARTITIONS, TARGETS, memory[0]);
	dfi__open_table_init(&next, PARTITIONS, TARGETS, memory[1]);
	dfi__open_tables_init(&tables, PARTITIONS, TARGETS, memory[2]);
}

static void teardown(void)
{
	free(memory[0]);
	free(memory[1]);
	free(memory[2]);
}

static void attach(uint32_t target, uint64_t incarnation, bool leaving)
{
	struct open_holder holder = { .incarnation = incarnation,
		.leaving = leaving };
	struct open_events events;

	dfi__open_seats_put(&seats, OPEN_TARGET, target, &holder, 10, &events);
}

static void leave(uint32_t target)
{
	struct open_events events;

	dfi__open_seats_delete(&seats, OPEN_TARGET, target, &events);
}

static bool follow(const uint16_t *assigned)
{
	return dfi__open_table_follow(&last, &seats, assigned, scratch, &next);
}

/* The table that was computed is the last one. */
static void go_on(void)
{
	struct open_table table = last;

	last = next;
	next = table;
}

static uint32_t owned(const struct open_table *table, uint32_t target)
{
	uint32_t p, n = 0;

	for (p = 0; p < table->n_partitions; p++)
		n += table->owners[p] == target;
	return n;
}

static void expect_owners(const uint16_t *owners)
{
	uint32_t p;

	for (p = 0; p < PARTITIONS; p++)
		cr_assert_eq(next.owners[p], owners[p], "%u", p);
}

TestSuite(open_table, .init = setup, .fini = teardown);

Test(open_table, the_first_target_gets_all)
{
	uint32_t p;

	attach(2, 102, false);
	cr_assert(follow(NULL));
	cr_assert_eq(next.number, 1);
	cr_assert_eq(next.epoch, 1);
	cr_assert_eq(next.incarnations[2], 102);
	for (p = 0; p < PARTITIONS; p++) {
		cr_assert_eq(next.owners[p], 2);
		cr_assert_eq(next.from[p], OPEN_NOBODY);
	}
	go_on();
	cr_assert_not(follow(NULL), "nothing has changed");
}

Test(open_table, without_a_target_that_stays_there_is_none)
{
	cr_assert_not(follow(NULL));
	attach(1, 101, true);
	cr_assert_not(follow(NULL));
}

/* The lowest partitions move, and ties go to the lower seat. */
Test(open_table, a_target_that_joins_gets_the_lowest_of_the_fullest)
{
	attach(1, 101, false);
	follow(NULL);
	go_on();
	attach(3, 103, false);
	cr_assert(follow(NULL));
	expect_owners((uint16_t[]){ 3, 3, 3, 1, 1, 1, 1 });
	cr_assert_eq(next.from[0], 1);
	cr_assert_eq(next.from[3], 1);
	cr_assert(open_table_moves(&next, 2));
	cr_assert_not(open_table_moves(&next, 3));
	go_on();
	attach(0, 100, false);
	cr_assert(follow(NULL));
	expect_owners((uint16_t[]){ 0, 3, 3, 0, 1, 1, 1 });
}

Test(open_table, a_target_that_leaves_gives_what_it_has)
{
	attach(0, 100, false);
	attach(1, 101, false);
	follow(NULL);
	go_on();
	attach(0, 100, true);
	cr_assert(follow(NULL));
	expect_owners((uint16_t[]){ 1, 1, 1, 1, 1, 1, 1 });
	cr_assert_eq(next.from[0], 0, "it has to release them");
	leave(0);
	cr_assert(follow(NULL));
	cr_assert_eq(next.from[0], OPEN_NOBODY, "it can't release any more");
}

/* A seat with another holder: the partition moves to the same number. */
Test(open_table, the_next_incarnation_owns_nothing_of_the_last_one)
{
	attach(0, 100, false);
	follow(NULL);
	go_on();
	leave(0);
	attach(0, 200, false);
	cr_assert(follow(NULL));
	cr_assert_eq(next.owners[0], 0);
	cr_assert_eq(next.from[0], OPEN_NOBODY);
	cr_assert(open_table_moves(&next, 0));
	cr_assert_eq(next.incarnations[0], 200);
}

Test(open_table, an_assignment_replaces_the_computation_where_it_can)
{
	uint16_t wanted[PARTITIONS] = { 1, 1, 1, 1, 1, 3, OPEN_NOBODY };

	attach(0, 100, false);
	attach(1, 101, false);
	cr_assert(follow(wanted));
	/* Nobody is in seat 3: two are left, and each gets one. */
	expect_owners((uint16_t[]){ 1, 1, 1, 1, 1, 0, 1 });
	go_on();
	cr_assert_not(follow(wanted));
	attach(3, 103, false);
	cr_assert(follow(wanted));
	cr_assert_eq(next.owners[5], 3);
}

Test(open_table, an_epoch_is_above_all_that_any_store_knows)
{
	struct open_holder holder = { .incarnation = 7, .store_epoch = 41 };
	struct open_events events;

	attach(0, 100, false);
	follow(NULL);
	go_on();
	dfi__open_seats_put(&seats, OPEN_TARGET, 1, &holder, 12, &events);
	cr_assert(follow(NULL));
	cr_assert_eq(next.epoch, 42);
	go_on();
	leave(1);
	cr_assert(follow(NULL));
	cr_assert_eq(next.epoch, 43);
}

/* ---- All possible tables ------------------------------------------------- */

/* The fewest moves among all tables in which each target has its even share. */
static uint32_t fewest_moves(
    const uint16_t *owners, uint32_t n_partitions, uint32_t staying)
{
	uint32_t counts[TARGETS], p, t, tries = 1, n = 0, best = UINT32_MAX;
	uint32_t try, moves, rest;

	for (t = 0; t < TARGETS; t++)
		n += staying >> t & 1;
	for (p = 0; p < n_partitions; p++)
		tries *= TARGETS;
	for (try = 0; try < tries; try++) {
		memset(counts, 0, sizeof(counts));
		moves = 0;
		for (p = 0, rest = try; p < n_partitions; p++) {
			t = rest % TARGETS;
			rest /= TARGETS;
			counts[t]++;
			moves += owners[p] != t;
		}
		for (t = 0; t < TARGETS; t++)
			if (staying >> t & 1 ? counts[t] < n_partitions / n ||
				    counts[t] > (n_partitions + n - 1) / n
					     : counts[t] > 0)
				break;
		if (t == TARGETS && moves < best)
			best = moves;
	}
	return best;
}

static void check_one(const uint16_t *owners, uint32_t n_partitions,
    uint32_t staying, const uint16_t again[PARTITIONS])
{
	uint32_t p, moves = 0;
	bool follows;

	last.n_partitions = next.n_partitions = n_partitions;
	last.number = 1;
	memcpy(last.owners, owners, n_partitions * sizeof(*owners));
	follows = follow(NULL);
	for (p = 0; p < n_partitions; p++) {
		moves += next.owners[p] != owners[p];
		cr_assert(staying >> next.owners[p] & 1);
	}
	cr_assert_eq(follows, moves > 0);
	cr_assert_eq(moves, fewest_moves(owners, n_partitions, staying));
	if (again)
		cr_assert_eq(
		    memcmp(next.owners, again, n_partitions * sizeof(*again)),
		    0);
}

/* All owners of up to 5 partitions, with all sets of targets that leave. */
Test(open_table, no_balanced_table_has_fewer_moves)
{
	uint16_t owners[PARTITIONS], first[PARTITIONS];
	uint32_t n, p, t, staying, try, rest, tries = 1;

	for (n = 1; n <= 5; n++) {
		tries *= TARGETS;
		for (staying = 1; staying < 1 << TARGETS; staying++) {
			for (t = 0; t < TARGETS; t++) {
				attach(t, 100 + t, !(staying >> t & 1));
				last.incarnations[t] = 100 + t;
			}
			for (try = 0; try < tries; try++) {
				for (p = 0, rest = try; p < n; p++) {
					owners[p] = (uint16_t)(rest % TARGETS);
					rest /= TARGETS;
				}
				check_one(owners, n, staying, NULL);
				memcpy(first, next.owners, n * sizeof(*first));
				check_one(owners, n, staying, first);
			}
		}
	}
}

/* Joins and leaves in random order: always even, and settled after one step. */
Test(open_table, a_random_history_stays_even)
{
	uint32_t i, t, n, least, most, random = 1;

	for (i = 0; i < 2000; i++) {
		random = random * 1103515245 + 12345;
		t = random >> 16 & 3;
		if (seats.seats[OPEN_TARGET][t].holder.incarnation)
			leave(t);
		else
			attach(t, 1000 + i, false);
		if (follow(NULL))
			go_on();
		cr_assert_not(follow(NULL));
		least = PARTITIONS;
		most = 0;
		for (t = n = 0; t < TARGETS; t++) {
			if (!open_seat_stays(&seats, t))
				continue;
			n++;
			least = least < owned(&last, t) ? least
							: owned(&last, t);
			most = most > owned(&last, t) ? most : owned(&last, t);
		}
		cr_assert(n == 0 || most - least <= 1);
	}
}

/* ---- What an endpoint knows ---------------------------------------------- */

static void hand(uint64_t table, uint64_t released, uint64_t taken)
{
	struct open_hand said = { table, &released, &taken };

	dfi__open_tables_hand(&tables, &said);
}

/* Tables 1, which is settled, and 2, which moves partitions 0 to 2 from 0 to 1.
 */
static void put_two(void)
{
	attach(0, 100, false);
	attach(1, 101, true);
	cr_assert(dfi__open_tables_propose(&tables, &seats));
	cr_assert(dfi__open_tables_put(&tables, &tables.next));
	cr_assert_not(dfi__open_is_settled(&tables, &seats));
	cr_assert_not(dfi__open_tables_propose(&tables, &seats));
	hand(1, 0, 0x7f);
	cr_assert(dfi__open_is_settled(&tables, &seats));
	cr_assert_not(dfi__open_tables_propose(&tables, &seats));
	attach(1, 101, false);
	cr_assert(dfi__open_tables_propose(&tables, &seats));
	cr_assert_not(dfi__open_tables_propose(&tables, &seats), "once");
	cr_assert(dfi__open_tables_put(&tables, &tables.next));
}

Test(open_table, one_is_settled_when_all_is_released_and_taken)
{
	put_two();
	cr_assert_not(dfi__open_is_released(&tables, &seats, 0));
	cr_assert(dfi__open_is_released(&tables, &seats, 3));
	cr_assert(dfi__open_is_taken(&tables, &seats, 3));
	hand(2, 0x7, 0);
	cr_assert(dfi__open_is_released(&tables, &seats, 0));
	cr_assert_not(dfi__open_is_taken(&tables, &seats, 0));
	hand(2, 0, 0x3);
	cr_assert_not(dfi__open_is_settled(&tables, &seats));
	hand(2, 0, 0x4);
	cr_assert(dfi__open_is_settled(&tables, &seats));
}

Test(open_table, what_was_done_of_an_earlier_one_does_not_count)
{
	put_two();
	hand(1, 0x7, 0x7);
	cr_assert_not(dfi__open_is_released(&tables, &seats, 0));
	cr_assert_not(dfi__open_is_taken(&tables, &seats, 0));
}

/* The last endpoint deletes the table while others come, who saw what it had
 * said.
 */
Test(open_table, what_was_done_before_numbers_begin_anew_does_not_count)
{
	put_two();
	hand(2, 0x7, 0x7);
	leave(0);
	leave(1);
	dfi__open_tables_delete(&tables, 2);
	dfi__open_tables_restart(&tables);
	seats.evicted = false; /* as others see it */
	attach(2, 102, false);
	cr_assert(dfi__open_tables_propose(&tables, &seats));
	cr_assert_eq(tables.next.number, 1);
	cr_assert_eq(tables.next.epoch, 1);
	cr_assert(dfi__open_tables_put(&tables, &tables.next));
	cr_assert_eq(dfi__open_owner(&tables, &seats, 0), 2);
	cr_assert_not(dfi__open_is_taken(&tables, &seats, 0));
	cr_assert_not(dfi__open_is_settled(&tables, &seats));
}

/* A snapshot has "hand/" keys before "tables/". */
Test(open_table, what_was_done_may_be_known_before_the_table)
{
	hand(2, 0x7, 0x7);
	put_two();
	cr_assert(dfi__open_is_settled(&tables, &seats));
}

Test(open_table, the_dead_neither_release_nor_take)
{
	put_two();
	leave(0);
	cr_assert(dfi__open_is_released(&tables, &seats, 0));
	cr_assert_not(dfi__open_is_taken(&tables, &seats, 0));
	/* The next incarnation in its seat changes nothing. */
	attach(0, 200, false);
	cr_assert(dfi__open_is_released(&tables, &seats, 0));
	cr_assert_eq(dfi__open_owner(&tables, &seats, 0), 1);
	cr_assert_eq(dfi__open_owner(&tables, &seats, 5), OPEN_NOBODY);
	leave(1);
	cr_assert(dfi__open_is_settled(&tables, &seats));
	cr_assert_eq(dfi__open_owner(&tables, &seats, 0), OPEN_NOBODY);
	/* H8: the next table moves all that has no owner. */
	seats.evicted = false; /* as others see it */
	cr_assert(dfi__open_tables_propose(&tables, &seats));
	cr_assert_eq(owned(&tables.next, 0), PARTITIONS);
}

Test(open_table, one_that_is_not_above_the_newest_is_ignored)
{
	put_two();
	attach(2, 102, false);
	last.number = 1;
	cr_assert_not(dfi__open_tables_put(&tables, &last));
	last.number = 2;
	cr_assert_not(dfi__open_tables_put(&tables, &last));
	cr_assert_eq(tables.newest.owners[0], 1);
}

Test(open_table, nobody_proposes_before_its_own_key)
{
	attach(1, 101, false);
	cr_assert_not(dfi__open_tables_propose(&tables, &seats));
	attach(0, 100, false);
	cr_assert(dfi__open_tables_propose(&tables, &seats));
	leave(0);
	tables.proposed = 0;
	cr_assert_not(dfi__open_tables_propose(&tables, &seats), "evicted");
}

/* ---- Values -------------------------------------------------------------- */

Test(open_table, what_is_encoded_is_decoded)
{
	size_t size = dfi__open_table_bytes(PARTITIONS, TARGETS);
	uint8_t *bytes = malloc(size);

	put_two();
	leave(1);
	hand(2, 0x7f, 0x7f);
	attach(1, 111, false);
	cr_assert(dfi__open_tables_propose(&tables, &seats));
	dfi__open_table_encode(&tables.next, bytes);
	cr_assert(dfi__open_table_decode(bytes, size, &last));
	cr_assert_eq(last.number, 3);
	cr_assert_eq(last.epoch, tables.next.epoch);
	cr_assert_eq(
	    memcmp(last.owners, tables.next.owners, 2 * PARTITIONS), 0);
	cr_assert_eq(memcmp(last.from, tables.next.from, 2 * PARTITIONS), 0);
	cr_assert_eq(last.from[0], OPEN_NOBODY);
	cr_assert_eq(last.incarnations[1], 111);
	free(bytes);
}

Test(open_table, a_faulty_value_is_refused)
{
	size_t i, size = dfi__open_table_bytes(PARTITIONS, TARGETS);
	uint8_t *bytes = malloc(size);

	attach(0, 100, false);
	attach(1, 101, false);
	cr_assert(follow(NULL));
	dfi__open_table_encode(&next, bytes);
	cr_assert(dfi__open_table_decode(bytes, size, &last));
	cr_assert_not(dfi__open_table_decode(bytes, size - 1, &last));
	bytes[16]++; /* partitions */
	cr_assert_not(dfi__open_table_decode(bytes, size, &last));
	bytes[16]--;
	bytes[20]++; /* targets */
	cr_assert_not(dfi__open_table_decode(bytes, size, &last));
	bytes[20]--;
	bytes[24 + 8 * TARGETS] = 2; /* an empty seat owns partition 0 */
	cr_assert_not(dfi__open_table_decode(bytes, size, &last));
	bytes[24 + 8 * TARGETS] = TARGETS;
	cr_assert_not(dfi__open_table_decode(bytes, size, &last));
	/* Whatever the bytes are, no seat is outside. */
	for (i = 24; i < size; i++)
		bytes[i] = (uint8_t)(i * 37);
	cr_assert_not(dfi__open_table_decode(bytes, size, &last));
	memset(bytes, 0, size);
	cr_assert_not(dfi__open_table_decode(bytes, size, &last));
	free(bytes);
}

/* The largest that a value of the registry, 64 KiB, has room for. */
Test(open_table, a_value_has_room_for_16384_partitions_of_1789_targets)
{
	cr_assert_leq(dfi__open_table_bytes(MANY, 1789), 65536);
	cr_assert_gt(dfi__open_table_bytes(MANY, 1790), 65536);
}

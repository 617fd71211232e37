/* SPDX-License-Identifier: Apache-2.0 */
/* Which pending authentication has to leave when a room is full. */
#include <criterion/criterion.h>
#include <sys/resource.h>

#include "registry/server/visitors.h"

#define MAX 64

static struct visitor_room room;
static struct visitor_entry entries[10 * MAX];

static void setup(void)
{
	cr_assert_eq(dfi__visitors_init(&room, MAX), 0);
	cr_assert_eq(room.max, MAX);
	room.seed = 1; /* the same ones go each time */
}

static void teardown(void)
{
	dfi__visitors_free(&room);
}

TestSuite(visitors, .init = setup, .fini = teardown);

/* The one that had to leave for it, or NULL. */
static struct visitor_entry *enter(struct visitor_entry *entry, uint32_t origin)
{
	struct visitor_entry *excess = dfi__visitors_excess(&room, origin);

	if (excess)
		dfi__visitors_leave(&room, excess);
	dfi__visitors_enter(&room, entry, origin);
	return excess;
}

Test(visitors, one_origin_has_half_of_the_entries_and_pushes_out_itself)
{
	int i;

	enter(&entries[0], 1);
	for (i = 1; i <= MAX / 2; i++)
		cr_assert_null(enter(&entries[i], 2));
	for (; i < 10 * MAX; i++)
		cr_assert_eq(enter(&entries[i], 2)->origin, 2);
	cr_assert_eq(room.n, MAX / 2 + 1);
	cr_assert_eq(room.n_of[2], MAX / 2);
}

Test(visitors, in_a_full_room_those_of_large_origins_go)
{
	unsigned n = 0;
	int i;

	for (i = 0; i < MAX / 2 - 1; i++)
		enter(&entries[i], 1);
	for (; i < MAX; i++)
		cr_assert_null(enter(&entries[i], (uint32_t)i));
	/* Of 8 random ones all would have to be of the others. */
	for (; i < MAX + 16; i++)
		n += enter(&entries[i], (uint32_t)i)->origin == 1;
	cr_assert_eq(room.n, MAX);
	cr_assert_gt(n, 12);
}

Test(visitors, those_that_are_refused_go_before_others)
{
	unsigned n = 0;
	int i;

	for (i = 0; i < MAX; i++) {
		entries[i].spent = i % 2;
		enter(&entries[i], (uint32_t)i);
	}
	for (; i < MAX + 16; i++)
		n += enter(&entries[i], (uint32_t)i)->spent;
	cr_assert_gt(n, 12);
}

Test(visitors, any_is_none_in_an_empty_room)
{
	cr_assert_null(dfi__visitors_any(&room));
	enter(&entries[0], 7);
	cr_assert_eq(dfi__visitors_any(&room), &entries[0]);
}

Test(visitors, take_no_more_than_a_part_of_the_descriptors)
{
	struct rlimit limit = { .rlim_cur = 128, .rlim_max = 128 };
	struct visitor_room small;

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_assert_eq(dfi__visitors_init(&small, MAX), 0);
	cr_assert_eq(small.max, 16);
	dfi__visitors_free(&small);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The watermark of a target of an open flow: docs/open-flows.md, K1 to K5. */
#include <criterion/criterion.h>

#include "flows/open/watermark.h"

#define N 3

static struct open_marker memory[N];
static struct open_watermark mark;

static void begin(bool align, bool replay, int64_t idle_ns)
{
	dfi__open_watermark_init(&mark, N, align, replay, idle_ns, memory);
	cr_assert_not(dfi__open_watermark_join(&mark, 0, 0));
	cr_assert_not(dfi__open_watermark_join(&mark, 1, 0));
}

Test(open_watermark, k1_it_is_the_least_value)
{
	begin(false, false, 0);
	cr_assert_not(dfi__open_watermark_mark(&mark, 0, 5, 1));
	cr_assert_eq(mark.value, 0);
	cr_assert(dfi__open_watermark_mark(&mark, 1, 3, 1));
	cr_assert_eq(mark.value, 3);
	cr_assert(dfi__open_watermark_mark(&mark, 1, 9, 1));
	cr_assert_eq(mark.value, 5);
}

Test(open_watermark, k2_who_joins_counts_with_the_watermark)
{
	begin(false, false, 0);
	dfi__open_watermark_mark(&mark, 0, 5, 1);
	dfi__open_watermark_mark(&mark, 1, 5, 1);
	cr_assert_not(dfi__open_watermark_join(&mark, 2, 2));
	cr_assert_eq(mark.value, 5);
	dfi__open_watermark_mark(&mark, 0, 6, 1);
	dfi__open_watermark_mark(&mark, 1, 7, 1);
	cr_assert_eq(mark.value, 5, "it waits for the new one's first");
	cr_assert(dfi__open_watermark_mark(&mark, 2, 6, 1));
	cr_assert_eq(mark.value, 6);
}

Test(open_watermark, k2_who_has_ended_or_is_lost_counts_no_more)
{
	begin(false, false, 0);
	dfi__open_watermark_mark(&mark, 0, 5, 1);
	cr_assert(dfi__open_watermark_lost(&mark, 1));
	cr_assert_eq(mark.value, 5);
	cr_assert_not(dfi__open_watermark_ended(&mark, 0));
	cr_assert_eq(mark.value, 5, "with nobody it stays");
	/* A mark of nobody is dropped. */
	cr_assert_not(dfi__open_watermark_mark(&mark, 0, 9, 1));
	cr_assert_eq(mark.value, 5);
}

Test(open_watermark, k2_under_replay_who_is_lost_counts_until_given_up)
{
	begin(false, true, 10);
	dfi__open_watermark_mark(&mark, 0, 5, 1);
	dfi__open_watermark_mark(&mark, 1, 2, 1);
	cr_assert_not(dfi__open_watermark_lost(&mark, 1));
	cr_assert_not(dfi__open_watermark_quiet(&mark, 1, 100), "it is lost");
	dfi__open_watermark_mark(&mark, 0, 6, 1);
	cr_assert_eq(mark.value, 2);
	/* It returns, and repeats its marks. */
	cr_assert_not(dfi__open_watermark_join(&mark, 1, 100));
	cr_assert_not(dfi__open_watermark_given_up(&mark, 1));
	cr_assert_not(dfi__open_watermark_mark(&mark, 1, 1, 100));
	cr_assert(dfi__open_watermark_mark(&mark, 1, 4, 100));
	cr_assert_eq(mark.value, 4);
	dfi__open_watermark_lost(&mark, 1);
	cr_assert(dfi__open_watermark_given_up(&mark, 1));
	cr_assert_eq(mark.value, 6);
}

/* The rest of the last incarnation is taken after the next has joined. */
Test(open_watermark, k2_a_seat_counts_until_its_last_incarnation_is_over)
{
	begin(false, false, 0);
	dfi__open_watermark_mark(&mark, 0, 5, 1);
	dfi__open_watermark_mark(&mark, 1, 2, 1);
	cr_assert_not(dfi__open_watermark_join(&mark, 1, 1));
	cr_assert_not(dfi__open_watermark_lost(&mark, 1));
	cr_assert_eq(mark.value, 2);
	cr_assert(dfi__open_watermark_ended(&mark, 1));
	cr_assert_eq(mark.value, 5);
}

Test(open_watermark, k3_an_idle_source_is_late_until_a_mark_at_the_watermark)
{
	begin(false, false, 10);
	dfi__open_watermark_mark(&mark, 0, 5, 1);
	dfi__open_watermark_mark(&mark, 1, 2, 1);
	cr_assert_not(dfi__open_watermark_quiet(&mark, 1, 10));
	cr_assert_not(open_watermark_is_late(&mark, 1));
	cr_assert(dfi__open_watermark_quiet(&mark, 1, 11));
	cr_assert_eq(mark.value, 5);
	cr_assert(open_watermark_is_late(&mark, 1));
	open_watermark_took(&mark, 0, 5, 12);
	cr_assert_not(dfi__open_watermark_quiet(&mark, 0, 21));
	/* Its mark is below the watermark, which does not fall. */
	cr_assert_not(dfi__open_watermark_mark(&mark, 1, 3, 30));
	cr_assert_eq(mark.value, 5);
	cr_assert(open_watermark_is_late(&mark, 1));
	dfi__open_watermark_mark(&mark, 0, 8, 30);
	cr_assert_eq(mark.value, 5);
	cr_assert(dfi__open_watermark_mark(&mark, 1, 7, 30));
	cr_assert_eq(mark.value, 7);
	cr_assert_not(open_watermark_is_late(&mark, 1));
}

Test(open_watermark, k3_without_a_time_nobody_is_idle)
{
	begin(false, false, 0);
	cr_assert_not(dfi__open_watermark_quiet(&mark, 1, INT64_MAX));
}

Test(open_watermark, k4_nothing_behind_a_mark_is_taken_before_the_watermark)
{
	begin(true, false, 0);
	dfi__open_watermark_mark(&mark, 0, 5, 1);
	cr_assert_not(open_watermark_may_take(&mark, 5, false));
	cr_assert(open_watermark_may_take(&mark, 0, false));
	dfi__open_watermark_mark(&mark, 1, 4, 1);
	cr_assert_not(open_watermark_may_take(&mark, 5, false));
	cr_assert(open_watermark_may_take(&mark, 4, false));
	/* News of others raise it as well. */
	cr_assert(dfi__open_watermark_lost(&mark, 1));
	cr_assert(open_watermark_may_take(&mark, 5, false));
	cr_assert(open_watermark_is_barrier(&mark));
}

/* Or two targets that hand over might wait for each other. */
Test(open_watermark,
    k4_while_partitions_move_nobody_waits_and_no_mark_is_a_barrier)
{
	begin(true, false, 0);
	dfi__open_watermark_mark(&mark, 0, 5, 1);
	dfi__open_watermark_suspend(&mark, true);
	cr_assert(open_watermark_may_take(&mark, 5, false));
	open_watermark_took(&mark, 0, 5, 2);
	dfi__open_watermark_mark(&mark, 0, 7, 2);
	dfi__open_watermark_suspend(&mark, false);
	cr_assert_not(open_watermark_may_take(&mark, 7, false));
	cr_assert(dfi__open_watermark_mark(&mark, 1, 5, 2));
	cr_assert_not(open_watermark_is_barrier(&mark));
	cr_assert(dfi__open_watermark_mark(&mark, 1, 7, 2));
	cr_assert(open_watermark_is_barrier(&mark));
}

/* Or what its seat's next holder sends might wait for it for ever. */
Test(open_watermark, k4_the_rest_of_a_lost_source_waits_for_nobody)
{
	begin(true, true, 0);
	dfi__open_watermark_mark(&mark, 0, 5, 1);
	cr_assert_not(open_watermark_may_take(&mark, 5, false));
	cr_assert(open_watermark_may_take(&mark, 5, true));
	open_watermark_took(&mark, 0, 5, 2);
	cr_assert(dfi__open_watermark_mark(&mark, 1, 5, 2));
	cr_assert_not(open_watermark_is_barrier(&mark));
}

Test(open_watermark, k5_a_mark_that_is_not_above_the_last_is_dropped)
{
	begin(false, false, 0);
	dfi__open_watermark_mark(&mark, 0, 5, 1);
	dfi__open_watermark_mark(&mark, 1, 5, 1);
	cr_assert_not(dfi__open_watermark_mark(&mark, 1, 4, 1));
	cr_assert_not(dfi__open_watermark_mark(&mark, 1, 5, 1));
	cr_assert_eq(mark.value, 5);
}

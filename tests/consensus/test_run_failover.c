/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a fault, from the series of completions. */
#include <criterion/criterion.h>
#include <string.h>

#include "examples/consensus/run_failover.h"

/* 10 requests in each of 4000 ms, except in a part of them. */
static struct load_result result_without(uint32_t begin, uint32_t end)
{
	static uint32_t slots[4000];
	uint32_t i;

	for (i = 0; i < 4000; i++)
		slots[i] = i >= begin && i < end ? 0 : 10;
	return (struct load_result){ .slots = slots, .n_slots = 4000 };
}

static struct run_gap gap_of(double struck_s, const struct load_result *result)
{
	struct run_failover failover = { .struck_s = struck_s };
	struct run_gap gap;

	run_failover_gap(&failover, result, &gap);
	return gap;
}

Test(run_failover, gap_is_the_longest_time_without_an_answer)
{
	struct load_result result = result_without(1003, 1045);
	struct run_gap gap;

	result.slots[1500] = 0; /* a shorter one */
	gap = gap_of(1.0005, &result);
	cr_assert_float_eq(gap.ms, 42, 1e-9);
	cr_assert_float_eq(gap.begin_s, 1.003, 1e-9);
	cr_assert_float_eq(gap.before, 10000, 1e-6);
	cr_assert_float_eq(gap.after, 10000, 10);
}

Test(run_failover, gap_before_the_fault_is_not_its)
{
	struct load_result result = result_without(500, 700);
	struct run_gap gap;

	result.slots[1200] = result.slots[1201] = 0;
	gap = gap_of(1, &result);
	cr_assert_float_eq(gap.ms, 2, 1e-9);
	cr_assert_float_eq(gap.before, 8000, 1e-6);
}

Test(run_failover, service_that_does_not_come_back_is_all_gap)
{
	struct load_result result = result_without(1000, 4000);
	struct run_gap gap = gap_of(1, &result);

	cr_assert_float_eq(gap.ms, 3000, 1e-9);
	cr_assert_float_eq(gap.after, 0, 1e-9);
}

Test(run_failover, no_gap_is_none)
{
	struct load_result result = result_without(0, 0);
	struct run_gap gap = gap_of(2, &result);

	cr_assert_float_eq(gap.ms, 0, 1e-9);
	cr_assert_float_eq(gap.begin_s, 2, 1e-9);
	cr_assert_float_eq(gap.after, 10000, 1e-6);
}

/* Stopped from 1 s to 3 s: half of the requests end meanwhile. */
Test(run_failover, rates_of_a_stop_are_before_during_and_after)
{
	struct run_failover failover = {
		.victim = RUN_FOLLOWER,
		.stops = true,
		.stop_ns = 2000000000,
		.struck_s = 1,
		.back_s = 3,
	};
	struct load_result result = result_without(0, 0);
	struct run_gap gap;
	uint32_t i;

	for (i = 1000; i < 3000; i += 2)
		result.slots[i] = 0;
	for (i = 3000; i < 4000; i++)
		result.slots[i] = 20;
	run_failover_gap(&failover, &result, &gap);
	cr_assert_float_eq(gap.before, 10000, 1e-6);
	cr_assert_float_eq(gap.during, 5000, 1e-6);
	cr_assert_float_eq(gap.after, 20000, 1e-6);
	cr_assert_float_eq(gap.ms, 1, 1e-9);
}

/* The gap of a stop may come long after its begin. */
Test(run_failover, gap_is_looked_for_until_after_the_stop)
{
	struct run_failover failover = {
		.victim = RUN_LEADER,
		.stops = true,
		.stop_ns = 6000000000,
		.struck_s = 0.5,
		.back_s = 6.5,
	};
	static uint32_t slots[8000];
	struct load_result result = { .slots = slots, .n_slots = 8000 };
	struct run_gap gap;
	uint32_t i;

	for (i = 0; i < 8000; i++)
		slots[i] = i < 6600 || i >= 6700;
	run_failover_gap(&failover, &result, &gap);
	cr_assert_float_eq(gap.ms, 100, 1e-9);
	cr_assert_float_eq(gap.begin_s, 6.6, 1e-9);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The basis of dfi-bench's slow ends: they compute longer by their factor. */
#include <criterion/criterion.h>

#include "bench/slow.h"

/* Work until this thread has had so much processor time. */
static void work(uint64_t ns)
{
	uint64_t end = thread_cpu_ns() + ns;

	while (thread_cpu_ns() < end)
		continue;
}

static uint64_t time_of_work(uint32_t factor)
{
	uint64_t start = thread_cpu_ns(), begin;
	struct slow slow;

	slow_init(&slow, factor);
	begin = slow_begin(&slow);
	work(2000 * 1000);
	slow_end(&slow, begin);
	return thread_cpu_ns() - start;
}

Test(slow, work_takes_as_many_times_the_processor_time)
{
	cr_assert_geq(time_of_work(1), 2000u * 1000);
	cr_assert_geq(time_of_work(3), 5900u * 1000);
	cr_assert_geq(time_of_work(SLOW_MOST), 190000u * 1000);
}

Test(slow, an_end_that_is_not_slow_reads_no_clock)
{
	const struct slow one = { .factor = 1 }, none = { .factor = 0 };

	cr_assert_eq(slow_begin(&none), 0u);
	cr_assert_eq(slow_begin(&one), 0u);
}

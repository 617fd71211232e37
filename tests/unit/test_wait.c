/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeps without a wake-up: how often the sleeper polls by itself, in a waiting
 * call and behind a descriptor.
 */
#include <criterion/criterion.h>
#include <dfi/context.h>

#include "base/notify.h"
#include "base/wait.h"

Test(wait, for_nobody_looks_less_often_in_a_quiet_time)
{
	cr_assert_eq(wait_unwoken_ns(0), NS_PER_MS);
	cr_assert_eq(wait_unwoken_ns(100 * NS_PER_MS), NS_PER_MS);
	cr_assert_eq(wait_unwoken_ns(500 * NS_PER_MS), 5 * NS_PER_MS);
	cr_assert_eq(wait_unwoken_ns(NS_PER_S), 10 * NS_PER_MS);
	cr_assert_eq(wait_unwoken_ns(INT64_MAX), 10 * NS_PER_MS);
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

/* On a late machine there are fewer. */
Test(wait, of_two_seconds_for_nobody_takes_some_hundred_sleeps)
{
	struct wait_policy policy = dfi__wait_policy(DFI_WAIT_BLOCK);
	struct wait_time time = {
		.timeout_ns = 2 * NS_PER_S,
		.deadline = DEADLINE_NEVER,
	};
	_Atomic uint32_t word[4] = { 0 };

	policy.unwoken = true;
	cr_assert_not(wait_until(&policy, &word[0], &time, never, NULL, 1));
	/* 100 in the first tenth, 230 until 1 s, and 100 in the other. */
	cr_assert_leq(atomic_peek(&time.counts.sleeps), 450);
}

static struct notify notify;

/* How long the descriptor sleeps; some of it has passed. */
static int64_t sleep_ns(uint64_t progress)
{
	int64_t before = clock_now_ns();

	notify.timer_at = 0;
	dfi__notify_sleep(&notify, false, true, progress, DEADLINE_NEVER);
	cr_assert_geq(notify.timer_at - before, NS_PER_MS);
	return notify.timer_at - clock_now_ns();
}

Test(notify, for_nobody_looks_less_often_in_a_quiet_time)
{
	cr_assert_eq(dfi__notify_setup(), 0);
	cr_assert_eq(dfi__notify_open(&notify), 0);
	cr_assert_leq(sleep_ns(7), NS_PER_MS);
	notify.quiet_since -= 2 * NS_PER_S;
	sleep_ns(7);
	cr_assert_geq(notify.timer_at,
	    notify.quiet_since + 2 * NS_PER_S + 10 * NS_PER_MS);
	/* Something has come. */
	cr_assert_leq(sleep_ns(8), NS_PER_MS);
	dfi__notify_close(&notify);
	dfi__notify_cleanup();
}

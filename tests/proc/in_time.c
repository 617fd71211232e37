/* SPDX-License-Identifier: Apache-2.0 */
/* How long something took; see in_time.h. */
#include "in_time.h"

#include <criterion/criterion.h>
#include <string.h>
#include <time.h>

#include "../chaos/lateness.h"

#define NS_PER_MS INT64_C(1000000)

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 * NS_PER_MS + ts.tv_nsec;
}

int64_t now_ms(void)
{
	return now_ns() / NS_PER_MS;
}

void in_time_start(void)
{
	int err = lateness_start();

	cr_assert_eq(err, 0, "a thread on each processor: %s", strerror(err));
}

int64_t ms_since(int64_t then_ms)
{
	int64_t then = then_ms * NS_PER_MS, now = now_ns();

	return (now - then - lateness_between(then, now)) / NS_PER_MS;
}

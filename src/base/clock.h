/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monotonic time in nanoseconds, and deadlines: an absolute monotonic time, or
 * DEADLINE_NEVER.
 */
#ifndef DFI_BASE_CLOCK_H
#define DFI_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define DEADLINE_NEVER INT64_MAX
#define NS_PER_MS 1000000
#define NS_PER_S 1000000000

static inline int64_t clock_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static inline int64_t deadline_in_ms(uint32_t ms)
{
	return clock_now_ns() + (int64_t)ms * NS_PER_MS;
}

static inline struct timespec deadline_timespec(int64_t deadline)
{
	struct timespec ts = {
		.tv_sec = deadline / NS_PER_S,
		.tv_nsec = deadline % NS_PER_S,
	};
	return ts;
}

/*
 * Milliseconds left, rounded up, for poll(2): 0 after the deadline, -1 for
 * never.
 */
static inline int deadline_left_ms(int64_t deadline)
{
	int64_t left;

	if (deadline == DEADLINE_NEVER)
		return -1;
	left = deadline - clock_now_ns();
	if (left <= 0)
		return 0;
	left = (left + NS_PER_MS - 1) / NS_PER_MS;
	return left < INT32_MAX ? (int)left : INT32_MAX;
}

#endif

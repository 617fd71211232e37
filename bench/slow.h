/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An end that is slow on purpose: after each piece of its work it computes on,
 * so that all of it takes `factor` times as long. It keeps its processor
 * meanwhile, as a slower one would. Only the processor time of the thread
 * counts, so what others take of it does not. Reading that clock takes up to
 * half a microsecond, which is part of the time; pieces should take longer.
 */
#ifndef DFI_BENCH_SLOW_H
#define DFI_BENCH_SLOW_H

#include <stdint.h>
#include <time.h>

#define SLOW_MOST 100

struct slow {
	uint32_t factor; /* 0 or 1: not slow */
	uint64_t cost;   /* of reading the clock, ns */
};

/* Processor time of this thread so far. */
static inline uint64_t thread_cpu_ns(void)
{
	struct timespec now = { 0 };

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) +
	    (uint64_t)now.tv_nsec;
}

static inline void slow_init(struct slow *slow, uint32_t factor)
{
	uint64_t begin, cost;
	int i;

	*slow = (struct slow){ .factor = factor };
	if (factor <= 1)
		return;
	slow->cost = UINT64_MAX;
	for (i = 0; i < 20; i++) {
		begin = thread_cpu_ns();
		cost = thread_cpu_ns() - begin;
		slow->cost = cost < slow->cost ? cost : slow->cost;
	}
}

/* Before a piece of work. */
static inline uint64_t slow_begin(const struct slow *slow)
{
	return slow->factor > 1 ? thread_cpu_ns() : 0;
}

/* After it. */
static inline void slow_end(const struct slow *slow, uint64_t begin)
{
	uint64_t end, work, most;

	if (slow->factor <= 1)
		return;
	end = thread_cpu_ns();
	work = end - begin > slow->cost ? end - begin - slow->cost : 0;
	most = begin + work * slow->factor;
	while (end < most)
		end = thread_cpu_ns();
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine: clock, big memory, processors, waiting. It uses no join and no
 * flow.
 */
#include "platform.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define SMALL_PAGE ((size_t)4096)

/* Rounds of backoff_wait() that spin, and those after them that yield. */
#define SPIN_ROUNDS 64
#define YIELD_ROUNDS 256
#define SLEEP_NS 50000

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) +
	    (uint64_t)now.tv_nsec;
}

/* Less than this would leave most of a huge page unused. */
#define LEAST_BIG (HUGE_PAGE / 4)

/* The size of the mapping behind size bytes: whole huge pages and one more. */
static size_t mapping_size(size_t size)
{
	if (size < LEAST_BIG)
		return (size + SMALL_PAGE) & ~(SMALL_PAGE - 1);
	return (size + 2 * HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
}

size_t big_size(size_t size)
{
	size_t page = size < LEAST_BIG ? SMALL_PAGE : HUGE_PAGE;

	return (size + page - 1) & ~(page - 1);
}

static char *map(size_t size)
{
	char *start = mmap(NULL, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (start != MAP_FAILED)
		return start;
	complain("no memory: %zu KiB: %s", size >> 10, strerror(errno));
	return NULL;
}

void *big_alloc(size_t size)
{
	size_t mapped = mapping_size(size);
	size_t skip, rest;
	char *start;

	if (size < LEAST_BIG)
		return map(mapped);
	start = map(mapped + HUGE_PAGE);
	if (!start)
		return NULL;
	skip = (HUGE_PAGE - (uintptr_t)start % HUGE_PAGE) % HUGE_PAGE;
	rest = HUGE_PAGE - skip;
	if (skip)
		munmap(start, skip);
	start += skip;
	if (rest)
		munmap(start + mapped, rest);
	/* Without huge pages the join is slower, not wrong. */
	madvise(start, mapped, MADV_HUGEPAGE);
	return start;
}

void big_free(void *memory, size_t size)
{
	if (memory)
		munmap(memory, mapping_size(size));
}

void big_touch(void *memory, size_t size)
{
	char *bytes = memory;
	size_t i;

	for (i = 0; i < size; i += SMALL_PAGE)
		__atomic_store_n(&bytes[i], 0, __ATOMIC_RELAXED);
}

uint32_t cpu_count(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return (uint32_t)CPU_COUNT(&set);
}

void cpu_pin(uint32_t index)
{
	cpu_set_t allowed, one;
	uint32_t cpu;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	index %= (uint32_t)CPU_COUNT(&allowed);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || index-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

void backoff_wait(struct backoff *backoff)
{
	static const struct timespec interval = { 0, SLEEP_NS };

	backoff->rounds++;
	if (backoff->rounds <= SPIN_ROUNDS) {
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
	} else if (backoff->rounds <= SPIN_ROUNDS + YIELD_ROUNDS) {
		sched_yield();
	} else {
		nanosleep(&interval, NULL);
	}
}

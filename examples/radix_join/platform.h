/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's services for the join: big memory, the clock, processors. */
#ifndef RADIX_JOIN_PLATFORM_H
#define RADIX_JOIN_PLATFORM_H

#include <stddef.h>
#include <stdint.h>
#include <sched.h>
#include "../../common/complain.h"

#define CACHE_LINE 64

/* Nanoseconds of a clock that all processes of the host share. */
uint64_t now_ns(void);

/*
 * Zeroed memory in huge pages where the system has them, aligned to them. Pages
 * beyond those of big_touch() cost nothing until they are used. NULL after a
 * complaint. Free it with big_free().
 */
void *big_alloc(size_t size);
void big_free(void *memory, size_t size);

/* The memory that size bytes take when all of them are written. */
size_t big_size(size_t size);

/* Write to every page, so that no page fault falls into the measured time. */
void big_touch(void *memory, size_t size);

/* The processors that this process may use: how many, and the index-th. */
uint32_t cpu_count(void);

/* Bind the calling thread to the index-th of them. */
void cpu_pin(uint32_t index);

/* Wait a little longer each time: spin, then yield, then sleep. */
struct backoff {
	uint32_t rounds;
};
void backoff_wait(struct backoff *backoff);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A clock for single round trips: the processor's counter, where reading it is
 * cheaper than CLOCK_MONOTONIC. Its unit is measured against that clock.
 */
#ifndef DFI_BENCH_TICKS_H
#define DFI_BENCH_TICKS_H

#include <stdint.h>
#include "board.h"

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return now_ns();
#endif
}

#endif

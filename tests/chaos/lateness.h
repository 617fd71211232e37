/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How late this machine lets threads run. Limits of chaos are for the library;
 * what a busy machine, or a hypervisor, withholds from everybody is measured
 * and added. On each processor a thread wants to run every LATENESS_PERIOD_NS,
 * for no time at all, and notes when it could.
 */
#ifndef DFI_TESTS_CHAOS_LATENESS_H
#define DFI_TESTS_CHAOS_LATENESS_H

#include <stdint.h>

/*
 * Delays of some milliseconds, which any scheduler makes, hardly count: only
 * what is late at these times. A machine that stands still counts in full.
 */
#define LATENESS_PERIOD_NS INT64_C(50000000)

/* Once, before others are started. 0, or an errno value. */
int lateness_start(void);

/*
 * For how much of a time, of CLOCK_MONOTONIC, the thread of the worst processor
 * was late.
 */
int64_t lateness_between(int64_t from_ns, int64_t to_ns);

#endif

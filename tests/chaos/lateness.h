/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how late this machine lets threads run. The limits of chaos apply to
 * the library, so delays of a busy machine or a hypervisor are measured and
 * added to them. On each processor a thread wants to run every
 * LATENESS_PERIOD_NS, does no work, and records when it could.
 */
#ifndef DFI_TESTS_CHAOS_LATENESS_H
#define DFI_TESTS_CHAOS_LATENESS_H

#include <stdint.h>

/*
 * Delays of a few milliseconds are normal for any scheduler and hardly count:
 * only a thread that is late at these times counts. A machine that stands still
 * counts in full.
 */
#define LATENESS_PERIOD_NS INT64_C(50000000)

/* Call it once, before other threads start. 0, or an errno value. */
int lateness_start(void);

/*
 * How much of an interval (CLOCK_MONOTONIC) the thread of the worst processor
 * was late.
 */
int64_t lateness_between(int64_t from_ns, int64_t to_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long this process could not run: it was stopped, a thread of it waited
 * for a processor, or the machine stood still. A member that is evicted has
 * such a cause, as all that it does by plan is much shorter than the bound.
 */
#ifndef DFI_TESTS_CHAOS_OPEN_LATE_H
#define DFI_TESTS_CHAOS_OPEN_LATE_H

#include <stdint.h>

/* Shorter waits are normal for any scheduler, and don't count. */
#define OPEN_LATE_NS INT64_C(60000000)

/* Call it once, before threads that are watched start. 0, or an errno value. */
int open_late_start(void);

/* A thread waited for something else than its plan or the library. */
void open_late_note(int64_t from_ns, int64_t to_ns);

/* How much of the last ns such waits of any thread are. */
int64_t open_late_within(int64_t ns);

#endif

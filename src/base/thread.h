/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the library. Each has a name, blocks all signals, and cannot be
 * cancelled. It does not take its scheduling from the thread that starts it,
 * which may be a real-time thread that occupies a processor. It runs as
 * SCHED_OTHER, with the nice value and on the processors that the process had
 * when the library was loaded, or on those of DFI_CONTROL_CPUS.
 */
#ifndef DFI_BASE_THREAD_H
#define DFI_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/*
 * Start run(arg) on a thread with this name of at most 15 characters. 0, or an
 * errno value without a text. EDOM: DFI_CONTROL_CPUS is not valid.
 */
int dfi__thread_start(
    const char *name, void *(*run)(void *arg), void *arg, pthread_t *thread);

/* Set the text for an error of dfi__thread_start(), and return its code. */
int dfi__thread_fail(const char *name, int err) __attribute__((cold));

/* Whether the caller is a thread of the library. */
bool dfi__thread_is_ours(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Starting threads: what they are short of. */
#ifndef COMMON_THREADS_H
#define COMMON_THREADS_H

#include <pthread.h>

/*
 * As pthread_create(), with ordinary attributes. 0, or -1 after a complaint,
 * which names the limit that is too low as far as that can be told.
 */
int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

#endif

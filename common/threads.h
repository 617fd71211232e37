/* SPDX-License-Identifier: Apache-2.0 */
/* Starting threads, with an error text that names the missing resource. */
#ifndef COMMON_THREADS_H
#define COMMON_THREADS_H

#include <pthread.h>

/*
 * Like pthread_create(), with default attributes. Returns 0, or -1 after a
 * complaint, which names the limit that is too low if it can be found.
 */
int thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

#endif

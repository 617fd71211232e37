/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pthread_cancel() and calls of the library: a thread that ended within one
 * would leave locks taken, and words in shared memory half written, for which
 * others wait. So it takes effect before a call that may wait, or behind it. A
 * cancellation type of PTHREAD_CANCEL_ASYNCHRONOUS is the application's fault,
 * as in any library.
 */
#ifndef DFI_BASE_CANCEL_H
#define DFI_BASE_CANCEL_H

#include <pthread.h>

static inline int cancel_disable(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline int cancel_test_and_disable(void)
{
	pthread_testcancel();
	return cancel_disable();
}

static inline void cancel_restore(const int *state)
{
	if (*state != PTHREAD_CANCEL_DISABLE)
		pthread_setcancelstate(*state, NULL);
}

/*
 * A declaration: the thread can't be cancelled in the rest of the block. It
 * costs some nanoseconds, so calls that move tuples have it only where they
 * wait or make a system call.
 */
#define CANCEL_OFF                                       \
	__attribute__((cleanup(cancel_restore), unused)) \
	const int cancel_state = cancel_disable()

/* The same for a call that may wait: a request from before takes effect now. */
#define CANCEL_POINT                                     \
	__attribute__((cleanup(cancel_restore), unused)) \
	const int cancel_state = cancel_test_and_disable()

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pthread_cancel() and calls of the library. A thread that ended within a call
 * would leave locks taken and words in shared memory half written. So
 * cancellation takes effect before or after a call that may wait. The library
 * does not support PTHREAD_CANCEL_ASYNCHRONOUS, as most libraries don't.
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
 * A declaration that turns cancellation off for the rest of the block. It costs
 * some nanoseconds, so calls that move tuples use it only where they wait or
 * make a system call.
 */
#define CANCEL_OFF                                       \
	__attribute__((cleanup(cancel_restore), unused)) \
	const int cancel_state = cancel_disable()

/*
 * CANCEL_OFF for a call that may wait. A request made before takes effect here.
 */
#define CANCEL_POINT                                     \
	__attribute__((cleanup(cancel_restore), unused)) \
	const int cancel_state = cancel_test_and_disable()

#endif

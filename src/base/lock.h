/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock that some threads only try, in a hot loop, and for which others sleep.
 * It is a word of three states, works within one process and is not recursive.
 */
#ifndef DFI_BASE_LOCK_H
#define DFI_BASE_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include "atomic.h"
#include "compiler.h"

struct lock {
	_Atomic uint32_t state; /* enum lock_state */
};

enum lock_state {
	LOCK_FREE = 0,
	LOCK_TAKEN,
	LOCK_WANTED, /* taken, and a thread may sleep for it */
};

static inline bool lock_try(struct lock *lock)
{
	uint32_t state = LOCK_FREE;

	return atomic_peek(&lock->state) == LOCK_FREE &&
	    atomic_compare_exchange_strong_explicit(&lock->state, &state,
		LOCK_TAKEN, memory_order_acquire, memory_order_relaxed);
}

void dfi__lock_take(struct lock *lock);
void dfi__lock_wake(struct lock *lock);

static inline void lock_release(struct lock *lock)
{
	if (unlikely(atomic_exchange_explicit(&lock->state, LOCK_FREE,
			 memory_order_release) == LOCK_WANTED))
		dfi__lock_wake(lock);
}

#endif

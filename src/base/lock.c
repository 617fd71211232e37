/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow half of a lock, in which threads sleep: the mutex of Drepper's
 * "Futexes Are Tricky".
 */
#include "lock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

void dfi__lock_take(struct lock *lock)
{
	if (lock_try(lock))
		return;
	while (atomic_exchange_explicit(&lock->state, LOCK_WANTED,
		   memory_order_acquire) != LOCK_FREE)
		syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE,
		    LOCK_WANTED, NULL, NULL, 0);
}

void dfi__lock_wake(struct lock *lock)
{
	syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

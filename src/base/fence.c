/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system call behind the asymmetric fence. See membarrier(2) for the
 * guarantee: when the call returns, every running thread of every registered
 * process has passed a full barrier.
 */
#include "fence.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

bool dfi__fence_registered;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void setup(void)
{
	dfi__fence_registered = syscall(SYS_membarrier,
				    MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0,
				    0) == 0;
}

void dfi__fence_setup(void)
{
	pthread_once(&once, setup);
}

void dfi__fence_full(void)
{
#ifdef __SANITIZE_THREAD__
	/* ThreadSanitizer doesn't know fences; on x86 this is one. */
	static _Thread_local _Atomic int dummy;

	atomic_exchange_explicit(&dummy, 1, memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

bool dfi__fence_heavy(void)
{
	dfi__fence_full();
	return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) ==
	    0;
}

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

bool dfi__fence_heavy(void)
{
	fence_full();
	return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) ==
	    0;
}

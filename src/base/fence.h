/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An asymmetric fence for "publish, then look whether the peer sleeps" against
 * "say that I sleep, then look once more". Both need a store-load fence. On the
 * hot side, which runs once a segment, it would drain the store buffer into the
 * ring; so the sleeper pays for both, with membarrier(2)'s global expedited
 * command, which reaches every process that registered for it.
 */
#ifndef DFI_BASE_FENCE_H
#define DFI_BASE_FENCE_H

#include <stdatomic.h>
#include <stdbool.h>

/*
 * Whether this process is registered, so that sleepers in any process reach it.
 * Set by dfi__fence_setup() before any ring exists, constant from then on.
 */
extern bool dfi__fence_registered;

/* Register this process. Any number of times, from any thread. */
void dfi__fence_setup(void);

/* Full fence, for a process that is not registered among others. */
static inline void fence_full(void)
{
#ifdef __SANITIZE_THREAD__
	/* ThreadSanitizer doesn't know fences; on x86 this is one. */
	static _Thread_local _Atomic int dummy;

	atomic_exchange_explicit(&dummy, 1, memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* The hot side: between publishing and looking at the sleeper's word. */
static inline void fence_light(void)
{
	if (__builtin_expect(dfi__fence_registered, 1))
		atomic_signal_fence(memory_order_seq_cst);
	else
		fence_full();
}

/*
 * The sleeper's side: between storing its word and looking once more. false if
 * the kernel has no such command: then a registered peer may have missed the
 * word, and the sleep must be short.
 */
bool dfi__fence_heavy(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An asymmetric fence. One side publishes and then looks whether the peer
 * sleeps; the other announces its sleep and then looks once more. Both need a
 * store-load fence. On the hot side, once a segment, such a fence would drain
 * the store buffer into the ring. So the sleeper pays for both, with
 * membarrier(2)'s global expedited command, which reaches every registered
 * process.
 */
#ifndef DFI_BASE_FENCE_H
#define DFI_BASE_FENCE_H

#include <stdatomic.h>
#include <stdbool.h>

/*
 * Whether this process is registered, so that the fence of sleepers in any
 * process reaches it. dfi__fence_setup() sets it before any ring exists.
 */
extern bool dfi__fence_registered;

/* Register this process. Any thread may call it, any number of times. */
void dfi__fence_setup(void);

/* Full fence, for a process that is not registered. */
static inline void fence_full(void)
{
#ifdef __SANITIZE_THREAD__
	/* ThreadSanitizer does not model fences. On x86 an exchange is one. */
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
 * The sleeper's side: between storing its word and looking once more. false:
 * the kernel lacks the command, so a registered peer may have missed the word,
 * and the sleep must be short.
 */
bool dfi__fence_heavy(void);

#endif

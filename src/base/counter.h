/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of a handle. Only its owner writes them, so an addition needs no
 * locked instruction. Any thread may read them. They share no cache line with
 * words that another thread writes. DFI_COUNTERS=0 leaves out the counters that
 * only statistics need, to measure their cost (bench/README.md).
 */
#ifndef DFI_BASE_COUNTER_H
#define DFI_BASE_COUNTER_H

#include <stdint.h>
#include "atomic.h"

#ifndef DFI_COUNTERS
#define DFI_COUNTERS 1
#endif

/* Add to a word that only the calling thread writes and others may read. */
#define owned_add(word, n) atomic_set((word), atomic_peek(word) + (n))

static inline void counter_add(_Atomic uint64_t *counter, uint64_t n)
{
	if (DFI_COUNTERS)
		owned_add(counter, n);
}

#endif

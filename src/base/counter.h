/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of a handle. Its owner alone writes them, so an addition takes no
 * locked instruction; any thread may read them, and none of them shares a cache
 * line with what another thread writes.
 *
 * DFI_COUNTERS=0 leaves out those that nothing but statistics needs, to measure
 * what they cost (bench/README.md).
 */
#ifndef DFI_BASE_COUNTER_H
#define DFI_BASE_COUNTER_H

#include <stdint.h>
#include "atomic.h"

#ifndef DFI_COUNTERS
#define DFI_COUNTERS 1
#endif

/* Add to a word of the calling thread that others may read. */
#define owned_add(word, n) atomic_set((word), atomic_peek(word) + (n))

static inline void counter_add(_Atomic uint64_t *counter, uint64_t n)
{
	if (DFI_COUNTERS)
		owned_add(counter, n);
}

#endif

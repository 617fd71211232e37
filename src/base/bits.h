/* SPDX-License-Identifier: Apache-2.0 */
/* Small arithmetic on sizes. */
#ifndef DFI_BASE_BITS_H
#define DFI_BASE_BITS_H

#include <stdint.h>

#define CACHE_LINE 64

/* Round up to a multiple of align, a power of two. */
static inline uint64_t align_up(uint64_t value, uint64_t align)
{
	return (value + align - 1) & ~(align - 1);
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif

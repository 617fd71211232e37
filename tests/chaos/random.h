/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that a seed determines, for plans. */
#ifndef DFI_TESTS_CHAOS_RANDOM_H
#define DFI_TESTS_CHAOS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

static inline uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static inline uint32_t below(struct rng *rng, uint32_t n)
{
	rng->state += UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)((mix(rng->state) >> 32) * n >> 32);
}

static inline uint32_t between(struct rng *rng, uint32_t low, uint32_t high)
{
	return low + below(rng, high - low + 1);
}

static inline bool one_in(struct rng *rng, uint32_t n)
{
	return below(rng, n) == 0;
}

/* The rest of a tuple that follows from its key. */
static inline unsigned char tuple_byte(uint64_t key, uint32_t i)
{
	return (unsigned char)((key >> i % 8 * 8) + i);
}

#endif

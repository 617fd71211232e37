/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitioning small tuples consists mostly of 64-bit multiplications. AVX-512
 * does several at once. Vectors have 4 words, not 8, because some processors
 * lower their clock for wider ones.
 */
#include "target_list.h"

#include <stddef.h>
#include <string.h>
#include <dfi/route.h>

#if defined(__x86_64__)

#define LANES 4

typedef uint64_t words __attribute__((vector_size(8 * LANES)));
typedef uint32_t numbers __attribute__((vector_size(4 * LANES)));

bool dfi__lists_targets(void)
{
	return __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512vl");
}

static inline uint64_t key_at(const char *first_key, size_t offset)
{
	uint64_t key;

	memcpy(&key, first_key + offset, sizeof(key));
	return key;
}

/* The steps of dfi_hash64_partition(). */
__attribute__((target("avx512dq,avx512vl"))) void dfi__list_targets(
    const char *first_key, uint32_t n, uint32_t tuple_size, uint32_t n_targets,
    uint32_t *targets)
{
	const size_t size = tuple_size;
	const char *key = first_key;
	numbers four;
	words hash;
	uint32_t i;

	for (i = 0; i + LANES <= n; i += LANES, key += LANES * size) {
		hash = (words){ key_at(key, 0), key_at(key, size),
			key_at(key, 2 * size), key_at(key, 3 * size) };
		hash ^= hash >> 33;
		hash *= UINT64_C(0xff51afd7ed558ccd);
		hash ^= hash >> 33;
		hash *= UINT64_C(0xc4ceb9fe1a85ec53);
		hash = ((hash >> 32) * n_targets) >> 32;
		four = __builtin_convertvector(hash, numbers);
		memcpy(&targets[i], &four, sizeof(four));
	}
	for (; i < n; i++, key += size)
		targets[i] = dfi_hash64_partition(key_at(key, 0), n_targets);
}

#else

bool dfi__lists_targets(void)
{
	return false;
}

void dfi__list_targets(const char *first_key, uint32_t n, uint32_t tuple_size,
    uint32_t n_targets, uint32_t *targets)
{
	uint64_t key;
	uint32_t i;

	for (i = 0; i < n; i++) {
		memcpy(&key, first_key + (size_t)i * tuple_size, sizeof(key));
		targets[i] = dfi_hash64_partition(key, n_targets);
	}
}

#endif

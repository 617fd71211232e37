/* SPDX-License-Identifier: Apache-2.0 */
/* The routing functions of flows, for partitioning that agrees with them. */
#ifndef DFI_ROUTE_H
#define DFI_ROUTE_H

#include <stddef.h>
#include <stdint.h>
#include <dfi/export.h>

DFI_BEGIN_DECLS

/*
 * The hash of an integer key, sign- or zero-extended to 64 bits by the field's
 * type. Invertible; the multiply-xorshift finaliser of MurmurHash3 (Appleby).
 */
DFI_INLINE uint64_t dfi_hash64(uint64_t key)
{
	key ^= key >> 33;
	key *= UINT64_C(0xff51afd7ed558ccd);
	key ^= key >> 33;
	key *= UINT64_C(0xc4ceb9fe1a85ec53);
	key ^= key >> 33;
	return key;
}

/*
 * The hash of a byte-array key: XXH3 (Collet) of its size bytes, with seed. A
 * key of several fields chains: the first one has seed 0 (an integer takes
 * dfi_hash64()), each next one has the hash so far as seed, and an integer then
 * counts as its 8 extended bytes in the host's order. Other types count as
 * their bytes: 0.0 and -0.0 differ, and so does padding of a user type.
 */
DFI_API uint64_t dfi_hash_bytes(const void *bytes, size_t size, uint64_t seed);

/* A hash's partition of n (1 to 2^32 - 1): its upper 32 bits, scaled to n. */
DFI_INLINE uint32_t dfi_hash_partition(uint64_t hash, uint32_t n)
{
	return DFI_CAST(uint32_t, ((hash >> 32) * n) >> 32);
}

/* dfi_hash_partition(dfi_hash64(key), n), less the last, needless step. */
DFI_INLINE uint32_t dfi_hash64_partition(uint64_t key, uint32_t n)
{
	key ^= key >> 33;
	key *= UINT64_C(0xff51afd7ed558ccd);
	key ^= key >> 33;
	key *= UINT64_C(0xc4ceb9fe1a85ec53);
	return dfi_hash_partition(key, n);
}

/*
 * The target, of n (at most 2^bits), that has a key's radix partition: (key >>
 * shift) mod 2^bits. Each target has consecutive partitions.
 */
DFI_INLINE uint32_t dfi_radix_partition(
    uint64_t key, uint32_t shift, uint32_t bits, uint32_t n)
{
	uint64_t partition = (key >> shift) & ((UINT64_C(1) << bits) - 1);

	return DFI_CAST(uint32_t, (partition * n) >> bits);
}

DFI_END_DECLS

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The routing functions of flows, for applications whose own partitioning must
 * agree with them.
 */
#ifndef DFI_ROUTE_H
#define DFI_ROUTE_H

#include <stddef.h>
#include <stdint.h>
#include <dfi/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The hash of an integer key: of the value, sign- or zero-extended to 64 bits
 * by the field's type. Invertible; the multiply-xorshift finaliser of
 * MurmurHash3 (Appleby).
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
 * key of several fields chains: the first field is hashed with seed 0 (integers
 * by dfi_hash64()), and each next one as bytes, integers as their 8 extended
 * bytes in the host's order, with the hash so far as seed. Fields of all types
 * but integers are hashed as the bytes that they are: 0.0 and -0.0 differ, and
 * so does what is in a user type's padding.
 */
DFI_API uint64_t dfi_hash_bytes(const void *bytes, size_t size, uint64_t seed);

/*
 * The one of n partitions (1 to 2^32 - 1) that a hash falls into: the upper 32
 * bits, scaled to n. No division.
 */
DFI_INLINE uint32_t dfi_hash_partition(uint64_t hash, uint32_t n)
{
	return DFI_CAST(uint32_t, ((hash >> 32) * n) >> 32);
}

/*
 * dfi_hash_partition(dfi_hash64(key), n), without the hash's last step: that
 * changes the lower bits only.
 */
DFI_INLINE uint32_t dfi_hash64_partition(uint64_t key, uint32_t n)
{
	key ^= key >> 33;
	key *= UINT64_C(0xff51afd7ed558ccd);
	key ^= key >> 33;
	key *= UINT64_C(0xc4ceb9fe1a85ec53);
	return dfi_hash_partition(key, n);
}

/*
 * The one of n targets (at most 2^bits) whose range of partitions holds a key's
 * radix partition, (key >> shift) mod 2^bits: each target takes consecutive
 * partitions.
 */
DFI_INLINE uint32_t dfi_radix_partition(
    uint64_t key, uint32_t shift, uint32_t bits, uint32_t n)
{
	uint64_t partition = (key >> shift) & ((UINT64_C(1) << bits) - 1);

	return DFI_CAST(uint32_t, (partition * n) >> bits);
}

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The size of default rings, by the caches and the number of rings. */
#include <criterion/criterion.h>

#include "flows/declare/geometry.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

Test(geometry, few_rings_are_larger_than_the_second_level_caches_of_two_cores)
{
	cr_assert_eq(dfi__geometry_ring_bytes(1 * MIB, 1, 1), 4 * MIB);
	cr_assert_eq(dfi__geometry_ring_bytes(2 * MIB, 1, 1), 8 * MIB);
	cr_assert_eq(dfi__geometry_ring_bytes(1 * MIB, 2, 2), 4 * MIB);
	cr_assert_eq(dfi__geometry_ring_bytes(1 * MIB, 1, 4), 4 * MIB);
}

Test(geometry, a_ring_has_bounds_whatever_the_cache)
{
	cr_assert_eq(dfi__geometry_ring_bytes(0, 1, 1), 4 * MIB);
	cr_assert_eq(dfi__geometry_ring_bytes(128 * KIB, 1, 1), 1 * MIB);
	cr_assert_eq(dfi__geometry_ring_bytes(256 * MIB, 1, 1), 8 * MIB);
}

Test(geometry, many_rings_share)
{
	cr_assert_eq(dfi__geometry_ring_bytes(1 * MIB, 4, 4), 1 * MIB);
	cr_assert_eq(dfi__geometry_ring_bytes(2 * MIB, 2, 2), 4 * MIB);
	cr_assert_eq(dfi__geometry_ring_bytes(2 * MIB, 16, 16), 64 * KIB);
	/* The flow has 16 MiB, as far as each ring then has 128 KiB. */
	cr_assert_eq(dfi__geometry_ring_bytes(2 * MIB, 1, 64), 256 * KIB);
	cr_assert_eq(dfi__geometry_ring_bytes(2 * MIB, 1, 128), 128 * KIB);
	cr_assert_eq(dfi__geometry_ring_bytes(2 * MIB, 1, 256), 128 * KIB);
	/* A target has 1 MiB, as far as a ring has no more than 128 KiB. */
	cr_assert_eq(dfi__geometry_ring_bytes(2 * MIB, 8, 256), 128 * KIB);
	cr_assert_eq(dfi__geometry_ring_bytes(2 * MIB, 64, 64), 16 * KIB);
	cr_assert_eq(dfi__geometry_ring_bytes(2 * MIB, 4096, 4096), 256);
}

Test(geometry, a_ring_for_all_targets_has_what_they_would_have)
{
	cr_assert_eq(dfi__geometry_shared_ring_bytes(1 * MIB, 1, 1), 4 * MIB);
	cr_assert_eq(dfi__geometry_shared_ring_bytes(1 * MIB, 1, 2), 8 * MIB);
	cr_assert_eq(dfi__geometry_shared_ring_bytes(1 * MIB, 1, 4), 16 * MIB);
	cr_assert_eq(dfi__geometry_shared_ring_bytes(2 * MIB, 1, 2), 16 * MIB);
	/* But not more than the flow. */
	cr_assert_eq(dfi__geometry_shared_ring_bytes(1 * MIB, 1, 64), 16 * MIB);
	cr_assert_eq(dfi__geometry_shared_ring_bytes(1 * MIB, 4, 3), 4 * MIB);
	cr_assert_eq(dfi__geometry_shared_ring_bytes(1 * MIB, 4, 8), 4 * MIB);
	/* Many sources: as one target of theirs. */
	cr_assert_eq(dfi__geometry_shared_ring_bytes(1 * MIB, 16, 16), 1 * MIB);
	cr_assert_eq(
	    dfi__geometry_shared_ring_bytes(1 * MIB, 64, 4), 256 * KIB);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the tables of one process begin to look for keys. Other processes
 * choose the keys, and could choose keys that all begin at one slot. So the
 * bucket depends on a factor that they don't know. Routing doesn't use it,
 * since that is the same everywhere.
 */
#ifndef DFI_FLOWS_AGGREGATE_SPREAD_H
#define DFI_FLOWS_AGGREGATE_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Draw a random odd factor. The upper bits of its products are far apart for
 * consecutive keys, even shifted ones, and as far apart as random numbers for
 * other keys. -EIO.
 */
int dfi__spread_draw(uint64_t *factor);

/* Whether an odd factor spreads consecutive keys; for tests. */
bool dfi__spread_is_even(uint64_t factor);

/* All bits of the result depend on all bits of the word. */
static inline uint64_t spread_hash(uint64_t factor, uint64_t word)
{
	word *= factor;
	word ^= word >> 32;
	word *= UINT64_C(0xc4ceb9fe1a85ec53);
	return word ^ word >> 33;
}

#endif

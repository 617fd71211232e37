/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where keys begin to be looked for in the tables of one process. Others choose
 * the keys, and would choose them all for one place. So it depends on a factor
 * that they don't know. Routing has nothing to do with it: that is the same for
 * all.
 */
#ifndef DFI_FLOWS_AGGREGATE_SPREAD_H
#define DFI_FLOWS_AGGREGATE_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A random odd factor. The upper bits of its products send consecutive keys far
 * apart, also if they were shifted up, and keep apart any other keys as chance
 * does. -EIO.
 */
int dfi__spread_draw(uint64_t *factor);

/* Whether an odd factor sends consecutive keys apart; for tests. */
bool dfi__spread_is_even(uint64_t factor);

/* All bits of such a product depend on all of the word. */
static inline uint64_t spread_hash(uint64_t factor, uint64_t word)
{
	word *= factor;
	word ^= word >> 32;
	word *= UINT64_C(0xc4ceb9fe1a85ec53);
	return word ^ word >> 33;
}

#endif

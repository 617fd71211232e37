/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of endpoints of one role, or of partitions, as texts. */
#ifndef DFI_FLOWS_DECLARE_PRESENT_H
#define DFI_FLOWS_DECLARE_PRESENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "flows/descriptor/descriptor.h"

struct present {
	uint64_t bits[DFI_MAX_ENDPOINTS / 64];
};

static inline void present_set(struct present *present, uint64_t index)
{
	if (index < DFI_MAX_ENDPOINTS)
		present->bits[index / 64] |= UINT64_C(1) << index % 64;
}

static inline bool present_has(const struct present *present, uint32_t index)
{
	return present->bits[index / 64] >> index % 64 & 1;
}

/*
 * List those of n that are in the set, or that are not, as "0, 2-5". A long
 * list ends in "...".
 */
void dfi__present_list(
    const uint64_t *bits, uint32_t n, bool in, char *text, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding groups and folding in one loop, for keys of one word in tables that
 * caches hold. There the time goes into mispredicted probes and into waiting
 * for tuples; a second loop over the same tuples would wait once more.
 */
#ifndef DFI_FLOWS_AGGREGATE_SINGLE_H
#define DFI_FLOWS_AGGREGATE_SINGLE_H

#include <stddef.h>
#include <stdint.h>
#include "groups.h"

/* Tuples, or records, stride bytes from one another. */
struct single_input {
	const char *from;
	size_t stride;
	uint32_t key_offset;  /* of 8 bytes in each of them */
	const uint64_t *keys; /* or all keys lie here; else NULL */
};

/* NULL: there is none for such a fold. */
single_loop *dfi__single_loop(const struct fold *fold);

#endif

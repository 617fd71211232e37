/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds groups and folds in one loop, for keys of one word in tables that fit
 * the caches. In these, mispredicted probes and waiting for tuples take the
 * time, and a second loop over the tuples would wait again.
 */
#ifndef DFI_FLOWS_AGGREGATE_SINGLE_H
#define DFI_FLOWS_AGGREGATE_SINGLE_H

#include <stddef.h>
#include <stdint.h>
#include "groups.h"

/* Tuples, or records, stride bytes apart. */
struct single_input {
	const char *from;
	size_t stride;
	uint32_t key_offset;  /* of the 8-byte key in each of them */
	const uint64_t *keys; /* adjacent keys; NULL: use key_offset */
};

/* NULL: there is no loop for such a fold. */
single_loop *dfi__single_loop(const struct fold *fold);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The targets of many tuples at once, by the hash of one 8-byte integer. It
 * uses vector instructions that not every processor of the architecture has.
 */
#ifndef DFI_FLOWS_KINDS_SHUFFLE_TARGET_LIST_H
#define DFI_FLOWS_KINDS_SHUFFLE_TARGET_LIST_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether this processor has these instructions. Without them, a list is slower
 * than computing each target where it is used.
 */
bool dfi__lists_targets(void);

/*
 * Set targets[i] to dfi_hash64_partition() of the key of tuple i. The n tuples
 * of tuple_size bytes are adjacent, first_key is the key of the first one, and
 * n_targets is not 0. Call it only if dfi__lists_targets().
 */
void dfi__list_targets(const char *first_key, uint32_t n, uint32_t tuple_size,
    uint32_t n_targets, uint32_t *targets);

#endif

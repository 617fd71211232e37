/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitioning an array of tuples by the most common keys: one 8-byte integer,
 * by its hash or by radix.
 */
#ifndef DFI_FLOWS_KINDS_SHUFFLE_PARTITION_H
#define DFI_FLOWS_KINDS_SHUFFLE_PARTITION_H

#include "flows/endpoint/source.h"

/* Whether the source's flow has such a key. */
bool dfi__partitions(const struct dfi_source *source);

/*
 * Copy n tuples to the lanes of their targets. lists: dfi__lists_targets().
 * Returns how many were taken; if fewer than n, *ret has the error.
 */
uint32_t dfi__partition(struct dfi_source *source, const char *tuples,
    uint32_t n, bool lists, int *ret);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checksum of a segment: of its tuples, and of its number and size, so that
 * one that lies in another's place is found, too.
 */
#ifndef DFI_BUFFERS_CHECKSUM_H
#define DFI_BUFFERS_CHECKSUM_H

#include <stdint.h>

/* state: the second word of its footer. */
uint64_t dfi__segment_checksum(
    const char *payload, uint64_t used, uint64_t state);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checksum of a segment. It covers the tuples and the segment's number,
 * size, position, target set and window end. So it also detects a segment that
 * lies in the slot of another one.
 */
#ifndef DFI_BUFFERS_CHECKSUM_H
#define DFI_BUFFERS_CHECKSUM_H

#include <stdint.h>
#include "ring.h"

/*
 * state is the second word of the footer. If segments have a header, it lies
 * before the payload, and the checksum covers its members except the checksum.
 */
uint64_t dfi__segment_checksum(
    const struct ring_geometry *geometry, const char *payload, uint64_t state);

/* Only for segments that have a header. */
static inline struct segment_header *segment_header(
    const struct ring_geometry *geometry, const char *payload)
{
	return (struct segment_header *)(uintptr_t)(payload -
	    geometry->payload_offset);
}

#endif

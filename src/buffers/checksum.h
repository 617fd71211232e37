/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checksum of a segment: of its tuples, and of its number, size, place,
 * targets and window's end, so that one that lies in another's place is found,
 * too.
 */
#ifndef DFI_BUFFERS_CHECKSUM_H
#define DFI_BUFFERS_CHECKSUM_H

#include <stdint.h>
#include "ring.h"

/*
 * state: the second word of its footer. The header lies before the payload;
 * what it says beside the checksum counts, if segments have it.
 */
uint64_t dfi__segment_checksum(const struct ring_geometry *geometry,
    const char *payload, uint64_t used, uint64_t state);

/* The header of a segment that has one. */
static inline struct segment_header *segment_header(
    const struct ring_geometry *geometry, const char *payload)
{
	return (struct segment_header *)(uintptr_t)(payload -
	    geometry->payload_offset);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring geometry: pure functions from a flow's numbers to offsets in a region.
 * Both ends compute the same from what the flow's descriptor says.
 */
#ifndef DFI_BUFFERS_RING_H
#define DFI_BUFFERS_RING_H

#include <stdint.h>
#include "segment.h"

/* Sequence number of the first segment of every ring of a flow. */
#define RING_FIRST_SEGMENT 0

struct ring_geometry {
	uint32_t tuple_size;
	uint32_t segment_tuples; /* tuples of a full segment */
	uint32_t segment_bytes;  /* payload bytes of a full segment */
	uint32_t segment_count;
	uint32_t footer_offset; /* in a slot */
	uint32_t slot_size;
	uint64_t ring_size;
};

/* tuple_size <= segment_size <= DFI_MAX_SEGMENT_SIZE; segment_count > 0. */
static inline struct ring_geometry ring_geometry(
    uint32_t tuple_size, uint32_t segment_size, uint32_t segment_count)
{
	struct ring_geometry g = {
		.tuple_size = tuple_size,
		.segment_tuples = segment_size / tuple_size,
		.segment_count = segment_count,
	};

	g.segment_bytes = g.segment_tuples * tuple_size;
	g.footer_offset = (uint32_t)align_up(
	    segment_size, sizeof(struct segment_footer));
	g.slot_size = (uint32_t)align_up(
	    g.footer_offset + sizeof(struct segment_footer),
	    g.footer_offset + sizeof(struct segment_footer) > CACHE_LINE
		? 2 * CACHE_LINE
		: CACHE_LINE);
	g.ring_size = align_up(
	    sizeof(struct ring_header) + (uint64_t)g.slot_size * segment_count,
	    2 * CACHE_LINE);
	return g;
}

/* Offset of the ring of a source in its target's region. */
static inline uint64_t ring_offset(
    const struct ring_geometry *g, uint32_t source)
{
	return sizeof(struct region_header) + g->ring_size * source;
}

/* Offset of a slot in its ring. */
static inline uint64_t slot_offset(const struct ring_geometry *g, uint32_t slot)
{
	return sizeof(struct ring_header) + (uint64_t)g->slot_size * slot;
}

static inline uint64_t region_size(
    const struct ring_geometry *g, uint32_t n_sources)
{
	return sizeof(struct region_header) + g->ring_size * n_sources;
}

/* Slots are walked in order; this needs no division and survives wrap-around.
 */
static inline uint32_t next_slot(const struct ring_geometry *g, uint32_t slot)
{
	return slot + 1 == g->segment_count ? 0 : slot + 1;
}

/*
 * How many segments a reader keeps before it publishes its consumed count: a
 * quarter of the ring, so that neither side idles and the word rarely moves.
 */
static inline uint32_t credit_batch(const struct ring_geometry *g)
{
	return g->segment_count >= 4 ? g->segment_count / 4 : 1;
}

#endif

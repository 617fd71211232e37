/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring geometry: pure functions from a flow's numbers to offsets in a region.
 * Both ends compute the same values from the flow's descriptor.
 */
#ifndef DFI_BUFFERS_RING_H
#define DFI_BUFFERS_RING_H

#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "segment.h"

/* Sequence number of the first segment of every ring of a flow. */
#define RING_FIRST_SEGMENT 0

/* The members of struct segment_header that a flow's segments have. */
enum segment_parts {
	SEGMENT_CHECKSUM = 1,
	SEGMENT_GLOBAL = 2,
	SEGMENT_TARGETS = 4,
	SEGMENT_MARK = 8,
	SEGMENT_RECORDS = 16,
	SEGMENT_TABLES = 32,
	SEGMENT_INPUTS = 64, /* and records, for bytes */
};

struct ring_geometry {
	uint32_t tuple_size;
	uint32_t segment_tuples; /* tuples of a full segment */
	uint32_t segment_bytes;  /* payload bytes of a full segment */
	uint32_t segment_count;
	uint32_t parts;          /* enum segment_parts */
	uint32_t payload_offset; /* in a slot: 0, or the size of the header */
	int32_t footer_offset;   /* from a slot; below 0: FOOTER_IN_FRONT */
	uint32_t slot_size;      /* from one slot to the next */
	bool apart; /* the slots are in another region: shared_ring.h */
	uint32_t first_slot; /* in the ring */
	uint64_t ring_size;
};

/*
 * tuple_size <= segment_size <= DFI_MAX_SEGMENT_SIZE; segment_count > 0. In
 * front, the footer of a lone tuple without a header shares a cache line with
 * it; any other slot begins on a cache line, and the footer ends there.
 */
static inline struct ring_geometry ring_geometry_with(uint32_t tuple_size,
    uint32_t segment_size, uint32_t segment_count, uint32_t parts,
    enum footer_side footer_side)
{
	const uint32_t footer_size = sizeof(struct segment_footer);
	struct ring_geometry g = {
		.tuple_size = tuple_size,
		.segment_tuples = segment_size / tuple_size,
		.segment_count = segment_count,
		.parts = parts,
		.payload_offset = parts ? sizeof(struct segment_header) : 0,
	};
	uint32_t in_front = 0, end;

	g.segment_bytes = g.segment_tuples * tuple_size;
	end = (uint32_t)align_up(g.payload_offset + segment_size, footer_size);
	if (footer_side == FOOTER_IN_FRONT) {
		g.footer_offset = -(int32_t)footer_size;
		in_front = parts || g.segment_tuples > 1 ? CACHE_LINE
							 : footer_size;
	} else {
		g.footer_offset = (int32_t)end;
		end += footer_size;
	}
	g.first_slot = (uint32_t)sizeof(struct ring_header) + in_front;
	g.slot_size = (uint32_t)align_up(in_front + end,
	    in_front + end > CACHE_LINE ? 2 * CACHE_LINE : CACHE_LINE);
	g.ring_size = align_up(
	    sizeof(struct ring_header) + (uint64_t)g.slot_size * segment_count,
	    2 * CACHE_LINE);
	return g;
}

static inline struct ring_geometry ring_geometry(
    uint32_t tuple_size, uint32_t segment_size, uint32_t segment_count)
{
	return ring_geometry_with(
	    tuple_size, segment_size, segment_count, 0, FOOTER_BEHIND);
}

/*
 * The geometry of the targets' rings if the slots are in the source's region.
 */
static inline struct ring_geometry ring_geometry_apart(struct ring_geometry g)
{
	g.apart = true;
	g.ring_size = sizeof(struct ring_header);
	return g;
}

/*
 * The geometry of the slots of a shared ring of that many segments which its
 * readers move to and from: its writer has room for the move however full the
 * ring is.
 */
static inline struct ring_geometry ring_geometry_moved(
    struct ring_geometry g, uint32_t segment_count)
{
	g.segment_count = segment_count + 1;
	g.ring_size = align_up(sizeof(struct ring_header) +
		(uint64_t)g.slot_size * g.segment_count,
	    2 * CACHE_LINE);
	return g;
}

/* Initialise the header of a ring whose first segment has number start. */
static inline void ring_header_init(struct ring_header *header, uint64_t start)
{
	atomic_set(&header->credit.consumed, start);
	atomic_set(&header->credit.closed, RING_OPEN);
	atomic_set(&header->writer_waits, 0);
	atomic_set(&header->writer_name, 0);
	atomic_set(&header->end.total, 0);
	atomic_set(&header->end.state, 0);
	atomic_set(&header->slots.total, 0);
	atomic_set(&header->slots.state, footer_state(start - 1, 0, 0));
}

/* Offset of the ring of a source in its target's region. */
static inline uint64_t ring_offset(
    const struct ring_geometry *g, uint32_t source)
{
	return sizeof(struct region_header) + g->ring_size * source;
}

/* What a transport needs to know about the rings. */
static inline struct ring_layout ring_layout(
    const struct ring_geometry *g, uint32_t n_sources)
{
	return (struct ring_layout){
		.n_rings = n_sources,
		.first_ring = ring_offset(g, 0),
		.ring_size = g->ring_size,
		.wait_offset = offsetof(struct ring_header, writer_waits),
		.end_footer = offsetof(struct ring_header, end),
		.first_slot = g->first_slot,
		.slot_size = g->slot_size,
		.n_slots = g->segment_count,
		.shape = {
			.payload_offset = g->payload_offset,
			.footer_offset = g->footer_offset,
			.tuple_size = g->tuple_size,
			.segment_bytes = g->segment_bytes,
			.segment_tuples = g->segment_tuples,
		},
		.first_footer[1] = footer_state(
		    RING_FIRST_SEGMENT - UINT64_C(1), 0, 0),
	};
}

/* Offset of a slot in its ring. */
static inline uint64_t slot_offset(const struct ring_geometry *g, uint32_t slot)
{
	return g->first_slot + (uint64_t)g->slot_size * slot;
}

static inline uint64_t region_size(
    const struct ring_geometry *g, uint32_t n_sources)
{
	return sizeof(struct region_header) + g->ring_size * n_sources;
}

/* Slots are used in turn. This needs no division and survives wrap-around. */
static inline uint32_t next_slot(const struct ring_geometry *g, uint32_t slot)
{
	return slot + 1 == g->segment_count ? 0 : slot + 1;
}

/*
 * How many segments a reader keeps before it publishes its consumed count. With
 * a quarter of the ring neither side idles, and the word's cache line rarely
 * moves.
 */
static inline uint32_t credit_batch(const struct ring_geometry *g)
{
	return g->segment_count >= 4 ? g->segment_count / 4 : 1;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a target's rings.
 *
 * A target owns one region, with one ring for each source. All counters run
 * free and wrap. The slots of a ring are filled in turn.
 *
 *	region  +---------------+--------+--------+----
 *	        | region_header | ring 0 | ring 1 | ...
 *	        +---------------+--------+--------+----
 *	ring    +-------------+--------+--------+----
 *	        | ring_header | slot 0 | slot 1 | ...
 *	        +-------------+--------+--------+----
 *	slot    +--------+-----------------------+----------------+-----+
 *	        | header | payload: whole tuples | segment_footer | pad |
 *	        +--------+-----------------------+----------------+-----+
 *
 *	or      +-----+----------------+
 *	        | pad | segment_footer | in front of
 *	        +-----+----------------+
 *	slot    +--------+-----------------------+-----+
 *	        | header | payload: whole tuples | pad |
 *	        +--------+-----------------------+-----+
 *
 * The payload of a segment without tuples may be a mark (FOOTER_MARK).
 *
 * Slots have a segment_header only if the flow is verified or ordered, has
 * target sets, windows, partitions or replay, or is combined at its sources.
 * The header travels with the payload, as its first cache line.
 *
 * transport/footer.h defines the bits of a footer, and the side on which it
 * stands (enum footer_side). A slot's footer is at a fixed offset: right behind
 * the largest payload, or in front of the slot, whose size counts it. Before a
 * footer that stands behind, a smaller payload that comes over a network may
 * end instead of beginning at the start of its slot: see FOOTER_FLAG_SHIFTED.
 * In a latency flow a tuple and its footer share a cache line, so each tuple
 * moves one line.
 */
#ifndef DFI_BUFFERS_SEGMENT_H
#define DFI_BUFFERS_SEGMENT_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <dfi/flow.h>
#include "base/bits.h"
#include "transport/footer.h"
#include "transport/transport.h"

/* The header before the payload, in slots that have one. */
struct segment_header {
	alignas(CACHE_LINE) uint64_t checksum; /* see checksum.h */
	uint64_t global;  /* position among the segments of all sources */
	uint64_t targets; /* the target set, a bit for each target */
	/*
	 * A mark behind the tuples; 0: none. Of a mark in an ordered flow: the
	 * source's last one before this ring, of the application.
	 */
	uint64_t mark;
	/*
	 * Number of partial aggregates (flows/kinds/combine/plan.h) in the
	 * payload; 0: the payload has tuples. Their bytes are rounded up to
	 * whole tuples and counted as tuples. In flows with replay: the bytes
	 * of the tuples, for the source, which may take them back.
	 */
	uint64_t records;
	uint64_t table; /* that its source goes by from here on; 0: as before */
	/*
	 * In flows with replay: all tuples up to this input position were sent
	 * to their owners (0: some wait), if these have gained their partitions
	 * with this table or before. Without keys: all targets have
	 * acknowledged them. SEGMENT_ASKS: or'ed to it.
	 */
	uint64_t input, settled;
};

/* The source closes, and waits for the target's acknowledgement. */
#define SEGMENT_ASKS (UINT64_C(1) << 63)

static_assert(sizeof(struct segment_header) == CACHE_LINE, "segment header");

static_assert(DFI_MAX_SEGMENT_SIZE <= FOOTER_USED_MAX, "used");
static_assert(DFI_MAX_SEGMENT_COUNT <= FOOTER_USED_MAX, "lost");

/*
 * The target sleeps in reader_waits; its sources wake it. released belongs to
 * the transport. The alignment to two cache lines is for the adjacent-line
 * prefetcher.
 */
struct region_header {
	alignas(2 * CACHE_LINE) _Atomic uint32_t reader_waits;
	alignas(8) _Atomic uint64_t reader_name; /* base/wait.h */
	alignas(CACHE_LINE) _Atomic uint32_t released;
};
static_assert(sizeof(struct region_header) == 128, "region header");
static_assert(
    offsetof(struct region_header, released) == REGION_RELEASED_OFFSET,
    "region header");

/*
 * credit: how many segments the target has given back, as an absolute count, so
 * that a lost or repeated update does no harm; and whether the target has left.
 *
 * writer_waits: the source sleeps here while the ring is full.
 *
 * end: how the source ended. The source writes it once. Its total is the number
 * of tuples. Its state has FOOTER_FLAG_END or FOOTER_FLAG_ABORT; "used" of an
 * abort is the cause, as flows/declare/tree.h defines it. The mark is no
 * segment, so closing a source never waits for room
 * (docs/decisions/0002-end-of-flow.md).
 *
 * slots: where the slots are, in a ring that has none of its own
 * (shared_ring.h). Its total is the key of the memory that the source has
 * granted. Its state is the number of the first segment once the slots can be
 * read.
 */
struct ring_header {
	alignas(CACHE_LINE) struct ring_credit credit;
	alignas(CACHE_LINE) _Atomic uint32_t writer_waits;
	alignas(8) _Atomic uint64_t writer_name; /* base/wait.h */
	alignas(2 * CACHE_LINE) struct segment_footer end;
	alignas(CACHE_LINE) struct segment_footer slots;
};
static_assert(sizeof(struct ring_header) == 256, "ring header");
static_assert(offsetof(struct ring_header, credit) == 0, "ring header");
static_assert(offsetof(struct ring_header, writer_name) ==
	offsetof(struct ring_header, writer_waits) + 8,
    "ring header");
static_assert(offsetof(struct region_header, reader_name) == 8, "name");
static_assert(offsetof(struct ring_header, end) == 128, "ring header");
static_assert(
    offsetof(struct region_header, reader_waits) == REGION_WAIT_OFFSET,
    "region header");

#endif

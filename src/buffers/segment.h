/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a target's rings.
 *
 * A target owns one region, with one ring for each source. All counters run
 * free and wrap; the slots of a ring are filled in turn.
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
 * Only the slots of flows that are verified, ordered, have groups or windows,
 * or are combined at their sources have a segment_header; it travels with the
 * payload, as its first cache line.
 *
 * transport/footer.h has the bits of a footer. A slot's footer is at a fixed
 * place, right behind the largest payload. A smaller payload that comes over a
 * network may end there instead of beginning where its slot does: see
 * FOOTER_FLAG_SHIFTED. With a tuple and its footer in one cache line, a latency
 * flow moves one line per tuple.
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

/* What lies before the payload in a slot that has any of it. */
struct segment_header {
	alignas(CACHE_LINE) uint64_t checksum; /* see checksum.h */
	uint64_t global;  /* its place among the segments of all sources */
	uint64_t targets; /* a bit each: whose tuples these are */
	uint64_t windows; /* ended with it; 0: none ends with it */
	/*
	 * Partial aggregates (flows/kinds/combine/plan.h) that lie in the
	 * payload instead of tuples; 0: tuples do. Their bytes are rounded up
	 * to those of whole tuples, and counted as such.
	 */
	uint64_t records;
};
static_assert(sizeof(struct segment_header) == CACHE_LINE, "segment header");

static_assert(DFI_MAX_SEGMENT_SIZE <= FOOTER_USED_MAX, "used");
static_assert(DFI_MAX_SEGMENT_COUNT <= FOOTER_USED_MAX, "lost");

/*
 * The target sleeps in reader_waits; its sources wake it. let_go is the
 * transport's. Cache lines are doubled against the adjacent-line prefetcher.
 */
struct region_header {
	alignas(2 * CACHE_LINE) _Atomic uint32_t reader_waits;
	alignas(8) _Atomic uint64_t reader_name; /* base/wait.h */
	alignas(CACHE_LINE) _Atomic uint32_t let_go;
};
static_assert(sizeof(struct region_header) == 128, "region header");
static_assert(offsetof(struct region_header, let_go) == REGION_LET_GO_OFFSET,
    "region header");

/*
 * credit: how many segments the target has given back, as an absolute count, so
 * that a lost or repeated update does no harm; and whether it has left, so that
 * nobody will read what is written now.
 * writer_waits: the source sleeps here when the ring is full.
 * end: how the source ended. Its total is the tuple count, its state has
 * FOOTER_FLAG_END or _ABORT, once; "used" of the latter is for the cause, which
 * the flow gives a meaning (flows/declare/tree.h). It isn't a segment, so that
 * closing a source never waits for room (docs/decisions/0002-end-of-flow.md).
 * slots: of a ring without slots of its own, where they are: its total is the
 * key of what the source has shown, its state the number of the first segment,
 * when they are there (shared_ring.h).
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

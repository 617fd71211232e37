/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The footer of a segment, and the end mark of a ring: every bit of them, and
 * the functions that build them and take them apart. A transport and the
 * buffers above it share this format; nobody else forms or reads its bits.
 *
 *	state   63        62     61      60    59     58..32   31..0
 *	       +---------+------+-------+-----+------+--------+--------+
 *	       | SHIFTED | HELD | ABORT | END | LOST | used   | number |
 *	       +---------+------+-------+-----+------+--------+--------+
 *
 * used: bytes of payload. number: the segment's sequence number.
 */
#ifndef DFI_TRANSPORT_FOOTER_H
#define DFI_TRANSPORT_FOOTER_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/bits.h"

/*
 * total: tuples in this ring up to the end of this segment.
 * state: the picture above. It is one word, so that a reader that observes the
 * number it expects has the rest as well. The number is truncated; a slot's old
 * number is segment_count behind, so nothing is reset once a ring has begun.
 *
 * With FOOTER_FLAG_LOST there is no segment: "used" segments from this number
 * on were lost on their way (buffers/multicast/receiver.h), and the next footer
 * is that of the slot behind them. Its total is 0, as nobody knows it; the next
 * segment, or the end mark, says how many tuples they had. In an ordered flow
 * the slot's segment_header has the place of the first; the others follow it.
 */
struct segment_footer {
	_Atomic uint64_t total;
	_Atomic uint64_t state;
};
static_assert(sizeof(struct segment_footer) == 16, "footer");
static_assert(sizeof(_Atomic uint64_t) == 8, "lock-free words");

#define FOOTER_USED_SHIFT 32
#define FOOTER_USED_MAX ((UINT64_C(1) << 27) - 1)
#define FOOTER_FLAG_LOST (UINT64_C(1) << 59)  /* see above */
#define FOOTER_FLAG_END (UINT64_C(1) << 60)   /* the source has closed */
#define FOOTER_FLAG_ABORT (UINT64_C(1) << 61) /* the source has given up */
/*
 * The transport holds the end mark back: a device has written it, and the
 * transport has not yet learned that all segments before it are there.
 */
#define FOOTER_FLAG_HELD (UINT64_C(1) << 62)
/*
 * The payload of a partial segment ends before its footer instead of beginning
 * where its slot does. Set by a transport that sends both in one write.
 */
#define FOOTER_FLAG_SHIFTED (UINT64_C(1) << 63)
#define FOOTER_FLAGS (UINT64_C(31) << 59)

static inline uint64_t footer_state(uint64_t seq, uint64_t used, uint64_t flags)
{
	return (uint32_t)seq | used << FOOTER_USED_SHIFT | flags;
}

static inline uint32_t footer_seq(uint64_t state)
{
	return (uint32_t)state;
}

static inline uint64_t footer_used(uint64_t state)
{
	return (state >> FOOTER_USED_SHIFT) & FOOTER_USED_MAX;
}

/* The state of an end mark; not one that its transport holds back. */
static inline bool footer_is_end(uint64_t state)
{
	return state & FOOTER_FLAGS && !(state & FOOTER_FLAG_HELD);
}

/*
 * The state of an end mark as it travels, from the one to publish; and back. A
 * bit of the number is inverted with the flag, so that a reader takes the state
 * for nothing that it expects.
 */
static inline uint64_t footer_hold(uint64_t state)
{
	return state ^ (FOOTER_FLAG_HELD | UINT64_C(1) << 31);
}

static inline uint64_t footer_release(uint64_t state)
{
	return footer_hold(state);
}

/* The state that the writer gave a segment, whatever way it took. */
static inline uint64_t footer_unshifted(uint64_t state)
{
	return state & ~FOOTER_FLAG_SHIFTED;
}

/*
 * Where what is sent of a segment, size bytes, begins in its slot, if it is
 * shifted: on a cache line.
 */
static inline uint64_t footer_shifted_at(uint64_t footer_offset, uint64_t size)
{
	return (footer_offset - size) & ~(uint64_t)(CACHE_LINE - 1);
}

/* The numbers that a footer follows from: the same for all of a flow. */
struct segment_shape {
	uint32_t payload_offset; /* in a slot; what is before it is sent, too */
	uint32_t footer_offset;  /* in a slot */
	uint32_t tuple_size;
	uint32_t segment_bytes; /* of a full one's tuples */
	uint32_t segment_tuples;
};

/*
 * Make the footer of a segment that arrived without one, from that of the
 * segment before it. bytes: as many as were sent, whole tuples or not.
 */
static inline void footer_next(
    const struct segment_shape *shape, uint64_t bytes, uint64_t footer[2])
{
	/* Shorter than that, it is no segment: its reader says so. */
	bytes -= min_u64(bytes, shape->payload_offset);
	footer[0] += bytes == shape->segment_bytes ? shape->segment_tuples
						   : bytes / shape->tuple_size;
	footer[1] = footer_state(footer_seq(footer[1]) + 1, bytes, 0);
}

#endif

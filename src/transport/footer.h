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
 * used: bytes of payload; FOOTER_MARK: a mark. number: the segment's sequence
 * number.
 */
#ifndef DFI_TRANSPORT_FOOTER_H
#define DFI_TRANSPORT_FOOTER_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/bits.h"

/*
 * total: tuples in this ring up to the end of this segment. state: the picture
 * above. The state is one word, so a reader that observes the number it expects
 * also has the other fields. The number is truncated; a slot's old number is
 * segment_count lower, so a slot needs no reset once a ring has begun.
 *
 * A footer with FOOTER_FLAG_LOST stands for no segment: the network has lost
 * "used" segments, this number the first of them
 * (buffers/multicast/receiver.h). The next footer is that of the next slot. The
 * total is 0, as nobody knows it; the next segment, or the end mark, tells how
 * many tuples the lost segments had. In an ordered flow the slot's
 * segment_header has the position of the first lost segment; those of the
 * others follow it.
 */
struct segment_footer {
	_Atomic uint64_t total;
	_Atomic uint64_t state;
};
static_assert(sizeof(struct segment_footer) == 16, "footer");
static_assert(sizeof(_Atomic uint64_t) == 8, "lock-free words");

#define FOOTER_USED_SHIFT 32
#define FOOTER_USED_MAX ((UINT64_C(1) << 27) - 1)
/*
 * "used" of a segment without tuples, whose payload is a mark: a number of
 * FOOTER_MARK_BYTES, in the order of the machine's bytes. Each slot has room.
 */
#define FOOTER_MARK FOOTER_USED_MAX
#define FOOTER_MARK_BYTES 8
/*
 * "used" of a segment whose payload, as large as a mark's, says in which memory
 * the next segments lie. Only in rings of memory.
 */
#define FOOTER_MOVE (FOOTER_USED_MAX - 1)
#define FOOTER_FLAG_LOST (UINT64_C(1) << 59)  /* see above */
#define FOOTER_FLAG_END (UINT64_C(1) << 60)   /* the source has closed */
#define FOOTER_FLAG_ABORT (UINT64_C(1) << 61) /* the source has given up */
/*
 * The transport holds the end mark back: a device has written it, and the
 * transport has not yet learned that all segments before it are there.
 */
#define FOOTER_FLAG_HELD (UINT64_C(1) << 62)
/*
 * The payload of this partial segment ends where its footer begins, instead of
 * beginning where its slot does. A transport shifts a segment to send payload
 * and footer in one write. Only for FOOTER_BEHIND.
 */
#define FOOTER_FLAG_SHIFTED (UINT64_C(1) << 63)
#define FOOTER_FLAGS (UINT64_C(31) << 59)

/*
 * Where the footers of a ring's segments stand. It holds for all rings of a
 * flow; both ends know it from the flow's descriptor.
 *
 * FOOTER_BEHIND: behind the largest payload. A smaller one may come shifted.
 * FOOTER_IN_FRONT: right in front of its slot, so that footer and payload are
 * contiguous, whatever the size. No payload comes shifted.
 */
enum footer_side {
	FOOTER_BEHIND = 0,
	FOOTER_IN_FRONT,
};

/* Sets of sides. */
#define FOOTER_SIDE(side) (UINT32_C(1) << (side))
#define FOOTER_SIDES_BOTH \
	(FOOTER_SIDE(FOOTER_BEHIND) | FOOTER_SIDE(FOOTER_IN_FRONT))

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

/* Tells whether the segment is a mark. */
static inline bool footer_is_mark(uint64_t state)
{
	return footer_used(state) == FOOTER_MARK;
}

static inline bool footer_is_move(uint64_t state)
{
	return footer_used(state) == FOOTER_MOVE;
}

/* The bytes of payload behind the header, and those of its tuples. */
static inline uint64_t footer_payload(uint64_t state)
{
	return footer_is_mark(state) ? FOOTER_MARK_BYTES : footer_used(state);
}

static inline uint64_t footer_tuple_bytes(uint64_t state)
{
	return footer_is_mark(state) || footer_is_move(state)
	    ? 0
	    : footer_used(state);
}

/* Tells whether the state is that of a published end mark. */
static inline bool footer_is_end(uint64_t state)
{
	return state & FOOTER_FLAGS && !(state & FOOTER_FLAG_HELD);
}

/*
 * Convert the state of an end mark to its form on the wire, and back. The held
 * flag and an inverted bit of the number keep a reader from taking that form
 * for a state that it expects.
 */
static inline uint64_t footer_hold(uint64_t state)
{
	return state ^ (FOOTER_FLAG_HELD | UINT64_C(1) << 31);
}

static inline uint64_t footer_release(uint64_t state)
{
	return footer_hold(state);
}

/*
 * Where a transport says how many bytes a segment has, without a footer, this
 * bit says that it is a mark. No segment is so large.
 */
#define SENT_MARK (UINT64_C(1) << 27)

static inline uint64_t sent_bytes(uint64_t size, uint64_t state)
{
	return footer_is_mark(state) ? size | SENT_MARK : size;
}

/*
 * A footer may travel in a sealed form, with a checksum of its payload in the
 * first word: its payload's size and the segment's number are in the second,
 * and each of its 16 bytes has its top bit set.
 *
 *	second  63..32                     31..0
 *	       +--------------------------+---------------------------+
 *	       | used, 7 bits in each byte| number, inverted          |
 *	       +--------------------------+---------------------------+
 *
 * The state has no such number, so a reader does not take one for the other.
 */
#define FOOTER_SEALED_BITS UINT64_C(0x8080808080808080)

/* The low half of the second word for the segment of that number. */
static inline uint32_t footer_sealed_number(uint32_t number)
{
	return ~number | (uint32_t)FOOTER_SEALED_BITS;
}

/* The second word of a segment; bytes: at most 28 bits. */
static inline uint64_t footer_sealed(uint32_t number, uint64_t bytes)
{
	uint64_t used = (bytes & 0x7f) | (bytes << 1 & 0x7f00) |
	    (bytes << 2 & 0x7f0000) | (bytes << 3 & 0x7f000000);

	return footer_sealed_number(number) | used << 32 | FOOTER_SEALED_BITS;
}

/* The size of the payload in it. */
static inline uint64_t footer_sealed_used(uint64_t sealed)
{
	sealed >>= 32;
	return (sealed & 0x7f) | (sealed & 0x7f00) >> 1 |
	    (sealed & 0x7f0000) >> 2 | (sealed & 0x7f000000) >> 3;
}

/* Returns the state as the writer set it, however the segment travelled. */
static inline uint64_t footer_unshifted(uint64_t state)
{
	return state & ~FOOTER_FLAG_SHIFTED;
}

/*
 * Where size bytes begin in a shifted slot: on a cache line. Only for
 * FOOTER_BEHIND.
 */
static inline uint64_t footer_shifted_at(uint64_t footer_offset, uint64_t size)
{
	return (footer_offset - size) & ~(uint64_t)(CACHE_LINE - 1);
}

/* What determines each footer; all rings of a flow have the same. */
struct segment_shape {
	uint32_t payload_offset; /* in a slot; all bytes before it are sent */
	int32_t footer_offset;   /* from a slot; below 0: FOOTER_IN_FRONT */
	uint32_t tuple_size;
	uint32_t segment_bytes; /* tuples of a full segment */
	uint32_t segment_tuples;
};

/*
 * Make the footer of a segment that arrived without one from the footer of the
 * segment before it. bytes: how many were sent; they need not be whole tuples.
 */
static inline void footer_next(
    const struct segment_shape *shape, uint64_t bytes, uint64_t footer[2])
{
	/* With fewer bytes it is no segment; its reader reports that. */
	bytes -= min_u64(bytes, shape->payload_offset);
	footer[0] += bytes == shape->segment_bytes ? shape->segment_tuples
						   : bytes / shape->tuple_size;
	footer[1] = footer_state(footer_seq(footer[1]) + 1, bytes, 0);
}

/* The same for a mark. */
static inline void footer_next_mark(uint64_t footer[2])
{
	footer[1] = footer_state(footer_seq(footer[1]) + 1, FOOTER_MARK, 0);
}

/* The same for the bytes of sent_bytes(). */
static inline void footer_next_sent(
    const struct segment_shape *shape, uint64_t bytes, uint64_t footer[2])
{
	if (bytes & SENT_MARK)
		footer_next_mark(footer);
	else
		footer_next(shape, bytes, footer);
}

/* The bytes of a mark that are sent. */
static inline uint64_t mark_bytes(const struct segment_shape *shape)
{
	return shape->payload_offset + FOOTER_MARK_BYTES;
}

#endif

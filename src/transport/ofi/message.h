/* SPDX-License-Identifier: Apache-2.0 */
/* What the two ends of a connection tell each other: message.c. */
#ifndef DFI_TRANSPORT_OFI_MESSAGE_H
#define DFI_TRANSPORT_OFI_MESSAGE_H

#include <stdint.h>

enum ofi_message_type {
	OFI_BEAT = 1,  /* a sign of life */
	OFI_OPEN,      /* writer: may I write the ring? */
	OFI_OPENED,    /* owner: yes, at address with key2; or error */
	OFI_CLOSE,     /* writer: no more writes */
	OFI_CLOSED,    /* owner: no more credits */
	OFI_END,       /* writer: the end mark; answered by CONFIRMED */
	OFI_CONFIRM,   /* writer: has all arrived that I wrote? */
	OFI_CONFIRMED, /* owner: the first count things have */
	OFI_ADD,       /* writer: add to a word */
	OFI_ADDED,     /* owner: what it was before */
};

/* Little-endian. */
struct ofi_message {
	uint32_t type;
	uint32_t link;    /* OPEN, OPENED: the sender's name for it */
	uint32_t to_link; /* the receiver's name; not in OPEN */
	int32_t error;    /* OPENED, CONFIRMED: 0, or a negative errno value */
	uint64_t key;     /* OPEN: the region's capability */
	uint64_t key2;    /* OPEN: for credits; OPENED: for segments */
	uint64_t address; /* OPENED: of the ring; ADD: in the ring */
	uint64_t count;   /* OPEN: the ring's size; CONFIRM and others */
	uint32_t ring;    /* OPEN: its number */
	uint32_t reserved[3];
};
_Static_assert(sizeof(struct ofi_message) == 64, "ofi message");

/*
 * Completion data: a link of the receiver, what has arrived for it, and a
 * value.
 *
 *	63..32   31..30   29..28   27..0
 *	 link     kind    closed   value
 *
 * value: of a segment, its bytes (sent_bytes()); of a credit, the low bits of
 * the count of segments that were given back, with enum ring_closed.
 */
enum ofi_data_kind {
	OFI_DATA_SEGMENT,
	OFI_DATA_CREDIT,
	OFI_DATA_PIECE, /* of a segment that is still on its way */
};
#define OFI_VALUE_BITS 28
#define OFI_VALUE_MASK ((UINT64_C(1) << OFI_VALUE_BITS) - 1)

static inline uint64_t ofi_data(
    uint32_t link, enum ofi_data_kind kind, uint32_t closed, uint64_t value)
{
	return (uint64_t)link << 32 | (uint64_t)kind << 30 |
	    (uint64_t)closed << OFI_VALUE_BITS | (value & OFI_VALUE_MASK);
}

static inline uint32_t ofi_data_link(uint64_t data)
{
	return (uint32_t)(data >> 32);
}

static inline enum ofi_data_kind ofi_data_kind(uint64_t data)
{
	return (enum ofi_data_kind)(data >> 30 & 3);
}

static inline uint32_t ofi_data_closed(uint64_t data)
{
	return (uint32_t)(data >> OFI_VALUE_BITS & 3);
}

static inline uint64_t ofi_data_value(uint64_t data)
{
	return data & OFI_VALUE_MASK;
}

/* The count whose low bits are value, at or after a count that is known. */
static inline uint64_t ofi_count_of(uint64_t known, uint64_t value)
{
	return known + ((value - known) & OFI_VALUE_MASK);
}

#endif

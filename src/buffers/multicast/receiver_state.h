/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The internals of a multicast receiver: its numbers, and what its files share.
 * receiver.c takes datagrams, receiver_report.c reports to the sender what the
 * target has and lacks, and receiver_gaps.c tells the reader of losses.
 */
#ifndef DFI_BUFFERS_MULTICAST_RECEIVER_STATE_H
#define DFI_BUFFERS_MULTICAST_RECEIVER_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "buffers/checksum.h"
#include "receiver.h"

static inline uint32_t receiver_window(const struct multicast_receiver *stream)
{
	return stream->config.flow.geometry.segment_count;
}

static inline int64_t receiver_gap_ns(const struct multicast_receiver *stream)
{
	return (int64_t)stream->config.gap_us * 1000;
}

/*
 * The reader is told of losses at their position, which only the source knows:
 * O5.
 */
static inline bool receiver_needs_places(
    const struct multicast_receiver *stream)
{
	return stream->config.notify &&
	    stream->config.flow.geometry.parts & SEGMENT_GLOBAL;
}

/* Whether the receiver asks the source for missing segments. */
static inline bool receiver_may_ask(const struct multicast_receiver *stream)
{
	return !stream->config.notify || receiver_needs_places(stream);
}

static inline struct segment_footer *receiver_footer_of(
    const struct multicast_receiver *stream, uint32_t slot)
{
	const struct ring_geometry *g = &stream->config.flow.geometry;

	return (struct segment_footer *)(void *)(stream->slots +
	    (uint64_t)g->slot_size * slot + g->footer_offset);
}

/* The slot of a number that is less than a window after expected. */
static inline uint32_t receiver_slot_of(
    const struct multicast_receiver *stream, uint64_t number)
{
	uint32_t slot = stream->slot + (uint32_t)(number - stream->expected);

	return slot < receiver_window(stream) ? slot
					      : slot - receiver_window(stream);
}

static inline struct stream_slot *receiver_held_of(
    const struct multicast_receiver *stream, uint64_t number)
{
	return &stream->held[receiver_slot_of(stream, number)];
}

/* The position of a held segment, or of a gap whose position is known. */
static inline uint64_t *receiver_place_of(
    const struct multicast_receiver *stream, uint64_t number)
{
	const struct ring_geometry *g = &stream->config.flow.geometry;
	char *slot = (char *)receiver_footer_of(
			 stream, receiver_slot_of(stream, number)) -
	    g->footer_offset;

	return &segment_header(g, slot + g->payload_offset)->global;
}

/* The stream needs no further datagrams. */
static inline bool receiver_is_over(const struct multicast_receiver *stream)
{
	return stream->state || stream->cancelled || stream->closed;
}

/* Publish the next segment, or the next n lost ones. Once for each. */
static inline void receiver_publish(
    struct multicast_receiver *stream, uint64_t state, uint32_t n)
{
	/*
	 * Pairs with reader_ready(). It protects the tuples and the footer's
	 * total.
	 */
	atomic_publish(&receiver_footer_of(stream, stream->slot)->state, state);
	stream->slot = receiver_slot_of(stream, stream->expected + n);
	stream->expected += n;
}

/*
 * The first gap may be due now: it waited for earlier numbers, or for its
 * position.
 */
static inline void receiver_see_to_first(struct multicast_receiver *stream)
{
	const struct stream_slot *held = &stream->held[stream->slot];

	if (stream->expected != stream->known && held->placed &&
	    held->due < stream->due)
		stream->due = held->due;
}

/*
 * T2: publish all segments that are in order, and the end. true: something was
 * published.
 */
bool dfi__multicast_receiver_deliver(struct multicast_receiver *stream);

/* receiver_report.c */

/* Set stream->due to the earliest time among all gaps. */
void dfi__multicast_receiver_find_due(struct multicast_receiver *stream);

/* Send a REPORT that asks for the gaps whose time has come. */
void dfi__multicast_receiver_report(
    struct multicast_receiver *stream, int64_t now);

/* receiver_gaps.c; true: the ring has changed */

/* T4, with notify: give up segments that have not arrived in time. */
bool dfi__multicast_receiver_give_up(
    struct multicast_receiver *stream, int64_t now);

/* O5: take positions of lost segments. */
bool dfi__multicast_receiver_take_places(struct multicast_receiver *stream,
    const struct datagram *datagram, int64_t now);

/*
 * After the source is gone: whether losses are still to be told to the reader.
 */
bool dfi__multicast_receiver_has_to_tell(
    const struct multicast_receiver *stream);

#endif

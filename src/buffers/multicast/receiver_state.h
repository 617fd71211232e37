/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A multicast receiver from inside: the numbers that it knows, and what its
 * parts share. receiver.c takes what comes, receiver_report.c tells the sender
 * what the target has and lacks, receiver_gaps.c tells the reader what is lost.
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

/* Losses are reported at their position, which only the source knows: O5. */
static inline bool receiver_needs_places(
    const struct multicast_receiver *stream)
{
	return stream->config.notify &&
	    stream->config.flow.geometry.parts & SEGMENT_GLOBAL;
}

/* Whether the source is asked for what is missing. */
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

/* The slot of a number from expected on, less than a window ahead. */
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

/* Where a segment belongs that is held, or a gap that is placed. */
static inline uint64_t *receiver_place_of(
    const struct multicast_receiver *stream, uint64_t number)
{
	const struct ring_geometry *g = &stream->config.flow.geometry;
	char *slot = (char *)receiver_footer_of(
			 stream, receiver_slot_of(stream, number)) -
	    g->footer_offset;

	return &segment_header(g, slot + g->payload_offset)->global;
}

/* Nothing that comes is for anybody. */
static inline bool receiver_is_over(const struct multicast_receiver *stream)
{
	return stream->state || stream->cancelled || stream->closed;
}

/* Publish what is next, once: a segment, or a number of lost ones. */
static inline void receiver_publish(
    struct multicast_receiver *stream, uint64_t state, uint32_t n)
{
	/* Pairs with reader_ready(): the tuples and the footer's total. */
	atomic_publish(&receiver_footer_of(stream, stream->slot)->state, state);
	stream->slot = receiver_slot_of(stream, stream->expected + n);
	stream->expected += n;
}

/* The gap that is first has waited for those before it, or for its place. */
static inline void receiver_see_to_first(struct multicast_receiver *stream)
{
	const struct stream_slot *held = &stream->held[stream->slot];

	if (stream->expected != stream->known && held->placed &&
	    held->due < stream->due)
		stream->due = held->due;
}

/* T2: publish all that is in order, and the end. Whether there was something.
 */
bool dfi__multicast_receiver_deliver(struct multicast_receiver *stream);

/* receiver_report.c */

/* Set the time of the first of all gaps. */
void dfi__multicast_receiver_find_due(struct multicast_receiver *stream);

/* Report, with the gaps that it is time to ask for. */
void dfi__multicast_receiver_report(
    struct multicast_receiver *stream, int64_t now);

/* receiver_gaps.c; whether the ring changes: */

/* T4, notify: what was not there in time never will be. */
bool dfi__multicast_receiver_give_up(
    struct multicast_receiver *stream, int64_t now);

/* O5 */
bool dfi__multicast_receiver_take_places(struct multicast_receiver *stream,
    const struct datagram *datagram, int64_t now);

/* Of a source that is gone: losses are reported first, where possible. */
bool dfi__multicast_receiver_has_to_tell(
    const struct multicast_receiver *stream);

#endif

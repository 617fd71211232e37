/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The internals of a multicast receiver: its numbers, and what its files share.
 * receiver.c takes datagrams, receiver_report.c reports to the sender what the
 * target has and lacks, receiver_gaps.c tells the reader of losses, and
 * receiver_join.c begins the stream of an open flow's source.
 */
#ifndef DFI_BUFFERS_MULTICAST_RECEIVER_STATE_H
#define DFI_BUFFERS_MULTICAST_RECEIVER_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "buffers/layout/checksum.h"
#include "receiver.h"

static inline uint32_t receiver_window(
    const struct multicast_receiver *receiver)
{
	return receiver->config.flow.geometry.segment_count;
}

static inline int64_t receiver_gap_ns(const struct multicast_receiver *receiver)
{
	return (int64_t)receiver->config.gap_us * 1000;
}

/*
 * The reader is told of losses at their position, which only the source knows:
 * O5.
 */
static inline bool receiver_needs_positions(
    const struct multicast_receiver *receiver)
{
	return receiver->config.notify &&
	    receiver->config.flow.geometry.parts & SEGMENT_GLOBAL;
}

/* Whether the receiver asks the source for missing segments. */
static inline bool receiver_may_ask(const struct multicast_receiver *receiver)
{
	return !receiver->config.notify || receiver_needs_positions(receiver);
}

/* How far a number that was received is behind what was given back. */
static inline uint32_t receiver_distance(
    const struct multicast_receiver *receiver, uint32_t number)
{
	return number - (uint32_t)(receiver->consumed + receiver->base);
}

static inline struct segment_footer *receiver_footer_of(
    const struct multicast_receiver *receiver, uint32_t slot)
{
	const struct ring_geometry *g = &receiver->config.flow.geometry;

	return (struct segment_footer *)(void *)(receiver->slots +
	    (uint64_t)g->slot_size * slot + g->footer_offset);
}

/* The slot of a number that is less than a window after expected. */
static inline uint32_t receiver_slot_of(
    const struct multicast_receiver *receiver, uint64_t number)
{
	uint32_t slot = receiver->slot +
	    (uint32_t)(number - receiver->expected);

	return slot < receiver_window(receiver)
	    ? slot
	    : slot - receiver_window(receiver);
}

static inline struct receiver_slot *receiver_held_of(
    const struct multicast_receiver *receiver, uint64_t number)
{
	return &receiver->held[receiver_slot_of(receiver, number)];
}

/* The position of a held segment, or of a gap whose position is known. */
static inline uint64_t *receiver_position_of(
    const struct multicast_receiver *receiver, uint64_t number)
{
	const struct ring_geometry *g = &receiver->config.flow.geometry;
	char *slot = (char *)receiver_footer_of(
			 receiver, receiver_slot_of(receiver, number)) -
	    g->footer_offset;

	return &segment_header(g, slot + g->payload_offset)->global;
}

/* The stream needs no further datagrams. */
static inline bool receiver_is_over(const struct multicast_receiver *receiver)
{
	return receiver->state || receiver->cancelled || receiver->closed;
}

/* Publish the next segment, or the next n lost ones. Once for each. */
static inline void receiver_publish(
    struct multicast_receiver *receiver, uint64_t state, uint32_t n)
{
	/*
	 * Pairs with reader_ready(). It protects the tuples and the footer's
	 * total.
	 */
	atomic_publish(
	    &receiver_footer_of(receiver, receiver->slot)->state, state);
	receiver->slot = receiver_slot_of(receiver, receiver->expected + n);
	receiver->expected += n;
}

/*
 * The first gap may be due now: it waited for earlier numbers, or for its
 * position.
 */
static inline void receiver_see_to_first(struct multicast_receiver *receiver)
{
	const struct receiver_slot *held = &receiver->held[receiver->slot];

	if (receiver->expected != receiver->known && held->has_position &&
	    held->due < receiver->due)
		receiver->due = held->due;
}

/*
 * T2: publish all segments that are in order, and the end. true: something was
 * published.
 */
bool dfi__multicast_receiver_deliver(struct multicast_receiver *receiver);

/* receiver_join.c; true: the ring has changed */
bool dfi__multicast_receiver_take_join(struct multicast_receiver *receiver,
    const struct datagram *datagram, int64_t now);

/* receiver_report.c */

/* Set receiver->due to the earliest time among all gaps. */
void dfi__multicast_receiver_find_due(struct multicast_receiver *receiver);

/* Send a REPORT that asks for the gaps whose time has come. */
void dfi__multicast_receiver_report(
    struct multicast_receiver *receiver, int64_t now);

/* receiver_gaps.c; true: the ring has changed */

/* T4, with notify: give up segments that have not arrived in time. */
bool dfi__multicast_receiver_give_up(
    struct multicast_receiver *receiver, int64_t now);

/* O5: take positions of lost segments. */
bool dfi__multicast_receiver_take_positions(struct multicast_receiver *receiver,
    const struct datagram *datagram, int64_t now);

/*
 * After the source is gone: whether losses are still to be told to the reader.
 */
bool dfi__multicast_receiver_has_to_report(
    const struct multicast_receiver *receiver);

#endif

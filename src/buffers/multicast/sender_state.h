/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The internals of a multicast sender: what its files share. sender.c sends
 * segments and takes reports, sender_join.c has the targets of open flows.
 */
#ifndef DFI_BUFFERS_MULTICAST_SENDER_STATE_H
#define DFI_BUFFERS_MULTICAST_SENDER_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/atomic.h"
#include "buffers/layout/checksum.h"
#include "sender.h"

/* Targets do not answer ABORT, so the source sends it several times. */
#define SENDER_ABORTS 4

static inline const struct segment_footer *sender_footer_of(
    const struct multicast_sender *sender, uint32_t slot)
{
	const struct ring_geometry *g = &sender->config.flow.geometry;

	return (const struct segment_footer *)(const void
		*)((const char *)sender->config.slots +
	    (uint64_t)g->slot_size * slot + g->footer_offset);
}

/* The target set of a segment, in a flow that has them. */
static inline uint64_t sender_set_of(
    const struct multicast_sender *sender, uint32_t slot)
{
	const struct ring_geometry *g = &sender->config.flow.geometry;

	return segment_header(g,
	    (const char *)sender->config.slots + (uint64_t)g->slot_size * slot +
		g->payload_offset)
	    ->targets;
}

/* The time until the first question is repeated. */
static inline int64_t sender_probe_ns(const struct multicast_sender *sender)
{
	return (int64_t)min_u64(
	    (uint64_t)sender->config.gap_us * 1000, SENDER_PROBE_MAX_NS);
}

static inline int sender_send(struct multicast_sender *sender, uint32_t to,
    const struct datagram *datagram, size_t payload_size)
{
	const struct datagram_output *output = &sender->config.output;
	char header[DATAGRAM_HEADER_MAX];
	size_t size = dfi__datagram_encode(
	    &sender->config.flow, datagram, header);

	return output->send(output->arg, to, header, size,
	    payload_size ? datagram->payload : NULL, payload_size);
}

/* true: it was not known before. */
static inline bool sender_set_over(
    struct sender_peer *peer, enum multicast_over over)
{
	if (peer->over)
		return false;
	peer->over = over;
	/* Pairs with writer_closed(); protects nothing. */
	if (over == MULTICAST_CANCELLED)
		atomic_publish(&peer->credit->closed, RING_CANCELLED);
	return true;
}

/* The number after the last segment that this target may have got. */
static inline uint64_t sender_sent_to(
    const struct multicast_sender *sender, const struct sender_peer *peer)
{
	return (int64_t)(peer->first - sender->next) > 0 ? peer->first
							 : sender->next;
}

/* sender_join.c */

/* The target has answered. */
void dfi__multicast_sender_joined(
    struct multicast_sender *sender, struct sender_peer *peer);

/* Tell those that have not answered once more, if it is time. */
void dfi__multicast_sender_join_again(
    struct multicast_sender *sender, int64_t now);

/* The time of the next one, or DEADLINE_NEVER. */
int64_t dfi__multicast_sender_join_due(const struct multicast_sender *sender);

#endif

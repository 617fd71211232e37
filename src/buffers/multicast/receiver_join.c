/* SPDX-License-Identifier: Apache-2.0 */
/* How a target begins with the stream of a source of an open flow. */
#include "receiver_state.h"

#include <string.h>
#include "base/atomic.h"
#include "buffers/layout/checksum.h"

/*
 * The ring's first segment is a mark that says how many tuples came before
 * (J1). No mark is 0. The source's sender counts it as one that was sent.
 */
static void put_mark(struct multicast_receiver *receiver)
{
	const struct ring_geometry *g = &receiver->config.flow.geometry;
	uint64_t state = footer_state(receiver->expected, FOOTER_MARK, 0);
	struct segment_footer *footer = receiver_footer_of(
	    receiver, receiver->slot);
	uint64_t mark = receiver->before + 1;
	char *payload = (char *)footer - g->footer_offset + g->payload_offset;

	memcpy(payload, &mark, sizeof(mark));
	if (g->parts & SEGMENT_CHECKSUM)
		segment_header(g, payload)->checksum = dfi__segment_checksum(
		    g, payload, state);
	atomic_set(&footer->total, 0);
	receiver_publish(receiver, state, 1);
	receiver->known = receiver->overtaken = receiver->expected;
}

bool dfi__multicast_receiver_take_join(struct multicast_receiver *receiver,
    const struct datagram *datagram, int64_t now)
{
	bool first = !receiver->begun && !receiver_is_over(receiver);

	if (first) {
		receiver->begun = true;
		receiver->base = datagram->first - 1 - receiver->config.start;
		receiver->before = datagram->total;
		receiver->mark = datagram->mark;
		receiver->config.target = datagram->target;
		put_mark(receiver);
	}
	/* The source repeats it until it has an answer. */
	if (receiver->begun && !receiver->closed)
		dfi__multicast_receiver_report(receiver, now);
	return first;
}

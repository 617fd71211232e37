/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a multicast receiver reports to its sender: how much the reader has
 * given back, and which segments are missing. It repeats that at growing
 * intervals.
 */
#include "receiver_state.h"

#include "base/clock.h"

#define ASK_SHIFT_MAX 16

/*
 * Whether a source has used this stream before. A new source would continue it.
 */
static bool is_used(const struct multicast_receiver *stream)
{
	return stream->known != stream->config.start || stream->ended ||
	    stream->state;
}

/* true: it was sent. report->missing has the segments to ask for. */
static bool send_report(
    struct multicast_receiver *stream, struct datagram *report)
{
	const struct datagram_port *port = &stream->config.port;
	bool done = stream->state == STREAM_WHOLE;
	char header[DATAGRAM_HEADER_MAX];
	size_t size;

	report->type = DATAGRAM_REPORT;
	report->source = stream->config.source;
	report->target = stream->config.target;
	report->number = (uint32_t)stream->consumed;
	report->flags = (uint8_t)((done ? DATAGRAM_DONE : 0) |
	    (stream->cancelled ? DATAGRAM_CANCELLED : 0) |
	    (is_used(stream) ? DATAGRAM_USED : 0));
	size = dfi__datagram_encode(&stream->config.flow, report, header);
	if (port->send(
		port->arg, stream->config.source, header, size, NULL, 0) < 0)
		return false;
	stream->reported = stream->consumed;
	stream->says_done = done;
	stream->says_cancelled = stream->cancelled;
	stream->counts.reports++;
	return true;
}

/* The time until the receiver asks again. It grows with each attempt. */
static int64_t ask_again_ns(
    const struct multicast_receiver *stream, uint32_t n_asked)
{
	uint32_t shift = n_asked < ASK_SHIFT_MAX ? n_asked : ASK_SHIFT_MAX;
	int64_t gap = receiver_gap_ns(stream), again = gap << shift;

	if (again > STREAM_ASK_MAX_NS)
		again = STREAM_ASK_MAX_NS;
	return again > gap ? again : gap;
}

/*
 * A gap whose position is known waits only for the gaps and segments before it.
 */
static bool waits_for_others(
    const struct multicast_receiver *stream, uint64_t number)
{
	return receiver_held_of(stream, number)->placed &&
	    number != stream->expected;
}

void dfi__multicast_receiver_find_due(struct multicast_receiver *stream)
{
	const struct stream_slot *held;
	uint64_t number;

	stream->due = DEADLINE_NEVER;
	for (number = stream->expected;
	     stream->n_gaps && number != stream->known; number++) {
		held = receiver_held_of(stream, number);
		if (!held->used && held->due < stream->due &&
		    !waits_for_others(stream, number))
			stream->due = held->due;
	}
}

/* Add a number to the ranges, in ascending order. false: there is no room. */
static bool add_missing(struct datagram *report, uint32_t number)
{
	struct datagram_range *last = report->missing + report->n_missing - 1;

	if (report->n_missing && last->first + last->count == number) {
		last->count++;
		return true;
	}
	if (report->n_missing == DATAGRAM_MISSING_MAX)
		return false;
	report->missing[report->n_missing++] = (struct datagram_range){
		.first = number,
		.count = 1,
	};
	return true;
}

void dfi__multicast_receiver_report(
    struct multicast_receiver *stream, int64_t now)
{
	struct datagram datagram = { .n_missing = 0 };
	struct stream_slot *held;
	uint64_t number;
	bool asks = stream->due <= now && receiver_may_ask(stream) &&
	    !receiver_is_over(stream);

	for (number = stream->expected; asks && number != stream->known;
	     number++) {
		held = receiver_held_of(stream, number);
		if (held->used || held->placed || held->due > now)
			continue;
		if (!add_missing(&datagram, (uint32_t)number))
			break;
		held->n_asked++;
		held->due = now + ask_again_ns(stream, held->n_asked - 1);
		stream->counts.asked++;
	}
	(void)send_report(stream, &datagram);
	if (asks)
		dfi__multicast_receiver_find_due(stream);
}

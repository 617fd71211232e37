/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target of a multicast over datagrams does with received datagrams.
 * Numbers have 64 bits here. Received numbers have 32 bits, and stand for the
 * number within a window of consumed.
 *
 *	     consumed        expected                known
 *	-------|---------------|-----------------------|------> numbers
 *	 free  |   with the    | held: copied, not     | unknown
 *	       |   reader      | published; or a gap   |
 *
 * known is always at most a window after consumed, so each number between them
 * has a slot of its own.
 */
#include "receiver_state.h"

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/error.h"

int dfi__multicast_receiver_init(struct multicast_receiver *stream,
    const struct multicast_receiver_config *config)
{
	*stream = (struct multicast_receiver){
		.config = *config,
		.slots = (char *)config->ring +
		    config->flow.geometry.first_slot,
		.consumed = config->start,
		.reported = config->start,
		.expected = config->start,
		.known = config->start,
		.overtaken = config->start,
		.due = DEADLINE_NEVER,
		.cut_at = DEADLINE_NEVER,
		.held = calloc(config->flow.geometry.segment_count,
		    sizeof(stream->held[0])),
	};
	return stream->held
	    ? 0
	    : dfi__fail(-ENOMEM, "multicast: out of memory for %u segments",
		  config->flow.geometry.segment_count);
}

void dfi__multicast_receiver_free(struct multicast_receiver *stream)
{
	free(stream->held);
	stream->held = NULL;
}

/* Take the reader's consumed count. */
static void look_at_reader(struct multicast_receiver *stream)
{
	const struct ring_credit *credit = &stream->config.ring->credit;
	uint64_t consumed;

	/*
	 * Pairs with the publish in the transport's give_credit(): the reader's
	 * loads from the slots that it gave back come before our stores.
	 */
	consumed = atomic_observe(&credit->consumed);
	/* The reader can give back only what was published. */
	if (consumed - stream->consumed <= stream->expected - stream->consumed)
		stream->consumed = consumed;
	switch (atomic_observe(&credit->closed)) {
	case RING_CANCELLED:
		stream->cancelled = true;
		break;
	case RING_CLOSED:
		stream->closed = true;
		break;
	default:
		break;
	}
}

/* All segments below number were sent. */
static void learn(
    struct multicast_receiver *stream, uint64_t number, int64_t now)
{
	struct stream_slot *held;

	for (; stream->known - stream->expected < number - stream->expected;
	     stream->known++) {
		held = receiver_held_of(stream, stream->known);
		*held = (struct stream_slot){
			.due = now + receiver_gap_ns(stream),
			.lost_at = now + receiver_gap_ns(stream),
		};
		if (held->due < stream->due)
			stream->due = held->due;
		stream->n_gaps++;
	}
}

/*
 * Whether the number continues a gap that begins before it. The receiver asks
 * for the positions of a whole gap at once, so the answer and the report to the
 * reader are for the whole gap.
 */
static bool goes_on(const struct multicast_receiver *stream, uint64_t number)
{
	return receiver_needs_places(stream) && number != stream->expected &&
	    !receiver_held_of(stream, number - 1)->used &&
	    !receiver_held_of(stream, number)->used;
}

/* A segment has arrived: gaps that it is far ahead of are due now. */
static void overtake(
    struct multicast_receiver *stream, uint64_t number, int64_t now)
{
	uint64_t ahead = number - stream->expected;
	struct stream_slot *held;

	if (!receiver_may_ask(stream) || ahead < STREAM_OVERTAKEN)
		return;
	if ((int64_t)(stream->overtaken - stream->expected) < 0)
		stream->overtaken = stream->expected;
	for (;
	     stream->overtaken - stream->expected <= ahead - STREAM_OVERTAKEN ||
	     goes_on(stream, stream->overtaken);
	     stream->overtaken++) {
		held = receiver_held_of(stream, stream->overtaken);
		if (held->used || held->placed || held->n_asked)
			continue;
		held->due = stream->due = now;
	}
}

static void put_end_mark(
    struct multicast_receiver *stream, enum stream_state state, uint64_t flag)
{
	struct segment_footer *mark = &stream->config.ring->end;

	stream->state = state;
	stream->n_gaps = 0;
	stream->due = DEADLINE_NEVER;
	atomic_set(&mark->total, stream->end_total);
	/* Pairs with reader_end_marked(): all segments are published before. */
	atomic_publish(&mark->state, footer_state(stream->expected, 0, flag));
}

bool dfi__multicast_receiver_deliver(struct multicast_receiver *stream)
{
	struct stream_slot *held = &stream->held[stream->slot];
	bool fresh = false;

	while (stream->expected != stream->known && held->used) {
		receiver_publish(
		    stream, footer_state(stream->expected, held->used, 0), 1);
		held->used = 0;
		held = &stream->held[stream->slot];
		stream->counts.segments++;
		fresh = true;
	}
	if (stream->ended && !stream->state &&
	    stream->expected == stream->end) {
		put_end_mark(stream, STREAM_WHOLE, FOOTER_FLAG_END);
		fresh = true;
	}
	receiver_see_to_first(stream);
	return fresh;
}

/* T1 */
static bool take_data(struct multicast_receiver *stream,
    const struct datagram *datagram, int64_t now)
{
	const struct ring_geometry *g = &stream->config.flow.geometry;
	uint32_t d = datagram->number - (uint32_t)stream->consumed;
	uint64_t number = stream->consumed + d;
	struct segment_footer *footer;
	struct stream_slot *held;

	if (d >= receiver_window(stream) ||
	    d < (uint32_t)(stream->expected - stream->consumed) ||
	    (stream->ended &&
		d >= (uint32_t)(stream->end - stream->consumed))) {
		stream->counts.repeated++;
		return false;
	}
	held = receiver_held_of(stream, number);
	if (number - stream->expected < stream->known - stream->expected &&
	    held->used) {
		stream->counts.repeated++;
		return false;
	}
	learn(stream, number + 1, now);
	footer = receiver_footer_of(stream, receiver_slot_of(stream, number));
	memcpy((char *)footer - g->footer_offset, datagram->payload,
	    g->payload_offset + datagram->used);
	atomic_set(&footer->total, datagram->total);
	held->used = datagram->used;
	held->placed = false;
	stream->n_gaps--;
	stream->counts.early += number != stream->expected;
	if (!stream->n_gaps)
		stream->due = DEADLINE_NEVER;
	else
		overtake(stream, number, now);
	return dfi__multicast_receiver_deliver(stream);
}

/* T3; true: the ring has changed. */
static bool take_state(struct multicast_receiver *stream,
    const struct datagram *datagram, int64_t now)
{
	uint32_t d = datagram->number - (uint32_t)stream->consumed;
	uint64_t next = stream->consumed + d;
	/* A STATE must count all delivered segments, and none after the end. */
	bool possible = d <= receiver_window(stream) &&
	    next - stream->consumed >= stream->expected - stream->consumed &&
	    !(stream->ended &&
		next - stream->consumed > stream->end - stream->consumed);

	if (!possible) {
		stream->counts.outdated++;
		return false;
	}
	if (datagram->flags & DATAGRAM_ABORT) {
		put_end_mark(stream, STREAM_ABORTED, FOOTER_FLAG_ABORT);
		return true;
	}
	if (datagram->flags & DATAGRAM_END && !stream->ended) {
		if (next - stream->consumed <
		    stream->known - stream->consumed) {
			stream->counts.outdated++;
			return false;
		}
		stream->ended = true;
		stream->end = next;
		stream->end_total = datagram->total;
	}
	learn(stream, next, now);
	return dfi__multicast_receiver_deliver(stream);
}

bool dfi__multicast_receiver_receive(struct multicast_receiver *stream,
    const struct datagram *datagram, int64_t now)
{
	bool fresh = false;

	if (datagram->source != stream->config.source)
		return false;
	look_at_reader(stream);
	if (datagram->type == DATAGRAM_DATA) {
		if (!receiver_is_over(stream))
			fresh = take_data(stream, datagram, now);
		else
			stream->counts.repeated++;
	} else if (datagram->type == DATAGRAM_STATE) {
		stream->counts.states++;
		if (!receiver_is_over(stream))
			fresh = take_state(stream, datagram, now);
		/* After a close, the registry tells the source. */
		if (!stream->closed)
			dfi__multicast_receiver_report(stream, now);
	} else if (datagram->type == DATAGRAM_PLACE &&
	    !receiver_is_over(stream)) {
		fresh = dfi__multicast_receiver_take_places(
		    stream, datagram, now);
	}
	return dfi__multicast_receiver_progress(stream, now) || fresh;
}

/* T5: whether there is credit, or a cancellation, to report. */
static bool has_news(const struct multicast_receiver *stream)
{
	if (stream->closed)
		return false;
	if (stream->state == STREAM_WHOLE && !stream->says_done)
		return true;
	if (stream->cancelled)
		return !stream->says_cancelled;
	return stream->consumed - stream->reported >=
	    credit_batch(&stream->config.flow.geometry);
}

bool dfi__multicast_receiver_progress(
    struct multicast_receiver *stream, int64_t now)
{
	bool fresh = false, asks = false;

	look_at_reader(stream);
	if (!receiver_is_over(stream) && stream->due <= now) {
		fresh = stream->config.notify &&
		    dfi__multicast_receiver_give_up(stream, now);
		asks = receiver_may_ask(stream) && stream->due <= now;
	}
	if (asks || has_news(stream))
		dfi__multicast_receiver_report(stream, now);
	if (!stream->state && stream->cut_at <= now &&
	    !dfi__multicast_receiver_has_to_tell(stream)) {
		stream->state = STREAM_CUT;
		fresh = true;
	}
	return fresh;
}

void dfi__multicast_receiver_source_gone(
    struct multicast_receiver *stream, int64_t now)
{
	if (stream->cut_at == DEADLINE_NEVER)
		stream->cut_at = now + receiver_gap_ns(stream);
}

int64_t dfi__multicast_receiver_due(const struct multicast_receiver *stream)
{
	int64_t due = receiver_is_over(stream) ? DEADLINE_NEVER : stream->due;

	if (!stream->state && stream->cut_at < due &&
	    !dfi__multicast_receiver_has_to_tell(stream))
		due = stream->cut_at;
	return due;
}

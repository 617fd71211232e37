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

int dfi__multicast_receiver_init(struct multicast_receiver *receiver,
    const struct multicast_receiver_config *config)
{
	*receiver = (struct multicast_receiver){
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
		    sizeof(receiver->held[0])),
	};
	return receiver->held
	    ? 0
	    : dfi__fail(-ENOMEM, "multicast: out of memory for %u segments",
		  config->flow.geometry.segment_count);
}

void dfi__multicast_receiver_free(struct multicast_receiver *receiver)
{
	free(receiver->held);
	receiver->held = NULL;
}

/* Take the reader's consumed count. */
static void look_at_reader(struct multicast_receiver *receiver)
{
	const struct ring_credit *credit = &receiver->config.ring->credit;
	uint64_t consumed;

	/*
	 * Pairs with the publish in the transport's give_credit(): the reader's
	 * loads from the slots that it gave back come before our stores.
	 */
	consumed = atomic_observe(&credit->consumed);
	/* The reader can give back only what was published. */
	if (consumed - receiver->consumed <=
	    receiver->expected - receiver->consumed)
		receiver->consumed = consumed;
	switch (atomic_observe(&credit->closed)) {
	case RING_CANCELLED:
		receiver->cancelled = true;
		break;
	case RING_CLOSED:
		receiver->closed = true;
		break;
	default:
		break;
	}
}

/* All segments below number were sent. */
static void learn(
    struct multicast_receiver *receiver, uint64_t number, int64_t now)
{
	struct receiver_slot *held;

	for (;
	     receiver->known - receiver->expected < number - receiver->expected;
	     receiver->known++) {
		held = receiver_held_of(receiver, receiver->known);
		*held = (struct receiver_slot){
			.due = now + receiver_gap_ns(receiver),
			.lost_at = now + receiver_gap_ns(receiver),
		};
		if (held->due < receiver->due)
			receiver->due = held->due;
		receiver->n_gaps++;
	}
}

/*
 * Whether the number continues a gap that begins before it. The receiver asks
 * for the positions of a whole gap at once, so the answer and the report to the
 * reader are for the whole gap.
 */
static bool goes_on(const struct multicast_receiver *receiver, uint64_t number)
{
	return receiver_needs_positions(receiver) &&
	    number != receiver->expected &&
	    !receiver_held_of(receiver, number - 1)->used &&
	    !receiver_held_of(receiver, number)->used;
}

/* A segment has arrived: gaps that it is far ahead of are due now. */
static void overtake(
    struct multicast_receiver *receiver, uint64_t number, int64_t now)
{
	uint64_t ahead = number - receiver->expected;
	struct receiver_slot *held;

	if (!receiver_may_ask(receiver) || ahead < RECEIVER_OVERTAKEN)
		return;
	if ((int64_t)(receiver->overtaken - receiver->expected) < 0)
		receiver->overtaken = receiver->expected;
	for (; receiver->overtaken - receiver->expected <=
		 ahead - RECEIVER_OVERTAKEN ||
	     goes_on(receiver, receiver->overtaken);
	     receiver->overtaken++) {
		held = receiver_held_of(receiver, receiver->overtaken);
		if (held->used || held->has_position || held->n_asked)
			continue;
		held->due = receiver->due = now;
	}
}

static void put_end_mark(struct multicast_receiver *receiver,
    enum receiver_state state, uint64_t flag)
{
	struct segment_footer *mark = &receiver->config.ring->end;

	receiver->state = state;
	receiver->n_gaps = 0;
	receiver->due = DEADLINE_NEVER;
	atomic_set(&mark->total, receiver->end_total);
	/* Pairs with reader_end_marked(): all segments are published before. */
	atomic_publish(&mark->state, footer_state(receiver->expected, 0, flag));
}

bool dfi__multicast_receiver_deliver(struct multicast_receiver *receiver)
{
	struct receiver_slot *held = &receiver->held[receiver->slot];
	bool fresh = false;

	while (receiver->expected != receiver->known && held->used) {
		receiver_publish(receiver,
		    footer_state(receiver->expected, held->used, 0), 1);
		held->used = 0;
		held = &receiver->held[receiver->slot];
		receiver->counts.segments++;
		fresh = true;
	}
	if (receiver->ended && !receiver->state &&
	    receiver->expected == receiver->end) {
		put_end_mark(receiver, RECEIVER_WHOLE, FOOTER_FLAG_END);
		fresh = true;
	}
	receiver_see_to_first(receiver);
	return fresh;
}

/* T1 */
static bool take_data(struct multicast_receiver *receiver,
    const struct datagram *datagram, int64_t now)
{
	const struct ring_geometry *g = &receiver->config.flow.geometry;
	uint32_t d = receiver_distance(receiver, datagram->number);
	uint64_t number = receiver->consumed + d;
	struct segment_footer *footer;
	struct receiver_slot *held;

	if (d >= receiver_window(receiver) ||
	    d < (uint32_t)(receiver->expected - receiver->consumed) ||
	    (receiver->ended &&
		d >= (uint32_t)(receiver->end - receiver->consumed))) {
		receiver->counts.repeated++;
		return false;
	}
	held = receiver_held_of(receiver, number);
	if (number - receiver->expected <
		receiver->known - receiver->expected &&
	    held->used) {
		receiver->counts.repeated++;
		return false;
	}
	learn(receiver, number + 1, now);
	footer = receiver_footer_of(
	    receiver, receiver_slot_of(receiver, number));
	memcpy((char *)footer - g->footer_offset, datagram->payload,
	    datagram_payload(g, datagram->used));
	atomic_set(&footer->total, datagram->total - receiver->before);
	held->used = datagram->used;
	held->has_position = false;
	receiver->n_gaps--;
	receiver->counts.early += number != receiver->expected;
	if (!receiver->n_gaps)
		receiver->due = DEADLINE_NEVER;
	else
		overtake(receiver, number, now);
	return dfi__multicast_receiver_deliver(receiver);
}

/* T3; true: the ring has changed. */
static bool take_state(struct multicast_receiver *receiver,
    const struct datagram *datagram, int64_t now)
{
	uint32_t d = receiver_distance(receiver, datagram->number);
	uint64_t next = receiver->consumed + d;
	uint64_t cause;
	/* A STATE must count all delivered segments, and none after the end. */
	bool possible = d <= receiver_window(receiver) &&
	    next - receiver->consumed >=
		receiver->expected - receiver->consumed &&
	    !(receiver->ended &&
		next - receiver->consumed > receiver->end - receiver->consumed);

	if (!possible) {
		receiver->counts.outdated++;
		return false;
	}
	if (datagram->flags & DATAGRAM_ABORT) {
		cause = receiver->config.flow.open
		    ? datagram->total & FOOTER_USED_MAX
		    : 0;
		put_end_mark(receiver, RECEIVER_ABORTED,
		    footer_state(0, cause, FOOTER_FLAG_ABORT));
		return true;
	}
	if (datagram->flags & DATAGRAM_END && !receiver->ended) {
		if (next - receiver->consumed <
		    receiver->known - receiver->consumed) {
			receiver->counts.outdated++;
			return false;
		}
		receiver->ended = true;
		receiver->end = next;
		receiver->end_total = datagram->total - receiver->before;
	}
	learn(receiver, next, now);
	return dfi__multicast_receiver_deliver(receiver);
}

bool dfi__multicast_receiver_receive(struct multicast_receiver *receiver,
    const struct datagram *datagram, int64_t now)
{
	bool fresh = false;

	if (datagram->source != receiver->config.source)
		return false;
	if (receiver->config.flow.open && !receiver->begun &&
	    datagram->type != DATAGRAM_JOIN)
		return false;
	look_at_reader(receiver);
	if (datagram->type == DATAGRAM_DATA) {
		if (!receiver_is_over(receiver))
			fresh = take_data(receiver, datagram, now);
		else
			receiver->counts.repeated++;
	} else if (datagram->type == DATAGRAM_STATE) {
		receiver->counts.states++;
		if (!receiver_is_over(receiver))
			fresh = take_state(receiver, datagram, now);
		/* After a close, the registry tells the source. */
		if (!receiver->closed)
			dfi__multicast_receiver_report(receiver, now);
	} else if (datagram->type == DATAGRAM_POSITION &&
	    !receiver_is_over(receiver)) {
		fresh = dfi__multicast_receiver_take_positions(
		    receiver, datagram, now);
	} else if (datagram->type == DATAGRAM_JOIN) {
		fresh = dfi__multicast_receiver_take_join(
		    receiver, datagram, now);
	}
	return dfi__multicast_receiver_progress(receiver, now) || fresh;
}

/* T5: whether there is credit, or a cancellation, to report. */
static bool has_news(const struct multicast_receiver *receiver)
{
	if (receiver->closed)
		return false;
	if (receiver->state == RECEIVER_WHOLE && !receiver->says_done)
		return true;
	if (receiver->cancelled)
		return !receiver->says_cancelled;
	return receiver->consumed - receiver->reported >=
	    credit_batch(&receiver->config.flow.geometry);
}

bool dfi__multicast_receiver_progress(
    struct multicast_receiver *receiver, int64_t now)
{
	bool fresh = false, asks = false;

	look_at_reader(receiver);
	if (!receiver_is_over(receiver) && receiver->due <= now) {
		fresh = receiver->config.notify &&
		    dfi__multicast_receiver_give_up(receiver, now);
		asks = receiver_may_ask(receiver) && receiver->due <= now;
	}
	if (asks || has_news(receiver))
		dfi__multicast_receiver_report(receiver, now);
	if (!receiver->state && receiver->cut_at <= now &&
	    !dfi__multicast_receiver_has_to_report(receiver)) {
		receiver->state = RECEIVER_CUT;
		fresh = true;
	}
	return fresh;
}

void dfi__multicast_receiver_source_gone(
    struct multicast_receiver *receiver, int64_t now)
{
	if (receiver->cut_at == DEADLINE_NEVER)
		receiver->cut_at = now + receiver_gap_ns(receiver);
}

int64_t dfi__multicast_receiver_due(const struct multicast_receiver *receiver)
{
	int64_t due = receiver_is_over(receiver) ? DEADLINE_NEVER
						 : receiver->due;

	if (!receiver->state && receiver->cut_at < due &&
	    !dfi__multicast_receiver_has_to_report(receiver))
		due = receiver->cut_at;
	return due;
}

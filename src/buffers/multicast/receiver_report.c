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
static bool is_used(const struct multicast_receiver *receiver)
{
	return receiver->known != receiver->config.start || receiver->ended ||
	    receiver->state;
}

/* true: it was sent. report->missing has the segments to ask for. */
static bool send_report(
    struct multicast_receiver *receiver, struct datagram *report)
{
	const struct datagram_output *output = &receiver->config.output;
	bool done = receiver->state == RECEIVER_WHOLE;
	char header[DATAGRAM_HEADER_MAX];
	size_t size;

	report->type = DATAGRAM_REPORT;
	report->source = receiver->config.source;
	report->target = receiver->config.target;
	report->number = (uint32_t)(receiver->consumed + receiver->base);
	report->pair = receiver->config.flow.pair;
	report->flags = (uint8_t)((done ? DATAGRAM_DONE : 0) |
	    (receiver->cancelled ? DATAGRAM_CANCELLED : 0) |
	    (is_used(receiver) ? DATAGRAM_USED : 0));
	size = dfi__datagram_encode(&receiver->config.flow, report, header);
	if (output->send(output->arg, receiver->config.source, header, size,
		NULL, 0) < 0)
		return false;
	receiver->reported = receiver->consumed;
	receiver->says_done = done;
	receiver->says_cancelled = receiver->cancelled;
	receiver->counts.reports++;
	return true;
}

/* The time until the receiver asks again. It grows with each attempt. */
static int64_t ask_again_ns(
    const struct multicast_receiver *receiver, uint32_t n_asked)
{
	uint32_t shift = n_asked < ASK_SHIFT_MAX ? n_asked : ASK_SHIFT_MAX;
	int64_t gap = receiver_gap_ns(receiver), again = gap << shift;

	if (again > RECEIVER_ASK_MAX_NS)
		again = RECEIVER_ASK_MAX_NS;
	return again > gap ? again : gap;
}

/*
 * A gap whose position is known waits only for the gaps and segments before it.
 */
static bool waits_for_others(
    const struct multicast_receiver *receiver, uint64_t number)
{
	return receiver_held_of(receiver, number)->has_position &&
	    number != receiver->expected;
}

void dfi__multicast_receiver_find_due(struct multicast_receiver *receiver)
{
	const struct receiver_slot *held;
	uint64_t number;

	receiver->due = DEADLINE_NEVER;
	for (number = receiver->expected;
	     receiver->n_gaps && number != receiver->known; number++) {
		held = receiver_held_of(receiver, number);
		if (!held->used && held->due < receiver->due &&
		    !waits_for_others(receiver, number))
			receiver->due = held->due;
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
    struct multicast_receiver *receiver, int64_t now)
{
	struct datagram datagram = { .n_missing = 0 };
	struct receiver_slot *held;
	uint64_t number;
	bool asks = receiver->due <= now && receiver_may_ask(receiver) &&
	    !receiver_is_over(receiver);

	for (number = receiver->expected; asks && number != receiver->known;
	     number++) {
		held = receiver_held_of(receiver, number);
		if (held->used || held->has_position || held->due > now)
			continue;
		if (!add_missing(
			&datagram, (uint32_t)(number + receiver->base)))
			break;
		held->n_asked++;
		held->due = now + ask_again_ns(receiver, held->n_asked - 1);
		receiver->counts.asked++;
	}
	(void)send_report(receiver, &datagram);
	if (asks)
		dfi__multicast_receiver_find_due(receiver);
}

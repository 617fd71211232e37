/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Losses with notify: the reader gets one footer for each gap. In an ordered
 * flow the footer's slot has the position that the sender has sent.
 */
#include "receiver_state.h"

#include "base/atomic.h"

/* T4, with notify: whether a number has not arrived in time. */
static bool is_lost(
    const struct multicast_receiver *receiver, uint64_t number, int64_t now)
{
	const struct receiver_slot *held = receiver_held_of(receiver, number);

	return !held->used && held->lost_at <= now &&
	    (held->has_position || !receiver_needs_positions(receiver));
}

/* How many numbers from expected on are lost and form one gap. */
static uint32_t count_lost(
    const struct multicast_receiver *receiver, int64_t now)
{
	uint64_t number = receiver->expected;
	uint32_t n;

	for (n = 0; number + n != receiver->known; n++)
		if (!is_lost(receiver, number + n, now) ||
		    (n && receiver_needs_positions(receiver) &&
			*receiver_position_of(receiver, number + n) !=
			    *receiver_position_of(receiver, number) + n))
			break;
	return n;
}

/* Tell the reader of the first gaps. true: there was one. */
static bool report_gaps(struct multicast_receiver *receiver, int64_t now)
{
	struct segment_footer *footer;
	bool fresh = false;
	uint32_t n;

	for (;;) {
		n = count_lost(receiver, now);
		if (!n)
			break;
		footer = receiver_footer_of(receiver, receiver->slot);
		atomic_set(&footer->total, 0);
		receiver_publish(receiver,
		    footer_state(receiver->expected, n, FOOTER_FLAG_LOST), n);
		receiver->n_gaps -= n;
		receiver->counts.gaps++;
		receiver->counts.lost += n;
		fresh = true;
		dfi__multicast_receiver_deliver(receiver);
	}
	return fresh;
}

bool dfi__multicast_receiver_give_up(
    struct multicast_receiver *receiver, int64_t now)
{
	bool fresh = report_gaps(receiver, now);

	dfi__multicast_receiver_find_due(receiver);
	return fresh;
}

/*
 * Whether the number is a gap without a position. If it is not, the POSITION is
 * late: the receiver asks only for positions of gaps.
 */
static bool lacks_position(
    const struct multicast_receiver *receiver, uint64_t number)
{
	return number - receiver->expected <
	    receiver->known - receiver->expected &&
	    !receiver_held_of(receiver, number)->used &&
	    !receiver_held_of(receiver, number)->has_position;
}

bool dfi__multicast_receiver_take_positions(struct multicast_receiver *receiver,
    const struct datagram *datagram, int64_t now)
{
	/* The reader may have consumed some of them meanwhile. */
	uint64_t first = receiver->consumed +
	    (uint64_t)(int32_t)receiver_distance(receiver, datagram->number);
	int64_t due = receiver->due;
	struct receiver_slot *held;
	bool fresh;
	uint32_t i;

	for (i = 0; i < datagram->count; i++) {
		if (!receiver_needs_positions(receiver) ||
		    !lacks_position(receiver, first + i)) {
			receiver->counts.repeated++;
			continue;
		}
		held = receiver_held_of(receiver, first + i);
		*receiver_position_of(
		    receiver, first + i) = datagram->position + i;
		held->has_position = true;
		held->due = held->lost_at;
	}
	fresh = receiver_needs_positions(receiver) &&
	    report_gaps(receiver, now);
	/*
	 * No remaining gap is due before that time, except the first one if it
	 * has its position now. The time may be too early. That costs less than
	 * a search of all gaps for each answer.
	 */
	if (!receiver->state) {
		receiver->due = receiver->n_gaps ? due : DEADLINE_NEVER;
		receiver_see_to_first(receiver);
	}
	return fresh;
}

bool dfi__multicast_receiver_has_to_report(
    const struct multicast_receiver *receiver)
{
	return receiver->config.notify && receiver->n_gaps &&
	    (!receiver_needs_positions(receiver) ||
		receiver_held_of(receiver, receiver->expected)->has_position);
}

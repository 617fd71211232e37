/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Losses with notify: the reader gets one footer for each gap. In an ordered
 * flow the footer's slot has the position that the sender has sent.
 */
#include "receiver_state.h"

#include "base/atomic.h"

/* T4, with notify: whether a number has not arrived in time. */
static bool is_lost(
    const struct multicast_receiver *stream, uint64_t number, int64_t now)
{
	const struct stream_slot *held = receiver_held_of(stream, number);

	return !held->used && held->lost_at <= now &&
	    (held->placed || !receiver_needs_places(stream));
}

/* How many numbers from expected on are lost and form one gap. */
static uint32_t count_lost(const struct multicast_receiver *stream, int64_t now)
{
	uint64_t number = stream->expected;
	uint32_t n;

	for (n = 0; number + n != stream->known; n++)
		if (!is_lost(stream, number + n, now) ||
		    (n && receiver_needs_places(stream) &&
			*receiver_place_of(stream, number + n) !=
			    *receiver_place_of(stream, number) + n))
			break;
	return n;
}

/* Tell the reader of the first gaps. true: there was one. */
static bool tell(struct multicast_receiver *stream, int64_t now)
{
	struct segment_footer *footer;
	bool fresh = false;
	uint32_t n;

	for (;;) {
		n = count_lost(stream, now);
		if (!n)
			break;
		footer = receiver_footer_of(stream, stream->slot);
		atomic_set(&footer->total, 0);
		receiver_publish(stream,
		    footer_state(stream->expected, n, FOOTER_FLAG_LOST), n);
		stream->n_gaps -= n;
		stream->counts.gaps++;
		stream->counts.lost += n;
		fresh = true;
		dfi__multicast_receiver_deliver(stream);
	}
	return fresh;
}

bool dfi__multicast_receiver_give_up(
    struct multicast_receiver *stream, int64_t now)
{
	bool fresh = tell(stream, now);

	dfi__multicast_receiver_find_due(stream);
	return fresh;
}

/*
 * Whether the number is a gap without a position. If it is not, the PLACE is
 * late: the receiver asks only for positions of gaps.
 */
static bool lacks_place(
    const struct multicast_receiver *stream, uint64_t number)
{
	return number - stream->expected < stream->known - stream->expected &&
	    !receiver_held_of(stream, number)->used &&
	    !receiver_held_of(stream, number)->placed;
}

bool dfi__multicast_receiver_take_places(struct multicast_receiver *stream,
    const struct datagram *datagram, int64_t now)
{
	/* The reader may have consumed some of them meanwhile. */
	uint64_t first = stream->consumed +
	    (uint64_t)(int32_t)(datagram->number - (uint32_t)stream->consumed);
	int64_t due = stream->due;
	struct stream_slot *held;
	bool fresh;
	uint32_t i;

	for (i = 0; i < datagram->count; i++) {
		if (!receiver_needs_places(stream) ||
		    !lacks_place(stream, first + i)) {
			stream->counts.repeated++;
			continue;
		}
		held = receiver_held_of(stream, first + i);
		*receiver_place_of(stream, first + i) = datagram->place + i;
		held->placed = true;
		held->due = held->lost_at;
	}
	fresh = receiver_needs_places(stream) && tell(stream, now);
	/*
	 * No remaining gap is due before that time, except the first one if it
	 * has its position now. The time may be too early. That costs less than
	 * a search of all gaps for each answer.
	 */
	if (!stream->state) {
		stream->due = stream->n_gaps ? due : DEADLINE_NEVER;
		receiver_see_to_first(stream);
	}
	return fresh;
}

bool dfi__multicast_receiver_has_to_tell(
    const struct multicast_receiver *stream)
{
	return stream->config.notify && stream->n_gaps &&
	    (!receiver_needs_places(stream) ||
		receiver_held_of(stream, stream->expected)->placed);
}

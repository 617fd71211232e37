/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target of a multicast over datagrams does with what it receives.
 * Numbers are counted in 64 bits here; those that come in have 32, and mean
 * what is within a window of what was consumed.
 *
 *	    consumed        expected                known
 *	-------|---------------|-----------------------|------> numbers
 *	 free  | with the      | held: copied, not     | unknown
 *	       | reader        | published; or a gap   |
 *
 * Whatever the numbers are, known is at most a window from consumed: so each of
 * them has a slot of its own.
 */
#include "receiver.h"

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/error.h"
#include "buffers/checksum.h"

#define ASK_SHIFT_MAX 16

static uint32_t window(const struct multicast_receiver *stream)
{
	return stream->config.flow.geometry.segment_count;
}

static int64_t gap_ns(const struct multicast_receiver *stream)
{
	return (int64_t)stream->config.gap_us * 1000;
}

/* What is lost is told at its place, which only the source knows: O5. */
static bool needs_places(const struct multicast_receiver *stream)
{
	return stream->config.notify &&
	    stream->config.flow.geometry.parts & SEGMENT_GLOBAL;
}

/* Whether the source is asked for what is missing. */
static bool may_ask(const struct multicast_receiver *stream)
{
	return !stream->config.notify || needs_places(stream);
}

static struct segment_footer *footer_of(
    const struct multicast_receiver *stream, uint32_t slot)
{
	const struct ring_geometry *g = &stream->config.flow.geometry;

	return (struct segment_footer *)(void *)(stream->slots +
	    (uint64_t)g->slot_size * slot + g->footer_offset);
}

/* The slot of a number from expected on, less than a window ahead. */
static uint32_t slot_of(
    const struct multicast_receiver *stream, uint64_t number)
{
	uint32_t slot = stream->slot + (uint32_t)(number - stream->expected);

	return slot < window(stream) ? slot : slot - window(stream);
}

static struct stream_slot *held_of(
    const struct multicast_receiver *stream, uint64_t number)
{
	return &stream->held[slot_of(stream, number)];
}

/* Where a segment belongs that is held, or a gap that is placed. */
static uint64_t *place_of(
    const struct multicast_receiver *stream, uint64_t number)
{
	const struct ring_geometry *g = &stream->config.flow.geometry;
	char *slot = (char *)footer_of(stream, slot_of(stream, number)) -
	    g->footer_offset;

	return &segment_header(g, slot + g->payload_offset)->global;
}

/* Nothing that comes is for anybody. */
static bool is_over(const struct multicast_receiver *stream)
{
	return stream->state || stream->cancelled || stream->closed;
}

int dfi__multicast_receiver_init(struct multicast_receiver *stream,
    const struct multicast_receiver_config *config)
{
	*stream = (struct multicast_receiver){
		.config = *config,
		.slots = (char *)(config->ring + 1),
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
	    : dfi__fail(-ENOMEM, "no memory for a stream of %u segments",
		  config->flow.geometry.segment_count);
}

void dfi__multicast_receiver_free(struct multicast_receiver *stream)
{
	free(stream->held);
	stream->held = NULL;
}

/* What the reader has done. */
static void look_at_reader(struct multicast_receiver *stream)
{
	const struct ring_credit *credit = &stream->config.ring->credit;
	uint64_t consumed;

	/*
	 * Pairs with the publish in the transport's give_credit(): the reader's
	 * loads from the slots that it gave back come before our stores.
	 */
	consumed = atomic_observe(&credit->consumed);
	/* It gives back what it has; so nothing that is to come. */
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

/* A source that begins now would go on with what another one began. */
static bool is_used(const struct multicast_receiver *stream)
{
	return stream->known != stream->config.start || stream->ended ||
	    stream->state;
}

/* Whether it was sent. report->missing: what is asked for. */
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

/* Again and again, but less and less often. */
static int64_t ask_again_ns(
    const struct multicast_receiver *stream, uint32_t n_asked)
{
	uint32_t shift = n_asked < ASK_SHIFT_MAX ? n_asked : ASK_SHIFT_MAX;
	int64_t gap = gap_ns(stream), again = gap << shift;

	if (again > STREAM_ASK_MAX_NS)
		again = STREAM_ASK_MAX_NS;
	return again > gap ? again : gap;
}

/* A gap that is placed has nothing to do but to be told, when it is first. */
static bool waits_for_others(
    const struct multicast_receiver *stream, uint64_t number)
{
	return held_of(stream, number)->placed && number != stream->expected;
}

/* Of all gaps: the first one's time. */
static void find_due(struct multicast_receiver *stream)
{
	const struct stream_slot *held;
	uint64_t number;

	stream->due = DEADLINE_NEVER;
	for (number = stream->expected;
	     stream->n_gaps && number != stream->known; number++) {
		held = held_of(stream, number);
		if (!held->used && held->due < stream->due &&
		    !waits_for_others(stream, number))
			stream->due = held->due;
	}
}

/* Add a number to the ranges, in ascending order; false: there is no room. */
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

/* Report, with the gaps that it is time to ask for. */
static void report(struct multicast_receiver *stream, int64_t now)
{
	struct datagram datagram = { .n_missing = 0 };
	struct stream_slot *held;
	uint64_t number;
	bool asks = stream->due <= now && may_ask(stream) && !is_over(stream);

	for (number = stream->expected; asks && number != stream->known;
	     number++) {
		held = held_of(stream, number);
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
		find_due(stream);
}

/* All below number were sent. */
static void learn(
    struct multicast_receiver *stream, uint64_t number, int64_t now)
{
	struct stream_slot *held;

	for (; stream->known - stream->expected < number - stream->expected;
	     stream->known++) {
		held = held_of(stream, stream->known);
		*held = (struct stream_slot){
			.due = now + gap_ns(stream),
			.lost_at = now + gap_ns(stream),
		};
		if (held->due < stream->due)
			stream->due = held->due;
		stream->n_gaps++;
	}
}

/*
 * Places are asked for of a whole gap at once, and so are answered, and told,
 * at once: of one that begins before that number and is there, too.
 */
static bool goes_on(const struct multicast_receiver *stream, uint64_t number)
{
	return needs_places(stream) && number != stream->expected &&
	    !held_of(stream, number - 1)->used &&
	    !held_of(stream, number)->used;
}

/* A segment has come: gaps that it is far ahead of are asked for now. */
static void overtake(
    struct multicast_receiver *stream, uint64_t number, int64_t now)
{
	uint64_t ahead = number - stream->expected;
	struct stream_slot *held;

	if (!may_ask(stream) || ahead < STREAM_OVERTAKEN)
		return;
	if ((int64_t)(stream->overtaken - stream->expected) < 0)
		stream->overtaken = stream->expected;
	for (;
	     stream->overtaken - stream->expected <= ahead - STREAM_OVERTAKEN ||
	     goes_on(stream, stream->overtaken);
	     stream->overtaken++) {
		held = held_of(stream, stream->overtaken);
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
	/* Pairs with reader_end_marked(): all segments came before. */
	atomic_publish(&mark->state, footer_state(stream->expected, 0, flag));
}

/* Publish what is next, once: a segment, or that so many are lost. */
static void publish(
    struct multicast_receiver *stream, uint64_t state, uint32_t n)
{
	/* Pairs with reader_ready(): the tuples and the footer's total. */
	atomic_publish(&footer_of(stream, stream->slot)->state, state);
	stream->slot = slot_of(stream, stream->expected + n);
	stream->expected += n;
}

/* The gap that is first has waited for those before it, or for its place. */
static void see_to_first(struct multicast_receiver *stream)
{
	const struct stream_slot *held = &stream->held[stream->slot];

	if (stream->expected != stream->known && held->placed &&
	    held->due < stream->due)
		stream->due = held->due;
}

/* T2: all that is in order; and the end. */
static bool deliver(struct multicast_receiver *stream)
{
	struct stream_slot *held = &stream->held[stream->slot];
	bool fresh = false;

	while (stream->expected != stream->known && held->used) {
		publish(
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
	see_to_first(stream);
	return fresh;
}

/* T4, notify: what was not there in time never will be. */
static bool is_lost(
    const struct multicast_receiver *stream, uint64_t number, int64_t now)
{
	const struct stream_slot *held = held_of(stream, number);

	return !held->used && held->lost_at <= now &&
	    (held->placed || !needs_places(stream));
}

/* How many are lost from expected on that are one gap. */
static uint32_t count_lost(const struct multicast_receiver *stream, int64_t now)
{
	uint64_t number = stream->expected;
	uint32_t n;

	for (n = 0; number + n != stream->known; n++)
		if (!is_lost(stream, number + n, now) ||
		    (n && needs_places(stream) &&
			*place_of(stream, number + n) !=
			    *place_of(stream, number) + n))
			break;
	return n;
}

/* Whether there was something. */
static bool tell(struct multicast_receiver *stream, int64_t now)
{
	struct segment_footer *footer;
	bool fresh = false;
	uint32_t n;

	for (;;) {
		n = count_lost(stream, now);
		if (!n)
			break;
		footer = footer_of(stream, stream->slot);
		atomic_set(&footer->total, 0);
		publish(stream,
		    footer_state(stream->expected, n, FOOTER_FLAG_LOST), n);
		stream->n_gaps -= n;
		stream->counts.gaps++;
		stream->counts.lost += n;
		fresh = true;
		deliver(stream);
	}
	return fresh;
}

static bool give_up(struct multicast_receiver *stream, int64_t now)
{
	bool fresh = tell(stream, now);

	find_due(stream);
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

	if (d >= window(stream) ||
	    d < (uint32_t)(stream->expected - stream->consumed) ||
	    (stream->ended &&
		d >= (uint32_t)(stream->end - stream->consumed))) {
		stream->counts.repeated++;
		return false;
	}
	held = held_of(stream, number);
	if (number - stream->expected < stream->known - stream->expected &&
	    held->used) {
		stream->counts.repeated++;
		return false;
	}
	learn(stream, number + 1, now);
	footer = footer_of(stream, slot_of(stream, number));
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
	return deliver(stream);
}

/* It is said of what was asked for, so of a gap; or it is late. */
static bool lacks_place(
    const struct multicast_receiver *stream, uint64_t number)
{
	return number - stream->expected < stream->known - stream->expected &&
	    !held_of(stream, number)->used && !held_of(stream, number)->placed;
}

/* O5; whether the ring changes. */
static bool take_places(struct multicast_receiver *stream,
    const struct datagram *datagram, int64_t now)
{
	/* What was consumed meanwhile may be among them. */
	uint64_t first = stream->consumed +
	    (uint64_t)(int32_t)(datagram->number - (uint32_t)stream->consumed);
	int64_t due = stream->due;
	struct stream_slot *held;
	bool fresh;
	uint32_t i;

	for (i = 0; i < datagram->count; i++) {
		if (!needs_places(stream) || !lacks_place(stream, first + i)) {
			stream->counts.repeated++;
			continue;
		}
		held = held_of(stream, first + i);
		*place_of(stream, first + i) = datagram->place + i;
		held->placed = true;
		held->due = held->lost_at;
	}
	fresh = needs_places(stream) && tell(stream, now);
	/*
	 * No gap that is left is due before that, but the first one, if that is
	 * placed now. It may be too early, which is cheaper than to look at all
	 * gaps for each answer.
	 */
	if (!stream->state) {
		stream->due = stream->n_gaps ? due : DEADLINE_NEVER;
		see_to_first(stream);
	}
	return fresh;
}

/* T3; whether the ring changes. */
static bool take_state(struct multicast_receiver *stream,
    const struct datagram *datagram, int64_t now)
{
	uint32_t d = datagram->number - (uint32_t)stream->consumed;
	uint64_t next = stream->consumed + d;
	/* What was delivered was sent; and after the end nothing is. */
	bool possible = d <= window(stream) &&
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
	return deliver(stream);
}

bool dfi__multicast_receiver_receive(struct multicast_receiver *stream,
    const struct datagram *datagram, int64_t now)
{
	bool fresh = false;

	if (datagram->source != stream->config.source)
		return false;
	look_at_reader(stream);
	if (datagram->type == DATAGRAM_DATA) {
		if (!is_over(stream))
			fresh = take_data(stream, datagram, now);
		else
			stream->counts.repeated++;
	} else if (datagram->type == DATAGRAM_STATE) {
		stream->counts.states++;
		if (!is_over(stream))
			fresh = take_state(stream, datagram, now);
		/* Who is gone, says the registry. */
		if (!stream->closed)
			report(stream, now);
	} else if (datagram->type == DATAGRAM_PLACE && !is_over(stream)) {
		fresh = take_places(stream, datagram, now);
	}
	return dfi__multicast_receiver_progress(stream, now) || fresh;
}

/* T5, and that the reader wants no more. */
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

/* Of a source that is gone: what is missing is told first, if it can be. */
static bool has_to_tell(const struct multicast_receiver *stream)
{
	return stream->config.notify && stream->n_gaps &&
	    (!needs_places(stream) ||
		held_of(stream, stream->expected)->placed);
}

bool dfi__multicast_receiver_progress(
    struct multicast_receiver *stream, int64_t now)
{
	bool fresh = false, asks = false;

	look_at_reader(stream);
	if (!is_over(stream) && stream->due <= now) {
		fresh = stream->config.notify && give_up(stream, now);
		asks = may_ask(stream) && stream->due <= now;
	}
	if (asks || has_news(stream))
		report(stream, now);
	if (!stream->state && stream->cut_at <= now && !has_to_tell(stream)) {
		stream->state = STREAM_CUT;
		fresh = true;
	}
	return fresh;
}

void dfi__multicast_receiver_source_gone(
    struct multicast_receiver *stream, int64_t now)
{
	if (stream->cut_at == DEADLINE_NEVER)
		stream->cut_at = now + gap_ns(stream);
}

int64_t dfi__multicast_receiver_due(const struct multicast_receiver *stream)
{
	int64_t due = is_over(stream) ? DEADLINE_NEVER : stream->due;

	if (!stream->state && stream->cut_at < due && !has_to_tell(stream))
		due = stream->cut_at;
	return due;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets that join and leave a stream of datagrams (J3 of docs/open-flows.md):
 * each end by itself, step by step, and its response to what is old, or of
 * another pair.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "base/clock.h"
#include "buffers/layout/checksum.h"
#include "buffers/multicast/receiver.h"
#include "buffers/multicast/sender.h"
#include "buffers/reader.h"

enum {
	TUPLE = 8,
	TUPLES = 4, /* of a segment, of which the tests fill one or two */
	W = 8,
	N_TARGETS = 3,
};

#define STREAM UINT64_C(0x1111111111111111)
#define PAIR UINT64_C(0x2222222222222222)
#define OTHER_PAIR UINT64_C(0x3333333333333333)
#define GAP_US 1000
#define GAP (INT64_C(1000) * GAP_US)

static const uint64_t starts[] = { 1, UINT32_MAX - UINT64_C(3) };

TestSuite(multicast_join, .timeout = 300);

/* The datagrams that an end has sent, as the other one parses them. */
static struct {
	struct datagram datagrams[64];
	char payloads[64][256];
	uint32_t to[64], n;
} sent;

static struct datagram_flow flow_of(uint32_t parts, uint64_t pair)
{
	return (struct datagram_flow){
		.instance = STREAM,
		.open = true,
		.pair = pair,
		.n_sources = 1,
		.n_targets = N_TARGETS,
		.geometry = ring_geometry_with(
		    TUPLE, TUPLES * TUPLE, W, parts, FOOTER_BEHIND),
	};
}

/* ---- A source ----------------------------------------------------------- */

struct sender {
	struct multicast_sender protocol;
	struct ring_header headers[N_TARGETS];
	char *slots;
	uint64_t start, written, total, marked;
	uint64_t pairs[N_TARGETS]; /* that have joined */
	int64_t now;
};

static void note(const struct datagram_flow *flow, uint32_t to,
    const void *header, size_t header_size, const void *payload,
    size_t payload_size)
{
	char data[512];

	cr_assert_leq(header_size + payload_size, sizeof(data));
	cr_assert_lt(sent.n, 64);
	memcpy(data, header, header_size);
	if (payload_size)
		memcpy(data + header_size, payload, payload_size);
	cr_assert(dfi__datagram_parse(
	    flow, data, header_size + payload_size, &sent.datagrams[sent.n]));
	if (payload_size) {
		memcpy(sent.payloads[sent.n], payload, payload_size);
		sent.datagrams[sent.n].payload = sent.payloads[sent.n];
	}
	sent.to[sent.n++] = to;
}

static uint32_t segment_parts;

static int take_from_source(void *arg, uint32_t to, const void *header,
    size_t header_size, const void *payload, size_t payload_size)
{
	struct datagram_flow flow = flow_of(segment_parts,
	    ((const struct sender *)arg)->pairs[to < N_TARGETS ? to : 0]);

	note(&flow, to, header, header_size, payload, payload_size);
	return 0;
}

static struct segment_footer *slot_footer(
    const struct sender *sender, uint64_t n)
{
	const struct ring_geometry *g = &sender->protocol.config.flow.geometry;

	return (struct segment_footer *)(void *)(sender->slots +
	    (size_t)g->slot_size * (n % W) + g->footer_offset);
}

static void start_sender(struct sender *sender, uint64_t start, uint32_t parts)
{
	struct multicast_sender_config config = {
		.output = { take_from_source, sender },
		.flow = flow_of(parts, 0),
		.gap_us = GAP_US,
		.start = start,
	};
	uint32_t i;

	segment_parts = parts;
	memset(&sent, 0, sizeof(sent));
	memset(sender, 0, sizeof(*sender));
	sender->slots = aligned_alloc(
	    128, (size_t)config.flow.geometry.slot_size * W);
	cr_assert_not_null(sender->slots);
	config.slots = sender->slots;
	sender->start = start;
	sender->now = 5 * GAP;
	cr_assert_eq(dfi__multicast_sender_init(&sender->protocol, &config), 0);
	for (i = 0; i < W; i++)
		atomic_set(&slot_footer(sender, i)->state,
		    footer_state(start - W + i, 0, 0));
	for (i = 0; i < N_TARGETS; i++)
		dfi__multicast_sender_attach(
		    &sender->protocol, i, &sender->headers[i].credit);
}

static void stop_sender(struct sender *sender)
{
	dfi__multicast_sender_free(&sender->protocol);
	free(sender->slots);
}

static void progress(struct sender *sender)
{
	cr_assert_eq(
	    dfi__multicast_sender_progress(&sender->protocol, sender->now), 0);
}

/* Send a segment of n tuples, each of which is its number. */
static void send_segment(struct sender *sender, uint32_t n)
{
	const struct ring_geometry *g = &sender->protocol.config.flow.geometry;
	struct segment_footer *footer = slot_footer(sender, sender->written);
	char *payload = (char *)footer - g->footer_offset + g->payload_offset;
	uint64_t state = footer_state(
	    sender->start + sender->written, n * TUPLE, 0);
	uint32_t i;

	for (i = 0; i < n; i++)
		memcpy(payload + (size_t)i * TUPLE, &sender->total, TUPLE),
		    sender->total++;
	if (g->parts & SEGMENT_CHECKSUM)
		segment_header(g, payload)->checksum = dfi__segment_checksum(
		    g, payload, state);
	atomic_set(&footer->total, sender->total);
	atomic_publish(&footer->state, state);
	sender->written++;
	progress(sender);
}

/* The next segment's number. */
static uint64_t next_number(const struct sender *sender)
{
	return sender->start + sender->written;
}

static void join(struct sender *sender, uint32_t target, uint64_t pair)
{
	sender->pairs[target] = pair;
	dfi__multicast_sender_join(&sender->protocol, target, pair,
	    next_number(sender), sender->total, sender->marked, sender->now);
}

static bool reports(
    struct sender *sender, uint32_t target, uint64_t pair, uint64_t number)
{
	struct datagram report = {
		.type = DATAGRAM_REPORT,
		.number = (uint32_t)number,
		.pair = pair,
		.target = target,
	};

	return dfi__multicast_sender_receive(&sender->protocol, &report);
}

static uint64_t credit(const struct sender *sender, uint32_t target)
{
	return sender->headers[target].credit.consumed;
}

static void for_starts(void (*fn)(struct sender *sender))
{
	struct sender sender;
	size_t i;

	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		start_sender(&sender, starts[i], 0);
		fn(&sender);
		stop_sender(&sender);
	}
}

static void begin_alone(struct sender *sender)
{
	cr_assert(dfi__multicast_sender_is_over(&sender->protocol));
	send_segment(sender, 2);
	send_segment(sender, 1);
	cr_assert_eq(sent.n, 2);
	cr_assert_eq(
	    dfi__multicast_sender_due(&sender->protocol), DEADLINE_NEVER);
	cr_assert(!reports(sender, 1, 0, next_number(sender)));
	cr_assert(!reports(sender, 1, PAIR, next_number(sender)));
}

Test(multicast_join, a_source_counts_nobody_at_first)
{
	for_starts(begin_alone);
}

static void say_where(struct sender *sender)
{
	const struct datagram *said = &sent.datagrams[1];

	send_segment(sender, 2);
	join(sender, 1, PAIR);
	cr_assert_eq(sent.n, 2);
	cr_assert_eq(sent.to[1], 1);
	cr_assert_eq(said->type, DATAGRAM_JOIN);
	cr_assert_eq(said->pair, PAIR);
	cr_assert_eq(said->first, sender->start + 1);
	cr_assert_eq(said->number, (uint32_t)(sender->start + 1));
	cr_assert_eq(said->total, 2);
	cr_assert_eq(said->target, 1);
	/* The mark in front takes room. */
	cr_assert_eq(credit(sender, 1), sender->start);
	cr_assert_eq(sender->headers[1].credit.closed, RING_OPEN);
	cr_assert(!dfi__multicast_sender_is_over(&sender->protocol));
}

Test(multicast_join, a_join_says_where_a_target_begins)
{
	for_starts(say_where);
}

static void join_until_answered(struct sender *sender)
{
	int64_t step = GAP;
	uint32_t i;

	join(sender, 2, PAIR);
	for (i = 0; i < 3; i++, step *= 2) {
		cr_assert_eq(dfi__multicast_sender_due(&sender->protocol),
		    sender->now + step);
		sender->now += step - 1;
		sent.n = 0;
		progress(sender);
		cr_assert_eq(sent.n, 0);
		sender->now++;
		progress(sender);
		cr_assert_eq(sent.n, 1);
		cr_assert_eq(sent.datagrams[0].type, DATAGRAM_JOIN);
		cr_assert_eq(sent.to[0], 2);
	}
	/* It has begun, and its application has not looked yet. */
	cr_assert(!reports(sender, 2, PAIR, sender->start - 1));
	cr_assert_eq(sender->protocol.n_joining, 0);
	cr_assert(reports(sender, 2, PAIR, sender->start));
	cr_assert_eq(credit(sender, 2), sender->start);
	sent.n = 0;
	sender->now += 10 * GAP;
	progress(sender);
	cr_assert_eq(sent.n, 0);
	cr_assert_eq(
	    dfi__multicast_sender_due(&sender->protocol), DEADLINE_NEVER);
}

Test(multicast_join, a_join_is_repeated_until_it_is_answered)
{
	for_starts(join_until_answered);
}

/* The next segment is a mark. */
static void send_mark(struct sender *sender, uint64_t mark)
{
	const struct ring_geometry *g = &sender->protocol.config.flow.geometry;
	struct segment_footer *footer = slot_footer(sender, sender->written);
	uint64_t state = footer_state(next_number(sender), FOOTER_MARK, 0);
	char *payload = (char *)footer - g->footer_offset + g->payload_offset;

	memcpy(payload, &mark, sizeof(mark));
	if (g->parts & SEGMENT_CHECKSUM)
		segment_header(g, payload)->checksum = dfi__segment_checksum(
		    g, payload, state);
	atomic_set(&footer->total, sender->total);
	atomic_publish(&footer->state, state);
	sender->written++;
	sender->marked = mark;
	progress(sender);
}

/* What comes behind is no part of what a target begins with. */
static void say_the_mark_of_then(struct sender *sender)
{
	send_mark(sender, 7);
	join(sender, 0, PAIR);
	cr_assert_eq(sent.datagrams[sent.n - 1].mark, 7);
	send_mark(sender, 9);
	sent.n = 0;
	sender->now += GAP;
	progress(sender);
	cr_assert_eq(sent.n, 1);
	cr_assert_eq(sent.datagrams[0].type, DATAGRAM_JOIN);
	cr_assert_eq(sent.datagrams[0].mark, 7);
	/* Marks are no tuples. */
	cr_assert_eq(dfi__multicast_sender_unreturned(
			 &sender->protocol, 0, next_number(sender), 0),
	    0);
}

Test(multicast_join, a_join_says_the_last_mark_of_before)
{
	for_starts(say_the_mark_of_then);
}

static void believe_the_pair(struct sender *sender)
{
	send_segment(sender, 1);
	join(sender, 0, PAIR);
	send_segment(sender, 1);
	cr_assert(!reports(sender, 0, OTHER_PAIR, next_number(sender)));
	cr_assert(!reports(sender, 0, 0, next_number(sender)));
	/* Before it began, and what was not sent. */
	cr_assert(!reports(sender, 0, PAIR, sender->start - 1));
	cr_assert(!reports(sender, 0, PAIR, next_number(sender) + 1));
	cr_assert_eq(credit(sender, 0), sender->start);
	cr_assert(reports(sender, 0, PAIR, next_number(sender)));
	cr_assert_eq(credit(sender, 0), next_number(sender));
}

Test(multicast_join, reports_of_other_pairs_are_not_used)
{
	for_starts(believe_the_pair);
}

static void give_the_number_away(struct sender *sender)
{
	join(sender, 0, PAIR);
	send_segment(sender, 1);
	dfi__multicast_sender_forget(&sender->protocol, 0);
	cr_assert(!reports(sender, 0, PAIR, next_number(sender)));
	cr_assert_eq(sender->protocol.n_joining, 0);
	cr_assert(dfi__multicast_sender_is_over(&sender->protocol));
	join(sender, 0, OTHER_PAIR);
	cr_assert_eq(credit(sender, 0), sender->start);
	cr_assert(!reports(sender, 0, PAIR, next_number(sender)));
	cr_assert(reports(sender, 0, OTHER_PAIR, next_number(sender)));
}

Test(multicast_join, the_next_target_is_not_taken_for_the_last_one)
{
	for_starts(give_the_number_away);
}

static void count_unreturned(struct sender *sender)
{
	struct multicast_sender *protocol = &sender->protocol;
	uint32_t i;

	for (i = 0; i < W; i++)
		send_segment(sender, 3);
	join(sender, 1, PAIR);
	cr_assert_eq(dfi__multicast_sender_unreturned(
			 protocol, 1, next_number(sender), 0),
	    0);
	send_segment(sender, 2);
	send_segment(sender, 1);
	cr_assert_eq(dfi__multicast_sender_unreturned(
			 protocol, 1, next_number(sender), 0),
	    3);
	cr_assert(reports(sender, 1, PAIR, next_number(sender) - 1));
	cr_assert_eq(dfi__multicast_sender_unreturned(
			 protocol, 1, next_number(sender), 0),
	    1);
	/* Who has not joined lacks nothing. */
	cr_assert_eq(dfi__multicast_sender_unreturned(
			 protocol, 2, next_number(sender), 0),
	    0);
}

Test(multicast_join, what_a_target_has_not_given_back_is_known)
{
	for_starts(count_unreturned);
}

static void leave(struct sender *sender)
{
	struct multicast_sender *protocol = &sender->protocol;

	join(sender, 0, PAIR);
	join(sender, 1, OTHER_PAIR);
	send_segment(sender, 2);
	send_segment(sender, 2);
	dfi__multicast_sender_left(protocol, 0, next_number(sender) - 1);
	cr_assert_eq(credit(sender, 0), next_number(sender) - 1);
	cr_assert_eq(sender->headers[0].credit.closed, RING_CLOSED);
	cr_assert_eq(dfi__multicast_sender_unreturned(
			 protocol, 0, next_number(sender), 0),
	    2);
	/* It holds up nobody, and what comes later is not its own. */
	cr_assert(!reports(sender, 0, PAIR, next_number(sender)));
	/* Impossible counts are not used. */
	dfi__multicast_sender_left(protocol, 1, next_number(sender) + 1);
	cr_assert_eq(credit(sender, 1), sender->start - 1);
	cr_assert_eq(sender->headers[1].credit.closed, RING_CLOSED);
	cr_assert(dfi__multicast_sender_is_over(protocol));
}

Test(multicast_join, a_target_that_leaves_has_given_back_what_it_says)
{
	for_starts(leave);
}

static void abort_one(struct sender *sender)
{
	uint32_t i;

	join(sender, 0, PAIR);
	join(sender, 1, OTHER_PAIR);
	sent.n = 0;
	dfi__multicast_sender_abort(&sender->protocol, 0, 5);
	cr_assert_gt(sent.n, 1);
	for (i = 0; i < sent.n; i++) {
		cr_assert_eq(sent.datagrams[i].type, DATAGRAM_STATE);
		cr_assert_eq(sent.datagrams[i].flags, DATAGRAM_ABORT);
		cr_assert_eq(sent.datagrams[i].total, 5);
		cr_assert_eq(sent.to[i], 0);
	}
	/* The other goes on. */
	send_segment(sender, 1);
	cr_assert_eq(sent.datagrams[sent.n - 1].type, DATAGRAM_DATA);
	cr_assert_eq(sent.to[sent.n - 1], DATAGRAM_ALL);
	cr_assert(reports(sender, 1, OTHER_PAIR, next_number(sender)));
	/* There is nothing to tell who has not joined. */
	i = sent.n;
	dfi__multicast_sender_abort(&sender->protocol, 2, 0);
	cr_assert_eq(sent.n, i);
}

Test(multicast_join, one_target_is_aborted_alone)
{
	for_starts(abort_one);
}

/* ---- A target ----------------------------------------------------------- */

struct receiver {
	struct multicast_receiver protocol;
	struct region region;
	struct reader reader;
	char *memory;
	int64_t now;
};

static int take_from_target(void *arg, uint32_t to, const void *header,
    size_t header_size, const void *payload, size_t payload_size)
{
	struct datagram_flow flow = flow_of(segment_parts, 0);

	(void)arg;
	note(&flow, to, header, header_size, payload, payload_size);
	return 0;
}

static int give_credit(struct region *region, struct export *export,
    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
    enum ring_closed closed)
{
	struct ring_header *header =
	    (struct ring_header *)(void *)((char *)region->base +
		layout->first_ring + ring * layout->ring_size);

	(void)export;
	atomic_publish(&header->credit.consumed, consumed);
	if (closed)
		atomic_publish(&header->credit.closed, closed);
	return 1;
}

static const struct transport_ops ops = {
	.name = "join",
	.ring.give_credit = give_credit,
};
static struct transport transport = { .ops = &ops };

static void start_receiver(struct receiver *receiver, uint32_t parts)
{
	struct multicast_receiver_config config = {
		.output = { take_from_target, receiver },
		.flow = flow_of(parts, PAIR),
		.gap_us = GAP_US,
		.start = RING_FIRST_SEGMENT,
	};
	const struct ring_geometry *g = &config.flow.geometry;

	memset(receiver, 0, sizeof(*receiver));
	receiver->memory = aligned_alloc(128, region_size(g, 1));
	cr_assert_not_null(receiver->memory);
	receiver->region.base = receiver->memory;
	receiver->region.transport = &transport;
	receiver->now = 5 * GAP;
	dfi__region_init(&receiver->region);
	dfi__reader_init(
	    &receiver->reader, &receiver->region, g, 1, 0, RING_FIRST_SEGMENT);
	receiver->reader.batch = 1;
	config.ring = (struct ring_header *)(void *)(receiver->memory +
	    ring_offset(g, 0));
	cr_assert_eq(
	    dfi__multicast_receiver_init(&receiver->protocol, &config), 0);
}

static void stop_receiver(struct receiver *receiver)
{
	dfi__multicast_receiver_free(&receiver->protocol);
	free(receiver->memory);
}

/* Datagram i of those sent arrives. */
static bool arrive(struct receiver *receiver, uint32_t i)
{
	struct datagram datagram = sent.datagrams[i];

	sent.n = 0;
	return dfi__multicast_receiver_receive(
	    &receiver->protocol, &datagram, receiver->now);
}

/* The reader takes the mark, which says how many tuples came before. */
static void read_mark(struct receiver *receiver, uint64_t before)
{
	struct reader *reader = &receiver->reader;
	const char *payload;
	uint64_t bytes;

	cr_assert(reader_ready(reader));
	cr_assert_eq(dfi__reader_take_other(reader, &payload, &bytes), 0, "%s",
	    dfi_errmsg());
	cr_assert(reader->has_mark);
	cr_assert_eq(bytes, 0);
	cr_assert_eq(reader->marked, before + 1);
	cr_assert_eq(reader_release(reader), 0);
	reader->base = receiver->protocol.base;
}

/* The reader takes a segment of n tuples. */
static void read_segment(struct receiver *receiver, uint64_t first, uint32_t n)
{
	struct reader *reader = &receiver->reader;
	uint64_t bytes, tuple;
	const char *payload;
	uint32_t i;

	cr_assert(reader_ready(reader));
	cr_assert_eq(
	    reader_take(reader, &payload, &bytes), 0, "%s", dfi_errmsg());
	cr_assert_eq(bytes, n * TUPLE);
	for (i = 0; i < n; i++) {
		memcpy(&tuple, payload + (size_t)i * TUPLE, TUPLE);
		cr_assert_eq(tuple, first + i);
	}
	cr_assert_eq(reader_release(reader), 0);
}

/* A target joins a source behind n segments of two tuples. */
static void start_both(struct sender *sender, struct receiver *receiver,
    uint64_t start, uint32_t parts, uint32_t n)
{
	start_sender(sender, start, parts);
	start_receiver(receiver, parts);
	for (; n > 0; n--)
		send_segment(sender, 2);
	sent.n = 0;
	join(sender, 1, PAIR);
}

static void for_both(uint32_t parts,
    void (*fn)(struct sender *sender, struct receiver *receiver))
{
	struct receiver receiver;
	struct sender sender;
	size_t i;

	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		start_both(&sender, &receiver, starts[i], parts, 5);
		fn(&sender, &receiver);
		stop_receiver(&receiver);
		stop_sender(&sender);
	}
}

static void begin_with_join(struct sender *sender, struct receiver *receiver)
{
	struct datagram said = sent.datagrams[0];

	/* What comes before is not for this target. */
	send_segment(sender, 2);
	cr_assert(!arrive(receiver, 1));
	cr_assert_eq(sent.n, 0);
	cr_assert(!reader_ready(&receiver->reader));
	sent.datagrams[0] = said;
	cr_assert(arrive(receiver, 0));
	cr_assert_eq(sent.n, 1);
	cr_assert_eq(sent.datagrams[0].type, DATAGRAM_REPORT);
	cr_assert_eq(sent.datagrams[0].pair, PAIR);
	cr_assert_eq(sent.datagrams[0].target, 1);
	cr_assert_eq(sent.datagrams[0].number, (uint32_t)(said.first - 1));
	/* It is answered as often as it comes. */
	sent.datagrams[0] = said;
	cr_assert(!arrive(receiver, 0));
	cr_assert_eq(sent.n, 1);
	read_mark(receiver, 10);
	cr_assert(!reader_ready(&receiver->reader));
}

Test(multicast_join, a_target_begins_where_the_join_says)
{
	for_both(0, begin_with_join);
	for_both(SEGMENT_CHECKSUM, begin_with_join);
}

/* Lost, asked for, and sent again, as other segments are. */
static void repair_a_mark(struct sender *sender, struct receiver *receiver)
{
	struct reader *reader = &receiver->reader;
	struct datagram report;
	const char *payload;
	uint64_t bytes;

	cr_assert(arrive(receiver, 0));
	read_mark(receiver, 10);
	reader->marked = 0;
	sent.n = 0;
	send_mark(sender, 5);
	sent.n = 0;
	send_segment(sender, 1);
	cr_assert(!arrive(receiver, 0));
	sent.n = 0;
	receiver->now += GAP;
	dfi__multicast_receiver_progress(&receiver->protocol, receiver->now);
	cr_assert_eq(sent.n, 1);
	report = sent.datagrams[0];
	cr_assert_eq(report.type, DATAGRAM_REPORT);
	cr_assert_eq(report.n_missing, 1);
	sent.n = 0;
	dfi__multicast_sender_receive(&sender->protocol, &report);
	cr_assert_eq(sent.n, 1);
	cr_assert_eq(sent.datagrams[0].used, FOOTER_MARK);
	cr_assert(arrive(receiver, 0));
	cr_assert_eq(dfi__reader_take_other(reader, &payload, &bytes), 0, "%s",
	    dfi_errmsg());
	cr_assert(reader->has_mark);
	cr_assert_eq(reader->marked, 5);
	cr_assert_eq(reader_release(reader), 0);
	reader->has_mark = false;
	read_segment(receiver, 10, 1);
}

Test(multicast_join, a_mark_is_repaired)
{
	for_both(0, repair_a_mark);
	for_both(SEGMENT_CHECKSUM, repair_a_mark);
}

static void take_all_behind(struct sender *sender, struct receiver *receiver)
{
	uint32_t i;

	arrive(receiver, 0);
	read_mark(receiver, 10);
	for (i = 0; i < 3 * W; i++) {
		sent.n = 0;
		send_segment(sender, 1 + i % 3);
		cr_assert(arrive(receiver, 0));
		read_segment(receiver, sender->total - (1 + i % 3), 1 + i % 3);
	}
	cr_assert_eq(receiver->protocol.counts.repeated, 0);
	sent.n = 0;
	cr_assert_eq(dfi__multicast_sender_end(
			 &sender->protocol, FOOTER_FLAG_END, sender->now),
	    0);
	cr_assert(arrive(receiver, 0));
	cr_assert_eq(receiver->protocol.state, RECEIVER_WHOLE);
	cr_assert_eq(
	    dfi__reader_check_end(&receiver->reader), 0, "%s", dfi_errmsg());
	cr_assert_eq(receiver->reader.end, READER_ENDED);
	cr_assert(sent.datagrams[0].flags & DATAGRAM_DONE);
	cr_assert(dfi__multicast_sender_receive(
	    &sender->protocol, &sent.datagrams[0]));
	cr_assert(dfi__multicast_sender_is_over(&sender->protocol));
}

Test(multicast_join, a_target_gets_all_from_there_on)
{
	for_both(0, take_all_behind);
	for_both(SEGMENT_CHECKSUM, take_all_behind);
}

static void ask_for_first(struct sender *sender, struct receiver *receiver)
{
	struct datagram said = sent.datagrams[0];
	uint64_t first = next_number(sender);

	/* Lost, or here before the JOIN. */
	send_segment(sender, 2);
	arrive(receiver, 1);
	sent.datagrams[0] = said;
	arrive(receiver, 0);
	read_mark(receiver, 10);
	sent.n = 0;
	send_segment(sender, 2);
	cr_assert(!arrive(receiver, 0));
	receiver->now += GAP;
	sent.n = 0;
	dfi__multicast_receiver_progress(&receiver->protocol, receiver->now);
	cr_assert_eq(sent.n, 1);
	cr_assert_eq(sent.datagrams[0].n_missing, 1);
	cr_assert_eq(sent.datagrams[0].missing[0].first, (uint32_t)first);
	cr_assert_eq(sent.datagrams[0].missing[0].count, 1);
	said = sent.datagrams[0];
	sent.n = 0;
	dfi__multicast_sender_receive(&sender->protocol, &said);
	cr_assert_eq(sent.n, 1);
	cr_assert_eq(sent.to[0], 1);
	cr_assert(arrive(receiver, 0));
	read_segment(receiver, 10, 2);
	read_segment(receiver, 12, 2);
}

Test(multicast_join, what_came_before_the_join_is_sent_again)
{
	for_both(0, ask_for_first);
}

/* Its address may have been another target's before. */
Test(multicast_join, a_join_of_another_pair_is_dropped)
{
	struct datagram_flow flow = flow_of(0, OTHER_PAIR), own;
	struct datagram join = {
		.type = DATAGRAM_JOIN, .number = 7, .first = 7, .pair = PAIR
	};
	char header[DATAGRAM_HEADER_MAX];
	struct datagram got;
	size_t size = dfi__datagram_encode(&flow, &join, header);

	cr_assert(!dfi__datagram_parse(&flow, header, size, &got));
	own = flow_of(0, PAIR);
	cr_assert(dfi__datagram_parse(&own, header, size, &got));
	cr_assert(!dfi__datagram_parse(&own, header, size - 1, &got));
	header[12]++; /* number is not first */
	cr_assert(!dfi__datagram_parse(&own, header, size, &got));
	header[12]--;
	header[44] = 1; /* zero */
	cr_assert(!dfi__datagram_parse(&own, header, size, &got));
	/* A closed flow has none. */
	own.open = false;
	header[44] = 0;
	cr_assert(!dfi__datagram_parse(&own, header, size, &got));
}

static void say_why(struct sender *sender, struct receiver *receiver)
{
	arrive(receiver, 0);
	read_mark(receiver, 10);
	sent.n = 0;
	dfi__multicast_sender_abort(&sender->protocol, 1, 5);
	cr_assert(arrive(receiver, 0));
	cr_assert_eq(receiver->protocol.state, RECEIVER_ABORTED);
	cr_assert_eq(
	    dfi__reader_check_end(&receiver->reader), 0, "%s", dfi_errmsg());
	cr_assert_eq(receiver->reader.end, READER_ABORTED);
	cr_assert_eq(receiver->reader.cause, 5);
}

Test(multicast_join, an_abort_says_its_cause)
{
	for_both(0, say_why);
}

static void cut_when_gone(struct sender *sender, struct receiver *receiver)
{
	(void)sender;
	dfi__multicast_receiver_source_gone(&receiver->protocol, receiver->now);
	receiver->now += GAP;
	cr_assert(dfi__multicast_receiver_progress(
	    &receiver->protocol, receiver->now));
	cr_assert_eq(receiver->protocol.state, RECEIVER_CUT);
	/* Too late. */
	cr_assert(!arrive(receiver, 0));
	cr_assert(!reader_ready(&receiver->reader));
}

/* M5: a source that was gone by then does not begin. */
Test(multicast_join, a_join_of_a_source_that_is_gone_is_not_used)
{
	for_both(0, cut_when_gone);
}

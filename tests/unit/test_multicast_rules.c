/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each end of a datagram stream by itself, step by step: its datagrams and
 * their times, and its response to old, forged or impossible ones.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "base/clock.h"
#include "buffers/layout/checksum.h"
#include "buffers/reader.h"
#include "buffers/multicast/sender.h"
#include "buffers/multicast/receiver.h"

enum {
	TUPLE = 8,
	TUPLES = 4,
	W = 8,
	N_TARGETS = 2,
	TARGET = 1,
	SOURCE = 2
};

#define GAP_US 1000
#define GAP (INT64_C(1000) * GAP_US)

static const uint64_t starts[] = { 0, UINT32_MAX - 3, UINT64_MAX - 3 };

TestSuite(multicast_rules, .timeout = 300);

/* The last ones that were sent, and how many in all. */
static struct {
	struct datagram datagrams[64];
	uint32_t to[64];
	const void *payloads[64];
	uint32_t n;
	int refuse;    /* what sending returns */
	uint32_t room; /* for this many; then there is none */
} sent;

static struct datagram_flow flow;
static uint32_t parts; /* of its segments */

static int take(void *arg, uint32_t to, const void *header, size_t header_size,
    const void *payload, size_t payload_size)
{
	char data[512];

	cr_assert_eq(arg, &sent);
	if (sent.refuse)
		return sent.refuse;
	if (sent.n == sent.room)
		return -EAGAIN;
	cr_assert_leq(header_size + payload_size, sizeof(data));
	memcpy(data, header, header_size);
	if (payload_size)
		memcpy(data + header_size, payload, payload_size);
	cr_assert_lt(sent.n, 64);
	cr_assert(dfi__datagram_parse(
	    &flow, data, header_size + payload_size, &sent.datagrams[sent.n]));
	sent.to[sent.n] = to;
	sent.payloads[sent.n] = payload;
	sent.n++;
	return 0;
}

static void begin(void)
{
	memset(&sent, 0, sizeof(sent));
	sent.room = UINT32_MAX;
	flow = (struct datagram_flow){
		.instance = 77,
		.n_sources = SOURCE + 1,
		.n_targets = N_TARGETS,
		.geometry = ring_geometry_with(
		    TUPLE, TUPLES * TUPLE, W, parts, FOOTER_BEHIND),
	};
}

/* A source, and its writer's part. */
struct sender {
	struct multicast_sender protocol;
	struct ring_header headers[N_TARGETS];
	char *slots;
	uint64_t start, written, total;
	int64_t now;
};

static struct segment_footer *slot_footer(char *slots, uint32_t slot)
{
	return (struct segment_footer *)(void *)(slots +
	    (size_t)flow.geometry.slot_size * slot +
	    flow.geometry.footer_offset);
}

static void start_sender(struct sender *sender, uint64_t start)
{
	struct multicast_sender_config config = {
		.output = { take, &sent },
		.source = SOURCE,
		.gap_us = GAP_US,
		.start = start,
	};
	uint32_t i;

	begin();
	memset(sender, 0, sizeof(*sender));
	sender->slots = aligned_alloc(128, (size_t)flow.geometry.slot_size * W);
	cr_assert_not_null(sender->slots);
	for (i = 0; i < W; i++)
		atomic_set(&slot_footer(sender->slots, i)->state,
		    footer_state(start - W + i, 0, 0));
	config.slots = sender->slots;
	config.flow = flow;
	sender->start = start;
	sender->now = 5 * GAP;
	cr_assert_eq(dfi__multicast_sender_init(&sender->protocol, &config), 0);
	for (i = 0; i < N_TARGETS; i++)
		dfi__multicast_sender_attach(
		    &sender->protocol, i, &sender->headers[i].credit);
}

static void stop_sender(struct sender *sender)
{
	dfi__multicast_sender_free(&sender->protocol);
	free(sender->slots);
}

/* A segment of one tuple. */
static void write_one(struct sender *sender)
{
	struct segment_footer *footer = slot_footer(
	    sender->slots, (uint32_t)(sender->written % W));

	atomic_set(&footer->total, ++sender->total);
	atomic_publish(&footer->state,
	    footer_state(sender->start + sender->written, TUPLE, 0));
	sender->written++;
}

static void progress(struct sender *sender)
{
	cr_assert_eq(
	    dfi__multicast_sender_progress(&sender->protocol, sender->now), 0);
}

/* A REPORT: segments consumed, flags, and missing from there on. */
static bool reports(struct sender *sender, uint32_t target, uint64_t consumed,
    uint8_t flags, uint64_t first, uint32_t count)
{
	struct datagram report = {
		.type = DATAGRAM_REPORT,
		.flags = flags,
		.source = SOURCE,
		.number = (uint32_t)(sender->start + consumed),
		.target = target,
		.n_missing = count != 0,
		.missing = { { (uint32_t)(sender->start + first), count } },
	};

	return dfi__multicast_sender_receive(&sender->protocol, &report);
}

static uint64_t credit(const struct sender *sender, uint32_t target)
{
	return sender->headers[target].credit.consumed - sender->start;
}

static void for_starts(void (*fn)(struct sender *sender))
{
	struct sender sender;
	size_t i;

	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		start_sender(&sender, starts[i]);
		fn(&sender);
		stop_sender(&sender);
	}
}

static void send_each_once(struct sender *sender)
{
	uint32_t i;

	for (i = 0; i < W; i++) {
		write_one(sender);
		if (i % 3 == 2)
			progress(sender);
	}
	progress(sender);
	progress(sender);
	cr_assert_eq(sent.n, W);
	for (i = 0; i < W; i++) {
		cr_assert_eq(sent.datagrams[i].type, DATAGRAM_DATA);
		cr_assert_eq(sent.datagrams[i].source, SOURCE);
		cr_assert_eq(
		    sent.datagrams[i].number, (uint32_t)(sender->start + i));
		cr_assert_eq(sent.datagrams[i].total, i + 1);
		cr_assert_eq(sent.datagrams[i].used, TUPLE);
		cr_assert_eq(sent.to[i], DATAGRAM_ALL);
		/* From where it lies. */
		cr_assert_eq(sent.payloads[i],
		    sender->slots + (size_t)flow.geometry.slot_size * i);
	}
}

Test(multicast_rules, s1_each_segment_is_sent_once_from_its_slot)
{
	for_starts(send_each_once);
}

static void keep_credits(struct sender *sender)
{
	uint32_t i;

	for (i = 0; i < W; i++)
		write_one(sender);
	progress(sender);
	cr_assert(reports(sender, 0, 5, 0, 0, 0));
	cr_assert(reports(sender, 1, 3, 0, 0, 0));
	cr_assert_eq(credit(sender, 0), 5);
	cr_assert_eq(credit(sender, 1), 3);
	/* Old, known, and impossible ones. */
	cr_assert(!reports(sender, 0, 4, 0, 4, 1));
	cr_assert(!reports(sender, 0, 5, 0, 0, 0));
	cr_assert(!reports(sender, 0, W + 1, 0, 0, 0));
	cr_assert(!reports(sender, 0, (uint64_t)0 - 3, 0, 0, 0));
	cr_assert(!reports(sender, 0, UINT64_C(1) << 31, 0, 0, 0));
	cr_assert_eq(credit(sender, 0), 5);
	cr_assert_eq(credit(sender, 1), 3);
	cr_assert_eq(sent.n, W, "nothing of an old report is used");
	cr_assert(reports(sender, 0, W, 0, 0, 0));
	cr_assert_eq(credit(sender, 0), W);
}

Test(multicast_rules, s2_credits_grow_and_old_reports_are_not_used)
{
	for_starts(keep_credits);
}

static void send_again(struct sender *sender)
{
	uint32_t i;

	for (i = 0; i < W + 3; i++) {
		if (i == W) {
			progress(sender);
			cr_assert(reports(sender, 0, 4, 0, 0, 0));
			cr_assert(reports(sender, 1, 4, 0, 0, 0));
		}
		write_one(sender);
	}
	progress(sender);
	sent.n = 0;
	/* From W - 1 on; the last two are not sent yet. */
	cr_assert(!reports(sender, 1, 4, 0, W - 1, 6));
	cr_assert_eq(sent.n, 4);
	for (i = 0; i < 4; i++) {
		cr_assert_eq(sent.to[i], 1, "to who has asked");
		cr_assert_eq(sent.datagrams[i].number,
		    (uint32_t)(sender->start + W - 1 + i));
		cr_assert_eq(sent.datagrams[i].total, W + i);
		cr_assert_eq(sent.payloads[i],
		    sender->slots +
			(size_t)flow.geometry.slot_size * ((W - 1 + i) % W));
	}
	sent.n = 0;
	/* The segment that it has given back is gone. */
	cr_assert(!reports(sender, 1, 4, 0, 2, 3));
	cr_assert_eq(sent.n, 1);
	cr_assert_eq(sent.datagrams[0].number, (uint32_t)(sender->start + 4));
}

static uint32_t n_tried;

/* Has room for one. */
static int refuse_more(void *arg, uint32_t to, const void *header,
    size_t header_size, const void *payload, size_t payload_size)
{
	(void)arg;
	(void)to;
	(void)header;
	(void)header_size;
	(void)payload;
	(void)payload_size;
	return n_tried++ ? -EAGAIN : 0;
}

/* And not tried for each of the rest, of all ranges. */
static void stop_at_no_room(struct sender *sender)
{
	struct datagram report = {
		.type = DATAGRAM_REPORT,
		.source = SOURCE,
		.number = (uint32_t)sender->start,
		.n_missing = 2,
		.missing = { { (uint32_t)sender->start, 3 },
		    { (uint32_t)sender->start + 4, 2 } },
	};
	uint32_t i;

	for (i = 0; i < W; i++)
		write_one(sender);
	progress(sender);
	n_tried = 0;
	sender->protocol.config.output.send = refuse_more;
	dfi__multicast_sender_receive(&sender->protocol, &report);
	cr_assert_eq(n_tried, 2);
	cr_assert_eq(sender->protocol.counts.resent, 1);
}

Test(multicast_rules, s2_nothing_more_is_sent_again_when_there_is_no_room)
{
	for_starts(stop_at_no_room);
}

Test(multicast_rules, s2_what_is_missing_is_sent_again_as_it_was)
{
	for_starts(send_again);
}

static void probe(struct sender *sender)
{
	int64_t due, wait = GAP;
	int i;

	cr_assert_eq(
	    dfi__multicast_sender_due(&sender->protocol), DEADLINE_NEVER);
	write_one(sender);
	progress(sender);
	for (i = 0; i < 12; i++) {
		due = dfi__multicast_sender_due(&sender->protocol);
		cr_assert_eq(due - sender->now, wait);
		sender->now = due - 1;
		sent.n = 0;
		progress(sender);
		cr_assert_eq(sent.n, 0);
		sender->now = due;
		progress(sender);
		cr_assert_eq(sent.n, 1);
		cr_assert_eq(sent.datagrams[0].type, DATAGRAM_STATE);
		cr_assert_eq(
		    sent.datagrams[0].number, (uint32_t)(sender->start + 1));
		cr_assert_eq(sent.datagrams[0].flags, 0);
		cr_assert_eq(sent.to[0], DATAGRAM_ALL);
		wait = (int64_t)min_u64(
		    (uint64_t)wait * 2, 500 * (uint64_t)NS_PER_MS);
	}
	/* News restarts the timer; without news it continues. */
	cr_assert(!reports(sender, 0, 0, 0, 0, 0));
	due = dfi__multicast_sender_due(&sender->protocol);
	cr_assert_eq(due - sender->now, 500 * NS_PER_MS);
	cr_assert(reports(sender, 0, 1, 0, 0, 0));
	due = dfi__multicast_sender_due(&sender->protocol);
	cr_assert_eq(due - sender->now, GAP);
	/* All have all segments: nothing to ask for. */
	cr_assert(reports(sender, 1, 1, 0, 0, 0));
	cr_assert_eq(
	    dfi__multicast_sender_due(&sender->protocol), DEADLINE_NEVER);
}

Test(multicast_rules, s3_probes_come_less_and_less_often_until_there_is_news)
{
	for_starts(probe);
}

static void end_it(struct sender *sender)
{
	write_one(sender);
	/* Not before there is an end. */
	progress(sender);
	cr_assert(!reports(sender, 0, 0, DATAGRAM_DONE, 0, 0));
	sent.n = 0;
	write_one(sender);
	cr_assert_eq(dfi__multicast_sender_end(
			 &sender->protocol, FOOTER_FLAG_END, sender->now),
	    0);
	cr_assert_eq(sent.n, 2);
	cr_assert_eq(sent.datagrams[0].type, DATAGRAM_DATA);
	cr_assert_eq(sent.datagrams[1].type, DATAGRAM_STATE);
	cr_assert_eq(sent.datagrams[1].flags, DATAGRAM_END);
	cr_assert_eq(sent.datagrams[1].total, 2);
	cr_assert_eq(sent.datagrams[1].number, (uint32_t)(sender->start + 2));
	/* Again and again, though all is given back. */
	cr_assert(reports(sender, 0, 2, 0, 0, 0));
	cr_assert(reports(sender, 1, 2, 0, 0, 0));
	sender->now = dfi__multicast_sender_due(&sender->protocol);
	progress(sender);
	cr_assert_eq(sent.n, 3);
	cr_assert_eq(sent.datagrams[2].flags, DATAGRAM_END);
	cr_assert(reports(sender, 0, 2, DATAGRAM_DONE, 0, 0));
	cr_assert(!dfi__multicast_sender_is_over(&sender->protocol));
	cr_assert(!reports(sender, 0, 2, DATAGRAM_DONE, 0, 0));
	/* The other one has left. */
	dfi__multicast_sender_leave(&sender->protocol, 1, MULTICAST_DONE);
	cr_assert(dfi__multicast_sender_is_over(&sender->protocol));
	cr_assert_eq(
	    dfi__multicast_sender_due(&sender->protocol), DEADLINE_NEVER);
}

Test(multicast_rules, s4_end_is_said_until_all_are_done)
{
	for_starts(end_it);
}

static void abort_it(struct sender *sender)
{
	uint32_t i;

	write_one(sender);
	cr_assert_eq(dfi__multicast_sender_end(
			 &sender->protocol, FOOTER_FLAG_ABORT, sender->now),
	    0);
	cr_assert_geq(sent.n, 3);
	cr_assert_eq(sent.datagrams[0].type, DATAGRAM_DATA);
	for (i = 1; i < sent.n; i++)
		cr_assert_eq(sent.datagrams[i].flags, DATAGRAM_ABORT);
	cr_assert_eq(
	    dfi__multicast_sender_due(&sender->protocol), DEADLINE_NEVER);
	i = sent.n;
	write_one(sender);
	progress(sender);
	cr_assert_eq(sent.n, i);
}

Test(multicast_rules, s4_abort_is_said_some_times_and_waits_for_nothing)
{
	for_starts(abort_it);
}

static void leave_out(struct sender *sender)
{
	uint32_t i;

	for (i = 0; i < W; i++)
		write_one(sender);
	progress(sender);
	sent.n = 0;
	cr_assert(reports(sender, 0, 0, DATAGRAM_CANCELLED, 1, 1));
	cr_assert_eq(sent.n, 0);
	cr_assert_eq(sender->headers[0].credit.closed, RING_CANCELLED);
	cr_assert(!reports(sender, 0, 3, 0, 0, 0));
	cr_assert_eq(credit(sender, 0), 0);
	dfi__multicast_sender_leave(&sender->protocol, 1, MULTICAST_GONE);
	cr_assert_eq(sender->headers[1].credit.closed, RING_OPEN);
	cr_assert(!reports(sender, 1, 3, 0, 3, 1));
	cr_assert_eq(sent.n, 0);
	cr_assert(dfi__multicast_sender_is_over(&sender->protocol));
	cr_assert_eq(
	    dfi__multicast_sender_due(&sender->protocol), DEADLINE_NEVER);
}

Test(multicast_rules, s5_nothing_of_who_is_over_is_used)
{
	for_starts(leave_out);
}

static void wait_for_room(struct sender *sender)
{
	write_one(sender);
	sent.refuse = -EAGAIN;
	progress(sender);
	cr_assert(sender->protocol.stuck);
	cr_assert_eq(dfi__multicast_sender_end(
			 &sender->protocol, FOOTER_FLAG_END, sender->now),
	    0);
	cr_assert_eq(sent.n, 0);
	sent.refuse = 0;
	progress(sender);
	cr_assert(!sender->protocol.stuck);
	cr_assert_eq(sent.n, 2, "the segment, and then the end");
	cr_assert_eq(sent.datagrams[0].type, DATAGRAM_DATA);
	cr_assert_eq(sent.datagrams[1].flags, DATAGRAM_END);
}

Test(multicast_rules, segments_wait_for_room_at_the_endpoint)
{
	for_starts(wait_for_room);
}

static void fail(struct sender *sender)
{
	write_one(sender);
	sent.refuse = -EIO;
	cr_assert_eq(
	    dfi__multicast_sender_progress(&sender->protocol, sender->now),
	    -EIO);
	sent.refuse = 0;
	cr_assert_eq(
	    dfi__multicast_sender_progress(&sender->protocol, sender->now),
	    -EIO);
	cr_assert_eq(sent.n, 0);
	/* But the reachable ones are informed. */
	cr_assert_eq(dfi__multicast_sender_end(
			 &sender->protocol, FOOTER_FLAG_ABORT, sender->now),
	    -EIO);
	cr_assert_gt(sent.n, 1);
	cr_assert_eq(sent.datagrams[0].flags, DATAGRAM_ABORT);
}

Test(multicast_rules, broken_endpoint_fails_the_sender)
{
	for_starts(fail);
}

/* A target, with the reader of its ring. */
struct receiver {
	struct multicast_receiver protocol;
	struct region region;
	struct reader reader;
	char *memory;
	uint64_t start;
	int64_t now;
};

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
	.name = "rules",
	.ring.give_credit = give_credit,
};
static struct transport transport = { .ops = &ops };

static void start_receiver(
    struct receiver *receiver, uint64_t start, bool notify)
{
	struct multicast_receiver_config config = {
		.output = { take, &sent },
		.source = SOURCE,
		.target = TARGET,
		.gap_us = GAP_US,
		.notify = notify,
		.start = start,
	};

	begin();
	memset(receiver, 0, sizeof(*receiver));
	receiver->memory = aligned_alloc(
	    128, region_size(&flow.geometry, SOURCE + 1));
	cr_assert_not_null(receiver->memory);
	receiver->region.base = receiver->memory;
	receiver->region.transport = &transport;
	receiver->start = start;
	receiver->now = 5 * GAP;
	dfi__region_init(&receiver->region);
	dfi__reader_init(&receiver->reader, &receiver->region, &flow.geometry,
	    SOURCE + 1, SOURCE, start);
	receiver->reader.lossy = notify;
	receiver->reader.batch = 1;
	config.flow = flow;
	config.ring = (struct ring_header *)(void *)(receiver->memory +
	    ring_offset(&flow.geometry, SOURCE));
	cr_assert_eq(
	    dfi__multicast_receiver_init(&receiver->protocol, &config), 0);
}

static void stop_receiver(struct receiver *receiver)
{
	dfi__multicast_receiver_free(&receiver->protocol);
	free(receiver->memory);
}

/* Segment n arrives, of one tuple. */
static bool data(struct receiver *receiver, uint64_t n)
{
	uint64_t slot[9] = { 0 };
	struct datagram datagram = {
		.type = DATAGRAM_DATA,
		.source = SOURCE,
		.number = (uint32_t)(receiver->start + n),
		.total = n + 1,
		.used = TUPLE,
		.payload = (const char *)slot,
	};

	slot[flow.geometry.payload_offset / TUPLE] = n;

	return dfi__multicast_receiver_receive(
	    &receiver->protocol, &datagram, receiver->now);
}

static bool state(
    struct receiver *receiver, uint64_t next, uint8_t flags, uint64_t total)
{
	struct datagram datagram = {
		.type = DATAGRAM_STATE,
		.flags = flags,
		.source = SOURCE,
		.number = (uint32_t)(receiver->start + next),
		.total = total,
	};

	return dfi__multicast_receiver_receive(
	    &receiver->protocol, &datagram, receiver->now);
}

/* The reader takes segment n and gives it back. */
static void read_one(struct receiver *receiver, uint64_t n)
{
	const char *payload;
	uint64_t bytes, tuple;

	cr_assert(
	    reader_ready(&receiver->reader), "segment %lu", (unsigned long)n);
	cr_assert_eq(reader_take(&receiver->reader, &payload, &bytes), 0, "%s",
	    dfi_errmsg());
	cr_assert_eq(bytes, TUPLE);
	memcpy(&tuple, payload, TUPLE);
	cr_assert_eq(tuple, n);
	cr_assert_eq(reader_release(&receiver->reader), 0);
}

static void read_gap(struct receiver *receiver, uint64_t n, uint32_t count)
{
	const char *payload;
	uint64_t bytes;

	cr_assert(reader_ready(&receiver->reader));
	cr_assert_eq(
	    reader_take(&receiver->reader, &payload, &bytes), -ENODATA);
	cr_assert_eq(receiver->reader.gap_first, receiver->start + n);
	cr_assert_eq(receiver->reader.gap_count, count);
	cr_assert_eq(reader_release(&receiver->reader), 0);
}

static bool run_timers(struct receiver *receiver)
{
	return dfi__multicast_receiver_progress(
	    &receiver->protocol, receiver->now);
}

static void for_receivers(void (*fn)(struct receiver *receiver), bool notify)
{
	struct receiver receiver;
	size_t i;

	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		start_receiver(&receiver, starts[i], notify);
		fn(&receiver);
		stop_receiver(&receiver);
	}
}

static void filter(struct receiver *receiver)
{
	cr_assert(!data(receiver, 1));
	cr_assert(!reader_ready(&receiver->reader));
	cr_assert(!data(receiver, 1)); /* held already */
	cr_assert(!data(receiver, W)); /* no room yet */
	cr_assert(!data(receiver, (uint64_t)0 - 1));
	cr_assert(data(receiver, 0));
	cr_assert(!data(receiver, 0)); /* with the reader */
	cr_assert(!data(receiver, 1));
	cr_assert_eq(receiver->protocol.counts.repeated, 5);
	cr_assert_eq(receiver->protocol.counts.early, 1);
	read_one(receiver, 0);
	read_one(receiver, 1);
	cr_assert(!reader_ready(&receiver->reader));
	cr_assert(!data(receiver, 1)); /* given back */
	cr_assert(!data(receiver, W + 1));
	cr_assert(data(receiver, 2));
	cr_assert_eq(receiver->protocol.counts.segments, 3);
}

Test(multicast_rules, t1_each_segment_is_taken_once_and_only_with_room)
{
	for_receivers(filter, false);
	for_receivers(filter, true);
}

static void answer(struct receiver *receiver)
{
	data(receiver, 0);
	sent.n = 0;
	cr_assert(!state(receiver, 3, 0, 0));
	cr_assert_eq(sent.n, 1);
	cr_assert_eq(sent.to[0], SOURCE);
	cr_assert_eq(sent.datagrams[0].type, DATAGRAM_REPORT);
	cr_assert_eq(sent.datagrams[0].target, TARGET);
	cr_assert_eq(sent.datagrams[0].source, SOURCE);
	cr_assert_eq(sent.datagrams[0].number, (uint32_t)receiver->start);
	cr_assert_eq(sent.datagrams[0].flags, DATAGRAM_USED);
	cr_assert_eq(sent.datagrams[0].n_missing, 0, "they are young");
	cr_assert_eq(receiver->protocol.known - receiver->start, 3);
	/* Old and impossible: it teaches nothing, but gets an answer. */
	cr_assert(!state(receiver, W + 1, 0, 0));
	cr_assert(!state(receiver, (uint64_t)0 - 2, DATAGRAM_END, 0));
	cr_assert(!state(receiver, 0, DATAGRAM_END, 0));
	cr_assert_eq(sent.n, 4);
	cr_assert(!receiver->protocol.ended);
	/* The end is behind what is known. */
	cr_assert(!state(receiver, 2, DATAGRAM_END, 2));
	cr_assert(!receiver->protocol.ended);
	cr_assert_eq(receiver->protocol.known - receiver->start, 3);
	cr_assert_eq(receiver->protocol.counts.outdated, 4);
}

Test(multicast_rules, t3_each_state_is_answered)
{
	for_receivers(answer, false);
	for_receivers(answer, true);
}

static void ask(struct receiver *receiver)
{
	int64_t wait = GAP, first = receiver->now;
	int i;

	data(receiver, 0);
	receiver->now += GAP / 2;
	data(receiver, 2);
	data(receiver, 5);
	sent.n = 0;
	cr_assert_eq(dfi__multicast_receiver_due(&receiver->protocol),
	    first + GAP / 2 + GAP);
	for (i = 0; i < 12; i++) {
		receiver->now =
		    dfi__multicast_receiver_due(&receiver->protocol) - 1;
		cr_assert(!run_timers(receiver));
		cr_assert_eq(sent.n, 0);
		receiver->now++;
		cr_assert(!run_timers(receiver));
		cr_assert_eq(sent.n, 1);
		cr_assert_eq(sent.datagrams[0].n_missing, 2);
		cr_assert_eq(sent.datagrams[0].missing[0].first,
		    (uint32_t)(receiver->start + 1));
		cr_assert_eq(sent.datagrams[0].missing[0].count, 1);
		cr_assert_eq(sent.datagrams[0].missing[1].first,
		    (uint32_t)(receiver->start + 3));
		cr_assert_eq(sent.datagrams[0].missing[1].count, 2);
		cr_assert_eq(dfi__multicast_receiver_due(&receiver->protocol),
		    receiver->now + wait);
		wait = (int64_t)min_u64(
		    (uint64_t)wait * 2, 500 * (uint64_t)NS_PER_MS);
		sent.n = 0;
	}
	/* Late originals need no rule. */
	cr_assert(data(receiver, 1));
	cr_assert(!data(receiver, 4));
	receiver->now = dfi__multicast_receiver_due(&receiver->protocol);
	run_timers(receiver);
	cr_assert_eq(sent.datagrams[0].n_missing, 1);
	cr_assert_eq(sent.datagrams[0].missing[0].first,
	    (uint32_t)(receiver->start + 3));
	cr_assert_eq(sent.datagrams[0].missing[0].count, 1);
	cr_assert(data(receiver, 3));
	cr_assert_eq(
	    dfi__multicast_receiver_due(&receiver->protocol), DEADLINE_NEVER);
	for (i = 0; i < 6; i++)
		read_one(receiver, (uint64_t)i);
}

Test(multicast_rules, t4_gaps_are_asked_for_again_and_again)
{
	for_receivers(ask, false);
}

/* W is 8. */
static void ask_at_once(struct receiver *receiver)
{
	data(receiver, 3);
	data(receiver, 4);
	sent.n = 0;
	data(receiver, 5);
	cr_assert_eq(sent.n, 1);
	cr_assert_eq(sent.datagrams[0].n_missing, 1);
	cr_assert_eq(
	    sent.datagrams[0].missing[0].first, (uint32_t)receiver->start);
	cr_assert_eq(sent.datagrams[0].missing[0].count, 1);
	data(receiver, 7);
	cr_assert_eq(sent.n, 2);
	cr_assert_eq(sent.datagrams[1].n_missing, 1);
	cr_assert_eq(sent.datagrams[1].missing[0].first,
	    (uint32_t)(receiver->start + 1));
	cr_assert_eq(sent.datagrams[1].missing[0].count, 2);
	/* That was the last one, for gap_timeout. */
	data(receiver, 6);
	data(receiver, 6);
	cr_assert_eq(sent.n, 2);
	cr_assert_eq(dfi__multicast_receiver_due(&receiver->protocol),
	    receiver->now + GAP);
	data(receiver, 0);
	data(receiver, 1);
	data(receiver, 2);
	cr_assert_eq(receiver->protocol.counts.segments, W);
	cr_assert_eq(sent.n, 2);
}

static void ask_once_at_a_time(struct receiver *receiver)
{
	data(receiver, 1);
	receiver->now += GAP;
	run_timers(receiver);
	cr_assert_eq(sent.n, 1);
	/* On its way already. */
	data(receiver, 5);
	cr_assert_eq(sent.n, 1);
}

static void do_not_report_at_once(struct receiver *receiver)
{
	uint64_t n;

	for (n = 1; n < W; n++)
		cr_assert(!data(receiver, n));
	cr_assert_eq(sent.n, 0);
	cr_assert_eq(dfi__multicast_receiver_due(&receiver->protocol),
	    receiver->now + GAP);
	cr_assert(data(receiver, 0));
}

Test(multicast_rules, t4_gap_that_many_have_overtaken_is_asked_for_at_once)
{
	for_receivers(ask_at_once, false);
	for_receivers(ask_once_at_a_time, false);
	for_receivers(do_not_report_at_once, true);
}

static void report_gaps(struct receiver *receiver)
{
	data(receiver, 0);
	data(receiver, 3);
	receiver->now += GAP / 2;
	state(receiver, 6, 0, 0);
	sent.n = 0;
	read_one(receiver, 0);
	receiver->now += GAP / 2 - 1;
	cr_assert(!run_timers(receiver));
	cr_assert(!reader_ready(&receiver->reader));
	receiver->now++;
	cr_assert(run_timers(receiver));
	cr_assert(!data(receiver, 1), "too late");
	cr_assert(!data(receiver, 2));
	read_gap(receiver, 1, 2);
	read_one(receiver, 3);
	/* The next two are younger. */
	cr_assert(!reader_ready(&receiver->reader));
	receiver->now += GAP / 2;
	cr_assert(data(receiver, 4));
	cr_assert(run_timers(receiver) || reader_ready(&receiver->reader));
	read_one(receiver, 4);
	read_gap(receiver, 5, 1);
	cr_assert(!reader_ready(&receiver->reader));
	cr_assert_eq(
	    dfi__multicast_receiver_due(&receiver->protocol), DEADLINE_NEVER);
	run_timers(receiver);
	cr_assert_eq(receiver->protocol.consumed - receiver->start, 6);
	cr_assert_eq(receiver->reader.total, 3);
	/* 1 and 2 were two tuples; 5 is still unknown. */
	cr_assert_eq(receiver->reader.lost_total, 2);
	cr_assert_eq(receiver->reader.unsure, 1);
	cr_assert(state(receiver, 6, DATAGRAM_END, 3 + 2 + TUPLES));
	cr_assert_eq(dfi__reader_check_end(&receiver->reader), 0);
	cr_assert_eq(receiver->reader.end, READER_ENDED);
	cr_assert_eq(receiver->reader.lost_total, 2 + TUPLES);
}

Test(multicast_rules, t4_notify_reports_each_gap_once)
{
	for_receivers(report_gaps, true);
}

static void report_no_younger(struct receiver *receiver)
{
	state(receiver, 1, 0, 0);
	receiver->now += GAP / 2;
	state(receiver, 2, 0, 0);
	receiver->now += GAP / 2;
	cr_assert(run_timers(receiver));
	read_gap(receiver, 0, 1);
	/* The one behind it is in time. */
	cr_assert(data(receiver, 1));
	read_one(receiver, 1);
	cr_assert_eq(receiver->protocol.counts.lost, 1);
}

Test(multicast_rules, t4_notify_reports_nothing_that_may_still_come_in_time)
{
	for_receivers(report_no_younger, true);
}

/* A whole ring of losses, and the next one. */
static void report_window(struct receiver *receiver)
{
	state(receiver, W, 0, 0);
	receiver->now += GAP;
	cr_assert(run_timers(receiver));
	read_gap(receiver, 0, W);
	cr_assert(!reader_ready(&receiver->reader));
	run_timers(receiver);
	cr_assert(!state(receiver, 2 * W, 0, 0));
	receiver->now += GAP;
	cr_assert(run_timers(receiver));
	/* The ring's arrivals, for a target that fails. */
	cr_assert_eq(
	    dfi__reader_arrived(&receiver->reader) - receiver->start, 2 * W);
	read_gap(receiver, W, W);
}

Test(multicast_rules, t4_notify_reports_a_whole_window)
{
	for_receivers(report_window, true);
}

static void credits(struct receiver *receiver)
{
	uint64_t n;

	for (n = 0; n < W; n++)
		data(receiver, n);
	sent.n = 0;
	for (n = 0; n < W; n++) {
		read_one(receiver, n);
		run_timers(receiver);
		cr_assert_eq(sent.n, (n + 1) / (W / 4));
	}
	cr_assert_eq(sent.datagrams[3].number, (uint32_t)(receiver->start + W));
	/* A report that could not be sent is sent the next time. */
	sent.refuse = -EAGAIN;
	data(receiver, W);
	data(receiver, W + 1);
	read_one(receiver, W);
	read_one(receiver, W + 1);
	run_timers(receiver);
	cr_assert_eq(sent.n, 4);
	sent.refuse = 0;
	run_timers(receiver);
	cr_assert_eq(sent.n, 5);
	cr_assert_eq(
	    sent.datagrams[4].number, (uint32_t)(receiver->start + W + 2));
}

Test(multicast_rules, t5_credits_come_for_a_quarter_of_the_window)
{
	for_receivers(credits, false);
	for_receivers(credits, true);
}

static void be_used(struct receiver *receiver)
{
	sent.n = 0;
	state(receiver, 0, 0, 0);
	cr_assert_eq(sent.n, 1);
	cr_assert_eq(sent.datagrams[0].flags, 0);
	data(receiver, 0);
	sent.n = 0;
	state(receiver, 1, 0, 1);
	cr_assert_eq(sent.n, 1);
	cr_assert_eq(sent.datagrams[0].flags, DATAGRAM_USED);
	cr_assert_eq(sent.datagrams[0].number, (uint32_t)receiver->start);
}

static void be_done(struct receiver *receiver)
{
	data(receiver, 0);
	sent.n = 0;
	cr_assert(!state(receiver, 2, DATAGRAM_END, 2));
	cr_assert(!reader_end_marked(&receiver->reader));
	cr_assert_eq(receiver->protocol.state, RECEIVER_OPEN);
	cr_assert(!data(receiver, 2), "behind the end");
	cr_assert(data(receiver, 1));
	cr_assert_eq(receiver->protocol.state, RECEIVER_WHOLE);
	cr_assert_eq(sent.n, 2);
	cr_assert_eq(sent.datagrams[1].flags, DATAGRAM_DONE | DATAGRAM_USED);
	read_one(receiver, 0);
	read_one(receiver, 1);
	cr_assert_eq(dfi__reader_check_end(&receiver->reader), 0);
	cr_assert_eq(receiver->reader.end, READER_ENDED);
	state(receiver, 2, DATAGRAM_END, 2);
	cr_assert_eq(
	    sent.datagrams[sent.n - 1].flags, DATAGRAM_DONE | DATAGRAM_USED);
	cr_assert_eq(
	    sent.datagrams[sent.n - 1].number, (uint32_t)(receiver->start + 2));
}

/* Otherwise another source could continue its stream. */
Test(multicast_rules, t5_used_is_said_before_anything_is_given_back)
{
	for_receivers(be_used, false);
	for_receivers(be_used, true);
}

Test(multicast_rules, t5_done_is_said_when_all_is_there)
{
	for_receivers(be_done, false);
	for_receivers(be_done, true);
}

static void lack(struct receiver *receiver)
{
	data(receiver, 0);
	read_one(receiver, 0);
	cr_assert(state(receiver, 1, DATAGRAM_END, 2));
	cr_assert_eq(dfi__reader_check_end(&receiver->reader), -EBADMSG);
	cr_assert_eq(receiver->reader.end, READER_OPEN);
}

Test(multicast_rules, t5_tuples_that_lack_are_an_error)
{
	for_receivers(lack, false);
	for_receivers(lack, true);
}

/* For lost segments, no more tuples than fit; marks have none. */
static void lack_too_much(struct receiver *receiver)
{
	state(receiver, 2, 0, 0);
	receiver->now += GAP;
	run_timers(receiver);
	read_gap(receiver, 0, 2);
	cr_assert(state(receiver, 2, DATAGRAM_END, 2 * TUPLES + 1));
	cr_assert_eq(dfi__reader_check_end(&receiver->reader), -EBADMSG);
}

static void lack_nothing(struct receiver *receiver)
{
	state(receiver, 2, 0, 0);
	receiver->now += GAP;
	run_timers(receiver);
	read_gap(receiver, 0, 2);
	cr_assert(state(receiver, 2, DATAGRAM_END, 0));
	cr_assert_eq(dfi__reader_check_end(&receiver->reader), 0);
}

Test(multicast_rules, t5_tuples_lost_are_those_of_segments_lost)
{
	for_receivers(lack_too_much, true);
	for_receivers(lack_nothing, true);
}

static void cancel(struct receiver *receiver)
{
	data(receiver, 0);
	sent.n = 0;
	dfi__reader_close(&receiver->reader, RING_CANCELLED);
	run_timers(receiver);
	cr_assert_eq(sent.n, 1);
	cr_assert_eq(
	    sent.datagrams[0].flags, DATAGRAM_CANCELLED | DATAGRAM_USED);
	cr_assert(!data(receiver, 1));
	run_timers(receiver);
	cr_assert_eq(sent.n, 1);
	cr_assert(!state(receiver, 3, 0, 0));
	cr_assert_eq(sent.n, 2);
	cr_assert_eq(
	    sent.datagrams[1].flags, DATAGRAM_CANCELLED | DATAGRAM_USED);
	cr_assert_eq(
	    dfi__multicast_receiver_due(&receiver->protocol), DEADLINE_NEVER);
}

Test(multicast_rules, t6_who_cancels_says_so)
{
	for_receivers(cancel, false);
	for_receivers(cancel, true);
}

static void leave(struct receiver *receiver)
{
	dfi__reader_close(&receiver->reader, RING_CLOSED);
	sent.n = 0;
	cr_assert(!data(receiver, 0));
	cr_assert(!state(receiver, 1, 0, 0));
	cr_assert_eq(sent.n, 0);
}

Test(multicast_rules, t6_closed_receiver_is_quiet)
{
	for_receivers(leave, false);
}

static void lose_source(struct receiver *receiver)
{
	int64_t gone;

	data(receiver, 0);
	receiver->now += GAP;
	gone = receiver->now;
	dfi__multicast_receiver_source_gone(&receiver->protocol, gone);
	dfi__multicast_receiver_source_gone(&receiver->protocol, gone + 1);
	cr_assert_eq(
	    dfi__multicast_receiver_due(&receiver->protocol), gone + GAP);
	/* A datagram on its way still counts. */
	receiver->now = gone + GAP - 1;
	cr_assert(data(receiver, 1));
	cr_assert_eq(receiver->protocol.state, RECEIVER_OPEN);
	receiver->now = gone + GAP;
	cr_assert(run_timers(receiver));
	cr_assert_eq(receiver->protocol.state, RECEIVER_CUT);
	cr_assert(!data(receiver, 2));
	cr_assert(!run_timers(receiver));
	read_one(receiver, 0);
	read_one(receiver, 1);
	cr_assert(!reader_end_marked(&receiver->reader));
}

Test(multicast_rules, t7_stream_of_a_dead_source_is_cut)
{
	for_receivers(lose_source, false);
	for_receivers(lose_source, true);
}

static void lose_ended_source(struct receiver *receiver)
{
	bool notify = receiver->protocol.config.notify;
	int64_t gone = receiver->now;

	data(receiver, 0);
	dfi__multicast_receiver_source_gone(&receiver->protocol, gone);
	receiver->now += GAP / 2;
	cr_assert(!state(receiver, 3, DATAGRAM_END, 3));
	receiver->now = gone + GAP;
	run_timers(receiver);
	/* The end alone is not all. */
	cr_assert_eq(receiver->protocol.state,
	    (enum receiver_state)(notify ? RECEIVER_OPEN : RECEIVER_CUT));
	receiver->now += GAP / 2;
	run_timers(receiver);
	cr_assert_eq(receiver->protocol.state,
	    (enum receiver_state)(notify ? RECEIVER_WHOLE : RECEIVER_CUT));
	read_one(receiver, 0);
	if (notify)
		read_gap(receiver, 1, 2);
	cr_assert(!reader_ready(&receiver->reader));
	cr_assert_eq(reader_end_marked(&receiver->reader), notify);
}

Test(multicast_rules, t7_end_is_not_enough_if_something_lacks)
{
	for_receivers(lose_ended_source, false);
	for_receivers(lose_ended_source, true);
}

static void be_aborted(struct receiver *receiver)
{
	data(receiver, 0);
	data(receiver, 2);
	cr_assert(state(receiver, 3, DATAGRAM_ABORT, 3));
	cr_assert_eq(receiver->protocol.state, RECEIVER_ABORTED);
	cr_assert(!data(receiver, 1));
	read_one(receiver, 0);
	cr_assert(!reader_ready(&receiver->reader));
	cr_assert_eq(dfi__reader_check_end(&receiver->reader), 0);
	cr_assert_eq(receiver->reader.end, READER_ABORTED);
	cr_assert_eq(
	    dfi__multicast_receiver_due(&receiver->protocol), DEADLINE_NEVER);
	cr_assert(!state(receiver, 3, DATAGRAM_ABORT, 3));
}

Test(multicast_rules, abort_ends_the_ring_behind_what_is_in_order)
{
	for_receivers(be_aborted, false);
	for_receivers(be_aborted, true);
}

/* ---- O5: losses of an ordered flow, by position. ---------------------- */

static bool say_positions(
    struct receiver *receiver, uint64_t n, uint32_t count, uint64_t position)
{
	struct datagram datagram = {
		.type = DATAGRAM_POSITION,
		.source = SOURCE,
		.number = (uint32_t)(receiver->start + n),
		.position = position,
		.count = count,
	};

	return dfi__multicast_receiver_receive(
	    &receiver->protocol, &datagram, receiver->now);
}

static bool say_position(
    struct receiver *receiver, uint64_t n, uint64_t position)
{
	return say_positions(receiver, n, 1, position);
}

static void expect_asked(uint64_t first, uint32_t count)
{
	const struct datagram *last = &sent.datagrams[sent.n - 1];

	cr_assert_gt(sent.n, 0);
	cr_assert_eq(last->type, DATAGRAM_REPORT);
	cr_assert_eq(last->n_missing, 1);
	cr_assert_eq(last->missing[0].first, (uint32_t)first);
	cr_assert_eq(last->missing[0].count, count);
}

static void read_gap_with_position(
    struct receiver *receiver, uint64_t n, uint32_t count, uint64_t position)
{
	uint64_t is;

	cr_assert(reader_ready(&receiver->reader));
	cr_assert_eq(dfi__reader_global(&receiver->reader, &is), 0);
	cr_assert_eq(is, position);
	read_gap(receiver, n, count);
}

static struct receiver *start_ordered(uint64_t start)
{
	static struct receiver receiver;

	parts = SEGMENT_GLOBAL;
	start_receiver(&receiver, start, true);
	return &receiver;
}

static void stop_ordered(struct receiver *receiver)
{
	stop_receiver(receiver);
	parts = 0;
}

Test(multicast_rules, o5_gap_is_reported_once_its_position_is_known)
{
	struct receiver *receiver;
	uint64_t start;
	size_t i;

	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		start = starts[i];
		receiver = start_ordered(start);
		state(receiver, 4, 0, 0);
		sent.n = 0;
		/* Also for segments not asked for yet. */
		cr_assert(!say_position(receiver, 3, 11));
		receiver->now += GAP;
		cr_assert(!run_timers(receiver), "no position is known");
		expect_asked(start, 3);
		cr_assert(!reader_ready(&receiver->reader));
		cr_assert(!say_position(receiver, 1, 6), "0 is before it");
		sent.n = 0;
		receiver->now += GAP;
		run_timers(receiver);
		/* Again, but only for unknown ones. */
		cr_assert_eq(sent.n, 1);
		cr_assert_eq(sent.datagrams[0].n_missing, 2);
		cr_assert_eq(
		    sent.datagrams[0].missing[1].first, (uint32_t)(start + 2));
		cr_assert(say_position(receiver, 0, 5));
		read_gap_with_position(receiver, 0, 2, 5);
		cr_assert(!say_position(receiver, 0, 5), "it was told");
		/* Late, but not told yet. */
		cr_assert(data(receiver, 2));
		cr_assert(!say_position(receiver, 2, 9));
		read_one(receiver, 2);
		read_gap_with_position(receiver, 3, 1, 11);
		cr_assert(!data(receiver, 3));
		cr_assert_eq(dfi__multicast_receiver_due(&receiver->protocol),
		    DEADLINE_NEVER);
		cr_assert_eq(receiver->protocol.counts.gaps, 2);
		cr_assert_eq(receiver->protocol.counts.lost, 3);
		stop_ordered(receiver);
	}
}

/* Of a gap in numbers, but with others' segments between. */
Test(multicast_rules, o5_losses_with_distant_positions_are_reported_apart)
{
	struct receiver *receiver = start_ordered(0);

	state(receiver, 4, 0, 0);
	cr_assert(!say_position(receiver, 0, 20));
	cr_assert(!say_position(receiver, 1, 21));
	cr_assert(!say_position(receiver, 2, 23));
	cr_assert_eq(dfi__multicast_receiver_due(&receiver->protocol),
	    receiver->now + GAP);
	receiver->now += GAP - 1;
	cr_assert(!run_timers(receiver), "it may still come");
	receiver->now++;
	cr_assert(run_timers(receiver));
	read_gap_with_position(receiver, 0, 2, 20);
	read_gap_with_position(receiver, 2, 1, 23);
	cr_assert(!reader_ready(&receiver->reader));
	cr_assert(say_position(receiver, 3, 24));
	read_gap_with_position(receiver, 3, 1, 24);
	stop_ordered(receiver);
}

/* Answers that come late, all the same. */
Test(multicast_rules, o5_run_of_positions_is_reported_at_once)
{
	struct receiver *receiver = start_ordered(UINT64_MAX - 1);

	state(receiver, 6, 0, 0);
	receiver->now += GAP;
	cr_assert(!run_timers(receiver), "no position is known");
	expect_asked(receiver->start, 6);
	cr_assert(say_positions(receiver, 0, 4, 20));
	read_gap_with_position(receiver, 0, 4, 20);
	cr_assert(!reader_ready(&receiver->reader));
	/* Nothing for reported ones, nor for those not known to be sent. */
	cr_assert(say_positions(receiver, 2, W, 22));
	read_gap_with_position(receiver, 4, 2, 24);
	cr_assert_eq(receiver->protocol.counts.repeated, W - 2);
	cr_assert_eq(receiver->protocol.counts.gaps, 2);
	cr_assert_eq(receiver->protocol.counts.lost, 6);
	cr_assert_eq(
	    dfi__multicast_receiver_due(&receiver->protocol), DEADLINE_NEVER);
	stop_ordered(receiver);
}

/* Then the later ones, though they came before. */
Test(multicast_rules, o5_run_of_positions_leaves_out_what_has_come)
{
	struct receiver *receiver = start_ordered(0);

	state(receiver, 4, 0, 0);
	cr_assert(!data(receiver, 1));
	receiver->now += GAP;
	cr_assert(!run_timers(receiver));
	cr_assert(say_positions(receiver, 0, 4, 20));
	read_gap_with_position(receiver, 0, 1, 20);
	read_one(receiver, 1);
	read_gap_with_position(receiver, 2, 2, 22);
	stop_ordered(receiver);
}

/* Not in parts, which would be answered in parts. */
Test(multicast_rules, o5_gap_that_was_overtaken_is_asked_for_as_a_whole)
{
	struct receiver *receiver = start_ordered(0);
	int64_t due;

	cr_assert(!data(receiver, 3));
	cr_assert(!data(receiver, 4));
	cr_assert_eq(sent.n, 0);
	cr_assert(!data(receiver, 5));
	cr_assert_eq(sent.n, 1);
	expect_asked(0, 3);
	cr_assert(!data(receiver, 7));
	cr_assert_eq(sent.n, 1, "6 is another gap");
	/* Known, but too young: it waits for its time alone. */
	cr_assert(!say_positions(receiver, 0, 3, 9));
	due = dfi__multicast_receiver_due(&receiver->protocol);
	cr_assert_eq(due, receiver->now + GAP);
	receiver->now += GAP;
	cr_assert(run_timers(receiver));
	read_gap_with_position(receiver, 0, 3, 9);
	stop_ordered(receiver);
}

/* The positions of the rest will not come. */
Test(multicast_rules, o5_dead_source_is_cut_behind_what_can_be_reported)
{
	struct receiver *receiver = start_ordered(0);

	data(receiver, 0);
	dfi__multicast_receiver_source_gone(&receiver->protocol, receiver->now);
	receiver->now += GAP / 2;
	state(receiver, 4, DATAGRAM_END, 4);
	cr_assert(!say_position(receiver, 1, 3));
	cr_assert(!say_position(receiver, 3, 9));
	receiver->now += GAP / 2;
	run_timers(receiver);
	cr_assert_eq(
	    receiver->protocol.state, RECEIVER_OPEN, "1 is to be told");
	receiver->now += GAP / 2;
	cr_assert(run_timers(receiver));
	cr_assert_eq(receiver->protocol.state, RECEIVER_CUT);
	read_one(receiver, 0);
	read_gap_with_position(receiver, 1, 1, 3);
	cr_assert(!reader_ready(&receiver->reader));
	cr_assert(!reader_end_marked(&receiver->reader));
	stop_ordered(receiver);
}

/* A source that has sent segments at these positions. */
static void start_ordered_sender(
    struct sender *sender, const uint64_t *positions, uint32_t n)
{
	uint32_t i;
	char *slot;

	parts = SEGMENT_GLOBAL;
	start_sender(sender, UINT32_MAX - 1);
	sender->protocol.config.notify = true;
	for (i = 0; i < n; i++) {
		slot = sender->slots + (size_t)flow.geometry.slot_size * i;
		((struct segment_header *)(void *)slot)->global = positions[i];
		write_one(sender);
	}
	progress(sender);
	sent.n = 0;
}

static void stop_ordered_sender(struct sender *sender)
{
	stop_sender(sender);
	parts = 0;
}

static void expect_run(
    const struct sender *sender, uint64_t n, uint32_t count, uint64_t position)
{
	const struct datagram *last = &sent.datagrams[sent.n - 1];

	cr_assert_gt(sent.n, 0);
	cr_assert_eq(last->type, DATAGRAM_POSITION);
	cr_assert_eq(sent.to[sent.n - 1], 1);
	cr_assert_eq(last->number, (uint32_t)(sender->start + n));
	cr_assert_eq(last->count, count);
	cr_assert_eq(last->position, position);
}

Test(multicast_rules, o5_source_sends_positions_instead_of_segments)
{
	static const uint64_t positions[] = { 99, UINT64_MAX - 1, UINT64_MAX, 0,
		1, 3, 4, 9 };
	struct sender sender;

	start_ordered_sender(&sender, positions, W);
	reports(&sender, 1, 0, 0, 1, 4);
	cr_assert_eq(sent.n, 1, "adjacent, whatever wraps around");
	expect_run(&sender, 1, 4, UINT64_MAX - 1);
	reports(&sender, 1, 0, 0, 5, 2);
	cr_assert_eq(sent.n, 2);
	expect_run(&sender, 5, 2, 3);
	cr_assert_eq(sender.protocol.counts.positions, 6);
	/* Others' segments between split them. */
	sent.n = 0;
	reports(&sender, 1, 0, 0, 0, W);
	cr_assert_eq(sent.n, 4);
	cr_assert_eq(sent.datagrams[0].count, 1);
	cr_assert_eq(sent.datagrams[1].count, 4);
	cr_assert_eq(sent.datagrams[2].count, 2);
	expect_run(&sender, 7, 1, 9);
	cr_assert_eq(sender.protocol.counts.positions, 6 + W);
	cr_assert_eq(sender.protocol.counts.resent, 0);
	stop_ordered_sender(&sender);
}

Test(multicast_rules, o5_source_without_room_sends_no_more_positions)
{
	static const uint64_t positions[] = { 1, 3, 4, 7, 9, 11, 13, 15 };
	struct sender sender;

	start_ordered_sender(&sender, positions, W);
	sent.room = 2;
	reports(&sender, 1, 0, 0, 0, W);
	cr_assert_eq(sent.n, 2);
	expect_run(&sender, 1, 2, 3);
	cr_assert_eq(sender.protocol.counts.positions, 3);
	/* It is asked again. */
	sent.room = 64;
	reports(&sender, 1, 0, 0, 3, W - 3);
	cr_assert_eq(sent.n, 2 + W - 3);
	cr_assert_eq(sender.protocol.counts.positions, W);
	stop_ordered_sender(&sender);
}

/* A ring whose losses nobody has declared. */
Test(multicast_rules, reader_that_is_not_lossy_refuses_gaps)
{
	struct receiver receiver;
	const char *payload;
	uint64_t bytes;

	start_receiver(&receiver, 0, true);
	state(&receiver, 2, 0, 0);
	receiver.now += GAP;
	run_timers(&receiver);
	receiver.reader.lossy = false;
	cr_assert_eq(reader_take(&receiver.reader, &payload, &bytes), -EBADMSG);
	receiver.reader.lossy = true;
	/* A gap of no segment, or of more than a ring, is refused as well. */
	atomic_set(&receiver.reader.head->state,
	    footer_state(0, W + 1, FOOTER_FLAG_LOST));
	cr_assert_eq(reader_take(&receiver.reader, &payload, &bytes), -EBADMSG);
	atomic_set(
	    &receiver.reader.head->state, footer_state(0, 0, FOOTER_FLAG_LOST));
	cr_assert_eq(reader_take(&receiver.reader, &payload, &bytes), -EBADMSG);
	atomic_set(&receiver.reader.head->state,
	    footer_state(0, 2, FOOTER_FLAG_LOST | FOOTER_FLAG_END));
	cr_assert_eq(reader_take(&receiver.reader, &payload, &bytes), -EBADMSG);
	stop_receiver(&receiver);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams from anybody, at a source and at a target of one flow. Whatever
 * they contain, the target writes only slots that its reader has given back,
 * the source sends only segments that it has, and neither counts beyond its
 * limits.
 *
 * The input: segment count, flags (checksums, notify, order, an open flow),
 * first segment; then operations, each a byte and what belongs to it.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "buffers/layout/checksum.h"
#include "buffers/reader.h"
#include "buffers/multicast/sender.h"
#include "buffers/multicast/receiver.h"
#include "fuzz.h"

enum {
	TUPLE = 8,
	TUPLES = 3,
	COUNT_MAX = 8,
	N_SOURCES = 2,
	N_TARGETS = 3
};

#define INSTANCE UINT64_C(0x0102030405060708)
#define PAIR UINT64_C(0x1112131415161718)

struct input {
	const uint8_t *at;
	size_t left;
};

static struct {
	struct datagram_flow flow;
	struct region region;
	struct reader reader;
	struct multicast_receiver target;
	struct multicast_sender source;
	char *slots;
	struct ring_credit credits[N_TARGETS];
	uint64_t written, start; /* segments, by the source's writer */
	uint32_t slot;
	int64_t now;
	bool refused; /* by the reader */
} f;

static uint64_t number(struct input *input, size_t size)
{
	uint64_t value = 0;

	if (size > input->left)
		size = input->left;
	if (size)
		memcpy(&value, input->at, size);
	input->at += size;
	input->left -= size;
	return value;
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
	.name = "fuzz",
	.ring.give_credit = give_credit,
};

static struct segment_footer *own_footer(uint32_t slot)
{
	return (struct segment_footer *)(void *)(f.slots +
	    (size_t)f.flow.geometry.slot_size * slot +
	    f.flow.geometry.footer_offset);
}

/* A source sends one of its segments, unchanged. */
static int source_sends(void *arg, uint32_t to, const void *header,
    size_t header_size, const void *payload, size_t payload_size)
{
	char data[512];
	struct datagram datagram;
	uint64_t number_is;
	size_t prefix = f.flow.geometry.payload_offset;

	fuzz_check(arg == &f && (to == DATAGRAM_ALL || to < N_TARGETS));
	fuzz_check(header_size + payload_size <= sizeof(data));
	memcpy(data, header, header_size);
	if (payload_size)
		memcpy(data + header_size, payload, payload_size);
	fuzz_check(dfi__datagram_parse(
	    &f.flow, data, header_size + payload_size, &datagram));
	fuzz_check(datagram.type != DATAGRAM_POSITION ||
	    (f.source.config.notify && to != DATAGRAM_ALL &&
		datagram.position - f.start < f.written &&
		datagram.count <= f.written - (datagram.position - f.start)));
	if (datagram.type == DATAGRAM_DATA) {
		memcpy(&number_is, datagram.payload + prefix, TUPLE);
		fuzz_check((uint32_t)number_is == datagram.number);
		fuzz_check(number_is - f.start < f.written);
	}
	return 0;
}

static int target_sends(void *arg, uint32_t to, const void *header,
    size_t header_size, const void *payload, size_t payload_size)
{
	struct datagram datagram;

	fuzz_check(arg == &f && !to && !payload && !payload_size);
	fuzz_check(
	    dfi__datagram_parse(&f.flow, header, header_size, &datagram));
	fuzz_check(datagram.type == DATAGRAM_REPORT);
	return 0;
}

/* The writer, as far as credit goes. */
static void write_segment(void)
{
	const struct ring_geometry *g = &f.flow.geometry;
	uint64_t seq = f.start + f.written, most = 0;
	uint32_t t;

	for (t = 0; t < N_TARGETS; t++)
		if (!f.source.peers[t].over)
			most = max_u64(most, seq - f.credits[t].consumed);
	if (most >= g->segment_count)
		return;
	memcpy(f.slots + (size_t)g->slot_size * f.slot + g->payload_offset,
	    &seq, TUPLE);
	if (g->parts & SEGMENT_GLOBAL)
		segment_header(g,
		    f.slots + (size_t)g->slot_size * f.slot + g->payload_offset)
		    ->global = seq;
	f.written++;
	atomic_set(&own_footer(f.slot)->total, f.written);
	atomic_publish(&own_footer(f.slot)->state, footer_state(seq, TUPLE, 0));
	f.slot = next_slot(g, f.slot);
}

static void read_segment(void)
{
	const char *base = f.region.base, *payload;
	volatile char sum = 0;
	uint64_t bytes, i;
	uint64_t position;
	int ret;

	if (f.refused)
		return;
	if (f.flow.geometry.parts & SEGMENT_GLOBAL && reader_ready(&f.reader)) {
		ret = dfi__reader_global(&f.reader, &position);
		fuzz_check(ret == 0 || ret == -EBADMSG);
	}
	if (!reader_ready(&f.reader)) {
		ret = dfi__reader_check_end(&f.reader);
		fuzz_check(ret == 0 || ret == -EBADMSG);
		f.refused = ret < 0;
		return;
	}
	ret = reader_take(&f.reader, &payload, &bytes);
	fuzz_check(
	    ret == 0 || ret == -EBADMSG || (ret == -ENODATA && f.reader.lossy));
	f.refused = ret == -EBADMSG;
	if (f.refused)
		return;
	for (i = 0; !ret && i < bytes; i++) {
		fuzz_check(payload + i >= base &&
		    payload + i < base + region_size(&f.flow.geometry, 1));
		sum = (char)(sum + payload[i]);
	}
	fuzz_check(reader_release(&f.reader) == 0);
}

/* Parse it and pass it to its receiver, as a datagram endpoint does. */
static void receive(const void *data, size_t size)
{
	struct datagram datagram;

	if (!dfi__datagram_parse(&f.flow, data, size, &datagram))
		return;
	if (datagram.type == DATAGRAM_REPORT)
		dfi__multicast_sender_receive(&f.source, &datagram);
	else
		dfi__multicast_receiver_receive(&f.target, &datagram, f.now);
}

/* With a valid head, and numbers that are close. */
static void receive_likely(struct input *input, uint8_t kind)
{
	struct datagram datagram = {
		.type = kind & 1 ? DATAGRAM_DATA : DATAGRAM_STATE,
		.number = (uint32_t)(f.target.consumed + f.target.base) +
		    (uint32_t)number(input, 1) - 8,
		.pair = PAIR,
		.total = number(input, 1),
		.used = TUPLE * (uint32_t)number(input, 1),
	};
	char data[DATAGRAM_HEADER_MAX + 64 + TUPLE * 256] = { 0 };
	size_t size;

	if (kind & 2) {
		datagram.type = DATAGRAM_REPORT;
		datagram.number = (uint32_t)f.source.peers[0].consumed +
		    (uint32_t)number(input, 1) - 8;
		datagram.target = (uint32_t)number(input, 1);
		datagram.n_missing = 1;
		datagram.missing[0].first = datagram.number +
		    (uint32_t)number(input, 1) - 8;
		datagram.missing[0].count = (uint32_t)number(input, 1);
	} else if (kind & 4 && f.flow.open) {
		datagram.type = DATAGRAM_JOIN;
		datagram.first = f.start + number(input, 1);
		datagram.number = (uint32_t)datagram.first;
	} else if (kind & 4) {
		datagram.type = DATAGRAM_POSITION;
		datagram.position = number(input, 1);
		datagram.count = 1 + (kind >> 3);
	}
	if (datagram.type == DATAGRAM_STATE || datagram.type == DATAGRAM_REPORT)
		datagram.flags = (uint8_t)number(input, 1);
	size = dfi__datagram_encode(&f.flow, &datagram, data);
	if (datagram.type == DATAGRAM_DATA)
		size += f.flow.geometry.payload_offset + datagram.used;
	receive(data, size);
}

static void run_operation(struct input *input)
{
	uint8_t operation = (uint8_t)number(input, 1);
	uint8_t *raw;
	size_t size;

	switch (operation % 8) {
	case 0: /* anything */
		size = number(input, 1);
		size = min_u64(size, input->left);
		raw = malloc(size ? size : 1);
		fuzz_check(raw);
		memcpy(raw, input->at, size);
		input->at += size;
		input->left -= size;
		receive(raw, size);
		free(raw);
		break;
	case 1:
	case 2:
		receive_likely(input, operation >> 3);
		break;
	case 3:
		read_segment();
		break;
	case 4:
		write_segment();
		dfi__multicast_sender_progress(&f.source, f.now);
		break;
	case 5: /* time passes */
		f.now += (int64_t)number(input, 1) * 100000;
		dfi__multicast_receiver_progress(&f.target, f.now);
		dfi__multicast_sender_progress(&f.source, f.now);
		break;
	case 6:
		if (f.flow.open && operation >> 7) {
			dfi__multicast_sender_join(&f.source,
			    (operation >> 3) % N_TARGETS, PAIR,
			    f.start + f.written, f.written, 0, f.now);
			break;
		}
		dfi__multicast_sender_leave(&f.source,
		    (operation >> 3) % N_TARGETS,
		    (enum multicast_over)(1 + (operation >> 5) % 3));
		break;
	default:
		if (operation >> 3 & 1)
			dfi__multicast_receiver_source_gone(&f.target, f.now);
		else if (operation >> 3 & 2)
			dfi__reader_close(&f.reader, RING_CANCELLED);
		else
			dfi__multicast_sender_end(&f.source,
			    operation >> 3 & 4 ? FOOTER_FLAG_END
					       : FOOTER_FLAG_ABORT,
			    f.now);
		break;
	}
}

static void check(void)
{
	uint32_t t, window = f.flow.geometry.segment_count;

	fuzz_check(f.target.known - f.target.consumed <= window);
	fuzz_check(f.target.expected - f.target.consumed <=
	    f.target.known - f.target.consumed);
	fuzz_check(f.source.next - f.start <= f.written);
	for (t = 0; t < N_TARGETS; t++)
		/* One may join behind segments that are not sent yet. */
		fuzz_check(f.source.peers[t].over ||
		    (int64_t)(f.source.next - f.source.peers[t].consumed) <=
			(int64_t)window);
	fuzz_check(dfi__multicast_receiver_due(&f.target) >= 0);
	fuzz_check(dfi__multicast_sender_due(&f.source) >= 0);
}

static void start(struct input *input)
{
	uint32_t i, count = 1 + (uint32_t)number(input, 1) % COUNT_MAX;
	uint8_t flags = (uint8_t)number(input, 1);
	static struct transport transport = { .ops = &ops };
	struct multicast_sender_config source = { .gap_us = 1000 };
	struct multicast_receiver_config target = { .gap_us = 1000 };

	memset(&f, 0, sizeof(f));
	f.start = number(input, 8);
	/* An open flow neither notifies nor orders. */
	if (flags & 8)
		flags &= (uint8_t)~6u;
	f.flow = (struct datagram_flow){
		.instance = INSTANCE,
		.open = flags & 8,
		.pair = flags & 8 ? PAIR : 0,
		.n_sources = N_SOURCES,
		.n_targets = N_TARGETS,
		.geometry = ring_geometry_with(TUPLE, TUPLE * TUPLES, count,
		    (flags & 1 ? SEGMENT_CHECKSUM : 0) |
			(flags & 4 ? SEGMENT_GLOBAL : 0),
		    FOOTER_BEHIND),
	};
	f.region.transport = &transport;
	f.region.base = aligned_alloc(128, region_size(&f.flow.geometry, 1));
	f.slots = aligned_alloc(
	    128, align_up((uint64_t)f.flow.geometry.slot_size * count, 128));
	fuzz_check(f.region.base && f.slots);
	memset(f.slots, 0, (size_t)f.flow.geometry.slot_size * count);
	memset(f.region.base, 0, region_size(&f.flow.geometry, 1));
	dfi__region_init(&f.region);
	dfi__reader_init(&f.reader, &f.region, &f.flow.geometry, 1, 0, f.start);
	f.reader.lossy = flags & 2;
	for (i = 0; i < count; i++)
		atomic_set(&own_footer(i)->state,
		    footer_state(f.start - count + i, 0, 0));
	source.output = (struct datagram_output){ source_sends, &f };
	source.flow = target.flow = f.flow;
	source.slots = f.slots;
	source.start = target.start = f.start;
	target.output = (struct datagram_output){ target_sends, &f };
	target.notify = source.notify = flags & 2;
	target.ring = (struct ring_header *)(void *)((char *)f.region.base +
	    ring_offset(&f.flow.geometry, 0));
	fuzz_check(dfi__multicast_sender_init(&f.source, &source) == 0);
	fuzz_check(dfi__multicast_receiver_init(&f.target, &target) == 0);
	for (i = 0; i < N_TARGETS; i++)
		dfi__multicast_sender_attach(&f.source, i, &f.credits[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { .at = data, .left = size };

	start(&input);
	while (input.left) {
		run_operation(&input);
		check();
	}
	dfi__multicast_sender_free(&f.source);
	dfi__multicast_receiver_free(&f.target);
	free(f.region.base);
	free(f.slots);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams: each field at its documented offset, whatever this machine's byte
 * order, and no impossible value accepted.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "buffers/multicast/datagram.h"

enum {
	TUPLE = 8,
	SEGMENT = 40,
	COUNT = 6
};

static struct datagram_flow flow(bool verified)
{
	return (struct datagram_flow){
		.instance = 0x0807060504030201,
		.n_sources = 300,
		.n_targets = 3,
		.geometry = ring_geometry_with(TUPLE, SEGMENT, COUNT,
		    verified ? SEGMENT_CHECKSUM | SEGMENT_GLOBAL : 0,
		    FOOTER_BEHIND),
	};
}

static const struct datagram data = {
	.type = DATAGRAM_DATA,
	.source = 0x0102,
	.number = 0xfffffffe,
	.total = 0x1122334455667788,
	.used = 16,
};
static const struct datagram mark = {
	.type = DATAGRAM_DATA,
	.number = 4,
	.total = 9,
	.used = FOOTER_MARK,
};
static const struct datagram state = {
	.type = DATAGRAM_STATE,
	.flags = DATAGRAM_END,
	.source = 299,
	.number = 5,
	.total = 0xaabbccdd,
};
static const struct datagram position = {
	.type = DATAGRAM_POSITION,
	.source = 3,
	.number = 0xffffffff,
	.position = 0x0123456789abcdef,
	.count = COUNT,
};
static const struct datagram report = {
	.type = DATAGRAM_REPORT,
	.flags = DATAGRAM_DONE,
	.source = 7,
	.number = 0x01020304,
	.target = 2,
	.n_missing = 2,
	.missing = { { 0x01020305, 1 }, { 0xffffffff, COUNT } },
};

static const struct datagram join = {
	.type = DATAGRAM_JOIN,
	.source = 0,
	.number = 0x55667788,
	.pair = 0x1817161514131211,
	.total = 0x0102030405060708,
	.first = 0x1122334455667788,
	.mark = 0x2122232425262728,
	.target = 2,
};

/* In an open flow; at a target: of a pair. */
static struct datagram_flow open_flow(uint64_t pair)
{
	struct datagram_flow open = flow(false);

	open.open = true;
	open.pair = pair;
	return open;
}

/* A datagram with its payload, in a block of its size, not aligned. */
struct block {
	char *at, *memory;
	size_t size;
};

static struct block encode(
    const struct datagram_flow *f, const struct datagram *datagram)
{
	char header[DATAGRAM_HEADER_MAX];
	struct block block;
	size_t size, payload = 0;

	size = dfi__datagram_encode(f, datagram, header);
	if (datagram->type == DATAGRAM_DATA)
		payload = datagram_payload(&f->geometry, datagram->used);
	block.size = size + payload;
	block.memory = malloc(block.size + 1);
	cr_assert_not_null(block.memory);
	block.at = block.memory + 1;
	memcpy(block.at, header, size);
	memset(block.at + size, 0x5a, payload);
	return block;
}

Test(datagram, fields_are_where_they_are_documented)
{
	static const unsigned char data_bytes[] = { 1, 2, 3, 4, 5, 6, 7, 8,
		0xd1, 0, 2, 1, 0xfe, 0xff, 0xff, 0xff, 0x88, 0x77, 0x66, 0x55,
		0x44, 0x33, 0x22, 0x11, 16, 0, 0, 0, 0, 0, 0, 0 };
	static const unsigned char state_bytes[] = { 1, 2, 3, 4, 5, 6, 7, 8,
		0xd2, 1, 0x2b, 1, 5, 0, 0, 0, 0xdd, 0xcc, 0xbb, 0xaa, 0, 0, 0,
		0 };
	static const unsigned char position_bytes[] = { 1, 2, 3, 4, 5, 6, 7, 8,
		0xd4, 0, 3, 0, 0xff, 0xff, 0xff, 0xff, 0xef, 0xcd, 0xab, 0x89,
		0x67, 0x45, 0x23, 1, COUNT, 0, 0, 0, 0, 0, 0, 0 };
	static const unsigned char report_bytes[] = { 1, 2, 3, 4, 5, 6, 7, 8,
		0xd3, 4, 7, 0, 4, 3, 2, 1, 2, 0, 0, 0, 2, 0, 0, 0, 5, 3, 2, 1,
		1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 6, 0, 0, 0 };
	static const unsigned char join_bytes[] = { 0x11, 0x12, 0x13, 0x14,
		0x15, 0x16, 0x17, 0x18, 0xd5, 0, 0, 0, 0x88, 0x77, 0x66, 0x55,
		8, 7, 6, 5, 4, 3, 2, 1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
		0x22, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 2,
		0, 0, 0, 0, 0, 0, 0 };
	struct datagram_flow f = flow(false), open = open_flow(0);
	char header[DATAGRAM_HEADER_MAX];

	cr_assert_eq(dfi__datagram_encode(&open, &join, header), 48);
	cr_assert_arr_eq(header, join_bytes, 48);
	cr_assert_eq(dfi__datagram_encode(&f, &data, header), 32);
	cr_assert_arr_eq(header, data_bytes, 32);
	cr_assert_eq(dfi__datagram_encode(&f, &state, header), 24);
	cr_assert_arr_eq(header, state_bytes, 24);
	cr_assert_eq(dfi__datagram_encode(&f, &position, header), 32);
	cr_assert_arr_eq(header, position_bytes, 32);
	cr_assert_eq(dfi__datagram_encode(&f, &report, header), 40);
	cr_assert_arr_eq(header, report_bytes, 40);
}

static void come_back(bool verified)
{
	struct datagram_flow f = flow(verified);
	struct datagram got;
	struct block block = encode(&f, &data);
	uint32_t i;

	cr_assert(dfi__datagram_parse(&f, block.at, block.size, &got));
	cr_assert_eq(got.type, DATAGRAM_DATA);
	cr_assert_eq(got.source, data.source);
	cr_assert_eq(got.number, data.number);
	cr_assert_eq(got.total, data.total);
	cr_assert_eq(got.used, data.used);
	cr_assert_eq(got.payload, block.at + 32);
	free(block.memory);

	block = encode(&f, &mark);
	cr_assert(dfi__datagram_parse(&f, block.at, block.size, &got));
	cr_assert_eq(got.used, FOOTER_MARK);
	cr_assert_eq(got.payload, block.at + 32);
	free(block.memory);

	block = encode(&f, &state);
	cr_assert(dfi__datagram_parse(&f, block.at, block.size, &got));
	cr_assert_eq(got.type, DATAGRAM_STATE);
	cr_assert_eq(got.flags, DATAGRAM_END);
	cr_assert_eq(got.source, state.source);
	cr_assert_eq(got.number, state.number);
	cr_assert_eq(got.total, state.total);
	free(block.memory);

	block = encode(&f, &report);
	cr_assert(dfi__datagram_parse(&f, block.at, block.size, &got));
	cr_assert_eq(got.type, DATAGRAM_REPORT);
	cr_assert_eq(got.flags, DATAGRAM_DONE);
	cr_assert_eq(got.source, report.source);
	cr_assert_eq(got.number, report.number);
	cr_assert_eq(got.target, report.target);
	cr_assert_eq(got.n_missing, report.n_missing);
	for (i = 0; i < report.n_missing; i++) {
		cr_assert_eq(got.missing[i].first, report.missing[i].first);
		cr_assert_eq(got.missing[i].count, report.missing[i].count);
	}
	free(block.memory);

	/* Only where segments have positions. */
	block = encode(&f, &position);
	cr_assert_eq(
	    dfi__datagram_parse(&f, block.at, block.size, &got), verified);
	if (verified) {
		cr_assert_eq(got.type, DATAGRAM_POSITION);
		cr_assert_eq(got.source, position.source);
		cr_assert_eq(got.number, position.number);
		cr_assert_eq(got.position, position.position);
		cr_assert_eq(got.count, position.count);
	}
	free(block.memory);
}

Test(datagram, comes_back_as_it_was)
{
	come_back(false);
	come_back(true);
}

/* A source looks for the pair itself; a target has one. */
Test(datagram, of_an_open_flow_has_a_stream_or_a_pair)
{
	struct datagram_flow source = open_flow(0), target = open_flow(77);
	struct datagram said = report, got;
	struct block block;

	said.pair = 77;
	block = encode(&target, &said);
	cr_assert(dfi__datagram_parse(&source, block.at, block.size, &got));
	cr_assert_eq(got.pair, 77);
	free(block.memory);
	block = encode(&source, &join);
	cr_assert(!dfi__datagram_parse(&target, block.at, block.size, &got));
	target.pair = join.pair;
	cr_assert(dfi__datagram_parse(&target, block.at, block.size, &got));
	cr_assert_eq(got.total, join.total);
	cr_assert_eq(got.first, join.first);
	cr_assert_eq(got.mark, join.mark);
	cr_assert_eq(got.target, join.target);
	free(block.memory);
	/* DATA and STATE have the stream. */
	block = encode(&source, &state);
	cr_assert(dfi__datagram_parse(&target, block.at, block.size, &got));
	target.instance++;
	cr_assert(!dfi__datagram_parse(&target, block.at, block.size, &got));
	free(block.memory);
}

/* With one change, it is not accepted. */
static void refuse(struct datagram datagram, size_t at, unsigned char byte)
{
	struct datagram_flow f = flow(true);
	struct block block = encode(&f, &datagram);
	struct datagram got;
	char before = block.at[at];

	cr_assert(dfi__datagram_parse(&f, block.at, block.size, &got));
	block.at[at] = (char)byte;
	cr_assert_neq(block.at[at], before);
	cr_assert(!dfi__datagram_parse(&f, block.at, block.size, &got),
	    "type %#x, byte %zu: %#x", datagram.type, at, byte);
	free(block.memory);
}

Test(datagram, of_another_flow_or_for_nobody_is_dropped)
{
	size_t i;

	for (i = 0; i < 8; i++) {
		refuse(data, i, 0xaa);
		refuse(state, i, 0xaa);
		refuse(report, i, 0xaa);
		refuse(position, i, 0xaa);
	}
	refuse(data, 8, 0xd5); /* type */
	refuse(data, 8, 0xd4);
	refuse(data, 8, 0);
	refuse(state, 8, 0xd3); /* but what follows is not that */
	refuse(report, 8, 0xd2);
	refuse(report, 8, 0xd1);
	refuse(state, 8, 0xd4);
	refuse(position, 8, 0xd1);
	refuse(position, 11, 2);
	refuse(data, 11, 2); /* source */
	refuse(state, 10, 0x2c);
	refuse(report, 11, 0xff);
	refuse(report, 16, 3); /* target */
	refuse(report, 19, 1);
}

Test(datagram, that_says_what_cannot_be_is_dropped)
{
	refuse(data, 9, DATAGRAM_END); /* flags of others */
	refuse(data, 9, 0x80);
	refuse(state, 9, DATAGRAM_DONE);
	refuse(state, 9, 0x10);
	refuse(report, 9, DATAGRAM_ABORT);
	refuse(position, 9, DATAGRAM_END);
	refuse(data, 24, 0); /* used: none, parts, others, too many */
	refuse(data, 24, 15);
	refuse(data, 24, 8);
	refuse(data, 24, 24);
	refuse(data, 24, 48);
	refuse(data, 27, 1);
	refuse(data, 28, 1);     /* zero */
	refuse(position, 24, 0); /* count: none, too many */
	refuse(position, 24, COUNT + 1);
	refuse(position, 27, 1);
	refuse(position, 28, 1); /* zero */
	refuse(position, 31, 0x80);
	refuse(report, 20, 1); /* ranges: another number, none, too long */
	refuse(report, 20, 3);
	refuse(report, 23, 0xff);
	refuse(report, 28, 0);
	refuse(report, 36, COUNT + 1);
	refuse(report, 39, 0x80);
}

Test(datagram, of_another_length_is_dropped)
{
	const struct datagram *all[] = { &data, &mark, &state, &report,
		&position };
	struct datagram_flow f = flow(true);
	struct datagram got;
	struct block block;
	size_t i, size;
	char *exact;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		block = encode(&f, all[i]);
		for (size = 0; size <= block.size + 3; size++) {
			/* A block of its size, so that more is noticed. */
			exact = calloc(1, size ? size : 1);
			cr_assert_not_null(exact);
			memcpy(exact, block.at, min_u64(size, block.size));
			cr_assert_eq(dfi__datagram_parse(&f, exact, size, &got),
			    size == block.size, "type %#x, %zu of %zu bytes",
			    all[i]->type, size, block.size);
			free(exact);
		}
		free(block.memory);
	}
}

Test(datagram, report_has_room_for_its_most_ranges)
{
	struct datagram_flow f = flow(false);
	struct datagram most = report, got;
	struct block block;
	uint32_t i;

	most.n_missing = DATAGRAM_MISSING_MAX;
	for (i = 0; i < most.n_missing; i++)
		most.missing[i] = (struct datagram_range){ 2 * i, 1 };
	block = encode(&f, &most);
	cr_assert_leq(block.size, DATAGRAM_HEADER_MAX);
	cr_assert(dfi__datagram_parse(&f, block.at, block.size, &got));
	for (i = 0; i < most.n_missing; i++)
		cr_assert_eq(got.missing[i].first, 2 * i);
	free(block.memory);
}

Test(datagram, largest_of_a_flow_is_known)
{
	struct ring_geometry g = ring_geometry_with(
	    24, 4000, 8, SEGMENT_CHECKSUM, FOOTER_BEHIND);

	/* 166 tuples, and the checksum's line. */
	cr_assert_eq(datagram_size_max(&g), 32 + 64 + 3984);
	g = ring_geometry(8, 8, 8);
	cr_assert_eq(datagram_size_max(&g), DATAGRAM_HEADER_MAX);
}

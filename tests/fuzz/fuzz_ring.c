/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target's ring whose source writes anything: footers, end marks, payload. In
 * all cases the reader lends only memory of the ring, never more than a segment
 * of whole tuples, and ends or refuses.
 *
 * The input: tuple size and the footers' side, segment size, segment count and
 * whether segments have checksums and may be lost, first segment; then
 * operations, each a byte and what belongs to it.
 */
#include <errno.h>
#include <string.h>

#include "buffers/layout/checksum.h"
#include "buffers/reader.h"
#include "fuzz.h"

#define SEGMENT_MAX 96
/* Larger numbers in place of a tuple size: footers stand in front. */
#define IN_FRONT (2 * SEGMENT_MAX)
/* The next bits: segments have checksums, positions, sets, and may be lost. */
#define COUNT_MAX 8
#define LOSSY (8 * COUNT_MAX)
#define WINDOWS (16 * COUNT_MAX)

struct input {
	const uint8_t *at;
	size_t left;
};

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
	(void)export;
	(void)region;
	(void)layout;
	(void)ring;
	(void)consumed;
	(void)closed;
	return 0;
}

static const struct transport_ops ops = {
	.name = "fuzz",
	.ring.give_credit = give_credit,
};

static struct segment_footer *footer(const struct reader *reader, uint32_t slot)
{
	const struct ring_geometry *g = &reader->geometry;

	return (struct segment_footer *)(void *)((char *)reader->region->base +
	    ring_offset(g, 0) + slot_offset(g, slot) + g->footer_offset);
}

/*
 * Take a segment, whatever was written; false: the reader has refused it or has
 * ended.
 */
static bool read_once(struct reader *reader)
{
	const struct ring_geometry *g = &reader->geometry;
	const char *base = reader->region->base, *payload;
	volatile char sum = 0;
	uint64_t bytes, i, seq = reader->seq;
	int ret;

	if (!reader_ready(reader)) {
		fuzz_check(dfi__reader_check_end(reader) <= 0);
		return !reader->end;
	}
	fuzz_check(dfi__reader_arrived(reader) != seq);
	reader->has_mark = false;
	ret = reader_take(reader, &payload, &bytes);
	if (ret == -ENODATA) {
		fuzz_check(reader->lossy && reader->gap_first == seq);
		fuzz_check(reader->gap_count >= 1 &&
		    reader->gap_count <= g->segment_count);
		fuzz_check(reader_release(reader) == 0);
		return true;
	}
	if (ret < 0)
		return false;
	fuzz_check(bytes || g->parts & SEGMENT_TARGETS || reader->has_mark);
	fuzz_check(!reader->has_mark || g->parts & SEGMENT_MARK || !bytes);
	fuzz_check(!reader->has_mark || reader->marked);
	fuzz_check(bytes <= g->segment_bytes);
	fuzz_check(bytes % g->tuple_size == 0);
	fuzz_check(payload >= base + ring_offset(g, 0));
	fuzz_check(payload + bytes <= base + region_size(g, 1));
	for (i = 0; i < bytes; i++)
		sum = (char)(sum + payload[i]);
	fuzz_check(reader_release(reader) == 0);
	return true;
}

/*
 * The header of the next segment: any targets, any window's end, and the right
 * checksum unless the operation says otherwise.
 */
static void set_header(struct reader *reader, uint8_t operation, uint64_t used,
    struct input *input)
{
	const struct ring_geometry *g = &reader->geometry;
	uint64_t state = atomic_peek(&reader->head->state);
	char *at = (char *)reader->head - g->footer_offset;
	uint64_t size = footer_payload(state);
	bool fits = used <= g->segment_bytes || footer_is_mark(state);
	struct segment_header *header;

	if (!g->parts)
		return;
	if (fits && state & FOOTER_FLAG_SHIFTED && g->footer_offset > 0)
		at += footer_shifted_at(
		    (uint64_t)g->footer_offset, g->payload_offset + size);
	header = (struct segment_header *)(void *)at;
	if (g->parts & SEGMENT_TARGETS)
		header->targets = number(input, 1);
	/* Often the right one. */
	if (g->parts & SEGMENT_MARK)
		header->mark = operation & 16 ? reader->marked + 1
					      : number(input, 1);
	if (!(g->parts & SEGMENT_CHECKSUM))
		return;
	header->checksum = operation & 8 || !fits
	    ? number(input, 8)
	    : dfi__segment_checksum(
		  g, at + g->payload_offset, footer_unshifted(state));
}

static uint64_t seen(const struct reader *reader)
{
	return reader->total + reader->passed;
}

static bool run_operation(struct reader *reader, struct input *input)
{
	const struct ring_geometry *g = &reader->geometry;
	struct segment_footer *at = reader->head;
	uint8_t operation = (uint8_t)number(input, 1);
	uint64_t used;

	switch (operation % 4) {
	case 0: /* any footer anywhere */
		at = footer(reader, operation / 4 % g->segment_count);
		atomic_set(&at->total, number(input, 8));
		atomic_set(&at->state, number(input, 8));
		return true;
	case 1: /* the next segment, with any size and right numbers; a mark */
		used = operation & 32 ? FOOTER_MARK : number(input, 2);
		atomic_set(&at->total,
		    seen(reader) + (operation & 32 ? 0 : used / g->tuple_size));
		atomic_set(&at->state,
		    footer_state(reader->seq, used,
			operation & 4 ? FOOTER_FLAG_SHIFTED : 0));
		set_header(reader, operation, used, input);
		return read_once(reader);
	case 2: /* an end mark, with right numbers or any */
		at = &((struct ring_header *)(void *)((char *)
							  reader->region->base +
			   ring_offset(g, 0)))
			  ->end;
		atomic_set(&at->total,
		    operation & 4 ? seen(reader) : number(input, 8));
		atomic_set(&at->state,
		    operation & 4
			? footer_state(reader->seq, 0, FOOTER_FLAG_END)
			: number(input, 8));
		return read_once(reader);
	default:
		return read_once(reader);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct transport transport = { .ops = &ops };
	struct region region = { .transport = &transport };
	struct input input = { .at = data, .left = size };
	uint32_t first = (uint32_t)number(&input, 1);
	uint32_t tuple_size = 1 + first % SEGMENT_MAX;
	uint32_t segment_size = (uint32_t)number(&input, 1) % SEGMENT_MAX;
	uint32_t count = (uint32_t)number(&input, 1);
	uint64_t start = number(&input, 8);
	struct ring_geometry g;
	struct reader reader;

	if (segment_size < tuple_size)
		segment_size = tuple_size;
	g = ring_geometry_with(tuple_size, segment_size, 1 + count % COUNT_MAX,
	    (count & COUNT_MAX ? SEGMENT_CHECKSUM : 0) |
		(count & 2 * COUNT_MAX ? SEGMENT_GLOBAL : 0) |
		(count & 4 * COUNT_MAX ? SEGMENT_TARGETS : 0) |
		(count & WINDOWS ? SEGMENT_MARK : 0),
	    first >= IN_FRONT ? FOOTER_IN_FRONT : FOOTER_BEHIND);
	region.base = aligned_alloc(128, region_size(&g, 1));
	fuzz_check(region.base);
	memset(region.base, 0, region_size(&g, 1));
	dfi__reader_init(&reader, &region, &g, 1, 0, start);
	reader.lossy = count & LOSSY;
	reader.own_bit = 1;
	while (input.left && run_operation(&reader, &input))
		;
	dfi__reader_close(&reader, RING_CLOSED);
	free(region.base);
	return 0;
}

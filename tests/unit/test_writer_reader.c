/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of a ring against each other, on one thread: streams over every
 * wrap-around with full and partial segments, credits, the end of a source, and
 * a reader's response to forged footers. On a fake transport; streams also on
 * shared memory.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/settings.h"
#include "fake_transport.h"
#include "tests/unit/stop_loop.h"

static const uint32_t counts[] = { 1, 2, 3, 4, 7, 32 };
static const uint64_t starts[] = { 0, UINT32_MAX - 1, UINT64_MAX - 1 };
/* Tuple and segment sizes; most don't divide. */
static const uint32_t sizes[][2] = { { 1, 1 }, { 3, 8 }, { 16, 16 },
	{ 24, 127 }, { 48, 48 }, { 100, 1000 }, { 64, 256 } };

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

/*
 * In place, or not and with payloads at either end of their slots, or behind
 * their footers; with checksums or without.
 */
static void for_each_kind(void (*fn)(struct fake_ring *ring), size_t size,
    uint32_t count, uint64_t start)
{
	static const struct {
		enum footer_side side;
		bool in_place, at_footer;
	} kinds[] = {
		{ FOOTER_BEHIND, true, false },
		{ FOOTER_BEHIND, false, false },
		{ FOOTER_BEHIND, false, true },
		{ FOOTER_IN_FRONT, true, false },
		{ FOOTER_IN_FRONT, false, false },
	};
	struct fake_ring ring;
	size_t i;

	for (i = 0; i < 2 * N_ELEMENTS(kinds); i++) {
		fake_ring_start_with(&ring,
		    ring_geometry_with(sizes[size][0], sizes[size][1], count,
			i % 2 ? SEGMENT_CHECKSUM : 0, kinds[i / 2].side),
		    start, kinds[i / 2].in_place);
		ring.at_footer = kinds[i / 2].at_footer;
		fn(&ring);
		fake_ring_stop(&ring);
	}
}

static void for_each_ring(void (*fn)(struct fake_ring *ring))
{
	size_t count, start, size;

	for (count = 0; count < N_ELEMENTS(counts); count++)
		for (start = 0; start < N_ELEMENTS(starts); start++)
			for (size = 0; size < N_ELEMENTS(sizes); size++)
				for_each_kind(
				    fn, size, counts[count], starts[start]);
}

/* Segment number n of a stream: its tuples and its bytes. */
static uint32_t segment_tuples(const struct ring_geometry *g, uint32_t n)
{
	return n % 3 ? g->segment_tuples : 1 + n * 7 % g->segment_tuples;
}

static char byte_of(uint32_t n, uint64_t at)
{
	return (char)(n * 31 + at * 7 + 1);
}

static bool write_segment(struct writer *writer, uint32_t n)
{
	int ret = writer_open(writer);
	uint64_t used, at;

	if (!ret) {
		cr_assert_null(writer->segment);
		return false;
	}
	cr_assert_eq(ret, 1);
	used = (uint64_t)segment_tuples(&writer->geometry, n) *
	    writer->geometry.tuple_size;
	for (at = 0; at < used; at++)
		writer->segment[at] = byte_of(n, at);
	cr_assert_eq(dfi__writer_publish(writer, used), 0);
	return true;
}

static void check_segment(const struct ring_geometry *g, uint32_t n,
    const char *payload, uint64_t bytes)
{
	uint64_t at;

	cr_assert_eq(bytes, (uint64_t)segment_tuples(g, n) * g->tuple_size);
	for (at = 0; at < bytes; at++)
		cr_assert_eq(payload[at], byte_of(n, at), "segment %u", n);
}

static bool read_segment(struct reader *reader, uint32_t n)
{
	const char *payload;
	uint64_t bytes;

	if (!reader_ready(reader))
		return false;
	cr_assert_eq(
	    reader_take(reader, &payload, &bytes), 0, "%s", dfi_errmsg());
	check_segment(&reader->geometry, n, payload, bytes);
	cr_assert_eq(reader_release(reader), 0);
	return true;
}

/* Write as far as there is credit, read a varying number, and so on. */
static void stream(struct writer *writer, struct reader *reader)
{
	uint32_t n = 5 * writer->geometry.segment_count + 9;
	uint32_t written = 0, read = 0, turn = 0, left;

	while (read < n) {
		while (written < n && write_segment(writer, written))
			written++;
		cr_assert_leq(written - read, writer->geometry.segment_count);
		cr_assert_lt(read, written);
		for (left = 1 + turn++ % 5; left && read < written; left--) {
			cr_assert(read_segment(reader, read));
			read++;
		}
	}
	cr_assert(!reader_ready(reader));
	cr_assert_eq(writer->segments, n);
	cr_assert_eq(writer->total, reader->total);
	cr_assert_eq(dfi__reader_check_end(reader), 0);
	cr_assert_eq(reader->end, READER_OPEN);
	cr_assert_eq(dfi__writer_end(writer, FOOTER_FLAG_END), 0);
	cr_assert(reader_end_marked(reader));
	cr_assert_eq(dfi__reader_check_end(reader), 0, "%s", dfi_errmsg());
	cr_assert_eq(reader->end, READER_ENDED);
}

static void stream_on_fake(struct fake_ring *ring)
{
	stream(&ring->writer, &ring->reader);
}

Test(writer_reader, stream_crosses_every_wrap_around)
{
	for_each_ring(stream_on_fake);
}

/* Each word says that the awaited segment has come, or that all is over. */
static void fill_with_footers(struct fake_ring *ring, uint64_t flag)
{
	const struct ring_geometry *g = &ring->geometry;
	uint64_t *words = ring->region.base;
	uint64_t i;

	for (i = 0; i < region_size(g, 2) / sizeof(words[0]); i++)
		words[i] = footer_state(ring->reader.seq, g->tuple_size, flag);
}

static void start_over(struct fake_ring *ring)
{
	const struct ring_header *header = fake_ring_header(ring);
	const struct region_header *shared = ring->region.base;
	const struct ring_geometry *g = &ring->geometry;
	uint64_t start = ring->reader.seq;

	dfi__region_init(&ring->region);
	dfi__reader_init(&ring->reader, &ring->region, g, 2, RING_INDEX, start);
	if (!ring->remote.in_place)
		memcpy(ring->remote.ring, header, g->ring_size);
	dfi__writer_init(&ring->writer, &ring->remote, g, start);
	cr_assert(!reader_ready(&ring->reader));
	cr_assert(!reader_end_marked(&ring->reader));
	cr_assert(!dfi__writer_ring_used(&ring->writer));
	cr_assert_eq(writer_closed(&ring->writer), RING_OPEN);
	cr_assert_eq(shared->reader_waits, 0);
	cr_assert_eq(header->writer_waits, 0);
	/* From which a transport may make the first segment's footer. */
	cr_assert_eq(fake_ring_footer(ring, g->segment_count - 1)->total, 0);
}

static void stream_over_footers(struct fake_ring *ring)
{
	static const uint64_t flags[] = { 0, FOOTER_FLAG_END, FOOTER_FLAG_ABORT,
		FOOTER_FLAG_HELD };
	size_t i;

	for (i = 0; i < N_ELEMENTS(flags); i++) {
		fill_with_footers(ring, flags[i]);
		start_over(ring);
	}
	stream(&ring->writer, &ring->reader);
}

Test(writer_reader, ring_begins_empty_whatever_was_in_its_memory)
{
	for_each_ring(stream_over_footers);
}

Test(writer_reader, stream_crosses_every_wrap_around_in_shared_memory)
{
	struct transport *transport;
	struct settings settings;
	struct ring_geometry g;
	struct writer writer;
	struct reader reader;
	struct region *region;
	struct ring_layout layout;
	struct remote *remote;
	struct loop *loop;
	size_t i;

	cr_assert_eq(dfi__settings_load(&settings), 0);
	cr_assert_eq(dfi__loop_start("test", &loop), 0);
	cr_assert_eq(dfi__shm_ops.start(loop, &settings, NULL, &transport), 0);
	for (i = 0; i < N_ELEMENTS(counts) * N_ELEMENTS(starts); i++) {
		g = ring_geometry(24, 127, counts[i / N_ELEMENTS(starts)]);
		cr_assert_eq(transport->ops->region.create(
				 transport, region_size(&g, 3), &region),
		    0);
		layout = ring_layout(&g, 3);
		cr_assert_eq(transport->ops->ring.open(transport, NULL,
				 &region->name, &layout, 2, NULL,
				 WAIT_LIMIT(deadline_in_ms(60000)), &remote),
		    0);
		dfi__region_init(region);
		dfi__reader_init(
		    &reader, region, &g, 3, 2, starts[i % N_ELEMENTS(starts)]);
		dfi__writer_init(
		    &writer, remote, &g, starts[i % N_ELEMENTS(starts)]);
		stream(&writer, &reader);
		transport->ops->ring.close(remote);
		transport->ops->region.destroy(region);
	}
	transport->ops->stop(transport);
	stop_loop(loop);
}

/* Read what is there: bytes of one stream, from *read on. */
static void read_stream(struct reader *reader, uint64_t *read)
{
	const char *payload;
	uint64_t bytes, at;

	while (reader_ready(reader)) {
		cr_assert_eq(reader_take(reader, &payload, &bytes), 0, "%s",
		    dfi_errmsg());
		for (at = 0; at < bytes; at++)
			cr_assert_eq(payload[at], byte_of(0, (*read)++));
		cr_assert_eq(reader_release(reader), 0);
	}
}

/* Tuple by tuple; each third is sent at once, with the ones before it. */
static void stream_in_parts(struct fake_ring *ring)
{
	struct writer *writer = &ring->writer;
	const struct ring_geometry *g = &ring->geometry;
	uint32_t n, i, tuples = 5 * g->segment_count * g->segment_tuples + 9;
	uint64_t written = 0, read = 0;
	char *next = NULL;

	for (n = 0; n < tuples; n++) {
		if (!writer->segment) {
			cr_assert_eq(writer_open(writer), 1);
			next = writer->segment;
		}
		for (i = 0; i < g->tuple_size; i++)
			*next++ = byte_of(0, written++);
		if (n % 3 == 0 && next != writer->end) {
			i = g->segment_count > 1;
			cr_assert_eq(dfi__writer_publish_part(writer,
					 (uint64_t)(next - writer->segment)),
			    (int)i);
			cr_assert_eq(next == writer->segment, i);
		} else if (next == writer->end) {
			cr_assert_eq(dfi__writer_publish(writer,
					 (uint64_t)(next - writer->segment)),
			    0);
		}
		read_stream(&ring->reader, &read);
		cr_assert(read == written || writer->segment);
	}
	cr_assert_eq(writer->total * g->tuple_size, read);
}

Test(writer_reader, parts_of_a_segment_are_segments)
{
	for_each_ring(stream_in_parts);
}

/* The slot behind a part is held for what is added. */
static void send_parts(struct fake_ring *ring)
{
	struct writer *writer = &ring->writer;
	uint32_t n, size = ring->geometry.tuple_size;

	cr_assert_eq(writer_open(writer), 1);
	for (n = 1; n < ring->geometry.segment_count; n++)
		cr_assert_eq(dfi__writer_publish_part(writer, size), 1);
	cr_assert_eq(dfi__writer_publish_part(writer, size), 0);
	cr_assert_eq(dfi__writer_publish(writer, size), 0);
	cr_assert_eq(writer_open(writer), 0);
}

Test(writer_reader, parts_leave_room_for_what_follows)
{
	struct fake_ring ring;
	size_t i;

	for (i = 0; i < N_ELEMENTS(counts); i++) {
		fake_ring_start(
		    &ring, 8, 400, counts[i], UINT32_MAX - 1, i % 2);
		send_parts(&ring);
		fake_ring_stop(&ring);
	}
}

static void start_verified(struct fake_ring *ring, uint32_t count,
    enum footer_side side, uint32_t parts, bool in_place)
{
	fake_ring_start_with(ring,
	    ring_geometry_with(24, 127, count, parts | SEGMENT_CHECKSUM, side),
	    0, in_place);
}

/* Send a segment, change one arrived bit, and read it. */
static int read_damaged(uint32_t byte, enum footer_side side, bool in_place)
{
	struct fake_ring ring;
	const char *payload;
	uint64_t bytes;
	char *sent;
	int ret;

	start_verified(&ring, 4, side, 0, in_place);
	cr_assert(write_segment(&ring.writer, 1));
	sent = fake_ring_sent(&ring, 0);
	sent[byte] = (char)(sent[byte] ^ 4);
	ret = reader_take(&ring.reader, &payload, &bytes);
	fake_ring_stop(&ring);
	return ret;
}

Test(writer_reader, damage_is_found_by_the_checksum)
{
	const uint32_t tuples = sizeof(struct segment_header);
	const uint32_t used = 120;
	uint32_t byte;
	int kind;

	for (kind = 0; kind < 4; kind++) {
		for (byte = 0; byte < tuples + used; byte++) {
			if (byte == sizeof(uint64_t))
				byte = tuples; /* only room */
			cr_assert_eq(read_damaged(byte, kind / 2, kind % 2),
			    -EBADMSG, "byte %u", byte);
			cr_assert_not_null(strstr(dfi_errmsg(), "segment 0"));
			cr_assert_not_null(strstr(dfi_errmsg(), "checksum"));
		}
		/* Behind the last tuple there are no sent bytes. */
		cr_assert_eq(
		    read_damaged(tuples + used, kind / 2, kind % 2), 0);
	}
}

/* A whole segment of an earlier lap, in the place of the next one. */
Test(writer_reader, checksum_distinguishes_segments)
{
	struct fake_ring ring;
	const char *payload;
	uint64_t bytes;
	int side;

	for (side = 0; side < 2; side++) {
		start_verified(&ring, 4, side, 0, true);
		cr_assert(write_segment(&ring.writer, 1));
		cr_assert(write_segment(&ring.writer, 2));
		memcpy(fake_ring_sent(&ring, 1), fake_ring_sent(&ring, 0),
		    ring.geometry.payload_offset + ring.geometry.segment_bytes);
		cr_assert_eq(reader_take(&ring.reader, &payload, &bytes), 0);
		cr_assert_eq(
		    reader_take(&ring.reader, &payload, &bytes), -EBADMSG);
		fake_ring_stop(&ring);
	}
}

static void fill(struct fake_ring *ring)
{
	uint32_t n = 0;

	while (write_segment(&ring->writer, n))
		n++;
	cr_assert_eq(n, ring->geometry.segment_count);
}

/* ---- Ends of windows, and readers that are held back
 * ----------------------------- */

static int end_window(struct fake_ring *ring, uint64_t windows, uint64_t used)
{
	const char *payload;
	uint64_t bytes = 1;
	int ret;

	cr_assert_eq(writer_open(&ring->writer), 1);
	memset(ring->writer.segment, 7, used);
	ring->writer.mark = windows;
	cr_assert_eq(dfi__writer_publish(&ring->writer, used), 0);
	ret = reader_take(&ring->reader, &payload, &bytes);
	cr_assert(ret < 0 || bytes == used);
	cr_assert_eq(reader_release(&ring->reader), 0);
	return ret;
}

Test(writer_reader, segments_end_windows_in_their_order)
{
	static const struct {
		uint64_t windows, used;
	} wrong[] = { { 0, 0 }, { 1, 24 }, { 2, 0 }, { 2, 24 } };
	struct fake_ring ring;
	uint32_t kind, i;

	for (kind = 0; kind < 8 * N_ELEMENTS(wrong); kind++) {
		fake_ring_start_with(&ring,
		    ring_geometry_with(24, 127, 2,
			SEGMENT_MARK | (kind & 2 ? SEGMENT_CHECKSUM : 0),
			kind & 4 ? FOOTER_IN_FRONT : FOOTER_BEHIND),
		    UINT64_MAX - 1, kind & 1);
		cr_assert_eq(end_window(&ring, 0, 48), 0);
		cr_assert(!ring.reader.has_mark);
		cr_assert_eq(end_window(&ring, 1, 24), 0, "%s", dfi_errmsg());
		cr_assert(ring.reader.has_mark);
		cr_assert_eq(end_window(&ring, 2, 0), 0, "%s", dfi_errmsg());
		cr_assert(ring.reader.has_mark);
		cr_assert_eq(end_window(&ring, 0, 120), 0);
		cr_assert(!ring.reader.has_mark);
		cr_assert_eq(ring.reader.marked, 2);
		i = kind / 8;
		cr_assert_eq(end_window(&ring, wrong[i].windows, wrong[i].used),
		    -EBADMSG, "window %lu", (unsigned long)wrong[i].windows);
		cr_assert_not_null(strstr(dfi_errmsg(), "segment 2"));
		cr_assert_not_null(strstr(dfi_errmsg(), "marks rise"));
		fake_ring_stop(&ring);
	}
}

/* Of another window's end, it is another segment. */
Test(writer_reader, the_checksum_covers_the_windows_end)
{
	struct fake_ring ring;
	const char *payload;
	uint64_t bytes;
	int side;

	for (side = 0; side < 2; side++) {
		start_verified(&ring, 2, side, SEGMENT_MARK, true);
		cr_assert(write_segment(&ring.writer, 1));
		((struct segment_header *)(void *)fake_ring_sent(&ring, 0))
		    ->mark = 1;
		cr_assert_eq(
		    reader_take(&ring.reader, &payload, &bytes), -EBADMSG);
		cr_assert_not_null(strstr(dfi_errmsg(), "checksum"));
		fake_ring_stop(&ring);
	}
}

/* From the n-th segment on, if it gets so far. */
static void hold_at(struct fake_ring *ring, uint32_t n)
{
	struct reader *reader = &ring->reader;
	uint32_t read, written = 0;

	for (read = 0; read < n; read++) {
		cr_assert(write_segment(&ring->writer, written++));
		cr_assert(read_segment(reader, read));
	}
	dfi__reader_pause(reader);
	while (write_segment(&ring->writer, written))
		written++;
	/* The tuples read but not yet reported are not lost to it. */
	cr_assert_gt(written - read,
	    ring->geometry.segment_count - credit_batch(&ring->geometry));
	cr_assert_eq(dfi__writer_end(&ring->writer, FOOTER_FLAG_END), 0);
	cr_assert(!reader_ready(reader));
	cr_assert(!reader_end_marked(reader));
	cr_assert_eq(dfi__reader_check_end(reader), 0);
	cr_assert_eq(reader->end, READER_OPEN);
	cr_assert_eq(dfi__reader_arrived(reader), ring->writer.seq);
	dfi__reader_resume(reader);
	for (; read < written; read++)
		cr_assert(read_segment(reader, read));
	cr_assert_eq(dfi__reader_check_end(reader), 0, "%s", dfi_errmsg());
	cr_assert_eq(reader->end, READER_ENDED);
}

static void hold_soon(struct fake_ring *ring)
{
	hold_at(ring, 1);
}

static void hold_late(struct fake_ring *ring)
{
	hold_at(ring, 2 * ring->geometry.segment_count + 1);
}

Test(writer_reader, reader_that_is_held_sees_nothing)
{
	for_each_ring(hold_soon);
	for_each_ring(hold_late);
}

static void fill_and_look(struct fake_ring *ring)
{
	const char *payload;
	uint64_t bytes;
	uint32_t n;

	fill(ring);
	cr_assert_eq(writer_credit(&ring->writer), 0);
	/* A lent segment is unchanged, however often one tries. */
	cr_assert_eq(reader_take(&ring->reader, &payload, &bytes), 0);
	cr_assert(!write_segment(&ring->writer, 99));
	check_segment(&ring->geometry, 0, payload, bytes);
	cr_assert_eq(reader_release(&ring->reader), 0);
	for (n = 1; !writer_credit(&ring->writer); n++) {
		cr_assert_lt(n, credit_batch(&ring->geometry));
		cr_assert(read_segment(&ring->reader, n));
	}
	cr_assert(write_segment(&ring->writer, 99));
}

Test(writer_reader, writer_without_credit_opens_nothing)
{
	for_each_ring(fill_and_look);
}

static void watch_credits(struct fake_ring *ring)
{
	_Atomic uint64_t *consumed =
	    &((struct ring_header *)(void *)ring->remote.ring)->credit.consumed;
	uint32_t n, batch = credit_batch(&ring->geometry);
	uint32_t total = 4 * ring->geometry.segment_count + 3;

	for (n = 0; n < total; n++) {
		cr_assert(write_segment(&ring->writer, n));
		cr_assert(read_segment(&ring->reader, n));
		/* Late by less than a batch, and never ahead. */
		cr_assert_lt(ring->reader.seq - atomic_peek(consumed), batch);
	}
	cr_assert_eq(ring->n_credits, total / batch);
}

Test(writer_reader, credits_come_in_batches_of_a_quarter_ring)
{
	for_each_ring(watch_credits);
}

static void see_nothing(struct fake_ring *ring)
{
	cr_assert(!reader_ready(&ring->reader));
}

static void write_in_steps(struct fake_ring *ring)
{
	uint32_t n;

	ring->step = see_nothing;
	for (n = 0; n < 2 * ring->geometry.segment_count; n++) {
		cr_assert(write_segment(&ring->writer, n));
		cr_assert(read_segment(&ring->reader, n));
	}
}

Test(writer_reader, segment_is_not_there_before_its_last_word)
{
	for_each_ring(write_in_steps);
}

Test(writer_reader, partial_segments_are_counted)
{
	struct fake_ring ring;

	fake_ring_start(&ring, 8, 32, 4, 0, true);
	cr_assert_eq(writer_open(&ring.writer), 1);
	cr_assert_eq(dfi__writer_publish(&ring.writer, 24), 0);
	cr_assert_eq(writer_open(&ring.writer), 1);
	cr_assert_eq(dfi__writer_publish(&ring.writer, 32), 0);
	cr_assert_eq(ring.writer.segments, 2);
	cr_assert_eq(ring.writer.partial_segments, 1);
	cr_assert_eq(ring.writer.total, 7);
	fake_ring_stop(&ring);
}

/* A footer with these words, for the segment that the reader waits for. */
static void forge(
    struct fake_ring *ring, uint64_t used, uint64_t flags, uint64_t total)
{
	struct segment_footer *footer = fake_ring_footer(
	    ring, ring->reader.slot);

	atomic_set(&footer->total, total);
	atomic_publish(
	    &footer->state, footer_state(ring->reader.seq, used, flags));
}

static void refuse_on(
    enum footer_side side, uint64_t used, uint64_t flags, uint64_t total)
{
	const char *payload = NULL;
	struct fake_ring ring;
	uint64_t bytes = 0;
	size_t i;

	for (i = 0; i < N_ELEMENTS(starts); i++) {
		/* 5 tuples of 24 bytes, and 7 bytes to spare */
		fake_ring_start_with(&ring,
		    ring_geometry_with(24, 127, 3, 0, side), starts[i], true);
		cr_assert(write_segment(&ring.writer, 1));
		cr_assert(read_segment(&ring.reader, 1));
		forge(&ring, used, flags, total);
		cr_assert(reader_ready(&ring.reader));
		cr_assert_eq(
		    reader_take(&ring.reader, &payload, &bytes), -EBADMSG);
		cr_assert_null(payload);
		cr_assert_eq(bytes, 0);
		/* Nothing was taken. */
		cr_assert_eq(ring.reader.total, 5);
		cr_assert_eq(ring.reader.seq, starts[i] + 1);
		fake_ring_stop(&ring);
	}
}

static void refuse(uint64_t used, uint64_t flags, uint64_t total)
{
	refuse_on(FOOTER_BEHIND, used, flags, total);
	refuse_on(FOOTER_IN_FRONT, used, flags, total);
}

Test(writer_reader, footer_without_payload_is_refused)
{
	refuse(0, 0, 5);
}

Test(writer_reader, footer_with_a_broken_tuple_is_refused)
{
	refuse(23, 0, 5);
	refuse(25, 0, 6);
	refuse(119, 0, 9);
}

Test(writer_reader, footer_with_more_than_a_segment_is_refused)
{
	refuse(121, 0, 10);
	refuse(127, 0, 10);
	refuse(144, 0, 11);
	refuse(FOOTER_USED_MAX, 0, 5 + FOOTER_USED_MAX / 24);
	refuse(FOOTER_USED_MAX / 24 * 24, 0, 5 + FOOTER_USED_MAX / 24);
}

Test(writer_reader, footer_with_flags_is_refused)
{
	refuse(24, FOOTER_FLAG_END, 6);
	refuse(24, FOOTER_FLAG_ABORT, 6);
	refuse(24, FOOTER_FLAG_HELD, 6);
	refuse(48, FOOTER_FLAG_SHIFTED, 6);
	/* A payload is never shifted behind its footer. */
	refuse_on(FOOTER_IN_FRONT, 48, FOOTER_FLAG_SHIFTED, 7);
	refuse_on(FOOTER_IN_FRONT, 120, FOOTER_FLAG_SHIFTED, 10);
}

Test(writer_reader, footer_with_another_count_is_refused)
{
	refuse(48, 0, 6);
	refuse(48, 0, 8);
	refuse(48, 0, 0);
	refuse(48, 0, UINT64_MAX);
}

/* The end mark of a ring that has seen one segment of 5 tuples. */
static int end_with(
    struct fake_ring *ring, uint64_t start, uint64_t state, uint64_t total)
{
	struct ring_header *header;

	fake_ring_start(ring, 24, 127, 3, start, true);
	cr_assert(write_segment(&ring->writer, 1));
	cr_assert(read_segment(&ring->reader, 1));
	header = fake_ring_header(ring);
	atomic_set(&header->end.total, total);
	atomic_publish(&header->end.state, state);
	return dfi__reader_check_end(&ring->reader);
}

Test(writer_reader, end_mark_with_the_right_count_ends_the_ring)
{
	struct fake_ring ring;
	size_t i;

	for (i = 0; i < N_ELEMENTS(starts); i++) {
		cr_assert_eq(
		    end_with(&ring, starts[i],
			footer_state(starts[i] + 1, 0, FOOTER_FLAG_END), 5),
		    0);
		cr_assert_eq(ring.reader.end, READER_ENDED);
		fake_ring_stop(&ring);
	}
}

Test(writer_reader, end_mark_with_a_wrong_count_is_refused)
{
	static const struct {
		uint64_t seq, flags, total;
	} marks[] = {
		{ 1, FOOTER_FLAG_END, 4 }, { 1, FOOTER_FLAG_END, 6 },
		{ 1, FOOTER_FLAG_END, 0 }, { 0, FOOTER_FLAG_END, 5 },
		{ 2, FOOTER_FLAG_END, 5 },
		{ 1, UINT64_C(1) << 63, 5 }, /* not a flag of end marks */
	};
	struct fake_ring ring;
	size_t i, j;

	for (i = 0; i < N_ELEMENTS(starts); i++)
		for (j = 0; j < N_ELEMENTS(marks); j++) {
			cr_assert_eq(end_with(&ring, starts[i],
					 footer_state(starts[i] + marks[j].seq,
					     0, marks[j].flags),
					 marks[j].total),
			    -EBADMSG);
			cr_assert_eq(ring.reader.end, READER_OPEN);
			fake_ring_stop(&ring);
		}
}

static void end_early(struct fake_ring *ring)
{
	uint32_t n = 0;

	/* A full ring: the end mark needs no room. */
	fill(ring);
	cr_assert_eq(dfi__writer_end(&ring->writer, FOOTER_FLAG_END), 0);
	while (n < ring->geometry.segment_count) {
		cr_assert_eq(dfi__reader_check_end(&ring->reader), 0);
		cr_assert_eq(ring->reader.end, READER_OPEN);
		cr_assert(read_segment(&ring->reader, n++));
	}
	cr_assert_eq(dfi__reader_check_end(&ring->reader), 0);
	cr_assert_eq(ring->reader.end, READER_ENDED);
}

Test(writer_reader, end_needs_no_room_and_comes_after_the_last_segment)
{
	for_each_ring(end_early);
}

static void abort_early(struct fake_ring *ring)
{
	fill(ring);
	cr_assert_eq(dfi__writer_end(&ring->writer, FOOTER_FLAG_ABORT), 0);
	cr_assert_eq(dfi__reader_check_end(&ring->reader), 0);
	cr_assert_eq(ring->reader.end, READER_OPEN);
	for (uint32_t n = 0; n < ring->geometry.segment_count; n++)
		cr_assert(read_segment(&ring->reader, n));
	cr_assert_eq(dfi__reader_check_end(&ring->reader), 0);
	cr_assert_eq(ring->reader.end, READER_ABORTED);
}

Test(writer_reader, abort_comes_after_what_was_sent)
{
	for_each_ring(abort_early);
}

/* A second source of the same number must not write over the first one's. */
static void use_and_look(struct fake_ring *ring)
{
	struct writer second;

	dfi__writer_init(
	    &second, &ring->remote, &ring->geometry, ring->reader.seq);
	cr_assert(!dfi__writer_ring_used(&second));
	if (!ring->remote.in_place)
		return; /* the look goes to memory that both share */
	for (uint32_t n = 0; n < 2 * ring->geometry.segment_count; n++) {
		cr_assert(write_segment(&ring->writer, n));
		cr_assert(dfi__writer_ring_used(&second));
		cr_assert(read_segment(&ring->reader, n));
		cr_assert(dfi__writer_ring_used(&second));
	}
}

Test(writer_reader, used_ring_is_known_to_be_used)
{
	struct fake_ring ring;
	struct writer second;

	for_each_ring(use_and_look);
	/* Even if its source ended without a tuple. */
	fake_ring_start(&ring, 8, 8, 2, 0, true);
	dfi__writer_init(&second, &ring.remote, &ring.geometry, 0);
	cr_assert_eq(dfi__writer_end(&ring.writer, FOOTER_FLAG_END), 0);
	cr_assert(dfi__writer_ring_used(&second));
	fake_ring_stop(&ring);
}

/* A forged word of a target. */
Test(writer_reader, impossible_credit_is_refused)
{
	static const int64_t wrong[] = { -3, -2, 5, 6, INT64_MAX };
	struct fake_ring ring;
	size_t i, j;

	for (i = 0; i < N_ELEMENTS(starts); i++)
		for (j = 0; j < N_ELEMENTS(wrong); j++) {
			fake_ring_start(&ring, 8, 8, 4, starts[i], true);
			fill(&ring);
			atomic_set(&fake_ring_header(&ring)->credit.consumed,
			    starts[i] + (uint64_t)wrong[j]);
			cr_assert_eq(writer_credit(&ring.writer), -EBADMSG);
			cr_assert_eq(writer_open(&ring.writer), -EBADMSG);
			cr_assert_null(ring.writer.segment);
			fake_ring_stop(&ring);
		}
}

Test(writer_reader, writer_sees_that_its_reader_has_left)
{
	struct fake_ring ring;

	fake_ring_start(&ring, 8, 8, 4, 0, true);
	cr_assert_eq(writer_closed(&ring.writer), RING_OPEN);
	dfi__reader_close(&ring.reader, RING_CANCELLED);
	cr_assert_eq(writer_closed(&ring.writer), RING_CANCELLED);
	dfi__reader_close(&ring.reader, RING_CLOSED);
	cr_assert_eq(writer_closed(&ring.writer), RING_CLOSED);
	fake_ring_stop(&ring);
}

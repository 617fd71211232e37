/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One segment for several rings, on one thread: all get it or none, rings that
 * are read at different speeds, over the wrap-around of all counters.
 */
#include <criterion/criterion.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "counted.h"
#include "fake_transport.h"

enum {
	N_RINGS = 3,
	N_SEGMENTS = 50,
};

static uint32_t parts; /* of the segments' headers */
static bool buffered;  /* the data sent over the network */
static bool at_footer; /* and where its payloads arrive */
static enum footer_side side;
static bool late; /* positions in an order come after they were asked
		   * for */

/* One of the rings stands for one over a network: its credit comes late. */
#define FAR 1

struct fixture {
	struct fake_ring rings[N_RINGS];
	struct writer writers[N_RINGS];
	struct replica_writer replica_writer;
	uint64_t taken[N_RINGS]; /* tuples */
	uint64_t places;         /* drawn */
	unsigned looks;          /* for the next one */
};

/*
 * Each position takes another time: at once, or more than
 * dfi__replica_publish() looks.
 */
static int draw_late(void *arg, uint64_t *place)
{
	struct fixture *f = arg;

	if (f->looks++ < f->places % 3 * 400)
		return 0;
	f->looks = 0;
	*place = f->places++;
	return 1;
}

/* Give waiting segments their positions. */
static void settle(struct replica_writer *replica_writer)
{
	int ret;

	while ((ret = dfi__replica_go_on(replica_writer)) == 0)
		;
	cr_assert_eq(ret, 1, "%s", dfi_errmsg());
}

/* Readers are aligned. */
static struct fixture *new_fixture(void)
{
	struct fixture *f = aligned_alloc(
	    alignof(struct fixture), sizeof(struct fixture));

	cr_assert_not_null(f);
	memset(f, 0, sizeof(*f));
	return f;
}

static void start(struct fixture *f, uint32_t count, uint64_t first)
{
	uint32_t i;

	memset(f->taken, 0, sizeof(f->taken));
	for (i = 0; i < N_RINGS; i++) {
		fake_ring_start_with(&f->rings[i],
		    ring_geometry_with(
			TUPLE, SEGMENT_TUPLES * TUPLE, count, parts, side),
		    first, i != FAR);
		f->rings[i].reader.own_bit = UINT64_C(1) << i;
		f->writers[i] = f->rings[i].writer;
	}
	cr_assert_eq(dfi__replica_init(&f->replica_writer, f->writers, N_RINGS,
			 NULL, &f->rings[0].geometry, first),
	    0);
	f->places = f->looks = 0;
	f->replica_writer.draw = late ? draw_late : NULL;
	f->replica_writer.draw_arg = f;
	f->rings[FAR].late = true;
	f->rings[FAR].at_footer = at_footer;
	if (buffered) {
		dfi__replica_use_send_buffer(&f->replica_writer,
		    fake_send_buffer(
			dfi__replica_send_buffer_size(&f->rings[0].geometry)));
		fake_ring_use_send_buffer(
		    &f->rings[FAR], f->replica_writer.send_buffer);
	}
}

/* The bytes of this many tuples that were copied from segment to ring. */
static uint64_t copies(uint32_t ring, uint64_t tuples)
{
	return buffered && ring == FAR ? 0 : tuples * TUPLE;
}

static void stop(struct fixture *f)
{
	uint32_t i;

	dfi__replica_free(&f->replica_writer);
	for (i = 0; i < N_RINGS; i++)
		fake_ring_stop(&f->rings[i]);
}

/* Take and give back one segment of a ring, if there is one. */
static bool take(struct fixture *f, uint32_t ring)
{
	struct reader *reader = &f->rings[ring].reader;

	if (!reader_ready(reader))
		fake_ring_arrive(&f->rings[ring]);
	if (!reader_ready(reader))
		return false;
	counted_take(reader, ring, &f->taken[ring]);
	return true;
}

static void for_each_ring(void (*fn)(struct fixture *f))
{
	struct fixture *f = new_fixture();
	uint32_t count;
	size_t i;

	cr_assert_not_null(f);
	/* With one for each tuple of a segment as well: see stream_parts(). */
	for (count = 1; count <= SEGMENT_TUPLES; count++)
		for (i = 0; i < 5 * sizeof(starts) / sizeof(starts[0]); i++) {
			side = i % 5 > 2 ? FOOTER_IN_FRONT : FOOTER_BEHIND;
			buffered = i % 5 % 3 > 0;
			at_footer = i % 5 == 2;
			start(f, count, starts[i / 5]);
			fn(f);
			stop(f);
		}
	side = FOOTER_BEHIND;
	free(f);
}

/* Ring i is read each i + 1 steps only; the slowest decides. */
static void stream(struct fixture *f)
{
	uint64_t n = 0, sent = 0, step;
	uint32_t i;

	for (step = 0; n < N_SEGMENTS; step++) {
		n += (uint64_t)counted_send(&f->replica_writer, n, &sent);
		for (i = 0; i < N_RINGS; i++)
			if (step % (i + 1) == 0)
				take(f, i);
	}
	settle(&f->replica_writer);
	for (i = 0; i < N_RINGS; i++) {
		cr_assert_eq(
		    dfi__writer_end(&f->writers[i], FOOTER_FLAG_END), 0);
		while (take(f, i))
			;
		cr_assert_eq(f->taken[i], sent);
		cr_assert_eq(dfi__reader_check_end(&f->rings[i].reader), 0,
		    "%s", dfi_errmsg());
		cr_assert_eq(f->rings[i].reader.end, READER_ENDED);
		cr_assert_eq(f->writers[i].moved, copies(i, sent));
	}
	cr_assert_eq(f->replica_writer.lane.total, sent);
	cr_assert_eq(f->replica_writer.lane.segments, N_SEGMENTS);
}

Test(replica_writer, each_ring_gets_each_tuple_once_and_in_order)
{
	for_each_ring(stream);
	late = true;
	for_each_ring(stream);
}

static void fill(struct fixture *f)
{
	uint32_t count = f->rings[0].geometry.segment_count, i, ring;
	uint64_t n, sent = 0;

	for (n = 0; counted_send(&f->replica_writer, n, &sent); n++)
		;
	cr_assert_eq(n, count);
	/* All but one have room again. */
	for (ring = 0; ring < N_RINGS; ring++) {
		cr_assert_eq(dfi__replica_open(&f->replica_writer), 0);
		cr_assert_eq(f->replica_writer.short_of, ring);
		for (i = 0; i < count; i++)
			cr_assert(take(f, ring));
	}
	cr_assert_eq(counted_send(&f->replica_writer, n, &sent), 1);
}

Test(replica_writer, has_no_room_while_one_ring_has_none)
{
	for_each_ring(fill);
}

static void leave_out(struct fixture *f)
{
	uint64_t n, sent = 0;
	uint32_t i;

	for (n = 0; counted_send(&f->replica_writer, n, &sent); n++)
		;
	dfi__reader_close(&f->rings[2].reader, RING_CANCELLED);
	dfi__reader_close(&f->rings[1].reader, RING_CANCELLED);
	for (; n < N_SEGMENTS; n++) {
		while (take(f, 0))
			;
		cr_assert_eq(counted_send(&f->replica_writer, n, &sent), 1);
	}
	while (take(f, 0))
		;
	cr_assert_eq(f->taken[0], sent);
	cr_assert(f->writers[1].cancelled && f->writers[2].cancelled);
	dfi__reader_close(&f->rings[0].reader, RING_CANCELLED);
	for (i = 0; counted_send(&f->replica_writer, n, &sent); i++)
		cr_assert_lt(i, 5, "somebody still takes segments");
	cr_assert(f->writers[0].cancelled);
}

Test(replica_writer, leaves_out_who_has_cancelled)
{
	for_each_ring(leave_out);
}

/* A ring without room for one more gets nothing, and neither do the others. */
static void send_parts(struct fixture *f)
{
	uint32_t count = f->rings[0].geometry.segment_count, n_parts = 0, ring;
	uint64_t tuple, sent = 0;
	int ret = 1;

	cr_assert_eq(dfi__replica_open(&f->replica_writer), 1);
	while (ret && n_parts < SEGMENT_TUPLES - 1) {
		tuple = sent;
		memcpy(f->replica_writer.lane.segment, &tuple, TUPLE);
		ret = dfi__replica_publish_part(&f->replica_writer, TUPLE);
		cr_assert_geq(ret, 0, "%s", dfi_errmsg());
		sent += (uint64_t)ret;
		n_parts += (uint32_t)ret;
	}
	cr_assert_eq(
	    n_parts, count < SEGMENT_TUPLES ? count - 1 : SEGMENT_TUPLES - 1);
	/* The rest of the segment is sent as a whole. */
	memcpy(f->replica_writer.lane.segment, &sent, TUPLE);
	cr_assert_eq(dfi__replica_publish(&f->replica_writer, TUPLE), 0);
	sent++;
	for (ring = 0; ring < N_RINGS; ring++) {
		while (take(f, ring))
			;
		cr_assert_eq(f->taken[ring], sent);
	}
}

Test(replica_writer, sends_parts_to_all_or_to_none)
{
	for_each_ring(send_parts);
}

/* Send the open segment, by a tuple or as a whole: 1, or 0 without room. */
static int send_some(
    struct replica_writer *replica_writer, bool whole, uint64_t *sent)
{
	struct writer *lane = &replica_writer->lane;
	char *at = lane->segment;
	int ret;

	do {
		memcpy(at, sent, TUPLE);
		++*sent;
		at += TUPLE;
	} while (whole && at < lane->end);
	if (at == lane->end)
		return !dfi__replica_publish(
		    replica_writer, (uint64_t)(at - lane->segment));
	ret = dfi__replica_publish_part(replica_writer, TUPLE);
	*sent -= !ret;
	return ret;
}

/*
 * Every other segment is sent in parts, which lie in its slot until they are
 * sent. With as many slots, the next one also lies there before the last of
 * them has arrived.
 */
static void stream_parts(struct fixture *f)
{
	struct writer *lane = &f->replica_writer.lane;
	uint64_t sent = 0, moved = 0, n;
	bool whole = true;
	uint32_t i;
	int ret;

	if (lane->geometry.segment_count == 1)
		return; /* no part leaves room for the rest */
	while (sent < N_SEGMENTS * SEGMENT_TUPLES || lane->segment) {
		ret = 1;
		if (!lane->segment) {
			ret = dfi__replica_open(&f->replica_writer);
			whole ^= ret > 0;
		}
		n = sent;
		if (ret > 0)
			ret = send_some(&f->replica_writer, whole, &sent);
		cr_assert_geq(ret, 0, "%s", dfi_errmsg());
		if (!whole && n % SEGMENT_TUPLES)
			moved += (sent - n) * TUPLE;
		for (i = 0; !ret && i < N_RINGS; i++)
			take(f, i);
	}
	settle(&f->replica_writer);
	for (i = 0; i < N_RINGS; i++) {
		while (take(f, i))
			;
		cr_assert_eq(f->taken[i], sent, "ring %u", i);
		cr_assert_eq(f->writers[i].moved, copies(i, sent));
	}
	/* The first part of a segment is at its place. */
	cr_assert_eq(lane->moved, buffered ? moved : 0);
}

Test(replica_writer, segments_that_begin_behind_parts_outlive_their_slots)
{
	for_each_ring(stream_parts);
	late = true;
	for_each_ring(stream_parts);
}

static int fail_write(
    struct remote *remote, const struct transport_write *write)
{
	(void)remote;
	(void)write;
	return -ECONNRESET;
}

/* A tuple lies in the open segment; one ring can be written no more. */
static struct transport_ops start_to_fail(struct fixture *f)
{
	struct transport_ops ops;
	uint64_t tuple = 0;

	start(f, 4, 0);
	ops = *f->rings[1].transport.ops;
	ops.ring.write = fail_write;
	cr_assert_eq(dfi__replica_open(&f->replica_writer), 1);
	memcpy(f->replica_writer.lane.segment, &tuple, TUPLE);
	return ops;
}

Test(replica_writer, names_the_ring_that_failed)
{
	struct fixture *f = new_fixture();
	struct transport_ops ops;

	cr_assert_not_null(f);
	ops = start_to_fail(f);
	f->rings[1].transport.ops = &ops;
	cr_assert_eq(
	    dfi__replica_publish(&f->replica_writer, TUPLE), -ECONNRESET);
	cr_assert_eq(f->replica_writer.short_of, 1);
	/* The others have it. */
	cr_assert(take(f, 0) && take(f, 2));
	stop(f);
	free(f);
}

/* The sender of parts does not fill the segment, and learns of it later. */
Test(replica_writer, what_comes_behind_a_part_is_not_lost_if_a_ring_failed)
{
	struct fixture *f = new_fixture();
	struct transport_ops ops;
	char *segment;

	cr_assert_not_null(f);
	ops = start_to_fail(f);
	f->rings[1].transport.ops = &ops;
	segment = f->replica_writer.lane.segment;
	cr_assert_eq(
	    dfi__replica_publish_part(&f->replica_writer, TUPLE), -ECONNRESET);
	cr_assert_eq(f->replica_writer.short_of, 1);
	cr_assert_eq(f->replica_writer.lane.segment, segment + TUPLE);
	cr_assert(take(f, 0) && take(f, 2));
	stop(f);
	free(f);
}

/*
 * A target that cancels while a position is on its way may be gone when it
 * comes.
 */
Test(replica_writer, who_has_cancelled_may_fail)
{
	struct fixture *f = new_fixture();
	struct transport_ops ops;

	cr_assert_not_null(f);
	late = true;
	ops = start_to_fail(f);
	f->places = 1; /* the next one is late */
	cr_assert_eq(dfi__replica_publish(&f->replica_writer, TUPLE), 0);
	cr_assert(replica_waits(&f->replica_writer));
	dfi__reader_close(&f->rings[1].reader, RING_CANCELLED);
	f->rings[1].transport.ops = &ops;
	settle(&f->replica_writer);
	cr_assert(f->writers[1].cancelled);
	cr_assert(take(f, 0) && take(f, 2));
	stop(f);
	free(f);
}

/* The set of segment n of a stream: each set in turn. */
static uint64_t set_of(uint64_t n)
{
	return 1 + n % ((1 << N_RINGS) - 1);
}

/* Take segment n of a ring: for others it has no tuples. */
static void take_from_set(
    struct fixture *f, uint32_t ring, uint64_t n, uint64_t first_tuple)
{
	struct reader *reader = &f->rings[ring].reader;
	bool member = set_of(n) >> ring & 1;
	const char *payload;
	uint64_t bytes, at, tuple;

	fake_ring_arrive(&f->rings[ring]);
	cr_assert(reader_ready(reader));
	cr_assert_eq(
	    reader_take(reader, &payload, &bytes), 0, "%s", dfi_errmsg());
	cr_assert_eq(bytes, member ? (uint64_t)counted_tuples(n) * TUPLE : 0);
	for (at = 0; at < bytes; at += TUPLE) {
		memcpy(&tuple, payload + at, TUPLE);
		cr_assert_eq(tuple, first_tuple++, "ring %u", ring);
	}
	f->taken[ring] += bytes / TUPLE;
	cr_assert_eq(reader_release(reader), 0);
}

static void send_to_sets(struct fixture *f)
{
	uint64_t n, first, sent = 0;
	uint32_t i;

	for (n = 0; n < N_SEGMENTS; n++) {
		first = sent;
		f->replica_writer.targets = set_of(n);
		cr_assert_eq(counted_send(&f->replica_writer, n, &sent), 1);
		/* The choice is for later tuples. */
		f->replica_writer.targets = set_of(n + 1);
		settle(&f->replica_writer);
		for (i = 0; i < N_RINGS; i++)
			take_from_set(f, i, n, first);
	}
	for (i = 0; i < N_RINGS; i++) {
		cr_assert_eq(
		    dfi__writer_end(&f->writers[i], FOOTER_FLAG_END), 0);
		while (fake_ring_arrive(&f->rings[i]))
			;
		cr_assert_eq(dfi__reader_check_end(&f->rings[i].reader), 0,
		    "%s", dfi_errmsg());
		cr_assert_eq(f->rings[i].reader.end, READER_ENDED);
		cr_assert_eq(f->rings[i].reader.total, f->taken[i]);
		cr_assert_eq(f->writers[i].moved, copies(i, f->taken[i]));
		cr_assert_eq(f->writers[i].seq, f->writers[0].seq);
	}
	cr_assert_eq(f->replica_writer.lane.total, sent);
}

Test(replica_writer, gives_a_segment_without_tuples_to_who_it_is_not_for)
{
	parts = SEGMENT_TARGETS;
	for_each_ring(send_to_sets);
	parts = SEGMENT_TARGETS | SEGMENT_CHECKSUM;
	for_each_ring(send_to_sets);
	late = true;
	for_each_ring(send_to_sets);
}

static void cancel_members(struct fixture *f)
{
	uint64_t sent = 0;

	dfi__reader_close(&f->rings[0].reader, RING_CANCELLED);
	dfi__reader_close(&f->rings[2].reader, RING_CANCELLED);
	f->writers[0].cancelled = f->writers[2].cancelled = true;
	f->replica_writer.targets = 5;
	cr_assert_eq(dfi__replica_open(&f->replica_writer), 0);
	f->replica_writer.targets = 6;
	cr_assert_eq(counted_send(&f->replica_writer, 1, &sent), 1);
	cr_assert(take(f, 1));
}

Test(replica_writer, opens_no_segment_for_a_set_that_has_cancelled)
{
	parts = SEGMENT_TARGETS;
	for_each_ring(cancel_members);
}

/* So that no target takes another's tuples, or skips its own. */
static void change_set(struct fixture *f)
{
	struct fake_ring *ring = &f->rings[0];
	uint64_t bytes, sent = 0;
	struct segment_header *header =
	    (struct segment_header *)(void *)fake_ring_sent(ring, 0);
	const char *payload;

	f->replica_writer.targets = 3;
	cr_assert_eq(counted_send(&f->replica_writer, 1, &sent), 1);
	cr_assert_eq(header->targets, 3);
	header->targets = 2;
	cr_assert_eq(reader_take(&ring->reader, &payload, &bytes), -EBADMSG);
	cr_assert(strstr(dfi_errmsg(), "checksum"), "%s", dfi_errmsg());
}

Test(replica_writer, finds_a_set_that_was_changed_if_segments_have_checksums)
{
	parts = SEGMENT_TARGETS | SEGMENT_CHECKSUM;
	for_each_ring(change_set);
}

/* A target of a segment must get some tuples. */
static void empty_for_member(struct fixture *f)
{
	struct fake_ring *ring = &f->rings[0];
	uint64_t bytes, sent = 0;
	const char *payload;

	f->replica_writer.targets = 2;
	cr_assert_eq(counted_send(&f->replica_writer, 1, &sent), 1);
	((struct segment_header *)(void *)fake_ring_sent(ring, 0))->targets = 1;
	cr_assert_eq(reader_take(&ring->reader, &payload, &bytes), -EBADMSG);
	cr_assert(strstr(dfi_errmsg(), "no tuples"), "%s", dfi_errmsg());
}

Test(replica_writer, refuses_a_segment_without_tuples_of_its_own_target)
{
	parts = SEGMENT_TARGETS;
	for_each_ring(empty_for_member);
}

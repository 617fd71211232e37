/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer that moves between its ring and shared rings, and a reader that
 * follows it: over the wrap-around of all counters, and with moves that make no
 * sense.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include <dfi/error.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/settings.h"
#include "buffers/reader.h"
#include "buffers/shared_ring.h"
#include "buffers/writer.h"
#include "transport/shm/shm.h"
#include "tests/unit/stop_loop.h"

enum {
	TUPLE = 8,
	TUPLES = 4, /* of a segment */
	OWN = 3,    /* segments of the ring */
	SHARED = 7, /* segments of a shared ring */
};

static struct settings settings = {
	.huge_pages = HUGE_PAGES_NEVER,
	.open_timeout_ms = 60000,
};
static struct loop *loops[2];
static struct transport *shm[2];

static struct ring_geometry own, there;
static struct region *region;
static struct reader reader;
static struct writer writer;
static struct shared_ring shared;
static struct writer shared_writer;
static uint64_t sent, taken; /* tuples */

static struct wait_limit soon(void)
{
	return (struct wait_limit){ .deadline = deadline_in_ms(60000) };
}

static void start(uint64_t first, enum footer_side side)
{
	struct ring_layout layout;
	struct wait_limit limit = soon();
	struct remote *remote;

	own = ring_geometry_with(TUPLE, TUPLE * TUPLES, OWN, 0, side);
	there = ring_geometry_moved(own, SHARED);
	layout = ring_layout(&own, 1);
	cr_assert_eq(
	    dfi__shm_ops.region.create(shm[1], region_size(&own, 1), &region),
	    0);
	region->granted_size = region_size(&there, 1);
	dfi__region_init(region);
	dfi__reader_init(&reader, region, &own, 1, 0, first);
	reader.shared_segments = SHARED;
	cr_assert_eq(dfi__shm_ops.ring.open(shm[0], NULL, &region->name,
			 &layout, 0, NULL, &limit, &remote),
	    0, "%s", dfi_errmsg());
	dfi__writer_init(&writer, remote, &own, first);
	writer.elsewhere = SHARED;
	sent = taken = 0;
}

static void stop(void)
{
	dfi__shm_ops.ring.close(writer.remote);
	dfi__shm_ops.region.destroy(region);
}

static void setup(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		cr_assert_eq(dfi__loop_start("test", &loops[i]), 0);
		cr_assert_eq(
		    dfi__shm_ops.start(loops[i], &settings, NULL, &shm[i]), 0);
	}
}

static void teardown(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		dfi__shm_ops.stop(shm[i]);
		stop_loop(loops[i]);
	}
}

TestSuite(reader_move, .init = setup, .fini = teardown, .timeout = 300);

static void make_shared(void)
{
	struct wait_limit limit = soon();

	cr_assert_eq(dfi__shared_ring_init(&shared, shm[0], &there,
			 &shared_writer, NULL, 0, SHARED_RING_MOVED),
	    0);
	cr_assert_eq(
	    dfi__shm_ops.region.grant(shared.region, &region->name, 0, &limit),
	    0, "%s", dfi_errmsg());
}

/* Whether the reader has room for n more of at most so many segments. */
static bool has_room(uint64_t n, uint64_t most)
{
	uint64_t consumed = atomic_observe(
	    &writer_header(&writer)->credit.consumed);

	return writer.seq + n - consumed <= most;
}

static void fill(struct writer *to, uint64_t n)
{
	uint64_t i;

	to->segment = writer_payload(to);
	for (i = 0; i < n; i++, sent++)
		memcpy(to->segment + i * TUPLE, &sent, TUPLE);
	cr_assert_eq(dfi__writer_publish(to, n * TUPLE), 0);
}

static void send_own(uint64_t n)
{
	fill(&writer, n);
}

static void send_shared(uint64_t n)
{
	fill(&shared_writer, n);
	writer_sent_elsewhere(&writer, 1, n);
}

static void move_out(void)
{
	cr_assert_eq(
	    dfi__writer_publish_move(&writer, shared.region->name.key), 0);
}

/* first: the number of the first segment in the shared ring. */
static void move_back(uint64_t first)
{
	uint64_t consumed = atomic_observe(
	    &writer_header(&writer)->credit.consumed);
	int64_t unread = (int64_t)(first - consumed);

	cr_assert_eq(dfi__writer_publish_move(&shared_writer, 0), 0);
	writer_sent_elsewhere(&writer, 1, 0);
	dfi__writer_return_to(&writer, unread > 0 ? (uint64_t)unread : 0);
}

/* Take a segment, or a move: the bytes of its tuples. */
static uint64_t take(void)
{
	const char *payload;
	uint64_t bytes = 0, i, tuple;

	cr_assert(reader_ready(&reader));
	cr_assert_eq(
	    reader_take(&reader, &payload, &bytes), 0, "%s", dfi_errmsg());
	for (i = 0; i < bytes / TUPLE; i++, taken++) {
		memcpy(&tuple, payload + i * TUPLE, TUPLE);
		cr_assert_eq(tuple, taken);
	}
	cr_assert_eq(reader_release(&reader), 0);
	return bytes;
}

static void take_all(void)
{
	while (reader_ready(&reader))
		take();
	cr_assert_eq(taken, sent);
}

/* Rounds of different lengths, in which the reader comes late or soon. */
static void run(uint64_t first_number, enum footer_side side)
{
	uint32_t round, i;
	uint64_t first;

	start(first_number, side);
	for (round = 0; round < 40; round++) {
		for (i = 0; i < round % 4; i++) {
			if (!has_room(1, OWN))
				take_all();
			send_own(1 + (round + i) % TUPLES);
		}
		make_shared();
		if (!has_room(2, OWN))
			take_all();
		move_out();
		first = writer.seq;
		if (round % 5 == 0)
			take_all();
		for (i = 0; i < round % 17; i++) {
			if (!has_room(1, SHARED))
				take_all();
			cr_assert(has_room(1, SHARED));
			send_shared(1 + i % TUPLES);
			if (round % 3 == 0)
				take();
		}
		move_back(first);
		if (round & 1)
			take_all();
		dfi__shared_ring_free(&shared);
		take_all();
		cr_assert(!reader.away);
		cr_assert_eq(reader.seq, writer.seq);
	}
	send_own(2);
	cr_assert_eq(dfi__writer_end(&writer, FOOTER_FLAG_END), 0);
	take_all();
	cr_assert_eq(dfi__reader_check_end(&reader), 0, "%s", dfi_errmsg());
	cr_assert_eq(reader.end, READER_ENDED);
	cr_assert_eq(dfi__reader_return(&reader), 0);
	cr_assert_eq(dfi__writer_unreturned(&writer), 0);
	stop();
}

Test(reader_move, each_tuple_comes_once_and_in_order)
{
	static const uint64_t firsts[] = { 0, 1, UINT32_MAX - 1,
		UINT32_MAX - 40, UINT64_MAX - 1, UINT64_MAX - 60 };
	size_t i;

	for (i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
		run(firsts[i], FOOTER_BEHIND);
		run(firsts[i], FOOTER_IN_FRONT);
	}
}

/* What a reader keeps after its writer has died is whole. */
Test(reader_move, what_has_come_outlives_its_source)
{
	start(0, FOOTER_BEHIND);
	make_shared();
	send_own(2);
	move_out();
	send_shared(4);
	send_shared(1);
	dfi__shared_ring_free(&shared);
	take_all();
	cr_assert(!reader_ready(&reader));
	stop();
}

/* The end of what counts moves on with the writer. */
Test(reader_move, what_came_behind_a_move_came_before_the_end)
{
	start(0, FOOTER_BEHIND);
	make_shared();
	send_own(2);
	move_out();
	send_shared(4);
	move_back(2);
	send_own(1);
	reader.stop = dfi__reader_arrived(&reader);
	while (reader.seq != reader.stop)
		take();
	cr_assert_eq(taken, sent);
	dfi__shared_ring_free(&shared);
	stop();
}

/* G6: a slot that was written 2^32 segments ago is none that is due. */
Test(reader_move, old_footers_are_not_due)
{
	uint64_t far = (UINT64_C(1) << 32) - 4;

	start(0, FOOTER_BEHIND);
	make_shared();
	send_own(2);
	send_own(2);
	take_all();
	move_out();
	take_all();
	/* So many segments were sent, taken and given back there. */
	writer_sent_elsewhere(&writer, far, 0);
	reader.ahead -= far;
	cr_assert_eq(dfi__reader_return(&reader), 0);
	move_back(3);
	cr_assert_eq(take(), 0);
	cr_assert_eq((uint32_t)reader.seq, 0);
	cr_assert(!reader_ready(&reader));
	send_own(3);
	take_all();
	dfi__shared_ring_free(&shared);
	stop();
}

static void refuse(const char *why)
{
	const char *payload;
	uint64_t bytes;

	cr_assert(reader_ready(&reader));
	cr_assert_eq(reader_take(&reader, &payload, &bytes), -EBADMSG);
	cr_assert_not_null(strstr(dfi_errmsg(), why), "%s", dfi_errmsg());
}

Test(reader_move, moves_that_make_no_sense_are_refused)
{
	start(0, FOOTER_BEHIND);
	make_shared();
	cr_assert_eq(
	    dfi__writer_publish_move(&writer, shared.region->name.key ^ 1), 0);
	refuse("key");
	stop();

	start(0, FOOTER_BEHIND);
	cr_assert_eq(dfi__writer_publish_move(&writer, 0), 0);
	refuse("shared");
	stop();

	/* From one shared ring to another. */
	start(0, FOOTER_BEHIND);
	make_shared();
	move_out();
	take();
	cr_assert_eq(
	    dfi__writer_publish_move(&shared_writer, shared.region->name.key),
	    0);
	refuse("shared");
	dfi__shared_ring_free(&shared);
	stop();

	/* In a flow whose sources do not move. */
	start(0, FOOTER_BEHIND);
	make_shared();
	reader.shared_segments = 0;
	move_out();
	refuse("damaged");
	dfi__shared_ring_free(&shared);
	stop();
}

/* One that has moved back keeps no memory of it. */
Test(reader_move, a_reader_that_moves_back_unmaps_the_ring)
{
	uint64_t size, key;

	start(0, FOOTER_BEHIND);
	make_shared();
	key = shared.region->name.key;
	move_out();
	send_shared(1);
	take_all();
	cr_assert_not_null(dfi__shm_ops.region.granted(region, 0, key, &size));
	move_back(1);
	take_all();
	cr_assert_null(dfi__shm_ops.region.granted(region, 0, key, &size));
	dfi__shared_ring_free(&shared);
	stop();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two lists of an ordered flow's target, and rings below them, over the
 * wrap-around of positions and of segment numbers.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "base/error.h"
#include "buffers/replica_writer.h"
#include "buffers/merge.h"
#include "fake_transport.h"

static const uint64_t starts[] = { 0, UINT32_MAX - 1, UINT64_MAX - 1,
	(uint64_t)INT64_MAX - 1 };
#define N_STARTS (sizeof(starts) / sizeof(starts[0]))

enum {
	N_RINGS = 5,
	TUPLE = 8,
	SEGMENT_TUPLES = 3,
	N_SEGMENTS = 300,
};

/* The position of a ring in the receive list. */
static uint32_t waiting(const struct merge *merge, uint32_t ring)
{
	uint32_t i, end = merge->n_next + merge->n_waiting;

	for (i = merge->n_next; i < end; i++)
		if (merge->rings[i] == ring)
			return i;
	cr_assert_fail("ring %u is not in the receive list", ring);
	return 0;
}

static void arrive(struct merge *merge, uint32_t ring, uint64_t position)
{
	cr_assert(dfi__merge_arrived(merge, waiting(merge, ring), position));
}

static void expect_due(struct merge *merge, uint32_t ring)
{
	cr_assert(merge_is_due(merge));
	cr_assert_eq(merge_first(merge), ring);
	dfi__merge_delivered(merge, 1);
	cr_assert(!merge_is_late(merge));
}

Test(merge, what_arrives_as_3_1_2_is_delivered_as_1_2_3)
{
	struct merge merge;
	size_t i;

	for (i = 0; i < N_STARTS; i++) {
		cr_assert_eq(dfi__merge_init(&merge, 3, starts[i]), 0);
		cr_assert(!merge_is_due(&merge));
		arrive(&merge, 2, starts[i] + 2);
		cr_assert(!merge_is_due(&merge));
		arrive(&merge, 0, starts[i]);
		expect_due(&merge, 0);
		cr_assert(!merge_is_due(&merge));
		arrive(&merge, 1, starts[i] + 1);
		expect_due(&merge, 1);
		expect_due(&merge, 2);
		cr_assert(!merge_is_due(&merge));
		cr_assert_eq(merge.n_waiting, 3);
		dfi__merge_free(&merge);
	}
}

Test(merge, position_that_was_delivered_is_noticed)
{
	struct merge merge;

	cr_assert_eq(dfi__merge_init(&merge, 3, 0), 0);
	cr_assert(!dfi__merge_arrived(&merge, 0, UINT64_MAX));
	cr_assert_eq(merge.n_next, 0);
	/* Two that claim to be the same. */
	arrive(&merge, 2, 0);
	arrive(&merge, 0, 1);
	arrive(&merge, 1, 0);
	dfi__merge_delivered(&merge, 1);
	cr_assert(merge_is_late(&merge));
	cr_assert(merge_first(&merge) == 1 || merge_first(&merge) == 2);
	dfi__merge_free(&merge);
}

Test(merge, rings_that_have_ended_are_not_looked_at)
{
	struct merge merge;

	cr_assert_eq(dfi__merge_init(&merge, 3, 0), 0);
	dfi__merge_ended(&merge, waiting(&merge, 0));
	cr_assert_eq(merge.n_waiting, 2);
	arrive(&merge, 1, 1);
	arrive(&merge, 2, 0);
	expect_due(&merge, 2);
	dfi__merge_ended(&merge, waiting(&merge, 2));
	expect_due(&merge, 1);
	dfi__merge_ended(&merge, waiting(&merge, 1));
	cr_assert_eq(merge.n_next + merge.n_waiting, 0);
	dfi__merge_free(&merge);
}

/* Streams of rising positions, dealt at random, that arrive in any order. */
static void deal(unsigned seed, uint64_t start)
{
	uint64_t positions[N_RINGS][N_SEGMENTS], position;
	uint32_t n[N_RINGS] = { 0 }, next[N_RINGS] = { 0 };
	uint32_t owner[N_SEGMENTS], ring, i;
	bool there[N_RINGS] = { false };
	struct merge merge;

	srand(seed);
	for (i = 0; i < N_SEGMENTS; i++) {
		ring = (uint32_t)rand() % N_RINGS;
		owner[i] = ring;
		positions[ring][n[ring]++] = start + i;
	}
	cr_assert_eq(dfi__merge_init(&merge, N_RINGS, start), 0);
	for (i = 0; i < N_SEGMENTS;) {
		ring = (uint32_t)rand() % N_RINGS;
		if (!there[ring] && next[ring] < n[ring]) {
			position = positions[ring][next[ring]++];
			arrive(&merge, ring, position);
			there[ring] = true;
		}
		for (; i < N_SEGMENTS && merge_is_due(&merge); i++) {
			cr_assert_eq(merge.position, start + i);
			there[merge_first(&merge)] = false;
			expect_due(&merge, owner[i]);
		}
	}
	cr_assert_eq(merge.n_next, 0);
	dfi__merge_free(&merge);
}

Test(merge, random_arrivals_are_delivered_by_position)
{
	unsigned seed;

	for (seed = 0; seed < 200; seed++)
		deal(seed, starts[seed % N_STARTS] - seed);
}

/* The answer of a sequencer, at once. */
static int draw(void *arg, uint64_t *global)
{
	uint64_t *next = arg;

	if (*next % 128 == 77)
		return dfi__fail(-ECONNRESET, "no number today");
	*global = (*next)++;
	return 1;
}

static void start_ring(struct fake_ring *ring, bool verified, uint64_t first)
{
	fake_ring_start_with(ring,
	    ring_geometry_with(TUPLE, SEGMENT_TUPLES * TUPLE, 4,
		SEGMENT_GLOBAL | (verified ? SEGMENT_CHECKSUM : 0),
		FOOTER_BEHIND),
	    first, false);
}

/* The position is in each ring's segment, whole, and the checksum covers it. */
static void send_and_read(bool verified, uint64_t first, uint64_t position)
{
	struct fake_ring rings[2];
	struct writer writers[2];
	struct segment_header *header;
	uint64_t next = position, global, bytes, i;
	const char *payload;
	struct replica_writer replica_writer;
	uint32_t r;

	for (r = 0; r < 2; r++) {
		start_ring(&rings[r], verified, first);
		writers[r] = rings[r].writer;
	}
	cr_assert_eq(dfi__replica_init(&replica_writer, writers, 2, NULL,
			 &rings[0].geometry, first),
	    0);
	replica_writer.draw = draw;
	replica_writer.draw_arg = &next;
	for (i = 0; i < 40; i++, position++) {
		/* A failed draw sends nothing, and may be repeated. */
		if (next % 128 == 77) {
			cr_assert_eq(dfi__replica_open(&replica_writer), 1);
			cr_assert_eq(
			    dfi__replica_publish(&replica_writer, TUPLE),
			    -ECONNRESET);
			cr_assert(replica_writer.undrawn);
			cr_assert(!reader_ready(&rings[0].reader));
			next++;
			position++;
		}
		cr_assert_eq(dfi__replica_open(&replica_writer), 1);
		memcpy(replica_writer.lane.segment, &i, TUPLE);
		cr_assert_eq(dfi__replica_publish(&replica_writer, TUPLE), 0);
		cr_assert(!replica_writer.undrawn);
		for (r = 0; r < 2; r++) {
			cr_assert(reader_ready(&rings[r].reader));
			cr_assert_eq(
			    dfi__reader_global(&rings[r].reader, &global), 0);
			cr_assert_eq(global, position);
			cr_assert_eq(
			    reader_take(&rings[r].reader, &payload, &bytes), 0,
			    "%s", dfi_errmsg());
			cr_assert_eq(memcmp(payload, &i, TUPLE), 0);
			cr_assert_eq(reader_release(&rings[r].reader), 0);
		}
	}
	cr_assert_eq(dfi__replica_open(&replica_writer), 1);
	cr_assert_eq(dfi__replica_publish(&replica_writer, TUPLE), 0);
	header =
	    (struct segment_header *)(void *)((char *)rings[0].reader.head -
		rings[0].geometry.footer_offset);
	header->global++;
	cr_assert_eq(reader_take(&rings[0].reader, &payload, &bytes),
	    verified ? -EBADMSG : 0);
	dfi__replica_free(&replica_writer);
	for (r = 0; r < 2; r++)
		fake_ring_stop(&rings[r]);
}

Test(merge, position_travels_with_its_segment)
{
	size_t i, j;

	for (i = 0; i < N_STARTS; i++)
		for (j = 0; j < N_STARTS; j++) {
			send_and_read(false, starts[i], starts[j]);
			send_and_read(true, starts[i], starts[j]);
		}
}

Test(merge, segment_whose_footer_makes_no_sense_has_no_position)
{
	struct fake_ring ring;
	uint64_t global;

	start_ring(&ring, false, 0);
	atomic_set(&fake_ring_footer(&ring, 0)->state,
	    footer_state(0, FOOTER_USED_MAX - 1, FOOTER_FLAG_SHIFTED));
	cr_assert(reader_ready(&ring.reader));
	cr_assert_eq(dfi__reader_global(&ring.reader, &global), -EBADMSG);
	cr_assert_not_null(strstr(dfi_errmsg(), "segment 0"));
	fake_ring_stop(&ring);
}

/* ---- Places that are on their way --------------------------------------- */

/* A segment waits after this many looks. */
#define FEW_LOOKS 256

struct far {
	unsigned looks; /* until it is there */
	uint64_t next;
};

static int draw_far(void *arg, uint64_t *global)
{
	struct far *far = arg;

	if (far->looks && far->looks--)
		return 0;
	*global = far->next++;
	return 1;
}

static void expect_segment(
    struct fake_ring *ring, uint64_t position, uint64_t i)
{
	uint64_t global, bytes;
	const char *payload;

	cr_assert(reader_ready(&ring->reader));
	cr_assert_eq(dfi__reader_global(&ring->reader, &global), 0);
	cr_assert_eq(global, position);
	cr_assert_eq(reader_take(&ring->reader, &payload, &bytes), 0);
	cr_assert_eq(memcmp(payload, &i, TUPLE), 0);
	cr_assert_eq(reader_release(&ring->reader), 0);
}

Test(merge, segment_waits_for_its_position)
{
	struct far far = { .next = MERGE_FIRST_POSITION };
	struct fake_ring ring;
	struct replica_writer replica_writer;
	uint64_t i = 1;
	char *at;

	start_ring(&ring, false, 1);
	cr_assert_eq(dfi__replica_init(&replica_writer, &ring.writer, 1, NULL,
			 &ring.geometry, 1),
	    0);
	replica_writer.draw = draw_far;
	replica_writer.draw_arg = &far;
	cr_assert_eq(dfi__replica_open(&replica_writer), 1);
	memcpy(replica_writer.lane.segment, &i, TUPLE);
	far.looks = FEW_LOOKS + 1;
	cr_assert_eq(dfi__replica_publish(&replica_writer, TUPLE), 0);
	cr_assert(replica_waits(&replica_writer));
	cr_assert_null(replica_writer.lane.segment);
	/* None is opened behind it. */
	cr_assert_eq(dfi__replica_open(&replica_writer), 0);
	cr_assert_not(reader_ready(&ring.reader));
	cr_assert_eq(dfi__replica_open(&replica_writer), 1);
	cr_assert_not(replica_waits(&replica_writer));
	expect_segment(&ring, MERGE_FIRST_POSITION, i);
	/* A part stays in its segment, with tuples added meanwhile. */
	i = 2;
	at = replica_writer.lane.segment;
	memcpy(at, &i, TUPLE);
	far.looks = FEW_LOOKS;
	cr_assert_eq(dfi__replica_publish_part(&replica_writer, TUPLE), 0);
	cr_assert_eq(replica_writer.lane.segment, at);
	cr_assert_not(reader_ready(&ring.reader));
	cr_assert_eq(dfi__replica_publish_part(&replica_writer, TUPLE), 1);
	cr_assert_eq(replica_writer.lane.segment, at + TUPLE);
	expect_segment(&ring, MERGE_FIRST_POSITION + 1, i);
	dfi__replica_free(&replica_writer);
	fake_ring_stop(&ring);
}

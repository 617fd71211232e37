/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring geometry and footers: pure functions, over all sizes at which a boundary
 * moves, with headers or without, and with the footer on either side. Each byte
 * range is checked against all others.
 */
#include <criterion/criterion.h>
#include <stdint.h>

#include <dfi/flow.h>
#include <dfi/schema.h>

#include "buffers/layout/ring.h"

static const uint32_t counts[] = { 1, 2, 3, 4, 5, 7, 8, 31, 32, 1000 };
#define N_COUNTS (sizeof(counts) / sizeof(counts[0]))

/* Tuple and segment sizes around cache lines and footers, whole and not. */
static void for_each_geometry(void (*fn)(const struct ring_geometry *g,
    uint32_t tuple_size, uint32_t segment_size, uint32_t count))
{
	uint32_t tuple_size, segment_size;
	struct ring_geometry g;
	size_t i;

	for (tuple_size = 1; tuple_size <= 160; tuple_size++)
		for (segment_size = tuple_size; segment_size <= 300;
		     segment_size += 1 + segment_size % 5)
			for (i = 0; i < 4 * N_COUNTS; i++) {
				g = ring_geometry_with(tuple_size, segment_size,
				    counts[i / 4], i % 2 ? SEGMENT_CHECKSUM : 0,
				    i / 2 % 2 ? FOOTER_IN_FRONT
					      : FOOTER_BEHIND);
				fn(&g, tuple_size, segment_size, counts[i / 4]);
			}
}

/* The first byte of a slot and its footer, and the one after the last. */
static void find_ends(
    const struct ring_geometry *g, int64_t *first, int64_t *last)
{
	int64_t end = (int64_t)g->payload_offset + g->segment_bytes;
	int64_t footer_end = g->footer_offset +
	    (int64_t)sizeof(struct segment_footer);

	*first = g->footer_offset < 0 ? g->footer_offset : 0;
	*last = footer_end > end ? footer_end : end;
}

static void check_slot(const struct ring_geometry *g, uint32_t tuple_size,
    uint32_t segment_size, uint32_t count)
{
	const uint32_t footer_size = sizeof(struct segment_footer);
	int64_t first, last;

	cr_assert_eq(g->tuple_size, tuple_size);
	cr_assert_eq(g->segment_count, count);
	cr_assert_eq(g->segment_tuples, segment_size / tuple_size);
	cr_assert_eq(g->segment_bytes, g->segment_tuples * tuple_size);
	find_ends(g, &first, &last);
	/* The footer stands beside what is sent, and is aligned. */
	cr_assert(g->footer_offset == first ||
	    g->footer_offset >= (int64_t)g->payload_offset + g->segment_bytes);
	cr_assert_eq(
	    (g->first_slot + (uint32_t)g->footer_offset) % footer_size, 0);
	/* No cache line has bytes of two slots, or of the ring's header. */
	cr_assert_eq(g->slot_size % CACHE_LINE, 0);
	cr_assert_geq(g->first_slot + first, sizeof(struct ring_header));
	cr_assert_leq((g->first_slot + last - 1) / CACHE_LINE -
		(g->first_slot + first) / CACHE_LINE,
	    g->slot_size / CACHE_LINE - 1);
	cr_assert_lt((g->first_slot + last - 1) / CACHE_LINE,
	    (g->first_slot + first + g->slot_size) / CACHE_LINE);
	/* A header is aligned as its type says. */
	cr_assert_eq(g->payload_offset, g->parts ? CACHE_LINE : 0);
	cr_assert(!g->parts || g->first_slot % CACHE_LINE == 0);
	cr_assert_lt(g->slot_size,
	    g->payload_offset + segment_size + 16 + 16 + 3 * CACHE_LINE);
}

Test(ring, slot_holds_whole_tuples_and_its_footer)
{
	for_each_geometry(check_slot);
}

static void check_ring(const struct ring_geometry *g, uint32_t tuple_size,
    uint32_t segment_size, uint32_t count)
{
	int64_t first, last;
	uint32_t slot;

	(void)tuple_size;
	(void)segment_size;
	find_ends(g, &first, &last);
	for (slot = 1; slot < count && slot < 9; slot++)
		cr_assert_eq(slot_offset(g, slot) - slot_offset(g, slot - 1),
		    g->slot_size);
	cr_assert_leq(slot_offset(g, count - 1) + (uint64_t)last, g->ring_size);
	cr_assert_eq(g->ring_size % (2 * CACHE_LINE), 0);
}

Test(ring, slots_are_disjoint_and_inside_the_ring)
{
	for_each_geometry(check_ring);
}

static void check_region(const struct ring_geometry *g, uint32_t tuple_size,
    uint32_t segment_size, uint32_t count)
{
	uint32_t source;

	(void)tuple_size;
	(void)segment_size;
	(void)count;
	cr_assert_geq(ring_offset(g, 0), sizeof(struct region_header));
	for (source = 0; source < 4; source++) {
		cr_assert_eq(ring_offset(g, source) % (2 * CACHE_LINE), 0);
		cr_assert_eq(ring_offset(g, source + 1),
		    ring_offset(g, source) + g->ring_size);
		cr_assert_eq(region_size(g, source + 1),
		    ring_offset(g, source) + g->ring_size);
	}
}

Test(ring, rings_of_a_region_are_disjoint_and_fill_it)
{
	for_each_geometry(check_region);
}

Test(ring, largest_geometry_does_not_overflow)
{
	struct ring_geometry g = ring_geometry(
	    1, DFI_MAX_SEGMENT_SIZE, DFI_MAX_SEGMENT_COUNT);
	uint64_t payload = (uint64_t)DFI_MAX_SEGMENT_SIZE *
	    DFI_MAX_SEGMENT_COUNT;

	cr_assert_eq(g.segment_bytes, DFI_MAX_SEGMENT_SIZE);
	cr_assert_gt(g.slot_size, DFI_MAX_SEGMENT_SIZE);
	cr_assert_gt(g.ring_size, payload);
	cr_assert_gt(region_size(&g, DFI_MAX_ENDPOINTS), g.ring_size);
	/* The footer can say how full it is. */
	cr_assert_leq(DFI_MAX_SEGMENT_SIZE, FOOTER_USED_MAX);
	cr_assert_leq(DFI_MAX_TUPLE_SIZE, DFI_MAX_SEGMENT_SIZE);
}

/* Payload and footer of a small tuple move as one cache line. */
Test(ring, latency_segment_of_48_bytes_takes_one_cache_line)
{
	struct ring_geometry small = ring_geometry(48, 48, 8);
	struct ring_geometry large = ring_geometry(49, 49, 8);

	cr_assert_eq(small.slot_size, CACHE_LINE);
	cr_assert_eq(small.footer_offset, 48);
	cr_assert_eq(large.slot_size, 2 * CACHE_LINE);
	cr_assert_eq(slot_offset(&small, 3) % CACHE_LINE, 0);
}

Test(ring, footer_in_front_shares_the_line_of_a_lone_tuple_only)
{
	struct ring_geometry small = ring_geometry_with(
	    48, 48, 8, 0, FOOTER_IN_FRONT);
	struct ring_geometry large = ring_geometry_with(
	    49, 49, 8, 0, FOOTER_IN_FRONT);
	struct ring_geometry several = ring_geometry_with(
	    16, 48, 8, 0, FOOTER_IN_FRONT);

	cr_assert_eq(small.slot_size, CACHE_LINE);
	cr_assert_eq(small.footer_offset, -16);
	cr_assert_eq(slot_offset(&small, 3) % CACHE_LINE, 16);
	cr_assert_eq(large.slot_size, 2 * CACHE_LINE);
	cr_assert_eq(slot_offset(&several, 3) % CACHE_LINE, 0);
	cr_assert_eq(several.footer_offset, -16);
}

Test(ring, next_slot_walks_round)
{
	size_t i;

	for (i = 0; i < N_COUNTS; i++) {
		struct ring_geometry g = ring_geometry(8, 8, counts[i]);
		uint32_t slot = 0, step;

		for (step = 1; step <= 3 * counts[i]; step++) {
			slot = next_slot(&g, slot);
			cr_assert_eq(slot, step % counts[i]);
		}
	}
}

Test(ring, credits_come_back_at_most_a_quarter_of_the_ring_late)
{
	uint32_t count;

	for (count = 1; count <= 100; count++) {
		struct ring_geometry g = ring_geometry(8, 8, count);

		cr_assert_geq(credit_batch(&g), 1);
		cr_assert(
		    credit_batch(&g) == 1 || credit_batch(&g) * 4 <= count);
	}
}

Test(segment, footer_state_keeps_its_parts_apart)
{
	static const uint64_t seqs[] = { 0, 1, UINT32_MAX,
		(uint64_t)UINT32_MAX + 1, UINT64_MAX };
	static const uint64_t useds[] = { 0, 1, FOOTER_USED_MAX };
	static const uint64_t flags[] = { 0, FOOTER_FLAG_END, FOOTER_FLAG_ABORT,
		FOOTER_FLAGS };
	size_t s, u, f;

	for (s = 0; s < 5; s++)
		for (u = 0; u < 3; u++)
			for (f = 0; f < 4; f++) {
				uint64_t state = footer_state(
				    seqs[s], useds[u], flags[f]);

				cr_assert_eq(
				    footer_seq(state), (uint32_t)seqs[s]);
				cr_assert_eq(footer_used(state), useds[u]);
				cr_assert_eq(state & FOOTER_FLAGS, flags[f]);
			}
}

/* An owner reads from payloads what their writer would have sent. */
Test(segment, footers_follow_from_the_bytes_that_arrived)
{
	struct ring_geometry g = ring_geometry(24, 8192, 16);
	struct ring_layout layout = ring_layout(&g, 1);
	uint64_t footer[2] = { 0, footer_state(UINT32_MAX - 1, 0, 0) };

	footer_next(&layout.shape, g.segment_bytes, footer);
	cr_assert_eq(footer[0], g.segment_tuples);
	cr_assert_eq(footer[1], footer_state(UINT32_MAX, g.segment_bytes, 0));
	footer_next(&layout.shape, 24, footer);
	cr_assert_eq(footer[0], g.segment_tuples + 1);
	cr_assert_eq(footer[1], footer_state(0, 24, 0));
}

/* The words of two writers are never in one pair of cache lines. */
Test(segment, words_of_different_writers_lie_apart)
{
	size_t consumed = offsetof(struct ring_header, credit);
	size_t waits = offsetof(struct ring_header, writer_waits);
	size_t end = offsetof(struct ring_header, end);

	cr_assert_neq(consumed / CACHE_LINE, waits / CACHE_LINE);
	cr_assert_neq(end / (2 * CACHE_LINE), consumed / (2 * CACHE_LINE));
	cr_assert_neq(end / (2 * CACHE_LINE), waits / (2 * CACHE_LINE));
	cr_assert_neq(end / (2 * CACHE_LINE),
	    sizeof(struct ring_header) / (2 * CACHE_LINE));
}

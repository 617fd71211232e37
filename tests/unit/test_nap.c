/* SPDX-License-Identifier: Apache-2.0 */
/* When a target sleeps through a part of a stream; no clock, nothing sleeps. */
#include <criterion/criterion.h>

#include "base/nap.h"

#define US INT64_C(1000)

/* A wait of a target to whom so many segments came until now. */
struct stream {
	struct nap nap;
	uint64_t segments;
	int64_t now;
	int64_t napping; /* from now on, for so long */
};

static int64_t wait_after(struct stream *stream, uint64_t came, int64_t elapsed)
{
	stream->segments += came;
	stream->now += elapsed;
	stream->napping = dfi__nap_ns(
	    &stream->nap, stream->segments, stream->now);
	return stream->napping;
}

static struct stream stream_start(void)
{
	struct stream stream = { .nap = { .segments = 2 }, .now = 1 };

	cr_assert_eq(wait_after(&stream, 0, 0), 0);
	return stream;
}

Test(nap, lasts_as_long_as_some_segments_take)
{
	struct stream stream = stream_start();

	cr_assert_eq(wait_after(&stream, 1, 60 * US), 120 * US);
	stream = stream_start();
	cr_assert_eq(wait_after(&stream, 3, 210 * US), 140 * US);
}

Test(nap, is_not_for_fast_streams)
{
	struct stream stream = stream_start();

	cr_assert_eq(wait_after(&stream, 1, 1 * US), 0);
	cr_assert_eq(wait_after(&stream, 100, 3000 * US), 0);
}

Test(nap, is_not_long)
{
	struct stream stream = stream_start();

	stream.nap.segments = 4;
	cr_assert_eq(wait_after(&stream, 1, 800 * US), 2000 * US);
}

/* Nor before the first segment is known, nor for what comes after a silence. */
Test(nap, is_not_for_what_comes_seldom)
{
	struct nap nap = { .segments = 2 };
	struct stream stream = stream_start();

	cr_assert_eq(dfi__nap_ns(&nap, 1, 5000000 * US), 0);
	cr_assert_eq(wait_after(&stream, 1, 1100 * US), 0);
	cr_assert_eq(wait_after(&stream, 10, 800000 * US), 0);
	cr_assert_eq(wait_after(&stream, 2, 200 * US), 200 * US);
}

/*
 * A dialogue: so many segments come once per round trip, which begins with the
 * wait before which the owner sends its part, and naps. The naps of so many.
 */
#define ROUND_TRIP (200 * US)
#define OVERSLEEP (50 * US)

static int naps_of(struct stream *stream, int trips, int each)
{
	int64_t elapsed;
	int i, naps = 0;

	for (i = 0; i < trips; i++) {
		elapsed = stream->napping + OVERSLEEP;
		if (!stream->napping || elapsed < ROUND_TRIP)
			elapsed = ROUND_TRIP;
		naps += wait_after(stream, (uint64_t)each, elapsed) > 0;
	}
	return naps;
}

Test(nap, in_vain_is_not_repeated_soon)
{
	struct stream stream = stream_start();
	int naps;

	cr_assert_leq(naps_of(&stream, 1000, 1), 12);
	naps = naps_of(&stream, 1000, 1);
	cr_assert_leq(naps, 4);
	cr_assert_geq(naps, 2);
}

/* Nor if each message takes several segments, unless no nap is longer. */
Test(nap, in_vain_may_bring_some_segments)
{
	struct stream stream;
	uint32_t segments;
	int each;

	for (segments = 2; segments <= 32; segments *= 2)
		for (each = 1; each <= (int)segments / 2; each++) {
			stream = stream_start();
			stream.nap.segments = segments;
			cr_assert_leq(naps_of(&stream, 1000, each), 12,
			    "%d of %u segments", each, segments);
		}
}

/* Nor if a message of two segments now and then looks like a stream. */
Test(nap, in_vain_half_of_the_time_is_seldom_repeated)
{
	struct stream stream = stream_start();
	uint64_t random = 1;
	int i, naps = 0;

	for (i = 0; i < 10000; i++) {
		random = random * 6364136223846793005 + 1442695040888963407;
		naps += naps_of(&stream, 1, 1 + (int)(random >> 63));
	}
	cr_assert_leq(naps, 1000);
}

/* A wait brings a segment: so many are without a nap after one in vain. */
static int waits_after_nap_in_vain(struct stream *stream)
{
	int waits = 0;

	while (waits < 1000 && wait_after(stream, 1, 200 * US) == 0)
		waits++;
	return waits;
}

/* A stream that is about as slow as the longest nap: some bring one segment. */
Test(nap, in_vain_by_chance_is_repeated_soon)
{
	struct stream stream = stream_start();
	int i;

	cr_assert_gt(wait_after(&stream, 2, 200 * US), 0);
	for (i = 0; i < 20; i++) {
		cr_assert_eq(waits_after_nap_in_vain(&stream), 1);
		cr_assert_gt(wait_after(&stream, 2, 200 * US), 0);
	}
	cr_assert_eq(waits_after_nap_in_vain(&stream), 1);
	cr_assert_eq(waits_after_nap_in_vain(&stream), 2);
	cr_assert_eq(waits_after_nap_in_vain(&stream), 4);
	cr_assert_gt(wait_after(&stream, 2, 200 * US), 0);
	cr_assert_eq(waits_after_nap_in_vain(&stream), 4);
}

/* At once if it is faster, or if it is slower by half. */
Test(nap, follows_the_pace_of_the_stream)
{
	struct stream stream = stream_start();

	cr_assert_eq(wait_after(&stream, 1, 60 * US), 120 * US);
	cr_assert_eq(wait_after(&stream, 2, 140 * US), 120 * US);
	cr_assert_eq(wait_after(&stream, 4, 200 * US), 100 * US);
	cr_assert_eq(wait_after(&stream, 2, 400 * US), 0);
	cr_assert_eq(wait_after(&stream, 1, 200 * US), 400 * US);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* When a target sleeps through a part of a stream; no clock, nothing sleeps. */
#include <criterion/criterion.h>

#include "base/pace.h"

#define US INT64_C(1000)

/* A wait of a target that has received this many segments. */
struct stream {
	struct pace pace;
	uint64_t segments;
	int64_t now;
	int64_t pacing; /* from now on, for so long */
};

static int64_t wait_after(struct stream *stream, uint64_t came, int64_t elapsed)
{
	stream->segments += came;
	stream->now += elapsed;
	stream->pacing = dfi__pace_ns(
	    &stream->pace, stream->segments, stream->now);
	return stream->pacing;
}

static struct stream stream_start(void)
{
	struct stream stream = { .pace = { .segments = 2 }, .now = 1 };

	cr_assert_eq(wait_after(&stream, 0, 0), 0);
	return stream;
}

Test(pace, lasts_as_long_as_some_segments_take)
{
	struct stream stream = stream_start();

	cr_assert_eq(wait_after(&stream, 1, 60 * US), 120 * US);
	stream = stream_start();
	cr_assert_eq(wait_after(&stream, 3, 210 * US), 140 * US);
}

Test(pace, is_not_for_fast_streams)
{
	struct stream stream = stream_start();

	cr_assert_eq(wait_after(&stream, 1, 1 * US), 0);
	cr_assert_eq(wait_after(&stream, 100, 3000 * US), 0);
}

Test(pace, is_not_long)
{
	struct stream stream = stream_start();

	stream.pace.segments = 4;
	cr_assert_eq(wait_after(&stream, 1, 800 * US), 2000 * US);
}

/* There is no pace before the first segment, nor after a quiet time. */
Test(pace, is_not_for_what_comes_seldom)
{
	struct pace pace = { .segments = 2 };
	struct stream stream = stream_start();

	cr_assert_eq(dfi__pace_ns(&pace, 1, 5000000 * US), 0);
	cr_assert_eq(wait_after(&stream, 1, 1100 * US), 0);
	cr_assert_eq(wait_after(&stream, 10, 800000 * US), 0);
	cr_assert_eq(wait_after(&stream, 2, 200 * US), 200 * US);
}

/*
 * A dialogue: this many segments come once per round trip. It begins with the
 * wait before which the owner sends its part, and paces. Returns the number of
 * paces.
 */
#define ROUND_TRIP (200 * US)
#define OVERSLEEP (50 * US)

static int paces_of(struct stream *stream, int trips, int each)
{
	int64_t elapsed;
	int i, paces = 0;

	for (i = 0; i < trips; i++) {
		elapsed = stream->pacing + OVERSLEEP;
		if (!stream->pacing || elapsed < ROUND_TRIP)
			elapsed = ROUND_TRIP;
		paces += wait_after(stream, (uint64_t)each, elapsed) > 0;
	}
	return paces;
}

Test(pace, in_vain_is_not_repeated_soon)
{
	struct stream stream = stream_start();
	int paces;

	cr_assert_leq(paces_of(&stream, 1000, 1), 12);
	paces = paces_of(&stream, 1000, 1);
	cr_assert_leq(paces, 4);
	cr_assert_geq(paces, 2);
}

/* There is none if each message takes several segments, unless no pace is
 * longer. */
Test(pace, in_vain_may_bring_some_segments)
{
	struct stream stream;
	uint32_t segments;
	int each;

	for (segments = 2; segments <= 32; segments *= 2)
		for (each = 1; each <= (int)segments / 2; each++) {
			stream = stream_start();
			stream.pace.segments = segments;
			cr_assert_leq(paces_of(&stream, 1000, each), 12,
			    "%d of %u segments", each, segments);
		}
}

/* There is none if a message of two segments now and then looks like a stream.
 */
Test(pace, in_vain_half_of_the_time_is_seldom_repeated)
{
	struct stream stream = stream_start();
	uint64_t random = 1;
	int i, paces = 0;

	for (i = 0; i < 10000; i++) {
		random = random * 6364136223846793005 + 1442695040888963407;
		paces += paces_of(&stream, 1, 1 + (int)(random >> 63));
	}
	cr_assert_leq(paces, 1000);
}

/* A wait brings a segment: after a vain one, this many have no pace. */
static int waits_after_pace_in_vain(struct stream *stream)
{
	int waits = 0;

	while (waits < 1000 && wait_after(stream, 1, 200 * US) == 0)
		waits++;
	return waits;
}

/* A stream that is about as slow as the longest pace: some bring one segment.
 */
Test(pace, in_vain_by_chance_is_repeated_soon)
{
	struct stream stream = stream_start();
	int i;

	cr_assert_gt(wait_after(&stream, 2, 200 * US), 0);
	for (i = 0; i < 20; i++) {
		cr_assert_eq(waits_after_pace_in_vain(&stream), 1);
		cr_assert_gt(wait_after(&stream, 2, 200 * US), 0);
	}
	cr_assert_eq(waits_after_pace_in_vain(&stream), 1);
	cr_assert_eq(waits_after_pace_in_vain(&stream), 2);
	cr_assert_eq(waits_after_pace_in_vain(&stream), 4);
	cr_assert_gt(wait_after(&stream, 2, 200 * US), 0);
	cr_assert_eq(waits_after_pace_in_vain(&stream), 4);
}

/* At once if it is faster, or if it is slower by half. */
Test(pace, follows_the_pace_of_the_stream)
{
	struct stream stream = stream_start();

	cr_assert_eq(wait_after(&stream, 1, 60 * US), 120 * US);
	cr_assert_eq(wait_after(&stream, 2, 140 * US), 120 * US);
	cr_assert_eq(wait_after(&stream, 4, 200 * US), 100 * US);
	cr_assert_eq(wait_after(&stream, 2, 400 * US), 0);
	cr_assert_eq(wait_after(&stream, 1, 200 * US), 400 * US);
}

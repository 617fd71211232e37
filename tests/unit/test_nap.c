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
};

static int64_t wait_after(struct stream *stream, uint64_t came, int64_t elapsed)
{
	stream->segments += came;
	stream->now += elapsed;
	return dfi__nap_ns(&stream->nap, stream->segments, stream->now);
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

/* A dialogue: one segment comes, however long the nap is. */
Test(nap, in_vain_is_not_repeated_soon)
{
	struct stream stream = stream_start();
	int i, naps = 0;

	for (i = 0; i < 1000; i++)
		naps += wait_after(&stream, 1, 200 * US) > 0;
	cr_assert_leq(naps, 12);
	for (naps = 0; i < 2000; i++)
		naps += wait_after(&stream, 1, 200 * US) > 0;
	cr_assert_leq(naps, 4);
	cr_assert_geq(naps, 2);
}

/* Nor if each of its messages takes several segments. */
Test(nap, in_vain_may_bring_some_segments)
{
	struct stream stream = stream_start();
	int i, naps = 0;

	stream.nap.segments = 8;
	for (i = 0; i < 1000; i++)
		naps += wait_after(&stream, 3, 200 * US) > 0;
	cr_assert_leq(naps, 12);
}

/* So many waits are without a nap after one that was in vain. */
static int waits_after_nap_in_vain(struct stream *stream)
{
	int waits = 0;

	while (wait_after(stream, 1, 200 * US) == 0)
		waits++;
	return waits;
}

/* A stream that is about as slow as the longest nap: some bring one segment. */
Test(nap, in_vain_by_chance_is_repeated_soon)
{
	struct stream stream = stream_start();
	int first, i;

	cr_assert_gt(wait_after(&stream, 2, 200 * US), 0);
	first = waits_after_nap_in_vain(&stream);
	cr_assert_leq(first, 8);
	for (i = 0; i < 20; i++) {
		cr_assert_gt(wait_after(&stream, 2, 200 * US), 0);
		cr_assert_eq(waits_after_nap_in_vain(&stream), first);
	}
	cr_assert_eq(waits_after_nap_in_vain(&stream), 2 * first);
}

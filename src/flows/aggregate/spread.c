/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of consecutive keys are evenly spread on the circle of 2^64 if the
 * factor, divided by 2^64, is far from fractions with small denominators, as
 * the golden ratio is (Knuth, The Art of Computer Programming, volume 3, 6.4).
 * The nearest fractions are those of its continued fraction, which Euclid's
 * algorithm finds. One with denominator d misses the factor by about 1 / (d *
 * the next denominator).
 */
#include "spread.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include "base/bits.h"
#include "base/error.h"

/* Larger tables are not optimised. */
#define MOST_SLOTS (UINT64_C(1) << 16)

/*
 * For unshifted keys: the largest allowed ratio of successive denominators. The
 * golden ratio's are at most twice as large.
 */
#define DENSE_STEP 5

/*
 * Shifted keys must not crowd in fewer buckets than this. They do if the
 * denominator that follows is larger than CROWDED.
 */
#define FEW_BUCKETS 256
#define CROWDED (MOST_SLOTS / 2)
/*
 * In fewer buckets than this, the keys in a table of partial aggregates would
 * crowd in more slots than it probes.
 */
#define VERY_FEW_BUCKETS 8
#define VERY_CROWDED 2048
#define MOST_SHIFT 48

/* Whether no denominator up to up_to is followed by one that is too large. */
static bool is_far(
    uint64_t number, uint64_t up_to, uint64_t step, uint64_t least)
{
	uint64_t last = 0, denominator = 1, next;
	/* The first step of Euclid's algorithm, from 2^64. */
	uint64_t quotient = UINT64_MAX / number, rest = -quotient * number;

	for (;;) {
		next = min_u64(quotient, MOST_SLOTS) * denominator + last;
		if (next > max_u64(step * denominator, least))
			return false;
		if (next > up_to)
			return true;
		if (!rest)
			return false;
		last = denominator;
		denominator = next;
		quotient = number / rest;
		next = number % rest;
		number = rest;
		rest = next;
	}
}

bool dfi__spread_is_even(uint64_t factor)
{
	unsigned shift;

	if (!is_far(factor, MOST_SLOTS, DENSE_STEP, 0))
		return false;
	for (shift = 1; shift <= MOST_SHIFT; shift++)
		if (!is_far(factor << shift, FEW_BUCKETS, 0, CROWDED) ||
		    !is_far(factor << shift, VERY_FEW_BUCKETS, 0, VERY_CROWDED))
			return false;
	return true;
}

int dfi__spread_draw(uint64_t *factor)
{
	uint64_t drawn;

	if (getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn))
		return dfi__fail(-EIO, "getrandom: %s", strerror(errno));
	/* About one in 160 passes, and most others fail at once. */
	while (!dfi__spread_is_even(drawn | 1))
		drawn = drawn * UINT64_C(0x5851f42d4c957f2d) + 1;
	*factor = drawn | 1;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether and how long to nap, from what came since the last wait. */
#include "nap.h"

#include "clock.h"

/*
 * A sleep takes some 50 us more than it was asked for, so shorter ones are
 * without use; and nobody is to notice the longest.
 */
#define SHORTEST_NS INT64_C(100000)
#define LONGEST_NS INT64_C(1000000)

/* Waits without a nap after one in vain: so a dialogue is hardly disturbed. */
#define HOLD_OFF 256

int64_t dfi__nap_ns(struct nap *nap, uint64_t segments, int64_t now)
{
	int64_t came = (int64_t)(segments - nap->seen);
	int64_t elapsed = now - nap->since, length;

	if (nap->napped && came < 2)
		nap->hold_off = HOLD_OFF;
	nap->napped = false;
	nap->seen = segments;
	nap->since = now;
	if (nap->hold_off) {
		nap->hold_off--;
		return 0;
	}
	/* None, or so seldom that a wake-up for each does no harm; also after a
	 * silence, which says nothing of what comes now. */
	if (came < 1 || elapsed / came > LONGEST_NS)
		return 0;
	length = elapsed / came * nap->segments;
	if (length < SHORTEST_NS)
		return 0;
	nap->napped = true;
	return length < LONGEST_NS ? length : LONGEST_NS;
}

uint64_t dfi__nap(struct nap *nap, uint64_t segments)
{
	int64_t start, length;
	struct timespec time = { .tv_sec = 0 };

	if (!nap->segments)
		return 0;
	start = clock_now_ns();
	length = dfi__nap_ns(nap, segments, start);
	if (!length)
		return 0;
	time.tv_nsec = length;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
	return (uint64_t)(clock_now_ns() - start);
}

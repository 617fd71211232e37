/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether and how long to nap, from what came since the last wait. */
#include "nap.h"

#include "cancel.h"
#include "clock.h"

/*
 * A sleep takes some 50 us more than it was asked for, so shorter ones are
 * without use; and nobody is to notice the longest. Of what comes more seldom
 * than once in SELDOM_NS, a wake-up for each does no harm.
 */
#define SHORTEST_NS INT64_C(100000)
#define SELDOM_NS INT64_C(1000000)
#define LONGEST_NS (2 * SELDOM_NS)

/*
 * Waits without a nap after one in vain; twice as many after a further one, and
 * half as many after one that was not: so a dialogue is hardly disturbed, and a
 * stream of which a nap has brought little by chance naps again soon.
 */
#define LEAST_HOLD_OFF 1
#define MOST_HOLD_OFF 256

/*
 * A dialogue, in which the other side waits for us, too, brings no more than
 * without a nap, however long that is; a stream goes on meanwhile.
 */
static bool in_vain(const struct nap *nap, int64_t came, int64_t elapsed)
{
	return came < 2 || 2 * elapsed >= 3 * came * nap->usual_ns;
}

static void nap_ended(struct nap *nap, bool in_vain)
{
	if (!in_vain) {
		nap->last_hold_off /= 2;
		return;
	}
	if (!nap->last_hold_off)
		nap->last_hold_off = LEAST_HOLD_OFF;
	else if (nap->last_hold_off < MOST_HOLD_OFF)
		nap->last_hold_off *= 2;
	nap->hold_off = nap->last_hold_off;
}

int64_t dfi__nap_ns(struct nap *nap, uint64_t segments, int64_t now)
{
	int64_t came = (int64_t)(segments - nap->seen);
	int64_t elapsed = now - nap->since, length;
	bool napped = nap->napped, held_off;

	if (napped)
		nap_ended(nap, in_vain(nap, came, elapsed));
	held_off = nap->hold_off > 0;
	nap->hold_off -= held_off;
	nap->napped = false;
	nap->seen = segments;
	nap->since = now;
	/* Also after a silence, which says nothing of what comes now. */
	if (came < 1 || elapsed / came > SELDOM_NS)
		return 0;
	/* A nap may hold a dialogue up, but makes nothing faster. */
	if (!napped || elapsed / came < nap->usual_ns)
		nap->usual_ns = elapsed / came;
	length = nap->usual_ns * nap->segments;
	if (held_off || length < SHORTEST_NS)
		return 0;
	nap->napped = true;
	return length < LONGEST_NS ? length : LONGEST_NS;
}

static void sleep_for(int64_t ns)
{
	struct timespec time = { .tv_nsec = ns };
	CANCEL_OFF;

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

uint64_t dfi__nap(struct nap *nap, uint64_t segments)
{
	int64_t start, length;

	if (!nap->segments)
		return 0;
	start = clock_now_ns();
	length = dfi__nap_ns(nap, segments, start);
	if (!length)
		return 0;
	sleep_for(length);
	return (uint64_t)(clock_now_ns() - start);
}

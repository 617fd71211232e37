/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether and how long to pace, from the segments since the last wait.
 */
#include "pace.h"

#include "cancel.h"
#include "clock.h"

/*
 * A sleep takes some 50 us longer than requested, so shorter ones are useless.
 * The longest one is short enough to go unnoticed. If segments come less often
 * than once in SELDOM_NS, a wake-up for each does no harm.
 */
#define SHORTEST_NS INT64_C(100000)
#define SELDOM_NS INT64_C(1000000)
#define LONGEST_NS (2 * SELDOM_NS)

/*
 * Number of waits without a pace after a pace in vain. It doubles after each
 * further one, and halves after one that helped. So a dialogue is hardly
 * disturbed, and a stream soon paces again after one pace that brought little
 * by chance.
 */
#define LEAST_HOLD_OFF 1
#define MOST_HOLD_OFF 256

/*
 * In a dialogue the other side waits for us, so a pace brings no more segments
 * than a wait without one. A stream goes on during a pace.
 */
static bool in_vain(const struct pace *pace, int64_t came, int64_t elapsed)
{
	return came < 2 || 2 * elapsed >= 3 * came * pace->usual_ns;
}

static void pace_ended(struct pace *pace, bool in_vain)
{
	if (!in_vain) {
		pace->last_hold_off /= 2;
		return;
	}
	if (!pace->last_hold_off)
		pace->last_hold_off = LEAST_HOLD_OFF;
	else if (pace->last_hold_off < MOST_HOLD_OFF)
		pace->last_hold_off *= 2;
	pace->hold_off = pace->last_hold_off;
}

int64_t dfi__pace_ns(struct pace *pace, uint64_t segments, int64_t now)
{
	int64_t came = (int64_t)(segments - pace->seen);
	int64_t elapsed = now - pace->since, length;
	bool paced = pace->paced, held_off;

	if (paced)
		pace_ended(pace, in_vain(pace, came, elapsed));
	held_off = pace->hold_off > 0;
	pace->hold_off -= held_off;
	pace->paced = false;
	pace->seen = segments;
	pace->since = now;
	/* A quiet time tells nothing about the segments that come now. */
	if (came < 1 || elapsed / came > SELDOM_NS)
		return 0;
	/*
	 * Only a wait without a pace may raise usual_ns: a pace can delay a
	 * dialogue.
	 */
	if (!paced || elapsed / came < pace->usual_ns)
		pace->usual_ns = elapsed / came;
	length = pace->usual_ns * pace->segments;
	if (held_off || length < SHORTEST_NS)
		return 0;
	pace->paced = true;
	return length < LONGEST_NS ? length : LONGEST_NS;
}

static void sleep_for(int64_t ns)
{
	struct timespec time = { .tv_nsec = ns };
	CANCEL_OFF;

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

uint64_t dfi__pace(struct pace *pace, uint64_t segments)
{
	int64_t start, length;

	if (!pace->segments)
		return 0;
	start = clock_now_ns();
	length = dfi__pace_ns(pace, segments, start);
	if (!length)
		return 0;
	sleep_for(length);
	return (uint64_t)(clock_now_ns() - start);
}

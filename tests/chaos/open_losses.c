/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges what is missing of a source's tuples in shuffle flows without replay;
 * see open_plan.h. Tuples go by lanes: a seat, with keys a partition, else one
 * for all. A target takes those of a lane that were sent to it in their order.
 * So what is missing is behind all that some target has taken of that lane, and
 * that target was lost; or it is the rest of a source that was.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "open_judge.h"

/* The last tuple (n + 1) of each lane that a target has. */
struct taken {
	uint32_t last[OPEN_PARTITIONS][OPEN_ALL_STAYS];
	uint32_t of_all[OPEN_PARTITIONS];
};

static uint32_t of_segment(const struct open_plan *plan)
{
	return plan->segment_size ? plan->segment_size / plan->tuple_size : 1;
}

static bool is_remote(void)
{
	return getenv("DFI_TRANSPORT") != NULL;
}

static uint32_t lane_of(const struct judge *judge, uint32_t source, uint32_t n)
{
	const struct open_plan *plan = judge->plan;

	return plan->names_seats || plan->keyed
	    ? judge->board->sent[source][n] - 1u
	    : 0;
}

static void find_taken(
    const struct judge *judge, uint32_t source, struct taken *taken)
{
	uint32_t n, lane, owner;

	memset(taken, 0, sizeof(*taken));
	for (n = 0; n < atomic_load(&stay(judge, source)->attempted); n++) {
		owner = atomic_load(&judge->board->owner[source][n]);
		if (!owner)
			continue;
		lane = lane_of(judge, source, n);
		taken->last[lane][owner - 1] = n + 1;
		taken->of_all[lane] = n + 1;
	}
}

static bool has_met(const struct judge *judge, uint32_t source, uint32_t target)
{
	const struct stay_board *at = stay(judge, target);
	int64_t end = stay(judge, source)->closed_ns;

	return has_been(judge, target) &&
	    (!end || atomic_load(&at->opening_ns) <= end) &&
	    (!at->closed_ns ||
		at->closed_ns >= atomic_load(&stay(judge, source)->opening_ns));
}

/* Also of a target that was lost when the source had ended. */
static bool has_share(
    const struct judge *judge, uint32_t source, uint32_t target)
{
	const struct stay_board *at = stay(judge, target);

	return has_met(judge, source, target) && !is_whole(judge, target) &&
	    (atomic_load(&at->state) != STAY_REFUSED || at->ret == -ECONNRESET);
}

static int64_t sent_ns(const struct judge *judge, uint32_t source, uint32_t n)
{
	return judge->board->start_ns +
	    judge->board->sent_ms[source][n] * INT64_C(1000000);
}

/* Whether a tuple can have been on its way while that target was there. */
static bool in_time(
    const struct judge *judge, uint32_t source, uint32_t n, uint32_t target)
{
	const struct stay_board *at = stay(judge, target);
	int64_t gone = at->closed_ns > at->failed_ns ? at->closed_ns
						     : at->failed_ns;
	int64_t news_ns = open_news_ms(judge->plan) * INT64_C(1000000);

	if (atomic_load(&at->gone_ns) > gone)
		gone = atomic_load(&at->gone_ns);
	if (!is_excused(judge, target) &&
	    atomic_load(&at->state) != STAY_CLOSING &&
	    sent_ns(judge, source, n) > gone + news_ns)
		return false;
	/* With keys a tuple may have waited for it. */
	return judge->plan->keyed ||
	    n + 1 >= atomic_load(&stay(judge, source)->attempted) ||
	    sent_ns(judge, source, n + 1) + 1000000 >=
	    atomic_load(&at->opening_ns);
}

static bool serves(const struct judge *judge, uint32_t target, uint32_t lane)
{
	const struct stay_board *at = stay(judge, target);

	if (judge->plan->names_seats)
		return at->seat == DFI_ANY_SEAT || at->seat == lane;
	return !judge->plan->keyed || atomic_load(&at->gained[lane]) ||
	    atomic_load(&at->gaining) ||
	    !open_stay_plan(judge->plan, judge->volume, actor_of(target),
		target % OPEN_STAYS)
		 .events;
}

/* Whether a tuple may be lost with some target. */
static bool may_lose(const struct judge *judge, const struct taken *taken,
    uint32_t source, uint32_t n)
{
	uint32_t lane = lane_of(judge, source, n), t;

	for (t = first_target(judge); t < n_stays(judge); t++)
		if (has_share(judge, source, t) && serves(judge, t, lane) &&
		    taken->last[lane][t] <= n && in_time(judge, source, n, t))
			return true;
	return false;
}

/* Whether it is of the rest that a source had not sent when it was lost. */
static bool is_rest(const struct judge *judge, const struct taken *taken,
    uint32_t source, uint32_t n)
{
	uint32_t t;

	if (judge->plan->names_seats || judge->plan->keyed)
		return taken->of_all[lane_of(judge, source, n)] <= n;
	for (t = first_target(judge); t < n_stays(judge); t++)
		if (has_met(judge, source, t) && taken->last[0][t] <= n)
			return true;
	return false;
}

/*
 * A source that died, or aborted, while it was a member: in memory all that it
 * had sent has arrived.
 */
static bool left_all_sent(const struct judge *judge, uint32_t source)
{
	const struct stay_board *at = stay(judge, source);

	return !is_remote() && !is_excused(judge, source) &&
	    !judge->plan->keyed &&
	    !(judge->plan->ordered && judge->plan->evict_after_ms) &&
	    (!survived(judge, source) || at->aborted);
}

static void blame_tuple(
    struct judge *judge, uint32_t source, uint32_t n, const char *what)
{
	char text[200];

	snprintf(text, sizeof(text), "tuple %u, lane %u, is missing, and %s", n,
	    lane_of(judge, source, n), what);
	open_blame(judge, source, OPEN_LOST, text);
}

/* How many are missing. It blames the source for the first one at most. */
static uint32_t judge_each(
    struct judge *judge, const struct taken *taken, uint32_t source)
{
	const struct stay_board *at = stay(judge, source);
	bool whole = is_whole(judge, source), blamed = false;
	uint32_t n, missing = 0, rest[OPEN_PARTITIONS] = { 0 };
	const char *what;

	for (n = 0; n < atomic_load(&at->pushed); n++) {
		if (atomic_load(&judge->board->owner[source][n]))
			continue;
		missing++;
		if (blamed || may_lose(judge, taken, source, n))
			continue;
		what = whole                            ? "its target is whole"
		    : !is_rest(judge, taken, source, n) ? "later ones are there"
		    : left_all_sent(judge, source) &&
			n < atomic_load(&at->flushed)
		    ? "it was flushed"
		    : left_all_sent(judge, source) &&
			judge->plan->names_seats &&
			++rest[lane_of(judge, source, n)] >=
			    of_segment(judge->plan)
		    ? "it ends a segment that was full"
		    : NULL;
		if (what)
			blame_tuple(judge, source, n, what);
		blamed = what != NULL;
	}
	return missing;
}

/* What the rings of targets that were lost may have had. */
static uint64_t most_lost(const struct judge *judge, uint32_t source)
{
	uint64_t n = 0;
	uint32_t t;

	for (t = first_target(judge); t < n_stays(judge); t++)
		if (has_share(judge, source, t))
			n += of_segment(judge->plan) *
			    (judge->plan->segment_count + 1);
	return n;
}

/* A segment that is not full for each target. */
static uint64_t most_unsent(const struct judge *judge, uint32_t source)
{
	uint64_t n = 0;
	uint32_t t;

	for (t = first_target(judge); t < n_stays(judge); t++)
		if (has_met(judge, source, t))
			n += of_segment(judge->plan) - 1;
	return n;
}

static bool is_dead(const struct judge *judge, uint32_t id)
{
	return has_been(judge, id) &&
	    (!survived(judge, id) || is_excused(judge, id));
}

/*
 * Of a target that was lost, what it has received and not given back: all of
 * its ring if it was killed or evicted, else the segment that it had begun.
 */
static uint64_t most_given_back_late(const struct judge *judge, uint32_t target)
{
	const struct open_plan *plan = judge->plan;

	return (of_segment(plan) + 1) *
	    (is_dead(judge, target) || is_remote() || plan->evict_after_ms
		    ? plan->segment_count
		    : 1);
}

/* So dfi_source_dropped() may count as much though it was received. */
static uint64_t most_unknown(const struct judge *judge, uint32_t source)
{
	uint64_t n = 0;
	uint32_t t;

	for (t = first_target(judge); t < n_stays(judge); t++)
		if (open_loses(judge, source, t))
			n += most_given_back_late(judge, t);
	return n;
}

static void judge_number(struct judge *judge, uint32_t source, uint32_t missing)
{
	const struct stay_board *at = stay(judge, source);
	uint64_t most = most_lost(judge, source);
	bool whole = is_whole(judge, source);
	char text[200];

	snprintf(text, sizeof(text),
	    "%u tuples are missing, dropped says %" PRIu64 ", %" PRIu64
	    " were at lost targets at most",
	    missing, at->dropped, most);
	if (!whole)
		most += most_unsent(judge, source);
	if ((whole || left_all_sent(judge, source)) && missing > most)
		open_blame(judge, source, OPEN_LOST, text);
	else if (whole && at->settled && missing > at->dropped)
		open_blame(judge, source, OPEN_LOST, text);
	if (whole && at->dropped > missing + most_unknown(judge, source))
		open_blame(judge, source, OPEN_HARMED, text);
}

void open_judge_losses(struct judge *judge, uint32_t source)
{
	struct taken *taken = malloc(sizeof(*taken));

	if (!taken)
		abort();
	find_taken(judge, source, taken);
	judge_number(judge, source, judge_each(judge, taken, source));
	free(taken);
}

/* ---- Replicate flows ----------------------------------------------------- */

/* What dfi_source_dropped() may say: all that lost targets had not taken. */
static void judge_dropped(struct judge *judge, uint32_t source)
{
	const struct stay_board *at = stay(judge, source);
	uint64_t ring = (uint64_t)of_segment(judge->plan) *
	    (judge->plan->segment_count + 1);
	uint64_t most = 0, rest;
	uint32_t t;
	char text[200];

	for (t = first_target(judge); t < n_stays(judge); t++) {
		if (!open_loses(judge, source, t))
			continue;
		rest = atomic_load(&at->pushed) -
		    judge->board->last_of[t][source] +
		    most_given_back_late(judge, t);
		most += rest < ring ? rest : ring;
	}
	if (at->dropped <= most)
		return;
	snprintf(text, sizeof(text),
	    "dropped says %" PRIu64 ", of lost targets it may be %" PRIu64,
	    at->dropped, most);
	open_blame(judge, source, OPEN_HARMED, text);
}

/* All who have met a source that died have what it had sent. */
static void judge_sent(struct judge *judge, uint32_t source)
{
	uint32_t sent = atomic_load(&stay(judge, source)->flushed), t, last;
	uint32_t pushed = atomic_load(&stay(judge, source)->pushed);
	char text[100];

	/* Full segments. In an ordered flow they may wait for a number. */
	if (!judge->plan->ordered &&
	    pushed + 1 > sent + of_segment(judge->plan))
		sent = pushed + 1 - of_segment(judge->plan);

	for (t = first_target(judge); t < n_stays(judge); t++) {
		last = judge->board->last_of[t][source];
		if (!last || last >= sent || !is_whole(judge, t))
			continue;
		snprintf(text, sizeof(text),
		    "of stay %u it has %u tuples, %u were sent", source, last,
		    sent);
		open_blame(judge, t, OPEN_LOST, text);
	}
}

void open_judge_copies(struct judge *judge, uint32_t source)
{
	if (is_whole(judge, source))
		judge_dropped(judge, source);
	else if (left_all_sent(judge, source))
		judge_sent(judge, source);
}

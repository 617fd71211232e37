/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of an open combiner flow. The sources of its pairs combine and send
 * marks, as that of a closed flow does for each of its targets. All targets
 * stay: each has its part of the groups, so the loss of one fails the source.
 */
#include "open_source.h"

#include <dfi/mark.h>
#include "base/bits.h"
#include "base/clock.h"
#include "base/error.h"
#include "flows/kinds/combine/combine_source.h"
#include "flows/kinds/combine/state.h"
#include "flows/kinds/combine/window.h"

bool dfi__open_combine_used(struct dfi_source *end)
{
	return end->rings[0].seq != RING_FIRST_SEGMENT ||
	    source_filled(end, 0) ||
	    (combine_of(end) && dfi__combine_holds(end, 0));
}

/* How long a source waits for the registry's news before it fails. */
#define NEWS_NS (INT64_C(1) * NS_PER_S)

/*
 * The target of a combiner flow has closed its end. It may have left, and then
 * the source fails; or this source was evicted, and the target heard of it
 * first.
 */
bool dfi__open_combine_is_put_out(struct dfi_source *source, uint32_t seat)
{
	struct open_source *open = open_source(source);
	struct seat_watch *seats = &open->pairs.seats;
	struct timespec until = deadline_timespec(clock_now_ns() + NEWS_NS);
	bool evicted;
	int err = 0;

	if (!open->combines || !source->flow.evict_after_ms)
		return false;
	pthread_mutex_lock(&seats->lock);
	while (!err && !seats->seats.evicted &&
	    seat_watch_holder(seats, seat) == open->taken[seat]->incarnation)
		err = pthread_cond_timedwait(
		    &seats->changed, &seats->lock, &until);
	evicted = seats->seats.evicted;
	pthread_mutex_unlock(&seats->lock);
	return evicted;
}

uint32_t dfi__open_combine_left(const struct open_source *open)
{
	const struct seat_watch *seats = &open->pairs.seats;
	uint32_t i, n = open_seats(open->source);

	for (i = 0; open->combines && i < n; i++)
		if (!open->ends[i] &&
		    seats->seats.seats[OPEN_TARGET][i].taken &&
		    !dfi__pairs_expected(&open->pairs, i))
			return i;
	return n;
}

/* What a call on a pair's source has returned, as this source's error. */
static int result(struct dfi_source *source, uint32_t seat, int ret)
{
	return ret == -EAGAIN || ret >= 0 ? ret : dfi__open_lose(source, seat);
}

/*
 * An error if a target has left for good. The end of its pair may be gone
 * before the registry's news: it was lost before it was used, and none comes
 * instead.
 */
static int check_stays(struct dfi_source *source, uint32_t seat)
{
	struct open_source *open = open_source(source);
	bool may_come = !open->may_push || open->ends[seat] ||
	    dfi__open_is_expected(source, seat);

	return may_come ? 0 : dfi__open_empty_seat(source, seat);
}

/* A target, or room in its ring, is not there now: wait, as the handle may. */
static int wait_for(struct dfi_source *source, uint32_t seat, int64_t *until)
{
	struct open_source *open = open_source(source);
	int ret = check_stays(source, seat);

	if (!ret && !open->may_push)
		ret = dfi__open_expect_some(source, open_seats(source));
	if (!ret && source_interrupted(source))
		ret = dfi__source_interrupted(source);
	return ret < 0 ? ret
		       : dfi__open_await_room(source,
			     open->may_push ? seat : open_seats(source), until);
}

/* ---- Flushing ---------------------------------------------------------- */

int dfi__open_combine_flush(struct dfi_source *source, uint32_t lane)
{
	struct open_source *open = open_source(source);
	int64_t until = 0;
	int ret;

	dfi__open_lane_park(source, lane);
	for (;;) {
		ret = source_check(source);
		if (!ret)
			ret = dfi__open_adopt(source);
		if (!ret)
			ret = check_stays(source, lane);
		if (ret < 0 || !open->ends[lane])
			return ret;
		ret = result(source, lane, lane_flush(open->ends[lane], 0));
		if (ret == -EAGAIN)
			ret = wait_for(source, lane, &until);
		else
			return ret;
		if (ret < 0)
			return ret;
	}
}

int dfi__open_combine_finish(struct dfi_source *source, int64_t deadline)
{
	open_sleep_to_close(source);
	return dfi__source_finish(source, deadline);
}

uint32_t dfi__open_combine_most_room(const struct dfi_source *source,
    uint32_t n, const char **why, const char **instead)
{
	const struct open_source *open = open_source(source);
	uint32_t seat = 0, most = n;

	while (seat < open_seats(source) && !open->ends[seat])
		seat++;
	if (seat < open_seats(source) && combine_of(open->ends[seat]))
		most = (uint32_t)min_u64(n,
		    combine_of(open->ends[seat])->stage_size /
			source->head.tuple_size);
	if (most < n) {
		*why = "do not fit what a source that combines builds tuples "
		       "in";
		*instead = "create the flow with larger combining_bytes";
	}
	return most;
}

/* ---- Marks -------------------------------------------------------------- */

/* Make room for a mark at all targets: 1; 0: *seat has none; or an error. */
static int carry(struct dfi_source *source, uint32_t *seat)
{
	struct open_source *open = open_source(source);
	uint32_t i;
	int ret;

	for (i = 0; i < open_seats(source); i++) {
		*seat = i;
		if (!open->may_push || !open->ends[i])
			return 0;
		dfi__open_lane_park(source, i);
		ret = result(source, i, dfi__window_carry(open->ends[i]));
		if (ret < 0)
			return ret == -EAGAIN ? 0 : ret;
		/* It was lost before it was used: another pair comes. */
		if (!open->ends[i])
			return 0;
	}
	return 1;
}

static int make_room(struct dfi_source *source)
{
	int64_t until = 0;
	uint32_t seat = 0;
	int ret;

	for (;;) {
		ret = source_check(source);
		if (!ret)
			ret = dfi__open_adopt(source);
		if (!ret)
			ret = carry(source, &seat);
		if (ret != 0)
			return ret < 0 ? ret : 0;
		ret = wait_for(source, seat, &until);
		if (ret < 0)
			return ret;
	}
}

int dfi__open_combine_mark(struct dfi_source *source, uint64_t mark)
{
	struct open_source *open = open_source(source);
	uint32_t i;
	int ret = make_room(source);

	source->mark_refused = ret;
	for (i = 0; ret >= 0 && i < open_seats(source); i++)
		ret = result(source, i, dfi_source_mark(open->ends[i], mark));
	return ret < 0 ? ret : 0;
}

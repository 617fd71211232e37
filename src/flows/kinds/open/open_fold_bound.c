/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With evict_after_ms a source of an open combiner flow that keeps a window
 * from ending is evicted: others have ended it and wait, and nothing comes of
 * that one. The owner looks, and the helper wakes it for that.
 */
#include "open_target.h"

#include "base/clock.h"
#include "flows/open/overdue.h"

static int64_t limit_of(const struct dfi_target *target)
{
	return target->flow.evict_after_ms * (int64_t)NS_PER_MS;
}

/* Of one that has not ended the window. late: time that does not count. */
static void look_at(
    struct open_target *open, struct taken *taken, int64_t now, int64_t late)
{
	uint64_t seq = taken->end->readers[0].seq;

	if (!taken->quiet_since || taken->seen != seq) {
		taken->seen = seq;
		taken->quiet_since = now;
		pairs_spare(taken->pair);
		return;
	}
	taken->quiet_since += late;
	if (now - taken->quiet_since <= limit_of(open->target))
		return;
	taken->quiet_since = now;
	dfi__pairs_evict(&open->pairs, taken->pair, EVICTION_WINDOW);
}

/* The window ends, or has not been ended by any. */
static void forget(struct open_target *open)
{
	uint32_t i;

	if (likely(!open->window_looked))
		return;
	open->window_looked = 0;
	atomic_set(&open->window_waits, false);
	for (i = 0; i < open_n_taken(open); i++) {
		open->taken[i].quiet_since = 0;
		pairs_spare(open->taken[i].pair);
	}
}

void dfi__open_fold_found_nothing(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	struct seat_watch *seats = &open->pairs.seats;
	int64_t now, late = 0;
	uint32_t i;

	if (!limit_of(target))
		return;
	if (!open->n_held || open->n_held == open_n_taken(open)) {
		forget(open);
		return;
	}
	now = clock_now_ns();
	/* Who was stopped itself doesn't count that time; see overdue.h. */
	if (open->window_looked)
		late = now - open->window_looked -
		    limit_of(target) / OPEN_OVERDUE_LOOKS;
	open->window_looked = now;
	for (i = 0; i < open_n_taken(open); i++)
		if (!open->taken[i].held)
			look_at(
			    open, &open->taken[i], now, late > 0 ? late : 0);
	if (atomic_peek(&open->window_waits))
		return;
	atomic_set(&open->window_waits, true);
	pthread_mutex_lock(&seats->lock);
	seat_watch_call(seats);
	pthread_mutex_unlock(&seats->lock);
}

int64_t dfi__open_fold_tend(struct open_target *open)
{
	return atomic_peek(&open->window_waits)
	    ? clock_now_ns() + limit_of(open->target) / OPEN_OVERDUE_LOOKS
	    : DEADLINE_NEVER;
}

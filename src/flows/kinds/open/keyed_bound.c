/* SPDX-License-Identifier: Apache-2.0 */
/* See keyed_bound.h. */
#include "keyed_bound.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "flows/members/eviction.h"

/* How long it tries to evict somebody before it looks again who is due. */
#define EVICT_NS (INT64_C(2) * NS_PER_S)

static int64_t limit_of(const struct seat_watch *seats)
{
	return seats->flow->evict_after_ms * (int64_t)NS_PER_MS;
}

/* Under the lock: whether it still holds up that table. */
static bool still_holds_up(const struct keyed_target *target,
    const struct eviction *eviction, uint64_t table)
{
	if (target->tables->newest.number != table || target->seats->evicted)
		return false;
	return eviction->role == OPEN_SOURCE
	    ? dfi__open_target_misses(target, eviction->seat)
	    : dfi__open_holds_up(target->tables, target->seats, eviction->seat);
}

/*
 * Under the lock, which it gives up in between. If the registry has taken as
 * long as a step to answer, others may wait for it as well, with their part
 * done.
 */
static void evict(struct hand_bound *bound, struct seat_watch *seats,
    const struct keyed_target *target, enum open_role role, uint32_t seat,
    enum eviction_why why)
{
	struct eviction eviction = {
		.role = role,
		.seat = seat,
		.incarnation =
		    target->seats->seats[role][seat].holder.incarnation,
		.why = why,
	};
	uint64_t table = target->tables->newest.number;
	int64_t begun = clock_now_ns(), deadline = begun + EVICT_NS;
	bool is_due = false;
	int ret;

	pthread_mutex_unlock(&seats->lock);
	ret = dfi__eviction_begin(seats, &eviction, deadline);
	pthread_mutex_lock(&seats->lock);
	if (clock_now_ns() - begun > limit_of(seats))
		dfi__open_overdue_restart(&bound->overdue, clock_now_ns());
	else
		is_due = !ret && still_holds_up(target, &eviction, table);
	pthread_mutex_unlock(&seats->lock);
	if (!ret)
		ret = dfi__eviction_end(seats, &eviction, is_due, deadline);
	if (ret < 0)
		dfi__log(DFI_LOG_WARN, "%s", dfi_errmsg());
	pthread_mutex_lock(&seats->lock);
}

/* Those whose marks this target misses. It has seen that nothing is there. */
static void evict_sources(struct hand_bound *bound, struct seat_watch *seats,
    const struct keyed_target *target, int64_t now, int64_t limit)
{
	uint32_t seat = 0;

	while (dfi__open_overdue_source(
	    &bound->overdue, target, now, limit, &seat)) {
		if (!bound->is_empty) {
			/* The owner wakes up when the helper is done. */
			atomic_set(&bound->is_asked, true);
			return;
		}
		evict(bound, seats, target, OPEN_SOURCE, seat++, EVICTION_MARK);
	}
	bound->is_empty = false;
}

static void evict_target(struct hand_bound *bound, struct seat_watch *seats,
    const struct keyed_target *target, int64_t now, int64_t limit)
{
	uint32_t seat;
	bool releases;

	if (!dfi__open_overdue_target(
		&bound->overdue, target, now, limit, &seat, &releases))
		return;
	evict(bound, seats, target, OPEN_TARGET, seat,
	    releases ? EVICTION_RELEASE : EVICTION_TAKE);
}

int64_t dfi__hand_bound_tend(struct hand_bound *bound, struct seat_watch *seats,
    const struct keyed_target *target)
{
	int64_t limit = limit_of(seats), now = clock_now_ns();
	bool waits;

	if (!limit)
		return DEADLINE_NEVER;
	pthread_mutex_lock(&seats->lock);
	if (seats->restoring) {
		dfi__open_overdue_restart(&bound->overdue, now);
	} else {
		evict_sources(bound, seats, target, now, limit);
		evict_target(bound, seats, target, now, limit);
	}
	waits = target->tables->newest.number && !target->seats->evicted &&
	    !dfi__open_is_settled(target->tables, target->seats);
	pthread_mutex_unlock(&seats->lock);
	return waits ? clock_now_ns() + limit / OPEN_OVERDUE_LOOKS
		     : DEADLINE_NEVER;
}

void dfi__hand_bound_answer(struct hand_bound *bound, struct seat_watch *seats)
{
	pthread_mutex_lock(&seats->lock);
	atomic_set(&bound->is_asked, false);
	bound->is_empty = true;
	seat_watch_call(seats);
	pthread_mutex_unlock(&seats->lock);
}

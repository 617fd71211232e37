/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a target tells sources that have returned what was acknowledged, and
 * gives up those that do not return: R4, R7 and R8 of docs/open-flows.md.
 */
#include "acks.h"

#include <errno.h>
#include <stdlib.h>
#include "base/clock.h"
#include "flows/members/tables_watch.h"
#include "flows/open/value.h"

/* How long after a failure the helper asks the registry again. */
#define AGAIN_NS (INT64_C(100) * NS_PER_MS)

void dfi__acks_call(struct acks *acks)
{
	acks->reports = true;
	seat_watch_call(acks->seats);
}

static size_t value_bytes(const struct acks *acks)
{
	uint32_t n = acks->flow->partitions;

	return (n ? dfi__open_positions_bytes(n) : OPEN_LOW_BYTES) +
	    OPEN_ACKS_BYTES;
}

/* Under the lock, which it gives up in between. */
static int report_one(struct acks *acks, const struct keyed_target *state,
    uint32_t source, uint8_t *bytes)
{
	struct seat_watch *seats = acks->seats;
	int ret;

	if (state)
		dfi__open_positions_encode(
		    dfi__acks_of(acks, source), state, bytes);
	else
		dfi__open_low_encode(atomic_peek(&acks->lows[source]), bytes);
	dfi__open_acks_encode(acks->segments[source].pair,
	    acks->segments[source].segments,
	    bytes + value_bytes(acks) - OPEN_ACKS_BYTES);
	pthread_mutex_unlock(&seats->lock);
	ret = dfi__tables_watch_positions(
	    seats, source, bytes, value_bytes(acks));
	pthread_mutex_lock(&seats->lock);
	return ret;
}

int dfi__acks_report(struct acks *acks, const struct keyed_target *state)
{
	struct seat_watch *seats = acks->seats;
	uint8_t *bytes;
	uint32_t i;
	int ret = 0;

	if (!acks->reports)
		return 0;
	bytes = malloc(value_bytes(acks));
	if (!bytes)
		return -EAGAIN;
	acks->reports = false;
	for (i = 0; !ret && i < seats->n_others; i++)
		if (seat_watch_holder(seats, i))
			ret = report_one(acks, state, i, bytes);
	free(bytes);
	acks->reports |= ret < 0;
	return ret;
}

int64_t dfi__acks_tend(struct acks *acks)
{
	struct seat_watch *seats = acks->seats;
	uint64_t holder;
	uint32_t i;
	int ret;

	pthread_mutex_lock(&seats->lock);
	for (i = 0; i < seats->n_others; i++) {
		holder = seat_watch_holder(seats, i);
		acks->reports |= holder && holder != acks->holders[i];
		acks->holders[i] = holder;
	}
	ret = dfi__acks_report(acks, NULL);
	pthread_mutex_unlock(&seats->lock);
	return ret < 0 ? clock_now_ns() + AGAIN_NS : DEADLINE_NEVER;
}

void dfi__acks_withdraw(struct acks *acks)
{
	uint32_t i;

	for (i = 0; acks && i < acks->flow->n_sources; i++)
		if (dfi__acks_is_known(acks, i))
			dfi__tables_watch_withdraw(acks->seats, i);
}

/* ---- Sources that do not return ------------------------------------------ */

void dfi__acks_lost(struct open_target *open, const struct taken *taken)
{
	struct seat_watch *seats = &open->pairs.seats;

	if (!open->acks)
		return;
	pthread_mutex_lock(&seats->lock);
	open->acks->lost[taken->seat] = (struct lost){
		.incarnation = taken->pair->incarnation,
		.at = clock_now_ns(),
	};
	seat_watch_call(seats);
	pthread_mutex_unlock(&seats->lock);
}

uint64_t dfi__acks_gave_up(struct open_target *open, uint32_t source)
{
	const struct seat_watch *seats = &open->pairs.seats;
	struct lost *lost = &open->acks->lost[source];
	uint64_t incarnation = lost->incarnation;

	/* The next holder's tuples may be on their way. */
	if (!incarnation || dfi__pairs_expected(&open->pairs, source) ||
	    !open_seat_is_given_up(&seats->seats, source, seats->finished))
		return 0;
	*lost = (struct lost){ 0 };
	return incarnation;
}

/* Under the lock, which it gives up in between: when a seat is due. */
static int64_t give_up(struct acks *acks, uint32_t source, int64_t now)
{
	struct seat_watch *seats = acks->seats;
	struct lost *lost = &acks->lost[source];
	uint64_t incarnation = lost->incarnation;
	int64_t at;
	int ret;

	if (!incarnation || lost->at == INT64_MAX ||
	    seat_watch_holder(seats, source))
		return DEADLINE_NEVER;
	at = lost->at + acks->flow->return_timeout_ms * (int64_t)NS_PER_MS;
	if (at > now)
		return at;
	pthread_mutex_unlock(&seats->lock);
	ret = dfi__tables_watch_give_up(seats, source);
	pthread_mutex_lock(&seats->lock);
	if (ret < 0)
		return now + AGAIN_NS;
	if (lost->incarnation == incarnation)
		lost->at = INT64_MAX;
	return DEADLINE_NEVER;
}

int64_t dfi__acks_give_up(struct acks *acks)
{
	int64_t at, next = DEADLINE_NEVER, now;
	uint32_t i;

	if (!acks->flow->return_timeout_ms)
		return next;
	now = clock_now_ns();
	pthread_mutex_lock(&acks->seats->lock);
	for (i = 0; i < acks->flow->n_sources; i++) {
		at = give_up(acks, i, now);
		next = at < next ? at : next;
	}
	pthread_mutex_unlock(&acks->seats->lock);
	return next;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the helper of a source does for its partitions, also while the owner
 * makes no calls: it adopts tables, sends marks, and sends tuples that wait or
 * have lingered.
 */
#include "keyed.h"

#include <sched.h>
#include "base/clock.h"

/* The most that the helper waits until a ring may have room. */
#define MOST_PAUSE_NS (INT64_C(8) * NS_PER_MS)

static void latch_take(struct keyed *keyed)
{
	pthread_mutex_lock(&keyed->latch);
	__atomic_store_n(&keyed->wanted, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&keyed->table.lanes, keyed->shut, __ATOMIC_RELAXED);
	(void)dfi__fence_heavy();
	/* Pairs with latch_leave(). */
	while (__atomic_load_n(&keyed->table.inside, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void latch_give(struct keyed *keyed)
{
	/* Pair with latch_enter() and dfi_source_push_table(). */
	__atomic_store_n(&keyed->wanted, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&keyed->table.lanes, keyed->lanes, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&keyed->latch);
}

bool dfi__keyed_say(struct dfi_source *source, struct dfi_source *end,
    uint64_t table, uint64_t asks)
{
	struct writer *writer = &end->writers[0];
	uint64_t filled;
	int ret;

	if (!writer->segment) {
		ret = dfi__open_end_segment(end);
		if (ret <= 0)
			return ret < 0;
	}
	filled = source_filled(end, 0);
	if (!filled)
		open_note_mark(end);
	dfi__keyed_count(source, end);
	replay_set_input(source, end);
	writer->table = table;
	writer->settled |= asks;
	ret = lane_publish(end, 0, filled);
	writer->table = 0;
	if (ret < 0 || source_target_life(end, 0))
		(void)dfi__source_target_left(end, 0);
	else
		(void)dfi__source_open_segment(end, 0);
	if (open_source(source)->keyed->linger_ns)
		dfi__keyed_park(open_source(source)->keyed, end);
	return true;
}

/* Send a mark behind all that was sent to a target; false: it has no room. */
static bool mark(struct dfi_source *source, uint32_t seat)
{
	struct keyed *keyed = open_source(source)->keyed;
	struct dfi_source *end = keyed_end(open_source(source), seat);

	if (!end || open_is_lost(end))
		return true;
	if (!dfi__keyed_say(
		source, end, open_source_owes(&keyed->state, seat), 0))
		return false;
	dfi__open_source_marked(&keyed->state, seat);
	open_note_room(open_source(source), seat, true);
	return true;
}

/* Inside the latch, without the lock. */
static void work(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	struct keyed *keyed = open->keyed;
	struct seat_watch *seats = &open->pairs.seats;
	uint32_t i;

	if (!keyed->state.tables || source->status)
		return;
	if (source->flow.on_loss == DFI_ON_LOSS_FAIL) /* the owner fails */
		pthread_mutex_lock(&seats->lock);
	else if (dfi__open_lock(source) < 0)
		return;
	for (i = 0; i < open_seats(source); i++)
		dfi__open_take(open, i);
	dfi__keyed_learn(open);
	pthread_mutex_unlock(&seats->lock);
	keyed->needs_room = keyed->has_sent = false;
	for (i = 0; i < open_seats(source); i++)
		if (open_source_owes(&keyed->state, i) && !mark(source, i)) {
			open_note_room(open, i, false);
			keyed->needs_room = true;
		}
	dfi__keyed_send_held(source);
	if (keyed->closing)
		dfi__replay_ask(source);
	/* The helper comes again, as it needs room. */
	(void)dfi__open_evict_overdue(source);
}

int64_t dfi__keyed_tend(void *owner)
{
	struct open_source *open = owner;
	struct keyed *keyed = open->keyed;
	int64_t pause, linger;

	if (!keyed)
		return DEADLINE_NEVER;
	latch_take(keyed);
	work(open->source);
	linger = dfi__keyed_linger(open->source);
	pause = !keyed->needs_room ? 0
	    : keyed->has_sent      ? KEYED_LEAST_PAUSE_NS
				   : keyed->pause_ns * 2;
	pause = pause < MOST_PAUSE_NS ? pause : MOST_PAUSE_NS;
	keyed->pause_ns = pause ? pause : KEYED_LEAST_PAUSE_NS / 2;
	latch_give(keyed);
	if (pause)
		linger = (int64_t)min_u64(
		    (uint64_t)linger, (uint64_t)(clock_now_ns() + pause));
	return linger;
}

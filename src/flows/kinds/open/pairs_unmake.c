/* SPDX-License-Identifier: Apache-2.0 */
/* How pairs that are retired are closed, and peers evicted; see pairs.h. */
#include "pairs.h"

#include <stdlib.h>
#include "base/clock.h"
#include "base/thread.h"
#include "flows/members/eviction.h"

/* How long it tries to evict one. */
#define EVICT_NS (INT64_C(2) * NS_PER_S)

struct unmaker {
	pthread_t thread;
	struct pairs *pairs;
	void *end;
	bool done;
};

static void *run(void *arg)
{
	struct unmaker *unmaker = arg;
	struct seat_watch *seats = &unmaker->pairs->seats;

	unmaker->pairs->ops->unmake(unmaker->end);
	pthread_mutex_lock(&seats->lock);
	unmaker->done = true;
	seat_watch_call(seats);
	pthread_mutex_unlock(&seats->lock);
	return NULL;
}

/* False: there is no thread, so that the helper has to do it. */
static bool start(struct pairs *pairs, struct pair *pair)
{
	struct unmaker *unmaker = calloc(1, sizeof(*unmaker));

	if (!unmaker)
		return false;
	unmaker->pairs = pairs;
	unmaker->end = pair->end;
	if (dfi__thread_start("dfi-unpair", run, unmaker, &unmaker->thread)) {
		free(unmaker);
		return false;
	}
	pair->unmaker = unmaker;
	pair->end = NULL;
	return true;
}

/* Its thread needs the lock no more, or it is not held. */
static void join(struct pair *pair)
{
	pthread_join(pair->unmaker->thread, NULL);
	free(pair->unmaker);
	pair->unmaker = NULL;
}

static bool may_be_stopped(
    const struct pairs *pairs, uint32_t seat, const struct pair *pair)
{
	return atomic_peek(&pair->evicted) ||
	    eviction_was_of(
		&pairs->seats, pairs->seats.other, seat, pair->incarnation);
}

bool dfi__pairs_unmake(struct pairs *pairs, uint32_t seat, struct pair *pair)
{
	void *end = pair->end;

	if (pair->unmaker) {
		if (!pair->unmaker->done)
			return false;
		join(pair);
	} else if (may_be_stopped(pairs, seat, pair) && start(pairs, pair)) {
		pair->state = PAIR_RETIRED;
		return true;
	} else {
		/* One that was left over: its owner takes it no more. */
		pair->state = PAIR_RETIRED;
		pthread_mutex_unlock(&pairs->seats.lock);
		pairs->ops->unmake(end);
		pthread_mutex_lock(&pairs->seats.lock);
	}
	pairs->of[seat].try_at = 0;
	*pair = (struct pair){ .state = PAIR_NONE };
	return true;
}

void dfi__pairs_await_unmade(struct pairs *pairs)
{
	uint32_t i, n = pairs->seats.n_others * SEAT_PAIRS;
	struct pair *pair;

	for (i = 0; i < n; i++) {
		pair = &pairs->of[i / SEAT_PAIRS].pair[i % SEAT_PAIRS];
		if (pair->unmaker)
			join(pair);
	}
}

/* ---- Evicting ------------------------------------------------------------ */

void dfi__pairs_evict(
    struct pairs *pairs, struct pair *pair, enum eviction_why why)
{
	pthread_mutex_lock(&pairs->seats.lock);
	atomic_set(&pair->evict, why);
	seat_watch_call(&pairs->seats);
	pthread_mutex_unlock(&pairs->seats.lock);
}

void dfi__pairs_evict_broken(
    struct pairs *pairs, uint32_t seat, struct pair *pair)
{
	pthread_mutex_lock(&pairs->seats.lock);
	pairs->of[seat].try_at = clock_now_ns() + PAIRS_AGAIN_NS;
	pthread_mutex_unlock(&pairs->seats.lock);
	dfi__pairs_evict(pairs, pair, EVICTION_BROKEN);
}

/* ---- Eviction ---------------------------------------------------------- */

/* One that has lost its own seat may be the one that was cut off. */
static bool may_evict(
    const struct pairs *pairs, uint32_t seat, const struct pair *pair)
{
	return !pairs->seats.seats.evicted && atomic_peek(&pair->evict) &&
	    seat_watch_holder(&pairs->seats, seat) == pair->incarnation;
}

void dfi__pairs_tend_eviction(
    struct pairs *pairs, uint32_t seat, struct pair *pair)
{
	int64_t deadline = clock_now_ns() + EVICT_NS;
	struct eviction eviction = {
		.role = pairs->seats.other,
		.seat = seat,
		.incarnation = pair->incarnation,
		.why = (enum eviction_why)atomic_peek(&pair->evict),
	};
	bool is_due;
	int ret;

	if (!may_evict(pairs, seat, pair)) {
		atomic_set(&pair->evict, 0);
		return;
	}
	pthread_mutex_unlock(&pairs->seats.lock);
	ret = dfi__eviction_begin(&pairs->seats, &eviction, deadline);
	pthread_mutex_lock(&pairs->seats.lock);
	is_due = !ret && may_evict(pairs, seat, pair);
	pthread_mutex_unlock(&pairs->seats.lock);
	if (!ret)
		ret = dfi__eviction_end(
		    &pairs->seats, &eviction, is_due, deadline);
	pthread_mutex_lock(&pairs->seats.lock);
	/* The owner may have spared it meanwhile. */
	if (ret < 0)
		pairs->of[seat].try_at = clock_now_ns() + PAIRS_AGAIN_NS;
	else
		atomic_set(&pair->evict, 0);
}

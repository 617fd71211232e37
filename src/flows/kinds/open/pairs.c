/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and unmakes pairs on the helper thread, as the registry reports who
 * comes and goes.
 */
#include "pairs.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/bits.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/log.h"
#include "base/thread.h"
#include "flows/context/context.h"
#include "flows/context/network.h"
#include "flows/members/eviction.h"

#define HELPER "dfi-pairs"

/* How long a source tries for one peer, which may be stopped. */
#define MAKE_NS (INT64_C(2) * NS_PER_S)
/* How long a target tries, which only asks the registry. */
#define PUBLISH_NS (INT64_C(10) * NS_PER_S)

static void notify_owner(struct pairs *pairs)
{
	/* Pairs with pairs_changes(). */
	atomic_publish(&pairs->changes, atomic_peek(&pairs->changes) + 1);
	dfi__peers_wake(pairs->sleeper);
}

/* How often this target has failed to make the pair with a holder. */
static uint32_t attempts(const struct seat_pairs *of, uint64_t holder)
{
	return of->tried == holder ? of->attempts : 0;
}

/* The id under which the pair with a seat's holder can be made by now, or 0. */
static uint64_t next_id(const struct pairs *pairs, uint32_t seat)
{
	const struct seat_watch *seats = &pairs->seats;
	uint64_t holder = seat_watch_holder(seats, seat);

	if (!holder)
		return 0;
	/* A source opens a ring that its target has published. */
	return seats->role == OPEN_SOURCE
	    ? dfi__seat_watch_attached(seats, seat, holder)
	    : dfi__seat_watch_pair(
		  seats, holder, attempts(&pairs->of[seat], holder));
}

bool dfi__pairs_expected(const struct pairs *pairs, uint32_t seat)
{
	const struct seat_pairs *of = &pairs->of[seat];
	uint64_t holder = seat_watch_holder(&pairs->seats, seat);
	uint64_t id = next_id(pairs, seat);
	uint32_t i;

	for (i = 0; i < SEAT_PAIRS; i++)
		if (of->pair[i].state != PAIR_NONE && !of->pair[i].unmaker)
			return true;
	return holder &&
	    (holder != of->last || (id && id != of->last_id) ||
		holder == of->doubted);
}

/*
 * Whether the owner may take a pair that is ready. If an earlier attempt has
 * failed, the source may have gone, so a target waits for it.
 */
static bool may_take(
    const struct pairs *pairs, uint32_t seat, const struct pair *pair)
{
	return pair->state == PAIR_READY &&
	    (pairs->seats.role == OPEN_SOURCE ||
		!attempts(&pairs->of[seat], pair->incarnation) ||
		dfi__seat_watch_attached(
		    &pairs->seats, seat, pair->incarnation) == pair->id);
}

static bool is_coming(const struct pairs *pairs, uint32_t seat)
{
	const struct pair *pair = pairs->of[seat].pair;
	uint64_t holder = seat_watch_holder(&pairs->seats, seat);
	bool comes = false;
	uint32_t i;

	for (i = 0; i < SEAT_PAIRS; i++, pair++) {
		if (pair->state == PAIR_TAKEN)
			return false;
		comes |= pair->state == PAIR_MAKING ||
		    (pair->state == PAIR_READY &&
			(pair->incarnation == holder ||
			    may_take(pairs, seat, pair)));
	}
	return comes;
}

bool dfi__pairs_are_coming(const struct pairs *pairs)
{
	uint32_t i;

	for (i = 0; i < pairs->seats.n_others; i++)
		if (is_coming(pairs, i))
			return true;
	return false;
}

struct pair *dfi__pairs_take(struct pairs *pairs, uint32_t seat, bool beside)
{
	struct pair *pair = pairs->of[seat].pair, *next = NULL;
	uint32_t i;

	for (i = 0; i < SEAT_PAIRS; i++, pair++) {
		if (pair->state == PAIR_TAKEN && !beside)
			return NULL;
		if (may_take(pairs, seat, pair) &&
		    (!next || pair->number < next->number))
			next = pair;
	}
	if (next) {
		next->state = PAIR_TAKEN;
		if (next->incarnation == pairs->of[seat].doubted)
			pairs->of[seat].doubted = 0;
	}
	return next;
}

bool dfi__pairs_followed(
    const struct pairs *pairs, uint32_t seat, const struct pair *pair)
{
	uint64_t holder = seat_watch_holder(&pairs->seats, seat);
	uint32_t i;

	for (i = 0; i < SEAT_PAIRS; i++)
		if (pairs->of[seat].pair[i].state == PAIR_READY)
			return true;
	return holder && holder != pair->incarnation;
}

void dfi__pairs_retire(struct pairs *pairs, struct pair *pair)
{
	pthread_mutex_lock(&pairs->seats.lock);
	pair->state = PAIR_RETIRED;
	seat_watch_call(&pairs->seats);
	pthread_mutex_unlock(&pairs->seats.lock);
}

/* The next attempt at the pair with a holder gets another id. */
static void count_attempt(struct seat_pairs *of, uint64_t holder)
{
	of->attempts = attempts(of, holder) + 1;
	of->tried = holder;
}

bool dfi__pairs_doubt(struct pairs *pairs, uint32_t seat, struct pair *pair)
{
	struct seat_pairs *of = &pairs->of[seat];
	bool there;

	pthread_mutex_lock(&pairs->seats.lock);
	there = seat_watch_holder(&pairs->seats, seat) == pair->incarnation;
	if (there) {
		of->doubted = pair->incarnation;
		count_attempt(of, pair->incarnation);
		snprintf(
		    pairs->broke, sizeof(pairs->broke), "%s", dfi_errmsg());
	}
	pthread_mutex_unlock(&pairs->seats.lock);
	return there;
}

bool dfi__pairs_was_lost(struct pairs *pairs, uint32_t seat)
{
	struct seat_pairs *of = &pairs->of[seat];

	if (!of->doubted ||
	    seat_watch_holder(&pairs->seats, seat) == of->doubted)
		return false;
	of->doubted = 0;
	return true;
}

const char *dfi__pairs_why(struct pairs *pairs, char text[PAIRS_WHY_SIZE])
{
	pthread_mutex_lock(&pairs->seats.lock);
	snprintf(text, PAIRS_WHY_SIZE, "%s%s", pairs->why[0] ? ": " : "",
	    pairs->why);
	pthread_mutex_unlock(&pairs->seats.lock);
	return text;
}

/* Whether both sides' entries have been there, so that the ring tells all. */
static bool was_attached(
    const struct pairs *pairs, uint32_t seat, const struct pair *pair)
{
	return pairs->seats.role == OPEN_TARGET &&
	    dfi__seat_watch_attached(&pairs->seats, seat, pair->incarnation) ==
	    pair->id;
}

/*
 * The room for a pair with a seat's holder, if there was none and it may be
 * made now. A pair that has come to its end is not made again, also while its
 * peer still holds the seat.
 */
static struct pair *may_make(struct pairs *pairs, uint32_t seat, int64_t now)
{
	struct seat_pairs *of = &pairs->of[seat];
	uint64_t id = next_id(pairs, seat);
	struct pair *room = NULL;
	uint32_t i;

	if (!id || id == of->last_id || now < of->try_at)
		return NULL;
	for (i = 0; i < SEAT_PAIRS; i++)
		if (of->pair[i].state == PAIR_NONE)
			room = &of->pair[i];
	return room;
}

static void failed(struct pairs *pairs, uint32_t seat, uint64_t incarnation)
{
	pairs->of[seat].try_at = clock_now_ns() + PAIRS_AGAIN_NS;
	count_attempt(&pairs->of[seat], incarnation);
	/* Otherwise it has gone meanwhile. */
	if (seat_watch_holder(&pairs->seats, seat) != incarnation ||
	    pairs->stops)
		return;
	if (!pairs->why[0])
		dfi__log(DFI_LOG_WARN, "%s", dfi_errmsg());
	snprintf(pairs->why, sizeof(pairs->why), "%s", dfi_errmsg());
}

/*
 * Whether the target may have seen this source leave the pair before it was
 * made: the answer to an earlier attempt came too late, and the key that it had
 * set was deleted. News of that come before the answer to this attempt.
 */
static bool was_left(const struct pairs *pairs, uint32_t seat, uint64_t id)
{
	return pairs->seats.role == OPEN_SOURCE &&
	    pairs->seats.withdrawn[seat] == id;
}

/* Under the lock: give up what was made; the target makes another pair. */
static void discard(
    struct pairs *pairs, uint32_t seat, struct pair *pair, void *end)
{
	pairs->of[seat].last_id = pair->id;
	pthread_mutex_unlock(&pairs->seats.lock);
	pairs->ops->discard(end);
	pthread_mutex_lock(&pairs->seats.lock);
	*pair = (struct pair){ .state = PAIR_NONE };
}

/* Under the lock, which it gives up in between. */
static void make(struct pairs *pairs, uint32_t seat, struct pair *pair)
{
	struct seat_watch *seats = &pairs->seats;
	uint64_t holder = seat_watch_holder(seats, seat);
	uint64_t id = next_id(pairs, seat);
	uint32_t own = seats->seats.own_seat;
	bool is_source = seats->role == OPEN_SOURCE;
	struct flow part;
	void *end = NULL;
	int ret;

	pair->state = PAIR_MAKING;
	pair->incarnation = holder;
	pair->id = id;
	pthread_mutex_unlock(&seats->lock);
	ret = dfi__flow_pair(seats->flow, is_source ? own : seat,
	    is_source ? seat : own, id, is_source ? seats->incarnation : holder,
	    &part);
	if (!ret)
		ret = pairs->ops->make(pairs->owner, &part,
		    clock_now_ns() + (is_source ? MAKE_NS : PUBLISH_NS), &end);
	pthread_mutex_lock(&seats->lock);
	if (ret < 0) {
		pair->state = PAIR_NONE;
		failed(pairs, seat, holder);
		return;
	}
	if (was_left(pairs, seat, id)) {
		discard(pairs, seat, pair, end);
		return;
	}
	*pair = (struct pair){
		.state = PAIR_READY,
		.incarnation = holder,
		.id = id,
		.number = pairs->n_made++,
		.end = end,
	};
	pairs->of[seat].last = holder;
	pairs->of[seat].last_id = id;
	pairs->why[0] = '\0';
}

/* Whether the owner must learn that the holder of a seat has left. */
static bool note_stale(struct pairs *pairs, uint32_t seat, struct pair *pair)
{
	if (pair->state == PAIR_NONE || atomic_peek(&pair->stale) ||
	    seat_watch_holder(&pairs->seats, seat) == pair->incarnation ||
	    was_attached(pairs, seat, pair))
		return false;
	atomic_set(&pair->stale, true);
	return true;
}

/*
 * Whether the owner must learn that the holder of a seat was evicted. It may be
 * stopped: so neither its ring nor its process shows it.
 */
static bool note_evicted(struct pairs *pairs, uint32_t seat, struct pair *pair)
{
	const struct seat_watch *seats = &pairs->seats;

	if (pair->state == PAIR_NONE || atomic_peek(&pair->evicted) ||
	    !eviction_was_of(seats, seats->other, seat, pair->incarnation))
		return false;
	atomic_set(&pair->evicted, true);
	return true;
}

/*
 * Whether a pair that is ready is of no use: its target has made another, or
 * its source came no more.
 */
static bool is_left_over(
    const struct pairs *pairs, uint32_t seat, const struct pair *pair)
{
	uint64_t id = dfi__seat_watch_attached(
	    &pairs->seats, seat, pair->incarnation);

	if (pair->state != PAIR_READY)
		return false;
	return pairs->seats.role == OPEN_SOURCE
	    ? id && id != pair->id
	    : atomic_peek(&pair->stale) && !may_take(pairs, seat, pair);
}

/* Whether one to be evicted has its seat yet: the pair stays till then. */
static bool owes_eviction(struct pairs *pairs, uint32_t seat, struct pair *pair)
{
	return pair->state == PAIR_RETIRED && atomic_peek(&pair->evict) &&
	    seat_watch_holder(&pairs->seats, seat) == pair->incarnation;
}

/* Do what is due for a seat, under the lock: whether there was something. */
static bool look_at(struct pairs *pairs, uint32_t seat, int64_t now)
{
	struct pair *pair = pairs->of[seat].pair, *room;
	bool busy = false;
	uint32_t i;

	for (i = 0; i < SEAT_PAIRS; i++, pair++) {
		if (atomic_peek(&pair->evict) &&
		    now >= pairs->of[seat].try_at) {
			dfi__pairs_tend_eviction(pairs, seat, pair);
			busy = true;
		}
		busy |= note_stale(pairs, seat, pair);
		busy |= note_evicted(pairs, seat, pair);
		if (!owes_eviction(pairs, seat, pair) &&
		    (pair->state == PAIR_RETIRED ||
			is_left_over(pairs, seat, pair)))
			busy |= dfi__pairs_unmake(pairs, seat, pair);
	}
	room = may_make(pairs, seat, now);
	if (room)
		make(pairs, seat, room);
	return busy || room;
}

/* The next time at which something may be tried again. */
static int64_t next_try(const struct pairs *pairs, int64_t now)
{
	int64_t next = DEADLINE_NEVER;
	uint32_t i;

	for (i = 0; i < pairs->seats.n_others; i++)
		if (pairs->of[i].try_at > now && pairs->of[i].try_at < next)
			next = pairs->of[i].try_at;
	return next;
}

static void pause_helper(struct pairs *pairs, int64_t now, int64_t until)
{
	struct seat_watch *seats = &pairs->seats;
	struct timespec at;

	until = (int64_t)min_u64(
	    (uint64_t)until, (uint64_t)next_try(pairs, now));
	if (until == DEADLINE_NEVER) {
		pthread_cond_wait(&seats->changed, &seats->lock);
		return;
	}
	at = deadline_timespec(until);
	pthread_cond_timedwait(&seats->changed, &seats->lock, &at);
}

/* Under the lock, which it gives up in between; *busy: there is more to do. */
static int64_t tend(struct pairs *pairs, bool *busy)
{
	uint32_t news = pairs->seats.news;
	int64_t until;

	if (!pairs->ops->tend)
		return DEADLINE_NEVER;
	pthread_mutex_unlock(&pairs->seats.lock);
	until = pairs->ops->tend(pairs->owner);
	pthread_mutex_lock(&pairs->seats.lock);
	*busy |= pairs->seats.news != news;
	return until;
}

static void *help(void *arg)
{
	struct pairs *pairs = arg;
	int64_t now, until;
	uint32_t i;
	bool busy;

	pthread_mutex_lock(&pairs->seats.lock);
	while (!pairs->stops) {
		now = clock_now_ns();
		busy = false;
		for (i = 0; !pairs->stops && i < pairs->seats.n_others; i++)
			busy |= look_at(pairs, i, now);
		until = tend(pairs, &busy);
		notify_owner(pairs);
		if (!busy && !pairs->stops)
			pause_helper(pairs, now, until);
	}
	pthread_mutex_unlock(&pairs->seats.lock);
	return NULL;
}

int dfi__pairs_open(struct pairs *pairs, struct dfi *dfi,
    const struct flow *flow, enum open_role role, uint32_t index,
    int64_t deadline)
{
	int ret;

	dfi__network_prepare(dfi, flow, role == OPEN_TARGET);
	ret = dfi__seat_watch_open(&pairs->seats, dfi, flow, role, index,
	    pairs->store_epoch, deadline);
	if (ret < 0)
		return ret;
	pairs->of = calloc(pairs->seats.n_others, sizeof(pairs->of[0]));
	if (!pairs->of)
		ret = dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	if (!ret && pairs->ops->begin)
		ret = pairs->ops->begin(pairs->owner, deadline);
	if (!ret)
		ret = dfi__thread_start(HELPER, help, pairs, &pairs->helper);
	if (ret > 0)
		ret = dfi__thread_fail(HELPER, ret);
	if (ret < 0) {
		dfi__seat_watch_close(&pairs->seats);
		free(pairs->of);
		pairs->of = NULL;
		return ret;
	}
	pairs->has_helper = true;
	return 0;
}

void dfi__pairs_stop(struct pairs *pairs)
{
	if (!pairs->has_helper)
		return;
	pthread_mutex_lock(&pairs->seats.lock);
	pairs->stops = true;
	seat_watch_call(&pairs->seats);
	pthread_mutex_unlock(&pairs->seats.lock);
	pthread_join(pairs->helper, NULL);
	pairs->has_helper = false;
}

void dfi__pairs_close(struct pairs *pairs)
{
	char text[ERROR_TEXT_SIZE];
	struct pair *pair;
	uint32_t i;

	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	dfi__pairs_stop(pairs);
	dfi__pairs_await_unmade(pairs);
	for (i = 0; i < pairs->seats.n_others * SEAT_PAIRS; i++) {
		pair = &pairs->of[i / SEAT_PAIRS].pair[i % SEAT_PAIRS];
		if (pair->end)
			pairs->ops->unmake(pair->end);
	}
	dfi__seat_watch_close(&pairs->seats);
	free(pairs->of);
	(void)dfi__fail(-EIO, "%s", text);
}

/* ---- Waiting ----------------------------------------------------------- */

bool dfi__pairs_arm(
    const struct pairs_wait *wait, struct notify *notify, int64_t deadline)
{
	bool fresh, unwoken = false;

	dfi__notify_drain(notify);
	/* Pairs with dfi__peers_wake(). */
	fresh = dfi__notify_announce(notify, &notify->self.word);
	fresh |= wait->announce(wait->arg, notify, &unwoken);
	dfi__notify_sleep(
	    notify, fresh, unwoken, wait->progress(wait->arg), deadline);
	wait->arm(wait->arg);
	return wait->ready(wait->arg);
}

static bool spin(const struct pairs_wait *wait, int64_t deadline)
{
	do {
		counter_add(&wait->time->counts.polls, 1);
		if (wait->ready(wait->arg))
			return true;
	} while (clock_now_ns() < deadline);
	return false;
}

static bool sleep_until_ready(const struct pairs_wait *wait, int64_t deadline)
{
	struct pollfd pollfd = { .fd = wait->notify->fd, .events = POLLIN };
	CANCEL_OFF;

	if (wait->policy->yields &&
	    dfi__wait_yielding(
		wait->policy, &wait->time->counts, wait->ready, wait->arg))
		return true;
	while (!dfi__pairs_arm(wait, wait->notify, deadline)) {
		if (clock_now_ns() >= deadline)
			return false;
		counter_add(&wait->time->counts.sleeps, 1);
		/* The timer ends the poll; after a signal we look again. */
		poll(&pollfd, 1, -1);
	}
	return true;
}

bool dfi__pairs_wait(const struct pairs_wait *wait)
{
	int64_t start, deadline;
	bool there;

	if (wait_spin(
		wait->policy, wait->time, wait->ready, wait->arg, wait->cost))
		return true;
	start = clock_now_ns();
	deadline = wait_deadline(wait->time, start);
	atomic_set(&wait->time->counts.since, start);
	there = wait->policy->sleeps ? sleep_until_ready(wait, deadline)
				     : spin(wait, deadline);
	atomic_set(&wait->time->counts.since, 0);
	counter_add(&wait->time->counts.ns, (uint64_t)(clock_now_ns() - start));
	return there;
}

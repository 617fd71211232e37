/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of an ordered open flow: it takes positions from the counter of the
 * view, and ends a view when that is cut (O1 and O2). The helper does so for an
 * idle owner as well, and greets new targets for it, so that these can begin.
 * How the counter is read: open_order_numbers.c.
 */
#include "open_source.h"

#include <stdlib.h>
#include "base/error.h"
#include "flows/members/eviction.h"
#include "flows/members/seat_views.h"

/* How long a helper tries, and how long after a failure it tries again. */
#define TRY_NS (INT64_C(2) * NS_PER_S)
#define AGAIN_NS (INT64_C(100) * NS_PER_MS)
/* How often it looks whether an answer of a far counter has come. */
#define READ_NS (INT64_C(200) * 1000)
/* How long an owner may keep a number that has come. */
#define HOLD_NS NS_PER_S
/* It looks so often in evict_after_ms, and counts no time more. */
#define OWED_LOOKS 4
/* So many tries to open a counter fail before its holder is evicted. */
#define MOST_FAILED 2

int dfi__open_order_init(struct open_source *open)
{
	open->order = calloc(1, sizeof(*open->order));
	if (!open->order)
		return dfi__fail(-ENOMEM, "flow '%s': out of memory",
		    open->source->flow.name);
	pthread_mutex_init(&open->order->lock, NULL);
	return 0;
}

static void close_counter(struct source_order *order)
{
	if (order->counter)
		dfi__shared_counter_close(order->counter);
	free(order->counter);
	order->counter = NULL;
}

void dfi__open_order_free(struct open_source *open)
{
	if (!open->order)
		return;
	close_counter(open->order);
	pthread_mutex_destroy(&open->order->lock);
	free(open->order);
}

/* Under the lock of the pairs: whether the newest view is over. */
static bool is_over(const struct seat_watch *seats)
{
	return dfi__open_views_is_over(&seats->views, &seats->seats);
}

/*
 * Under the lock of the pairs, whether a target has yet to be told where the
 * counter is. Its pair is ready, and taken or not.
 */
static bool is_new(const struct pair *pair)
{
	const struct dfi_source *end = pair->end;

	return (pair->state == PAIR_READY || pair->state == PAIR_TAKEN) &&
	    end->rings[0].seq == RING_FIRST_SEGMENT;
}

/* Under both locks: whether there are any, and which ones may be told next. */
static bool find_new(struct open_source *open)
{
	const struct pairs *pairs = &open->pairs;
	uint32_t i;

	open->order->n_made = pairs->n_made;
	for (i = 0; i < pairs->seats.n_others * SEAT_PAIRS; i++)
		if (is_new(&pairs->of[i / SEAT_PAIRS].pair[i % SEAT_PAIRS]))
			return true;
	return false;
}

/*
 * Tell those that were found where the counter was then or later. For those
 * whose pairs are not taken, note that the owner has to take them before it
 * sends.
 */
static void greet_new(struct open_source *open, uint64_t next)
{
	struct pairs *pairs = &open->pairs;
	struct source_order *order = open->order;
	struct pair *pair;
	uint32_t i;

	for (i = 0; i < pairs->seats.n_others * SEAT_PAIRS; i++) {
		pair = &pairs->of[i / SEAT_PAIRS].pair[i % SEAT_PAIRS];
		if (!is_new(pair) || pair->number >= order->n_made)
			continue;
		dfi__open_replica_greet(open->source, pair->end, next);
		order->greeted |= pair->state == PAIR_READY;
	}
}

bool dfi__open_order_greet(struct open_source *open)
{
	struct seat_watch *seats = &open->pairs.seats;
	struct source_order *order = open->order;
	uint64_t next;
	bool in_view, waits, all;

	pthread_mutex_lock(&seats->lock);
	in_view = order->view && !is_over(seats);
	waits = order->reads || (in_view && find_new(open));
	pthread_mutex_unlock(&seats->lock);
	if (!waits)
		return in_view;
	if (dfi__open_order_where(open, &next) <= 0)
		return false;
	pthread_mutex_lock(&seats->lock);
	in_view = order->view && !is_over(seats);
	if (in_view)
		greet_new(open, next);
	/* Those that have come meanwhile were not there when it was asked. */
	all = open->pairs.n_made == order->n_made;
	pthread_mutex_unlock(&seats->lock);
	return in_view && all;
}

/* ---- The owner ---------------------------------------------------------- */

/* Whether the source has a pair with the holder of a seat, or needs none. */
static bool has_pair(const struct open_source *open, uint32_t seat)
{
	const struct seat_watch *seats = &open->pairs.seats;

	return !dfi__open_views_needs(&seats->views, &seats->seats, seat) ||
	    (open->taken[seat] && open->ends[seat] &&
		open->taken[seat]->incarnation ==
		    seats->seats.seats[OPEN_TARGET][seat].holder.incarnation);
}

static bool is_greeted(const struct pair *pair)
{
	const struct dfi_source *end = pair->end;

	return pair->state == PAIR_READY &&
	    end->rings[0].seq != RING_FIRST_SEGMENT;
}

void dfi__open_order_complete(struct open_source *open)
{
	uint32_t i, j;

	open->order->complete = 0;
	open->order->must_greet = true;
	open->order->lacks_pairs =
	    open->pairs.seats.seats.n_attached[OPEN_TARGET];
	if (is_over(&open->pairs.seats))
		return;
	for (i = 0; i < open_seats(open->source); i++) {
		if (!has_pair(open, i))
			return;
		/* One that was greeted gets each segment from then on. */
		for (j = 0; j < SEAT_PAIRS; j++)
			if (is_greeted(&open->pairs.of[i].pair[j]))
				return;
	}
	open->order->lacks_pairs = false;
	open->order->complete = open->pairs.seats.views.newest.number;
}

int dfi__open_order_take(struct dfi_source *source, uint64_t *position)
{
	struct open_source *open = open_source(source);
	struct source_order *order = open->order;
	int ret;

	for (;;) {
		ret = dfi__open_adopt(source);
		if (ret < 0)
			return ret;
		pthread_mutex_lock(&order->lock);
		order->draws = false;
		if (order->must_greet || order->reads)
			order->must_greet = !dfi__open_order_greet(open);
		if (!order->greeted)
			break;
		order->greeted = false;
		pthread_mutex_unlock(&order->lock);
		/* Take over the pair that the helper has greeted. */
		open->seen = pairs_changes(&open->pairs) - 1;
	}
	if (!order->must_greet && order->view == order->complete &&
	    order->view && open->n_ends && dfi__open_order_draw(open, position))
		return 1;
	pthread_mutex_unlock(&order->lock);
	return 0;
}

void dfi__open_order_sent(struct dfi_source *source, uint64_t position)
{
	struct source_order *order = open_source(source)->order;

	order->end = position + 1;
	order->has_number = false;
	pthread_mutex_unlock(&order->lock);
}

/* ---- The helper --------------------------------------------------------- */

/* O2: the last segment is out, and no further number of this view is taken. */
static int flush(struct open_source *open, uint64_t view)
{
	struct source_order *order = open->order;
	uint64_t end;
	int ret;

	pthread_mutex_lock(&order->lock);
	order->view = 0;
	end = open_view_end(view, order->end);
	pthread_mutex_unlock(&order->lock);
	order->flushed = view;
	ret = dfi__seat_views_flush(
	    &open->pairs.seats, view, end, clock_now_ns() + TRY_NS);
	if (!ret)
		order->reported = view;
	return ret;
}

/* Take numbers from the counter of a view from now on. */
static int enter(
    struct open_source *open, uint64_t view, const struct endpoint *holder)
{
	struct source_order *order = open->order;
	struct shared_counter_user *counter = calloc(1, sizeof(*counter));
	struct wait_limit limit = { .deadline = clock_now_ns() + TRY_NS };
	int ret;

	if (!counter)
		return -ENOMEM;
	ret = dfi__shared_counter_open(open->source->dfi,
	    (enum dfi_transport)open->source->flow.transport, &holder->node,
	    &holder->sequencer, &limit, counter);
	if (ret < 0) {
		free(counter);
		order->n_failed = ret != -ETIMEDOUT ? 0
		    : order->failed == view         ? order->n_failed + 1
						    : 1;
		order->failed = view;
		return ret;
	}
	pthread_mutex_lock(&order->lock);
	close_counter(order);
	order->counter = counter;
	order->view = view;
	order->has_number = order->draws = order->reads = false;
	order->broken = false;
	(void)dfi__open_order_greet(open);
	pthread_mutex_unlock(&order->lock);
	order->n_failed = 0;
	if (order->reported)
		dfi__seat_views_forget(&open->pairs.seats, order->reported);
	order->reported = 0;
	return 0;
}

/* What the helper has to do about views. */
struct errand {
	bool flushes, enters, cuts;
	uint64_t view;
	struct endpoint holder;
};

/* Under the lock of the pairs. */
static struct errand next_errand(const struct open_source *open)
{
	const struct seat_watch *seats = &open->pairs.seats;
	const struct open_views *views = &seats->views;
	struct errand errand = { .view = views->newest.number };
	bool cut = open_views_is_cut(views);

	if (!errand.view || seats->seats.evicted)
		return errand;
	/* A source that came behind the cut has no number of this view. */
	errand.flushes = open->order->reported < errand.view &&
	    open_views_has_part(views, &seats->seats);
	/* Only the helper changes order->view. */
	errand.enters = !cut && open->order->view != errand.view &&
	    !dfi__endpoint_decode(views->newest.counter,
		views->newest.counter_size, &errand.holder);
	errand.cuts = !cut && open->order->view == errand.view;
	return errand;
}

/*
 * Under its lock: whether the owner has had a number for too long without a
 * call. It may not block, or have dropped the segment that the number was for.
 */
static bool is_idle(struct open_source *open, int64_t now, int64_t *next)
{
	struct source_order *order = open->order;
	uint64_t position;

	if (!order->counter || order->counter->words)
		return false;
	*next = now + HOLD_NS / 2;
	if (order->view && order->draws)
		(void)dfi__open_order_draw(open, &position);
	if (!order->has_number || order->held != order->number) {
		order->held = order->has_number ? order->number : 0;
		order->held_since = now;
	}
	return order->has_number && now - order->held_since >= HOLD_NS;
}

/* ---- A holder that gives no numbers -------------------------------------- */

static int64_t limit_ns(const struct open_source *open)
{
	return open->source->flow.evict_after_ms * (int64_t)NS_PER_MS;
}

/*
 * Under the lock: whether the counter has owed an answer for too long. Over
 * libfabric its holder's processor gives it, which may be stopped. The time of
 * a look that comes late, as this process was stopped, does not count.
 */
static bool is_overdue(struct open_source *open, int64_t now, int64_t *next)
{
	struct source_order *order = open->order;
	int64_t limit = limit_ns(open);
	int64_t late = now - order->looked - limit / OWED_LOOKS;
	bool owed = limit && dfi__open_order_owed(open);

	if (limit && now + limit / OWED_LOOKS < *next)
		*next = now + limit / OWED_LOOKS;
	if (!owed || order->owed_at != order->n_answers || !order->looked)
		order->owed_since = now;
	else if (late > 0)
		order->owed_since += late;
	order->owed_at = order->n_answers;
	order->looked = now;
	return owed && now - order->owed_since >= limit;
}

/* Under both locks: whether the holder is the reason, and who it is. */
static bool may_evict(
    struct open_source *open, struct eviction *eviction, bool is_due)
{
	const struct seat_watch *seats = &open->pairs.seats;
	const struct open_views *views = &seats->views;

	if (!is_due || seats->seats.evicted || open_views_is_cut(views))
		return false;
	*eviction = (struct eviction){
		.role = OPEN_TARGET,
		.incarnation = views->newest.holder,
		.why = EVICTION_NUMBER,
	};
	return dfi__seat_watch_finds(
	    seats, OPEN_TARGET, eviction->incarnation, &eviction->seat);
}

/* It may have answered while the registry was asked. */
static int evict_holder(struct open_source *open, struct eviction *eviction)
{
	struct source_order *order = open->order;
	uint64_t answers = order->owed_at;
	int64_t deadline = clock_now_ns() + TRY_NS;
	int ret = dfi__eviction_begin(&open->pairs.seats, eviction, deadline);
	bool is_due;

	if (ret < 0)
		return ret;
	pthread_mutex_lock(&order->lock);
	is_due = order->n_failed >= MOST_FAILED ||
	    (dfi__open_order_owed(open) && order->n_answers == answers);
	order->looked = order->n_failed = 0;
	pthread_mutex_unlock(&order->lock);
	return dfi__eviction_end(
	    &open->pairs.seats, eviction, is_due, deadline);
}

int64_t dfi__open_order_tend(void *owner)
{
	struct open_source *open = owner;
	struct source_order *order = open->order;
	int64_t now = clock_now_ns(), next = DEADLINE_NEVER;
	struct eviction late;
	struct errand errand;
	bool is_lost, evicts;
	int ret = 0;

	pthread_mutex_lock(&order->lock);
	(void)dfi__open_order_greet(open);
	is_lost = order->broken || is_idle(open, now, &next);
	evicts = is_overdue(open, now, &next) ||
	    (limit_ns(open) && order->n_failed >= MOST_FAILED);
	if (order->reads && now + READ_NS < next)
		next = now + READ_NS;
	pthread_mutex_lock(&open->pairs.seats.lock);
	errand = next_errand(open);
	evicts = may_evict(open, &late, evicts);
	pthread_mutex_unlock(&open->pairs.seats.lock);
	pthread_mutex_unlock(&order->lock);
	if (evicts)
		ret = evict_holder(open, &late);
	else if (errand.flushes)
		ret = flush(open, errand.view);
	else if (errand.enters)
		ret = enter(open, errand.view, &errand.holder);
	else if (errand.cuts && is_lost)
		ret = dfi__seat_views_cut(
		    &open->pairs.seats, errand.view, now + TRY_NS);
	return ret < 0 ? now + AGAIN_NS : next;
}

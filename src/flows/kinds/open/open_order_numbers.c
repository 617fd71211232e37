/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a source of an ordered open flow reads and adds to the counter of its
 * view. Over a network that takes a round trip, in which no lock is held: who
 * asks first, owner or helper, leaves the answer to the one that looks next.
 */
#include "open_source.h"

#include <time.h>
#include "base/clock.h"
#include "base/error.h"
#include "flows/members/seat_views.h"

/* How long a source that closes waits for the counter, and how it looks. */
#define CLOSE_NS (INT64_C(2) * NS_PER_S)
#define LOOK_NS (INT64_C(100) * 1000)

static bool is_far(const struct source_order *order)
{
	return order->counter && !order->counter->words;
}

/* Nothing more comes from this counter: the helper ends the view (O1). */
static void lose_counter(struct open_source *open)
{
	struct seat_watch *seats = &open->pairs.seats;

	if (open->order->broken)
		return;
	open->order->broken = true;
	pthread_mutex_lock(&seats->lock);
	seat_watch_call(seats);
	pthread_mutex_unlock(&seats->lock);
}

int dfi__open_order_where(struct open_source *open, uint64_t *next)
{
	struct source_order *order = open->order;
	struct shared_counter_user *counter = order->counter;
	int ret = 1;

	if (order->broken)
		return -ECONNRESET;
	/* A number that was asked for is the owner's. */
	if (counter->is_asked && counter->asked) {
		ret = shared_counter_take(counter, 1, &order->number);
		order->has_number = ret > 0;
	}
	if (ret > 0)
		ret = shared_counter_read(counter, next);
	order->n_answers += ret > 0;
	order->reads = !ret;
	if (ret < 0)
		lose_counter(open);
	return ret;
}

bool dfi__open_order_draw(struct open_source *open, uint64_t *position)
{
	struct source_order *order = open->order;
	int ret;

	if (!order->has_number && !order->broken && !order->reads) {
		ret = shared_counter_take(order->counter, 1, &order->number);
		order->has_number = ret > 0;
		order->n_answers += ret > 0;
		if (ret < 0)
			lose_counter(open);
	}
	order->draws = !order->has_number;
	*position = order->number;
	return order->has_number;
}

bool dfi__open_order_owed(struct open_source *open)
{
	struct source_order *order = open->order;
	uint64_t unused;

	if (!is_far(order) || order->broken || !order->view)
		return false;
	if (order->reads)
		(void)dfi__open_order_greet(open);
	else if (order->draws)
		(void)dfi__open_order_draw(open, &unused);
	return order->counter->is_asked;
}

bool dfi__open_order_arrived(struct open_source *open)
{
	struct source_order *order = open->order;
	uint64_t position;
	bool there = false;

	pthread_mutex_lock(&order->lock);
	if (order->reads) {
		(void)dfi__open_order_greet(open);
		there = !order->reads;
	}
	if (!there && order->view && order->draws)
		there = dfi__open_order_draw(open, &position);
	pthread_mutex_unlock(&order->lock);
	return there;
}

bool dfi__open_order_announce(struct open_source *open, struct notify *notify)
{
	struct source_order *order = open->order;
	bool fresh = false;

	pthread_mutex_lock(&order->lock);
	if (is_far(order) && order->counter->is_asked)
		fresh = dfi__notify_announce(
		    notify, dfi__shared_counter_wait_word(order->counter));
	pthread_mutex_unlock(&order->lock);
	return fresh;
}

void dfi__open_order_arm(struct open_source *open)
{
	struct source_order *order = open->order;

	pthread_mutex_lock(&order->lock);
	if (is_far(order) && order->counter->is_asked)
		dfi__shared_counter_arm(order->counter);
	pthread_mutex_unlock(&order->lock);
}

void dfi__open_order_leave(struct open_source *open)
{
	struct source_order *order = open->order;
	bool asked;

	if (!order || !is_far(order) || !order->view)
		return;
	asked = order->counter->is_asked && order->counter->asked;
	if (asked || order->has_number)
		(void)dfi__seat_views_cut(
		    &open->pairs.seats, order->view, clock_now_ns() + CLOSE_NS);
}

bool dfi__open_order_last(struct open_source *open, uint64_t *next)
{
	static const struct timespec look = { .tv_nsec = LOOK_NS };
	int64_t deadline = clock_now_ns() + CLOSE_NS;
	int ret;

	*next = 0;
	if (!open->order || !open->order->counter)
		return true;
	while (!(ret = dfi__open_order_where(open, next)) &&
	    clock_now_ns() < deadline)
		nanosleep(&look, NULL);
	/* Not again for the next target. */
	if (ret <= 0)
		open->order->broken = true;
	return ret > 0;
}

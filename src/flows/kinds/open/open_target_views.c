/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the helper of an ordered flow's target does about views: it ends one
 * (O1), tells what its owner has (O3), and decides on the next one (O4). All
 * targets try; the registry takes the first.
 */
#include "open_target_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "flows/members/eviction.h"
#include "flows/members/seat_views.h"

/* How long a helper tries, and how long after a failure it tries again. */
#define TRY_NS (INT64_C(2) * NS_PER_S)
#define AGAIN_NS (INT64_C(100) * NS_PER_MS)

/* How often it looks whether what it waits for has come over a network. */
#define LOOK_NS (INT64_C(100) * 1000)
#define ARRIVAL_NS NS_PER_MS

/* It looks so often in evict_after_ms, and counts no time more. */
#define LATE_LOOKS 4

static int64_t soon(void)
{
	return clock_now_ns() + TRY_NS;
}

/* The first seat of a role that owes its part, or how many seats there are. */
static uint32_t debtor(const struct seat_watch *seats, enum open_role role)
{
	return dfi__open_views_debtor(&seats->views, &seats->seats, role, 0);
}

/* Under the lock: whether the newest view has ended, or there was none. */
static bool lacks_view(const struct open_target *open)
{
	const struct open_views *views = &open->pairs.seats.views;

	return !views->newest.number || open_views_is_cut(views) ||
	    open->order->wants_cut == views->newest.number;
}

const char *dfi__target_order_why(struct open_target *open)
{
	struct seat_watch *seats = &open->pairs.seats;
	bool lacks;

	pthread_mutex_lock(&seats->lock);
	lacks = lacks_view(open);
	pthread_mutex_unlock(&seats->lock);
	return lacks ? dfi__seat_views_why(seats) : "";
}

/* Once for a view: a helper has failed. */
static void log_wait(struct open_target *open, uint64_t view)
{
	const char *why = dfi__target_order_why(open);

	if (!*why || open->order->logged == view + 1)
		return;
	open->order->logged = view + 1;
	dfi__log(DFI_LOG_WARN, "flow '%s': %s %u: the order has no view now%s",
	    open->target->flow.name, TARGET_ID(open->target), why);
}

/* ---- The next view ------------------------------------------------------- */

/* The counter that this target has in a view, or NULL. */
static struct view_counter *counter_of(
    struct target_order *order, uint64_t view)
{
	uint32_t i;

	for (i = 0; i < 2; i++)
		if (order->counters[i].view == view)
			return &order->counters[i];
	return NULL;
}

/* Free counters of views that are over, or that another target has. */
static void free_old(
    struct target_order *order, uint64_t newest, bool is_holder)
{
	struct view_counter *counter = order->counters;
	uint32_t i;

	for (i = 0; i < 2; i++, counter++) {
		if (!counter->view || counter->view > newest ||
		    (counter->view == newest && is_holder))
			continue;
		dfi__shared_counter_destroy(&counter->counter);
		*counter = (struct view_counter){ .view = 0 };
	}
}

static int make_counter(
    struct open_target *open, uint64_t view, struct view_counter **counter)
{
	struct dfi_target *target = open->target;
	char what[DFI_MAX_FLOW_NAME + 40];
	int ret;

	*counter = counter_of(open->order, view);
	if (*counter)
		return 0;
	*counter = counter_of(open->order, 0);
	snprintf(
	    what, sizeof(what), "flow '%s': its counter", target->flow.name);
	ret = dfi__shared_counter_create(target->dfi,
	    (enum dfi_transport)target->flow.transport, what,
	    open_view_first(view), &(*counter)->counter);
	if (!ret)
		(*counter)->view = view;
	else if (!open->order->warned)
		dfi__log(DFI_LOG_WARN,
		    "flow '%s': %s %u: no view can begin here, as its counter "
		    "can't be made: %s",
		    target->flow.name, TARGET_ID(target), dfi_errmsg());
	open->order->warned = ret < 0;
	return ret;
}

/* Under the lock: what follows from the reports. NULL: no memory. */
static uint8_t *decide(
    const struct seat_watch *seats, struct open_view *view, size_t *size)
{
	uint8_t *value = NULL;

	if (dfi__open_views_decide(&seats->views, &seats->seats, view))
		value = dfi__open_view_encode(view, size);
	dfi__open_view_free(view);
	return value;
}

/* O4: begin the view behind this one, if nobody has. */
static int begin_next(struct open_target *open, uint64_t newest)
{
	struct seat_watch *seats = &open->pairs.seats;
	struct open_view view = {
		.number = newest + 1,
		.holder = seats->incarnation,
	};
	struct endpoint holder = { .node = open->target->dfi->node };
	struct view_counter *counter;
	size_t size = 0;
	uint8_t *value;
	void *data;
	int ret = make_counter(open, view.number, &counter);

	if (ret < 0)
		return ret;
	holder.sequencer = counter->counter.published;
	data = dfi__endpoint_encode(&holder, &view.counter_size);
	if (!data)
		return -ENOMEM;
	view.counter = data;
	pthread_mutex_lock(&seats->lock);
	value = decide(seats, &view, &size);
	pthread_mutex_unlock(&seats->lock);
	ret = value
	    ? dfi__seat_views_begin(seats, view.number, value, size, soon())
	    : -ENOMEM;
	free(data);
	free(value);
	if (!ret || ret == -EEXIST)
		open->order->decided = newest;
	return ret == -EEXIST ? 0 : ret;
}

/* ---- Errands --------------------------------------------------------------
 */

/* What there is to do, as the watch and the owner say. */
struct errand {
	uint64_t view;
	bool leaves, begins, cuts, reports, counts;
	bool is_holder;
	enum open_role late_role;
	uint32_t late; /* a seat to be evicted, or UINT32_MAX */
	uint64_t late_holder;
	struct endpoint holder; /* if it counts */
	int64_t next;           /* when to look again */
};

static int64_t limit_ns(const struct open_target *open)
{
	return open->target->flow.evict_after_ms * (int64_t)NS_PER_MS;
}

/*
 * Whether a segment has been missing for too long: who has its number? It has
 * half of the time, and the other half to flush: so one that is stopped holds
 * up the others for the whole of it.
 */
static bool is_overdue(struct open_target *open, int64_t now)
{
	int64_t since = atomic_peek(&open->order->hole_since);

	return since && limit_ns(open) && now - since >= limit_ns(open) / 2;
}

/* Who was stopped itself doesn't count that time; see overdue.h. */
static void pass_time(struct target_order *order, int64_t now, int64_t limit)
{
	int64_t slept = now - order->late_looked - limit / LATE_LOOKS;

	if (slept > 0)
		order->late_since += slept;
	order->late_looked = now;
}

/* Under the lock, as the next ones: whom to evict, as it holds up the view. */
static void find_late(
    struct open_target *open, struct errand *errand, int64_t now)
{
	struct seat_watch *seats = &open->pairs.seats;
	struct target_order *order = open->order;
	int64_t limit = limit_ns(open);
	enum open_role role = OPEN_SOURCE;
	uint32_t seat = debtor(seats, OPEN_SOURCE);

	if (seat == seats->seats.n[OPEN_SOURCE]) {
		role = OPEN_TARGET;
		seat = debtor(seats, OPEN_TARGET);
	}
	pass_time(order, now, limit);
	/*
	 * Targets can't report before the last source has flushed, or is gone;
	 * and nobody can say anything without a registry.
	 */
	if (order->late_view != errand->view || order->late_role != role ||
	    seats->restoring) {
		order->late_view = errand->view;
		order->late_role = role;
		order->late_since = now;
	}
	if (!limit ||
	    now - order->late_since <
		(role == OPEN_SOURCE ? limit / 2 : limit) ||
	    seat == seats->seats.n[role] ||
	    (role == OPEN_TARGET && errand->reports))
		return;
	errand->late_role = role;
	errand->late = seat;
	errand->late_holder =
	    seats->seats.seats[errand->late_role][seat].holder.incarnation;
}

static void at_cut(struct open_target *open, struct errand *errand, int64_t now)
{
	const struct seat_watch *seats = &open->pairs.seats;
	struct target_order *order = open->order;

	errand->reports = order->report_view == errand->view &&
	    order->reports < errand->view;
	errand->begins = order->decided < errand->view &&
	    debtor(seats, OPEN_TARGET) == seats->seats.n[OPEN_TARGET];
	find_late(open, errand, now);
}

static struct errand next_errand(struct open_target *open, int64_t now)
{
	const struct seat_watch *seats = &open->pairs.seats;
	const struct open_view *newest = &seats->views.newest;
	struct target_order *order = open->order;
	struct errand errand = {
		.view = newest->number,
		.late = UINT32_MAX,
		.next = DEADLINE_NEVER,
	};
	bool has_holder = dfi__open_views_has_holder(
	    &seats->views, &seats->seats);

	if (seats->seats.evicted)
		return errand;
	if (limit_ns(open))
		errand.next = now + limit_ns(open) / LATE_LOOKS;
	errand.leaves = order->is_out;
	errand.is_holder = newest->holder == seats->incarnation;
	/* Only the helper changes these two back. */
	errand.counts = errand.view &&
	    (!open_views_is_cut(&seats->views) ||
		seats->seats.begun < seats->views.cut_revision) &&
	    has_holder && !order->core.begun &&
	    order->core.counted != errand.view &&
	    !dfi__endpoint_decode(
		newest->counter, newest->counter_size, &errand.holder);
	if (!errand.view)
		errand.begins = true;
	else if (open_views_is_cut(&seats->views))
		at_cut(open, &errand, now);
	else
		errand.cuts = order->cut < errand.view &&
		    (order->wants_cut == errand.view || is_overdue(open, now) ||
			!has_holder);
	return errand;
}

static int report(struct open_target *open, uint64_t view)
{
	struct seat_watch *seats = &open->pairs.seats;
	struct target_order *order = open->order;
	uint8_t *value;
	size_t size;
	int ret;

	pthread_mutex_lock(&seats->lock);
	size = order->report_size;
	value = malloc(size);
	if (value)
		memcpy(value, order->report, size);
	pthread_mutex_unlock(&seats->lock);
	ret = value ? dfi__seat_views_report(seats, view, value, size, soon())
		    : -ENOMEM;
	free(value);
	if (!ret)
		order->reports = view;
	return ret;
}

static int cut(struct open_target *open, uint64_t view)
{
	int ret = dfi__seat_views_cut(&open->pairs.seats, view, soon());

	if (!ret)
		open->order->cut = view;
	return ret;
}

/* Until an answer has come from another host. */
static int read_counter(struct shared_counter_user *counter, uint64_t *next)
{
	static const struct timespec look = { .tv_nsec = LOOK_NS };
	int64_t deadline = soon();
	int ret;

	while (!(ret = shared_counter_read(counter, next))) {
		if (clock_now_ns() >= deadline)
			return -ETIMEDOUT;
		nanosleep(&look, NULL);
	}
	return ret < 0 ? ret : 0;
}

/* J1: look at the counter, for an owner that has to know where it begins. */
static int count(struct open_target *open, const struct errand *errand)
{
	struct dfi_target *target = open->target;
	struct target_order *order = open->order;
	struct shared_counter_user counter = { .remote = NULL };
	int ret = dfi__shared_counter_open(target->dfi,
	    (enum dfi_transport)target->flow.transport, &errand->holder.node,
	    &errand->holder.sequencer, WAIT_LIMIT(soon()), &counter);
	uint64_t next;

	if (!ret)
		ret = read_counter(&counter, &next);
	if (ret < 0) {
		dfi__shared_counter_close(&counter);
		return ret;
	}
	target_order_lock(order);
	order->core.count = next;
	order->core.counted = errand->view;
	target_order_unlock(order);
	pthread_mutex_lock(&open->pairs.seats.lock);
	seat_watch_call(&open->pairs.seats);
	pthread_mutex_unlock(&open->pairs.seats.lock);
	dfi__shared_counter_close(&counter);
	return 0;
}

/* Under the lock: whether it still owes its part. */
static bool still_owes(
    const struct seat_watch *seats, const struct eviction *late, uint64_t view)
{
	return !seats->seats.evicted && seats->views.newest.number == view &&
	    open_views_is_cut(&seats->views) &&
	    open_seat_is(
		&seats->seats, late->role, late->seat, late->incarnation) &&
	    dfi__open_views_asks(
		&seats->views, &seats->seats, late->role, late->seat) &&
	    !dfi__open_views_answer(
		&seats->views, &seats->seats, late->role, late->seat);
}

/*
 * This target may have been stopped, with what the others have done since then
 * unread. If the registry has taken too long to answer, they may wait for it.
 */
static int evict_late(struct open_target *open, const struct errand *errand)
{
	struct seat_watch *seats = &open->pairs.seats;
	struct target_order *order = open->order;
	struct eviction late = {
		.role = errand->late_role,
		.seat = errand->late,
		.incarnation = errand->late_holder,
		.why = EVICTION_VIEW,
	};
	int64_t begun = clock_now_ns(), deadline = begun + TRY_NS;
	bool is_due = false;
	int ret = dfi__eviction_begin(seats, &late, deadline);

	pthread_mutex_lock(&seats->lock);
	if (clock_now_ns() - begun > limit_ns(open))
		order->late_since = order->late_looked = clock_now_ns();
	else
		is_due = !ret && still_owes(seats, &late, errand->view);
	pthread_mutex_unlock(&seats->lock);
	return ret < 0 ? ret
		       : dfi__eviction_end(seats, &late, is_due, deadline);
}

static int run(struct open_target *open, const struct errand *errand)
{
	struct seat_watch *seats = &open->pairs.seats;
	struct eviction self = {
		.role = OPEN_TARGET,
		.seat = seats->seats.own_seat,
		.incarnation = seats->incarnation,
		.why = EVICTION_NO_MEMBER,
	};
	int ret = 0;

	if (errand->leaves)
		return dfi__evict(seats, &self, soon());
	/* The others may fail because of that one. */
	if (errand->late != UINT32_MAX)
		ret = evict_late(open, errand);
	if (!ret && errand->cuts)
		ret = cut(open, errand->view);
	if (!ret && errand->counts)
		ret = count(open, errand);
	if (!ret && errand->reports)
		ret = report(open, errand->view);
	if (!ret && errand->begins)
		ret = begin_next(open, errand->view);
	return ret;
}

int64_t dfi__target_order_tend(void *owner)
{
	struct open_target *open = owner;
	struct target_order *order = open->order;
	int64_t now = clock_now_ns();
	struct errand errand;
	uint64_t reported;

	dfi__target_order_help(open);
	pthread_mutex_lock(&open->pairs.seats.lock);
	errand = next_errand(open, now);
	pthread_mutex_unlock(&open->pairs.seats.lock);
	free_old(order, errand.view, errand.is_holder);
	reported = order->reports;
	if (reported && reported < errand.view) {
		dfi__seat_views_forget(&open->pairs.seats, reported);
		order->reports = 0;
	}
	if (run(open, &errand) < 0) {
		log_wait(open, errand.view);
		return now + AGAIN_NS;
	}
	target_order_lock(order);
	if (order->awaits && now + ARRIVAL_NS < errand.next)
		errand.next = now + ARRIVAL_NS;
	target_order_unlock(order);
	return errand.next;
}

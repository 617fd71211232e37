/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of lingering sources, on the control thread: a timer that fires
 * when the first of their lanes is due. Owners set it to earlier times, and
 * never wait for it. Lock order: the clock's, then a source's.
 */
#include "linger.h"

#include <event2/event.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/error.h"
#include "base/fence.h"
#include "base/files.h"
#include "base/loop.h"
#include "source.h"

struct linger_clock {
	struct dfi *dfi;
	pthread_mutex_t lock;
	TAILQ_HEAD(lingering, dfi_source) sources;
	int timer;           /* -1: no source has lingered yet */
	bool started;        /* the control thread serves it */
	struct event *event; /* control thread only */
	int64_t at;          /* when the timer fires, or DEADLINE_NEVER */
};

/* Whether the lane has an open segment that the owner may add to. */
static bool is_open(const struct dfi_source *source, uint32_t target)
{
	return source->writers[target].segment &&
	    !(source->cursor_open && source->cursor_lane == target);
}

static void park(struct dfi_source *source, uint32_t target)
{
	struct writer *writer = &source->writers[target];
	struct dfi_source_lane *lane = &source->head.lanes[target];
	char *end = writer->segment + source->head.tuple_size;

	/* Otherwise the owner is about to send a full segment. */
	if (end <= writer->end)
		lane_set_end(lane, end);
}

/*
 * The time between two looks for the position of a segment. Meanwhile no target
 * delivers the segments behind it.
 */
#define POSITION_LOOK_NS (INT64_C(100) * (NS_PER_MS / 1000))

static int64_t next_look(const struct dfi_source *source)
{
	int64_t ns = source->linger.ns;

	return lane_awaits_position(source) && ns > POSITION_LOOK_NS
	    ? POSITION_LOOK_NS
	    : ns;
}

/*
 * Continue with a segment that its owner has sent and that waits for its
 * position.
 */
static void go_on(struct dfi_source *source, uint32_t target, int64_t now)
{
	if (!dfi__replica_go_on(source->replica_writer))
		source->writers[target].due = now + next_look(source);
}

/*
 * Send the part of a lane that is due. Returns whether the lane is then parked.
 * The owner finds the errors: the writer stays broken.
 */
static bool send_due(struct dfi_source *source, uint32_t target, int64_t now)
{
	struct writer *writer = &source->writers[target];
	bool open = is_open(source, target), holds = lane_holds(source, target);
	uint64_t bytes = open ? source_filled(source, target) : 0;
	int ret = 1;

	if (!writer->due || writer->due > now)
		return false;
	writer->due = 0;
	if (unlikely(source->replica_writer &&
		replica_waits(source->replica_writer)))
		go_on(source, target, now);
	if (!open && !holds)
		return false;
	if (bytes || holds)
		ret = lane_publish_part(source, target, bytes);
	if (ret < 0)
		return false;
	/* It stays due until the owner is known to see the lowered end. */
	writer->due = now + next_look(source);
	if (ret > 0 && open)
		park(source, target);
	return ret > 0;
}

/*
 * Whether the owner's next tuple makes a call, or its last one has just made it
 * and found the lane full.
 */
static bool is_parked(const struct dfi_source *source, uint32_t target)
{
	const struct writer *writer = &source->writers[target];

	return writer->segment == writer->end ||
	    lane_end(&source->head.lanes[target]) ==
	    writer->segment + source->head.tuple_size;
}

/*
 * Check the lanes that were parked. After the fence, an owner that has not
 * added a tuple sees the lowered end when it does (see
 * dfi_source_lane_advance()).
 */
static void check_parked(struct dfi_source *source)
{
	uint32_t t;

	if (!dfi__fence_heavy())
		return; /* their due times stay, so later looks check them */
	for (t = 0; t < source->n_lanes; t++)
		if (is_open(source, t) && is_parked(source, t) &&
		    !source_filled(source, t) && !lane_holds(source, t))
			source->writers[t].due = 0;
}

/* Send what is due; returns the time of the next look. */
static int64_t look_at(struct dfi_source *source, int64_t now)
{
	int64_t due, next = DEADLINE_NEVER;
	bool parked = false;
	uint32_t t, n = source_aborted(source) ? 0 : source->n_lanes;

	source_lock(source);
	for (t = 0; t < n; t++)
		parked |= send_due(source, t, now);
	if (parked)
		check_parked(source);
	for (t = 0; t < n; t++) {
		due = source->writers[t].due;
		if (due && due < next)
			next = due;
	}
	source->linger.armed = next != DEADLINE_NEVER;
	lock_release(&source->linger.lock);
	return next;
}

static void set_timer(struct linger_clock *clock, int64_t at)
{
	struct itimerspec spec = { .it_value = deadline_timespec(at) };

	clock->at = at;
	if (at == DEADLINE_NEVER)
		memset(&spec, 0, sizeof(spec));
	timerfd_settime(clock->timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct linger_clock *clock = arg;
	int64_t at, next = DEADLINE_NEVER, now = clock_now_ns();
	struct dfi_source *source;
	uint64_t count;

	(void)what;
	/* If the timer was set anew meanwhile, there is nothing to read. */
	if (read(fd, &count, sizeof(count)) < 0)
		count = 0;
	pthread_mutex_lock(&clock->lock);
	TAILQ_FOREACH(source, &clock->sources, linger.link)
	{
		at = look_at(source, now);
		if (at < next)
			next = at;
	}
	set_timer(clock, next);
	pthread_mutex_unlock(&clock->lock);
}

int dfi__linger_clock_open(struct dfi *dfi)
{
	struct linger_clock *clock = calloc(1, sizeof(*clock));

	if (!clock)
		return dfi__fail(-ENOMEM, "dfi_open: out of memory");
	clock->dfi = dfi;
	clock->timer = -1;
	clock->at = DEADLINE_NEVER;
	pthread_mutex_init(&clock->lock, NULL);
	TAILQ_INIT(&clock->sources);
	dfi->linger = clock;
	return 0;
}

/* It may run again after a call that timed out. */
static int add_event(void *arg)
{
	struct linger_clock *clock = arg;
	struct event_base *base = dfi__loop_base(clock->dfi->loop);

	if (clock->event)
		return 0;
	clock->event = event_new(
	    base, clock->timer, EV_READ | EV_PERSIST, on_timer, clock);
	if (clock->event && !event_add(clock->event, NULL))
		return 0;
	if (clock->event)
		event_free(clock->event);
	clock->event = NULL;
	return dfi__fail(-ENOMEM, "lingering: out of memory");
}

void dfi__linger_clock_close(struct dfi *dfi)
{
	struct linger_clock *clock = dfi->linger;

	if (clock->event)
		event_free(clock->event);
	if (clock->timer >= 0)
		close(clock->timer);
	pthread_mutex_destroy(&clock->lock);
	free(clock);
}

static int start_timer(struct linger_clock *clock)
{
	int ret;

	if (clock->timer < 0)
		clock->timer = file_up(timerfd_create(
		    CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (clock->timer < 0)
		return dfi__fail_files(
		    errno, 1, "timerfd_create", "linger_us: the timer");
	ret = dfi__loop_call(clock->dfi->loop, add_event, clock,
	    context_deadline(clock->dfi, 0));
	clock->started = !ret;
	return ret;
}

int dfi__linger_clock_start(struct linger_clock *clock)
{
	int ret = 0;

	pthread_mutex_lock(&clock->lock);
	if (!clock->started)
		ret = start_timer(clock);
	pthread_mutex_unlock(&clock->lock);
	return ret;
}

void dfi__linger_add(struct dfi_source *source)
{
	struct linger_clock *clock = source->dfi->linger;

	pthread_mutex_lock(&clock->lock);
	TAILQ_INSERT_TAIL(&clock->sources, source, linger.link);
	pthread_mutex_unlock(&clock->lock);
}

void dfi__linger_remove(struct dfi_source *source)
{
	struct linger_clock *clock = source->dfi->linger;

	pthread_mutex_lock(&clock->lock);
	TAILQ_REMOVE(&clock->sources, source, linger.link);
	pthread_mutex_unlock(&clock->lock);
	source->linger.ns = 0;
}

void dfi__linger_wake(struct dfi_source *source, int64_t at)
{
	struct linger_clock *clock = source->dfi->linger;

	pthread_mutex_lock(&clock->lock);
	if (at < clock->at)
		set_timer(clock, at);
	pthread_mutex_unlock(&clock->lock);
}

void dfi__linger_start(struct dfi_source *source, uint32_t target)
{
	lane_set_end(&source->head.lanes[target], source->writers[target].end);
	dfi__linger_note(source, target);
}

void dfi__linger_note(struct dfi_source *source, uint32_t target)
{
	struct writer *writer = &source->writers[target];
	struct source_linger *linger = &source->linger;
	bool sooner = lane_awaits_position(source);
	int64_t due;

	if (writer->due && !sooner)
		return;
	due = clock_now_ns() + next_look(source);
	if (writer->due && writer->due <= due)
		return;
	writer->due = due;
	/* Otherwise the timer is set, and not for a later time. */
	if (linger->armed && !sooner)
		return;
	linger->armed = true;
	linger->wake = due;
}

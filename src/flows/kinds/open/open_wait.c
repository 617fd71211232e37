/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a source of an open flow waits for room, for those who must be there, and
 * for news of its targets.
 */
#include "keyed.h"

#include <stdio.h>
#include "base/counter.h"
#include "base/error.h"
#include "flows/members/seat_views.h"
#include "transport/transport.h"

/* ---- Who may come ------------------------------------------------------- */

static int fail_removed(struct dfi_source *source, uint32_t n)
{
	char text[32] = "no target is";

	if (n)
		snprintf(text, sizeof(text), "%u targets are", n);
	return dfi__source_fail(source,
	    dfi__fail(-ECONNRESET,
		"flow '%s': %s %u: %s attached, and no more can come: the flow "
		"was removed, or its creator died",
		source->flow.name, SOURCE_ID(source), text));
}

/* Not sticky: the source has sent nothing, and its close harms nobody. */
static int fail_finished(const struct dfi_source *source, uint32_t n)
{
	return dfi__fail(-ESHUTDOWN,
	    "flow '%s': %s %u: %u sources are attached, which is not enough to "
	    "push (open.min_sources %u), and the flow was finished: no more "
	    "come",
	    source->flow.name, SOURCE_ID(source), n, source->flow.min_sources);
}

int dfi__open_expect_some(struct dfi_source *source, uint32_t seat)
{
	struct open_source *open = open_source(source);
	struct seat_watch *seats = &open->pairs.seats;
	uint32_t i, n = 0, n_sources;
	bool expected = false, removed, finished;

	pthread_mutex_lock(&seats->lock);
	for (i = 0; i < open_seats(source); i++) {
		if (!dfi__pairs_expected(&open->pairs, i))
			continue;
		n++;
		expected |= seat == i || seat == open_seats(source);
	}
	removed = seats->removed;
	finished = seats->finished;
	n_sources = seats->seats.n_attached[OPEN_SOURCE];
	pthread_mutex_unlock(&seats->lock);
	if (removed &&
	    (!expected || (!open->may_push && n < source->flow.min_targets)))
		return fail_removed(source, n);
	if (finished && !open->may_push && n_sources < source->flow.min_sources)
		return fail_finished(source, n_sources);
	return 0;
}

bool dfi__open_is_expected(struct dfi_source *source, uint32_t seat)
{
	struct open_source *open = open_source(source);
	bool expected;

	pthread_mutex_lock(&open->pairs.seats.lock);
	expected = dfi__pairs_expected(&open->pairs, seat);
	pthread_mutex_unlock(&open->pairs.seats.lock);
	return expected;
}

/* ---- Waiting ------------------------------------------------------------ */

/* What a call waits for: room at one seat, or at any if it is n_seats. */
struct lane_wait {
	struct dfi_source *source;
	uint32_t seat;
	bool mark; /* at each target */
};

static bool wants(const struct lane_wait *wait, uint32_t seat)
{
	const struct open_source *open = open_source(wait->source);
	bool any = wait->source->router.routing == DFI_ROUTE_ANY &&
	    (!wait->mark || wait->seat == open_seats(wait->source));

	return open->ends[seat] && wait->seat != OPEN_NO_SEAT &&
	    (any || wait->seat == seat || wait->seat == OPEN_ALL_SEATS);
}

/*
 * Tuples of partitions wait for their owners: for one whose connection breaks
 * only the ring may say so.
 */
static bool wants_owners(const struct lane_wait *wait)
{
	const struct open_source *open = open_source(wait->source);

	return open->keyed && open->may_push &&
	    wait->seat == open_seats(wait->source);
}

/* Whether a seat is ready for what the call waits for, or its target gone. */
static bool seat_is_ready(const struct lane_wait *wait, uint32_t seat)
{
	struct open_source *open = open_source(wait->source);

	if ((wait->seat == OPEN_NO_SEAT || wants_owners(wait)) &&
	    open->ends[seat] && open_is_lost(open->ends[seat]))
		return true;
	return open->may_push && wants(wait, seat) &&
	    (open_credit(open, seat) || open_is_lost(open->ends[seat]));
}

static bool is_ready(void *arg)
{
	struct lane_wait *wait = arg;
	struct dfi_source *source = wait->source;
	struct open_source *open = open_source(source);
	/* These are for other calls than the one that takes news. */
	bool for_news = wait->seat == OPEN_NO_SEAT;
	bool ready = source_aborted(source) ||
	    (!for_news && source_interrupted(source)) ||
	    pairs_changes(&open->pairs) != open->seen;
	uint32_t i;

	keyed_enter(open);
	if (!for_news && open->keyed && open->keyed->spill)
		ready |= dfi__spill_failed(open);
	if (!ready && wait->seat == OPEN_ALL_SEATS)
		ready = dfi__replay_progressed(source);
	for (i = 0;
	     !ready && wait->seat != OPEN_ALL_SEATS && i < open_seats(source);
	     i++)
		ready = seat_is_ready(wait, i);
	keyed_leave(open);
	if (!ready && open->order && !for_news)
		ready = dfi__open_order_arrived(open);
	return ready;
}

static bool announce(void *arg, struct notify *notify, bool *unwoken)
{
	struct lane_wait *wait = arg;
	struct open_source *open = open_source(wait->source);
	bool fresh = false;
	struct dfi_source *end;
	uint32_t i;

	(void)unwoken;
	keyed_enter(open);
	for (i = 0; i < open_seats(wait->source); i++) {
		end = open->ends[i];
		if (!end)
			continue;
		/* So that the death of its target wakes us. */
		if (atomic_peek(&end->targets.sleeping) != &notify->self.word)
			atomic_publish(
			    &end->targets.sleeping, &notify->self.word);
		if (wants(wait, i) || wants_owners(wait))
			fresh |= dfi__notify_announce(
			    notify, dfi__writer_wait_word(&end->rings[0]));
	}
	keyed_leave(open);
	if (open->order)
		fresh |= dfi__open_order_announce(open, notify);
	return fresh;
}

static void arm(void *arg)
{
	struct lane_wait *wait = arg;
	struct open_source *open = open_source(wait->source);
	struct remote *remote;
	uint32_t i;

	keyed_enter(open);
	for (i = 0; i < open_seats(wait->source); i++) {
		if (!wants(wait, i) && !(open->ends[i] && wants_owners(wait)))
			continue;
		remote = open->ends[i]->rings[0].remote;
		if (!remote->in_place)
			remote->transport->ops->ring.arm(remote);
	}
	keyed_leave(open);
	if (open->order)
		dfi__open_order_arm(open);
}

static uint64_t progress(void *arg)
{
	const struct lane_wait *wait = arg;
	uint64_t n = 0;
	uint32_t t;

	for (t = 0; t < wait->source->n_lanes; t++)
		n += atomic_peek(&wait->source->writers[t].segments);
	return n;
}

static struct pairs_wait wait_of(struct lane_wait *wait)
{
	struct dfi_source *source = wait->source;
	struct open_source *open = open_source(source);

	return (struct pairs_wait){
		.policy = &source->wait,
		.time = &source->wait_time,
		.notify = open->notify,
		.cost = 1,
		.ready = is_ready,
		.announce = announce,
		.arm = arm,
		.progress = progress,
		.arg = wait,
	};
}

static int64_t limit_of(const struct dfi_source *source)
{
	return source->flow.evict_after_ms * (int64_t)NS_PER_MS;
}

/* What has no room is a file: its ring has been given back, all or in part. */
static bool lacks_disk(const struct open_source *open, uint32_t seat)
{
	const struct writer *ring = &open->ends[seat]->rings[0];

	return open->keyed && open->keyed->spill &&
	    dfi__replay_unreturned(ring) < ring->geometry.segment_count;
}

/*
 * A ring is full, as it was when the time began. If its target has given
 * something back meanwhile, the ring had room in between, though nobody noted
 * it: the time begins anew. Returns when it ends.
 */
static int64_t still_full(struct open_source *open, uint32_t seat, int64_t now)
{
	struct seat_full *full = &open->full[seat];
	uint64_t given_back = open_given_back(open, seat);

	if (given_back == full->at && !lacks_disk(open, seat)) {
		full->since = EVICTING;
		dfi__pairs_evict(
		    &open->pairs, open->taken[seat], EVICTION_FULL);
		return DEADLINE_NEVER;
	}
	*full = (struct seat_full){ .since = now, .at = given_back };
	return now + limit_of(open->source);
}

int64_t dfi__open_evict_overdue(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	int64_t at, now, next = DEADLINE_NEVER;
	struct seat_full *full;
	uint32_t i;

	if (likely(!open->full))
		return next;
	now = clock_now_ns();
	for (i = 0; i < open_seats(source); i++) {
		full = &open->full[i];
		if (!open->ends[i] || !full->since)
			continue;
		if (full->since == EVICTING) {
			if (open_given_back(open, i) != full->at)
				open_note_room(open, i, true);
			continue;
		}
		at = full->since + limit_of(source);
		if (at <= now && !open_credit(open, i))
			at = still_full(open, i, now);
		if (at > now)
			next = at < next ? at : next;
	}
	return next;
}

/* -EAGAIN, or 0: try again. */
static int dont_wait(
    struct dfi_source *source, struct lane_wait *room, int64_t next)
{
	struct open_source *open = open_source(source);
	struct pairs_wait wait = wait_of(room);

	open->refused = room->seat;
	open->refused_seen = open->seen;
	open->refused_mark = room->mark;
	if (source->notify && dfi__pairs_arm(&wait, source->notify, next))
		return 0;
	return dfi__fail_text(
	    -EAGAIN, "no target has room, or not all are there who must be");
}

bool dfi__open_arm_news(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	struct lane_wait room = { source, open->refused, open->refused_mark };
	struct pairs_wait wait = wait_of(&room);
	bool ready;

	if (!source->notify)
		return true;
	ready = dfi__pairs_arm(&wait, source->notify, DEADLINE_NEVER);
	if (pairs_changes(&open->pairs) == open->seen) {
		/* What has changed may be what the refused call lacked. */
		if (open->refused != OPEN_NO_SEAT)
			ready |= open->refused_seen != open->seen;
		if (!ready)
			return true;
		/* Its notice may have been taken here. It gets one more. */
		open->refused = OPEN_NO_SEAT;
	}
	dfi__notify_kick(source->notify);
	return false;
}

/* next: when the next target may have to be evicted. until: the deadline. */
static int await_room(
    struct dfi_source *source, uint32_t seat, int64_t next, int64_t until)
{
	struct lane_wait room = { source, seat, open_source(source)->marks };
	struct pairs_wait wait = wait_of(&room);
	struct open_source *open = open_source(source);
	int64_t deadline = source->wait_time.deadline;
	char why[PAIRS_WHY_SIZE];
	bool there;

	if (source->flags & DFI_NONBLOCK)
		return dont_wait(source, &room, next);
	counter_add(&source->stalls, 1);
	atomic_set(&source->waits_for, seat);
	source->wait_time.deadline = next < until ? next : until;
	there = dfi__pairs_wait(&wait);
	source->wait_time.deadline = deadline;
	if (there || clock_now_ns() >= next)
		return 0;
	if (seat == OPEN_ALL_SEATS)
		return dfi__fail(-ETIMEDOUT,
		    "flow '%s': %s %u: closed before its targets have "
		    "acknowledged all tuples (dfi_target_ack())",
		    source->flow.name, SOURCE_ID(source));
	if (open->may_push && open->keyed && open->keyed->ways &&
	    seat == open_seats(source))
		return dfi__fail(-ETIMEDOUT,
		    "flow '%s': %s %u: for %ld ms no target has had room for "
		    "%lu bytes of tuples that wait",
		    source->flow.name, SOURCE_ID(source),
		    (long)(source->wait_time.timeout_ns / NS_PER_MS),
		    (unsigned long)dfi__keyed_held_bytes(source));
	if (open->may_push && open->keyed && seat == open_seats(source))
		return dfi__fail(-ETIMEDOUT,
		    "flow '%s': %s %u: for %ld ms no target has taken over "
		    "the partitions of %lu bytes of tuples that wait "
		    "(open.hold_bytes)",
		    source->flow.name, SOURCE_ID(source),
		    (long)(source->wait_time.timeout_ns / NS_PER_MS),
		    (unsigned long)dfi__keyed_held_bytes(source));
	if (open->order && open->may_push && open->n_ends &&
	    seat == open_seats(source))
		return dfi__fail(-ETIMEDOUT,
		    "flow '%s': %s %u: the order has no view now, as not all "
		    "targets have reported%s%s",
		    source->flow.name, SOURCE_ID(source),
		    dfi__seat_views_why(&open->pairs.seats),
		    dfi__pairs_why(&open->pairs, why));
	if (!open->may_push || seat == open_seats(source))
		return dfi__fail(-ETIMEDOUT,
		    "flow '%s': %s %u: %u targets are attached, which is not "
		    "enough to push (open.min_sources %u, open.min_targets "
		    "%u)%s",
		    source->flow.name, SOURCE_ID(source), open->n_ends,
		    source->flow.min_sources, source->flow.min_targets,
		    dfi__pairs_why(&open->pairs, why));
	return dfi__fail(-ETIMEDOUT,
	    "flow '%s': %s %u: the ring of target %u stayed full for %ld ms",
	    source->flow.name, SOURCE_ID(source), seat,
	    (long)(source->wait_time.timeout_ns / NS_PER_MS));
}

/* Why waiting for room is of no use, or 0. */
static int refuse_wait(struct dfi_source *source, uint32_t seat)
{
	const struct keyed *keyed = open_source(source)->keyed;

	if (!keyed || !keyed->replays)
		return 0;
	return keyed->spill ? dfi__spill_fail(source)
			    : dfi__replay_check_window(source, seat);
}

/* Meanwhile the helper may use the ends. */
int dfi__open_await_room(
    struct dfi_source *source, uint32_t seat, int64_t *until)
{
	int64_t next = dfi__open_evict_overdue(source);
	int ret = refuse_wait(source, seat);

	if (ret < 0)
		return ret;
	if (!*until)
		*until = wait_deadline(&source->wait_time, clock_now_ns());
	keyed_leave(open_source(source));
	ret = await_room(source, seat, next, *until);
	keyed_enter(open_source(source));
	return ret;
}

static int await_start(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	int64_t until = 0;
	int ret = 0;

	while (!ret && !open->may_push) {
		ret = dfi__open_adopt(source);
		if (!ret && !open->may_push)
			ret = dfi__open_expect_some(source, open_seats(source));
		if (!ret && !open->may_push)
			ret = dfi__open_await_room(
			    source, open_seats(source), &until);
	}
	return ret;
}

int dfi__open_await_start(struct dfi_source *source, int64_t deadline)
{
	int64_t timeout_ns = source->wait_time.timeout_ns;
	int ret;

	/* The time of an open is not that of a push. */
	source->wait_time.timeout_ns = DEADLINE_NEVER;
	source->wait_time.deadline = deadline;
	keyed_enter(open_source(source));
	ret = await_start(source);
	keyed_leave(open_source(source));
	source->wait_time.deadline = DEADLINE_NEVER;
	source->wait_time.timeout_ns = timeout_ns;
	return ret;
}

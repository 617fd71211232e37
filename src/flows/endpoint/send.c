/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source's segments: waiting for credit, sending, claim/commit and cursors.
 * Which target a tuple goes to is decided in shuffle.c.
 */
#include "source.h"

#include <stdio.h>
#include <string.h>
#include "base/counter.h"
#include "base/error.h"
#include "base/error_list.h"
#include "transport/transport.h"

int dfi__source_fail(struct dfi_source *source, int err)
{
	uint32_t t;

	source->status = dfi__error_keep(err);
	snprintf(source->status_text, sizeof(source->status_text), "%s",
	    dfi_errmsg());
	for (t = 0; t < source->n_lanes; t++) {
		source->writers[t].segment = NULL;
		if (source->lane_ops)
			source->lane_ops->forget(source, t);
		source_close_lane(source, t);
	}
	return err;
}

int dfi__source_refuse(struct dfi_source *source, int err)
{
	source->refusal = err;
	source->refusal_taken = dfi__source_taken(source);
	snprintf(source->status_text, sizeof(source->status_text), "%s",
	    dfi_errmsg());
	return err;
}

static int was_aborted(const struct dfi_source *source)
{
	return dfi__fail(-ECANCELED,
	    "flow '%s': %s %u was aborted here (dfi_%s_abort())",
	    source->flow.name, SOURCE_ID(source),
	    flow_source_word(&source->flow));
}

int dfi__source_interrupted(struct dfi_source *source)
{
	atomic_set(&source->interrupted, false);
	return dfi__fail_text(
	    -EINTR, "the source was interrupted (dfi_source_interrupt())");
}

int dfi__source_give_up(struct dfi_source *source)
{
	return dfi__source_fail(source, was_aborted(source));
}

int dfi__source_check_slow(const struct dfi_source *source)
{
	int ret = handle_check(
	    source, source ? &source->magic : NULL, SOURCE_MAGIC);

	if (!ret && source->status)
		ret = dfi__fail(source->status, "%s", source->status_text);
	else if (!ret && source_aborted(source))
		ret = was_aborted(source);
	return ret;
}

int dfi__source_no_target(const struct dfi_source *source, uint32_t target)
{
	if (source->replica_writer)
		return dfi__fail(-ERANGE,
		    "flow '%s': %s %u: target %u: each tuple of a "
		    "replicate flow goes to all: name DFI_ALL_TARGETS",
		    source->flow.name, SOURCE_ID(source), target);
	if (source->flow.part.combiner)
		return dfi__fail(-ERANGE,
		    "flow '%s': %s %u: target %u: with fan_in all tuples of a "
		    "source go to its combiner: name target 0",
		    source->flow.name, SOURCE_ID(source), target);
	return dfi__fail(-ERANGE,
	    "flow '%s': %s %u: target %u: the flow has %u, numbered from 0",
	    source->flow.name, SOURCE_ID(source), target, source->n_lanes);
}

/* A ring whose target's words make no sense. */
static int damaged(struct dfi_source *source, uint32_t target, int err)
{
	char name[256];

	dfi__peers_name(&source->targets, target, name, sizeof(name));
	dfi__fail_within(err, "flow '%s': from %s %u (pid %u) to %s",
	    source->flow.name, SOURCE_ID(source), source->dfi->node.pid, name);
	return dfi__source_fail(source, err);
}

/* Nobody will read what was not sent to this target yet. */
static void forget_target(struct dfi_source *source, uint32_t target)
{
	struct writer *ring = &source->rings[target];

	if (source->cast)
		dfi__sender_ring_leave(source->cast, target, STREAM_CANCELLED);
	ring->cancelled = true;
	ring->wanted = false;
	ring->segment = NULL;
	if (source->replica_writer)
		return; /* its lane is the others', too */
	ring->refused = 0;
	if (source->lane_ops)
		source->lane_ops->forget(source, target);
	source_close_lane(source, target);
}

int dfi__source_target_left(struct dfi_source *source, uint32_t target)
{
	if (source_target_life(source, target) != TARGET_CANCELLED)
		return dfi__source_fail(
		    source, dfi__peers_lost(&source->targets, target));
	forget_target(source, target);
	return 0;
}

static int cancelled(struct dfi_source *source, uint32_t target)
{
	char name[256];

	dfi__peers_name(&source->targets, target, name, sizeof(name));
	return dfi__fail(-EPIPE,
	    "flow '%s': %s %u: %s has cancelled: it takes no more tuples",
	    source->flow.name, SOURCE_ID(source), name);
}

static always_inline int open_segment(
    struct dfi_source *source, uint32_t target)
{
	struct writer *writer = &source->writers[target];
	struct dfi_source_lane *lane = &source->head.lanes[target];
	int ret = lane_open(source, target);

	if (likely(ret > 0)) {
		lane->next = writer->segment;
		/* The first tuple starts its time. */
		lane_set_end(lane,
		    source->linger.ns
			? writer->segment + writer->geometry.tuple_size
			: writer->end);
		lane_reset_due(source, target);
		writer->refused = 0;
		writer->wanted = false;
		return ret;
	}
	source_close_lane(source, target);
	if (unlikely(ret < 0 && source->replica_writer &&
		source->replica_writer->undrawn))
		return dfi__replica_left(source, ret);
	if (ret == -ECONNRESET)
		return dfi__source_target_left(
		    source, lane_waits_for(source, target));
	return ret < 0 ? damaged(source, lane_waits_for(source, target), ret)
		       : 0;
}

int dfi__source_open_segment(struct dfi_source *source, uint32_t target)
{
	return open_segment(source, target);
}

static inline bool has_credit_or_end(const struct target_wait *wait)
{
	return writer_credit(&wait->source->rings[wait->target]) != 0 ||
	    source_target_life(wait->source, wait->target) ||
	    source_aborted(wait->source) || source_interrupted(wait->source) ||
	    unlikely(wait->source->replica_writer &&
		dfi__replica_has_left(wait->source));
}

/* For a source that waits without its lock. */
static inline bool credit_or_end(void *arg)
{
	const struct target_wait *wait = arg;
	bool there;

	source_lock(wait->source);
	there = has_credit_or_end(wait);
	source_unlock(wait->source);
	return there;
}

/* The same, about to sleep. */
static void arm_remote(void *arg)
{
	const struct target_wait *wait = arg;
	struct remote *remote = wait->source->rings[wait->target].remote;

	source_lock(wait->source);
	remote->transport->ops->ring.arm(remote);
	source_unlock(wait->source);
}

/* Wait until the target gives a segment back or is gone; without the lock. */
static int wait_for_credit(struct dfi_source *source, uint32_t target)
{
	int64_t start = clock_now_ns();
	struct target_wait wait = { .source = source, .target = target };
	_Atomic uint32_t *word = dfi__writer_wait_word(&source->rings[target]);
	struct remote *remote = source->rings[target].remote;
	bool there;

	counter_add(&source->stalls, 1);
	atomic_set(&source->waits_for, target);
	source->wait.arm = remote->in_place ? NULL : arm_remote;
	/* Credits over a network are seen by threads of this process. */
	source->wait.fenced = !remote->in_place;
	source->wait.arm_arg = &wait;
	/* Pairs with wake_owner(): the mapping that word lies in. */
	atomic_publish(&source->targets.sleeping, word);
	source_unlock(source);
	there = wait_until(&source->wait, word, &source->wait_time,
	    credit_or_end, &wait, remote->in_place ? 1 : WAIT_QUEUE_COST);
	source_lock(source);
	atomic_set(&source->targets.sleeping, NULL);
	if (there)
		return 0;
	return dfi__fail(-ETIMEDOUT,
	    "flow '%s': %s %u: the ring of %s %u stayed full for %ld ms",
	    source->flow.name, SOURCE_ID(source),
	    PEER_ID(&source->targets, target),
	    /* Of a close it may be less. */
	    (long)(min_u64((uint64_t)(clock_now_ns() - start),
		       (uint64_t)source->wait_time.timeout_ns) /
		NS_PER_MS));
}

static bool has_room(struct dfi_source *source, uint32_t target)
{
	struct target_wait wait = { .source = source, .target = target };

	return has_credit_or_end(&wait);
}

/* Announce the source where it was refused. Whether it had not been. */
static bool announce(struct dfi_source *source)
{
	struct notify *notify = source->notify;
	bool fresh = dfi__notify_announce(notify, &notify->self.word);
	struct writer *writer;
	uint32_t t;

	for (t = 0; t < source->n_remotes; t++) {
		writer = &source->rings[t];
		if (writer->wanted &&
		    dfi__notify_announce(notify, dfi__writer_wait_word(writer)))
			fresh = true;
	}
	return fresh;
}

static uint64_t segments_sent(const struct dfi_source *source)
{
	uint64_t n = 0;
	uint32_t t;

	for (t = 0; t < source->n_lanes; t++)
		n += atomic_peek(&source->writers[t].segments);
	return n;
}

/*
 * Refused by this target: have the descriptor readable when there is room in
 * any that has refused. true: there is room in this one by now.
 */
static bool arm_descriptor(struct dfi_source *source, uint32_t target)
{
	struct notify *notify = source->notify;
	struct remote *remote;
	bool other = false;
	uint32_t t;

	dfi__notify_drain(notify);
	dfi__notify_sleep(notify, announce(source), false,
	    segments_sent(source), DEADLINE_NEVER);
	for (t = 0; t < source->n_remotes; t++) {
		if (!source->rings[t].wanted)
			continue;
		remote = source->rings[t].remote;
		if (!remote->in_place)
			remote->transport->ops->ring.arm(remote);
		if (t != target && has_room(source, t))
			other = true;
	}
	if (other)
		dfi__notify_kick(notify);
	return has_room(source, target);
}

int dfi_source_fd(struct dfi_source *source)
{
	CANCEL_POINT;
	SOURCE_CALL(source, SOURCE_SHARED(source));
	struct notify *notify;
	int ret = handle_check(
	    source, source ? &source->magic : NULL, SOURCE_MAGIC);

	if (ret < 0)
		return ret;
	if (!(source->flags & DFI_NONBLOCK))
		return dfi__fail(-EINVAL,
		    "flow '%s': %s %u: a descriptor is for handles that "
		    "were opened with DFI_NONBLOCK",
		    source->flow.name, SOURCE_ID(source));
	if (source->notify)
		return source->notify->fd;
	ret = dfi__notify_new(&notify);
	if (ret < 0)
		return dfi__fail_within(ret, "flow '%s': %s %u",
		    source->flow.name, SOURCE_ID(source));
	source->notify = notify;
	/* For the control thread and dfi_source_abort(). */
	atomic_publish(&source->targets.sleeping, &notify->self.word);
	return notify->fd;
}

/*
 * A target that has left may have read everything before, and the proof be on
 * its way; but one that is gone for good may never give it, if its queue pair
 * lives on. So long it is waited for: longer than a queue pair tries. And so is
 * one that has cancelled: a ring that is left before its writes have completed
 * costs its connection, which other sources could use.
 */
#define GONE_NS (INT64_C(4) * NS_PER_S)

/*
 * Once its connection is known to be lost, only what the target had
 * acknowledged before comes.
 */
#define LOST_NS (INT64_C(1) * NS_PER_S)

/* Why there is no end to wait for; the later, the shorter. */
enum drain_state {
	TARGET_ANSWERS,
	TARGET_LEFT, /* or the source has given up */
	TARGET_LOST,
};

struct drain_wait {
	struct target_wait base;
	enum drain_state drain_state;
};

static enum drain_state drain_state_of(
    struct dfi_source *source, uint32_t target)
{
	if (writer_lost(&source->rings[target]))
		return TARGET_LOST;
	return source_aborted(source) ||
		peers_state(&source->targets, target) == PEER_GONE ||
		source_target_life(source, target) == TARGET_CANCELLED
	    ? TARGET_LEFT
	    : TARGET_ANSWERS;
}

static bool drained_or_gone(void *arg)
{
	struct drain_wait *wait = arg;
	struct dfi_source *source = wait->base.source;
	uint32_t target = wait->base.target;

	if (source->cast)
		source->kind->source.look(source);
	return dfi__writer_drained(&source->rings[target]) != 0 ||
	    drain_state_of(source, target) > wait->drain_state;
}

/* After an abort, all targets have that time together. */
static int64_t drain_deadline(
    struct dfi_source *source, enum drain_state drain_state, int64_t deadline)
{
	int64_t now = clock_now_ns();
	int64_t until = now + (drain_state == TARGET_LOST ? LOST_NS : GONE_NS);

	if (drain_state != TARGET_ANSWERS && until < deadline)
		deadline = until;
	if (!source_aborted(source))
		return deadline;
	if (!source->gives_up)
		source->gives_up = now + GONE_NS;
	return source->gives_up < deadline ? source->gives_up : deadline;
}

/* It has not drained, or can't (-ECONNRESET). */
static int fail_drain(struct dfi_source *source, const struct drain_wait *wait,
    int ret, int64_t start)
{
	uint32_t target = wait->base.target;

	if (source_target_life(source, target) == TARGET_CANCELLED)
		return 0;
	if (!ret && source_aborted(source) &&
	    peers_state(&source->targets, target) == PEER_PRESENT)
		return was_aborted(source);
	if (ret < 0 || wait->drain_state != TARGET_ANSWERS)
		return dfi__peers_lost(&source->targets, target);
	return dfi__fail(-ETIMEDOUT,
	    "flow '%s': %s %u: closed, but after %ld ms it is not known "
	    "whether all has arrived at %s %u",
	    source->flow.name, SOURCE_ID(source),
	    (long)((clock_now_ns() - start) / NS_PER_MS),
	    PEER_ID(&source->targets, target));
}

int dfi__source_drain(
    struct dfi_source *source, uint32_t target, int64_t deadline)
{
	struct drain_wait wait = { .base = { source, target } };
	struct writer *writer = &source->rings[target];
	struct wait_time *time = &source->wait_time;
	int64_t start = clock_now_ns();
	_Atomic uint32_t *word;
	bool there = true;
	int ret;

	/* It had cancelled before the source attached. */
	if (!writer->remote)
		return 0;
	if (source->cast)
		source->kind->source.look(source);
	word = dfi__writer_wait_word(writer);
	atomic_set(&source->waits_for, target);
	while ((ret = dfi__writer_drained(writer)) == 0 && there) {
		wait.drain_state = drain_state_of(source, target);
		time->deadline = drain_deadline(
		    source, wait.drain_state, deadline);
		source->wait.arm = arm_remote;
		source->wait.fenced = true;
		source->wait.arm_arg = &wait.base;
		/* Pairs with wake_owner(): the mapping that word lies in. */
		atomic_publish(&source->targets.sleeping, word);
		there = wait_until(
		    &source->wait, word, time, drained_or_gone, &wait, 1);
		atomic_set(&source->targets.sleeping, NULL);
	}
	return ret > 0 ? 0 : fail_drain(source, &wait, ret, start);
}

/* A lane's target, or one of them, doesn't stay: an error, or 0. */
static int check_life(struct dfi_source *source, uint32_t lane)
{
	int ret = 0;

	if (unlikely(source->replica_writer != NULL)) {
		ret = dfi__replica_left(source, 0);
		return ret < 0 ? ret : dfi__replica_is_wanted(source);
	}
	if (unlikely(source_target_life(source, lane))) {
		ret = dfi__source_target_left(source, lane);
		return ret < 0 ? ret : cancelled(source, lane);
	}
	return 0;
}

/* Refused by this target: it alone of the replica writer's is waited for. */
static void want_room(struct dfi_source *source, uint32_t target)
{
	uint32_t t;

	if (source->replica_writer)
		for (t = 0; t < source->n_remotes; t++)
			source->rings[t].wanted = false;
	source->rings[target].wanted = true;
}

static void goes_on(struct dfi_source *source, uint32_t lane)
{
	uint32_t t;

	if (likely(!source->replica_writer)) {
		dfi__source_goes_on(source, lane);
		return;
	}
	for (t = 0; t < source->n_remotes; t++)
		dfi__source_goes_on(source, t);
}

int dfi__source_make_lane_room(struct dfi_source *source, uint32_t lane)
{
	uint32_t target;
	int ret = source_check(source);

	if (ret < 0)
		return ret;
	/* Before all waiting, and before saying that there is nothing to wait
	 * for: the caller may do something else then. */
	source_post(source);
	for (;;) {
		if (source_aborted(source))
			return dfi__source_give_up(source);
		/* It may be for others than what comes now is for. */
		ret = source_settle(source);
		if (!ret)
			ret = check_life(source, lane);
		if (ret < 0)
			return ret;
		ret = dfi__source_open_segment(source, lane);
		target = lane_waits_for(source, lane);
		if (ret > 0)
			goes_on(source, lane);
		/* Nobody to wait for may be why there is no segment. */
		if (!ret && unlikely(source->replica_writer != NULL))
			ret = dfi__replica_is_wanted(source);
		if (ret != 0)
			return ret < 0 ? ret : 0;
		want_room(source, target);
		if (source_interrupted(source))
			return dfi__source_interrupted(source);
		if (source->notify && arm_descriptor(source, target))
			continue;
		if (source->notify)
			dfi__source_found_no_room(source, target);
		if (source->flags & DFI_NONBLOCK)
			return dfi__fail_text(
			    -EAGAIN, "the ring of the tuple's target is full");
		ret = wait_for_credit(source, target);
		if (ret < 0)
			return ret;
	}
}

int dfi__source_make_room(struct dfi_source *source, uint32_t lane)
{
	return unlikely(source->lane_ops != NULL)
	    ? source->lane_ops->make_room(source, lane)
	    : dfi__source_make_lane_room(source, lane);
}

int dfi__source_make_room_to_push(struct dfi_source *source, uint32_t target)
{
	int ret = dfi__source_make_room(source, target);

	source->writers[target].refused = ret == -EPIPE ? 0 : ret;
	return ret;
}

/*
 * Between a push that fills a segment and the writer: each call here is a part
 * of the time that a tuple takes in a latency flow.
 */
static always_inline int send_segment(
    struct dfi_source *source, uint32_t target)
{
	uint64_t bytes = source_filled(source, target);
	int ret = 0;

	if (source_aborted(source))
		return dfi__source_give_up(source);
	if (likely(bytes))
		ret = lane_publish(source, target, bytes);
	else
		source->writers[target].segment = NULL;
	if (unlikely(source->replica_writer != NULL)) {
		ret = dfi__replica_left(source, ret);
		if (!ret && !(source->flags & DFI_NONBLOCK))
			ret = source_settle(source);
		/* The tuples are taken: the next call tells. */
		if (ret == -EINTR)
			atomic_set(&source->interrupted, true);
		else if (ret < 0 && ret != -ETIMEDOUT)
			return ret;
	} else if (unlikely(ret < 0 || source_target_life(source, target))) {
		return dfi__source_target_left(source, target);
	}
	ret = open_segment(source, target);
	return ret < 0 ? ret : 0;
}

int dfi__source_send(struct dfi_source *source, uint32_t target)
{
	return send_segment(source, target);
}

/* What the lane may take is in its segment, which the cursor may have had. */
static always_inline int filled_up(struct dfi_source *source, uint32_t target)
{
	return unlikely(source->lane_ops != NULL)
	    ? source->lane_ops->reached(source, target)
	    : send_segment(source, target);
}

/*
 * lane->next has reached lane->end: the segment is full, or what lies in it was
 * added while nobody looked. Any number of times.
 */
static always_inline int reached_end(struct dfi_source *source, uint32_t target)
{
	if (likely(
		source->head.lanes[target].next == source->writers[target].end))
		return filled_up(source, target);
	dfi__linger_start(source, target);
	return 0;
}

/* The tuple that a push put into the spare room goes into a segment. */
static int push_spare(struct dfi_source *source, uint32_t target)
{
	struct dfi_source_lane *lane = &source->head.lanes[target];
	int ret;

	source_close_lane(source, target);
	ret = dfi__source_make_room_to_push(source, target);
	if (ret < 0)
		return ret;
	memcpy(lane->next, source->spare, source->head.tuple_size);
	if (dfi_source_lane_advance(lane, lane->next + source->head.tuple_size))
		return reached_end(source, target);
	return 0;
}

/* The tuple in the spare room is not taken. */
static maybe_unused int lane_shared(
    struct dfi_source *source, uint32_t target, int err)
{
	source_lock(source);
	if (!source->writers[target].segment)
		source_close_lane(source, target);
	source_unlock(source);
	return err;
}

static always_inline int lane_full(struct dfi_source *source, uint32_t target)
{
	if (unlikely(source->cursor_open && source->cursor_lane == target)) {
		source_close_lane(source, target);
		return dfi__source_check_free(source);
	}
	if (likely(source->writers[target].segment != NULL))
		return reached_end(source, target);
	return push_spare(source, target);
}

int dfi_source_lane_full(struct dfi_source *source, uint32_t target)
{
	SOURCE_CALL(source, lane_shared(source, target, SOURCE_SHARED(source)));
	int ret;

	source_lock(source);
	ret = lane_full(source, target);
	source_unlock(source);
	return ret;
}

int dfi_source_flush(struct dfi_source *source)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));
	int ret = dfi__source_check_free(source);
	uint32_t t;

	if (ret < 0)
		return ret;
	source_lock(source);
	ret = source_settle(source);
	for (t = 0; !ret && t < source->n_lanes; t++)
		if (source->lane_ops)
			ret = source->lane_ops->flush(source, t);
		else if (source_filled(source, t))
			ret = dfi__source_send(source, t);
	if (!ret)
		ret = source_unsettled(source);
	source_post(source);
	source_unlock(source);
	return ret;
}

/* Tuples for which a lane has room in its open segment. */
static uint32_t lane_room(const struct dfi_source *source, uint32_t target)
{
	if (source_lane_is_closed(source, target))
		return 0;
	return (uint32_t)(source->writers[target].end -
		   source->head.lanes[target].next) /
	    source->head.tuple_size;
}

/*
 * The most that a segment has room for in any case; and if a kind's lanes have
 * less, why, and what to do.
 */
static uint32_t most_room(const struct dfi_source *source, uint32_t target,
    const char **why, const char **instead)
{
	uint32_t n = source->writers[target].geometry.segment_tuples;

	return source->lane_ops
	    ? source->lane_ops->most_room(source, n, why, instead)
	    : n;
}

static __attribute__((cold)) int no_span(
    const struct dfi_source *source, const char *call)
{
	return dfi__fail(-EINVAL, "flow '%s': %s %u: %s: span is NULL",
	    source->flow.name, SOURCE_ID(source), call);
}

/* What limits a claim says how to have a larger one. */
static __attribute__((cold)) int no_claim(
    const struct dfi_source *source, uint32_t target, uint32_t n)
{
	const char *why = "do not fit a segment",
		   *instead = "create the flow with a larger segment_size";
	uint32_t most = most_room(source, target, &why, &instead);

	if (source->flow.goal == DFI_LATENCY) {
		why = "do not fit a segment of a flow for latency";
		instead = "create the flow with goal DFI_BANDWIDTH";
	}
	return dfi__fail(-EMSGSIZE,
	    "flow '%s': %s %u: claim: %u tuples %s: claim at most %u, or %s",
	    source->flow.name, SOURCE_ID(source), n, why, most, instead);
}

static int check_claim(
    const struct dfi_source *source, uint32_t lane, uint32_t n)
{
	const char *why, *instead;

	if (!n)
		return dfi__fail(-EINVAL,
		    "flow '%s': %s %u: claim: 0 tuples: claim 1 or more",
		    source->flow.name, SOURCE_ID(source));
	return n > most_room(source, lane, &why, &instead)
	    ? no_claim(source, lane, n)
	    : 0;
}

/* An open segment that has less room than that is sent. */
static int claim_room(struct dfi_source *source, uint32_t target, uint32_t n)
{
	int ret = 0;

	source_lock(source);
	if (lane_room(source, target) && lane_room(source, target) < n)
		ret = source->lane_ops ? source->lane_ops->send(source, target)
				       : dfi__source_send(source, target);
	if (!ret && source_lane_is_closed(source, target))
		ret = dfi__source_make_room(source, target);
	source_unlock(source);
	return ret;
}

static always_inline int claim(struct dfi_source *source, uint32_t target,
    uint32_t lane, uint32_t n, struct dfi_span *span)
{
	int ret = 0;

	if (lane_room(source, lane) < n)
		ret = claim_room(source, lane, n);
	if (ret < 0)
		return ret;
	span->tuples = source->head.lanes[lane].next;
	span->count = lane_room(source, lane);
	span->target = target;
	source->claimed = span->tuples;
	return 0;
}

int dfi_source_claim(
    struct dfi_source *source, uint32_t target, struct dfi_span *span)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));
	int ret = dfi__source_check_free(source);
	uint32_t lane;

	if (ret < 0)
		return ret;
	if (!span)
		return no_span(source, "claim");
	if (!source_find_lane(source, target, &lane))
		return dfi__source_no_target(source, target);
	return claim(source, target, lane, 1, span);
}

int dfi_source_claim_n(struct dfi_source *source, uint32_t target, uint32_t n,
    struct dfi_span *span)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));
	int ret = dfi__source_check_free(source);
	uint32_t lane = 0;

	if (!ret && !span)
		ret = no_span(source, "claim");
	if (!ret && !source_find_lane(source, target, &lane))
		ret = dfi__source_no_target(source, target);
	if (!ret)
		ret = check_claim(source, lane, n);
	return ret < 0 ? ret : claim(source, target, lane, n, span);
}

static int commit(struct dfi_source *source, const struct dfi_span *span,
    uint32_t count, bool more)
{
	struct dfi_source_lane *lane;
	int ret = source_check(source);
	uint32_t number;

	if (ret < 0)
		return ret;
	if (!span)
		return no_span(source, "commit");
	if (!source->claimed || span->tuples != source->claimed ||
	    !source_find_lane(source, span->target, &number) ||
	    source_lane_is_closed(source, number) ||
	    span->tuples != source->head.lanes[number].next)
		return dfi__fail(-EINVAL,
		    "flow '%s': %s %u: commit: the span is not the one "
		    "that was claimed last",
		    source->flow.name, SOURCE_ID(source));
	lane = &source->head.lanes[number];
	if (count > span->count ||
	    (uint64_t)count * source->head.tuple_size >
		(uint64_t)(source->writers[number].end - lane->next))
		return dfi__fail(-EINVAL,
		    "flow '%s': %s %u: commit: %u tuples are more than "
		    "the %u that were claimed",
		    source->flow.name, SOURCE_ID(source), count, span->count);
	source->claimed = NULL;
	more = more && source_may_hold(source);
	if (more)
		source->batch.open = true;
	if (dfi_source_lane_advance(
		lane, lane->next + (size_t)count * source->head.tuple_size))
		ret = dfi_source_lane_full(source, number);
	if (more)
		source->batch.open = false;
	else
		source_post(source);
	return ret;
}

int dfi_source_commit(
    struct dfi_source *source, const struct dfi_span *span, uint32_t count)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));

	return commit(source, span, count, false);
}

int dfi_source_commit_more(
    struct dfi_source *source, const struct dfi_span *span, uint32_t count)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));

	return commit(source, span, count, true);
}

static maybe_unused struct dfi_source_cursor failed_cursor(
    struct dfi_source_cursor cursor, int err)
{
	cursor.status = err;
	return cursor;
}

/* Move the position of the open segment from the lane to the cursor. */
static void load_cursor(struct dfi_source_cursor *cursor)
{
	struct dfi_source *source = cursor->source;
	const struct dfi_source_lane *lane = &source->head.lanes[cursor->lane];

	cursor->next = lane->next;
	cursor->end = source->writers[cursor->lane].end;
	source_close_lane(source, cursor->lane);
}

struct dfi_source_cursor dfi_source_cursor_open(
    struct dfi_source *source, uint32_t target, size_t size)
{
	struct dfi_source_cursor cursor = { .source = source };

	SOURCE_CALL(source, failed_cursor(cursor, SOURCE_SHARED(source)));
	cursor.status = dfi__source_check_free(source);
	if (cursor.status)
		return cursor;
	if (size != source->head.tuple_size)
		cursor.status = dfi__fail(-EINVAL,
		    "flow '%s': a cursor for tuples of %zu bytes, but the "
		    "flow's have %u",
		    source->flow.name, size, source->head.tuple_size);
	else if (!source_find_lane(source, target, &cursor.lane))
		cursor.status = dfi__source_no_target(source, target);
	if (cursor.status)
		return cursor;
	source_lock(source);
	/* Nobody waits for a place whose segment waits for the cursor. */
	if (lane_awaits_place(source) && source_filled(source, cursor.lane))
		cursor.status = dfi__source_send(source, cursor.lane);
	if (cursor.status) {
		source_unlock(source);
		return cursor;
	}
	source->cursor_open = true;
	source->cursor_lane = cursor.lane;
	if (source->writers[cursor.lane].segment)
		load_cursor(&cursor);
	source_unlock(source);
	return cursor;
}

/* Put the cursor's position back into the lane, and send a full segment. */
static int store_cursor(const struct dfi_source_cursor *cursor)
{
	struct dfi_source *source = cursor->source;
	struct dfi_source_lane *lane;
	int ret = source_check(source);

	if (ret < 0 || !cursor->next)
		return ret;
	lane = &source->head.lanes[cursor->lane];
	lane->next = cursor->next;
	lane_set_end(lane, cursor->end);
	if (lane->next == cursor->end)
		return filled_up(source, cursor->lane);
	if (!source->linger.ns)
		return 0;
	if (source_filled(source, cursor->lane))
		dfi__linger_start(source, cursor->lane);
	else
		lane_set_end(lane, lane->next + source->head.tuple_size);
	return 0;
}

/* Whether it was refused when it was opened, or is closed. */
static bool cursor_is_dead(const struct dfi_source_cursor *cursor)
{
	return cursor->status == -ERANGE || cursor->status == -EINVAL ||
	    cursor->status == -EBUSY;
}

struct dfi_source_cursor dfi_source_cursor_slow(struct dfi_source_cursor cursor)
{
	struct dfi_source *source = cursor.source;

	SOURCE_CALL(source, failed_cursor(cursor, SOURCE_SHARED(source)));
	if (cursor_is_dead(&cursor)) {
		if (cursor.status != -EBUSY && !source_check(source))
			(void)dfi__source_refuse(source, cursor.status);
		return cursor;
	}
	source_lock(source);
	cursor.status = store_cursor(&cursor);
	if (!cursor.status && !source->writers[cursor.lane].segment)
		cursor.status = dfi__source_make_room_to_push(
		    source, cursor.lane);
	cursor.next = cursor.end = NULL;
	if (!cursor.status)
		load_cursor(&cursor);
	source_unlock(source);
	return cursor;
}

int dfi_source_cursor_close(struct dfi_source_cursor cursor)
{
	int ret;

	if (cursor_is_dead(&cursor))
		return cursor.status;
	SOURCE_CALL(cursor.source, SOURCE_SHARED(cursor.source));
	source_lock(cursor.source);
	ret = store_cursor(&cursor);
	if (ret != -EOWNERDEAD)
		cursor.source->cursor_open = false;
	source_unlock(cursor.source);
	return cursor.status ? cursor.status : ret;
}

int dfi__source_check_free(const struct dfi_source *source)
{
	int ret = source_check(source);

	if (!ret && source->cursor_open)
		return dfi__fail(-EBUSY,
		    "flow '%s': %s %u: a cursor is open: close it first",
		    source->flow.name, SOURCE_ID(source));
	return ret;
}

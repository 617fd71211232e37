/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a target waits for its sources: by itself, in a target group, or by a
 * descriptor that its owner polls. intake.c finds the segments.
 */
#include "await.h"

#include "base/counter.h"
#include "base/error.h"
#include "base/error_list.h"

static struct region_header *region_header(const struct dfi_target *target)
{
	return target->region->base;
}

/*
 * How often a wait looks at a network's queue. If segments come through the
 * queue, a wait makes this many looks in a row, because the locks around them
 * take longer. If segments are seen in memory, it looks for other arrivals once
 * in LINES_FOR_REST lines of memory, but not in each pass over the rings: each
 * look delays a segment that comes meanwhile.
 */
#define LOOKS_AT_ONCE 4
#define LINES_FOR_REST 256
#define LEAST_FOR_REST 8

/*
 * If the rings are few and segments are seen in memory, a spinning target makes
 * this many passes that look only for segments. Then it checks what else can
 * end the wait.
 */
#define PASSES_IN_MEMORY 8
#define RINGS_IN_MEMORY 8

/* The fastest look. nothing is 0, maybe of look_later(). */
static always_inline bool any_ready(
    const struct dfi_target *target, uint64_t nothing)
{
	const struct reader *reader = target->readers + nothing;
	const struct reader *end = reader + target->n_readers;

	for (; reader < end; reader++)
		if (target_ring_ready(target, reader))
			return true;
	return false;
}

/* Whether a consuming call has something to do, among what has arrived. */
static always_inline bool segment_or_change(struct dfi_target *target)
{
	const struct reader *reader = target->readers;
	uint32_t i;

	if (target_order_changed(target))
		return true;
	for (i = 0; !target->in_order && i < target->n_readers; i++, reader++)
		if (target_ring_ready(target, reader) ||
		    (!reader->end && reader_end_marked(reader)))
			return true;
	return target_changes(target) != target->seen_changes ||
	    target_lost(target) || target_aborted(target) ||
	    target_interrupted(target) || target_is_called(target);
}

static bool arrived(struct dfi_target *target)
{
	target_progress(target, 1);
	return segment_or_change(target);
}

bool dfi__target_ready(struct dfi_target *target)
{
	return target_has_results(target) || arrived(target);
}

/* Take in the network's arrivals, if that is due within these passes. */
static always_inline void look_at_queue(
    struct dfi_target *target, uint32_t passes)
{
	struct looks *looks = &target->looks;

	if (likely(!target->region->exports))
		return;
	if (looks->left > passes) {
		looks->left -= passes;
		return;
	}
	looks->left = looks->period;
	target_progress(target, looks->at_once);
}

static bool look(void *arg)
{
	struct dfi_target *target = arg;

	look_at_queue(target, 1);
	return segment_or_change(target);
}

/*
 * For a spinning target: each instruction between the arrival and the sight of
 * a segment adds latency. Other arrivals are rare, or not urgent.
 */
static always_inline bool spin_look(void *arg)
{
	struct dfi_target *target = arg;
	uint32_t passes = target->looks.in_memory, i;

	look_at_queue(target, passes + 1);
	for (i = 0; i < passes; i++)
		if (any_ready(target, 0))
			return true;
	return segment_or_change(target);
}

/*
 * Look at this many rings before slower work: the owner often asks just before
 * an answer comes.
 */
#define GLANCE_RINGS 64

bool dfi__target_glance(struct dfi_target *target)
{
	uint32_t budget = target->wait.budget, spent;
	uint64_t nothing = 0;
	bool there = false;

	/*
	 * A queue's arrivals are not in memory until they are taken in, and
	 * finding the next segment of an order takes more than a look.
	 */
	if (target->in_order || target_is_queued(target))
		budget = 0;
	if (budget > GLANCE_RINGS)
		budget = GLANCE_RINGS;
	for (spent = 0; spent < budget; spent += target->n_readers) {
		there = any_ready(target, nothing);
		if (there)
			break;
		nothing = look_later(nothing);
	}
	if (!there && unlikely(target->region->exports != NULL)) {
		target_progress(target, 1);
		there = !target->in_order && any_ready(target, 0);
	}
	if (there && unlikely(target->stall.since))
		dfi__target_goes_on(target);
	return there;
}

bool dfi__target_announce(struct dfi_target *target, struct notify *notify)
{
	bool fresh = dfi__notify_announce(
	    notify, &region_header(target)->reader_waits);

	/* The control thread and dfi_target_abort() wake the owner by it. */
	if (atomic_peek(&target->sources.sleeping) != &notify->self.word)
		atomic_publish(&target->sources.sleeping, &notify->self.word);
	return fresh;
}

void dfi__target_withdraw(struct dfi_target *target)
{
	dfi__peers_withdraw(&target->sources);
	dfi__notify_withdraw(&region_header(target)->reader_waits);
}

bool dfi__target_arm(struct dfi_target *target)
{
	struct notify *notify = target->notify;
	bool fresh;

	dfi__notify_drain(notify);
	fresh = dfi__target_announce(target, notify);
	fresh |= dfi__notify_announce(notify, &notify->self.word);
	dfi__notify_sleep(notify, fresh, dfi__target_is_unwoken(target),
	    atomic_peek(&target->segments),
	    marks_deadline(target->marks, target->wait_time.deadline));
	if (target->wait.arm)
		target->wait.arm(target->wait.arm_arg);
	return arrived(target);
}

int dfi_target_fd(struct dfi_target *target)
{
	CANCEL_POINT;
	TARGET_CALL(target, TARGET_SHARED(target));
	struct notify *notify;
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	if (ret < 0)
		return ret;
	if (!(target->flags & DFI_NONBLOCK))
		return dfi__fail(-EINVAL,
		    "flow '%s': %s %u: a descriptor is for handles that "
		    "were opened with DFI_NONBLOCK",
		    target->flow.name, TARGET_ID(target));
	if (target->group)
		return dfi__fail(-EBUSY,
		    "flow '%s': %s %u is in a group, which has a "
		    "descriptor (dfi_target_group_fd())",
		    target->flow.name, TARGET_ID(target));
	if (target->notify)
		return target->notify->fd;
	ret = dfi__notify_new(&notify);
	if (ret < 0)
		return dfi__fail_within(ret, "flow '%s': %s %u",
		    target->flow.name, TARGET_ID(target));
	target->notify = notify;
	return notify->fd;
}

/*
 * A source has not attached in time: return the error now, and again after the
 * same time. 0: all have attached.
 */
static int check_attached(struct dfi_target *target)
{
	struct wait_time *time = &target->wait_time;

	if (dfi__peers_all_attached(&target->sources)) {
		time->deadline = DEADLINE_NEVER;
		return 0;
	}
	if (clock_now_ns() < time->deadline)
		return 0;
	time->deadline = context_deadline(target->dfi, target->open_timeout_ms);
	return dfi__error_keep(dfi__peers_missing(&target->sources));
}

/* A nonblocking handle reads the clock once in this many empty polls. */
#define ATTACH_CHECK_POLLS 256

int dfi__target_found_none(struct dfi_target *target)
{
	int ret = 0;

	if (target->notify)
		dfi__target_found_nothing(target);
	if (target->wait_time.deadline != DEADLINE_NEVER &&
	    (target->notify || target->group ||
		target->empty_polls++ % ATTACH_CHECK_POLLS == 0))
		ret = check_attached(target);
	return ret < 0 ? ret : dfi__fail_text(-EAGAIN, "no tuple is there");
}

bool dfi__target_is_unwoken(const struct dfi_target *target)
{
	const struct export *export = target->region->exports;
	bool unwoken = false;

	for (; unlikely(export != NULL); export = export->next)
		unwoken |= atomic_peek(&export->unwoken);
	return unwoken;
}

static struct looks looks_of(const struct dfi_target *target)
{
	struct looks looks = { .at_once = 1 };

	if (target_is_queued(target)) {
		looks.at_once = LOOKS_AT_ONCE;
		looks.cost = WAIT_QUEUE_COST;
		/* A look at the queue sees its segments at once. */
		looks.in_memory = 1;
	} else {
		looks.period = LINES_FOR_REST / target->n_readers;
		if (looks.period < LEAST_FOR_REST)
			looks.period = LEAST_FOR_REST;
		if (target->n_readers <= RINGS_IN_MEMORY)
			looks.in_memory = PASSES_IN_MEMORY;
	}
	/* Finding the next segment of an order takes more than a look. */
	if (target->in_order)
		looks.in_memory = 0;
	looks.cost += target->n_readers * (looks.in_memory + 1);
	/* A waiting target has just looked at the queue. */
	looks.left = looks.period;
	return looks;
}

/*
 * Sleep through a part of a slow stream, which goes on meanwhile: so not where
 * only looks bring its bytes.
 */
static void pace_if_moving(struct dfi_target *target)
{
	const struct export *export = target->region->exports;

	for (; unlikely(export != NULL); export = export->next)
		if (export->transport->ops->moves_by_looks &&
		    atomic_peek(&export->queued))
			return;
	counter_add(&target->wait_time.counts.ns,
	    dfi__pace(&target->pace, atomic_peek(&target->segments)));
}

int dfi__target_wait(struct dfi_target *target)
{
	struct wait_time *time = &target->wait_time;
	_Atomic uint32_t *word = &region_header(target)->reader_waits;
	int64_t attach_deadline;
	bool there;
	int ret;

	if (time->deadline != DEADLINE_NEVER &&
	    dfi__peers_all_attached(&target->sources))
		time->deadline = DEADLINE_NEVER;
	attach_deadline = time->deadline;
	target->wait.unwoken = dfi__target_is_unwoken(target);
	target->looks = looks_of(target);
	counter_add(&target->stalls, 1);
	pace_if_moving(target);
	/*
	 * Pairs with dfi__peers_wake(): orders the mapping that the word lies
	 * in.
	 */
	atomic_publish(&target->sources.sleeping, word);
	if (target->above)
		atomic_publish(&target->above->sleeping, word);
	time->deadline = marks_deadline(target->marks, attach_deadline);
	there = wait_spin(&target->wait, time, spin_look, target,
		    target->looks.cost) ||
	    dfi__wait_slow(&target->wait, word, time,
		target->wait.sleeps ? look : spin_look, target);
	time->deadline = attach_deadline;
	atomic_set(&target->sources.sleeping, NULL);
	if (target->above)
		atomic_set(&target->above->sleeping, NULL);
	if (there) {
		if (unlikely(target->stall.since) &&
		    dfi__target_has_segment(target))
			dfi__target_goes_on(target);
		return 0;
	}
	if (target->look_again & LOOK_FOR_IDLE &&
	    clock_now_ns() >= target->marks->idle_due)
		return 0;
	if (attach_deadline != DEADLINE_NEVER) {
		ret = check_attached(target);
		if (ret < 0 || time->timeout_ns == DEADLINE_NEVER)
			return ret;
	}
	return dfi__fail(-ETIMEDOUT,
	    "flow '%s': %s %u: no tuple came for %ld ms", target->flow.name,
	    TARGET_ID(target), (long)(time->timeout_ns / NS_PER_MS));
}

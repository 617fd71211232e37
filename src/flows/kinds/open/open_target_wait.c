/* SPDX-License-Identifier: Apache-2.0 */
/* How a target of an open flow waits for its rings and for news of its pairs.
 */
#include "open_target.h"
#include "open_target_order.h"

#include "base/counter.h"
#include "base/error.h"
#include "flows/endpoint/await.h"

bool dfi__open_target_wakes(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	uint32_t i;

	if (target_aborted(target) || target_interrupted(target) ||
	    pairs_changes(&open->pairs) != open->seen)
		return true;
	if (open->order)
		return dfi__target_order_ready(target);
	for (i = 0; i < open_n_taken(open); i++)
		if (!open->taken[i].held &&
		    open_may_read(target, &open->taken[i].end->readers[0]) &&
		    !open_is_shut(target, &open->taken[i]) &&
		    dfi__target_ready(open->taken[i].end))
			return true;
	return false;
}

/*
 * While the rings are few, a wait makes this many passes that look for segments
 * only, before it looks at the rest: each instruction between the arrival and
 * the sight of a segment adds latency.
 */
#define PASSES_IN_MEMORY 8
#define RINGS_IN_MEMORY 8

static uint32_t passes_in_memory(const struct open_target *open)
{
	return open_n_taken(open) <= RINGS_IN_MEMORY && !open->order
	    ? PASSES_IN_MEMORY
	    : 0;
}

bool dfi__open_target_any_ready(const struct dfi_target *target)
{
	const struct open_target *open = open_target(target);
	const struct dfi_target *end;
	uint32_t i;

	for (i = 0; i < open_n_taken(open); i++) {
		end = open->taken[i].end;
		if (target_ring_ready(end, &end->readers[0]) &&
		    !open->taken[i].held &&
		    open_may_read(target, &end->readers[0]))
			return true;
	}
	return false;
}

static bool is_ready(void *arg)
{
	uint32_t passes = passes_in_memory(open_target(arg));

	for (; passes; passes--)
		if (dfi__open_target_any_ready(arg))
			return true;
	return dfi__open_target_wakes(arg);
}

bool dfi__open_target_announce(
    struct dfi_target *target, struct notify *notify, bool *unwoken)
{
	struct open_target *open = open_target(target);
	bool fresh = false;
	uint32_t i;

	/* The helper and dfi_target_abort() wake the owner by it. */
	if (atomic_peek(&target->sources.sleeping) != &notify->self.word)
		atomic_publish(&target->sources.sleeping, &notify->self.word);
	for (i = 0; i < open_n_taken(open); i++) {
		fresh |= dfi__target_announce(open->taken[i].end, notify);
		*unwoken |= dfi__target_is_unwoken(open->taken[i].end);
	}
	return fresh;
}

static bool announce(void *arg, struct notify *notify, bool *unwoken)
{
	return dfi__open_target_announce(arg, notify, unwoken);
}

void dfi__open_target_sleeps(struct dfi_target *target)
{
	const struct open_target *open = open_target(target);
	struct wait_policy *wait;
	uint32_t i;

	for (i = 0; i < open_n_taken(open); i++) {
		wait = &open->taken[i].end->wait;
		if (wait->arm)
			wait->arm(wait->arm_arg);
	}
}

static void arm(void *arg)
{
	dfi__open_target_sleeps(arg);
}

void dfi__open_target_withdraw(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	uint32_t i;

	for (i = 0; i < open_n_taken(open); i++)
		dfi__target_withdraw(open->taken[i].end);
	dfi__peers_withdraw(&target->sources);
}

static uint64_t progress(void *arg)
{
	const struct dfi_target *target = arg;

	return atomic_peek(&target->segments);
}

/* How many segments have come, marks included: another number, at least. */
static uint64_t arrived(const struct open_target *open)
{
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < open_n_taken(open); i++)
		n += open->taken[i].end->readers[0].seq;
	return n;
}

int dfi__open_target_wait(struct dfi_target *target, struct call_wait *call)
{
	struct open_target *open = open_target(target);
	int64_t deadline = target->wait_time.deadline;
	char why[PAIRS_WHY_SIZE];
	bool there;
	struct pairs_wait wait = {
		.policy = &target->wait,
		.time = &target->wait_time,
		.notify = open->notify,
		.cost = open_n_taken(open) * (passes_in_memory(open) + 1) + 1,
		.ready = is_ready,
		.announce = announce,
		.arm = arm,
		.progress = progress,
		.arg = target,
	};

	if (target->group)
		return dfi__fail_text(-EAGAIN, "no tuple is there");
	if (target->flags & DFI_NONBLOCK) {
		if (target->notify &&
		    dfi__pairs_arm(&wait, target->notify,
			marks_deadline(target->marks, deadline)))
			return 0;
		return dfi__fail_text(-EAGAIN, "no tuple is there");
	}
	if (!call->until || call->arrived != arrived(open))
		*call = (struct call_wait){
			.until = wait_deadline(
			    &target->wait_time, clock_now_ns()),
			.arrived = arrived(open),
		};
	counter_add(&target->stalls, 1);
	target->wait_time.deadline = marks_deadline(target->marks, call->until);
	there = dfi__pairs_wait(&wait);
	target->wait_time.deadline = deadline;
	if (there ||
	    clock_now_ns() >= marks_deadline(target->marks, DEADLINE_NEVER))
		return 0;
	return dfi__fail(-ETIMEDOUT,
	    "flow '%s': %s %u: no tuple came for %ld ms%s%s", target->flow.name,
	    TARGET_ID(target), (long)(target->wait_time.timeout_ns / NS_PER_MS),
	    open->order ? dfi__target_order_why(open) : "",
	    dfi__pairs_why(&open->pairs, why));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Target groups. A member never waits by itself. The group polls its members in
 * turn, and sleeps on one descriptor that any member makes readable.
 */
#include <dfi/target_group.h>

#include <poll.h>
#include <stdlib.h>
#include "base/attr.h"
#include "base/counter.h"
#include "base/error.h"
#include "base/maps.h"
#include "base/notify.h"
#include "flows/context/context.h"
#include "target.h"

/* Batches from one member in a row, before the group looks at the others. */
#define FAIR_BATCHES 8

struct group_member {
	struct dfi_target *target;
	void *arg;
	bool done; /* ended or failed: not polled any more */
};

struct dfi_target_group {
	char unused[HANDLE_MAGIC_OFFSET];
	uint32_t magic;
	_Atomic uint32_t aborters; /* see handle.h */
	_Atomic uint32_t user;     /* HANDLE_CALL() */
	_Atomic bool interrupted;  /* by any thread: its next wait ends */
	uint32_t flags;
	struct group_member *members;
	uint32_t n_members, n_open, current, in_a_row;
	bool has_descriptor;      /* the owner polls a descriptor */
	struct dfi_target *lends; /* the member whose batch is lent */
	struct wait_policy wait;
	struct wait_time wait_time; /* its members have the counts */
	struct notify notify;
};

_Static_assert(
    offsetof(struct dfi_target_group, magic) == HANDLE_MAGIC_OFFSET, "handle");
_Static_assert(
    offsetof(struct dfi_target_group, aborters) == HANDLE_ABORTERS_OFFSET,
    "handle");

#define GROUP_CALL(group) HANDLE_CALL(GROUP_USER(group), GROUP_SHARED(group))
#define GROUP_USER(group) \
	((group) && (group)->magic == GROUP_MAGIC ? &(group)->user : NULL)
#define GROUP_SHARED(group) \
	dfi__handle_shared( \
	    call.other, "a group of %u targets", (group)->n_members)

static int group_check(const struct dfi_target_group *group)
{
	return handle_check(group, group ? &group->magic : NULL, GROUP_MAGIC);
}

int dfi_target_group_open(struct dfi *dfi,
    const struct dfi_target_group_attr *user, struct dfi_target_group **out)
{
	struct dfi_target_group_attr attr;
	struct dfi_target_group *group;
	struct wait_policy wait;
	CONTEXT_USE(dfi, ret);

	if (!ret && !out)
		ret = dfi__fail(
		    -EINVAL, "dfi_target_group_open: group is NULL");
	if (!ret)
		ret = dfi__attr_load(
		    &attr, sizeof(attr), user, "dfi_target_group_attr");
	if (!ret && attr.flags & ~(uint32_t)(DFI_NONBLOCK | DFI_TELL_ENDS))
		ret = dfi__fail(-EINVAL,
		    "dfi_target_group_attr.flags %#x are not all known",
		    attr.flags);
	if (!ret)
		ret = dfi__context_wait(
		    dfi, attr.wait, "dfi_target_group_attr", &wait);
	if (ret < 0)
		return ret;
	group = dfi__handle_alloc(sizeof(*group));
	if (!group)
		return dfi__fail_map(sizeof(*group), "dfi_target_group_open");
	ret = dfi__notify_open(&group->notify);
	if (ret < 0) {
		dfi__handle_free(group, sizeof(*group));
		return ret;
	}
	group->flags = attr.flags;
	group->wait = wait;
	group->wait_time = wait_time(attr.stall_timeout_ms);
	group->magic = GROUP_MAGIC;
	*out = group;
	return 0;
}

/* The member is a target by itself again. */
static void detach(struct dfi_target_group *group, struct dfi_target *target)
{
	if (group->lends == target)
		group->lends = NULL;
	target_withdraw(target);
	target->group = NULL;
}

int dfi_target_group_close(struct dfi_target_group *group)
{
	HANDLE_LAST_CALL(GROUP_USER(group), GROUP_SHARED(group));
	struct dfi_target *target;
	uint32_t i;
	int ret;

	if (!group)
		return 0;
	ret = group_check(group);
	if (ret < 0)
		return ret;
	dfi__handle_retire(group);
	for (i = 0; i < group->n_members; i++) {
		target = group->members[i].target;
		if (group->lends == target)
			dfi__target_take_back(target);
		detach(group, target);
	}
	dfi__notify_close(&group->notify);
	free(group->members);
	dfi__handle_free(group, sizeof(*group));
	return 0;
}

int dfi_target_group_add(
    struct dfi_target_group *group, struct dfi_target *target, void *arg)
{
	GROUP_CALL(group);
	struct group_member *members;
	int ret = group_check(group);

	if (!ret)
		ret = handle_check(
		    target, target ? &target->magic : NULL, TARGET_MAGIC);
	if (ret < 0)
		return ret;
	if (target->group || target->notify)
		return dfi__fail(-EBUSY, "flow '%s': %s %u %s",
		    target->flow.name, TARGET_ID(target),
		    target->group ? "is in a group already"
				  : "has a descriptor of its own");
	members = reallocarray(
	    group->members, group->n_members + 1, sizeof(members[0]));
	if (!members)
		return dfi__fail(
		    -ENOMEM, "dfi_target_group_add: out of memory");
	group->members = members;
	members[group->n_members++] = (struct group_member){
		.target = target,
		.arg = arg,
	};
	group->n_open++;
	target->group = group;
	if (target_has_rings(target))
		dfi__target_set_spins(target, false);
	/* The member may have tuples that were announced before. */
	dfi__notify_kick(&group->notify);
	return 0;
}

int dfi_target_group_remove(
    struct dfi_target_group *group, struct dfi_target *target)
{
	GROUP_CALL(group);
	struct group_member *members;
	int ret = group_check(group);
	uint32_t i;

	if (ret < 0)
		return ret;
	if (!target)
		return dfi__fail(
		    -EINVAL, "dfi_target_group_remove: target is NULL");
	members = group->members;
	for (i = 0; i < group->n_members; i++)
		if (members[i].target == target)
			break;
	if (i == group->n_members)
		return dfi__fail(-ENOENT,
		    "dfi_target_group_remove: the target is not in this "
		    "group");
	if (group->lends == target)
		return dfi__fail(-EBUSY,
		    "flow '%s': %s %u: a batch is out: release it first",
		    target->flow.name, TARGET_ID(target));
	dfi__target_group_drop(target);
	return 0;
}

void dfi__target_group_drop(struct dfi_target *target)
{
	struct dfi_target_group *group = target->group;
	struct group_member *members = group->members;
	uint32_t i;

	for (i = 0; members[i].target != target; i++)
		;
	if (!members[i].done)
		group->n_open--;
	members[i] = members[--group->n_members];
	group->current = group->in_a_row = 0;
	detach(group, target);
}

static void fill(struct dfi_target_group_batch *batch,
    const struct group_member *member, const struct dfi_batch *tuples)
{
	*batch = (struct dfi_target_group_batch){
		.batch = *tuples,
		.target = member->target,
		.arg = member->arg,
		.flow = member->target->flow.name,
		.index = member->target->index,
	};
}

/*
 * Consume from the member: > 0, -EAGAIN, or its error. At its end: 0 if the
 * group reports ends, else -EAGAIN.
 */
static int try_member(struct dfi_target_group *group,
    struct group_member *member, struct dfi_target_group_batch *batch)
{
	struct dfi_batch tuples = { .tuples = NULL };
	int ret;

	if (member->done)
		return -EAGAIN;
	ret = dfi_target_consume_batch(member->target, &tuples);
	if (ret == -EAGAIN)
		return ret;
	if (ret > 0)
		group->lends = member->target;
	else if (ret != -ETIMEDOUT && ret != -EINTR && ret != -EBUSY &&
	    ret != -ENODATA && ret != -ENOMSG) {
		member->done = true;
		group->n_open--;
	}
	if (!ret && !(group->flags & DFI_TELL_ENDS))
		return -EAGAIN;
	fill(batch, member, &tuples);
	return ret;
}

/*
 * Try each member once, beginning at the current one: > 0, 0 for the end of
 * one, -EAGAIN, or a member's error.
 */
static int try_members(
    struct dfi_target_group *group, struct dfi_target_group_batch *batch)
{
	uint32_t i;
	int ret;

	if (group->in_a_row++ >= FAIR_BATCHES) {
		group->current++;
		group->in_a_row = 1;
	}
	for (i = 0; i < group->n_members; i++) {
		if (group->current >= group->n_members)
			group->current = 0;
		ret = try_member(group, &group->members[group->current], batch);
		if (ret != -EAGAIN)
			return ret;
		group->current++;
		group->in_a_row = 1;
	}
	return -EAGAIN;
}

static bool any_ready(void *arg)
{
	struct dfi_target_group *group = arg;
	uint32_t i;

	if (unlikely(atomic_peek(&group->interrupted)))
		return true;
	for (i = 0; i < group->n_members; i++)
		if (!group->members[i].done &&
		    target_is_ready(group->members[i].target))
			return true;
	return false;
}

/*
 * The first time at which a member reports sources that have not attached, or
 * looks for idle ones.
 */
static int64_t next_deadline(const struct dfi_target_group *group)
{
	int64_t deadline = DEADLINE_NEVER, member;
	const struct dfi_target *target;
	uint32_t i;

	for (i = 0; i < group->n_members; i++) {
		target = group->members[i].target;
		member = marks_deadline(
		    target->marks, target->wait_time.deadline);
		if (!group->members[i].done && member < deadline)
			deadline = member;
	}
	return deadline;
}

/*
 * Make the descriptor readable once there is something to consume or report.
 * true: there already is.
 */
static bool arm(struct dfi_target_group *group, int64_t deadline)
{
	struct notify *notify = &group->notify;
	struct dfi_target *target;
	bool fresh, unwoken = false;
	uint64_t segments = 0;
	uint32_t i;

	dfi__notify_drain(notify);
	fresh = dfi__notify_announce(notify, &notify->self.word);
	for (i = 0; i < group->n_members; i++) {
		if (group->members[i].done)
			continue;
		target = group->members[i].target;
		fresh |= target_announce(target, notify, &unwoken);
		segments += atomic_peek(&target->segments);
	}
	dfi__notify_sleep(notify, fresh, unwoken, segments, deadline);
	for (i = 0; i < group->n_members; i++) {
		if (!group->members[i].done)
			target_arm_networks(group->members[i].target);
	}
	return any_ready(group);
}

/* Log the peers that the group waits for. */
static void look_for_stalls(struct dfi_target_group *group)
{
	uint32_t i;

	for (i = 0; i < group->n_members; i++)
		if (!group->members[i].done &&
		    target_has_rings(group->members[i].target))
			dfi__target_found_nothing(group->members[i].target);
}

/*
 * Each wait of a group counts as a wait of every member: the stall when it
 * begins, sleeps as they come, the rest when it ends.
 */
static void count_stall(struct dfi_target_group *group)
{
	uint32_t i;

	for (i = 0; i < group->n_members; i++)
		if (!group->members[i].done)
			counter_add(&group->members[i].target->stalls, 1);
}

static void count_sleep(struct dfi_target_group *group)
{
	uint32_t i;

	for (i = 0; i < group->n_members; i++)
		if (!group->members[i].done)
			counter_add(
			    &group->members[i].target->wait_time.counts.sleeps,
			    1);
}

/* since: the start of the part that other threads see; 0: the wait is over. */
static void set_since(struct dfi_target_group *group, int64_t since)
{
	uint32_t i;

	for (i = 0; i < group->n_members; i++)
		if (!group->members[i].done)
			atomic_set(
			    &group->members[i].target->wait_time.counts.since,
			    since);
}

static void count_wait(
    struct dfi_target_group *group, const struct wait_counts *spent)
{
	struct wait_counts *counts;
	uint32_t i;

	for (i = 0; i < group->n_members; i++) {
		if (group->members[i].done)
			continue;
		counts = &group->members[i].target->wait_time.counts;
		counter_add(&counts->polls, atomic_peek(&spent->polls));
		counter_add(&counts->yields, atomic_peek(&spent->yields));
		counter_add(&counts->ns, atomic_peek(&spent->ns));
	}
}

static bool sleep_on_all(
    struct dfi_target_group *group, int64_t deadline, struct wait_counts *spent)
{
	struct pollfd pollfd = { .fd = group->notify.fd, .events = POLLIN };
	CANCEL_OFF;

	if (group->wait.yields &&
	    dfi__wait_yielding(&group->wait, spent, any_ready, group))
		return true;
	while (!arm(group, deadline)) {
		if (clock_now_ns() >= deadline)
			return false;
		look_for_stalls(group);
		count_sleep(group);
		/*
		 * The timer ends the poll; after a signal the group looks
		 * again.
		 */
		poll(&pollfd, 1, -1);
	}
	return true;
}

static bool spin_on_all(
    struct dfi_target_group *group, int64_t deadline, struct wait_counts *spent)
{
	int64_t now, next_look = 0;
	bool there;

	do {
		there = any_ready(group);
		counter_add(&spent->polls, 1);
		now = there ? 0 : clock_now_ns();
		if (!there && now >= next_look) {
			look_for_stalls(group);
			next_look = now + WAIT_TICK_NS / 8;
		}
	} while (!there && now < deadline);
	return there;
}

/* Wait until a member has something; false: it took too long. */
static bool wait_for_any(struct dfi_target_group *group, int64_t deadline)
{
	struct wait_counts spent = { .since = 0 };
	bool there = false;
	uint32_t looked;
	int64_t start;

	count_stall(group);
	for (looked = 0; !there && looked < group->wait.budget;
	     looked += group->n_members) {
		there = any_ready(group);
		counter_add(&spent.polls, 1);
	}
	if (!there) {
		start = clock_now_ns();
		set_since(group, start);
		there = group->wait.sleeps
		    ? sleep_on_all(group, deadline, &spent)
		    : spin_on_all(group, deadline, &spent);
		set_since(group, 0);
		counter_add(&spent.ns, (uint64_t)(clock_now_ns() - start));
	}
	count_wait(group, &spent);
	return there;
}

/* 0: try the members again. */
static int wait_for_batch(struct dfi_target_group *group, int64_t give_up)
{
	int64_t next = next_deadline(group);

	if (wait_for_any(group, next < give_up ? next : give_up) ||
	    clock_now_ns() < give_up)
		return 0;
	return dfi__fail(-ETIMEDOUT,
	    "a group of %u targets: no tuple came for %ld ms", group->n_open,
	    (long)(group->wait_time.timeout_ns / NS_PER_MS));
}

int dfi_target_group_consume_batch(
    struct dfi_target_group *group, struct dfi_target_group_batch *batch)
{
	GROUP_CALL(group);
	int64_t give_up = 0;
	int ret = group_check(group);

	if (ret < 0)
		return ret;
	if (!batch)
		return dfi__fail(
		    -EINVAL, "dfi_target_group_consume_batch: batch is NULL");
	if (group->lends)
		return dfi__fail(
		    -EBUSY, "the group's batch is out: release it first");
	*batch = (struct dfi_target_group_batch){ .target = NULL };
	for (;;) {
		ret = try_members(group, batch);
		if (ret != -EAGAIN)
			return ret;
		if (!group->n_open)
			return 0;
		if (unlikely(atomic_peek(&group->interrupted))) {
			atomic_set(&group->interrupted, false);
			return dfi__fail_text(-EINTR,
			    "the group was interrupted "
			    "(dfi_target_group_interrupt())");
		}
		if (group->flags & DFI_NONBLOCK) {
			if (!group->has_descriptor ||
			    !arm(group, next_deadline(group))) {
				if (group->has_descriptor)
					look_for_stalls(group);
				return dfi__fail_text(
				    -EAGAIN, "no tuple is there");
			}
			continue;
		}
		if (!give_up)
			give_up = wait_deadline(
			    &group->wait_time, clock_now_ns());
		ret = wait_for_batch(group, give_up);
		if (ret < 0)
			return ret;
	}
}

void dfi_target_group_release(
    struct dfi_target_group *group, struct dfi_target_group_batch *batch)
{
	HANDLE_VOID_CALL(GROUP_USER(group), GROUP_SHARED(group));
	if (group_check(group) < 0 || !group->lends)
		return;
	if (!batch) {
		dfi__fail(-EINVAL, "dfi_target_group_release: batch is NULL");
		return;
	}
	if (batch->target != group->lends)
		return;
	dfi_target_release(batch->target, &batch->batch);
	/* Another thread uses that target: the batch stays lent. */
	if (batch->batch.count)
		return;
	group->lends = NULL;
	*batch = (struct dfi_target_group_batch){ .target = NULL };
}

void dfi_target_group_interrupt(struct dfi_target_group *group)
{
	HANDLE_SIGNAL(group, GROUP_MAGIC, &group->interrupted,
	    wait_wake_fenced(&group->notify.self.word));
}

int dfi_target_group_fd(struct dfi_target_group *group)
{
	GROUP_CALL(group);
	int ret = group_check(group);

	if (ret < 0)
		return ret;
	if (!(group->flags & DFI_NONBLOCK))
		return dfi__fail(-EINVAL,
		    "a descriptor is for groups that were opened with "
		    "DFI_NONBLOCK");
	group->has_descriptor = true;
	return group->notify.fd;
}

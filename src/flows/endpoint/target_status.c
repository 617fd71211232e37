/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The errors of a target: its sticky error, what it still lends, and the gaps
 * that it has reported.
 */
#include "target.h"

#include <dfi/event.h>
#include <dfi/mark.h>

#include <stdio.h>
#include "base/counter.h"
#include "base/error.h"
#include "base/error_list.h"

int dfi__target_fail(struct dfi_target *target, int err)
{
	target->status = dfi__error_keep(err);
	snprintf(target->status_text, sizeof(target->status_text), "%s",
	    dfi_errmsg());
	return err;
}

static int was_aborted(const struct dfi_target *target)
{
	return dfi__fail(-ECANCELED,
	    "flow '%s': %s %u was aborted here (dfi_%s_abort())",
	    target->flow.name, TARGET_ID(target),
	    flow_target_word(&target->flow));
}

int dfi__target_give_up(struct dfi_target *target)
{
	return dfi__target_fail(target, was_aborted(target));
}

int dfi__target_check_slow(const struct dfi_target *target)
{
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	if (!ret && target->status)
		ret = dfi__fail(target->status, "%s", target->status_text);
	else if (!ret && target->cancelled)
		ret = dfi__fail(-ECANCELED,
		    "flow '%s': %s %u was cancelled here "
		    "(dfi_target_cancel())",
		    target->flow.name, TARGET_ID(target));
	else if (!ret && target_aborted(target))
		ret = was_aborted(target);
	return ret;
}

int dfi__target_interrupted(struct dfi_target *target)
{
	atomic_set(&target->interrupted, false);
	return dfi__fail_text(
	    -EINTR, "the target was interrupted (dfi_target_interrupt())");
}

int dfi__target_damaged(struct dfi_target *target, uint32_t source, int err)
{
	char name[256];

	dfi__peers_name(&target->sources, source, name, sizeof(name));
	dfi__fail_within(err, "flow '%s': from %s to %s %u (pid %u)",
	    target->flow.name, name, TARGET_ID(target), target->dfi->node.pid);
	return dfi__target_fail(target, err);
}

int dfi__target_report_gap(struct dfi_target *target, uint32_t source)
{
	struct reader *reader = &target->readers[source];
	char name[256];
	uint64_t position = target_taken(target, reader->gap_count);
	int ret = reader_release(reader);

	if (ret < 0)
		return dfi__target_fail(target, ret);
	owned_add(&target->gaps, 1);
	owned_add(&target->lost_segments, reader->gap_count);
	target->has_gap = true;
	target->gap = (struct dfi_gap){
		.first = reader->gap_first - RING_FIRST_SEGMENT,
		.count = reader->gap_count,
		.source = source,
		.position = position,
	};
	/* The end of a pair tells its target. */
	if (target->flags & DFI_EVENTS && !target->flow.part.pair) {
		target->marks->has_gap = true;
		target->look_again |= LOOK_AT_SOURCES;
		return dfi__marks_event_is_next();
	}
	dfi__peers_name(&target->sources, source, name, sizeof(name));
	return dfi__fail(-ENODATA,
	    "flow '%s': %s %u: %u segments of %s, from number %lu on, were "
	    "lost on the network: the flow goes on behind them, as its "
	    "loss_policy says",
	    target->flow.name, TARGET_ID(target), target->gap.count, name,
	    (unsigned long)target->gap.first);
}

int dfi_target_gap(const struct dfi_target *target, struct dfi_gap *gap)
{
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	if (ret < 0)
		return ret;
	if (!gap)
		return dfi__fail(-EINVAL, "dfi_target_gap: gap is NULL");
	if (!target->has_gap)
		return dfi__fail(-ENOENT,
		    "flow '%s': %s %u: no gap was reported (-ENODATA)",
		    target->flow.name, TARGET_ID(target));
	*gap = target->gap;
	return 0;
}

int dfi_target_position(const struct dfi_target *target, uint64_t *position)
{
	uint64_t next;
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	if (ret < 0)
		return ret;
	if (!position)
		return dfi__fail(
		    -EINVAL, "dfi_target_position: position is NULL");
	if (!target->flow.ordered)
		return dfi__fail(-EPROTOTYPE,
		    "flow '%s': %s %u: only segments of ordered flows have "
		    "positions (replicate.ordered)",
		    target->flow.name, TARGET_ID(target));
	ret = target_next_position(target, &next);
	if (ret < 0)
		return dfi__fail_text(ret, "it is not known yet");
	/* The segment in work was counted as taken. */
	*position = next - (target->head.next != target->head.end);
	return 0;
}

int dfi__target_lends_already(const struct dfi_target *target)
{
	if (target->lends_batch)
		return dfi__fail(-EBUSY,
		    "flow '%s': %s %u: a batch is out: release it first",
		    target->flow.name, TARGET_ID(target));
	return dfi__fail(-EBUSY,
	    "flow '%s': %s %u: a cursor is open: close it first",
	    target->flow.name, TARGET_ID(target));
}

int dfi__target_check_lent(const struct dfi_target *target)
{
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	return ret ? ret : target_check_lent(target);
}

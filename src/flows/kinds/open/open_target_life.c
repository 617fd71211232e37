/* SPDX-License-Identifier: Apache-2.0 */
/* How a target of an open flow opens and closes, and its sides of pairs. */
#include <stdlib.h>
#include <dfi/event.h>
#include "base/counter.h"
#include "base/error.h"
#include "base/error_list.h"
#include "base/log.h"
#include "base/maps.h"
#include "flows/endpoint/target.h"
#include "flows/kinds/combine/combine.h"
#include "flows/kinds/kinds.h"
#include "open.h"
#include "acks.h"
#include "open_multicast.h"
#include "open_target_order.h"

/* ---- Pairs, on the helper ---------------------------------------------- */

static int make(void *owner, struct flow *part, int64_t deadline, void **out)
{
	struct open_target *open = owner;
	struct dfi *dfi = open->target->dfi;
	struct dfi_target *end;
	int ret = dfi__context_enter(dfi);

	if (ret < 0) {
		dfi__flow_free(part);
		return ret;
	}
	ret = dfi__target_open(dfi,
	    flow_is_multicast(part) ? &dfi__open_multicast_kind
				    : &dfi__shuffle_kind,
	    part, part->part.first_target, &open->attr, &open->wait, deadline,
	    &end);
	if (ret < 0) {
		dfi__context_leave(dfi);
		return ret;
	}
	/* Nobody must come: the seat says who does. */
	end->wait_time.deadline = DEADLINE_NEVER;
	end->readers[0].awaits_mark = open->target->flow.kind == DFI_REPLICATE;
	end->readers[0].shared_segments = end->flow.part.shared_segments;
	dfi__target_set_spins(end, false);
	*out = end;
	return 0;
}

static void unmake(void *end)
{
	(void)dfi_target_close(end);
}

static int64_t tend(void *owner)
{
	/* Pairs with the publish of an owner that has opened. */
	struct open_target *open = owner;
	struct partitions *partitions = atomic_observe(&open->helped);

	int64_t next = DEADLINE_NEVER, at = next;

	if (partitions)
		next = dfi__partitions_tend(partitions);
	else if (open->acks && !open->target->flow.partitions)
		next = dfi__acks_tend(open->acks);
	else if (open->target->combiner)
		next = dfi__open_fold_tend(open);
	if (open->acks)
		at = dfi__acks_give_up(open->acks);
	return at < next ? at : next;
}

static const struct pairs_ops pairs_ops = {
	.make = make,
	.unmake = unmake,
	.tend = tend,
};

static const struct pairs_ops ordered_ops = {
	.make = make,
	.unmake = unmake,
	.tend = dfi__target_order_tend,
};

/* ---- The life of a target ---------------------------------------------- */

static int no_memory(const struct dfi_target *target)
{
	return dfi__fail(
	    -ENOMEM, "flow '%s': out of memory", target->flow.name);
}

/* What the helper needs must be there before it starts. */
static int init(struct dfi_target *target, uint32_t idle_after_ms)
{
	struct open_target *open = calloc(1, sizeof(*open));
	int ret;

	target->state = open;
	if (!open)
		return no_memory(target);
	open->target = target;
	open->wait = target->wait;
	open->attr = (struct dfi_target_attr){
		.size = sizeof(open->attr),
		/* Marks of its source. */
		.flags = DFI_NONBLOCK | DFI_EVENTS,
	};
	open->pairs.ops = target->flow.ordered ? &ordered_ops : &pairs_ops;
	open->pairs.owner = open;
	open->pairs.sleeper = &target->sources;
	open->taken = calloc(
	    target->flow.n_sources, SEAT_PAIRS * sizeof(open->taken[0]));
	if (target->flow.ordered)
		open->order = dfi__target_order_new();
	/* One that only counts, for dfi_target_query(). */
	target->readers = dfi__readers_alloc(1);
	target->n_readers = 1;
	if (target->flags & DFI_EVENTS)
		open->events = calloc(target->flow.n_sources,
		    SEAT_PAIRS * OPEN_SEAT_EVENTS * sizeof(open->events[0]));
	if (!open->taken || !target->readers ||
	    (target->flow.ordered && !open->order) ||
	    (target->flags & DFI_EVENTS && !open->events))
		return no_memory(target);
	ret = dfi__acks_open(target);
	if (ret < 0)
		return ret;
	ret = target->flow.kind == DFI_COMBINE
	    ? dfi__combine_open(target, &dfi__open_fold_intake)
	    : dfi__marks_open(target, false, idle_after_ms);
	if (ret < 0)
		return ret;
	if (target->flags & DFI_NONBLOCK)
		return 0;
	return dfi__notify_new(&open->notify);
}

static void free_target(struct dfi_target *target)
{
	struct open_target *open = open_target(target);

	if (open) {
		/* Otherwise it was not opened. */
		if (open->pairs.of)
			dfi__pairs_close(&open->pairs);
		dfi__partitions_free(open->partitions);
		dfi__acks_free(open->acks);
		dfi__target_order_free(open->order);
		dfi__notify_free(open->notify);
		free(open->taken);
		free(open->events);
		free(open);
	}
	dfi__combine_close(target->combiner);
	free(target->readers);
	dfi__marks_free(target->marks);
	dfi__notify_free(target->notify);
	dfi__flow_free(&target->flow);
	dfi__handle_free(target, sizeof(*target));
}

void dfi__open_target_leave(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	struct dfi *dfi = target->dfi;

	dfi__pairs_stop(&open->pairs);
	if (!target->cancelled) {
		dfi__open_target_return_all(target);
		dfi__acks_withdraw(open->acks);
	}
	dfi__stats_remove(dfi, &target->stats);
	dfi__handle_retire(target);
	free_target(target);
	dfi__context_leave(dfi);
}

/* The rings say so before the seat is free: no source takes it for a loss. */
int dfi__open_target_cancel(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	const struct pair *pair;
	uint32_t i;

	if (target->flow.kind == DFI_COMBINE)
		return dfi__fail(-EOPNOTSUPP,
		    "flow '%s': %s %u: cancel: the targets of a combiner flow "
		    "stay to its end: consume on",
		    target->flow.name, TARGET_ID(target));
	dfi__pairs_stop(&open->pairs);
	dfi__open_target_return_all(target);
	dfi__acks_withdraw(open->acks);
	target->head.next = target->head.end = NULL;
	for (i = 0; i < open->pairs.seats.n_others * SEAT_PAIRS; i++) {
		pair = &open->pairs.of[i / SEAT_PAIRS].pair[i % SEAT_PAIRS];
		/* Others may be at work on one that is given up. */
		if (pair->state == PAIR_READY || pair->state == PAIR_TAKEN)
			dfi__target_refuse_pair(pair->end);
	}
	dfi__seat_watch_leave(&open->pairs.seats);
	return 0;
}

int dfi__open_target_open(struct dfi *dfi, struct flow *flow, uint32_t index,
    const struct dfi_target_attr *attr, const struct wait_policy *wait,
    int64_t deadline, struct dfi_target **out)
{
	struct dfi_target *target = dfi__handle_alloc(sizeof(*target));
	int ret;

	if (!target) {
		ret = dfi__fail_map(sizeof(*target), "flow '%s'", flow->name);
		dfi__flow_free(flow);
		return ret;
	}
	target->dfi = dfi;
	target->kind = flow->kind == DFI_COMBINE ? &dfi__open_combine_kind
						 : &dfi__open_kind;
	target->flow = *flow;
	target->flags = attr->flags;
	target->wait = *wait;
	target->wait_time = wait_time(attr->stall_timeout_ms);
	target->gives_results = true;
	target->head.tuple_size = flow->schema->tuple_size;
	ret = init(target, attr->idle_after_ms);
	if (!ret) {
		open_target(target)->pairs.store_epoch = attr->store_epoch;
		ret = dfi__pairs_open(&open_target(target)->pairs, dfi,
		    &target->flow, OPEN_TARGET, index, deadline);
	}
	if (!ret && target->flow.partitions)
		ret = dfi__partitions_open(target);
	if (ret < 0) {
		free_target(target);
		return dfi__error_keep(ret);
	}
	target->index = open_target(target)->pairs.seats.seats.own_seat;
	open_target(target)->seen = pairs_changes(&open_target(target)->pairs) -
	    1;
	target->magic = TARGET_MAGIC;
	dfi__stats_add(dfi, &target->stats, dfi__target_stats);
	dfi__log(DFI_LOG_INFO, "flow '%s': %s %u: has a seat",
	    target->flow.name, TARGET_ID(target));
	*out = target;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* See acks.h. */
#include "acks.h"

#include <stdlib.h>
#include <dfi/replay.h>
#include "base/error.h"

static int no_events(const struct flow *flow)
{
	return dfi__fail(-EINVAL,
	    "flow '%s': a target of a flow with DFI_ON_LOSS_REPLAY must have "
	    "DFI_EVENTS, to restore partitions and to know when to acknowledge "
	    "(replay.h)",
	    flow->name);
}

int dfi__acks_open(struct dfi_target *target)
{
	const struct flow *flow = &target->flow;
	struct acks *acks;

	if (!flow->input_position)
		return 0;
	if (!(target->flags & DFI_EVENTS))
		return no_events(flow);
	acks = calloc(1, sizeof(*acks));
	open_target(target)->acks = acks;
	if (acks) {
		acks->flow = flow;
		acks->seats = &open_target(target)->pairs.seats;
		if (flow->partitions)
			dfi__router_init(&acks->router, flow, 0);
		acks->of = calloc(flow->n_sources, sizeof(acks->of[0]));
		acks->lost = calloc(flow->n_sources, sizeof(acks->lost[0]));
		acks->lows = calloc(flow->n_sources, sizeof(acks->lows[0]));
		acks->holders = calloc(
		    flow->n_sources, sizeof(acks->holders[0]));
		acks->segments = calloc(
		    flow->n_sources, sizeof(acks->segments[0]));
		acks->memory = calloc(flow->n_sources,
		    dfi__open_inputs_size(flow->partitions) + 1);
	}
	return acks && acks->of && acks->lost && acks->lows && acks->holders &&
		acks->segments && acks->memory
	    ? 0
	    : dfi__fail(-ENOMEM, "flow '%s': out of memory", flow->name);
}

void dfi__acks_free(struct acks *acks)
{
	if (!acks)
		return;
	free(acks->of);
	free(acks->lost);
	free(acks->segments);
	free(acks->lows);
	free(acks->holders);
	free(acks->memory);
	free(acks);
}

/* Seats that nobody ever holds take no pages. */
struct open_inputs *dfi__acks_of(struct acks *acks, uint32_t source)
{
	struct open_inputs *inputs = &acks->of[source];
	uint32_t n = acks->flow->partitions;

	if (!inputs->seen)
		dfi__open_inputs_init(inputs, n,
		    acks->memory + source * dfi__open_inputs_size(n));
	return inputs;
}

bool dfi__acks_is_known(const struct acks *acks, uint32_t source)
{
	return acks->of[source].seen != NULL;
}

/* ---- What is consumed ---------------------------------------------------- */

void dfi__acks_join(struct open_target *open, struct taken *taken)
{
	(void)dfi__acks_of(open->acks, taken->seat);
	open->acks->lost[taken->seat] = (struct lost){ 0 };
	/* No credit on release. */
	if (!open->acks->flow->spill_dir)
		taken->end->readers[0].batch = UINT32_MAX;
}

/* What the segment that was taken last says of input positions. */
static void see_input(struct open_target *open, struct taken *taken)
{
	const struct reader *reader = &taken->end->readers[0];

	if (!reader->input)
		return;
	if (!open->partitions)
		atomic_set(&open->acks->lows[taken->seat],
		    max_u64(reader->input,
			atomic_peek(&open->acks->lows[taken->seat])));
	else
		dfi__open_inputs_mark(&open->acks->of[taken->seat],
		    reader->input, reader->settled);
}

void dfi__acks_gave_back(struct open_target *open, struct taken *taken)
{
	struct acks *acks = open->acks;
	struct open_inputs *inputs = &acks->of[taken->seat];
	size_t size = acks->flow->schema->tuple_size;
	const char *tuple = acks->tuples;
	uint64_t n;

	if (!tuple)
		return;
	n = (uint64_t)(acks->end - tuple) / size;
	for (; open->partitions && tuple < acks->end; tuple += size)
		(void)open_inputs_lend(inputs, dfi__route(&acks->router, tuple),
		    flow_input_position(acks->flow, tuple));
	see_input(open, taken);
	acks->tuples = NULL;
	taken->unacked += n;
	acks->n_due += n;
}

int dfi__acks_passed(struct open_target *open, struct taken *taken)
{
	struct reader *reader = &taken->end->readers[0];
	bool asks = reader->asks;

	see_input(open, taken);
	reader->asks = false;
	/* The application has nothing to acknowledge. */
	if (!taken->unacked && !open->acks->flow->spill_dir)
		return reader->seq != reader->returned
		    ? dfi__reader_return(reader)
		    : 0;
	if (asks)
		dfi__open_add_event(open, DFI_ACK_DUE, taken, 0);
	return 0;
}

/* The source of a pair hears of it by the registry. */
static void note_segments(
    struct open_target *open, const struct taken *taken, uint64_t segments)
{
	struct seat_watch *seats = &open->pairs.seats;
	struct pair_acks *acks = &open->acks->segments[taken->seat];
	bool fresh;

	pthread_mutex_lock(&seats->lock);
	fresh = acks->pair != taken->pair->id || acks->segments != segments;
	*acks = (struct pair_acks){ .pair = taken->pair->id,
		.segments = segments };
	if (fresh)
		dfi__acks_call(open->acks);
	pthread_mutex_unlock(&seats->lock);
}

/*
 * An owner that consumes on though it has to acknowledge first may never do so:
 * its source is told as well.
 */
static void note_full(struct open_target *open, struct taken *taken)
{
	const struct reader *reader = &taken->end->readers[0];

	if (taken->full)
		note_segments(open, taken, reader->returned);
	taken->full = true;
}

int dfi__acks_check(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	const struct taken *full = NULL;
	const struct reader *reader;
	uint32_t i;

	for (i = open_n_taken(open); i-- > 0;) {
		reader = &open->taken[i].end->readers[0];
		if (reader->seq - reader->returned <
		    reader->geometry.segment_count)
			continue;
		full = &open->taken[i];
		note_full(open, &open->taken[i]);
	}
	return !full
	    ? 0
	    : dfi__fail(-ENOBUFS,
		  "flow '%s': %s %u: all %u segments of the ring of "
		  "source %u were consumed since the last "
		  "acknowledgement: acknowledge more often "
		  "(dfi_target_ack()), or create the flow with a "
		  "larger segment_count or segment_size, or with "
		  "open.spill_dir",
		  target->flow.name, TARGET_ID(target),
		  full->end->readers[0].geometry.segment_count, full->seat);
}

bool dfi__acks_are_due(const struct acks *acks)
{
	return acks->n_due != 0;
}

/* ---- Calls of the owner -------------------------------------------------- */

static int refuse(const struct dfi_target *target, const char *call)
{
	return dfi__fail(-EPROTOTYPE,
	    "flow '%s': %s %u: %s: the flow was not created with "
	    "DFI_ON_LOSS_REPLAY",
	    target->flow.name, TARGET_ID(target), call);
}

static int no_keys(const struct dfi_target *target, const char *call)
{
	return dfi__fail(-EPROTOTYPE,
	    "flow '%s': %s %u: %s: the flow does not route by keys, so it has "
	    "no partitions",
	    target->flow.name, TARGET_ID(target), call);
}

static int no_output(
    const struct dfi_target *target, const char *call, const char *name)
{
	return dfi__fail(-EINVAL, "flow '%s': %s %u: %s: %s is NULL",
	    target->flow.name, TARGET_ID(target), call, name);
}

static int acknowledge(struct dfi_target *target)
{
	struct open_target *open = open_target(target);
	struct seat_watch *seats = &open->pairs.seats;
	struct taken *taken;
	struct reader *reader;
	bool in_work;
	uint32_t i;
	int ret = 0;

	/* The source of a ring that has gone needs no credit. */
	for (i = 0; i < open_n_taken(open); i++) {
		taken = &open->taken[i];
		reader = &taken->end->readers[0];
		in_work = taken->end->lends_segment;
		taken->unacked = 0;
		taken->full = false;
		if (open->acks->flow->spill_dir)
			note_segments(open, taken, reader->seq - in_work);
		else if (!ret && reader->seq - in_work != reader->returned)
			ret = dfi__reader_return_last(reader, in_work);
	}
	open->acks->n_due = 0;
	if (!open->partitions)
		return ret;
	pthread_mutex_lock(&seats->lock);
	for (i = 0; i < target->flow.n_sources; i++)
		if (open->acks->of[i].seen)
			dfi__open_inputs_ack(&open->acks->of[i],
			    dfi__partitions_state(open->partitions));
	pthread_mutex_unlock(&seats->lock);
	return ret;
}

int dfi_target_ack(struct dfi_target *target)
{
	TARGET_CALL(target, TARGET_SHARED(target));
	int ret = dfi__target_check_lent(target);

	/* Others may have what it has not acknowledged. */
	if (!ret && target->cancelled)
		ret = target_check(target);
	if (ret < 0)
		return ret;
	if (!target->flow.input_position)
		return refuse(target, "dfi_target_ack");
	if (target->head.next == target->head.end &&
	    !dfi__acks_have_rest(open_target(target)->acks))
		dfi__open_target_give_back(target);
	ret = acknowledge(target);
	return ret < 0 ? dfi__target_fail(target, ret) : 0;
}

int dfi_target_partition(
    struct dfi_target *target, const void *tuple, uint32_t *partition)
{
	TARGET_CALL(target, TARGET_SHARED(target));
	int ret = target_check(target);

	if (ret < 0)
		return ret;
	if (!target->flow.input_position)
		return refuse(target, "dfi_target_partition");
	if (!target->flow.partitions)
		return no_keys(target, "dfi_target_partition");
	if (!tuple || !partition)
		return no_output(target, "dfi_target_partition",
		    tuple ? "partition" : "tuple");
	*partition = dfi__route(&open_target(target)->acks->router, tuple);
	return 0;
}

static int check_partition(
    struct dfi_target *target, uint32_t partition, const char *call)
{
	int ret = target_check(target);

	if (ret < 0)
		return ret;
	if (!target->flow.input_position)
		return refuse(target, call);
	if (!target->flow.partitions)
		return no_keys(target, call);
	return partition < target->flow.partitions
	    ? 0
	    : dfi__partitions_no_such(target, partition);
}

int dfi_partition_epoch(
    struct dfi_target *target, uint32_t partition, uint64_t *epoch)
{
	TARGET_CALL(target, TARGET_SHARED(target));
	int ret = check_partition(target, partition, "dfi_partition_epoch");

	if (ret < 0)
		return ret;
	if (!epoch)
		return no_output(target, "dfi_partition_epoch", "epoch");
	return dfi__partitions_epoch(
		   open_target(target)->partitions, partition, epoch)
	    ? 0
	    : dfi__fail(-EINVAL, "flow '%s': %s %u: partition %u is not here",
		  target->flow.name, TARGET_ID(target), partition);
}

int dfi_partition_take(struct dfi_target *target, uint32_t partition,
    const uint64_t *positions, uint32_t n)
{
	TARGET_CALL(target, TARGET_SHARED(target));
	int ret = check_partition(target, partition, "dfi_partition_take");

	if (ret < 0)
		return ret;
	if (n != (positions ? target->flow.n_sources : 0))
		return dfi__fail(-EINVAL,
		    "flow '%s': %s %u: dfi_partition_take: %u positions%s, "
		    "but the flow has %u sources",
		    target->flow.name, TARGET_ID(target), n,
		    positions ? "" : " at NULL", target->flow.n_sources);
	return dfi__partitions_take(
		   open_target(target)->partitions, partition, positions)
	    ? 0
	    : dfi__fail(-EINVAL,
		  "flow '%s': %s %u: partition %u was not gained: take it "
		  "once, behind its DFI_GAINED",
		  target->flow.name, TARGET_ID(target), partition);
}

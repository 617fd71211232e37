/* SPDX-License-Identifier: Apache-2.0 */
/* What replicate flows add to sources and targets. */
#include <stdlib.h>
#include "base/error.h"
#include "flows/declare/declare.h"
#include "flows/kinds/kinds.h"
#include "multicast.h"
#include "order.h"
#include "state.h"

/* Its buffer counts towards the bound of rings as well. */
static int take_replica_writer(struct dfi_source *source)
{
	struct ring_geometry geometry = dfi__flow_slots_geometry(&source->flow);
	struct transport *shared_ring = source->flow.replication ==
		DFI_REPLICATION_MULTICAST
	    ? source->dfi->transport
	    : NULL;
	uint64_t bytes = dfi__replica_bytes(shared_ring, &geometry);
	int ret;

	source->replica_writer = calloc(1, sizeof(*source->replica_writer));
	if (!source->replica_writer)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", source->flow.name);
	source->writers = &source->replica_writer->lane;
	ret = dfi__ring_memory_take(
	    source->dfi, bytes, source->flow.name, SOURCE_ID(source));
	if (ret < 0)
		return ret;
	source->ring_memory += bytes;
	ret = dfi__replica_init(source->replica_writer, source->rings,
	    source->flow.n_targets, shared_ring, &geometry, RING_FIRST_SEGMENT);
	source->replica_writer->targets = source->head.targets;
	return ret < 0 ? dfi__fail_within(ret, "flow '%s': %s %u",
			     source->flow.name, SOURCE_ID(source))
		       : 0;
}

static int reserve_source(struct dfi_source *source)
{
	int ret = flow_is_multicast(&source->flow)
	    ? dfi__source_multicast_room(source)
	    : 0;

	return ret < 0 ? ret : take_replica_writer(source);
}

static int open_source(struct dfi_source *source, int64_t deadline)
{
	return flow_is_multicast(&source->flow)
	    ? dfi__source_multicast_open(source, deadline)
	    : 0;
}

static int attach_source(struct dfi_source *source, int64_t deadline)
{
	return source->flow.ordered ? dfi__order_open_source(source, deadline)
				    : 0;
}

/* Tell the targets where the slots are, or ask them whether they hear. */
static int greet(struct dfi_source *source, int64_t deadline)
{
	uint32_t t;

	if (sender_of(source))
		return dfi__source_multicast_greet(source, deadline);
	if (flow_has_shared_ring(&source->flow))
		for (t = 0; t < source->n_remotes; t++)
			if (!source->rings[t].cancelled)
				dfi__shared_ring_open(
				    &source->replica_writer->shared_ring,
				    &source->rings[t]);
	return 0;
}

static void close_source(struct dfi_source *source)
{
	dfi__order_close_source(source);
	dfi__source_multicast_close(source);
	if (source->replica_writer)
		dfi__replica_free(source->replica_writer);
	free(source->replica_writer);
	source->replica_writer = NULL;
}

int dfi__replicate_target(struct dfi_target *target)
{
	if (!target->state)
		target->state = calloc(1, sizeof(struct replicate_target));
	return target->state
	    ? 0
	    : dfi__fail(-ENOMEM, "flow '%s': out of memory", target->flow.name);
}

static int open_target(struct dfi_target *target)
{
	return target->flow.ordered ? dfi__order_open_target(target) : 0;
}

static void close_target(struct dfi_target *target)
{
	dfi__order_close_target(target);
	free(target->state);
	target->state = NULL;
}

const struct kind dfi__replicate_kind = {
	.one_lane = true,
	.source = {
		.reserve = reserve_source,
		.open = open_source,
		.attach = attach_source,
		.stop = dfi__source_multicast_stop,
		.close = close_source,
		.greet = greet,
		.ring = dfi__source_multicast_ring,
		.look = dfi__source_multicast_look,
		.forget = dfi__source_multicast_forget,
		.await_position = dfi__order_wait,
		.position_is_late = dfi__order_late,
	},
	.intake = {
		.reserve = dfi__target_multicast_room,
		.join = dfi__target_multicast_open,
		.open = open_target,
		.follows = dfi__target_multicast_follows,
		.stop = dfi__target_multicast_stop,
		.close = close_target,
		.find = dfi__order_find,
		.changed = dfi__order_changed,
		.taken = dfi__order_taken,
		.check = dfi__order_check,
		.position = dfi__order_position,
	},
};

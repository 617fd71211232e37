/* SPDX-License-Identifier: Apache-2.0 */
/* What replicate flows add to sources and targets. */
#include "flows/endpoint/source.h"
#include "flows/endpoint/target.h"
#include "flows/kinds/kinds.h"
#include "multicast.h"
#include "order.h"

static int reserve_source(struct dfi_source *source)
{
	return flow_is_multicast(&source->flow)
	    ? dfi__source_multicast_room(source)
	    : 0;
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

static void close_source(struct dfi_source *source)
{
	dfi__order_close_source(source);
	dfi__source_multicast_close(source);
}

static int open_target(struct dfi_target *target)
{
	return target->flow.ordered ? dfi__order_open_target(target) : 0;
}

const struct kind dfi__replicate_kind = {
	.source = {
		.reserve = reserve_source,
		.open = open_source,
		.attach = attach_source,
		.stop = dfi__source_multicast_stop,
		.close = close_source,
		.greet = dfi__source_multicast_greet,
		.look = dfi__source_multicast_look,
		.await_position = dfi__order_wait,
		.position_is_late = dfi__order_late,
	},
	.intake = {
		.reserve = dfi__target_multicast_room,
		.join = dfi__target_multicast_open,
		.open = open_target,
		.close = dfi__order_close_target,
		.find = dfi__order_find,
		.changed = dfi__order_changed,
		.taken = dfi__order_taken,
		.check = dfi__order_check,
	},
};

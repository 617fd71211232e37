/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row of open flows. Their targets have no rings of their own, so nobody
 * asks ready() or reports passed().
 */
#include "flows/kinds/combine/combine.h"
#include "flows/kinds/replicate/multicast.h"
#include "keyed.h"
#include "open.h"
#include "open_multicast.h"
#include "open_source.h"
#include "open_target.h"
#include "open_target_order.h"

const struct kind dfi__open_kind = {
	.source = {
		.leave = dfi__open_source_leave,
		.close = dfi__open_source_close,
		.describe = dfi__open_source_describe,
		.mark = dfi__open_mark,
	},
	.intake = {
		.next = dfi__open_target_next,
		.leave = dfi__open_target_leave,
		.cancel = dfi__open_target_cancel,
		.describe = dfi__open_target_describe,
		.wakes = dfi__open_target_wakes,
		.announce = dfi__open_target_announce,
		.sleeps = dfi__open_target_sleeps,
		.withdraw = dfi__open_target_withdraw,
		.event = dfi__open_target_take_event,
		.position = dfi__target_order_position,
	},
};

const struct kind dfi__open_replicate_kind = {
	.one_lane = true,
	.source = {
		.leave = dfi__open_source_leave,
		.close = dfi__open_source_close,
		.describe = dfi__open_source_describe,
		.mark = dfi__open_mark,
	},
};

const struct kind dfi__open_combine_kind = {
	.source = {
		.leave = dfi__open_source_leave,
		.close = dfi__open_source_close,
		.describe = dfi__open_source_describe,
		.mark = dfi__open_combine_mark,
	},
	.intake = {
		.next = dfi__combine_next,
		.leave = dfi__open_target_leave,
		.cancel = dfi__open_target_cancel,
		.describe = dfi__open_target_describe,
		.wakes = dfi__open_target_wakes,
		.announce = dfi__open_target_announce,
		.sleeps = dfi__open_target_sleeps,
		.withdraw = dfi__open_target_withdraw,
		.event = dfi__open_target_take_event,
		.watermark = dfi__open_fold_watermark,
	},
};

/*
 * Each end has one ring, though targets of the kind of the flow have one for
 * each source.
 */
const struct kind dfi__open_multicast_kind = {
	.source = {
		.open = dfi__open_multicast_open_end,
		.ring = dfi__open_multicast_ring,
		.look = dfi__open_multicast_look,
	},
	.intake = {
		.reserve = dfi__target_multicast_room,
		.join = dfi__target_multicast_open,
		.follows = dfi__target_multicast_follows,
		.stop = dfi__open_multicast_stop,
		.close = dfi__open_multicast_close,
	},
};

const struct lane_ops dfi__open_combine_ops = {
	.reached = dfi__open_lane_reached,
	.send = dfi__open_lane_send,
	.make_room = dfi__open_lane_make_room,
	.flush = dfi__open_combine_flush,
	.finish = dfi__open_combine_finish,
	.check_whole = dfi__open_lane_check_whole,
	.most_room = dfi__open_combine_most_room,
};

const struct lane_ops dfi__open_replica_ops = {
	.reached = dfi__open_replica_reached,
	.send = dfi__open_replica_send,
	.make_room = dfi__open_replica_make_room,
	.flush = dfi__open_replica_flush,
	.finish = dfi__open_replica_finish,
	.choose = dfi__open_replica_choose,
	.check_whole = dfi__open_replica_check_whole,
	.waiting_bytes = dfi__open_replica_waiting_bytes,
};

const struct lane_ops dfi__open_lane_ops = {
	.reached = dfi__open_lane_reached,
	.send = dfi__open_lane_send,
	.make_room = dfi__open_lane_make_room,
	.flush = dfi__open_lane_flush,
	.finish = dfi__source_finish,
	.check_whole = dfi__open_lane_check_whole,
	.most_room = dfi__open_lane_most_room,
	.waiting_bytes = dfi__open_lane_waiting_bytes,
};

const struct lane_ops dfi__keyed_lane_ops = {
	.reached = dfi__keyed_no_lane,
	.send = dfi__keyed_no_lane,
	.make_room = dfi__keyed_no_lane,
	.flush = dfi__keyed_flush,
	.finish = dfi__keyed_finish,
	.forget = dfi__keyed_forget,
	.check_whole = dfi__keyed_check_whole,
	.waiting_bytes = dfi__keyed_waiting_bytes,
};

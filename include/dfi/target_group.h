/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Target groups: one thread consumes from many targets, of any flows and
 * contexts, and waits for all of them at once.
 *
 *	while ((ret = dfi_target_group_consume_batch(group, &batch)) > 0) {
 *		... batch.batch.tuples, of batch.flow, from batch.batch.source
 *		dfi_target_group_release(group, &batch);
 *	}
 *
 * A group belongs to the thread of its targets. It serves targets with data in
 * turn, some segments each. A consuming call on one of its targets never waits.
 * Each target counts the group's waits as its own. To poll a group beside other
 * descriptors see examples/small/target_group.c.
 */
#ifndef DFI_TARGET_GROUP_H
#define DFI_TARGET_GROUP_H

#include <stdint.h>
#include <dfi/context.h>
#include <dfi/target.h>

DFI_BEGIN_DECLS

struct dfi_target_group;

/* Flags of groups, beside DFI_NONBLOCK. */
enum {
	/* Consuming returns 0 at the end of each target's flow as well. */
	DFI_TELL_ENDS = 4,
};

struct dfi_target_group_attr {
	uint32_t size;
	uint32_t flags;            /* DFI_NONBLOCK, DFI_TELL_ENDS */
	uint32_t stall_timeout_ms; /* default 0: wait while sources live */
	uint32_t wait;             /* enum dfi_wait; the targets' don't count */
};
#define DFI_TARGET_GROUP_ATTR_INIT DFI_INIT(struct dfi_target_group_attr)

/*
 * Make an empty group; dfi gives the default of wait. attr NULL means all
 * defaults. The caller closes *group with dfi_target_group_close().
 */
DFI_API int dfi_target_group_open(struct dfi *dfi,
    const struct dfi_target_group_attr *attr, struct dfi_target_group **group);

/* Free the group and give back what it lent; its targets stay open. */
DFI_API int dfi_target_group_close(struct dfi_target_group *group);

/*
 * Add a target; arg comes back with its batches. Closing the target removes it.
 * Over RDMA, add one with DFI_WAIT_SPIN before its sources attach: their
 * segments may wake nobody (enum dfi_wait). -EBUSY: it is in a group, or has a
 * descriptor (dfi_target_fd()).
 */
DFI_API int dfi_target_group_add(
    struct dfi_target_group *group, struct dfi_target *target, void *arg);

/* -ENOENT: it is not in this group. -EBUSY: its batch is out. */
DFI_API int dfi_target_group_remove(
    struct dfi_target_group *group, struct dfi_target *target);

/* Tuples of one of the targets, and of which. */
struct dfi_target_group_batch {
	struct dfi_batch batch;
	struct dfi_target *target;
	void *arg;        /* of dfi_target_group_add() */
	const char *flow; /* valid while the target is open */
	uint32_t index;   /* of the target in the flow */
	uint32_t reserved;
};

/*
 * Lend a batch of any target until dfi_target_group_release(), one at a time.
 * Returns its count (> 0); 0 with batch->target NULL when all targets have come
 * to the end of their flows, or there are none; with DFI_TELL_ENDS, 0 with
 * batch->target when that one has; or an error.
 *
 * With batch->target it is that target's (target.h); the next call goes on with
 * the others, and after -ENODATA and -ENOMSG with it. With batch->target NULL
 * it is the group's: -ETIMEDOUT: nothing came for stall_timeout_ms. -EAGAIN:
 * with DFI_NONBLOCK, nothing is there. -EBUSY: a batch is out. -EINTR:
 * dfi_target_group_interrupt() was called.
 */
DFI_API int dfi_target_group_consume_batch(
    struct dfi_target_group *group, struct dfi_target_group_batch *batch);

/*
 * End the owner's wait with -EINTR and batch->target NULL (context.h,
 * "Signals"). Any thread. Async-signal-safe.
 */
DFI_API void dfi_target_group_interrupt(struct dfi_target_group *group);

/* Give the batch back and clear it. Does nothing to one that is not out. */
DFI_API void dfi_target_group_release(
    struct dfi_target_group *group, struct dfi_target_group_batch *batch);

/* As dfi_target_fd(), for all targets of a group with DFI_NONBLOCK. */
DFI_API int dfi_target_group_fd(struct dfi_target_group *group);

DFI_END_DECLS

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of targets: one thread consumes from many targets, of any flows and
 * contexts, and waits for all of them at once.
 *
 *	while ((ret = dfi_target_group_consume_batch(group, &batch)) > 0) {
 *		... batch.batch.tuples, of batch.flow, from batch.batch.source
 *		dfi_target_group_release(group, &batch);
 *	}
 *
 * A group belongs to one thread at a time, the one of its targets. Targets with
 * data are served in turn, some segments each. While a target is in a group, a
 * consuming call on the target itself never waits. Each target counts the
 * group's waits as its own (dfi_target_stats). examples/small/target_group.c
 * polls a group beside other descriptors.
 */
#ifndef DFI_TARGET_GROUP_H
#define DFI_TARGET_GROUP_H

#include <stdint.h>
#include <dfi/context.h>
#include <dfi/export.h>
#include <dfi/target.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dfi_target_group;

/* Flags of groups, beside DFI_NONBLOCK. */
enum {
	/*
	 * The end of each target's flow is told, once:
	 * dfi_target_group_consume_batch() returns 0 with batch->target.
	 */
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
 * Make an empty group; dfi is where the default of wait comes from. attr NULL
 * means all defaults. The caller closes *group with dfi_target_group_close().
 * -EINVAL: an argument is not valid. -EMFILE, -ENOMEM, -EIO.
 */
DFI_API int dfi_target_group_open(struct dfi *dfi,
    const struct dfi_target_group_attr *attr, struct dfi_target_group **group);

/*
 * Free the group; its targets stay open and are as before. What the group has
 * lent goes back. NULL: nothing is done. -EINVAL: no group.
 */
DFI_API int dfi_target_group_close(struct dfi_target_group *group);

/*
 * Add a target; arg comes back with its batches. Closing the target removes it.
 * Over RDMA, one that was opened with DFI_WAIT_SPIN is better added before its
 * sources attach: their segments may come without waking anybody, see enum
 * dfi_wait.
 * -EBUSY: it is in a group, or has a descriptor (dfi_target_fd()). -ENOMEM.
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
 * Lend a batch of any target until dfi_target_group_release(). One batch at a
 * time. Returns its count (> 0); 0 with batch->target NULL when all targets
 * have come to the end of their flows, or there are none; with DFI_TELL_ENDS, 0
 * with batch->target when that one has; or an error. If that is one of a target
 * (see target.h), batch->target says of which one, and the others go on with
 * the next call; after a hard error the target is not looked at any more; after
 * -ENODATA (a gap: see dfi_target_gap()) it goes on, too. With
 * batch->target NULL it is one of the group: -ETIMEDOUT: nothing came for
 * stall_timeout_ms. -EAGAIN: with DFI_NONBLOCK, nothing is there. -EBUSY: a
 * batch is out. -EINTR: dfi_target_group_interrupt() was called. -EOWNERDEAD.
 */
DFI_API int dfi_target_group_consume_batch(
    struct dfi_target_group *group, struct dfi_target_group_batch *batch);

/*
 * Have the call in which the owner waits, or else the next one that would wait,
 * or return -EAGAIN, return -EINTR, once, with batch->target NULL. Nothing is
 * lost. Async-signal-safe; any thread, also while the group is closed, and, as
 * far as closed handles are known (context.h), after it.
 */
DFI_API void dfi_target_group_interrupt(struct dfi_target_group *group);

/* Give the batch back and clear it. Does nothing to one that is not out. */
DFI_API void dfi_target_group_release(
    struct dfi_target_group *group, struct dfi_target_group_batch *batch);

/*
 * A descriptor for all targets of a group with DFI_NONBLOCK, as dfi_target_fd()
 * is for one. -EINVAL: the group has not DFI_NONBLOCK.
 */
DFI_API int dfi_target_group_fd(struct dfi_target_group *group);

#ifdef __cplusplus
}
#endif

#endif

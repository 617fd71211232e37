/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: members of the other side that come and go in open flows
 * (open_flow.h), and for targets marks of sources (mark.h) and gaps, in closed
 * flows as well. An endpoint has them if it was opened with DFI_EVENTS; others
 * never see one. Sources of closed flows, and closed combiner flows, have none.
 * Owner thread only.
 */
#ifndef DFI_EVENT_H
#define DFI_EVENT_H

#include <stdint.h>
#include <dfi/context.h>

DFI_BEGIN_DECLS

struct dfi_source;
struct dfi_target;

enum {
	/* In dfi_source_attr.flags and dfi_target_attr.flags. */
	DFI_EVENTS = 8,
};

enum dfi_event_type {
	DFI_JOINED = 1, /* it has taken the seat, and is connected */
	/* A source has closed; a target has closed and taken all, or cancelled.
	 */
	DFI_ENDED,
	DFI_LOST, /* it died, aborted, or has left tuples behind */
	/* Instead of DFI_LOST: it was evicted (open.evict_after_ms). */
	DFI_EVICTED,
	DFI_MARK, /* the watermark has risen (dfi_target_watermark()) */
	/*
	 * Of targets, where routing is by keys: a partition has come, or is to
	 * leave (dfi_partition_release()). seat and incarnation: the target
	 * from which it comes, or to which it goes; DFI_ANY_SEAT and 0: nobody
	 * is there to give it.
	 */
	DFI_GAINED,
	DFI_LEAVING,
	/* With replay: a source closes, and waits for dfi_target_ack(). */
	DFI_ACK_DUE,
	/* With replay: a source that was lost does not return (open_flow.h). */
	DFI_GIVEN_UP,
	/*
	 * Of targets: something is missing here. With DFI_LOSS_NOTIFY segments
	 * of a source that the network has lost, which dfi_target_gap() names;
	 * without DFI_EVENTS, consuming returns -ENODATA. In an ordered open
	 * flow positions that no target delivers, as their source was lost:
	 * seat is DFI_ANY_SEAT. Nobody was promised these, so without
	 * DFI_EVENTS they are passed over.
	 */
	DFI_GAP,
};

struct dfi_event {
	uint32_t type; /* enum dfi_event_type */
	uint32_t seat;
	/* Random, of this stay in the seat: the same in all its events. */
	uint64_t incarnation;
	/*
	 * Of DFI_MARK: the watermark. Of a target's DFI_JOINED in a replicate
	 * flow: the tuples that this source had sent before those that come; in
	 * an ordered one the position at which this target begins, of whichever
	 * source (dfi_target_position()). Of DFI_GAP: how many segments; in an
	 * ordered open flow the position at which it goes on. 0 in all others.
	 */
	uint64_t value;
	uint64_t epoch;     /* of the table of owners; rises with each */
	uint32_t partition; /* of DFI_GAINED and DFI_LEAVING */
	uint32_t flags;     /* DFI_NO_BARRIER */
	uint64_t reserved[1];
};

enum {
	/*
	 * Of DFI_MARK at a target with DFI_ALIGN: the target had taken
	 * something behind that mark before. A source was gone, and its seat's
	 * next holder waited behind its rest; or partitions moved meanwhile.
	 */
	DFI_NO_BARRIER = 1,
};

/*
 * Take the next event of a target. They are in order with its tuples: joined
 * before the first of a source, ended, lost and evicted behind the last, a mark
 * behind all that its sources pushed before their marks, gained before the
 * first of a partition, leaving behind the last. While one is next, calls that
 * consume return -ENOMSG, which is not sticky, and lend nothing. It stays until
 * it is taken, also if the target is evicted. -EAGAIN: none is next.
 */
DFI_API int dfi_target_event(
    struct dfi_target *target, struct dfi_event *event);

/*
 * Give a partition away whose DFI_LEAVING was taken: all its tuples so far were
 * consumed, its state lies where its next owner finds it, and that one gets
 * DFI_GAINED and then its next tuples. Until then these wait at their sources.
 * A gained partition belongs to the target when its event was taken: restore
 * its state before you consume again. A target without DFI_EVENTS gives and
 * takes at once. -EINVAL: it does not leave. -ERANGE: no such partition.
 * -EBUSY: with replay (replay.h), something is not acknowledged.
 */
DFI_API int dfi_partition_release(
    struct dfi_target *target, uint32_t partition);

/*
 * Leave a flow that routes by keys, and lose nothing: the target gives its
 * partitions to the others, as if more had come (DFI_LEAVING), and gets none.
 * Consume on: calls that consume return 0 once all are given away, then close
 * it. As long as nobody else is there it keeps them. Any number of times. Owner
 * thread only. -EPROTOTYPE: the flow has no partitions.
 */
DFI_API int dfi_target_leave(struct dfi_target *target);

/*
 * Take an event of a source, about a target. Pushes do not return -ENOMSG: ask
 * when it suits. A target that has come and gone since the last call has none.
 * -EAGAIN: there is none; with DFI_NONBLOCK dfi_source_fd() is readable again
 * when there may be one.
 */
DFI_API int dfi_source_event(
    struct dfi_source *source, struct dfi_event *event);

DFI_END_DECLS

#endif

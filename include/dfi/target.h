/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets: where tuples leave a flow.
 *
 * A target belongs to one thread at a time, its owner; handing it over needs
 * the application's own synchronisation. Any thread may open a target, and
 * abort or interrupt it (context.h, "Signals"). Tuples are lent where they lie
 * in the ring. Those of one source come in the order of its pushes; an ordered
 * flow has one order for all sources, the same at all targets.
 *
 * Consuming follows read(2): > 0 is that many tuples, 0 the end of the flow
 * (all sources have closed and everything was consumed), < 0 an error. A call
 * waits (enum dfi_wait) as long as the sources live, at most stall_timeout_ms
 * if that is set. With DFI_NONBLOCK it returns -EAGAIN instead.
 *
 * Errors of all calls that consume, beside those of error.h. Tuples sent before
 * the first two errors come first (docs/endpoints.md, "What comes first"):
 *   -ECONNRESET  a source died before its end (the text names it), nobody can
 *                attach any more, or the RDMA device of a multicast is gone
 *   -ECANCELED   a source aborted, or this target was cancelled or aborted
 *   -EBADMSG     received data contradicts the protocol, or tuples are missing;
 *                the text names both ends
 *   -ETIMEDOUT   nothing came for stall_timeout_ms (not with DFI_NONBLOCK), or
 *                no tuple is there and a source, which the text names, has not
 *                attached within open_timeout_ms (again after that time)
 *   -EINTR       dfi_target_interrupt() was called
 *   -ENODATA     the network lost segments of a source (DFI_LOSS_NOTIFY), once
 *                a gap: dfi_target_gap() says which. With DFI_EVENTS an event
 *   -EOVERFLOW   combiner flow: a sum that is checked doesn't fit its type; the
 *                text names the result's field and the group
 *   -ENOSPC      combiner flow: more groups than max_groups (DFI_FULL_FAIL)
 *   -EBUSY       a batch or a cursor is out, or, in debug builds, another
 *                thread is in a call, which the log has as a fault
 * Except -ETIMEDOUT, -EINTR, -ENODATA, -EBUSY, -EBADF and -EOWNERDEAD all are
 * sticky: a truncated stream never looks like a clean end.
 */
#ifndef DFI_TARGET_H
#define DFI_TARGET_H

#include <stdint.h>
#include <dfi/context.h>
#include <dfi/schema.h>

DFI_BEGIN_DECLS

struct dfi_target;

struct dfi_target_attr {
	uint32_t size;
	uint32_t flags;                  /* DFI_NONBLOCK, DFI_EVENTS */
	const struct dfi_schema *schema; /* NULL, or what the flow must have */
	uint32_t open_timeout_ms;        /* default the context's */
	uint32_t stall_timeout_ms; /* default 0: wait while sources live */
	uint32_t wait;             /* enum dfi_wait */
	uint32_t idle_after_ms;    /* see mark.h; default 0: never */
	uint64_t store_epoch;      /* see replay.h; default 0: none */
};
#define DFI_TARGET_ATTR_INIT DFI_INIT(struct dfi_target_attr)

/*
 * Attach as target number index (0 to n_targets - 1) of a flow, and reserve its
 * rings. Waits for the flow at most open_timeout_ms, not for sources, which
 * have open_timeout_ms from now. attr NULL means all defaults. The caller
 * closes *target with dfi_target_close().
 *
 * Errors are also those of the registry and, if the flow needs it, of RDMA.
 * -ERANGE, -EEXIST, -EPROTOTYPE: no such index, it is taken, another schema.
 * -ENOMEM: memory, or ulimit -f. -EMSGSIZE: a segment is larger than a
 * datagram. -ETIMEDOUT: no such flow came. docs/endpoints.md ("Attaching").
 */
DFI_API int dfi_target_open(struct dfi *dfi, const char *flow, uint32_t index,
    const struct dfi_target_attr *attr, struct dfi_target **target);

/*
 * Leave the flow and free the target; all pointers it lent end. Sources that
 * have not ended get -ECONNRESET. Never waits for a peer. Returns 0, or the
 * first sticky error of the target's life.
 */
DFI_API int dfi_target_close(struct dfi_target *target);

/*
 * Give up: the call in which the owner waits, and all later ones that take more
 * than the rest of a segment, return -ECANCELED. What is lent stays so. The
 * owner then closes the target, and sources get -ECONNRESET. Frees nothing,
 * never waits for a peer. Any number of times, also while and after a close.
 */
DFI_API void dfi_target_abort(struct dfi_target *target);

/* The owner's wait, also on a target group, ends with this target's -EINTR. */
DFI_API void dfi_target_interrupt(struct dfi_target *target);

/*
 * Leave the flow early, without an error for anybody (examples/small/cancel.c).
 * Sources that push to this target get -EPIPE, and their tuples are dropped,
 * also of later ones; in an open flow the seat is free (docs/endpoints.md,
 * "Cancelling"). Consuming returns -ECANCELED. The caller still closes it: 0,
 * if nothing failed. Waits for the registry only, at most open_timeout_ms.
 *
 * -EBUSY: something is lent. -ENOTCONN, -ETIMEDOUT: only attached sources know:
 * call again, or the close tries. -EOPNOTSUPP: of an open combiner flow.
 */
DFI_API int dfi_target_cancel(struct dfi_target *target);

/* To poll after -EAGAIN (context.h, "Polling"). -EBUSY: in a target group. */
DFI_API int dfi_target_fd(struct dfi_target *target);

/* What a target has done so far. */
struct dfi_target_stats {
	/* Lent; in a combiner flow taken of sources (docs/combine.md). */
	uint64_t tuples, bytes;
	uint64_t segments;
	uint64_t stalls;   /* waits for data, also of its target group */
	uint64_t stall_ns; /* in those that outlast spinning */
	/* In these waits; a poll may look at the rings several times. */
	uint64_t polls, yields, sleeps;
	/* Waits of a second (log.h), also of its target group or _fd(). */
	uint64_t long_stalls;
	uint64_t gaps, lost_segments; /* told with -ENODATA: how many of each */
};
DFI_API void dfi_target_query(
    const struct dfi_target *target, struct dfi_target_stats *stats);

/*
 * Segments of a source that were lost: first to first + count - 1, counted from
 * 0 for each source. In a flow for latency a segment is a tuple.
 */
struct dfi_gap {
	uint64_t first;
	uint32_t count;
	uint32_t source;
	/* Of the first in an ordered flow; the others follow it. Else 0. */
	uint64_t position;
};

/*
 * The last gap of -ENODATA or DFI_GAP, also of the target group; the source's
 * next tuples are behind it (examples/small/gaps.c). -ENOENT: no gap.
 */
DFI_API int dfi_target_gap(
    const struct dfi_target *target, struct dfi_gap *gap);

/*
 * In a combiner flow with windows: the window of the results consumed last: its
 * number, from 0, or the mark in front of it (0: none). Windows come in order.
 * -EPROTOTYPE: the flow has no windows. -ENOENT: nothing was consumed yet.
 */
DFI_API int dfi_target_window(
    const struct dfi_target *target, uint64_t *window);

/*
 * The first member of struct dfi_target, for the inline functions only: the
 * unread rest of the segment in work; next == end: there is none.
 */
struct dfi_target_head {
	const char *next;
	const char *end;
	uint32_t tuple_size;
	uint32_t source; /* of the segment in work */
};

/* The slow path of the inline function; not for direct use. */
DFI_API int dfi_target_consume_slow(
    struct dfi_target *target, const void **tuple);

/* Lend the next tuple until the next call on this target: 1, 0 or an error. */
DFI_INLINE int dfi_target_consume(struct dfi_target *target, const void **tuple)
{
	struct dfi_target_head *head = DFI_CAST(
	    struct dfi_target_head *, DFI_CAST(void *, target));
	const char *next = head->next;

	/* The compiler knows that a variable's address is not NULL. */
	if (__builtin_expect(next == head->end || !tuple, 0))
		return dfi_target_consume_slow(target, tuple);
	head->next = next + head->tuple_size;
	*tuple = next;
	return 1;
}

/* Tuples that a target lends: (the rest of) one segment. */
struct dfi_batch {
	const void *tuples; /* one behind the other */
	uint32_t count;
	uint32_t stride; /* bytes from tuple to tuple: the tuple size */
	uint32_t source; /* number of the source they come from */
	uint32_t reserved;
};

/* Lend a batch until its release, one at a time: its count, 0 or an error. */
DFI_API int dfi_target_consume_batch(
    struct dfi_target *target, struct dfi_batch *batch);

/* Give the batch back and clear it. Does nothing to one that is not out. */
DFI_API void dfi_target_release(
    struct dfi_target *target, struct dfi_batch *batch);

/*
 * A cursor: the segment in work in registers, for a loop over tuples. Keep it
 * in a local variable. Until its close no other call may use the target.
 *
 *	struct dfi_target_cursor c =
 *	    dfi_target_cursor_open(target, sizeof(struct kv));
 *	while ((kv = dfi_target_cursor_get(&c, sizeof(*kv))))
 *		sum += kv->val;
 *	ret = dfi_target_cursor_close(c);
 */
struct dfi_target_cursor {
	const char *next;
	const char *end;
	struct dfi_target *target;
	int32_t status; /* why there was no tuple: 0 end of flow, or an error */
	uint32_t reserved;
};

/* By value, so that a cursor's address never escapes; not for direct use. */
DFI_API struct dfi_target_cursor dfi_target_cursor_slow(
    struct dfi_target_cursor cursor);

/* -EINVAL in .status: size is not the flow's tuple size. */
DFI_API struct dfi_target_cursor dfi_target_cursor_open(
    struct dfi_target *target, size_t size);

/*
 * The next tuple, lent until the next call on the cursor, or NULL, and .status
 * says why. size is as at the open; write it as a constant.
 */
DFI_INLINE const void *dfi_target_cursor_get(
    struct dfi_target_cursor *cursor, size_t size)
{
	const char *tuple = cursor->next;

	if (__builtin_expect(tuple == cursor->end, 0)) {
		*cursor = dfi_target_cursor_slow(*cursor);
		tuple = cursor->next;
		if (tuple == cursor->end)
			return NULL;
	}
	/* Spares the caller's loop a test of each tuple. */
	if (!tuple)
		__builtin_unreachable();
	cursor->next = tuple + size;
	return tuple;
}

/* Give the segment back; unread tuples stay. Returns .status. */
DFI_API int dfi_target_cursor_close(struct dfi_target_cursor cursor);

DFI_END_DECLS

#endif

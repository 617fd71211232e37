/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets: where tuples leave a flow.
 *
 * A target belongs to one thread at a time; handing it to another thread needs
 * the application's own synchronisation. Tuples are lent where they lie in the
 * ring and given back, never copied. Tuples of one source come in the order of
 * its pushes; between sources there is no order, but in an ordered flow all
 * targets get all segments in the same one.
 *
 * Consuming follows read(2): > 0 is that many tuples, 0 the end of the flow
 * (all sources have closed and everything was consumed), < 0 an error.
 *
 * Waiting: a call waits (see enum dfi_wait) for as long as the sources live, at
 * most stall_timeout_ms if that is set. With DFI_NONBLOCK it returns -EAGAIN
 * instead.
 *
 * Errors of all calls that consume:
 *   -ECONNRESET  a source died before its end; the text names it. What it had
 *                sent whole was delivered before, and so was all that the
 *                others' rings held then; in an ordered flow, of all that,
 *                what has no gap before it in the order; of datagrams, what has
 *                none before it, as nobody sends again what was lost. Or the
 *                RDMA device of a multicast is gone. Or the flow's creator
 *                died, or the flow was removed, before all sources had
 *                attached; or the registry's machine has not answered for as
 *                long as this process's lease, so that nobody attaches any
 *                more, and of a multicast's sources on other hosts nothing is
 *                known
 *   -ECANCELED   a source aborted the flow (then the same was delivered
 *                before), or this target was cancelled or aborted
 *   -EBADMSG     received data contradicts the protocol, or tuples are missing;
 *                the text names both ends
 *   -ETIMEDOUT   nothing came for stall_timeout_ms (not with DFI_NONBLOCK), or
 *                some source has not attached within open_timeout_ms (the text
 *                says which; repeated after the same time); not sticky
 *   -EINTR       dfi_target_interrupt() was called; not sticky
 *   -ENODATA     segments of one source were lost on the network, and the flow
 *                was declared to go on then (DFI_LOSS_NOTIFY). Once for each
 *                gap: dfi_target_gap() says which; not sticky
 *   -EOVERFLOW   combiner flow: a sum that is checked doesn't fit its type; the
 *                text names the result's field and the group (aggregate.h)
 *   -ENOSPC      combiner flow: more groups came than max_groups, and when_full
 *                is DFI_FULL_FAIL
 *   -ENOMEM      combiner flow: no memory for more groups
 *   -EBUSY       a batch or a cursor is out; not sticky. In debug builds of the
 *                library also: another thread is inside a call on this target,
 *                which is a fault of the application; the log says so, too
 *   -EOWNERDEAD  the handle was inherited over fork()
 * Other errors are sticky: a truncated stream never looks like a clean end.
 *
 * In a combiner flow what is consumed are results, which lie in memory of the
 * target. They are made when a consuming call finds that a window, or the flow,
 * has ended: what was delivered before -ECONNRESET or -ECANCELED are then the
 * results of all windows that all sources have ended.
 */
#ifndef DFI_TARGET_H
#define DFI_TARGET_H

#include <stdint.h>
#include <dfi/context.h>
#include <dfi/export.h>
#include <dfi/schema.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dfi_target;

struct dfi_target_attr {
	uint32_t size;
	uint32_t flags;                  /* DFI_NONBLOCK */
	const struct dfi_schema *schema; /* what the caller expects; checked
					    against the flow's if given */
	uint32_t open_timeout_ms;        /* default the context's */
	uint32_t stall_timeout_ms; /* default 0: wait while sources live */
	uint32_t wait;             /* enum dfi_wait */
	uint32_t reserved;         /* 0 */
};
#define DFI_TARGET_ATTR_INIT DFI_INIT(struct dfi_target_attr)

/*
 * Attach as target number index (0 to n_targets - 1) of a flow, and reserve its
 * rings, one for each source, in memory local to the calling thread; that takes
 * some 0.15 to 0.6 s a GiB, and up to 5 s more if it fits only after what other
 * threads or processes of this user are just reserving. Waits for the flow to
 * be there, and the registry's answers, at most open_timeout_ms beside that,
 * but not for the sources; they have open_timeout_ms from now, which the first
 * consuming call that waits checks. attr NULL means all defaults. The caller
 * closes *target with dfi_target_close().
 *
 * -EINVAL: an argument is not valid. -ERANGE: index is not below n_targets.
 * -EEXIST: another target is attached with this index, or was before a source
 * attached that is still there (see flow.h). -EPROTOTYPE: the flow has another
 * schema; the text names the field. -ETIMEDOUT: no such flow came. -ENOMEM: the
 * rings don't fit into memory, or are larger than a file may be (ulimit -f);
 * the text gives need and limit. -ENOTCONN: the registry. -EPROTO, -EBADMSG:
 * what the registry holds is of another version, or damaged. -ENOSPC: the
 * registry is full. If the flow, or else DFI_TRANSPORT, asks for verbs, also
 * -ENODEV: no RDMA device can be used, the text says why; -EOWNERDEAD: a
 * process used RDMA before it forked this one; -ENOMEM: more memory than may be
 * locked (ulimit -l). Else what is wrong with RDMA is a warning in the log, and
 * sources of this host can attach. Of an ordered flow over RDMA, target 0:
 * -EOPNOTSUPP, if the device has no atomic operations. Of a multicast over RDMA
 * also -EMSGSIZE: a segment is larger than a datagram of the device here, the
 * text gives the limit; -EHOSTUNREACH: the group can't be joined; -ETIMEDOUT:
 * nor did it take that long. -EMFILE, -EIO.
 */
DFI_API int dfi_target_open(struct dfi *dfi, const char *flow, uint32_t index,
    const struct dfi_target_attr *attr, struct dfi_target **target);

/*
 * Leave the flow and free the target; all pointers it lent end. Sources that
 * have not ended get -ECONNRESET. Never waits for a peer. Returns 0, or the
 * first hard error of the target's life. Closing it again is -EBADF, NULL is 0,
 * and neither does anything (see context.h). Owner thread only.
 */
DFI_API int dfi_target_close(struct dfi_target *target);

/*
 * Give up: a call in which the owner waits, and all later ones that take more
 * than the rest of a segment, return -ECANCELED. What is lent stays so. Then
 * the owner closes the target, and sources get -ECONNRESET. Frees nothing and
 * never waits for a peer. Any thread, the owner's too, any number of times,
 * also while dfi_target_close() runs, and, as far as closed handles are known
 * (context.h), after it. Async-signal-safe.
 */
DFI_API void dfi_target_abort(struct dfi_target *target);

/*
 * Have the call in which the owner waits, or else the next one that would wait,
 * or return -EAGAIN, return -EINTR, once. Nothing is lost: the next call goes
 * on. Async-signal-safe; any thread, as dfi_target_abort(). The group of a
 * target tells it as the target's error; see dfi_target_group_interrupt().
 */
DFI_API void dfi_target_interrupt(struct dfi_target *target);

/*
 * Want no more: leave the flow early, without an error for anybody
 * (examples/small/cancel.c). From now on what sources push for this target is
 * dropped, and they are told (-EPIPE); with the other targets they go on as
 * before. A source that attaches later is
 * told, too, as long as this context is open, also when the target was closed:
 * its entry in the registry stays until all sources have attached, or the flow
 * is removed. Consuming returns -ECANCELED; the caller still closes the target,
 * which returns 0 if nothing had failed before. More calls do nothing once it
 * has returned 0. Waits for the registry only, at most the context's
 * open_timeout_ms.
 *
 * -EBUSY: a batch or a cursor is out; nothing happened. -ENOTCONN, -ETIMEDOUT:
 * the registry doesn't know, only the sources that are attached do: call again,
 * to tell those that come later. Closing tries once more, if any are to come;
 * if that fails as well, the log says so, and they get -ECONNRESET.
 */
DFI_API int dfi_target_cancel(struct dfi_target *target);

/*
 * A descriptor for poll(), epoll and the like, of a target with DFI_NONBLOCK.
 * It is readable from the start and until a consuming call has returned
 * -EAGAIN; then again as soon as there is something to consume, or the end, or
 * an error. So consume until -EAGAIN, and then poll: no wake-up is lost. With
 * level-triggered polling, fewer calls do, too. It may be readable for nothing,
 * some ten times a second. Don't read it; the target closes it. More calls
 * return the same one. -EINVAL: the target has not DFI_NONBLOCK. -EBUSY: it is
 * in a group (target_group.h). -EMFILE, -ENOMEM, -EIO.
 */
DFI_API int dfi_target_fd(struct dfi_target *target);

/* What a target has done so far. Owner thread only. */
struct dfi_target_stats {
	/*
	 * Given to the application. In a combiner flow, taken of the sources
	 * instead, where partial aggregates count as the tuples whose room they
	 * fill.
	 */
	uint64_t tuples, bytes;
	uint64_t segments;
	uint64_t stalls;   /* waits for data, its group's among them */
	uint64_t stall_ns; /* in those that outlast spinning */
	/* In these waits: while spinning, looks, each of which may be several
	 * at the rings; yields; sleeps. */
	uint64_t polls, yields, sleeps;
	/*
	 * Times in which nothing came for a second: see log.h. Also those in a
	 * group's waits, and where a descriptor is polled.
	 */
	uint64_t long_stalls;
	/* Told with -ENODATA: how often, and of how many segments in all. */
	uint64_t gaps, lost_segments;
};
DFI_API void dfi_target_query(
    const struct dfi_target *target, struct dfi_target_stats *stats);

/*
 * Segments of a source that were lost: numbers first to first + count - 1,
 * where each source counts its own from 0. In a flow for latency a segment is a
 * tuple.
 */
struct dfi_gap {
	uint64_t first;
	uint32_t count;
	uint32_t source;
	/*
	 * In an ordered flow: where the first of them belongs among the
	 * segments of all sources, counted from 0, which is the same at all
	 * targets; the others belong right behind it. Else 0.
	 */
	uint64_t position;
};

/*
 * The gap that the last -ENODATA of a consuming call, or of one on the target's
 * group, has told (examples/small/gaps.c). What comes next from that source is
 * behind it. -ENOENT: there was none. -EINVAL: gap is NULL. -EBADF, -EOWNERDEAD
 * as the others. Owner thread only.
 */
DFI_API int dfi_target_gap(
    const struct dfi_target *target, struct dfi_gap *gap);

/*
 * In a combiner flow with windows: the window, counted from 0, of the results
 * that were consumed last. Windows come in their order. One without tuples has
 * no results, but counts; a batch is of one window. Results of the last window,
 * which is ended by no mark but by the end of all sources, come if any tuple
 * has. Of a window that not all sources have ended, there are no results (but
 * for DFI_FULL_EMIT), and after an error no more of any. -EPROTOTYPE: the flow
 * has no windows. -ENOENT: nothing was consumed yet. Owner thread only.
 */
DFI_API int dfi_target_window(
    const struct dfi_target *target, uint64_t *window);

/*
 * The first member of struct dfi_target, for the inline functions below only:
 * the unread rest of the segment in work. next == end means that there is none.
 */
struct dfi_target_head {
	const char *next;
	const char *end;
	uint32_t tuple_size;
	uint32_t source; /* of the segment in work */
};

/* The slow paths of the inline functions; not for direct use. */
DFI_API int dfi_target_consume_slow(
    struct dfi_target *target, const void **tuple);

/*
 * Lend the next tuple in *tuple, until the next call on this target. 1, 0 at
 * the end of the flow, or an error.
 */
DFI_INLINE int dfi_target_consume(struct dfi_target *target, const void **tuple)
{
	struct dfi_target_head *head = DFI_CAST(
	    struct dfi_target_head *, DFI_CAST(void *, target));
	const char *next = head->next;

	/* Of a variable's address, the compiler knows that it is not NULL. */
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

/*
 * Lend a batch until dfi_target_release(), but not to a forked child. One batch
 * at a time. Returns its count (> 0), 0 at the end of the flow, or an error.
 */
DFI_API int dfi_target_consume_batch(
    struct dfi_target *target, struct dfi_batch *batch);

/*
 * Give the batch back, so that its memory can be written again, and clear it.
 * Does nothing to a batch that is not out.
 */
DFI_API void dfi_target_release(
    struct dfi_target *target, struct dfi_batch *batch);

/*
 * A cursor: the segment in work held in registers, for a loop that consumes
 * tuple by tuple at memory speed. Keep it in a local variable. Between open and
 * close no other call may use the target. It does not survive fork() into the
 * child (context.h).
 *
 *	struct dfi_target_cursor c =
 *	    dfi_target_cursor_open(target, sizeof(struct kv));
 *	const struct kv *kv;
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

/* Its slow path; not for direct use. */
DFI_API struct dfi_target_cursor dfi_target_cursor_slow(
    struct dfi_target_cursor cursor);

/*
 * Open a cursor for tuples of size bytes. -EINVAL in .status: that is not the
 * flow's tuple size.
 */
DFI_API struct dfi_target_cursor dfi_target_cursor_open(
    struct dfi_target *target, size_t size);

/*
 * The next tuple, lent until the next call on the cursor, or NULL: then .status
 * says why; after -EAGAIN, -ETIMEDOUT, -EINTR or -ENODATA it may be tried
 * again. size is the one that the cursor was opened with; write it as a
 * constant. As with a source's cursor, the address never escapes.
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

/*
 * Give the segment back to the target; unread tuples stay for the next call.
 * Returns .status.
 */
DFI_API int dfi_target_cursor_close(struct dfi_target_cursor cursor);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources: where tuples enter a flow.
 *
 * A source belongs to one thread at a time; handing it to another thread needs
 * the application's own synchronisation. Tuples are built directly in the
 * target's ring, in segments. A bandwidth flow sends a segment when it is full,
 * on dfi_source_flush(), on close, and after linger_us if that is set; a
 * latency flow sends each tuple at once.
 *
 * Three ways in, from simple to fast:
 *   dfi_source_push()         one tuple, routed
 *   dfi_source_push_batch()   an array of tuples, routed, or all to one
 *                             target: dfi_source_push_batch_to()
 *   a cursor, or claim/commit a run of tuples to one target, at memory speed
 *
 * Waiting: when the target's ring is full, a call waits (see enum dfi_wait) for
 * as long as the target lives, at most stall_timeout_ms if that is set. With
 * DFI_NONBLOCK it returns -EAGAIN instead and has taken nothing.
 *
 * Errors of all calls that move tuples, beside those they name:
 *   -ECONNRESET  a target died, or closed before the end of the flow; the text
 *                names it
 *   -EBADMSG     a target's ring makes no sense; the text names both ends
 *   -ECANCELED   some thread has called dfi_source_abort()
 *   -ETIMEDOUT   the ring stayed full for stall_timeout_ms; not sticky
 *   -EINTR       dfi_source_interrupt() was called; not sticky
 *   -EPIPE       the tuple's target has cancelled (dfi_target_cancel()): the
 *                tuple is dropped, as is what was buffered for that target. Not
 *                sticky: the source goes on with the others, and its close
 *                returns 0 if they get everything.
 *   -EBUSY       a cursor is open; not sticky. In debug builds of the library
 *                also: another thread is inside a call on this source, which
 *                is a fault of the application; the log says so, too
 *   -EOWNERDEAD  the handle was inherited over fork()
 *   -EINVAL, -ERANGE, -EPROTOTYPE, -EMSGSIZE
 *                an argument is wrong, such as a target that does not exist,
 *                also one that a routing function names. Nothing was taken; not
 *                sticky. A tuple that is pushed must not be NULL: not checked
 * Other errors are sticky: every later call returns the same, and so does
 * dfi_source_close(). A push that was refused (-EAGAIN, -ETIMEDOUT, -EINTR)
 * makes dfi_source_close() fail with its error, unless later a push or claim
 * for that target found room, or a mark or flush that needed it. A push that
 * was refused for an argument does so unless the source takes another tuple. So
 *
 *	for (i = 0; i < n; i++)
 *		if (dfi_source_push(source, &tuples[i]) < 0)
 *			break;
 *	return dfi_source_close(source);
 *
 * is complete: a stream that was cut short never looks whole.
 *
 * In a flow of kind DFI_COMBINE a source may combine tuples of one group before
 * it sends them (enum dfi_source_combining in flow.h). They are built in memory
 * of the source then, and what is combined is kept until there are too many
 * groups for a cache, until a flush, linger_us after the first of them, and
 * until the source is closed. So a flush needs room in rings: it waits for it,
 * or fails, as a push does, and may be repeated; and so does a close, which
 * waits even with DFI_NONBLOCK: a thread that must not wait flushes before,
 * until that returns 0.
 *
 * In a flow of kind DFI_REPLICATE each push is for all targets, and a call that
 * takes a target's number takes DFI_ALL_TARGETS there. A tuple is taken for all
 * of them or for none, so after -EAGAIN and -ETIMEDOUT nobody has it. Of all
 * targets' rings, the fullest decides. A target that cancels is left out from
 * then on, and the source isn't told as long as there are others; -EPIPE means
 * that all have cancelled. One that dies fails the source, as in other flows.
 * In an ordered flow a segment gets its place in the order when it is sent.
 * Over RDMA that place comes from target 0's device, so that the call which
 * sends the segment waits for a round trip, at most stall_timeout_ms if that
 * is set; with DFI_NONBLOCK some microseconds. What waits longer has been
 * taken, and the next push, flush or other call that sends goes on with it:
 * -ETIMEDOUT or -EAGAIN, as if a ring were full, until the place is there. All
 * targets wait for it meanwhile. So who has a stall_timeout_ms or doesn't
 * block, and is about to do something else, flushes until that returns 0, or
 * lingers.
 *
 * A replicate flow with groups (enum dfi_routing in flow.h) sends each tuple to
 * a set of targets: bit t of a set stands for target t. There is one copy of
 * the tuple at the source, as without groups. A set that differs from that of
 * the tuple before ends the segment, so that runs of one set are what is fast.
 * The other targets pass over the segment; it takes room in their rings, too,
 * so that each target must go on consuming, also one that nothing is for.
 * -EPIPE means that all targets of the set have cancelled.
 *
 * In a flow with windows (window_tuples in flow.h) the tuple that ends one is
 * taken only when each target's ring has room for it or for a segment that says
 * that the window has ended. So each target decides about it as about a tuple
 * that is for itself: it is waited for, and -EAGAIN and -ETIMEDOUT may be its.
 */
#ifndef DFI_SOURCE_H
#define DFI_SOURCE_H

#include <stdint.h>
#include <string.h>
#include <dfi/context.h>
#include <dfi/copy.h>
#include <dfi/export.h>
#include <dfi/route.h>
#include <dfi/schema.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dfi_source;

/* The target of a push in a flow of kind DFI_REPLICATE: no target's number. */
#define DFI_ALL_TARGETS UINT32_MAX

struct dfi_source_attr {
	uint32_t size;
	uint32_t flags;                  /* DFI_NONBLOCK */
	const struct dfi_schema *schema; /* what the caller pushes; checked
					    against the flow's if given */
	/*
	 * For DFI_ROUTE_FUNCTION: the target of a tuple. Called in the pushing
	 * thread with route_arg; the push of a tuple for which it returns a
	 * number >= n_targets is refused: -ERANGE.
	 */
	uint32_t (*route)(void *arg, const void *tuple, uint32_t n_targets);
	void *route_arg;
	uint32_t open_timeout_ms;  /* default the context's */
	uint32_t stall_timeout_ms; /* default 0: wait while the target lives */
	uint32_t wait;             /* enum dfi_wait */
	uint32_t close_timeout_ms; /* default 0: see dfi_source_close() */
	/*
	 * For flows of goal DFI_BANDWIDTH: how many microseconds a tuple waits
	 * at most until its segment is sent, though it is not full. The
	 * context's control thread sends it, whatever the owner does meanwhile,
	 * so late by what that thread takes to run; and, if the ring is full,
	 * when the target has given room. A ring holds less then: each partial
	 * segment takes the place of a full one. The time of a tuple that a
	 * cursor or a claimed span holds begins when it is given back. Default
	 * 0: as DFI_LINGER_US says, where 0 is never. DFI_NO_LINGER: never. A
	 * context whose sources linger keeps one file open for it.
	 */
	uint32_t linger_us;
	uint32_t reserved;
	/*
	 * For DFI_ROUTE_FUNCTION in a replicate flow: the set of targets of a
	 * tuple. Called as route is. A set that is empty makes the push fail
	 * with -EINVAL, one with a bit beyond the last target with -ERANGE.
	 */
	uint64_t (*route_set)(void *arg, const void *tuple, uint32_t n_targets);
};
#define DFI_NO_LINGER UINT32_MAX
#define DFI_SOURCE_ATTR_INIT DFI_INIT(struct dfi_source_attr)

/*
 * Attach as source number index (0 to n_sources - 1) of a flow. Waits until the
 * flow and all its targets are there, at most open_timeout_ms; so a thread that
 * is also a target of the flow opens the target first. Nothing is visible of an
 * open that failed, but for one case: where a source sends datagrams, and a
 * target doesn't answer in time, targets may have seen the source attach, and
 * fail with -ECONNRESET: then the flow is to be made anew. attr NULL means all
 * defaults. The caller closes *source with dfi_source_close().
 *
 * -EINVAL: an argument is not valid, or a source is to linger, for which its
 * flow has too few segments. -ERANGE: index is not below n_sources.
 * -EEXIST: another source is attached with this index, or was, and sent tuples
 * or ended its part, to a target that is still open (see flow.h). -EPROTOTYPE:
 * the flow has another schema; the text names the field. -ETIMEDOUT: the text
 * says who is missing. -ECONNRESET: a target died meanwhile, or the flow's
 * creator died, or the flow was removed, before all targets had attached.
 * -ENOTCONN: the registry. -EACCES: a target belongs to another user. -EPROTO,
 * -EBADMSG: what the registry holds is of another version, or damaged. -ENOSPC:
 * the registry is full. -EHOSTUNREACH: a target's host can't be reached over
 * RDMA, or not from the device chosen here, or not over shared memory, which
 * the flow or DFI_TRANSPORT asks for, or the sequencer of an ordered flow
 * can't; -EOPNOTSUPP: the device here has no atomic operations, by which that
 * is reached; -ENODEV: no RDMA device here can be used; both texts say why. Of
 * a multicast over RDMA also -EMSGSIZE: a segment is larger than a datagram of
 * the device here, the text gives the limit; -EHOSTUNREACH: the group can't be
 * joined; -ETIMEDOUT: that took too long, or a target doesn't answer.
 * -ECONNREFUSED: nobody listens there. -EOWNERDEAD: a process used RDMA before
 * it forked this one. -ENOMEM: also, more memory than may be locked (ulimit
 * -l). -EMFILE: also, of a replicate flow over shared memory, a target's
 * process may open no more files; the text says which. -EIO.
 */
DFI_API int dfi_source_open(struct dfi *dfi, const char *flow, uint32_t index,
    const struct dfi_source_attr *attr, struct dfi_source **source);

/*
 * End the source's part of the flow: sends what is buffered and then the end
 * mark with the tuple count. Never waits for a target's program, but for room
 * for what the source has combined, if it combines, and over RDMA until all has
 * arrived: what was pushed is in the targets' rings when it
 * returns 0. That takes some seconds if the network is slow; only if a target's
 * process is stopped and has no receive left, it may last as long as the target
 * lives, or stall_timeout_ms. close_timeout_ms, if not 0, bounds it in any
 * case; after dfi_source_abort() it takes some seconds at most. Frees the
 * source in any case. Closing it again is -EBADF, NULL is 0, and neither does
 * anything (see context.h). If the stream is not whole (a hard error, a refused
 * push, an open cursor, a target that is gone), all targets get -ECANCELED
 * instead of an end (of a multicast over RDMA -ECONNRESET, if that is lost on
 * the network), and the first such error is returned. -ETIMEDOUT, when that
 * time has passed: the end was sent, and may have arrived or not; or there was
 * no room in time, and targets get -ECANCELED. Owner thread only.
 */
DFI_API int dfi_source_close(struct dfi_source *source);

/*
 * Give up: a call in which the owner waits, and all later ones, return
 * -ECANCELED (but for pushes that go into an open segment and call nothing).
 * Then the owner closes the source, and targets get -ECANCELED after what was
 * sent. Frees nothing and never waits for a peer. Any thread, the owner's too,
 * any number of times, also while dfi_source_close() runs, which then ends the
 * stream either way, and, as far as closed handles are known (context.h), after
 * it. Async-signal-safe.
 */
DFI_API void dfi_source_abort(struct dfi_source *source);

/*
 * Have the call in which the owner waits, or else the next one that would wait,
 * or return -EAGAIN, return -EINTR, once: what it was to take is not taken, and
 * it may be repeated. dfi_source_close() is not ended so, but by
 * dfi_source_abort(). Async-signal-safe; any thread, as dfi_source_abort().
 */
DFI_API void dfi_source_interrupt(struct dfi_source *source);

/*
 * Send what is buffered for all targets. Never waits, unless the source
 * combines: then for room; or the flow is ordered, and goes over RDMA: then for
 * a segment's place. Errors then are those of a push, but for -EPIPE. Else 0,
 * or the source's hard error.
 */
DFI_API int dfi_source_flush(struct dfi_source *source);

/*
 * End this source's window, in a flow with DFI_WINDOW_MARKED: send what is
 * buffered, and tell all targets, also those that got nothing. A window may be
 * empty. Waits as a push does until each target's ring has room; of -EAGAIN and
 * -ETIMEDOUT no target knows: then the window goes on, and unless the mark is
 * repeated, dfi_source_close() fails with its error. Targets that have
 * cancelled don't count. A span that is lent ends. The end of the source ends
 * its window, too. -EPROTOTYPE: the flow has no windows, or they end by
 * themselves; not sticky. Owner thread only.
 */
DFI_API int dfi_source_mark(struct dfi_source *source);

/*
 * A descriptor for poll(), epoll and the like, of a source with DFI_NONBLOCK.
 * It is readable from the start and until a push, claim, mark or flush has
 * returned -EAGAIN; then again as soon as there is room for one of the targets
 * that refused and that was not tried again, or something else happens that a
 * call would report. So push until -EAGAIN, and then poll: no wake-up is lost.
 * It may be readable for nothing. Don't read it; the source closes it. More
 * calls return the same one. -EINVAL: the source has not DFI_NONBLOCK. -EMFILE,
 * -ENOMEM, -EIO.
 *
 * A thread that is source and target of flows that may be full must not wait in
 * either call: it uses DFI_NONBLOCK on both, consumes when a push is refused,
 * and polls both descriptors when neither goes on.
 */
DFI_API int dfi_source_fd(struct dfi_source *source);

/* What a source has done so far. Owner thread only. */
struct dfi_source_stats {
	/*
	 * Sent; of a replicate flow once, whatever the number of targets. Of a
	 * source that combines: tuples that it has sent or combined, and bytes
	 * that it has sent, whatever they stand for.
	 */
	uint64_t tuples, bytes;
	uint64_t segments; /* sent, partial ones included */
	uint64_t partial_segments;
	/* Waits for a full ring, or for a segment's place in an order. */
	uint64_t stalls;
	uint64_t stall_ns; /* in those that outlast spinning */
	/* In these waits: looks while spinning; yields; sleeps. */
	uint64_t polls, yields, sleeps;
	/*
	 * Targets, or places, that were waited for for a second, each wait
	 * counted once: see log.h. Targets also where dfi_source_fd() is
	 * polled.
	 */
	uint64_t long_stalls;
	/*
	 * Bytes of tuples that were written in this process to send them: once
	 * where each tuple is built, and once more for each time that it was
	 * copied from there to a ring. What a device reads from there, it does
	 * not count.
	 */
	uint64_t copied_bytes;
	/*
	 * Of a source that combines: tuples that it has combined, and partial
	 * aggregates that it has sent of them.
	 */
	uint64_t combined_tuples, records;
	/*
	 * Of a source that combines: how often it has given that up for a
	 * target, for a while, as it did not pay (DFI_COMBINING_ADAPTIVE). The
	 * first time is a line in the log, level info.
	 */
	uint64_t combining_stops;
};
DFI_API void dfi_source_query(
    const struct dfi_source *source, struct dfi_source_stats *stats);

/*
 * The first member of struct dfi_source, for the inline functions below only.
 * A lane is the open segment of one target, or of all in a replicate flow: the
 * next tuple goes to next, and when next reaches end, dfi_source_lane_full() is
 * due. A lane without an open segment points to room for one tuple outside of
 * the ring, so that a push needs one comparison only; dfi_source_lane_full()
 * then finds the tuple there. If the source lingers, another thread reads next,
 * and may lower end, even below next, to be told of the next tuple.
 */
struct dfi_source_lane {
	char *next;
	char *end;
};

enum {
	DFI_INLINE_NONE = 0, /* routing needs a call */
	DFI_INLINE_ONE,      /* one target */
	DFI_INLINE_HASH64,   /* hash of one 8-byte integer */
};

struct dfi_source_head {
	struct dfi_source_lane only; /* the lane, if there is only one */
	struct dfi_source_lane *lanes;
	uint32_t n_targets; /* that a call may name; 0 in a replicate flow */
	uint32_t tuple_size;
	uint32_t inline_routing;
	uint32_t key_offset;
	uint64_t targets; /* the set chosen last; 0: the flow has no groups */
};

/* The slow paths of the inline functions; not for direct use. */
DFI_API int dfi_source_push_slow(struct dfi_source *source, const void *tuple);
DFI_API int dfi_source_push_to_slow(
    struct dfi_source *source, uint32_t target, const void *tuple);
DFI_API int dfi_source_lane_full(struct dfi_source *source, uint32_t target);
DFI_API int dfi_source_choose_to_push(
    struct dfi_source *source, uint64_t targets);

/*
 * The tuples from lane->next to next are there: whether dfi_source_lane_full()
 * is due. Who sees the new position (acquire) sees the tuples, and end is read
 * after it was stored; that is for a thread that lowers end and then makes all
 * others pass a barrier (membarrier(2)). On x86 the processor keeps the order
 * of stores, and the compiler is held to it without being told that memory
 * changes, so that positions stay in registers. Not for direct use.
 */
DFI_INLINE_PART int dfi_source_lane_advance(
    struct dfi_source_lane *lane, char *next)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	const struct dfi_source_lane *again = lane;

	/* A tuple of any size that begins there. */
	__asm__(""
		: "+r"(next)
		: "m"(*DFI_CAST(
		    const char(*)[1 << 30], DFI_CAST(void *, lane->next))));
	lane->next = next;
	__asm__("" : "+r"(again) : "m"(lane->next));
	return next >= again->end;
#else
	__atomic_store_n(&lane->next, next, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return next >= __atomic_load_n(&lane->end, __ATOMIC_RELAXED);
#endif
}

/* Push to a target that exists; not for direct use. */
DFI_INLINE_PART int dfi_source_push_lane(struct dfi_source *source,
    struct dfi_source_lane *lane, uint32_t target, const void *tuple)
{
	struct dfi_source_head *head = DFI_CAST(
	    struct dfi_source_head *, DFI_CAST(void *, source));
	size_t size = head->tuple_size;
	char *next = lane->next;

	dfi_copy_tuple(next, tuple, size);
	if (__builtin_expect(dfi_source_lane_advance(lane, next + size), 0))
		return dfi_source_lane_full(source, target);
	return 0;
}

/*
 * Copy a tuple into the ring of the given target. The caller may reuse the
 * tuple's memory at once. 0, or an error: -ERANGE: no such target.
 */
DFI_INLINE int dfi_source_push_to(
    struct dfi_source *source, uint32_t target, const void *tuple)
{
	struct dfi_source_head *head = DFI_CAST(
	    struct dfi_source_head *, DFI_CAST(void *, source));

	if (__builtin_expect(target >= head->n_targets, 0))
		return dfi_source_push_to_slow(source, target, tuple);
	return dfi_source_push_lane(
	    source, &head->lanes[target], target, tuple);
}

/*
 * In a replicate flow with groups: what follows goes to these targets,
 * whichever way it comes in; at first everything goes to all. Sends what is
 * buffered for another set, as a push that fills a segment does. A span that is
 * lent ends. 0, or an error: -EINVAL: the set is empty; -ERANGE: it has a bit
 * beyond the last target; -EPROTOTYPE: the flow has no groups; then the set
 * stays as it was.
 */
DFI_API int dfi_source_choose(struct dfi_source *source, uint64_t targets);

/*
 * Choose a set and push a tuple to it. Errors of both.
 */
DFI_INLINE int dfi_source_push_set(
    struct dfi_source *source, uint64_t targets, const void *tuple)
{
	struct dfi_source_head *head = DFI_CAST(
	    struct dfi_source_head *, DFI_CAST(void *, source));
	int ret;

	if (__builtin_expect(targets != head->targets || !targets, 0)) {
		ret = dfi_source_choose_to_push(source, targets);
		if (ret < 0)
			return ret;
	}
	return dfi_source_push_lane(source, &head->only, 0, tuple);
}

/*
 * Route a tuple and copy it into its target's ring. The caller may reuse the
 * tuple's memory at once. 0, or an error: -EPROTOTYPE: the routing of a shuffle
 * flow is DFI_ROUTE_DIRECT; -ERANGE: the routing function named no target.
 */
DFI_INLINE int dfi_source_push(struct dfi_source *source, const void *tuple)
{
	struct dfi_source_head *head = DFI_CAST(
	    struct dfi_source_head *, DFI_CAST(void *, source));
	uint64_t key, copy[DFI_SMALL_TUPLE / 8];
	const void *address;
	uint32_t target;

	if (__builtin_expect(head->inline_routing == DFI_INLINE_ONE, 1))
		return dfi_source_push_lane(source, &head->only, 0, tuple);
	address = dfi_tuple_address(
	    tuple, copy, DFI_KNOWN_SIZE(tuple), head->tuple_size);
	if (head->inline_routing != DFI_INLINE_HASH64)
		return dfi_source_push_slow(source, address);
	memcpy(&key, DFI_CAST(const char *, address) + head->key_offset,
	    sizeof(key));
	target = dfi_hash64_partition(key, head->n_targets);
	return dfi_source_push_lane(
	    source, &head->lanes[target], target, tuple);
}

/*
 * Route and copy n tuples that lie one behind the other. Returns how many were
 * taken: n, or with DFI_NONBLOCK the length (> 0) of the prefix for which there
 * was room; a negative error if none was taken. An error after a prefix was
 * taken comes with the next call. After -EPIPE the first tuple is the one that
 * its target doesn't want: go on behind it. n is at most INT32_MAX, and tuples
 * not NULL unless n is 0 (-EINVAL). -EPROTOTYPE, -ERANGE as dfi_source_push():
 * the first tuple is the one that has no target.
 */
DFI_API int dfi_source_push_batch(
    struct dfi_source *source, const void *tuples, uint32_t n);

/*
 * The same, all to one target, as dfi_source_push_to() does; in a replicate
 * flow DFI_ALL_TARGETS, or with groups the set that was chosen last. -ERANGE:
 * no such target.
 */
DFI_API int dfi_source_push_batch_to(
    struct dfi_source *source, uint32_t target, const void *tuples, uint32_t n);

/* Room in a target's ring, lent to the caller to build tuples in. */
struct dfi_span {
	void *tuples;   /* one behind the other */
	uint32_t count; /* how many fit */
	uint32_t target;
};

/*
 * Lend the free rest of the target's open segment: at least one tuple. Valid
 * until the next call on this source, and not in a forked child. To write
 * nothing, don't commit.
 * 0, or an error: -ERANGE: no such target.
 */
DFI_API int dfi_source_claim(
    struct dfi_source *source, uint32_t target, struct dfi_span *span);

/*
 * The same with room for at least n tuples, or nothing: for messages of several
 * tuples, which lie in one segment then, so that the target gets them in one
 * batch, and -EAGAIN never cuts one. Sends the open segment, if the rest of it
 * has less room. -EMSGSIZE: a segment never has room for n; the text says for
 * how many it has. That is 1 in flows for latency, and in those whose windows
 * end by themselves. -EINVAL: n is 0. -ERANGE: no such target.
 */
DFI_API int dfi_source_claim_n(struct dfi_source *source, uint32_t target,
    uint32_t n, struct dfi_span *span);

/*
 * Send the first count tuples of the span that the last dfi_source_claim() or
 * dfi_source_claim_n() lent. 0, or an error: -EINVAL: the span is not that one,
 * or count is larger than span->count.
 */
DFI_API int dfi_source_commit(
    struct dfi_source *source, const struct dfi_span *span, uint32_t count);

/*
 * The same by a source that has more to send at once, as MSG_MORE says it to a
 * socket. Over RDMA a segment that is full may then wait for three more, so
 * that one call of the driver sends them all. What waits goes out with a
 * dfi_source_commit(), dfi_source_push_batch() or dfi_source_flush() that
 * succeeds, with dfi_source_close(), and before any call waits for room or
 * returns -EAGAIN or -EPIPE. So commit the last span without more, or flush:
 * dfi_source_push() and cursors don't send it. Else it is the same.
 */
DFI_API int dfi_source_commit_more(
    struct dfi_source *source, const struct dfi_span *span, uint32_t count);

/*
 * A cursor: a target's open segment held in registers, for a run of pushes to
 * one target. Keep it in a local variable. Between open and close no other call
 * may use the source. It does not survive fork() into the child (context.h).
 *
 *	struct dfi_source_cursor c =
 *	    dfi_source_cursor_open(source, 0, sizeof(tuples[0]));
 *	for (i = 0; i < n; i++)
 *		if (dfi_source_cursor_push(&c, &tuples[i], sizeof(tuples[i])))
 *			break;
 *	ret = dfi_source_cursor_close(c);
 *
 * The inline function's slow path takes and returns the cursor by value, so
 * that its address never escapes and it can live in registers.
 */
struct dfi_source_cursor {
	char *next;
	char *end;
	struct dfi_source *source;
	uint32_t lane;
	int32_t status; /* 0, or the error of the last push */
};

/* Its slow path; not for direct use. */
DFI_API struct dfi_source_cursor dfi_source_cursor_slow(
    struct dfi_source_cursor cursor);

/*
 * Open a cursor on a target, for tuples of size bytes. Check .status only if a
 * wrong argument is possible: pushes do nothing once it is set, and close
 * returns it. -ERANGE: no such target. -EINVAL: size is not the flow's tuple
 * size.
 */
DFI_API struct dfi_source_cursor dfi_source_cursor_open(
    struct dfi_source *source, uint32_t target, size_t size);

/*
 * Copy a tuple into the cursor's target. size is the one that the cursor was
 * opened with; write it as a constant. 0, or an error, which is also in
 * .status: then the tuple was not taken; after -EAGAIN, -ETIMEDOUT and -EINTR
 * it may be tried again.
 */
DFI_INLINE int dfi_source_cursor_push(
    struct dfi_source_cursor *cursor, const void *tuple, size_t size)
{
	if (__builtin_expect(cursor->next == cursor->end, 0)) {
		*cursor = dfi_source_cursor_slow(*cursor);
		if (cursor->next == cursor->end)
			return cursor->status;
	}
	if (size <= DFI_SMALL_TUPLE)
		dfi_copy_small(cursor->next, tuple, size);
	else
		dfi_copy_lines(cursor->next, tuple, size);
	cursor->next += size;
	return 0;
}

/*
 * Give the segment back to the source. A full one is sent; a partial one stays
 * open as after dfi_source_push(). Returns the cursor's .status.
 */
DFI_API int dfi_source_cursor_close(struct dfi_source_cursor cursor);

#ifdef __cplusplus
}
#endif

#endif

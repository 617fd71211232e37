/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources: where tuples enter a flow. push.h has the calls that push.
 *
 * A source belongs to one thread at a time; handing it to another thread needs
 * the application's own synchronisation. Tuples are built in the target's ring,
 * in segments. A bandwidth flow sends a segment when it is full, on
 * dfi_source_flush(), on close, and after linger_us if that is set. A latency
 * flow sends each tuple at once.
 *
 * When the target's ring is full, a call waits (enum dfi_wait) as long as the
 * target lives, at most stall_timeout_ms if that is set. With DFI_NONBLOCK it
 * returns -EAGAIN instead and has taken nothing.
 *
 * Errors of all calls that move tuples, beside those of error.h:
 *   -ECONNRESET  a target died, or closed before the end of the flow; the text
 *                names it
 *   -EBADMSG     a target's ring makes no sense; the text names both ends
 *   -ECANCELED   some thread has called dfi_source_abort()
 *   -ETIMEDOUT   the ring stayed full for stall_timeout_ms; not sticky
 *   -EINTR       dfi_source_interrupt() was called; not sticky
 *   -EPIPE       the target has cancelled (dfi_target_cancel()): the tuple, and
 *                what was buffered for it, is dropped. Not sticky: the source
 *                goes on, and its close returns 0 if the others get everything
 *   -EBUSY       a cursor is open, or, in debug builds, another thread is in a
 *                call, which the log has as a fault; not sticky
 *   -EINVAL, -ERANGE, -EPROTOTYPE, -EMSGSIZE  an argument is wrong, such as a
 *                target that does not exist; nothing was taken; not sticky. A
 *                tuple that is NULL is undefined
 * Other errors, except -EBADF and -EOWNERDEAD, are sticky: later calls and
 * dfi_source_close() return the same.
 * A push that was refused (-EAGAIN, -ETIMEDOUT, -EINTR) makes the close fail
 * with its error, until a push or claim for that target finds room, or a mark
 * or flush that needed it. A push, claim or commit with a wrong argument does
 * until the source takes another tuple. So a stream that was cut short never
 * looks whole: stop at the first error and check the close.
 *
 * A source of a flow of kind DFI_COMBINE may combine tuples before it sends
 * them (enum dfi_source_combining): when it has too many groups, on a flush,
 * linger_us after the first of them, and on close. So a flush waits for room or
 * fails, as a push does; a close waits, even with DFI_NONBLOCK, unless a flush
 * has returned 0 before.
 *
 * In a flow of kind DFI_REPLICATE a push is for all targets (DFI_ALL_TARGETS),
 * or for a target set, in which bit t stands for target t. It is taken for all
 * or for none. A segment takes room in all rings, and the fullest decides. A
 * target that cancels is left out; -EPIPE means that all, of the set, have. If
 * the flow is ordered and goes over RDMA, sending waits for the segment's
 * position (docs/replicate.md): with stall_timeout_ms or DFI_NONBLOCK, flush
 * until that returns 0, or linger.
 *
 * A tuple that ends a window (window_tuples in flow.h) needs room in each
 * target's ring: -EAGAIN and -ETIMEDOUT may be of any target.
 */
#ifndef DFI_SOURCE_H
#define DFI_SOURCE_H

#include <stdint.h>
#include <dfi/context.h>
#include <dfi/schema.h>

DFI_BEGIN_DECLS

struct dfi_source;

/* The target of a push in a flow of kind DFI_REPLICATE: no target's number. */
#define DFI_ALL_TARGETS UINT32_MAX

struct dfi_source_attr {
	uint32_t size;
	uint32_t flags;                  /* DFI_NONBLOCK, DFI_EVENTS */
	const struct dfi_schema *schema; /* what the caller pushes; checked
					    against the flow's if given */
	/*
	 * For DFI_ROUTE_FUNCTION: the target of a tuple. Called by the thread
	 * that pushes, with route_arg. A number >= n_targets is -ERANGE.
	 */
	uint32_t (*route)(void *arg, const void *tuple, uint32_t n_targets);
	void *route_arg;
	uint32_t open_timeout_ms;  /* default the context's */
	uint32_t stall_timeout_ms; /* default 0: wait while the target lives */
	uint32_t wait;             /* enum dfi_wait */
	uint32_t close_timeout_ms; /* default 0: see dfi_source_close() */
	/*
	 * For DFI_BANDWIDTH: microseconds from a segment's first tuple, or from
	 * when a cursor or span gives it back, until the control thread sends
	 * it though it is not full, as soon as that runs and the ring has room.
	 * A ring then holds fewer tuples: a partial segment takes the place of
	 * a full one. 0: as DFI_LINGER_US, whose 0 is never. DFI_NO_LINGER:
	 * never. Takes one file a context. Open flows with partitions or replay
	 * have a thread of their own for it, others refuse it: -EOPNOTSUPP.
	 */
	uint32_t linger_us;
	uint32_t reserved;
	/*
	 * For DFI_ROUTE_FUNCTION in a replicate flow: a tuple's target set,
	 * called as route is. An empty set is -EINVAL, a bit beyond the last
	 * target -ERANGE.
	 */
	uint64_t (*route_set)(void *arg, const void *tuple, uint32_t n_targets);
	/*
	 * An open source of the same context: over a network, this one uses its
	 * connections, as do all that share with either. The application
	 * promises that one thread at a time uses them all, as if they were one
	 * source, until they are closed. If a connection breaks, all of them
	 * that write to its process fail (docs/endpoints.md, "Sources that
	 * share connections"). -EOPNOTSUPP: one lingers, or is of an open flow.
	 * NULL: it has its own.
	 */
	struct dfi_source *share_with;
};
#define DFI_NO_LINGER UINT32_MAX
#define DFI_SOURCE_ATTR_INIT DFI_INIT(struct dfi_source_attr)

/*
 * Attach as source number index (0 to n_sources - 1) of a flow; attr NULL means
 * all defaults. Waits for the flow and all its targets, at most
 * open_timeout_ms: a thread that is also a target opens the target first. Of an
 * open flow see open_flow.h, "Opening". Any thread. The caller closes *source
 * with dfi_source_close().
 *
 * Errors are also those of the registry and of RDMA. -ERANGE, -EEXIST,
 * -EPROTOTYPE: no such index, it is or was taken, another schema. -ETIMEDOUT,
 * -ECONNRESET: a target is missing, or it or the flow's creator is gone. Others
 * and what a failure leaves: docs/endpoints.md ("Attaching").
 */
DFI_API int dfi_source_open(struct dfi *dfi, const char *flow, uint32_t index,
    const struct dfi_source_attr *attr, struct dfi_source **source);

/*
 * End the stream, with what is buffered and the number of tuples, and free the
 * source in any case. Waits for room for what it has combined, and over RDMA
 * until all has arrived (docs/endpoints.md, "Closing"), at most
 * close_timeout_ms if that is not 0. Owner thread only.
 *
 * If the stream is not whole (an error, a refused push, an open cursor, a
 * target that is gone), it returns the first such error, and targets get
 * -ECANCELED. -ETIMEDOUT: the end was sent and may have arrived, or there was
 * no room in time (then targets get -ECANCELED).
 */
DFI_API int dfi_source_close(struct dfi_source *source);

/*
 * Give up: the call in which the owner waits, and all later ones, return
 * -ECANCELED, except pushes that go into an open segment. The owner then closes
 * the source; targets get -ECANCELED after what was sent. Frees nothing, never
 * waits for a peer. Any thread, any number of times, also while
 * dfi_source_close() runs, which then ends the stream either way, and after it
 * (context.h). Async-signal-safe.
 */
DFI_API void dfi_source_abort(struct dfi_source *source);

/*
 * End the owner's wait with -EINTR (context.h, "Signals"), but not that of
 * dfi_source_close(). Any thread. Async-signal-safe.
 */
DFI_API void dfi_source_interrupt(struct dfi_source *source);

/*
 * Send what is buffered for all targets: 0, or the source's hard error. Waits
 * only for room if the source combines, and in an ordered flow for a segment's
 * position, over RDMA or while the view of an open flow changes; then it
 * returns the errors of a push except -EPIPE. Owner thread only.
 */
DFI_API int dfi_source_flush(struct dfi_source *source);

/*
 * A descriptor to poll after a push, claim, mark or flush returned -EAGAIN, for
 * room at a target that refused (context.h, "Polling"), or dfi_source_event(),
 * for an event. A thread that is source
 * and target of flows that may be full uses DFI_NONBLOCK on both, consumes when
 * a push is refused, and polls both.
 */
DFI_API int dfi_source_fd(struct dfi_source *source);

/* What a source has done so far. Owner thread only. */
struct dfi_source_stats {
	/*
	 * Sent, of a replicate flow once for all targets. Of a source that
	 * combines: tuples sent or combined, and bytes sent.
	 */
	uint64_t tuples, bytes;
	uint64_t segments; /* sent, partial ones included */
	uint64_t partial_segments;
	uint64_t stalls;   /* waits for a full ring or a segment's position */
	uint64_t stall_ns; /* in those that outlast spinning */
	uint64_t polls, yields, sleeps; /* in these waits */
	/* Waits of a second (log.h), also where dfi_source_fd() is polled. */
	uint64_t long_stalls;
	/*
	 * Bytes of tuples written in this process: once where each is built,
	 * and once for each copy of it to a ring. A device's reads don't count.
	 */
	uint64_t copied_bytes;
	/* Tuples that were combined, and partial aggregates sent of them. */
	uint64_t combined_tuples, records;
	/*
	 * How often combining did not pay and was given up for a while for a
	 * target (DFI_COMBINING_ADAPTIVE); logged the first time, level info.
	 */
	uint64_t combining_stops;
};
DFI_API void dfi_source_query(
    const struct dfi_source *source, struct dfi_source_stats *stats);

DFI_END_DECLS

#endif

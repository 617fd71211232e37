/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Combiners: the inner nodes of the tree of a combiner flow (fan_in in flow.h).
 * docs/combine.md ("Trees") has the tree's shape, and what failures do.
 *
 * A combiner takes what its inputs, at most fan_in sources or combiners, send,
 * folds it into a table of groups, and sends a partial aggregate of each to the
 * group's target, or to the combiner above, when a window or the flow ends.
 *
 * The application opens each of dfi_flow_info.n_combiners once, on any node,
 * and runs it on a thread of its own. Opening waits for what it sends to: a
 * thread that opens several opens targets first, then combiners by falling
 * numbers, then sources. A combiner belongs to one thread at a time.
 *
 * A source that dies or aborts ends the flow for all: the combiner fails with
 * -ECONNRESET or -ECANCELED, and its close tells targets. A combiner that dies
 * gives -ECONNRESET to its sources and targets. One that is closed before its
 * sources have ended gives -ECONNRESET to sources, -ECANCELED to targets. If a
 * source's close returns 0, its tuples are in its combiner's rings; if the
 * combiner's does, targets have all. Targets that cancel are left out.
 */
#ifndef DFI_COMBINER_H
#define DFI_COMBINER_H

#include <stdint.h>
#include <dfi/context.h>

DFI_BEGIN_DECLS

struct dfi_combiner;

struct dfi_combiner_attr {
	uint32_t size;
	uint32_t flags;            /* DFI_NONBLOCK */
	uint32_t open_timeout_ms;  /* default the context's; also for its peers
				      to attach: inputs, and the target or
				      combiner above */
	uint32_t stall_timeout_ms; /* default 0: none while peers live */
	uint32_t close_timeout_ms; /* as in dfi_source_attr */
	uint32_t wait;             /* enum dfi_wait */
	/*
	 * Groups it has room for; 0: the flow's max_groups. When there are more
	 * it sends what it has and begins anew, whatever when_full says: that
	 * costs bytes, and changes no result.
	 */
	uint64_t max_groups;
};
#define DFI_COMBINER_ATTR_INIT DFI_INIT(struct dfi_combiner_attr)

/*
 * Attach as combiner number index of a flow, and reserve a ring for each of its
 * inputs. Waits for the flow, and for what the combiner sends to, at most
 * open_timeout_ms. attr NULL means all defaults. The caller closes *combiner
 * with dfi_combiner_close(). Any thread.
 *
 * Errors are those of dfi_source_open() and dfi_target_open(). -EPROTOTYPE:
 * also, the flow has no fan_in. -ERANGE: no such number. -EEXIST: it is, or has
 * been, attached. If memory or the registry fails late, targets may have been
 * told of the combiner: they get -ECANCELED.
 */
DFI_API int dfi_combiner_open(struct dfi *dfi, const char *flow, uint32_t index,
    const struct dfi_combiner_attr *attr, struct dfi_combiner **combiner);

/*
 * Take, combine and send, until all inputs have ended and all is sent, or all
 * targets have cancelled: 0, after which dfi_combiner_close() ends the stream.
 * Waits for inputs and room; with DFI_NONBLOCK it returns -EAGAIN instead: call
 * again when dfi_combiner_fd() is readable. Owner thread only.
 *
 * -ECONNRESET, -ECANCELED, -EBADMSG, -ENOMEM: as in target.h and source.h;
 * sticky. -ETIMEDOUT: nothing came, or no room, for stall_timeout_ms, or an
 * input has not attached within open_timeout_ms. -EINTR:
 * dfi_combiner_interrupt() was called. After these two the next call goes on.
 * -EBUSY: in debug builds, another thread is in a call.
 */
DFI_API int dfi_combiner_run(struct dfi_combiner *combiner);

/* A descriptor to poll after -EAGAIN (context.h, "Polling"). */
DFI_API int dfi_combiner_fd(struct dfi_combiner *combiner);

/*
 * Give up: the run in which the owner waits, and later ones, return -ECANCELED,
 * unless one has returned 0: then only the close does. The owner then closes
 * the combiner; targets get -ECANCELED, sources -ECONNRESET. Frees nothing,
 * never waits for a peer. Any thread, any number of times, also while and after
 * the combiner is closed (context.h). Async-signal-safe.
 */
DFI_API void dfi_combiner_abort(struct dfi_combiner *combiner);

/* End a run's wait with -EINTR (context.h, "Signals"). Any thread. */
DFI_API void dfi_combiner_interrupt(struct dfi_combiner *combiner);

/*
 * Leave the flow and free the combiner. After dfi_combiner_run() has returned 0
 * it ends the stream and waits as dfi_source_close() does: 0, -ECONNRESET or
 * -ETIMEDOUT. Else targets are told that the stream is not whole, and because
 * of which source or combiner below; it returns the first hard error, or
 * -ECANCELED. Owner thread only.
 */
DFI_API int dfi_combiner_close(struct dfi_combiner *combiner);

/* What a combiner has done so far. Owner thread only. */
struct dfi_combiner_stats {
	/* Taken of its inputs; partial aggregates count as what they fill. */
	uint64_t tuples, bytes, segments;
	/* Partial aggregates that it has sent. */
	uint64_t records, record_bytes, record_segments;
	uint64_t windows; /* that have ended */
	uint64_t early;   /* times that it had no room for more groups */
	uint64_t stalls, stall_ns;           /* waits for inputs */
	uint64_t send_stalls, send_stall_ns; /* waits for room */
};
DFI_API void dfi_combiner_query(
    const struct dfi_combiner *combiner, struct dfi_combiner_stats *stats);

DFI_END_DECLS

#endif

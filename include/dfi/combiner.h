/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Combiners: the inner nodes of the tree of a combiner flow (fan_in in flow.h).
 *
 * A combiner takes what its inputs send, which are at most fan_in sources or
 * combiners, folds it into a table of groups, and sends a partial aggregate of
 * each group to the target that the group belongs to, or to the combiner above,
 * when a window or the flow ends. So what arrives there is about what one
 * source's results would be, however many sources there are.
 *
 *	struct dfi_combiner *combiner;
 *
 *	ret = dfi_combiner_open(dfi, "totals", 0, NULL, &combiner);
 *	if (ret < 0)
 *		return ret;
 *	ret = dfi_combiner_run(combiner);
 *	err = dfi_combiner_close(combiner);
 *
 * The application opens each combiner once, on whatever node it likes, such as
 * that of the first of its sources, and runs it on a thread of its own; the
 * library starts none. dfi_flow_info.n_combiners says how many there are.
 * Combiners 0 to ceil(n_sources / fan_in) - 1 take from sources: number c from
 * sources c * fan_in to (c + 1) * fan_in - 1. If these combiners are more than
 * fan_in, those of the next level take from them in the same way, and so on;
 * they have the numbers behind. The target, or all of several, takes from the
 * last level.
 *
 * Opening waits for what a combiner sends to: the flow's targets, or the
 * combiner above; and a source waits for its combiner. So a thread that opens
 * several opens targets first, then combiners by falling numbers, then sources.
 *
 * A combiner belongs to one thread at a time, as a source or target does. Of
 * these it is both, and follows their rules:
 *   - A source that dies ends the flow for all: the combiner fails with
 *     -ECONNRESET, and when it is closed, targets get the same error, which
 *     names that source and the combiner that says so, with its process; after
 *     results of windows that all had ended before. One that aborts does so
 *     with -ECANCELED. The combiner's other sources get -ECONNRESET.
 *   - A combiner that dies is to its targets a source that died, and to its
 *     sources a target that did: -ECONNRESET, with its name. So is one that is
 *     closed before its sources have ended, but that targets get -ECANCELED.
 *   - A target that cancels is left out, and its groups are dropped; sources
 *     aren't told. If all have cancelled, so does the combiner.
 *   - Whoever closes a source cleanly knows that what it pushed is in the rings
 *     of its combiner; of the targets' rings, the combiner's close says so.
 */
#ifndef DFI_COMBINER_H
#define DFI_COMBINER_H

#include <stdint.h>
#include <dfi/context.h>
#include <dfi/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dfi_combiner;

struct dfi_combiner_attr {
	uint32_t size;
	uint32_t flags;            /* DFI_NONBLOCK */
	uint32_t open_timeout_ms;  /* default the context's; also for what it
				      sends to, and for its inputs to attach */
	uint32_t stall_timeout_ms; /* default 0: wait while inputs live, and
				      what it sends to */
	uint32_t close_timeout_ms; /* as in dfi_source_attr */
	uint32_t wait;             /* enum dfi_wait */
	/*
	 * How many groups it has room for; 0: the flow's max_groups. When there
	 * are more, it sends what it has and begins anew: that costs bytes, but
	 * changes no result, and is no error, whatever when_full says. It is
	 * the targets that have too many groups, or not.
	 */
	uint64_t max_groups;
};
#define DFI_COMBINER_ATTR_INIT DFI_INIT(struct dfi_combiner_attr)

/*
 * Attach as combiner number index of a flow, and reserve a ring for each of its
 * inputs. Waits for the flow, and for what the combiner sends to, at most
 * open_timeout_ms. attr NULL means all defaults. The caller closes *combiner
 * with dfi_combiner_close().
 *
 * -EPROTOTYPE: the flow has no fan_in. -ERANGE: there is no such number.
 * -EEXIST: it is attached already, or has been. -EINVAL: an argument is not
 * valid. Else as dfi_source_open() and dfi_target_open(). If a target was told
 * of the combiner before its rings could not be had, which is when memory or
 * the registry fails, that target gets -ECANCELED.
 */
DFI_API int dfi_combiner_open(struct dfi *dfi, const char *flow, uint32_t index,
    const struct dfi_combiner_attr *attr, struct dfi_combiner **combiner);

/*
 * Take, combine and send, until all inputs have ended and all is sent: 0; or
 * until nobody wants anything any more, as all targets have cancelled: 0, too.
 * Then, and only then, dfi_combiner_close() tells that the stream is whole.
 * Owner thread only.
 *
 * Waits for inputs and for room where it sends (see enum dfi_wait). With
 * DFI_NONBLOCK it goes on as long as it can without, and returns -EAGAIN;
 * call again when dfi_combiner_fd() is readable.
 *
 * -ECONNRESET, -ECANCELED, -EBADMSG, -ENOMEM: as of dfi_target_consume_batch()
 * and dfi_source_push(); sticky. -ETIMEDOUT: nothing came, or there was no
 * room, for stall_timeout_ms, or an input has not attached within
 * open_timeout_ms; -EINTR: dfi_combiner_interrupt() was called; both are not
 * sticky: the next call goes on. -EBUSY: in debug builds,
 * another thread is inside a call. -EOWNERDEAD: the handle was inherited over
 * fork().
 */
DFI_API int dfi_combiner_run(struct dfi_combiner *combiner);

/*
 * A descriptor for poll(), epoll and the like, of a combiner with DFI_NONBLOCK.
 * It is readable from the start and until dfi_combiner_run() has returned
 * -EAGAIN; then again as soon as that can go on. It may be readable for
 * nothing. Don't read it; the combiner closes it. More calls return the same
 * one. -EINVAL: the combiner has not DFI_NONBLOCK. -EMFILE, -ENOMEM, -EIO.
 */
DFI_API int dfi_combiner_fd(struct dfi_combiner *combiner);

/*
 * Give up: a run in which the owner waits, and all later ones, return
 * -ECANCELED, unless one has returned 0 before: then only the close does. Then
 * the owner closes the combiner: targets get -ECANCELED, and sources
 * -ECONNRESET. Frees nothing and never waits for a peer. Any thread, any number
 * of times, as dfi_source_abort(). Async-signal-safe.
 */
DFI_API void dfi_combiner_abort(struct dfi_combiner *combiner);

/*
 * Have the run in which the owner waits, or else the next one that would wait,
 * return -EINTR, once. Async-signal-safe; any thread, as dfi_combiner_abort().
 */
DFI_API void dfi_combiner_interrupt(struct dfi_combiner *combiner);

/*
 * Leave the flow and free the combiner. After dfi_combiner_run() has returned 0
 * it ends the stream, and waits, as dfi_source_close() does, over RDMA until
 * all has arrived; 0, or -ECONNRESET, -ETIMEDOUT. Else the stream is not whole:
 * targets are told so, and of which source or combiner below that came, if it
 * did; and the first hard error is returned, or -ECANCELED if there was none.
 * Closing it again is -EBADF, NULL is 0, and neither does anything. Owner
 * thread only.
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

#ifdef __cplusplus
}
#endif

#endif

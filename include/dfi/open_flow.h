/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open flows: endpoints come, go, die and return, and the flow goes on
 * (docs/open-flows.md has the rules, and what is refused). n_sources and
 * n_targets of the flow are the numbers of its seats. One endpoint at a time
 * holds a seat, by its number or any that is free; when it has closed or died,
 * the seat is free for the next, and nothing of the one is delivered as the
 * other's.
 *
 * Opening. A source waits for the flow, and for those who must be there
 * (min_sources, min_targets), at most open_timeout_ms. With DFI_NONBLOCK it
 * waits for the flow only: dfi_source_open() returns when it has its seat,
 * pushes return -EAGAIN until it may push, and then dfi_source_fd() is
 * readable. A target waits for the flow only. Both need the registry's answers
 * in any case, and wait for no peer, also for none that is stopped.
 *
 * Any thread may make these calls. They return errors of the registry as well.
 */
#ifndef DFI_OPEN_FLOW_H
#define DFI_OPEN_FLOW_H

#include <stdint.h>
#include <dfi/export.h>

DFI_BEGIN_DECLS

struct dfi;
struct dfi_source;
struct dfi_target;

enum dfi_membership {
	DFI_MEMBERS_CLOSED = 0, /* each endpoint attaches once (flow.h) */
	DFI_MEMBERS_OPEN,
};

/* What the death of an endpoint means for those that it shares rings with. */
enum dfi_on_loss {
	/* -ECONNRESET, as in a closed flow. */
	DFI_ON_LOSS_FAIL = 0,
	/*
	 * They go on. What a source had sent is consumed. What a target had
	 * not given back is dropped, and counts in dfi_source_dropped(). If
	 * both live and their connection breaks, the target loses its seat:
	 * its calls return -ESTALE after what has come, and it may open again.
	 */
	DFI_ON_LOSS_DROP,
	/*
	 * They go on, and no tuple is missing: see replay.h. For shuffle flows;
	 * targets need DFI_EVENTS. Sources take tuples by pushes and batches,
	 * and not by spans and cursors.
	 */
	DFI_ON_LOSS_REPLAY,
};

/*
 * Members for open flows; all 0 in closed ones. In an open flow of kind
 * DFI_REPLICATE each target gets the tuples of a source from that segment on at
 * which the source has taken it over; the event DFI_JOINED says how many came
 * before (event.h). If it is ordered (replicate.ordered), all targets that are
 * attached deliver the same, also when sources and targets are lost: for up to
 * 1000 seats of a role; its method is DFI_REPLICATION_NAIVE, also by default.
 *
 * A shuffle flow that routes by keys has partitions: its routing functions
 * (route.h) choose one, and a table says which target owns it. Range routing
 * has partitions - 1 splits, radix routing at most 2^radix_bits partitions.
 * When targets come or go, as few move as balance. Tuples of one that moves
 * wait at their source until its next owner has it; others flow. When
 * hold_bytes are used up, a push waits as for a full ring.
 *
 * In one of kind DFI_COMBINE sources come and go, and all targets stay:
 * docs/combine.md ("Open combiner flows"). combine.window_tuples is
 * DFI_WINDOW_MARKED, and there is no tree (combine.fan_in 0).
 */
struct dfi_open_attr {
	uint32_t membership;  /* enum dfi_membership */
	uint32_t min_sources; /* attached before a source may push */
	/* The same; 0: 1, with DFI_COMBINE all; or DFI_NO_TARGETS. */
	uint32_t min_targets;
	uint32_t on_loss; /* enum dfi_on_loss */
	/*
	 * 0: never. Else an endpoint that holds up others for so long, stopped
	 * or slow, is evicted: it loses its seat, and its calls return -ESTALE
	 * after what has come. It may open again. on_loss says what becomes of
	 * what it has not given back or acknowledged; it is not
	 * DFI_ON_LOSS_FAIL. Evicted are
	 *   - a target whose ring is full, but not of a combiner flow; with
	 *     DFI_ROUTE_ANY only if a mark waits for it;
	 *   - in a hand-over of partitions a source of which nothing comes, in
	 *     half the time, and a target that does not release or take;
	 *   - in a combiner flow a source of which nothing comes while others
	 *     have ended the window;
	 *   - in an ordered flow a source that holds up the order, or in half
	 *     the time a change of view, then a target; and one that is to give
	 *     numbers, over libfabric.
	 */
	uint32_t evict_after_ms;
	uint32_t partitions; /* 0: the default below, or 2^radix_bits */
	uint64_t hold_bytes; /* of tuples that wait; 0: those of a ring */
	/* With DFI_ON_LOSS_REPLAY: the field of the input position; else NULL.
	 */
	const char *input_position;
	/*
	 * With DFI_ON_LOSS_REPLAY: how long a source that was lost may take to
	 * return, from when a target has consumed all that had come of it. Then
	 * it is given up: dfi_flow_give_up(). 0: for ever.
	 */
	uint32_t return_timeout_ms;
	uint32_t unused; /* 0 */
	/*
	 * With DFI_ON_LOSS_REPLAY: a directory of each source's host, in which
	 * it keeps what targets have given back and not acknowledged, in files
	 * that go with its process. So rings get room by giving tuples back,
	 * and acknowledgements may be as rare as the directory has space. A
	 * push without space returns the error of the file, such as -ENOSPC,
	 * and took nothing. What a lost target leaves there is taken back into
	 * memory. Acknowledgements come by the registry: without it
	 * no source can close. NULL: see dfi_target_ack().
	 */
	const char *spill_dir;
	uint64_t reserved[3]; /* 0 */
};

#define DFI_MAX_PARTITIONS 16384u
#define DFI_MAX_SPILL_DIR 255u /* bytes */
#define DFI_DEFAULT_PARTITIONS 256u
#define DFI_MAX_REPLAY_PARTITIONS 4096u /* with DFI_ON_LOSS_REPLAY */

/*
 * A source may push before any target is there: for a named seat -ENXIO, else
 * the push waits, or -EAGAIN, as it does when all targets have left.
 */
#define DFI_NO_TARGETS UINT32_MAX

/* The index of an open that takes any free seat. -EBUSY: there is none. */
#define DFI_ANY_SEAT UINT32_MAX

/*
 * Say that no more sources come. Targets end once those that are attached have
 * ended; a source that is opened later gets -ESHUTDOWN, and so do the calls of
 * one that waits for more sources (min_sources). Any number of times.
 * The removal of the flow says the same. -ENOENT: there is no such flow.
 * -EPROTOTYPE: it is not open. -EPERM: neither is it persistent, nor was it
 * created by this context.
 */
DFI_API int dfi_flow_finish(struct dfi *dfi, const char *name);

/*
 * Say which target's seat owns each of the n partitions of a flow, for now and
 * later; DFI_ANY_SEAT, and a seat that nobody holds: the library decides, as
 * without this call. owners NULL: it decides for all again. They move as when
 * targets come and go. -ENOENT: there is no such flow. -EPROTOTYPE: it has no
 * partitions. -EINVAL: n is not their number. -ERANGE: no such seat. -EPERM: as
 * dfi_flow_finish().
 */
DFI_API int dfi_flow_assign(
    struct dfi *dfi, const char *name, const uint32_t *owners, uint32_t n);

/*
 * With DFI_ON_LOSS_REPLAY: say that the source that was lost in this seat does
 * not return. Its targets get DFI_GIVEN_UP (event.h), and their watermarks wait
 * for it no more. The seat's next holder is a new source for them, also if it
 * goes on with the input. Before that, and without such a call, a seat waits
 * as open.return_timeout_ms says, or until dfi_flow_finish(). -EBUSY: somebody
 * holds the seat. -ENOENT: there is no such flow. -EPROTOTYPE: no replay.
 * -ERANGE: no such seat. -EPERM: as dfi_flow_finish().
 */
DFI_API int dfi_flow_give_up(
    struct dfi *dfi, const char *name, uint32_t source);

/* The number of the seat, in any flow. Owner thread only. */
DFI_API int dfi_source_seat(const struct dfi_source *source);
DFI_API int dfi_target_seat(const struct dfi_target *target);

/*
 * Set *n to the tuples that this source has sent or buffered for targets that
 * have since left or died, and that those had not given back. A target gives
 * segments back in quarters of its ring; when it closes, all but one that it
 * has begun. Over a network this is an upper bound. 0 in closed flows, and with
 * DFI_ON_LOSS_REPLAY. Owner thread only.
 */
DFI_API int dfi_source_dropped(const struct dfi_source *source, uint64_t *n);

/* What dfi_target_window_flags() says of a window. */
enum {
	/* A source was lost in it: some of its tuples may be missing. */
	DFI_WINDOW_LOST = 1,
	/* It has tuples of a source that came for a window which had ended. */
	DFI_WINDOW_LATE = 2,
};

/*
 * The flags of the window of which results were consumed last
 * (dfi_target_window()); 0 in closed flows. With DFI_FULL_EMIT, results given
 * early have what is known by then. Errors are those of dfi_target_window().
 * Owner thread only.
 */
DFI_API int dfi_target_window_flags(
    const struct dfi_target *target, uint32_t *flags);

/* Who holds a seat of an open flow. */
struct dfi_member_info {
	uint32_t role; /* DFI_ROLE_SOURCE or DFI_ROLE_TARGET (stats.h) */
	uint32_t seat;
	uint64_t incarnation; /* as in its events (event.h) */
	char node[64], host[64];
	uint32_t pid;
	uint32_t n_peers; /* with whom it has a ring that both have open */
	char peers[128];  /* ... "0, 2-5"; a long list ends in "..." */
	/*
	 * Of a target of a flow with partitions: those that the newest table
	 * gives it, and how many it has yet to take or to release.
	 */
	uint64_t epoch;
	uint32_t n_partitions, n_moving;
	char partitions[128];
	uint32_t leaving; /* 1: dfi_target_leave() */
	uint32_t unused;  /* 0 */
	uint64_t reserved[4];
};

/*
 * Call fn for each seat of an open flow that somebody holds, sources first, in
 * the order of seats. fn returns 0, or what ends the list. -ENOENT: there is no
 * such flow. -EPROTOTYPE: it is not open.
 */
DFI_API int dfi_member_list(struct dfi *dfi, const char *name,
    int (*fn)(void *arg, const struct dfi_member_info *info), void *arg);

DFI_END_DECLS

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target from inside:
 *
 *	target.c		opens and closes it
 *	consume.c		lends tuples
 *	intake.c		takes segments from the rings
 *	await.c			waits for them
 *	target_sources.c	knows what became of the sources
 *	target_status.c		knows what is wrong
 *	target_group.c		consumes from several targets
 *
 * What a kind of flow adds comes from the tables in kind.h, whose entries this
 * header and target.c alone call.
 */
#ifndef DFI_FLOWS_ENDPOINT_TARGET_H
#define DFI_FLOWS_ENDPOINT_TARGET_H

#include <stdbool.h>
#include <dfi/target.h>
#include "base/pace.h"
#include "base/notify.h"
#include "base/wait.h"
#include "buffers/multicast/receiver_ring.h"
#include "buffers/reader.h"
#include "flows/context/context.h"
#include "flows/descriptor/descriptor.h"
#include "flows/members/peers.h"
#include "flows/members/tombstone.h"
#include "kind.h"
#include "stall.h"
#include "stats.h"

/* The looks of a wait, and those of them that are at a network's queue. */
struct looks {
	uint32_t period;    /* passes over the rings between two; 0: none */
	uint32_t left;      /* of these */
	uint32_t at_once;   /* how many they are then */
	uint32_t in_memory; /* passes for segments alone, of who spins */
	uint32_t cost;      /* of a look of who spins, in cache lines */
};

struct dfi_target {
	struct dfi_target_head head; /* first: see dfi/target.h */
	/* For any thread to read: */
	_Atomic uint64_t segments, stalls, long_stalls;
	uint32_t magic;
	_Atomic uint32_t aborters; /* see handle.h */
	int status;                /* the first hard error */
	int lost; /* the next one, when all that came is consumed */
	_Atomic uint32_t user; /* HANDLE_CALL() */
	bool lends_segment;    /* of readers[head.source] */
	bool lends_batch;
	bool cursor_open;
	bool cancelled;           /* wants no more */
	bool cancel_told;         /* and the registry knows */
	_Atomic bool aborted;     /* by any thread */
	_Atomic bool interrupted; /* likewise: its next wait ends */
	bool prefetches; /* a segment's payload and footer are two lines */
	uint32_t n_readers;
	uint32_t n_open;   /* readers that have not ended */
	uint32_t n_held;   /* of these, held back (combine.h) */
	uint32_t current;  /* the ring in work */
	uint32_t in_a_row; /* segments taken from it without a break */
	bool has_gap;      /* gap is the one that was told last */
	struct dfi_gap gap;
	_Atomic uint64_t gaps, lost_segments; /* told; for any thread to read */
	bool dead_undrained;   /* a source is gone, but its ring isn't empty */
	uint32_t seen_changes; /* of sources.changes */
	uint32_t flags;
	uint32_t empty_polls; /* of a nonblocking handle */
	uint32_t open_timeout_ms;
	char status_text[ERROR_TEXT_SIZE];
	struct wait_policy wait;
	struct looks looks;
	struct pace pace;
	struct wait_time wait_time; /* deadline: for the sources to attach */
	struct notify *notify;      /* dfi_target_fd(), or NULL */
	struct dfi_target_group *group;
	struct reader *readers;
	const struct kind *kind;
	struct combiner *combiner; /* of a combiner flow, or NULL */
	struct merge *merge;       /* of an ordered flow, or NULL */
	struct shared_counter
	    *sequencer; /* of an ordered flow's target 0, or NULL */
	struct region *region;
	struct receiver_ring *cast; /* which writes its rings, or NULL */
	_Atomic bool knows_sources; /* sources is ready for the cast */
	uint64_t ring_memory;       /* counted towards the context's bound */
	char network_why[ENDPOINT_WHY_SIZE]; /* the region is not exported */
	struct dfi *dfi;
	struct flow flow;
	uint32_t index;
	struct peers sources;
	struct stats_entry stats;
	struct stall stall;
	uint32_t cause; /* of its failure, for the level above (tree.h), or 0 */
	/*
	 * Of a combiner's inputs: what it sends to, a change of which ends a
	 * wait, too; and how many changes were looked at. Else NULL.
	 */
	struct peers *above;
	uint32_t seen_above;
	struct tombstone tombstone; /* when it is closed */
};

_Static_assert(
    offsetof(struct dfi_target, magic) == HANDLE_MAGIC_OFFSET, "handle");
_Static_assert(
    offsetof(struct dfi_target, aborters) == HANDLE_ABORTERS_OFFSET, "handle");

/*
 * Attach to a flow, or a part of one, which it takes over, or frees if it
 * fails. attr is whole and valid; the caller keeps the context. What
 * dfi_target_open() says, except errors of its arguments.
 */
int dfi__target_open(struct dfi *dfi, const struct kind *kind,
    struct flow *flow, uint32_t index, const struct dfi_target_attr *attr,
    const struct wait_policy *wait, int64_t deadline,
    struct dfi_target **target);

int dfi__target_check_slow(const struct dfi_target *target);

/* The first line of each call on a target by its owner. */
#define TARGET_USER(target) \
	((target) && (target)->magic == TARGET_MAGIC ? &(target)->user : NULL)
#define TARGET_CALL(target, busy) HANDLE_CALL(TARGET_USER(target), busy)
#define TARGET_LAST_CALL(target, busy) \
	HANDLE_LAST_CALL(TARGET_USER(target), busy)
#define TARGET_SHARED(target)                              \
	dfi__handle_shared(call.other, "flow '%s': %s %u", \
	    (target)->flow.name, TARGET_ID(target))

/* "%s %u" of a target. */
#define TARGET_ID(target) flow_target_word(&(target)->flow), (target)->index

/* Whether those that a combiner sends to have changed. */
static inline bool target_is_called(const struct dfi_target *target)
{
	return unlikely(target->above != NULL) &&
	    peers_changes(target->above) != target->seen_above;
}

/* -ECANCELED, sticky: some thread has called dfi_target_abort(). */
int dfi__target_give_up(struct dfi_target *target);

/* Whether the owner is to give up; protects nothing. */
static inline bool target_aborted(const struct dfi_target *target)
{
	return unlikely(atomic_peek(&target->aborted));
}

/* Whether the owner is to return from a wait; protects nothing. */
static inline bool target_interrupted(const struct dfi_target *target)
{
	return unlikely(atomic_peek(&target->interrupted));
}

/* Make err, whose text was just set, sticky. */
int dfi__target_fail(struct dfi_target *target, int err);

/* The same of a ring that the reader found damaged. */
int dfi__target_damaged(struct dfi_target *target, uint32_t source, int err);

/* -EINTR, once for dfi_target_interrupt(). */
int dfi__target_interrupted(struct dfi_target *target);

/*
 * -ENODATA: the reader has passed a gap, which is told once; what it took up is
 * given back.
 */
int dfi__target_tell_gap(struct dfi_target *target, uint32_t source);

/*
 * Of the rings without a segment: has the source ended, or aborted, or is it
 * gone, which ends the flow (target->lost)? 0, or an error that ends it at
 * once.
 */
int dfi__target_check_sources(struct dfi_target *target);

/*
 * Give the consumed segment back and have the head lend the next one, of any
 * ring: 1, or 0 when no source has more but those that are held back, or an
 * error; -EAGAIN also when target_is_called(). The target has been checked.
 */
int dfi__target_input(struct dfi_target *target);

/* Give the segment in work back, if all of it was consumed. */
static inline int target_give_back(struct dfi_target *target)
{
	int ret;

	if (!target->lends_segment)
		return 0;
	target->lends_segment = false;
	target->head.next = target->head.end = NULL;
	ret = reader_release(&target->readers[target->head.source]);
	return ret < 0 ? dfi__target_fail(target, ret) : 0;
}

/* Lend what the application gets next, as dfi__target_input(). */
static inline int target_next(struct dfi_target *target)
{
	return unlikely(target->combiner != NULL)
	    ? target->kind->intake.next(target)
	    : dfi__target_input(target);
}

/* Whether there are results to lend. */
static inline bool target_has_results(const struct dfi_target *target)
{
	return target->combiner && target->kind->intake.ready(target);
}

/* A segment without tuples has come. */
static inline void target_passed(struct dfi_target *target, uint32_t source)
{
	if (target->combiner)
		target->kind->intake.passed(target, source);
}

/*
 * So many segments of the order were taken, or lost. The place of the first; 0
 * without an order.
 */
static inline uint64_t target_taken(struct dfi_target *target, uint32_t n)
{
	return unlikely(target->merge != NULL)
	    ? target->kind->intake.taken(target, n)
	    : 0;
}

/* The ring whose segment is next in the order; see struct intake_ops. */
static inline int target_find_in_order(
    struct dfi_target *target, uint32_t *ring)
{
	return target->kind->intake.find(target, ring);
}

static inline bool target_order_changed(const struct dfi_target *target)
{
	return unlikely(target->merge && target->kind->intake.changed(target));
}

static inline int target_check_order(const struct dfi_target *target)
{
	return unlikely(target->merge != NULL)
	    ? target->kind->intake.check(target)
	    : 0;
}

/* Something for the next consuming call to look at. */
bool dfi__target_ready(struct dfi_target *target);

/* Announce the target's owner for notices. Whether it had not been. */
bool dfi__target_announce(struct dfi_target *target, struct notify *notify);

/* For a waiter that is about to sleep; of a transport. */
void dfi__target_arm_network(void *arg);

/* Nobody wakes it any more. */
void dfi__target_withdraw(struct dfi_target *target);

/* Release the batch that is lent, for a caller that lost it. */
void dfi__target_take_back(struct dfi_target *target);

/* The target is closed: its group forgets it. */
void dfi__target_group_drop(struct dfi_target *target);

/* Nobody wakes: see struct wait_policy. */
bool dfi__target_is_silent(const struct dfi_target *target);

/* -EBUSY: what it lends already. */
int dfi__target_lends_already(const struct dfi_target *target);

/* Neither a batch nor a cursor is out (-EBUSY). */
static inline int target_check_lent(const struct dfi_target *target)
{
	return unlikely(target->lends_batch || target->cursor_open)
	    ? dfi__target_lends_already(target)
	    : 0;
}

/* The same, and the handle is one. */
int dfi__target_check_lent(const struct dfi_target *target);

/*
 * Tuples of the segment in work that were not given to the application; what
 * was combined, it has got.
 */
static inline uint64_t target_unread(const struct dfi_target *target)
{
	if (target->combiner)
		return 0;
	return (uint64_t)(target->head.end - target->head.next) /
	    target->head.tuple_size;
}

/* One line of the log, level info: what it has attached to, and how. */
void dfi__target_log_attached(const struct dfi_target *target);

/* The sticky error, with its text, or what is wrong with the handle. */
static inline int target_check(const struct dfi_target *target)
{
	if (likely(target && target->magic == TARGET_MAGIC && !target->status &&
		!target->cancelled && !target_aborted(target)))
		return 0;
	return dfi__target_check_slow(target);
}

#endif

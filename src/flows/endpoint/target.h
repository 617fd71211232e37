/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The implementation of a target:
 *
 *	target.c		opens and closes it
 *	consume.c		lends tuples
 *	intake.c		takes segments from the rings
 *	await.c			waits for them
 *	target_sources.c	reports what became of the sources
 *	target_status.c		reports its errors
 *	marks.c			its sources' marks, and the events that it has
 *	target_group.c		consumes from several targets
 *
 * The tables in kind.h have what a kind of flow adds. Only this header and
 * target.c call their entries.
 */
#ifndef DFI_FLOWS_ENDPOINT_TARGET_H
#define DFI_FLOWS_ENDPOINT_TARGET_H

#include <stdbool.h>
#include <dfi/target.h>
#include "base/pace.h"
#include "base/notify.h"
#include "base/wait.h"
#include "buffers/reader.h"
#include "flows/context/context.h"
#include "flows/descriptor/descriptor.h"
#include "flows/members/peers.h"
#include "flows/members/tombstone.h"
#include "kind.h"
#include "marks.h"
#include "stall.h"
#include "stats.h"

/* How often a wait looks at a network's queue, and not only at the rings. */
struct looks {
	uint32_t period;    /* passes over the rings between looks; 0: none */
	uint32_t left;      /* passes left until the next look */
	uint32_t at_once;   /* how many looks are then made in a row */
	uint32_t in_memory; /* passes of a spinning target that look for
			       segments only */
	uint32_t cost;      /* of a spinning target's look, in cache lines */
};

/*
 * At the sources: one is gone and its ring isn't empty, or an event is next.
 * For those that are idle: always, if some can be.
 */
enum {
	LOOK_AT_SOURCES = 1,
	LOOK_FOR_IDLE = 2
};

struct dfi_target {
	struct dfi_target_head head; /* first: see dfi/target.h */
	/* Any thread reads these: */
	_Atomic uint64_t segments, stalls, long_stalls;
	uint32_t magic;
	_Atomic uint32_t aborters; /* see handle.h */
	int status;                /* the first hard error */
	/*
	 * The next hard error, once all that has come is consumed. Set behind
	 * its text and the stops of the rings: target_lost().
	 */
	_Atomic int lost;
	_Atomic uint32_t user; /* HANDLE_CALL() */
	bool lends_segment;    /* of readers[head.source] */
	bool lends_batch;
	bool cursor_open;
	bool cancelled;           /* the owner wants no more tuples */
	bool cancel_published;    /* the registry knows that */
	_Atomic bool aborted;     /* by any thread */
	_Atomic bool interrupted; /* by any thread: its next wait ends */
	bool prefetches; /* a segment begins a line before its footer */
	uint32_t n_readers;
	uint32_t n_open; /* readers that have not ended */
	/* Of these, those held back (combine.h, marks.c). */
	uint32_t n_held;
	uint32_t current;  /* the ring that segments are taken from */
	uint32_t in_a_row; /* segments taken from it without a break */
	bool has_gap;      /* gap is the last one reported */
	struct dfi_gap gap;
	_Atomic uint64_t gaps, lost_segments; /* reported; any thread reads */
	uint8_t look_again;    /* before the next segment: LOOK_... */
	uint32_t seen_changes; /* the last of target_changes() */
	uint32_t flags;
	uint32_t empty_polls; /* of a nonblocking handle */
	int64_t ends_due;     /* see dfi__target_check_ends() */
	uint32_t open_timeout_ms;
	char status_text[ERROR_TEXT_SIZE];
	struct wait_policy wait;
	struct looks looks;
	struct pace pace;
	struct wait_time wait_time; /* deadline: for the sources to attach */
	struct notify *notify;      /* dfi_target_fd(), or NULL */
	struct dfi_target_group *group;
	struct reader *readers;
	struct target_marks *marks; /* NULL in combiner flows */
	const struct kind *kind;
	void *state;               /* of the kind, which alone uses it */
	struct combiner *combiner; /* of a combiner flow; kinds use it */
	bool gives_results;        /* intake_ops.next() lends tuples */
	bool in_order;             /* intake_ops.find() chooses the next ring */
	struct shared_counter *sequencer; /* of target 0, or NULL */
	struct region *region;
	const struct multicast_address
	    *datagrams;             /* of its receiver; or NULL */
	_Atomic bool knows_sources; /* the kind may read sources */
	uint64_t ring_memory;       /* counted towards the context's bound */
	/* Why some network, or each, does not reach it; or "". */
	char network_why[ENDPOINT_WHY_SIZE];
	struct dfi *dfi;
	struct flow flow;
	uint32_t index;
	struct peers sources;
	struct stats_entry stats;
	struct stall stall;
	uint32_t cause; /* of its failure, for the level above (tree.h), or 0 */
	/*
	 * For the input of a combiner: the targets that the combiner sends to,
	 * whose changes end a wait as well, and the last count read of these
	 * changes. Else NULL.
	 */
	struct peers *above;
	uint32_t seen_above;
	struct tombstone tombstone; /* used once it is closed */
};

_Static_assert(
    offsetof(struct dfi_target, magic) == HANDLE_MAGIC_OFFSET, "handle");
_Static_assert(
    offsetof(struct dfi_target, aborters) == HANDLE_ABORTERS_OFFSET, "handle");

/*
 * Attach to a flow, or to a part of one. The call takes the flow over, and
 * frees it on failure. attr is complete and valid; the caller keeps the
 * context. The errors are those of dfi_target_open() except errors of its
 * arguments.
 */
int dfi__target_open(struct dfi *dfi, const struct kind *kind,
    struct flow *flow, uint32_t index, const struct dfi_target_attr *attr,
    const struct wait_policy *wait, int64_t deadline,
    struct dfi_target **target);

int dfi__target_check_slow(const struct dfi_target *target);

/*
 * The target of an open flow's pair takes no more, and the source is to go on
 * without it. Its close, which follows, leaves no entry.
 */
void dfi__target_refuse_pair(struct dfi_target *end);

/* The first line of each call of the owner. */
#define TARGET_USER(target) \
	((target) && (target)->magic == TARGET_MAGIC ? &(target)->user : NULL)
#define TARGET_CALL(target, busy) HANDLE_CALL(TARGET_USER(target), busy)
#define TARGET_LAST_CALL(target, busy) \
	HANDLE_LAST_CALL(TARGET_USER(target), busy)
#define TARGET_SHARED(target)                              \
	dfi__handle_shared(call.other, "flow '%s': %s %u", \
	    (target)->flow.name, TARGET_ID(target))

/* The arguments for "%s %u" that name a target. */
#define TARGET_ID(target) flow_target_word(&(target)->flow), (target)->index

/* Whether the targets that a combiner sends to have changed. */
static inline bool target_is_called(const struct dfi_target *target)
{
	return unlikely(target->above != NULL) &&
	    peers_changes(target->above) != target->seen_above;
}

/* -ECANCELED, sticky: some thread has called dfi_target_abort(). */
int dfi__target_give_up(struct dfi_target *target);

/* Whether the owner must give up; orders no other memory. */
static inline bool target_aborted(const struct dfi_target *target)
{
	return unlikely(atomic_peek(&target->aborted));
}

/* Whether the owner must return from a wait; orders no other memory. */
static inline bool target_interrupted(const struct dfi_target *target)
{
	return unlikely(atomic_peek(&target->interrupted));
}

/* Make err sticky, with the text that was just set. */
int dfi__target_fail(struct dfi_target *target, int err);

/* The same for a ring that the reader found damaged. */
int dfi__target_damaged(struct dfi_target *target, uint32_t source, int err);

/* -EINTR, once for each dfi_target_interrupt(). */
int dfi__target_interrupted(struct dfi_target *target);

/*
 * -ENODATA, once for each gap: the reader has passed a gap. Gives back the
 * segment that the reader took up.
 */
int dfi__target_report_gap(struct dfi_target *target, uint32_t source);

/*
 * Check the rings without a segment: a source that has aborted, or is gone
 * without an end, ends the flow (target_lost()). Returns 0, or an error that
 * ends the flow at once.
 */
int dfi__target_check_sources(struct dfi_target *target);

/* Bring into the rings what sources wrote before they left. */
void dfi__target_settle(const struct dfi_target *target);

/*
 * For a target of one source, which is gone as the caller knows, though its
 * process may live: unless it has ended, what has arrived by now is consumed,
 * and then the error is err, whose text was just set.
 */
void dfi__target_put_out(struct dfi_target *target, int err);

/* The check, if something has changed, and look for idle sources if need be. */
int dfi__target_look(struct dfi_target *target);

/*
 * The part of this check that no change announces: the end marks. With many
 * rings it is due only now and then.
 */
int dfi__target_check_ends(struct dfi_target *target);

/* peers.why_lost() of its sources. */
const char *dfi__target_why_lost(const struct peers *sources, uint32_t source);

/*
 * Give the consumed segment back, and let the head lend the next one, of any
 * ring: 1. 0: all sources have ended, except those held back. Or an error, such
 * as -EAGAIN, also when target_is_called(). The caller has checked the target.
 */
int dfi__target_input(struct dfi_target *target);

/*
 * The same for a target of one ring, which has a segment, and no segment in
 * work.
 */
int dfi__target_input_ready(struct dfi_target *target);

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

/* Lend the application its next tuples or results; see dfi__target_input(). */
static inline int target_next(struct dfi_target *target)
{
	return unlikely(target->gives_results)
	    ? target->kind->intake.next(target)
	    : dfi__target_input(target);
}

/* The error, or 0. The helper of an ordered flow's target may set it. */
static always_inline int target_lost(const struct dfi_target *target)
{
	/* Pairs with the publishes of lost; its text and the stops follow. */
	return atomic_observe(&target->lost);
}

/* Whether there are results to lend. */
static inline bool target_has_results(const struct dfi_target *target)
{
	return target->gives_results && target->kind->intake.ready(target);
}

/* Whether more may come from a source that has gone. */
static inline bool target_follows(struct dfi_target *target, uint32_t source)
{
	return target->kind->intake.follows &&
	    target->kind->intake.follows(target, source);
}

/* A segment without tuples has come. */
static inline void target_passed(struct dfi_target *target, uint32_t source)
{
	if (target->gives_results)
		target->kind->intake.passed(target, source);
	else
		dfi__marks_passed(target, source);
}

/* The event that is next: 0 or -EAGAIN, without a text. */
static inline int target_take_event(
    struct dfi_target *target, struct dfi_event *event)
{
	return target->kind->intake.event
	    ? target->kind->intake.event(target, event)
	    : dfi__marks_event(target, event);
}

static inline uint64_t target_watermark(const struct dfi_target *target)
{
	return target->marks ? target->marks->watermark.value
			     : target->kind->intake.watermark(target);
}

/*
 * n segments of the order were taken or lost. Returns the position of the
 * first; 0 without an order.
 */
static inline uint64_t target_taken(struct dfi_target *target, uint32_t n)
{
	return unlikely(target->in_order)
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
	return unlikely(
	    target->in_order && target->kind->intake.changed(target));
}

static inline int target_check_order(const struct dfi_target *target)
{
	return unlikely(target->in_order) ? target->kind->intake.check(target)
					  : 0;
}

/* See struct intake_ops. */
static inline int target_next_position(
    const struct dfi_target *target, uint64_t *position)
{
	return target->kind->intake.position(target, position);
}

/* Whether the next consuming call has something to do. */
bool dfi__target_ready(struct dfi_target *target);

/* Register the target's owner for notices; true: it was not registered. */
bool dfi__target_announce(struct dfi_target *target, struct notify *notify);

/* Arm the networks before a waiter sleeps; arg is the target. */
void dfi__target_arm_networks(void *arg);

/* Tell the exports of the target's region whether its owner never sleeps. */
void dfi__target_set_spins(struct dfi_target *target, bool spins);

/* Afterwards nothing wakes the owner. */
void dfi__target_withdraw(struct dfi_target *target);

/* The same for targets of groups: those of open flows have no rings. */
static inline bool target_has_rings(const struct dfi_target *target)
{
	return likely(!target->kind->intake.leave);
}

static inline bool target_is_ready(struct dfi_target *target)
{
	return target_has_rings(target) ? dfi__target_ready(target)
					: target->kind->intake.wakes(target);
}

static inline void target_arm_networks(struct dfi_target *target)
{
	if (!target_has_rings(target))
		target->kind->intake.sleeps(target);
	else if (target->wait.arm)
		target->wait.arm(target->wait.arm_arg);
}

static inline void target_withdraw(struct dfi_target *target)
{
	if (target_has_rings(target))
		dfi__target_withdraw(target);
	else
		target->kind->intake.withdraw(target);
}

/* Release the lent batch for a caller that lost it. */
void dfi__target_take_back(struct dfi_target *target);

/* The target closes: remove it from its group. */
void dfi__target_group_drop(struct dfi_target *target);

/* Whether nothing wakes the target; see struct wait_policy. */
bool dfi__target_is_unwoken(const struct dfi_target *target);

/* Both of these, of a target of a group. */
static inline bool target_announce(
    struct dfi_target *target, struct notify *notify, bool *unwoken)
{
	if (!target_has_rings(target))
		return target->kind->intake.announce(target, notify, unwoken);
	*unwoken |= dfi__target_is_unwoken(target);
	return dfi__target_announce(target, notify);
}

/* -EBUSY; the text names what the target lends. */
int dfi__target_lends_already(const struct dfi_target *target);

/* -EBUSY if a batch or a cursor is lent. */
static inline int target_check_lent(const struct dfi_target *target)
{
	return unlikely(target->lends_batch || target->cursor_open)
	    ? dfi__target_lends_already(target)
	    : 0;
}

/* The same, after a check of the handle. */
int dfi__target_check_lent(const struct dfi_target *target);

/*
 * Tuples of the segment in work that the application has not received. In a
 * combiner flow, a combined tuple counts as received.
 */
static inline uint64_t target_unread(const struct dfi_target *target)
{
	if (target->gives_results)
		return 0;
	return (uint64_t)(target->head.end - target->head.next) /
	    target->head.tuple_size;
}

/* Log at level info what the target has attached to, and how. */
void dfi__target_log_attached(const struct dfi_target *target);

/* The sticky error with its text, or the error of an invalid handle. */
static inline int target_check(const struct dfi_target *target)
{
	if (likely(target && target->magic == TARGET_MAGIC && !target->status &&
		!target->cancelled && !target_aborted(target)))
		return 0;
	return dfi__target_check_slow(target);
}

/* What a kind adds to the counters of dfi_stats_list(). */
static inline void target_describe(
    const struct dfi_target *target, struct dfi_endpoint_stats *stats)
{
	if (target->kind->intake.describe)
		target->kind->intake.describe(target, stats);
}

#endif

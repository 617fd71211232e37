/* SPDX-License-Identifier: Apache-2.0 */
/* A target of an open flow; see open_target.c. */
#ifndef DFI_FLOWS_KINDS_OPEN_OPEN_TARGET_H
#define DFI_FLOWS_KINDS_OPEN_OPEN_TARGET_H

#include <dfi/event.h>
#include <dfi/open_flow.h>
#include "base/counter.h"
#include "flows/endpoint/target.h"
#include "keyed_target.h"
#include "pairs.h"

/* A pair that was taken. */
struct taken {
	struct dfi_target *end;
	struct pair *pair;
	uint32_t seat;
	bool joined;   /* the event was added */
	bool followed; /* its source is gone, and another has the seat */
	union {
		uint64_t table; /* of the last mark that is known */
		/* In an ordered flow: the view in which its ring began. */
		uint64_t greeted;
	};
	/*
	 * In a combiner flow: its last mark, and whether it waits there. In an
	 * ordered flow, and over datagrams: its last mark before this ring.
	 */
	uint64_t mark;
	bool held;
	/* ... and since when nothing has come of it that others wait for. */
	int64_t quiet_since; /* ns; 0: not looked at in this window */
	uint64_t seen;       /* the next segment then */
	uint64_t unacked;    /* with replay: tuples that were given back */
	bool full;           /* the owner knows that it has to acknowledge */
	/* Of an ordered flow: */
	bool marked;        /* its mark was taken */
	bool has_head;      /* at the last look; it may not be due */
	bool settled;       /* its loss belongs to an earlier view */
	bool known;         /* this is known to the watermark */
	bool counts;        /* for the watermark, from its first position on */
	bool sent_before;   /* this ring begins behind something of it */
	uint64_t delivered; /* the end of what was delivered */
};

struct acks;
struct target_order;

struct open_target {
	struct pairs pairs;
	struct dfi_target *target;
	struct notify *notify; /* in which a handle that waits sleeps */
	struct taken *taken;   /* one behind the other */
	/*
	 * The helper of an ordered flow adds to these; see open_n_taken(). Only
	 * the owner retires any.
	 */
	_Atomic uint32_t n_taken;
	uint32_t current, in_a_row;
	/*
	 * The end of current, if nothing but a change can keep a full segment
	 * of it from being lent next (open_target_plain.c); or NULL. While it
	 * is set, at most so many in a row.
	 */
	struct dfi_target *plain;
	uint32_t most_in_a_row;
	uint32_t n_held; /* of those taken */
	uint32_t seen;   /* the last of pairs_changes() */
	/* Of a combiner flow with evict_after_ms (open_fold_bound.c): */
	_Atomic bool window_waits; /* for some, while others have ended it */
	int64_t window_looked;     /* ns; 0: it does not */
	bool ended;                /* no source is there, and none comes */
	bool left;                 /* see dfi_target_leave() */
	struct partitions *partitions;       /* with routing by keys, or NULL */
	_Atomic(struct partitions *) helped; /* the same, for the helper */
	struct acks *acks;                   /* with replay, or NULL */
	/* Not taken yet, the oldest first; only with DFI_EVENTS. */
	struct dfi_event *events;
	uint32_t n_events, first_event;
	struct target_order *order;  /* or NULL; open_target_order.h */
	struct dfi_target_attr attr; /* of the ends */
	struct wait_policy wait;
};

static inline struct open_target *open_target(const struct dfi_target *target)
{
	return target->state;
}

/* So many of taken are whole, with or without the lock of an ordered flow. */
static always_inline uint32_t open_n_taken(const struct open_target *open)
{
	/* Pairs with the publish in open_target_take.c. */
	return atomic_observe(&open->n_taken);
}

/*
 * taken[i] has gone, and taken[n] has its place: a segment in work stays that
 * of its ring.
 */
static inline void open_move_current(
    struct open_target *open, uint32_t i, uint32_t n)
{
	if (open->current == i || open->current == n)
		open->current = open->current == i ? 0 : i;
	open->in_a_row = 0;
}

/*
 * Whether that ring may be read: the flow isn't lost, or this came before. Not
 * of an ordered flow, so only the owner sets both.
 */
static inline bool open_may_read(
    const struct dfi_target *target, const struct reader *reader)
{
	return likely(!atomic_peek(&target->lost)) ||
	    reader->seq != reader->stop;
}

/* Fail once what has come was consumed. */
void dfi__open_target_fail_later(
    struct dfi_target *target, int err, const char *text);

/* The same, as the seat was taken away (M3). */
void dfi__open_target_put_out(struct dfi_target *target);

/*
 * Sources must know what was dropped (dfi_source_dropped()), and whether
 * anything was. A segment with unread tuples, or that a batch or cursor still
 * has, is.
 */
void dfi__open_target_return_all(struct dfi_target *target);

/*
 * The most that one pass can add to no events, for each seat: its source may be
 * lost and given up, the next one be taken, ask for an acknowledgement and end,
 * and the watermark rise with each.
 */
#define OPEN_SEAT_EVENTS 9

/* Add one about a source, if it has joined by then. */
void dfi__open_add_event(struct open_target *open, uint32_t type,
    const struct taken *taken, uint64_t value);

/* Add one that a source which was lost is given up. */
void dfi__open_add_given_up(
    struct open_target *open, uint32_t seat, uint64_t incarnation);

/*
 * Add one that positions are missing, up to this one. False: the target has no
 * events.
 */
bool dfi__open_add_gap(struct open_target *open, uint64_t position);

/* Segments of a pair were lost: -ENODATA, or -ENOMSG for a target with events.
 */
int dfi__open_take_gap(struct dfi_target *target, const struct taken *taken);

/* Add one that the watermark has risen. */
void dfi__open_add_mark(struct open_target *open);

/*
 * The watermark has risen: add the event, and read on in rings behind whose
 * marks it is now.
 */
void dfi__open_risen(struct open_target *open);

/*
 * Who follows whom is up to date: do not hold back the rest of one that is
 * followed.
 */
void dfi__open_resume(struct open_target *open);

/*
 * A mark was taken from a pair's ring: read on only if alignment lets it (K4).
 * False: the ring is held back.
 */
bool dfi__open_may_read_on(struct open_target *open, const struct taken *taken);

/* dfi__marks_look() of all pairs. */
void dfi__open_look_for_idle(struct open_target *open);

/* Whether a ring that is held back need not be looked at. */
static inline bool open_is_shut(
    const struct dfi_target *target, const struct taken *taken)
{
	return unlikely(taken->end->readers[0].held) &&
	    target->flow.on_loss != DFI_ON_LOSS_FAIL;
}

/* Take the next one; there is one. */
struct dfi_event dfi__open_pop_event(struct open_target *open);

/* Where a combiner flow's target gets segments (open_fold.c). */
extern const struct combine_intake dfi__open_fold_intake;

/* That ring's source has sent a mark; it may be held back from now on. */
void dfi__open_fold_mark(struct dfi_target *target, struct taken *taken);

/* Whether all sources have ended the window, and none is about to join. */
bool dfi__open_fold_is_whole(struct dfi_target *target);

/* Note that a source was lost in this window. */
void dfi__open_fold_lose(struct dfi_target *target);

/*
 * With evict_after_ms. found_nothing: the rings of all that have not ended the
 * window are empty: have those evicted of which nothing has come for so long.
 * tend: for the helper: when the owner has to look again.
 */
void dfi__open_fold_found_nothing(struct dfi_target *target);
int64_t dfi__open_fold_tend(struct open_target *open);

/* That ring is given up. */
void dfi__open_fold_release(struct open_target *open, struct taken *taken);

/* See struct intake_ops. */
uint64_t dfi__open_fold_watermark(const struct dfi_target *target);

/* Give the consumed segment back. */
void dfi__open_target_give_back(struct dfi_target *target);

/* See struct intake_ops. */
bool dfi__open_target_wakes(struct dfi_target *target);
bool dfi__open_target_announce(
    struct dfi_target *target, struct notify *notify, bool *unwoken);
void dfi__open_target_sleeps(struct dfi_target *target);
void dfi__open_target_withdraw(struct dfi_target *target);
/* The source of a pair has joined, behind so many tuples. */
void dfi__open_target_joined(
    struct open_target *open, struct taken *taken, uint64_t before);

/* Under the lock of the pairs: take all that are ready. */
void dfi__open_target_take_pairs(struct open_target *open);

/*
 * Hand a pair to the helper. Its ring has nothing more to take. type: how the
 * source has left.
 */
void dfi__open_target_retire(
    struct open_target *open, uint32_t i, uint32_t type);

/*
 * Take the mark that a ring begins with (J1): 0 and *before, the tuples that
 * came before. Or an error of a damaged ring.
 */
int dfi__open_target_take_mark(struct taken *taken, uint64_t *before);

/* The tuples of the segment that a pair lends. */
static always_inline uint64_t open_lent_tuples(const struct dfi_target *end)
{
	const struct ring_geometry *g = &end->readers[0].geometry;
	uint64_t bytes = (uint64_t)(end->head.end - end->head.next);

	return likely(bytes == g->segment_bytes) ? g->segment_tuples
						 : bytes / g->tuple_size;
}

/* Lend the segment that dfi__target_input() of a pair's target has got. */
static always_inline void open_target_lend(
    struct dfi_target *target, const struct dfi_target *end, uint32_t seat)
{
	target->head.next = end->head.next;
	target->head.end = end->head.end;
	target->head.source = seat;
	owned_add(&target->segments, 1);
	owned_add(&target->readers[0].total, open_lent_tuples(end));
}

/* dfi__open_target_next() where more may have to be done than to take it. */
int dfi__open_target_next_slow(struct dfi_target *target);

/* The fastest look: whether some ring has a segment to take. */
bool dfi__open_target_any_ready(const struct dfi_target *target);

/*
 * The waits of a call, which share the handle's time until something comes: the
 * helper may wake it often for nothing. 0: it has not waited.
 */
struct call_wait {
	int64_t until;
	uint64_t arrived;
};

/* Nothing is there: 0 to look again, or an error. */
int dfi__open_target_wait(struct dfi_target *target, struct call_wait *call);

#endif

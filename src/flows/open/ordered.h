/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target of an ordered flow: what it delivers next, what it has at the end of
 * a view, and where it begins (O3, O5 and J1 in docs/open-flows.md). The caller
 * knows the rings.
 */
#ifndef DFI_FLOWS_OPEN_ORDERED_H
#define DFI_FLOWS_OPEN_ORDERED_H

#include "flows/open/bugs.h"
#include "flows/open/views.h"

struct ordered_target {
	uint64_t view;  /* that it delivers; 0: none yet */
	uint64_t due;   /* the position to be delivered next */
	uint64_t begin; /* what is below is passed over */
	bool begun;     /* due and begin are known */
	uint64_t came;  /* the view in which it has begun, not with it; or 0 */
	bool reported;  /* in this view: it delivers no more of it, ... */
	uint64_t next;  /* ... until this one is decided; or 0 */
	struct open_kept *kept; /* of next */
	uint32_t n_kept;
	/* Sources that were lost in this view, and whose rings are empty. */
	struct open_share *gone;
	uint32_t n_gone, gone_room;
	uint32_t n_reported; /* so many of them are in the report */
	/* Until it has begun, what counters were found at: */
	uint64_t counted; /* by its helper in this view, or 0: */
	uint64_t count;
	uint64_t most;  /* by those who were there before, at their marks */
	uint64_t least; /* by others, at theirs, in the newest view */
	bool missed;    /* not begun, it has missed something in this view */
};

void dfi__ordered_free(struct ordered_target *order);

/* ---- Views -------------------------------------------------------------- */

enum open_turn {
	OPEN_TURN_NONE = 0,
	OPEN_TURN_ENTERED,   /* it had not begun, and is in this view now */
	OPEN_TURN_DECIDED,   /* it delivers what the decision keeps */
	OPEN_TURN_OUT,       /* it lacks what others have delivered */
	OPEN_TURN_NO_MEMORY, /* nothing has changed */
};

/* What the newest view means for a target of this incarnation. */
enum open_turn dfi__ordered_see(
    struct ordered_target *order, const struct open_view *view, uint64_t self);

/*
 * All that was decided is delivered: enter the next view. True: sources were
 * lost since the report, so that this view must end as well.
 */
bool dfi__ordered_enter_next(struct ordered_target *order);

/* A source was lost in this view, and its ring is empty. False: no memory. */
bool dfi__ordered_lose(
    struct ordered_target *order, const struct open_share *share);

/* ---- Delivering --------------------------------------------------------- */

/* Whether it delivers nothing until the next view is decided. */
static inline bool ordered_waits(const struct ordered_target *order)
{
	return order->reported && !order->next && !OPEN_BUG(DELIVERS_ON);
}

/*
 * Whether a segment of a source counts for nobody: it is below what this target
 * begins with, or the decision leaves it out.
 */
static inline bool ordered_leaves_out(
    const struct ordered_target *order, uint64_t source, uint64_t position)
{
	if (position < order->begin)
		return true;
	return order->next && position < open_view_first(order->next) &&
	    !OPEN_BUG(LATE_SEGMENT) &&
	    position >= dfi__open_view_kept(order->kept, order->n_kept, source);
}

/* Whether a position is of the view that it delivers. */
static inline bool ordered_has(
    const struct ordered_target *order, uint64_t position)
{
	return !order->next || position < open_view_first(order->next);
}

enum open_due {
	OPEN_DUE_NOTHING = 0,
	OPEN_DUE_SEGMENT,
	OPEN_DUE_GAP, /* those up to it are gaps for all, and passed over */
};

/*
 * What is due, if the lowest position that has come of this view is least;
 * UINT64_MAX: none.
 */
enum open_due dfi__ordered_due(struct ordered_target *order, uint64_t least);

/* ---- Reports ------------------------------------------------------------ */

/*
 * Whether the view has ended, and this target can say what it has. One that is
 * about to begin does so first, so that it misses nothing.
 */
bool dfi__ordered_reports(const struct ordered_target *order,
    const struct open_views *views, const struct open_seats *seats);

/*
 * The end up to which a source that has flushed must have arrived before the
 * report; 0: any. One that has not begun lacks nothing.
 */
uint64_t dfi__ordered_awaits(
    const struct ordered_target *order, const struct open_note *flush);

/*
 * What the report says of a source. flush: NULL if it was lost without one.
 * arrived: of a lost one.
 */
struct open_share dfi__ordered_share(const struct ordered_target *order,
    const struct open_note *flush, bool lost, const struct open_share *has);

/*
 * Begin the report, which has room for shares of all that are gone: they are
 * the first ones.
 */
void dfi__ordered_report(
    const struct ordered_target *order, struct open_report *report);

/* The report is made. */
void dfi__ordered_reported(struct ordered_target *order);

/* ---- Beginning (J1) ----------------------------------------------------- */

/* The sources whose keys came before that of the target. */
struct ordered_before {
	const uint64_t *sources; /* incarnations */
	bool *met;               /* those that have said where they were */
	uint32_t n;
};

/*
 * A source found the counter at mark when it met this target, and had sent
 * something before. True: the target has begun, and lacks that.
 */
bool dfi__ordered_met(struct ordered_target *order,
    const struct ordered_before *before, uint64_t source, uint64_t mark,
    bool sent_before);

/*
 * Whether each that was there before has said where it was. *never: one has
 * left without saying it, and has no ring that may tell; it may have been
 * anywhere, so the view must end.
 */
bool dfi__ordered_has_met_all(const struct ordered_before *before,
    const struct open_views *views, const struct open_seats *seats,
    bool (*has_ring)(void *arg, uint64_t source), void *arg, bool *never);

/*
 * Begin, if all that were there before have said where they were, at the
 * largest of these: those that know this target send it all from there on. If
 * none has in this view, at the least number that was found.
 */
void dfi__ordered_begin(struct ordered_target *order, bool has_met_all);

#endif

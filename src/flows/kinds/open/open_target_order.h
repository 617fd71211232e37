/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target of an ordered open flow (O1 to O6 in docs/open-flows.md). The owner
 * delivers in the order (open_target_order.c); what the target has is reported
 * (open_target_report.c); the helper tells the registry (open_target_views.c).
 */
#ifndef DFI_FLOWS_KINDS_OPEN_OPEN_TARGET_ORDER_H
#define DFI_FLOWS_KINDS_OPEN_OPEN_TARGET_ORDER_H

#include "flows/context/shared_counter.h"
#include "flows/open/ordered.h"
#include "open_target.h"

/* A counter that this target has, or would have, in a view. */
struct view_counter {
	uint64_t view; /* 0: none */
	struct shared_counter counter;
};

/* A source that counts for the watermark (K6). */
struct order_marker {
	uint64_t source; /* its incarnation */
	uint64_t view;   /* in which it began to count, or an earlier one */
	uint32_t seat;
	bool is_expected; /* it has not said yet whether it does */
};

struct target_order {
	/*
	 * Held by the owner while it looks at rings, and by the helper, which
	 * takes pairs and reports for an owner that does something else. The
	 * lock of the pairs is taken within this one. It protects this:
	 */
	pthread_mutex_t lock;
	struct ordered_target core; /* what it delivers, and has of the view */
	bool awaits; /* the view's end: not all that sources sent has come */
	/* Of the owner: who counts, once those in front of it are known. */
	struct order_marker *markers;
	uint32_t n_markers, markers_room, n_expected;
	bool known;
	uint64_t first; /* where this target began */
	bool *met; /* of the sources that came before: their marks were taken */
	/* Under the lock of the pairs: */
	bool is_out;        /* the target is no member, and gives its seat up */
	uint64_t wants_cut; /* the view that the owner wants to be ended */
	uint8_t *report;    /* what it has, of this view: */
	size_t report_size;
	uint64_t report_view;
	/* Since when a segment is missing while later ones are there; or 0. */
	_Atomic int64_t hole_since;
	/* Of the helper: the last views of which it has done this. */
	uint64_t cut, reports, decided;
	bool warned;     /* that it can make no counter */
	uint64_t logged; /* 1 + the view behind which it has logged a wait */
	/*
	 * Since when it waits for those of a role at the end of a view, and
	 * when it looked last.
	 */
	int64_t late_since, late_looked;
	uint64_t late_view;
	enum open_role late_role;
	struct view_counter counters[2];
};

/* order may be NULL. */
static inline void target_order_lock(struct target_order *order)
{
	if (order)
		pthread_mutex_lock(&order->lock);
}

static inline void target_order_unlock(struct target_order *order)
{
	if (order)
		pthread_mutex_unlock(&order->lock);
}

/*
 * The end of what has come from a source whose ring is empty. A target lacks
 * nothing of what it begins behind.
 */
static inline uint64_t target_order_end(
    const struct target_order *order, const struct taken *taken)
{
	return taken->delivered > order->core.begin ? taken->delivered
						    : order->core.begin;
}

struct target_order *dfi__target_order_new(void);
void dfi__target_order_free(struct target_order *order);

/* Under the lock of the pairs, at a change: what it means for the owner. */
void dfi__target_order_see(struct open_target *open);

/* On the helper: see, take pairs and report, as far as no tuple is needed. */
void dfi__target_order_help(struct open_target *open);

/*
 * O3: report on a view that has ended, once it is known what has come. -ENOMEM,
 * and errors of a damaged ring.
 */
int dfi__target_order_report(struct open_target *open);

/* Whether a lost source's ring has been read as far as it counts. */
static inline bool target_order_is_empty(const struct taken *taken)
{
	const struct reader *reader = &taken->end->readers[0];

	return target_lost(taken->end) ? reader->seq == reader->stop
				       : !reader_ready(reader);
}

/* Take the mark that a ring begins with. Errors of a damaged ring. */
int dfi__target_order_take_mark(struct dfi_target *target, struct taken *taken);

/*
 * Marks (open_order_marks.c). passed: the segment that was taken last has a
 * place in the order of this target, or in front of it; -ENOMEM. retired: that
 * ring is given up. left: all of the last view is delivered: who has no part in
 * the next one counts no more. learn: the target has begun, or rings have: who
 * counts, and with which marks; -ENOMEM.
 */
int dfi__target_order_passed(
    struct open_target *open, struct taken *taken, uint64_t position);
void dfi__target_order_retired(
    struct open_target *open, struct taken *taken, uint32_t type);
void dfi__target_order_left(struct open_target *open);
int dfi__target_order_learn(struct open_target *open);

/* Under the lock of the pairs: whether a ring of that source may tell more. */
bool dfi__target_order_has_ring(
    const struct open_target *open, uint64_t source);

/* The view must end. */
void dfi__target_order_want_cut(struct open_target *open);

/* The target lacks what others have: it fails, and gives its seat up. */
void dfi__target_order_put_out(struct open_target *open);

/* Let the helper look. */
void dfi__target_order_signal(struct open_target *open);

/*
 * J1: find out where to begin, if that is known by now. Errors of a damaged
 * ring.
 */
int dfi__target_order_begin(struct open_target *open);

int dfi__target_order_no_memory(const struct dfi_target *target);

/* Lend the next segment: as take_from(). */
int dfi__target_order_next(struct dfi_target *target);

/* Whether dfi__target_order_next() may have a new result. */
bool dfi__target_order_ready(struct dfi_target *target);

/* See intake_ops. */
int dfi__target_order_position(
    const struct dfi_target *target, uint64_t *position);

/* See pairs_ops.tend(). */
int64_t dfi__target_order_tend(void *owner);

/* For error texts: that it needs a view, and so the registry, or "". */
const char *dfi__target_order_why(struct open_target *open);

#endif

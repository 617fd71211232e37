/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The targets of combiner flows: they fold the tuples of their rings into
 * groups, and lend results instead.
 */
#ifndef DFI_FLOWS_KINDS_COMBINE_COMBINE_H
#define DFI_FLOWS_KINDS_COMBINE_COMBINE_H

#include <stdbool.h>
#include <stdint.h>
#include "flows/aggregate/groups.h"

struct dfi_target;
struct ring_geometry;

/* Where the segments come from that a target folds. */
struct combine_intake {
	/*
	 * Give the last segment back, and let the head lend the next one: 1. 0:
	 * all sources have ended the window, or all that there is. Or an error.
	 */
	int (*segment)(struct dfi_target *target);
	/* Of the ring of the head's segment. */
	const struct ring_geometry *(*geometry)(
	    const struct dfi_target *target);
	/* Keep the head's segment for later; take it up again (lends). */
	void (*lend)(struct dfi_target *target, bool lends);
	/* The head's segment was folded; it may end its source's window. */
	void (*folded)(struct dfi_target *target);
	/* After segment() has returned 0: the window's end; DFI_NO_MARK: all's.
	 */
	uint64_t (*window_end)(const struct dfi_target *target);
	/* The window that this mark ends was given: begin the next one. */
	void (*begin_window)(struct dfi_target *target, uint64_t mark);
};

/* The states of a target, in this order. */
enum combiner_state {
	COMBINER_TAKES = 0, /* folds tuples into groups */
	COMBINER_FULL,  /* has no room for another group: gives results early */
	COMBINER_GIVES, /* a window has ended: gives its results */
	COMBINER_ENDS,  /* all input has come: gives the last results */
	COMBINER_ENDED, /* has given all results */
};

/* The input of one segment: tuples, or partial aggregates. */
struct combiner_input {
	const char *from;
	uint64_t n;
	uint32_t size; /* of each */
	bool merged;
};

/* The part of a target: its groups, and then their results. */
struct combiner {
	const struct combine_intake *input;
	struct plan *plan;
	struct groups groups;
	enum combiner_state state;
	uint64_t emitted; /* groups whose results were given */
	char *results;    /* the last given; NULL: records are results */
	uint64_t room;    /* for this many results */
	uint64_t window;  /* the one whose tuples are folded: its first mark */
	uint64_t mark;    /* the last one of all sources */
	uint64_t n_windows; /* that have ended */
	uint32_t flags;     /* of the window (dfi_target_window_flags()) */
	bool has_given;     /* this window has given results: */
	uint64_t given;
	uint32_t given_flags;
	uint64_t early; /* how often there was no room for another group */
	/*
	 * While there is no room: the part of the segment in work that is not
	 * folded. The target's head gets it back when folding continues.
	 */
	const char *rest, *rest_end;
	uint32_t rest_source;
	struct combiner_input rest_input;
	bool resumes; /* the rest is folded next */
};

/* Whether the next consuming call lends results, or reports their end. */
static inline bool combiner_ready(const struct combiner *combiner)
{
	return combiner->state != COMBINER_TAKES &&
	    combiner->state != COMBINER_ENDED;
}

/* Make the combiner of a target; intake NULL: its own rings. -ENOMEM. */
int dfi__combine_open(
    struct dfi_target *target, const struct combine_intake *intake);
void dfi__combine_close(struct combiner *combiner); /* may be NULL */

/*
 * The last segment taken from a source, which may have no tuples, may end the
 * source's window. Then the source is held back until all have ended it.
 */
void dfi__combine_hold(struct dfi_target *target, uint32_t source);

/*
 * For a combiner of a tree (tree_combiner.c) whose input the target is: consume
 * until there is something to send. The result stays the same until the caller
 * reports that it has sent it.
 */
enum combine_output {
	COMBINE_END = 0, /* all was sent */
	COMBINE_RECORDS, /* n partial aggregates; dfi__combine_sent() */
	COMBINE_MARK,    /* a window has ended; dfi__combine_marked() */
};
/* Returns one of these, or an error of dfi__combine_next() except -ENOSPC. */
int dfi__combine_output(
    struct dfi_target *target, const void **records, uint64_t *n);
void dfi__combine_sent(struct dfi_target *target, uint64_t n);
int dfi__combine_marked(struct dfi_target *target);

/*
 * Consume until there are results, and let the target's head lend them: 1; 0 at
 * the end; or an error of dfi__target_input(), or -ENOSPC, -ENOMEM, -EOVERFLOW.
 */
int dfi__combine_next(struct dfi_target *target);

#endif

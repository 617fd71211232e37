/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The targets of combine flows: they take in what is consumed of their rings,
 * and give results instead.
 */
#ifndef DFI_FLOWS_KINDS_COMBINE_COMBINE_H
#define DFI_FLOWS_KINDS_COMBINE_COMBINE_H

#include <stdbool.h>
#include <stdint.h>
#include "flows/aggregate/groups.h"

struct dfi_target;

/* What a target does, in turn. */
enum combiner_state {
	COMBINER_TAKES = 0, /* what is consumed is folded into groups */
	COMBINER_FULL,      /* no more groups: results are given, as they are */
	COMBINER_GIVES,     /* a window has ended: its results are given */
	COMBINER_ENDS,      /* all input has come: the last results are given */
	COMBINER_ENDED,     /* and were given */
};

/* What a segment holds: tuples, or partial aggregates. */
struct combiner_input {
	const char *from;
	uint64_t n;
	uint32_t size; /* of each */
	bool merged;
};

/* A target's: the groups, and then their results. */
struct combiner {
	struct plan *plan;
	struct groups groups;
	enum combiner_state state;
	uint64_t emitted; /* groups whose results were given */
	char *results;    /* that were given last; NULL: records are results */
	uint64_t room;    /* for this many */
	uint64_t window;  /* whose tuples are taken */
	bool has_given;   /* results, of this window: */
	uint64_t given;
	uint64_t early; /* times that it was full */
	/*
	 * While it is full: what was not folded of the segment in work, which
	 * the target's head has again when it is taken up.
	 */
	const char *rest, *rest_end;
	uint32_t rest_source;
	struct combiner_input rest_input;
	bool resumes; /* with that */
};

/* Results that the next consuming call gives, or the end behind them. */
static inline bool combiner_ready(const struct combiner *combiner)
{
	return combiner->state != COMBINER_TAKES &&
	    combiner->state != COMBINER_ENDED;
}

/* Make a target's; -ENOMEM. */
int dfi__combine_open(struct dfi_target *target);
void dfi__combine_close(struct combiner *combiner); /* may be NULL */

/*
 * The segment of a source that was taken last, which may have no tuples, may
 * end the source's window: then nothing more is taken from it till all have.
 */
void dfi__combine_hold(struct dfi_target *target, uint32_t source);

/*
 * For a combiner of a tree (tree_combiner.c), whose input the target is:
 * consume until there is something to send. What comes next does not change
 * until it is told that it was done.
 */
enum combine_output {
	COMBINE_END = 0, /* all was sent */
	COMBINE_RECORDS, /* n of them lie there; dfi__combine_sent() */
	COMBINE_MARK,    /* a window has ended; dfi__combine_marked() */
};
/* One of these, or what dfi__combine_next() returns except -ENOSPC. */
int dfi__combine_output(
    struct dfi_target *target, const void **records, uint64_t *n);
void dfi__combine_sent(struct dfi_target *target, uint64_t n);
int dfi__combine_marked(struct dfi_target *target);

/*
 * Consume until there are results, and have the target's head lend them: 1, or
 * 0 at the end, or what dfi__target_input() returns, or -ENOSPC, -ENOMEM,
 * -EOVERFLOW.
 */
int dfi__combine_next(struct dfi_target *target);

#endif

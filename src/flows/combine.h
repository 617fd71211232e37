/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Combiner flows: their declaration, and the targets, which take in what is
 * consumed of their rings, and give results instead.
 */
#ifndef DFI_FLOWS_COMBINE_H
#define DFI_FLOWS_COMBINE_H

#include <stdbool.h>
#include <stdint.h>
#include "../combine/groups.h"

struct dfi_flow_attr;
struct dfi_target;
struct flow;

/* A target's: the groups, and then their results. */
struct combiner {
	struct plan *plan;
	struct groups groups;
	bool complete;    /* all input has come */
	bool ended;       /* and all results were given */
	uint64_t emitted; /* groups of which they were */
	char *results;    /* that were given last */
	uint64_t room;    /* for so many */
};

/* Results that the next consuming call gives, or the end behind them. */
static inline bool combiner_ready(const struct combiner *combiner)
{
	return combiner->complete && !combiner->ended;
}

/*
 * Take what the attributes say into the flow, whose schema and numbers are
 * there. What dfi_flow_create() says of them; also for other kinds of flows,
 * which must have none.
 */
int dfi__combine_declare(struct flow *flow, const struct dfi_flow_attr *attr);

/* The plan of a combiner flow: -EINVAL, -ENOMEM. */
int dfi__combine_plan(const struct flow *flow, struct plan **plan);

/* Make a target's; -ENOMEM. */
int dfi__combine_open(struct dfi_target *target);
void dfi__combine_close(struct combiner *combiner); /* may be NULL */

/*
 * Take in the segment that the target's head lends: 0, or -ENOSPC, -ENOMEM.
 */
int dfi__combine_take(struct dfi_target *target);

/*
 * Have the head lend the next results, when all input has come: 1, or 0 at the
 * end, or -EOVERFLOW.
 */
int dfi__combine_emit(struct dfi_target *target);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of a combiner flow with fan_in. Between its sources and its targets
 * lie levels of combiners. Each combiner takes the output of at most fan_in
 * sources, or combiners of the level below, and sends partial aggregates of it
 * on.
 *
 *	sources      0 1 2 3   4 5 6 7   8 9     N = 10, fan_in 4
 *	             \ \ / /   \ \ / /   \ /
 *	combiners       0         1       2      level 0: ceil(N / fan_in)
 *	                 \________|______/
 *	targets               0 ... M - 1        each has the whole top level
 *
 * A further level follows while the last one has more than fan_in combiners.
 * Combiners are numbered from 0, level by level from the sources up.
 *
 * Only the flow itself is published. Each end computes its part of the flow
 * (struct flow_part) from the descriptor. A part is a flow like others: between
 * the inputs of a combiner and that combiner, or between the top level and the
 * targets. The tuples of combiners are partial aggregates
 * (flows/kinds/combine/plan.h). They begin with their key and are routed by it.
 */
#ifndef DFI_FLOWS_DECLARE_TREE_H
#define DFI_FLOWS_DECLARE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flow;

/* How many combiners a flow has; 0: it has no tree. */
uint32_t dfi__tree_size(const struct flow *flow);

/* The first combiner of the top level. */
uint32_t dfi__tree_top(const struct flow *flow);

/* Whether a combiner's inputs are sources. */
bool dfi__tree_takes_sources(const struct flow *flow, uint32_t combiner);

/*
 * Change a flow to the part that one of its ends sees: a source, a target, a
 * combiner's inputs, or a combiner's output. A flow without a tree stays as it
 * is. The numbers are valid. -ENOMEM.
 */
int dfi__tree_source(struct flow *flow, uint32_t index);
int dfi__tree_target(struct flow *flow);
int dfi__tree_input(struct flow *flow, uint32_t combiner);
int dfi__tree_output(struct flow *flow, uint32_t combiner);

/*
 * Why a stream was not whole. A combiner passes it on with its abort mark: the
 * fate of a source or combiner.
 */
enum tree_fate {
	TREE_UNKNOWN = 0,
	TREE_DIED,
	TREE_ABORTED,
	TREE_NEVER_CAME,
};

/*
 * Encode the fate of a sender of this part of a flow; and decode it,
 * TREE_UNKNOWN if it is not valid.
 */
uint32_t dfi__tree_cause(
    const struct flow *flow, uint32_t sender, enum tree_fate fate);
enum tree_fate dfi__tree_fate(uint32_t cause);

/* Format the sender, as "source 3" or "combiner 1". */
void dfi__tree_culprit(uint32_t cause, char *name, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of a combiner flow with fan_in: between its sources and its targets
 * lie combiners, in levels, each of which takes what at most fan_in sources, or
 * combiners of the level below, send, and sends partial aggregates of it on.
 *
 *	sources      0 1 2 3   4 5 6 7   8 9     N = 10, fan_in 4
 *	             \ \ / /   \ \ / /   \ /
 *	combiners       0         1       2      level 0: ceil(N / fan_in)
 *	                 \________|______/
 *	targets               0 ... M - 1        each has the whole top level
 *
 * A level is put on another one as long as that has more than fan_in combiners.
 * Combiners are numbered from 0 on, level by level from the sources up.
 *
 * Only the flow itself is published. Each end makes of its descriptor what it
 * sees of the flow (struct flow_part), which is a flow like others: one between
 * the inputs of a combiner and that combiner, or between the top level and the
 * targets. Combiners send records (flows/kinds/combine/plan.h): there these are
 * the tuples, which are routed by the key that they begin with.
 */
#ifndef DFI_FLOWS_DECLARE_TREE_H
#define DFI_FLOWS_DECLARE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flow;

/* How many combiners a flow has; 0: it has no tree. */
uint32_t dfi__tree_size(const struct flow *flow);

/* The first one of the top level. */
uint32_t dfi__tree_top(const struct flow *flow);

/* Whether a combiner's inputs are sources. */
bool dfi__tree_takes_sources(const struct flow *flow, uint32_t combiner);

/*
 * Make of a flow what one of its ends sees of it: a source, a target, and a
 * combiner on the side of its inputs, and on the other. Nothing happens to a
 * flow without a tree. The numbers are valid. -ENOMEM.
 */
int dfi__tree_source(struct flow *flow, uint32_t index);
int dfi__tree_target(struct flow *flow);
int dfi__tree_input(struct flow *flow, uint32_t combiner);
int dfi__tree_output(struct flow *flow, uint32_t combiner);

/*
 * Why a stream was not whole, as a combiner passes it on with the mark of its
 * own that has no end: what became of which source, or combiner.
 */
enum tree_fate {
	TREE_UNKNOWN = 0,
	TREE_DIED,
	TREE_ABORTED,
	TREE_NEVER_CAME,
};

/* Of a sender of this part of a flow; and whether it makes sense. */
uint32_t dfi__tree_cause(
    const struct flow *flow, uint32_t sender, enum tree_fate fate);
enum tree_fate dfi__tree_fate(uint32_t cause);

/* "source 3", or "combiner 1". */
void dfi__tree_culprit(uint32_t cause, char *name, size_t size);

#endif

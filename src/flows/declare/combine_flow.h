/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The declaration of a combiner flow: its check, its plan, and the memory of
 * its sources.
 */
#ifndef DFI_FLOWS_DECLARE_COMBINE_FLOW_H
#define DFI_FLOWS_DECLARE_COMBINE_FLOW_H

#include <stdint.h>
#include "flows/aggregate/plan.h"
#include "flows/descriptor/descriptor.h"

struct dfi_flow_attr;

/*
 * Check that a flow from the registry can have results, whoever created it: 0
 * or -EBADMSG.
 */
int dfi__combine_check(const struct flow *flow);

/*
 * Copy the combine attributes into the flow, whose schema and numbers are set.
 * Flows of other kinds must have none. Returns the errors of dfi_flow_create()
 * about them.
 */
int dfi__combine_declare(struct flow *flow, const struct dfi_flow_attr *attr);

/*
 * Decide whether sources combine, from wanted (enum dfi_source_combining) and
 * the geometry. -EINVAL, -EMSGSIZE, -ENOMEM.
 */
int dfi__combine_choose(struct flow *flow, uint32_t wanted);

/* Make the plan of a combiner flow. -EINVAL, -ENOMEM. */
int dfi__combine_plan(const struct flow *flow, struct plan **plan);

/* The memory that each source of the flow needs to combine: 0, or -ENOMEM. */
int dfi__combine_source_bytes(const struct flow *flow, uint64_t *bytes);

/* The memory of a source that combines. */
struct combine_sizes {
	uint64_t stage, table; /* bytes of a lane, in whole cache lines */
	uint32_t max;
	uint64_t all;
};

struct combine_sizes dfi__combine_sizes(
    const struct flow *flow, const struct plan *plan);

/* Bytes of all tables of a source. */
static inline uint64_t combining_bytes(const struct flow *flow)
{
	return flow->combining_bytes ? flow->combining_bytes
				     : DFI_DEFAULT_COMBINING_BYTES;
}

#endif

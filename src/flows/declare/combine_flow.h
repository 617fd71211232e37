/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The declaration of a combine flow: its check, its plan, and what its sources
 * take.
 */
#ifndef DFI_FLOWS_DECLARE_COMBINE_FLOW_H
#define DFI_FLOWS_DECLARE_COMBINE_FLOW_H

#include <stdint.h>
#include "flows/aggregate/plan.h"
#include "flows/descriptor/descriptor.h"

struct dfi_flow_attr;

/*
 * Whether results can be made of a flow that the registry told of, whoever
 * created it: else -EBADMSG.
 */
int dfi__combine_check(const struct flow *flow);

/*
 * Take what the attributes say into the flow, whose schema and numbers are
 * there. What dfi_flow_create() says of them; also for other kinds of flows,
 * which must have none.
 */
int dfi__combine_declare(struct flow *flow, const struct dfi_flow_attr *attr);

/*
 * Whether sources combine, as wanted (enum dfi_source_combining), once the
 * geometry is known. -EINVAL, -EMSGSIZE, -ENOMEM.
 */
int dfi__combine_choose(struct flow *flow, uint32_t wanted);

/* The plan of a combiner flow: -EINVAL, -ENOMEM. */
int dfi__combine_plan(const struct flow *flow, struct plan **plan);

/* The memory of each source of the flow, if its sources combine: 0, -ENOMEM. */
int dfi__combine_source_bytes(const struct flow *flow, uint64_t *bytes);

/* The memory of a source that combines. */
struct combine_sizes {
	uint64_t stage, table; /* of a lane, in whole cache lines */
	uint32_t max;
	uint64_t all;
};

struct combine_sizes dfi__combine_sizes(
    const struct flow *flow, const struct plan *plan);

/* Of all tables of a source. */
static inline uint64_t combining_bytes(const struct flow *flow)
{
	return flow->combining_bytes ? flow->combining_bytes
				     : DFI_DEFAULT_COMBINING_BYTES;
}

#endif

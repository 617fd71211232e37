/* SPDX-License-Identifier: Apache-2.0 */
/* What the ends of replicate flows have beside those of other kinds. */
#ifndef DFI_FLOWS_KINDS_REPLICATE_STATE_H
#define DFI_FLOWS_KINDS_REPLICATE_STATE_H

#include "buffers/merge.h"
#include "buffers/multicast/receiver_ring.h"
#include "flows/endpoint/source.h"
#include "flows/endpoint/target.h"

/* The state of a target. */
struct replicate_target {
	struct merge merge;              /* if the flow is ordered */
	struct receiver_ring *multicast; /* or NULL */
};

static inline struct replicate_target *replicate_of(
    const struct dfi_target *target)
{
	return target->state;
}

/* Make the state, if there is none yet: -ENOMEM. */
int dfi__replicate_target(struct dfi_target *target);

/* The multicast sender, or NULL; a part of the source's shared ring. */
static inline struct sender_ring *sender_of(const struct dfi_source *source)
{
	return source->replica_writer
	    ? source->replica_writer->shared_ring.multicast
	    : NULL;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What consuming needs of waiting. */
#ifndef DFI_FLOWS_ENDPOINT_AWAIT_H
#define DFI_FLOWS_ENDPOINT_AWAIT_H

#include "transport/transport.h"
#include "target.h"

/* Counts what may have changed about the sources. */
static inline uint32_t target_changes(struct dfi_target *target)
{
	const struct export *export = target->region->export;
	uint32_t n = peers_changes(&target->sources);

	/* Pairs with the add where a connection breaks: what it says. */
	return export ? n + atomic_observe(&export->changes) : n;
}

/* Let arrive what the network has for this process; see transport.h. */
static inline void target_progress(
    const struct dfi_target *target, uint32_t looks)
{
	const struct export *export = target->region->export;

	if (unlikely(export != NULL))
		export->transport->ops->progress(export->transport, looks);
}

/* Whether some ring has a segment to take. */
bool dfi__target_has_segment(struct dfi_target *target);

/*
 * Have the descriptor readable when there is something to look at. true: there
 * is now.
 */
bool dfi__target_arm(struct dfi_target *target);

/* There is nothing, and the owner doesn't wait: -EAGAIN, or -ETIMEDOUT. */
int dfi__target_found_none(struct dfi_target *target);

/*
 * Nothing was there a moment ago: look at memory some more, and at the
 * network's queue, before what takes longer: what became of the sources waits
 * while segments come. Whether a ring has one by now; in an ordered flow,
 * false.
 */
bool dfi__target_glance(struct dfi_target *target);

/* Wait for a segment, an end, or a change among the sources: -ETIMEDOUT. */
int dfi__target_wait(struct dfi_target *target);

#endif

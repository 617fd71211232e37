/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows whose segments all targets deliver in one order (docs/replicate.md,
 * "Global order"): a source takes the position of each segment from the flow's
 * sequencer, and targets deliver the segments by position.
 */
#ifndef DFI_FLOWS_KINDS_REPLICATE_ORDER_H
#define DFI_FLOWS_KINDS_REPLICATE_ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include "flows/endpoint/source.h"

struct dfi_target;

/*
 * Prepare a target of an ordered flow, after its rings were made: -ENOMEM.
 * Target 0 creates the sequencer as well, with the errors of
 * dfi__shared_counter_create().
 */
int dfi__order_open_target(struct dfi_target *target);
void dfi__order_close_target(struct dfi_target *target);

/*
 * Find the ring whose segment is next; n_readers: it has not come. An error
 * concerns that ring's source.
 */
int dfi__order_find(struct dfi_target *target, uint32_t *ring);

/*
 * Count n segments as taken or lost. Returns the position of the first, counted
 * from 0.
 */
uint64_t dfi__order_taken(struct dfi_target *target, uint32_t n);

/* See intake_ops. */
int dfi__order_position(const struct dfi_target *target, uint64_t *position);

/* Whether dfi__order_find(), or a look for ends, may have a new result. */
bool dfi__order_changed(const struct dfi_target *target);

/*
 * After a look at all sources: -EBADMSG if the next segment is missing and no
 * source is left that could send it.
 */
int dfi__order_check(const struct dfi_target *target);

/*
 * Open the sequencer for a source, once the targets are attached. The errors
 * are those of dfi__shared_counter_open().
 */
int dfi__order_open_source(struct dfi_source *source, int64_t deadline);
void dfi__order_close_source(struct dfi_source *source);

/* See source_settle() and source_unsettled(). */
int dfi__order_wait(struct dfi_source *source);
int dfi__order_late(const struct dfi_source *source);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows whose segments all targets deliver in one order (docs/replicate.md,
 * "Global order"): a source draws the place of each segment from the flow's
 * sequencer, and a target delivers them by place.
 */
#ifndef DFI_FLOWS_KINDS_REPLICATE_ORDER_H
#define DFI_FLOWS_KINDS_REPLICATE_ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include "flows/endpoint/source.h"

struct dfi_target;

/*
 * A target of an ordered flow, after its rings were made: -ENOMEM. If it is the
 * first, it also reserves the sequencer, what dfi__shared_counter_create()
 * returns.
 */
int dfi__order_open_target(struct dfi_target *target);
void dfi__order_close_target(struct dfi_target *target);

/*
 * The ring whose segment is due, n_readers if none is there. An error is of the
 * ring's source.
 */
int dfi__order_find(struct dfi_target *target, uint32_t *ring);

/*
 * What was due was taken: one segment, or so many that were lost. The place in
 * the order of the first, counted from 0.
 */
uint64_t dfi__order_taken(struct dfi_target *target, uint32_t n);

/* Whether dfi__order_find(), or who looks for ends, may find something new. */
bool dfi__order_changed(const struct dfi_target *target);

/*
 * After all sources were looked at: -EBADMSG if what is due is missing, and
 * nobody is left who could send it.
 */
int dfi__order_check(const struct dfi_target *target);

/*
 * A source of an ordered flow, once the targets are there: what
 * dfi__shared_counter_open() returns.
 */
int dfi__order_open_source(struct dfi_source *source, int64_t deadline);
void dfi__order_close_source(struct dfi_source *source);

/* See source_settle() and source_unsettled(). */
int dfi__order_wait(struct dfi_source *source);
int dfi__order_late(const struct dfi_source *source);

#endif

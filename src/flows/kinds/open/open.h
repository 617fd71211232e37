/* SPDX-License-Identifier: Apache-2.0 */
/* Opening the sources and targets of open flows. */
#ifndef DFI_FLOWS_KINDS_OPEN_OPEN_H
#define DFI_FLOWS_KINDS_OPEN_OPEN_H

#include <dfi/source.h>
#include <dfi/target.h>
#include "flows/endpoint/kind.h"

struct dfi;
struct flow;
struct wait_policy;

/*
 * The row of endpoints of open flows, whatever their flow's kind, except
 * sources of replicate flows, which have one lane, and combiner flows.
 */
extern const struct kind dfi__open_kind, dfi__open_replicate_kind,
    dfi__open_combine_kind;

/* Its entries. */
int dfi__open_source_leave(
    struct dfi_source *source, uint64_t flag, int64_t deadline);
void dfi__open_source_close(struct dfi_source *source);
int dfi__open_target_next(struct dfi_target *target);
void dfi__open_target_leave(struct dfi_target *target);
int dfi__open_target_cancel(struct dfi_target *target);
void dfi__open_source_describe(
    const struct dfi_source *source, struct dfi_endpoint_stats *stats);
void dfi__open_target_describe(
    const struct dfi_target *target, struct dfi_endpoint_stats *stats);
int dfi__open_target_take_event(
    struct dfi_target *target, struct dfi_event *event);

/*
 * As dfi__source_open() and dfi__target_open(), for a flow that is open. index
 * may be DFI_ANY_SEAT.
 */
int dfi__open_source_open(struct dfi *dfi, struct flow *flow, uint32_t index,
    const struct dfi_source_attr *attr, const struct wait_policy *wait,
    int64_t deadline, struct dfi_source **source);
int dfi__open_target_open(struct dfi *dfi, struct flow *flow, uint32_t index,
    const struct dfi_target_attr *attr, const struct wait_policy *wait,
    int64_t deadline, struct dfi_target **target);

#endif

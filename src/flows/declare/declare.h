/* SPDX-License-Identifier: Apache-2.0 */
/* From a flow's attributes to its descriptor and its memory. */
#ifndef DFI_FLOWS_DECLARE_DECLARE_H
#define DFI_FLOWS_DECLARE_DECLARE_H

#include <stdint.h>
#include <dfi/flow.h>

struct dfi;
struct flow;

/*
 * Check attributes and choose the geometry. The flow has no instance yet. After
 * success the caller frees it. name is for texts. Returns the errors of
 * dfi_flow_create() about the declaration.
 */
int dfi__flow_declare(struct dfi *dfi, const char *name,
    const struct dfi_flow_attr *attr, struct flow *flow);

/*
 * Delete the tables of an open flow (docs/open-flows.md), unless somebody has a
 * seat of it. Best effort: a key that stays harms nobody.
 */
void dfi__flow_forget_tables(
    struct dfi *dfi, const char *name, int64_t deadline);

/*
 * Count bytes for the rings of an endpoint against the context's limit, before
 * they are reserved. -ENOMEM, and nothing is counted. flow, role and index name
 * the endpoint in the text.
 */
int dfi__ring_memory_take(struct dfi *dfi, uint64_t bytes, const char *flow,
    const char *role, uint32_t index);
void dfi__ring_memory_return(struct dfi *dfi, uint64_t bytes);

#endif

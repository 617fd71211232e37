/* SPDX-License-Identifier: Apache-2.0 */
/* From a flow's attributes to what is published, and to what it takes. */
#ifndef DFI_FLOWS_DECLARE_DECLARE_H
#define DFI_FLOWS_DECLARE_DECLARE_H

#include <stdint.h>
#include <dfi/flow.h>

struct dfi;
struct flow;

/*
 * Check attributes and choose the geometry; the flow has no instance yet. The
 * caller frees it, after success only. name is for texts. What
 * dfi_flow_create() returns of a declaration.
 */
int dfi__flow_declare(struct dfi *dfi, const char *name,
    const struct dfi_flow_attr *attr, struct flow *flow);

/*
 * Count bytes for the rings of an endpoint towards the context's bound, before
 * they are reserved. -ENOMEM, then nothing is counted: what names the endpoint.
 */
int dfi__ring_memory_take(struct dfi *dfi, uint64_t bytes, const char *flow,
    const char *role, uint32_t index);
void dfi__ring_memory_return(struct dfi *dfi, uint64_t bytes);

#endif

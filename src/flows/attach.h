/* SPDX-License-Identifier: Apache-2.0 */
/* What sources and targets have in common: attaching to a flow by its name. */
#ifndef DFI_FLOWS_ATTACH_H
#define DFI_FLOWS_ATTACH_H

#include <stdint.h>
#include "descriptor.h"

struct dfi;

/*
 * Wait until the flow is published, and take its descriptor; checks index and,
 * if schema isn't NULL, the schema. The caller frees *flow.
 */
int dfi__attach_find(struct dfi *dfi, const char *name, const char *role,
    uint32_t index, const struct dfi_schema *schema, int64_t deadline,
    struct flow *flow);

/* Publish this context's endpoint; -EEXIST if the index is taken. */
int dfi__attach_claim(struct dfi *dfi, const struct flow *flow,
    const char *role, uint32_t index, const struct region *region,
    const struct remote *remote, int64_t deadline);

/*
 * Publish that this context's target, attached before, wants no more tuples.
 */
int dfi__attach_cancel(struct dfi *dfi, const struct flow *flow, uint32_t index,
    const struct region *region, int64_t deadline);

/* Withdraw it, without waiting and without touching dfi_errmsg(). */
void dfi__attach_leave(
    struct dfi *dfi, const struct flow *flow, const char *role, uint32_t index);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The declaration of open flows, and calls that finish one or assign owners. */
#ifndef DFI_FLOWS_DECLARE_OPEN_FLOW_H
#define DFI_FLOWS_DECLARE_OPEN_FLOW_H

#include <dfi/flow.h>

struct dfi;
struct flow;

/*
 * Check the open part of a declaration, whose other members the flow has
 * already, and copy it to the flow. -EINVAL, -E2BIG, -EOPNOTSUPP.
 */
int dfi__open_declare(
    const struct dfi *dfi, struct flow *flow, const struct dfi_flow_attr *attr);

/*
 * dfi__flow_ways() of a declaration that was not checked; at most
 * DFI_MAX_PARTITIONS or n_targets.
 */
uint32_t dfi__open_ways(const struct dfi_flow_attr *attr);

/* A flow of that name: 0, -ENOENT, or an error of the registry. */
int dfi__open_get_flow(
    struct dfi *dfi, const char *name, int64_t deadline, struct flow *flow);

/* -EPERM: another context has created it, and it is not persistent. */
int dfi__open_check_creator(
    const struct dfi *dfi, const struct flow *flow, const char *does);

#endif

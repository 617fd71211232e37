/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The declaration of a flow whose segments are datagrams to a group: its group,
 * the sizes that fit, and what its ports take.
 */
#ifndef DFI_FLOWS_DECLARE_MULTICAST_FLOW_H
#define DFI_FLOWS_DECLARE_MULTICAST_FLOW_H

#include <stdbool.h>
#include <stdint.h>
#include "buffers/multicast/end.h"
#include "transport/multicast.h"

struct dfi;
struct dfi_flow_attr;
struct flow;

/*
 * The group, as declared or chosen, and the largest datagrams of this context's
 * device: 0 if it has none, or the flow has no datagrams. -EINVAL, -EIO.
 */
int dfi__cast_declare(struct dfi *dfi, const struct dfi_flow_attr *attr,
    struct flow *flow, uint32_t *largest);

/* Bytes of tuples for which a datagram of this size has room. */
uint32_t dfi__cast_room(const struct flow *flow, uint32_t datagram);

/*
 * Whether the segments fit datagrams of that size, or, with 0, of any device:
 * -EMSGSIZE with the limit.
 */
int dfi__cast_check(const struct flow *flow, uint32_t largest);

/*
 * What the ports of a target and of a source take and lock beside the ring that
 * a source sends from, at this context's device, if it has one.
 */
void dfi__cast_port_bytes(struct dfi *dfi, const struct flow *flow,
    uint64_t *target, uint64_t *source);

/* What both ends of the flow have; no device yet. */
struct cast_config dfi__cast_describe(const struct flow *flow);

/* The port of a target, or else of a source, which sends from its ring. */
struct multicast_attr dfi__cast_port(
    struct dfi *dfi, const struct flow *flow, bool target);

/* Files that each endpoint keeps open for its port. */
#define CAST_FILES 3

#endif

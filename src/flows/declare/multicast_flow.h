/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The declaration of a flow whose segments are datagrams to a multicast group:
 * its group, the sizes that fit, and the needs of its datagram endpoints.
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
 * Set the group, declared or chosen. *largest is the largest datagram of this
 * context's device; 0 if it has none, or the flow has no datagrams. -EINVAL,
 * -EIO.
 */
int dfi__multicast_flow_declare(struct dfi *dfi,
    const struct dfi_flow_attr *attr, struct flow *flow, uint32_t *largest);

/* The bytes of tuples that fit a datagram of this size. */
uint32_t dfi__multicast_flow_room(const struct flow *flow, uint32_t datagram);

/*
 * Check that segments fit datagrams of this size, or, with 0, those of any
 * device: -EMSGSIZE with the limit.
 */
int dfi__multicast_flow_check(const struct flow *flow, uint32_t largest);

/*
 * The bytes that the datagram endpoints of a target and of a source take and
 * lock, without the ring that a source sends from. Without a device, the limits
 * of the first transport with multicast apply. -EOPNOTSUPP: none has. -ENODEV:
 * its module can't be used.
 */
int dfi__multicast_flow_bytes(struct dfi *dfi, const struct flow *flow,
    uint64_t *target, uint64_t *source);

/*
 * Targets that a source of an open flow has for each seat: the next holder is
 * there before the last one is forgotten.
 */
#define MULTICAST_SEAT_TARGETS 2

/*
 * The configuration that both ends of the flow share, without a device. Of a
 * source of an open flow it lacks flow.instance, which is its incarnation.
 */
struct multicast_config dfi__multicast_flow_config(const struct flow *flow);

/*
 * The attributes of the datagram endpoint of a target, or of a source, which
 * sends from its ring.
 */
struct multicast_attr dfi__multicast_flow_endpoint(
    struct dfi *dfi, const struct flow *flow, bool target);

/* Files that a source or target keeps open for its datagram endpoint. */
#define MULTICAST_FILES 3

#endif

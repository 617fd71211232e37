/* SPDX-License-Identifier: Apache-2.0 */
/* Flows whose segments are datagrams to a multicast group, over RDMA. */
#ifndef DFI_FLOWS_KINDS_REPLICATE_MULTICAST_H
#define DFI_FLOWS_KINDS_REPLICATE_MULTICAST_H

#include <stdbool.h>
#include <stdint.h>

struct dfi;
struct dfi_source;
struct dfi_target;
struct flow;
struct multicast_config;
struct remote;

/* The configuration that both ends share, and the device. */
int dfi__multicast_configure(
    struct dfi *dfi, const struct flow *flow, struct multicast_config *config);

/*
 * Reserve room for the datagram endpoint of a source or target. Receive buffers
 * count as rings.
 */
int dfi__multicast_take_room(struct dfi *dfi, const struct flow *flow,
    uint32_t index, bool target, uint64_t *ring_memory);

/* ---- A source ---------------------------------------------------------- */

/*
 * Reserve room for the datagram endpoint, before all else. -ENOMEM, and the
 * errors of the network.
 */
int dfi__source_multicast_room(struct dfi_source *source);

/*
 * Open the datagram endpoint, once the replica writer exists. The errors are
 * those of dfi__sender_ring_open() and of the network.
 */
int dfi__source_multicast_open(struct dfi_source *source, int64_t deadline);

/*
 * Once both sides are published: wait until each target has answered. The
 * answers prove that datagrams arrive, and that they are from the first source
 * of this index. -EEXIST, -ETIMEDOUT, -ECONNRESET.
 */
int dfi__source_multicast_greet(struct dfi_source *source, int64_t deadline);

/* The remote of a target's ring; NULL: the flow has no datagrams. */
struct remote *dfi__source_multicast_ring(
    struct dfi_source *source, uint32_t target);

/* The source goes on without this target. */
void dfi__source_multicast_forget(struct dfi_source *source, uint32_t target);

/* Report the registry's state of the targets to the protocol. */
void dfi__source_multicast_look(struct dfi_source *source);

/* The source sends nothing more. Call it before its targets are forgotten. */
void dfi__source_multicast_stop(struct dfi_source *source);
/* Call it when the rings are unused, before the replica writer is freed. */
void dfi__source_multicast_close(struct dfi_source *source);

/* ---- A target ---------------------------------------------------------- */

/*
 * Reserve room, and join the multicast group once the rings are ready. The
 * errors are those of a source.
 */
int dfi__target_multicast_room(struct dfi_target *target);
int dfi__target_multicast_open(struct dfi_target *target, int64_t deadline);

/* See intake_ops. */
bool dfi__target_multicast_follows(struct dfi_target *target, uint32_t source);
void dfi__target_multicast_stop(struct dfi_target *target);

#endif

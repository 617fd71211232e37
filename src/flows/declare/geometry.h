/* SPDX-License-Identifier: Apache-2.0 */
/* The default geometry of a flow's rings. */
#ifndef DFI_FLOWS_DECLARE_GEOMETRY_H
#define DFI_FLOWS_DECLARE_GEOMETRY_H

#include <stdint.h>

struct dfi;
struct flow;

/*
 * Choose segment_size and segment_count where the flow leaves them open (0), by
 * DFI_RING_MEMORY, or else the caches of this machine. datagram: if segments
 * travel in datagrams, the largest that there are; 0: nothing is known of them.
 */
void dfi__geometry_choose(
    const struct dfi *dfi, struct flow *flow, uint32_t datagram);

/*
 * The payload bytes of one ring of n_sources x n_targets on a machine with this
 * much second-level cache a core (0: unknown).
 */
uint64_t dfi__geometry_ring_bytes(
    uint64_t l2_bytes, uint32_t n_sources, uint32_t n_targets);

/*
 * The same of a ring that all targets read: what a ring for each would take
 * together, but at most the flow's share. A source that waits for the slowest
 * fills what that one has read last: in a small ring, lines of its caches.
 */
uint64_t dfi__geometry_broadcast_bytes(
    uint64_t l2_bytes, uint32_t n_sources, uint32_t n_targets);

#endif

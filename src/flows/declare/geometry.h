/* SPDX-License-Identifier: Apache-2.0 */
/* The default geometry of a flow's rings. */
#ifndef DFI_FLOWS_DECLARE_GEOMETRY_H
#define DFI_FLOWS_DECLARE_GEOMETRY_H

#include <stdint.h>

struct dfi;
struct flow;

/*
 * Choose segment_size and segment_count where they are 0, from DFI_RING_MEMORY,
 * or else from the caches of this machine. datagram is the largest datagram if
 * segments travel in datagrams; 0: unknown.
 */
void dfi__geometry_choose(
    const struct dfi *dfi, struct flow *flow, uint32_t datagram);

/*
 * The segments of the ring of a pair, by default, in a flow whose sources move
 * to shared rings of that many.
 */
uint32_t dfi__geometry_pair_segments(uint32_t shared_segments);

/*
 * The payload bytes of one ring of n_sources x n_targets. l2_bytes is a core's
 * second-level cache, 0 if unknown.
 */
uint64_t dfi__geometry_ring_bytes(
    uint64_t l2_bytes, uint32_t n_sources, uint32_t n_targets);

/*
 * Likewise for a shared ring: the sum of a ring for each target, but at most
 * the flow's share. A source that waits for the slowest target fills the slots
 * that this target has read last; in a small ring their lines are in the
 * target's caches.
 */
uint64_t dfi__geometry_shared_ring_bytes(
    uint64_t l2_bytes, uint32_t n_sources, uint32_t n_targets);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default size of rings. Where two cores have a second-level cache each, a
 * ring larger than both is twice as fast as a smaller one: its lines reach the
 * third level before the other side reads them, so that core need not be asked.
 * If many rings together exceed the third level, all are slow. So few rings are
 * large, and many are small. docs/decisions/0005-default-geometry.md has the
 * figures, 0041-many-targets.md those of many targets.
 */
#include "geometry.h"

#include <unistd.h>
#include "base/bits.h"
#include "base/memory.h"
#include "multicast_flow.h"
#include "flows/context/context.h"
#include "flows/descriptor/descriptor.h"
#include "flows/context/network.h"

#define MIB (UINT64_C(1) << 20)

#define USUAL_L2_BYTES MIB /* if the system does not tell */
#define MIN_RING_BYTES MIB /* if nothing limits the ring */
#define MAX_RING_BYTES (8 * MIB)
#define FLOW_BYTES (16 * MIB) /* of a flow: half of a usual third level */
#define TARGET_BYTES MIB      /* a target's share, however large its flow is */
#define SHARE_BYTES (MIB / 8) /* most of that share that a ring takes */

enum {
	MIN_SEGMENTS = 4,
	PAIR_FRACTION = 8,
	SEGMENTS = 16,
	SMALL_SEGMENT = 4096,     /* rather fewer segments than smaller ones */
	LARGE_SEGMENT = 64 << 10, /* rather more segments than larger ones */
	LATENCY_SEGMENTS = 1024,
	/* The RDMA MTU on Ethernet with its usual MTU of 1500. */
	USUAL_DATAGRAM = 1024,
	/*
	 * More segments than a network has in flight. A target has twice as
	 * many receives.
	 */
	DATAGRAMS = 256,
	/*
	 * A target takes this fraction of the memory that the process may lock.
	 */
	LOCKED_SHARE = 8,
};

uint64_t dfi__geometry_ring_bytes(
    uint64_t l2_bytes, uint32_t n_sources, uint32_t n_targets)
{
	uint64_t ring = 4 * (l2_bytes ? l2_bytes : USUAL_L2_BYTES);
	uint64_t share = max_u64(FLOW_BYTES / ((uint64_t)n_sources * n_targets),
	    min_u64(TARGET_BYTES / n_sources, SHARE_BYTES));

	ring = min_u64(max_u64(ring, MIN_RING_BYTES), MAX_RING_BYTES);
	return min_u64(ring, share);
}

uint64_t dfi__geometry_shared_ring_bytes(
    uint64_t l2_bytes, uint32_t n_sources, uint32_t n_targets)
{
	uint64_t one = dfi__geometry_ring_bytes(l2_bytes, n_sources, 1);
	uint64_t all = n_targets *
	    dfi__geometry_ring_bytes(l2_bytes, n_sources, n_targets);

	return max_u64(one, min_u64(all, FLOW_BYTES / n_sources));
}

static uint64_t share(uint64_t l2_bytes, const struct flow *flow,
    uint32_t n_sources, uint32_t n_targets)
{
	if (flow_has_shared_ring(flow) || flow_moves(flow))
		return dfi__geometry_shared_ring_bytes(
		    l2_bytes, n_sources, n_targets);
	/*
	 * Each target of a multicast group has its own rings, but a source
	 * sends once.
	 */
	if (flow_is_multicast(flow))
		n_targets = 1;
	return dfi__geometry_ring_bytes(l2_bytes, n_sources, n_targets);
}

static uint64_t ring_bytes(const struct dfi *dfi, const struct flow *flow)
{
	long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
	uint64_t l2_bytes = l2 > 0 ? (uint64_t)l2 : 0;
	uint32_t n_sources = flow->n_sources, n_targets = flow->n_targets;
	uint64_t bytes, limit;

	/*
	 * In a tree the targets of sources are combiners, with at most fan_in
	 * sources each.
	 */
	if (flow->fan_in) {
		n_targets = (n_sources + flow->fan_in - 1) / flow->fan_in;
		n_sources = (uint32_t)min_u64(n_sources, flow->fan_in);
	}
	if (dfi->settings.ring_memory)
		return dfi->settings.ring_memory / n_sources;
	bytes = share(l2_bytes, flow, n_sources, n_targets);
	if (dfi__network_may_be_needed(dfi, flow)) {
		dfi__memory_lock_room(&limit);
		bytes = min_u64(bytes, limit / LOCKED_SHARE / n_sources);
	}
	return bytes;
}

/* Round down to whole tuples, at least one. */
static uint32_t whole_tuples(uint64_t bytes, uint32_t tuple_size)
{
	uint64_t tuples = max_u64(bytes / tuple_size, 1);

	return (uint32_t)(tuples * tuple_size);
}

/* Choose a geometry in which each segment fits a datagram. */
static void choose_datagrams(
    struct flow *flow, uint64_t bytes, uint32_t largest)
{
	uint32_t tuple_size = flow->schema->tuple_size;
	uint32_t room = dfi__multicast_flow_room(
	    flow, largest ? largest : (uint32_t)USUAL_DATAGRAM);
	uint64_t count;

	if (!flow->segment_size)
		flow->segment_size = flow->goal == DFI_LATENCY
		    ? tuple_size
		    : whole_tuples(room, tuple_size);
	count = min_u64(bytes / flow->segment_size, DATAGRAMS);
	if (!flow->segment_count)
		flow->segment_count = (uint32_t)max_u64(count, MIN_SEGMENTS);
}

/* The source sends there only until a shared ring is made. */
uint32_t dfi__geometry_pair_segments(uint32_t shared_segments)
{
	uint64_t n = max_u64(shared_segments / PAIR_FRACTION, MIN_SEGMENTS);

	return (uint32_t)min_u64(n, shared_segments);
}

void dfi__geometry_choose(
    const struct dfi *dfi, struct flow *flow, uint32_t datagram)
{
	uint32_t tuple_size = flow->schema->tuple_size;
	uint64_t bytes, count;

	if (flow->segment_size && flow->segment_count)
		return;
	bytes = ring_bytes(dfi, flow);
	if (flow_is_multicast(flow)) {
		choose_datagrams(flow, bytes, datagram);
		return;
	}
	count = flow->segment_count;
	if (!count) {
		count = max_u64(MIN_SEGMENTS, bytes / SMALL_SEGMENT);
		count = min_u64(count, SEGMENTS);
		count = max_u64(count, bytes / LARGE_SEGMENT);
		count = min_u64(count, DFI_MAX_SEGMENT_COUNT);
	}
	if (!flow->segment_size)
		flow->segment_size = flow->goal == DFI_LATENCY
		    ? tuple_size
		    : whole_tuples(min_u64(bytes / count, DFI_MAX_SEGMENT_SIZE),
			  tuple_size);
	if (flow->segment_count)
		return;
	if (flow->goal == DFI_LATENCY)
		count = min_u64(LATENCY_SEGMENTS,
		    bytes / dfi__flow_tuple_geometry(flow).slot_size);
	else if (dfi->settings.ring_memory)
		count = min_u64(
		    DFI_MAX_SEGMENT_COUNT, bytes / flow->segment_size);
	else
		count = min_u64(count, bytes / flow->segment_size);
	flow->segment_count = (uint32_t)max_u64(count, 2);
}

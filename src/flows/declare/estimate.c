/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resources of a flow: estimated before it is created, and counted against
 * the context's limit when an endpoint opens.
 */
#include <string.h>
#include "base/bits.h"
#include "base/error.h"
#include "buffers/replica_writer.h"
#include "transport/transport.h"
#include "flows/context/context.h"
#include "combine_flow.h"
#include "declare.h"
#include "multicast_flow.h"
#include "flows/descriptor/descriptor.h"
#include "flows/context/network.h"
#include "flows/context/shared_counter.h"
#include "tree.h"

/*
 * Each peer may be a process of its own. Count all peers of the other side; or,
 * for a context with endpoints of both sides, all but one of each side.
 */
static uint32_t most_processes(const struct flow *flow)
{
	uint32_t both = flow->n_sources + flow->n_targets - 2;
	uint32_t n_combiners = dfi__tree_size(flow);
	uint32_t one = flow->n_sources > flow->n_targets ? flow->n_sources
							 : flow->n_targets;

	/* A context may have ends of any part of a tree. */
	if (n_combiners)
		return both + 1 + n_combiners;
	return both > one ? both : one;
}

/* The bytes that an end of a part reserves for its incoming rings. */
static uint64_t rings_bytes(const struct dfi *dfi, const struct flow *part)
{
	struct ring_geometry geometry = dfi__flow_geometry(part);

	return dfi->transport->ops->region.bytes(
	    dfi->transport, region_size(&geometry, part->n_sources));
}

/* The bytes of memory from which a device sends this many. */
static uint64_t locked_bytes(const struct dfi *dfi, uint64_t size)
{
	return transport_shadow_bytes(
	    size, dfi->settings.huge_pages == HUGE_PAGES_REQUIRE);
}

/*
 * The bytes of a shadow ring. A replicate flow builds segments in a send
 * buffer.
 */
static uint64_t shadow_bytes(const struct dfi *dfi, const struct flow *part)
{
	struct ring_geometry geometry = dfi__flow_geometry(part);
	struct ring_layout layout = ring_layout(&geometry, part->n_sources);

	return locked_bytes(
	    dfi, transport_shadow_size(&layout, part->kind == DFI_REPLICATE));
}

/* The receives of an end of a part whose incoming rings a device writes. */
static uint64_t receives(const struct flow *part)
{
	struct ring_geometry geometry = dfi__flow_geometry(part);
	struct ring_layout layout = ring_layout(&geometry, part->n_sources);

	return transport_region_receives(&layout);
}

/*
 * The needs of a part of a flow with a tree: of a combiner's inputs, or of a
 * target, whose number is the number of combiners. The shadow rings are those
 * of its senders.
 */
struct part_bytes {
	uint64_t rings, shadows, receives;
};

static int fill_part(const struct dfi *dfi, const struct flow *flow,
    uint32_t combiner, struct part_bytes *bytes)
{
	struct flow part;
	int ret = dfi__flow_copy(flow, &part);

	if (ret < 0)
		return ret;
	ret = combiner < dfi__tree_size(flow) ? dfi__tree_input(&part, combiner)
					      : dfi__tree_target(&part);
	if (!ret) {
		bytes->rings = rings_bytes(dfi, &part);
		bytes->shadows = shadow_bytes(dfi, &part);
		bytes->receives = receives(&part);
	}
	dfi__flow_free(&part);
	return ret;
}

/*
 * The members that are 0 without RDMA. A combiner sends to the one above it, or
 * to all targets.
 */
static void fill_tree_network(const struct flow *flow,
    const struct part_bytes *first, const struct part_bytes *above,
    const struct part_bytes *target, struct dfi_flow_needs *estimate)
{
	uint64_t lowest = dfi__tree_top(flow) ? 1 : flow->n_targets;

	estimate->shadow_bytes = first->shadows;
	estimate->combiner_shadow_bytes = target->shadows;
	estimate->source_queue_pairs = 1;
	estimate->target_receives = target->receives;
	estimate->source_receives = TRANSPORT_RING_RECEIVES;
	estimate->combiner_receives = max_u64(
	    first->receives + lowest * TRANSPORT_RING_RECEIVES,
	    above->receives + flow->n_targets * TRANSPORT_RING_RECEIVES);
}

/* The first combiner of a level has the most inputs of that level. */
static int fill_tree(const struct dfi *dfi, const struct flow *flow,
    uint32_t transport, struct dfi_flow_needs *estimate)
{
	uint32_t n = dfi__tree_size(flow), top = dfi__tree_top(flow);
	struct part_bytes first, above, target;
	int ret = fill_part(dfi, flow, 0, &first);

	above = first;
	if (!ret && top)
		ret = fill_part(dfi, flow, top, &above);
	if (!ret)
		ret = fill_part(dfi, flow, n, &target);
	if (ret < 0)
		return ret;
	estimate->combiner_bytes = max_u64(first.rings, above.rings);
	estimate->target_bytes = target.rings;
	estimate->n_combiners = n;
	/*
	 * A source or lower combiner sends into one ring. A combiner of the top
	 * level sends into one ring for each target.
	 */
	estimate->rings = flow->n_sources + top +
	    (uint64_t)(n - top) * flow->n_targets;
	if (!transport_is_memory(transport))
		fill_tree_network(flow, &first, &above, &target, estimate);
	return 0;
}

/* A source sees only its part of a tree: one combiner as target. */
static int combine_source_bytes(const struct flow *flow, uint64_t *bytes)
{
	struct flow part = *flow;
	int ret = dfi__tree_source(&part, 0);

	return ret < 0 ? ret : dfi__combine_source_bytes(&part, bytes);
}

/* The members that are 0 without RDMA. */
static int fill_network(
    struct dfi *dfi, const struct flow *flow, struct dfi_flow_needs *estimate)
{
	struct ring_geometry geometry = dfi__flow_geometry(flow);
	int ret;

	/* The sequencer has its own queue pair and its own receives. */
	estimate->source_queue_pairs = flow->ordered;
	estimate->source_receives = flow->ordered * TRANSPORT_RING_RECEIVES;
	if (flow->ordered)
		estimate->sequencer_shadow_bytes =
		    dfi__shared_counter_shadow_bytes(dfi);
	if (flow_is_multicast(flow)) {
		ret = dfi__multicast_flow_bytes(dfi, flow,
		    &estimate->target_datagram_bytes,
		    &estimate->source_datagram_bytes);
		if (ret < 0)
			return ret;
		estimate->target_bytes += estimate->target_datagram_bytes;
		estimate->source_bytes += estimate->source_datagram_bytes;
		estimate->target_descriptors += MULTICAST_FILES;
		estimate->source_descriptors += MULTICAST_FILES;
		estimate->source_queue_pairs++;
		return 0;
	}
	estimate->shadow_bytes = shadow_bytes(dfi, flow);
	if (flow->kind == DFI_REPLICATE)
		estimate->send_buffer_bytes = locked_bytes(
		    dfi, dfi__replica_send_buffer_size(&geometry));
	estimate->source_queue_pairs += flow->n_targets;
	estimate->target_receives = receives(flow);
	estimate->source_receives += flow->n_targets * TRANSPORT_RING_RECEIVES;
	return 0;
}

/*
 * The files with which an endpoint of an open flow sleeps; its rings are in one
 * region a pair.
 */
#define OPEN_FILES 3

/*
 * A source sends to all targets by one datagram endpoint. A target has a ring
 * and an endpoint for each source.
 */
static int fill_open_multicast(struct dfi *dfi, const struct flow *flow,
    const struct flow *pair, struct dfi_flow_needs *estimate)
{
	uint64_t of_pair, unused;
	int ret = dfi__multicast_flow_bytes(
	    dfi, flow, &unused, &estimate->source_datagram_bytes);

	if (!ret)
		ret = dfi__multicast_flow_bytes(dfi, pair, &of_pair, &unused);
	if (ret < 0)
		return ret;
	estimate->pair_bytes += of_pair;
	estimate->target_datagram_bytes = of_pair * flow->n_sources;
	estimate->target_bytes = estimate->pair_bytes * flow->n_sources;
	estimate->source_bytes += estimate->source_datagram_bytes;
	estimate->source_queue_pairs = 1;
	estimate->target_descriptors = OPEN_FILES +
	    flow->n_sources * (1 + MULTICAST_FILES);
	estimate->source_descriptors = OPEN_FILES + MULTICAST_FILES;
	return 0;
}

/* A pair is a closed flow of one ring; each side has one for each seat. */
static int fill_open(struct dfi *dfi, const struct flow *flow,
    uint32_t transport, struct dfi_flow_needs *estimate)
{
	struct ring_geometry slots;
	uint32_t counters = 0;
	struct flow pair;
	int ret = dfi__flow_pair(flow, 0, 0, 1, 1, &pair);

	if (ret < 0)
		return ret;
	estimate->pair_bytes = rings_bytes(dfi, &pair);
	if (flow_moves(flow)) {
		slots = ring_geometry_moved(
		    dfi__flow_slots_geometry(flow), flow->segment_count);
		estimate->source_bytes += dfi__replica_bytes(
		    dfi->transport, &slots);
	}
	if (flow_is_multicast(flow))
		ret = fill_open_multicast(dfi, flow, &pair, estimate);
	else if (!transport_is_memory(transport))
		ret = fill_network(dfi, &pair, estimate);
	dfi__flow_free(&pair);
	if (flow_is_multicast(flow))
		return ret;
	estimate->target_bytes = estimate->pair_bytes * flow->n_sources;
	estimate->target_receives *= flow->n_sources;
	/* One counter for all pairs. */
	if (flow->ordered && estimate->source_queue_pairs) {
		estimate->source_receives -= TRANSPORT_RING_RECEIVES;
		estimate->source_queue_pairs--;
		counters = 1;
	}
	estimate->source_receives = estimate->source_receives *
		flow->n_targets +
	    counters * TRANSPORT_RING_RECEIVES;
	estimate->source_queue_pairs =
	    estimate->source_queue_pairs * flow->n_targets + counters;
	estimate->target_descriptors = OPEN_FILES + flow->n_sources;
	estimate->source_descriptors = OPEN_FILES;
	return ret;
}

static int fill(
    struct dfi *dfi, const struct flow *flow, struct dfi_flow_needs *estimate)
{
	bool multicast = flow->replication == DFI_REPLICATION_MULTICAST;
	struct ring_geometry slots = dfi__flow_slots_geometry(flow);
	struct ring_geometry geometry = dfi__flow_geometry(flow);
	uint32_t transport = flow->transport ? flow->transport
					     : dfi->settings.transport;
	int ret = 0;

	memset(estimate, 0, sizeof(*estimate));
	estimate->segment_size = flow->segment_size;
	estimate->segment_count = flow->segment_count;
	estimate->rings = (uint64_t)flow->n_sources *
	    (flow_has_shared_ring(flow) ? 1 : flow->n_targets);
	estimate->ring_payload_bytes = (uint64_t)geometry.segment_bytes *
	    flow->segment_count;
	estimate->ring_bytes = slots.ring_size;
	estimate->target_bytes = rings_bytes(dfi, flow);
	estimate->target_descriptors = 1;
	estimate->source_descriptors = multicast && !flow->membership;
	estimate->process_descriptors = most_processes(flow);
	estimate->transport = transport;
	estimate->replication = flow->replication;
	if (flow->ordered)
		estimate->sequencer_bytes = dfi__shared_counter_bytes(dfi);
	if (flow->kind == DFI_REPLICATE)
		estimate->source_bytes = dfi__replica_bytes(
		    multicast && !flow->membership ? dfi->transport : NULL,
		    &slots);
	if (flow->kind == DFI_COMBINE)
		ret = combine_source_bytes(flow, &estimate->source_bytes);
	if (!transport_is_memory(transport))
		estimate->devices = dfi__network_count(
		    dfi, (enum dfi_transport)transport);
	if (!ret && flow->membership)
		return fill_open(dfi, flow, transport, estimate);
	if (!ret && flow->fan_in)
		return fill_tree(dfi, flow, transport, estimate);
	if (!ret && !transport_is_memory(transport))
		ret = fill_network(dfi, flow, estimate);
	return ret;
}

int dfi_flow_estimate(struct dfi *dfi, const struct dfi_flow_attr *attr,
    struct dfi_flow_needs *estimate)
{
	struct flow flow;
	CONTEXT_USE(dfi, ret);

	if (!ret && !estimate)
		ret = dfi__fail(-EINVAL, "dfi_flow_estimate: estimate is NULL");
	if (!ret)
		ret = dfi__flow_declare(dfi, "(estimate)", attr, &flow);
	if (ret < 0)
		return ret;
	ret = fill(dfi, &flow, estimate);
	dfi__flow_free(&flow);
	return ret;
}

int dfi__ring_memory_take(struct dfi *dfi, uint64_t bytes, const char *flow,
    const char *role, uint32_t index)
{
	uint64_t limit = dfi->settings.ring_memory_limit;
	uint64_t taken = atomic_load(&dfi->ring_memory);

	do {
		if (bytes > limit || taken > limit - bytes)
			return dfi__fail(-ENOMEM,
			    "flow '%s': %s %u: %lu bytes for rings, but %lu "
			    "are taken of the %lu that this context may have: "
			    "raise DFI_RING_MEMORY_LIMIT, close endpoints, or "
			    "make rings smaller (segment_count, "
			    "DFI_RING_MEMORY)",
			    flow, role, index, (unsigned long)bytes,
			    (unsigned long)taken, (unsigned long)limit);
	} while (!atomic_compare_exchange_weak(
	    &dfi->ring_memory, &taken, taken + bytes));
	return 0;
}

void dfi__ring_memory_return(struct dfi *dfi, uint64_t bytes)
{
	atomic_fetch_sub(&dfi->ring_memory, bytes);
}

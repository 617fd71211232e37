/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a flow takes: computed before it is created, and counted against the
 * context's bound when an endpoint opens.
 */
#include <string.h>
#include "../base/error.h"
#include "../buffers/fan.h"
#include "../transport/transport.h"
#include "cast.h"
#include "combine_source.h"
#include "context.h"
#include "declare.h"
#include "descriptor.h"

/*
 * Each peer may be a process of its own: all of the other side's, or, for a
 * context that has endpoints of both sides, all but one of either.
 */
static uint32_t most_processes(const struct flow *flow)
{
	uint32_t both = flow->n_sources + flow->n_targets - 2;
	uint32_t one = flow->n_sources > flow->n_targets ? flow->n_sources
							 : flow->n_targets;

	return both > one ? both : one;
}

static int fill(struct dfi *dfi, const struct flow *flow,
    struct dfi_flow_estimate *estimate)
{
	bool multicast = flow->replication == DFI_REPLICATION_MULTICAST;
	bool cast = flow_is_cast(flow);
	struct ring_geometry slots = dfi__flow_slots_geometry(flow);
	struct ring_geometry geometry = dfi__flow_geometry(flow);
	uint32_t transport = flow->transport ? flow->transport
					     : dfi->settings.transport;
	int ret = 0;

	memset(estimate, 0, sizeof(*estimate));
	estimate->segment_size = flow->segment_size;
	estimate->segment_count = flow->segment_count;
	estimate->rings = (uint64_t)flow->n_sources *
	    (flow_is_broadcast(flow) ? 1 : flow->n_targets);
	estimate->ring_payload_bytes = (uint64_t)geometry.segment_bytes *
	    flow->segment_count;
	estimate->ring_bytes = slots.ring_size;
	estimate->target_bytes = dfi->transport->ops->region_bytes(
	    dfi->transport, region_size(&geometry, flow->n_sources));
	estimate->target_descriptors = 1;
	estimate->process_descriptors = most_processes(flow);
	estimate->transport = transport;
	estimate->replication = flow->replication;
	if (flow->kind == DFI_REPLICATE)
		estimate->source_bytes = dfi__fan_bytes(
		    multicast ? dfi->transport : NULL, &slots);
	if (flow->kind == DFI_COMBINE)
		ret = dfi__combine_source_bytes(flow, &estimate->source_bytes);
	if (ret < 0 || transport == DFI_TRANSPORT_SHM)
		return ret;
	if (cast) {
		estimate->target_bytes += dfi__cast_receive_bytes(flow);
		estimate->target_descriptors += CAST_FILES;
		estimate->source_queue_pairs = 1 + flow->ordered;
		return 0;
	}
	estimate->image_bytes = transport_image_bytes(
	    geometry.ring_size, dfi->settings.huge_pages == HUGE_PAGES_REQUIRE);
	/* The sequencer has one of its own. */
	estimate->source_queue_pairs = flow->n_targets + flow->ordered;
	return 0;
}

int dfi_flow_estimate(struct dfi *dfi, const struct dfi_flow_attr *attr,
    struct dfi_flow_estimate *estimate)
{
	struct flow flow;
	int ret = context_check(dfi);

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

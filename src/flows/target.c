/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a target: reserving its rings, attaching, statistics, and the
 * end. What happens in between is in consume.c.
 */
#include "target.h"

#include <stdlib.h>
#include <string.h>
#include "../base/attr.h"
#include "../base/bits.h"
#include "../base/error.h"
#include "../transport/transport.h"
#include "attach.h"

static const char role[] = "target";

void dfi_target_query(
    const struct dfi_target *target, struct dfi_target_stats *stats)
{
	uint64_t unread;
	uint32_t i;

	memset(stats, 0, sizeof(*stats));
	if (handle_check(target, target ? &target->magic : NULL, TARGET_MAGIC) <
	    0)
		return;
	unread = (uint64_t)(target->head.end - target->head.next) /
	    target->head.tuple_size;
	for (i = 0; i < target->n_readers; i++)
		stats->tuples += target->readers[i].total;
	stats->tuples -= unread;
	stats->bytes = stats->tuples * target->head.tuple_size;
	stats->segments = target->segments;
	stats->stalls = target->stalls;
	stats->stall_ns = target->wait_time.waited_ns;
}

static int check_attr(const struct dfi_target_attr *attr)
{
	if (attr->reserved)
		return dfi__fail(-EINVAL, "dfi_target_attr.reserved is not 0");
	if (attr->flags & ~(uint32_t)DFI_NONBLOCK)
		return dfi__fail(-EINVAL,
		    "dfi_target_attr.flags %#x are not all known", attr->flags);
	return 0;
}

/* Reserve the rings and make them ready for their sources. */
static int create_rings(struct dfi_target *target)
{
	struct ring_geometry geometry = dfi__flow_geometry(&target->flow);
	struct transport *transport = target->dfi->transport;
	uint32_t i;
	int ret;

	target->readers = calloc(target->n_readers, sizeof(target->readers[0]));
	if (!target->readers)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", target->flow.name);
	ret = transport->ops->region_create(transport,
	    region_size(&geometry, target->n_readers), &target->region);
	if (ret < 0)
		return dfi__fail_within(ret, "flow '%s': target %u",
		    target->flow.name, target->index);
	for (i = 0; i < target->n_readers; i++)
		dfi__reader_init(&target->readers[i], target->region, &geometry,
		    i, RING_FIRST_SEGMENT);
	target->prefetches = geometry.segment_tuples == 1 &&
	    geometry.slot_size > CACHE_LINE;
	return 0;
}

static void free_target(struct dfi_target *target)
{
	if (target->region)
		target->dfi->transport->ops->region_destroy(target->region);
	free(target->readers);
	dfi__flow_free(&target->flow);
	dfi__handle_free(target, sizeof(*target));
}

/* Watch the sources, then publish the rings. */
static int attach(struct dfi_target *target, int64_t deadline)
{
	struct dfi *dfi = target->dfi;
	int ret;

	ret = create_rings(target);
	if (ret < 0)
		return ret;
	ret = dfi__peers_open(
	    &target->sources, dfi, &target->flow, "source", deadline);
	if (ret < 0)
		return ret;
	ret = dfi__attach_claim(dfi, &target->flow, role, target->index,
	    &target->region->name, deadline);
	if (ret < 0)
		dfi__peers_close(&target->sources);
	return ret;
}

int dfi_target_open(struct dfi *dfi, const char *flow_name, uint32_t index,
    const struct dfi_target_attr *user, struct dfi_target **out)
{
	struct dfi_target_attr attr;
	struct dfi_target *target;
	struct wait_policy wait;
	struct flow flow;
	int64_t deadline;
	int ret = context_check(dfi);

	if (!ret && !out)
		ret = dfi__fail(-EINVAL, "dfi_target_open: target is NULL");
	if (!ret)
		ret = dfi__attr_load(
		    &attr, sizeof(attr), user, "dfi_target_attr");
	if (!ret)
		ret = check_attr(&attr);
	if (!ret)
		ret = dfi__context_wait(
		    dfi, attr.wait, "dfi_target_attr", &wait);
	if (ret < 0)
		return ret;
	deadline = context_deadline(dfi, attr.open_timeout_ms);
	ret = dfi__attach_find(
	    dfi, flow_name, role, index, attr.schema, deadline, &flow);
	if (ret < 0)
		return ret;
	target = dfi__handle_alloc(sizeof(*target));
	if (!target) {
		ret = dfi__fail(-ENOMEM, "flow '%s': out of memory", flow.name);
		dfi__flow_free(&flow);
		return ret;
	}
	target->dfi = dfi;
	target->flow = flow;
	target->index = index;
	target->flags = attr.flags;
	target->wait_time = wait_time(attr.stall_timeout_ms);
	target->wait = wait;
	target->n_readers = target->n_open = flow.n_sources;
	target->head.tuple_size = flow.schema->tuple_size;
	target->wait_time.deadline = context_deadline(
	    dfi, attr.open_timeout_ms);
	ret = attach(target, deadline);
	if (ret < 0) {
		free_target(target);
		return ret;
	}
	target->wait_time.deadline = context_deadline(
	    dfi, attr.open_timeout_ms);
	target->magic = TARGET_MAGIC;
	atomic_fetch_add(&dfi->n_endpoints, 1);
	*out = target;
	return 0;
}

int dfi_target_close(struct dfi_target *target)
{
	struct dfi *dfi;
	uint32_t i;
	int ret = handle_check(
	    target, target ? &target->magic : NULL, TARGET_MAGIC);

	if (ret < 0)
		return ret;
	ret = dfi__target_check_slow(target);
	dfi = target->dfi;
	for (i = 0; i < target->n_readers; i++)
		dfi__reader_close(&target->readers[i]);
	dfi__attach_leave(dfi, &target->flow, role, target->index);
	dfi__peers_close(&target->sources);
	free_target(target);
	atomic_fetch_sub(&dfi->n_endpoints, 1);
	return ret;
}

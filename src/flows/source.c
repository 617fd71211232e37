/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a source: attaching to all targets, statistics, and the end. What
 * happens in between is in send.c and shuffle.c.
 */
#include "source.h"

#include <stdlib.h>
#include <string.h>
#include "../base/attr.h"
#include "../base/error.h"
#include "../transport/transport.h"
#include "attach.h"

static const char role[] = "source";

static void add_lane_stats(const struct dfi_source *source, uint32_t target,
    struct dfi_source_stats *stats)
{
	const struct writer *writer = &source->writers[target];

	stats->tuples += writer->total;
	stats->segments += writer->segments;
	stats->partial_segments += writer->partial_segments;
}

void dfi_source_query(
    const struct dfi_source *source, struct dfi_source_stats *stats)
{
	uint32_t t;

	memset(stats, 0, sizeof(*stats));
	if (handle_check(source, source ? &source->magic : NULL, SOURCE_MAGIC) <
	    0)
		return;
	for (t = 0; t < source->n_remotes; t++)
		add_lane_stats(source, t, stats);
	stats->bytes = stats->tuples * source->head.tuple_size;
	stats->stalls = source->stalls;
	stats->stall_ns = source->wait_time.waited_ns;
}

/* Open the ring in each target's region. */
static int open_remotes(struct dfi_source *source, int64_t deadline)
{
	struct ring_geometry geometry = dfi__flow_geometry(&source->flow);
	struct transport *transport = source->dfi->transport;
	const struct endpoint *endpoint;
	struct remote *remote;
	uint32_t t;
	int ret;

	for (t = 0; t < source->head.n_lanes; t++) {
		endpoint = &source->targets.peer[t].endpoint;
		if (endpoint->region.size <
		    region_size(&geometry, source->flow.n_sources))
			return dfi__fail(-EBADMSG,
			    "flow '%s': target %u has published a region of "
			    "%lu bytes, too small for its rings",
			    source->flow.name, t,
			    (unsigned long)endpoint->region.size);
		ret = transport->ops->remote_open(
		    transport, &endpoint->region, deadline, &remote);
		if (ret < 0)
			return dfi__fail_within(ret,
			    "flow '%s': source %u: target %u",
			    source->flow.name, source->index, t);
		dfi__writer_init(&source->writers[t], remote, &geometry,
		    source->index, RING_FIRST_SEGMENT);
		source->n_remotes++;
	}
	return 0;
}

static void free_source(struct dfi_source *source)
{
	uint32_t t;

	for (t = 0; t < source->n_remotes; t++)
		source->dfi->transport->ops->remote_close(
		    source->writers[t].remote);
	free(source->writers);
	dfi__flow_free(&source->flow);
	dfi__handle_free(source, source->size);
}

static int check_attr(const struct dfi_source_attr *attr)
{
	if (attr->reserved)
		return dfi__fail(-EINVAL, "dfi_source_attr.reserved is not 0");
	if (attr->flags & ~(uint32_t)DFI_NONBLOCK)
		return dfi__fail(-EINVAL,
		    "dfi_source_attr.flags %#x are not all known", attr->flags);
	return 0;
}

/* The inline functions' view; see dfi/source.h. */
static uint32_t inline_routing(const struct router *router)
{
	if (router->routing == DFI_ROUTE_FUNCTION ||
	    router->routing == DFI_ROUTE_DIRECT)
		return DFI_INLINE_NONE;
	if (router->n_targets == 1)
		return DFI_INLINE_ONE;
	if (router->routing == DFI_ROUTE_HASH && router->n_keys == 1 &&
	    (router->keys[0].type == DFI_INT64 ||
		router->keys[0].type == DFI_UINT64))
		return DFI_INLINE_HASH64;
	return DFI_INLINE_NONE;
}

static int alloc_source(struct dfi *dfi, const struct flow *flow,
    uint32_t index, const struct dfi_source_attr *attr, struct dfi_source **out)
{
	size_t lanes_end = sizeof(struct dfi_source) +
	    flow->n_targets * sizeof(struct dfi_source_lane);
	size_t size = lanes_end + flow->schema->tuple_size;
	struct dfi_source *source;

	if (flow->routing == DFI_ROUTE_FUNCTION && !attr->route)
		return dfi__fail(-EINVAL,
		    "flow '%s': source %u: dfi_source_attr.route is NULL, but "
		    "the flow routes by function",
		    flow->name, index);
	source = dfi__handle_alloc(size);
	if (!source)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	source->writers = calloc(flow->n_targets, sizeof(source->writers[0]));
	if (!source->writers) {
		dfi__handle_free(source, size);
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	}
	source->size = size;
	source->spare = (char *)source + lanes_end;
	source->dfi = dfi;
	source->index = index;
	source->flags = attr->flags;
	source->wait_time = wait_time(attr->stall_timeout_ms);
	dfi__router_init(&source->router, flow, index);
	source->router.function = attr->route;
	source->router.function_arg = attr->route_arg;
	source->head = (struct dfi_source_head){
		.lanes = flow->n_targets == 1 ? &source->head.only
					      : source->lanes,
		.n_lanes = flow->n_targets,
		.tuple_size = flow->schema->tuple_size,
		.inline_routing = inline_routing(&source->router),
		.key_offset = source->router.keys[0].offset,
	};
	*out = source;
	return 0;
}

/* The rings are ours now; somebody may have used them up before. */
static int open_segments(struct dfi_source *source)
{
	uint32_t t;
	int ret;

	for (t = 0; t < source->head.n_lanes; t++) {
		if (dfi__writer_ring_used(&source->writers[t]))
			return dfi__fail(-EEXIST,
			    "flow '%s': source %u has been attached before: a "
			    "flow runs once",
			    source->flow.name, source->index);
		ret = dfi__source_open_segment(source, t);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/*
 * Wait for the targets, open their rings, and only then claim the index: to the
 * targets, a source that was there and goes has died.
 */
static int attach(struct dfi_source *source, int64_t deadline)
{
	struct dfi *dfi = source->dfi;
	int ret;

	ret = dfi__peers_open(
	    &source->targets, dfi, &source->flow, "target", deadline);
	if (ret < 0)
		return ret;
	ret = dfi__peers_await(&source->targets, deadline);
	if (!ret)
		ret = open_remotes(source, deadline);
	if (!ret)
		ret = dfi__attach_claim(
		    dfi, &source->flow, role, source->index, NULL, deadline);
	if (ret < 0)
		goto close_peers;
	ret = open_segments(source);
	if (ret < 0)
		goto leave;
	return 0;

leave:
	dfi__attach_leave(dfi, &source->flow, role, source->index);
close_peers:
	dfi__peers_close(&source->targets);
	return ret;
}

int dfi_source_open(struct dfi *dfi, const char *flow_name, uint32_t index,
    const struct dfi_source_attr *user, struct dfi_source **out)
{
	struct dfi_source_attr attr;
	struct dfi_source *source = NULL;
	struct wait_policy wait;
	struct flow flow;
	int64_t deadline;
	int ret = context_check(dfi);

	if (!ret && !out)
		ret = dfi__fail(-EINVAL, "dfi_source_open: source is NULL");
	if (!ret)
		ret = dfi__attr_load(
		    &attr, sizeof(attr), user, "dfi_source_attr");
	if (!ret)
		ret = check_attr(&attr);
	if (!ret)
		ret = dfi__context_wait(
		    dfi, attr.wait, "dfi_source_attr", &wait);
	if (ret < 0)
		return ret;
	deadline = context_deadline(dfi, attr.open_timeout_ms);
	ret = dfi__attach_find(
	    dfi, flow_name, role, index, attr.schema, deadline, &flow);
	if (ret < 0)
		return ret;
	ret = alloc_source(dfi, &flow, index, &attr, &source);
	if (ret < 0) {
		dfi__flow_free(&flow);
		return ret;
	}
	source->flow = flow;
	source->wait = wait;
	ret = attach(source, deadline);
	if (ret < 0) {
		free_source(source);
		return ret;
	}
	source->magic = SOURCE_MAGIC;
	atomic_fetch_add(&dfi->n_endpoints, 1);
	*out = source;
	return 0;
}

/* Tell the targets how the source ended, leave, and free. */
static void end_source(struct dfi_source *source, uint64_t flag)
{
	struct dfi *dfi = source->dfi;
	uint32_t t;

	for (t = 0; t < source->n_remotes; t++)
		dfi__writer_end(&source->writers[t], flag);
	/* The marks come first: a target that sees the key go finds them. */
	dfi__attach_leave(dfi, &source->flow, role, source->index);
	dfi__peers_close(&source->targets);
	free_source(source);
	atomic_fetch_sub(&dfi->n_endpoints, 1);
}

/*
 * Whether all tuples that were pushed will be read: no target has left before
 * our end mark, and none was refused and then forgotten.
 */
static int check_whole(struct dfi_source *source)
{
	uint32_t t;

	for (t = 0; t < source->head.n_lanes; t++) {
		if (dfi__source_target_gone(source, t))
			return dfi__peers_lost(&source->targets, t);
		if (source->writers[t].refused)
			return dfi__fail(source->writers[t].refused,
			    "flow '%s': source %u: closed after a push for "
			    "target %u found no room and was not repeated",
			    source->flow.name, source->index, t);
	}
	return 0;
}

int dfi_source_close(struct dfi_source *source)
{
	int ret = handle_check(
	    source, source ? &source->magic : NULL, SOURCE_MAGIC);

	if (ret < 0)
		return ret;
	ret = dfi_source_flush(source);
	if (!ret)
		ret = check_whole(source);
	end_source(source, ret ? FOOTER_FLAG_ABORT : FOOTER_FLAG_END);
	return ret;
}

void dfi_source_abort(struct dfi_source *source)
{
	if (handle_check(
		source, source ? &source->magic : NULL, SOURCE_MAGIC) == 0)
		end_source(source, FOOTER_FLAG_ABORT);
}

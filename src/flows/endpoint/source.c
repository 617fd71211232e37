/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a source: it attaches to all targets, and ends. */
#include "source.h"

#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "base/attr.h"
#include "base/error.h"
#include "base/error_list.h"
#include "base/log.h"
#include "base/maps.h"
#include "transport/transport.h"
#include "flows/members/attach.h"
#include "flows/declare/declare.h"
#include "flows/context/network.h"

static const char role[] = "source";

void dfi__source_free(struct dfi_source *source)
{
	struct remote *remote;
	uint32_t t;

	for (t = 0; t < source->n_remotes; t++) {
		remote = source->rings[t].remote;
		if (remote)
			remote->transport->ops->ring.close(remote);
	}
	if (source->kind->source.close)
		source->kind->source.close(source);
	dfi__notify_free(source->notify);
	dfi__ring_memory_return(source->dfi, source->ring_memory);
	free(source->target_stalls);
	free(source->rings);
	dfi__source_share_leave(source->share);
	dfi__flow_free(&source->flow);
	dfi__handle_free(source, source->size);
}

/* Set the linger time, if the source lingers: only partial segments wait. */
static int choose_linger(struct dfi_source *source, uint32_t linger_us)
{
	struct ring_geometry geometry = dfi__flow_geometry(&source->flow);

	if (!linger_us)
		linger_us = source->dfi->settings.linger_us;
	if (!linger_us || linger_us == DFI_NO_LINGER ||
	    geometry.segment_tuples == 1)
		return 0;
	if (geometry.segment_count < 2)
		return dfi__fail(-EINVAL,
		    "flow '%s': %s %u: to linger (linger_us, "
		    "DFI_LINGER_US), rings must have 2 segments, and the "
		    "flow's have %u: set segment_count, or don't linger",
		    source->flow.name, SOURCE_ID(source),
		    geometry.segment_count);
	source->linger.ns = (int64_t)linger_us * (NS_PER_MS / 1000);
	return 0;
}

/* The routing as the inline functions use it; see dfi/push.h. */
static uint32_t inline_routing(bool one_lane, const struct router *router)
{
	if (one_lane)
		return router->routing == DFI_ROUTE_FUNCTION ? DFI_INLINE_NONE
							     : DFI_INLINE_ONE;
	if (router->routing == DFI_ROUTE_FUNCTION ||
	    router->routing == DFI_ROUTE_DIRECT)
		return DFI_INLINE_NONE;
	if (router->n_targets == 1)
		return DFI_INLINE_ONE;
	return dfi__router_hashes64(router) ? DFI_INLINE_HASH64
					    : DFI_INLINE_NONE;
}

int dfi__source_alloc(struct dfi *dfi, const struct kind *kind,
    const struct flow *flow, uint32_t index, uint32_t n_lanes,
    const struct dfi_source_attr *attr, struct dfi_source **out)
{
	size_t lanes_end = sizeof(struct dfi_source) +
	    n_lanes * sizeof(struct dfi_source_lane);
	size_t size = lanes_end + flow->schema->tuple_size;
	bool groups = dfi__flow_has_groups(flow);
	struct dfi_source *source;

	if (flow->routing == DFI_ROUTE_FUNCTION &&
	    (groups ? !attr->route_set : !attr->route))
		return dfi__fail(-EINVAL,
		    "flow '%s': source %u: dfi_source_attr.%s is NULL, but "
		    "the flow routes by function",
		    flow->name, index, groups ? "route_set" : "route");
	source = dfi__handle_alloc(size);
	if (!source)
		return dfi__fail_map(size, "flow '%s'", flow->name);
	source->rings = calloc(flow->n_targets, sizeof(source->rings[0]));
	source->target_stalls = calloc(
	    flow->n_targets, sizeof(source->target_stalls[0]));
	if (source->rings && source->target_stalls)
		source->share = dfi__source_share_join(attr->share_with);
	if (!source->share) {
		free(source->target_stalls);
		free(source->rings);
		dfi__handle_free(source, size);
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	}
	source->kind = kind;
	source->writers = source->rings;
	source->size = size;
	source->n_lanes = n_lanes;
	source->spare = (char *)source + lanes_end;
	source->dfi = dfi;
	source->index = index;
	source->flags = attr->flags;
	source->wait_time = wait_time(attr->stall_timeout_ms);
	source->wait_time.tick = dfi__source_tick;
	dfi__router_init(&source->router, flow, index);
	source->router.function = attr->route;
	source->router.set_function = attr->route_set;
	source->router.function_arg = attr->route_arg;
	source->head = (struct dfi_source_head){
		.lanes = n_lanes == 1 ? &source->head.only : source->lanes,
		.n_targets = kind->one_lane ? 0 : n_lanes,
		.tuple_size = flow->schema->tuple_size,
		.inline_routing = inline_routing(
		    kind->one_lane, &source->router),
		.key_offset = source->router.keys[0].offset,
		.targets = groups ? dfi__replica_all_targets(flow->n_targets)
				  : 0,
	};
	*out = source;
	return 0;
}

/* The source owns the rings now. An earlier source may have used them up. */
static int check_unused(const struct dfi_source *source)
{
	uint32_t t;

	for (t = 0; t < source->n_remotes; t++)
		if (!source->rings[t].cancelled &&
		    dfi__writer_ring_used(&source->rings[t]))
			return dfi__fail(-EEXIST,
			    "flow '%s': %s %u has been attached before: a "
			    "flow runs once",
			    source->flow.name, SOURCE_ID(source));
	return 0;
}

static int open_segments(struct dfi_source *source)
{
	uint32_t t;
	int ret;

	for (t = 0; t < source->n_lanes; t++) {
		source_close_lane(source, t);
		if (source->writers[t].cancelled)
			continue;
		ret = dfi__source_open_segment(source, t);
		if (ret < 0)
			return ret;
	}
	return source->lane_ops && source->lane_ops->opened
	    ? source->lane_ops->opened(source)
	    : 0;
}

static const char *why_lost(const struct peers *targets, uint32_t target)
{
	const struct dfi_source *source =
	    (const struct dfi_source *)(const void *)((const char *)targets -
		offsetof(struct dfi_source, targets));
	const struct remote *remote;

	if (target >= source->n_remotes)
		return NULL;
	remote = source->rings[target].remote;
	return !remote || remote->in_place
	    ? NULL
	    : remote->transport->ops->ring.owner_why(remote);
}

static void stop_kind(struct dfi_source *source)
{
	if (source->kind->source.stop)
		source->kind->source.stop(source);
}

/*
 * A pair of an open flow waits longer for the registry than for its target: if
 * the answer comes too late, the pair has to be made again.
 */
#define CLAIM_NS (INT64_C(10) * NS_PER_S)
static int64_t claim_until(const struct dfi_source *source, int64_t deadline)
{
	int64_t later = clock_now_ns() + CLAIM_NS;

	return source->flow.part.pair && deadline < later ? later : deadline;
}

/*
 * Wait for the targets and open their rings before claiming the index: the
 * targets regard a source whose claim disappears as dead.
 */
static int attach(struct dfi_source *source, int64_t deadline)
{
	const struct source_ops *ops = &source->kind->source;
	char key[KEY_SIZE], device[TRANSPORT_WAY_SIZE];
	struct dfi *dfi = source->dfi;
	int ret;

	source->targets.why_lost = why_lost;
	ret = dfi__peers_open(
	    &source->targets, dfi, &source->flow, "target", deadline);
	if (ret < 0)
		return ret;
	ret = dfi__peers_await(&source->targets, deadline);
	if (!ret && ops->reserve)
		ret = ops->reserve(source);
	if (!ret && ops->open)
		ret = ops->open(source, deadline);
	if (!ret)
		ret = dfi__source_open_rings(source, deadline);
	if (!ret && ops->attach) {
		ret = ops->attach(source, deadline);
		/* Target 0 has the sequencer of an ordered flow. */
		if (ret < 0)
			ret = dfi__source_target_was_gone(
			    source, 0, ret, deadline);
	}
	if (!ret && source->linger.ns)
		ret = dfi__linger_clock_start(dfi->linger);
	if (!ret)
		ret = dfi__attach_claim(dfi, &source->flow, source->index,
		    dfi__source_devices(source, device), source->datagrams,
		    claim_until(source, deadline));
	if (ret < 0) {
		stop_kind(source);
		dfi__peers_close(&source->targets, NULL);
		return ret;
	}
	ret = check_unused(source);
	if (!ret && ops->greet)
		ret = ops->greet(source, deadline);
	if (!ret)
		ret = open_segments(source);
	if (ret < 0) {
		stop_kind(source);
		dfi__endpoint_key(key, &source->flow, role, source->index);
		dfi__peers_close(&source->targets, key);
		return ret;
	}
	if (source->linger.ns)
		dfi__linger_add(source);
	return 0;
}

int dfi__source_open(struct dfi *dfi, const struct kind *kind,
    struct flow *flow, uint32_t index, const struct dfi_source_attr *attr,
    const struct wait_policy *wait, int64_t deadline, struct dfi_source **out)
{
	uint32_t n_lanes = kind->one_lane ? 1 : flow->n_targets;
	struct dfi_source *source = NULL;
	int ret = dfi__source_alloc(
	    dfi, kind, flow, index, n_lanes, attr, &source);

	if (ret < 0) {
		dfi__flow_free(flow);
		return ret;
	}
	source->flow = *flow;
	source->wait = *wait;
	source->close_timeout_ms = attr->close_timeout_ms;
	ret = choose_linger(source, attr->linger_us);
	if (!ret && attr->share_with)
		ret = dfi__source_may_share(source);
	if (!ret)
		ret = attach(source, deadline);
	if (ret < 0) {
		dfi__source_free(source);
		return dfi__error_keep(ret);
	}
	source->magic = SOURCE_MAGIC;
	dfi__stats_add(dfi, &source->stats, dfi__source_stats);
	dfi__source_log_attached(source);
	*out = source;
	return 0;
}

/* Drain all targets within one deadline; returns the first error. */
static int drain(struct dfi_source *source, int64_t deadline)
{
	int err, ret = 0;
	uint32_t t;

	for (t = 0; t < source->n_remotes; t++) {
		err = dfi__source_drain(source, t, deadline);
		if (!ret)
			ret = err;
	}
	return ret;
}

static void end_ring(struct dfi_source *source, uint32_t target, uint64_t flag)
{
	if (source->replica_writer)
		dfi__replica_end(source->replica_writer, target, flag);
	else
		dfi__writer_end(&source->rings[target],
		    flag == FOOTER_FLAG_ABORT
			? footer_state(0, source->cause, flag)
			: flag);
}

void dfi__source_vanish(struct dfi_source *source)
{
	struct dfi *dfi = source->dfi;
	char key[KEY_SIZE];

	stop_kind(source);
	dfi__handle_retire(source);
	dfi__endpoint_key(key, &source->flow, role, source->index);
	dfi__peers_close(&source->targets, key);
	dfi__stats_remove(dfi, &source->stats);
	dfi__source_free(source);
	dfi__context_leave(dfi);
}

/*
 * Tell the targets how the source ended, withdraw its entry, and free it.
 * -ECONNRESET or -ETIMEDOUT: some tuples did not arrive, or that is unknown.
 */
static int end_source(
    struct dfi_source *source, uint64_t flag, int64_t deadline)
{
	uint32_t t;
	int ret;

	if (source->kind->source.leave)
		return source->kind->source.leave(source, flag, deadline);
	if (source->linger.ns)
		dfi__linger_remove(source);
	for (t = 0; t < source->n_remotes; t++)
		if (source->rings[t].remote)
			end_ring(source, t, flag);
	ret = drain(source, deadline);
	/*
	 * End marks come first, so that a target finds them when the key goes.
	 */
	dfi__source_vanish(source);
	return ret;
}

/*
 * Whether the targets will read all pushed tuples that they want: no target has
 * left before the end mark, and no tuple was refused and then dropped.
 */
static int check_whole(struct dfi_source *source)
{
	bool wanted = false;
	enum target_life life;
	struct writer *lane;
	uint32_t t;
	int ret;

	if (source->refusal &&
	    dfi__source_taken(source) <= source->refusal_taken)
		return dfi__fail(source->refusal, "%s", source->status_text);
	ret = source->lane_ops && source->lane_ops->check_whole
	    ? source->lane_ops->check_whole(source)
	    : 0;
	if (!ret)
		ret = dfi__source_mark_is_whole(source);
	if (ret < 0)
		return ret;
	for (t = 0; t < source->n_remotes; t++) {
		life = source_target_life(source, t);
		if (life == TARGET_GONE)
			life = dfi__source_settled_life(source, t);
		if (life == TARGET_GONE)
			return dfi__peers_lost(&source->targets, t);
		if (!source->replica_writer || !wanted)
			wanted = life != TARGET_CANCELLED;
		lane = &source->writers[source->replica_writer ? 0 : t];
		if (wanted && lane->refused)
			return dfi__fail(lane->refused,
			    "flow '%s': %s %u: closed after a push for "
			    "%s %u found no room and was not repeated",
			    source->flow.name, SOURCE_ID(source),
			    PEER_ID(&source->targets,
				source->replica_writer
				    ? source->replica_writer->short_of
				    : t));
	}
	return 0;
}

int dfi_source_close(struct dfi_source *source)
{
	SOURCE_LAST_CALL(source, SOURCE_SHARED(source));
	char text[ERROR_TEXT_SIZE];
	int64_t deadline;
	int ret;

	if (!source)
		return 0;
	ret = handle_check(source, &source->magic, SOURCE_MAGIC);
	if (ret < 0)
		return ret;
	source->closing = true;
	deadline = source->close_timeout_ms
	    ? deadline_in_ms(source->close_timeout_ms)
	    : DEADLINE_NEVER;
	ret = source->lane_ops ? source->lane_ops->finish(source, deadline)
			       : dfi__source_finish(source, deadline);
	/* Other calls only report the timeout; here it ends the stream. */
	if (ret == -ETIMEDOUT)
		dfi__error_keep(ret);
	if (!ret)
		ret = dfi__error_keep(check_whole(source));
	if (!ret)
		return dfi__error_keep(
		    end_source(source, FOOTER_FLAG_END, deadline));
	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	(void)end_source(source, FOOTER_FLAG_ABORT, deadline);
	return dfi__fail(ret, "%s", text);
}

void dfi_source_abort(struct dfi_source *source)
{
	HANDLE_SIGNAL(source, SOURCE_MAGIC, &source->aborted,
	    dfi__peers_wake(&source->targets));
}

void dfi_source_interrupt(struct dfi_source *source)
{
	HANDLE_SIGNAL(source, SOURCE_MAGIC, &source->interrupted,
	    dfi__peers_wake(&source->targets));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a source of an open flow; open_lanes.c and open_wait.c do the
 * rest. */
#include "keyed.h"

#include <stdio.h>
#include <stdlib.h>
#include <dfi/event.h>
#include <dfi/open_flow.h>
#include "base/error.h"
#include "base/error_list.h"
#include "base/log.h"
#include "flows/kinds/kinds.h"
#include "open.h"
#include "open_multicast.h"

/* ---- Pairs, on the helper ---------------------------------------------- */

static const struct kind *kind_of_ends(const struct open_source *open)
{
	return open->combines ? &dfi__combine_kind
	    : open->multicast ? &dfi__open_multicast_kind
			      : &dfi__shuffle_kind;
}

static int begin(void *owner, int64_t deadline)
{
	struct open_source *open = owner;

	return open->multicast
	    ? dfi__open_multicast_begin(open->source, deadline)
	    : 0;
}

static int make(void *owner, struct flow *part, int64_t deadline, void **out)
{
	struct open_source *open = owner;
	struct dfi *dfi = open->source->dfi;
	struct dfi_source *end;
	int ret = dfi__context_enter(dfi);

	if (ret < 0) {
		dfi__flow_free(part);
		return ret;
	}
	ret = dfi__source_open(dfi, kind_of_ends(open), part,
	    part->part.first_source, &open->attr, &open->wait, deadline, &end);
	if (ret < 0) {
		dfi__context_leave(dfi);
		return ret;
	}
	/* In a replicate flow another mark comes first (J1). */
	if (!open->replicates)
		dfi__open_mark_first(end, atomic_peek(&open->mark));
	*out = end;
	return 0;
}

/* The target has left, or the source gives up. */
static void unmake(void *arg)
{
	struct dfi_source *end = arg;

	dfi_source_abort(end);
	(void)dfi_source_close(end);
}

static void discard(void *end)
{
	dfi__source_vanish(end);
}

static int64_t tend(void *owner)
{
	struct open_source *open = owner;

	return open->shared ? dfi__open_shared_tend(open)
			    : dfi__keyed_tend(open);
}

static const struct pairs_ops pairs_ops = {
	.begin = begin,
	.make = make,
	.unmake = unmake,
	.discard = discard,
	.tend = tend,
};

static const struct pairs_ops ordered_ops = {
	.make = make,
	.unmake = unmake,
	.discard = discard,
	.tend = dfi__open_order_tend,
};

/* ---- Opening ----------------------------------------------------------- */

/* In microseconds, or 0. */
static uint32_t linger_of(
    const struct dfi *dfi, const struct dfi_source_attr *attr)
{
	if (attr->linger_us == DFI_NO_LINGER)
		return 0;
	return attr->linger_us ? attr->linger_us : dfi->settings.linger_us;
}

/* Only where owner and helper share the lanes. */
static int check_linger(const struct dfi *dfi, const struct flow *flow,
    const struct dfi_source_attr *attr)
{
	if (!linger_of(dfi, attr) || flow_holds_tuples(flow))
		return 0;
	return dfi__fail(-EOPNOTSUPP,
	    "flow '%s': sources of open flows linger only with routing by keys "
	    "or with DFI_ON_LOSS_REPLAY: set %s, and flush "
	    "(dfi_source_flush())",
	    flow->name,
	    attr->linger_us ? "dfi_source_attr.linger_us to 0"
			    : "dfi_source_attr.linger_us to DFI_NO_LINGER, as "
			      "DFI_LINGER_US is set");
}

/* The helper opens and closes the rings of pairs. */
static int check_share(
    const struct flow *flow, const struct dfi_source_attr *attr)
{
	if (!attr->share_with)
		return 0;
	return dfi__fail(-EOPNOTSUPP,
	    "flow '%s': sources of open flows can't share connections: a "
	    "thread of the library opens their rings: set "
	    "dfi_source_attr.share_with to NULL",
	    flow->name);
}

static void init_lanes(struct dfi_source *source)
{
	const struct open_source *open = open_source(source);
	uint32_t t;

	for (t = 0; t < source->n_lanes; t++) {
		source->writers[t].geometry = dfi__flow_geometry(&source->flow);
		source_close_lane(source, t);
	}
	source->lane_ops = open->replicates ? &dfi__open_replica_ops
	    : open->combines                ? &dfi__open_combine_ops
					    : &dfi__open_lane_ops;
	if (open->keyed) {
		source->lane_ops = &dfi__keyed_lane_ops;
		/* Calls can't name a target. */
		source->head.n_targets = 0;
		return;
	}
	/* A combiner flow routes by keys, as a closed flow does. */
	if (!open->combines && !open->replicates)
		source->head.inline_routing = open->routed ? DFI_INLINE_ONE
							   : DFI_INLINE_NONE;
}

/* What the helper needs must be there before it starts. */
static int init(struct dfi_source *source, const struct dfi_source_attr *attr)
{
	struct open_source *open = calloc(1, sizeof(*open));

	source->state = open;
	if (!open)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", source->flow.name);
	open->source = source;
	open->combines = source->flow.kind == DFI_COMBINE;
	open->routed = (!flow_names_seats(&source->flow) ||
			   source->flow.input_position) &&
	    !open->combines;
	open->wait = source->wait;
	open->attr = (struct dfi_source_attr){
		.size = sizeof(open->attr),
		.flags = DFI_NONBLOCK,
		.close_timeout_ms = attr->close_timeout_ms,
		.linger_us = DFI_NO_LINGER,
	};
	open->pairs.ops = source->flow.ordered ? &ordered_ops : &pairs_ops;
	open->pairs.owner = open;
	open->pairs.sleeper = &source->targets;
	if (source->flow.kind == DFI_REPLICATE) {
		int ret = dfi__open_replica_init(source);

		if (!ret && source->flow.ordered)
			ret = dfi__open_order_init(open);
		else if (!ret)
			ret = dfi__open_shared_new(open);
		if (ret < 0)
			return ret;
	}
	open->ends = calloc(source->flow.n_targets, sizeof(open->ends[0]));
	open->taken = calloc(source->flow.n_targets, sizeof(open->taken[0]));
	if (source->flags & DFI_EVENTS)
		open->news = calloc(
		    source->flow.n_targets, sizeof(open->news[0]));
	/* The targets of a combiner flow stay. */
	if (source->flow.evict_after_ms && !open->combines)
		open->full = calloc(
		    source->flow.n_targets, sizeof(open->full[0]));
	if (!open->ends || !open->taken ||
	    (source->flags & DFI_EVENTS && !open->news) ||
	    (source->flow.evict_after_ms && !open->combines && !open->full))
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", source->flow.name);
	if (flow_holds_tuples(&source->flow)) {
		int ret = dfi__keyed_new(source);

		if (!ret && linger_of(source->dfi, attr))
			ret = dfi__keyed_linger_init(
			    source, linger_of(source->dfi, attr));
		if (ret < 0)
			return ret;
	}
	/* The close of a source waits for what it holds. */
	if (source->flags & DFI_NONBLOCK && !open->combines && !open->keyed)
		return 0;
	return dfi__notify_new(&open->notify);
}

/*
 * Tell a target that the source has ended. One that hears nothing before, as
 * the counter can't be reached, has the view ended (J1).
 */
static int end_pair(struct dfi_source *source, uint32_t seat, struct pair *pair)
{
	struct dfi_source *end = pair->end;
	uint64_t n = dfi__open_unreturned(open_source(source), end), next = 0;
	int ret;

	if (open_source(source)->replicates &&
	    (end->rings[0].seq != RING_FIRST_SEGMENT ||
		dfi__open_order_last(open_source(source), &next)))
		dfi__open_replica_greet(source, end, next);
	if (open_source(source)->multicast)
		ret = dfi__open_multicast_end(source, seat, pair);
	else
		ret = dfi_source_close(pair->end);
	pair->end = NULL;
	if (open_source(source)->combines)
		return ret;
	/* A target that had taken all may have left since. */
	return n && source->flow.on_loss == DFI_ON_LOSS_FAIL ? ret : 0;
}

/* Tell all that are attached: the first error that counts. */
static int end_pairs(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	uint32_t i, n = source->flow.n_targets * SEAT_PAIRS;
	struct pair *pair;
	int err, ret = 0;

	for (i = 0; i < n; i++) {
		pair = &open->pairs.of[i / SEAT_PAIRS].pair[i % SEAT_PAIRS];
		if (!pair->end || pair->state == PAIR_RETIRED)
			continue;
		err = end_pair(source, i / SEAT_PAIRS, pair);
		if (!ret)
			ret = err;
	}
	return ret;
}

/* Closing a pair that was not used waits so long for its target. */
#define UNUSED_CLOSE_MS 1000

/*
 * Not all came who must be there, or one has left. Nothing was sent, so for
 * targets the source ends, and is not lost. Preserves dfi_errmsg().
 */
static void end_unused(struct dfi_source *source)
{
	struct open_source *open = open_source(source);
	uint32_t i, n = source->flow.n_targets * SEAT_PAIRS;
	char text[ERROR_TEXT_SIZE];
	struct dfi_source *end;

	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	dfi__pairs_stop(&open->pairs);
	for (i = 0; i < n; i++) {
		end = open->pairs.of[i / SEAT_PAIRS].pair[i % SEAT_PAIRS].end;
		if (end)
			end->close_timeout_ms = UNUSED_CLOSE_MS;
	}
	(void)end_pairs(source);
	(void)dfi__fail(-EIO, "%s", text);
}

static int attach(struct dfi_source *source, uint32_t index,
    const struct dfi_source_attr *attr, int64_t deadline)
{
	struct open_source *open;
	int ret = init(source, attr);

	if (ret < 0)
		return ret;
	open = open_source(source);
	init_lanes(source);
	if (!(source->flags & DFI_NONBLOCK))
		atomic_publish(
		    &source->targets.sleeping, &open->notify->self.word);
	ret = dfi__pairs_open(&open->pairs, source->dfi, &source->flow,
	    OPEN_SOURCE, index, deadline);
	if (ret < 0)
		return ret;
	if (open->keyed)
		dfi__keyed_start(open);
	source->index = open->pairs.seats.seats.own_seat;
	open->next = source->index % source->flow.n_targets;
	/* Take over what is there, so that the first push finds it. */
	open->seen = pairs_changes(&open->pairs) - 1;
	open->refused = OPEN_NO_SEAT;
	if (source->flags & DFI_NONBLOCK)
		return 0;
	ret = dfi__open_await_start(source, deadline);
	if (ret < 0)
		end_unused(source);
	return ret;
}

int dfi__open_source_open(struct dfi *dfi, struct flow *flow, uint32_t index,
    const struct dfi_source_attr *attr, const struct wait_policy *wait,
    int64_t deadline, struct dfi_source **out)
{
	const struct kind *kind = flow->kind == DFI_REPLICATE
	    ? &dfi__open_replicate_kind
	    : flow->kind == DFI_COMBINE ? &dfi__open_combine_kind
					: &dfi__open_kind;
	uint32_t n_lanes = !flow->input_position &&
		(flow_names_seats(flow) || flow->kind == DFI_COMBINE)
	    ? flow->n_targets
	    : 1;
	struct dfi_source *source;
	int ret = check_linger(dfi, flow, attr);

	if (!ret)
		ret = check_share(flow, attr);
	if (!ret)
		ret = dfi__source_alloc(
		    dfi, kind, flow, index, n_lanes, attr, &source);
	if (ret < 0) {
		dfi__flow_free(flow);
		return ret;
	}
	source->flow = *flow;
	source->wait = *wait;
	source->wait_time.tick = NULL;
	source->close_timeout_ms = attr->close_timeout_ms;
	ret = attach(source, index, attr, deadline);
	if (ret < 0) {
		dfi__source_free(source);
		return dfi__error_keep(ret);
	}
	source->magic = SOURCE_MAGIC;
	dfi__stats_add(dfi, &source->stats, dfi__source_stats);
	dfi__log(DFI_LOG_INFO, "flow '%s': %s %u: has a seat",
	    source->flow.name, SOURCE_ID(source));
	*out = source;
	return 0;
}

/* ---- The end ----------------------------------------------------------- */

void dfi__open_source_close(struct dfi_source *source)
{
	struct open_source *open = open_source(source);

	if (!open)
		return;
	/* Otherwise it was not opened. */
	if (open->pairs.of)
		dfi__pairs_close(&open->pairs);
	dfi__open_order_free(open);
	dfi__open_multicast_free(open);
	dfi__notify_free(open->notify);
	free(open->ends);
	free(open->taken);
	free(open->news);
	free(open->room);
	dfi__open_shared_free(open);
	free(open->full);
	dfi__keyed_free(open->keyed);
	free(open);
}

/*
 * End marks come before the seat is given back, so that a target which sees
 * that has all.
 */
int dfi__open_source_leave(
    struct dfi_source *source, uint64_t flag, int64_t deadline)
{
	struct dfi *dfi = source->dfi;
	int ret = 0;

	(void)deadline;
	dfi__pairs_stop(&open_source(source)->pairs);
	if (flag == FOOTER_FLAG_END) {
		dfi__open_order_leave(open_source(source));
		dfi__open_shared_leave(open_source(source));
		ret = end_pairs(source);
	}
	dfi__stats_remove(dfi, &source->stats);
	dfi__handle_retire(source);
	dfi__source_free(source);
	dfi__context_leave(dfi);
	return ret;
}

/* ---- Questions --------------------------------------------------------- */

/* The next event of a seat; false: there is none. */
static bool take_news(
    struct seat_news *news, uint32_t seat, struct dfi_event *event)
{
	if (news->known == news->present)
		return false;
	*event = (struct dfi_event){
		.type = news->known ? news->fate : DFI_JOINED,
		.seat = seat,
		.incarnation = news->known ? news->known : news->present,
	};
	news->known = news->known ? 0 : news->present;
	return true;
}

/* The next event: 1, 0: there is none, or an error of the source. */
static int next_event(struct dfi_source *source, struct dfi_event *event)
{
	struct open_source *open = open_source(source);
	bool found = false;
	uint32_t i;
	int ret;

	keyed_enter(open);
	ret = dfi__open_adopt(source);
	/* Who has come and gone by now has no event. */
	if (!ret)
		ret = dfi__open_drop_lost(source);
	for (i = 0; !ret && !found && i < source->flow.n_targets; i++)
		found = take_news(&open->news[i], i, event);
	keyed_leave(open);
	return ret < 0 ? ret : found;
}

int dfi_source_event(struct dfi_source *source, struct dfi_event *event)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));
	int ret = dfi__source_check_free(source);

	if (ret < 0)
		return ret;
	if (!event || !(source->flags & DFI_EVENTS))
		return dfi__fail(-EINVAL, "flow '%s': %s %u: %s",
		    source->flow.name, SOURCE_ID(source),
		    event ? "has no events: open it with DFI_EVENTS"
			  : "dfi_source_event: event is NULL");
	ret = next_event(source, event);
	/* What came while the descriptor was armed would not make it readable.
	 */
	if (!ret && !dfi__open_arm_news(source))
		ret = next_event(source, event);
	if (ret)
		return ret < 0 ? ret : 0;
	return dfi__fail_text(-EAGAIN, "there is no event");
}

int dfi_source_seat(const struct dfi_source *source)
{
	int ret = handle_check(
	    source, source ? &source->magic : NULL, SOURCE_MAGIC);

	return ret < 0 ? ret : (int)source->index;
}

int dfi_source_dropped(const struct dfi_source *source, uint64_t *n)
{
	int ret = handle_check(
	    source, source ? &source->magic : NULL, SOURCE_MAGIC);
	struct open_source *open;

	if (ret < 0)
		return ret;
	if (!n)
		return dfi__fail(-EINVAL,
		    "flow '%s': %s %u: dfi_source_dropped: n is NULL",
		    source->flow.name, SOURCE_ID(source));
	*n = 0;
	if (!source->flow.membership)
		return 0;
	open = open_source(source);
	keyed_enter(open);
	*n = atomic_peek(&open->dropped);
	keyed_leave(open);
	return 0;
}

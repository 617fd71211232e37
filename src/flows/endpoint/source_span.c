/* SPDX-License-Identifier: Apache-2.0 */
/* Spans: the application builds tuples in a lane's open segment. */
#include "source.h"

#include "base/compiler.h"
#include "base/error.h"

/* How many tuples fit into the open segment of a lane. */
static uint32_t lane_room(const struct dfi_source *source, uint32_t target)
{
	if (source_lane_is_closed(source, target))
		return 0;
	return (uint32_t)(source->writers[target].end -
		   source->head.lanes[target].next) /
	    source->head.tuple_size;
}

static __attribute__((cold)) int no_span(
    const struct dfi_source *source, const char *call)
{
	return dfi__fail(-EINVAL, "flow '%s': %s %u: %s: span is NULL",
	    source->flow.name, SOURCE_ID(source), call);
}

/* The error names the limit of a claim and how to raise it. */
static __attribute__((cold)) int no_claim(
    const struct dfi_source *source, uint32_t target, uint32_t n)
{
	const char *why = "do not fit a segment",
		   *instead = "create the flow with a larger segment_size";
	uint32_t most = lane_most_room(source, target, &why, &instead);

	if (source->flow.goal == DFI_LATENCY) {
		why = "do not fit a segment of a flow for latency";
		instead = "create the flow with goal DFI_BANDWIDTH";
	}
	return dfi__fail(-EMSGSIZE,
	    "flow '%s': %s %u: claim: %u tuples %s: claim at most %u, or %s",
	    source->flow.name, SOURCE_ID(source), n, why, most, instead);
}

static int check_claim(
    const struct dfi_source *source, uint32_t lane, uint32_t n)
{
	const char *why, *instead;

	if (!n)
		return dfi__fail(-EINVAL,
		    "flow '%s': %s %u: claim: 0 tuples: claim 1 or more",
		    source->flow.name, SOURCE_ID(source));
	return n > lane_most_room(source, lane, &why, &instead)
	    ? no_claim(source, lane, n)
	    : 0;
}

/* Send an open segment that has less room than that. */
static int claim_room(struct dfi_source *source, uint32_t target, uint32_t n)
{
	int ret = 0;

	source_lock(source);
	if (lane_room(source, target) && lane_room(source, target) < n)
		ret = lane_send(source, target);
	if (!ret && source_lane_is_closed(source, target))
		ret = lane_make_room(source, target);
	source_unlock(source);
	return ret;
}

static always_inline int claim(struct dfi_source *source, uint32_t target,
    uint32_t lane, uint32_t n, struct dfi_span *span)
{
	uint32_t room = lane_room(source, lane);
	int ret;

	if (room < n) {
		ret = claim_room(source, lane, n);
		if (ret < 0)
			return ret;
		room = lane_room(source, lane);
	}
	span->tuples = source->head.lanes[lane].next;
	span->count = room;
	span->target = target;
	source->claimed = span->tuples;
	return 0;
}

int dfi_source_claim(
    struct dfi_source *source, uint32_t target, struct dfi_span *span)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));
	int ret = dfi__source_check_free(source);
	uint32_t lane;

	if (ret < 0)
		return ret;
	if (!span)
		return dfi__source_refuse(source, no_span(source, "claim"));
	if (!source_find_lane(source, target, &lane))
		return dfi__source_refuse(
		    source, dfi__source_no_target(source, target));
	return claim(source, target, lane, 1, span);
}

int dfi_source_claim_n(struct dfi_source *source, uint32_t target, uint32_t n,
    struct dfi_span *span)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));
	int ret = dfi__source_check_free(source);
	uint32_t lane = 0;

	if (ret < 0)
		return ret;
	if (!span)
		ret = no_span(source, "claim");
	else if (!source_find_lane(source, target, &lane))
		ret = dfi__source_no_target(source, target);
	else
		ret = check_claim(source, lane, n);
	return ret < 0 ? dfi__source_refuse(source, ret)
		       : claim(source, target, lane, n, span);
}

static int commit(struct dfi_source *source, const struct dfi_span *span,
    uint32_t count, bool more)
{
	struct dfi_source_lane *lane;
	int ret = source_check(source);
	uint32_t number;

	if (ret < 0)
		return ret;
	if (!span)
		return dfi__source_refuse(source, no_span(source, "commit"));
	if (!source->claimed || span->tuples != source->claimed ||
	    !source_find_lane(source, span->target, &number) ||
	    source_lane_is_closed(source, number) ||
	    span->tuples != source->head.lanes[number].next)
		return dfi__source_refuse(source,
		    dfi__fail(-EINVAL,
			"flow '%s': %s %u: commit: the span is not the one "
			"that was claimed last",
			source->flow.name, SOURCE_ID(source)));
	lane = &source->head.lanes[number];
	if (count > span->count ||
	    (uint64_t)count * source->head.tuple_size >
		(uint64_t)(source->writers[number].end - lane->next))
		return dfi__source_refuse(source,
		    dfi__fail(-EINVAL,
			"flow '%s': %s %u: commit: %u tuples are more than "
			"the %u that were claimed",
			source->flow.name, SOURCE_ID(source), count,
			span->count));
	source->claimed = NULL;
	more = more && source_may_hold(source);
	if (more)
		source->batch.open = true;
	if (dfi_source_lane_advance(
		lane, lane->next + (size_t)count * source->head.tuple_size))
		ret = dfi_source_lane_full(source, number);
	if (more)
		source->batch.open = false;
	else
		source_post(source);
	return ret;
}

int dfi_source_commit(
    struct dfi_source *source, const struct dfi_span *span, uint32_t count)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));

	return commit(source, span, count, false);
}

int dfi_source_commit_more(
    struct dfi_source *source, const struct dfi_span *span, uint32_t count)
{
	SOURCE_CALL(source, SOURCE_SHARED(source));

	return commit(source, span, count, true);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A combiner flow is a shuffle flow by the hash of the group's key, whose
 * targets aggregate.
 */
#include "combine_flow.h"

#include <errno.h>
#include "base/bits.h"
#include "base/error.h"
#include "flows/aggregate/partials.h"
#include "route.h"

/*
 * All stages of a source fit a first-level cache, unless it has many targets.
 */
#define STAGES_BYTES (UINT64_C(32) << 10)
#define STAGE_BYTES 4096
#define SMALL_STAGE_BYTES 512
/* A stage holds at least this many tuples, however large they are. */
#define STAGE_TUPLES 4

static const char *attr_of_others(const struct dfi_flow_attr *attr)
{
	return attr->routing ? "routing" : dfi__routing_attr(attr);
}

static const char *attr_of_combiners(const struct dfi_flow_attr *attr)
{
	if (attr->combine.n_aggregates || attr->combine.aggregates)
		return "combine.aggregates";
	if (attr->combine.group_by)
		return "combine.group_by";
	if (attr->combine.max_groups)
		return "combine.max_groups";
	if (attr->combine.window_tuples)
		return "combine.window_tuples";
	if (attr->combine.when_full)
		return "combine.when_full";
	if (attr->combine.source_combining)
		return "combine.source_combining";
	if (attr->combine.combining_bytes)
		return "combine.combining_bytes";
	return attr->combine.fan_in ? "combine.fan_in" : NULL;
}

static int check_attr(const struct flow *flow, const struct dfi_flow_attr *attr)
{
	if (attr_of_others(attr))
		return dfi__fail(-EINVAL,
		    "flow '%s': %s is not for flows of kind DFI_COMBINE: "
		    "targets have the groups whose keys hash to them",
		    flow->name, attr_of_others(attr));
	if (!attr->combine.group_by && flow->n_targets > 1)
		return dfi__fail(-EINVAL,
		    "flow '%s': n_targets %u: without combine.group_by there "
		    "is one "
		    "group, which one target has",
		    flow->name, flow->n_targets);
	if (attr->combine.max_groups > DFI_MAX_GROUPS)
		return dfi__fail(-EINVAL,
		    "flow '%s': combine.max_groups %lu is more than %lu",
		    flow->name, (unsigned long)attr->combine.max_groups,
		    (unsigned long)DFI_MAX_GROUPS);
	if (attr->combine.when_full > DFI_FULL_EMIT)
		return dfi__fail(-EINVAL,
		    "flow '%s': combine.when_full %u is no enum dfi_when_full",
		    flow->name, attr->combine.when_full);
	if (attr->combine.fan_in == 1 ||
	    attr->combine.fan_in > DFI_MAX_ENDPOINTS)
		return dfi__fail(-EINVAL,
		    "flow '%s': combine.fan_in %u: a combiner takes what 2 to "
		    "%d "
		    "sources send; 0: there are none",
		    flow->name, attr->combine.fan_in, DFI_MAX_ENDPOINTS);
	if (attr->combine.combining_bytes > DFI_MAX_COMBINING_BYTES)
		return dfi__fail(-EINVAL,
		    "flow '%s': combine.combining_bytes %lu is more than %lu",
		    flow->name, (unsigned long)attr->combine.combining_bytes,
		    (unsigned long)DFI_MAX_COMBINING_BYTES);
	return 0;
}

int dfi__combine_choose(struct flow *flow, uint32_t wanted)
{
	uint32_t room = flow->segment_size / flow->schema->tuple_size *
	    flow->schema->tuple_size;
	struct plan *plan;
	uint32_t size;
	int ret;

	if (flow->kind != DFI_COMBINE)
		return 0;
	if (wanted > DFI_COMBINING_ALWAYS)
		return dfi__fail(-EINVAL,
		    "flow '%s': combine.source_combining %u is no enum "
		    "dfi_source_combining",
		    flow->name, wanted);
	if (wanted > DFI_COMBINING_OFF && flow->goal == DFI_LATENCY)
		return dfi__fail(-EINVAL,
		    "flow '%s': combine.source_combining is for flows of goal "
		    "DFI_BANDWIDTH: one of DFI_LATENCY sends each tuple at "
		    "once",
		    flow->name);
	ret = dfi__combine_plan(flow, &plan);
	if (ret < 0)
		return ret;
	size = plan_record_size(plan);
	dfi__plan_free(plan);
	if (flow->fan_in && size > DFI_MAX_SEGMENT_SIZE)
		return dfi__fail(-EMSGSIZE,
		    "flow '%s': combine.fan_in: a partial aggregate of %u "
		    "bytes is "
		    "larger than a segment may be, which is %u",
		    flow->name, size, DFI_MAX_SEGMENT_SIZE);
	if (wanted > DFI_COMBINING_OFF && size > room)
		return dfi__fail(-EMSGSIZE,
		    "flow '%s': combine.source_combining: a partial aggregate "
		    "of %u "
		    "bytes doesn't fit a segment, which has room for %u: raise "
		    "segment_size",
		    flow->name, size, room);
	flow->combining = wanted;
	if (!wanted)
		flow->combining = flow->goal == DFI_BANDWIDTH && flow->n_keys &&
			size <= room
		    ? DFI_COMBINING_ADAPTIVE
		    : DFI_COMBINING_OFF;
	return 0;
}

int dfi__combine_declare(struct flow *flow, const struct dfi_flow_attr *attr)
{
	struct plan *plan;
	int ret;

	if (flow->kind != DFI_COMBINE)
		return attr_of_combiners(attr)
		    ? dfi__fail(-EINVAL,
			  "flow '%s': %s is for flows of kind DFI_COMBINE",
			  flow->name, attr_of_combiners(attr))
		    : 0;
	ret = check_attr(flow, attr);
	if (!ret && attr->combine.group_by)
		ret = dfi__route_keys(
		    flow, "combine.group_by", attr->combine.group_by);
	if (ret < 0)
		return ret;
	flow->max_groups = attr->combine.max_groups ? attr->combine.max_groups
						    : DFI_DEFAULT_GROUPS;
	flow->window_tuples = attr->combine.window_tuples;
	flow->when_full = attr->combine.when_full;
	flow->fan_in = attr->combine.fan_in;
	flow->combining_bytes = attr->combine.combining_bytes;
	/* This checks the aggregates. */
	ret = dfi__plan_new(flow->schema, flow->keys, flow->n_keys,
	    attr->combine.aggregates, attr->combine.n_aggregates, &plan);
	if (ret < 0)
		return dfi__fail_within(ret, "flow '%s'", flow->name);
	dfi__plan_free(plan);
	flow->aggregates = dfi__aggregates_copy(
	    attr->combine.aggregates, attr->combine.n_aggregates);
	if (!flow->aggregates)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	flow->n_aggregates = attr->combine.n_aggregates;
	return 0;
}

static int new_plan(const struct flow *flow, struct plan **plan)
{
	return dfi__plan_new(flow->tuples ? flow->tuples : flow->schema,
	    flow->tuples ? flow->tuple_keys : flow->keys, flow->n_keys,
	    flow->aggregates, flow->n_aggregates, plan);
}

int dfi__combine_plan(const struct flow *flow, struct plan **plan)
{
	int ret = new_plan(flow, plan);

	return ret < 0 ? dfi__fail_within(ret, "flow '%s'", flow->name) : 0;
}

int dfi__combine_check(const struct flow *flow)
{
	struct plan *plan;
	int ret;

	if (flow->kind != DFI_COMBINE)
		return 0;
	ret = new_plan(flow, &plan);
	if (ret < 0)
		return dfi__fail_within(ret == -ENOMEM ? ret : -EBADMSG,
		    ret == -ENOMEM
			? "flow '%s'"
			: "flow '%s': its entry in the registry is damaged",
		    flow->name);
	dfi__plan_free(plan);
	return 0;
}

struct combine_sizes dfi__combine_sizes(
    const struct flow *flow, const struct plan *plan)
{
	uint32_t n = flow->n_targets, tuple_size = flow->schema->tuple_size;
	struct combine_sizes sizes;

	sizes.stage = max_u64(
	    min_u64(STAGES_BYTES / n, STAGE_BYTES), SMALL_STAGE_BYTES);
	sizes.stage = max_u64(sizes.stage / tuple_size, STAGE_TUPLES) *
	    tuple_size;
	sizes.max = dfi__partials_fit(plan, combining_bytes(flow) / n);
	sizes.table = align_up(dfi__partials_size(plan, sizes.max), CACHE_LINE);
	sizes.all = n * (align_up(sizes.stage, CACHE_LINE) + sizes.table);
	return sizes;
}

int dfi__combine_source_bytes(const struct flow *flow, uint64_t *bytes)
{
	struct plan *plan;
	int ret;

	*bytes = 0;
	if (!dfi__flow_combines(flow))
		return 0;
	ret = dfi__combine_plan(flow, &plan);
	if (ret < 0)
		return ret;
	*bytes = dfi__combine_sizes(flow, plan).all;
	dfi__plan_free(plan);
	return 0;
}

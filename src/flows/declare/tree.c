/* SPDX-License-Identifier: Apache-2.0 */
/* See tree.h. This file only computes; it sends nothing. */
#include "tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bits.h"
#include "base/error.h"
#include "base/schema.h"
#include "flows/aggregate/plan.h"
#include "combine_flow.h"
#include "flows/descriptor/descriptor.h"
#include "buffers/layout/segment.h"

/* Combiners of one level: numbers first to first + n - 1. */
struct level {
	uint32_t first, n;
};

static uint32_t divide_up(uint32_t n, uint32_t by)
{
	return n / by + (n % by != 0);
}

static struct level first_level(const struct flow *flow)
{
	return (struct level){ 0, divide_up(flow->n_sources, flow->fan_in) };
}

static bool is_top(const struct flow *flow, const struct level *level)
{
	return level->n <= flow->fan_in;
}

static struct level level_above(
    const struct flow *flow, const struct level *level)
{
	return (struct level){ level->first + level->n,
		divide_up(level->n, flow->fan_in) };
}

static struct level top_level(const struct flow *flow)
{
	struct level level = first_level(flow);

	while (!is_top(flow, &level))
		level = level_above(flow, &level);
	return level;
}

uint32_t dfi__tree_size(const struct flow *flow)
{
	struct level top;

	if (!flow->fan_in)
		return 0;
	top = top_level(flow);
	return top.first + top.n;
}

uint32_t dfi__tree_top(const struct flow *flow)
{
	return top_level(flow).first;
}

bool dfi__tree_takes_sources(const struct flow *flow, uint32_t combiner)
{
	return combiner < first_level(flow).n;
}

/* ---- Partial aggregates as tuples ------------------------------------------
 */

/* The schema of partial aggregates: the columns of their key. */
static struct dfi_schema *record_schema(
    const struct flow *flow, const struct plan *plan)
{
	struct dfi_field fields[DFI_MAX_KEYS];
	struct dfi_schema schema = {
		.fields = fields,
		.n_fields = flow->n_keys,
		.tuple_size = plan_record_size(plan),
	};
	uint32_t i;

	for (i = 0; i < flow->n_keys; i++) {
		fields[i] = flow->schema->fields[flow->keys[i]];
		fields[i].offset = plan->columns[i].at;
	}
	return dfi__schema_copy(&schema);
}

/*
 * Make partial aggregates the flow's tuples. Sources of such a part send what
 * they are given: they have nothing to combine, and their windows end with
 * those of the combiner.
 */
static int make_records(struct flow *flow)
{
	struct dfi_schema *records;
	struct plan *plan;
	uint32_t i;
	int ret = dfi__combine_plan(flow, &plan);

	if (ret < 0)
		return ret;
	records = record_schema(flow, plan);
	dfi__plan_free(plan);
	if (!records)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	flow->tuples = flow->schema;
	flow->schema = records;
	memcpy(flow->tuple_keys, flow->keys, sizeof(flow->tuple_keys));
	for (i = 0; i < flow->n_keys; i++)
		flow->keys[i] = i;
	flow->segment_size = (uint32_t)max_u64(
				 flow->segment_size / records->tuple_size, 1) *
	    records->tuple_size;
	if (flow->goal == DFI_LATENCY)
		flow->segment_size = records->tuple_size;
	flow->combining = DFI_COMBINING_OFF;
	if (flow->window_tuples)
		flow->window_tuples = DFI_WINDOW_MARKED;
	return 0;
}

/* ---- Parts -----------------------------------------------------------------
 */

/*
 * Take the senders that share a combiner with the sender at this index, and
 * that combiner of the level above.
 */
static void take_group(struct flow *flow, const struct level *senders,
    uint32_t index, const struct level *above)
{
	uint32_t group = index / flow->fan_in, begin = group * flow->fan_in;

	flow->part.combiner = above->first + group + 1;
	flow->part.first_source = senders->first + begin;
	flow->n_sources = (uint32_t)min_u64(senders->n - begin, flow->fan_in);
	flow->n_targets = 1;
}

/*
 * Take the combiners of a level that share a receiver with the one at this
 * index. The top level sends to the targets.
 */
static int take_combiners(
    struct flow *flow, const struct level *senders, uint32_t index)
{
	struct level above;

	if (is_top(flow, senders)) {
		flow->part.first_source = senders->first;
		flow->n_sources = senders->n;
	} else {
		above = level_above(flow, senders);
		take_group(flow, senders, index, &above);
	}
	flow->part.from_combiners = true;
	return make_records(flow);
}

static void take_sources(struct flow *flow, uint32_t index)
{
	const struct level sources = { 0, flow->n_sources };
	const struct level above = first_level(flow);

	take_group(flow, &sources, index, &above);
}

/*
 * The level of a combiner; *below becomes the level below it, if there is one.
 */
static struct level find_level(
    const struct flow *flow, uint32_t combiner, struct level *below)
{
	struct level level = first_level(flow);

	while (combiner >= level.first + level.n) {
		*below = level;
		level = level_above(flow, &level);
	}
	return level;
}

int dfi__tree_source(struct flow *flow, uint32_t index)
{
	if (flow->fan_in)
		take_sources(flow, index);
	return 0;
}

int dfi__tree_target(struct flow *flow)
{
	struct level top;

	if (!flow->fan_in)
		return 0;
	top = top_level(flow);
	return take_combiners(flow, &top, 0);
}

int dfi__tree_input(struct flow *flow, uint32_t combiner)
{
	struct level below, level = find_level(flow, combiner, &below);
	uint32_t index = (combiner - level.first) * flow->fan_in;

	if (level.first)
		return take_combiners(flow, &below, index);
	take_sources(flow, index);
	return 0;
}

int dfi__tree_output(struct flow *flow, uint32_t combiner)
{
	struct level below, level = find_level(flow, combiner, &below);

	return take_combiners(flow, &level, combiner - level.first);
}

/* ---- Causes ----------------------------------------------------------------
 */

#define FATE_BITS 2
static_assert((2 * DFI_MAX_ENDPOINTS) << FATE_BITS <= FOOTER_USED_MAX,
    "a cause takes the place of a size in a footer");

uint32_t dfi__tree_cause(
    const struct flow *flow, uint32_t sender, enum tree_fate fate)
{
	uint32_t number = flow->part.first_source + sender;

	if (flow->part.from_combiners)
		number += DFI_MAX_ENDPOINTS;
	return number << FATE_BITS | fate;
}

enum tree_fate dfi__tree_fate(uint32_t cause)
{
	enum tree_fate fate = cause & ((1 << FATE_BITS) - 1);

	return fate <= TREE_NEVER_CAME &&
		cause >> FATE_BITS < 2 * DFI_MAX_ENDPOINTS
	    ? fate
	    : TREE_UNKNOWN;
}

void dfi__tree_culprit(uint32_t cause, char *name, size_t size)
{
	uint32_t number = cause >> FATE_BITS;

	if (number < DFI_MAX_ENDPOINTS)
		snprintf(name, size, "source %u", number);
	else
		snprintf(name, size, "combiner %u", number - DFI_MAX_ENDPOINTS);
}

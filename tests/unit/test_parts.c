/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of flows with a tree: for all numbers of sources and any fan-in,
 * each sender is among its receiver's inputs, none has too many inputs, and
 * nobody is left out.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/schema.h"
#include "flows/aggregate/plan.h"
#include "flows/descriptor/descriptor.h"
#include "flows/declare/tree.h"

struct tuple {
	uint32_t value;
	uint16_t low;
	uint64_t key;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct tuple, value),
	DFI_FIELD(struct tuple, low),
	DFI_FIELD(struct tuple, key),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct tuple, fields);
static const struct dfi_aggregate aggregates[] = {
	{ .function = DFI_AVG, .field = "value" },
	{ .function = DFI_COUNT },
};

static struct flow make_flow(uint32_t n_sources, uint32_t fan_in)
{
	struct flow flow = {
		.name = "f",
		.kind = DFI_COMBINE,
		.n_sources = n_sources,
		.n_targets = 3,
		.fan_in = fan_in,
		.n_keys = 2,
		.keys = { 2, 1 },
		.segment_size = 100 * sizeof(struct tuple),
		.segment_count = 4,
		.combining = DFI_COMBINING_ADAPTIVE,
		.window_tuples = 7,
		.max_groups = 10,
		.n_aggregates = 2,
	};

	flow.schema = dfi__schema_copy(&schema);
	flow.aggregates = dfi__aggregates_copy(aggregates, 2);
	cr_assert(flow.schema && flow.aggregates);
	return flow;
}

static struct flow part_of(
    const struct flow *flow, int (*make)(struct flow *, uint32_t), uint32_t i)
{
	struct flow part;

	cr_assert_eq(dfi__flow_copy(flow, &part), 0);
	cr_assert_eq(make(&part, i), 0);
	return part;
}

/* A sender and its receiver agree on their part. */
static void expect_same(const struct flow *a, const struct flow *b)
{
	cr_assert_eq(a->part.combiner, b->part.combiner);
	cr_assert_eq(a->part.from_combiners, b->part.from_combiners);
	cr_assert_eq(a->part.first_source, b->part.first_source);
	cr_assert_eq(a->n_sources, b->n_sources);
	cr_assert_eq(a->n_targets, b->n_targets);
	cr_assert_eq(a->segment_size, b->segment_size);
	cr_assert_eq(a->schema->tuple_size, b->schema->tuple_size);
}

static void expect_input(const struct flow *part, uint32_t number)
{
	cr_assert_geq(number, part->part.first_source);
	cr_assert_lt(number, part->part.first_source + part->n_sources);
}

/* The receiver of a source or combiner. */
static struct flow receiver_of(const struct flow *flow, const struct flow *part)
{
	struct flow targets;

	if (part->part.combiner)
		return part_of(flow, dfi__tree_input, part->part.combiner - 1);
	cr_assert_eq(dfi__flow_copy(flow, &targets), 0);
	cr_assert_eq(dfi__tree_target(&targets), 0);
	return targets;
}

static void check_sender(const struct flow *flow, struct flow part,
    uint32_t number, uint32_t *n_inputs)
{
	struct flow receiver = receiver_of(flow, &part);

	expect_same(&part, &receiver);
	expect_input(&part, number);
	cr_assert_leq(part.n_sources, flow->fan_in);
	n_inputs[part.part.combiner]++;
	dfi__flow_free(&receiver);
	dfi__flow_free(&part);
}

static void check_flow(uint32_t n_sources, uint32_t fan_in)
{
	struct flow flow = make_flow(n_sources, fan_in), part;
	uint32_t n = dfi__tree_size(&flow), i;
	/* Of the targets, and of each combiner. */
	uint32_t *n_inputs = calloc(n + 1, sizeof(*n_inputs));

	cr_assert_geq(n, 1);
	cr_assert_lt(n, DFI_MAX_ENDPOINTS);
	for (i = 0; i < n_sources; i++) {
		part = part_of(&flow, dfi__tree_source, i);
		cr_assert_eq(part.part.combiner - 1, i / fan_in);
		cr_assert_eq(part.schema->tuple_size, sizeof(struct tuple));
		check_sender(&flow, part, i, n_inputs);
	}
	for (i = 0; i < n; i++) {
		part = part_of(&flow, dfi__tree_output, i);
		/* A receiver has a higher number. */
		cr_assert(!part.part.combiner || part.part.combiner - 1 > i);
		cr_assert_eq(part.n_targets, part.part.combiner ? 1 : 3);
		check_sender(&flow, part, i, n_inputs);
	}
	for (i = 0; i <= n; i++) {
		cr_assert_geq(n_inputs[i], 1);
		cr_assert_leq(n_inputs[i], fan_in);
	}
	free(n_inputs);
	dfi__flow_free(&flow);
}

Test(parts, of_each_sender_are_those_of_its_receiver)
{
	static const uint32_t many[] = { 100, 1023, 2049, 4095, 4096 };
	uint32_t n, k;

	for (n = 1; n <= 30; n++)
		for (k = 2; k <= 9; k++)
			check_flow(n, k);
	for (n = 0; n < sizeof(many) / sizeof(many[0]); n++)
		check_flow(many[n], n % 2 ? 2 : 64);
	check_flow(5, DFI_MAX_ENDPOINTS);
}

Test(parts, above_the_first_level_have_records_with_the_key_s_columns)
{
	struct flow flow = make_flow(8, 4), part;

	part = part_of(&flow, dfi__tree_output, 1);
	/* Two words of key, two of the sum, and one of the count. */
	cr_assert_eq(part.schema->tuple_size, 5 * 8);
	cr_assert_eq(part.schema->n_fields, 2);
	cr_assert_eq(part.keys[0], 0);
	cr_assert_eq(part.keys[1], 1);
	cr_assert_str_eq(part.schema->fields[0].name, "key");
	cr_assert_eq(part.schema->fields[0].offset, 0);
	cr_assert_str_eq(part.schema->fields[1].name, "low");
	cr_assert_eq(part.schema->fields[1].offset, 8);
	cr_assert_eq(part.schema->fields[1].type, DFI_UINT16);
	cr_assert_eq(part.segment_size % 40, 0);
	cr_assert_leq(part.segment_size, flow.segment_size);
	cr_assert_eq(part.window_tuples, DFI_WINDOW_MARKED);
	cr_assert_eq(part.combining, DFI_COMBINING_OFF);
	dfi__flow_free(&part);
	flow.goal = DFI_LATENCY;
	part = part_of(&flow, dfi__tree_output, 1);
	cr_assert_eq(part.segment_size, 40);
	dfi__flow_free(&part);
	dfi__flow_free(&flow);
}

Test(parts, without_a_tree_are_the_flow)
{
	struct flow flow = make_flow(4, 0), part;

	cr_assert_eq(dfi__tree_size(&flow), 0);
	part = part_of(&flow, dfi__tree_source, 3);
	expect_same(&part, &flow);
	cr_assert_eq(dfi__tree_target(&part), 0);
	expect_same(&part, &flow);
	dfi__flow_free(&part);
	dfi__flow_free(&flow);
}

Test(parts, have_causes_that_name_who_it_was)
{
	struct flow flow = make_flow(40, 4), part;
	uint32_t cause;
	char name[32];

	part = part_of(&flow, dfi__tree_source, 39);
	cause = dfi__tree_cause(&part, 3, TREE_DIED);
	cr_assert_eq(dfi__tree_fate(cause), TREE_DIED);
	dfi__tree_culprit(cause, name, sizeof(name));
	cr_assert_str_eq(name, "source 39");
	dfi__flow_free(&part);
	part = part_of(&flow, dfi__tree_output, 9);
	cause = dfi__tree_cause(&part, 1, TREE_ABORTED);
	cr_assert_eq(dfi__tree_fate(cause), TREE_ABORTED);
	dfi__tree_culprit(cause, name, sizeof(name));
	cr_assert_str_eq(name, "combiner 9");
	dfi__flow_free(&part);
	dfi__flow_free(&flow);
	cr_assert_eq(dfi__tree_fate(0), TREE_UNKNOWN);
	/* The content of a hostile one. */
	cr_assert_eq(dfi__tree_fate(3), TREE_NEVER_CAME);
	cr_assert_eq(dfi__tree_fate((1u << 27) - 2), TREE_UNKNOWN);
}

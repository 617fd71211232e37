/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Combiner flows: results of all sources at one target or several, by each way
 * to consume; invalid uses; and no result from a truncated stream.
 * tests/unit/test_combine.c tests the computations.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(combine, .init = setup, .fini = teardown, .timeout = 300);

enum {
	MAX_ENDS = 4,
	N_KEYS = 300,
};

static const struct dfi_aggregate aggregates[] = {
	{ .function = DFI_COUNT, .name = "count" },
	{ .function = DFI_SUM, .field = "val", .name = "sum" },
	{ .function = DFI_MAX, .field = "val", .name = "most" },
};

struct result {
	uint64_t key, count, sum, most;
};

static const struct dfi_field result_fields[] = {
	DFI_FIELD(struct result, key),
	DFI_FIELD(struct result, count),
	DFI_FIELD(struct result, sum),
	DFI_FIELD(struct result, most),
};
static const struct dfi_schema result_schema = DFI_SCHEMA(
    struct result, result_fields);

static struct dfi_flow_attr flow_attr(uint32_t n_sources, uint32_t n_targets)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_COMBINE;
	attr.schema = &kv_schema;
	attr.n_sources = n_sources;
	attr.n_targets = n_targets;
	attr.combine.aggregates = aggregates;
	attr.combine.n_aggregates = N_ELEMENTS(aggregates);
	attr.combine.group_by = "key";
	return attr;
}

static void create(const struct dfi_flow_attr *attr)
{
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

/* ---- What sources push, and what must come of it
 * ------------------------------ */

static uint64_t n_tuples = 20000;

static struct kv tuple_of(uint32_t source, uint64_t i)
{
	uint64_t value = mix(source, i);

	return (struct kv){ .key = value % N_KEYS, .val = value >> 20 };
}

struct end {
	pthread_t thread;
	uint32_t index;
	bool batches;
	const char *error;
	char text[256];
	uint64_t n;
	struct result results[N_KEYS];
};

static const char *fail(struct end *end, const char *what)
{
	snprintf(end->text, sizeof(end->text), "%s: %s", what, dfi_errmsg());
	return end->text;
}

static void *run_source(void *arg)
{
	struct end *end = arg;
	struct dfi_source *source;
	struct kv tuple;
	uint64_t i;

	if (dfi_source_open(rig.other, "f", end->index, NULL, &source) < 0) {
		end->error = fail(end, "open");
		return NULL;
	}
	for (i = 0; i < n_tuples && !end->error; i++) {
		tuple = tuple_of(end->index, i);
		if ((end->index % 2
			    ? dfi_source_push(source, &tuple)
			    : dfi_source_push_batch(source, &tuple, 1)) < 0)
			end->error = fail(end, "push");
	}
	if (dfi_source_close(source) < 0 && !end->error)
		end->error = fail(end, "close");
	return NULL;
}

static int keep(struct end *end, const struct result *result)
{
	if (end->n == N_KEYS || result->key >= N_KEYS)
		return -1;
	end->results[end->n++] = *result;
	return 0;
}

static int take_batches(struct dfi_target *target, struct end *end)
{
	struct dfi_batch batch;
	uint32_t i;
	int ret;

	while ((ret = dfi_target_consume_batch(target, &batch)) > 0) {
		for (i = 0; i < batch.count; i++)
			if (keep(end, (const struct result *)batch.tuples + i))
				ret = -1;
		dfi_target_release(target, &batch);
		if (ret < 0)
			break;
	}
	return ret;
}

static int take_each(struct dfi_target *target, struct end *end)
{
	const void *tuple;
	int ret;

	while ((ret = dfi_target_consume(target, &tuple)) > 0)
		if (keep(end, tuple))
			return -1;
	return ret;
}

static void *run_target(void *arg)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct end *end = arg;
	struct dfi_target *target;
	int ret;

	attr.schema = &result_schema;
	if (dfi_target_open(rig.dfi, "f", end->index, &attr, &target) < 0) {
		end->error = fail(end, "open");
		return NULL;
	}
	ret = end->batches ? take_batches(target, end) : take_each(target, end);
	if (ret)
		end->error = fail(end, "consume");
	/* The end stays the end. */
	if (!ret && take_each(target, end))
		end->error = fail(end, "consume at the end");
	if (dfi_target_close(target) < 0 && !end->error)
		end->error = fail(end, "close");
	return NULL;
}

static void reference(uint32_t n_sources, struct result expected[N_KEYS])
{
	struct result *result;
	struct kv tuple;
	uint32_t s;
	uint64_t i;

	memset(expected, 0, N_KEYS * sizeof(*expected));
	for (s = 0; s < n_sources; s++)
		for (i = 0; i < n_tuples; i++) {
			tuple = tuple_of(s, i);
			result = &expected[tuple.key];
			result->key = tuple.key;
			result->count++;
			result->sum += tuple.val;
			if (tuple.val > result->most)
				result->most = tuple.val;
		}
}

static void check(
    const struct end *targets, uint32_t n_targets, uint32_t n_sources)
{
	static struct result expected[N_KEYS];
	const struct result *got;
	bool seen[N_KEYS] = { false };
	uint64_t i, n = 0;
	uint32_t t;

	reference(n_sources, expected);
	for (t = 0; t < n_targets; t++)
		for (i = 0; i < targets[t].n; i++, n++) {
			got = &targets[t].results[i];
			cr_assert(!seen[got->key], "group %lu comes twice",
			    (unsigned long)got->key);
			seen[got->key] = true;
			cr_assert_eq(
			    memcmp(got, &expected[got->key], sizeof(*got)), 0,
			    "group %lu", (unsigned long)got->key);
			cr_assert_eq(
			    dfi_hash64_partition(got->key, n_targets), t);
		}
	for (i = 0; i < N_KEYS; i++)
		cr_assert_eq(seen[i], expected[i].count != 0);
}

static void run(uint32_t n_sources, uint32_t n_targets, bool batches)
{
	static struct end sources[MAX_ENDS], targets[MAX_ENDS];
	uint32_t i;

	memset(sources, 0, sizeof(sources));
	memset(targets, 0, sizeof(targets));
	for (i = 0; i < n_targets; i++) {
		targets[i].index = i;
		targets[i].batches = batches;
		cr_assert_eq(pthread_create(&targets[i].thread, NULL,
				 run_target, &targets[i]),
		    0);
	}
	for (i = 0; i < n_sources; i++) {
		sources[i].index = i;
		cr_assert_eq(pthread_create(&sources[i].thread, NULL,
				 run_source, &sources[i]),
		    0);
	}
	for (i = 0; i < n_sources; i++)
		pthread_join(sources[i].thread, NULL);
	for (i = 0; i < n_targets; i++)
		pthread_join(targets[i].thread, NULL);
	for (i = 0; i < n_sources; i++)
		cr_assert_null(
		    sources[i].error, "source %u: %s", i, sources[i].error);
	for (i = 0; i < n_targets; i++)
		cr_assert_null(
		    targets[i].error, "target %u: %s", i, targets[i].error);
	check(targets, n_targets, n_sources);
}

Test(combine, one_source_and_one_target)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);

	create(&attr);
	run(1, 1, true);
}

Test(combine, several_sources_and_one_target)
{
	struct dfi_flow_attr attr = flow_attr(4, 1);

	create(&attr);
	run(4, 1, false);
}

Test(combine, groups_are_shared_out_to_several_targets)
{
	struct dfi_flow_attr attr = flow_attr(3, 4);

	create(&attr);
	run(3, 4, true);
}

Test(combine, for_latency)
{
	struct dfi_flow_attr attr = flow_attr(2, 2);

	attr.goal = DFI_LATENCY;
	n_tuples = 2000;
	create(&attr);
	run(2, 2, true);
}

Test(combine, with_checksums)
{
	struct dfi_flow_attr attr = flow_attr(2, 1);

	attr.verify = DFI_VERIFY_CHECKSUM;
	create(&attr);
	run(2, 1, true);
}

Test(combine, no_tuples_have_no_results)
{
	struct dfi_flow_attr attr = flow_attr(2, 2);

	n_tuples = 0;
	create(&attr);
	run(2, 2, true);
}

Test(combine, all_tuples_are_one_group)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_source *source;
	struct dfi_target *target;
	const uint64_t *result;
	const void *tuple;
	uint64_t i;

	attr.combine.group_by = NULL;
	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	for (i = 1; i <= 100; i++)
		cr_assert_eq(
		    dfi_source_push(source, &(struct kv){ i, 2 * i }), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_consume(target, &tuple), 1);
	result = tuple;
	cr_assert_eq(result[0], 100);
	cr_assert_eq(result[1], 10100);
	cr_assert_eq(result[2], 200);
	cr_assert_eq(dfi_target_consume(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(combine, a_cursor_leaves_results_that_it_has_not_read)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_target_cursor cursor;
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	uint64_t i;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < 3; i++)
		cr_assert_eq(dfi_source_push(source, &(struct kv){ i, i }), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cursor = dfi_target_cursor_open(target, sizeof(struct result));
	cr_assert_not_null(
	    dfi_target_cursor_get(&cursor, sizeof(struct result)));
	cr_assert_eq(dfi_target_cursor_close(cursor), 0);
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_target_consume(target, &tuple), 1);
	cr_assert_eq(dfi_target_consume(target, &tuple), 0);
	cursor = dfi_target_cursor_open(target, sizeof(struct result));
	cr_assert_null(dfi_target_cursor_get(&cursor, sizeof(struct result)));
	cr_assert_eq(dfi_target_cursor_close(cursor), 0);
	cr_assert_eq(dfi_target_consume(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

/* ---- Groups of targets, and nonblocking ones
 * ------------------------------------ */

Test(combine, a_cursor_and_a_nonblocking_target)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_target_cursor cursor;
	const struct result *result;
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	uint64_t n = 0;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, 0);
	assert_error(dfi_target_consume(target, &tuple), -EAGAIN, "no tuple");
	cr_assert_eq(dfi_source_push(source, &(struct kv){ 1, 2 }), 0);
	cr_assert_eq(dfi_source_push(source, &(struct kv){ 3, 4 }), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	assert_error(dfi_target_consume(target, &tuple), -EAGAIN, "no tuple");
	cr_assert_eq(dfi_source_close(source), 0);
	cursor = dfi_target_cursor_open(target, sizeof(struct kv));
	cr_assert_eq(cursor.status, -EINVAL);
	cursor = dfi_target_cursor_open(target, sizeof(struct result));
	while ((result = cursor_get_soon(&cursor, sizeof(*result)))) {
		cr_assert_eq(result->sum, result->key + 1);
		n++;
	}
	cr_assert_eq(dfi_target_cursor_close(cursor), 0);
	cr_assert_eq(n, 2);
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(combine, a_group_gets_results_of_all_its_targets)
{
	struct dfi_flow_attr attr = flow_attr(1, 2);
	struct dfi_target *targets[2];
	struct dfi_target_group *group;
	struct dfi_target_group_batch batch;
	struct dfi_source *source;
	uint64_t i, sum = 0, n = 0;
	int ret;

	create(&attr);
	for (i = 0; i < 2; i++)
		targets[i] = open_target(rig.dfi, "f", (uint32_t)i, 0);
	cr_assert_eq(dfi_target_group_open(rig.dfi, NULL, &group), 0);
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_target_group_add(group, targets[i], NULL), 0);
	source = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < 5000; i++)
		cr_assert_eq(
		    dfi_source_push(source, &(struct kv){ i % N_KEYS, 1 }), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	while ((ret = dfi_target_group_consume_batch(group, &batch)) > 0) {
		for (i = 0; i < batch.batch.count; i++, n++)
			sum +=
			    ((const struct result *)batch.batch.tuples)[i].sum;
		dfi_target_group_release(group, &batch);
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(n, N_KEYS);
	cr_assert_eq(sum, 5000);
	dfi_target_group_close(group);
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_target_close(targets[i]), 0);
}

/* ---- Streams that are cut short
 * -------------------------------------------------- */

Test(combine, an_aborted_source_leaves_no_results)
{
	struct dfi_flow_attr attr = flow_attr(2, 1);
	struct dfi_source *sources[2];
	struct dfi_target *target;
	const void *tuple;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	sources[0] = open_source(rig.dfi, "f", 0, 0);
	sources[1] = open_source(rig.dfi, "f", 1, 0);
	cr_assert_eq(dfi_source_push(sources[0], &(struct kv){ 1, 1 }), 0);
	cr_assert_eq(dfi_source_close(sources[0]), 0);
	cr_assert_eq(dfi_source_push(sources[1], &(struct kv){ 1, 1 }), 0);
	dfi_source_abort(sources[1]);
	cr_assert_eq(dfi_source_close(sources[1]), -ECANCELED);
	assert_error(dfi_target_consume(target, &tuple), -ECANCELED, "aborted");
	assert_error(dfi_target_consume(target, &tuple), -ECANCELED, "aborted");
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

Test(combine, a_target_may_cancel_while_it_gives_results)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	uint64_t i;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < 100; i++)
		cr_assert_eq(dfi_source_push(source, &(struct kv){ i, 1 }), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_consume(target, &tuple), 1);
	cr_assert_eq(dfi_target_cancel(target), 0);
	assert_error(
	    dfi_target_consume(target, &tuple), -ECANCELED, "cancelled");
	cr_assert_eq(dfi_target_close(target), 0);
}

/* A leak would show: sources that come after its close know it. */
Test(combine, a_target_may_cancel_before_there_are_sources)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_source *source;
	struct dfi_target *target;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	cr_assert_eq(dfi_target_cancel(target), 0);
	cr_assert_eq(dfi_target_close(target), 0);
	source = open_source(rig.other, "f", 0, 0);
	assert_error(dfi_source_push(source, &(struct kv){ 1, 1 }), -EPIPE,
	    "target 0", "has cancelled");
	cr_assert_eq(dfi_source_close(source), 0);
}

/* ---- Bounds and refusals
 * ----------------------------------------------------------- */

Test(combine, more_groups_than_were_declared_fail_the_target)
{
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	uint64_t i;

	attr.combine.max_groups = 10;
	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < 11; i++)
		cr_assert_eq(dfi_source_push(source, &(struct kv){ i, 1 }), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	assert_error(dfi_target_consume(target, &tuple), -ENOSPC, "flow 'f'",
	    "target 0", "10 groups", "max_groups");
	cr_assert_eq(dfi_target_close(target), -ENOSPC);
}

Test(combine, an_overflow_fails_the_target_and_names_the_group)
{
	static const struct dfi_aggregate sum = { .function = DFI_SUM,
		.field = "val",
		.flags = DFI_AGGREGATE_CHECKED };
	struct dfi_flow_attr attr = flow_attr(1, 1);
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;

	attr.combine.aggregates = &sum;
	attr.combine.n_aggregates = 1;
	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(dfi_source_push(source, &(struct kv){ 7, UINT64_MAX }), 0);
	cr_assert_eq(dfi_source_push(source, &(struct kv){ 7, 1 }), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	assert_error(dfi_target_consume(target, &tuple), -EOVERFLOW, "flow 'f'",
	    "sum_val", "key 7");
	cr_assert_eq(dfi_target_close(target), -EOVERFLOW);
}

static void refuse(const struct dfi_flow_attr *attr, const char *word)
{
	assert_error(
	    dfi_flow_create(rig.dfi, "f", attr), -EINVAL, "flow 'f'", word);
}

Test(combine, what_makes_no_sense_is_refused)
{
	static const struct dfi_aggregate wrong = { .function = DFI_SUM,
		.field = "value" };
	struct dfi_flow_attr attr = flow_attr(1, 2);

	attr.combine.group_by = NULL;
	refuse(&attr, "without combine.group_by");
	attr = flow_attr(1, 1);
	attr.combine.group_by = "key,name";
	refuse(&attr, "group_by: the schema has no field 'name'");
	attr = flow_attr(1, 1);
	attr.combine.group_by = "key,key";
	refuse(&attr, "twice");
	attr = flow_attr(1, 1);
	attr.key = "key";
	refuse(&attr, "key is not for flows of kind DFI_COMBINE");
	attr = flow_attr(1, 1);
	attr.routing = DFI_ROUTE_DIRECT;
	refuse(&attr, "routing is not");
	attr = flow_attr(1, 1);
	attr.combine.n_aggregates = 0;
	refuse(&attr, "no aggregates");
	attr = flow_attr(1, 1);
	attr.combine.aggregates = &wrong;
	attr.combine.n_aggregates = 1;
	refuse(&attr, "no field is called 'value'");
	attr = flow_attr(1, 1);
	attr.combine.max_groups = DFI_MAX_GROUPS + 1;
	refuse(&attr, "max_groups");
	attr = flow_attr(1, 1);
	attr.replicate.method = DFI_REPLICATION_NAIVE;
	refuse(&attr, "replicate.method is for flows of kind DFI_REPLICATE");
	attr = flow_attr(1, 1);
	attr.kind = DFI_SHUFFLE;
	refuse(&attr, "aggregates is for flows of kind DFI_COMBINE");
	attr.combine.n_aggregates = 0;
	attr.combine.aggregates = NULL;
	refuse(&attr, "group_by is for");
	attr = flow_attr(1, 1);
	attr.kind = DFI_COMBINE + 1;
	refuse(&attr, "kind 4");
}

Test(combine, results_have_a_schema)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_flow_attr flow = flow_attr(1, 1);
	struct dfi_schema *schema = NULL;
	struct dfi_target *target;
	uint32_t i;

	create(&flow);
	create_kv_flow(rig.dfi, "g", 1, 1, 4, 4);
	cr_assert_eq(dfi_flow_result_schema(rig.dfi, "f", &schema), 0);
	cr_assert_eq(schema->tuple_size, sizeof(struct result));
	cr_assert_eq(schema->n_fields, result_schema.n_fields);
	for (i = 0; i < schema->n_fields; i++) {
		cr_assert_str_eq(schema->fields[i].name, result_fields[i].name);
		cr_assert_eq(schema->fields[i].type, result_fields[i].type);
		cr_assert_eq(schema->fields[i].offset, result_fields[i].offset);
	}
	free(schema);
	assert_error(dfi_flow_result_schema(rig.dfi, "f", NULL), -EINVAL,
	    "schema is NULL");
	assert_error(dfi_flow_result_schema(rig.dfi, "g", &schema), -EPROTOTYPE,
	    "flow 'g'", "DFI_COMBINE");
	assert_error(
	    dfi_flow_result_schema(rig.dfi, "h", &schema), -ENOENT, "flow 'h'");
	attr.schema = &kv_schema;
	attr.open_timeout_ms = SHORT_MS;
	assert_error(dfi_target_open(rig.dfi, "f", 0, &attr, &target),
	    -EPROTOTYPE, "flow 'f'");
}

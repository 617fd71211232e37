/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources that combine: results equal those of a plain loop, for all ways to
 * push and to flush; which calls wait for room; and combined tuples are never
 * lost without an error.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
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

TestSuite(combine_source, .init = setup, .fini = teardown, .timeout = 300);

enum {
	MAX_ENDS = 3,
	MAX_GROUPS = 20000,
	N_WAYS = 4,
};

/* ---- Random flows
 * ------------------------------------------------------------- */

struct row {
	uint32_t id;
	char city[7];
	int8_t tiny;
	int64_t number;
	double real;
};

static const struct dfi_field row_fields[] = {
	DFI_FIELD(struct row, id),
	DFI_FIELD_AS(struct row, city, DFI_BYTES),
	DFI_FIELD(struct row, tiny),
	DFI_FIELD(struct row, number),
	DFI_FIELD(struct row, real),
};
static const struct dfi_schema row_schema = DFI_SCHEMA(struct row, row_fields);

/* Doubles are whole numbers, so that their sums don't depend on the order. */
static const struct dfi_aggregate all_aggregates[] = {
	{ .function = DFI_COUNT, .name = "count" },
	{ .function = DFI_SUM, .field = "number", .name = "sum" },
	{ .function = DFI_SUM,
	    .field = "tiny",
	    .flags = DFI_AGGREGATE_CHECKED,
	    .name = "checked" },
	{ .function = DFI_MIN, .field = "tiny", .name = "least" },
	{ .function = DFI_MAX, .field = "number", .name = "most" },
	{ .function = DFI_AVG, .field = "number", .name = "average" },
	{ .function = DFI_SUM, .field = "real", .name = "reals" },
};
#define N_AGGREGATES N_ELEMENTS(all_aggregates)

struct total {
	uint64_t count;
	int64_t sum, checked, most;
	int8_t least;
	double reals;
};

static struct {
	struct dfi_flow_attr attr;
	struct dfi_aggregate aggregates[N_AGGREGATES];
	uint64_t seed;
	bool by_city;
	uint32_t n_groups, n_tuples, linger_us;
	struct total expected[MAX_GROUPS];
} plan;

static struct row row_of(uint32_t source, uint32_t i)
{
	uint64_t value = mix(plan.seed ^ source, i);
	uint32_t group = (uint32_t)(value % plan.n_groups);
	struct row row = {
		.id = plan.by_city ? group / 100 : group,
		.tiny = (int8_t)(value >> 32),
		.number = (int64_t)mix(value, 1) >> 8,
		.real = (double)(value >> 40),
	};

	snprintf(row.city, sizeof(row.city), "c%u", group % 100);
	return row;
}

static uint32_t group_of(const char *result)
{
	uint32_t id;

	memcpy(&id, result, sizeof(id));
	return plan.by_city ? id * 100 + (uint32_t)atoi(result + 5) : id;
}

static void reference(void)
{
	struct total *total;
	struct row row;
	uint32_t s, i;

	memset(plan.expected, 0, sizeof(plan.expected));
	for (s = 0; s < plan.attr.n_sources; s++)
		for (i = 0; i < plan.n_tuples; i++) {
			row = row_of(s, i);
			total = &plan.expected[mix(plan.seed ^ s, i) %
			    plan.n_groups];
			if (!total->count || row.tiny < total->least)
				total->least = row.tiny;
			if (!total->count || row.number > total->most)
				total->most = row.number;
			total->count++;
			total->sum += row.number;
			total->checked += row.tiny;
			total->reals += row.real;
		}
}

struct end {
	pthread_t thread;
	uint32_t index, way;
	struct rng rng;
	const char *error;
	char text[256];
	bool *seen; /* of each group */
};

static const char *fail(struct end *end, const char *what)
{
	snprintf(end->text, sizeof(end->text), "%s: %s", what, dfi_errmsg());
	return end->text;
}

/*
 * Push as many rows from number i on as the way takes. Returns how many, or an
 * error.
 */
static int send_some(
    struct end *end, struct dfi_source *source, uint32_t i, uint32_t n)
{
	struct dfi_source_cursor cursor;
	struct row rows[64];
	struct dfi_span span;
	uint32_t k;
	int ret;

	n = n < 64 ? n : 64;
	for (k = 0; k < n; k++)
		rows[k] = row_of(end->index, i + k);
	/* The last two ways name the target. */
	switch (plan.attr.n_targets == 1 ? end->way : end->way % 2) {
	case 0:
		ret = dfi_source_push(source, &rows[0]);
		return ret < 0 ? ret : 1;
	case 1:
		return dfi_source_push_batch(source, rows, n);
	case 2:
		cursor = dfi_source_cursor_open(source, 0, sizeof(rows[0]));
		for (k = 0; k < n; k++)
			if (dfi_source_cursor_push(
				&cursor, &rows[k], sizeof(rows[k])))
				break;
		ret = dfi_source_cursor_close(cursor);
		return ret < 0 ? ret : (int)k;
	default:
		ret = dfi_source_claim(source, 0, &span);
		if (ret < 0)
			return ret;
		n = span.count < n ? span.count : n;
		memcpy(span.tuples, rows, n * sizeof(rows[0]));
		ret = dfi_source_commit(source, &span, n);
		return ret < 0 ? ret : (int)n;
	}
}

static void *run_source(void *arg)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source_stats stats;
	struct end *end = arg;
	struct dfi_source *source;
	uint32_t i;
	int n;

	attr.linger_us = plan.linger_us;
	if (dfi_source_open(rig.other, "f", end->index, &attr, &source) < 0) {
		end->error = fail(end, "open");
		return NULL;
	}
	for (i = 0; i < plan.n_tuples && !end->error; i += (uint32_t)n) {
		n = send_some(end, source, i, plan.n_tuples - i);
		if (n <= 0)
			end->error = fail(end, "push");
		if (rng_below(&end->rng, 2000) == 0 &&
		    dfi_source_flush(source) < 0)
			end->error = fail(end, "flush");
	}
	if (!end->error && dfi_source_flush(source) < 0)
		end->error = fail(end, "flush");
	dfi_source_query(source, &stats);
	if (!end->error && stats.tuples != plan.n_tuples)
		end->error = "the source has not counted all tuples";
	if (plan.attr.combine.source_combining == DFI_COMBINING_ALWAYS &&
	    stats.combined_tuples != stats.tuples)
		end->error = "not all tuples were combined";
	if (plan.attr.combine.source_combining == DFI_COMBINING_OFF &&
	    (stats.combined_tuples || stats.records))
		end->error = "tuples were combined";
	if (dfi_source_close(source) < 0 && !end->error)
		end->error = fail(end, "close");
	return NULL;
}

/* A result's fields lie one behind the other, each aligned to its size. */
static const char *check_result(const char *result)
{
	uint32_t group = group_of(result), i;
	const struct total *total = &plan.expected[group];
	size_t at = plan.by_city ? 11 : 4;
	int64_t integer;
	double real;

	for (i = 0; i < plan.attr.combine.n_aggregates; i++) {
		if (plan.aggregates[i].function == DFI_MIN) {
			if ((int8_t)result[at++] != total->least)
				return "least";
			continue;
		}
		at = (at + 7) & ~(size_t)7;
		memcpy(&integer, result + at, sizeof(integer));
		memcpy(&real, result + at, sizeof(real));
		at += 8;
		switch (plan.aggregates[i].name[0]) {
		case 'c':
			if (integer !=
			    (plan.aggregates[i].function == DFI_COUNT
				    ? (int64_t)total->count
				    : total->checked))
				return plan.aggregates[i].name;
			break;
		case 's':
			if (integer != total->sum)
				return "sum";
			break;
		case 'm':
			if (integer != total->most)
				return "most";
			break;
		case 'a':
			if (real != (double)total->sum / (double)total->count)
				return "average";
			break;
		default:
			if (real != total->reals)
				return "reals";
		}
	}
	return NULL;
}

static void *run_target(void *arg)
{
	struct end *end = arg;
	struct dfi_target *target;
	struct dfi_batch batch;
	const char *result;
	uint32_t i, group;
	int ret;

	if (dfi_target_open(rig.dfi, "f", end->index, NULL, &target) < 0) {
		end->error = fail(end, "open");
		return NULL;
	}
	while ((ret = dfi_target_consume_batch(target, &batch)) > 0) {
		result = batch.tuples;
		for (i = 0; i < batch.count; i++, result += batch.stride) {
			group = group_of(result);
			if (group >= plan.n_groups || end->seen[group])
				end->error = "a group that can't be";
			else if (!end->error)
				end->error = check_result(result);
			if (group < plan.n_groups)
				end->seen[group] = true;
		}
		dfi_target_release(target, &batch);
	}
	if (ret < 0)
		end->error = fail(end, "consume");
	if (dfi_target_close(target) < 0 && !end->error)
		end->error = fail(end, "close");
	return NULL;
}

static void check_ends(struct end *ends, uint32_t n, const char *role)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		pthread_join(ends[i].thread, NULL);
	for (i = 0; i < n; i++)
		cr_assert_null(ends[i].error, "seed %lu, %s %u: %s",
		    (unsigned long)plan.seed, role, i, ends[i].error);
}

static void run(void)
{
	static bool seen[MAX_GROUPS];
	static struct end sources[MAX_ENDS], targets[MAX_ENDS];
	uint32_t i;

	memset(seen, 0, sizeof(seen));
	memset(sources, 0, sizeof(sources));
	memset(targets, 0, sizeof(targets));
	reference();
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &plan.attr), 0,
	    "seed %lu: %s", (unsigned long)plan.seed, dfi_errmsg());
	for (i = 0; i < plan.attr.n_targets; i++) {
		targets[i].index = i;
		targets[i].seen = seen;
		cr_assert_eq(pthread_create(&targets[i].thread, NULL,
				 run_target, &targets[i]),
		    0);
	}
	for (i = 0; i < plan.attr.n_sources; i++) {
		sources[i].index = i;
		sources[i].rng.state = mix(plan.seed, i);
		sources[i].way = rng_below(&sources[i].rng, N_WAYS);
		cr_assert_eq(pthread_create(&sources[i].thread, NULL,
				 run_source, &sources[i]),
		    0);
	}
	check_ends(sources, plan.attr.n_sources, "source");
	check_ends(targets, plan.attr.n_targets, "target");
	for (i = 0; i < plan.n_groups; i++)
		cr_assert_eq(seen[i], plan.expected[i].count != 0,
		    "seed %lu: group %u", (unsigned long)plan.seed, i);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

/* Around the size of a source's table, which is a power of two, or far off. */
static uint32_t draw_groups(struct rng *rng)
{
	uint32_t n = 1u << (6 + rng_below(rng, 8));

	switch (rng_below(rng, 3)) {
	case 0:
		return n - 1 + rng_below(rng, 3);
	case 1:
		return 1 + rng_below(rng, 100);
	default:
		return MAX_GROUPS - rng_below(rng, 100);
	}
}

static void make_plan(uint64_t seed)
{
	struct rng rng = { seed };
	uint32_t i, n = 0;

	memset(&plan, 0, sizeof(plan));
	plan.seed = seed;
	plan.by_city = rng_below(&rng, 2);
	plan.n_groups = draw_groups(&rng);
	plan.n_tuples = rng_below(&rng, 12000);
	plan.linger_us = rng_below(&rng, 3) ? 0 : 1 + rng_below(&rng, 300);
	for (i = 0; i < N_AGGREGATES; i++)
		if (rng_below(&rng, 2) || (!n && i + 1 == N_AGGREGATES))
			plan.aggregates[n++] = all_aggregates[i];
	plan.attr = (struct dfi_flow_attr){
		.size = sizeof(plan.attr),
		.kind = DFI_COMBINE,
		.schema = &row_schema,
		.n_sources = 1 + rng_below(&rng, MAX_ENDS),
		.n_targets = 1 + rng_below(&rng, MAX_ENDS),
		.combine.aggregates = plan.aggregates,
		.combine.n_aggregates = n,
		.combine.group_by = plan.by_city ? "id,city" : "id",
		.verify = rng_below(&rng, 2) ? DFI_VERIFY_CHECKSUM : 0,
		.combine.source_combining = rng_below(&rng, 4),
	};
	if (rng_below(&rng, 4) == 0 &&
	    plan.attr.combine.source_combining <= DFI_COMBINING_OFF) {
		plan.attr.goal = DFI_LATENCY;
		plan.linger_us = 0;
	} else if (rng_below(&rng, 2)) {
		/* Room for 3 to 34 tuples, and for one record at least. */
		plan.attr.segment_size = 100 + rng_below(&rng, 1000);
		plan.attr.segment_count = 2 + rng_below(&rng, 4);
	}
}

Test(combine_source, results_are_those_of_a_plain_loop)
{
	uint64_t seed = test_setting("SEED", 1);
	uint64_t end = seed + test_setting("SEEDS", 180) / 3;

	for (; seed < end; seed++) {
		make_plan(seed);
		run();
	}
}

/* ---- One source, step by step
 * ------------------------------------------------- */

static const struct dfi_aggregate sum = {
	.function = DFI_SUM, .field = "val", .name = "sum"
};

static struct dfi_flow_attr kv_attr(uint32_t n_targets, uint32_t combining)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_COMBINE;
	attr.schema = &kv_schema;
	attr.n_sources = 1;
	attr.n_targets = n_targets;
	attr.combine.aggregates = &sum;
	attr.combine.n_aggregates = 1;
	attr.combine.group_by = "key";
	attr.combine.source_combining = combining;
	return attr;
}

static void create(const struct dfi_flow_attr *attr)
{
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

static void push(struct dfi_source *source, uint64_t key, uint64_t val)
{
	struct kv kv = { key, val };

	cr_assert_eq(dfi_source_push(source, &kv), 0, "%s", dfi_errmsg());
}

/* At the end of the flow: n groups, and the sum of all. */
static void expect_results(struct dfi_target *target, uint64_t n, uint64_t all)
{
	const struct kv *result;
	uint64_t count = 0, value = 0;
	const void *tuple;
	int ret;

	while ((ret = dfi_target_consume(target, &tuple)) > 0) {
		result = tuple;
		count++;
		value += result->val;
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(count, n);
	cr_assert_eq(value, all);
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(combine_source, a_flush_sends_a_record_for_each_group)
{
	struct dfi_flow_attr attr = kv_attr(1, DFI_COMBINING_ALWAYS);
	struct dfi_source_stats stats;
	struct dfi_source *source;
	struct dfi_target *target;
	uint64_t i;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < 1000; i++)
		push(source, i % 10, 1);
	cr_assert_eq(dfi_source_flush(source), 0);
	dfi_source_query(source, &stats);
	cr_assert_eq(stats.tuples, 1000);
	cr_assert_eq(stats.combined_tuples, 1000);
	cr_assert_eq(stats.records, 10);
	/* Each is the group's key and its sum: as large as a tuple. */
	cr_assert_eq(stats.bytes, 10 * sizeof(struct kv));
	cr_assert_eq(stats.segments, 1);
	/* There is nothing left. */
	cr_assert_eq(dfi_source_flush(source), 0);
	push(source, 10, 5);
	cr_assert_eq(dfi_source_flush(source), 0);
	dfi_source_query(source, &stats);
	cr_assert_eq(stats.tuples, 1001);
	cr_assert_eq(stats.records, 11);
	cr_assert_eq(stats.segments, 2);
	cr_assert_eq(dfi_source_close(source), 0);
	expect_results(target, 11, 1005);
}

Test(combine_source, all_tuples_as_one_group)
{
	struct dfi_flow_attr attr = kv_attr(1, DFI_COMBINING_ALWAYS);
	struct dfi_source_stats stats;
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	uint64_t i;

	attr.combine.group_by = NULL;
	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < 100000; i++)
		push(source, i, 2);
	cr_assert_eq(dfi_source_flush(source), 0);
	dfi_source_query(source, &stats);
	cr_assert_eq(stats.records, 1);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_consume(target, &tuple), 1);
	cr_assert_eq(*(const uint64_t *)tuple, 200000);
	cr_assert_eq(dfi_target_consume(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

static void *consume_results(void *arg)
{
	struct dfi_batch batch;
	uint64_t *sum_of_all = arg;
	struct dfi_target *target;
	uint32_t i;
	int ret;

	if (dfi_target_open(rig.dfi, "f", 0, NULL, &target) < 0)
		return NULL;
	while ((ret = dfi_target_consume_batch(target, &batch)) > 0) {
		for (i = 0; i < batch.count; i++)
			*sum_of_all += ((const struct kv *)batch.tuples)[i].val;
		dfi_target_release(target, &batch);
	}
	/* It counts only after a clean end. */
	if (ret < 0 || dfi_target_close(target) < 0)
		*sum_of_all = 0;
	return NULL;
}

static struct dfi_source_stats push_keys(
    struct dfi_source *source, uint64_t n, uint64_t n_keys)
{
	struct dfi_source_stats stats;
	struct kv kvs[1000];
	uint64_t i, k;

	for (i = 0; i < n; i += 1000) {
		for (k = 0; k < 1000; k++)
			kvs[k] = (struct kv){ mix(1, i + k) % n_keys, 1 };
		cr_assert_eq(dfi_source_push_batch(source, kvs, 1000), 1000);
	}
	cr_assert_eq(dfi_source_flush(source), 0);
	dfi_source_query(source, &stats);
	return stats;
}

Test(combine_source, goes_on_as_long_as_it_pays)
{
	struct dfi_flow_attr attr = kv_attr(1, DFI_COMBINING_DEFAULT);
	struct dfi_source_stats first, stats;
	struct dfi_source *source;
	uint64_t all = 0, n;
	pthread_t thread;

	create(&attr);
	cr_assert_eq(pthread_create(&thread, NULL, consume_results, &all), 0);
	source = open_source(rig.dfi, "f", 0, 0);
	/* Few groups. */
	stats = push_keys(source, 200000, 1000);
	cr_assert_eq(stats.tuples, 200000);
	cr_assert_eq(stats.combined_tuples, 200000);
	cr_assert_leq(stats.records, 2000);
	/* Hardly any tuple belongs to a known group. */
	stats = first = push_keys(source, 400000, 900000);
	cr_assert_eq(first.tuples, 600000);
	cr_assert_leq(first.combined_tuples, 300000);
	cr_assert_geq(first.combined_tuples, 200001);
	/*
	 * After some time it is tried again, and pays. (Emulated devices take
	 * too long for a million tuples.)
	 */
	for (n = 600000; !over_network() && n < 20000000; n += 200000) {
		stats = push_keys(source, 200000, 1000);
		cr_assert_eq(stats.tuples, n + 200000);
		if (stats.combined_tuples > first.combined_tuples + 400000)
			break;
	}
	cr_assert_lt(n, 20000000);
	cr_assert_eq(dfi_source_close(source), 0);
	pthread_join(thread, NULL);
	cr_assert_eq(all, stats.tuples);
}

/* ---- No room
 * ------------------------------------------------------------------ */

/* Push other keys until one is refused. Returns how many were taken. */
static uint64_t fill(struct dfi_source *source)
{
	uint64_t n;
	int ret;

	for (n = 0;; n++) {
		ret = dfi_source_push(source, &(struct kv){ n, 1 });
		if (ret < 0)
			break;
		/* More than a table and a ring can hold. */
		cr_assert_lt(n, 1000000);
	}
	cr_assert_eq(ret, -EAGAIN, "%s", dfi_errmsg());
	return n;
}

static struct dfi_flow_attr small_attr(void)
{
	struct dfi_flow_attr attr = kv_attr(1, DFI_COMBINING_ALWAYS);

	attr.segment_size = 64 * sizeof(struct kv);
	attr.segment_count = 4;
	return attr;
}

static _Atomic unsigned n_stop_lines;

static void count_stop_lines(
    void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	if (level == DFI_LOG_INFO && strstr(line, "stops combining") &&
	    strstr(line, "combining_bytes"))
		atomic_fetch_add(&n_stop_lines, 1);
}

/* Twice the groups that the default has room for, each some ten times. */
static struct dfi_source_stats combine_at_random(uint64_t bytes)
{
	enum {
		N_KEYS = 16000,
		N = 10 * N_KEYS
	};
	struct dfi_flow_attr attr = kv_attr(1, DFI_COMBINING_ADAPTIVE);
	struct dfi_source_stats stats;
	struct dfi_source *source;
	uint64_t i, all = 0;
	pthread_t thread;

	attr.combine.combining_bytes = bytes;
	create(&attr);
	cr_assert_eq(pthread_create(&thread, NULL, consume_results, &all), 0);
	source = open_source(rig.dfi, "f", 0, 0);
	for (i = 0; i < N; i++)
		push(source, mix(1, i) % N_KEYS, 1);
	cr_assert_eq(dfi_source_flush(source), 0);
	dfi_source_query(source, &stats);
	cr_assert_eq(dfi_source_close(source), 0);
	pthread_join(thread, NULL);
	cr_assert_eq(all, N);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	return stats;
}

Test(combine_source, says_that_it_gives_up_and_has_the_memory_it_is_given)
{
	struct dfi_flow_attr attr = kv_attr(1, DFI_COMBINING_ADAPTIVE);
	struct dfi_flow_needs less, more;
	struct dfi_source_stats stats;

	cr_assert_eq(dfi_flow_estimate(rig.dfi, &attr, &less), 0);
	attr.combine.combining_bytes = 8 * DFI_DEFAULT_COMBINING_BYTES;
	cr_assert_eq(dfi_flow_estimate(rig.dfi, &attr, &more), 0);
	/* The groups of a target are a power of two. */
	cr_assert_gt(more.source_bytes, 2 * less.source_bytes);
	cr_assert_leq(more.source_bytes, attr.combine.combining_bytes + 8192);
	dfi_log_set(DFI_LOG_INFO, count_stop_lines, NULL);
	stats = combine_at_random(0);
	cr_assert_geq(stats.combining_stops, 1);
	cr_assert_lt(stats.combined_tuples, stats.tuples);
	cr_assert_eq(atomic_load(&n_stop_lines), 1);
	stats = combine_at_random(attr.combine.combining_bytes);
	cr_assert_eq(stats.combining_stops, 0);
	cr_assert_eq(stats.combined_tuples, stats.tuples);
	cr_assert_eq(atomic_load(&n_stop_lines), 1);
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
	attr.combine.combining_bytes = DFI_MAX_COMBINING_BYTES + 1;
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -EINVAL, "flow 'f'",
	    "combining_bytes 1073741825", "1073741824");
	attr = kv_attr(1, 0);
	attr.kind = DFI_SHUFFLE;
	attr.combine.aggregates = NULL;
	attr.combine.n_aggregates = 0;
	attr.combine.group_by = NULL;
	attr.combine.combining_bytes = 1;
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -EINVAL,
	    "combining_bytes", "DFI_COMBINE");
}

Test(combine_source, a_claim_of_n_has_room_for_all)
{
	struct dfi_flow_attr attr = kv_attr(1, DFI_COMBINING_ALWAYS);
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_span span;
	uint32_t i, n, most = 4;

	attr.segment_size = most * sizeof(struct kv);
	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	assert_error(dfi_source_claim_n(source, 0, most + 1, &span), -EMSGSIZE,
	    "at most 4", "segment_size");
	for (n = 1; n <= most; n++) {
		cr_assert_eq(dfi_source_claim_n(source, 0, n, &span), 0, "%s",
		    dfi_errmsg());
		cr_assert_geq(span.count, n);
		for (i = 0; i < n; i++)
			((struct kv *)span.tuples)[i] = (struct kv){ 7, 1 };
		cr_assert_eq(dfi_source_commit(source, &span, n), 0);
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_results(target, 1, 1 + 2 + 3 + 4);
}

Test(combine_source, a_full_ring_refuses_and_forgets_nothing)
{
	struct dfi_flow_attr attr = small_attr();
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	uint64_t n;
	int ret;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	n = fill(source);
	assert_error(
	    dfi_source_push(source, &(struct kv){ n, 1 }), -EAGAIN, "full");
	assert_error(dfi_source_flush(source), -EAGAIN, "full");
	cr_assert_geq(dfi_source_fd(source), 0);
	assert_error(dfi_source_flush(source), -EAGAIN, "full");
	/* The target accepts tuples, but gives nothing before the end. */
	while ((ret = dfi_source_push(source, &(struct kv){ n, 1 })) < 0) {
		cr_assert_eq(ret, -EAGAIN);
		cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN);
	}
	n++;
	while ((ret = dfi_source_flush(source)) < 0) {
		cr_assert_eq(ret, -EAGAIN);
		cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN);
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(consume_soon(target, &tuple), 1);
	expect_results(target, n - 1, n - 1);
}

static void *close_source(void *arg)
{
	return (void *)(intptr_t)dfi_source_close(arg);
}

Test(combine_source, a_close_waits_for_room_even_if_nonblocking)
{
	struct dfi_flow_attr attr = small_attr();
	struct dfi_source *source;
	struct dfi_target *target;
	pthread_t thread;
	void *result;
	uint64_t n = 0;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	cr_assert_geq(dfi_source_fd(source), 0);
	/* A refused push ends the stream, so stop before. */
	for (; n < 4000; n++)
		push(source, n, 1);
	cr_assert_eq(dfi_source_flush(source), -EAGAIN);
	cr_assert_eq(pthread_create(&thread, NULL, close_source, source), 0);
	expect_results(target, n, n);
	pthread_join(thread, &result);
	cr_assert_eq((intptr_t)result, 0);
}

Test(combine_source, a_close_waits_for_room_for_so_long)
{
	struct dfi_source_attr open = DFI_SOURCE_ATTR_INIT;
	struct dfi_flow_attr attr = small_attr();
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	uint64_t n;

	open.stall_timeout_ms = 20;
	open.close_timeout_ms = 50;
	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, &open, &source), 0);
	for (n = 0; n < 4000; n++)
		push(source, n, 1);
	assert_error(dfi_source_flush(source), -ETIMEDOUT, "stayed full");
	assert_error(dfi_source_close(source), -ETIMEDOUT, "stayed full");
	/* Tuples that did not get through are missing. */
	assert_error(dfi_target_consume(target, &tuple), -ECANCELED, "aborted");
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

Test(combine_source, what_was_refused_fails_the_close)
{
	struct dfi_flow_attr attr = small_attr();
	struct dfi_source *source;
	struct dfi_target *target;
	pthread_t thread;
	const void *tuple;
	void *result;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	fill(source);
	cr_assert_eq(pthread_create(&thread, NULL, close_source, source), 0);
	assert_error(dfi_target_consume(target, &tuple), -ECANCELED, "aborted");
	pthread_join(thread, &result);
	cr_assert_eq((intptr_t)result, -EAGAIN);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

/* ---- Lingering
 * ---------------------------------------------------------------- */

static bool has_taken(void *arg)
{
	struct dfi_target *target = arg;
	struct dfi_target_stats stats;
	const void *tuple;

	cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN);
	dfi_target_query(target, &stats);
	return stats.tuples > 0;
}

Test(combine_source, what_is_combined_lingers_no_longer_than_said)
{
	struct dfi_source_attr open = DFI_SOURCE_ATTR_INIT;
	struct dfi_flow_attr attr = kv_attr(1, DFI_COMBINING_ALWAYS);
	struct dfi_target_stats stats;
	struct dfi_source *source;
	struct dfi_target *target;
	uint64_t i, lingers;
	int64_t begin;

	open.linger_us = 500;
	create(&attr);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, &open, &source), 0);
	/* Several stages, of which the last one is not full. */
	begin = now_ms();
	for (i = 0; i < 1001; i++)
		push(source, i % 3, 1);
	cr_assert(eventually(has_taken, target));
	cr_assert_eq(dfi_source_close(source), 0);
	/* Each time that lasts so long sends three groups, and the close. */
	lingers = (uint64_t)(now_ms() + 1 - begin) * 1000 / open.linger_us;
	dfi_target_query(target, &stats);
	cr_assert_leq(stats.bytes, (lingers + 2) * 3 * sizeof(struct kv));
	cr_assert_eq(dfi_target_close(target), 0);
}

/* ---- Ends
 * --------------------------------------------------------------------- */

Test(combine_source, an_abort_leaves_no_results)
{
	struct dfi_flow_attr attr = kv_attr(1, DFI_COMBINING_ALWAYS);
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	push(source, 1, 1);
	cr_assert_eq(dfi_source_flush(source), 0);
	push(source, 1, 1);
	dfi_source_abort(source);
	cr_assert_eq(dfi_source_flush(source), -ECANCELED);
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
	assert_error(dfi_target_consume(target, &tuple), -ECANCELED, "aborted");
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

static bool is_refused(void *arg)
{
	struct dfi_source *source = arg;
	uint64_t key;
	int ret = 0;

	/* A stage full of tuples for each of both. */
	for (key = 0; key < 2000 && !ret; key++)
		ret = dfi_source_push(source, &(struct kv){ key, 1 });
	return ret == -EPIPE;
}

Test(combine_source, goes_on_without_a_target_that_cancels)
{
	struct dfi_flow_attr attr = kv_attr(2, DFI_COMBINING_ALWAYS);
	struct dfi_target *targets[2];
	struct dfi_source *source;
	uint64_t key, n = 0;
	const void *tuple;
	int ret;

	create(&attr);
	targets[0] = open_target(rig.dfi, "f", 0, 0);
	targets[1] = open_target(rig.dfi, "f", 1, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	for (key = 0; key < 100; key++)
		push(source, key, 1);
	cr_assert_eq(dfi_target_cancel(targets[0]), 0);
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
	cr_assert(eventually(is_refused, source));
	for (key = 0; key < 2000; key++) {
		ret = dfi_source_push(source, &(struct kv){ key, 1 });
		cr_assert_eq(ret, dfi_hash64_partition(key, 2) ? 0 : -EPIPE);
		n += !ret;
	}
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	for (key = 0; (ret = dfi_target_consume(targets[1], &tuple)) > 0;)
		key++;
	cr_assert_eq(ret, 0);
	cr_assert_eq(key, n);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
}

Test(combine_source, fails_when_its_target_closes)
{
	struct dfi_flow_attr attr = kv_attr(1, DFI_COMBINING_ALWAYS);
	struct dfi_source *source;
	struct dfi_target *target;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	push(source, 1, 1);
	cr_assert_eq(dfi_target_close(target), 0);
	assert_error(dfi_source_close(source), -ECONNRESET, "target 0");
}

/* ---- What it takes, and what is refused
 * --------------------------------------- */

Test(combine_source, takes_what_was_estimated)
{
	bool has_shadow = over_network();
	struct dfi_flow_attr attr = kv_attr(3, DFI_COMBINING_ALWAYS);
	struct dfi_flow_needs estimate, off;
	struct dfi_target *targets[3];
	struct dfi_source *source;
	struct dfi *tight;
	char limit[32];
	uint32_t i;

	cr_assert_eq(dfi_flow_estimate(rig.dfi, &attr, &estimate), 0);
	attr.combine.source_combining = DFI_COMBINING_OFF;
	cr_assert_eq(dfi_flow_estimate(rig.dfi, &attr, &off), 0);
	attr.combine.source_combining = DFI_COMBINING_ALWAYS;
	cr_assert_gt(estimate.source_bytes, 0);
	cr_assert_eq(off.source_bytes, 0);
	/* The rest is the same, except a line in each slot. */
	cr_assert_geq(estimate.ring_bytes, off.ring_bytes);
	cr_assert_leq(
	    estimate.ring_bytes, off.ring_bytes + 128 * estimate.segment_count);
	create(&attr);
	for (i = 0; i < 3; i++)
		targets[i] = open_target(rig.dfi, "f", i, 0);
	for (i = 0; i < 2; i++) {
		snprintf(limit, sizeof(limit), "%lu",
		    (unsigned long)(estimate.source_bytes +
			(has_shadow ? 3 * estimate.shadow_bytes : 0) - !i));
		setenv("DFI_RING_MEMORY_LIMIT", limit, 1);
		tight = rig_join(&rig);
		unsetenv("DFI_RING_MEMORY_LIMIT");
		if (!i) {
			assert_error(
			    dfi_source_open(tight, "f", 0, NULL, &source),
			    -ENOMEM, "DFI_RING_MEMORY_LIMIT");
		} else {
			source = open_source(tight, "f", 0, 0);
			push(source, 1, 1);
			cr_assert_eq(dfi_source_close(source), 0);
		}
		cr_assert_eq(dfi_close(tight), 0);
	}
	for (i = 0; i < 3; i++)
		cr_assert_eq(dfi_target_close(targets[i]), 0);
}

static void refuse(const struct dfi_flow_attr *attr, int err, const char *word)
{
	assert_error(dfi_flow_create(rig.dfi, "f", attr), err, "flow 'f'",
	    "source_combining", word);
}

Test(combine_source, what_makes_no_sense_is_refused)
{
	static const struct dfi_aggregate average = { .function = DFI_AVG,
		.field = "val" };
	struct dfi_flow_attr attr = kv_attr(1, DFI_COMBINING_ALWAYS + 1);

	refuse(&attr, -EINVAL, "4 is no enum");
	attr = kv_attr(1, DFI_COMBINING_ADAPTIVE);
	attr.goal = DFI_LATENCY;
	refuse(&attr, -EINVAL, "DFI_BANDWIDTH");
	attr = kv_attr(1, DFI_COMBINING_ALWAYS);
	attr.combine.aggregates = &average;
	attr.segment_size = sizeof(struct kv);
	refuse(&attr, -EMSGSIZE, "raise segment_size");
	/* Then it is not the default either. */
	attr.combine.source_combining = DFI_COMBINING_DEFAULT;
	create(&attr);
	create_kv_flow(rig.dfi, "g", 1, 1, 4, 4);
	attr = kv_attr(1, DFI_COMBINING_OFF);
	attr.kind = DFI_SHUFFLE;
	attr.combine.n_aggregates = 0;
	attr.combine.aggregates = NULL;
	attr.combine.group_by = NULL;
	refuse(&attr, -EINVAL, "is for flows of kind DFI_COMBINE");
}

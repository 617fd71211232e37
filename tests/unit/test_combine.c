/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The results of a combiner: against a plain loop over random schemas, keys and
 * aggregates; and the rules of aggregate.h one by one.
 */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dfi/aggregate.h>
#include <dfi/error.h>
#include <dfi/route.h>

#include "base/bits.h"
#include "base/schema.h"
#include "flows/aggregate/fold.h"
#include "flows/aggregate/groups.h"
#include "flows/aggregate/partials.h"
#include "flows/aggregate/spread.h"

__extension__ typedef __int128 wide;

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 11) % below;
}

static void expect_text(const char *word)
{
	cr_assert(strstr(dfi_errmsg(), word) != NULL, "'%s' is not in '%s'",
	    word, dfi_errmsg());
}

/* ---- A table for tests ------------------------------------------------------
 */

static struct plan *plan_of(const struct dfi_schema *schema,
    const uint32_t *keys, uint32_t n_keys,
    const struct dfi_aggregate *aggregates, uint32_t n_aggregates)
{
	struct plan *plan = NULL;

	cr_assert_eq(dfi__plan_new(
			 schema, keys, n_keys, aggregates, n_aggregates, &plan),
	    0, "%s", dfi_errmsg());
	return plan;
}

static void fold(struct groups *groups, const void *from, size_t stride,
    bool merged, uint64_t n)
{
	uint64_t taken;

	cr_assert_eq(
	    dfi__groups_fold(groups, from, stride, merged, n, &taken), 0);
	cr_assert_eq(taken, n);
}

/* The groups of one table that another one merges. */
static void merge(struct groups *to, const struct groups *from)
{
	fold(to, (const char *)from->records,
	    from->plan->record_words * sizeof(uint64_t), true, from->n);
}

/* ---- One field
 * --------------------------------------------------------------- */

struct row {
	uint64_t key;
	int64_t number;
	uint64_t count;
	double real;
	float narrow;
	int8_t tiny;
	char name[5];
};

static const struct dfi_field row_fields[] = {
	DFI_FIELD(struct row, key),
	DFI_FIELD(struct row, number),
	DFI_FIELD(struct row, count),
	DFI_FIELD(struct row, real),
	DFI_FIELD(struct row, narrow),
	DFI_FIELD(struct row, tiny),
	DFI_FIELD_AS(struct row, name, DFI_BYTES),
	DFI_FIELD_USER(struct row, key, "point"),
};
#define N_FIELDS 7 /* and a user type */
static const struct dfi_schema row_schema = { row_fields, N_FIELDS,
	sizeof(struct row) };
#define KEY 0
#define NAME 6

/* One aggregate of all rows, in a result of its own. */
static int compute(struct dfi_aggregate aggregate, const struct row *rows,
    uint64_t n, void *result)
{
	struct plan *plan = plan_of(&row_schema, NULL, 0, &aggregate, 1);
	struct groups groups;
	int ret;

	cr_assert_eq(plan->schema->tuple_size, plan->schema->fields[0].size);
	cr_assert_eq(dfi__groups_init(&groups, plan, 1), 0);
	fold(&groups, rows, sizeof(*rows), false, n);
	cr_assert_eq(groups.n, n ? 1 : 0);
	ret = n ? dfi__plan_result(plan, groups_record(&groups, 0), result) : 0;
	dfi__groups_free(&groups);
	dfi__plan_free(plan);
	return ret;
}

static double real_of(uint32_t function, const struct row *rows, uint64_t n)
{
	double value = 0;

	cr_assert_eq(compute((struct dfi_aggregate){ .function = function,
				 .field = "real" },
			 rows, n, &value),
	    0);
	return value;
}

Test(rules, no_tuples_are_no_group)
{
	uint64_t count;

	cr_assert_eq(compute((struct dfi_aggregate){ .function = DFI_COUNT },
			 NULL, 0, &count),
	    0);
}

Test(rules, sums_wrap_unless_they_are_checked)
{
	struct row rows[3] = { { .number = INT64_MAX, .count = UINT64_MAX },
		{ .number = 1, .count = 2 }, { .number = -1, .count = 0 } };
	struct dfi_aggregate sum = { .function = DFI_SUM, .field = "number" };
	int64_t number;
	uint64_t count;

	cr_assert_eq(compute(sum, rows, 2, &number), 0);
	cr_assert_eq(number, INT64_MIN);
	sum.flags = DFI_AGGREGATE_CHECKED;
	cr_assert_eq(compute(sum, rows, 2, &number), -EOVERFLOW);
	expect_text("sum_number");
	expect_text("all tuples");
	/* An overflow on the way is no overflow in the end. */
	cr_assert_eq(compute(sum, rows, 3, &number), 0);
	cr_assert_eq(number, INT64_MAX);
	rows[0].number = INT64_MIN;
	rows[1].number = -1;
	cr_assert_eq(compute(sum, rows, 2, &number), -EOVERFLOW);

	sum = (struct dfi_aggregate){ .function = DFI_SUM, .field = "count" };
	cr_assert_eq(compute(sum, rows, 2, &count), 0);
	cr_assert_eq(count, 1);
	sum.flags = DFI_AGGREGATE_CHECKED;
	cr_assert_eq(compute(sum, rows, 2, &count), -EOVERFLOW);
	cr_assert_eq(compute(sum, rows, 1, &count), 0);
	cr_assert_eq(count, UINT64_MAX);
}

Test(rules, an_average_of_integers_is_exact)
{
	struct row rows[4] = { { .number = INT64_MAX, .count = UINT64_MAX },
		{ .number = INT64_MAX, .count = UINT64_MAX },
		{ .number = INT64_MIN, .count = UINT64_MAX },
		{ .number = INT64_MIN, .count = UINT64_MAX } };
	struct dfi_aggregate avg = { .function = DFI_AVG, .field = "number" };
	double value;

	cr_assert_eq(compute(avg, rows, 4, &value), 0);
	cr_assert_eq(value, -0.5);
	avg.field = "count";
	cr_assert_eq(compute(avg, rows, 4, &value), 0);
	cr_assert_eq(value, 18446744073709551616.0);
	rows[0].tiny = -128;
	rows[1].tiny = 3;
	avg.field = "tiny";
	cr_assert_eq(compute(avg, rows, 2, &value), 0);
	cr_assert_eq(value, -62.5);
}

Test(rules, extremes_pass_nan_over_and_sums_do_not)
{
	struct row rows[3] = { { .real = NAN }, { .real = 2 }, { .real = -3 } };
	uint64_t i;

	for (i = 0; i < 3; i++) { /* wherever it comes */
		cr_assert_eq(real_of(DFI_MIN, rows, 3), -3);
		cr_assert_eq(real_of(DFI_MAX, rows, 3), 2);
		cr_assert(isnan(real_of(DFI_SUM, rows, 3)));
		cr_assert(isnan(real_of(DFI_AVG, rows, 3)));
		rows[i].real = i < 2 ? rows[i + 1].real : NAN;
		if (i < 2)
			rows[i + 1].real = NAN;
	}
	rows[0].real = NAN;
	cr_assert(isnan(real_of(DFI_MIN, rows, 1)));
	cr_assert(isnan(real_of(DFI_MAX, rows, 1)));
	rows[0].real = INFINITY;
	rows[1].real = -INFINITY;
	cr_assert_eq(real_of(DFI_MAX, rows, 2), INFINITY);
	cr_assert_eq(real_of(DFI_MIN, rows, 2), -INFINITY);
	cr_assert(isnan(real_of(DFI_SUM, rows, 2)));
}

/* The identity must not show: all values are on its other side. */
Test(rules, extremes_are_of_what_came)
{
	struct row rows[20];
	int64_t number;
	uint64_t count;
	float narrow;
	int8_t tiny;
	int i;

	for (i = 0; i < 20; i++)
		rows[i] = (struct row){ .number = INT64_MIN,
			.count = UINT64_MAX,
			.narrow = -FLT_MAX,
			.tiny = 127 };
#define OF(f, name, to)                                               \
	cr_assert_eq(compute((struct dfi_aggregate){ .function = (f), \
				 .field = (name) },                   \
			 rows, 20, (to)),                             \
	    0)
	OF(DFI_MAX, "number", &number);
	cr_assert_eq(number, INT64_MIN);
	OF(DFI_MIN, "count", &count);
	cr_assert_eq(count, UINT64_MAX);
	OF(DFI_MAX, "narrow", &narrow);
	cr_assert_eq(narrow, -FLT_MAX);
	OF(DFI_MIN, "tiny", &tiny);
	cr_assert_eq(tiny, 127);
}

/* ---- What is refused
 * ---------------------------------------------------------- */

static void refuse(const uint32_t *keys, uint32_t n_keys,
    struct dfi_aggregate aggregate, const char *word)
{
	static const struct dfi_schema all = { row_fields, N_FIELDS + 1,
		sizeof(struct row) };
	struct dfi_aggregate two[2] = {
		{ .function = DFI_COUNT, .name = "number" }, aggregate
	};
	struct plan *plan = NULL;

	cr_assert_eq(dfi__plan_new(&all, keys, n_keys, two, 2, &plan), -EINVAL,
	    "%s", word);
	expect_text(word);
	cr_assert_null(plan);
}

Test(plan, refuses_what_makes_no_sense)
{
	const struct dfi_aggregate count = { .function = DFI_COUNT };
	struct dfi_aggregate many[DFI_MAX_AGGREGATES + 1] = { { 0 } };
	struct plan *plan = NULL;

	refuse((uint32_t[]){ KEY, KEY }, 2, count, "'key' comes twice");
	refuse((uint32_t[]){ 3 }, 1, count, "'real' is neither");
	refuse((uint32_t[]){ 0, 1, 2, 5, 6, 0, 0, 0, 0 }, 9, count, "9 fields");
	refuse(
	    NULL, 0, (struct dfi_aggregate){ .function = 0 }, "aggregate 1: 0");
	refuse(
	    NULL, 0, (struct dfi_aggregate){ .function = 6 }, "aggregate 1: 6");
	refuse(NULL, 0,
	    (struct dfi_aggregate){ .function = DFI_COUNT, .field = "key" },
	    "takes no field");
	refuse(NULL, 0, (struct dfi_aggregate){ .function = DFI_SUM },
	    "no field is called ''");
	refuse(NULL, 0,
	    (struct dfi_aggregate){ .function = DFI_SUM, .field = "keys" },
	    "no field is called 'keys'");
	refuse(NULL, 0,
	    (struct dfi_aggregate){ .function = DFI_MAX, .field = "name" },
	    "not a number");
	refuse(NULL, 0,
	    (struct dfi_aggregate){ .function = DFI_MAX,
		.field = "key",
		.flags = DFI_AGGREGATE_CHECKED },
	    "only with DFI_SUM");
	refuse(NULL, 0,
	    (struct dfi_aggregate){ .function = DFI_SUM,
		.field = "real",
		.flags = DFI_AGGREGATE_CHECKED },
	    "is for integers");
	refuse(NULL, 0,
	    (struct dfi_aggregate){
		.function = DFI_SUM, .field = "key", .name = "number" },
	    "two fields are called 'number'");
	refuse((uint32_t[]){ 1 }, 1, count, "two fields are called 'number'");
	refuse(NULL, 0,
	    (struct dfi_aggregate){ .function = DFI_COUNT,
		.name = "0123456789012345678901234567890123456789012345678901"
			"234567890123" },
	    "name must have");
	cr_assert_eq(
	    dfi__plan_new(&row_schema, NULL, 0, NULL, 0, &plan), -EINVAL);
	cr_assert_eq(dfi__plan_new(&row_schema, NULL, 0, many,
			 DFI_MAX_AGGREGATES + 1, &plan),
	    -EINVAL);
	expect_text("256 aggregates");
}

Test(plan, results_lie_as_in_a_struct)
{
	struct result {
		char name[5];
		uint64_t key;
		uint64_t count;
		float min_narrow;
		double avg_tiny;
		int8_t smallest;
	};
	const struct dfi_aggregate aggregates[] = {
		{ .function = DFI_COUNT },
		{ .function = DFI_MIN, .field = "narrow" },
		{ .function = DFI_AVG, .field = "tiny" },
		{ .function = DFI_MIN, .field = "tiny", .name = "smallest" },
	};
	const struct dfi_field expected[] = {
		DFI_FIELD_AS(struct result, name, DFI_BYTES),
		DFI_FIELD(struct result, key),
		DFI_FIELD(struct result, count),
		DFI_FIELD(struct result, min_narrow),
		DFI_FIELD(struct result, avg_tiny),
		DFI_FIELD(struct result, smallest),
	};
	const struct dfi_schema schema = DFI_SCHEMA(struct result, expected);
	struct plan *plan = plan_of(
	    &row_schema, (uint32_t[]){ NAME, KEY }, 2, aggregates, 4);

	cr_assert_eq(dfi__schema_match(plan->schema, &schema, "test"), 0, "%s",
	    dfi_errmsg());
	dfi__plan_free(plan);
}

Test(groups, overflow_names_the_group)
{
	struct row row = { .key = 7, .number = INT64_MAX, .name = "R\"m" };
	const struct dfi_aggregate sum = { .function = DFI_SUM,
		.field = "number",
		.flags = DFI_AGGREGATE_CHECKED,
		.name = "total" };
	struct plan *plan = plan_of(
	    &row_schema, (uint32_t[]){ KEY, NAME }, 2, &sum, 1);
	struct groups groups;
	char result[64];

	cr_assert_eq(dfi__groups_init(&groups, plan, 10), 0);
	fold(&groups, &row, sizeof(row), false, 1);
	fold(&groups, &row, sizeof(row), false, 1);
	cr_assert_eq(dfi__plan_result(plan, groups_record(&groups, 0), result),
	    -EOVERFLOW);
	expect_text("'total' of key 7, name R\"m ");
	dfi__groups_free(&groups);
	dfi__plan_free(plan);
}

Test(groups, are_bounded)
{
	const struct dfi_aggregate count = { .function = DFI_COUNT };
	struct plan *plan = plan_of(
	    &row_schema, (uint32_t[]){ KEY }, 1, &count, 1);
	struct row rows[300];
	struct groups groups;
	uint64_t taken, i;

	for (i = 0; i < 300; i++)
		rows[i] = (struct row){ .key = i % 200 };
	cr_assert_eq(dfi__groups_init(&groups, plan, 150), 0);
	cr_assert_eq(dfi__groups_fold(&groups, (const char *)rows,
			 sizeof(*rows), false, 300, &taken),
	    0);
	cr_assert_eq(taken, 150);
	cr_assert_eq(groups.n, 150);
	/* Those that are there go on. */
	fold(&groups, &rows[200], sizeof(*rows), false, 100);
	cr_assert_eq(groups.n, 150);
	dfi__groups_clear(&groups);
	fold(&groups, &rows[150], sizeof(*rows), false, 150);
	cr_assert_eq(groups.n, 150);
	dfi__groups_free(&groups);
	dfi__plan_free(plan);
}

/* A machine that reports this much memory. */
static void set_room(const char *root, unsigned kib)
{
	char name[64];
	FILE *file;

	snprintf(name, sizeof(name), "%s/proc", root);
	mkdir(name, 0700);
	snprintf(name, sizeof(name), "%s/proc/meminfo", root);
	file = fopen(name, "we");
	cr_assert_not_null(file);
	fprintf(file, "MemAvailable: %u kB\n", kib);
	cr_assert_eq(fclose(file), 0);
}

/* Add new groups until there are this many, or an error. */
static int add_groups(struct groups *groups, uint64_t n)
{
	uint64_t taken, k;
	struct row row;
	int ret = 0;

	for (k = groups->n; !ret && k < n; k++) {
		row = (struct row){ .key = k };
		ret = dfi__groups_fold(
		    groups, (const char *)&row, sizeof(row), false, 1, &taken);
	}
	return ret;
}

/* Otherwise the kernel would kill this process, or another one. */
Test(groups, that_memory_is_not_left_for_are_refused)
{
	const struct dfi_aggregate count = { .function = DFI_COUNT };
	struct plan *plan = plan_of(
	    &row_schema, (uint32_t[]){ KEY }, 1, &count, 1);
	char root[] = "/tmp/dfi-groups-XXXXXX", command[64];
	struct groups groups;
	uint64_t had;

	cr_assert_not_null(mkdtemp(root));
	dfi__groups_root = root;
	cr_assert_eq(dfi__groups_init(&groups, plan, GROUPS_MAX), 0);
	/* With less than twice the memory, some groups fit. */
	set_room(root, 2048);
	cr_assert_eq(add_groups(&groups, 130000), 0);
	cr_assert_lt(groups.room, 2 * groups.n);
	/* All slots exist twice until they have moved. */
	cr_assert_eq(add_groups(&groups, 300000), -ENOMEM);
	cr_assert_lt(groups.n, 300000);
	expect_text("the next take 4194304 bytes, but 2097152 are left "
		    "(MemAvailable of /proc/meminfo): ");
	had = groups.n;
	set_room(root, 0);
	cr_assert_eq(add_groups(&groups, 300000), -ENOMEM);
	cr_assert_eq(groups.n, had);
	set_room(root, 65536);
	cr_assert_eq(add_groups(&groups, 300000), 0);
	dfi__groups_free(&groups);
	dfi__plan_free(plan);
	snprintf(command, sizeof(command), "rm -r %s", root);
	cr_assert_eq(system(command), 0);
}

Test(groups, of_no_key_take_in_tuples_and_records_in_any_order)
{
	const struct dfi_aggregate sum = { .function = DFI_SUM,
		.field = "number" };
	const struct row rows[2] = { { .number = 3 }, { .number = 4 } };
	struct plan *plan = plan_of(&row_schema, NULL, 0, &sum, 1);
	struct groups groups, other;
	int i;

	cr_assert_eq(dfi__groups_init(&groups, plan, 1), 0);
	cr_assert_eq(dfi__groups_init(&other, plan, 1), 0);
	fold(&other, rows, sizeof(rows[0]), false, 2);
	for (i = 0; i < 3; i++) {
		if (i % 2)
			merge(&groups, &other);
		fold(&groups, rows, sizeof(rows[0]), false, 2);
		merge(&groups, &other);
		cr_assert_eq(groups.n, 1);
		cr_assert_eq(
		    groups_record(&groups, 0)[plan->key_words], 14 + i % 2 * 7);
		dfi__groups_clear(&groups);
	}
	dfi__groups_free(&other);
	dfi__groups_free(&groups);
	dfi__plan_free(plan);
}

/* From a table that fits the caches to one that doesn't, and back. */
Test(groups, keep_their_records_while_the_table_grows)
{
	enum {
		N = 40000
	};
	const struct dfi_aggregate aggregates[] = {
		{ .function = DFI_SUM, .field = "number" },
		{ .function = DFI_COUNT },
		{ .function = DFI_MAX, .field = "tiny" },
	};
	struct plan *plan = plan_of(
	    &row_schema, (uint32_t[]){ KEY }, 1, aggregates, 3);
	struct result {
		uint64_t key;
		int64_t sum;
		uint64_t count;
		int8_t most;
	} result;
	struct row *rows = calloc(N, sizeof(*rows));
	struct groups groups;
	uint64_t i, round;

	cr_assert_eq(plan->schema->tuple_size, sizeof(result));
	cr_assert_eq(dfi__groups_init(&groups, plan, N), 0);
	for (i = 0; i < N; i++)
		rows[i] = (struct row){
			.key = i * i, .number = -(int64_t)i, .tiny = (int8_t)i
		};
	for (round = 0; round < 2; round++) {
		fold(&groups, rows, sizeof(*rows), false, N);
		fold(&groups, rows, sizeof(*rows), false, N);
		cr_assert_eq(groups.n, N);
		for (i = 0; i < N; i++) {
			cr_assert_eq(
			    dfi__plan_result(plan, groups_record(&groups, i),
				(char *)&result),
			    0);
			cr_assert_eq(result.key, i * i);
			cr_assert_eq(result.sum, -2 * (int64_t)i);
			cr_assert_eq(result.count, 2);
			cr_assert_eq(result.most, (int8_t)i);
		}
		dfi__groups_clear(&groups);
	}
	free(rows);
	dfi__groups_free(&groups);
	dfi__plan_free(plan);
}

/* Also when they are few in a table that was made for many. */
Test(groups, are_all_forgotten)
{
	enum {
		N = 5000
	};
	const struct dfi_aggregate sum = { .function = DFI_SUM,
		.field = "number" };
	static const uint32_t counts[] = { N, 1, 7, 0, 150, N / 2, 2, 200, N };
	struct plan *plan = plan_of(
	    &row_schema, (uint32_t[]){ KEY }, 1, &sum, 1);
	struct row *rows = calloc(N, sizeof(*rows));
	struct groups groups;
	uint64_t i, round;

	cr_assert_eq(dfi__groups_init(&groups, plan, N), 0);
	for (round = 0; round < sizeof(counts) / sizeof(counts[0]); round++) {
		for (i = 0; i < counts[round]; i++)
			rows[i] = (struct row){ .key = (i + round) * 3,
				.number = (int64_t)i };
		fold(&groups, rows, sizeof(*rows), false, counts[round]);
		cr_assert_eq(groups.n, counts[round]);
		for (i = 0; i < groups.n; i++)
			cr_assert_eq(
			    groups_record(&groups, i)[0], (i + round) * 3);
		dfi__groups_clear(&groups);
		cr_assert_eq(groups.n, 0);
		for (i = 0; i < groups.n_slots; i++)
			cr_assert_eq(groups.slots[i].record, 0);
	}
	free(rows);
	dfi__groups_free(&groups);
	dfi__plan_free(plan);
}

/* ---- Random schemas against a plain loop
 * ---------------------------------------- */

#define MAX_FIELDS 24
#define MAX_TUPLES 3000
#define MAX_AGGREGATES 12

static const struct {
	uint32_t type, size;
} kinds[] = {
	{ DFI_INT8, 1 },
	{ DFI_INT16, 2 },
	{ DFI_INT32, 4 },
	{ DFI_INT64, 8 },
	{ DFI_UINT8, 1 },
	{ DFI_UINT16, 2 },
	{ DFI_UINT32, 4 },
	{ DFI_UINT64, 8 },
	{ DFI_FLOAT, 4 },
	{ DFI_DOUBLE, 8 },
	{ DFI_BYTES, 0 },
};
#define N_NUMBERS 10
#define N_INTEGERS 8

static struct {
	struct dfi_field fields[MAX_FIELDS];
	char names[MAX_FIELDS][8];
	struct dfi_schema schema;
	uint32_t keys[3], n_keys;
	struct dfi_aggregate aggregates[MAX_AGGREGATES];
	char result_names[MAX_AGGREGATES][12];
	uint32_t n_aggregates;
	char *tuples;
	uint64_t n;
} random_flow;

static void add_field(uint32_t type, uint32_t size, uint32_t *offset)
{
	struct dfi_field *field =
	    &random_flow.fields[random_flow.schema.n_fields];
	char *name = random_flow.names[random_flow.schema.n_fields];

	snprintf(name, sizeof(random_flow.names[0]), "f%u",
	    random_flow.schema.n_fields);
	*field = (struct dfi_field){
		.name = name, .type = type, .offset = *offset, .size = size
	};
	*offset += size;
	random_flow.schema.n_fields++;
}

/* Keys come first; then numbers, some of them a run of one type. */
static void make_schema(void)
{
	uint32_t offset = 0, kind, run;

	memset(&random_flow.schema, 0, sizeof(random_flow.schema));
	random_flow.n_keys = (uint32_t)draw(4);
	while (random_flow.schema.n_fields < random_flow.n_keys) {
		kind = (uint32_t)draw(N_INTEGERS + 1);
		random_flow.keys[random_flow.schema.n_fields] =
		    random_flow.schema.n_fields;
		if (kind == N_INTEGERS)
			add_field(DFI_BYTES, 1 + (uint32_t)draw(11), &offset);
		else
			add_field(kinds[kind].type, kinds[kind].size, &offset);
	}
	while (random_flow.schema.n_fields < 12) {
		kind = (uint32_t)draw(N_NUMBERS);
		offset += (uint32_t)draw(3);
		for (run = 1 + (uint32_t)draw(3); run; run--)
			add_field(kinds[kind].type, kinds[kind].size, &offset);
	}
	random_flow.schema.fields = random_flow.fields;
	random_flow.schema.tuple_size = offset + (uint32_t)draw(9);
}

static void make_aggregates(void)
{
	uint32_t field = random_flow.n_keys, i;

	random_flow.n_aggregates = 1 + (uint32_t)draw(MAX_AGGREGATES);
	for (i = 0; i < random_flow.n_aggregates; i++) {
		snprintf(random_flow.result_names[i],
		    sizeof(random_flow.result_names[0]), "r%u", i);
		random_flow.aggregates[i] = (struct dfi_aggregate){
			/* Often the same as before, so that runs occur. */
			.function = i && draw(3)
			    ? random_flow.aggregates[i - 1].function
			    : 1 + (uint32_t)draw(DFI_AVG),
			.name = random_flow.result_names[i],
		};
		if (random_flow.aggregates[i].function == DFI_COUNT)
			continue;
		if (!draw(3))
			field = random_flow.n_keys +
			    (uint32_t)draw(12 - random_flow.n_keys);
		random_flow.aggregates[i].field = random_flow.names[field];
		if (++field == random_flow.schema.n_fields)
			field = random_flow.n_keys;
	}
}

/* Whole numbers, whose sums doubles hold. */
static void make_value(const struct dfi_field *field, char *to)
{
	float f = (float)draw(2000) - 1000;
	double d = (double)draw(2000000) - 1000000;
	uint64_t word = draw(2) ? draw(1000) : random_state;

	if (field->type == DFI_FLOAT)
		memcpy(to, &f, sizeof(f));
	else if (field->type == DFI_DOUBLE)
		memcpy(to, &d, sizeof(d));
	else
		memcpy(to, &word, field->size);
}

static void make_tuples(void)
{
	const uint32_t size = random_flow.schema.tuple_size;
	uint64_t distinct = 1 + draw(draw(2) ? 10 : 2000), i, key;
	uint32_t f;
	char *tuple;

	random_flow.n = draw(MAX_TUPLES);
	random_flow.tuples = calloc(random_flow.n + 1, size);
	for (i = 0; i < random_flow.n; i++) {
		tuple = random_flow.tuples + i * size;
		key = draw(distinct) * UINT64_C(0x9e3779b97f4a7c15);
		for (f = 0; f < random_flow.schema.n_fields; f++)
			if (f < random_flow.n_keys)
				memset(tuple + random_flow.fields[f].offset,
				    (int)(key >> (60 - 3 * f)),
				    random_flow.fields[f].size);
			else
				make_value(&random_flow.fields[f],
				    tuple + random_flow.fields[f].offset);
	}
}

/* The value of a field, as wide as can be. */
static wide integer_at(const struct dfi_field *field, const char *tuple)
{
	uint64_t word = 0;
	unsigned shift = 64 - 8 * field->size;

	memcpy(&word, tuple + field->offset, field->size);
	if (dfi__type_is_signed(field->type))
		return (int64_t)(word << shift) >> shift;
	return word;
}

static double real_at(const struct dfi_field *field, const char *tuple)
{
	double d;
	float f;

	if (field->type == DFI_FLOAT) {
		memcpy(&f, tuple + field->offset, sizeof(f));
		return f;
	}
	memcpy(&d, tuple + field->offset, sizeof(d));
	return d;
}

static bool is_same_group(const char *tuple, const char *result)
{
	uint32_t k, at = 0, size, align;

	for (k = 0; k < random_flow.n_keys; k++) {
		size = random_flow.fields[k].size;
		align = random_flow.fields[k].type == DFI_BYTES ? 1 : size;
		at = (uint32_t)align_up(at, align);
		if (memcmp(tuple + random_flow.fields[k].offset, result + at,
			size) != 0)
			return false;
		at += size;
	}
	return true;
}

static void check_integer(const struct dfi_aggregate *aggregate,
    const struct dfi_field *field, const char *result, const char *at)
{
	wide sum = 0, least = 0, most = 0, value, got;
	uint64_t i, n = 0, word = 0;
	const char *tuple;
	double average;

	for (i = 0; i < random_flow.n; i++) {
		tuple = random_flow.tuples + i * random_flow.schema.tuple_size;
		if (!is_same_group(tuple, result))
			continue;
		value = integer_at(field, tuple);
		sum += value;
		least = !n || value < least ? value : least;
		most = !n || value > most ? value : most;
		n++;
	}
	cr_assert_gt(n, 0);
	if (aggregate->function == DFI_AVG) {
		memcpy(&average, at, sizeof(average));
		cr_assert_eq(average, (double)sum / (double)n);
	} else if (aggregate->function == DFI_SUM) {
		memcpy(&word, at, sizeof(word));
		cr_assert_eq(word, (uint64_t)sum);
	} else {
		struct dfi_field there = *field;

		there.offset = 0;
		got = integer_at(&there, at);
		cr_assert(
		    got == (aggregate->function == DFI_MIN ? least : most));
	}
}

static void check_real(const struct dfi_aggregate *aggregate,
    const struct dfi_field *field, const char *result, const char *at)
{
	double sum = 0, least = INFINITY, most = -INFINITY, value, got;
	struct dfi_field there = *field;
	const char *tuple;
	uint64_t i, n = 0;

	for (i = 0; i < random_flow.n; i++) {
		tuple = random_flow.tuples + i * random_flow.schema.tuple_size;
		if (!is_same_group(tuple, result))
			continue;
		value = real_at(field, tuple);
		sum += value;
		least = fmin(least, value);
		most = fmax(most, value);
		n++;
	}
	there.offset = 0;
	if (aggregate->function == DFI_SUM || aggregate->function == DFI_AVG)
		there.type = DFI_DOUBLE;
	got = real_at(&there, at);
	cr_assert_eq(got,
	    aggregate->function == DFI_SUM       ? sum
		: aggregate->function == DFI_AVG ? sum / (double)n
		: aggregate->function == DFI_MIN ? least
						 : most);
}

static void check_count(const char *result, const char *at)
{
	uint64_t i, n = 0, count;

	for (i = 0; i < random_flow.n; i++)
		n += is_same_group(
		    random_flow.tuples + i * random_flow.schema.tuple_size,
		    result);
	memcpy(&count, at, sizeof(count));
	cr_assert_eq(count, n);
}

static void check_result(const struct plan *plan, const char *result)
{
	const struct dfi_aggregate *aggregate = random_flow.aggregates;
	const struct dfi_field *field;
	const char *at;
	uint32_t i;

	for (i = 0; i < random_flow.n_aggregates; i++, aggregate++) {
		at = result +
		    plan->schema->fields[random_flow.n_keys + i].offset;
		if (aggregate->function == DFI_COUNT) {
			check_count(result, at);
			continue;
		}
		field = dfi__schema_field(&random_flow.schema, aggregate->field,
		    strlen(aggregate->field));
		if (dfi__type_is_integer(field->type))
			check_integer(aggregate, field, result, at);
		else
			check_real(aggregate, field, result, at);
	}
}

/* All results, of which some are looked at; and each group once. */
static void check_results(const struct plan *plan, const struct groups *groups)
{
	char *result = malloc(plan->schema->tuple_size);
	uint64_t i, step = 1 + groups->n / 20, represented = 0, t;
	bool *seen = calloc(random_flow.n + 1, sizeof(*seen));

	for (i = 0; i < groups->n; i++) {
		cr_assert_eq(
		    dfi__plan_result(plan, groups_record(groups, i), result),
		    0);
		if (plan->results_are_records)
			cr_assert_arr_eq(groups_record(groups, i), result,
			    plan->schema->tuple_size);
		if (i % step == 0)
			check_result(plan, result);
		if (groups->n > 200)
			continue;
		for (t = 0; t < random_flow.n; t++)
			if (is_same_group(random_flow.tuples +
				    t * random_flow.schema.tuple_size,
				result)) {
				cr_assert(!seen[t], "a group comes twice");
				seen[t] = true;
				represented++;
			}
	}
	if (groups->n <= 200)
		cr_assert_eq(represented, random_flow.n);
	free(seen);
	free(result);
}

/* ---- Partial aggregates
 * --------------------------------------------------------- */

static void init_partials(
    struct partials *partials, const struct plan *plan, uint32_t max)
{
	size_t size = dfi__partials_size(plan, max);
	char *memory = malloc(size + sizeof(uint64_t));

	cr_assert_not_null(memory);
	/* Whatever it holds; and the memory behind it is unchanged. */
	memset(memory, 0xa5, size + sizeof(uint64_t));
	dfi__partials_init(partials, plan, max, memory);
}

static void free_partials(struct partials *partials)
{
	size_t size = dfi__partials_size(partials->plan, partials->max), i;
	unsigned char *memory = (void *)partials->keys;

	for (i = size; i < size + sizeof(uint64_t); i++)
		cr_assert_eq(memory[i], 0xa5);
	free(memory);
}

static void merge_partials(struct groups *to, struct partials *from)
{
	fold(to, (const char *)partials_record(from, 0),
	    from->plan->record_words * sizeof(uint64_t), true, from->n);
	dfi__partials_clear(from);
}

/*
 * As in a source: whenever the table is full, its partial aggregates are sent.
 */
static void fold_partials(struct groups *to, struct partials *partials,
    const char *tuples, uint64_t n)
{
	uint64_t taken;

	while (n) {
		taken = dfi__partials_fold(partials, tuples, n);
		cr_assert(taken || partials->n);
		cr_assert_leq(taken, n);
		cr_assert_leq(partials->n, partials->max);
		n -= taken;
		tuples += taken * partials->plan->tuple_size;
		if (n)
			merge_partials(to, partials);
	}
}

/* Multiplied by this, these keys all have the same slot. */
static void fold_alike(uint64_t step, uint32_t max, uint32_t expected)
{
	const struct dfi_aggregate count = { .function = DFI_COUNT };
	struct plan *plan = plan_of(
	    &row_schema, (uint32_t[]){ KEY }, 1, &count, 1);
	struct row *rows = calloc(max, sizeof(*rows));
	struct partials partials;
	uint64_t i, taken = 0;

	cr_assert_not_null(rows);
	for (i = 0; i < max; i++)
		rows[i].key = (i + 1) * step;
	init_partials(&partials, plan, max);
	taken = dfi__partials_fold(&partials, (const char *)rows, max);
	cr_assert_geq(taken, expected);
	cr_assert_eq(partials.n, taken);
	for (i = 0; i < taken; i++) {
		cr_assert_eq(
		    partials_record(&partials, (uint32_t)i)[0], (i + 1) * step);
		cr_assert_eq(partials_record(&partials, (uint32_t)i)[1], 1);
	}
	/* One more is one too many; a known one is not. */
	rows[0].key = UINT64_MAX;
	if (taken == max)
		cr_assert_eq(
		    dfi__partials_fold(&partials, (const char *)rows, 1), 0);
	cr_assert_eq(
	    dfi__partials_fold(&partials, (const char *)&rows[1], 1), 1);
	dfi__partials_clear(&partials);
	cr_assert_eq(dfi__partials_fold(&partials, (const char *)rows, 1), 1);
	free_partials(&partials);
	free(rows);
	dfi__plan_free(plan);
}

Test(partials, are_bounded)
{
	fold_alike(1, PARTIALS_MIN, PARTIALS_MIN);
	fold_alike(1, PARTIALS_MAX, PARTIALS_MAX);
	fold_alike(UINT64_C(1) << 40, 1024, 1024);
}

static uint64_t inverse_of(uint64_t factor)
{
	uint64_t inverse = factor;
	int i;

	for (i = 0; i < 6; i++)
		inverse *= 2 - factor * inverse;
	cr_assert_eq(factor * inverse, 1);
	return inverse;
}

/* 2^64 divided by the golden ratio, a well-known factor. */
#define KNOWN_FACTOR UINT64_C(0x9e3779b97f4a7c15)

/* With that factor, all of them belong in one slot. */
Test(partials, of_keys_that_were_chosen_to_meet_are_spread)
{
	fold_alike(inverse_of(KNOWN_FACTOR), 8192, 8192);
}

/* Anybody who knows the factor can do it. */
Test(partials, end_early_where_the_hash_fails)
{
	const struct dfi_aggregate count = { .function = DFI_COUNT };
	struct plan *plan = plan_of(
	    &row_schema, (uint32_t[]){ KEY }, 1, &count, 1);
	struct row *rows = calloc(8192, sizeof(*rows));
	struct partials partials;
	uint64_t i, taken;

	for (i = 0; i < 8192; i++)
		rows[i].key = (i + 1) * inverse_of(plan->factor);
	init_partials(&partials, plan, 8192);
	taken = dfi__partials_fold(&partials, (const char *)rows, 8192);
	cr_assert(taken > 100 && taken < 8192, "%lu", (unsigned long)taken);
	cr_assert_eq(partials.n, taken);
	free_partials(&partials);
	free(rows);
	dfi__plan_free(plan);
}

Test(spread, is_drawn_anew_and_even)
{
	uint64_t factors[100];
	int i, j;

	for (i = 0; i < 100; i++) {
		cr_assert_eq(dfi__spread_draw(&factors[i]), 0);
		cr_assert_eq(factors[i] & 1, 1);
		cr_assert(dfi__spread_is_even(factors[i]));
		for (j = 0; j < i; j++)
			cr_assert_neq(factors[i], factors[j]);
	}
	cr_assert(dfi__spread_is_even(KNOWN_FACTOR));
	cr_assert_not(dfi__spread_is_even(1));
	cr_assert_not(dfi__spread_is_even(UINT64_MAX));
	/* Near to 2/3, near to nothing that is simple but by 1 / 2^20. */
	cr_assert_not(dfi__spread_is_even(UINT64_C(0xaaaaaaaaaaaaaaab)));
	cr_assert_not(
	    dfi__spread_is_even((KNOWN_FACTOR & ~UINT64_C(0xffffffff)) | 1));
}

/* For any random factor, usual keys are spread. */
Test(partials, of_any_distance_are_spread)
{
	unsigned shift, round;

	for (round = 0; round < 20; round++)
		for (shift = 0; shift <= 48; shift++)
			fold_alike(UINT64_C(1) << shift, 1024, 1024);
}

/* A key whose dfi_hash64() is this. */
static uint64_t key_of_hash(uint64_t hash)
{
	hash ^= hash >> 33;
	hash *= inverse_of(UINT64_C(0xc4ceb9fe1a85ec53));
	hash ^= hash >> 33;
	hash *= inverse_of(UINT64_C(0xff51afd7ed558ccd));
	return hash ^ hash >> 33;
}

/* All slots that look-ups of all groups visit. */
static uint64_t count_steps(const struct groups *groups)
{
	uint64_t mask = groups->n_slots - 1, slot, hash, n = 0;

	for (slot = 0; slot <= mask; slot++) {
		if (!groups->slots[slot].record)
			continue;
		hash = spread_hash(groups->plan->factor,
		    groups_record(groups, groups->slots[slot].record - 1)[0]);
		n += (slot - hash) & mask;
	}
	return n;
}

/* Those that routing sends anywhere by their upper bits, and those to one. */
Test(groups, of_keys_that_were_chosen_to_meet_are_spread)
{
	enum {
		N = 20000
	};
	const struct dfi_aggregate count = { .function = DFI_COUNT };
	struct plan *plan = plan_of(
	    &row_schema, (uint32_t[]){ KEY }, 1, &count, 1);
	struct row *rows = calloc(N, sizeof(*rows));
	struct groups groups;
	uint64_t i;
	int upper;

	for (upper = 0; upper < 2; upper++) {
		for (i = 0; i < N; i++) {
			rows[i].key = key_of_hash(upper ? i << 32 : i);
			cr_assert_eq(
			    dfi_hash64(rows[i].key), upper ? i << 32 : i);
		}
		cr_assert_eq(dfi__groups_init(&groups, plan, N), 0);
		fold(&groups, rows, sizeof(*rows), false, N);
		cr_assert_eq(groups.n, N);
		/* By chance, at most half full, it is half a step for each. */
		cr_assert_lt(count_steps(&groups), 2 * N);
		dfi__groups_free(&groups);
	}
	free(rows);
	dfi__plan_free(plan);
}

/* Slot 0 is special, and where probes that came to the last one go on. */
Test(partials, of_keys_around_the_first_slot)
{
	const struct dfi_aggregate count = { .function = DFI_COUNT };
	struct plan *plan = plan_of(
	    &row_schema, (uint32_t[]){ KEY }, 1, &count, 1);
	uint64_t keys[24], counts[24];
	struct partials partials;
	struct row row = { 0 };
	const uint64_t *record;
	uint32_t round, i, j;

	random_state = 1;
	for (i = 0; i < 8; i++) {
		keys[i] = i;
		keys[8 + i] = (i + 1) * inverse_of(plan->factor);
		keys[16 + i] = -keys[8 + i];
	}
	init_partials(&partials, plan, PARTIALS_MIN);
	for (round = 0; round < 1000; round++) {
		memset(counts, 0, sizeof(counts));
		for (i = 0; i < 40; i++) {
			j = (uint32_t)draw(24);
			counts[j]++;
			row.key = keys[j];
			cr_assert_eq(dfi__partials_fold(
					 &partials, (const char *)&row, 1),
			    1);
		}
		for (i = 0; i < partials.n; i++) {
			record = partials_record(&partials, i);
			for (j = 0; j < 24 && keys[j] != record[0]; j++)
				;
			cr_assert_lt(j, 24, "round %u: key %lu", round,
			    (unsigned long)record[0]);
			cr_assert_eq(record[1], counts[j]);
			counts[j] = 0;
		}
		for (j = 0; j < 24; j++)
			cr_assert_eq(counts[j], 0);
		dfi__partials_clear(&partials);
	}
	free_partials(&partials);
	dfi__plan_free(plan);
}

Test(partials, of_key_zero_and_of_no_key)
{
	const struct dfi_aggregate sum = { .function = DFI_SUM,
		.field = "number" };
	struct row rows[2] = { { .number = 3 }, { .number = 4 } };
	struct partials partials;
	struct plan *plan;

	plan = plan_of(&row_schema, (uint32_t[]){ KEY }, 1, &sum, 1);
	init_partials(&partials, plan, PARTIALS_MIN);
	cr_assert_eq(dfi__partials_fold(&partials, (const char *)rows, 2), 2);
	cr_assert_eq(partials.n, 1);
	cr_assert_eq(partials_record(&partials, 0)[1], 7);
	free_partials(&partials);
	dfi__plan_free(plan);
	plan = plan_of(&row_schema, NULL, 0, &sum, 1);
	init_partials(&partials, plan, PARTIALS_MIN);
	cr_assert_eq(dfi__partials_fold(&partials, (const char *)rows, 2), 2);
	cr_assert_eq(dfi__partials_fold(&partials, (const char *)rows, 2), 2);
	cr_assert_eq(partials.n, 1);
	cr_assert_eq(partials_record(&partials, 0)[1], 14);
	free_partials(&partials);
	dfi__plan_free(plan);
}

static uint64_t n_of_records; /* plans whose results are records */

/*
 * At once, or in parts by several tables of which one merges the others, and by
 * one of partial aggregates.
 */
static void run(uint64_t seed)
{
	struct groups groups, other;
	struct partials partials;
	uint64_t done = 0, part;
	struct plan *plan;
	const char *from;

	random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	make_schema();
	make_aggregates();
	make_tuples();
	plan = plan_of(&random_flow.schema, random_flow.keys,
	    random_flow.n_keys, random_flow.aggregates,
	    random_flow.n_aggregates);
	cr_assert_eq(dfi__groups_init(&groups, plan, 1 << 20), 0);
	cr_assert_eq(dfi__groups_init(&other, plan, 1 << 20), 0);
	init_partials(&partials, plan, UINT32_C(64) << draw(4));
	while (done < random_flow.n) {
		part = min_u64(1 + draw(2000), random_flow.n - done);
		from = random_flow.tuples +
		    done * random_flow.schema.tuple_size;
		if (draw(3))
			fold(draw(2) ? &groups : &other, from,
			    random_flow.schema.tuple_size, false, part);
		else
			fold_partials(&groups, &partials, from, part);
		done += part;
		if (draw(2)) {
			merge(&groups, &other);
			dfi__groups_clear(&other);
		}
	}
	merge(&groups, &other);
	merge_partials(&groups, &partials);
	check_results(plan, &groups);
	n_of_records += plan->results_are_records;
	free(random_flow.tuples);
	free_partials(&partials);
	dfi__groups_free(&other);
	dfi__groups_free(&groups);
	dfi__plan_free(plan);
}

Test(groups, equal_a_plain_loop_over_a_thousand_schemas, .timeout = 300)
{
	const char *set = getenv("DFI_TEST_SEEDS");
	uint64_t n = set ? strtoull(set, NULL, 10) : 1000, seed;

	for (seed = 1; seed <= n; seed++)
		run(seed);
	cr_log_info(
	    "results of %lu plans are records", (unsigned long)n_of_records);
	if (n >= 100)
		cr_assert(n_of_records > 0 && n_of_records < n);
}

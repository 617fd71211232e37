/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the query's aggregates from those of the flow. */
#include "output.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../../common/complain.h"
#include "exact_sum.h"
#include "number.h"

/* One row of results. */
struct row {
	const struct plan *plan;
	const struct dfi_schema *schema;
	const char *tuple; /* NULL: no rows, and one group holds all */
	const struct dictionary *dictionaries;
};

/* ---- Values ----------------------------------------------------------------
 */

static struct text key(const struct row *row, uint32_t column)
{
	uint64_t number;

	memcpy(&number, row->tuple + row->schema->fields[column].offset,
	    sizeof(number));
	return dictionary_get(&row->dictionaries[column], number);
}

/* All aggregates of the flow are words of 64 bits. */
static uint64_t aggregate(const struct row *row, uint32_t i)
{
	const struct dfi_field *field =
	    &row->schema->fields[row->plan->query->n_keys + i];
	uint64_t word;

	memcpy(&word, row->tuple + field->offset, sizeof(word));
	return word;
}

/* The number of values that are not null; NO_COLUMN: of rows. */
static uint64_t count(const struct row *row, uint32_t column)
{
	if (!row->tuple)
		return 0;
	return aggregate(
	    row, column == NO_COLUMN ? 0 : row->plan->columns[column].count);
}

static void sum(const struct row *row, uint32_t column, struct exact_sum *sum)
{
	const struct rows_column *from =
	    &row->plan->rows->header->columns[column];
	int64_t limbs[MAX_LIMBS];
	uint32_t i;

	for (i = 0; i < from->n_limbs; i++)
		limbs[i] = (int64_t)aggregate(
		    row, row->plan->columns[column].limbs + i);
	exact_sum_make(sum, limbs, from->n_limbs, from->scale);
}

/* ---- Texts -----------------------------------------------------------------
 */

/* A null prints as nothing, an empty text as quotes. */
static void put_text(struct text text)
{
	size_t i;

	for (i = 0; i < text.size; i++)
		if (memchr(",\"\r\n", text.bytes[i], 4))
			break;
	if (i == text.size && (text.size || text.is_null)) {
		fwrite(text.bytes, 1, text.size, stdout);
		return;
	}
	putchar('"');
	for (i = 0; i < text.size; i++) {
		if (text.bytes[i] == '"')
			putchar('"');
		putchar(text.bytes[i]);
	}
	putchar('"');
}

static void put_integer(uint32_t type, uint64_t word)
{
	if (type == VALUE_UNSIGNED)
		printf("%" PRIu64, word);
	else
		printf("%" PRId64, (int64_t)word);
}

static void put_value(uint32_t type, uint64_t word)
{
	char text[REAL_SIZE];
	double real;

	if (type != VALUE_REAL) {
		put_integer(type, word);
		return;
	}
	memcpy(&real, &word, sizeof(real));
	real_text(real, text);
	fputs(text, stdout);
}

/* "city 'Rome', code null" */
static void name_group(const struct row *row, char *to, size_t room)
{
	const struct query *query = row->plan->query;
	struct text text;
	size_t n = 0;
	uint32_t i;

	snprintf(to, room, "all rows");
	for (i = 0; i < query->n_keys && n < room; i++) {
		text = key(row, i);
		n += (size_t)snprintf(to + n, room - n,
		    text.is_null ? "%s%s null" : "%s%s '%.*s'", i ? ", " : "",
		    query->columns[i].name,
		    text.size < 60 ? (int)text.size : 60, text.bytes);
	}
}

static int too_large(const struct row *row, const char *column, bool is_real)
{
	char group[512];

	name_group(row, group, sizeof(group));
	if (is_real)
		return complain("the sum of column '%s', of %s, is larger than "
				"a real can be, which is 1.8e308",
		    column, group);
	return complain("the sum of column '%s', of %s, doesn't fit 64 bits; "
			"--types %s=real gives it rounded",
	    column, group, column);
}

/* ---- Items -----------------------------------------------------------------
 */

/* Print a sum; with only_check, check only that it can be printed. 0, or -1. */
static int put_sum(const struct row *row, uint32_t column, bool only_check)
{
	uint32_t type = row->plan->rows->header->columns[column].type;
	const char *name = row->plan->query->columns[column].name;
	struct exact_sum exact;
	char text[REAL_SIZE];
	bool whole;
	uint64_t word;
	double real;
	int exponent;

	sum(row, column, &exact);
	whole = type == VALUE_UNSIGNED
	    ? exact_sum_uint64(&exact, &word)
	    : exact_sum_int64(&exact, (int64_t *)&word);
	if (!whole && type != VALUE_REAL)
		return too_large(row, name, false);
	real = exact_sum_real(&exact, &exponent);
	real = ldexp(real, exponent);
	if (!isfinite(real))
		return too_large(row, name, true);
	if (only_check)
		return 0;
	if (!whole) {
		real_text_short(real, text);
		fputs(text, stdout);
		return 0;
	}
	put_integer(type, word);
	/* A whole number gets a point as well, as in SQL shells. */
	if (type == VALUE_REAL)
		fputs(".0", stdout);
	return 0;
}

static void put_average(const struct row *row, uint32_t column)
{
	struct exact_sum exact;
	char text[REAL_SIZE];
	double real;
	int exponent;

	sum(row, column, &exact);
	real = exact_sum_real(&exact, &exponent) / (double)count(row, column);
	real_text_short(ldexp(real, exponent), text);
	fputs(text, stdout);
}

static void put_item(const struct row *row, const struct query_item *item)
{
	const struct plan_column *at;
	uint32_t type;

	if (!item->function) {
		put_text(key(row, item->column));
		return;
	}
	if (item->function == DFI_COUNT) {
		printf("%" PRIu64, count(row, item->column));
		return;
	}
	/* If all values are null, every other aggregate is null. */
	if (!count(row, item->column))
		return;
	at = &row->plan->columns[item->column];
	type = row->plan->rows->header->columns[item->column].type;
	if (item->function == DFI_SUM)
		(void)put_sum(row, item->column, false);
	else if (item->function == DFI_AVG)
		put_average(row, item->column);
	else
		put_value(type,
		    aggregate(
			row, item->function == DFI_MIN ? at->min : at->max));
}

/* ---- Rows ------------------------------------------------------------------
 */

static void put_header(const struct query *query)
{
	const char *name;
	uint32_t i;

	for (i = 0; i < query->n_items; i++) {
		if (i)
			putchar(',');
		name = query->items[i].name;
		put_text((struct text){ name, strlen(name), false });
	}
	putchar('\n');
}

static void put_row(const struct row *row)
{
	const struct query *query = row->plan->query;
	uint32_t i;

	for (i = 0; i < query->n_items; i++) {
		if (i)
			putchar(',');
		put_item(row, &query->items[i]);
	}
	putchar('\n');
}

/* Whether it prints as an empty line: its only item is null. */
static bool is_empty(const struct row *row)
{
	const struct query *query = row->plan->query;
	const struct query_item *item = query->items;

	if (query->n_items > 1 || item->function == DFI_COUNT)
		return false;
	return item->function ? !count(row, item->column)
			      : key(row, item->column).is_null;
}

/*
 * Empty lines come first: a CSV reader, such as ours, may not take the last one
 * for a row.
 */
static void put_rows(struct row *row, const struct results *results, bool empty)
{
	size_t size = results->schema->tuple_size;
	uint64_t i;

	for (i = 0; i < results->n; i++) {
		row->tuple = results->tuples + i * size;
		if (is_empty(row) == empty)
			put_row(row);
	}
}

static int check_row(const struct row *row)
{
	const struct query_item *item = row->plan->query->items;
	uint32_t i, n = row->plan->query->n_items;

	for (i = 0; i < n; i++, item++)
		if (item->function == DFI_SUM && count(row, item->column) &&
		    put_sum(row, item->column, true))
			return -1;
	return 0;
}

int output(const struct plan *plan, const struct results *results,
    const struct dictionary dictionaries[MAX_KEYS])
{
	struct row row = { .plan = plan,
		.schema = results->schema,
		.dictionaries = dictionaries };
	size_t size = results->schema->tuple_size;
	uint64_t i;

	for (i = 0; i < results->n; i++) {
		row.tuple = results->tuples + i * size;
		if (check_row(&row))
			return -1;
	}
	put_header(plan->query);
	put_rows(&row, results, true);
	put_rows(&row, results, false);
	/* No rows at all: without GROUP BY, SQL has one result. */
	row.tuple = NULL;
	if (!results->n && !plan->query->n_keys)
		put_row(&row);
	return 0;
}

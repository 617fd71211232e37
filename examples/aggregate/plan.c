/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of tuples, and their values. */
#include "plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../common/complain.h"
#include "exact_sum.h"

static uint32_t size_of(uint32_t type)
{
	switch (type) {
	case DFI_UINT8:
		return 1;
	case DFI_UINT32:
	case DFI_INT32:
		return 4;
	default:
		return 8;
	}
}

static void add_field(struct plan *plan, char kind, uint32_t type)
{
	uint32_t i = plan->n_fields++;

	snprintf(plan->names[i], sizeof(plan->names[i]), "%c%" PRIu32, kind, i);
	plan->fields[i] = (struct dfi_field){
		.name = plan->names[i], .type = type, .size = size_of(type)
	};
}

/* Returns the new number. plan_make() has checked that there is room. */
static uint32_t add_aggregate(
    struct plan *plan, uint32_t function, char kind, uint32_t type)
{
	uint32_t i = plan->n_aggregates++;

	add_field(plan, kind, type);
	plan->aggregates[i] = (struct dfi_aggregate){
		.function = function,
		.field = plan->names[plan->n_fields - 1],
	};
	return i;
}

static uint32_t value_type(const struct rows_column *column)
{
	return column->type == VALUE_REAL    ? DFI_DOUBLE
	    : column->type == VALUE_UNSIGNED ? DFI_UINT64
					     : DFI_INT64;
}

/* Limbs are adjacent, so that the flow sums them as a vector. */
static void add_limbs(struct plan *plan, uint32_t i)
{
	const struct rows_column *column = &plan->rows->header->columns[i];
	uint32_t limb, at, type;

	for (limb = 0; limb < column->n_limbs; limb++) {
		type = limb + 1 < column->n_limbs ||
			column->type == VALUE_UNSIGNED
		    ? DFI_UINT32
		    : DFI_INT32;
		at = add_aggregate(plan, DFI_SUM, 's', type);
		if (!limb)
			plan->columns[i].limbs = at;
	}
}

static void add_column(struct plan *plan, uint32_t i)
{
	const struct rows_column *column = &plan->rows->header->columns[i];
	uint32_t uses = plan->query->columns[i].uses;
	uint32_t type = value_type(column);

	if (column->has_nulls)
		plan->columns[i].count = add_aggregate(
		    plan, DFI_SUM, 'n', DFI_UINT8);
	if (uses & USE_SUM)
		add_limbs(plan, i);
	if (uses & USE_MIN)
		plan->columns[i].min = add_aggregate(plan, DFI_MIN, 'l', type);
	if (uses & USE_MAX)
		plan->columns[i].max = add_aggregate(plan, DFI_MAX, 'h', type);
}

/* Large fields first, so that all are aligned. */
static void place(struct plan *plan)
{
	uint32_t size, i, at = 0;

	for (size = 8; size; size /= 2)
		for (i = 0; i < plan->n_fields; i++) {
			if (plan->fields[i].size != size)
				continue;
			plan->fields[i].offset = at;
			at += size;
		}
	plan->schema = (struct dfi_schema){
		.fields = plan->fields,
		.n_fields = plan->n_fields,
		.tuple_size = (at + 7) / 8 * 8,
	};
}

static int check_room(const struct query *query, const struct rows *rows)
{
	uint32_t n = 1, i, uses;

	for (i = query->n_keys; i < query->n_columns; i++) {
		uses = query->columns[i].uses;
		n += rows->header->columns[i].has_nulls + !!(uses & USE_MIN) +
		    !!(uses & USE_MAX);
		if (uses & USE_SUM)
			n += rows->header->columns[i].n_limbs;
	}
	if (n <= DFI_MAX_AGGREGATES && n + query->n_keys <= DFI_MAX_FIELDS)
		return 0;
	return complain("query: its sums need %" PRIu32 " fields, and a flow "
			"has %d: sum fewer columns at once, or columns whose "
			"values differ less in size",
	    n, DFI_MAX_AGGREGATES);
}

int plan_make(
    struct plan *plan, const struct query *query, const struct rows *rows)
{
	size_t n = 0;
	uint32_t i;

	if (check_room(query, rows))
		return -1;
	memset(plan, 0, sizeof(*plan));
	plan->query = query;
	plan->rows = rows;
	for (i = 0; i < query->n_keys; i++) {
		add_field(plan, 'k', DFI_UINT64);
		n += (size_t)snprintf(plan->group_by + n,
		    sizeof(plan->group_by) - n, "%s%s", i ? "," : "",
		    plan->names[i]);
	}
	plan->aggregates[plan->n_aggregates++] =
	    (struct dfi_aggregate){ .function = DFI_COUNT };
	for (i = query->n_keys; i < query->n_columns; i++)
		add_column(plan, i);
	/* A flow has at least one field. */
	if (!plan->n_fields)
		add_field(plan, 'x', DFI_UINT64);
	place(plan);
	return 0;
}

/* ---- Tuples ----------------------------------------------------------------
 */

static void put(
    const struct plan *plan, char *tuple, uint32_t aggregate, const void *value)
{
	const struct dfi_field *field =
	    &plan->fields[plan->query->n_keys + aggregate - 1];

	memcpy(tuple + field->offset, value, field->size);
}

/* Values that never win against another one. */
static void put_null(const struct plan *plan, uint32_t column, char *tuple)
{
	const struct plan_column *at = &plan->columns[column];
	uint64_t low, high;
	double none = NAN;

	switch (plan->rows->header->columns[column].type) {
	case VALUE_REAL:
		memcpy(&low, &none, sizeof(low));
		high = low;
		break;
	case VALUE_UNSIGNED:
		low = UINT64_MAX;
		high = 0;
		break;
	default:
		low = INT64_MAX;
		high = (uint64_t)INT64_MIN;
		break;
	}
	if (at->min)
		put(plan, tuple, at->min, &low);
	if (at->max)
		put(plan, tuple, at->max, &high);
}

static void put_limbs(
    const struct plan *plan, uint32_t column, uint64_t word, char *tuple)
{
	const struct rows_column *from = &plan->rows->header->columns[column];
	uint32_t limbs[MAX_LIMBS], i;
	double real;

	if (from->type == VALUE_REAL) {
		memcpy(&real, &word, sizeof(real));
		limbs_of_real(real, from->scale, from->n_limbs, limbs);
	} else {
		limbs_of_integer(word, limbs);
	}
	for (i = 0; i < from->n_limbs; i++)
		put(plan, tuple, plan->columns[column].limbs + i, &limbs[i]);
}

static void put_value(
    const struct plan *plan, uint32_t column, uint64_t row, char *tuple)
{
	const struct plan_column *at = &plan->columns[column];
	const uint64_t *words = rows_words(plan->rows, column);
	static const uint8_t one = 1;

	if (at->count) {
		if (rows_nulls(plan->rows, column)[row]) {
			put_null(plan, column, tuple);
			return;
		}
		put(plan, tuple, at->count, &one);
	}
	if (at->limbs)
		put_limbs(plan, column, words[row], tuple);
	if (at->min)
		put(plan, tuple, at->min, &words[row]);
	if (at->max)
		put(plan, tuple, at->max, &words[row]);
}

void plan_tuple(const struct plan *plan, uint64_t i, char *tuple)
{
	const struct query *query = plan->query;
	uint32_t c;

	memset(tuple, 0, plan->schema.tuple_size);
	for (c = 0; c < query->n_keys; c++)
		memcpy(tuple + plan->fields[c].offset,
		    &rows_words(plan->rows, c)[i], sizeof(uint64_t));
	for (; c < query->n_columns; c++)
		put_value(plan, c, i, tuple);
}

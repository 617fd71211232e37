/* SPDX-License-Identifier: Apache-2.0 */
/* From texts to typed columns. */
#include "columns.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/complain.h"

#define MAX_NUMBER 64 /* bytes of one */

/* ---- Values ----------------------------------------------------------------
 */

static bool to_integer(struct text text, bool as_printed, int64_t *value)
{
	char copy[MAX_NUMBER], again[MAX_NUMBER], *end;

	if (!text.size || text.size >= sizeof(copy) ||
	    strspn(text.bytes, " \t\n\v\f\r") > 0)
		return false;
	memcpy(copy, text.bytes, text.size);
	copy[text.size] = '\0';
	errno = 0;
	*value = strtoll(copy, &end, 10);
	if (errno || end != copy + text.size)
		return false;
	snprintf(again, sizeof(again), "%" PRId64, *value);
	return !as_printed || strcmp(copy, again) == 0;
}

static bool to_real(struct text text, double *value)
{
	char copy[MAX_NUMBER], *end;

	if (!text.size || text.size >= sizeof(copy))
		return false;
	memcpy(copy, text.bytes, text.size);
	copy[text.size] = '\0';
	/* No names, hexadecimal digits or spaces. */
	if (strspn(copy, "0123456789+-.eE") != text.size)
		return false;
	*value = strtod(copy, &end);
	return end == copy + text.size;
}

static bool fits(
    const struct column *column, enum column_type type, struct text text)
{
	int64_t integer;
	double real;

	switch (type) {
	case COLUMN_INTEGER:
		return to_integer(text, column->is_key, &integer);
	case COLUMN_REAL:
		return to_real(text, &real);
	default:
		/* The zeros behind a text are not part of it. */
		return !memchr(text.bytes, '\0', text.size);
	}
}

/* ---- Types -----------------------------------------------------------------
 */

static const char *const type_names[] = {
	[COLUMN_INTEGER] = "integer",
	[COLUMN_REAL] = "real",
	[COLUMN_TEXT] = "text",
};

/* The first row whose value doesn't fit; n_rows: there is none. */
static uint64_t first_misfit(const struct relation *relation,
    const struct column *column, enum column_type type)
{
	const struct texts *texts = &relation->table.columns[column->number];
	uint64_t i;

	for (i = 0; i < relation->table.n_rows; i++)
		if (!fits(column, type, texts_get(texts, i)))
			break;
	return i;
}

static int misfit(const struct relation *relation, const struct column *column,
    enum column_type type, uint64_t row)
{
	const struct csv_table *table = &relation->table;
	struct text text = texts_get(&table->columns[column->number], row);

	return complain("%s:%" PRIu64 ": column '%s': '%.*s' is not %s%s%s",
	    table->file, table->lines[row], column->name,
	    (int)(text.size < MAX_NUMBER ? text.size : MAX_NUMBER), text.bytes,
	    type == COLUMN_INTEGER    ? "an integer"
		: type == COLUMN_REAL ? "a number"
				      : "a text without zero bytes",
	    type == COLUMN_INTEGER && column->is_key
		? " as one would print it (give the column the type text)"
		: "",
	    column->type == COLUMN_ANY && column->is_number
		? ", and the column is aggregated"
		: "");
}

static int choose_type(const struct relation *relation, struct column *column)
{
	enum column_type last = column->is_number ? COLUMN_REAL : COLUMN_TEXT;
	enum column_type type = column->type ? column->type : last;
	uint64_t row;

	/* Grouping by numbers whose equality is a matter of rounding? As texts.
	 */
	if (!column->type &&
	    first_misfit(relation, column, COLUMN_INTEGER) ==
		relation->table.n_rows) {
		column->type = COLUMN_INTEGER;
		return 0;
	}
	row = first_misfit(relation, column, type);
	if (row < relation->table.n_rows)
		return misfit(relation, column, type, row);
	column->type = type;
	return 0;
}

/* One "name=type" of the option. */
static int give_type(struct relation *relation, char *part)
{
	char *type = strrchr(part, '=');
	uint32_t i, t;

	if (type)
		*type++ = '\0';
	for (t = COLUMN_INTEGER; type && t <= COLUMN_TEXT; t++)
		if (strcmp(type, type_names[t]) == 0)
			break;
	if (!type || t > COLUMN_TEXT)
		return complain("--types: '%s': expected NAME=integer, "
				"NAME=real or NAME=text",
		    part);
	for (i = 0; i < relation->n_columns; i++) {
		struct column *column = &relation->columns[i];

		if (strcmp(column->name, part) != 0)
			continue;
		if ((column->is_number && t == COLUMN_TEXT) ||
		    (column->is_key && t == COLUMN_REAL))
			return complain("--types: column '%s' is %s, so it "
					"can't be %s",
			    part,
			    t == COLUMN_TEXT ? "aggregated" : "grouped by",
			    type_names[t]);
		column->type = (enum column_type)t;
		return 0;
	}
	return complain("--types: column '%s' is not in the query", part);
}

static int give_types(struct relation *relation, const char *types)
{
	char *copy = strdup(types ? types : ""), *rest = NULL, *part;
	int ret = copy ? 0 : complain("no memory");

	for (part = copy ? strtok_r(copy, ",", &rest) : NULL; part && !ret;
	     part = strtok_r(NULL, ",", &rest))
		ret = give_type(relation, part);
	free(copy);
	return ret;
}

/* ---- The relation ----------------------------------------------------------
 */

static struct column *add_column(struct relation *relation, const char *name)
{
	struct column *column;
	uint32_t i;

	for (i = 0; i < relation->n_columns; i++)
		if (strcmp(relation->columns[i].name, name) == 0)
			return &relation->columns[i];
	column = &relation->columns[relation->n_columns++];
	column->name = name;
	snprintf(column->field, sizeof(column->field), "c%" PRIu32, i);
	return column;
}

static int find_columns(const struct query *query, struct relation *relation)
{
	const char *names[MAX_COLUMNS];
	struct column *column;
	int64_t number;
	uint32_t i;

	for (i = 0; i < query->n_keys; i++)
		add_column(relation, query->keys[i])->is_key = 1;
	for (i = 0; i < query->n_items; i++)
		if (query->items[i].column[0] && query->items[i].function)
			add_column(relation, query->items[i].column)
			    ->is_number = 1;
	for (i = 0; i < relation->n_columns; i++)
		names[i] = relation->columns[i].name;
	if (csv_load(query->file, names, relation->n_columns, &relation->table))
		return -1;
	for (i = 0; i < relation->n_columns; i++) {
		column = &relation->columns[i];
		number = csv_column(&relation->table, column->name);
		if (number < 0)
			return -1;
		column->number = (uint64_t)number;
	}
	return 0;
}

static uint32_t longest(const struct relation *relation, uint64_t column)
{
	const struct texts *texts = &relation->table.columns[column];
	size_t size = 1;
	uint64_t i;

	for (i = 0; i < relation->table.n_rows; i++)
		if (texts_get(texts, i).size > size)
			size = texts_get(texts, i).size;
	return size < DFI_MAX_TUPLE_SIZE ? (uint32_t)size : DFI_MAX_TUPLE_SIZE;
}

/* Numbers first, so that they are aligned; fields stay in columns' order. */
static void make_schema(struct relation *relation)
{
	const struct column *column;
	struct dfi_field *field;
	uint32_t i, texts, size = 0;

	for (texts = 0; texts < 2; texts++)
		for (i = 0; i < relation->n_columns; i++) {
			column = &relation->columns[i];
			field = &relation->fields[i];
			if (texts != (column->type == COLUMN_TEXT))
				continue;
			field->name = column->field;
			field->offset = size;
			field->type = column->type == COLUMN_INTEGER ? DFI_INT64
			    : column->type == COLUMN_REAL ? DFI_DOUBLE
							  : DFI_BYTES;
			field->size = texts ? longest(relation, column->number)
					    : 8;
			size += field->size;
		}
	/* A query that only counts needs no column. */
	if (!relation->n_columns) {
		relation->fields[0] = (struct dfi_field){
			.name = "none", .type = DFI_UINT64, .size = 8
		};
		size = 8;
	}
	relation->schema = (struct dfi_schema){
		.fields = relation->fields,
		.n_fields = relation->n_columns ? relation->n_columns : 1,
		.tuple_size = (size + 7) / 8 * 8,
	};
}

int relation_load(
    const struct query *query, const char *types, struct relation *relation)
{
	uint32_t i;

	memset(relation, 0, sizeof(*relation));
	if (find_columns(query, relation) || give_types(relation, types))
		return -1;
	for (i = 0; i < relation->n_columns; i++)
		if (choose_type(relation, &relation->columns[i]))
			return -1;
	make_schema(relation);
	return 0;
}

void relation_unload(struct relation *relation)
{
	csv_unload(&relation->table);
}

const char *relation_field(const struct relation *relation, const char *column)
{
	uint32_t i;

	for (i = 0; i < relation->n_columns; i++)
		if (strcmp(relation->columns[i].name, column) == 0)
			return relation->columns[i].field;
	return NULL;
}

void relation_tuple(const struct relation *relation, uint64_t i, char *tuple)
{
	const struct column *column = relation->columns;
	const struct dfi_field *field = relation->fields;
	struct text text;
	int64_t integer;
	double real;
	uint32_t c;

	memset(tuple, 0, relation->schema.tuple_size);
	for (c = 0; c < relation->n_columns; c++, column++, field++) {
		text = texts_get(&relation->table.columns[column->number], i);
		switch (column->type) {
		case COLUMN_INTEGER:
			(void)to_integer(text, false, &integer);
			memcpy(tuple + field->offset, &integer, 8);
			break;
		case COLUMN_REAL:
			(void)to_real(text, &real);
			memcpy(tuple + field->offset, &real, 8);
			break;
		default:
			memcpy(tuple + field->offset, text.bytes, text.size);
			break;
		}
	}
}

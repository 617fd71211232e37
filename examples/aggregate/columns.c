/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The columns are checked one after the other: first their types, then their
 * values.
 */
#include "columns.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/complain.h"
#include "exact_sum.h"
#include "number.h"
#include "types.h"

#define NO_ROW UINT64_MAX
#define SHOWN 60 /* bytes of a value in a message */

struct loading {
	const struct query *query;
	struct csv_table table;
	enum given_type given[MAX_COLUMNS];
	const struct texts *texts[MAX_COLUMNS]; /* in the file */
	struct rows_header header;
	struct rows *rows;
};

/* ---- Complaints ------------------------------------------------------------
 */

static uintmax_t line_of(const struct loading *loading, uint64_t row)
{
	return loading->table.lines[row];
}

static int misfit(const struct loading *loading, uint32_t column, uint64_t row,
    const char *what)
{
	struct text text = texts_get(loading->texts[column], row);

	return complain("%s:%ju: column '%s': '%.*s%s' %s", loading->table.file,
	    line_of(loading, row), loading->query->columns[column].name,
	    text.size < SHOWN ? (int)text.size : SHOWN, text.bytes,
	    text.size > SHOWN ? "..." : "", what);
}

static int no_number(
    const struct loading *loading, uint32_t column, uint64_t row)
{
	struct text text = texts_get(loading->texts[column], row);

	if (!text.size)
		return misfit(loading, column, row,
		    "is not a number, as an empty text in quotes: leave the "
		    "quotes out for no value");
	if (!loading->query->columns[column].uses)
		return misfit(loading, column, row, "is not a number");
	return misfit(loading, column, row,
	    "is not a number, and the column is aggregated");
}

static int no_real(const struct loading *loading, uint32_t column, uint64_t row,
    enum real_fit fit)
{
	switch (fit) {
	case REAL_TOO_LARGE:
		return misfit(loading, column, row,
		    "is larger than a real can be, which is 1.8e308");
	case REAL_TOO_SMALL:
		return misfit(loading, column, row,
		    "is nearer to 0 than a real can be, which is 4.9e-324");
	default:
		return complain("no memory");
	}
}

/* ---- Types that values have ------------------------------------------------
 */

/* The first rows with a value of each kind; NO_ROW: there is none. */
struct survey {
	uint64_t negative, large, too_long, real;
};

static int survey_values(
    const struct loading *loading, uint32_t column, struct survey *survey)
{
	struct text text;
	uint64_t i, word;

	*survey = (struct survey){ NO_ROW, NO_ROW, NO_ROW, NO_ROW };
	for (i = 0; i < loading->table.n_rows; i++) {
		text = texts_get(loading->texts[column], i);
		if (text.is_null)
			continue;
		switch (number_kind(text, &word)) {
		case NUMBER_SIGNED:
			if ((int64_t)word < 0)
				survey->negative = i;
			break;
		case NUMBER_UNSIGNED:
			survey->large = i;
			break;
		case NUMBER_LONG:
			survey->too_long = i;
			break;
		case NUMBER_REAL:
			survey->real = i;
			break;
		default:
			return no_number(loading, column, i);
		}
	}
	return 0;
}

static int choose_integer(
    struct loading *loading, uint32_t column, const struct survey *survey)
{
	struct rows_column *to = &loading->header.columns[column];
	const char *name = loading->query->columns[column].name;
	char what[MAX_NAME + 200];

	if (survey->real != NO_ROW)
		return misfit(loading, column, survey->real,
		    "is not an integer, which --types says it is");
	if (survey->too_long != NO_ROW) {
		snprintf(what, sizeof(what),
		    "is an integer that 64 bits do not hold; --types %s=real "
		    "takes it rounded",
		    name);
		return misfit(loading, column, survey->too_long, what);
	}
	if (survey->large != NO_ROW && survey->negative != NO_ROW) {
		snprintf(what, sizeof(what),
		    "is above 9223372036854775807, and line %ju has a negative "
		    "integer: 64 bits do not hold both; --types %s=real takes "
		    "them rounded",
		    line_of(loading, survey->negative), name);
		return misfit(loading, column, survey->large, what);
	}
	to->type = survey->large != NO_ROW ? VALUE_UNSIGNED : VALUE_SIGNED;
	to->n_limbs = 2;
	return 0;
}

/* For a column that is aggregated. */
static int choose_type(
    struct loading *loading, uint32_t column, uint64_t *real_row)
{
	struct rows_column *to = &loading->header.columns[column];
	uint32_t uses = loading->query->columns[column].uses;
	enum given_type given = loading->given[column];
	struct survey survey;
	uint64_t i;

	for (i = 0; i < loading->table.n_rows && !to->has_nulls; i++)
		to->has_nulls = texts_get(loading->texts[column], i).is_null;
	if (uses == USE_NULLS && !given)
		return 0;
	if (survey_values(loading, column, &survey))
		return -1;
	*real_row = survey.real;
	if (given == GIVEN_INTEGER ||
	    (given != GIVEN_REAL && survey.real == NO_ROW))
		return choose_integer(loading, column, &survey);
	to->type = VALUE_REAL;
	return 0;
}

/* ---- Values ----------------------------------------------------------------
 */

/* The text by which a value is grouped: the same for equal numbers. */
static int key_text(const struct loading *loading, uint32_t column,
    uint64_t row, char room[REAL_SIZE], struct text *text)
{
	enum given_type given = loading->given[column];
	enum number_kind kind;
	enum real_fit fit;
	uint64_t word = 0;
	double real;

	if (given != GIVEN_INTEGER && given != GIVEN_REAL)
		return 0;
	kind = number_kind(*text, &word);
	if (kind == NUMBER_NONE)
		return no_number(loading, column, row);
	if (given == GIVEN_REAL) {
		fit = number_real(*text, &real);
		if (fit > REAL_COARSE)
			return no_real(loading, column, row, fit);
		real_text(real == 0 ? 0 : real, room);
	} else if (kind == NUMBER_SIGNED) {
		snprintf(room, REAL_SIZE, "%" PRId64, (int64_t)word);
	} else if (kind == NUMBER_UNSIGNED) {
		snprintf(room, REAL_SIZE, "%" PRIu64, word);
	} else {
		return misfit(loading, column, row,
		    "is not an integer of 64 bits, which --types says it is");
	}
	*text = (struct text){ room, strlen(room), false };
	return 0;
}

static int fill_key(const struct loading *loading, uint32_t column,
    struct dictionary *dictionary)
{
	uint64_t *words = rows_words(loading->rows, column), i;
	char room[REAL_SIZE];
	struct text text;

	for (i = 0; i < loading->table.n_rows; i++) {
		text = texts_get(loading->texts[column], i);
		if (text.is_null)
			continue;
		if (key_text(loading, column, i, room, &text))
			return -1;
		words[i] = dictionary_add(dictionary, text);
		if (!words[i])
			return -1;
	}
	return 0;
}

/* A real is rounded, except one that is written as a whole number. */
static int coarse(const struct loading *loading, uint32_t column, uint64_t row,
    uint64_t real_row)
{
	char what[MAX_NAME + 200], because[80] = "";

	if (real_row != NO_ROW && real_row != row)
		snprintf(because, sizeof(because),
		    ", and line %ju makes the column real",
		    line_of(loading, real_row));
	snprintf(what, sizeof(what),
	    "has more digits than a real holds%s; --types %s=real takes it "
	    "rounded",
	    because, loading->query->columns[column].name);
	return misfit(loading, column, row, what);
}

static int fill_real(const struct loading *loading, uint32_t column, uint64_t i,
    uint64_t real_row, struct real_range *range)
{
	struct text text = texts_get(loading->texts[column], i);
	enum real_fit fit;
	double real;

	fit = number_real(text, &real);
	if (fit == REAL_COARSE && loading->given[column] != GIVEN_REAL)
		return coarse(loading, column, i, real_row);
	if (fit > REAL_COARSE)
		return no_real(loading, column, i, fit);
	memcpy(&rows_words(loading->rows, column)[i], &real, sizeof(real));
	real_range_add(range, real);
	return 0;
}

static int fill_numbers(
    const struct loading *loading, uint32_t column, uint64_t real_row)
{
	struct rows_column *to = &loading->rows->header->columns[column];
	uint64_t *words = rows_words(loading->rows, column), i;
	struct real_range range = REAL_RANGE_NONE;
	struct text text;

	for (i = 0; i < loading->table.n_rows; i++) {
		text = texts_get(loading->texts[column], i);
		if (text.is_null)
			rows_nulls(loading->rows, column)[i] = 1;
		else if (to->type == VALUE_REAL) {
			if (fill_real(loading, column, i, real_row, &range))
				return -1;
		} else if (to->type != VALUE_NONE) {
			(void)number_kind(text, &words[i]);
		}
	}
	if (to->type == VALUE_REAL) {
		to->scale = real_range_scale(&range);
		to->n_limbs = real_range_limbs(&range);
	}
	return 0;
}

/* ---- All of it -------------------------------------------------------------
 */

static int read_file(struct loading *loading)
{
	const struct query *query = loading->query;
	const char *names[MAX_COLUMNS];
	int64_t number;
	uint32_t i;

	for (i = 0; i < query->n_columns; i++)
		names[i] = query->columns[i].name;
	if (csv_load(query->file, names, query->n_columns, &loading->table))
		return -1;
	if (loading->table.n_rows > MAX_SUMMED)
		return complain("%s: more than %ju rows", query->file,
		    (uintmax_t)MAX_SUMMED);
	for (i = 0; i < query->n_columns; i++) {
		number = csv_column(&loading->table, names[i]);
		if (number < 0)
			return -1;
		loading->texts[i] = &loading->table.columns[number];
	}
	return 0;
}

static int make_rows(
    struct loading *loading, struct dictionary dictionaries[MAX_KEYS])
{
	const struct query *query = loading->query;
	struct rows_header *header = &loading->header;
	uint64_t real_rows[MAX_COLUMNS];
	uint32_t i;
	int ret = 0;

	header->n_rows = loading->table.n_rows;
	header->n_columns = query->n_columns;
	for (i = 0; i < query->n_columns; i++) {
		real_rows[i] = NO_ROW;
		if (i < query->n_keys)
			header->columns[i].type = VALUE_KEY;
		else if (choose_type(loading, i, &real_rows[i]))
			return -1;
	}
	if (rows_create(loading->rows, header))
		return -1;
	for (i = 0; i < query->n_columns && !ret; i++)
		ret = i < query->n_keys
		    ? fill_key(loading, i, &dictionaries[i])
		    : fill_numbers(loading, i, real_rows[i]);
	return ret ? ret : rows_seal(loading->rows);
}

int columns_load(const struct query *query, const char *types,
    struct rows *rows, struct dictionary dictionaries[MAX_KEYS])
{
	struct loading loading = { .query = query, .rows = rows };
	int ret;

	*rows = (struct rows){ .fd = -1 };
	ret = types_parse(query, types, loading.given);
	if (!ret)
		ret = read_file(&loading);
	if (!ret)
		ret = make_rows(&loading, dictionaries);
	csv_unload(&loading.table);
	return ret;
}

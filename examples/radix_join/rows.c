/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes joined rows. Only the first process does; rows reach it as pairs of
 * entries, through their own flow.
 */
#include "rows.h"
#include "platform.h"

#include <csv.h>
#include <stdlib.h>
#include <string.h>

int rows_open(struct rows *rows, const struct options *options)
{
	memset(rows, 0, sizeof(*rows));
	return result_file_open(&rows->file, "--output", options->output,
	    options->csv, N_RELATIONS);
}

static int choose_columns(struct rows *rows)
{
	const struct tables *tables = rows->tables;
	const struct options *options = tables->options;
	size_t all = tables->csv[INNER].header.n + tables->csv[OUTER].header.n;
	uint32_t n = 0, i;
	int64_t column;
	int r;

	rows->columns = calloc(
	    all + options->n_columns, sizeof(*rows->columns));
	if (!rows->columns)
		return complain("%s: no memory", options->output);
	for (i = 0; i < options->n_columns; i++) {
		column = csv_column(&tables->csv[options->columns[i].relation],
		    options->columns[i].name);
		if (column < 0)
			return -1;
		rows->columns[n++] = (struct rows_column){
			options->columns[i].relation, (uint32_t)column
		};
	}
	for (r = 0; options->n_columns == 0 && r < N_RELATIONS; r++)
		for (i = 0; i < tables->csv[r].header.n; i++)
			rows->columns[n++] =
			    (struct rows_column){ (enum relation)r, i };
	rows->n_columns = n;
	return 0;
}

/* A null prints as nothing, an empty text as quotes. */
static void write_field(struct rows *rows, uint32_t i, struct text text)
{
	if (i > 0)
		putc(',', rows->file.stream);
	if (!text.is_null)
		csv_fwrite(rows->file.stream, text.bytes, text.size);
}

int rows_begin(struct rows *rows, const struct tables *tables)
{
	static const char *const sides[] = { "inner.", "outer." };
	struct rows_column *column;
	struct text text;
	char *name;
	uint32_t i;

	rows->tables = tables;
	if (choose_columns(rows))
		return -1;
	for (i = 0; i < rows->n_columns; i++) {
		column = &rows->columns[i];
		text = texts_get(
		    &tables->csv[column->relation].header, column->column);
		name = malloc(6 + text.size);
		if (!name)
			return complain(
			    "%s: no memory", tables->options->output);
		memcpy(name, sides[column->relation], 6);
		memcpy(name + 6, text.bytes, text.size);
		write_field(
		    rows, i, (struct text){ name, 6 + text.size, false });
		free(name);
	}
	putc('\n', rows->file.stream);
	return result_file_check(&rows->file);
}

static struct text field_of(
    const struct rows *rows, const struct match *row, uint32_t i)
{
	const struct rows_column *column = &rows->columns[i];
	const struct tables *tables = rows->tables;
	uint64_t entry = row->entries[column->relation];

	return texts_get(&tables->csv[column->relation].columns[column->column],
	    tables->entries[column->relation].rows[entry]);
}

static void write_row(struct rows *rows, const struct match *row)
{
	uint32_t i;

	for (i = 0; i < rows->n_columns; i++)
		write_field(rows, i, field_of(rows, row, i));
	putc('\n', rows->file.stream);
}

int rows_write(struct rows *rows, uint64_t inner_entry, uint64_t outer_entry)
{
	const struct match row = { { inner_entry, outer_entry } };

	if (rows->n_columns == 1 && !rows->has_last &&
	    !field_of(rows, &row, 0).is_null) {
		rows->has_last = true;
		rows->last = row;
		return 0;
	}
	write_row(rows, &row);
	return result_file_check(&rows->file);
}

int rows_close(struct rows *rows, bool complete)
{
	if (complete && rows->has_last)
		write_row(rows, &rows->last);
	free(rows->columns);
	return result_file_close(&rows->file, complete);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing joined rows. Only the first process does; rows come to it as pairs of
 * entries, through a flow of their own.
 */
#include "rows.h"
#include "platform.h"

#include <csv.h>
#include <stdlib.h>
#include <string.h>

int rows_open(struct rows *rows, const struct options *options)
{
	memset(rows, 0, sizeof(*rows));
	return result_file_open(
	    &rows->file, options->output, options->csv, N_RELATIONS);
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

/*
 * A null is nothing, an empty text is in quotes. A line with nothing but a null
 * would be no row for readers of CSV, so there it is in quotes as well.
 */
static void write_field(struct rows *rows, uint32_t i, struct text text)
{
	if (i > 0)
		putc(',', rows->file.stream);
	if (!text.is_null || rows->n_columns == 1)
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

int rows_write(struct rows *rows, uint64_t inner_entry, uint64_t outer_entry)
{
	const struct tables *tables = rows->tables;
	const uint64_t numbers[] = {
		tables->entries[INNER].rows[inner_entry],
		tables->entries[OUTER].rows[outer_entry],
	};
	struct rows_column *column;
	struct text text;
	uint32_t i;

	for (i = 0; i < rows->n_columns; i++) {
		column = &rows->columns[i];
		text = texts_get(
		    &tables->csv[column->relation].columns[column->column],
		    numbers[column->relation]);
		write_field(rows, i, text);
	}
	putc('\n', rows->file.stream);
	return result_file_check(&rows->file);
}

int rows_close(struct rows *rows, bool complete)
{
	free(rows->columns);
	return result_file_close(&rows->file, complete);
}

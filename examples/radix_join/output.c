/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing joined rows. Only the first process does; rows come to it as pairs of
 * entries, through a flow of their own.
 */
#include "output.h"
#include "platform.h"

#include <csv.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

static int choose_columns(struct output *output)
{
	const struct tables *tables = output->tables;
	const struct options *options = tables->options;
	size_t all = tables->csv[INNER].header.n + tables->csv[OUTER].header.n;
	uint32_t n = 0, i;
	int r;

	output->columns = calloc(
	    all + options->n_columns, sizeof(*output->columns));
	if (!output->columns)
		return complain("%s: no memory", output->file);
	for (i = 0; i < options->n_columns; i++)
		output->columns[n++] = (struct output_column){
			options->columns[i].relation,
			(uint32_t)csv_column(
			    &tables->csv[options->columns[i].relation],
			    options->columns[i].name),
		};
	for (r = 0; options->n_columns == 0 && r < N_RELATIONS; r++)
		for (i = 0; i < tables->csv[r].header.n; i++)
			output->columns[n++] =
			    (struct output_column){ (enum relation)r, i };
	output->n_columns = n;
	return 0;
}

static void write_field(
    struct output *output, uint32_t i, const char *bytes, size_t size)
{
	if (i > 0)
		putc(',', output->stream);
	csv_fwrite(output->stream, bytes, size);
}

static int write_header(struct output *output)
{
	static const char *const sides[] = { "inner.", "outer." };
	struct output_column *column;
	struct text text;
	char *name;
	uint32_t i;

	for (i = 0; i < output->n_columns; i++) {
		column = &output->columns[i];
		text = texts_get(&output->tables->csv[column->relation].header,
		    column->column);
		name = malloc(6 + text.size);
		if (!name)
			return complain("%s: no memory", output->file);
		memcpy(name, sides[column->relation], 6);
		memcpy(name + 6, text.bytes, text.size);
		write_field(output, i, name, 6 + text.size);
		free(name);
	}
	putc('\n', output->stream);
	return 0;
}

int output_open(struct output *output, const struct tables *tables)
{
	memset(output, 0, sizeof(*output));
	output->tables = tables;
	output->file = tables->options->output;
	output->stream = fopen(output->file, "we");
	if (!output->stream)
		return complain("%s: %s", output->file, strerror(errno));
	if (choose_columns(output) || write_header(output)) {
		output_close(output, false);
		return -1;
	}
	return 0;
}

int output_row(
    struct output *output, uint64_t inner_entry, uint64_t outer_entry)
{
	const struct tables *tables = output->tables;
	const uint64_t rows[] = {
		tables->entries[INNER].rows[inner_entry],
		tables->entries[OUTER].rows[outer_entry],
	};
	struct output_column *column;
	struct text text;
	uint32_t i;

	for (i = 0; i < output->n_columns; i++) {
		column = &output->columns[i];
		text = texts_get(
		    &tables->csv[column->relation].columns[column->column],
		    rows[column->relation]);
		write_field(output, i, text.bytes, text.size);
	}
	if (putc('\n', output->stream) == EOF)
		return complain("%s: %s", output->file, strerror(errno));
	return 0;
}

int output_close(struct output *output, bool complete)
{
	struct stat status;
	bool is_file;
	int ret = 0;

	if (!output->stream)
		return 0;
	is_file = fstat(fileno(output->stream), &status) == 0 &&
	    S_ISREG(status.st_mode);
	if (fflush(output->stream) || ferror(output->stream)) {
		ret = complain("%s: %s", output->file, strerror(errno));
		complete = false;
	}
	if (fclose(output->stream) && complete) {
		ret = complain("%s: %s", output->file, strerror(errno));
		complete = false;
	}
	if (!complete && is_file)
		unlink(output->file);
	free(output->columns);
	memset(output, 0, sizeof(*output));
	return ret;
}

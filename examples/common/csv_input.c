/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading CSV files with libcsv, which is fed line by line so that each error
 * can name its line. Only the columns that are asked for are kept.
 */
#include "csv_input.h"
#include "../../common/complain.h"

#include <csv.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_SIZE 65536

/* A file that is being loaded. */
struct loading {
	struct csv_table *table;
	struct csv_parser parser;
	const char *const *names;
	uint32_t n_names;
	bool *wanted; /* by column, once the header is read */
	uint64_t line, row_line;
	uint64_t n_fields; /* of the row so far */
	bool in_row, has_header;
	bool failed; /* and has complained */
};

/* Make an array large enough for n members, at least doubling it. */
static void *grow(void *array, size_t *capacity, size_t n, size_t size)
{
	size_t wanted = *capacity * 2 > n ? *capacity * 2 : n;
	void *grown;

	if (n <= *capacity)
		return array;
	grown = reallocarray(array, wanted, size);
	if (grown)
		*capacity = wanted;
	return grown;
}

static int texts_add(struct texts *texts, const char *bytes, size_t size)
{
	size_t start = texts->n > 0 ? (size_t)texts->ends[texts->n - 1] : 0;
	uint64_t *ends;
	char *grown;

	grown = grow(texts->bytes, &texts->bytes_capacity, start + size + 1, 1);
	if (grown)
		texts->bytes = grown;
	ends = grow(
	    texts->ends, &texts->ends_capacity, texts->n + 1, sizeof(*ends));
	if (ends)
		texts->ends = ends;
	if (!grown || !ends)
		return complain("no memory for a table");
	memcpy(texts->bytes + start, bytes, size);
	texts->ends[texts->n++] = start + size;
	return 0;
}

static void texts_free(struct texts *texts)
{
	free(texts->bytes);
	free(texts->ends);
}

/* Called by libcsv for each field. bytes is NULL only if size is 0. */
static void on_field(void *bytes, size_t size, void *arg)
{
	struct loading *loading = arg;
	struct csv_table *table = loading->table;
	uint64_t column = loading->n_fields++;
	struct texts *texts = &table->header;

	if (loading->failed)
		return;
	if (loading->has_header) {
		/* Too many fields are counted, and refused at the row's end. */
		if (column >= table->header.n || !loading->wanted[column])
			return;
		texts = &table->columns[column];
	}
	if (texts_add(texts, bytes ? bytes : "", size))
		loading->failed = true;
}

int64_t csv_column(const struct csv_table *table, const char *name)
{
	size_t size = strlen(name);
	int64_t found = -1;
	struct text text;
	uint64_t i;

	for (i = 0; i < table->header.n; i++) {
		text = texts_get(&table->header, i);
		if (text.size != size || memcmp(text.bytes, name, size) != 0)
			continue;
		if (found >= 0)
			return complain("%s: two columns are named '%s'",
			    table->file, name);
		found = (int64_t)i;
	}
	if (found < 0)
		complain("%s: no column is named '%s'", table->file, name);
	return found;
}

/* Skip the mark with which some programs start a UTF-8 file. */
static void strip_mark(struct texts *header)
{
	static const char mark[] = "\xef\xbb\xbf";
	uint64_t i;

	if (header->n == 0 || header->ends[0] < 3 ||
	    memcmp(header->bytes, mark, 3) != 0)
		return;
	memmove(header->bytes, header->bytes + 3,
	    (size_t)header->ends[header->n - 1] - 3);
	for (i = 0; i < header->n; i++)
		header->ends[i] -= 3;
}

/* The header is complete: find the columns that are to be loaded. */
static int choose_columns(struct loading *loading)
{
	struct csv_table *table = loading->table;
	int64_t column;
	uint64_t i;

	strip_mark(&table->header);
	table->columns = calloc(table->header.n, sizeof(*table->columns));
	loading->wanted = calloc(table->header.n, sizeof(*loading->wanted));
	if (!table->columns || !loading->wanted)
		return complain("%s: no memory", table->file);
	for (i = 0; loading->n_names == 0 && i < table->header.n; i++)
		loading->wanted[i] = true;
	for (i = 0; i < loading->n_names; i++) {
		column = csv_column(table, loading->names[i]);
		if (column < 0)
			return -1;
		loading->wanted[column] = true;
	}
	return 0;
}

static int end_row(struct loading *loading)
{
	struct csv_table *table = loading->table;
	uint64_t *lines;

	if (!loading->has_header) {
		loading->has_header = true;
		return choose_columns(loading);
	}
	if (loading->n_fields != table->header.n)
		return complain(
		    "%s:%ju: the row has %ju fields, but the header %ju: add "
		    "or remove commas, or quote them",
		    table->file, (uintmax_t)loading->row_line,
		    (uintmax_t)loading->n_fields, (uintmax_t)table->header.n);
	lines = grow(table->lines, &table->lines_capacity, table->n_rows + 1,
	    sizeof(*lines));
	if (!lines)
		return complain("%s: no memory", table->file);
	table->lines = lines;
	lines[table->n_rows++] = loading->row_line;
	return 0;
}

/* Called by libcsv at the end of each row that is not empty. */
static void on_row(int terminator, void *arg)
{
	struct loading *loading = arg;

	(void)terminator;
	if (!loading->failed && end_row(loading))
		loading->failed = true;
	loading->n_fields = 0;
	loading->in_row = false;
}

/* No byte is a space: libcsv would strip spaces. */
static int is_space(unsigned char byte)
{
	(void)byte;
	return 0;
}

/* Feed one line, or the part of it that was read. */
static int feed(struct loading *loading, const char *bytes, size_t size)
{
	struct csv_parser *parser = &loading->parser;

	if (!loading->in_row && bytes[0] != '\n' && bytes[0] != '\r') {
		loading->in_row = true;
		loading->row_line = loading->line;
	}
	if (csv_parse(parser, bytes, size, on_field, on_row, loading) != size)
		return complain("%s:%ju: %s", loading->table->file,
		    (uintmax_t)loading->line,
		    csv_error(parser) == CSV_EPARSE
			? "a quote at the wrong place"
			: csv_strerror(csv_error(parser)));
	return loading->failed ? -1 : 0;
}

static int feed_all(struct loading *loading, FILE *file)
{
	char *buffer = malloc(READ_SIZE);
	const char *line, *newline;
	size_t size, rest;
	int ret = buffer ? 0 : complain("no memory");

	loading->line = 1;
	while (ret == 0 && (size = fread(buffer, 1, READ_SIZE, file)) > 0) {
		for (line = buffer, rest = size; ret == 0 && rest > 0;) {
			newline = memchr(line, '\n', rest);
			size = newline ? (size_t)(newline - line) + 1 : rest;
			ret = feed(loading, line, size);
			if (newline)
				loading->line++;
			line += size;
			rest -= size;
		}
	}
	if (ret == 0 && ferror(file))
		ret = complain("%s: %s", loading->table->file, strerror(errno));
	free(buffer);
	return ret;
}

static int finish(struct loading *loading)
{
	const char *file = loading->table->file;

	if (csv_fini(&loading->parser, on_field, on_row, loading))
		return complain("%s:%ju: a quoted field has no end", file,
		    (uintmax_t)loading->row_line);
	if (loading->failed)
		return -1;
	if (!loading->has_header)
		return complain("%s:1: there is no header", file);
	return 0;
}

int csv_load(const char *file, const char *const *names, uint32_t n,
    struct csv_table *table)
{
	struct loading loading = {
		.table = table,
		.names = names,
		.n_names = n,
	};
	FILE *stream;
	int ret;

	memset(table, 0, sizeof(*table));
	table->file = file;
	stream = fopen(file, "re");
	if (!stream)
		return complain("%s: %s", file, strerror(errno));
	if (csv_init(&loading.parser, CSV_STRICT | CSV_STRICT_FINI)) {
		fclose(stream);
		return complain("%s: no memory", file);
	}
	csv_set_space_func(&loading.parser, is_space);
	ret = feed_all(&loading, stream);
	if (ret == 0)
		ret = finish(&loading);
	csv_free(&loading.parser);
	free(loading.wanted);
	fclose(stream);
	return ret;
}

void csv_unload(struct csv_table *table)
{
	uint64_t i;

	for (i = 0; table->columns && i < table->header.n; i++)
		texts_free(&table->columns[i]);
	free(table->columns);
	texts_free(&table->header);
	free(table->lines);
	memset(table, 0, sizeof(*table));
}

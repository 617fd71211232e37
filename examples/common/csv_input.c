/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads CSV files with libcsv. It feeds libcsv line by line, so that each error
 * can name its line. It keeps only the requested columns.
 */
#include "csv_input.h"
#include "csv_file.h"
#include "csv_table.h"
#include "../../common/complain.h"
#include "../../common/memory.h"

#include <csv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_SIZE 65536

/* Some programs write this at the start of a file in UTF-8. */
#define MARK "\xef\xbb\xbf"
#define MARK_SIZE 3

/* A file that is being loaded. */
struct loading {
	struct csv_table *table;
	struct csv_file file;
	struct csv_parser parser;
	const char *const *names;
	uint32_t n_names;
	bool *wanted;        /* by column, once the header is read */
	uint64_t line;       /* that is being fed */
	uint64_t row_line;   /* where the row began */
	uint64_t field_line; /* where the field began */
	uint64_t n_fields;   /* of the row so far */
	uint64_t text_line;  /* the last one with more than its end */
	uint64_t empty_line; /* the last one, if it may be a row; else 0 */
	bool in_row, has_header;
	uint64_t checked;  /* bytes of the table: memory.h */
	bool has_text;     /* a field behind the header is not null */
	bool in_quotes;    /* at the start of what is fed next */
	bool after_return; /* a carriage return was fed last */
	bool failed;       /* and has complained */
};

/* Called by libcsv for each field. bytes is NULL if it is empty, unquoted. */
static void on_field(void *bytes, size_t size, void *arg)
{
	struct loading *loading = arg;
	struct csv_table *table = loading->table;
	uint64_t column = loading->n_fields++;
	struct texts *texts = &table->header;

	loading->field_line = loading->line;
	if (loading->failed)
		return;
	if (loading->has_header) {
		if (bytes)
			loading->has_text = true;
		/*
		 * Count surplus fields, and refuse them at the end of the row.
		 */
		if (column >= table->header.n || !loading->wanted[column])
			return;
		texts = &table->columns[column];
	}
	if (texts_add(texts, bytes, size))
		loading->failed = true;
}

/* The header is complete: find the columns that are to be loaded. */
static int choose_columns(struct loading *loading)
{
	struct csv_table *table = loading->table;
	int64_t column;
	uint64_t i;

	table->columns = calloc(table->header.n, sizeof(*table->columns));
	loading->wanted = calloc(table->header.n, sizeof(*loading->wanted));
	if (!table->columns || !loading->wanted)
		return complain("%s: no memory", table->file);
	for (i = 0; !loading->names && i < table->header.n; i++)
		loading->wanted[i] = true;
	for (i = 0; i < loading->n_names; i++) {
		column = csv_column(table, loading->names[i]);
		if (column < 0)
			return -1;
		loading->wanted[column] = true;
	}
	return 0;
}

static int wrong_number(const struct loading *loading)
{
	const struct csv_table *table = loading->table;
	const char *file = table->file;
	uintmax_t n = loading->n_fields, line = loading->row_line;

	if (loading->line > line)
		return complain(
		    "%s:%ju: the row has %ju field%s, but the header %ju: it "
		    "goes on to line %ju: a closing quote may be missing",
		    file, line, n, n == 1 ? "" : "s",
		    (uintmax_t)table->header.n, (uintmax_t)loading->line);
	return complain(
	    "%s:%ju: the row has %ju field%s, but the header %ju: add or "
	    "remove commas, or quote fields that have some",
	    file, line, n, n == 1 ? "" : "s", (uintmax_t)table->header.n);
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
		return wrong_number(loading);
	lines = csv_grow(table->lines, &table->lines_capacity,
	    table->n_rows + 1, sizeof(*lines));
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

/* ---- Lines -----------------------------------------------------------------
 */

static int lone_return(const struct loading *loading)
{
	return complain(
	    "%s:%ju: a carriage return without a line feed behind it: lines "
	    "must end in LF or CRLF. If all end in CR: tr '\\r' '\\n' < FILE",
	    loading->table->file, (uintmax_t)loading->line);
}

/*
 * Refuse input that libcsv accepts: zero bytes, and single carriage returns as
 * line ends outside quotes. Counting quotes is enough, as those in a field are
 * doubled.
 */
static int check_bytes(struct loading *loading, const char *bytes, size_t size)
{
	size_t i;

	if (memchr(bytes, '\0', size))
		return complain("%s:%ju: a zero byte, which no text has: is "
				"this a CSV file in UTF-8?",
		    loading->table->file, (uintmax_t)loading->line);
	if (!loading->after_return && !memchr(bytes, '"', size) &&
	    !memchr(bytes, '\r', size))
		return 0;
	for (i = 0; i < size; i++) {
		if (loading->after_return && bytes[i] != '\n')
			return lone_return(loading);
		if (bytes[i] == '"')
			loading->in_quotes = !loading->in_quotes;
		loading->after_return = bytes[i] == '\r' && !loading->in_quotes;
	}
	return 0;
}

static int quote_error(const struct loading *loading)
{
	const struct csv_table *table = loading->table;
	struct text name = { "", 0, false };

	if (loading->n_fields < table->header.n)
		name = texts_get(&table->header, loading->n_fields);
	if (loading->field_line < loading->line)
		return complain(
		    "%s:%ju: a quote at the wrong place, in the field '%.*s' "
		    "that began in line %ju: its closing quote is missing "
		    "there, or is not doubled here",
		    table->file, (uintmax_t)loading->line, (int)name.size,
		    name.bytes, (uintmax_t)loading->field_line);
	return complain(
	    "%s:%ju: a quote at the wrong place%s%.*s%s: a field with quotes "
	    "stands in quotes, and those in it are doubled",
	    table->file, (uintmax_t)loading->line,
	    name.size ? ", in column '" : "", (int)name.size, name.bytes,
	    name.size ? "'" : "");
}

/*
 * In a table of one column an empty line is a row with a null. libcsv skips it.
 * If another line follows, it is such a row for certain.
 */
static int take_empty_line(struct loading *loading)
{
	if (!loading->empty_line)
		return 0;
	loading->row_line = loading->empty_line;
	loading->empty_line = 0;
	on_field(NULL, 0, loading);
	on_row('\n', loading);
	return loading->failed ? -1 : 0;
}

/* Find the starts of rows and lines in the next bytes. */
static int begin_line(struct loading *loading, const char *bytes, size_t size)
{
	if (take_empty_line(loading))
		return -1;
	if (!loading->in_row && bytes[0] != '\n' && bytes[0] != '\r') {
		loading->in_row = true;
		loading->row_line = loading->line;
		loading->field_line = loading->line;
	}
	if (loading->in_row)
		loading->text_line = loading->line;
	else if (bytes[size - 1] == '\n' && loading->has_header &&
	    loading->table->header.n == 1 && loading->text_line < loading->line)
		loading->empty_line = loading->line;
	return 0;
}

/* Feed one line, or the part of it that was read. */
static int feed(struct loading *loading, const char *bytes, size_t size)
{
	struct csv_parser *parser = &loading->parser;

	if (check_bytes(loading, bytes, size) ||
	    begin_line(loading, bytes, size))
		return -1;
	if (csv_parse(parser, bytes, size, on_field, on_row, loading) == size)
		return loading->failed ? -1 : 0;
	if (loading->failed)
		return -1;
	if (csv_error(parser) == CSV_EPARSE)
		return quote_error(loading);
	return complain("%s:%ju: %s", loading->table->file,
	    (uintmax_t)loading->line, csv_strerror(csv_error(parser)));
}

static int feed_lines(struct loading *loading, const char *bytes, size_t left)
{
	const char *newline;
	size_t size;

	for (; left > 0; left -= size, bytes += size) {
		newline = memchr(bytes, '\n', left);
		size = newline ? (size_t)(newline - bytes) + 1 : left;
		if (feed(loading, bytes, size))
			return -1;
		if (newline)
			loading->line++;
	}
	return 0;
}

/* The memory that the table has filled. */
static uint64_t table_bytes(const struct csv_table *table)
{
	uint64_t bytes = table->n_rows * sizeof(*table->lines), i;
	const struct texts *texts;

	for (i = 0; table->columns && i < table->header.n; i++) {
		texts = &table->columns[i];
		if (texts->n)
			bytes += texts->n * sizeof(*texts->ends) +
			    texts->ends[texts->n - 1] + texts->nulls_capacity;
	}
	return bytes;
}

static int check_memory(struct loading *loading)
{
	char what[256];

	snprintf(what, sizeof(what), "%.200s: its next rows need",
	    loading->table->file);
	return memory_check_growth(&loading->checked,
	    table_bytes(loading->table), what,
	    "have fewer rows, or name fewer columns");
}

static int feed_all(struct loading *loading)
{
	char *buffer = malloc(READ_SIZE);
	size_t mark;
	ssize_t size;
	int ret = buffer ? 0 : complain("no memory");

	loading->line = 1;
	while (ret == 0) {
		mark = loading->file.n_read ? 0 : MARK_SIZE;
		size = csv_file_read(&loading->file, buffer, READ_SIZE);
		if (size <= 0) {
			ret = size < 0 ? -1 : 0;
			break;
		}
		if ((size_t)size < mark || memcmp(buffer, MARK, mark) != 0)
			mark = 0;
		ret = feed_lines(loading, buffer + mark, (size_t)size - mark);
		if (ret == 0)
			ret = check_memory(loading);
	}
	free(buffer);
	return ret;
}

/* ---- The end ---------------------------------------------------------------
 */

/* Drop the fields of an incomplete last row. */
static void drop_row(struct loading *loading)
{
	struct csv_table *table = loading->table;
	uint64_t i;

	for (i = 0; loading->has_header && i < table->header.n; i++)
		if (loading->wanted[i])
			table->columns[i].n = table->n_rows;
}

static int finish(struct loading *loading)
{
	const char *file = loading->table->file;
	bool grown;

	if (csv_file_check(&loading->file, &grown))
		return -1;
	/* Many files end in an empty line that is no row. */
	if (!loading->has_text && take_empty_line(loading))
		return -1;
	if (grown)
		drop_row(loading);
	else if (loading->after_return)
		return lone_return(loading);
	else if (csv_fini(&loading->parser, on_field, on_row, loading))
		return complain("%s:%ju: a quoted field has no end: the quote "
				"that closes it is missing",
		    file, (uintmax_t)loading->field_line);
	if (loading->failed)
		return -1;
	if (!loading->has_header)
		return complain("%s:1: there is no header%s: the first line "
				"has to name the columns",
		    file, loading->file.n_read ? "" : ", as the file is empty");
	return 0;
}

int csv_load(const char *file, const char *const *names, uint32_t n,
    struct csv_table *table)
{
	struct loading loading = {
		.table = table,
		.names = names,
		.n_names = names ? n : 0,
	};
	int ret;

	memset(table, 0, sizeof(*table));
	table->file = file;
	if (csv_file_open(file, &loading.file))
		return -1;
	if (csv_init(&loading.parser,
		CSV_STRICT | CSV_STRICT_FINI | CSV_EMPTY_IS_NULL)) {
		csv_file_close(&loading.file);
		return complain("%s: no memory", file);
	}
	csv_set_space_func(&loading.parser, is_space);
	/*
	 * With a smaller step, it would copy a long field very often while it
	 * grows.
	 */
	csv_set_blk_size(&loading.parser, READ_SIZE);
	ret = feed_all(&loading);
	if (ret == 0)
		ret = finish(&loading);
	csv_free(&loading.parser);
	free(loading.wanted);
	csv_file_close(&loading.file);
	return ret;
}

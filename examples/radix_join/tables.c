/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes keys from two CSV files. An empty key matches nothing, as NULL does in
 * SQL. Keys are integers if all keys of both tables are integers in their
 * shortest form, so that they are equal exactly if their texts are.
 */
#include "tables.h"
#include "../../common/memory.h"
#include "input.h"
#include "platform.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#define SAMPLE_SIZE 65536

static const char advice[] = "join fewer rows, or name fewer columns "
			     "(--columns)";

/* ---- Loading ---------------------------------------------------------------
 */

/*
 * How many rows a regular file has, estimated from the lines at its start; 0:
 * unknown. Other files are not opened, as a writer would notice.
 */
static uint64_t guess_rows(const char *file, const struct stat *status)
{
	uint64_t lines = 0;
	ssize_t n = -1, i;
	char *sample;
	int fd;

	if (!S_ISREG(status->st_mode))
		return 0;
	fd = open(file, O_RDONLY | O_CLOEXEC);
	sample = malloc(SAMPLE_SIZE);
	if (fd >= 0 && sample)
		n = pread(fd, sample, SAMPLE_SIZE, 0);
	if (fd >= 0)
		close(fd);
	for (i = 0; i < n; i++)
		lines += sample[i] == '\n';
	free(sample);
	return n > 0 ? lines * ((uint64_t)status->st_size / (uint64_t)n) : 0;
}

/* A pipe gives its bytes once; a regular file may be joined with itself. */
static int check_same(
    const struct options *options, const struct stat status[N_RELATIONS])
{
	if (S_ISREG(status[INNER].st_mode) ||
	    status[INNER].st_ino != status[OUTER].st_ino ||
	    status[INNER].st_dev != status[OUTER].st_dev)
		return 0;
	return complain(
	    "--inner-csv %s and --outer-csv %s are the same pipe or "
	    "device, which can be read only once: save it in a "
	    "file first",
	    options->csv[INNER], options->csv[OUTER]);
}

/*
 * Refuse files that are clearly too large, before they fill the memory. It
 * counts the least size of each row, and allows an error of a third.
 */
static int check_files(const struct tables *tables)
{
	const struct options *options = tables->options;
	struct stat status[N_RELATIONS];
	uint64_t n[N_RELATIONS], need = 0;
	bool all = options->output && options->n_columns == 0;
	struct plan plan;
	char what[256];
	int r;

	for (r = 0; r < N_RELATIONS; r++) {
		if (stat(options->csv[r], &status[r]))
			return complain(
			    "%s: %s", options->csv[r], strerror(errno));
		n[r] = guess_rows(options->csv[r], &status[r]) / 3 * 2;
		/* Where each row and each key begins; the rows' numbers; the
		   keys, twice. */
		need += n[r] * 8 * 5;
		if (all && S_ISREG(status[r].st_mode))
			need += (uint64_t)status[r].st_size;
	}
	if (check_same(options, status))
		return -1;
	plan_make(&plan, options, n);
	snprintf(what, sizeof(what), "to join %.80s and %.80s takes at least",
	    options->csv[INNER], options->csv[OUTER]);
	return plan_check_memory(&plan, options, need, what, advice);
}

/* Find a column. 0, or -1 after a complaint. */
static int find_column(
    const struct csv_table *csv, const char *name, uint32_t *column)
{
	int64_t found = csv_column(csv, name);

	if (found < 0)
		return -1;
	*column = (uint32_t)found;
	return 0;
}

static int find_columns(struct tables *tables, enum relation relation)
{
	const struct options *options = tables->options;
	const struct csv_table *csv = &tables->csv[relation];

	if (find_column(csv, options->key[relation], &tables->key[relation]))
		return -1;
	if (!options->sum.name || options->sum.relation != relation)
		return 0;
	return find_column(csv, options->sum.name, &tables->sum);
}

/* Load the columns of a table that are in use. */
static int load_side(struct tables *tables, enum relation relation)
{
	const struct options *options = tables->options;
	const char **names;
	uint32_t i, n = 0;
	bool all;
	int ret;

	names = calloc(options->n_columns + 2, sizeof(*names));
	if (!names)
		return complain("no memory");
	names[n++] = options->key[relation];
	if (options->sum.name && options->sum.relation == relation)
		names[n++] = options->sum.name;
	for (i = 0; i < options->n_columns; i++)
		if (options->columns[i].relation == relation)
			names[n++] = options->columns[i].name;
	/* All columns, if there is an output and no list of its columns. */
	all = options->output && options->n_columns == 0;
	ret = csv_load(options->csv[relation], all ? NULL : names, n,
	    &tables->csv[relation]);
	free(names);
	return ret;
}

/* Whether a text is a 64-bit integer, and its value. */
static bool parse_integer(struct text text, int64_t *value)
{
	char copy[32];
	char *end;

	if (text.size == 0 || text.size >= sizeof(copy))
		return false;
	memcpy(copy, text.bytes, text.size);
	copy[text.size] = 0;
	if (copy[0] != '-' && copy[0] != '+' &&
	    (copy[0] < '0' || copy[0] > '9'))
		return false;
	errno = 0;
	*value = strtoll(copy, &end, 10);
	return errno == 0 && end == copy + text.size && end[-1] >= '0' &&
	    end[-1] <= '9';
}

/* Whether no other text means the same integer. */
static bool is_shortest(struct text text)
{
	size_t sign = text.bytes[0] == '-';

	if (text.bytes[0] == '+')
		return false;
	if (text.bytes[sign] == '0')
		return text.size == 1;
	return true;
}

static const struct texts *key_column(
    const struct tables *tables, enum relation relation)
{
	return &tables->csv[relation].columns[tables->key[relation]];
}

static bool all_integers(const struct texts *keys)
{
	struct text text;
	int64_t value;
	uint64_t i;

	for (i = 0; i < keys->n; i++) {
		text = texts_get(keys, i);
		if (text.size > 0 &&
		    (!parse_integer(text, &value) || !is_shortest(text)))
			return false;
	}
	return true;
}

static int complain_integer(const struct csv_table *csv, uint64_t row,
    const char *column, struct text text)
{
	return complain("%s:%ju: column '%s': '%.*s' is no 64-bit integer "
			"(-9223372036854775808 to 9223372036854775807)",
	    csv->file, (uintmax_t)csv->lines[row], column,
	    text.size < 80 ? (int)text.size : 80, text.bytes);
}

static int add_key(struct tables *tables, enum relation relation, uint64_t row,
    struct text text)
{
	struct entries *entries = &tables->entries[relation];
	struct texts *strings = &entries->strings;
	int64_t *integer;

	if (tables->key_type == KEY_INTEGER) {
		integer = &entries->integers[entries->n];
		if (!parse_integer(text, integer))
			return complain_integer(&tables->csv[relation], row,
			    tables->options->key[relation], text);
	} else {
		memcpy(strings->bytes +
			(entries->n ? strings->ends[entries->n - 1] : 0),
		    text.bytes, text.size);
		strings->ends[entries->n] = text.size +
		    (entries->n ? strings->ends[entries->n - 1] : 0);
	}
	entries->rows[entries->n] = row;
	return 0;
}

/* The value to add up, of the row that becomes the next entry. */
static int add_value(struct tables *tables, enum relation relation,
    const struct texts *values, uint64_t row)
{
	struct entries *entries = &tables->entries[relation];
	struct text text = texts_get(values, row);
	int64_t *value = &entries->values[entries->n];

	if (text.size > 0 && !parse_integer(text, value))
		return complain_integer(&tables->csv[relation], row,
		    tables->options->sum.name, text);
	return 0;
}

static int alloc_entries(struct entries *entries, const struct texts *keys,
    bool integers, bool values)
{
	size_t n = keys->n + 1;

	entries->rows = calloc(n, sizeof(*entries->rows));
	if (integers) {
		entries->integers = calloc(n, sizeof(*entries->integers));
	} else {
		entries->strings.ends = calloc(
		    n, sizeof(*entries->strings.ends));
		entries->strings.bytes = calloc(
		    keys->n ? (size_t)keys->ends[keys->n - 1] + 1 : 1, 1);
	}
	if (values)
		entries->values = calloc(n, sizeof(*entries->values));
	if (!entries->rows || (integers && !entries->integers) ||
	    (!integers && !entries->strings.ends) ||
	    (!integers && !entries->strings.bytes) ||
	    (values && !entries->values))
		return complain("no memory for a table");
	return 0;
}

/* Bytes that the entries of a table need, and their copy for the nodes. */
static uint64_t entries_need(
    const struct tables *tables, enum relation relation)
{
	const struct options *options = tables->options;
	const struct texts *keys = key_column(tables, relation);
	uint64_t n = keys->n, bytes = 0;
	uint64_t arrays = 3; /* of n numbers: rows, keys, keys again */

	if (tables->key_type == KEY_STRING)
		bytes = n ? 2 * keys->ends[n - 1] : 0;
	if (options->sum.name && options->sum.relation == relation)
		arrays += 2;
	return bytes + n * 8 * arrays;
}

/* The work for the rows, before it is done. */
static int check_memory(const struct tables *tables)
{
	const uint64_t n_rows[] = { tables->csv[INNER].n_rows,
		tables->csv[OUTER].n_rows };
	struct plan plan;

	plan_make(&plan, tables->options, n_rows);
	return plan_check_memory(&plan, tables->options,
	    entries_need(tables, INNER) + entries_need(tables, OUTER),
	    "to join the rows of these files takes another", advice);
}

static int make_entries(struct tables *tables, enum relation relation)
{
	const struct options *options = tables->options;
	const struct csv_table *csv = &tables->csv[relation];
	const struct texts *keys = key_column(tables, relation);
	struct entries *entries = &tables->entries[relation];
	const struct texts *values = NULL;
	struct text text;
	uint64_t row;

	if (options->sum.name && options->sum.relation == relation)
		values = &csv->columns[tables->sum];
	if (alloc_entries(
		entries, keys, tables->key_type == KEY_INTEGER, values != NULL))
		return -1;
	for (row = 0; row < csv->n_rows; row++) {
		text = texts_get(keys, row);
		if (text.size == 0)
			continue;
		if (add_key(tables, relation, row, text))
			return -1;
		if (values && add_value(tables, relation, values, row))
			return -1;
		entries->n++;
	}
	return 0;
}

int tables_load(const struct options *options, struct tables *tables)
{
	memset(tables, 0, sizeof(*tables));
	tables->options = options;
	if (check_files(tables) || load_side(tables, INNER) ||
	    find_columns(tables, INNER) || load_side(tables, OUTER) ||
	    find_columns(tables, OUTER))
		return -1;
	tables->key_type = options->key_type;
	if (tables->key_type == KEY_AUTO)
		tables->key_type = all_integers(key_column(tables, INNER)) &&
			all_integers(key_column(tables, OUTER))
		    ? KEY_INTEGER
		    : KEY_STRING;
	if (check_memory(tables) || make_entries(tables, INNER) ||
	    make_entries(tables, OUTER))
		return -1;
	return 0;
}

void tables_free(struct tables *tables)
{
	struct entries *entries;
	int i;

	for (i = 0; i < N_RELATIONS; i++) {
		entries = &tables->entries[i];
		free(entries->rows);
		free(entries->integers);
		free(entries->strings.bytes);
		free(entries->strings.ends);
		free(entries->values);
		csv_unload(&tables->csv[i]);
	}
	memset(tables, 0, sizeof(*tables));
}

struct image_side tables_side(
    const struct tables *tables, enum relation relation)
{
	const struct entries *entries = &tables->entries[relation];
	struct image_side side = {
		.n = entries->n,
		.integers = entries->integers,
		.ends = entries->strings.ends,
		.bytes = entries->strings.bytes,
		.values = entries->values,
	};

	return side;
}

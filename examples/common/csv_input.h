/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables in CSV files (RFC 4180): a header, then rows of as many fields. Lines
 * end in LF or CRLF. Quoted fields may contain commas, line ends and doubled
 * quotes. Spaces count. Empty lines are skipped. An empty field without quotes
 * is null. In a table of one column an empty line is a row with a null, except
 * the last one if any row has a text. Bytes stay as they are, without a byte
 * order mark.
 */
#ifndef EXAMPLES_CSV_INPUT_H
#define EXAMPLES_CSV_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Texts, one behind the other. */
struct texts {
	char *bytes;
	uint64_t *ends; /* in bytes, of each text */
	uint64_t n;
	size_t bytes_capacity, ends_capacity;
	unsigned char *nulls; /* a bit for each text, as far as there are any */
	size_t nulls_capacity;
};

/* bytes is not NULL and does not end in a zero byte. */
struct text {
	const char *bytes;
	size_t size; /* 0 if it is null */
	bool is_null;
};

static inline struct text texts_get(const struct texts *texts, uint64_t i)
{
	uint64_t start = i > 0 ? texts->ends[i - 1] : 0;
	struct text text = { texts->bytes + start,
		(size_t)(texts->ends[i] - start), false };

	if (i / 8 < texts->nulls_capacity)
		text.is_null = texts->nulls[i / 8] >> i % 8 & 1;
	return text;
}

/* Append a text; bytes NULL: a null. 0, or -1 after a complaint. */
int texts_add(struct texts *texts, const char *bytes, size_t size);
void texts_free(struct texts *texts);

struct csv_table {
	const char *file;
	struct texts header;
	uint64_t n_rows;
	uint64_t *lines; /* of the file, where each row starts */
	size_t lines_capacity;
	struct texts *columns; /* by column; empty for those not loaded */
};

/*
 * Load the n named columns of a file; names NULL: all of them, n 0: none. The
 * table keeps the pointer to the file's name. A pipe is read to its end.
 * Returns 0, or -1 after a complaint that names file and line. csv_unload()
 * also undoes a failed load.
 */
int csv_load(const char *file, const char *const *names, uint32_t n,
    struct csv_table *table);
void csv_unload(struct csv_table *table);

/* The number of a column, or -1 after a complaint. */
int64_t csv_column(const struct csv_table *table, const char *name);

#endif

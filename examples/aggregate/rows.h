/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the file as columns of 64-bit words, in memory that the first
 * process fills and all others map. The file is read once, so all processes see
 * the same rows.
 *
 *	+--------+-----------------+-----------------+----
 *	| header | words, column 0 | nulls, column 0 | ...
 *	+--------+-----------------+-----------------+----
 */
#ifndef AGGREGATE_ROWS_H
#define AGGREGATE_ROWS_H

#include <stdint.h>

#include "query.h"

enum value_type {
	VALUE_NONE = 0, /* no words: only nulls are of interest */
	VALUE_KEY,      /* a number in a dictionary: it is grouped by */
	VALUE_SIGNED,   /* int64 */
	VALUE_UNSIGNED, /* uint64 */
	VALUE_REAL,     /* double */
};

struct rows_column {
	uint32_t type;      /* enum value_type */
	uint32_t has_nulls; /* an array with 1 for each null, else 0 */
	uint32_t n_limbs;   /* exact_sum.h, of numbers */
	int32_t scale;      /* the same */
	uint64_t words_at, nulls_at;
};

struct rows_header {
	uint64_t size; /* of all */
	uint64_t n_rows;
	uint32_t n_columns; /* as in the query */
	struct rows_column columns[MAX_COLUMNS];
};

struct rows {
	int fd;
	struct rows_header *header;
};

/* Set where the arrays are, and the size of all. */
void rows_place(struct rows_header *header);

/*
 * Memory for a header whose n_rows, n_columns and columns' types and has_nulls
 * are set; the arrays are zero. 0, or -1 after a complaint.
 */
int rows_create(struct rows *rows, const struct rows_header *header);

/* Seal the rows: from now on nobody can change them. 0, or -1. */
int rows_seal(struct rows *rows);

/* Map the rows of another process. 0, or -1 after a complaint. */
int rows_map(struct rows *rows, int fd);
void rows_unmap(struct rows *rows);

static inline uint64_t *rows_words(const struct rows *rows, uint32_t column)
{
	return (uint64_t *)((char *)rows->header +
	    rows->header->columns[column].words_at);
}

static inline unsigned char *rows_nulls(
    const struct rows *rows, uint32_t column)
{
	return (unsigned char *)rows->header +
	    rows->header->columns[column].nulls_at;
}

#endif

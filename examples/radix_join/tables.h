/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two tables of a join of CSV files, as the first process holds them.
 */
#ifndef RADIX_JOIN_TABLES_H
#define RADIX_JOIN_TABLES_H

#include <stdint.h>
#include "../common/csv_input.h"
#include "image.h"
#include "options.h"

/* The entries of one table: its rows that have a key. */
struct entries {
	uint64_t n;
	uint64_t *rows;
	int64_t *integers;
	struct texts strings;
	int64_t *values;
};

struct tables {
	const struct options *options;
	struct csv_table csv[N_RELATIONS];
	struct entries entries[N_RELATIONS];
	enum key_type key_type;
	uint32_t key[N_RELATIONS]; /* columns */
	uint32_t sum;              /* if there is one, of its relation */
};

/*
 * Load both files as the options say. 0, or -1 after a complaint.
 * tables_free() also undoes a failed load.
 */
int tables_load(const struct options *options, struct tables *tables);
void tables_free(struct tables *tables);

/* The arrays of a table's entries; valid while the tables are. */
struct image_side tables_side(
    const struct tables *tables, enum relation relation);

#endif

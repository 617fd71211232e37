/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The computation of a combiner flow, prepared once: how tuples are folded into
 * their group's record, and how a record becomes a result tuple.
 *
 * A record is an array of 64-bit words: the key, then the accumulators.
 *
 *	+---------------------------+--------+----------------+----
 *	| key: columns, zero-padded | count? | accumulator    | ...
 *	+---------------------------+--------+----------------+----
 *
 * The key's columns are packed, in the order in which they were given, with the
 * bytes that they have in the tuple. So equal keys are equal words.
 *
 * Accumulators are wider than the values: int64, uint64 or double, or two words
 * for a sum that must not overflow. A source that combines also sends records:
 * these begin with the same words and fold into one another.
 */
#ifndef DFI_FLOWS_AGGREGATE_PLAN_H
#define DFI_FLOWS_AGGREGATE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dfi/aggregate.h>
#include <dfi/schema.h>
#include "base/compiler.h"

struct fold_functions;

#define PLAN_MAX_KEYS 8

/* How an accumulator takes in a value, or another accumulator. */
enum fold_kind {
	FOLD_COUNT, /* adds one; takes no value */
	FOLD_SUM,   /* modulo 2^64; or doubles */
	FOLD_WIDE,  /* of integers, to 128 bits, low word first */
	FOLD_MIN,
	FOLD_MAX,
	FOLD_KINDS,
};

/*
 * A vector: neighbouring accumulators of one kind whose fields are also
 * neighbours, and of one type.
 */
struct fold {
	enum fold_kind kind;
	uint32_t type;   /* enum dfi_type of the fields; 0: accumulators */
	uint32_t offset; /* bytes to the first field in the tuple or record */
	uint32_t word;   /* index of the first accumulator in the record */
	uint32_t width;  /* number of accumulators */
	const struct fold_functions *functions; /* fold.h */
};

/* A column of the key: where its bytes are in the tuple, and in the key. */
struct plan_column {
	uint32_t offset, at, size;
};

/* A field of the result, after those of the key. */
struct plan_result {
	uint32_t function; /* enum dfi_aggregate_function */
	uint32_t type;     /* of the aggregated field */
	uint32_t word;     /* of its accumulator */
	uint32_t run; /* the number of fields from here on that are copied word
			 by word */
	bool wide;
};

struct plan {
	uint32_t tuple_size;
	uint32_t n_columns;
	struct plan_column columns[PLAN_MAX_KEYS];
	uint32_t key_words;
	uint32_t record_words; /* including the key */
	uint32_t count_word;   /* 0: the plan has no count */
	uint32_t n_folds, n_merges;
	struct fold *folds;        /* of tuples */
	struct fold *merges;       /* of records */
	uint64_t *identity;        /* the accumulators of an empty group */
	struct dfi_schema *schema; /* of result tuples */
	bool results_are_records;
	uint32_t n_results;
	struct plan_result *results; /* one for each aggregate */
	uint64_t factor; /* of keys in the tables of this plan: spread.h */
};

static inline uint32_t plan_record_size(const struct plan *plan)
{
	return plan->record_words * (uint32_t)sizeof(uint64_t);
}

/*
 * keys: indexes of the fields to group by. The schema must be valid. -EINVAL:
 * the text says which key or aggregate is impossible, and why. -ENOMEM, -EIO.
 */
int dfi__plan_new(const struct dfi_schema *schema, const uint32_t *keys,
    uint32_t n_keys, const struct dfi_aggregate *aggregates,
    uint32_t n_aggregates, struct plan **plan);
void dfi__plan_free(struct plan *plan);

/*
 * Copy aggregates and their strings to one block, freed with free(). NULL: no
 * memory.
 */
struct dfi_aggregate *dfi__aggregates_copy(
    const struct dfi_aggregate *aggregates, uint32_t n);

/*
 * Write the result tuple of a record; its padding is zero. -EOVERFLOW: a
 * checked sum doesn't fit; the text names the sum and the group.
 */
int dfi__plan_result(
    const struct plan *plan, const uint64_t *record, char *tuple);

/* Whether two keys, as records have them, are the same. */
static always_inline bool same_words(
    const uint64_t *a, const uint64_t *b, uint32_t n_words)
{
	uint32_t i;

	for (i = 0; i < n_words; i++)
		if (a[i] != b[i])
			return false;
	return true;
}

#endif

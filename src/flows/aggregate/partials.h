/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partial aggregates: the groups of the last tuples of a source, as many as fit
 * a cache. What groups.h does for results of any number, made for few: a slot
 * is the place of a record, nothing is fetched ahead, and the key is compared
 * without a look at its hash. The records lie one behind the other, ready to be
 * sent.
 */
#ifndef DFI_FLOWS_AGGREGATE_PARTIALS_H
#define DFI_FLOWS_AGGREGATE_PARTIALS_H

#include <stdint.h>
#include "plan.h"

#define PARTIALS_MIN 64
#define PARTIALS_MAX 32768 /* numbers of records are 16 bits */

struct partials;

/*
 * Find the records of n tuples, whose keys may be packed, and do the first
 * fold: how many were found, as dfi__partials_fold(). See partials.c.
 */
typedef uint32_t partials_loop(struct partials *partials,
    const struct fold *fold, const char *tuples, uint32_t n, uint64_t **records,
    const uint64_t *keys);

struct partials {
	const struct plan *plan;
	uint64_t *keys;    /* of a batch, packed */
	uint64_t *records; /* the first and the last are no group's */
	uint16_t *slots;   /* a record's number, from 1 on; 0: free */
	uint32_t n, max;   /* groups */
	uint32_t n_slots, shift;
	partials_loop *loop; /* NULL: in two steps */
};

/* Bytes for this many groups: PARTIALS_MIN to PARTIALS_MAX, a power of two. */
size_t dfi__partials_size(const struct plan *plan, uint32_t max);

/* The most groups of this size that fit into these bytes. */
uint32_t dfi__partials_fit(const struct plan *plan, size_t bytes);

/* In memory of that size, aligned to 8 bytes. */
void dfi__partials_init(struct partials *partials, const struct plan *plan,
    uint32_t max, void *memory);

/* Forget all groups. */
void dfi__partials_clear(struct partials *partials);

/*
 * Take in n tuples, one behind the other: how many; less than n if the next one
 * needs a group for which there is no room. An empty table takes at least one.
 */
uint64_t dfi__partials_fold(
    struct partials *partials, const char *tuples, uint64_t n);

/* Returns record i; the next ones follow it. */
static inline const uint64_t *partials_record(
    const struct partials *partials, uint32_t i)
{
	return &partials
		    ->records[(i + UINT64_C(1)) * partials->plan->record_words];
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partial aggregates: the groups of a source's latest tuples, as many as fit a
 * cache. It is groups.h for few groups: a slot has only the number of a record,
 * nothing is prefetched, and keys are compared without their hashes. The
 * records are adjacent, ready to be sent.
 */
#ifndef DFI_FLOWS_AGGREGATE_PARTIALS_H
#define DFI_FLOWS_AGGREGATE_PARTIALS_H

#include <stdint.h>
#include "plan.h"

#define PARTIALS_MIN 64
#define PARTIALS_MAX 32768 /* record numbers have 16 bits */

struct partials;

/*
 * Find the records of n tuples, whose keys may be packed, and do the first
 * fold. Returns how many were taken; see dfi__partials_fold() and partials.c.
 */
typedef uint32_t partials_loop(struct partials *partials,
    const struct fold *fold, const char *tuples, uint32_t n, uint64_t **records,
    const uint64_t *keys);

struct partials {
	const struct plan *plan;
	uint64_t *keys;    /* of a batch, packed */
	uint64_t *records; /* the first and the last belong to no group */
	uint16_t *slots;   /* a record's number, from 1 on; 0: free */
	uint32_t n, max;   /* groups */
	uint32_t n_slots, shift;
	partials_loop *loop; /* NULL: find first, then fold */
};

/*
 * The bytes for max groups: a power of two from PARTIALS_MIN to PARTIALS_MAX.
 */
size_t dfi__partials_size(const struct plan *plan, uint32_t max);

/* The most groups of this size that fit into these bytes. */
uint32_t dfi__partials_fit(const struct plan *plan, size_t bytes);

/* memory: of that size, aligned to 8 bytes. */
void dfi__partials_init(struct partials *partials, const struct plan *plan,
    uint32_t max, void *memory);

/* Remove all groups. */
void dfi__partials_clear(struct partials *partials);

/*
 * Fold n adjacent tuples; returns how many were taken. Fewer than n: the next
 * one needs a group for which there is no room. An empty table takes at least
 * one.
 */
uint64_t dfi__partials_fold(
    struct partials *partials, const char *tuples, uint64_t n);

/* Returns record i; the next records follow it. */
static inline const uint64_t *partials_record(
    const struct partials *partials, uint32_t i)
{
	return &partials
		    ->records[(i + UINT64_C(1)) * partials->plan->record_words];
}

#endif

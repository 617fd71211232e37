/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The groups of a combiner: a hash table from keys to records. Open addressing
 * with linear probing; the slots hold a part of the hash and the number of a
 * record, and the records lie one behind the other, in the order in which their
 * groups came, so that results are read in one pass. Keys are looked up in
 * batches: where the table is larger than caches, the memory of all is on its
 * way while the first is compared. Smaller ones have more slots for each
 * record, because there a probe that is mispredicted is what costs most.
 */
#ifndef DFI_FLOWS_AGGREGATE_GROUPS_H
#define DFI_FLOWS_AGGREGATE_GROUPS_H

#include <stdbool.h>
#include <stdint.h>
#include "plan.h"

/* The most that are looked up at once. */
#define GROUPS_BATCH 128

/* Room for more groups than this can't be asked for. */
#define GROUPS_MAX (UINT64_C(1) << 31)

struct groups_slot {
	uint32_t tag;    /* the hash's upper half */
	uint32_t record; /* its number and 1; 0: the slot is free */
};

struct groups;
struct single_input;

/*
 * Find the groups of n inputs, make those that are missing, and fold; there is
 * memory for n more. Each input's record goes to records, unless that is NULL.
 * How many were taken: fewer than n if the next one is a group too many.
 */
typedef uint32_t single_loop(struct groups *groups, const struct fold *fold,
    const struct single_input *input, uint32_t n, uint64_t **records);

struct groups {
	const struct plan *plan;
	uint64_t max; /* groups */
	uint64_t n;
	uint64_t *records;
	uint64_t room; /* records */
	struct groups_slot *slots;
	uint64_t n_slots; /* a power of two */
	uint64_t *keys;   /* of a batch */
	/* single.h: of tuples, and of records; NULL: there is none. */
	single_loop *loops[2];
};

/* 1 <= max <= GROUPS_MAX. -ENOMEM. The plan must outlive it. */
int dfi__groups_init(
    struct groups *groups, const struct plan *plan, uint64_t max);
void dfi__groups_free(struct groups *groups);

/* Where files tell how much memory there is; only tests change it. */
extern const char *dfi__groups_root;

/* Forget all groups; the memory stays. */
void dfi__groups_clear(struct groups *groups);

/*
 * The records of n tuples (at most GROUPS_BATCH) or, if merged, of records of
 * other tables, which are stride bytes apart; new groups get theirs. Valid
 * until the next call. *found < n: the next one would be a group too many.
 * -ENOMEM.
 */
int dfi__groups_find(struct groups *groups, const char *from, size_t stride,
    bool merged, uint32_t n, uint64_t *records[GROUPS_BATCH], uint32_t *found);

/*
 * Take n tuples, or records, in: as many as there is room for the groups of.
 * -ENOMEM.
 */
int dfi__groups_fold(struct groups *groups, const char *from, size_t stride,
    bool merged, uint64_t n, uint64_t *taken);

/*
 * For loops that find groups themselves: a new group for a key, whose probes
 * have ended at a free slot; there is memory for it. NULL: one too many.
 */
uint64_t *dfi__groups_insert(
    struct groups *groups, const uint64_t *key, uint64_t hash, uint64_t slot);

static inline const uint64_t *groups_record(
    const struct groups *groups, uint64_t i)
{
	return &groups->records[i * groups->plan->record_words];
}

#endif

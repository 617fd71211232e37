/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The groups of a combiner: a hash table from keys to records, with open
 * addressing and linear probing. A slot has a part of the hash and the number
 * of a record. The records are adjacent, in the order in which the groups came,
 * so that results are read in one pass. Keys are looked up in batches: in
 * tables larger than the caches, all loads are under way before the first
 * comparison. Smaller tables have more slots for each record, because there a
 * mispredicted probe costs most.
 */
#ifndef DFI_FLOWS_AGGREGATE_GROUPS_H
#define DFI_FLOWS_AGGREGATE_GROUPS_H

#include <stdbool.h>
#include <stdint.h>
#include "plan.h"

/* The most tuples in one lookup. */
#define GROUPS_BATCH 128

/* The most groups that a caller may ask for. */
#define GROUPS_MAX (UINT64_C(1) << 31)

struct groups_slot {
	uint32_t tag;    /* the hash's upper half */
	uint32_t record; /* its number plus 1; 0: the slot is free */
};

struct groups;
struct single_input;

/*
 * Find the groups of n inputs, make the missing ones, and fold. The caller has
 * reserved memory for n groups. Writes each input's record to records unless
 * that is NULL. Returns how many were taken: fewer than n if the next one would
 * make too many groups.
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
	/*
	 * For tuples, and for records (single.h); NULL: there is no such loop.
	 */
	single_loop *loops[2];
};

/* 1 <= max <= GROUPS_MAX. -ENOMEM. The plan must outlive the groups. */
int dfi__groups_init(
    struct groups *groups, const struct plan *plan, uint64_t max);
void dfi__groups_free(struct groups *groups);

/*
 * The root of the files that tell how much memory there is. Only tests set it.
 */
extern const char *dfi__groups_root;

/* Remove all groups; keeps the memory. */
void dfi__groups_clear(struct groups *groups);

/*
 * Find or make the records of at most GROUPS_BATCH tuples or, if merged, of
 * records of other tables, stride bytes apart. The result is valid until the
 * next call. *found < n: the next one would make too many groups. -ENOMEM.
 */
int dfi__groups_find(struct groups *groups, const char *from, size_t stride,
    bool merged, uint32_t n, uint64_t *records[GROUPS_BATCH], uint32_t *found);

/* Fold tuples or records, as many of n as there is room for. -ENOMEM. */
int dfi__groups_fold(struct groups *groups, const char *from, size_t stride,
    bool merged, uint64_t n, uint64_t *taken);

/*
 * For loops that probe themselves: make the group of a key whose probes ended
 * at a free slot. The caller has reserved memory. NULL: too many groups.
 */
uint64_t *dfi__groups_insert(
    struct groups *groups, const uint64_t *key, uint64_t hash, uint64_t slot);

static inline const uint64_t *groups_record(
    const struct groups *groups, uint64_t i)
{
	return &groups->records[i * groups->plan->record_words];
}

#endif

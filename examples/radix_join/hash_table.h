/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash table of one partition, built and probed within the cache.
 *
 * A bucket is one cache line of four tuples, so that a probe reads one line and
 * compares four keys without a branch. What doesn't fit goes to a chain, whose
 * length doesn't slow down building: any number of equal keys is fine.
 */
#ifndef RADIX_JOIN_HASH_TABLE_H
#define RADIX_JOIN_HASH_TABLE_H

#include <stdint.h>
#include "relation.h"

#define BUCKET_TUPLES 4

struct bucket {
	uint64_t keys[BUCKET_TUPLES];
	uint64_t payloads[BUCKET_TUPLES];
};

/* A tuple behind a full bucket. */
struct overflow {
	struct tuple tuple;
	uint32_t next; /* index of the next one, or UINT32_MAX */
	uint32_t reserved;
};

struct table {
	struct bucket *buckets;
	uint8_t *counts;  /* per bucket; BUCKET_TUPLES + 1: has a chain */
	uint32_t *chains; /* per bucket: first overflow, if it has one */
	struct overflow *overflows;
	uint64_t seed; /* drawn */
	uint32_t n_overflows;
	uint32_t hash_shift; /* of the partition in work */
	uint32_t radix_bits; /* the lowest key bits, equal in a partition */
	uint32_t bucket_capacity;
	uint32_t overflow_capacity;
	uint32_t has_avx2;
};

/* A random seed for bucket_of(). 0, or -1 after a complaint. */
int table_seed(uint64_t *seed);

/* The bucket of a key, without the bits that all keys of a partition share. */
static inline uint64_t bucket_of(
    uint64_t key, uint64_t seed, uint32_t radix_bits, uint32_t hash_shift)
{
	/* 2^64 divided by the golden ratio. */
	return (((key >> radix_bits) ^ seed) * UINT64_C(0x9e3779b97f4a7c15)) >>
	    hash_shift;
}

/*
 * An empty table for partitions of radix_bits, with memory for n_tuples; it
 * grows as needed. Returns 0, or -1 without memory. table_close() also undoes a
 * failed open.
 */
int table_open(struct table *table, uint32_t radix_bits, uint64_t n_tuples);
void table_close(struct table *table);

/* Empty the table for a partition of n_tuples. 0, or -1: no memory. */
int table_begin(struct table *table, uint64_t n_tuples);

/* Add inner tuples: table_begin() limits their total. */
void table_build(struct table *table, const struct tuple *tuples, uint32_t n);

/* Count the matches of n outer tuples and add them to the result. */
void table_probe(const struct table *table, const struct tuple *tuples,
    uint32_t n, struct result *result);

/*
 * Call match for each inner tuple whose key equals that of an outer one. Ends
 * at the first return other than 0, and returns it.
 */
int table_probe_each(const struct table *table, const struct tuple *tuples,
    uint32_t n,
    int (*match)(void *arg, uint64_t inner_payload, uint64_t outer_payload),
    void *arg);

#endif

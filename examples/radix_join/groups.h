/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner rows of a partition by key, for joins of files without row output:
 * each key once, with the sums over its rows. An outer row uses the whole
 * group, so a key that is frequent on both sides costs the sum of its row
 * counts, not their product.
 */
#ifndef RADIX_JOIN_GROUPS_H
#define RADIX_JOIN_GROUPS_H

#include <stdint.h>
#include "image.h"
#include "relation.h"

/* Inner rows with one key. */
struct group {
	uint64_t hash;
	uint64_t entry; /* one of them */
	uint64_t n;
	uint64_t payloads; /* added up */
	struct sum values; /* of the column of --sum, if it is an inner one */
	uint32_t next;     /* in the bucket: index + 1, or 0 */
};

struct groups {
	const struct image *image;
	struct group *list;
	uint32_t *buckets; /* index + 1 of the first group, or 0 */
	uint32_t n, capacity;
	uint32_t radix_bits, hash_shift;
	uint64_t seed; /* drawn */
};

/*
 * radix_bits: the lowest bits of a hash, which a partition has in common. 0, or
 * -1 after a complaint.
 */
int groups_open(
    struct groups *groups, const struct image *image, uint32_t radix_bits);
void groups_close(struct groups *groups);

/* Begin a partition of n_tuples. 0, or -1: no memory. */
int groups_begin(struct groups *groups, uint64_t n_tuples);

/* Add inner tuples: groups_begin() limits their total. */
void groups_add(struct groups *groups, const struct tuple *tuples, uint32_t n);

/* Join n outer tuples with them and add the outcome to the result. */
void groups_probe(const struct groups *groups, const struct tuple *tuples,
    uint32_t n, struct result *result);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of two tables in memory that all node processes map. A tuple's
 * payload refers to them. An entry is a row that has a key; entry e of a
 * relation travels as the tuple
 *
 *	{ hash of its key, e + 1 }
 *
 * Integer keys have equal hashes only if they are equal. Strings with equal
 * hashes match only if the strings are equal.
 */
#ifndef RADIX_JOIN_IMAGE_H
#define RADIX_JOIN_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "relation.h"

struct image_side {
	uint64_t n;
	const int64_t *integers; /* keys; NULL if they are strings */
	const uint64_t *ends;    /* of each string in bytes */
	const char *bytes;
	const int64_t *values; /* to be summed up; NULL if not of this side */
};

struct image {
	struct image_side sides[N_RELATIONS];
	uint64_t seed; /* random: an attacker may choose the strings */
	void *memory;
	size_t size;
};

/*
 * Write the sides to a new file in memory, sealed and without a name. Returns
 * its descriptor, closed on exec, or -1 after a complaint.
 */
int image_create(const struct image_side sides[N_RELATIONS]);

/* Map it. 0, or -1 after a complaint. */
int image_map(int fd, struct image *image);
void image_unmap(struct image *image);

/* Make the tuples of the entries begin to end - 1. */
void image_tuples(const struct image *image, enum relation relation,
    uint64_t begin, uint64_t end, struct tuple *tuples);

static inline const char *image_string(
    const struct image_side *side, uint64_t entry, size_t *size)
{
	uint64_t start = entry > 0 ? side->ends[entry - 1] : 0;

	*size = (size_t)(side->ends[entry] - start);
	return side->bytes + start;
}

/* Whether two entries whose hashes are equal have the same key. */
static inline bool image_equal(const struct image *image, enum relation a_side,
    uint64_t a, enum relation b_side, uint64_t b)
{
	size_t a_size, b_size;
	const char *a_string, *b_string;

	if (image->sides[a_side].integers)
		return true;
	a_string = image_string(&image->sides[a_side], a, &a_size);
	b_string = image_string(&image->sides[b_side], b, &b_size);
	return a_size == b_size && memcmp(a_string, b_string, a_size) == 0;
}

#endif

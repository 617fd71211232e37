/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash table of radix_join: the buckets of keys that an attacker has
 * chosen.
 */
#include <criterion/criterion.h>

#include <unistd.h>

#include "../../examples/radix_join/hash_table.h"
#include "../../examples/radix_join/image.h"

#define N 4096u
#define RADIX_BITS 4u

/* How many do not fit the bucket that they belong in. */
static uint32_t count_overflows(uint64_t step)
{
	struct table table;
	struct tuple tuple;
	uint32_t i, n;

	cr_assert_eq(table_open(&table, RADIX_BITS, N), 0);
	cr_assert_eq(table_begin(&table, N), 0);
	for (i = 0; i < N; i++) {
		tuple = (struct tuple){ .key = i * step << RADIX_BITS };
		table_build(&table, &tuple, 1);
	}
	n = table.n_overflows;
	table_close(&table);
	return n;
}

Test(join_table, spreads_dense_keys_evenly)
{
	cr_assert_leq(count_overflows(1), N / 100);
}

/* By the inverse of a well-known factor, all go to one bucket. */
Test(join_table, spreads_keys_that_were_chosen_for_one_bucket)
{
	const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t inverse = factor;
	int i;

	for (i = 0; i < 6; i++)
		inverse *= 2 - factor * inverse;
	cr_assert_eq(factor * inverse, 1);
	/* The upper bits are those of the key that are shifted out. */
	cr_assert_leq(
	    count_overflows(inverse & UINT64_MAX >> RADIX_BITS), N / 4);
}

/* The hash of a string, which both sides have. */
static uint64_t hash_of_string(void)
{
	static const uint64_t ends[] = { 5 };
	const struct image_side side = {
		.n = 1, .ends = ends, .bytes = "apple"
	};
	const struct image_side sides[N_RELATIONS] = { side, side };
	struct tuple tuples[N_RELATIONS];
	struct image image;
	int fd = image_create(sides);

	cr_assert_geq(fd, 0);
	cr_assert_eq(image_map(fd, &image), 0);
	image_tuples(&image, INNER, 0, 1, &tuples[INNER]);
	image_tuples(&image, OUTER, 0, 1, &tuples[OUTER]);
	cr_assert_eq(tuples[INNER].key, tuples[OUTER].key);
	image_unmap(&image);
	close(fd);
	return tuples[INNER].key;
}

Test(image, hashes_strings_as_nobody_can_know_before)
{
	cr_assert_neq(hash_of_string(), hash_of_string());
}

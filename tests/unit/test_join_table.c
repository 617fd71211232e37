/* SPDX-License-Identifier: Apache-2.0 */
/* The hash table of radix_join: where keys go that others have chosen. */
#include <criterion/criterion.h>

#include "../../examples/radix_join/hash_table.h"

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

/* By the inverse of the factor that all know, all go to one bucket. */
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact sums: neither the order nor the place of additions changes them. A
 * number is an integer times a power of two that all numbers of its column
 * share. The integer is stored as limbs of 32 bits in two's complement:
 *
 *	value = (limb[0] + 2^32 limb[1] + ... + 2^(32 (n-1)) limb[n-1]) 2^scale
 *
 * Each limb is summed by itself, in 64 bits; the last limb may be signed, the
 * others are not. At the end the sums of limbs make the exact sum.
 */
#ifndef AGGREGATE_EXACT_SUM_H
#define AGGREGATE_EXACT_SUM_H

#include <stdbool.h>
#include <stdint.h>

#define LIMB_BITS 32

/* For 2^-1074 to 2^1024 and a sign. */
#define MAX_LIMBS 66

/* The sum of a limb stays below 2^63 for this many values. */
#define MAX_SUMMED (UINT64_C(1) << 31)

/* All reals of a column have their bits from 2^low to below 2^high. */
struct real_range {
	int low, high;
};
#define REAL_RANGE_NONE               \
	(struct real_range)           \
	{                             \
		.low = 0, .high = -1, \
	}

/* Add a finite value. */
void real_range_add(struct real_range *range, double value);

/* Their common scale, and how many limbs they have. */
int real_range_scale(const struct real_range *range);
uint32_t real_range_limbs(const struct real_range *range);

void limbs_of_real(double value, int scale, uint32_t n, uint32_t *limbs);

/* For an integer of 64 bits: two limbs. */
void limbs_of_integer(uint64_t word, uint32_t limbs[2]);

/* A sum in two's complement, the lowest word first. */
struct exact_sum {
	uint32_t words[MAX_LIMBS + 2];
	uint32_t n;
	int scale;
};

/* From the sums of n limbs. */
void exact_sum_make(
    struct exact_sum *sum, const int64_t *limbs, uint32_t n, int scale);

/* Whether it is a whole number that fits; then *word is it. */
bool exact_sum_int64(const struct exact_sum *sum, int64_t *word);
bool exact_sum_uint64(const struct exact_sum *sum, uint64_t *word);

/* The nearest fraction of 53 bits, times 2^*exponent. */
double exact_sum_real(const struct exact_sum *sum, int *exponent);

#endif

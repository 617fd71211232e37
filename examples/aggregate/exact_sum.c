/* SPDX-License-Identifier: Apache-2.0 */
#include "exact_sum.h"

#include <math.h>
#include <string.h>

__extension__ typedef __int128 wide;

#define MANTISSA_BITS 53

/* value = the return value times 2^*exponent; the return value is odd, or 0. */
static int64_t split(double value, int *exponent)
{
	int64_t mantissa = (int64_t)ldexp(
	    frexp(value, exponent), MANTISSA_BITS);
	int zeros;

	*exponent -= MANTISSA_BITS;
	if (mantissa == 0)
		return 0;
	zeros = __builtin_ctzll((uint64_t)mantissa);
	*exponent += zeros;
	/* Nothing is lost: all bits that are shifted out are zeros. */
	return mantissa / (INT64_C(1) << zeros);
}

void real_range_add(struct real_range *range, double value)
{
	int low, high;

	if (value == 0)
		return;
	(void)frexp(value, &high);
	(void)split(value, &low);
	if (range->high < range->low) {
		*range = (struct real_range){ low, high };
		return;
	}
	if (low < range->low)
		range->low = low;
	if (high > range->high)
		range->high = high;
}

/* The bits of whole numbers of 64 bits begin at 1, which is easy to print. */
int real_range_scale(const struct real_range *range)
{
	return range->low > 0 && range->high <= 64 ? 0 : range->low;
}

uint32_t real_range_limbs(const struct real_range *range)
{
	/* With a bit for the sign. */
	int bits = range->high - real_range_scale(range) + 1;

	return bits > 0 ? (uint32_t)(bits + LIMB_BITS - 1) / LIMB_BITS : 1;
}

void limbs_of_real(double value, int scale, uint32_t n, uint32_t *limbs)
{
	int exponent;
	wide rest = split(value, &exponent);
	uint32_t shift = rest ? (uint32_t)(exponent - scale) : 0;
	uint32_t i;

	rest *= (wide)1 << shift % LIMB_BITS;
	for (i = 0; i < n; i++) {
		if (i < shift / LIMB_BITS) {
			limbs[i] = 0;
			continue;
		}
		limbs[i] = (uint32_t)rest;
		rest >>= LIMB_BITS;
	}
}

void limbs_of_integer(uint64_t word, uint32_t limbs[2])
{
	limbs[0] = (uint32_t)word;
	limbs[1] = (uint32_t)(word >> LIMB_BITS);
}

/* ---- The sum ---------------------------------------------------------------
 */

void exact_sum_make(
    struct exact_sum *sum, const int64_t *limbs, uint32_t n, int scale)
{
	wide rest = 0;
	uint32_t i;

	sum->n = n + 2;
	sum->scale = scale;
	for (i = 0; i < sum->n; i++) {
		if (i < n)
			rest += limbs[i];
		sum->words[i] = (uint32_t)rest;
		rest >>= LIMB_BITS;
	}
}

static bool is_negative(const struct exact_sum *sum)
{
	return sum->words[sum->n - 1] >> (LIMB_BITS - 1);
}

/* The 32 bits from bit number at on; bits above the last are the sign. */
static uint32_t bits_at(const struct exact_sum *sum, int64_t at)
{
	uint32_t sign = is_negative(sum) ? UINT32_MAX : 0;
	int64_t i = at / LIMB_BITS;
	uint64_t low = i < sum->n ? sum->words[i] : sign;
	uint64_t high = i + 1 < sum->n ? sum->words[i + 1] : sign;

	return (uint32_t)((high << LIMB_BITS | low) >> at % LIMB_BITS);
}

/* Whether all bits below number at are zeros. */
static bool is_whole(const struct exact_sum *sum, int64_t at)
{
	int64_t i;

	for (i = 0; i < sum->n && i * LIMB_BITS < at; i++) {
		uint32_t mask = at - i * LIMB_BITS < LIMB_BITS
		    ? (UINT32_C(1) << (at - i * LIMB_BITS)) - 1
		    : UINT32_MAX;

		if (sum->words[i] & mask)
			return false;
	}
	return true;
}

/* The low 64 bits, and whether all higher bits equal fill. */
static bool whole(const struct exact_sum *sum, uint32_t fill, uint64_t *word)
{
	int64_t at = -(int64_t)sum->scale;
	uint32_t i;

	if (sum->scale > 0 || !is_whole(sum, at))
		return false;
	*word = bits_at(sum, at) |
	    (uint64_t)bits_at(sum, at + LIMB_BITS) << LIMB_BITS;
	for (i = 0; i < sum->n; i++)
		if (bits_at(sum, at + (2 + (int64_t)i) * LIMB_BITS) != fill)
			return false;
	return true;
}

bool exact_sum_int64(const struct exact_sum *sum, int64_t *word)
{
	bool negative = is_negative(sum);
	uint64_t bits;

	if (!whole(sum, negative ? UINT32_MAX : 0, &bits) ||
	    bits >> 63 != negative)
		return false;
	*word = (int64_t)bits;
	return true;
}

bool exact_sum_uint64(const struct exact_sum *sum, uint64_t *word)
{
	return whole(sum, 0, word) && !is_negative(sum);
}

static void negate(struct exact_sum *sum)
{
	uint64_t carry = 1;
	uint32_t i;

	for (i = 0; i < sum->n; i++) {
		carry += (uint32_t)~sum->words[i];
		sum->words[i] = (uint32_t)carry;
		carry >>= LIMB_BITS;
	}
}

double exact_sum_real(const struct exact_sum *sum, int *exponent)
{
	struct exact_sum size = *sum;
	uint32_t top = sum->n;
	uint64_t bits;
	int64_t at;
	double real;

	*exponent = 0;
	if (is_negative(sum))
		negate(&size);
	while (top > 0 && !size.words[top - 1])
		top--;
	if (!top)
		return 0;
	/* The highest 64 bits; the last is set if any lower bit is. */
	at = (int64_t)top * LIMB_BITS - __builtin_clz(size.words[top - 1]) - 64;
	if (at < 0)
		at = 0;
	bits = bits_at(&size, at) |
	    (uint64_t)bits_at(&size, at + LIMB_BITS) << LIMB_BITS;
	bits |= !is_whole(&size, at);
	*exponent = (int)at + sum->scale;
	real = (double)bits;
	return is_negative(sum) ? -real : real;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as texts, and sums that do not depend on order. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "examples/aggregate/exact_sum.h"
#include "examples/aggregate/number.h"

static struct text text(const char *bytes)
{
	return (struct text){ bytes, strlen(bytes), false };
}

/* ---- Texts -----------------------------------------------------------------
 */

Test(number, is_an_integer_to_64_bits)
{
	static const struct {
		const char *text;
		enum number_kind kind;
		uint64_t word;
	} cases[] = {
		{ "0", NUMBER_SIGNED, 0 },
		{ "-0", NUMBER_SIGNED, 0 },
		{ "+7", NUMBER_SIGNED, 7 },
		{ "007", NUMBER_SIGNED, 7 },
		{ "9223372036854775807", NUMBER_SIGNED, INT64_MAX },
		{ "-9223372036854775808", NUMBER_SIGNED, UINT64_C(1) << 63 },
		{ "9223372036854775808", NUMBER_UNSIGNED, UINT64_C(1) << 63 },
		{ "18446744073709551615", NUMBER_UNSIGNED, UINT64_MAX },
		{ "18446744073709551616", NUMBER_LONG, 0 },
		{ "-9223372036854775809", NUMBER_LONG, 0 },
		{ "1234567890123456789012345678901234567890", NUMBER_LONG, 0 },
		{ "1.0", NUMBER_REAL, 0 },
		{ "1.", NUMBER_REAL, 0 },
		{ ".5", NUMBER_REAL, 0 },
		{ "-1e5", NUMBER_REAL, 0 },
		{ "1E+05", NUMBER_REAL, 0 },
	};
	uint64_t word;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		word = 0;
		cr_expect_eq(number_kind(text(cases[i].text), &word),
		    cases[i].kind, "%s", cases[i].text);
		cr_expect_eq(word, cases[i].word, "%s", cases[i].text);
	}
}

Test(number, is_nothing_else)
{
	static const char *const texts[] = { "", " 5", "5 ", "1_000", "0x10",
		"inf", "nan", "1,5", "+", "-", ".", "e5", ".e5", "1e", "1e+",
		"1e5.0", "--1", "1-", "1\xc2\xa0", "\xd9\xa1" };
	uint64_t word;
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_expect_eq(number_kind(text(texts[i]), &word), NUMBER_NONE,
		    "'%s'", texts[i]);
}

/* The bytes behind a text are not its own: they may be anything. */
Test(number, ends_where_its_text_ends)
{
	struct text part = { "12.5e7", 2, false };
	uint64_t word;
	double real;

	cr_expect_eq(number_kind(part, &word), NUMBER_SIGNED);
	cr_expect_eq(word, 12);
	cr_expect_eq(number_real(part, &real), REAL_FITS);
	cr_expect_eq(real, 12);
}

Test(number, says_how_it_fits_a_real)
{
	static const struct {
		const char *text;
		enum real_fit fit;
	} cases[] = {
		{ "0.1", REAL_FITS },
		{ "1e308", REAL_FITS },
		{ "4.9e-324", REAL_FITS },
		{ "0e999", REAL_FITS },
		{ "0.000", REAL_FITS },
		{ "9007199254740992", REAL_FITS },
		{ "9007199254740994.000", REAL_FITS },
		{ "+00018014398509481984", REAL_FITS },
		{ "9007199254740993", REAL_COARSE },
		{ "-9007199254740993.0", REAL_COARSE },
		{ "9007199254740992.5", REAL_COARSE },
		{ "1e400", REAL_TOO_LARGE },
		{ "-1e400", REAL_TOO_LARGE },
		{ "1e-400", REAL_TOO_SMALL },
		{ "-0.01e-400", REAL_TOO_SMALL },
	};
	char zeros[400];
	double real;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(number_real(text(cases[i].text), &real),
		    cases[i].fit, "%s", cases[i].text);
	/* Longer than what is copied to the stack. */
	memset(zeros, '0', sizeof(zeros));
	memcpy(zeros, "0.25", 4);
	zeros[sizeof(zeros) - 1] = '\0';
	cr_expect_eq(number_real(text(zeros), &real), REAL_FITS);
	cr_expect_eq(real, 0.25);
}

Test(number, is_printed_so_that_it_reads_as_itself)
{
	static const double reals[] = { 0.1, 1.0 / 3, 5e-324, DBL_MAX, -1e15,
		123456789.123456789, 100 };
	char room[REAL_SIZE];
	double real;
	size_t i;

	for (i = 0; i < sizeof(reals) / sizeof(reals[0]); i++) {
		real_text(reals[i], room);
		cr_expect_eq(number_real(text(room), &real), REAL_FITS);
		cr_expect_eq(real, reals[i], "%s", room);
	}
	real_text(0.1, room);
	cr_expect_str_eq(room, "0.1");
	real_text(-100, room);
	cr_expect_str_eq(room, "-100.0");
	real_text_short(0.1 + 0.2, room);
	cr_expect_str_eq(room, "0.3");
}

/* ---- Sums ------------------------------------------------------------------
 */

/* Sum up as the processes of a query do. */
static void add_all(const double *reals, size_t n, struct exact_sum *sum)
{
	struct real_range range = REAL_RANGE_NONE;
	uint32_t limbs[MAX_LIMBS], n_limbs, k;
	int64_t sums[MAX_LIMBS] = { 0 };
	int scale;
	size_t i;

	for (i = 0; i < n; i++)
		real_range_add(&range, reals[i]);
	scale = real_range_scale(&range);
	n_limbs = real_range_limbs(&range);
	cr_assert_leq(n_limbs, MAX_LIMBS);
	for (i = 0; i < n; i++) {
		limbs_of_real(reals[i], scale, n_limbs, limbs);
		for (k = 0; k + 1 < n_limbs; k++)
			sums[k] += limbs[k];
		sums[k] += (int32_t)limbs[k];
	}
	exact_sum_make(sum, sums, n_limbs, scale);
}

static double real_of(const struct exact_sum *sum)
{
	int exponent;
	double real = exact_sum_real(sum, &exponent);

	return ldexp(real, exponent);
}

Test(exact_sum, is_exact_whatever_comes_first)
{
	static const double reals[] = { 1e308, 1, 5e-324, -1e308, 1e-300, -1,
		-5e-324, 3.25, 0, -0.0 };
	struct exact_sum sum;

	add_all(reals, sizeof(reals) / sizeof(reals[0]), &sum);
	cr_expect_eq(real_of(&sum), 3.25 + 1e-300);
	add_all(reals, 7, &sum);
	cr_expect_eq(real_of(&sum), 1e-300);
	add_all(reals, 0, &sum);
	cr_expect_eq(real_of(&sum), 0);
}

Test(exact_sum, is_rounded_once)
{
	/* Half of the last place, and a bit beside it. */
	static const double up[] = { 9007199254740992.0, 1, 0x1p-60 };
	static const double even[] = { 9007199254740992.0, 1 };
	static const double down[] = { -9007199254740992.0, -1, -0x1p-60 };
	struct exact_sum sum;

	add_all(up, 3, &sum);
	cr_expect_eq(real_of(&sum), 9007199254740994.0);
	add_all(even, 2, &sum);
	cr_expect_eq(real_of(&sum), 9007199254740992.0);
	add_all(down, 3, &sum);
	cr_expect_eq(real_of(&sum), -9007199254740994.0);
}

Test(exact_sum, knows_whole_numbers)
{
	static const double halves[] = { 0.5, 0.5, -9007199254740992.0 };
	static const double large[] = { 0x1p62, 0x1p62 };
	struct exact_sum sum;
	uint64_t word;
	int64_t whole;

	add_all(halves, 3, &sum);
	cr_expect(exact_sum_int64(&sum, &whole));
	cr_expect_eq(whole, -9007199254740991);
	cr_expect_not(exact_sum_uint64(&sum, &word));
	add_all(halves, 1, &sum);
	cr_expect_not(exact_sum_int64(&sum, &whole));
	add_all(large, 1, &sum);
	cr_expect(exact_sum_int64(&sum, &whole));
	cr_expect_eq(whole, INT64_C(1) << 62);
	add_all(large, 2, &sum);
	cr_expect_not(exact_sum_int64(&sum, &whole));
	cr_expect(exact_sum_uint64(&sum, &word));
	cr_expect_eq(word, UINT64_C(1) << 63);
}

/* Of integers with or without a sign, whose last limb has it or not. */
static void add_integers(
    const uint64_t *words, size_t n, bool is_signed, struct exact_sum *sum)
{
	int64_t sums[2] = { 0 };
	uint32_t limbs[2];
	size_t i;

	for (i = 0; i < n; i++) {
		limbs_of_integer(words[i], limbs);
		sums[0] += limbs[0];
		sums[1] += is_signed ? (int32_t)limbs[1] : (int64_t)limbs[1];
	}
	exact_sum_make(sum, sums, 2, 0);
}

Test(exact_sum, of_integers_neither_wraps_nor_rounds)
{
	static const uint64_t words[] = { INT64_MAX, INT64_MAX,
		(uint64_t)INT64_MIN, (uint64_t)-1, 5 };
	struct exact_sum sum;
	uint64_t word;
	int64_t whole;

	add_integers(words, 2, true, &sum);
	cr_expect_not(exact_sum_int64(&sum, &whole));
	cr_expect_eq(real_of(&sum), 0x1p64);
	add_integers(words, 4, true, &sum);
	cr_expect(exact_sum_int64(&sum, &whole));
	cr_expect_eq(whole, INT64_MAX - 2);
	add_integers(words + 3, 1, true, &sum);
	cr_expect(exact_sum_int64(&sum, &whole));
	cr_expect_eq(whole, -1);
	add_integers(words + 3, 1, false, &sum);
	cr_expect(exact_sum_uint64(&sum, &word));
	cr_expect_eq(word, UINT64_MAX);
	add_integers(words + 3, 2, false, &sum);
	cr_expect_not(exact_sum_uint64(&sum, &word));
}

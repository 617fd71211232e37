/* SPDX-License-Identifier: Apache-2.0 */
/* Texts have no zero byte at the end, so strtod() gets a copy. */
#include "number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_NUMBER 128 /* longer ones are copied to the heap */

/* A real holds every whole number up to this one. */
#define EXACT 9007199254740992.0

static size_t count_digits(struct text text, size_t from)
{
	size_t n = 0;

	while (from + n < text.size && text.bytes[from + n] >= '0' &&
	    text.bytes[from + n] <= '9')
		n++;
	return n;
}

static bool is_at(struct text text, size_t i, const char *signs)
{
	return i < text.size && text.bytes[i] && strchr(signs, text.bytes[i]);
}

/* Whether it is a number, and an integer. */
static bool scan(struct text text, bool *is_integer)
{
	size_t i = is_at(text, 0, "+-"), digits, more;

	digits = count_digits(text, i);
	i += digits;
	*is_integer = i == text.size;
	if (is_at(text, i, ".")) {
		more = count_digits(text, i + 1);
		digits += more;
		i += 1 + more;
	}
	if (!digits)
		return false;
	if (is_at(text, i, "eE")) {
		i++;
		i += is_at(text, i, "+-");
		more = count_digits(text, i);
		if (!more)
			return false;
		i += more;
	}
	return i == text.size;
}

enum number_kind number_kind(struct text text, uint64_t *word)
{
	bool negative = is_at(text, 0, "-"), is_integer;
	size_t i = is_at(text, 0, "+-");
	uint64_t value = 0;

	if (!scan(text, &is_integer))
		return NUMBER_NONE;
	if (!is_integer)
		return NUMBER_REAL;
	for (; i < text.size; i++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(
			value, (uint64_t)(text.bytes[i] - '0'), &value))
			return NUMBER_LONG;
	if (negative && value > (uint64_t)INT64_MAX + 1)
		return NUMBER_LONG;
	*word = negative ? -value : value;
	return negative || value <= INT64_MAX ? NUMBER_SIGNED : NUMBER_UNSIGNED;
}

/* ---- Reals -----------------------------------------------------------------
 */

/* Whether the digits, after the sign, are exactly this large real. */
static bool is_exact(const char *digits, double real)
{
	char whole[512];
	size_t n;

	snprintf(whole, sizeof(whole), "%.0f", fabs(real));
	n = strlen(whole);
	digits += strspn(digits, "+-");
	digits += strspn(digits, "0");
	if (strncmp(digits, whole, n) != 0)
		return false;
	digits += n;
	if (*digits == '.')
		digits++;
	return digits[strspn(digits, "0")] == '\0';
}

static enum real_fit fit(const char *text, double real)
{
	const char *mantissa = text + strcspn(text, "123456789eE");

	if (isinf(real))
		return REAL_TOO_LARGE;
	if (real == 0 && *mantissa && !strchr("eE", *mantissa))
		return REAL_TOO_SMALL;
	if (fabs(real) >= EXACT && !strpbrk(text, "eE") &&
	    !is_exact(text, real))
		return REAL_COARSE;
	return REAL_FITS;
}

enum real_fit number_real(struct text text, double *real)
{
	char room[SHORT_NUMBER], *copy = room;
	enum real_fit ret;

	if (text.size >= sizeof(room)) {
		copy = malloc(text.size + 1);
		if (!copy)
			return REAL_NO_MEMORY;
	}
	memcpy(copy, text.bytes, text.size);
	copy[text.size] = '\0';
	*real = strtod(copy, NULL);
	ret = fit(copy, *real);
	if (copy != room)
		free(copy);
	return ret;
}

static void add_point(char text[REAL_SIZE])
{
	if (strspn(text, "-0123456789") == strlen(text))
		strcat(text, ".0");
}

void real_text(double real, char text[REAL_SIZE])
{
	int digits;

	for (digits = 15; digits <= 17; digits++) {
		snprintf(text, REAL_SIZE, "%.*g", digits, real);
		if (strtod(text, NULL) == real)
			break;
	}
	add_point(text);
}

void real_text_short(double real, char text[REAL_SIZE])
{
	snprintf(text, REAL_SIZE, "%.15g", real);
	add_point(text);
}

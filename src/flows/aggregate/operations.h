/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations on one value: how a field of each type is loaded, and how an
 * accumulator of each kind takes it in. For files that generate loops.
 */
#ifndef DFI_FLOWS_AGGREGATE_OPERATIONS_H
#define DFI_FLOWS_AGGREGATE_OPERATIONS_H

#include <stdint.h>
#include <string.h>
#include "base/compiler.h"

/* The types to which fields are widened before folding. */
typedef int64_t wide_signed;
typedef uint64_t wide_unsigned;
typedef double wide_real;

/* Tuples may be unaligned; records are aligned. */
#define LOADER(name, type)                                      \
	static always_inline type load_##name(const char *from) \
	{                                                       \
		type value;                                     \
                                                                \
		memcpy(&value, from, sizeof(value));            \
		return value;                                   \
	}
LOADER(INT8, int8_t)
LOADER(INT16, int16_t)
LOADER(INT32, int32_t)
LOADER(INT64, int64_t)
LOADER(UINT8, uint8_t)
LOADER(UINT16, uint16_t)
LOADER(UINT32, uint32_t)
LOADER(UINT64, uint64_t)
LOADER(FLOAT, float)
LOADER(DOUBLE, double)

static always_inline double to_double(uint64_t word)
{
	double value;

	memcpy(&value, &word, sizeof(value));
	return value;
}

static always_inline uint64_t from_double(double value)
{
	uint64_t word;

	memcpy(&word, &value, sizeof(word));
	return word;
}

/*
 * Accumulators are words. a: the old accumulator, v: the value; the result is
 * the new one.
 */
#define WORD_OF_wide_signed(v) ((uint64_t)(v))
#define WORD_OF_wide_unsigned(v) (v)
#define WORD_OF_wide_real(v) from_double(v)
#define VALUE_OF_wide_signed(a) ((int64_t)(a))
#define VALUE_OF_wide_unsigned(a) (a)
#define VALUE_OF_wide_real(a) to_double(a)

/* Avoids signed overflow, which is undefined in C. */
#define SUM_wide_signed(a, v) ((int64_t)((uint64_t)(a) + (uint64_t)(v)))
#define SUM_wide_unsigned(a, v) ((a) + (v))
#define SUM_wide_real(a, v) ((a) + (v))
#define MIN_wide_signed(a, v) ((v) < (a) ? (v) : (a))
#define MIN_wide_unsigned(a, v) ((v) < (a) ? (v) : (a))
#define MAX_wide_signed(a, v) ((v) > (a) ? (v) : (a))
#define MAX_wide_unsigned(a, v) ((v) > (a) ? (v) : (a))
/* A NaN accumulator is empty, and a NaN value is ignored. */
#define MIN_wide_real(a, v) ((v) < (a) || (a) != (a) ? (v) : (a))
#define MAX_wide_real(a, v) ((v) > (a) || (a) != (a) ? (v) : (a))

/* X(set, target, name, type, wide) for each type of field. */
#define INTEGER_TYPES(X, set, target)                   \
	X(set, target, INT8, int8_t, wide_signed)       \
	X(set, target, INT16, int16_t, wide_signed)     \
	X(set, target, INT32, int32_t, wide_signed)     \
	X(set, target, INT64, int64_t, wide_signed)     \
	X(set, target, UINT8, uint8_t, wide_unsigned)   \
	X(set, target, UINT16, uint16_t, wide_unsigned) \
	X(set, target, UINT32, uint32_t, wide_unsigned) \
	X(set, target, UINT64, uint64_t, wide_unsigned)
#define TYPES(X, set, target)                   \
	INTEGER_TYPES(X, set, target)           \
	X(set, target, FLOAT, float, wide_real) \
	X(set, target, DOUBLE, double, wide_real)

/*
 * For a file with loops for one accumulator. Its SINGLE_LOOP(kind, name, step)
 * defines the function single_<kind>_<name>. step reads the variables record,
 * word and from.
 */
#define SINGLE_STEP(kind, name, wide) \
	WORD_OF_##wide(kind##_##wide( \
	    VALUE_OF_##wide(record[word]), (wide)load_##name(from)))
#define SINGLE_LOOPS_OF(set, target, name, type, wide)       \
	SINGLE_LOOP(SUM, name, SINGLE_STEP(SUM, name, wide)) \
	SINGLE_LOOP(MIN, name, SINGLE_STEP(MIN, name, wide)) \
	SINGLE_LOOP(MAX, name, SINGLE_STEP(MAX, name, wide))
#define SINGLE_LOOPS               \
	TYPES(SINGLE_LOOPS_OF, , ) \
	SINGLE_LOOP(COUNT, ALL, record[word] + 1)
#define SINGLE_ENTRIES_OF(set, target, name, type, wide) \
	[FOLD_SUM][DFI_##name] = single_SUM_##name,      \
	[FOLD_MIN][DFI_##name] = single_MIN_##name,      \
	[FOLD_MAX][DFI_##name] = single_MAX_##name,
#define SINGLE_ENTRIES \
	[FOLD_COUNT][0] = single_COUNT_ALL, TYPES(SINGLE_ENTRIES_OF, , )

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a group's record into its result tuple. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/schema.h"
#include "plan.h"

/* The size of a group's name in a text. */
#define GROUP_SIZE 256

static double as_double(uint64_t word)
{
	double value;

	memcpy(&value, &word, sizeof(value));
	return value;
}

/* Load an integer of size bytes from a key's column. */
static uint64_t load(const char *from, uint32_t size, bool is_signed)
{
	uint64_t word = 0;
	unsigned shift = 64 - 8 * size;

	memcpy(&word, from, size); /* little endian: the low bytes of word */
	return is_signed ? (uint64_t)((int64_t)(word << shift) >> shift) : word;
}

static size_t name_bytes(
    const char *bytes, uint32_t size, char *to, size_t room)
{
	size_t n = 0;
	uint32_t i;

	for (i = 0; i < size && n + 5 < room; i++)
		if (bytes[i] >= ' ' && bytes[i] <= '~')
			to[n++] = bytes[i];
		else if (bytes[i])
			n += (size_t)snprintf(to + n, room - n, "\\x%02x",
			    (unsigned char)bytes[i]);
	to[n] = 0;
	return n;
}

/* Writes "shop 7, city Rome". */
static void name_group(
    const struct plan *plan, const uint64_t *record, char text[GROUP_SIZE])
{
	const char *key = (const char *)record;
	const struct dfi_field *field;
	const struct plan_column *column;
	size_t n = 0;
	uint32_t i;

	strcpy(text, "all tuples");
	for (i = 0; i < plan->n_columns && n + 1 < GROUP_SIZE; i++) {
		field = &plan->schema->fields[i];
		column = &plan->columns[i];
		n += (size_t)snprintf(text + n, GROUP_SIZE - n, "%s%s ",
		    i ? ", " : "", field->name);
		if (n + 1 >= GROUP_SIZE)
			break;
		if (field->type == DFI_BYTES)
			n += name_bytes(key + column->at, column->size,
			    text + n, GROUP_SIZE - n);
		else if (dfi__type_is_signed(field->type))
			n += (size_t)snprintf(text + n, GROUP_SIZE - n, "%ld",
			    (long)load(key + column->at, column->size, true));
		else
			n += (size_t)snprintf(text + n, GROUP_SIZE - n, "%lu",
			    (unsigned long)load(
				key + column->at, column->size, false));
	}
}

/* Whether a wide sum fits into its low word. */
static bool fits(const struct plan_result *result, const uint64_t sum[2])
{
	if (dfi__type_is_signed(result->type))
		return sum[1] == (uint64_t)((int64_t)sum[0] >> 63);
	return sum[1] == 0;
}

static int overflow(const struct plan *plan, const struct dfi_field *field,
    const uint64_t *record)
{
	char group[GROUP_SIZE];

	name_group(plan, record, group);
	return dfi__fail(-EOVERFLOW,
	    "aggregate '%s' of %s doesn't fit 64 bits: leave "
	    "DFI_AGGREGATE_CHECKED out for a sum modulo 2^64, or sum doubles",
	    field->name, group);
}

static double wide_to_double(
    const struct plan_result *result, const uint64_t sum[2])
{
	__extension__ typedef __int128 wide;
	__extension__ typedef unsigned __int128 uwide;
	uwide all = (uwide)sum[1] << 64 | sum[0];

	return dfi__type_is_signed(result->type) ? (double)(wide)all
						 : (double)all;
}

static void average(const struct plan *plan, const struct plan_result *result,
    const uint64_t *record, char *to)
{
	const uint64_t *sum = &record[result->word];
	double value = result->wide ? wide_to_double(result, sum)
				    : as_double(*sum);

	value /= (double)record[plan->count_word];
	memcpy(to, &value, sizeof(value));
}

int dfi__plan_result(
    const struct plan *plan, const uint64_t *record, char *tuple)
{
	const struct dfi_field *field = plan->schema->fields;
	const struct plan_result *result = plan->results;
	float narrow;
	uint32_t i, n;

	memset(tuple, 0, plan->schema->tuple_size);
	for (i = 0; i < plan->n_columns; i++, field++)
		memcpy(tuple + field->offset,
		    (const char *)record + plan->columns[i].at,
		    plan->columns[i].size);
	for (i = 0; i < plan->n_results; i += n, field += n, result += n) {
		n = 1;
		if (result->run) {
			n = result->run;
			memcpy(tuple + field->offset, &record[result->word],
			    n * sizeof(*record));
			continue;
		}
		if (result->function == DFI_AVG) {
			average(plan, result, record, tuple + field->offset);
			continue;
		}
		if (result->wide && !fits(result, &record[result->word]))
			return overflow(plan, field, record);
		if (field->type == DFI_FLOAT) {
			narrow = (float)as_double(record[result->word]);
			memcpy(tuple + field->offset, &narrow, sizeof(narrow));
		} else {
			/*
			 * Little endian: the low bytes are a narrower integer.
			 */
			memcpy(tuple + field->offset, &record[result->word],
			    field->size);
		}
	}
	return 0;
}

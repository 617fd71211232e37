/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routing: every key type and several columns against a naive implementation,
 * the boundaries of ranges and partitions, and which declarations are refused.
 * tests/flow tests that all ways to push agree with it.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include <dfi/error.h>
#include <dfi/schema.h>

#include "flows/descriptor/descriptor.h"
#include "flows/declare/route.h"

#define MAX_TARGETS 64
#define N_VALUES 2000

struct row {
	char odd; /* so that no key but these is aligned */
	uint8_t bytes[63];
};

static const struct dfi_field fields[] = {
	{ "i8", NULL, DFI_INT8, 1, 1, 0 },
	{ "i16", NULL, DFI_INT16, 3, 2, 0 },
	{ "i32", NULL, DFI_INT32, 5, 4, 0 },
	{ "i64", NULL, DFI_INT64, 9, 8, 0 },
	{ "u8", NULL, DFI_UINT8, 2, 1, 0 },
	{ "u16", NULL, DFI_UINT16, 17, 2, 0 },
	{ "u32", NULL, DFI_UINT32, 19, 4, 0 },
	{ "u64", NULL, DFI_UINT64, 23, 8, 0 },
	{ "f32", NULL, DFI_FLOAT, 31, 4, 0 },
	{ "f64", NULL, DFI_DOUBLE, 35, 8, 0 },
	{ "bytes", NULL, DFI_BYTES, 43, 11, 0 },
	{ "user", "point", DFI_USER, 54, 9, 0 },
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))
#define N_INTEGERS 8

static struct dfi_schema schema = { fields, N_FIELDS, sizeof(struct row) };

static bool has_sign(const struct dfi_field *field)
{
	return field->name[0] == 'i';
}

/* The value of an integer field, extended to 64 bits, byte by byte. */
static uint64_t value_of(const struct dfi_field *field, const void *tuple)
{
	const uint8_t *at = (const uint8_t *)tuple + field->offset;
	uint64_t value = 0;
	uint32_t i;

	for (i = 8; i-- > 0;) {
		uint8_t byte = i < field->size                      ? at[i]
		    : has_sign(field) && at[field->size - 1] >= 128 ? 255
								    : 0;

		value = value * 256 + byte;
	}
	return value;
}

static bool is_below(const struct dfi_field *field, uint64_t a, int64_t b)
{
	return has_sign(field) ? (int64_t)a < b : a < (uint64_t)b;
}

/* Rows of random bytes, then ones and zeroes for the extremes. */
static void make_row(struct row *row, uint32_t number)
{
	static uint64_t state = 1;
	uint8_t *bytes = (uint8_t *)row;
	size_t i;

	for (i = 0; i < sizeof(*row); i++) {
		state = state * UINT64_C(6364136223846793005) + 1;
		bytes[i] = (uint8_t)(state >> 56);
	}
	if (number < 4)
		memset(row, number & 1 ? 0xff : 0, sizeof(*row));
	if (number == 2 || number == 3) /* 0x7f.., 0x80.. */
		for (i = 0; i < N_INTEGERS; i++)
			bytes[fields[i].offset + fields[i].size - 1] ^= 0x80;
}

static struct router declare(
    struct flow *flow, uint32_t routing, const char *key, uint32_t n_targets)
{
	struct router router;

	flow->routing = routing;
	flow->schema = &schema;
	flow->n_targets = n_targets;
	strcpy(flow->name, "f");
	cr_assert_eq(dfi__route_declare(flow, key), 0, "%s", dfi_errmsg());
	dfi__router_init(&router, flow, 0);
	return router;
}

Test(route, hash64_is_that_of_murmurhash3)
{
	cr_assert_eq(dfi_hash64(0), 0);
	cr_assert_eq(dfi_hash64(1), UINT64_C(0xb456bcfc34c2cb2c));
	cr_assert_eq(dfi_hash64(2), UINT64_C(0x3abf2a20650683e7));
}

Test(route, hash_of_bytes_is_xxh3)
{
	/* The test vector of its specification. */
	cr_assert_eq(dfi_hash_bytes("", 0, 0), UINT64_C(0x2d06800538d394c2));
	cr_assert_neq(dfi_hash_bytes("abc", 3, 0), dfi_hash_bytes("abc", 3, 1));
	cr_assert_neq(dfi_hash_bytes("abc", 3, 0), dfi_hash_bytes("abd", 3, 0));
}

Test(route, partitions_of_a_hash_are_ranges_of_its_upper_half)
{
	uint32_t n;

	for (n = 1; n < 1000; n++) {
		cr_assert_eq(dfi_hash_partition(0, n), 0);
		cr_assert_eq(dfi_hash_partition(UINT64_MAX, n), n - 1);
		cr_assert_eq(dfi_hash_partition(UINT64_C(1) << 63, n), n / 2);
	}
	cr_assert_eq(
	    dfi_hash_partition(UINT64_MAX, UINT32_MAX), UINT32_MAX - 1);
}

Test(route, radix_partitions_go_to_targets_in_order_and_to_all)
{
	uint32_t bits, n, partition, target, last;

	for (bits = 1; bits <= 8; bits++)
		for (n = 1; n <= 1u << bits; n++) {
			last = 0;
			for (partition = 0; partition < 1u << bits;
			     partition++) {
				target = dfi_radix_partition(
				    (uint64_t)partition << 7 | 5, 7, bits, n);
				cr_assert(target == last || target == last + 1);
				last = target;
			}
			cr_assert_eq(last, n - 1);
		}
	cr_assert_eq(dfi_radix_partition(UINT64_MAX, 32, 32, UINT32_MAX),
	    UINT32_MAX - 1);
}

Test(route, hash_of_each_integer_type_is_of_its_value)
{
	struct flow flow = { .n_keys = 0 };
	struct router router;
	struct row row;
	uint32_t i, n;

	for (i = 0; i < N_INTEGERS; i++)
		for (n = 1; n <= MAX_TARGETS; n += 7) {
			router = declare(
			    &flow, DFI_ROUTE_HASH, fields[i].name, n);
			for (uint32_t v = 0; v < N_VALUES / 8; v++) {
				make_row(&row, v);
				cr_assert_eq(dfi__route(&router, &row),
				    dfi_hash_partition(
					dfi_hash64(value_of(&fields[i], &row)),
					n),
				    "%s", fields[i].name);
			}
		}
}

Test(route, hash_of_other_types_is_of_their_bytes)
{
	struct flow flow = { .n_keys = 0 };
	struct router router;
	struct row row;
	uint32_t i, v;

	for (i = N_INTEGERS; i < N_FIELDS; i++) {
		router = declare(&flow, DFI_ROUTE_HASH, fields[i].name, 13);
		for (v = 0; v < N_VALUES; v++) {
			make_row(&row, v);
			cr_assert_eq(dfi__route(&router, &row),
			    dfi_hash_partition(
				dfi_hash_bytes((char *)&row + fields[i].offset,
				    fields[i].size, 0),
				13));
		}
	}
}

Test(route, hash_of_several_fields_chains_through_the_seed)
{
	struct flow flow = { .n_keys = 0 };
	struct router router = declare(
	    &flow, DFI_ROUTE_HASH, "i16,bytes,i8,u64", 29);
	uint64_t hash, value;
	struct row row;
	uint32_t v;

	for (v = 0; v < N_VALUES; v++) {
		make_row(&row, v);
		hash = dfi_hash64(value_of(&fields[1], &row));
		hash = dfi_hash_bytes((char *)&row + 43, 11, hash);
		value = value_of(&fields[0], &row);
		hash = dfi_hash_bytes(&value, sizeof(value), hash);
		value = value_of(&fields[7], &row);
		hash = dfi_hash_bytes(&value, sizeof(value), hash);
		cr_assert_eq(
		    dfi__route(&router, &row), dfi_hash_partition(hash, 29));
	}
}

Test(route, default_key_is_the_first_field)
{
	struct flow flow = { .n_keys = 0 };

	declare(&flow, DFI_ROUTE_HASH, NULL, 3);
	cr_assert_eq(flow.n_keys, 1);
	cr_assert_eq(flow.keys[0], 0);
}

Test(route, radix_of_each_integer_type_takes_its_bits)
{
	struct flow flow = { .n_keys = 0 };
	struct router router;
	struct row row;
	uint64_t part;
	uint32_t i, v;

	for (i = 0; i < N_INTEGERS; i++)
		for (flow.radix_shift = 0; flow.radix_shift < 60;
		     flow.radix_shift += 3) {
			flow.radix_bits = 4;
			router = declare(
			    &flow, DFI_ROUTE_RADIX, fields[i].name, 5);
			for (v = 0; v < 50; v++) {
				make_row(&row, v);
				part = value_of(&fields[i], &row) >>
				    flow.radix_shift;
				part = part % 16 * 5 / 16;
				cr_assert_eq(dfi__route(&router, &row), part);
			}
		}
}

/* Splits at values that occur, so that equal ones are met. */
static uint32_t make_splits(const struct dfi_field *field, int64_t *splits)
{
	uint32_t n = 0, i, v;
	struct row row;

	for (v = 0; v < 20; v++) {
		uint64_t value;

		make_row(&row, v);
		value = value_of(field, &row);
		for (i = 0; i < n &&
		     is_below(field, (uint64_t)splits[i], (int64_t)value);
		     i++)
			;
		if (i < n && splits[i] == (int64_t)value)
			continue;
		memmove(
		    &splits[i + 1], &splits[i], (n - i) * sizeof(splits[0]));
		splits[i] = (int64_t)value;
		n++;
	}
	return n;
}

static void check_range(const struct dfi_field *field)
{
	struct flow flow = { .n_keys = 0 };
	int64_t splits[MAX_TARGETS];
	uint32_t n = make_splits(field, splits), i, v;
	struct router router;
	struct row row;

	flow.splits = splits;
	router = declare(&flow, DFI_ROUTE_RANGE, field->name, n + 1);
	for (v = 0; v < N_VALUES; v++) {
		make_row(&row, v);
		for (i = 0; i < n; i++)
			if (is_below(field, value_of(field, &row), splits[i]))
				break;
		cr_assert_eq(dfi__route(&router, &row), i, "%s", field->name);
	}
	for (i = 0; i < n; i++) {
		memcpy((char *)&row + field->offset, &splits[i], field->size);
		cr_assert_eq(dfi__route(&router, &row), i + 1);
	}
}

Test(route, range_compares_as_the_type_does)
{
	uint32_t i;

	for (i = 0; i < N_INTEGERS; i++)
		check_range(&fields[i]);
}

static uint32_t route_i64(int64_t *splits, uint32_t n_targets, int64_t key)
{
	struct flow flow = { .splits = splits };
	struct router router = declare(
	    &flow, DFI_ROUTE_RANGE, "i64", n_targets);
	struct row row;

	memcpy((char *)&row + 9, &key, sizeof(key));
	return dfi__route(&router, &row);
}

Test(route, range_extremes_are_reached)
{
	int64_t all[] = { INT64_MIN, 0, INT64_MAX };

	/* Nothing is below the least split. */
	cr_assert_eq(route_i64(all, 4, INT64_MIN), 1);
	cr_assert_eq(route_i64(all, 4, -1), 1);
	cr_assert_eq(route_i64(all, 4, 0), 2);
	cr_assert_eq(route_i64(all, 4, INT64_MAX - 1), 2);
	cr_assert_eq(route_i64(all, 4, INT64_MAX), 3);
	cr_assert_eq(route_i64(NULL, 1, 5), 0);
}

Test(route, unsigned_splits_may_lie_above_the_signed_ones)
{
	int64_t splits[] = { 1, INT64_MIN, -1 }; /* 1, 2^63, 2^64 - 1 */
	struct flow flow = { .splits = splits };
	struct router router = declare(&flow, DFI_ROUTE_RANGE, "u64", 4);
	static const uint64_t keys[] = { 0, 1, INT64_MAX, (uint64_t)INT64_MIN,
		UINT64_MAX - 1, UINT64_MAX };
	static const uint32_t targets[] = { 0, 1, 1, 2, 2, 3 };
	struct row row;
	size_t i;

	for (i = 0; i < 6; i++) {
		memcpy((char *)&row + 23, &keys[i], sizeof(keys[i]));
		cr_assert_eq(dfi__route(&router, &row), targets[i]);
	}
}

Test(route, round_robin_starts_at_the_sources_own_number)
{
	struct flow flow = { .n_keys = 0 };
	struct router router;
	struct row row = { 0 };
	uint32_t index, i;

	declare(&flow, DFI_ROUTE_ROUND_ROBIN, NULL, 3);
	for (index = 0; index < 7; index++) {
		dfi__router_init(&router, &flow, index);
		for (i = 0; i < 10; i++)
			cr_assert_eq(
			    dfi__route(&router, &row), (index + i) % 3);
	}
}

static uint32_t last_target(void *arg, const void *tuple, uint32_t n_targets)
{
	*(const void **)arg = tuple;
	return n_targets - 1;
}

Test(route, function_gets_its_argument_and_the_tuple)
{
	struct flow flow = { .n_keys = 0 };
	struct router router = declare(&flow, DFI_ROUTE_FUNCTION, NULL, 6);
	const void *seen = NULL;
	struct row row;

	router.function = last_target;
	router.function_arg = &seen;
	cr_assert_eq(dfi__route(&router, &row), 5);
	cr_assert_eq(seen, &row);
}

static void refuse(struct flow *flow, const char *key, const char *word)
{
	flow->schema = &schema;
	strcpy(flow->name, "f");
	cr_assert_eq(dfi__route_declare(flow, key), -EINVAL, "%s", word);
	cr_assert(strstr(dfi_errmsg(), "flow 'f'") != NULL);
	cr_assert(strstr(dfi_errmsg(), word) != NULL, "'%s' is not in '%s'",
	    word, dfi_errmsg());
}

Test(route, unknown_keys_are_refused_by_name)
{
	struct flow flow = { .routing = DFI_ROUTE_HASH, .n_targets = 2 };

	refuse(&flow, "none", "'none'");
	refuse(&flow, "", "''");
	refuse(&flow, "i8,", "''");
	refuse(&flow, "i8,i1", "'i1'");
	refuse(&flow, "i8 ,i16", "'i8 '");
	refuse(&flow, "i8,i16,i32,i64,u8,u16,u32,u64,f32", "more than 8");
	refuse(&flow, "i8,i16,i8", "names 'i8' twice");
	flow.routing = DFI_ROUTE_DIRECT + 1;
	refuse(&flow, NULL, "routing 6");
}

Test(route, radix_that_makes_no_sense_is_refused)
{
	static const uint32_t bad[][2] = { { 0, 0 }, { 0, 33 }, { 64, 1 },
		{ 33, 32 }, { 63, 2 }, { UINT32_MAX, 1 }, { 1, UINT32_MAX } };
	struct flow flow = { .routing = DFI_ROUTE_RADIX, .n_targets = 2 };
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		flow.radix_shift = bad[i][0];
		flow.radix_bits = bad[i][1];
		refuse(&flow, "u64", "radix_bits");
	}
	flow.radix_shift = 0;
	flow.radix_bits = 3;
	flow.n_targets = 9;
	refuse(&flow, "u64", "fewer than");
	flow.n_targets = 8;
	refuse(&flow, "f64", "integer");
	refuse(&flow, "u64,u32", "one");
	cr_assert_eq(dfi__route_declare(&flow, "u64"), 0);
}

Test(route, splits_that_do_not_ascend_are_refused)
{
	int64_t equal[] = { 1, 1 }, falling[] = { 2, 1 }, sign[] = { -1, 1 };
	struct flow flow = { .routing = DFI_ROUTE_RANGE, .n_targets = 3 };

	refuse(&flow, "i64", "splits");
	flow.splits = equal;
	refuse(&flow, "i64", "splits[1]");
	flow.splits = falling;
	refuse(&flow, "u8", "splits[1]");
	flow.splits = sign;
	cr_assert_eq(dfi__route_declare(&flow, "i64"), 0);
	/* As an unsigned number -1 is the largest. */
	refuse(&flow, "u64", "splits[1]");
	refuse(&flow, "bytes", "integer");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random flows from a seed, and the oracle that says where each tuple must go.
 * The oracle shares only the hash of byte arrays with the library; it is
 * written to be obvious, not fast.
 */
#include "property_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

static bool is_signed(uint32_t type)
{
	return type >= DFI_INT8 && type <= DFI_INT64;
}

static bool is_integer(uint32_t type)
{
	return type >= DFI_INT8 && type <= DFI_UINT64;
}

/* An integer key, extended to 64 bits as its type says, byte by byte. */
static uint64_t load_key(const struct plan *plan, const uint8_t *tuple)
{
	const uint8_t *at = tuple + plan->key_offset;
	bool negative = is_signed(plan->key_type) &&
	    at[plan->key_size - 1] & 0x80;
	uint64_t value = 0;
	uint32_t i;

	for (i = 0; i < 8; i++)
		value |= (uint64_t)(i < plan->key_size ? at[i]
				 : negative            ? 0xff
						       : 0)
		    << (8 * i);
	return value;
}

static bool is_below(const struct plan *plan, uint64_t a, uint64_t b)
{
	return is_signed(plan->key_type) ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t naive_hash(uint64_t x)
{
	x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd);
	x = (x ^ (x >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ (x >> 33);
}

static uint64_t hash_field(const struct plan *plan, const char *name,
    uint32_t number, const uint8_t *tuple, uint64_t hash)
{
	const struct dfi_field *field = plan->fields;
	uint64_t value;

	while (strcmp(field->name, name) != 0)
		field++;
	if (!is_integer(field->type))
		return dfi_hash_bytes(tuple + field->offset, field->size, hash);
	value = load_key(plan, tuple);
	return number ? dfi_hash_bytes(&value, sizeof(value), hash)
		      : naive_hash(value);
}

static uint64_t hash_tuple(const struct plan *plan, const uint8_t *tuple)
{
	char names[sizeof(plan->key)], *save, *name;
	uint32_t number = 0;
	uint64_t hash = 0;

	strcpy(names, *plan->key ? plan->key : plan->fields[0].name);
	for (name = strtok_r(names, ",", &save); name;
	     name = strtok_r(NULL, ",", &save))
		hash = hash_field(plan, name, number++, tuple, hash);
	return hash;
}

uint32_t plan_function(void *arg, const void *tuple, uint32_t n_targets)
{
	const struct plan *plan = arg;
	const uint8_t *bytes = tuple;

	return (bytes[0] * 7u + bytes[plan->tuple_size - 1]) % n_targets;
}

uint32_t plan_route(const struct plan *plan, uint32_t source, uint32_t seq,
    const uint8_t *tuple)
{
	uint32_t n = plan->n_targets, i;
	uint64_t part;

	if (plan->kind == DFI_REPLICATE)
		return DFI_ALL_TARGETS;
	switch (plan->routing) {
	case DFI_ROUTE_RADIX:
		part = load_key(plan, tuple) >> plan->radix_shift;
		part %= UINT64_C(1) << plan->radix_bits;
		return (uint32_t)(part * n / (UINT64_C(1) << plan->radix_bits));
	case DFI_ROUTE_RANGE:
		for (i = 0; i + 1 < n; i++)
			if (is_below(plan, load_key(plan, tuple),
				(uint64_t)plan->splits[i]))
				break;
		return i;
	case DFI_ROUTE_ROUND_ROBIN:
		return (source + seq) % n;
	case DFI_ROUTE_FUNCTION:
		return plan_function((void *)plan, tuple, n);
	case DFI_ROUTE_DIRECT:
		return (uint32_t)(mix(plan->seed + source, seq / 3) % n);
	default:
		part = hash_tuple(plan, tuple) >> 32;
		return (uint32_t)((part * n) / (UINT64_C(1) << 32));
	}
}

bool plan_goes_to(const struct plan *plan, uint32_t source, uint32_t seq,
    const uint8_t *tuple, uint32_t target)
{
	return plan->kind == DFI_REPLICATE ||
	    plan_route(plan, source, seq, tuple) == target;
}

void plan_tuple(
    const struct plan *plan, uint32_t source, uint32_t seq, uint8_t *tuple)
{
	uint64_t word = mix(plan->seed + source, seq);
	uint32_t i;

	for (i = 0; i < plan->tuple_size; i++)
		tuple[i] = (uint8_t)(word >> (i % 8 * 8)) ^ (uint8_t)i;
	word = mix(word, 1) & plan->key_mask;
	for (i = 0; i < plan->key_size; i++)
		tuple[plan->key_offset + i] = (uint8_t)(i < 8 ? word >> (8 * i)
							      : 0);
	if (plan->source_at < plan->tuple_size)
		tuple[plan->source_at] = (uint8_t)source;
}

static void add_field(struct plan *plan, const char *name, uint32_t type,
    uint32_t offset, uint32_t size)
{
	if (!size)
		return;
	plan->fields[plan->schema.n_fields++] = (struct dfi_field){
		.name = name,
		.type = type,
		.offset = offset,
		.size = size,
	};
}

/* Sizes of one tuple: often small, sometimes large, rarely round. */
static uint32_t random_size(struct rng *rng)
{
	switch (rng_below(rng, 8)) {
	case 0:
		return 1 + rng_below(rng, 8);
	case 1:
		return 8u << rng_below(rng, 4);
	case 2:
		return 1 + rng_below(rng, PLAN_MAX_TUPLE);
	case 3:
	case 4:
		return 16;
	default:
		return 1 + rng_below(rng, 80);
	}
}

static void make_layout(struct plan *plan, struct rng *rng)
{
	uint32_t after;

	plan->tuple_size = random_size(rng);
	plan->key_type = DFI_INT8 + rng_below(rng, 8);
	/* DFI_INT8 to DFI_INT64 and again DFI_UINT8 to DFI_UINT64 */
	plan->key_size = 1u << ((plan->key_type - DFI_INT8) % 4);
	if (plan->key_size > plan->tuple_size || !rng_below(rng, 8)) {
		plan->key_type = DFI_BYTES;
		plan->key_size = 1 + rng_below(rng, plan->tuple_size);
	}
	if (rng_below(rng, 2))
		plan->key_offset = rng_below(
		    rng, plan->tuple_size - plan->key_size + 1);
	plan->key_mask = rng_below(rng, 2) ? UINT64_MAX : 15;
	after = plan->key_offset + plan->key_size;
	plan->schema.fields = plan->fields;
	plan->schema.tuple_size = plan->tuple_size;
	add_field(
	    plan, "key", plan->key_type, plan->key_offset, plan->key_size);
	add_field(plan, "before", DFI_BYTES, 0, plan->key_offset);
	add_field(plan, "after", DFI_BYTES, after, plan->tuple_size - after);
	plan->source_at = plan->key_offset ? 0 : after;
}

static int compare_signed(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int compare_unsigned(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Splits from existing keys; equal ones would be invalid. */
static bool make_splits(struct plan *plan)
{
	uint8_t tuple[PLAN_MAX_TUPLE];
	uint32_t i, n = plan->n_targets - 1;

	for (i = 0; i < n; i++) {
		plan_tuple(plan, 0, i * 7, tuple);
		plan->splits[i] = (int64_t)load_key(plan, tuple);
	}
	qsort(plan->splits, n, sizeof(plan->splits[0]),
	    is_signed(plan->key_type) ? compare_signed : compare_unsigned);
	for (i = 1; i < n; i++)
		if (plan->splits[i] == plan->splits[i - 1])
			return false;
	return true;
}

static void make_routing(struct plan *plan, struct rng *rng)
{
	static const char *const keys[] = { "", "key", "key,after", "after,key",
		"before,key,after" };
	const char *key = keys[rng_below(rng, N_ELEMENTS(keys))];
	uint32_t bits;

	plan->routing = rng_below(rng, DFI_ROUTE_DIRECT + 1);
	if ((plan->routing == DFI_ROUTE_RADIX ||
		plan->routing == DFI_ROUTE_RANGE) &&
	    !is_integer(plan->key_type))
		plan->routing = DFI_ROUTE_HASH;
	if (plan->routing == DFI_ROUTE_RANGE && !make_splits(plan))
		plan->routing = DFI_ROUTE_HASH;
	if (plan->routing == DFI_ROUTE_RADIX) {
		bits = 2 + rng_below(rng, 8 * plan->key_size - 1);
		plan->radix_bits = bits > 32 ? 32 : bits;
		plan->radix_shift = rng_below(rng, 65 - plan->radix_bits);
	}
	/* Several fields only for hashing, and only existing ones. */
	if (plan->routing == DFI_ROUTE_HASH && plan->schema.n_fields == 3)
		strcpy(plan->key, key);
}

static void make_geometry(struct plan *plan, struct rng *rng)
{
	static const uint32_t counts[] = { 1, 2, 3, 4, 5, 7, 8, 32 };
	uint32_t tuples = 1 + rng_below(rng, rng_below(rng, 2) ? 4 : 40);

	if (!rng_below(rng, 8))
		return; /* the library's choice */
	plan->segment_count = counts[rng_below(rng, N_ELEMENTS(counts))];
	if (plan->goal == DFI_BANDWIDTH)
		plan->segment_size = tuples * plan->tuple_size +
		    rng_below(rng, plan->tuple_size);
}

void plan_make(struct plan *plan, uint64_t seed)
{
	struct rng rng = { .state = mix(seed, 42) };
	uint32_t i;

	memset(plan, 0, sizeof(*plan));
	plan->seed = seed;
	snprintf(
	    plan->name, sizeof(plan->name), "seed-%lu", (unsigned long)seed);
	plan->n_sources = 1 + rng_below(&rng, PLAN_MAX_ENDS);
	plan->n_targets = 1 + rng_below(&rng, PLAN_MAX_ENDS);
	for (i = 0; i < plan->n_sources; i++)
		plan->n_tuples[i] = rng_below(&rng, 10)
		    ? rng_below(&rng, rng_below(&rng, 4) ? 100 : 800)
		    : 0;
	make_layout(plan, &rng);
	plan->goal = rng_below(&rng, 3) ? DFI_BANDWIDTH : DFI_LATENCY;
	make_routing(plan, &rng);
	make_geometry(plan, &rng);
	plan->kind = rng_below(&rng, 4) ? DFI_SHUFFLE : DFI_REPLICATE;
	if (plan->kind == DFI_SHUFFLE)
		return;
	plan->routing = plan->radix_bits = plan->radix_shift = 0;
	plan->replication = rng_below(&rng, 3) ? DFI_REPLICATION_DEFAULT
					       : DFI_REPLICATION_NAIVE;
}

int plan_create(const struct plan *plan, struct dfi *dfi)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = plan->kind,
		.replicate.method = plan->replication,
		.schema = &plan->schema,
		.n_sources = plan->n_sources,
		.n_targets = plan->n_targets,
		.goal = plan->goal,
		.routing = plan->routing,
		.key = *plan->key && plan->kind == DFI_SHUFFLE ? plan->key
							       : NULL,
		.radix_shift = plan->radix_shift,
		.radix_bits = plan->radix_bits,
		.splits = plan->kind == DFI_SHUFFLE ? plan->splits : NULL,
		.segment_size = plan->segment_size,
		.segment_count = plan->segment_count,
	};

	return dfi_flow_create(dfi, plan->name, &attr);
}

void plan_text(const struct plan *plan, char *text, size_t size)
{
	snprintf(text, size,
	    "%u:%u, %u-byte tuples, key type %u (%u bytes at %u) keys '%s', "
	    "kind %u, goal %u, routing %u, segments %u x %u, tuples %u %u %u "
	    "%u",
	    plan->n_sources, plan->n_targets, plan->tuple_size, plan->key_type,
	    plan->key_size, plan->key_offset, plan->key, plan->kind, plan->goal,
	    plan->routing, plan->segment_count, plan->segment_size,
	    plan->n_tuples[0], plan->n_tuples[1], plan->n_tuples[2],
	    plan->n_tuples[3]);
}

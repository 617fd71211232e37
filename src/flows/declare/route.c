/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routing by any key. Pushes inline the common case, the hash or radix of one
 * 8-byte integer (push.c, dfi/push.h); that code must agree with this file.
 */
#include "route.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>
#include "base/error.h"
#include "base/schema.h"
#include "flows/descriptor/descriptor.h"

uint64_t dfi_hash_bytes(const void *bytes, size_t size, uint64_t seed)
{
	return XXH3_64bits_withSeed(bytes, size, seed);
}

const char *dfi__routing_attr(const struct dfi_flow_attr *attr)
{
	if (attr->routing && attr->routing != DFI_ROUTE_FUNCTION &&
	    attr->routing != DFI_ROUTE_DIRECT)
		return "routing";
	if (attr->key)
		return "key";
	if (attr->radix_shift)
		return "radix_shift";
	if (attr->radix_bits)
		return "radix_bits";
	return attr->splits ? "splits" : NULL;
}

int dfi__route_keys(struct flow *flow, const char *attr, const char *key)
{
	const struct dfi_field *field;
	uint32_t index, i;
	size_t length;

	flow->n_keys = 0;
	for (;; key += length + 1) {
		length = strcspn(key, ",");
		field = dfi__schema_field(flow->schema, key, length);
		if (!field)
			return dfi__fail(-EINVAL,
			    "flow '%s': %s: the schema has no field '%.*s'",
			    flow->name, attr, (int)length, key);
		if (flow->n_keys == DFI_MAX_KEYS)
			return dfi__fail(-EINVAL,
			    "flow '%s': %s: more than %d fields", flow->name,
			    attr, DFI_MAX_KEYS);
		index = (uint32_t)(field - flow->schema->fields);
		for (i = 0; i < flow->n_keys; i++)
			if (flow->keys[i] == index)
				return dfi__fail(-EINVAL,
				    "flow '%s': %s: names '%.*s' twice",
				    flow->name, attr, (int)length, key);
		flow->keys[flow->n_keys++] = index;
		if (!key[length])
			return 0;
	}
}

static int check_radix(const struct flow *flow)
{
	if (!flow->radix_bits || flow->radix_bits > 32 ||
	    flow->radix_shift > 63 || flow->radix_shift + flow->radix_bits > 64)
		return dfi__fail(-EINVAL,
		    "flow '%s': radix_bits %u at radix_shift %u are not 1 to "
		    "32 bits of a 64-bit key",
		    flow->name, flow->radix_bits, flow->radix_shift);
	if (dfi__flow_ways(flow) > UINT64_C(1) << flow->radix_bits)
		return dfi__fail(-EINVAL,
		    "flow '%s': radix_bits %u make %lu partitions, fewer than "
		    "the %u %s",
		    flow->name, flow->radix_bits, 1ul << flow->radix_bits,
		    dfi__flow_ways(flow),
		    flow->partitions ? "of open.partitions" : "targets");
	return 0;
}

static int check_splits(const struct flow *flow, bool is_signed)
{
	uint32_t i;

	if (dfi__flow_ways(flow) > 1 && !flow->splits)
		return dfi__fail(-EINVAL,
		    "flow '%s': splits: DFI_ROUTE_RANGE needs %s - 1 of them",
		    flow->name,
		    flow->partitions ? "open.partitions" : "n_targets");
	for (i = 1; i + 1 < dfi__flow_ways(flow); i++)
		if (is_signed ? flow->splits[i] <= flow->splits[i - 1]
			      : (uint64_t)flow->splits[i] <=
			    (uint64_t)flow->splits[i - 1])
			return dfi__fail(-EINVAL,
			    "flow '%s': splits[%u] is not above splits[%u]",
			    flow->name, i, i - 1);
	return 0;
}

int dfi__route_declare(struct flow *flow, const char *key)
{
	const struct dfi_field *field;
	int ret;

	if (flow->routing == DFI_ROUTE_ANY && !flow->membership)
		return dfi__fail(-EINVAL,
		    "flow '%s': routing %u (DFI_ROUTE_ANY) is for open flows: "
		    "set open.membership to DFI_MEMBERS_OPEN, or choose "
		    "another routing",
		    flow->name, flow->routing);
	if (flow->routing > DFI_ROUTE_ANY)
		return dfi__fail(-EINVAL,
		    "flow '%s': routing %u is no enum dfi_routing", flow->name,
		    flow->routing);
	flow->keys[0] = 0; /* the default: the first field */
	flow->n_keys = 1;
	ret = key ? dfi__route_keys(flow, "key", key) : 0;
	if (ret < 0)
		return ret;
	if (flow->routing != DFI_ROUTE_RADIX &&
	    flow->routing != DFI_ROUTE_RANGE)
		return 0;
	field = &flow->schema->fields[flow->keys[0]];
	if (flow->n_keys != 1 || !dfi__type_is_integer(field->type))
		return dfi__fail(-EINVAL,
		    "flow '%s': key: radix and range routing need one "
		    "integer field",
		    flow->name);
	if (flow->routing == DFI_ROUTE_RADIX)
		return check_radix(flow);
	return check_splits(flow, dfi__type_is_signed(field->type));
}

void dfi__router_init(
    struct router *router, const struct flow *flow, uint32_t index)
{
	const struct dfi_field *field;
	uint32_t i;

	*router = (struct router){
		.routing = flow->routing,
		.n_targets = dfi__flow_ways(flow),
		.n_keys = flow->n_keys,
		.radix_shift = flow->radix_shift,
		.radix_bits = flow->radix_bits,
		.splits = flow->splits,
		.next = index % flow->n_targets,
	};
	for (i = 0; i < flow->n_keys; i++) {
		field = &flow->schema->fields[flow->keys[i]];
		router->keys[i] = (struct key_field){
			.type = field->type,
			.offset = field->offset,
			.size = field->size,
		};
	}
}

/* Load an integer field, sign- or zero-extended. */
static uint64_t load_integer(const struct key_field *key, const void *tuple)
{
	const char *at = (const char *)tuple + key->offset;
	uint64_t u64 = 0;
	int32_t i32;
	int16_t i16;

	switch (key->type) {
	case DFI_INT8:
		return (uint64_t) * (const signed char *)at;
	case DFI_INT16:
		memcpy(&i16, at, sizeof(i16));
		return (uint64_t)i16;
	case DFI_INT32:
		memcpy(&i32, at, sizeof(i32));
		return (uint64_t)i32;
	case DFI_UINT8:
		return *(const unsigned char *)at;
	case DFI_UINT16:
	case DFI_UINT32:
		/* Little endian; context.c checks that. */
		memcpy(&u64, at, key->type == DFI_UINT16 ? 2 : 4);
		return u64;
	default:
		memcpy(&u64, at, sizeof(u64));
		return u64;
	}
}

/* dfi_hash_bytes() describes how the fields chain. */
static uint64_t hash_keys(const struct router *router, const void *tuple)
{
	const struct key_field *key = router->keys;
	uint64_t value, hash = 0;
	uint32_t i;

	for (i = 0; i < router->n_keys; i++, key++) {
		if (!dfi__type_is_integer(key->type)) {
			hash = XXH3_64bits_withSeed(
			    (const char *)tuple + key->offset, key->size, hash);
			continue;
		}
		value = load_integer(key, tuple);
		hash = i ? XXH3_64bits_withSeed(&value, sizeof(value), hash)
			 : dfi_hash64(value);
	}
	return hash;
}

/* Find the first split above the key, by binary search. */
static uint32_t route_range(const struct router *router, const void *tuple)
{
	uint64_t key = load_integer(&router->keys[0], tuple);
	uint64_t flip = dfi__type_is_signed(router->keys[0].type)
	    ? UINT64_C(1) << 63
	    : 0;
	uint32_t low = 0, high = router->n_targets - 1, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if ((key ^ flip) < ((uint64_t)router->splits[middle] ^ flip))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

uint32_t dfi__route(struct router *router, const void *tuple)
{
	uint32_t target;

	switch (router->routing) {
	case DFI_ROUTE_RADIX:
		return dfi_radix_partition(
		    load_integer(&router->keys[0], tuple), router->radix_shift,
		    router->radix_bits, router->n_targets);
	case DFI_ROUTE_RANGE:
		return route_range(router, tuple);
	case DFI_ROUTE_ROUND_ROBIN:
		target = router->next;
		router->next = target + 1 == router->n_targets ? 0 : target + 1;
		return target;
	case DFI_ROUTE_FUNCTION:
		return router->function(
		    router->function_arg, tuple, router->n_targets);
	default:
		return dfi_hash_partition(
		    hash_keys(router, tuple), router->n_targets);
	}
}

bool dfi__router_hashes64(const struct router *router)
{
	return router->routing == DFI_ROUTE_HASH && router->n_keys == 1 &&
	    (router->keys[0].type == DFI_INT64 ||
		router->keys[0].type == DFI_UINT64);
}

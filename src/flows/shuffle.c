/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tuple paths of shuffle flows: routing a tuple, or a batch of them, into
 * the open segments of its targets.
 */
#include "source.h"

#include <string.h>
#include "../base/bits.h"
#include "../base/compiler.h"
#include "../base/error.h"

/* Sticky: the tuple is lost, so the stream must not end as if it were whole. */
int dfi_source_no_target(struct dfi_source *source, uint32_t target)
{
	int ret = source_check(source);

	if (ret < 0)
		return ret;
	return dfi__source_fail(source, dfi__source_no_target(source, target));
}

static int check_routable(struct dfi_source *source)
{
	int ret = dfi__source_check_free(source);

	if (ret || source->router.routing != DFI_ROUTE_DIRECT)
		return ret;
	dfi__fail(-EPROTOTYPE,
	    "flow '%s' has direct routing: name the target "
	    "(dfi_source_push_to(), dfi_source_claim() or a cursor)",
	    source->flow.name);
	return dfi__source_fail(source, -EPROTOTYPE);
}

/* Round robin goes on only when the tuple was taken. */
static int push_routed(struct dfi_source *source, const void *tuple)
{
	uint32_t next = source->router.next;
	uint32_t target = dfi__route(&source->router, tuple);
	int ret = dfi_source_push_to(source, target, tuple);

	if (unlikely(ret < 0))
		source->router.next = next;
	return ret;
}

int dfi_source_push_slow(struct dfi_source *source, const void *tuple)
{
	int ret = check_routable(source);

	return ret < 0 ? ret : push_routed(source, tuple);
}

/* All to one target: whole runs at a time. */
static uint32_t batch_to_one(
    struct dfi_source *source, const char *tuples, uint32_t n, int *ret)
{
	struct dfi_source_lane *lane = &source->head.lanes[0];
	size_t size = source->head.tuple_size, run;
	uint32_t taken = 0;

	while (taken < n) {
		if (!source->writers[0].segment) {
			*ret = dfi__source_make_room_to_push(source, 0);
			if (*ret < 0)
				break;
		}
		run = min_u64(
		    (n - taken) * size, (uint64_t)(lane->end - lane->next));
		memcpy(lane->next, tuples, run);
		lane->next += run;
		tuples += run;
		taken += (uint32_t)(run / size);
		if (lane->next == lane->end) {
			*ret = dfi__source_send(source, 0);
			if (*ret < 0)
				break;
		}
	}
	return taken;
}

static uint32_t batch_any(
    struct dfi_source *source, const char *tuples, uint32_t n, int *ret)
{
	uint32_t taken;

	for (taken = 0; taken < n; taken++) {
		*ret = push_routed(source, tuples);
		if (*ret < 0)
			break;
		tuples += source->head.tuple_size;
	}
	return taken;
}

/*
 * The common keys: one 8-byte integer, hashed or by radix. Compiled once for
 * each tuple size below, so that copying a tuple is a move and the loop has no
 * calls until a segment is full. As in dfi_source_push_lane(), a lane always
 * has room for one more tuple.
 */
static always_inline uint32_t batch_by_integer(struct dfi_source *source,
    const char *tuples, uint32_t n, size_t size, bool radix, int *ret)
{
	struct dfi_source_lane *lanes = source->head.lanes, *lane;
	const uint32_t n_lanes = source->head.n_lanes;
	const uint32_t shift = source->router.radix_shift;
	const uint32_t bits = source->router.radix_bits;
	const char *key_at = tuples + source->head.key_offset;
	uint32_t taken, target;
	uint64_t key;
	char *next;

	for (taken = 0; taken < n; taken++) {
		memcpy(&key, key_at, sizeof(key));
		target = radix ? dfi_radix_partition(key, shift, bits, n_lanes)
			       : dfi_hash_partition(dfi_hash64(key), n_lanes);
		lane = &lanes[target];
		next = lane->next;
		memcpy(next, tuples, size);
		next += size;
		lane->next = next;
		tuples += size;
		key_at += size;
		if (unlikely(next == lane->end)) {
			*ret = dfi_source_lane_full(source, target);
			if (*ret < 0)
				break;
		}
	}
	return taken;
}

#define BATCH_SIZES(X) X(8) X(16) X(24) X(32) X(64)

#define X(size)                                                               \
	static uint32_t batch_hash_##size(struct dfi_source *source,          \
	    const char *tuples, uint32_t n, int *ret)                         \
	{                                                                     \
		return batch_by_integer(source, tuples, n, size, false, ret); \
	}                                                                     \
	static uint32_t batch_radix_##size(struct dfi_source *source,         \
	    const char *tuples, uint32_t n, int *ret)                         \
	{                                                                     \
		return batch_by_integer(source, tuples, n, size, true, ret);  \
	}
BATCH_SIZES(X)
#undef X

static uint32_t batch_integer(struct dfi_source *source, const char *tuples,
    uint32_t n, bool radix, int *ret)
{
	switch (source->head.tuple_size) {
#define X(size)                                                           \
	case size:                                                        \
		return radix ? batch_radix_##size(source, tuples, n, ret) \
			     : batch_hash_##size(source, tuples, n, ret);
		BATCH_SIZES(X)
#undef X
	default:
		return batch_by_integer(
		    source, tuples, n, source->head.tuple_size, radix, ret);
	}
}

static bool has_integer_radix(const struct router *router)
{
	return router->routing == DFI_ROUTE_RADIX &&
	    (router->keys[0].type == DFI_UINT64 ||
		router->keys[0].type == DFI_INT64);
}

int dfi_source_push_batch(
    struct dfi_source *source, const void *tuples, uint32_t n)
{
	uint32_t taken;
	int ret = check_routable(source);

	if (ret < 0)
		return ret;
	if (n > INT32_MAX)
		return dfi__fail(-EINVAL,
		    "flow '%s': source %u: push_batch: %u tuples are more "
		    "than %d",
		    source->flow.name, source->index, n, INT32_MAX);
	if (source->head.inline_routing == DFI_INLINE_ONE)
		taken = batch_to_one(source, tuples, n, &ret);
	else if (source->head.inline_routing == DFI_INLINE_HASH64)
		taken = batch_integer(source, tuples, n, false, &ret);
	else if (has_integer_radix(&source->router))
		taken = batch_integer(source, tuples, n, true, &ret);
	else
		taken = batch_any(source, tuples, n, &ret);
	return taken ? (int)taken : ret;
}

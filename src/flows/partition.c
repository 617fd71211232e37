/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops are compiled once for each of the common tuple sizes, so that
 * copying a tuple is a move, and call nothing until a segment is full.
 */
#include "partition.h"

#include <string.h>
#include <dfi/copy.h>
#include "../base/compiler.h"

/* Counters of a byte in a word: that many lanes, that many tuples each. */
#define PACKED_LANES 8
#define PACKED_TUPLES 255

/* Of larger tuples, copying takes longer than that load. */
#define PACKED_SIZE 64

/* Larger tuples are copied without prefetches. */
#define PREFETCH_SIZE 32

/* Shorter blocks are not worth their preparation. */
#define PACKED_MIN 16

/* The constant part of a loop. */
struct partitioner {
	struct dfi_source *source;
	struct dfi_source_lane *lanes;
	uint32_t n_lanes;
	uint32_t key_offset;
	uint32_t tuple_size;
	uint32_t radix_shift, radix_bits;
	bool radix; /* else by hash */
};

/* A run of tuples that were not copied yet. */
struct run {
	const char *tuples;
	uint32_t n;
};

static always_inline uint32_t target_of(
    const struct partitioner *p, const char *tuple)
{
	uint64_t key;

	memcpy(&key, tuple + p->key_offset, sizeof(key));
	if (p->radix)
		return dfi_radix_partition(
		    key, p->radix_shift, p->radix_bits, p->n_lanes);
	return dfi_hash64_partition(key, p->n_lanes);
}

/*
 * Copy n tuples, whatever room there is. As in dfi_source_push_lane(), a lane
 * always has room for one more.
 */
static always_inline int copy_each(
    const struct partitioner *p, struct run *run, uint32_t n)
{
	const size_t size = p->tuple_size;
	struct dfi_source_lane *lane;
	uint32_t target;
	char *next;
	int ret;

	for (; n > 0; n--) {
		target = target_of(p, run->tuples);
		lane = &p->lanes[target];
		next = lane->next;
		/* It takes longer than copying a larger tuple to a few lanes.
		 */
		if (size <= PREFETCH_SIZE)
			dfi_prefetch_write(next + DFI_PREFETCH_DISTANCE);
		memcpy(next, run->tuples, size);
		if (unlikely(dfi_source_lane_advance(lane, next + size))) {
			ret = dfi_source_lane_full(p->source, target);
			if (ret < 0)
				return ret;
		}
		run->tuples += size;
		run->n--;
	}
	return 0;
}

/* How many of n tuples fit, even if all go to the same lane. */
static always_inline uint32_t packed_room(
    const struct partitioner *p, uint32_t n)
{
	const struct dfi_source_lane *lane = p->lanes;
	uint32_t room;
	char *end;

	if (n > PACKED_TUPLES)
		n = PACKED_TUPLES;
	for (; lane != p->lanes + p->n_lanes; lane++) {
		end = lane_end(lane);
		/* Lowered below next, it asks for a call with the next tuple.
		 */
		room = end > lane->next
		    ? (uint32_t)(end - lane->next) / p->tuple_size
		    : 0;
		if (room < n)
			n = room;
	}
	return n;
}

/*
 * Copy n tuples, for which there is room in any lane. A position in memory
 * costs a load that depends on the store of one of the last tuples, one can't
 * say which; so the tuples of each lane are counted in one register.
 */
static always_inline int copy_packed(
    const struct partitioner *p, struct run *run, uint32_t n)
{
	const size_t size = p->tuple_size;
	const char *tuple = run->tuples, *end = tuple + n * size;
	uint64_t counts = 0, count;
	char *bases[PACKED_LANES], *to;
	uint32_t target, shift;
	int ret = 0;

	for (target = 0; target < p->n_lanes; target++)
		bases[target] = p->lanes[target].next;
	for (; tuple != end; tuple += size) {
		target = target_of(p, tuple);
		shift = target * 8;
		count = (counts >> shift) & 0xff;
		counts += UINT64_C(1) << shift;
		to = bases[target] + count * size;
		memcpy(to, tuple, size);
	}
	run->tuples = end;
	run->n -= n;
	for (target = 0; target < p->n_lanes && !ret; target++) {
		count = (counts >> (8 * target)) & 0xff;
		to = bases[target] + count * size;
		if (count && dfi_source_lane_advance(&p->lanes[target], to))
			ret = dfi_source_lane_full(p->source, target);
	}
	return ret;
}

static always_inline int copy_run(const struct partitioner *p, struct run *run)
{
	bool packs = p->n_lanes <= PACKED_LANES && p->tuple_size <= PACKED_SIZE;
	uint32_t n;
	int ret = 0;

	while (run->n > 0 && ret == 0) {
		if (!packs) {
			ret = copy_each(p, run, run->n);
			continue;
		}
		n = packed_room(p, run->n);
		if (n >= PACKED_MIN)
			ret = copy_packed(p, run, n);
		else
			ret = copy_each(
			    p, run, run->n < PACKED_MIN ? run->n : PACKED_MIN);
	}
	return ret;
}

#define PARTITION_SIZES(X) X(8) X(16) X(24) X(32) X(64)

/* Both are constants to the loops that are compiled here. */
#define X(size)                                                           \
	static int copy_run_##size(struct partitioner p, struct run *run) \
	{                                                                 \
		p.tuple_size = size;                                      \
		if (p.radix)                                              \
			return copy_run(&p, run);                         \
		return copy_run(&p, run);                                 \
	}
PARTITION_SIZES(X)
#undef X

bool dfi__partitions(const struct dfi_source *source)
{
	const struct router *router = &source->router;

	return source->head.inline_routing == DFI_INLINE_HASH64 ||
	    (router->routing == DFI_ROUTE_RADIX &&
		(router->keys[0].type == DFI_UINT64 ||
		    router->keys[0].type == DFI_INT64));
}

uint32_t dfi__partition(
    struct dfi_source *source, const char *tuples, uint32_t n, int *ret)
{
	struct partitioner p = {
		.source = source,
		.lanes = source->head.lanes,
		.n_lanes = source->head.n_lanes,
		.key_offset = source->head.key_offset,
		.tuple_size = source->head.tuple_size,
		.radix_shift = source->router.radix_shift,
		.radix_bits = source->router.radix_bits,
		.radix = source->head.inline_routing != DFI_INLINE_HASH64,
	};
	struct run run = { .tuples = tuples, .n = n };

	switch (p.tuple_size) {
#define X(size)                                  \
	case size:                               \
		*ret = copy_run_##size(p, &run); \
		break;
		PARTITION_SIZES(X)
#undef X
	default:
		*ret = copy_run(&p, &run);
	}
	return n - run.n;
}

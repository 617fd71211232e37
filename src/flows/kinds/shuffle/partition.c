/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops are compiled once for each common tuple size, so that copying a
 * tuple is a few moves. They call nothing until a segment is full.
 */
#include "partition.h"

#include <string.h>
#include <dfi/copy.h>
#include "base/bits.h"
#include "base/compiler.h"
#include "target_list.h"

/*
 * Byte counters packed into a word: the number of lanes, and of tuples of each.
 */
#define PACKED_LANES 8
#define PACKED_TUPLES 255

/* Copying a larger tuple takes longer than the load that packing avoids. */
#define PACKED_SIZE 64

/* Larger tuples are copied without prefetches. */
#define PREFETCH_SIZE 32

/*
 * How many bytes of all lanes together are prefetched and not written yet. They
 * are less than the first-level cache has: a line that was evicted from there
 * comes back more slowly.
 */
#define PREFETCH_AHEAD (16 << 10)
#define MIN_DISTANCE 128

/* Preparing a shorter block costs more than it saves. */
#define PACKED_MIN 16

/*
 * How many targets are listed at once, if the processor does that well. Copying
 * a larger tuple takes so long that its hash costs no extra time.
 */
#define LISTED_TUPLES 256
#define LISTED_SIZE 32

/* How a loop finds a tuple's target. */
enum finding {
	BY_RADIX,
	BY_HASH,
	BY_LIST, /* of hashes */
};

/* The constant parameters of a loop. */
struct partitioner {
	struct dfi_source *source;
	struct dfi_source_lane *lanes;
	uint32_t n_lanes;
	uint32_t key_offset;
	uint32_t tuple_size;
	uint32_t prefetch_distance; /* at least one line ahead */
	uint32_t radix_shift, radix_bits;
	enum finding finding;
};

/* Tuples that are still to be copied. */
struct run {
	const char *tuples;
	uint32_t n;
};

/* The target of tuple i of a block; list begins with those of the block. */
static always_inline uint32_t target_of(const struct partitioner *p,
    const char *tuple, const uint32_t *list, uint32_t i)
{
	uint64_t key;

	if (p->finding == BY_LIST)
		return list[i];
	memcpy(&key, tuple + p->key_offset, sizeof(key));
	if (p->finding == BY_RADIX)
		return dfi_radix_partition(
		    key, p->radix_shift, p->radix_bits, p->n_lanes);
	return dfi_hash64_partition(key, p->n_lanes);
}

/*
 * Copy n tuples, regardless of the room. As in dfi_source_push_lane(), a lane
 * always has room for one more tuple.
 */
static always_inline int copy_each(const struct partitioner *p, struct run *run,
    uint32_t n, const uint32_t *list)
{
	const size_t size = p->tuple_size, distance = p->prefetch_distance;
	struct dfi_source_lane *lane;
	uint32_t target, i;
	char *next;
	int ret;

	for (i = 0; i < n; i++) {
		target = target_of(p, run->tuples, list, i);
		lane = &p->lanes[target];
		next = lane->next;
		/*
		 * For larger tuples and few lanes, the prefetch costs more than
		 * the copy.
		 */
		if (size <= PREFETCH_SIZE)
			dfi_prefetch_write(next + distance);
		if (size <= PACKED_SIZE)
			memcpy(next, run->tuples, size);
		else
			dfi_copy_lines(next, run->tuples, size);
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

/* How many of n tuples fit even if all go to the same lane. */
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
		/* An end below next asks for a call with the next tuple. */
		room = end > lane->next
		    ? (uint32_t)(end - lane->next) / p->tuple_size
		    : 0;
		if (room < n)
			n = room;
	}
	return n;
}

/*
 * Copy n tuples when any lane has room for all of them. A position in memory
 * would cost a load that depends on a recent store, of an unknown tuple. So one
 * register counts the tuples of each lane.
 */
static always_inline int copy_packed(const struct partitioner *p,
    struct run *run, uint32_t n, const uint32_t *list)
{
	const size_t size = p->tuple_size;
	const char *tuple = run->tuples, *end = tuple + n * size;
	uint64_t counts = 0, count;
	char *bases[PACKED_LANES], *to;
	uint32_t target, shift, i = 0;
	int ret = 0;

	for (target = 0; target < p->n_lanes; target++)
		bases[target] = p->lanes[target].next;
	for (; tuple != end; tuple += size) {
		target = target_of(p, tuple, list, i++);
		shift = target * 8;
		count = (counts >> shift) & 0xff;
		counts += UINT64_C(1) << shift;
		to = bases[target] + count * size;
		/* Slower loops don't gain from the prefetch. */
		if (p->finding == BY_LIST)
			dfi_prefetch_write(to + DFI_PREFETCH_DISTANCE);
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
	uint32_t n, room, list[LISTED_TUPLES];
	bool fits;
	int ret = 0;

	while (run->n > 0 && ret == 0) {
		n = run->n;
		if (p->finding == BY_LIST)
			n = (uint32_t)min_u64(n, LISTED_TUPLES);
		room = packs ? packed_room(p, n) : 0;
		fits = room >= PACKED_MIN;
		if (fits)
			n = room;
		else if (packs)
			n = (uint32_t)min_u64(n, PACKED_MIN);
		if (p->finding == BY_LIST)
			dfi__list_targets(run->tuples + p->key_offset, n,
			    p->tuple_size, p->n_lanes, list);
		ret = fits ? copy_packed(p, run, n, list)
			   : copy_each(p, run, n, list);
	}
	return ret;
}

#define PARTITION_SIZES(X) X(8) X(16) X(24) X(32) X(64) X(128) X(256)

static always_inline int copy_run_by(
    struct partitioner *p, struct run *run, enum finding finding)
{
	p->finding = finding;
	return copy_run(p, run);
}

/* Size and kind of finding are constants in these loops. */
#define X(size)                                                           \
	static int copy_run_##size(struct partitioner p, struct run *run) \
	{                                                                 \
		p.tuple_size = size;                                      \
		if (p.finding == BY_RADIX)                                \
			return copy_run_by(&p, run, BY_RADIX);            \
		if (p.finding == BY_LIST && (size) <= LISTED_SIZE)        \
			return copy_run_by(&p, run, BY_LIST);             \
		return copy_run_by(&p, run, BY_HASH);                     \
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

static uint32_t prefetch_distance(uint32_t n_lanes)
{
	uint32_t share = PREFETCH_AHEAD / n_lanes;

	return share > DFI_PREFETCH_DISTANCE ? DFI_PREFETCH_DISTANCE
	    : share < MIN_DISTANCE           ? MIN_DISTANCE
					     : share;
}

static enum finding finding_of(const struct dfi_source *source, bool lists)
{
	if (source->head.inline_routing != DFI_INLINE_HASH64)
		return BY_RADIX;
	if (lists && source->head.tuple_size <= LISTED_SIZE)
		return BY_LIST;
	return BY_HASH;
}

uint32_t dfi__partition(struct dfi_source *source, const char *tuples,
    uint32_t n, bool lists, int *ret)
{
	struct partitioner p = {
		.source = source,
		.lanes = source->head.lanes,
		.n_lanes = source->n_lanes,
		.key_offset = source->head.key_offset,
		.tuple_size = source->head.tuple_size,
		.prefetch_distance = prefetch_distance(source->n_lanes),
		.radix_shift = source->router.radix_shift,
		.radix_bits = source->router.radix_bits,
		.finding = finding_of(source, lists),
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

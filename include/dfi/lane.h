/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the inline functions of dfi/push.h know of a source, and their slow
 * paths. Not for direct use (docs/memory-model.md, "Lanes").
 */
#ifndef DFI_LANE_H
#define DFI_LANE_H

#include <stdint.h>
#include <dfi/copy.h>
#include <dfi/route.h>
#include <dfi/source.h>

DFI_BEGIN_DECLS

/*
 * The next tuple goes to next; when that reaches end, dfi_source_lane_full() is
 * due.
 */
struct dfi_source_lane {
	char *next;
	char *end;
};

enum {
	DFI_INLINE_NONE = 0, /* routing needs a call */
	DFI_INLINE_ONE,      /* one target */
	DFI_INLINE_HASH64,   /* hash of one 8-byte integer */
	DFI_INLINE_TABLE64,  /* the same, and a table has the lanes */
};

/*
 * In an open flow, the lane of each partition. The owner says that it is inside
 * while it uses them. Another thread of the library may want to use them as
 * well: until it has, all of these lanes are ones without room.
 */
struct dfi_source_table {
	uint32_t inside;
	uint32_t n_partitions;
	struct dfi_source_lane **lanes;
};

/* The first member of struct dfi_source. */
struct dfi_source_head {
	struct dfi_source_lane only; /* the lane, if there is only one */
	struct dfi_source_lane *lanes;
	uint32_t n_targets; /* that a call may name; 0 in a replicate flow */
	uint32_t tuple_size;
	uint32_t inline_routing;
	uint32_t key_offset;
	union {
		uint64_t targets; /* the set chosen last; 0: no target sets */
		struct dfi_source_table *table; /* with DFI_INLINE_TABLE64 */
	};
};

#define DFI_SOURCE_HEAD(source) \
	DFI_CAST(struct dfi_source_head *, DFI_CAST(void *, (source)))

/* The slow paths. */
DFI_API int dfi_source_push_slow(struct dfi_source *source, const void *tuple);
DFI_API int dfi_source_push_to_slow(
    struct dfi_source *source, uint32_t target, const void *tuple);
DFI_API int dfi_source_lane_full(struct dfi_source *source, uint32_t target);
DFI_API int dfi_source_table_full(
    struct dfi_source *source, uint32_t partition);
DFI_API int dfi_source_choose_to_push(
    struct dfi_source *source, uint64_t targets);

/* Move lane->next (release), then read end: is dfi_source_lane_full() due? */
DFI_INLINE_PART int dfi_source_lane_advance(
    struct dfi_source_lane *lane, char *next)
{
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	const struct dfi_source_lane *again = lane;

	/* A tuple of any size that begins there. */
	__asm__(""
		: "+r"(next)
		: "m"(*DFI_CAST(
		    const char(*)[1 << 30], DFI_CAST(void *, lane->next))));
	lane->next = next;
	__asm__("" : "+r"(again) : "m"(lane->next));
	return next >= again->end;
#else
	__atomic_store_n(&lane->next, next, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return next >= __atomic_load_n(&lane->end, __ATOMIC_RELAXED);
#endif
}

/* Push to a target that exists. */
DFI_INLINE_PART int dfi_source_push_lane(struct dfi_source *source,
    struct dfi_source_lane *lane, uint32_t target, const void *tuple)
{
	struct dfi_source_head *head = DFI_SOURCE_HEAD(source);
	size_t size = head->tuple_size;
	char *next = lane->next;

	dfi_copy_tuple(next, tuple, size);
	if (__builtin_expect(dfi_source_lane_advance(lane, next + size), 0))
		return dfi_source_lane_full(source, target);
	return 0;
}

/*
 * Push to the target that a table names. address: where the tuple is in memory;
 * a small one that stays in registers is a copy.
 */
DFI_INLINE_PART int dfi_source_push_table(
    struct dfi_source *source, const void *address, const void *tuple)
{
	struct dfi_source_head *head = DFI_SOURCE_HEAD(source);
	struct dfi_source_table *table = head->table;
	size_t size = head->tuple_size;
	struct dfi_source_lane **lanes, *lane;
	uint32_t partition;
	uint64_t key;
	char *next;

	memcpy(&key, DFI_CAST(const char *, address) + head->key_offset,
	    sizeof(key));
	partition = dfi_hash64_partition(key, table->n_partitions);
	__atomic_store_n(&table->inside, 1, __ATOMIC_RELAXED);
	/* The library's thread fences for both. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	lanes = __atomic_load_n(&table->lanes, __ATOMIC_ACQUIRE);
	lane = lanes[partition];
	next = lane->next;
	dfi_copy_tuple(next, tuple, size);
	lane->next = next + size;
	if (__builtin_expect(next + size >= lane->end, 0))
		return dfi_source_table_full(source, partition);
	__atomic_store_n(&table->inside, 0, __ATOMIC_RELEASE);
	return 0;
}

DFI_END_DECLS

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Radix partitioning in one pass without a histogram.
 *
 * Tuples are gathered in one small line per partition, which stays in the cache
 * (software write-combining). A full line moves as a whole: into the store of
 * this worker, past the cache, or into a flow. A store keeps each partition as
 * a list of chunks, so it needs no size in advance.
 *
 *	tuples --scatter--> lines --full line--> store: partition 0: [ ][ ][x]
 *	                                                partition 1: [ ][x]
 *	                                                ...
 */
#ifndef RADIX_JOIN_PARTITION_H
#define RADIX_JOIN_PARTITION_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif
#include "platform.h"
#include "relation.h"

#define LINE_TUPLES 32 /* 8 cache lines; 4 tuples cost 1.5 times as much */
#define CHUNK_TUPLES 1024

struct line {
	struct tuple tuples[LINE_TUPLES];
};

/* One open line per partition. */
struct lines {
	struct line *lines;
	uint8_t *fill; /* tuples in each line; less than LINE_TUPLES */
	uint32_t n_partitions;
};

/* The bits of the key by which a plan's relations are partitioned best. */
uint32_t partition_bits(const struct plan *plan);

/* 0, or -1 when there is no memory. lines_close() also undoes a failed open. */
int lines_open(struct lines *lines, uint32_t n_partitions);
void lines_close(struct lines *lines);

/*
 * Fetch the next tuples of a loop. The processor's own prefetcher stops at each
 * page, and is late.
 */
static inline void prefetch_ahead(const struct tuple *tuple)
{
	__builtin_prefetch(tuple + 64);
}

/* Add a tuple to a line. Not 0: the line is full, and must be taken away. */
static inline int lines_add(
    struct lines *lines, uint32_t partition, const struct tuple *tuple)
{
	uint32_t fill = lines->fill[partition];

	lines->lines[partition].tuples[fill] = *tuple;
	fill = (fill + 1) % LINE_TUPLES;
	lines->fill[partition] = (uint8_t)fill;
	return fill == 0;
}

struct chunk {
	struct tuple tuples[CHUNK_TUPLES];
};

struct partition {
	struct tuple *next; /* where the next line goes */
	struct tuple *end;  /* of the last chunk */
	uint32_t first_chunk;
	uint32_t last_chunk;
	uint64_t n_tuples;
};

/* The partitions first to first + n - 1 of a relation. */
struct store {
	struct partition *partitions;
	uint32_t first;
	uint32_t n_partitions;
	struct chunk *chunks;
	uint32_t *next_chunk; /* list links, by chunk */
	uint32_t n_chunks;
	uint32_t n_used;
	int overrun; /* more tuples came than the store was opened for */
};

/*
 * Open a store for at most max_tuples, and touch the memory of about
 * expected_tuples. Returns 0, or -1 without memory. store_close() also undoes a
 * failed open.
 */
int store_open(struct store *store, uint32_t first, uint32_t n_partitions,
    uint64_t max_tuples, uint64_t expected_tuples);
void store_close(struct store *store);

static inline int store_owns(const struct store *store, uint32_t partition)
{
	return partition - store->first < store->n_partitions;
}

/* Give a partition another chunk; for store_add_line(). */
void store_grow(struct store *store, struct partition *partition);

/*
 * Copy a line past the cache; to is aligned to a cache line. Returns the key
 * bits in which its tuples differ, at no extra cost.
 */
static inline uint64_t line_stream(struct tuple *to, const struct tuple *from)
{
#if defined(__x86_64__)
	__m128i *to_vector = (__m128i *)(void *)to;
	const __m128i *from_vector = (const __m128i *)(const void *)from;
	__m128i first = _mm_loadu_si128(from_vector);
	__m128i differs = _mm_setzero_si128(), tuple;
	int i;

	for (i = 0; i < LINE_TUPLES; i++) {
		tuple = _mm_loadu_si128(&from_vector[i]);
		differs = _mm_or_si128(differs, _mm_xor_si128(tuple, first));
		_mm_stream_si128(&to_vector[i], tuple);
	}
	return (uint64_t)_mm_cvtsi128_si64(differs);
#else
	uint64_t differs = 0;
	int i;

	for (i = 0; i < LINE_TUPLES; i++) {
		differs |= from[i].key ^ from[0].key;
		to[i] = from[i];
	}
	return differs;
#endif
}

/*
 * Add a line to a partition of the store if all its tuples belong there by the
 * key bits of the mask. Returns whether they did.
 */
static inline int store_try_line(struct store *store, uint32_t partition,
    const struct tuple *tuples, uint64_t mask)
{
	struct partition *p = &store->partitions[partition - store->first];

	if (__builtin_expect(p->next == p->end, 0))
		store_grow(store, p);
	/* If not, the next line overwrites the copy. */
	if (line_stream(p->next, tuples) & mask)
		return 0;
	p->next += LINE_TUPLES;
	p->n_tuples += LINE_TUPLES;
	return 1;
}

/* Add a full line whose tuples all belong there. */
static inline void store_add_line(
    struct store *store, uint32_t partition, const struct tuple *tuples)
{
	(void)store_try_line(store, partition, tuples, 0);
}

/* Partition n tuples by their lowest bits, through lines, into the store. */
void store_scatter(struct store *store, struct lines *lines,
    const struct tuple *tuples, size_t n, uint32_t bits);

/*
 * Take tuples from a flow. Senders send runs of LINE_TUPLES of one partition,
 * which move as lines; other tuples are scattered. Returns 0, or -1 if a tuple
 * is of another worker's partition.
 */
int store_receive(struct store *store, struct lines *lines,
    const struct tuple *tuples, size_t n, uint32_t bits);

/*
 * Take the rest of the lines. From now on other threads may read the store.
 * Returns 0, or -1: more tuples came than it was opened for.
 */
int store_finish(struct store *store, struct lines *lines);

/* Adjacent tuples of a partition. */
struct run {
	const struct tuple *tuples;
	uint32_t n;
	uint32_t chunk;
	uint64_t rest; /* tuples of the partition behind this run */
};

/* Walk over a partition: for (run = first(); run.n; run = next(run)). */
struct run store_first_run(const struct store *store, uint32_t partition);
struct run store_next_run(const struct store *store, struct run run);

static inline uint64_t store_tuples(
    const struct store *store, uint32_t partition)
{
	return store->partitions[partition - store->first].n_tuples;
}

#endif

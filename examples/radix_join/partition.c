/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The partitioning kernels, shared by the join over flows and the local
 * baseline. They use no flow. Stores to chunks bypass the cache: a chunk is
 * read again only when all tuples are partitioned, and the bypass saves reading
 * its lines before they are overwritten.
 */
#include "partition.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct tuple) == 16, "a tuple is one vector register");
_Static_assert(CHUNK_TUPLES % LINE_TUPLES == 0, "a chunk is whole lines");

#define NO_CHUNK UINT32_MAX
#define TUPLES_PER_CACHE_LINE (CACHE_LINE / sizeof(struct tuple))

/*
 * A hash table of this many inner tuples takes at most 1 MiB, half of a typical
 * second-level cache.
 */
#define PARTITION_TUPLES 16384

/* More lines than 2^12 no longer fit into the second-level cache. */
#define MAX_BITS 12

/* With 2^4 partitions for each worker, shares differ by at most 1/16. */
#define WORKER_BITS 4

uint32_t partition_bits(const struct plan *plan)
{
	uint32_t bits = WORKER_BITS;

	while (
	    bits < MAX_BITS && plan->n_tuples[INNER] >> bits > PARTITION_TUPLES)
		bits++;
	while (plan->n_workers << WORKER_BITS > UINT32_C(1) << bits)
		bits++;
	return bits;
}

int lines_open(struct lines *lines, uint32_t n_partitions)
{
	lines->n_partitions = n_partitions;
	lines->lines = big_alloc(n_partitions * sizeof(*lines->lines));
	lines->fill = calloc(n_partitions, sizeof(*lines->fill));
	if (!lines->lines || !lines->fill)
		return -1;
	big_touch(lines->lines, n_partitions * sizeof(*lines->lines));
	return 0;
}

void lines_close(struct lines *lines)
{
	big_free(lines->lines, lines->n_partitions * sizeof(*lines->lines));
	free(lines->fill);
	memset(lines, 0, sizeof(*lines));
}

int store_open(struct store *store, uint32_t first, uint32_t n_partitions,
    uint64_t max_tuples, uint64_t expected_tuples)
{
	/* Each partition may leave its last chunk almost empty. */
	uint64_t n_chunks = max_tuples / CHUNK_TUPLES + n_partitions + 1;
	uint64_t expected = expected_tuples / CHUNK_TUPLES + n_partitions / 2 +
	    1;
	uint32_t i;

	memset(store, 0, sizeof(*store));
	if (n_chunks >= NO_CHUNK)
		return complain("too many tuples for one worker");
	store->first = first;
	store->n_partitions = n_partitions;
	store->n_chunks = (uint32_t)n_chunks;
	store->chunks = big_alloc(n_chunks * sizeof(*store->chunks));
	store->next_chunk = big_alloc(n_chunks * sizeof(*store->next_chunk));
	store->partitions = calloc(n_partitions, sizeof(*store->partitions));
	if (!store->chunks || !store->next_chunk || !store->partitions)
		return -1;
	if (expected > n_chunks)
		expected = n_chunks;
	big_touch(store->chunks, expected * sizeof(*store->chunks));
	big_touch(store->next_chunk, expected * sizeof(*store->next_chunk));
	for (i = 0; i < n_partitions; i++)
		store->partitions[i].last_chunk = NO_CHUNK;
	return 0;
}

void store_close(struct store *store)
{
	big_free(store->chunks, store->n_chunks * sizeof(*store->chunks));
	big_free(
	    store->next_chunk, store->n_chunks * sizeof(*store->next_chunk));
	free(store->partitions);
	memset(store, 0, sizeof(*store));
}

void store_grow(struct store *store, struct partition *partition)
{
	uint32_t chunk = store->n_used;

	if (chunk == store->n_chunks) {
		/* Memory stays safe; store_finish() reports the error. */
		store->overrun = 1;
		chunk = store->n_chunks - 1;
	} else {
		store->n_used++;
	}
	if (partition->last_chunk == NO_CHUNK)
		partition->first_chunk = chunk;
	else
		store->next_chunk[partition->last_chunk] = chunk;
	partition->last_chunk = chunk;
	partition->next = store->chunks[chunk].tuples;
	partition->end = partition->next + CHUNK_TUPLES;
}

void store_scatter(struct store *store, struct lines *lines,
    const struct tuple *tuples, size_t n, uint32_t bits)
{
	struct lines in_registers = *lines;
	uint64_t mask = (UINT64_C(1) << bits) - 1;
	uint32_t partition;
	size_t i;

	for (i = 0; i < n; i++) {
		prefetch_ahead(&tuples[i]);
		partition = (uint32_t)(tuples[i].key & mask);
		if (lines_add(&in_registers, partition, &tuples[i]))
			store_add_line(store, partition,
			    in_registers.lines[partition].tuples);
	}
}

/* Scatter tuples that do not fill a line. */
static int receive_strays(struct store *store, struct lines *lines,
    const struct tuple *tuples, size_t n, uint64_t mask)
{
	uint32_t partition, line;
	size_t i;

	for (i = 0; i < n; i++) {
		partition = (uint32_t)(tuples[i].key & mask);
		if (!store_owns(store, partition))
			return -1;
		line = partition - store->first;
		if (lines_add(lines, line, &tuples[i]))
			store_add_line(
			    store, partition, lines->lines[line].tuples);
	}
	return 0;
}

int store_receive(struct store *store, struct lines *lines,
    const struct tuple *tuples, size_t n, uint32_t bits)
{
	uint64_t mask = (UINT64_C(1) << bits) - 1;
	const struct tuple *end = tuples + n;
	uint32_t partition, i;

	for (; end - tuples >= LINE_TUPLES; tuples += LINE_TUPLES) {
		partition = (uint32_t)(tuples->key & mask);
		if (!store_owns(store, partition))
			return -1;
		for (i = 0; i < LINE_TUPLES; i += TUPLES_PER_CACHE_LINE)
			__builtin_prefetch(tuples + 4 * LINE_TUPLES + i);
		if (!store_try_line(store, partition, tuples, mask) &&
		    receive_strays(store, lines, tuples, LINE_TUPLES, mask))
			return -1;
	}
	return receive_strays(
	    store, lines, tuples, (size_t)(end - tuples), mask);
}

int store_finish(struct store *store, struct lines *lines)
{
	struct partition *partition;
	uint32_t i;

	for (i = 0; i < store->n_partitions; i++) {
		if (lines->fill[i] == 0)
			continue;
		partition = &store->partitions[i];
		if (partition->next == partition->end)
			store_grow(store, partition);
		/* The line's end is garbage, and not counted. */
		(void)line_stream(partition->next, lines->lines[i].tuples);
		partition->n_tuples += lines->fill[i];
		lines->fill[i] = 0;
	}
#if defined(__x86_64__)
	_mm_sfence(); /* orders the streaming stores for other threads */
#endif
	return store->overrun ? -1 : 0;
}

static struct run run_at(
    const struct store *store, uint32_t chunk, uint64_t n_tuples)
{
	struct run run = { NULL, 0, chunk, 0 };

	if (n_tuples == 0)
		return run;
	run.tuples = store->chunks[chunk].tuples;
	run.n = n_tuples < CHUNK_TUPLES ? (uint32_t)n_tuples : CHUNK_TUPLES;
	run.rest = n_tuples - run.n;
	return run;
}

struct run store_first_run(const struct store *store, uint32_t partition)
{
	const struct partition *p =
	    &store->partitions[partition - store->first];

	return run_at(store, p->first_chunk, p->n_tuples);
}

struct run store_next_run(const struct store *store, struct run run)
{
	return run_at(
	    store, run.rest ? store->next_chunk[run.chunk] : 0, run.rest);
}

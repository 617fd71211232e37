/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds and probes one partition's table. The bucket of a key is a
 * multiplicative hash of the bits above the radix bits and a random seed. So
 * dense keys spread evenly, and all others as by chance, even keys that an
 * attacker chose. There are one to two buckets per tuple, and hardly any
 * chains. The counts of all buckets stay in the first-level cache, and buckets
 * need no clearing.
 */
#include "hash_table.h"
#include "platform.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define MIN_BUCKET_BITS 4
#define MAX_BUCKET_BITS 31
#define NO_OVERFLOW UINT32_MAX
#define HAS_CHAIN (BUCKET_TUPLES + 1)

_Static_assert(sizeof(struct bucket) == CACHE_LINE, "a bucket is a line");

int table_seed(uint64_t *seed)
{
	if (getrandom(seed, sizeof(*seed), 0) != sizeof(*seed))
		return complain("getrandom: %s", strerror(errno));
	return 0;
}

static uint32_t bucket_bits(uint64_t n_tuples)
{
	uint32_t bits = MIN_BUCKET_BITS;

	while (bits < MAX_BUCKET_BITS && (UINT64_C(1) << bits) < n_tuples)
		bits++;
	return bits;
}

static void table_free(struct table *table)
{
	size_t n = table->bucket_capacity;

	big_free(table->buckets, n * sizeof(*table->buckets));
	big_free(table->counts, n * sizeof(*table->counts));
	big_free(table->chains, n * sizeof(*table->chains));
	big_free(table->overflows,
	    table->overflow_capacity * sizeof(*table->overflows));
	table->buckets = NULL;
	table->counts = NULL;
	table->chains = NULL;
	table->overflows = NULL;
}

/* Make room for n_tuples, all of which may overflow. */
static int table_reserve(struct table *table, uint64_t n_tuples)
{
	size_t n = (size_t)1 << bucket_bits(n_tuples);

	if (n_tuples >= NO_OVERFLOW)
		return complain("a partition has too many tuples");
	table_free(table);
	table->bucket_capacity = (uint32_t)n;
	table->overflow_capacity = (uint32_t)n_tuples + 1;
	table->buckets = big_alloc(n * sizeof(*table->buckets));
	table->counts = big_alloc(n * sizeof(*table->counts));
	table->chains = big_alloc(n * sizeof(*table->chains));
	table->overflows = big_alloc(
	    table->overflow_capacity * sizeof(*table->overflows));
	if (!table->buckets || !table->counts || !table->chains ||
	    !table->overflows)
		return -1;
	return 0;
}

int table_open(struct table *table, uint32_t radix_bits, uint64_t n_tuples)
{
	memset(table, 0, sizeof(*table));
	table->radix_bits = radix_bits;
	if (table_seed(&table->seed))
		return -1;
#if defined(__x86_64__)
	table->has_avx2 = __builtin_cpu_supports("avx2") != 0;
#endif
	if (table_reserve(table, n_tuples))
		return -1;
	big_touch(
	    table->buckets, table->bucket_capacity * sizeof(*table->buckets));
	return 0;
}

void table_close(struct table *table)
{
	table_free(table);
	memset(table, 0, sizeof(*table));
}

int table_begin(struct table *table, uint64_t n_tuples)
{
	uint32_t bits = bucket_bits(n_tuples);

	if (n_tuples >= table->overflow_capacity ||
	    UINT64_C(1) << bits > table->bucket_capacity) {
		/*
		 * Twice, so that slightly larger partitions don't grow it
		 * again.
		 */
		if (table_reserve(table, 2 * n_tuples))
			return -1;
	}
	memset(table->counts, 0, (size_t)1 << bits);
	table->hash_shift = 64 - bits;
	table->n_overflows = 0;
	return 0;
}

static __attribute__((noinline)) void overflow_add(
    struct table *table, uint64_t bucket, const struct tuple *tuple)
{
	struct overflow *overflow = &table->overflows[table->n_overflows];

	overflow->tuple = *tuple;
	overflow->next = table->counts[bucket] == HAS_CHAIN
	    ? table->chains[bucket]
	    : NO_OVERFLOW;
	table->chains[bucket] = table->n_overflows++;
	table->counts[bucket] = HAS_CHAIN;
}

void table_build(struct table *table, const struct tuple *tuples, uint32_t n)
{
	uint32_t radix_bits = table->radix_bits;
	uint32_t hash_shift = table->hash_shift;
	uint64_t seed = table->seed;
	struct bucket *buckets = table->buckets;
	uint8_t *counts = table->counts;
	uint64_t bucket;
	uint32_t count, i;

	for (i = 0; i < n; i++) {
		bucket = bucket_of(tuples[i].key, seed, radix_bits, hash_shift);
		count = counts[bucket];
		if (__builtin_expect(count >= BUCKET_TUPLES, 0)) {
			overflow_add(table, bucket, &tuples[i]);
			continue;
		}
		buckets[bucket].keys[count] = tuples[i].key;
		buckets[bucket].payloads[count] = tuples[i].payload;
		counts[bucket] = (uint8_t)(count + 1);
	}
}

/* The sum of the payloads in a bucket's chain that belong to key. */
static __attribute__((noinline)) uint64_t chain_probe(
    const struct table *table, uint64_t bucket, uint64_t key, uint64_t *matches)
{
	const struct overflow *overflow;
	uint32_t i = table->chains[bucket];
	uint64_t sum = 0;

	while (i != NO_OVERFLOW) {
		overflow = &table->overflows[i];
		if (overflow->tuple.key == key) {
			sum += overflow->tuple.payload;
			++*matches;
		}
		i = overflow->next;
	}
	return sum;
}

static void probe_any(const struct table *table, const struct tuple *tuples,
    uint32_t n, struct result *result)
{
	uint64_t key, bucket, equal, sum, matches = 0, checksum = 0;
	const struct bucket *line;
	uint32_t i, j, count;

	for (i = 0; i < n; i++) {
		key = tuples[i].key;
		bucket = bucket_of(
		    key, table->seed, table->radix_bits, table->hash_shift);
		line = &table->buckets[bucket];
		count = table->counts[bucket];
		sum = 0;
		for (j = 0; j < BUCKET_TUPLES; j++) {
			equal = (line->keys[j] == key) & (j < count);
			sum += -equal & line->payloads[j];
			matches += equal;
		}
		if (__builtin_expect(count == HAS_CHAIN, 0))
			sum += chain_probe(table, bucket, key, &matches);
		checksum += sum * tuples[i].payload;
	}
	result->matches += matches;
	result->checksum += checksum;
}

#if defined(__x86_64__)
/* The four comparisons of a bucket at once. */
static __attribute__((target("avx2"))) void probe_avx2(
    const struct table *table, const struct tuple *tuples, uint32_t n,
    struct result *result)
{
	/* By a bucket's count: which of its keys are valid. */
	static const int64_t valid[HAS_CHAIN + 1][BUCKET_TUPLES] = {
		{ 0, 0, 0, 0 },
		{ -1, 0, 0, 0 },
		{ -1, -1, 0, 0 },
		{ -1, -1, -1, 0 },
		{ -1, -1, -1, -1 },
		{ -1, -1, -1, -1 },
	};
	uint32_t radix_bits = table->radix_bits;
	uint32_t hash_shift = table->hash_shift;
	uint64_t seed = table->seed;
	const struct bucket *buckets = table->buckets;
	const uint8_t *counts = table->counts;
	__m256i matches = _mm256_setzero_si256();
	uint64_t key, bucket, sum, chained = 0, checksum = 0;
	uint64_t matched[BUCKET_TUPLES];
	__m256i equal, payloads;
	__m128i half;
	uint32_t i;

	for (i = 0; i < n; i++) {
		key = tuples[i].key;
		bucket = bucket_of(key, seed, radix_bits, hash_shift);
		equal = _mm256_cmpeq_epi64(_mm256_set1_epi64x((int64_t)key),
		    _mm256_load_si256(
			(const __m256i *)(const void *)buckets[bucket].keys));
		equal = _mm256_and_si256(equal,
		    _mm256_loadu_si256(
			(const __m256i *)(const void *)valid[counts[bucket]]));
		matches = _mm256_sub_epi64(matches, equal);
		payloads = _mm256_and_si256(equal,
		    _mm256_load_si256(
			(const __m256i *)(const void *)buckets[bucket]
			    .payloads));
		half = _mm_add_epi64(_mm256_castsi256_si128(payloads),
		    _mm256_extracti128_si256(payloads, 1));
		half = _mm_add_epi64(half, _mm_unpackhi_epi64(half, half));
		sum = (uint64_t)_mm_cvtsi128_si64(half);
		if (__builtin_expect(counts[bucket] == HAS_CHAIN, 0))
			sum += chain_probe(table, bucket, key, &chained);
		checksum += sum * tuples[i].payload;
	}
	_mm256_storeu_si256((__m256i *)(void *)matched, matches);
	result->matches += chained + matched[0] + matched[1] + matched[2] +
	    matched[3];
	result->checksum += checksum;
}
#endif

void table_probe(const struct table *table, const struct tuple *tuples,
    uint32_t n, struct result *result)
{
#if defined(__x86_64__)
	if (table->has_avx2) {
		probe_avx2(table, tuples, n, result);
		return;
	}
#endif
	probe_any(table, tuples, n, result);
}

/* As table_probe_each(), for one outer tuple. */
static int probe_each(const struct table *table, const struct tuple *tuple,
    int (*match)(void *arg, uint64_t inner_payload, uint64_t outer_payload),
    void *arg)
{
	uint64_t bucket = bucket_of(
	    tuple->key, table->seed, table->radix_bits, table->hash_shift);
	const struct bucket *line = &table->buckets[bucket];
	uint32_t count = table->counts[bucket];
	const struct overflow *overflow;
	uint32_t i;
	int ret;

	for (i = 0; i < count && i < BUCKET_TUPLES; i++) {
		if (line->keys[i] != tuple->key)
			continue;
		ret = match(arg, line->payloads[i], tuple->payload);
		if (ret)
			return ret;
	}
	if (count != HAS_CHAIN)
		return 0;
	for (i = table->chains[bucket]; i != NO_OVERFLOW; i = overflow->next) {
		overflow = &table->overflows[i];
		if (overflow->tuple.key != tuple->key)
			continue;
		ret = match(arg, overflow->tuple.payload, tuple->payload);
		if (ret)
			return ret;
	}
	return 0;
}

int table_probe_each(const struct table *table, const struct tuple *tuples,
    uint32_t n,
    int (*match)(void *arg, uint64_t inner_payload, uint64_t outer_payload),
    void *arg)
{
	uint32_t i;
	int ret;

	for (i = 0; i < n; i++) {
		ret = probe_each(table, &tuples[i], match, arg);
		if (ret)
			return ret;
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing with linear probing. At most half of the slots are in use.
 * Slots grow with the groups, so that few groups use few lines of the
 * first-level cache. The hash is one multiplication (spread.h), which few sets
 * of keys defeat: a probe that takes too long counts as a full table.
 *
 * A lookup is one comparison, even with an empty slot: that refers to a record
 * whose key is zero. The key zero hashes to slot 0, which is never empty: until
 * a group takes it, it refers to a record whose key hashes to another slot.
 */
#include "partials.h"

#include <string.h>
#include "base/bits.h"
#include "base/compiler.h"
#include "fold.h"
#include "groups.h"
#include "operations.h"

#define WORD sizeof(uint64_t)

#define FIRST_SLOTS 256
/*
 * The least slots for each record; more if all slots fit into this many bytes.
 */
#define SLOTS_FOR_RECORD 2
#define MANY_SLOTS_FOR_RECORD 8
#define MANY_SLOTS (16 << 10)
#define MAX_PROBES 128

/* Records that belong to no group: the first and the last. */
#define NO_GROUPS 2

static size_t record_size(const struct plan *plan)
{
	return plan->record_words * WORD;
}

static partials_loop *loop_of(const struct plan *plan);

/* A column of one word is read in place, by a loop that probes and folds. */
static bool needs_packing(const struct plan *plan)
{
	return plan->n_columns &&
	    (plan->n_columns > 1 || plan->columns[0].size != WORD ||
		!loop_of(plan));
}

static size_t keys_size(const struct plan *plan)
{
	return needs_packing(plan) ? GROUPS_BATCH * plan->key_words * WORD : 0;
}

static size_t most_slots(uint32_t max)
{
	size_t many = MANY_SLOTS / sizeof(uint16_t);

	many = min_u64(many, (size_t)max * MANY_SLOTS_FOR_RECORD);
	return max_u64((size_t)max * SLOTS_FOR_RECORD, many);
}

size_t dfi__partials_size(const struct plan *plan, uint32_t max)
{
	return keys_size(plan) + (max + (size_t)NO_GROUPS) * record_size(plan) +
	    most_slots(max) * sizeof(uint16_t);
}

uint32_t dfi__partials_fit(const struct plan *plan, size_t bytes)
{
	uint32_t max = PARTIALS_MIN;

	while (max < PARTIALS_MAX && dfi__partials_size(plan, 2 * max) <= bytes)
		max *= 2;
	return max;
}

static always_inline uint32_t slot_of(
    const struct partials *partials, const uint64_t *key, uint32_t n_words)
{
	const uint64_t factor = partials->plan->factor;
	uint64_t hash = key[0] * factor;
	uint32_t i;

	for (i = 1; i < n_words; i++)
		hash = (hash ^ hash >> 32 ^ key[i]) * factor;
	return (uint32_t)(hash >> partials->shift);
}

/* The record that slot 0 refers to until a group takes it. */
static uint16_t other_number(const struct partials *partials)
{
	return (uint16_t)(partials->max + 1);
}

static bool is_free(const struct partials *partials, uint32_t slot)
{
	return !partials->slots[slot] ||
	    partials->slots[slot] == other_number(partials);
}

/* Find a key that doesn't hash to slot 0. With more slots it doesn't either. */
static void find_other(struct partials *partials)
{
	const struct plan *plan = partials->plan;
	uint64_t *record = &partials->records[(size_t)other_number(partials) *
	    plan->record_words];

	memset(record, 0, record_size(plan));
	do
		record[0]++;
	while (plan->key_words && !slot_of(partials, record, plan->key_words));
}

static void use_slots(struct partials *partials, uint32_t n)
{
	partials->n_slots = n;
	partials->shift = 64 - (uint32_t)__builtin_ctz(n);
	memset(partials->slots, 0, n * sizeof(*partials->slots));
	partials->slots[0] = other_number(partials);
}

void dfi__partials_init(struct partials *partials, const struct plan *plan,
    uint32_t max, void *memory)
{
	*partials = (struct partials){
		.plan = plan,
		.keys = memory,
		.records = (uint64_t *)memory + keys_size(plan) / WORD,
		.max = max,
		.loop = loop_of(plan),
	};
	partials->slots = (uint16_t *)(void *)((char *)partials->records +
	    (max + (size_t)NO_GROUPS) * record_size(plan));
	memset(partials->records, 0, record_size(plan));
	partials->shift = 64 - (uint32_t)__builtin_ctz(FIRST_SLOTS);
	find_other(partials);
	use_slots(partials, FIRST_SLOTS);
}

void dfi__partials_clear(struct partials *partials)
{
	partials->n = 0;
	use_slots(partials, partials->n_slots);
}

static void more_slots(struct partials *partials)
{
	const uint32_t words = partials->plan->key_words;
	uint32_t i, at;

	use_slots(partials, 2 * partials->n_slots);
	for (i = 0; i < partials->n; i++) {
		at = slot_of(partials, partials_record(partials, i), words);
		while (!is_free(partials, at))
			at = (at + 1) & (partials->n_slots - 1);
		partials->slots[at] = (uint16_t)(i + 1);
	}
}

static always_inline uint64_t *record_at(
    const struct partials *partials, uint32_t slot)
{
	return &partials->records[(size_t)partials->slots[slot] *
	    partials->plan->record_words];
}

/* Whether one more group needs more slots. */
static bool needs_slots(const struct partials *partials)
{
	uint32_t n = partials->n + 1, has = partials->n_slots;

	return n * SLOTS_FOR_RECORD > has ||
	    (n * MANY_SLOTS_FOR_RECORD > has &&
		2 * has * sizeof(partials->slots[0]) <= MANY_SLOTS);
}

/* The key isn't in the slot of its hash. NULL: no room for it. */
static uint64_t *find_slowly(struct partials *partials, const uint64_t *key)
{
	const struct plan *plan = partials->plan;
	const uint32_t words = plan->key_words;
	uint32_t at = slot_of(partials, key, words), probes;
	uint64_t *record;

	for (probes = 0; !is_free(partials, at); probes++) {
		record = record_at(partials, at);
		if (same_words(record, key, words))
			return record;
		if (probes == MAX_PROBES)
			return NULL;
		at = (at + 1) & (partials->n_slots - 1);
	}
	if (partials->n == partials->max)
		return NULL;
	if (needs_slots(partials)) {
		more_slots(partials);
		return find_slowly(partials, key);
	}
	partials->n++;
	partials->slots[at] = (uint16_t)partials->n;
	record = record_at(partials, at);
	memcpy(record, key, words * WORD);
	memcpy(record + words, plan->identity + words,
	    (plan->record_words - words) * WORD);
	return record;
}

/* ---- One word: a loop for each kind of accumulator and type of field -------
 */

static __attribute__((noinline)) uint64_t *find_word_slowly(
    struct partials *partials, uint64_t key)
{
	return find_slowly(partials, &key);
}

/*
 * Keys have a constant distance from their values, so that a loop moves one
 * pointer. records: NULL if the plan has no other folds; a record is then two
 * words.
 */
#define SINGLE_LOOP(kind, name, step)                                          \
	static always_inline uint32_t loop_##kind##_##name(                    \
	    struct partials *partials, const struct fold *fold,                \
	    const char *tuples, uint32_t n, uint64_t **records,                \
	    const uint64_t *keys, const size_t words)                          \
	{                                                                      \
		const struct plan *plan = partials->plan;                      \
		const uint16_t *const slots = partials->slots;                 \
		uint64_t *const first = partials->records, *record, key;       \
		const size_t stride = plan->tuple_size, word = fold->word;     \
		const ptrdiff_t to_key = (ptrdiff_t)plan->columns[0].offset -  \
		    (ptrdiff_t)fold->offset;                                   \
		const uint64_t factor = plan->factor;                          \
		const char *from = tuples + fold->offset;                      \
		const char *const end = from + n * stride;                     \
		uint32_t shift = partials->shift;                              \
                                                                               \
		for (; from != end; from += stride) {                          \
			key = keys ? *keys++ : load_UINT64(from + to_key);     \
			record =                                               \
			    &first[words * slots[(key * factor) >> shift]];    \
			if (unlikely(record[0] != key)) {                      \
				record = find_word_slowly(partials, key);      \
				if (!record)                                   \
					break;                                 \
				shift = partials->shift;                       \
			}                                                      \
			record[word] = step;                                   \
			if (records)                                           \
				*records++ = record;                           \
		}                                                              \
		return n - (uint32_t)((size_t)(end - from) / stride);          \
	}                                                                      \
                                                                               \
	static uint32_t single_##kind##_##name(struct partials *partials,      \
	    const struct fold *fold, const char *tuples, uint32_t n,           \
	    uint64_t **records, const uint64_t *keys)                          \
	{                                                                      \
		return records || keys                                         \
		    ? loop_##kind##_##name(partials, fold, tuples, n, records, \
			  keys, partials->plan->record_words)                  \
		    : loop_##kind##_##name(                                    \
			  partials, fold, tuples, n, NULL, NULL, 2);           \
	}

SINGLE_LOOPS

/* NULL: there is no loop for such a fold. */
static partials_loop *loop_of(const struct plan *plan)
{
	static partials_loop *const loops[FOLD_KINDS][DFI_DOUBLE + 1] = {
		SINGLE_ENTRIES
	};
	const struct fold *fold = &plan->folds[0];

	return plan->key_words == 1 && fold->width == 1
	    ? loops[fold->kind][fold->type]
	    : NULL;
}

/* ---- Any key ----------------------------------------------------------------
 */

/* Find or make the groups of n packed keys; returns for how many. */
static always_inline uint32_t find_keys(struct partials *partials,
    uint32_t n_words, uint32_t n, uint64_t *records[GROUPS_BATCH])
{
	const uint64_t *key = partials->keys;
	uint64_t *record;
	uint32_t i;

	for (i = 0; i < n; i++, key += n_words) {
		record = record_at(partials, slot_of(partials, key, n_words));
		if (unlikely(!same_words(record, key, n_words))) {
			record = find_slowly(partials, key);
			if (!record)
				break;
		}
		records[i] = record;
	}
	return i;
}

static uint32_t find(
    struct partials *partials, uint32_t n, uint64_t *records[GROUPS_BATCH])
{
	const uint32_t words = partials->plan->key_words;

	if (words == 1)
		return find_keys(partials, 1, n, records);
	if (words == 2)
		return find_keys(partials, 2, n, records);
	return find_keys(partials, words, n, records);
}

static void pack_keys(
    const struct partials *partials, const char *tuple, uint32_t n)
{
	const struct plan *plan = partials->plan;
	const struct plan_column *column,
	    *end = &plan->columns[plan->n_columns];
	const uint32_t words = plan->key_words;
	uint64_t *key = partials->keys;

	for (; n; n--, tuple += plan->tuple_size, key += words) {
		key[words - 1] = 0; /* padding */
		for (column = plan->columns; column != end; column++)
			memcpy((char *)key + column->at, tuple + column->offset,
			    column->size);
	}
}

/* Fold at most GROUPS_BATCH tuples; returns how many were taken. */
static uint32_t fold_batch(
    struct partials *partials, const char *tuples, uint32_t n)
{
	const struct plan *plan = partials->plan;
	uint64_t *records[GROUPS_BATCH];
	const struct fold *fold = plan->folds;
	const uint64_t *keys = NULL;
	uint32_t i;

	if (needs_packing(plan)) {
		pack_keys(partials, tuples, n);
		keys = partials->keys;
	}
	if (!partials->loop) {
		n = find(partials, n, records);
		dfi__fold_each(plan, tuples, records, n);
		return n;
	}
	if (plan->n_folds == 1)
		return partials->loop(partials, fold, tuples, n, NULL, keys);
	n = partials->loop(partials, fold, tuples, n, records, keys);
	for (i = 1; i < plan->n_folds; i++)
		fold[i].functions->each(
		    &fold[i], tuples, plan->tuple_size, records, n);
	return n;
}

uint64_t dfi__partials_fold(
    struct partials *partials, const char *tuples, uint64_t n)
{
	const struct plan *plan = partials->plan;
	const uint64_t none = 0;
	uint64_t taken = 0;
	uint32_t batch, found;

	if (!plan->n_columns && n) {
		dfi__fold_all(plan, tuples, find_slowly(partials, &none), n);
		return n;
	}
	do {
		batch = (uint32_t)min_u64(n - taken, GROUPS_BATCH);
		found = fold_batch(partials, tuples, batch);
		taken += found;
		tuples += (size_t)found * plan->tuple_size;
	} while (taken < n && found == batch);
	return taken;
}

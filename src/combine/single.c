/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One loop for each kind of accumulator and type of field: load the key, probe,
 * and fold the value. Other accumulators of a plan follow in loops of fold.c.
 */
#include "single.h"

#include <dfi/route.h>
#include "operations.h"

/* Of a table, what doesn't change while there is memory for new groups. */
struct single_table {
	struct groups *groups;
	const struct groups_slot *slots;
	uint64_t mask; /* of numbers of slots */
	uint64_t *records;
	uint64_t words; /* of a record */
};

static always_inline struct single_table table_of(struct groups *groups)
{
	return (struct single_table){
		.groups = groups,
		.slots = groups->slots,
		.mask = groups->n_slots - 1,
		.records = groups->records,
		.words = groups->plan->record_words,
	};
}

/* The record of a key's group; NULL: it would be one too many. */
static always_inline uint64_t *find(
    const struct single_table *table, uint64_t key)
{
	const uint64_t hash = dfi_hash64(key);
	const struct groups_slot *slot;
	uint64_t at = hash & table->mask, *record;

	for (;; at = (at + 1) & table->mask) {
		slot = &table->slots[at];
		if (unlikely(!slot->record))
			return dfi__groups_insert(
			    table->groups, &key, hash, at);
		record = &table->records[(slot->record - 1) * table->words];
		/* The tag says no more than the key, which is one word. */
		if (likely(record[0] == key))
			return record;
	}
}

#define SINGLE_LOOP(kind, name, step)                                        \
	static uint32_t single_##kind##_##name(struct groups *groups,        \
	    const struct fold *fold, const struct single_input *input,       \
	    uint32_t n, uint64_t **records)                                  \
	{                                                                    \
		const struct single_table table = table_of(groups);          \
		const char *key = input->keys, *from;                        \
		const size_t key_stride = input->key_stride,                 \
			     stride = input->stride;                         \
		const uint32_t word = fold->word;                            \
		uint64_t *record;                                            \
		uint32_t i;                                                  \
                                                                             \
		from = input->from + fold->offset;                           \
		for (i = 0; i < n; i++, key += key_stride, from += stride) { \
			record = find(&table, load_UINT64(key));             \
			if (unlikely(!record))                               \
				break;                                       \
			record[word] = step;                                 \
			if (records)                                         \
				records[i] = record;                         \
		}                                                            \
		return i;                                                    \
	}

#define TAKE(kind, name, wide)        \
	WORD_OF_##wide(kind##_##wide( \
	    VALUE_OF_##wide(record[word]), (wide)load_##name(from)))

#define LOOPS(set, target, name, type, wide)          \
	SINGLE_LOOP(SUM, name, TAKE(SUM, name, wide)) \
	SINGLE_LOOP(MIN, name, TAKE(MIN, name, wide)) \
	SINGLE_LOOP(MAX, name, TAKE(MAX, name, wide))

TYPES(LOOPS, , )
SINGLE_LOOP(COUNT, ALL, record[word] + 1)

#define ENTRIES(set, target, name, type, wide)      \
	[FOLD_SUM][DFI_##name] = single_SUM_##name, \
	[FOLD_MIN][DFI_##name] = single_MIN_##name, \
	[FOLD_MAX][DFI_##name] = single_MAX_##name,

single_loop *dfi__single_loop(const struct fold *fold)
{
	static single_loop *const loops[FOLD_KINDS][DFI_DOUBLE + 1] = {
		[FOLD_COUNT][0] = single_COUNT_ALL, TYPES(ENTRIES, , )
	};

	return fold->width == 1 ? loops[fold->kind][fold->type] : NULL;
}

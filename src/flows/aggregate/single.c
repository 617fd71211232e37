/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One loop for each kind of accumulator and type of field: load the key, probe,
 * and fold the value. fold.c folds a plan's other accumulators.
 */
#include "single.h"

#include "operations.h"
#include "spread.h"

/* The parts of a table that stay the same while memory is reserved. */
struct single_table {
	struct groups *groups;
	const struct groups_slot *slots;
	uint64_t mask; /* of numbers of slots */
	uint64_t *records;
	uint64_t words; /* of a record */
	uint64_t factor;
};

static always_inline struct single_table table_of(struct groups *groups)
{
	return (struct single_table){
		.groups = groups,
		.slots = groups->slots,
		.mask = groups->n_slots - 1,
		.records = groups->records,
		.words = groups->plan->record_words,
		.factor = groups->plan->factor,
	};
}

/* Out of line, with the key by value, so that loops keep it in a register. */
static __attribute__((noinline)) uint64_t *insert(
    struct groups *groups, uint64_t key, uint64_t hash, uint64_t slot)
{
	return dfi__groups_insert(groups, &key, hash, slot);
}

/* The record of a key's group; NULL: there would be too many groups. */
static always_inline uint64_t *find(
    const struct single_table *table, uint64_t key)
{
	const uint64_t hash = spread_hash(table->factor, key);
	uint64_t at = hash & table->mask, *record;
	uint32_t number;

	for (;; at = (at + 1) & table->mask) {
		number = table->slots[at].record;
		if (unlikely(!number))
			return insert(table->groups, key, hash, at);
		record = &table->records[(number - 1) * table->words];
		/* The key is one word, so comparing the tag adds nothing. */
		if (likely(record[0] == key))
			return record;
	}
}

/*
 * Keys in tuples have a constant distance from their values; keys in an array
 * are adjacent. Either way a loop keeps one pointer less.
 */
#define SINGLE_LOOP(kind, name, step)                                          \
	static always_inline uint32_t loop_##kind##_##name(                    \
	    struct groups *groups, const struct fold *fold,                    \
	    const struct single_input *input, uint32_t n, uint64_t **records,  \
	    bool in_array)                                                     \
	{                                                                      \
		const struct single_table table = table_of(groups);            \
		const char *from = input->from + fold->offset;                 \
		const uint64_t *keys = input->keys;                            \
		const size_t stride = input->stride, word = fold->word;        \
		const ptrdiff_t to_key = (ptrdiff_t)input->key_offset -        \
		    (ptrdiff_t)fold->offset;                                   \
		uint64_t *record;                                              \
		uint32_t i;                                                    \
                                                                               \
		for (i = 0; i < n; i++, from += stride) {                      \
			record = find(&table,                                  \
			    in_array ? keys[i] : load_UINT64(from + to_key));  \
			if (unlikely(!record))                                 \
				break;                                         \
			record[word] = step;                                   \
			if (records)                                           \
				records[i] = record;                           \
		}                                                              \
		return i;                                                      \
	}                                                                      \
                                                                               \
	static uint32_t single_##kind##_##name(struct groups *groups,          \
	    const struct fold *fold, const struct single_input *input,         \
	    uint32_t n, uint64_t **records)                                    \
	{                                                                      \
		return input->keys ? loop_##kind##_##name(groups, fold, input, \
					 n, records, true)                     \
				   : loop_##kind##_##name(groups, fold, input, \
					 n, records, false);                   \
	}

SINGLE_LOOPS

single_loop *dfi__single_loop(const struct fold *fold)
{
	static single_loop *const loops[FOLD_KINDS][DFI_DOUBLE + 1] = {
		SINGLE_ENTRIES
	};

	return fold->width == 1 ? loops[fold->kind][fold->type] : NULL;
}

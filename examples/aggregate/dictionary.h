/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The distinct texts of a column, numbered from 1 on in the order of arrival.
 * The flow sees only integers, so a long text makes no tuple longer. Number 0
 * is null.
 */
#ifndef AGGREGATE_DICTIONARY_H
#define AGGREGATE_DICTIONARY_H

#include <stdint.h>

#include "../common/csv_input.h"

/* All zero: empty. */
struct dictionary {
	struct texts texts;
	uint32_t *slots; /* numbers, by hash; 0: free */
	uint64_t n_slots;
	uint64_t seed;    /* random: an attacker may choose the texts */
	uint64_t checked; /* bytes: memory.h */
};

/* The number of a text; a new text is added. 0 after a complaint. */
uint32_t dictionary_add(struct dictionary *dictionary, struct text text);

static inline struct text dictionary_get(
    const struct dictionary *dictionary, uint64_t number)
{
	struct text null = { "", 0, true };

	return number ? texts_get(&dictionary->texts, number - 1) : null;
}

void dictionary_free(struct dictionary *dictionary);

#endif

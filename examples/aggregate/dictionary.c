/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing; at most half of the slots are taken. */
#include "dictionary.h"

#include <dfi/dfi.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "../../common/complain.h"
#include "../../common/memory.h"

#define FIRST_SLOTS 1024

/* A table with fewer slots does not check the memory that is left. */
#define MANY_SLOTS (UINT64_C(1) << 17)

static const char what[] = "the values of a column of GROUP BY need";
static const char advice[] = "group by fewer or shorter values";

/* The slot of a text, or the free slot where it belongs. */
static uint32_t *find(const struct dictionary *dictionary, struct text text)
{
	uint64_t mask = dictionary->n_slots - 1, i;
	struct text there;

	for (i = dfi_hash_bytes(text.bytes, text.size, dictionary->seed) & mask;
	     dictionary->slots[i]; i = (i + 1) & mask) {
		there = dictionary_get(dictionary, dictionary->slots[i]);
		if (there.size == text.size &&
		    memcmp(there.bytes, text.bytes, text.size) == 0)
			break;
	}
	return &dictionary->slots[i];
}

static int grow(struct dictionary *dictionary)
{
	uint64_t n = dictionary->n_slots ? 2 * dictionary->n_slots
					 : FIRST_SLOTS;
	uint32_t *slots, i;

	if (n >= MANY_SLOTS && memory_check(what, n * sizeof(*slots), advice))
		return -1;
	if (!dictionary->n_slots &&
	    getrandom(&dictionary->seed, sizeof(dictionary->seed), 0) !=
		sizeof(dictionary->seed))
		return complain("getrandom: %s", strerror(errno));
	slots = calloc(n, sizeof(*slots));
	if (!slots)
		return complain("no memory for a column's values");
	free(dictionary->slots);
	dictionary->slots = slots;
	dictionary->n_slots = n;
	for (i = 1; i <= dictionary->texts.n; i++)
		*find(dictionary, dictionary_get(dictionary, i)) = i;
	return 0;
}

uint32_t dictionary_add(struct dictionary *dictionary, struct text text)
{
	struct texts *texts = &dictionary->texts;
	uint32_t *slot;

	if (2 * (dictionary->texts.n + 1) > dictionary->n_slots &&
	    grow(dictionary))
		return 0;
	slot = find(dictionary, text);
	if (*slot)
		return *slot;
	if (texts_add(texts, text.bytes, text.size) ||
	    memory_check_growth(&dictionary->checked,
		texts->n * sizeof(*texts->ends) + texts->ends[texts->n - 1],
		what, advice))
		return 0;
	return *slot = (uint32_t)texts->n;
}

void dictionary_free(struct dictionary *dictionary)
{
	texts_free(&dictionary->texts);
	free(dictionary->slots);
	memset(dictionary, 0, sizeof(*dictionary));
}

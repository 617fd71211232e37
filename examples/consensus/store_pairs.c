/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and values: a dense array of pairs and a hash table of their places, at
 * most half full. See store.c for why there are two.
 */
#include "store_pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define FIRST_CAPACITY 16
#define MAX_CAPACITY (UINT32_C(1) << 30)

uint64_t kv_store_needs(uint64_t n, size_t key_size, size_t value_size)
{
	/* An allocation has a head, and a size that is a multiple. */
	uint64_t each = sizeof(struct pair) + key_size + value_size + 32;
	uint64_t capacity = FIRST_CAPACITY;

	while (capacity < n)
		capacity *= 2;
	/* While cells grow there is a second table, half as large. */
	return n * each +
	    capacity * (sizeof(struct pair *) + 3 * sizeof(struct cell));
}

int kv__pairs_init(struct pairs *pairs)
{
	/* Blocks only before the machine has its first randomness. */
	if (getrandom(&pairs->seed, sizeof(pairs->seed), 0) !=
	    sizeof(pairs->seed))
		return -ENOMEM;
	pairs->all = calloc(FIRST_CAPACITY, sizeof(struct pair *));
	pairs->cells = calloc(2 * FIRST_CAPACITY, sizeof(*pairs->cells));
	if (!pairs->all || !pairs->cells) {
		free(pairs->all);
		free(pairs->cells);
		return -ENOMEM;
	}
	pairs->capacity = FIRST_CAPACITY;
	pairs->mask = 2 * FIRST_CAPACITY - 1;
	return 0;
}

void kv__pairs_free(struct pairs *pairs)
{
	size_t i;

	for (i = 0; i < pairs->n; i++)
		free(pairs->all[i]);
	free(pairs->all);
	free(pairs->cells);
}

static uint32_t tag_of(const struct pairs *pairs, const char *key, size_t size)
{
	return (uint32_t)XXH3_64bits_withSeed(key, size, pairs->seed);
}

/* The cell of a key, or the empty one where it would be. */
static uint32_t find_cell(
    const struct pairs *pairs, uint32_t tag, const char *key, size_t size)
{
	const struct pair *pair;
	uint32_t i;

	for (i = tag & pairs->mask; pairs->cells[i].place;
	     i = (i + 1) & pairs->mask) {
		if (pairs->cells[i].tag != tag)
			continue;
		pair = pairs->all[pairs->cells[i].place - 1];
		if (pair->key_size == size &&
		    memcmp(pair_key(pair), key, size) == 0)
			break;
	}
	return i;
}

const struct pair *kv__pairs_find(
    const struct pairs *pairs, const char *key, size_t size)
{
	uint32_t place =
	    pairs->cells[find_cell(pairs, tag_of(pairs, key, size), key, size)]
		.place;

	return place ? pairs->all[place - 1] : NULL;
}

static int grow(struct pairs *pairs)
{
	size_t capacity = 2 * pairs->capacity, n_cells = 2 * capacity;
	uint32_t mask = (uint32_t)(n_cells - 1), from, to;
	struct pair **all;
	struct cell *cells;

	if (capacity > MAX_CAPACITY)
		return -ENOMEM;
	all = realloc(pairs->all, capacity * sizeof(struct pair *));
	if (!all)
		return -ENOMEM;
	pairs->all = all;
	cells = calloc(n_cells, sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	for (from = 0; from <= pairs->mask; from++) {
		if (!pairs->cells[from].place)
			continue;
		to = pairs->cells[from].tag & mask;
		while (cells[to].place)
			to = (to + 1) & mask;
		cells[to] = pairs->cells[from];
	}
	free(pairs->cells);
	pairs->cells = cells;
	pairs->mask = mask;
	pairs->capacity = capacity;
	return 0;
}

static void set_value(struct pair *pair, const char *value, size_t size)
{
	if (size)
		memcpy((char *)(pair + 1) + pair->key_size, value, size);
	pair->value_size = (uint16_t)size;
}

/* Make a pair with room for a key and a value, or give a pair more room. */
static struct pair *make_room(struct pair *pair, size_t size)
{
	size = (size + sizeof(*pair) + 15) / 16 * 16;
	pair = realloc(pair, size);
	if (pair)
		pair->capacity = (uint32_t)(size - sizeof(*pair));
	return pair;
}

int kv__pairs_put(struct pairs *pairs, const char *key, size_t key_size,
    const char *value, size_t value_size)
{
	uint32_t tag = tag_of(pairs, key, key_size);
	uint32_t cell = find_cell(pairs, tag, key, key_size);
	struct pair *pair = NULL, **at;

	if (pairs->cells[cell].place) {
		at = &pairs->all[pairs->cells[cell].place - 1];
		if ((*at)->capacity < key_size + value_size) {
			pair = make_room(*at, key_size + value_size);
			if (!pair)
				return -ENOMEM;
			*at = pair;
		}
		set_value(*at, value, value_size);
		return 0;
	}
	if (pairs->n == pairs->capacity) {
		if (grow(pairs))
			return -ENOMEM;
		cell = find_cell(pairs, tag, key, key_size);
	}
	pair = make_room(NULL, key_size + value_size);
	if (!pair)
		return -ENOMEM;
	memcpy(pair + 1, key, key_size);
	pair->key_size = (uint16_t)key_size;
	set_value(pair, value, value_size);
	pairs->all[pairs->n++] = pair;
	pairs->cells[cell].tag = tag;
	pairs->cells[cell].place = (uint32_t)pairs->n;
	return 0;
}

/* Empty a cell, and move up the later cells that it displaced. */
static void empty_cell(struct pairs *pairs, uint32_t hole)
{
	uint32_t i, home;

	for (i = (hole + 1) & pairs->mask; pairs->cells[i].place;
	     i = (i + 1) & pairs->mask) {
		home = pairs->cells[i].tag & pairs->mask;
		if (((i - home) & pairs->mask) < ((i - hole) & pairs->mask))
			continue; /* its home is behind the hole */
		pairs->cells[hole] = pairs->cells[i];
		hole = i;
	}
	pairs->cells[hole].place = 0;
}

bool kv__pairs_delete(struct pairs *pairs, const char *key, size_t size)
{
	uint32_t cell = find_cell(pairs, tag_of(pairs, key, size), key, size);
	uint32_t place = pairs->cells[cell].place;
	struct pair *last;

	if (!place)
		return false;
	free(pairs->all[place - 1]);
	empty_cell(pairs, cell);
	last = pairs->all[--pairs->n];
	if (place - 1 == pairs->n)
		return true;
	pairs->all[place - 1] = last;
	/* The table points to the new place of the last pair. */
	cell = find_cell(pairs, tag_of(pairs, pair_key(last), last->key_size),
	    pair_key(last), last->key_size);
	pairs->cells[cell].place = place;
	return true;
}

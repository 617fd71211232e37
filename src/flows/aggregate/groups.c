/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch is looked up in three passes: pack and hash the keys, find the slots,
 * and compare. The first two don't wait for memory.
 */
#include "groups.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/bits.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/memory.h"
#include "fold.h"
#include "single.h"
#include "spread.h"

#define WORD sizeof(uint64_t)

#define FIRST_SLOTS 256
/*
 * The least number of slots for each record, so that probes are short. Small
 * tables have more, up to this many bytes of slots: then almost all probes end
 * at once.
 */
#define SLOTS_FOR_RECORD 2
#define MANY_SLOTS_FOR_RECORD 16
#define MANY_SLOTS (UINT64_C(512) << 10)
/* Clearing this many slots takes as long as finding one. */
#define FEW_RECORDS 64
/* The size from which on slots and records miss the second-level cache. */
#define PREFETCH_FROM (UINT64_C(256) << 10)

int dfi__groups_init(
    struct groups *groups, const struct plan *plan, uint64_t max)
{
	*groups = (struct groups){ .plan = plan, .max = max };
	groups->n_slots = FIRST_SLOTS;
	groups->slots = calloc(FIRST_SLOTS, sizeof(*groups->slots));
	groups->keys = malloc(GROUPS_BATCH * plan->key_words * WORD);
	if (plan->key_words == 1) {
		groups->loops[0] = dfi__single_loop(&plan->folds[0]);
		groups->loops[1] = dfi__single_loop(&plan->merges[0]);
	}
	if (groups->slots && groups->keys)
		return 0;
	dfi__groups_free(groups);
	return dfi__fail(-ENOMEM, "no memory for groups");
}

void dfi__groups_free(struct groups *groups)
{
	free(groups->keys);
	free(groups->slots);
	free(groups->records);
	*groups = (struct groups){ .plan = groups->plan };
}

/* ---- Room ------------------------------------------------------------------
 */

const char *dfi__groups_root = "";

/* For fewer bytes, don't read the files. */
#define LOOK_FROM (UINT64_C(1) << 20)

/* Find out how many more bytes of memory there are, if that is known. */
static void look_for_room(uint64_t bytes, struct memory_room *room)
{
	room->bytes = UINT64_MAX;
	room->limit[0] = '\0';
	if (bytes >= LOOK_FROM)
		dfi__memory_room(dfi__groups_root, room);
}

static int out_of_memory(
    const struct groups *groups, uint64_t bytes, const struct memory_room *room)
{
	if (bytes <= room->bytes)
		return dfi__fail(-ENOMEM,
		    "no memory for more than %" PRIu64 " groups: %" PRIu64
		    " bytes more could not be had",
		    groups->n, bytes);
	return dfi__fail(-ENOMEM,
	    "no memory for more than %" PRIu64 " groups: the next take %" PRIu64
	    " bytes, but %" PRIu64 " are left (%s): free memory, raise the "
	    "limit, or let the target have fewer groups (max_groups)",
	    groups->n, bytes, room->bytes, room->limit);
}

/* The hash of a packed key. */
static always_inline uint64_t hash_key(
    const struct groups *groups, const uint64_t *key, uint32_t n_words)
{
	const uint64_t factor = groups->plan->factor;
	uint64_t hash = spread_hash(factor, key[0]);
	uint32_t i;

	for (i = 1; i < n_words; i++)
		hash = spread_hash(factor, hash ^ key[i]);
	return hash;
}

/* The slot where the probes of a hash begin. */
static always_inline uint64_t slot_of(
    const struct groups *groups, uint64_t hash)
{
	return hash & (groups->n_slots - 1);
}

static void put(struct groups *groups, uint64_t hash, uint32_t record)
{
	uint64_t at = slot_of(groups, hash);

	while (groups->slots[at].record)
		at = (at + 1) & (groups->n_slots - 1);
	groups->slots[at].tag = (uint32_t)(hash >> 32);
	groups->slots[at].record = record + 1;
}

/* The slot of a record; slots of other records may be cleared already. */
static struct groups_slot *slot_with(
    const struct groups *groups, uint64_t hash, uint32_t record)
{
	uint64_t at = slot_of(groups, hash);

	while (groups->slots[at].record != record + 1)
		at = (at + 1) & (groups->n_slots - 1);
	return &groups->slots[at];
}

void dfi__groups_clear(struct groups *groups)
{
	const uint32_t words = groups->plan->key_words;
	uint64_t i, hash;

	if (groups->n > groups->n_slots / FEW_RECORDS) {
		memset(
		    groups->slots, 0, groups->n_slots * sizeof(*groups->slots));
		groups->n = 0;
		return;
	}
	for (i = 0; i < groups->n; i++) {
		hash = hash_key(groups, groups_record(groups, i), words);
		*slot_with(
		    groups, hash, (uint32_t)i) = (struct groups_slot){ 0 };
	}
	groups->n = 0;
}

static int more_slots(struct groups *groups, uint64_t n_slots)
{
	uint64_t bytes = n_slots * sizeof(*groups->slots), i;
	const uint32_t words = groups->plan->key_words;
	struct groups_slot *slots = NULL;
	struct memory_room room;

	look_for_room(bytes, &room);
	if (bytes <= room.bytes)
		slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return out_of_memory(groups, bytes, &room);
	free(groups->slots);
	groups->slots = slots;
	groups->n_slots = n_slots;
	for (i = 0; i < groups->n; i++)
		put(groups, hash_key(groups, groups_record(groups, i), words),
		    (uint32_t)i);
	return 0;
}

/*
 * Double the records, limited to half of the memory left, but to at least those
 * needed. Pages are touched only when used.
 */
static int more_records(struct groups *groups, uint64_t need)
{
	uint64_t size = groups->plan->record_words * WORD, had = groups->room;
	uint64_t n = had ? had : GROUPS_BATCH, bytes;
	struct memory_room room;
	uint64_t *records = NULL;

	while (n < need)
		n *= 2;
	n = min_u64(n, groups->max);
	look_for_room((n - had) * size, &room);
	n = min_u64(n, max_u64(need, had + room.bytes / 2 / size));
	bytes = (n - had) * size;
	if (bytes <= room.bytes)
		records = reallocarray(groups->records, n, size);
	if (!records)
		return out_of_memory(groups, bytes, &room);
	groups->records = records;
	groups->room = n;
	return 0;
}

/* Reserve memory for a batch of new groups, so that records don't move. */
static int reserve(struct groups *groups)
{
	uint64_t need = min_u64(groups->n + GROUPS_BATCH, groups->max);
	uint64_t n_slots = groups->n_slots;
	int ret = need > groups->room ? more_records(groups, need) : 0;

	if (ret < 0)
		return ret;
	while (n_slots < need * SLOTS_FOR_RECORD ||
	    (n_slots < need * MANY_SLOTS_FOR_RECORD &&
		2 * n_slots * sizeof(*groups->slots) <= MANY_SLOTS))
		n_slots *= 2;
	return n_slots > groups->n_slots ? more_slots(groups, n_slots) : 0;
}

/* ---- Looking up ------------------------------------------------------------
 */

/* Pack a column of at most a word; size is a constant where this is inlined. */
static always_inline void pack_column(
    uint64_t *key, const char *from, size_t stride, size_t size, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++, from += stride) {
		key[i] = 0;
		memcpy(&key[i], from, size);
	}
}

static void pack_columns(
    const struct groups *groups, const char *from, size_t stride, uint32_t n)
{
	const struct plan *plan = groups->plan;
	const uint32_t words = plan->key_words;
	uint64_t *key = groups->keys;
	uint32_t i, c;

	for (i = 0; i < n; i++, from += stride, key += words) {
		key[words - 1] = 0; /* padding */
		for (c = 0; c < plan->n_columns; c++)
			memcpy((char *)key + plan->columns[c].at,
			    from + plan->columns[c].offset,
			    plan->columns[c].size);
	}
}

static void pack_keys(const struct groups *groups, const char *from,
    size_t stride, bool merged, uint32_t n)
{
	const struct plan *plan = groups->plan;
	const uint32_t words = plan->key_words;
	const char *column = from + plan->columns[0].offset;
	uint32_t i;

	if (merged) {
		for (i = 0; i < n; i++, from += stride)
			memcpy(&groups->keys[i * words], from, words * WORD);
		return;
	}
	switch (plan->n_columns == 1 ? plan->columns[0].size : 0) {
	case 1:
		pack_column(groups->keys, column, stride, 1, n);
		return;
	case 2:
		pack_column(groups->keys, column, stride, 2, n);
		return;
	case 4:
		pack_column(groups->keys, column, stride, 4, n);
		return;
	case WORD:
		pack_column(groups->keys, column, stride, WORD, n);
		return;
	default:
		pack_columns(groups, from, stride, n);
	}
}

static uint64_t *new_record(struct groups *groups, const uint64_t *key)
{
	const struct plan *plan = groups->plan;
	uint64_t *record = &groups->records[groups->n++ * plan->record_words];

	memcpy(record, key, plan->key_words * WORD);
	memcpy(record + plan->key_words, plan->identity + plan->key_words,
	    (plan->record_words - plan->key_words) * WORD);
	return record;
}

uint64_t *dfi__groups_insert(
    struct groups *groups, const uint64_t *key, uint64_t hash, uint64_t slot)
{
	if (groups->n == groups->max)
		return NULL;
	groups->slots[slot].tag = (uint32_t)(hash >> 32);
	groups->slots[slot].record = (uint32_t)groups->n + 1;
	return new_record(groups, key);
}

/* NULL: there would be too many groups. */
static always_inline uint64_t *find_one(
    struct groups *groups, const uint64_t *key, uint64_t hash, uint32_t n_words)
{
	uint64_t at = slot_of(groups, hash), *record;
	const struct groups_slot *slot;

	for (;; at = (at + 1) & (groups->n_slots - 1)) {
		slot = &groups->slots[at];
		if (!slot->record)
			return dfi__groups_insert(groups, key, hash, at);
		if (slot->tag != (uint32_t)(hash >> 32))
			continue;
		record = &groups->records[(uint64_t)(slot->record - 1) *
		    groups->plan->record_words];
		if (likely(same_words(record, key, n_words)))
			return record;
	}
}

static bool in_cache(const struct groups *groups)
{
	return groups->n * groups->plan->record_words * WORD <= PREFETCH_FROM;
}

static void prefetch(
    const struct groups *groups, const uint64_t *hashes, uint32_t n)
{
	const struct groups_slot *slot;
	uint32_t i;

	for (i = 0; i < n; i++)
		__builtin_prefetch(&groups->slots[slot_of(groups, hashes[i])]);
	/* The likely record: for most keys that of the first probe. */
	for (i = 0; i < n; i++) {
		slot = &groups->slots[slot_of(groups, hashes[i])];
		if (slot->record)
			__builtin_prefetch(
			    &groups->records[(uint64_t)(slot->record - 1) *
				groups->plan->record_words]);
	}
}

/* Find or make the groups of n packed keys; returns for how many. */
static always_inline uint32_t find_keys(struct groups *groups, uint32_t n_words,
    uint32_t n, uint64_t *records[GROUPS_BATCH])
{
	const uint64_t *key = groups->keys;
	uint64_t hashes[GROUPS_BATCH];
	uint32_t i;

	for (i = 0; i < n; i++)
		hashes[i] = hash_key(groups, &key[i * n_words], n_words);
	if (!in_cache(groups))
		prefetch(groups, hashes, n);
	for (i = 0; i < n; i++) {
		records[i] = find_one(
		    groups, &key[i * n_words], hashes[i], n_words);
		if (unlikely(!records[i]))
			break;
	}
	return i;
}

int dfi__groups_find(struct groups *groups, const char *from, size_t stride,
    bool merged, uint32_t n, uint64_t *records[GROUPS_BATCH], uint32_t *found)
{
	int ret = reserve(groups);

	if (ret < 0)
		return ret;
	pack_keys(groups, from, stride, merged, n);
	switch (groups->plan->key_words) {
	case 1:
		*found = find_keys(groups, 1, n, records);
		break;
	case 2:
		*found = find_keys(groups, 2, n, records);
		break;
	default:
		*found = find_keys(groups, groups->plan->key_words, n, records);
		break;
	}
	return 0;
}

/* Without columns to group by, all tuples are one group. */
static int fold_all(struct groups *groups, const char *from, uint64_t n)
{
	const uint64_t none = 0;
	uint64_t hash;
	int ret;

	if (!groups->n) {
		ret = reserve(groups);
		if (ret < 0)
			return ret;
		hash = hash_key(groups, &none, 1);
		dfi__groups_insert(groups, &none, hash, slot_of(groups, hash));
	}
	dfi__fold_all(groups->plan, from, groups->records, n);
	return 0;
}

/* Find groups and do the first fold, or merge, in one loop; then the others. */
static int fold_single(struct groups *groups, const char *from, size_t stride,
    bool merged, uint32_t n, uint32_t *found)
{
	const struct plan *plan = groups->plan;
	const struct fold *fold = merged ? plan->merges : plan->folds;
	uint32_t n_folds = merged ? plan->n_merges : plan->n_folds, i;
	uint64_t *records[GROUPS_BATCH];
	struct single_input input = { .from = from, .stride = stride };
	int ret = reserve(groups);

	if (ret < 0)
		return ret;
	if (!merged && plan->columns[0].size == WORD && plan->n_columns == 1) {
		input.key_offset = plan->columns[0].offset;
	} else if (!merged) {
		pack_keys(groups, from, stride, false, n);
		input.keys = groups->keys;
	}
	n = groups->loops[merged](
	    groups, fold, &input, n, n_folds > 1 ? records : NULL);
	for (i = 1; i < n_folds; i++)
		fold[i].functions->each(&fold[i], from, stride, records, n);
	*found = n;
	return 0;
}

/* Find groups first, then fold. */
static int fold_found(struct groups *groups, const char *from, size_t stride,
    bool merged, uint32_t n, uint32_t *found)
{
	uint64_t *records[GROUPS_BATCH];
	int ret = dfi__groups_find(
	    groups, from, stride, merged, n, records, found);

	if (ret < 0)
		return ret;
	if (merged)
		dfi__fold_records(groups->plan, from, stride, records, *found);
	else
		dfi__fold_each(groups->plan, from, records, *found);
	return 0;
}

int dfi__groups_fold(struct groups *groups, const char *from, size_t stride,
    bool merged, uint64_t n, uint64_t *taken)
{
	uint32_t batch, found;
	int ret;

	*taken = 0;
	if (!groups->plan->n_columns && !merged && n) {
		ret = fold_all(groups, from, n);
		*taken = ret < 0 ? 0 : n;
		return ret;
	}
	for (; *taken < n; *taken += found, from += found * stride) {
		batch = (uint32_t)min_u64(n - *taken, GROUPS_BATCH);
		if (groups->loops[merged] && in_cache(groups))
			ret = fold_single(
			    groups, from, stride, merged, batch, &found);
		else
			ret = fold_found(
			    groups, from, stride, merged, batch, &found);
		if (ret < 0)
			return ret;
		if (found < batch) {
			*taken += found;
			return 0;
		}
	}
	return 0;
}

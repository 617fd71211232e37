/* SPDX-License-Identifier: Apache-2.0 */
/* The internals of a store, shared by store.c, store_pairs.c, store_save.c. */
#ifndef KV_STORE_PAIRS_H
#define KV_STORE_PAIRS_H

#include "store.h"

/* A key and its value; their bytes follow. */
struct pair {
	uint32_t capacity; /* of the bytes behind it */
	uint16_t key_size;
	uint16_t value_size;
};

static inline const char *pair_key(const struct pair *pair)
{
	return (const char *)(pair + 1);
}

static inline const char *pair_value(const struct pair *pair)
{
	return pair_key(pair) + pair->key_size;
}

/* Of the hash table. */
struct cell {
	uint32_t tag;   /* the hash: its lower bits say where it would stand */
	uint32_t place; /* of the pair, from 1; 0: empty */
};

struct pairs {
	uint64_t seed;
	struct pair **all;
	struct cell *cells;
	size_t n, capacity;
	uint32_t mask; /* cells - 1; capacity is half of them */
};

/* -ENOMEM. */
int kv__pairs_init(struct pairs *pairs);
void kv__pairs_free(struct pairs *pairs);
const struct pair *kv__pairs_find(
    const struct pairs *pairs, const char *key, size_t size);
/* -ENOMEM: nothing has changed. */
int kv__pairs_put(struct pairs *pairs, const char *key, size_t key_size,
    const char *value, size_t value_size);
bool kv__pairs_delete(struct pairs *pairs, const char *key, size_t size);

/* The last command of a lane. */
struct lane {
	uint64_t number; /* 0: none yet */
	uint64_t status;
};

struct session {
	uint64_t id;
	uint64_t last_used; /* slot */
	struct lane *lanes;
	uint32_t n_lanes;
};

struct kv_store {
	uint64_t slot;
	size_t part; /* bytes of the next slot's batch that are applied */
	struct kv_config config;
	struct pairs pairs;
	struct session *sessions; /* by id */
	size_t n_sessions, session_capacity;
	size_t n_lanes; /* of all of them */
};

#ifdef KV_TEST_BUGS
/* A planted fault: all stores apply a repeated command twice. */
extern bool kv_store_no_filter;

/* Another one: if a batch's first command is repeated, its whole batch is. */
extern bool kv_store_slot_filter;
#endif

/* A session whose id is above all others. -ENOMEM: nothing has changed. */
int kv__session_add(
    struct kv_store *store, uint64_t id, uint64_t last_used, uint32_t n_lanes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots and digests of a store. A snapshot is one block:
 *
 *   head | sessions, each with its lanes | pairs, each padded to 8 | checksum
 *
 * The applied commands decide its bytes, as they do for the store's arrays. It
 * comes from a disk or another replica. The checksum finds damage; the reader
 * checks every field as well, so that no block of bytes breaks the program.
 */
#include "store_pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define MAGIC UINT64_C(0x31706e73766b2d64) /* "d-kvsnp1" */
#define CHECKSUM_SIZE sizeof(uint64_t)

struct head {
	uint64_t magic;
	uint64_t size; /* of all, with the checksum */
	uint64_t slot;
	struct kv_config config;
	uint64_t n_sessions;
	uint64_t n_pairs;
};

struct saved_session {
	uint64_t id;
	uint64_t last_used;
	uint64_t n_lanes;
};

struct saved_pair {
	uint32_t key_size;
	uint32_t value_size;
};

static size_t padded(size_t size)
{
	return (size + 7) & ~(size_t)7;
}

static uint64_t session_digest(const struct session *session)
{
	uint64_t numbers[2] = { session->id, session->last_used };
	uint64_t seed = XXH3_64bits(numbers, sizeof(numbers));

	return XXH3_64bits_withSeed(
	    session->lanes, session->n_lanes * sizeof(*session->lanes), seed);
}

/* Sums do not depend on an order, so the digest does not depend on storage. */
uint64_t kv_store_digest(const struct kv_store *store)
{
	const struct pair *pair;
	uint64_t sums[4] = { store->slot, store->pairs.n, 0, 0 };
	size_t i;

	for (i = 0; i < store->n_sessions; i++)
		sums[2] += session_digest(&store->sessions[i]);
	for (i = 0; i < store->pairs.n; i++) {
		pair = store->pairs.all[i];
		sums[3] += XXH3_64bits_withSeed(pair + 1,
		    (size_t)pair->key_size + pair->value_size, pair->key_size);
	}
	return XXH3_64bits_withSeed(sums, sizeof(sums),
	    XXH3_64bits(&store->config, sizeof(store->config)));
}

static size_t saved_size(const struct kv_store *store)
{
	size_t i, size = sizeof(struct head) + CHECKSUM_SIZE;

	size += store->n_sessions * sizeof(struct saved_session) +
	    store->n_lanes * sizeof(struct lane);
	for (i = 0; i < store->pairs.n; i++)
		size += sizeof(struct saved_pair) +
		    padded((size_t)store->pairs.all[i]->key_size +
			store->pairs.all[i]->value_size);
	return size;
}

static char *put(char *to, const void *from, size_t size)
{
	memcpy(to, from, size);
	memset(to + size, 0, padded(size) - size);
	return to + padded(size);
}

static char *put_sessions(char *to, const struct kv_store *store)
{
	const struct session *session;
	struct saved_session saved;
	size_t i;

	for (i = 0; i < store->n_sessions; i++) {
		session = &store->sessions[i];
		saved.id = session->id;
		saved.last_used = session->last_used;
		saved.n_lanes = session->n_lanes;
		to = put(to, &saved, sizeof(saved));
		to = put(to, session->lanes,
		    session->n_lanes * sizeof(*session->lanes));
	}
	return to;
}

static char *put_pairs(char *to, const struct kv_store *store)
{
	const struct pair *pair;
	struct saved_pair saved;
	size_t i;

	for (i = 0; i < store->pairs.n; i++) {
		pair = store->pairs.all[i];
		saved.key_size = pair->key_size;
		saved.value_size = pair->value_size;
		to = put(to, &saved, sizeof(saved));
		to = put(
		    to, pair + 1, (size_t)pair->key_size + pair->value_size);
	}
	return to;
}

int kv_store_save(const struct kv_store *store, char **bytes, size_t *size)
{
	size_t all = saved_size(store);
	char *block = store->part ? NULL : malloc(all), *to = block;
	struct head head = {
		.magic = MAGIC,
		.size = all,
		.slot = store->slot,
		.config = store->config,
		.n_sessions = store->n_sessions,
		.n_pairs = store->pairs.n,
	};
	uint64_t checksum;

	if (!block)
		return store->part ? -EAGAIN : -ENOMEM;
	to = put(to, &head, sizeof(head));
	to = put_sessions(to, store);
	to = put_pairs(to, store);
	checksum = XXH3_64bits(block, (size_t)(to - block));
	memcpy(to, &checksum, sizeof(checksum));
	*bytes = block;
	*size = all;
	return 0;
}

/* The unread rest of a snapshot. */
struct rest {
	const char *at;
	size_t size;
};

/* The next size bytes, or NULL if there are fewer. */
static const char *take(struct rest *rest, size_t size)
{
	const char *at = rest->at;

	if (size > rest->size || padded(size) > rest->size)
		return NULL;
	rest->at += padded(size);
	rest->size -= padded(size);
	return at;
}

static int load_session(struct kv_store *store, struct rest *rest)
{
	const char *bytes = take(rest, sizeof(struct saved_session));
	uint64_t last = 0;
	struct saved_session saved;
	size_t size;

	if (!bytes)
		return -EBADMSG;
	memcpy(&saved, bytes, sizeof(saved));
	if (store->n_sessions)
		last = store->sessions[store->n_sessions - 1].id;
	if (saved.id <= last || saved.id > store->slot ||
	    saved.last_used < saved.id || saved.last_used > store->slot ||
	    saved.n_lanes < 1 || saved.n_lanes > KV_MAX_LANES)
		return -EBADMSG;
	size = (size_t)saved.n_lanes * sizeof(struct lane);
	bytes = take(rest, size);
	if (!bytes)
		return -EBADMSG;
	if (kv__session_add(
		store, saved.id, saved.last_used, (uint32_t)saved.n_lanes))
		return -ENOMEM;
	memcpy(store->sessions[store->n_sessions - 1].lanes, bytes, size);
	return 0;
}

static int load_pair(struct kv_store *store, struct rest *rest)
{
	const char *bytes = take(rest, sizeof(struct saved_pair));
	size_t n = store->pairs.n;
	struct saved_pair saved;

	if (!bytes)
		return -EBADMSG;
	memcpy(&saved, bytes, sizeof(saved));
	if (saved.key_size < 1 || saved.key_size > KV_MAX_KEY ||
	    saved.value_size > KV_MAX_VALUE)
		return -EBADMSG;
	bytes = take(rest, (size_t)saved.key_size + saved.value_size);
	if (!bytes)
		return -EBADMSG;
	if (kv__pairs_put(&store->pairs, bytes, saved.key_size,
		bytes + saved.key_size, saved.value_size))
		return -ENOMEM;
	return store->pairs.n == n + 1 ? 0 : -EBADMSG; /* two of one key */
}

static int load_all(
    struct kv_store *store, const struct head *head, struct rest *rest)
{
	uint64_t i;
	int err = 0;

	store->slot = head->slot;
	for (i = 0; !err && i < head->n_sessions; i++)
		err = load_session(store, rest);
	for (i = 0; !err && i < head->n_pairs; i++)
		err = load_pair(store, rest);
	if (!err && rest->size != CHECKSUM_SIZE)
		err = -EBADMSG;
	return err;
}

int kv_store_load(const char *bytes, size_t size, struct kv_store **store)
{
	struct rest rest = { bytes, size };
	struct kv_store *loaded;
	struct head head;
	uint64_t checksum;
	int err;

	if (size < sizeof(head) + CHECKSUM_SIZE)
		return -EBADMSG;
	memcpy(&head, take(&rest, sizeof(head)), sizeof(head));
	memcpy(&checksum, bytes + size - CHECKSUM_SIZE, CHECKSUM_SIZE);
	if (head.magic != MAGIC || head.size != size ||
	    checksum != XXH3_64bits(bytes, size - CHECKSUM_SIZE))
		return -EBADMSG;
	loaded = kv_store_new(&head.config);
	if (!loaded)
		return -ENOMEM;
	err = load_all(loaded, &head, &rest);
	if (err) {
		kv_store_free(loaded);
		return err;
	}
	*store = loaded;
	return 0;
}

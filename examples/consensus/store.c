/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: a hash table of keys, and the sessions of clients.
 *
 * The commands alone decide the order of the array of pairs: a new pair goes to
 * the end, and the last pair replaces a deleted one. Clients choose the keys,
 * so the table that finds them is hashed with a secret seed; nothing that
 * replicas compare or exchange depends on it. Sessions stand in the order of
 * their ids, which grow.
 *
 *   table:  | tag, place | 0 | tag, place | ...   open addressing, linear
 *   pairs:  | -> key, value | -> key, value | ... dense
 */
#include "store_pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The lanes of all sessions: 16 MiB. */
#define MAX_ALL_LANES (1 << 20)

#ifdef KV_TEST_BUGS
bool kv_store_no_filter;   /* PAXOS_BUG_DUPLICATES */
bool kv_store_slot_filter; /* PAXOS_BUG_SLOT_FILTER */
#define no_filter kv_store_no_filter
#define slot_filter kv_store_slot_filter
#else
#define no_filter false
#define slot_filter false
#endif

struct kv_store *kv_store_new(const struct kv_config *config)
{
	struct kv_store *store = calloc(1, sizeof(*store));

	if (!store)
		return NULL;
	store->config = *config;
	if (kv__pairs_init(&store->pairs)) {
		free(store);
		return NULL;
	}
	return store;
}

void kv_store_free(struct kv_store *store)
{
	size_t i;

	if (!store)
		return;
	for (i = 0; i < store->n_sessions; i++)
		free(store->sessions[i].lanes);
	free(store->sessions);
	kv__pairs_free(&store->pairs);
	free(store);
}

/* Where the session stands, or would. */
static size_t session_place(const struct kv_store *store, uint64_t id)
{
	size_t low = 0, high = store->n_sessions, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (store->sessions[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The lane of a command's session, or NULL. */
static struct lane *find_lane(
    struct kv_store *store, const struct kv_command *command, uint64_t slot)
{
	size_t place = session_place(store, command->session);
	struct session *session = store->sessions + place;

	if (place == store->n_sessions || session->id != command->session ||
	    command->lane >= session->n_lanes)
		return NULL;
	session->last_used = slot;
	return &session->lanes[command->lane];
}

int kv__session_add(
    struct kv_store *store, uint64_t id, uint64_t last_used, uint32_t n_lanes)
{
	size_t capacity = store->session_capacity;
	struct session *sessions = store->sessions, *session;
	struct lane *lanes;

	if (store->n_sessions == capacity) {
		capacity = capacity ? 2 * capacity : 16;
		sessions = realloc(sessions, capacity * sizeof(*sessions));
		if (!sessions)
			return -ENOMEM;
		store->sessions = sessions;
		store->session_capacity = capacity;
	}
	lanes = calloc(n_lanes, sizeof(*lanes));
	if (!lanes)
		return -ENOMEM;
	session = &sessions[store->n_sessions++];
	session->id = id;
	session->last_used = last_used;
	session->n_lanes = n_lanes;
	session->lanes = lanes;
	store->n_lanes += n_lanes;
	return 0;
}

static int open_session(struct kv_store *store, uint64_t slot,
    const struct kv_command *command, struct kv_result *result)
{
	uint32_t n_lanes = (uint32_t)command->argument;
	int err;

	if (store->n_lanes + n_lanes > MAX_ALL_LANES) {
		result->status = KV_BUSY;
		return 0;
	}
	err = kv__session_add(store, slot, slot, n_lanes);
	if (!err)
		result->session = slot;
	return err;
}

void kv_store_expire(struct kv_store *store, uint64_t slot)
{
	size_t i, n = 0;

	for (i = 0; i < store->n_sessions; i++) {
		if (store->sessions[i].last_used < slot) {
			store->n_lanes -= store->sessions[i].n_lanes;
			free(store->sessions[i].lanes);
		} else {
			store->sessions[n++] = store->sessions[i];
		}
	}
	store->n_sessions = n;
}

void kv_store_read(const struct kv_store *store, const char *key, size_t size,
    struct kv_result *result)
{
	const struct pair *pair = kv__pairs_find(&store->pairs, key, size);

	memset(result, 0, sizeof(*result));
	if (!pair) {
		result->status = KV_NOT_FOUND;
		return;
	}
	result->value = pair_value(pair);
	result->value_size = pair->value_size;
}

/* Whether a cas may write; if not, the result says why. */
static bool as_expected(const struct kv_store *store,
    const struct kv_command *command, struct kv_result *result)
{
	const char *expected = kv_command_expected(command);

	kv_store_read(
	    store, kv_command_key(command), command->key_size, result);
	if (result->status == KV_NOT_FOUND) {
		if (command->flags & KV_ABSENT)
			result->status = KV_OK;
		return result->status == KV_OK;
	}
	if (!(command->flags & KV_ABSENT) &&
	    result->value_size == command->expected_size &&
	    memcmp(result->value, expected, command->expected_size) == 0) {
		memset(result, 0, sizeof(*result));
		return true;
	}
	result->status = KV_DIFFERENT;
	return false;
}

/* A client's command that its lane has not yet seen. */
static int do_op(struct kv_store *store, const struct kv_command *command,
    struct kv_result *result)
{
	const char *key = kv_command_key(command);
	size_t key_size = command->key_size;

	switch (command->op) {
	case KV_GET:
		kv_store_read(store, key, key_size, result);
		return 0;
	case KV_DELETE:
		if (!kv__pairs_delete(&store->pairs, key, key_size))
			result->status = KV_NOT_FOUND;
		return 0;
	case KV_CAS:
		if (!as_expected(store, command, result))
			return 0;
		break;
	default:
		break;
	}
	return kv__pairs_put(&store->pairs, key, key_size,
	    kv_command_value(command), command->value_size);
}

static int apply_once(struct kv_store *store, uint64_t slot,
    const struct kv_command *command, struct kv_result *result)
{
	struct lane *lane = find_lane(store, command, slot);
	int err;

	if (!lane) {
		result->status = KV_NO_SESSION;
		return 0;
	}
	if (no_filter) {
		lane->number = command->number;
		return do_op(store, command, result);
	}
	if (command->number < lane->number) {
		result->status = KV_INVALID;
		return 0;
	}
	if (command->number == lane->number && command->op != KV_GET) {
		result->status = (uint8_t)lane->status;
		return 0;
	}
	err = do_op(store, command, result);
	if (err)
		return err;
	lane->number = command->number;
	lane->status = result->status;
	return 0;
}

const struct kv_command *kv_store_next(
    const struct kv_store *store, const struct kv_command *command)
{
	const char *first = (const char *)kv_slot_first(command);

	return (const struct kv_command *)(const void *)(first + store->part);
}

/* For a planted fault: whether a batch begins with a repeated command. */
static bool is_repeated(
    const struct kv_store *store, const struct kv_command *batch)
{
	const struct kv_command *first = kv_slot_first(batch);
	uint64_t number;
	uint8_t status;

	return store->part == 0 &&
	    kv_store_lane(store, first, &number, &status) &&
	    first->number <= number;
}

/* The next command of a batch. */
static int apply_part(struct kv_store *store, uint64_t slot,
    const struct kv_command *batch, struct kv_result *result)
{
	const struct kv_command *command = kv_store_next(store, batch);
	int err;

	if (slot_filter && is_repeated(store, batch)) {
		store->slot = slot;
		return 0;
	}
	err = apply_once(store, slot, command, result);
	if (err)
		return err;
	store->part += kv_command_size(command);
	if (store->part < batch->value_size)
		return 1;
	store->part = 0;
	store->slot = slot;
	return 0;
}

int kv_store_apply(struct kv_store *store, uint64_t slot,
    const struct kv_command *command, struct kv_result *result)
{
	int err = 0;

	memset(result, 0, sizeof(*result));
	if (slot != store->slot + 1)
		return -EINVAL;
	switch (command->op) {
	case KV_NOOP:
		break;
	case KV_REGISTER:
		err = open_session(store, slot, command, result);
		break;
	case KV_EXPIRE:
		kv_store_expire(store, command->argument);
		break;
	case KV_CONFIG:
		memcpy(&store->config, kv_command_value(command),
		    sizeof(store->config));
		break;
	case KV_BATCH:
		return apply_part(store, slot, command, result);
	default:
		err = apply_once(store, slot, command, result);
		break;
	}
	if (!err)
		store->slot = slot;
	return err;
}

bool kv_store_lane(const struct kv_store *store,
    const struct kv_command *command, uint64_t *number, uint8_t *status)
{
	size_t place = session_place(store, command->session);
	const struct session *session = store->sessions + place;

	if (place == store->n_sessions || session->id != command->session ||
	    command->lane >= session->n_lanes)
		return false;
	*number = session->lanes[command->lane].number;
	*status = (uint8_t)session->lanes[command->lane].status;
	return true;
}

uint64_t kv_store_slot(const struct kv_store *store)
{
	return store->slot;
}

const struct kv_config *kv_store_config(const struct kv_store *store)
{
	return &store->config;
}

size_t kv_store_keys(const struct kv_store *store)
{
	return store->pairs.n;
}

size_t kv_store_sessions(const struct kv_store *store)
{
	return store->n_sessions;
}

uint64_t kv_store_oldest_use(const struct kv_store *store)
{
	uint64_t oldest = 0;
	size_t i;

	for (i = 0; i < store->n_sessions; i++)
		if (i == 0 || store->sessions[i].last_used < oldest)
			oldest = store->sessions[i].last_used;
	return oldest;
}

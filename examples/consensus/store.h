/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state machine: keys with values, the sessions of clients, and the
 * configuration. Its content depends only on the applied commands and their
 * order: not on a clock, randomness or addresses.
 *
 * One thread at a time.
 */
#ifndef KV_STORE_H
#define KV_STORE_H

#include "message.h"

struct kv_store;

/* What a command has done. */
struct kv_result {
	uint8_t status;    /* enum kv_status */
	const char *value; /* KV_GET, KV_DIFFERENT: valid until the next
			      change; NULL: none, or no longer known */
	size_t value_size;
	uint64_t session; /* KV_REGISTER: the session's id */
};

/* A store without keys at slot 0, of the given configuration. NULL: ENOMEM. */
struct kv_store *kv_store_new(const struct kv_config *config);
void kv_store_free(struct kv_store *store);

/*
 * Apply the valid command of a slot, which is one above the last. A command
 * that its lane has already seen is not applied again: KV_PUT, KV_DELETE and
 * KV_CAS give the old status, a get reads again. A command older than the
 * lane's last gives KV_INVALID. KV_REGISTER gives KV_BUSY where all sessions
 * have too many lanes. -ENOMEM leaves the store as it was; -EINVAL: another
 * slot is due. Of a batch, each call applies one command, and returns 1 while
 * another one is left.
 */
int kv_store_apply(struct kv_store *store, uint64_t slot,
    const struct kv_command *command, struct kv_result *result);

/* The command of the slot that kv_store_apply() applies next. */
const struct kv_command *kv_store_next(
    const struct kv_store *store, const struct kv_command *command);

/* About how much memory a store of n keys takes. */
uint64_t kv_store_needs(uint64_t n, size_t key_size, size_t value_size);

/* Read a key without the log. The session is not checked. */
void kv_store_read(const struct kv_store *store, const char *key, size_t size,
    struct kv_result *result);

/*
 * The number and status of the last command that the lane of a command has had;
 * number 0: none. False: there is no such session.
 */
bool kv_store_lane(const struct kv_store *store,
    const struct kv_command *command, uint64_t *number, uint8_t *status);

uint64_t kv_store_slot(const struct kv_store *store); /* applied last */
const struct kv_config *kv_store_config(const struct kv_store *store);
size_t kv_store_keys(const struct kv_store *store);
size_t kv_store_sessions(const struct kv_store *store);

/* The slot at which the longest idle session was last used, or 0. */
uint64_t kv_store_oldest_use(const struct kv_store *store);

/* End sessions that were last used before a slot, as KV_EXPIRE does. */
void kv_store_expire(struct kv_store *store, uint64_t slot);

/*
 * A checksum of the whole content. Replicas that have applied the same commands
 * have the same one. It reads all content.
 */
uint64_t kv_store_digest(const struct kv_store *store);

/*
 * A snapshot: one block of bytes with the slot, the configuration, the sessions
 * and all keys, and a checksum. The caller frees *bytes. -ENOMEM.
 */
int kv_store_save(const struct kv_store *store, char **bytes, size_t *size);

/* The store that a snapshot holds. -EBADMSG: it is damaged. -ENOMEM. */
int kv_store_load(const char *bytes, size_t size, struct kv_store **store);

#endif

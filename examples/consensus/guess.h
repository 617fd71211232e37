/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicts a store's answers to commands in the log that it has not applied
 * yet. The store stays unchanged. The log has the changes of these commands,
 * which chains find from the newest slot to older ones. A chain ends at the
 * last applied slot, so nothing is ever removed.
 */
#ifndef KV_GUESS_H
#define KV_GUESS_H

#include "log.h"
#include "store.h"

struct kv_guess;

/* The memory that it takes. */
uint64_t kv_guess_needs(uint32_t commands);

/* For at most this many commands behind the applied ones. NULL: ENOMEM. */
struct kv_guess *kv_guess_new(uint32_t commands, uint64_t seed);
void kv_guess_free(struct kv_guess *guess);

/* Forget all: the next command is the first that the store has not applied. */
void kv_guess_clear(struct kv_guess *guess);

/* Whether there is room for the commands of a slot that is not applied. */
bool kv_guess_takes(const struct kv_guess *guess, const struct kv_store *store,
    const struct kv_command *slot);

/*
 * The store's answer to a client's command on a key in a slot of the log. All
 * commands before it must be predicted or applied. The value is valid until
 * store or log change.
 */
void kv_guess_command(struct kv_guess *guess, const struct kv_store *store,
    const struct kv_log *log, uint64_t slot, const struct kv_command *command,
    struct kv_result *result);

/*
 * Whether a slot's command was predicted, and its status. Call it once for
 * each, in their order.
 */
bool kv_guess_status(struct kv_guess *guess, uint64_t slot, uint8_t *status);

#endif

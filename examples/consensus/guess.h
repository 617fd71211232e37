/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a store will answer to commands that stand in the log behind what it has
 * applied. The store stays as it is; what the commands would change is found in
 * the log, by chains from the newest slot to older ones. A chain ends at what
 * the store has applied, so nothing is ever taken out.
 */
#ifndef KV_GUESS_H
#define KV_GUESS_H

#include "log.h"
#include "store.h"

struct kv_guess;

/* The memory that it takes. */
uint64_t kv_guess_needs(uint32_t commands);

/* For at most so many commands behind what is applied. NULL: ENOMEM. */
struct kv_guess *kv_guess_new(uint32_t commands, uint64_t seed);
void kv_guess_free(struct kv_guess *guess);

/* Forget all: the next command is the first behind what the store has. */
void kv_guess_clear(struct kv_guess *guess);

/* Whether there is room for the commands of a slot, which is not applied. */
bool kv_guess_takes(const struct kv_guess *guess, const struct kv_store *store,
    const struct kv_command *slot);

/*
 * What the store gives for a client's command on a key in a slot of the log,
 * after all commands before it were worked out or applied. The value is valid
 * until store or log change.
 */
void kv_guess_command(struct kv_guess *guess, const struct kv_store *store,
    const struct kv_log *log, uint64_t slot, const struct kv_command *command,
    struct kv_result *result);

/*
 * Whether a slot's command was worked out, and what its status was: asked once
 * for each, in their order.
 */
bool kv_guess_status(struct kv_guess *guess, uint64_t slot, uint8_t *status);

#endif

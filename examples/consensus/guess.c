/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "guess.h"

/* Room for at least the commands of one slot. */
#define LEAST (KV_MAX_COMMAND / sizeof(struct kv_command))

/* One command. They are numbered from 1 on. */
struct guessed {
	uint64_t slot;
	uint64_t key_next, lane_next; /* older ones in the same buckets */
	uint32_t offset;              /* in its entry */
	bool seen;   /* its lane takes its number and status from it */
	bool writes; /* its key has its value, or none if it deletes */
	uint8_t status;
};

struct kv_guess {
	uint64_t seed;
	uint64_t mask; /* of commands, and of buckets */
	uint64_t newest, asked;
	struct guessed *commands; /* by number & mask */
	uint64_t *keys, *lanes;   /* the newest one of each bucket */
};

static uint64_t places_for(uint32_t commands)
{
	uint64_t n = 64;

	while (n < commands || n < LEAST)
		n *= 2;
	return n;
}

uint64_t kv_guess_needs(uint32_t commands)
{
	return places_for(commands) *
	    (sizeof(struct guessed) + 2 * sizeof(uint64_t));
}

struct kv_guess *kv_guess_new(uint32_t commands, uint64_t seed)
{
	struct kv_guess *guess = calloc(1, sizeof(*guess));
	uint64_t n = places_for(commands);

	if (!guess)
		return NULL;
	guess->seed = seed | 1;
	guess->mask = n - 1;
	guess->commands = calloc(n, sizeof(*guess->commands));
	guess->keys = calloc(n, sizeof(*guess->keys));
	guess->lanes = calloc(n, sizeof(*guess->lanes));
	if (!guess->commands || !guess->keys || !guess->lanes) {
		kv_guess_free(guess);
		return NULL;
	}
	return guess;
}

void kv_guess_free(struct kv_guess *guess)
{
	if (!guess)
		return;
	free(guess->commands);
	free(guess->keys);
	free(guess->lanes);
	free(guess);
}

void kv_guess_clear(struct kv_guess *guess)
{
	size_t n = (size_t)guess->mask + 1;

	guess->newest = guess->asked = 0;
	memset(guess->commands, 0, n * sizeof(*guess->commands));
	memset(guess->keys, 0, n * sizeof(*guess->keys));
	memset(guess->lanes, 0, n * sizeof(*guess->lanes));
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
	return x ^ x >> 32;
}

static uint64_t hash_key(
    const struct kv_guess *guess, const struct kv_command *command)
{
	const char *key = kv_command_key(command);
	uint64_t hash = mix(guess->seed + command->key_size), word;
	size_t i, part;

	for (i = 0; i < command->key_size; i += part) {
		part = command->key_size - i < 8 ? command->key_size - i : 8;
		word = 0;
		memcpy(&word, key + i, part);
		hash = mix(hash ^ word);
	}
	return hash & guess->mask;
}

static uint64_t hash_lane(
    const struct kv_guess *guess, const struct kv_command *command)
{
	return mix(guess->seed ^ mix(command->session + command->lane)) &
	    guess->mask;
}

static struct guessed *guessed_at(const struct kv_guess *guess, uint64_t number)
{
	return &guess->commands[number & guess->mask];
}

/* The next older command of a bucket, or NULL: the store has all older ones. */
static const struct guessed *older_at(
    const struct kv_guess *guess, const struct kv_store *store, uint64_t number)
{
	const struct guessed *older = guessed_at(guess, number);

	if (!number || number + guess->mask < guess->newest ||
	    older->slot <= kv_store_slot(store))
		return NULL;
	return older;
}

static const struct kv_command *command_of(
    const struct kv_log *log, const struct guessed *guessed)
{
	const char *entry = (const char *)kv_log_at(log, guessed->slot);

	return (
	    const struct kv_command *)(const void *)(entry + guessed->offset);
}

/* The number and status of the lane's last command. False: no session. */
static bool find_lane(const struct kv_guess *guess,
    const struct kv_store *store, const struct kv_log *log,
    const struct kv_command *command, uint64_t *number, uint8_t *status)
{
	uint64_t next = guess->lanes[hash_lane(guess, command)];
	const struct guessed *older;

	if (!kv_store_lane(store, command, number, status))
		return false;
	while ((older = older_at(guess, store, next)) != NULL) {
		const struct kv_command *other = command_of(log, older);

		if (older->seen && other->session == command->session &&
		    other->lane == command->lane) {
			*number = other->number;
			*status = older->status;
			break;
		}
		next = older->lane_next;
	}
	return true;
}

/* The value of the command's key. */
static void find_key(const struct kv_guess *guess, const struct kv_store *store,
    const struct kv_log *log, const struct kv_command *command,
    struct kv_result *result)
{
	uint64_t next = guess->keys[hash_key(guess, command)];
	const struct guessed *older;

	while ((older = older_at(guess, store, next)) != NULL) {
		const struct kv_command *other = command_of(log, older);

		next = older->key_next;
		if (!older->writes || other->key_size != command->key_size ||
		    memcmp(kv_command_key(other), kv_command_key(command),
			command->key_size) != 0)
			continue;
		memset(result, 0, sizeof(*result));
		if (other->op == KV_DELETE) {
			result->status = KV_NOT_FOUND;
			return;
		}
		result->value = kv_command_value(other);
		result->value_size = other->value_size;
		return;
	}
	kv_store_read(
	    store, kv_command_key(command), command->key_size, result);
}

/* As the store's as_expected(). */
static bool as_expected(
    const struct kv_command *command, struct kv_result *result)
{
	bool absent = (command->flags & KV_ABSENT) != 0;

	if (result->status == KV_NOT_FOUND) {
		if (absent)
			result->status = KV_OK;
		return absent;
	}
	if (!absent && result->value_size == command->expected_size &&
	    memcmp(result->value, kv_command_expected(command),
		command->expected_size) == 0) {
		memset(result, 0, sizeof(*result));
		return true;
	}
	result->status = KV_DIFFERENT;
	return false;
}

/* Give the key's value as result. Returns whether the command changes it. */
static bool work_out(const struct kv_command *command, struct kv_result *result)
{
	uint8_t found = result->status;

	switch (command->op) {
	case KV_PUT:
		memset(result, 0, sizeof(*result));
		return true;
	case KV_DELETE:
		memset(result, 0, sizeof(*result));
		result->status = found;
		return found == KV_OK;
	case KV_CAS:
		return as_expected(command, result);
	default:
		return false;
	}
}

bool kv_guess_takes(const struct kv_guess *guess, const struct kv_store *store,
    const struct kv_command *slot)
{
	const struct kv_command *command = kv_slot_first(slot);
	uint64_t newest = guess->newest;

	for (; command; command = kv_slot_next(slot, command))
		newest++;
	return newest <= guess->mask ||
	    guessed_at(guess, newest)->slot <= kv_store_slot(store);
}

void kv_guess_command(struct kv_guess *guess, const struct kv_store *store,
    const struct kv_log *log, uint64_t slot, const struct kv_command *command,
    struct kv_result *result)
{
	struct guessed *new = guessed_at(guess, ++guess->newest);
	uint64_t *key = &guess->keys[hash_key(guess, command)];
	uint64_t *lane = &guess->lanes[hash_lane(guess, command)];
	uint64_t number = 0;
	uint8_t status = KV_OK;

	memset(result, 0, sizeof(*result));
	*new = (struct guessed){ .slot = slot,
		.key_next = *key,
		.lane_next = *lane,
		.offset = (uint32_t)((const char *)command -
		    (const char *)kv_log_at(log, slot)) };
	if (!find_lane(guess, store, log, command, &number, &status)) {
		result->status = KV_NO_SESSION;
	} else if (command->number < number) {
		result->status = KV_INVALID;
	} else if (command->number == number && command->op != KV_GET) {
		result->status = status;
	} else {
		find_key(guess, store, log, command, result);
		new->writes = work_out(command, result);
		new->seen = true;
	}
	new->status = result->status;
	*key = *lane = guess->newest;
}

bool kv_guess_status(struct kv_guess *guess, uint64_t slot, uint8_t *status)
{
	uint64_t next = guess->asked + 1;

	if (next + guess->mask < guess->newest)
		next = guess->newest - guess->mask;
	while (next <= guess->newest && guessed_at(guess, next)->slot < slot)
		next++;
	guess->asked = next - 1;
	if (next > guess->newest || guessed_at(guess, next)->slot != slot)
		return false;
	guess->asked = next;
	*status = guessed_at(guess, next)->status;
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine of the replicated store. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "examples/consensus/store.h"

static const struct kv_config config = { { { 11 }, { 12 }, { 13 } } };

static struct kv_store *new_store(void)
{
	struct kv_store *store = kv_store_new(&config);

	cr_assert(store);
	return store;
}

static struct kv_result apply(
    struct kv_store *store, const struct kv_command *command)
{
	struct kv_result result;

	cr_assert(kv_command_valid(command, kv_command_size(command)));
	cr_assert_eq(
	    kv_store_apply(store, kv_store_slot(store) + 1, command, &result),
	    0);
	return result;
}

static uint64_t open_session(struct kv_store *store, unsigned lanes)
{
	union command_room room;
	struct kv_command *command = make_command(
	    &room, KV_REGISTER, NULL, NULL, NULL);
	struct kv_result result;

	command->argument = lanes;
	result = apply(store, command);
	cr_assert_eq(result.status, KV_OK);
	cr_assert_eq(result.session, kv_store_slot(store));
	return result.session;
}

/* A client with one lane. */
struct client {
	struct kv_store *store;
	uint64_t session, number;
	uint8_t flags;
};

static struct kv_result repeat(struct client *client, enum kv_op op,
    const char *key, const char *value, const char *expected)
{
	union command_room room;
	struct kv_command *command = make_command(
	    &room, op, key, value, expected);

	command->session = client->session;
	command->number = client->number;
	command->flags = client->flags;
	return apply(client->store, command);
}

static struct kv_result ask(struct client *client, enum kv_op op,
    const char *key, const char *value, const char *expected)
{
	client->number++;
	return repeat(client, op, key, value, expected);
}

static struct client new_client(void)
{
	struct kv_store *store = new_store();

	return (
	    struct client){ .store = store, .session = open_session(store, 1) };
}

static bool holds(struct kv_result result, const char *value)
{
	return result.value && result.value_size == strlen(value) &&
	    memcmp(result.value, value, result.value_size) == 0;
}

static bool reads(
    const struct kv_store *store, const char *key, const char *value)
{
	struct kv_result result;

	kv_store_read(store, key, strlen(key), &result);
	if (!value)
		return result.status == KV_NOT_FOUND && !result.value;
	return result.status == KV_OK && holds(result, value);
}

Test(store, gives_what_was_put)
{
	struct client client = new_client();

	cr_expect_eq(
	    ask(&client, KV_GET, "k", NULL, NULL).status, KV_NOT_FOUND);
	cr_expect_eq(ask(&client, KV_PUT, "k", "one", NULL).status, KV_OK);
	cr_expect(holds(ask(&client, KV_GET, "k", NULL, NULL), "one"));
	cr_expect_eq(
	    ask(&client, KV_PUT, "k", "a longer value than before", NULL)
		.status,
	    KV_OK);
	cr_expect(reads(client.store, "k", "a longer value than before"));
	cr_expect_eq(ask(&client, KV_PUT, "k", NULL, NULL).status, KV_OK);
	cr_expect(reads(client.store, "k", ""));
	kv_store_free(client.store);
}

Test(store, deletes_what_there_is)
{
	struct client client = new_client();

	ask(&client, KV_PUT, "k", "v", NULL);
	cr_expect_eq(ask(&client, KV_DELETE, "k", NULL, NULL).status, KV_OK);
	cr_expect_eq(
	    ask(&client, KV_DELETE, "k", NULL, NULL).status, KV_NOT_FOUND);
	cr_expect(reads(client.store, "k", NULL));
	cr_expect_eq(kv_store_keys(client.store), 0);
	kv_store_free(client.store);
}

Test(store, compares_before_it_swaps)
{
	struct client client = new_client();
	struct kv_result result;

	result = ask(&client, KV_CAS, "k", "b", "a");
	cr_expect_eq(result.status, KV_NOT_FOUND);
	client.flags = KV_ABSENT;
	result = ask(&client, KV_CAS, "k", "a", NULL);
	cr_expect_eq(result.status, KV_OK);
	result = ask(&client, KV_CAS, "k", "x", NULL);
	cr_expect_eq(result.status, KV_DIFFERENT);
	cr_expect(holds(result, "a"));
	client.flags = 0;
	result = ask(&client, KV_CAS, "k", "x", "b");
	cr_expect_eq(result.status, KV_DIFFERENT);
	cr_expect(holds(result, "a"));
	result = ask(&client, KV_CAS, "k", "x", "aa");
	cr_expect_eq(result.status, KV_DIFFERENT);
	result = ask(&client, KV_CAS, "k", NULL, "a");
	cr_expect_eq(result.status, KV_OK);
	cr_expect_null(result.value);
	cr_expect(reads(client.store, "k", ""));
	result = ask(&client, KV_CAS, "k", "z", NULL);
	cr_expect_eq(result.status, KV_OK, "no bytes are a value");
	cr_expect(reads(client.store, "k", "z"));
	kv_store_free(client.store);
}

Test(store, applies_a_repeated_command_once)
{
	struct client client = new_client(), other;
	uint64_t session = open_session(client.store, 1);

	other = (struct client){ .store = client.store, .session = session };
	ask(&client, KV_PUT, "k", "one", NULL);
	ask(&other, KV_PUT, "k", "two", NULL);
	cr_expect_eq(repeat(&client, KV_PUT, "k", "one", NULL).status, KV_OK);
	cr_expect(reads(client.store, "k", "two"));
	ask(&client, KV_CAS, "k", "three", "two");
	ask(&other, KV_PUT, "k", "four", NULL);
	cr_expect_eq(repeat(&client, KV_CAS, "k", "three", "two").status, KV_OK,
	    "as then");
	cr_expect(reads(client.store, "k", "four"));
	cr_expect_eq(ask(&client, KV_DELETE, "k", NULL, NULL).status, KV_OK);
	cr_expect_eq(repeat(&client, KV_DELETE, "k", NULL, NULL).status, KV_OK);
	ask(&client, KV_GET, "k", NULL, NULL);
	ask(&other, KV_PUT, "k", "five", NULL);
	cr_expect(holds(repeat(&client, KV_GET, "k", NULL, NULL), "five"),
	    "a get is read again");
	kv_store_free(client.store);
}

Test(store, never_applies_a_command_that_its_lane_has_passed)
{
	struct client client = new_client();

	ask(&client, KV_PUT, "k", "one", NULL);
	ask(&client, KV_PUT, "k", "two", NULL);
	client.number = 1;
	cr_expect_eq(
	    repeat(&client, KV_PUT, "k", "one", NULL).status, KV_INVALID);
	cr_expect(reads(client.store, "k", "two"));
	client.number = 9;
	cr_expect_eq(repeat(&client, KV_PUT, "k", "nine", NULL).status, KV_OK,
	    "a client may give commands up");
	cr_expect(reads(client.store, "k", "nine"));
	kv_store_free(client.store);
}

Test(store, knows_each_lane_of_a_session)
{
	struct kv_store *store = new_store();
	uint64_t session = open_session(store, 2);
	union command_room room;
	struct kv_command *command = make_command(
	    &room, KV_PUT, "k", "v", NULL);

	command->session = session;
	command->number = 1;
	cr_expect_eq(apply(store, command).status, KV_OK);
	command->lane = 1;
	cr_expect_eq(apply(store, command).status, KV_OK);
	command->lane = 2;
	cr_expect_eq(apply(store, command).status, KV_NO_SESSION);
	command->lane = 0;
	command->session = session + 1;
	cr_expect_eq(apply(store, command).status, KV_NO_SESSION);
	command->session = 0;
	cr_expect_eq(apply(store, command).status, KV_NO_SESSION);
	kv_store_free(store);
}

Test(store, ends_sessions_that_were_not_used)
{
	struct client client = new_client();
	union command_room room;
	struct kv_command *expire = make_command(
	    &room, KV_EXPIRE, NULL, NULL, NULL);
	uint64_t idle = client.session;

	client.session = open_session(client.store, 1);
	ask(&client, KV_PUT, "k", "v", NULL);
	cr_expect_eq(kv_store_sessions(client.store), 2);
	cr_expect_eq(kv_store_oldest_use(client.store), idle);
	expire->argument = kv_store_slot(client.store);
	apply(client.store, expire);
	cr_expect_eq(kv_store_sessions(client.store), 1);
	cr_expect_eq(ask(&client, KV_PUT, "k", "w", NULL).status, KV_OK);
	client.session = idle;
	cr_expect_eq(
	    ask(&client, KV_PUT, "k", "x", NULL).status, KV_NO_SESSION);
	cr_expect(reads(client.store, "k", "w"));
	kv_store_free(client.store);
}

Test(store, bounds_the_lanes_of_all_sessions)
{
	struct kv_store *store = new_store();
	union command_room room;
	struct kv_command *command = make_command(
	    &room, KV_REGISTER, NULL, NULL, NULL);
	unsigned i;

	command->argument = KV_MAX_LANES;
	for (i = 0; i < 4096; i++)
		cr_assert_eq(apply(store, command).status, KV_OK);
	cr_expect_eq(apply(store, command).status, KV_BUSY);
	cr_expect_eq(kv_store_sessions(store), 4096);
	kv_store_expire(store, 3);
	cr_expect_eq(apply(store, command).status, KV_OK);
	kv_store_free(store);
}

Test(store, takes_slots_in_order_only)
{
	struct kv_store *store = new_store();
	union command_room room;
	struct kv_command *command = make_command(
	    &room, KV_NOOP, NULL, NULL, NULL);
	struct kv_result result;

	cr_expect_eq(kv_store_apply(store, 2, command, &result), -EINVAL);
	cr_expect_eq(kv_store_apply(store, 1, command, &result), 0);
	cr_expect_eq(kv_store_apply(store, 1, command, &result), -EINVAL);
	cr_expect_eq(kv_store_slot(store), 1);
	kv_store_free(store);
}

Test(store, has_the_configuration_of_the_log)
{
	struct kv_store *store = new_store();
	union command_room room;
	struct kv_command *command = make_command(
	    &room, KV_CONFIG, NULL, NULL, NULL);
	struct kv_config next = { { { 11 }, { 22 }, { 13 } } };

	cr_expect_eq(
	    memcmp(kv_store_config(store), &config, sizeof(config)), 0);
	command->value_size = sizeof(next);
	memcpy(command + 1, &next, sizeof(next));
	apply(store, command);
	cr_expect_eq(memcmp(kv_store_config(store), &next, sizeof(next)), 0);
	kv_store_free(store);
}

/* ---- Many keys -------------------------------------------------------------
 */

#define N_KEYS 3000

/*
 * The expected content of a store: the number of the value of each key, or 0.
 */
static void random_ops(
    struct client *client, unsigned values[N_KEYS], unsigned n, unsigned seed)
{
	char key[16], value[64];
	unsigned i, k, v;

	for (i = 0; i < n; i++) {
		k = (unsigned)rand_r(&seed) % N_KEYS;
		v = 1 + (unsigned)rand_r(&seed) % 1000;
		snprintf(key, sizeof(key), "key-%u", k);
		snprintf(value, sizeof(value), "%0*u", (int)(v % 50), v);
		if (rand_r(&seed) % 2) {
			cr_assert_eq(
			    ask(client, KV_DELETE, key, NULL, NULL).status,
			    values[k] ? KV_OK : KV_NOT_FOUND);
			values[k] = 0;
		} else {
			ask(client, KV_PUT, key, value, NULL);
			values[k] = v;
		}
	}
}

static void has_values(const struct kv_store *store, const unsigned *values)
{
	char key[16], value[64];
	unsigned k;
	size_t n = 0;

	for (k = 0; k < N_KEYS; k++) {
		snprintf(key, sizeof(key), "key-%u", k);
		snprintf(value, sizeof(value), "%0*u", (int)(values[k] % 50),
		    values[k]);
		cr_assert(
		    reads(store, key, values[k] ? value : NULL), "%s", key);
		n += values[k] != 0;
	}
	cr_assert_eq(kv_store_keys(store), n);
}

Test(store, finds_each_of_many_keys)
{
	static unsigned values[N_KEYS];
	struct client client = new_client();
	unsigned round;

	for (round = 0; round < 20; round++) {
		random_ops(&client, values, 5000, round);
		has_values(client.store, values);
	}
	kv_store_free(client.store);
}

/* The seed of the hash table is another one in each store. */
Test(store, has_the_digest_and_snapshot_of_its_commands)
{
	static unsigned values[2][N_KEYS];
	struct client clients[2] = { new_client(), new_client() };
	char *bytes[2];
	size_t sizes[2];
	unsigned i, round;

	for (round = 0; round < 5; round++) {
		for (i = 0; i < 2; i++) {
			random_ops(&clients[i], values[i], 3000, round);
			cr_assert_eq(kv_store_save(clients[i].store, &bytes[i],
					 &sizes[i]),
			    0);
		}
		cr_expect_eq(kv_store_digest(clients[0].store),
		    kv_store_digest(clients[1].store));
		cr_assert_eq(sizes[0], sizes[1]);
		cr_expect_eq(memcmp(bytes[0], bytes[1], sizes[0]), 0);
		free(bytes[0]);
		free(bytes[1]);
	}
	kv_store_free(clients[0].store);
	kv_store_free(clients[1].store);
}

Test(store, changes_its_digest_with_each_part_of_its_state)
{
	struct client a = new_client(), b = new_client();

	ask(&a, KV_PUT, "k", "v", NULL);
	cr_expect_neq(kv_store_digest(a.store), kv_store_digest(b.store));
	ask(&b, KV_PUT, "kv", NULL, NULL);
	cr_expect_neq(kv_store_digest(a.store), kv_store_digest(b.store),
	    "other borders of key and value");
	ask(&a, KV_DELETE, "k", NULL, NULL);
	ask(&b, KV_DELETE, "kv", NULL, NULL);
	cr_expect_eq(kv_store_digest(a.store), kv_store_digest(b.store));
	ask(&a, KV_DELETE, "k", NULL, NULL);
	b.number++;
	ask(&b, KV_DELETE, "k", NULL, NULL);
	cr_expect_neq(kv_store_digest(a.store), kv_store_digest(b.store),
	    "other numbers of a lane");
	b.number--;
	kv_store_free(a.store);
	kv_store_free(b.store);
}

/* ---- Snapshots -------------------------------------------------------------
 */

Test(store, comes_back_from_a_snapshot)
{
	static unsigned values[N_KEYS];
	struct client client = new_client();
	struct kv_store *copy = NULL;
	uint64_t digest;
	char *bytes;
	size_t size;

	random_ops(&client, values, 10000, 7);
	ask(&client, KV_PUT, "once", "one", NULL);
	digest = kv_store_digest(client.store);
	cr_assert_eq(kv_store_save(client.store, &bytes, &size), 0);
	kv_store_free(client.store);
	cr_assert_eq(kv_store_load(bytes, size, &copy), 0);
	free(bytes);
	cr_expect_eq(kv_store_digest(copy), digest);
	kv_store_read(copy, "once", 4, &(struct kv_result){ 0 });
	/* The sessions are in it: a command is not applied again. */
	client.store = copy;
	cr_expect_eq(
	    repeat(&client, KV_PUT, "once", "two", NULL).status, KV_OK);
	cr_expect(reads(copy, "once", "one"));
	ask(&client, KV_DELETE, "once", NULL, NULL);
	has_values(copy, values);
	/* It continues like the other one. */
	random_ops(&client, values, 10000, 8);
	has_values(copy, values);
	kv_store_free(copy);
}

Test(store, is_refused_where_its_snapshot_is_damaged)
{
	struct client client = new_client();
	struct kv_store *copy = NULL;
	size_t size, at;
	char *bytes;

	ask(&client, KV_PUT, "key", "value", NULL);
	ask(&client, KV_PUT, "other", "value", NULL);
	cr_assert_eq(kv_store_save(client.store, &bytes, &size), 0);
	for (at = 0; at < size; at++) {
		bytes[at] ^= 4;
		cr_expect_eq(kv_store_load(bytes, size, &copy), -EBADMSG);
		bytes[at] ^= 4;
		cr_expect_eq(kv_store_load(bytes, at, &copy), -EBADMSG);
	}
	cr_expect_null(copy);
	free(bytes);
	kv_store_free(client.store);
}

/* A slot that puts each number to the key of that name. */
static const struct kv_command *batch_of(struct kv_batch *batch,
    const struct client *client, uint64_t from, uint64_t to)
{
	static union {
		struct kv_command command;
		char bytes[1000];
	} slot;
	union command_room room;
	struct kv_command *command;
	char key[16];

	kv_batch_begin(batch, &slot, sizeof(slot));
	for (; from <= to; from++) {
		snprintf(key, sizeof(key), "%u", (unsigned)from);
		command = make_command(&room, KV_PUT, key, key, NULL);
		command->session = client->session;
		command->number = from;
		cr_assert(kv_batch_add(batch, command));
	}
	return batch->slot;
}

Test(store, applies_a_batch_one_command_after_the_other)
{
	struct client client = new_client();
	struct kv_store *store = client.store;
	uint64_t slot = kv_store_slot(store) + 1;
	const struct kv_command *slot_command;
	struct kv_result result;
	struct kv_batch batch;
	unsigned i;

	slot_command = batch_of(&batch, &client, 1, 3);
	for (i = 1; i <= 3; i++) {
		cr_expect_eq(kv_store_slot(store), slot - 1);
		cr_expect_eq(kv_store_next(store, slot_command)->number, i);
		cr_expect_eq(
		    kv_store_apply(store, slot, slot_command, &result), i < 3);
		cr_expect_eq(result.status, KV_OK);
		cr_expect_eq(kv_store_keys(store), i);
	}
	cr_expect_eq(kv_store_slot(store), slot);
	kv_store_free(store);
}

Test(store, filters_each_command_of_a_batch)
{
	struct client client = new_client();
	struct kv_store *store = client.store;
	const struct kv_command *slot_command;
	struct kv_result result;
	struct kv_batch batch;

	ask(&client, KV_PUT, "1", "first", NULL);
	slot_command = batch_of(&batch, &client, 1, 2);
	cr_expect_eq(kv_store_apply(store, kv_store_slot(store) + 1,
			 slot_command, &result),
	    1);
	cr_expect_eq(kv_store_apply(store, kv_store_slot(store) + 1,
			 slot_command, &result),
	    0);
	kv_store_read(store, "1", 1, &result);
	cr_expect_eq(result.value_size, 5, "it was applied twice");
	kv_store_read(store, "2", 1, &result);
	cr_expect_eq(result.status, KV_OK);
	kv_store_free(store);
}

Test(store, has_no_snapshot_within_a_batch)
{
	struct client client = new_client();
	struct kv_store *store = client.store;
	uint64_t slot = kv_store_slot(store) + 1;
	const struct kv_command *slot_command;
	struct kv_result result;
	struct kv_batch batch;
	char *bytes;
	size_t size;

	slot_command = batch_of(&batch, &client, 1, 2);
	cr_assert_eq(kv_store_apply(store, slot, slot_command, &result), 1);
	cr_expect_eq(kv_store_save(store, &bytes, &size), -EAGAIN);
	cr_assert_eq(kv_store_apply(store, slot, slot_command, &result), 0);
	cr_expect_eq(kv_store_save(store, &bytes, &size), 0);
	free(bytes);
	kv_store_free(store);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which messages and commands from outside are accepted. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "commands.h"

static union {
	struct kv_message message;
	char bytes[KV_MAX_MESSAGE + 64];
	uint64_t words[1];
} room;

static union command_room command_room;

/* A message with a command, and its size. */
static size_t request(enum kv_op op, const char *key, const char *value)
{
	struct kv_command *command = make_command(
	    &command_room, op, key, value, NULL);
	size_t size = kv_command_size(command);

	command->number = 1;
	if (op == KV_REGISTER)
		command->argument = 1;
	memset(&room.message, 0, sizeof(room.message));
	memcpy(room.message.body, command, size);
	room.message.type = KV_REQUEST;
	room.message.from = KV_FROM_CLIENT;
	room.message.size = (uint32_t)(sizeof(room.message) + size);
	return room.message.size;
}

/* A message with n entries of one put each, and its size. */
static size_t entries(enum kv_message_type type, unsigned n)
{
	struct kv_command *command = make_command(
	    &command_room, KV_PUT, "key", "value", NULL);
	char *to = room.message.body;
	struct kv_entry *entry;
	unsigned i;

	command->number = 1;
	memset(&room.message, 0, sizeof(room.message));
	for (i = 0; i < n; i++, to += kv_entry_size(entry)) {
		entry = (struct kv_entry *)(void *)to;
		entry->slot = 7 + i;
		entry->ballot = kv_ballot_of(1, 0);
		entry->size = (uint32_t)kv_command_size(command);
		entry->decided = 0;
		memcpy(&entry->command, command, entry->size);
	}
	room.message.type = (uint8_t)type;
	room.message.count = (uint16_t)n;
	room.message.size = (uint32_t)(to - room.bytes);
	return room.message.size;
}

static struct kv_entry *first_entry(void)
{
	return (struct kv_entry *)(void *)room.message.body;
}

Test(message, with_a_command_is_taken)
{
	size_t size = request(KV_PUT, "key", "value");

	cr_expect(kv_message_valid(&room.message, size));
	cr_expect(kv_message_valid(&room.message, size + 63), "padded");
	size = request(KV_REGISTER, NULL, NULL);
	cr_expect(kv_message_valid(&room.message, size));
}

Test(message, is_not_longer_than_what_came)
{
	size_t size = request(KV_GET, "key", NULL), less;

	for (less = 0; less < size; less++)
		cr_expect_not(kv_message_valid(&room.message, less));
	room.message.size = sizeof(room.message) - 1;
	cr_expect_not(kv_message_valid(&room.message, size));
	room.message.type = KV_HEARTBEAT;
	room.message.from = 0;
	room.message.size = KV_MAX_MESSAGE + 8;
	cr_expect_not(kv_message_valid(&room.message, sizeof(room)));
}

Test(message, has_a_type_and_a_sender)
{
	size_t size = request(KV_GET, "key", NULL);

	room.message.from = KV_MAX_REPLICAS;
	cr_expect_not(kv_message_valid(&room.message, size));
	room.message.from = KV_MAX_REPLICAS - 1;
	cr_expect(kv_message_valid(&room.message, size), "passed on");
	room.message.type = 0;
	cr_expect_not(kv_message_valid(&room.message, size));
	room.message.type = KV_VOTE + 1;
	cr_expect_not(kv_message_valid(&room.message, size));
}

Test(message, of_a_replica_does_not_come_from_a_client)
{
	size_t size = entries(KV_ACCEPT, 2);

	cr_expect(kv_message_valid(&room.message, size));
	room.message.from = KV_FROM_CLIENT;
	cr_expect_not(kv_message_valid(&room.message, size));
}

Test(message, of_a_client_has_no_command_of_replicas)
{
	size_t size = request(KV_NOOP, NULL, NULL);

	cr_expect_not(kv_message_valid(&room.message, size));
	size = request(KV_EXPIRE, NULL, NULL);
	cr_expect_not(kv_message_valid(&room.message, size));
}

Test(message, has_as_many_entries_as_it_says)
{
	static const enum kv_message_type types[] = { KV_PROMISE, KV_ACCEPT };
	size_t i, size;

	for (i = 0; i < 2; i++) {
		size = entries(types[i], 3);
		cr_expect(kv_message_valid(&room.message, size));
		room.message.count = 4;
		cr_expect_not(kv_message_valid(&room.message, size));
		room.message.count = 2;
		cr_expect_not(kv_message_valid(&room.message, size));
		size = entries(types[i], 0);
		cr_expect(kv_message_valid(&room.message, size));
	}
}

Test(message, has_a_part_within_its_snapshot)
{
	size_t size = sizeof(room.message) + 8;

	memset(&room.message, 0, sizeof(room.message));
	room.message.type = KV_SNAPSHOT;
	room.message.size = (uint32_t)size;
	room.message.argument = 16;
	room.message.number = 24;
	cr_expect(kv_message_valid(&room.message, size));
	room.message.number = 23;
	cr_expect_not(kv_message_valid(&room.message, size));
	room.message.number = 15;
	cr_expect_not(kv_message_valid(&room.message, size));
	/* A receiver allocates one byte more. */
	room.message.number = UINT64_MAX;
	cr_expect_not(kv_message_valid(&room.message, size));
}

Test(message, has_entries_within_it)
{
	static const uint32_t sizes[] = { 0, 8, 40, 49, 1024, UINT32_MAX - 7,
		UINT32_MAX };
	size_t i, size = entries(KV_ACCEPT, 1);

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		first_entry()->size = sizes[i];
		cr_expect_not(kv_message_valid(&room.message, size));
	}
}

Test(message, has_entries_in_the_order_of_their_slots)
{
	size_t size = entries(KV_ACCEPT, 2);

	first_entry()->slot = 8;
	cr_expect_not(kv_message_valid(&room.message, size));
	first_entry()->slot = 0;
	cr_expect_not(kv_message_valid(&room.message, size));
	first_entry()->slot = 1;
	cr_expect(kv_message_valid(&room.message, size), "with a hole");
	first_entry()->decided = 2;
	cr_expect_not(kv_message_valid(&room.message, size));
}

static bool valid(const struct kv_command *command)
{
	return kv_command_valid(command, kv_command_size(command));
}

static struct kv_command *numbered(
    enum kv_op op, const char *key, const char *value, const char *expected)
{
	struct kv_command *command = make_command(
	    &command_room, op, key, value, expected);

	command->number = 1;
	return command;
}

Test(command, has_the_parts_of_its_op)
{
	static const struct {
		enum kv_op op;
		const char *key, *value, *expected;
		bool valid;
	} cases[] = {
		{ KV_NOOP, NULL, NULL, NULL, true },
		{ KV_NOOP, "k", NULL, NULL, false },
		{ KV_NOOP, NULL, "v", NULL, false },
		{ KV_GET, "k", NULL, NULL, true },
		{ KV_GET, NULL, NULL, NULL, false },
		{ KV_GET, "k", "v", NULL, false },
		{ KV_PUT, "k", "v", NULL, true },
		{ KV_PUT, "k", NULL, NULL, true },
		{ KV_PUT, NULL, "v", NULL, false },
		{ KV_PUT, "k", "v", "e", false },
		{ KV_DELETE, "k", NULL, NULL, true },
		{ KV_DELETE, "k", "v", NULL, false },
		{ KV_CAS, "k", "v", "e", true },
		{ KV_CAS, "k", "v", NULL, true },
		{ KV_CAS, NULL, "v", "e", false },
		{ KV_EXPIRE, NULL, NULL, NULL, true },
		{ KV_EXPIRE, "k", NULL, NULL, false },
		{ KV_CONFIG, NULL, NULL, NULL, false },
		{ KV_CONFIG, NULL, "members", NULL, false },
		{ (enum kv_op)0, NULL, NULL, NULL, false },
		{ (enum kv_op)(KV_CONFIG + 1), NULL, NULL, NULL, false },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(valid(numbered(cases[i].op, cases[i].key,
				 cases[i].value, cases[i].expected)),
		    cases[i].valid, "case %zu", i);
}

Test(command, keeps_the_limits)
{
	struct kv_command *command;

	command = numbered(KV_CAS, "", NULL, NULL);
	memset(command + 1, 0, KV_MAX_KEY + 2 * KV_MAX_VALUE);
	command->key_size = KV_MAX_KEY;
	command->value_size = KV_MAX_VALUE;
	command->expected_size = KV_MAX_VALUE;
	cr_expect(valid(command), "the largest");
	command->key_size = KV_MAX_KEY + 1;
	cr_expect_not(kv_command_valid(command, sizeof(command_room)));
	command->key_size = KV_MAX_KEY;
	command->value_size = KV_MAX_VALUE + 1;
	cr_expect_not(kv_command_valid(command, sizeof(command_room)));
	command->value_size = UINT16_MAX;
	command->expected_size = UINT16_MAX;
	cr_expect_not(kv_command_valid(command, sizeof(command_room)));
}

Test(command, keeps_the_rules_of_its_fields)
{
	struct kv_command *command = numbered(KV_CAS, "k", "v", NULL);

	command->flags = KV_ABSENT;
	cr_expect(valid(command));
	command->flags = 2;
	cr_expect_not(valid(command));
	command = numbered(KV_CAS, "k", "v", "e");
	command->flags = KV_ABSENT;
	cr_expect_not(valid(command), "either absent or a value");
	command = numbered(KV_PUT, "k", "v", NULL);
	command->flags = KV_ABSENT;
	cr_expect_not(valid(command));
	command = numbered(KV_PUT, "k", "v", NULL);
	command->number = 0;
	cr_expect_not(valid(command));
	command = numbered(KV_PUT, "k", "v", NULL);
	command->lane = KV_MAX_LANES;
	cr_expect_not(valid(command));
	command = numbered(KV_PUT, "k", "v", NULL);
	command->reserved = 1;
	cr_expect_not(valid(command));
	command = numbered(KV_REGISTER, NULL, NULL, NULL);
	cr_expect_not(valid(command), "no lanes");
	command->argument = KV_MAX_LANES;
	cr_expect(valid(command));
	command->argument = KV_MAX_LANES + 1;
	cr_expect_not(valid(command));
}

Test(command, has_nothing_but_zeros_behind_it)
{
	struct kv_command *command = numbered(KV_PUT, "k", "value", NULL);

	command_room.bytes[sizeof(*command) + 7] = 1;
	cr_expect_not(valid(command));
}

Test(command, has_the_size_that_it_comes_in)
{
	struct kv_command *command = numbered(KV_PUT, "key", "value", NULL);
	size_t size;

	for (size = 0; size < sizeof(command_room); size++)
		cr_expect_eq(kv_command_valid(command, size),
		    size == kv_command_size(command));
}

static union {
	struct kv_command command;
	char bytes[KV_MAX_MESSAGE];
} batch_room;

/* A batch of n puts in this room; fewer if they don't fit. */
static struct kv_batch batch_of(unsigned n, size_t size)
{
	struct kv_command *command = numbered(KV_PUT, "key", "value", NULL);
	struct kv_batch batch;

	memset(&batch_room, 0xff, sizeof(batch_room));
	kv_batch_begin(&batch, &batch_room, size);
	for (; n && kv_batch_add(&batch, command); n--)
		command->number++;
	return batch;
}

Test(batch, of_one_command_is_that_command)
{
	struct kv_batch batch = batch_of(1, 1000);

	cr_expect_eq(batch.slot->op, KV_PUT);
	cr_expect_eq(batch.slot->number, 1);
	cr_expect(kv_command_valid(batch.slot, batch.size));
	cr_expect_eq(kv_slot_first(batch.slot), batch.slot);
	cr_expect_null(kv_slot_next(batch.slot, batch.slot));
}

Test(batch, has_its_commands_in_their_order)
{
	struct kv_batch batch = batch_of(5, 1000);
	const struct kv_command *command = kv_slot_first(batch.slot);
	uint64_t n;

	cr_expect_eq(batch.slot->op, KV_BATCH);
	cr_expect(kv_command_valid(batch.slot, batch.size));
	for (n = 1; command; n++) {
		cr_expect_eq(command->number, n);
		command = kv_slot_next(batch.slot, command);
	}
	cr_expect_eq(n, 6);
}

Test(batch, stays_in_its_room)
{
	size_t one = batch_of(1, 1000).size;
	size_t head = sizeof(struct kv_command);
	struct kv_batch batch = batch_of(3, head + 3 * one - 8);

	cr_expect_eq(batch.n, 2);
	cr_expect_eq(batch_of(3, head + 3 * one).n, 3);
	cr_expect_eq(batch_of(1, one).n, 1);
	cr_expect_eq(batch_of(1, one - 8).n, 0);
	batch = batch_of(1000, SIZE_MAX);
	cr_expect_leq(batch.size, KV_MAX_COMMAND);
	cr_expect_gt(batch.size, KV_MAX_COMMAND - one);
	cr_expect(kv_command_valid(batch.slot, batch.size));
}

Test(batch, has_commands_on_keys_only)
{
	struct kv_batch batch = batch_of(1, 1000);
	struct kv_command noop = { .op = KV_NOOP };

	cr_expect_not(kv_batch_add(&batch, &noop));
	kv_batch_begin(&batch, &batch_room, 1000);
	cr_expect(kv_batch_add(&batch, &noop));
	cr_expect_not(
	    kv_batch_add(&batch, numbered(KV_PUT, "key", "value", NULL)));
}

Test(batch, is_checked_command_by_command)
{
	static const uint8_t ops[] = { 0, KV_NOOP, KV_REGISTER, KV_EXPIRE,
		KV_CONFIG, KV_BATCH, KV_BATCH + 1 };
	struct kv_batch batch = batch_of(3, 1000);
	struct kv_command *second = (struct kv_command *)(void *)kv_slot_next(
	    batch.slot, kv_slot_first(batch.slot));
	unsigned i;

	for (i = 0; i < sizeof(ops); i++) {
		second->op = ops[i];
		cr_expect_not(kv_command_valid(batch.slot, batch.size));
	}
	second->op = KV_PUT;
	cr_expect(kv_command_valid(batch.slot, batch.size));
	second->value_size = 6000;
	cr_expect_not(kv_command_valid(batch.slot, batch.size));
	second->value_size = 5;
	batch.slot->value_size = 0;
	cr_expect_not(kv_command_valid(batch.slot, sizeof(*batch.slot)));
}

Test(batch, comes_from_no_client)
{
	struct kv_batch batch = batch_of(2, 1000);

	request(KV_PUT, "key", "value");
	memcpy(room.message.body, batch.slot, batch.size);
	room.message.size = (uint32_t)(sizeof(room.message) + batch.size);
	cr_expect_not(kv_message_valid(&room.message, room.message.size));
}

/* A sanitizer finds a read beyond the message's end here. */
Test(message, of_random_bytes_breaks_nothing)
{
	unsigned seed = 1, i, n_valid = 0;
	size_t at, size;
	char *bytes;

	for (i = 0; i < 200000; i++) {
		size = i % 2 ? entries(KV_PROMISE, (unsigned)rand_r(&seed) % 4)
			     : request(KV_PUT, "key", "value");
		for (at = (size_t)rand_r(&seed) % 3; at; at--)
			room.bytes[(size_t)rand_r(&seed) % size] = (char)rand_r(
			    &seed);
		size -= (size_t)(rand_r(&seed) % 4 == 0);
		bytes = malloc(size);
		cr_assert(bytes);
		memcpy(bytes, room.bytes, size);
		n_valid += kv_message_valid((void *)bytes, size);
		free(bytes);
	}
	cr_expect_gt(n_valid, 20000);
	cr_expect_lt(n_valid, 180000);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks messages and commands from outside. A sender may be broken or hostile:
 * nothing of its message is trusted before these checks. A valid message is
 * safe to walk through; the cores decide whether it makes sense.
 */
#include "message.h"

#include <string.h>

_Static_assert(sizeof(struct kv_message) == 80, "its layout is the wire's");
_Static_assert(sizeof(struct kv_command) == 40, "its layout is the wire's");
_Static_assert(offsetof(struct kv_entry, command) == 24, "without padding");
_Static_assert(
    offsetof(struct kv_message, body) % 8 == 0, "bodies are aligned");

static bool sizes_valid(const struct kv_command *command)
{
	bool keyed = kv_command_keyed(command);
	bool valued = command->op == KV_PUT || command->op == KV_CAS;

	if (keyed ? command->key_size < 1 || command->key_size > KV_MAX_KEY
		  : command->key_size != 0)
		return false;
	if (command->expected_size &&
	    (command->op != KV_CAS || command->flags & KV_ABSENT))
		return false;
	if (command->op == KV_CONFIG)
		return command->value_size == sizeof(struct kv_config);
	if (command->op == KV_BATCH)
		return command->value_size >= sizeof(*command) &&
		    kv_command_size(command) <= KV_MAX_COMMAND;
	return command->value_size <= (valued ? KV_MAX_VALUE : 0) &&
	    command->expected_size <= KV_MAX_VALUE;
}

/* Exactly commands on keys, in the body of a batch. */
static bool batch_valid(const struct kv_command *batch)
{
	const char *bytes = kv_command_value(batch);
	size_t left = batch->value_size, size;

	for (; left; left -= size, bytes += size) {
		const struct kv_command *command = (const void *)bytes;

		if (left < sizeof(*command) || !kv_command_keyed(command))
			return false;
		size = kv_command_size(command);
		if (size > left || !kv_command_valid(command, size))
			return false;
	}
	return true;
}

bool kv_command_valid(const struct kv_command *command, size_t size)
{
	const char *bytes = (const char *)command;
	size_t used;

	if (size < sizeof(*command) || command->op < KV_NOOP ||
	    command->op > KV_BATCH || !sizes_valid(command) ||
	    command->lane >= KV_MAX_LANES || command->reserved != 0)
		return false;
	if (command->flags & ~(command->op == KV_CAS ? KV_ABSENT : 0))
		return false;
	if (kv_command_keyed(command) && !command->number)
		return false;
	if (command->op == KV_REGISTER &&
	    (command->argument < 1 || command->argument > KV_MAX_LANES))
		return false;
	if (size != kv_command_size(command))
		return false;
	used = sizeof(*command) + command->key_size + command->value_size +
	    command->expected_size;
	for (; used < size; used++)
		if (bytes[used])
			return false;
	return command->op != KV_BATCH || batch_valid(command);
}

void kv_batch_begin(struct kv_batch *batch, void *room, size_t size)
{
	*batch = (struct kv_batch){
		.slot = room,
		.room = size < KV_MAX_COMMAND ? size : KV_MAX_COMMAND,
	};
}

/* A command that is alone gets a head before it. */
static void put_head(struct kv_batch *batch)
{
	struct kv_command *slot = batch->slot;

	memmove(slot + 1, slot, batch->size);
	*slot = (struct kv_command){ .op = KV_BATCH,
		.value_size = (uint16_t)batch->size };
	batch->size += sizeof(*slot);
}

bool kv_batch_add(struct kv_batch *batch, const struct kv_command *command)
{
	size_t size = kv_command_size(command);
	size_t head = batch->n == 1 ? sizeof(*command) : 0;

	if (batch->size + head + size > batch->room)
		return false;
	if (batch->n &&
	    !(kv_command_keyed(command) &&
		kv_command_keyed(kv_slot_first(batch->slot))))
		return false;
	if (head)
		put_head(batch);
	memcpy((char *)batch->slot + batch->size, command, size);
	batch->size += size;
	if (batch->n++)
		batch->slot->value_size += (uint16_t)size;
	return true;
}

/* Exactly count entries, of ascending slots, in size bytes. */
static bool entries_valid(const char *bytes, size_t size, unsigned count)
{
	const struct kv_entry *entry;
	uint64_t last = 0;

	for (; count; count--) {
		entry = (const struct kv_entry *)(const void *)bytes;
		if (size < sizeof(*entry) ||
		    entry->size > size - offsetof(struct kv_entry, command))
			return false;
		if (entry->slot <= last || entry->decided > 1 ||
		    !kv_command_valid(&entry->command, entry->size))
			return false;
		last = entry->slot;
		bytes += kv_entry_size(entry);
		size -= kv_entry_size(entry);
	}
	return size == 0;
}

/* Clients send only their own commands and membership changes. */
static bool request_valid(const struct kv_message *message, size_t body)
{
	const struct kv_command *command =
	    (const struct kv_command *)(const void *)message->body;

	return kv_command_valid(command, body) && command->op != KV_NOOP &&
	    command->op != KV_EXPIRE && command->op != KV_BATCH;
}

static bool from_client(const struct kv_message *message)
{
	return message->type == KV_HANDSHAKE || message->type == KV_REQUEST ||
	    message->type == KV_STATUS;
}

bool kv_message_valid(const struct kv_message *message, size_t size)
{
	size_t body;

	if (size < sizeof(*message) || message->size < sizeof(*message) ||
	    message->size > size || message->size > KV_MAX_MESSAGE)
		return false;
	if (message->type < KV_PREVOTE || message->type > KV_VOTE)
		return false;
	/* A replica may forward a client's command. */
	if (message->from >= KV_MAX_REPLICAS &&
	    (message->from != KV_FROM_CLIENT || !from_client(message)))
		return false;
	body = message->size - sizeof(*message);
	switch (message->type) {
	case KV_PROMISE:
	case KV_ACCEPT:
		return entries_valid(message->body, body, message->count);
	case KV_REQUEST:
		return request_valid(message, body);
	case KV_REPLY:
		return message->status <= KV_INVALID;
	case KV_SNAPSHOT: /* body bytes at argument, of number in all */
		return message->number < SIZE_MAX &&
		    message->argument <= message->number &&
		    body <= message->number - message->argument;
	default:
		/* Bytes, or a text that ends with the message. */
		return true;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A short way to write commands in tests. */
#ifndef TESTS_CONSENSUS_COMMANDS_H
#define TESTS_CONSENSUS_COMMANDS_H

#include <string.h>

#include "examples/consensus/message.h"

/* Memory for the largest command. */
union command_room {
	struct kv_command command;
	char bytes[sizeof(struct kv_command) + KV_MAX_KEY + 2 * KV_MAX_VALUE];
	uint64_t words[1];
};

/* A text may be NULL: none. The rest of the command is 0. */
static inline struct kv_command *make_command(union command_room *room,
    enum kv_op op, const char *key, const char *value, const char *expected)
{
	struct kv_command *command = &room->command;
	size_t sizes[3] = { key ? strlen(key) : 0, value ? strlen(value) : 0,
		expected ? strlen(expected) : 0 };
	const char *texts[3] = { key, value, expected };
	char *to = room->bytes + sizeof(*command);
	int i;

	memset(room, 0,
	    (sizeof(*command) + sizes[0] + sizes[1] + sizes[2] + 7) / 8 * 8);
	command->op = (uint8_t)op;
	command->key_size = (uint16_t)sizes[0];
	command->value_size = (uint16_t)sizes[1];
	command->expected_size = (uint16_t)sizes[2];
	for (i = 0; i < 3; to += sizes[i++])
		if (sizes[i])
			memcpy(to, texts[i], sizes[i]);
	return command;
}

#endif

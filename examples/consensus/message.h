/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of the replicated store, and the commands in its log. Replicas
 * and clients are processes of one machine type: integers are in its byte
 * order.
 *
 * A message is one struct kv_message and its body, at most KV_MAX_MESSAGE
 * bytes. A message travels whole or not at all; it may be lost, repeated, late,
 * and overtaken. So each one names its cluster, its sender's incarnation and
 * its ballot, and is valid at any time.
 */
#ifndef KV_MESSAGE_H
#define KV_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_MAX_REPLICAS 9
#define KV_MAX_KEY 64
#define KV_MAX_VALUE 4096
#define KV_MAX_MESSAGE 16384

/*
 * A ballot orders leaders: the round in the upper 48 bits, the leader's replica
 * number in the lower 16. 0 is no ballot.
 */
typedef uint64_t kv_ballot;

static inline kv_ballot kv_ballot_of(uint64_t round, unsigned replica)
{
	return round << 16 | replica;
}

static inline uint64_t kv_ballot_round(kv_ballot ballot)
{
	return ballot >> 16;
}

static inline unsigned kv_ballot_leader(kv_ballot ballot)
{
	return (unsigned)(ballot & 0xffff);
}

/*
 * An acceptor: a replica number and its incarnation. A replica that starts
 * without its log has forgotten its promises: it gets a new incarnation, which
 * is a new acceptor. The old one is an acceptor that has crashed for good.
 */
struct kv_member {
	uint64_t incarnation; /* random, above KV_VACANT; 0: no such member */
};

/*
 * No incarnation: the place of a replica that has forgotten, or of a new one.
 * The leader gives it to the next incarnation of that number that asks.
 */
#define KV_VACANT 1

/* The acceptors of a log's slots. Members that are 0 do not exist. */
struct kv_config {
	struct kv_member members[KV_MAX_REPLICAS];
};

static inline unsigned kv_config_members(const struct kv_config *config)
{
	unsigned i, n = 0;

	for (i = 0; i < KV_MAX_REPLICAS; i++)
		n += config->members[i].incarnation > KV_VACANT;
	return n;
}

/* What a command does. */
enum kv_op {
	KV_NOOP = 1, /* fills a slot */
	KV_GET,
	KV_PUT,
	KV_DELETE,
	KV_CAS,      /* put if the key's value equals expected; expected of
			no bytes with KV_ABSENT: if there is no value */
	KV_REGISTER, /* opens a session: its id is the command's slot */
	KV_EXPIRE,   /* ends sessions that were last used before a slot */
	KV_CONFIG,   /* the body is a struct kv_config for the slots behind */
	KV_BATCH,    /* the body is commands of clients on keys, one behind the
			other, which share a slot and are applied in order */
};

enum {
	KV_ABSENT = 1
}; /* flags of a command */

/*
 * A command. Behind it stand its key, value and expected value, padded with
 * zeros to a multiple of 8 bytes. A session is a client with at most one
 * outstanding command for each lane; a lane's commands are numbered from 1.
 */
struct kv_command {
	uint64_t session;  /* 0 with KV_REGISTER and commands of replicas */
	uint64_t number;   /* of the lane's commands; KV_REGISTER: a random id
			      of the client, for the reply */
	uint64_t argument; /* KV_EXPIRE: the slot; KV_REGISTER: lanes */
	uint16_t lane;
	uint8_t op;    /* enum kv_op */
	uint8_t flags; /* KV_ABSENT */
	uint16_t key_size;
	uint16_t value_size; /* of the body, where there is one */
	uint16_t expected_size;
	uint16_t client; /* where the reply goes: see struct kv_message.client;
			    not part of the state */
	uint32_t reserved;
};

#define KV_MAX_LANES 256

static inline size_t kv_command_size(const struct kv_command *command)
{
	return (sizeof(*command) + command->key_size + command->value_size +
		   command->expected_size + 7) &
	    ~(size_t)7;
}

/* Of a reply. */
enum kv_status {
	KV_OK = 0,
	KV_NOT_FOUND,  /* get, delete, cas: no such key */
	KV_DIFFERENT,  /* cas: the value is another one; the reply has it,
			* unless the command was repeated */
	KV_NOT_LEADER, /* ask the leader of the reply's ballot */
	KV_BUSY,       /* not taken: try again */
	KV_NO_SESSION, /* the session has ended: outstanding commands may
			* have been done or not */
	KV_NO_QUORUM,  /* a majority has forgotten: the store serves nobody */
	KV_INVALID,    /* the command breaks a rule; never retried */
};

/* The text of programs for KV_NO_QUORUM. */
#define KV_NO_QUORUM_TEXT                                                  \
	"a majority of the replicas has lost its data: the store serves "  \
	"nobody; bring back replicas that have their log, or start a new " \
	"cluster with --bootstrap"

/* An accepted command: of one slot, as it stands in messages and logs. */
struct kv_entry {
	uint64_t slot;
	kv_ballot ballot; /* of its acceptance */
	uint32_t size;    /* of the command, a multiple of 8 */
	uint32_t decided; /* NOPaxos: 1 if the leader has put a no-op for a
			     request that was lost: above 0 in one ballot */
	struct kv_command command; /* last */
};

static inline size_t kv_entry_size(const struct kv_entry *entry)
{
	return offsetof(struct kv_entry, command) + entry->size;
}

/* The largest command: its entry fits a message. */
#define KV_MAX_COMMAND                                \
	(KV_MAX_MESSAGE - sizeof(struct kv_message) - \
	    offsetof(struct kv_entry, command))

enum kv_message_type {
	/* Replica to replica. Fields: see paxos.h. */
	KV_PREVOTE = 1,
	KV_PREVOTE_REPLY,
	KV_PREPARE,
	KV_PROMISE,
	KV_ACCEPT,
	KV_ACCEPTED,
	KV_HEARTBEAT, /* also carries the commit slot and a read round */
	KV_REFUSE,    /* the receiver has promised a higher ballot */
	KV_FETCH,     /* asks for entries, or a part of a snapshot */
	KV_SNAPSHOT,
	KV_JOIN, /* an incarnation asks the leader to become a member */
	/* NOPaxos: see nopaxos.h. */
	KV_SESSION,
	KV_GAP_ASK,
	KV_GAP_REQUEST,
	KV_GAP_DECIDE,
	KV_GAP_DECIDED,
	/* Client to replica, and back. */
	KV_HANDSHAKE, /* names the client's flow for replies */
	KV_REQUEST,   /* the body is a command */
	KV_REPLY,     /* status; the body is a value */
	KV_STATUS,    /* asks for counters; the reply's body is a text */
	KV_VOTE,      /* a follower has accepted all slots of a fast path up to
			 slot; session: the incarnation of the ballot's leader */
};

struct kv_message {
	uint64_t cluster;
	uint64_t incarnation; /* of the sending replica; of a client, its id */
	kv_ballot ballot;
	uint64_t slot;
	uint64_t commit;   /* all slots up to this are chosen: 0 none */
	uint64_t argument; /* by type */
	uint64_t number;   /* requests and replies: of the command */
	uint64_t session;  /* requests and replies: of the command */
	uint32_t size;     /* of header and body */
	uint16_t lane;     /* requests and replies: of the command */
	uint8_t type;      /* enum kv_message_type */
	uint8_t from;      /* replica number of the sender; 255 of a client */
	uint16_t count;    /* entries in the body */
	uint8_t status;    /* enum kv_status, of KV_REPLY; else flags by type */
	uint8_t reserved[5];
	char body[];
};

#define KV_FROM_CLIENT 255

/*
 * Whether a message of size bytes from outside is well formed: sizes, counts
 * and texts stay inside it, and its commands and entries are valid. Cores take
 * only well-formed messages. The message is aligned to 8 bytes.
 */
bool kv_message_valid(const struct kv_message *message, size_t size);

/*
 * Whether size bytes are one command: its sizes, op, flags and limits, and
 * zeros behind it. It is aligned to 8 bytes.
 */
bool kv_command_valid(const struct kv_command *command, size_t size);

static inline const char *kv_command_key(const struct kv_command *command)
{
	return (const char *)(command + 1);
}

static inline const char *kv_command_value(const struct kv_command *command)
{
	return kv_command_key(command) + command->key_size;
}

static inline const char *kv_command_expected(const struct kv_command *command)
{
	return kv_command_value(command) + command->value_size;
}

static inline bool kv_command_keyed(const struct kv_command *command)
{
	return command->op >= KV_GET && command->op <= KV_CAS;
}

/* The first of the commands that share a slot; of a slot with one, that one. */
static inline const struct kv_command *kv_slot_first(
    const struct kv_command *slot)
{
	return slot->op == KV_BATCH ? slot + 1 : slot;
}

/* The next command of the slot, or NULL. */
static inline const struct kv_command *kv_slot_next(
    const struct kv_command *slot, const struct kv_command *command)
{
	const char *next = (const char *)command + kv_command_size(command);

	if (next >= (const char *)slot + kv_command_size(slot))
		return NULL;
	return (const struct kv_command *)(const void *)next;
}

/*
 * Commands that share a slot, in room bytes aligned to 8. The first size bytes
 * are the slot's command; a single command stays as it is.
 */
struct kv_batch {
	struct kv_command *slot;
	size_t room, size;
	unsigned n; /* commands */
};

void kv_batch_begin(struct kv_batch *batch, void *room, size_t size);

/*
 * False: there is no room left. A command that is not on keys needs a slot of
 * its own.
 */
bool kv_batch_add(struct kv_batch *batch, const struct kv_command *command);

#endif

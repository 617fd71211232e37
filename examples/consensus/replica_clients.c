/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients, which share two open flows: one of requests, and one of replies,
 * each of which goes to the seat that the client names. Their requests go to
 * the core, and applied commands are answered. A reply that doesn't fit the
 * client's ring is dropped: the client asks again, and the store knows the
 * outcome.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replica.h"

static struct link *add_line(
    struct replica *replica, struct line *line, enum line_kind kind)
{
	const struct replica_options *options = &replica->options;
	bool in = kind == LINE_CLIENTS_IN;
	struct link_setup setup = {
		.kind = in ? LINK_OPEN_IN : LINK_OPEN_OUT,
		.helper = options->n_replicas,
		.segment_size = KV_CLIENT_SEGMENT,
		.segments = KV_CLIENT_SEGMENTS,
		.create = true,
		.n_sources = in ? KV_CLIENT_PLACES : 1,
		.n_targets = in ? 1 : KV_CLIENT_PLACES,
		.arg = line,
	};

	kv_replica_flow(setup.name, options->cluster, options->self,
	    in ? "requests" : "replies");
	line->kind = kind;
	line->link = links_add(replica->links, &setup);
	return line->link;
}

int clients_open(struct replica *replica)
{
	unsigned i;

	replica->reads = calloc(REPLICA_READS, sizeof(replica->reads[0]));
	if (!replica->reads)
		return -ENOMEM;
	for (i = 0; i < REPLICA_READS; i++) {
		replica->reads[i].next = replica->free_reads;
		replica->free_reads = &replica->reads[i];
	}
	return add_line(replica, &replica->clients_in, LINE_CLIENTS_IN) &&
		add_line(replica, &replica->clients_out, LINE_CLIENTS_OUT)
	    ? 0
	    : -ENOMEM;
}

static unsigned place_number(
    const struct replica *replica, const struct place *place)
{
	return (unsigned)(place - replica->places);
}

static unsigned known_leader(const struct replica *replica)
{
	int leader = replica->paxos ? paxos_leader(replica->paxos) : -1;

	return (unsigned)(leader + 1);
}

/* A message to a client, of which the caller fills in the rest; or NULL. */
static struct kv_message *begin_reply(
    struct replica *replica, struct place *place, uint8_t type, size_t body)
{
	size_t size = sizeof(struct kv_message) + body;
	struct link *link = replica->clients_out.link;
	struct kv_message *message = link
	    ? link_begin_to(link, place->seat, size)
	    : NULL;

	if (!message) {
		replica->counts.replies_dropped++;
		return NULL;
	}
	*message = (struct kv_message){
		.cluster = replica->cluster,
		.incarnation = replica->incarnation,
		.size = (uint32_t)size,
		.type = type,
		.from = (uint8_t)replica->options.self,
		.argument = known_leader(replica),
	};
	if (replica->paxos) {
		message->ballot = paxos_ballot(replica->paxos);
		message->commit = paxos_commit(replica->paxos);
	}
	return message;
}

static void send_reply(struct replica *replica, struct kv_message *message)
{
	replica->counts.replies++;
	link_send(replica->clients_out.link, message->size);
}

/* Answer a request that was refused. */
static void refuse(struct replica *replica, struct place *place,
    const struct kv_message *request, uint8_t status)
{
	struct kv_message *message = begin_reply(replica, place, KV_REPLY, 0);

	if (!message)
		return;
	message->status = status;
	message->number = request->number;
	message->session = request->session;
	message->lane = request->lane;
	send_reply(replica, message);
}

static bool greet(struct replica *replica, struct place *place)
{
	struct kv_message *message = begin_reply(
	    replica, place, KV_HANDSHAKE, 0);

	if (!message)
		return false;
	if (replica->fast && nopaxos_is_open(replica->fast))
		message->status = KV_GATEWAY;
	if (replica->paxos && paxos_no_quorum(replica->paxos, replica->now))
		message->status |= KV_LOST;
	send_reply(replica, message);
	return true;
}

void clients_notify_all(struct replica *replica)
{
	unsigned i;

	for (i = 0; i < KV_CLIENT_PLACES; i++)
		if (replica->places[i].client)
			replica->greetings_due |= UINT64_C(1) << i;
}

static void take_handshake(struct replica *replica, struct place *place,
    const struct kv_message *message)
{
	unsigned number = place_number(replica, place);
	struct kv_client_handshake handshake;

	if (message->size < sizeof(*message) + sizeof(handshake))
		return;
	memcpy(&handshake, message->body, sizeof(handshake));
	if (handshake.seat >= KV_CLIENT_PLACES)
		return;
	if (handshake.session)
		replica->sessions[number] = handshake.session;
	place->client = message->incarnation;
	place->seat = (unsigned)handshake.seat;
	replica->greetings_due |= UINT64_C(1) << number;
}

void clients_left(struct replica *replica, unsigned place)
{
	replica->places[place] = (struct place){ .client = 0 };
	replica->sessions[place] = 0;
}

static void answer(struct replica *replica, struct place *place,
    const struct kv_message *head, const struct kv_result *result)
{
	size_t size = result->value ? result->value_size : 0;
	struct kv_message *message = begin_reply(
	    replica, place, KV_REPLY, size);

	if (!message)
		return;
	message->status = result->status;
	message->slot = head->slot;
	message->number = head->number;
	message->session = head->session;
	message->lane = head->lane;
	if (size)
		memcpy(message->body, result->value, size);
	send_reply(replica, message);
}

/* The round of a get is over. */
static void read_done(void *arg, uint64_t tag, uint8_t status)
{
	struct replica *replica = arg;
	struct read *read = &replica->reads[tag];
	struct place *place = &replica->places[read->place];
	struct kv_result result = { .status = status };
	const struct kv_message head = {
		.number = read->number,
		.session = read->session,
		.lane = read->lane,
	};

	if (place->client == read->client) {
		if (status == KV_OK)
			kv_store_read(paxos_store(replica->paxos), read->key,
			    read->key_size, &result);
		answer(replica, place, &head, &result);
	}
	read->next = replica->free_reads;
	replica->free_reads = read;
}

static uint8_t begin_read(struct replica *replica, struct place *place,
    const struct kv_message *message, const struct kv_command *command)
{
	struct read *read = replica->free_reads;
	uint8_t status;

	if (!read)
		return KV_BUSY;
	*read = (struct read){
		.place = place_number(replica, place),
		.client = place->client,
		.session = message->session,
		.number = message->number,
		.lane = message->lane,
		.key_size = command->key_size,
		.next = read->next,
	};
	memcpy(read->key, kv_command_key(command), command->key_size);
	replica->free_reads = read->next;
	status = paxos_read(replica->paxos, replica->now, read_done,
	    (uint64_t)(read - replica->reads));
	if (status == KV_OK)
		return KV_OK;
	read->next = replica->free_reads;
	replica->free_reads = read;
	return status;
}

static uint8_t take_command(struct replica *replica, struct place *place,
    const struct kv_message *message, const struct kv_command *command)
{
	struct kv_config config;
	uint8_t refused = KV_BUSY;
	size_t size;

	if (!replica->paxos)
		return KV_NOT_LEADER;
	if (command->op == KV_CONFIG) {
		memcpy(&config, kv_command_value(command), sizeof(config));
		return paxos_reconfigure(replica->paxos, replica->now, &config);
	}
	if (replica->fast && nopaxos_is_open(replica->fast))
		return order_take(replica, command);
	/* The store may not have the fast path's result yet. */
	if (command->op == KV_GET && message->status & KV_INDEX_READ &&
	    !replica->fast)
		return begin_read(replica, place, message, command);
	size = kv_command_size(command);
	if (paxos_propose(replica->paxos, replica->now, (const char *)command,
		size, &refused) == size)
		return KV_OK;
	return refused;
}

static void take_request(struct replica *replica, struct place *place,
    const struct kv_message *message)
{
	const struct kv_command *command =
	    (const struct kv_command *)(const void *)message->body;
	uint8_t status;

	replica->counts.requests++;
	if (command->session)
		replica->sessions[place_number(replica, place)] =
		    command->session;
	status = take_command(replica, place, message, command);
	/*
	 * Accepted commands are answered when they are applied; a change of
	 * members is answered at once.
	 */
	if (status != KV_OK || command->op == KV_CONFIG)
		refuse(replica, place, message, status);
}

static void send_status(struct replica *replica, struct place *place,
    const struct kv_message *request)
{
	char text[4096];
	size_t size = status_text(replica, text, sizeof(text));
	struct kv_message *message = begin_reply(
	    replica, place, KV_STATUS, size);

	if (!message)
		return;
	message->number = request->number;
	memcpy(message->body, text, size);
	send_reply(replica, message);
}

void clients_receive(struct replica *replica, struct place *place,
    const struct kv_message *message)
{
	/* Its seat was lost for a moment, or is another's now. */
	if (message->type != KV_HANDSHAKE &&
	    place->client != message->incarnation)
		return;
	switch (message->type) {
	case KV_HANDSHAKE:
		take_handshake(replica, place, message);
		break;
	case KV_REQUEST:
		take_request(replica, place, message);
		break;
	case KV_STATUS:
		send_status(replica, place, message);
		break;
	default:
		break;
	}
}

/* The client of a session, or NULL: it is not connected here. */
static struct place *place_of(
    struct replica *replica, const struct kv_command *command)
{
	unsigned i;

	if (command->op == KV_REGISTER) {
		for (i = 0; i < KV_CLIENT_PLACES; i++)
			if (replica->places[i].client == command->number)
				return &replica->places[i];
		return NULL;
	}
	if (!command->session)
		return NULL;
	for (i = 0; i < KV_CLIENT_PLACES; i++)
		if (replica->sessions[i] == command->session)
			return &replica->places[i];
	return NULL;
}

void clients_applied(struct replica *replica, uint64_t slot,
    const struct kv_command *command, const struct kv_result *result)
{
	struct kv_message head = {
		.slot = slot,
		.number = command->number,
		.session = command->session,
		.lane = command->lane,
	};
	struct place *place;

	/* During paxos_new() and paxos_restore() there is none yet. */
	if (!replica->paxos)
		return;
	if (replica->fast && nopaxos_applied(replica->fast, slot, result))
		return;
	if (paxos_role(replica->paxos) != PAXOS_LEADER)
		return;
	place = place_of(replica, command);
	if (!place)
		return;
	if (command->op == KV_REGISTER) {
		head.session = result->session;
		if (result->status == KV_OK)
			replica->sessions[place_number(replica, place)] =
			    result->session;
	}
	answer(replica, place, &head, result);
}

/* On the fast path: the leader's result. */
void clients_executed(struct replica *replica, uint64_t slot, kv_ballot ballot,
    unsigned members, const struct kv_command *command,
    const struct kv_result *result)
{
	struct place *place = place_of(replica, command);
	size_t size = result->value ? result->value_size : 0;
	struct kv_message *message;

	if (!place)
		return;
	message = begin_reply(replica, place, KV_REPLY, size);
	if (!message)
		return;
	message->status = result->status;
	message->slot = slot;
	message->ballot = ballot;
	message->count = (uint16_t)members;
	message->number = command->number;
	message->session = command->session;
	message->lane = command->lane;
	if (size)
		memcpy(message->body, result->value, size);
	send_reply(replica, message);
}

/* A follower's vote: one message covers all slots that a turn has accepted. */
void clients_voted(struct replica *replica, uint64_t slot, kv_ballot ballot,
    uint64_t leader, const struct kv_command *slot_command)
{
	const struct kv_command *command = kv_slot_first(slot_command);
	uint64_t session = 0;
	struct place *place;

	for (; command; command = kv_slot_next(slot_command, command)) {
		if (command->session == session)
			continue;
		session = command->session;
		place = place_of(replica, command);
		if (!place)
			continue;
		place->voted_ballot = ballot;
		place->voted_leader = leader;
		place->voted_slot = slot;
		replica->votes_due |= UINT64_C(1)
		    << place_number(replica, place);
	}
}

static bool send_vote(struct replica *replica, struct place *place)
{
	struct kv_message *message = begin_reply(replica, place, KV_VOTE, 0);

	if (!message)
		return false;
	message->ballot = place->voted_ballot;
	message->session = place->voted_leader;
	message->slot = place->voted_slot;
	send_reply(replica, message);
	return true;
}

/* To each place whose bit is set, until its ring takes it. */
static void send_due(struct replica *replica, uint64_t *places,
    bool (*send)(struct replica *, struct place *))
{
	struct place *place;
	uint64_t due;

	for (due = *places; due; due &= due - 1) {
		place = &replica->places[__builtin_ctzll(due)];
		if (!place->client || send(replica, place))
			*places &= ~(due & -due);
	}
}

void clients_flush(struct replica *replica)
{
	send_due(replica, &replica->greetings_due, greet);
	send_due(replica, &replica->votes_due, send_vote);
}

_Static_assert(KV_CLIENT_PLACES <= 64, "a bit each");

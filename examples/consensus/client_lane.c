/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands on lanes, and the session. A command is sent until its answer or its
 * deadline. Its session, lane and number make sure that it is applied once.
 * After the deadline its outcome is KV_UNKNOWN unless it is certain.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client_impl.h"

#define LONGEST_RETRY_NS UINT64_C(1000000000)
/* A full window or a change of members takes some milliseconds. */
#define BUSY_NS 1000000
#define LONGEST_BUSY_NS 8000000

static int check_command(const struct kv_client_command *command)
{
	if (command->op < KV_GET || command->op > KV_CAS)
		return client_fail(
		    -EINVAL, "op %u is none of a client's", command->op);
	if (command->key_size < 1 || command->key_size > KV_MAX_KEY)
		return client_fail(-EINVAL, "a key of %u bytes: it has 1 to %d",
		    command->key_size, KV_MAX_KEY);
	if (command->value_size > KV_MAX_VALUE ||
	    command->expected_size > KV_MAX_VALUE)
		return client_fail(-EINVAL,
		    "a value of %u bytes: it has up to %d",
		    command->value_size > KV_MAX_VALUE ? command->value_size
						       : command->expected_size,
		    KV_MAX_VALUE);
	return 0;
}

static int fill_lane(struct kv_client *client, struct lane *lane,
    unsigned number, const struct kv_client_command *from)
{
	struct kv_command head = {
		.session = client->session,
		.number = lane->number + 1,
		.lane = (uint16_t)number,
		.op = from->op,
		.flags = from->flags,
		.key_size = from->key_size,
		.value_size = from->value_size,
		.expected_size = from->expected_size,
	};
	size_t size = kv_command_size(&head), used;
	char *bytes;

	if (size > lane->room) {
		bytes = realloc(lane->command, size);
		if (!bytes)
			return client_fail(-ENOMEM, "no memory for a command");
		lane->command = (struct kv_command *)(void *)bytes;
		lane->room = size;
	}
	*lane->command = head;
	bytes = (char *)(lane->command + 1);
	memcpy(bytes, from->key, from->key_size);
	used = from->key_size;
	if (from->value_size)
		memcpy(bytes + used, from->value, from->value_size);
	used += from->value_size;
	if (from->expected_size)
		memcpy(bytes + used, from->expected, from->expected_size);
	used += from->expected_size;
	memset(bytes + used, 0, size - sizeof(head) - used);
	if (!kv_command_valid(lane->command, size))
		return client_fail(-EINVAL,
		    "the command has members that its "
		    "op does not use");
	return 0;
}

int kv_client_submit(struct kv_client *client, unsigned number,
    const struct kv_client_command *command, uint64_t tag)
{
	struct lane *lane;
	int ret;

	if (number >= client->options.lanes)
		return client_fail(-EINVAL, "there is no lane %u", number);
	lane = &client->lanes[number];
	if (lane->state != LANE_IDLE)
		return client_fail(
		    -EBUSY, "lane %u waits for an answer", number);
	ret = check_command(command);
	if (!ret)
		ret = fill_lane(client, lane, number, command);
	if (ret < 0)
		return ret;
	lane->number++;
	lane->tag = tag;
	lane->attempts = lane->refusals = 0;
	lane->held = false;
	lane->backoff = client->options.retry_ns;
	lane->deadline = now_ns() + client->options.timeout_ns;
	lane->retry_at = 0;
	lane->state = LANE_QUEUED;
	client->due = 0;
	return 0;
}

static void finish(struct kv_client *client, struct lane *lane, uint8_t status,
    const struct kv_message *message)
{
	struct kv_client_answer answer = {
		.tag = lane->tag,
		.lane = lane->command->lane,
		.op = lane->command->op,
		.status = status,
		.attempts = lane->attempts,
	};

	if (message) {
		answer.slot = message->slot;
		answer.value_size = message->size - sizeof(*message);
		answer.value = message->body;
	}
	lane->state = LANE_IDLE;
	client->ended++;
	client->stats.commands++;
	client->stats.unknown += status == KV_UNKNOWN;
	if (client->options.done)
		client->options.done(client->options.arg, &answer);
}

/*
 * The deadline has passed. A command that no replica has accepted is certainly
 * not applied.
 */
static void give_up(struct kv_client *client, struct lane *lane)
{
	uint8_t refused = net_majority_lost(client) ? KV_NO_QUORUM : KV_BUSY;

	finish(client, lane,
	    lane->attempts > lane->refusals ? KV_UNKNOWN : refused, NULL);
}

static void put_off(struct kv_client *client, struct lane *lane, uint64_t ns)
{
	lane->state = LANE_QUEUED;
	lane->retry_at = client->now + ns;
	if (lane->retry_at < client->due)
		client->due = lane->retry_at;
}

static void lose_session(
    struct kv_client *client, struct lane *lane, uint64_t session)
{
	if (client->session == session) {
		client->session = 0;
		client->register_at = client->now;
	}
	/* For a command that was sent once, this is the only answer. */
	if (lane->attempts > lane->refusals + 1) {
		finish(client, lane, KV_UNKNOWN, NULL);
		return;
	}
	lane->refusals++;
	lane->held = false;
	put_off(client, lane, 0);
}

/* The answer of a replica that doesn't lead. */
static bool is_turned_away(const struct kv_message *message)
{
	return message->status == KV_NOT_LEADER ||
	    message->status == KV_NO_QUORUM;
}

static void take_session(
    struct kv_client *client, const struct kv_message *message)
{
	if (client->session)
		return;
	if (is_turned_away(message))
		net_lose_leader(client);
	if (message->status != KV_OK)
		return;
	client->session = message->session;
	client->stats.sessions++;
	client->due = 0;
	/* All replicas must know whom to answer. */
	net_probe(client);
}

/* Keep the leader's result until votes confirm it. */
static void hold(struct lane *lane, const struct kv_message *message)
{
	struct kv_message *room;

	if (lane->held && !kv_votes_prefer(message, lane->result))
		return;
	if (message->size > lane->result_room) {
		room = realloc(lane->result, message->size);
		/* Without memory, treat it as lost. */
		if (!room)
			return;
		lane->result = room;
		lane->result_room = message->size;
	}
	memcpy(lane->result, message, message->size);
	lane->held = true;
}

static void conclude(struct kv_client *client, struct lane *lane,
    const struct kv_message *message)
{
	if (message->status == KV_NO_SESSION)
		lose_session(client, lane, message->session);
	else
		finish(client, lane, message->status, message);
}

static void take_result(struct kv_client *client, struct lane *lane,
    const struct kv_message *message)
{
	if (kv_votes_confirm(&client->votes, message))
		conclude(client, lane, message);
	else
		hold(lane, message);
}

void lanes_settle(struct kv_client *client)
{
	struct lane *lane;
	unsigned i;

	if (!client->voted)
		return;
	client->voted = false;
	for (i = 0; i < client->options.lanes; i++) {
		lane = &client->lanes[i];
		if (lane->state == LANE_IDLE || !lane->held ||
		    !kv_votes_confirm(&client->votes, lane->result))
			continue;
		lane->held = false;
		conclude(client, lane, lane->result);
	}
}

void lanes_reply(struct kv_client *client, const struct kv_message *message)
{
	struct lane *lane;

	if (message->number == client->id) {
		take_session(client, message);
		return;
	}
	if (client->question && message->number == client->question) {
		client->answer = message->status;
		client->question = 0;
		if (is_turned_away(message))
			net_lose_leader(client);
		return;
	}
	if (message->lane >= client->options.lanes)
		return;
	lane = &client->lanes[message->lane];
	if (lane->state == LANE_IDLE || !lane->attempts ||
	    message->number != lane->command->number ||
	    message->session != lane->command->session)
		return;
	switch (message->status) {
	case KV_NOT_LEADER:
	case KV_NO_QUORUM:
		client->stats.not_leader++;
		lane->refusals++;
		if (client->leader == message->from)
			net_lose_leader(client);
		if (lane->state == LANE_SENT)
			put_off(client, lane, 0);
		break;
	case KV_BUSY:
		lane->refusals++;
		put_off(client, lane,
		    lane->refusals < LONGEST_BUSY_NS / BUSY_NS
			? lane->refusals * BUSY_NS
			: LONGEST_BUSY_NS);
		break;
	default:
		take_result(client, lane, message);
	}
}

/*
 * Where a command goes: the first time to a gateway, which differs from client
 * to client; later to the leader.
 */
static unsigned choose(const struct kv_client *client, const struct lane *lane)
{
	unsigned n = (unsigned)(client->id % client->options.n_replicas);

	if (!lane->attempts && client->servers[n].gateway)
		return n;
	return (unsigned)client->leader;
}

static bool send_lane(struct kv_client *client, struct lane *lane)
{
	unsigned server = choose(client, lane);
	struct kv_command *command = lane->command;
	size_t size = kv_command_size(command);
	struct kv_message *message;

	message = net_begin(client, server, KV_REQUEST, size);
	if (!message)
		return false;
	if (lane->attempts == lane->refusals)
		command->session = client->session;
	message->number = command->number;
	message->session = command->session;
	message->lane = command->lane;
	if (client->options.index_reads && command->op == KV_GET)
		message->status = KV_INDEX_READ;
	memcpy(message->body, command, size);
	net_send(client, message);
	client->stats.sent++;
	client->stats.retries += lane->attempts > 0;
	lane->attempts++;
	lane->state = LANE_SENT;
	lane->retry_at = client->now + lane->backoff;
	lane->backoff *= 2;
	if (lane->backoff > LONGEST_RETRY_NS)
		lane->backoff = LONGEST_RETRY_NS;
	return true;
}

static void send_register(struct kv_client *client)
{
	struct kv_command command = {
		.number = client->id,
		.argument = client->options.lanes,
		.op = KV_REGISTER,
	};
	struct kv_message *message;

	message = net_begin(
	    client, (unsigned)client->leader, KV_REQUEST, sizeof(command));
	client->register_at = client->now + client->options.retry_ns;
	if (!message)
		return;
	message->number = client->id;
	memcpy(message->body, &command, sizeof(command));
	net_send(client, message);
}

void lanes_again(struct kv_client *client)
{
	struct lane *lane;
	unsigned i;

	for (i = 0; i < client->options.lanes; i++) {
		lane = &client->lanes[i];
		if (lane->state == LANE_IDLE)
			continue;
		lane->backoff = client->options.retry_ns;
		put_off(client, lane, 0);
	}
	client->due = 0;
}

/* When the lane has its next work. */
static uint64_t lane_turn(struct kv_client *client, struct lane *lane)
{
	bool can = client->leader >= 0 && client->session;

	if (client->now >= lane->deadline) {
		give_up(client, lane);
		/* done() may have submitted the next one. */
		return lane->state == LANE_IDLE ? UINT64_MAX : client->now;
	}
	if (lane->state == LANE_SENT && client->now >= lane->retry_at) {
		/* The leader may be stopped: another one may lead. */
		if (client->now >= client->probe_at)
			net_probe(client);
		lane->state = LANE_QUEUED;
	}
	if (lane->state == LANE_QUEUED && client->now >= lane->retry_at) {
		if (!can)
			return lane->deadline;
		if (!send_lane(client, lane))
			lane->retry_at = client->now + BUSY_NS;
	}
	return lane->retry_at < lane->deadline ? lane->retry_at
					       : lane->deadline;
}

void lanes_turn(struct kv_client *client)
{
	uint64_t due = UINT64_MAX, at;
	unsigned i;

	if (!client->session && client->leader >= 0 &&
	    !client->options.observe) {
		if (client->now >= client->register_at)
			send_register(client);
		due = client->register_at;
	}
	if (client->now < client->due && client->session)
		return;
	for (i = 0; i < client->options.lanes; i++) {
		if (client->lanes[i].state == LANE_IDLE)
			continue;
		at = lane_turn(client, &client->lanes[i]);
		if (at < due)
			due = at;
	}
	client->due = due;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's connections, and its search for the leader. A replica says that it
 * leads in its answer to a client's handshake, and when it begins to lead.
 * Without a known leader, the client repeats its handshake to all.
 */
#include <dfi/error.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client_impl.h"

#define HANDSHAKE_NS 50000000
#define PROBE_NS 5000000

struct kv_message *net_begin(
    struct kv_client *client, unsigned server, uint8_t type, size_t body)
{
	size_t size = sizeof(struct kv_message) + body;
	struct kv_message *message;

	client->building = client->servers[server].out;
	message = link_begin(client->building, size);
	if (!message)
		return NULL;
	*message = (struct kv_message){
		.cluster = client->cluster_id,
		.incarnation = client->id,
		.size = (uint32_t)size,
		.type = type,
		.from = KV_FROM_CLIENT,
	};
	return message;
}

void net_send(struct kv_client *client, struct kv_message *message)
{
	link_send(client->building, message->size);
}

static void send_handshake(struct server *server)
{
	struct kv_client *client = server->client;
	struct kv_client_handshake handshake = { .session = client->session };
	struct kv_message *message;

	if (!server->in_up || !server->out_up)
		return;
	handshake.seat = link_seat(server->in);
	message = net_begin(
	    client, server->number, KV_HANDSHAKE, sizeof(handshake));
	if (!message)
		return; /* links_wait() ends when there is room */
	server->handshake_at = client->now + HANDSHAKE_NS;
	memcpy(message->body, &handshake, sizeof(handshake));
	net_send(client, message);
}

void net_probe(struct kv_client *client)
{
	unsigned i;

	client->probe_at = client->now + PROBE_NS;
	for (i = 0; i < client->options.n_replicas; i++)
		if (client->servers[i].welcome)
			send_handshake(&client->servers[i]);
}

void net_lose_leader(struct kv_client *client)
{
	if (client->leader < 0)
		return;
	client->leader = -1;
	client->probe_at = client->now;
}

bool net_majority_lost(const struct kv_client *client)
{
	unsigned i;

	for (i = 0; client->leader < 0 && i < client->options.n_replicas; i++)
		if (client->servers[i].lost)
			return true;
	return false;
}

static void take_claim(
    struct kv_client *client, const struct kv_message *message)
{
	unsigned i;

	if (message->argument != message->from + UINT64_C(1) ||
	    message->ballot < client->ballot)
		return;
	if (client->leader == message->from &&
	    client->ballot == message->ballot)
		return;
	/* This message is older than its leadership. */
	for (i = 0; i < client->options.n_replicas; i++)
		client->servers[i].lost = false;
	client->ballot = message->ballot;
	client->leader = message->from;
	client->stats.leader_changes++;
	client->register_at = client->now;
	lanes_again(client);
}

static void welcome(struct server *server)
{
	if (server->welcome)
		return;
	server->welcome = true;
	server->client->stats.connections++;
	server->client->stats.connected |= 1u << server->number;
}

static void take_status(
    struct kv_client *client, const struct kv_message *message)
{
	size_t size = message->size - sizeof(*message);

	if (message->number != client->question)
		return;
	if (size >= client->text_size)
		size = client->text_size - 1;
	memcpy(client->text, message->body, size);
	client->text[size] = '\0';
	client->question = 0;
}

static void on_receive(
    void *arg, struct link *link, unsigned from, const char *bytes, size_t size)
{
	struct kv_client *client = arg;
	struct server *server = link_arg(link);
	const struct kv_message *message;

	(void)from;
	while (size && !client->closing) {
		message = (const struct kv_message *)(const void *)bytes;
		if (!kv_message_valid(message, size) ||
		    message->from != server->number) {
			link_reset(link);
			return;
		}
		if (message->type == KV_HANDSHAKE) {
			welcome(server);
			server->gateway = message->status & KV_GATEWAY;
			server->lost = message->status & KV_LOST;
			take_claim(client, message);
		} else if (message->type == KV_STATUS) {
			take_status(client, message);
		} else if (message->type == KV_REPLY) {
			lanes_reply(client, message);
		} else if (message->type == KV_VOTE) {
			kv_votes_take(&client->votes, message);
			client->voted = true;
		}
		bytes += kv_message_room(message);
		size -= kv_message_room(message);
	}
}

/* Both directions go down together: a new link begins with a handshake. */
static void on_line(void *arg, struct link *link, bool up)
{
	struct kv_client *client = arg;
	struct server *server = link_arg(link);

	if (client->closing)
		return; /* links are freed one by one: the other may be gone */
	if (link == server->in)
		server->in_up = up;
	else
		server->out_up = up;
	if (up) {
		send_handshake(server);
		return;
	}
	link_reset(link == server->in ? server->out : server->in);
	server->welcome = server->gateway = server->lost = false;
	client->stats.connected &= ~(1u << server->number);
	if (client->leader == (int)server->number)
		net_lose_leader(client);
}

static void on_gap(void *arg, struct link *link, uint32_t n)
{
	(void)arg;
	(void)link;
	(void)n;
}

static void on_closed(void *arg, struct link *link, void *link_arg_)
{
	(void)arg;
	(void)link;
	(void)link_arg_;
}

static int add_server(struct kv_client *client, unsigned number)
{
	struct server *server = &client->servers[number];
	struct link_setup setup = {
		.kind = LINK_OPEN_IN,
		.helper = number,
		.end = LINK_ANY_SEAT,
		.arg = server,
	};

	server->client = client;
	server->number = number;
	kv_replica_flow(setup.name, client->cluster, number, "replies");
	server->in = links_add(client->links, &setup);
	setup.kind = LINK_OPEN_OUT;
	kv_replica_flow(setup.name, client->cluster, number, "requests");
	server->out = links_add(client->links, &setup);
	return server->in && server->out
	    ? 0
	    : client_fail(-ENOMEM, "no memory for a client");
}

int net_open(struct kv_client *client)
{
	struct links_setup setup = {
		.registry = client->registry,
		.n_helpers = client->options.n_replicas,
		.open_timeout_ms =
		    (unsigned)(client->options.open_timeout_ns / 1000000),
		.ops = {
			.changed = on_line,
			.receive = on_receive,
			.gap = on_gap,
			.closed = on_closed,
		},
		.arg = client,
	};
	unsigned i;
	int ret;

	ret = links_open(&setup, &client->links);
	if (ret < 0)
		return client_fail(ret, "joining the registry: %s",
		    *dfi_errmsg() ? dfi_errmsg() : strerror(-ret));
	for (i = 0; !ret && i < client->options.n_replicas; i++)
		ret = add_server(client, i);
	return ret;
}

void net_turn(struct kv_client *client)
{
	struct server *server;
	unsigned i;

	for (i = 0; i < client->options.n_replicas; i++) {
		server = &client->servers[i];
		if (!server->welcome && client->now >= server->handshake_at)
			send_handshake(server);
	}
	if (client->leader < 0 && client->now >= client->probe_at)
		net_probe(client);
}

uint64_t net_due(const struct kv_client *client)
{
	uint64_t due = client->now + HANDSHAKE_NS;

	if (client->leader < 0 && client->probe_at < due)
		due = client->probe_at;
	return due;
}

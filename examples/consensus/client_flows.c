/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client in the four flows of a leader: see replica_flows.c. The leader's
 * handshake says whether the client is in them. When they end, the client
 * repeats the commands without an answer over the pair flows.
 */
#include <string.h>

#include "client_impl.h"

void client_flows_leave(struct kv_client *client)
{
	struct client_flows *flows = &client->flows;
	struct link *in = flows->in, *out = flows->out;

	if (!flows->id)
		return;
	*flows = (struct client_flows){ .id = 0 };
	if (in)
		link_close(in);
	if (out)
		link_close(out);
	lanes_again(client);
}

static struct link *add_link(struct kv_client *client, enum link_kind kind,
    char which, const struct kv_flows_handshake *handshake)
{
	struct link_setup setup = {
		.kind = kind,
		.helper = client->options.n_replicas,
		.end = (unsigned)handshake->end,
		.once = true,
	};

	kv_shared_flow(setup.name, client->cluster, which, handshake->id);
	return links_add(client->links, &setup);
}

void client_flows_hear(
    struct kv_client *client, const struct kv_message *message)
{
	struct client_flows *flows = &client->flows;
	struct kv_flows_handshake handshake = { .id = 0 };

	if (client->leader != message->from)
		return;
	if (message->size >= sizeof(*message) + sizeof(handshake))
		memcpy(&handshake, message->body, sizeof(handshake));
	if (handshake.id == flows->id)
		return;
	client_flows_leave(client);
	if (!handshake.id)
		return;
	flows->id = handshake.id;
	flows->leader = message->from;
	/* Open the target first: the leader's source waits for it. */
	flows->in = add_link(client, LINK_SHARED_IN, 'r', &handshake);
	flows->out = add_link(client, LINK_SHARED_OUT, 'q', &handshake);
	if (!flows->in || !flows->out)
		client_flows_leave(client);
}

void client_flows_lost(struct kv_client *client, const struct link *link)
{
	struct client_flows *flows = &client->flows;

	if (link != flows->in && link != flows->out)
		return;
	if (link == flows->in)
		flows->in = NULL;
	else
		flows->out = NULL;
	client_flows_leave(client);
}

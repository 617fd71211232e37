/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of nodes and endpoints in the registry. Another version of this
 * library, or anybody who can write to the registry, may have made what is
 * decoded: every size and text is checked here.
 */
#include "descriptor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/text.h"
#include "dfi_flow.pb-c.h"

/* A text that a peer has published, for this many bytes. */
static bool text_is_sane(const char *text, size_t size)
{
	return strlen(text) < size && dfi__text_is_plain(text);
}

void *dfi__message_pack(const ProtobufCMessage *message, size_t *size)
{
	void *data;

	*size = protobuf_c_message_get_packed_size(message);
	data = malloc(*size ? *size : 1);
	if (data)
		protobuf_c_message_pack(message, data);
	return data;
}

void dfi__node_to_message(const struct node *node, DfiFlow__Node *message)
{
	dfi_flow__node__init(message);
	message->id = node->id;
	message->name = (char *)node->name;
	message->host = (char *)node->host;
	message->pid = node->pid;
	message->host_id = node->at.id;
	message->boot = node->at.boot;
	message->net = node->at.net;
	message->pid_space = node->pid_space;
	message->start = node->start;
}

bool dfi__node_from_message(const DfiFlow__Node *message, struct node *node)
{
	memset(node, 0, sizeof(*node));
	if (!message)
		return true;
	node->id = message->id;
	node->pid = message->pid;
	node->at.id = message->host_id;
	node->at.boot = message->boot;
	node->at.net = message->net;
	node->pid_space = message->pid_space;
	node->start = message->start;
	snprintf(node->name, sizeof(node->name), "%s", message->name);
	snprintf(node->host, sizeof(node->host), "%s", message->host);
	dfi__text_make_plain(node->name);
	dfi__text_make_plain(node->host);
	return dfi__text_is_plain(message->name) &&
	    dfi__text_is_plain(message->host);
}

void *dfi__node_encode(const struct node *node,
    const uint8_t token[MEMBER_TOKEN_SIZE], const char *address, size_t *size)
{
	DfiFlow__Node message;

	dfi__node_to_message(node, &message);
	message.token.data = (uint8_t *)token;
	message.token.len = MEMBER_TOKEN_SIZE;
	message.address = (char *)address;
	return dfi__message_pack(&message.base, size);
}

int dfi__node_decode(const void *data, size_t size, struct node *node,
    uint8_t token[MEMBER_TOKEN_SIZE])
{
	DfiFlow__Node *message = dfi_flow__node__unpack(NULL, size, data);

	if (message &&
	    (message->token.len != MEMBER_TOKEN_SIZE ||
		!dfi__node_from_message(message, node))) {
		dfi_flow__node__free_unpacked(message, NULL);
		message = NULL;
	}
	if (!message)
		return dfi__fail(
		    -EBADMSG, "registry: a node's entry is damaged");
	if (token)
		memcpy(token, message->token.data, MEMBER_TOKEN_SIZE);
	dfi_flow__node__free_unpacked(message, NULL);
	return 0;
}

int dfi__node_decode_address(
    const void *data, size_t size, char address[TRANSPORT_ADDRESS_SIZE])
{
	DfiFlow__Node *message = dfi_flow__node__unpack(NULL, size, data);
	bool valid = message &&
	    text_is_sane(message->address, TRANSPORT_ADDRESS_SIZE);

	if (valid)
		strcpy(address, message->address);
	if (message)
		dfi_flow__node__free_unpacked(message, NULL);
	return valid
	    ? 0
	    : dfi__fail(-EBADMSG, "registry: a node's entry is damaged");
}

static void dispenser_to_message(
    const struct shared_counter_name *name, DfiFlow__Dispenser *message)
{
	dfi_flow__dispenser__init(message);
	message->address = (char *)name->region.address;
	message->region_key = name->region.key;
	message->region_size = name->region.size;
	message->verbs_address = (char *)name->verbs.address;
	message->verbs_key = name->verbs.key;
	message->verbs_why = (char *)name->why;
}

/* message may be NULL. */
static bool dispenser_from_message(
    const DfiFlow__Dispenser *message, struct shared_counter_name *name)
{
	memset(name, 0, sizeof(*name));
	if (!message)
		return true;
	if (!text_is_sane(message->address, sizeof(name->region.address)) ||
	    !text_is_sane(
		message->verbs_address, sizeof(name->verbs.address)) ||
	    !text_is_sane(message->verbs_why, sizeof(name->why)))
		return false;
	strcpy(name->region.address, message->address);
	name->region.key = message->region_key;
	name->region.size = message->region_size;
	strcpy(name->verbs.address, message->verbs_address);
	name->verbs.key = message->verbs_key;
	name->verbs.size = message->region_size;
	strcpy(name->why, message->verbs_why);
	return true;
}

void *dfi__endpoint_encode(const struct endpoint *endpoint, size_t *size)
{
	DfiFlow__Endpoint message;
	DfiFlow__Dispenser sequencer;
	DfiFlow__Node node;

	dfi_flow__endpoint__init(&message);
	dfi__node_to_message(&endpoint->node, &node);
	message.node = &node;
	message.transport = endpoint->region.size ? "shm" : "";
	message.address = (char *)endpoint->region.address;
	message.region_key = endpoint->region.key;
	message.region_size = endpoint->region.size;
	message.verbs_address = (char *)endpoint->verbs.address;
	message.verbs_key = endpoint->verbs.key;
	message.verbs_way = (char *)endpoint->verbs_way;
	message.verbs_why = (char *)endpoint->verbs_why;
	message.cancelled = endpoint->cancelled;
	if (endpoint->sequencer.region.size) {
		dispenser_to_message(&endpoint->sequencer, &sequencer);
		message.sequencer = &sequencer;
	}
	message.done = endpoint->done;
	if (endpoint->has_port) {
		message.port.data = (uint8_t *)endpoint->port.bytes;
		message.port.len = sizeof(endpoint->port.bytes);
	}
	return dfi__message_pack(&message.base, size);
}

static bool endpoint_texts_are_sane(const DfiFlow__Endpoint *message)
{
	const struct endpoint *endpoint;

	return text_is_sane(
		   message->address, sizeof(endpoint->region.address)) &&
	    text_is_sane(
		message->verbs_address, sizeof(endpoint->verbs.address)) &&
	    text_is_sane(message->verbs_way, sizeof(endpoint->verbs_way)) &&
	    text_is_sane(message->verbs_why, sizeof(endpoint->verbs_why));
}

int dfi__endpoint_decode(
    const void *data, size_t size, struct endpoint *endpoint)
{
	DfiFlow__Endpoint *message = dfi_flow__endpoint__unpack(
	    NULL, size, data);
	struct shared_counter_name sequencer;
	struct node node;

	if (!message ||
	    !dispenser_from_message(message->sequencer, &sequencer) ||
	    !dfi__node_from_message(message->node, &node) ||
	    !endpoint_texts_are_sane(message) ||
	    strcmp(message->transport, message->region_size ? "shm" : "") ||
	    (message->port.len &&
		message->port.len != sizeof(endpoint->port.bytes))) {
		if (message)
			dfi_flow__endpoint__free_unpacked(message, NULL);
		return dfi__fail(
		    -EBADMSG, "registry: an endpoint's entry is damaged");
	}
	memset(endpoint, 0, sizeof(*endpoint));
	endpoint->node = node;
	strcpy(endpoint->region.address, message->address);
	endpoint->region.key = message->region_key;
	endpoint->region.size = message->region_size;
	strcpy(endpoint->verbs.address, message->verbs_address);
	endpoint->verbs.key = message->verbs_key;
	strcpy(endpoint->verbs_way, message->verbs_way);
	strcpy(endpoint->verbs_why, message->verbs_why);
	endpoint->verbs.size = message->region_size;
	endpoint->cancelled = message->cancelled;
	endpoint->sequencer = sequencer;
	endpoint->done = message->done;
	endpoint->has_port = message->port.len;
	if (endpoint->has_port)
		memcpy(endpoint->port.bytes, message->port.data,
		    sizeof(endpoint->port.bytes));
	dfi_flow__endpoint__free_unpacked(message, NULL);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries of nodes and endpoints in the registry. Another version of this
 * library, or any process that can write to the registry, may have written an
 * entry. So this file checks every size and text that it decodes.
 */
#include "descriptor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/text.h"
#include "dfi_flow.pb-c.h"

/* Whether a peer's text fits this many bytes and is plain. */
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

/* Room for one more address; NULL: there is none. */
static struct region_address *next_address(struct published_region *published)
{
	uint32_t i = published->n_addresses;

	if (i >= REGION_FEW_ADDRESSES &&
	    (!published->more || i == REGION_MAX_ADDRESSES))
		return NULL;
	published->n_addresses++;
	return i < REGION_FEW_ADDRESSES
	    ? &published->addresses[i]
	    : &published->more[i - REGION_FEW_ADDRESSES];
}

static void publish(const struct transport *transport,
    const struct region_name *name, struct published_region *published)
{
	struct region_address *address = next_address(published);

	if (address)
		*address = (struct region_address){
			.transport = transport_row(transport->ops->name),
			.name = *name,
		};
}

void dfi__region_publish(
    const struct region *region, struct published_region *published)
{
	const struct export *export = region->exports;

	published->size = region->name.size;
	published->has_unknown = false;
	published->n_addresses = 0;
	publish(region->transport, &region->name, published);
	for (; export; export = export->next)
		if (export->name.address[0])
			publish(export->transport, &export->name, published);
}

static const struct region_address *find_address(
    const struct published_region *published, bool is_memory)
{
	const struct region_address *address;
	uint32_t i;

	for (i = 0; i < published->n_addresses; i++) {
		address = region_address_at(published, i);
		if ((address->transport == dfi__transports) == is_memory)
			return address;
	}
	return NULL;
}

const struct region_name *dfi__region_memory(
    const struct published_region *published)
{
	const struct region_address *address = find_address(published, true);

	return address ? &address->name : NULL;
}

const struct region_address *dfi__region_network(
    const struct published_region *published)
{
	return find_address(published, false);
}

bool dfi__region_is_same(
    const struct published_region *a, const struct published_region *b)
{
	return a->addresses[0].name.key == b->addresses[0].name.key;
}

/* A region as a message, with the parts that it points to. */
struct region_message {
	DfiFlow__Region region;
	DfiFlow__Address addresses[REGION_MAX_ADDRESSES];
	DfiFlow__Address *pointers[REGION_MAX_ADDRESSES];
};

static DfiFlow__Region *region_to_message(
    const struct published_region *published, struct region_message *message)
{
	DfiFlow__Address *address = message->addresses;
	const struct region_address *from;
	uint32_t i;

	dfi_flow__region__init(&message->region);
	message->region.size = published->size;
	message->region.why = (char *)published->why;
	message->region.n_addresses = published->n_addresses;
	message->region.addresses = message->pointers;
	for (i = 0; i < published->n_addresses; i++, address++) {
		dfi_flow__address__init(address);
		from = region_address_at(published, i);
		address->transport = (char *)from->transport->name;
		address->name = (char *)from->name.address;
		address->key = from->name.key;
		message->pointers[i] = address;
	}
	return &message->region;
}

/*
 * Addresses of a transport that this library lacks are of no use here. One of
 * memory is enough; a network may have one for each device.
 */
static bool address_from_message(
    const DfiFlow__Address *message, struct published_region *published)
{
	const struct transport_row *row = transport_row(message->transport);
	const struct region_address *other;
	struct region_address *address;
	uint32_t i;

	if (!message->name[0] ||
	    !text_is_sane(message->name, TRANSPORT_ADDRESS_SIZE))
		return false;
	for (i = 0; i < published->n_addresses; i++) {
		other = region_address_at(published, i);
		if (other->transport == row &&
		    (row == dfi__transports ||
			strcmp(other->name.address, message->name) == 0))
			return false;
	}
	published->has_unknown |= !row;
	address = row ? next_address(published) : NULL;
	if (!address)
		return true;
	address->transport = row;
	strcpy(address->name.address, message->name);
	address->name.key = message->key;
	address->name.size = published->size;
	return true;
}

/* message may be NULL. more: for addresses that not most have, or NULL. */
static bool region_from_message(const DfiFlow__Region *message,
    struct region_address *more, struct published_region *published)
{
	bool valid = true;
	size_t i;

	memset(published, 0, sizeof(*published));
	published->more = more;
	if (!message)
		return true;
	if (!text_is_sane(message->why, sizeof(published->why)))
		return false;
	published->size = message->size;
	strcpy(published->why, message->why);
	for (i = 0; valid && i < message->n_addresses; i++)
		valid = address_from_message(message->addresses[i], published);
	return valid;
}

void *dfi__endpoint_encode(const struct endpoint *endpoint, size_t *size)
{
	struct region_message region, sequencer;
	DfiFlow__Endpoint message;
	DfiFlow__Node node;

	dfi_flow__endpoint__init(&message);
	dfi__node_to_message(&endpoint->node, &node);
	message.node = &node;
	if (endpoint->region.size || endpoint->region.why[0])
		message.region = region_to_message(&endpoint->region, &region);
	message.device = (char *)endpoint->device;
	message.cancelled = endpoint->cancelled;
	if (endpoint->sequencer.size)
		message.sequencer = region_to_message(
		    &endpoint->sequencer, &sequencer);
	message.done = endpoint->done;
	message.left = endpoint->left;
	message.given_back = endpoint->given_back;
	message.incarnation = endpoint->incarnation;
	message.store_epoch = endpoint->store_epoch;
	if (endpoint->has_datagram_address) {
		message.datagram_address.data =
		    (uint8_t *)endpoint->datagram_address.bytes;
		message.datagram_address.len = sizeof(
		    endpoint->datagram_address.bytes);
	}
	return dfi__message_pack(&message.base, size);
}

static bool endpoint_from_message(const DfiFlow__Endpoint *message,
    struct region_address *more, struct endpoint *endpoint)
{
	memset(endpoint, 0, sizeof(*endpoint));
	if (!dfi__node_from_message(message->node, &endpoint->node) ||
	    !region_from_message(message->region, more, &endpoint->region) ||
	    !region_from_message(
		message->sequencer, NULL, &endpoint->sequencer) ||
	    !text_is_sane(message->device, sizeof(endpoint->device)) ||
	    (message->datagram_address.len &&
		message->datagram_address.len !=
		    sizeof(endpoint->datagram_address.bytes)))
		return false;
	strcpy(endpoint->device, message->device);
	endpoint->cancelled = message->cancelled;
	endpoint->done = message->done;
	endpoint->left = message->left;
	endpoint->given_back = message->given_back;
	endpoint->incarnation = message->incarnation;
	endpoint->store_epoch = message->store_epoch;
	endpoint->has_datagram_address = message->datagram_address.len;
	if (endpoint->has_datagram_address)
		memcpy(endpoint->datagram_address.bytes,
		    message->datagram_address.data,
		    sizeof(endpoint->datagram_address.bytes));
	return true;
}

int dfi__endpoint_decode_all(const void *data, size_t size,
    struct region_address more[REGION_MORE_ADDRESSES],
    struct endpoint *endpoint)
{
	DfiFlow__Endpoint *message = dfi_flow__endpoint__unpack(
	    NULL, size, data);
	struct endpoint decoded;
	bool valid = message && endpoint_from_message(message, more, &decoded);

	if (message)
		dfi_flow__endpoint__free_unpacked(message, NULL);
	if (!valid)
		return dfi__fail(
		    -EBADMSG, "registry: an endpoint's entry is damaged");
	*endpoint = decoded;
	return 0;
}

int dfi__endpoint_decode(
    const void *data, size_t size, struct endpoint *endpoint)
{
	return dfi__endpoint_decode_all(data, size, NULL, endpoint);
}

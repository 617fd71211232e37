/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors and their protobuf form. What is decoded may come from another
 * version of this library, or from anybody who can write to the registry, so
 * every number is checked here.
 */
#include "descriptor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/schema.h"
#include "base/text.h"
#include "flows/aggregate/plan.h"
#include "dfi_flow.pb-c.h"

/*
 * Version of the layout in buffers/segment.h; a peer must have the same. It
 * depends on what segments have before their payload.
 */
#define RING_LAYOUT 2
/* The rings of a flow with a tree are with its combiners. */
#define TREE_LAYOUT 0x100

int dfi__check_name(const char *what, const char *name)
{
	static const char allowed[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "0123456789._:-";
	size_t length = name ? strnlen(name, DFI_MAX_FLOW_NAME + 1) : 0;

	if (!name)
		return dfi__fail(-EINVAL, "the %s name is NULL", what);
	if (!length || length > DFI_MAX_FLOW_NAME ||
	    strspn(name, allowed) != length)
		return dfi__fail(-EINVAL,
		    "%s name '%.*s': use 1 to %d characters of "
		    "[A-Za-z0-9._:-]",
		    what, DFI_MAX_FLOW_NAME, name, DFI_MAX_FLOW_NAME);
	return 0;
}

int dfi__flow_check_name(const char *name)
{
	return dfi__check_name("flow", name);
}

void dfi__flow_free(struct flow *flow)
{
	free(flow->schema);
	free(flow->splits);
	free(flow->aggregates);
	free(flow->tuples);
	flow->aggregates = NULL;
	flow->schema = NULL;
	flow->splits = NULL;
	flow->tuples = NULL;
}

int dfi__flow_copy(const struct flow *flow, struct flow *copy)
{
	*copy = *flow;
	copy->splits = NULL;
	copy->tuples = NULL;
	copy->schema = dfi__schema_copy(flow->schema);
	copy->aggregates = dfi__aggregates_copy(
	    flow->aggregates, flow->n_aggregates);
	if (copy->schema && copy->aggregates)
		return 0;
	dfi__flow_free(copy);
	return dfi__fail(-ENOMEM, "flow '%s': out of memory", flow->name);
}

struct ring_geometry dfi__flow_geometry(const struct flow *flow)
{
	struct ring_geometry geometry = dfi__flow_slots_geometry(flow);

	return flow_is_broadcast(flow) ? ring_geometry_apart(geometry)
				       : geometry;
}

uint32_t dfi__flow_segment_parts(const struct flow *flow)
{
	return (flow->verify == DFI_VERIFY_CHECKSUM ? SEGMENT_CHECKSUM : 0) |
	    (flow->ordered ? SEGMENT_GLOBAL : 0) |
	    (dfi__flow_has_groups(flow) ? SEGMENT_TARGETS : 0) |
	    (flow->window_tuples ? SEGMENT_WINDOWS : 0) |
	    (dfi__flow_combines(flow) ? SEGMENT_RECORDS : 0);
}

struct ring_geometry dfi__flow_slots_geometry(const struct flow *flow)
{
	return ring_geometry_with(flow->schema->tuple_size, flow->segment_size,
	    flow->segment_count, dfi__flow_segment_parts(flow));
}

/* A text that a peer has published, for this many bytes. */
static bool text_is_sane(const char *text, size_t size)
{
	return strlen(text) < size && dfi__text_is_plain(text);
}

static void *pack(const ProtobufCMessage *message, size_t *size)
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

bool dfi__node_is_process(const struct node *a, const struct node *b)
{
	return a->pid_space && a->pid == b->pid && a->start == b->start &&
	    a->pid_space == b->pid_space &&
	    dfi__host_distance(&a->at, &b->at) == HOST_SAME;
}

void *dfi__node_encode(const struct node *node,
    const uint8_t token[MEMBER_TOKEN_SIZE], const char *address, size_t *size)
{
	DfiFlow__Node message;

	dfi__node_to_message(node, &message);
	message.token.data = (uint8_t *)token;
	message.token.len = MEMBER_TOKEN_SIZE;
	message.address = (char *)address;
	return pack(&message.base, size);
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
	return pack(&message.base, size);
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

/*
 * An array of pointers to messages, and the messages behind it: it is freed as
 * one. They are many, and a thread's stack may be small. NULL: no memory.
 */
static void *new_messages(size_t n, size_t size)
{
	return calloc(n ? n : 1, sizeof(void *) + size);
}

static bool fields_to_message(
    const struct dfi_schema *schema, DfiFlow__Flow *message)
{
	DfiFlow__Field **pointers = new_messages(
	    schema->n_fields, sizeof(**pointers));
	const struct dfi_field *field = schema->fields;
	DfiFlow__Field *to;
	uint32_t i;

	if (!pointers)
		return false;
	message->n_fields = schema->n_fields;
	message->fields = pointers;
	to = (void *)(pointers + schema->n_fields);
	for (i = 0; i < schema->n_fields; i++, field++) {
		dfi_flow__field__init(to);
		to->name = (char *)field->name;
		to->type_name = field->type_name ? (char *)field->type_name
						 : "";
		to->type = field->type;
		to->offset = field->offset;
		to->size = field->size;
		pointers[i] = to++;
	}
	return true;
}

static bool aggregates_to_message(
    const struct flow *flow, DfiFlow__Flow *message)
{
	DfiFlow__Aggregate **pointers = new_messages(
	    flow->n_aggregates, sizeof(**pointers));
	const struct dfi_aggregate *aggregate = flow->aggregates;
	DfiFlow__Aggregate *to;
	uint32_t i;

	if (!pointers)
		return false;
	message->n_aggregates = flow->n_aggregates;
	message->aggregates = pointers;
	to = (void *)(pointers + flow->n_aggregates);
	for (i = 0; i < flow->n_aggregates; i++, aggregate++) {
		dfi_flow__aggregate__init(to);
		to->function = aggregate->function;
		to->flags = aggregate->flags;
		if (aggregate->field)
			to->field = (char *)aggregate->field;
		if (aggregate->name)
			to->name = (char *)aggregate->name;
		pointers[i] = to++;
	}
	return true;
}

static uint32_t ring_layout_of(const DfiFlow__Flow *message)
{
	uint32_t checksum = message->checksums ? SEGMENT_CHECKSUM : 0;
	uint32_t global = message->ordered ? SEGMENT_GLOBAL : 0;
	bool grouped = message->kind == DFI_REPLICATE && message->routing;

	return RING_LAYOUT + checksum + global +
	    (grouped ? SEGMENT_TARGETS : 0) +
	    (message->window_tuples ? SEGMENT_WINDOWS : 0) +
	    (message->combining > DFI_COMBINING_OFF ? SEGMENT_RECORDS : 0) +
	    (message->fan_in ? TREE_LAYOUT : 0);
}

void *dfi__flow_encode(const struct flow *flow, size_t *size)
{
	DfiFlow__Flow message;
	DfiFlow__Node creator;
	void *data = NULL;

	dfi_flow__flow__init(&message);
	dfi__node_to_message(&flow->creator, &creator);
	message.instance = flow->instance;
	message.kind = flow->kind;
	message.goal = flow->goal;
	message.routing = flow->routing;
	message.flags = flow->flags;
	message.n_sources = flow->n_sources;
	message.n_targets = flow->n_targets;
	message.tuple_size = flow->schema->tuple_size;
	message.n_keys = flow->n_keys;
	message.keys = (uint32_t *)flow->keys;
	message.radix_shift = flow->radix_shift;
	message.radix_bits = flow->radix_bits;
	message.n_splits = flow->splits ? flow->n_targets - 1 : 0;
	message.splits = flow->splits;
	message.segment_size = flow->segment_size;
	message.segment_count = flow->segment_count;
	message.checksums = flow->verify == DFI_VERIFY_CHECKSUM;
	message.ordered = flow->ordered;
	message.transport = flow->transport;
	message.replication = flow->replication;
	message.loss_policy = flow->loss_policy;
	message.multicast_address = (char *)flow->multicast_address;
	message.gap_timeout_us = flow->gap_timeout_us;
	message.max_groups = flow->max_groups;
	message.window_tuples = flow->window_tuples;
	message.when_full = flow->when_full;
	message.combining = flow->combining;
	message.fan_in = flow->fan_in;
	message.combining_bytes = flow->combining_bytes;
	message.layout = ring_layout_of(&message);
	message.creator = &creator;
	if (fields_to_message(flow->schema, &message) &&
	    aggregates_to_message(flow, &message))
		data = pack(&message.base, size);
	free(message.aggregates);
	free(message.fields);
	return data;
}

static struct dfi_aggregate *aggregates_from_message(
    const DfiFlow__Flow *message)
{
	struct dfi_aggregate *aggregates = calloc(
	    message->n_aggregates, sizeof(*aggregates));
	struct dfi_aggregate *copy = NULL;
	const DfiFlow__Aggregate *from;
	size_t i;

	for (i = 0; aggregates && i < message->n_aggregates; i++) {
		from = message->aggregates[i];
		aggregates[i] = (struct dfi_aggregate){
			.function = from->function,
			.flags = from->flags,
			.field = *from->field ? from->field : NULL,
			.name = *from->name ? from->name : NULL,
		};
	}
	if (aggregates)
		copy = dfi__aggregates_copy(
		    aggregates, (uint32_t)message->n_aggregates);
	free(aggregates);
	return copy;
}

static void fields_from_message(
    const DfiFlow__Flow *message, struct dfi_field *fields)
{
	const DfiFlow__Field *from;
	size_t i;

	for (i = 0; i < message->n_fields; i++) {
		from = message->fields[i];
		fields[i] = (struct dfi_field){
			.name = from->name,
			.type_name = *from->type_name ? from->type_name : NULL,
			.type = from->type,
			.offset = from->offset,
			.size = from->size,
		};
	}
}

/* 0, -EBADMSG or -ENOMEM. */
static int schema_from_message(
    const DfiFlow__Flow *message, struct dfi_schema **copy)
{
	struct dfi_field *fields;
	struct dfi_schema schema = {
		.n_fields = (uint32_t)message->n_fields,
		.tuple_size = message->tuple_size,
	};
	int ret = 0;

	if (message->n_fields > DFI_MAX_FIELDS)
		return -EBADMSG;
	fields = calloc(message->n_fields + 1, sizeof(*fields));
	if (!fields)
		return -ENOMEM;
	fields_from_message(message, fields);
	schema.fields = fields;
	if (dfi__schema_check(&schema) < 0) {
		ret = -EBADMSG;
	} else {
		*copy = dfi__schema_copy(&schema);
		ret = *copy ? 0 : -ENOMEM;
	}
	free(fields);
	return ret;
}

/* Radix and range load one integer, whatever else the key's type may be. */
static bool routing_is_sane(const struct flow *flow)
{
	if (flow->routing != DFI_ROUTE_RADIX &&
	    flow->routing != DFI_ROUTE_RANGE)
		return flow->routing <= DFI_ROUTE_DIRECT;
	return flow->n_keys == 1 &&
	    dfi__type_is_integer(flow->schema->fields[flow->keys[0]].type) &&
	    (flow->routing == DFI_ROUTE_RADIX || flow->splits ||
		flow->n_targets == 1);
}

static bool groups_are_sane(const struct flow *flow)
{
	return (flow->routing == DFI_ROUTE_FUNCTION ||
		   flow->routing == DFI_ROUTE_DIRECT) &&
	    flow->n_targets <= DFI_MAX_SET_TARGETS;
}

static bool replication_is_sane(const struct flow *flow)
{
	if (flow->loss_policy > DFI_LOSS_NOTIFY || !flow->gap_timeout_us ||
	    flow->gap_timeout_us > DFI_MAX_GAP_TIMEOUT_US)
		return false;
	if (flow_is_cast(flow))
		return flow->multicast_address[0] != '\0';
	return flow->replication == DFI_REPLICATION_NAIVE ||
	    flow_is_broadcast(flow);
}

/* The plan that is made of it checks the rest. */
static bool combiner_is_sane(const struct flow *flow)
{
	return flow->n_aggregates && flow->max_groups &&
	    flow->max_groups <= DFI_MAX_GROUPS &&
	    flow->when_full <= DFI_FULL_EMIT && !flow->routing &&
	    !flow->splits && !flow->replication && !flow->ordered &&
	    !flow->loss_policy && !flow->gap_timeout_us &&
	    (flow->n_keys || flow->n_targets == 1) && flow->combining &&
	    flow->combining <= DFI_COMBINING_ALWAYS && flow->fan_in != 1 &&
	    flow->fan_in <= DFI_MAX_ENDPOINTS &&
	    flow->combining_bytes <= DFI_MAX_COMBINING_BYTES &&
	    (flow->goal == DFI_BANDWIDTH || !dfi__flow_combines(flow));
}

static bool kind_is_sane(const struct flow *flow)
{
	if (flow->kind == DFI_COMBINE)
		return combiner_is_sane(flow);
	if (flow->n_aggregates || flow->max_groups || flow->window_tuples ||
	    flow->when_full || flow->combining || flow->fan_in ||
	    flow->combining_bytes)
		return false;
	if (flow->multicast_address[0] && !flow_is_cast(flow))
		return false;
	if (flow->kind == DFI_REPLICATE)
		return replication_is_sane(flow) &&
		    (!flow->routing || groups_are_sane(flow)) &&
		    !flow->n_keys && !flow->splits;
	return flow->kind == DFI_SHUFFLE && !flow->replication &&
	    !flow->ordered && !flow->loss_policy && !flow->gap_timeout_us &&
	    flow->n_keys >= 1 && routing_is_sane(flow);
}

/* What source and target rely on; the flow's creator checks the rest. */
static bool flow_is_sane(const struct flow *flow)
{
	uint32_t i;

	for (i = 0; i < flow->n_keys; i++)
		if (flow->keys[i] >= flow->schema->n_fields)
			return false;
	return kind_is_sane(flow) && flow->goal <= DFI_LATENCY &&
	    flow->n_sources >= 1 && flow->n_sources <= DFI_MAX_ENDPOINTS &&
	    flow->n_targets >= 1 && flow->n_targets <= DFI_MAX_ENDPOINTS &&
	    flow->segment_size >= flow->schema->tuple_size &&
	    flow->segment_size <= DFI_MAX_SEGMENT_SIZE &&
	    flow->segment_count >= 1 &&
	    flow->segment_count <= DFI_MAX_SEGMENT_COUNT &&
	    flow->radix_shift < 64 && flow->radix_bits <= 32 &&
	    flow->transport <= DFI_TRANSPORT_VERBS;
}

static int flow_from_message(const DfiFlow__Flow *message, struct flow *flow)
{
	int ret;

	flow->instance = message->instance;
	flow->kind = message->kind;
	flow->goal = message->goal;
	flow->routing = message->routing;
	flow->flags = message->flags;
	flow->n_sources = message->n_sources;
	flow->n_targets = message->n_targets;
	flow->radix_shift = message->radix_shift;
	flow->radix_bits = message->radix_bits;
	flow->segment_size = message->segment_size;
	flow->segment_count = message->segment_count;
	flow->transport = message->transport;
	flow->replication = message->replication;
	flow->loss_policy = message->loss_policy;
	flow->gap_timeout_us = message->gap_timeout_us;
	if (!text_is_sane(
		message->multicast_address, sizeof(flow->multicast_address)))
		return -EBADMSG;
	strcpy(flow->multicast_address, message->multicast_address);
	flow->verify = message->checksums ? DFI_VERIFY_CHECKSUM
					  : DFI_VERIFY_NONE;
	flow->ordered = message->ordered;
	if (!dfi__node_from_message(message->creator, &flow->creator))
		return -EBADMSG;
	if (message->n_keys > DFI_MAX_KEYS)
		return -EBADMSG;
	flow->n_keys = (uint32_t)message->n_keys;
	if (message->n_keys)
		memcpy(flow->keys, message->keys,
		    message->n_keys * sizeof(flow->keys[0]));
	ret = schema_from_message(message, &flow->schema);
	if (ret < 0)
		return ret;
	if (message->n_aggregates > DFI_MAX_AGGREGATES)
		return -EBADMSG;
	flow->max_groups = message->max_groups;
	flow->window_tuples = message->window_tuples;
	flow->when_full = message->when_full;
	flow->combining = message->combining;
	flow->fan_in = message->fan_in;
	flow->combining_bytes = message->combining_bytes;
	flow->n_aggregates = (uint32_t)message->n_aggregates;
	if (message->n_aggregates) {
		flow->aggregates = aggregates_from_message(message);
		if (!flow->aggregates)
			return -ENOMEM;
	}
	if (message->n_splits) {
		if (message->n_splits != (size_t)flow->n_targets - 1)
			return -EBADMSG;
		flow->splits = malloc(
		    message->n_splits * sizeof(flow->splits[0]));
		if (!flow->splits)
			return -ENOMEM;
		memcpy(flow->splits, message->splits,
		    message->n_splits * sizeof(flow->splits[0]));
	}
	return flow_is_sane(flow) ? 0 : -EBADMSG;
}

int dfi__flow_decode(
    const char *name, const void *data, size_t size, struct flow *flow)
{
	DfiFlow__Flow *message = dfi_flow__flow__unpack(NULL, size, data);
	int ret;

	memset(flow, 0, sizeof(*flow));
	if (!message)
		return dfi__fail(-EBADMSG,
		    "registry: the entry of flow '%s' is damaged", name);
	snprintf(flow->name, sizeof(flow->name), "%s", name);
	if (message->layout != ring_layout_of(message))
		ret = dfi__fail(-EPROTO,
		    "flow '%s' was created by a library with ring layout %u, "
		    "this one has %u: use the same version",
		    name, message->layout, ring_layout_of(message));
	else {
		ret = flow_from_message(message, flow);
		if (ret < 0)
			dfi__fail(ret,
			    ret == -ENOMEM
				? "flow '%s': out of memory"
				: "registry: the entry of flow '%s' is damaged",
			    name);
	}
	dfi_flow__flow__free_unpacked(message, NULL);
	if (ret < 0)
		dfi__flow_free(flow);
	return ret;
}

void dfi__node_key(char key[KEY_SIZE], uint64_t id)
{
	snprintf(key, KEY_SIZE, "nodes/%016" PRIx64, id);
}

bool dfi__node_is_at(const struct node *node, const char *key)
{
	char own_key[KEY_SIZE];

	dfi__node_key(own_key, node->id);
	return !strcmp(own_key, key);
}

void dfi__flow_key(char key[KEY_SIZE], const char *name)
{
	snprintf(key, KEY_SIZE, "flows/%s", name);
}

void dfi__endpoint_prefix(
    char key[KEY_SIZE], const struct flow *flow, const char *role)
{
	char part[32] = "";

	if (flow->part.combiner)
		snprintf(part, sizeof(part), "combiners/%u/",
		    flow->part.combiner - 1);
	snprintf(key, KEY_SIZE, "flows/%s/%016" PRIx64 "/%s%ss/", flow->name,
	    flow->instance, part, role);
}

void dfi__endpoint_key(char key[KEY_SIZE], const struct flow *flow,
    const char *role, uint32_t index)
{
	size_t length;

	dfi__endpoint_prefix(key, flow, role);
	length = strlen(key);
	snprintf(key + length, KEY_SIZE - length, "%u", index);
}

bool dfi__endpoint_index(const char *key, uint32_t *index)
{
	const char *slash = strrchr(key, '/');
	unsigned long number;
	char *end;

	if (!slash || slash[1] < '0' || slash[1] > '9')
		return false;
	number = strtoul(slash + 1, &end, 10);
	if (*end || number > UINT32_MAX)
		return false;
	*index = (uint32_t)number;
	return true;
}

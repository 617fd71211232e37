/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of flows, endpoints and nodes: they survive a round trip, and nothing
 * read from a registry, cut off or changed anywhere, crashes the library: it is
 * refused, or harmless.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "base/schema.h"
#include "dfi_flow.pb-c.h"
#include "flows/context/network.h"
#include "flows/descriptor/descriptor.h"
#include "flows/declare/route.h"
#include "transport/transports.h"

static const struct dfi_field fields[] = {
	{ "key", NULL, DFI_INT16, 1, 2, 0 },
	{ "place", "point", DFI_USER, 3, 5, 0 },
	{ "tail", NULL, DFI_BYTES, 8, 1, 0 },
};
static struct dfi_schema schema = { fields, 3, 9 };
static int64_t splits[] = { INT64_MIN, -1, INT64_MAX };

static struct flow make_flow(void)
{
	struct flow flow = {
		.name = "orders",
		.instance = UINT64_MAX - 5,
		.kind = DFI_SHUFFLE,
		.goal = DFI_LATENCY,
		.routing = DFI_ROUTE_RANGE,
		.flags = DFI_FLOW_PERSISTENT,
		.n_sources = DFI_MAX_ENDPOINTS,
		.n_targets = 4,
		.schema = &schema,
		.n_keys = 1,
		.keys = { 0 },
		.radix_shift = 3,
		.radix_bits = 32,
		.splits = splits,
		.segment_size = 9,
		.segment_count = DFI_MAX_SEGMENT_COUNT,
		.transport = DFI_TRANSPORT_VERBS,
		.verify = DFI_VERIFY_CHECKSUM,
		.creator = { UINT64_MAX, UINT32_MAX, "node", "host" },
	};

	return flow;
}

Test(descriptor, flow_survives_the_trip)
{
	struct flow flow = make_flow(), back;
	size_t size;
	void *data = dfi__flow_encode(&flow, &size);

	cr_assert_eq(dfi__flow_decode("orders", data, size, &back), 0);
	cr_assert_eq(dfi__schema_match(&schema, back.schema, "orders"), 0, "%s",
	    dfi_errmsg());
	cr_assert_eq(memcmp(back.splits, splits, sizeof(splits)), 0);
	cr_assert_eq(memcmp(back.keys, flow.keys, sizeof(flow.keys)), 0);
	cr_assert_str_eq(back.name, flow.name);
	cr_assert_eq(back.instance, flow.instance);
	cr_assert_eq(back.kind, flow.kind);
	cr_assert_eq(back.goal, flow.goal);
	cr_assert_eq(back.routing, flow.routing);
	cr_assert_eq(back.flags, flow.flags);
	cr_assert_eq(back.n_sources, flow.n_sources);
	cr_assert_eq(back.n_targets, flow.n_targets);
	cr_assert_eq(back.n_keys, flow.n_keys);
	cr_assert_eq(back.radix_shift, flow.radix_shift);
	cr_assert_eq(back.radix_bits, flow.radix_bits);
	cr_assert_eq(back.segment_size, flow.segment_size);
	cr_assert_eq(back.segment_count, flow.segment_count);
	cr_assert_eq(back.transport, flow.transport);
	cr_assert_eq(back.verify, flow.verify);
	cr_assert_eq(back.creator.id, flow.creator.id);
	cr_assert_eq(back.creator.pid, flow.creator.pid);
	cr_assert_str_eq(back.creator.name, "node");
	cr_assert_str_eq(back.creator.host, "host");
	dfi__flow_free(&back);
	free(data);
}

static int trip(const struct flow *flow, struct flow *back)
{
	size_t size;
	void *data = dfi__flow_encode(flow, &size);
	int ret = dfi__flow_decode("orders", data, size, back);

	free(data);
	return ret;
}

Test(descriptor, replicate_flow_has_no_routing_but_for_groups)
{
	struct flow flow = make_flow(), back, bad;

	flow.kind = DFI_REPLICATE;
	flow.replication = DFI_REPLICATION_NAIVE;
	flow.loss_policy = DFI_LOSS_NOTIFY;
	flow.gap_timeout_us = 123;
	flow.routing = flow.n_keys = flow.radix_bits = flow.radix_shift = 0;
	flow.splits = NULL;
	cr_assert_eq(trip(&flow, &back), 0, "%s", dfi_errmsg());
	cr_assert_eq(back.kind, DFI_REPLICATE);
	cr_assert_eq(back.replication, DFI_REPLICATION_NAIVE);
	cr_assert(!back.ordered);
	cr_assert_eq(back.loss_policy, DFI_LOSS_NOTIFY);
	cr_assert_eq(back.gap_timeout_us, 123);
	dfi__flow_free(&back);
	flow.ordered = true;
	cr_assert_eq(trip(&flow, &back), 0, "%s", dfi_errmsg());
	cr_assert(back.ordered);
	dfi__flow_free(&back);
	flow.ordered = false;
	bad = make_flow();
	bad.ordered = true;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad = flow;
	bad.loss_policy = DFI_LOSS_NOTIFY + 1;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad = flow;
	bad.gap_timeout_us = 0;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad.gap_timeout_us = DFI_MAX_GAP_TIMEOUT_US + 1;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad = flow;
	bad.replication = DFI_REPLICATION_MULTICAST;
	cr_assert_eq(bad.transport, DFI_TRANSPORT_VERBS);
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad.transport = DFI_TRANSPORT_SHM;
	cr_assert_eq(trip(&bad, &back), 0);
	dfi__flow_free(&back);
	bad.transport = DFI_TRANSPORT_VERBS;
	strcpy(bad.multicast_address, "239.1.2.3");
	bad.gap_timeout_us = 7;
	cr_assert_eq(trip(&bad, &back), 0);
	cr_assert_str_eq(back.multicast_address, "239.1.2.3");
	cr_assert_eq(back.gap_timeout_us, 7);
	dfi__flow_free(&back);
	bad.transport = DFI_TRANSPORT_SHM;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad.transport = DFI_TRANSPORT_VERBS;
	bad.ordered = true;
	cr_assert_eq(trip(&bad, &back), 0);
	cr_assert(back.ordered);
	cr_assert_eq(back.loss_policy, DFI_LOSS_NOTIFY);
	dfi__flow_free(&back);
	bad.gap_timeout_us = DFI_MAX_GAP_TIMEOUT_US + 1;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad = flow;
	bad.replication = DFI_REPLICATION_DEFAULT;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad.replication = DFI_REPLICATION_MULTICAST + 1;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad = flow;
	bad.routing = DFI_ROUTE_ROUND_ROBIN;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad.routing = DFI_ROUTE_DIRECT;
	bad.n_targets = DFI_MAX_SET_TARGETS + 1;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad.n_targets = DFI_MAX_SET_TARGETS;
	cr_assert_eq(trip(&bad, &back), 0, "%s", dfi_errmsg());
	cr_assert_eq(back.routing, DFI_ROUTE_DIRECT);
	cr_assert(dfi__flow_segment_parts(&back) & SEGMENT_TARGETS);
	dfi__flow_free(&back);
	bad = flow;
	bad.n_keys = 1;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad = make_flow();
	bad.replication = DFI_REPLICATION_NAIVE;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad = make_flow();
	bad.loss_policy = DFI_LOSS_NOTIFY;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad = make_flow();
	bad.gap_timeout_us = 1;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
}

Test(descriptor, windows_are_for_combiners)
{
	struct dfi_aggregate count = { .function = DFI_COUNT };
	struct flow flow = make_flow(), back, bad = flow;

	bad.window_tuples = 1;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	bad.window_tuples = 0;
	bad.when_full = DFI_FULL_EMIT;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
	flow.kind = DFI_COMBINE;
	flow.routing = flow.radix_bits = flow.radix_shift = 0;
	flow.splits = NULL;
	flow.aggregates = &count;
	flow.n_aggregates = 1;
	flow.max_groups = 1;
	flow.goal = DFI_BANDWIDTH;
	flow.combining = DFI_COMBINING_ADAPTIVE;
	cr_assert_eq(trip(&flow, &back), 0, "%s", dfi_errmsg());
	cr_assert_eq(back.combining, DFI_COMBINING_ADAPTIVE);
	cr_assert_eq(
	    dfi__flow_segment_parts(&back) & SEGMENT_RECORDS, SEGMENT_RECORDS);
	cr_assert_eq(back.window_tuples, 0);
	cr_assert_eq(back.when_full, DFI_FULL_FAIL);
	cr_assert(!(dfi__flow_segment_parts(&back) & SEGMENT_MARK));
	dfi__flow_free(&back);
	flow.window_tuples = DFI_WINDOW_MARKED;
	flow.when_full = DFI_FULL_EMIT;
	cr_assert_eq(trip(&flow, &back), 0, "%s", dfi_errmsg());
	cr_assert_eq(back.window_tuples, DFI_WINDOW_MARKED);
	cr_assert_eq(back.when_full, DFI_FULL_EMIT);
	cr_assert(dfi__flow_segment_parts(&back) & SEGMENT_MARK);
	dfi__flow_free(&back);
	flow.when_full = DFI_FULL_EMIT + 1;
	cr_assert_eq(trip(&flow, &back), -EBADMSG);
	flow.when_full = DFI_FULL_EMIT;
	flow.combining_bytes = DFI_MAX_COMBINING_BYTES;
	flow.fan_in = DFI_MAX_ENDPOINTS;
	cr_assert_eq(trip(&flow, &back), 0, "%s", dfi_errmsg());
	cr_assert_eq(back.fan_in, DFI_MAX_ENDPOINTS);
	cr_assert_eq(back.combining_bytes, DFI_MAX_COMBINING_BYTES);
	dfi__flow_free(&back);
	flow.fan_in = 1;
	cr_assert_eq(trip(&flow, &back), -EBADMSG);
	flow.fan_in = DFI_MAX_ENDPOINTS + 1;
	cr_assert_eq(trip(&flow, &back), -EBADMSG);
	bad = make_flow();
	bad.fan_in = 2;
	cr_assert_eq(trip(&bad, &back), -EBADMSG);
}

Test(descriptor, endpoint_and_node_survive_the_trip)
{
	struct endpoint endpoint = {
		.node = { 7, 8, "n", "h", { 9, 10, 11 }, 12, 13 },
		.region = { 4096, 2,
		    { { &dfi__transports[0],
			  { "@dfi-1-abc", UINT64_MAX, 4096 } },
			{ &dfi__transports[1],
			    { "10.0.0.1:18515", 10, 4096 } } },
		    "it has none" },
		.device = "a device",
		.sequencer = { 12, 1,
		    { { &dfi__transports[1], { "10.0.0.1:18515", 13, 12 } } },
		    "why not" },
		.done = true,
		.incarnation = 14,
		.store_epoch = 15,
		.has_datagram_address = true,
		.datagram_address = { .bytes = { 1, 2, [23] = 3 } },
	};
	static const uint8_t token[MEMBER_TOKEN_SIZE] = "a token of 16 b";
	uint8_t token_back[MEMBER_TOKEN_SIZE];
	struct endpoint back;
	struct node node;
	size_t size;
	void *data;

	data = dfi__endpoint_encode(&endpoint, &size);
	cr_assert_eq(dfi__endpoint_decode(data, size, &back), 0);
	cr_assert_eq(memcmp(&back, &endpoint, sizeof(back)), 0);
	free(data);
	data = dfi__node_encode(&endpoint.node, token, "@x", &size);
	cr_assert_eq(dfi__node_decode(data, size, &node, token_back), 0);
	cr_assert_eq(memcmp(token_back, token, sizeof(token)), 0);
	cr_assert_eq(memcmp(&node, &endpoint.node, sizeof(node)), 0);
	free(data);
}

/*
 * Values that a later library of this version may have, and this one doesn't.
 */
Test(descriptor, address_of_an_unknown_transport_is_left_out)
{
	const struct transport_row unknown = { .name = "no_such" };
	struct endpoint endpoint = {
		.node = { 7, 8, "n", "h", { 9, 10, 11 }, 12, 13 },
		.region = { 4096, 2,
		    { { &unknown, { "far", 10, 4096 } },
			{ &dfi__transports[0], { "@near", 11, 4096 } } } },
	};
	struct endpoint back;
	size_t size;
	void *data = dfi__endpoint_encode(&endpoint, &size);

	cr_assert_eq(dfi__endpoint_decode(data, size, &back), 0);
	cr_assert_eq(back.region.n_addresses, 1);
	cr_assert_str_eq(dfi__region_memory(&back.region)->address, "@near");
	cr_assert_eq(dfi__region_memory(&back.region)->size, 4096);
	cr_assert_null(dfi__region_network(&back.region));
	free(data);
}

/* Decode an endpoint whose region has this size and these addresses. */
static int decode_region(struct published_region region)
{
	const struct endpoint endpoint = {
		.node = { 7, 8, "n", "h", { 9, 10, 11 }, 12, 13 },
		.region = region,
	};
	struct region_address more[REGION_MORE_ADDRESSES];
	struct endpoint back;
	size_t size;
	void *data = dfi__endpoint_encode(&endpoint, &size);
	int ret = dfi__endpoint_decode_all(data, size, more, &back);

	if (!ret)
		cr_assert_eq(back.region.n_addresses, region.n_addresses);
	/* Without room, the first ones. */
	if (!ret) {
		cr_assert_eq(dfi__endpoint_decode(data, size, &back), 0);
		cr_assert_leq(back.region.n_addresses, REGION_FEW_ADDRESSES);
	}
	free(data);
	return ret;
}

Test(descriptor, addresses_of_a_region_make_sense)
{
	const struct transport_row *memory = &dfi__transports[0];
	const struct transport_row *network = &dfi__transports[1];
	struct region_address more = { network, { "10.0.0.2:1", 13, 4096 } };
	struct published_region region = {
		.size = 4096,
		.n_addresses = 2,
		.addresses = { { memory, { "@near", 11, 4096 } },
		    { network, { "10.0.0.1:1", 12, 4096 } } },
		.more = &more,
	};

	cr_assert_eq(decode_region(region), 0);
	/* Of a network, there may be one for each device. */
	region.n_addresses = 3;
	cr_assert_eq(decode_region(region), 0);
	more = region.addresses[1];
	cr_assert_eq(decode_region(region), -EBADMSG);
	region.n_addresses = 2;
	region.addresses[1].name.address[0] = '\0';
	cr_assert_eq(decode_region(region), -EBADMSG);
	region.addresses[1] = region.addresses[0];
	cr_assert_eq(decode_region(region), -EBADMSG);
}

static void refuse_endpoint(const struct endpoint *endpoint)
{
	struct endpoint back;
	size_t size;
	void *data = dfi__endpoint_encode(endpoint, &size);

	cr_assert_eq(dfi__endpoint_decode(data, size, &back), -EBADMSG);
	free(data);
}

#define HOSTILE "a\033[2J"

Test(descriptor, text_with_control_characters_is_refused)
{
	static const uint8_t token[MEMBER_TOKEN_SIZE] = "a token of 16 b";
	const struct endpoint good = { .node = { 7, 8, "n", "h", { 9, 10, 11 },
					   12, 13 },
		.region = { .size = 1,
		    .n_addresses = 1,
		    .addresses[0].transport = &dfi__transports[0] },
		.sequencer = { .size = 1,
		    .n_addresses = 1,
		    .addresses[0].transport = &dfi__transports[1] } };
	char address[TRANSPORT_ADDRESS_SIZE];
	struct flow flow = make_flow(), back;
	struct endpoint bad;
	struct node node;
	size_t size;
	void *data;

#define REFUSE(text)                   \
	do {                           \
		bad = good;            \
		strcpy(text, HOSTILE); \
		refuse_endpoint(&bad); \
	} while (0)
	REFUSE(bad.node.name);
	REFUSE(bad.node.host);
	REFUSE(bad.region.addresses[0].name.address);
	REFUSE(bad.region.why);
	REFUSE(bad.device);
	REFUSE(bad.sequencer.addresses[0].name.address);
	REFUSE(bad.sequencer.why);
	strcpy(flow.creator.host, HOSTILE);
	cr_assert_eq(trip(&flow, &back), -EBADMSG);
	flow = make_flow();
	strcpy(flow.multicast_address, HOSTILE);
	cr_assert_eq(trip(&flow, &back), -EBADMSG);
	node = good.node;
	data = dfi__node_encode(&node, token, HOSTILE, &size);
	cr_assert_eq(dfi__node_decode(data, size, &node, NULL), 0);
	cr_assert_eq(dfi__node_decode_address(data, size, address), -EBADMSG);
	free(data);
	strcpy(node.name, HOSTILE);
	data = dfi__node_encode(&node, token, "@x", &size);
	cr_assert_eq(dfi__node_decode(data, size, &node, NULL), -EBADMSG);
	free(data);
}

/* Use accepted entries as endpoints would, under ASan. */
static void use(const struct flow *flow)
{
	struct ring_geometry g = dfi__flow_geometry(flow);
	struct router router;
	char *tuple;

	cr_assert_geq(g.segment_tuples, 1);
	cr_assert_gt(g.ring_size, g.segment_bytes);
	cr_assert_leq(flow->n_keys, DFI_MAX_KEYS);
	if (flow->routing == DFI_ROUTE_FUNCTION ||
	    flow->routing == DFI_ROUTE_DIRECT)
		return;
	tuple = malloc(flow->schema->tuple_size);
	memset(tuple, 0x85, flow->schema->tuple_size);
	dfi__router_init(&router, flow, 0);
	cr_assert_lt(dfi__route(&router, tuple), flow->n_targets);
	free(tuple);
}

/* A copy on the heap, so that a read of one byte too many shows. */
static void try_flow(const void *data, size_t size)
{
	void *copy = malloc(size ? size : 1);
	struct flow flow;
	int ret;

	memcpy(copy, data, size);
	ret = dfi__flow_decode("orders", copy, size, &flow);
	free(copy);
	if (!ret) {
		use(&flow);
		dfi__flow_free(&flow);
		return;
	}
	cr_assert(ret == -EBADMSG || ret == -EPROTO, "%d", ret);
	cr_assert(strstr(dfi_errmsg(), "'orders'") != NULL);
	cr_assert_null(flow.schema);
	cr_assert_null(flow.splits);
}

static void mutate(
    uint8_t *data, size_t size, void (*try)(const void *data, size_t size))
{
	size_t at;
	int value;

	for (at = 0; at < size; at++)
		try(data, at);
	for (at = 0; at < size; at++)
		for (value = 1; value < 256; value++) {
			data[at] ^= (uint8_t)value;
			try(data, size);
			data[at] ^= (uint8_t)value;
		}
}

Test(descriptor, damaged_flow_is_refused_or_harmless)
{
	static const uint32_t routings[] = { DFI_ROUTE_HASH, DFI_ROUTE_RADIX,
		DFI_ROUTE_RANGE };
	struct flow flow = make_flow();
	size_t i, size;
	void *data;

	for (i = 0; i < 3; i++) {
		flow.routing = routings[i];
		data = dfi__flow_encode(&flow, &size);
		mutate(data, size, try_flow);
		free(data);
	}
}

static void try_endpoint(const void *data, size_t size)
{
	void *copy = malloc(size ? size : 1);
	struct endpoint endpoint;
	uint32_t i;
	int ret;

	memcpy(copy, data, size);
	ret = dfi__endpoint_decode(copy, size, &endpoint);
	free(copy);
	cr_assert(ret == 0 || ret == -EBADMSG, "%d", ret);
	if (!ret) {
		cr_assert_leq(
		    endpoint.region.n_addresses, REGION_MAX_ADDRESSES);
		for (i = 0; i < endpoint.region.n_addresses; i++)
			cr_assert_lt(
			    strnlen(endpoint.region.addresses[i].name.address,
				TRANSPORT_ADDRESS_SIZE),
			    TRANSPORT_ADDRESS_SIZE);
		cr_assert_lt(strnlen(endpoint.node.name, NODE_NAME_SIZE),
		    NODE_NAME_SIZE);
	}
}

Test(descriptor, damaged_endpoint_is_refused_or_harmless)
{
	struct endpoint endpoint = {
		.node = { 7, 8, "n", "h" },
		.region = { .size = 4096,
		    .n_addresses = 1,
		    .addresses[0] = { &dfi__transports[0],
			{ "@dfi-1-abc", UINT64_MAX, 4096 } } },
	};
	size_t size;
	void *data = dfi__endpoint_encode(&endpoint, &size);

	mutate(data, size, try_endpoint);
	free(data);
}

/* A flow's message, to change one member of and decode. */
struct changed {
	DfiFlow__Flow *message;
	uint8_t data[4096];
};

static struct changed open_flow(void)
{
	struct flow flow = make_flow();
	struct changed changed;
	size_t size;
	void *data = dfi__flow_encode(&flow, &size);

	changed.message = dfi_flow__flow__unpack(NULL, size, data);
	free(data);
	return changed;
}

static int decode(struct changed *changed)
{
	struct flow flow;
	size_t size = dfi_flow__flow__pack(changed->message, changed->data);
	int ret = dfi__flow_decode("orders", changed->data, size, &flow);

	if (!ret)
		dfi__flow_free(&flow);
	return ret;
}

#define refuse(member, value, err)                                    \
	do {                                                          \
		struct changed changed = open_flow();                 \
		cr_assert_eq(decode(&changed), 0);                    \
		changed.message->member = (value);                    \
		cr_assert_eq(decode(&changed), (err), #member);       \
		dfi_flow__flow__free_unpacked(changed.message, NULL); \
	} while (0)

Test(descriptor, other_ring_layout_is_another_protocol)
{
	refuse(layout, 0, -EPROTO);
	refuse(layout, UINT32_MAX, -EPROTO);
	cr_assert(strstr(dfi_errmsg(), "layout 4294967295") != NULL);
}

/* Both ends lay out slots by the flow's entry alone. */
Test(descriptor, entry_says_where_footers_stand)
{
	static const enum footer_side sides[] = { FOOTER_BEHIND,
		FOOTER_IN_FRONT };
	struct flow flow = make_flow(), decoded;
	size_t size, i;
	void *data;

	for (i = 0; i < 2; i++) {
		flow.footer_side = sides[i];
		data = dfi__flow_encode(&flow, &size);
		cr_assert_eq(dfi__flow_decode("orders", data, size, &decoded),
		    0, "%s", dfi_errmsg());
		cr_assert_eq(decoded.footer_side, sides[i]);
		cr_assert_eq(dfi__flow_geometry(&decoded).footer_offset < 0,
		    sides[i] == FOOTER_IN_FRONT);
		dfi__flow_free(&decoded);
		free(data);
	}
}

/* A flow's creator may have other transports than its endpoints. */
Test(descriptor, transport_must_serve_the_side_of_footers)
{
	static const struct transport_ops ops = { .name = "one-sided",
		.footer_sides = FOOTER_SIDE(FOOTER_BEHIND) };
	struct transport transport = { .ops = &ops };
	struct flow flow = make_flow();

	cr_assert_eq(dfi__network_serves(&transport, &flow), 0);
	flow.footer_side = FOOTER_IN_FRONT;
	cr_assert_eq(dfi__network_serves(&transport, &flow), -EPROTO);
	cr_assert_not_null(
	    strstr(dfi_errmsg(), "transport one-sided"), "%s", dfi_errmsg());
	cr_assert_not_null(
	    strstr(dfi_errmsg(), "in front"), "%s", dfi_errmsg());
	cr_assert_eq(dfi__transports[0].ops->footer_sides, FOOTER_SIDES_BOTH);
}

Test(descriptor, numbers_out_of_range_are_refused)
{
	refuse(kind, 0, -EBADMSG);
	refuse(kind, 99, -EBADMSG);
	refuse(goal, 2, -EBADMSG);
	refuse(routing, DFI_ROUTE_DIRECT + 1, -EBADMSG);
	refuse(n_sources, 0, -EBADMSG);
	refuse(n_sources, DFI_MAX_ENDPOINTS + 1, -EBADMSG);
	refuse(n_targets, 0, -EBADMSG);
	refuse(n_targets, DFI_MAX_ENDPOINTS + 1, -EBADMSG);
	refuse(n_targets, 3, -EBADMSG); /* and three splits */
	refuse(n_splits, 0, -EBADMSG);
	refuse(n_keys, 0, -EBADMSG);
	refuse(keys[0], 3, -EBADMSG);
	refuse(keys[0], 2, -EBADMSG); /* bytes have no order */
	refuse(tuple_size, 0, -EBADMSG);
	refuse(tuple_size, 8, -EBADMSG);
	refuse(segment_size, 8, -EBADMSG);
	refuse(segment_size, DFI_MAX_SEGMENT_SIZE + 1, -EBADMSG);
	refuse(segment_count, 0, -EBADMSG);
	refuse(segment_count, DFI_MAX_SEGMENT_COUNT + 1, -EBADMSG);
	refuse(transport, DFI_TRANSPORT_OFI + 1, -EBADMSG);
	/* A library that knows no checksums has another layout. */
	refuse(checksums, false, -EPROTO);
	refuse(radix_shift, 64, -EBADMSG);
	refuse(radix_bits, 33, -EBADMSG);
	refuse(fields[1]->type, 0, -EBADMSG);
	refuse(fields[1]->offset, 9, -EBADMSG);
}

Test(descriptor, endpoint_keys_end_with_their_number)
{
	struct flow flow = make_flow();
	char key[KEY_SIZE], prefix[KEY_SIZE];
	uint32_t index = 5;

	dfi__endpoint_key(key, &flow, "source", 4095);
	dfi__endpoint_prefix(prefix, &flow, "source");
	cr_assert_str_eq(key, "flows/orders/fffffffffffffffa/sources/4095");
	cr_assert_eq(strncmp(key, prefix, strlen(prefix)), 0);
	cr_assert(dfi__endpoint_index(key, &index));
	cr_assert_eq(index, 4095);
	cr_assert(!dfi__endpoint_index("flows/a/b/sources/", &index));
	cr_assert(!dfi__endpoint_index("flows/a/b/sources/1x", &index));
	cr_assert(!dfi__endpoint_index("flows/a/b/sources/-1", &index));
	cr_assert(!dfi__endpoint_index("flows/a/b/sources/4294967296", &index));
	cr_assert(!dfi__endpoint_index("sources", &index));
	cr_assert_eq(index, 4095);
	/* The longest name fits. */
	memset(flow.name, 'x', DFI_MAX_FLOW_NAME);
	dfi__endpoint_key(key, &flow, "target", UINT32_MAX);
	cr_assert(dfi__endpoint_index(key, &index));
	cr_assert_eq(index, UINT32_MAX);
}

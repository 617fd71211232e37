/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries that a peer publishes, its own reports, and a registry's messages:
 * the first byte says which. Accepted input must be usable for everything:
 * layouts, routing, texts, and a second encoding.
 */
#include <event2/buffer.h>
#include <string.h>

#include "base/schema.h"
#include "base/text.h"
#include "flows/descriptor/descriptor.h"
#include "flows/declare/route.h"
#include "flows/endpoint/stats.h"
#include "fuzz.h"
#include "registry/wire/wire.h"

static void check_node(const struct node *node)
{
	fuzz_check(memchr(node->name, 0, sizeof(node->name)));
	fuzz_check(memchr(node->host, 0, sizeof(node->host)));
	fuzz_check(dfi__text_is_plain(node->name));
	fuzz_check(dfi__text_is_plain(node->host));
}

/* Each tuple has a target, whatever its bytes are. */
static void check_routing(const struct flow *flow)
{
	size_t size = flow->schema->tuple_size;
	struct router router;
	uint8_t *tuple = malloc(size);
	unsigned i;

	fuzz_check(tuple);
	dfi__router_init(&router, flow, 0);
	for (i = 0; i < 3 && flow->routing != DFI_ROUTE_FUNCTION &&
	     flow->routing != DFI_ROUTE_DIRECT;
	     i++) {
		memset(tuple, (int)i * 0x7f, size);
		fuzz_check(dfi__route(&router, tuple) < flow->n_targets);
	}
	free(tuple);
}

static void check_flow(const struct flow *flow)
{
	struct ring_geometry g = dfi__flow_geometry(flow);
	struct flow again;
	char text[512];
	size_t size;
	void *data;

	fuzz_check(g.segment_tuples >= 1);
	fuzz_check(g.segment_bytes <= flow->segment_size);
	fuzz_check(region_size(&g, flow->n_sources) > g.ring_size);
	fuzz_check(dfi__schema_check(flow->schema) == 0);
	fuzz_check(!dfi__schema_match(flow->schema, flow->schema, "f"));
	dfi__schema_text(flow->schema, text, sizeof(text));
	fuzz_check(dfi__text_is_plain(text));
	check_node(&flow->creator);
	check_routing(flow);
	data = dfi__flow_encode(flow, &size);
	fuzz_check(data);
	fuzz_check(dfi__flow_decode("f", data, size, &again) == 0);
	fuzz_check(again.instance == flow->instance);
	dfi__flow_free(&again);
	free(data);
}

static void read_messages(const uint8_t *data, size_t size)
{
	struct evbuffer *in = evbuffer_new();
	Dfi__Registry__Message *message;

	fuzz_check(in && evbuffer_add(in, data, size) == 0);
	while (dfi__wire_read(in, &message) > 0)
		dfi__wire_free(message);
	evbuffer_free(in);
}

/* Asking for more comes to an end, and what is accepted can be told on. */
static void read_stats(const uint8_t *data, size_t size)
{
	static struct stats_page page, again;
	uint64_t after = size % 3;
	size_t length;
	uint32_t i;
	void *copy;

	if (dfi__stats_decode(data, size, after, &page) < 0)
		return;
	fuzz_check(page.n_endpoints || !page.more);
	for (i = 0; i < page.n_endpoints; i++) {
		fuzz_check(page.ids[i] > (i ? page.ids[i - 1] : after));
		fuzz_check(!dfi__flow_check_name(page.endpoints[i].flow));
	}
	copy = dfi__stats_encode(&page, &length);
	fuzz_check(copy && length <= TRANSPORT_REPORT_MAX);
	fuzz_check(dfi__stats_decode(copy, length, after, &again) == 0);
	fuzz_check(again.n_endpoints == page.n_endpoints);
	fuzz_check(again.n_errors == page.n_errors);
	free(copy);
}

static void check_region(const struct published_region *region)
{
	const struct region_address *address;
	uint32_t i;

	fuzz_check(region->n_addresses <= REGION_MAX_ADDRESSES);
	fuzz_check(dfi__text_is_plain(region->why));
	for (i = 0; i < region->n_addresses; i++) {
		address = region_address_at(region, i);
		fuzz_check(address->transport && address->transport->name);
		fuzz_check(address->name.size == region->size);
		fuzz_check(memchr(
		    address->name.address, 0, sizeof(address->name.address)));
		fuzz_check(dfi__text_is_plain(address->name.address));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct region_address more[REGION_MORE_ADDRESSES];
	uint8_t token[MEMBER_TOKEN_SIZE];
	struct endpoint endpoint;
	struct node node;
	struct flow flow;

	if (!size--)
		return 0;
	switch (*data++ % 5) {
	case 0:
		if (dfi__flow_decode("f", data, size, &flow) == 0) {
			check_flow(&flow);
			dfi__flow_free(&flow);
		}
		break;
	case 1:
		if (dfi__endpoint_decode_all(data, size, more, &endpoint) ==
		    0) {
			check_node(&endpoint.node);
			check_region(&endpoint.region);
			check_region(&endpoint.sequencer);
			fuzz_check(dfi__text_is_plain(endpoint.device));
		}
		break;
	case 2:
		if (dfi__node_decode(data, size, &node, token) == 0)
			check_node(&node);
		break;
	case 3:
		read_messages(data, size);
		break;
	default:
		read_stats(data, size);
		break;
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses a multicast group for a flow, and segments that fit its datagrams. */
#include "multicast_flow.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <dfi/flow.h>
#include "base/error.h"
#include "base/error_list.h"
#include "base/ip.h"
#include "base/log.h"
#include "buffers/multicast/sender_ring.h"
#include "buffers/multicast/receiver_ring.h"
#include "buffers/replica_writer.h"
#include "flows/context/context.h"
#include "flows/context/network.h"
#include "flows/descriptor/descriptor.h"
#include "transport/table.h"
#include "transport/transport.h"

static bool is_group(const char *text)
{
	union ip ip;

	if (strlen(text) >= IP_TEXT_SIZE || !dfi__ip_parse_host(text, &ip))
		return false;
	return ip.any.sa_family == AF_INET
	    ? IN_MULTICAST(ntohl(ip.in.sin_addr.s_addr))
	    : IN6_IS_ADDR_MULTICAST(&ip.in6.sin6_addr);
}

/*
 * Choose an address of organization-local scope (RFC 2365), or a transient,
 * site-local one (RFC 4291).
 */
static int choose_group(struct flow *flow, bool v6)
{
	union ip ip = { .any.sa_family = v6 ? AF_INET6 : AF_INET };
	uint32_t number;

	if (v6) {
		if (getrandom(&ip.in6.sin6_addr, sizeof(ip.in6.sin6_addr), 0) !=
		    sizeof(ip.in6.sin6_addr))
			return dfi__fail(
			    -EIO, "getrandom: %s", strerror(errno));
		ip.in6.sin6_addr.s6_addr[0] = 0xff;
		ip.in6.sin6_addr.s6_addr[1] = 0x15;
	} else {
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return dfi__fail(
			    -EIO, "getrandom: %s", strerror(errno));
		ip.in.sin_addr.s_addr = htonl(
		    0xefc00000u | (number & 0x0003ffffu));
	}
	dfi__ip_host_text(&ip, flow->multicast_address);
	return 0;
}

int dfi__multicast_flow_declare(struct dfi *dfi,
    const struct dfi_flow_attr *attr, struct flow *flow, uint32_t *largest)
{
	const char *group = attr->replicate.multicast_address;
	struct transport *network;
	bool v6 = false;

	*largest = 0;
	if (!flow_is_multicast(flow))
		return group
		    ? dfi__fail(-EINVAL,
			  "flow '%s': replicate.multicast_address is for "
			  "DFI_REPLICATION_MULTICAST over %s",
			  flow->name, dfi__network_name())
		    : 0;
	if (group && !is_group(group))
		return dfi__fail(-EINVAL,
		    "flow '%s': replicate.multicast_address '%s' is not the "
		    "address of "
		    "a multicast group, such as 239.1.2.3 or ff15::1:2",
		    flow->name, group);
	/* A process that only creates flows may have no device. */
	if (dfi__network_open_multicast(dfi, &network) == 0) {
		*largest = network->ops->mcast->size(network);
		v6 = network->ops->mcast->is_v6(network);
	} else {
		dfi__log(DFI_LOG_INFO,
		    "flow '%s': sized without knowing an MTU: %s", flow->name,
		    dfi_errmsg());
	}
	if (!group)
		return choose_group(flow, v6);
	snprintf(flow->multicast_address, sizeof(flow->multicast_address), "%s",
	    group);
	return 0;
}

uint32_t dfi__multicast_flow_room(const struct flow *flow, uint32_t datagram)
{
	/* The bytes of a datagram beside its tuples. */
	uint32_t taken = (uint32_t)sizeof(struct datagram_data) +
	    dfi__flow_tuple_geometry(flow).payload_offset;

	return datagram > taken ? datagram - taken : 0;
}

int dfi__multicast_flow_check(const struct flow *flow, uint32_t largest)
{
	struct ring_geometry geometry = dfi__flow_slots_geometry(flow);
	uint32_t limit = largest ? largest : MULTICAST_LARGEST;

	if (datagram_size_max(&geometry) <= limit)
		return 0;
	return dfi__fail(-EMSGSIZE,
	    "flow '%s': segments of %u bytes take datagrams of %lu, but %s at "
	    "most %u (the active MTU): lower segment_size to %u at most, or "
	    "leave replicate.method 0",
	    flow->name, geometry.segment_bytes,
	    (unsigned long)datagram_size_max(&geometry),
	    largest ? "this context's device sends" : "any device sends", limit,
	    dfi__multicast_flow_room(flow, limit));
}

struct multicast_config dfi__multicast_flow_config(const struct flow *flow)
{
	struct multicast_config config = {
		.group = flow->multicast_address,
		.flow = { .instance = flow->instance,
		    .n_sources = flow->n_sources,
		    .n_targets = flow->n_targets,
		    .geometry = dfi__flow_slots_geometry(flow) },
	};

	if (flow->membership) {
		config.flow.open = true;
		config.flow.n_sources = 1;
		config.flow.n_targets *= MULTICAST_SEAT_TARGETS;
	}
	if (flow->part.pair) {
		config.flow.open = true;
		config.flow.instance = flow->part.incarnation;
		config.flow.pair = flow->part.pair;
	}
	return config;
}

struct multicast_attr dfi__multicast_flow_endpoint(
    struct dfi *dfi, const struct flow *flow, bool target)
{
	struct multicast_config config = dfi__multicast_flow_config(flow);
	const struct ring_geometry *geometry = &config.flow.geometry;

	config.member = target;
	config.receives = target ? receiver_receives(geometry, flow->n_sources)
				 : sender_receives(config.flow.n_targets);
	if (!target)
		config.memory_size = dfi__replica_bytes(
		    dfi->transport, geometry);
	return dfi__multicast_end_attr(&config);
}

/* The first transport with multicast, for where no device can be used. */
static int find_multicast(const struct mcast_ops **mcast)
{
	const struct transport_row *row = dfi__transports;
	const struct transport_ops *ops;
	int ret;

	for (; row->name; row++) {
		ret = transport_table(row, &ops);
		if (ret < 0)
			return ret;
		*mcast = ops->mcast;
		if (*mcast)
			return 0;
	}
	return dfi__fail(
	    -EOPNOTSUPP, "no transport of this library has multicast");
}

int dfi__multicast_flow_bytes(struct dfi *dfi, const struct flow *flow,
    uint64_t *target, uint64_t *source)
{
	struct multicast_attr at_target = dfi__multicast_flow_endpoint(
	    dfi, flow, true);
	struct multicast_attr at_source = dfi__multicast_flow_endpoint(
	    dfi, flow, false);
	struct transport *network = NULL;
	const struct mcast_ops *mcast;
	int ret = 0;

	if (dfi__network_open_multicast(dfi, &network) == 0) {
		mcast = network->ops->mcast;
	} else {
		network = NULL;
		ret = find_multicast(&mcast);
	}
	if (ret < 0)
		return ret;
	*target = mcast->bytes(network, &at_target);
	*source = mcast->bytes(network, &at_source);
	return 0;
}

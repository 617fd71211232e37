/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a source's rings. The source asks for all of it before it opens
 * the first ring, so that a source that can't have it bothers no target or
 * device. It then takes the memory ring by ring.
 */
#include "source.h"

#include <string.h>
#include "base/bits.h"
#include "base/error.h"
#include "transport/transport.h"
#include "flows/declare/declare.h"
#include "flows/context/shared_counter.h"
#include "flows/context/network.h"

struct need {
	uint64_t counted;  /* towards the context's bound */
	uint64_t mapped;   /* of other contexts' regions */
	uint64_t reserved; /* memory that devices send from */
	struct need_of_device {
		struct transport *device;
		uint64_t locked; /* also a send buffer for each */
	} devices[NETWORK_DEVICES];
	unsigned n_devices;
};

/* The ways over networks, which the target must have published. */
static int find_networks(const struct dfi_source *source,
    const struct endpoint *endpoint, uint32_t target,
    const struct transport_row *after, struct source_ways *ways)
{
	struct dfi *dfi = source->dfi;
	struct network_ways found;
	unsigned i;
	int ret = dfi__network_ways(dfi,
	    dfi__network_choice(dfi, &source->flow), &endpoint->region,
	    source->index + target, after, &found);

	if (ret < 0)
		return ret;
	ways->n = found.n;
	for (i = 0; i < found.n; i++) {
		ways->at[i].transport = found.at[i].transport;
		ways->at[i].name = &found.at[i].address->name;
	}
	ways->last = found.last;
	ways->more = found.more;
	strcpy(ways->why, found.why);
	return 0;
}

/* Whether some address is of the transport that a source demands. */
static bool has_choice(
    const struct endpoint *endpoint, enum dfi_transport choice)
{
	const struct published_region *region = &endpoint->region;
	uint32_t i;

	for (i = 0; i < region->n_addresses; i++)
		if (region_address_at(region, i)->transport->choice == choice)
			return true;
	return false;
}

int dfi__source_ways(const struct dfi_source *source, uint32_t target,
    const struct transport_row *after, struct source_ways *ways)
{
	const struct endpoint *endpoint =
	    &source->targets.peer[target].endpoint;
	struct dfi *dfi = source->dfi;
	enum host_distance distance = dfi__host_distance(
	    &endpoint->node.at, &dfi->node.at);
	bool apart = distance == HOST_OTHER || distance == HOST_OTHER_NETWORK;
	enum dfi_transport choice = dfi__network_choice(dfi, &source->flow);
	const struct region_name *memory = dfi__region_memory(
	    &endpoint->region);

	if (transport_is_memory(choice) && apart)
		return dfi__fail(-EHOSTUNREACH,
		    "host %s can't be reached over shared memory: %s; or %s",
		    endpoint->node.host, dfi__host_why_apart(distance),
		    source->flow.transport
			? "create the flow with another transport"
			: "set DFI_TRANSPORT=auto");
	if (!apart && !after && !transport_is_network(choice)) {
		ways->at[0].transport = dfi->transport;
		ways->at[0].name = memory;
		ways->n = 1;
		ways->last = dfi__transports;
		ways->more = false;
		ways->why[0] = '\0';
		return memory ? 0
			      : dfi__fail(-EBADMSG,
				    "its entry in the registry is damaged: it "
				    "has no address of memory");
	}
	if (!dfi__region_network(&endpoint->region))
		return dfi__fail(-EHOSTUNREACH,
		    "node %s on host %s can't be reached over %s: %s%s%s",
		    endpoint->node.name, endpoint->node.host,
		    dfi__network_name(), endpoint->region.why,
		    apart ? "; nor over shared memory: " : "",
		    apart ? dfi__host_why_apart(distance) : "");
	if (transport_is_network(choice) && !has_choice(endpoint, choice))
		return dfi__fail(-EHOSTUNREACH,
		    "node %s on host %s is reached over %s, but this source "
		    "demands another transport: set the same DFI_TRANSPORT, "
		    "or auto, in both processes",
		    endpoint->node.name, endpoint->node.host,
		    dfi__region_network(&endpoint->region)->transport->name);
	return find_networks(source, endpoint, target, after, ways);
}

static uint64_t shadow_bytes(const struct dfi_source *source, uint64_t size)
{
	return transport_shadow_bytes(
	    size, source->dfi->settings.huge_pages == HUGE_PAGES_REQUIRE);
}

static uint64_t send_buffer_bytes(const struct dfi_source *source)
{
	return shadow_bytes(source,
	    dfi__replica_send_buffer_size(
		&source->replica_writer->lane.geometry));
}

/* The send buffer replaces the replica writer's own, which is counted. */
static uint64_t send_buffer_counts(const struct dfi_source *source)
{
	return send_buffer_bytes(source) -
	    dfi__replica_bytes(NULL, &source->replica_writer->lane.geometry);
}

/* The bytes of the shadow ring of one ring. */
static uint64_t ring_shadow_bytes(
    const struct dfi_source *source, bool buffered)
{
	struct ring_geometry geometry = dfi__flow_geometry(&source->flow);
	struct ring_layout layout = ring_layout(
	    &geometry, source->flow.n_sources);

	return shadow_bytes(source, transport_shadow_size(&layout, buffered));
}

/* All that send from a send buffer are of the transport that made it. */
static bool sends_from(
    const struct transport *transport, const struct transport *stage_maker)
{
	return transport->ops == stage_maker->ops;
}

/* The entry of a device; a send buffer is locked by each that sends from it. */
static struct need_of_device *add_device(const struct dfi_source *source,
    struct transport *device, struct need *need)
{
	struct need_of_device *added = &need->devices[need->n_devices];
	unsigned i;

	for (i = 0; i < need->n_devices; i++)
		if (need->devices[i].device == device)
			return &need->devices[i];
	need->n_devices++;
	*added = (struct need_of_device){ .device = device };
	if (!source->replica_writer ||
	    !sends_from(device, need->devices[0].device))
		return added;
	added->locked = send_buffer_bytes(source);
	if (need->n_devices == 1) {
		need->reserved += send_buffer_bytes(source);
		need->counted += send_buffer_counts(source);
	}
	return added;
}

/*
 * Add the needs of a target; false: it can't be reached. Opening its ring finds
 * the reason.
 */
static bool add_target(
    struct dfi_source *source, uint32_t target, struct need *need)
{
	struct need_of_device *device;
	struct transport *transport;
	struct source_ways ways;
	uint64_t bytes;

	if (peers_state(&source->targets, target) != PEER_PRESENT)
		return true;
	if (dfi__source_ways(source, target, NULL, &ways) < 0)
		return false;
	transport = ways.at[0].transport;
	if (transport == source->dfi->transport) {
		/* Mapped with the page size that its owner has. */
		if (strcmp(ways.at[0].name->address, transport->address) != 0)
			need->mapped += ways.at[0].name->size;
		return true;
	}
	device = add_device(source, transport, need);
	bytes = ring_shadow_bytes(source,
	    source->replica_writer &&
		sends_from(transport, need->devices[0].device));
	need->reserved += bytes;
	device->locked += bytes;
	need->counted += bytes;
	return true;
}

/*
 * Target 0 has the sequencer. If it has a device, all take numbers through it.
 */
static void add_sequencer(struct dfi_source *source, struct need *need)
{
	const struct published_region *region =
	    &source->targets.peer[0].endpoint.sequencer;
	enum dfi_transport choice = dfi__network_choice(
	    source->dfi, &source->flow);
	uint64_t bytes = dfi__shared_counter_shadow_bytes(source->dfi);
	struct network_ways ways;

	if (!dfi__region_network(region) || transport_is_memory(choice) ||
	    dfi__network_ways(source->dfi, choice, region, 0, NULL, &ways) < 0)
		return;
	need->reserved += bytes;
	if (!need->n_devices)
		need->devices[need->n_devices++].device = ways.at[0].transport;
	need->devices[0].locked += bytes;
}

/* Ask one device of each transport for what all of them lock. */
static int check_devices(const struct need *need)
{
	const struct need_of_device *first = need->devices, *other;
	const struct need_of_device *end = first + need->n_devices;
	uint64_t locked;
	int ret = 0;

	for (; !ret && first < end; first++) {
		locked = 0;
		for (other = need->devices; other < end; other++)
			if (other->device->ops == first->device->ops)
				locked += other->locked;
		ret = first->device->ops->ring.room(
		    first->device, need->reserved, locked);
	}
	return ret;
}

static int check(const struct dfi_source *source, const struct need *need)
{
	struct transport *memory = source->dfi->transport;
	int ret = 0;

	if (need->mapped)
		ret = memory->ops->ring.room(
		    memory, need->mapped + need->reserved, 0);
	if (!ret)
		ret = check_devices(need);
	return ret < 0 ? dfi__fail_within(ret, "flow '%s': %s %u",
			     source->flow.name, SOURCE_ID(source))
		       : 0;
}

int dfi__source_room(struct dfi_source *source)
{
	struct need need = { .counted = 0 };
	bool reaches = true;
	uint32_t t;
	int ret;

	/* All rings get datagrams from one send buffer. */
	for (t = 0; reaches && t < source->flow.n_targets &&
	     !flow_is_multicast(&source->flow);
	     t++)
		reaches = add_target(source, t, &need);
	/* In an open flow, the ends of its pairs have none. */
	if (reaches && source->flow.ordered && !source->flow.part.pair)
		add_sequencer(source, &need);
	ret = dfi__ring_memory_take(
	    source->dfi, need.counted, source->flow.name, SOURCE_ID(source));
	if (ret < 0)
		return ret;
	source->ring_memory += need.counted;
	source->unspent = need.counted;
	return check(source, &need);
}

/* Take bytes from those reserved, and the rest from the context's bound. */
static int spend(struct dfi_source *source, uint64_t bytes)
{
	uint64_t had = min_u64(bytes, source->unspent);
	int ret;

	ret = dfi__ring_memory_take(
	    source->dfi, bytes - had, source->flow.name, SOURCE_ID(source));
	if (ret < 0)
		return ret;
	source->unspent -= had;
	source->ring_memory += bytes - had;
	return 0;
}

void dfi__source_room_return(struct dfi_source *source)
{
	dfi__ring_memory_return(source->dfi, source->unspent);
	source->ring_memory -= source->unspent;
	source->unspent = 0;
}

/*
 * Once a device writes to a target, the replica writer gets a send buffer,
 * which replaces its own buffer. If there is no send buffer, its own stays.
 */
static int take_send_buffer(
    struct dfi_source *source, struct transport *transport)
{
	uint64_t bytes = send_buffer_counts(source);
	struct send_buffer *send_buffer;
	int ret;

	ret = spend(source, bytes);
	if (ret < 0)
		return ret;
	ret = transport->ops->ring.send_buffer_create(transport,
	    dfi__replica_send_buffer_size(
		&source->replica_writer->lane.geometry),
	    &send_buffer);
	if (ret < 0) {
		source->unspent += bytes;
		return ret;
	}
	dfi__replica_use_send_buffer(source->replica_writer, send_buffer);
	return 0;
}

int dfi__source_take_shadow(struct dfi_source *source,
    struct transport *transport, struct send_buffer **send_buffer)
{
	struct replica_writer *replica_writer = source->replica_writer;
	int ret = replica_writer && !replica_writer->send_buffer
	    ? take_send_buffer(source, transport)
	    : 0;

	if (ret < 0)
		return ret;
	/* A ring over another transport gets a copy instead. */
	*send_buffer = replica_writer &&
		sends_from(transport, replica_writer->send_buffer->transport)
	    ? replica_writer->send_buffer
	    : NULL;
	return spend(source, ring_shadow_bytes(source, *send_buffer != NULL));
}

void dfi__source_return_shadow(
    struct dfi_source *source, const struct send_buffer *send_buffer)
{
	source->unspent += ring_shadow_bytes(source, send_buffer != NULL);
}

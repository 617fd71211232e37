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

/* The limit of a context (network.c). */
#define MOST_DEVICES 16

struct need {
	uint64_t counted;  /* towards the context's bound */
	uint64_t mapped;   /* of other contexts' regions */
	uint64_t reserved; /* memory that devices send from */
	uint64_t locked;   /* a send buffer for each such device */
	struct transport *devices[MOST_DEVICES];
	unsigned n_devices;
};

int dfi__source_way(const struct dfi_source *source,
    const struct endpoint *endpoint, bool network, struct transport **transport,
    const struct region_name **name)
{
	struct dfi *dfi = source->dfi;
	enum host_distance distance = dfi__host_distance(
	    &endpoint->node.at, &dfi->node.at);
	bool apart = distance == HOST_OTHER || distance == HOST_OTHER_NETWORK;
	enum dfi_transport choice = dfi__network_choice(dfi, &source->flow);
	const struct region_address *address = dfi__region_network(
	    &endpoint->region);

	*transport = dfi->transport;
	*name = dfi__region_memory(&endpoint->region);
	if (transport_is_memory(choice) && apart)
		return dfi__fail(-EHOSTUNREACH,
		    "host %s can't be reached over shared memory: %s; or %s",
		    endpoint->node.host, dfi__host_why_apart(distance),
		    source->flow.transport
			? "create the flow with another transport"
			: "set DFI_TRANSPORT=auto");
	if (!apart && !network && !transport_is_network(choice))
		return *name ? 0
			     : dfi__fail(-EBADMSG,
				   "its entry in the registry is damaged: it "
				   "has no address of memory");
	if (!address)
		return dfi__fail(-EHOSTUNREACH,
		    "node %s on host %s can't be reached over %s: %s%s%s",
		    endpoint->node.name, endpoint->node.host,
		    dfi__network_name(), endpoint->region.why,
		    apart ? "; nor over shared memory: " : "",
		    apart ? dfi__host_why_apart(distance) : "");
	if (transport_is_network(choice) &&
	    address->transport->choice != choice)
		return dfi__fail(-EHOSTUNREACH,
		    "node %s on host %s is reached over %s, but this source "
		    "demands another transport: set the same DFI_TRANSPORT, "
		    "or auto, in both processes",
		    endpoint->node.name, endpoint->node.host,
		    address->transport->name);
	*name = &address->name;
	return dfi__network_reach(dfi, address, transport);
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

/* A device that sends from a send buffer locks its memory. */
static void add_device(const struct dfi_source *source,
    struct transport *device, struct need *need)
{
	unsigned i;

	for (i = 0; i < need->n_devices; i++)
		if (need->devices[i] == device)
			return;
	if (need->n_devices == MOST_DEVICES)
		return;
	need->devices[need->n_devices++] = device;
	if (!source->replica_writer)
		return;
	need->locked += send_buffer_bytes(source);
	if (need->n_devices > 1)
		return;
	need->reserved += send_buffer_bytes(source);
	need->counted += send_buffer_counts(source);
}

/*
 * Add the needs of a target; false: it can't be reached. Opening its ring finds
 * the reason.
 */
static bool add_target(
    struct dfi_source *source, uint32_t target, struct need *need)
{
	const struct endpoint *endpoint =
	    &source->targets.peer[target].endpoint;
	const struct region_name *name;
	struct transport *transport;
	uint64_t bytes;

	if (peers_state(&source->targets, target) != PEER_PRESENT)
		return true;
	if (dfi__source_way(source, endpoint, false, &transport, &name) < 0)
		return false;
	if (transport == source->dfi->transport) {
		/* Mapped with the page size that its owner has. */
		if (strcmp(name->address, transport->address) != 0)
			need->mapped += name->size;
		return true;
	}
	add_device(source, transport, need);
	bytes = ring_shadow_bytes(source, source->replica_writer != NULL);
	need->reserved += bytes;
	need->locked += bytes;
	need->counted += bytes;
	return true;
}

/*
 * Target 0 has the sequencer. If it has a device, all take numbers through it.
 */
static void add_sequencer(struct dfi_source *source, struct need *need)
{
	const struct endpoint *holder = &source->targets.peer[0].endpoint;
	const struct region_address *address = dfi__region_network(
	    &holder->sequencer);
	uint64_t bytes = dfi__shared_counter_shadow_bytes(source->dfi);
	struct transport *transport;

	if (!address ||
	    transport_is_memory(
		dfi__network_choice(source->dfi, &source->flow)) ||
	    dfi__network_reach(source->dfi, address, &transport) < 0)
		return;
	if (!need->n_devices)
		need->devices[need->n_devices++] = transport;
	need->reserved += bytes;
	need->locked += bytes;
}

static int check(const struct dfi_source *source, const struct need *need)
{
	struct transport *memory = source->dfi->transport;
	struct transport *device = need->devices[0];
	int ret = 0;

	if (need->mapped)
		ret = memory->ops->ring.room(
		    memory, need->mapped + need->reserved, 0);
	if (!ret && device)
		ret = device->ops->ring.room(
		    device, need->reserved, need->locked);
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
	for (t = 0; reaches && t < source->flow.n_targets && !source->multicast;
	     t++)
		reaches = add_target(source, t, &need);
	if (reaches && source->flow.ordered)
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
	int ret = source->replica_writer && !source->replica_writer->send_buffer
	    ? take_send_buffer(source, transport)
	    : 0;

	if (ret < 0)
		return ret;
	*send_buffer = source->replica_writer
	    ? source->replica_writer->send_buffer
	    : NULL;
	return spend(source, ring_shadow_bytes(source, *send_buffer != NULL));
}

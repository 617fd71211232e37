/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the rings of a source's targets: chooses the transport of a ring, and
 * finds out what became of a target that is gone.
 */
#include "source.h"

#include <stdio.h>
#include "base/error.h"
#include "base/log.h"
#include "flows/context/network.h"
#include "transport/transport.h"

/* A target whose ring is being opened. */
struct opening {
	struct dfi_source *source;
	uint32_t target;
};

/* Whether the target has left or wants no tuples. */
static bool target_has_left(void *arg)
{
	const struct opening *opening = arg;

	return peers_state(&opening->source->targets, opening->target) !=
	    PEER_PRESENT;
}

/* Open a ring over one transport. */
static int open_over(struct dfi_source *source, struct transport *transport,
    const struct region_name *name, const struct ring_layout *layout,
    const struct wait_limit *wait_limit, struct remote **remote)
{
	bool network = transport != source->dfi->transport;
	struct send_buffer *send_buffer = NULL;
	int ret = dfi__network_serves(transport, &source->flow);

	if (!ret && network)
		ret = dfi__source_take_shadow(source, transport, &send_buffer);
	if (ret < 0)
		return ret;
	ret = transport->ops->ring.open(transport, source->share, name, layout,
	    source_ring(source), send_buffer, wait_limit, remote);
	if (ret < 0 && network)
		dfi__source_return_shadow(source, send_buffer);
	return ret;
}

/* Whether an address that failed says nothing of the others. */
static bool may_differ(int err)
{
	return err == -EHOSTUNREACH || err == -ECONNREFUSED ||
	    err == -ETIMEDOUT || err == -ECONNRESET || err == -EACCES ||
	    err == -EIO || err == -EPROTO;
}

/* An address that doesn't answer leaves half of the time to the next ones. */
#define LONGEST_TRY_NS (INT64_C(10) * NS_PER_S)
static int64_t try_until(int64_t deadline)
{
	int64_t now = clock_now_ns();
	int64_t half = deadline > now ? (deadline - now) / 2 : 0;

	return now + (half < LONGEST_TRY_NS ? half : LONGEST_TRY_NS);
}

/* Put what other addresses said before the text of an error. */
static void put_before(int err, const char *why)
{
	char said[ERROR_TEXT_SIZE];

	snprintf(said, sizeof(said), "%s", dfi_errmsg());
	(void)dfi__fail(err, "%s; %s", why, said);
}

/* Say that a worse way was taken than the best, or than the table has. */
static void log_way(const struct dfi_source *source, uint32_t target,
    const struct source_ways *ways, unsigned i, const char *failed)
{
	if (!failed[0] && !ways->why[0])
		return;
	dfi__log(failed[0] ? DFI_LOG_WARN : DFI_LOG_INFO,
	    "flow '%s': %s %u: writes to %s %u at %s over %s: %s",
	    source->flow.name, SOURCE_ID(source),
	    PEER_ID(&source->targets, target), ways->at[i].name->address,
	    ways->at[i].transport->ops->name, failed[0] ? failed : ways->why);
}

/* Open a ring by the first way that works, behind a row, or NULL. */
static int open_way(struct dfi_source *source, uint32_t target,
    const struct transport_row *after, const struct ring_layout *layout,
    const struct wait_limit *wait_limit, struct remote **remote)
{
	struct wait_limit limit = *wait_limit;
	char failed[ERROR_TEXT_SIZE] = "";
	struct source_ways ways = { .n = 0 };
	unsigned i = 0;
	int ret = 0, err;
	bool last;

	for (;; i++) {
		if (i == ways.n) {
			err = ret;
			ret = dfi__source_ways(source, target, after, &ways);
			if (ret < 0 && failed[0])
				put_before(ret, failed);
			/* What a way said tells more than that none is left. */
			if (ret < 0)
				return err ? err : ret;
			after = ways.last;
			i = 0;
		}
		last = i + 1 == ways.n && !ways.more;
		limit.deadline = last ? wait_limit->deadline
				      : try_until(wait_limit->deadline);
		ret = open_over(source, ways.at[i].transport, ways.at[i].name,
		    layout, &limit, remote);
		if (!ret)
			break;
		if (failed[0])
			put_before(ret, failed);
		if (last || !may_differ(ret) || wait_limit_given_up(wait_limit))
			return ret;
		snprintf(failed, sizeof(failed), "%s", dfi_errmsg());
	}
	log_way(source, target, &ways, i, failed);
	return 0;
}

/*
 * Only passing the memory shows whether it can be shared: the socket may belong
 * to another machine with the same numbers, or the owner may refuse this user.
 * If it can't be shared and the flow allows other transports, use a network.
 */
static int open_somehow(struct dfi_source *source, uint32_t target,
    const struct ring_layout *layout, const struct wait_limit *wait_limit,
    struct remote **remote)
{
	const struct endpoint *endpoint =
	    &source->targets.peer[target].endpoint;
	const struct dfi *dfi = source->dfi;
	const struct region_address *address = dfi__region_network(
	    &endpoint->region);
	int ret = open_way(source, target, NULL, layout, wait_limit, remote);

	if ((ret == -ECONNRESET || ret == -EACCES) && address &&
	    !wait_limit_given_up(wait_limit) &&
	    dfi__network_choice(dfi, &source->flow) == DFI_TRANSPORT_AUTO) {
		dfi__log(DFI_LOG_INFO,
		    "flow '%s': %s %u: writes to node %s on host %s over %s: "
		    "%s",
		    source->flow.name, SOURCE_ID(source), endpoint->node.name,
		    endpoint->node.host, address->transport->name,
		    dfi_errmsg());
		return open_way(source, target, dfi__transports, layout,
		    wait_limit, remote);
	}
	return dfi__host_explain(
	    ret, dfi__host_distance(&endpoint->node.at, &dfi->node.at));
}

/* Open the ring in a target's region. */
static int open_remote(struct dfi_source *source, uint32_t target,
    const struct wait_limit *wait_limit)
{
	const struct endpoint *endpoint =
	    &source->targets.peer[target].endpoint;
	struct ring_geometry geometry = dfi__flow_geometry(&source->flow);
	struct ring_layout layout = ring_layout(
	    &geometry, source->flow.n_sources);
	uint64_t bytes = region_size(&geometry, source->flow.n_sources);
	struct writer *writer = &source->rings[target];
	struct remote *remote;
	char peer[256];
	int ret;

	remote = source_own_ring(source, target);
	if (remote) {
		dfi__writer_init(writer, remote, &geometry, RING_FIRST_SEGMENT);
		return 0;
	}
	if (!transport_region_fits(endpoint->region.size, bytes))
		return dfi__fail(-EBADMSG,
		    "flow '%s': %s %u has published a region of %lu bytes, "
		    "but its rings take %lu",
		    source->flow.name, PEER_ID(&source->targets, target),
		    (unsigned long)endpoint->region.size, (unsigned long)bytes);
	ret = open_somehow(source, target, &layout, wait_limit, &remote);
	if (ret == -EEXIST)
		return dfi__fail(ret,
		    "flow '%s': %s %u is attached already, or has been "
		    "attached before: a flow runs once",
		    source->flow.name, SOURCE_ID(source));
	if (ret < 0) {
		dfi__peers_name(&source->targets, target, peer, sizeof(peer));
		return dfi__fail_within(ret, "flow '%s': %s %u: %s",
		    source->flow.name, SOURCE_ID(source), peer);
	}
	dfi__writer_init(writer, remote, &geometry, RING_FIRST_SEGMENT);
	if (!remote->in_place)
		writer->batch = &source->batch;
	return 0;
}

/* Open the ring, and grant its slots to the target if they lie elsewhere. */
static int open_ring(
    struct dfi_source *source, uint32_t target, int64_t deadline)
{
	struct region *slots = flow_has_shared_ring(&source->flow)
	    ? source->replica_writer->shared_ring.region
	    : NULL;
	struct opening opening = { source, target };
	struct wait_limit wait_limit = { deadline, target_has_left, &opening };
	struct writer *ring = &source->rings[target];
	char peer[256];
	int ret = open_remote(source, target, &wait_limit);

	if (ret < 0 || !slots)
		return ret;
	/* The target has that address: it was used to open the ring. */
	ret = slots->transport->ops->region.grant(slots,
	    dfi__region_memory(&source->targets.peer[target].endpoint.region),
	    source->index, &wait_limit);
	if (ret < 0) {
		ring->remote->transport->ops->ring.close(ring->remote);
		ring->remote = NULL;
		dfi__peers_name(&source->targets, target, peer, sizeof(peer));
		dfi__fail_within(ret, "flow '%s': %s %u: %s", source->flow.name,
		    SOURCE_ID(source), peer);
	}
	return ret;
}

/*
 * A target's region was gone, or nothing listened or answered there. The
 * registry reports at about that time whether the target has cancelled, closed
 * or died. The report comes on another connection, perhaps later.
 */
#define REGISTRY_SAYS_NS (INT64_C(1) * NS_PER_S)

int dfi__source_target_was_gone(
    struct dfi_source *source, uint32_t target, int err, int64_t deadline)
{
	int64_t wait_limit = clock_now_ns() + REGISTRY_SAYS_NS;
	char text[ERROR_TEXT_SIZE];

	if (!source_is_unreachable(err))
		return err;
	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	if (dfi__peers_await_gone(&source->targets, target,
		wait_limit < deadline ? wait_limit : deadline))
		return dfi__peers_lost(&source->targets, target);
	return dfi__fail(err, "%s", text);
}

int dfi__source_open_rings(struct dfi_source *source, int64_t deadline)
{
	uint32_t t;
	int ret = dfi__source_room(source);

	if (ret < 0)
		return ret;
	for (t = 0; t < source->flow.n_targets; t++) {
		ret = 0;
		if (peers_state(&source->targets, t) != PEER_CANCELLED)
			ret = open_ring(source, t, deadline);
		if (ret < 0)
			ret = dfi__source_target_was_gone(
			    source, t, ret, deadline);
		if (peers_state(&source->targets, t) == PEER_CANCELLED)
			source->rings[t].cancelled = true;
		else if (ret < 0)
			return ret;
		source->n_remotes++;
	}
	dfi__source_room_return(source);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What flows add to the protocol of datagrams (buffers/multicast/end.h): the
 * multicast group, the addresses of peers, and which peers have left, as the
 * registry reports.
 */
#include "multicast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/error_list.h"
#include "base/log.h"
#include "buffers/multicast/sender_ring.h"
#include "transport/transport.h"
#include "flows/declare/declare.h"
#include "flows/declare/multicast_flow.h"
#include "flows/context/network.h"
#include "state.h"

/* The pause between two questions to targets that have not answered. */
#define GREET_NS (INT64_C(20) * NS_PER_MS)

int dfi__multicast_configure(
    struct dfi *dfi, const struct flow *flow, struct multicast_config *config)
{
	struct transport *network;
	int ret = dfi__network_open_multicast(dfi, &network);

	if (ret < 0)
		return dfi__fail_within(ret, "flow '%s'", flow->name);
	ret = dfi__multicast_flow_check(
	    flow, network->ops->mcast->size(network));
	if (ret < 0)
		return ret;
	*config = dfi__multicast_flow_config(flow);
	config->network = network;
	return 0;
}

int dfi__multicast_take_room(struct dfi *dfi, const struct flow *flow,
    uint32_t index, bool target, uint64_t *ring_memory)
{
	struct multicast_attr attr = dfi__multicast_flow_endpoint(
	    dfi, flow, target);
	const char *role = target ? "target" : "source";
	struct multicast_config config;
	uint64_t bytes;
	int ret = dfi__multicast_configure(dfi, flow, &config);

	if (ret < 0)
		return ret;
	bytes = config.network->ops->mcast->bytes(config.network, &attr);
	ret = dfi__ring_memory_take(dfi, bytes, flow->name, role, index);
	if (ret < 0)
		return ret;
	*ring_memory += bytes;
	ret = config.network->ops->mcast->room(config.network, &attr);
	return ret < 0
	    ? dfi__fail_within(ret, "flow '%s': %s %u", flow->name, role, index)
	    : 0;
}

/* The address of a peer, if it has attached. */
static bool find_in(
    struct peers *peers, uint32_t index, struct multicast_address *address)
{
	const struct peer *peer = &peers->peer[index];

	switch (peers_state(peers, index)) {
	case PEER_PRESENT:
		*address = peer->endpoint.datagram_address;
		return peer->endpoint.has_datagram_address;
	case PEER_GONE:
		/* Pairs with set_again() (peers.c): orders again_address. */
		if (!atomic_observe(&peer->again))
			return false;
		*address = peer->again_address;
		return true;
	default:
		return false;
	}
}

/* ---- A source ---------------------------------------------------------- */

static bool find_target(
    void *arg, uint32_t index, struct multicast_address *address)
{
	struct dfi_source *source = arg;

	return find_in(&source->targets, index, address);
}

int dfi__source_multicast_room(struct dfi_source *source)
{
	return dfi__multicast_take_room(source->dfi, &source->flow,
	    source->index, false, &source->ring_memory);
}

int dfi__source_multicast_open(struct dfi_source *source, int64_t deadline)
{
	struct multicast_config config;
	struct sender_ring *multicast;
	int ret = dfi__multicast_configure(source->dfi, &source->flow, &config);

	if (ret < 0)
		return ret;
	multicast = calloc(1, sizeof(*multicast));
	if (!multicast)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", source->flow.name);
	config.find = find_target;
	config.find_arg = source;
	ret = dfi__sender_ring_open(multicast, &config, source->index,
	    source->flow.gap_timeout_us,
	    source->flow.loss_policy == DFI_LOSS_NOTIFY,
	    source->replica_writer->shared_ring.region, RING_FIRST_SEGMENT,
	    deadline);
	if (ret < 0) {
		free(multicast);
		return dfi__fail_within(ret, "flow '%s': source %u",
		    source->flow.name, source->index);
	}
	source->replica_writer->shared_ring.multicast = multicast;
	source->datagrams = &multicast->end.endpoint->address;
	return 0;
}

struct remote *dfi__source_multicast_ring(
    struct dfi_source *source, uint32_t target)
{
	return sender_of(source)
	    ? dfi__sender_ring_ring(sender_of(source), target)
	    : NULL;
}

void dfi__source_multicast_forget(struct dfi_source *source, uint32_t target)
{
	if (sender_of(source))
		dfi__sender_ring_leave(
		    sender_of(source), target, MULTICAST_CANCELLED);
}

void dfi__source_multicast_look(struct dfi_source *source)
{
	const struct peer *peer;
	uint32_t t;

	for (t = 0; sender_of(source) && t < source->n_remotes; t++) {
		peer = &source->targets.peer[t];
		switch (peers_state(&source->targets, t)) {
		case PEER_CANCELLED:
			dfi__source_multicast_forget(source, t);
			break;
		case PEER_GONE:
			dfi__sender_ring_leave(sender_of(source), t,
			    atomic_peek(&peer->done) ? MULTICAST_DONE
						     : MULTICAST_GONE);
			break;
		default:
			break;
		}
	}
}

/* The first target that has neither answered nor left; n_remotes: none. */
static uint32_t find_unanswered(struct dfi_source *source)
{
	uint32_t t;

	for (t = 0; t < source->n_remotes; t++)
		if (peers_state(&source->targets, t) == PEER_PRESENT &&
		    !dfi__sender_ring_heard(sender_of(source), t))
			break;
	return t;
}

static bool all_answered(void *arg)
{
	struct dfi_source *source = arg;

	return find_unanswered(source) == source->n_remotes;
}

static void arm(void *arg)
{
	struct remote *remote = arg;

	remote->transport->ops->ring.arm(remote);
}

static int not_answered(struct dfi_source *source, uint32_t target)
{
	char name[256];

	dfi__peers_name(&source->targets, target, name, sizeof(name));
	return dfi__fail(-ETIMEDOUT,
	    "flow '%s': source %u: %s has joined the group %s, but doesn't "
	    "answer what is sent there: do multicasts reach its host? (a "
	    "switch may filter them: IGMP snooping needs a querier)",
	    source->flow.name, source->index, name,
	    source->flow.multicast_address);
}

static int greeted(struct dfi_source *source, int ret)
{
	if (ret == -EEXIST)
		return dfi__fail(-EEXIST,
		    "flow '%s': source %u has been attached before: a flow "
		    "runs once",
		    source->flow.name, source->index);
	return dfi__fail_within(
	    ret, "flow '%s': source %u", source->flow.name, source->index);
}

int dfi__source_multicast_greet(struct dfi_source *source, int64_t deadline)
{
	struct wait_policy policy = dfi__wait_policy(DFI_WAIT_BLOCK);
	struct remote *remote = dfi__sender_ring_ring(sender_of(source), 0);
	struct wait_time time = wait_time(0);
	_Atomic uint32_t *word =
	    &((struct ring_header *)(void *)remote->ring)->writer_waits;
	uint32_t unanswered;
	int ret;

	policy.arm = arm;
	policy.arm_arg = remote;
	policy.fenced = true;
	dfi__source_multicast_look(source);
	/* Wakes the owner when peers leave; pairs with dfi__peers_wake(). */
	atomic_publish(&source->targets.sleeping, word);
	do {
		ret = dfi__sender_ring_greet(sender_of(source));
		time.deadline = clock_now_ns() + GREET_NS;
	} while (!ret &&
	    !wait_until(
		&policy, word, &time, all_answered, source, WAIT_QUEUE_COST) &&
	    clock_now_ns() < deadline);
	atomic_set(&source->targets.sleeping, NULL);
	unanswered = find_unanswered(source);
	if (!ret && unanswered < source->n_remotes)
		return not_answered(source, unanswered);
	/*
	 * An answer may have reported an error, or the datagram endpoint is
	 * broken.
	 */
	if (!ret)
		ret = dfi__sender_ring_greet(sender_of(source));
	return ret < 0 ? greeted(source, ret) : 0;
}

void dfi__source_multicast_close(struct dfi_source *source)
{
	struct sender_ring *multicast = sender_of(source);

	if (!multicast)
		return;
	dfi__sender_ring_close(multicast);
	free(multicast);
	source->replica_writer->shared_ring.multicast = NULL;
}

void dfi__source_multicast_stop(struct dfi_source *source)
{
	if (sender_of(source))
		dfi__sender_ring_stop(sender_of(source));
}

/* ---- A target ---------------------------------------------------------- */

static bool find_source(
    void *arg, uint32_t index, struct multicast_address *address)
{
	struct dfi_target *target = arg;

	/* Pairs with the publish in target.c: orders the peers. */
	return atomic_observe(&target->knows_sources) &&
	    find_in(&target->sources, index, address);
}

int dfi__target_multicast_room(struct dfi_target *target)
{
	return dfi__multicast_take_room(target->dfi, &target->flow,
	    target->index, true, &target->ring_memory);
}

int dfi__target_multicast_open(struct dfi_target *target, int64_t deadline)
{
	struct multicast_config config;
	uint32_t i;
	int ret = dfi__multicast_configure(target->dfi, &target->flow, &config);

	if (ret < 0)
		return ret;
	config.find = find_source;
	config.find_arg = target;
	ret = dfi__replicate_target(target);
	if (ret < 0)
		return ret;
	ret = dfi__receiver_ring_open(&replicate_of(target)->multicast, &config,
	    target->index, target->flow.gap_timeout_us,
	    target->flow.loss_policy == DFI_LOSS_NOTIFY, target->region,
	    RING_FIRST_SEGMENT, deadline);
	if (ret < 0)
		return dfi__fail_within(ret, "flow '%s': target %u",
		    target->flow.name, target->index);
	target->datagrams =
	    &replicate_of(target)->multicast->end.endpoint->address;
	for (i = 0; i < target->n_readers; i++)
		target->readers[i].batch = 1;
	target->wait.arm = dfi__target_arm_networks;
	target->wait.arm_arg = target;
	target->wait.fenced = true;
	return 0;
}

bool dfi__target_multicast_follows(struct dfi_target *target, uint32_t source)
{
	if (!target->datagrams)
		return false;
	dfi__receiver_ring_source_gone(replicate_of(target)->multicast, source);
	return true;
}

void dfi__target_multicast_stop(struct dfi_target *target)
{
	if (target->datagrams)
		dfi__receiver_ring_stop(replicate_of(target)->multicast);
}

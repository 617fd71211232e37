/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread does the work of a multicast end: its owner while it polls
 * often, else the control thread, which the endpoint calls when a datagram
 * arrives or the alarm is due.
 */
#include "end.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dfi/error.h>
#include "base/clock.h"
#include "base/compiler.h"
#include "base/error.h"
#include "faults.h"

/*
 * While the owner polls, the control thread only checks at times that the owner
 * still does.
 */
#define IDLE_CHECK_NS (INT64_C(5) * NS_PER_MS)

/* How long to leave an unreachable peer alone. */
#define RETRY_NS NS_PER_S

static void fail(struct multicast_end *end)
{
	if (end->why[0])
		return;
	snprintf(end->why, sizeof(end->why), "%s", dfi_errmsg());
	/* Pairs with all observers of failed. It protects why. */
	atomic_publish(&end->failed, true);
	end->fresh = true;
	end->protocol->fail(end);
}

/* With faults, a datagram may be delivered twice or later. */
static void deliver(void *arg, const void *bytes, size_t size)
{
	struct multicast_end *end = arg;
	struct datagram datagram;

	if (dfi__datagram_parse(&end->config.flow, bytes, size, &datagram))
		end->protocol->receive(end, &datagram, clock_now_ns());
}

static void received(void *arg, const void *bytes, uint32_t size)
{
	struct multicast_end *end = arg;

	dfi__faults_receive(
	    end->faults, bytes, size, clock_now_ns(), deliver, end);
}

static void set_alarm(struct multicast_end *end, int64_t at)
{
	if (at >= end->alarm)
		return;
	end->alarm = at;
	end->endpoint->ops->alarm(end->endpoint, at);
}

void dfi__multicast_end_step(struct multicast_end *end)
{
	int64_t now;

	/* The endpoint may call this before end->endpoint is set. */
	if (unlikely(!end->endpoint || end->why[0]))
		return;
	if (end->endpoint->ops->take(end->endpoint) < 0) {
		fail(end);
		return;
	}
	now = clock_now_ns();
	dfi__faults_progress(end->faults, now, deliver, end);
	set_alarm(end, end->protocol->step(end, now));
	set_alarm(end, dfi__faults_due(end->faults));
}

void dfi__multicast_end_lock(struct multicast_end *end)
{
	atomic_fetch_add(&end->n_waiting, 1);
	dfi__lock_take(&end->lock);
	atomic_fetch_sub(&end->n_waiting, 1);
}

void dfi__multicast_end_unlock(struct multicast_end *end)
{
	lock_release(&end->lock);
}

void dfi__multicast_end_poll(struct multicast_end *end)
{
	/*
	 * A spinning thread would otherwise take the lock again before the
	 * sleeper runs.
	 */
	if (atomic_peek(&end->n_waiting) || !lock_try(&end->lock))
		return;
	atomic_set(&end->polls, atomic_peek(&end->polls) + 1);
	dfi__multicast_end_step(end);
	lock_release(&end->lock);
}

void dfi__multicast_end_arm(struct multicast_end *end)
{
	atomic_set(&end->sleeper, true);
	end->endpoint->ops->arm(end->endpoint);
	/*
	 * The endpoint does not announce datagrams that arrived before it was
	 * armed.
	 */
	dfi__multicast_end_lock(end);
	dfi__multicast_end_step(end);
	dfi__multicast_end_unlock(end);
}

/* Ask the endpoint to call for the next datagram, unless the owner polls. */
static void rearm(struct multicast_end *end, int64_t now)
{
	uint32_t polls = atomic_peek(&end->polls);
	bool active = polls != end->seen_polls;

	end->seen_polls = polls;
	/* The thread that polled may sleep by now. */
	if (!atomic_exchange(&end->sleeper, false) && active) {
		set_alarm(end, now + IDLE_CHECK_NS);
		return;
	}
	end->endpoint->ops->arm(end->endpoint);
	dfi__multicast_end_step(end);
}

static void ready(void *arg)
{
	struct multicast_end *end = arg;
	int64_t now = clock_now_ns();
	bool fresh;

	dfi__multicast_end_lock(end);
	if (!end->endpoint) {
		dfi__multicast_end_unlock(end);
		return;
	}
	if (end->alarm <= now)
		end->alarm = DEADLINE_NEVER;
	dfi__multicast_end_step(end);
	if (!end->why[0])
		rearm(end, now);
	/*
	 * This includes news that the owner's poll has found and not reported.
	 */
	fresh = end->fresh;
	end->fresh = false;
	dfi__multicast_end_unlock(end);
	if (fresh)
		end->protocol->wake(end);
}

/* Under the lock. NULL: the peer can't be reached now. */
static struct multicast_peer *find_peer(
    struct multicast_end *end, uint32_t index)
{
	struct multicast_end_peer *peer = &end->peers[index];
	struct multicast_address address;
	int64_t now;

	if (!end->config.find(end->config.find_arg, index, &address))
		return NULL;
	if (peer->peer &&
	    memcmp(&address, &peer->address, sizeof(address)) == 0)
		return peer->peer;
	now = clock_now_ns();
	if (now < peer->not_before)
		return NULL;
	if (peer->peer)
		end->endpoint->ops->peer_close(peer->peer);
	peer->peer = NULL;
	peer->address = address;
	if (end->endpoint->ops->peer_open(
		end->endpoint, &address, &peer->peer) < 0)
		/* The call above may have taken long. */
		peer->not_before = clock_now_ns() + RETRY_NS;
	return peer->peer;
}

int dfi__multicast_end_send(void *arg, uint32_t to, const void *header,
    size_t header_size, const void *payload, size_t payload_size)
{
	struct multicast_end *end = arg;
	struct multicast_peer *peer = NULL;
	int ret;

	if (unlikely(!end->endpoint))
		return -EAGAIN;
	if (to != DATAGRAM_ALL) {
		peer = find_peer(end, to);
		if (!peer)
			return 0; /* as if it were lost */
	}
	ret = end->endpoint->ops->send(
	    end->endpoint, peer, header, header_size, payload, payload_size);
	if (unlikely(ret < 0 && ret != -EAGAIN))
		fail(end);
	return ret;
}

struct multicast_attr dfi__multicast_end_attr(
    const struct multicast_config *config)
{
	return (struct multicast_attr){
		.group = config->group,
		.key = multicast_key(config->flow.instance),
		.max_size = (uint32_t)datagram_size_max(&config->flow.geometry),
		.member = config->member,
		.receives = config->receives,
		/* A process that is no member gets only reports. */
		.receive_size = config->member
		    ? (uint32_t)datagram_size_max(&config->flow.geometry)
		    : DATAGRAM_HEADER_MAX,
		.memory = config->memory,
		.memory_size = config->memory_size,
	};
}

int dfi__multicast_end_open(struct multicast_end *end,
    const struct multicast_protocol *protocol,
    const struct multicast_config *config, int64_t deadline)
{
	struct multicast_attr attr = dfi__multicast_end_attr(config);
	struct multicast_endpoint *endpoint;
	int ret;

	attr.received = received;
	attr.ready = ready;
	attr.arg = end;

	*end = (struct multicast_end){
		.protocol = protocol,
		.config = *config,
		.alarm = DEADLINE_NEVER,
		.peers = calloc(config->n_peers, sizeof(end->peers[0])),
	};
	if (!end->peers)
		return dfi__fail(-ENOMEM, "no memory for %u peers of a group",
		    config->n_peers);
	snprintf(end->group, sizeof(end->group), "%s", config->group);
	end->config.group = end->group;
	ret = dfi__faults_open(
	    2 * (uint64_t)config->index + config->member, &end->faults);
	if (!ret)
		ret = config->network->ops->mcast->open(
		    config->network, &attr, deadline, &endpoint);
	if (ret < 0) {
		dfi__faults_close(end->faults);
		free(end->peers);
		end->peers = NULL;
		return ret;
	}
	dfi__multicast_end_lock(end);
	end->endpoint = endpoint;
	dfi__multicast_end_unlock(end);
	/* The control thread begins with a first look. */
	endpoint->ops->arm(endpoint);
	endpoint->ops->alarm(endpoint, 0);
	return 0;
}

void dfi__multicast_end_close(struct multicast_end *end)
{
	const struct multicast_ops *ops;
	uint32_t i;

	if (!end->peers)
		return;
	ops = end->endpoint->ops;
	/* The protocol sends to peers until the endpoint is closed. */
	ops->close(end->endpoint);
	end->endpoint = NULL;
	for (i = 0; i < end->config.n_peers; i++)
		if (end->peers[i].peer)
			ops->peer_close(end->peers[i].peer);
	dfi__faults_close(end->faults);
	end->faults = NULL;
	free(end->peers);
	end->peers = NULL;
}

void dfi__multicast_end_describe(
    const struct multicast_end *end, char text[TRANSPORT_WAY_SIZE])
{
	const struct transport *network = end->config.network;
	char where[TRANSPORT_WAY_SIZE];

	network->ops->describe(network, NULL, where);
	snprintf(text, TRANSPORT_WAY_SIZE, "%.*s, multicast to %s",
	    (int)(TRANSPORT_WAY_SIZE - sizeof(", multicast to ") -
		sizeof(end->group)),
	    where, end->group);
}

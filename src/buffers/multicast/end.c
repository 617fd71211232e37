/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread does the work of a multicast end: its owner while it polls
 * often, else the control thread, which the port calls when a datagram arrives
 * or the alarm is due.
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
#include "transport/transport.h"
#include "faults.h"

/*
 * While the owner polls, the control thread only checks at times that the owner
 * still does.
 */
#define IDLE_CHECK_NS (INT64_C(5) * NS_PER_MS)

/* How long to leave an unreachable peer alone. */
#define RETRY_NS NS_PER_S

static void fail(struct cast *cast)
{
	if (cast->why[0])
		return;
	snprintf(cast->why, sizeof(cast->why), "%s", dfi_errmsg());
	/* Pairs with all observers of failed. It protects why. */
	atomic_publish(&cast->failed, true);
	cast->fresh = true;
	cast->protocol->fail(cast);
}

/* With faults, a datagram may be delivered twice or later. */
static void deliver(void *arg, const void *bytes, size_t size)
{
	struct cast *cast = arg;
	struct datagram datagram;

	if (dfi__datagram_parse(&cast->config.flow, bytes, size, &datagram))
		cast->protocol->receive(cast, &datagram, clock_now_ns());
}

static void received(void *arg, const void *bytes, uint32_t size)
{
	struct cast *cast = arg;

	dfi__faults_receive(
	    cast->faults, bytes, size, clock_now_ns(), deliver, cast);
}

static void set_alarm(struct cast *cast, int64_t at)
{
	if (at >= cast->alarm)
		return;
	cast->alarm = at;
	cast->port->ops->alarm(cast->port, at);
}

void dfi__cast_step(struct cast *cast)
{
	int64_t now;

	/* The port may call this before cast->port is set. */
	if (unlikely(!cast->port || cast->why[0]))
		return;
	if (cast->port->ops->progress(cast->port) < 0) {
		fail(cast);
		return;
	}
	now = clock_now_ns();
	dfi__faults_progress(cast->faults, now, deliver, cast);
	set_alarm(cast, cast->protocol->step(cast, now));
	set_alarm(cast, dfi__faults_due(cast->faults));
}

void dfi__cast_lock(struct cast *cast)
{
	atomic_fetch_add(&cast->n_waiting, 1);
	dfi__lock_take(&cast->lock);
	atomic_fetch_sub(&cast->n_waiting, 1);
}

void dfi__cast_unlock(struct cast *cast)
{
	lock_release(&cast->lock);
}

void dfi__cast_poll(struct cast *cast)
{
	/*
	 * A spinning thread would otherwise take the lock again before the
	 * sleeper runs.
	 */
	if (atomic_peek(&cast->n_waiting) || !lock_try(&cast->lock))
		return;
	atomic_set(&cast->polls, atomic_peek(&cast->polls) + 1);
	dfi__cast_step(cast);
	lock_release(&cast->lock);
}

void dfi__cast_arm(struct cast *cast)
{
	atomic_set(&cast->sleeper, true);
	cast->port->ops->arm(cast->port);
	/*
	 * The port does not announce datagrams that arrived before it was
	 * armed.
	 */
	dfi__cast_lock(cast);
	dfi__cast_step(cast);
	dfi__cast_unlock(cast);
}

/* Ask the port to call for the next datagram, unless the owner polls. */
static void rearm(struct cast *cast, int64_t now)
{
	uint32_t polls = atomic_peek(&cast->polls);
	bool active = polls != cast->seen_polls;

	cast->seen_polls = polls;
	/* The thread that polled may sleep by now. */
	if (!atomic_exchange(&cast->sleeper, false) && active) {
		set_alarm(cast, now + IDLE_CHECK_NS);
		return;
	}
	cast->port->ops->arm(cast->port);
	dfi__cast_step(cast);
}

static void ready(void *arg)
{
	struct cast *cast = arg;
	int64_t now = clock_now_ns();
	bool fresh;

	dfi__cast_lock(cast);
	if (!cast->port) {
		dfi__cast_unlock(cast);
		return;
	}
	if (cast->alarm <= now)
		cast->alarm = DEADLINE_NEVER;
	dfi__cast_step(cast);
	if (!cast->why[0])
		rearm(cast, now);
	/*
	 * This includes news that the owner's poll has found and not reported.
	 */
	fresh = cast->fresh;
	cast->fresh = false;
	dfi__cast_unlock(cast);
	if (fresh)
		cast->protocol->wake(cast);
}

/* Under the lock. NULL: the peer can't be reached now. */
static struct multicast_peer *find_peer(struct cast *cast, uint32_t index)
{
	struct cast_peer *peer = &cast->peers[index];
	struct multicast_address address;
	int64_t now;

	if (!cast->config.find(cast->config.find_arg, index, &address))
		return NULL;
	if (peer->peer &&
	    memcmp(&address, &peer->address, sizeof(address)) == 0)
		return peer->peer;
	now = clock_now_ns();
	if (now < peer->not_before)
		return NULL;
	if (peer->peer)
		cast->port->ops->peer_close(peer->peer);
	peer->peer = NULL;
	peer->address = address;
	if (cast->port->ops->peer_open(cast->port, &address, &peer->peer) < 0)
		/* The call above may have taken long. */
		peer->not_before = clock_now_ns() + RETRY_NS;
	return peer->peer;
}

int dfi__cast_send(void *arg, uint32_t to, const void *header,
    size_t header_size, const void *payload, size_t payload_size)
{
	struct cast *cast = arg;
	struct multicast_peer *peer = NULL;
	int ret;

	if (unlikely(!cast->port))
		return -EAGAIN;
	if (to != DATAGRAM_ALL) {
		peer = find_peer(cast, to);
		if (!peer)
			return 0; /* as if it were lost */
	}
	ret = cast->port->ops->send(
	    cast->port, peer, header, header_size, payload, payload_size);
	if (unlikely(ret < 0 && ret != -EAGAIN))
		fail(cast);
	return ret;
}

struct multicast_attr dfi__cast_attr(const struct cast_config *config)
{
	return (struct multicast_attr){
		.group = config->group,
		.key = cast_key(config->flow.instance),
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

int dfi__cast_open(struct cast *cast, const struct cast_protocol *protocol,
    const struct cast_config *config, int64_t deadline)
{
	struct multicast_attr attr = dfi__cast_attr(config);
	struct multicast_port *port;
	int ret;

	attr.received = received;
	attr.ready = ready;
	attr.arg = cast;

	*cast = (struct cast){
		.protocol = protocol,
		.config = *config,
		.alarm = DEADLINE_NEVER,
		.peers = calloc(config->n_peers, sizeof(cast->peers[0])),
	};
	if (!cast->peers)
		return dfi__fail(-ENOMEM, "no memory for %u peers of a group",
		    config->n_peers);
	snprintf(cast->group, sizeof(cast->group), "%s", config->group);
	cast->config.group = cast->group;
	ret = dfi__faults_open(
	    2 * (uint64_t)config->index + config->member, &cast->faults);
	if (!ret)
		ret = config->network->ops->mcast->open(
		    config->network, &attr, deadline, &port);
	if (ret < 0) {
		dfi__faults_close(cast->faults);
		free(cast->peers);
		cast->peers = NULL;
		return ret;
	}
	dfi__cast_lock(cast);
	cast->port = port;
	dfi__cast_unlock(cast);
	/* The control thread begins with a first look. */
	port->ops->arm(port);
	port->ops->alarm(port, 0);
	return 0;
}

void dfi__cast_close(struct cast *cast)
{
	const struct multicast_ops *ops;
	uint32_t i;

	if (!cast->peers)
		return;
	ops = cast->port->ops;
	/* The protocol sends to peers until the port is closed. */
	ops->close(cast->port);
	cast->port = NULL;
	for (i = 0; i < cast->config.n_peers; i++)
		if (cast->peers[i].peer)
			ops->peer_close(cast->peers[i].peer);
	dfi__faults_close(cast->faults);
	cast->faults = NULL;
	free(cast->peers);
	cast->peers = NULL;
}

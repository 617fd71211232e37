/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers come and go as keys in the registry. A peer's key goes when it closes
 * or when its process dies; whether that was the end of the flow or not, the
 * ring says, which by then holds all that the peer ever wrote.
 */
#include "peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/fence.h"
#include "../base/log.h"
#include "../base/wait.h"
#include "../registry/client.h"
#include "context.h"
#include "processes.h"

/* Under the lock, on the control thread. */
static void set_gone(struct peer *peer)
{
	/* Pairs with peers_state(). */
	if (atomic_peek(&peer->state) == PEER_PRESENT)
		atomic_publish(&peer->state, PEER_GONE);
}

/* Likewise. */
static void set_peer(struct peer *peer, const struct registry_event *event)
{
	struct endpoint endpoint;

	if (event->type == REGISTRY_DELETE) {
		set_gone(peer);
		return;
	}
	if (atomic_peek(&peer->state) > PEER_PRESENT)
		return;
	if (dfi__endpoint_decode(event->data, event->size, &endpoint) < 0) {
		dfi__log(DFI_LOG_WARN, "%s: %s", event->key, dfi_errmsg());
		return;
	}
	if (atomic_peek(&peer->state) == PEER_ABSENT) {
		peer->endpoint = endpoint;
		atomic_publish(&peer->state, PEER_PRESENT);
	}
	if (endpoint.cancelled)
		atomic_publish(&peer->state, PEER_CANCELLED);
}

/* Under the lock, so that the word can't go meanwhile. */
static void wake_owner(struct peers *peers)
{
	_Atomic uint32_t *word;

	/*
	 * The owner stores sleeping, announces its sleep (with a fence), and
	 * then looks at what we have published: see wait_wake().
	 */
	dfi__fence_full();
	word = atomic_observe(&peers->sleeping);
	if (word)
		dfi__wait_wake(word);
}

void dfi__peers_wake(struct peers *peers)
{
	pthread_mutex_lock(&peers->lock);
	wake_owner(peers);
	pthread_mutex_unlock(&peers->lock);
}

void dfi__peers_withdraw(struct peers *peers)
{
	pthread_mutex_lock(&peers->lock);
	atomic_set(&peers->sleeping, NULL);
	pthread_mutex_unlock(&peers->lock);
}

/* Under the lock: something is published for the owner to see. */
static void tell_owner(struct peers *peers)
{
	/* Pairs with peers_changes(). */
	atomic_publish(&peers->changes, atomic_peek(&peers->changes) + 1);
	pthread_cond_broadcast(&peers->changed);
	wake_owner(peers);
}

/* Under the lock: what it would have told of, the processes tell of now. */
static void lose_registry(struct peers *peers)
{
	const struct peer *peer;
	uint32_t i;

	atomic_set(&peers->registry_lost, true);
	for (i = 0; i < peers->n; i++) {
		peer = &peers->peer[i];
		if (atomic_peek(&peer->state) == PEER_PRESENT &&
		    dfi__processes_has_died(
			peers->processes, &peer->endpoint.node))
			set_gone(&peers->peer[i]);
	}
}

void dfi__peers_process_died(
    struct peers *peers, const struct node *node, bool at_last)
{
	struct peer *peer;
	bool found = false;
	uint32_t i;

	pthread_mutex_lock(&peers->lock);
	for (i = 0; i < peers->n; i++) {
		peer = &peers->peer[i];
		if (atomic_peek(&peer->state) != PEER_PRESENT ||
		    !dfi__node_is_process(&peer->endpoint.node, node) ||
		    !(at_last || atomic_peek(&peers->registry_lost)))
			continue;
		set_gone(peer);
		found = true;
	}
	if (found)
		tell_owner(peers);
	pthread_mutex_unlock(&peers->lock);
}

static void on_event(void *arg, const struct registry_event *event)
{
	struct peers *peers = arg;
	uint32_t index = peers->n;

	pthread_mutex_lock(&peers->lock);
	if (event->type == REGISTRY_LOST)
		lose_registry(peers);
	else if (event->type == REGISTRY_BACK)
		atomic_set(&peers->registry_lost, false);
	else if (dfi__endpoint_index(event->key, &index) && index < peers->n)
		set_peer(&peers->peer[index], event);
	tell_owner(peers);
	pthread_mutex_unlock(&peers->lock);
	/* The control thread's alone: it doesn't change any more. */
	if (event->type == REGISTRY_PUT && index < peers->n &&
	    atomic_peek(&peers->peer[index].state) == PEER_PRESENT)
		dfi__processes_watch(
		    peers->processes, &peers->peer[index].endpoint.node);
}

static void init_lock(struct peers *peers)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&peers->changed, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&peers->lock, NULL);
}

int dfi__peers_join(struct peers *peers, struct dfi *dfi, struct flow *flow,
    const char *role, const struct registry_entry *own, int64_t deadline)
{
	char prefix[KEY_SIZE];
	int ret;

	peers->flow = flow;
	peers->role = role;
	peers->n = !strcmp(role, "source") ? flow->n_sources : flow->n_targets;
	peers->peer = calloc(peers->n, sizeof(peers->peer[0]));
	if (!peers->peer)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	init_lock(peers);
	peers->processes = dfi->processes;
	dfi__processes_add(peers->processes, peers);
	dfi__endpoint_prefix(prefix, flow, role);
	ret = own ? dfi__client_watch_and_create(dfi->registry, prefix,
			on_event, peers, own, deadline, &peers->watch)
		  : dfi__client_watch(dfi->registry, prefix, on_event, peers,
			deadline, &peers->watch);
	if (ret < 0)
		dfi__peers_close(peers, NULL);
	return ret;
}

int dfi__peers_open(struct peers *peers, struct dfi *dfi, struct flow *flow,
    const char *role, int64_t deadline)
{
	return dfi__peers_join(peers, dfi, flow, role, NULL, deadline);
}

void dfi__peers_close(struct peers *peers, const char *own_key)
{
	dfi__processes_remove(peers->processes, peers);
	if (own_key)
		dfi__client_leave(peers->watch, own_key);
	else
		dfi__client_unwatch(peers->watch);
	pthread_cond_destroy(&peers->changed);
	pthread_mutex_destroy(&peers->lock);
	free(peers->peer);
}

static uint32_t find_state(struct peers *peers, uint32_t state)
{
	uint32_t i;

	for (i = 0; i < peers->n; i++)
		if (peers_state(peers, i) == state)
			break;
	return i;
}

bool dfi__peers_all_there(struct peers *peers)
{
	return find_state(peers, PEER_ABSENT) == peers->n;
}

int dfi__peers_missing(struct peers *peers)
{
	uint32_t i, first = peers->n, n_missing = 0;

	for (i = 0; i < peers->n; i++)
		if (peers_state(peers, i) == PEER_ABSENT) {
			if (!n_missing++)
				first = i;
		}
	if (n_missing > 1)
		return dfi__fail(-ETIMEDOUT,
		    "flow '%s': waiting for %s %u and %u more of %u: nobody "
		    "has opened them",
		    peers->flow->name, peers->role, first, n_missing - 1,
		    peers->n);
	return dfi__fail(-ETIMEDOUT,
	    "flow '%s': waiting for %s %u of %u: nobody has opened it",
	    peers->flow->name, peers->role, first, peers->n);
}

void dfi__peers_name(
    struct peers *peers, uint32_t index, char *name, size_t size)
{
	const struct node *node = &peers->peer[index].endpoint.node;

	if (peers_state(peers, index) == PEER_ABSENT)
		snprintf(name, size, "%s %u", peers->role, index);
	else
		snprintf(name, size, "%s %u (node %s, host %s, pid %u)",
		    peers->role, index, node->name, node->host, node->pid);
}

int dfi__peers_lost(struct peers *peers, uint32_t index)
{
	const char *why = NULL;
	char name[256];

	dfi__peers_name(peers, index, name, sizeof(name));
	if (peers->why_lost && peers_state(peers, index) != PEER_GONE)
		why = peers->why_lost(peers, index);
	if (why)
		return dfi__fail(-ECONNRESET,
		    "flow '%s': the connection with %s broke: %s",
		    peers->flow->name, name, why);
	return dfi__fail(-ECONNRESET,
	    "flow '%s': %s died or closed before the end of the flow",
	    peers->flow->name, name);
}

bool dfi__peers_await_gone(
    struct peers *peers, uint32_t index, int64_t deadline)
{
	struct timespec until = deadline_timespec(deadline);
	int err = 0;

	pthread_mutex_lock(&peers->lock);
	while (peers_state(peers, index) == PEER_PRESENT && err != ETIMEDOUT)
		err = pthread_cond_timedwait(
		    &peers->changed, &peers->lock, &until);
	pthread_mutex_unlock(&peers->lock);
	return peers_state(peers, index) == PEER_GONE;
}

int dfi__peers_await(struct peers *peers, int64_t deadline)
{
	struct timespec until = deadline_timespec(deadline);
	uint32_t gone;
	int ret = 0;

	pthread_mutex_lock(&peers->lock);
	for (;;) {
		gone = find_state(peers, PEER_GONE);
		if (gone < peers->n || dfi__peers_all_there(peers))
			break;
		if (atomic_peek(&peers->registry_lost)) {
			ret = dfi__fail(-ENOTCONN,
			    "flow '%s': the connection to the registry was "
			    "lost while waiting for its %ss",
			    peers->flow->name, peers->role);
			break;
		}
		if (pthread_cond_timedwait(
			&peers->changed, &peers->lock, &until) == ETIMEDOUT) {
			if (!dfi__peers_all_there(peers))
				ret = dfi__peers_missing(peers);
			break;
		}
	}
	pthread_mutex_unlock(&peers->lock);
	if (!ret && gone < peers->n)
		ret = dfi__peers_lost(peers, gone);
	return ret;
}

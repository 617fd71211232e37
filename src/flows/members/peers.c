/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers come and go as keys in the registry. A peer's key goes when the peer
 * closes or its process dies. The ring tells whether that was the end of the
 * flow: by then it holds all that the peer ever wrote.
 */
#include "peers.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/fence.h"
#include "base/log.h"
#include "base/wait.h"
#include "registry/client/client.h"
#include "flows/context/context.h"

/* Under the lock, on the control thread, as the next two functions. */
static void set_gone(struct peer *peer)
{
	/* Pairs with peers_state(). */
	if (atomic_peek(&peer->state) == PEER_PRESENT)
		atomic_publish(&peer->state, PEER_GONE);
}

/* Otherwise other endpoints would wait for answers in vain. */
static void set_again(struct peer *peer, const struct endpoint *endpoint)
{
	if (atomic_peek(&peer->state) != PEER_GONE ||
	    !endpoint->has_datagram_address || atomic_peek(&peer->again))
		return;
	peer->again_address = endpoint->datagram_address;
	/* Pairs with the observe in end.c: publishes again_address. */
	atomic_publish(&peer->again, true);
}

static bool is_same(const struct endpoint *a, const struct endpoint *b)
{
	return a->node.id == b->node.id &&
	    dfi__region_is_same(&a->region, &b->region);
}

/* Keep a peer's endpoint; addresses for which there is no memory are left out.
 */
static void keep_endpoint(struct peer *peer, const struct endpoint *endpoint)
{
	struct published_region *region = &peer->endpoint.region;
	uint32_t n = endpoint->region.n_addresses;

	peer->endpoint = *endpoint;
	region->more = NULL;
	if (n <= REGION_FEW_ADDRESSES)
		return;
	n -= REGION_FEW_ADDRESSES;
	region->more = malloc(n * sizeof(region->more[0]));
	if (region->more)
		memcpy(region->more, endpoint->region.more,
		    n * sizeof(region->more[0]));
	else
		region->n_addresses = REGION_FEW_ADDRESSES;
}

static void set_peer(struct peer *peer, const struct registry_event *event)
{
	struct region_address more[REGION_MORE_ADDRESSES];
	struct endpoint endpoint;

	if (event->type == REGISTRY_DELETE) {
		/*
		 * If replaced, the PUT that follows shows whether the peer is
		 * another.
		 */
		if (!event->replaced)
			set_gone(peer);
		return;
	}
	if (dfi__endpoint_decode_all(
		event->data, event->size, more, &endpoint) < 0) {
		dfi__log(DFI_LOG_WARN, "%s: %s", event->key, dfi_errmsg());
		/* It is another peer than before. */
		set_gone(peer);
		return;
	}
	if (atomic_peek(&peer->state) == PEER_PRESENT &&
	    !is_same(&peer->endpoint, &endpoint))
		set_gone(peer);
	if (atomic_peek(&peer->state) > PEER_PRESENT) {
		set_again(peer, &endpoint);
		return;
	}
	if (atomic_peek(&peer->state) == PEER_ABSENT) {
		keep_endpoint(peer, &endpoint);
		peer->revision = event->revision;
		atomic_publish(&peer->state, PEER_PRESENT);
	}
	if (endpoint.done)
		atomic_set(&peer->done, true);
	if (endpoint.left) {
		atomic_set(&peer->given_back, endpoint.given_back);
		atomic_set(&peer->left, true);
	}
	if (endpoint.cancelled)
		atomic_publish(&peer->state, PEER_CANCELLED);
}

void dfi__peers_wake(struct peers *peers)
{
	_Atomic uint32_t *word;

	/*
	 * The owner stores sleeping, announces its sleep (with a fence), and
	 * then reads what was published here: see wait_wake().
	 */
	fence_full();
	word = atomic_observe(&peers->sleeping);
	if (word)
		dfi__wait_wake(word);
}

void dfi__peers_withdraw(struct peers *peers)
{
	pthread_mutex_lock(&peers->lock);
	atomic_set(&peers->sleeping, NULL);
	pthread_mutex_unlock(&peers->lock);
}

/* Under the lock: notify the owner of a published change. */
static void notify_owner(struct peers *peers)
{
	/* Pairs with peers_changes(). */
	atomic_publish(&peers->changes, atomic_peek(&peers->changes) + 1);
	pthread_cond_broadcast(&peers->changed);
	dfi__peers_wake(peers);
}

/*
 * Under the lock: from now on the processes report what the registry would
 * have.
 */
static void lose_registry(struct peers *peers)
{
	const struct peer *peer;
	uint32_t i;

	atomic_set(&peers->registry_lost, true);
	for (i = 0; i < peers->n; i++) {
		peer = &peers->peer[i];
		if (atomic_peek(&peer->state) == PEER_PRESENT &&
		    dfi__processes_has_died(
			peers->dfi->processes, &peer->endpoint.node))
			set_gone(&peers->peer[i]);
	}
}

bool dfi__peers_out_of_sight(const struct peers *peers, uint32_t index)
{
	const struct peer *peer = &peers->peer[index];

	return flow_is_multicast(peers->flow) &&
	    dfi__host_distance(&peer->endpoint.node.at, &peers->dfi->node.at) !=
	    HOST_SAME;
}

/*
 * Under the lock. The registry's machine has not answered for a whole lease, so
 * the other members consider this process dead. Peers with a connection to this
 * process stay: the connection tells whether they live. The others count as
 * gone.
 */
static void lose_contact(struct peers *peers)
{
	uint32_t i;

	atomic_set(&peers->cut_off, true);
	for (i = 0; i < peers->n; i++)
		if (dfi__peers_out_of_sight(peers, i))
			set_gone(&peers->peer[i]);
}

/* Its endpoints are gone if the registry is lost, or if at_last is set. */
static void on_process_end(
    struct process_watcher *watcher, const struct node *node, bool at_last)
{
	struct peers *peers = (void *)((char *)watcher -
	    offsetof(struct peers, processes));
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
		notify_owner(peers);
	pthread_mutex_unlock(&peers->lock);
}

/*
 * Returns the flow's watch if all peers have attached. The caller ends it
 * without the lock.
 */
static struct registry_watch *take_flow_watch(struct peers *peers)
{
	struct registry_watch *watch = peers->flow_watch;

	if (!watch || !dfi__peers_all_attached(peers))
		return NULL;
	peers->flow_watch = NULL;
	return watch;
}

/* Whether the key still names this flow, and not another of the same name. */
static bool is_our_flow(
    const struct peers *peers, const struct registry_event *event)
{
	struct flow flow;
	bool ours;

	if (event->type != REGISTRY_PUT ||
	    dfi__flow_decode(
		peers->flow->name, event->data, event->size, &flow) < 0)
		return false;
	ours = flow.instance == peers->flow->instance;
	dfi__flow_free(&flow);
	return ours;
}

/* A lost registry counts here as it does in the peers' watch. */
static void on_flow_event(void *arg, const struct registry_event *event)
{
	void (*outlive)(struct peers * peers);
	struct peers *peers = arg;
	bool ours;

	if (event->type != REGISTRY_PUT && event->type != REGISTRY_DELETE)
		return;
	ours = is_our_flow(peers, event);
	pthread_mutex_lock(&peers->lock);
	peers->flow_seen |= ours;
	if (!ours)
		atomic_set(&peers->flow_gone, true);
	notify_owner(peers);
	outlive = peers->outlive;
	pthread_mutex_unlock(&peers->lock);
	if (unlikely(outlive != NULL))
		outlive(peers);
}

/* The flow's watch has reported the flow. */
static void keep_flow_watch(struct peers *peers, struct registry_watch *watch)
{
	pthread_mutex_lock(&peers->lock);
	peers->flow_watch = watch;
	if (!peers->flow_seen)
		atomic_set(&peers->flow_gone, true);
	notify_owner(peers);
	watch = take_flow_watch(peers);
	pthread_mutex_unlock(&peers->lock);
	dfi__client_unwatch(watch);
}

/* The index of the peer that has the key; otherwise *index stays as it is. */
static bool find_index(
    const struct peers *peers, const char *key, uint32_t *index)
{
	uint32_t number;

	if (!dfi__endpoint_index(key, &number) ||
	    number - peers->first >= peers->n)
		return false;
	*index = number - peers->first;
	return true;
}

static void on_event(void *arg, const struct registry_event *event)
{
	struct registry_watch *flow_watch;
	void (*outlive)(struct peers * peers);
	struct peers *peers = arg;
	uint32_t index = peers->n;

	pthread_mutex_lock(&peers->lock);
	if (event->type == REGISTRY_LOST)
		lose_registry(peers);
	else if (event->type == REGISTRY_CUT)
		lose_contact(peers);
	else if (event->type == REGISTRY_BACK)
		atomic_set(&peers->registry_lost, false);
	else if (find_index(peers, event->key, &index))
		set_peer(&peers->peer[index], event);
	notify_owner(peers);
	flow_watch = take_flow_watch(peers);
	outlive = peers->outlive;
	pthread_mutex_unlock(&peers->lock);
	dfi__client_unwatch(flow_watch);
	/* Only the control thread changes it. */
	if (event->type == REGISTRY_PUT && index < peers->n &&
	    atomic_peek(&peers->peer[index].state) == PEER_PRESENT)
		dfi__processes_watch(
		    peers->dfi->processes, &peers->peer[index].endpoint.node);
	if (unlikely(outlive != NULL))
		outlive(peers);
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

static int init(
    struct peers *peers, struct dfi *dfi, struct flow *flow, const char *role)
{
	peers->dfi = dfi;
	peers->flow = flow;
	peers->role = role;
	if (!strcmp(role, "source")) {
		peers->word = flow_source_word(flow);
		peers->first = flow->part.first_source;
		peers->n = flow->n_sources;
	} else {
		peers->word = flow_target_word(flow);
		peers->first = flow_first_target(flow);
		peers->n = flow->n_targets;
	}
	peers->peer = calloc(peers->n, sizeof(peers->peer[0]));
	if (!peers->peer)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", flow->name);
	init_lock(peers);
	peers->processes.ended = on_process_end;
	dfi__processes_add(dfi->processes, &peers->processes);
	return 0;
}

/* A peer that had attached before an entry of that revision; n: none. */
static uint32_t find_before(struct peers *peers, uint64_t revision)
{
	uint32_t i;

	for (i = 0; i < peers->n; i++)
		/* Pairs with set_peer(): orders the revision. */
		if (atomic_observe(&peers->peer[i].state) != PEER_ABSENT &&
		    peers->peer[i].revision &&
		    peers->peer[i].revision < revision)
			break;
	return i;
}

int dfi__peers_join(struct peers *peers, struct dfi *dfi, struct flow *flow,
    const char *role, struct registry_entry *own, uint32_t *before,
    int64_t deadline)
{
	char prefix[KEY_SIZE], flow_key[KEY_SIZE];
	struct registry_interest interests[] = {
		{ .prefix = prefix, .fn = on_event, .arg = peers },
		{ .prefix = flow_key,
		    .exact = true,
		    .fn = on_flow_event,
		    .arg = peers },
	};
	int ret = init(peers, dfi, flow, role);

	if (ret < 0)
		return ret;
	*before = peers->n;
	dfi__endpoint_prefix(prefix, flow, role);
	dfi__flow_key(flow_key, flow->name);
	ret = dfi__client_join(dfi->registry, interests,
	    sizeof(interests) / sizeof(interests[0]), own, deadline);
	if (ret < 0) {
		dfi__peers_close(peers, NULL);
		return ret;
	}
	peers->watch = interests[0].watch;
	keep_flow_watch(peers, interests[1].watch);
	*before = find_before(peers, own->revision);
	if (*before == peers->n)
		return 0;
	dfi__peers_close(peers, own->key);
	return -EEXIST;
}

int dfi__peers_open(struct peers *peers, struct dfi *dfi, struct flow *flow,
    const char *role, int64_t deadline)
{
	char prefix[KEY_SIZE];
	int ret = init(peers, dfi, flow, role);

	if (ret < 0)
		return ret;
	dfi__endpoint_prefix(prefix, flow, role);
	ret = dfi__client_watch(
	    dfi->registry, prefix, on_event, peers, deadline, &peers->watch);
	if (ret < 0)
		dfi__peers_close(peers, NULL);
	return ret;
}

void dfi__peers_close(struct peers *peers, const char *own_key)
{
	struct registry_watch *flow_watch;
	uint32_t i;

	dfi__processes_remove(peers->dfi->processes, &peers->processes);
	pthread_mutex_lock(&peers->lock);
	flow_watch = peers->flow_watch;
	peers->flow_watch = NULL;
	pthread_mutex_unlock(&peers->lock);
	dfi__client_unwatch(flow_watch);
	if (own_key)
		dfi__client_leave(peers->watch, own_key);
	else
		dfi__client_unwatch(peers->watch);
	pthread_cond_destroy(&peers->changed);
	pthread_mutex_destroy(&peers->lock);
	for (i = 0; i < peers->n; i++)
		free(peers->peer[i].endpoint.region.more);
	free(peers->peer);
}

void dfi__peers_outlive(
    struct peers *peers, void (*outlive)(struct peers *peers))
{
	pthread_mutex_lock(&peers->lock);
	peers->outlive = outlive;
	pthread_mutex_unlock(&peers->lock);
}

int dfi__peers_watch_flow(struct peers *peers, int64_t deadline)
{
	struct dfi *dfi = peers->dfi;
	struct registry_watch *watch;
	char key[KEY_SIZE];
	int ret;

	if (dfi__peers_all_attached(peers))
		return 0;
	dfi__flow_key(key, peers->flow->name);
	ret = dfi__client_watch_key(
	    dfi->registry, key, on_flow_event, peers, deadline, &watch);
	if (ret < 0)
		return dfi__fail_within(ret, "flow '%s'", peers->flow->name);
	keep_flow_watch(peers, watch);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an owner asks of its peers: which are missing, which have left, and why.
 * The waits for peers are here as well.
 */
#include "peers.h"

#include <stdio.h>
#include "base/clock.h"
#include "base/error.h"
#include "flows/context/context.h"

static uint32_t find_state(struct peers *peers, uint32_t state)
{
	uint32_t i;

	for (i = 0; i < peers->n; i++)
		if (peers_state(peers, i) == state)
			break;
	return i;
}

bool dfi__peers_all_attached(struct peers *peers)
{
	return find_state(peers, PEER_ABSENT) == peers->n;
}

bool dfi__peers_expected(struct peers *peers)
{
	return !atomic_peek(&peers->flow_gone) &&
	    !atomic_peek(&peers->cut_off) && !dfi__peers_all_attached(peers);
}

bool dfi__peers_cannot_attach(struct peers *peers)
{
	return (atomic_peek(&peers->flow_gone) ||
		   atomic_peek(&peers->cut_off)) &&
	    !dfi__peers_all_attached(peers);
}

/* Write "source 2 of 4", or "source 2 and 1 more of 4"; returns how many. */
static uint32_t name_missing(struct peers *peers, char *text, size_t size)
{
	uint32_t i, first = peers->n, n_missing = 0;
	char of[24] = "";

	/* In a tree these are only some of the flow's endpoints. */
	if (!peers->flow->fan_in)
		snprintf(of, sizeof(of), " of %u", peers->n);
	for (i = 0; i < peers->n; i++)
		if (peers_state(peers, i) == PEER_ABSENT) {
			if (!n_missing++)
				first = i;
		}
	if (n_missing > 1)
		snprintf(text, size, "%s %u and %u more%s",
		    PEER_ID(peers, first), n_missing - 1, of);
	else
		snprintf(text, size, "%s %u%s", PEER_ID(peers, first), of);
	return n_missing;
}

int dfi__peers_missing(struct peers *peers)
{
	char missing[64];
	uint32_t n = name_missing(peers, missing, sizeof(missing));

	return dfi__fail(-ETIMEDOUT,
	    "flow '%s': waiting for %s: nobody has opened %s",
	    peers->flow->name, missing, n > 1 ? "them" : "it");
}

#define CUT_OFF                                                               \
	"the registry's machine has not answered for as long as this "        \
	"process's lease (DFI_LEASE, or dfi_attr.lease_ttl_ms), so that the " \
	"others take this process for dead: is the network there?"

int dfi__peers_flow_gone(struct peers *peers)
{
	const struct node *creator = &peers->flow->creator;
	char missing[64];

	name_missing(peers, missing, sizeof(missing));
	if (!atomic_peek(&peers->flow_gone))
		return dfi__fail(-ECONNRESET,
		    "flow '%s': %s can't attach any more: " CUT_OFF,
		    peers->flow->name, missing);
	return dfi__fail(-ECONNRESET,
	    "flow '%s': its creator (node %s, host %s, pid %u) died, or the "
	    "flow was removed, before %s attached: nobody can any more",
	    peers->flow->name, creator->name, creator->host, creator->pid,
	    missing);
}

void dfi__peers_name(
    struct peers *peers, uint32_t index, char *name, size_t size)
{
	const struct node *node = &peers->peer[index].endpoint.node;

	if (peers_state(peers, index) == PEER_ABSENT)
		snprintf(name, size, "%s %u", PEER_ID(peers, index));
	else
		snprintf(name, size, "%s %u (node %s, host %s, pid %u)",
		    PEER_ID(peers, index), node->name, node->host, node->pid);
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
	if (atomic_peek(&peers->cut_off) &&
	    dfi__peers_out_of_sight(peers, index))
		return dfi__fail(-ECONNRESET,
		    "flow '%s': %s is lost to this process: " CUT_OFF,
		    peers->flow->name, name);
	return dfi__fail(-ECONNRESET,
	    "flow '%s': %s died or closed before the end of the flow",
	    peers->flow->name, name);
}

bool dfi__peers_await_gone(
    struct peers *peers, uint32_t index, int64_t deadline)
{
	struct timespec until = deadline_timespec(deadline);
	int err = 0;
	CANCEL_OFF;

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
	int ret = dfi__peers_watch_flow(peers, deadline);
	uint32_t gone;

	if (ret < 0)
		return ret;
	pthread_mutex_lock(&peers->lock);
	for (;;) {
		gone = find_state(peers, PEER_GONE);
		if (gone < peers->n || dfi__peers_all_attached(peers))
			break;
		if (dfi__peers_cannot_attach(peers)) {
			ret = dfi__peers_flow_gone(peers);
			break;
		}
		if (atomic_peek(&peers->registry_lost)) {
			ret = dfi__fail(-ENOTCONN,
			    "flow '%s': the connection to the registry was "
			    "lost while waiting for its %ss",
			    peers->flow->name, peers->word);
			break;
		}
		if (pthread_cond_timedwait(
			&peers->changed, &peers->lock, &until) == ETIMEDOUT) {
			if (!dfi__peers_all_attached(peers))
				ret = dfi__peers_missing(peers);
			break;
		}
	}
	pthread_mutex_unlock(&peers->lock);
	if (!ret && gone < peers->n)
		ret = dfi__peers_lost(peers, gone);
	return ret;
}

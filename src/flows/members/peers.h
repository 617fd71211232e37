/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other side of an endpoint: for a source the flow's targets, for a target
 * its sources. peers.c watches them attach and leave, on the control thread,
 * and wakes the endpoint's owner; peers_await.c answers the owner.
 */
#ifndef DFI_FLOWS_MEMBERS_PEERS_H
#define DFI_FLOWS_MEMBERS_PEERS_H

#include <pthread.h>
#include <stdbool.h>
#include "base/atomic.h"
#include "flows/descriptor/descriptor.h"
#include "flows/context/processes.h"

struct dfi;
struct registry_entry;
struct registry_watch;

enum peer_state {
	PEER_ABSENT = 0, /* not yet attached */
	PEER_PRESENT,
	PEER_GONE,      /* was attached; closed or died */
	PEER_CANCELLED, /* a target that wants no more, attached or not */
};

struct peer {
	_Atomic uint32_t state; /* publishes endpoint, and PEER_GONE done */
	_Atomic bool done;      /* it has said that it has all */
	/* Another has attached with the index of one that is gone, and is to be
	 * told so; again publishes where it is. */
	_Atomic bool again;
	struct multicast_address again_port;
	struct endpoint endpoint;
	uint64_t revision; /* of the registry, when it attached */
};

struct peers {
	/* What a transport says of a peer that it has lost, or NULL. */
	const char *(*why_lost)(const struct peers *peers, uint32_t index);
	struct flow *flow;
	const char *role;  /* "source" or "target" */
	const char *word;  /* for people; of a tree "combiner" */
	uint32_t first, n; /* their numbers begin here */
	struct peer *peer;
	_Atomic uint32_t changes; /* counts; a hot loop looks at this alone */
	_Atomic bool registry_lost;
	_Atomic bool flow_gone; /* removed, or its creator died: no more come */
	_Atomic bool cut_off;   /* we are; so no more come here */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* The word in which the owner sleeps, or NULL. */
	_Atomic(_Atomic uint32_t *) sleeping;
	struct registry_watch *watch;
	/* Of the flow, until all peers have attached, or NULL; under the lock.
	 */
	struct registry_watch *flow_watch;
	bool flow_seen;
	/* See dfi__peers_outlive(), or NULL. */
	void (*outlive)(struct peers *peers);
	struct dfi *dfi;
	struct process_watcher processes;
};

/*
 * Start to watch the flow's endpoints of a role. The flow must outlive it, and
 * peers must not move.
 */
int dfi__peers_open(struct peers *peers, struct dfi *dfi, struct flow *flow,
    const char *role, int64_t deadline);

/*
 * The same, and then create the owner's own entry, in one go. Until all peers
 * have attached, also watches the flow. -EEXIST: somebody has that entry; or,
 * if *before is not the number of peers but one of them, that was attached
 * before the owner was.
 */
int dfi__peers_join(struct peers *peers, struct dfi *dfi, struct flow *flow,
    const char *role, struct registry_entry *own, uint32_t *before,
    int64_t deadline);

/*
 * Stop, and withdraw the owner's own entry, if own_key isn't NULL, without
 * waiting for that; afterwards nobody wakes the owner any more. Leaves
 * dfi_errmsg() alone.
 */
void dfi__peers_close(struct peers *peers, const char *own_key);

/*
 * The owner has closed, but its entry has to stay for peers that are to come:
 * call outlive() after each change from now on, on the control thread, as the
 * last thing that is done with peers, which it may close.
 */
void dfi__peers_outlive(
    struct peers *peers, void (*outlive)(struct peers *peers));

/* Whether a peer may still attach. */
bool dfi__peers_expected(struct peers *peers);

/*
 * Wait until every peer has attached. -ETIMEDOUT: the text names the missing.
 * -ECONNRESET: one has left already, or the flow's creator. -ENOTCONN: the
 * registry is lost.
 */
int dfi__peers_await(struct peers *peers, int64_t deadline);

/*
 * If some are not there yet, watch the flow, which says whether they still can
 * come. Only an owner that waits needs that.
 */
int dfi__peers_watch_flow(struct peers *peers, int64_t deadline);

/* Whether only the registry tells that this peer has died. */
bool dfi__peers_out_of_sight(const struct peers *peers, uint32_t index);

/* Whether an attached peer leaves before the deadline. */
bool dfi__peers_await_gone(
    struct peers *peers, uint32_t index, int64_t deadline);

/* Whether every peer has attached by now. */
bool dfi__peers_all_there(struct peers *peers);

/*
 * Whether peers are missing that can't attach any more: the flow is gone, or
 * this process is taken for dead.
 */
bool dfi__peers_hopeless(struct peers *peers);

/* -ECONNRESET with a text for that. */
int dfi__peers_flow_gone(struct peers *peers);

/* -ETIMEDOUT with a text that says which peers have not attached. */
int dfi__peers_missing(struct peers *peers);

/* -ECONNRESET with a text that names a peer that is gone. */
int dfi__peers_lost(struct peers *peers, uint32_t index);

/* "source 2 (node N, host H, pid P)" for error texts. */
void dfi__peers_name(
    struct peers *peers, uint32_t index, char *name, size_t size);

/* "%s %u" of a peer. */
#define PEER_ID(peers, index) (peers)->word, (peers)->first + (index)

/*
 * Wake the owner, after something was published that ends its wait. The caller
 * holds the owner's handle (dfi__handle_hold()) or the lock, so the word that
 * it sleeps in stays. Takes no lock: it runs in signal handlers, which may
 * interrupt the thread that has the lock.
 */
void dfi__peers_wake(struct peers *peers);

/* From now on nobody wakes the owner's wait word: it may be freed. */
void dfi__peers_withdraw(struct peers *peers);

static inline uint32_t peers_changes(struct peers *peers)
{
	/* Pairs with the publish in on_event(): the states. */
	return atomic_observe(&peers->changes);
}

static inline uint32_t peers_state(const struct peers *peers, uint32_t index)
{
	/* Pairs with the publish in set_peer(): the endpoint. */
	return atomic_observe(&peers->peer[index].state);
}

/* The id of the process that a peer is in, or was; 0: it has not attached. */
static inline uint64_t peers_node(const struct peers *peers, uint32_t index)
{
	return peers_state(peers, index) == PEER_ABSENT
	    ? 0
	    : peers->peer[index].endpoint.node.id;
}

#endif

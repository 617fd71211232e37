/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other end of an endpoint: a source's targets, a target's sources. peers.c
 * watches them attach and leave, on the control thread, and wakes the
 * endpoint's owner. peers_await.c answers the owner's questions.
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
	/* Publishes endpoint; PEER_GONE publishes done, left and given_back. */
	_Atomic uint32_t state;
	_Atomic bool done; /* the peer has said that it has received all */
	_Atomic bool left; /* as in struct endpoint */
	_Atomic uint64_t given_back;
	/*
	 * Another peer has attached with the index of one that is gone, and
	 * must be told so. Publishes again_address, where it is.
	 */
	_Atomic bool again;
	struct multicast_address again_address;
	struct endpoint endpoint;
	uint64_t revision; /* the registry's, when the peer attached */
};

struct peers {
	/* Why a transport has lost the connection to a peer, or NULL. */
	const char *(*why_lost)(const struct peers *peers, uint32_t index);
	struct flow *flow;
	const char *role;  /* "source" or "target" */
	const char *word;  /* for error texts; in a tree "combiner" */
	uint32_t first, n; /* the lowest number, and how many */
	struct peer *peer;
	_Atomic uint32_t changes; /* a count; a hot loop reads only this */
	_Atomic bool registry_lost;
	_Atomic bool flow_gone; /* removed, or its creator died */
	_Atomic bool cut_off;   /* this process is: no peer comes */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* The word in which the owner sleeps, or NULL. */
	_Atomic(_Atomic uint32_t *) sleeping;
	struct registry_watch *watch;
	/*
	 * The flow's watch until all peers have attached, or NULL; under lock.
	 */
	struct registry_watch *flow_watch;
	bool flow_seen;
	/* See dfi__peers_outlive(), or NULL. */
	void (*outlive)(struct peers *peers);
	struct dfi *dfi;
	struct process_watcher processes;
};

/*
 * Start to watch the flow's endpoints of a role. The flow must outlive peers,
 * and peers must not move.
 */
int dfi__peers_open(struct peers *peers, struct dfi *dfi, struct flow *flow,
    const char *role, int64_t deadline);

/*
 * Start the watch and create the owner's own entry in one transaction. Watches
 * the flow as well until all peers have attached. -EEXIST: another owner has
 * that entry; or, if *before is less than the number of peers, that peer had
 * attached before this owner.
 */
int dfi__peers_join(struct peers *peers, struct dfi *dfi, struct flow *flow,
    const char *role, struct registry_entry *own, uint32_t *before,
    int64_t deadline);

/*
 * Stop the watch. If own_key isn't NULL, withdraw the owner's entry. Afterwards
 * nothing wakes the owner. Preserves dfi_errmsg().
 */
void dfi__peers_close(struct peers *peers, const char *own_key);

/*
 * The owner has closed, but its entry stays for peers that attach later. Call
 * outlive() after each change, on the control thread. Nothing touches peers
 * after that call, so it may close them.
 */
void dfi__peers_outlive(
    struct peers *peers, void (*outlive)(struct peers *peers));

/* Whether a peer may still attach. */
bool dfi__peers_expected(struct peers *peers);

/*
 * Wait until every peer has attached. -ETIMEDOUT: the text names the missing
 * peers. -ECONNRESET: a peer, or the flow's creator, has already left.
 * -ENOTCONN: the registry is lost.
 */
int dfi__peers_await(struct peers *peers, int64_t deadline);

/*
 * If peers are missing, watch the flow, to learn whether they can still attach.
 * Only an owner that waits needs this.
 */
int dfi__peers_watch_flow(struct peers *peers, int64_t deadline);

/* Whether only the registry can report the death of this peer. */
bool dfi__peers_out_of_sight(const struct peers *peers, uint32_t index);

/* Whether an attached peer leaves before the deadline. Blocks. */
bool dfi__peers_await_gone(
    struct peers *peers, uint32_t index, int64_t deadline);

/* Whether every peer has attached. */
bool dfi__peers_all_attached(struct peers *peers);

/*
 * Whether peers are missing that can't attach any more: the flow is gone, or
 * the other members consider this process dead.
 */
bool dfi__peers_cannot_attach(struct peers *peers);

/* -ECONNRESET, with the reason of dfi__peers_cannot_attach() in the text. */
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
 * Wake the owner after a change that ends its wait. The caller holds the
 * owner's handle (dfi__handle_hold()) or the lock, so the word in which the
 * owner sleeps stays. Takes no lock, since signal handlers call it while their
 * thread may have the lock.
 */
void dfi__peers_wake(struct peers *peers);

/* Afterwards nothing wakes the owner, and its wait word may be freed. */
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

/* The node id of the peer's process; 0: the peer has not attached. */
static inline uint64_t peers_node(const struct peers *peers, uint32_t index)
{
	return peers_state(peers, index) == PEER_ABSENT
	    ? 0
	    : peers->peer[index].endpoint.node.id;
}

#endif

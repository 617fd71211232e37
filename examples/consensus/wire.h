/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of flows, and the bodies of KV_HANDSHAKE. Flows of a cluster called
 * kv:
 *
 *	kv.0-1         from replica 0 to replica 1
 *	kv.2.requests  from all clients to replica 2, an open flow
 *	kv.2.replies   back to each of them, the same
 *	kv.2.accepts   ACCEPT of replica 2 to all others, the same
 *	kv.2.votes     their votes, the same
 *	kv.oID         the ordered flow with that id
 */
#ifndef KV_WIRE_H
#define KV_WIRE_H

#include "links.h"
#include "message.h"

#define KV_MAX_CLUSTER 40   /* characters of a cluster's name */
#define KV_CLIENT_PLACES 64 /* at each replica: clients at once */

/* Rings: each holds several messages of KV_MAX_MESSAGE. */
#define KV_PEER_SEGMENT 32768
#define KV_PEER_SEGMENTS 32
#define KV_CLIENT_SEGMENT 16384
#define KV_CLIENT_SEGMENTS 16

/* Flags of KV_REQUEST, in its status. */
enum {
	KV_INDEX_READ = 1, /* a get that needs no place in the log */
};

/* The stage of a replica that shakes hands with another. */
enum kv_stage {
	KV_STAGE_WAITING = 1, /* with --bootstrap, for the others */
	KV_STAGE_JOINING,     /* without; it knows of no cluster */
	KV_STAGE_LIVE,        /* the cluster exists */
};

/* The body of a replica's KV_HANDSHAKE to another. */
struct kv_replica_handshake {
	uint32_t stage;
	uint32_t n_replicas;
	/* KV_STAGE_LIVE: of slot 1, if it is known here; else all 0. */
	struct kv_config config;
	/*
	 * From the leader: its ordered flow of NOPaxos, or 0; and the members,
	 * a bit for each number.
	 */
	uint64_t flow;
	uint64_t ends;
};

/*
 * The body of a client's KV_HANDSHAKE. A replica answers with its own, and
 * sends it again when it begins to lead. In it, as in replies, the argument is
 * 1 + the number of the leading replica, or 0 if it knows none.
 */
struct kv_client_handshake {
	uint64_t seat;    /* where it gets replies */
	uint64_t session; /* the client's, or 0 */
};

/* Flags of a replica's KV_HANDSHAKE to a client, in its status. */
enum {
	KV_GATEWAY = 1, /* it takes requests though it may not lead */
	KV_LOST = 2,    /* it would answer them with KV_NO_QUORUM */
};

/* The cluster's id in each message. */
uint64_t kv_cluster_id(const char *cluster);

/*
 * Whether the name is valid: 1 to KV_MAX_CLUSTER characters of [A-Za-z0-9_-].
 */
bool kv_cluster_valid(const char *cluster);

/* Names of flows, in LINK_MAX_NAME bytes. */
void kv_peer_flow(char *name, const char *cluster, unsigned from, unsigned to);
void kv_replica_flow(
    char *name, const char *cluster, unsigned replica, const char *what);
void kv_ordered_flow(char *name, const char *cluster, uint64_t id);

/* 64 random bits of the kernel, above KV_VACANT. 0, or getrandom()'s error. */
int kv_random_id(uint64_t *id);

/* The size that a message takes in a segment with others. */
static inline size_t kv_message_room(const struct kv_message *message)
{
	return (message->size + LINK_TUPLE - 1) & ~(size_t)(LINK_TUPLE - 1);
}

#endif

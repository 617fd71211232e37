/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagram endpoints over verbs from inside: unreliable datagram queue pairs in
 * a group that rdma_cm joined. multicast/multicast.c opens and closes them,
 * multicast/endpoint.c makes them, multicast/datagram.c sends and receives.
 */
#ifndef DFI_TRANSPORT_VERBS_MULTICAST_MULTICAST_H
#define DFI_TRANSPORT_VERBS_MULTICAST_MULTICAST_H

#include <pthread.h>
#include "base/loop.h"
#include "transport/multicast.h"
#include "transport/verbs/verbs.h"

/* The network's own header, before each datagram that was received. */
#define VERBS_GRH 40

/* Datagrams that may be under way; each has room for its header. */
#define VERBS_DATAGRAMS 256

/* One request in this many is signalled. */
#define VERBS_DATAGRAM_INTERVAL 16

/* The content of a multicast_address. In network byte order, except the GID. */
struct verbs_endpoint_address {
	uint8_t gid[16];
	uint32_t number; /* of the queue pair */
	uint16_t lid;    /* 0 on Ethernet */
	uint16_t zero;
};
_Static_assert(
    sizeof(struct verbs_endpoint_address) == MULTICAST_ADDRESS_SIZE, "address");

struct multicast_peer {
	struct ibv_ah *ah;
	uint32_t number;
};

struct verbs_endpoint {
	struct multicast_endpoint base;
	struct verbs *verbs;
	struct verbs_endpoint *next; /* in a list; see multicast.c */
	struct multicast_attr attr;
	union ip group_address;
	bool joined;
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *sends, *arrivals;
	struct multicast_peer group;
	/* Receives, and after them the headers that are being sent. */
	char *buffers;
	size_t buffers_size;
	uint32_t receive_size; /* size of a receive */
	char *headers;
	struct ibv_mr *buffers_mr;
	struct ibv_mr *memory_mr; /* local key of attr.memory */
	uint32_t max_inline, max_sends;
	uint64_t posted, completed; /* sends under way */
	struct verbs_counts counts;
	int timer;
	struct event *cm_event, *channel_event, *timer_event;
	_Atomic(const char *)
	    failed;           /* why it can't be used any more; NULL: it can */
	pthread_mutex_t lock; /* held during attr.ready() */
	bool closed;          /* attr.ready() is not called any more */
	struct loop_post closing; /* for a control thread that has not run */
};

/* The transport's operations for datagrams. */
uint32_t dfi__verbs_multicast_size(const struct transport *transport);
uint64_t dfi__verbs_multicast_bytes(
    const struct transport *transport, const struct multicast_attr *attr);
int dfi__verbs_multicast_room(
    struct transport *transport, const struct multicast_attr *attr);
int dfi__verbs_multicast_open(struct transport *transport,
    const struct multicast_attr *attr, int64_t deadline,
    struct multicast_endpoint **endpoint);

/* multicast/multicast.c */

/*
 * Fail those of a transport that have this queue pair or channel; if both are
 * NULL, all. why lives for ever.
 */
void dfi__verbs_fail_endpoints(struct verbs *verbs, const struct ibv_qp *qp,
    const struct ibv_comp_channel *channel, const char *why);

/* Add the counters of endpoints that exist or existed. */
void dfi__verbs_query_endpoints(struct verbs *verbs,
    struct verbs_counts *counts, struct dfi_transport_stats *stats);

/*
 * The endpoints whose queue pairs and queues may have events. Unlist one before
 * they are destroyed; its counters are kept.
 */
void dfi__verbs_list_endpoint(struct verbs_endpoint *endpoint);
void dfi__verbs_unlist_endpoint(struct verbs_endpoint *endpoint);

/* Mark an endpoint as unusable; why lives for ever. Any thread. */
void dfi__verbs_endpoint_fail(struct verbs_endpoint *endpoint, const char *why);

/* multicast_ops.close(). It waits at most one second for the control thread. */
void dfi__verbs_endpoint_close(struct multicast_endpoint *base);

/* multicast/endpoint.c */

/*
 * Make the parts of an endpoint whose attributes are set, except the events on
 * the control thread. Returns what mcast_ops.open() does.
 */
int dfi__verbs_endpoint_make(struct verbs_endpoint *endpoint, int64_t deadline);
/*
 * After this, nothing is sent or received and attr is not used. The descriptors
 * that the control thread watches stay open.
 */
void dfi__verbs_endpoint_stop(struct verbs_endpoint *endpoint);
/* It may be one that was made in part only. */
void dfi__verbs_endpoint_free(struct verbs_endpoint *endpoint);

/* multicast/datagram.c */

/* Post receives of these numbers, not more than VERBS_REPOST; an errno value.
 */
int dfi__verbs_endpoint_receive(
    struct verbs_endpoint *endpoint, const uint64_t *numbers, uint32_t n);

int dfi__verbs_endpoint_send(struct multicast_endpoint *base,
    struct multicast_peer *peer, const void *header, size_t header_size,
    const void *payload, size_t payload_size);
int dfi__verbs_endpoint_room(struct multicast_endpoint *base);
int dfi__verbs_endpoint_take(struct multicast_endpoint *base);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multicast ports over verbs from inside: unreliable datagram queue pairs in a
 * group that rdma_cm joined. multicast/multicast.c opens and closes them,
 * multicast/port.c makes them, multicast/datagram.c sends and receives.
 */
#ifndef DFI_TRANSPORT_VERBS_MULTICAST_MULTICAST_H
#define DFI_TRANSPORT_VERBS_MULTICAST_MULTICAST_H

#include <pthread.h>
#include "base/loop.h"
#include "transport/multicast.h"
#include "transport/verbs/verbs.h"

/* Before each datagram that was received: the network's own header. */
#define VERBS_GRH 40

/* Datagrams that may be on their way; each has room for its header. */
#define VERBS_DATAGRAMS 256

/* One in this many is signalled. */
#define VERBS_DATAGRAM_INTERVAL 16

/* A multicast_address. In network byte order, except the GID. */
struct verbs_port_address {
	uint8_t gid[16];
	uint32_t number; /* of the queue pair */
	uint16_t lid;    /* where there are such */
	uint16_t zero;
};
_Static_assert(
    sizeof(struct verbs_port_address) == MULTICAST_ADDRESS_SIZE, "address");

struct multicast_peer {
	struct ibv_ah *ah;
	uint32_t number;
};

struct verbs_port {
	struct multicast_port base;
	struct verbs *verbs;
	struct verbs_port *next; /* of the transport; see multicast.c */
	struct multicast_attr attr;
	union ip group_address;
	bool joined;
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *sends, *arrivals;
	struct multicast_peer group;
	/* Receives, and behind them headers that are being sent. */
	char *buffers;
	size_t buffers_size;
	uint32_t receive_size; /* from one receive to the next */
	char *headers;
	struct ibv_mr *buffers_mr;
	struct ibv_mr *memory_mr; /* of attr.memory */
	uint32_t max_inline, max_sends;
	uint64_t posted, completed; /* sends */
	struct verbs_counts counts;
	int timer;
	struct event *cm_event, *channel_event, *timer_event;
	_Atomic(const char *) failed; /* why it can't be used any more */
	pthread_mutex_t lock;         /* held during attr.ready() */
	bool closed;                  /* and attr.ready() is not called */
	struct loop_post closing;     /* where the loop was not there for it */
};

/* multicast/multicast.c, multicast/port.c; as the transport's operations. */
uint32_t dfi__verbs_multicast_size(const struct transport *transport);
uint64_t dfi__verbs_multicast_bytes(
    const struct transport *transport, const struct multicast_attr *attr);
int dfi__verbs_multicast_room(
    struct transport *transport, const struct multicast_attr *attr);
int dfi__verbs_multicast_open(struct transport *transport,
    const struct multicast_attr *attr, int64_t deadline,
    struct multicast_port **port);

/* multicast/multicast.c */

/* Fail those of a transport that have this queue pair or channel; of neither:
 * all. why lives for ever. */
void dfi__verbs_fail_ports(struct verbs *verbs, const struct ibv_qp *qp,
    const struct ibv_comp_channel *channel, const char *why);

/* Add what was counted on ports that there are, and were. */
void dfi__verbs_query_ports(
    struct verbs *verbs, struct dfi_context_stats *stats);

/* Ports whose queue pairs and queues devices may report errors of; before
 * these are destroyed. They keep what was counted. */
void dfi__verbs_list_port(struct verbs_port *port);
void dfi__verbs_unlist_port(struct verbs_port *port);

/* The port can't be used any more; why lives for ever. Any thread. */
void dfi__verbs_port_fail(struct verbs_port *port, const char *why);

/* multicast_ops.close(). It waits a second at most for the control thread. */
void dfi__verbs_port_close(struct multicast_port *base);

/* multicast/port.c */

/*
 * Make all that a port whose attributes are set has, but for what the control
 * thread does with it. What mcast_ops.open() returns.
 */
int dfi__verbs_port_make(struct verbs_port *port, int64_t deadline);
/*
 * Nothing is sent or received any more, nor is attr used. What is left are the
 * descriptors that the control thread watches.
 */
void dfi__verbs_port_stop(struct verbs_port *port);
/* Also of one that was made in part only. */
void dfi__verbs_port_free(struct verbs_port *port);

/* multicast/datagram.c */

/* Post receives of these numbers, not more than VERBS_REPOST; an errno value.
 */
int dfi__verbs_port_receive(
    struct verbs_port *port, const uint64_t *numbers, uint32_t n);

int dfi__verbs_port_send(struct multicast_port *base,
    struct multicast_peer *peer, const void *header, size_t header_size,
    const void *payload, size_t payload_size);
int dfi__verbs_port_room(struct multicast_port *base);
int dfi__verbs_port_progress(struct multicast_port *base);

#endif

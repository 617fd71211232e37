/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both ends of a multicast over datagrams share: an endpoint
 * (multicast.h), its lock, and its timer. The protocol above (sender.h,
 * receiver.h) decides what to send and receives datagrams. The end calls it
 * under the end's lock.
 *
 * While the end's owner waits, it takes what has arrived, as with connections
 * (transport_ops.progress). When the owner does not look, the control thread
 * does: so a process answers and asks for lost segments while its program is
 * busy.
 */
#ifndef DFI_BUFFERS_MULTICAST_END_H
#define DFI_BUFFERS_MULTICAST_END_H

#include <stdbool.h>
#include <stdint.h>
#include "base/lock.h"
#include "transport/multicast.h"
#include "transport/transport.h"
#include "datagram.h"

struct multicast_end;
struct faults;
struct transport;

struct multicast_config {
	struct transport *network; /* it has multicast */
	const char *group;
	uint32_t receives;
	const void *memory; /* memory of the segments to send; or NULL */
	size_t memory_size;
	struct datagram_flow flow;
	bool member;
	uint32_t index;   /* in the flow */
	uint32_t n_peers; /* endpoints of the other side */
	/*
	 * The current address of a peer; false: it is unknown. Called on any
	 * thread.
	 */
	bool (*find)(
	    void *arg, uint32_t index, struct multicast_address *address);
	void *find_arg;
};

/* The protocol's calls. All are made under the lock, except wake(). */
struct multicast_protocol {
	/* Take a datagram of this flow. */
	void (*receive)(struct multicast_end *end,
	    const struct datagram *datagram, int64_t now);
	/* Do what is due. Returns the latest time of the next call. */
	int64_t (*step)(struct multicast_end *end, int64_t now);
	/* The endpoint is broken permanently. */
	void (*fail)(struct multicast_end *end);
	/* The owner has news: wake it if it sleeps. */
	void (*wake)(struct multicast_end *end);
};

/* An unknown peer is not looked up again before not_before. */
struct multicast_end_peer {
	struct multicast_peer *peer; /* at this address, or NULL */
	struct multicast_address address;
	int64_t not_before;
};

struct multicast_end {
	const struct multicast_protocol *protocol;
	struct multicast_config config;
	struct multicast_endpoint *endpoint;
	struct faults *faults; /* for tests */
	struct multicast_end_peer *peers;
	bool fresh; /* the protocol has something new for the owner */
	char group[64];
	char why[256]; /* why the endpoint is broken; "": it works */
	_Atomic bool failed;
	struct lock lock;
	_Atomic uint32_t n_waiting; /* threads that wait for the lock */
	int64_t alarm;              /* the alarm set at the endpoint */
	_Atomic uint32_t polls;     /* by the owner */
	uint32_t seen_polls;
	_Atomic bool sleeper; /* the owner has armed since then */
};

/*
 * The key of a flow's endpoints. The device drops datagrams that have another
 * key.
 */
static inline uint32_t multicast_key(uint64_t instance)
{
	return (uint32_t)(instance ^ instance >> 32) & MULTICAST_KEY_MASK;
}

/* The attributes of the end's datagram endpoint, except its callbacks. */
struct multicast_attr dfi__multicast_end_attr(
    const struct multicast_config *config);

/*
 * Open the endpoint, and join the group if config.member says so. The protocol
 * is called from then on. Returns the errors of mcast_ops.open().
 */
int dfi__multicast_end_open(struct multicast_end *end,
    const struct multicast_protocol *protocol,
    const struct multicast_config *config, int64_t deadline);
/* The protocol is not called after this returns. */
void dfi__multicast_end_close(struct multicast_end *end);

/* Implements datagram_output.send, under the lock; arg is the end. */
int dfi__multicast_end_send(void *arg, uint32_t to, const void *header,
    size_t header_size, const void *payload, size_t payload_size);

/*
 * Take what has arrived, and do what is due. Returns at once if another thread
 * is doing so.
 */
void dfi__multicast_end_poll(struct multicast_end *end);

/*
 * Take the lock. While a thread waits here, dfi__multicast_end_poll() leaves
 * the lock to it.
 */
void dfi__multicast_end_lock(struct multicast_end *end);
void dfi__multicast_end_unlock(struct multicast_end *end);

/* dfi__multicast_end_poll() with the lock held. */
void dfi__multicast_end_step(struct multicast_end *end);

/*
 * Call it before sleeping. From then on the control thread polls and wakes the
 * owner.
 */
void dfi__multicast_end_arm(struct multicast_end *end);

/* As transport_ops.describe(): the network's way, and the group. */
void dfi__multicast_end_describe(
    const struct multicast_end *end, char text[TRANSPORT_WAY_SIZE]);

#endif

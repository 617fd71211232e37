/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both ends of a multicast over datagrams have: a port (multicast.h), who
 * may use it, and when somebody must. What is sent and received is up to the
 * protocol above (sender.h, receiver.h), which is called under the
 * end's lock.
 *
 * The end's owner takes what has come while it waits, as with connections
 * (transport_ops.progress). When it doesn't, the control thread does: a process
 * answers, and asks for what it misses, whatever its program is busy with.
 */
#ifndef DFI_BUFFERS_MULTICAST_END_H
#define DFI_BUFFERS_MULTICAST_END_H

#include <stdbool.h>
#include <stdint.h>
#include "base/lock.h"
#include "transport/multicast.h"
#include "datagram.h"

struct cast;
struct faults;
struct transport;

struct cast_config {
	struct transport *network; /* which has multicast ports */
	const char *group;
	uint32_t receives;
	const void *memory; /* of the segments that are sent; or NULL */
	size_t memory_size;
	struct datagram_flow flow;
	bool member;
	uint32_t index;   /* in the flow */
	uint32_t n_peers; /* of the other side, which may be sent to */
	/* Where a peer is now; false: it isn't known. Any thread. */
	bool (*find)(
	    void *arg, uint32_t index, struct multicast_address *address);
	void *find_arg;
};

/* What the protocol does; under the lock, except wake(). */
struct cast_protocol {
	/* Take a datagram of this flow. */
	void (*receive)(
	    struct cast *cast, const struct datagram *datagram, int64_t now);
	/* Do what is due: when to come again at the latest. */
	int64_t (*step)(struct cast *cast, int64_t now);
	/* The port is broken, for ever. */
	void (*fail)(struct cast *cast);
	/* There is something new: sleepers are to look. */
	void (*wake)(struct cast *cast);
};

/* A peer that can't be found is not looked for again for that time. */
struct cast_peer {
	struct multicast_peer *peer; /* at this address, or NULL */
	struct multicast_address address;
	int64_t not_before;
};

struct cast {
	const struct cast_protocol *protocol;
	struct cast_config config;
	struct multicast_port *port;
	struct faults *faults; /* of tests */
	struct cast_peer *peers;
	bool fresh; /* the protocol has something new for the owner */
	char group[64];
	char why[256]; /* the port is broken; "": it isn't */
	_Atomic bool failed;
	struct lock lock;
	_Atomic uint32_t n_waiting; /* for the lock */
	int64_t alarm;              /* as the port was told */
	_Atomic uint32_t polls;     /* by the owner */
	uint32_t seen_polls;
	_Atomic bool sleeper; /* the owner has armed since then */
};

/* The key of a flow's ports: others' datagrams are dropped by the device. */
static inline uint32_t cast_key(uint64_t instance)
{
	return (uint32_t)(instance ^ instance >> 32) & MULTICAST_KEY_MASK;
}

/* What its datagram endpoint is like, except what it calls. */
struct multicast_attr dfi__cast_attr(const struct cast_config *config);

/*
 * Open the port, and join the group if it is to be a member. From then on the
 * protocol is called. What mcast_ops.open() returns.
 */
int dfi__cast_open(struct cast *cast, const struct cast_protocol *protocol,
    const struct cast_config *config, int64_t deadline);
/* The protocol isn't called any more when it returns. */
void dfi__cast_close(struct cast *cast);

/* Under the lock: as datagram_port.send, of which arg is the cast. */
int dfi__cast_send(void *arg, uint32_t to, const void *header,
    size_t header_size, const void *payload, size_t payload_size);

/* Take what has come, and do what is due, unless another thread just does. */
void dfi__cast_poll(struct cast *cast);

/* Take the lock before all who only try; and give it back. */
void dfi__cast_lock(struct cast *cast);
void dfi__cast_unlock(struct cast *cast);

/* The same, with the lock held. */
void dfi__cast_step(struct cast *cast);

/* Before sleeping: from now on the control thread polls, and wakes. */
void dfi__cast_arm(struct cast *cast);

#endif

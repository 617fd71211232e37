/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports for datagrams to a multicast group and to single ports of it, as a
 * transport over a network has them (transport.h). Datagrams may be lost, come
 * twice, or overtake each other; who uses a port knows how to live with that.
 *
 * Calls on a port come from one thread at a time, whoever sees to that; but for
 * arm() and alarm(), which any thread may call at any time. They don't wait,
 * but for open and close. Errors are negative errno values with a text.
 */
#ifndef DFI_TRANSPORT_MULTICAST_H
#define DFI_TRANSPORT_MULTICAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transport;

/* What a port of any device carries, and no device has less. */
#define MULTICAST_LARGEST 4096
#define MULTICAST_LEAST 256

/* The largest header of a datagram; see send(). */
#define MULTICAST_HEADER_MAX 256

/* Who a port is to others; travels through the registry. */
#define MULTICAST_ADDRESS_SIZE 24
struct multicast_address {
	uint8_t bytes[MULTICAST_ADDRESS_SIZE];
};

/* Keys have this many bits: devices keep those above for themselves. */
#define MULTICAST_KEY_MASK UINT32_C(0x7fffffff)

struct multicast_attr {
	const char *group; /* an IP multicast address, as text */
	uint32_t key;      /* devices drop what comes with another */
	uint32_t max_size; /* of datagrams, at most MULTICAST_LARGEST */
	bool member;       /* gets what is sent to the group */
	uint32_t receives; /* datagrams that may have come and not been taken */
	uint32_t receive_size; /* the largest of them; others are lost */
	const void *memory;    /* where payloads are, for ever; NULL: nowhere */
	size_t memory_size;
	/* A datagram has come, in a call of progress(). Not to be kept. */
	void (*received)(void *arg, const void *bytes, uint32_t size);
	/* What arm() and alarm() are for; on the control thread. */
	void (*ready)(void *arg);
	void *arg;
};

struct multicast_port {
	const struct multicast_ops *ops;
	struct multicast_address address;
	uint32_t max_size;
	uint32_t receives; /* as many as the device can hold, if not all */
};

/* To whom a port may send; belongs to it. */
struct multicast_peer;

struct multicast_ops {
	/* Leave the group. ready() is not called any more when it returns. */
	void (*close)(struct multicast_port *port);

	/*
	 * May take as long as the network needs to find a neighbour. -EBADMSG:
	 * that is no address; -EHOSTUNREACH, -ENOMEM, -EIO.
	 */
	int (*peer_open)(struct multicast_port *port,
	    const struct multicast_address *address,
	    struct multicast_peer **peer);
	void (*peer_close)(struct multicast_peer *peer);

	/*
	 * Send a datagram of a header, which is copied, and a payload, which
	 * lies in the port's memory and should stay until it has left: if it
	 * doesn't, what leaves is what is there then. peer NULL: to the group,
	 * of which this port itself is none. 0: it is on its way, or lost;
	 * -EAGAIN, without a text: too many are under way. -ECONNRESET: the
	 * port is broken; so below.
	 */
	int (*send)(struct multicast_port *port, struct multicast_peer *peer,
	    const void *header, size_t header_size, const void *payload,
	    size_t payload_size);

	/* Whether one more may be sent: 1, or 0, or -ECONNRESET. */
	int (*room)(struct multicast_port *port);

	/* Take what has come: how many, or -ECONNRESET. */
	int (*progress)(struct multicast_port *port);

	/*
	 * Have ready() called once when something comes, or sending has room
	 * again. For what has come before it needn't be: who arms then calls
	 * progress(). When the port breaks it is called in any case.
	 */
	void (*arm)(struct multicast_port *port);

	/*
	 * Have ready() called at a time of the monotonic clock, or, with
	 * DEADLINE_NEVER, not by time; instead of what was said before.
	 */
	void (*alarm)(struct multicast_port *port, int64_t at);
};

/*
 * mcast_ops.open() waits till deadline to join the group.
 * -EMSGSIZE: datagrams larger than the device's port lets through. -EINVAL: no
 * such group. -ENOMEM, -EMFILE, -EIO, -ENODEV, -ETIMEDOUT, -EHOSTUNREACH.
 */

#endif

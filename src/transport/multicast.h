/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagram endpoints, by which a process sends datagrams to a multicast group
 * or to another endpoint of that group, over the network of a transport
 * (transport.h). Datagrams may be lost, repeated or reordered; the users of an
 * endpoint handle that.
 *
 * One thread at a time calls an endpoint; the callers ensure that. Only arm()
 * and alarm() may be called by any thread at any time. Only open and close
 * block. Errors are negative errno values with a text.
 */
#ifndef DFI_TRANSPORT_MULTICAST_H
#define DFI_TRANSPORT_MULTICAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transport;

/* The largest datagram that each device carries. */
#define MULTICAST_LARGEST 4096

/* The largest header of a datagram; see send(). */
#define MULTICAST_HEADER_MAX 256

/* The address of an endpoint; it travels through the registry. */
#define MULTICAST_ADDRESS_SIZE 24
struct multicast_address {
	uint8_t bytes[MULTICAST_ADDRESS_SIZE];
};

/* Keys have this many bits: devices reserve the higher ones. */
#define MULTICAST_KEY_MASK UINT32_C(0x7fffffff)

struct multicast_attr {
	const char *group; /* an IP multicast address, as text */
	uint32_t key;      /* devices drop datagrams with another key */
	uint32_t max_size; /* of a datagram, at most MULTICAST_LARGEST */
	bool member;       /* receives what is sent to the group */
	uint32_t receives; /* datagrams that may arrive before they are taken */
	uint32_t receive_size; /* the largest of them; larger ones are lost */
	const void *memory;    /* where payloads lie; NULL: nowhere */
	size_t memory_size;
	/* A datagram has arrived; progress() calls it, then bytes expires. */
	void (*received)(void *arg, const void *bytes, uint32_t size);
	/* Called on the control thread as arm() and alarm() request. */
	void (*ready)(void *arg);
	void *arg;
};

struct multicast_endpoint {
	const struct multicast_ops *ops;
	struct multicast_address address;
	uint32_t max_size;
	uint32_t receives; /* at most those requested */
};

/* A destination of an endpoint's datagrams; it belongs to that endpoint. */
struct multicast_peer;

struct multicast_ops {
	/* Leave the group. After it returns, ready() is not called any more. */
	void (*close)(struct multicast_endpoint *endpoint);

	/*
	 * Blocks until the network has found the neighbour. -EBADMSG: not an
	 * address; -EHOSTUNREACH, -ENOMEM, -EIO.
	 */
	int (*peer_open)(struct multicast_endpoint *endpoint,
	    const struct multicast_address *address,
	    struct multicast_peer **peer);
	void (*peer_close)(struct multicast_peer *peer);

	/*
	 * Send a datagram of a header, which is copied, and a payload in the
	 * endpoint's memory. The payload should not change before it has left;
	 * if it does, the new bytes may leave. peer NULL: to the group, except
	 * this endpoint itself. 0: the datagram is on its way, or lost;
	 * -EAGAIN, without a text: too many are under way. -ECONNRESET, also
	 * below: the endpoint is broken.
	 */
	int (*send)(struct multicast_endpoint *endpoint,
	    struct multicast_peer *peer, const void *header, size_t header_size,
	    const void *payload, size_t payload_size);

	/* Returns 1 if one more may be sent, else 0, or -ECONNRESET. */
	int (*room)(struct multicast_endpoint *endpoint);

	/* Take all arrivals; returns their number, or -ECONNRESET. */
	int (*take)(struct multicast_endpoint *endpoint);

	/*
	 * Request one call of ready() when something arrives, or sending has
	 * room again. It need not come for earlier arrivals, so call take()
	 * after arm(). A break of the endpoint also causes the call.
	 */
	void (*arm)(struct multicast_endpoint *endpoint);

	/*
	 * Request a call of ready() at a time of the monotonic clock;
	 * DEADLINE_NEVER cancels the request. It replaces the previous request.
	 */
	void (*alarm)(struct multicast_endpoint *endpoint, int64_t at);
};

/*
 * mcast_ops.open() waits until the deadline to join the group. -EMSGSIZE:
 * datagrams exceed the MTU of the device's port. -EINVAL: not a multicast
 * group. -ENOMEM, -EMFILE, -EIO, -ENODEV, -ETIMEDOUT, -EHOSTUNREACH.
 */

#endif

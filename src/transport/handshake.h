/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two processes tell each other while they connect over a network: the
 * version they speak, who they are, and a proof of that. A transport carries it
 * with the request for a connection and with the answer.
 */
#ifndef DFI_TRANSPORT_HANDSHAKE_H
#define DFI_TRANSPORT_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include "security/mac.h"
#include "transport.h"

/*
 * What a process agrees on before a connection exists. Each version begins with
 * the first two members, and is as large.
 */
struct handshake {
	uint32_t magic; /* of the transport */
	uint16_t version;
	uint16_t refusal; /* in a rejection: a positive errno value */
	uint64_t node;
	uint64_t nonce; /* a random number of the connecting side */
	uint8_t proof[MAC_SIZE];
};
_Static_assert(sizeof(struct handshake) == 40, "connection data");

/* The transport that speaks, and its process. */
struct handshake_self {
	const char *name; /* of the transport, for error texts */
	const char *over; /* as in "speaks version 1 over RDMA" */
	uint32_t magic;
	uint16_t version;
	const struct member *member;
};

/* The two ends; NULL counts as an address of zeros. */
struct handshake_path {
	const struct sockaddr *from, *to;
	uint16_t port; /* of the listener, in network order */
};

/* A handshake without a proof: of a refusal with this errno value. */
struct handshake dfi__handshake_refusal(
    const struct handshake_self *self, uint16_t refusal);

/* The connecting side's half. -EIO. */
int dfi__handshake_greet(const struct handshake_self *self,
    const struct handshake_path *path, struct handshake *handshake);

/* The answer to the peer that sent this nonce. -EIO. */
int dfi__handshake_answer(const struct handshake_self *self,
    const struct handshake_path *path, uint64_t nonce,
    struct handshake *handshake);

/*
 * Check what a peer that connects has sent: 0, and what it has proved; or a
 * positive errno value to refuse with. EPROTO, with a text for the log: it has
 * another version, or it is no handshake.
 */
uint16_t dfi__handshake_check(const struct handshake_self *self,
    const struct handshake_path *path, const void *data, size_t size,
    struct handshake *proved);

/*
 * Check that the accepting process is a member, for the attempt with this
 * nonce: another process may have taken the port of a member that died.
 * location: where, for the error text. -EPROTO: also, it speaks another
 * version. -EACCES.
 */
int dfi__handshake_accepted(const struct handshake_self *self,
    const struct handshake_path *path, const void *data, size_t size,
    uint64_t nonce, const char *location, const char *peer);

/*
 * The error that a rejection means. why: the network's word for it, for when
 * the rejection has no data of this library.
 */
int dfi__handshake_refused(const struct handshake_self *self, const void *data,
    size_t size, const char *why, const char *location, const char *peer);

#endif

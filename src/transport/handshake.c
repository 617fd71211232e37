/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof of a handshake is made with the token that the registry tells
 * members only, and doesn't reveal it: whoever took a dead member's port learns
 * nothing of use elsewhere. The connecting side proves itself for this path
 * only, between two addresses and to one port, and the accepting side for this
 * attempt only, by a random number of the other side.
 */
#include "handshake.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include "base/error.h"
#include "base/ip.h"
#include "base/version.h"

/* The proved bytes, which both ends know. */
struct claim {
	uint8_t from[16], to[16]; /* addresses; IPv4 ones are mapped */
	uint64_t node, nonce;     /* little-endian */
	uint16_t port;            /* in network order; of the listener */
	uint16_t version;
	uint32_t role;
};
_Static_assert(sizeof(struct claim) == 56, "no padding");

enum {
	CONNECTS = 1,
	ACCEPTS
};

static void copy_address(const struct sockaddr *from, uint8_t to[16])
{
	struct in6_addr address = { .s6_addr = { 0 } };
	union ip ip;

	if (from && dfi__ip_copy(from, &ip))
		address = dfi__ip_as_v6(&ip);
	memcpy(to, &address, 16);
}

static struct claim claim_of(const struct handshake_self *self,
    const struct handshake_path *path, uint32_t role, uint64_t node,
    uint64_t nonce)
{
	struct claim claim = {
		.node = htole64(node),
		.nonce = htole64(nonce),
		.port = path->port,
		.version = htole16(self->version),
		.role = htole32(role),
	};

	copy_address(path->from, claim.from);
	copy_address(path->to, claim.to);
	return claim;
}

struct handshake dfi__handshake_refusal(
    const struct handshake_self *self, uint16_t refusal)
{
	return (struct handshake){
		.magic = self->magic,
		.version = self->version,
		.refusal = refusal,
		.node = self->member->node,
	};
}

static int prove(const struct handshake_self *self, const struct claim *claim,
    struct handshake *handshake)
{
	return dfi__mac_make(self->member->token, sizeof(self->member->token),
		   claim, sizeof(*claim), handshake->proof)
	    ? 0
	    : dfi__fail(-EIO, "%s: OpenSSL makes no HMAC-SHA-256", self->name);
}

int dfi__handshake_greet(const struct handshake_self *self,
    const struct handshake_path *path, struct handshake *handshake)
{
	struct claim claim;

	*handshake = dfi__handshake_refusal(self, 0);
	if (getrandom(&handshake->nonce, sizeof(handshake->nonce), 0) !=
	    sizeof(handshake->nonce))
		return dfi__fail(-EIO, "getrandom: %s", strerror(errno));
	claim = claim_of(
	    self, path, CONNECTS, handshake->node, handshake->nonce);
	return prove(self, &claim, handshake);
}

int dfi__handshake_answer(const struct handshake_self *self,
    const struct handshake_path *path, uint64_t nonce,
    struct handshake *handshake)
{
	struct claim claim;

	*handshake = dfi__handshake_refusal(self, 0);
	handshake->nonce = nonce;
	claim = claim_of(self, path, ACCEPTS, handshake->node, nonce);
	return prove(self, &claim, handshake);
}

/* Whether it is one, of any version. */
static bool is_handshake(const struct handshake_self *self, const void *data,
    size_t size, struct handshake *handshake)
{
	if (!data || size < sizeof(*handshake))
		return false;
	memcpy(handshake, data, sizeof(*handshake));
	return handshake->magic == self->magic;
}

/* location: where in this process; or "" for nowhere in particular. */
static int other_version(const struct handshake_self *self,
    const char *location, uint16_t version, const char *peer)
{
	return dfi__fail(-EPROTO,
	    "%s: %s%sthe process at %s speaks version %u over %s, this "
	    "one %u: %s",
	    self->name, location, *location ? ": " : "", peer, version,
	    self->over, self->version, version_remedy(version, self->version));
}

/* What a peer that connects has sent is not for this version. */
static uint16_t refuse(const struct handshake_self *self,
    const struct sockaddr *from, const struct handshake *handshake)
{
	char peer[IP_PORT_TEXT_SIZE] = "an unknown address";
	union ip ip;

	if (from && dfi__ip_copy(from, &ip))
		dfi__ip_text(&ip, peer);
	if (handshake)
		other_version(self, "", handshake->version, peer);
	else
		dfi__fail(-EPROTO,
		    "%s: the process at %s sent no handshake of this library",
		    self->name, peer);
	return EPROTO;
}

static uint16_t check(const struct handshake_self *self,
    const struct claim *claim, const struct handshake *handshake)
{
	const struct member *member = self->member;
	uint8_t token[MEMBER_TOKEN_SIZE];

	return member->find(member->arg, handshake->node, token) &&
		dfi__mac_check(token, sizeof(token), claim, sizeof(*claim),
		    handshake->proof)
	    ? 0
	    : EACCES;
}

uint16_t dfi__handshake_check(const struct handshake_self *self,
    const struct handshake_path *path, const void *data, size_t size,
    struct handshake *proved)
{
	struct handshake handshake;
	struct claim claim;
	uint16_t refusal;

	if (!is_handshake(self, data, size, &handshake))
		return refuse(self, path->from, NULL);
	if (handshake.version != self->version)
		return refuse(self, path->from, &handshake);
	claim = claim_of(self, path, CONNECTS, handshake.node, handshake.nonce);
	refusal = check(self, &claim, &handshake);
	if (!refusal)
		*proved = handshake;
	return refusal;
}

/* Whether it is one that this version refuses with. */
static bool is_known(uint16_t refusal)
{
	return refusal == EACCES || refusal == EPROTO || refusal == ENOMEM ||
	    refusal == EIO;
}

/* A refusal proves nothing, and may say anything. */
static int fail_refused(const struct handshake_self *self, const char *location,
    const char *peer, const struct handshake *answer)
{
	uint16_t refusal = answer->refusal;

	if (!is_known(refusal))
		return dfi__fail(-ECONNREFUSED,
		    "%s: %s: %s refused the connection, for no reason that "
		    "is known (%u): is it a process of this library?",
		    self->name, location, peer, refusal);
	return dfi__fail(-(int)refusal, "%s: %s: %s refused the connection: %s",
	    self->name, location, peer,
	    refusal == EACCES ? "it doesn't know us as a member"
			      : strerror(refusal));
}

int dfi__handshake_accepted(const struct handshake_self *self,
    const struct handshake_path *path, const void *data, size_t size,
    uint64_t nonce, const char *location, const char *peer)
{
	struct handshake answer;
	uint16_t refusal = EPROTO;
	struct claim claim;

	if (is_handshake(self, data, size, &answer)) {
		if (answer.version != self->version)
			return other_version(
			    self, location, answer.version, peer);
		claim = claim_of(self, path, ACCEPTS, answer.node, nonce);
		refusal = check(self, &claim, &answer);
	}
	if (!refusal)
		return 0;
	return dfi__fail(-(int)refusal,
	    "%s: %s: the process that accepts at %s has not proved that it "
	    "is a member of this registry: is it at the same registry?",
	    self->name, location, peer);
}

int dfi__handshake_refused(const struct handshake_self *self, const void *data,
    size_t size, const char *why, const char *location, const char *peer)
{
	struct handshake answer;

	if (!is_handshake(self, data, size, &answer))
		return dfi__fail(-ECONNREFUSED,
		    "%s: %s: nobody listens at %s (%s)", self->name, location,
		    peer, why);
	if (answer.version != self->version)
		return other_version(self, location, answer.version, peer);
	return fail_refused(self, location, peer, &answer);
}

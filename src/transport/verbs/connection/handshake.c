/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two processes tell each other while they connect, as rdma_cm's private
 * data: the version they speak, who they are, and a proof of that. The proof is
 * made with the token that the registry tells members only, and doesn't reveal
 * it: whoever took a dead member's port learns nothing of use elsewhere. The
 * connecting side proves itself for this path only, between two addresses and
 * to one port, and the accepting side for this attempt only, by a random number
 * of the other side.
 */

#include "handshake.h"

#include <endian.h>
#include <string.h>
#include <sys/random.h>
#include "base/error.h"
#include "security/mac.h"
#include "transport/verbs/device/fail.h"

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

static void copy_address(struct sockaddr *from, uint8_t to[16])
{
	struct in6_addr address = { .s6_addr = { 0 } };
	union ip ip;

	if (dfi__ip_copy(from, &ip))
		address = dfi__ip_as_v6(&ip);
	memcpy(to, &address, 16);
}

/* Of the end that is connected (here or there) through this id. */
static struct claim claim_of(struct rdma_cm_id *id, bool we_accept,
    uint32_t role, uint64_t node, uint64_t nonce)
{
	struct claim claim = {
		.node = htole64(node),
		.nonce = htole64(nonce),
		.version = htole16(VERBS_HANDSHAKE_VERSION),
		.role = htole32(role),
	};
	struct sockaddr *local = rdma_get_local_addr(id);
	struct sockaddr *peer = rdma_get_peer_addr(id);

	copy_address(we_accept ? peer : local, claim.from);
	copy_address(we_accept ? local : peer, claim.to);
	claim.port = we_accept ? rdma_get_src_port(id) : rdma_get_dst_port(id);
	return claim;
}

static struct verbs_handshake greeting(const struct verbs *verbs)
{
	return (struct verbs_handshake){
		.magic = VERBS_HANDSHAKE_MAGIC,
		.version = VERBS_HANDSHAKE_VERSION,
		.node = verbs->self.node,
	};
}

static int prove(const struct verbs *verbs, const struct claim *claim,
    struct verbs_handshake *handshake)
{
	return dfi__mac_make(verbs->self.token, sizeof(verbs->self.token),
		   claim, sizeof(*claim), handshake->proof)
	    ? 0
	    : dfi__fail(-EIO, "verbs: OpenSSL makes no HMAC-SHA-256");
}

int dfi__verbs_send_handshake(const struct verbs *verbs, struct rdma_cm_id *id,
    struct verbs_handshake *handshake)
{
	struct claim claim;

	*handshake = greeting(verbs);
	if (getrandom(&handshake->nonce, sizeof(handshake->nonce), 0) !=
	    sizeof(handshake->nonce))
		return dfi__fail(-EIO, "getrandom: %s", strerror(errno));
	claim = claim_of(
	    id, false, CONNECTS, handshake->node, handshake->nonce);
	return prove(verbs, &claim, handshake);
}

int dfi__verbs_answer(const struct verbs *verbs, struct rdma_cm_id *id,
    uint64_t nonce, struct verbs_handshake *handshake)
{
	struct claim claim;

	*handshake = greeting(verbs);
	handshake->nonce = nonce;
	claim = claim_of(id, true, ACCEPTS, handshake->node, nonce);
	return prove(verbs, &claim, handshake);
}

struct verbs_handshake dfi__verbs_refusal(
    const struct verbs *verbs, uint16_t refusal)
{
	struct verbs_handshake handshake = greeting(verbs);

	handshake.refusal = refusal;
	return handshake;
}

/* 0, or a positive errno value. */
static uint16_t read_handshake(
    const struct rdma_conn_param *param, struct verbs_handshake *handshake)
{
	if (!param->private_data ||
	    param->private_data_len < sizeof(*handshake))
		return EPROTO;
	memcpy(handshake, param->private_data, sizeof(*handshake));
	return handshake->magic != VERBS_HANDSHAKE_MAGIC ||
		handshake->version != VERBS_HANDSHAKE_VERSION
	    ? EPROTO
	    : 0;
}

static uint16_t check(const struct verbs *verbs, const struct claim *claim,
    const struct verbs_handshake *handshake)
{
	uint8_t token[MEMBER_TOKEN_SIZE];

	return verbs->self.find(verbs->self.arg, handshake->node, token) &&
		dfi__mac_check(token, sizeof(token), claim, sizeof(*claim),
		    handshake->proof)
	    ? 0
	    : EACCES;
}

uint16_t dfi__verbs_check_handshake(const struct verbs *verbs,
    struct rdma_cm_id *id, const struct rdma_conn_param *param,
    struct verbs_handshake *proved)
{
	struct verbs_handshake handshake;
	uint16_t refusal = read_handshake(param, &handshake);
	struct claim claim;

	if (refusal)
		return refusal;
	claim = claim_of(id, true, CONNECTS, handshake.node, handshake.nonce);
	refusal = check(verbs, &claim, &handshake);
	if (!refusal)
		*proved = handshake;
	return refusal;
}

/*
 * Check the handshake of the accepting side, for the attempt with this number.
 */
static uint16_t check_answer(const struct verbs *verbs,
    const struct rdma_cm_event *event, uint64_t nonce)
{
	struct verbs_handshake handshake;
	uint16_t refusal = read_handshake(&event->param.conn, &handshake);
	struct claim claim;

	if (refusal)
		return refusal;
	claim = claim_of(event->id, false, ACCEPTS, handshake.node, nonce);
	return check(verbs, &claim, &handshake);
}

/* Whether it is one that this version refuses with. */
static bool is_known(uint16_t refusal)
{
	return refusal == EACCES || refusal == EPROTO || refusal == ENOMEM ||
	    refusal == EIO;
}

/* A refusal proves nothing, and may say anything. */
static int fail_refused(const struct verbs_location *location, const char *peer,
    const struct verbs_handshake *answer)
{
	uint16_t refusal = answer->refusal;

	if (!is_known(refusal))
		return dfi__fail(-ECONNREFUSED,
		    "verbs: %s: %s refused the connection, for no reason that "
		    "is known (%u): is it a process of this library?",
		    location->text, peer, refusal);
	return dfi__fail(-(int)refusal,
	    "verbs: %s: %s refused the connection: %s", location->text, peer,
	    refusal == EACCES ? "it doesn't know us as a member"
			      : strerror(refusal));
}

static int other_version(
    const struct verbs_location *location, uint16_t version, const char *peer)
{
	return dfi__fail(-EPROTO,
	    "verbs: %s: the process at %s speaks version %u over RDMA, this "
	    "one %u: use the same version of the library",
	    location->text, peer, version, VERBS_HANDSHAKE_VERSION);
}

int dfi__verbs_accepted(const struct verbs *verbs,
    const struct rdma_cm_event *event, uint64_t nonce, const char *peer)
{
	const struct rdma_conn_param *param = &event->param.conn;
	struct verbs_location location = dfi__verbs_gid(&verbs->device);
	uint16_t refusal = check_answer(verbs, event, nonce);
	struct verbs_handshake answer = { .magic = 0 };

	if (!refusal)
		return 0;
	if (param->private_data && param->private_data_len >= sizeof(answer))
		memcpy(&answer, param->private_data, sizeof(answer));
	if (answer.magic == VERBS_HANDSHAKE_MAGIC &&
	    answer.version != VERBS_HANDSHAKE_VERSION)
		return other_version(&location, answer.version, peer);
	return dfi__fail(-(int)refusal,
	    "verbs: %s: the process that accepts at %s has not proved that it "
	    "is a member of this registry: is it at the same registry?",
	    location.text, peer);
}

int dfi__verbs_refused(const struct verbs *verbs,
    const struct rdma_cm_event *event, const char *peer)
{
	struct verbs_location location = dfi__verbs_gid(&verbs->device);
	struct verbs_handshake answer = { .refusal = 0 };

	if (event->param.conn.private_data &&
	    event->param.conn.private_data_len >= sizeof(answer))
		memcpy(&answer, event->param.conn.private_data, sizeof(answer));
	if (answer.magic != VERBS_HANDSHAKE_MAGIC)
		return dfi__fail(-ECONNREFUSED,
		    "verbs: %s: nobody listens at %s (%s)", location.text, peer,
		    event->status < 0 ? strerror(-event->status) : "rejected");
	if (answer.version != VERBS_HANDSHAKE_VERSION)
		return other_version(&location, answer.version, peer);
	return fail_refused(&location, peer, &answer);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private data of rdma_cm in a handshake: of a connection request, an
 * acceptance and a refusal. It is a member's message with any bytes changed,
 * cut off, or sent to another member. It is accepted only if no relevant byte
 * was changed; otherwise it is refused for the right reason, and no number is
 * taken from it.
 *
 * The input: a byte of enum scene and, above, of enum change; how much comes;
 * then what the bytes that come are to be changed by.
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>

#include <dfi/error.h>

#include "fuzz.h"
#include "transport/verbs/connection/handshake.h"

enum scene {
	REQUEST,
	ANSWER,
	REFUSAL,
	SCENES,
};

#define SCENE_BITS 2

/* Its sender or receiver, and the answer. */
enum change {
	OTHER_FROM = 1,
	OTHER_TO = 2,
	OTHER_PORT = 4,
	OTHER_ATTEMPT = 8, /* of an answer */
	OTHER_ROLE = 16,   /* a request for an answer, and the reverse */
	IPV6 = 32,         /* no relevant byte: both ends know it */
};

#define NONCE UINT64_C(0x1122334455667788)
#define PEER "10.0.0.2:7"

struct input {
	unsigned changes;
	size_t size; /* of what comes */
	struct handshake handshake, was;
	bool changed; /* any byte that a proof covers, or the proof */
};

/* Nodes 1 and 2 are members. */
static bool find(void *arg, uint64_t node, uint8_t token[MEMBER_TOKEN_SIZE])
{
	(void)arg;
	if (node != 1 && node != 2)
		return false;
	memset(token, (int)node, MEMBER_TOKEN_SIZE);
	return true;
}

static struct verbs be_node(uint64_t node)
{
	struct verbs verbs = {
		.device = { .name = "fake0", .port = 1 },
		.self = { .node = node, .find = find },
	};

	fuzz_check(find(NULL, node, verbs.self.token));
	return verbs;
}

static void set_address(
    struct sockaddr *at, unsigned host, unsigned port, bool ipv6)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)at;
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)at;

	if (ipv6) {
		in6->sin6_family = AF_INET6;
		in6->sin6_addr.s6_addr[0] = 0xfd;
		in6->sin6_addr.s6_addr[15] = (uint8_t)host;
		in6->sin6_port = htons((uint16_t)port);
	} else {
		in->sin_family = AF_INET;
		in->sin_addr.s_addr = htonl(0x0a000000 + host);
		in->sin_port = htons((uint16_t)port);
	}
}

/* An end of the connection from host 1 to port 7 of host 2. */
static struct rdma_cm_id end_of(bool accepts, unsigned changes)
{
	unsigned from = changes & OTHER_FROM ? 3 : 1;
	unsigned to = changes & OTHER_TO ? 4 : 2;
	unsigned port = changes & OTHER_PORT ? 8 : 7;
	struct rdma_cm_id id = { .verbs = NULL };
	struct sockaddr *local = rdma_get_local_addr(&id);
	struct sockaddr *peer = rdma_get_peer_addr(&id);

	set_address(accepts ? peer : local, from, 50000, changes & IPV6);
	set_address(accepts ? local : peer, to, port, changes & IPV6);
	return id;
}

/* As its sender makes it, which is node 1 if it connects, else node 2. */
static struct handshake send_handshake(bool accepts, unsigned changes)
{
	struct verbs verbs = be_node(accepts ? 2 : 1);
	struct rdma_cm_id id = end_of(accepts, changes & IPV6);
	struct handshake handshake;

	fuzz_check((accepts ? dfi__verbs_answer(&verbs, &id, NONCE, &handshake)
			    : dfi__verbs_send_handshake(
				  &verbs, &id, &handshake)) == 0);
	return handshake;
}

/* A copy of the size that comes, so that a read behind it is noticed. */
static struct rdma_conn_param change_handshake(
    struct input *input, const uint8_t *data, size_t size)
{
	uint8_t sent[UINT8_MAX] = { 0 }, *exact;
	const struct handshake *was = &input->was, *is = &input->handshake;
	size_t i;

	memcpy(sent, was, sizeof(*was));
	for (i = 0; i < input->size && i < size; i++)
		sent[i] ^= data[i];
	memcpy(&input->handshake, sent, sizeof(*is));
	input->changed = is->node != was->node || is->nonce != was->nonce ||
	    memcmp(is->proof, was->proof, sizeof(is->proof)) != 0;
	exact = malloc(input->size ? input->size : 1);
	fuzz_check(exact);
	memcpy(exact, sent, input->size);
	return (struct rdma_conn_param){
		.private_data = exact,
		.private_data_len = (uint8_t)input->size,
	};
}

/* 0, or EPROTO: there is none, or of another version. */
static int format_error(const struct input *input)
{
	return input->size < sizeof(input->handshake) ||
		input->handshake.magic != VERBS_HANDSHAKE_MAGIC ||
		input->handshake.version != VERBS_HANDSHAKE_VERSION
	    ? EPROTO
	    : 0;
}

static bool is_other_version(const struct input *input)
{
	return input->size >= sizeof(input->handshake) &&
	    input->handshake.magic == VERBS_HANDSHAKE_MAGIC &&
	    input->handshake.version != VERBS_HANDSHAKE_VERSION;
}

static void check_request(
    const struct input *input, const struct rdma_conn_param *param)
{
	struct verbs verbs = be_node(2);
	struct rdma_cm_id id = end_of(true, input->changes);
	struct handshake proved = { .nonce = ~input->handshake.nonce };
	unsigned other = OTHER_FROM | OTHER_TO | OTHER_PORT | OTHER_ROLE;
	int expected = format_error(input);

	if (!expected && (input->changed || input->changes & other))
		expected = EACCES;
	fuzz_check(dfi__verbs_check_handshake(&verbs, &id, param, &proved) ==
	    expected);
	fuzz_check(proved.nonce ==
	    (expected ? ~input->handshake.nonce : input->handshake.nonce));
	fuzz_check(proved.node == (expected ? 0 : input->handshake.node));
	if (expected == EPROTO)
		fuzz_check(!strstr(dfi_errmsg(), "speaks version") ==
		    !is_other_version(input));
}

static void check_text(int ret)
{
	fuzz_check(ret < 0 && strncmp(dfi_errmsg(), "verbs: fake0", 12) == 0);
	fuzz_check(strstr(dfi_errmsg(), PEER));
}

/* Its number isn't checked: the proof is for ours. */
static void check_answer(
    const struct input *input, const struct rdma_conn_param *param)
{
	struct verbs verbs = be_node(1);
	struct rdma_cm_id id = end_of(false, input->changes);
	struct rdma_cm_event event = { .id = &id, .param.conn = *param };
	unsigned other = OTHER_FROM | OTHER_TO | OTHER_PORT | OTHER_ATTEMPT |
	    OTHER_ROLE;
	uint64_t nonce = input->was.nonce + !!(input->changes & OTHER_ATTEMPT);
	int expected = format_error(input), ret;
	bool changed = input->handshake.node != input->was.node ||
	    memcmp(input->handshake.proof, input->was.proof, MAC_SIZE) != 0;

	if (!expected && (changed || input->changes & other))
		expected = EACCES;
	ret = dfi__verbs_accepted(&verbs, &event, nonce, PEER);
	fuzz_check(ret == -expected);
	if (!ret)
		return;
	check_text(ret);
	fuzz_check(!strstr(dfi_errmsg(), "speaks version") ==
	    !is_other_version(input));
}

/* A refusal has no proof, and any content. */
static void check_refusal(
    const struct input *input, const struct rdma_conn_param *param)
{
	struct verbs verbs = be_node(1);
	struct rdma_cm_event event = { .param.conn = *param, .status = 28 };
	uint16_t refusal = input->handshake.refusal;
	int expected = -ECONNREFUSED, ret;

	if (is_other_version(input))
		expected = -EPROTO;
	else if (!format_error(input) &&
	    (refusal == EACCES || refusal == EPROTO || refusal == ENOMEM ||
		refusal == EIO))
		expected = -refusal;
	ret = dfi__verbs_refused(&verbs, &event, PEER);
	fuzz_check(ret == expected);
	check_text(ret);
	fuzz_check(!strstr(dfi_errmsg(), "no reason that is known") ==
	    (expected != -ECONNREFUSED || format_error(input)));
	fuzz_check(!strstr(dfi_errmsg(), "nobody listens") ==
	    (is_other_version(input) || !format_error(input)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct verbs verbs = be_node(2);
	struct input input = { .size = 0 };
	struct rdma_conn_param param;
	enum scene scene;
	bool accepts;

	if (size < 2)
		return 0;
	scene = data[0] % (1 << SCENE_BITS);
	input.changes = data[0] >> SCENE_BITS;
	input.size = data[1];
	accepts = (scene == ANSWER) != !!(input.changes & OTHER_ROLE);
	input.was = scene == REFUSAL ? dfi__verbs_refusal(&verbs, EACCES)
				     : send_handshake(accepts, input.changes);
	param = change_handshake(&input, data + 2, size - 2);
	if (scene == REQUEST)
		check_request(&input, &param);
	else if (scene == ANSWER)
		check_answer(&input, &param);
	else if (scene == REFUSAL)
		check_refusal(&input, &param);
	free((void *)param.private_data);
	return 0;
}

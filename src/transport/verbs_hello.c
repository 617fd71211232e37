/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two processes tell each other while they connect, as rdma_cm's private
 * data: the version they speak, and the token that makes them members.
 */
#include "verbs.h"

#include <string.h>
#include "../base/error.h"

struct verbs_hello dfi__verbs_hello(const struct verbs *verbs)
{
	struct verbs_hello hello = {
		.magic = VERBS_HELLO_MAGIC,
		.version = VERBS_HELLO_VERSION,
		.node = verbs->self.node,
	};

	memcpy(hello.token, verbs->self.token, sizeof(hello.token));
	return hello;
}

/* 0, or a positive errno value to refuse with. */
uint16_t dfi__verbs_check_hello(
    const struct verbs *verbs, const struct rdma_conn_param *param)
{
	struct verbs_hello hello;

	if (!param->private_data || param->private_data_len < sizeof(hello))
		return EPROTO;
	memcpy(&hello, param->private_data, sizeof(hello));
	if (hello.magic != VERBS_HELLO_MAGIC ||
	    hello.version != VERBS_HELLO_VERSION)
		return EPROTO;
	if (!verbs->self.is_member(verbs->self.arg, hello.node, hello.token))
		return EACCES;
	return 0;
}

static int errno_of_refusal(uint16_t refusal)
{
	return refusal == EACCES || refusal == EPROTO || refusal == ENOMEM ||
		refusal == EIO
	    ? -(int)refusal
	    : -ECONNREFUSED;
}

static int other_version(
    const struct verbs_place *place, uint16_t version, const char *peer)
{
	return dfi__fail(-EPROTO,
	    "verbs: %s: the process at %s speaks version %u over RDMA, this "
	    "one %u: use the same version of the library",
	    place->text, peer, version, VERBS_HELLO_VERSION);
}

int dfi__verbs_accepted(const struct verbs *verbs,
    const struct rdma_cm_event *event, const char *peer)
{
	const struct rdma_conn_param *param = &event->param.conn;
	struct verbs_place place = dfi__verbs_gid(&verbs->device);
	uint16_t refusal = dfi__verbs_check_hello(verbs, param);
	struct verbs_hello answer = { .magic = 0 };

	if (!refusal)
		return 0;
	if (param->private_data && param->private_data_len >= sizeof(answer))
		memcpy(&answer, param->private_data, sizeof(answer));
	if (answer.magic == VERBS_HELLO_MAGIC &&
	    answer.version != VERBS_HELLO_VERSION)
		return other_version(&place, answer.version, peer);
	return dfi__fail(-(int)refusal,
	    "verbs: %s: who accepts at %s is no member of our registry",
	    place.text, peer);
}

int dfi__verbs_refused(const struct verbs *verbs,
    const struct rdma_cm_event *event, const char *peer)
{
	struct verbs_place place = dfi__verbs_gid(&verbs->device);
	struct verbs_hello answer = { .refusal = 0 };

	if (event->param.conn.private_data &&
	    event->param.conn.private_data_len >= sizeof(answer))
		memcpy(&answer, event->param.conn.private_data, sizeof(answer));
	if (answer.magic != VERBS_HELLO_MAGIC)
		return dfi__fail(-ECONNREFUSED,
		    "verbs: %s: nobody listens at %s (%s)", place.text, peer,
		    event->status < 0 ? strerror(-event->status) : "rejected");
	if (answer.version != VERBS_HELLO_VERSION)
		return other_version(&place, answer.version, peer);
	return dfi__fail(errno_of_refusal(answer.refusal),
	    "verbs: %s: %s refused the connection: %s", place.text, peer,
	    answer.refusal == EACCES ? "it doesn't know us as a member"
				     : strerror(answer.refusal));
}

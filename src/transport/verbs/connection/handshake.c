/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake of connections (transport/handshake.h), as rdma_cm carries it.
 */
#include "handshake.h"

#include <string.h>
#include "base/error.h"
#include "transport/verbs/device/fail.h"

static struct handshake_self self_of(const struct verbs *verbs)
{
	return (struct handshake_self){
		.name = "verbs",
		.over = "RDMA",
		.magic = VERBS_HANDSHAKE_MAGIC,
		.version = VERBS_HANDSHAKE_VERSION,
		.member = &verbs->self,
	};
}

/* Of the end that is connected (here or there) through this id. */
static struct handshake_path path_of(struct rdma_cm_id *id, bool we_accept)
{
	const struct sockaddr *local = rdma_get_local_addr(id);
	const struct sockaddr *peer = rdma_get_peer_addr(id);

	return (struct handshake_path){
		.from = we_accept ? peer : local,
		.to = we_accept ? local : peer,
		.port = we_accept ? rdma_get_src_port(id)
				  : rdma_get_dst_port(id),
	};
}

int dfi__verbs_send_handshake(const struct verbs *verbs, struct rdma_cm_id *id,
    struct handshake *handshake)
{
	struct handshake_self self = self_of(verbs);
	struct handshake_path path = path_of(id, false);

	return dfi__handshake_greet(&self, &path, handshake);
}

int dfi__verbs_answer(const struct verbs *verbs, struct rdma_cm_id *id,
    uint64_t nonce, struct handshake *handshake)
{
	struct handshake_self self = self_of(verbs);
	struct handshake_path path = path_of(id, true);

	return dfi__handshake_answer(&self, &path, nonce, handshake);
}

struct handshake dfi__verbs_refusal(const struct verbs *verbs, uint16_t refusal)
{
	struct handshake_self self = self_of(verbs);

	return dfi__handshake_refusal(&self, refusal);
}

uint16_t dfi__verbs_check_handshake(const struct verbs *verbs,
    struct rdma_cm_id *id, const struct rdma_conn_param *param,
    struct handshake *proved)
{
	struct handshake_self self = self_of(verbs);
	struct handshake_path path = path_of(id, true);

	return dfi__handshake_check(
	    &self, &path, param->private_data, param->private_data_len, proved);
}

int dfi__verbs_accepted(const struct verbs *verbs,
    const struct rdma_cm_event *event, uint64_t nonce, const char *peer)
{
	const struct rdma_conn_param *param = &event->param.conn;
	struct verbs_location location = dfi__verbs_gid(&verbs->device);
	struct handshake_self self = self_of(verbs);
	struct handshake_path path = path_of(event->id, false);

	return dfi__handshake_accepted(&self, &path, param->private_data,
	    param->private_data_len, nonce, location.text, peer);
}

int dfi__verbs_refused(const struct verbs *verbs,
    const struct rdma_cm_event *event, const char *peer)
{
	const struct rdma_conn_param *param = &event->param.conn;
	struct verbs_location location = dfi__verbs_gid(&verbs->device);
	struct handshake_self self = self_of(verbs);

	return dfi__handshake_refused(&self, param->private_data,
	    param->private_data_len,
	    event->status < 0 ? strerror(-event->status) : "rejected",
	    location.text, peer);
}

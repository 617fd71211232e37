/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the owner of a ring tells its writer: credits, and that there will be no
 * more. A writer that is stopped takes nothing, and the posting thread holds
 * locks, so it must not wait for room. It notes the message in the link, and
 * the control thread posts it later.
 */

#include "ring.h"

#include <endian.h>
#include "base/atomic.h"
#include "checksum.h"
#include "message.h"

static void owe(struct verbs_link *link, enum verbs_owing what)
{
	if (link->owing != VERBS_OWES_NOTHING)
		link->conn->n_owing--;
	if (what != VERBS_OWES_NOTHING)
		link->conn->n_owing++;
	link->owing = what;
}

static void post_credit(struct verbs_link *link)
{
	struct verbs_conn *conn = link->conn;
	struct ibv_sge sge = {
		.addr = (uintptr_t)&link->credit,
		.length = sizeof(link->credit),
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_INLINE,
		.imm_data = htobe32(
		    link->to_link << VERBS_IMM_BITS | VERBS_IMM_CREDIT),
		.wr.rdma.remote_addr = link->credit_address,
		.wr.rdma.rkey = link->credit_rkey,
	};

	owe(link, VERBS_OWES_NOTHING);
	verbs_count(&conn->counts.credits, 1);
	/* If the connection is broken, the ring is lost; no error here. */
	(void)verbs_post(conn, &wr, false);
}

static void post_closed(struct verbs_link *link)
{
	struct verbs_message answer = {
		.type = VERBS_CLOSED,
		.to_link = link->to_link,
	};
	struct verbs_conn *conn = link->conn;

	owe(link, VERBS_OWES_NOTHING);
	*link = (struct verbs_link){ .conn = NULL };
	(void)dfi__verbs_send(conn, &answer, false);
}

int dfi__verbs_give_credit(struct region *region, struct export *base,
    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
    enum ring_closed closed)
{
	struct verbs_export *export = (struct verbs_export *)base;
	struct verbs *verbs = (struct verbs *)export->base.transport;
	struct verbs_link *link;

	(void)region;
	(void)layout;
	if (!atomic_observe(&export->rings[ring].used))
		return 0;
	pthread_mutex_lock(&verbs->table);
	if (export->rings[ring].link != NETWORK_NO_LINK) {
		link = &verbs->links[export->rings[ring].link];
		if (export->rings[ring].notify == VERBS_NOTIFY_CHECKSUM)
			dfi__verbs_blank(link,
			    consumed - atomic_peek(&link->credit.consumed));
		atomic_set(&link->credit.consumed, consumed);
		atomic_set(&link->credit.closed, closed);
		if (dfi__verbs_is_busy(link->conn))
			owe(link, VERBS_OWES_CREDIT);
		else
			post_credit(link);
	}
	pthread_mutex_unlock(&verbs->table);
	return 1;
}

void dfi__verbs_say_closed(struct verbs_link *link)
{
	/* A credit that waits is obsolete. */
	if (dfi__verbs_is_busy(link->conn))
		owe(link, VERBS_OWES_CLOSED);
	else
		post_closed(link);
}

void dfi__verbs_pay(struct verbs_conn *conn)
{
	struct verbs *verbs = conn->verbs;
	struct verbs_link *link;
	uint32_t i;

	for (i = 0; conn->n_owing && i < verbs->n_links; i++) {
		link = &verbs->links[i];
		if (link->conn != conn || link->owing == VERBS_OWES_NOTHING)
			continue;
		if (dfi__verbs_is_busy(conn))
			return;
		if (link->owing == VERBS_OWES_CREDIT)
			post_credit(link);
		else
			post_closed(link);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that many processes add to, by atomic operations of the owner's device.
 * These are atomic towards each other only, not towards the owner's processor
 * (IBV_ATOMIC_HCA; ibv_query_device(3)), so all processes use the device, also
 * the owner's.
 *
 * Each user of a word has a connection for it alone. On a connection that
 * carries segments, the operation would wait behind them, and behind a target
 * that is stopped.
 *
 * Only one request at a time is under way on it. soft-RoCE takes any
 * acknowledgement of an addition's number for its answer, and completes it
 * without a result (the kernel's rxe_comp.c, check_psn() and check_ack()). A
 * message or write before it causes one: if it is repeated after the addition
 * was executed, the owner's device acknowledges all that it has executed
 * (rxe_resp.c, duplicate_request()). So a ring of words is open only when its
 * request has completed, and nobody probes. A result that is missing all the
 * same is seen, as the word still has the mark.
 */
#include "ring.h"

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/error.h"
#include "transport/verbs/device/fail.h"

int dfi__verbs_check_atomics(const struct verbs *verbs)
{
	if (verbs->device.limits.atomics)
		return 0;
	return dfi__fail(-EOPNOTSUPP,
	    "verbs: %s: the device has no atomic operations (atomic_cap, "
	    "max_qp_rd_atom), by which numbers are taken over RDMA",
	    dfi__verbs_port(&verbs->device).text);
}

/* No result: no counter begins near it, or comes there within centuries. */
#define NO_NUMBER UINT64_C(0x6e6f20726573756c)

static _Atomic uint64_t *word_at(const struct remote *remote, uint64_t offset)
{
	return (_Atomic uint64_t *)(void *)(remote->ring + offset);
}

int dfi__verbs_add(struct remote *base, uint64_t offset, uint64_t n)
{
	struct verbs_remote *remote = (struct verbs_remote *)base;
	_Atomic uint64_t *word = word_at(base, offset);
	struct ibv_sge result = {
		.addr = (uintptr_t)word,
		.length = sizeof(*word),
		.lkey = remote->shadow.mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &result,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic.remote_addr = remote->address + offset,
		.wr.atomic.compare_add = n,
		.wr.atomic.rkey = remote->rkey,
	};

	atomic_set(word, NO_NUMBER);
	verbs_count(&remote->conn->counts.messages, 1);
	if (verbs_post(remote->conn, &wr, true))
		return dfi__verbs_lost(remote);
	remote->last = remote->conn->posted;
	return 0;
}

int dfi__verbs_added(struct remote *base, uint64_t offset, uint64_t *before)
{
	struct verbs_remote *remote = (struct verbs_remote *)base;
	struct verbs_conn *conn = remote->conn;
	uint64_t number;
	int err = 0;

	if (conn->completed < remote->last)
		err = dfi__verbs_poll_sends(conn);
	if (conn->completed >= remote->last) {
		/* The device writes it before it reports the completion. */
		number = atomic_observe(word_at(base, offset));
		if (unlikely(number == NO_NUMBER)) {
			dfi__verbs_break(conn, "an addition had no result");
			return dfi__verbs_lost(remote);
		}
		*before = number;
		return 1;
	}
	/* After a device's failure nothing completes any more. */
	return err || atomic_peek(&conn->broken) ? dfi__verbs_lost(remote) : 0;
}

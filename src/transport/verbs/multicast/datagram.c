/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams on one queue pair: posting them, selective signalling, taking
 * arrivals, and posting receives again. A datagram that finds no receive is
 * lost silently, and so is one that exceeds the network's MTU: the opening of
 * the endpoint has checked the sizes.
 */
#include "multicast.h"

#include <string.h>
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/error.h"
#include "transport/verbs/device/fail.h"

/* How many completions are taken at once. */
#define BATCH VERBS_REPOST

static int broken(struct verbs_endpoint *endpoint)
{
	return dfi__fail(-ECONNRESET, "verbs: %s: multicast group %s: %s",
	    dfi__verbs_gid(&endpoint->verbs->device).text, endpoint->attr.group,
	    atomic_peek(&endpoint->failed));
}

static inline bool has_failed(const struct verbs_endpoint *endpoint)
{
	/* Pairs with dfi__verbs_endpoint_fail(): the text. */
	return unlikely(atomic_observe(&endpoint->failed) != NULL);
}

int dfi__verbs_endpoint_receive(
    struct verbs_endpoint *endpoint, const uint64_t *numbers, uint32_t n)
{
	struct ibv_recv_wr wrs[VERBS_REPOST], *bad;
	struct ibv_sge sges[VERBS_REPOST];
	uint32_t i;

	for (i = 0; i < n; i++) {
		sges[i] = (struct ibv_sge){
			.addr = (uintptr_t)endpoint->buffers +
			    numbers[i] * endpoint->receive_size,
			.length = endpoint->receive_size,
			.lkey = endpoint->buffers_mr->lkey,
		};
		wrs[i] = (struct ibv_recv_wr){
			.wr_id = numbers[i],
			.next = i + 1 < n ? &wrs[i + 1] : NULL,
			.sg_list = &sges[i],
			.num_sge = 1,
		};
	}
	return ibv_post_recv(endpoint->id->qp, wrs, &bad);
}

/* Take the completions of sends. */
static int poll_sends(struct verbs_endpoint *endpoint)
{
	struct ibv_wc wcs[8];
	int i, n = ibv_poll_cq(endpoint->sends, 8, wcs);

	for (i = 0; i < n && wcs[i].status == IBV_WC_SUCCESS; i++)
		endpoint->completed = wcs[i].wr_id;
	if (n >= 0 && i == n)
		return 0;
	dfi__verbs_endpoint_fail(endpoint,
	    n < 0 ? "its completion queue failed"
		  : ibv_wc_status_str(wcs[i].status));
	return broken(endpoint);
}

int dfi__verbs_endpoint_room(struct multicast_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;

	if (has_failed(endpoint))
		return broken(endpoint);
	if (endpoint->posted - endpoint->completed >= endpoint->max_sends / 2 &&
	    poll_sends(endpoint) < 0)
		return -ECONNRESET;
	return endpoint->posted - endpoint->completed < endpoint->max_sends;
}

/* The header is the caller's: unless it is sent inline, it is copied. */
static int post(struct verbs_endpoint *endpoint,
    const struct multicast_peer *peer, struct ibv_sge *parts, int n_parts,
    bool is_inline)
{
	struct ibv_send_wr wr = {
		.wr_id = endpoint->posted + 1,
		.sg_list = parts,
		.num_sge = n_parts,
		.opcode = IBV_WR_SEND,
		.send_flags = is_inline ? IBV_SEND_INLINE : 0,
		.wr.ud = { .ah = peer->ah,
		    .remote_qpn = peer->number,
		    .remote_qkey = endpoint->attr.key },
	};
	struct verbs_counts *counts = &endpoint->counts;
	struct ibv_send_wr *bad;
	int err;

	if (wr.wr_id % VERBS_DATAGRAM_INTERVAL == 0) {
		wr.send_flags |= IBV_SEND_SIGNALED;
		verbs_count(&counts->signalled, 1);
	}
	verbs_count(&counts->doorbells, 1);
	err = ibv_post_send(endpoint->id->qp, &wr, &bad);
	if (unlikely(err != 0)) {
		dfi__verbs_endpoint_fail(endpoint, strerror(err));
		return broken(endpoint);
	}
	endpoint->posted++;
	verbs_count(&counts->messages, 1);
	verbs_count(&counts->bytes,
	    parts[0].length + (n_parts > 1 ? parts[1].length : 0));
	return 0;
}

int dfi__verbs_endpoint_send(struct multicast_endpoint *base,
    struct multicast_peer *peer, const void *header, size_t header_size,
    const void *payload, size_t payload_size)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	bool is_inline = header_size + payload_size <= endpoint->max_inline;
	struct ibv_sge parts[2];
	char *copy;
	int ret = dfi__verbs_endpoint_room(base);

	if (unlikely(ret <= 0))
		return ret < 0 ? ret : -EAGAIN;
	if (header_size > MULTICAST_HEADER_MAX ||
	    header_size + payload_size > base->max_size)
		return dfi__fail(-EMSGSIZE,
		    "verbs: a datagram of %zu bytes, with a header of %zu, on "
		    "an endpoint for %u",
		    header_size + payload_size, header_size, base->max_size);
	parts[0] = (struct ibv_sge){
		.addr = (uintptr_t)header,
		.length = (uint32_t)header_size,
		.lkey = endpoint->buffers_mr->lkey,
	};
	if (!is_inline) {
		copy = endpoint->headers +
		    endpoint->posted % endpoint->max_sends *
			MULTICAST_HEADER_MAX;
		memcpy(copy, header, header_size);
		parts[0].addr = (uintptr_t)copy;
	}
	if (payload_size)
		parts[1] = (struct ibv_sge){
			.addr = (uintptr_t)payload,
			.length = (uint32_t)payload_size,
			.lkey = endpoint->memory_mr->lkey,
		};
	return post(endpoint, peer ? peer : &endpoint->group, parts,
	    payload_size ? 2 : 1, is_inline);
}

static void take(struct verbs_endpoint *endpoint, const struct ibv_wc *wc)
{
	const char *at = endpoint->buffers + wc->wr_id * endpoint->receive_size;

	if (wc->byte_len > VERBS_GRH)
		endpoint->attr.received(endpoint->attr.arg, at + VERBS_GRH,
		    wc->byte_len - VERBS_GRH);
}

int dfi__verbs_endpoint_take(struct multicast_endpoint *base)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)base;
	uint64_t numbers[BATCH];
	struct ibv_wc wcs[BATCH];
	int i, n, err, total = 0;

	do {
		if (has_failed(endpoint))
			return broken(endpoint);
		n = ibv_poll_cq(endpoint->arrivals, BATCH, wcs);
		for (i = 0; i < n && wcs[i].status == IBV_WC_SUCCESS; i++) {
			take(endpoint, &wcs[i]);
			numbers[i] = wcs[i].wr_id;
		}
		if (n < 0 || i < n) {
			dfi__verbs_endpoint_fail(endpoint,
			    n < 0 ? "the queue of what arrives can't be read"
				  : ibv_wc_status_str(wcs[i].status));
			return broken(endpoint);
		}
		err = n ? dfi__verbs_endpoint_receive(
			      endpoint, numbers, (uint32_t)n)
			: 0;
		if (err) {
			dfi__verbs_endpoint_fail(endpoint, strerror(err));
			return broken(endpoint);
		}
		total += n;
	} while (n == BATCH);
	return total;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection: its queue pair, and how it is set up and freed.
 * connection/connect.c and connection/accept.c make connections.
 */

#include "connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bits.h"
#include "base/error.h"
#include "base/log.h"
#include "handshake.h"
#include "retry.h"
#include "transport/verbs/data/conn.h"
#include "transport/verbs/data/message.h"
#include "transport/verbs/device/fail.h"

/* The other side waits for credit or receives as long as it lives. */
#define RNR_RETRY_FOR_EVER 7

/* ... and tries again after 0.64 ms; rdma_cm leaves it at 655. */
#define MIN_RNR_TIMER 12

struct verbs_conn *dfi__verbs_new_conn(
    struct verbs *verbs, struct rdma_cm_id *id, bool accepted)
{
	struct verbs_conn *conn = calloc(1, sizeof(*conn));
	union ip peer;

	if (!conn)
		return NULL;
	conn->verbs = verbs;
	conn->id = id;
	conn->accepted = accepted;
	conn->established = !accepted;
	if (dfi__ip_copy(rdma_get_peer_addr(id), &peer))
		dfi__ip_text(&peer, conn->peer);
	id->context = conn;
	return conn;
}

struct rdma_conn_param dfi__verbs_conn_param(
    const struct verbs *verbs, const struct handshake *handshake)
{
	return (struct rdma_conn_param){
		.private_data = handshake,
		.private_data_len = sizeof(*handshake),
		.responder_resources = verbs->device.limits.reads,
		.initiator_depth = verbs->device.limits.reads,
		.retry_count = VERBS_RETRIES,
		.rnr_retry_count = RNR_RETRY_FOR_EVER,
	};
}

static int fail_qp(const struct verbs *verbs)
{
	char what[80];
	int err = errno;

	snprintf(what, sizeof(what),
	    "a queue pair for %u work requests and %zu bytes inline",
	    verbs->device.limits.sends, sizeof(struct verbs_message));
	return dfi__verbs_fail_cm(&verbs->device, what, err);
}

static int fail_sends(const struct verbs *verbs)
{
	char what[40];
	int err = errno;

	snprintf(what, sizeof(what), "a completion queue of %u",
	    verbs->device.limits.sends);
	return dfi__verbs_fail_port(&verbs->device, what, err);
}

/* Older kernels don't know it, and then take longer to give up. */
static void set_ack_timeout(const struct verbs_conn *conn)
{
	uint8_t timeout = verbs_ack_timeout(
	    conn->verbs->settings->verbs_retry_ms);

	(void)rdma_set_option(conn->id, RDMA_OPTION_ID,
	    RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout));
}

/* The memory is registered with one device, so others are of no use. */
static int fail_route(const struct verbs_conn *conn)
{
	const struct verbs_device *device = &conn->verbs->device;
	const char *other = ibv_get_device_name(conn->id->verbs->device);
	char from[IP_TEXT_SIZE] = "?";
	union ip local;

	if (dfi__ip_copy(rdma_get_local_addr(conn->id), &local))
		dfi__ip_host_text(&local, from);
	return dfi__fail(-EHOSTUNREACH,
	    "verbs: the route to %s is through %s (%s), but this context uses "
	    "%s (%s): set DFI_VERBS_DEVICE=%s or DFI_VERBS_ADDRESS=%s",
	    conn->peer, other, from, device->name, device->address_text, other,
	    from);
}

static void free_domain(struct verbs_conn *conn)
{
	if (conn->domain)
		ibv_dealloc_pd(conn->domain);
	if (conn->thread)
		ibv_dealloc_td(conn->thread);
	conn->domain = NULL;
	conn->thread = NULL;
}

/*
 * Not all devices have them. dfi_context_query() counts those that were made.
 */
static void create_domain(struct verbs_conn *conn)
{
	struct ibv_td_init_attr thread = { .comp_mask = 0 };
	struct ibv_parent_domain_init_attr domain = { .pd = conn->verbs->pd };

	conn->thread = ibv_alloc_td(conn->id->verbs, &thread);
	if (!conn->thread)
		return;
	domain.td = conn->thread;
	conn->domain = ibv_alloc_parent_domain(conn->id->verbs, &domain);
	if (!conn->domain)
		free_domain(conn);
}

int dfi__verbs_create_qp(struct verbs_conn *conn)
{
	struct verbs *verbs = conn->verbs;
	struct ibv_qp_init_attr attr = {
		.qp_context = conn,
		.recv_cq = verbs->arrivals,
		.srq = verbs->receives,
		.cap = {
			.max_send_wr = verbs->device.limits.sends,
			.max_send_sge = VERBS_PARTS,
			.max_inline_data = VERBS_INLINE,
		},
		.qp_type = IBV_QPT_RC,
	};

	set_ack_timeout(conn);
	if (conn->id->verbs != verbs->device.context)
		return fail_route(conn);
	conn->sends = ibv_create_cq(verbs->device.context,
	    (int)verbs->device.limits.sends, conn, verbs->channel, 0);
	if (!conn->sends)
		return fail_sends(verbs);
	attr.send_cq = conn->sends;
	create_domain(conn);
	if (conn->domain && rdma_create_qp(conn->id, conn->domain, &attr))
		free_domain(conn);
	if (!conn->domain && rdma_create_qp(conn->id, verbs->pd, &attr)) {
		/* The device may give less; a message is the least. */
		attr.cap.max_inline_data = sizeof(struct verbs_message);
		if (rdma_create_qp(conn->id, verbs->pd, &attr))
			return fail_qp(verbs);
	}
	conn->qp = conn->id->qp;
	conn->max_inline = attr.cap.max_inline_data;
	conn->max_sends = verbs->device.limits.sends;
	conn->interval = (uint32_t)min_u64(
	    VERBS_SIGNAL_INTERVAL, conn->max_sends / 4);
	return 0;
}

void dfi__verbs_tune(struct verbs_conn *conn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.min_rnr_timer = MIN_RNR_TIMER,
	};

	if (ibv_modify_qp(conn->qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER))
		dfi__log(DFI_LOG_INFO, "verbs: %s: min_rnr_timer: %s",
		    dfi__verbs_port(&conn->verbs->device).text,
		    strerror(errno));
}

static void unlist(struct verbs_conn *conn)
{
	struct verbs_conn **at;

	for (at = &conn->verbs->conns; *at && *at != conn; at = &(*at)->next)
		;
	if (!*at)
		return;
	*at = conn->next;
	dfi__verbs_add_counts(&conn->verbs->retired, &conn->counts);
}

void dfi__verbs_destroy_conn(struct verbs_conn *conn)
{
	/* Else nothing was posted to it, as it was never connected. */
	if (conn->qp && !conn->stopped)
		dfi__verbs_stop_conn(conn);
	if (conn->qp)
		rdma_destroy_qp(conn->id);
	if (conn->sends)
		ibv_destroy_cq(conn->sends);
	free_domain(conn);
	if (conn->id)
		rdma_destroy_id(conn->id);
	free(conn);
}

void dfi__verbs_free_conn(struct verbs_conn *conn)
{
	unlist(conn);
	dfi__verbs_destroy_conn(conn);
}

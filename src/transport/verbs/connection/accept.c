/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accepting side of connections, and the events of all that are made. It
 * runs on the control thread and never waits.
 */

#include "connection.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include "base/accept.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/loop.h"
#include "handshake.h"
#include "transport/verbs/data/arrive.h"
#include "transport/verbs/data/conn.h"
#include "transport/verbs/device/fail.h"

/* As many as the kernel allows if nothing else is set (rdma_ucm.max_backlog).
 */
#define BACKLOG 1024

static void refuse(struct verbs *verbs, struct rdma_cm_id *id, uint16_t refusal)
{
	struct handshake answer = dfi__verbs_refusal(verbs, refusal);

	rdma_reject(id, &answer, sizeof(answer));
	rdma_destroy_id(id);
}

static void on_request(struct verbs *verbs, struct rdma_cm_id *id,
    const struct rdma_conn_param *from)
{
	struct handshake answer = dfi__verbs_refusal(verbs, 0);
	struct rdma_conn_param param = dfi__verbs_conn_param(verbs, &answer);
	struct handshake handshake;
	uint16_t refusal = dfi__verbs_check_handshake(
	    verbs, id, from, &handshake);
	struct verbs_conn *conn;
	int err;

	if (!refusal &&
	    (atomic_observe(&verbs->failed) ||
		dfi__verbs_answer(verbs, id, handshake.nonce, &answer) < 0))
		refusal = EIO;
	if (refusal == EPROTO)
		dfi__log_seldom(&verbs->other_versions, DFI_LOG_WARN,
		    "verbs: refused a connection: %s", dfi_errmsg());
	if (refusal) {
		refuse(verbs, id, refusal);
		return;
	}
	conn = dfi__verbs_new_conn(verbs, id, true);
	if (!conn) {
		refuse(verbs, id, ENOMEM);
		return;
	}
	conn->node = handshake.node;
	dfi__verbs_lock_poll(verbs);
	pthread_mutex_lock(&verbs->table);
	conn->next = verbs->conns;
	verbs->conns = conn;
	err = dfi__verbs_create_qp(conn);
	if (!err && rdma_accept(id, &param))
		err = dfi__verbs_fail_cm(&verbs->device, "rdma_accept", errno);
	if (!err) {
		dfi__verbs_tune(conn);
	} else {
		dfi__log(DFI_LOG_WARN, "verbs: a connection from %s: %s",
		    conn->peer, dfi_errmsg());
		answer = dfi__verbs_refusal(
		    verbs, err == -ENOMEM ? ENOMEM : EIO);
		rdma_reject(id, &answer, sizeof(answer));
		dfi__verbs_free_conn(conn);
	}
	pthread_mutex_unlock(&verbs->table);
	lock_release(&verbs->poll);
}

/*
 * Once a connection is there, rdma_cm says no more than that a neighbour was
 * not found for a while, as when a link goes; the queue pair's retries decide.
 */
static void not_established(
    struct verbs_conn *conn, enum rdma_cm_event_type type)
{
	if (conn->established)
		dfi__log(DFI_LOG_INFO, "verbs: connection with %s: %s",
		    conn->peer, rdma_event_str(type));
	else
		dfi__verbs_break(conn, rdma_event_str(type));
}

/* Whether there was one. */
static bool on_cm_event(struct verbs *verbs)
{
	struct rdma_cm_event *event;
	struct rdma_conn_param param;
	uint8_t data[UINT8_MAX]; /* what a length can say */
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;

	if (rdma_get_cm_event(verbs->cm, &event))
		return false;
	type = event->event;
	id = event->id;
	param = event->param.conn;
	if (param.private_data && type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		memcpy(data, param.private_data, param.private_data_len);
		param.private_data = data;
	}
	/* An id can't be destroyed before its events are acknowledged. */
	rdma_ack_cm_event(event);
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		on_request(verbs, id, &param);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (id->context)
			dfi__verbs_left(id->context);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (id->context)
			((struct verbs_conn *)id->context)->established = true;
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_REJECTED:    /* accepted, but the peer gave up */
	case RDMA_CM_EVENT_UNREACHABLE: /* or vanished */
		if (id->context)
			not_established(id->context, type);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		if (id->context)
			dfi__verbs_break(id->context, "the device was removed");
		else
			dfi__verbs_break_all(verbs, "the device was removed");
		break;
	default:
		break;
	}
	return true;
}

static void on_cm(evutil_socket_t fd, short what, void *arg)
{
	int i;

	(void)fd;
	(void)what;
	/* The channel stays readable for the loop's next turn. */
	for (i = 0; i < ACCEPTS_PER_TURN && on_cm_event(arg); i++)
		;
}

int dfi__verbs_listen_watch(struct verbs *verbs)
{
	verbs->cm_event = event_new(dfi__loop_base(verbs->loop), verbs->cm->fd,
	    EV_READ | EV_PERSIST, on_cm, verbs);
	if (!verbs->cm_event || event_add(verbs->cm_event, NULL) < 0)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	return 0;
}

void dfi__verbs_unlisten_quiet(struct verbs *verbs)
{
	if (verbs->cm_event)
		event_free(verbs->cm_event);
	verbs->cm_event = NULL;
}

bool dfi__verbs_open_id(const union ip *at, struct rdma_cm_id **id)
{
	union ip address = *at;
	bool bound;
	int err;

	dfi__ip_set_port(&address, 0);
	*id = NULL;
	dfi__files_take_standard();
	bound = !rdma_create_id(NULL, id, NULL, RDMA_PS_TCP) &&
	    !rdma_bind_addr(*id, &address.any);
	err = errno;
	dfi__files_free_standard();
	errno = err;
	return bound;
}

int dfi__verbs_hold(struct verbs *verbs)
{
	bool bound = dfi__verbs_open_id(&verbs->device.address, &verbs->hold);
	struct verbs_location location;
	int ret;

	if (!verbs->hold)
		return dfi__verbs_fail_cm(
		    &verbs->device, "rdma_create_id", errno);
	if (bound && verbs->hold->verbs == verbs->device.context)
		return 0;
	location = dfi__verbs_gid(&verbs->device);
	ret = dfi__verbs_check_files(location.text, errno);
	rdma_destroy_id(verbs->hold);
	return ret ? ret
		   : dfi__fail(-ENODEV, "verbs: %s at %s has just been removed",
			 location.text, verbs->device.address_text);
}

static int fail_listen(const struct verbs *verbs, const char *call)
{
	char what[80];
	int err = errno;

	snprintf(
	    what, sizeof(what), "%s at %s", call, verbs->device.address_text);
	return dfi__verbs_fail_cm(&verbs->device, what, err);
}

static int listen_at(struct verbs *verbs)
{
	union ip address = verbs->device.address;

	if (rdma_create_id(verbs->cm, &verbs->listener, NULL, RDMA_PS_TCP))
		return fail_listen(verbs, "rdma_create_id");
	if (rdma_bind_addr(verbs->listener, &address.any))
		return fail_listen(verbs, "rdma_bind_addr");
	if (rdma_listen(verbs->listener, BACKLOG))
		return fail_listen(verbs, "rdma_listen");
	dfi__ip_set_port(&address, ntohs(rdma_get_src_port(verbs->listener)));
	dfi__ip_text(&address, verbs->base.address);
	return 0;
}

int dfi__verbs_listen(struct verbs *verbs)
{
	int ret;

	ret = dfi__verbs_channel(&verbs->device, &verbs->cm);
	if (ret < 0)
		return ret;
	ret = listen_at(verbs);
	if (ret < 0)
		dfi__verbs_unlisten(verbs);
	return ret;
}

void dfi__verbs_unlisten(struct verbs *verbs)
{
	while (verbs->conns)
		dfi__verbs_free_conn(verbs->conns);
	if (verbs->listener)
		rdma_destroy_id(verbs->listener);
	rdma_destroy_event_channel(verbs->cm);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that are asked for, made and shut, as the event queue tells. It
 * runs on the control thread and never waits.
 */
#include "conn.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include "base/accept.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "fabric.h"

/* Room for an event, and for what a peer sends with it. */
union connection_event {
	struct fi_eq_cm_entry entry;
	uint8_t bytes[sizeof(struct fi_eq_cm_entry) + 512];
};

static void refuse(struct ofi *ofi, struct fi_info *info, uint16_t refusal)
{
	struct handshake_self self = dfi__ofi_handshake(ofi);
	struct handshake answer = dfi__handshake_refusal(&self, refusal);

	(void)fi_reject(ofi->listener, info->handle, &answer, sizeof(answer));
}

/* Returns 0, or why the connection can't be had: an errno value. */
static int accept_conn(struct ofi *ofi, struct fi_info *info,
    const struct handshake *handshake, const struct handshake *answer)
{
	struct ofi_conn *conn;
	int ret = dfi__ofi_new_conn(ofi, info, true, &conn);
	union ip peer;

	if (ret < 0) {
		dfi__log(DFI_LOG_WARN, "ofi: a connection is refused: %s",
		    dfi_errmsg());
		return ret == -ENOMEM ? ENOMEM : EIO;
	}
	conn->node = handshake->node;
	conn->state = OFI_ESTABLISHED;
	conn->heard_at = clock_now_ns();
	if (info->dest_addr && dfi__ip_copy(info->dest_addr, &peer))
		dfi__ip_text(&peer, conn->peer);
	/* The peer may write as soon as it is accepted. */
	pthread_mutex_lock(&ofi->table);
	dfi__ofi_list_conn(conn);
	pthread_mutex_unlock(&ofi->table);
	ret = fi_accept(conn->ep, answer, sizeof(*answer));
	if (ret)
		dfi__ofi_break(conn, fi_strerror(-ret));
	else
		dfi__ofi_own_conn(conn);
	return 0;
}

static void on_request(
    struct ofi *ofi, struct fi_info *info, const void *data, size_t size)
{
	struct handshake_self self = dfi__ofi_handshake(ofi);
	struct handshake_path path = {
		.from = info->dest_addr,
		.to = &ofi->address.any,
		.port = htons(dfi__ip_port(&ofi->address)),
	};
	struct handshake handshake, answer;
	int refusal = dfi__handshake_check(
	    &self, &path, data, size, &handshake);

	if (!refusal &&
	    dfi__handshake_answer(&self, &path, handshake.nonce, &answer) < 0)
		refusal = EIO;
	if (!refusal)
		refusal = accept_conn(ofi, info, &handshake, &answer);
	if (refusal == EPROTO)
		dfi__log_seldom(&ofi->other_versions, DFI_LOG_WARN,
		    "ofi: refused a connection: %s", dfi_errmsg());
	if (refusal)
		refuse(ofi, info, (uint16_t)refusal);
}

/* The peer has answered: the thread that connects checks its proof. */
static void answered(struct ofi_conn *conn, enum ofi_conn_state state,
    int error, const void *data, size_t size)
{
	struct ofi *ofi = conn->ofi;

	pthread_mutex_lock(&ofi->table);
	if (conn->state == OFI_CONNECTING) {
		conn->state = state;
		conn->error = error;
		conn->answer_size = size < sizeof(conn->answer)
		    ? size
		    : sizeof(conn->answer);
		if (conn->answer_size)
			memcpy(conn->answer, data, conn->answer_size);
		pthread_cond_broadcast(&ofi->answered);
	}
	pthread_mutex_unlock(&ofi->table);
}

static void on_event(struct ofi *ofi, uint32_t type,
    const union connection_event *event, size_t size)
{
	struct ofi_conn *conn = event->entry.fid->context;

	switch (type) {
	case FI_CONNREQ:
		on_request(ofi, event->entry.info, event->entry.data, size);
		fi_freeinfo(event->entry.info);
		break;
	case FI_CONNECTED:
		dfi__ofi_warn(ofi);
		answered(conn, OFI_ANSWERED, 0, event->entry.data, size);
		break;
	case FI_SHUTDOWN:
		answered(conn, OFI_REFUSED, ECONNRESET, NULL, 0);
		dfi__ofi_break(conn, NULL);
		break;
	default:
		break;
	}
}

static void on_error(struct ofi *ofi)
{
	uint8_t data[sizeof(struct handshake)];
	struct fi_eq_err_entry error = {
		.err_data = data,
		.err_data_size = sizeof(data),
	};
	struct ofi_conn *conn;

	if (fi_eq_readerr(ofi->eq, &error, 0) < 0 || !error.fid)
		return;
	conn = error.fid->context;
	if (!conn)
		return; /* of the listener */
	answered(conn, OFI_REFUSED, error.err, error.err_data,
	    error.err_data ? error.err_data_size : 0);
	dfi__ofi_break(conn, fi_strerror(error.err));
}

/* Whether there was an event. The provider accepts sockets meanwhile. */
static bool take_event(struct ofi *ofi)
{
	union connection_event event;
	uint32_t type = 0;
	ssize_t size;

	dfi__files_take_standard();
	size = fi_eq_read(ofi->eq, &type, &event, sizeof(event), 0);
	dfi__files_free_standard();
	if (size == -FI_EAVAIL) {
		on_error(ofi);
		return true;
	}
	if (size < (ssize_t)sizeof(event.entry))
		return false;
	atomic_set(&ofi->n_idle, 0);
	on_event(ofi, type, &event, (size_t)size - sizeof(event.entry));
	return true;
}

bool dfi__ofi_take_events(struct ofi *ofi)
{
	int i;

	for (i = 0; i < ACCEPTS_PER_TURN; i++)
		if (!take_event(ofi))
			return true;
	return false;
}

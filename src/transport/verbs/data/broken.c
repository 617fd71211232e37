/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broken connections: the thread that notices marks the connection and goes on;
 * the control thread does the rest (connection/break.c).
 */
#include "conn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/log.h"
#include "ring.h"
#include "transport/verbs/device/fail.h"

void dfi__verbs_breaks_wake(struct verbs *verbs)
{
	uint64_t one = 1;

	if (write(verbs->breaks, &one, sizeof(one)) < 0)
		dfi__log(DFI_LOG_ERROR, "verbs: eventfd: %s", strerror(errno));
}

static bool mark(struct verbs_conn *conn, const char *why)
{
	const struct verbs_device *device = &conn->verbs->device;

	if (atomic_exchange(&conn->breaking, true))
		return false;
	if (why)
		snprintf(conn->why, sizeof(conn->why), "%s: %s",
		    dfi__verbs_gid(device).text, why);
	/* Pairs with dfi__verbs_why(): the text. */
	atomic_publish(&conn->broken, true);
	dfi__log(DFI_LOG_INFO, "verbs: connection with %s: %s", conn->peer,
	    why ? conn->why : "the peer has gone");
	dfi__verbs_breaks_wake(conn->verbs);
	return true;
}

void dfi__verbs_break(struct verbs_conn *conn, const char *why)
{
	if (mark(conn, why))
		atomic_fetch_add(&conn->verbs->n_broken, 1);
}

void dfi__verbs_left(struct verbs_conn *conn)
{
	mark(conn, NULL);
}

const char *dfi__verbs_why(const struct verbs_conn *conn)
{
	return atomic_observe(&conn->broken) && conn->why[0] ? conn->why : NULL;
}

void dfi__verbs_break_all(struct verbs *verbs, const char *why)
{
	const char *none = NULL;

	if (atomic_compare_exchange_strong(&verbs->failed, &none, why))
		dfi__verbs_breaks_wake(verbs);
}

int dfi__verbs_lost(const struct verbs_remote *remote)
{
	const char *why = dfi__verbs_why(remote->conn);

	return dfi__fail(-ECONNRESET, "verbs: the connection with %s broke: %s",
	    remote->conn->peer, why ? why : "the peer has gone");
}

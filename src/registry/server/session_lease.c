/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lease of a client of the registry: its signs of life, its end, and what
 * an earlier connection of the same client still holds. That connection is past
 * as soon as a later one has greeted.
 */
#include "session.h"

#include <errno.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/error.h"
#include "server.h"
#include "snapshot.h"

void dfi__session_lives(struct session *session)
{
	struct table *table = session->server->table;
	int64_t now = clock_now_ns();
	struct session *other;

	if (session->lease)
		dfi__table_keepalive(table, session->lease, now);
	if (!session->has_past)
		return;
	/* Keys that it has not reclaimed yet must stay until it can. */
	TAILQ_FOREACH(other, &session->server->live, link)
	{
		if (other->past && other->client == session->client &&
		    other->lease)
			dfi__table_keepalive(table, other->lease, now);
	}
}

/*
 * The network may still deliver what the client sent before it gave a
 * connection up. The lease of that connection keeps the keys that are not yet
 * reclaimed, until it ends, or the client says that it has all it wants. The
 * watches of that connection end: nobody reads their events, and they occupy
 * places.
 */
int dfi__session_leave_behind(struct session *session)
{
	struct session *other;

	TAILQ_FOREACH(other, &session->server->live, link)
	{
		if (other == session || other->client != session->client)
			continue;
		if (other->connection > session->connection)
			return dfi__fail(
			    -ESTALE, "the client has a later connection");
		other->past = session->has_past = true;
		dfi__table_unwatch_all(session->server->table, other);
		other->n_watches = other->n_follows = 0;
		dfi__snapshot_end(other);
		dfi__session_set_reading(other);
	}
	return 0;
}

static struct session *past_of(const struct session *session)
{
	struct session *other;

	TAILQ_FOREACH(other, &session->server->live, link)
	{
		if (other->past && other->client == session->client)
			return other;
	}
	return NULL;
}

void dfi__session_end_past(struct session *session)
{
	struct session *other;

	session->has_past = false;
	/* Start over each time: a notified session may be doomed. */
	while ((other = past_of(session))) {
		dfi__session_doom(other, NULL);
		/* At once: later requests depend on it. */
		dfi__session_release(other);
	}
}

void dfi__session_expired(void *arg, void *holder, uint64_t lease)
{
	struct session *session = holder;

	(void)arg;
	(void)lease;
	session->lease = 0;
	session->expired_at = dfi__table_revision(session->server->table);
	session->server->has_expired = true;
}

void dfi__session_refuse_expired(struct server *server)
{
	struct session *session = TAILQ_FIRST(&server->live), *next;
	uint64_t told = dfi__table_told(server->table);

	if (!server->has_expired)
		return;
	server->has_expired = false;
	for (; session; session = next) {
		next = TAILQ_NEXT(session, link);
		if (!session->expired_at)
			continue;
		if (session->expired_at > told)
			server->has_expired = true;
		else
			dfi__session_refuse(session, 0,
			    dfi__fail(-ETIMEDOUT,
				"the client's lease has expired: it gave no "
				"sign of life for %u ms: if its process may be "
				"stopped or starved for so long, raise "
				"DFI_LEASE (dfi_attr.lease_ttl_ms)",
				session->ttl_ms));
	}
}

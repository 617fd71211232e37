/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lease of a client of the registry: its signs of life, its end, and what
 * an earlier connection of the same client still holds. That connection is past
 * as soon as a later one has greeted.
 */
#include "session.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "key_tree.h"
#include "server.h"
#include "snapshot.h"

/* A client that tells its id, while it has live connections. */
struct member {
	struct tree_leaf leaf; /* first; its text is the id */
	uint64_t id;
	struct session_list sessions; /* each left those before it behind */
};

static struct member *get_member(struct server *server, uint64_t id)
{
	struct member *member = (struct member *)dfi__tree_find(
	    &server->members, &id, sizeof(id));

	if (member)
		return member;
	member = calloc(1, sizeof(*member));
	if (!member)
		return NULL;
	member->id = id;
	member->leaf.text = &member->id;
	member->leaf.size = sizeof(member->id);
	TAILQ_INIT(&member->sessions);
	if (!dfi__tree_insert(&server->members, &member->leaf))
		return member;
	free(member);
	return NULL;
}

void dfi__session_leave_member(struct session *session)
{
	struct member *member = session->member;

	if (!member)
		return;
	session->member = NULL;
	TAILQ_REMOVE(&member->sessions, session, member_link);
	if (!TAILQ_EMPTY(&member->sessions))
		return;
	dfi__tree_remove(&session->server->members, &member->leaf);
	free(member);
}

struct session *dfi__session_before(const struct session *session)
{
	return session->member ? TAILQ_PREV(session, session_list, member_link)
			       : NULL;
}

/* The last of the client's connections before this one with a lease. */
static struct session *before_with_lease(const struct session *session)
{
	struct session *other = dfi__session_before(session);

	while (other && !other->lease)
		other = dfi__session_before(other);
	return other;
}

bool dfi__session_is_resumable(const struct session *session)
{
	const struct session *other = before_with_lease(session);

	return other && other->restored;
}

int dfi__session_resume(struct session *session, int64_t ttl_ns, int64_t now)
{
	struct session *other = before_with_lease(session);

	if (!other)
		return dfi__fail(-ENOENT,
		    "the client's lease of before has ended meanwhile");
	session->lease = other->lease;
	other->lease = 0;
	return dfi__table_hand_over(
	    session->server->table, session->lease, session, ttl_ns, now);
}

void dfi__session_lives(struct session *session)
{
	struct table *table = session->server->table;
	int64_t now = clock_now_ns();
	struct session *other;

	if (session->lease)
		dfi__table_keepalive(table, session->lease, now);
	/* Keys that it has not reclaimed yet must stay until it can. */
	for (other = dfi__session_before(session); other;
	     other = dfi__session_before(other))
		if (other->lease)
			dfi__table_keepalive(table, other->lease, now);
}

/*
 * The network may still deliver what the client sent before it gave a
 * connection up. The lease of that connection keeps the keys that are not yet
 * reclaimed, until it ends, or the client says that it has all it wants. The
 * watches of that connection end: nobody reads their events, and they occupy
 * places.
 */
static void make_past(struct session *session)
{
	session->past = true;
	dfi__table_unwatch_all(session->server->table, session);
	session->n_watches = session->n_follows = 0;
	dfi__snapshot_end(session);
	dfi__session_set_reading(session);
}

int dfi__session_leave_behind(struct session *session)
{
	struct member *member = get_member(session->server, session->client);
	struct session *last;

	if (!member)
		return dfi__fail(-ENOMEM, "no memory for a client");
	last = TAILQ_LAST(&member->sessions, session_list);
	if (last && last->connection > session->connection)
		return dfi__fail(-ESTALE, "the client has a later connection");
	TAILQ_INSERT_TAIL(&member->sessions, session, member_link);
	session->member = member;
	if (last)
		make_past(last);
	return 0;
}

/* The first of the client's connections before this one, or NULL. */
static struct session *first_before(const struct session *session)
{
	struct session *first = session->member
	    ? TAILQ_FIRST(&session->member->sessions)
	    : NULL;

	return first == session ? NULL : first;
}

/* In the order in which they were made: others hear of their keys in it. */
void dfi__session_end_past(struct session *session)
{
	struct session *other;

	while ((other = first_before(session))) {
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
	/* Its session is gone, and its end waits to be stored. */
	if (!session)
		return;
	session->lease = 0;
	session->expired_at = dfi__table_revision(session->server->table);
	session->server->has_expired = true;
}

void dfi__session_refuse_expired(struct server *server)
{
	struct session *session = TAILQ_FIRST(&server->live), *next;
	uint64_t notified = dfi__table_notified(server->table);

	if (!server->has_expired)
		return;
	server->has_expired = false;
	for (; session; session = next) {
		next = TAILQ_NEXT(session, link);
		if (!session->expired_at)
			continue;
		if (session->expired_at > notified)
			server->has_expired = true;
		else if (session->restored)
			dfi__session_doom(session,
			    "it did not come back in time after the registry "
			    "was restarted");
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

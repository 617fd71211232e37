/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leases that a registry finds in its journal. Each has a session without a
 * stream, as if its client had lost a connection that the registry has not
 * missed yet. The client takes the lease over when it comes back. A lease ends
 * if its process has ended, or if the grace is over and the process is not
 * stopped.
 */
#include "sync_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "server.h"
#include "session.h"

static struct session *holder_of(
    const struct server *server, const struct journal_change *change)
{
	return dfi__table_holder(server->table, change->lease);
}

static void set_owner(
    struct session *session, const struct journal_change *change)
{
	bool here = change->location &&
	    change->location == session->server->sync->location;

	session->pid = here ? (pid_t)change->pid : 0;
	session->start = here ? change->start : 0;
	session->ttl_ms = change->ttl_ms;
	snprintf(session->name, sizeof(session->name),
	    session->pid ? "the client of pid %ld, of before the restart"
			 : "a client of before the restart",
	    (long)session->pid);
}

static int restore_grant(
    struct server *server, const struct journal_change *change)
{
	struct session *session = holder_of(server, change);
	int ret;

	if (session) {
		set_owner(session, change);
		return 0;
	}
	session = calloc(1, sizeof(*session));
	if (!session)
		return dfi__fail(-ENOMEM, "no memory for a registry client");
	session->server = server;
	session->restored = session->greeted = true;
	session->client = change->client;
	set_owner(session, change);
	ret = session->client ? dfi__session_leave_behind(session) : 0;
	if (!ret)
		ret = dfi__table_restore_grant(
		    server->table, change->lease, session, INT64_MAX, 0);
	if (ret) {
		dfi__session_leave_member(session);
		free(session);
		return ret;
	}
	session->lease = change->lease;
	TAILQ_INSERT_TAIL(&server->live, session, link);
	return 0;
}

static void drop(struct session *session)
{
	TAILQ_REMOVE(&session->server->live, session, link);
	dfi__session_leave_member(session);
	free(session);
}

static int restore_end(
    struct server *server, const struct journal_change *change)
{
	struct session *session = holder_of(server, change);

	if (session)
		drop(session);
	return dfi__table_restore_end(
	    server->table, change->lease, change->revision);
}

static int apply(struct server *server, const struct journal_change *change)
{
	struct table_put put = {
		.key = change->key,
		.value = change->value,
		.size = change->size,
		.lease = change->lease,
		.owner = change->client,
	};

	switch (change->type) {
	case JOURNAL_GRANT:
		return restore_grant(server, change);
	case JOURNAL_PUT:
		return dfi__table_restore_put(
		    server->table, &put, change->revision);
	case JOURNAL_DELETE:
		return dfi__table_restore_delete(
		    server->table, change->key, change->revision);
	case JOURNAL_END:
		return restore_end(server, change);
	case JOURNAL_COUNT:
		dfi__table_restore_count(
		    server->table, change->revision, change->lease);
		return 0;
	}
	return dfi__fail(-EBADMSG, "the registry's journal is damaged");
}

int dfi__restored_apply(void *arg, const struct journal_change *change)
{
	struct server *server = arg;
	int ret = apply(server, change);

	return ret ? ret : dfi__table_restore_check(server->table);
}

/* Whether it is known that its process has ended. */
static bool is_dead(struct session *session)
{
	if (session->pid <= 0)
		return false;
	/* From now on its end is noticed, if there is room for that. */
	(void)dfi__session_watch_process(session);
	return dfi__process_start((uint32_t)session->pid) != session->start;
}

static void give_grace(struct session *session, int64_t now)
{
	const struct server *server = session->server;
	uint32_t ms = server->grace_ms;

	if (session->ttl_ms > ms)
		ms = session->ttl_ms;
	dfi__table_hand_over(server->table, session->lease, session,
	    (int64_t)ms * NS_PER_MS, now);
}

void dfi__restored_check(struct server *server)
{
	struct session *session = TAILQ_FIRST(&server->live), *next;
	int64_t now = clock_now_ns();
	size_t n = 0, n_dead = 0;

	for (; session; session = next) {
		next = TAILQ_NEXT(session, link);
		/* Nobody can come back as a client without a number. */
		if (!session->client || is_dead(session)) {
			dfi__session_doom(session, NULL);
			n_dead++;
		} else {
			give_grace(session, now);
			n++;
		}
	}
	dfi__log(DFI_LOG_INFO,
	    "registry %s: its state has %zu clients, which may come back, and "
	    "%zu that have ended",
	    server->listen.text, n, n_dead);
	dfi__server_settle(server);
	dfi__server_next_expiry(server);
}

void dfi__restored_keep_stopped(struct server *server)
{
	int64_t now = clock_now_ns();
	struct session *session;

	TAILQ_FOREACH(session, &server->live, link)
	{
		if (session->restored && session->lease && session->pid > 0 &&
		    dfi__process_is_stopped((uint32_t)session->pid))
			dfi__table_keepalive(
			    server->table, session->lease, now);
	}
}

void dfi__restored_free(struct server *server)
{
	struct session *session = TAILQ_FIRST(&server->live), *next;

	for (; session; session = next) {
		next = TAILQ_NEXT(session, link);
		if (session->restored)
			drop(session);
	}
}

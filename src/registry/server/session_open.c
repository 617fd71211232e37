/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a connection becomes a client of the registry: its user, its entry among
 * those that have not greeted, and the greeting.
 *
 * A connection counts once it has greeted. Before, it has one of a bounded
 * number of entries (visitors.h), and holds one descriptor and little memory. A
 * connection of another user gets the reason and is closed at once.
 */
#include "session.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/process.h"
#include "base/user.h"
#include "server.h"
#include "registry/wire/stream.h"

static void on_death(evutil_socket_t pidfd, short what, void *arg)
{
	struct session *session = arg;
	struct server *server = session->server;

	(void)pidfd;
	(void)what;
	dfi__session_doom(session, NULL);
	dfi__server_settle(server);
}

/* The text of an error of the registry, for its client. */
static int no_resources(int err)
{
	dfi__fail_files(err, 1, "pidfd_open", "one more client");
	return dfi__fail_within(
	    -ENOSPC, "the registry's process has no room for it");
}

/*
 * A forked child keeps the connection open after the client's process has died.
 * So the registry watches the process as well, if the kernel tells its number
 * and has pidfds. Otherwise the client counts as dead when its connection ends.
 */
int dfi__session_watch_process(struct session *session)
{
	pid_t pid = session->pid;
	int pidfd = pid > 0 ? file_up((int)syscall(SYS_pidfd_open, pid, 0))
			    : -1;

	if (pidfd < 0 && pid > 0 &&
	    (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		return no_resources(errno);
	if (pidfd < 0)
		return 0;
	session->death = event_new(dfi__loop_base(session->server->loop), pidfd,
	    EV_READ, on_death, session);
	if (session->death && !event_add(session->death, NULL))
		return 0;
	if (session->death)
		event_free(session->death);
	session->death = NULL;
	close(pidfd);
	return no_resources(ENOMEM);
}

int dfi__session_greeted(
    struct session *session, const Dfi__Registry__Handshake *handshake)
{
	struct server *server = session->server;
	int ret;

	if (server->n_sessions >= server->max_connections)
		return dfi__fail(-ENOSPC,
		    "the registry is at its limit of %zu connections, one for "
		    "each context: close some, or raise max_connections "
		    "(dfi_registry_attr)",
		    server->max_connections);
	ret = dfi__session_watch_process(session);
	if (ret)
		return ret;
	if (server->sync && session->pid > 0)
		session->start = dfi__process_start((uint32_t)session->pid);
	session->client = handshake->client;
	session->connection = handshake->connection;
	ret = session->client ? dfi__session_leave_behind(session) : 0;
	if (ret)
		return ret;
	dfi__visitors_leave(&server->strangers, &session->entry);
	session->greeted = true;
	server->n_sessions++;
	evtimer_del(session->late);
	return 0;
}

/* Find out whose connection it is, and whether that user is served. */
static int identify(struct session *session, int fd)
{
	struct server *server = session->server;
	struct ucred peer;
	int ret;

	if (strncmp(server->listen.text, "unix:", 5) != 0) {
		dfi__address_peer_name(fd, session->name);
		dfi__address_tune_tcp(fd);
		if (dfi__visitors_address(
			&server->strangers, fd, &session->entry.origin))
			return 0;
		return dfi__fail(-ENOTCONN, "the client has gone");
	}
	snprintf(session->name, sizeof(session->name), "a client");
	ret = dfi__user_peer(fd, "the client", &peer);
	if (ret)
		return ret;
	if (peer.pid)
		snprintf(session->name, sizeof(session->name),
		    "the client of pid %ld, user %lu", (long)peer.pid,
		    (unsigned long)peer.uid);
	else
		snprintf(session->name, sizeof(session->name),
		    "the client of user %lu, whose pid is not visible here",
		    (unsigned long)peer.uid);
	session->pid = peer.pid;
	session->entry.origin = dfi__visitors_user(
	    &server->strangers, peer.uid);
	return dfi__user_check(&peer, "the client", server->users,
	    server->n_users,
	    ": to serve it, start the registry with "
	    "--allow-user (dfi_registry_attr.users)");
}

static struct session *create(struct server *server)
{
	struct session *session = calloc(1, sizeof(*session));

	if (session)
		session->server = server;
	return session;
}

/* It has not greeted. */
static void evict(struct server *server, struct visitor_entry *entry)
{
	struct session *session = (void *)((char *)entry -
	    offsetof(struct session, entry));

	if (dfi__log_is_due(&server->refusals[REFUSED_CROWDED]))
		dfi__log_seldom(&server->refusals[REFUSED_CROWDED],
		    DFI_LOG_WARN,
		    "registry %s: disconnects %s: it has not said its version, "
		    "nor have %u others",
		    server->listen.text, session->name,
		    server->strangers.n - 1);
	dfi__session_doom(session, NULL);
}

bool dfi__session_evict(struct server *server)
{
	struct visitor_entry *entry = dfi__visitors_any(&server->strangers);

	if (entry)
		evict(server, entry);
	return entry;
}

static void start(struct session *session)
{
	struct server *server = session->server;
	uint32_t origin = session->entry.origin;
	struct visitor_entry *excess;

	if (dfi__session_serve(session)) {
		dfi__log(DFI_LOG_ERROR, "registry %s: no memory for a client",
		    server->listen.text);
		dfi__session_free(session);
		return;
	}
	excess = dfi__visitors_excess(&server->strangers, origin);
	if (excess)
		evict(server, excess);
	dfi__visitors_enter(&server->strangers, &session->entry, origin);
	TAILQ_INSERT_TAIL(&server->live, session, link);
}

/* Refuse another user's connection: it never was more than a socket. */
static void turn_away(struct session *session, int fd, int err)
{
	struct server *server = session->server;
	char text[512];

	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	if (err != -ENOTCONN) {
		dfi__log_seldom(&server->refusals[REFUSED_USER], DFI_LOG_WARN,
		    "registry %s: disconnects %s: %s", server->listen.text,
		    session->name, text);
		dfi__stream_refuse(fd, err, text);
	}
	close(fd);
	free(session);
}

void dfi__session_open(struct server *server, int fd)
{
	struct session *session = create(server);
	int err;

	if (!session) {
		close(fd);
		return;
	}
	err = identify(session, fd);
	if (err) {
		turn_away(session, fd, err);
		return;
	}
	/* A child of the application would keep it open endlessly. */
	if (!dfi__fork_add_unmapped(fd))
		session->stream = bufferevent_socket_new(
		    dfi__loop_base(server->loop), fd, BEV_OPT_CLOSE_ON_FREE);
	if (!session->stream) {
		dfi__log(DFI_LOG_ERROR, "registry %s: no memory for a client",
		    server->listen.text);
		dfi__fork_close(fd);
		free(session);
		return;
	}
	session->direct = true;
	start(session);
}

void dfi__session_adopt(
    struct server *server, struct bufferevent *stream, const char *name)
{
	struct session *session = create(server);

	if (!session) {
		dfi__fork_remove(bufferevent_getfd(stream));
		bufferevent_free(stream);
		return;
	}
	snprintf(session->name, sizeof(session->name), "%s", name);
	session->stream = stream;
	/* If the peer has left, the session is about to be freed. */
	dfi__visitors_address(&server->strangers, bufferevent_getfd(stream),
	    &session->entry.origin);
	start(session);
}

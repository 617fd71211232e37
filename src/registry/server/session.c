/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client of the registry: the events of its stream, its refusal, and what
 * its end releases. A client can hurt only itself: its messages are checked,
 * unread answers are bounded, and what it holds is counted.
 *
 * No more of a client's requests are read while more than 1 MiB of answers
 * waits for it, or a part of a snapshot, or requests of an earlier turn. A
 * watermark would not serve: libevent's TLS streams stall when they reach it in
 * the middle of a record. Its keepalives are not read then either; taking
 * answers counts as a sign of life.
 *
 * A refused client does not count any more. It gets the reason and has a moment
 * to read it; if many are refused, the first are closed at once.
 */
#include "session.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork_files.h"
#include "base/log.h"
#include "server.h"
#include "snapshot.h"
#include "sync.h"
#include "registry/wire/wire.h"

#define GREETING_TIMEOUT_S 10
#define CLOSING_TIMEOUT_S 2
#define CLOSING_MAX 64

static void leave_list(struct session *session)
{
	struct server *server = session->server;

	if (session->closing) {
		TAILQ_REMOVE(&server->closing, session, link);
		server->n_closing--;
	} else {
		TAILQ_REMOVE(&server->live, session, link);
		dfi__session_leave_member(session);
		if (session->restored)
			return;
		if (session->greeted)
			server->n_sessions--;
		else
			dfi__visitors_leave(
			    &server->strangers, &session->entry);
	}
}

void dfi__session_doom(struct session *session, const char *fmt, ...)
{
	struct server *server = session->server;
	char why[256];
	va_list ap;

	if (session->doomed)
		return;
	if (fmt) {
		va_start(ap, fmt);
		vsnprintf(why, sizeof(why), fmt, ap);
		va_end(ap);
		dfi__log(DFI_LOG_WARN, "registry %s: disconnects %s: %s",
		    server->listen.text, session->name, why);
	}
	session->doomed = true;
	dfi__turns_dequeue(session);
	leave_list(session);
	TAILQ_INSERT_TAIL(&server->doomed, session, link);
}

void dfi__session_release(struct session *session)
{
	struct server *server = session->server;
	uint64_t lease = session->lease;

	session->lease = 0;
	dfi__sync_dequeue(session);
	dfi__snapshot_end(session);
	dfi__wire_free(session->held);
	session->held = NULL;
	dfi__table_unwatch_all(server->table, session);
	if (lease)
		dfi__sync_end_lease(server, lease);
}

void dfi__session_free(struct session *session)
{
	dfi__session_release(session);
	if (session->late)
		event_free(session->late);
	if (session->death) {
		int fd = event_get_fd(session->death);

		/* In this order: a closed number may be reused. */
		event_free(session->death);
		close(fd);
	}
	if (session->stream) {
		dfi__session_end_output(session);
		dfi__fork_remove(bufferevent_getfd(session->stream));
		bufferevent_free(session->stream);
	}
	free(session);
}

static int set_late(struct session *session, int seconds)
{
	struct timeval timeout = { .tv_sec = seconds };

	/* The deadline is absolute: traffic does not extend it. */
	return evtimer_add(session->late, &timeout);
}

/* It does not count any more. If there are too many, close the first ones. */
static void move_to_closing(struct session *session)
{
	struct server *server = session->server;

	leave_list(session);
	session->closing = true;
	TAILQ_INSERT_TAIL(&server->closing, session, link);
	if (++server->n_closing > CLOSING_MAX)
		dfi__session_doom(TAILQ_FIRST(&server->closing), NULL);
}

static enum refusal cause_of(int err)
{
	if (err == -EPROTO)
		return REFUSED_VERSION;
	return err == -ENOSPC ? REFUSED_FULL : REFUSED_GARBAGE;
}

/* One that has greeted is always logged. */
void dfi__session_refuse(struct session *session, uint64_t id, int err)
{
	struct server *server = session->server;
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;
	char text[512];

	if (session->closing || session->doomed)
		return;
	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	if (session->greeted)
		dfi__log(DFI_LOG_WARN, "registry %s: disconnects %s: %s",
		    server->listen.text, session->name, text);
	else
		dfi__log_seldom(&server->refusals[cause_of(err)], DFI_LOG_WARN,
		    "registry %s: disconnects %s: %s", server->listen.text,
		    session->name, text);
	reply.id = id;
	reply.error = err;
	reply.text = text;
	reply.version = WIRE_VERSION;
	move_to_closing(session);
	dfi__session_release(session);
	dfi__session_reply(session, &reply);
	if (session->doomed)
		return;
	/* Input is read and dropped until the client closes. */
	bufferevent_setwatermark(session->stream, EV_WRITE, 0, 0);
	dfi__session_set_reading(session);
	if (set_late(session, CLOSING_TIMEOUT_S))
		dfi__session_doom(session, NULL);
}

static void on_read(struct bufferevent *stream, void *arg)
{
	struct session *session = arg;
	struct server *server = session->server;

	(void)stream;
	dfi__session_read(session);
	dfi__server_settle(server);
}

/* The output has shrunk to the low watermark. */
static void on_written(struct bufferevent *stream, void *arg)
{
	struct session *session = arg;
	struct server *server = session->server;
	bool empty = !evbuffer_get_length(bufferevent_get_output(stream));

	if (session->direct && empty) {
		session->writing = false;
		bufferevent_disable(stream, EV_WRITE);
	}
	/*
	 * The last reply is written. Closing now could break a write of the
	 * client, which would then not read the reply: the client closes first.
	 */
	if (session->closing) {
		if (empty)
			shutdown(bufferevent_getfd(stream), SHUT_WR);
	} else if (session->snapshot) {
		dfi__turns_enqueue(session);
	} else if (session->paused) {
		dfi__session_read(session);
	}
	dfi__server_settle(server);
}

static void on_end(struct bufferevent *stream, short what, void *arg)
{
	struct session *session = arg;
	struct server *server = session->server;

	(void)stream;
	(void)what;
	dfi__session_doom(session, NULL);
	dfi__server_settle(server);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	struct session *session = arg;
	struct server *server = session->server;

	(void)fd;
	(void)what;
	if (!session->closing)
		dfi__log_seldom(&server->refusals[REFUSED_QUIET], DFI_LOG_WARN,
		    "registry %s: disconnects %s: it did not say its version "
		    "within %d s",
		    server->listen.text, session->name, GREETING_TIMEOUT_S);
	dfi__session_doom(session, NULL);
	dfi__server_settle(server);
}

int dfi__session_serve(struct session *session)
{
	struct bufferevent *stream = session->stream;

	bufferevent_setcb(stream, on_read, on_written, on_end, session);
	bufferevent_setwatermark(stream, EV_WRITE, OUTPUT_RESUME, 0);
	if (session->direct)
		bufferevent_disable(stream, EV_WRITE);
	session->late = evtimer_new(
	    bufferevent_get_base(stream), on_late, session);
	if (!session->late || set_late(session, GREETING_TIMEOUT_S) ||
	    dfi__session_start_output(session) ||
	    bufferevent_enable(
		stream, session->direct ? EV_READ : EV_READ | EV_WRITE))
		return -ENOMEM;
	return 0;
}

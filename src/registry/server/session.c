/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client of the registry: its stream, its lease, its watches, and the
 * answers to its requests. A client can hurt only itself: what it sends is
 * checked, what it does not read is bounded, and what it may hold is counted.
 *
 * While more than 1 MiB of answers waits for a client, or a part of a snapshot,
 * or requests from an earlier turn, no more of its requests are read. A
 * watermark would not do for that: libevent's TLS streams stall when they reach
 * it in the middle of a record. Events of one client can't be held back: if it
 * lets more than the limit pile up, it is disconnected.
 *
 * Nor are its signs of life read then: what it takes of the answers is one.
 *
 * A connection counts when it has greeted. Before, it has one of a bounded
 * number of places (visitors.h), and holds one descriptor and little memory. A
 * client that is refused does not count any more. It is told why and has a
 * moment to read it; of many that are told, the first go at once. Another
 * user's is told and closed at once.
 */
#include "server.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/user.h"
#include "session.h"
#include "snapshot.h"
#include "registry/wire/stream.h"
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
		if (session->greeted)
			server->n_sessions--;
		else
			dfi__visitors_leave(
			    &server->strangers, &session->place);
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

/* Nothing in the table is its any more. */
static void let_go(struct session *session)
{
	struct table *table = session->server->table;
	uint64_t lease = session->lease;

	session->lease = 0;
	dfi__snapshot_end(session);
	dfi__wire_free(session->held);
	session->held = NULL;
	dfi__table_unwatch_all(table, session);
	if (lease)
		dfi__table_revoke(table, lease);
}

static struct evbuffer *output(struct session *session)
{
	return bufferevent_get_output(session->stream);
}

static void on_output(
    struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *arg)
{
	struct session *session = arg;

	session->queued = evbuffer_get_length(buffer);
	dfi__turns_account(session->server, info->n_added, info->n_deleted);
	/* Its requests are not read then, so that it reads is a sign of life.
	 */
	if ((session->paused || session->snapshot) && info->n_deleted)
		dfi__session_lives(session);
}

void dfi__session_free(struct session *session)
{
	let_go(session);
	if (session->late)
		event_free(session->late);
	if (session->death) {
		int fd = event_get_fd(session->death);

		/* In this order: a closed number may be another's by now. */
		event_free(session->death);
		close(fd);
	}
	if (session->unsent)
		TAILQ_REMOVE(&session->server->unsent, session, unsent_link);
	if (session->stream) {
		/* It may outlive this call, if libevent still has it in use. */
		evbuffer_remove_cb(output(session), on_output, session);
		dfi__turns_account(session->server, 0, session->queued);
		dfi__fork_remove(bufferevent_getfd(session->stream));
		bufferevent_free(session->stream);
	}
	free(session);
}

/* Something is in the output. */
static void said(struct session *session)
{
	if (!session->direct || session->writing || session->unsent)
		return;
	session->unsent = true;
	TAILQ_INSERT_TAIL(&session->server->unsent, session, unsent_link);
}

void dfi__session_flush(struct session *session)
{
	session->unsent = false;
	TAILQ_REMOVE(&session->server->unsent, session, unsent_link);
	/* Who waits for on_written() leaves it to libevent, too. */
	if (!session->paused && !session->closing &&
	    dfi__stream_flush(session->stream)) {
		if (session->snapshot)
			dfi__turns_enqueue(session);
		return;
	}
	session->writing = true;
	bufferevent_enable(session->stream, EV_WRITE);
}

void dfi__session_reply(struct session *session, Dfi__Registry__Reply *reply)
{
	said(session);
	if (dfi__wire_write_reply(output(session), reply))
		dfi__session_doom(session, "%s", dfi_errmsg());
}

static int set_late(struct session *session, int seconds)
{
	struct timeval timeout = { .tv_sec = seconds };

	/* Absolute: whatever the client sends meanwhile. */
	return evtimer_add(session->late, &timeout);
}

/* It does not count any more. Too many of them: the first have had their time.
 */
static void move_to_closing(struct session *session)
{
	struct server *server = session->server;

	leave_list(session);
	session->closing = true;
	TAILQ_INSERT_TAIL(&server->closing, session, link);
	if (++server->n_closing > CLOSING_MAX)
		dfi__session_doom(TAILQ_FIRST(&server->closing), NULL);
}

/* With dfi_errmsg(); one that has greeted is logged by all means. */
static void refuse(
    struct session *session, uint64_t id, int err, enum refusal why)
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
		dfi__log_seldom(&server->refusals[why], DFI_LOG_WARN,
		    "registry %s: disconnects %s: %s", server->listen.text,
		    session->name, text);
	reply.id = id;
	reply.error = err;
	reply.text = text;
	reply.version = WIRE_VERSION;
	move_to_closing(session);
	let_go(session);
	dfi__session_reply(session, &reply);
	if (session->doomed)
		return;
	/* Input is read on, to be dropped, until the client closes. */
	bufferevent_setwatermark(session->stream, EV_WRITE, 0, 0);
	dfi__session_set_reading(session);
	if (set_late(session, CLOSING_TIMEOUT_S))
		dfi__session_doom(session, NULL);
}

void dfi__session_refuse(struct session *session, uint64_t id, int err)
{
	enum refusal why = REFUSED_GARBAGE;

	if (err == -EPROTO)
		why = REFUSED_VERSION;
	else if (err == -ENOSPC)
		why = REFUSED_FULL;
	refuse(session, id, err, why);
}

void dfi__session_lives(struct session *session)
{
	struct table *table = session->server->table;
	int64_t now = clock_now_ns();
	struct session *other;

	if (session->lease)
		dfi__table_keepalive(table, session->lease, now);
	if (!session->has_past)
		return;
	/* What it has not yet reclaimed must not go before it can. */
	TAILQ_FOREACH(other, &session->server->live, link)
	{
		if (other->past && other->client == session->client &&
		    other->lease)
			dfi__table_keepalive(table, other->lease, now);
	}
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

	if (session->direct && !evbuffer_get_length(output(session))) {
		session->writing = false;
		bufferevent_disable(stream, EV_WRITE);
	}
	/*
	 * The last reply is out. Closing now could break a write of the
	 * client's, who would then not read it: the client closes first.
	 */
	if (session->closing) {
		if (!evbuffer_get_length(output(session)))
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
		dfi__log_seldom(&server->refusals[REFUSED_SILENT], DFI_LOG_WARN,
		    "registry %s: disconnects %s: it did not say hello within "
		    "%d s",
		    server->listen.text, session->name, GREETING_TIMEOUT_S);
	dfi__session_doom(session, NULL);
	dfi__server_settle(server);
}

/*
 * The network may still deliver what was sent before the client gave a
 * connection up. Its lease goes on for the keys that are not yet reclaimed,
 * until it ends, or the client says that it has what it wants. Its watches end:
 * nobody reads what they tell, and the client needs their room.
 */
static int leave_behind(struct session *session)
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
	/* From the start each time: who hears of it may be doomed for it. */
	while ((other = past_of(session))) {
		dfi__session_doom(other, NULL);
		/* Not only when it is freed: what is asked next counts on it.
		 */
		let_go(other);
	}
}

static void on_death(evutil_socket_t pidfd, short what, void *arg)
{
	struct session *session = arg;
	struct server *server = session->server;

	(void)pidfd;
	(void)what;
	dfi__session_doom(session, NULL);
	dfi__server_settle(server);
}

/* The text of an error of the registry's, for a client to read. */
static int no_resources(int err)
{
	dfi__fail_files(err, 1, "pidfd_open", "one more client");
	return dfi__fail_within(
	    -ENOSPC, "the registry's process has no room for it");
}

/*
 * A child that the client's process forked keeps the connection open beyond its
 * parent's death, so that is watched for itself, where the kernel tells who the
 * client is. Where it does not, or has no pidfds, the end of the connection
 * still counts.
 */
static int watch_process(struct session *session)
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
    struct session *session, const Dfi__Registry__Hello *hello)
{
	struct server *server = session->server;
	int ret;

	if (server->n_sessions >= server->max_connections)
		return dfi__fail(-ENOSPC,
		    "the registry is at its limit of %zu connections, one for "
		    "each context: close some, or raise max_connections "
		    "(dfi_registry_attr)",
		    server->max_connections);
	ret = watch_process(session);
	if (ret)
		return ret;
	session->client = hello->client;
	session->connection = hello->connection;
	ret = session->client ? leave_behind(session) : 0;
	if (ret)
		return ret;
	dfi__visitors_leave(&server->strangers, &session->place);
	session->greeted = true;
	server->n_sessions++;
	evtimer_del(session->late);
	return 0;
}

void dfi__session_event(struct session *session, uint64_t watch,
    enum table_event_type type, const struct table_item *item)
{
	Dfi__Registry__Event event = DFI__REGISTRY__EVENT__INIT;
	Dfi__Registry__Value value = DFI__REGISTRY__VALUE__INIT;

	value.key = (char *)item->key;
	value.data.data = (uint8_t *)item->value;
	value.data.len = item->size;
	value.revision = item->revision;
	said(session);
	event.watch = watch;
	event.type = type == TABLE_PUT ? DFI__REGISTRY__EVENT_TYPE__PUT
				       : DFI__REGISTRY__EVENT_TYPE__DELETE;
	event.value = &value;
	if (dfi__wire_write_event(output(session), &event))
		dfi__session_doom(session, "%s", dfi_errmsg());
}

void dfi__session_changed(void *arg, void *watcher, uint64_t tag,
    enum table_event_type type, const struct table_item *item)
{
	struct session *session = watcher;
	size_t waiting;

	(void)arg;
	if (session->doomed || session->closing)
		return;
	dfi__session_event(session, tag, type, item);
	waiting = session->queued;
	if (session->snapshot_bytes > waiting)
		session->snapshot_bytes = waiting;
	if (waiting > session->server->max_output + session->snapshot_bytes)
		dfi__session_doom(session,
		    "it does not read: %zu bytes wait for it", waiting);
}

void dfi__session_snapshot(struct session *session, size_t bytes)
{
	size_t before = session->queued - bytes;

	if (session->snapshot_bytes > before)
		session->snapshot_bytes = before;
	session->snapshot_bytes += bytes;
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
			&server->strangers, fd, &session->place.origin))
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
	session->place.origin = dfi__visitors_user(
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
static void evict(struct server *server, struct visitor_place *place)
{
	struct session *session = (void *)((char *)place -
	    offsetof(struct session, place));

	if (dfi__log_is_due(&server->refusals[REFUSED_CROWDED]))
		dfi__log_seldom(&server->refusals[REFUSED_CROWDED],
		    DFI_LOG_WARN,
		    "registry %s: disconnects %s: it has not said hello, and "
		    "%u others have not, either",
		    server->listen.text, session->name,
		    server->strangers.n - 1);
	dfi__session_doom(session, NULL);
}

bool dfi__session_evict(struct server *server)
{
	struct visitor_place *place = dfi__visitors_any(&server->strangers);

	if (place)
		evict(server, place);
	return place;
}

static void start(struct session *session)
{
	struct server *server = session->server;
	struct bufferevent *stream = session->stream;
	uint32_t origin = session->place.origin;
	struct visitor_place *excess;

	bufferevent_setcb(stream, on_read, on_written, on_end, session);
	bufferevent_setwatermark(stream, EV_WRITE, OUTPUT_RESUME, 0);
	if (session->direct)
		bufferevent_disable(stream, EV_WRITE);
	session->late = evtimer_new(
	    bufferevent_get_base(stream), on_late, session);
	if (!session->late || set_late(session, GREETING_TIMEOUT_S) ||
	    !evbuffer_add_cb(output(session), on_output, session) ||
	    bufferevent_enable(
		stream, session->direct ? EV_READ : EV_READ | EV_WRITE)) {
		dfi__log(DFI_LOG_ERROR, "registry %s: no memory for a client",
		    server->listen.text);
		dfi__session_free(session);
		return;
	}
	session->queued = evbuffer_get_length(output(session));
	dfi__turns_account(server, session->queued, 0);
	excess = dfi__visitors_excess(&server->strangers, origin);
	if (excess)
		evict(server, excess);
	dfi__visitors_enter(&server->strangers, &session->place, origin);
	TAILQ_INSERT_TAIL(&server->live, session, link);
}

/* Another user's: it has never been more than a socket. */
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
	/* A child that the application forks would keep it open for ever. */
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
	/* If it has gone, it is about to be freed. */
	dfi__visitors_address(&server->strangers, bufferevent_getfd(stream),
	    &session->place.origin);
	start(session);
}

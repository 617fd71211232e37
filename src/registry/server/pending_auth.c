/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visitors: from accept to the end of the TLS handshake. A visitor waits until
 * the whole first message of a handshake has come; before that it uses no
 * memory of TLS. After the handshake it becomes a session or is refused. The
 * registry reads from a refused one until it closes or is late: closing at once
 * could reset the connection before the client has read the reason.
 *
 * Visitors that wait, and those in a handshake, have a room each (visitors.h);
 * a full room evicts some visitors. So connections that send nothing evict one
 * another, and none in a handshake.
 */
#include "pending_auth.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/log.h"
#include "base/loop.h"
#include "server.h"
#include "session.h"
#include "registry/wire/stream.h"
#include "security/tls.h"
#include "visitors.h"
#include "registry/wire/wire.h"

#define WAITING_MAX 1024
#define SHAKING_MAX 256
#define HANDSHAKE_TIMEOUT_S 5
#define CLOSING_TIMEOUT_S 2
/* The header of a TLS record, see RFC 8446, 5.1 */
#define RECORD_HEADER 5
#define RECORD_MAX 16384

struct visitor {
	struct visitor_entry entry;
	struct visitor_room *room; /* of the pending authentication */
	struct pending_auth *pending_auth;
	struct event *readable; /* of fd, while there is no stream */
	struct event *late;
	struct bufferevent *stream; /* during the handshake */
	int fd;                     /* -1: the stream's */
	int wanted; /* bytes that must come before the next look */
	char name[PEER_NAME_SIZE]; /* "": not determined yet */
};

struct pending_auth {
	struct server *server;
	struct tls *tls;
	struct visitor_room waiting, shaking;
	struct log_throttle causes[TLS_N_CAUSES];
};

static struct visitor *visitor_at(struct visitor_entry *entry)
{
	return (void *)((char *)entry - offsetof(struct visitor, entry));
}

static void free_stream(struct visitor *visitor)
{
	if (!visitor->stream)
		return;
	dfi__fork_remove(bufferevent_getfd(visitor->stream));
	bufferevent_free(visitor->stream);
	visitor->stream = NULL;
}

static void visitor_free(struct visitor *visitor)
{
	dfi__visitors_leave(visitor->room, &visitor->entry);
	if (visitor->readable)
		event_free(visitor->readable);
	if (visitor->late)
		event_free(visitor->late);
	free_stream(visitor);
	if (visitor->fd >= 0)
		dfi__fork_close(visitor->fd);
	free(visitor);
}

/* dfi_errmsg() is the reason. */
static void log_refusal(struct visitor *visitor, enum tls_cause cause)
{
	struct pending_auth *pending_auth = visitor->pending_auth;

	if (!visitor->name[0])
		dfi__address_peer_name(visitor->fd, visitor->name);
	dfi__log_seldom(&pending_auth->causes[cause], DFI_LOG_WARN,
	    "registry %s: refuses %s: %s", pending_auth->server->listen.text,
	    visitor->name, dfi_errmsg());
}

static bool set_late(struct visitor *visitor, int seconds)
{
	struct timeval timeout = { .tv_sec = seconds };

	return !evtimer_add(visitor->late, &timeout);
}

static bool listen_to(struct visitor *visitor, event_callback_fn fn)
{
	if (visitor->readable)
		event_free(visitor->readable);
	visitor->readable = event_new(
	    dfi__loop_base(visitor->pending_auth->server->loop), visitor->fd,
	    EV_READ | EV_PERSIST, fn, visitor);
	return visitor->readable && !event_add(visitor->readable, NULL);
}

/* Drop what a refused visitor still sends. */
static void on_rest(evutil_socket_t fd, short what, void *arg)
{
	struct visitor *visitor = arg;
	char bytes[4096];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	(void)what;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		visitor_free(visitor);
}

/* Refuse it, with dfi_errmsg() as the reason for the log. */
static void refuse(struct visitor *visitor, enum tls_cause cause)
{
	log_refusal(visitor, cause);
	visitor->entry.spent = true;
	if (visitor->stream) {
		visitor->fd = file_up(fcntl(
		    bufferevent_getfd(visitor->stream), F_DUPFD_CLOEXEC, 0));
		free_stream(visitor);
		if (visitor->fd >= 0 && dfi__fork_add(visitor->fd) < 0) {
			visitor_free(visitor);
			return;
		}
	}
	if (visitor->fd < 0 || shutdown(visitor->fd, SHUT_WR) ||
	    !listen_to(visitor, on_rest) ||
	    !set_late(visitor, CLOSING_TIMEOUT_S))
		visitor_free(visitor);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	struct visitor *visitor = arg;

	(void)fd;
	(void)what;
	if (!visitor->entry.spent) {
		dfi__fail(-ETIMEDOUT,
		    "it has not finished the TLS handshake within %d s",
		    HANDSHAKE_TIMEOUT_S);
		log_refusal(visitor, TLS_LATE);
	}
	visitor_free(visitor);
}

static void hand_over(struct visitor *visitor)
{
	struct server *server = visitor->pending_auth->server;
	struct bufferevent *stream = visitor->stream;

	visitor->stream = NULL;
	dfi__session_adopt(server, stream, visitor->name);
	visitor_free(visitor);
	dfi__server_settle(server);
}

static void on_event(struct bufferevent *stream, short what, void *arg)
{
	struct visitor *visitor = arg;
	struct tls *tls = visitor->pending_auth->tls;
	enum tls_cause cause = TLS_BROKEN;

	if (what & BEV_EVENT_CONNECTED) {
		if (dfi__tls_check(tls, stream))
			refuse(visitor, cause);
		else
			hand_over(visitor);
	} else if ((what & BEV_EVENT_ERROR) &&
	    dfi__tls_failure(tls, stream, &cause)) {
		refuse(visitor, cause);
	} else {
		/* It has left. */
		visitor_free(visitor);
	}
}

/* It is evicted; the log counts it. */
static void evict(struct visitor_entry *entry)
{
	struct visitor *visitor = visitor_at(entry);

	if (!entry->spent &&
	    dfi__log_is_due(&visitor->pending_auth->causes[TLS_CROWDED])) {
		dfi__fail(-EBUSY,
		    "it has not finished the TLS handshake, and %u others are "
		    "at it",
		    visitor->room->n - 1);
		log_refusal(visitor, TLS_CROWDED);
	}
	visitor_free(visitor);
}

static void enter(
    struct visitor *visitor, struct visitor_room *room, uint32_t origin)
{
	struct visitor_entry *excess = dfi__visitors_excess(room, origin);

	if (excess)
		evict(excess);
	visitor->room = room;
	dfi__visitors_enter(room, &visitor->entry, origin);
}

static void change_room(struct visitor *visitor, struct visitor_room *room)
{
	uint32_t origin = visitor->entry.origin;

	dfi__visitors_leave(visitor->room, &visitor->entry);
	enter(visitor, room, origin);
}

static void start_handshake(struct visitor *visitor)
{
	struct pending_auth *pending_auth = visitor->pending_auth;
	int fd = visitor->fd;

	change_room(visitor, &pending_auth->shaking);
	dfi__address_tune_tcp(fd);
	dfi__address_peer_name(fd, visitor->name);
	event_free(visitor->readable);
	visitor->readable = NULL;
	visitor->fd = -1;
	visitor->stream = dfi__tls_stream(pending_auth->tls,
	    dfi__loop_base(pending_auth->server->loop), fd, NULL);
	if (!visitor->stream) {
		dfi__log(DFI_LOG_ERROR, "registry %s: no memory for a client",
		    pending_auth->server->listen.text);
		visitor_free(visitor);
		return;
	}
	bufferevent_setcb(visitor->stream, NULL, NULL, on_event, visitor);
	/* The session reads; the handshake needs no more of this. */
	bufferevent_enable(visitor->stream, EV_WRITE);
}

/*
 * Tells whether n bytes have come. If not, the caller is called again when they
 * have come, or when the peer sends no more: then the visitor is freed.
 */
static bool has_come(struct visitor *visitor, int n)
{
	int there = 0;

	if (ioctl(visitor->fd, FIONREAD, &there) == 0 && there >= n)
		return true;
	if (n <= visitor->wanted ||
	    setsockopt(visitor->fd, SOL_SOCKET, SO_RCVLOWAT, &n, sizeof(n)))
		visitor_free(visitor);
	else
		visitor->wanted = n;
	return false;
}

/* Check a TLS record: its kind, the version, and the length of the rest. */
static void look_at_record(struct visitor *visitor)
{
	unsigned char header[RECORD_HEADER];
	int one = 1, length;

	if (!has_come(visitor, RECORD_HEADER))
		return;
	if (recv(visitor->fd, header, sizeof(header),
		MSG_PEEK | MSG_DONTWAIT) != sizeof(header)) {
		visitor_free(visitor);
		return;
	}
	length = header[3] << 8 | header[4];
	if (length > RECORD_MAX) {
		dfi__fail(-EPROTO, "what it sends is not TLS");
		refuse(visitor, TLS_NOT_TLS);
	} else if (has_come(visitor, RECORD_HEADER + length)) {
		setsockopt(
		    visitor->fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
		start_handshake(visitor);
	}
}

static void on_first_byte(evutil_socket_t fd, short what, void *arg)
{
	static const char why[] =
	    "it wants a key or a certificate: set DFI_REGISTRY_KEY to its key "
	    "file, or DFI_REGISTRY_CA and the like";
	struct visitor *visitor = arg;
	unsigned char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		visitor_free(visitor);
	} else if (tls_begins(byte)) {
		look_at_record(visitor);
	} else if (dfi__wire_begins(byte)) {
		/* A registry client gets the reason in its own protocol. */
		dfi__stream_refuse(fd, -EACCES, why);
		dfi__fail(-EACCES, "it has neither key nor certificate");
		refuse(visitor, TLS_PLAIN);
	} else {
		dfi__fail(-EPROTO, "what it sends is not TLS");
		refuse(visitor, TLS_NOT_TLS);
	}
}

void dfi__pending_auth_admit(struct pending_auth *pending_auth, int fd)
{
	struct visitor *visitor;
	uint32_t origin;

	/* It has left: many strangers connect and do no more. */
	if (!dfi__visitors_address(&pending_auth->waiting, fd, &origin)) {
		close(fd);
		return;
	}
	visitor = calloc(1, sizeof(*visitor));
	/* A child of the application would keep it open endlessly. */
	if (!visitor || dfi__fork_add_unmapped(fd)) {
		free(visitor);
		close(fd);
		return;
	}
	visitor->pending_auth = pending_auth;
	visitor->fd = fd;
	enter(visitor, &pending_auth->waiting, origin);
	visitor->late = evtimer_new(
	    dfi__loop_base(pending_auth->server->loop), on_late, visitor);
	if (!visitor->late || !set_late(visitor, HANDSHAKE_TIMEOUT_S) ||
	    !listen_to(visitor, on_first_byte))
		visitor_free(visitor);
}

bool dfi__pending_auth_evict(struct pending_auth *pending_auth)
{
	struct visitor_entry *entry;

	if (!pending_auth)
		return false;
	entry = dfi__visitors_any(&pending_auth->waiting);
	if (!entry)
		entry = dfi__visitors_any(&pending_auth->shaking);
	if (entry)
		evict(entry);
	return entry;
}

int dfi__pending_auth_create(
    struct server *server, struct tls *tls, struct pending_auth **pending_auth)
{
	struct pending_auth *new = calloc(1, sizeof(*new));
	int ret;

	if (!new)
		return dfi__fail(-ENOMEM, "no memory for the registry");
	new->server = server;
	new->tls = tls;
	ret = dfi__visitors_init(&new->waiting, WAITING_MAX);
	if (!ret)
		ret = dfi__visitors_init(&new->shaking, SHAKING_MAX);
	if (ret) {
		dfi__visitors_free(&new->waiting);
		free(new);
		return ret;
	}
	/* An origin has the same number in both rooms. */
	new->shaking.seed = new->waiting.seed;
	*pending_auth = new;
	return 0;
}

static void empty(struct visitor_room *room)
{
	while (room->n)
		visitor_free(visitor_at(room->entries[0]));
	dfi__visitors_free(room);
}

void dfi__pending_auth_destroy(struct pending_auth *pending_auth)
{
	if (!pending_auth)
		return;
	empty(&pending_auth->waiting);
	empty(&pending_auth->shaking);
	dfi__tls_destroy(pending_auth->tls);
	free(pending_auth);
}

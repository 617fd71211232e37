/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visitors: from accept to the end of the TLS handshake. A visitor is looked at
 * (its first byte tells TLS from anything else), then shakes hands, then is
 * either handed over as a session or refused. A refused one is read from until
 * it closes or is late: closing at once could reset the connection before the
 * client has read why.
 *
 * When more than VISITORS_MAX are at it, the one that has been there longest
 * goes: an honest handshake takes milliseconds, so whoever only occupies places
 * occupies them among himself.
 */
#include "gate.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork_files.h"
#include "base/log.h"
#include "base/loop.h"
#include "server.h"
#include "tls.h"
#include "wire.h"

#define VISITORS_MAX 256
#define HANDSHAKE_TIMEOUT_S 5
#define CLOSING_TIMEOUT_S 2

struct visitor {
	TAILQ_ENTRY(visitor) link;
	struct gate *gate;
	struct event *readable; /* of fd, while there is no stream */
	struct event *late;
	struct bufferevent *stream; /* during the handshake */
	int fd;                     /* -1: the stream's */
	bool refused;
	char name[PEER_NAME_SIZE];
};

TAILQ_HEAD(visitor_list, visitor);

struct gate {
	struct server *server;
	struct tls *tls;
	struct visitor_list visitors; /* the longest there comes first */
	size_t n_visitors;
	struct log_throttle causes[TLS_N_CAUSES];
};

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
	struct gate *gate = visitor->gate;

	TAILQ_REMOVE(&gate->visitors, visitor, link);
	gate->n_visitors--;
	if (visitor->readable)
		event_free(visitor->readable);
	if (visitor->late)
		event_free(visitor->late);
	free_stream(visitor);
	if (visitor->fd >= 0)
		dfi__fork_close(visitor->fd);
	free(visitor);
}

/* With dfi_errmsg() as the reason. */
static void log_refusal(const struct visitor *visitor, enum tls_cause cause)
{
	struct gate *gate = visitor->gate;

	dfi__log_seldom(&gate->causes[cause], DFI_LOG_WARN,
	    "registry %s: refuses %s: %s", gate->server->listen.text,
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
	    dfi__loop_base(visitor->gate->server->loop), visitor->fd,
	    EV_READ | EV_PERSIST, fn, visitor);
	return visitor->readable && !event_add(visitor->readable, NULL);
}

/* What a refused visitor still has to say. */
static void on_rest(evutil_socket_t fd, short what, void *arg)
{
	struct visitor *visitor = arg;
	char bytes[4096];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	(void)what;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		visitor_free(visitor);
}

/* See it out, with dfi_errmsg() as the reason for the log. */
static void refuse(struct visitor *visitor, enum tls_cause cause)
{
	log_refusal(visitor, cause);
	visitor->refused = true;
	if (visitor->stream) {
		visitor->fd = fcntl(
		    bufferevent_getfd(visitor->stream), F_DUPFD_CLOEXEC, 0);
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
	if (!visitor->refused) {
		dfi__fail(-ETIMEDOUT,
		    "it has not finished the TLS handshake within %d s",
		    HANDSHAKE_TIMEOUT_S);
		log_refusal(visitor, TLS_LATE);
	}
	visitor_free(visitor);
}

static void hand_over(struct visitor *visitor)
{
	struct server *server = visitor->gate->server;
	struct bufferevent *stream = visitor->stream;

	visitor->stream = NULL;
	dfi__session_adopt(server, stream, visitor->name);
	visitor_free(visitor);
	dfi__server_settle(server);
}

static void on_event(struct bufferevent *stream, short what, void *arg)
{
	struct visitor *visitor = arg;
	struct tls *tls = visitor->gate->tls;
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
		/* It has gone. */
		visitor_free(visitor);
	}
}

static void start_handshake(struct visitor *visitor)
{
	struct gate *gate = visitor->gate;
	int fd = visitor->fd;

	event_free(visitor->readable);
	visitor->readable = NULL;
	visitor->fd = -1;
	visitor->stream = dfi__tls_stream(
	    gate->tls, dfi__loop_base(gate->server->loop), fd, NULL);
	if (!visitor->stream) {
		dfi__log(DFI_LOG_ERROR, "registry %s: no memory for a client",
		    gate->server->listen.text);
		visitor_free(visitor);
		return;
	}
	bufferevent_setcb(visitor->stream, NULL, NULL, on_event, visitor);
	/* The session reads; all the handshake needs is done without. */
	bufferevent_enable(visitor->stream, EV_WRITE);
}

/* A registry's client can be told in its own words. */
static void tell_plain(struct visitor *visitor)
{
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;
	struct evbuffer *out = evbuffer_new();
	unsigned char *bytes;

	reply.error = -EACCES;
	reply.text = "it wants a key or a certificate: set DFI_REGISTRY_KEY to "
		     "its key file, or DFI_REGISTRY_CA and the like";
	reply.version = WIRE_VERSION;
	/* A fresh socket has room for it; if it has not, so be it. */
	if (out && !dfi__wire_write_reply(out, &reply) &&
	    (bytes = evbuffer_pullup(out, -1)))
		send(visitor->fd, bytes, evbuffer_get_length(out),
		    MSG_DONTWAIT | MSG_NOSIGNAL);
	if (out)
		evbuffer_free(out);
}

static void on_first_byte(evutil_socket_t fd, short what, void *arg)
{
	struct visitor *visitor = arg;
	unsigned char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	(void)what;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		visitor_free(visitor);
	} else if (dfi__tls_begins(byte)) {
		start_handshake(visitor);
	} else if (dfi__wire_begins(byte)) {
		tell_plain(visitor);
		dfi__fail(-EACCES, "it has neither key nor certificate");
		refuse(visitor, TLS_PLAIN);
	} else {
		dfi__fail(-EPROTO, "what it sends is not TLS");
		refuse(visitor, TLS_NOT_TLS);
	}
}

static void make_room(struct gate *gate)
{
	struct visitor *first = TAILQ_FIRST(&gate->visitors);

	if (gate->n_visitors < VISITORS_MAX)
		return;
	if (!first->refused) {
		dfi__fail(-EBUSY,
		    "it has not finished the TLS handshake, and %d others are "
		    "at it",
		    VISITORS_MAX);
		log_refusal(first, TLS_CROWDED);
	}
	visitor_free(first);
}

void dfi__gate_admit(struct gate *gate, int fd)
{
	struct visitor *visitor;

	make_room(gate);
	visitor = calloc(1, sizeof(*visitor));
	if (!visitor) {
		dfi__fork_close(fd);
		return;
	}
	visitor->gate = gate;
	visitor->fd = fd;
	dfi__address_peer_name(fd, visitor->name);
	dfi__address_tune_tcp(fd);
	TAILQ_INSERT_TAIL(&gate->visitors, visitor, link);
	gate->n_visitors++;
	visitor->late = evtimer_new(
	    dfi__loop_base(gate->server->loop), on_late, visitor);
	if (!visitor->late || !set_late(visitor, HANDSHAKE_TIMEOUT_S) ||
	    !listen_to(visitor, on_first_byte))
		visitor_free(visitor);
}

int dfi__gate_create(struct server *server, struct tls *tls, struct gate **gate)
{
	struct gate *new = calloc(1, sizeof(*new));

	if (!new)
		return dfi__fail(-ENOMEM, "no memory for the registry");
	new->server = server;
	new->tls = tls;
	TAILQ_INIT(&new->visitors);
	*gate = new;
	return 0;
}

void dfi__gate_destroy(struct gate *gate)
{
	struct visitor *visitor;

	if (!gate)
		return;
	while ((visitor = TAILQ_FIRST(&gate->visitors)))
		visitor_free(visitor);
	dfi__tls_destroy(gate->tls);
	free(gate);
}

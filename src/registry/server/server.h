/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What server.c (the registry as a whole) and session.c (one client) share. All
 * of it belongs to the registry's loop thread.
 *
 * A session is never freed in the middle of something: it is doomed, and
 * dfi__server_settle(), the last act of every event callback, frees it. Freeing
 * one ends its lease, which tells other sessions, which may doom them. What the
 * callback had to say to its own client and to others is written then, too.
 */
#ifndef DFI_REGISTRY_SERVER_SERVER_H
#define DFI_REGISTRY_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <dfi/registry.h>

#include "base/log.h"
#include "listen.h"
#include "table.h"
#include "turns.h"
#include "registry/wire/wire.h"
#include "visitors.h"

struct acceptor;
struct bufferevent;
struct event;
struct pending_auth;
struct loop;
struct snapshot;

struct session {
	TAILQ_ENTRY(session) link; /* in server.live, .closing or .doomed */
	TAILQ_ENTRY(session) unsent_link; /* in server.unsent, if unsent */
	TAILQ_ENTRY(session) behind_link; /* in server.turns, if behind */
	struct snapshot *snapshot;    /* what is to be sent of one, or NULL */
	Dfi__Registry__Message *held; /* a change that has to wait, or NULL */
	size_t queued;                /* bytes in the output */
	struct server *server;
	struct bufferevent *stream;
	struct event *late;    /* to greet, or to go when it is refused */
	struct event *death;   /* of the client's process, or NULL */
	pid_t pid;             /* of its process; 0: not known */
	uint64_t lease;        /* 0: none */
	uint64_t expired_at;   /* the lease: at this revision; or 0 */
	uint64_t client;       /* see Hello in dfi_registry.proto, */
	uint64_t connection;   /* likewise */
	size_t snapshot_bytes; /* of the output, at most: of snapshots */
	uint32_t ttl_ms;
	uint32_t n_watches;
	uint32_t n_follows;         /* see dfi__table_follow() */
	struct visitor_place place; /* in server.strangers, until it greets */
	bool greeted;               /* versions agree, and it counts */
	bool past;                  /* its client has a later connection, */
	bool has_past; /* and this may have earlier ones that are past */
	bool paused;   /* not read from until it reads */
	bool behind;   /* nor before its turn, see turns.h */
	bool closing;  /* only its last reply is still to be sent */
	bool doomed;
	bool direct;  /* the stream is written at once, see stream.h, */
	bool writing; /* but libevent is at it now */
	bool unsent;  /* its output is to be written at the end of this turn */
	char name[PEER_NAME_SIZE]; /* for the log */
};

TAILQ_HEAD(session_list, session);

/* Why the registry refuses a connection before its greeting is accepted. */
enum refusal {
	REFUSED_USER,    /* its process runs as another user */
	REFUSED_CROWDED, /* too many connections have not greeted yet */
	REFUSED_FULL,    /* max_connections clients are connected */
	REFUSED_VERSION, /* it greets with another version, or asks first */
	REFUSED_GARBAGE, /* its bytes are not a message of the protocol */
	REFUSED_SILENT,  /* it sends no greeting in time */
	N_REFUSALS,
};

struct server {
	struct loop *loop;
	struct listen_socket listen;
	struct acceptor *acceptor;
	struct pending_auth
	    *pending_auth; /* NULL: no TLS, clients come straight in */
	struct event *expiry_timer;
	struct table *table;
	struct session_list live, closing, doomed, unsent;
	struct visitor_room strangers; /* live, and have not greeted */
	size_t n_sessions;             /* live, and have */
	size_t n_closing;
	struct log_throttle refusals[N_REFUSALS];
	size_t max_connections;
	size_t max_output;
	size_t
	    max_untold; /* bytes: then nothing is changed until others know */
	struct turns turns;
	uint32_t users[DFI_MAX_REGISTRY_USERS]; /* that are served, too */
	uint32_t n_users;
	bool has_expired; /* some live session may be, see expired_at */
	bool accept_failing;
	int64_t expiry_due; /* when expiry_timer fires; INT64_MAX: not set */
};

/*
 * A new client on socket fd, which becomes the session's, or is closed. Another
 * user is told why and closed at once.
 */
void dfi__session_open(struct server *server, int fd);

/* End one that has not greeted, so that its descriptor is free; or false. */
bool dfi__session_evict(struct server *server);

/* The same for one that has passed the pending authentication. */
void dfi__session_adopt(
    struct server *server, struct bufferevent *stream, const char *name);

/* Let go of everything it has, the lease's keys included. */
void dfi__session_free(struct session *session);

/* Have it freed; logs why, or is silent if fmt is NULL. */
void dfi__session_doom(struct session *session, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The table's hooks. */
void dfi__session_changed(void *arg, void *watcher, uint64_t tag,
    enum table_event_type type, const struct table_item *item);
void dfi__session_expired(void *arg, void *holder, uint64_t lease);

/*
 * Refuse the clients whose leases have expired, once they have been told of
 * that: a client that was only stopped learns what it has lost before it comes
 * back.
 */
void dfi__session_refuse_expired(struct server *server);

/* Write the output of a session that is in server.unsent, and take it out. */
void dfi__session_flush(struct session *session);

/* What it has sent, or is to be sent, goes on; whether it could. */
bool dfi__session_go_on(struct session *session);

/* A lease was granted: see that it expires. */
void dfi__server_arm_expiry(struct server *server);

#endif

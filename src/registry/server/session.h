/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client's connection to the registry. All of it belongs to the registry's
 * loop thread.
 */
#ifndef DFI_REGISTRY_SERVER_SESSION_H
#define DFI_REGISTRY_SERVER_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "registry/wire/address.h"
#include "registry/wire/wire.h"
#include "table.h"
#include "visitors.h"

struct bufferevent;
struct event;
struct server;
struct snapshot;

/* When no more than that waits for a client, it is sent more. */
#define OUTPUT_RESUME (256 << 10)

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
	uint32_t n_follows;         /* of TABLE_FOLLOW */
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

/* How it begins: session_open.c. */

/*
 * A new client on socket fd, which becomes the session's, or is closed. Another
 * user is told why and closed at once.
 */
void dfi__session_open(struct server *server, int fd);

/* The same for a connection that has proved who it is (pending_auth.h). */
void dfi__session_adopt(
    struct server *server, struct bufferevent *stream, const char *name);

/* End one that has not greeted, so that its descriptor is free; or false. */
bool dfi__session_evict(struct server *server);

/*
 * The client speaks this version: it may take its time from now on, and what it
 * still says on earlier connections is dropped. -ESTALE: this is one of those.
 */
int dfi__session_greeted(
    struct session *session, const Dfi__Registry__Hello *hello);

/* Its stream and its end: session.c. */

/* Have the loop serve the stream, which greets soon. -ENOMEM. */
int dfi__session_serve(struct session *session);

/*
 * Reply err and the current error text to request id (0: to none), log it, and
 * disconnect when the reply is written.
 */
void dfi__session_refuse(struct session *session, uint64_t id, int err);

/* Have it freed; logs why, or is silent if fmt is NULL. */
void dfi__session_doom(struct session *session, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* End all that it has in the table, the lease's keys included. */
void dfi__session_release(struct session *session);

/* The same, and free it. */
void dfi__session_free(struct session *session);

/* What it asks: session_read.c, and operations.c for what a request does. */

/* Carry out what it has sent, as long as it may; returns how many requests. */
int dfi__session_read(struct session *session);

/* Read from its socket, or not, as its state says. */
void dfi__session_set_reading(struct session *session);

/* What it has sent, or is to be sent, goes on; whether it could. */
bool dfi__session_go_on(struct session *session);

/* Carry out a request, which is a sign of life, and reply. */
void dfi__session_request(
    struct session *session, const Dfi__Registry__Request *request);

/* Whether it is one that changes keys. */
bool dfi__session_request_changes(const Dfi__Registry__Request *request);

/* What it is told: session_write.c. */

/* Count what waits in the output, from now on. -ENOMEM. */
int dfi__session_start_output(struct session *session);
void dfi__session_end_output(struct session *session);

void dfi__session_reply(struct session *session, Dfi__Registry__Reply *reply);
void dfi__session_event(struct session *session, uint64_t watch,
    enum table_event_type type, const struct table_item *item);

/* The last bytes of the output were asked for: they don't count as unread. */
void dfi__session_snapshot(struct session *session, size_t bytes);

/* Write the output of a session that is in server.unsent, and take it out. */
void dfi__session_flush(struct session *session);

/* The table's hook: a key that it watches has changed. */
void dfi__session_changed(void *arg, void *watcher, uint64_t tag,
    enum table_event_type type, const struct table_item *item);

/* Its lease, and the client's earlier connections: session_lease.c. */

/* A sign of life, for the client's lease. */
void dfi__session_lives(struct session *session);

/*
 * The connections that the client had before are past. -ESTALE: it has a later
 * one than this.
 */
int dfi__session_leave_behind(struct session *session);

/* End what the client's earlier connections still hold, and them. */
void dfi__session_end_past(struct session *session);

/* The table's hook: a lease has expired. */
void dfi__session_expired(void *arg, void *holder, uint64_t lease);

/*
 * Refuse the clients whose leases have expired, once they have been told of
 * that: a client that was only stopped learns what it has lost before it comes
 * back.
 */
void dfi__session_refuse_expired(struct server *server);

#endif

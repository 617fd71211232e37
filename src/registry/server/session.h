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
struct member;
struct server;
struct snapshot;

/* When at most this much waits for a client, it gets more. */
#define OUTPUT_RESUME (256 << 10)

struct session {
	TAILQ_ENTRY(session) link; /* in server.live, .closing or .doomed */
	TAILQ_ENTRY(session) unsent_link; /* in server.unsent, if unsent */
	TAILQ_ENTRY(session) behind_link; /* in server.turns, if behind */
	TAILQ_ENTRY(session) member_link; /* in its member, if it has one */
	TAILQ_ENTRY(session) sync_link;   /* in server.sync, if syncing */
	struct member *member; /* its client, once it has greeted; or NULL */
	struct snapshot *snapshot; /* a snapshot that is being sent, or NULL */
	Dfi__Registry__Message *held; /* a change that waits, or NULL */
	size_t queued;                /* bytes in the output */
	struct server *server;
	struct bufferevent *stream;
	struct event *late;    /* its greeting, or refused end, is due */
	struct event *death;   /* end of the client's process, or NULL */
	pid_t pid;             /* of its process; 0: not known */
	uint64_t start;        /* when that started; 0: not known */
	uint64_t lease;        /* 0: none */
	uint64_t expired_at;   /* revision at which the lease expired; or 0 */
	uint64_t client;       /* see Handshake in dfi_registry.proto, */
	uint64_t connection;   /* likewise */
	size_t snapshot_bytes; /* of the output, at most, for snapshots */
	uint32_t ttl_ms;
	uint32_t n_watches;
	uint32_t n_follows;         /* of TABLE_FOLLOW */
	struct visitor_entry entry; /* in server.strangers, until it greets */
	bool greeted;               /* the versions agree, so it counts */
	bool past;                  /* its client has a later connection */
	/* Of a lease that the journal has: without a stream. */
	bool restored;
	bool syncing;   /* not read before a change is stored, see sync.h */
	int read_error; /* what it sent can't be read; 0: it can */
	bool paused;    /* not read until it takes answers */
	bool behind;    /* not read before its turn, see turns.h */
	bool closing;   /* only its last reply is to be sent */
	bool doomed;
	bool direct;  /* the stream is written at once, see stream.h, */
	bool writing; /* but libevent is at it now */
	bool unsent;  /* its output is written at the end of this turn */
	char name[PEER_NAME_SIZE]; /* for the log */
};

/* Its beginning: session_open.c. */

/*
 * Make a session of a new client on socket fd, or close it. A client of another
 * user gets the reason and is closed at once.
 */
void dfi__session_open(struct server *server, int fd);

/* The same for a connection that is authenticated (pending_auth.h). */
void dfi__session_adopt(
    struct server *server, struct bufferevent *stream, const char *name);

/* End one that has not greeted, to free its descriptor; or false. */
bool dfi__session_evict(struct server *server);

/* Watch its process, if pid is known. -ENOSPC: no room for that. */
int dfi__session_watch_process(struct session *session);

/*
 * The client speaks this version: it may take its time from now on, and what it
 * sent on earlier connections is dropped. -ESTALE: this is one of those.
 */
int dfi__session_greeted(
    struct session *session, const Dfi__Registry__Handshake *handshake);

/* Its stream and its end: session.c. */

/* Make the loop serve the stream, whose greeting is due. -ENOMEM. */
int dfi__session_serve(struct session *session);

/*
 * Reply err and the current error text to request id (0: to none), log it, and
 * disconnect when the reply is written.
 */
void dfi__session_refuse(struct session *session, uint64_t id, int err);

/* Doom it to be freed; logs the reason unless fmt is NULL. */
void dfi__session_doom(struct session *session, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* End all that it has in the table, including the lease's keys. */
void dfi__session_release(struct session *session);

/* The same, and free it. */
void dfi__session_free(struct session *session);

/* Its requests: session_read.c, and operations.c, which carries them out. */

/* Carry out requests while it may; returns their number. */
int dfi__session_read(struct session *session);

/* Start or stop reading its socket, as its state says. */
void dfi__session_set_reading(struct session *session);

/* Continue its requests or its snapshot; returns whether it could. */
bool dfi__session_go_on(struct session *session);

/* Get the next request: 1, or 0 if it is not complete, or an error. */
int dfi__session_next(
    struct session *session, Dfi__Registry__Message **message);

/* Tells whether it is a request that changes keys. */
bool dfi__session_changes(const Dfi__Registry__Message *message);

/* Check a request of any client, carry it out, and reply. */
void dfi__session_request(
    struct session *session, const Dfi__Registry__Request *request);

/* The same for one that has greeted; also a sign of life. */
void dfi__session_carry_out(
    struct session *session, const Dfi__Registry__Request *request);

/* Reply an error with its text, and do nothing. */
void dfi__session_decline(
    struct session *session, const Dfi__Registry__Request *request, int err);

/* What the request puts. -EINVAL. */
int dfi__session_fill_put(const struct session *session,
    const Dfi__Registry__Put *op, struct table_put *put);

/* Tells whether the request changes keys. */
bool dfi__session_request_changes(const Dfi__Registry__Request *request);

/* Its output: session_write.c. */

/* From now on, count what waits in the output. -ENOMEM. */
int dfi__session_start_output(struct session *session);
void dfi__session_end_output(struct session *session);

void dfi__session_reply(struct session *session, Dfi__Registry__Reply *reply);
void dfi__session_event(struct session *session, uint64_t watch,
    enum table_event_type type, const struct table_item *item);

/* The last bytes of the output are a snapshot, not counted as unread. */
void dfi__session_snapshot(struct session *session, size_t bytes);

/* Write the output of a session in server.unsent, and take it out. */
void dfi__session_flush(struct session *session);

/* A key that a session, the notice's watcher, watches has changed. */
void dfi__session_notify(const struct table_notice *notice);

/* Its lease, and the client's earlier connections: session_lease.c. */

/* Extend the client's lease: a sign of life. */
void dfi__session_lives(struct session *session);

/*
 * The client's earlier connections are past. -ESTALE: it has a later one than
 * this. -ENOMEM.
 */
int dfi__session_leave_behind(struct session *session);

/* The client's connection before this one, or NULL. */
struct session *dfi__session_before(const struct session *session);

/* Tells whether an earlier connection, of before a restart, has a lease. */
bool dfi__session_is_resumable(const struct session *session);

/* Take over the lease of an earlier connection. -ENOENT: there is none. */
int dfi__session_resume(struct session *session, int64_t ttl_ns, int64_t now);

/* It is no connection of its client any more. */
void dfi__session_leave_member(struct session *session);

/* End the client's earlier connections and all that they hold. */
void dfi__session_end_past(struct session *session);

/* The table's hook: a lease has expired. */
void dfi__session_expired(void *arg, void *holder, uint64_t lease);

/*
 * Refuse the clients whose leases have expired, after the notifications are
 * sent: a client that was only stopped learns what it has lost before it comes
 * back.
 */
void dfi__session_refuse_expired(struct server *server);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry's turns: what takes long is done in slices of a few
 * milliseconds, one a turn of the loop, so that other clients are served in
 * between. Also what waits for all clients in memory is bounded here. All of it
 * belongs to the registry's loop thread.
 */
#ifndef DFI_REGISTRY_SERVER_TURNS_H
#define DFI_REGISTRY_SERVER_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct event;
struct event_base;
struct server;
struct session;

/* Of the registry. */
struct turns {
	TAILQ_HEAD(turn_list, session) behind; /* by their behind_link */
	struct event *timer;                   /* the next turn */
	struct event *pressure;                /* while full: do they read? */
	struct event *trim;                    /* memory is to be given back */
	bool armed;                            /* the timer is set, */
	int64_t armed_at;                      /* since then */
	bool running;                          /* it has fired, */
	bool again;        /* and there is more to do after it */
	bool late;         /* changes are told in turns only */
	bool full;         /* outputs have half of what they may */
	size_t max_queued; /* bytes of all outputs */
	size_t queued;     /* bytes of all outputs now */
	size_t taken;      /* of these, while full: read lately */
	size_t moved;      /* bytes that outputs got lately */
	size_t peak;       /* most bytes kept since the last trim */
};

/* Set max_queued before. -ENOMEM. Stopping what has not started is allowed. */
int dfi__turns_start(struct server *server, struct event_base *base);
void dfi__turns_stop(struct server *server);

/* How long a client may be served now; always with one request. */
int64_t dfi__turns_until(const struct server *server);

/* Call dfi__session_go_on() in a turn to come, once. */
void dfi__turns_enqueue(struct session *session);

/* It is doomed, or has nothing to go on with. */
void dfi__turns_dequeue(struct session *session);

/* The output of a session has grown and shrunk by so many bytes. */
void dfi__turns_account(struct server *server, size_t added, size_t removed);

/* Whether a client may change something now, or others have to be told first.
 */
bool dfi__turns_may_change(const struct server *server);

/* Tell clients what has changed: all now, or, if that takes long, in turns. */
void dfi__turns_tell(struct server *server);

/* The last act of each event callback; see server.h. */
void dfi__server_settle(struct server *server);

#endif

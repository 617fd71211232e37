/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry's turns: long work is done in slices of a few milliseconds, one
 * in a turn of the loop, so that other clients are served in between. The
 * output that waits in memory for all clients is also bounded here. All of it
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

/* The turns of a registry. */
struct turns {
	TAILQ_HEAD(turn_list, session) behind; /* by their behind_link */
	struct event *timer;                   /* the next turn */
	struct event *pressure; /* while full: checks whether clients read */
	struct event *trim;     /* gives memory back */
	bool armed;             /* the timer is set, */
	int64_t armed_at;       /* since then */
	bool running;           /* it has fired, */
	bool again;             /* and more work follows it */
	bool late;              /* watches are notified in turns only */
	bool full;              /* outputs have reached half of max_queued */
	size_t max_queued;      /* bytes of all outputs */
	size_t queued;          /* bytes of all outputs now */
	size_t taken;           /* while full: bytes that clients read lately */
	size_t moved;           /* bytes that were added to outputs lately */
	size_t peak;            /* most bytes kept since the last trim */
};

/* Set max_queued before. -ENOMEM. Stopping what has not started is allowed. */
int dfi__turns_start(struct server *server, struct event_base *base);
void dfi__turns_stop(struct server *server);

/* Until when a client may be served now; one request is always allowed. */
int64_t dfi__turns_until(const struct server *server);

/* Call dfi__session_go_on() once, in a later turn. */
void dfi__turns_enqueue(struct session *session);

/* The session is doomed, or has no work left. */
void dfi__turns_dequeue(struct session *session);

/*
 * The output of a session has grown by added bytes, and shrunk by removed
 * bytes.
 */
void dfi__turns_account(struct server *server, size_t added, size_t removed);

/* Tells whether a client may make a change now, before others are notified. */
bool dfi__turns_may_change(const struct server *server);

/* Notify clients of changes: all now or, if that takes long, in turns. */
void dfi__turns_notify(struct server *server);

/* Notify of further changes in later turns. */
void dfi__turns_notify_late(struct server *server);

/* The last act of each event callback; see server.h. */
void dfi__server_settle(struct server *server);

#endif

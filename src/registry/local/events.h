/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients of a registry inside the process, their watches, and the events
 * that wait until a client's loop delivers them (events.c).
 *
 * dfi__local_lock protects all of it and all tables, and the caller holds it
 * unless a comment says otherwise. A client's `delivery` is taken before it.
 */
#ifndef DFI_REGISTRY_LOCAL_EVENTS_H
#define DFI_REGISTRY_LOCAL_EVENTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/loop.h"
#include "registry/client/ops.h"
#include "registry/server/table.h"

extern pthread_mutex_t dfi__local_lock;

struct local_event;
struct local_registry;

struct local_watch {
	struct registry_watch base;
	TAILQ_ENTRY(local_watch) link;
	struct table *table;
	void (*fn)(void *arg, const struct registry_event *event);
	void *arg;
	LIST_HEAD(watch_event_list, local_event) events; /* queued */
};

struct local_client {
	struct registry_client base;
	struct local_registry *registry;
	uint64_t id;    /* the owner of its keys */
	uint64_t lease; /* until it is closed */
	bool lost;      /* there was no memory for an event */
	TAILQ_HEAD(local_watch_list, local_watch) watches;
	/* The next one to be told that the client is lost; or NULL. */
	struct local_watch *untold;
	TAILQ_HEAD(local_event_list, local_event) events;
	struct loop_post post;    /* delivers the events */
	struct loop_post end;     /* frees the client */
	pthread_mutex_t delivery; /* recursive; held while a watch's fn runs */
};

static inline struct local_client *local_of(struct registry_client *base)
{
	return (struct local_client *)base;
}

static inline struct local_watch *local_watch_of(struct registry_watch *base)
{
	return (struct local_watch *)base;
}

/* NULL: no memory. Without the lock. */
struct local_client *dfi__local_client_new(
    struct loop *loop, const struct registry_ops *ops);
/* It has no watches, and its loop does not run its post. Without the lock. */
void dfi__local_client_free(struct local_client *client);

/*
 * Make the watch, and queue the keys that exist. Sets interest->watch. -ENOMEM,
 * and -EMSGSIZE for a long prefix.
 */
int dfi__local_watch(struct local_client *client, struct table *table,
    struct registry_interest *interest);

/* Free the watch and its queued events, in steps of their number. */
void dfi__local_watch_end(struct local_watch *watch);

/* Queue all changes of the table for the watches that they concern. */
void dfi__local_notify(struct table *table);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a registry client is made of, and its connection (client.c). What can be
 * done with it is in a header for each file: enter.h, call.h, keys.h, keep.h,
 * watch.h, restore.h.
 *
 * The thread that has entered the client owns all of it, except what comments
 * say. This is mostly the loop's thread, which alone may use libevent.
 * (loop) marks functions for the loop's thread. All other functions of these
 * headers are for any thread that has entered.
 */
#ifndef DFI_REGISTRY_CLIENT_STATE_H
#define DFI_REGISTRY_CLIENT_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/loop.h"
#include "registry/wire/address.h"

struct bufferevent;
struct evbuffer;
struct event;
struct restore;
struct tls;

TAILQ_HEAD(abandoned_list, abandoned_key); /* call.c */
TAILQ_HEAD(call_list, client_call);        /* call.h */
TAILQ_HEAD(kept_list, kept_key);           /* keep.h */
TAILQ_HEAD(watch_list, registry_watch);    /* watch.h */

struct registry_client {
	struct loop *loop;
	uint64_t hash_seed; /* drawn: others choose the values */
	uint64_t id; /* drawn: by it the registry knows whose keys are whose */
	uint64_t n_connections; /* that were begun */
	char *address;
	struct address parsed;
	uid_t user;      /* whom to trust at a Unix socket, see connect.h */
	struct tls *tls; /* NULL: none */
	struct bufferevent *stream; /* NULL: the connection is lost */
	bool writing; /* libevent is at its output now, see stream.h */
	struct evbuffer *unsent; /* waits for the loop to take it to there */
	bool kicked;             /* the loop is to go on with restoring */
	struct loop_post post;   /* has the loop do both */
	struct event *keepalive_timer;
	uint64_t keepalive_id; /* of the last one; 0: it is answered */
	int64_t keepalive_at;  /* when it was sent */
	int64_t heard_at;      /* when the registry's machine last answered */
	uint64_t last_id;
	bool open;        /* false: dfi__client_open() is still at it, */
	bool turned_away; /* and it was closed without a word */
	bool closing;     /* by dfi__client_close() */
	int lost_err;
	char lost_text[512];
	uint32_t ttl_ms;
	_Atomic uint32_t grace_ms;
	struct event *grace_timer;
	struct restore *restore; /* see restore.c */
	bool restoring;          /* lost, and not yet as it was before */
	struct kept_list kept;
	void *kept_tree; /* the same, by key */
	struct call_list calls;
	struct abandoned_list abandoned;
	struct watch_list watches;

	pthread_mutex_t entrance; /* recursive: held by who has entered */
	unsigned n_entered;       /* times, by that thread */
	pthread_mutex_t lock; /* protects the calls' results and n_callers */
	pthread_cond_t no_caller;
	unsigned n_callers;         /* threads inside of dfi__client_call() */
	_Atomic int64_t busy_until; /* processors, as callers have found */
};

/* A client that is not connected. -ENOMEM, -EIO. */
int dfi__client_new(
    struct loop *loop, const char *address, struct registry_client **client);
/* Have the loop serve a connected socket, which it takes. -ENOMEM, -ETIMEDOUT.
 */
int dfi__client_start(struct registry_client *client, int fd, int64_t deadline);
/* Disconnect, wait for the callers, free. */
void dfi__client_destroy(struct registry_client *client);

/* A stream over a connected socket, with callbacks; takes fd. -ENOMEM. (loop)
 */
int dfi__client_attach(struct registry_client *client, int fd);

/* Have one of its timers fire in so many milliseconds. (loop) */
int dfi__client_set_timer(struct event *timer, uint32_t ms);

/* A lease was asked for: send keepalives, if it needs them. (loop) */
int dfi__client_start_keepalive(struct registry_client *client);

/* The connection is lost: close it, fail all calls, tell the watches. (loop) */
void dfi__client_lose(struct registry_client *client, int err, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));

#endif

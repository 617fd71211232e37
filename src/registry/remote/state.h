/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a registry client, and its connection (client.c). Each file has
 * a header with its operations: enter.h, call.h, keys.h, keep.h, watch.h,
 * restore.h.
 *
 * The thread that has entered the client owns all of it, unless a comment says
 * otherwise. Mostly that is the loop's thread, which alone may use libevent.
 * (loop) marks functions for the loop's thread. Any thread that has entered may
 * call all other functions of these headers.
 */
#ifndef DFI_REGISTRY_REMOTE_STATE_H
#define DFI_REGISTRY_REMOTE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "base/loop.h"
#include "registry/client/ops.h"
#include "registry/wire/address.h"

struct bufferevent;
struct evbuffer;
struct event;
struct restore;
struct tls;

TAILQ_HEAD(abandoned_list, abandoned_key); /* call.c */
TAILQ_HEAD(call_list, client_call);        /* call.h */
TAILQ_HEAD(kept_list, kept_key);           /* keep.h */
TAILQ_HEAD(watch_list, remote_watch);      /* watch.h */

struct remote_client {
	struct registry_client base;
	uint64_t hash_seed; /* random: others choose the values */
	uint64_t id;        /* random; tells the registry which keys are ours */
	uint64_t n_connections; /* attempts so far */
	uint64_t store;    /* of a registry that has what we have set; or 0 */
	uint64_t revision; /* the greatest that we have seen there */
	char *address;
	struct address parsed;
	uid_t user;      /* trusted user at a Unix socket, see connect.h */
	struct tls *tls; /* NULL: none */
	struct bufferevent *stream; /* NULL: the connection is lost */
	bool writing; /* libevent writes its output now, see stream.h */
	struct evbuffer *unsent; /* the loop moves it to stream */
	bool kicked;             /* the loop must continue restoring */
	struct loop_post post;   /* makes the loop do both */
	struct loop_post end;    /* makes it free the client */
	int fd; /* the first socket, until the loop makes it a stream; or -1 */
	struct event *keepalive_timer;
	uint64_t keepalive_id; /* of the last one; 0: it was answered */
	int64_t keepalive_at;  /* when it was sent */
	int64_t heard_at;      /* when the registry's machine last answered */
	uint64_t last_id;
	bool open;        /* false: dfi__client_open() is not done */
	bool turned_away; /* the registry closed it without an answer */
	bool closing;     /* in dfi__client_close() */
	int lost_err;
	char lost_text[512];
	uint32_t ttl_ms;
	_Atomic uint32_t grace_ms;
	struct event *grace_timer;
	struct restore *restore; /* see restore.c */
	bool restoring;          /* lost, and not restored yet */
	struct kept_list kept;
	void *kept_tree; /* the same, by key */
	struct call_list calls;
	struct abandoned_list abandoned;
	struct watch_list watches;
	void *watch_tree; /* the same, by id */
	/* Where a walk that runs functions of watches goes on; or NULL. */
	struct remote_watch *next_watch;

	pthread_mutex_t entrance; /* recursive; held while inside */
	unsigned n_entered;       /* how often, by that thread */
	pthread_mutex_t lock; /* protects the calls' results and n_callers */
	pthread_cond_t no_caller;
	unsigned n_callers;         /* threads inside dfi__client_call() */
	_Atomic int64_t busy_until; /* no yielding until then */
};

static inline struct remote_client *remote_of(struct registry_client *base)
{
	return (struct remote_client *)base;
}

/* Make a client that is not connected. -ENOMEM, -EIO. */
int dfi__client_new(
    struct loop *loop, const char *address, struct remote_client **client);
/*
 * Make the loop serve a connected socket, which the client takes in any case.
 * -ENOMEM, -ETIMEDOUT.
 */
int dfi__client_start(struct remote_client *client, int fd, int64_t deadline);
/*
 * Disconnect and free a client that nobody calls; see dfi__loop_end() about the
 * deadline.
 */
void dfi__client_destroy(struct remote_client *client, int64_t deadline);

/* Open a stream over a connected socket, and take fd. -ENOMEM. (loop) */
int dfi__client_attach(struct remote_client *client, int fd);

/* Start one of its timers, for ms milliseconds. (loop) */
int dfi__client_set_timer(struct event *timer, uint32_t ms);

/* A lease was requested: send keepalives if it needs them. (loop) */
int dfi__client_start_keepalive(struct remote_client *client);

/* The connection is lost: close it, fail calls, notify watches. (loop) */
void dfi__client_lose(struct remote_client *client, int err, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));

/* Their contracts are those of struct registry_ops. */
void dfi__remote_revoke(struct registry_client *base);
void dfi__remote_close(struct registry_client *base);
void dfi__remote_set_grace(struct registry_client *base, uint32_t ms);
int dfi__remote_join(struct registry_client *base,
    struct registry_interest *interests, size_t n, struct registry_entry *entry,
    int64_t deadline);

#endif

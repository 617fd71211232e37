/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the client share: client.c (the connection), client/enter.c
 * (who may touch it), client/call.c (asking and waiting), client/keys.c,
 * client/watch.c, client/keep.c (what is to be set again) and client/restore.c
 * (getting the connection back).
 *
 * Everything belongs to the thread that has entered the client, but for what
 * the comments say. Mostly that is the loop's, on which alone libevent may be
 * used. Others enter to ask something, and write it to the socket themselves,
 * so that asking wakes no thread but the registry's. While libevent is needed
 * for that, they leave it to the loop, and do not wait (client/enter.c).
 *
 * A call lives on the stack of the thread that waits for it; it is in the list
 * of calls until it is done or, at its deadline, taken out, after which no
 * reply can reach it.
 */
#ifndef DFI_REGISTRY_CLIENT_CLIENT_IMPL_H
#define DFI_REGISTRY_CLIENT_CLIENT_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/loop.h"
#include "registry/wire/address.h"
#include "client.h"
#include "registry/wire/wire.h"

/* Bytes of requests that a registry which doesn't read may have waiting. */
#define CLIENT_OUTPUT_MAX (16 << 20)

struct bufferevent;
struct evbuffer;
struct event;
struct restore;
struct tls;

/* A key that a watch knows of. */
struct known_key {
	struct known_key *next; /* in a watch's expired */
	uint64_t hash;          /* of its value */
	bool missing; /* from the registry, since the connection is back */
	char key[];
};

/* A key that is to be set again when the connection comes back. */
struct kept_key {
	TAILQ_ENTRY(kept_key) link;
	char *key;
	void *value;
	size_t size;
	unsigned flags;
	struct registry_watch *watch; /* CLIENT_SHARED: for its deletion */
	bool sent;                    /* in this attempt */
	bool stale;                   /* has changed since */
	uint64_t request;             /* 0: none is unanswered */
	bool leaves;                  /* once it is known to be ours */
};

TAILQ_HEAD(kept_list, kept_key);

struct registry_watch {
	TAILQ_ENTRY(registry_watch) link;
	struct registry_client *client;
	uint64_t id; /* of the request that made it */
	bool made;   /* the registry has confirmed it */
	/* What it was told last of the connection: LOST, CUT or BACK. */
	enum registry_event_type told;
	bool sent;  /* again, in this attempt to connect again */
	bool asked; /* and not yet answered */
	bool own;   /* of dfi__watch_follow(): it may be refused */
	bool exact; /* of the key that is the prefix */
	char *prefix;
	void *known; /* a tree of known_key, by key */
	/* Out of the tree, and to be told of; see dfi__watch_expire_missing().
	 */
	struct known_key *expired;
	void (*fn)(void *arg, const struct registry_event *event);
	void *arg;
};

TAILQ_HEAD(watch_list, registry_watch);

/* A key whose creator has given up before the registry answered. */
struct abandoned_key {
	TAILQ_ENTRY(abandoned_key) link;
	uint64_t id; /* of the request */
	char key[];
};

struct client_call {
	TAILQ_ENTRY(client_call) link;
	struct registry_client *client;
	Dfi__Registry__Request *request; /* until it is written */
	struct registry_watch *watch;    /* to be made, or NULL */
	unsigned keep_flags;             /* of a put */
	bool (*over)(void *arg); /* see dfi__client_put_unless(), or NULL */
	void *over_arg;
	/* Under client.lock from here on, until it is done. */
	_Atomic bool done;
	int ret;
	char text[512];
	Dfi__Registry__Message *reply; /* if ret is 0 */
	pthread_cond_t answered;
	/* Set when it is written. */
	uint64_t id;
};

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
	struct restore *restore; /* see client/restore.c */
	bool restoring;          /* lost, and not yet as it was before */
	struct kept_list kept;
	void *kept_tree; /* the same, by key */
	TAILQ_HEAD(, client_call) calls;
	TAILQ_HEAD(, abandoned_key) abandoned;
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

/*
 * As dfi__client_call(), for a put; flags are those of client.h. If it succeeds
 * the key is kept. over: see dfi__client_put_unless(), or NULL.
 */
int dfi__client_call_put(struct registry_client *client,
    Dfi__Registry__Request *request, unsigned flags, bool (*over)(void *arg),
    void *arg, int64_t deadline, Dfi__Registry__Message **reply);

/*
 * Send a request and wait for its reply: 0 and *reply (may be NULL; else freed
 * by dfi__wire_free()), or what the registry or the connection says. watch, if
 * not NULL, hears the events of this request from then on; it is forgotten
 * again on failure.
 */
int dfi__client_call(struct registry_client *client,
    Dfi__Registry__Request *request, struct registry_watch *watch,
    int64_t deadline, Dfi__Registry__Message **reply);

/*
 * Send several requests of one client at once, and wait for all replies: each
 * call has its result then. -EINVAL: on the loop's thread, none is sent.
 */
int dfi__client_call_all(struct client_call *calls, size_t n, int64_t deadline);

/* What the call returns, with its text. */
int dfi__client_call_result(struct client_call *call);

/* As dfi__client_watch() makes it, not yet asked for; NULL: no memory. */
struct registry_watch *dfi__watch_new(struct registry_client *client,
    const char *prefix,
    void (*fn)(void *arg, const struct registry_event *event), void *arg);
void dfi__watch_free(struct registry_watch *watch);

/*
 * Wait until nobody else has entered. On leaving, the requests that were sent
 * meanwhile are written. Between the two no other thread may be waited for.
 */
void dfi__client_enter(struct registry_client *client);
void dfi__client_exit(struct registry_client *client);

/* Whether requests go to client->unsent, as libevent is at the output. */
bool dfi__client_uses_unsent(const struct registry_client *client);

/* What client->post runs. (loop) */
void dfi__client_on_post(void *client);

/* Run fn(arg) entered and return what it returned. */
int dfi__client_do(
    struct registry_client *client, int (*fn)(void *arg), void *arg);

/* The same for what can't fail, which leaves dfi_errmsg() alone. */
void dfi__client_tell(
    struct registry_client *client, int (*fn)(void *arg), void *arg);

/* The rest is called by who has entered; (loop) on the loop's thread only. */

/* Give the request a number and write it. */
int dfi__client_send(
    struct registry_client *client, Dfi__Registry__Request *request);

/* A reply has come; takes message. (loop) */
void dfi__client_answer(
    struct registry_client *client, Dfi__Registry__Message *message);

/*
 * Fail all calls with client.lost_text; and no answer to what was given up will
 * come any more.
 */
void dfi__client_fail_calls(struct registry_client *client, int err);

/* The connection is lost: close it, fail all calls, tell the watches. (loop) */
void dfi__client_lose(struct registry_client *client, int err, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));

void dfi__watch_deliver(
    struct registry_client *client, const Dfi__Registry__Event *event);
/* LOST, CUT or BACK, to each watch that wasn't told that last. (loop) */
void dfi__watch_tell(
    struct registry_client *client, enum registry_event_type type);

/* The watch that came with the put of a key, its request's id. NULL: no memory.
 */
struct registry_watch *dfi__watch_follow(struct registry_client *client,
    uint64_t id, const char *key,
    void (*fn)(void *arg, const struct registry_event *event), void *arg);

/* End a watch at the registry, which may not know it. */
void dfi__client_send_unwatch(struct registry_client *client, uint64_t id);

/* Do not keep a key, and delete it without waiting for an answer. */
void dfi__client_send_withdrawal(
    struct registry_client *client, const char *key);

/* The same, if the key is ours; while restoring, as soon as that is known. */
void dfi__client_withdraw(struct registry_client *client, const char *key);

/* Send it again; what it knew is missing until it is heard of. */
int dfi__watch_renew(
    struct registry_client *client, struct registry_watch *watch);

/* One that may be was refused: it hears nothing, so that nothing is missing. */
void dfi__watch_refused(struct registry_watch *watch);

/* The grace is over: what is still missing is deleted. (loop) */
void dfi__watch_expire_missing(struct registry_client *client);

/* A request has succeeded: keep its key, or do not any more. */
void dfi__keep_note(struct registry_client *client,
    const Dfi__Registry__Request *request, unsigned flags);

/* Do not set the key again. */
void dfi__keep_drop(struct registry_client *client, const char *key);
void dfi__keep_free_all(struct registry_client *client);
/* Another value is to be set again. */
void dfi__keep_change(struct registry_client *client, struct kept_key *kept,
    const void *value, size_t size);
/* NULL: it was never set, or is somebody else's since. */
struct kept_key *dfi__keep_find(
    struct registry_client *client, const char *key);

/* Before the connection is used: what restoring needs. -ENOMEM. (loop) */
int dfi__restore_init(struct registry_client *client);
void dfi__restore_free(struct registry_client *client);

/* The connection is lost: get it back. (loop) */
void dfi__restore_begin(struct registry_client *client);

/* What has come of an attempt; the stream is closed. (loop) */
void dfi__restore_failed(struct registry_client *client, const char *why);

/* While restoring: there is progress, be it part of an answer. (loop) */
void dfi__restore_heard(struct registry_client *client);

/* A reply has come while the client restores. (loop) */
void dfi__restore_answer(
    struct registry_client *client, const Dfi__Registry__Reply *reply);

/* An unanswered request of restoring does not matter any more. (loop) */
void dfi__restore_forget(struct registry_client *client);

/* While restoring: a kept key has changed. */
void dfi__restore_renew(struct registry_client *client, struct kept_key *kept);

/*
 * While restoring: a key is to go. Whether it is known to be ours; else it is
 * not set again, or goes if it turns out to be.
 */
bool dfi__restore_leave(struct registry_client *client, struct kept_key *kept);

/* Take the next steps, soon: client.kicked was set. (loop) */
void dfi__restore_go_on(struct registry_client *client);

/* A stream over a connected socket, with callbacks; takes fd. -ENOMEM. (loop)
 */
int dfi__client_attach(struct registry_client *client, int fd);

/* A lease was asked for: send keepalives, if it needs them. (loop) */
int dfi__client_start_keepalive(struct registry_client *client);

/* Those that are made; one that is being made belongs to its call. */
void dfi__watch_free_all(struct registry_client *client);

#endif

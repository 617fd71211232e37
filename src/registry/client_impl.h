/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the client share: client.c (the connection), client_call.c
 * (asking and waiting), client_keys.c, client_watch.c.
 *
 * Everything belongs to the loop's thread, but for what the comments say. A
 * call lives on the stack of the thread that waits for it; it is in the list
 * of calls until it is done or, at its deadline, taken out on the loop's
 * thread, after which no reply can reach it.
 */
#ifndef DFI_REGISTRY_CLIENT_IMPL_H
#define DFI_REGISTRY_CLIENT_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client.h"
#include "wire.h"

struct bufferevent;
struct event;

struct registry_watch {
	TAILQ_ENTRY(registry_watch) link;
	struct registry_client *client;
	uint64_t id; /* of the request that made it */
	bool made;   /* the registry has confirmed it */
	bool told;   /* that the connection is lost */
	void (*fn)(void *arg, const struct registry_event *event);
	void *arg;
};

struct client_call {
	TAILQ_ENTRY(client_call) link;
	struct registry_client *client;
	Dfi__Registry__Request *request; /* until it is written */
	struct registry_watch *watch;    /* to be made, or NULL */
	/* Under client.lock from here on. */
	bool done;
	int ret;
	char text[512];
	Dfi__Registry__Message *reply;
	pthread_cond_t answered;
	/* Set when it is written. */
	uint64_t id;
};

struct registry_client {
	struct loop *loop;
	char *address;
	struct bufferevent *stream; /* NULL: the connection is lost */
	struct event *keepalive_timer;
	uint64_t keepalive_id; /* 0: none is unanswered */
	uint64_t last_id;
	bool open;    /* false: dfi__client_open() is still at it */
	bool closing; /* by dfi__client_close() */
	int lost_err;
	char lost_text[512];
	TAILQ_HEAD(, client_call) calls;
	TAILQ_HEAD(, registry_watch) watches;

	pthread_mutex_t lock; /* protects the calls' results and n_callers */
	pthread_cond_t no_caller;
	unsigned n_callers; /* threads inside of dfi__client_call() */
};

/*
 * Send a request and wait for its reply: 0 and *reply (may be NULL; else freed
 * by dfi__wire_free()), or what the registry or the connection says. watch, if
 * not NULL, hears the events of this request from then on; it is forgotten
 * again on failure.
 */
int dfi__client_call(struct registry_client *client,
    Dfi__Registry__Request *request, struct registry_watch *watch,
    int64_t deadline, Dfi__Registry__Message **reply);

/* The rest runs on the loop's thread. */

/* Give the request a number and write it. */
int dfi__client_send(
    struct registry_client *client, Dfi__Registry__Request *request);

/* A reply has come; takes message. */
void dfi__client_answer(
    struct registry_client *client, Dfi__Registry__Message *message);

/* err, or -EBADMSG if it isn't one of DFI's error codes. */
int dfi__client_known_error(int err);

/* Fail all calls with client.lost_text. */
void dfi__client_fail_calls(struct registry_client *client, int err);

/* The connection is lost: close it, fail all calls, tell the watches. */
void dfi__client_lose(struct registry_client *client, int err, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));

void dfi__watch_deliver(
    struct registry_client *client, const Dfi__Registry__Event *event);
void dfi__watch_deliver_lost(struct registry_client *client);

/* Those that are made; one that is being made belongs to its call. */
void dfi__watch_free_all(struct registry_client *client);

#endif

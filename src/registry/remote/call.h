/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread asks the registry and waits for the answer (call.c). The call lives
 * on the stack of that thread. It is in the list of calls until it is done, or
 * is taken out at its deadline. No reply can reach it after that. The functions
 * that wait are for threads that have not entered the client.
 */
#ifndef DFI_REGISTRY_REMOTE_CALL_H
#define DFI_REGISTRY_REMOTE_CALL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "registry/wire/wire.h"

struct registry_put;
struct remote_client;
struct remote_watch;

struct client_call {
	TAILQ_ENTRY(client_call) link;
	struct remote_client *client;
	Dfi__Registry__Request *request; /* set when the request is written */
	/* The watch that gets the events of this request; or NULL. */
	struct remote_watch *watch;
	unsigned keep_flags;     /* of a put */
	bool (*over)(void *arg); /* see dfi__client_put_unless(), or NULL */
	void *over_arg;
	/* Until the call is done, the client's lock protects the rest. */
	_Atomic bool done;
	int ret;
	char text[512];
	Dfi__Registry__Message *reply; /* valid if ret is 0 */
	pthread_cond_t answered;
	/* Set when the request is written. */
	uint64_t id;
};

/*
 * Like dfi__client_call(), for the request of a put. On success the key is
 * kept, if a flag says so.
 */
int dfi__client_call_put(struct remote_client *client,
    Dfi__Registry__Request *request, const struct registry_put *put,
    int64_t deadline, Dfi__Registry__Message **reply);

/*
 * Send a request and wait for its reply: 0 and *reply (may be NULL; otherwise
 * the caller frees it by dfi__wire_free()), or the error of the registry or the
 * connection.
 */
int dfi__client_call(struct remote_client *client,
    Dfi__Registry__Request *request, int64_t deadline,
    Dfi__Registry__Message **reply);

/*
 * Send several requests of one client at once, and wait for all replies: then
 * each call has its result. Not on the loop's thread.
 */
void dfi__client_call_all(
    struct client_call *calls, size_t n, int64_t deadline);

/* What the call returns, with its text. */
int dfi__client_call_result(struct client_call *call);

/* Deliver a reply; takes message. (loop) */
void dfi__client_answer(
    struct remote_client *client, Dfi__Registry__Message *message);

/*
 * Fail all calls with client.lost_text. No answer to abandoned requests will
 * come any more.
 */
void dfi__client_fail_calls(struct remote_client *client, int err);

#endif

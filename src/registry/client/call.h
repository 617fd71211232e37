/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread asks the registry and waits for the answer (call.c). The call lives
 * on the stack of that thread. It is in the list of calls until it is done, or
 * is taken out at its deadline. No reply can reach it after that. The functions
 * that wait are for threads that have not entered the client.
 */
#ifndef DFI_REGISTRY_CLIENT_CALL_H
#define DFI_REGISTRY_CLIENT_CALL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "registry/wire/wire.h"

struct registry_client;
struct registry_watch;

struct client_call {
	TAILQ_ENTRY(client_call) link;
	struct registry_client *client;
	Dfi__Registry__Request *request; /* until it is written */
	/* To be made: hears the events of this request; or NULL. */
	struct registry_watch *watch;
	unsigned keep_flags;     /* of a put */
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

/*
 * As dfi__client_call(), for a put; flags are those of client.h. If it succeeds
 * the key is kept. over: see dfi__client_put_unless(), or NULL.
 */
int dfi__client_call_put(struct registry_client *client,
    Dfi__Registry__Request *request, unsigned flags, bool (*over)(void *arg),
    void *arg, int64_t deadline, Dfi__Registry__Message **reply);

/*
 * Send a request and wait for its reply: 0 and *reply (may be NULL; else freed
 * by dfi__wire_free()), or what the registry or the connection says.
 */
int dfi__client_call(struct registry_client *client,
    Dfi__Registry__Request *request, int64_t deadline,
    Dfi__Registry__Message **reply);

/*
 * Send several requests of one client at once, and wait for all replies: each
 * call has its result then. -EINVAL: on the loop's thread, none is sent.
 */
int dfi__client_call_all(struct client_call *calls, size_t n, int64_t deadline);

/* What the call returns, with its text. */
int dfi__client_call_result(struct client_call *call);

/* A reply has come; takes message. (loop) */
void dfi__client_answer(
    struct registry_client *client, Dfi__Registry__Message *message);

/*
 * Fail all calls with client.lost_text; and no answer to what was given up will
 * come any more.
 */
void dfi__client_fail_calls(struct registry_client *client, int err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's calls: a thread asks the registry and waits for the answer, at
 * most until its deadline. The loop's thread delivers the answer.
 */
#include "call.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "registry/client/client.h"
#include "enter.h"
#include "keep.h"
#include "keys.h"
#include "restore.h"
#include "state.h"
#include "watch.h"

/*
 * An answer from the same machine takes some 30 us; waking a sleeping thread
 * takes about as long again.
 */
#define YIELD_NS 60000
#define LONG_YIELD_NS 300000
#define BUSY_NS (100 * NS_PER_MS)

/* The interval between two checks whether a call is over. */
#define LOOK_NS (100 * NS_PER_MS)

/* A key whose creator gave up before the registry answered. */
struct abandoned_key {
	TAILQ_ENTRY(abandoned_key) link;
	uint64_t id; /* of the request */
	char key[];
};

/* Set a call's result, with dfi_errmsg(). */
static void set_result(
    struct client_call *call, int ret, Dfi__Registry__Message *reply)
{
	struct remote_client *client = call->client;

	pthread_mutex_lock(&client->lock);
	call->ret = ret;
	if (ret)
		snprintf(call->text, sizeof(call->text), "%s", dfi_errmsg());
	call->reply = reply;
	/* Pairs with yield_a_while(), which reads nothing else. */
	atomic_set(&call->done, true);
	/* Under the lock: the caller's stack may vanish after done. */
	pthread_cond_signal(&call->answered);
	pthread_mutex_unlock(&client->lock);
}

static void complete(
    struct client_call *call, int ret, Dfi__Registry__Message *reply)
{
	struct remote_client *client = call->client;

	TAILQ_REMOVE(&client->calls, call, link);
	if (!ret)
		dfi__keep_note(client, call->request, call->keep_flags);
	if (call->watch && ret == 0)
		call->watch->made = true;
	else if (call->watch)
		dfi__watch_remove(client, call->watch);
	set_result(call, ret, reply);
}

static void forget_abandoned(
    struct remote_client *client, struct abandoned_key *key)
{
	TAILQ_REMOVE(&client->abandoned, key, link);
	free(key);
}

void dfi__client_fail_calls(struct remote_client *client, int err)
{
	struct abandoned_key *key;
	struct client_call *call;

	while ((key = TAILQ_FIRST(&client->abandoned)))
		forget_abandoned(client, key);
	dfi__fail(err, "%s", client->lost_text);
	while ((call = TAILQ_FIRST(&client->calls)))
		complete(call, err, NULL);
}

/*
 * An answer came too late. If it says that a key was made, its creator believes
 * that the key was not made: delete it, unless it belongs to another client by
 * now.
 */
static void undo(
    struct remote_client *client, const Dfi__Registry__Reply *reply)
{
	struct abandoned_key *key;

	TAILQ_FOREACH(key, &client->abandoned, link)
	{
		if (key->id == reply->id)
			break;
	}
	if (!key)
		return;
	if (!reply->error &&
	    dfi__client_send_delete(client, key->key, reply->revision) < 0)
		dfi__log(DFI_LOG_WARN,
		    "registry %s: the key '%s' was made too late, and stays: "
		    "%s",
		    client->address, key->key, dfi_errmsg());
	forget_abandoned(client, key);
}

void dfi__client_answer(
    struct remote_client *client, Dfi__Registry__Message *message)
{
	const Dfi__Registry__Reply *reply = message->reply;
	struct client_call *call;
	int ret;

	if (!client->restoring && reply->revision > client->revision)
		client->revision = reply->revision;
	if (reply->id == client->keepalive_id) {
		client->keepalive_id = 0;
		if (reply->error)
			dfi__client_lose(client, -ENOTCONN, "%s", reply->text);
		dfi__wire_free(message);
		return;
	}
	if (client->restoring) {
		dfi__restore_answer(client, reply);
		dfi__wire_free(message);
		return;
	}
	TAILQ_FOREACH(call, &client->calls, link)
	{
		if (call->id == reply->id)
			break;
	}
	ret = 0;
	if (reply->error)
		ret = dfi__fail(dfi__peer_error(reply->error),
		    "registry %s: %s", client->address, reply->text);
	/* Nobody waits any more. */
	if (!call)
		undo(client, reply);
	if (!call || ret) {
		dfi__wire_free(message);
		message = NULL;
	}
	if (call)
		complete(call, ret, message);
}

/* The key that this call creates, if it demands a new key; else NULL. */
static const char *created_key(const struct client_call *call)
{
	const Dfi__Registry__Request *request = call->request;

	return request->op_case == DFI__REGISTRY__REQUEST__OP_PUT &&
		request->put->create && !request->put->reclaim
	    ? request->put->key
	    : NULL;
}

/* The registry may still make the key that this call requested. */
static void abandon(struct client_call *call, const char *name)
{
	struct remote_client *client = call->client;
	struct abandoned_key *key = malloc(sizeof(*key) + strlen(name) + 1);

	if (!key) {
		dfi__log(DFI_LOG_WARN,
		    "registry %s: out of memory: the key '%s' may stay, though "
		    "nobody waits for it any more",
		    client->address, name);
		return;
	}
	key->id = call->id;
	strcpy(key->key, name);
	TAILQ_INSERT_TAIL(&client->abandoned, key, link);
}

static int submit(struct client_call *call)
{
	struct remote_client *client = call->client;
	int ret;

	if (client->restoring)
		return dfi__fail(client->lost_err, "%s", client->lost_text);
	if (dfi__loop_is_broken(client->base.loop))
		return dfi__fail(-ENOTCONN,
		    "registry %s: the application has closed the connection's "
		    "file descriptor",
		    client->address);
	ret = dfi__client_send(client, call->request);
	if (ret)
		return ret;
	call->id = call->request->id;
	if (call->watch)
		ret = dfi__watch_add(client, call->watch, call->id);
	if (!ret)
		TAILQ_INSERT_TAIL(&client->calls, call, link);
	return ret;
}

struct batch {
	struct client_call *calls;
	size_t n;
};

static int submit_all(void *arg)
{
	struct batch *batch = arg;
	size_t i;
	int ret;

	for (i = 0; i < batch->n; i++) {
		ret = submit(&batch->calls[i]);
		if (ret)
			set_result(&batch->calls[i], ret, NULL);
	}
	return 0;
}

static int give_up(void *arg)
{
	struct client_call *call = arg;
	struct remote_client *client = call->client;

	if (atomic_peek(&call->done))
		return 0;
	if (created_key(call))
		abandon(call, created_key(call));
	if (call->watch || call->keep_flags & CLIENT_SHARED)
		dfi__client_send_unwatch(client, call->id);
	if (dfi__loop_is_stuck(client->base.loop))
		dfi__loop_fail_stuck(client->base.loop);
	else
		dfi__fail(-ETIMEDOUT, "registry %s: no answer in time",
		    client->address);
	complete(call, -ETIMEDOUT, NULL);
	return 0;
}

/*
 * Yielding lets the registry and the control thread run on this processor. But
 * a thread that yields to a busy thread is not woken by the answer, as a
 * sleeper is. Where that happens, waiting threads sleep at once for a while.
 */
static void yield_a_while(struct client_call *call, int64_t deadline)
{
	struct remote_client *client = call->client;
	int64_t now = clock_now_ns(), end = now + YIELD_NS, before;

	if (now < atomic_peek(&client->busy_until))
		return;
	if (deadline < end)
		end = deadline;
	/* Pairs with set_result(); what it protects is read under the lock. */
	while (!atomic_peek(&call->done) && now < end) {
		before = now;
		sched_yield();
		now = clock_now_ns();
		if (now - before > LONG_YIELD_NS) {
			atomic_set(&client->busy_until, now + BUSY_NS);
			return;
		}
	}
}

/* Returns whether the answer came. */
static bool sleep_until(struct client_call *call, int64_t deadline)
{
	struct remote_client *client = call->client;
	struct timespec when = deadline_timespec(deadline);
	int err = 0;
	bool done;

	pthread_mutex_lock(&client->lock);
	while (!atomic_peek(&call->done) && !err) {
		if (deadline == DEADLINE_NEVER)
			err = pthread_cond_wait(&call->answered, &client->lock);
		else
			err = pthread_cond_clockwait(&call->answered,
			    &client->lock, CLOCK_MONOTONIC, &when);
	}
	done = atomic_peek(&call->done);
	pthread_mutex_unlock(&client->lock);
	return done;
}

/*
 * Returns whether the answer came. Called without the client's lock: over() may
 * take other locks.
 */
static bool wait_until(struct client_call *call, int64_t deadline)
{
	int64_t look;

	yield_a_while(call, deadline);
	while (call->over) {
		look = clock_now_ns() + LOOK_NS;
		if (look >= deadline)
			break;
		if (sleep_until(call, look))
			return true;
		if (call->over(call->over_arg))
			return false;
	}
	return sleep_until(call, deadline);
}

static void count_caller(struct remote_client *client, int by)
{
	pthread_mutex_lock(&client->lock);
	client->n_callers += (unsigned)by;
	if (!client->n_callers)
		pthread_cond_signal(&client->no_caller);
	pthread_mutex_unlock(&client->lock);
}

static void wait_for(struct client_call *call, int64_t deadline)
{
	if (!wait_until(call, deadline))
		dfi__client_do(call->client, give_up, call);
	pthread_cond_destroy(&call->answered);
}

void dfi__client_call_all(struct client_call *calls, size_t n, int64_t deadline)
{
	struct remote_client *client = calls[0].client;
	struct batch batch = { .calls = calls, .n = n };
	size_t i;
	CANCEL_OFF;

	count_caller(client, 1);
	for (i = 0; i < n; i++)
		pthread_cond_init(&calls[i].answered, NULL);
	dfi__client_do(client, submit_all, &batch);
	/* Wait for the last one first: its answer comes last. */
	for (i = n; i > 0; i--)
		wait_for(&calls[i - 1], deadline);
	count_caller(client, -1);
}

int dfi__client_call_result(struct client_call *call)
{
	return call->ret ? dfi__fail(call->ret, "%s", call->text) : 0;
}

static int call_one(
    struct client_call *call, int64_t deadline, Dfi__Registry__Message **reply)
{
	int ret;

	dfi__client_call_all(call, 1, deadline);
	ret = dfi__client_call_result(call);
	if (ret)
		return ret;
	if (reply)
		*reply = call->reply;
	else
		dfi__wire_free(call->reply);
	return 0;
}

int dfi__client_call(struct remote_client *client,
    Dfi__Registry__Request *request, int64_t deadline,
    Dfi__Registry__Message **reply)
{
	struct client_call call = { .client = client, .request = request };

	return call_one(&call, deadline, reply);
}

int dfi__client_call_put(struct remote_client *client,
    Dfi__Registry__Request *request, const struct registry_put *put,
    int64_t deadline, Dfi__Registry__Message **reply)
{
	struct client_call call = {
		.client = client,
		.request = request,
		.keep_flags = put->flags & (CLIENT_LEASED | CLIENT_SHARED),
		.over = put->over,
		.over_arg = put->over_arg,
	};

	return call_one(&call, deadline, reply);
}

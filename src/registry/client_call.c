/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's calls: how a thread asks the registry and waits for the answer.
 * A call is written, answered and given up on the loop's thread only; the
 * caller just waits, never past its deadline.
 */
#include "client_impl.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"

/* Requests that a registry which doesn't read may have waiting. */
#define OUTPUT_MAX (16 << 20)

int dfi__client_send(
    struct registry_client *client, Dfi__Registry__Request *request)
{
	struct evbuffer *output;

	if (!client->stream)
		return dfi__fail(client->lost_err, "%s", client->lost_text);
	output = bufferevent_get_output(client->stream);
	if (evbuffer_get_length(output) > OUTPUT_MAX)
		return dfi__fail(-ETIMEDOUT,
		    "registry %s has stopped reading requests",
		    client->address);
	request->id = ++client->last_id;
	return dfi__wire_write_request(output, request);
}

static void complete(
    struct client_call *call, int ret, Dfi__Registry__Message *reply)
{
	struct registry_client *client = call->client;

	TAILQ_REMOVE(&client->calls, call, link);
	if (call->watch && ret == 0)
		call->watch->made = true;
	else if (call->watch)
		TAILQ_REMOVE(&client->watches, call->watch, link);
	pthread_mutex_lock(&client->lock);
	call->ret = ret;
	if (ret)
		snprintf(call->text, sizeof(call->text), "%s", dfi_errmsg());
	call->reply = reply;
	call->done = true;
	/* Under the lock: the caller's stack is gone once it sees done. */
	pthread_cond_signal(&call->answered);
	pthread_mutex_unlock(&client->lock);
}

void dfi__client_fail_calls(struct registry_client *client, int err)
{
	struct client_call *call;

	dfi__fail(err, "%s", client->lost_text);
	while ((call = TAILQ_FIRST(&client->calls)))
		complete(call, err, NULL);
}

int dfi__client_known_error(int err)
{
	const char *unknown = dfi_strerror(INT_MAX);

	return err < 0 && strcmp(dfi_strerror(err), unknown) ? err : -EBADMSG;
}

void dfi__client_answer(
    struct registry_client *client, Dfi__Registry__Message *message)
{
	const Dfi__Registry__Reply *reply = message->reply;
	struct client_call *call;
	int ret;

	if (reply->id == client->keepalive_id) {
		client->keepalive_id = 0;
		if (reply->error)
			dfi__client_lose(client, -ENOTCONN, "%s", reply->text);
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
		ret = dfi__fail(dfi__client_known_error(reply->error),
		    "registry %s: %s", client->address, reply->text);
	/* Nobody waits: it comes too late, or it answers an unwatch. */
	if (!call || ret) {
		dfi__wire_free(message);
		message = NULL;
	}
	if (call)
		complete(call, ret, message);
}

static int submit(void *arg)
{
	struct client_call *call = arg;
	struct registry_client *client = call->client;
	int ret = dfi__client_send(client, call->request);

	if (ret)
		return ret;
	call->id = call->request->id;
	TAILQ_INSERT_TAIL(&client->calls, call, link);
	if (call->watch) {
		call->watch->id = call->id;
		TAILQ_INSERT_TAIL(&client->watches, call->watch, link);
	}
	return 0;
}

static int give_up(void *arg)
{
	struct client_call *call = arg;
	struct registry_client *client = call->client;
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Unwatch op = DFI__REGISTRY__UNWATCH__INIT;

	if (call->done)
		return 0;
	dfi__fail(
	    -ETIMEDOUT, "registry %s: no answer in time", client->address);
	if (call->watch) {
		op.watch = call->watch->id;
		request.op_case = DFI__REGISTRY__REQUEST__OP_UNWATCH;
		request.unwatch = &op;
		dfi__client_send(client, &request);
	}
	complete(call, -ETIMEDOUT, NULL);
	return 0;
}

/* Whether it was answered. */
static bool wait_until(struct client_call *call, int64_t deadline)
{
	struct registry_client *client = call->client;
	struct timespec when = deadline_timespec(deadline);
	int err = 0;
	bool done;

	pthread_mutex_lock(&client->lock);
	while (!call->done && !err) {
		if (deadline == DEADLINE_NEVER)
			err = pthread_cond_wait(&call->answered, &client->lock);
		else
			err = pthread_cond_timedwait(
			    &call->answered, &client->lock, &when);
	}
	done = call->done;
	pthread_mutex_unlock(&client->lock);
	return done;
}

static void count_caller(struct registry_client *client, int by)
{
	pthread_mutex_lock(&client->lock);
	client->n_callers += (unsigned)by;
	if (!client->n_callers)
		pthread_cond_signal(&client->no_caller);
	pthread_mutex_unlock(&client->lock);
}

static int init_condition(pthread_cond_t *condition)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attr);
	return pthread_condattr_destroy(&attr);
}

int dfi__client_call(struct registry_client *client,
    Dfi__Registry__Request *request, struct registry_watch *watch,
    int64_t deadline, Dfi__Registry__Message **reply)
{
	struct client_call call = {
		.client = client,
		.request = request,
		.watch = watch,
	};
	int ret;

	if (dfi__loop_is_current(client->loop))
		return dfi__fail(-EINVAL,
		    "registry %s: a waiting call on the loop's thread",
		    client->address);
	count_caller(client, 1);
	init_condition(&call.answered);
	ret = dfi__loop_call(client->loop, submit, &call);
	if (ret)
		goto out;
	if (!wait_until(&call, deadline))
		dfi__loop_call(client->loop, give_up, &call);
	ret = call.ret;
	if (ret)
		dfi__fail(ret, "%s", call.text);
	else if (reply)
		*reply = call.reply;
	else
		dfi__wire_free(call.reply);
out:
	pthread_cond_destroy(&call.answered);
	count_caller(client, -1);
	return ret;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may touch the client, and writing what it has to say. A thread that asks
 * writes to the socket itself, unless libevent is at it: over TLS always,
 * without only while the socket takes no more. Getting a lost connection back
 * needs libevent, too, so all is left to the loop then.
 */
#include "client_impl.h"

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "stream.h"

void dfi__client_enter(struct registry_client *client)
{
	pthread_mutex_lock(&client->entrance);
	client->n_entered++;
}

static void leave(struct registry_client *client)
{
	client->n_entered--;
	pthread_mutex_unlock(&client->entrance);
}

static int let_libevent_write(void *arg)
{
	struct registry_client *client = arg;

	dfi__client_enter(client);
	/* It may be another stream by now, which has nothing to write. */
	if (client->stream && client->writing)
		bufferevent_enable(client->stream, EV_WRITE);
	leave(client);
	return 0;
}

void dfi__client_exit(struct registry_client *client)
{
	bool stuck = client->n_entered == 1 && client->stream && !client->tls &&
	    !client->writing && !dfi__stream_flush(client->stream);

	if (stuck)
		client->writing = true;
	leave(client);
	if (stuck)
		dfi__loop_call(client->loop, let_libevent_write, client);
}

struct job {
	struct registry_client *client;
	int (*fn)(void *arg);
	void *arg;
};

static int enter_and_run(void *arg)
{
	struct job *job = arg;
	int ret;

	dfi__client_enter(job->client);
	ret = job->fn(job->arg);
	dfi__client_exit(job->client);
	return ret;
}

int dfi__client_do_until(struct registry_client *client, int (*fn)(void *arg),
    void *arg, int64_t deadline)
{
	struct job job = { .client = client, .fn = fn, .arg = arg };
	int ret;

	dfi__client_enter(client);
	if (client->tls || client->writing || client->restoring) {
		dfi__client_exit(client);
		return dfi__loop_call_until(
		    client->loop, enter_and_run, &job, deadline);
	}
	ret = fn(arg);
	dfi__client_exit(client);
	return ret;
}

int dfi__client_do(
    struct registry_client *client, int (*fn)(void *arg), void *arg)
{
	return dfi__client_do_until(client, fn, arg, DEADLINE_NEVER);
}

void dfi__client_tell(
    struct registry_client *client, int (*fn)(void *arg), void *arg)
{
	char text[ERROR_TEXT_SIZE];

	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	dfi__client_do(client, fn, arg);
	dfi__fail(0, "%s", text);
}

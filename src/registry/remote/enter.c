/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread may use the client, and writing its requests. The thread that
 * has entered writes to the socket itself, unless libevent is writing: with TLS
 * always, otherwise only while the socket takes no more. Then requests wait in
 * client->unsent for the loop, which alone may use libevent. No thread waits
 * here for the loop, which may not run (DFI_CONTROL_CPUS).
 */
#include "enter.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdio.h>

#include "base/error.h"
#include "base/loop.h"
#include "registry/wire/stream.h"
#include "restore.h"
#include "state.h"

/* Bytes of requests that may wait for a registry that doesn't read. */
#define CLIENT_OUTPUT_MAX (16 << 20)

void dfi__client_enter(struct remote_client *client)
{
	pthread_mutex_lock(&client->entrance);
	client->n_entered++;
}

static void leave(struct remote_client *client)
{
	client->n_entered--;
	pthread_mutex_unlock(&client->entrance);
}

bool dfi__client_uses_unsent(const struct remote_client *client)
{
	return client->stream && (client->tls || client->writing);
}

int dfi__client_send(
    struct remote_client *client, Dfi__Registry__Request *request)
{
	struct evbuffer *output;

	if (!client->stream)
		return dfi__fail(client->lost_err, "%s", client->lost_text);
	output = dfi__client_uses_unsent(client)
	    ? client->unsent
	    : bufferevent_get_output(client->stream);
	if (evbuffer_get_length(output) > CLIENT_OUTPUT_MAX)
		return dfi__fail(-ETIMEDOUT,
		    "registry %s has stopped reading requests",
		    client->address);
	request->id = ++client->last_id;
	return dfi__wire_write_request(output, request);
}

/* On the loop's thread. What finds no room waits for on_written(). */
static void serve(struct remote_client *client)
{
	struct evbuffer *output;

	if (client->kicked)
		dfi__restore_go_on(client);
	client->kicked = false;
	if (!dfi__client_uses_unsent(client))
		return;
	output = bufferevent_get_output(client->stream);
	if (evbuffer_get_length(output) <= CLIENT_OUTPUT_MAX)
		evbuffer_add_buffer(output, client->unsent);
	if (!(bufferevent_get_enabled(client->stream) & EV_WRITE))
		bufferevent_enable(client->stream, EV_WRITE);
}

/* The stream may be a new one, which has nothing to write. */
void dfi__client_on_post(void *arg)
{
	dfi__client_enter(arg);
	dfi__client_exit(arg);
}

void dfi__client_exit(struct remote_client *client)
{
	bool needs_loop = client->kicked;

	if (client->n_entered > 1) {
		leave(client);
		return;
	}
	if (client->stream && !dfi__client_uses_unsent(client) &&
	    !dfi__stream_flush(client->stream))
		client->writing = needs_loop = true;
	if (evbuffer_get_length(client->unsent))
		needs_loop = true;
	if (dfi__loop_is_current(client->base.loop))
		serve(client);
	else if (needs_loop)
		dfi__loop_post(client->base.loop, &client->post);
	leave(client);
}

int dfi__client_do(
    struct remote_client *client, int (*fn)(void *arg), void *arg)
{
	int ret;

	dfi__client_enter(client);
	ret = fn(arg);
	dfi__client_exit(client);
	return ret;
}

void dfi__client_do_infallible(
    struct remote_client *client, int (*fn)(void *arg), void *arg)
{
	char text[ERROR_TEXT_SIZE];

	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	dfi__client_do(client, fn, arg);
	dfi__fail(0, "%s", text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's connection: arriving messages, the lease's keepalive, its loss,
 * and closing it. Other files of this folder open it, send requests over it,
 * and restore it. This file must not wait for anything on the loop's thread.
 */
#include "state.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork_files.h"
#include "base/log.h"
#include "base/loop.h"
#include "registry/wire/address.h"
#include "security/tls.h"
#include "call.h"
#include "enter.h"
#include "keep.h"
#include "restore.h"
#include "watch.h"

#define REVOKE_TIMEOUT_MS 1000
#define CLOSE_TIMEOUT_MS 10000

void dfi__client_lose(
    struct remote_client *client, int err, const char *fmt, ...)
{
	char why[300];
	va_list ap;

	if (!client->stream)
		return;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	dfi__fork_remove(bufferevent_getfd(client->stream));
	bufferevent_free(client->stream);
	client->stream = NULL;
	client->writing = false;
	evbuffer_drain(client->unsent, evbuffer_get_length(client->unsent));
	if (client->keepalive_timer)
		evtimer_del(client->keepalive_timer);
	if (client->restoring) {
		dfi__reconnect_failed(client, why);
		return;
	}
	evtimer_del(client->grace_timer);
	client->lost_err = client->open ? -ENOTCONN : err;
	snprintf(client->lost_text, sizeof(client->lost_text),
	    client->open ? "the connection to registry %s is lost: %s"
			 : "registry %s: %s",
	    client->address, why);
	dfi__log(client->closing || client->turned_away ? DFI_LOG_DEBUG
							: DFI_LOG_WARN,
	    "%s", client->lost_text);
	if (client->open && !client->closing)
		dfi__reconnect_begin(client);
	dfi__client_fail_calls(client, client->lost_err);
	dfi__watch_notify(client, REGISTRY_LOST);
}

/* The registry says why it is about to disconnect. */
static void refused(
    struct remote_client *client, const Dfi__Registry__Reply *reply)
{
	dfi__client_lose(
	    client, dfi__peer_error(reply->error), "%s", reply->text);
}

/* Handle one message, and free it. */
static void receive(
    struct remote_client *client, Dfi__Registry__Message *message)
{
	switch (message->body_case) {
	case DFI__REGISTRY__MESSAGE__BODY_EVENT:
		dfi__watch_deliver(client, message->event);
		break;
	case DFI__REGISTRY__MESSAGE__BODY_REPLY:
		if (message->reply->id == 0) {
			refused(client, message->reply);
			break;
		}
		dfi__client_answer(client, message);
		return;
	default:
		dfi__client_lose(client, -EPROTO, "it is no registry");
		break;
	}
	dfi__wire_free(message);
}

/* Handle all messages that have arrived. One may end the connection. */
static void receive_all(
    struct remote_client *client, struct bufferevent *stream)
{
	Dfi__Registry__Message *message;
	int ret = 1;

	client->heard_at = clock_now_ns();
	if (client->restoring)
		dfi__reconnect_heard(client);
	while (client->stream) {
		ret = dfi__wire_read(bufferevent_get_input(stream), &message);
		if (ret <= 0)
			break;
		receive(client, message);
	}
	if (ret < 0)
		dfi__client_lose(client, -EPROTO,
		    "what answers there is no registry: %s", dfi_errmsg());
}

static void on_read(struct bufferevent *stream, void *arg)
{
	struct remote_client *client = arg;

	dfi__client_enter(client);
	receive_all(client, stream);
	dfi__client_exit(client);
}

/* Writing failed: the registry may have sent the reason before it closed. */
static void hear_out(struct remote_client *client, struct bufferevent *stream)
{
	struct evbuffer *input = bufferevent_get_input(stream);
	int n;

	/* libevent freezes it against additions. */
	evbuffer_unfreeze(input, 0);
	n = evbuffer_read(input, bufferevent_getfd(stream), -1);
	evbuffer_freeze(input, 0);
	if (n > 0)
		receive_all(client, stream);
}

/* The output is empty: from now on requests are written at once again. */
static void on_written(struct bufferevent *stream, void *arg)
{
	struct remote_client *client = arg;

	dfi__client_enter(client);
	/* Otherwise continue with what other threads have queued meanwhile. */
	if (client->writing && !evbuffer_get_length(client->unsent)) {
		bufferevent_disable(stream, EV_WRITE);
		client->writing = false;
	}
	dfi__client_exit(client);
}

static void end_stream(
    struct remote_client *client, struct bufferevent *stream, short what)
{
	int err = EVUTIL_SOCKET_ERROR(), ret = 0;

	if (!client->tls && (what & BEV_EVENT_WRITING))
		hear_out(client, stream);
	if (client->stream != stream)
		return;
	if (what & BEV_EVENT_CONNECTED)
		ret = dfi__tls_check(client->tls, stream);
	else if (client->tls && (what & BEV_EVENT_ERROR))
		ret = dfi__tls_failure(client->tls, stream, NULL);
	if (ret)
		dfi__client_lose(client, ret, "%s", dfi_errmsg());
	if (ret || (what & BEV_EVENT_CONNECTED))
		return;
	client->turned_away = !client->open;
	if (what & BEV_EVENT_EOF)
		dfi__client_lose(client, -ENOTCONN, "it was closed");
	else
		dfi__client_lose(client, -ENOTCONN, "%s", strerrordesc_np(err));
}

static void on_end(struct bufferevent *stream, short what, void *arg)
{
	struct remote_client *client = arg;

	dfi__client_enter(client);
	end_stream(client, stream, what);
	dfi__client_exit(client);
}

static void on_keepalive(evutil_socket_t fd, short what, void *arg)
{
	struct remote_client *client = arg;
	Dfi__Registry__LeaseKeepalive op = DFI__REGISTRY__LEASE_KEEPALIVE__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(
	    LEASE_KEEPALIVE, lease_keepalive, &op);

	(void)fd;
	(void)what;
	dfi__client_enter(client);
	/*
	 * A stopped registry needs one keepalive only. But a slow connection
	 * may have much else to deliver before the answer.
	 */
	if ((!client->keepalive_id ||
		client->heard_at > client->keepalive_at) &&
	    !dfi__client_send(client, &request)) {
		client->keepalive_id = request.id;
		client->keepalive_at = clock_now_ns();
	}
	dfi__client_exit(client);
}

static void on_grace_over(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	dfi__client_enter(arg);
	dfi__watch_expire_missing(arg);
	dfi__client_exit(arg);
}

/* Open the stream over the socket, which it takes. */
static struct bufferevent *open_stream(struct remote_client *client, int fd)
{
	struct event_base *base = dfi__loop_base(client->base.loop);
	struct bufferevent *stream;

	if (client->tls)
		return dfi__tls_stream(
		    client->tls, base, fd, &client->parsed.socket.any);
	stream = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!stream)
		dfi__fork_close(fd);
	return stream;
}

int dfi__client_attach(struct remote_client *client, int fd)
{
	if (client->ttl_ms && !dfi__address_is_unix(&client->parsed))
		dfi__address_limit_quiet_time(fd, client->ttl_ms);
	client->stream = open_stream(client, fd);
	if (!client->stream)
		return dfi__fail(-ENOMEM, "no memory for a registry client");
	client->writing = false;
	if (!client->tls)
		bufferevent_disable(client->stream, EV_WRITE);
	bufferevent_setcb(client->stream, on_read, on_written, on_end, client);
	return bufferevent_enable(
		   client->stream, client->tls ? EV_READ | EV_WRITE : EV_READ)
	    ? dfi__fail(-ENOMEM, "no memory for a registry client")
	    : 0;
}

static int attach_entered(void *arg)
{
	struct remote_client *client = arg;
	struct event_base *base = dfi__loop_base(client->base.loop);
	int fd = client->fd;

	client->keepalive_timer = event_new(
	    base, -1, EV_PERSIST, on_keepalive, client);
	client->grace_timer = evtimer_new(base, on_grace_over, client);
	if (!client->keepalive_timer || !client->grace_timer ||
	    dfi__restore_init(client) < 0)
		return dfi__fail(-ENOMEM, "no memory for a registry client");
	client->fd = -1;
	return dfi__client_attach(client, fd);
}

static int attach(void *arg)
{
	return dfi__client_do(arg, attach_entered, arg);
}

int dfi__client_start(struct remote_client *client, int fd, int64_t deadline)
{
	client->fd = fd;
	return dfi__loop_call(client->base.loop, attach, client, deadline);
}

static void detach(struct remote_client *client)
{
	dfi__client_enter(client);
	client->closing = true;
	dfi__keep_free_all(client);
	dfi__watch_free_all(client);
	dfi__restore_free(client);
	dfi__client_lose(client, -ENOTCONN, "this process has closed it");
	dfi__client_exit(client);
	if (client->keepalive_timer)
		event_free(client->keepalive_timer);
	if (client->grace_timer)
		event_free(client->grace_timer);
	if (client->fd >= 0)
		dfi__fork_close(client->fd);
	dfi__loop_unpost(client->base.loop, &client->post);
}

/* After detach(), when the last caller has gone. */
static void free_client(struct remote_client *client)
{
	pthread_mutex_lock(&client->lock);
	while (client->n_callers)
		pthread_cond_wait(&client->no_caller, &client->lock);
	pthread_mutex_unlock(&client->lock);
	pthread_cond_destroy(&client->no_caller);
	pthread_mutex_destroy(&client->lock);
	pthread_mutex_destroy(&client->entrance);
	dfi__tls_destroy(client->tls);
	evbuffer_free(client->unsent);
	free(client->address);
	free(client);
}

static void end(void *arg)
{
	detach(arg);
	free_client(arg);
}

void dfi__client_destroy(struct remote_client *client, int64_t deadline)
{
	client->end = (struct loop_post){ .fn = end, .arg = client };
	dfi__loop_end(client->base.loop, &client->end, deadline);
}

static void init_entrance(struct remote_client *client)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&client->entrance, &attr);
	pthread_mutexattr_destroy(&attr);
}

int dfi__client_new(
    struct loop *loop, const char *address, struct remote_client **client)
{
	struct remote_client *new;
	uint64_t drawn[2];

	if (getrandom(drawn, sizeof(drawn), 0) != sizeof(drawn))
		return dfi__fail(-EIO, "getrandom: %s", strerror(errno));
	new = calloc(1, sizeof(*new));
	if (new) {
		new->address = strdup(address);
		new->unsent = evbuffer_new();
	}
	if (!new || !new->address || !new->unsent) {
		if (new) {
			if (new->unsent)
				evbuffer_free(new->unsent);
			free(new->address);
		}
		free(new);
		return dfi__fail(-ENOMEM, "no memory for a registry client");
	}
	new->base.loop = loop;
	new->fd = -1;
	new->post.fn = dfi__client_on_post;
	new->post.arg = new;
	new->id = drawn[0];
	new->hash_seed = drawn[1];
	new->grace_ms = CLIENT_GRACE_MS;
	TAILQ_INIT(&new->kept);
	TAILQ_INIT(&new->calls);
	TAILQ_INIT(&new->abandoned);
	TAILQ_INIT(&new->watches);
	init_entrance(new);
	pthread_mutex_init(&new->lock, NULL);
	pthread_cond_init(&new->no_caller, NULL);
	*client = new;
	return 0;
}

int dfi__client_set_timer(struct event *timer, uint32_t ms)
{
	struct timeval time = {
		.tv_sec = ms / 1000,
		.tv_usec = ms % 1000 * 1000,
	};

	return evtimer_add(timer, &time);
}

int dfi__client_start_keepalive(struct remote_client *client)
{
	client->keepalive_id = 0;
	if (client->ttl_ms &&
	    dfi__client_set_timer(client->keepalive_timer, client->ttl_ms / 3))
		return dfi__fail(-ENOMEM, "no memory for a registry client");
	return 0;
}

void dfi__remote_set_grace(struct registry_client *base, uint32_t ms)
{
	atomic_store(&remote_of(base)->grace_ms, ms);
}

void dfi__remote_revoke(struct registry_client *base)
{
	Dfi__Registry__LeaseRevoke op = DFI__REGISTRY__LEASE_REVOKE__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(
	    LEASE_REVOKE, lease_revoke, &op);
	char text[ERROR_TEXT_SIZE];

	/* Ignore an error: the lease ends with the connection anyway. */
	snprintf(text, sizeof(text), "%s", dfi_errmsg());
	dfi__client_call(
	    remote_of(base), &request, deadline_in_ms(REVOKE_TIMEOUT_MS), NULL);
	dfi__fail(0, "%s", text);
}

void dfi__remote_close(struct registry_client *base)
{
	if (!dfi__loop_is_current(base->loop))
		dfi__remote_revoke(base);
	dfi__client_destroy(remote_of(base), deadline_in_ms(CLOSE_TIMEOUT_MS));
}

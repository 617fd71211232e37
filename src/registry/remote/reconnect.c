/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting again, on the loop's thread and without ever blocking it: the
 * pause before an attempt, its socket, and the greeting with a new lease.
 * restore.c continues from there. An attempt that fails, at whatever step, ends
 * here, and the next one begins after a while.
 */
#include "restore.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork_files.h"
#include "base/log.h"
#include "base/loop.h"
#include "connect.h"
#include "enter.h"
#include "state.h"
#include "watch.h"

#define DELAY_MIN_MS 50
#define DELAY_MAX_MS 1000
#define ANSWER_TIMEOUT_MS 5000 /* from one sign of progress to the next */

/* Many clients lost the registry at once: vary by a quarter. */
static unsigned spread(unsigned ms)
{
	uint32_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		random = (uint32_t)getpid();
	return ms - ms / 4 + random % (ms / 2 + 1);
}

static void wait_for_next(struct remote_client *client)
{
	struct restore *restore = client->restore;

	restore->step = RESTORE_WAITING;
	dfi__client_set_timer(restore->timer, spread(restore->delay_ms));
	restore->delay_ms *= 2;
	if (restore->delay_ms > DELAY_MAX_MS)
		restore->delay_ms = DELAY_MAX_MS;
}

static void close_socket(struct restore *restore)
{
	if (restore->writable)
		event_free(restore->writable);
	restore->writable = NULL;
	if (restore->fd >= 0)
		dfi__fork_close(restore->fd);
	restore->fd = -1;
}

/* Tells whether not even the registry's machine answered an attempt. */
static bool is_quiet(const struct remote_client *client, int err)
{
	return !dfi__address_is_unix(&client->parsed) &&
	    (err == -ETIMEDOUT || err == -EHOSTUNREACH);
}

/*
 * Nobody answers there: the registry may have died and may be started again.
 * But if not even its machine answers, the registry has received nothing of
 * ours for as long. Once the client is connected, only the registry can be
 * quiet: its machine need not send anything.
 */
static void look_at_quiet_time(struct remote_client *client, bool connected)
{
	int64_t limit = (int64_t)client->ttl_ms * NS_PER_MS;
	int64_t now = clock_now_ns();

	if (connected)
		client->heard_at = now;
	else if (limit && now - client->heard_at >= limit)
		dfi__watch_notify(client, REGISTRY_CUT);
}

void dfi__reconnect_failed(struct remote_client *client, const char *why)
{
	struct restore *restore = client->restore;
	bool news = strcmp(restore->text, why) != 0;
	bool was_connected = restore->step > RESTORE_CONNECTING;
	enum dfi_log_level level = news ? DFI_LOG_INFO : DFI_LOG_DEBUG;

	close_socket(restore);
	snprintf(restore->text, sizeof(restore->text), "%s", why);
	snprintf(client->lost_text, sizeof(client->lost_text),
	    "the connection to registry %s is lost, and is not back yet: %s",
	    client->address, why);
	/* It won't come back by itself. */
	if (news &&
	    (was_connected ? restore->other_version
			   : dfi__connect_is_mounted(&client->parsed)))
		level = DFI_LOG_WARN;
	dfi__log(level, "%s", client->lost_text);
	wait_for_next(client);
	look_at_quiet_time(client, was_connected);
}

void dfi__reconnect_fail(struct remote_client *client)
{
	char why[300];

	snprintf(why, sizeof(why), "%s", dfi_errmsg());
	if (client->stream)
		dfi__client_lose(client, -ENOTCONN, "%s", why);
	else
		dfi__reconnect_failed(client, why);
}

static int send_handshake(struct remote_client *client)
{
	Dfi__Registry__Handshake handshake = DFI__REGISTRY__HANDSHAKE__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(
	    HANDSHAKE, handshake, &handshake);
	int ret;

	client->restore->other_version = false;
	handshake.version = WIRE_VERSION;
	handshake.client = client->id;
	handshake.connection = ++client->n_connections;
	ret = dfi__client_send(client, &request);
	client->restore->handshake = request.id;
	return ret;
}

static int send_grant(struct remote_client *client)
{
	Dfi__Registry__LeaseGrant grant = DFI__REGISTRY__LEASE_GRANT__INIT;
	Dfi__Registry__Request request = WIRE_REQUEST(
	    LEASE_GRANT, lease_grant, &grant);
	int ret;

	grant.ttl_ms = client->ttl_ms;
	ret = dfi__client_send(client, &request);
	client->restore->grant = request.id;
	/* The lease runs from now on, however long the rest takes. */
	return ret ? ret : dfi__client_start_keepalive(client);
}

/* The registry has accepted the greeting. */
static int greeted(
    struct remote_client *client, const Dfi__Registry__Reply *reply)
{
	struct restore *restore = client->restore;
	int ret = dfi__wire_check_versions(reply->version, WIRE_VERSION);

	if (ret)
		return ret;
	restore->store = reply->store;
	restore->revision = reply->revision;
	restore->remembered = reply->store && reply->store == client->store &&
	    reply->revision >= client->revision;
	restore->resumes = restore->remembered && reply->resumable;
	if (!restore->resumes)
		return send_grant(client);
	/* The lease lasts; it is taken over when the watches are there. */
	ret = dfi__client_start_keepalive(client);
	if (!ret)
		dfi__restore_begin(client);
	return ret;
}

static void connected(struct remote_client *client)
{
	struct restore *restore = client->restore;
	int fd = restore->fd, ret;

	ret = dfi__connect_finish(
	    client->address, &client->parsed, client->user, fd);
	if (!is_quiet(client, ret))
		client->heard_at = clock_now_ns();
	if (!ret) {
		restore->fd = -1;
		close_socket(restore);
		ret = dfi__client_attach(client, fd);
	}
	if (!ret) {
		restore->step = RESTORE_GREETING;
		ret = send_handshake(client);
	}
	if (ret)
		dfi__reconnect_fail(client);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	dfi__client_enter(arg);
	connected(arg);
	dfi__client_exit(arg);
}

static void start_attempt(struct remote_client *client)
{
	struct restore *restore = client->restore;
	int ret;

	restore->step = RESTORE_CONNECTING;
	dfi__restore_forget_all(client);
	dfi__client_set_timer(restore->timer, ANSWER_TIMEOUT_MS);
	ret = dfi__connect_begin(
	    client->address, &client->parsed, &restore->fd);
	if (!ret) {
		connected(client);
		return;
	}
	if (ret == -EINPROGRESS) {
		restore->writable = event_new(dfi__loop_base(client->base.loop),
		    restore->fd, EV_WRITE, on_writable, client);
		if (restore->writable && !event_add(restore->writable, NULL))
			return;
		dfi__fail(-ENOMEM, "no memory for a registry client");
	}
	if (!is_quiet(client, ret))
		client->heard_at = clock_now_ns();
	dfi__reconnect_fail(client);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct remote_client *client = arg;

	(void)fd;
	(void)what;
	dfi__client_enter(client);
	if (client->restore->step == RESTORE_WAITING) {
		start_attempt(client);
	} else {
		dfi__fail(-ETIMEDOUT, "registry %s: no answer in time",
		    client->address);
		dfi__reconnect_fail(client);
	}
	dfi__client_exit(client);
}

int dfi__reconnect_answer(
    struct remote_client *client, const Dfi__Registry__Reply *reply)
{
	if (reply->id == client->restore->handshake && reply->error == -EPROTO)
		client->restore->other_version = true;
	if (reply->error)
		return dfi__fail(
		    -ENOTCONN, "registry %s: %s", client->address, reply->text);
	if (reply->id == client->restore->handshake)
		return greeted(client, reply);
	if (reply->id == client->restore->grant) {
		dfi__restore_begin(client);
	}
	return 0;
}

void dfi__reconnect_heard(struct remote_client *client)
{
	dfi__client_set_timer(client->restore->timer, ANSWER_TIMEOUT_MS);
}

void dfi__reconnect_begin(struct remote_client *client)
{
	client->restoring = true;
	client->restore->delay_ms = DELAY_MIN_MS;
	client->restore->text[0] = '\0';
	wait_for_next(client);
}

int dfi__reconnect_init(struct remote_client *client)
{
	struct restore *restore = client->restore;

	restore->fd = -1;
	restore->timer = evtimer_new(
	    dfi__loop_base(client->base.loop), on_timer, client);
	return restore->timer ? 0 : -ENOMEM;
}

void dfi__reconnect_free(struct restore *restore)
{
	close_socket(restore);
	if (restore->timer)
		event_free(restore->timer);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting a lost connection back, on the loop's thread and without ever
 * blocking it. An attempt goes through these steps, each of which waits for
 * answers; when one fails, the next attempt begins after a while:
 *
 *	WAITING     for the time of the next attempt
 *	CONNECTING  for the socket
 *	GREETING    hello and a new lease
 *	WATCHES     each watch is made again that is needed
 *	KEYS        each kept key is created again
 *	            (what it had before, and has not created again, goes)
 *	FOLLOWS     the other watches are made again, which may be refused
 *
 * Keys come behind what may fail for want of room: when the attempt ends, they
 * go again, and with them who has set them, as far as the others know.
 *
 * A key that exists when it is to be created is ours if we have put it last, be
 * it that no answer has come to that: the registry has not yet noticed the loss
 * of our former connection, and binds the key to the new lease. Else it is
 * somebody else's.
 */
#include "restore.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork_files.h"
#include "base/log.h"
#include "base/loop.h"
#include "client.h"
#include "connect.h"
#include "enter.h"
#include "keep.h"
#include "keys.h"
#include "state.h"
#include "watch.h"

#define DELAY_MIN_MS 50
#define DELAY_MAX_MS 1000
#define ANSWER_TIMEOUT_MS 5000 /* from one sign of progress to the next */
#define UNANSWERED_MAX 64      /* so that the output stays small */

enum step {
	WAITING,
	CONNECTING,
	GREETING,
	WATCHES,
	KEYS,
	FOLLOWS,
};

struct restore {
	enum step step;
	struct event *timer; /* of the next attempt, or of this one's failure */
	struct event *kick;  /* go on with the step */
	struct event *writable; /* while CONNECTING */
	int fd;                 /* -1: none, or the stream's */
	unsigned delay_ms;
	unsigned n_unanswered;
	uint64_t hello, grant; /* requests */
	char text[512];        /* of the last failure that was logged */
};

static void set_timer(struct event *timer, unsigned ms)
{
	struct timeval time = {
		.tv_sec = ms / 1000,
		.tv_usec = ms % 1000 * 1000,
	};

	evtimer_add(timer, &time);
}

/* Many clients have lost the registry at once: a quarter more or less. */
static unsigned spread(unsigned ms)
{
	uint32_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		random = (uint32_t)getpid();
	return ms - ms / 4 + random % (ms / 2 + 1);
}

static void wait_for_next(struct registry_client *client)
{
	struct restore *restore = client->restore;

	restore->step = WAITING;
	set_timer(restore->timer, spread(restore->delay_ms));
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

/* Whether not even the registry's machine has answered to an attempt. */
static bool is_silence(const struct registry_client *client, int err)
{
	return !dfi__address_is_unix(&client->parsed) &&
	    (err == -ETIMEDOUT || err == -EHOSTUNREACH);
}

/*
 * Nobody answers there: it may have died, and be started again. But where not
 * even its machine answers to who connects, it has heard nothing of us for as
 * long. Once connected, only the registry can keep silent: its machine need not
 * say anything.
 */
static void look_at_silence(struct registry_client *client, bool connected)
{
	int64_t limit = (int64_t)client->ttl_ms * NS_PER_MS;
	int64_t now = clock_now_ns();

	if (connected)
		client->heard_at = now;
	else if (limit && now - client->heard_at >= limit)
		dfi__watch_tell(client, REGISTRY_CUT);
}

void dfi__restore_failed(struct registry_client *client, const char *why)
{
	struct restore *restore = client->restore;
	bool news = strcmp(restore->text, why) != 0;
	bool was_connected = restore->step > CONNECTING;
	enum dfi_log_level level = news ? DFI_LOG_INFO : DFI_LOG_DEBUG;

	close_socket(restore);
	snprintf(restore->text, sizeof(restore->text), "%s", why);
	snprintf(client->lost_text, sizeof(client->lost_text),
	    "the connection to registry %s is lost, and is not back yet: %s",
	    client->address, why);
	/* By itself it won't come back. */
	if (news && !was_connected && dfi__connect_is_mounted(&client->parsed))
		level = DFI_LOG_WARN;
	dfi__log(level, "%s", client->lost_text);
	wait_for_next(client);
	look_at_silence(client, was_connected);
}

/* With dfi_errmsg(); closes the stream, if there is one. */
static void fail(struct registry_client *client)
{
	char why[300];

	snprintf(why, sizeof(why), "%s", dfi_errmsg());
	if (client->stream)
		dfi__client_lose(client, -ENOTCONN, "%s", why);
	else
		dfi__restore_failed(client, why);
}

static int send_hello(struct registry_client *client)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Hello hello = DFI__REGISTRY__HELLO__INIT;
	int ret;

	hello.version = WIRE_VERSION;
	hello.client = client->id;
	hello.connection = ++client->n_connections;
	request.op_case = DFI__REGISTRY__REQUEST__OP_HELLO;
	request.hello = &hello;
	ret = dfi__client_send(client, &request);
	client->restore->hello = request.id;
	return ret;
}

static int send_grant(struct registry_client *client)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__LeaseGrant grant = DFI__REGISTRY__LEASE_GRANT__INIT;
	int ret;

	grant.ttl_ms = client->ttl_ms;
	request.op_case = DFI__REGISTRY__REQUEST__OP_LEASE_GRANT;
	request.lease_grant = &grant;
	ret = dfi__client_send(client, &request);
	client->restore->grant = request.id;
	/* It runs from now on, however long the rest takes. */
	return ret ? ret : dfi__client_start_keepalive(client);
}

/*
 * The registry may not have noticed that the former connection is gone: what
 * has been closed since then is still there. The answer does not matter.
 */
static int end_past(struct registry_client *client)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__LeaseRevoke revoke = DFI__REGISTRY__LEASE_REVOKE__INIT;

	revoke.past = true;
	request.op_case = DFI__REGISTRY__REQUEST__OP_LEASE_REVOKE;
	request.lease_revoke = &revoke;
	return dfi__client_send(client, &request);
}

static int send_key(struct registry_client *client, struct kept_key *kept)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Put put = DFI__REGISTRY__PUT__INIT;
	int ret;

	put.key = kept->key;
	put.value.data = kept->value;
	put.value.len = kept->size;
	put.create = true;
	put.reclaim = true;
	put.leased = kept->flags & CLIENT_LEASED;
	request.op_case = DFI__REGISTRY__REQUEST__OP_PUT;
	request.put = &put;
	ret = dfi__client_send(client, &request);
	kept->request = request.id;
	return ret;
}

static void connected(struct registry_client *client)
{
	struct restore *restore = client->restore;
	int fd = restore->fd, ret;

	ret = dfi__connect_finish(
	    client->address, &client->parsed, client->user, fd);
	if (!is_silence(client, ret))
		client->heard_at = clock_now_ns();
	if (!ret) {
		restore->fd = -1;
		close_socket(restore);
		ret = dfi__client_attach(client, fd);
	}
	if (!ret) {
		restore->step = GREETING;
		ret = send_hello(client);
	}
	if (ret)
		fail(client);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	dfi__client_enter(arg);
	connected(arg);
	dfi__client_exit(arg);
}

/* What the last attempt has asked, nobody answers any more. */
static void forget_requests(struct registry_client *client)
{
	struct registry_watch *watch;
	struct kept_key *kept;

	TAILQ_FOREACH(kept, &client->kept, link)
	kept->request = 0;
	TAILQ_FOREACH(watch, &client->watches, link)
	watch->asked = false;
	client->restore->n_unanswered = 0;
}

static void start_attempt(struct registry_client *client)
{
	struct restore *restore = client->restore;
	int ret;

	restore->step = CONNECTING;
	forget_requests(client);
	set_timer(restore->timer, ANSWER_TIMEOUT_MS);
	ret = dfi__connect_begin(
	    client->address, &client->parsed, &restore->fd);
	if (!ret) {
		connected(client);
		return;
	}
	if (ret == -EINPROGRESS) {
		restore->writable = event_new(dfi__loop_base(client->loop),
		    restore->fd, EV_WRITE, on_writable, client);
		if (restore->writable && !event_add(restore->writable, NULL))
			return;
		dfi__fail(-ENOMEM, "no memory for a registry client");
	}
	if (!is_silence(client, ret))
		client->heard_at = clock_now_ns();
	fail(client);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct registry_client *client = arg;

	(void)fd;
	(void)what;
	dfi__client_enter(client);
	if (client->restore->step == WAITING) {
		start_attempt(client);
	} else {
		dfi__fail(-ETIMEDOUT, "registry %s: no answer in time",
		    client->address);
		fail(client);
	}
	dfi__client_exit(client);
}

static void begin_keys(struct registry_client *client)
{
	struct kept_key *kept, *next;

	for (kept = TAILQ_FIRST(&client->kept); kept; kept = next) {
		next = TAILQ_NEXT(kept, link);
		kept->sent = false;
		kept->stale = false;
		kept->request = 0;
		if (kept->leaves)
			dfi__keep_drop(client, kept->key);
	}
}

/* Those that may be refused come last in the list. */
static void begin_watches(struct registry_client *client)
{
	struct watch_list own = TAILQ_HEAD_INITIALIZER(own);
	struct registry_watch *watch, *next;

	for (watch = TAILQ_FIRST(&client->watches); watch; watch = next) {
		next = TAILQ_NEXT(watch, link);
		watch->sent = false;
		watch->asked = false;
		if (!watch->own)
			continue;
		TAILQ_REMOVE(&client->watches, watch, link);
		TAILQ_INSERT_TAIL(&own, watch, link);
	}
	TAILQ_CONCAT(&client->watches, &own, link);
}

static bool is_due(const struct kept_key *kept)
{
	return !kept->sent || (kept->stale && !kept->request);
}

/* Those that are not due are at the end of the list. */
static int send_keys(struct registry_client *client)
{
	struct restore *restore = client->restore;
	struct kept_key *kept;
	int ret = 0;

	while (!ret && restore->n_unanswered < UNANSWERED_MAX &&
	    (kept = TAILQ_FIRST(&client->kept)) && is_due(kept)) {
		TAILQ_REMOVE(&client->kept, kept, link);
		TAILQ_INSERT_TAIL(&client->kept, kept, link);
		kept->sent = true;
		kept->stale = false;
		restore->n_unanswered++;
		ret = send_key(client, kept);
	}
	return ret;
}

static int send_watches(struct registry_client *client, bool own)
{
	struct restore *restore = client->restore;
	struct registry_watch *watch;
	int ret = 0;

	while (!ret && restore->n_unanswered < UNANSWERED_MAX &&
	    (watch = TAILQ_FIRST(&client->watches)) && !watch->sent &&
	    watch->own == own) {
		TAILQ_REMOVE(&client->watches, watch, link);
		TAILQ_INSERT_TAIL(&client->watches, watch, link);
		watch->sent = watch->asked = true;
		restore->n_unanswered++;
		ret = dfi__watch_renew(client, watch);
	}
	return ret;
}

static void finish(struct registry_client *client)
{
	struct restore *restore = client->restore;

	evtimer_del(restore->timer);
	client->restoring = false;
	set_timer(client->grace_timer, atomic_load(&client->grace_ms));
	/* As loud as the loss, whose end it is. */
	dfi__log(DFI_LOG_WARN, "the connection to registry %s is back",
	    client->address);
	dfi__watch_tell(client, REGISTRY_BACK);
}

/* Do what can be done without a further answer: 0, or why it fails. */
static int take_steps(struct registry_client *client)
{
	struct restore *restore = client->restore;
	int ret = 0;

	if (restore->step == WATCHES) {
		ret = send_watches(client, false);
		if (!ret && !restore->n_unanswered)
			restore->step = KEYS;
	}
	/* Also late ones, see dfi__restore_renew(). */
	if (!ret && restore->step >= KEYS)
		ret = send_keys(client);
	if (!ret && restore->step == KEYS && !restore->n_unanswered) {
		restore->step = FOLLOWS;
		ret = end_past(client);
	}
	if (!ret && restore->step == FOLLOWS) {
		ret = send_watches(client, true);
		if (!ret && !restore->n_unanswered)
			finish(client);
	}
	return ret;
}

static void advance(struct registry_client *client)
{
	if (take_steps(client))
		fail(client);
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
	struct registry_client *client = arg;

	(void)fd;
	(void)what;
	dfi__client_enter(client);
	if (client->restoring && client->stream)
		advance(client);
	dfi__client_exit(client);
}

void dfi__restore_go_on(struct registry_client *client)
{
	if (client->restoring && client->stream)
		event_active(client->restore->kick, EV_TIMEOUT, 0);
}

void dfi__restore_forget(struct registry_client *client)
{
	if (!client->restoring || client->closing || !client->stream)
		return;
	client->restore->n_unanswered--;
	/* Not at once: the caller is in the midst of something. */
	client->kicked = true;
}

static bool is_sent(
    const struct registry_client *client, const struct kept_key *kept)
{
	return client->stream && client->restore->step != GREETING &&
	    kept->sent;
}

/* Before those that were not sent so far. */
static void send_again(struct registry_client *client, struct kept_key *kept)
{
	TAILQ_REMOVE(&client->kept, kept, link);
	TAILQ_INSERT_HEAD(&client->kept, kept, link);
}

void dfi__restore_renew(struct registry_client *client, struct kept_key *kept)
{
	if (!is_sent(client, kept))
		return;
	kept->stale = true;
	/* Else its answer goes on with it. */
	if (!kept->request) {
		send_again(client, kept);
		client->kicked = true;
	}
}

bool dfi__restore_leave(struct registry_client *client, struct kept_key *kept)
{
	bool sent = is_sent(client, kept);

	if (sent && !kept->request)
		return true;
	if (sent)
		kept->leaves = true;
	else
		dfi__keep_drop(client, kept->key);
	return false;
}

/* An answer about a key: 0, or why the attempt fails. */
static int answer_key(struct registry_client *client, struct kept_key *kept,
    const Dfi__Registry__Reply *reply)
{
	if (reply->error == -EEXIST) {
		dfi__log(DFI_LOG_WARN,
		    "registry %s: '%s' is somebody else's since the registry "
		    "was lost",
		    client->address, kept->key);
		dfi__keep_drop(client, kept->key);
		return 0;
	}
	if (reply->error)
		return dfi__fail(-ENOTCONN, "registry %s: '%s': %s",
		    client->address, kept->key, reply->text);
	kept->request = 0;
	client->restore->n_unanswered--;
	if (kept->leaves)
		dfi__client_send_withdrawal(client, kept->key);
	else if (kept->stale)
		send_again(client, kept);
	return 0;
}

static int answer_greeting(
    struct registry_client *client, const Dfi__Registry__Reply *reply)
{
	int ret;

	if (reply->error)
		return dfi__fail(
		    -ENOTCONN, "registry %s: %s", client->address, reply->text);
	if (reply->id == client->restore->hello) {
		ret = dfi__wire_check_versions(reply->version, WIRE_VERSION);
		return ret ? ret : send_grant(client);
	}
	if (reply->id == client->restore->grant) {
		begin_watches(client);
		begin_keys(client);
		client->restore->step = WATCHES;
	}
	return 0;
}

/* Both lists: what is unanswered is near the end. */
static int answer(
    struct registry_client *client, const Dfi__Registry__Reply *reply)
{
	struct registry_watch *watch;
	struct kept_key *kept;

	if (client->restore->step == GREETING)
		return answer_greeting(client, reply);
	TAILQ_FOREACH_REVERSE(kept, &client->kept, kept_list, link)
	{
		if (kept->request == reply->id)
			return answer_key(client, kept, reply);
	}
	TAILQ_FOREACH_REVERSE(watch, &client->watches, watch_list, link)
	{
		if (!watch->asked || watch->id != reply->id)
			continue;
		if (reply->error && !watch->own)
			return dfi__fail(-ENOTCONN, "registry %s: %s",
			    client->address, reply->text);
		if (reply->error)
			dfi__watch_refused(watch);
		watch->asked = false;
		client->restore->n_unanswered--;
		break;
	}
	return 0;
}

void dfi__restore_heard(struct registry_client *client)
{
	set_timer(client->restore->timer, ANSWER_TIMEOUT_MS);
}

void dfi__restore_answer(
    struct registry_client *client, const Dfi__Registry__Reply *reply)
{
	if (answer(client, reply))
		fail(client);
	else
		advance(client);
}

void dfi__restore_begin(struct registry_client *client)
{
	client->restoring = true;
	client->restore->delay_ms = DELAY_MIN_MS;
	client->restore->text[0] = '\0';
	wait_for_next(client);
}

int dfi__restore_init(struct registry_client *client)
{
	struct event_base *base = dfi__loop_base(client->loop);
	struct restore *restore = calloc(1, sizeof(*restore));

	if (!restore)
		return dfi__fail(-ENOMEM, "no memory for a registry client");
	client->restore = restore;
	restore->fd = -1;
	restore->timer = evtimer_new(base, on_timer, client);
	restore->kick = event_new(base, -1, 0, on_kick, client);
	if (!restore->timer || !restore->kick)
		return dfi__fail(-ENOMEM, "no memory for a registry client");
	return 0;
}

void dfi__restore_free(struct registry_client *client)
{
	struct restore *restore = client->restore;

	client->restoring = false;
	client->restore = NULL;
	if (!restore)
		return;
	close_socket(restore);
	if (restore->timer)
		event_free(restore->timer);
	if (restore->kick)
		event_free(restore->kick);
	free(restore);
}

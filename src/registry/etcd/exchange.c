/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to etcd. An attempt ends in one of these ways:
 *
 *	an answer            done
 *	an error of etcd     done, if it says that nothing has changed for good
 *	not sent             the next endpoint gets it
 *	unknown              the next endpoint gets it; with once, done
 */
#include "exchange.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "json.h"
#include "state.h"
#include "stream.h"

#define LIMIT_MAX_MS 8000u
#define PAUSE_MIN_MS 20u
#define PAUSE_MAX_MS 500u
#define TOKENS_MAX 3u /* refused ones, after which an exchange fails */

/* Codes of gRPC, which are in etcd's answers. */
enum {
	CODE_INVALID = 3,
	CODE_DEADLINE = 4,
	CODE_NOT_FOUND = 5,
	CODE_DENIED = 7,
	CODE_EXHAUSTED = 8,
	CODE_PRECONDITION = 9,
	CODE_UNAVAILABLE = 14,
	CODE_UNAUTHENTICATED = 16,
};

static void attempt(struct exchange *exchange);

static void finish(struct exchange *exchange, int ret, const json_t *answer)
{
	struct etcd_client *client = exchange->client;
	void (*done)(void *arg, int ret, const json_t *answer) = exchange->done;

	dfi__exchange_end(exchange);
	/* done() may free the exchange. */
	if (!client->closing)
		done(exchange->arg, ret, answer);
}

void dfi__exchange_end(struct exchange *exchange)
{
	if (!exchange->active)
		return;
	exchange->active = false;
	TAILQ_REMOVE(&exchange->client->exchanges, exchange, link);
	dfi__http_cancel(&exchange->http);
	if (exchange->timer)
		event_free(exchange->timer);
	exchange->timer = NULL;
	free(exchange->body);
	exchange->body = NULL;
}

void dfi__exchange_blame(struct etcd_client *client, unsigned endpoint)
{
	if (client->endpoint == endpoint)
		client->endpoint = (endpoint + 1) % client->at.n;
	dfi__stream_blame(client, endpoint);
}

/* A pause once all endpoints have failed, which grows. */
static uint32_t pause_ms(const struct exchange *exchange)
{
	unsigned rounds = exchange->n_failed / exchange->client->at.n;
	uint32_t ms;

	if (exchange->n_failed % exchange->client->at.n || !rounds)
		return 0;
	ms = PAUSE_MIN_MS << (rounds < 6 ? rounds : 6);
	return ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS;
}

static void again(struct exchange *exchange)
{
	uint32_t ms = pause_ms(exchange);
	struct timeval wait = { .tv_usec = (suseconds_t)ms * 1000 };

	event_add(exchange->timer, &wait);
}

/* The attempt has failed. */
static void fail_attempt(
    struct exchange *exchange, bool unknown, int err, const char *text)
{
	struct etcd_client *client = exchange->client;

	exchange->n_failed++;
	/* A member that lives may only be electing a leader. */
	exchange->n_refused = err == -ETIMEDOUT ? 0 : exchange->n_refused + 1;
	if (unknown && exchange->once)
		finish(exchange,
		    dfi__fail(-EAGAIN, "registry %s: %s: %s",
			client->at.address,
			client->at.endpoint[exchange->endpoint], text),
		    NULL);
	else if (exchange->hasty && exchange->n_refused >= client->at.n)
		finish(exchange,
		    dfi__fail(err, "registry %s: %s: %s", client->at.address,
			client->at.endpoint[exchange->endpoint], text),
		    NULL);
	else
		again(exchange);
}

static void copy_text(struct etcd_error *error, const char *text)
{
	char *at;

	snprintf(error->message, sizeof(error->message), "%s",
	    text ? text : "an error without a text");
	for (at = error->message; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
}

/* A stream's error is an object of its own. */
bool dfi__exchange_error(const json_t *answer, struct etcd_error *error)
{
	const json_t *inner = json_object_get(answer, "error");
	bool stream = json_is_object(inner);

	if (!inner)
		return false;
	if (!stream)
		inner = answer;
	error->code = (int)dfi__json_get(inner, stream ? "grpc_code" : "code");
	copy_text(error, json_string_value(json_object_get(inner, "message")));
	error->wants_token = error->code == CODE_UNAUTHENTICATED ||
	    (error->code == CODE_INVALID &&
		(strstr(error->message, "revision of auth store is old") ||
		    strstr(error->message, "user name is empty")));
	return true;
}

void dfi__exchange_drop_token(struct etcd_client *client)
{
	free(client->token);
	client->token = NULL;
}

/* etcd has refused the token. It has not done what was requested. */
static void renew_token(struct exchange *exchange, const char *message)
{
	struct etcd_client *client = exchange->client;

	if (!client->user) {
		finish(exchange,
		    dfi__fail(-EACCES,
			"registry %s: %s: set DFI_ETCD_USER and "
			"DFI_ETCD_PASSWORD_FILE",
			client->at.address, message),
		    NULL);
		return;
	}
	if (++exchange->n_tokens > TOKENS_MAX) {
		finish(exchange,
		    dfi__fail(-EACCES, "registry %s: user '%s': %s",
			client->at.address, client->user, message),
		    NULL);
		return;
	}
	dfi__exchange_drop_token(client);
	attempt(exchange);
}

static int error_of(int code)
{
	switch (code) {
	case CODE_DENIED:
		return -EACCES;
	case CODE_EXHAUSTED:
		return -ENOSPC;
	case CODE_PRECONDITION:
		return -EEXIST; /* a lease, when it is granted again */
	case CODE_NOT_FOUND:
		return -ENOKEY; /* a lease; see dfi__lease_end() */
	default:
		return -EBADMSG;
	}
}

/* An error that etcd has answered. */
static void read_error(
    struct exchange *exchange, const struct etcd_error *error)
{
	const struct etcd_client *client = exchange->client;
	const char *message = error->message;
	int code = error->code;

	if (error->wants_token) {
		renew_token(exchange, message);
	} else if (code == CODE_UNAVAILABLE || code == CODE_DEADLINE ||
	    (code == CODE_EXHAUSTED && strstr(message, "too many requests"))) {
		dfi__exchange_blame(exchange->client, exchange->endpoint);
		fail_attempt(exchange, true, -ETIMEDOUT, message);
	} else if (code == CODE_DENIED && client->user) {
		finish(exchange,
		    dfi__fail(-EACCES,
			"registry %s: %s: let user '%s' read and write all "
			"keys that begin with '%s/'",
			client->at.address, message, client->user,
			client->at.prefix),
		    NULL);
	} else {
		finish(exchange,
		    dfi__fail(error_of(code), "registry %s: %s",
			client->at.address, message),
		    NULL);
	}
}

/* The gateway's answers begin with a header, except for errors. */
static void note_header(struct etcd_client *client, const json_t *answer)
{
	const json_t *header = json_object_get(answer, "header");
	uint64_t revision = dfi__json_get(header, "revision");

	if (revision > client->revision)
		client->revision = revision;
}

static void read_answer(
    struct exchange *exchange, const struct http_answer *http)
{
	struct etcd_client *client = exchange->client;
	struct etcd_error error;
	json_t *answer = json_loadb(
	    http->body, http->size, JSON_DISABLE_EOF_CHECK, NULL);

	if (dfi__exchange_error(answer, &error)) {
		read_error(exchange, &error);
	} else if (http->status == 200 && json_is_object(answer)) {
		note_header(client, answer);
		finish(exchange, 0, answer);
	} else if (exchange->hasty) {
		finish(exchange,
		    dfi__fail(-EPROTO,
			"registry %s: what answers at %s is no etcd with a "
			"JSON gateway of version 3 (HTTP status %ld)",
			client->at.address,
			client->at.endpoint[exchange->endpoint], http->status),
		    NULL);
	} else {
		dfi__exchange_blame(client, exchange->endpoint);
		fail_attempt(
		    exchange, true, -ETIMEDOUT, "an answer that is not JSON");
	}
	json_decref(answer);
}

static void on_answer(void *arg, const struct http_answer *http)
{
	struct exchange *exchange = arg;
	struct etcd_client *client = exchange->client;

	etcd_enter(client);
	if (http->err != -ETIMEDOUT && http->err != -EHOSTUNREACH)
		client->heard_at = clock_now_ns();
	if (http->outcome == HTTP_ANSWERED) {
		read_answer(exchange, http);
	} else {
		dfi__exchange_blame(client, exchange->endpoint);
		fail_attempt(exchange, http->outcome == HTTP_UNKNOWN, http->err,
		    http->text);
	}
	etcd_exit(client);
}

static uint32_t limit_ms(const struct exchange *exchange)
{
	uint32_t first = exchange->limit_ms ? exchange->limit_ms : ATTEMPT_MS;
	unsigned rounds = exchange->n_failed / exchange->client->at.n;

	first <<= rounds < 3 ? rounds : 3;
	return first < LIMIT_MAX_MS ? first : LIMIT_MAX_MS;
}

static void attempt(struct exchange *exchange)
{
	struct etcd_client *client = exchange->client;
	bool needs_token = client->user && exchange != &client->authentication;
	char url[512];

	exchange->waits = needs_token && !client->token;
	if (exchange->waits) {
		dfi__exchange_get_token(client);
		return;
	}
	exchange->endpoint = client->endpoint;
	exchange->sent_at = clock_now_ns();
	snprintf(url, sizeof(url), "%s%s",
	    client->at.endpoint[exchange->endpoint], exchange->path);
	if (dfi__http_start(client->http, &exchange->http, url,
		needs_token ? client->token : NULL, exchange->body,
		limit_ms(exchange)))
		finish(exchange, -ENOMEM, NULL);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct exchange *exchange = arg;
	struct etcd_client *client = exchange->client;

	(void)fd;
	(void)what;
	etcd_enter(client);
	attempt(exchange);
	etcd_exit(client);
}

void dfi__exchange_start(
    struct etcd_client *client, struct exchange *exchange, json_t *body)
{
	exchange->client = client;
	exchange->body = dfi__json_text(body);
	exchange->timer = event_new(
	    dfi__loop_base(client->base.loop), -1, 0, on_timer, exchange);
	exchange->n_failed = exchange->n_refused = exchange->n_tokens = 0;
	exchange->http = (struct http_request){
		.done = on_answer,
		.arg = exchange,
	};
	exchange->active = true;
	TAILQ_INSERT_TAIL(&client->exchanges, exchange, link);
	if (!exchange->body || !exchange->timer)
		finish(exchange,
		    dfi__fail(-ENOMEM, "no memory for a request to etcd"),
		    NULL);
	else
		attempt(exchange);
}

/* Let all that wait for a token go on, or fail. */
static void on_token(void *arg, int ret, const json_t *answer)
{
	struct etcd_client *client = arg;
	const char *token = json_string_value(json_object_get(answer, "token"));
	struct exchange *exchange, *next;
	char text[ERROR_TEXT_SIZE];

	/* It becomes a line of a request's header. */
	if (token && strpbrk(token, "\r\n"))
		token = NULL;
	if (!ret && (!token || !(client->token = strdup(token))))
		ret = dfi__fail(-EBADMSG, "registry %s: no token for user '%s'",
		    client->at.address, client->user);
	if (ret)
		snprintf(text, sizeof(text),
		    "%s: is DFI_ETCD_USER '%s', DFI_ETCD_PASSWORD_FILE right, "
		    "and etcd's authentication enabled (etcdctl auth enable)?",
		    dfi_errmsg(), client->user);
	for (exchange = TAILQ_FIRST(&client->exchanges); exchange;
	     exchange = next) {
		next = TAILQ_NEXT(exchange, link);
		if (!exchange->waits)
			continue;
		exchange->waits = false;
		if (!ret) {
			attempt(exchange);
			continue;
		}
		dfi__fail(0, "%s", text);
		finish(exchange,
		    ret == -EBADMSG || ret == -EEXIST ? -EACCES : ret, NULL);
		/* It may have ended or started others. */
		next = TAILQ_FIRST(&client->exchanges);
	}
	if (!ret)
		dfi__stream_token(client);
}

void dfi__exchange_get_token(struct etcd_client *client)
{
	struct exchange *exchange = &client->authentication;

	if (exchange->active)
		return;
	*exchange = (struct exchange){
		.done = on_token,
		.arg = client,
		.path = "/v3/auth/authenticate",
		.hasty = !client->open,
	};
	dfi__exchange_start(client, exchange,
	    json_pack("{s:s, s:s}", "name", client->user, "password",
		client->password));
}

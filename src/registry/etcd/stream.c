/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream covers all of DFI's keys, so a client needs one connection for its
 * watches, however many they are, and making one costs no request but the one
 * that reads the keys. The price is that each client hears of all keys.
 */
#include "stream.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "json.h"
#include "keep.h"
#include "request.h"
#include "restore.h"
#include "state.h"
#include "watch.h"

#define PAUSE_MIN_MS 20u
#define PAUSE_MAX_MS 1000u

static void start(struct etcd_client *client);

static void start_later(struct etcd_client *client)
{
	struct stream *stream = &client->stream;
	unsigned rounds = stream->n_failed / client->at.n;
	uint32_t ms = rounds ? PAUSE_MIN_MS << (rounds < 6 ? rounds : 6) : 0;
	struct timeval wait;

	if (ms > PAUSE_MAX_MS)
		ms = PAUSE_MAX_MS;
	wait.tv_sec = ms / 1000;
	wait.tv_usec = ms % 1000 * 1000;
	event_add(stream->timer, &wait);
}

/* Try the next member. */
static void move(struct etcd_client *client)
{
	struct stream *stream = &client->stream;

	dfi__http_cancel(&stream->http);
	stream->n_failed++;
	if (stream->endpoint == client->endpoint)
		client->endpoint = (client->endpoint + 1) % client->at.n;
	start_later(client);
}

static void change(struct etcd_client *client, const json_t *event)
{
	const char *type = json_string_value(json_object_get(event, "type"));
	bool deleted = type && !strcmp(type, "DELETE");
	struct etcd_value value;

	if (!dfi__value_read(client, json_object_get(event, "kv"), &value))
		return;
	if (value.revision >= client->stream.next)
		client->stream.seen = value.revision;
	if (deleted)
		dfi__etcd_keep_gone(client, value.key);
	dfi__etcd_watch_change(client, &value, deleted);
	dfi__value_free(&value);
}

static void read_result(struct etcd_client *client, const json_t *result)
{
	struct stream *stream = &client->stream;
	const json_t *event;
	size_t i;

	if (json_is_true(json_object_get(result, "canceled"))) {
		if (dfi__json_get(result, "compact_revision"))
			dfi__etcd_restore_watches(client);
		else
			move(client);
		return;
	}
	stream->n_failed = 0;
	client->heard_at = clock_now_ns();
	for (i = 0; (event = dfi__json_item(result, "events", i)); i++)
		change(client, event);
	if (stream->seen >= stream->next)
		stream->next = stream->seen + 1;
}

static void read_error(struct etcd_client *client, const json_t *answer)
{
	struct etcd_error error;

	if (!dfi__exchange_error(answer, &error))
		return;
	if (error.wants_token)
		dfi__exchange_drop_token(client);
	else
		dfi__log(DFI_LOG_DEBUG, "registry %s: the watch: %s",
		    client->at.address, error.message);
}

static void on_line(void *arg, const char *line, size_t size)
{
	struct etcd_client *client = arg;
	json_t *answer = json_loadb(line, size, 0, NULL);
	const json_t *result = json_object_get(answer, "result");

	etcd_enter(client);
	if (result) {
		read_result(client, result);
	} else {
		read_error(client, answer);
		move(client);
	}
	etcd_exit(client);
	json_decref(answer);
}

static void on_end(void *arg, const struct http_answer *http)
{
	struct etcd_client *client = arg;
	json_t *answer = json_loadb(
	    http->body, http->size, JSON_DISABLE_EOF_CHECK, NULL);

	etcd_enter(client);
	read_error(client, answer);
	move(client);
	etcd_exit(client);
	json_decref(answer);
}

static json_t *body(const struct etcd_client *client)
{
	json_t *range = dfi__request_range(client, "", false), *create;

	/* What is in "request_range" is what a watch wants as well. */
	create = json_incref(json_object_get(range, "request_range"));
	json_decref(range);
	if (create &&
	    json_object_set_new(create, "start_revision",
		dfi__json_number(client->stream.next))) {
		json_decref(create);
		create = NULL;
	}
	return json_pack("{s:o}", "create_request", create);
}

static void start(struct etcd_client *client)
{
	struct stream *stream = &client->stream;
	char url[512];

	if (!stream->wanted || http_is_running(&stream->http))
		return;
	if (client->user && !client->token) {
		dfi__exchange_get_token(client);
		return;
	}
	free(stream->body);
	stream->body = dfi__json_text(body(client));
	stream->endpoint = client->endpoint;
	stream->http = (struct http_request){
		.done = on_end,
		.line = on_line,
		.arg = client,
	};
	snprintf(url, sizeof(url), "%s/v3/watch",
	    client->at.endpoint[stream->endpoint]);
	if (!stream->body ||
	    dfi__http_start(client->http, &stream->http, url, client->token,
		stream->body, 0)) {
		stream->n_failed++;
		start_later(client);
	}
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct etcd_client *client = arg;

	(void)fd;
	(void)what;
	etcd_enter(client);
	start(client);
	etcd_exit(client);
}

void dfi__stream_begin(struct etcd_client *client, uint64_t revision)
{
	struct stream *stream = &client->stream;

	dfi__stream_end(client);
	if (!stream->timer)
		stream->timer = event_new(
		    dfi__loop_base(client->base.loop), -1, 0, on_timer, client);
	if (!stream->timer) {
		dfi__etcd_restore_gap(client);
		return;
	}
	stream->first = stream->next = revision;
	stream->seen = 0;
	stream->wanted = true;
	start(client);
}

void dfi__stream_end(struct etcd_client *client)
{
	struct stream *stream = &client->stream;

	stream->wanted = false;
	dfi__http_cancel(&stream->http);
	if (stream->timer)
		event_del(stream->timer);
}

void dfi__stream_blame(struct etcd_client *client, unsigned endpoint)
{
	struct stream *stream = &client->stream;

	if (!http_is_running(&stream->http) || stream->endpoint != endpoint ||
	    client->at.n == 1)
		return;
	dfi__http_cancel(&stream->http);
	start_later(client);
}

void dfi__stream_token(struct etcd_client *client)
{
	start(client);
}

void dfi__stream_free(struct etcd_client *client)
{
	struct stream *stream = &client->stream;

	dfi__stream_end(client);
	if (stream->timer)
		event_free(stream->timer);
	free(stream->body);
}

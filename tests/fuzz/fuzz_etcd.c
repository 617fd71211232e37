/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an etcd answers, or something else that answers in its place. Each line
 * of the input is an answer; its first character says to what: "s" to the
 * stream, "r" to what restores the client, and others to an operation. There is
 * no network: this file has the functions of http.c, which the library's would
 * otherwise have.
 */
#include <errno.h>
#include <string.h>
#include <dfi/log.h>

#include "base/clock.h"
#include "base/loop.h"
#include "fuzz.h"
#include "registry/etcd/keep.h"
#include "registry/etcd/lease.h"
#include "registry/etcd/operation.h"
#include "registry/etcd/restore.h"
#include "registry/etcd/state.h"
#include "registry/etcd/stream.h"
#include "registry/etcd/watch.h"

#define INPUT_MAX 65536

static struct loop *loop;

int dfi__http_new(
    struct loop *at, const struct http_files *files, struct http **http)
{
	(void)at;
	(void)files;
	(void)http;
	return -EIO;
}

void dfi__http_free(struct http *http)
{
	(void)http;
}

int dfi__http_start(struct http *http, struct http_request *request,
    const char *url, const char *token, const char *body, uint32_t limit_ms)
{
	(void)http;
	(void)token;
	(void)limit_ms;
	fuzz_check(strstr(url, "/v3/") && *body == '{');
	request->easy = request;
	return 0;
}

void dfi__http_cancel(struct http_request *request)
{
	request->easy = NULL;
}

static void answer(struct http_request *request, const char *body, size_t size)
{
	const struct http_answer http = {
		.outcome = size ? HTTP_ANSWERED : HTTP_UNKNOWN,
		.err = size ? 0 : -ENOTCONN,
		.text = "nothing",
		.status = 200,
		.body = body,
		.size = size,
	};

	if (!request->easy)
		return;
	if (request->line) {
		request->line(request->arg, body, size);
		return;
	}
	request->easy = NULL;
	request->done(request->arg, &http);
}

static void hear(void *arg, const struct registry_event *event)
{
	size_t *n = arg;

	/* All of it can be read. */
	if (event->key)
		*n += strlen(event->key);
	if (event->size)
		*n += event->size + ((const unsigned char *)event->data)[0];
}

static void operate(
    struct etcd_client *client, char kind, const char *body, size_t size)
{
	enum operation_kind kinds = (unsigned char)kind % (OP_LIST + 1);
	struct etcd_operation *operation = dfi__operation_new(
	    client, kinds, "k", "v", 1);

	fuzz_check(operation);
	operation->abandoned = kind & 0x40;
	dfi__operation_queue(client, operation);
	dfi__operation_start_all(client);
	operation = TAILQ_FIRST(&client->operations);
	if (operation && operation->running)
		answer(&operation->exchange.http, body, size);
}

static void read_line(struct etcd_client *client, const char *line, size_t size)
{
	if (!size)
		return;
	if (*line == 's')
		answer(&client->stream.http, line + 1, size - 1);
	else if (*line == 'r' && client->restore.exchange.active)
		answer(&client->restore.exchange.http, line + 1, size - 1);
	else if (*line == 'f' && client->fence.exchange.active)
		answer(&client->fence.exchange.http, line + 1, size - 1);
	else if (*line == 'e')
		dfi__lease_end(client);
	else
		operate(client, *line, line + 1, size - 1);
}

static void start(struct etcd_client *client, size_t *n)
{
	struct registry_interest interests[] = {
		{ .prefix = "", .fn = hear, .arg = n },
		{ .prefix = "k", .exact = true, .fn = hear, .arg = n },
	};
	struct etcd_watch *watch;
	size_t i;

	client->base.loop = loop;
	client->at.address = (char *)"etcd:http://127.0.0.1:1";
	client->at.endpoint[0] = (char *)"http://127.0.0.1:1";
	client->at.n = 1;
	client->at.prefix = (char *)"dfi";
	client->id = 1;
	client->lease.wanted_ms = 1000;
	client->lease.ttl_ms = 3600000;
	client->grace_ms = 3600000;
	TAILQ_INIT(&client->exchanges);
	TAILQ_INIT(&client->operations);
	TAILQ_INIT(&client->kept);
	TAILQ_INIT(&client->watches);
	pthread_mutex_init(&client->lock, NULL);
	client->open = true;
	fuzz_check(!dfi__lease_init(client));
	fuzz_check(!dfi__etcd_restore_start(client));
	for (i = 0; i < 2; i++) {
		watch = dfi__etcd_watch_new(client, &interests[i]);
		fuzz_check(watch);
		watch->made = true;
	}
	dfi__etcd_keep(client, "k", "v", 1, CLIENT_LEASED);
	dfi__etcd_keep(client, "s", "v", 1, CLIENT_SHARED);
}

static void end(struct etcd_client *client)
{
	struct etcd_watch *watch;
	struct exchange *exchange;

	client->closing = true;
	dfi__operation_free_all(client);
	while ((exchange = TAILQ_FIRST(&client->exchanges)))
		dfi__exchange_end(exchange);
	dfi__stream_free(client);
	dfi__etcd_restore_end(client);
	dfi__lease_free(client);
	while ((watch = TAILQ_FIRST(&client->watches)))
		dfi__etcd_watch_free(watch);
	dfi__etcd_keep_free_all(client);
	fuzz_check(!client->watched_tree && !client->kept_tree);
	pthread_mutex_destroy(&client->lock);
	free(client);
}

struct input {
	const char *text;
	size_t size;
};

static int run(void *arg)
{
	const struct input *input = arg;
	struct etcd_client *client = calloc(1, sizeof(*client));
	pthread_mutexattr_t attr;
	size_t at = 0, size, n = 0;
	const char *line;

	fuzz_check(client);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&client->entrance, &attr);
	pthread_mutexattr_destroy(&attr);
	start(client, &n);
	while (at < input->size) {
		line = input->text + at;
		size = strcspn(line, "\n");
		read_line(client, line, size);
		at += size + 1;
	}
	end(client);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { .size = size };
	char *text;

	if (size > INPUT_MAX || memchr(data, 0, size))
		return 0;
	if (!loop) {
		dfi_log_set(DFI_LOG_ERROR, NULL, NULL);
		fuzz_check(!dfi__loop_start("fuzz", &loop));
	}
	text = malloc(size + 1);
	fuzz_check(text);
	memcpy(text, data, size);
	text[size] = '\0';
	input.text = text;
	fuzz_check(!dfi__loop_call(loop, run, &input, DEADLINE_NEVER));
	free(text);
	return 0;
}

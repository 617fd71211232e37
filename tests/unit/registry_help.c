/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See registry_help.h. Must not use internals of the client or the server:
 * these peers must be as foreign as a hostile process.
 */
#include "registry_help.h"

#include <criterion/criterion.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <dfi/error.h>
#include <dfi/log.h>

#include "registry/wire/address.h"

#define WAIT_LIMIT_MS 60000

int64_t soon(void)
{
	return deadline_in_ms(WAIT_LIMIT_MS);
}

static char fresh[128];

static void remove_fresh(void)
{
	char *path = fresh + strlen("unix:");

	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
}

const char *fresh_address(const char *name)
{
	char directory[] = "/tmp/dfi-test-XXXXXX";

	cr_assert_eq(fresh[0], '\0', "one fresh address a test");
	cr_assert_not_null(mkdtemp(directory));
	snprintf(fresh, sizeof(fresh), "unix:%s/%s", directory, name);
	atexit(remove_fresh);
	return fresh;
}

const struct registry_security insecure = { .insecure = true };

struct dfi_registry *start_at(const char *listen)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct dfi_registry *registry;

	attr.listen = listen;
	if (listen && !strncmp(listen, "tcp:", 4))
		attr.flags = DFI_REGISTRY_INSECURE;
	cr_assert_eq(dfi_registry_start(&attr, &registry), 0, "%s: %s", listen,
	    dfi_errmsg());
	return registry;
}

struct loop *start_loop(void)
{
	struct loop *loop;

	cr_assert_eq(dfi__loop_start("test-loop", &loop), 0);
	return loop;
}

struct registry_client *open_client(
    struct loop *loop, const struct dfi_registry *registry)
{
	struct registry_client *client;

	cr_assert_eq(dfi__client_open(loop, dfi_registry_address(registry),
			 &insecure, 60000, soon(), &client),
	    0, "%s", dfi_errmsg());
	return client;
}

struct registry_client *open_client_at(struct loop *loop, const char *address)
{
	struct registry_client *client = NULL;

	cr_assert_eq(dfi__client_open(loop, address, NULL, 0, soon(), &client),
	    0, "%s", dfi_errmsg());
	return client;
}

int put_text(struct registry_client *client, const char *key, const char *value)
{
	return dfi__client_put(
	    client, key, value, strlen(value), 0, soon(), NULL);
}

void create_text(struct registry_client *client, const char *key,
    const char *value, unsigned flags)
{
	cr_assert_eq(dfi__client_create(client, key, value, strlen(value),
			 flags, soon(), NULL),
	    0, "%s", dfi_errmsg());
}

uint64_t expect_text(
    struct registry_client *client, const char *key, const char *expected)
{
	struct registry_value value;
	uint64_t revision;

	cr_assert_eq(dfi__client_get(client, key, soon(), &value), 0, "%s",
	    dfi_errmsg());
	cr_assert_str_eq(value.data, expected);
	revision = value.revision;
	dfi__registry_value_free(&value);
	return revision;
}

size_t count_keys(struct registry_client *client, const char *prefix)
{
	struct registry_value *values;
	size_t n;

	cr_assert_eq(dfi__client_list(client, prefix, soon(), &values, &n), 0);
	dfi__registry_values_free(values, n);
	return n;
}

static void init_waiting(pthread_mutex_t *lock, pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_mutex_init(lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

void ear_init(struct ear *ear)
{
	init_waiting(&ear->lock, &ear->heard);
	ear->used = 0;
	ear->log[0] = '\0';
}

void ear_hear(void *arg, const struct registry_event *event)
{
	struct ear *ear = arg;
	char *end;
	size_t room;

	pthread_mutex_lock(&ear->lock);
	end = ear->log + ear->used;
	room = sizeof(ear->log) - ear->used;
	if (event->type == REGISTRY_PUT)
		snprintf(end, room, "+%s=%.*s ", event->key, (int)event->size,
		    event->size ? (const char *)event->data : "");
	else if (event->type == REGISTRY_DELETE)
		snprintf(end, room, "-%s ", event->key);
	else
		snprintf(end, room,
		    event->type == REGISTRY_LOST      ? "LOST "
			: event->type == REGISTRY_CUT ? "CUT "
						      : "BACK ");
	ear->used = strlen(ear->log);
	pthread_cond_broadcast(&ear->heard);
	pthread_mutex_unlock(&ear->lock);
}

void ear_expect(struct ear *ear, const char *log)
{
	struct timespec until = deadline_timespec(soon());
	char heard[sizeof(ear->log)];
	int err = 0;

	pthread_mutex_lock(&ear->lock);
	while (strcmp(ear->log, log) != 0 && !err)
		err = pthread_cond_timedwait(&ear->heard, &ear->lock, &until);
	memcpy(heard, ear->log, sizeof(heard));
	pthread_mutex_unlock(&ear->lock);
	cr_assert_str_eq(heard, log);
}

struct registry_watch *ears_watch(struct registry_client *owner,
    struct ear *owner_ear, struct registry_client *watcher, struct ear *ear)
{
	struct registry_watch *watch;

	ear_init(owner_ear);
	ear_init(ear);
	cr_assert_eq(dfi__client_watch(
			 owner, "none", ear_hear, owner_ear, soon(), &watch),
	    0);
	cr_assert_eq(
	    dfi__client_watch(watcher, "p/", ear_hear, ear, soon(), &watch), 0);
	return watch;
}

static struct {
	pthread_mutex_t lock;
	pthread_cond_t logged;
	char log[16384];
} lines;

static void collect(void *arg, enum dfi_log_level level, const char *line)
{
	size_t used;

	(void)arg;
	(void)level;
	pthread_mutex_lock(&lines.lock);
	used = strlen(lines.log);
	snprintf(lines.log + used, sizeof(lines.log) - used, "%s\n", line);
	pthread_cond_broadcast(&lines.logged);
	pthread_mutex_unlock(&lines.lock);
}

void lines_collect(void)
{
	init_waiting(&lines.lock, &lines.logged);
	lines.log[0] = '\0';
	dfi_log_set(DFI_LOG_WARN, collect, NULL);
}

void lines_wait(const char *part)
{
	struct timespec until = deadline_timespec(soon());
	int err = 0;

	pthread_mutex_lock(&lines.lock);
	while (!strstr(lines.log, part) && !err)
		err = pthread_cond_timedwait(
		    &lines.logged, &lines.lock, &until);
	pthread_mutex_unlock(&lines.lock);
	cr_assert_eq(
	    err, 0, "no log line with '%s', but:\n%s", part, lines.log);
}

unsigned lines_count(const char *part)
{
	const char *at;
	unsigned n = 0;

	pthread_mutex_lock(&lines.lock);
	for (at = lines.log; (at = strstr(at, part)); at++)
		n++;
	pthread_mutex_unlock(&lines.lock);
	return n;
}

static void raw_open(struct raw *raw, int fd)
{
	struct timeval wait_limit = { .tv_sec = WAIT_LIMIT_MS / 1000 };

	setsockopt(
	    fd, SOL_SOCKET, SO_RCVTIMEO, &wait_limit, sizeof(wait_limit));
	setsockopt(
	    fd, SOL_SOCKET, SO_SNDTIMEO, &wait_limit, sizeof(wait_limit));
	raw->fd = fd;
	raw->in = evbuffer_new();
	raw->last_id = 0;
}

void raw_connect_with(struct raw *raw, int fd, const char *text)
{
	struct address address;

	cr_assert_eq(dfi__address_parse(text, &address), 0);
	cr_assert_eq(connect(fd, &address.socket.any, address.size), 0);
	raw_open(raw, fd);
}

void raw_connect(struct raw *raw, const char *text)
{
	struct address address;

	cr_assert_eq(dfi__address_parse(text, &address), 0);
	raw_connect_with(
	    raw, socket(address.socket.any.sa_family, SOCK_STREAM, 0), text);
}

void raw_close(struct raw *raw)
{
	close(raw->fd);
	evbuffer_free(raw->in);
}

void raw_send_bytes(struct raw *raw, const void *bytes, size_t size)
{
	const char *at = bytes;

	while (size) {
		ssize_t n = send(raw->fd, at, size, MSG_NOSIGNAL);

		if (n <= 0) /* it has been closed: the reading side tells */
			return;
		at += n;
		size -= (size_t)n;
	}
}

static void send_buffer(struct raw *raw, struct evbuffer *buffer)
{
	size_t size = evbuffer_get_length(buffer);

	raw_send_bytes(raw, evbuffer_pullup(buffer, -1), size);
	evbuffer_free(buffer);
}

void raw_send(struct raw *raw, Dfi__Registry__Request *request)
{
	struct evbuffer *buffer = evbuffer_new();

	request->id = ++raw->last_id;
	cr_assert_eq(dfi__wire_write_request(buffer, request), 0);
	send_buffer(raw, buffer);
}

void raw_send_reply(struct raw *raw, Dfi__Registry__Reply *reply)
{
	struct evbuffer *buffer = evbuffer_new();

	cr_assert_eq(dfi__wire_write_reply(buffer, reply), 0);
	send_buffer(raw, buffer);
}

void raw_send_event(struct raw *raw, uint64_t watch, const char *key)
{
	Dfi__Registry__Event event = DFI__REGISTRY__EVENT__INIT;
	Dfi__Registry__Value value = DFI__REGISTRY__VALUE__INIT;
	struct evbuffer *buffer = evbuffer_new();

	value.key = (char *)key;
	event.watch = watch;
	event.type = DFI__REGISTRY__EVENT_TYPE__PUT;
	event.value = &value;
	cr_assert_eq(dfi__wire_write_event(buffer, &event), 0);
	send_buffer(raw, buffer);
}

Dfi__Registry__Message *raw_read(struct raw *raw)
{
	Dfi__Registry__Message *message;
	char bytes[4096];
	ssize_t n;
	int ret;

	while ((ret = dfi__wire_read(raw->in, &message)) == 0) {
		n = recv(raw->fd, bytes, sizeof(bytes), 0);
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return NULL;
		cr_assert_gt(n, 0, "nothing to read in time");
		evbuffer_add(raw->in, bytes, (size_t)n);
	}
	cr_assert_eq(ret, 1);
	return message;
}

/* From the reply to the last request. */
static int read_error(struct raw *raw)
{
	Dfi__Registry__Message *message = raw_read(raw);
	int ret;

	cr_assert_not_null(message);
	cr_assert_eq(message->body_case, DFI__REGISTRY__MESSAGE__BODY_REPLY);
	cr_assert_eq(message->reply->id, raw->last_id);
	ret = message->reply->error;
	dfi__wire_free(message);
	return ret;
}

int raw_ask(struct raw *raw, Dfi__Registry__Request *request)
{
	raw_send(raw, request);
	return read_error(raw);
}

static int send_handshake(struct raw *raw, Dfi__Registry__Handshake *handshake)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;

	request.op_case = DFI__REGISTRY__REQUEST__OP_HANDSHAKE;
	request.handshake = handshake;
	return raw_ask(raw, &request);
}

int raw_handshake(struct raw *raw, uint32_t version)
{
	Dfi__Registry__Handshake handshake = DFI__REGISTRY__HANDSHAKE__INIT;

	handshake.version = version;
	return send_handshake(raw, &handshake);
}

int raw_join(struct raw *raw, uint64_t client, uint64_t connection)
{
	Dfi__Registry__Handshake handshake = DFI__REGISTRY__HANDSHAKE__INIT;

	handshake.version = WIRE_VERSION;
	handshake.client = client;
	handshake.connection = connection;
	return send_handshake(raw, &handshake);
}

int raw_grant(struct raw *raw, uint32_t ttl_ms)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__LeaseGrant grant = DFI__REGISTRY__LEASE_GRANT__INIT;

	grant.ttl_ms = ttl_ms;
	request.op_case = DFI__REGISTRY__REQUEST__OP_LEASE_GRANT;
	request.lease_grant = &grant;
	return raw_ask(raw, &request);
}

void raw_send_put(struct raw *raw, const char *key, bool reclaim)
{
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Put put = DFI__REGISTRY__PUT__INIT;

	put.key = (char *)key;
	put.create = reclaim;
	put.reclaim = reclaim;
	put.leased = true;
	request.op_case = DFI__REGISTRY__REQUEST__OP_PUT;
	request.put = &put;
	raw_send(raw, &request);
}

int raw_put_leased(struct raw *raw, const char *key)
{
	raw_send_put(raw, key, false);
	return read_error(raw);
}

int raw_reclaim(struct raw *raw, const char *key)
{
	raw_send_put(raw, key, true);
	return read_error(raw);
}

void raw_expect_refusal(struct raw *raw, int err)
{
	Dfi__Registry__Message *message = raw_read(raw);

	cr_assert_not_null(message);
	cr_assert_eq(message->body_case, DFI__REGISTRY__MESSAGE__BODY_REPLY);
	cr_assert_eq(message->reply->id, 0);
	cr_assert_eq(message->reply->error, err, "%d %s", message->reply->error,
	    message->reply->text);
	dfi__wire_free(message);
	cr_assert_null(raw_read(raw));
}

static void *play(void *arg)
{
	struct fake *fake = arg;
	struct raw raw;
	int fd = accept(fake->fd, NULL, NULL);

	cr_assert_geq(fd, 0);
	raw_open(&raw, fd);
	fake->script(&raw, fake->arg);
	raw_close(&raw);
	return NULL;
}

void fake_start(
    struct fake *fake, void (*script)(struct raw *raw, void *arg), void *arg)
{
	struct address address;

	snprintf(fake->address, sizeof(fake->address), "unix:@dfi-fake-%ld",
	    (long)getpid());
	cr_assert_eq(dfi__address_parse(fake->address, &address), 0);
	fake->fd = socket(AF_UNIX, SOCK_STREAM, 0);
	cr_assert_eq(bind(fake->fd, &address.socket.any, address.size), 0);
	cr_assert_eq(listen(fake->fd, 8), 0);
	fake->script = script;
	fake->arg = arg;
	if (script)
		pthread_create(&fake->thread, NULL, play, fake);
}

void fake_stop(struct fake *fake)
{
	if (fake->script)
		pthread_join(fake->thread, NULL);
	close(fake->fd);
}

Dfi__Registry__Message *fake_receive(struct raw *raw)
{
	Dfi__Registry__Message *message = raw_read(raw);

	cr_assert_not_null(message);
	cr_assert_eq(message->body_case, DFI__REGISTRY__MESSAGE__BODY_REQUEST);
	return message;
}

void fake_agree(struct raw *raw, const Dfi__Registry__Message *message)
{
	Dfi__Registry__Reply reply = DFI__REGISTRY__REPLY__INIT;

	reply.id = message->request->id;
	reply.version = WIRE_VERSION;
	raw_send_reply(raw, &reply);
}

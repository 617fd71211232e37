/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redis under load, by hiredis. Each lane has a connection, because WAIT blocks
 * the other requests of a connection. A write is SET and WAIT for two replicas,
 * sent together. That is asynchronous replication with a delay: a fail-over may
 * lose what WAIT has confirmed, and reads may then be stale.
 */
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

#include "../../common/complain.h"
#include "../../common/usage.h"
#include "peers.h"

#define MAX_EVENTS 64
#define WAIT_REPLICAS "2"
#define WAIT_MS "10000"

struct lane {
	redisContext *connection;
	bool update;
	uint32_t expected; /* replies still to come */
	enum load_outcome outcome;
};

struct client {
	int epoll;
	uint32_t n_lanes;
	struct lane *lanes;
	load_done *done;
	void *arg;
};

static void client_close(void *arg)
{
	struct client *client = arg;
	uint32_t i;

	for (i = 0; client->lanes && i < client->n_lanes; i++)
		if (client->lanes[i].connection)
			redisFree(client->lanes[i].connection);
	if (client->epoll >= 0)
		close(client->epoll);
	free(client->lanes);
	free(client);
}

/* Connect a lane and make its connection non-blocking. */
static int connect_lane(
    struct client *client, uint32_t lane, const char *host, int port)
{
	const struct timeval limit = { .tv_sec = 10 };
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = lane };
	redisContext *connection = redisConnectWithTimeout(host, port, limit);

	client->lanes[lane].connection = connection;
	if (!connection || connection->err)
		return complain("cannot connect to Redis at %s:%d: %s", host,
		    port, connection ? connection->errstr : "no memory");
	connection->flags &= ~REDIS_BLOCK;
	if (fcntl(connection->fd, F_SETFL, O_NONBLOCK) ||
	    epoll_ctl(client->epoll, EPOLL_CTL_ADD, connection->fd, &event))
		return complain("cannot wait for a connection to Redis: %s",
		    strerror(errno));
	return 0;
}

static int connect_all(struct client *client, const char *where)
{
	const char *colon = strrchr(where, ':');
	char host[256];
	uint64_t port;
	uint32_t i;

	if (!colon || !number_read(colon + 1, 1, UINT16_MAX, &port) ||
	    (size_t)(colon - where) >= sizeof(host))
		return complain("--at: '%s' is not HOST:PORT, with a port from "
				"1 to %d",
		    where, UINT16_MAX);
	memcpy(host, where, (size_t)(colon - where));
	host[colon - where] = '\0';
	for (i = 0; i < client->n_lanes; i++)
		if (connect_lane(client, i, host, (int)port))
			return -1;
	return 0;
}

static void *client_open(const char *where, uint32_t number, uint32_t lanes,
    load_done *done, void *arg)
{
	struct client *client = calloc(1, sizeof(*client));

	(void)number;
	if (!client) {
		complain("no memory for a client of Redis");
		return NULL;
	}
	client->epoll = epoll_create1(EPOLL_CLOEXEC);
	client->n_lanes = lanes;
	client->lanes = calloc(lanes, sizeof(*client->lanes));
	client->done = done;
	client->arg = arg;
	if (client->epoll < 0 || !client->lanes) {
		complain("no memory or descriptors for a client of Redis");
		client_close(client);
		return NULL;
	}
	if (connect_all(client, where)) {
		client_close(client);
		return NULL;
	}
	return client;
}

static int append(
    struct lane *lane, int n, const char **words, const size_t *sizes)
{
	lane->expected++;
	return redisAppendCommandArgv(lane->connection, n, words, sizes);
}

static int client_submit(
    void *arg, uint32_t number, const struct load_request *request)
{
	struct client *client = arg;
	struct lane *lane = &client->lanes[number];
	const char *set[] = { "SET", request->key, request->value };
	const size_t set_sizes[] = { 3, request->key_size,
		request->value_size };
	const char *wait[] = { "WAIT", WAIT_REPLICAS, WAIT_MS };
	const char *get[] = { "GET", request->key };
	const size_t get_sizes[] = { 3, request->key_size };
	int written = 0, ret;

	lane->outcome = LOAD_OK;
	lane->update = request->value != NULL;
	if (lane->update)
		ret = append(lane, 3, set, set_sizes);
	else
		ret = append(lane, 2, get, get_sizes);
	if (ret == REDIS_OK && lane->update)
		ret = append(lane, 3, wait, NULL);
	/* A request is small and the only one on its connection. */
	while (ret == REDIS_OK && !written)
		ret = redisBufferWrite(lane->connection, &written);
	if (ret != REDIS_OK)
		return complain(
		    "cannot send to Redis: %s", lane->connection->errstr);
	return 1;
}

/* Take a reply of a lane; its kind tells how many are still to come. */
static void take(struct client *client, uint32_t number, redisReply *reply)
{
	struct lane *lane = &client->lanes[number];
	const char *value = NULL;
	size_t size = 0;

	lane->expected--;
	if (reply->type == REDIS_REPLY_ERROR) {
		if (lane->outcome == LOAD_OK)
			complain("Redis: %s", reply->str);
		lane->outcome = LOAD_REFUSED;
	} else if (reply->type == REDIS_REPLY_NIL) {
		lane->outcome = LOAD_MISSING;
	} else if (lane->update && lane->expected == 0) {
		/* WAIT returns how many replicas have the write. */
		if (reply->integer < atoi(WAIT_REPLICAS))
			lane->outcome = LOAD_UNKNOWN;
	} else if (!lane->update) {
		value = reply->str;
		size = reply->len;
	}
	if (lane->expected == 0)
		client->done(client->arg, number, lane->outcome, value, size);
}

static int receive(struct client *client, uint32_t number)
{
	redisContext *connection = client->lanes[number].connection;
	void *reply;

	if (redisBufferRead(connection) != REDIS_OK)
		return complain(
		    "the connection to Redis failed: %s", connection->errstr);
	for (;;) {
		if (redisGetReplyFromReader(connection, &reply) != REDIS_OK)
			return complain("cannot read what Redis answers: %s",
			    connection->errstr);
		if (!reply)
			return 0;
		take(client, number, reply);
		freeReplyObject(reply);
	}
}

static int client_poll(void *arg, uint64_t wait_ns)
{
	struct client *client = arg;
	struct epoll_event events[MAX_EVENTS];
	/*
	 * Not epoll_wait(): it takes whole milliseconds, so it would spin below
	 * one.
	 */
	const struct timespec limit = {
		.tv_sec = (time_t)(wait_ns / 1000000000),
		.tv_nsec = (long)(wait_ns % 1000000000),
	};
	int n = epoll_pwait2(client->epoll, events, MAX_EVENTS, &limit, NULL);
	int i;

	if (n < 0 && errno != EINTR)
		return complain("cannot wait for Redis: %s", strerror(errno));
	for (i = 0; i < n; i++)
		if (receive(client, events[i].data.u32))
			return -1;
	return 0;
}

const struct load_backend redis_backend = {
	.name = "redis",
	.where = "127.0.0.1:6379",
	.where_help = "address of the master",
	.max_lanes = 256,
	.open = client_open,
	.close = client_close,
	.submit = client_submit,
	.poll = client_poll,
};

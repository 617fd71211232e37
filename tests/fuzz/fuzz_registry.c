/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A registry whose client sends these bytes, through the real session, while
 * another client watches every key. No sockets and no clock: streams in memory.
 * The first byte says whether a handshake and a lease come first, and whether
 * the client has two connections, the second of which sends half of the rest.
 * Afterwards the table must have nothing of the client.
 */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <string.h>

#include <dfi/log.h>

#include "fuzz.h"
#include "registry/server/server.h"
#include "registry/server/session.h"
#include "registry/wire/wire.h"

#define TURNS 64

static struct event_base *base;

static void ignore_line(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

static void ignore(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

/* The streams of the registry's clients. */
enum {
	WATCHER,
	FIRST,
	SECOND,
	N_STREAMS,
};

static struct bufferevent *streams[N_STREAMS]; /* NULL: not there */

static void drain(struct bufferevent *stream)
{
	struct evbuffer *input = bufferevent_get_input(stream);

	evbuffer_drain(input, evbuffer_get_length(input));
}

/* All that can be done now. */
static void run(void)
{
	int i, j;

	for (i = 0; i < TURNS; i++) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		for (j = 0; j < N_STREAMS; j++)
			if (streams[j])
				drain(streams[j]);
	}
}

static void start(struct server *server)
{
	struct table_limits limits = {
		.max_keys = 64,
		.max_bytes = 1 << 18,
		.max_leases = 2,
		.max_lease_keys = 32,
		.max_watches = 16,
	};
	struct table_hooks hooks = {
		.arg = server,
		.expired = dfi__session_expired,
	};

	memset(server, 0, sizeof(*server));
	TAILQ_INIT(&server->live);
	TAILQ_INIT(&server->closing);
	TAILQ_INIT(&server->doomed);
	TAILQ_INIT(&server->unsent);
	server->expiry_due = INT64_MAX;
	server->max_connections = 4;
	server->max_output = 1 << 16;
	server->max_untold = 1 << 16;
	server->turns.max_queued = 1 << 17;
	strcpy(server->listen.text, "fuzz");
	fuzz_check(dfi__visitors_init(&server->strangers, 4) == 0);
	fuzz_check(dfi__table_create(&limits, &hooks, &server->table) == 0);
	server->expiry_timer = evtimer_new(base, ignore, NULL);
	fuzz_check(server->expiry_timer);
	fuzz_check(dfi__turns_start(server, base) == 0);
}

static struct bufferevent *join(struct server *server)
{
	struct bufferevent *pair[2];

	fuzz_check(
	    bufferevent_pair_new(base, BEV_OPT_DEFER_CALLBACKS, pair) == 0);
	bufferevent_enable(pair[1], EV_READ | EV_WRITE);
	dfi__session_adopt(server, pair[0], "the client");
	return pair[1];
}

static void send_request(
    struct bufferevent *stream, Dfi__Registry__Request *request)
{
	fuzz_check(dfi__wire_write_request(
		       bufferevent_get_output(stream), request) == 0);
}

static void greet(int i)
{
	struct bufferevent *stream = streams[i];
	Dfi__Registry__Request request = DFI__REGISTRY__REQUEST__INIT;
	Dfi__Registry__Handshake handshake = DFI__REGISTRY__HANDSHAKE__INIT;
	Dfi__Registry__LeaseGrant grant = DFI__REGISTRY__LEASE_GRANT__INIT;
	Dfi__Registry__Watch all = DFI__REGISTRY__WATCH__INIT;

	handshake.version = WIRE_VERSION;
	handshake.client = i == WATCHER ? 1 : 2;
	handshake.connection = (uint64_t)i;
	request.id = UINT64_MAX - 1;
	request.op_case = DFI__REGISTRY__REQUEST__OP_HANDSHAKE;
	request.handshake = &handshake;
	send_request(stream, &request);
	request.id = UINT64_MAX;
	request.op_case = DFI__REGISTRY__REQUEST__OP_LEASE_GRANT;
	request.lease_grant = &grant;
	if (i == WATCHER) {
		request.op_case = DFI__REGISTRY__REQUEST__OP_WATCH;
		request.watch = &all;
	}
	send_request(stream, &request);
}

static void connect_client(
    struct server *server, int i, bool greets, const uint8_t *data, size_t size)
{
	streams[i] = join(server);
	if (greets)
		greet(i);
	bufferevent_write(streams[i], data, size);
	run();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct session *session;
	struct server server;
	bool greets, twice;
	size_t half;
	int i;

	if (!size)
		return 0;
	if (!base) {
		base = event_base_new();
		fuzz_check(base);
		dfi_log_set(DFI_LOG_ERROR, ignore_line, NULL);
	}
	greets = data[0] & 1;
	twice = data[0] & 2;
	half = twice ? size / 2 : size - 1;
	start(&server);
	streams[WATCHER] = join(&server);
	greet(WATCHER);
	connect_client(&server, FIRST, greets, data + 1, half);
	if (twice)
		connect_client(
		    &server, SECOND, greets, data + 1 + half, size - 1 - half);
	fuzz_check(server.n_sessions <= N_STREAMS);
	while ((session = TAILQ_FIRST(&server.live)) ||
	    (session = TAILQ_FIRST(&server.closing)))
		dfi__session_doom(session, NULL);
	dfi__server_settle(&server);
	run();
	fuzz_check(dfi__table_next_expiry(server.table) == INT64_MAX);
	for (i = 0; i < N_STREAMS; i++)
		if (streams[i])
			bufferevent_free(streams[i]);
	memset(streams, 0, sizeof(streams));
	event_base_loop(base, EVLOOP_NONBLOCK);
	event_free(server.expiry_timer);
	dfi__turns_stop(&server);
	dfi__table_destroy(server.table);
	dfi__visitors_free(&server.strangers);
	return 0;
}

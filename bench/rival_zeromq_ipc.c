/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZeroMQ, a PAIR of sockets over its ipc, which are Unix sockets. Messages are
 * built in the memory that the library sends. Each context has a thread of its
 * own for the socket.
 */
#include <stdio.h>
#include <zmq.h>

#include "rival_messages.h"

struct state {
	void *context, *socket;
	zmq_msg_t out, in;
};

static int fail(struct worker *worker, const char *what)
{
	snprintf(worker->seat->error, sizeof(worker->seat->error), "%s: %s",
	    what, zmq_strerror(zmq_errno()));
	return -EIO;
}

static int bind_target(
    struct worker *worker, struct state *state, const char *endpoint)
{
	struct rival_address address = { 0 };

	if (zmq_bind(state->socket, endpoint) < 0)
		return fail(worker, "zmq_bind");
	rival_publish(worker, &address);
	/* So that the connection stands before the start. */
	return zmq_msg_recv(&state->in, state->socket, 0) < 0
	    ? fail(worker, "zmq_msg_recv")
	    : 0;
}

static int connect_source(
    struct worker *worker, struct state *state, const char *endpoint)
{
	struct rival_address address;
	int ret = rival_await(worker, &address);

	if (ret)
		return ret;
	return zmq_connect(state->socket, endpoint) < 0 ||
		zmq_send(state->socket, "", 1, 0) < 0
	    ? fail(worker, "zmq_connect")
	    : 0;
}

static int zeromq_prepare(struct worker *worker)
{
	struct state *state = calloc(1, sizeof(*state));
	char endpoint[64];

	worker->state = state;
	if (!state)
		return worker_fail_errno(worker, "a worker");
	zmq_msg_init(&state->in);
	snprintf(endpoint, sizeof(endpoint), "ipc://@dfi-bench-%lx",
	    (unsigned long)rival_number(worker));
	state->context = zmq_ctx_new();
	state->socket = state->context ? zmq_socket(state->context, ZMQ_PAIR)
				       : NULL;
	if (!state->socket)
		return fail(worker, "zmq_socket");
	return worker->seat->role == ROLE_SOURCE
	    ? connect_source(worker, state, endpoint)
	    : bind_target(worker, state, endpoint);
}

static char *zeromq_claim(struct worker *worker, size_t size)
{
	struct state *state = worker->state;

	if (zmq_msg_init_size(&state->out, size) == 0)
		return zmq_msg_data(&state->out);
	(void)fail(worker, "zmq_msg_init_size");
	return NULL;
}

static int zeromq_commit(struct worker *worker, size_t size)
{
	struct state *state = worker->state;

	(void)size;
	return zmq_msg_send(&state->out, state->socket, 0) < 0
	    ? fail(worker, "zmq_msg_send")
	    : 0;
}

static ssize_t zeromq_consume(struct worker *worker, const char **at)
{
	struct state *state = worker->state;
	int n = zmq_msg_recv(&state->in, state->socket, 0);

	if (n < 0)
		return fail(worker, "zmq_msg_recv");
	*at = zmq_msg_data(&state->in);
	return n;
}

static const struct rival_calls calls = {
	.claim = zeromq_claim,
	.commit = zeromq_commit,
	.consume = zeromq_consume,
	.batch_size = (size_t)64 << 10,
};

static int zeromq_run(struct worker *worker)
{
	return rival_messages(worker, &calls);
}

static void zeromq_finish(struct worker *worker)
{
	struct state *state = worker->state;

	if (!state)
		return;
	rival_await_end(worker);
	zmq_msg_close(&state->in);
	if (state->socket)
		zmq_close(state->socket);
	if (state->context)
		zmq_ctx_term(state->context);
	free(state);
}

static const char *version(void)
{
	static char text[48];
	int major, minor, patch;

	zmq_version(&major, &minor, &patch);
	snprintf(text, sizeof(text), "ZeroMQ %d.%d.%d, a pair over ipc", major,
	    minor, patch);
	return text;
}

const struct rival rival_zeromq_ipc = {
	.version = version,
	.job = {
		.prepare = zeromq_prepare,
		.run = zeromq_run,
		.finish = zeromq_finish,
	},
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ZeroMQ, a PUSH socket to a PULL socket over TCP: a message for each segment
 * of tuples, copied from the table, which is how it is fastest. Each context
 * has a thread of its own for the socket.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "rival.h"

struct state {
	void *context, *socket;
	char *table;
};

static int fail(struct worker *worker, const char *what)
{
	snprintf(worker->seat->error, sizeof(worker->seat->error), "%s: %s",
	    what, zmq_strerror(zmq_errno()));
	return -EIO;
}

static int bind_target(struct worker *worker, struct state *state)
{
	struct rival_address address = { 0 };
	char endpoint[64] = "";
	size_t size = sizeof(endpoint);

	if (zmq_bind(state->socket, "tcp://127.0.0.1:*") < 0 ||
	    zmq_getsockopt(state->socket, ZMQ_LAST_ENDPOINT, endpoint, &size) <
		0)
		return fail(worker, "zmq_bind");
	address.port = (uint32_t)atoi(strrchr(endpoint, ':') + 1);
	rival_publish(worker, &address);
	/* So that the connection stands before the start. */
	return zmq_recv(state->socket, endpoint, 1, 0) < 0
	    ? fail(worker, "zmq_recv")
	    : 0;
}

static int connect_source(struct worker *worker, struct state *state)
{
	struct rival_address address;
	char endpoint[64];
	int ret = rival_await(worker, &address);

	if (ret < 0)
		return ret;
	state->table = plan_make_table(worker->plan, 0);
	if (!state->table)
		return worker_fail_errno(worker, "a table of tuples");
	snprintf(
	    endpoint, sizeof(endpoint), "tcp://127.0.0.1:%u", address.port);
	return zmq_connect(state->socket, endpoint) < 0 ||
		zmq_send(state->socket, "", 1, 0) < 0
	    ? fail(worker, "zmq_connect")
	    : 0;
}

static int zeromq_prepare(struct worker *worker)
{
	bool source = worker->seat->role == ROLE_SOURCE;
	struct state *state = calloc(1, sizeof(*state));

	worker->state = state;
	if (!state)
		return worker_fail_errno(worker, "a worker");
	state->context = zmq_ctx_new();
	state->socket = state->context
	    ? zmq_socket(state->context, source ? ZMQ_PUSH : ZMQ_PULL)
	    : NULL;
	if (!state->socket)
		return fail(worker, "zmq_socket");
	return source ? connect_source(worker, state)
		      : bind_target(worker, state);
}

static int send_all(struct worker *worker, struct state *state)
{
	const struct plan *plan = worker->plan;
	uint64_t left = plan->tuples, at = 0, n;
	uint64_t table = plan_table_tuples(plan);
	size_t size = plan->tuple_size;
	zmq_msg_t message;

	for (; left > 0; left -= n, at = (at + n) % table) {
		n = rival_batch(plan);
		n = n < left ? n : left;
		n = n < table - at ? n : table - at;
		if (zmq_msg_init_size(&message, n * size) < 0)
			return fail(worker, "zmq_msg_init_size");
		memcpy(
		    zmq_msg_data(&message), state->table + at * size, n * size);
		if (zmq_msg_send(&message, state->socket, 0) < 0)
			return fail(worker, "zmq_msg_send");
	}
	rival_done(worker, plan->tuples, plan_source_sum(plan, 0));
	return 0;
}

static int receive_all(struct worker *worker, struct state *state)
{
	const struct plan *plan = worker->plan;
	struct word_sum sum = { 0 };
	zmq_msg_t message;
	uint64_t tuples, n;

	zmq_msg_init(&message);
	for (tuples = 0; tuples < plan->tuples; tuples += n) {
		if (zmq_msg_recv(&message, state->socket, 0) < 0)
			return fail(worker, "zmq_msg_recv");
		n = zmq_msg_size(&message) / plan->tuple_size;
		rival_sum(zmq_msg_data(&message), n, plan->tuple_size, &sum);
	}
	zmq_msg_close(&message);
	rival_done(worker, tuples, word_sum_total(&sum));
	return 0;
}

static int zeromq_run(struct worker *worker)
{
	return worker->seat->role == ROLE_SOURCE
	    ? send_all(worker, worker->state)
	    : receive_all(worker, worker->state);
}

static void zeromq_finish(struct worker *worker)
{
	struct state *state = worker->state;

	if (!state)
		return;
	if (state->socket)
		zmq_close(state->socket);
	if (state->context)
		zmq_ctx_term(state->context);
	free(state->table);
	free(state);
}

static const char *version(void)
{
	static char text[48];
	int major, minor, patch;

	zmq_version(&major, &minor, &patch);
	snprintf(text, sizeof(text), "ZeroMQ %d.%d.%d, a message a segment",
	    major, minor, patch);
	return text;
}

const struct rival rival_zeromq = {
	.version = version,
	.job = {
		.prepare = zeromq_prepare,
		.run = zeromq_run,
		.finish = zeromq_finish,
	},
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nng, a pair of sockets over its ipc, which are Unix sockets. Messages are
 * built in the memory that the library sends. It has threads of its own.
 */
#include <nng/nng.h>
#include <nng/protocol/pair0/pair.h>
#include <stdio.h>

#include "rival_messages.h"

/* Messages that each end queues: as many as it takes. */
#define QUEUE 128

struct state {
	nng_socket socket;
	bool open;
	nng_msg *out, *in;
};

static int fail(struct worker *worker, const char *what, int err)
{
	snprintf(worker->seat->error, sizeof(worker->seat->error), "%s: %s",
	    what, nng_strerror(err));
	return -EIO;
}

static int take(struct worker *worker, struct state *state)
{
	int err;

	if (state->in)
		nng_msg_free(state->in);
	state->in = NULL;
	err = nng_recvmsg(state->socket, &state->in, 0);
	return err ? fail(worker, "nng_recvmsg", err) : 0;
}

static int listen_target(
    struct worker *worker, struct state *state, const char *url)
{
	struct rival_address address = { 0 };
	int err = nng_listen(state->socket, url, NULL, 0);

	if (err)
		return fail(worker, "nng_listen", err);
	rival_publish(worker, &address);
	/* So that the connection stands before the start. */
	return take(worker, state);
}

static int dial_target(
    struct worker *worker, struct state *state, const char *url)
{
	struct rival_address address;
	int ret = rival_await(worker, &address), err;

	if (ret)
		return ret;
	err = nng_dial(state->socket, url, NULL, 0);
	if (!err)
		err = nng_send(state->socket, (char[]){ "" }, 1, 0);
	return err ? fail(worker, "nng_dial", err) : 0;
}

static int open_socket(struct state *state)
{
	int err = nng_pair0_open(&state->socket);

	if (err)
		return err;
	state->open = true;
	err = nng_socket_set_int(state->socket, NNG_OPT_SENDBUF, QUEUE);
	if (!err)
		err = nng_socket_set_int(state->socket, NNG_OPT_RECVBUF, QUEUE);
	return err;
}

static int nng_prepare(struct worker *worker)
{
	struct state *state = calloc(1, sizeof(*state));
	char url[64];
	int err;

	worker->state = state;
	if (!state)
		return worker_fail_errno(worker, "a worker");
	snprintf(url, sizeof(url), "abstract://dfi-bench-%lx",
	    (unsigned long)rival_number(worker));
	err = open_socket(state);
	if (err)
		return fail(worker, "nng_pair0_open", err);
	return worker->seat->role == ROLE_SOURCE
	    ? dial_target(worker, state, url)
	    : listen_target(worker, state, url);
}

static char *nng_claim(struct worker *worker, size_t size)
{
	struct state *state = worker->state;
	int err = nng_msg_alloc(&state->out, size);

	if (!err)
		return nng_msg_body(state->out);
	state->out = NULL;
	(void)fail(worker, "nng_msg_alloc", err);
	return NULL;
}

static int nng_commit(struct worker *worker, size_t size)
{
	struct state *state = worker->state;
	int err = nng_sendmsg(state->socket, state->out, 0);

	(void)size;
	if (!err)
		state->out = NULL;
	return err ? fail(worker, "nng_sendmsg", err) : 0;
}

static ssize_t nng_consume(struct worker *worker, const char **at)
{
	struct state *state = worker->state;
	int ret = take(worker, state);

	if (ret)
		return ret;
	*at = nng_msg_body(state->in);
	return (ssize_t)nng_msg_len(state->in);
}

static const struct rival_calls calls = {
	.claim = nng_claim,
	.commit = nng_commit,
	.consume = nng_consume,
	.batch_size = (size_t)64 << 10,
};

static int nng_run(struct worker *worker)
{
	return rival_messages(worker, &calls);
}

static void nng_finish(struct worker *worker)
{
	struct state *state = worker->state;

	if (!state)
		return;
	rival_await_end(worker);
	if (state->in)
		nng_msg_free(state->in);
	if (state->out)
		nng_msg_free(state->out);
	if (state->open)
		nng_close(state->socket);
	free(state);
}

static const char *version(void)
{
	static char text[48];

	snprintf(text, sizeof(text), "nng %s, a pair over ipc", nng_version());
	return text;
}

const struct rival rival_nng = {
	.version = version,
	.job = {
		.prepare = nng_prepare,
		.run = nng_run,
		.finish = nng_finish,
	},
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connected TCP socket, and one send(2) for each tuple. The kernel may put
 * several into a packet, as TCP_NODELAY is off; the receiver takes what has
 * come.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rival.h"

#define RECEIVE_SIZE ((size_t)256 << 10)

struct state {
	int fd;
	char *table;
	char *buffer; /* what has come */
};

static int open_socket(struct worker *worker)
{
	struct rival_address address = { 0 };
	int listener, fd, ret;

	if (worker->seat->role == ROLE_SOURCE) {
		ret = rival_await(worker, &address);
		return ret < 0 ? ret : rival_connect(address.port);
	}
	listener = rival_listen(&address.port);
	if (listener < 0)
		return -1;
	rival_publish(worker, &address);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	close(listener);
	return fd;
}

static int send_prepare(struct worker *worker)
{
	struct state *state = calloc(1, sizeof(*state));

	worker->state = state;
	if (!state)
		return worker_fail_errno(worker, "a worker");
	state->fd = -1;
	if (worker->seat->role == ROLE_SOURCE)
		state->table = plan_make_table(worker->plan, 0);
	else
		state->buffer = malloc(worker->plan->tuple_size + RECEIVE_SIZE);
	if (!state->table && !state->buffer)
		return worker_fail_errno(worker, "a buffer");
	state->fd = open_socket(worker);
	return state->fd < 0 ? worker_fail_errno(worker, "a connection") : 0;
}

static int send_one(int fd, const char *from, size_t size)
{
	ssize_t n;

	for (; size > 0; from += n, size -= (size_t)n) {
		n = send(fd, from, size, MSG_NOSIGNAL);
		if (n < 0)
			return -1;
	}
	return 0;
}

static int send_all(struct worker *worker, struct state *state)
{
	const struct plan *plan = worker->plan;
	uint64_t i, at = 0, table = plan_table_tuples(plan);
	size_t size = plan->tuple_size;

	for (i = 0; i < plan->tuples; i++) {
		if (send_one(state->fd, state->table + at * size, size) < 0)
			return worker_fail_errno(worker, "send");
		if (++at == table)
			at = 0;
	}
	shutdown(state->fd, SHUT_WR);
	rival_done(worker, plan->tuples, plan_source_sum(plan, 0));
	return 0;
}

static int receive_all(struct worker *worker, struct state *state)
{
	size_t size = worker->plan->tuple_size, have = 0;
	struct word_sum sum = { 0 };
	uint64_t tuples = 0, n;
	ssize_t got;

	while ((got = recv(state->fd, state->buffer + have, RECEIVE_SIZE, 0)) >
	    0) {
		have += (size_t)got;
		n = have / size;
		rival_sum(state->buffer, n, size, &sum);
		tuples += n;
		have -= n * size;
		memmove(state->buffer, state->buffer + n * size, have);
	}
	if (got < 0)
		return worker_fail_errno(worker, "recv");
	rival_done(worker, tuples, word_sum_total(&sum));
	return 0;
}

static int send_run(struct worker *worker)
{
	return worker->seat->role == ROLE_SOURCE
	    ? send_all(worker, worker->state)
	    : receive_all(worker, worker->state);
}

static void send_finish(struct worker *worker)
{
	struct state *state = worker->state;

	if (!state)
		return;
	if (state->fd >= 0)
		close(state->fd);
	free(state->table);
	free(state->buffer);
	free(state);
}

static const char *version(void)
{
	return "send(2) of each tuple";
}

const struct rival rival_send = {
	.version = version,
	.job = {
		.prepare = send_prepare,
		.run = send_run,
		.finish = send_finish,
	},
};

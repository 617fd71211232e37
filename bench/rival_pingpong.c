/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program fi_pingpong over connected endpoints of libfabric's provider tcp.
 * It reports the mean of half a round trip.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rival.h"

#define OUTPUT_SIZE 4096

/* It doesn't say when it listens, so the client tries several times. */
#define TRIES 200
#define PAUSE_NS (20 * 1000 * 1000)

struct state {
	struct rival_program server;
	char output[OUTPUT_SIZE];
	char port[12], size[12], trips[24];
};

static int fail(struct worker *worker, const char *what)
{
	snprintf(worker->seat->error, sizeof(worker->seat->error),
	    "fi_pingpong %s", what);
	return -EIO;
}

static int start_server(struct worker *worker, struct state *state)
{
	const char *argv[] = { "fi_pingpong", "-p", "tcp", "-e", "msg", "-I",
		state->trips, "-S", state->size, "-B", state->port, NULL };
	struct rival_address address = { 0 };
	int fd = rival_listen(&address.port);

	if (fd < 0)
		return worker_fail_errno(worker, "a port");
	close(fd);
	snprintf(state->port, sizeof(state->port), "%u", address.port);
	if (rival_start(&state->server, argv) < 0)
		return worker_fail_errno(worker, "fi_pingpong");
	rival_publish(worker, &address);
	return 0;
}

static int pingpong_prepare(struct worker *worker)
{
	struct state *state = calloc(1, sizeof(*state));
	const struct plan *plan = worker->plan;
	struct rival_address address;
	int ret;

	worker->state = state;
	if (!state)
		return worker_fail_errno(worker, "a worker");
	snprintf(state->size, sizeof(state->size), "%u", plan->tuple_size);
	snprintf(state->trips, sizeof(state->trips), "%lu",
	    (unsigned long)plan->tuples);
	if (worker->seat->role == ROLE_TARGET)
		return start_server(worker, state);
	ret = rival_await(worker, &address);
	snprintf(state->port, sizeof(state->port), "%u", address.port);
	return ret;
}

/* bytes, #sent, #ack, total, time, MB/sec, usec/xfer */
static int take_report(struct worker *worker, const char *text)
{
	struct board *board = worker->board;
	const char *line = strchr(text, '\n');
	double usec = 0;

	if (!line ||
	    sscanf(line + 1, "%*s %*s %*s %*s %*s %*s %lf", &usec) != 1 ||
	    !(usec > 0))
		return fail(worker, "reports no time");
	board->trips = (struct histogram){ 0 };
	histogram_add(&board->trips, (uint64_t)(2 * usec * 1e3));
	board->ticks_per_ns = 1;
	return 0;
}

static int run_client(struct worker *worker, struct state *state)
{
	const char *argv[] = { "fi_pingpong", "-p", "tcp", "-e", "msg", "-I",
		state->trips, "-S", state->size, "-P", state->port, "127.0.0.1",
		NULL };
	struct timespec pause = { .tv_nsec = PAUSE_NS };
	struct rival_program client;
	int tries;

	for (tries = 0; tries < TRIES; tries++) {
		if (rival_start(&client, argv) < 0)
			return worker_fail_errno(worker, "fi_pingpong");
		if (rival_read(&client, NULL, state->output, OUTPUT_SIZE))
			return take_report(worker, state->output);
		nanosleep(&pause, NULL);
	}
	return fail(worker, "finds no server");
}

static int pingpong_run(struct worker *worker)
{
	struct state *state = worker->state;
	int ret = 0;

	if (worker->seat->role == ROLE_SOURCE)
		ret = run_client(worker, state);
	else if (!rival_read(&state->server, NULL, state->output, OUTPUT_SIZE))
		ret = fail(worker, "fails as the server");
	rival_done(worker, worker->plan->tuples, 0);
	return ret;
}

static void pingpong_finish(struct worker *worker)
{
	struct state *state = worker->state;

	if (!state)
		return;
	rival_stop(&state->server);
	free(state);
}

/* It has no option that prints its version: that is libfabric's. */
static const char *version(void)
{
	static const char *const argv[] = { "fi_info", "--version", NULL };
	static const char *const itself[] = { "sh", "-c",
		"command -v fi_pingpong", NULL };
	static char line[48];

	return rival_first_line(itself, line, sizeof(line))
	    ? rival_first_line(argv, line, sizeof(line))
	    : NULL;
}

const struct rival rival_pingpong = {
	.version = version,
	.job = {
		.prepare = pingpong_prepare,
		.run = pingpong_run,
		.finish = pingpong_finish,
	},
};

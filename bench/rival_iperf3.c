/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program iperf3, one stream, whose writes have the size of a segment. It
 * fills no buffers and reads none; its own report says how long it took.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rival.h"

#define OUTPUT_SIZE ((size_t)256 << 10)

/* A shorter run has no rate. */
#define LEAST_BYTES (UINT64_C(64) << 20)

struct state {
	struct rival_program server;
	char output[OUTPUT_SIZE];
	char port[12];
};

static int fail(struct worker *worker, const char *what)
{
	snprintf(worker->seat->error, sizeof(worker->seat->error), "iperf3 %s",
	    what);
	return -EIO;
}

static int start_server(struct worker *worker, struct state *state)
{
	const char *argv[] = { "iperf3", "-s", "-1", "-B", "127.0.0.1", "-p",
		state->port, "--forceflush", NULL };
	struct rival_address address = { 0 };
	int fd = rival_listen(&address.port);

	if (fd < 0)
		return worker_fail_errno(worker, "a port");
	close(fd);
	snprintf(state->port, sizeof(state->port), "%u", address.port);
	if (rival_start(&state->server, argv) < 0)
		return worker_fail_errno(worker, "iperf3");
	if (!rival_read(
		&state->server, "listening", state->output, OUTPUT_SIZE))
		return fail(worker, "-s does not listen");
	rival_publish(worker, &address);
	return 0;
}

static int iperf3_prepare(struct worker *worker)
{
	struct state *state = calloc(1, sizeof(*state));
	struct rival_address address;
	int ret;

	worker->state = state;
	if (!state)
		return worker_fail_errno(worker, "a worker");
	if (worker->seat->role == ROLE_TARGET)
		return start_server(worker, state);
	ret = rival_await(worker, &address);
	snprintf(state->port, sizeof(state->port), "%u", address.port);
	return ret;
}

/* The seconds that the given number of bytes takes. */
static int take_report(struct worker *worker, const char *text, double bytes)
{
	json_t *report = json_loads(text, 0, NULL), *sum;
	double rate;

	sum = json_object_get(json_object_get(report, "end"), "sum_received");
	rate = json_number_value(json_object_get(sum, "bits_per_second")) / 8;
	json_decref(report);
	if (!(rate > 0))
		return fail(worker, "-J reports no rate");
	worker->board->seconds = bytes / rate;
	return 0;
}

static int run_client(struct worker *worker, struct state *state)
{
	const struct plan *plan = worker->plan;
	uint64_t n = plan->tuples * plan->tuple_size;
	uint64_t sent = n < LEAST_BYTES ? LEAST_BYTES : n;
	char bytes[24], segment[12];
	const char *argv[] = { "iperf3", "-c", "127.0.0.1", "-p", state->port,
		"-n", bytes, "-l", segment, "-J", NULL };
	struct rival_program client;

	snprintf(bytes, sizeof(bytes), "%lu", (unsigned long)sent);
	snprintf(segment, sizeof(segment), "%u", plan->geometry.segment_size);
	if (rival_start(&client, argv) < 0)
		return worker_fail_errno(worker, "iperf3");
	if (!rival_read(&client, NULL, state->output, OUTPUT_SIZE))
		return fail(worker, "-c fails");
	return take_report(worker, state->output, (double)n);
}

static int iperf3_run(struct worker *worker)
{
	struct state *state = worker->state;
	int ret = 0;

	if (worker->seat->role == ROLE_SOURCE)
		ret = run_client(worker, state);
	else if (!rival_read(&state->server, NULL, state->output, OUTPUT_SIZE))
		ret = fail(worker, "-s fails");
	rival_done(worker, worker->plan->tuples, 0);
	return ret;
}

static void iperf3_finish(struct worker *worker)
{
	struct state *state = worker->state;

	if (!state)
		return;
	rival_stop(&state->server);
	free(state);
}

static const char *version(void)
{
	static const char *const argv[] = { "iperf3", "--version", NULL };
	static char line[48];

	return rival_first_line(argv, line, sizeof(line));
}

const struct rival rival_iperf3 = {
	.version = version,
	.job = {
		.prepare = iperf3_prepare,
		.run = iperf3_run,
		.finish = iperf3_finish,
	},
};

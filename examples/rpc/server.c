/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of clients that come, go and die as they like. It never waits for
 * one of them: a reply that can't be sent at once waits in the client's seat.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include "rpc.h"

/* A client has one request at a time, so there is one reply to wait. */
static struct reply waiting[N_SEATS];
static bool waits[N_SEATS];
static uint64_t n_requests;

/* Create a flow, which stays for the next server if this one crashes. */
static void create(struct dfi *dfi, const char *name,
    const struct dfi_schema *schema, uint32_t n_sources, uint32_t n_targets)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	int ret;

	attr.kind = DFI_SHUFFLE;
	attr.goal = DFI_LATENCY; /* each tuple travels at once */
	attr.segment_count = 16; /* in each client's rings; one is in use */
	attr.schema = schema;
	attr.n_sources = n_sources;
	attr.n_targets = n_targets;
	attr.routing = n_targets == 1 ? DFI_ROUTE_ANY : DFI_ROUTE_DIRECT;
	attr.flags = DFI_FLOW_PERSISTENT;
	attr.open.membership = DFI_MEMBERS_OPEN;
	attr.open.on_loss = DFI_ON_LOSS_DROP; /* a death ends nothing */
	ret = dfi_flow_create(dfi, name, &attr);
	if (ret != -EEXIST)
		check(ret);
}

/* -ENXIO: the client has gone. -EAGAIN: its ring is full, or being made. */
static void send_reply(struct dfi_source *replies, uint32_t seat)
{
	int ret = dfi_source_push_to(replies, seat, &waiting[seat]);

	if (ret != -ENXIO && ret != -EAGAIN)
		check(ret);
	waits[seat] = ret == -EAGAIN;
}

static void answer(struct dfi_source *replies, const struct request *request)
{
	if (request->seat >= N_SEATS)
		return; /* no client of ours */
	waiting[request->seat] = (struct reply){
		.id = request->id,
		.value = request->value * request->value,
	};
	send_reply(replies, request->seat);
	n_requests++;
}

/* A descriptor that is readable when somebody wants the server to stop. */
static int stop_fd(void)
{
	sigset_t signals;
	int fd;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	/* Before DFI starts its threads, which inherit this. */
	if (sigprocmask(SIG_BLOCK, &signals, NULL))
		err(1, "cannot block signals");
	fd = signalfd(-1, &signals, SFD_CLOEXEC);
	if (fd < 0)
		err(1, "signalfd");
	return fd;
}

static void serve(
    struct dfi_target *requests, struct dfi_source *replies, int stop)
{
	struct pollfd fds[] = {
		{ .fd = stop, .events = POLLIN },
		{ .fd = check(dfi_target_fd(requests)), .events = POLLIN },
		{ .fd = check(dfi_source_fd(replies)), .events = POLLIN },
	};
	const void *tuple;
	int ret;

	while (!fds[0].revents) {
		while ((ret = dfi_target_consume(requests, &tuple)) > 0)
			answer(replies, tuple);
		if (ret != -EAGAIN)
			check(ret);
		for (uint32_t seat = 0; seat < N_SEATS; seat++)
			if (waits[seat])
				send_reply(replies, seat);
		if (poll(fds, 3, -1) < 0 && errno != EINTR)
			err(1, "poll");
	}
}

int main(void)
{
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_target *requests;
	struct dfi_source *replies;
	int stop = stop_fd();
	struct dfi *dfi;

	check(dfi_open(NULL, &dfi)); /* DFI_REGISTRY says which registry */
	create(dfi, REQUESTS, &request_schema, N_SEATS, 1);
	create(dfi, REPLIES, &reply_schema, 1, N_SEATS);
	target_attr.flags = source_attr.flags = DFI_NONBLOCK;
	check(dfi_source_open(dfi, REPLIES, 0, &source_attr, &replies));
	check(dfi_target_open(dfi, REQUESTS, 0, &target_attr, &requests));
	puts("ready");
	fflush(stdout);
	serve(requests, replies, stop);
	check(dfi_target_close(requests));
	/* Clients that wait for a reply get -ETIMEDOUT. */
	dfi_source_abort(replies);
	(void)dfi_source_close(replies);
	check(dfi_flow_remove(dfi, REQUESTS));
	check(dfi_flow_remove(dfi, REPLIES));
	check(dfi_close(dfi));
	printf("%lu requests\n", n_requests);
	if (fflush(stdout) || ferror(stdout))
		err(1, "standard output");
	return 0;
}

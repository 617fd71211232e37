/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread serves two flows and a pipe. A group of targets gives it one
 * descriptor, which it polls with others, as in an event loop.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdint.h>
#include <unistd.h>
#include "small.h"

enum {
	N_ORDERS = 1000,
	N_PRICES = 3000
};
struct event {
	uint64_t number;
};
static const struct dfi_field fields[] = { DFI_FIELD(struct event, number) };
static const struct dfi_schema schema = DFI_SCHEMA(struct event, fields);

static struct dfi *dfi;
static int pipe_ends[2];

static void *send_events(void *arg)
{
	const char *flow = arg;
	struct dfi_source *source;
	struct event event = { 0 };
	uint64_t n = *flow == 'o' ? N_ORDERS : N_PRICES;

	check(dfi_source_open(dfi, flow, 0, NULL, &source));
	for (; event.number < n; event.number++)
		check(dfi_source_push(source, &event));
	check(dfi_source_close(source));
	/* The same loop serves descriptors that are no flow. */
	if (write(pipe_ends[1], flow, 1) != 1)
		err(1, "write");
	return NULL;
}

static struct dfi_target *add(
    struct dfi_target_group *group, const char *flow, uint64_t *count)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target;

	attr.flags = DFI_NONBLOCK;
	check(dfi_target_open(dfi, flow, 0, &attr, &target));
	check(dfi_target_group_add(group, target, count));
	return target;
}

/* Take all batches: then the descriptor reports new ones. */
static int take(struct dfi_target_group *group)
{
	struct dfi_target_group_batch batch;
	int ret;

	while ((ret = dfi_target_group_consume_batch(group, &batch)) > 0) {
		*(uint64_t *)batch.arg += batch.batch.count;
		dfi_target_group_release(group, &batch);
	}
	return ret;
}

int main(void)
{
	struct dfi_target_group_attr attr = DFI_TARGET_GROUP_ATTR_INIT;
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_target_group *group;
	struct dfi_target *targets[2];
	struct dfi_registry *registry;
	uint64_t orders = 0, prices = 0;
	pthread_t threads[2];
	struct pollfd fds[2];
	char notes[2];
	int n_notes = 0, ret = -EAGAIN;

	dfi = start(&registry);
	if (pipe(pipe_ends))
		err(1, "pipe");
	flow.kind = DFI_SHUFFLE;
	flow.schema = &schema;
	flow.n_sources = flow.n_targets = 1;
	check(dfi_flow_create(dfi, "orders", &flow));
	check(dfi_flow_create(dfi, "prices", &flow));
	attr.flags = DFI_NONBLOCK;
	check(dfi_target_group_open(dfi, &attr, &group));
	targets[0] = add(group, "orders", &orders);
	targets[1] = add(group, "prices", &prices);
	threads[0] = spawn(send_events, "orders");
	threads[1] = spawn(send_events, "prices");

	fds[0] = (struct pollfd){ dfi_target_group_fd(group), POLLIN, 0 };
	fds[1] = (struct pollfd){ pipe_ends[0], POLLIN, 0 };
	for (;;) {
		if (ret == -EAGAIN)
			ret = take(group);
		if (ret && ret != -EAGAIN)
			check(ret);
		if (!ret && n_notes == 2) /* both flows have ended */
			break;
		if (!ret)
			fds[0].fd = -1; /* poll() looks at it no more */
		if (poll(fds, 2, -1) < 0)
			err(1, "poll");
		if (fds[1].revents)
			n_notes += (int)read(pipe_ends[0], notes, 2);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		check(dfi_target_close(targets[i]));
	}
	check(dfi_target_group_close(group));
	printf("%" PRIu64 " orders, %" PRIu64 " prices, %d notes\n", orders,
	    prices, n_notes);
	stop(dfi, registry);
	return orders != N_ORDERS || prices != N_PRICES;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* An event loop: poll() on a target group of two flows, and on an eventfd. */
#include <poll.h>
#include <sys/eventfd.h>
#include "small.h"

#define N_EVENTS 1000

struct event {
	uint64_t number;
};
static const struct dfi_field fields[] = { DFI_FIELD(struct event, number) };
static const struct dfi_schema schema = DFI_SCHEMA(struct event, fields);

static struct dfi *dfi;
/* Of the target group, and of anything else. */
static struct pollfd fds[2] = { { .events = POLLIN }, { .events = POLLIN } };

static void *send_events(void *flow)
{
	struct dfi_source *source;
	struct event event = { 0 };

	check(dfi_source_open(dfi, flow, 0, NULL, &source));
	if (eventfd_write(fds[1].fd, 1))
		err(1, "eventfd");
	for (; event.number < N_EVENTS; event.number++)
		check(dfi_source_push(source, &event));
	check(dfi_source_close(source));
	return NULL;
}

int main(void)
{
	struct dfi_target_group_attr group_attr = DFI_TARGET_GROUP_ATTR_INIT;
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	char *flows[2] = { "orders", "prices" };
	struct dfi_target_group_batch batch;
	unsigned int counts[2] = { 0, 0 };
	struct dfi_target_group *group;
	struct dfi_target *targets[2];
	struct dfi_registry *registry;
	pthread_t threads[2];
	eventfd_t n_opened;
	int ret;

	dfi = start(&registry);
	group_attr.flags = attr.flags = DFI_NONBLOCK;
	check(dfi_target_group_open(dfi, &group_attr, &group));
	fds[1].fd = eventfd(0, 0);
	for (int i = 0; i < 2; i++) {
		create_flow(dfi, flows[i], &schema);
		check(dfi_target_open(dfi, flows[i], 0, &attr, &targets[i]));
		check(dfi_target_group_add(group, targets[i], &counts[i]));
		threads[i] = spawn(send_events, flows[i]);
	}
	fds[0].fd = check(dfi_target_group_fd(group));
	/* 0: all flows have ended. Before poll() all that is there is taken. */
	while ((ret = dfi_target_group_consume_batch(group, &batch)) != 0) {
		if (ret > 0) {
			*(unsigned int *)batch.arg += batch.batch.count;
			dfi_target_group_release(group, &batch);
		} else if (ret != -EAGAIN) {
			check(ret);
		} else if (poll(fds, 2, -1) > 0 && fds[1].revents) {
			eventfd_read(fds[1].fd, &n_opened);
			printf("new sources: %d\n", (int)n_opened);
		}
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		check(dfi_target_close(targets[i]));
	}
	check(dfi_target_group_close(group));
	printf("%u orders, %u prices\n", counts[0], counts[1]);
	stop(dfi, registry);
	return counts[0] != N_EVENTS || counts[1] != N_EVENTS;
}

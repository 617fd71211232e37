/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives as an event loop does: until -EAGAIN, then poll() on the descriptor
 * of the target or of its group.
 */
#include "idle_receive.h"

#include <errno.h>
#include <poll.h>

struct taking {
	struct receiver *receiver;
	const struct dfi_batch *batch;
};

/* Returns 0. */
static force_inline int sum_batch(struct taking *taking, size_t tuple_size)
{
	const char *tuple = taking->batch->tuples;
	const char *end = tuple + (size_t)taking->batch->count * tuple_size;
	struct word_sum part = { 0 };

	for (; tuple != end; tuple += tuple_size)
		tuple_sum(tuple, tuple_size, &part);
	word_sum_add(&taking->receiver->sum, &part);
	return 0;
}

static int sum_by_size(struct taking *taking)
{
	RETURN_BY_SIZE(sum_batch, taking, taking->receiver->plan->tuple_size);
}

static void take(struct receiver *receiver, const struct dfi_batch *batch)
{
	struct taking taking = { receiver, batch };
	const char *tuple = batch->tuples;
	uint32_t i;

	sum_by_size(&taking);
	for (i = 0; receiver->plan->check && i < batch->count; i++)
		if (!flow_check(receiver, 0, tuple + (size_t)i * batch->stride,
			batch->source))
			receiver->bad++;
	receiver->tuples += batch->count;
}

/* Returns the result of dfi_target_consume_batch(); takes what came. */
static int consume(struct receiver *receiver, struct dfi_target_group *group)
{
	struct dfi_target_group_batch batch;
	int ret;

	if (group) {
		ret = dfi_target_group_consume_batch(group, &batch);
	} else {
		ret = dfi_target_consume_batch(
		    receiver->targets[0], &batch.batch);
	}
	if (ret <= 0)
		return ret;
	take(receiver, &batch.batch);
	if (group)
		dfi_target_group_release(group, &batch);
	else
		dfi_target_release(receiver->targets[0], &batch.batch);
	return ret;
}

static int receive(
    struct receiver *receiver, int fd, struct dfi_target_group *group)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	int ret;

	if (fd < 0)
		return fd;
	for (;;) {
		ret = consume(receiver, group);
		if (ret == 0 || (ret < 0 && ret != -EAGAIN))
			return ret;
		if (ret == -EAGAIN && poll(&pollfd, 1, -1) < 0 &&
		    errno != EINTR)
			return -errno;
	}
}

static int receive_in_group(struct dfi *dfi, struct receiver *receiver)
{
	struct dfi_target_group_attr attr = DFI_TARGET_GROUP_ATTR_INIT;
	struct dfi_target_group *group;
	int ret;

	attr.flags = DFI_NONBLOCK;
	ret = dfi_target_group_open(dfi, &attr, &group);
	if (ret < 0)
		return ret;
	ret = dfi_target_group_add(group, receiver->targets[0], NULL);
	if (!ret)
		ret = receive(receiver, dfi_target_group_fd(group), group);
	dfi_target_group_close(group);
	return ret;
}

int idle_receive(struct dfi *dfi, struct receiver *receiver)
{
	struct dfi_target *target = receiver->targets[0];

	if (receiver->plan->how == HOW_GROUP)
		return receive_in_group(dfi, receiver);
	return receive(receiver, dfi_target_fd(target), NULL);
}

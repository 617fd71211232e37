/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving loops, one for each way out of a flow. Each exists twice:
 * measured rounds sum tuples of a constant size, and other rounds check the
 * content of tuples of any size.
 */
#include "flow_job.h"

/* Read a tuple; check is a constant where this is inlined. */
static force_inline void take(struct receiver *receiver, uint32_t index,
    const char *tuple, size_t tuple_size, struct word_sum *sum, bool check)
{
	tuple_sum(tuple, tuple_size, sum);
	if (check && !flow_check(receiver, index, tuple, ANY_SOURCE))
		receiver->bad++;
}

static force_inline int receive_each(
    struct receiver *receiver, size_t tuple_size, bool check)
{
	struct dfi_target *target = receiver->targets[0];
	struct word_sum sum = { 0 };
	uint64_t tuples = 0;
	const void *tuple;
	int ret;

	while ((ret = dfi_target_consume(target, &tuple)) > 0) {
		take(receiver, 0, tuple, tuple_size, &sum, check);
		tuples++;
	}
	receiver->sum = sum;
	receiver->tuples = tuples;
	return ret;
}

static force_inline int receive_cursor(
    struct receiver *receiver, size_t tuple_size, bool check)
{
	struct dfi_target_cursor cursor = dfi_target_cursor_open(
	    receiver->targets[0], tuple_size);
	struct word_sum sum = { 0 };
	uint64_t tuples = 0;
	const void *tuple;

	while ((tuple = dfi_target_cursor_get(&cursor, tuple_size))) {
		take(receiver, 0, tuple, tuple_size, &sum, check);
		tuples++;
	}
	receiver->sum = sum;
	receiver->tuples = tuples;
	return dfi_target_cursor_close(cursor);
}

/*
 * Uses a local sum: a sum that lives across calls of a flow may be in memory,
 * and each addition then waits for the last store.
 */
static force_inline void take_batch(struct receiver *receiver, uint32_t index,
    const struct dfi_batch *batch, size_t tuple_size, struct word_sum *sum,
    bool check)
{
	const char *tuple = batch->tuples;
	const char *end = tuple + (size_t)batch->count * tuple_size;
	uint64_t begin = index ? 0 : slow_begin(&receiver->slow);
	struct word_sum part = { 0 };

	for (; tuple != end; tuple += tuple_size) {
		tuple_sum(tuple, tuple_size, &part);
		if (check && !flow_check(receiver, index, tuple, batch->source))
			receiver->bad++;
	}
	word_sum_add(sum, &part);
	if (!index)
		slow_end(&receiver->slow, begin);
}

/* Let a batch pass the modelled link into its target's node. */
static inline void pass_link(
    struct receiver *receiver, uint32_t index, const struct dfi_batch *batch)
{
	const struct plan *plan = receiver->plan;

	if (receiver->links)
		link_pay(&receiver->links[link_target_node(
			     plan, receiver_target(receiver, index))],
		    plan, (uint64_t)batch->count * plan->tuple_size);
}

static force_inline int receive_batches(
    struct receiver *receiver, size_t tuple_size, bool check)
{
	struct dfi_target *target = receiver->targets[0];
	struct word_sum sum = { 0 };
	uint64_t tuples = 0;
	struct dfi_batch batch;
	int ret;

	while ((ret = dfi_target_consume_batch(target, &batch)) > 0) {
		pass_link(receiver, 0, &batch);
		take_batch(receiver, 0, &batch, tuple_size, &sum, check);
		tuples += batch.count;
		dfi_target_release(target, &batch);
	}
	receiver->sum = sum;
	receiver->tuples = tuples;
	return ret;
}

/*
 * Receive from several targets of one thread in turn, opened with DFI_NONBLOCK.
 */
static force_inline int receive_many(
    struct receiver *receiver, size_t tuple_size, bool check)
{
	uint32_t open = receiver->n_targets, i = 0, polls = 0;
	struct dfi_target *target;
	struct word_sum sum = { 0 };
	uint64_t tuples = 0;
	struct dfi_batch batch;
	int ret;

	while (open > 0) {
		target = receiver->targets[i];
		ret = receiver->ended[i]
		    ? -EAGAIN
		    : dfi_target_consume_batch(target, &batch);
		if (ret > 0) {
			pass_link(receiver, i, &batch);
			take_batch(
			    receiver, i, &batch, tuple_size, &sum, check);
			tuples += batch.count;
			dfi_target_release(target, &batch);
			polls = 0;
			continue;
		}
		if (ret == 0) {
			open--;
			receiver->ended[i] = true;
		} else if (ret != -EAGAIN) {
			return ret;
		}
		if (++i == receiver->n_targets)
			i = 0;
		raw_poll_pause(receiver->plan->yields, &polls);
	}
	receiver->sum = sum;
	receiver->tuples = tuples;
	return 0;
}

/*
 * Each loop is a separate function for tuples that are not checked: in one
 * function the loops compete for registers, and the sums end up in memory.
 */
#define UNCHECKED(loop)                                                      \
	static force_inline int loop##_unchecked(                            \
	    struct receiver *receiver, size_t tuple_size)                    \
	{                                                                    \
		return loop(receiver, tuple_size, false);                    \
	}                                                                    \
                                                                             \
	static __attribute__((noinline)) int loop##_by_size(                 \
	    struct receiver *receiver)                                       \
	{                                                                    \
		RETURN_BY_SIZE(                                              \
		    loop##_unchecked, receiver, receiver->plan->tuple_size); \
	}
UNCHECKED(receive_each)
UNCHECKED(receive_cursor)
UNCHECKED(receive_batches)
UNCHECKED(receive_many)

static int receive_checked(struct receiver *receiver)
{
	size_t tuple_size = receiver->plan->tuple_size;

	if (receiver->n_targets > 1)
		return receive_many(receiver, tuple_size, true);
	switch (receiver->plan->api) {
	case API_PUSH:
		return receive_each(receiver, tuple_size, true);
	case API_CURSOR:
		return receive_cursor(receiver, tuple_size, true);
	default:
		return receive_batches(receiver, tuple_size, true);
	}
}

int flow_receive(struct receiver *receiver)
{
	if (receiver->plan->check)
		return receive_checked(receiver);
	if (receiver->n_targets > 1)
		return receive_many_by_size(receiver);
	switch (receiver->plan->api) {
	case API_PUSH:
		return receive_each_by_size(receiver);
	case API_CURSOR:
		return receive_cursor_by_size(receiver);
	default:
		return receive_batches_by_size(receiver);
	}
}

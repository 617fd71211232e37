/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer owns partitions. It takes each event of a producer once and in
 * order, by its number: one that it has, or that lacks the one before it, is
 * passed over, as it comes again. Results and numbers go into the store
 * together, several times a second, and before a partition leaves. What was not
 * stored when a consumer dies, producers push again.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "../../common/complain.h"
#include "store.h"

enum {
	SAVE_MS = 100,
	WAIT_MS = 20,
};

struct consumer {
	const char *folder;
	struct dfi *dfi;
	struct dfi_target *target;
	uint64_t instance; /* of the flow */
	struct partition partitions[PARTITIONS];
	bool owned[PARTITIONS], changed[PARTITIONS];
	uint64_t watermark, save_at;
};

static struct dfi_target *to_stop;

static void on_signal(int signal)
{
	(void)signal;
	dfi_target_interrupt(to_stop);
}

static void forget(struct consumer *consumer, unsigned number)
{
	partition_free(&consumer->partitions[number]);
	consumer->owned[number] = consumer->changed[number] = false;
}

/* One that has a later owner, which has what is in the store, is forgotten. */
static int save(struct consumer *consumer, unsigned number)
{
	int ret;

	if (!consumer->owned[number] || !consumer->changed[number])
		return 0;
	ret = partition_save(consumer->folder, &consumer->partitions[number]);
	consumer->changed[number] = false;
	if (ret != -ESTALE)
		return ret;
	forget(consumer, number);
	return 0;
}

static int save_all(struct consumer *consumer)
{
	unsigned i;
	int ret = 0;

	for (i = 0; !ret && i < PARTITIONS; i++)
		ret = save(consumer, i);
	consumer->save_at = now_ns() + SAVE_MS * UINT64_C(1000000);
	return ret;
}

static int gain(struct consumer *consumer, const struct dfi_event *event)
{
	unsigned number = event->partition;
	int ret;

	forget(consumer, number);
	ret = partition_take(consumer->folder, number, consumer->instance,
	    event->epoch, &consumer->partitions[number]);
	if (ret == -ESTALE)
		return 0;
	consumer->owned[number] = !ret;
	return ret;
}

static int give_away(struct consumer *consumer, unsigned number)
{
	int ret = save(consumer, number);

	forget(consumer, number);
	if (ret < 0)
		return ret;
	return dfi_partition_release(consumer->target, number) < 0
	    ? flow_failed("the release of a partition")
	    : 0;
}

static int take_event(struct consumer *consumer)
{
	struct dfi_event event;
	int ret = dfi_target_event(consumer->target, &event);

	/* A partition that was to come may belong to another one by now. */
	if (ret < 0)
		return ret == -EAGAIN ? 0 : flow_failed("an event");
	if (event.type == DFI_GAINED)
		return gain(consumer, &event);
	if (event.type == DFI_LEAVING)
		return give_away(consumer, event.partition);
	if (event.type == DFI_MARK)
		consumer->watermark = event.value;
	return 0;
}

static int take(struct consumer *consumer, const struct tuple *tuple)
{
	unsigned number = partition_of(tuple->sensor);
	struct partition *partition = &consumer->partitions[number];
	uint64_t end = tuple->time / WINDOW_MS * WINDOW_MS + WINDOW_MS;

	if (!consumer->owned[number] || tuple->producer >= PRODUCERS ||
	    tuple->number != partition->seen[tuple->producer] + 1)
		return 0;
	partition->seen[tuple->producer]++;
	consumer->changed[number] = true;
	return partition_add(partition, tuple, consumer->watermark >= end) < 0
	    ? complain("no memory for results")
	    : 0;
}

static int take_batch(struct consumer *consumer, const struct dfi_batch *batch)
{
	const struct tuple *tuples = batch->tuples;
	uint32_t i;
	int ret = 0;

	for (i = 0; !ret && i < batch->count; i++)
		ret = take(consumer, &tuples[i]);
	return ret;
}

/*
 * Until the flow ends: 0. -EINTR: a signal came. -ESTALE: this consumer was
 * put out. Other errors after a complaint.
 */
static int work(struct consumer *consumer)
{
	struct dfi_batch batch;
	int ret;

	for (;;) {
		ret = dfi_target_consume_batch(consumer->target, &batch);
		if (!ret || ret == -EINTR || ret == -ESTALE)
			return ret;
		if (ret > 0) {
			ret = take_batch(consumer, &batch);
			dfi_target_release(consumer->target, &batch);
		} else if (ret == -ENOMSG) {
			ret = take_event(consumer);
		} else if (ret == -ETIMEDOUT) {
			ret = 0;
		} else {
			return flow_failed("a consumer");
		}
		if (!ret && now_ns() >= consumer->save_at)
			ret = save_all(consumer);
		if (ret < 0)
			return ret;
	}
}

static int open_target(struct consumer *consumer)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;

	int ret;

	attr.schema = &tuple_schema;
	attr.flags = DFI_EVENTS;
	attr.stall_timeout_ms = WAIT_MS;
	/* One that was stopped has lost the registry as well, for a moment. */
	while ((ret = dfi_target_open(consumer->dfi, FLOW, DFI_ANY_SEAT, &attr,
		    &consumer->target)) == -ENOTCONN)
		sleep_ms(10);
	if (ret < 0)
		return flow_failed("a consumer");
	to_stop = consumer->target;
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	return 0;
}

static void close_target(struct consumer *consumer)
{
	unsigned i;

	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	(void)dfi_target_close(consumer->target);
	for (i = 0; i < PARTITIONS; i++)
		forget(consumer, i);
}

/* A consumer that was put out comes again; others have its partitions. */
static int serve(struct consumer *consumer)
{
	int ret, err;

	do {
		if (open_target(consumer) < 0)
			return -1;
		ret = work(consumer);
		err = ret == -ESTALE ? 0 : save_all(consumer);
		close_target(consumer);
		if (err < 0)
			return err;
	} while (ret == -ESTALE);
	return ret == -EINTR ? 0 : ret;
}

int consume(const char *folder)
{
	struct consumer *consumer = calloc(1, sizeof(*consumer));
	struct dfi_flow_info info;
	unsigned i;
	int ret;

	if (!consumer)
		return complain("no memory for a consumer") != 0;
	consumer->folder = folder;
	for (i = 0; i < PARTITIONS; i++)
		consumer->partitions[i].number = i;
	if (dfi_open(NULL, &consumer->dfi) < 0) {
		free(consumer);
		return flow_failed("the registry") != 0;
	}
	ret = create_flow(consumer->dfi);
	if (!ret && dfi_flow_lookup(consumer->dfi, FLOW, &info) < 0)
		ret = flow_failed("the flow");
	if (!ret) {
		consumer->instance = info.instance;
		ret = serve(consumer);
	}
	dfi_close(consumer->dfi);
	free(consumer);
	return ret < 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes numbers from a sequencer, and from a bare word in the data area. A
 * seat's sum is that of the first numbers of all its ranges; bad counts numbers
 * that did not ascend.
 */
#include <stdatomic.h>

#include "worker.h"

static int sequencer_prepare(struct worker *worker)
{
	struct dfi_sequencer *sequencer;
	int ret = dfi_sequencer_open(
	    worker->dfi, worker->plan->flow, 0, &sequencer);

	if (ret < 0)
		return worker_fail(worker, ret, "open");
	worker->state = sequencer;
	return 0;
}

static int sequencer_run(struct worker *worker)
{
	struct dfi_sequencer *sequencer = worker->state;
	uint32_t batch = worker->plan->batch;
	uint64_t i, number, least = 0, sum = 0, bad = 0;
	int ret;

	for (i = 0; i < worker->plan->tuples; i++) {
		ret = dfi_sequencer_next(sequencer, batch, &number);
		if (ret < 0)
			return worker_fail(worker, ret, "next");
		sum += number;
		bad += number < least;
		least = number + batch;
	}
	worker->seat->tuples = i;
	worker->seat->sum = sum;
	worker->seat->bad = bad;
	return 0;
}

static void sequencer_finish(struct worker *worker)
{
	dfi_sequencer_close(worker->state);
}

const struct job sequencer_job = {
	.prepare = sequencer_prepare,
	.run = sequencer_run,
	.finish = sequencer_finish,
};

static int fetch_add_prepare(struct worker *worker)
{
	worker->state = board_data(worker->board);
	return 0;
}

static int fetch_add_run(struct worker *worker)
{
	_Atomic uint64_t *word = worker->state;
	uint32_t batch = worker->plan->batch;
	uint64_t i, number, least = 0, sum = 0, bad = 0;

	for (i = 0; i < worker->plan->tuples; i++) {
		number = atomic_fetch_add(word, batch);
		sum += number;
		bad += number < least;
		least = number + batch;
	}
	worker->seat->tuples = i;
	worker->seat->sum = sum;
	worker->seat->bad = bad;
	return 0;
}

static void fetch_add_finish(struct worker *worker)
{
	(void)worker;
}

const struct job fetch_add_job = {
	.prepare = fetch_add_prepare,
	.run = fetch_add_run,
	.finish = fetch_add_finish,
};

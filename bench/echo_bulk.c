/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of bulk data beside round trips. */
#include "echo_bulk.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

/* Bytes of a push: an end looks for replies after each. */
#define PART 1024

int echo_bulk_open(struct worker *worker, struct echo_bulk *bulk)
{
	struct dfi_source_attr source = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr target = DFI_TARGET_ATTR_INIT;
	const struct plan *plan = worker->plan;
	int ret;

	if (!plan->bulk)
		return 0;
	bulk->plan = plan;
	bulk->yields = plan->echo == ECHO_YIELD;
	tuple_schema_init(&bulk->schema, plan->tuple_size);
	source.schema = target.schema = &bulk->schema.schema;
	source.flags = target.flags = DFI_NONBLOCK;
	if (worker->seat->role == ROLE_TARGET) {
		ret = dfi_target_open(
		    worker->dfi, plan->bulk_flow, 0, &target, &bulk->target);
		return ret ? worker_fail(worker, ret, "dfi_target_open") : 0;
	}
	bulk->table = plan_make_table(plan, 0);
	if (!bulk->table)
		return worker_fail_errno(worker, "a table of tuples");
	ret = dfi_source_open(
	    worker->dfi, plan->bulk_flow, 0, &source, &bulk->source);
	return ret ? worker_fail(worker, ret, "dfi_source_open") : 0;
}

/* How many tuples were pushed. */
static int push(struct echo_bulk *bulk)
{
	size_t size = bulk->plan->tuple_size;
	uint64_t n_table = plan_table_tuples(bulk->plan);
	uint64_t at = bulk->tuples % n_table;
	uint64_t n = size < PART ? PART / size : 1;
	int ret;

	n = n < n_table - at ? n : n_table - at;
	ret = dfi_source_push_batch(
	    bulk->source, bulk->table + at * size, (uint32_t)n);
	bulk->refused = ret != (int)n;
	if (ret > 0)
		bulk->tuples += (uint64_t)ret;
	return ret;
}

/* 1; 0 at the end. */
static int take(struct echo_bulk *bulk)
{
	size_t size = bulk->plan->tuple_size;
	struct dfi_batch batch;
	const char *tuple;
	uint32_t i;
	int ret = dfi_target_consume_batch(bulk->target, &batch);

	if (ret <= 0)
		return ret;
	tuple = batch.tuples;
	for (i = 0; i < batch.count; i++, tuple += size)
		tuple_sum(tuple, size, &bulk->sum);
	bulk->tuples += batch.count;
	dfi_target_release(bulk->target, &batch);
	return 1;
}

int echo_bulk_turn(struct echo_bulk *bulk)
{
	int ret = bulk->source ? push(bulk) : take(bulk);

	if (ret != -EAGAIN)
		return ret < 0 ? ret : 0;
	if (bulk->yields)
		sched_yield();
	return 0;
}

static uint64_t sum_of_pushed(const struct echo_bulk *bulk)
{
	struct plan plan = *bulk->plan;

	plan.job = JOB_FLOW;
	plan.api = API_BATCH;
	plan.tuples = bulk->tuples;
	return plan_source_sum(&plan, 0);
}

int echo_bulk_end(struct echo_bulk *bulk, uint64_t *sum)
{
	int ret = 0;

	*sum = 0;
	if (bulk->source) {
		/* The flow's end would be an error after a push that failed. */
		while (bulk->refused && (ret >= 0 || ret == -EAGAIN))
			ret = push(bulk);
		if (bulk->refused)
			return ret;
		*sum = sum_of_pushed(bulk);
		ret = dfi_source_close(bulk->source);
		bulk->source = NULL;
	} else if (bulk->target) {
		do
			ret = take(bulk);
		while (ret > 0 || ret == -EAGAIN);
		*sum = word_sum_total(&bulk->sum);
	}
	return ret;
}

void echo_bulk_close(struct echo_bulk *bulk)
{
	if (bulk->source) {
		dfi_source_abort(bulk->source);
		dfi_source_close(bulk->source);
	}
	if (bulk->target)
		dfi_target_close(bulk->target);
	free(bulk->table);
}

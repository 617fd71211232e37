/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job of a flow's round: open the endpoints of a thread, send or receive,
 * close. Opening maps and touches the rings, so it comes before the start.
 */
#include "combine_job.h"

#include <errno.h>
#include <stdlib.h>
#include "idle_receive.h"

/* A thread's state from prepare to finish. */
struct flow_state {
	struct tuple_schema schema;
	struct sender sender;
	struct receiver receiver;
	struct dfi_combiner *combiner;
};

/* Whether a seat is a combiner's and not a target's; sets its number. */
static bool is_combiner(const struct worker *worker, uint32_t *number)
{
	uint32_t n_targets = worker->plan->n_target_threads;

	*number = worker->seat->number - n_targets;
	return worker->seat->role == ROLE_TARGET &&
	    worker->seat->number >= n_targets;
}

void tuple_schema_init(struct tuple_schema *schema, uint32_t tuple_size)
{
	uint32_t key = (uint32_t)tuple_word_size(tuple_size);

	*schema = (struct tuple_schema){
		.fields = {
			{
				.name = "key",
				.type = key == 8 ? DFI_UINT64
				    : key == 4   ? DFI_UINT32
				    : key == 2   ? DFI_UINT16
						 : DFI_UINT8,
				.size = key,
			},
			{
				.name = "rest",
				.type = DFI_BYTES,
				.offset = key,
				.size = tuple_size - key,
			},
		},
		.schema = {
			.n_fields = tuple_size > key ? 2 : 1,
			.tuple_size = tuple_size,
		},
	};
	schema->schema.fields = schema->fields;
}

static int prepare_sender(struct worker *worker, struct flow_state *state)
{
	const struct plan *plan = worker->plan;
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct sender *sender = &state->sender;
	uint32_t number = worker->seat->number;
	int ret;

	sender->plan = plan;
	if (plan->link_bandwidth)
		sender->link = &worker->board->links[LINK_OUT][link_source_node(
		    plan, number)];
	slow_init(&sender->slow, number ? 0 : plan->slow_source);
	sender->first_word = source_first_word(number);
	sender->scratch = aligned_alloc(64, (plan->tuple_size + 63) / 64 * 64);
	if (!sender->scratch)
		return worker_fail_errno(worker, "a tuple");
	if (plan->api == API_BATCH) {
		sender->table = plan_make_table(plan, number);
		sender->table_tuples = plan_table_tuples(plan);
		if (!sender->table)
			return worker_fail_errno(worker, "a table of tuples");
	}
	if (sender->link) {
		link_queue_init(&sender->queue, plan);
		if (!sender->queue.due)
			return worker_fail_errno(worker, "a modelled link");
	}
	attr.schema = &state->schema.schema;
	attr.wait = plan->wait;
	attr.flags = sender->slow.factor ? DFI_NONBLOCK : 0;
	ret = dfi_source_open(
	    worker->dfi, plan->flow, number, &attr, &sender->source);
	if (ret)
		return worker_fail(worker, ret, "dfi_source_open");
	/* Targets end when this source has. */
	ret = plan->is_open ? dfi_flow_finish(worker->dfi, plan->flow) : 0;
	return ret ? worker_fail(worker, ret, "dfi_flow_finish") : 0;
}

static int prepare_receiver(struct worker *worker, struct flow_state *state)
{
	const struct plan *plan = worker->plan;
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct receiver *receiver = &state->receiver;
	uint32_t i, thread = worker->seat->number;
	uint32_t n = (plan->n_targets - thread + plan->n_target_threads - 1) /
	    plan->n_target_threads;
	int ret;

	receiver->plan = plan;
	if (plan->link_bandwidth)
		receiver->links = worker->board->links[LINK_IN];
	slow_init(&receiver->slow, thread ? 0 : plan->slow_target);
	receiver->thread = thread;
	receiver->n_targets = n;
	receiver->targets = calloc(n, sizeof(struct dfi_target *));
	receiver->ended = calloc(n, sizeof(bool));
	receiver->next = calloc((size_t)n * plan->n_sources, sizeof(uint64_t));
	if (!receiver->targets || !receiver->ended || !receiver->next)
		return worker_fail_errno(worker, "a receiver");
	attr.schema = &state->schema.schema;
	attr.wait = plan->wait;
	if (n > 1 || plan->how != HOW_CONSUME)
		attr.flags = DFI_NONBLOCK;
	for (i = 0; i < n; i++) {
		ret = dfi_target_open(worker->dfi, plan->flow,
		    receiver_target(receiver, i), &attr, &receiver->targets[i]);
		if (ret)
			return worker_fail(worker, ret, "dfi_target_open");
	}
	return 0;
}

static int prepare_combiner(
    struct worker *worker, uint32_t number, struct flow_state *state)
{
	struct dfi_combiner_attr attr = DFI_COMBINER_ATTR_INIT;
	int ret;

	attr.wait = worker->plan->wait;
	ret = dfi_combiner_open(
	    worker->dfi, worker->plan->flow, number, &attr, &state->combiner);
	return ret ? worker_fail(worker, ret, "dfi_combiner_open") : 0;
}

static void init_schema(struct worker *worker, struct tuple_schema *schema)
{
	const struct plan *plan = worker->plan;

	if (plan->job != JOB_COMBINE)
		tuple_schema_init(schema, plan->tuple_size);
	else if (worker->seat->role == ROLE_SOURCE)
		value_schema_init(schema, plan->tuple_size);
	else
		result_schema_init(schema, plan->n_groups);
}

static int flow_prepare(struct worker *worker)
{
	struct flow_state *state = calloc(1, sizeof(*state));
	uint32_t combiner;

	if (!state)
		return worker_fail_errno(worker, "a worker");
	worker->state = state;
	if (is_combiner(worker, &combiner))
		return prepare_combiner(worker, combiner, state);
	init_schema(worker, &state->schema);
	if (worker->seat->role == ROLE_SOURCE)
		return prepare_sender(worker, state);
	return prepare_receiver(worker, state);
}

/* Closing ends the flow, so it is part of the run. */
static int run_sender(struct worker *worker, struct sender *sender)
{
	struct seat *seat = worker->seat;
	int sent = worker->plan->job == JOB_COMBINE ? combine_send(sender)
						    : flow_send(sender),
	    closed;
	struct dfi_source_stats stats;

	if (sent >= 0)
		do
			sent = dfi_source_flush(sender->source);
		while (sent == -EAGAIN && sender->slow.factor);
	if (sent < 0)
		worker_fail(worker, sent, "sending");
	dfi_source_query(sender->source, &stats);
	closed = dfi_source_close(sender->source);
	sender->source = NULL;
	if (sent < 0)
		return sent;
	if (closed < 0)
		return worker_fail(worker, closed, "dfi_source_close");
	seat->segments = stats.segments;
	seat->copied = stats.copied_bytes;
	seat->tuples = worker->plan->tuples;
	seat->sum = plan_source_sum(worker->plan, seat->number);
	return 0;
}

static int receive(struct worker *worker, struct receiver *receiver)
{
	if (worker->plan->how != HOW_CONSUME)
		return idle_receive(worker->dfi, receiver);
	return worker->plan->job == JOB_COMBINE ? combine_receive(receiver)
						: flow_receive(receiver);
}

static int run_receiver(struct worker *worker, struct receiver *receiver)
{
	struct seat *seat = worker->seat;
	int ret = receive(worker, receiver);

	if (ret < 0)
		return worker_fail(worker, ret, "receiving");
	seat->tuples = receiver->tuples;
	seat->sum = word_sum_total(&receiver->sum);
	seat->bad = receiver->bad;
	return 0;
}

static int run_combiner(struct worker *worker, struct flow_state *state)
{
	int ret = dfi_combiner_run(state->combiner), closed;

	if (ret < 0)
		worker_fail(worker, ret, "combining");
	closed = dfi_combiner_close(state->combiner);
	state->combiner = NULL;
	if (ret < 0)
		return ret;
	return closed < 0 ? worker_fail(worker, closed, "dfi_combiner_close")
			  : 0;
}

static int flow_run(struct worker *worker)
{
	struct flow_state *state = worker->state;

	if (state->combiner)
		return run_combiner(worker, state);

	if (worker->seat->role == ROLE_SOURCE)
		return run_sender(worker, &state->sender);
	return run_receiver(worker, &state->receiver);
}

static void flow_finish(struct worker *worker)
{
	struct flow_state *state = worker->state;
	uint32_t i;

	if (!state)
		return;
	if (state->sender.source) {
		dfi_source_abort(state->sender.source);
		dfi_source_close(state->sender.source);
	}
	if (state->combiner)
		dfi_combiner_close(state->combiner);
	for (i = 0; state->receiver.targets && i < state->receiver.n_targets;
	     i++)
		if (state->receiver.targets[i])
			dfi_target_close(state->receiver.targets[i]);
	free(state->receiver.targets);
	free(state->receiver.ended);
	free(state->receiver.next);
	free(state->sender.scratch);
	free(state->sender.table);
	free(state->sender.queue.due);
	free(state);
}

/* A check of sums has one sum for each group. */
static uint64_t flow_needs(const struct plan *plan)
{
	uint64_t needs = plan_tables_size(plan);

	if (plan->job == JOB_COMBINE && plan->check)
		needs += plan->n_groups * sizeof(uint64_t);
	return needs;
}

const struct job flow_job = {
	.needs = flow_needs,
	.prepare = flow_prepare,
	.run = flow_run,
	.finish = flow_finish,
};

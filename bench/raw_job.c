/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jobs of the baselines: tuples through hand-written rings, and a plain
 * copy of memory. The rings lie in the board's data area.
 */
#include <stdlib.h>
#include <string.h>

#include "worker.h"

#define PAGE 4096

struct raw_state {
	struct raw_stream stream;
	struct raw_intake intake;
};

static void *ring_at(struct worker *worker, uint32_t source, uint32_t lane)
{
	return board_data(worker->board) +
	    plan_ring_offset(worker->plan, source, lane);
}

/* Touch every page of a ring, without changing what a peer may have written. */
static void touch(char *ring, size_t size)
{
	_Atomic unsigned char *byte;
	size_t i;

	for (i = 0; i < size; i += PAGE) {
		byte = (_Atomic unsigned char *)(void *)(ring + i);
		atomic_fetch_or(byte, 0);
	}
}

static int prepare_stream(struct worker *worker, struct raw_state *state)
{
	const struct plan *plan = worker->plan;
	struct raw_stream *stream = &state->stream;
	uint32_t n_readers = plan_copies(plan), lane, i, polls;
	uint32_t source = worker->seat->number;
	struct raw_header *headers;

	stream->n_targets = plan_lanes(plan);
	stream->segment_size = plan->geometry.segment_size;
	stream->tuples = plan->tuples;
	stream->first_word = source_first_word(source);
	stream->writers = calloc(stream->n_targets, sizeof(*stream->writers));
	if (!stream->writers)
		return worker_fail_errno(worker, "writers");
	for (lane = 0; lane < stream->n_targets; lane++) {
		headers = ring_at(worker, source, lane);
		/*
		 * The target must own the memory, so it touches the ring first.
		 */
		for (i = 0; i < n_readers; i++)
			for (polls = RAW_SPINS;
			     !atomic_load(&headers[i].ready);)
				raw_poll_pause(true, &polls);
		touch(
		    (char *)headers, raw_ring_size(&plan->geometry, n_readers));
		raw_writer_init(&stream->writers[lane], headers,
		    &plan->geometry, n_readers, plan->yields);
	}
	if (plan->api == API_BATCH) {
		stream->table = plan_make_table(plan, source);
		stream->table_tuples = plan_table_tuples(plan);
		if (!stream->table)
			return worker_fail_errno(worker, "a table of tuples");
	}
	stream->scratch = malloc(plan->tuple_size);
	if (!stream->scratch)
		return worker_fail_errno(worker, "a tuple");
	return 0;
}

static int prepare_intake(struct worker *worker, struct raw_state *state)
{
	const struct plan *plan = worker->plan;
	struct raw_intake *intake = &state->intake;
	uint32_t source, target, n_readers = plan_copies(plan), n = 0;
	uint32_t lane, number;
	struct raw_header *headers;

	intake->yields = plan->yields;
	intake->readers = calloc((size_t)plan->n_sources * plan->n_targets,
	    sizeof(*intake->readers));
	if (!intake->readers)
		return worker_fail_errno(worker, "readers");
	for (target = worker->seat->number; target < plan->n_targets;
	     target += plan->n_target_threads) {
		lane = plan_lanes(plan) == 1 ? 0 : target;
		number = plan->replicates ? target : 0;
		for (source = 0; source < plan->n_sources; source++) {
			if (plan->paired && source != target)
				continue;
			headers = ring_at(worker, source, lane);
			touch((char *)headers,
			    raw_ring_size(&plan->geometry, n_readers));
			raw_reader_init(&intake->readers[n++], headers,
			    &plan->geometry, n_readers, number,
			    plan->credit_interval);
			atomic_store(&headers[number].ready, 1);
		}
	}
	intake->n_readers = n;
	return 0;
}

static int raw_prepare(struct worker *worker)
{
	struct raw_state *state = calloc(1, sizeof(*state));

	if (!state)
		return worker_fail_errno(worker, "a worker");
	worker->state = state;
	if (worker->seat->role == ROLE_SOURCE)
		return prepare_stream(worker, state);
	return prepare_intake(worker, state);
}

static void run_stream(struct worker *worker, struct raw_stream *stream)
{
	const struct plan *plan = worker->plan;
	struct seat *seat = worker->seat;

	if (plan->api == API_BATCH)
		raw_send_table(stream, plan->tuple_size);
	else if (plan->api == API_PUSH && plan_lanes(plan) > 1)
		raw_send_routed(stream, plan->tuple_size);
	else if (plan->copies)
		raw_send_copied(stream, plan->tuple_size);
	else
		raw_send_in_place(stream, plan->tuple_size);
	seat->tuples = plan->tuples;
	seat->sum = plan_source_sum(plan, seat->number);
}

static int raw_run(struct worker *worker)
{
	struct raw_state *state = worker->state;
	struct seat *seat = worker->seat;

	if (seat->role == ROLE_SOURCE) {
		run_stream(worker, &state->stream);
		return 0;
	}
	raw_receive(&state->intake, worker->plan->tuple_size);
	seat->tuples = state->intake.tuples;
	seat->sum = word_sum_total(&state->intake.sum);
	seat->bad = 0;
	return 0;
}

static void raw_finish(struct worker *worker)
{
	struct raw_state *state = worker->state;

	if (!state)
		return;
	free(state->stream.writers);
	free(state->intake.readers);
	free(state->stream.table);
	free(state->stream.scratch);
	free(state);
}

const struct job raw_job = {
	.needs = plan_tables_size,
	.prepare = raw_prepare,
	.run = raw_run,
	.finish = raw_finish,
};

/*
 * Copy blocks from the memory of one ring to another: the speed of one core
 * alone. The data area holds two rings.
 */
static int copy_prepare(struct worker *worker)
{
	size_t size = raw_ring_size(&worker->plan->geometry, 1);

	touch(board_data(worker->board), 2 * size);
	return 0;
}

static int copy_run(struct worker *worker)
{
	const struct plan *plan = worker->plan;
	size_t block = plan->geometry.segment_size, at = 0;
	size_t ring = block * plan->geometry.segment_count;
	char *from = board_data(worker->board);
	char *to = from + raw_ring_size(&plan->geometry, 1);
	uint64_t left = plan->tuples * plan->tuple_size / block;

	for (; left > 0; left--) {
		memcpy(to + at, from + at, block);
		/* Otherwise the compiler may drop a copy that nothing reads. */
		__asm__ volatile("" : : "r"(to) : "memory");
		at += block;
		if (at == ring)
			at = 0;
	}
	worker->seat->tuples = plan->tuples;
	worker->seat->sum = 0;
	return 0;
}

static void copy_finish(struct worker *worker)
{
	(void)worker;
}

const struct job copy_job = {
	.prepare = copy_prepare,
	.run = copy_run,
	.finish = copy_finish,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The baseline of combiner flows: a loop sums tuples in memory by their keys,
 * written for this purpose only. Its hash table is like the library's: slots
 * with half of the hash and the number of a record, and records in the order in
 * which groups came. The target's thread runs it; the source only says what to
 * sum.
 */
#include <stdlib.h>

#include "combine_job.h"

/* Slots for each group, as many as in the library. */
#define FEW_SLOTS 2
#define MANY_SLOTS 16
#define MANY_SLOTS_SIZE (UINT64_C(512) << 10)

struct fold_slot {
	uint32_t tag;
	uint32_t record; /* its number plus 1; 0: the slot is free */
};

struct fold_record {
	uint64_t key, sum;
};

struct fold_state {
	const struct plan *plan;
	char *tuples;
	uint64_t n; /* of records */
	struct fold_slot *slots;
	uint64_t n_slots;
	struct fold_record *records;
	uint64_t n_records;
};

static uint64_t slots_for(uint64_t n_groups)
{
	uint64_t n = 256;

	while (n < FEW_SLOTS * n_groups ||
	    (n < MANY_SLOTS * n_groups &&
		2 * n * sizeof(struct fold_slot) <= MANY_SLOTS_SIZE))
		n *= 2;
	return n;
}

static uint64_t tuples_size(const struct plan *plan)
{
	uint64_t size = plan_fold_tuples(plan) * plan->tuple_size;

	return (size + 63) / 64 * 64;
}

static uint64_t fold_needs(const struct plan *plan)
{
	return tuples_size(plan) +
	    slots_for(plan->n_groups) * sizeof(struct fold_slot) +
	    (plan->n_groups + 1) * sizeof(struct fold_record);
}

static int fold_prepare(struct worker *worker)
{
	const struct plan *plan = worker->plan;
	struct pattern pattern = pattern_from(source_first_word(0));
	struct fold_state *state;
	uint64_t i;

	if (worker->seat->role == ROLE_SOURCE)
		return 0;
	state = calloc(1, sizeof(*state));
	worker->state = state;
	if (!state)
		return worker_fail_errno(worker, "a worker");
	state->plan = plan;
	state->n = plan_fold_tuples(plan);
	state->n_slots = slots_for(plan->n_groups);
	state->tuples = aligned_alloc(64, tuples_size(plan));
	state->slots = calloc(state->n_slots, sizeof(*state->slots));
	state->records = calloc(plan->n_groups + 1, sizeof(*state->records));
	if (!state->tuples || !state->slots || !state->records)
		return worker_fail_errno(worker, "tuples to fold");
	for (i = 0; i < state->n; i++)
		if (plan->n_groups)
			tuple_fill_group(state->tuples + i * plan->tuple_size,
			    plan->tuple_size, &pattern, plan->n_groups);
		else
			tuple_fill(state->tuples + i * plan->tuple_size,
			    plan->tuple_size, &pattern);
	return 0;
}

static force_inline struct fold_record *find(
    struct fold_state *state, uint64_t key)
{
	const uint64_t hash = dfi_hash64(key), mask = state->n_slots - 1;
	const uint32_t tag = (uint32_t)(hash >> 32);
	struct fold_record *record;
	struct fold_slot *slot;
	uint64_t at;

	for (at = hash & mask;; at = (at + 1) & mask) {
		slot = &state->slots[at];
		if (!slot->record)
			break;
		record = &state->records[slot->record - 1];
		if (slot->tag == tag && record->key == key)
			return record;
	}
	record = &state->records[state->n_records++];
	record->key = key;
	slot->tag = tag;
	slot->record = (uint32_t)state->n_records;
	return record;
}

static force_inline int fold_groups(struct fold_state *state, size_t tuple_size)
{
	/*
	 * A local copy, so that the compiler sees that nothing else changes it.
	 */
	struct fold_state copy = *state;
	uint64_t left = state->plan->tuples, value, n, i;
	const char *tuple;

	for (; left > 0; left -= n) {
		n = left < copy.n ? left : copy.n;
		tuple = copy.tuples;
		for (i = 0; i < n; i++, tuple += tuple_size) {
			memcpy(&value, tuple + 8, sizeof(value));
			find(&copy, tuple_key(tuple, tuple_size))->sum += value;
		}
	}
	state->n_records = copy.n_records;
	return 0;
}

/* There is no group_by. */
static force_inline int fold_one(struct fold_state *state, size_t tuple_size)
{
	uint64_t left = state->plan->tuples, sum = 0, value, n, i;
	const char *tuple;

	for (; left > 0; left -= n) {
		n = left < state->n ? left : state->n;
		tuple = state->tuples;
		for (i = 0; i < n; i++, tuple += tuple_size) {
			memcpy(&value, tuple + 8, sizeof(value));
			sum += value;
		}
	}
	state->records[0].sum = sum;
	state->n_records = 1;
	return 0;
}

static int fold_by_size(struct fold_state *state)
{
	if (state->plan->n_groups)
		RETURN_BY_SIZE(fold_groups, state, state->plan->tuple_size);
	RETURN_BY_SIZE(fold_one, state, state->plan->tuple_size);
}

static int fold_run(struct worker *worker)
{
	struct fold_state *state = worker->state;
	struct seat *seat = worker->seat;
	uint64_t i, sum = 0;

	seat->tuples = worker->plan->tuples;
	if (seat->role == ROLE_SOURCE) {
		seat->sum = plan_source_sum(worker->plan, seat->number);
		return 0;
	}
	fold_by_size(state);
	for (i = 0; i < state->n_records; i++)
		sum += state->records[i].sum;
	seat->sum = sum;
	return 0;
}

static void fold_finish(struct worker *worker)
{
	struct fold_state *state = worker->state;

	if (!state)
		return;
	free(state->tuples);
	free(state->slots);
	free(state->records);
	free(state);
}

const struct job fold_job = {
	.needs = fold_needs,
	.prepare = fold_prepare,
	.run = fold_run,
	.finish = fold_finish,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load generator on a store in its own process, which answers as the test
 * decides: tests the counts, and that latencies show a store that stops.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/consensus/load_group.h"

#define MS UINT64_C(1000000)
#define RECORDS 100

/* Faults of the store. Each client's process has its own copy. */
static struct {
	uint64_t stop_ns, stop_for_ns; /* after its opening: no answers */
	bool forgets, mixes_up, refuses, loses;
	bool full; /* takes one request at a time */
} faults;

struct store {
	uint64_t opened;
	load_done *done;
	void *arg;
	struct {
		bool busy, update;
		uint32_t record;
	} lanes[256];
	uint32_t n_lanes, n_busy;
	char values[RECORDS][64];
	bool present[RECORDS];
};

static void *store_open(const char *where, uint32_t number, uint32_t lanes,
    load_done *done, void *arg)
{
	struct store *store = calloc(1, sizeof(*store));

	(void)where;
	(void)number;
	cr_assert_not_null(store);
	store->opened = load_now();
	store->done = done;
	store->arg = arg;
	store->n_lanes = lanes;
	return store;
}

static void store_close(void *arg)
{
	free(arg);
}

static int store_submit(
    void *arg, uint32_t lane, const struct load_request *request)
{
	struct store *store = arg;
	char key[LOAD_KEY_SIZE + 1] = { 0 };
	uint32_t record;

	if (store->lanes[lane].busy || request->key_size != LOAD_KEY_SIZE)
		return -1;
	memcpy(key, request->key, LOAD_KEY_SIZE);
	record = (uint32_t)strtoul(key + 4, NULL, 10);
	if (faults.full && store->n_busy > 0)
		return 0;
	store->n_busy++;
	store->lanes[lane].busy = true;
	store->lanes[lane].update = request->value != NULL;
	store->lanes[lane].record = record % RECORDS;
	if (request->value) {
		memcpy(store->values[record % RECORDS], request->value,
		    request->value_size);
		store->present[record % RECORDS] = true;
	}
	return 1;
}

static void answer(struct store *store, uint32_t lane)
{
	uint32_t record = store->lanes[lane].record;
	enum load_outcome outcome = LOAD_OK;
	const char *value = NULL;

	if (faults.refuses)
		outcome = LOAD_REFUSED;
	else if (faults.loses)
		outcome = LOAD_UNKNOWN;
	else if (!store->lanes[lane].update &&
	    (faults.forgets || !store->present[record]))
		outcome = LOAD_MISSING;
	else if (!store->lanes[lane].update)
		value = store->values[record ^ (faults.mixes_up ? 1 : 0)];
	store->lanes[lane].busy = false;
	store->n_busy--;
	store->done(store->arg, lane, outcome, value, value ? 64 : 0);
}

static int store_poll(void *arg, uint64_t wait_ns)
{
	struct store *store = arg;
	uint64_t now = load_now() - store->opened;
	uint32_t i;

	(void)wait_ns;
	if (faults.stop_for_ns && now >= faults.stop_ns &&
	    now < faults.stop_ns + faults.stop_for_ns)
		return 0;
	for (i = 0; i < store->n_lanes; i++)
		if (store->lanes[i].busy)
			answer(store, i);
	return 0;
}

static const struct load_backend backend = {
	.name = "test",
	.where = "",
	.where_help = "",
	.max_lanes = 256,
	.open = store_open,
	.close = store_close,
	.submit = store_submit,
	.poll = store_poll,
};

/* One client fills the store for all, so there is one. */
static struct load_plan plan_of(double rate, uint32_t outstanding)
{
	return (struct load_plan){
		.backend = &backend,
		.where = "",
		.mix = { "test", 0.5, LOAD_UNIFORM },
		.records = RECORDS,
		.value_size = 64,
		.clients = 1,
		.outstanding = outstanding,
		.rate = rate,
		.warm_up_ns = 20 * MS,
		.length_ns = 300 * MS,
		.seed = 1,
		.fill = true,
	};
}

/* The leader's clock, not its clients': it jumps after the first look. */
static bool jumps;

uint64_t __real_load_now(void);
uint64_t __wrap_load_now(void);

uint64_t __wrap_load_now(void)
{
	static bool looked;
	uint64_t now = __real_load_now();

	if (jumps && looked)
		now += 400 * 1000 * MS;
	looked |= jumps;
	return now;
}

static struct load_result run(const struct load_plan *plan)
{
	struct load_result result;

	cr_assert_eq(load_run(plan, NULL, NULL, NULL, &result), 0);
	return result;
}

static uint64_t sum_of_slots(const struct load_result *result)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < result->n_slots; i++)
		sum += result->slots[i];
	return sum;
}

Test(load, closed_loop_counts_each_request)
{
	struct load_plan plan = plan_of(0, 8);
	struct load_result result = run(&plan);
	double reads;

	cr_assert_gt(result.completed, 1000);
	cr_assert_eq(sum_of_slots(&result), result.completed);
	cr_assert_eq(result.n_slots, 300);
	cr_assert_eq(result.missing + result.wrong + result.unknown +
		result.refused + result.unfinished,
	    0);
	cr_assert_eq(result.all.count,
	    result.latency[LOAD_READ].count +
		result.latency[LOAD_UPDATE].count);
	reads = (double)result.latency[LOAD_READ].count /
	    (double)result.all.count;
	cr_assert_float_eq(reads, 0.5, 0.1);
	cr_assert_gt(result.client_cpu_ns, 0);
	cr_assert_eq(load_result_check(&result, false), 0);
	load_result_free(&result);
}

Test(load, several_clients_are_added_up)
{
	struct load_plan plan = plan_of(3000, 4);
	struct load_result result;

	/* Without records: each client has a store of its own. */
	plan.fill = false;
	plan.clients = 3;
	plan.mix.reads = 0;
	result = run(&plan);
	/* 1000 a second each, for 0.3 s. */
	cr_assert_leq(abs((int)result.all.count - 900), 3, "%ju requests",
	    (uintmax_t)result.all.count);
	load_result_free(&result);
}

Test(load, open_loop_keeps_its_rate)
{
	struct load_plan plan = plan_of(10000, 64);
	struct load_result result = run(&plan);

	cr_assert_leq(abs((int)result.all.count - 3000), 1, "%ju requests",
	    (uintmax_t)result.all.count);
	cr_assert_eq(result.unfinished, 0);
	load_result_free(&result);
}

/*
 * For a third of the time there is no answer. With two lanes, a closed loop has
 * two long requests; an open loop has a third of all, half of which are longer
 * than half of the stop.
 */
Test(load, open_loop_shows_a_stop_in_its_percentiles)
{
	struct load_plan plan = plan_of(10000, 2);
	struct load_result open, closed;

	faults.stop_ns = 150 * MS;
	faults.stop_for_ns = 100 * MS;
	plan.length_ns = 600 * MS;
	open = run(&plan);
	plan.rate = 0;
	closed = run(&plan);
	cr_assert_gt(histogram_percentile(&open.all, 0.95), 40 * MS);
	cr_assert_gt(open.all.max, 90 * MS);
	cr_assert_lt(histogram_percentile(&closed.all, 0.95), 40 * MS);
	load_result_free(&open);
	load_result_free(&closed);
}

Test(load, requests_without_an_answer_count_as_unfinished)
{
	struct load_plan plan = plan_of(1000, 4);
	struct load_result result;

	faults.stop_ns = 1; /* right behind its opening, for good */
	faults.stop_for_ns = UINT64_C(3600000) * MS;
	plan.fill = false;
	result = run(&plan);
	cr_assert_eq(result.completed, 0);
	cr_assert_eq(result.unfinished, result.all.count);
	cr_assert_leq(abs((int)result.unfinished - 300), 1);
	/* With the time until they were given up, 2 s after the end. */
	cr_assert_gt(histogram_percentile(&result.all, 0.01), 1900 * MS);
	cr_assert_eq(load_result_check(&result, false), -1);
	load_result_free(&result);
}

Test(load, a_store_without_room_is_asked_again)
{
	struct load_plan plan = plan_of(0, 8);
	struct load_result result;

	faults.full = true;
	result = run(&plan);
	cr_assert_gt(result.completed, 100);
	cr_assert_eq(load_result_check(&result, false), 0);
	load_result_free(&result);
}

Test(load, values_of_other_keys_are_noticed)
{
	struct load_plan plan = plan_of(0, 2);
	struct load_result result;

	faults.mixes_up = true;
	result = run(&plan);
	cr_assert_gt(result.wrong, 0);
	cr_assert_eq(load_result_check(&result, true), -1);
	load_result_free(&result);
}

Test(load, lost_values_are_noticed)
{
	struct load_plan plan = plan_of(0, 2);
	struct load_result result;

	faults.forgets = true;
	result = run(&plan);
	cr_assert_gt(result.missing, 0);
	cr_assert_eq(load_result_check(&result, true), -1);
	load_result_free(&result);
}

Test(load, refused_requests_are_no_completions)
{
	struct load_plan plan = plan_of(0, 2);
	struct load_result result;

	faults.refuses = true;
	plan.fill = false;
	result = run(&plan);
	cr_assert_gt(result.refused, 0);
	cr_assert_eq(result.completed, 0);
	cr_assert_eq(result.all.count, 0);
	cr_assert_eq(load_result_check(&result, false), -1);
	load_result_free(&result);
}

Test(load, requests_of_unknown_outcome_count_in_latencies_only)
{
	struct load_plan plan = plan_of(0, 2);
	struct load_result result;

	faults.loses = true;
	plan.fill = false;
	result = run(&plan);
	cr_assert_gt(result.unknown, 0);
	cr_assert_eq(result.completed, 0);
	cr_assert_gt(result.all.count, 0);
	cr_assert_eq(load_result_check(&result, true), 0);
	load_result_free(&result);
}

/* A store that cannot be filled ends the load, with an error. */
Test(load, a_store_that_refuses_records_ends_the_load)
{
	struct load_plan plan = plan_of(0, 2);
	struct load_result result;

	faults.refuses = true;
	cr_assert_eq(load_run(&plan, NULL, NULL, NULL, &result), -1);
	load_result_free(&result);
}

/* Filling a large store takes longer than any limit of time. */
Test(load, clients_are_waited_for_as_long_as_they_live)
{
	struct load_plan plan = plan_of(0, 2);
	struct load_result result;

	jumps = true;
	result = run(&plan);
	cr_assert_gt(result.completed, 0);
	cr_assert_eq(result.unfinished, 0);
	load_result_free(&result);
}

static int end_early(void *arg, const struct load_progress *progress)
{
	uint64_t *seen = arg;

	*seen = progress->completed;
	return *seen > 0 ? -1 : 0;
}

Test(load, the_watcher_can_end_it)
{
	struct load_plan plan = plan_of(0, 2);
	struct load_result result;
	uint64_t seen = 0, begin = load_now();

	plan.length_ns = 3600 * 1000 * MS;
	cr_assert_eq(load_run(&plan, end_early, &seen, NULL, &result), -1);
	cr_assert_gt(seen, 0);
	cr_assert_lt(load_now() - begin, 60 * 1000 * MS);
	load_result_free(&result);
}

/* This process works while the load runs, so it has costs. */
Test(load, costs_of_processes_are_counted)
{
	struct load_plan plan = plan_of(0, 2);
	struct load_counts *counts = calloc(1, sizeof(*counts));
	struct load_result result;
	char text[32];

	cr_assert_not_null(counts);
	snprintf(text, sizeof(text), "self=%d", (int)getpid());
	cr_assert_eq(load_counts_add(counts, text), 0);
	cr_assert_eq(load_counts_add(counts, "none"), -1);
	cr_assert_eq(load_counts_add(counts, "none="), -1);
	cr_assert_eq(load_counts_add(counts, "none=1x"), -1);
	cr_assert_eq(load_counts_add(counts, "none=0"), -1);
	cr_assert_eq(load_counts_add(counts, "a-name-that-is-long=1"), -1);
	cr_assert_eq(counts->n, 1);
	cr_assert_eq(load_run(&plan, NULL, NULL, counts, &result), 0);
	cr_assert_not(counts->counts[0].ended);
	cr_assert_gt(counts->counts[0].cpu_ns, 0);
	cr_assert_lt(counts->counts[0].cpu_ns, 10 * plan.length_ns);
	load_result_free(&result);
	free(counts);
}

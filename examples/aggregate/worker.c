/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that fails exits at once. The first process notices that and ends
 * the others, even if they wait.
 */
#include "worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../common/complain.h"
#include "../../common/memory.h"
#include "../../common/threads.h"

/* How often the first process checks the others while it waits. */
#define WATCH_MS 50

/* Further memory of a process, by measurement. */
#define PROCESS_SIZE (UINT64_C(2) << 20)

struct pusher {
	const struct job *job;
	uint32_t source; /* of all processes' */
	pthread_t thread;
};

/* A thread with a combiner of the flow's tree. */
struct merger {
	const struct job *job;
	uint32_t combiner;
	pthread_t thread;
};

/* Without GROUP BY there is one group, which one target has. */
static uint32_t n_targets(const struct job *job)
{
	return job->plan->query->n_keys ? job->n_processes : 1;
}

static void results_name(const struct job *job, char name[DFI_MAX_FLOW_NAME])
{
	snprintf(name, DFI_MAX_FLOW_NAME, "%s.results", job->flow);
}

/* ---- Flows -----------------------------------------------------------------
 */

/*
 * Rings and source combiners fill up even if there are few rows. The library
 * limits the memory of target groups. *need adds up both flows.
 */
static int check_memory(
    const struct job *job, const struct dfi_flow_attr *flow, uint64_t *need)
{
	struct dfi_flow_needs needs;

	if (dfi_flow_estimate(job->dfi, flow, &needs) < 0)
		return complain("%s", dfi_errmsg());
	*need += flow->n_targets * needs.target_bytes +
	    flow->n_sources * needs.source_bytes +
	    needs.n_combiners * needs.combiner_bytes;
	return memory_check("the processes and their rings need",
	    *need + job->n_processes * PROCESS_SIZE,
	    "choose fewer (--processes, --threads)");
}

int job_create(const struct job *job)
{
	const struct plan *plan = job->plan;
	char results[DFI_MAX_FLOW_NAME];
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_schema *schema = NULL;
	uint64_t need = 0;
	int ret;

	results_name(job, results);
	attr.kind = DFI_COMBINE;
	attr.schema = &plan->schema;
	attr.n_sources = job->n_processes * job->n_threads;
	attr.n_targets = n_targets(job);
	attr.combine.group_by = plan->query->n_keys ? plan->group_by : NULL;
	attr.combine.aggregates = plan->aggregates;
	attr.combine.n_aggregates = plan->n_aggregates;
	attr.combine.max_groups = job->n_rows;
	attr.combine.fan_in = job->fan_in;
	if (check_memory(job, &attr, &need))
		return -1;
	ret = dfi_flow_create(job->dfi, job->flow, &attr);
	if (!ret)
		ret = dfi_flow_result_schema(job->dfi, job->flow, &schema);
	if (!ret) {
		attr = (struct dfi_flow_attr)DFI_FLOW_ATTR_INIT;
		attr.kind = DFI_SHUFFLE;
		attr.schema = schema;
		attr.n_sources = n_targets(job);
		attr.n_targets = 1;
		attr.routing = DFI_ROUTE_ROUND_ROBIN;
		if (check_memory(job, &attr, &need)) {
			free(schema);
			return -1;
		}
		ret = dfi_flow_create(job->dfi, results, &attr);
	}
	free(schema);
	return ret < 0 ? complain("%s", dfi_errmsg()) : 0;
}

/* ---- A process -------------------------------------------------------------
 */

static void check(int ret, const char *what, uint32_t number)
{
	if (ret >= 0)
		return;
	/* Another process gave up, and has said why. */
	if (ret != -ECANCELED)
		complain("%s %u: %s", what, number, dfi_errmsg());
	_exit(EXIT_FAILURE);
}

static void *allocate(size_t n, size_t size)
{
	void *memory = calloc(n, size);

	if (!memory) {
		complain("no memory");
		_exit(EXIT_FAILURE);
	}
	return memory;
}

static void start(pthread_t *thread, void *(*run)(void *), void *arg)
{
	if (thread_start(thread, run, arg))
		_exit(EXIT_FAILURE);
}

uint64_t job_share(const struct job *job, uint32_t source)
{
	return job->n_rows * source /
	    ((uint64_t)job->n_processes * job->n_threads);
}

static void *push_share(void *arg)
{
	const struct pusher *pusher = arg;
	const struct job *job = pusher->job;
	const struct plan *plan = job->plan;
	uint64_t i = job_share(job, pusher->source);
	uint64_t end = job_share(job, pusher->source + 1);
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	char *tuple = allocate(1, plan->schema.tuple_size);
	struct dfi_source *source;

	attr.schema = &plan->schema;
	check(dfi_source_open(
		  job->dfi, job->flow, pusher->source, &attr, &source),
	    "source", pusher->source);
	for (; i < end; i++) {
		plan_tuple(plan, i - job->first_row, tuple);
		check(dfi_source_push(source, tuple), "source", pusher->source);
	}
	check(dfi_source_close(source), "source", pusher->source);
	free(tuple);
	return NULL;
}

/* Send this process's groups to the process that prints. */
static void give_results(const struct job *job, uint32_t number)
{
	char name[DFI_MAX_FLOW_NAME];
	struct dfi_target *from;
	struct dfi_source *to;
	struct dfi_batch batch;
	int ret;

	results_name(job, name);
	check(dfi_source_open(job->dfi, name, number, NULL, &to), "target",
	    number);
	check(dfi_target_open(job->dfi, job->flow, number, NULL, &from),
	    "target", number);
	while ((ret = dfi_target_consume_batch(from, &batch)) > 0) {
		check(dfi_source_push_batch(to, batch.tuples, batch.count),
		    "results", number);
		dfi_target_release(from, &batch);
	}
	/* A truncated stream must not look like a clean end. */
	check(ret, "target", number);
	check(dfi_target_close(from), "target", number);
	check(dfi_source_close(to), "results", number);
}

static void *merge(void *arg)
{
	const struct merger *merger = arg;
	const struct job *job = merger->job;
	struct dfi_combiner *combiner;

	check(dfi_combiner_open(
		  job->dfi, job->flow, merger->combiner, NULL, &combiner),
	    "combiner", merger->combiner);
	check(dfi_combiner_run(combiner), "combiner", merger->combiner);
	check(dfi_combiner_close(combiner), "combiner", merger->combiner);
	return NULL;
}

/*
 * Combiner c runs in process c modulo their number. Returns the number started.
 */
static uint32_t start_mergers(
    const struct job *job, uint32_t process, struct merger **out)
{
	struct dfi_flow_info info;
	struct merger *mergers;
	uint32_t c, n = 0;

	check(dfi_flow_lookup(job->dfi, job->flow, &info), "process", process);
	mergers = allocate(info.n_combiners + 1, sizeof(*mergers));
	for (c = process; c < info.n_combiners; c += job->n_processes, n++) {
		mergers[n] = (struct merger){ .job = job, .combiner = c };
		start(&mergers[n].thread, merge, &mergers[n]);
	}
	*out = mergers;
	return n;
}

void job_work(const struct job *job, uint32_t process)
{
	struct pusher *pushers = allocate(job->n_threads, sizeof(*pushers));
	struct merger *mergers;
	uint32_t n_mergers = start_mergers(job, process, &mergers), t;

	for (t = 0; t < job->n_threads; t++) {
		pushers[t] = (struct pusher){ .job = job,
			.source = process * job->n_threads + t };
		start(&pushers[t].thread, push_share, &pushers[t]);
	}
	if (process < n_targets(job))
		give_results(job, process);
	for (t = 0; t < job->n_threads; t++)
		pthread_join(pushers[t].thread, NULL);
	for (t = 0; t < n_mergers; t++)
		pthread_join(mergers[t].thread, NULL);
	free(mergers);
	free(pushers);
}

/* ---- The results -----------------------------------------------------------
 */

int job_open(const struct job *job, struct dfi_target **target)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	char name[DFI_MAX_FLOW_NAME];

	results_name(job, name);
	attr.stall_timeout_ms = WATCH_MS;
	if (dfi_target_open(job->dfi, name, 0, &attr, target) < 0)
		return complain("results: %s", dfi_errmsg());
	return 0;
}

static int keep(struct results *results, const struct dfi_batch *batch)
{
	size_t size = results->schema->tuple_size;
	size_t n = (size_t)(results->n + batch->count) * size;
	char *tuples = results->tuples;

	if (n > results->capacity) {
		tuples = realloc(tuples, 2 * n);
		if (!tuples)
			return complain("no memory for the results");
		results->tuples = tuples;
		results->capacity = 2 * n;
	}
	memcpy(tuples + results->n * size, batch->tuples, batch->count * size);
	results->n += batch->count;
	return memory_check_growth(&results->checked, n,
	    "the next results need", "have fewer groups, or aggregates");
}

int job_take(const struct job *job, struct dfi_target *target,
    struct children *children, struct results *results)
{
	struct dfi_batch batch;
	int ret;

	if (dfi_flow_result_schema(job->dfi, job->flow, &results->schema) < 0)
		return complain("results: %s", dfi_errmsg());
	while ((ret = dfi_target_consume_batch(target, &batch)) != 0) {
		/* A pause without results is no failure. */
		if (ret == -ETIMEDOUT && !children_check(children))
			continue;
		if (ret < 0)
			return -1;
		ret = keep(results, &batch);
		dfi_target_release(target, &batch);
		if (ret)
			return -1;
	}
	return 0;
}

void results_free(struct results *results)
{
	free(results->schema);
	free(results->tuples);
	*results = (struct results){ .schema = NULL };
}

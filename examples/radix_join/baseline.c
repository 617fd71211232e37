/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local baseline: a hand-written parallel radix join for shared memory,
 * with the same kernels. Each thread scatters its slices to all partitions in
 * its own stores. After a barrier, each joins its range of partitions from the
 * stores of all threads.
 */
#include "baseline.h"
#include "join.h"
#include "partition.h"
#include "platform.h"

#include <pthread.h>
#include <stdlib.h>

#include "../../common/threads.h"

struct baseline {
	const struct options *options;
	const struct input *input;
	pthread_barrier_t barrier;
	struct store *stores[N_RELATIONS]; /* by thread */
	uint64_t start_ns;                 /* written by thread 0 */
	int failed;
};

struct thread {
	struct baseline *baseline;
	uint32_t index;
	pthread_t id;
	struct slices slices;
	struct lines lines;
	struct join join;
	struct groups groups;
	struct result result, expected;
	struct worker_times times;
	uint64_t end_ns;
};

static int thread_open(struct thread *thread)
{
	struct baseline *baseline = thread->baseline;
	const struct input *input = baseline->input;
	const struct plan *plan = &input->plan;
	uint32_t n_partitions = plan_partitions(plan);
	int r;

	if (options_pin(baseline->options))
		cpu_pin(thread->index);
	if (slices_make(&thread->slices, input, thread->index) ||
	    lines_open(&thread->lines, n_partitions) ||
	    table_open(&thread->join.table, plan->bits,
		2 * (plan->n_tuples[INNER] >> plan->bits)))
		return -1;
	for (r = 0; r < N_RELATIONS; r++)
		if (store_open(&baseline->stores[r][thread->index], 0,
			n_partitions, thread->slices.n[r], thread->slices.n[r]))
			return -1;
	if (!input->has_image)
		generate_expect(&input->generator, thread->slices.tuples[OUTER],
		    thread->slices.n[OUTER], &thread->expected);
	return 0;
}

static void thread_partition(struct thread *thread, enum relation relation)
{
	struct store *store =
	    &thread->baseline->stores[relation][thread->index];

	store_scatter(store, &thread->lines, thread->slices.tuples[relation],
	    thread->slices.n[relation], thread->baseline->input->plan.bits);
	/* A store opened for the whole slice cannot overrun. */
	(void)store_finish(store, &thread->lines);
}

static int thread_join(struct thread *thread)
{
	struct baseline *baseline = thread->baseline;
	const struct plan *plan = &baseline->input->plan;
	struct join *join = &thread->join;

	join->stores[INNER] = baseline->stores[INNER];
	join->stores[OUTER] = baseline->stores[OUTER];
	join->n_stores = plan->n_workers;
	join->first = plan_first(plan, thread->index);
	join->end = plan_first(plan, thread->index + 1);
	if (baseline->input->has_image) {
		join->groups = &thread->groups;
		if (groups_open(
			&thread->groups, &baseline->input->image, plan->bits))
			return -1;
	}
	return join_run(join, &thread->result);
}

static void *thread_run(void *arg)
{
	struct thread *thread = arg;
	struct baseline *baseline = thread->baseline;
	uint64_t start, inner, outer;

	if (thread_open(thread))
		__atomic_store_n(&baseline->failed, 1, __ATOMIC_RELAXED);
	pthread_barrier_wait(&baseline->barrier);
	if (__atomic_load_n(&baseline->failed, __ATOMIC_RELAXED))
		return NULL;
	if (thread->index == 0)
		baseline->start_ns = now_ns();
	pthread_barrier_wait(&baseline->barrier);
	start = baseline->start_ns;
	thread_partition(thread, INNER);
	inner = now_ns();
	thread_partition(thread, OUTER);
	pthread_barrier_wait(&baseline->barrier);
	outer = now_ns();
	if (thread_join(thread))
		__atomic_store_n(&baseline->failed, 1, __ATOMIC_RELAXED);
	thread->end_ns = now_ns();
	thread->times.inner_ns = inner - start;
	thread->times.outer_ns = outer - inner;
	thread->times.join_ns = thread->end_ns - outer;
	return NULL;
}

static void collect(const struct baseline *baseline,
    const struct thread *threads, struct outcome *outcome)
{
	const struct thread *thread;
	uint32_t i;

	for (i = 0; i < baseline->input->plan.n_workers; i++) {
		thread = &threads[i];
		outcome->workers[i] = thread->times;
		result_add(&outcome->result, &thread->result);
		result_add(&outcome->expected, &thread->expected);
		if (thread->end_ns - baseline->start_ns > outcome->total_ns)
			outcome->total_ns = thread->end_ns - baseline->start_ns;
	}
}

static int run_threads(struct baseline *baseline, struct thread *threads)
{
	uint32_t n = baseline->input->plan.n_workers, i;

	pthread_barrier_init(&baseline->barrier, NULL, n);
	for (i = 0; i < n; i++) {
		threads[i].baseline = baseline;
		threads[i].index = i;
		/*
		 * The others wait at the barrier, so this thread can't leave.
		 */
		if (thread_start(&threads[i].id, thread_run, &threads[i]))
			exit(1);
	}
	for (i = 0; i < n; i++)
		pthread_join(threads[i].id, NULL);
	pthread_barrier_destroy(&baseline->barrier);
	return baseline->failed ? -1 : 0;
}

int baseline_run(const struct options *options, const struct input *input,
    struct outcome *outcome)
{
	uint32_t n = input->plan.n_workers, i;
	struct baseline baseline = { .options = options, .input = input };
	struct thread *threads = calloc(n, sizeof(*threads));
	int r, ret = -1;

	for (r = 0; r < N_RELATIONS; r++)
		baseline.stores[r] = calloc(n, sizeof(*baseline.stores[r]));
	if (threads && baseline.stores[INNER] && baseline.stores[OUTER])
		ret = run_threads(&baseline, threads);
	else
		complain("no memory");
	if (ret == 0)
		collect(&baseline, threads, outcome);
	for (i = 0; threads && i < n; i++) {
		slices_free(&threads[i].slices);
		lines_close(&threads[i].lines);
		table_close(&threads[i].join.table);
		groups_close(&threads[i].groups);
		for (r = 0; r < N_RELATIONS && baseline.stores[r]; r++)
			store_close(&baseline.stores[r][i]);
	}
	for (r = 0; r < N_RELATIONS; r++)
		free(baseline.stores[r]);
	free(threads);
	return ret;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shuffle flows N:M in one process, for ThreadSanitizer: small rings, so that
 * both sides fall asleep and wake each other all the time, flushes at random,
 * every way to wait and to move tuples, one context and two (then each side has
 * a mapping of its own), and threads that are source and target at once.
 */
#include <stdbool.h>
#include <stdint.h>

#include "stress_help.h"

#define N_SOURCES 3
#define N_TARGETS 3
#define N_TUPLES 60000u

struct tuple {
	uint64_t key;
	uint32_t source, number;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct tuple, key),
	DFI_FIELD(struct tuple, source),
	DFI_FIELD(struct tuple, number),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct tuple, fields);

/* A flow and how its ends behave. */
struct run {
	const char *name;
	uint32_t n_sources, n_targets, n_tuples;
	uint32_t goal, segment_tuples, segment_count;
	uint32_t wait;
	uint32_t flags; /* DFI_NONBLOCK */
	bool two_contexts;
	bool joined; /* thread i is source i and target i */
};

struct end {
	const struct run *run;
	struct dfi *dfi, *other;
	uint32_t index;
	struct rng rng;
	struct dfi_source *source;
	struct dfi_target *target;
	uint32_t next; /* to push */
	uint32_t last[N_SOURCES];
	uint64_t count, sum;
	bool ended;
};

static bool again(int ret)
{
	return ret == -EAGAIN;
}

static void make_tuple(struct end *end, uint32_t number, struct tuple *tuple)
{
	tuple->key = ((uint64_t)end->index << 32 | number) *
	    UINT64_C(0x9e3779b97f4a7c15);
	tuple->source = end->index;
	tuple->number = number + 1;
}

/* Push one or a few; false if there was no room. */
static bool push_some(struct end *end)
{
	struct dfi_source_cursor cursor;
	struct tuple tuples[8];
	struct dfi_span span;
	uint32_t n = 8, i, target;
	int ret;

	if (n > end->run->n_tuples - end->next)
		n = end->run->n_tuples - end->next;
	for (i = 0; i < n; i++)
		make_tuple(end, end->next + i, &tuples[i]);
	target = dfi_hash_partition(
	    dfi_hash64(tuples[0].key), end->run->n_targets);
	switch (rng_below(&end->rng, 4)) {
	case 0:
		ret = dfi_source_push(end->source, tuples);
		break;
	case 1:
		ret = dfi_source_push_batch(end->source, tuples, n);
		break;
	case 2:
		cursor = dfi_source_cursor_open(
		    end->source, target, sizeof(tuples[0]));
		dfi_source_cursor_push(&cursor, tuples, sizeof(tuples[0]));
		ret = dfi_source_cursor_close(cursor);
		break;
	default:
		ret = dfi_source_claim(end->source, target, &span);
		if (ret < 0)
			break;
		memcpy(span.tuples, tuples, sizeof(tuples[0]));
		ret = dfi_source_commit(end->source, &span, 1);
	}
	check(ret >= 0 || again(ret), "push: %d", ret);
	if (ret < 0)
		return false;
	end->next += ret > 0 ? (uint32_t)ret : 1;
	if (!rng_below(&end->rng, 8))
		check(dfi_source_flush(end->source) == 0, "flush");
	rng_yield(&end->rng, 32);
	return true;
}

static void open_source(struct end *end)
{
	struct dfi_source_attr attr = {
		.size = sizeof(attr),
		.flags = end->run->flags,
		.schema = &schema,
		.open_timeout_ms = LONG_MS,
		.stall_timeout_ms = LONG_MS,
		.wait = end->run->wait,
	};

	check(dfi_source_open(end->dfi, end->run->name, end->index, &attr,
		  &end->source) == 0,
	    "source %u", end->index);
}

static void *run_source(void *arg)
{
	struct end *end = arg;

	open_source(end);
	while (end->next < end->run->n_tuples)
		if (!push_some(end))
			sched_yield();
	check(dfi_source_close(end->source) == 0, "close");
	return NULL;
}

static void look_at(struct end *end, const struct tuple *tuple)
{
	check(tuple->source < end->run->n_sources, "tuple of source %u",
	    tuple->source);
	check(tuple->number > end->last[tuple->source],
	    "tuple %u of source %u after %u", tuple->number, tuple->source,
	    end->last[tuple->source]);
	check(dfi_hash_partition(dfi_hash64(tuple->key), end->run->n_targets) ==
		end->index,
	    "a tuple at the wrong target");
	end->last[tuple->source] = tuple->number;
	end->count++;
	end->sum += tuple->number;
}

/* Consume one or a few; false if there was none. */
static bool consume_some(struct end *end)
{
	const struct tuple *tuples;
	struct dfi_batch batch;
	const void *tuple;
	uint32_t i;
	int ret;

	if (rng_below(&end->rng, 2)) {
		ret = dfi_target_consume(end->target, &tuple);
		if (ret > 0)
			look_at(end, tuple);
	} else {
		ret = dfi_target_consume_batch(end->target, &batch);
		if (ret > 0) {
			tuples = batch.tuples;
			for (i = 0; i < batch.count; i++)
				look_at(end, &tuples[i]);
			dfi_target_release(end->target, &batch);
		}
	}
	check(ret >= 0 || again(ret), "consume: %d", ret);
	end->ended = ret == 0;
	rng_yield(&end->rng, 32);
	return ret > 0;
}

static void open_target(struct end *end)
{
	struct dfi_target_attr attr = {
		.size = sizeof(attr),
		.flags = end->run->flags,
		.schema = &schema,
		.open_timeout_ms = LONG_MS,
		.stall_timeout_ms = LONG_MS,
		.wait = end->run->wait,
	};

	check(dfi_target_open(end->other, end->run->name, end->index, &attr,
		  &end->target) == 0,
	    "target %u", end->index);
}

static void *run_target(void *arg)
{
	struct end *end = arg;

	open_target(end);
	while (!end->ended)
		if (!consume_some(end))
			sched_yield();
	check(dfi_target_close(end->target) == 0, "close");
	return NULL;
}

/* A thread that must do both in turns, or rings would fill up for ever. */
static void *run_both(void *arg)
{
	struct end *end = arg;

	open_target(end);
	open_source(end);
	while (!end->ended) {
		bool moved = false;

		if (end->source && end->next < end->run->n_tuples)
			moved = push_some(end);
		else if (end->source) {
			check(dfi_source_close(end->source) == 0, "close");
			end->source = NULL;
		}
		if (!consume_some(end) && !moved)
			sched_yield();
	}
	check(dfi_target_close(end->target) == 0, "close");
	return NULL;
}

static void start_ends(const struct run *run, struct end *ends, struct dfi *dfi,
    struct dfi *other, pthread_t *threads)
{
	uint32_t n = run->joined ? run->n_targets
				 : run->n_sources + run->n_targets;
	uint32_t i;

	for (i = 0; i < n; i++) {
		ends[i] = (struct end){
			.run = run,
			.dfi = dfi,
			.other = run->two_contexts ? other : dfi,
			.index = i < run->n_targets ? i : i - run->n_targets,
			.rng.state = i,
		};
		threads[i] = start_thread(run->joined ? run_both
			: i < run->n_targets          ? run_target
						      : run_source,
		    &ends[i]);
	}
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void run_flow(const struct run *run, struct dfi *dfi, struct dfi *other)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &schema,
		.n_sources = run->n_sources,
		.n_targets = run->n_targets,
		.goal = run->goal,
		.segment_size = run->segment_tuples *
		    (uint32_t)sizeof(struct tuple),
		.segment_count = run->segment_count,
	};
	pthread_t threads[N_SOURCES + N_TARGETS];
	struct end ends[N_SOURCES + N_TARGETS];
	uint64_t count = 0, sum = 0, n = run->n_tuples;
	uint32_t i;

	check(dfi_flow_create(dfi, run->name, &attr) == 0, "create");
	start_ends(run, ends, dfi, other, threads);
	for (i = 0; i < run->n_targets; i++) {
		count += ends[i].count;
		sum += ends[i].sum;
	}
	check(count == n * run->n_sources &&
		sum == n * (n + 1) / 2 * run->n_sources,
	    "%s: %lu tuples arrived", run->name, (unsigned long)count);
}

static const struct run runs[] = {
	{ "adaptive", 3, 3, N_TUPLES, DFI_BANDWIDTH, 7, 3, DFI_WAIT_ADAPTIVE, 0,
	    false, false },
	{ "block", 3, 3, N_TUPLES, DFI_BANDWIDTH, 2, 2, DFI_WAIT_BLOCK, 0,
	    false, false },
	{ "one-segment", 2, 3, N_TUPLES, DFI_BANDWIDTH, 3, 1, DFI_WAIT_BLOCK, 0,
	    true, false },
	{ "latency", 3, 2, N_TUPLES, DFI_LATENCY, 0, 8, DFI_WAIT_BLOCK, 0,
	    false, false },
	{ "spin", 1, 1, N_TUPLES, DFI_BANDWIDTH, 64, 64, DFI_WAIT_SPIN, 0,
	    false, false },
	{ "nonblock", 2, 2, N_TUPLES, DFI_BANDWIDTH, 4, 4, 0, DFI_NONBLOCK,
	    true, false },
	{ "joined", 3, 3, N_TUPLES, DFI_BANDWIDTH, 4, 2, 0, DFI_NONBLOCK, false,
	    true },
	{ "joined-latency", 2, 2, N_TUPLES, DFI_LATENCY, 0, 2, 0, DFI_NONBLOCK,
	    true, true },
};

int main(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;
	struct dfi *dfi, *other;
	size_t i;

	check(dfi_registry_start(NULL, &registry) == 0, "registry");
	attr.registry = dfi_registry_address(registry);
	check(dfi_open(&attr, &dfi) == 0, "open");
	check(dfi_open(&attr, &other) == 0, "open");
	for (i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		run_flow(&runs[i], dfi, other);
	check(dfi_close(other) == 0, "close");
	check(dfi_close(dfi) == 0, "close");
	check(dfi_registry_stop(registry) == 0, "stop");
	return EXIT_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicate flows N:M in one process, for ThreadSanitizer: rings of few small
 * segments, so that sources and targets fall asleep and wake each other all the
 * time, naive and multicast, with one context and with two (then what a source
 * shows is mapped again), lingering or not, with a target that cancels, and in
 * one order for all; and by datagrams over a network that loses some.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "stress_help.h"

#define N_SOURCES 2
#define N_TARGETS 3
#define CANCELS 1 /* the target that does */

struct tuple {
	uint64_t source, number;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct tuple, source),
	DFI_FIELD(struct tuple, number),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct tuple, fields);

struct run {
	uint32_t replication, goal, segment_tuples, segment_count, linger_us;
	uint64_t n_tuples;
	bool two_contexts, cancels, ordered;
};

struct end {
	const struct run *run;
	struct dfi *dfi;
	uint32_t index;
	struct dfi_target *target;
	uint8_t *order; /* the source of each tuple that a target got */
};

static void *run_source(void *arg)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct end *end = arg;
	struct rng rng = { end->index };
	struct tuple tuple = { .source = end->index };
	struct dfi_source *source = NULL;

	attr.linger_us = end->run->linger_us;
	attr.stall_timeout_ms = LONG_MS;
	check(!dfi_source_open(end->dfi, "f", end->index, &attr, &source),
	    "source %u", end->index);
	for (; tuple.number < end->run->n_tuples; tuple.number++) {
		check(!dfi_source_push(source, &tuple), "push");
		if (!rng_below(&rng, 64))
			check(!dfi_source_flush(source), "flush");
		rng_yield(&rng, 128);
	}
	check(!dfi_source_close(source), "close");
	return NULL;
}

static void *run_target(void *arg)
{
	struct end *end = arg;
	struct rng rng = { 100 + end->index };
	uint64_t next[N_SOURCES] = { 0 }, n = 0;
	bool cancels = end->run->cancels && end->index == CANCELS;
	const struct tuple *tuples;
	struct dfi_batch batch;
	uint32_t i;
	int ret = 1;

	while (!(cancels && n > end->run->n_tuples / 2) &&
	    (ret = dfi_target_consume_batch(end->target, &batch)) > 0) {
		tuples = batch.tuples;
		for (i = 0; i < batch.count; i++)
			check(tuples[i].source == batch.source &&
				tuples[i].number == next[batch.source]++,
			    "target %u: not tuple %lu of source %u", end->index,
			    (unsigned long)next[batch.source] - 1,
			    batch.source);
		memset(end->order + n, (int)batch.source, batch.count);
		n += batch.count;
		dfi_target_release(end->target, &batch);
		rng_yield(&rng, 16);
	}
	if (ret > 0) {
		check(!dfi_target_cancel(end->target), "cancel");
		return NULL;
	}
	check(!ret, "consume");
	check(n == N_SOURCES * end->run->n_tuples, "target %u has %lu tuples",
	    end->index, (unsigned long)n);
	return NULL;
}

static void run_flow(
    const struct run *run, uint32_t transport, struct dfi *a, struct dfi *b)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	uint64_t n = N_SOURCES * run->n_tuples;
	struct end ends[N_SOURCES + N_TARGETS];
	pthread_t threads[N_SOURCES + N_TARGETS];
	uint32_t i;

	attr.kind = DFI_REPLICATE;
	attr.replicate.method = run->replication;
	attr.schema = &schema;
	attr.n_sources = N_SOURCES;
	attr.n_targets = N_TARGETS;
	attr.goal = run->goal;
	attr.replicate.ordered = run->ordered;
	attr.transport = transport;
	attr.replicate.gap_timeout_us = 1000;
	attr.segment_size = run->segment_tuples *
	    (uint32_t)sizeof(struct tuple);
	attr.segment_count = run->segment_count;
	check(!dfi_flow_create(a, "f", &attr), "create");
	for (i = 0; i < N_SOURCES + N_TARGETS; i++) {
		ends[i] = (struct end){
			.run = run,
			.dfi = run->two_contexts && i % 2 ? b : a,
			.index = i < N_TARGETS ? i : i - N_TARGETS,
		};
		if (i >= N_TARGETS)
			continue;
		ends[i].order = malloc(n);
		check(ends[i].order, "memory");
		check(!dfi_target_open(
			  ends[i].dfi, "f", i, NULL, &ends[i].target),
		    "target %u", i);
	}
	for (i = 0; i < N_SOURCES + N_TARGETS; i++)
		threads[i] = start_thread(
		    i < N_TARGETS ? run_target : run_source, &ends[i]);
	for (i = 0; i < N_SOURCES + N_TARGETS; i++)
		check(!pthread_join(threads[i], NULL), "join");
	for (i = 1; run->ordered && i < N_TARGETS; i++)
		check((run->cancels && i == CANCELS) ||
			!memcmp(ends[i].order, ends[0].order, n),
		    "targets 0 and %u have different orders", i);
	for (i = 0; i < N_TARGETS; i++) {
		check(!dfi_target_close(ends[i].target), "close");
		free(ends[i].order);
	}
	check(!dfi_flow_remove(a, "f"), "remove");
}

int main(void)
{
	static const struct run runs[] = {
		{ DFI_REPLICATION_MULTICAST, DFI_BANDWIDTH, 8, 1, 0, 20000, 1,
		    0, 0 },
		{ DFI_REPLICATION_MULTICAST, DFI_BANDWIDTH, 8, 2, 0, 40000, 0,
		    1, 1 },
		{ DFI_REPLICATION_MULTICAST, DFI_BANDWIDTH, 16, 3, 100, 40000,
		    1, 1, 0 },
		{ DFI_REPLICATION_MULTICAST, DFI_BANDWIDTH, 8, 3, 100, 20000, 1,
		    0, 1 },
		{ DFI_REPLICATION_MULTICAST, DFI_LATENCY, 1, 3, 0, 10000, 1, 0,
		    0 },
		{ DFI_REPLICATION_MULTICAST, DFI_LATENCY, 1, 2, 0, 10000, 1, 0,
		    1 },
		{ DFI_REPLICATION_NAIVE, DFI_BANDWIDTH, 8, 2, 100, 20000, 1, 1,
		    0 },
		{ DFI_REPLICATION_NAIVE, DFI_BANDWIDTH, 8, 2, 100, 20000, 1, 1,
		    1 },
		{ DFI_REPLICATION_NAIVE, DFI_LATENCY, 1, 2, 0, 10000, 0, 0, 0 },
		{ DFI_REPLICATION_NAIVE, DFI_LATENCY, 1, 1, 0, 5000, 0, 0, 1 },
	};
	static const struct run datagram_runs[] = {
		{ DFI_REPLICATION_MULTICAST, DFI_BANDWIDTH, 8, 8, 0, 20000, 1,
		    0, 0 },
		{ DFI_REPLICATION_MULTICAST, DFI_BANDWIDTH, 8, 8, 100, 20000, 0,
		    1, 0 },
		{ DFI_REPLICATION_MULTICAST, DFI_BANDWIDTH, 8, 8, 100, 10000, 1,
		    0, 1 },
	};
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;
	struct dfi *a, *b;
	size_t i;

	setenv("DFI_TEST_FAULTS",
	    "drop=0.02,duplicate=0.02,reorder=0.02,delay=0.01", 1);
	check(!dfi_registry_start(NULL, &registry), "registry");
	attr.registry = dfi_registry_address(registry);
	check(!dfi_open(&attr, &a), "open");
	check(!dfi_open(&attr, &b), "open");
	for (i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		run_flow(&runs[i], DFI_TRANSPORT_DEFAULT, a, b);
	for (i = 0; i < sizeof(datagram_runs) / sizeof(datagram_runs[0]); i++)
		run_flow(&datagram_runs[i], DFI_TRANSPORT_VERBS, a, b);
	check(!dfi_close(b), "close");
	check(!dfi_close(a), "close");
	check(!dfi_registry_stop(registry), "stop");
	return EXIT_SUCCESS;
}

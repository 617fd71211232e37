/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners against the control thread: sources combine and linger for a very
 * short time, so tuples are often sent while the source fills its buffer, by
 * batches larger than it, by claims, and one by one. The sums are checked.
 *
 * stress_combine [ROUNDS]
 */
#include "stress_help.h"

#define N_SOURCES 2
#define ROUNDS 2000
#define LINGER_US 20
#define N_KEYS 50
#define BATCH 1000

struct tuple {
	uint64_t key, value;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct tuple, key),
	DFI_FIELD(struct tuple, value),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct tuple, fields);
static const struct dfi_aggregate aggregates[] = {
	{ .function = DFI_SUM, .field = "value" },
	{ .function = DFI_COUNT },
};

struct result {
	uint64_t key, sum, count;
};

static struct dfi *dfi;
static uint64_t rounds = ROUNDS;

struct sender {
	uint32_t index;
	struct rng rng;
	uint64_t sum, count;
};

static struct tuple next_tuple(struct sender *s)
{
	struct tuple tuple = { rng_below(&s->rng, N_KEYS),
		rng_below(&s->rng, 1000) };

	s->sum += tuple.value;
	s->count++;
	return tuple;
}

static void push_batch(struct sender *s, struct dfi_source *source)
{
	struct tuple tuples[BATCH];
	uint32_t i;

	for (i = 0; i < BATCH; i++)
		tuples[i] = next_tuple(s);
	check(dfi_source_push_batch(source, tuples, BATCH) == BATCH, "batch");
}

static void claim(struct sender *s, struct dfi_source *source)
{
	struct dfi_span span;
	struct tuple *tuples;
	uint32_t i, n;

	check(dfi_source_claim(source, 0, &span) == 0, "claim");
	check(span.count * sizeof(struct tuple) <= 4 << 10, "span");
	tuples = span.tuples;
	n = 1 + rng_below(&s->rng, span.count);
	for (i = 0; i < n; i++)
		tuples[i] = next_tuple(s);
	check(dfi_source_commit(source, &span, n) == 0, "commit");
}

static void *run_source(void *arg)
{
	struct sender *s = arg;
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;
	struct tuple tuple;
	uint64_t round;
	uint32_t n;

	attr.linger_us = LINGER_US;
	check(dfi_source_open(dfi, "flow", s->index, &attr, &source) == 0,
	    "source");
	for (round = 0; round < rounds; round++) {
		switch (rng_below(&s->rng, 4)) {
		case 0:
			push_batch(s, source);
			break;
		case 1:
			claim(s, source);
			break;
		case 2:
			check(dfi_source_flush(source) == 0, "flush");
			break;
		default:
			for (n = rng_below(&s->rng, 40); n > 0; n--) {
				tuple = next_tuple(s);
				check(dfi_source_push(source, &tuple) == 0,
				    "push");
			}
		}
		rng_yield(&s->rng, 4);
	}
	check(dfi_source_close(source) == 0, "close");
	return NULL;
}

static void run(void)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_COMBINE,
		.schema = &schema,
		.n_sources = N_SOURCES,
		.n_targets = 1,
		.combine.group_by = "key",
		.combine.aggregates = aggregates,
		.combine.n_aggregates = 2,
		.combine.source_combining = DFI_COMBINING_ALWAYS,
	};
	struct sender senders[N_SOURCES] = { 0 };
	pthread_t threads[N_SOURCES];
	uint64_t sum = 0, count = 0;
	struct dfi_target *target;
	const void *tuple;
	uint32_t s;
	int ret;

	check(dfi_flow_create(dfi, "flow", &attr) == 0, "create");
	check(dfi_target_open(dfi, "flow", 0, NULL, &target) == 0, "target");
	for (s = 0; s < N_SOURCES; s++) {
		senders[s].rng.state = senders[s].index = s;
		threads[s] = start_thread(run_source, &senders[s]);
	}
	while ((ret = dfi_target_consume(target, &tuple)) == 1) {
		sum += ((const struct result *)tuple)->sum;
		count += ((const struct result *)tuple)->count;
	}
	check(ret == 0, "consume: %d", ret);
	check(dfi_target_close(target) == 0, "close");
	for (s = 0; s < N_SOURCES; s++) {
		pthread_join(threads[s], NULL);
		sum -= senders[s].sum;
		count -= senders[s].count;
	}
	check(sum == 0 && count == 0, "sums");
}

int main(int argc, char **argv)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;

	if (argc > 1)
		rounds = strtoull(argv[1], NULL, 0);
	check(dfi_registry_start(NULL, &registry) == 0, "registry");
	attr.registry = dfi_registry_address(registry);
	check(dfi_open(&attr, &dfi) == 0, "open");
	run();
	check(dfi_close(dfi) == 0, "close");
	check(dfi_registry_stop(registry) == 0, "stop");
	return EXIT_SUCCESS;
}

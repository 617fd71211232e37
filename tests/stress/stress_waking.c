/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources and targets that sleep in their calls, with rings of one segment or
 * two, so that each tuple needs, or may need, a wake-up in either direction: at
 * once, or after some spinning and yielding; with one target, or two that read
 * the same copy. The bound of a sleep, which makes up for lost wake-ups, is an
 * hour: a single lost one is found, as a call that takes until its deadline, or
 * times out. With DFI_TRANSPORT=verbs over RDMA.
 *
 * stress_waking [SLEEPS]: goes on until each end that sleeps at once has slept
 * so often.
 */
#include <stdbool.h>

#include "base/clock.h"
#include "base/fence.h"
#include "base/wait.h"
#include "stress_help.h"

#define SLEEPS 10000
#define MAX_ENDS 16

struct kv {
	uint64_t key, val;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct kv, key),
	DFI_FIELD(struct kv, val),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct kv, fields);

static const struct flow {
	const char *name;
	enum dfi_flow_kind kind;
	enum dfi_wait wait;
	uint32_t n_targets, n_segments;
} flows[] = {
	{ "block", DFI_SHUFFLE, DFI_WAIT_BLOCK, 1, 1 },
	{ "adaptive", DFI_SHUFFLE, DFI_WAIT_ADAPTIVE, 1, 2 },
	{ "copies", DFI_REPLICATE, DFI_WAIT_BLOCK, 2, 1 },
};

#define N_FLOWS (sizeof(flows) / sizeof(flows[0]))

struct end {
	const struct flow *flow;
	struct dfi_source *source; /* or the target */
	struct dfi_target *target;
	pthread_t thread;
	bool counts; /* it has not slept often enough */
	uint64_t sleeps, tuples;
};

static struct end ends[MAX_ENDS];
static uint32_t n_ends;
static uint64_t enough = SLEEPS;
static _Atomic uint32_t n_counting;

static void count_sleeps(struct end *end)
{
	struct dfi_source_stats source = { .sleeps = 0 };
	struct dfi_target_stats target = { .sleeps = 0 };

	if (end->source)
		dfi_source_query(end->source, &source);
	else
		dfi_target_query(end->target, &target);
	end->sleeps = source.sleeps + target.sleeps;
	if (end->counts && end->sleeps >= enough) {
		end->counts = false;
		atomic_fetch_sub(&n_counting, 1);
	}
}

/* Now and then for longer than an adaptive peer spins and yields. */
static void pause_sometimes(const struct end *end, struct rng *rng)
{
	uint32_t i;

	rng_yield(rng, 4);
	if (end->flow->wait == DFI_WAIT_BLOCK || rng_below(rng, 4))
		return;
	for (i = 0; i < 100; i++)
		sched_yield();
}

/* A sleeper that reached its deadline finds work without a wake-up. */
static void check_time(const struct end *end, int64_t start)
{
	int64_t took = clock_now_ns() - start;

	check(took < LONG_MS / 2 * (int64_t)NS_PER_MS,
	    "%s: a %s was woken late, after %ld ms", end->flow->name,
	    end->source ? "source" : "target",
	    (long)(took / (int64_t)NS_PER_MS));
}

static void *run_source(void *arg)
{
	struct end *end = arg;
	struct rng rng = { .state = (uintptr_t)end };
	struct kv kv = { 0, 0 };
	int64_t start;
	int ret;

	for (; atomic_load(&n_counting); kv.key++) {
		start = clock_now_ns();
		ret = dfi_source_push(end->source, &kv);
		check_time(end, start);
		check(ret == 0, "%s: push %lu: %d", end->flow->name,
		    (unsigned long)kv.key, ret);
		count_sleeps(end);
		pause_sometimes(end, &rng);
	}
	end->tuples = kv.key;
	check(dfi_source_close(end->source) == 0, "%s: close", end->flow->name);
	return NULL;
}

static void *run_target(void *arg)
{
	struct end *end = arg;
	struct rng rng = { .state = ~(uintptr_t)end };
	const void *tuple;
	int64_t start;
	uint64_t key;
	int ret;

	for (;;) {
		start = clock_now_ns();
		ret = dfi_target_consume(end->target, &tuple);
		check_time(end, start);
		if (ret <= 0)
			break;
		key = ((const struct kv *)tuple)->key;
		check(key == end->tuples, "%s: tuple %lu is %lu",
		    end->flow->name, (unsigned long)end->tuples,
		    (unsigned long)key);
		end->tuples++;
		count_sleeps(end);
		pause_sometimes(end, &rng);
	}
	check(ret == 0, "%s: consume: %d", end->flow->name, ret);
	check(dfi_target_close(end->target) == 0, "%s: close", end->flow->name);
	return NULL;
}

static struct end *new_end(const struct flow *flow)
{
	struct end *end = &ends[n_ends++];

	check(n_ends <= MAX_ENDS, "too many ends");
	end->flow = flow;
	end->counts = flow->wait == DFI_WAIT_BLOCK;
	atomic_fetch_add(&n_counting, end->counts);
	return end;
}

static void open_flow(const struct flow *flow, struct dfi *from, struct dfi *to)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = flow->kind,
		.schema = &schema,
		.n_sources = 1,
		.n_targets = flow->n_targets,
		.segment_size = sizeof(struct kv),
		.segment_count = flow->n_segments,
	};
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	uint32_t i;

	source_attr.wait = target_attr.wait = flow->wait;
	source_attr.stall_timeout_ms = target_attr.stall_timeout_ms = LONG_MS;
	check(dfi_flow_create(from, flow->name, &attr) == 0, "create");
	for (i = 0; i < flow->n_targets; i++)
		check(dfi_target_open(to, flow->name, i, &target_attr,
			  &new_end(flow)->target) == 0,
		    "%s: target %u", flow->name, i);
	check(dfi_source_open(from, flow->name, 0, &source_attr,
		  &new_end(flow)->source) == 0,
	    "%s: source", flow->name);
}

static void run_ends(void)
{
	uint32_t i, sent = 0;

	for (i = 0; i < n_ends; i++)
		ends[i].thread = start_thread(
		    ends[i].source ? run_source : run_target, &ends[i]);
	for (i = 0; i < n_ends; i++)
		pthread_join(ends[i].thread, NULL);
	/* The source of a flow comes after its targets. */
	for (i = n_ends; i-- > 0;) {
		if (ends[i].source)
			sent = i;
		check(ends[i].tuples == ends[sent].tuples,
		    "%s: %lu of %lu tuples", ends[i].flow->name,
		    (unsigned long)ends[i].tuples,
		    (unsigned long)ends[sent].tuples);
		printf("%s: a %s slept %lu times in %lu tuples\n",
		    ends[i].flow->name, ends[i].source ? "source" : "target",
		    (unsigned long)ends[i].sleeps,
		    (unsigned long)ends[i].tuples);
	}
}

int main(int argc, char **argv)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;
	struct dfi *from, *to;
	size_t i;

	if (argc > 1)
		enough = strtoull(argv[1], NULL, 0);
	dfi__fence_setup();
	if (!dfi__fence_heavy()) {
		printf("without membarrier(2), sleeps are short\n");
		return 77;
	}
	dfi__wait_longest_ns = INT64_C(3600000000000);
	check(dfi_registry_start(NULL, &registry) == 0, "registry");
	attr.registry = dfi_registry_address(registry);
	check(dfi_open(&attr, &from) == 0 && dfi_open(&attr, &to) == 0, "open");
	for (i = 0; i < N_FLOWS; i++)
		open_flow(&flows[i], from, to);
	run_ends();
	check(dfi_close(from) == 0 && dfi_close(to) == 0, "close");
	check(dfi_registry_stop(registry) == 0, "stop");
	return EXIT_SUCCESS;
}

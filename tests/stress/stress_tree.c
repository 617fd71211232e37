/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of combiners, round after round: sources end windows, combiners wait or
 * poll, and in each third round a thread aborts one of them at some moment. All
 * sums are checked; in rounds with an abort, those of results before the end.
 *
 * stress_tree [ROUNDS]
 */
#include "stress_help.h"

#include <poll.h>
#include <stdbool.h>

#define N_SOURCES 5
#define FAN_IN 2
#define N_COMBINERS 5 /* 3 and 2 */
#define N_TARGETS 2
#define ROUNDS 60
#define N_KEYS 20
#define WINDOWS 6

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
/* All sources wait here: one that opens without its combiner would hang. */
static pthread_barrier_t all_open;

struct end {
	pthread_t thread;
	uint32_t index;
	struct rng rng;
	uint64_t sum, count;
	int status;
	struct dfi_combiner *combiner;
};

static struct end sources[N_SOURCES], combiners[N_COMBINERS];
static struct end targets[N_TARGETS];

static int push_window(struct end *end, struct dfi_source *source, uint32_t w)
{
	uint32_t n = rng_below(&end->rng, 300);
	struct tuple tuple;
	int ret = 0;

	for (; n && !ret; n--) {
		tuple.key = rng_below(&end->rng, N_KEYS);
		tuple.value = rng_below(&end->rng, 1000);
		end->sum += tuple.value;
		end->count++;
		ret = dfi_source_push(source, &tuple);
		rng_yield(&end->rng, 64);
	}
	return ret ? ret : dfi_source_mark(source, w + 1);
}

static void *run_source(void *arg)
{
	struct dfi_source *source;
	struct end *end = arg;
	uint32_t w;
	int ret;

	check(dfi_source_open(dfi, "flow", end->index, NULL, &source) == 0,
	    "source: %s", dfi_errmsg());
	pthread_barrier_wait(&all_open);
	end->status = 0;
	for (w = 0; w < WINDOWS && !end->status; w++)
		end->status = push_window(end, source, w);
	ret = dfi_source_close(source);
	end->status = end->status ? end->status : ret;
	return NULL;
}

static void *run_combiner(void *arg)
{
	struct pollfd pollfd = { .events = POLLIN };
	struct end *end = arg;
	int ret;

	if (end->index % 2)
		pollfd.fd = dfi_combiner_fd(end->combiner);
	while ((ret = dfi_combiner_run(end->combiner)) == -EAGAIN)
		poll(&pollfd, 1, -1);
	end->status = dfi_combiner_close(end->combiner);
	check(
	    !ret || ret == end->status, "close: %d, run: %d", end->status, ret);
	return NULL;
}

static void *run_target(void *arg)
{
	struct dfi_target *target;
	struct end *end = arg;
	const void *tuple;
	int ret;

	check(dfi_target_open(dfi, "flow", end->index, NULL, &target) == 0,
	    "target");
	while ((ret = dfi_target_consume(target, &tuple)) == 1) {
		end->sum += ((const struct result *)tuple)->sum;
		end->count += ((const struct result *)tuple)->count;
	}
	end->status = ret;
	check(dfi_target_close(target) == ret, "close");
	return NULL;
}

static void *abort_one(void *arg)
{
	struct end *end = arg;

	rng_yield(&end->rng, 1);
	while (rng_below(&end->rng, 300))
		sched_yield();
	dfi_combiner_abort(end->combiner);
	return NULL;
}

static void create(void)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_COMBINE,
		.schema = &schema,
		.n_sources = N_SOURCES,
		.n_targets = N_TARGETS,
		.combine.group_by = "key",
		.combine.aggregates = aggregates,
		.combine.n_aggregates = 2,
		.segment_size = 32 * (uint32_t)sizeof(struct tuple),
		.segment_count = 4,
		.combine.window_tuples = DFI_WINDOW_MARKED,
		.combine.fan_in = FAN_IN,
	};

	check(dfi_flow_create(dfi, "flow", &attr) == 0, "create");
}

static void start_ends(
    struct end *ends, uint32_t n, uint64_t seed, void *(*run)(void *))
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		ends[i].index = i;
		ends[i].rng.state = seed * 100 + i;
		ends[i].sum = ends[i].count = 0;
		ends[i].thread = start_thread(run, &ends[i]);
	}
}

static void open_combiners(void)
{
	struct dfi_combiner_attr attr = DFI_COMBINER_ATTR_INIT;
	uint32_t c;

	for (c = N_COMBINERS; c-- > 0;) {
		attr.flags = c % 2 ? DFI_NONBLOCK : 0;
		attr.max_groups = c % 3 ? 0 : 7;
		check(dfi_combiner_open(
			  dfi, "flow", c, &attr, &combiners[c].combiner) == 0,
		    "combiner: %s", dfi_errmsg());
	}
}

static void join(struct end *ends, uint32_t n, uint64_t *sum, uint64_t *count)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		pthread_join(ends[i].thread, NULL);
		*sum += ends[i].sum;
		*count += ends[i].count;
	}
}

static void check_whole(const struct end *ends, uint32_t n, const char *what)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		check(
		    ends[i].status == 0, "%s %u: %d", what, i, ends[i].status);
}

static void run(uint64_t round)
{
	bool aborts = round % 3 == 2;
	uint64_t sent = 0, sent_count = 0, got = 0, got_count = 0, none = 0;
	struct rng rng = { round };
	pthread_t aborter = 0;

	create();
	start_ends(targets, N_TARGETS, 1000 + round, run_target);
	open_combiners();
	start_ends(combiners, N_COMBINERS, 2000 + round, run_combiner);
	start_ends(sources, N_SOURCES, 3000 + round, run_source);
	pthread_barrier_wait(&all_open);
	if (aborts)
		aborter = start_thread(
		    abort_one, &combiners[rng_below(&rng, N_COMBINERS)]);
	join(sources, N_SOURCES, &sent, &sent_count);
	join(combiners, N_COMBINERS, &none, &none);
	join(targets, N_TARGETS, &got, &got_count);
	if (aborts)
		pthread_join(aborter, NULL);
	check(dfi_flow_remove(dfi, "flow") == 0, "remove");
	if (aborts &&
	    combiners[0].status | combiners[1].status | combiners[2].status |
		combiners[3].status | combiners[4].status) {
		check(got_count <= sent_count, "more than was sent");
		return;
	}
	check_whole(sources, N_SOURCES, "source");
	check_whole(targets, N_TARGETS, "target");
	check(sent == got && sent_count == got_count, "sums");
}

int main(int argc, char **argv)
{
	uint64_t round, rounds = argc > 1 ? strtoull(argv[1], NULL, 0) : ROUNDS;
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;

	check(dfi_registry_start(NULL, &registry) == 0, "registry");
	attr.registry = dfi_registry_address(registry);
	attr.open_timeout_ms = LONG_MS;
	check(dfi_open(&attr, &dfi) == 0, "open");
	pthread_barrier_init(&all_open, NULL, N_SOURCES + 1);
	for (round = 0; round < rounds; round++)
		run(round);
	pthread_barrier_destroy(&all_open);
	check(dfi_close(dfi) == 0, "close");
	check(dfi_registry_stop(registry) == 0, "stop");
	return EXIT_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of combiner flows N:M in one process, for ThreadSanitizer: small
 * rings and small windows, so that sources, which are held back all the time,
 * and targets put each other to sleep; by marks and by counts, with and without
 * lingering, waiting and nonblocking with polled descriptors.
 */
#include <poll.h>
#include <stdbool.h>

#include "stress_help.h"

#define N_SOURCES 3
#define N_TARGETS 2
#define N_WINDOWS 600u
#define MAX_TUPLES 12u /* of a window */
#define N_KEYS 5u

struct tuple {
	uint64_t key, window;
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct tuple, key),
	DFI_FIELD(struct tuple, window),
};
static const struct dfi_schema schema = DFI_SCHEMA(struct tuple, fields);

/* What comes of a group: its tuples name their window. */
struct result {
	uint64_t key, count, least, most;
};

static const struct dfi_aggregate aggregates[] = {
	{ .function = DFI_COUNT },
	{ .function = DFI_MIN, .field = "window", .name = "least" },
	{ .function = DFI_MAX, .field = "window", .name = "most" },
};

struct run {
	const char *name;
	uint64_t window_tuples;
	uint32_t goal, segment_tuples, segment_count, linger_us, flags;
	uint64_t max_groups;
};

struct end {
	const struct run *run;
	struct dfi *dfi;
	uint32_t index;
	struct rng rng;
	uint64_t count;
};

static bool marks(const struct run *run)
{
	return run->window_tuples == DFI_WINDOW_MARKED;
}

/* How many tuples a source has in a window. */
static uint32_t n_tuples(const struct run *run, uint32_t source, uint64_t w)
{
	struct rng rng = { source * N_WINDOWS + w };

	return marks(run) ? rng_below(&rng, MAX_TUPLES + 1)
			  : (uint32_t)run->window_tuples;
}

static bool again(int fd, int ret)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	if (ret == -EAGAIN)
		check(poll(&pollfd, 1, (int)LONG_MS) == 1, "poll");
	return ret == -EAGAIN;
}

static void push_window(
    struct end *end, struct dfi_source *source, int fd, uint64_t w)
{
	uint32_t i, n = n_tuples(end->run, end->index, w);
	struct tuple tuple = { .window = w };
	int ret;

	for (i = 0; i < n; i++) {
		tuple.key = rng_below(&end->rng, N_KEYS);
		do
			ret = dfi_source_push(source, &tuple);
		while (again(fd, ret));
		check(ret == 0, "push: %d", ret);
		if (rng_below(&end->rng, 8))
			continue;
		do
			ret = dfi_source_flush(source);
		while (again(fd, ret));
		check(ret == 0, "flush: %d", ret);
	}
	if (!marks(end->run))
		return;
	do
		ret = dfi_source_mark(source, w + 1);
	while (again(fd, ret));
	check(ret == 0, "mark: %d", ret);
}

static void *run_source(void *arg)
{
	struct end *end = arg;
	const struct run *run = end->run;
	struct dfi_source_attr attr = {
		.size = sizeof(attr),
		.flags = run->flags,
		.open_timeout_ms = LONG_MS,
		.stall_timeout_ms = LONG_MS,
		.linger_us = run->linger_us,
	};
	/* One ends early. */
	uint64_t w, n = end->index ? N_WINDOWS : N_WINDOWS / 2;
	struct dfi_source *source;
	int fd = -1;

	check(dfi_source_open(
		  end->dfi, run->name, end->index, &attr, &source) == 0,
	    "source %u", end->index);
	if (run->flags & DFI_NONBLOCK)
		fd = dfi_source_fd(source);
	for (w = 0; w < n; w++) {
		push_window(end, source, fd, w);
		end->count += n_tuples(run, end->index, w);
		rng_yield(&end->rng, 16);
	}
	check(dfi_source_close(source) == 0, "close");
	return NULL;
}

static void look_at(struct end *end, struct dfi_target *target,
    const struct result *results, uint32_t n)
{
	uint64_t window;
	uint32_t i;

	check(dfi_target_window(target, &window) == 0, "window");
	for (i = 0; i < n; i++) {
		check(results[i].least == window && results[i].most == window,
		    "windows %lu to %lu in window %lu",
		    (unsigned long)results[i].least,
		    (unsigned long)results[i].most, (unsigned long)window);
		end->count += results[i].count;
	}
}

static void *run_target(void *arg)
{
	struct end *end = arg;
	struct dfi_target_attr attr = {
		.size = sizeof(attr),
		.flags = end->run->flags,
		.open_timeout_ms = LONG_MS,
		.stall_timeout_ms = LONG_MS,
	};
	struct dfi_target *target;
	struct dfi_batch batch;
	int ret, fd = -1;

	check(dfi_target_open(
		  end->dfi, end->run->name, end->index, &attr, &target) == 0,
	    "target %u", end->index);
	if (end->run->flags & DFI_NONBLOCK)
		fd = dfi_target_fd(target);
	do {
		ret = dfi_target_consume_batch(target, &batch);
		if (ret > 0) {
			look_at(end, target, batch.tuples, batch.count);
			dfi_target_release(target, &batch);
		}
		rng_yield(&end->rng, 16);
	} while (ret > 0 || again(fd, ret));
	check(ret == 0, "consume: %d", ret);
	check(dfi_target_close(target) == 0, "close");
	return NULL;
}

static void run_flow(const struct run *run, struct dfi *dfi, struct dfi *other)
{
	struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_COMBINE,
		.schema = &schema,
		.n_sources = N_SOURCES,
		.n_targets = N_TARGETS,
		.goal = run->goal,
		.segment_size = run->segment_tuples *
		    (uint32_t)sizeof(struct tuple),
		.segment_count = run->segment_count,
		.combine.group_by = "key",
		.combine.aggregates = aggregates,
		.combine.n_aggregates = 3,
		.combine.window_tuples = run->window_tuples,
		.combine.max_groups = run->max_groups,
		.combine.when_full = run->max_groups ? DFI_FULL_EMIT
						     : DFI_FULL_FAIL,
	};
	pthread_t threads[N_SOURCES + N_TARGETS];
	struct end ends[N_SOURCES + N_TARGETS];
	uint64_t pushed = 0, counted = 0;
	uint32_t i;

	check(dfi_flow_create(dfi, run->name, &attr) == 0, "create");
	for (i = 0; i < N_SOURCES + N_TARGETS; i++) {
		ends[i] = (struct end){
			.run = run,
			.dfi = i < N_TARGETS ? dfi : other,
			.index = i < N_TARGETS ? i : i - N_TARGETS,
			.rng.state = i,
		};
		threads[i] = start_thread(
		    i < N_TARGETS ? run_target : run_source, &ends[i]);
	}
	for (i = 0; i < N_SOURCES + N_TARGETS; i++) {
		pthread_join(threads[i], NULL);
		if (i < N_TARGETS)
			counted += ends[i].count;
		else
			pushed += ends[i].count;
	}
	check(pushed == counted, "%s: %lu tuples are in results, of %lu",
	    run->name, (unsigned long)counted, (unsigned long)pushed);
}

static const struct run runs[] = {
	{ "marks", DFI_WINDOW_MARKED, DFI_BANDWIDTH, 3, 2, DFI_NO_LINGER, 0,
	    0 },
	{ "marks-linger", DFI_WINDOW_MARKED, DFI_BANDWIDTH, 4, 3, 20, 0, 0 },
	{ "marks-nonblock", DFI_WINDOW_MARKED, DFI_BANDWIDTH, 4, 2,
	    DFI_NO_LINGER, DFI_NONBLOCK, 2 },
	{ "counts", 7, DFI_BANDWIDTH, 4, 2, DFI_NO_LINGER, 0, 0 },
	{ "counts-linger", 9, DFI_BANDWIDTH, 4, 3, 20, 0, 2 },
	{ "counts-nonblock", 3, DFI_BANDWIDTH, 2, 2, DFI_NO_LINGER,
	    DFI_NONBLOCK, 0 },
	{ "counts-linger-nonblock", 10, DFI_BANDWIDTH, 8, 2, 20, DFI_NONBLOCK,
	    0 },
	{ "counts-latency", 4, DFI_LATENCY, 0, 2, DFI_NO_LINGER, 0, 0 },
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

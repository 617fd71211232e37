/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Combiner flows with a tree. Random ones equal the same flow without a tree
 * and a plain loop; what arrives at a target; who learns that a source, a
 * combiner or a target leaves; combiners that don't block; and invalid uses.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

static struct rig rig;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(tree, .init = setup, .fini = teardown, .timeout = 300);

enum {
	MAX_ENDS = 16,
	MAX_FIELDS = 8,
	MAX_AGGREGATES = 6,
	MAX_TUPLE = 128,
	MAX_TUPLES = 600, /* of a source */
	MAX_WINDOWS = 12,
};

/* ---- Flows of random schemas -----------------------------------------------
 */

struct scenario {
	uint64_t seed;
	struct dfi_flow_attr attr;
	struct dfi_schema schema;
	struct dfi_field fields[MAX_FIELDS];
	char names[MAX_FIELDS][8];
	struct dfi_aggregate aggregates[MAX_AGGREGATES];
	char aggregate_names[MAX_AGGREGATES][8];
	char group_by[64];
	uint32_t n_keys;       /* fields, the first ones */
	uint32_t n_groups;     /* of each key field, values */
	uint32_t room;         /* of combiners, for groups */
	bool nonblock, shares; /* of combiners: one thread runs all */
};

static const uint32_t key_types[] = { DFI_INT8, DFI_UINT16, DFI_INT32,
	DFI_UINT32, DFI_INT64, DFI_UINT64, DFI_BYTES };
static const uint32_t value_types[] = { DFI_INT8, DFI_INT16, DFI_INT32,
	DFI_INT64, DFI_UINT8, DFI_UINT16, DFI_UINT32, DFI_UINT64, DFI_FLOAT,
	DFI_DOUBLE };

static uint32_t size_of(uint32_t type, struct rng *rng)
{
	switch (type) {
	case DFI_INT8:
	case DFI_UINT8:
		return 1;
	case DFI_INT16:
	case DFI_UINT16:
		return 2;
	case DFI_INT32:
	case DFI_UINT32:
	case DFI_FLOAT:
		return 4;
	case DFI_BYTES:
		return 1 + rng_below(rng, 12);
	default:
		return 8;
	}
}

static void add_field(struct scenario *s, struct rng *rng, uint32_t type)
{
	uint32_t i = s->schema.n_fields++;
	struct dfi_field *field = &s->fields[i];

	snprintf(s->names[i], sizeof(s->names[i]), "f%u", i);
	*field = (struct dfi_field){
		.name = s->names[i],
		.type = type,
		.size = size_of(type, rng),
		.offset = s->schema.tuple_size,
	};
	s->schema.tuple_size += field->size + rng_below(rng, 3);
}

static void plan_schema(struct scenario *s, struct rng *rng)
{
	uint32_t i, n, used = 0;

	s->schema.fields = s->fields;
	s->n_keys = rng_below(rng, 5);
	if (s->n_keys > 3)
		s->n_keys = 1;
	for (i = 0; i < s->n_keys; i++) {
		add_field(
		    s, rng, key_types[rng_below(rng, N_ELEMENTS(key_types))]);
		used += (uint32_t)snprintf(s->group_by + used,
		    sizeof(s->group_by) - used, "%s%s", i ? "," : "",
		    s->names[i]);
	}
	for (n = 1 + rng_below(rng, 3); n; n--)
		add_field(s, rng,
		    value_types[rng_below(rng, N_ELEMENTS(value_types))]);
	s->attr.schema = &s->schema;
	s->attr.combine.group_by = s->n_keys ? s->group_by : NULL;
}

static void plan_aggregates(struct scenario *s, struct rng *rng)
{
	uint32_t i, n = 1 + rng_below(rng, MAX_AGGREGATES);
	uint32_t n_values = s->schema.n_fields - s->n_keys;
	struct dfi_aggregate *aggregate;
	const struct dfi_field *field;

	for (i = 0; i < n; i++) {
		aggregate = &s->aggregates[i];
		field = &s->fields[s->n_keys + rng_below(rng, n_values)];
		snprintf(s->aggregate_names[i], sizeof(s->aggregate_names[i]),
		    "a%u", i);
		aggregate->name = s->aggregate_names[i];
		aggregate->function = DFI_COUNT + rng_below(rng, 5);
		if (aggregate->function != DFI_COUNT)
			aggregate->field = field->name;
		if (aggregate->function == DFI_SUM && rng_below(rng, 2) &&
		    field->type != DFI_FLOAT && field->type != DFI_DOUBLE)
			aggregate->flags = DFI_AGGREGATE_CHECKED;
	}
	s->attr.combine.aggregates = s->aggregates;
	s->attr.combine.n_aggregates = n;
}

static void plan(struct scenario *s, uint64_t seed)
{
	struct rng rng = { mix(seed, 1) };
	uint32_t way = rng_below(&rng, 4);

	*s = (struct scenario){ .seed = seed, .attr = DFI_FLOW_ATTR_INIT };
	plan_schema(s, &rng);
	plan_aggregates(s, &rng);
	s->attr.kind = DFI_COMBINE;
	s->attr.n_sources = 1 + rng_below(&rng, 10);
	s->attr.n_targets = s->n_keys ? 1 + rng_below(&rng, 3) : 1;
	s->attr.combine.fan_in = 2 + rng_below(&rng, 4);
	s->attr.segment_size = s->schema.tuple_size * (1 + rng_below(&rng, 20));
	s->attr.segment_count = 2 + rng_below(&rng, 6);
	s->attr.verify = rng_below(&rng, 5) ? DFI_VERIFY_NONE
					    : DFI_VERIFY_CHECKSUM;
	if (way == 0)
		s->attr.combine.window_tuples = DFI_WINDOW_MARKED;
	else if (way == 1)
		s->attr.combine.window_tuples = MAX_TUPLES / MAX_WINDOWS +
		    rng_below(&rng, MAX_TUPLES);
	if (rng_below(&rng, 4) == 0) {
		s->attr.goal = DFI_LATENCY;
		s->attr.segment_size = 0;
	} else if (rng_below(&rng, 3) == 0) {
		s->attr.combine.source_combining = DFI_COMBINING_OFF;
	}
	s->n_groups = 1 + rng_below(&rng, 12);
	if (rng_below(&rng, 3) == 0)
		s->room = 1 + rng_below(&rng, 10);
	s->nonblock = rng_below(&rng, 2);
	s->shares = s->nonblock && rng_below(&rng, 2);
}

/* Small integers, so that sums are exact in whatever order. */
static void put_number(char *at, uint32_t type, uint32_t number)
{
	uint64_t integer = number;
	double real = number;
	float single = (float)number;

	switch (type) {
	case DFI_FLOAT:
		memcpy(at, &single, sizeof(single));
		break;
	case DFI_DOUBLE:
		memcpy(at, &real, sizeof(real));
		break;
	case DFI_INT8:
	case DFI_UINT8:
		memcpy(at, &integer, 1);
		break;
	case DFI_INT16:
	case DFI_UINT16:
		memcpy(at, &integer, 2);
		break;
	case DFI_INT32:
	case DFI_UINT32:
		memcpy(at, &integer, 4);
		break;
	default:
		memcpy(at, &integer, sizeof(integer));
	}
}

/* Any bytes, so that integers are large, and negative. */
static void put_key(char *to, uint32_t size, uint64_t number)
{
	uint64_t bytes = dfi_hash64(number + 1);
	uint32_t i;

	for (i = 0; i < size; i++)
		to[i] = (char)(bytes >> 8 * (i % 8));
}

static void make_tuple(
    const struct scenario *s, struct rng *rng, char tuple[MAX_TUPLE])
{
	const struct dfi_field *field;
	uint32_t i;

	memset(tuple, (int)rng_below(rng, 256), s->schema.tuple_size);
	for (i = 0; i < s->schema.n_fields; i++) {
		field = &s->fields[i];
		if (i >= s->n_keys)
			put_number(tuple + field->offset, field->type,
			    rng_below(rng, 100));
		else
			put_key(tuple + field->offset, field->size,
			    rng_below(rng, s->n_groups));
	}
}

/* ---- The ends of a flow, in threads ----------------------------------------
 */

struct end {
	const struct scenario *scenario;
	pthread_t thread;
	uint32_t index;
	char error[400]; /* "": none */
	/* A target's: */
	char *results; /* the window, and a result, one behind the other */
	size_t size, n, room;
};

static void fail(struct end *end, const char *what)
{
	if (!end->error[0])
		snprintf(end->error, sizeof(end->error), "%s: %s", what,
		    dfi_errmsg());
}

static int push_all(struct dfi_source *source, const struct end *end)
{
	const struct scenario *s = end->scenario;
	struct rng rng = { mix(s->seed, 100 + end->index) };
	uint32_t n = rng_below(&rng, MAX_TUPLES + 1), marks = 0, i;
	bool marked = s->attr.combine.window_tuples == DFI_WINDOW_MARKED;
	char tuple[MAX_TUPLE];
	int ret = 0;

	if (rng_below(&rng, 8) == 0)
		n = 0;
	for (i = 0; i < n && !ret; i++) {
		make_tuple(s, &rng, tuple);
		ret = dfi_source_push(source, tuple);
		if (!ret && rng_below(&rng, 200) == 0)
			ret = dfi_source_flush(source);
		while (!ret && marked && marks < MAX_WINDOWS &&
		    rng_below(&rng, 80) == 0) {
			ret = dfi_source_mark(source, ++marks);
		}
	}
	return ret;
}

static void *run_source(void *arg)
{
	struct dfi_source *source;
	struct end *end = arg;

	if (dfi_source_open(rig.other, "f", end->index, NULL, &source) < 0) {
		fail(end, "open");
		return NULL;
	}
	if (push_all(source, end) < 0)
		fail(end, "push");
	if (dfi_source_close(source) < 0)
		fail(end, "close");
	return NULL;
}

static void keep(struct end *end, uint64_t window, const char *result)
{
	if (end->n == end->room) {
		end->room = 2 * end->room + 16;
		end->results = realloc(end->results, end->room * end->size);
	}
	memcpy(end->results + end->n * end->size, &window, sizeof(window));
	memcpy(end->results + end->n * end->size + sizeof(window), result,
	    end->size - sizeof(window));
	end->n++;
}

static void *run_target(void *arg)
{
	struct dfi_target *target;
	struct dfi_batch batch;
	struct end *end = arg;
	uint64_t window = 0;
	uint32_t i;
	int ret;

	if (dfi_target_open(rig.dfi, "f", end->index, NULL, &target) < 0) {
		fail(end, "open");
		return NULL;
	}
	while ((ret = dfi_target_consume_batch(target, &batch)) > 0) {
		if (end->scenario->attr.combine.window_tuples &&
		    dfi_target_window(target, &window) < 0)
			fail(end, "window");
		end->size = batch.stride + sizeof(window);
		for (i = 0; i < batch.count; i++)
			keep(end, window,
			    (const char *)batch.tuples + i * batch.stride);
		dfi_target_release(target, &batch);
	}
	if (ret < 0)
		fail(end, "consume");
	if (dfi_target_close(target) < 0)
		fail(end, "close");
	return NULL;
}

static int open_end(struct end *end, struct dfi_combiner **combiner)
{
	struct dfi_combiner_attr attr = DFI_COMBINER_ATTR_INIT;

	attr.flags = end->scenario->nonblock ? DFI_NONBLOCK : 0;
	attr.max_groups = end->scenario->room;
	if (dfi_combiner_open(end->index % 2 ? rig.dfi : rig.other, "f",
		end->index, &attr, combiner) < 0) {
		fail(end, "open");
		return -1;
	}
	return 0;
}

static void *run_combiner(void *arg)
{
	struct dfi_combiner *combiner;
	struct end *end = arg;
	struct pollfd pollfd = { .events = POLLIN };
	int ret;

	if (open_end(end, &combiner) < 0)
		return NULL;
	if (end->scenario->nonblock)
		pollfd.fd = dfi_combiner_fd(combiner);
	while ((ret = dfi_combiner_run(combiner)) == -EAGAIN)
		poll(&pollfd, 1, -1);
	if (ret < 0)
		fail(end, "run");
	if (dfi_combiner_close(combiner) < 0)
		fail(end, "close");
	return NULL;
}

/* All of them, in one thread, which polls. */
static void *run_combiners(void *arg)
{
	struct end *ends = arg;
	struct dfi_combiner *combiners[MAX_ENDS];
	struct pollfd pollfds[MAX_ENDS];
	uint32_t n = 0, c, left;
	int ret;

	while (n < MAX_ENDS && ends[n].scenario)
		n++;
	for (c = n; c-- > 0;) {
		if (open_end(&ends[c], &combiners[c]) < 0)
			abort();
		pollfds[c] = (struct pollfd){ dfi_combiner_fd(combiners[c]),
			POLLIN, 0 };
	}
	for (left = n; left;) {
		poll(pollfds, n, -1);
		for (c = 0; c < n; c++) {
			if (pollfds[c].fd < 0 || !pollfds[c].revents)
				continue;
			ret = dfi_combiner_run(combiners[c]);
			if (ret == -EAGAIN)
				continue;
			if (ret < 0)
				fail(&ends[c], "run");
			if (dfi_combiner_close(combiners[c]) < 0)
				fail(&ends[c], "close");
			pollfds[c].fd = -1;
			left--;
		}
	}
	return NULL;
}

static void start(struct end *end, const struct scenario *s, uint32_t index,
    void *(*run)(void *))
{
	*end = (struct end){ .scenario = s, .index = index };
	if (run)
		cr_assert_eq(pthread_create(&end->thread, NULL, run, end), 0);
}

static void join(struct end *ends, uint32_t n, const char *role)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (ends[i].thread)
			pthread_join(ends[i].thread, NULL);
	for (i = 0; i < n; i++)
		cr_assert_str_empty(ends[i].error, "seed %lu: %s %u: %s",
		    (unsigned long)ends[i].scenario->seed, role, i,
		    ends[i].error);
}

static uint32_t count_combiners(void)
{
	struct dfi_flow_info info;

	cr_assert_eq(dfi_flow_lookup(rig.dfi, "f", &info), 0);
	return info.n_combiners;
}

static size_t result_size;

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, result_size);
}

/* All results, of all windows, target by target, in an order of their own. */
struct results {
	char *all;
	size_t n, size;
};

static struct results collect(struct end *targets, uint32_t n)
{
	struct results results = { .n = 0 };
	uint32_t t;

	for (t = 0; t < n; t++) {
		results.n += targets[t].n;
		if (targets[t].n)
			results.size = targets[t].size;
	}
	result_size = results.size;
	results.all = malloc(results.n * results.size + 1);
	results.n = 0;
	for (t = 0; t < n; t++) {
		if (targets[t].n) {
			qsort(targets[t].results, targets[t].n, results.size,
			    compare);
			memcpy(results.all + results.n * results.size,
			    targets[t].results, targets[t].n * results.size);
		}
		results.n += targets[t].n;
		free(targets[t].results);
	}
	return results;
}

static struct results run(const struct scenario *s)
{
	static struct end sources[MAX_ENDS], targets[MAX_ENDS];
	static struct end combiners[MAX_ENDS];
	uint32_t i, n_combiners;

	memset(combiners, 0, sizeof(combiners));
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &s->attr), 0, "seed %lu: %s",
	    (unsigned long)s->seed, dfi_errmsg());
	n_combiners = count_combiners();
	cr_assert_leq(n_combiners, MAX_ENDS);
	for (i = 0; i < s->attr.n_targets; i++)
		start(&targets[i], s, i, run_target);
	for (i = 0; i < n_combiners; i++)
		start(&combiners[i], s, i, s->shares ? NULL : run_combiner);
	if (n_combiners && s->shares)
		cr_assert_eq(pthread_create(&combiners[0].thread, NULL,
				 run_combiners, combiners),
		    0);
	for (i = 0; i < s->attr.n_sources; i++)
		start(&sources[i], s, i, run_source);
	join(sources, s->attr.n_sources, "source");
	join(combiners, n_combiners, "combiner");
	join(targets, s->attr.n_targets, "target");
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	return collect(targets, s->attr.n_targets);
}

Test(tree, of_a_random_flow_gives_the_results_of_the_flow_without)
{
	uint64_t seed = test_setting("SEED", 1);
	uint64_t end = seed + test_setting("TREE_SEEDS", 25);
	struct results with, without;
	static struct scenario s;

	for (; seed < end; seed++) {
		plan(&s, seed);
		with = run(&s);
		s.attr.combine.fan_in = 0;
		s.attr.combine.source_combining = DFI_COMBINING_OFF;
		without = run(&s);
		cr_assert_eq(with.n, without.n,
		    "seed %lu: %zu results, and %zu without a tree",
		    (unsigned long)seed, with.n, without.n);
		cr_assert_eq(memcmp(with.all, without.all, with.n * with.size),
		    0, "seed %lu: results differ", (unsigned long)seed);
		free(with.all);
		free(without.all);
	}
}

/* ---- Flows of keys and values ----------------------------------------------
 */

static const struct dfi_aggregate kv_aggregates[] = {
	{ .function = DFI_COUNT, .name = "count" },
	{ .function = DFI_SUM, .field = "val", .name = "sum" },
	{ .function = DFI_MAX, .field = "val", .name = "most" },
	{ .function = DFI_AVG, .field = "val", .name = "mean" },
};

struct result {
	uint64_t key, count, sum, most;
	double mean;
};

static struct dfi_flow_attr kv_attr(
    uint32_t n_sources, uint32_t n_targets, uint32_t fan_in)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_COMBINE;
	attr.schema = &kv_schema;
	attr.n_sources = n_sources;
	attr.n_targets = n_targets;
	attr.combine.aggregates = kv_aggregates;
	attr.combine.n_aggregates = N_ELEMENTS(kv_aggregates);
	attr.combine.group_by = "key";
	attr.combine.fan_in = fan_in;
	return attr;
}

static void create(const struct dfi_flow_attr *attr)
{
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", attr), 0, "%s", dfi_errmsg());
}

static struct dfi_combiner *open_combiner(uint32_t index, uint32_t flags)
{
	struct dfi_combiner_attr attr = DFI_COMBINER_ATTR_INIT;
	struct dfi_combiner *combiner = NULL;

	attr.flags = flags;
	attr.stall_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_combiner_open(rig.dfi, "f", index, &attr, &combiner),
	    0, "%s", dfi_errmsg());
	return combiner;
}

/* A nonblocking one, until it has ended or failed. */
static int run_soon(struct dfi_combiner *combiner)
{
	int64_t deadline = now_ms() + LONG_MS;
	int ret;

	while ((ret = dfi_combiner_run(combiner)) == -EAGAIN &&
	    now_ms() < deadline)
		yield_times(1);
	return ret;
}

/*
 * The same, until a counter in stats reaches n: a device delivers late, and a
 * source would wait for room that nobody makes.
 */
static void run_until_counted(struct dfi_combiner *combiner,
    struct dfi_combiner_stats *stats, const uint64_t *counter, uint64_t n)
{
	int64_t deadline = now_ms() + LONG_MS;

	do {
		yield_times(1);
		cr_assert_eq(dfi_combiner_run(combiner), -EAGAIN);
		dfi_combiner_query(combiner, stats);
	} while (*counter < n && now_ms() < deadline);
	cr_assert_eq(*counter, n);
}

/* All ends of a small flow in one thread: its combiners don't block. */
struct small {
	struct dfi_target *targets[MAX_ENDS];
	struct dfi_combiner *combiners[MAX_ENDS];
	struct dfi_source *sources[MAX_ENDS];
	uint32_t n_targets, n_combiners, n_sources;
};

static void open_small(struct small *small, const struct dfi_flow_attr *attr)
{
	uint32_t i;

	create(attr);
	*small = (struct small){ .n_targets = attr->n_targets,
		.n_combiners = count_combiners(),
		.n_sources = attr->n_sources };
	for (i = 0; i < small->n_targets; i++)
		small->targets[i] = open_target(rig.dfi, "f", i, DFI_NONBLOCK);
	for (i = small->n_combiners; i-- > 0;)
		small->combiners[i] = open_combiner(i, DFI_NONBLOCK);
	for (i = 0; i < small->n_sources; i++)
		small->sources[i] = open_source(rig.other, "f", i, 0);
}

static void push(struct dfi_source *source, uint64_t key, uint64_t val)
{
	cr_assert_eq(dfi_source_push(source, &(struct kv){ key, val }), 0, "%s",
	    dfi_errmsg());
}

/* Run all combiners until the target has something, or an end. */
static int consume_small(
    struct small *small, uint32_t target, const void **tuple)
{
	int64_t deadline = now_ms() + LONG_MS;
	uint32_t c;
	int ret;

	while ((ret = dfi_target_consume(small->targets[target], tuple)) ==
		-EAGAIN &&
	    now_ms() < deadline)
		for (c = 0; c < small->n_combiners; c++) {
			if (!small->combiners[c])
				continue;
			ret = dfi_combiner_run(small->combiners[c]);
			if (ret == -EAGAIN)
				continue;
			cr_assert_eq(
			    dfi_combiner_close(small->combiners[c]), ret);
			small->combiners[c] = NULL;
		}
	return ret;
}

static void close_sources(struct small *small)
{
	uint32_t i;

	for (i = 0; i < small->n_sources; i++)
		cr_assert_eq(
		    dfi_source_close(small->sources[i]), 0, "%s", dfi_errmsg());
	small->n_sources = 0;
}

static void close_targets(struct small *small, int expected)
{
	uint32_t i;

	for (i = 0; i < small->n_targets; i++)
		cr_assert_eq(dfi_target_close(small->targets[i]), expected);
}

Test(tree, of_several_levels_gives_what_a_plain_loop_does)
{
	enum {
		N_SOURCES = 9,
		N_KEYS = 50,
		N_TUPLES = 500
	};
	static struct result expected[N_KEYS];
	struct dfi_flow_attr attr = kv_attr(N_SOURCES, 2, 2);
	const struct result *result;
	struct small small;
	uint64_t key, val, n = 0;
	const void *tuple;
	uint32_t s, i, t;
	int ret;

	open_small(&small, &attr);
	/* 5, 3 and 2 of them. */
	cr_assert_eq(small.n_combiners, 10);
	for (s = 0; s < N_SOURCES; s++)
		for (i = 0; i < N_TUPLES; i++) {
			key = mix(s, i) % N_KEYS;
			val = mix(s, i) >> 30;
			push(small.sources[s], key, val);
			expected[key].count++;
			expected[key].sum += val;
			if (val > expected[key].most)
				expected[key].most = val;
		}
	close_sources(&small);
	for (t = 0; t < 2; t++) {
		while ((ret = consume_small(&small, t, &tuple)) > 0) {
			result = tuple;
			cr_assert_eq(dfi_hash64_partition(result->key, 2), t);
			cr_assert_lt(result->key, N_KEYS);
			cr_assert_eq(
			    result->count, expected[result->key].count);
			cr_assert_eq(result->sum, expected[result->key].sum);
			cr_assert_eq(result->most, expected[result->key].most);
			cr_assert(result->mean ==
			    (double)result->sum / (double)result->count);
			n++;
		}
		cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	}
	cr_assert_eq(n, N_KEYS);
	close_targets(&small, 0);
}

/* ---- What arrives ----------------------------------------------------------
 */

enum {
	LOAD_SOURCES = 8,
	LOAD_KEYS = 1000,
	LOAD_TUPLES = 20000, /* of a source */
};

static void *push_load(void *arg)
{
	struct dfi_source *source;
	struct end *end = arg;
	uint64_t i;
	int ret;

	ret = dfi_source_open(rig.other, "f", end->index, NULL, &source);
	if (ret < 0) {
		fail(end, "open");
		return NULL;
	}
	for (i = 0; i < LOAD_TUPLES && !ret; i++)
		ret = dfi_source_push(
		    source, &(struct kv){ i % LOAD_KEYS, mix(end->index, i) });
	if (dfi_source_close(source) < 0)
		fail(end, "source");
	return NULL;
}

/* Bytes into the target, all of whose groups all sources have. */
static uint64_t bytes_with(uint32_t fan_in)
{
	static const struct scenario s;
	static struct end sources[LOAD_SOURCES], combiners[LOAD_SOURCES];
	struct dfi_flow_attr attr = kv_attr(LOAD_SOURCES, 1, fan_in);
	struct dfi_target_stats stats;
	struct dfi_target *target;
	uint32_t i, n_combiners;
	const void *tuple;
	uint64_t n = 0;

	attr.combine.source_combining = DFI_COMBINING_ALWAYS;
	create(&attr);
	n_combiners = count_combiners();
	target = open_target(rig.dfi, "f", 0, 0);
	for (i = 0; i < n_combiners; i++)
		start(&combiners[i], &s, i, run_combiner);
	for (i = 0; i < LOAD_SOURCES; i++)
		start(&sources[i], &s, i, push_load);
	while (dfi_target_consume(target, &tuple) > 0) {
		cr_assert_eq(((const struct result *)tuple)->count,
		    LOAD_SOURCES * LOAD_TUPLES / LOAD_KEYS);
		n++;
	}
	cr_assert_eq(n, LOAD_KEYS);
	join(sources, LOAD_SOURCES, "source");
	join(combiners, n_combiners, "combiner");
	dfi_target_query(target, &stats);
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	return stats.bytes;
}

Test(tree, lets_a_target_get_what_its_top_level_sends)
{
	double without = (double)bytes_with(0), one = without / LOAD_SOURCES;

	cr_assert_lt((double)bytes_with(4), 1.3 * 2 * one);
	cr_assert_lt((double)bytes_with(8), 1.3 * one);
	cr_assert_lt((double)bytes_with(2), 1.3 * 2 * one);
}

/* ---- Windows ---------------------------------------------------------------
 */

Test(tree, passes_a_window_on_when_all_inputs_have_ended_it)
{
	struct dfi_flow_attr attr = kv_attr(4, 1, 2);
	const struct result *result;
	struct small small;
	const void *tuple;
	uint64_t w, window;
	uint32_t s;

	attr.combine.window_tuples = DFI_WINDOW_MARKED;
	open_small(&small, &attr);
	for (w = 0; w < 5; w++) {
		for (s = 0; s < 4; s++) {
			/* One of four windows is empty. */
			if (w % 4)
				push(small.sources[s], w, s);
			if (s < 3)
				cr_assert_eq(
				    dfi_source_mark(small.sources[s], w + 1),
				    0);
		}
		for (s = 0; s < small.n_combiners; s++)
			cr_assert_eq(
			    dfi_combiner_run(small.combiners[s]), -EAGAIN);
		cr_assert_eq(
		    dfi_target_consume(small.targets[0], &tuple), -EAGAIN);
		cr_assert_eq(dfi_source_mark(small.sources[3], w + 1), 0);
		if (w % 4 == 0)
			continue;
		cr_assert_eq(consume_small(&small, 0, &tuple), 1);
		result = tuple;
		cr_assert_eq(dfi_target_window(small.targets[0], &window), 0);
		cr_assert_eq(window, w);
		cr_assert_eq(result->key, w);
		cr_assert_eq(result->count, 4);
		cr_assert_eq(result->sum, 6);
	}
	/* Tuples behind the last mark are a window as well. */
	push(small.sources[1], 77, 1);
	close_sources(&small);
	cr_assert_eq(consume_small(&small, 0, &tuple), 1);
	cr_assert_eq(dfi_target_window(small.targets[0], &window), 0);
	cr_assert_eq(window, 5);
	cr_assert_eq(consume_small(&small, 0, &tuple), 0);
	close_targets(&small, 0);
}

/* ---- Room ------------------------------------------------------------------
 */

Test(tree, has_targets_decide_whether_there_are_too_many_groups)
{
	struct dfi_flow_attr attr = kv_attr(2, 1, 2);
	struct small small;
	const void *tuple;
	uint64_t i;

	attr.combine.max_groups = 10;
	open_small(&small, &attr);
	for (i = 0; i < 11; i++)
		push(small.sources[i % 2], i, 1);
	close_sources(&small);
	assert_error(consume_small(&small, 0, &tuple), -ENOSPC, "flow 'f'",
	    "target 0", "10 groups");
	close_targets(&small, -ENOSPC);
	for (i = 0; i < small.n_combiners; i++)
		if (small.combiners[i])
			dfi_combiner_close(small.combiners[i]);
}

Test(tree, goes_on_where_a_target_gives_results_early)
{
	enum {
		KEYS = 40,
		ROUNDS = 25
	};
	struct dfi_flow_attr attr = kv_attr(3, 1, 2);
	uint64_t counts[KEYS] = { 0 }, n = 0, i;
	const struct result *result;
	struct small small;
	const void *tuple;
	int ret;

	attr.combine.max_groups = 7;
	attr.combine.when_full = DFI_FULL_EMIT;
	open_small(&small, &attr);
	for (i = 0; i < KEYS * ROUNDS * 3; i++)
		push(small.sources[i % 3], i % KEYS, 1);
	close_sources(&small);
	while ((ret = consume_small(&small, 0, &tuple)) > 0) {
		result = tuple;
		cr_assert_lt(result->key, KEYS);
		counts[result->key] += result->count;
		n++;
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_gt(n, KEYS);
	for (i = 0; i < KEYS; i++)
		cr_assert_eq(counts[i], 3 * ROUNDS);
	close_targets(&small, 0);
}

/* More comes than rings hold, while nobody reads: it is refused, and polls. */
Test(tree, waits_for_room_by_a_descriptor)
{
	enum {
		KEYS = 2000
	};
	struct dfi_flow_attr attr = kv_attr(1, 1, 2);
	struct pollfd pollfd = { .events = POLLIN };
	struct dfi_combiner_stats stats;
	struct small small;
	const void *tuple;
	uint64_t i, n = 0;
	int ret, fd;

	attr.segment_size = 64 * (uint32_t)sizeof(struct kv);
	attr.segment_count = 2;
	attr.combine.source_combining = DFI_COMBINING_OFF;
	open_small(&small, &attr);
	fd = pollfd.fd = dfi_combiner_fd(small.combiners[0]);
	cr_assert_geq(fd, 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_combiner_fd(small.combiners[0]), fd);
	cr_assert_eq(dfi_combiner_run(small.combiners[0]), -EAGAIN);
	for (i = 0; i < KEYS; i++) {
		push(small.sources[0], i, i);
		if (i % 64 == 63)
			run_until_counted(
			    small.combiners[0], &stats, &stats.tuples, i + 1);
	}
	close_sources(&small);
	do {
		poll(&pollfd, 1, LONG_MS);
		ret = dfi_combiner_run(small.combiners[0]);
		dfi_combiner_query(small.combiners[0], &stats);
	} while (ret == -EAGAIN && !stats.record_segments);
	/* It is full, and says so each time. */
	cr_assert_eq(ret, -EAGAIN);
	cr_assert_eq(stats.tuples, KEYS);
	do {
		ret = dfi_target_consume(small.targets[0], &tuple);
		n += ret > 0;
		if (ret != -EAGAIN || !small.combiners[0])
			continue;
		cr_assert_eq(poll(&pollfd, 1, LONG_MS), 1);
		ret = dfi_combiner_run(small.combiners[0]);
		if (ret != -EAGAIN) {
			cr_assert_eq(ret, 0, "%s", dfi_errmsg());
			cr_assert_eq(dfi_combiner_close(small.combiners[0]), 0);
			small.combiners[0] = NULL;
		}
		ret = 1;
	} while (ret > 0 || ret == -EAGAIN);
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	cr_assert_eq(n, KEYS);
	close_targets(&small, 0);
}

/* ---- Ends that are none ----------------------------------------------------
 */

/* Of the pieces of a flow whose ends are not looked at. */
static void close_all(struct small *small)
{
	uint32_t i;

	for (i = 0; i < small->n_sources; i++)
		dfi_source_close(small->sources[i]);
	for (i = 0; i < small->n_combiners; i++)
		dfi_combiner_close(small->combiners[i]);
	for (i = 0; i < small->n_targets; i++)
		dfi_target_close(small->targets[i]);
}

/* The receiver of a combiner has left. */
static void expect_lost(struct dfi_combiner *combiner, const char *name)
{
	assert_error(run_soon(combiner), -ECONNRESET, "flow 'f'", name,
	    "died or closed");
	cr_assert_eq(dfi_combiner_run(combiner), -ECONNRESET);
	cr_assert_eq(dfi_combiner_close(combiner), -ECONNRESET);
}

Test(tree, notifies_targets_which_source_has_aborted)
{
	struct dfi_flow_attr attr = kv_attr(5, 2, 2);
	struct small small;
	const void *tuple;
	uint32_t t, i;

	open_small(&small, &attr);
	/* 3 and 2 combiners. */
	cr_assert_eq(small.n_combiners, 5);
	push(small.sources[3], 1, 1);
	dfi_source_abort(small.sources[3]);
	cr_assert_eq(dfi_source_close(small.sources[3]), -ECANCELED);
	assert_error(run_soon(small.combiners[1]), -ECANCELED, "flow 'f'",
	    "source 3", "aborted the flow");
	cr_assert_eq(dfi_combiner_close(small.combiners[1]), -ECANCELED);
	assert_error(run_soon(small.combiners[3]), -ECANCELED, "flow 'f'",
	    "source 3 aborted the flow, says combiner 1 (node");
	cr_assert_eq(dfi_combiner_close(small.combiners[3]), -ECANCELED);
	for (t = 0; t < 2; t++) {
		assert_error(consume_soon(small.targets[t], &tuple), -ECANCELED,
		    "flow 'f'",
		    "source 3 aborted the flow, says combiner 3 (node");
		cr_assert_eq(dfi_target_close(small.targets[t]), -ECANCELED);
	}
	/* Its neighbour has lost its combiner. */
	push(small.sources[2], 1, 1);
	assert_error(dfi_source_close(small.sources[2]), -ECONNRESET,
	    "combiner 1 (node", "died or closed");
	/* The others lose their receivers, from above. */
	expect_lost(small.combiners[0], "combiner 3 (node");
	expect_lost(small.combiners[4], "target 0 (node");
	expect_lost(small.combiners[2], "combiner 4 (node");
	for (i = 0; i < 5; i++)
		if (i != 2 && i != 3)
			cr_assert_eq(
			    dfi_source_close(small.sources[i]), -ECONNRESET);
}

Test(tree, notifies_inputs_and_targets_that_a_combiner_is_closed_early)
{
	struct dfi_flow_attr attr = kv_attr(4, 1, 2);
	struct small small;
	const void *tuple;

	open_small(&small, &attr);
	push(small.sources[0], 1, 1);
	assert_error(dfi_combiner_close(small.combiners[0]), -ECANCELED,
	    "flow 'f'", "combiner 0", "before its inputs had ended");
	assert_error(consume_soon(small.targets[0], &tuple), -ECANCELED,
	    "flow 'f'", "combiner 0 (node", "aborted the flow after");
	cr_assert_eq(dfi_target_close(small.targets[0]), -ECANCELED);
	expect_lost(small.combiners[1], "target 0 (node");
	assert_error(dfi_source_close(small.sources[0]), -ECONNRESET,
	    "combiner 0 (node");
	cr_assert_eq(dfi_source_close(small.sources[1]), -ECONNRESET);
	assert_error(dfi_source_close(small.sources[2]), -ECONNRESET,
	    "combiner 1 (node");
	cr_assert_eq(dfi_source_close(small.sources[3]), -ECONNRESET);
}

static void *abort_combiner(void *arg)
{
	yield_times(1000);
	dfi_combiner_abort(arg);
	return NULL;
}

Test(tree, lets_any_thread_abort_a_combiner_that_waits)
{
	struct dfi_flow_attr attr = kv_attr(1, 1, 2);
	struct dfi_combiner *combiner;
	struct dfi_target *target;
	struct dfi_source *source;
	const void *tuple;
	pthread_t thread;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	combiner = open_combiner(0, 0);
	source = open_source(rig.other, "f", 0, 0);
	cr_assert_eq(
	    pthread_create(&thread, NULL, abort_combiner, combiner), 0);
	assert_error(dfi_combiner_run(combiner), -ECANCELED, "flow 'f'",
	    "combiner 0 was aborted here (dfi_combiner_abort())");
	pthread_join(thread, NULL);
	cr_assert_eq(dfi_combiner_run(combiner), -ECANCELED);
	assert_error(
	    dfi_combiner_close(combiner), -ECANCELED, "dfi_combiner_abort()");
	dfi_combiner_abort(combiner);
	cr_assert_eq(dfi_combiner_close(combiner), -EBADF);
	cr_assert_eq(dfi_target_consume(target, &tuple), -ECANCELED);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
}

/* It waits for input that never comes: the target's end reaches it there. */
static void *close_target(void *arg)
{
	yield_times(1000);
	dfi_target_close(arg);
	return NULL;
}

Test(tree, wakes_a_combiner_whose_target_leaves)
{
	struct dfi_flow_attr attr = kv_attr(1, 1, 2);
	struct dfi_combiner *combiner;
	struct dfi_target *target;
	struct dfi_source *source;
	pthread_t thread;

	create(&attr);
	target = open_target(rig.other, "f", 0, 0);
	combiner = open_combiner(0, 0);
	source = open_source(rig.other, "f", 0, 0);
	cr_assert_eq(pthread_create(&thread, NULL, close_target, target), 0);
	assert_error(dfi_combiner_run(combiner), -ECONNRESET, "flow 'f'",
	    "target 0 (node", "died or closed");
	pthread_join(thread, NULL);
	cr_assert_eq(dfi_combiner_close(combiner), -ECONNRESET);
	assert_error(dfi_source_close(source), -ECONNRESET, "combiner 0");
}

Test(tree, drops_what_a_target_that_has_cancelled_would_get)
{
	enum {
		KEYS = 100
	};
	struct dfi_flow_attr attr = kv_attr(2, 2, 2);
	struct small small;
	const void *tuple;
	uint64_t i, n = 0;
	int ret;

	open_small(&small, &attr);
	for (i = 0; i < KEYS; i++)
		push(small.sources[i % 2], i, 1);
	cr_assert_eq(dfi_target_cancel(small.targets[0]), 0);
	close_sources(&small);
	while ((ret = consume_small(&small, 1, &tuple)) > 0) {
		i = ((const struct result *)tuple)->key;
		cr_assert_eq(dfi_hash64_partition(i, 2), 1);
		n++;
	}
	cr_assert_eq(ret, 0, "%s", dfi_errmsg());
	for (i = 0; i < KEYS; i++)
		n -= dfi_hash64_partition(i, 2) == 1;
	cr_assert_eq(n, 0);
	close_targets(&small, 0);
}

static bool is_refused(void *arg)
{
	return dfi_source_push(arg, &(struct kv){ 1, 1 }) == -EPIPE;
}

Test(tree, cancels_when_all_targets_have)
{
	struct dfi_flow_attr attr = kv_attr(3, 2, 2);
	struct small small;
	uint32_t i;

	attr.combine.source_combining = DFI_COMBINING_OFF;
	attr.segment_size = (uint32_t)sizeof(struct kv);
	open_small(&small, &attr);
	cr_assert_eq(small.n_combiners, 2);
	for (i = 0; i < 2; i++)
		cr_assert_eq(dfi_target_cancel(small.targets[i]), 0);
	for (i = 0; i < 2; i++) {
		cr_assert_eq(
		    run_soon(small.combiners[i]), 0, "%s", dfi_errmsg());
		cr_assert_eq(dfi_combiner_close(small.combiners[i]), 0, "%s",
		    dfi_errmsg());
	}
	for (i = 0; i < 3; i++)
		cr_assert(eventually(is_refused, small.sources[i]));
	close_sources(&small);
	close_targets(&small, 0);
}

/* A failed combiner does not report success later, or close cleanly. */
Test(tree, stays_failed_when_its_inputs_have_ended)
{
	struct dfi_flow_attr attr = kv_attr(1, 1, 2);
	struct small small;

	open_small(&small, &attr);
	cr_assert_eq(dfi_target_close(small.targets[0]), 0);
	cr_assert_eq(run_soon(small.combiners[0]), -ECONNRESET);
	cr_assert_eq(dfi_combiner_run(small.combiners[0]), -ECONNRESET);
	cr_assert_eq(dfi_source_close(small.sources[0]), 0);
	cr_assert_eq(dfi_combiner_run(small.combiners[0]), -ECONNRESET);
	cr_assert_eq(dfi_combiner_close(small.combiners[0]), -ECONNRESET);
}

/* That no target wants the lost tuples is no reason either. */
Test(tree, stays_failed_when_its_targets_have_cancelled)
{
	struct dfi_flow_attr attr = kv_attr(1, 1, 2);
	struct small small;

	open_small(&small, &attr);
	dfi_source_abort(small.sources[0]);
	cr_assert_eq(dfi_source_close(small.sources[0]), -ECANCELED);
	cr_assert_eq(run_soon(small.combiners[0]), -ECANCELED);
	cr_assert_eq(dfi_target_cancel(small.targets[0]), 0);
	cr_assert_eq(dfi_target_close(small.targets[0]), 0);
	/* The registry may not have said yet which node it belongs to. */
	assert_error(dfi_combiner_run(small.combiners[0]), -ECANCELED,
	    "source 0", "aborted the flow");
	assert_error(dfi_combiner_close(small.combiners[0]), -ECANCELED,
	    "source 0", "aborted the flow");
}

/* The refused mark can't be repeated, and nobody misses it. */
Test(tree, cancels_while_it_has_a_mark_to_send)
{
	struct dfi_flow_attr attr = kv_attr(1, 1, 2);
	struct dfi_combiner_stats stats;
	struct small small;
	uint32_t i;

	attr.combine.window_tuples = DFI_WINDOW_MARKED;
	attr.segment_count = 2;
	attr.segment_size = 64;
	open_small(&small, &attr);
	/*
	 * Rings of two: the third one finds no room above. A device may make
	 * room later, but then the fourth finds it as well.
	 */
	for (i = 0; i < 4; i++) {
		cr_assert_eq(dfi_source_mark(small.sources[0], i + 1), 0, "%s",
		    dfi_errmsg());
		run_until_counted(small.combiners[0], &stats, &stats.windows,
		    i < 2 ? i + 1 : 2);
	}
	cr_assert_eq(dfi_target_cancel(small.targets[0]), 0);
	cr_assert_eq(run_soon(small.combiners[0]), 0, "%s", dfi_errmsg());
	cr_assert_eq(
	    dfi_combiner_close(small.combiners[0]), 0, "%s", dfi_errmsg());
	close_sources(&small);
	close_targets(&small, 0);
}

static void *cancel_target(void *arg)
{
	yield_times(1000);
	cr_assert_eq(dfi_target_cancel(arg), 0);
	return NULL;
}

static void *push_until_refused(void *arg)
{
	uint64_t i;
	int ret;

	for (i = 0, ret = 0; !ret; i++)
		ret = dfi_source_push(
		    arg, &(struct kv){ dfi_hash64(i) % 500000, 1 });
	cr_assert_eq(ret, -EPIPE, "%s", dfi_errmsg());
	return NULL;
}

/* It never waits for its inputs, which are two. */
Test(tree, cancels_while_its_inputs_are_ahead_of_it)
{
	struct dfi_flow_attr attr = kv_attr(2, 1, 2);
	struct dfi_source *sources[2];
	struct dfi_combiner *combiner;
	struct dfi_target *target;
	pthread_t threads[2], other;
	uint32_t i;

	attr.combine.source_combining = DFI_COMBINING_OFF;
	create(&attr);
	target = open_target(rig.other, "f", 0, 0);
	combiner = open_combiner(0, 0);
	for (i = 0; i < 2; i++) {
		sources[i] = open_source(rig.other, "f", i, 0);
		cr_assert_eq(pthread_create(&threads[i], NULL,
				 push_until_refused, sources[i]),
		    0);
	}
	cr_assert_eq(pthread_create(&other, NULL, cancel_target, target), 0);
	cr_assert_eq(dfi_combiner_run(combiner), 0, "%s", dfi_errmsg());
	pthread_join(other, NULL);
	cr_assert_eq(dfi_combiner_close(combiner), 0, "%s", dfi_errmsg());
	for (i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		cr_assert_eq(dfi_source_close(sources[i]), 0);
	}
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(tree, notifies_targets_of_a_source_that_cannot_come_any_more)
{
	struct dfi_flow_attr attr = kv_attr(2, 1, 2);
	struct dfi_combiner *combiner;
	struct dfi_target *target;
	struct dfi_source *source;
	const void *tuple;

	create(&attr);
	target = open_target(rig.dfi, "f", 0, 0);
	combiner = open_combiner(0, DFI_NONBLOCK);
	source = open_source(rig.other, "f", 0, 0);
	cr_assert_eq(dfi_combiner_run(combiner), -EAGAIN);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	assert_error(run_soon(combiner), -ECONNRESET, "flow 'f'", "source 1",
	    "nobody can any more");
	cr_assert_eq(dfi_combiner_close(combiner), -ECONNRESET);
	assert_error(dfi_target_consume(target, &tuple), -ECONNRESET,
	    "flow 'f'", "source 1 never attached", "says combiner 0 (node");
	cr_assert_eq(dfi_target_close(target), -ECONNRESET);
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
}

/* ---- Attaching, and what is refused ----------------------------------------
 */

static void refuse(const struct dfi_flow_attr *attr, const char *word)
{
	assert_error(
	    dfi_flow_create(rig.dfi, "f", attr), -EINVAL, "flow 'f'", word);
}

Test(tree, that_makes_no_sense_is_refused)
{
	struct dfi_flow_attr attr = kv_attr(4, 1, 1);

	refuse(&attr, "fan_in 1");
	attr.combine.fan_in = DFI_MAX_ENDPOINTS + 1;
	refuse(&attr, "fan_in 4097");
	attr = kv_attr(4, 1, 2);
	attr.reserved = 1;
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -E2BIG, "flow 'f'",
	    "reserved");
	attr.reserved = 0;
	attr.combine.reserved[3] = 1;
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -E2BIG, "flow 'f'",
	    "combine.reserved");
	attr.combine.reserved[3] = 0;
	attr.replicate.reserved[0] = 1;
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -E2BIG, "flow 'f'",
	    "replicate.reserved");
	attr = (struct dfi_flow_attr){
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &kv_schema,
		.n_sources = 4,
		.n_targets = 1,
		.combine.fan_in = 2,
	};
	refuse(&attr, "fan_in is for flows of kind DFI_COMBINE");
}

Test(tree, has_combiners_of_some_numbers_only)
{
	struct dfi_combiner_attr attr = DFI_COMBINER_ATTR_INIT;
	struct dfi_flow_attr flow = kv_attr(4, 1, 2);
	struct dfi_combiner *combiner, *other;
	struct dfi_target *target;

	attr.open_timeout_ms = SHORT_MS;
	create_kv_flow(rig.dfi, "g", 1, 1, 4, 4);
	assert_error(dfi_combiner_open(rig.dfi, "g", 0, &attr, &combiner),
	    -EPROTOTYPE, "flow 'g'", "fan_in");
	assert_error(dfi_combiner_open(rig.dfi, "f", 0, &attr, &combiner),
	    -ETIMEDOUT, "flow 'f'", "nobody has created it");
	create(&flow);
	assert_error(dfi_combiner_open(rig.dfi, "f", 2, &attr, &combiner),
	    -ERANGE, "flow 'f'", "combiner 2", "has 2");
	assert_error(dfi_combiner_open(rig.dfi, "f", 0, &attr, &combiner),
	    -ETIMEDOUT, "flow 'f'", "waiting for target 0: ");
	assert_error(dfi_combiner_open(rig.dfi, "f", 0, &attr, NULL), -EINVAL,
	    "combiner is NULL");
	attr.flags = 2;
	assert_error(dfi_combiner_open(rig.dfi, "f", 0, &attr, &combiner),
	    -EINVAL, "dfi_combiner_attr.flags 0x2");
	attr.flags = 0;
	attr.max_groups = DFI_MAX_GROUPS + 1;
	assert_error(dfi_combiner_open(rig.dfi, "f", 0, &attr, &combiner),
	    -EINVAL, "max_groups");
	assert_error(dfi_combiner_run(NULL), -EINVAL, "the combiner is NULL");
	cr_assert_eq(dfi_combiner_close(NULL), 0);
	target = open_target(rig.dfi, "f", 0, 0);
	combiner = open_combiner(1, 0);
	assert_error(dfi_combiner_open(rig.other, "f", 1, NULL, &other),
	    -EEXIST, "flow 'f'", "combiner 1 is attached already");
	assert_error(
	    dfi_combiner_fd(combiner), -EINVAL, "combiner 1", "DFI_NONBLOCK");
	cr_assert_eq(dfi_combiner_close(combiner), -ECANCELED);
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(tree, makes_a_source_wait_for_its_combiner_which_is_its_only_target)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_flow_attr flow = kv_attr(4, 3, 2);
	struct dfi_source *source;
	struct dfi_span span;
	struct small small;

	attr.open_timeout_ms = SHORT_MS;
	create(&flow);
	assert_error(dfi_source_open(rig.dfi, "f", 3, &attr, &source),
	    -ETIMEDOUT, "flow 'f'", "waiting for combiner 1: ");
	assert_error(dfi_source_open(rig.dfi, "f", 4, &attr, &source), -ERANGE,
	    "source 4", "the flow has 4");
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	open_small(&small, &flow);
	source = small.sources[2];
	assert_error(dfi_source_claim(source, 1, &span), -ERANGE, "flow 'f'",
	    "source 2", "fan_in", "name target 0");
	cr_assert_eq(dfi_source_claim(source, 0, &span), 0);
	cr_assert_eq(dfi_source_push_to(source, 0, &(struct kv){ 1, 1 }), 0);
	assert_error(dfi_source_push_to(source, 2, &(struct kv){ 1, 1 }),
	    -ERANGE, "name target 0");
	cr_assert_eq(dfi_source_close(source), -ERANGE);
	cr_assert_eq(run_soon(small.combiners[1]), -ECANCELED);
	close_all(&small);
}

Test(tree, is_seen_by_who_asks_for_the_flow)
{
	struct dfi_flow_attr attr = kv_attr(5, 2, 2);
	struct dfi_flow_info info;
	struct small small;

	create(&attr);
	cr_assert_eq(dfi_flow_lookup(rig.dfi, "f", &info), 0);
	cr_assert_eq(info.fan_in, 2);
	cr_assert_eq(info.n_combiners, 5);
	cr_assert_eq(info.attached_combiners, 0);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	open_small(&small, &attr);
	cr_assert_eq(dfi_flow_lookup(rig.dfi, "f", &info), 0);
	cr_assert_eq(info.n_sources, 5);
	cr_assert_eq(info.attached_sources, 5);
	cr_assert_eq(info.n_targets, 2);
	cr_assert_eq(info.attached_targets, 2);
	cr_assert_eq(info.attached_combiners, 5);
	close_all(&small);
}

Test(tree, reports_inputs_that_have_not_attached)
{
	struct dfi_combiner_attr attr = DFI_COMBINER_ATTR_INIT;
	struct dfi_flow_attr flow = kv_attr(2, 1, 2);
	struct dfi_combiner *combiner;
	struct dfi_source *sources[2];
	struct dfi_target *target;
	const void *tuple;

	create(&flow);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	attr.open_timeout_ms = SHORT_MS;
	cr_assert_eq(dfi_combiner_open(rig.dfi, "f", 0, &attr, &combiner), 0);
	sources[1] = open_source(rig.dfi, "f", 1, 0);
	assert_error(dfi_combiner_run(combiner), -ETIMEDOUT, "flow 'f'",
	    "waiting for source 0: ");
	/* That is not its end. */
	sources[0] = open_source(rig.dfi, "f", 0, 0);
	push(sources[0], 3, 4);
	cr_assert_eq(dfi_source_close(sources[0]), 0);
	cr_assert_eq(dfi_source_close(sources[1]), 0);
	cr_assert_eq(dfi_combiner_run(combiner), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_combiner_run(combiner), 0);
	cr_assert_eq(dfi_combiner_close(combiner), 0);
	cr_assert_eq(consume_soon(target, &tuple), 1);
	cr_assert_eq(consume_soon(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

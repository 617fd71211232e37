/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameter servers: parameter_server [WORKERS [WEIGHTS [ITERATIONS
 * [SERVERS]]]]. Workers, each with its own data, look for the weights that suit
 * all of them. In each iteration every worker sends its gradient for all
 * weights into a combiner flow, as one window. Each server has the weights
 * whose keys hash to it. It gets the sums, moves its weights a step against
 * them, and sends these to all workers by a replicate flow. The loss is (weight
 * - datum)^2 / 2 for each weight and worker, so a closed form checks the
 * result.
 */
#include <argp.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <dfi/dfi.h>

#include "../common/complain.h"
#include "../common/memory.h"
#include "../common/output.h"
#include "../common/threads.h"
#include "../common/usage.h"

/* Weights that travel in one tuple. */
#define CHUNK 248

struct chunk {
	uint64_t number;
	double values[CHUNK];
};

#define STEP 0.5 /* of the way to the mean */
#define MAX_THREADS 64
#define MAX_WEIGHTS 100000000
#define MAX_ITERATIONS 1000000

static uint32_t n_workers = 2, n_servers = 1;
static uint64_t n_weights = 1000000, n_iterations = 20, n_chunks;
static struct dfi *dfi;
static uint32_t failures;

/* The data of a worker: numbers that differ, and are exact. */
static double datum(uint32_t worker, uint64_t weight)
{
	return (double)(weight % 1000) + (double)(worker * (worker + 3));
}

static _Noreturn void fail(const char *what)
{
	complain("%s", what);
	exit(EXIT_FAILURE);
}

static void check(int ret)
{
	if (ret < 0)
		fail(dfi_errmsg());
}

/* Closing a target earlier would lose the last messages of its sources. */
static void await_end(struct dfi_target *target)
{
	const void *tuple;
	int ret = dfi_target_consume(target, &tuple);

	check(ret);
	if (ret)
		fail("there is more than was sent");
	check(dfi_target_close(target));
}

static void *allocate(size_t n, size_t size)
{
	void *memory = calloc(n, size);

	if (!memory)
		fail("no memory: choose fewer weights or workers");
	return memory;
}

/* ---- Flows -----------------------------------------------------------------
 */

static char names[CHUNK][8];

/* The number, and a field for each weight. */
static void make_fields(struct dfi_field fields[CHUNK + 1], const char *prefix)
{
	uint32_t i;

	fields[0] = (struct dfi_field){
		.name = "number", .type = DFI_UINT64, .size = sizeof(uint64_t)
	};
	for (i = 0; i < CHUNK; i++) {
		snprintf(names[i], sizeof(names[i]), "%s%u", prefix, i);
		fields[i + 1] = (struct dfi_field){ .name = names[i],
			.type = DFI_DOUBLE,
			.offset = (uint32_t)((i + 1) * sizeof(double)),
			.size = sizeof(double) };
	}
}

/* The memory that the ends of a flow reserve: mostly rings. */
static uint64_t flow_bytes(const struct dfi_flow_attr *attr)
{
	struct dfi_flow_needs needs;

	check(dfi_flow_estimate(dfi, attr, &needs));
	return attr->n_sources * needs.source_bytes +
	    attr->n_targets * needs.target_bytes;
}

/*
 * Without this check the kernel would kill a process whose weights don't fit.
 * Each worker has them and its data, each server has them, and together the
 * servers have the sums.
 */
static void check_memory(
    const struct dfi_flow_attr *gradients, const struct dfi_flow_attr *weights)
{
	const uint64_t copies = UINT64_C(2) * n_workers + n_servers + 1;

	if (memory_check("the weights, data, sums and rings need",
		copies * n_chunks * sizeof(struct chunk) +
		    flow_bytes(gradients) + flow_bytes(weights),
		"choose fewer WEIGHTS, WORKERS or SERVERS"))
		exit(EXIT_FAILURE);
}

static void create_flows(void)
{
	static struct dfi_field fields[CHUNK + 1];
	static struct dfi_aggregate sums[CHUNK];
	const struct dfi_schema schema = { fields, CHUNK + 1,
		sizeof(struct chunk) };
	struct dfi_flow_attr gradients = DFI_FLOW_ATTR_INIT;
	struct dfi_flow_attr weights = DFI_FLOW_ATTR_INIT;
	uint32_t i;

	make_fields(fields, "w");
	for (i = 0; i < CHUNK; i++)
		sums[i] = (struct dfi_aggregate){ .function = DFI_SUM,
			.field = names[i] };
	gradients.kind = DFI_COMBINE;
	gradients.schema = &schema;
	gradients.n_sources = n_workers;
	gradients.n_targets = n_servers;
	gradients.combine.group_by = "number";
	gradients.combine.aggregates = sums;
	gradients.combine.n_aggregates = CHUNK;
	gradients.combine.max_groups = n_chunks;
	gradients.combine.window_tuples = DFI_WINDOW_MARKED;
	/* No worker has a weight twice. */
	gradients.combine.source_combining = DFI_COMBINING_OFF;
	weights.kind = DFI_REPLICATE;
	weights.schema = &schema;
	weights.n_sources = n_servers;
	weights.n_targets = n_workers;
	check_memory(&gradients, &weights);
	check(dfi_flow_create(dfi, "gradients", &gradients));
	check(dfi_flow_create(dfi, "weights", &weights));
}

/* Which server has a chunk of weights: the target to which the flow routes it.
 */
static bool is_of(uint32_t server, uint64_t number)
{
	return dfi_hash64_partition(number, n_servers) == server;
}

/* ---- Workers ---------------------------------------------------------------
 */

static void subtract(
    double *restrict to, const double *restrict from, const double *restrict by)
{
	uint32_t k;

	for (k = 0; k < CHUNK; k++)
		to[k] = from[k] - by[k];
}

/* Build the gradient for the weights of one server in place. */
static void send_part(struct dfi_source *source, uint32_t server,
    const struct chunk *weights, const struct chunk *data)
{
	struct dfi_span span = { 0 };
	struct chunk *chunk;
	uint32_t n = 0;
	uint64_t c;

	for (c = 0; c < n_chunks; c++) {
		if (!is_of(server, c))
			continue;
		if (n == span.count) {
			check(dfi_source_claim(source, server, &span));
			n = 0;
		}
		chunk = (struct chunk *)span.tuples + n++;
		chunk->number = c;
		subtract(chunk->values, weights[c].values, data[c].values);
		if (n == span.count)
			check(dfi_source_commit(source, &span, n));
	}
	if (n < span.count)
		check(dfi_source_commit(source, &span, n));
}

/* Workers begin with different servers, so that none waits for all. */
static void send_gradient(struct dfi_source *source, uint32_t worker,
    const struct chunk *weights, const struct chunk *data, uint64_t mark)
{
	uint32_t i;

	for (i = 0; i < n_servers; i++)
		send_part(source, (worker + i) % n_servers, weights, data);
	check(dfi_source_mark(source, mark));
}

static void take_weights(struct dfi_target *target, struct chunk *weights)
{
	const struct chunk *chunk;
	struct dfi_batch batch;
	uint64_t left;
	uint32_t i;
	int ret;

	for (left = n_chunks; left > 0;) {
		ret = dfi_target_consume_batch(target, &batch);
		check(ret);
		if (!ret)
			fail("the server ended early");
		chunk = batch.tuples;
		for (i = 0; i < batch.count; i++)
			memcpy(weights[chunk[i].number].values, chunk[i].values,
			    sizeof(chunk[i].values));
		left -= batch.count;
		dfi_target_release(target, &batch);
	}
}

static void *work(void *arg)
{
	uint32_t worker = *(const uint32_t *)arg;
	struct chunk *weights = allocate(n_chunks, sizeof(*weights));
	struct chunk *data = allocate(n_chunks, sizeof(*data));
	struct dfi_source *source;
	struct dfi_target *target;
	uint64_t i;

	for (i = 0; i < n_weights; i++)
		data[i / CHUNK].values[i % CHUNK] = datum(worker, i);
	check(dfi_target_open(dfi, "weights", worker, NULL, &target));
	check(dfi_source_open(dfi, "gradients", worker, NULL, &source));
	for (i = 0; i < n_iterations; i++) {
		send_gradient(source, worker, weights, data, i + 1);
		take_weights(target, weights);
	}
	check(dfi_source_close(source));
	await_end(target);
	free(weights);
	free(data);
	return NULL;
}

/* ---- Servers ---------------------------------------------------------------
 */

struct server {
	uint32_t index;
	uint64_t n_chunks;
	struct chunk *weights; /* of all weights; it has some of them */
	double *times;         /* of iterations */
};

/* The new weights, to keep and to send. */
static void step(double *restrict weights, double *restrict sent,
    const double *restrict sums)
{
	const double rate = STEP / n_workers;
	uint32_t k;

	for (k = 0; k < CHUNK; k++)
		sent[k] = weights[k] -= rate * sums[k];
}

/* Build these weights in place, and send them to all workers. */
static void send_weights(const struct server *server, struct dfi_source *source,
    const struct chunk *sums, uint32_t left)
{
	struct dfi_span span;
	struct chunk *chunk;
	uint32_t n, i;

	for (; left > 0; left -= n) {
		check(dfi_source_claim(source, DFI_ALL_TARGETS, &span));
		n = left < span.count ? left : span.count;
		chunk = span.tuples;
		for (i = 0; i < n; i++, chunk++, sums++) {
			chunk->number = sums->number;
			step(server->weights[sums->number].values,
			    chunk->values, sums->values);
		}
		check(dfi_source_commit(source, &span, n));
	}
}

/* Move the weights against the sums of gradients of one window. */
static void iterate(const struct server *server, struct dfi_target *target,
    struct dfi_source *source, uint64_t window)
{
	struct dfi_batch batch;
	uint64_t left, number;
	int ret;

	for (left = server->n_chunks; left > 0;) {
		ret = dfi_target_consume_batch(target, &batch);
		check(ret);
		check(dfi_target_window(target, &number));
		if (!ret || number != window || batch.count > left)
			fail("results are missing, or too many");
		send_weights(server, source, batch.tuples, batch.count);
		left -= batch.count;
		dfi_target_release(target, &batch);
	}
	check(dfi_source_flush(source));
}

/* The weight after n steps, each of which goes STEP of the way to the mean. */
static void check_weights(const struct server *server)
{
	const struct chunk *weights = server->weights;
	double part = 1 - pow(1 - STEP, (double)n_iterations), mean, value;
	uint64_t i;
	uint32_t w;

	for (i = 0; i < n_weights; i++) {
		if (!is_of(server->index, i / CHUNK))
			continue;
		for (mean = 0, w = 0; w < n_workers; w++)
			mean += datum(w, i) / n_workers;
		value = weights[i / CHUNK].values[i % CHUNK];
		if (fabs(value - mean * part) > 1e-9 * (1 + mean) &&
		    __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED) < 3)
			complain("weight %" PRIu64 " is %.15g, not %.15g", i,
			    value, mean * part);
	}
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void *serve(void *arg)
{
	struct server *server = arg;
	struct dfi_target *target;
	struct dfi_source *source;
	double start;
	uint64_t i;

	server->weights = allocate(n_chunks, sizeof(*server->weights));
	server->times = allocate(n_iterations, sizeof(*server->times));
	for (i = 0; i < n_chunks; i++) {
		server->weights[i].number = i;
		server->n_chunks += is_of(server->index, i);
	}
	check(dfi_target_open(dfi, "gradients", server->index, NULL, &target));
	check(dfi_source_open(dfi, "weights", server->index, NULL, &source));
	for (i = 0; i < n_iterations; i++) {
		start = seconds();
		iterate(server, target, source, i);
		server->times[i] = seconds() - start;
	}
	await_end(target);
	check(dfi_source_close(source));
	check_weights(server);
	free(server->weights);
	return NULL;
}

static void report(double *times)
{
	qsort(times, n_iterations, sizeof(*times), by_size);
	printf("%u workers, %u servers, %lu weights, %lu iterations: "
	       "%.3f ms each (median); %s\n",
	    n_workers, n_servers, n_weights, n_iterations,
	    times[n_iterations / 2] * 1e3,
	    failures ? "WRONG" : "the weights are right");
}

static void start(pthread_t *thread, void *(*run)(void *), void *arg)
{
	if (thread_start(thread, run, arg))
		exit(EXIT_FAILURE);
}

/* ---- The command line ------------------------------------------------------
 */

static const struct argp_option no_options[] = { { 0 } };

static uint64_t parse_number(const char *text, const char *what, uint64_t most)
{
	uint64_t value;

	if (!number_read(text, 1, most, &value)) {
		complain("%s: '%s' is not a whole number from 1 to %" PRIu64,
		    what, text, most);
		exit(EX_USAGE);
	}
	return value;
}

static error_t parse_argument(int key, char *arg, struct argp_state *state)
{
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	switch (state->arg_num) {
	case 0:
		n_workers = (uint32_t)parse_number(arg, "WORKERS", MAX_THREADS);
		return 0;
	case 1:
		n_weights = parse_number(arg, "WEIGHTS", MAX_WEIGHTS);
		return 0;
	case 2:
		n_iterations = parse_number(arg, "ITERATIONS", MAX_ITERATIONS);
		return 0;
	case 3:
		n_servers = (uint32_t)parse_number(arg, "SERVERS", MAX_THREADS);
		return 0;
	default:
		complain("'%s' is one argument too many: there are WORKERS, "
			 "WEIGHTS, ITERATIONS and SERVERS",
		    arg);
		exit(EX_USAGE);
	}
}

static void parse(int argc, char **argv)
{
	static const struct argp argp = {
		.options = no_options,
		.parser = parse_argument,
		.args_doc = "[WORKERS [WEIGHTS [ITERATIONS [SERVERS]]]]",
		.doc = "Move weights towards the data of workers: servers sum "
		       "up the gradients of the workers in each iteration. At "
		       "the end, check the weights.\v  WORKERS     threads "
		       "with data, 1 to 64 (default 2)\n  WEIGHTS     numbers "
		       "to move, 1 to 100000000 (default 1000000)\n  "
		       "ITERATIONS  rounds, 1 to 1000000 (default 20)\n  "
		       "SERVERS     threads that sum up, 1 to 64 (default 1)",
	};
	int i;

	/* argp would take a negative number for an option. */
	for (i = 1; i < argc; i++) {
		if (argv[i][0] != '-' || argv[i][1] < '0' || argv[i][1] > '9')
			continue;
		complain("'%s' is not a whole number from 1 on", argv[i]);
		exit(EX_USAGE);
	}
	if (options_check(&argp, argv))
		exit(EX_USAGE);
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
}

int main(int argc, char **argv)
{
	static uint32_t indexes[MAX_THREADS];
	static struct server servers[MAX_THREADS];
	pthread_t workers[MAX_THREADS], serving[MAX_THREADS];
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;
	uint32_t i;

	output_open();
	parse(argc, argv);
	n_chunks = (n_weights + CHUNK - 1) / CHUNK;
	check(dfi_registry_start(NULL, &registry));
	attr.registry = dfi_registry_address(registry);
	check(dfi_open(&attr, &dfi));
	create_flows();
	for (i = 0; i < n_servers; i++) {
		servers[i].index = i;
		start(&serving[i], serve, &servers[i]);
	}
	for (i = 0; i < n_workers; i++) {
		indexes[i] = i;
		start(&workers[i], work, &indexes[i]);
	}
	for (i = 0; i < n_servers; i++)
		pthread_join(serving[i], NULL);
	for (i = 0; i < n_workers; i++)
		pthread_join(workers[i], NULL);
	report(servers[0].times);
	for (i = 0; i < n_servers; i++)
		free(servers[i].times);
	check(dfi_close(dfi));
	check(dfi_registry_stop(registry));
	return failures ? 1 : 0;
}

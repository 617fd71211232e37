/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random flows with random behaviour at both ends. Every tuple must arrive
 * exactly once, unchanged, at the target that its key says, and those of one
 * source at one target in the order of the pushes; counters must agree. Each
 * target recomputes what it must receive next from each source.
 *
 * DFI_TEST_SEED: the first seed; DFI_TEST_SEEDS: how many.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"
#include "property_plan.h"

#define MAX_BATCH 64

static struct rig rig;

/* One endpoint's thread. text says what went wrong first; "" if nothing. */
struct job {
	const struct plan *plan;
	struct dfi *dfi;
	uint32_t index;
	struct rng rng;
	pthread_t thread;
	char text[400];
	/* The rest is for one of the two roles. */
	struct dfi_source *source;
	bool explicit_target; /* may name the target itself */
	uint8_t *tuples;      /* a batch */
	struct dfi_target *target;
	uint32_t next[PLAN_MAX_ENDS]; /* of each source: the next to come */
	uint64_t n_received;
};

static int fail(struct job *job, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static int fail(struct job *job, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!*job->text)
		vsnprintf(job->text, sizeof(job->text), fmt, ap);
	va_end(ap);
	return -1;
}

/* A nonblocking endpoint waits here, so that its peer gets the processor. */
static bool again(int ret)
{
	if (ret == -EAGAIN)
		sched_yield();
	return ret == -EAGAIN || ret == -ETIMEDOUT;
}

/*
 * Spin only in short flows between two: if a spinning thread holds the
 * processor that its peer needs, each turn costs a time slice.
 */
static uint32_t random_wait(struct job *job)
{
	static const uint32_t waits[] = { DFI_WAIT_DEFAULT, DFI_WAIT_ADAPTIVE,
		DFI_WAIT_BLOCK, DFI_WAIT_SPIN };
	const struct plan *plan = job->plan;
	bool may_spin = plan->n_sources + plan->n_targets == 2 &&
	    plan->n_tuples[0] < 50;

	return waits[rng_below(&job->rng, may_spin ? 4 : 3)];
}

static uint32_t random_stall(struct job *job)
{
	return rng_below(&job->rng, 4) ? 0 : 1;
}

/*
 * Over a network, a source that closes waits for all to arrive, at most as long
 * as for room.
 */
static uint32_t random_source_stall(struct job *job)
{
	uint32_t ms = random_stall(job);

	return ms && over_network() ? LONG_MS : ms;
}

static void stall(struct job *job)
{
	if (!rng_below(&job->rng, 32))
		yield_times(rng_below(&job->rng, 20));
}

static uint32_t expected_target(struct job *job, uint32_t seq, uint8_t *tuple)
{
	plan_tuple(job->plan, job->index, seq, tuple);
	return plan_route(job->plan, job->index, seq, tuple);
}

static int push_one(struct job *job, uint32_t seq)
{
	uint8_t tuple[PLAN_MAX_TUPLE];
	uint32_t target = expected_target(job, seq, tuple);
	int ret;

	do
		ret = job->explicit_target
		    ? dfi_source_push_to(job->source, target, tuple)
		    : dfi_source_push(job->source, tuple);
	while (again(ret));
	/* The tuple's memory may be reused at once. */
	memset(tuple, 0xee, sizeof(tuple));
	return ret < 0 ? fail(job, "push: %s", dfi_errmsg()) : 1;
}

static int push_batch(struct job *job, uint32_t seq, uint32_t n)
{
	uint32_t size = job->plan->tuple_size, i, done = 0;
	int ret;

	for (i = 0; i < n; i++)
		plan_tuple(job->plan, job->index, seq + i,
		    job->tuples + (size_t)i * size);
	while (done < n) {
		ret = dfi_source_push_batch(
		    job->source, job->tuples + (size_t)done * size, n - done);
		if (ret == 0 || (ret < 0 && !again(ret)))
			return fail(job, "batch: %d %s", ret, dfi_errmsg());
		if (ret > 0)
			done += (uint32_t)ret;
	}
	memset(job->tuples, 0xee, (size_t)n * size);
	return (int)n;
}

/* Build a run of tuples to one target in place. */
static int push_claim(struct job *job, uint32_t seq, uint32_t n)
{
	uint8_t tuple[PLAN_MAX_TUPLE];
	uint32_t target = expected_target(job, seq, tuple), count = 0;
	struct dfi_span span;
	int ret;

	do
		ret = dfi_source_claim(job->source, target, &span);
	while (again(ret));
	if (ret < 0 || !span.count || span.target != target)
		return fail(job, "claim: %s", dfi_errmsg());
	if (!rng_below(&job->rng, 16))
		return 0; /* changed its mind */
	while (count < n && count < span.count &&
	    expected_target(job, seq + count, tuple) == target) {
		memcpy((uint8_t *)span.tuples +
			(size_t)count * job->plan->tuple_size,
		    tuple, job->plan->tuple_size);
		count++;
	}
	ret = dfi_source_commit(job->source, &span, count);
	return ret < 0 ? fail(job, "commit: %s", dfi_errmsg()) : (int)count;
}

static int push_cursor(struct job *job, uint32_t seq, uint32_t n)
{
	uint8_t tuple[PLAN_MAX_TUPLE];
	uint32_t target = expected_target(job, seq, tuple), count = 0;
	struct dfi_source_cursor cursor = dfi_source_cursor_open(
	    job->source, target, job->plan->tuple_size);
	int ret;

	while (
	    count < n && expected_target(job, seq + count, tuple) == target) {
		do
			ret = dfi_source_cursor_push(
			    &cursor, tuple, job->plan->tuple_size);
		while (again(ret));
		if (ret < 0)
			break;
		count++;
	}
	ret = dfi_source_cursor_close(cursor);
	return ret < 0 ? fail(job, "cursor: %s", dfi_errmsg()) : (int)count;
}

static int push_some(struct job *job, uint32_t seq)
{
	uint32_t left = job->plan->n_tuples[job->index] - seq;
	uint32_t n = 1 + rng_below(&job->rng, MAX_BATCH);

	if (n > left)
		n = left;
	if (job->explicit_target)
		switch (rng_below(&job->rng, 3)) {
		case 0:
			return push_one(job, seq);
		case 1:
			return push_claim(job, seq, n);
		default:
			return push_cursor(job, seq, n);
		}
	return rng_below(&job->rng, 2) ? push_one(job, seq)
				       : push_batch(job, seq, n);
}

static void push_all(struct job *job)
{
	uint32_t routing = job->plan->routing, seq = 0;
	int ret;

	while (seq < job->plan->n_tuples[job->index]) {
		/* A target named out of turn would upset a round robin. */
		job->explicit_target = routing == DFI_ROUTE_DIRECT ||
		    (routing != DFI_ROUTE_ROUND_ROBIN &&
			rng_below(&job->rng, 2));
		ret = push_some(job, seq);
		if (ret < 0)
			return;
		seq += (uint32_t)ret;
		if (!rng_below(&job->rng, 16) &&
		    dfi_source_flush(job->source) < 0) {
			fail(job, "flush: %s", dfi_errmsg());
			return;
		}
		stall(job);
	}
}

static void check_source_stats(struct job *job)
{
	uint32_t n = job->plan->n_tuples[job->index];
	struct dfi_source_stats stats;

	if (dfi_source_flush(job->source) < 0)
		fail(job, "flush: %s", dfi_errmsg());
	dfi_source_query(job->source, &stats);
	if (stats.tuples != n ||
	    stats.bytes != (uint64_t)n * job->plan->tuple_size)
		fail(job, "stats count %lu of %u tuples",
		    (unsigned long)stats.tuples, n);
}

static void *run_source(void *arg)
{
	struct job *job = arg;
	struct dfi_source_attr attr = {
		.size = sizeof(attr),
		.flags = rng_below(&job->rng, 4) ? 0 : DFI_NONBLOCK,
		.schema = &job->plan->schema,
		.route = job->plan->routing == DFI_ROUTE_FUNCTION
		    ? plan_function
		    : NULL,
		.route_arg = (void *)job->plan,
		.stall_timeout_ms = random_source_stall(job),
		.wait = random_wait(job),
	};

	yield_times(rng_below(&job->rng, 4));
	if (dfi_source_open(job->dfi, job->plan->name, job->index, &attr,
		&job->source) < 0) {
		fail(job, "open: %s", dfi_errmsg());
		return NULL;
	}
	push_all(job);
	check_source_stats(job);
	if (dfi_source_close(job->source) < 0)
		fail(job, "close: %s", dfi_errmsg());
	return NULL;
}

/* The next tuple that the source owes this target; n_tuples if none. */
static uint32_t seek(struct job *job, uint32_t source, uint8_t *tuple)
{
	uint32_t *next = &job->next[source];

	for (; *next < job->plan->n_tuples[source]; ++*next) {
		plan_tuple(job->plan, source, *next, tuple);
		if (plan_goes_to(job->plan, source, *next, tuple, job->index))
			break;
	}
	return *next;
}

static int check_tuple(struct job *job, uint32_t source, const void *tuple)
{
	uint8_t expected[PLAN_MAX_TUPLE];

	job->n_received++;
	if (source >= job->plan->n_sources)
		return fail(job, "a tuple of source %u", source);
	if (seek(job, source, expected) == job->plan->n_tuples[source])
		return fail(job, "a tuple of source %u too many", source);
	if (memcmp(tuple, expected, job->plan->tuple_size) != 0)
		return fail(job, "not tuple %u of source %u", job->next[source],
		    source);
	job->next[source]++;
	return 0;
}

/* The source of a single tuple, which the tuple contains. */
static uint32_t source_of(struct job *job, const void *tuple)
{
	if (job->plan->n_sources == 1)
		return 0;
	return ((const uint8_t *)tuple)[job->plan->source_at];
}

static int consume_one(struct job *job)
{
	const void *tuple;
	int ret = dfi_target_consume(job->target, &tuple);

	if (ret <= 0)
		return ret;
	stall(job);
	return check_tuple(job, source_of(job, tuple), tuple) < 0 ? -EIO : 1;
}

static int consume_batch(struct job *job)
{
	struct dfi_batch batch;
	uint32_t i;
	int ret = dfi_target_consume_batch(job->target, &batch);

	if (ret <= 0)
		return ret;
	if ((uint32_t)ret != batch.count ||
	    batch.stride != job->plan->tuple_size)
		return fail(job, "a batch of %d", ret);
	stall(job);
	for (i = 0; i < batch.count; i++)
		if (check_tuple(job, batch.source,
			(const char *)batch.tuples + (size_t)i * batch.stride) <
		    0)
			return -EIO;
	dfi_target_release(job->target, &batch);
	return 1;
}

static int consume_cursor(struct job *job)
{
	struct dfi_target_cursor cursor = dfi_target_cursor_open(
	    job->target, job->plan->tuple_size);
	uint32_t n = 1 + rng_below(&job->rng, MAX_BATCH), i;
	const void *tuple;
	bool ended = false;
	int ret;

	for (i = 0; i < n && !ended; i++) {
		tuple = dfi_target_cursor_get(&cursor, job->plan->tuple_size);
		ended = !tuple;
		if (tuple && check_tuple(job, source_of(job, tuple), tuple) < 0)
			return -EIO;
	}
	ret = dfi_target_cursor_close(cursor);
	return ret < 0 ? ret : !ended;
}

static void consume_all(struct job *job)
{
	bool anonymous = job->plan->n_sources > 1 &&
	    job->plan->source_at == job->plan->tuple_size;
	int ret;

	do {
		switch (anonymous ? 0 : rng_below(&job->rng, 3)) {
		case 0:
			ret = consume_batch(job);
			break;
		case 1:
			ret = consume_one(job);
			break;
		default:
			ret = consume_cursor(job);
		}
	} while (ret > 0 || again(ret));
	if (ret < 0)
		fail(job, "consume: %s", dfi_errmsg());
}

static void check_target_end(struct job *job)
{
	uint8_t tuple[PLAN_MAX_TUPLE];
	struct dfi_target_stats stats;
	uint32_t i;

	for (i = 0; i < job->plan->n_sources; i++)
		if (seek(job, i, tuple) != job->plan->n_tuples[i])
			fail(job, "tuple %u of source %u is missing",
			    job->next[i], i);
	dfi_target_query(job->target, &stats);
	if (stats.tuples != job->n_received ||
	    stats.bytes != stats.tuples * job->plan->tuple_size)
		fail(job, "stats count %lu of %lu tuples",
		    (unsigned long)stats.tuples,
		    (unsigned long)job->n_received);
	/* The end stays the end. */
	if (!*job->text && consume_batch(job) != 0)
		fail(job, "consumed after the end");
}

static void *run_target(void *arg)
{
	struct job *job = arg;
	struct dfi_target_attr attr = {
		.size = sizeof(attr),
		.flags = rng_below(&job->rng, 4) ? 0 : DFI_NONBLOCK,
		.schema = &job->plan->schema,
		.stall_timeout_ms = random_stall(job),
		.wait = random_wait(job),
	};

	yield_times(rng_below(&job->rng, 4));
	if (dfi_target_open(job->dfi, job->plan->name, job->index, &attr,
		&job->target) < 0) {
		fail(job, "open: %s", dfi_errmsg());
		return NULL;
	}
	consume_all(job);
	check_target_end(job);
	if (dfi_target_close(job->target) < 0)
		fail(job, "close: %s", dfi_errmsg());
	return NULL;
}

static void start(struct job *job, const struct plan *plan, uint32_t number)
{
	bool is_source = number < plan->n_sources;

	memset(job, 0, sizeof(*job));
	job->plan = plan;
	job->index = is_source ? number : number - plan->n_sources;
	job->rng.state = mix(plan->seed, 1000 + number);
	job->dfi = rng_below(&job->rng, 4) ? rig.dfi : rig.other;
	if (is_source) {
		job->tuples = malloc((size_t)MAX_BATCH * plan->tuple_size);
		cr_assert_not_null(job->tuples);
	}
	cr_assert_eq(pthread_create(&job->thread, NULL,
			 is_source ? run_source : run_target, job),
	    0);
}

static void run_seed(uint64_t seed)
{
	struct job jobs[2 * PLAN_MAX_ENDS];
	struct plan plan;
	char text[300];
	uint32_t i, n;

	plan_make(&plan, seed);
	plan_text(&plan, text, sizeof(text));
	cr_assert_eq(plan_create(&plan, rig.dfi), 0,
	    "DFI_TEST_SEED=%lu: %s: %s", (unsigned long)seed, text,
	    dfi_errmsg());
	n = plan.n_sources + plan.n_targets;
	for (i = 0; i < n; i++)
		start(&jobs[i], &plan, i);
	for (i = 0; i < n; i++) {
		pthread_join(jobs[i].thread, NULL);
		free(jobs[i].tuples);
	}
	for (i = 0; i < n; i++)
		cr_expect(!*jobs[i].text, "DFI_TEST_SEED=%lu: %s: %s %u: %s",
		    (unsigned long)seed, text,
		    i < plan.n_sources ? "source" : "target", jobs[i].index,
		    jobs[i].text);
	for (i = 0; i < n; i++)
		cr_assert(!*jobs[i].text);
	cr_assert_eq(dfi_flow_remove(rig.dfi, plan.name), 0);
}

Test(property, each_tuple_arrives_once_in_order_where_its_key_says)
{
	uint64_t seed = test_setting("SEED", 1);
	uint64_t end = seed + test_setting("SEEDS", 1000);

	setenv("DFI_RING_MEMORY", "256K", 1); /* default rings, but quick */
	rig_start(&rig);
	for (; seed < end; seed++)
		run_seed(seed);
	rig_stop(&rig);
}

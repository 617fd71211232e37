/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target that computes for a second, without a call: what others do with its
 * process goes on. Rings that end at it take what their sources send, and the
 * end; a target of another thread gets its tuples; and a counter that the
 * process holds gives numbers. The log has how many.
 */
#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

#define COMPUTE_MS 1000

/* Of each source, less than its ring. */
#define N_TUPLES 64u

/*
 * Numbers and tuples that come meanwhile. In that second there are far more. On
 * a busy machine the target computes until they are there.
 */
#define LEAST 20u
#define MOST_MS (120 * 1000)

/* Of a source that computes: more than its socket takes. */
#define LARGE (UINT32_C(1) << 20)
#define N_LARGE 32u

static struct rig rig;

TestSuite(computing, .timeout = 300);

static atomic_bool computed;

/* A thread of the other process. */
struct helper {
	pthread_t thread;
	atomic_uint n;      /* what it did so far */
	int64_t longest_ms; /* of one call */
	int ret;
};

static struct helper takes, sends, consumes, ends;

static void count(struct helper *helper, int64_t since)
{
	int64_t ms = now_ms() - since;

	if (ms > helper->longest_ms)
		helper->longest_ms = ms;
	atomic_fetch_add(&helper->n, 1);
}

static void *take_numbers(void *arg)
{
	struct dfi_sequencer *sequencer = arg;
	uint64_t number;
	int64_t since;

	while (!takes.ret && !atomic_load(&computed)) {
		since = now_ms();
		takes.ret = dfi_sequencer_next(sequencer, 1, &number);
		count(&takes, since);
	}
	return NULL;
}

/* The end of a source is confirmed by the process that computes. */
static void *end_sources(void *arg)
{
	struct dfi_source **sources = arg;
	uint64_t i, j;
	int64_t since;

	for (i = 0; i < 2 && !ends.ret; i++) {
		for (j = 0; j < N_TUPLES && !ends.ret; j++)
			ends.ret = dfi_source_push(
			    sources[i], &(struct kv){ i, j });
		since = now_ms();
		if (!ends.ret)
			ends.ret = dfi_source_close(sources[i]);
		count(&ends, since);
	}
	return NULL;
}

static void *send_tuples(void *arg)
{
	struct dfi_source *source = arg;
	struct kv kv = { 1, 2 };
	int64_t since;

	while (!sends.ret && !atomic_load(&computed)) {
		since = now_ms();
		sends.ret = dfi_source_push(source, &kv);
		if (!sends.ret)
			sends.ret = dfi_source_flush(source);
		count(&sends, since);
	}
	if (!sends.ret)
		sends.ret = dfi_source_close(source);
	return NULL;
}

static void *consume_tuples(void *arg)
{
	const void *tuple;

	while ((consumes.ret = dfi_target_consume(arg, &tuple)) > 0)
		atomic_fetch_add(&consumes.n, 1);
	return NULL;
}

static void start(struct helper *helper, void *(*fn)(void *arg), void *arg)
{
	cr_assert_eq(pthread_create(&helper->thread, NULL, fn, arg), 0);
}

static void finish(struct helper *helper, const char *what)
{
	cr_assert_eq(pthread_join(helper->thread, NULL), 0);
	cr_assert_eq(helper->ret, 0, "%s: %d", what, helper->ret);
}

static struct dfi_target *open_blocking(const char *flow)
{
	struct dfi_target_attr attr = DFI_TARGET_ATTR_INIT;
	struct dfi_target *target;

	attr.schema = &kv_schema;
	attr.wait = DFI_WAIT_BLOCK;
	cr_assert_eq(dfi_target_open(rig.other, flow, 0, &attr, &target), 0,
	    "%s", dfi_errmsg());
	return target;
}

/*
 * This thread makes no call meanwhile: for COMPUTE_MS, and until a helper has
 * done n times what it does, and n_ends sources have ended. Returns for how
 * long.
 */
static long compute(const struct helper *helper, unsigned n, unsigned n_ends)
{
	int64_t start = now_ms(), ms;

	do
		ms = now_ms() - start;
	while (ms < COMPUTE_MS ||
	    (ms < MOST_MS &&
		(atomic_load(&helper->n) < n ||
		    atomic_load(&ends.n) < n_ends)));
	return (long)ms;
}

static struct dfi_target *open_computing(struct dfi_source *sources[2])
{
	struct dfi_target *target;

	rig_start(&rig);
	create_kv_flow(rig.dfi, "f", 2, 1, 4, 2 * N_TUPLES);
	target = open_target(rig.other, "f", 0, 0);
	sources[0] = open_source(rig.dfi, "f", 0, 0);
	sources[1] = open_source(rig.dfi, "f", 1, 0);
	return target;
}

static void consume_all(struct dfi_target *target)
{
	const void *tuple;
	uint32_t i;

	for (i = 0; i < 2 * N_TUPLES; i++)
		cr_assert_eq(dfi_target_consume(target, &tuple), 1);
	end_target(target);
}

/* No other thread of the application calls anything in that process. */
Test(computing, target_holds_up_no_ring_and_no_counter)
{
	struct dfi_sequencer *held, *sequencer;
	struct dfi_source *sources[2];
	struct dfi_target *target = open_computing(sources);
	unsigned numbers, closed;
	long ms;

	cr_assert_eq(dfi_sequencer_create(rig.other, "s", 0, &held), 0);
	cr_assert_eq(dfi_sequencer_open(rig.dfi, "s", LONG_MS, &sequencer), 0);
	start(&takes, take_numbers, sequencer);
	start(&ends, end_sources, sources);
	ms = compute(&takes, LEAST, 2);
	numbers = atomic_load(&takes.n);
	closed = atomic_load(&ends.n);
	atomic_store(&computed, true);
	finish(&takes, "dfi_sequencer_next");
	finish(&ends, "dfi_source_close");
	cr_log_info(
	    "in %ld ms of computing: %u numbers (at most %ld ms), %u of "
	    "2 sources closed (at most %ld ms)",
	    ms, numbers, (long)takes.longest_ms, closed, (long)ends.longest_ms);
	cr_assert_geq(numbers, LEAST);
	cr_assert_eq(closed, 2);
	consume_all(target);
	cr_assert_eq(dfi_sequencer_close(sequencer), 0);
	cr_assert_eq(dfi_sequencer_close(held), 0);
	rig_stop(&rig);
}

Test(computing, target_holds_up_no_other_target)
{
	struct dfi_source *sources[2], *source;
	struct dfi_target *target = open_computing(sources), *other_target;
	unsigned tuples;
	long ms;

	create_kv_flow(rig.dfi, "g", 1, 1, 4, 64);
	other_target = open_blocking("g");
	source = open_source(rig.dfi, "g", 0, 0);
	start(&consumes, consume_tuples, other_target);
	start(&sends, send_tuples, source);
	start(&ends, end_sources, sources);
	ms = compute(&consumes, LEAST, 0);
	tuples = atomic_load(&consumes.n);
	atomic_store(&computed, true);
	finish(&ends, "dfi_source_close");
	finish(&sends, "dfi_source_push");
	finish(&consumes, "dfi_target_consume");
	cr_log_info(
	    "in %ld ms of computing: %u tuples at another target", ms, tuples);
	cr_assert_geq(tuples, LEAST);
	consume_all(target);
	cr_assert_eq(dfi_target_close(other_target), 0);
	rig_stop(&rig);
}

/*
 * A source pushes more than goes out at once, and computes: the rest goes out
 * meanwhile.
 */
Test(computing, source_holds_up_no_segment)
{
	struct dfi_field field = {
		.name = "bytes", .type = DFI_BYTES, .size = LARGE
	};
	struct dfi_schema schema = {
		.tuple_size = LARGE, .fields = &field, .n_fields = 1
	};
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_target *target;
	struct dfi_source *source;
	char *tuple = malloc(LARGE);
	uint32_t i;

	cr_assert_not_null(tuple);
	rig_start(&rig);
	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema;
	attr.n_sources = attr.n_targets = 1;
	attr.segment_size = LARGE;
	attr.segment_count = 2 * N_LARGE;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.other, "f", 0, 0);
	start(&consumes, consume_tuples, target);
	for (i = 0; i < N_LARGE; i++) {
		memset(tuple, (int)i, LARGE);
		cr_assert_eq(
		    dfi_source_push(source, tuple), 0, "%s", dfi_errmsg());
	}
	(void)compute(&consumes, N_LARGE, 0);
	cr_assert_eq(atomic_load(&consumes.n), N_LARGE);
	cr_assert_eq(dfi_source_close(source), 0);
	finish(&consumes, "dfi_target_consume");
	cr_assert_eq(dfi_target_close(target), 0);
	free(tuple);
	rig_stop(&rig);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More sources and targets than processors: all threads of this process share
 * one. An adaptive wait must give the processor up. The test reads the handles'
 * counters, as times mean nothing on a busy machine.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

#define MAX_PAIRS 8
#define N_TUPLES 2000

/* Looks in a wait, on average. Adaptive ones begin with 4096, which they halve.
 */
#define CROWDED_POLLS 200

static struct rig rig;

/* A flow with a source and a target, each in a thread. */
struct pair {
	char name[16];
	uint32_t n_tuples;
	pthread_t threads[2];
	struct dfi_source *source;
	struct dfi_target *target;
	struct dfi_source_stats sent;
	struct dfi_target_stats received;
	int source_ret, target_ret;
};

static struct pair pairs[MAX_PAIRS];

static void setup(void)
{
	cpu_set_t set;
	int cpu = sched_getcpu();
	char list[16];

	CPU_ZERO(&set);
	CPU_SET((size_t)(cpu < 0 ? 0 : cpu), &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		cr_skip_test("threads can't be bound to one processor here");
	/* The library's threads share it as well. */
	snprintf(list, sizeof(list), "%d", cpu < 0 ? 0 : cpu);
	setenv("DFI_CONTROL_CPUS", list, true);
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(crowd, .init = setup, .fini = teardown, .timeout = 300);

static void *run_source(void *arg)
{
	struct pair *pair = arg;
	struct kv kv = { 0, 0 };

	for (; !pair->source_ret && kv.key < pair->n_tuples; kv.key++)
		pair->source_ret = dfi_source_push(pair->source, &kv);
	dfi_source_query(pair->source, &pair->sent);
	if (!pair->source_ret)
		pair->source_ret = dfi_source_close(pair->source);
	return NULL;
}

static void *run_target(void *arg)
{
	struct pair *pair = arg;
	const void *tuple;

	while (
	    (pair->target_ret = dfi_target_consume(pair->target, &tuple)) > 0)
		;
	dfi_target_query(pair->target, &pair->received);
	return NULL;
}

/* With rings of two tuples, so that the two take turns. */
static void open_pair(uint32_t number, uint32_t wait, uint32_t n_tuples)
{
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct pair *pair = &pairs[number];

	source_attr.wait = target_attr.wait = wait;
	source_attr.stall_timeout_ms = target_attr.stall_timeout_ms = 3 *
	    LONG_MS;
	pair->n_tuples = n_tuples;
	snprintf(pair->name, sizeof(pair->name), "f%u", number);
	create_kv_flow(rig.dfi, pair->name, 1, 1, 1, 2);
	cr_assert_eq(dfi_target_open(
			 rig.dfi, pair->name, 0, &target_attr, &pair->target),
	    0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_open(
			 rig.other, pair->name, 0, &source_attr, &pair->source),
	    0, "%s", dfi_errmsg());
}

static void start_target(struct pair *pair)
{
	cr_assert_eq(
	    pthread_create(&pair->threads[1], NULL, run_target, pair), 0);
}

static void start_source(struct pair *pair)
{
	cr_assert_eq(
	    pthread_create(&pair->threads[0], NULL, run_source, pair), 0);
}

/* Both ends of a pair have ended well. */
static void join_pair(struct pair *pair)
{
	pthread_join(pair->threads[0], NULL);
	pthread_join(pair->threads[1], NULL);
	cr_assert_eq(pair->source_ret, 0, "%s: source: %d", pair->name,
	    pair->source_ret);
	cr_assert_eq(pair->target_ret, 0, "%s: target: %d", pair->name,
	    pair->target_ret);
	cr_assert_eq(pair->received.tuples, pair->n_tuples);
	cr_assert_eq(dfi_target_close(pair->target), 0);
}

static void expect_little_spinning(
    const char *role, uint32_t i, uint64_t polls, uint64_t stalls)
{
	cr_assert_geq(stalls, 1);
	cr_assert_leq(polls, CROWDED_POLLS * stalls,
	    "%s: %s: %lu polls in %lu stalls", pairs[i].name, role,
	    (unsigned long)polls, (unsigned long)stalls);
}

Test(crowd, of_adaptive_pairs_hardly_spins)
{
	uint32_t i, n = fewer(N_TUPLES);

	for (i = 0; i < MAX_PAIRS; i++)
		open_pair(i, DFI_WAIT_ADAPTIVE, n);
	for (i = 0; i < MAX_PAIRS; i++) {
		start_target(&pairs[i]);
		start_source(&pairs[i]);
	}
	for (i = 0; i < MAX_PAIRS; i++)
		join_pair(&pairs[i]);
	for (i = 0; i < MAX_PAIRS; i++) {
		expect_little_spinning(
		    "source", i, pairs[i].sent.polls, pairs[i].sent.stalls);
		expect_little_spinning("target", i, pairs[i].received.polls,
		    pairs[i].received.stalls);
	}
}

static int count_sleepers(void *arg, const struct dfi_node_stats *stats)
{
	uint32_t i;

	for (i = 0; i < stats->n_endpoints; i++)
		*(uint32_t *)arg += stats->endpoints[i].role ==
			DFI_ROLE_TARGET &&
		    stats->endpoints[i].sleeps;
	return 0;
}

static bool all_targets_sleep(void *arg)
{
	uint32_t n = 0;

	(void)arg;
	return dfi_stats_list(rig.dfi, count_sleepers, &n) == 0 &&
	    n == MAX_PAIRS;
}

/* The working thread should have the processor. */
Test(crowd, of_idle_adaptive_targets_sleeps)
{
	uint32_t i;

	for (i = 0; i < MAX_PAIRS; i++) {
		open_pair(i, DFI_WAIT_ADAPTIVE, 1);
		start_target(&pairs[i]);
	}
	cr_assert(eventually(all_targets_sleep, NULL));
	for (i = 0; i < MAX_PAIRS; i++)
		start_source(&pairs[i]);
	for (i = 0; i < MAX_PAIRS; i++)
		join_pair(&pairs[i]);
}

/* The kernel takes the processor from a thread that never gives it up. */
Test(crowd, with_spinning_pairs_goes_on)
{
	uint32_t i, n = fewer(100);

	for (i = 0; i < MAX_PAIRS / 2; i++)
		open_pair(i, i % 2 ? DFI_WAIT_ADAPTIVE : DFI_WAIT_SPIN, n);
	for (i = 0; i < MAX_PAIRS / 2; i++) {
		start_target(&pairs[i]);
		start_source(&pairs[i]);
	}
	for (i = 0; i < MAX_PAIRS / 2; i++)
		join_pair(&pairs[i]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving a flow before its end, on purpose: targets that cancel while sources
 * and the other targets continue, and endpoints that another thread aborts.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

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

/* Leaving on purpose closes no connection: others still use it. */
static void check_connections(void)
{
	struct dfi *const dfis[] = { rig.dfi, rig.other };
	size_t i;

	for (i = 0; i < N_ELEMENTS(dfis); i++)
		cr_assert_eq(device_stats(dfis[i]).broken_connections, 0);
}

TestSuite(close, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(abort, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(cancel, .init = setup, .fini = teardown, .timeout = 300);

enum {
	N_TARGETS = 4,
	N_TUPLES = 40000,
	LEAVES = 1, /* the target that leaves */
};

static struct dfi_target *targets[N_TARGETS];

static void open_targets(uint32_t n, uint32_t flags)
{
	uint32_t t;

	for (t = 0; t < n; t++)
		targets[t] = open_target(rig.other, "f", t, flags);
}

struct consumer {
	pthread_t thread;
	struct dfi_target *target;
	uint64_t leave_after; /* 0: never */
	uint64_t n, sum;
	int ret; /* of the consuming call that ended it */
};

static void *consume_all(void *arg)
{
	struct consumer *consumer = arg;
	const struct kv *kv;
	const void *tuple;

	for (;;) {
		if (consumer->leave_after &&
		    consumer->n == consumer->leave_after) {
			consumer->ret = dfi_target_cancel(consumer->target);
			break;
		}
		consumer->ret = dfi_target_consume(consumer->target, &tuple);
		if (consumer->ret <= 0)
			break;
		kv = tuple;
		consumer->n++;
		consumer->sum += kv->val;
	}
	return NULL;
}

static struct consumer consumers[N_TARGETS];

static void start_consumers(uint64_t leave_after)
{
	uint32_t t;

	for (t = 0; t < N_TARGETS; t++) {
		consumers[t] = (struct consumer){ .target = targets[t] };
		if (t == LEAVES)
			consumers[t].leave_after = leave_after;
		cr_assert_eq(pthread_create(&consumers[t].thread, NULL,
				 consume_all, &consumers[t]),
		    0);
	}
}

struct sent {
	uint64_t n[N_TARGETS], sum[N_TARGETS], refused[N_TARGETS];
};

/*
 * Push all tuples to their targets, and note the targets that don't want any.
 */
static void push_all(struct dfi_source *source, struct sent *sent)
{
	struct kv kv;
	uint32_t t;
	int ret;

	for (kv.key = 0; kv.key < N_TUPLES; kv.key++) {
		kv.val = mix(kv.key, 1);
		t = dfi_hash64_partition(kv.key, N_TARGETS);
		ret = dfi_source_push(source, &kv);
		if (ret == -EPIPE) {
			sent->refused[t]++;
			continue;
		}
		cr_assert_eq(ret, 0, "%s", dfi_errmsg());
		sent->n[t]++;
		sent->sum[t] += kv.val;
	}
}

static void check_consumers(const struct sent *sent, uint64_t left_after)
{
	uint32_t t;

	for (t = 0; t < N_TARGETS; t++) {
		cr_assert_eq(pthread_join(consumers[t].thread, NULL), 0);
		cr_assert_eq(consumers[t].ret, 0, "target %u", t);
		if (t == LEAVES) {
			cr_assert_eq(consumers[t].n, left_after);
			cr_assert_gt(sent->refused[t], 0);
		} else {
			cr_assert_eq(consumers[t].n, sent->n[t]);
			cr_assert_eq(consumers[t].sum, sent->sum[t]);
			cr_assert_eq(sent->refused[t], 0);
		}
		cr_assert_eq(dfi_target_close(targets[t]), 0);
	}
}

Test(cancel, of_one_of_four_targets_leaves_the_others_complete)
{
	uint64_t percent = N_TUPLES / N_TARGETS / 100;
	struct sent sent = { .n = { 0 } };
	struct dfi_source *source;

	create_kv_flow(rig.dfi, "f", 1, N_TARGETS, 8, 4);
	open_targets(N_TARGETS, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	start_consumers(percent);
	push_all(source, &sent);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	check_consumers(&sent, percent);
	check_connections();
}

/* The source sleeps on the full ring of the target that leaves. */
Test(cancel, ends_the_wait_for_the_target)
{
	struct consumer consumer = { .leave_after = 1 };
	struct kv kv = { 1, 1 };
	struct dfi_source *source;
	int ret, i;

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 2);
	open_targets(1, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	consumer.target = targets[0];
	cr_assert_eq(
	    pthread_create(&consumer.thread, NULL, consume_all, &consumer), 0);
	for (i = 0; i < 1000; i++) {
		ret = dfi_source_push(source, &kv);
		if (ret)
			break;
	}
	assert_error(ret, -EPIPE, "flow 'f'", "source 0", "target 0", "node",
	    "cancelled");
	cr_assert_lt(i, 1000);
	cr_assert_eq(pthread_join(consumer.thread, NULL), 0);
	cr_assert_eq(consumer.ret, 0);
	cr_assert_eq(dfi_source_push(source, &kv), -EPIPE);
	cr_assert_eq(dfi_source_flush(source), 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	check_connections();
}

static int push(struct dfi_source *source, uint32_t target)
{
	struct kv kv = { target, target };

	return dfi_source_push_to(source, target, &kv);
}

/* Push to target 0 until the source has noticed. */
static bool push_is_refused(void *arg)
{
	int ret = push(arg, 0);

	return ret == -EPIPE;
}

static void cancel_noticed(struct dfi_source *source)
{
	cr_assert_eq(dfi_target_cancel(targets[0]), 0, "%s", dfi_errmsg());
	cr_assert(eventually(push_is_refused, source));
}

Test(cancel, may_be_repeated_and_consuming_says_so)
{
	struct dfi_target_stats stats;
	struct dfi_source *source;
	struct dfi_batch batch;
	const void *tuple;

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	open_targets(1, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	cr_assert_eq(push(source, 0), 0);
	cr_assert_eq(push(source, 0), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	cr_assert_eq(consume_soon(targets[0], &tuple), 1);
	cr_assert_eq(dfi_target_cancel(targets[0]), 0);
	cr_assert_eq(dfi_target_cancel(targets[0]), 0);
	assert_error(dfi_target_consume(targets[0], &tuple), -ECANCELED,
	    "flow 'f'", "target 0", "dfi_target_cancel");
	cr_assert_eq(dfi_target_consume_batch(targets[0], &batch), -ECANCELED);
	dfi_target_query(targets[0], &stats);
	cr_assert_eq(stats.tuples, 1);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	cr_assert(eventually(push_is_refused, source));
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	assert_error(dfi_target_cancel(NULL), -EINVAL, "NULL");
	check_connections();
}

Test(cancel, waits_for_what_is_lent)
{
	struct dfi_target_cursor cursor;
	struct dfi_source *source;
	struct dfi_batch batch;
	int ret;

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	open_targets(1, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(push(source, 0), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	ret = dfi_target_consume_batch(targets[0], &batch);
	cr_assert_eq(ret, 1);
	assert_error(dfi_target_cancel(targets[0]), -EBUSY, "batch");
	dfi_target_release(targets[0], &batch);
	cursor = dfi_target_cursor_open(targets[0], sizeof(struct kv));
	assert_error(dfi_target_cancel(targets[0]), -EBUSY, "cursor");
	cr_assert_eq(dfi_target_cursor_close(cursor), 0);
	cr_assert_eq(push(source, 0), 0);
	cancel_noticed(source);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	check_connections();
}

/* Also after the cancelled target was closed and its memory is gone. */
Test(cancel, is_known_to_a_source_that_attaches_later)
{
	struct dfi_source *sources[2];
	const void *tuple;
	uint32_t i;

	create_kv_flow(rig.dfi, "f", 2, 2, 4, 4);
	open_targets(2, 0);
	sources[0] = open_source(rig.dfi, "f", 0, 0);
	cancel_noticed(sources[0]);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	sources[1] = open_source(rig.dfi, "f", 1, 0);
	for (i = 0; i < 2; i++) {
		assert_error(push(sources[i], 0), -EPIPE, "target 0", "node");
		cr_assert_eq(push(sources[i], 1), 0, "%s", dfi_errmsg());
		cr_assert_eq(
		    dfi_source_close(sources[i]), 0, "%s", dfi_errmsg());
		cr_assert_eq(dfi_target_consume(targets[1], &tuple), 1);
	}
	cr_assert_eq(dfi_target_consume(targets[1], &tuple), 0);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
	check_connections();
}

static void stop_registry(char *address, size_t size)
{
	snprintf(address, size, "%s", dfi_registry_address(rig.registry));
	cr_assert_eq(dfi_registry_stop(rig.registry), 0);
}

/* Both contexts have set their keys again. */
static bool all_are_back(void *arg)
{
	struct dfi_flow_info info;
	int ret = dfi_flow_lookup(rig.other, "f", &info);

	(void)arg;
	if (!ret)
		ret = dfi_flow_lookup(rig.dfi, "f", &info);
	return !ret && info.attached_sources == 1 && info.attached_targets == 2;
}

static void start_registry_again(const char *address)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;

	attr.listen = address;
	cr_assert_eq(
	    dfi_registry_start(&attr, &rig.registry), 0, "%s", dfi_errmsg());
	cr_assert(eventually(all_are_back, NULL), "%s", dfi_errmsg());
}

/*
 * Target 0 cancels while the registry is down, and closes after its return. A
 * source that attaches then knows, and continues without it.
 */
static void cancel_without_registry(bool again)
{
	struct dfi_source *sources[2];
	char address[128];
	const void *tuple;
	uint32_t i;

	create_kv_flow(rig.dfi, "f", 2, 2, 4, 4);
	open_targets(2, 0);
	sources[0] = open_source(rig.dfi, "f", 0, 0);
	stop_registry(address, sizeof(address));
	for (i = 0; i < 2; i++)
		assert_error(dfi_target_cancel(targets[0]), -ENOTCONN,
		    "flow 'f'", "target 0", "others won't");
	cr_assert(eventually(push_is_refused, sources[0]));
	start_registry_again(address);
	if (again)
		for (i = 0; i < 2; i++)
			cr_assert_eq(dfi_target_cancel(targets[0]), 0, "%s",
			    dfi_errmsg());
	cr_assert_eq(dfi_target_close(targets[0]), 0, "%s", dfi_errmsg());
	sources[1] = open_source(rig.dfi, "f", 1, 0);
	for (i = 0; i < 2; i++) {
		assert_error(push(sources[i], 0), -EPIPE, "target 0", "node");
		cr_assert_eq(push(sources[i], 1), 0, "%s", dfi_errmsg());
		cr_assert_eq(
		    dfi_source_close(sources[i]), 0, "%s", dfi_errmsg());
		cr_assert_eq(dfi_target_consume(targets[1], &tuple), 1);
	}
	cr_assert_eq(dfi_target_consume(targets[1], &tuple), 0);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
	check_connections();
}

Test(cancel, that_the_registry_missed_is_reported_by_the_next_call)
{
	cancel_without_registry(true);
}

Test(cancel, that_the_registry_missed_is_reported_by_closing)
{
	cancel_without_registry(false);
}

static int count_targets(void *arg, const struct dfi_node_info *info)
{
	*(uint32_t *)arg += info->n_targets;
	return 0;
}

static bool none_is_published(void *arg)
{
	uint32_t n = 0;

	(void)arg;
	cr_assert_eq(dfi_node_list(rig.dfi, count_targets, &n), 0);
	return n == 0;
}

/* Of closed targets, for sources that have not come. */
Test(cancel, is_published_until_no_source_is_to_come)
{
	struct dfi_source *sources[2];

	create_kv_flow(rig.dfi, "f", 2, 1, 4, 4);
	open_targets(1, 0);
	sources[0] = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(dfi_target_cancel(targets[0]), 0);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	cr_assert(!none_is_published(NULL));
	sources[1] = open_source(rig.dfi, "f", 1, 0);
	cr_assert(eventually(none_is_published, NULL));
	cr_assert_eq(dfi_source_close(sources[0]), 0);
	cr_assert_eq(dfi_source_close(sources[1]), 0);
	check_connections();
}

Test(cancel, leaves_nothing_to_the_next_flow_of_the_name)
{
	const void *tuple;
	struct dfi_source *source;
	uint32_t round;

	for (round = 0; round < 3; round++) {
		create_kv_flow(rig.dfi, "f", 2, 1, 4, 4);
		open_targets(1, 0);
		cr_assert_eq(dfi_target_cancel(targets[0]), 0);
		cr_assert_eq(dfi_target_close(targets[0]), 0);
		cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
		cr_assert(eventually(none_is_published, NULL));
	}
	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	open_targets(1, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	cr_assert_eq(push(source, 0), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_target_consume(targets[0], &tuple), 1);
	cr_assert_eq(dfi_target_consume(targets[0], &tuple), 0);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	/* And one that stays until its context closes. */
	create_kv_flow(rig.dfi, "g", 1, 1, 4, 4);
	targets[0] = open_target(rig.other, "g", 0, 0);
	cr_assert_eq(dfi_target_cancel(targets[0]), 0);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
}

/* The ways in, each with the target that left and the one that stayed. */
struct late_source {
	uint32_t delay; /* in yields */
	struct dfi_source *source;
	int ret;
	char text[512];
};

static void *open_late_source(void *arg)
{
	struct late_source *late = arg;

	yield_times(late->delay);
	late->ret = dfi_source_open(rig.dfi, "f", 1, NULL, &late->source);
	snprintf(late->text, sizeof(late->text), "%s", dfi_errmsg());
	return NULL;
}

/*
 * The target's region says that it is gone. That may be known before the
 * registry's entry, which says that the target wants no more.
 */
Test(cancel, while_a_source_attaches)
{
	uint32_t n_rounds = (uint32_t)test_setting("CANCELS", 200), round;
	struct dfi_source *first;
	struct late_source late;
	pthread_t thread;

	for (round = 0; round < n_rounds; round++) {
		create_kv_flow(rig.dfi, "f", 2, 1, 4, 4);
		targets[0] = open_target(rig.other, "f", 0, 0);
		first = open_source(rig.dfi, "f", 0, 0);
		late = (struct late_source){ .delay = round % 50 };
		pthread_create(&thread, NULL, open_late_source, &late);
		cr_assert_eq(
		    dfi_target_cancel(targets[0]), 0, "%s", dfi_errmsg());
		cr_assert_eq(
		    dfi_target_close(targets[0]), 0, "%s", dfi_errmsg());
		pthread_join(thread, NULL);
		cr_assert_eq(
		    late.ret, 0, "round %u: %d %s", round, late.ret, late.text);
		cr_assert_eq(dfi_source_close(late.source), 0);
		cr_assert_eq(dfi_source_close(first), 0);
		cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	}
	check_connections();
}

Test(cancel, is_reported_by_every_way_to_push)
{
	struct kv kvs[4] = { { 0, 0 } };
	struct dfi_source_cursor cursor;
	struct dfi_source *source;
	struct dfi_span span;
	const void *tuple;
	uint32_t i;

	create_kv_flow(rig.dfi, "f", 1, 2, 4, 4);
	open_targets(2, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	cancel_noticed(source);
	assert_error(dfi_source_claim(source, 0, &span), -EPIPE, "target 0");
	cr_assert_eq(dfi_source_claim(source, 1, &span), 0);
	*(struct kv *)span.tuples = (struct kv){ 1, 1 };
	cr_assert_eq(dfi_source_commit(source, &span, 1), 0);
	cursor = dfi_source_cursor_open(source, 0, sizeof(kvs[0]));
	cr_assert_eq(
	    dfi_source_cursor_push(&cursor, &kvs[0], sizeof(kvs[0])), -EPIPE);
	cr_assert_eq(dfi_source_cursor_close(cursor), -EPIPE);
	/* Two for the one that stayed, one for the other, one that stayed. */
	for (i = 0; i < 4; i++)
		for (kvs[i].key = i ? kvs[i - 1].key + 1 : 0;
		     dfi_hash64_partition(kvs[i].key, 2) != (i != 2);
		     kvs[i].key++)
			;
	cr_assert_eq(dfi_source_push_batch(source, kvs, 4), 2);
	assert_error(
	    dfi_source_push_batch(source, &kvs[2], 2), -EPIPE, "target 0");
	cr_assert_eq(dfi_source_push_batch(source, &kvs[3], 1), 1);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	for (i = 0; i < 4; i++)
		cr_assert_eq(dfi_target_consume(targets[1], &tuple), 1);
	cr_assert_eq(dfi_target_consume(targets[1], &tuple), 0);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	check_connections();
}

Test(cancel, lets_round_robin_go_on)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct kv kv = { 0, 0 };
	uint32_t i, n_refused = 0;
	struct dfi_source *source;
	const void *tuple;
	int ret;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &kv_schema;
	attr.n_sources = 1;
	attr.n_targets = 2;
	attr.routing = DFI_ROUTE_ROUND_ROBIN;
	attr.segment_size = 4 * sizeof(struct kv);
	attr.segment_count = 64;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	open_targets(2, 0);
	source = open_source(rig.dfi, "f", 0, 0);
	cancel_noticed(source);
	for (i = 0; i < 20; i++) {
		ret = dfi_source_push(source, &kv);
		cr_assert(!ret || ret == -EPIPE);
		n_refused += ret == -EPIPE;
	}
	cr_assert_eq(n_refused, 10);
	cr_assert_eq(dfi_source_close(source), 0);
	for (i = 0; i < 10; i++)
		cr_assert_eq(dfi_target_consume(targets[1], &tuple), 1);
	cr_assert_eq(dfi_target_consume(targets[1], &tuple), 0);
	cr_assert_eq(dfi_target_close(targets[1]), 0);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
	check_connections();
}

/* A thread that waits in a call until something ends it. */
struct waiter {
	pthread_t thread;
	struct dfi_source *source;
	struct dfi_target *target;
	int ret;
};

static void *push_until_it_ends(void *arg)
{
	struct waiter *waiter = arg;

	do
		waiter->ret = push(waiter->source, 0);
	while (!waiter->ret);
	return NULL;
}

static void *consume_until_it_ends(void *arg)
{
	struct waiter *waiter = arg;
	const void *tuple;

	do
		waiter->ret = dfi_target_consume(waiter->target, &tuple);
	while (waiter->ret > 0);
	return NULL;
}

static void open_to_wait(struct waiter *waiter, uint32_t wait)
{
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;

	source_attr.wait = target_attr.wait = wait;
	create_kv_flow(rig.dfi, "f", 1, 1, 4, 2);
	cr_assert_eq(
	    dfi_target_open(rig.other, "f", 0, &target_attr, &waiter->target),
	    0, "%s", dfi_errmsg());
	cr_assert_eq(
	    dfi_source_open(rig.dfi, "f", 0, &source_attr, &waiter->source), 0,
	    "%s", dfi_errmsg());
}

static void start_waiter(struct waiter *waiter, void *(*fn)(void *arg))
{
	cr_assert_eq(pthread_create(&waiter->thread, NULL, fn, waiter), 0);
	/* Most likely asleep by now; if not, the outcome is the same. */
	yield_times(1000);
}

static void end_waiter(struct waiter *waiter)
{
	int64_t start = now_ms();

	cr_assert_eq(pthread_join(waiter->thread, NULL), 0);
	cr_assert_lt(now_ms() - start, LONG_MS);
	cr_assert_eq(waiter->ret, -ECANCELED, "%d", waiter->ret);
}

static void abort_source_that_waits(uint32_t wait)
{
	struct waiter waiter = { .ret = 0 };
	const void *tuple;
	int ret;

	open_to_wait(&waiter, wait);
	start_waiter(&waiter, push_until_it_ends);
	dfi_source_abort(waiter.source);
	dfi_source_abort(waiter.source);
	end_waiter(&waiter);
	assert_error(push(waiter.source, 0), -ECANCELED, "flow 'f'", "source 0",
	    "dfi_source_abort");
	cr_assert_eq(dfi_source_close(waiter.source), -ECANCELED);
	do
		ret = dfi_target_consume(waiter.target, &tuple);
	while (ret > 0);
	assert_error(ret, -ECANCELED, "source 0", "aborted");
	cr_assert_eq(dfi_target_close(waiter.target), -ECANCELED);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

Test(abort, of_a_source_ends_its_wait)
{
	abort_source_that_waits(DFI_WAIT_ADAPTIVE);
	abort_source_that_waits(DFI_WAIT_BLOCK);
	abort_source_that_waits(DFI_WAIT_SPIN);
}

static void abort_target_that_waits(uint32_t wait)
{
	struct waiter waiter = { .ret = 0 };
	const void *tuple;

	open_to_wait(&waiter, wait);
	start_waiter(&waiter, consume_until_it_ends);
	dfi_target_abort(waiter.target);
	dfi_target_abort(waiter.target);
	end_waiter(&waiter);
	assert_error(dfi_target_consume(waiter.target, &tuple), -ECANCELED,
	    "flow 'f'", "target 0", "dfi_target_abort");
	cr_assert_eq(dfi_target_close(waiter.target), -ECANCELED);
	cr_assert_eq(dfi_source_close(waiter.source), -ECONNRESET);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
}

/* Earlier segments of the others are not lost with it. */
Test(abort, of_a_source_leaves_what_the_others_had_sent)
{
	struct dfi_source *leaver, *sender;
	struct kv kv = { 0, 0 };
	const void *tuple;
	uint32_t i;

	create_kv_flow(rig.dfi, "f", 3, 1, 4, 8);
	/* Here the registry has named them when they are open. */
	targets[0] = open_target(rig.dfi, "f", 0, 0);
	leaver = open_source(rig.dfi, "f", 0, 0);
	sender = open_source(rig.dfi, "f", 1, 0);
	for (kv.val = 0; kv.val < 10; kv.val++)
		cr_assert_eq(dfi_source_push(sender, &kv), 0);
	cr_assert_eq(dfi_source_flush(sender), 0);
	cr_assert_eq(dfi_target_consume(targets[0], &tuple), 1);
	dfi_source_abort(leaver);
	cr_assert_eq(dfi_source_close(leaver), -ECANCELED);
	for (i = 1; i < 10; i++) {
		cr_assert_eq(dfi_target_consume(targets[0], &tuple), 1,
		    "%u: %s", i, dfi_errmsg());
		cr_assert_eq(((const struct kv *)tuple)->val, i);
	}
	assert_error(dfi_target_consume(targets[0], &tuple), -ECANCELED,
	    "source 0 (node", "aborted");
	assert_error(dfi_target_close(targets[0]), -ECANCELED, "source 0");
	cr_assert_eq(dfi_source_close(sender), -ECONNRESET);
}

Test(abort, of_a_target_ends_its_wait)
{
	abort_target_that_waits(DFI_WAIT_ADAPTIVE);
	abort_target_that_waits(DFI_WAIT_BLOCK);
	abort_target_that_waits(DFI_WAIT_SPIN);
}

Test(abort, does_nothing_without_a_handle)
{
	dfi_source_abort(NULL);
	dfi_target_abort(NULL);
}

Test(abort, leaves_a_context_busy_until_the_handle_is_closed)
{
	struct dfi *third = rig_join(&rig);
	struct dfi_target *target;

	create_kv_flow(rig.dfi, "g", 1, 1, 4, 2);
	target = open_target(third, "g", 0, 0);
	dfi_target_abort(target);
	assert_error(dfi_close(third), -EBUSY, "1 sources, targets, barriers");
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
	cr_assert_eq(dfi_close(third), 0);
}

/* Over shared memory it is there at once; over RDMA in time, here. */
Test(close, with_a_deadline_delivers_all)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;
	const void *tuple;

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	open_targets(1, 0);
	attr.close_timeout_ms = LONG_MS;
	cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, &attr, &source), 0);
	cr_assert_eq(push(source, 0), 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_consume(targets[0], &tuple), 1);
	cr_assert_eq(dfi_target_consume(targets[0], &tuple), 0);
	cr_assert_eq(dfi_target_close(targets[0]), 0);
}

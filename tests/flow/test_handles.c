/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unusable handles: those of another kind, and those that a forked child
 * inherits, while the parent's stream continues.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

TestSuite(handles, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_source *source;
static struct dfi_target *target;

/* A 1:1 flow with both ends open. */
static void open_both(uint32_t segment_tuples, uint32_t segment_count)
{
	create_kv_flow(rig.dfi, "f", 1, 1, segment_tuples, segment_count);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
}

static int push(uint64_t number)
{
	struct kv kv = { number, number };

	return dfi_source_push(source, &kv);
}

static int consume(void)
{
	const void *tuple;

	return consume_soon(target, &tuple);
}

static void close_both(void)
{
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	while (consume() > 0)
		;
	cr_assert_eq(consume(), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(handles, of_another_kind_are_refused)
{
	open_both(2, 2);
	assert_error(dfi_source_flush((struct dfi_source *)(void *)rig.dfi),
	    -EINVAL, "another kind: this call takes a");
	assert_error(dfi_close((struct dfi *)(void *)source), -EINVAL,
	    "another kind: this call takes a");
	assert_error(dfi_source_close((struct dfi_source *)(void *)target),
	    -EINVAL, "another kind: this call takes a");
	assert_error(dfi_target_close((struct dfi_target *)(void *)source),
	    -EINVAL, "another kind: this call takes a");
	close_both();
}

Test(handles, that_were_closed_are_known_as_such)
{
	struct dfi_target_group *group;
	struct dfi_barrier *barrier;
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *dfi;

	open_both(2, 2);
	close_both();
	assert_error(
	    dfi_source_close(source), -EBADF, "source was closed before");
	assert_error(
	    dfi_target_close(target), -EBADF, "target was closed before");
	cr_assert_eq(push(1), -EBADF);
	cr_assert_eq(consume(), -EBADF);
	cr_assert_eq(dfi_source_flush(source), -EBADF);
	cr_assert_eq(dfi_target_cancel(target), -EBADF);
	dfi_source_abort(source);
	dfi_target_abort(target);
	cr_assert_eq(dfi_target_group_open(rig.dfi, NULL, &group), 0);
	cr_assert_eq(dfi_target_group_close(group), 0);
	cr_assert_eq(dfi_target_group_close(group), -EBADF);
	cr_assert_eq(dfi_barrier_open(rig.dfi, "b", 1, 0, &barrier), 0);
	cr_assert_eq(dfi_barrier_close(barrier), 0);
	cr_assert_eq(dfi_barrier_close(barrier), -EBADF);
	attr.registry = dfi_registry_address(rig.registry);
	cr_assert_eq(dfi_open(&attr, &dfi), 0);
	cr_assert_eq(dfi_close(dfi), 0);
	assert_error(dfi_close(dfi), -EBADF, "context", "closed before");
}

/* They keep no memory beyond the last of them. */
Test(handles, that_were_closed_do_not_pile_up)
{
	struct dfi_target_group *group, *first;
	uint32_t i;

	cr_assert_eq(dfi_target_group_open(rig.dfi, NULL, &first), 0);
	cr_assert_eq(dfi_target_group_close(first), 0);
	for (i = 0; i < 1000; i++) {
		cr_assert_eq(dfi_target_group_open(rig.dfi, NULL, &group), 0);
		cr_assert(i >= 64 || group != first,
		    "%u closed since, and the address is used again", i);
		if (group == first)
			break;
		cr_assert_eq(dfi_target_group_close(group), 0);
	}
	cr_assert_lt(i, 1000, "its page is never given back");
	cr_assert_eq(dfi_target_group_close(group), 0);
}

static void *abort_both(void *arg)
{
	_Atomic bool *stop = arg;

	while (!*stop) {
		dfi_source_abort(source);
		dfi_target_abort(target);
	}
	return NULL;
}

/* Before, while and after they close, as the headers allow. */
Test(handles, may_be_aborted_any_number_of_times_while_they_close)
{
	uint32_t rounds = 200, round;
	_Atomic bool stop;
	pthread_t thread;
	int ret;

	for (round = 0; round < rounds; round++) {
		open_both(2, 2);
		stop = false;
		cr_assert_eq(
		    pthread_create(&thread, NULL, abort_both, &stop), 0);
		(void)push(round);
		ret = dfi_source_close(source);
		cr_assert(ret == 0 || ret == -ECANCELED, "%d", ret);
		ret = dfi_target_close(target);
		cr_assert(ret == 0 || ret == -ECANCELED, "%d", ret);
		stop = true;
		pthread_join(thread, NULL);
		cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	}
}

static void *open_patiently(void *arg)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *late;
	_Atomic bool *begun = arg;

	attr.open_timeout_ms = 60000;
	*begun = true;
	if (dfi_source_open(rig.dfi, "g", 0, &attr, &late) < 0 ||
	    dfi_source_close(late) < 0)
		return arg;
	return NULL;
}

/* A waiting call of one thread holds up no other thread's endpoints. */
Test(handles, close_and_abort_while_another_thread_waits_on_the_context)
{
	_Atomic bool begun = false;
	struct dfi_target *late[2];
	pthread_t thread;
	const void *tuple;
	void *failed;
	uint32_t i;

	create_kv_flow(rig.dfi, "g", 1, 2, 2, 2);
	late[0] = open_target(rig.dfi, "g", 0, 0);
	cr_assert_eq(pthread_create(&thread, NULL, open_patiently, &begun), 0);
	while (!begun)
		sched_yield();
	open_both(2, 2);
	close_both();
	cr_assert_eq(dfi_flow_remove(rig.dfi, "f"), 0);
	open_both(2, 2);
	dfi_source_abort(source);
	dfi_source_abort(source);
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
	dfi_target_abort(target);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
	cr_assert_eq(dfi_close(rig.dfi), -EBUSY);
	/* This is what it waits for. */
	late[1] = open_target(rig.dfi, "g", 1, 0);
	cr_assert_eq(pthread_join(thread, &failed), 0);
	cr_assert_null(failed);
	for (i = 0; i < 2; i++) {
		cr_assert_eq(dfi_target_consume(late[i], &tuple), 0);
		cr_assert_eq(dfi_target_close(late[i]), 0);
	}
}

/* In a forked child: the number of the first call that did not refuse. */
static int try_all_in_child(struct dfi_batch *batch)
{
	struct dfi_flow_info info;
	struct dfi_source_stats source_stats;
	struct dfi_target_stats target_stats;
	struct dfi_source_cursor source_cursor;
	struct dfi_target_cursor target_cursor;
	struct dfi_span span;
	struct kv kv = { 7, 7 };
	struct dfi_batch other;
	const int results[] = {
		push(7),
		dfi_source_push_to(source, 0, &kv),
		dfi_source_push_batch(source, &kv, 1),
		dfi_source_claim(source, 0, &span),
		dfi_source_flush(source),
		dfi_source_close(source),
		consume(),
		dfi_target_consume_batch(target, &other),
		dfi_target_close(target),
		dfi_flow_lookup(rig.dfi, "f", &info),
		dfi_flow_remove(rig.dfi, "f"),
		dfi_close(rig.dfi),
		dfi_registry_stop(rig.registry),
	};
	size_t i;

	for (i = 0; i < N_ELEMENTS(results); i++)
		if (results[i] != -EOWNERDEAD)
			return (int)i + 1;
	source_cursor = dfi_source_cursor_open(source, 0, sizeof(kv));
	if (!strstr(dfi_errmsg(), "before fork()"))
		return 100;
	if (dfi_source_cursor_push(&source_cursor, &kv, sizeof(kv)) !=
		-EOWNERDEAD ||
	    dfi_source_cursor_close(source_cursor) != -EOWNERDEAD)
		return 101;
	target_cursor = dfi_target_cursor_open(target, sizeof(kv));
	if (dfi_target_cursor_get(&target_cursor, sizeof(kv)) ||
	    dfi_target_cursor_close(target_cursor) != -EOWNERDEAD)
		return 102;
	dfi_source_query(source, &source_stats);
	dfi_target_query(target, &target_stats);
	if (source_stats.tuples || target_stats.tuples)
		return 103;
	dfi_target_release(target, batch);
	dfi_source_abort(source);
	return 0;
}

static void in_child(
    int (*fn)(struct dfi_batch *batch), struct dfi_batch *batch)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(fn(batch));
	cr_assert_gt(pid, 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status), "the child was killed by signal %d",
	    WTERMSIG(status));
	cr_assert_eq(
	    WEXITSTATUS(status), 0, "call number %d", WEXITSTATUS(status));
}

Test(handles, of_the_parent_are_dead_in_a_forked_child)
{
	struct dfi_batch batch;
	const struct kv *kvs;

	open_both(2, 4);
	cr_assert_eq(push(1), 0);
	cr_assert_eq(push(2), 0);
	cr_assert_eq(push(3), 0);
	cr_assert_eq(consume_batch_soon(target, &batch), 2);
	in_child(try_all_in_child, &batch);
	/* The parent's stream is as it was. */
	kvs = batch.tuples;
	cr_assert_eq(kvs[0].val, 1);
	cr_assert_eq(kvs[1].val, 2);
	dfi_target_release(target, &batch);
	cr_assert_eq(push(4), 0);
	cr_assert_eq(push(5), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

/* A child that takes part opens its own context. */
static int join_in_child(struct dfi_batch *batch)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *dfi;

	(void)batch;
	attr.registry = dfi_registry_address(rig.registry);
	if (dfi_open(&attr, &dfi) ||
	    dfi_source_open(dfi, "f", 0, NULL, &source))
		return 1;
	if (push(9) || dfi_source_close(source) || dfi_close(dfi))
		return 2;
	return 0;
}

Test(handles, of_its_own_serve_a_forked_child)
{
	const char *transport = getenv("DFI_TRANSPORT");
	const void *tuple;

	if (transport && !strcmp(transport, "verbs"))
		cr_skip_test("no RDMA in a child of a process that used it");
	create_kv_flow(rig.dfi, "f", 1, 1, 4, 4);
	target = open_target(rig.dfi, "f", 0, 0);
	in_child(join_in_child, NULL);
	cr_assert_eq(dfi_target_consume(target, &tuple), 1);
	cr_assert_eq(((const struct kv *)tuple)->val, 9);
	cr_assert_eq(consume(), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

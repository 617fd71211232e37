/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal handler ends waiting calls: which call gets it, that it gets it
 * once, and that nothing is lost. stress_interrupts tests interrupts at any
 * moment.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "flow_help.h"

static struct rig rig;
static struct dfi_source *source;
static struct dfi_target *target;
static struct dfi_target_group *group;
static struct dfi_combiner *combiner;

static void setup(void)
{
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(interrupt, .init = setup, .fini = teardown, .timeout = 300);

static void open_both(uint32_t flags)
{
	create_kv_flow(rig.dfi, "f", 1, 1, 2, 2);
	target = open_target(rig.dfi, "f", 0, flags);
	source = open_source(rig.dfi, "f", 0, flags);
}

static void close_both(void)
{
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0, "%s", dfi_errmsg());
}

static int push(void)
{
	struct kv kv = { 1, 1 };

	return dfi_source_push(source, &kv);
}

static int consume(void)
{
	const void *tuple;

	return dfi_target_consume(target, &tuple);
}

/* Push until the ring is full. A source that blocks is interrupted then. */
static int fill(void)
{
	int ret;

	do {
		ret = push();
	} while (!ret);
	return ret;
}

Test(interrupt, of_no_wait_ends_the_next_one_once)
{
	struct kv kvs[8] = { { 1, 1 } };

	open_both(0);
	dfi_source_interrupt(source);
	/* Pushes find room, and do not wait. */
	cr_assert_eq(push(), 0);
	cr_assert_eq(push(), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	/* The second tuple came with the first one. */
	cr_assert_eq(consume(), 1);
	dfi_target_interrupt(target);
	dfi_target_interrupt(target);
	cr_assert_eq(consume(), 1);
	assert_error(consume(), -EINTR, "dfi_target_interrupt()");
	cr_assert_geq(dfi_source_push_batch(source, kvs, 8), 1);
	assert_error(push(), -EINTR, "dfi_source_interrupt()");
	do {
		cr_assert_eq(consume(), 1);
		/*
		 * Otherwise it would wait for room that comes with the next
		 * tuple.
		 */
		dfi_source_interrupt(source);
	} while (push());
	/* A close goes on. */
	dfi_source_interrupt(source);
	close_both();
}

/* Refused as by -ETIMEDOUT: repeat it. */
Test(interrupt, of_a_push_that_is_not_repeated_fails_the_close)
{
	open_both(0);
	dfi_source_interrupt(source);
	assert_error(fill(), -EINTR, "dfi_source_interrupt()");
	assert_error(dfi_source_close(source), -EINTR, "not repeated");
	while (consume() > 0)
		;
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

Test(interrupt, comes_in_place_of_eagain_and_makes_a_descriptor_readable)
{
	struct pollfd pollfd = { .events = POLLIN };
	struct kv kv = { 1, 1 };
	const void *tuple;

	open_both(DFI_NONBLOCK);
	pollfd.fd = dfi_target_fd(target);
	cr_assert_geq(pollfd.fd, 0);
	cr_assert_eq(consume(), -EAGAIN);
	dfi_target_interrupt(target);
	cr_assert_eq(poll(&pollfd, 1, (int)LONG_MS), 1);
	cr_assert_eq(consume(), -EINTR);
	cr_assert_eq(consume(), -EAGAIN);
	dfi_source_interrupt(source);
	cr_assert_eq(fill(), -EINTR);
	cr_assert_eq(fill(), -EAGAIN);
	cr_assert_eq(consume_soon(target, &tuple), 1);
	cr_assert_eq(consume_soon(target, &tuple), 1);
	cr_assert_eq(consume_soon(target, &tuple), 1);
	cr_assert_eq(push_soon(source, &kv), 0);
	close_both();
}

Test(interrupt, of_a_cursor_leaves_it_open)
{
	struct dfi_source_cursor to;
	struct dfi_target_cursor from;
	struct kv kv = { 1, 1 };
	int ret;

	open_both(0);
	to = dfi_source_cursor_open(source, 0, sizeof(kv));
	dfi_source_interrupt(source);
	do {
		ret = dfi_source_cursor_push(&to, &kv, sizeof(kv));
	} while (!ret);
	cr_assert_eq(ret, -EINTR);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(dfi_source_cursor_push(&to, &kv, sizeof(kv)), 0);
	cr_assert_eq(dfi_source_cursor_close(to), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	cr_assert_eq(consume(), 1);
	from = dfi_target_cursor_open(target, sizeof(kv));
	cr_assert_not_null(dfi_target_cursor_get(&from, sizeof(kv)));
	dfi_target_interrupt(target);
	cr_assert_null(dfi_target_cursor_get(&from, sizeof(kv)));
	cr_assert_eq(from.status, -EINTR);
	cr_assert_eq(dfi_target_cursor_close(from), -EINTR);
	close_both();
}

Test(interrupt, of_a_group_names_no_target_and_that_of_a_target_names_it)
{
	struct dfi_target_group_batch batch;

	open_both(0);
	cr_assert_eq(dfi_target_group_open(rig.dfi, NULL, &group), 0);
	cr_assert_eq(dfi_target_group_add(group, target, NULL), 0);
	dfi_target_group_interrupt(group);
	assert_error(dfi_target_group_consume_batch(group, &batch), -EINTR,
	    "dfi_target_group_interrupt()");
	cr_assert_null(batch.target);
	dfi_target_interrupt(target);
	assert_error(dfi_target_group_consume_batch(group, &batch), -EINTR,
	    "dfi_target_interrupt()");
	cr_assert_eq(batch.target, target);
	cr_assert_eq(push(), 0);
	cr_assert_eq(dfi_source_flush(source), 0);
	cr_assert_eq(dfi_target_group_consume_batch(group, &batch), 1);
	dfi_target_group_release(group, &batch);
	cr_assert_eq(dfi_target_group_close(group), 0);
	/* Known as closed. */
	dfi_target_group_interrupt(group);
	close_both();
}

Test(interrupt, of_a_barrier_leaves_the_round_to_the_next_call)
{
	struct dfi_barrier *members[2];

	cr_assert_eq(dfi_barrier_open(rig.dfi, "b", 2, 0, &members[0]), 0);
	dfi_barrier_interrupt(members[0]);
	assert_error(dfi_barrier_wait(members[0], 0), -EINTR, "barrier 'b'",
	    "dfi_barrier_interrupt()");
	cr_assert_eq(dfi_barrier_open(rig.dfi, "b", 2, 1, &members[1]), 0);
	dfi_barrier_interrupt(members[0]);
	cr_assert_eq(dfi_barrier_wait(members[0], 0), -EINTR);
	cr_assert_eq(dfi_barrier_wait(members[1], 0), 0);
	cr_assert_eq(dfi_barrier_wait(members[0], 0), 0);
	cr_assert_eq(dfi_barrier_close(members[0]), 0);
	cr_assert_eq(dfi_barrier_close(members[1]), 0);
	dfi_barrier_interrupt(members[0]);
}

Test(interrupt, of_a_combiner_ends_its_run)
{
	static const struct dfi_aggregate sum = {
		.function = DFI_SUM, .field = "val", .name = "sum"
	};
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	attr.kind = DFI_COMBINE;
	attr.schema = &kv_schema;
	attr.n_sources = attr.n_targets = 1;
	attr.combine.aggregates = &sum;
	attr.combine.n_aggregates = 1;
	attr.combine.group_by = "key";
	attr.combine.fan_in = 2;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	target = open_target(rig.dfi, "f", 0, 0);
	cr_assert_eq(dfi_combiner_open(rig.dfi, "f", 0, NULL, &combiner), 0);
	source = open_source(rig.dfi, "f", 0, 0);
	dfi_combiner_interrupt(combiner);
	cr_assert_eq(dfi_combiner_run(combiner), -EINTR);
	cr_assert_eq(push(), 0);
	cr_assert_eq(dfi_source_close(source), 0);
	cr_assert_eq(dfi_combiner_run(combiner), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_combiner_close(combiner), 0);
	cr_assert_eq(consume(), 1);
	cr_assert_eq(consume(), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

/* ---- Handlers --------------------------------------------------------------
 */

static _Atomic int kept_errno;

static void abort_target(int number)
{
	(void)number;
	errno = EDOM;
	dfi_target_abort(target);
	atomic_store(&kept_errno, errno);
}

static void *consume_to_the_end(void *result)
{
	*(int *)result = consume();
	return NULL;
}

static bool sleeps(void *arg)
{
	struct dfi_target_stats stats;

	(void)arg;
	dfi_target_query(target, &stats);
	return stats.sleeps > 0;
}

Test(interrupt, abort_in_a_handler_ends_a_wait)
{
	struct sigaction action = { .sa_handler = abort_target,
		.sa_flags = SA_RESTART };
	struct sigaction before;
	pthread_t thread;
	int ret = 0;

	open_both(0);
	sigaction(SIGUSR1, &action, &before);
	cr_assert_eq(
	    pthread_create(&thread, NULL, consume_to_the_end, &ret), 0);
	cr_assert(eventually(sleeps, NULL));
	pthread_kill(thread, SIGUSR1);
	pthread_join(thread, NULL);
	sigaction(SIGUSR1, &before, NULL);
	cr_assert_eq(ret, -ECANCELED);
	cr_assert_eq(atomic_load(&kept_errno), EDOM);
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of an ordered flow whose segments' positions come over a network: no
 * call waits longer for one than its handle may.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "../flow/flow_help.h"
#include "base/clock.h"
#include "base/notify.h"
#include "fake_network.h"
#include "flows/endpoint/source.h"

enum {
	SEGMENT = 4, /* tuples */
	SEGMENTS = 16,
};

static struct rig rig;
static struct dfi_target *target;

/* Before anything else. */
__attribute__((constructor)) static void set_transport(void)
{
	setenv("DFI_TRANSPORT", "verbs", 1);
}

static void setup(void)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	/*
	 * Only arrivals make a descriptor readable; the passing of time does
	 * not.
	 */
	dfi__notify_longest_ns = LONG_MS * NS_PER_MS;
	rig_start(&rig);
	attr.kind = DFI_REPLICATE;
	attr.replicate.method = DFI_REPLICATION_MULTICAST;
	attr.replicate.ordered = 1;
	attr.schema = &kv_schema;
	attr.n_sources = attr.n_targets = 1;
	attr.segment_size = SEGMENT * sizeof(struct kv);
	attr.segment_count = SEGMENTS;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
	target = open_target(rig.other, "f", 0, DFI_NONBLOCK);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(positions, .init = setup, .fini = teardown, .timeout = 300);

static struct dfi_source *open_with(const struct dfi_source_attr *attr)
{
	struct dfi_source *source;

	cr_assert_eq(dfi_source_open(rig.dfi, "f", 0, attr, &source), 0, "%s",
	    dfi_errmsg());
	return source;
}

static int push(struct dfi_source *source, uint64_t number)
{
	struct kv kv = { number, number };

	return dfi_source_push(source, &kv);
}

/* The last tuple fills a segment, whose position is on its way. */
static void fill_segment(struct dfi_source *source)
{
	uint64_t i;

	fake_network_hold_adds(true);
	for (i = 0; i < SEGMENT; i++)
		cr_assert_eq(push(source, i), 0, "%s", dfi_errmsg());
}

/* The target gets this many tuples in order, and the end; then close it. */
static void expect_tuples(uint64_t n)
{
	const void *tuple;
	uint64_t i;

	for (i = 0; i < n; i++) {
		cr_assert_eq(
		    consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
		cr_assert_eq(((const struct kv *)tuple)->key, i);
	}
	cr_assert_eq(consume_soon(target, &tuple), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

static void expect_canceled(void)
{
	const void *tuple;
	int ret;

	while ((ret = consume_soon(target, &tuple)) > 0)
		;
	cr_assert_eq(ret, -ECANCELED, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), -ECANCELED);
}

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, timeout_ms) == 1;
}

Test(positions, source_that_does_not_block_learns_that_one_is_on_its_way)
{
	struct dfi_source *source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	int fd = dfi_source_fd(source);

	cr_assert_geq(fd, 0);
	fill_segment(source);
	assert_error(
	    dfi_source_flush(source), -EAGAIN, "position in the order");
	assert_error(push(source, SEGMENT), -EAGAIN, "position in the order");
	cr_assert_not(is_readable(fd, 0));
	fake_network_hold_adds(false);
	cr_assert(is_readable(fd, LONG_MS));
	cr_assert_eq(push(source, SEGMENT), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_tuples(SEGMENT + 1);
}

Test(positions, wait_for_one_ends_after_the_stall_timeout)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;

	attr.stall_timeout_ms = 50;
	source = open_with(&attr);
	fill_segment(source);
	assert_error(push(source, SEGMENT), -ETIMEDOUT,
	    "flow 'f': source 0: the flow's sequencer, with target 0");
	assert_error(dfi_source_flush(source), -ETIMEDOUT, "sequencer");
	fake_network_hold_adds(false);
	/* Closing on another thread has time. */
	source->wait_time.timeout_ns = DEADLINE_NEVER;
	cr_assert_eq(push(source, SEGMENT), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_tuples(SEGMENT + 1);
}

static void *push_on(void *arg)
{
	struct dfi_source *source = arg;
	uint64_t i = 0;
	int ret;

	while ((ret = push(source, i)) == 0)
		i++;
	return (void *)(intptr_t)ret;
}

static bool is_asked_for(void *arg)
{
	return fake_network_adds() > *(const uint32_t *)arg;
}

Test(positions, abort_ends_the_wait_for_one)
{
	struct dfi_source *source = open_source(rig.dfi, "f", 0, 0);
	uint32_t before = fake_network_adds();
	pthread_t thread;
	void *ret;

	fake_network_hold_adds(true);
	cr_assert_eq(pthread_create(&thread, NULL, push_on, source), 0);
	cr_assert(eventually(is_asked_for, &before));
	dfi_source_abort(source);
	cr_assert_eq(pthread_join(thread, &ret), 0);
	cr_assert_eq((int)(intptr_t)ret, -ECANCELED);
	cr_assert_eq(dfi_source_close(source), -ECANCELED);
	expect_canceled();
}

static void *cancel_soon(void *arg)
{
	return (void *)(intptr_t)(eventually(is_asked_for, arg)
		? dfi_target_cancel(target)
		: -ETIMEDOUT);
}

Test(positions, nobody_waits_for_one_that_no_target_wants)
{
	struct dfi_source *source = open_source(rig.dfi, "f", 0, 0);
	uint32_t before = fake_network_adds();
	pthread_t thread;
	void *ret;

	fake_network_hold_adds(true);
	cr_assert_eq(pthread_create(&thread, NULL, cancel_soon, &before), 0);
	cr_assert_eq((int)(intptr_t)push_on(source), -EPIPE);
	cr_assert_eq(pthread_join(thread, &ret), 0);
	cr_assert_eq((int)(intptr_t)ret, 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(positions, descriptor_is_readable_if_no_target_wants_one)
{
	struct dfi_source *source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	int fd = dfi_source_fd(source);
	int ret;

	cr_assert_geq(fd, 0);
	fill_segment(source);
	assert_error(push(source, SEGMENT), -EAGAIN, "position in the order");
	cr_assert_not(is_readable(fd, 0));
	cr_assert_eq(dfi_target_cancel(target), 0);
	do
		cr_assert(is_readable(fd, LONG_MS));
	while ((ret = push(source, SEGMENT)) == -EAGAIN);
	cr_assert_eq(ret, -EPIPE);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

Test(positions, nobody_waits_for_one_after_a_target_has_gone)
{
	struct dfi_source *source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	int fd = dfi_source_fd(source);
	int ret;

	cr_assert_geq(fd, 0);
	fill_segment(source);
	assert_error(push(source, SEGMENT), -EAGAIN, "position in the order");
	cr_assert_eq(dfi_target_close(target), 0);
	do
		cr_assert(is_readable(fd, LONG_MS));
	while ((ret = push(source, SEGMENT)) == -EAGAIN);
	assert_error(ret, -ECONNRESET, "target 0");
	cr_assert_eq(dfi_source_close(source), -ECONNRESET);
}

Test(positions, close_waits_for_one_as_long_as_it_may)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;

	attr.close_timeout_ms = 50;
	attr.flags = DFI_NONBLOCK;
	source = open_with(&attr);
	fill_segment(source);
	assert_error(dfi_source_close(source), -ETIMEDOUT, "sequencer");
	expect_canceled();
}

Test(positions, close_of_a_source_that_does_not_block_has_the_last_one_sent)
{
	struct dfi_source *source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);

	fill_segment(source);
	fake_network_hold_adds(false);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_tuples(SEGMENT);
}

/* It asks for the position itself, and does all other work meanwhile. */
Test(positions, control_thread_does_not_wait_for_one)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	uint32_t before = fake_network_adds();
	struct dfi_source *source;
	const void *tuple;

	attr.linger_us = 100;
	source = open_with(&attr);
	fake_network_hold_adds(true);
	cr_assert_eq(push(source, 0), 0);
	cr_assert(eventually(is_asked_for, &before));
	/* What it answers. */
	create_kv_flow(rig.dfi, "g", 1, 1, SEGMENT, SEGMENTS);
	cr_assert_eq(dfi_target_consume(target, &tuple), -EAGAIN);
	fake_network_hold_adds(false);
	cr_assert_eq(consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
	cr_assert_eq(push(source, 1), 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
	cr_assert_eq(((const struct kv *)tuple)->key, 1);
	cr_assert_eq(consume_soon(target, &tuple), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_target_close(target), 0);
}

/* Its segment waits, and it never calls again. */
Test(positions, control_thread_sends_what_waits_for_one)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_source *source;
	const void *tuple;
	uint64_t i;

	attr.linger_us = LONG_MS * 1000;
	attr.flags = DFI_NONBLOCK;
	source = open_with(&attr);
	fill_segment(source);
	fake_network_hold_adds(false);
	for (i = 0; i < SEGMENT; i++)
		cr_assert_eq(
		    consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_tuples(0);
}

Test(positions, descriptor_is_readable_after_what_a_flush_waits_for)
{
	struct dfi_source *source = open_source(rig.dfi, "f", 0, DFI_NONBLOCK);
	int fd = dfi_source_fd(source);

	cr_assert_geq(fd, 0);
	fake_network_hold_adds(true);
	cr_assert_eq(push(source, 0), 0);
	assert_error(
	    dfi_source_flush(source), -EAGAIN, "position in the order");
	cr_assert_not(is_readable(fd, 0));
	fake_network_hold_adds(false);
	cr_assert(is_readable(fd, LONG_MS));
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_tuples(1);
}

Test(positions, cursor_holds_none)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	uint32_t before = fake_network_adds();
	struct dfi_source_cursor cursor;
	struct dfi_source *source;
	const void *tuple;
	struct kv kv = { 1, 1 };

	attr.linger_us = 100;
	attr.flags = DFI_NONBLOCK;
	source = open_with(&attr);
	fake_network_hold_adds(true);
	cr_assert_eq(push(source, 0), 0);
	cr_assert(eventually(is_asked_for, &before));
	cursor = dfi_source_cursor_open(source, DFI_ALL_TARGETS, sizeof(kv));
	cr_assert_eq(cursor.status, 0);
	fake_network_hold_adds(false);
	cr_assert_eq(consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
	cr_assert_eq(dfi_source_cursor_push(&cursor, &kv, sizeof(kv)), 0);
	cr_assert_eq(dfi_source_cursor_close(cursor), 0);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	cr_assert_eq(consume_soon(target, &tuple), 1, "%s", dfi_errmsg());
	cr_assert_eq(((const struct kv *)tuple)->key, 1);
	expect_tuples(0);
}
